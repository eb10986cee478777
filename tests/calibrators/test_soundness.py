"""Saved calibrators whose numbers or parts do not fit together are refused; what loads is sound."""

import copy
import json
import resource
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import smallcal as sc
from smallcal import cli, runtime
from smallcal.calibrators import artefact
from smallcal.calibrators.maps import GroupMap, ScalarMap
from smallcal.calibrators.maps.curves import AnchorMap, LinearMap, SplineMap
from smallcal.calibrators.maps.network import NetworkMap
from smallcal.calibrators.signals import NoSignal
from smallcal.calibrators.signals.statistic import LogEntropy, StandardisedStatistics
from smallcal.errors import InputError
from support.cases import DEPLOYABLE, fitted_once, missing_package, require_package
from support.mutations import require_sound
from support.refused import refused
from support.simulated import simulate

NAMES = [name for name in DEPLOYABLE if not missing_package(name)]


def document_of(name):
    require_package(name)
    return copy.deepcopy(fitted_once(name).to_dict())


def load(document):
    parsed = artefact.parse(json.dumps(document), source="it")
    return runtime.FittedCalibrator.from_dict(parsed, source="it")


def changed(name, *path_and_value):
    *path, last, value = path_and_value
    document = target = document_of(name)
    for key in path:
        target = target[key]
    target[last] = value
    return document


@pytest.mark.parametrize("name", NAMES)
def test_what_every_method_saves_is_sound(name):
    document = document_of(name)
    require_sound(load(document), document)


