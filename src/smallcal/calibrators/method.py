"""A calibrator as one choice on each axis, and how it is fitted.

Objective, signal, map and discipline are parts with names; a :class:`Method` is one of each. Its
``fit`` is the only place where they meet: score the samples, fit the map on the scores, and keep
the numbers that new rows need.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from smallcal.calibrators.discipline import NOTES, Discipline
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.given import Given
from smallcal.calibrators.maps import RECIPES, MapFit, Split, TemperatureMap
from smallcal.calibrators.maps.temperature import (
    Evaluated,
    ScalarMap,
    Temperature,
    fit_scalar,
    fit_temperature,
    one_sided,
    pooled_prior,
)
from smallcal.calibrators.objectives import Seen, log_odds, losses, objective, sigmoid
from smallcal.calibrators.parts import frozen
from smallcal.calibrators.reference import reference_of, with_classes
from smallcal.calibrators.signals import ROUTES, NoSignal, Observed, SignalFit, no_signal
from smallcal.calibrators.with_groups import with_groups
from smallcal.data.checks import probabilities_like, whole_number
from smallcal.data.masks import any_masked, is_masked
from smallcal.data.predictions import FloatArray, IntArray, Predictions
from smallcal.errors import FitWarning, InputError, choose, missing_input

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
    keep_predictions : bool
        Whether ``predict`` stays the model's own prediction where the map prefers another class.
    name : str
        In the catalogue; of a variant, with the options that differ from its row in brackets.
    title : str
        What people call it: in headings, sentences and the glossary.
    summary : str
        One line for people.
    source : str
        Where the method comes from.
    cites : tuple of str
        What to cite for it: keys of ``data/references.bib``, or entries of BibTeX.
    parameters : str
        Number of fitted parameters, as a formula in C (classes) and d (features).
    paper : str
        The part of the SRTS paper it appears in, if any.
    good_for : str
        When to reach for it.
    origin : Method or None
        The row of the catalogue that it is a variant of.
    needs : tuple of str
        What must come with the logits: "features", "labels" or nothing.
    """

    objective: str
    signal: str = "none"
    map: str = "scalar"
    options: Mapping[str, Any] = field(default_factory=dict)
    discipline: Discipline = field(default_factory=Discipline)
    keep_predictions: bool = False
    name: str = "custom"
    title: str = ""
    summary: str = ""
    source: str = ""
    cites: tuple[str, ...] = ()
    parameters: str = ""
    paper: str = ""
    good_for: str = ""
    origin: Method | None = field(default=None, repr=False, compare=False)
    needs: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        known = _part_options(self.signal, self.map)
        if self.options:
            self._require_sound(known)
        given = {name: frozen(value) for name, value in self.options.items()}
        object.__setattr__(self, "options", MappingProxyType({**known, **given}))
        object.__setattr__(self, "needs", ROUTES[self.signal].needs)
        if self.map != "identity":
            # One spelling for one objective: "mixed" and "mixed(1.0)" are "mixed(1)".
            object.__setattr__(self, "objective", objective(self.objective).name)

    def _require_sound(self, known: Mapping[str, Any]) -> None:
        unknown = sorted(set(self.options) - set(known))
        if unknown:
            raise InputError(
                f"a method of {self.signal} and {self.map} has no option {unknown[0]!r}; "
                + (choose(unknown[0], known) if known else "it has none"),
                code="unknown-choice",
            )
        if "n_groups" in self.options:
            whole_number(self.options["n_groups"], "n_groups", least=1)

    def as_variant_of(self, row: Method) -> Method:
        """Return the same under the name of a row, with what differs from it in brackets.

        Examples
        --------
        >>> row = Method(objective="bce", signal="risk", map="groups", name="srts-bce")
        >>> Method(
        ...     objective="bce", signal="risk", map="groups", options={"n_groups": 5}
        ... ).as_variant_of(row).name
        'srts-bce[n_groups=5]'
        """
        before = row._axes()
        changed = [
            f"{key}={'+'.join(map(str, value)) if isinstance(value, tuple) else value}"
            for key, value in self._axes().items()
            if value != before.get(key)
        ]
        name = f"{row.name}[{','.join(changed)}]" if changed else row.name
        return replace(self, name=name, origin=row)

    @property
    def keeps_argmax(self) -> bool:
        """Whether no fit can change the predicted class."""
        return self.keep_predictions or RECIPES[self.map].keeps_argmax

    @property
    def binary(self) -> bool:
        """Whether it is for two classes, or one number, only."""
        return RECIPES[self.map].binary

    @property
    def deployable(self) -> bool:
        """Whether it can be used where labels are unknown, and saved."""
        return "labels" not in self.needs and RECIPES[self.map].saved

    @property
    def threads(self) -> int | None:
        """How many fits may run at once: of other packages one, of ours as many as one likes."""
        return None if RECIPES[self.map].saved else 1

    def _axes(self) -> dict[str, Any]:
        """Return the choices that make the method what it is, beside its map."""
        found = {"objective": self.objective, "signal": self.signal, **self.options}
        return found | self._extras()

    def _extras(self) -> dict[str, Any]:
        """Return the choices beside the axes that are open to such a method."""
        if RECIPES[self.map].keeps_argmax:
            return {}
        return {"keep_predictions": self.keep_predictions}

    def known_options(self) -> dict[str, Any]:
        """Return every option :meth:`with_options` takes, with its present value."""
        return self._axes() | {name: getattr(self.discipline, name) for name in _CARE}

    def with_options(self, options: Mapping[str, Any]) -> Method:
        """Return the same method with some options changed."""
        own = _part_options(options.get("signal", self.signal), self.map)
        known = self.known_options()
        unknown = sorted(set(options) - set(known) - set(own))
        if unknown:
            raise InputError(
                f"no option {unknown[0]!r}; {choose(unknown[0], sorted(known))}",
                code="unknown-choice",
            )
        axes = {name: options[name] for name in _AXES if name in options}
        care = {name: frozen(options[name]) for name in _CARE if name in options}
        kept = {name: value for name, value in {**self.options, **options}.items() if name in own}
        made = replace(self, **axes, options=kept, discipline=replace(self.discipline, **care))
        return made if made._axes() == self._axes() else made.as_variant_of(self.origin or self)

    def fit(self, preds: Predictions | Seen, /, *, record: bool = True) -> FittedCalibrator:
        """Fit on checked predictions; several methods may share one look at them.

        Without ``record`` it has no losses, no fingerprint of the data and no counts for a monitor,
        and the default is not cross-validated against temperature scaling: for those who fit a
        hundred times to apply each fit once.
        """
        seen = preds if isinstance(preds, Seen) else Seen.of(preds)
        preds = seen.preds
        routed, fit, pooled = self._fit_parts(seen, checked=record)
        fitted = FittedCalibrator(
            method=self.name,
            objective=self.objective,
            # With the axes' names beside them the options say all it takes to fit again.
            options={"signal": self.signal, "map": self.map, **self.options, **self._extras()},
            signal=routed.signal,
            map=fit.map,
            pooled_temperature=pooled,
            n_classes=preds.n_classes,
            score=preds.score,
            keep_predictions=self.keep_predictions,
            group_counts=fit.counts,
            flags={**routed.flags, **fit.flags},
            discipline=self.discipline,
            data={"n": preds.n},
        )
        if fitted.has_few_samples:
            fitted = replace(fitted, flags={**fitted.flags, "few_samples": []})
        if preds.score is None and probabilities_like(preds.logits):
            fitted = replace(fitted, flags={**fitted.flags, "like_probabilities": []})
        if preds.groups is not None:
            fitted = with_groups(fitted, preds)
        if not record:
            return fitted
        data: dict[str, Any] = {"n": preds.n, "sha256": preds.sha256()}
        if any_masked(preds.logits):
            data["masked"] = int(is_masked(preds.logits).any(axis=1).sum())
        odds = seen.raw.log_odds if preds.score is None else preds.logits[:, 1].astype(np.float64)
        return replace(
            fitted,
            data=data,
            fit_metrics={**fit_metrics(fitted, seen, routed.deployed, fit.proba), **fit.metrics},
            reference=reference_of(fitted, Given(preds.logits, preds.features, preds.labels), odds),
        )

    def _fit_parts(self, seen: Seen, *, checked: bool) -> tuple[SignalFit, MapFit, float]:
        """Fit the pooled temperature, then the signal, then the map on the signal's scores."""
        preds, gaps, raw = seen
        recipe, care = RECIPES[self.map], self.discipline
        own = {name: self.options[name] for name in recipe.options}
        goal, pooled, prior = objective("nll"), Temperature(1.0), None
        if self.map != "identity":
            goal = objective(self.objective)
            start = Evaluated(1.0, goal.terms(gaps, raw))
            if own.get("prior_scale") is not None:
                prior = pooled_prior(goal, gaps, raw, bounds=care.bounds)
            pooled = fit_temperature(goal, gaps, bounds=care.bounds, start=start, prior=prior)
        alike = np.zeros(gaps.n)
        split = Split(preds, gaps, goal, pooled, alike, care, prior, checked=checked)
        # One group needs no router: skipping it makes K = 1 equal the scalar bit for bit.
        single = self.map == "groups" and (self.signal == "none" or own["n_groups"] == 1)
        if single or self.signal == "none":
            fit = fit_scalar(split) if single else recipe.fit(split, **own)
            # A temperature that reads scores has none to read.
            if isinstance(fit.map, TemperatureMap) and fit.map.reads:
                fit = fit_scalar(split)
            return SignalFit(alike, NoSignal(), alike), fit, pooled.value
        flags = {"one_sided": list[int]()} if prior is not None and one_sided(split) else {}
        routed, fit = self._fit_routed(split, Observed.of(preds, gaps, raw, care), own)
        return routed, replace(fit, flags={**fit.flags, **flags}), pooled.value

    def _fit_routed(
        self, split: Split, seen: Observed, own: Mapping[str, Any]
    ) -> tuple[SignalFit, MapFit]:
        """Fit the signal, then the map on its scores."""
        if "features" in self.needs and seen.preds.features is None:
            raise missing_input(self.name or "this method", "features")
        route = ROUTES[self.signal]
        routed = route.fit(seen, **{name: self.options[name] for name in route.options})
        if routed.signal.kind == "none":
            fit = fit_scalar(split)
        else:
            split = replace(split, scores=routed.scores, thresholds=routed.thresholds)
            fit = RECIPES[self.map].fit(split, **own)
            if isinstance(fit.map, ScalarMap):  # the map fell back: nothing is left to route
                routed = no_signal(split.gaps.n, **routed.flags)
        return routed, fit


