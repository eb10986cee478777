"""A refresh: counts that add up, three numbers from them, and what it gives."""

from __future__ import annotations

import functools
import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import smallcal as sc
import smallcal.deploy.refresh.posterior as by_slope
from smallcal.calibrators.class_frequencies import ClassFrequencies
from smallcal.calibrators.confidence_shift import ConfidenceShift
from smallcal.calibrators.decision import Threshold
from smallcal.calibrators.evidence import EXPONENTS, UNIT, Evidence, tails
from smallcal.calibrators.fitted import load
from smallcal.calibrators.group_effects import claims_of
from smallcal.calibrators.later import with_later, without_last
from smallcal.calibrators.objectives import sigmoid, softplus
from smallcal.deploy.refresh.posterior import Known, distance, information, posterior
from smallcal.deploy.refresh.refresh import knowledge
from smallcal.deploy.refresh.tail import tail_of
from smallcal.errors import GroupWarning, InputError
from support import real
from support.cases import features_of
from support.refused import refused
from support.scored import drawn
from support.simulated import simulate

METHODS = ("default", "ts-nll", "srts-bce", "vector-scaling", "features-logits-k3")


@functools.cache
def calibrator(method="default", n=400, n_classes=5):
    z, y = simulate(n, n_classes, seed=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        return sc.make(method).fit(z, y, features=features_of(z)).fitted_


@functools.cache
def of_scores():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        return sc.Calibrator(input="score").fit(*drawn(300)).fitted_


def refresh(fitted, z, y, **more):
    extra = {"features": features_of(z)} if fitted.signal.n_features else {}
    return sc.refresh(fitted, z, y, **extra, **more)


def probabilities(fitted, z):
    extra = {"features": features_of(z)} if fitted.signal.n_features else {}
    return fitted.predict_proba(z, **extra)


def row_by_row(fitted, z, y, order):
    for i in order:
        fitted = refresh(fitted, z[i : i + 1], y[i : i + 1]).calibrator
    return fitted


def log_loss(p, y):
    return float(-np.log(p[np.arange(len(y)), y]).mean())


def numbers(fitted):
    last = fitted.later[-1]
    return last.slope, last.bias, last.tail


# Counts


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(-40, 40), st.booleans(), st.integers(0, 3)), min_size=1, max_size=30
    ),
    st.randoms(),
)
def test_counts_add_up_in_any_order(rows, random):
    def counted(part):
        odds, holds, bins = (np.array(each) for each in zip(*part, strict=True))
        return Evidence.of(odds, holds, np.bincount(bins, minlength=4))

    parts = [[row] for row in rows]
    random.shuffle(parts)
    whole = counted(rows)
    assert sum((counted(part) for part in parts), Evidence()) == whole
    assert (whole.rows, whole.held) == (len(rows), sum(row[1] for row in rows))
    odds, right, wrong = whole.arrays()
    kept = np.clip([row[0] for row in rows], -30, 30).sum()
    assert odds @ (right + wrong) == pytest.approx(kept, abs=1e-5)


def test_losses_of_other_classes_are_those_of_a_plain_loop():
    p = probabilities(calibrator(), simulate(50, 5, seed=7)[0])
    y, top = np.arange(50) % 5, p.argmax(axis=1)
    losses, spread = tails(p, y, top)
    expected, told = np.zeros(len(EXPONENTS)), 0.0
    for row, label, best in zip(p, y, top, strict=True):
        others = np.delete(row, best) / np.delete(row, best).sum()
        told += others @ np.log(others) ** 2 - (others @ np.log(others)) ** 2
        if label != best:
            own = row[label] / (1 - row[best])
            expected += [
                np.log(np.sum(others**power)) - power * np.log(own) for power in np.exp(EXPONENTS)
            ]
    np.testing.assert_allclose(losses / UNIT, expected, atol=1e-4)
    assert spread / UNIT == pytest.approx(told, abs=1e-4)
    assert tails(p[:, :2], y % 2, top % 2) is None


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"odds": (1, 1)}, "must ascend"),
        ({"odds": (1, 5000)}, "must ascend"),
        ({"right": (UNIT,)}, "needs a count"),
        ({"wrong": (-UNIT, UNIT)}, "whole rows"),
        ({"wrong": (1, 0)}, "whole rows"),
        ({"bins": (1, 1)}, "2 rows in bins, but 3 rows"),
        ({"tail": (1, 2)}, "31 losses"),
    ],
)
def test_counts_that_cannot_be(changed, said):
    given = {"odds": (1, 2), "right": (UNIT, UNIT), "wrong": (0, UNIT), **changed}
    with pytest.raises(InputError, match=said):
        Evidence(**given)


