"""Values that compare two methods: differences with intervals, shares of wins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from freeze import resamples
from freeze.logits import (
    ELSEWHERE,
    FEWER,
    KINDS,
    N_CAL,
    PLAIN,
    SEEDS,
    SEVERITIES,
    STRUCTURED,
    Array,
    Model,
)
from freeze.means import BUDGET, DRAWS, FEW_SAMPLES
from freeze.resamples import Predicted, ends
from freeze.store import Case, Entry, Store, entry, seeds_of

#: Which is compared with which, as in the paper.
PAIRS = (("srts-bce", "tva-ts"), ("srts-bce", "smart-bce"), ("margin-k3", "tva-ts"))
COMPARED = ("srts-bce", "tva-ts", "smart-bce", "margin-k3")
DIFFERENCE = "difference"


def all_comparisons(store: Store) -> Iterator[Entry]:
    """Yield every value of this kind."""
    yield from _clean(store)
    yield from _over_cells(store)
    for ours, theirs in PAIRS:
        yield from _budgets(store, ours, theirs)
        yield from _tiers(store, ours, theirs)
        yield from _gains(store, ours, theirs)
    yield from _elsewhere(store)
    yield from _draws_elsewhere(store)


def _clean(store: Store) -> Iterator[Entry]:
    """Yield differences with seeds and images resampled, and with images alone."""
    for model in (STRUCTURED, PLAIN):
        seeds = [_predicted(store, model, seed, "test") for seed in SEEDS]
        whole, pooled = resamples.seeds_then_images(seeds), resamples.images_pooled(seeds)
        for ours, theirs in PAIRS:
            value = _gap(store, model, ours, theirs, "clean").mean()
            about = {"kind": DIFFERENCE, "against": theirs, "resampled": "seeds>images"}
            about["interval"] = ends(whole[ours] - whole[theirs])
            about["other_intervals"] = {"images": ends(pooled[ours] - pooled[theirs])}
            yield entry(("gains", "clean", model, ours), "ece15", value, **about)
    for method in ("none", "srts-nll"):  # one model by itself
        case = Case(STRUCTURED, method)
        drawn = resamples.images({"it": store.scaled(case, "test")}, resamples.N_BOOT_POOLED)["it"]
        about = {"seeds": 1, "interval": ends(drawn), "resampled": "images"}
        place = ("images", "routing-signal", STRUCTURED, method)
        yield entry(place, "ece15", store.score("ece15", case, "test"), **about)


def _over_cells(store: Store) -> Iterator[Entry]:
    """Yield risk minus margin over the trained models of several kinds, models resampled."""
    gaps = [_gap(store, model, "srts-bce", "margin-k3", "clean") for model in (STRUCTURED, PLAIN)]
    both = (STRUCTURED[0], f"{STRUCTURED[1]}+{PLAIN[1]}")
    about = {"kind": DIFFERENCE, "against": "margin-k3", "resampled": "cells"}
    about |= {"budget": N_CAL[STRUCTURED]}
    about["interval"] = ends(resamples.entries(np.array(gaps)))
    place = ("gains", "routing-signal", both, "srts-bce")
    yield entry(place, "ece15", float(np.mean(gaps)), **about)


def _predicted(store: Store, model: Model, seed: int, part: str) -> Predicted:
    return {name: store.scaled(Case(model, name, seed), part) for name in COMPARED}


def _gap(store: Store, model: Model, ours: str, theirs: str, name: str) -> Array:
    """Return the difference in ECE: seeds x splits of a set."""
    of = partial(store.over_sets, "ece15", name=name)
    return np.asarray(of(case=Case(model, ours)) - of(case=Case(model, theirs)))


def _budgets(store: Store, ours: str, theirs: str) -> Iterator[Entry]:
    """Yield differences over draws, with seeds and draws resampled, or draws alone, and wins."""
    about = {"against": theirs, "budget": BUDGET, "draws": DRAWS}
    models = [model for model, methods in FEW_SAMPLES.items() if theirs in methods]
    for metric in ("ece15", "adaece15"):
        tables = []
        for model in models:
            one, other = (
                store.over_draws(metric, Case(model, name, budget=BUDGET), DRAWS)
                for name in (ours, theirs)
            )
            gaps = one - other
            tables.append(gaps)
            place = ("gains", "budget", model, ours)
            kept = {"interval": ends(resamples.levels(gaps)), "resampled": "seeds>draws"}
            yield entry(place, metric, gaps.mean(), kind=DIFFERENCE, **kept, **about)
            if metric == "ece15":
                kept = {"interval": ends(resamples.entries(gaps)), "resampled": "draws"}
                yield entry(place, metric, None, kind=DIFFERENCE, **kept, **about)
                yield entry(place, metric, (one < other).mean(), kind="win-share", **about)
        if len(models) > 1:
            both = (STRUCTURED[0], "+".join(model[1] for model in models))
            kept = {"interval": ends(resamples.levels(np.array(tables)))}
            kept |= {"resampled": "backbones>seeds>draws", "kind": DIFFERENCE}
            value = float(np.mean(tables))
            yield entry(("gains", "budget", both, ours), metric, value, **kept, **about)


def _tiers(store: Store, ours: str, theirs: str) -> Iterator[Entry]:
    """Yield the three readings under shift: of single sets, of corruptions, of every level."""
    place = ("tiers", "shift", STRUCTURED, ours)
    for metric in ("ece15", "eaurc"):
        for name, severities in {"corrupted": SEVERITIES, "corrupted-s4-s5": (4, 5)}.items():
            one, other = (
                store.grid(metric, Case(STRUCTURED, method), severities)
                for method in (ours, theirs)
            )
            gaps = one - other
            drawn = resamples.levels(gaps)
            tiers = {
                "cells": ends(resamples.entries(gaps)),
                "corruption types": ends(resamples.corruptions(gaps)),
            }
            about = {"against": theirs, "set": name, "resampled": "seeds>corruptions>severities"}
            kept = {"interval": ends(drawn), "other_intervals": tiers, "kind": DIFFERENCE}
            yield entry(place, metric, gaps.mean(), **kept, **about)
            if metric == "ece15":
                below = {"kind": "share-below-zero", "unit": "fraction"}
                yield entry(place, metric, (drawn < 0).mean(), **below, **about)


def _gains(store: Store, ours: str, theirs: str) -> Iterator[Entry]:
    """Yield what the other has more under each corruption, which the paper calls the gain."""
    for kind in KINDS:
        gain = -_gap(store, STRUCTURED, ours, theirs, kind).mean()
        about = {"kind": DIFFERENCE, "against": ours, "set": kind}
        place = ("by corruption", "heterogeneity", STRUCTURED, theirs)
        yield entry(place, "ece15", gain, **about)


def _elsewhere(store: Store) -> Iterator[Entry]:
    """Yield differences under natural shift; all seeds met the same images, resampled for all."""
    for model in (STRUCTURED, FEWER):
        predicted = {
            f"{name} {case.seed}": store.scaled(case, ELSEWHERE)
            for name in COMPARED
            for case in seeds_of(Case(model, name))
        }
        drawn = _averaged(resamples.images(predicted))
        for ours, theirs in PAIRS:
            value = _gap(store, model, ours, theirs, ELSEWHERE).mean()
            place = ("natural shift", "natural-shift", model, ours)
            yield _image_entry(place, theirs, value, ends(drawn[ours] - drawn[theirs]))


def _draws_elsewhere(store: Store) -> Iterator[Entry]:
    """Yield the same for draws of one model, which is what the paper has of ImageNet-R and -A."""
    ours, theirs = "srts-bce", "tva-ts"
    predicted = {
        f"{name} {draw}": store.scaled(
            replace(Case(STRUCTURED, name, budget=BUDGET), draw=draw), ELSEWHERE
        )
        for name in (ours, theirs)
        for draw in range(DRAWS)
    }
    drawn = _averaged(resamples.images(predicted))
    one, other = (
        store.over_draws("ece15", Case(STRUCTURED, name, budget=BUDGET), DRAWS, ELSEWHERE)[0]
        for name in (ours, theirs)
    )
    about = {"seeds": 1, "budget": BUDGET, "draws": DRAWS}
    place = ("natural shift", "natural-shift", STRUCTURED, ours)
    interval = ends(drawn[ours] - drawn[theirs])
    yield _image_entry(place, theirs, (one - other).mean(), interval, **about)


def _averaged(drawn: dict[str, Array]) -> dict[str, Array]:
    """Return means over what was predicted by one method."""
    names = {key.partition(" ")[0] for key in drawn}
    return {
        name: np.mean([drawn[key] for key in drawn if key.partition(" ")[0] == name], axis=0)
        for name in names
    }


def _image_entry(
    place: tuple[str, str, Model, str], theirs: str, value: float, interval: Array, **about: int
) -> Entry:
    kept = {"kind": DIFFERENCE, "against": theirs, "set": ELSEWHERE, "resampled": "images"}
    return entry(place, "ece15", value, interval=interval, **kept, **about)
