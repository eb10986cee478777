"""Plots of points: gains under each corruption, temperatures of groups, rows of differences."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smallcal.advice.refits import Spread
from smallcal.data.predictions import FloatArray
from smallcal.errors import InputError, choose
from smallcal.plots import style
from smallcal.plots.twins import documented, draws
from smallcal_lab.plots import given
from smallcal_lab.plots.curves import fitted_on, mean_at, models_in, subject
from smallcal_lab.plots.given import RunLike, Where
from smallcal_lab.studies.catalogue import study_named
from smallcal_lab.studies.frame import CLEAN, Frame
from smallcal_lab.studies.tables.clean import LEVEL, difference, shown
from smallcal_lab.studies.tables.groups import numbered
from smallcal_lab.studies.tables.shift import SIGNED, rank_interval, rank_words, shifted_rows
from smallcal_lab.studies.tables.table import heading_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: What gains may be drawn against, and its name in words.
AGAINST = {"error": "error", "raw_gap": "gap", "baseline_gap": "gap"}
#: The most models that get a mark and a line in the legend each.
_MOST_MODELS = 8


@documented
def difference_rows(
    run: RunLike, *, metric: str | None = None, baseline: str | None = None, where: Where = None
) -> list[dict[str, Any]]:
    """Return paired differences from the baseline as rows for :func:`smallcal.plots.forest`.

    They are those of the table ``differences``: ``label``, ``value``, ``low`` and ``high``, in its
    units. Labels name the budget where there are several. A difference of a single fit has no
    interval and is left out. Rows alone are taken to be of the study ``clean``.
    """
    opened = given.open_run(run, "clean", metric=metric, baseline=baseline, where=where)
    rows = opened.frame.where(set=CLEAN, metric=opened.metric)
    several = len(rows.unique("budget")) > 1
    found = []
    for _, part in rows.groups("budget"):
        for label in part.unique("label"):
            gap = shown(difference(part, opened.study, opened.metric, label), opened.metric)
            if label != opened.study.baseline and gap.low is not None:
                name = f"{label}, {part.samples} samples" if several else label
                ends = {"value": gap.value, "low": gap.low, "high": gap.high}
                found.append({"label": name, **ends})
    return found


class ModelGain(NamedTuple):
    """The corruptions of one model, in order of the raw error; NaN where there is no number.

    ``gain`` is positive where the method is better, ``rank`` Spearman's correlation of it with
    ``x`` and its 95 % interval, ``slope`` and ``intercept`` are of the line of Theil and Sen.
    """

    model: str
    corruptions: tuple[str, ...]
    x: FloatArray
    gain: FloatArray
    rank: tuple[float, float, float]
    slope: float
    intercept: float


class CorruptionGains(NamedTuple):
    """What a method gains over the baseline, corruption by corruption, model by model.

    ``against`` says what ``x`` of the models is, ``what`` and ``axis`` how that is called.
    """

    metric: str
    method: str
    baseline: str
    raw: str
    models: tuple[ModelGain, ...]
    about: str
    against: str
    what: str
    axis: str


def corruption_gain_data(
    run: RunLike,
    *,
    metric: str | None = None,
    method: str | None = None,
    baseline: str | None = None,
    against: str = "error",
    where: Where = None,
) -> CorruptionGains:
    """Return the gain of a method under each corruption and what it is drawn against.

    The numbers are those of the table ``heterogeneity``. Rows alone are taken to be of that study.

    Parameters
    ----------
    against : {"error", "raw_gap", "baseline_gap"}
        The uncalibrated model's error, as the paper has it; or the signed gap, mean confidence
        minus accuracy, of the uncalibrated model or of the baseline.
    method : str, optional
        Whose gain over the baseline it is; the study's own unless it is given.
    """
    from scipy.stats import theilslopes

    if against not in AGAINST:
        raise InputError(f"unknown against {against!r}; {choose(against, AGAINST)}")
    opened = given.open_run(run, "heterogeneity", metric=metric, baseline=baseline, where=where)
    study, labels = given.one_budget(opened).study, opened.labels
    # Studies of shifts do not say whose gain it is.
    settings = {**study_named("heterogeneity").settings, **study.settings}
    raw, base, name = settings["raw"], study.baseline, opened.metric
    ours = settings["gain_of"] if method is None else given.name_in(labels, method)
    given.require_one_of("method", ours, labels)
    given.require_one_of("the uncalibrated model", raw, labels)
    rows = shifted_rows(opened.frame)
    if not len(rows):
        raise InputError("run has no shifted sets; the study heterogeneity measures them")
    across, of = name, raw
    what, axis = f"{raw} {heading_of(name)}", f"{raw}: {heading_of(name)}"
    if against != "error":
        across, of = SIGNED, raw if against == "raw_gap" else base
        what, axis = f"gap of {of}", f"gap of {of}: mean confidence minus accuracy, points"
        if of not in rows.where(metric=SIGNED).unique("label"):
            raise InputError(f"run has no {SIGNED} of {of}: measure it there")
    models = []
    for _, model, part in rows.models():
        points = []
        for (kind,), own in part.groups("set"):
            error, x = mean_at(own, name, raw), mean_at(own, across, of)
            gain = mean_at(own, name, base) - mean_at(own, name, ours)
            if np.isfinite([error, x, gain]).all():
                points.append((error, str(kind), x, gain))
        if points:
            _, kinds, xs, gains = zip(*sorted(points, key=lambda point: point[0]), strict=True)
            rank = rank_interval(np.array(gains), np.array(xs))
            slope, intercept = math.nan, math.nan
            if len(xs) > 2 and np.ptp(xs) > 0:
                slope, intercept, *_ = map(float, theilslopes(gains, xs))
            numbers = (np.array(xs), np.array(gains), rank, slope, intercept)
            models.append(ModelGain(model, kinds, *numbers))
    n = f"{len(models)} model{'s' if len(models) > 1 else ''}"
    about = "; ".join(filter(None, [n, fitted_on(opened.frame)]))
    return CorruptionGains(name, ours, base, raw, tuple(models), about, against, what, axis)


@draws(corruption_gain_data)
def corruption_gain(ax: Axes, found: CorruptionGains) -> None:
    """Draw the gain of a method under each corruption against how wrong or how sure others are.

    Against the uncalibrated model's error a correlation says as much about that model as about
    the method: its sign turns with the side on which that model errs. A signed gap has a side.
    The legend has Spearman's rank correlation of each model with its 95 % interval; lines are those
    of Theil and Sen. Many models look the same, and the title has their median correlation.
    """
    ax.axhline(0, **style.REFERENCE)
    few = len(found.models) <= _MOST_MODELS
    for i, model in enumerate(found.models):
        look = style.look(i if few else 0)
        label = style.literal(f"{model.model}: {rank_words(*model.rank)}") if few else None
        ax.plot(model.x, model.gain, **look.mark, linestyle="none", label=label, zorder=3)
        if few and math.isfinite(model.slope):
            ends = np.array([model.x.min(), model.x.max()])
            line = model.intercept + model.slope * ends
            ax.plot(ends, line, **look.stroke, linewidth=1, zorder=2)
    style.dress(ax, xlabel=found.axis, ylabel=f"gain of {found.method} over {found.baseline}")
    if not few:
        text, known = found.about, [m.rank[0] for m in found.models if math.isfinite(m.rank[0])]
        if known:
            low, middle, high = np.quantile(known, [0, 0.5, 1])
            text += f"; rank correlations {low:+.2f} to {high:+.2f}, median {middle:+.2f}"
        style.caption(ax, text)
    ranks = f"rank correlation of gain and {AGAINST[found.against]} [{100 * LEVEL:g} % interval]"
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1.01), "borderaxespad": 0.0}
    title = style.literal(f"{found.about}\n{ranks}")
    style.legend(ax, title=title, title_fontsize=style.SMALL, alignment="left", **place)


class GroupTemperatures(NamedTuple):
    """Median and quartiles over fits of the temperatures of groups, (groups, 3), by entry.

    Where they are ``relative``, they are divided by what one temperature for all would be in each
    fit; ``pooled`` is the median of that one, or 1.
    """

    temperatures: dict[str, FloatArray]
    relative: bool
    pooled: float
    about: str


def group_temperatures_data(run: RunLike, *, where: Where = None) -> GroupTemperatures:
    """Return the temperatures of every entry's groups: median and quartiles over fits.

    Those of several models are divided by what one temperature for all would be in each fit. Rows
    alone are taken to be of the study ``k-ablation-nll``; ``k-ablation`` and ``audit`` suit too.
    """
    opened = given.one_budget(given.clean(given.open_rows(run, "k-ablation-nll", where=where)))
    relative = len(models_in(opened)) > 1
    found, pooled = {}, list[float]()
    for label in opened.frame.unique("label"):
        rows = opened.frame.where(label=label)
        one = _by_fit(rows, "pooled_temperature")
        pooled += one.tolist()
        groups = [_by_fit(rows, f"temperature{g}") for g in numbered(rows, r"temperature(\d+)")]
        groups = [(group / one).dropna() if relative else group for group in groups]
        spreads = [Spread.of(math.nan, group.tolist()) for group in groups if len(group)]
        if spreads:
            found[str(label)] = np.array([[s.median, s.low, s.high] for s in spreads])
    if not found:
        raise InputError("run has no temperatures of groups; the study k-ablation-nll keeps them")
    middle = 1.0 if relative else float(np.median(pooled)) if pooled else math.nan
    return GroupTemperatures(found, relative, middle, subject(opened, "bars: quartiles of fits"))


def _by_fit(rows: Frame, metric: str) -> Any:
    """Return a number of each fit, where it is one, as a pandas.Series."""
    found = rows.where(metric=metric).data.groupby(["cell", "draw"])["value"].last()
    return found[np.isfinite(found)]


@draws(group_temperatures_data)
def group_temperatures(ax: Axes, found: GroupTemperatures) -> None:
    """Draw the temperatures of every entry's groups, the lowest scores at the left of each.

    Marks are medians over fits, bars their quartiles; the dashed line is one temperature for all.
    """
    if math.isfinite(found.pooled):
        ax.axhline(found.pooled, **style.REFERENCE)
    look = style.look(0)
    for place, temperatures in enumerate(found.temperatures.values()):
        n = len(temperatures)
        x = place + (np.linspace(-0.3, 0.3, n) if n > 1 else np.zeros(1))
        middle, low, high = temperatures.T
        ax.vlines(x, low, high, color=look.color, linewidth=1.4)
        ax.plot(x, middle, color=style.FAINT, linewidth=1, zorder=1)
        ax.plot(x, middle, **look.mark, linestyle="none")
    ax.set_xticks(range(len(found.temperatures)), list(map(style.literal, found.temperatures)))
    style.dress(ax, xlabel="", ylabel="temperature" + " over that of all" * found.relative)
    style.caption(ax, found.about)
