"""Meta-Cal: against a plain reference, its promises on fresh data, its edge cases."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize_scalar

from smallcal.calibrators.discipline import Discipline
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.maps import GroupMap, ScalarMap, Split, fit_temperature
from smallcal.calibrators.objectives import Gaps, objective
from smallcal.calibrators.signals.statistic import Statistic
from smallcal.data.predictions import Predictions
from smallcal.errors import InputError
from smallcal_lab.methods.partitions import UNIFORM, fit_rejecting
from support.simulated import simulate


def make_split(z, y, *, goal="nll", weight=None, scores=None, **discipline):
    preds = Predictions.of(z, y, weight=weight)
    gaps, chosen = Gaps.of(preds), objective(goal)
    pooled = fit_temperature(chosen, gaps, bounds=(0.05, 20.0))
    scores = entropy(np.asarray(z)) if scores is None else scores
    return Split(preds, gaps, chosen, pooled, scores, Discipline(**discipline))


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def entropy(z):
    p = softmax(z.astype(float))
    return -(p * np.log(np.maximum(p, 1e-300))).sum(axis=1)


def held_out(n, size, seed=0):
    return np.random.default_rng([seed, 4]).permutation(n)[:size]


def plain_temperature(z, y):
    def loss(log_t):
        return -np.log(softmax(z / np.exp(log_t))[np.arange(len(y)), y]).mean()

    found = minimize_scalar(loss, bounds=(-3, 3), method="bounded", options={"xatol": 1e-10})
    return np.exp(found.x)


def pooled_decreasing(values, weights):
    """Isotonic regression by pooling neighbours that rise, the slow way."""
    blocks = [[v, w, 1] for v, w in zip(values, weights, strict=True)]
    i = 0
    while i < len(blocks) - 1:
        (v, w, k), (v2, w2, k2) = blocks[i], blocks[i + 1]
        if v2 > v:
            blocks[i : i + 2] = [[(v * w + v2 * w2) / (w + w2), w + w2, k + k2]]
            i = max(i - 1, 0)
        else:
            i += 1
    return np.concatenate([[v] * k for v, _, k in blocks])


@pytest.mark.parametrize(("n", "size"), [(120, 20), (600, 60), (6000, 500)])
@pytest.mark.parametrize("alpha", [None, 0.3])
def test_miscoverage_equals_the_plain_reference(n, size, alpha):
    z, y = simulate(n, 8)
    fit = fit_rejecting(make_split(z, y), level=alpha)
    h, right = entropy(z), z.argmax(axis=1) == y
    part = held_out(n, size)
    seen = np.sort(h[part][right[part]])
    share = 0.05 if alpha is None else alpha
    threshold = seen[int(np.ceil((1 - share) * (len(seen) - 1) - 1e-9))]
    rest = np.setdiff1d(np.arange(n), part)
    rest = rest[h[rest] < threshold]
    assert isinstance(fit.map, GroupMap)
    assert fit.map.thresholds == pytest.approx([threshold], rel=1e-12)
    assert fit.map.temperatures == pytest.approx(
        [plain_temperature(z[rest], y[rest]), UNIFORM], rel=1e-6
    )
    assert fit.counts == ((h < threshold).sum(), (h >= threshold).sum())
    assert fit.map.n_parameters == 2


@pytest.mark.parametrize("level", [0.75, 0.78, 0.8])
@pytest.mark.parametrize(("n", "size"), [(500, 50), (4000, 400)])
def test_the_accuracy_threshold_equals_the_plain_reference(n, size, level):
    z, y = simulate(n, 8)
    fit = fit_rejecting(make_split(z, y), constraint="accuracy", level=level)
    h, right = entropy(z), z.argmax(axis=1) == y
    part = held_out(n, size)
    cuts = [np.quantile(h[part], k / 20) for k in range(1, 21)]
    counts = [(h[part] <= cut).sum() for cut in cuts]
    running = [right[part][h[part] <= cut].mean() for cut in cuts]
    grid = np.linspace(cuts[0], cuts[-1], 200_001)
    fitted = np.interp(grid, cuts, pooled_decreasing(running, counts))
    expected = grid[np.flatnonzero(fitted >= level - 1e-12)[-1]]
    assert fit.map.thresholds[0] == pytest.approx(expected, abs=2 * (grid[1] - grid[0]))


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3])
def test_miscoverage_on_fresh_data_is_near_its_level(alpha):
    z, y = simulate(20_000, 6, seed=99)
    h, right = entropy(z), z.argmax(axis=1) == y
    rates = []
    for seed in range(15):
        fit = fit_rejecting(make_split(*simulate(5000, 6, seed=seed)), level=alpha)
        rates.append((h[right] >= fit.map.thresholds[0]).mean())
    assert np.mean(rates) == pytest.approx(alpha, abs=0.015)


@pytest.mark.parametrize("target", [0.8, 0.88])
def test_accuracy_of_accepted_fresh_samples_is_near_its_target(target):
    z, y = simulate(20_000, 6, seed=99)
    h, right = entropy(z), z.argmax(axis=1) == y
    assert right.mean() < 0.7
    rates = []
    for seed in range(15):
        split = make_split(*simulate(5000, 6, seed=seed))
        fit = fit_rejecting(split, constraint="accuracy", level=target)
        rates.append(right[h < fit.map.thresholds[0]].mean())
    assert np.mean(rates) == pytest.approx(target, abs=0.015)


def test_accuracy_halves_the_errors_unless_told_otherwise():
    split = make_split(*simulate(3000, 6))
    half = 1 - (1 - split.gaps.correct.mean()) / 2
    one = fit_rejecting(split, constraint="accuracy")
    two = fit_rejecting(split, constraint="accuracy", level=half)
    assert one.map == two.map


def test_the_true_temperature_is_found_by_every_objective():
    z, y = simulate(8000, 8, temperature=1.6)
    for goal in ("nll", "bce", "brier", "mixed(1)"):
        fit = fit_rejecting(make_split(z, y, goal=goal))
        assert fit.map.temperatures[0] == pytest.approx(1.6, rel=0.06)


def calibrator(fitted_map, n_classes, counts):
    return FittedCalibrator(
        method="custom",
        objective="nll",
        signal=Statistic("entropy"),
        map=fitted_map,
        pooled_temperature=1.0,
        n_classes=n_classes,
        group_counts=counts,
    )


def test_rejected_samples_get_uniform_probabilities_to_a_millionth():
    z, y = simulate(1000, 8)
    fit = fit_rejecting(make_split(z, y), level=0.3)
    cal = calibrator(fit.map, 8, fit.counts)
    p, rejected = cal.predict_proba(z), cal.group(z) == 1
    spread = np.ptp(z, axis=1)[rejected] / UNIFORM
    assert (np.abs(p[rejected] * 8 - 1).max(axis=1) <= spread).all()
    t = fit.map.temperatures[0]
    np.testing.assert_allclose(p[~rejected], softmax(z[~rejected] / t), rtol=1e-12)
    assert (entropy(z)[rejected] >= fit.map.thresholds[0] * (1 - 1e-12)).all()


@settings(max_examples=100)
@given(
    arrays(np.float32, (4, 6), elements=st.floats(-30, 30, width=32)),
    st.sampled_from([np.float16, np.float32, np.float64]),
)
def test_rejection_keeps_the_argmax(z, dtype):
    cal = calibrator(GroupMap((0.5,), (1.3, UNIFORM)), 6, (1, 1))
    z = z.astype(dtype)
    np.testing.assert_array_equal(cal.predict_proba(z).argmax(axis=1), z.argmax(axis=1))


def test_the_same_seed_gives_the_same_bits_and_another_one_does_not():
    split = make_split(*simulate(900, 8))
    other = make_split(*simulate(900, 8), seed=1)
    for constraint in ("miscoverage", "accuracy"):
        one, two = (fit_rejecting(split, constraint=constraint) for _ in range(2))
        assert one.map == two.map
        assert one.map != fit_rejecting(other, constraint=constraint).map


def test_a_split_in_float32_gives_the_same_map():
    z, y = simulate(900, 8)
    one = fit_rejecting(make_split(z.astype(np.float32), y))
    two = fit_rejecting(make_split(z.astype(np.float32).astype(np.float64), y))
    assert one.map == two.map
    assert one.map.temperatures == pytest.approx(fit_rejecting(make_split(z, y)).map.temperatures)


def test_samples_of_weight_zero_are_left_out():
    z, y = simulate(900, 8)
    weight = np.r_[np.ones(600), np.zeros(300)]
    weighted = fit_rejecting(make_split(z, y, weight=weight))
    without = fit_rejecting(make_split(z[:600], y[:600]))
    assert weighted.map.thresholds == without.map.thresholds
    assert weighted.map.temperatures == pytest.approx(without.map.temperatures, rel=1e-8)
    assert sum(weighted.counts) == 900


def is_fallback(split, **options):
    fit = fit_rejecting(split, **options)
    return fit.map == ScalarMap(split.pooled.value) and (
        fit.counts == (split.gaps.n,) and fit.flags["scalar_fallback"] == []
    )


@pytest.mark.parametrize("constraint", ["miscoverage", "accuracy"])
@pytest.mark.parametrize(
    "kind", ["ten samples", "25 samples", "all right", "all wrong", "one wrong", "constant"]
)
def test_where_too_little_is_known_one_temperature_serves_all(kind, constraint):
    z, y = simulate(300, 5)
    if kind.endswith("samples"):
        n = 10 if kind.startswith("ten") else 25
        z, y = z[:n], y[:n]
    elif kind == "constant":
        z = np.tile([2.0, 0, 0, 0, 1], (300, 1))
    elif kind == "all wrong":
        y = (z.argmax(axis=1) + 1) % 5
    else:
        y = z.argmax(axis=1)
        y[0] = (y[0] + (kind == "one wrong")) % 5
    split = make_split(z, y)
    assert is_fallback(split, constraint=constraint)
    if kind in ("all right", "all wrong"):
        assert fit_rejecting(split, constraint=constraint).flags["unidentified"] == [0]


def test_forty_samples_are_enough():
    fit = fit_rejecting(make_split(*simulate(40, 3, signal=2)))
    assert isinstance(fit.map, GroupMap)


def test_no_right_prediction_in_the_held_out_part_falls_back():
    z, y = simulate(200, 5)
    y = z.argmax(axis=1)
    part = held_out(200, 20)
    y[part] = (y[part] + 1) % 5
    assert is_fallback(make_split(z, y))
    assert is_fallback(make_split(z, y), constraint="accuracy")


def test_accepting_or_rejecting_everything_falls_back():
    z, y = simulate(2000, 5)
    assert is_fallback(make_split(z, y), constraint="accuracy", level=0.05)
    guesses = np.random.default_rng(0).integers(5, size=2000)
    assert is_fallback(make_split(z, guesses), constraint="accuracy", level=0.9)


def test_accepted_samples_without_errors_are_flagged():
    z, y = simulate(600, 6, signal=8)
    h = entropy(z)
    sure = h < np.median(h)
    y[sure] = z[sure].argmax(axis=1)
    y[~sure] = (z[~sure].argmax(axis=1) + 1) % 6
    fit = fit_rejecting(make_split(z, y))
    assert isinstance(fit.map, GroupMap)
    assert fit.flags == {"unidentified": [0]}


def test_bad_options_are_refused():
    split = make_split(*simulate(300, 5))
    with pytest.raises(InputError, match="constraint must be one of miscoverage, accuracy"):
        fit_rejecting(split, constraint="x")
    for level in (0, 1, -0.1, float("nan")):
        with pytest.raises(InputError, match="level must lie between 0 and 1"):
            fit_rejecting(split, level=level)
