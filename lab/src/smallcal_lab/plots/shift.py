"""Plots of samples under shift: severities, thirds of the margin, gains, and who moves where."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from smallcal.data.predictions import FloatArray
from smallcal.errors import InputError, choose
from smallcal.metrics.units import written
from smallcal.plots import style
from smallcal.plots.twins import draws
from smallcal_lab.plots.curves import (
    PANELS,
    Curves,
    curves_of,
    draw_panels,
    fitted_on,
    head,
    lines_of,
    mean_at,
    models_in,
    subject,
)
from smallcal_lab.plots.given import (
    Run,
    RunLike,
    Where,
    measured_at_all,
    name_in,
    one_budget,
    open_rows,
    open_run,
    require_one_of,
)
from smallcal_lab.studies.catalogue import study_named
from smallcal_lab.studies.frame import CLEAN
from smallcal_lab.studies.probes import TERTILES
from smallcal_lab.studies.tables.clean import LEVEL
from smallcal_lab.studies.tables.groups import in_margin, numbered
from smallcal_lab.studies.tables.shift import (
    SIGNED,
    at_severity,
    gap_heading,
    heterogeneity,
    occupancy,
    rank_interval,
    rank_words,
    shifted_rows,
)
from smallcal_lab.studies.tables.table import Number, heading_of

# --- severities ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Occupancy:
    """Percent of the samples in each group of the method ``label``, by severity.

    ``shares`` has a row for each severity, clean samples first if there are any, and a column for
    each group, from the lowest scores to the highest.
    """

    label: str
    shares: FloatArray


@dataclass(frozen=True, eq=False)
class SeverityCurves:
    """A metric by severity, and the groups of a grouped method if there is one."""

    curves: Curves
    occupancy: Occupancy | None


def severity_curve_data(
    run: RunLike, *, metric: str | None = None, baseline: str | None = None, where: Where = None
) -> SeverityCurves:
    """Return a metric on clean samples and at each severity, and the occupancy of groups.

    Means are those of the table ``severity``, shares those of the table ``occupancy``, of all
    models together; differences are paired by set, with models, seeds in each and sets in each
    resampled. Only corruptions that a cell has at every severity count. Rows alone are taken to be
    of the study ``shift``.
    """
    opened = one_budget(open_run(run, "shift", metric=metric, baseline=baseline, where=where))
    severities = sorted(_shifted(opened).frame.unique("severity"))
    opened, left_out = measured_at_all(opened, "severity")
    # Clean samples stand at 0 where every method was measured on those of every cell.
    rows = opened.frame.where(metric=opened.metric)
    own = rows.where(set=CLEAN)
    known = np.isfinite(own["value"])
    there = set(zip(own["cell"][known], own["label"][known], strict=True))
    if len(there) == len(rows.unique("cell")) * len(rows.unique("label")):
        severities = [0, *severities]
    parts = [
        at_severity(opened.frame, s) if s else opened.frame.where(set=CLEAN) for s in severities
    ]
    names, units = tuple(str(s) if s else CLEAN for s in severities), ("models", "seeds", "sets")
    lines = lines_of(opened, parts)
    curves = curves_of(opened, severities, names, lines, left_out, units=units)
    return SeverityCurves(curves, _occupancy(opened, severities))


def _shifted(run: Run) -> Run:
    """Return the shifted rows of the metric."""
    rows = shifted_rows(run.frame.where(metric=run.metric))
    if not len(rows):
        raise InputError(f"run has no shifted sets; the study {run.study.name} measures them")
    return replace(run, frame=rows)


def _occupancy(run: Run, severities: list[int]) -> Occupancy | None:
    """Return the groups of the study's own method, or of the first that has groups."""
    names = models_in(run)
    everyone = names[0] if len(names) == 1 else "all"
    by_label: dict[str, dict[str, list[float]]] = {}
    for _, models, label, place, *shares in occupancy(run.study, run.frame).rows:
        if models == everyone:
            numbers = [share.value for share in shares if isinstance(share, Number)]
            by_label.setdefault(str(label), {})[str(place)] = numbers
    ours = [name for name in run.study.settings.get("ours", ()) if name in by_label]
    chosen = next(iter([*ours, *by_label]), "")
    sets = [f"severity {s}" if s else CLEAN for s in severities]
    if not by_label.get(chosen, {}).keys() >= set(sets):
        return None
    found = np.array([by_label[chosen][name] for name in sets])
    return Occupancy(chosen, found[:, np.isfinite(found).all(axis=0)])


