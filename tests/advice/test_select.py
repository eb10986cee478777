"""The gate against the paper's selectors as plain loops, known truths, and nasty splits."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import StratifiedKFold, train_test_split

import smallcal as sc
from smallcal.advice.cross_validate import HeldOut, held_out_losses, repeated_folds, single_split
from smallcal.advice.recommend import errors_needed
from smallcal.advice.select import DEFAULT_CANDIDATES, SCORE_CANDIDATES, candidates_for
from smallcal.advice.select_walk import RULES, chosen_row, walk
from smallcal.calibrators.catalogue import METHODS
from smallcal.calibrators.objectives import Seen
from smallcal.data.predictions import Predictions
from smallcal.metrics.table import METRICS, chosen_metrics
from support.cases import features_of
from support.refused import refused
from support.simulated import simulate

QUICK = ["none", "tva-ts", "signal-linear"]


def by_risk(n, seed=0, n_classes=6):
    """Logits that are too sure where the margin is small, and not sure enough where it is large."""
    z, _ = simulate(n, n_classes, temperature=1.0, seed=seed)
    ordered = np.sort(z, axis=1)
    margin = ordered[:, -1] - ordered[:, -2]
    true = z / np.where(margin < np.median(margin), 3.0, 0.6)[:, None]
    p = np.exp(true - true.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    rng = np.random.default_rng([seed, 1])
    return z, (p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


def calibrated(n, seed=0, n_classes=6):
    return simulate(n, n_classes, temperature=1.0, seed=seed)


def proba(name, train, z_test, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        return sc.make(name, **options).fit(*train).predict_proba(z_test)


def bce(y, p):
    """Top-label cross-entropy of each sample, both sides clipped at 1e-12."""
    top = p.argmax(axis=1)
    rest = p.copy()
    rest[np.arange(len(p)), top] = 0
    bet = np.where(top == y, p.max(axis=1), rest.sum(axis=1))
    return -np.log(np.clip(bet, 1e-12, 1))


def plain_gains(z, y, seed):
    """TvA-TS minus SRTS-BCE: each fold's mean gain (5, 5), and each sample's gain (5, n)."""
    wrong = z.argmax(axis=1) != y
    folds, samples = np.empty((5, 5)), np.empty((5, len(y)))
    for repeat in range(5):
        cut = StratifiedKFold(5, shuffle=True, random_state=seed + repeat)
        for fold, (train, held) in enumerate(cut.split(z, wrong)):
            part = z[train], y[train]
            one = bce(y[held], proba("tva-ts", part, z[held]))
            three = bce(y[held], proba("srts-bce", part, z[held], random_state=seed))
            folds[repeat, fold] = one.mean() - three.mean()
            samples[repeat, held] = one - three
    return folds, samples


PAPER = ("tva-ts", ("srts-bce", {"n_groups": 3}))
SPLITS = {
    "routed": (by_risk(800), 0),
    "scalar": (simulate(603, 12), 3),
    "odd": (by_risk(307, seed=5), 11),
}


@pytest.fixture(scope="module", params=SPLITS)
def plain(request):
    (z, y), seed = SPLITS[request.param]
    return z, y, seed, *plain_gains(z, y, seed)


@pytest.mark.parametrize("rule", ["repeat", "fold", "sample"])
def test_one_standard_error_rules_equal_plain_loops(plain, rule):
    z, y, seed, folds, samples = plain
    gains = {"repeat": folds.mean(axis=1), "fold": folds.ravel(), "sample": samples.mean(axis=0)}
    mean, error = gains[rule].mean(), gains[rule].std(ddof=1) / np.sqrt(len(gains[rule]))
    found = sc.select(z, y, candidates=PAPER, rule=rule, random_state=seed)
    row = found.table[1]
    assert row.gain == pytest.approx(mean, rel=1e-9, abs=1e-14)
    assert row.standard_error == pytest.approx(error, rel=1e-9, abs=1e-14)
    assert found.choice == ("srts-bce" if mean > error else "tva-ts")
    assert (row.against, row.verdict == "accepted") == ("tva-ts", mean > error)


def test_the_cases_above_go_both_ways():
    picks = {
        sc.select(z, y, candidates=PAPER, rule="repeat", random_state=seed).choice
        for (z, y), seed in SPLITS.values()
    }
    assert picks == {"tva-ts", "srts-bce"}


@pytest.mark.parametrize("name", dict.fromkeys([*DEFAULT_CANDIDATES, *SCORE_CANDIDATES]))
def test_a_candidate_without_options_is_its_estimator_s_method(name):
    z, y = by_risk(300)
    preds = Predictions.of(z, y)
    tried, _ = candidates_for(preds, [name], random_state=7)
    estimator = sc.make(name)
    if "random_state" in estimator.get_params():
        estimator.set_params(random_state=7)
    method, expected = tried[name].method, estimator._compose()
    assert (method.name, method._axes()) == (expected.name, expected._axes())
    if "random_state" in estimator.get_params():
        assert method == expected


def test_methods_that_share_a_look_are_fitted_as_if_alone():
    z, y = by_risk(300, seed=2)
    preds = Predictions.of(z, y)
    shared = Seen.of(preds)
    for name in DEFAULT_CANDIDATES:
        alone, together = (METHODS[name].fit(each, record=False) for each in (preds, shared))
        np.testing.assert_array_equal(alone.on(preds), together.on(preds))
        assert (alone.flags, alone.n_parameters) == (together.flags, together.n_parameters)


def test_one_group_and_one_temperature_are_the_same_candidate():
    z, y = by_risk(400)
    named = sc.select(z, y, candidates=PAPER, rule="repeat")
    grouped = sc.select(
        z, y, candidates=[("srts-bce", {"n_groups": k}) for k in (1, 3)], rule="repeat"
    )
    assert grouped.table[0].candidate == "srts-bce[n_groups=1]"
    assert grouped.table[0].n_parameters == 1
    assert grouped.table[1].gain == named.table[1].gain


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
@pytest.mark.parametrize("stratum", ["class", "correctness"])
def test_nested_choice_of_k_equals_a_plain_loop(seed, stratum):
    z, y = by_risk(900, seed=seed, n_classes=6 if stratum == "class" else 400)
    strata = y if stratum == "class" else z.argmax(axis=1) == y
    train, held = train_test_split(
        np.arange(len(y)), test_size=0.2, stratify=strata, random_state=seed
    )
    train.sort()  # the folds inside a router depend on the order of its rows
    ece = {}
    for k in (1, 2, 3, 5, 10):
        p = proba("srts-bce", (z[train], y[train]), z[held], n_groups=k, random_state=seed)
        ece[k] = sc.evaluate(y[held], p, metrics=["ece15"])["ece15"]
    found = sc.select(
        z,
        y,
        candidates={str(k): ("srts-bce", {"n_groups": k}) for k in ece},
        rule="holdout",
        loss="ece15",
        random_state=seed,
    )
    assert [row.loss for row in found.table] == pytest.approx(list(ece.values()), rel=1e-12)
    assert found.choice == str(min(ece, key=ece.get))
    assert found.choice_method == "srts-bce"
    assert found.choice_options == {"n_groups": int(found.choice)}
    assert (found.n_repeats, found.n_folds) == (1, 1)


def test_a_single_split_serves_classes_with_one_sample_and_no_errors():
    z, y = simulate(50, 40)
    assert np.bincount(y).min() < 2
    held = single_split(Predictions.of(z, y), seed=0).of[0] == 0
    wrong = z.argmax(axis=1) != y
    assert held.sum() == 10
    assert abs(wrong[held].mean() - wrong[~held].mean()) < 0.1
    assert (single_split(Predictions.of(z, z.argmax(axis=1)), seed=0).of[0] == 0).sum() == 10


def test_intervals_equal_a_plain_bootstrap(plain):
    z, y, seed, _, samples = plain
    row = sc.select(z, y, candidates=PAPER, level=0.9, random_state=seed).table[1]
    gains = samples.mean(axis=0)
    rng = np.random.default_rng(seed)
    n = len(y)
    means = [gains[rng.integers(n, size=n, dtype=np.uint32)].mean() for _ in range(2000)]
    assert tuple(row.interval) == pytest.approx(tuple(np.quantile(means, [0.05, 0.95])), rel=1e-7)
    assert row.interval.point == pytest.approx(gains.mean(), rel=1e-9, abs=1e-14)
    assert (row.interval.unit, row.interval.level) == ("held-out samples", 0.9)


def test_nll_is_reported_beside_the_loss():
    z, y = simulate(300, 5)
    row = sc.select(z, y, candidates=["none", "tva-ts"], n_repeats=1).table[1]
    nll = {}
    for name in ("none", "tva-ts"):
        total = np.empty(len(y))
        cut = StratifiedKFold(5, shuffle=True, random_state=0)
        for train, held in cut.split(z, z.argmax(axis=1) != y):
            p = proba(name, (z[train], y[train]), z[held])
            total[held] = -np.log(p[np.arange(len(held)), y[held]])
        nll[name] = total.mean()
    assert row.nll == pytest.approx(nll["tva-ts"], rel=1e-9)
    assert row.nll_interval.point == pytest.approx(nll["none"] - nll["tva-ts"], rel=1e-7)


# Known truths.


def test_a_model_that_errs_by_risk_gets_a_routed_map():
    z, y = by_risk(5000)
    found = sc.select(z, y, candidates=[*QUICK, "srts-shrunk", "pwlinear-3"], n_repeats=2)
    chosen = next(row for row in found.table if row.candidate == found.choice)
    assert chosen.n_parameters > 1
    assert chosen.interval.low > 0
    cal = found.estimator().fit(z, y)
    new, truth = by_risk(5000, seed=1)
    scalar = proba("tva-ts", (z, y), new)
    assert bce(truth, cal.predict_proba(new)).mean() < bce(truth, scalar).mean() - 0.01


def test_an_over_confident_model_gets_one_temperature():
    picks = [
        sc.select(*simulate(400, 6, seed=seed), candidates=QUICK, n_repeats=2).choice
        for seed in range(6)
    ]
    assert picks.count("tva-ts") >= 5
    assert "none" not in picks


def test_a_calibrated_model_is_left_alone_more_often_than_by_the_papers_rules():
    picks = {rule: [] for rule in ("sample", "repeat", "fold")}
    for seed in range(20):
        preds = Predictions.of(*calibrated(300, seed=seed))
        tried, _ = candidates_for(preds, QUICK)
        folds = repeated_folds(preds, n_repeats=5, n_folds=5, seed=0)
        found = held_out_losses(
            preds,
            {name: entry.method for name, entry in tried.items()},
            folds,
            chosen_metrics(["top_label_bce", "nll"]),
        )
        for rule, made in picks.items():
            made.append(chosen_row(walk(found, loss="top_label_bce", rule=rule)).candidate)
    left = {rule: made.count("none") for rule, made in picks.items()}
    assert left["sample"] >= 18
    assert left["repeat"] < left["sample"]
    assert left["fold"] <= left["sample"]


# The walk.


def record(folds, samples=None, **more):
    nll = {"nll": np.asarray(folds, dtype=float)}
    values = {} if samples is None else {"top_label_bce": np.asarray(samples, dtype=float)}
    return HeldOut({"top_label_bce": np.asarray(folds, dtype=float), **nll}, values, **more)


@given(
    losses=st.lists(st.floats(0, 1), min_size=24, max_size=24),
    rule=st.sampled_from(["repeat", "fold", "holdout"]),
)
def test_the_walk_equals_a_plain_loop(losses, rule):
    table = np.array(losses).reshape(4, 2, 3)
    rows = walk({str(i): record(t) for i, t in enumerate(table)}, loss="top_label_bce", rule=rule)
    best = 0
    for i in range(1, 4):
        gains = table[best] - table[i]
        gains = gains.mean(axis=1) if rule == "repeat" else gains.ravel()
        error = 0 if rule == "holdout" else gains.std(ddof=1) / np.sqrt(len(gains))
        assert rows[i].against == str(best)
        if gains.mean() > error and gains.mean() > 1e-12:
            best = i
    assert chosen_row(rows).candidate == str(best)
    if rule == "holdout":
        assert table[best].mean() <= table.mean(axis=(1, 2)).min() + 1e-11


def test_a_gain_of_exactly_one_standard_error_is_not_enough():
    base = record([[2.0], [2.0]])
    rich = record([[0.0], [2.0]])  # gains 2 and 0: mean 1, sd sqrt 2, standard error 1
    rows = walk({"base": base, "rich": rich}, loss="top_label_bce", rule="repeat")
    assert (rows[1].gain, rows[1].standard_error) == pytest.approx((1.0, 1.0), rel=1e-15)
    assert rows[1].verdict == "rejected"


@pytest.mark.parametrize("rule", RULES)
def test_maps_that_differ_by_rounding_are_not_a_gain(rule):
    z, y = simulate(300, 8)
    one = ("srts-bce", {"n_groups": 1})
    found = sc.select(z, y, candidates={"tva-ts": "tva-ts", "one group": one}, rule=rule)
    assert abs(found.table[1].gain) < 1e-12
    assert found.choice == "tva-ts"
    assert "leaves it unchanged" in found.reason


def test_what_cannot_be_judged_is_out_and_the_next_is_the_start():
    ok = record([[1.0, 1.0]])
    found = {
        "broken": record([[np.nan, 1.0]], failures=["too thin"]),
        "odd": record([[np.nan, 0.0]]),
        "fine": ok,
        "better": record([[0.5, 0.5]]),
    }
    rows = walk(found, loss="top_label_bce", rule="fold")
    assert [row.verdict for row in rows] == ["failed", "failed", "start", "accepted"]
    assert rows[0].note == "failed in 1 of 2 fits: too thin"
    assert rows[1].note == "its top-label log-loss is undefined in 1 of 2 folds"
    with refused("method-unsuitable"):
        walk({"odd": found["odd"]}, loss="top_label_bce", rule="fold")


def test_a_candidate_that_cannot_be_fitted_is_reported():
    z, y = simulate(200, 4)
    found = sc.select(z, y, candidates=["none", "features-k3", "tva-ts"], n_repeats=1)
    assert found.table[1].verdict == "failed"
    assert found.table[1].n_failed == 5
    assert "needs features" in found.table[1].note
    assert found.choice in ("none", "tva-ts")
    with refused("method-unsuitable"):
        sc.select(z, y, candidates=["features-k3"])


def test_features_reach_the_candidates_that_need_them():
    z, y = simulate(300, 4)
    found = sc.select(
        z, y, candidates=["none", "features-k3"], features=features_of(z), n_repeats=1
    )
    assert found.table[1].verdict in ("accepted", "rejected")


def test_a_map_that_fell_back_says_so():
    z, y = by_risk(120)
    found = sc.select(z, y, candidates=["none", "srts-bce"], n_repeats=1)
    assert found.table[1].note == "fell back, in part or whole, in 5 of 5 fits"
    assert found.table[1].flags["fallback"] == 5


# Candidates.


ANY = Predictions.of(*simulate(99, 4))


def test_the_default_is_where_it_starts_and_stays():
    found = sc.select(*by_risk(600), n_repeats=2, n_folds=2)
    assert {row.candidate for row in found.table} == set(DEFAULT_CANDIDATES)
    assert found.table[0].candidate == found.choice == "smallcal"
    assert found.table[0].verdict == "start"
    assert "lowers the held-out top-label log-loss" in found.reason
    assert "no other candidate is better beyond chance" in found.reason
    assert found.estimator().get_params()["method"] == "smallcal"


def leading(default, other, n=400, seed=0):
    """Return records of the default and another whose held-out losses differ so on average."""
    rng = np.random.default_rng(seed)
    return {
        name: HeldOut(
            {m: np.full((1, 2), loss) for m in ("top_label_bce", "nll")},
            {m: loss + 0.1 * rng.normal(size=n) for m in ("top_label_bce", "nll")},
        )
        for name, loss in (("smallcal", default), ("other", other))
    }


@pytest.mark.parametrize(("gain", "leaves"), [(0.02, False), (0.03, True)])
def test_the_default_is_left_only_beyond_chance(gain, leaves):
    """The standard error of these gains is 0.007: three are not enough, and 3.5 are for one."""
    found = leading(0.3, 0.3 - gain)
    found["other"].samples["top_label_bce"] += (
        0.3 - gain - found["other"].samples["top_label_bce"].mean()
    )
    found["smallcal"].samples["top_label_bce"] += (
        0.3 - found["smallcal"].samples["top_label_bce"].mean()
    )
    rows = walk(found, loss="top_label_bce", rule="sample", errors=errors_needed(1, 5), guard="nll")
    assert rows[1].gain > rows[1].standard_error
    assert (chosen_row(rows).candidate == "other") == leaves
    found["other"].folds["nll"] += 1
    rows = walk(found, loss="top_label_bce", rule="sample", errors=0.1, guard="nll")
    assert chosen_row(rows).candidate == "smallcal"


@pytest.mark.parametrize("errors", [0.5, 0.99, 1.01])
@pytest.mark.parametrize("metric", ["top_label_bce", "nll"])
def test_the_uncalibrated_model_stays_unless_a_standard_error_is_gained_over_it(metric, errors):
    """A hundred gains of 0.01 on average: their standard error is 0.01 / errors."""
    spread = np.tile([1.0, -1.0], 50) * np.sqrt(99 / 100)
    found = {
        name: HeldOut(
            {m: np.full((1, 2), 0.3) for m in ("top_label_bce", "nll")},
            {m: np.full(100, 0.3) for m in ("top_label_bce", "nll")},
        )
        for name in ("smallcal", "none", "ts-nll")
    }
    found["smallcal"].samples[metric] -= 0.01 + 0.1 / errors * spread
    rows = walk(found, loss="top_label_bce", rule="sample", errors=4.0, guard="nll")
    assert chosen_row(rows).candidate == ("none" if errors < 1 else "smallcal")
    assert [row.verdict for row in rows].count("accepted") == (errors < 1)
    rows = walk(found, loss="top_label_bce", rule="sample", errors=4.0, guard="nll", enough=False)
    assert chosen_row(rows).candidate == "smallcal"


def test_an_exactly_calibrated_model_is_left_alone():
    picks = [sc.select(*calibrated(250, seed), n_repeats=2, random_state=seed) for seed in range(8)]
    alone = [found for found in picks if found.choice == "none"]
    assert len(alone) >= 7
    said = "keep the uncalibrated model: smallcal, the default, does not lower the held-out"
    assert alone[0].reason.startswith(f"{said} top-label log-loss or log-loss by more than one")
    z, y = calibrated(20, seed=1)
    np.testing.assert_allclose(
        alone[0].estimator().fit(z, y).predict_proba(z),
        np.exp(z) / np.exp(z).sum(axis=1, keepdims=True),
    )


def test_more_rivals_ask_for_more_evidence():
    """One-sided 1 % quantiles, and Nadeau and Bengio's half more for five folds."""
    assert errors_needed(1, 5) == pytest.approx(1.5 * 2.3263, abs=1e-3)
    assert errors_needed(5, 5) == pytest.approx(1.5 * 2.8782, abs=1e-3)
    assert errors_needed(1, 2) == pytest.approx(np.sqrt(3) * 2.3263, abs=1e-3)


