"""ONNX: a file of its own, and a calibrator behind a model; checked with ONNX Runtime."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.special import erf as reference_erf

from smallcal.calibrators.program import Program, erf
from smallcal.calibrators.program import given as taken
from smallcal.deploy.export import append_to_onnx, onnx_append, origin_of, to_onnx
from smallcal.deploy.export.erf import without_erf
from smallcal.errors import FileError, InputError
from support.backends import session_of
from support.cases import EXPORTABLE, drawn, features_of, fit, fitted_once, predict
from support.program_numpy import run
from support.refused import refused
from support.simulated import simulate

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
helper = pytest.importorskip("onnx.helper")

C = 12


@pytest.mark.parametrize("name", EXPORTABLE)
def test_any_batch_in_single_precision(name):
    fitted = fitted_once(name)
    z = drawn(name, 200, seed=7)[0].astype(np.float32)
    session = session_of(to_onnx(fitted.fitted_))
    inputs = {"logits": z}
    if fitted.fitted_.signal.n_features:
        inputs["features"] = features_of(z).astype(np.float32)
    for n in (0, 1, 200):
        found = dict(
            zip(
                [output.name for output in session.get_outputs()],
                session.run(None, {key: value[:n] for key, value in inputs.items()}),
                strict=True,
            )
        )
        p = found["probabilities"]
        assert (p.dtype, p.shape) == (np.float32, (n, z.shape[1]))
        if "temperature" in found:
            assert found["temperature"].shape == (n,)
    np.testing.assert_allclose(p, predict(fitted, z), atol=1e-5)
    if fitted.preserves_argmax_:
        np.testing.assert_array_equal(p.argmax(axis=1), z.argmax(axis=1))


@pytest.mark.parametrize("name", ["ts-nll", "srts-bce", "scaling-binning"])
def test_half_precision_keeps_the_prediction(name):
    fitted = fitted_once(name)
    z = simulate(400, C, seed=3)[0].astype(np.float16)
    z[:50] = np.round(z[:50] * 0.1, 2)  # near ties
    p = session_of(to_onnx(fitted.fitted_, dtype="float16")).run(["probabilities"], {"logits": z})
    assert p[0].dtype == np.float32
    np.testing.assert_array_equal(p[0].argmax(axis=1), z.argmax(axis=1))
    np.testing.assert_allclose(p[0], predict(fitted, z.astype(float)), atol=1e-6)


def test_the_temperature_is_the_runtimes():
    z = simulate(100, C, seed=4)[0]
    for name in ("ts-nll", "srts-bce", "qats-bce", "smart-bce"):
        fitted = fitted_once(name)
        session = session_of(to_onnx(fitted.fitted_, dtype="float64"))
        (t,) = session.run(["temperature"], {"logits": z})
        np.testing.assert_allclose(t, fitted.temperature(z), rtol=1e-9)


def test_probabilities_come_in():
    z, y = simulate(300, 5, seed=3)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    fitted = fit("srts-bce", p, y, input="probabilities")
    session = session_of(to_onnx(fitted.fitted_, dtype="float64"))
    (found,) = session.run(["probabilities"], {"model_probabilities": p})
    np.testing.assert_allclose(found, fitted.predict_proba(p), rtol=3e-7, atol=1e-9)


def test_the_file_says_what_it_is_and_is_the_same_every_time():
    z, y = simulate(300, 3)
    fitted = fit("srts-bce", z, y, class_names=("a", "é", "\n")).fitted_
    content = to_onnx(fitted)
    assert content == to_onnx(fitted)
    model = onnx.load_from_string(content)
    onnx.checker.check_model(model, full_check=True)
    said = {entry.key: entry.value for entry in model.metadata_props}
    assert said["smallcal.method"] == "srts-bce"
    assert said["smallcal.artefact_sha256"] == origin_of(fitted).sha256
    assert json.loads(said["smallcal.class_names"]) == ["a", "é", "\n"]
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 17)]


def test_the_error_function_in_simpler_operations():
    x = np.concatenate([np.linspace(-40, 40, 4001), [0.0, 1e-9, -1e-9]]).reshape(-1, 1)
    program = without_erf(Program(erf(taken("logits", 1)), None, 1, 0, "logits"))
    assert "erf" not in {value.operation for value in program.values()}
    np.testing.assert_allclose(run(program, x)[0], reference_erf(x), atol=2e-14)


def test_what_cannot_be_asked_for_is_one_line(monkeypatch):
    fitted = fitted_once("ts-nll").fitted_
    with refused("unknown-choice"):
        to_onnx(fitted, dtype="int8")
    with refused("method-unsuitable"):
        to_onnx(fitted_once("random-k3").fitted_)
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with refused("missing-extra"):
        to_onnx(fitted)


# Behind a model.


def linear_model(*, opset=17, kind="float32", shape=("batch", C), names=None, extra=()):
    """A model that doubles its input, with an output for what else is asked for."""
    x, two, hidden, logits = names or ("x", "two", "hidden", "logits")
    element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    nodes = [
        helper.make_node("Mul", [x, two], [hidden]),
        helper.make_node("Identity", [hidden], [logits]),
        *(helper.make_node("Identity", [x], [name]) for name in extra),
    ]
    outputs = [helper.make_tensor_value_info(name, element, shape) for name in (logits, *extra)]
    graph = helper.make_graph(
        nodes,
        "doubling",
        [helper.make_tensor_value_info(x, element, shape)],
        outputs,
        [onnx.numpy_helper.from_array(np.array(2, dtype=kind), two)],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8 if opset < 20 else 10
    )


@pytest.fixture
def saved(tmp_path):
    def save(model, name="model.onnx"):
        path = tmp_path / name
        onnx.save(model, path)
        return path

    return save


@pytest.mark.parametrize("opset", [11, 13, 15, 17, 18, 21])
def test_behind_a_model_of_any_opset(opset, saved):
    fitted = fitted_once("default")
    content = append_to_onnx(fitted.fitted_, saved(linear_model(opset=opset)))
    session = session_of(content)
    assert [output.name for output in session.get_outputs()] == ["logits", "probabilities"]
    x = simulate(40, C, seed=7)[0].astype(np.float32) / 2
    logits, p = session.run(None, {"x": x})
    np.testing.assert_allclose(p, fitted.predict_proba(logits), atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "atol"), [("float16", 1e-6), ("float32", 1e-6), ("float64", 1e-9)]
)
def test_probabilities_have_the_type_of_the_logits_and_never_a_shorter_one_than_float32(
    kind, atol, saved
):
    fitted = fitted_once("srts-bce")
    session = session_of(append_to_onnx(fitted.fitted_, saved(linear_model(kind=kind))))
    x = (simulate(60, C, seed=7)[0] / 2).astype(kind)
    logits, p = session.run(None, {"x": x})
    assert p.dtype == np.promote_types(kind, np.float32)
    np.testing.assert_allclose(p, fitted.predict_proba(logits.astype(float)), atol=atol, rtol=3e-7)


@pytest.mark.parametrize("name", ["ts-nll", "srts-bce", "qats-bce", "default", "dirichlet-odir"])
def test_rows_may_lie_in_more_axes(name, saved):
    fitted = fitted_once(name)
    model = linear_model(kind="float64", shape=("batch", "place", C))
    session = session_of(append_to_onnx(fitted.fitted_, saved(model)))
    x = simulate(30, C, seed=7)[0].reshape(5, 6, C) / 2
    _, p = session.run(None, {"x": x})
    expected = fitted.predict_proba(2 * x.reshape(30, C)).reshape(5, 6, C)
    np.testing.assert_allclose(p, expected, rtol=3e-7, atol=1e-9)


def test_other_outputs_stay_and_names_do_not_collide(saved):
    fitted = fitted_once("srts-bce")
    names = ("smallcal_0", "smallcal_constant_0", "smallcal_node_1", "probabilities")
    path = saved(linear_model(names=names, extra=("features",)))
    content = append_to_onnx(fitted.fitted_, path, output_name="probabilities")
    session = session_of(content)
    found = [output.name for output in session.get_outputs()]
    assert found[:2] == ["probabilities", "features"]
    assert found[2].startswith("smallcal_")
    x = simulate(20, C)[0].astype(np.float32) / 2
    logits, same, p = session.run(None, {"smallcal_0": x})
    np.testing.assert_array_equal(same, x)
    np.testing.assert_allclose(p, fitted.predict_proba(logits), atol=1e-6)


def test_features_come_from_the_model(saved):
    z, y = simulate(400, C)
    fitted = fit("features-k3", z, y).fitted_
    with refused("features-missing"):
        append_to_onnx(fitted, saved(linear_model()))
    path = saved(linear_model(extra=("wide",)))
    with refused("columns-differ", "12", "4"):
        append_to_onnx(fitted, path, output_name="logits", features_name="wide")
    model = linear_model(kind="float64")
    features = helper.make_tensor_value_info("f", onnx.TensorProto.DOUBLE, ["batch", 4])
    model.graph.input.append(features)
    model.graph.node.append(helper.make_node("Identity", ["f"], ["g"]))
    model.graph.output.add().CopyFrom(features)
    model.graph.output[-1].name = "g"
    content = append_to_onnx(fitted, saved(model), output_name="logits", features_name="g")
    found = session_of(content).run(["probabilities"], {"x": z / 2, "f": features_of(z)})[0]
    expected = fitted.predict_proba(z, features=features_of(z))
    np.testing.assert_allclose(found, expected, rtol=3e-7, atol=1e-9)


def test_models_that_cannot_take_a_calibrator_are_refused_in_one_line(saved, tmp_path, monkeypatch):
    fitted = fitted_once("ts-nll").fitted_

    def refused(path, message, error=InputError, **options):
        with pytest.raises(error, match=message) as caught:
            append_to_onnx(fitted, path, **options)
        assert "\n" not in str(caught.value)

    plain = saved(linear_model())
    refused(plain, "there is no output 'z'; the model has logits", output_name="z")
    refused(
        saved(linear_model(extra=("y",)), "two.onnx"),
        "the outputs logits, y; say which one has the logits with output_name=",
    )
    refused(saved(linear_model(shape=("batch", 5)), "five.onnx"), "has 5 columns; .* 12 classes")
    refused(saved(linear_model(kind="int64"), "int.onnx"), "of type int64")
    refused(tmp_path / "none.onnx", "cannot read", FileError)
    (tmp_path / "text.onnx").write_text("not a model")
    refused(tmp_path / "text.onnx", "not a(n ONNX| valid ONNX) model", FileError)
    (tmp_path / "empty.onnx").write_bytes(b"")
    refused(tmp_path / "empty.onnx", "not a valid ONNX model", FileError)
    outside = tmp_path / "outside.onnx"
    big = linear_model()
    big.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(5000), "big"))
    onnx.save(big, outside, save_as_external_data=True, location="w.bin", size_threshold=100)
    refused(outside, "keeps weights in other files", FileError)
    twice = tmp_path / "twice.onnx"
    twice.write_bytes(append_to_onnx(fitted, plain))
    refused(twice, "has a calibrator already", FileError, output_name="logits")
    monkeypatch.setattr(onnx_append, "MAX_BYTES", plain.stat().st_size + 10)
    refused(plain, "over 2 GB", FileError)
    monkeypatch.setattr(onnx_append, "MAX_BYTES", 10)
    refused(plain, "at most 2 GB", FileError)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_model_is_refused_or_still_a_model(data, tmp_path):
    content = bytearray(linear_model().SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged.onnx"
    path.write_bytes(bytes(content[: data.draw(st.integers(0, len(content)))]))
    try:
        made = append_to_onnx(fitted_once("ts-nll").fitted_, path)
    except (FileError, InputError):
        pass
    else:
        onnx.checker.check_model(onnx.load_from_string(made))
