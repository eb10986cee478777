"""Calibrators of one number per row: what comes out, and what they make of odd splits."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smallcal as sc
from smallcal.runtime import load
from support.refused import refused
from support.scored import KINDS, OF_SCORES, drawn, exportable, new_scores, scored_once

every = pytest.mark.parametrize("name", OF_SCORES)
both = pytest.mark.parametrize("kind", KINDS)


def fit(scores, outcome, **options):
    """Fit, and return with it what was warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cal = sc.Calibrator(input="score", **options).fit(scores, outcome)
    return cal, [str(one.message) for one in caught]


@both
@every
def test_two_columns_and_one(name, kind):
    cal, scores = scored_once(name, kind), new_scores(kind)
    p, proba = cal.predict_score(scores), cal.predict_proba(scores)
    assert (p.shape, proba.shape) == ((len(scores),), (len(scores), 2))
    assert np.allclose(proba.sum(axis=1), 1)
    assert np.allclose(p, proba[:, 1], rtol=0, atol=1e-12)
    assert ((p >= 0) & (p <= 1)).all()
    assert np.array_equal(cal.predict_score(scores[:, None]), p)
    short = scores.astype(np.float32)
    assert np.array_equal(cal.predict_score(short), cal.predict_score(short.astype(np.float64)))


@both
@every
def test_a_saved_calibrator_says_the_same(name, kind, tmp_path):
    cal, scores = scored_once(exportable(name), kind), new_scores(kind)
    cal.save(tmp_path / "cal.json")
    loaded = load(tmp_path / "cal.json")
    assert loaded.score == cal.fitted_.score
    assert np.array_equal(loaded.predict_score(scores), cal.predict_score(scores))


@every
def test_more_scores_than_are_calibrated_at_once(name):
    cal, scores = scored_once(name), drawn(40_000, seed=3)[0]
    p = cal.predict_score(scores)
    assert np.allclose(p[[0, 16_384, -1]], cal.predict_score(scores[[0, 16_384, -1]]), atol=1e-15)
    assert np.allclose(p, cal.predict_proba(scores)[:, 1], rtol=0, atol=1e-12)
    bad = scores.copy()
    bad[20_000] = np.nan
    with refused("not-finite", "row 20000", "40000"):
        cal.predict_score(bad)


def test_a_probability_out_of_range_is_named_by_row():
    p = drawn(40_000, kind="probability", seed=3)[0]
    p[30_000] = 50
    with refused("scores-range", "row 30000", "50"):
        scored_once("none", "probability").predict_score(p)


def test_applying_scores_needs_numpy_only(tmp_path):
    """In a process of its own, so that nothing imported by the tests can help."""
    for kind in KINDS:
        scored_once("spline", kind).save(tmp_path / f"{kind}.json")
    program = """
import sys
from smallcal.runtime import load
for file in sys.argv[1:]:
    print(load(file).predict_score([0.2, 0.9]).sum())
print(*(name for name in ("scipy", "sklearn", "torch", "pandas") if name in sys.modules))
"""
    files = [str(tmp_path / f"{kind}.json") for kind in KINDS]
    done = subprocess.run(
        [sys.executable, "-c", program, *files], capture_output=True, text=True, check=True
    )
    *found, others = done.stdout.split("\n")[:-1]
    expected = [scored_once("spline", kind).predict_score([0.2, 0.9]).sum() for kind in KINDS]
    assert np.allclose([float(text) for text in found], expected)
    assert not others


def test_calibrators_of_logits_have_no_score():
    cal = sc.Identity().fit([[2.0, 0.0]] * 10, [0] * 10)
    with refused("array-shape"):
        cal.predict_score([1.0])


def test_percent_is_fitted_and_said():
    p, outcome = drawn(200, kind="probability")
    cal, said = fit(100 * p, outcome)
    assert any("divide them by 100" in text for text in said)
    assert "score_percent" in cal.flags_


def test_all_scores_equal_give_the_rate():
    outcome = np.arange(100) % 4 == 0
    for value in (3.0, 0.3):
        cal, said = fit(np.full(100, value), outcome)
        assert cal.predict_score([value])[0] == pytest.approx(0.25, abs=0.03)
        assert any("all scores are equal" in text for text in said)


@pytest.mark.parametrize("outcome", [0, 1])
def test_one_outcome_alone_is_no_certainty(outcome):
    scores, _ = drawn(100)
    cal, said = fit(scores, np.full(100, outcome))
    p = cal.predict_score(scores)
    assert ((p > 1e-4) & (p < 1 - 1e-4)).all()
    assert (abs(p - outcome) < 0.1).all()
    assert any("one of the two outcomes" in text for text in said)


def test_four_labels_are_too_few():
    with refused("too-few-samples", "4", "5"):
        fit(*(part[:4] for part in drawn(20)))
    cal, _ = fit(*(part[:5] for part in drawn(20)))
    assert np.isfinite(cal.predict_score([-1e9, 1e9])).all()


def test_some_infinite_scores_are_fitted_and_said():
    scores, outcome = drawn(200)
    scores[:5], outcome[:5] = np.inf, 1
    cal, said = fit(scores, outcome)
    assert any("infinite scores" in text for text in said)
    assert cal.predict_score([np.inf])[0] >= cal.predict_score([scores[5:].max()])[0]


@pytest.mark.parametrize(
    ("scores", "outcomes", "message"),
    [
        ([np.nan] * 20, [0, 1] * 10, "must not be NaN"),
        (["good"] * 20, [0, 1] * 10, "must be numbers"),
        ([0, 1] * 10, list(range(20)), "seem to be swapped"),
        ([[0.1, 0.9]] * 20, [0, 1] * 10, "Two columns are two classes"),
        ([], [], "no rows"),
        ([np.inf] * 20, [0, 1] * 10, "all infinite"),
        ([1, 2] * 10, [1, 2] * 10, "must be 0 or 1"),
    ],
)
def test_bad_input_gets_one_clear_line(scores, outcomes, message):
    with pytest.raises(sc.InputError, match=message) as caught:
        fit(scores, outcomes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["none", "ts-nll", "matrix-scaling", "spline"])
@settings(max_examples=15, deadline=None)
@given(unit=st.floats(0.01, 100), shift=st.floats(-1000, 1000))
def test_shift_and_unit_of_numbers_do_not_matter(name, unit, shift):
    scores, outcome = drawn(60)
    plain, _ = fit(scores, outcome, method=name)
    moved = unit * scores + shift
    if ((moved >= 0) & (moved <= 1)).all():
        return
    other, _ = fit(moved, outcome, method=name)
    assert np.allclose(other.predict_score(moved), plain.predict_score(scores), atol=1e-5)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(KINDS))
def test_a_fit_in_single_precision_agrees(seed, kind):
    scores, outcome = drawn(80, kind=kind, seed=seed)
    short = scores.astype(np.float32)
    first, _ = fit(short, outcome)
    second, _ = fit(short.astype(np.float64), outcome)
    assert np.array_equal(first.predict_score(short), second.predict_score(short))


def test_an_interval_does_not_leave_effects_of_groups_out_in_silence():
    rng = np.random.default_rng(0)
    score, group = rng.random(600), np.arange(600) % 2
    hit = rng.random(600) < np.where(group, 0.9, 0.2)
    cal = sc.Calibrator(method="venn-abers", input="score").fit(score, hit, groups=group)
    with refused("method-unsuitable"):
        cal.predict_interval(score)
