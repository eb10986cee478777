"""Hostile calibrators: what the loader lets through, every exporter turns into sound files."""

import copy
import importlib.util
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smallcal import ArtefactError, InputError
from smallcal.calibrators import artefact
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.deploy.export import to_onnx, to_python, to_sql
from smallcal.deploy.export.translate import program_of
from support.cases import fitted_once
from support.fuzzing import thrown
from support.program_numpy import run

NAMES = ["none", "srts-bce", "default", "pwlinear-3", "spline-risk", "qats-bce", "ets", "meta-cal"]
NAMES += ["scaling-binning", "vector-scaling", "features-k3", "smart-bce"]

#: Numbers at the edge of what a float holds, words that would be code, and shapes of other kinds.
HOSTILE = st.one_of(
    st.sampled_from([0, -1, 1e308, -1e308, 5e-324, 1e15, 2**63, True, None, [], {}, [[]]]),
    st.sampled_from(["'; DROP TABLE t; --", '"""\nimport os', "__import__('os')", "\\", "\x00"]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-5, 40),
)


def sql_of(fitted):
    assert "\x00" not in to_sql(fitted)


def graph_of(fitted):
    to_onnx(fitted)


def module_of(fitted):
    import torch

    from smallcal.deploy.export import to_torch

    z = torch.zeros((2, fitted.n_classes)) + (fitted.input == "probabilities") / fitted.n_classes
    features = torch.zeros((2, fitted.signal.n_features)) if fitted.signal.n_features else None
    assert torch.isfinite(to_torch(fitted)(z, features)).all()


#: What else a calibrator may become, as far as this machine can.
OTHERS = [sql_of]
OTHERS += [graph_of] if importlib.util.find_spec("onnx") else []
OTHERS += [module_of] if importlib.util.find_spec("torch") else []


def places(node, path=()):
    """Every path into a document."""
    entries = ()
    if isinstance(node, dict):
        entries = node.items()
    elif isinstance(node, list):
        entries = enumerate(node[:12])
    for key, child in entries:
        yield (*path, key)
        yield from places(child, (*path, key))


def put(document, path, value):
    for key in path[:-1]:
        document = document[key]
    document[path[-1]] = value


@thrown(250)
@given(name=st.sampled_from(NAMES), data=st.data())
def test_a_hostile_calibrator_is_refused_or_exported_whole(name, data):
    document = copy.deepcopy(fitted_once(name).to_dict())
    for _ in range(data.draw(st.integers(1, 3))):
        paths = list(places(document))
        put(document, data.draw(st.sampled_from(paths)), copy.deepcopy(data.draw(HOSTILE)))
    try:
        checked = artefact.parse(json.dumps(document), source="mutant")
        fitted = FittedCalibrator.from_dict(checked, source="mutant")
        program = program_of(fitted)
        source = to_python(fitted)
        data.draw(st.sampled_from(OTHERS))(fitted)
    except (ArtefactError, InputError):
        return
    z = np.linspace(-3, 3, 4 * fitted.n_classes).reshape(4, -1)
    if fitted.input == "probabilities":
        z = np.full(z.shape, 1 / fitted.n_classes)
    features = np.zeros((4, max(program.n_features, 1)))
    with np.errstate(all="ignore"):
        expected = fitted.predict_proba(z, features=features)
    known = {}
    exec(source, known)  # what the exporter wrote from a file that may be hostile
    extra = ([0.0] * program.n_features,) if program.n_features else ()
    for row, wanted in zip(z.tolist(), expected, strict=True):
        found = known["calibrate"](row, *extra)
        assert all(map(math.isfinite, found))
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_words_in_a_calibrator_never_become_code(tmp_path):
    fitted = fitted_once("srts-bce")
    document = fitted.to_dict()
    target = tmp_path / "made"
    evil = f'"""\nopen({str(target)!r}, "w")\n"""'
    document["method"] = evil
    document["class_names"] = [evil, *(f"c{i}" for i in range(11))]
    loaded = FittedCalibrator.from_dict(
        artefact.parse(json.dumps(document), source="x"), source="x"
    )
    exec(to_python(loaded), {"__name__": "exported"})
    assert not target.exists()


def test_words_in_a_calibrator_never_become_sql():
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    document = fitted_once("srts-bce").to_dict()
    evil = "x\n'; CREATE TABLE evil (a INT); --"
    document["method"] = evil
    document["class_names"] = [evil, *(f"c{i}" for i in range(11))]
    checked = artefact.parse(json.dumps(document), source="x")
    with duckdb.connect() as database:
        database.execute(to_sql(FittedCalibrator.from_dict(checked, source="x")))
        assert database.execute("SELECT count(*) FROM duckdb_tables()").fetchone() == (0,)


def test_the_interpreter_of_the_tests_would_notice(tmp_path):
    program = program_of(fitted_once("ts-nll").fitted_)
    with pytest.raises(FloatingPointError):
        run(program, np.full((1, 12), np.inf))
