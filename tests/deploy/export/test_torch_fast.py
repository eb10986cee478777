"""Single precision in blocks, and row by row, against the plain program in double."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed")

from smallcal.calibrators.maps import GroupMap  # noqa: E402
from smallcal.calibrators.signals.statistic import Statistic  # noqa: E402
from smallcal.deploy.export import torch_narrow  # noqa: E402
from smallcal.deploy.export.torch import to_torch  # noqa: E402
from smallcal.deploy.export.translate import program_of  # noqa: E402
from support.cases import DEPLOYABLE, RANDOM_CONTROLS, drawn, fit, fitted_once, predict  # noqa: E402
from support.simulated import simulate  # noqa: E402

EXPORTABLE = [name for name in DEPLOYABLE if name not in RANDOM_CONTROLS]
NARROW = [name for name in EXPORTABLE if program_of(fitted_once(name).fitted_).narrow]
#: Ties, neighbours, saturated rows, and what no model gives.
LOGITS = st.sampled_from([-800.0, -3.0, 0.0, 1e-7, 2.0, 2.0000002, 40.0, 800.0, -1e15, 1e15, 1e-40])
ODD = st.sampled_from([np.nan, np.inf, -np.inf, 1e16, 0.0, 2.0])


def rows_of(numbers, width=12):
    return st.lists(st.lists(numbers, min_size=width, max_size=width), max_size=9)


def both(module, z):
    """What a module gives for all rows at once and one by one, and the plain program."""
    fast = module(z)
    single = [module(row) for row in z]
    with torch.no_grad():
        plain = module._whole(z, None, None)
    return fast, torch.stack(single) if single else fast, plain


def agree(module, z, *, atol=1e-6):
    fast, single, plain = both(module, z)
    for found in (fast, single):
        assert found.dtype == z.dtype
        np.testing.assert_allclose(found.double(), plain.double(), rtol=0, atol=atol)
        if module.preserves_argmax:
            usable = ~plain.isnan().any(-1)
            assert torch.equal(found[usable].argmax(-1), z[usable].argmax(-1))


def test_the_methods_that_people_deploy_are_narrow():
    assert {"ts-nll", "srts-bce", "adaptive", "srts-bce+tail"} <= set(NARROW)
    assert not {"spline-risk", "dirichlet-odir", "matrix-scaling", "log-entropy"} & set(NARROW)


@pytest.mark.parametrize("name", NARROW)
def test_single_precision_gives_what_double_gives(name):
    for n_classes in (2, 5, 40):
        fitted = fit(name, *drawn(name, 300, n_classes, seed=n_classes))
        z = drawn(name, 400, n_classes, seed=1)[0].astype(np.float32)
        module = to_torch(fitted.fitted_)
        # A method that falls back to one temperature on one split may not on another.
        assert (module._folded is not None) == program_of(fitted.fitted_).narrow
        agree(module, torch.from_numpy(z))
        np.testing.assert_allclose(module(torch.from_numpy(z)), predict(fitted, z), atol=2e-6)
        np.testing.assert_allclose(
            module(torch.from_numpy(z)), predict(fitted, z.astype(float)), atol=1e-6
        )


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(NARROW), rows=rows_of(LOGITS) | rows_of(LOGITS | ODD))
def test_hostile_rows(name, rows):
    z = torch.tensor(rows, dtype=torch.float32).reshape(-1, 12)
    agree(to_torch(fitted_once(name).fitted_), z)


@settings(max_examples=20, deadline=None)
@given(rows=rows_of(LOGITS | ODD, width=2), name=st.sampled_from(["default", "srts-bce"]))
def test_two_classes(rows, name):
    module = to_torch(fit(name, *simulate(200, 2, seed=1)).fitted_)
    agree(module, torch.tensor(rows, dtype=torch.float32).reshape(-1, 2))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["ts-nll", "srts-bce", "default"])
def test_halves(name, dtype):
    z = torch.from_numpy(simulate(300, 12, seed=3)[0]).to(dtype)
    agree(to_torch(fitted_once(name).fitted_), z, atol=2 * torch.finfo(dtype).eps)


def test_blocks_change_no_bit(monkeypatch):
    z = torch.from_numpy(simulate(300, 12, seed=3)[0]).float()
    for name in ("ts-nll", "srts-bce"):
        module = to_torch(fitted_once(name).fitted_)
        whole = module(z)
        with monkeypatch.context() as patched:
            patched.setattr(torch_narrow, "BLOCK", 100)
            assert torch.equal(module(z), whole)


def test_a_row_near_a_threshold_is_decided_in_double():
    steps = GroupMap((1.0,), (0.5, 4.0))
    base = fitted_once("tva-ts").fitted_
    parts = {"signal": Statistic("entropy"), "map": steps, "group_counts": (1, 1)}
    module = to_torch(replace(base, n_classes=3, reference=None, **parts))
    third = np.linspace(-2.0, 0.0, 200_001)
    z = np.column_stack([0 * third, third - 0.5, third]).astype(np.float32)
    scores = -(p := torch.softmax(torch.from_numpy(z).double(), -1)).mul(p.log()).sum(-1)
    nearest = (scores - 1.0).abs().argsort()[:50]
    agree(module, torch.from_numpy(z)[nearest])


def test_predictions_that_a_correction_moves_are_kept():
    z, y = simulate(600, 6, seed=2)
    rng = np.random.default_rng(0)
    y = np.where(rng.random(600) < 0.4, (y + 1) % 6, y)  # classes that are taken for another
    fitted = fit("default", z, y)
    if fitted.fitted_.correction is None:
        pytest.skip("no correction was found")
    moved = fitted.fitted_.correction(z).argmax(axis=1) != z.argmax(axis=1)
    assert moved.any()
    agree(to_torch(fitted.fitted_), torch.from_numpy(z).float())


def test_logits_are_left_as_they_are():
    z = torch.from_numpy(simulate(50, 12, seed=3)[0]).float()
    before = z.clone()
    for name in NARROW:
        module = to_torch(fitted_once(name).fitted_)
        module(z), module(z[0])
    assert torch.equal(z, before)


def test_a_result_goes_on_in_a_graph():
    module = to_torch(fitted_once("default").fitted_)
    weight = torch.ones(12, requires_grad=True)
    (module(torch.zeros(9, 12)) * weight).sum().backward()
    assert weight.grad.isfinite().all()


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace:DeprecationWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_what_makes_graphs_sees_no_numbers():
    z = torch.from_numpy(simulate(9, 12, seed=3)[0]).float()
    other = torch.from_numpy(simulate(9, 12, seed=4)[0]).float()
    module = to_torch(fitted_once("srts-bce").fitted_)
    expected = module(other)
    traced = torch.jit.trace(module, z, check_trace=False)
    graph = torch.fx.experimental.proxy_tensor.make_fx(module)(z)
    for found in (traced(other), graph(other), torch.func.vmap(module)(other)):
        np.testing.assert_allclose(found.detach(), expected, atol=1e-6)


def test_a_state_that_changes_is_read_again():
    first, second = (fit("srts-bce", *simulate(600, 12, seed=seed)) for seed in (1, 2))
    z = torch.from_numpy(simulate(9, 12, seed=3)[0]).float()
    one, other = to_torch(first.fitted_), to_torch(second.fitted_)
    assert not torch.equal(one(z), other(z))
    one.load_state_dict(other.state_dict())
    assert torch.equal(one(z), other(z))
    assert torch.equal(one(z[:1]), other(z[:1]))
