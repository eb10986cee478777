"""The estimators users see: each is one method in scikit-learn's manners.

Keyword-only constructors that do no work, ``fit(X, y)`` with X the logits of shape (n, C),
fitted attributes ending in ``_``, ``clone`` and ``get_params``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from smallcal.calibrators.base import BaseCalibrator
from smallcal.calibrators.catalogue import (
    ALIASES,
    LAB,
    METHODS,
    RandomState,
    method,
    resolve_method,
    seed_of,
    variant,
)
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.fitted import load as load_fitted
from smallcal.calibrators.method import Method
from smallcal.calibrators.signals import ROUTES, STATISTICS
from smallcal.errors import ArtefactError, InputError, choose


@dataclass(kw_only=True, eq=False, repr=False)
class Identity(BaseCalibrator):
    """Leave the model alone: softmax of the logits, nothing fitted.

    Parameters
    ----------
    input : {"logits", "probabilities", "score"}
    class_names : sequence of str, optional

    Examples
    --------
    >>> import smallcal as sc
    >>> val = sc.load_demo("cal")
    >>> sc.Identity().fit(val.logits, val.labels).n_parameters_
    0
    """

    input: str | None = None
    class_names: Sequence[str] | None = None

    def _compose(self) -> Method:
        return METHODS["none"]


@dataclass(kw_only=True, eq=False, repr=False)
class TemperatureScaling(BaseCalibrator):
    """One temperature for all, fitted by any objective.

    Parameters
    ----------
    objective : str
        "nll" (classic temperature scaling), "bce" (TvA-TS), "brier", "softece" or
        "mixed(weight)".
    bounds : tuple of two floats
        Allowed temperatures.
    input : {"logits", "probabilities", "score"}
        What ``X`` holds. If not given, logits; they are refused if they look like probabilities.
    class_names : sequence of str, optional
        Names of the columns; then labels may be names.

    Examples
    --------
    >>> import smallcal as sc
    >>> val = sc.load_demo("cal")
    >>> cal = sc.TemperatureScaling(objective="bce").fit(val.logits, val.labels)
    >>> bool(cal.temperatures_[0] < 1)   # label smoothing made this model under-confident
    True
    """

    objective: str = "nll"
    bounds: tuple[float, float] = (0.05, 20.0)
    input: str | None = None
    class_names: Sequence[str] | None = None

    def _compose(self) -> Method:
        return variant(_ONE_TEMPERATURE, {"objective": self.objective, "bounds": self.bounds})

    @property
    def temperature_(self) -> float:
        """The fitted temperature; logits are divided by it."""
        return float(self.temperatures_[0])

    @property
    def inverse_temperature_(self) -> float:
        """One over the temperature."""
        return 1 / self.temperature_


@dataclass(kw_only=True, eq=False, repr=False)
class SRTS(BaseCalibrator):
    """Signal-Routed Temperature Scaling: one temperature per group of similar risk.

    With its defaults this is the paper's deployed SRTS-BCE: a cross-fitted logistic risk score
    of six logit statistics, three equally large groups, one top-label-BCE temperature each; 10
    parameters, and the argmax never changes.

    Parameters
    ----------
    objective : str
        What each group's temperature minimises: "bce", "nll", "brier", "softece" or
        "mixed(weight)".
    signal : str
        What samples are grouped by: "risk", one of the six statistics ("confidence",
        "logit_margin", ...), "signed_residual" or "absolute_residual", "feature_risk",
        "feature_logit_risk" or "head_temperature" (which need ``fit(..., features=...)``),
        "logit_head_temperature", the controls "random" and "shuffled", or the diagnostics
        "oracle_risk" and "oracle_correctness".
    n_groups : int
        1 is plain temperature scaling.
    statistics : sequence of str
        What the risk score sees.
    prior_scale : float, optional
        Draws each group's log-temperature towards the pooled one, by a normal prior of this
        scale. None is the paper's method.
    n_folds, C, min_group_size, bounds
        See ``smallcal.calibrators.discipline.Discipline``.
    input : {"logits", "probabilities", "score"}
    class_names : sequence of str, optional
    random_state : int, Generator, RandomState or None
        Seeds the folds. An int makes the fit repeatable; None draws a seed.

    Attributes
    ----------
    temperatures_, thresholds_, pooled_temperature_, group_counts_
        The groups, lowest risk first.
    coef_, intercept_, signal_mean_, signal_scale_
        The risk score.
    n_parameters_, flags_, method_

    Examples
    --------
    >>> import smallcal as sc
    >>> val, test = sc.load_demo("cal"), sc.load_demo("test")
    >>> cal = sc.SRTS().fit(val.logits, val.labels)
    >>> cal.n_parameters_, len(cal.temperatures_)
    (10, 3)
    >>> before = sc.evaluate(test.labels, sc.Identity().fit(val.logits, val.labels)
    ...                      .predict_proba(test.logits))
    >>> after = sc.evaluate(test.labels, cal.predict_proba(test.logits))
    >>> after["ece15"] < before["ece15"], after["accuracy"] == before["accuracy"]
    (True, True)
    """

    objective: str = "bce"
    signal: str = "risk"
    n_groups: int = 3
    statistics: Sequence[str] = STATISTICS
    prior_scale: float | None = None
    n_folds: int = 5
    C: float = 1.0
    min_group_size: int = 50
    bounds: tuple[float, float] = (0.05, 20.0)
    input: str | None = None
    class_names: Sequence[str] | None = None
    random_state: RandomState = 0

    def _compose(self) -> Method:
        options = self.get_params(deep=False)
        options |= {"seed": seed_of(self.random_state), "statistics": tuple(self.statistics)}
        if self.signal in ROUTES and "statistics" not in ROUTES[self.signal].options:
            del options["statistics"]
        return variant(_SRTS, {key: options[key] for key in options if key not in _SHELL_OPTIONS})


@dataclass(kw_only=True, eq=False, repr=False)
class Calibrator(BaseCalibrator):
    """Post-hoc calibrator; ``method`` selects the algorithm.

    Parameters
    ----------
    method : str
        A name in :func:`smallcal.methods`.
    options : mapping, optional
        Options of that method, for instance ``{"n_groups": 5}`` or ``{"scale": "logit"}``;
        ``smallcal methods --json`` lists them.
    keep_predictions : bool
        If True, ``predict`` is the model's own prediction and ``confidence`` its calibrated
        probability, which need not be the largest; ``predict_proba`` exchanges the probabilities
        of the two classes where another one is more probable. If False, the predicted class may
        change: ``predict`` is the most probable class after calibration.
    input : {"logits", "probabilities", "score"}
    class_names : sequence of str, optional
    random_state : int, Generator, RandomState or None
        Used by methods that draw; others ignore it.

    Examples
    --------
    >>> import smallcal as sc
    >>> val = sc.load_demo("cal")
    >>> sc.Calibrator(method="tva-ts").fit(val.logits, val.labels).method_
    'tva-ts'
    >>> cal = sc.Calibrator(keep_predictions=True).fit(val.logits, val.labels)
    >>> bool((cal.predict(val.logits) == val.logits.argmax(axis=1)).all())
    True
    """

    method: str = "default"
    options: Mapping[str, Any] | None = None
    keep_predictions: bool = False
    input: str | None = None
    class_names: Sequence[str] | None = None
    random_state: RandomState = 0

    def _compose(self) -> Method:
        return resolve_method(
            self.method,
            input=self.input or "logits",
            options=self.options,
            keep_predictions=self.keep_predictions,
            random_state=self.random_state,
        )


#: What the estimators of one map each are variants of.
_ONE_TEMPERATURE, _SRTS = METHODS["ts-nll"], METHODS["srts-bce"]


#: Maps with an estimator class of their own; :class:`Calibrator` serves the others.
SHELLS: Mapping[str, type[BaseCalibrator]] = MappingProxyType(
    {"identity": Identity, "scalar": TemperatureScaling, "groups": SRTS}
)


def methods() -> dict[str, str]:
    """Return every method name with a one-line description.

    Examples
    --------
    >>> methods()["none"]
    'no calibration, the probabilities as the model gives them'
    """
    listing = {name: row.summary for name, row in METHODS.items()}
    aliases = {alias: name for alias, name in ALIASES.items() if name in listing}
    return listing | {alias: f"the same as {name}" for alias, name in aliases.items()}


def make(name: str, **options: Any) -> BaseCalibrator:
    """Return the estimator of a named method, unfitted.

    Parameters
    ----------
    name : str
        A name in :func:`methods`.
    **options
        Options of that estimator's constructor; an unknown one is an error.

    Examples
    --------
    >>> make("srts-bce", n_groups=5)
    SRTS(n_groups=5)
    >>> make("tva-ts")
    TemperatureScaling(objective='bce')
    """
    row = method(name)
    # A signal may have options that the class of its map does not.
    if row.map not in SHELLS or not _own_options(row).isdisjoint(options):
        own = {key: options.pop(key) for key in _SHELL_OPTIONS if key in options}
        estimator: BaseCalibrator = Calibrator(method=name, options=options or None, **own)
        estimator._compose()  # so that a wrong option is told now, not at fitting
        return estimator
    estimator = SHELLS[row.map]()
    known = estimator.get_params()
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise InputError(
            f"{name} has no option {unknown[0]!r}; {choose(unknown[0], sorted(known))}",
            code="unknown-choice",
        )
    own = {key: value for key, value in row.known_options().items() if key in known}
    estimator.set_params(**own | options)
    return estimator


def _own_options(row: Method) -> set[str]:
    """Return the options of a row's signal that the class of its map does not have."""
    return set(ROUTES[row.signal].options) - set(SHELLS[row.map]().get_params())


