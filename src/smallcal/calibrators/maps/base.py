"""What a map is: how it is fitted, what it is fitted on, and what every fitted one can do."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from smallcal.calibrators.discipline import Discipline
from smallcal.calibrators.objectives import Gaps, Objective, moments
from smallcal.calibrators.parts import Part, Scores, keyword_defaults
from smallcal.calibrators.program import Row, Value
from smallcal.data.masks import any_masked, filled, is_masked, without_masked
from smallcal.data.predictions import FloatArray, IntArray, Predictions
from smallcal.errors import InputError

if TYPE_CHECKING:
    from smallcal.calibrators.maps.temperature import Prior, Temperature


class FittedMap(Part):
    """Numbers that turn logits and scores into probabilities; every field is plain data.

    Attributes
    ----------
    words : str
        Completes "Logits are ..."; ``{signal}`` stands for the signal's words.
    """

    kinds: ClassVar[dict[str, type[FittedMap]]] = {}

    @property
    @abstractmethod
    def n_parameters(self) -> int:
        """Number of fitted scalars."""

    @property
    def n_held(self) -> int:
        """How many of them a prior holds so firmly that they need no samples of their own."""
        return 0

    @property
    def preserves_argmax(self) -> bool:
        """Whether the predicted class can never change."""
        return True

    @property
    def reads(self) -> tuple[Scores, ...]:
        """What a signal may give it, one of these; nothing where it does not look at scores."""
        return ()

    @property
    def steps(self) -> tuple[float, ...]:
        """The temperatures, where there is a fixed set of them."""
        return ()

    def program(self, row: Row, scores: Value, /) -> Value:
        """Write down what the map gives a row, for exporters: temperature or probabilities."""
        raise InputError(
            f"a calibrator whose map is {self.kind!r} cannot be exported", code="method-unsuitable"
        )

    def interval(self, x: FloatArray, /) -> FloatArray:
        """Return two probabilities of the second class, (m, 2), at x = z1 - z0: Venn-Abers."""
        raise InputError(
            f"a map of kind {self.kind!r} has no interval; that of venn-abers has one",
            code="method-unsuitable",
        )

    def groups(self, scores: FloatArray, /) -> IntArray:
        """Return the group of each row, where the map has groups."""
        raise InputError(
            f"a calibrator whose map is {self.kind!r} has no groups", code="method-unsuitable"
        )


class TemperatureMap(FittedMap):
    """Gives each row the temperature that its logits are divided by."""

    @abstractmethod
    def __call__(self, scores: FloatArray, /) -> FloatArray:
        """Return the temperature of each row, from its score (m,) or scores (m, d)."""


class ProbabilityMap(FittedMap):
    """Gives each row its probabilities, in a way that one temperature cannot."""

    #: Whether the logit of a class may count for others: it then must be a number of usual size.
    mixes: ClassVar[bool] = False

    @abstractmethod
    def probabilities(self, logits: FloatArray, scores: FloatArray, /) -> FloatArray:
        """Return probabilities (m, C), float64, from raw logits (m, C), float64, and scores.

        Row by row: a row's result must not depend on the others'.
        """

    def of_options(self, logits: FloatArray, scores: FloatArray, /) -> FloatArray:
        """Return probabilities (m, C) that are 0 where a row does not have an option."""
        proba = self.probabilities(filled(logits) if self.mixes else logits, scores)
        if any_masked(logits):
            rows = np.flatnonzero(is_masked(logits).any(axis=1))
            proba[rows] = without_masked(proba[rows], logits[rows])
        return proba


@dataclass(frozen=True, eq=False)
class Split:
    """A calibration split, ready for a map to be fitted on.

    Attributes
    ----------
    preds : Predictions
    gaps : Gaps
        What the objectives need of them.
    goal : Objective
        What the fit minimises.
    pooled : Temperature
        The one temperature for all that is best by that objective.
    scores : ndarray of shape (n,) or (n, d)
        The signal to fit on: out of fold, where it was learned.
    discipline : Discipline
    prior : Prior or None
        What the pooled temperature was drawn towards, if anything.
    thresholds : tuple of float, or None
        Where groups must begin, for signals that know; else quantiles of the scores.
    checked : bool
        Whether the default cross-validates its fit against temperature scaling.
    """

    preds: Predictions
    gaps: Gaps
    goal: Objective
    pooled: Temperature
    scores: FloatArray
    discipline: Discipline
    prior: Prior | None = None
    thresholds: tuple[float, ...] | None = None
    checked: bool = True


@dataclass(frozen=True)
class MapFit:
    """A fitted map, the calibration samples behind each temperature, and what to know of them.

    Flags list the groups they concern. ``metrics`` are recorded beside those of the fitted
    calibrator. ``proba`` are the map's probabilities of the samples, where the fit has them anyway.
    """

    map: FittedMap
    counts: tuple[int, ...]
    flags: Mapping[str, list[int]] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    proba: FloatArray | None = None


AnyFit = TypeVar("AnyFit", bound=Callable[..., MapFit])


@dataclass(frozen=True)
class Recipe:
    """How a map is fitted.

    Attributes
    ----------
    fit : callable
        Takes a :class:`Split` and the options; gives a :class:`MapFit`.
    options : dict
        Name and default of each option: the keyword-only arguments of ``fit``.
    keeps_argmax : bool
        Whether no fit can change the predicted class.
    saved : bool
        Whether its fits can be saved and applied where labels are unknown.
    care : str
        What keeps the fit honest, where that is the map's own doing.
    binary : bool
        Whether it is for two classes, or one number, only.
    """

    fit: Callable[..., MapFit]
    options: Mapping[str, Any] = field(default_factory=dict)
    keeps_argmax: bool = True
    saved: bool = True
    care: str = ""
    binary: bool = False


#: The map axis by name: what :func:`recipe` has been told.
RECIPES: dict[str, Recipe] = {}


def recipe(
    name: str,
    *,
    keeps_argmax: bool = True,
    saved: bool = True,
    care: str = "",
    binary: bool = False,
) -> Callable[[AnyFit], AnyFit]:
    """Make a function the fit of the map of this name; see :class:`Recipe`."""

    def register(fit: AnyFit) -> AnyFit:
        options = keyword_defaults(fit)
        RECIPES[name] = Recipe(fit, options, keeps_argmax, saved, care, binary)
        return fit

    return register


def loss_and_slope(
    goal: Objective, gaps: Gaps, temperature: FloatArray
) -> tuple[float, FloatArray]:
    """Return the mean loss, and its derivative in each sample's own temperature.

    Every parametric map is fitted through this one function by the chain rule.
    """
    beta = 1 / temperature
    terms = goal.terms(gaps, moments(gaps, beta))
    weight = gaps.weights / gaps.total
    return float(weight @ terms.loss), -weight * terms.slope * beta**2


def minimise(
    loss: Callable[[FloatArray], tuple[float, FloatArray]],
    start: FloatArray,
    bounds: Sequence[tuple[float | None, float | None]] | None = None,
    **options: Any,
) -> Any:
    """Run SciPy's L-BFGS on a loss that comes with its gradient."""
    from scipy.optimize import minimize  # not at the top: maps are applied where SciPy is not

    how: Any = {"method": "L-BFGS-B", "bounds": bounds, "options": options}
    return minimize(loss, start, jac=True, **how)
