"""Costs: what is refused, decisions by enumeration, thresholds by theory, curves by plain loops."""

import json
import time
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smallcal as sc
from smallcal.advice.cost_curve import cost_curves
from smallcal.advice.cost_table import REVIEW
from smallcal.advice.cost_words import costs_of
from smallcal.advice.expected_cost import expected_cost_of
from smallcal.data.plain import plain
from smallcal.metrics import Scored
from support.refused import refused


def drawn(n=400, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(classes, 0.5), size=n)
    y = (p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return y, p


def by_hand(p, table):
    """The decision of least expected cost of one row, each cost added up by itself."""
    rows = [*table.answers.tolist(), *([] if table.review is None else [table.review.tolist()])]
    expected = [sum(c * q for c, q in zip(row, p, strict=True)) for row in rows]
    return expected, min(expected)


# --- decisions ------------------------------------------------------------------------------


@given(
    seed=st.integers(0, 10_000),
    classes=st.integers(2, 5),
    review=st.booleans(),
    whole=st.booleans(),
)
def test_decisions_are_those_that_enumeration_finds(seed, classes, review, whole):
    rng = np.random.default_rng(seed)
    matrix = rng.uniform(0, 10, size=(classes + review, classes))
    matrix = matrix.round() if whole else matrix  # whole numbers make ties
    if (matrix[:classes] == matrix[0]).all():
        matrix[0, 0] += 1
    costs = sc.Costs(matrix)
    p = rng.dirichlet(np.full(classes, 0.4), size=20)
    decisions, promised = costs.decide(p), costs.expected(p)
    table = costs.table(classes)
    for row, decision, cost in zip(p, decisions, promised, strict=True):
        expected, least = by_hand(row, table)
        assert expected[decision] == pytest.approx(least, abs=1e-9)
        assert cost == pytest.approx(least, abs=1e-9)
        assert decision != REVIEW or min(expected[:-1]) > least  # an answer comes first


@given(seed=st.integers(0, 10_000), classes=st.integers(2, 6))
def test_equal_costs_take_the_quick_path_to_the_same_decisions(seed, classes):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(classes, 0.5), size=50)
    wrong, review = rng.uniform(1, 100), rng.uniform(0, 40)
    quick = sc.Costs(wrong=wrong, review=review).table(classes)
    assert quick.wrong == wrong
    slow = np.where(np.eye(classes, dtype=bool), 0.0, wrong)
    matrix = np.vstack([slow, np.full(classes, review)])
    expected = p @ matrix.T
    assert quick.choose(p)[1] == pytest.approx(expected.min(axis=1))
    same = quick.choose(p)[0] % (classes + 1) == expected.argmin(axis=1)
    near = np.sort(expected, axis=1)
    assert (same | (near[:, 1] - near[:, 0] < 1e-9)).all()


@given(st.floats(0.001, 1000), st.floats(0.001, 1000), st.floats(0, 1))
def test_the_threshold_of_two_classes_is_the_one_of_theory(miss, alarm, p):
    costs = sc.Costs(miss=miss, false_alarm=alarm)
    threshold = costs.table(2).threshold
    assert threshold == pytest.approx(alarm / (alarm + miss))
    if abs(p - threshold) > 1e-9:
        assert costs.decide([p])[0] == (p > threshold)
        assert costs.decide([[1 - p, p]])[0] == (p > threshold)


@given(st.integers(1, 99), st.integers(1, 100), st.integers(2, 9))
def test_rows_are_answered_from_the_threshold_on_and_at_it(review, wrong, classes):
    costs = sc.Costs(wrong=wrong, review=review)
    threshold = costs.table(classes).threshold
    assert threshold == max(0, 1 - review / wrong)
    if not 1 / classes < threshold < 1:
        return
    for confidence, answered in ((threshold, True), (threshold - 1e-6, False)):
        rest = (1 - confidence) / (classes - 1)
        row = [confidence, *[rest] * (classes - 1)]
        if max(row) == confidence:
            assert (costs.decide([row])[0] == 0) == answered


def test_ties_go_to_the_first_class_to_outcome_1_and_to_an_answer():
    assert sc.Costs(wrong=1).decide([[0.4, 0.4, 0.2]]).tolist() == [0]
    assert sc.Costs(miss=4, false_alarm=1).decide([0.2]).tolist() == [1]
    assert sc.Costs(miss=4, false_alarm=1).decide([[0.8, 0.2]]).tolist() == [0]
    # 0.95 is the threshold, though 100 times 0.05 is 5.000000000000004 in floating point.
    assert sc.Costs(wrong=100, review=5).decide([0.95, 0.05]).tolist() == [1, 0]
    # The same numbers in another order are the same tie.
    rows = [[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]]
    assert sc.Costs(wrong=10, review=6).decide(rows).tolist() == [3, 0]