def test_fits_that_are_flagged_are_left_out_with_a_word_unless_asked_for():
    preds = Predictions.of(*by_risk(60))
    kept, left_out = candidates_for(preds)
    assert {*kept, *(row.candidate for row in left_out)} == set(DEFAULT_CANDIDATES)
    assert [row.candidate for row in left_out] == ["signal-linear", "class-linear", "srts-bce"]
    assert all(row.verdict == "left out" and row.note.startswith("left out: ") for row in left_out)
    named, left = candidates_for(preds, ["none", "srts-bce"])
    assert (list(named), left) == (["none", "srts-bce"], [])


def test_a_temperature_at_its_bound_is_left_out():
    z, y = simulate(200, 4, seed=1)
    preds = Predictions.of(z * 1e-3, y)
    kept, left_out = candidates_for(preds)
    assert "tva-ts" not in kept
    assert "at a bound" in next(row.note for row in left_out if row.candidate == "tva-ts")


def test_a_split_without_errors_keeps_the_default_and_says_why():
    z, _ = simulate(80, 4)
    found = sc.select(z, z.argmax(axis=1), n_repeats=1)
    assert found.choice == "smallcal"
    assert found.reason.startswith("use smallcal, the default: fewer than two predictions")


def test_aliases_and_repeated_names_are_one_candidate():
    true = next(iter(candidates_for(ANY, ["default"])[0]))
    assert list(candidates_for(ANY, ["none", "default", true, "none"])[0]) == ["none", true]
    assert sc.methods()["default"] == f"the same as {true}"


