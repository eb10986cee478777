"""Measure data that do not fit in memory, block by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smallcal import io
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.cli import inputs, model_predictions, terminal
from smallcal.cli.inputs import Asked
from smallcal.data.checks import FloatArray, IntArray, as_labels
from smallcal.data.score import ScoreScale
from smallcal.data.special import softmax
from smallcal.deploy.apply_in_parts import calibrated, uncalibrated
from smallcal.errors import InputError
from smallcal.io import Block, Source
from smallcal.io.layout import IGNORED, ignored_note, no_labels, renumbered
from smallcal.io.memory import fits
from smallcal.io.outcomes import as_outcomes as outcomes_of
from smallcal.io.progress import Advance
from smallcal.metrics import Scored
from smallcal.metrics.blocks import evaluate_blocks
from smallcal.statistics.agreement import Agreement


def source_of(
    data: str, fitted: FittedCalibrator | None, asked: Asked, *, resampled: bool
) -> Source | None:
    """Return the data as a source, or None where they are to be read at once.

    Resampling needs all probabilities at hand: such data are read at once if they fit.
    """
    found = inputs.in_pieces(data, fitted, asked)
    if found is None:
        return None
    choice = asked.choice(fitted)
    if asked.labels is not None:
        labels = io.read_labels(asked.labels, key=asked.truth, input=asked.kind)
        choice = replace(choice, labels=labels)
    source = io.open_source(found[0], prefix=found[1], choice=choice)
    if resampled and fits(source.rows * source.n_classes * 8):
        return None
    if fitted is not None:
        inputs.require_same_input(fitted, source.input, data)
        source = source.in_order_of(choice.known)
    terminal.note(*source.notes)
    return source


class Measured(NamedTuple):
    """Metrics, those of the model's own predictions where a calibrator judges them, and samples."""

    values: dict[str, float]
    own: dict[str, float] | None
    n: int


def measured(
    source: Source,
    fitted: FittedCalibrator | None,
    *,
    metrics: Sequence[str],
    asked: Asked,
    force: bool,
) -> Measured:
    """Return the metrics of a source, and how many samples it has."""
    rows = _Labelled(source, fitted, asked)
    with terminal.progress("Evaluating", source.rows) as advance:
        values, n = evaluate_blocks(rows.blocks(advance), metrics=metrics)
    if rows.ignored:
        terminal.note(ignored_note(source.path, source.rows, rows.ignored))
    inputs.judge_agreement(rows.counts, source.path, rows.classes, force=force)
    return Measured(values, model_predictions.measured(rows.own) if rows.own else None, n)


class _Labelled:
    """The rows of a source with their labels; counts how the two agree as they go by."""

    def __init__(self, source: Source, fitted: FittedCalibrator | None, asked: Asked) -> None:
        self._source, self._fitted, self._said = source, fitted, asked.kind
        self._given = _given(source, asked)
        own = None if fitted is None else fitted.class_names
        self.classes = source.class_names or own
        self.counts = Agreement(source.n_classes)
        self.ignored = 0
        self.own: list[Scored] = []

    def blocks(self, advance: Advance) -> Iterator[tuple[IntArray, FloatArray]]:
        """Yield labels and probabilities."""
        before = 0
        for part in self._source.parts():
            for block in self._source.blocks(part, carry=False):
                n = len(block.scores)
                labels = block.labels if self._given is None else self._given[before : before + n]
                assert labels is not None  # _given has seen to it
                before += n
                kept, labels = _without_ignored(block, labels)
                self.ignored += n - len(labels)
                if len(labels):
                    yield self._measured(kept, labels, part.shown)
                advance(n)
        if before and self.ignored == before:
            raise no_labels(self._source.path)

    def _measured(
        self, block: Block, labels: NDArray[Any], shown: str
    ) -> tuple[IntArray, FloatArray]:
        source, n = self._source, len(labels)
        if source.input == "score":
            return self._foretold(block, labels, shown)
        if source.order is not None:
            order = np.array(source.order)
            labels = renumbered(labels, order, ordered=source.ordered, source=source.path)
        with inputs.naming(shown):
            codes = as_labels(labels, n=n, n_classes=source.n_classes, class_names=self.classes)
        self.counts.add(codes, block.scores.argmax(axis=1))
        if self._fitted is None:
            kind = None if source.input == "logits" else source.input
            return codes, uncalibrated(block, self._said or kind, shown)
        rows = calibrated(self._fitted, block, shown)
        self.own.append(model_predictions.scored(codes, rows))
        return codes, rows.adjusted(self._fitted)

    def _foretold(
        self, block: Block, labels: NDArray[Any], shown: str
    ) -> tuple[IntArray, FloatArray]:
        """Return outcomes, and the probability of outcome 1."""
        codes, _ = outcomes_of(labels, source=shown, first_row=block.start)
        if self._fitted is not None:
            return codes, calibrated(self._fitted, block, shown).proba
        with inputs.naming(shown):
            return codes, softmax(ScoreScale("probability").columns(block.scores))[:, 1]


def _given(source: Source, asked: Asked) -> NDArray[Any] | None:
    """Return the labels of a file of their own, or None where the source has them."""
    if asked.labels is None:
        if source.label is None:
            raise InputError(
                f"{source.path} has no labels; put a column called labels into it or name their "
                "file with --labels",
                code="no-labels",
            )
        return None
    given = io.read_labels(asked.labels, key=asked.truth, input=asked.kind)
    if len(given) != source.rows:
        raise InputError(
            f"{source.path} has {source.rows} rows and {asked.labels} {len(given)} labels; there "
            "must be one label per row",
            code="rows-differ",
        )
    return given


def _without_ignored(block: Block, labels: NDArray[Any]) -> tuple[Block, NDArray[Any]]:
    """Return a block without rows of the label that means no label."""
    if labels.dtype.kind not in "if" or labels.ndim != 1:
        return block, labels
    kept = labels != IGNORED
    if bool(kept.all()):
        return block, labels
    return block._replace(scores=block.scores[kept]), labels[kept]
