"""The unrestricted heads: training against plain torch, the sweeps, and what they leave alone."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from smallcal.calibrators.discipline import Discipline
from smallcal.calibrators.maps.base import Split, loss_and_slope
from smallcal.calibrators.maps.network import NetworkMap
from smallcal.calibrators.maps.temperature import ScalarMap, fit_temperature
from smallcal.calibrators.objectives import Gaps, objective
from smallcal.data.predictions import Predictions
from smallcal.errors import InputError, MissingExtraError
from smallcal_lab.methods import heads
from smallcal_lab.methods.curves import pooled_loss
from smallcal_lab.methods.heads import PROTOCOLS, Cell, fit_head, sweep, train
from support.simulated import simulate

torch = pytest.importorskip("torch", reason="the heads are trained by torch")


def make_split(z, y, *, goal="nll", weight=None, seed=0, scores=None):
    preds = Predictions.of(z, y, weight=weight)
    gaps = Gaps.of(preds)
    discipline = Discipline(seed=seed)
    pooled = fit_temperature(objective(goal), gaps, bounds=discipline.bounds)
    scores = preds.logits if scores is None else scores
    return Split(preds, gaps, objective(goal), pooled, scores, discipline)


@pytest.fixture
def small():
    return make_split(*simulate(150, 5))


def loss_of(split, fitted):
    return loss_and_slope(split.goal, split.gaps, fitted(split.scores))[0]


# Losses, slopes, steps


@pytest.mark.parametrize("hidden", [0, 16])
@pytest.mark.parametrize("goal", ["nll", "bce"])
def test_training_agrees_with_plain_torch(goal, hidden):
    z, y = simulate(80, 5, seed=1)
    weight = np.random.default_rng(0).random(80)
    split = make_split(z, y, goal=goal, weight=weight)
    cell = Cell(hidden, 1e-2, 0.1)
    ours = train(split, cell, epochs=40, patience=None).network

    start = train(split, cell, epochs=0, patience=None).network
    model = torch.nn.Sequential(torch.nn.Linear(5, hidden or 1))
    if hidden:
        model.extend([torch.nn.GELU(), torch.nn.Linear(hidden, 1)])
    linear = [layer for layer in model if isinstance(layer, torch.nn.Linear)]
    for layer, weight, bias in zip(linear, start.weights, start.biases, strict=True):
        layer.weight.data = torch.tensor(weight, dtype=torch.float32)
        layer.bias.data = torch.tensor(bias, dtype=torch.float32)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    logits, labels = torch.tensor(z, dtype=torch.float32), torch.tensor(y)
    share = torch.tensor(split.gaps.weights / split.gaps.total, dtype=torch.float32)
    for _ in range(40):
        temperature = torch.nn.functional.softplus(model(logits)).clamp(min=1e-3)
        log_p = torch.log_softmax(logits / temperature, dim=1)
        if goal == "nll":
            losses = -log_p.gather(1, labels[:, None])[:, 0]
        else:
            top = logits.argmax(dim=1)
            log_c = log_p.max(dim=1).values
            others = torch.arange(5) != top[:, None]
            log_doubt = log_p.where(others, torch.tensor(-torch.inf)).logsumexp(dim=1)
            losses = -torch.where(top == labels, log_c, log_doubt)
        optimiser.zero_grad()
        (losses @ share).backward()
        optimiser.step()
    for layer, weight, bias in zip(linear, ours.weights, ours.biases, strict=True):
        np.testing.assert_allclose(weight, layer.weight.detach().numpy(), atol=2e-5)
        np.testing.assert_allclose(bias, layer.bias.detach().numpy(), atol=2e-5)


# The protocols


@pytest.mark.parametrize(("protocol", "n_cells"), [("in-sample", 48), ("held-out", 36)])
def test_a_sweep_tries_every_cell(small, protocol, n_cells):
    cells = [each.cell for each in sweep(small, protocol=protocol, epochs=2)]
    assert len(cells) == len(set(cells)) == n_cells
    assert {cell.learning_rate for cell in cells} == {1e-3, 1e-4, 1e-5}
    assert {cell.weight_decay for cell in cells} == {0, 1e-4, 1e-3, 1e-2}
    widths = {16, 32, 128} if protocol == "held-out" else {0, 16, 32, 128}
    assert {cell.hidden for cell in cells} == widths


@pytest.mark.slow
def test_in_sample_keeps_the_lowest_loss(small):
    tried = sweep(small, protocol="in-sample", epochs=150)
    fitted = fit_head(small, protocol="in-sample", epochs=150).map
    losses = [loss_of(small, each.network) for each in tried]
    np.testing.assert_allclose(losses, [each.loss for each in tried], rtol=1e-5)
    assert loss_of(small, fitted) == min(losses)
    assert min(losses) < pooled_loss(small)
    assert isinstance(fitted, NetworkMap)
    assert (fitted.activation, fitted.offset, fitted.floor) == ("gelu", 0.0, 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("refit", ["patience", "epochs"])
def test_held_out_trains_the_chosen_cell_again_on_everything(refit):
    split = make_split(*simulate(300, 5, seed=2), goal="bce")
    tried = sweep(split, protocol="held-out", epochs=100, patience=5)
    chosen = min(tried, key=lambda each: each.loss)
    assert chosen.epochs < 100
    as_long = {"patience": (100, 5), "epochs": (chosen.epochs, None)}
    steps, wait = as_long[refit]
    again = train(split, chosen.cell, epochs=steps, patience=wait)
    fit = fit_head(split, protocol="held-out", refit=refit, epochs=100, patience=5)
    assert fit.counts == (300,)
    for ours, expected in zip(fit.map.weights, again.network.weights, strict=True):
        np.testing.assert_array_equal(ours, expected)
    plain = fit_head(split, protocol="held-out", epochs=100, patience=5).map
    same = np.array_equal(plain.weights[0], fit.map.weights[0])
    assert same == (refit == "patience")
    # The chosen loss is that of the held-out fifth, not of the samples trained on.
    gaps = replace(split.gaps, weight=heads.judging_rows(split) * 1.0)
    temperature = chosen.network(split.scores)
    assert loss_and_slope(split.goal, gaps, temperature)[0] == pytest.approx(chosen.loss, rel=1e-5)


def test_fixed_trains_one_wide_cell(small):
    (tried,) = sweep(small, protocol="fixed", epochs=20)
    assert tried.cell == Cell(128, 1e-3, 0.0)
    fitted = fit_head(small, protocol="fixed", epochs=20).map
    np.testing.assert_array_equal(fitted.weights[0], tried.network.weights[0])
    assert fitted.n_parameters == 5 * 128 + 128 + 128 + 1


@pytest.mark.parametrize(
    ("n", "n_classes", "by"), [(600, 12, "class"), (250, 100, "outcome"), (20, 9, "chance")]
)
def test_every_fifth_sample_judges(n, n_classes, by):
    z, y = simulate(n, n_classes, signal=6.0)
    if by == "chance":
        y = z.argmax(axis=1)
        y[:3] = z[:3].argmin(axis=1)
    split = make_split(z, y)
    judged = heads.judging_rows(split)
    assert judged.sum() == n // 5
    kinds = {"class": y, "outcome": split.gaps.correct, "chance": np.zeros(n)}[by]
    for kind in np.unique(kinds):
        assert abs(judged[kinds == kind].sum() - (kinds == kind).sum() / 5) < 1
    assert (heads.judging_rows(make_split(z, y, seed=1)) != judged).any()


def test_held_out_samples_are_not_trained_on(small):
    judged = heads.judging_rows(small)
    labels = np.where(judged, (small.preds.labels + 1) % 5, small.preds.labels)
    other = make_split(small.preds.logits, labels)
    one, two = (
        train(split, Cell(16, 1e-3, 0.0), judged, epochs=5, patience=None)
        for split in (small, other)
    )
    np.testing.assert_array_equal(one.network.weights[0], two.network.weights[0])
    assert one.loss != two.loss


def test_samples_without_weight_neither_train_nor_judge():
    z, y = simulate(200, 5)
    keep = np.arange(200) % 4 != 0
    wild = np.where(keep[:, None], z, -30 * z)
    some = make_split(wild, y, goal="bce", weight=keep * 1.0)
    only = make_split(z[keep], y[keep], goal="bce")
    for protocol in ("fixed", "held-out"):
        one, two = (fit_head(s, protocol=protocol, epochs=30).map for s in (some, only))
        np.testing.assert_allclose(one(z), two(z), rtol=1e-4)


# Stopping


def test_a_cell_stops_when_its_loss_no_longer_falls():
    split = make_split(*simulate(60, 5, seed=3))
    judged = heads.judging_rows(split)
    cell = Cell(128, 3e-2, 0.0)  # so fast that it soon overfits
    found = train(split, cell, judged, epochs=400, patience=7)
    assert found.epochs < 100
    longer = train(split, cell, judged, epochs=found.epochs, patience=7)
    np.testing.assert_array_equal(found.network.weights[0], longer.network.weights[0])
    # Without patience the last weights are kept, though their loss is higher.
    last = train(split, cell, judged, epochs=found.epochs + 7, patience=None)
    assert last.epochs == found.epochs + 7
    assert last.loss > found.loss


# Repeatable, and without side effects


def test_the_same_seed_gives_the_same_bits(small):
    threads = torch.get_num_threads()
    try:
        fits = []
        for n_threads in (1, 2):
            torch.set_num_threads(n_threads)
            fits.append(fit_head(small, protocol="held-out", epochs=15).map)
            assert torch.get_num_threads() == n_threads
    finally:
        torch.set_num_threads(threads)
    other = fit_head(make_split(*simulate(150, 5), seed=1), protocol="held-out", epochs=15).map
    one, two = fits
    for a, b in zip((*one.weights, *one.biases), (*two.weights, *two.biases), strict=True):
        np.testing.assert_array_equal(a, b)
    assert (
        other.weights[0].shape != one.weights[0].shape or (other.weights[0] != one.weights[0]).any()
    )


def test_threads_are_given_back_after_an_error(small, monkeypatch):
    def fail(*_, **__):
        assert torch.get_num_threads() == 1
        raise RuntimeError("no")

    threads = torch.get_num_threads()
    monkeypatch.setattr(heads, "train", fail)
    try:
        torch.set_num_threads(2)
        with pytest.raises(RuntimeError, match="no"):
            fit_head(small, protocol="fixed")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def test_the_global_random_states_are_neither_read_nor_written(small):
    torch.manual_seed(1)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    one = fit_head(small, protocol="held-out", epochs=3).map
    assert torch.equal(torch.get_rng_state(), before[0])
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    torch.manual_seed(2)
    two = fit_head(small, protocol="held-out", epochs=3).map
    np.testing.assert_array_equal(one(small.scores), two(small.scores))


def test_the_callers_torch_settings_do_not_matter(small):
    expected = fit_head(small, protocol="fixed", epochs=5).map(small.scores)
    torch.set_default_dtype(torch.float64)
    try:
        with torch.inference_mode():
            found = fit_head(small, protocol="fixed", epochs=5).map(small.scores)
            assert torch.is_inference_mode_enabled()
        with torch.no_grad():
            again = fit_head(small, protocol="fixed", epochs=5).map(small.scores)
    finally:
        torch.set_default_dtype(torch.float32)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(again, expected)


# What cannot be fitted


def test_one_wrong_prediction_gives_the_scalar():
    z, _ = simulate(60, 4)
    y = z.argmax(axis=1)
    y[0] = z[0].argmin()
    split = make_split(z, y)
    for protocol in PROTOCOLS:
        fit = fit_head(split, protocol=protocol)
        assert fit.flags == {"scalar_fallback": []}
        assert fit.map == ScalarMap(split.pooled.value)
        assert fit.counts == (60,)


def test_unknown_choices_are_refused(small):
    with pytest.raises(InputError, match="unknown protocol 'loo'; choose from in-sample, held-out"):
        fit_head(small, protocol="loo")
    with pytest.raises(InputError, match="unknown refit 'long'; choose from patience, epochs"):
        fit_head(small, protocol="held-out", refit="long")
    with pytest.raises(InputError, match="the protocol 'fixed' holds none out; leave refit away"):
        fit_head(small, protocol="fixed", refit="epochs")
    with pytest.raises(InputError, match="adds over samples, which softece does not"):
        fit_head(replace(small, goal=objective("softece")), protocol="fixed")


def test_without_torch_the_error_says_what_to_install(small, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"needs the package 'torch': pip install .*torch"):
        fit_head(small, protocol="fixed")


def test_features_of_any_width_and_type_are_taken():
    z, y = simulate(100, 4)
    features = np.random.default_rng(0).normal(size=(100, 40)).astype(np.float32)
    split = make_split(z, y, scores=features)
    fit = fit_head(split, protocol="fixed", epochs=5)
    assert fit.map.weights[0].shape == (128, 40)
    assert (fit.map(features) >= 1e-3).all()