# Slope and bias


def claims(n, slope=1.0, bias=0.0, seed=0):
    rng = np.random.default_rng(seed)
    odds = rng.normal(1.5, 1.5, n)
    return odds, rng.random(n) < sigmoid(slope * odds + bias)


def test_modes_are_those_of_a_plain_optimiser():
    odds, holds = claims(300, 0.6, 0.3)
    prior = np.array([[20.0, 5.0], [5.0, 30.0]])

    def loss(at):
        shifted = odds + at[0] * odds + at[1]
        return softplus(np.where(holds, -shifted, shifted)).sum() + at @ prior @ at / 2

    found = by_slope._modes(by_slope._Rows.of(Evidence.of(odds, holds)), prior[None])[0]
    best = minimize(loss, np.zeros(2), tol=1e-12).x
    np.testing.assert_allclose(found, best, atol=1e-3)


def test_a_row_left_out_is_judged_as_if_fitted_anew():
    odds, holds = claims(40, 0.3, -0.5, seed=2)
    odds = (odds * 32).round() / 32  # on the grid: counts of one row can be taken away
    known = Known(information(50, 0.75, 0.6))
    found = posterior(Evidence.of(odds, holds), known)
    lost = 0.0
    for i in range(40):
        rest = np.arange(40) != i
        other = posterior(Evidence.of(odds[rest], holds[rest]), known)
        shifted = other.slope * odds[i] + other.bias
        lost += float(softplus(-shifted if holds[i] else shifted))
    assert found.after == pytest.approx(lost / 40, abs=2e-3)
    assert found.before == pytest.approx(softplus(np.where(holds, -odds, odds)).mean(), abs=1e-4)


def test_an_interval_holds_the_truth():
    """Old splits of 300 rows, 300 new ones of another slope and bias."""
    inside = []
    for seed in range(60):
        odds, holds = claims(300, 0.7, -0.3, seed)
        found = posterior(Evidence.of(odds, holds), Known(information(50, 0.75, 0.62)))
        low, high = found.slope_interval
        inside.append(low <= 0.7 <= high and found.bias_interval[0] <= -0.3)
    assert np.mean(inside) > 0.85


@pytest.mark.parametrize("all_are", [True, False])
def test_all_right_and_all_wrong_stay_finite(all_are):
    odds = np.linspace(-3, 6, 50)
    found = posterior(Evidence.of(odds, np.full(50, all_are)), Known(information(500, 0.8, 0.7)))
    assert 0.05 <= found.slope <= 3
    assert (found.bias > 0) == all_are


def test_what_a_split_knew_is_summed_up_from_two_numbers():
    for n_classes, method in ((5, "default"), (3, "ts-nll"), (2, "ts-nll")):
        z, y = simulate(600, n_classes, seed=5)
        fitted = sc.make(method).fit(z, y).fitted_
        odds, _ = claims_of(fitted.predict_proba(z), y, claim=None)
        p = sigmoid(odds)
        exact = np.sum(p * (1 - p) * np.array([odds**2, np.ones(600)]), axis=1)
        np.testing.assert_allclose(np.diag(knowledge(fitted).information), exact, rtol=0.3)


