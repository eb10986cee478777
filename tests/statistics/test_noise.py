import math

import numpy as np
import pytest

from smallcal.errors import InputError
from smallcal.metrics import METRICS, Scored, adaece, classwise_ece, ece, smece
from smallcal.statistics import noise
from smallcal.statistics.noise import calibration_p_value, noise_floor, spiegelhalter
from support.refused import refused


def probabilities(n, n_classes=10, *, seed=0, sharpness=2.0):
    rng = np.random.default_rng(seed)
    z = np.exp(sharpness * rng.normal(size=(n, n_classes)))
    return z / z.sum(axis=1, keepdims=True)


def two_columns(confidence):
    """Probabilities whose first column is the prediction; confidences are at least 1/2."""
    return np.column_stack([confidence, 1 - confidence])


def labels_from(y_proba, rng):
    return (y_proba.cumsum(axis=1) > rng.random((len(y_proba), 1))).argmax(axis=1)


def labels_with_accuracy(accuracy, rng):
    """Labels for ``two_columns``: 0, which is correct, with the given chances."""
    return (rng.random(len(accuracy)) >= accuracy).astype(int)


# ----------------------------------------------------------------------------- the noise floor


@pytest.mark.parametrize(("name", "metric"), [("ece15", ece), ("adaece15", adaece)])
def test_fast_floors_equal_a_loop_over_the_same_draws(name, metric):
    confidence = np.random.default_rng(3).uniform(0.5, 1, 57)
    y_proba = two_columns(confidence)
    rng = np.random.default_rng(11)
    values = [metric((rng.random(57) >= confidence).astype(int), y_proba) for _ in range(40)]
    floor = noise_floor(y_proba, metrics=[name], n_sim=40, level=0.9, random_state=11)[name]
    assert floor.mean == pytest.approx(np.mean(values), abs=1e-14)
    assert floor.high == pytest.approx(np.quantile(values, 0.9), abs=1e-14)
    assert (floor.n_sim, floor.level) == (40, 0.9)


def test_smooth_floor_equals_a_loop_over_the_same_draws():
    confidence = np.random.default_rng(3).uniform(0.5, 1, 57)
    y_proba = two_columns(confidence)
    rng = np.random.default_rng(0)
    values = [smece((rng.random(57) >= confidence).astype(int), y_proba) for _ in range(12)]
    floor = noise_floor(y_proba, metrics=["smece"], n_sim=12)["smece"]
    assert floor.mean == pytest.approx(np.mean(values), abs=1e-14)


@pytest.mark.parametrize("name", ["ece15", "adaece15", "cwece15", "smece_exact"])
def test_floors_agree_with_labels_drawn_from_the_rows(name):
    """Independent draws of whole labels: equal within four Monte-Carlo standard errors."""
    y_proba = probabilities(200, 4, seed=5)
    rng = np.random.default_rng(99)
    metric = METRICS[name].of
    values = [metric(Scored.of(labels_from(y_proba, rng), y_proba)) for _ in range(200)]
    floor = noise_floor(y_proba, metrics=[name], n_sim=200)[name]
    assert abs(floor.mean - np.mean(values)) < 4 * np.std(values) * math.sqrt(2 / 200)
    assert floor.high == pytest.approx(np.quantile(values, 0.95), rel=0.15)


def test_classwise_floor_of_a_tiny_case_is_right():
    """One sample of (0.8, 0.2): the error is 0.2 with chance 0.8 and 0.8 with chance 0.2."""
    floor = noise_floor([[0.8, 0.2]], metrics=["cwece15"], n_sim=200)["cwece15"]
    assert floor.mean == pytest.approx(0.32, abs=4 * 0.24 / math.sqrt(200))
    assert classwise_ece([1], [[0.8, 0.2]]) == pytest.approx(0.8)


@pytest.mark.parametrize(("n", "known"), [(250, 0.075), (500, 0.052), (1000, 0.037), (5000, 0.017)])
def test_floors_of_ten_classes_have_the_known_size(n, known):
    """Floors measured elsewhere, on other confidences: the same order of magnitude is meant.

    The spread of the confidences sets the floor, so these are agreed within a fifth for
    confidences spread over (0.15, 1), as a 10-class model of medium accuracy has them.
    """
    floor = noise_floor(probabilities(n), metrics=["ece15"], n_sim=300)["ece15"]
    assert floor.mean == pytest.approx(known, rel=0.2)
    assert floor.high > floor.mean


