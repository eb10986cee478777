"""Frames: the names of their columns are those of the classes, in whatever order they stand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smallcal as sc
from smallcal import InputError, runtime
from smallcal.data.names import frame_names, in_order, order_of
from support.refused import refused
from support.simulated import simulate

pd = pytest.importorskip("pandas", reason="makes the frames")

NAMES = ["ant", "bee", "cat", "dog"]
Z, Y = simulate(300, 4)
FRAME = pd.DataFrame(Z, columns=NAMES)
WORDS = np.array(NAMES)[Y]


@settings(max_examples=24)
@given(order=st.permutations(NAMES))
def test_columns_in_any_order_give_the_same_probabilities(order):
    cal = sc.Calibrator(method="class-linear").fit(FRAME, WORDS)
    np.testing.assert_allclose(
        cal.predict_proba(FRAME[list(order)]), cal.predict_proba(Z), rtol=1e-12
    )
    assert cal.predict(FRAME[list(order)])[:3].tolist() == cal.predict(Z)[:3].tolist()


def test_a_fit_on_a_frame_keeps_its_names(tmp_path):
    cal = sc.TemperatureScaling().fit(FRAME, WORDS)
    assert cal.fitted_.class_names == tuple(NAMES)
    assert cal.classes_.tolist() == NAMES
    cal.save(tmp_path / "cal.json")
    for again in (sc.load(tmp_path / "cal.json"), runtime.load(tmp_path / "cal.json")):
        turned = FRAME[NAMES[::-1]].add_prefix("logit_")
        np.testing.assert_array_equal(again.predict_proba(turned), cal.predict_proba(Z))


def test_labels_that_are_numbers_are_answered_in_numbers():
    cal = sc.TemperatureScaling().fit(FRAME, Y)
    assert cal.fitted_.class_names == tuple(NAMES)
    assert cal.classes_.tolist() == [0, 1, 2, 3]
    assert cal.score(FRAME[NAMES[::-1]], Y) == float((Z.argmax(axis=1) == Y).mean())


def test_other_names_are_refused():
    cal = sc.TemperatureScaling().fit(FRAME, WORDS)
    message = "the columns do not match the class names: missing 'dog'; unknown 'wolf'"
    with pytest.raises(InputError, match=message):
        cal.predict_proba(FRAME.rename(columns={"dog": "wolf"}))
    with refused("class-names-invalid", "'dog'"):
        cal.predict_proba(FRAME[NAMES[:3]])
    with refused("class-names-invalid", "'id'"):
        cal.temperature(FRAME.assign(id=0.0))


def test_frames_without_names_are_taken_as_they_stand():
    cal = sc.TemperatureScaling().fit(FRAME, WORDS)
    for frame in (pd.DataFrame(Z), pd.DataFrame(Z).add_prefix("logit_"), Z, Z.tolist()):
        np.testing.assert_array_equal(cal.predict_proba(frame), cal.predict_proba(FRAME))
    bare = sc.TemperatureScaling().fit(pd.DataFrame(Z), Y)
    assert bare.fitted_.class_names is None
    np.testing.assert_array_equal(bare.predict_proba(FRAME), cal.predict_proba(FRAME))


def test_names_that_are_given_must_agree_with_the_columns():
    with refused("class-names-invalid"):
        sc.TemperatureScaling(class_names=NAMES[::-1]).fit(FRAME, WORDS)
    with refused("class-names-invalid", "'wolf'", "'dog'"):
        sc.TemperatureScaling(class_names=[*NAMES[:3], "wolf"]).fit(FRAME, Y)
    renamed = sc.TemperatureScaling(class_names=list("abcd")).fit(FRAME, Y)
    assert renamed.fitted_.class_names == tuple("abcd")


def test_a_monitor_takes_columns_by_name():
    from smallcal.deploy.monitor import Monitor

    cal = sc.SRTS().fit(FRAME, WORDS)
    one, other = Monitor(cal), Monitor(cal)
    one.update(FRAME, WORDS)
    other.update(FRAME[NAMES[::-1]], WORDS)
    assert one.to_dict()["rows"] == other.to_dict()["rows"]
    assert one.report().to_dict() == other.report().to_dict()


@given(st.lists(st.text(max_size=5), unique=True, min_size=1), st.randoms())
def test_an_order_puts_names_back(names, random):
    moved = random.sample(names, len(names))
    order = order_of(moved, names, what="columns")
    assert [moved[i] for i in (range(len(names)) if order is None else order)] == names


def test_what_is_no_name():
    assert in_order(["0", "1", "2"])
    assert in_order(["class_1", "class_2"])
    assert not in_order(["1", "0"])
    assert not in_order([])
    assert frame_names(pd.DataFrame(Z)) is None
    assert frame_names(pd.Series(Y)) is None