def test_of_a_score_it_is_outcome_1_that_is_claimed():
    x, y = drawn(300)
    fitted = of_scores()
    odds, _ = claims_of(fitted.predict_proba(x), y, claim=1)
    p = sigmoid(odds)
    found = knowledge(fitted)
    exact = np.array([p @ ((1 - p) * odds), np.sum(p * (1 - p))])
    np.testing.assert_allclose(found.information[1], exact, rtol=0.3)
    assert found.wrong == pytest.approx(np.sum(1 - p), rel=0.01)


def test_a_file_without_counts_knows_less_and_is_served():
    z, y = simulate(300, 5, seed=8)
    bare = replace(calibrator(), reference=None)
    found = sc.refresh(bare, 2 * z, y)
    assert found.applied
    assert found.drift_p_value is None
    assert "is unknown" in str(found)
    near = knowledge(bare).information / knowledge(calibrator()).information
    np.testing.assert_allclose(np.diag(near), 1.0, rtol=0.5)


def test_the_further_confidences_moved_the_less_the_old_fit_counts():
    odds, holds = claims(60, 0.5)
    before = np.full(10, 40.0)
    calm, moved = (
        posterior(Evidence.of(odds, holds, bins), Known(information(400, 0.75, 0.62), before)).slope
        for bins in (np.full(10, 6), np.array([0] * 9 + [60]))
    )
    assert moved < calm < 1
    assert distance(np.full(10, 6.0), before) == 0


def test_the_power_of_other_classes_is_found():
    z, y = simulate(4000, 6, seed=9)
    p = calibrator(n_classes=6).predict_proba(z)
    top = p.argmax(axis=1)
    shares = np.array([np.delete(row, best) for row, best in zip(p, top, strict=True)]) ** 0.5
    shares /= shares.sum(axis=1, keepdims=True)
    drawn_others = (shares.cumsum(axis=1) > np.random.default_rng(0).random((4000, 1))).argmax(1)
    y = np.where(y == top, y, drawn_others + (drawn_others >= top))
    odds, holds = claims_of(p, y, claim=None)
    evidence = Evidence.of(odds, holds, None, tails(p, y, top))
    scales = by_slope.SCALES, np.zeros(len(by_slope.SCALES))
    found = tail_of(evidence, 50.0, scales)
    assert found.interval[0] < 0.5 < found.interval[1]
    assert found.interval[0] < found.power < found.interval[1]
    assert found.interval[1] - found.interval[0] < 0.2
    assert found.better
    assert found.rows == int((y != top).sum())


# The calibrator


@pytest.mark.parametrize("method", METHODS)
def test_row_by_row_in_any_order_is_all_at_once(method):
    fitted = calibrator(method)
    z, y = simulate(40, 5, seed=4)
    z = 2.5 * z
    whole = refresh(fitted, z, y).calibrator
    order = np.random.default_rng(0).permutation(40)
    parts = row_by_row(fitted, z, y, order)
    halves = refresh(refresh(fitted, z[:15], y[:15]).calibrator, z[15:], y[15:]).calibrator
    for other in (parts, halves):
        np.testing.assert_allclose(numbers(other), numbers(whole), atol=1e-9)
        np.testing.assert_allclose(probabilities(other, z), probabilities(whole, z), atol=1e-9)
        assert len(other.later) == 1
    assert numbers(whole) != (1.0, 0.0, 1.0)


@settings(max_examples=10, deadline=None)
@given(st.permutations(range(12)), st.floats(0.2, 4.0))
def test_row_by_row_of_scores(order, factor):
    fitted = of_scores()
    x, y = drawn(12, seed=5)
    x = 10 + factor * (x - 10)
    whole = sc.refresh(fitted, x, y).calibrator
    parts = row_by_row(fitted, x, y, order)
    np.testing.assert_allclose(numbers(parts), numbers(whole), atol=1e-9)
    np.testing.assert_allclose(parts.predict_score(x), whole.predict_score(x), atol=1e-9)


