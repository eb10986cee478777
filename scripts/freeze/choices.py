"""Values of choosing the number of groups: on the calibration split, or with the answer known."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit

from freeze.fits import fitted
from freeze.formulas import FORMULAS, top_label_bce
from freeze.logits import ELSEWHERE, MODELS, PLAIN, SEEDS, STRUCTURED, Array, Model, Split
from freeze.store import Case, Entry, Place, Store, entry, mean_entry

RULE = "K of 1 or 3 by the one-standard-error rule"
BETTER = "the better of K=1 and K=3 for each seed"
HELD_OUT = "SRTS-BCE with K chosen on a held-out fifth"
ORACLE = "SRTS-BCE with the best K on the test set"
#: All models together.
ALL = ("all", "all")
#: A set, and the ECE of each method there, seed by seed.
Regime = tuple[str, dict[str, Array]]
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
    regimes: list[Regime] = []
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
            regimes.append((name, found))
    yield from _together(regimes)


def _together(regimes: list[Regime]) -> Iterator[Entry]:
    """Yield what all models say together: how far from the better of two, how often for nothing."""
    clean = [found for name, found in regimes if name == "clean"]
    about = {"seeds": None, "set": "regimes the rule was formed on", "cells_of": "selector"}
    for method in ("tva-ts", "srts-bce", RULE):
        place, named = _place("selector", ALL, method)
        excess = np.array([found[method] - found[BETTER] for found in clean])
        means = excess.mean(axis=1)
        for metric, value in ((EXCESS, means.mean()), (LARGEST, means.max())):
            yield entry(place, metric, value, seeds=None, **named)
        for metric, value in ((EXCESS, excess.mean()), (LARGEST, excess.max())):  # of single fits
            yield entry(place, metric, value, **about, **named)
    one, three, rule = (
        np.array([found[method] for found in clean]) for method in ("tva-ts", "srts-bce", RULE)
    )
    place, named = _place("selector", ALL, RULE)
    share = float((rule == three)[three > one].mean())
    yield entry(place, "share_of_three_where_one_is_better", share, **about, **named)
    yield from _helped_and_hurt(regimes)
    for metric, sign in (("models_won", -1), ("models_lost", 1)):
        points = np.round(100 * (three - one).mean(axis=1), 2)
        own = {"kind": "difference", "against": "tva-ts", "cells_of": "clean", "unit": "count"}
        place = ("selector", "scope-map", ALL, "srts-bce")
        yield entry(place, metric, int((np.sign(points) == sign).sum()), seeds=None, **own)


def _helped_and_hurt(regimes: list[Regime]) -> Iterator[Entry]:
    """Yield how many models and sets three groups help or hurt, and what the rule makes of it.

    "Retains 7 of 8 regimes where K=3 helps by more than 0.2 pp and avoids 2 of 3 where it hurts":
    where the seeds of a model choose differently, more than half of the gain, or of the harm.
    """
    one, three, rule = (
        np.array([found[method].mean() for _, found in regimes])
        for method in ("tva-ts", "srts-bce", RULE)
    )
    helped, hurt = one - three > 0.002, three - one > 0.002
    counts = {
        "regimes_helped": helped,
        "regimes_helped_and_kept": helped & (one - rule > (one - three) / 2),
        "regimes_hurt": hurt,
        "regimes_hurt_and_avoided": hurt & (rule - one < (three - one) / 2),
    }
    place, named = _place("selector", ALL, RULE)
    for metric, holds in counts.items():
        about = {"seeds": None, "set": "all regimes", "cells_of": "selector", "unit": "count"}
        yield entry(place, metric, int(holds.sum()), **about, **named)


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
