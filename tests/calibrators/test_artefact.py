"""Saved calibrators: what is written, and that nothing doubtful is ever loaded."""

import copy
import functools
import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smallcal as sc
from smallcal import runtime
from smallcal.calibrators import artefact
from smallcal.calibrators.catalogue import METHODS
from support.cases import DEPLOYABLE, features_of, fitted_once, missing_package, predict
from support.refused import refused
from support.simulated import simulate

Z, Y = simulate(600, 12)
NAMES = [name for name in DEPLOYABLE if not missing_package(name)]


@functools.cache
def saved(name):
    """What a fitted method writes; made when it is asked for."""
    return fitted_once(name).to_dict()


@functools.cache
def validator():
    """jsonschema's judge of artefacts, once the schema itself has been judged."""
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    jsonschema.Draft202012Validator.check_schema(artefact.schema())
    return jsonschema.Draft202012Validator(artefact.schema())


@pytest.fixture
def document():
    return copy.deepcopy(saved("srts-bce"))


@pytest.mark.parametrize("name", NAMES)
def test_every_artefact_obeys_the_published_schema(name):
    validator().validate(saved(name))


def test_an_artefact_says_what_it_is(document):
    assert document["format"] == "smallcal-calibrator"
    assert document["version"] == 3
    assert document["library"] == f"smallcal {sc.__version__}"
    assert document["method"] == "srts-bce"
    assert document["objective"] == "bce"
    assert (document["signal"]["kind"], document["map"]["kind"]) == ("risk", "groups")
    assert document["n_parameters"] == 10
    assert document["data"]["n"] == 600
    assert len(document["data"]["sha256"]) == 64
    assert document["fit_metrics"]["accuracy"] == pytest.approx((Z.argmax(1) == Y).mean())


def test_fit_metrics_are_the_metrics_of_the_calibration_split():
    cal = sc.SRTS().fit(Z, Y)
    recorded = cal.to_dict()["fit_metrics"]["after"]
    measured = sc.evaluate(Y, cal.predict_proba(Z))
    assert recorded["nll"] == pytest.approx(measured["nll"], rel=1e-9)
    assert recorded["top_label_bce"] == pytest.approx(measured["top_label_bce"], rel=1e-9)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["version"], 4, "artefact version 4; this smallcal reads 1 to 3"),
        (["version"], "1", "artefact version '1'"),
        (["version"], True, "artefact version True"),
        (["format"], "x", "not a smallcal calibrator"),
        (["n_classes"], 1, r"n_classes must lie in \[2, 1000000\], got 1"),
        (["n_classes"], 2.5, "n_classes must be integer, got 2.5"),
        (["n_classes"], "many", "n_classes must be integer"),
        (["class_names"], ["a", "b", "c"], "3 class_names for 12 classes"),
        (["class_names"], "abc", "class_names must be array"),
        (["input"], "images", "input must be one of"),
        (["pooled_temperature"], 0, "pooled_temperature must be above 0, got 0"),
        (["pooled_temperature"], 50.0, r"temperature 50.0 lies outside bounds \[0.05, 20.0\]"),
        (["map", "temperatures"], [1.0, -1.0, 1.0], r"map.temperatures\[1\] must be above 0"),
        (["map", "temperatures"], [1.0, 2.0], "2 groups need 1 thresholds; got 2"),
        (["map", "temperatures"], [1.0, 2.0, 30.0], "outside bounds"),
        (["map", "thresholds"], [0.9, 0.1], "finite and ascending"),
        (["map", "kind"], "x", "map.kind must be one of"),
        (["signal", "kind"], "x", "signal.kind must be one of"),
        (["signal", "kind"], ["risk"], "signal.kind must be one of"),
        (["signal", "coef"], [1.0], "must be equally long"),
        (["signal", "scale"], [0.0] * 6, r"signal.scale\[0\] must be above 0"),
        (["signal", "statistics"], ["entropy"] * 6, "statistics must be different names"),
        (["signal", "intercept"], None, "signal.intercept must be number, got None"),
        (["discipline", "bounds"], [2.0, 1.0], "0 < low < high"),
        (["group_counts"], [1], "1 group_counts for 3 groups"),
        (["n_parameters"], 11, "n_parameters says 11, the parts have 10"),
        (["flags"], {"x": "y"}, "flags.x must be array"),
    ],
)
def test_a_doctored_artefact_is_refused(document, tmp_path, path, value, message):
    target = document
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    file = tmp_path / "cal.json"
    file.write_text(json.dumps(document))
    with pytest.raises(sc.ArtefactError, match=message) as caught:
        sc.load(file)
    assert str(file) in str(caught.value)


