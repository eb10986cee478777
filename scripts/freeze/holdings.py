"""Values of what a fit holds, of controls, and of diagnostics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from freeze.fits import Fit, bce_and_slopes, gaps_to_others, margin
from freeze.formulas import FORMULAS, confidence, wrongs
from freeze.logits import N_CAL, PLAIN, SEVERITIES, STRUCTURED, Array, Split
from freeze.means import BUDGET, DRAWS, METHODS
from freeze.store import Case, Entry, Store, entry, mean_entry, parts_of, seeds_of

#: A group at a bound of the temperatures that are searched.
BOUNDS = (0.05, 20)


def all_holdings(store: Store) -> Iterator[Entry]:
    """Yield every value of this kind."""
    yield from _numbers(store)
    yield from _audit(store)
    yield from _occupancy(store)
    yield from _controls(store)
    yield from _margin_thirds(store)
    yield from _signal_to_noise(store)
    yield from _by_corruption(store)
    yield from _risk_and_confidence(store)


def _numbers(store: Store) -> Iterator[Entry]:
    """Yield temperatures of single fits, how many numbers are fitted, and changed predictions."""
    for method in ("ts-nll", "tva-ts"):
        (found,) = store.fit(Case(STRUCTURED, method)).steps
        place = ("temperatures", "clean", STRUCTURED, method)
        yield entry(place, "temperature", found, unit="temperature", seeds=1)
    for k in (1, 2, 3):
        case = Case(STRUCTURED, "srts-nll", n_groups=k)
        place = ("groups", "k-ablation-nll", STRUCTURED, "srts-nll")
        about = {"seeds": 1, "options": {"n_groups": k}}
        steps = store.fit(case).steps
        ends = (steps.min(), steps.max())
        kept = {"kind": "range", "interval": ends, "unit": "temperature"}
        yield entry(place, "temperature", None, **kept, **about)
        yield entry(place, "temperature_ratio", ends[1] / ends[0], unit="ratio", **about)
        for metric in ("ece15", "hcfp90", "hcfp90_of_all"):
            yield entry(place, metric, store.score(metric, case, "test"), **about)
    checked = changed = 0
    for method in METHODS:
        place = ("numbers", "clean", STRUCTURED, method)
        count = store.fit(Case(STRUCTURED, method)).parameters
        yield entry(place, "parameters", count, unit="count")
        for case in seeds_of(Case(STRUCTURED, method)):
            before, after = store.splits(STRUCTURED, case.seed)["test"], store.scaled(case, "test")
            checked += 1
            changed += bool((before.logits.argmax(axis=1) != after.logits.argmax(axis=1)).any())
    place = ("numbers", "top1-audit", STRUCTURED, None)
    for metric, count in (("rows_checked", checked), ("rows_changed", changed)):
        yield entry(place, metric, count, unit="count", paper_method="every method")


def _audit(store: Store) -> Iterator[Entry]:
    """Yield the numbers of SRTS-BCE over fits, as the paper's table on auditability."""
    both = (STRUCTURED[0], f"{STRUCTURED[1]}+{PLAIN[1]}")
    asked = {(STRUCTURED,): (0, STRUCTURED), (STRUCTURED, PLAIN): (BUDGET, both)}
    for models, (budget, named) in asked.items():
        place = ("audit", "audit", named, "srts-bce")
        cases = [
            replace(case, draw=draw)
            for model in models
            for case in seeds_of(Case(model, "srts-bce", budget=budget))
            for draw in range(DRAWS if budget else 1)
        ]
        fits = [store.fit(case) for case in cases]
        about = {"budget": budget, "draws": DRAWS} if budget else {}
        steps = np.array([fit.steps for fit in fits])
        for group, column in enumerate(steps.T):
            kept = {"kind": "median", "unit": "temperature", "resampled": "quartiles of fits"}
            kept["interval"] = np.quantile(column, [0.25, 0.75])
            yield entry(place, f"temperature{group}", float(np.median(column)), **kept, **about)
        if not budget:
            for number, column in enumerate(np.array([fit.cuts for fit in fits]).T, 1):
                yield mean_entry(place, f"threshold{number}", column, unit="fraction")
        # The paper does not say of which samples: here those of the calibration draw, in the
        # groups that the deployed router puts them in. Equal rates are in order.
        rates = [_error_rates(store.cal(case), fit) for case, fit in zip(cases, fits, strict=True)]
        shares = {
            "at_bounds": ((steps <= BOUNDS[0]) | (steps >= BOUNDS[1])).any(axis=1),
            "pooled_groups": [fit.pooled for fit in fits],
            "risk_in_order": (np.diff(rates) >= 0).all(axis=1),
            "temperatures_in_order": (np.diff(steps) > 0).all(axis=1),
        }
        for name, holds in shares.items():
            yield entry(place, f"share_of_fits_{name}", float(np.mean(holds)), **about)


