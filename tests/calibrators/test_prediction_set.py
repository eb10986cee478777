"""The rule of prediction sets: its scores by a plain loop, and what sets always are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import smallcal as sc
from smallcal import runtime
from smallcal.calibrators.prediction_set import SCORES, PredictionSet, class_scores, sets_of
from support.cases import fit
from support.refused import refused
from support.simulated import simulate

Z, Y = simulate(600, 5)
PLAIN = fit("tva-ts", Z, Y).fitted_


def rule(**changes):
    known = {
        "alpha": 0.1,
        "score": "lac",
        "quantiles": (0.6,),
        "penalty": 0.0,
        "k_reg": 0,
        "empty": False,
        "n": (200,),
        "sha256": "0" * 64,
        "promise": "",
    }
    return PredictionSet(**{**known, **changes})


def plain_scores(p, score, penalty, k_reg):
    """Class by class, as the papers write it down."""
    found = []
    for one in range(len(p)):
        ahead = [j for j in range(len(p)) if p[j] > p[one] or (p[j] == p[one] and j <= one)]
        total = 1 - p[one] if score == "lac" else sum(p[j] for j in ahead if j != one)
        found.append(total + (penalty * max(0, len(ahead) - k_reg) if score == "raps" else 0))
    return found


probabilities = arrays(np.float64, (4, 5), elements=st.floats(0.01, 1.0)).map(
    lambda p: p / p.sum(axis=1, keepdims=True)
)


@given(probabilities, st.sampled_from(SCORES), st.floats(0, 1), st.integers(0, 5))
def test_scores_are_those_of_a_plain_loop(p, score, penalty, k_reg):
    expected = [plain_scores(row, score, penalty, k_reg) for row in p.tolist()]
    found = class_scores(p, score, penalty=penalty, k_reg=k_reg)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@given(probabilities, st.sampled_from(SCORES), st.floats(0, 1.2), st.floats(0, 0.5))
@settings(max_examples=50)
def test_what_sets_always_are(p, score, low, more):
    small, large = (rule(score=score, quantiles=(q,)).of(p) for q in (low, low + more))
    assert small.any(axis=1).all()  # never empty
    np.testing.assert_array_equal(small & large, small)  # nested in the quantile
    top = p.argmax(axis=1)
    assert small[np.arange(len(p)), top].all()  # the likeliest class is in every set
    worst = np.where(small, p, np.inf).min(axis=1)
    best = np.where(small, -np.inf, p).max(axis=1)
    assert (worst >= best).all()  # no class is left out for one that is less likely
    bare = rule(score=score, quantiles=(low,), empty=True).of(p)
    np.testing.assert_array_equal(small[bare.any(axis=1)], bare[bare.any(axis=1)])
    assert (small[~bare.any(axis=1)].sum(axis=1) == 1).all()


def test_a_quantile_for_each_class_holds_for_that_class_alone():
    p = np.array([[0.5, 0.3, 0.2]])
    sets = rule(quantiles=(0.4, 0.8, None), n=(50, 50, 3)).of(p)
    assert sets.tolist() == [[False, True, True]]
    assert rule(quantiles=(0.4, 0.8, None), n=(50, 50, 3)).n_classes == 3


def test_a_score_at_the_quantile_is_inside_also_in_single_precision():
    p = np.array([[0.7, 0.3], [0.9, 0.1]])
    at = rule(quantiles=(1 - 0.3,))
    for kind in (np.float64, np.float32):
        assert at.of(p.astype(kind)).tolist() == [[True, True], [True, False]]


def test_blocks_change_nothing():
    p = np.random.default_rng(0).dirichlet(np.ones(40_000), size=60)
    found = rule(score="aps", quantiles=(0.8,)).of(p)
    each = [rule(score="aps", quantiles=(0.8,)).of(row[None])[0] for row in p]
    np.testing.assert_array_equal(found, each)


def test_a_saved_rule_gives_the_same_sets(tmp_path):
    made = replace(PLAIN, decisions=(rule(score="raps", penalty=0.1, k_reg=2),))
    made.save(tmp_path / "cal.json")
    again = runtime.load(tmp_path / "cal.json")
    assert again.decisions == made.decisions
    np.testing.assert_array_equal(again.predict_set(Z), made.predict_set(Z))
    np.testing.assert_array_equal(
        sc.load(tmp_path / "cal.json").predict_set(Z), again.predict_set(Z)
    )
    np.testing.assert_array_equal(again.predict_proba(Z), PLAIN.predict_proba(Z))


def test_several_rules_are_told_apart_by_alpha():
    two = rule(), rule(alpha=0.005, quantiles=(0.99,))
    made = replace(PLAIN, decisions=two)
    assert list(sets_of(two)) == ["set_at_10pct", "set_at_0_5pct"]
    assert list(sets_of(two[:1])) == ["set"]
    assert made.predict_set(Z, alpha=0.005).sum() > made.predict_set(Z, alpha=0.1).sum()
    with refused("unknown-choice", "0.1", "0.005"):
        made.predict_set(Z)
    with refused("no-decision"):
        PLAIN.predict_set(Z)


def test_an_option_that_a_row_does_not_have_is_in_no_set():
    masked = Z.copy()
    masked[:300, 4] = -np.inf
    sets = replace(PLAIN, decisions=(rule(quantiles=(None,), n=(3,)),)).predict_set(masked)
    assert not sets[:300, 4].any()
    assert sets[:, :4].all()
    assert sets[300:, 4].all()


def test_rows_that_are_not_finite_are_named_by_their_place():
    made = replace(PLAIN, decisions=(rule(),))
    broken = np.tile(Z, (400, 1))
    broken[230_001, 2] = np.nan
    with refused("not-finite", "230", "001"):
        made.predict_set(broken)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"alpha": 0.0}, "between 0 and 1"),
        ({"n": (3, 4)}, "as many counts"),
        ({"penalty": -1.0}, "must not be below 0"),
        ({"quantiles": (0.5, 0.5, 0.5), "n": (9, 9, 9)}, "is for 3 classes, not 5"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(changes, match, tmp_path):
    with pytest.raises(sc.InputError, match=match):
        replace(PLAIN, decisions=(rule(**changes),)).save(tmp_path / "cal.json")
