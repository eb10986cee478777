"""Semantic-aware grouping: gradients, known truth, what the map promises of every row."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import log_softmax, logsumexp

from smallcal.calibrators.discipline import Discipline
from smallcal.calibrators.maps import ScalarMap, Split, fit_temperature
from smallcal.calibrators.maps.semantic import SemanticMap
from smallcal.calibrators.objectives import Gaps, objective
from smallcal.data.predictions import Predictions
from smallcal.errors import InputError
from smallcal_lab.methods.partitions import fit_semantic, soft_loss, stratified_halves
from support.simulated import simulate


def make_split(z, y, features, *, goal="nll", weight=None, **discipline):
    preds = Predictions.of(z, y, weight=weight)
    gaps, chosen = Gaps.of(preds), objective(goal)
    pooled = fit_temperature(chosen, gaps, bounds=(0.05, 20.0))
    return Split(preds, gaps, chosen, pooled, features, Discipline(**discipline))


def softmax(z):
    return np.exp(log_softmax(z, axis=1))


def nll(p, y):
    return -np.log(p[np.arange(len(y)), y]).mean()


def two_kinds(n, *, n_classes=8, d=5, seed=0, scale=1.0):
    """Two clusters of features; logits of the first need T = 1, those of the second T = 3."""
    rng = np.random.default_rng([seed, 99])
    a, ya = simulate(n - n // 2, n_classes, temperature=1.0, seed=2 * seed + 1)
    b, yb = simulate(n // 2, n_classes, temperature=3.0, seed=2 * seed + 2)
    second = np.arange(n) >= n - n // 2
    features = rng.normal(size=(n, d))
    features[:, 0] += np.where(second, 2.5, -2.5)
    order = rng.permutation(n)
    z, y = np.concatenate([a, b]), np.concatenate([ya, yb])
    return z[order], y[order], (features * scale + 7 * scale)[order], second[order]


@pytest.fixture(scope="module")
def fitted():
    z, y, features, _ = two_kinds(1500)
    return fit_semantic(make_split(z, y, features))


def soft_problem(*, weight=None, n_groups=3, penalty=0.1, seed=0):
    z, y, features, _ = two_kinds(60, seed=seed)
    split = make_split(z, y, features, weight=weight)
    loss = partial(soft_loss, gaps=split.gaps, features=features, penalty=penalty)
    start = np.random.default_rng(seed).normal(size=n_groups * (1 + features.shape[1])) * 0.3
    return loss, start, (z, y, features)


def plain_loss(parameters, z, y, features, *, penalty, weight):
    n_groups = len(parameters) // (features.shape[1] + 1)
    tau, w = np.exp(parameters[:n_groups]), parameters[n_groups:].reshape(n_groups, -1)
    share = log_softmax(features @ w.T, axis=1)
    own = np.stack([log_softmax(z / t, axis=1)[np.arange(len(y)), y] for t in tau], axis=1)
    return -np.average(logsumexp(share + own, axis=1), weights=weight) + penalty * np.mean(w**2)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_soft_loss_equals_the_plain_one(weighted):
    weight = np.random.default_rng(1).random(60) if weighted else None
    loss, at, (z, y, features) = soft_problem(weight=weight)
    expected = plain_loss(at, z, y, features, penalty=0.1, weight=weight)
    assert loss(at)[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n_groups", "penalty"), [(2, 0.1), (3, 5.0), (4, 0.0)])
def test_the_gradient_equals_finite_differences(n_groups, penalty, weighted):
    weight = np.random.default_rng(1).random(60) if weighted else None
    loss, at, _ = soft_problem(weight=weight, n_groups=n_groups, penalty=penalty)
    steps = np.eye(len(at)) * 1e-6
    slopes = [(loss(at + step)[0] - loss(at - step)[0]) / 2e-6 for step in steps]
    np.testing.assert_allclose(loss(at)[1], slopes, atol=2e-8)


def plain_probabilities(fitted, z, features):
    u = (features - fitted.mean) / fitted.scale
    result = np.zeros_like(z)
    for w, tau in zip(fitted.partitions, fitted.temperatures, strict=True):
        group = (u @ w.T).argmax(axis=1)
        result += softmax(z / tau[group][:, None]) / len(fitted.partitions)
    return result


def test_probabilities_equal_the_plain_reference(fitted):
    z, _, features, _ = two_kinds(500, seed=3)
    p = fitted.map.probabilities(z, features)
    np.testing.assert_allclose(p, plain_probabilities(fitted.map, z, features), rtol=1e-12)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-14)


@pytest.mark.parametrize("goal", ["nll", "bce"])
def test_two_clusters_get_their_true_temperatures(goal):
    z, y, features, second = two_kinds(3000)
    split = make_split(z, y, features, goal=goal)
    fit = fit_semantic(split, n_partitions=5)
    low, high = fit.map.temperatures.min(axis=1), fit.map.temperatures.max(axis=1)
    assert low.mean() == pytest.approx(1.0, rel=0.1)
    assert high.mean() == pytest.approx(3.0, rel=0.1)
    # The groups are the clusters.
    u = (features - fit.map.mean) / fit.map.scale
    for w, tau in zip(fit.map.partitions, fit.map.temperatures, strict=True):
        hot = tau[(u @ w.T).argmax(axis=1)] == tau.max()
        assert (hot == second).mean() > 0.97


def test_it_beats_one_temperature_on_fresh_data_and_nears_the_truth(fitted):
    z, y, features, second = two_kinds(6000, seed=4)
    scalar = fit_temperature_of(two_kinds(1500))
    ours = nll(fitted.map.probabilities(z, features), y)
    truth = nll(softmax(z / np.where(second, 3.0, 1.0)[:, None]), y)
    assert ours < nll(softmax(z / scalar), y) - 0.02
    assert ours < truth + 0.01


def fit_temperature_of(data):
    z, y, features, _ = data
    return make_split(z, y, features).pooled.value


def test_features_that_know_nothing_do_little_harm():
    z, y = simulate(1500, 8)
    features = np.random.default_rng(0).normal(size=(1500, 20))
    split = make_split(z, y, features)
    fit = fit_semantic(split, n_partitions=5)
    fresh, labels = simulate(6000, 8, seed=1)
    noise = np.random.default_rng(1).normal(size=(6000, 20))
    scalar = nll(softmax(fresh / split.pooled.value), labels)
    assert nll(fit.map.probabilities(fresh, noise), labels) < scalar + 0.005


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_scale_of_the_features_is_irrelevant(scale):
    z, y, features, _ = two_kinds(600)
    one = fit_semantic(make_split(z, y, features), n_partitions=2)
    moved = features * scale - 3 * scale
    two = fit_semantic(make_split(z, y, moved), n_partitions=2)
    np.testing.assert_allclose(two.map.temperatures, one.map.temperatures, rtol=1e-3)


def test_a_feature_that_never_varies_is_not_used():
    z, y, features, _ = two_kinds(600)
    features[:, 2] = 0.1
    fit = fit_semantic(make_split(z, y, features), n_partitions=2)
    assert (fit.map.partitions[:, :, 2] == 0).all()
    changed = features.copy()
    changed[:, 2] = 1e6
    np.testing.assert_array_equal(
        fit.map.probabilities(z, changed), fit.map.probabilities(z, features)
    )


def test_shapes_parameters_and_counts(fitted):
    found = fitted.map
    assert found.partitions.shape == (20, 2, 5)
    assert found.temperatures.shape == (20, 2)
    assert found.n_parameters == 20 * 2 * 5 + 20 * 2
    assert found.temperatures.size == len(fitted.counts) == 40
    np.testing.assert_array_equal(np.reshape(fitted.counts, (20, 2)).sum(axis=1), 750)
    assert fitted.flags == {}
    assert found.preserves_argmax


def test_temperatures_are_those_of_the_half_that_made_no_groups():
    z, y, features, _ = two_kinds(600)
    split = make_split(z, y, features, min_group_size=20)
    found = fit_semantic(split, n_partitions=3).map
    rng = np.random.default_rng([0, 6])
    standardised = (features - found.mean) / found.scale
    for partition, temperatures in zip(found.partitions, found.temperatures, strict=True):
        first, second = stratified_halves(split.gaps.correct, np.arange(600), rng)
        rng.uniform(-1, 1, size=partition.shape)  # where the descent began
        member = (standardised[second] @ partition.T).argmax(axis=1)
        for group, temperature in enumerate(temperatures):
            gaps = split.gaps.take(second[member == group])
            alone = fit_temperature(split.goal, gaps, bounds=(0.05, 20.0))
            assert temperature == pytest.approx(alone.value, rel=1e-7)
        assert not set(first) & set(second)


def test_more_groups_work():
    z, y, features, _ = two_kinds(1500)
    fit = fit_semantic(make_split(z, y, features), n_partitions=2, n_groups=4)
    assert fit.map.temperatures.shape == (2, 4)


@settings(max_examples=100)
@given(
    arrays(np.float32, (4, 6), elements=st.floats(-30, 30, width=32)),
    arrays(np.float64, (4, 1), elements=st.floats(-2, 2)),
    st.integers(0, 3),
)
def test_the_argmax_never_changes_even_a_hair_from_a_tie(z, features, ulps):
    z = z.astype(np.float64)
    rival = z.max(axis=1)
    for _ in range(ulps):
        rival = np.nextafter(rival, np.inf)
    z[:, -1] = rival
    found = SemanticMap([0.0], [1.0], [[[-1.0], [1.0]], [[2.0], [1.0]]], [[0.05, 20.0], [1.0, 7.0]])
    p = found.probabilities(z, features)
    np.testing.assert_array_equal(p.argmax(axis=1), z.argmax(axis=1))
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-12)


def test_float32_agrees_with_float64(fitted):
    z, _, features, _ = two_kinds(500, seed=5)
    single = fitted.map.probabilities(
        z.astype(np.float32).astype(np.float64), features.astype(np.float32)
    )
    np.testing.assert_allclose(single, fitted.map.probabilities(z, features), atol=1e-5)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_row_does_not_depend_on_its_batch(order):
    rng = np.random.default_rng(0)
    found = SemanticMap(
        rng.normal(size=37), rng.random(37) + 0.5, rng.normal(size=(3, 2, 37)), rng.random((3, 2))
    )
    z = np.array(simulate(257, 41)[0], order=order)
    features = np.array(rng.normal(size=(257, 37)), order=order)
    whole = found.probabilities(z, features)
    for rows in (slice(0, 1), slice(3, 10), slice(256, 257), slice(None, None, 3)):
        np.testing.assert_array_equal(found.probabilities(z[rows], features[rows]), whole[rows])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("d", [2, 3, 8, 37, 64, 768])
def test_a_row_on_the_border_between_groups_does_not_depend_on_its_batch(d, order):
    """Directions that differ by a rounding error: the order of a sum decides the group."""
    rng = np.random.default_rng(0)
    direction = rng.normal(size=d)
    partition = [direction, direction * (1 + 2e-16 * rng.integers(-1, 2, size=d))]
    found = SemanticMap(np.zeros(d), np.ones(d), [partition], [[1.0, 2.0]])
    z = rng.normal(size=(200, 3))
    features = np.array(rng.normal(size=(200, d)), order=order)
    whole = found.probabilities(z, features)
    alone = [found.probabilities(z[i : i + 1], features[i : i + 1])[0] for i in range(200)]
    np.testing.assert_array_equal(whole, alone)


def test_a_round_trip_through_json_changes_nothing(fitted):
    names = ("mean", "scale", "partitions", "temperatures")
    text = json.dumps({name: getattr(fitted.map, name).tolist() for name in names})
    lists = json.loads(text)
    again = SemanticMap(**{name: tuple(value) for name, value in lists.items()})
    z, _, features, _ = two_kinds(100, seed=5)
    np.testing.assert_array_equal(
        again.probabilities(z, features), fitted.map.probabilities(z, features)
    )
    assert (again.temperatures == fitted.map.temperatures).all()


def test_the_same_seed_gives_the_same_bits_and_more_partitions_keep_the_first():
    z, y, features, _ = two_kinds(400)
    split = make_split(z, y, features)
    one, two = (fit_semantic(split, n_partitions=2).map for _ in range(2))
    np.testing.assert_array_equal(one.partitions, two.partitions)
    np.testing.assert_array_equal(one.temperatures, two.temperatures)
    three = fit_semantic(split, n_partitions=3).map
    np.testing.assert_array_equal(three.partitions[:2], one.partitions)
    other = fit_semantic(replace(split, discipline=Discipline(seed=1)), n_partitions=2).map
    assert not np.array_equal(other.partitions, one.partitions)


def test_samples_of_weight_zero_are_left_out():
    z, y, features, _ = two_kinds(400)
    without = fit_semantic(make_split(z, y, features), n_partitions=2)
    # The moments of the features see every sample: repeat them, with labels that mislead.
    twice = np.tile(z, (2, 1)), np.concatenate([y, (y + 1) % 8]), np.tile(features, (2, 1))
    weighted = fit_semantic(make_split(*twice, weight=np.repeat([1.0, 0.0], 400)), n_partitions=2)
    np.testing.assert_allclose(weighted.map.temperatures, without.map.temperatures, rtol=1e-4)


def test_small_groups_take_the_pooled_temperature():
    z, y, features, _ = two_kinds(600)
    features[:] = np.random.default_rng(0).normal(size=features.shape)
    split = make_split(z, y, features, min_group_size=150)
    fit = fit_semantic(split, n_partitions=3)
    assert fit.flags == {"fallback": []}
    small = np.array(fit.counts) < 150
    assert small.any()
    assert not small.all()
    assert (fit.map.temperatures.ravel()[small] == split.pooled.value).all()
    assert (fit.map.temperatures.ravel()[~small] != split.pooled.value).all()


def test_where_every_group_is_small_one_temperature_serves_all():
    z, y, features, _ = two_kinds(300)
    split = make_split(z, y, features, min_group_size=150)
    fit = fit_semantic(split, n_partitions=3)
    assert fit.map == ScalarMap(split.pooled.value)
    assert fit.flags == {"scalar_fallback": []}


@pytest.mark.parametrize(
    "kind", ["ten samples", "98 samples", "all right", "all wrong", "one wrong"]
)
def test_where_too_little_is_known_one_temperature_serves_all(kind):
    z, y, features, _ = two_kinds(300)
    if kind.endswith("samples"):
        n = 10 if kind.startswith("ten") else 98
        z, y, features = z[:n], y[:n], features[:n]
    elif kind == "all wrong":
        y = (z.argmax(axis=1) + 1) % 8
    else:
        y = z.argmax(axis=1)
        y[0] = (y[0] + (kind == "one wrong")) % 8
    split = make_split(z, y, features)
    fit = fit_semantic(split)
    assert fit.map == ScalarMap(split.pooled.value)
    assert fit.counts == (len(y),)
    assert fit.flags["scalar_fallback"] == []


def test_constant_features_make_one_group():
    z, y, features, _ = two_kinds(300)
    fit = fit_semantic(make_split(z, y, np.ones_like(features)), n_partitions=2)
    np.testing.assert_array_equal(np.reshape(fit.counts, (2, 2)), [[150, 0], [150, 0]])
    assert fit.flags == {"fallback": []}


def test_groups_without_errors_are_flagged():
    z, y, features, second = two_kinds(600)
    features[second, 0] += 20
    y[second] = z[second].argmax(axis=1)
    fit = fit_semantic(make_split(z, y, features), n_partitions=2)
    assert fit.flags["unidentified"] == []
    assert all(0.05 <= step <= 20 for step in fit.map.temperatures.ravel())


def test_features_of_another_width_are_refused(fitted):
    for shape in ((3, 4), (3,)):
        with pytest.raises(InputError, match=r"features must have shape \(n, 5\)"):
            fitted.map.probabilities(np.zeros((3, 8)), np.zeros(shape))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mean": [0.0, 0.0]}, "do not fit together"),
        ({"partitions": [[[1.0]]]}, "do not fit together"),
        ({"partitions": [[[1.0], [1.0, 2.0]]]}, "partitions must be numbers in 3 dimensions"),
        ({"temperatures": [1.0, 2.0]}, "temperatures must be finite numbers in 2 dimensions"),
        ({"mean": [float("nan")]}, "mean must be finite numbers"),
        ({"scale": [0.0]}, "scale must be positive; got 0"),
        ({"temperatures": [[1.0, -2.0]]}, "temperatures must be finite and positive"),
    ],
)
def test_broken_numbers_are_refused(change, message):
    parts = {
        "mean": [0.0],
        "scale": [1.0],
        "partitions": [[[-1.0], [1.0]]],
        "temperatures": [[1.0, 2.0]],
    }
    SemanticMap(**parts)
    with pytest.raises(InputError, match=message):
        SemanticMap(**{**parts, **change})


@pytest.mark.parametrize(
    "options", [{"n_partitions": 0}, {"n_groups": 1}, {"penalty": -1.0}, {"penalty": np.inf}]
)
def test_bad_options_are_refused(options):
    z, y, features, _ = two_kinds(300)
    with pytest.raises(InputError, match=next(iter(options))):
        fit_semantic(make_split(z, y, features), **options)
