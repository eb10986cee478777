"""A method is one choice on each of four axes; fitting it gives a calibrator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from smallcal.calibrators.discipline import Discipline
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.maps import (
    ANCHOR_SCALE,
    POOLED_SCALE,
    Evaluated,
    FittedMap,
    MapFit,
    Prior,
    ProbabilityMap,
    ScalarMap,
    Split,
    Temperature,
    TemperatureMap,
    evidence,
    evidence_needed,
    fit_scalar,
    fit_temperature,
    one_sided,
    tail_temperature,
)
from smallcal.calibrators.maps.fits import RECIPES
from smallcal.calibrators.objectives import Gaps, Moments, Objective, log_odds, moments, objective
from smallcal.calibrators.signals.crossfit import SignalFit, no_signal
from smallcal.calibrators.signals.fits import ROUTES, fit_signal, observe
from smallcal.data.predictions import FloatArray, IntArray, Predictions
from smallcal.data.special import sigmoid, softplus
from smallcal.errors import InputError

#: With fewer samples than this for each parameter, a fit says so.
SAMPLES_PER_PARAMETER = 10

_CARE = tuple(entry.name for entry in fields(Discipline))


@dataclass(frozen=True, kw_only=True)
class Method:
    """One choice on each axis. ``fit`` gives the numbers.

    Attributes
    ----------
    objective : str
        Name in ``OBJECTIVES``, or ``mixed(weight)``; "none" where nothing is minimised.
    signal : str
        Name in ``ROUTES``.
    map : str
        Name in ``RECIPES``.
    options : dict
        Options of the signal and the map; those not given take their defaults.
    discipline : Discipline
    summary : str
        One line for people.
    source : str
        Where the method comes from.
    tail : {"nll"} or None
        Whether the classes not predicted get a temperature of their own, and by what.
    gate : {"evidence"} or None
        Whether the model is left alone where the split does not say that it should not be; see
        :mod:`smallcal.calibrators.maps.gate`.
    parameters : str
        Number of fitted parameters, as a formula in C (classes) and d (features).
    """

    objective: str
    signal: str = "none"
    map: str = "scalar"
    options: Mapping[str, Any] = field(default_factory=dict)
    discipline: Discipline = field(default_factory=Discipline)
    tail: str | None = None
    gate: str | None = None
    summary: str = ""
    source: str = ""
    parameters: str = ""

    def __post_init__(self) -> None:
        if self.map not in RECIPES:
            raise InputError(f"unknown map {self.map!r}; choose from {', '.join(RECIPES)}")
        if self.signal not in ROUTES:
            raise InputError(f"unknown signal {self.signal!r}; choose from {', '.join(ROUTES)}")
        if self.map != "identity":
            # One spelling for one objective: "mixed" and "mixed(1.0)" are "mixed(1)".
            object.__setattr__(self, "objective", objective(self.objective).name)
        known = _part_options(self.signal, self.map)
        unknown = sorted(set(self.options) - set(known))
        if unknown:
            raise InputError(
                f"a method of {self.signal} and {self.map} has no option {', '.join(unknown)}; "
                f"it has {', '.join(known) or 'none'}"
            )
        self._require("tail", "nll")
        self._require("gate", "evidence")
        given = {name: _frozen(value) for name, value in self.options.items()}
        object.__setattr__(self, "options", MappingProxyType({**known, **given}))
        if self.options.get("n_groups", 1) < 1:
            raise InputError(f"n_groups must be at least 1; got {self.options['n_groups']}")

    def _require(self, name: str, choice: str) -> None:
        given = getattr(self, name)
        if given not in (None, choice) or (given and not RECIPES[self.map].tailed):
            raise InputError(
                f"{name} must be None, or {choice!r} where one temperature scales a row; got "
                f"{given!r} for the map {self.map}"
            )

    @property
    def needs(self) -> tuple[str, ...]:
        """What must come with the logits: "features", "labels" or nothing."""
        return ROUTES[self.signal].needs

    @property
    def deployable(self) -> bool:
        """Whether it can be used where labels are unknown, and saved."""
        return "labels" not in self.needs and self.map != "peer"

    def known_options(self) -> dict[str, Any]:
        """Return every option :meth:`with_options` takes, with its present value."""
        care = {name: getattr(self.discipline, name) for name in _CARE}
        own = dict(self.options)
        if RECIPES[self.map].tailed:
            own |= {"tail": self.tail, "gate": self.gate}
        return {"objective": self.objective, "signal": self.signal, **own, **care}

    def with_options(self, options: Mapping[str, Any]) -> Method:
        """Return the same method with some options changed."""
        unknown = sorted(set(options) - set(self.known_options()))
        known_axes = ("objective", "signal", "tail", "gate")
        axes = {name: options[name] for name in known_axes if name in options}
        known = _part_options(axes.get("signal", self.signal), self.map)
        unknown = [name for name in unknown if name not in known]
        if unknown:
            choices = ", ".join(sorted(self.known_options()))
            raise InputError(f"no option {', '.join(unknown)}; there are {choices}")
        care = {name: _frozen(options[name]) for name in _CARE if name in options}
        own = {name: value for name, value in self.options.items() if name in known}
        own |= {name: value for name, value in options.items() if name in known}
        return replace(self, **axes, options=own, discipline=replace(self.discipline, **care))

    def fit(self, preds: Predictions, /, *, name: str = "custom") -> FittedCalibrator:
        """Fit on checked predictions; ``name`` is what the calibrator is called."""
        self._require_inputs(preds)
        gaps = Gaps.of(preds)
        raw = moments(gaps, 1.0)
        routed, fit, pooled = self._fit_parts(preds, gaps, raw)
        if self.gate is not None and not _earned(gaps, _evidence(gaps, routed, fit)):
            flags = {**fit.flags, "kept_raw": []}
            fit = MapFit(ScalarMap(1.0, fitted=False), (preds.n,), flags)
            routed, pooled = replace(no_signal(preds.n), flags=routed.flags), 1.0
        # With the axes' names beside them the options say all it takes to fit again.
        options = {"signal": self.signal, "map": self.map, **self.options}
        if RECIPES[self.map].tailed:
            options |= {"tail": self.tail, "gate": self.gate}
        fitted = FittedCalibrator(
            method=name,
            objective=self.objective,
            options=options,
            signal=routed.signal,
            map=fit.map,
            pooled_temperature=pooled,
            n_classes=preds.n_classes,
            group_counts=fit.counts,
            flags={**routed.flags, **fit.flags},
            discipline=self.discipline,
            data={"n": preds.n, "sha256": preds.sha256()},
            fit_metrics={
                "accuracy": float(gaps.correct.mean()),
                "before": _losses(gaps, 1.0, raw.log_odds),
                **_outcome(fit.map, preds, gaps, routed.deployed),
            },
        )
        # A model that is left alone is left alone altogether.
        if self.tail is not None and preds.n_classes > 2 and "kept_raw" not in fit.flags:
            fitted = self._with_tail(fitted, preds, gaps)
        if preds.n < SAMPLES_PER_PARAMETER * (fitted.n_parameters - fitted.map.n_held):
            fitted = replace(fitted, flags={**fitted.flags, "few_samples": []})
        return fitted

    def weigh(self, preds: Predictions, /) -> tuple[float, float]:
        """Return the log-likelihood that a fit gains on its split, and what a gate asks of it."""
        self._require_inputs(preds)
        gaps = Gaps.of(preds)
        routed, fit, _ = self._fit_parts(preds, gaps, moments(gaps, 1.0))
        return _evidence(gaps, routed, fit), evidence_needed(_total(gaps))

    def _with_tail(
        self, fitted: FittedCalibrator, preds: Predictions, gaps: Gaps
    ) -> FittedCalibrator:
        """Give the classes not predicted a temperature of their own, if that earns its place."""
        pooled, bounds = fitted.pooled_temperature, self.discipline.bounds
        tailed = replace(fitted, tail_temperature=tail_temperature(preds, pooled, bounds=bounds))
        proba = _probabilities(tailed, preds)
        if self.gate is not None:
            weight = np.ones(preds.n) if gaps.weight is None else gaps.weight
            rise = _log_of(proba, preds) - _log_of(_probabilities(fitted, preds), preds)
            if not _earned(gaps, float(weight @ rise)):
                return fitted
        after = _outcome_of(proba, preds, preds.predicted)
        return replace(tailed, fit_metrics={**fitted.fit_metrics, **after})

    def _require_inputs(self, preds: Predictions) -> None:
        if "features" in self.needs and preds.features is None:
            raise InputError(
                "this method needs features as well as logits: pass features=... to fit"
            )

    def _fit_parts(
        self, preds: Predictions, gaps: Gaps, raw: Moments
    ) -> tuple[SignalFit, MapFit, float]:
        recipe = RECIPES[self.map]
        own = {name: self.options[name] for name in recipe.options}
        everyone, prior = no_signal(preds.n), None
        if self.map == "identity":
            goal, pooled = objective("nll"), Temperature(1.0)
        else:
            goal = objective(self.objective)
            start = Evaluated(1.0, goal.terms(gaps, raw))
            if own.get("prior_scale") is not None:
                prior = self._pooled_prior(goal, gaps)
            pooled = fit_temperature(
                goal, gaps, bounds=self.discipline.bounds, start=start, prior=prior
            )
        split = Split(preds, gaps, goal, pooled, everyone.scores, self.discipline, prior)
        # One group needs no router: skipping it makes K = 1 equal the scalar bit for bit.
        if self.map == "groups" and (self.signal == "none" or own["n_groups"] == 1):
            return everyone, fit_scalar(split), pooled.value
        if self.signal == "none":
            return everyone, recipe.fit(split, **own), pooled.value
        route = {name: self.options[name] for name in ROUTES[self.signal].options}
        routed = fit_signal(self.signal, observe(preds, gaps, raw, self.discipline), **route)
        if routed.signal.kind == "none":
            return routed, fit_scalar(split), pooled.value
        split = replace(split, scores=routed.scores, thresholds=routed.thresholds)
        fit = recipe.fit(split, **own)
        if prior is not None and one_sided(split):
            fit = replace(fit, flags={**fit.flags, "one_sided": []})
        if isinstance(fit.map, ScalarMap):  # the map fell back: nothing is left to route
            routed = replace(everyone, flags=routed.flags)
        return routed, fit, pooled.value

    def _pooled_prior(self, goal: Objective, gaps: Gaps) -> Prior:
        """Return what the pooled temperature is drawn towards."""
        if goal.name == "nll":
            return Prior(1.0, ANCHOR_SCALE)
        anchor = fit_temperature(
            objective("nll"),
            gaps,
            bounds=self.discipline.bounds,
            prior=Prior(1.0, ANCHOR_SCALE),
        )
        return Prior(anchor.value, POOLED_SCALE)


def _earned(gaps: Gaps, gain: float) -> bool:
    """Whether a gain in log-likelihood is worth a change."""
    return gain > evidence_needed(_total(gaps))


def _total(gaps: Gaps) -> float:
    return gaps.n if gaps.weight is None else float(gaps.weight.sum())


def _evidence(gaps: Gaps, routed: SignalFit, fit: MapFit) -> float:
    """Return what a gate judges: by how much the fit, or its plain form, explains the split."""
    judged = fit.map if fit.plain is None else fit.plain
    return evidence(gaps, judged, routed.scores)


def _part_options(signal: str, map_name: str) -> dict[str, Any]:
    if signal not in ROUTES:
        raise InputError(f"unknown signal {signal!r}; choose from {', '.join(ROUTES)}")
    return {**ROUTES[signal].options, **RECIPES[map_name].options}


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _outcome(
    fitted: FittedMap, preds: Predictions, gaps: Gaps, scores: FloatArray
) -> dict[str, Any]:
    """Return the losses after calibration, and how many predictions changed."""
    if isinstance(fitted, TemperatureMap):
        beta = 1 / fitted(scores)
        return {"after": _losses(gaps, beta, log_odds(gaps, beta)), "changed_predictions": 0}
    assert isinstance(fitted, ProbabilityMap)
    proba = fitted.probabilities(preds.logits.astype(np.float64), scores)
    predicted = preds.predicted if fitted.preserves_argmax else proba.argmax(axis=1)
    return _outcome_of(proba, preds, predicted)


def _probabilities(fitted: FittedCalibrator, preds: Predictions) -> FloatArray:
    return fitted.predict_proba(
        preds.logits.astype(np.float64), features=preds.features, labels=preds.labels
    )


def _log_of(proba: FloatArray, preds: Predictions) -> FloatArray:
    """Return the logarithm of each label's probability."""
    tiny = np.finfo(np.float64).tiny
    return np.asarray(np.log(np.maximum(proba[np.arange(preds.n), preds.labels], tiny)))


def _outcome_of(proba: FloatArray, preds: Predictions, predicted: IntArray) -> dict[str, Any]:
    every = np.arange(preds.n)
    tiny = np.finfo(np.float64).tiny
    top = proba[every, predicted]
    bet = np.where(predicted == preds.labels, top, 1 - top)
    return {
        "after": {
            "nll": float(-_log_of(proba, preds).mean()),
            "top_label_bce": float(-np.log(np.maximum(bet, tiny)).mean()),
            "mean_confidence": float(np.clip(top, 0, 1).mean()),
        },
        "changed_predictions": int((predicted != preds.predicted).sum()),
    }


def _losses(gaps: Gaps, beta: float | FloatArray, odds: FloatArray) -> dict[str, float]:
    """Return the losses that an artefact records, from the log-odds of the confidence."""
    return {
        "nll": float((softplus(-odds) - beta * gaps.label).mean()),
        "top_label_bce": float(softplus(np.where(gaps.correct, -odds, odds)).mean()),
        "mean_confidence": float(sigmoid(odds).mean()),
    }
