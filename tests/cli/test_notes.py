"""What asks nothing of anyone is a note, said once; what asks for action is a warning."""

import json
import warnings

import numpy as np
import pytest

import smallcal as sc
from smallcal.calibrators.discipline import FLAGS, NOTES
from smallcal.calibrators.maps import multinomial_fit
from support.refused import refused
from support.simulated import simulate


def test_temperature_scaling_in_the_place_of_the_default_is_a_note(cli, monkeypatch):
    z, y = simulate(200, 4)
    compare = multinomial_fit.compare
    monkeypatch.setattr(multinomial_fit, "compare", lambda *given: (compare(*given)[0], True))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cal = sc.Calibrator().fit(z, y)
    assert list(cal.flags_) == ["no_gain"]
    np.savez("cal.npz", logits=z, labels=y)
    for more in ([], ["--json"]):
        code, out, err = cli("fit", "cal.npz", "-o", "cal.json", *more)
        assert code == 0
        assert err.startswith("smallcal: note: no_gain: ")
        assert err.count("\n") == 1
    assert "no_gain" in json.loads(out)["flags"]
    out = cli("fit", "cal.npz")[1]
    assert "no_gain" not in out
    assert "No flags" not in out
    assert "The predicted class never changes." in out
    assert "Changes" not in out
    code, out, err = cli("inspect", "cal.json")
    assert (out.count("no_gain"), err) == (1, "")
    _, _, err = cli("compare", "cal.npz", "cal.npz", "--methods", "none,default", "--n-boot", "0")
    assert err.count("note: smallcal: no_gain: ") == 1


def test_what_asks_for_action_still_warns():
    z, y = simulate(60, 12)
    with pytest.warns(sc.FitWarning) as found:
        cal = sc.SRTS().fit(z, y)
    assert len(found) == len(cal.flags_) > 1
    assert set(NOTES) < set(FLAGS)


# Resamples.


@pytest.fixture
def file(here):
    z, y = simulate(150, 4)
    np.savez("cal.npz", logits=z, labels=y)
    return "cal.npz"


def test_no_resamples_means_no_intervals(file, cli):
    code, out, _ = cli("evaluate", file, "--n-boot", "0")
    assert (code, "interval" in out) == (0, False)
    found = json.loads(cli("evaluate", file, "--n-boot", "0", "--json")[1])
    assert (found["intervals"], found["metrics"]["ece15"] > 0) == ({}, True)
    args = ["compare", file, file, "--methods", "none,ts-nll", "--n-boot", "0"]
    code, out, _ = cli(*args)
    assert (code, "interval" in out, "Difference to none:" in out) == (0, False, True)
    assert max(map(len, out.splitlines())) <= 80
    found = json.loads(cli(*args, "--json")[1])
    assert found["intervals"] == {}


def test_a_report_needs_some_resamples_or_none(file, cli):
    code, _, err = cli("report", file, file, "--n-boot", "10")
    assert (code, err.count("\n")) == (2, 1)
    assert "--n-boot must be 0 or at least 100; got 10" in err


def test_intervals_without_resamples_are_refused():
    z, y = simulate(150, 4)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    with refused("option-range", "n_boot", "1", "=True"):
        sc.evaluate(y, p, ci=True, n_boot=0)
    assert sc.evaluate(y, p, n_boot=0)["ece15"] > 0
    assert sc.compare(y, {"a": p, "b": p}, n_boot=0).intervals == {}
