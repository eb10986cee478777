"""Every study by name: ``STUDIES`` is the only registry; the command line and the docs read it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from smallcal.errors import InputError
from smallcal.metrics import METRICS
from smallcal.studies.description import Study
from smallcal.studies.units import Entry

_ECE = ("ece15", "adaece15", "smece")
_PROPER = ("nll", "brier", "top_label_bce")
_CORE = (*_ECE[:1], *_PROPER)


def _entries(*names: str) -> tuple[Entry, ...]:
    return tuple(Entry(name) for name in names)


def _groups(*numbers: int) -> tuple[Entry, ...]:
    return tuple(Entry(f"K={k}", "srts-bce", {"n_groups": k}) for k in numbers)


_MAIN = _entries(
    "none",
    "ts-nll",
    "tva-ts",
    "srts-nll",
    "srts-bce",
    "margin-k3",
    "pwlinear-3",
    "hts-bce",
    "qats-bce",
    "smart-bce",
    "default",
)

_ROWS = (
    Study(
        name="clean",
        title="Clean calibration",
        question="How well calibrated is each method on the test split?",
        entries=_MAIN,
        baseline="tva-ts",
        metrics=tuple(METRICS),
        tables=("means", "differences"),
    ),
    Study(
        name="budget",
        title="Calibration budgets",
        question="How does each method do with few calibration samples?",
        entries=_entries("none", "ts-nll", "tva-ts", "srts-bce", "margin-k3", "hts-bce", "default"),
        baseline="tva-ts",
        metrics=(*_ECE, *_PROPER),
        budgets=(250, 625, 1250, 2500),
        draws=20,
        tables=("means", "wins", "differences"),
    ),
    Study(
        name="k-ablation",
        title="Number of groups",
        question="How many groups of risk are worth having?",
        entries=_groups(1, 2, 3, 5, 10, 20),
        baseline="K=1",
        metrics=_CORE,
        tables=("means", "differences"),
    ),
    Study(
        name="objective",
        title="Objectives",
        question="What should a temperature minimise, alone and by risk?",
        entries=(
            *_entries("ts-nll", "tva-ts", "ts-brier", "ts-softece"),
            *_entries("srts-nll", "srts-bce", "srts-brier", "srts-softece"),
            *(
                Entry(f"srts-mixed({w:g})", "srts-bce", {"objective": f"mixed({w:g})"})
                for w in (0.1, 0.5, 1.0, 2.0, 10.0)
            ),
        ),
        baseline="tva-ts",
        metrics=(*_ECE, *_PROPER),
        tables=("means", "differences"),
    ),
    Study(
        name="routing-signal",
        title="Routing signals",
        question="Does it matter what samples are grouped by?",
        entries=_entries(
            "tva-ts",
            "srts-bce",
            "confidence-k3",
            "margin-k3",
            "probmargin-k3",
            "confmargin-k3",
            "features-k3",
            "features-logits-k3",
            "random-k3",
            "shuffled-k3",
            "oracle-risk",
        ),
        baseline="tva-ts",
        metrics=_CORE,
        tables=("means", "differences"),
    ),
    Study(
        name="routing-target",
        title="Routing targets",
        question="Should the router learn errors, or residuals of the confidence?",
        entries=_entries(
            "tva-ts", "srts-bce", "signed-residual-k3", "abs-residual-k3", "oracle-correctness"
        ),
        baseline="tva-ts",
        metrics=_CORE,
        tables=("means", "differences"),
    ),
    Study(
        name="matched-maps",
        title="Maps of equal size",
        question="Is a step better than a line, a spline or another curve with as many numbers?",
        entries=(
            *_entries("tva-ts", "srts-bce", "linear-risk", "pwlinear-3", "spline-risk"),
            Entry("pwlinear-3, logit", "pwlinear-3", {"scale": "logit"}),
            *_entries("margin-k3", "hts-bce", "qats-bce", "smart-bce", "signal-linear"),
        ),
        baseline="tva-ts",
        metrics=_CORE,
        tables=("means", "differences"),
    ),
    Study(
        name="heads",
        title="Unrestricted heads",
        question="What do networks without restraint do with so few samples?",
        entries=_entries(
            "tva-ts",
            "srts-bce",
            "sats-logit-nll",
            "sats-logit-bce",
            "sats-features-nll",
            "sats-features-bce",
            "utemphead",
        ),
        baseline="tva-ts",
        metrics=_CORE,
        tables=("means", "differences"),
    ),
    Study(
        name="deployment",
        title="Confident errors",
        question="How many errors are made with high confidence, and how good is abstaining?",
        entries=_MAIN,
        baseline="tva-ts",
        metrics=("hcfp90", "hcfp95", "hcfp99", "selective_risk80", "risk_at90", "aurc", "eaurc"),
        tables=("means", "differences"),
    ),
    Study(
        name="proper-scores",
        title="Proper scores",
        question="What does lower calibration error cost in proper scores?",
        entries=_MAIN,
        baseline="tva-ts",
        metrics=_PROPER,
        tables=("means", "differences"),
    ),
    Study(
        name="thresholds",
        title="Fixed thresholds",
        question="What is kept, and how wrong is it, at fixed confidences?",
        entries=_MAIN,
        baseline="tva-ts",
        metrics=(),
        probe="thresholds",
        settings={"thresholds": (0.5, 0.7, 0.8, 0.9, 0.95)},
        tables=("means", "differences"),
    ),
    Study(
        name="matched-coverage",
        title="Equal coverage",
        question="How wrong are the most confident samples, when all methods keep equally many?",
        entries=_MAIN,
        baseline="tva-ts",
        metrics=(),
        probe="matched_coverage",
        settings={"coverages": (0.5, 0.7, 0.8, 0.9, 0.95)},
        tables=("means", "differences"),
    ),
    Study(
        name="top1-audit",
        title="Predictions kept",
        question="Does any method change a prediction, and does accuracy pay for it?",
        entries=(*_MAIN, *_entries("vector-scaling", "dirichlet-odir", "ets")),
        baseline="none",
        metrics=(),
        probe="top1",
        tables=("means",),
    ),
    Study(
        name="efficiency",
        title="Cost",
        question="What does each method cost to fit and to apply?",
        entries=_MAIN,
        baseline="tva-ts",
        metrics=(),
        probe="efficiency",
        settings={"repeats": 5},
        tables=("means",),
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
        raise InputError(f"unknown study {name!r}; choose from {', '.join(STUDIES)}")
    return STUDIES[name]