def test_candidates_that_differ_in_any_option_are_two():
    given = ["srts-bce", ("srts-bce", {"C": 0.5}), ("srts-bce", {"C": 1.0, "n_groups": 3})]
    given += [("srts-bce", {"bounds": [0.1, 10]}), ("smart-bce", {"epochs": 5, "random_state": 2})]
    tried, _ = candidates_for(ANY, given, random_state=9)
    labels = ["srts-bce", "srts-bce[C=0.5]", "srts-bce[bounds=0.1+10]"]
    assert list(tried) == [*labels, "smart-bce[epochs=5,random_state=2]"]
    assert [entry.method.discipline.seed for entry in tried.values()] == [9, 9, 9, 2]
    assert tried["srts-bce[C=0.5]"].method.discipline.C == 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"candidates": []}, "candidates names none"),
        ({"candidates": "none"}, "must be a list of names"),
        ({"candidates": ["luck"]}, "unknown method 'luck'"),
        ({"candidates": [3]}, "a candidate must be a method's name or"),
        ({"candidates": [("srts-bce", {"colour": 3})]}, "colour"),
        ({"candidates": ["oracle-risk"]}, "reads the labels"),
        ({"rule": "luck"}, "rule must be one of sample, repeat, fold, holdout"),
        ({"loss": "luck"}, "unknown metric 'luck'"),
        ({"loss": "accuracy", "rule": "fold"}, "better lower"),
        ({"loss": "ece15"}, "a mean over samples"),
        ({"n_folds": 1}, "n_folds must be a whole number of at least 2"),
        ({"n_repeats": 0}, "n_repeats must be a whole number of at least 1"),
        ({"n_repeats": 2.5}, "n_repeats must be a whole number"),
        ({"n_repeats": 1, "rule": "repeat"}, "needs n_repeats of at least 2"),
        ({"level": 1.0}, "level must lie between 0 and 1"),
        ({"random_state": None}, "random_state must be a whole number from 0 to 4294967295"),
        ({"loss": "hcfp90", "rule": "fold", "candidates": ["none"]}, "is undefined in 5 of"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    z, y = simulate(50, 4)
    if options.get("loss") == "hcfp90":
        y, options = z.argmax(axis=1), {**options, "n_repeats": 1}
    with pytest.raises(sc.InputError, match=message):
        sc.select(z, y, **options)


# Nasty splits: sensible words, no NaN, no traceback.


def wrong_at(z, rows):
    y = z.argmax(axis=1)
    y[rows] = (y[rows] + 1) % z.shape[1]
    return y


Z = simulate(250, 5)[0]
NASTY = {
    "no errors": (Z, wrong_at(Z, []), "no prediction of 250 is wrong"),
    "one error": (Z, wrong_at(Z, [7]), "only one prediction of 250 is wrong"),
    "all errors": (Z, wrong_at(Z, slice(None)), "no prediction of 250 is right"),
    "three errors": (Z, wrong_at(Z, [1, 2, 3]), ""),
    "20 samples": (*simulate(20, 5), "smallcal, the default"),
    "10 samples": (*simulate(10, 5), "smallcal, the default"),
    "two classes": (*simulate(250, 2), ""),
    "1,000 classes": (*simulate(250, 1000), ""),
    "a class missing": (Z, np.where(Z.argmax(axis=1) == 4, 0, Z.argmax(axis=1)), ""),
    "huge logits": (1e6 * Z, wrong_at(Z, slice(40)), ""),
    "equal rows": (np.tile([2.0, 0.0, 0.0], (60, 1)), np.arange(60) % 3, ""),
    "float16": (Z.astype(np.float16), wrong_at(Z, slice(60)), ""),
}


@pytest.mark.parametrize("name", NASTY)
@pytest.mark.parametrize("rule", ["sample", "holdout"])
def test_nasty_splits_get_sensible_words(name, rule):
    z, y, words = NASTY[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = sc.select(z, y, rule=rule, n_repeats=2, candidates=None if len(z) < 100 else QUICK)
    assert found.reason.endswith(".")
    assert found.reason.count(". ") == 0
    assert "nan" not in found.reason
    if rule == "sample":
        assert words in found.reason
    if "prediction of" in words:
        assert found.choice == "none"
        assert found.reason.startswith("not enough evidence: keep the uncalibrated model")
    judged = [row for row in found.table if row.verdict not in ("failed", "left out")]
    assert np.isfinite([row.loss for row in judged]).all()
    json.dumps(found.to_dict(), allow_nan=False)
    assert found.estimator().get_params()["input"] == "logits"


def test_few_errors_mean_fewer_folds():
    assert sc.select(Z, wrong_at(Z, [1, 2, 3]), candidates=["none"]).n_folds == 3
    assert sc.select(Z, wrong_at(Z, [1]), candidates=["none"]).n_folds == 5
    assert sc.select(Z, wrong_at(Z, range(9)), candidates=["none"]).n_folds == 5


@pytest.mark.parametrize(
    ("z", "y", "message"),
    [
        (np.ones((100, 4)), np.arange(100) % 4, "constant in every row"),
        (np.full((100, 4), 0.25), np.arange(100) % 4, "look like probabilities"),
        (Z[:4], np.arange(4), "fitting needs at least 5"),
    ],
)
def test_what_no_calibrator_could_use_is_refused(z, y, message):
    with pytest.raises(sc.InputError, match=message):
        sc.select(z, y)


# The result.


def test_the_choice_can_be_fitted():
    z, y = by_risk(600)
    found = sc.select(z, y, candidates=["none", ("srts-bce", {"n_groups": 2})], random_state=7)
    assert found.choice == "srts-bce[n_groups=2]"
    cal = found.estimator().fit(z, y)
    assert (cal.method_, cal.random_state) == (found.choice, 7)
    assert len(cal.temperatures_) == 2


def test_probabilities_are_as_good_as_their_logarithms():
    z, y = simulate(300, 5)
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    by_p = sc.select(p, y, candidates=QUICK, n_repeats=2, input="probabilities")
    by_log = sc.select(np.log(p), y, candidates=QUICK, n_repeats=2)
    assert [row.loss for row in by_p.table] == [row.loss for row in by_log.table]
    assert by_p.estimator().input == "probabilities"


def test_the_same_bits_twice_and_no_global_random_state():
    z, y = by_risk(200)
    before = np.random.get_state()[1].tolist()  # noqa: NPY002 - what must not be touched
    first = sc.select(z, y, candidates=QUICK, n_repeats=2)
    assert first.to_dict() == sc.select(z, y, candidates=QUICK, n_repeats=2).to_dict()
    assert first.to_dict() != sc.select(z, y, candidates=QUICK, random_state=1).to_dict()
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


def test_progress_counts_every_fit():
    z, y = simulate(60, 4)
    done = []
    sc.select(z, y, candidates=QUICK, n_repeats=2, n_folds=3, advance=done.append)
    assert sum(done) == 3 * 2 * 3


def test_the_largest_seed_works():
    z, y = simulate(60, 4)
    assert sc.select(z, y, candidates=["none", "tva-ts"], random_state=2**32 - 1).n_repeats == 5


def test_a_choice_that_costs_likelihood_says_so():
    z, y = by_risk(2000)
    top = z.argmax(axis=1)
    rng = np.random.default_rng(0)
    # Which of the other classes is true has nothing to do with the logits: sharpening costs NLL.
    y = np.where(y == top, y, (top + rng.integers(1, 6, size=len(y))) % 6)
    found = sc.select(z, y, candidates=["ts-nll", "tva-ts"], n_repeats=2)
    nll = found.table[1].nll_interval
    assert (found.choice, nll.high < 0) == ("tva-ts", True)
    size = METRICS["nll"].unit.size(nll.point)
    assert found.reason.endswith(f"; but it raises the held-out log-loss by {size}.")


def test_reasons_in_words():
    z, y = by_risk(800)
    found = sc.select(z, y, candidates=["none", "srts-bce", "tva-ts"], n_repeats=2)
    taken, row, unit = found.reason, found.table[1], METRICS["top_label_bce"].unit
    gain, error = unit.size(row.gain), unit.size(row.standard_error)
    assert taken.startswith(f"srts-bce lowers the held-out top-label log-loss by {gain}")
    assert f"compared with the uncalibrated model, more than one standard error ({error})" in taken
    assert taken.endswith("no more complex candidate adds as much again.")
    kept = sc.select(*calibrated(300, seed=3), candidates=["none", "tva-ts"], n_repeats=2).reason
    lead = "not enough evidence: keep the uncalibrated model, for the best of the others"
    assert kept.startswith(lead)
    alone = sc.select(z, y, candidates=["tva-ts"], n_repeats=1)
    assert alone.reason == "keep tva-ts: there was no other candidate that could be tried."
    hold = sc.select(z, y, candidates=["none", "tva-ts"], rule="holdout", loss="ece15").reason
    assert "on the fifth that was held out" in hold
    assert "%" in hold
