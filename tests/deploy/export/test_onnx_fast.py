"""Single precision in ONNX, row by row against the runtime in double precision."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smallcal.calibrators.program import BELOW
from smallcal.deploy.export import onnx_rows, onnx_top, to_onnx
from smallcal.deploy.export.onnx_last import Last, LastProduct, LastSoftmax
from smallcal.deploy.export.onnx_nodes import Graph
from support.backends import session_of
from support.cases import fit, fitted_once
from support.simulated import simulate

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

FAST = ["ts-nll", "srts-bce", "default", "srts-bce+tail", "class-linear"]
#: Two, few, many in equal parts, many in none.
WIDTHS = (2, 12, 100, 300, 257)


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


def run(graph, source, outputs, row):
    """Run nodes that read ``source``, a matrix."""
    kind = onnx.helper.np_dtype_to_tensor_dtype
    ends = [
        onnx.helper.make_tensor_value_info(source, kind(row.dtype), [None, row.shape[1]]),
        *(onnx.helper.make_tensor_value_info(name, kind(np.dtype(t)), None) for name, t in outputs),
    ]
    body = onnx.helper.make_graph(graph.nodes, "g", ends[:1], ends[1:], graph.initializers)
    opset = [onnx.helper.make_opsetid("", graph.opset)]
    model = onnx.helper.make_model(body, opset_imports=opset, ir_version=8)
    return session_of(model.SerializeToString()).run(None, {source: row})


@pytest.mark.parametrize("opset", [17, 18])
@pytest.mark.parametrize("width", [2, 63, 64, 97, 100, 128, 1000])
def test_the_two_largest_and_the_first_place(width, opset):
    """Few whole numbers, so that many rows have ties."""
    rng = np.random.default_rng(width)
    z = rng.integers(-width, width, size=(300, width)).astype(np.float32)
    z[0], z[1] = 3.0, np.arange(width)
    graph = Graph(onnx, opset=opset)
    largest, second, place = onnx_top.two_largest(graph, "z", width)
    again = onnx_top.place_of_largest(graph, "z", width)
    outputs = [(largest, "f4"), (second, "f4"), (place, "i8"), (again, "i8")]
    found = np.hstack([column.astype(float) for column in run(graph, "z", outputs, z)])
    first = z.argmax(axis=1)
    expected = np.sort(z, axis=1)[:, ::-1][:, :2]
    np.testing.assert_array_equal(found, np.column_stack([expected, first, first]))


@pytest.mark.parametrize("last", [Last(), LastProduct(), LastSoftmax()])
def test_the_last_step_gives_rows_back(last):
    """With a rival as near the top as one is ever held, where confidences are large or small."""
    rng = np.random.default_rng(0)
    p = rng.random((500, 700)) ** rng.uniform(0, 99, size=(500, 1))
    p[:, 3] = p.max(axis=1) * (1 + rng.random(500))
    p[:, 5] = p[:, 3] * BELOW
    p /= p.sum(axis=1, keepdims=True)
    graph = Graph(onnx, opset=17)
    (found,) = run(graph, "p", [(last.ended(graph, *last.undone(graph, "p")), "f4")], p)
    np.testing.assert_allclose(found, p, atol=3e-7)
    rivals = np.delete(found, 3, axis=1).max(axis=1)
    assert (found[:, 3] > rivals).all()
