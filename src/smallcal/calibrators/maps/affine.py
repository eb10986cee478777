"""Maps that weigh the classes anew: softmax(W x + b), with x the logits or their log-softmax.

Vector scaling has one scale per class; matrix scaling and Dirichlet calibration have a full
matrix and a bias. All are fitted by log-likelihood, see :mod:`smallcal.calibrators.maps.loglinear`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from smallcal.calibrators import program
from smallcal.calibrators.maps.base import MapFit, ProbabilityMap, Split, recipe
from smallcal.calibrators.maps.loglinear import (
    UNPENALISED,
    Problem,
    Sample,
    descend,
    fit_cross_validated,
)
from smallcal.calibrators.maps.temperature import one_sided, scalar_fallback, weighted_rows
from smallcal.calibrators.parts import Rule, list_of, rule
from smallcal.calibrators.program import Row, Value
from smallcal.data.masks import filled
from smallcal.data.predictions import FloatArray
from smallcal.data.special import log_softmax, softmax
from smallcal.errors import InputError

#: What an affine map may be applied to.
AFFINE_INPUTS = ("logits", "log_probabilities")

VECTOR_PENALTIES = (0.0, *(10.0**k for k in range(-5, 2)))
DIRICHLET_PENALTIES = tuple(10.0**k for k in range(-2, 4))


@dataclass(frozen=True, eq=False)
class AffineMap(ProbabilityMap):
    """softmax(W x + b).

    Attributes
    ----------
    weight : ndarray of shape (C,) or (C, C)
        W, or its diagonal where it has nothing else.
    bias : ndarray of shape (C,), or None
    on : {"logits", "log_probabilities"}
        What x is: the logits, or the logarithm of their softmax.

    Examples
    --------
    >>> doubled = AffineMap([2.0, 2.0])
    >>> doubled.probabilities(np.array([[np.log(3), 0.0]]), np.zeros(1)).round(3).tolist()
    [[0.9, 0.1]]
    """

    weight: FloatArray
    bias: FloatArray | None = None
    on: str = "logits"
    kind: ClassVar[str] = "affine"
    mixes: ClassVar[bool] = True
    words: ClassVar[str] = "multiplied class by class, or by a matrix, before the softmax"
    schema: ClassVar[Mapping[str, Rule]] = {
        "weight": list_of(
            {"type": ["number", "array"], "items": rule("number")},
            "A matrix row by row, or its diagonal where it has nothing else.",
            least=2,
        ),
        "bias": {"oneOf": [{"type": "null"}, rule("numbers")]},
        "on": {"type": "string", "enum": list(AFFINE_INPUTS)},
    }

    def __post_init__(self) -> None:
        weight = _finite_array(self.weight, name="weight")
        n_classes = len(weight) if weight.ndim else 0
        if n_classes < 2 or weight.shape not in ((n_classes,), (n_classes, n_classes)):
            raise InputError(f"weight must have shape (C,) or (C, C), C >= 2; got {weight.shape}")
        object.__setattr__(self, "weight", weight)
        if self.bias is not None:
            bias = _finite_array(self.bias, name="bias")
            if bias.shape != (n_classes,):
                raise InputError(f"bias must have shape ({n_classes},); got {bias.shape}")
            object.__setattr__(self, "bias", bias)
        if self.on not in AFFINE_INPUTS:
            raise InputError(f"on must be one of {', '.join(AFFINE_INPUTS)}; got {self.on!r}")

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.weight)

    @property
    def n_parameters(self) -> int:
        """Entries of the weight and the bias."""
        return self.weight.size + (0 if self.bias is None else self.bias.size)

    @property
    def preserves_argmax(self) -> bool:
        """No: classes are weighed against each other."""
        return False

    def probabilities(self, logits: FloatArray, scores: FloatArray, /) -> FloatArray:
        """Return probabilities (m, C), float64; ``scores`` are not looked at."""
        if logits.shape[1:] != (self.n_classes,):
            raise InputError(
                f"logits must have shape (m, {self.n_classes}), got {logits.shape}: the map was "
                f"fitted on {self.n_classes} classes",
                code="columns-differ",
            )
        x: FloatArray = np.ascontiguousarray(logits, dtype=np.float64)
        if self.on == "log_probabilities":
            x = log_softmax(x)
        # Not a matrix product: BLAS rounds a row differently in batches of different sizes.
        y = x * self.weight if self.weight.ndim == 1 else np.einsum("ij,kj->ik", x, self.weight)
        return softmax(y if self.bias is None else y + self.bias)

    def program(self, row: Row, scores: Value, /) -> Value:
        """Return the probabilities."""
        x = row.filled
        if self.on == "log_probabilities":
            gaps = x - row.best
            x = gaps - program.log(program.exp(gaps).sum())
        y = x * program.constant(self.weight) if self.weight.ndim == 1 else x.dot(self.weight)
        if self.bias is not None:
            y = y + program.constant(self.bias)
        return program.softmax(y - y.largest())


def _finite_array(values: object, *, name: str) -> FloatArray:
    """Return a private float64 copy of numbers that may come nested from JSON."""
    try:
        array = np.array(values, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise InputError(f"{name} cannot be read as an array of numbers: {error}") from None
    if not np.isfinite(array).all():
        raise InputError(f"{name} must be finite")
    array.flags.writeable = False
    return array


@recipe("vector", keeps_argmax=False, care="cross-validated penalty")
def fit_vector(split: Split, *, penalties: Sequence[float] = VECTOR_PENALTIES) -> MapFit:
    """Fit one scale per class, drawn towards the pooled temperature's.

    Minimises mean NLL + λ Σ (v - 1/T)², where λ is the one of ``penalties`` with the smallest
    cross-validated NLL. When a class has no label at all, nothing but the penalty holds its
    scale: λ = 0 is left out.

    Parameters
    ----------
    split : Split
    penalties : sequence of float
        Candidates for λ.

    Returns
    -------
    MapFit
        With the pooled temperature instead (``scalar_fallback``) where fewer than two
        predictions are wrong, or fewer than two right.
    """
    grid = _descending(penalties, name="penalties")
    if not _has_every_class(split):
        grid = [penalty for penalty in grid if penalty > 0]
    if one_sided(split):
        return scalar_fallback(split)
    if not grid:
        return scalar_fallback(split, "missing_classes")
    sample = Sample.of(split.preds, filled(split.preds.logits.astype(np.float64)))
    start = np.full(split.preds.n_classes, 1 / split.pooled.value)
    strengths = [np.full_like(start, penalty) for penalty in grid]
    weight = fit_cross_validated(sample, start, strengths, split.discipline)
    return MapFit(AffineMap(weight, None, "logits"), (split.gaps.n,))


@recipe("matrix", keeps_argmax=False)
def fit_matrix(split: Split) -> MapFit:
    """Fit a full matrix and a bias on the logits, with no penalty: matrix scaling.

    With many classes the split is soon fitted perfectly, by numbers that would grow for ever;
    the search then ends after 500 steps, or when one gains less than 1e-9. Where a class has no
    label (``missing_classes``), or fewer than two predictions are wrong or right
    (``scalar_fallback``), the pooled temperature is used instead.
    """
    if one_sided(split):
        return scalar_fallback(split)
    if not _has_every_class(split):
        return scalar_fallback(split, "missing_classes")
    sample = Sample.of(split.preds, filled(split.preds.logits.astype(np.float64)), bias=True)
    start = _scaled_identity(split)
    problem = Problem(sample, np.zeros_like(start), start)
    # Plain steps: where there is no minimum, whitening would only run away from it faster.
    theta, _ = descend(problem, start, np.ones_like(start), UNPENALISED)
    return MapFit(AffineMap(theta[:, :-1], theta[:, -1], "logits"), (split.gaps.n,))


@recipe("dirichlet", keeps_argmax=False, care="cross-validated penalties")
def fit_dirichlet(
    split: Split,
    *,
    lambdas: Sequence[float] = DIRICHLET_PENALTIES,
    mus: Sequence[float] = DIRICHLET_PENALTIES,
) -> MapFit:
    """Fit a full matrix and a bias on log-probabilities: Dirichlet calibration with ODIR.

    Minimises mean NLL + λ Σ_{i≠j} W_ij² + μ Σ b², where (λ, μ) is the pair of the grid with the
    smallest cross-validated NLL. It falls back as :func:`fit_matrix` does.

    Parameters
    ----------
    split : Split
    lambdas, mus : sequence of float
        Candidates for the off-diagonal and the bias penalty.
    """
    grid = _descending(lambdas, name="lambdas"), _descending(mus, name="mus")
    if one_sided(split):
        return scalar_fallback(split)
    if not _has_every_class(split):
        return scalar_fallback(split, "missing_classes")
    sample = Sample.of(
        split.preds, log_softmax(filled(split.preds.logits.astype(np.float64))), bias=True
    )
    start = _scaled_identity(split)
    strengths = [_odir_strength(start, lam, mu) for lam in grid[0] for mu in grid[1]]
    theta = fit_cross_validated(sample, start, strengths, split.discipline)
    fitted = AffineMap(theta[:, :-1], theta[:, -1], "log_probabilities")
    return MapFit(fitted, (split.gaps.n,))


def _descending(penalties: Sequence[float], *, name: str) -> list[float]:
    """Return checked penalties, strongest first: where warm starts begin, and ties go."""
    values = [float(value) for value in penalties]
    if not values or not all(0 <= value < float("inf") for value in values):
        raise InputError(f"{name} must be finite and not negative; got {tuple(values)}")
    return sorted(values, reverse=True)


def _has_every_class(split: Split) -> bool:
    seen = split.preds.labels[weighted_rows(split)]
    return len(np.unique(seen)) == split.preds.n_classes


def _scaled_identity(split: Split) -> FloatArray:
    """Return (W | b) of the pooled temperature."""
    n_classes = split.preds.n_classes
    return np.eye(n_classes, n_classes + 1) / split.pooled.value


def _odir_strength(start: FloatArray, lam: float, mu: float) -> FloatArray:
    """Return the penalty on each entry of (W | b); the diagonal goes free."""
    strength = np.full_like(start, lam)
    np.fill_diagonal(strength, 0)
    strength[:, -1] = mu
    return strength
