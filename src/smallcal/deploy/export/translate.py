"""Every signal and every map as row-wise arithmetic; see :mod:`smallcal.deploy.export.program`.

What a part computes is defined by its own code, which the runtime calls; here it is written down
once more, for all exporters together, and the tests hold the two against each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.maps.curves import FLOOR
from smallcal.calibrators.signals.fitted import ENTROPY_FLOOR, SIGNAL_LIMIT
from smallcal.data.checks import PROBABILITY_FLOOR
from smallcal.deploy.export.program import (
    Program,
    Value,
    choose,
    constant,
    erf,
    exp,
    given,
    log,
    sqrt,
)
from smallcal.errors import InputError

#: Below every logit, yet finite.
_LOWEST = -1e30
#: exp of this is just finite.
_HIGHEST_EXPONENT = 700.0
#: A rival's probability is at most the predicted class's times this: apart in float32 too.
_BELOW = 1 - 2.0**-22


def program_of(fitted: FittedCalibrator) -> Program:
    """Write a calibrator down as arithmetic.

    Examples
    --------
    >>> import smallcal as sc
    >>> val = sc.load_demo("cal")
    >>> program = program_of(sc.SRTS().fit(val.logits, val.labels).fitted_)
    >>> program.probabilities.width, len(list(program.values())) < 100
    (345, True)
    """
    _require_exportable(fitted)
    n_features = fitted.signal.n_features or 0
    row = _Row(
        given("logits", fitted.n_classes),
        takes=fitted.input,
        features=given("features", n_features) if n_features else None,
    )
    scores = _SIGNALS[fitted.signal.kind](row, fitted.signal)
    temperature = None
    if fitted.map.kind in _TEMPERATURES:
        temperature = _TEMPERATURES[fitted.map.kind](scores, fitted.map)
        tail = fitted.tail_temperature
        probabilities = (
            _softmax(row.gaps / temperature) if tail is None else _tailed(row, temperature, tail)
        )
    else:
        probabilities = _PROBABILITIES[fitted.map.kind](row, scores, fitted.map)
    if fitted.preserves_argmax:
        probabilities = _keep_top(row, probabilities)
    return Program(probabilities, temperature, fitted.n_classes, n_features, fitted.input)


def _require_exportable(fitted: FittedCalibrator) -> None:
    if not fitted.deployable:
        raise InputError(f"{fitted.method} is for comparison only and cannot be exported")
    if not fitted.signal.rowwise:
        raise InputError(
            f"{fitted.method} is a control whose groups depend on the whole batch; it cannot be "
            "exported"
        )


class _Row:
    """The logits, and what several parts ask of them; each is written down once."""

    def __init__(self, logits: Value, *, takes: str, features: Value | None) -> None:
        self.logits = logits
        if takes == "probabilities":
            self.logits = log(logits.at_least(PROBABILITY_FLOOR))
        self._features = features

    @property
    def features(self) -> Value:
        assert self._features is not None  # the signal has said how many it needs
        return self._features

    @cached_property
    def top(self) -> Value:
        return self.logits.at_top()

    @cached_property
    def best(self) -> Value:
        return self.logits.largest()

    @cached_property
    def gaps(self) -> Value:
        return self.logits - self.best

    @cached_property
    def second_gap(self) -> Value:
        return choose(self.top, _LOWEST, self.gaps).largest()

    @cached_property
    def _weight(self) -> Value:
        return exp(self.gaps)

    @cached_property
    def _total(self) -> Value:
        return self._weight.sum()

    def statistic(self, name: str) -> Value:
        """Return one of the six statistics."""
        return self._statistics[name]

    def used(self, names: tuple[str, ...]) -> Value:
        """Return several statistics side by side."""
        first, *others = (self.statistic(name) for name in names)
        for other in others:
            first = first.join(other)
        return first

    @cached_property
    def _statistics(self) -> Mapping[str, Value]:
        confidence = 1 / self._total
        return {
            "confidence": confidence,
            "logit_margin": 0.0 - self.second_gap,
            "prob_margin": (1 - exp(self.second_gap)) * confidence,
            "entropy": log(self._total) - (self._weight * self.gaps).sum() * confidence,
            "logit_norm": sqrt((self.logits * self.logits).sum()),
            "top_logit": self.best,
        }


def _sigmoid(x: Value) -> Value:
    return 1 / (1 + exp(0.0 - x.at_least(-_HIGHEST_EXPONENT)))


def _softplus(x: Value) -> Value:
    size = x.at_least(0.0 - x)
    return x.at_least(0.0) + log(1 + exp(0.0 - size))


def _softmax(gaps: Value) -> Value:
    """Return the softmax of gaps, the largest of which is 0."""
    weight = exp(gaps)
    return weight / weight.sum()


# Signals.


def _linear(row: _Row, signal: Any) -> Value:
    slope = np.divide(signal.coef, signal.scale)
    return row.used(signal.statistics).dot(slope) + float(signal.intercept - slope @ signal.mean)


def _risk(row: _Row, signal: Any) -> Value:
    linear = _linear(row, signal)
    return linear if signal.logit else _sigmoid(linear)


def _standardised(row: _Row, signal: Any) -> Value:
    return (row.statistic(signal.statistic) - float(signal.mean)) / float(signal.scale)


def _clipped_statistics(row: _Row, signal: Any) -> Value:
    columns = (row.used(signal.statistics) - constant(signal.mean)) / constant(signal.scale)
    return columns.at_least(-SIGNAL_LIMIT).at_most(SIGNAL_LIMIT)


def _log_entropy(row: _Row, signal: Any) -> Value:
    share = row.statistic("entropy") / math.log(signal.n_classes)
    return log(share.at_least(ENTROPY_FLOOR))


def _confidence_rank(row: _Row, signal: Any) -> Value:
    below = row.statistic("confidence").rank(signal.confidences)
    return 1 - below / float(len(signal.confidences))


def _feature_risk(row: _Row, signal: Any) -> Value:
    columns = row.features.join(row.logits) if signal.n_logits else row.features
    slope = signal.coef / signal.scale
    linear = columns.dot(slope) + float(signal.intercept - slope @ signal.mean)
    return linear if signal.logit else _sigmoid(linear)


_SIGNALS: Mapping[str, Callable[[_Row, Any], Value]] = MappingProxyType(
    {
        "none": lambda row, signal: constant(0.0),
        "statistic": lambda row, signal: row.statistic(signal.statistic),
        "standardised": _standardised,
        "statistics": _clipped_statistics,
        # The predicted class is a column of its own in the runtime; here it is row.top.
        "statistics_class": lambda row, signal: _clipped_statistics(row, signal).join(row.top),
        "log_entropy": _log_entropy,
        "confidence_rank": _confidence_rank,
        "risk": _risk,
        "residual": _linear,
        "feature_risk": _feature_risk,
        "logits": lambda row, signal: row.logits,
        "features": lambda row, signal: row.features,
    }
)


# Maps that give a temperature.


def _steps(score: Value, thresholds: tuple[float, ...], values: tuple[float, ...]) -> Value:
    """Return the value of the step that a score is on; a tie goes up."""
    result = constant(values[0])
    for threshold, value in zip(thresholds, values[1:], strict=True):
        result = choose(score.reached(threshold), value, result)
    return result


def _linked(combined: Value, link: str) -> Value:
    return combined if link == "identity" else _softplus(combined).at_least(FLOOR)


def _straight(score: Value, fitted: Any) -> Value:
    level, slope = fitted.coefficients
    return _linked(level + slope * score, fitted.link)


def _anchored(score: Value, fitted: Any) -> Value:
    """Return the straight interpolation between anchors, level beyond the first and last."""
    anchors, values = np.array(fitted.anchors), np.array(fitted.coefficients)
    slopes = np.diff(values) / np.diff(anchors)
    inside = score.at_least(float(anchors[0])).at_most(float(anchors[-1]))
    result = constant(values[0])
    for anchor, value, slope in zip(anchors, values, slopes, strict=False):
        line = float(value) + float(slope) * (inside - float(anchor))
        result = choose(inside.reached(float(anchor)), line, result)
    return _linked(result, fitted.link)


def _splined(score: Value, fitted: Any) -> Value:
    first, middle, last = fitted.knots
    level, slope, bend = fitted.coefficients
    x = (score - middle) / (last - first)
    low, high = (first - middle) / (last - first), (last - middle) / (last - first)

    def cubed(value: Value) -> Value:
        part = value.at_least(0.0)
        return part * part * part

    beyond = cubed(x - high)
    from_first = (cubed(x - low) - beyond) / (high - low)
    from_middle = (cubed(x) - beyond) / high
    return _linked(level + slope * x + bend * (from_first - from_middle), fitted.link)


def _network(scores: Value, fitted: Any) -> Value:
    for layer, (weight, bias) in enumerate(zip(fitted.weights, fitted.biases, strict=True)):
        if layer:
            scores = _activated(scores, fitted.activation)
        scores = scores.dot(weight) + constant(bias)
    return (_softplus(scores) + float(fitted.offset)).at_least(fitted.floor)


def _activated(x: Value, activation: str) -> Value:
    if activation == "relu":
        return x.at_least(0.0)
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def _regressed(scores: Value, fitted: Any) -> Value:
    # The effects, if any, meet the columns that say which class is predicted.
    slope = np.concatenate([fitted.coefficients, getattr(fitted, "effects", ())])
    exponent = (0.0 - (scores.dot(slope) + fitted.intercept)).at_most(_HIGHEST_EXPONENT)
    return exp(exponent).at_least(fitted.low).at_most(fitted.high)


_TEMPERATURES: Mapping[str, Callable[[Value, Any], Value]] = MappingProxyType(
    {
        "scalar": lambda score, fitted: constant(fitted.temperature),
        "groups": lambda score, fitted: _steps(score, fitted.thresholds, fitted.temperatures),
        "linear": _straight,
        "anchors": _anchored,
        "spline": _splined,
        "network": _network,
        "regressed": _regressed,
        "class_regressed": _regressed,
    }
)


def _tailed(row: _Row, temperature: Value, tail: float) -> Value:
    """Return what :func:`smallcal.calibrators.softmax.tailed_softmax` does."""
    gaps = row.gaps - row.second_gap
    routed = choose(row.top, 0.0, exp(choose(row.top, 0.0, gaps) / temperature))
    own = choose(row.top, 0.0, exp(choose(row.top, 0.0, gaps) / tail))
    routed_sum, own_sum = routed.sum(), own.sum()
    rest = routed_sum * exp(row.second_gap / temperature)
    flatter = own_sum.reached(routed_sum)
    room = choose(flatter, 1.0, 1 / own_sum - 1 / routed_sum)
    share = (1 / rest.at_least(1e-300) - 1 / routed_sum) / room
    share = choose(flatter, 1.0, share.at_least(0.0).at_most(1.0))
    doubt = rest / (1 + rest)
    others = own * (doubt * share / own_sum) + routed * (doubt * (1 - share) / routed_sum)
    return choose(row.top, 1 / (1 + rest), others)


# Maps that give probabilities.


def _affine(row: _Row, scores: Value, fitted: Any) -> Value:
    x = row.logits
    if fitted.on == "log_probabilities":
        x = row.gaps - log(exp(row.gaps).sum())
    y = x * constant(fitted.weight) if fitted.weight.ndim == 1 else x.dot(fitted.weight)
    if fitted.bias is not None:
        y = y + constant(fitted.bias)
    return _softmax(y - y.largest())


def _mixture(row: _Row, scores: Value, fitted: Any) -> Value:
    scaled, raw, uniform = (float(weight) for weight in fitted.weights)
    blend = scaled * _softmax(row.gaps / fitted.temperature) + raw * _softmax(row.gaps)
    return blend + uniform / row.gaps.width


def _binned(row: _Row, scores: Value, fitted: Any) -> Value:
    gaps = (row.gaps - row.second_gap) / fitted.temperature
    others = choose(row.top, 0.0, exp(choose(row.top, 0.0, gaps)))
    total = others.sum()
    confidence = 1 / (1 + total * exp(row.second_gap / fitted.temperature))
    wanted = _steps(confidence, fitted.edges, fitted.values).at_least(1 / (1 + total))
    return choose(row.top, wanted, (others * ((1 - wanted) / total)).at_most(wanted))


def _semantic(row: _Row, scores: Value, fitted: Any) -> Value:
    features = (scores - constant(fitted.mean)) / constant(fitted.scale)
    result: Value | None = None
    for partition, temperatures in zip(fitted.partitions, fitted.temperatures, strict=True):
        member = features.dot(partition).at_top()
        part = _softmax(row.gaps / member.dot(temperatures))
        result = part if result is None else result + part
    assert result is not None  # an artefact without partitions is refused
    return result / float(len(fitted.partitions))


_PROBABILITIES: Mapping[str, Callable[[_Row, Value, Any], Value]] = MappingProxyType(
    {"affine": _affine, "mixture": _mixture, "binned": _binned, "semantic": _semantic}
)


def _keep_top(row: _Row, probabilities: Value) -> Value:
    """Hold every rival a little below the predicted class, where rounding made a tie."""
    confidence = (row.top * probabilities).sum()
    return choose(row.top, probabilities, probabilities.at_most(confidence * _BELOW))
