"""Groups that the user names: a shift of the confidence for each, held by a prior.

A kind of question, a site, a language: the same model may be surer than it should be in one and
not sure enough in another. After a calibrator is fitted, the log-odds of its confidence in the
claim are shifted by an effect of the row's group,

    log-odds' = log-odds + b_g,    b_g ~ N(0, sigma^2).

The claim is the predicted class. The split decides sigma: the one under which the outcomes are most
likely when the effects are integrated out (Laplace), 0 among the candidates. So where groups do not
differ nothing happens, and a group of few samples stays near the others. A group that the fit has
not seen gets no effect. Other classes keep their proportions, and the prediction never changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smallcal.calibrators import program
from smallcal.calibrators.objectives import sigmoid, softplus
from smallcal.calibrators.parts import Part, Rule, list_of, rule
from smallcal.calibrators.program import BELOW, Value
from smallcal.calibrators.softmax import keep_argmax
from smallcal.data.checks import BoolArray, FloatArray, IntArray
from smallcal.data.groups import group_codes
from smallcal.errors import InputError

#: The scales that are tried, beside 0: from an effect nobody would see to odds times twenty.
SCALES = (0.0, *np.geomspace(0.03, 3.0, 41).tolist())
#: An effect is at most this large: its exponential stays finite in every export.
LARGEST_EFFECT = 50.0
#: Groups in a file.
MOST_GROUPS = 1_000_000
#: The weak prior on sigma, half-normal: effects of this size are usual, larger ones need evidence.
USUAL_SCALE = 0.5

#: Log-odds beyond this say the same.
_FARTHEST = 30.0
_STEPS = 50
_CLOSE = 1e-10


@dataclass(frozen=True)
class GroupEffects(Part):
    """What is added to the log-odds of the claim in each group.

    Attributes
    ----------
    names : tuple of str
    effects : tuple of float
        One for each name.
    counts : tuple of int
        Samples of each in the fit.
    sigma : float
        The scale of the prior; 0 where the split shows no difference between groups.

    Examples
    --------
    >>> known = GroupEffects(("north", "south"), (0.5, -0.5), (40, 60), 0.4)
    >>> known.of(np.array(["south", "east"])).tolist()
    [-0.5, 0.0]
    """

    names: tuple[str, ...]
    effects: tuple[float, ...]
    counts: tuple[int, ...]
    sigma: float
    kinds: ClassVar[dict[str, type[GroupEffects]]] = {}
    kind: ClassVar[str] = "effects"
    words: ClassVar[str] = "the log-odds of the confidence are shifted by an effect of the group"
    schema: ClassVar[Mapping[str, Rule]] = {
        "names": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "maxItems": MOST_GROUPS,
            "uniqueItems": True,
            "description": "Of the groups; one that is not among them gets no effect.",
        },
        "effects": list_of(rule("number"), "Added to the log-odds of the confidence.", least=1),
        "counts": list_of(rule("count"), "Calibration samples of each group.", least=1),
        "sigma": rule("number", "Scale of the prior; 0 where no difference was found.", minimum=0),
    }
    _table: FloatArray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not len(self.names) == len(self.effects) == len(self.counts) > 0:
            raise InputError(
                "groups need a name, an effect and a count each, and at least one",
                code="groups-invalid",
            )
        if len(set(self.names)) != len(self.names) or "" in self.names:
            raise InputError(
                "the names of groups must differ, and none may be empty", code="groups-invalid"
            )
        if not all(abs(each) <= LARGEST_EFFECT for each in self.effects):
            raise InputError(
                f"no effect of a group may be larger than {LARGEST_EFFECT:g}", code="groups-invalid"
            )
        if not 0 <= self.sigma < np.inf or (self.sigma == 0 and any(self.effects)):
            raise InputError(
                f"effects of groups need a scale above 0; got {self.sigma}", code="groups-invalid"
            )
        # The last entry is that of code -1.
        object.__setattr__(self, "_table", np.array([*self.effects, 0.0]))

    def to_dict(self) -> dict[str, object]:
        """Return its kind and its numbers, ready for JSON."""
        names, effects, counts = list(self.names), list(self.effects), list(self.counts)
        numbers = {"names": names, "effects": effects, "counts": counts, "sigma": self.sigma}
        return {"kind": self.kind, **numbers}

    @property
    def n_parameters(self) -> int:
        """Effects, all held by the prior; none where there is no difference."""
        return len(self.names) if self.sigma else 0

    def summary(self) -> dict[str, object]:
        """Return what there is to say about it, as plain data."""
        each = zip(self.names, self.counts, self.effects, strict=True)
        rows = [{"group": name, "n": n, "effect": effect} for name, n, effect in each]
        return {"sigma": self.sigma, "groups": rows}

    def codes(self, groups: NDArray[np.str_]) -> IntArray:
        """Return the place of each row's group among the names, -1 where it is unknown."""
        return group_codes(groups, self.names)

    def unseen_note(self, codes: IntArray) -> str:
        """Return how many rows belong to no known group; nothing where all do.

        Examples
        --------
        >>> GroupEffects(("a",), (0.5,), (9,), 1.0).unseen_note(np.array([0, -1]))
        'the groups of 1 of 2 rows were not seen in the fit, or are missing: no effect of a group'
        """
        unseen = int(np.count_nonzero(codes < 0))
        said = "were not seen in the fit, or are missing: no effect of a group"
        return f"the groups of {unseen:,} of {len(codes):,} rows {said}" if unseen else ""

    def of(self, groups: NDArray[np.str_]) -> FloatArray:
        """Return the effect of each row's group, 0 where it is unknown."""
        return self.at(self.codes(groups))

    def at(self, codes: IntArray) -> FloatArray:
        """Return the effect of each code."""
        return np.asarray(self._table[codes])

    def shift(self, probabilities: FloatArray, codes: IntArray, *, claim: int | None) -> None:
        """Shift the confidence of each row by the effect of its group, in place.

        ``claim`` is the column that is shifted, or None for the predicted class of each row, which
        stays on top. Rows of effect 0 are not touched.

        Examples
        --------
        >>> p = np.array([[0.6, 0.3, 0.1], [0.6, 0.3, 0.1]])
        >>> GroupEffects(("a",), (1.0,), (9,), 1.0).shift(p, np.array([0, -1]), claim=None)
        >>> p.round(3).tolist()
        [[0.803, 0.148, 0.049], [0.6, 0.3, 0.1]]
        """
        effects = self.at(codes)
        rows = np.flatnonzero(effects)
        if not len(rows):
            return
        p, each = probabilities[rows].astype(np.float64), np.arange(len(rows))
        top = p.argmax(axis=1) if claim is None else np.full(len(rows), claim)
        wanted = p[each, top] * np.exp(effects[rows])
        p[each, top] = 0
        if claim is None:
            wanted = np.maximum(wanted, p.max(axis=1))
        p[each, top] = wanted
        p /= np.einsum("ij->i", p)[:, None]
        moved = p.astype(probabilities.dtype)
        if claim is None:
            keep_argmax(moved, top)
        probabilities[rows] = moved

    def program(self, probabilities: Value, effect: Value, /, *, claim: int | None) -> Value:
        """Write the shifted probabilities down, for exporters; ``effect`` is that of the row."""
        if claim is None:
            top = probabilities.at_top()
            rivals = program.choose(top, 0.0, probabilities)
            wanted = (probabilities.largest() * program.exp(effect)).at_least(rivals.largest())
            # As far apart as the exporters hold a rival below the top.
            rivals = rivals.at_most(wanted * BELOW)
            weights = program.choose(top, wanted, rivals)
        else:
            mask = np.zeros(probabilities.width)
            mask[claim] = 1.0
            weights = probabilities * program.exp(effect * program.constant(mask))
        return weights / weights.sum()


