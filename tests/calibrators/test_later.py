"""What a calibrator learns after its fit, and the decisions it carries."""

import json
from dataclasses import replace

import numpy as np
import pytest

import smallcal as sc
from smallcal.calibrators.class_frequencies import ClassFrequencies
from smallcal.calibrators.decision import Threshold, thresholds_of
from smallcal.calibrators.fitted import FittedCalibrator, load
from smallcal.calibrators.later import with_later, without_last
from smallcal.calibrators.reference import Reference
from smallcal.errors import ArtefactError, GroupWarning, InputError
from support.refused import refused

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(300, 3)) * 2
Y = np.array([RNG.choice(3, p=np.exp(z) / np.exp(z).sum()) for z in Z])
NOW = (0.6, 0.3, 0.1)


def fitted(**options) -> FittedCalibrator:
    return sc.TemperatureScaling(**options).fit(Z, Y).fitted_


def threshold(**changed) -> Threshold:
    given = {
        "risk": 0.02,
        "confidence": 0.95,
        "rule": "accepted",
        "by": "all",
        "names": ("",),
        "thresholds": (0.7,),
        "n": (300,),
        "accepted": (200,),
        "errors": (1,),
        "bounds": (0.0189,),
        "cross": False,
        "sha256": "0" * 64,
        "promise": "at most 2 %",
    }
    return Threshold(**{**given, **changed})


def carrying(cal: FittedCalibrator, *decisions: Threshold) -> FittedCalibrator:
    return replace(cal, decisions=decisions)


def test_frequencies_weigh_the_probabilities():
    before = fitted()
    after = with_later(before, ClassFrequencies((1 / 3,) * 3, NOW))
    p = before.predict_proba(Z) * np.array(NOW)
    np.testing.assert_allclose(after.predict_proba(Z), p / p.sum(axis=1, keepdims=True), atol=1e-12)
    assert before.preserves_argmax
    assert not after.preserves_argmax


def test_of_scores_too():
    x = RNG.normal(size=400)
    y = (RNG.random(400) < 1 / (1 + np.exp(-x))).astype(int)
    before = sc.Calibrator(input="score").fit(x, y).fitted_
    after = with_later(before, ClassFrequencies((0.5, 0.5), (0.2, 0.8)))
    p = before.predict_score(x)
    expected = 0.8 * p / (0.8 * p + 0.2 * (1 - p))
    np.testing.assert_allclose(after.predict_score(x), expected, atol=1e-12)
    np.testing.assert_allclose(after.predict_proba(x)[:, 1], expected, atol=1e-12)


def test_undone_to_the_byte(tmp_path):
    before = carrying(fitted(), threshold())
    other = Reference.from_dict(fitted(class_names=["a", "b", "c"]).reference.to_dict())
    after = with_later(before, ClassFrequencies((1 / 3,) * 3, NOW), reference=other)
    assert after.decisions == ()
    after.save(tmp_path / "later.json")
    back = without_last(load(tmp_path / "later.json"))
    assert json.dumps(back.to_dict()) == json.dumps(before.to_dict())
    with refused("options-conflict"):
        without_last(back)


def test_nothing_is_written_where_there_is_nothing():
    assert not {"later", "decisions"} & set(fitted().to_dict())


def test_accepts_by_confidence(tmp_path):
    carrying(fitted(), threshold()).save(tmp_path / "cal.json")
    cal = load(tmp_path / "cal.json")
    p = cal.predict_proba(Z).max(axis=1)
    np.testing.assert_array_equal(cal.accept(Z), p >= 0.7)
    np.testing.assert_array_equal(sc.load(tmp_path / "cal.json").accept(Z), p >= 0.7)
    assert p.tolist() == fitted().predict_proba(Z).max(axis=1).tolist()


def test_a_threshold_for_each_class():
    three = {"n": (100,) * 3, "accepted": (50,) * 3, "errors": (0,) * 3}
    by = threshold(
        by="class", names=("0", "1", "2"), thresholds=(0.5, None, 0.9), bounds=(0.02,) * 3, **three
    )
    cal = carrying(fitted(), by)
    p = cal.predict_proba(Z)
    expected = p.max(axis=1) >= np.array([0.5, 2.0, 0.9])[p.argmax(axis=1)]
    np.testing.assert_array_equal(cal.accept(Z), expected)


def test_a_threshold_for_each_group():
    two = {"n": (100,) * 2, "accepted": (50,) * 2, "errors": (0,) * 2, "bounds": (0.02,) * 2}
    cal = carrying(fitted(), threshold(by="group", names=("a", "b"), thresholds=(0.5, 0.9), **two))
    groups = np.array(["a", "b", "c"] * 100)
    with pytest.warns(GroupWarning, match="100 of 300 rows have no threshold"):
        found = cal.accept(Z, groups=groups)
    p = cal.predict_proba(Z).max(axis=1)
    np.testing.assert_array_equal(found, p >= np.array([0.5, 0.9, 2.0] * 100))
    with refused("groups-missing"):
        cal.accept(Z)


def test_several_risks():
    cal = carrying(fitted(), threshold(), threshold(risk=0.005, thresholds=(0.9,)))
    assert [*thresholds_of(cal.decisions)] == ["accepted_at_2pct", "accepted_at_0_5pct"]
    assert cal.accept(Z, risk=0.02).sum() > cal.accept(Z, risk=0.005).sum()
    with refused("unknown-choice", "0.02", "0.005"):
        cal.accept(Z)
    with refused("no-decision"):
        fitted().accept(Z)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"names": ("a",)}, "names"),
        ({"thresholds": (0.5, 0.6)}, "one threshold, count and bound for each name"),
        ({"errors": (201,)}, "errors <= accepted <= n"),
        ({"risk": 0.0}, "between 0 and 1"),
    ],
)
def test_decisions_that_cannot_be(changed, said):
    with pytest.raises(InputError, match=said):
        threshold(**changed)


def test_damaged_files(tmp_path):
    cal = carrying(with_later(fitted(), ClassFrequencies((1 / 3,) * 3, NOW)), threshold())
    for change, said in [
        (lambda d: d["decisions"][0].update(kind="oracle"), "kind must be one of"),
        (lambda d: d["decisions"][0].update(thresholds=[1.5]), "must lie in"),
        (lambda d: d["decisions"].append(d["decisions"][0]), "two thresholds for one risk"),
        (lambda d: d["later"][0].update(now=[0.5, 0.5, 0.5]), "sum to 1"),
        (lambda d: d["later"][0].update(now=[0.5, 0.5], before=[0.5, 0.5]), "for 2 classes"),
        (lambda d: d["later"][0].pop("aside"), "lacks aside"),
    ]:
        document = json.loads(json.dumps(cal.to_dict()))
        change(document)
        path = tmp_path / "bad.json"
        path.write_text(json.dumps(document))
        with pytest.raises(ArtefactError, match=said):
            load(path)