def test_a_float32_matrix_is_decided_in_float64():
    _, p = drawn(500, 4)
    costs = sc.Costs(wrong=3, review=1)
    assert costs.expected(p.astype(np.float32)).dtype == np.float64
    assert (costs.decide(p.astype(np.float32)) == costs.decide(p)).mean() > 0.99


def test_no_other_decisions_promise_less():
    """Every assignment of decisions to three rows, and the best is the one that is made."""
    p = np.random.default_rng(3).dirichlet([1, 1, 1], size=3)
    costs = sc.Costs([[0, 5, 9], [2, 0, 4], [7, 1, 0], [1.5, 1.5, 1.5]])
    table = costs.table(3)
    rows = np.vstack([table.answers, table.review])
    least = min(
        sum(rows[d] @ q for d, q in zip(several, p, strict=True))
        for several in product(range(4), repeat=3)
    )
    assert costs.expected(p).sum() == pytest.approx(least)


# --- what costs are -------------------------------------------------------------------------


def test_the_mistake_that_is_not_named_costs_what_the_other_does_and_that_is_said():
    table = sc.Costs(miss=100, review=5).table(2)
    assert table.answers.tolist() == [[0, 100], [100, 0]]
    assert table.notes == ("a false alarm is not named and costs what the other mistake does, 100",)
    assert sc.Costs(false_alarm=3).table(2).answers.tolist() == [[0, 3], [3, 0]]
    assert sc.Costs(miss=100, review=5).table(4).notes == ()
    assert sc.Costs(wrong=7).table(2).notes == ()


@pytest.mark.parametrize(
    ("costs", "classes", "said"),
    [
        (sc.Costs(wrong=10, review=10), 3, True),
        (sc.Costs(wrong=10, review=20 / 3), 3, True),
        (sc.Costs(wrong=10, review=6.6), 3, False),
        (sc.Costs(miss=10, false_alarm=2, review=2), 2, True),
        (sc.Costs(miss=10, false_alarm=2, review=1.6), 2, False),
        (sc.Costs([[0, 5, 1], [1, 0, 1], [1, 1, 0], [9, 9, 9]]), 3, True),
        (sc.Costs([[0, 5, 1], [1, 0, 1], [1, 1, 0], [0.1, 9, 9]]), 3, True),
        (sc.Costs([[0, 5, 1], [1, 0, 1], [1, 1, 0], [9, 0.5, 0.2]]), 3, False),
        (sc.Costs([[0, 5, 1], [1, 0, 1], [1, 1, 0]], review=0.85), 3, False),
        (sc.Costs([[0, 5, 1], [1, 0, 1], [1, 1, 0]], review=6 / 7), 3, True),
    ],
)
def test_a_review_that_is_never_worth_it_is_said(costs, classes, said):
    table = costs.table(classes)
    assert any("nothing is passed on for review" in text for text in table.notes) == said
    p = np.random.default_rng(0).dirichlet(np.ones(classes), size=50_000)
    assert (table.choose(p)[0] == REVIEW).any() != said


def test_a_right_answer_that_costs_more_than_a_wrong_one_is_said():
    table = sc.Costs([[3, 1], [1, 0]], classes=["a", "b"]).table(2)
    assert table.notes == ("of class a the right answer costs more than a wrong one",)


def test_names_put_the_matrix_in_the_order_of_the_columns():
    costs = sc.Costs([[0, 9, 2], [1, 0, 3], [4, 5, 0], [7, 8, 9]], classes=["a", "b", "c"])
    table = costs.table(3, ["c", "a", "b"])
    assert table.answers.tolist() == [[0, 4, 5], [2, 0, 9], [3, 1, 0]]
    assert table.review.tolist() == [9, 7, 8]
    p = np.random.default_rng(0).dirichlet(np.ones(3), size=50)
    there = costs.table(3, ["a", "b", "c"])
    names = there.names(there.choose(p)[0])
    assert table.names(table.choose(p[:, [2, 0, 1]])[0]).tolist() == names.tolist()