class Claims(NamedTuple):
    """The claims of a split: log-odds of each, whether it holds, its weight and its group."""

    odds: FloatArray
    holds: BoolArray
    weight: FloatArray
    codes: IntArray


def claims_of(
    probabilities: FloatArray, labels: IntArray, *, claim: int | None
) -> tuple[FloatArray, BoolArray]:
    """Return the log-odds of the claim of each row, and whether it holds.

    Examples
    --------
    >>> odds, holds = claims_of(np.array([[0.5, 0.25, 0.25]]), np.array([1]), claim=None)
    >>> odds.tolist(), holds.tolist()
    ([0.0], [False])
    """
    p, each = np.array(probabilities, dtype=np.float64), np.arange(len(labels))
    top = p.argmax(axis=1) if claim is None else np.full(len(labels), claim)
    confidence = p[each, top]
    p[each, top] = 0
    with np.errstate(divide="ignore"):
        odds = np.log(confidence) - np.log(p.sum(axis=1))
    return np.clip(odds, -_FARTHEST, _FARTHEST), labels == top


def fit_effects(claims: Claims, names: tuple[str, ...]) -> GroupEffects:
    """Fit the effects of groups and the scale of their prior.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> odds, codes = rng.normal(1.0, 1.0, 2000), rng.integers(0, 2, 2000)
    >>> holds = rng.random(2000) < sigmoid(odds + np.array([1.0, -1.0])[codes])
    >>> found = fit_effects(Claims(odds, holds, np.ones(2000), codes), ("a", "b"))
    >>> np.array(found.effects).round().tolist()
    [1.0, -1.0]
    """
    known = claims.codes >= 0
    if not bool(known.any()):
        raise InputError(
            "groups: no row has a group; every entry is missing or empty", code="groups-invalid"
        )
    there, codes, counts = np.unique(claims.codes[known], return_inverse=True, return_counts=True)
    odds, holds, weight = claims.odds[known], claims.holds[known], claims.weight[known]
    claims = Claims(odds, holds, weight, codes.reshape(-1))
    sigma: float = 0.0
    effects: FloatArray = np.zeros(len(there))
    if len(there) > 1:  # the effect of the only group would be one of all rows
        sigma, effects = _best(claims, effects)
    kept = tuple(names[place] for place in there)
    return GroupEffects(kept, tuple(effects.tolist()), tuple(counts.tolist()), sigma)


