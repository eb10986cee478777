"""What studies have in common: methods that are fitted together, metrics, settings."""

from __future__ import annotations

from smallcal.calibrators.catalogue import OF_SCORES
from smallcal_lab.studies.study import Entry

ECE = ("ece15", "adaece15", "smece")
PROPER = ("nll", "brier", "top_label_bce")
CORE = ("ece15", *PROPER, "eaurc")


def entries(names: str) -> tuple[Entry, ...]:
    """Return methods as they are, by name."""
    return tuple(map(Entry, names.split()))


def groups(*numbers: int, of: str = "srts-bce") -> tuple[Entry, ...]:
    """Return a method with other numbers of groups."""
    return tuple(Entry(f"K={k}", of, {"n_groups": k}) for k in numbers)


def fitted_by(objective: str, names: str) -> tuple[Entry, ...]:
    """Return methods that minimise another loss than their own."""
    options = {"objective": objective}
    return tuple(Entry(f"{name}({objective})", name, options) for name in names.split())


#: Those of the paper's main table that hold few numbers, its closest peers, and our default.
MAIN = entries(
    "none ts-nll tva-ts srts-nll srts-bce margin-k3 pwlinear-3 hts-bce qats-bce smart-bce smallcal"
)

#: Maps of the risk, and of other signals, with few numbers each; curves of the log-odds too.
MATCHED = (
    *entries(
        "tva-ts srts-bce margin-k3 linear-risk pwlinear-3 spline-risk qats-nll qats-bce hts-nll "
        "hts-bce smart-bce signal-linear"
    ),
    *(
        Entry(f"{name}(logit)", name, {"scale": "logit"})
        for name in ("linear-risk", "pwlinear-3", "spline-risk")
    ),
)

#: Temperatures by group: with thresholds that can be cut anew.
GROUPED = entries("srts-bce margin-k3 srts-shrunk")

#: Maps of one number, and isotonic regression as everybody has it.
SCORE_MAPS = (*map(Entry, OF_SCORES), Entry("isotonic"))

#: Compared with every other method, as the paper does.
OURS = {"ours": ("srts-bce", "smallcal")}

#: Metrics whose differences are resampled with seeds (n_boot) and pooled, and those that each
#: method's interval is shown of; how often: the paper's numbers.
QUICK = ("ece15", *PROPER, "hcfp90")
RESAMPLED = {
    "resampled": QUICK,
    "pooled_boot": 2_000,
    "sampled": (*QUICK, "auroc"),
    "sampled_boot": 1_000,
}

THRESHOLDS = (0.80, 0.90, 0.95)
