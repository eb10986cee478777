"""The network map and SMART: gradients by differences, fits and outputs against plain torch."""

import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.special

from smallcal.calibrators.discipline import Discipline
from smallcal.calibrators.maps.base import Split, loss_and_slope
from smallcal.calibrators.maps.network import NetworkMap
from smallcal.calibrators.maps.temperature import ScalarMap, fit_temperature
from smallcal.calibrators.objectives import Gaps, objective
from smallcal.data.predictions import Predictions
from smallcal.data.special import erf
from smallcal.errors import InputError
from smallcal_lab.methods.curves import (
    SMART_OFFSET,
    _descend,
    _first_weights,
    _loss_and_gradient,
    fit_smart,
    pooled_loss,
)
from support.simulated import simulate


def make_split(z, y, *, goal="bce", weight=None, seed=0):
    preds = Predictions.of(z, y, weight=weight)
    gaps = Gaps.of(preds)
    discipline = Discipline(seed=seed)
    pooled = fit_temperature(objective(goal), gaps, bounds=discipline.bounds)
    scores = (-gaps.best - (-gaps.best).mean()) / gaps.best.std()
    return Split(preds, gaps, objective(goal), pooled, scores, discipline)


def network(*sizes, activation="gelu", seed=0, **options):
    rng = np.random.default_rng(seed)
    shapes = list(zip(sizes[1:], sizes, strict=False))
    weights = tuple(rng.normal(size=shape) / np.sqrt(shape[1]) for shape in shapes)
    biases = tuple(rng.normal(size=outputs) for outputs, _ in shapes)
    return NetworkMap(weights, biases, activation, **{"offset": 0.0, "floor": 1e-3, **options})


def fitted_loss(split, fitted):
    return loss_and_slope(split.goal, split.gaps, fitted(split.scores))[0]


# The error function


def test_erf_agrees_with_scipy_to_the_last_digits():
    tiny = 10.0 ** np.arange(-300, 1)
    x = np.concatenate([np.linspace(-7, 7, 200_001), tiny, -tiny, [-np.inf, 0.0, 100.0, np.inf]])
    truth = scipy.special.erf(x)
    np.testing.assert_allclose(erf(x), truth, rtol=2e-15, atol=1e-300)
    np.testing.assert_array_equal(erf(-x), -erf(x))
    assert np.abs(erf(x)).max() == 1


def test_erf_keeps_shapes_and_passes_nan_on():
    x = np.array([[0.3, np.nan], [-2.0, 5.99]])
    assert erf(x).shape == (2, 2)
    assert np.isnan(erf(x)).tolist() == [[False, True], [False, False]]
    assert float(erf(np.float64(0.3))) == erf(x)[0, 0]


# The map


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("sizes", [(3, 1), (1, 16, 1), (7, 40, 1), (5, 8, 6, 1)])
def test_the_map_equals_torch(activation, sizes):
    torch = pytest.importorskip("torch", reason="compares with torch")
    fitted = network(*sizes, activation=activation, offset=0.1, floor=0.3)
    layers = []
    for weight, bias in zip(fitted.weights, fitted.biases, strict=True):
        layer = torch.nn.Linear(*weight.shape[::-1], dtype=torch.float64)
        layer.weight.data, layer.bias.data = torch.tensor(weight), torch.tensor(bias)
        layers += [layer, torch.nn.ReLU() if activation == "relu" else torch.nn.GELU()]
    model = torch.nn.Sequential(*layers[:-1], torch.nn.Softplus(threshold=50))
    x = np.random.default_rng(1).normal(size=(200, sizes[0])) * 3
    expected = np.maximum(0.1 + model(torch.tensor(x)).detach().numpy()[:, 0], 0.3)
    np.testing.assert_allclose(fitted(x), expected, rtol=1e-12)
    assert expected.min() == 0.3  # the floor was felt
    if sizes[0] == 1:
        np.testing.assert_array_equal(fitted(x[:, 0]), fitted(x))


@pytest.mark.parametrize("sizes", [(1, 16, 1), (12, 1), (12, 128, 1), (100, 128, 1), (768, 32, 1)])
def test_a_row_does_not_depend_on_its_batch_or_memory_layout(sizes):
    fitted = network(*sizes)
    x = np.random.default_rng(2).normal(size=(1100, sizes[0]))
    whole = fitted(x)
    for rows in (slice(0, 1), slice(3, 10), slice(500, 1017), slice(1099, 1100), slice(0, None, 7)):
        np.testing.assert_array_equal(fitted(x[rows]), whole[rows])
    np.testing.assert_array_equal(fitted(np.asfortranarray(x)), whole)
    np.testing.assert_array_equal(fitted(np.repeat(x, 2, axis=1)[:, ::2]), whole)
    assert fitted(x[:0]).shape == (0,)


