"""The torch module beside the methods: rows that are none, graphs, states."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed")

from smallcal.deploy.export.torch import to_torch  # noqa: E402
from support.cases import fit, fitted_once, predict  # noqa: E402
from support.simulated import simulate  # noqa: E402

METHODS = ["ts-nll", "srts-bce", "default", "class-linear"]
#: Ties, neighbours, saturated rows, and what no model gives.
LOGITS = st.sampled_from([-800.0, -3.0, 0.0, 1e-7, 2.0, 2.0000002, 40.0, 800.0, -1e14, 1e14, 1e-40])
ODD = st.sampled_from([np.nan, np.inf, -np.inf, 1e16, 0.0, 2.0])


def rows_of(numbers, width=12):
    return st.lists(st.lists(numbers, min_size=width, max_size=width), max_size=9)


def agree(fitted, rows):
    """Rows that can be one are as in NumPy, in single precision, alone and together."""
    z = torch.tensor(rows, dtype=torch.float32).reshape(-1, fitted.fitted_.n_classes)
    module = to_torch(fitted.fitted_)
    found = module(z)
    usable = (z < 1e15).all(dim=-1) & ((z > -1e15).sum(dim=-1) >= 2)
    assert found[~usable].isnan().all()
    expected = predict(fitted, z[usable].double().numpy()) if usable.any() else found[usable]
    np.testing.assert_allclose(found[usable], expected, rtol=0, atol=1e-6)
    for each, row in zip(found, z, strict=True):
        torch.testing.assert_close(module(row), each, rtol=0, atol=1e-6, equal_nan=True)


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(METHODS), rows=rows_of(LOGITS) | rows_of(LOGITS | ODD))
def test_hostile_rows(name, rows):
    agree(fitted_once(name), rows)


@settings(max_examples=20, deadline=None)
@given(rows=rows_of(LOGITS | ODD, width=2), name=st.sampled_from(["default", "srts-bce"]))
def test_two_classes(rows, name):
    agree(fit(name, *simulate(200, 2, seed=1)), rows)


def test_logits_are_left_as_they_are():
    z = torch.from_numpy(simulate(50, 12, seed=3)[0]).float()
    before = z.clone()
    for name in METHODS:
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
    for name in ("srts-bce", "default"):
        module = to_torch(fitted_once(name).fitted_)
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
