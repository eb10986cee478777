"""Apply a calibrator to data that need not fit in memory, part by part.

A part gives the same bytes wherever it is done, here, in a process or on a Dask cluster, and is
written by whoever did it. So a run that is stopped, at any moment and in any way, goes on where it
was, and its result is the same to the byte as that of a run that was not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smallcal._version import __version__
from smallcal.advice.cost_table import CostTable
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.data.checks import as_probabilities, as_scores
from smallcal.data.masks import checked_logits
from smallcal.data.plain import plain
from smallcal.data.special import softmax
from smallcal.deploy.decided_rows import (
    PREDICTIONS,
    Known,
    Rows,
    decided,
    in_order,
    moved,
    predicted,
    priced,
    rows_of,
)
from smallcal.errors import FileError, InputError
from smallcal.io import Block, Part, Source, Target
from smallcal.io.parts import cleared_on_error, finish, is_finished, part_folder, write_part
from smallcal.io.pool import run_tasks
from smallcal.io.progress import Advance


@dataclass(frozen=True)
class Applied:
    """What became of a run.

    Attributes
    ----------
    rows : int
        Of the result.
    rows_before : int
        Of those, how many an earlier run had done.
    notes : tuple of str
    """

    rows: int
    rows_before: int
    notes: tuple[str, ...] = ()


class More(NamedTuple):
    """What is written of each row beside its probabilities.

    Attributes
    ----------
    temperature : bool
    decision : bool
        Whether each certified threshold accepts it, and which classes its sets hold.
    costs : CostTable or None
        The decision of least expected cost, and that cost, by these costs.
    """

    temperature: bool = False
    decision: bool = False
    costs: CostTable | None = None


_NO_MORE = More()


@dataclass(frozen=True)
class Order:
    """What is the same for all parts of a run; it travels to other processes.

    Attributes
    ----------
    calibrator : str
        Its artefact, as JSON.
    source : Source
    target : Target
    more : More
    """

    calibrator: str
    source: Source
    target: Target
    more: More = _NO_MORE


def apply_in_parts(
    fitted: FittedCalibrator,
    source: Source,
    target: Target,
    *,
    more: More = _NO_MORE,
    part_rows: int | None = None,
    jobs: int = 1,
    dask: str | None = None,
    advance: Advance = lambda rows: None,
) -> Applied:
    """Write the calibrated probabilities of a source; the output is complete or absent.

    Parquet and Arrow files get the predictions and their confidences as well: those of the
    calibrator, ``prediction`` and ``confidence``, and the model's own, ``model_prediction`` and
    ``model_confidence``. They take the place of columns that are called so already. For scores
    there is the probability of outcome 1 alone: a vector in .npy, a column ``probability``
    elsewhere.

    Parameters
    ----------
    fitted : FittedCalibrator
        It must treat each row by itself, and use nothing but its logits.
    source : Source
    target : Target
    more : More
        What else to write for each row.
    part_rows : int, optional
        Rows per part; by default as many as fit in 64 MB.
    jobs : int
        Number of processes.
    dask : str, optional
        Address of a Dask scheduler to run on instead; its workers must have access to the same
        folders.
    advance : callable, optional
        Called with the number of rows done.

    Raises
    ------
    InputError
        If a row is not finite, or the output holds parts of another run.

    Examples
    --------
    >>> import tempfile, smallcal
    >>> from pathlib import Path
    >>> from smallcal.io import open_source
    >>> folder = Path(tempfile.mkdtemp())
    >>> np.save(folder / "z.npy", np.eye(3))
    >>> cal = smallcal.Identity().fit([[2.0, 0.0, 0.0]] * 10, [0] * 10).fitted_
    >>> target = Target.of(str(folder / "p.npy"), "npy")
    >>> apply_in_parts(cal, open_source(folder / "z.npy"), target).rows
    3
    >>> np.load(folder / "p.npy")[0].round(2).tolist()
    [0.58, 0.21, 0.21]
    """
    _require_options(fitted, source, jobs, part_rows)
    source, replaced = _without_predictions(fitted, source)
    document = json.dumps(fitted.to_dict(), sort_keys=True)
    order = Order(document, source, target, more)
    parts = source.parts(part_rows)
    asked = _asked(order, part_rows)
    if is_finished(target, asked):
        advance(source.rows)
        return Applied(source.rows, source.rows)
    folder = part_folder(target)
    with folder.claimed() as certain:
        folder.begin(asked)
        with cleared_on_error(folder, target, parts):
            if certain:
                folder.sweep(parts)
            missing = folder.missing(parts)
            before = source.rows - sum(part.rows for part in missing)
            advance(before)
            _do(order, missing, jobs, dask, advance)
            finish(folder, target, parts)
    return Applied(source.rows, before, (*replaced, *folder.notes))


def _without_predictions(
    fitted: FittedCalibrator, source: Source
) -> tuple[Source, tuple[str, ...]]:
    """Leave out columns called as those of predictions; say which."""
    old = [name for name in source.others if name in PREDICTIONS and name != source.label]
    if not old or fitted.score is not None:
        return source, ()
    note = f"{source.path}: the columns {', '.join(old)} are replaced by those of the calibrator"
    kept = tuple(name for name in source.others if name not in old)
    return replace(source, others=kept), (note,)


def _require_options(
    fitted: FittedCalibrator, source: Source, jobs: int, part_rows: int | None
) -> None:
    if jobs < 1:
        raise InputError(f"jobs must be at least 1; got {jobs}", code="option-range")
    if part_rows is not None and part_rows < 1:
        raise InputError(f"part_rows must be at least 1; got {part_rows}", code="option-range")
    if not source.rows:
        raise InputError(f"{source.path} has no rows", code="empty")
    if source.n_classes != fitted.n_classes:
        raise InputError(
            f"{source.path}: {source.input} must have the {fitted.n_classes} columns this "
            f"calibrator was fitted on; got {source.n_classes}",
            code="columns-differ",
        )


def _asked(order: Order, part_rows: int | None) -> dict[str, Any]:
    """Return everything that the bytes of the result depend on."""
    source, target = order.source, order.target
    return {
        "smallcal version": __version__,
        "calibrator": hashlib.sha256(order.calibrator.encode()).hexdigest(),
        "input files": [[piece.name, *piece.stamp] for piece in source.pieces],
        "columns": [*source.scores, "|", *source.others],
        "input": source.input,
        "output": [target.kind, target.folder],
        "--with-temperature": order.more.temperature,
        **({"--with-decision": True} if order.more.decision else {}),
        "--part-rows": part_rows,
        **({} if order.more.costs is None else {"--cost": plain(order.more.costs)}),
    }


def _do(order: Order, parts: Sequence[Part], jobs: int, dask: str | None, advance: Advance) -> None:
    """Do parts; those done here tell of their rows block by block, others when they are done."""
    if dask is not None:
        target = replace(order.target, path=order.target.path.absolute())
        order = replace(order, target=target)
    here = dask is None and (jobs == 1 or len(parts) == 1)
    run_tasks(
        partial(work, order, advance=advance) if here else partial(work, order),
        parts,
        told=lambda part: None if here else advance(part.rows),
        named=lambda part: part.name,
        jobs=jobs,
        dask=dask,
    )


def work(order: Order, part: Part, *, advance: Advance = lambda rows: None) -> None:
    """Do one part; what a process, wherever it is, is told to do."""
    from threadpoolctl import threadpool_limits

    target = order.target
    if not target.work.is_dir():
        raise FileError(
            f"a worker cannot find {target.work}; all workers must have access to its folder",
            code="file-missing",
        )
    with threadpool_limits(1):
        write_part(target.part(part), target.part_kind, part.rows, _results(order, part, advance))


def _results(order: Order, part: Part, advance: Advance) -> Iterator[Any]:
    fitted = _calibrator(order.calibrator)
    for block in order.source.blocks(part, carry=order.target.kind != "npy"):
        rows = calibrated(fitted, block, part.shown)
        more: dict[str, NDArray[Any]] = {}
        if order.target.kind != "npy":
            more = predicted(fitted, rows, order.source.class_names or fitted.class_names)
        more |= priced(order.more.costs, rows.proba)
        if order.more.decision:
            more |= decided(fitted, rows, Known(block.scores))
        proba: NDArray[Any] = rows.adjusted(fitted)
        if order.source.order is not None:  # back to how the columns of the file stand
            back = np.argsort(order.source.order)
            proba, more = moved(proba, back), in_order(more, back)
        yield proba if order.target.kind == "npy" else _table(order, fitted, block, proba, more)
        advance(len(proba))
    part.require_unchanged()


@lru_cache(maxsize=1)
def _calibrator(document: str) -> FittedCalibrator:
    return FittedCalibrator.from_dict(json.loads(document), source="the calibrator")


def calibrated(fitted: FittedCalibrator, block: Block, shown: str) -> Rows:
    """Apply a calibrator to a block; what is wrong is named by file and row.

    Of scores it gives the probability of outcome 1.
    """
    try:
        if fitted.score is not None:
            return Rows(fitted.predict_score(block.scores), block.scores)
        if fitted.input == "logits":  # here, so that rows are counted from the file's first
            scores = as_scores(block.scores, input="logits")
            checked_logits(scores, name="logits", first_row=block.start)
        return rows_of(fitted, block.scores)
    except InputError as error:
        counted = fitted.input == "logits" or not block.start
        where = "" if counted else f" (counting from row {block.start} of the file)"
        raise error.about(f"{shown}{where}") from error


def uncalibrated(block: Block, input: str | None, shown: str) -> NDArray[Any]:
    """Return a block's own probabilities; what is wrong is named by file and row."""
    try:
        if input == "probabilities":
            return as_probabilities(block.scores, name=input)
        scores = as_scores(block.scores, input=input)
        scores, _ = checked_logits(scores, name=input or "logits", first_row=block.start)
    except InputError as error:
        raise error.about(shown) from error
    return softmax(scores)


