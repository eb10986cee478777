"""One number per row, exported: every place gives what ``predict_score`` gives."""

import csv
import io
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import smallcal as sc
from smallcal.deploy.export import append_to_onnx, to_onnx, to_python, to_sql
from smallcal.deploy.export.translate import program_of
from support.backends import module_of, session_of
from support.program_numpy import run
from support.refused import refused
from support.scored import KINDS, OF_SCORES, drawn, exportable, new_scores, scored_once

pytestmark = pytest.mark.filterwarnings("ignore::smallcal.FitWarning")
both = pytest.mark.parametrize("kind", KINDS)
every = pytest.mark.parametrize("name", OF_SCORES)


@pytest.fixture
def places(kind):
    """The fitted calibrator of a name, new scores, and what it says of them."""

    def of(name):
        fitted, scores = scored_once(exportable(name), kind), new_scores(kind)
        return fitted.fitted_, scores, fitted.predict_proba(scores)

    return of


@both
@every
def test_the_program_has_one_column(name, places):
    fitted, scores, expected = places(name)
    program = program_of(fitted)
    assert (program.n_columns, program.n_classes, program.takes) == (1, 2, "score")
    np.testing.assert_allclose(run(program, scores[:, None])[0], expected, rtol=0, atol=1e-9)


@both
@every
def test_a_python_file(name, places):
    fitted, scores, expected = places(name)
    module = module_of(to_python(fitted))
    np.testing.assert_allclose(module["calibrate_rows"](scores.tolist()), expected, atol=1e-9)
    rows = scores[:, None].tolist()
    assert module["calibrate_rows"](rows) == module["calibrate_rows"](scores.tolist())
    assert module["probability"](scores[0]) == module["calibrate"](rows[0])[1]


@both
@every
def test_sql(name, places):
    duckdb = pytest.importorskip("duckdb")
    fitted, scores, expected = places(name)
    base = duckdb.connect(config={"threads": 1})
    base.execute(to_sql(fitted))
    base.execute("CREATE TABLE t (row INTEGER, s DOUBLE)")
    base.executemany("INSERT INTO t VALUES (?, ?)", list(enumerate(scores.tolist())))
    query = "SELECT smallcal_probability(s), smallcal_probabilities(s) FROM t ORDER BY row"
    found = base.execute(query).fetchall()
    np.testing.assert_allclose([row[0] for row in found], expected[:, 1], atol=1e-9)
    np.testing.assert_allclose([row[1] for row in found], expected, atol=1e-9)
    assert base.execute("SELECT smallcal_probability(NULL)").fetchall() == [(None,)]
    assert base.execute("SELECT smallcal_probability(1)").fetchone()[0] is not None
    bad = ["'nan'::DOUBLE"] + (["1.01", "'inf'::DOUBLE"] if fitted.score.kind != "number" else [])
    for score in bad:
        with pytest.raises(duckdb.Error, match="smallcal: a score must be"):
            base.execute(f"SELECT smallcal_probability({score})").fetchall()


@both
@every
def test_onnx(name, places):
    pytest.importorskip("onnxruntime")
    fitted, scores, expected = places(name)
    for dtype, close in (("float64", 1e-9), ("float32", 1e-6), ("float16", 1e-6)):
        session = session_of(to_onnx(fitted, dtype=dtype))
        given = scores.astype(dtype)[:, None]
        (found,) = session.run(["probabilities"], {"score": given})
        assert (found.dtype, found.shape) == (np.promote_types(dtype, np.float32), expected.shape)
        # What the runtime says of the same scores: those in half precision are others.
        same = fitted.predict_proba(given.astype(np.float64))
        np.testing.assert_allclose(found, same, rtol=0, atol=close)
        assert session.run(["probabilities"], {"score": given[:0]})[0].shape == (0, 2)
    outside = [np.nan] if fitted.score.kind == "number" else [np.nan, -0.1, 1.5, np.inf]
    (found,) = session_of(to_onnx(fitted)).run(
        ["probabilities"], {"score": np.array(outside, dtype=np.float32)[:, None]}
    )
    assert np.isnan(found).all()


