"""What keeps a fit honest: folds, regularisation, bounds, the small-group rule, the seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from smallcal.data.checks import whole_number
from smallcal.errors import InputError

#: What each flag of a fit means. Flags carry the groups they concern, or none for the whole fit.
FLAGS: Mapping[str, str] = MappingProxyType(
    {
        "unidentified": "predictions are all right or all wrong there, so any extreme temperature "
        "fits; the mildest of the equally good ones was taken",
        "at_bound": "the best temperature lies at a bound of the allowed range",
        "fallback": "too few samples there for a temperature of its own; the pooled one is used",
        "degenerate": "scores coincide, so they could not be cut into equal parts",
        "fewer_folds": "too few wrong or right predictions for the usual number of folds",
        "few_samples": "fewer than ten samples per fitted parameter",
        "fewer_bins": "too few samples for the usual number of bins",
        "missing_classes": "classes without a single sample leave this map without a best fit; "
        "one temperature is used for all",
        "scalar_fallback": "this split tells too little for a map of its own (too few wrong or "
        "right predictions, or no gain over one temperature); one temperature is used for all",
        "one_sided": "fewer than two predictions are right, or fewer than two wrong: it is the "
        "prior that keeps the temperatures from the extreme",
        "kept_raw": "too little evidence that the model's own confidences are off; it was left as "
        "it is",
        "held_back": "only little evidence that the model's own confidences are off; what the fit "
        "would change is held back",
        "better_free": "letting predictions change would make the model right more often",
        "falling": "higher scores mean fewer of the outcome: the map falls",
        "constant_score": "all scores are equal and tell nothing: every row gets the same "
        "probability",
        "one_outcome": "only one of the two outcomes occurs: it is the prior that keeps "
        "probabilities from 0 and 1",
        "one_group": "all samples belong to one group: there is nothing to tell apart, and no "
        "effect of groups was fitted",
        "without_group": "samples without a group count for the fit, and for the effect of none",
        "score_as_probability": "scores lie in [0, 1] and are taken for probabilities of outcome "
        "1, through their log-odds",
        "score_as_number": "scores are taken for numbers, and standardised",
        "score_infinite": "infinite scores are put one standard deviation beyond the others",
        "score_percent": "scores lie between 0 and 100 and are taken for numbers; if they are "
        "percent, divide them by 100",
        "no_router": "too few wrong or right predictions to learn which ones are risky; "
        "one temperature is used for all",
    }
)

#: Flags that say what the fit did and ask nothing of anyone: notes, not warnings.
NOTES = ("kept_raw", "held_back", "score_as_probability", "score_as_number")


def explained(name: str, found: Mapping[str, Any]) -> str:
    """Return what a flag means, with the numbers that were found.

    Examples
    --------
    >>> explained("few_samples", {"n": 60, "free": 10, "needed": 100})
    '60 samples for 10 fitted parameters; ten for each would be 100'
    """
    if name == "few_samples":
        return (
            f"{found['n']:,} samples for {found['free']:,} fitted parameters; ten for each would "
            f"be {found['needed']:,}"
        )
    if name == "without_group" and "without" in found:
        said = "have no group; they count for the fit, and for the effect of none"
        return f"{found['without']:,} of {found['n']:,} samples {said}"
    if name == "kept_raw" and found.get("accuracy") == 1:
        why = "no prediction is wrong, so nothing tells how much confidence is too much"
        return f"{why}; the model was left as it is"
    if name == "held_back" and "weight" in found:
        return f"{FLAGS[name]}, to {100 * found['weight']:.0f} %"
    if name == "better_free" and (free := found.get("free_accuracy")):
        before, value, low, high = (100 * free[key] for key in ("before", "value", "low", "high"))
        return (
            f"letting predictions change would raise accuracy from {before:.1f} to {value:.1f} %, "
            f"cross-validated, 95 % interval {low:.1f} to {high:.1f}: keep_predictions=False, or "
            "--may-change-predictions"
        )
    return FLAGS.get(name, "no description")


@dataclass(frozen=True, kw_only=True)
class Discipline:
    """Options of a fit that do not change what is fitted, only how carefully.

    Attributes
    ----------
    n_folds : int
        Folds of the out-of-fold risk score.
    C : float
        Inverse L2 strength of the risk model, scikit-learn's convention.
    min_group_size : int
        A group with fewer samples takes the pooled temperature.
    bounds : tuple of two floats
        Allowed temperatures.
    seed : int
        Seeds the folds and the random controls.
    """

    n_folds: int = 5
    C: float = 1.0
    min_group_size: int = 50
    bounds: tuple[float, float] = (0.05, 20.0)
    seed: int = 0

    def __post_init__(self) -> None:
        whole_number(self.n_folds, "n_folds", least=2)
        whole_number(self.min_group_size, "min_group_size", least=1)
        if not self.C > 0:
            raise InputError(f"C must be positive; got {self.C}")
        low, high = self.bounds
        if not 0 < low < high < float("inf"):
            raise InputError(f"bounds must satisfy 0 < low < high; got {self.bounds}")
