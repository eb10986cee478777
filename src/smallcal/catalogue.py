"""Every named method as one row of parts.

A calibrator is one choice on each of four axes: what the fit minimises (objective), what a
temperature may depend on (signal), how (map), and what keeps the fit honest (discipline).
``METHODS`` is the only registry: the command line, the tests and the docs loop over it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from smallcal.data import FloatArray, Predictions
from smallcal.discipline import Discipline
from smallcal.errors import InputError
from smallcal.maps import (
    Evaluated,
    MapFit,
    ScalarMap,
    Split,
    TemperatureMap,
    fit_groups,
    fit_scalar,
    fit_temperature,
)
from smallcal.objectives import Gaps, Moments, log_odds, moments, objective
from smallcal.router import ROUTES, SignalFit, fit_signal, no_signal, split_statistics
from smallcal.runtime import FittedCalibrator
from smallcal.signals import STATISTICS, NoSignal, require_statistics
from smallcal.special import sigmoid, softplus

MAP_KINDS = ("identity", "scalar", "groups")


@dataclass(frozen=True, kw_only=True)
class Method:
    """One choice on each axis. ``fit`` gives the numbers.

    Attributes
    ----------
    objective : str
        Name in ``OBJECTIVES``, or ``mixed(weight)``; "none" for the identity.
    signal : str
        Name in ``ROUTES``.
    map : {"identity", "scalar", "groups"}
    n_groups : int
        For the group map.
    statistics : tuple of str
        What the risk score sees.
    discipline : Discipline
    summary : str
        One line for people.
    """

    objective: str
    signal: str = "none"
    map: str = "scalar"
    n_groups: int = 3
    statistics: tuple[str, ...] = STATISTICS
    discipline: Discipline = field(default_factory=Discipline)
    summary: str = ""

    def __post_init__(self) -> None:
        if self.map not in MAP_KINDS:
            raise InputError(f"unknown map {self.map!r}; choose from {', '.join(MAP_KINDS)}")
        if self.signal not in ROUTES:
            raise InputError(f"unknown signal {self.signal!r}; choose from {', '.join(ROUTES)}")
        if self.n_groups < 1:
            raise InputError(f"n_groups must be at least 1; got {self.n_groups}")
        require_statistics(self.statistics)
        if self.map != "identity":
            # One spelling for one objective: "mixed" and "mixed(1.0)" are "mixed(1)".
            object.__setattr__(self, "objective", objective(self.objective).name)

    @property
    def name(self) -> str:
        """The row of ``METHODS`` with these parts, options that differ in brackets."""
        for name, row in METHODS.items():
            if (row.objective, row.signal, row.map) == (self.objective, self.signal, self.map):
                changed = [
                    f"n_groups={self.n_groups}" if self.n_groups != row.n_groups else "",
                    f"statistics={'+'.join(self.statistics)}"
                    if self.statistics != row.statistics
                    else "",
                ]
                options = ",".join(option for option in changed if option)
                return f"{name}[{options}]" if options and self.map == "groups" else name
        return "custom"

    def fit(self, preds: Predictions, /) -> FittedCalibrator:
        """Fit on checked predictions."""
        gaps = Gaps.of(preds)
        raw = moments(gaps, 1.0)
        routed, fit, pooled = self._fit_parts(preds, gaps, raw)
        assert isinstance(fit.map, TemperatureMap)
        beta = 1 / fit.map(routed.deployed)
        return FittedCalibrator(
            method=self.name,
            objective=self.objective,
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
                "after": _losses(gaps, beta, log_odds(gaps, beta)),
            },
        )

    def _fit_parts(
        self, preds: Predictions, gaps: Gaps, raw: Moments
    ) -> tuple[SignalFit, MapFit, float]:
        routed = no_signal(preds)
        if self.map == "identity":
            return routed, MapFit(ScalarMap(1.0, fitted=False), (preds.n,)), 1.0
        goal = objective(self.objective)
        start = Evaluated(1.0, goal.terms(gaps, raw))
        pooled = fit_temperature(goal, gaps, bounds=self.discipline.bounds, start=start)
        # One group needs no router: skipping it makes K = 1 equal the scalar bit for bit.
        if self.map == "groups" and self.n_groups > 1:
            stats = split_statistics(preds, gaps, raw)
            routed = fit_signal(self.signal, preds, stats, self.discipline, use=self.statistics)
        split = Split(preds, gaps, goal, pooled, routed.scores, self.discipline)
        if isinstance(routed.signal, NoSignal):
            return routed, fit_scalar(split), pooled.value
        return routed, fit_groups(split, n_groups=self.n_groups), pooled.value


def _losses(gaps: Gaps, beta: float | FloatArray, odds: FloatArray) -> dict[str, float]:
    """Return the losses that an artefact records, from the log-odds of the confidence."""
    return {
        "nll": float((softplus(-odds) - beta * gaps.label).mean()),
        "top_label_bce": float(softplus(np.where(gaps.correct, -odds, odds)).mean()),
        "mean_confidence": float(sigmoid(odds).mean()),
    }


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "none": Method(objective="none", map="identity", summary="leave the model alone"),
        "ts-nll": Method(objective="nll", summary="temperature scaling, by log-likelihood"),
        "tva-ts": Method(objective="bce", summary="temperature scaling, by top-label BCE (TvA)"),
        "ts-brier": Method(objective="brier", summary="temperature scaling, by top-label Brier"),
        "ts-softece": Method(objective="softece", summary="temperature scaling, by soft ECE"),
        "srts-bce": Method(
            objective="bce",
            signal="risk",
            map="groups",
            summary="three temperatures by risk of being wrong: the paper's SRTS-BCE",
        ),
        "srts-nll": Method(
            objective="nll", signal="risk", map="groups", summary="SRTS fitted by log-likelihood"
        ),
        "srts-brier": Method(
            objective="brier", signal="risk", map="groups", summary="SRTS by top-label Brier"
        ),
        "srts-softece": Method(
            objective="softece", signal="risk", map="groups", summary="SRTS fitted by soft ECE"
        ),
        "srts-mixed": Method(
            objective="mixed(1)", signal="risk", map="groups", summary="SRTS by NLL + BCE"
        ),
        "margin-k3": Method(
            objective="bce",
            signal="logit_margin",
            map="groups",
            summary="three temperatures by logit margin, no router",
        ),
        "confidence-k3": Method(
            objective="bce",
            signal="confidence",
            map="groups",
            summary="three temperatures by raw confidence, no router",
        ),
        "probmargin-k3": Method(
            objective="bce",
            signal="prob_margin",
            map="groups",
            summary="three temperatures by probability margin, no router",
        ),
        "random-k3": Method(
            objective="bce",
            signal="random",
            map="groups",
            summary="control: three temperatures for random groups",
        ),
        "shuffled-k3": Method(
            objective="bce",
            signal="shuffled",
            map="groups",
            summary="control: SRTS with the risk scores shuffled between samples",
        ),
    }
)

#: Other names for a method; artefacts record the true one.
ALIASES: Mapping[str, str] = MappingProxyType({"default": "srts-bce"})


def method(name: str) -> Method:
    """Return a method by name or alias.

    Examples
    --------
    >>> row = method("srts-bce")
    >>> row.objective, row.signal, row.map, row.n_groups
    ('bce', 'risk', 'groups', 3)
    """
    true_name = ALIASES.get(name, name)
    if true_name not in METHODS:
        choices = ", ".join([*METHODS, *ALIASES])
        raise InputError(f"unknown method {name!r}; choose from {choices}")
    return METHODS[true_name]
