"""A method is one choice on each of four axes; fitting it gives a calibrator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from smallcal.data import FloatArray, IntArray, Predictions
from smallcal.discipline import Discipline
from smallcal.errors import InputError
from smallcal.maps import (
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
    fit_scalar,
    fit_temperature,
    tail_temperature,
)
from smallcal.objectives import Gaps, Moments, log_odds, moments, objective
from smallcal.recipes import RECIPES
from smallcal.router import SignalFit, no_signal
from smallcal.routes import ROUTES, fit_signal, observe
from smallcal.runtime import FittedCalibrator
from smallcal.special import sigmoid, softplus

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
    parameters : str
        Number of fitted parameters, as a formula in C (classes) and d (features).
    """

    objective: str
    signal: str = "none"
    map: str = "scalar"
    options: Mapping[str, Any] = field(default_factory=dict)
    discipline: Discipline = field(default_factory=Discipline)
    tail: str | None = None
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
        if self.tail not in (None, "nll") or (self.tail and not RECIPES[self.map].tailed):
            raise InputError(
                f"tail must be None, or 'nll' where one temperature scales a row; got "
                f"{self.tail!r} for the map {self.map}"
            )
        given = {name: _frozen(value) for name, value in self.options.items()}
        object.__setattr__(self, "options", MappingProxyType({**known, **given}))
        if self.options.get("n_groups", 1) < 1:
            raise InputError(f"n_groups must be at least 1; got {self.options['n_groups']}")

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
            own["tail"] = self.tail
        return {"objective": self.objective, "signal": self.signal, **own, **care}

    def with_options(self, options: Mapping[str, Any]) -> Method:
        """Return the same method with some options changed."""
        unknown = sorted(set(options) - set(self.known_options()))
        known_axes = ("objective", "signal", "tail")
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
        tail = None
        if self.tail is not None and preds.n_classes > 2:
            tail = tail_temperature(preds, pooled, bounds=self.discipline.bounds)
        # With the axes' names beside them the options say all it takes to fit again.
        options = {"signal": self.signal, "map": self.map, **self.options}
        if RECIPES[self.map].tailed:
            options["tail"] = self.tail
        fitted = FittedCalibrator(
            method=name,
            objective=self.objective,
            options=options,
            tail_temperature=tail,
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
        if preds.n < SAMPLES_PER_PARAMETER * fitted.n_parameters:
            fitted = replace(fitted, flags={**fitted.flags, "few_samples": []})
        if tail is None:
            return fitted
        proba = fitted.predict_proba(
            preds.logits.astype(np.float64), features=preds.features, labels=preds.labels
        )
        after = _outcome_of(proba, preds, preds.predicted)
        return replace(fitted, fit_metrics={**fitted.fit_metrics, **after})

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
        everyone = no_signal(preds.n)
        if self.map == "identity":
            goal, pooled = objective("nll"), Temperature(1.0)
        else:
            goal = objective(self.objective)
            start = Evaluated(1.0, goal.terms(gaps, raw))
            prior = Prior(1.0, POOLED_SCALE) if own.get("prior_scale") is not None else None
            pooled = fit_temperature(
                goal, gaps, bounds=self.discipline.bounds, start=start, prior=prior
            )
        split = Split(preds, gaps, goal, pooled, everyone.scores, self.discipline)
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
        if isinstance(fit.map, ScalarMap):  # the map fell back: nothing is left to route
            routed = replace(everyone, flags=routed.flags)
        return routed, fit, pooled.value


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


def _outcome_of(proba: FloatArray, preds: Predictions, predicted: IntArray) -> dict[str, Any]:
    every = np.arange(preds.n)
    tiny = np.finfo(np.float64).tiny
    top = proba[every, predicted]
    bet = np.where(predicted == preds.labels, top, 1 - top)
    return {
        "after": {
            "nll": float(-np.log(np.maximum(proba[every, preds.labels], tiny)).mean()),
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
