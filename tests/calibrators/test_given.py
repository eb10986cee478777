"""What a calibrator is applied to."""

from __future__ import annotations

import numpy as np

import smallcal as sc
from smallcal.data.special import softmax
from smallcal.runtime import load
from support.refused import refused
from support.simulated import simulate


def test_probabilities_for_a_calibrator_of_logits_are_refused(tmp_path):
    z, y = simulate(300, 5)
    cal = sc.make("ts-nll").fit(z, y)
    cal.save(tmp_path / "cal.json")
    for reader in (cal, load(tmp_path / "cal.json")):
        with refused("probabilities-as-logits"):
            reader.predict_proba(softmax(z))
        with refused("probabilities-as-logits"):
            reader.predict_proba(softmax(z)[:1])
    # Rows of logits may sum to nearly 1, and logarithms of probabilities are logits.
    assert cal.predict_proba(np.array([[0.1, 0.2, 0.3, 0.41, 0.0]])).shape == (1, 5)
    expected = cal.predict_proba(z)
    np.testing.assert_allclose(cal.predict_proba(np.log(softmax(z))), expected, rtol=1e-9)


def test_strings_where_names_of_classes_cannot_be_given_say_what_to_pass():
    p = np.full((2, 2), 0.5)
    for measure in (sc.evaluate, lambda y, p: sc.compare(y, {"a": p, "b": p})):
        with refused("labels-are-names", "y_true"):
            measure(["yes", "no"], p)