@draws(severity_curve_data, size=PANELS)
def severity_curve(ax: style.Axes, found: SeverityCurves) -> None:
    """Draw a metric against severity, and below it which groups the samples fall into.

    Means, differences and hollow marks are as in :func:`~smallcal_lab.plots.budget_curve`. The
    bars below show the groups of one method, the lightest with the lowest scores. Rows alone are
    taken to be of the study ``shift``.
    """
    curves, groups = found.curves, found.occupancy
    panels = draw_panels(ax, curves, curves.x, "severity-curve", *([0.4] if groups else []))
    if groups is not None:
        _draw_groups(panels[-1], curves, groups)
    panels[-1].set_xticks(curves.x, list(map(style.literal, curves.names)))
    panels[-1].set_xlabel("severity", color=style.INK)


def _draw_groups(strip: style.Axes, curves: Curves, groups: Occupancy) -> None:
    """Draw a bar for each severity, cut into groups."""
    last = groups.shares.shape[1] - 1
    bottom = np.zeros(len(curves.x))
    for group, share in enumerate(groups.shares.T):
        look: dict[str, Any] = {
            "color": style.PALETTE[0],
            "alpha": 0.15 + 0.75 * group / max(last, 1),
        }
        bars = strip.bar(curves.x, share, 0.56, bottom, **look, linewidth=0)
        texts = [
            f"{groups.label}, {name}: {value:.1f} % in group {group}"
            for name, value in zip(curves.names, share, strict=True)
        ]
        style.with_tips(list(bars), texts, name=f"occupancy group {group}")
        bottom = bottom + share
    strip.set_ylim(0, 100)
    style.dress(strip, xlabel="", ylabel="samples %")
    head(strip, f"groups of {groups.label}, 0 to {last}: dark is high risk")


# --- thirds of the margin ------------------------------------------------------------------------


def within_margin_data(
    run: RunLike, *, metric: str | None = None, baseline: str | None = None, where: Where = None
) -> Curves:
    """Return a metric within thirds of the logit margin, under shift where there is one.

    Means are those of the table ``within-margin`` of all models together; differences are paired
    by set, with models, seeds in each and sets in each resampled. ``where={"set": "clean"}`` takes
    the clean samples of a run that has both. Rows alone are taken to be of the study
    ``within-margin``. The names of the places are low, mid and high.
    """
    opened = one_budget(
        open_run(run, "within-margin", metric=metric, baseline=baseline, where=where)
    )
    shifted = shifted_rows(opened.frame)
    rows = shifted if len(shifted) else opened.frame.where(set=CLEAN)
    parts = [in_margin(rows, [opened.metric], tertile) for tertile in TERTILES]
    if not all(map(len, parts)):
        raise InputError(
            f"run has no {opened.metric} within thirds of the margin; the study within-margin "
            "measures them"
        )
    opened = replace(opened, frame=rows)
    units = ("models", "seeds", "sets" if len(shifted) else "draws")
    lines = lines_of(opened, parts)
    found = curves_of(opened, range(len(TERTILES)), TERTILES, lines, units=units)
    what = "shifted sets" if len(shifted) else "clean samples"
    return replace(found, fitted="; ".join(filter(None, (found.fitted, what))))


@draws(within_margin_data, size=PANELS)
def within_margin(ax: style.Axes, found: Curves) -> None:
    """Draw a metric within thirds of the logit margin, and differences from the baseline.

    Means, differences and hollow marks are as in :func:`~smallcal_lab.plots.budget_curve`. Rows
    alone are taken to be of the study ``within-margin``.
    """
    panels = draw_panels(ax, found, found.x, "within-margin")
    panels[-1].set_xticks(found.x, list(found.names))
    panels[-1].set_xlabel("third of the calibration split by logit margin", color=style.INK)


# --- gains under each corruption -----------------------------------------------------------------

