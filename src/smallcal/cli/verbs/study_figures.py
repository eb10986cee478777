"""``smallcal study show RUN --figures DIR``: the figures of a run as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from smallcal.errors import FileError, InputError
from smallcal.io.atomic import atomic_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from smallcal.studies import Outcome, Study

FORMATS = ("svg", "png")
_DPI = 150


def require_figures(kind: str) -> None:
    """Raise one clear line where figures cannot be written, before hours are spent on tables."""
    from smallcal.plots.style import require_matplotlib

    if kind not in FORMATS:
        raise InputError(f"--format must be one of {', '.join(FORMATS)}; got {kind!r}")
    require_matplotlib()


def write_figures(
    about: Study, outcome: Outcome, folder: str, *, metric: str | None, kind: str
) -> list[str]:
    """Write every figure that the study allows, and return their paths.

    One that cannot be drawn of these rows is told in a note; that none can be is an error.
    """
    from smallcal.cli import terminal
    from smallcal.plots.studies.figures import study_figures

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
    for reason in reasons:
        terminal.note(reason)
    return written


def _write(axes: Axes, file: Path, kind: str) -> str:
    """Write a figure whole or not at all."""
    from smallcal.plots.style import figure_of, to_svg

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make {file.parent}: {error.strerror or error}") from None
    figure = figure_of(axes)
    with atomic_path(file) as path:
        if kind == "svg":
            path.write_text(to_svg(figure), encoding="utf-8")
        else:
            figure.savefig(path, format=kind, dpi=_DPI, metadata={"Software": None})
    return str(file)
