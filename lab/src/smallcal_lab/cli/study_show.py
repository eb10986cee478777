"""``smallcal study show``: the tables of a run again, and its figures as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from smallcal import io
from smallcal.cli import options, terminal
from smallcal.cli.options import argument, option
from smallcal.errors import FileError, InputError, file_errors
from smallcal.io.atomic import atomic_path
from smallcal.plots.style import figure_of, require_matplotlib, to_svg
from smallcal_lab.cli.study import document_of, show_outcome
from smallcal_lab.plots.figures import study_figures
from smallcal_lab.studies import Outcome, Study
from smallcal_lab.studies.engine import finished

FORMATS = ("svg", "png")
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
        drawn["figures"] = _write_figures(about, outcome, Path(figures), metric, kind)
    if as_json:
        terminal.show_json({**document_of(about, run, outcome), **drawn})
    else:
        show_outcome(about, outcome, run)
        terminal.say(*(f"Figure: {file}" for file in drawn.get("figures", ())))


def _write_figures(
    about: Study, outcome: Outcome, folder: Path, metric: str | None, kind: str
) -> list[str]:
    """Write every figure that the study allows, and return their paths.

    One that cannot be drawn of these rows is told in a note; that none can be is an error.
    """
    written, reasons = [], []
    with terminal.progress("Drawing") as advance:
        for name, draw in study_figures(about, outcome.frame, metric=metric):
            try:
                figure = figure_of(draw())
            except InputError as error:
                reasons.append(f"no figure {name}: {error}")
                continue
            file = folder / f"{name}.{kind}"
            io.make_folder(folder)
            with file_errors(f"cannot write {file}"):
                if file.is_file() and _DRAWN.encode() not in file.read_bytes():
                    raise FileError(
                        f"{file} is there already, and no figure of a study; name another --figures"
                    )
            with atomic_path(file) as path:
                if kind == "svg":
                    path.write_text(f"{to_svg(figure)}<!-- {_DRAWN} -->\n", encoding="utf-8")
                else:
                    figure.savefig(path, format=kind, dpi=150, metadata={"Software": _DRAWN})
            written.append(str(file))
            advance(1)
    if not written:
        raise InputError("; ".join(reasons))
    terminal.note(*reasons)
    return written