def test_a_frame_names_rows_and_columns():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        [[5.0, 6.0], [1.0, 0.0], [0.0, 9.0]], index=["review", "b", "a"], columns=["a", "b"]
    )
    table = sc.Costs(frame).table(2)
    assert table.answers.tolist() == [[0, 9], [1, 0]]
    assert table.review.tolist() == [5, 6]
    proba = pd.DataFrame([[0.05, 0.95]], columns=["b", "a"])
    assert sc.Costs(frame.loc[["a", "b"]]).decide(proba).tolist() == [1]
    # Names that are numbers put rows in order as well; rows that are just counted stay.
    for index in (["1", "0"], [1, 0]):
        numbered = pd.DataFrame([[1.0, 0.0], [0.0, 9.0]], index=index, columns=["0", "1"])
        assert sc.Costs(numbered).table(2).answers.tolist() == [[0, 9], [1, 0]]
    counted = pd.DataFrame([[0.0, 9.0], [1.0, 0.0]], columns=["a", "b"])
    assert sc.Costs(counted).table(2, ["b", "a"]).answers.tolist() == [[0, 1], [9, 0]]
    with refused("class-names-invalid", "'b'", "'c'"):
        sc.Costs(pd.DataFrame([[0.0, 9.0], [1.0, 0.0]], index=["a", "c"], columns=["a", "b"]))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "name what a mistake costs"),
        ({"review": 5}, "name what a mistake costs"),
        ({"miss": -1}, "miss must be finite and not negative; got -1"),
        ({"miss": float("nan")}, "miss must be finite"),
        ({"wrong": float("inf")}, "wrong must be finite"),
        ({"miss": "dear"}, "miss must be a number; got 'dear'"),
        ({"wrong": 1, "miss": 2}, "wrong is any mistake"),
        ({"miss": 0, "review": 1}, "every mistake costs 0"),
        ({"classes": ["a", "b"], "miss": 1}, "pass matrix as well"),
        ({"matrix": [[0, 1]]}, "got 1 x 2"),
        ({"matrix": [[0, 1, 2], [1, 0, 2]]}, "got 2 x 3"),
        ({"matrix": [0, 1]}, r"numbers of shape \(C, C\)"),
        ({"matrix": [["a", "b"], ["c", "d"]]}, r"numbers of shape \(C, C\)"),
        ({"matrix": [[0, -2], [1, 0]]}, "row 0, column 1 is -2. For a gain"),
        ({"matrix": [[0, 1], [np.nan, 0]]}, "row 1, column 0 is nan"),
        ({"matrix": [[1, 2], [1, 2], [3, 3]]}, "every answer costs the same"),
        ({"matrix": [[0, 1], [1, 0]], "miss": 3}, "leave miss out"),
        ({"matrix": [[0, 1], [1, 0], [2, 2]], "review": 3}, "leave review out"),
        ({"matrix": [[0, 1], [1, 0]], "classes": ["a"]}, "classes must be 2 different names"),
        ({"matrix": [[0, 1], [1, 0]], "classes": ["a", "a"]}, "classes must be 2 different names"),
    ],
)
def test_costs_that_mean_nothing_are_one_clear_line(given, message):
    with pytest.raises(sc.InputError, match=message) as caught:
        sc.Costs(**given)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("costs: ")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sc.Costs(miss=1, false_alarm=2).decide([[0.5, 0.3, 0.2]]), "false_alarm is for"),
        (lambda: sc.Costs([[0, 1], [1, 0]]).decide([[0.5, 0.3, 0.2]]), "for 2 classes, and .* 3"),
        (lambda: sc.Costs(miss=1).decide([1.5]), r"do not lie in \[0, 1\]"),
        (lambda: sc.Costs(miss=1).decide([[2.0, 3.0]]), "must be probabilities"),
        (lambda: sc.Costs(miss=1).decide([]), "y_proba"),
        (
            lambda: sc.Costs([[0, 1], [1, 0]], classes=["a", "b"]).table(2, ["a", "c"]),
            "missing 'c'; unknown 'b'",
        ),
        (
            lambda: sc.Costs(wrong=2, review=1).table(2, ["review", "rest"]),
            "a class is called 'review'",
        ),
        (
            lambda: sc.expected_cost([0], [[0.9, 0.1]], "miss=1"),
            r"must be sc.Costs\(...\); got str",
        ),
        (
            lambda: sc.expected_cost([0, 1], np.eye(2), sc.Costs(miss=1), raw=np.eye(3)[:2]),
            "raw has 3 classes and y_proba 2",
        ),
    ],
)
def test_costs_that_do_not_fit_are_one_clear_line(call, message):
    with pytest.raises(sc.InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_costs_can_be_written_as_they_were_given():
    for costs in (sc.Costs(miss=3, review=1), sc.Costs([[0, 1], [2, 0]], classes=["a", "b"])):
        again = eval(repr(costs), {"Costs": sc.Costs})
        assert again.to_dict() == costs.to_dict()
        assert json.loads(json.dumps(costs.to_dict())) == plain(costs.to_dict())


@pytest.mark.parametrize(
    ("costs", "classes", "text", "rule"),
    [
        (
            sc.Costs(wrong=25000, review=5),
            9,
            "a wrong answer costs 25,000, a review 5",
            "answered where the answer has a probability of 99.980 % or more, else passed on for "
            "review",
        ),
        (
            sc.Costs(miss=10, false_alarm=1),
            2,
            "a miss (1 taken for 0) costs 10, a false alarm (0 taken for 1) 1; nothing is passed "
            "on for review",
            "decided for 1 where it has a probability of 9.1 % or more",
        ),
        (
            sc.Costs(miss=10, false_alarm=4, review=1),
            2,
            "a miss (1 taken for 0) costs 10, a false alarm (0 taken for 1) 4, a review 1",
            "decided for 1 where it has a probability of 75.0 % or more, for 0 where that is "
            "10.0 % or less, else passed on for review",
        ),
        (
            sc.Costs([[0, 1, 2], [3, 0, 4], [5, 6, 0], [1, 1, 2]]),
            3,
            "a matrix of 3 decisions and classes, a review 1 to 2",
            "answered where that is not expected to cost more than a review",
        ),
        (
            sc.Costs(wrong=1),
            3,
            "a wrong answer costs 1; nothing is passed on for review",
            "the answer of",
        ),
    ],
)
def test_costs_and_what_they_amount_to_in_words(costs, classes, text, rule):
    table = costs.table(classes)
    assert table.text == text
    assert table.rule.startswith(rule)


@given(st.floats(0.1, 50), st.floats(0.1, 50), st.floats(0.01, 30), st.floats(0, 1))
def test_the_two_thresholds_in_words_are_those_of_the_decisions(miss, alarm, review, p):
    table = sc.Costs(miss=miss, false_alarm=alarm, review=review).table(2, score=True)
    high, low = 1 - review / alarm, review / miss
    if low < high and min(abs(p - high), abs(p - low)) > 1e-9:
        decision = table.choose(np.array([[1 - p, p]]))[0][0]
        assert decision == (1 if p > high else 0 if p < low else REVIEW)


# --- what decisions cost --------------------------------------------------------------------


def test_the_mean_cost_and_its_gains_are_those_of_a_plain_loop():
    y, p = drawn(200)
    raw = np.random.default_rng(9).dirichlet([1, 1, 1], size=200)
    costs = sc.Costs([[0, 5, 9], [2, 0, 4], [7, 1, 0], [1.5, 1.5, 2]])
    found = sc.expected_cost(y, p, costs, raw=raw, n_boot=60, random_state=4)
    table = costs.table(3)
    rows = np.vstack([table.answers, table.review])

    def paid(proba, choose):
        return np.array([rows[choose(rows @ q), label] for q, label in zip(proba, y, strict=True)])

    own, other = paid(p, np.argmin), paid(raw, np.argmin)
    answered = paid(p, lambda expected: np.argmin(expected[:3]))
    assert found.cost.point == pytest.approx(own.mean())
    assert found.others["raw"].point == pytest.approx(other.mean())
    assert found.others["always_answer"].point == pytest.approx(answered.mean())
    assert found.others["always_review"].point == pytest.approx(table.review[y].mean())
    top = [rows[q.argmax(), label] for q, label in zip(p, y, strict=True)]
    assert found.others["most_probable"].point == pytest.approx(np.mean(top))
    assert found.promised == pytest.approx((p @ rows.T).min(axis=1).mean())
    rng = np.random.default_rng(4)
    again = [rng.integers(200, size=200, dtype=np.uint32) for _ in range(60)]
    gains = [(other - own)[rows].mean() for rows in again]
    assert found.gains["raw"].values == pytest.approx(np.array(gains))
    assert tuple(found.gains["raw"]) == pytest.approx(np.quantile(gains, [0.025, 0.975]))


def test_right_probabilities_keep_their_promise_and_no_rule_costs_less():
    y, p = drawn(40_000, 3, seed=1)
    costs = sc.Costs([[0, 5, 9], [2, 0, 4], [7, 1, 0], [1.5, 1.5, 2]])
    raw = p**3 / (p**3).sum(axis=1, keepdims=True)
    found = sc.expected_cost(y, p, costs, raw=raw, n_boot=200)
    assert found.cost.low < found.promised < found.cost.high
    assert all(gain.low > 0 for gain in found.gains.values())


def test_without_resamples_there_are_values_and_no_intervals():
    y, p = drawn(50)
    found = sc.expected_cost(y, p, sc.Costs(wrong=1, review=0.2), n_boot=0)
    assert found.cost.n_boot == 0
    assert np.isnan(found.cost.low)
    assert json.loads(json.dumps(found.to_dict()))["cost"]["low"] is None


def test_the_interval_of_the_gain_holds_the_truth_as_often_as_it_says():
    """A world whose true gain is a mean over 200,000 rows; 300 samples of 300 rows of it."""
    costs = sc.Costs(miss=10, false_alarm=10, review=2).table(2, score=True)

    def world(n, seed):
        rng = np.random.default_rng(seed)
        z = rng.normal(size=n)
        p = 1 / (1 + np.exp(-z))
        y = (rng.random(n) < p).astype(int)
        return Scored.of(y, p), Scored.of(y, 1 / (1 + np.exp(-3 * z)))

    truth = expected_cost_of(*world(200_000, 0), costs, bootstrap=(0, 0.9, 0)).gains["raw"].point
    held = 0
    for seed in range(1, 301):
        low, high = expected_cost_of(*world(300, seed), costs, bootstrap=(200, 0.9, 0)).gains["raw"]
        held += low <= truth <= high
    assert 0.84 <= held / 300 <= 0.95  # 90 %, give or take three standard errors of 300 samples


# --- curves ---------------------------------------------------------------------------------


def plain_curve(rows, thresholds):
    places, above, below = rows
    return [np.where(places >= t, above, below).mean() for t in thresholds]


@pytest.mark.parametrize(
    ("costs", "axis"),
    [
        (sc.Costs(miss=9, false_alarm=1), "probability"),
        (sc.Costs(miss=9, false_alarm=9, review=2), "confidence"),
        (sc.Costs(miss=9, false_alarm=4, review=2), "saving"),
        (sc.Costs([[0, 9], [1, 0], [0.3, 2]]), "saving"),
    ],
)
def test_a_curve_is_a_plain_loop_over_thresholds_and_its_best_is_the_decisions(costs, axis):
    y, p = drawn(300, 2, seed=2)
    table, view = costs.table(2), Scored.of(y, p)
    (curve,) = cost_curves({"it": view}, table, bootstrap=(40, 0.95, 1)).values()
    assert curve.axis == axis
    answer, expected = table.answer(p)
    if axis == "probability":
        rows = p[:, 1], table.answers[1][y], table.answers[0][y]
    else:
        places = p[np.arange(300), answer]
        places = places if axis == "confidence" else p @ table.review - expected
        rows = places, table.answers[answer, y], table.review[y]
    assert curve.cost == pytest.approx(plain_curve(rows, curve.threshold))
    assert (np.diff(curve.threshold) > 0).all()
    # What the costs say is best is what the decisions cost: one rule, told twice.
    assert curve.best_cost == pytest.approx(sc.expected_cost(y, p, costs, n_boot=0).cost.point)
    assert curve.best == table.threshold
    assert curve.observed_cost == curve.cost.min() <= curve.best_cost
    assert curve.share == pytest.approx([(rows[0] >= t).mean() for t in curve.threshold])
    rng = np.random.default_rng(1)
    several = [rng.integers(300, size=300, dtype=np.uint32) for _ in range(40)]
    drawn_costs = [plain_curve([part[i] for part in rows], curve.threshold) for i in several]
    low, high = np.quantile(drawn_costs, [0.025, 0.975], axis=0)
    assert curve.low == pytest.approx(low)
    assert curve.high == pytest.approx(high)
    best = int(np.flatnonzero(curve.threshold == curve.best)[0])
    paired = np.array(drawn_costs) - np.array(drawn_costs)[:, [best]]
    assert curve.excess_low == pytest.approx(np.quantile(paired, 0.025, axis=0))
    assert curve.excess[best] == curve.excess_low[best] == curve.excess_high[best] == 0


def test_of_right_probabilities_the_curve_is_lowest_where_the_costs_say():
    y, p = drawn(60_000, 4, seed=5)
    table = sc.Costs(wrong=10, review=3).table(4)
    (curve,) = cost_curves({"it": Scored.of(y, p)}, table, bootstrap=(40, 0.95, 0)).values()
    assert curve.best == 0.7
    assert abs(curve.observed - 0.7) < 0.05
    assert curve.best_cost - curve.observed_cost < 0.01


def test_the_grid_is_the_same_whatever_the_labels_are():
    y, p = drawn(100, 3)
    for costs in (sc.Costs(wrong=100, review=1), sc.Costs(np.arange(12).reshape(4, 3) % 7)):
        table = costs.table(3)
        first, second = (
            cost_curves({"it": Scored.of(labels, p)}, table, bootstrap=(5, 0.9, 0))["it"].threshold
            for labels in (y, 2 - y)
        )
        assert first.tolist() == second.tolist()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (sc.Costs(wrong=1).table(3), "name review as well"),
        (sc.Costs([[0, 0], [1, 0]]).table(2), "no threshold decides"),
    ],
)
def test_where_no_threshold_decides_there_is_no_curve(table, message):
    y, p = drawn(30, table.n_classes)
    with pytest.raises(sc.InputError, match=message):
        cost_curves({"it": Scored.of(y, p)}, table, bootstrap=(5, 0.9, 0))


