"""Prediction sets: coverage by simulation and in closed form, a peer, and input that goes wrong."""

from __future__ import annotations

import json
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import smallcal as sc
from smallcal.advice.prediction_sets import coverage_of, quantile, rows_needed
from smallcal.data.special import softmax
from support import real
from support.cases import fit
from support.refused import refused
from support.simulated import simulate

FIT_Z, FIT_Y = simulate(500, 6)
Z, Y = simulate(400, 6, seed=1)
NEW, ANSWERS = simulate(6000, 6, seed=2)
CAL = fit("tva-ts", FIT_Z, FIT_Y)


def covered(sets, labels):
    return sets[np.arange(len(labels)), labels]


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60), st.integers(1, 99))
def test_the_quantile_is_the_smallest_that_enough_scores_reach(values, percent):
    """Counted by hand, in whole numbers: at least (n + 1) (1 - alpha) of n scores."""
    needed = (len(values) + 1) * Fraction(100 - percent, 100)
    expected = next((v for v in sorted(values) if sum(s <= v for s in values) >= needed), None)
    assert quantile(np.array(values, dtype=float), percent / 100) == expected


@pytest.mark.parametrize("alpha", [0.5, 0.2, 0.1, 0.05, 0.01, 0.3])
def test_as_many_rows_are_needed_as_make_the_first_quantile(alpha):
    n = rows_needed(alpha)
    assert quantile(np.arange(float(n)), alpha) is not None
    assert n == 1 or quantile(np.arange(n - 1.0), alpha) is None


@pytest.mark.parametrize("n", [9, 50, 199])
def test_the_band_is_that_of_a_beta(n):
    """The coverage of n draws is the place of one of their order statistics among all."""
    rng, found = np.random.default_rng(n), coverage_of(n, 0.1)
    rank = math.ceil((n + 1) * 0.9)
    drawn = np.sort(rng.random((20_000, n)), axis=1)[:, rank - 1]
    assert found.expected == pytest.approx(drawn.mean(), abs=0.003)
    assert (drawn < found.low).mean() == pytest.approx(0.025, abs=0.005)
    assert (drawn > found.high).mean() == pytest.approx(0.025, abs=0.005)
    exact = stats.beta(rank, n + 1 - rank)
    assert (found.low, found.high) == pytest.approx(exact.ppf([0.025, 0.975]))


@pytest.mark.parametrize("score", ["lac", "aps", "raps"])
def test_sets_cover_new_rows_as_promised(score):
    """Over many draws of 60 rows: on average at least 1 - alpha, and within 1 / (n + 1) of it."""
    rng = np.random.default_rng(0)
    hits, excess = [], []
    for _ in range(150):
        rows, new = rng.choice(len(NEW), size=(2, 60))
        sets = sc.prediction_sets(CAL, NEW[rows], ANSWERS[rows], alpha=0.2, score=score, empty=True)
        hits.append(covered(sets.predict(NEW[new]), ANSWERS[new]).mean())
        excess.append(sets.coverage.expected)
    mean, error = np.mean(hits), np.std(hits) / math.sqrt(len(hits))
    assert 0.8 - 3 * error < mean < excess[0] + 3 * error


def test_each_class_is_covered_where_that_is_asked_for():
    plain = sc.prediction_sets(CAL, NEW[:3000], ANSWERS[:3000])
    mondrian = sc.prediction_sets(CAL, NEW[:3000], ANSWERS[:3000], per_class=True)
    sets, labels = mondrian.predict(NEW[3000:]), ANSWERS[3000:]
    assert len(mondrian.classes) == 6
    for code, each in enumerate(mondrian.classes):
        of = labels == code
        error = math.sqrt(0.09 / of.sum())
        assert each.low - 3 * error < covered(sets[of], labels[of]).mean() < each.high + 3 * error
        assert each.n == (ANSWERS[:3000] == code).sum()
    assert mondrian.coverage.low < 0.9 < mondrian.coverage.high
    assert mondrian.coverage.n == plain.coverage.n == 3000


