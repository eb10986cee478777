"""A world with known truth: logits of a many-class model whose true probabilities are known.

``docs/lab/simulate.md`` says what the controls do and how the world is made. A sample of class y,
ease e and noise n has log-likelihoods u = e (e 1_y + n), so P(y | u) = softmax(u) by Bayes' rule.
The model says T u, so it is calibrated at temperature T; a shift lowers e, and not T.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from smallcal.data.checks import MAX_SEED, FloatArray, IntArray, as_numpy, whole_number
from smallcal.data.special import erf, softmax
from smallcal.errors import InputError
from smallcal.metrics.binned import DEFAULT_BINS, equal_width
from smallcal.metrics.proper import FLOOR
from smallcal.metrics.scored import Scored

#: By how much a step of severity, of five, weakens what a sample shows.
_WEAKENING = 0.06
#: Standard deviation of the log-ease of samples.
_SPREAD = 0.1
#: Rows of the pilot that difficulty is ranked in, and numbers it may hold.
_PILOT_ROWS, _PILOT_SIZE = 4_000, 2_000_000
#: Quantiles it is ranked by: few, so that temperature is smooth and margins keep their order.
_KNOTS = 11
#: Streams of random numbers; each is a generator of its own, so that more rows change no others.
_PILOT, _LABELS, _EASE, _NOISE, _HIDDEN = range(5)


@dataclass(frozen=True, eq=False, kw_only=True)
class Simulated:
    """Logits, labels, and the truth behind them.

    The labels were drawn from the ``probabilities``. Logits must be divided by ``temperature`` so
    that the confidence is true; ``visible_temperature`` is the same as far as logits can tell.
    """

    logits: FloatArray
    labels: IntArray
    probabilities: FloatArray
    temperature: FloatArray
    visible_temperature: FloatArray

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.labels)

    def expected(self, y_proba: object) -> dict[str, float]:
        """Return metrics of calibrated probabilities of these logits, labels averaged out.

        ``accuracy``, ``top_label_bce``, ``nll`` and ``brier``, as fractions and in nats; their
        means over labels are exact, only the choice of samples is left to chance.

        Examples
        --------
        >>> rows = World(n_classes=10, temperature=2.0, structure=0.0).draw(500)
        >>> raw, true = (softmax(rows.logits / t) for t in (1.0, rows.temperature[:, None]))
        >>> rows.expected(raw)["nll"] > rows.expected(true)["nll"]
        True
        """
        scored, right = self._scored(y_proba)
        given, true = scored.proba, self.probabilities
        top_label = right * _log(scored.confidence) + (1 - right) * _log(scored.doubt)
        return {
            "accuracy": float(right.mean()),
            "top_label_bce": float(-top_label.mean()),
            "nll": float(-np.einsum("ij,ij->i", true, _log(given)).mean()),
            "brier": float(1 + np.einsum("ij,ij->i", given, given - 2 * true).mean()),
        }

    def true_ece(self, y_proba: object, *, bins: int = DEFAULT_BINS) -> float:
        """Return the calibration error that labels only hint at: confidence against true chances.

        The bins are those of :func:`smallcal.metrics.ece`, which measures the same with labels
        in place of the chances of being right, and so counts their noise as error too.
        """
        scored, right = self._scored(y_proba)
        place = equal_width(scored.confidence, bins)
        gaps = np.bincount(place, weights=scored.confidence - right, minlength=bins)
        return float(np.abs(gaps).sum() / self.n)

    def _scored(self, y_proba: object) -> tuple[Scored, FloatArray]:
        """Return checked probabilities, and the true chance that each prediction is right."""
        given_shape = as_numpy(y_proba, name="y_proba").shape
        if given_shape != self.logits.shape:
            raise InputError(f"y_proba must have shape {self.logits.shape}; got {given_shape}")
        scored = Scored.of(self.labels, y_proba)
        return scored, self.probabilities[np.arange(self.n), scored.proba.argmax(axis=1)]


@dataclass(frozen=True, kw_only=True)
class World:
    """A model and the samples it meets, all of it known.

    ``accuracy`` is that of the model on clean samples, on average over samples. Logits of middling
    difficulty must be divided by ``temperature``; log-temperature is higher by ``structure`` for
    the hardest samples, and lower for the easiest. With ``noise`` each sample's temperature is off
    by a factor of exp(noise) or exp(-noise), in such proportions that logits do not show it. Worlds
    that differ in ``seed`` alone are models trained anew, which meet the same samples.

    Examples
    --------
    >>> world = World(n_classes=20, accuracy=0.7, temperature=1.5, structure=0.3)
    >>> clean, shifted = world.draw(1000), world.draw(1000, severity=5)
    >>> clean.logits.shape, bool((clean.labels == shifted.labels).all())
    ((1000, 20), True)
    """

    n_classes: int = 100
    accuracy: float = 0.8
    temperature: float = 1.5
    structure: float = 0.3
    noise: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the controls."""
        whole_number(self.n_classes, "n_classes", least=2)
        whole_number(self.seed, "seed", most=MAX_SEED)
        _require_between("accuracy", self.accuracy, 1 / self.n_classes, 0.98)
        _require_between("temperature", self.temperature, 0.05, 20.0)
        _require_between("structure", self.structure, -0.5, 0.5)
        _require_between("noise", self.noise, 0.0, 1.0)

    def draw(
        self, n: int, *, split: str = "cal", severity: float = 0.0, draw: int = 0
    ) -> Simulated:
        """Draw n samples, of which the first are the same for every n.

        Any name is a split, and splits have no samples in common; another number ``draw`` draws
        other samples too. The rows of a shift, from 0 to 5, are those of the clean split with the
        same labels: evidence gets weaker and the model does not know.
        """
        whole_number(n, "n", least=1)
        whole_number(draw, "draw", most=MAX_SEED)
        _require_between("severity", severity, 0.0, 5.0)
        if not isinstance(split, str) or not split:
            raise InputError(f"split must be a name, such as 'cal' or 'test'; got {split!r}")
        left = 1 - _WEAKENING * severity
        scale, margins = _solved(self.n_classes, float(self.accuracy))
        sample = (*split.encode(), draw)
        labels = (_stream(_LABELS, *sample).random(n) * self.n_classes).astype(np.int64)
        ease = scale * np.exp(_SPREAD * _stream(_EASE, *sample).standard_normal(n))
        noise = _stream(_NOISE, self.seed, *sample).standard_normal((n, self.n_classes))
        scores = _evidence(left * ease, labels, noise)
        # The share of clean samples with smaller margins, without jumps.
        rank = np.interp(_margin(scores) / left, margins, np.linspace(0, 1, _KNOTS))
        visible = self.temperature * np.exp(self.structure * (1 - 2 * rank)) / left
        logits = (scores * visible[:, None]).astype(np.float32)
        luck = _stream(_HIDDEN, self.seed, *sample).random(n)
        probabilities, factor = _hide(logits / visible[:, None], labels, luck, self.noise)
        return Simulated(
            logits=logits,
            labels=labels,
            probabilities=probabilities,
            temperature=visible * factor,
            visible_temperature=visible,
        )


