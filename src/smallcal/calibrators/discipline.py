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
        "unidentified": (
            "all predictions there are right, or all are wrong, so the data does not determine "
            "the temperature; the mildest of the equally good ones is used"
        ),
        "at_bound": "the best temperature lies at a bound of the allowed range",
        "fallback": "too few samples there for a separate temperature; the pooled one is used",
        "degenerate": "many scores are equal, so the groups are not of equal size",
        "fewer_folds": "too few wrong or right predictions for the usual number of folds",
        "few_samples": "fewer than ten samples per fitted parameter",
        "fewer_bins": "too few samples for the usual number of bins",
        "missing_classes": (
            "some classes have no sample, so this map is not determined; one temperature is used "
            "for all samples"
        ),
        "scalar_fallback": (
            "too few wrong or right predictions for this map, or no gain over one temperature; "
            "one temperature is used for all samples"
        ),
        "one_sided": (
            "fewer than two predictions are right, or fewer than two wrong: the prior, not the "
            "data, determines the temperatures"
        ),
        "not_converged": ("the regression did not converge; the calibrator is temperature scaling"),
        "no_gain": (
            "the regression is no better than temperature scaling here; the calibrator is "
            "temperature scaling"
        ),
        "absent_classes": "some classes do not occur in the calibration set",
        "falling": "higher scores go with fewer successes: the curve is decreasing",
        "constant_score": "all scores are equal, so every row gets the same probability",
        "one_outcome": (
            "only one of the two outcomes occurs: only the prior keeps probabilities from 0 and 1"
        ),
        "one_group": "all samples belong to one group, so no group effects were fitted",
        "without_group": "samples without a group are used in the fit, but in no group effect",
        "score_as_probability": (
            "scores lie in [0, 1] and are treated as probabilities of outcome 1, through their "
            "log-odds"
        ),
        "score_as_number": "scores are treated as plain numbers, and standardised",
        "like_probabilities": "the logits look like probabilities; you said that they are logits",
        "score_infinite": "infinite scores are put one standard deviation beyond the others",
        "score_percent": (
            "scores lie between 0 and 100 and are treated as plain numbers; if they are "
            "percentages, divide them by 100"
        ),
        "no_router": (
            "too few wrong or right predictions to fit a risk model; one temperature is used for "
            "all samples"
        ),
    }
)

#: Flags that say what the fit did and ask nothing of anyone: notes, not warnings.
NOTES = ("no_gain", "like_probabilities", "score_as_probability", "score_as_number")


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
        said = "have no group; they are used in the fit, but in no group effect"
        return f"{found['without']:,} of {found['n']:,} samples {said}"
    if name == "absent_classes" and "absent" in found:
        names = found["absent"]
        listed = ", ".join(map(str, names[:5])) + (", ..." if len(names) > 5 else "")
        some = f"{len(names):,} classes do" if len(names) > 1 else "one class does"
        cross = found.get("cross_validated", {})
        if "log_loss_if_present" not in cross:
            return f"{some} not occur in the calibration set: {listed}"
        return (
            f"{some} not occur in the calibration set ({listed}) and got lower probabilities; if "
            "they occur as often as temperature scaling expects, log-loss is about "
            f"{cross['log_loss_if_present']:.3f} instead of {cross['log_loss']:.3f}"
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
            raise InputError(f"C must be positive; got {self.C}", code="option-range")
        low, high = self.bounds
        if not 0 < low < high < float("inf"):
            raise InputError(
                f"bounds must satisfy 0 < low < high; got {self.bounds}", code="option-range"
            )
