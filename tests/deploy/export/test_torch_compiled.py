"""The torch module by the compiled kernel, against the plain program in double."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("numba", reason="numba is not installed")

import smallcal as sc  # noqa: E402
from smallcal.calibrators import compiled  # noqa: E402
from support.cases import fitted_once  # noqa: E402

METHODS = ("ts-nll", "srts-bce", "default")


@pytest.fixture(autouse=True)
def _on():
    compiled._switch.clear()
    sc.use_compiled()
    yield
    compiled._switch.clear()


def module_of(method):
    return fitted_once(method).fitted_, fitted_once(method).to_torch()


def drawn(n, n_classes, seed=0):
    rng = np.random.default_rng(seed)
    z = 2 * rng.standard_normal((n, n_classes), dtype=np.float32)
    z[np.arange(n), rng.integers(n_classes, size=n)] += 8 * rng.random(n, dtype=np.float32)
    return torch.from_numpy(z)


def agree(module, z):
    found = module(z)
    with torch.no_grad():
        plain = module._whole(z, None, None)
    assert found.shape == z.shape
    assert found.dtype == z.dtype
    torch.testing.assert_close(found, plain, rtol=0, atol=1e-6, equal_nan=True)
    kept = ~plain.isnan().any(dim=-1)
    assert torch.equal(found[kept].argmax(dim=-1), plain[kept].argmax(dim=-1))


@pytest.mark.parametrize("method", METHODS)
def test_batches_rows_and_shapes(method):
    found, module = module_of(method)
    z = drawn(200, found.n_classes)
    agree(module, z)
    assert module._ready.plan is not None
    for part in (z[0], z[:1], z[:0], z.view(10, 20, -1), z[::3], z.T.contiguous().T):
        agree(module, part)
        whole = module(part.contiguous())
        assert torch.equal(module(part), whole)
    alone = torch.stack([module(row) for row in z])
    assert torch.equal(alone, module(z))
    assert not module(z).is_inference()
    agree(module, torch.nn.Parameter(z, requires_grad=False))


NUMBERS = st.sampled_from([-800.0, -3.0, 0.0, 1e-7, 2.0, 2.0000002, 40.0, 1e-40])
ODD = st.sampled_from([np.nan, np.inf, -np.inf, 1e16, 1e15, 0.0, 2.0])


@settings(max_examples=40)
@given(st.data(), st.sampled_from(METHODS), st.sampled_from([NUMBERS, ODD]))
def test_drawn_rows(data, method, numbers):
    found, module = module_of(method)
    width = found.n_classes
    rows = data.draw(st.lists(st.lists(numbers, min_size=width, max_size=width), max_size=7))
    agree(module, torch.tensor(rows, dtype=torch.float32).reshape(-1, width))


@pytest.mark.parametrize("method", METHODS)
def test_what_the_kernel_is_not_for_goes_the_usual_way(method):
    found, module = module_of(method)
    z = drawn(50, found.n_classes)
    sc.use_compiled(on=False)
    wanted = {kind: module(z.to(kind)) for kind in (torch.float64, torch.float16, torch.bfloat16)}
    before = module(z)
    sc.use_compiled()
    for kind, p in wanted.items():
        assert torch.equal(module(z.to(kind)), p)
    wide = z.clone().requires_grad_()
    p = module(wide)
    p[:, 0].sum().backward()
    assert wide.grad is not None
    sc.use_compiled(on=False)
    assert torch.equal(module(z), before)


def test_a_state_dict_of_other_numbers_is_honoured():
    found, module = module_of("srts-bce")
    z = drawn(50, found.n_classes)
    first = module(z)
    state = copy.deepcopy(module.state_dict())
    other = {**state, "numbers": state["numbers"] * 1.01}
    module.load_state_dict(other)
    agree(module, z)
    assert module._ready.plan is None
    assert not torch.equal(module(z), first)
    module.load_state_dict(state)
    assert torch.equal(module(z), first)
    assert module._ready.plan is not None


def test_copies_and_pickles():
    found, module = module_of("default")
    z = drawn(20, found.n_classes)
    p = module(z)
    for same in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(same(z), p)
