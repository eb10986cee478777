"""Curves of a metric, method by method: numbers from the tables, and how they are drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from smallcal.data import FloatArray
from smallcal.intervals import Interval
from smallcal.plots.runs import Run, true_names
from smallcal.plots.style import BAND_ALPHA, GREY, INK, SMALL, Look, figure_of, look, with_tips
from smallcal.studies.pairs import shown, verdict_on
from smallcal.studies.tables import Number, Table, scale_of, unit_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.transforms import Transform

#: What is said of the method that the others are compared with.
BASELINE = "baseline"

#: Verdicts under which a mark is drawn hollow.
_OPEN = ("tie", "no interval")

#: A difference so many times as large as the median method's leaves the scale.
_FAR = 4.0

#: Intervals of more methods than these are bars side by side, so many inches apart.
_MOST_BANDS = 4
_APART = 0.06
#: Room at the sides for the outermost of them, as a share of the width.
_ROOM = 0.1


@dataclass(frozen=True, eq=False)
class Line:
    """A method's numbers along an axis, in the units of the tables; NaN where there is none.

    Attributes
    ----------
    label : str
    value, spread : ndarray
        Mean over cells, and standard deviation (ddof = 0) over them, as in the table of means.
    difference, low, high : ndarray
        Paired difference from the baseline with its 95 % interval: models, seeds in each, draws
        (or shifted sets) in each are resampled, as in the table of differences.
    verdict : tuple of str
        ``better``, ``worse``, ``tie``, ``no interval`` or ``baseline``.
    wins : ndarray
        Percent of cells and draws in which the method is strictly better than the baseline.
    """

    label: str
    value: FloatArray
    spread: FloatArray
    difference: FloatArray
    low: FloatArray
    high: FloatArray
    verdict: tuple[str, ...]
    wins: FloatArray

    @property
    def band(self) -> tuple[FloatArray, FloatArray]:
        """The interval of the difference, put around the line; no width where it is the baseline.

        Where every model has as many seeds, it holds the baseline's value exactly in a tie.
        """
        own = np.array([verdict == BASELINE for verdict in self.verdict])
        below = np.where(own, 0.0, self.low - self.difference)
        above = np.where(own, 0.0, self.high - self.difference)
        return self.value + below, self.value + above

    @property
    def reach(self) -> float:
        """How far from zero the differences and their intervals lie at most."""
        ends = np.abs([self.difference, self.low, self.high])
        return float(np.nanmax(ends, initial=0.0))


@dataclass(frozen=True, eq=False)
class Curves:
    """A metric along an axis, for every method.

    Attributes
    ----------
    metric, unit, baseline : str
        The unit is the heading of the metric's column in the tables.
    x : ndarray
    names : tuple of str
        What is written at each place.
    lines : tuple of Line
    models : tuple of str
        Data sets and backbones that the numbers are of.
    n_cells : int
        How many these are with their seeds.
    left_out : tuple of str
        What was not measured everywhere, so that it is in no number here.
    methods : mapping of str to str
        What labels such as ``default`` stood for when they were fitted.
    """

    metric: str
    unit: str
    baseline: str
    x: FloatArray
    names: tuple[str, ...]
    lines: tuple[Line, ...]
    models: tuple[str, ...]
    n_cells: int
    left_out: tuple[str, ...] = ()
    methods: Mapping[str, str] = field(default_factory=dict)

    def line(self, label: str) -> Line:
        """Return a method's line."""
        return next(line for line in self.lines if line.label == label)


def curves_of(
    run: Run,
    x: FloatArray,
    names: tuple[str, ...],
    lines: tuple[Line, ...],
    left_out: tuple[str, ...] = (),
) -> Curves:
    """Put lines together with what they are of."""
    return Curves(
        run.metric,
        unit_of(run.metric),
        run.study.baseline,
        x,
        names,
        lines,
        models_in(run),
        len(run.frame.unique("cell")),
        left_out,
        true_names(run.frame),
    )


def models_in(run: Run) -> tuple[str, ...]:
    """Return the models of a run as the tables call them."""
    return tuple(f"{a} {b}" for (a, b), _ in run.frame.groups("dataset", "backbone"))


def pooled(run: Run, table: Table) -> Table:
    """Return the rows of all models together; those of the only one where there is one."""
    place = table.header.index("models")
    wanted = models_in(run) if len(models_in(run)) == 1 else ("all",)
    return replace(table, rows=tuple(row for row in table.rows if row[place] in wanted))


def numbers_by(table: Table, *names: str) -> dict[tuple[str, ...], tuple[Number, str]]:
    """Return the last number of each row, and its verdict if it has one, by columns of words.

    Examples
    --------
    >>> table = Table("means", "Means", ("method", "nll"), (("none", Number(1.0)),))
    >>> numbers_by(table, "method")[("none",)][0].value
    1.0
    """
    found = {}
    for row in table.rows:
        cells = dict(zip(table.header, row, strict=True))
        verdict = first_word(str(cells.get("verdict", "")))
        if isinstance(row[-1], Number):
            found[tuple(str(cells[name]) for name in names)] = (row[-1], verdict)
    return found


