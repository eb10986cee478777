"""The default, exported: the same probabilities, predictions, confidences and decisions."""

from __future__ import annotations

import importlib.util
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smallcal as sc
from smallcal.calibrators.class_frequencies import ClassFrequencies
from smallcal.calibrators.confidence_shift import ConfidenceShift
from smallcal.calibrators.later import with_later
from smallcal.deploy.export import append_to_onnx, to_onnx, to_python, to_sql
from smallcal.deploy.export.translate import program_of
from support.backends import BACKENDS, database, module_of, session_of
from support.cases import fit
from support.decided import near, threshold, with_decisions
from support.program_numpy import decide, run
from support.simulated import simulate

#: Classes, and samples to fit on.
SIZES = {2: 300, 3: 300, 12: 400, 345: 800}
whether_kept = pytest.mark.parametrize("kept", [False, True], ids=["free", "kept"])


def drawn(n, n_classes, seed):
    """Return a split whose classes are often taken for their neighbours."""
    z, y = simulate(n, n_classes, seed=seed)
    mixed = np.random.default_rng(seed).random(n) < 0.3
    return z, np.where(mixed, (y + 1) % n_classes, y)


def shares(z):
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


@cache
def fitted_once(n_classes, *, kept=False, given="logits", masked=False):
    z, y = drawn(SIZES[n_classes], n_classes, seed=n_classes)
    if masked:
        z[::3, n_classes // 2 :] = -np.inf
        y = np.where(np.isinf(z[np.arange(len(y)), y]), 0, y)
    z = shares(z) if given == "probabilities" else z
    with np.errstate(invalid="ignore"):  # of features that the helper makes
        fitted = fit("default", z, y, keep_predictions=kept, input=given).fitted_
    assert fitted.map.kind == "multinomial"
    return fitted


def rows(n_classes, n=20):
    """Return new rows: usual ones, sure ones, ties, and numbers far apart."""
    z, rng = drawn(n, n_classes, seed=9)[0], np.random.default_rng(4)
    z[: n // 4] = rng.normal(scale=30, size=(n // 4, n_classes))
    z[-1], z[-2] = 0, 1e4 * rng.normal(size=n_classes)
    z[-3, :2] = z[-3].max() + 1
    return z


def applied(place, fitted, z):
    backend = BACKENDS[place]
    if not backend.there:
        pytest.skip(f"{backend.needs} is not installed")
    return np.asarray(backend.run(fitted, z))


def agree(found, fitted, z):
    expected = fitted.predict_proba(z)
    np.testing.assert_allclose(found, expected, rtol=3e-7, atol=1e-9)
    # A tie that rounding decides is no difference.
    ahead = expected.max(axis=1) > np.sort(expected, axis=1)[:, -2] * (1 + 1e-6)
    ahead |= fitted.keep_predictions
    same = found.argmax(axis=1) == expected.argmax(axis=1)
    assert same[ahead].all()
    if fitted.keep_predictions:
        np.testing.assert_array_equal(found.argmax(axis=1), z.argmax(axis=1))


@whether_kept
@pytest.mark.parametrize("place", BACKENDS)
@pytest.mark.parametrize("n_classes", SIZES)
def test_every_place(place, n_classes, kept):
    fitted, z = fitted_once(n_classes, kept=kept), rows(n_classes)
    agree(applied(place, fitted, z), fitted, z)


@whether_kept
@pytest.mark.parametrize("place", BACKENDS)
@pytest.mark.parametrize("n_classes", [2, 12])
def test_probabilities_come_in(place, n_classes, kept):
    fitted, p = (
        fitted_once(n_classes, kept=kept, given="probabilities"),
        shares(rows(n_classes)[2:]),
    )
    agree(applied(place, fitted, p), fitted, p)


@whether_kept
@pytest.mark.parametrize("place", BACKENDS)
def test_masked_classes(place, kept):
    fitted, z = fitted_once(12, kept=kept, masked=True), rows(12)
    z[::3, 6:] = -np.inf
    z[3, 2:] = -np.inf
    with np.errstate(invalid="ignore"):  # of features that the helper makes
        found = applied(place, fitted, z)
    agree(found, fitted, z)
    assert (found[np.isinf(z)] == 0).all()


NUMBERS = st.sampled_from([-800.0, -3.0, 0.0, 1e-9, 2.0, 2.0, 40.0, 800.0, 1e14])


@whether_kept
@settings(max_examples=40, deadline=None)
@given(rows=st.lists(st.lists(NUMBERS, min_size=12, max_size=12), min_size=1, max_size=6))
def test_extreme_rows(kept, rows):
    fitted, z = fitted_once(12, kept=kept), np.array(rows)
    agree(run(program_of(fitted), z)[0], fitted, z)


# The confidence of kept predictions.


def test_the_exchange_matters_here():
    fitted, z = fitted_once(12, kept=True), rows(12, 200)
    free = fitted_once(12).predict_proba(z)
    moved = free.argmax(axis=1) != z.argmax(axis=1)
    assert 0.02 < moved.mean() < 0.5
    proba, confidence = fitted.predict_proba(z), fitted.confidence(z)
    assert (confidence[moved] < proba.max(axis=1)[moved]).all()
    np.testing.assert_allclose(confidence, free[np.arange(200), z.argmax(axis=1)])


def test_the_confidence_goes_everywhere(tmp_path):
    fitted, z = fitted_once(12, kept=True), rows(12, 60)
    expected = fitted.confidence(z)
    found = {"python": [*map(module_of(to_python(fitted))["confidence"], z.tolist())]}
    if importlib.util.find_spec("duckdb"):
        base = database(z)
        base.execute(to_sql(fitted))
        query = "SELECT smallcal_confidence(logits) FROM t ORDER BY row"
        found["sql"] = np.ravel(base.execute(query).fetchall())
    if importlib.util.find_spec("onnxruntime"):
        session = session_of(to_onnx(fitted, dtype="float64"))
        (found["onnx"],) = session.run(["confidence"], {"logits": z})
        assert session.run(["confidence"], {"logits": z[:0]})[0].shape == (0,)
        found["behind a model"] = behind_a_model(fitted, z, tmp_path / "model.onnx")
    if importlib.util.find_spec("torch"):
        import torch

        from smallcal.deploy.export import to_torch

        for output in ("probabilities", "logits"):
            module = to_torch(fitted, output=output)
            found[f"torch, {output}"] = module.confidence(torch.from_numpy(z)).numpy()
            assert module.confidence(torch.from_numpy(z[0])).shape == ()
            odd = torch.full((1, 12), torch.nan)
            assert module.confidence(odd).isnan().all()
    for place, confidence in found.items():
        np.testing.assert_allclose(confidence, expected, rtol=1e-9, err_msg=place)


def behind_a_model(fitted, z, path):
    import onnx

    helper, kind = onnx.helper, onnx.TensorProto.DOUBLE
    ends = [helper.make_tensor_value_info(name, kind, ["batch", 12]) for name in ("x", "logits")]
    node = helper.make_node("Identity", ["x"], ["logits"])
    graph = helper.make_graph([node], "model", ends[:1], ends[1:])
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return session_of(append_to_onnx(fitted, path)).run(["confidence"], {"x": z})[0]


def test_where_the_confidence_is_the_largest_probability_it_is_not_written():
    for fitted in (fitted_once(12), fit("ts-nll", *drawn(300, 4, seed=1)).fitted_):
        assert program_of(fitted).confidence is None
        assert "smallcal_confidence" not in to_sql(fitted)
        assert "def confidence" not in to_python(fitted)


def test_torch_gives_the_confidence_of_any_calibrator():
    torch = pytest.importorskip("torch")
    from smallcal.deploy.export import to_torch

    fitted, z = fitted_once(12), rows(12)
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    of_scores = sc.Calibrator(input="score").fit(x, rng.logistic(size=300) < 2 * x).fitted_
    for output in ("probabilities", "logits"):
        found = to_torch(fitted, output=output).confidence(torch.from_numpy(z))
        np.testing.assert_allclose(found, fitted.predict_proba(z).max(axis=1), atol=1e-9)
        found = to_torch(of_scores, output=output).confidence(torch.from_numpy(x))
        np.testing.assert_allclose(found, of_scores.predict_score(x), atol=1e-9)


@whether_kept
def test_thresholds_read_the_confidence_of_the_prediction(kept):
    fitted, z = fitted_once(12, kept=kept), rows(12, 300)
    levels = np.random.default_rng(3).uniform(0.2, 0.9, size=12).tolist()
    names = [f"c{i}" for i in range(12)]
    fitted = with_decisions(
        fitted, threshold(0.5), threshold(*levels, by="class", names=names, risk=0.1)
    )
    close = near(fitted, z)
    wanted = [fitted.accept(z, risk=risk) for risk in (0.02, 0.1)]
    assert all(0.1 < flags.mean() < 0.9 for flags in wanted)
    found = {"program": list(decide(program_of(fitted), z).values())}
    if importlib.util.find_spec("onnxruntime"):
        columns = ["accepted_at_2pct", "accepted_at_10pct"]
        found["onnx"] = session_of(to_onnx(fitted, dtype="float64")).run(columns, {"logits": z})
    if importlib.util.find_spec("torch"):
        import torch

        from smallcal.deploy.export import to_torch

        given = torch.from_numpy(z)
        found["torch"] = [to_torch(fitted).accept(given, risk=risk).numpy() for risk in (0.02, 0.1)]
    for place, both in found.items():
        for flags, expected in zip(both, wanted, strict=True):
            np.testing.assert_array_equal(flags[~close], expected[~close], err_msg=place)
    if kept:  # the largest probability would accept others
        largest = fitted.predict_proba(z).max(axis=1) >= 0.5
        assert (largest != wanted[0]).any()


@whether_kept
@pytest.mark.parametrize("place", BACKENDS)
def test_what_was_learned_later(place, kept):
    rates = np.linspace(1, 3, 12)
    parts = (
        ClassFrequencies((1 / 12,) * 12, tuple(rates / rates.sum())),
        ConfidenceShift(slope=0.6, bias=-0.8, tail=1.4),
    )
    z = rows(12)
    for part in parts:
        fitted = with_later(fitted_once(12, kept=kept), part)
        np.testing.assert_allclose(
            applied(place, fitted, z), fitted.predict_proba(z), rtol=3e-7, atol=1e-6
        )


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_shorter_types_keep_the_models_prediction(dtype):
    fitted, z = fitted_once(12, kept=True), rows(12, 300).astype(np.float32)
    z[-2] = 0
    z[:50] = np.round(z[:50] * 0.1, 2)  # near ties
    z = z.astype(dtype)
    proba = fitted.predict_proba(z.astype(float))
    for place in ("onnx", "torch"):
        if BACKENDS[place].there:
            found = BACKENDS[place].run(fitted, z)
            assert found.dtype == np.float32
            np.testing.assert_array_equal(found.argmax(axis=1), z.argmax(axis=1), err_msg=place)
            np.testing.assert_allclose(found, proba, rtol=0, atol=1e-6, err_msg=place)
