"""Exports ask for the group, and agree with the calibrator to 1e-6."""

from __future__ import annotations

import io
import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest

import smallcal as sc
from smallcal.calibrators.group_effects import GroupEffects
from smallcal.deploy.export import append_to_onnx, to_onnx, to_python, to_sql
from smallcal.deploy.export.translate import program_of
from smallcal.errors import GroupWarning
from support.backends import module_of, session_of
from support.cases import features_of
from support.nasty_names import NASTY
from support.program_numpy import run
from support.refused import refused
from support.simulated import simulate

METHODS = ("default", "ts-nll", "srts-bce", "vector-scaling", "features-logits-k3")
NAMES = np.array(["north", "south", "it's", "3"])


def calibrator(method, input="logits"):
    z = simulate(800, 5, seed=3)[0]
    rng, codes = np.random.default_rng(3), np.arange(800) % 4
    sharp = np.array([0.2, 1.0, 0.5, 2.0])[codes][:, None] * z
    y = (sharp + rng.gumbel(size=z.shape)).argmax(axis=1)
    given = z
    if input == "probabilities":
        given = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        made = sc.make(method, input=input)
        made.fit(given, y, features=features_of(z), groups=NAMES[codes])
    fitted = made.fitted_
    assert fitted.groups.sigma
    return fitted


def rows(input="logits"):
    z = simulate(60, 5, seed=4)[0]
    if input == "probabilities":
        z = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    groups = np.array([*NAMES, "new", ""])[np.arange(60) % 6]
    return z, groups


def expected(fitted, z, groups):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GroupWarning)
        return fitted.predict_proba(z, groups=groups, features=features_of(z))


@pytest.mark.parametrize("input", ["logits", "probabilities"])
@pytest.mark.parametrize("method", METHODS)
def test_python_takes_the_name(method, input):
    fitted, (z, groups) = calibrator(method, input), rows(input)
    module = module_of(to_python(fitted))
    more = [features_of(z).tolist()] if fitted.signal.n_features else []
    found = module["calibrate_rows"](z.tolist(), *more, groups.tolist())
    np.testing.assert_allclose(found, expected(fitted, z, groups), atol=1e-6)
    one = module["calibrate"](z[3].tolist(), *(each[3] for each in more), 3.0)
    np.testing.assert_allclose(one, found[3], atol=1e-12)
    with pytest.raises(ValueError, match="60 rows, but 2 rows of groups"):
        module["calibrate_rows"](z.tolist(), *more, ["a", "b"])