WRONG = {
    "more classes than memory": (("srts-bce", "n_classes", 2 * 10**8), "lie in [2, 1000000]"),
    "a trillion classes": (("ts-nll", "n_classes", 10**12), "n_classes must lie in [2, 1000000]"),
    "classes of the map": (("default", "n_classes", 13), "map is for 12 classes, not 13"),
    "classes of the signal": (("hts-nll", "n_classes", 13), "signal is for 12 classes, not 13"),
    "classes of a signal of logits": (
        ("features-logits-k3", "n_classes", 13),
        "signal is for 12 classes, not 13",
    ),
    "fewer names": (("ts-nll", "class_names", ["a", "b"]), "2 class_names for 12 classes"),
    "a name twice": (
        ("ts-nll", "class_names", ["a", "b", "a"]),
        "class_names must be different from one another; 'a' repeats",
    ),
    "half of a character": (
        ("ts-nll", "class_names", ["a", "b\udc80"]),
        "class_names[1] holds '\\udc80', which is half of a character",
    ),
    "half of a character in a name of an option": (
        ("ts-nll", "options", {"\ud800": 1}),
        "in options holds '\\ud800', which is half of a character",
    ),
    "half of a character as the method": (("ts-nll", "method", "\ud800"), "method holds '\\ud800'"),
    "no signal": (("srts-bce", "signal", {"kind": "none"}), "reads 1 score, the signal has no"),
    "no signal for a curve": (("linear-risk", "signal", {"kind": "none"}), "has no scores"),
    "groups in the reference of a scalar": (
        ("ts-nll", "reference", fitted_once("srts-bce").to_dict()["reference"]),
        "a reference of scores, and nothing that a monitor could score a row by",
    ),
    "a number without end": (("srts-bce", "signal", "intercept", 10**250), "of 251 digits"),
    "a whole number too long for an array": (
        ("linear-risk", "map", "coefficients", [10**29, 1]),
        "map.coefficients[0] is too long for a whole number; write 1e+29",
    ),
    "options that are deep": (("ts-nll", "options", {"a": [[[1]]]}), "options.a[0][0] must be"),
    "a temperature that divides to infinity": (
        ("ts-nll", "map", "temperature", 1e-300),
        "map.temperature must lie in [1e-20, 1e+20], got 1e-300",
    ),
    "knots nearly on one another": (
        ("spline-risk", "map", "knots", [0.0, 1e-320, 2e-320]),
        "knots must be three ascending numbers",
    ),
    "anchors nearly on one another": (
        ("pwlinear-3", "map", "anchors", [0.0, 1e-300, 1.0]),
        "anchors must be ascending",
    ),
    "more coefficients for logits than there are": (
        ("features-logits-k3", "signal", "n_logits", 16),
        "16 coefficients, 16 of them for logits",
    ),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_what_does_not_fit_is_refused_in_one_line(wrong, tmp_path, capsys):
    change, message = WRONG[wrong]
    document = changed(*change)
    with pytest.raises(sc.ArtefactError) as caught:
        load(document)
    assert message in str(caught.value)
    file = tmp_path / "cal.json"
    file.write_text(json.dumps(document))
    assert cli.run(["inspect", str(file)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("smallcal: error: ")
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("srts-bce", "class-linear", "reads 1 score, the signal has 6 scores and the predicted"),
        ("signal-linear", "class-linear", "reads 6 scores, the signal has 6 scores and the pred"),
        ("class-linear", "signal-linear", "reads 6 scores and the predicted class, the signal has"),
        ("signal-linear", "srts-bce", "the map reads 6 scores, the signal has 1 score"),
        ("linear-risk", "signal-linear", "the map reads 1 score, the signal has 6 scores"),
        ("semantic-groups", "srts-bce", "the map reads 4 scores, the signal has 1 score"),
        ("spline-risk", "semantic-groups", "the map reads 1 score, the signal has 4 scores"),
    ],
)
def test_a_map_of_one_method_with_the_signal_of_another(first, second, message):
    document = document_of(first)
    document["signal"] = document_of(second)["signal"]
    document["reference"] = None
    with pytest.raises(sc.ArtefactError) as caught:
        load(document)
    assert message in str(caught.value)


def test_one_column_is_not_one_number():
    """Scores of shape (m, 1) would be broadcast against a temperature per row."""
    fitted = fitted_once("srts-bce").fitted_
    column = StandardisedStatistics(("entropy",), (0.0,), (1.0,))
    with pytest.raises(InputError, match="reads 1 score, the signal has 1 column of scores"):
        replace(fitted, signal=column, reference=None).save("never.json")


@pytest.mark.parametrize("name", ["linear-risk", "hts-nll", "qats-nll"])
def test_a_curve_without_a_signal_is_one_temperature_and_can_be_saved(name, tmp_path):
    made = sc.make(name, signal="none").fit(*simulate(600, 12))
    made.save(tmp_path / "cal.json")
    assert runtime.load(tmp_path / "cal.json").map.kind == "scalar"


def test_what_cannot_be_loaded_is_not_saved(tmp_path):
    fitted = fitted_once("srts-bce").fitted_
    file = tmp_path / "cal.json"
    for part in (
        {"signal": NoSignal(), "reference": None},
        {"signal": LogEntropy(13), "reference": None},
        {"map": GroupMap((0.5,), (1.0, 2.0))},
    ):
        with pytest.raises(InputError):
            replace(fitted, **part).save(file)
    with refused("artefact-damaged"):
        replace(fitted, class_names=("\ud800", *"abcdefghijk")).save(file)
    assert not file.exists()


def test_a_million_classes_are_exported_in_bounded_memory(tmp_path):
    """In a process that may not have more; two hundred million took 14 GB."""
    document = changed("srts-bce", "n_classes", 10**6)
    del document["reference"]["classes"]  # a table of so many there is not
    file = tmp_path / "cal.json"
    file.write_text(json.dumps(document))
    program = """
import importlib.util, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (6_000_000_000, 6_000_000_000))
from smallcal import runtime
from smallcal.deploy.export import EXPORTERS
fitted = runtime.load(sys.argv[1])
for name, exporter in EXPORTERS.items():
    if name != "onnx" or importlib.util.find_spec("onnx"):
        assert len(exporter.make(fitted)) < 20_000_000
assert fitted.predict_proba([[0.0] * 10**6]).shape == (1, 10**6)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(file)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 1_500_000


def test_a_line_that_falls_below_zero_stays_a_temperature():
    line = LinearMap((1.0, 2.0), link="identity")
    assert (line(np.array([-1e30, -0.6, 0.0, 1.0])) > 0).all()
    assert line(np.array([0.0, 1.0])).tolist() == [1.0, 3.0]
    document = changed("qats-bce", "signal", document_of("hts-nll")["signal"])  # scores below 0
    document["reference"] = None
    require_sound(load(document), document)


def test_curves_of_extreme_scores_are_temperatures():
    far = np.array([-1e150, -1e20, 0.0, 1e20, 1e150])
    curves = [
        SplineMap((0.0, 0.5, 1.0), (1e29, -1e29, 1e29)),
        SplineMap((0.0, 1e-10, 1.0), (1.0, 1e29, -1e29), link="identity"),
        AnchorMap((0.0, 1e-90), (1e-300, 1e29)),
    ]
    for curve in curves:
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            found = curve(far)
        assert np.isfinite(found).all()
        assert (found >= 1e-20).all()


def test_a_coefficient_whose_exponential_would_be_infinite_can_be_inspected():
    document = changed("signal-linear", "map", "coefficients", [-1e9, 1e9, 0.0, 0.0, 0.0, 0.0])
    require_sound(load(document), document)


def test_a_network_that_may_overflow_is_refused():
    layers = [[[1e30]]] * 8
    with pytest.raises(InputError, match="the network's output may overflow"):
        NetworkMap(layers, [[0.0]] * 8, activation="relu", offset=0.1, floor=0.0)
    with pytest.raises(InputError, match="not both zero, or below 1e-20"):
        NetworkMap(layers[:1], [[0.0]], activation="relu", offset=0.0, floor=1e-90)
    NetworkMap(layers[:2], [[0.0]] * 2, activation="relu", offset=0.1, floor=0.0)


def test_the_least_temperature_keeps_every_type_finite():
    fitted = fitted_once("ts-nll").fitted_
    lowest = replace(fitted, map=ScalarMap(1e-20))
    for kind in (np.float16, np.float32, np.float64):
        z = np.array([[1.0, *[-1.0] * 11], [0.0] * 12, [1e4] * 11 + [-1e4]], dtype=kind)
        assert np.isfinite(lowest.predict_proba(z)).all()
    with pytest.raises(InputError, match="temperatures must be at least 1e-20; got 1e-21"):
        ScalarMap(1e-21)


def test_a_monitor_of_a_reference_without_groups_counts_every_label():
    document = document_of("srts-bce")
    document["reference"]["groups"] = None
    monitor = sc.Monitor(load(document))
    z = np.random.default_rng(0).normal(size=(50, 12)) * 3
    assert monitor.update(z, z.argmax(axis=1)).labelled == 50


def test_a_long_list_is_not_quoted_whole():
    document = changed("linear-risk", "map", "coefficients", [0.1] * 10_000)
    with refused("artefact-damaged", "2") as caught:
        load(document)
    assert len(str(caught.value)) < 400


def test_loading_a_matrix_of_a_thousand_classes_takes_no_loop_over_its_numbers(tmp_path):
    document = changed("matrix-scaling", "n_classes", 1000)
    weight = np.eye(1000) + 0.001
    document["map"] |= {"weight": weight.tolist(), "bias": [0.0] * 1000}
    document["n_parameters"] = 1_001_000
    calls = []
    rule = artefact.problem

    def counted(*given):
        calls.append(given)
        return rule(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(artefact, "problem", counted)
        artefact.validate(document, source="it")
    assert len(calls) < 5000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 20_000_000