def _error_rates(cal: Split, fit: Fit) -> list[float]:
    wrong, groups = cal.logits.argmax(axis=1) != cal.labels, fit.groups(cal.logits)
    return [float(wrong[groups == g].mean()) for g in range(3)]


def _over_sets(store: Store, name: str, measure: Callable[[Case, str], float]) -> Array:
    """Return for each seed of SRTS-BCE the mean of a measure over the splits of a set."""
    cases = seeds_of(Case(STRUCTURED, "srts-bce"))
    return np.array([[measure(case, part) for part in parts_of(name)] for case in cases]).mean(1)


def _occupancy(store: Store) -> Iterator[Entry]:
    """Yield shares of groups and mean risks, clean and under shift, all numbers frozen."""

    def share(case: Case, part: str, group: int) -> float:
        z = store.splits(STRUCTURED, case.seed)[part].logits
        return float((store.fit(case).groups(z) == group).mean())

    def risk(case: Case, part: str) -> float:
        score = store.fit(case).score
        assert score is not None
        return float(score(store.splits(STRUCTURED, case.seed)[part].logits).mean())

    for name in ("clean", "corrupted", "corrupted-s1", "corrupted-s5"):
        for group in range(3):
            seeds = _over_sets(store, name, partial(share, group=group))
            place = ("audit", "audit", STRUCTURED, "srts-bce")
            yield mean_entry(place, f"share_of_group{group}", seeds, set=name)
        place = ("audit", "risk-flow", STRUCTURED, "srts-bce")
        seeds = _over_sets(store, name, risk)
        yield mean_entry(place, "mean_risk", seeds, set=name, unit="fraction")


def _controls(store: Store) -> Iterator[Entry]:
    """Yield what nobody can deploy: thresholds cut anew, and groups of the clean twins."""

    def control(case: Case, part: str, metric: str, study: str) -> float:
        fit, splits = store.fit(case), store.splits(STRUCTURED, case.seed)
        groups = fit.groups(splits["test"].logits)
        split = splits[part]
        if study == "requantize":
            assert fit.score is not None
            scores = fit.score(split.logits)
            groups = np.searchsorted(np.quantile(scores, [1 / 3, 2 / 3]), scores, side="right")
        return FORMULAS[metric](split.logits / fit.steps[groups][:, None], split.labels)

    called = {
        "requantize": "SRTS-BCE with thresholds made anew on each corrupted cell",
        "paired-clean": "SRTS-BCE with the groups of the clean images",
    }
    for study, name in called.items():
        for where in ("corrupted", "corrupted-s4-s5"):
            for metric in ("ece15", "eaurc"):
                seeds = _over_sets(store, where, partial(control, metric=metric, study=study))
                place = ("controls", study, STRUCTURED, None)
                about = {"set": where, "paper_method": name, "per_seed": seeds}
                yield mean_entry(place, metric, seeds, **about)