def test_python_as_a_program_reads_the_group_last(tmp_path):
    fitted, (z, groups) = calibrator("default"), rows()
    path = tmp_path / "cal.py"
    path.write_text(to_python(fitted))
    lines = [f"{','.join(map(repr, z[i].tolist()))},{groups[i]}\n" for i in range(60)]
    text = "a,b,c,d,e,group\n" + "".join(lines)
    command = [sys.executable, "-I", "-S", str(path)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    found = np.loadtxt(io.StringIO(done.stdout), delimiter=",")
    np.testing.assert_allclose(found, expected(fitted, z, groups), atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_sql_takes_the_name(method):
    duckdb = pytest.importorskip("duckdb")
    fitted, (z, groups) = calibrator(method), rows()
    base = duckdb.connect(config={"threads": 1})
    base.execute("CREATE TABLE t (row INTEGER, z DOUBLE[], f DOUBLE[], g VARCHAR)")
    for i in range(60):
        base.execute(
            "INSERT INTO t VALUES (?, ?, ?, ?)",
            (i, z[i].tolist(), features_of(z)[i].tolist(), groups[i] or None),
        )
    base.execute(to_sql(fitted))
    given = "z, f, g" if fitted.signal.n_features else "z, g"
    found = base.execute(f"SELECT smallcal_probabilities({given}) FROM t ORDER BY row").fetchall()
    base.close()
    found = np.array([row[0] for row in found])
    np.testing.assert_allclose(found, expected(fitted, z, groups), atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_onnx_takes_the_place(method):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    fitted, (z, groups) = calibrator(method), rows()
    session = session_of(to_onnx(fitted, dtype="float64"))
    codes = fitted.groups.codes(groups)
    codes[codes < 0] = np.tile([-1, 99], 30)[: (codes < 0).sum()]
    given = {"logits": z, "group": codes}
    if fitted.signal.n_features:
        given["features"] = features_of(z)
    found = session.run(["probabilities"], given)[0]
    np.testing.assert_allclose(found, expected(fitted, z, groups), atol=1e-6)
    names = session.get_modelmeta().custom_metadata_map["smallcal.group_names"]
    assert "it's" in names


def test_a_model_gives_no_groups(tmp_path):
    pytest.importorskip("onnx")
    with refused("method-unsuitable"):
        append_to_onnx(calibrator("ts-nll"), tmp_path / "model.onnx")


@pytest.mark.parametrize("output", ["probabilities", "logits"])
@pytest.mark.parametrize("method", METHODS)
def test_torch_takes_the_place(method, output):
    torch = pytest.importorskip("torch")
    fitted, (z, groups) = calibrator(method), rows()
    from smallcal.deploy.export import to_torch

    module = to_torch(fitted, output=output).half()
    codes = torch.from_numpy(fitted.groups.codes(groups))
    more = torch.from_numpy(features_of(z)) if fitted.signal.n_features else None
    found = module(torch.from_numpy(z), more, groups=codes)
    if output == "logits":
        found = found.softmax(dim=-1)
    np.testing.assert_allclose(found.numpy(), expected(fitted, z, groups), atol=1e-6)
    with refused("groups-missing"):
        module(torch.from_numpy(z), more)
    with refused("array-shape"):
        module(torch.from_numpy(z), more, groups=codes[:3])


def test_groups_that_do_not_differ_are_not_asked_for():
    z = simulate(300, 4, seed=5)[0]
    y = (z + np.random.default_rng(0).gumbel(size=z.shape)).argmax(axis=1)
    fitted = sc.TemperatureScaling().fit(z, y, groups=np.arange(300) % 7).fitted_
    assert not fitted.groups.sigma
    assert len(module_of(to_python(fitted))["calibrate"](z[0].tolist())) == 4


@pytest.mark.parametrize("name", NASTY)
def test_names_of_groups_do_no_harm(name):
    fitted, (z, _) = calibrator("ts-nll"), rows()
    if not name:
        pytest.skip("no name")
    known = GroupEffects((name, "other"), (1.0, -1.0), (9, 9), 1.0)
    fitted = replace(fitted, groups=known)
    text = to_python(fitted)
    text.encode("ascii")
    found = module_of(text)["calibrate"](z[0].tolist(), name)
    np.testing.assert_allclose(
        found, fitted.predict_proba(z[:1], groups=np.array([name], dtype=object))[0], atol=1e-6
    )


def score_calibrator():
    rng, codes = np.random.default_rng(6), np.arange(600) % 4
    x = rng.normal(size=600)
    y = rng.logistic(size=600) < 1.5 * x + np.array([-2.0, 0.0, 1.0, 2.0])[codes]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        return sc.Calibrator(method="ts-nll", input="score").fit(x, y, groups=NAMES[codes]).fitted_


def test_a_score_and_a_group_are_written_down():
    fitted, (_, groups) = score_calibrator(), rows()
    x = np.random.default_rng(7).normal(size=60)
    effects = fitted.groups.of(groups)[:, None]
    found, _ = run(program_of(fitted), x[:, None], effects=effects)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GroupWarning)
        p = fitted.predict_proba(x, groups=groups)
    np.testing.assert_allclose(found, p, atol=1e-6)
    assert not fitted.preserves_argmax