def _table(
    order: Order,
    fitted: FittedCalibrator,
    block: Block,
    proba: NDArray[Any],
    more: Mapping[str, NDArray[Any]],
) -> Any:
    """Return the probabilities in the shape the scores had, and all other columns after them."""
    import pyarrow as pa

    source = order.source
    if fitted.score is not None:
        columns = {"probability": pa.array(np.ascontiguousarray(proba))}
    elif source.as_list:
        columns = {"probabilities": _lists(proba)}
    else:
        names = _names(source, fitted, proba.shape[1])
        columns = {f"prob_{name}": pa.array(proba[:, i]) for i, name in enumerate(names)}
        if len(columns) < len(names):
            raise InputError(
                "class_names must be different from one another to name columns",
                code="class-names-invalid",
            )
    if order.more.temperature:
        columns["temperature"] = pa.array(fitted.temperature(block.scores))
    for name, values in more.items():
        columns |= _beside(order, fitted, name, values)
    for name in source.others:
        if name in columns:
            raise InputError(
                f"{source.path} has a column called {name!r} already; rename it",
                code="file-ambiguous",
            )
        column = block.others[name]
        # An Arrow file has one dictionary per column, and blocks may come with different ones.
        plain = pa.types.is_dictionary(column.type)
        columns[name] = column.cast(column.type.value_type) if plain else column
    return pa.table(columns)


def _beside(
    order: Order, fitted: FittedCalibrator, name: str, values: NDArray[Any]
) -> dict[str, Any]:
    """Return the columns of a decision: one, or one for each class that a set may hold."""
    import pyarrow as pa

    if values.ndim == 1:
        return {name: pa.array(values.tolist() if values.dtype.kind == "U" else values)}
    if order.source.as_list:
        return {name: _lists(values)}
    each = _names(order.source, fitted, values.shape[1])
    return {f"{name}_{own}": pa.array(values[:, i]) for i, own in enumerate(each)}


def _lists(matrix: NDArray[Any]) -> Any:
    """Return a column with a list in each row."""
    import pyarrow as pa

    flat = pa.array(np.ascontiguousarray(matrix).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, matrix.shape[1])


def _names(source: Source, fitted: FittedCalibrator, width: int) -> list[object]:
    """Return what the columns of the classes are called, in the order of the file's."""
    names: list[object] = list(source.class_names or fitted.class_names or range(width))
    return names if source.order is None else [names[i] for i in np.argsort(source.order)]