def keys_of(document, prefix=()):
    for key, value in document.items():
        yield (*prefix, key)
        if isinstance(value, dict) and key not in ("flags",):
            yield from keys_of(value, (*prefix, key))


#: All fields but options of the method, and counts that artefacts did not always have.
REQUIRED = [
    path
    for path in keys_of(saved("srts-bce"))
    if (path[0] != "options" or len(path) == 1)
    and path not in (("reference",), ("reference", "classes"))
]


@pytest.mark.parametrize("path", REQUIRED, ids=".".join)
def test_a_missing_field_is_refused(document, tmp_path, path):
    target = document
    for key in path[:-1]:
        target = target[key]
    del target[path[-1]]
    file = tmp_path / "cal.json"
    file.write_text(json.dumps(document))
    with pytest.raises(sc.ArtefactError):
        sc.load(file)


def test_a_matrix_of_another_size_is_refused():
    document = copy.deepcopy(saved("vector-scaling"))
    document["map"]["weight"].append(1.0)
    document["n_parameters"] += 1
    parsed = artefact.parse(json.dumps(document), source="mutant")
    with refused("artefact-damaged", "13", "12"):
        runtime.FittedCalibrator.from_dict(parsed, source="mutant")


@pytest.mark.parametrize(
    "name", [name for name in NAMES if METHODS[name].signal in ("features", "logits")]
)
def test_a_map_of_more_scores_than_the_signal_has_is_refused(name):
    document = copy.deepcopy(saved(name))
    if document["signal"]["kind"] == "features":
        document["signal"]["width"] += 1
    else:
        document["n_classes"] = 13
    with refused("artefact-damaged"):
        runtime.FittedCalibrator.from_dict(document, source="mutant")


def test_an_unknown_field_is_refused(document, tmp_path):
    document["extra"] = 1
    file = tmp_path / "cal.json"
    file.write_text(json.dumps(document))
    with refused("artefact-damaged", "'extra'"):
        sc.load(file)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a JSON document"),
        (b"hello", "is not a JSON document"),
        (b"\x80\x04\x95pickle", "is not JSON text"),
        (b"[1, 2]", "not a smallcal calibrator"),
        (b'{"a": 1, "a": 2}', "the key 'a' appears twice"),
        (b'{"a": NaN}', "JSON does not allow the number NaN"),
        (b"[" * 100_000, "is not a JSON document"),
        (b'{"a": ' + b"9" * 5000 + b"}", "is not a JSON document"),
    ],
)
def test_a_file_that_is_no_artefact_is_refused(tmp_path, content, message):
    file = tmp_path / "cal.json"
    file.write_bytes(content)
    with pytest.raises(sc.ArtefactError, match=message):
        sc.load(file)


def test_infinities_in_disguise_are_refused(document, tmp_path):
    text = json.dumps(document).replace('"intercept": ', '"intercept": 1e999, "was": ')
    file = tmp_path / "cal.json"
    file.write_text(text.replace(', "was":', ', "intercepted":'))
    with pytest.raises(sc.ArtefactError, match=r"a number beyond 1\.8e308"):
        sc.load(file)


def test_a_huge_file_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(artefact, "MAX_BYTES", 100)
    file = tmp_path / "cal.json"
    file.write_text("x" * 101)
    with pytest.raises(sc.ArtefactError, match="never larger than"):
        sc.load(file)


