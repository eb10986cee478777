"""Venn-Abers of one number: against a loop of isotonic fits, the peer package, and known truths."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression

import smallcal as sc
from smallcal.calibrators.maps.score_fit import Sample
from smallcal.calibrators.maps.venn_abers import VennAbersMap, steps_of
from smallcal.errors import InputError
from support.cases import fit
from support.refused import refused


def columns(x):
    return np.column_stack([np.zeros(len(x)), x])


def made(x, hit, weight=None):
    weight = np.ones(len(x)) if weight is None else weight
    return steps_of(Sample(np.asarray(x, dtype=float), np.asarray(hit, dtype=bool), weight))


def by_hand(x, hit, weight, at):
    """Fit isotonic regression twice for each score, with the score among the rows."""
    result = []
    for each in at:
        pair = []
        for outcome in (0.0, 1.0):
            model = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
            model.fit(np.append(x, each), np.append(hit, outcome), np.append(weight, 1.0))
            pair.append(model.predict([each])[0])
        result.append(pair)
    return np.array(result)


@given(
    st.lists(st.tuples(st.integers(-6, 6), st.booleans(), st.integers(1, 3)), min_size=1),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_both_ends_are_those_of_isotonic_fits(rows, weighted):
    x, hit, weight = np.array(rows, dtype=float).T
    weight = weight if weighted else np.ones(len(x))
    at = np.unique(np.concatenate([x, x + 0.5, x - 0.5]))
    found = made(x, hit, weight).interval(at)
    np.testing.assert_allclose(found, by_hand(x, hit, weight, at), atol=1e-12)
    assert (found[:, 0] < found[:, 1]).all()


def test_it_is_what_the_peer_package_finds():
    pytest.importorskip("venn_abers", reason="venn-abers is not installed")
    rng = np.random.default_rng(0)
    x = np.round(2 * rng.normal(size=300), 1)
    y = (rng.random(300) < expit(0.6 * x)).astype(int)
    fresh = 2 * rng.normal(size=500)
    ours = fit("venn-abers", columns(x), y).predict_proba(columns(fresh))
    theirs = fit("venn-abers:classwise", columns(x), y).predict_proba(columns(fresh))
    # The package rounds scores and looks up a neighbour where one lies between two.
    assert np.abs(ours - theirs).mean() < 2e-3
    at_rows = fit("venn-abers:classwise", columns(x), y).predict_proba(columns(x))
    np.testing.assert_allclose(
        fit("venn-abers", columns(x), y).predict_proba(columns(x)), at_rows, atol=1e-6
    )


def test_the_interval_holds_the_truth_and_narrows():
    rng = np.random.default_rng(0)
    width = []
    for n in (100, 1000, 10_000):
        x = rng.normal(size=n)
        low, high = made(x, rng.random(n) < expit(x)).interval(np.linspace(-1, 1, 50)).T
        width.append((high - low).mean())
    assert width[0] > 2 * width[1] > 4 * width[2]
    assert np.abs((low + high) / 2 - expit(np.linspace(-1, 1, 50))).max() < 0.06


def test_one_probability_lies_between_the_two():
    rng = np.random.default_rng(0)
    x = rng.normal(size=80)
    steps, at = made(x, rng.random(80) < expit(x)), np.linspace(-4, 4, 99)
    low, high = steps.interval(at).T
    p = steps.probability(at)
    assert ((low <= p) & (p <= high)).all()
    assert (np.diff(p) >= 0).all()
    np.testing.assert_allclose(p, high / (1 - low + high))


def test_a_falling_relation_is_turned_round():
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    y = (rng.random(200) < expit(2 * x)).astype(int)
    falls, rises = fit("venn-abers", columns(-x), y), fit("venn-abers", columns(x), y)
    assert "falling" in falls.flags_
    assert "falling" not in rises.flags_
    np.testing.assert_allclose(
        falls.predict_proba(columns(-x)), rises.predict_proba(columns(x)), atol=1e-12
    )
    np.testing.assert_array_equal(falls.fitted_.map.interval(-x), rises.fitted_.map.interval(x))


@pytest.mark.parametrize("outcome", [0, 1])
def test_one_outcome_alone_is_flagged_and_never_certain(outcome):
    x = np.arange(12.0)
    cal = fit("venn-abers", columns(x), np.full(12, outcome))
    assert "one_outcome" in cal.flags_
    p = cal.predict_proba(columns(np.linspace(-5, 20, 50)))
    assert ((p > 0) & (p < 1)).all()
    # At the end where all are pooled, a new row is one of thirteen.
    surest = cal.predict_proba(columns(x))[-outcome, 1 - outcome]
    assert surest == pytest.approx(1 / 14)


def test_equal_scores_get_the_base_rate_and_are_flagged():
    cal = fit("venn-abers", columns(np.full(19, 2.0)), [1] * 9 + [0] * 10)
    assert "constant_score" in cal.flags_
    np.testing.assert_allclose(cal.fitted_.map.interval(np.full(1, 2.0)), [[9 / 20, 10 / 20]])


def test_a_score_has_its_interval_too():
    rng = np.random.default_rng(0)
    score = rng.random(100)
    cal = sc.Calibrator(method="venn-abers", input="score").fit(score, rng.random(100) < score)
    low, high = cal.predict_interval(score).T
    p = cal.predict_score(score)
    assert ((low <= p) & (p <= high)).all()
    with refused("method-unsuitable"):
        sc.Calibrator(input="score").fit(score, score > 0.5).predict_interval(score)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (((), (), (), (0.5,)), "need -1 edges"),
        (((0.0,), (0.1, 0.2), (), (0.1, 0.2)), "2 steps need 1 edges"),
        (((1.0, 0.0), (0.1, 0.2, 0.3), (), (0.5,)), "ascending"),
        (((0.0,), (0.3, 0.2), (), (0.5,)), "never fall"),
        (((0.0,), (0.3, 1.2), (), (0.5,)), "between 0 and 1"),
    ],
)
def test_damaged_steps_are_refused(parts, message):
    with pytest.raises(InputError, match=message):
        VennAbersMap(*parts)
