"""A run must find again what a stored run had found."""

import math

import numpy as np
import pytest

from smallcal.errors import InputError
from smallcal_lab.studies.frame import FAILED, Frame
from smallcal_lab.studies.gate import gate


def frame(values, **about):
    rows = [
        {"cell": "a", "budget": 250, "draw": d, "label": label, "metric": "ece15", "value": v}
        | about
        for label, own in values.items()
        for d, v in enumerate(own)
    ]
    return Frame.of([*rows, {"cell": "a", "label": "tva-ts", "metric": FAILED, "value": math.nan}])


def test_every_shared_number_is_compared_draw_by_draw():
    old = {"tva-ts": [0.02, 0.03, math.nan], "srts-bce": [0.01, 0.02, 0.03], "smart-bce": [0.5]}
    new = {"tva-ts": [0.02 + 9e-7, 0.03, math.nan], "srts-bce": [0.01, 0.02 + 2e-6, 0.03]}
    found = gate(frame({**new, "pwlinear-3": [0.1, 0.2]}), frame(old))
    assert (found.values, found.draws, found.labels) == (6, 3, ("tva-ts", "srts-bce"))
    assert found.largest == pytest.approx(2e-6)
    assert found.failures == ("a, srts-bce, budget 250, draw 1, ece15: 0.020002, 0.02 before",)
    assert "1 differ by more than 1e-06" in found.text()
    assert gate(frame(old), frame(old)).failures == ()
    assert "none differs by more than 1e-06" in gate(frame(old), frame(old)).text()


def test_what_is_not_defined_any_more_is_another_number():
    found = gate(frame({"tva-ts": [math.nan]}), frame({"tva-ts": [0.1]}))
    assert len(found.failures) == 1
    assert np.isinf(found.largest)


def test_runs_without_a_common_fit_cannot_be_compared():
    with pytest.raises(InputError, match="nothing to compare"):
        gate(frame({"tva-ts": [0.1]}), frame({"tva-ts": [0.1]}, budget=625))