def test_lists_from_json_give_the_same_bits():
    fitted = network(6, 9, 1)
    document = json.loads(
        json.dumps(
            {
                "weights": [part.tolist() for part in fitted.weights],
                "biases": [part.tolist() for part in fitted.biases],
            }
        )
    )
    x = np.random.default_rng(3).normal(size=(50, 6))
    for outer in (list, tuple):
        parts = {name: outer(value) for name, value in document.items()}
        again = NetworkMap(**parts, activation="gelu", offset=0.0, floor=1e-3)
        np.testing.assert_array_equal(again(x), fitted(x))
        assert all(part.dtype == np.float64 for part in (*again.weights, *again.biases))
    with pytest.raises(ValueError, match="read-only"):
        again.weights[0][0, 0] = 1


def test_parameters_are_weights_and_biases():
    assert network(1, 16, 1).n_parameters == 49
    assert network(100, 128, 1).n_parameters == 13_057
    assert network(768, 128, 1).n_parameters == 98_561
    assert network(100, 1).n_parameters == 101


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": [], "biases": []}, "at least one"),
        ({"weights": [[[1.0, 2.0]]]}, "as many biases as weights"),
        ({"weights": [[[1.0], [2.0], [3.0]], [[1.0, 1.0]]]}, "layer 0 has 3 outputs"),
        ({"weights": [[[1.0], [2.0]], [[1.0, 1.0], [1.0, 1.0]]]}, "layer 1 has 2 outputs"),
        ({"biases": [[0.0, 0.0], [1.0, 2.0]]}, "layer 1 has 1 outputs and 2 biases"),
        ({"weights": [[[1.0], [np.nan]], [[1.0, 1.0]]]}, r"weights\[0\] must be finite"),
        ({"weights": [[[1.0], [2.0, 3.0]], [[1.0, 1.0]]]}, r"weights\[0\] must be 2-dim"),
        ({"weights": [[1.0, 2.0], [[1.0, 1.0]]]}, r"weights\[0\] must have 2 dimensions"),
        ({"biases": [[0.0, 0.0], []]}, r"biases\[1\] must have 1 dimensions and entries"),
        ({"biases": "abc"}, "biases must be a list"),
        ({"activation": "tanh"}, "unknown activation 'tanh'; choose from relu, gelu"),
        ({"floor": 0.0}, "not both zero"),
        ({"offset": -0.1}, "not negative"),
        ({"offset": np.inf}, "finite"),
        ({"floor": np.nan}, "finite"),
    ],
)
def test_what_is_not_a_network_is_refused(change, message):
    good = {
        "weights": [[[1.0], [2.0]], [[1.0, 1.0]]],
        "biases": [[0.0, 0.0], [1.0]],
        "activation": "relu",
        "offset": 0.0,
        "floor": 1e-3,
    }
    NetworkMap(**good)
    with pytest.raises(InputError, match=message):
        NetworkMap(**{**good, **change})


def test_scores_of_another_width_are_refused():
    with pytest.raises(InputError, match=r"the 6 columns this network was fitted on; got .*5\)"):
        network(6, 1)(np.zeros((3, 5)))
    with pytest.raises(InputError, match="the 6 columns"):
        network(6, 1)(np.zeros(3))


# SMART


@pytest.mark.parametrize("goal", ["bce", "nll", "brier", "softece", "mixed(0.3)"])
def test_the_gradient_agrees_with_differences(goal):
    z, y = simulate(90, 5, seed=1)
    weight = np.random.default_rng(0).random(90)
    split = make_split(z, y, goal=goal, weight=weight)
    theta = _first_weights(split, 16)
    _, gradient = _loss_and_gradient(split, theta)
    step = 1e-6 * np.eye(len(theta))
    difference = [
        _loss_and_gradient(split, theta + h)[0] - _loss_and_gradient(split, theta - h)[0]
        for h in step
    ]
    np.testing.assert_allclose(gradient, np.array(difference) / 2e-6, rtol=1e-5, atol=1e-8)
    assert (gradient != 0).mean() > 0.8  # a unit may be off everywhere