def line_of(
    label: str,
    means: Sequence[Number],
    gaps: Sequence[tuple[Number, str]],
    wins: Sequence[float] = (),
) -> Line:
    """Put a method's numbers together; without gaps it is the baseline."""
    bare = [(Number(math.nan), BASELINE)] * len(means)
    numbers, verdicts = zip(*(gaps or bare), strict=True)
    return Line(
        label,
        value=np.array([number.value for number in means]),
        spread=_floats(number.spread for number in means),
        difference=np.array([number.value for number in numbers]),
        low=_floats(number.low for number in numbers),
        high=_floats(number.high for number in numbers),
        verdict=tuple(verdicts),
        wins=np.array(wins if len(wins) else [math.nan] * len(means)),
    )


def _floats(values: Any) -> FloatArray:
    return np.array([math.nan if value is None else value for value in values])


def gap_of(found: Interval | None, metric: str) -> tuple[Number, str]:
    """Return a difference in the metric's units, and the verdict on it."""
    return shown(found, metric), first_word(verdict_on({metric: found}))


def first_word(verdict: str) -> str:
    """Return the verdict on a single metric.

    Examples
    --------
    >>> first_word("no interval: ece15"), first_word("nothing to compare")
    ('no interval', 'nothing to compare')
    """
    return verdict.partition(":")[0]


def looks_of(curves: Curves) -> dict[str, Look]:
    """Return how each method is drawn: the baseline in the colour of the text."""
    others = [line.label for line in curves.lines if line.label != curves.baseline]
    looks = {curves.baseline: look(0)._replace(color=INK, linestyle="-", marker="o")}
    return looks | {label: look(i) for i, label in enumerate(others)}


def draw_lines(ax: Axes, curves: Curves, places: FloatArray, plot: str) -> None:
    """Draw the means of every method; marks are hollow where there is a tie."""
    for line in curves.lines:
        style = looks_of(curves)[line.label]
        ax.plot(
            places,
            line.value,
            color=style.color,
            linestyle=style.linestyle,
            linewidth=2.2 if line.label == curves.baseline else 1.4,
            zorder=3,
        )
        texts = [tip(curves, line, i) for i in range(len(places))]
        draw_marks(ax, line, (places, line.value), style, texts=texts, name=plot)


def draw_gaps(ax: Axes, curves: Curves, places: FloatArray, plot: str) -> None:
    """Draw the differences from the baseline with their intervals, as bands or, of many, as bars.

    A method much further away than the others, as the raw model often is, leaves the scale, which
    is said: it would press all others together.
    """
    rivals = [line for line in curves.lines if line.label != curves.baseline]
    ax.axhline(0, color=INK, linewidth=1.2, zorder=1)
    for i, line in enumerate(rivals):
        style = looks_of(curves)[line.label]
        at = _beside(ax, i - (len(rivals) - 1) / 2 if len(rivals) > _MOST_BANDS else 0.0)
        if len(rivals) > _MOST_BANDS:
            ax.vlines(places, line.low, line.high, color=style.color, linewidth=1.2, transform=at)
        else:
            draw_band(ax, places, line.low, line.high, style)
        ax.plot(
            *(places, line.difference),
            color=style.color,
            linestyle=style.linestyle,
            linewidth=0.8,
            transform=at,
        )
        texts = [tip(curves, line, k) for k in range(len(places))]
        marks = draw_marks(ax, line, (places, line.difference), style, texts=texts, name=plot)
        for mark in marks:
            mark.set_transform(at)
    _scale(ax, rivals)


def _beside(ax: Axes, steps: float) -> Transform:
    """Return where things are drawn so that those of one place do not cover each other."""
    from matplotlib.transforms import ScaledTranslation

    return ax.transData + ScaledTranslation(_APART * steps, 0, figure_of(ax).dpi_scale_trans)


def _scale(ax: Axes, rivals: Sequence[Line]) -> None:
    """Choose a scale for all differences but those that are far from the others."""
    limit = _FAR * float(np.median([line.reach for line in rivals])) if rivals else 0.0
    far = [line.label for line in rivals if line.reach > limit]
    near = [line for line in rivals if line.reach <= limit]
    if far:
        ax.set_title(f"off this scale: {', '.join(far)}", color=GREY, fontsize=SMALL, pad=2)
    ends = [end for line in near for end in (line.difference, line.low, line.high)]
    low, high = float(np.nanmin(ends, initial=0.0)), float(np.nanmax(ends, initial=0.0))
    if high > low:
        room = 0.08 * (high - low)
        ax.set_ylim(low - room, high + room)


def draw_band(ax: Axes, places: FloatArray, low: FloatArray, high: FloatArray, style: Look) -> None:
    """Draw an interval along a line, where there is one."""
    if np.isfinite(low).any():
        ax.fill_between(
            places, low, high, color=style.color, alpha=BAND_ALPHA, linewidth=0, zorder=2
        )