def test_a_model_that_became_surer_is_held_back():
    z, y = simulate(2400, 5, seed=6)
    z = 2 * z
    fitted = calibrator("ts-nll")
    found = sc.refresh(fitted, z[:400], y[:400])
    assert found.applied
    assert found.slope < 0.8
    before, after = (log_loss(each.predict_proba(z[400:]), y[400:]) for each in
                     (fitted, found.calibrator))  # fmt: skip
    alone = log_loss(sc.TemperatureScaling().fit(z[:400], y[:400]).predict_proba(z[400:]), y[400:])
    assert after < before - 0.05
    assert after < alone + 0.01
    (change,) = found.temperatures
    assert change.after / change.before == pytest.approx(2, rel=0.15)
    assert found.confidence.after == pytest.approx(found.accuracy, abs=0.03)
    assert found.levels[2].after < 0.9


def test_an_unmoved_model_hardly_changes():
    fitted = calibrator()
    old, new = [], []
    for seed in range(10, 40):
        z, y = simulate(100, 5, seed=seed)
        test = simulate(1000, 5, seed=seed + 100)
        after = sc.refresh(fitted, z, y).calibrator
        old.append(log_loss(fitted.predict_proba(test[0]), test[1]))
        new.append(log_loss(after.predict_proba(test[0]), test[1]))
    assert np.mean(new) < np.mean(old) + 0.002
    assert np.max(np.subtract(new, old)) < 0.03


def test_near_the_joint_fit_and_better_than_new_rows_alone():
    old, refreshed, alone, joint = [], [], [], []
    for seed in range(12):
        z, y = simulate(2000, 5, seed=seed)
        a, b, test = slice(0, 150), slice(150, 190), slice(190, None)
        fitted = sc.TemperatureScaling().fit(z[a], y[a])
        after = sc.refresh(fitted, z[b], y[b]).calibrator
        others = (
            (old, fitted),
            (refreshed, after),
            (alone, sc.TemperatureScaling().fit(z[b], y[b])),
            (joint, sc.TemperatureScaling().fit(z[:190], y[:190])),
        )
        for kept, each in others:
            kept.append(log_loss(each.predict_proba(z[test]), y[test]))
    assert np.mean(refreshed) < np.mean(alone)
    assert abs(np.mean(refreshed) - np.mean(joint)) < 0.004