@both
@every
def test_a_torch_module_is_elementwise(name, places):
    torch = pytest.importorskip("torch")
    from smallcal.deploy.export import to_torch

    fitted, scores, expected = places(name)
    module, given = to_torch(fitted), torch.from_numpy(scores)
    for shape in ((-1,), (-1, 1), (1, -1)):
        found = module(given.reshape(shape))
        assert found.shape == given.reshape(shape).shape
        np.testing.assert_allclose(found.reshape(-1).numpy(), expected[:, 1], rtol=0, atol=1e-9)
    assert module(given[0]).shape == ()
    odds = to_torch(fitted, output="logits")(given)
    np.testing.assert_allclose(torch.sigmoid(odds).numpy(), expected[:, 1], rtol=0, atol=1e-9)
    assert torch.isnan(module(torch.tensor([float("nan")]))).all()
    if fitted.score.kind == "probability":
        assert torch.isnan(module(torch.tensor([-0.1, 1.5, float("inf")]))).all()
    assert module(given.float()).dtype == torch.float32
    with refused("array-type"):
        module(torch.tensor([1, 2]))


def run_file(text, rows, tmp_path):
    path = tmp_path / "cal.py"
    path.write_text(text, encoding="ascii")
    command = [sys.executable, "-I", "-S", str(path)]
    return subprocess.run(command, input=rows, capture_output=True, text=True)