#: Options of every estimator, whatever its method.
_SHELL_OPTIONS = ("input", "class_names", "random_state", "keep_predictions")


def load(path: str | os.PathLike[str]) -> BaseCalibrator:
    """Load a calibrator that ``save`` wrote.

    Raises
    ------
    ArtefactError
        If the file is missing, damaged, of an unknown version or not a calibrator.

    Examples
    --------
    >>> import tempfile, smallcal as sc
    >>> val = sc.load_demo("cal")
    >>> path = tempfile.mkdtemp() + "/cal.json"
    >>> sc.SRTS().fit(val.logits, val.labels).save(path)
    >>> sc.load(path).method_
    'srts-bce'
    """
    fitted = load_fitted(path)
    try:
        estimator = estimator_of(fitted)
    except InputError as error:
        raise ArtefactError(
            f"{path} is not a valid calibrator: {error}", code="artefact-damaged"
        ) from None
    estimator._adopt(fitted)
    return estimator


def estimator_of(fitted: FittedCalibrator) -> BaseCalibrator:
    """Return the estimator that would fit such a calibrator again."""
    options: dict[str, Any] = {
        "objective": fitted.objective,
        **fitted.options,
        **asdict(fitted.discipline),
    }
    recipe, seed = options.pop("map", fitted.map.kind), options.pop("seed")
    # Logits need not be said, unless they looked like probabilities in the fit.
    said = fitted.input != "logits" or "like_probabilities" in fitted.flags
    input = fitted.input if said else None
    name = fitted.method.partition("[")[0]
    if name not in METHODS:  # composed by hand: any row with its map, all options changed
        alike = (other for other, row in METHODS.items() if row.map == recipe)
        name = next(alike, fitted.method) if name not in LAB else name
    if name not in METHODS:  # of a package that is not here: it cannot be fitted again
        return Calibrator(
            method=name, input=input, class_names=fitted.class_names, random_state=seed
        )
    row = method(name)
    usual = row.known_options()
    changed = {key: value for key, value in options.items() if value != usual.get(key)}
    special = _own_options(row) & changed.keys() if row.map in SHELLS else set[str]()
    estimator = make(name, **{key: changed[key] for key in special})
    known = estimator.get_params()
    shell = {"input": input, "class_names": fitted.class_names, "random_state": seed}
    if "options" in known:
        row.with_options(changed)
        changed.pop("keep_predictions", None)  # a parameter of its own
        shell["options"] = changed or None
    chosen = {key: value for key, value in {**options, **shell}.items() if key in known}
    estimator.set_params(**chosen)
    return estimator
