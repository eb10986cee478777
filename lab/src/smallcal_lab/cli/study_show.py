"""``smallcal study show``: the tables of a run again, and its figures as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from smallcal import io
from smallcal.cli import options, terminal
from smallcal.cli.options import argument, option
from smallcal.errors import FileError, InputError, file_errors
from smallcal.io.atomic import atomic_path
from smallcal.plots.style import figure_of, require_matplotlib, to_svg
from smallcal_lab.cli.study_output import document_of, show_outcome
from smallcal_lab.plots.figures import study_figures
from smallcal_lab.studies import Outcome, Study
from smallcal_lab.studies.engine import finished

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = ("svg", "png")
_DPI = 150
#: By which a figure is known as one that may be drawn anew.
_DRAWN = "drawn by smallcal study show"


def study_show(
    run: Annotated[str, argument("RUN", "The folder of a finished run.")],
    figures: Annotated[
        str | None, option("DIR", "Also write the study's figures to this folder.")
    ] = None,
    metric: Annotated[
        str | None, option("NAME", "Metric of the figures. Default: the study's first.")
    ] = None,
    kind: Annotated[str, option(None, "Format of the figures: svg or png.", "--format")] = "svg",
    as_json: options.Json = False,
) -> None:
    """Print the tables of a finished run; the logits are not needed."""
    if figures is not None:  # what cannot be written is told before the tables are made
        if kind not in FORMATS:
            raise InputError(f"--format must be one of {', '.join(FORMATS)}; got {kind!r}")
        require_matplotlib()
    elif metric is not None:
        raise InputError("--metric is of figures; name a folder for them with --figures")
    about, outcome = finished(Path(run))
    terminal.note(*outcome.notes)
    drawn: dict[str, list[str]] = {}
    if figures is not None:
        drawn["figures"] = _write_figures(about, outcome, figures, metric=metric, kind=kind)
    if as_json:
        terminal.show_json({**document_of(about, run, outcome), **drawn})
        return
    show_outcome(about, outcome, run)
    terminal.say(*(f"Figure: {file}" for file in drawn.get("figures", ())))


def _write_figures(
    about: Study, outcome: Outcome, folder: str, *, metric: str | None, kind: str
) -> list[str]:
    """Write every figure that the study allows, and return their paths.

    One that cannot be drawn of these rows is told in a note; that none can be is an error.
    """
    written, reasons = [], []
    with terminal.progress("Drawing") as advance:
        for name, draw in study_figures(about, outcome.frame, metric=metric):
            try:
                axes = draw()
            except InputError as error:
                reasons.append(f"no figure {name}: {error}")
                continue
            written.append(_write(axes, Path(folder) / f"{name}.{kind}", kind))
            advance(1)
    if not written:
        raise InputError("; ".join(reasons))
    terminal.note(*reasons)
    return written


def _write(axes: Axes, file: Path, kind: str) -> str:
    """Write a figure whole or not at all."""
    io.make_folder(file.parent)
    _require_own(file)
    figure = figure_of(axes)
    with atomic_path(file) as path:
        if kind == "svg":
            path.write_text(f"{to_svg(figure)}<!-- {_DRAWN} -->\n", encoding="utf-8")
        else:
            figure.savefig(path, format=kind, dpi=_DPI, metadata={"Software": _DRAWN})
    return str(file)


def _require_own(file: Path) -> None:
    """Raise for a file that would be replaced, and that no study drew."""
    with file_errors(f"cannot write {file}"):
        if file.is_file() and _DRAWN.encode() not in file.read_bytes():
            raise FileError(
                f"{file} is there already, and no figure of a study; name another --figures"
            )