def test_the_band_of_all_classes_is_that_of_their_mixture():
    found = sc.prediction_sets(CAL, Z, Y, per_class=True, alpha=0.2)
    rng = np.random.default_rng(0)
    share = np.array([each.n for each in found.classes]) / len(Y)
    ranks = [math.ceil((each.n + 1) * 0.8) for each in found.classes]
    drawn = np.array(
        [rng.beta(k, each.n + 1 - k, 40_000) for k, each in zip(ranks, found.classes, strict=True)]
    )
    low, high = np.quantile(share @ drawn, [0.025, 0.975])
    assert (found.coverage.low, found.coverage.high) == pytest.approx((low, high), abs=0.002)


@pytest.mark.parametrize("score", ["lac", "aps", "raps"])
def test_quantiles_are_those_of_a_plain_loop(score):
    found = sc.prediction_sets(CAL, Z, Y, alpha=0.15, score=score, penalty=0.05, k_reg=2)
    p = CAL.predict_proba(Z)
    scores = []
    for row, label in zip(p, Y, strict=True):
        order = sorted(range(6), key=lambda j, row=row: -row[j])
        rank = order.index(label) + 1
        total = sum(row[j] for j in order[: rank - 1]) if score != "lac" else 1 - row[label]
        scores.append(total + (0.05 * max(0, rank - 2) if score == "raps" else 0))
    expected = sorted(scores)[math.ceil(401 * 0.85) - 1]
    assert found.rule.quantiles[0] == pytest.approx(expected, abs=1e-12)


def test_sets_are_those_of_mapie():
    """Its other scores draw random numbers."""
    classification = pytest.importorskip("mapie.classification")

    class Model:
        """Calibrated probabilities as an estimator."""

        classes_ = np.arange(6)

        def fit(self, X, y):
            return self

        def predict_proba(self, X):
            return CAL.predict_proba(X)

        def predict(self, X):
            return CAL.predict(X)

        def __sklearn_is_fitted__(self):
            return True

    peer = classification.SplitConformalClassifier(
        Model(), confidence_level=0.9, conformity_score="lac", prefit=True
    )
    _, found = peer.conformalize(Z, Y).predict_set(NEW[:500])
    ours = sc.prediction_sets(CAL, Z, Y, alpha=0.1, empty=True)
    np.testing.assert_array_equal(ours.predict(NEW[:500]), found[:, :, 0])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize("score", ["lac", "aps", "raps"])
def test_sets_are_those_of_torchcp(score, per_class, monkeypatch):
    torch, peers = pytest.importorskip("torch"), pytest.importorskip("torchcp.classification")
    # It takes a random part of each class's own probability from the sum; here all of it.
    monkeypatch.setattr(torch, "rand", lambda *shape, **options: torch.ones(*shape))
    kind = peers.score.LAC() if score == "lac" else peers.score.APS(randomized=True)
    if score == "raps":
        kind = peers.score.RAPS(randomized=True, penalty=0.05, kreg=2)
    made = (
        peers.predictor.ClassConditionalPredictor if per_class else peers.predictor.SplitPredictor
    )
    peer = made(kind, alpha=0.1, device="cpu")
    logs = [torch.tensor(np.log(CAL.predict_proba(rows))) for rows in (Z, NEW[:500])]
    peer.calculate_threshold(logs[0], torch.tensor(Y), 0.1)
    options = {"score": score, "per_class": per_class, "penalty": 0.05, "k_reg": 2}
    ours = sc.prediction_sets(CAL, Z, Y, empty=True, **options).predict(NEW[:500])
    np.testing.assert_array_equal(ours, peer.predict_with_logits(logs[1]).numpy().astype(bool))