def test_smart_agrees_with_torch_after_fifty_epochs():
    torch = pytest.importorskip("torch", reason="compares with torch")
    z, y = simulate(120, 6, seed=2)
    split = make_split(z, y)
    theta = torch.tensor(_first_weights(split, 16), requires_grad=True)
    u, right = torch.tensor(split.scores), torch.tensor(split.gaps.correct, dtype=torch.float64)
    optimiser = torch.optim.Adam([theta], lr=5e-3)
    best = (np.inf, None)
    for epoch in range(51):
        lines = theta[:32].reshape(16, 2)
        hidden = torch.relu(u[:, None] * lines[:, 0] + lines[:, 1])
        temperature = 0.1 + torch.nn.functional.softplus(hidden @ theta[32:48] + theta[48])
        confidence = torch.softmax(torch.tensor(z) / temperature[:, None], dim=1).max(dim=1).values
        loss = torch.nn.functional.binary_cross_entropy(confidence, right)
        best = min(best, (loss.item(), theta.detach().numpy().copy()), key=lambda pair: pair[0])
        if epoch < 50:
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    ours = _descend(split, _first_weights(split, 16), epochs=50, rate=5e-3)
    np.testing.assert_allclose(ours, best[1], atol=1e-6)
    assert abs(_loss_and_gradient(split, ours)[0] - best[0]) < 1e-9


@pytest.mark.parametrize("goal", ["bce", "nll", "softece"])
@pytest.mark.parametrize("epochs", [0, 3, 300])
def test_smart_is_never_worse_than_its_scalar_start(goal, epochs):
    for seed in range(3):
        split = make_split(*simulate(200, 8, seed=seed), goal=goal)
        fit = fit_smart(split, epochs=epochs)
        assert fitted_loss(split, fit.map) <= pooled_loss(split)
        assert isinstance(fit.map, ScalarMap) == ("scalar_fallback" in fit.flags)
        assert fit.counts == (200,)
        if epochs == 300:
            assert isinstance(fit.map, NetworkMap)
            assert fit.map.n_parameters == 49


def test_a_scalar_below_what_smart_can_reach_is_kept():
    z, y = simulate(200, 8)
    split = make_split(z * 0.04, y)
    assert split.pooled.value < SMART_OFFSET
    fit = fit_smart(split, epochs=100)
    assert "scalar_fallback" in fit.flags
    assert fit.map.temperature == split.pooled.value


def test_smart_finds_a_temperature_that_varies_with_the_margin():
    z, y = simulate(2000, 6, seed=4)
    margin = np.ptp(np.sort(z, axis=1)[:, -2:], axis=1)
    z *= np.where(margin > np.median(margin), 2.0, 1.0)[:, None]
    split = make_split(z, y)
    fitted = fit_smart(split, epochs=600).map
    temperature = fitted(split.scores)
    low, high = (temperature[half].mean() for half in (split.scores < -0.5, split.scores > 0.5))
    assert high > 1.3 * low
    assert fitted_loss(split, fitted) < pooled_loss(split) - 0.002


def test_a_weight_of_two_is_a_sample_twice():
    z, y = simulate(80, 5, seed=3)
    twice = np.arange(80) % 3 == 0
    weighted = make_split(z, y, weight=1.0 + twice)
    doubled = make_split(np.vstack([z, z[twice]]), np.concatenate([y, y[twice]]))
    scores = np.concatenate([weighted.scores, weighted.scores[twice]])
    doubled = replace(doubled, scores=scores)
    one, two = fit_smart(weighted, epochs=300).map, fit_smart(doubled, epochs=300).map
    assert isinstance(one, NetworkMap)
    np.testing.assert_allclose(one(weighted.scores), two(weighted.scores), rtol=1e-8)


def test_the_same_seed_gives_the_same_bits_and_the_global_state_is_left_alone():
    z, y = simulate(150, 5)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    one, two, other = (
        fit_smart(make_split(z, y, seed=seed), epochs=400).map.weights for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    for a, b, c in zip(one, two, other, strict=True):
        np.testing.assert_array_equal(a, b)
        assert (a != c).all()


@pytest.mark.parametrize("case", ["one wrong", "one right", "one wrong by weight"])
def test_thin_evidence_gives_the_scalar(case):
    z, _ = simulate(60, 4)
    y, weight = z.argmax(axis=1), None
    if case == "one right":
        y[1:] = z[1:].argmin(axis=1)
    else:
        y[0] = z[0].argmin()
    if case == "one wrong by weight":
        y[1] = z[1].argmin()
        weight = np.r_[1.0, 0.0, np.ones(58)]
    split = make_split(z, y, weight=weight)
    fit = fit_smart(split, epochs=5)
    assert "scalar_fallback" in fit.flags
    assert fit.map == ScalarMap(split.pooled.value)
    assert fit.counts == (60,)


def test_scores_that_coincide_give_one_temperature():
    split = replace(make_split(*simulate(60, 4)), scores=np.zeros(60))
    fit = fit_smart(split, epochs=400)
    assert np.ptp(fit.map(split.scores)) == 0