@pytest.mark.parametrize(
    "name", real.there("cifar10__akamaster-resnet20", "banking77__tfidf-mlp-seed0")
)
def test_real_models_that_did_and_did_not_move(name):
    data = real.cell(name)
    z, y = data["val_logits"], data["val_labels"]
    test, truth = data["test_logits"], data["test_labels"]
    order = np.random.default_rng(0).permutation(len(y))
    a, b = order[: len(y) // 2], order[len(y) // 2 :][:200]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        fitted = sc.Calibrator().fit(z[a], y[a]).fitted_
    for factor, most in ((1.0, 0.005), (3.0, -0.005)):
        after = sc.refresh(fitted, factor * z[b], y[b]).calibrator
        before, now = (log_loss(each.predict_proba(factor * test), truth)
                       for each in (fitted, after))  # fmt: skip
        assert now - before < most


def test_one_row_is_kept_and_changes_nothing_yet():
    z, y = simulate(1, 5, seed=4)
    found = sc.refresh(calibrator(), z, y)
    assert not found.applied
    np.testing.assert_array_equal(found.calibrator.predict_proba(z), calibrator().predict_proba(z))
    assert found.calibrator.later[-1].evidence.rows == 1
    assert "One row is too little to judge by" in str(found)


def test_predictions_never_change_and_rows_sum_to_one():
    z, y = simulate(300, 5, seed=6)
    fitted = calibrator("ts-nll")
    after = sc.refresh(fitted, 3 * z, (y + 1) % 5).calibrator  # nearly all wrong
    assert after.preserves_argmax
    for dtype in (np.float32, np.float64):
        p = after.predict_proba(z.astype(dtype))
        np.testing.assert_array_equal(p.argmax(axis=1), z.argmax(axis=1))
        np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(
        after.predict_proba(z.astype(np.float32)), after.predict_proba(z), atol=1e-5
    )


def test_rows_in_float32_teach_the_same():
    z, y = simulate(300, 5, seed=6)
    narrow, wide = (sc.refresh(calibrator(), (2 * z).astype(dtype), y).calibrator
                    for dtype in (np.float32, np.float64))  # fmt: skip
    np.testing.assert_allclose(numbers(narrow), numbers(wide), atol=1e-5)


def test_saved_loaded_and_refreshed_again(tmp_path):
    z, y = simulate(300, 5, seed=6)
    first = sc.refresh(calibrator(), 2 * z[:200], y[:200]).calibrator
    first.save(tmp_path / "new.json")
    again = sc.refresh(sc.load(tmp_path / "new.json"), 2 * z[200:], y[200:]).calibrator
    again.save(tmp_path / "again.json")
    whole = sc.refresh(calibrator(), 2 * z, y).calibrator
    back = load(tmp_path / "again.json")
    assert numbers(back) == numbers(whole)
    assert back.later[-1].evidence == whole.later[-1].evidence
    undone = without_last(back)
    assert json.dumps(undone.to_dict()) == json.dumps(calibrator().to_dict())


def test_an_adapted_calibrator_gets_it_on_top():
    z, y = simulate(300, 5, seed=6)
    adapted = with_later(calibrator(), ClassFrequencies((0.2,) * 5, (0.4, 0.3, 0.1, 0.1, 0.1)))
    after = sc.refresh(adapted, 2 * z, y).calibrator
    assert [part.kind for part in after.later] == ["frequencies", "shift"]
    again = sc.refresh(after, 2 * z[:5], y[:5]).calibrator
    assert [part.kind for part in again.later] == ["frequencies", "shift"]


def test_thresholds_are_set_aside_and_what_they_would_do_is_said():
    z, y = simulate(400, 5, seed=6)
    rule = Threshold(
        risk=0.05, confidence=0.95, rule="accepted", by="all", names=("",), thresholds=(0.8,),
        n=(300,), accepted=(200,), errors=(3,), bounds=(0.04,), cross=False, sha256="", promise="",
    )  # fmt: skip
    promised = replace(calibrator("ts-nll"), decisions=(rule,))
    found = sc.refresh(promised, 3 * z, y)
    assert found.calibrator.decisions == ()
    (share,) = found.accepted
    before = (promised.predict_proba(3 * z).max(axis=1) >= 0.8).mean()
    after = (found.calibrator.predict_proba(3 * z).max(axis=1) >= 0.8).mean()
    assert (share.share_before, share.share_after) == (before, after)
    assert after < before
    assert "certify again" in str(found)
    assert without_last(found.calibrator).decisions == promised.decisions


def test_groups_count_and_are_asked_for():
    z, y = simulate(400, 3, seed=2)
    groups = np.array(["a", "b"])[np.arange(400) % 2]
    y = np.where(groups == "a", z.argmax(axis=1), y)
    fitted = sc.TemperatureScaling().fit(z, y, groups=groups).fitted_
    assert fitted.groups.sigma
    z, y = simulate(200, 3, seed=3)
    found = sc.refresh(fitted, z, y, groups=groups[:200])
    assert found.rows == 200
    with refused("groups-missing"):
        sc.refresh(fitted, z, y)
    with pytest.warns(GroupWarning, match="100 of 200"):
        sc.refresh(fitted, z, y, groups=np.array(["a", "c"])[np.arange(200) % 2])


def test_rows_that_were_seen_are_refused():
    z, y = simulate(400, 5, seed=3)
    with refused("rows-of-the-fit"):
        sc.refresh(calibrator(), z, y)
    z, y = simulate(100, 5, seed=5)
    once = sc.refresh(calibrator(), z, y).calibrator
    with refused("rows-counted-twice", "100"):
        sc.refresh(once, z, y)
    few = sc.refresh(once, z[:3], y[:3]).calibrator
    assert sc.refresh(few, z[:3], y[:3]).rows_in_all == 106  # rows may well be alike


def test_as_many_rows_as_the_fit_ask_for_a_new_one():
    z, y = simulate(400, 5, seed=6)
    assert not sc.refresh(calibrator(), z[:399], y[:399]).fit_again
    found = sc.refresh(calibrator(), z, y)
    assert found.fit_again
    assert "a new fit on old and new rows" in str(found)
    assert not sc.refresh(calibrator(), 3 * z[:99], y[:99]).fit_again
    found = sc.refresh(calibrator(), 3 * z[:100], y[:100])
    assert found.fit_again
    assert "a new fit on them alone" in str(found)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda z, y: (z, None), "needs labels"),
        (lambda z, y: (z[:, :4], y % 4), "5 columns"),
        (lambda z, y: (z, y + 5), "labels"),
        (lambda z, y: (z[:5], y), "rows"),
        (lambda z, y: (z * np.nan, y), "NaN"),
        (lambda z, y: (z[:0], y[:0]), "empty|no rows|at least"),
    ],
)
def test_bad_input_is_one_line(given, said):
    z, y = simulate(50, 5, seed=6)
    with pytest.raises(InputError, match=said) as caught:
        sc.refresh(calibrator(), *given(z, y))
    assert "\n" not in str(caught.value)


