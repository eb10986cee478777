"""Every study by name: ``STUDIES`` is the only registry; the command line and the docs read it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from smallcal.calibrators.catalogue import OF_SCORES
from smallcal.errors import InputError, choose
from smallcal.metrics import METRICS
from smallcal_lab.studies.frame import ALL
from smallcal_lab.studies.study import Entry, Study

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

_ROWS = (
    Study(
        name="clean",
        title="Clean calibration",
        question="How well calibrated is each method on the test split?",
        entries=(*MAIN, *entries("hts-nll smart-softece")),
        metrics=tuple(METRICS),
        tables=("means", "differences", "seed-samples", "samples"),
        settings={**OURS, **RESAMPLED},
    ),
    Study(
        name="budget",
        title="Calibration budgets",
        question="How does each method perform at small sample sizes?",
        entries=entries(
            "none ts-nll tva-ts srts-bce margin-k3 pwlinear-3 hts-nll hts-bce smart-bce smallcal"
        ),
        metrics=(*ECE, *PROPER),
        budgets=(250, 625, 1250, 2500),
        draws=20,
        tables=("means", "wins", "differences", "seeds", "draws"),
        settings=OURS,
    ),
    Study(
        name="scores",
        title="Maps of one score",
        question="Which method calibrates one score per sample best, from few outcomes?",
        entries=SCORE_MAPS,
        baseline="spline",
        metrics=("nll", "brier", "ece15"),
        budgets=(30, 50, 100, 250, 1000),
        draws=10,
    ),
    Study(
        name="k-ablation",
        title="Number of groups",
        question="How many risk groups are useful?",
        entries=groups(1, 2, 3, 5, 10, 20),
        baseline="K=1",
        metrics=CORE,
        probe="temperatures",
        tables=("means", "differences", "temperatures"),
    ),
    Study(
        name="k-ablation-nll",
        title="Number of groups, by log-loss",
        question="Do more groups help a fit by log-loss, and how far apart are their temperatures?",
        entries=groups(1, 2, 3, 5, 10, of="srts-nll"),
        baseline="K=1",
        metrics=("ece15", "nll", "hcfp90"),
        probe="temperatures",
        tables=("means", "differences", "temperatures"),
    ),
    Study(
        name="objective",
        title="Objectives",
        question="Which objective should a temperature minimise, one for all and by risk?",
        entries=(
            *entries("ts-nll tva-ts ts-brier ts-softece"),
            *entries("srts-nll srts-bce srts-brier srts-softece"),
            *(
                Entry(f"srts-mixed({w:g})", "srts-bce", {"objective": f"mixed({w:g})"})
                for w in (0.1, 0.3, 1.0, 3.0, 10.0)
            ),
            *fitted_by("nll", "confidence-k3 random-k3 shuffled-k3"),
            *fitted_by("brier", "confidence-k3 random-k3"),
        ),
        metrics=(*ECE, *PROPER, "eaurc"),
    ),
    Study(
        name="routing-signal",
        title="Routing signals",
        question="Does it matter which signal forms the groups?",
        entries=entries(
            "tva-ts srts-bce confidence-k3 margin-k3 probmargin-k3 confmargin-k3 features-k3 "
            "features-logits-k3 random-k3 shuffled-k3 oracle-risk oracle-correctness"
        ),
        metrics=CORE,
        probe="shifted",
        tables=("means", "differences", "clusters", "seed-samples", "samples", "shift-means"),
        settings={
            **RESAMPLED,
            "ours": ("srts-bce",),
            "resampled": ("ece15",),
            "sampled": ("ece15", "nll", "hcfp90", "auroc"),
        },
    ),
    Study(
        name="within-margin",
        title="Within a margin",
        question="At similar logit margins, does it matter how samples are grouped?",
        entries=entries("tva-ts margin-k3 srts-bce smart-bce"),
        metrics=("ece15", "nll", "aurc", "eaurc"),
        probe="within_margin",
        tables=("within-margin",),
    ),
    Study(
        name="risk-score",
        title="The risk score",
        question="Does predicted risk rank errors better than confidence, and is it calibrated?",
        entries=entries("srts-bce features-k3 features-logits-k3"),
        baseline="srts-bce",
        probe="risk_scored",
        settings={"bins": 40},
        tables=("ranking", "score-scale", "group-gaps"),
    ),
    Study(
        name="routing-target",
        title="Routing targets",
        question="Should the risk model predict errors, or residuals of the confidence?",
        entries=entries("tva-ts srts-bce margin-k3 signed-residual-k3 abs-residual-k3"),
        metrics=(*ECE, *PROPER, "eaurc"),
    ),
    Study(
        name="matched-maps",
        title="Maps of equal size",
        question="Are risk groups better than a line, a spline or another curve of their size?",
        entries=MATCHED,
        metrics=(*ECE, *PROPER, "eaurc"),
        budgets=(ALL, 250),
        draws=20,
        tables=("means", "wins", "differences", "seeds", "draws"),
        settings=OURS,
    ),
    Study(
        name="heads",
        title="Unrestricted heads",
        question="How do unrestricted networks perform with so few samples?",
        entries=(
            *entries("none ts-nll tva-ts srts-nll srts-bce smart-bce lts-scalar sats-logit-nll"),
            *entries("sats-logit-bce sats-features-nll sats-features-bce utemphead"),
            # The routes of the paper's controlled diagnostic, beside srts-nll.
            *fitted_by("nll", "features-k3 temphead-k3"),
            # Trained again for as long as was best on held-out samples, which the paper does not.
            *(
                Entry(f"{name}(refit=epochs)", name, {"refit": "epochs"})
                for name in ("sats-logit-bce", "sats-features-bce")
            ),
        ),
        metrics=(*CORE, "adaece15", "accuracy", "auroc", "aurc", "hcfp90"),
    ),
    Study(
        name="deployment",
        title="Confident errors",
        question="How many errors have high confidence, and how good is selective prediction?",
        entries=MAIN,
        probe="deployed",
        settings={"metrics": ("hcfp90", "hcfp95", "aurc", "eaurc"), "coverages": THRESHOLDS},
        tables=("means", "differences", "shift-means"),
    ),
    Study(
        name="proper-scores",
        title="Proper scores",
        question="How much do proper scores improve over the uncalibrated model?",
        entries=MAIN,
        baseline="none",
        metrics=PROPER,
    ),
    Study(
        name="thresholds",
        title="Fixed thresholds",
        question="At fixed thresholds, how much is accepted, how wrong, and how calibrated?",
        entries=MAIN,
        probe="thresholds",
        settings={"thresholds": THRESHOLDS},
        tables=("means", "shift-means"),
    ),
    Study(
        name="matched-coverage",
        title="Equal coverage",
        question="What is the error rate at equal coverage, that of one temperature?",
        entries=MAIN,
        probe="matched_coverage",
        settings={"thresholds": THRESHOLDS},
        tables=("means", "differences", "shift-means"),
    ),
    Study(
        name="top1-audit",
        title="Predictions kept",
        question="Does a method change predictions, and does accuracy suffer?",
        entries=(*MAIN, *entries("vector-scaling dirichlet-odir ets")),
        baseline="none",
        probe="top1",
        settings={"metrics": ("nll", "ece15", "eaurc")},
        tables=("means",),
    ),
    Study(
        name="efficiency",
        title="Cost",
        question="What does each method cost to fit and to apply?",
        entries=(
            *MAIN,
            *(  # A grid of them takes as many times longer as it has cells.
                Entry(f"{name} (one cell)", name, {"protocol": "fixed"})
                for name in ("sats-logit-nll", "sats-logit-bce")
            ),
        ),
        probe="efficiency",
        settings={"repeats": 5, "seconds": 20, "threads": 4},
        tables=("costs",),
    ),
    Study(
        name="shift",
        title="Shifted samples",
        question="How well does a calibrator fitted on clean samples work under shift?",
        entries=(*entries("none ts-nll srts-nll"), *MATCHED, Entry("smallcal")),
        metrics=("ece15", *PROPER, "accuracy", "aurc", "eaurc"),
        probe="shifted",
        settings=OURS,
        tables=("shift-means", "severity", "tiers", "occupancy"),
        needs="shift",
    ),
    Study(
        name="requantize",
        title="Thresholds recomputed",
        question="Control: what if thresholds were recomputed under shift, for groups of "
        "equal size?",
        entries=GROUPED,
        baseline="srts-bce",
        metrics=("ece15", "top_label_bce", "eaurc"),
        probe="requantized",
        settings={"control": "requantized"},
        tables=("controls",),
        needs="shift",
    ),
    Study(
        name="paired-clean",
        title="Groups of the clean versions",
        question="Control: what if each shifted sample kept the group of its clean version?",
        entries=GROUPED,
        baseline="srts-bce",
        metrics=("ece15", "top_label_bce", "eaurc"),
        probe="paired_clean",
        settings={"control": "paired_clean"},
        tables=("controls",),
        needs="paired",
    ),
    Study(
        name="risk-flow",
        title="Risk under shift",
        question="How does predicted risk change under shift, and which groups do samples leave?",
        entries=entries("srts-bce margin-k3"),
        baseline="srts-bce",
        metrics=("mean_risk",),
        probe="risk_flow",
        tables=("severity", "occupancy", "flow"),
        needs="shift",
    ),
    Study(
        name="natural-shift",
        title="Data from other sources",
        question="Does calibration on clean samples help or harm on data from other sources?",
        entries=entries(
            "none ts-nll tva-ts qats-nll qats-bce smart-bce pwlinear-3 srts-nll srts-bce"
        ),
        metrics=(
            *("ece15", "top_label_bce", "adaece15", "confidence_gap", "nll", "brier"),
            *("accuracy", "aurc", "eaurc"),
        ),
        probe="shifted",
        settings={
            "raw": "none",
            "ours": ("srts-bce", "tva-ts"),
            "resampled": ("ece15", "top_label_bce"),
        },
        tables=("sets", "harm", "occupancy", "image-samples"),
        needs="shift",
    ),
    Study(
        name="scope-map",
        title="Scope",
        question="For which models does routing by risk win, tie or lose?",
        entries=entries("none ts-nll tva-ts pwlinear-3 smart-bce smart-softece srts-bce"),
        metrics=ECE,
        probe="shifted",
        settings={
            "gain_of": "srts-bce",
            "rivals": ("tva-ts", "pwlinear-3", "smart-bce", "smart-softece"),
        },
        tables=("means", "scope-map", "regimes"),
    ),
    Study(
        name="heterogeneity",
        title="Where routing helps",
        question="Under which corruptions does routing help, and how miscalibrated is the model?",
        entries=entries("none tva-ts smart-bce srts-bce"),
        metrics=("ece15", "confidence_gap"),
        probe="shifted",
        settings={"gain_of": "srts-bce", "raw": "none", "rivals": ("tva-ts", "smart-bce")},
        tables=("heterogeneity",),
        needs="shift",
    ),
    Study(
        name="selector",
        title="Choosing one group or three",
        question="Can the calibration split predict whether three temperatures beat one?",
        entries=(Entry("K=1", "tva-ts"), Entry("K=3", "srts-bce")),
        baseline="K=1",
        metrics=("ece15", "top_label_bce"),
        probe="gated",
        settings={
            "rules": ("repeat", "fold", "sample"),
            "loss": "top_label_bce",
            "repeats": 5,
            "folds": 5,
            "margin": 0.002,
        },
        tables=("selector", "regret"),
    ),
    Study(
        name="on-off",
        title="Routing on or off",
        question="Can the calibration split predict for which models three temperatures help?",
        entries=(Entry("K=1", "tva-ts"), Entry("K=3", "srts-bce")),
        baseline="K=1",
        metrics=("ece15", "top_label_bce"),
        probe="gated",
        settings={"rules": ("repeat",), "loss": "top_label_bce", "repeats": 5, "folds": 5},
        tables=("on-off", "gate"),
    ),
    Study(
        name="nested-k",
        title="Choosing the number of groups",
        question="Does a held-out fifth select the right number of groups?",
        entries=groups(1, 2, 3, 5, 10),
        baseline="K=1",
        metrics=("ece15", "top_label_bce"),
        probe="held_out",
        settings={"loss": "ece15", "fixed": "K=3"},
        tables=("nested-k",),
    ),
    Study(
        name="oracle-k",
        title="The best number of groups",
        question="Diagnostic: how much is there to gain from the right number of groups?",
        entries=groups(1, 2, 3, 5, 10, 15, 20),
        baseline="K=1",
        metrics=ECE,
        settings={"fixed": "K=3"},
        tables=("oracle-k",),
    ),
    Study(
        name="audit",
        title="Fitted parameters",
        question="How stable are the fitted parameters across seeds and draws?",
        entries=(*GROUPED, Entry("srts-nll")),
        baseline="srts-bce",
        probe="audited",
        budgets=(ALL, 250),
        draws=20,
        tables=("audit", "occupancy"),
    ),
    Study(
        name="signal-to-noise",
        title="Signal and noise",
        question="Does miscalibration depend on the signal, and does grouping by it help?",
        entries=entries("tva-ts ts-nll srts-bce srts-nll margin-k3 confidence-k3"),
        metrics=("ece15", "top_label_bce", "nll"),
        probe="signal_to_noise",
        settings={"n_null": 199},
        tables=("signal-to-noise",),
    ),
)

STUDIES: Mapping[str, Study] = MappingProxyType({study.name: study for study in _ROWS})


def study_named(name: str) -> Study:
    """Return a study by name.

    Examples
    --------
    >>> study_named("budget").budgets
    (250, 625, 1250, 2500)
    """
    if name not in STUDIES:
        raise InputError(f"unknown study {name!r}; {choose(name, STUDIES)}")
    return STUDIES[name]