#: What gains may be drawn against, and its name in words.
AGAINST = {"error": "error", "raw_gap": "gap", "baseline_gap": "gap"}
#: Names are written beside the points of a single model with no more corruptions than these.
_MOST_NAMES = 20
#: The most models that get a mark and a line in the legend each.
_MOST_MODELS = 8


@dataclass(frozen=True, eq=False)
class ModelGain:
    """The corruptions of one model, in order of the raw error.

    Attributes
    ----------
    model : str
    corruptions : tuple of str
    x : ndarray
        What the gains are drawn against: the uncalibrated model's error, or a signed gap.
    gain : ndarray
        Of the method over the baseline, positive where the method is better.
    rank : tuple of float
        Spearman's rank correlation of both, with its 95 % interval; NaN where it does not exist.
    slope, intercept : float
        The median line of Theil and Sen through the points.
    """

    model: str
    corruptions: tuple[str, ...]
    x: FloatArray
    gain: FloatArray
    rank: tuple[float, float, float]
    slope: float
    intercept: float


@dataclass(frozen=True, eq=False)
class CorruptionGains:
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

    The numbers are those of the table ``heterogeneity``: means over severities, draws and seeds.
    Rows alone are taken to be of the study ``heterogeneity``.

    Parameters
    ----------
    against : {"error", "raw_gap", "baseline_gap"}
        The uncalibrated model's error, as the paper has it; or the signed gap, mean confidence
        minus accuracy, of the uncalibrated model or of the baseline.
    method : str, optional
        Whose gain it is; the study's own unless it is given.
    baseline : str, optional
        Over whom; the study's own unless it is given.
    """
    if against not in AGAINST:
        raise InputError(f"unknown against {against!r}; {choose(against, AGAINST)}")
    usual = study_named("heterogeneity")
    opened = open_run(run, usual.name, metric=metric, baseline=baseline, where=where)
    study, labels = one_budget(opened).study, opened.labels
    # Studies of shifts do not say whose gain it is.
    settings = {**usual.settings, **study.settings, "rivals": (study.baseline,)}
    if method is not None:
        settings["gain_of"] = name_in(labels, method)
    ours, raw = settings["gain_of"], settings["raw"]
    require_one_of("method", ours, labels)
    require_one_of("the uncalibrated model", raw, labels)
    table = heterogeneity(replace(study, settings=settings), opened.frame)
    if not table.rows:
        raise InputError("run has no shifted sets; the study heterogeneity measures them")
    what = f"{raw} {heading_of(opened.metric)}"
    axis = f"{raw}: {heading_of(opened.metric)}"
    if against != "error":
        what = gap_heading(raw if against == "raw_gap" else study.baseline)
        axis = f"{what}: mean confidence minus accuracy, points"
    if what not in table.header:
        raise InputError(f"run has no {SIGNED} of {what.removeprefix('gap of ')}: measure it there")
    places = ("models", "corruption", what, f"gain over {study.baseline}")
    columns = [[row[table.header.index(name)] for row in table.rows] for name in places]
    points: dict[str, list[tuple[str, float, float]]] = {}
    for model, kind, x, gain in zip(*columns, strict=True):
        if isinstance(x, Number) and isinstance(gain, Number):
            points.setdefault(str(model), []).append((str(kind), x.value, gain.value))
    models = tuple(_model_gain(model, *zip(*own, strict=True)) for model, own in points.items())
    n = f"{len(models)} model{'s' if len(models) > 1 else ''}"
    about = "; ".join(filter(None, [n, fitted_on(opened.frame)]))
    return CorruptionGains(
        opened.metric, ours, study.baseline, raw, models, about, against, what, axis
    )


def _model_gain(
    model: str, kinds: tuple[str, ...], across: tuple[float, ...], gains: tuple[float, ...]
) -> ModelGain:
    from scipy.stats import theilslopes

    x, gain = np.array(across), np.array(gains)
    slope, intercept = math.nan, math.nan
    if len(x) > 2 and np.ptp(x) > 0:
        slope, intercept, *_ = map(float, theilslopes(gain, x))
    return ModelGain(model, kinds, x, gain, rank_interval(gain, x), slope, intercept)


@draws(corruption_gain_data)
def corruption_gain(ax: style.Axes, found: CorruptionGains) -> None:
    """Draw the gain of a method under each corruption against how wrong or how sure others are.

    Against the uncalibrated model's error a correlation says as much about that model as about
    the method: its sign turns with the side on which that model errs. A signed gap has a side.

    Points above the dashed line favour the method. The legend has Spearman's rank correlation of
    each model with its 95 % interval; the line through the points is that of Theil and Sen. With
    many models all points look the same, and the title has the median correlation. Rows alone are
    taken to be of the study ``heterogeneity``.
    """
    ax.axhline(0, **style.REFERENCE)
    few = len(found.models) <= _MOST_MODELS
    for i, model in enumerate(found.models):
        look, signed = style.look(i if few else 0), found.against != "error"
        tips = [
            f"{model.model}, {kind}: {found.what} {written(x, signed=signed)}, gain "
            f"{written(gain, signed=True)}"
            for kind, x, gain in zip(model.corruptions, model.x, model.gain, strict=True)
        ]
        label = style.literal(f"{model.model}: {rank_words(*model.rank)}") if few else None
        how: dict[str, Any] = {
            "label": label,
            "zorder": 3,
            "name": f"corruption-gain {model.model}",
        }
        style.marks(ax, model.x, model.gain, look, tips=tips, **how)
        if few and math.isfinite(model.slope):
            ends = np.array([model.x.min(), model.x.max()])
            line = model.intercept + model.slope * ends
            ax.plot(ends, line, **look.stroke, linewidth=1, zorder=2)
    if len(found.models) == 1 and len(found.models[0].corruptions) <= _MOST_NAMES:
        (model,) = found.models
        beside: dict[str, Any] = {"xytext": (5, 4), "textcoords": "offset points", "fontsize": 7}
        for kind, x, y in zip(model.corruptions, model.x, model.gain, strict=True):
            ax.annotate(style.literal(kind.replace("_", " ")), (x, y), color=style.GREY, **beside)
    style.dress(ax, xlabel=found.axis, ylabel=f"gain of {found.method} over {found.baseline}")
    if not few:
        text, known = found.about, [m.rank[0] for m in found.models if math.isfinite(m.rank[0])]
        if known:
            low, middle, high = np.quantile(known, [0, 0.5, 1])
            text += f"; rank correlations {low:+.2f} to {high:+.2f}, median {middle:+.2f}"
        style.caption(ax, text)
    ranks = f"rank correlation of gain and {AGAINST[found.against]} [{100 * LEVEL:g} % interval]"
    style.legend(
        ax,
        loc="lower left",
        bbox_to_anchor=(0, 1.01),
        borderaxespad=0.0,
        title=style.literal(f"{found.about}\n{ranks}"),
        title_fontsize=style.SMALL,
        alignment="left",
    )


# --- who moves where -----------------------------------------------------------------------------

#: Half of the width of the bars at both sides; the ribbons span what is between them.
_BAR = 0.06
#: Empty room between two groups, in percent of the samples.
_GAP = 3.0


@dataclass(frozen=True, eq=False)
class RiskFlow:
    """Percent of all samples that move from a group of the clean set to one of a shifted set.

    Attributes
    ----------
    label : str
        The method whose groups these are.
    severity : int
    shares : ndarray of shape (groups, groups)
        From the group of the row to that of the column; adds up to 100.
    mean_risk : tuple of float
        On clean samples and at the severity; NaN where a method has no risk.
    about : str
    """

    label: str
    severity: int
    shares: FloatArray
    mean_risk: tuple[float, float]
    about: str


def risk_flow_data(
    run: RunLike, *, severity: int | None = None, method: str | None = None, where: Where = None
) -> RiskFlow:
    """Return how samples move between groups, of paired sets of one severity.

    The numbers are those of the table ``flow`` of all models together. Rows alone are taken to be
    of the study ``risk-flow``.

    Parameters
    ----------
    severity : int, optional
        The highest unless it is given.
    method : str, optional
        Whose groups; the study's first unless it is given.
    """
    opened = one_budget(open_rows(run, "risk-flow", where=where))
    flows = [metric for metric in opened.frame.unique("metric") if metric.startswith("flow_")]
    rows = shifted_rows(opened.frame.where(metric=flows))
    if not len(rows):
        raise InputError(
            "run has no shifted set that is paired with the clean one; the study risk-flow "
            "measures how samples move between them"
        )
    there = rows.unique("label")
    label = method if method is not None else there[0]
    require_one_of("the flow of", label, there)
    severities = sorted(rows.unique("severity"))
    chosen = severities[-1] if severity is None else severity
    require_one_of("severity", str(chosen), map(str, severities))
    # Of the same cells at both ends: not every one need have this severity.
    both = opened.only(cell=rows.where(label=label, severity=chosen).unique("cell"))
    own = at_severity(both.frame.where(label=label), chosen)
    groups = numbered(own, r"flow_(\d+)_to_\d+")
    shares = [[mean_at(own, f"flow_{i}_to_{j}", label) for j in groups] for i in groups]
    before, after = (
        mean_at(some, "mean_risk", label) for some in (both.frame.where(set=CLEAN), own)
    )
    text = subject(both, f"groups of {label}")
    return RiskFlow(label, chosen, np.array(shares), (before, after), text)


@draws(risk_flow_data)
def risk_flow(ax: style.Axes, found: RiskFlow) -> None:
    """Draw how samples move from the groups of the clean set to those of a shifted one.

    The bars at both sides are the groups, the darkest with the highest scores; a ribbon is as
    wide as the share of samples that it stands for. It needs sets whose rows are the clean
    samples in the same order, which nobody has in use. Rows alone are taken to be of the study
    ``risk-flow``.
    """
    shade = 0.2 + 0.7 * np.linspace(0, 1, len(found.shares))
    sides = (found.shares.sum(axis=1), found.shares.sum(axis=0))
    bottoms = [np.concatenate([[0.0], np.cumsum(side + _GAP)[:-1]]) for side in sides]
    names = (CLEAN, f"severity {found.severity}")
    for place, (name, side, bottom) in enumerate(zip(names, sides, bottoms, strict=True)):
        beside, align = (place + 0.1, "left") if place else (place - 0.1, "right")
        for group, share in enumerate(side):
            bar = ax.bar([place], [share], 2 * _BAR, [bottom[group]], color=style.PALETTE[0])
            bar[0].set(alpha=shade[group], linewidth=0)
            tip = f"{name}: {written(share, 1)} % in group {group}"
            style.with_tips(list(bar), [tip], name=f"risk-flow {name} group {group}")
            text = style.literal(f"group {group}\n{share:.0f} %")
            look: dict[str, Any] = {"va": "center", "fontsize": style.SMALL, "color": style.INK}
            ax.annotate(text, (beside, bottom[group] + share / 2), ha=align, **look)
    step = np.linspace(0, 1, 40)
    x, rise = _BAR + (1 - 2 * _BAR) * step, step**2 * (3 - 2 * step)
    left, right = (bottom.copy() for bottom in bottoms)
    for i, j in zip(*np.nonzero(found.shares > 0), strict=True):
        share = float(found.shares[i, j])
        low = left[i] + (right[j] - left[i]) * rise
        look = {"color": style.PALETTE[0], "alpha": 0.6 * shade[i]}
        ribbon = ax.fill_between(x, low, low + share, **look, linewidth=0)
        tip = f"from group {i} to group {j}: {written(share, 1)} % of the samples"
        style.with_tips(ribbon, [tip], name=f"risk-flow {i} {j}")
        left[i] += share
        right[j] += share
    ax.set_xlim(-0.35, 1.35)
    under = [
        style.literal(name if math.isnan(risk) else f"{name}\nmean risk {risk:.3f}")
        for name, risk in zip(names, found.mean_risk, strict=True)
    ]
    style.dress(ax, xlabel="", ylabel="")
    ax.set_xticks([0, 1], under)
    ax.set_yticks([])
    for side_of in ("left", "bottom"):
        ax.spines[side_of].set_visible(False)
    ax.tick_params(length=0)
    style.caption(ax, f"{found.about}; dark: highest scores")
