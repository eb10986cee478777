"""Laws that every row of METRICS obeys; a new metric is tested by being in the table."""

import inspect
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smallcal.metrics
from smallcal.metrics import METRICS, Scored
from smallcal.metrics.units import X100
from smallcal.statistics.compare import evaluate
from support.refused import refused

ORDER = [
    "accuracy",
    "ece15",
    "adaece15",
    "cwece15",
    "smece",
    "smece_exact",
    "nll",
    "brier",
    "top_label_bce",
    "auroc",
    "aurc",
    "eaurc",
    "hcfp90",
    "hcfp95",
    "hcfp99",
    "selective_risk80",
    "risk_at90",
    "confidence_gap",
]

#: Metrics of a finite sample that twice the sample changes by definition: they cut it by
#: count, or (smece) add a constant to a density that grows with n.
CHANGED_BY_REPEATING = {"adaece15", "smece", "aurc", "eaurc", "selective_risk80"}


@pytest.fixture(params=METRICS, ids=str)
def metric(request):
    return METRICS[request.param]


def coarse(case):
    """Round the probabilities to tenths, which makes ties in rows and between rows."""
    y_true, y_proba = case
    tenths = np.floor(y_proba * 10)
    tenths[:, 0] += 10 - tenths.sum(axis=1)
    return y_true, tenths / 10


def same(left, right, tolerance=1e-9):
    for name in left:
        assert right[name] == pytest.approx(left[name], abs=tolerance, nan_ok=True), name


def test_the_table_is_in_display_order_and_cannot_be_changed():
    assert list(METRICS) == ORDER
    assert all(name == row.name for name, row in METRICS.items())
    with pytest.raises(TypeError, match="does not support item assignment"):
        METRICS["mine"] = METRICS["nll"]


def test_every_row_says_what_it_is(metric):
    assert metric.summary
    assert "\n" not in metric.summary
    assert metric.better in {"lower", "higher", "zero"}


def test_every_public_function_takes_labels_then_probabilities_and_shows_an_example():
    for name in smallcal.metrics.__all__:
        function = getattr(smallcal.metrics, name)
        if not inspect.isfunction(function):
            continue
        first, second, *options = inspect.signature(function).parameters.values()
        assert (first.name, second.name) == ("y_true", "y_proba")
        assert all(option.kind is option.KEYWORD_ONLY for option in options)
        assert ">>> " in function.__doc__


def test_a_metric_is_a_finite_float_on_ordinary_data(metric, softmax_case):
    value = metric.of(Scored.of(*softmax_case(400)))
    assert type(value) is float
    assert math.isfinite(value)


@pytest.mark.parametrize("name", [row.name for row in METRICS.values() if row.values])
def test_per_sample_values_average_to_the_metric(name, softmax_case):
    metric, scored = METRICS[name], Scored.of(*softmax_case(400))
    values = metric.values(scored)
    assert values.shape == (400,)
    assert values.dtype == np.float64
    assert values.mean() == pytest.approx(metric.of(scored), abs=1e-14)


def test_certain_and_right_is_the_best_value_or_undefined(metric):
    value = metric.of(Scored.of([0, 1, 2], np.eye(3)))
    if math.isnan(value):
        assert metric.undefined
    else:
        assert value == (1.0 if metric.better == "higher" else 0.0)


@pytest.mark.parametrize("n", [1, 2, 30])
@pytest.mark.parametrize("hit", [True, False])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 1.0])
def test_nan_comes_only_where_the_table_announces_it(metric, n, hit, confidence, pairs):
    value = metric.of(Scored.of(*pairs(np.full(n, confidence), np.full(n, hit))))
    assert math.isfinite(value) or metric.undefined