def test_missing_files_and_folders_are_reported(tmp_path):
    with pytest.raises(sc.ArtefactError, match=r"cannot read .*nothing\.json: No such file"):
        sc.load(tmp_path / "nothing.json")
    with pytest.raises(sc.ArtefactError, match="cannot read"):
        sc.load(tmp_path)


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 30), st.floats(), st.text(max_size=4), st.just([]),
    st.just({}),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(NAMES), st.data())
def test_our_validator_agrees_with_jsonschema(name, data):
    judge = validator()
    document = copy.deepcopy(saved(name))
    path = data.draw(st.sampled_from(list(keys_of(document))))
    target = document
    for key in path[:-1]:
        target = target[key]
    # Our loader is stricter in two ways on purpose: 1.0 is not an integer, NaN is no number.
    target[path[-1]] = data.draw(scalars.filter(lambda v: not isinstance(v, float)))
    theirs = judge.is_valid(document)
    try:
        artefact.validate(document, source="mutant")
        ours = True
    except sc.ArtefactError:
        ours = False
    assert ours == theirs


def test_the_runtime_needs_numpy_only_and_gives_the_same_numbers(tmp_path):
    """In a process of its own, so that nothing imported by the tests can help."""
    expected = {}
    for name in NAMES:
        cal = fitted_once(name)
        cal.save(tmp_path / f"{name}.json")
        expected[name] = predict(cal, Z[:, : cal.fitted_.n_classes])
    np.savez(tmp_path / "expected.npz", logits=Z, features=features_of(Z), **expected)
    program = """
import sys, pathlib
import numpy as np
from smallcal.runtime import load
folder = pathlib.Path(sys.argv[1])
with np.load(folder / "expected.npz") as data:
    logits, features = data["logits"], data["features"]
    for file in folder.glob("*.json"):
        fitted = load(file)
        p = fitted.predict_proba(logits[:, : fitted.n_classes], features=features)
        assert abs(p - data[file.stem]).max() <= 1e-12, file
outside = {name.partition(".")[0] for name in sys.modules}
outside -= set(sys.stdlib_module_names) | {"smallcal", "numpy", "__main__"}
print(sorted(name for name in outside if not name.startswith("_")))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
    )
    found = set(eval(done.stdout))
    assert not found & {"scipy", "sklearn", "torch", "pandas", "typer", "rich"}, found


def test_a_failed_save_keeps_the_old_file(tmp_path, monkeypatch):
    file = tmp_path / "cal.json"
    cal = sc.TemperatureScaling().fit(Z, Y)
    cal.save(file)
    before = file.read_text()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "disk full")))
    with refused("file-write"):
        cal.save(file)
    assert file.read_text() == before
    assert [path.name for path in tmp_path.iterdir()] == ["cal.json"]


def test_saving_into_a_folder_that_is_not_there_is_one_clear_error(tmp_path):
    cal = sc.TemperatureScaling().fit(Z, Y)
    with refused("file-missing"):
        cal.save(tmp_path / "nowhere" / "cal.json")
    with refused("file-write"):
        cal.save(tmp_path)


def test_a_saved_file_has_ordinary_permissions(tmp_path):
    ordinary = tmp_path / "ordinary"
    ordinary.touch()
    sc.Identity().fit(Z, Y).save(tmp_path / "cal.json")
    assert (tmp_path / "cal.json").stat().st_mode == ordinary.stat().st_mode


def test_a_document_of_version_1_does_not_keep_predictions():
    assert artefact.upgraded({"version": 1}, source="it")["keep_predictions"] is False


@pytest.mark.parametrize("name", ["read", "write"])
def test_a_map_with_rows_of_several_lengths_is_refused(name, tmp_path):
    path = tmp_path / "cal.json"
    sc.Calibrator().fit(Z, Y).save(path)
    document = json.loads(path.read_text())
    document["map"][name][-1].append(0.5)
    path.write_text(json.dumps(document))
    with refused("artefact-damaged", str(path)):
        sc.load(path)