@both
def test_the_python_file_reads_and_writes_one_column(kind, tmp_path):
    fitted, scores = scored_once("matrix-scaling", kind), new_scores(kind)
    text = to_python(fitted.fitted_)
    rows = "judge's mark\n" + "".join(f"{score!r}\n" for score in scores.tolist())
    done = run_file(text, rows, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    found = [[float(cell) for cell in row] for row in csv.reader(io.StringIO(done.stdout))]
    np.testing.assert_allclose(found, fitted.predict_score(scores)[:, None], atol=1e-9)
    for row, message in (
        ("0.5,0.5\n", "line 1: a row must have 1 score; got 2"),
        ("nan\n", "line 1: a score must be "),
        ("0.5\nhigh\n", "line 2: not a row of numbers"),
    ):
        done = run_file(text, row, tmp_path)
        assert done.returncode == 1
        assert done.stderr.startswith(message)
        assert done.stderr.count("\n") == 1


def test_features_stand_beside_the_score(tmp_path):
    scores, outcome = drawn(300)
    features = np.column_stack([scores % 3, scores % 2])
    cal = sc.Calibrator(method="features-k3", input="score")
    cal.fit(scores, outcome, features=features)
    expected = cal.predict_proba(scores[:20], features=features[:20])
    text = to_python(cal.fitted_)
    found = module_of(text)["calibrate_rows"](scores[:20].tolist(), features[:20].tolist())
    np.testing.assert_allclose(found, expected, atol=1e-9)
    given = np.column_stack([scores, features])[:20].tolist()
    done = run_file(text, "".join(",".join(map(repr, row)) + "\n" for row in given), tmp_path)
    np.testing.assert_allclose(
        [float(line) for line in done.stdout.split()], expected[:, 1], atol=1e-9
    )
    duckdb = pytest.importorskip("duckdb")
    base = duckdb.connect(config={"threads": 1})
    base.execute(to_sql(cal.fitted_))
    query = f"SELECT smallcal_probability({scores[0]}, {features[0].tolist()})"
    assert base.execute(query).fetchone()[0] == pytest.approx(expected[0, 1], abs=1e-9)


def model_of(onnx, shape, path, *, n_columns=1):
    """Save a model that gives its input as score, of a shape that it states or does not."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [helper.make_node("Identity", ["x"], ["whole"])]
    axes = onnx.numpy_helper.from_array(np.array([1]), "axes")
    flat = shape is not None and len(shape) == 1
    last = ["Squeeze", ["whole", "axes"]] if flat else ["Identity", ["whole"]]
    nodes.append(helper.make_node(*last, ["margin"]))
    inputs = [helper.make_tensor_value_info("x", kind, ["batch", n_columns])]
    outputs = [helper.make_tensor_value_info("margin", kind, shape)]
    graph = helper.make_graph(nodes, "model", inputs, outputs, [axes] if flat else [])
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="test"
    )
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("shape", [["batch"], ["batch", 1], ["batch", None]])
def test_behind_a_model(shape, tmp_path):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    fitted = scored_once("matrix-scaling")
    path = model_of(onnx, shape, tmp_path / "model.onnx")
    session = session_of(append_to_onnx(fitted.fitted_, path))
    given = drawn(40, seed=2)[0].astype(np.float32)
    margin, found = session.run(["margin", "probabilities"], {"x": given[:, None]})
    assert margin.size == 40
    np.testing.assert_allclose(found, fitted.predict_proba(given), atol=1e-6)


def test_a_model_of_two_columns_is_refused(tmp_path):
    onnx = pytest.importorskip("onnx")
    path = model_of(onnx, ["batch", 2], tmp_path / "model.onnx", n_columns=2)
    with refused("columns-differ", "2", "1"):
        append_to_onnx(scored_once("none").fitted_, path)


def test_outcomes_with_names():
    fitted = replace(scored_once("none").fitted_, class_names=("bad", "good"))
    assert module_of(to_python(fitted))["CLASS_NAMES"] == ("bad", "good")
    assert "smallcal_class_names() AS ['bad', 'good']" in to_sql(fitted)


def test_no_wrapped_torch_model():
    torch = pytest.importorskip("torch")
    with refused("method-unsuitable"):
        sc.calibrate(torch.nn.Linear(2, 1), [], method=sc.Calibrator(input="score"))


def test_groups_stand_beside_the_score(tmp_path):
    rng = np.random.default_rng(0)
    scores, groups = rng.normal(size=900), np.array(["law", "art"])[np.arange(900) % 2]
    shift = np.where(groups == "law", 1.5, -1.5)
    outcome = (rng.random(900) < 1 / (1 + np.exp(-scores - shift))).astype(int)
    fitted = sc.Calibrator(input="score").fit(scores, outcome, groups=groups).fitted_
    scores, groups = scores[:20], groups[:20]
    expected = fitted.predict_score(scores, groups=groups)
    assert fitted.groups.sigma > 0
    text = to_python(fitted)
    pairs = module_of(text)["calibrate_rows"](scores.tolist(), groups.tolist())
    np.testing.assert_allclose(np.array(pairs)[:, 1], expected, atol=1e-9)
    rows = "".join(
        f"{score!r},{group}\n" for score, group in zip(scores.tolist(), groups, strict=True)
    )
    done = run_file(text, rows, tmp_path)
    np.testing.assert_allclose([float(line) for line in done.stdout.split()], expected, atol=1e-9)
    places = np.array([fitted.groups.names.index(group) for group in groups])
    torch = pytest.importorskip("torch")
    from smallcal.deploy.export import to_torch

    found = to_torch(fitted)(torch.from_numpy(scores), groups=torch.from_numpy(places))
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-9)
    duckdb = pytest.importorskip("duckdb")
    base = duckdb.connect(config={"threads": 1})
    base.execute(to_sql(fitted))
    (first,) = base.execute(f"SELECT smallcal_probability({scores[0]}, '{groups[0]}')").fetchone()
    assert first == pytest.approx(expected[0], abs=1e-9)
    pytest.importorskip("onnxruntime")
    session = session_of(to_onnx(fitted, dtype="float64"))
    (pairs,) = session.run(["probabilities"], {"score": scores[:, None], "group": places})
    np.testing.assert_allclose(pairs[:, 1], expected, atol=1e-9)
