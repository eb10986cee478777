"""``smallcal audit``: what it prints, and the code it leaves with."""

import json

import numpy as np
import pytest

import smallcal as sc
from support.simulated import simulate

QUICK = ("--n-refits", "4", "--n-null", "9")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Stand in a folder with data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    (z, y), (tz, ty) = simulate(300, 5), simulate(200, 5, seed=1)
    np.savez("both.npz", val_logits=z, val_labels=y, test_logits=tz, test_labels=ty)
    np.savez("cal.npz", logits=z, labels=y)
    proba = np.random.default_rng(0).dirichlet(np.ones(5), size=20)
    np.savez("probs.npz", probs=proba, labels=np.arange(20) % 5)
    np.savez("right.npz", logits=z, labels=z.argmax(axis=1))
    np.savez("flat.npz", logits=np.ones((50, 5)), labels=y[:50])
    sc.SRTS(n_groups=2).fit(z, y).save("cal.json")


def test_groups_signals_and_findings_are_printed(cli):
    code, out, err = cli(
        "audit", "both.npz:val", "--method", "srts-bce", "--apply-to", "both.npz:test", *QUICK
    )
    assert (code, err) == (0, "")
    assert "srts-bce on both.npz:val: 300 samples of 5 classes," in out
    for part in (
        "4 refits, each on 300 draws with replacement",
        "group 1 begins at score",
        "median T [quartiles]",
        "these samples",
        "both.npz:test",
        "groups ranked by temperature as here",
        "on held-out samples",
        "B/σ² in floors",
        "logit margin",
        "random groups",
    ):
        assert part in out
    verdict, advice = out.rstrip().splitlines()[-3:-1]
    assert verdict.startswith(("Sound", "Usable with care", "Not to be"))
    assert advice.startswith("Use smallcal, the default: it changes")
    assert "ECE noise floor" in out
    assert "class bias" in out
    assert max(map(len, out.splitlines())) <= 80


def test_json_is_what_the_function_returns(cli):
    code, out, _ = cli(
        "audit",
        "cal.npz",
        "--set",
        "n_groups=2",
        "--method",
        "srts-bce",
        *QUICK,
        "--size",
        "100",
        "--seed",
        "3",
        "--json",
    )
    document = json.loads(out)
    with np.load("cal.npz") as arrays:
        found = sc.audit(
            arrays["logits"],
            arrays["labels"],
            method="srts-bce",
            options={"n_groups": 2},
            n_refits=4,
            n_null=9,
            size=100,
            random_state=3,
        )
    assert code == 0
    assert document == {
        "data": "cal.npz",
        "calibrator": None,
        **json.loads(json.dumps(found.to_dict())),
    }


@pytest.mark.parametrize("name", ["default", "tva-ts", "signal-linear", "ets", "none"])
def test_any_method_has_an_audit(name, cli):
    code, out, err = cli("audit", "cal.npz", "--method", name, "--n-refits", "3", "--n-null", "0")
    assert (code, err) == (0, "")
    assert "one temperature for all" in out
    assert "nan" not in out
    assert "B/σ²" not in out


def test_a_saved_calibrator_is_audited(cli):
    code, out, err = cli("audit", "cal.npz", "--calibrator", "cal.json", *QUICK)
    assert (code, err) == (0, "")
    assert "srts-bce[n_groups=2] on cal.npz" in out
    assert "fitted on other samples" not in out
    assert "fitted on other samples" in cli(
        "audit", "both.npz:test", "--calibrator", "cal.json", *QUICK
    )[1].replace("\n", " ")


def test_no_errors_are_told_without_a_traceback(cli):
    code, out, err = cli("audit", "right.npz", *QUICK)
    assert (code, err) == (0, "")
    assert "No prediction is wrong" in out
    assert "No signal can be judged: every prediction is right" in " ".join(out.split())


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["gone.npz"], "cannot read gone.npz"),
        (["cal.npz", "--method", "luck"], "unknown method 'luck'"),
        (["cal.npz", "--n-refits", "1"], "--n-refits"),
        (["cal.npz", "--size", "3000"], "cal.npz: size must be at least 5 and less than"),
        (["cal.npz", "--apply-to", "probs.npz"], "probs.npz holds probabilities"),
        (["cal.npz", "--apply-to", "gone.npz"], "cannot read gone.npz"),
        (["cal.npz", "--calibrator", "cal.json", "--method", "tva-ts"], "brings its own method"),
        (["cal.npz", "--calibrator", "gone.json"], "cannot read gone.json"),
        (["cal.npz", "--set", "luck=3"], "has no such option"),
        (["flat.npz"], "flat.npz: logits are constant in every row"),
        (["probs.npz", "--calibrator", "cal.json"], "this calibrator was fitted on logits"),
    ],
)
def test_bad_input_is_one_line_and_code_2(args, message, cli):
    code, out, err = cli("audit", *args)
    assert (code, out) == (2, "")
    assert err.startswith("smallcal: error: ")
    assert err.count("\n") == 1
    assert message in err


def test_labels_may_be_names_that_the_calibrator_knows(cli):
    z, y = simulate(300, 5)
    names = ["a", "b", "c", "d", "e"]
    sc.SRTS(class_names=names).fit(z, y).save("named.json")
    np.savez("named.npz", logits=z, labels=np.array(names)[y])
    code, out, err = cli("audit", "named.npz", "--calibrator", "named.json", *QUICK)
    assert (code, err) == (0, "")
    assert "300 samples" in out