def test_what_is_no_calibrator_is_refused():
    with refused("option-type"):
        sc.refresh(sc.TemperatureScaling, [[1.0, 0.0]], [0])


def test_plain_data_of_what_changed():
    z, y = simulate(200, 5, seed=6)
    found = sc.refresh(calibrator(), 2 * z, y)
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert told["slope"] == found.slope
    assert told["found"]["tail"]["power"] == found.found.tail.power
    assert told["sentences"] == list(found.sentences)
    assert "calibrator" not in told


def test_a_shift_that_cannot_be():
    for name, value in (("slope", 0.0), ("bias", np.nan), ("tail", 9.0)):
        with pytest.raises(InputError, match=name):
            ConfidenceShift(**{"slope": 1.0, "bias": 0.0, name: value})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"slope": 0.0}, "slope"),
        ({"tail": 7.0}, "tail"),
        ({"odds": [5, 5]}, "."),
        ({"wrong": [1]}, "."),
        ({"tail_losses": [1, 2, 3]}, "31 losses"),
        ({"bins": [3]}, "rows in bins"),
        ({"spread": 1}, "spread"),
    ],
)
def test_damaged_files(tmp_path, changed, said):
    z, y = simulate(60, 5, seed=6)
    document = json.loads(json.dumps(sc.refresh(calibrator(), 2 * z, y).calibrator.to_dict()))
    document["later"][0].update(changed)
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(document))
    with pytest.raises(sc.ArtefactError, match=said):
        load(path)


def test_counts_of_other_bins_are_one_line():
    z, y = simulate(60, 5, seed=6)
    after = sc.refresh(calibrator(), 2 * z, y).calibrator
    odd = replace(after, later=(replace(after.later[0], bins=(60,)),))
    with pytest.raises(InputError, match="do not add up"):
        sc.refresh(odd, z[:3], y[:3])


@pytest.mark.parametrize("keep", [False, True])
def test_the_default_is_refreshed_with_and_without_its_own_predictions(keep):
    z, y = simulate(400, 5, seed=3)
    z[:, 2] += 2
    cal = sc.Calibrator(keep_predictions=keep).fit(z, y)
    assert cal.fitted_.map.kind == "multinomial"
    new, answers = simulate(600, 5, seed=4)
    new[:, 2] += 2
    found = sc.refresh(cal, 2 * new, answers)
    assert found.applied
    (usual,) = found.temperatures
    assert usual.name == "median"
    assert usual.before > 0 < usual.after
    before, after = cal.predict_proba(2 * new), found.calibrator.predict_proba(2 * new)
    assert np.array_equal(before.argmax(axis=1), after.argmax(axis=1))
    assert log_loss(after, answers) < log_loss(before, answers)
    predicted = new.argmax(axis=1) if keep else before.argmax(axis=1)
    assert found.accuracy == (predicted == answers).mean()
    assert found.confidence.before == pytest.approx(cal.confidence(2 * new).mean())
    assert found.confidence.after == pytest.approx(found.calibrator.confidence(2 * new).mean())