def test_slow_metrics_say_how_often_they_were_simulated(monkeypatch):
    monkeypatch.setattr(noise, "SLOW_SIMULATIONS", 5)
    y_proba = probabilities(30)
    floors = noise_floor(y_proba, n_sim=50)
    assert {k: f.n_sim for k, f in floors.items()} == {"ece15": 50, "adaece15": 50, "smece": 5}
    result = calibration_p_value(np.zeros(30, int), y_proba, metric="cwece15", n_sim=50)
    assert "5 simulations instead of 50" in result.note
    assert "5 simulations" in result.method


def test_same_seed_same_bits_in_any_company_and_block(monkeypatch):
    y_proba = probabilities(120)
    before = np.random.get_state()[1].tolist()  # noqa: NPY002 - it must not be touched
    together = noise_floor(y_proba, n_sim=60)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002
    assert noise_floor(y_proba, n_sim=60) == together
    assert noise_floor(y_proba, n_sim=60, random_state=1) != together
    alone = {k: noise_floor(y_proba, metrics=[k], n_sim=60)[k] for k in reversed(together)}
    assert alone == together
    monkeypatch.setattr(noise, "BLOCK_SIZE", 7 * 120)
    blocks = noise_floor(y_proba, n_sim=60)
    assert blocks.pop("smece").mean == pytest.approx(together.pop("smece").mean, rel=1e-12)
    assert blocks == together


def test_rows_that_do_not_sum_to_one_are_served():
    y_proba = probabilities(300, 50).astype(np.float16)
    floors = noise_floor(y_proba, metrics=["ece15", "cwece15"], n_sim=50)
    exact = noise_floor(probabilities(300, 50), metrics=["ece15", "cwece15"], n_sim=50)
    for name, floor in floors.items():
        assert floor.mean == pytest.approx(exact[name].mean, rel=0.05)


# ----------------------------------------------------------------------------- the two tests


def test_spiegelhalter_equals_its_definition_written_as_a_loop():
    y_proba = probabilities(80, 5, seed=8)
    y_true = labels_from(y_proba, np.random.default_rng(0))
    above = below = 0.0
    for row, label in zip(y_proba, y_true, strict=True):
        c, b = row.max(), float(row.argmax() == label)
        above += (b - c) * (1 - 2 * c)
        below += (1 - 2 * c) ** 2 * c * (1 - c)
    z = above / math.sqrt(below)
    result = spiegelhalter(y_true, y_proba)
    assert result.statistic == pytest.approx(z, rel=1e-12)
    assert result.p_value == pytest.approx(math.erfc(abs(z) / math.sqrt(2)), rel=1e-12)
    assert result.note == ""


def test_resampling_p_value_equals_its_definition():
    y_proba = two_columns(np.random.default_rng(3).uniform(0.5, 1, 40))
    y_true = np.zeros(40, dtype=int)
    rng = np.random.default_rng(7)
    draws = [(rng.random(40) >= y_proba[:, 0]).astype(int) for _ in range(99)]
    observed = ece(y_true, y_proba)
    hits = sum(ece(y, y_proba) >= observed - 1e-12 for y in draws)
    result = calibration_p_value(y_true, y_proba, n_sim=99, random_state=7)
    assert (result.statistic, result.p_value) == (observed, (1 + hits) / 100)
    assert result.note == ""


@pytest.mark.slow
def test_both_tests_keep_their_size():
    rng = np.random.default_rng(4)
    rejected = {"z": 0, "resampling": 0}
    for repetition in range(300):
        y_proba = probabilities(300, seed=1000 + repetition)
        y_true = labels_from(y_proba, rng)
        rejected["z"] += spiegelhalter(y_true, y_proba).p_value <= 0.05
        result = calibration_p_value(y_true, y_proba, n_sim=199, random_state=repetition)
        rejected["resampling"] += result.p_value <= 0.05
    assert 0.02 <= rejected["z"] / 300 <= 0.08
    assert 0.02 <= rejected["resampling"] / 300 <= 0.08


@pytest.mark.parametrize("metric", ["ece15", "adaece15", "cwece15", "smece"])
def test_an_over_confident_model_is_found_out(metric):
    y_proba = probabilities(500)
    y_true = labels_from(y_proba, np.random.default_rng(0))
    sharp = y_proba**2 / (y_proba**2).sum(axis=1, keepdims=True)
    assert spiegelhalter(y_true, sharp).statistic > 4
    assert calibration_p_value(y_true, sharp, metric=metric, n_sim=99).p_value == 0.01
    assert calibration_p_value(y_true, y_proba, metric=metric, n_sim=99).p_value > 0.05


