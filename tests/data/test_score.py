"""One number per row: what it is taken for, as two columns, and what is refused."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logit

from smallcal.data.predictions import Predictions
from smallcal.data.score import LARGEST, NEAREST, ScoreScale, as_one_number, as_outcomes
from smallcal.errors import InputError
from support.refused import refused

S = np.random.default_rng(0).normal(size=20)
Y = (np.arange(20) % 3 == 0).astype(int)

finite = st.floats(-1e6, 1e6, allow_nan=False)
numbers = st.lists(st.floats(allow_nan=False, width=32), min_size=1, max_size=30)


def of(scores, outcomes=Y, **more):
    return Predictions.of(scores, outcomes, input="score", **more)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (None, "scores is None"),
        (
            np.where(np.arange(20) == 3, np.nan, S),
            "must not be NaN; found NaN in row 3 of 20; drop",
        ),
        (S[:0], r"scores has no rows \(shape \(0,\)\)"),
        (np.column_stack([S, S]), r"got \(20, 2\)\. Two columns are two classes: give the second"),
        (
            np.column_stack([S, S, S]),
            r"one number per row, shape \(n,\) or \(n, 1\); got \(20, 3\)",
        ),
        (S.reshape(2, 10, 1), r"got \(2, 10, 1\)"),
        (S[0], r"got \(\)"),
        (S.astype(str), "must be numbers; got type <U"),
        (["high"] * 20, "must be numbers; got type <U4"),
        ([None] * 20, "must be numbers; got type object"),
        (S.astype(complex), "must be numbers; got type complex128"),
        (np.full(20, np.inf), "are all infinite; at least some must be numbers"),
        (np.where(Y, np.inf, -np.inf), "are all infinite"),
        (S * 1e300, r"at most 1e\+100 in size, or infinite; got"),
    ],
)
def test_bad_scores_get_one_clear_line(scores, message):
    with pytest.raises(InputError, match=message) as caught:
        of(scores)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("scores", "outcomes", "message"),
    [
        (S, Y + 1, r"must be 0 or 1; rows 0, 3, 6, 9, 12 and 2 more are not \(row 0 is 2\)"),
        (S, 2 * Y - 1, r"row 1 is -1"),
        (S, Y / 2, r"row 0 is 0\.5"),
        (S, np.where(Y, np.nan, 0), "row 0 is nan"),
        (Y, S, "two arguments seem to be swapped"),
        (Y.astype(bool), S, "two arguments seem to be swapped"),
        (Y, np.arange(20) % 10 + 1, "two arguments seem to be swapped"),
        (S, Y[:-1], "one entry per row: 20 rows, 19 outcomes"),
        (S, np.where(Y, "yes", "no"), r"are words \(the first is 'yes'\); pass 0 and 1, or name"),
        (S, np.where(Y, "yes", "no").astype(object), r"are words \(the first is 'yes'\)"),
        (S, [], "one entry per row: 20 rows, 0 outcomes"),
    ],
)
def test_bad_outcomes_get_one_clear_line(scores, outcomes, message):
    with pytest.raises(InputError, match=message) as caught:
        of(scores, outcomes)
    assert "\n" not in str(caught.value)


def test_outcomes_come_as_they_are():
    for outcomes in (Y, Y.astype(bool), Y.astype(float), Y.tolist(), Y[:, None]):
        assert np.array_equal(as_outcomes(outcomes, n=20), Y)
    named = of(S, np.where(Y, "yes", "no"), class_names=("no", "yes"))
    assert np.array_equal(named.labels, Y)


def test_scores_come_as_they_are():
    for scores in (S, S[:, None], S.tolist(), S.astype(np.longdouble)):
        assert np.allclose(of(scores).logits[:, 1], (S - S.mean()) / S.std())
    for kind in (np.float16, np.float32, np.int64):
        assert of(S.astype(kind)).logits.dtype == np.float64
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"mark": S})
    assert np.array_equal(of(frame).logits, of(frame["mark"]).logits)


def test_what_scores_are_taken_for_is_said():
    assert ScoreScale.of([0.0, 0.4, 1.0]).flags([0.4]) == {"score_as_probability": []}
    assert ScoreScale.of([True, False]).kind == "probability"
    marks = ScoreScale.of(np.arange(1, 11))
    assert list(marks.flags(np.arange(1, 11))) == ["score_as_number"]
    percent = np.array([3.0, 50.0, 99.0])
    assert "score_percent" in ScoreScale.of(percent).flags(percent)
    for other in ([-1.0, 50.0], [0.0, 20.0], [50.0, 101.0]):
        assert "score_percent" not in ScoreScale.of(other).flags(np.array(other))
    odd = np.array([0.5, np.inf])
    assert "score_infinite" in ScoreScale.of(odd).flags(odd)


def test_probabilities_go_through_their_log_odds():
    p = np.array([0.0, 1e-9, 0.2, 0.5, 1 - 1e-9, 1.0])
    x = ScoreScale.of(p).columns(p)[:, 1]
    assert x[2] == pytest.approx(logit(0.2))
    assert x[0] == x[1] == pytest.approx(logit(NEAREST))
    assert x[-1] == x[-2] == pytest.approx(-x[0], rel=1e-9)


def test_what_is_no_probability_is_refused_where_those_were():
    scale = ScoreScale.of([0.2, 0.9])
    with refused("scores-range", "row 1", "50"):
        scale.columns([0.5, 50.0])
    with refused("scores-range", "row 0"):
        scale.columns([np.inf])


def test_infinities_lie_one_deviation_beyond():
    scale = ScoreScale.of([1.0, 2.0, 3.0, np.inf, -np.inf])
    x = scale.columns([-np.inf, 1.0, 3.0, np.inf])[:, 1]
    assert np.allclose(np.diff(x)[[0, 2]], 1)
    assert scale.columns([99.0])[0, 1] == x[-1]


@pytest.mark.parametrize("value", [3.0, 1e8 + 0.1, -7.3, 0.1])
def test_equal_scores_have_a_scale(value):
    scale = ScoreScale.of(np.full(7, value))
    x = 0 if scale.kind == "number" else logit(value)
    assert np.allclose(scale.columns([value])[0], [0, x], atol=1e-7)
    assert scale.scale == 1


@pytest.mark.parametrize(
    "numbers",
    [
        {"scale": 0.0},
        {"scale": -1.0},
        {"mean": np.nan},
        {"low": 2.0, "high": 1.0},
        {"high": np.inf},
    ],
)
def test_a_scale_that_cannot_be_is_refused(numbers):
    with pytest.raises(InputError, match="positive scale"):
        ScoreScale("number", **numbers)
    with pytest.raises(InputError, match="probability or a number"):
        ScoreScale("percent")


@settings(max_examples=200, deadline=None)
@given(numbers)
def test_columns_are_finite_and_ascend(scores):
    scores = np.array(scores)
    if not np.isfinite(scores).any():
        with refused("not-finite"):
            ScoreScale.of(scores)
        return
    scale = ScoreScale.of(scores)
    columns = scale.columns(scores)
    assert columns.shape == (len(scores), 2)
    assert np.isfinite(columns).all()
    assert not columns[:, 0].any()
    order = np.argsort(scores)
    assert (np.diff(columns[order, 1]) >= 0).all()


@settings(max_examples=100, deadline=None)
@given(numbers.filter(lambda found: np.isfinite(found).any()))
def test_a_scale_is_the_same_read_back(scores):
    scale = ScoreScale.of(np.array(scores))
    assert ScoreScale.from_dict(json.loads(json.dumps(scale.to_dict()))) == scale


@settings(max_examples=100, deadline=None)
@given(st.lists(finite, min_size=2, max_size=30), st.floats(0.01, 100), st.floats(-100, 100))
def test_shift_and_unit_do_not_matter(scores, unit, shift):
    scores = np.array(scores)
    other = unit * scores + shift
    first, second = ScoreScale.of(scores), ScoreScale.of(other)
    # Where the shift swamps what differs, digits are lost before they come here.
    if first.kind == second.kind == "number" and scores.std() > 1e-6 * (1 + abs(shift)):
        assert np.allclose(first.columns(scores), second.columns(other), atol=1e-6)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=2, max_size=30))
def test_single_precision_agrees_with_double(scores):
    short = np.array(scores, dtype=np.float32)
    scale = ScoreScale.of(short)
    assert scale == ScoreScale.of(short.astype(np.float64))
    assert np.array_equal(scale.columns(short), scale.columns(short.astype(np.float64)))


def test_the_largest_that_are_taken():
    scale = ScoreScale.of([LARGEST, -LARGEST, 0.0])
    assert np.isfinite(scale.columns([1e308, -1e308])).all()
    assert as_one_number([1e308]).tolist() == [1e308]


def test_a_probability_that_was_rounded_is_one():
    scale = ScoreScale.of([0.2, 1 + 1e-7, -1e-7])
    assert scale.kind == "probability"
    assert scale.columns([1 + 1e-7])[0, 1] == scale.columns([1.0])[0, 1]
    assert ScoreScale.of([0.2, 1.01]).kind == "number"