def _stream(*key: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence([len(key), *key]))


def _evidence(ease: FloatArray, labels: IntArray, noise: FloatArray) -> FloatArray:
    """Return log-likelihoods of the classes: the sample shows e in its own and 0 in the others.

    Unit noise on top of a mean that is e in place y and 0 elsewhere has log-likelihood e x_y plus
    terms without y, so these are the log-odds that Bayes' rule gives to equally frequent classes.
    """
    seen = noise * ease[:, None]
    seen[np.arange(len(labels)), labels] += ease**2
    return seen


def _margin(scores: FloatArray) -> FloatArray:
    second, first = np.partition(scores, -2, axis=1)[:, -2:].T
    return np.asarray(first - second)


@cache
def _solved(n_classes: int, accuracy: float) -> tuple[float, FloatArray]:
    """Return the ease that gives this accuracy, and quantiles of clean samples' margins."""
    low, high = math.log(1e-3), math.log(1e2)
    for _ in range(50):
        middle = (low + high) / 2
        too_low = _accuracy(math.exp(middle), n_classes) < accuracy
        low, high = (middle, high) if too_low else (low, middle)
    scale = math.exp(low)
    n = max(200, min(_PILOT_ROWS, _PILOT_SIZE // n_classes))
    rng = _stream(_PILOT, n_classes)
    labels = (rng.random(n) * n_classes).astype(np.int64)
    ease = scale * np.exp(_SPREAD * rng.standard_normal(n))
    pilot = _margin(_evidence(ease, labels, rng.standard_normal((n, n_classes))))
    return scale, np.quantile(pilot, np.linspace(0, 1, _KNOTS))


def _accuracy(scale: float, n_classes: int) -> float:
    """Return the expected accuracy, a sum over a grid that is right to six digits.

    The true class wins when e + n_y is above the other C - 1 normal numbers: with chance
    ∫ φ(x) Φ(x + e)^(C - 1) dx, averaged over the ease e.
    """
    x, steps = np.linspace(-9, 9, 361), np.linspace(-5, 5, 41)
    ease = scale * np.exp(_SPREAD * steps)
    below = (1 + erf((x + ease[:, None]) / math.sqrt(2))) / 2
    wins = np.maximum(below, 0) ** (n_classes - 1)
    of_x, of_ease = (np.exp(-(grid**2) / 2) for grid in (x, steps))
    return float(of_ease @ wins @ of_x / of_x.sum() / of_ease.sum())


def _hide(
    scaled: FloatArray, labels: IntArray, luck: FloatArray, noise: float
) -> tuple[FloatArray, FloatArray]:
    """Return the true probabilities and the factor of each sample's temperature.

    Hot samples are less sure than their logits say, cold ones surer. With doubts d, d_hot and
    d_cold, a share (d - d_cold) / (d_hot - d_cold) of hot ones leaves the chance of an error at
    d. The label is drawn already, so the kind is drawn given the label, by Bayes' rule; among
    the classes not predicted nothing changes.
    """
    proba = softmax(scaled)
    if noise == 0:
        return proba, np.ones(len(scaled))
    rows, top = np.arange(len(scaled)), scaled.argmax(axis=1)
    doubt, hot, cold = (_doubt(scaled / t, top) for t in (1.0, math.exp(noise), math.exp(-noise)))
    share = _ratio(doubt - cold, hot - cold, 0.5)
    chance = share * np.where(labels == top, (1 - hot) / (1 - doubt), _ratio(hot, doubt, 1.0))
    is_hot = luck < chance
    chosen = np.where(is_hot, hot, cold)
    proba *= _ratio(chosen, doubt, 1.0)[:, None]
    proba[rows, top] = 1 - chosen
    return proba, np.where(is_hot, math.exp(noise), math.exp(-noise))


def _doubt(scores: FloatArray, top: IntArray) -> FloatArray:
    """Return the probability of all classes but the top one, with its digits where it is small."""
    rows = np.arange(len(scores))
    weight = np.exp(scores - scores[rows, top][:, None])
    weight[rows, top] = 0
    others = weight.sum(axis=1)
    return np.asarray(others / (1 + others))


def _ratio(numerator: FloatArray, denominator: FloatArray, otherwise: float) -> FloatArray:
    """Divide, with a fixed answer where a doubt is too small for float64."""
    safe = np.where(denominator > 0, denominator, 1.0)
    return np.where(denominator > 0, numerator / safe, otherwise)


def _log(probability: FloatArray) -> FloatArray:
    return np.asarray(np.log(np.clip(probability, FLOOR, 1.0)))


def _require_between(name: str, value: float, low: float, high: float) -> None:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not low <= value <= high:
        raise InputError(f"{name} must be a number from {low:g} to {high:g}; got {value!r}")