def _best(claims: Claims, none: FloatArray) -> tuple[float, FloatArray]:
    """Return the scale of the largest evidence, and the effects under it."""
    best, found, effects = -np.inf, (0.0, none), none
    for sigma in SCALES:
        if sigma:
            effects = modes(claims, effects, sigma)
        evidence = log_evidence(claims, effects, sigma)
        if evidence > best:
            best, found = evidence, (sigma, effects)
    return found


def modes(claims: Claims, start: FloatArray, sigma: float) -> FloatArray:
    """Return the likeliest effect of each group under a prior: Newton, for all groups at once."""
    effects, holds = start.copy(), claims.holds.astype(np.float64)
    for _ in range(_STEPS):
        p = sigmoid(claims.odds + effects[claims.codes])
        slope = _summed(claims, holds - p, len(effects)) - effects / sigma**2
        step = slope / (_summed(claims, p * (1 - p), len(effects)) + 1 / sigma**2)
        # The curvature of one log-odds changes by a factor of e at most within a unit.
        effects = np.clip(effects + np.clip(step, -1, 1), -LARGEST_EFFECT, LARGEST_EFFECT)
        if np.abs(step).max() < _CLOSE:
            break
    return effects


def log_evidence(claims: Claims, effects: FloatArray, sigma: float) -> float:
    """Return the log-likelihood with the effects integrated out, and the prior on sigma."""
    shifted = claims.odds + effects[claims.codes]
    likely = -float(claims.weight @ softplus(np.where(claims.holds, -shifted, shifted)))
    if not sigma:
        return likely
    p = sigmoid(shifted)
    curvature = _summed(claims, p * (1 - p), len(effects))
    priors = float(np.sum(effects**2 / sigma**2 + np.log1p(sigma**2 * curvature))) / 2
    return likely - priors - (sigma / USUAL_SCALE) ** 2 / 2


def _summed(claims: Claims, values: FloatArray, n: int) -> FloatArray:
    """Return the weighted sum over each of n groups."""
    summed = np.bincount(claims.codes, claims.weight * values, minlength=n)
    return summed.astype(np.float64, copy=False)