def test_scores_get_sets_of_outcomes():
    rng = np.random.default_rng(0)
    marks = rng.integers(0, 11, size=3000) / 10
    passed = (rng.random(3000) < 0.1 + 0.8 * marks).astype(int)
    cal = sc.Calibrator(input="score").fit(marks[:500], passed[:500])
    found = sc.prediction_sets(cal, marks[500:900], passed[500:900], alpha=0.2)
    sets = found.predict(marks[900:])
    assert sets.shape == (2100, 2)
    assert covered(sets, passed[900:]).mean() > found.coverage.low - 0.03
    assert "contains the outcome with a probability" in found.rule.promise
    assert "outcomes on average" in found.sentences[2]
    assert found.calibrator.predict_set([0.0, 0.5, 1.0]).tolist() == sets_at(sets, marks[900:])


def sets_at(sets, marks):
    return [sets[np.argmax(marks == value)].tolist() for value in (0.0, 0.5, 1.0)]


def test_too_few_rows_give_all_classes_and_say_so():
    with pytest.warns(sc.FitWarning, match="all classes: alpha 10 % needs 9 rows, and there are 8"):
        found = sc.prediction_sets(CAL, Z[:8], Y[:8])
    assert found.predict(NEW).all()
    assert found.coverage.expected == 1
    assert found.mean_size == 6
    assert "needs 9 rows" in found.sentences[-1]
    rows = np.r_[np.flatnonzero(Y != 3)[:200], np.flatnonzero(Y == 3)[:5]]
    with pytest.warns(sc.FitWarning, match=r"1 class is in every set \(3\)"):
        found = sc.prediction_sets(CAL, Z[rows], Y[rows], per_class=True)
    assert found.predict(NEW)[:, 3].all()
    assert not found.predict(NEW)[:, 2].all()


def test_empty_sets_hold_the_likeliest_class_unless_asked():
    bare = sc.prediction_sets(CAL, Z, Y, alpha=0.6, empty=True)
    full = sc.prediction_sets(CAL, Z, Y, alpha=0.6)
    sizes = bare.predict(NEW).sum(axis=1)
    assert (sizes == 0).any()
    sets = full.predict(NEW)
    assert (sets[sizes == 0].sum(axis=1) == 1).all()
    assert full.filled == (bare.predict(Z).sum(axis=1) == 0).mean() > 0
    assert bare.filled == 0
    assert "would be empty" in full.sentences[-1]
    top = CAL.predict_proba(NEW).argmax(axis=1)
    assert covered(sets[sizes == 0], top[sizes == 0]).all()


def test_sets_for_another_alpha_are_added_and_for_the_same_replaced(tmp_path):
    one = sc.prediction_sets(CAL, Z, Y).calibrator
    two = sc.prediction_sets(one, Z, Y, alpha=0.05).calibrator
    three = sc.prediction_sets(two, Z, Y, score="aps").calibrator
    assert [each.alpha for each in two.decisions] == [0.1, 0.05]
    assert [(each.alpha, each.score) for each in three.decisions] == [(0.05, "lac"), (0.1, "aps")]
    three.save(tmp_path / "cal.json")
    again = sc.load(tmp_path / "cal.json")
    np.testing.assert_array_equal(
        again.predict_set(NEW, alpha=0.1), three.predict_set(NEW, alpha=0.1)
    )
    np.testing.assert_array_equal(again.predict_proba(NEW), CAL.predict_proba(NEW))


def test_a_result_can_be_read_and_written():
    found = sc.prediction_sets(CAL, Z, Y, per_class=True, alpha=0.2)
    document = json.loads(json.dumps(found.to_dict()))
    assert document["rule"]["alpha"] == 0.2
    assert document["coverage"]["n"] == 400
    assert len(document["classes"]) == 6
    assert "80 %" in found.sentences[0]


def test_single_and_double_precision_agree():
    single = sc.prediction_sets(CAL, Z.astype(np.float32), Y)
    double = sc.prediction_sets(CAL, Z.astype(np.float32).astype(np.float64), Y)
    assert single.rule.quantiles == double.rule.quantiles
    few = NEW.astype(np.float32)
    np.testing.assert_array_equal(single.predict(few), single.predict(few.astype(np.float64)))