def test_ties_count_as_ties():
    """Ten of 0.8: 7 and 9 hits miss 8 by as much, and rounding must not part them."""
    y_proba = [[0.8, 0.2]] * 10
    seven, nine = [0] * 7 + [1] * 3, [0] * 9 + [1]
    assert calibration_p_value(seven, y_proba).p_value == calibration_p_value(nine, y_proba).p_value


# ----------------------------------------------------------------------------- odd input

EVERY = ["ece15", "adaece15", "cwece15", "smece", "smece_exact"]


@pytest.mark.parametrize("n", [1, 20])
def test_certain_predictions_have_no_floor(n):
    certain = np.tile([1.0, 0.0], (n, 1))
    for floor in noise_floor(certain, metrics=EVERY, n_sim=5).values():
        assert (floor.mean, floor.high) == pytest.approx((0.0, 0.0), abs=1e-12)
    right, wrong = np.zeros(n, dtype=int), np.ones(n, dtype=int)
    assert calibration_p_value(right, certain, n_sim=9).p_value == 1.0
    assert calibration_p_value(wrong, certain, n_sim=9).p_value == 0.1


@pytest.mark.parametrize("row", [[1.0, 0.0], [0.5, 0.5], [0.5 + 1e-15, 0.5 - 1e-15]])
def test_spiegelhalter_says_when_it_is_undefined(row):
    result = spiegelhalter([0, 0, 0], [row] * 3)
    assert math.isnan(result.statistic)
    assert math.isnan(result.p_value)
    assert result.note == "undefined: every confidence is 0, 1/2 or 1"


def test_spiegelhalter_reports_certain_errors():
    assert "2 wrong with confidence 1" in spiegelhalter([1, 1, 0], [[1.0, 0.0]] * 3).note
    mixed = spiegelhalter([1, 0, 0], [[1.0, 0.0], [0.7, 0.3], [0.9, 0.1]])
    assert math.isfinite(mixed.statistic)
    assert mixed.note.startswith("1 wrong with confidence 1")


def test_one_sample_is_enough_for_everything():
    y_proba = [[0.7, 0.3]]
    floors = noise_floor(y_proba, metrics=EVERY, n_sim=40)
    assert all(0 <= floor.mean <= floor.high <= 1 for floor in floors.values())
    assert math.isfinite(spiegelhalter([0], y_proba).statistic)
    assert calibration_p_value([0], y_proba, n_sim=9).p_value == 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metrics": ["nll"]}, "no noise floor for 'nll'; choose from ece15"),
        ({"metrics": "ece15"}, "must be a list of names"),
        ({"n_sim": 0}, "n_sim must be a whole number of at least 1; got 0"),
        ({"n_sim": True}, "n_sim must be a whole number"),
        ({"n_sim": 10.0}, "n_sim must be a whole number"),
        ({"level": 1.0}, "level must lie between 0 and 1"),
        ({"level": math.nan}, "level must lie between 0 and 1"),
        ({"random_state": -1}, "random_state must be a whole number of at least 0"),
        ({"random_state": None}, "random_state must be a whole number"),
    ],
)
def test_bad_options_are_refused_in_one_line(options, message):
    with pytest.raises(InputError, match=message) as caught:
        noise_floor([[0.7, 0.3]], **options)
    assert "\n" not in str(caught.value)


def test_bad_arrays_and_names_are_refused():
    with refused("probabilities-range", "y_proba"):
        noise_floor([[3.0, -1.0]])
    with refused("metric-unknown", "'accuracy'"):
        calibration_p_value([0], [[0.7, 0.3]], metric="accuracy")
    with pytest.raises(InputError):
        spiegelhalter([0, 1], [[0.7, 0.3]])


def test_floors_of_an_outcome_are_those_of_two_classes_where_it_is_the_likelier():
    p = np.random.default_rng(0).uniform(0.5, 1, 200)
    one = noise_floor(p, metrics=["ece15"], n_sim=50)["ece15"]
    two = noise_floor(np.column_stack([1 - p, p]), metrics=["ece15"], n_sim=50)["ece15"]
    assert one.mean == pytest.approx(two.mean)