_AXES = ("objective", "signal", "keep_predictions")


def _part_options(signal: str, map_name: str) -> dict[str, Any]:
    """Return the options of a signal and a map, with their defaults."""
    if map_name not in RECIPES:
        raise InputError(
            f"unknown map {map_name!r}; {choose(map_name, RECIPES)}", code="unknown-choice"
        )
    if signal not in ROUTES:
        raise InputError(
            f"unknown signal {signal!r}; {choose(signal, ROUTES)}", code="unknown-choice"
        )
    return {**ROUTES[signal].options, **RECIPES[map_name].options}


def fit_arrays(
    method: Method,
    X: object,
    y: object,
    *,
    input: str | None = None,
    features: object = None,
    **given: Any,
) -> FittedCalibrator:
    """Check arrays and fit a method on them; see :meth:`BaseCalibrator.fit`.

    ``given`` are class names, weights, groups and clusters, as :meth:`Predictions.of` takes them.

    Examples
    --------
    >>> from smallcal.calibrators.catalogue import method
    >>> fit_arrays(method("ts-nll"), [[2.0, 0.0]] * 60, [0] * 40 + [1] * 20).map.kind
    'scalar'
    """
    features = features if "features" in method.needs else None
    preds = Predictions.of(X, y, input=input, features=features, **given).counted()
    preds.require_fittable()
    fitted = method.fit(preds)
    fitted = with_classes(fitted, preds.logits, preds.features, preds.group_labels)
    fitted = replace(fitted, input=input or "logits", class_names=preds.class_names)
    if preds.score is not None:
        fitted = replace(fitted, flags={**preds.score.flags(X), **fitted.flags})
    return fitted