def test_the_rows_of_the_fit_are_refused():
    with refused("rows-of-the-fit"):
        sc.prediction_sets(CAL, FIT_Z, FIT_Y)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"alpha": 0}, "alpha must lie between 0 and 1"),
        ({"alpha": 1.0}, "alpha must lie between 0 and 1"),
        ({"alpha": float("nan")}, "alpha must lie between 0 and 1"),
        ({"alpha": "10%"}, "alpha must lie between 0 and 1"),
        ({"score": "apps"}, "did you mean 'aps'"),
        ({"penalty": -1}, "penalty must be"),
        ({"k_reg": 1.5}, "k_reg"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(options, match):
    with pytest.raises(sc.InputError, match=match) as caught:
        sc.prediction_sets(CAL, Z, Y, **options)
    assert "\n" not in str(caught.value)


def test_rows_of_another_shape_are_refused():
    with refused("columns-differ", "6"):
        sc.prediction_sets(CAL, Z[:, :5], np.minimum(Y, 4))
    with refused("option-type"):
        sc.prediction_sets("cal.json", Z, Y)
    oracle = fit("oracle-risk", FIT_Z, FIT_Y)
    with refused("method-unsuitable"):
        sc.prediction_sets(oracle, Z, Y)


def test_groups_are_asked_for_where_the_fit_had_them():
    rng = np.random.default_rng(0)
    group = np.where(rng.random(500) < 0.5, "a", "b")
    z = FIT_Z * np.where(group == "a", 1.0, 4.0)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        cal = sc.Calibrator().fit(z, FIT_Y, groups=group)
    assert cal.fitted_.groups.sigma > 0
    with refused("groups-missing"):
        sc.prediction_sets(cal, Z, Y)
    named = np.where(np.arange(400) % 2, "a", "b")
    found = sc.prediction_sets(cal, Z, Y, groups=named)
    inside = found.predict(Z, groups=named)
    assert inside.sum(axis=1).mean() == pytest.approx(found.mean_size)
    assert covered(inside, Y).mean() >= 0.9


@pytest.mark.parametrize("name", real.there("cifar10__akamaster-resnet20", "cities158__mlp-ls"))
def test_real_logits_are_covered(name):
    cell = real.cell(name)
    z, y = cell["val_logits"], cell["val_labels"]
    half = len(y) // 2
    cal = fit("default", z[:half], y[:half])
    for score in ("lac", "aps", "raps"):
        found = sc.prediction_sets(cal, z[half:], y[half:], score=score)
        hit = covered(found.predict(cell["test_logits"]), cell["test_labels"]).mean()
        assert found.coverage.low - 0.02 < hit


def test_probabilities_are_taken_as_well():
    p, q = softmax(FIT_Z), softmax(Z)
    cal = sc.Calibrator(method="tva-ts", input="probabilities").fit(p, FIT_Y)
    found = sc.prediction_sets(cal, q, Y)
    expected = sc.prediction_sets(CAL, Z, Y)
    assert found.rule.quantiles[0] == pytest.approx(expected.rule.quantiles[0], abs=1e-6)


def test_the_rows_of_a_refresh_are_refused():
    refreshed = sc.refresh(CAL, 1.5 * Z, Y).calibrator
    with refused("rows-of-the-fit"):
        sc.prediction_sets(refreshed, 1.5 * Z, Y)
    found = sc.prediction_sets(refreshed, 1.5 * NEW[:500], ANSWERS[:500])
    assert covered(found.predict(1.5 * NEW[500:]), ANSWERS[500:]).mean() > found.coverage.low - 0.02
    again = sc.refresh(found.calibrator, 1.5 * NEW[500:900], ANSWERS[500:900]).calibrator
    assert again.decisions == ()  # a promise does not survive a change
