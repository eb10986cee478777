"""Which temperature a sample gets, against what it is routed by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.holder import fitted_of
from smallcal.calibrators.maps import FittedMap, GroupMap, ScalarMap, TemperatureMap
from smallcal.calibrators.signals import FeatureRisk, Risk
from smallcal.calibrators.signals.statistic import Standardised, Statistic
from smallcal.data.claims import CLAIMS
from smallcal.data.predictions import FloatArray
from smallcal.plots import style
from smallcal.plots.risk_groups import at_one_temperature
from smallcal.plots.twins import draws

Kind = Literal["steps", "curve", "cloud"]

#: Statistics that are shown in percent.
_FRACTIONS = ("confidence", "prob_margin")

#: Samples drawn where each is a mark of its own.
_SHOWN = 500
_CURVE_POINTS = 200


@dataclass(frozen=True, eq=False, kw_only=True)
class TemperatureSignal:
    """The temperature of each sample, and the score it comes from.

    Attributes
    ----------
    kind : {"steps", "curve", "cloud"}
        Whether the temperature is one of a few, a function of the score, or of more than it.
    label : str
        What the score is, with its unit.
    score, temperature : ndarray of shape (n,)
    line_score, line_temperature : ndarray of shape (m,)
        The steps or the curve; empty for a cloud.
    pooled : float
        The temperature that one group for all would get.
    method : str
    """

    kind: Kind
    label: str
    score: FloatArray
    temperature: FloatArray
    line_score: FloatArray
    line_temperature: FloatArray
    pooled: float
    method: str


def temperature_signal_data(
    calibrator: object, logits: object, *, features: object = None, y: object = None
) -> TemperatureSignal:
    """Return what :func:`temperature_signal` draws.

    Parameters
    ----------
    calibrator : fitted estimator that divides logits by a temperature
    y : array-like of shape (n,), optional
        For the diagnostics that read the answer.

    Examples
    --------
    >>> import smallcal as sc
    >>> val = sc.load_demo("cal")
    >>> cal = sc.SRTS().fit(val.logits, val.labels)
    >>> found = temperature_signal_data(cal, val.logits)
    >>> found.kind, found.label
    ('steps', 'risk of being wrong (%)')
    """
    fitted = fitted_of(calibrator)
    temperature = fitted.temperature(logits, features=features, labels=y)
    score = fitted.scores(logits, features=features, labels=y)
    label = _label(fitted)
    many = score.ndim > 1 or not isinstance(fitted.map, TemperatureMap)
    if many or isinstance(fitted.map, ScalarMap):
        # No score of its own to stand on: the model's own confidence will do.
        raw = at_one_temperature(fitted, 1.0).predict_proba(logits)
        kind: Kind = "cloud" if many else "steps"
        claim = CLAIMS[fitted.input]
        score = fitted.claims(raw, raw)[0].astype(np.float64)
        label = f"{claim.confidence} of {claim.raw} (%)"
    else:
        kind = "steps" if isinstance(fitted.map, GroupMap) else "curve"
    line_score, line_temperature = _line(fitted.map, kind, score)
    return TemperatureSignal(
        kind=kind,
        label=label,
        score=score,
        temperature=temperature,
        line_score=line_score,
        line_temperature=line_temperature,
        pooled=fitted.pooled_temperature,
        method=fitted.method,
    )


def _line(fitted_map: FittedMap, kind: Kind, score: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the corners of the steps, points of the curve, or nothing."""
    if kind == "cloud":
        return np.empty(0), np.empty(0)
    if kind == "curve":
        assert isinstance(fitted_map, TemperatureMap)
        places = np.linspace(score.min(), score.max(), _CURVE_POINTS)
        return places, fitted_map(places)
    inner = np.array(fitted_map.thresholds if isinstance(fitted_map, GroupMap) else [])
    ends = np.concatenate([[score.min()], inner, [score.max()]])
    # A threshold may lie beyond these samples.
    corners = np.concatenate([[ends.min()], np.repeat(inner, 2), [ends.max()]])
    return corners, np.repeat(fitted_map.steps, 2)


def _label(fitted: FittedCalibrator) -> str:
    """Return what the score is, with its unit."""
    signal = fitted.signal
    if isinstance(signal, Risk | FeatureRisk):
        return "log-odds of being wrong" if signal.logit else "risk of being wrong (%)"
    if isinstance(signal, Statistic | Standardised):
        unit = " (standard deviations)" if isinstance(signal, Standardised) else ""
        shown = " (%)" if signal.statistic in _FRACTIONS and not unit else unit
        return signal.statistic.replace("_", " ") + shown
    return f"{signal.kind.replace('_', ' ')} score"


@draws(temperature_signal_data, size=(5.4, 4.4))
def temperature_signal(ax: style.Axes, found: TemperatureSignal) -> None:
    """Draw the temperature that samples get against the score they are routed by.

    Groups are steps, curves are curves. Where the temperature depends on more than one number it
    is drawn as a cloud over the uncalibrated model's confidence, at most 500 samples of it. The
    strip on top shows how many samples have which score; logits are divided by the temperature, so
    that above 1 confidence falls.

    Examples
    --------
    >>> import smallcal as sc
    >>> val = sc.load_demo("cal")
    >>> cal = sc.SRTS().fit(val.logits, val.labels)
    >>> temperature_signal(cal, val.logits).get_ylabel()
    'temperature T (logits are divided by it)'
    """
    look = style.look(0)
    ax.axhline(1.0, color=style.FAINT, linewidth=1.2, zorder=0)
    dashes = style.DASHES[1]
    label = f"one temperature, T = {found.pooled:.3g}"
    ax.axhline(found.pooled, color=style.GREY, linewidth=1.2, linestyle=dashes, label=label)
    if found.kind != "cloud":
        line = (found.line_score, found.line_temperature)
        ax.plot(*line, color=look.color, linewidth=1.8, label=style.literal(found.method), zorder=2)
    _draw_marks(ax, found, look)
    everything = np.concatenate([found.temperature, [found.pooled, 1.0]])
    if everything.max() > 8 * everything.min():
        ax.set_yscale("log")
    else:  # room for the legend
        low, high = ax.get_ylim()
        ax.set_ylim(low, high + 0.2 * (high - low))
    if found.label.endswith("(%)"):
        style.percent(ax, "x")
    style.dress(ax, xlabel=found.label, ylabel="temperature T (logits are divided by it)")
    style.legend(ax, loc="upper right")
    strip = style.strip_over(ax, ylabel="samples")
    strip.hist(found.score, bins=40, color=look.color, alpha=0.5)


def _draw_marks(ax: style.Axes, found: TemperatureSignal, look: style.Look) -> None:
    """Draw some samples, evenly over all, each with its score and temperature."""
    n = len(found.score)
    few = np.unique(np.linspace(0, n - 1, min(n, _SHOWN if found.kind == "cloud" else 60)).round())
    rows = few.astype(np.int64)
    x, y = found.score[rows], found.temperature[rows]
    label = style.literal(found.method) if found.kind == "cloud" else None
    size = 10 if found.kind == "cloud" else 16
    scale, unit = (100, " %") if found.label.endswith("(%)") else (1, "")
    name = found.label.removesuffix(" (%)")
    tips = [f"{name} {scale * a:.3g}{unit}: T = {b:.3g}" for a, b in zip(x, y, strict=True)]
    style.dots(ax, x, y, look, s=size, alpha=0.7, label=label, tips=tips, name="temperature-signal")
