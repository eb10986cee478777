"""What a signal is: how it is fitted, what it may look at, what every fitted one can do."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np

from smallcal.calibrators.discipline import Discipline
from smallcal.calibrators.objectives import Gaps, Moments
from smallcal.calibrators.parts import NO_SCORES, ONE_SCORE, Part, Scores, keyword_defaults
from smallcal.calibrators.program import Row, Value, constant
from smallcal.calibrators.signals.logit_statistics import Rows, six_statistics
from smallcal.data.predictions import FloatArray, Predictions
from smallcal.errors import InputError


class FittedSignal(Part):
    """Scores rows; every field is plain data.

    Attributes
    ----------
    words : str
        What it is, where its name does not say: samples are grouped "by ...".
    rowwise : bool
        Whether a row's score depends on that row alone; only the random controls' do not.
    needs : tuple of str
        What it must be given beside logits: "features" or "labels".
    """

    kinds: ClassVar[dict[str, type[FittedSignal]]] = {}
    rowwise: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ()

    @property
    def name(self) -> str:
        """Its name in tables."""
        return self.kind.replace("_", " ")

    @property
    def n_parameters(self) -> int:
        """Number of fitted scalars."""
        return 0

    @property
    def n_features(self) -> int | None:
        """Number of features that each row must have, if it needs any."""
        return None

    def gives(self, n_classes: int, /) -> Scores:
        """Return what it gives each row."""
        return ONE_SCORE

    @abstractmethod
    def scores(self, rows: Rows, /) -> FloatArray:
        """Return the score of each row, shape (m,), or its scores, shape (m, d)."""

    def program(self, row: Row, /) -> Value:
        """Write down the score of a row, for exporters."""
        raise InputError(
            f"a calibrator whose signal is {self.kind!r} cannot be exported",
            code="method-unsuitable",
        )


@dataclass(frozen=True)
class NoSignal(FittedSignal):
    """Every row alike: one temperature for all."""

    kind: ClassVar[str] = "none"
    n_parameters = 0

    def gives(self, n_classes: int, /) -> Scores:
        """Return that it gives nothing."""
        return NO_SCORES

    def scores(self, rows: Rows, /) -> FloatArray:
        """Return zeros."""
        return np.zeros(len(rows))

    def program(self, row: Row, /) -> Value:
        """Return zero."""
        return constant(0.0)


@dataclass(frozen=True, eq=False)
class Observed:
    """What a signal is learned from: a calibration split, its rows, and how carefully."""

    preds: Predictions
    rows: Rows
    discipline: Discipline

    @classmethod
    def of(cls, preds: Predictions, gaps: Gaps, raw: Moments, discipline: Discipline) -> Observed:
        """Return a calibration split with its statistics.

        The kernel's sums at temperature 1 are those that statistics are made of.
        """
        rest = np.exp(-raw.log_odds)
        top = preds.logits[np.arange(preds.n), preds.predicted].astype(np.float64)
        stats = six_statistics(1 + rest, rest * raw.mean, gaps.best, top, preds.squared_norms)
        rows = Rows(
            preds.logits,
            statistics=stats,
            predicted=preds.predicted,
            features=preds.features,
            labels=preds.labels,
        )
        return cls(preds, rows, discipline)


@dataclass(frozen=True, eq=False)
class SignalFit:
    """Scores to fit temperatures on, and the signal that scores new rows.

    ``deployed`` are that signal's own scores of the calibration split. ``thresholds`` say where
    groups begin, for signals that know.
    """

    scores: FloatArray
    signal: FittedSignal
    deployed: FloatArray
    flags: dict[str, list[int]] = field(default_factory=dict)
    thresholds: tuple[float, ...] | None = None


def no_signal(n: int, **flags: list[int]) -> SignalFit:
    """Return the fit of "every row alike"."""
    zeros = np.zeros(n)
    return SignalFit(zeros, NoSignal(), zeros, flags)


AnyFit = TypeVar("AnyFit", bound=Callable[..., SignalFit])


@dataclass(frozen=True)
class Route:
    """How a signal is fitted.

    Attributes
    ----------
    fit : callable
        Takes :class:`Observed` and the options; gives a :class:`SignalFit`.
    options : dict
        Name and default of each option: the keyword-only arguments of ``fit``.
    needs : tuple of str
        What must come with the logits, at fitting and at prediction: "features", "labels".
    care : str
        What keeps the fit honest, where it is learned.
    """

    fit: Callable[..., SignalFit]
    options: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    care: str = ""


#: The signal axis by name: what :func:`route` has been told.
ROUTES: dict[str, Route] = {}


def route(name: str, *, needs: tuple[str, ...] = (), care: str = "") -> Callable[[AnyFit], AnyFit]:
    """Make a function the fit of the signal of this name; see :class:`Route`."""

    def register(fit: AnyFit) -> AnyFit:
        ROUTES[name] = Route(fit, keyword_defaults(fit), needs, care)
        return fit

    return register


def fit_signal(name: str, seen: Observed, **options: Any) -> SignalFit:
    """Fit the signal of this name."""
    if name not in ROUTES:
        raise InputError(
            f"unknown signal {name!r}; choose from {', '.join(ROUTES)}", code="unknown-choice"
        )
    return ROUTES[name].fit(seen, **options)


@route("none")
def fit_nothing(seen: Observed) -> SignalFit:
    """Treat every row alike."""
    return no_signal(seen.preds.n)