def warn_of_flags(fitted: FittedCalibrator) -> None:
    """Say once, in words, what about this fit a person should act on."""
    for name, groups in fitted.flags.items():
        if name in NOTES:
            continue
        where = ""
        if groups and name != "absent_classes":
            where = f" in group{'s' * (len(groups) > 1)} {', '.join(map(str, groups))}"
        warnings.warn(f"{name}{where}: {fitted.flag_text(name)}", FitWarning, stacklevel=3)


_TINY = np.finfo(np.float64).tiny


def fit_metrics(
    fitted: FittedCalibrator, seen: Seen, scores: FloatArray, proba: FloatArray | None
) -> dict[str, Any]:
    """Return accuracy, losses before and after calibration, and how many predictions change.

    ``scores`` are those of the signal, which the map turns into temperatures; ``proba`` the map's
    probabilities, where they are known already.
    """
    preds = seen.preds
    if preds.score is not None:
        return _score_metrics(fitted, preds)
    before, predicted = losses(seen.gaps, 1.0, seen.raw.log_odds), preds.predicted
    if isinstance(fitted.map, TemperatureMap) and preds.groups is None:
        beta = 1 / fitted.map(scores)
        after = losses(seen.gaps, beta, log_odds(seen.gaps, beta))
    else:
        if proba is None or fitted.groups is not None:
            proba = _probabilities(fitted, preds)
        predicted = fitted.predicted(proba, preds.logits)
        after = losses_of(proba, preds, predicted)
    changed = int((predicted != preds.predicted).sum())
    accuracy = float(preds.correct.mean())
    return {"accuracy": accuracy, "before": before, "after": after, "changed_predictions": changed}


