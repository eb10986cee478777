"""Fit the methods, measure them once, and compare any two of them from the same resamples."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from smallcal.calibrators.catalogue import ALIASES, METHODS
from smallcal.calibrators.estimators import Calibrator
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.maps import TemperatureMap
from smallcal.data.predictions import FloatArray
from smallcal.errors import FitWarning, InputError, MissingExtraError
from smallcal.metrics import METRICS, Scored
from smallcal.reports.samples import Samples
from smallcal.statistics.compare import Comparison, compare
from smallcal.statistics.interval import Interval, interval_of, require_options
from smallcal.statistics.noise import FLOORED, Floor, debiased_ece, noise_floor

Advance = Callable[[int], object]

RAW = "none"
#: The method everybody knows; differences from it are shown where it was fitted.
CLASSIC = "ts-nll"

#: What the table shows, with intervals. The smooth errors take seconds each to resample: their
#: values alone are in the document.
SHOWN = (
    "accuracy",
    "confidence_gap",
    "ece15",
    "adaece15",
    "top_label_bce",
    "nll",
    "brier",
    "auroc",
    "aurc",
)
#: What differences are taken of: all of those that are good in one direction.
COMPARED = tuple(name for name in SHOWN if METRICS[name].better != "zero")

#: Fewer resamples than this cannot carry a verdict.
MIN_BOOT = 100


@dataclass(frozen=True, eq=False)
class Fit:
    """One fitted method and its probabilities on the test samples.

    ``asked`` is the name it was asked for by, which may be an alias.
    """

    name: str
    asked: str
    estimator: Calibrator
    proba: FloatArray

    @property
    def fitted(self) -> FittedCalibrator:
        """The numbers."""
        return self.estimator.fitted_

    @property
    def deployable(self) -> bool:
        """Whether it may be recommended."""
        return self.fitted.deployable and self.fitted.signal.rowwise

    @property
    def routed(self) -> bool:
        """Whether samples may get different temperatures."""
        fitted = self.fitted
        return isinstance(fitted.map, TemperatureMap) and len(fitted.map.steps) != 1


@dataclass(frozen=True, eq=False)
class Measured:
    """All methods on the test samples.

    Attributes
    ----------
    fits : dict of str to Fit
        By true name, the raw model first.
    failures : dict of str to str
        Methods that could not be fitted, and why.
    scored : dict of str to Scored
    result : Comparison
        With resampled values, so that any two methods can be compared.
    points : dict of str to dict of str to float
        Every metric there is, without intervals.
    floors : dict of str to dict of str to Floor
    debiased : dict of str to float
        ece15 with the expected noise taken off.
    """

    fits: dict[str, Fit]
    failures: dict[str, str]
    scored: dict[str, Scored]
    result: Comparison
    points: dict[str, dict[str, float]]
    floors: dict[str, dict[str, Floor]]
    debiased: dict[str, float]

    def value(self, method: str, metric: str) -> Interval:
        """Return a metric of a method with its interval."""
        return self.result.value_intervals[method][metric]

    def difference(self, method: str, baseline: str, metric: str) -> Interval:
        """Return method minus baseline with its interval, paired by sample."""
        return paired(self.result, method, baseline, metric)

    def verdict(self, method: str, baseline: str, metric: str) -> str:
        """Return "better", "worse" or "tie"."""
        return verdict_of(metric, self.difference(method, baseline, metric))


def paired(result: Comparison, method: str, baseline: str, metric: str) -> Interval:
    """Return the difference of any two methods of a comparison, paired by sample."""
    one, other = (result.value_intervals[name][metric] for name in (method, baseline))
    return interval_of(
        one.point - other.point,
        one.values - other.values,
        unit=one.unit,
        level=result.level,
        biased=METRICS[metric].biased,
    )


def verdict_of(metric: str, row: Interval) -> str:
    """Return what a difference amounts to; resampled calibration errors must pass both intervals.

    Examples
    --------
    >>> import numpy as np
    >>> verdict_of("nll", interval_of(-0.2, np.array([-0.3, -0.2, -0.1]), unit="samples"))
    'better'
    """
    real = row.sure if METRICS[metric].biased else row.excludes_zero
    return row.verdict(METRICS[metric].better) if real else "tie"


def true_names(methods: Sequence[str]) -> dict[str, str]:
    """Return each method's true name and the one it was asked for by, the raw model first.

    Examples
    --------
    >>> true_names(["ts-nll", "default"])
    {'none': 'none', 'ts-nll': 'ts-nll', 'class-linear+tail+gate': 'default'}
    """
    if isinstance(methods, str):
        raise InputError(f"methods must be a list of names; got the string {methods!r}")
    known = {**METHODS, **ALIASES}
    found = {RAW: RAW}
    for name in methods:
        if name not in known:
            raise InputError(f"unknown method {name!r}; choose from {', '.join(known)}")
        found.setdefault(ALIASES.get(name, name), name)
    return found


def measure(
    names: dict[str, str],
    calibration: Samples,
    test: Samples,
    *,
    bootstrap: tuple[int, float, int],
    advance: Advance = lambda steps: None,
) -> Measured:
    """Fit on one split, measure on the other; ``bootstrap`` is (n_boot, level, seed)."""
    n_boot, level, seed = bootstrap
    require_boot(n_boot, level)
    fits, failures = fit_all(names, calibration, test, seed=seed, advance=advance)
    labels = test.preds.labels
    probas = {name: fit.proba for name, fit in fits.items()}
    result = compare(
        labels,
        probas,
        baseline=RAW,
        metrics=SHOWN,
        n_boot=n_boot,
        level=level,
        random_state=seed,
        advance=advance,
    )
    scored = {name: Scored.of(labels, proba) for name, proba in probas.items()}
    floored = [name for name in SHOWN if name in FLOORED]
    return Measured(
        fits=fits,
        failures=failures,
        scored=scored,
        result=result,
        points={
            name: {metric.name: metric.of(view) for metric in METRICS.values()}
            for name, view in scored.items()
        },
        floors={
            name: noise_floor(view.proba, metrics=floored, level=level, random_state=seed)
            for name, view in scored.items()
        },
        debiased={name: debiased_ece(labels, view.proba) for name, view in scored.items()},
    )


def require_boot(n_boot: int, level: float) -> None:
    """Raise unless the resamples can carry a verdict."""
    require_options(n_boot, level, least=MIN_BOOT, why="every verdict rests on intervals")


def fit_all(
    names: dict[str, str],
    calibration: Samples,
    test: Samples,
    *,
    seed: int,
    advance: Advance = lambda steps: None,
) -> tuple[dict[str, Fit], dict[str, str]]:
    """Fit each method; one that fails is a reason, not the end of the others."""
    fits: dict[str, Fit] = {}
    failures: dict[str, str] = {}
    for name, asked in names.items():
        try:
            fits[name] = _fit(name, asked, calibration, test, seed)
        except MissingExtraError as error:
            failures[name] = str(error)
        except Exception as error:  # the other methods' results must not be lost
            if name == RAW:
                raise
            failures[name] = " ".join(f"{type(error).__name__}: {error}".split())
        advance(1)
    return fits, failures


def _fit(name: str, asked: str, calibration: Samples, test: Samples, seed: int) -> Fit:
    # The records hold logits, whatever came in; what is saved says what came in.
    estimator = Calibrator(method=name, random_state=seed)
    cal = calibration.preds
    with warnings.catch_warnings():
        # Flags say the same, and the report shows them.
        warnings.simplefilter("ignore", FitWarning)
        estimator.fit(cal.logits, cal.labels, features=cal.features)
    return Fit(name, asked, estimator, applied(estimator.fitted_, test))


def applied(fitted: FittedCalibrator, samples: Samples) -> FloatArray:
    """Return a calibrator's probabilities of checked samples."""
    preds = samples.preds
    labels = preds.labels if "labels" in fitted.signal.needs else None
    return fitted.predict_proba(preds.logits, features=preds.features, labels=labels)


def artefact_of(fit: Fit, calibration: Samples) -> FittedCalibrator:
    """Return what would be saved: it takes the kind of numbers that the user has."""
    return replace(fit.fitted, input=calibration.input, class_names=calibration.class_names)