# --- words and files ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("miss=100,review=5", {"miss": 100, "review": 5}),
        (" false-alarm = 1e2 ", {"false_alarm": 100}),
        ("wrong=0.5", {"wrong": 0.5}),
    ],
)
def test_costs_are_read_as_they_are_typed(text, given):
    assert costs_of(text).to_dict() == given


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mis=3", "unknown cost 'mis'; did you mean 'miss'?"),
        ("miss", "must look like miss=100,review=5"),
        ("", "must look like"),
        ("miss=3,miss=4", "names miss twice"),
        ("miss=three", "miss must be a number; got 'three'"),
        ("miss=1,000", "must look like"),
        ("costs.json", "must look like"),
        ("nowhere.csv", "cannot read nowhere.csv"),
    ],
)
def test_costs_that_are_mistyped_are_one_clear_line(text, message):
    with pytest.raises(sc.SmallcalError) as caught:
        costs_of(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_matrix_is_read_by_its_names(tmp_path):
    file = tmp_path / "m.csv"
    file.write_text("decision,cat,dog\nreview,5,5\ndog,1,0\ncat,0,9\n")
    table = costs_of(str(file)).table(2, ["cat", "dog"])
    assert table.answers.tolist() == [[0, 9], [1, 0]]
    assert table.review.tolist() == [5, 5]
    tabs = tmp_path / "m.tsv"
    tabs.write_text("\t0\t1\n0\t0\t9\n1\t1\t0\n")
    assert costs_of(str(tabs)).classes is None
    assert costs_of(str(tabs)).table(2, ["cat", "dog"]).answers.tolist() == [[0, 9], [1, 0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("decision,cat,dog\ncat,0,9\n", "1 rows and 2 columns"),
        ("decision,cat,dog\ncat,0,9\nbird,1,0\n", "missing 'dog'; unknown 'bird'"),
        ("decision,cat,dog\ncat,0,9\ndog,1,0\nlater,1,0\n", "missing 'review'; unknown 'later'"),
        ("decision,cat,dog\ncat,0,9\ncat,1,0\n", "missing 'dog'"),
        ("decision,cat,dog\ncat,0,nine\ndog,1,0\n", "line 2: column 'dog' must be a number"),
        ("decision,cat,dog\ncat,0\ndog,1,0\n", "line 2: 2 columns where the header has 3"),
        ("decision,cat,dog\ncat,0,-9\ndog,1,0\n", "row 0, column 1 is -9"),
        ("decision,cat,dog\ncat,0,nan\ndog,1,0\n", "row 0, column 1 is nan"),
        ("0,9\n1,0\n", "missing '9'; unknown '1'"),
        ("", "is empty"),
    ],
)
def test_a_matrix_that_is_none_is_one_clear_line(tmp_path, text, message):
    file = tmp_path / "m.csv"
    file.write_text(text)
    with pytest.raises(sc.SmallcalError) as caught:
        costs_of(str(file))
    assert message in str(caught.value)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_many_classes_are_decided_without_a_product_of_matrices():
    _, p = drawn(2_000, 1_000)
    began = time.process_time()
    decisions = sc.Costs(wrong=2, review=1.9).decide(p)
    assert time.process_time() - began < 5
    assert (decisions[decisions != REVIEW] == p.argmax(axis=1)[decisions != REVIEW]).all()
