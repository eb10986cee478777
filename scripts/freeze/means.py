"""Values that are means: over seeds, over draws, over the sets of a shift."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from freeze.formulas import matched
from freeze.logits import ELSEWHERE, FEWER, PLAIN, STRUCTURED
from freeze.store import NAMED, Case, Entry, Store, mean_entry, parts_of, seeds_of

METHODS = (
    *("none", "ts-nll", "tva-ts", "margin-k3", "srts-bce"),
    *("hts-nll", "hts-bce", "smart-bce"),
)
BUDGET, DRAWS = 200, 3
#: Methods that the paper fits to few samples; the network, which takes long, to one model's.
FEW_SAMPLES = {
    STRUCTURED: ("tva-ts", "margin-k3", "srts-bce", "hts-bce", "smart-bce"),
    PLAIN: ("tva-ts", "margin-k3", "srts-bce", "hts-bce"),
}
#: Those that it looks at with a threshold.
KEEPING = ("none", "tva-ts", "hts-bce", "smart-bce", "srts-bce")


def all_means(store: Store) -> Iterator[Entry]:
    """Yield every value of this kind."""
    yield from _clean(store)
    yield from _shifted(store)
    yield from _of_one_model(store)
    yield from _budgets(store)
    yield from _kept(store)
    yield from _matched_coverage(store)


def _clean(store: Store) -> Iterator[Entry]:
    for model in (STRUCTURED, PLAIN, FEWER):
        metrics = ("ece15", "accuracy", "nll", "brier", "top_label_bce")
        if model == STRUCTURED:
            metrics += tuple(name for name in NAMED if name not in metrics)
        for method in METHODS:
            for metric in metrics:
                seeds = store.over_sets(metric, Case(model, method), "clean")
                yield mean_entry(("clean", "clean", model, method), metric, seeds)
    # The paper's tables fitted by NLL divide their spreads by n - 1.
    for metric in ("ece15", "nll"):
        seeds = store.over_sets(metric, Case(STRUCTURED, "srts-nll"), "clean")
        place = ("clean", "objective", STRUCTURED, "srts-nll")
        yield mean_entry(place, metric, seeds, ddof=1)


def _shifted(store: Store) -> Iterator[Entry]:
    places = {STRUCTURED: ("corrupted", "corrupted-s4-s5", "noise", ELSEWHERE), FEWER: (ELSEWHERE,)}
    for model, names in places.items():
        for name in names:
            study = "natural-shift" if name == ELSEWHERE else "shift"
            for method in METHODS:
                for metric in ("ece15", "nll", "eaurc", *(("accuracy",) * (method == "none"))):
                    seeds = store.over_sets(metric, Case(model, method), name).mean(axis=1)
                    place = ("shifted", study, model, method)
                    yield mean_entry(place, metric, seeds, set=name)


def _of_one_model(store: Store) -> Iterator[Entry]:
    """Yield means of one model, over corrupted sets or over draws of the calibration split.

    The former as the paper's of ImageNet-C, the latter as those of ImageNet-R and -A.
    """
    for metric in ("ece15", "accuracy"):
        sets = store.over_sets(metric, Case(STRUCTURED, "none"), "corrupted")[0]
        place = ("shifted", "shift", STRUCTURED, "none")
        yield mean_entry(place, metric, sets, set="corrupted", seeds=1, spread_over="cells")
    for method in ("none", "tva-ts", "srts-bce"):
        case = Case(STRUCTURED, method, budget=BUDGET)
        drawn = store.over_draws("ece15", case, DRAWS, ELSEWHERE)[0]
        about = {"set": ELSEWHERE, "seeds": 1, "budget": BUDGET, "draws": DRAWS}
        place = ("shifted", "natural-shift", STRUCTURED, method)
        yield mean_entry(place, "ece15", drawn, spread_over="draws", **about)


def _budgets(store: Store) -> Iterator[Entry]:
    about = {"budget": BUDGET, "draws": DRAWS, "spread_over": "seeds x draws"}
    for model, methods in FEW_SAMPLES.items():
        for method in methods:
            for metric in ("ece15", "adaece15", "smece", "nll"):
                fits = store.over_draws(metric, Case(model, method, budget=BUDGET), DRAWS)
                yield mean_entry(("budget", "budget", model, method), metric, fits, **about)


def _kept(store: Store) -> Iterator[Entry]:
    """Yield what is kept at fixed confidences or shares, how wrong it is, and what it says."""
    fixed = ("selective_risk90", "selective_risk95", "hcfp95")
    for name, percents in {"clean": (80, 90), "corrupted": (80,)}.items():
        at = [f"{what}_at{p}" for p in percents for what in ("coverage", "risk", "gap")]
        studies = {"thresholds": at, "deployment": fixed}
        for method in KEEPING:
            for study, metrics in studies.items():
                for metric in metrics:
                    seeds = store.over_sets(metric, Case(STRUCTURED, method), name).mean(axis=1)
                    yield mean_entry((study, study, STRUCTURED, method), metric, seeds, set=name)


def _matched_coverage(store: Store) -> Iterator[Entry]:
    """Yield error and gap of as many samples as one temperature by BCE keeps."""
    for name, percents in {"clean": (80, 90), "corrupted": (80,)}.items():
        for method in KEEPING:
            place = ("matched coverage", "matched-coverage", STRUCTURED, method)
            seeds = store.over_sets("aurc", Case(STRUCTURED, method), name).mean(axis=1)
            yield mean_entry(place, "aurc", seeds, set=name, unit="x1000")
            for percent in percents:
                found = np.array(
                    [
                        [_at_coverage(store, one, part, percent) for part in parts_of(name)]
                        for one in seeds_of(Case(STRUCTURED, method))
                    ]
                ).mean(axis=1)
                for what, column in zip(("risk", "gap"), found.T, strict=True):
                    metric = f"{what}_at_tva_coverage{percent}"
                    yield mean_entry(place, metric, column, set=name)


def _at_coverage(store: Store, case: Case, part: str, percent: int) -> tuple[float, float]:
    scalar = Case(case.model, "tva-ts", case.seed)
    share = store.score(f"coverage_at{percent}", scalar, part)
    split = store.scaled(case, part)
    return matched(split.logits, split.labels, round(share * len(split.labels)))