def _margin_thirds(store: Store) -> Iterator[Entry]:
    """Yield metrics within thirds of the margin, cut on clean calibration samples."""

    def within(case: Case, part: str, metric: str, method: str, third: int) -> float:
        splits = store.splits(STRUCTURED, case.seed)
        cuts = np.quantile(margin(splits["cal"].logits), [1 / 3, 2 / 3])
        rows = np.searchsorted(cuts, margin(splits[part].logits), side="right") == third
        split = store.scaled(replace(case, method=method), part).take(rows)
        return FORMULAS[metric](split.logits, split.labels)

    for third, name in enumerate(("low", "mid", "high")):
        for method in ("tva-ts", "margin-k3", "srts-bce", "smart-bce"):
            for metric in ("ece15", "nll", "aurc", "eaurc"):
                one = partial(within, metric=metric, method=method, third=third)
                seeds = _over_sets(store, "corrupted", one)
                place = ("margin thirds", "within-margin", STRUCTURED, method)
                yield mean_entry(place, metric, seeds, set=f"corrupted-margin-{name}")


def _signal_to_noise(store: Store) -> Iterator[Entry]:
    """Yield B / sigma^2: variance between groups of the loss's slope in T over that within."""
    for method in ("srts-bce", "margin-k3"):
        place = ("signal to noise", "signal-to-noise", STRUCTURED, method)
        ratios = [_ratio(store, case) for case in seeds_of(Case(STRUCTURED, method))]
        yield entry(place, "signal_to_noise", float(np.mean(ratios)), unit="x0.001")
        floor = 2 / N_CAL[STRUCTURED]
        yield entry(place, "signal_to_noise_floor", floor, unit="x0.001")


def _ratio(store: Store, case: Case) -> float:
    cal, fit = store.cal(case), store.fit(case)
    (pooled,) = store.fit(replace(case, method="tva-ts")).steps
    wrong = cal.logits.argmax(axis=1) != cal.labels
    _, slopes = bce_and_slopes(gaps_to_others(cal.logits), wrong, np.full(len(wrong), pooled))
    groups = np.searchsorted(fit.cuts, fit.held_out, side="right")
    parts = [slopes[groups == g] for g in range(3)]
    shares = np.array([len(part) for part in parts]) / len(slopes)
    between = shares @ [(part.mean() - slopes.mean()) ** 2 for part in parts]
    within = shares @ [part.var() for part in parts]
    assert np.isclose(between + within, slopes.var()), "the two make up the whole"
    return float(between / within)


def _by_corruption(store: Store) -> Iterator[Entry]:
    """Yield rank correlations over corruptions of gains, means over severities and seeds."""
    errors = {
        method: store.grid("ece15", Case(STRUCTURED, method), SEVERITIES).mean(axis=(0, 2))
        for method in ("none", "tva-ts", "smart-bce", "srts-bce")
    }
    gains = {rival: errors[rival] - errors["srts-bce"] for rival in ("tva-ts", "smart-bce")}
    found = {
        "spearman_gain_and_raw_ece": (gains["tva-ts"], errors["none"]),
        "spearman_gain_over_tva_and_over_smart": (gains["tva-ts"], gains["smart-bce"]),
    }
    place = ("rank correlations", "heterogeneity", STRUCTURED, "srts-bce")
    for metric, pair in found.items():
        rho = float(spearmanr(*pair).statistic)
        yield entry(place, metric, rho, set="corrupted", unit="correlation")
    best = int((np.min(list(gains.values()), axis=0) > 0).sum())
    yield entry(place, "corruptions_best_of_19", best, set="corrupted", unit="count")


def _risk_and_confidence(store: Store) -> Iterator[Entry]:
    """Yield how well the risk out of fold, and the raw confidence, tell errors apart."""
    case = Case(STRUCTURED, "srts-bce")
    cal = store.cal(case)
    wrong = wrongs(cal.logits, cal.labels)
    scores = {"risk": store.fit(case).held_out, "confidence": -confidence(cal.logits)}
    for name, score in scores.items():
        place = ("risk and confidence", "risk-score", STRUCTURED, "srts-bce")
        value = float(roc_auc_score(wrong, score))
        yield entry(place, f"auroc_{name}", value, unit="fraction", seeds=1)
