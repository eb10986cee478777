"""One Python file: same answers, nothing but the standard library, harmless whatever its names."""

import ast
import csv
import io
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smallcal.calibrators.program import Program, constant
from smallcal.calibrators.program import given as taken
from smallcal.deploy.export import to_python
from smallcal.deploy.export.python import _Body
from smallcal.deploy.export.statements import statements_of
from smallcal.deploy.export.translate import program_of
from support.backends import module_of
from support.cases import EXPORTABLE, drawn, features_of, fit, fitted_once, predict
from support.nasty_names import NASTY
from support.program_numpy import run
from support.refused import refused
from support.simulated import simulate


def run_file(text, rows, tmp_path):
    """Run an exported file alone: no site-packages, no environment, no current folder."""
    path = tmp_path / "cal.py"
    path.write_text(text, encoding="ascii")
    return subprocess.run(
        [sys.executable, "-I", "-S", str(path)], input=rows, capture_output=True, text=True
    )


def as_csv(z):
    return "".join(",".join(map(repr, row)) + "\n" for row in np.asarray(z).tolist())


@pytest.mark.parametrize("name", EXPORTABLE)
def test_every_method_is_its_program(name):
    z = drawn(name, 25, seed=7)[0]
    fitted = fitted_once(name)
    text = to_python(fitted.fitted_)
    module = module_of(text)
    more = [features_of(z).tolist()] if fitted.fitted_.signal.n_features else []
    p = np.array(module["calibrate_rows"](z.tolist(), *more))
    expected, temperature = run(program_of(fitted.fitted_), z, features_of(z))
    np.testing.assert_allclose(p, expected, rtol=1e-9, atol=1e-12)
    # A rival held below the predicted class may move by 2^-22 of it.
    np.testing.assert_allclose(p, predict(fitted, z), rtol=3e-7, atol=1e-9)
    if temperature is not None:
        found = module["temperature"](z[0].tolist(), *(rows[0] for rows in more))
        assert found == pytest.approx(temperature[0], rel=1e-9)
    tree = ast.parse(text, feature_version=(3, 8))
    imported = {
        a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names
    }
    assert imported <= {"bisect", "csv", "math", "sys"}
    called = {
        node.func.id for node in ast.walk(tree) if isinstance(getattr(node, "func", 0), ast.Name)
    }
    assert not called & {"eval", "exec", "compile", "open", "__import__"}
    assert text == to_python(fitted.fitted_)


@pytest.mark.parametrize("name", ["default", "features-k3", "qats-bce"])
def test_the_file_runs_alone(name, tmp_path):
    z = simulate(30, 12, seed=7)[0]
    fitted = fitted_once(name)
    rows = np.hstack([z, features_of(z)]) if fitted.fitted_.signal.n_features else z
    done = run_file(to_python(fitted.fitted_), "a header\n" + as_csv(rows) + "\n", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    p = np.array([[float(cell) for cell in row] for row in csv.reader(io.StringIO(done.stdout))])
    np.testing.assert_allclose(p, predict(fitted, z), rtol=3e-7, atol=1e-9)


def test_bad_rows_are_one_line(tmp_path):
    text = to_python(fitted_once("ts-nll").fitted_)
    good = as_csv(np.zeros((1, 12)))
    for row, message in (
        ("1,2\n", "line 2: a row must have 12 logits; got 2"),
        ("nan" + ",0" * 11 + "\n", "line 2: logits must be finite"),
        ("x" + ",0" * 11 + "\n", "line 2: not a row of numbers"),
    ):
        done = run_file(text, good + row, tmp_path)
        assert done.returncode == 1
        assert done.stderr.startswith(message)
        assert done.stderr.count("\n") == 1
    module = module_of(to_python(fitted_once("features-k3").fitted_))
    with pytest.raises(ValueError, match="a row must have 4 features; got 1"):
        module["calibrate"]([0.0] * 12, [1.0])
    with pytest.raises(ValueError, match="1 rows, but 0 rows of features"):
        module["calibrate_rows"]([[0.0] * 12], [])


def test_probabilities_are_checked_and_calibrated():
    z, y = simulate(300, 5, seed=3)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    p[0] = np.eye(5)[2]
    fitted = fit("srts-bce", p, y, input="probabilities")
    module = module_of(to_python(fitted.fitted_))
    found = module["calibrate_rows"](p[:50].tolist())
    np.testing.assert_allclose(found, fitted.predict_proba(p[:50]), rtol=3e-7, atol=1e-9)
    with pytest.raises(ValueError, match="must be probabilities"):
        module["calibrate"]([2.0, -1.0, 0.0, 0.0, 0.0])
    with pytest.raises(ValueError, match=r"must sum to 1; got 0\.5"):
        module["calibrate"]([0.5, 0.0, 0.0, 0.0, 0.0])


@settings(max_examples=20)
@given(
    text=st.text(max_size=30), quotes=st.sampled_from(['"""', "'''", "\\", "\n", "#", "{0}", ""])
)
def test_no_name_is_ever_code(text, quotes):
    nasty = (*NASTY[:8], text + quotes, quotes + '"""\nraise SystemExit\n"""', "\ud800", "it's")
    fitted = replace(fitted_once("ts-nll").fitted_, class_names=nasty, method=quotes + text)
    module = module_of(to_python(fitted))
    assert module["CLASS_NAMES"] == nasty
    assert module["METHOD"] == quotes + text


def test_a_long_chain_is_many_short_statements():
    value = taken("logits", 2)
    for _ in range(2000):
        value = value + 1.0
    program = Program(value, None, 2, 0, "logits")
    lines = list(_Body(statements_of(program)).lines())
    names = {"logits": [0.0, 5.0]}
    exec(compile("\n".join(lines), "chain", "exec"), names)
    assert names["probabilities"] == [2000.0, 2005.0]
    assert max(map(len, lines)) < 200


def test_rows_of_one_number_are_numbers():
    """Widths of one at every operation that reads a row, against the NumPy interpreter."""
    x = taken("features", 1)
    wide = x.join(constant(2.0)).join(x.dot([[3.0], [4.0]]))
    value = wide + x.sum() + x.largest() + x.at_top() + x.dot([[5.0]]) + x.rank([0.0, 1.0, 2.0])
    program = Program(value, None, 2, 1, "logits")
    z, f = np.zeros((3, 2)), np.array([[-1.0], [1.0], [7.0]])
    body = _Body(statements_of(program))
    lines = list(body.lines())
    code = "import bisect\n" + "\n".join([*body.constants, *lines])
    found = []
    for row in f.tolist():
        names = {"features": row}
        exec(compile(code, "ones", "exec"), names)
        found.append(names["probabilities"])
    np.testing.assert_allclose(found, run(program, z, f)[0])


def test_what_cannot_be_exported_is_refused():
    with refused("method-unsuitable"):
        to_python(fitted_once("shuffled-k3").fitted_)
