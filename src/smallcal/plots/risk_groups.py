"""Why one temperature is not enough, or is: what its groups show at the same confidence."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.holder import fitted_of
from smallcal.calibrators.maps import ScalarMap
from smallcal.calibrators.signals import FeatureRisk, NoSignal, Risk
from smallcal.data.predictions import FloatArray, IntArray
from smallcal.errors import InputError
from smallcal.metrics import Scored
from smallcal.metrics.binned import bin_table, equal_width
from smallcal.metrics.units import PERCENT
from smallcal.plots import style
from smallcal.plots.series import accuracies
from smallcal.plots.twins import draws
from smallcal.statistics.interval import require_level

ONE = "one temperature"


@dataclass(frozen=True, eq=False)
class _Routed:
    """A test split as a grouped calibrator sees it."""

    fitted: FittedCalibrator
    group: IntArray
    #: By stage: raw, one temperature, the calibrator itself.
    views: dict[str, Scored]

    @classmethod
    def of(
        cls, y_true: object, logits: object, calibrator: object, *, features: object = None
    ) -> _Routed:
        fitted = replace(fitted_of(calibrator), groups=None)  # named ones are not those of a signal
        if fitted.score is not None:
            raise InputError(
                "a score has no groups by risk; plots.reliability shows how often outcome 1 comes",
                code="method-unsuitable",
            )
        if not fitted.map.steps:
            raise InputError(
                f"calibrator must have groups, as srts-bce has; {fitted.method} has the map "
                f"{fitted.map.kind!r}",
                code="method-unsuitable",
            )
        needs = fitted.signal.needs
        features = features if "features" in needs else None
        labels = y_true if "labels" in needs else None
        group = fitted.group(logits, features=features, labels=labels)
        stages = {
            "raw": at_one_temperature(fitted, 1.0).predict_proba(logits),
            ONE: at_one_temperature(fitted, fitted.pooled_temperature).predict_proba(logits),
            fitted.method: fitted.predict_proba(logits, features=features, labels=labels),
        }
        views = {name: Scored.of(y_true, proba) for name, proba in stages.items()}
        return cls(fitted, group, views)

    def label(self, group: int) -> str:
        """Return what a group is called, counted from 0 as everywhere, with its temperature."""
        last = len(self.fitted.map.steps) - 1
        word = "risk" if isinstance(self.fitted.signal, Risk | FeatureRisk) else "scores"
        end = {0: f", lowest {word}", last: f", highest {word}"}.get(group, "") if last else ""
        return f"group {group}{end}, T = {self.fitted.map.steps[group]:.3g}"


def at_one_temperature(fitted: FittedCalibrator, temperature: float) -> FittedCalibrator:
    """Return the same calibrator with one temperature for all."""
    bare = replace(fitted, signal=NoSignal(), keep_predictions=False, groups=None, options={})
    return replace(bare, map=ScalarMap(temperature))


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupBins:
    """Reliability at one temperature, within one group; bins with little of it are left out.

    Attributes
    ----------
    bin : ndarray of shape (k,), int64
        Which of the bins that all groups share.
    count : ndarray of shape (k,), int64
    confidence, accuracy, low, high : ndarray of shape (k,)
        Confidence is that of one temperature for all; the interval is Clopper and Pearson's.
    temperature : float
        The group's own.
    level : float
    """

    bin: IntArray
    count: IntArray
    confidence: FloatArray
    accuracy: FloatArray
    low: FloatArray
    high: FloatArray
    temperature: float
    level: float


def matched_confidence_data(
    y_true: object,
    logits: object,
    *,
    calibrator: object,
    bins: int = 10,
    least: int = 5,
    level: float = 0.95,
    features: object = None,
) -> dict[str, GroupBins]:
    """Return what :func:`matched_confidence` draws, by group; empty groups are left out.

    Parameters
    ----------
    bins : int
        Of equal width, the same for all groups.
    least : int
        A group with fewer samples than this in a bin is not shown there.

    Examples
    --------
    >>> import smallcal as sc
    >>> val, test = sc.load_demo("cal"), sc.load_demo("test")
    >>> cal = sc.SRTS().fit(val.logits, val.labels)
    >>> found = matched_confidence_data(test.labels, test.logits, calibrator=cal)
    >>> [name.partition(", T")[0] for name in found]
    ['group 0, lowest risk', 'group 1', 'group 2, highest risk']
    """
    require_level(level)
    routed = _Routed.of(y_true, logits, calibrator, features=features)
    view = routed.views[ONE]
    index = equal_width(view.confidence, bins)
    found = {}
    for group in np.unique(routed.group).tolist():
        rows = np.flatnonzero(routed.group == group)
        table = bin_table(view.take(rows), index[rows], bins=bins)
        full = np.flatnonzero(table.count >= max(least, 1))
        if len(full):
            temperature = routed.fitted.map.steps[group]
            exact = accuracies(table, full, level=level)
            found[routed.label(group)] = GroupBins(bin=full, temperature=temperature, **exact)
    if not found:
        raise InputError(
            f"no group has {least} samples in any bin; lower least or bins", code="too-few-samples"
        )
    return found


@draws(matched_confidence_data, size=(5.2, 4.6))
def matched_confidence(ax: style.Axes, found: dict[str, GroupBins]) -> None:
    """Draw, group by group, how accurate predictions of the same confidence are.

    Confidence is what one temperature for all gives (the calibrator's pooled one). If that were
    enough, groups would not differ where they meet in one bin. Bars are Clopper and Pearson's
    intervals.

    Examples
    --------
    >>> import smallcal as sc
    >>> val = sc.load_demo("cal")
    >>> cal = sc.SRTS().fit(val.logits, val.labels)
    >>> matched_confidence(val.labels, val.logits, calibrator=cal).get_xlabel()
    'confidence at one temperature (%)'
    """
    xlabel = "confidence at one temperature (%)"
    style.frame_reliability(ax, xlabel=xlabel, ylabel="accuracy (%)")
    largest = max(int(row.count.max()) for row in found.values())
    for name, row, look in style.looks(found):
        x, y, plot = row.confidence, row.accuracy, f"matched-confidence-{name.partition(',')[0]}"
        tips = [
            f"{name}: {count:,} samples, confidence {PERCENT.value(c)}, accuracy "
            f"{PERCENT.value(a)} ({100 * row.level:g} % interval {PERCENT.interval(low, high)})"
            for count, c, a, low, high in zip(row.count, x, y, row.low, row.high, strict=True)
        ]
        sizes = 14 + 70 * row.count / largest
        ax.vlines(x, row.low, row.high, color=look.color, linewidth=1.1, alpha=0.6, zorder=2)
        ax.plot(x, y, **look.stroke, linewidth=1.4, zorder=3)
        style.dots(ax, x, y, look, s=sizes, zorder=4, tips=tips, name=plot)
        style.name_series(ax, name, look)
    style.legend(ax)


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupResiduals:
    """Accuracy minus mean confidence of each group, at one stage of calibration.

    Attributes
    ----------
    group : ndarray of shape (k,), int64
        Groups that hold samples, from 0 at the lowest score.
    count : ndarray of shape (k,), int64
    residual, low, high : ndarray of shape (k,)
        The interval is Clopper and Pearson's of the accuracy, confidences taken as they are.
    temperature : ndarray of shape (k,)
        Each group's own.
    labels : tuple of str
    level : float
    """

    group: IntArray
    count: IntArray
    residual: FloatArray
    low: FloatArray
    high: FloatArray
    temperature: FloatArray
    labels: tuple[str, ...]
    level: float


def group_residuals_data(
    y_true: object,
    logits: object,
    *,
    calibrator: object,
    level: float = 0.95,
    features: object = None,
) -> dict[str, GroupResiduals]:
    """Return what :func:`group_residuals` draws: raw, at one temperature, and calibrated.

    Examples
    --------
    >>> import smallcal as sc
    >>> val, test = sc.load_demo("cal"), sc.load_demo("test")
    >>> cal = sc.SRTS().fit(val.logits, val.labels)
    >>> found = group_residuals_data(test.labels, test.logits, calibrator=cal)
    >>> list(found), found["raw"].group.tolist()
    (['raw', 'one temperature', 'srts-bce'], [0, 1, 2])
    """
    require_level(level)
    routed = _Routed.of(y_true, logits, calibrator, features=features)
    groups = np.unique(routed.group)
    bins = len(routed.fitted.map.steps)
    found = {}
    for stage, view in routed.views.items():
        exact = accuracies(bin_table(view, routed.group, bins=bins), groups, level=level)
        confidence = exact["confidence"]
        found[stage] = GroupResiduals(
            group=groups,
            count=exact["count"],
            residual=exact["accuracy"] - confidence,
            low=exact["low"] - confidence,
            high=exact["high"] - confidence,
            temperature=np.array(routed.fitted.map.steps)[groups],
            labels=tuple(routed.label(group) for group in groups.tolist()),
            level=level,
        )
    return found


@draws(group_residuals_data, size=(5.2, 4.2))
def group_residuals(ax: style.Axes, found: dict[str, GroupResiduals]) -> None:
    """Draw accuracy minus confidence of each group: raw, at one temperature, and calibrated.

    Above zero a group is under-confident, below it over-confident. The fitted temperatures stand
    under the groups.

    Examples
    --------
    >>> import smallcal as sc
    >>> val = sc.load_demo("cal")
    >>> cal = sc.SRTS().fit(val.logits, val.labels)
    >>> group_residuals(val.labels, val.logits, calibrator=cal).get_ylabel()
    'accuracy - confidence (points)'
    """
    ax.axhline(0, **style.REFERENCE)
    for index, (stage, row) in enumerate(found.items()):
        _draw_residuals(ax, stage, row, index)
    first = next(iter(found.values()))
    ax.set_xticks(
        np.arange(len(first.group)),
        [style.literal(name.replace(", ", "\n")) for name in first.labels],
    )
    ax.set_xlim(-0.5, len(first.group) - 0.5)
    style.percent(ax, "y")
    # The labels say "lowest risk" where it is one.
    signal = "risk" if any("risk" in label for label in first.labels) else "routing score"
    style.dress(ax, xlabel=f"groups by {signal}", ylabel="accuracy - confidence (points)")
    style.legend(ax)


def _draw_residuals(ax: style.Axes, stage: str, row: GroupResiduals, index: int) -> None:
    look = style.look(index)
    x = np.arange(len(row.group)) + 0.22 * (index - 1)
    tips = [
        f"{stage}, {label}: {PERCENT.difference(r)} ({100 * row.level:g} % interval "
        f"{PERCENT.interval(low, high, signed=True)}), {count:,} samples"
        for label, r, low, high, count in zip(
            row.labels, row.residual, row.low, row.high, row.count, strict=True
        )
    ]
    ax.vlines(x, row.low, row.high, color=look.color, linewidth=1.6, zorder=2)
    plot = f"group-residuals-{stage}"
    style.marks(
        ax,
        x,
        row.residual,
        look,
        label=style.literal(stage),
        markersize=7,
        zorder=3,
        tips=tips,
        name=plot,
    )
