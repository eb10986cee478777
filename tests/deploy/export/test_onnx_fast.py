"""Single precision in ONNX, row by row against the runtime in double precision."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smallcal.deploy.export import onnx_rows, to_onnx
from support.backends import session_of
from support.cases import fit, fitted_once
from support.simulated import simulate

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

FAST = ["ts-nll", "srts-bce", "default", "srts-bce+tail", "class-linear"]
#: Two, few, many in equal parts, many in none.
WIDTHS = (2, 12, 300, 257)


@cache
def made(name, n_classes):
    fitted = fit(name, *simulate(400, n_classes, seed=n_classes)).fitted_
    return fitted, session_of(to_onnx(fitted))


def nodes(graph):
    for node in graph.node:
        yield node.op_type
        for attribute in node.attribute:
            yield from nodes(attribute.g)


def test_which_methods_are_in_single_precision():
    def quick(name, **options):
        content = to_onnx(fitted_once(name).fitted_, **options)
        return "Scan" in set(nodes(onnx.load_from_string(content).graph))

    assert all(quick(name) for name in ("ts-nll", "srts-bce", "default"))
    assert quick("default", dtype="float16")
    assert not quick("default", dtype="float64")
    assert not quick("dirichlet-odir")
    assert not quick("hts-bce")  # the logarithm of an entropy near 0 needs all its digits


def hostile(rng, kind, n_classes):
    """Draw a row of logits on which single precision may fail."""
    z = rng.normal(scale=3, size=n_classes).astype(np.float32)
    at = rng.permutation(n_classes)
    top = z.max() + np.float32(rng.choice([0.0, 0.01, 3.0]))
    if kind == "tie":
        z[at[:2]] = top
    elif kind == "near":
        z[at[0]], z[at[1]] = top, np.nextafter(top, np.float32(-np.inf))
    elif kind == "alike":
        z[:] = np.nextafter(top, np.float32(rng.choice([-99, 99])))
        z[at[0]] = top
    elif kind == "saturated":
        z[at[0]] += np.float32(10.0 ** rng.integers(1, 5))
    elif kind == "large":
        z = (z + 10.0 ** rng.integers(2, 5)).astype(np.float32)
    elif kind == "flat":
        z[:] = z[0]
    elif kind == "half":
        z = z.astype(np.float16).astype(np.float32)
    return z


KINDS = ["plain", "tie", "near", "alike", "saturated", "large", "flat", "half"]


@pytest.mark.parametrize("name", FAST)
@settings(max_examples=30)
@given(
    n_classes=st.sampled_from(WIDTHS),
    kinds=st.lists(st.sampled_from(KINDS), max_size=40),
    seed=st.integers(0, 2**32 - 1),
)
def test_hostile_rows_are_the_runtimes_in_double(name, n_classes, kinds, seed):
    fitted, session = made(name, n_classes)
    rng = np.random.default_rng(seed)
    rows = [hostile(rng, kind, n_classes) for kind in kinds]
    z = np.array(rows, dtype=np.float32).reshape(-1, n_classes)
    (found,) = session.run(["probabilities"], {"logits": z})
    assert (found.shape, found.dtype) == (z.shape, np.float32)
    if len(z):
        np.testing.assert_allclose(found, fitted.predict_proba(z.astype(float)), atol=1e-6)
        if fitted.preserves_argmax:
            np.testing.assert_array_equal(found.argmax(axis=1), z.argmax(axis=1))


def test_rows_at_the_edge_of_a_group_fall_where_double_puts_them():
    """Rows are scaled until their scores lie within a rounding of a threshold."""
    fitted, session = made("srts-bce", 12)
    z = simulate(2000, 12, seed=8)[0]
    edge = fitted.map.thresholds[0]
    low, high = np.full((len(z), 1), 0.3), np.full((len(z), 1), 3.0)
    above = fitted.scores(low * z) >= edge
    cross = above != (fitted.scores(high * z) >= edge)
    z, low, high, above = z[cross], low[cross], high[cross], above[cross]
    assert len(z) > 50
    for _ in range(40):
        middle = (low + high) / 2
        same = ((fitted.scores(middle * z) >= edge) == above)[:, None]
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    near = (low * z).astype(np.float32)
    assert np.abs(fitted.scores(near.astype(float)) - edge).max() < 1e-6
    (found,) = session.run(["temperature"], {"logits": near})
    np.testing.assert_allclose(found, fitted.temperature(near.astype(float)), rtol=1e-6)


def test_blocks_change_nothing(monkeypatch):
    fitted, session = made("default", 12)
    z = simulate(1000, 12, seed=5)[0].astype(np.float32)
    monkeypatch.setattr(onnx_rows, "BLOCK", 12 * 64)
    blocks = session_of(to_onnx(fitted))
    for n in (1000, 997, 64, 50, 1):
        (expected,) = session.run(["probabilities"], {"logits": z[:n]})
        (found,) = blocks.run(["probabilities"], {"logits": z[:n]})
        np.testing.assert_allclose(found, expected, atol=3e-7)


def test_what_is_no_number_gives_none():
    z = simulate(20, 12, seed=5)[0].astype(np.float32)
    z[3, 2], z[4, 5] = np.nan, np.inf
    for name in ("ts-nll", "srts-bce", "default"):
        fitted, session = made(name, 12)
        (found,) = session.run(["probabilities"], {"logits": z})
        assert np.isnan(found[[3, 4]]).any(axis=1).all()
        good = np.delete(np.arange(20), [3, 4])
        np.testing.assert_allclose(found[good], fitted.predict_proba(z[good]), atol=1e-6)