def test_undefined_values_are_nan_exactly_as_described(pairs):
    all_right = evaluate(*pairs([0.5, 0.6], [1, 1]))
    assert {name for name, value in all_right.items() if math.isnan(value)} == {
        "auroc",
        "hcfp90",
        "hcfp95",
        "hcfp99",
        "risk_at90",
    }
    all_wrong = evaluate(*pairs([0.99, 0.6], [0, 0]))
    assert {name for name, value in all_wrong.items() if math.isnan(value)} == {"auroc"}


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 40),
    n_classes=st.integers(2, 6),
    seed=st.integers(0, 10**6),
    ties=st.booleans(),
)
def test_the_order_of_the_samples_is_irrelevant(softmax_case, n, n_classes, seed, ties):
    y_true, y_proba = softmax_case(n, n_classes, seed=seed)
    if ties:
        y_true, y_proba = coarse((y_true, y_proba))
    # Bins of equal count cut ties in the order of the samples, as documented.
    names = [name for name in METRICS if not (ties and name == "adaece15")]
    order = np.random.default_rng(seed).permutation(n)
    same(
        evaluate(y_true, y_proba, metrics=names),
        evaluate(y_true[order], y_proba[order], metrics=names),
    )


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 40), n_classes=st.integers(2, 6), seed=st.integers(0, 10**6))
def test_the_names_of_the_classes_are_irrelevant(softmax_case, n, n_classes, seed):
    y_true, y_proba = softmax_case(n, n_classes, seed=seed)
    column = np.random.default_rng(seed).permutation(n_classes)
    same(evaluate(y_true, y_proba), evaluate(np.argsort(column)[y_true], y_proba[:, column]))


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 40), seed=st.integers(0, 10**6), ties=st.booleans())
def test_every_sample_twice_is_the_same_sample(softmax_case, n, seed, ties):
    y_true, y_proba = softmax_case(n, 4, seed=seed)
    if ties:
        y_true, y_proba = coarse((y_true, y_proba))
    names = [name for name in METRICS if name not in CHANGED_BY_REPEATING]
    twice = (np.tile(y_true, 2), np.tile(y_proba, (2, 1)))
    same(evaluate(y_true, y_proba, metrics=names), evaluate(*twice, metrics=names))


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 40),
    n_classes=st.integers(2, 6),
    seed=st.integers(0, 10**6),
    sharpness=st.sampled_from([0.0, 1.0, 5.0, 100.0]),
)
def test_values_keep_their_bounds(softmax_case, n, n_classes, seed, sharpness):
    case = softmax_case(n, n_classes, seed=seed, sharpness=sharpness)
    values = evaluate(*case)
    gap = abs(values["confidence_gap"])
    for name, value in values.items():
        if METRICS[name].better != "zero" and not math.isnan(value):
            assert value >= 0.0, name
            assert value <= 1.0 + 1e-12 or name in {"nll", "brier", "top_label_bce"}, name
    for name in ("ece15", "adaece15", "smece_exact"):
        assert values[name] >= gap - 1e-9, name
    assert values["brier"] <= 2.0
    assert max(values["nll"], values["top_label_bce"]) <= -math.log(1e-12) + 1e-9
    assert values["eaurc"] <= values["aurc"]
    assert values["aurc"] <= 1.0


def test_evaluate_keeps_the_order_of_the_names(softmax_case):
    case = softmax_case(50)
    every = evaluate(*case)
    some = evaluate(*case, metrics=("nll", "accuracy"))
    assert list(every) == ORDER
    assert list(some.items()) == [("nll", every["nll"]), ("accuracy", every["accuracy"])]
    assert evaluate(*case, metrics=[]) == {}


def test_the_options_are_those_in_the_names(softmax_case):
    case = softmax_case(2_000, 3, sharpness=4.0)
    values = evaluate(*case)
    for percent in (90, 95, 99):
        assert values[f"hcfp{percent}"] == smallcal.metrics.hcfp(*case, threshold=percent / 100)
    assert values["hcfp90"] > values["hcfp95"] > values["hcfp99"] > 0
    assert values["risk_at90"] == smallcal.metrics.risk_at_threshold(*case, threshold=0.9)
    assert values["selective_risk80"] == smallcal.metrics.selective_risk(*case, coverage=0.8)
    assert values["ece15"] == smallcal.metrics.ece(*case, bins=15)
    assert values["adaece15"] == smallcal.metrics.adaece(*case, bins=15)
    assert values["cwece15"] == smallcal.metrics.classwise_ece(*case, bins=15)


def test_every_row_says_what_is_good_how_it_is_read_and_whether_noise_raises_it():
    errors = {"ece15", "adaece15", "cwece15", "smece", "smece_exact"}
    assert {name for name, row in METRICS.items() if row.biased} == errors
    unusual = {name: row.better for name, row in METRICS.items() if row.better != "lower"}
    assert unusual == {"accuracy": "higher", "auroc": "higher", "confidence_gap": "zero"}
    scores = {"nll", "brier", "top_label_bce"}
    assert {name for name, row in METRICS.items() if row.unit == X100} == scores
    assert {row.unit.sign for name, row in METRICS.items() if name not in scores} == {"%"}


def test_what_is_called_good_is_what_a_better_model_shows(softmax_case):
    """The model against itself with half of its rows' probabilities exchanged."""
    y_true, y_proba = softmax_case(4_000, 4, sharpness=8.0)
    honest = np.exp(0.6 * np.log(y_proba))  # labels were drawn from this one
    honest /= honest.sum(axis=1, keepdims=True)
    worse = honest.copy()
    worse[:2_000] = honest[np.random.default_rng(0).permutation(2_000)]
    good, bad = evaluate(y_true, honest), evaluate(y_true, worse)
    for name, row in METRICS.items():
        sign = {"lower": 1, "higher": -1}.get(row.better, 0)
        if sign:
            assert sign * good[name] < sign * bad[name], name
        else:
            assert abs(good[name]) < abs(bad[name]), name


def test_an_unknown_metric_is_refused_with_the_choices():
    with refused("metric-unknown", "'luck'"):
        evaluate([0], [[0.9, 0.1]], metrics=["nll", "luck"])
    with refused("metric-unknown", "'ECE_15'", "'ece15'"):
        evaluate([0], [[0.9, 0.1]], metrics=["nll", "ECE_15"])


def test_a_bare_string_is_not_a_list_of_names():
    with refused("option-type", "'nll'"):
        evaluate([0], [[0.9, 0.1]], metrics="nll")


def test_lists_float32_and_float64_give_the_same_values(softmax_case):
    y_true, y_proba = softmax_case(60)
    narrow = y_proba.astype(np.float32)
    same(evaluate(y_true.tolist(), y_proba.tolist()), evaluate(y_true, y_proba), tolerance=0)
    same(evaluate(y_true, narrow), evaluate(y_true, y_proba), tolerance=1e-5)
