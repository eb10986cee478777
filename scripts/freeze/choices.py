"""Values of choosing the number of groups: on the calibration split, or with the answer known."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit

from freeze.fits import fitted
from freeze.formulas import FORMULAS, top_label_bce
from freeze.logits import ELSEWHERE, MODELS, PLAIN, SEEDS, STRUCTURED, Model, Split
from freeze.store import Case, Entry, Place, Store, entry, mean_entry

RULE = "K of 1 or 3 by the one-standard-error rule"
BETTER = "the better of K=1 and K=3 for each seed"
HELD_OUT = "SRTS-BCE with K chosen on a held-out fifth"
ORACLE = "SRTS-BCE with the best K on the test set"
EXCESS, LARGEST = "ece_above_the_better_of_two", "largest_ece_above_the_better_of_two"


def all_choices(store: Store) -> Iterator[Entry]:
    """Yield every value of this kind."""
    yield from _selector(store)
    yield from _numbers_of_groups(store)


def _loss(method: str, train: Split, test: Split, seed: int) -> float:
    fit = fitted(method, train, seed)
    return top_label_bce(test.logits / fit.temperature(test.logits)[:, None], test.labels)


def takes_three(cal: Split, seed: int) -> bool:
    """Return whether five repeats of five folds promise more than one standard error.

    The gain of SRTS-BCE over TvA-TS in held-out top-label BCE; the error is that of the repeats'
    means. Folds are stratified by being wrong, and SRTS is fitted anew in each, folds and all.
    """
    wrong = cal.logits.argmax(axis=1) != cal.labels
    means = []
    for repeat in range(5):
        folds = StratifiedKFold(5, shuffle=True, random_state=seed + repeat).split(wrong, wrong)
        gains = [
            _loss("tva-ts", cal.take(train), cal.take(test), seed)
            - _loss("srts-bce", cal.take(train), cal.take(test), seed)
            for train, test in folds
        ]
        means.append(np.mean(gains))
    return bool(np.mean(means) > np.std(means, ddof=1) / np.sqrt(5))


def _selector(store: Store) -> Iterator[Entry]:
    excesses: dict[str, list[float]] = {"tva-ts": [], "srts-bce": [], RULE: []}
    for model in MODELS:
        picks = [3 if takes_three(store.splits(model, s)["cal"], s) else 1 for s in SEEDS]
        for name in ("clean", *((ELSEWHERE,) * (model == STRUCTURED))):
            found = {
                method: store.over_sets("ece15", Case(model, method), name)[:, 0]
                for method in ("tva-ts", "srts-bce")
            }
            found[RULE] = np.where(np.equal(picks, 3), found["srts-bce"], found["tva-ts"])
            found[BETTER] = np.minimum(found["srts-bce"], found["tva-ts"])
            for method, seeds in found.items():
                own = {"picks": picks} if method == RULE else {}
                place, named = _place("selector", model, method)
                yield mean_entry(place, "ece15", seeds, set=name, **named, **own)
                if method in excesses and name == "clean":
                    excesses[method].append(float((seeds - found[BETTER]).mean()))
    for method, values in excesses.items():
        place, named = _place("selector", ("all", "all"), method)
        for metric, value in ((EXCESS, float(np.mean(values))), (LARGEST, max(values))):
            yield entry(place, metric, value, seeds=None, **named)


def _place(study: str, model: Model, method: str) -> tuple[Place, dict[str, str]]:
    """Return where a value stands, and the name of a method that only the paper has."""
    if method in ("tva-ts", "srts-bce"):
        return (study, study, model, method), {}
    return (study, study, model, None), {"paper_method": method}


def _numbers_of_groups(store: Store) -> Iterator[Entry]:
    """Yield what a held-out fifth chooses among numbers of groups, and the best there is."""
    held_out = [_best_held_out(store.splits(PLAIN, seed)["cal"], seed) for seed in SEEDS]
    best = [
        min((1, 2, 3, 5, 10, 15, 20), key=lambda k, s=seed: _with_groups(store, "ece15", s, k))
        for seed in SEEDS
    ]
    asked = {
        ("nested-k", HELD_OUT): (held_out, ("ece15", "top_label_bce")),
        ("oracle-k", ORACLE): (best, ("ece15", "adaece15", "smece")),
    }
    for (study, method), (picks, metrics) in asked.items():
        for metric in metrics:
            seeds = [_with_groups(store, metric, s, k) for s, k in zip(SEEDS, picks, strict=True)]
            place, named = _place(study, PLAIN, method)
            yield mean_entry(place, metric, np.array(seeds), picks=picks, **named)


def _with_groups(store: Store, metric: str, seed: int, k: int) -> float:
    return store.score(metric, Case(PLAIN, "srts-bce", seed, n_groups=k), "test")


def _best_held_out(cal: Split, seed: int) -> int:
    """Return the number of groups with the lowest ECE on a fifth, class by class."""
    cut = StratifiedShuffleSplit(1, test_size=0.2, random_state=seed)
    train, test = next(cut.split(cal.labels, cal.labels))
    held = cal.take(np.sort(test))
    errors = {}
    for k in (1, 2, 3, 5, 10):
        temperature = fitted("srts-bce", cal.take(np.sort(train)), seed, k).temperature
        scaled = held.logits / temperature(held.logits)[:, None]
        errors[k] = FORMULAS["ece15"](scaled, held.labels)
    return min(errors, key=lambda k: round(errors[k], 12))