def _score_metrics(fitted: FittedCalibrator, preds: Predictions) -> dict[str, Any]:
    """Return the same of scores; confidence is that in outcome 1."""
    claimed, odds = np.ones(preds.n, dtype=np.int64), preds.logits[:, 1]
    raw = np.column_stack([sigmoid(-odds), sigmoid(odds)])
    return {
        "accuracy": float(preds.came.mean()),
        "before": losses_of(raw, preds, claimed),
        "after": losses_of(_probabilities(fitted, preds), preds, claimed),
        "changed_predictions": 0,
    }


def _probabilities(fitted: FittedCalibrator, preds: Predictions) -> FloatArray:
    """Return the calibrated probabilities of the samples that were fitted on."""
    given = Given(preds.logits.astype(np.float64, copy=False), preds.features, preds.labels)
    if fitted.groups is not None and preds.group_labels is not None:
        given = given._replace(groups=fitted.groups.codes(preds.group_labels))
    return fitted.calibrate(given)


def losses_of(proba: FloatArray, preds: Predictions, predicted: IntArray) -> dict[str, float]:
    """Return log-loss, top-label log-loss and mean confidence of probabilities."""
    rows = np.arange(preds.n)
    top = proba[rows, predicted]
    bet = np.where(predicted == preds.labels, top, 1 - top)
    return {
        "nll": float(-np.log(np.maximum(proba[rows, preds.labels], _TINY)).mean()),
        "top_label_bce": float(-np.log(np.maximum(bet, _TINY)).mean()),
        "mean_confidence": float(np.clip(top, 0, 1).mean()),
    }