def draw_marks(
    ax: Axes,
    line: Line,
    points: tuple[FloatArray, FloatArray],
    style: Look,
    *,
    texts: Sequence[str],
    name: str,
) -> list[Line2D]:
    """Draw the marks of a line, hollow where there is a tie, and return them."""
    drawn = []
    for hollow in (False, True):
        chosen = np.array([(verdict in _OPEN) == hollow for verdict in line.verdict])
        if not chosen.any():
            continue
        (marks,) = ax.plot(
            points[0][chosen],
            points[1][chosen],
            linestyle="none",
            marker=style.marker,
            markersize=5.5,
            color=style.color,
            markerfacecolor="none" if hollow else style.color,
            zorder=4,
        )
        kept = [text for text, keep in zip(texts, chosen, strict=True) if keep]
        with_tips(marks, kept, name=f"{name} {line.label} {'open' if hollow else ''}")
        drawn.append(marks)
    return drawn


def name_lines(ax: Axes, curves: Curves) -> None:
    """Draw the legend beside the axes: each method, and what a hollow mark means."""
    from matplotlib.lines import Line2D

    handles, names = [], []
    for label, style in looks_of(curves).items():
        handles.append(
            Line2D([], [], color=style.color, marker=style.marker, linestyle=style.linestyle)
        )
        name = f"{label}:\n{curves.methods[label]}" if label in curves.methods else label
        names.append(f"{name} (baseline)" if label == curves.baseline else name)
    hollow = Line2D([], [], color=GREY, marker="o", markerfacecolor="none", linestyle="none")
    bare = any("no interval" in line.verdict for line in curves.lines)
    ax.legend(
        [*handles, hollow],
        [*names, f"tie with {curves.baseline}" + (",\nor no interval" if bare else "")],
        frameon=False,
        fontsize=SMALL,
        labelcolor=INK,
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        borderaxespad=0.0,
    )


def strips_under(ax: Axes, *shares: float) -> list[Axes]:
    """Return axes below others with the same horizontal axis; shares are of their height."""
    spec = ax.get_subplotspec()
    if spec is None:  # axes that were put somewhere by hand keep their place
        tops = -np.cumsum([share + 0.12 for share in shares])
        places = zip(tops, shares, strict=True)
        strips = [ax.inset_axes((0, float(low), 1, share), sharex=ax) for low, share in places]
    else:
        grid = spec.subgridspec(1 + len(shares), 1, height_ratios=(1, *shares))
        ax.set_subplotspec(grid[0])
        strips = [ax.figure.add_subplot(grid[i], sharex=ax) for i in range(1, 1 + len(shares))]
    for panel in (ax, *strips):
        panel.margins(x=_ROOM)
    for upper in (ax, *strips[:-1]):
        upper.tick_params(labelbottom=False)
    return strips


def settle(figure: Figure) -> None:
    """Lay a figure out once and for all, at places that do not differ from run to run.

    The solver of the layout goes through its unknowns in no fixed order, so that its answers differ
    in the last digits, and with them the names of parts in the SVG.
    """
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        left, low, width, height = (round(float(side), 4) for side in axes.get_position().bounds)
        axes.set_position((left, low, width, height))


def tip(curves: Curves, line: Line, i: int) -> str:
    """Say what one mark stands for.

    Examples
    --------
    >>> line = line_of("none", [Number(2.0, 0.5)], [(Number(0.4, None, 0.1, 0.7), "worse")])
    >>> tip(Curves("nll", "nll x100", "ts-nll", np.ones(1), ("250",), (line,), ("a",), 1), line, 0)
    'none, 250: nll x100 2.00 ±0.50; minus ts-nll +0.40 [+0.10, +0.70] (worse)'
    """
    digits = 2 if scale_of(curves.metric) == 100 else 4
    spread = None if math.isnan(line.spread[i]) else float(line.spread[i])
    text = f"{line.label}, {curves.names[i]}: {curves.unit} "
    text += Number(float(line.value[i]), spread, digits=digits).text()
    if line.verdict[i] == BASELINE:
        return f"{text} (baseline)"
    low, high = (None if math.isnan(side) else float(side) for side in (line.low[i], line.high[i]))
    gap = Number(float(line.difference[i]), None, low, high, digits).text()
    text += f"; minus {curves.baseline} {gap} ({line.verdict[i]})"
    return text if math.isnan(line.wins[i]) else f"{text}; wins {line.wins[i]:.0f} %"


def who(curves: Curves) -> str:
    """Say what the numbers are of.

    Examples
    --------
    >>> who(Curves("nll", "nll", "none", np.empty(0), (), (), ("toy a", "toy b"), 4, ("toy c",)))
    '2 models, 4 cells (1 left out)'
    """
    models = curves.models
    text = models[0] if len(models) == 1 else f"{len(models)} models"
    if curves.n_cells > len(models):
        text += f", {curves.n_cells} {'seeds' if len(models) == 1 else 'cells'}"
    return f"{text} ({len(curves.left_out)} left out)" if curves.left_out else text
