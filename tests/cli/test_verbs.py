"""Each verb: what it prints, what it writes, and the code it leaves with."""

from __future__ import annotations

import json

import numpy as np
import pytest

import smallcal as sc
from smallcal.calibrators.catalogue import METHODS
from smallcal.cli.verbs import compare
from smallcal.cli.verbs.demo import Cell, findings
from smallcal.io import npy as stream_module
from smallcal.io import read
from smallcal.metrics import METRICS
from smallcal.metrics.condition import Condition
from smallcal_lab.methods import heads
from support.cases import DEPLOYABLE, drawn, features_of, fit, missing_package

#: For tests that do not look at intervals and floors: of exact metrics they take seconds.
PLAIN = ("--n-boot", "0")

VERBS = (
    *("demo", "fit", "apply", "evaluate", "compare", "select", "audit", "plan"),
    *("report", "inspect", "methods", "cite", "logits", "study", "export"),
)


def split(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits of an over-confident model of five classes."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(5, size=n)
    logits = rng.normal(size=(n, 5)) + 1.5 * np.eye(5)[labels]
    return (3 * logits).astype(np.float32), labels


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Stand in a folder with data of every kind the verbs need."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    (z, y), (tz, ty) = split(400, 0), split(500, 1)
    np.savez("both.npz", val_logits=z, val_labels=y, test_logits=tz, test_labels=ty)
    np.savez("cal.npz", logits=z, labels=y)
    np.savez("test.npz", logits=tz, labels=ty)
    np.save("test.npy", tz)
    np.save("labels.npy", ty)
    sc.SRTS().fit(z, y).save("cal.json")
    return tmp_path


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_in_80_columns(verb, cli):
    code, out, err = cli(verb, "-h")
    assert (code, err) == (0, "")
    assert "Usage" in out
    assert max(map(len, out.splitlines())) <= 80


def test_help_lists_every_verb(cli):
    for args in (["-h"], ["--help"], []):
        code, out, _ = cli(*args)
        assert code == 0
        assert all(verb in out for verb in VERBS)
    assert cli("--version") == (0, f"smallcal {sc.__version__}\n", "")


def test_fit_writes_a_calibrator_and_says_what_it_is(cli):
    code, out, err = cli("fit", "cal.npz", "-o", "new.json", "--method", "srts-bce")
    assert (code, err) == (0, "")
    assert "srts-bce: fitted on 400 samples of 5 classes (logits)." in out
    assert "10 parameters: 3 temperatures and 7 in the risk score." in out
    assert out.endswith("Wrote new.json.\n")
    assert max(map(len, out.splitlines())) <= 80
    z, y = split(400, 0)
    np.testing.assert_array_equal(
        sc.load("new.json").predict_proba(z), sc.SRTS().fit(z, y).predict_proba(z)
    )


def test_fit_without_output_says_that_nothing_was_kept(cli, here):
    before = sorted(here.iterdir())
    code, out, _ = cli("fit", "cal.npz", "--method", "tva-ts")
    assert code == 0
    assert "Nothing was saved" in out
    assert sorted(here.iterdir()) == before


def test_fit_takes_options_of_the_method(cli):
    args = ["--set", "n_groups=2", "--set", "bounds=0.1,10", "--set", "objective=nll", "--json"]
    code, out, _ = cli("fit", "cal.npz", "--method", "srts-bce", "-o", "n.json", *args)
    found = json.loads(out)
    assert code == 0
    assert (found["objective"], len(found["groups"]), found["n_parameters"]) == ("nll", 2, 9)
    assert found["output"] == "n.json"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("n_groups", "--set needs name=value"),
        pytest.param("n_groups=" + "[" * 10_000, "--set n_groups must be a whole", id="deep"),
        ("n_groups=many", "--set n_groups must be a whole number; got 'many'"),
        ("n_groups=2.5", "--set n_groups must be a whole number"),
        ("n_groups=true", "--set n_groups must be a whole number"),
        ("C=big", "--set C must be a number"),
        ("n_groups=0", "n_groups must be a whole number of at least 1"),
        ("depth=3", "srts-bce has no such option; choose from C, bounds"),
        ("random_state=3", "use --seed"),
        ("bounds=a,b", "bounds must be two temperatures"),
        ("statistics=luck", "statistics must be different names among"),
    ],
)
def test_fit_refuses_options_it_does_not_know(setting, message, cli):
    code, _, err = cli("fit", "cal.npz", "--method", "srts-bce", "--set", setting)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


def test_thin_evidence_is_a_note_not_a_python_warning(cli):
    z, _ = split(60, 3)
    np.savez("easy.npz", logits=z, labels=z.argmax(axis=1))
    code, out, err = cli("fit", "easy.npz")
    assert code == 0
    assert "Flag one_sided: fewer than two predictions" in out
    assert "note: one_sided: fewer than two predictions" in err
    assert "Warning" not in err


def test_labels_may_be_names(cli):
    z, y = split(400, 0)
    names = ["ant", "bee", "cat", "dog", "eel"]
    with open("names.txt", "w") as file:
        file.write("\n".join(names))
    np.savez("named.npz", logits=z, labels=np.array(names)[y])
    code, _, err = cli("fit", "named.npz")
    assert code == 2
    assert "named.npz: labels are strings" in err
    assert cli("fit", "named.npz", "--class-names", "names.txt", "-o", "n.json")[0] == 0
    assert sc.load("n.json").fitted_.class_names == tuple(names)
    assert cli("evaluate", "named.npz", "--calibrator", "n.json", *PLAIN)[0] == 0
    assert cli("apply", "n.json", "named.npz", "-o", "p.csv")[0] == 0
    with open("p.csv") as file:
        assert file.readline().startswith("prob_ant,prob_bee")


def test_apply_writes_what_the_calibrator_gives(cli):
    code, out, _ = cli("apply", "cal.json", "test.npz", "-o", "p.npz", "--with-temperature")
    assert code == 0
    assert out == "Wrote 500 rows of 5 probabilities to p.npz.\n"
    tz, ty = split(500, 1)
    cal = sc.load("cal.json")
    with np.load("p.npz") as written:
        np.testing.assert_array_equal(written["probabilities"], cal.predict_proba(tz))
        np.testing.assert_array_equal(written["temperature"], cal.temperature(tz))
        np.testing.assert_array_equal(written["labels"], ty)
    assert read("p.npz").input == "probabilities"
    assert cli("evaluate", "p.npz", "--metrics", "ece15")[0] == 0


@pytest.mark.parametrize("method", ["srts-bce", "tva-ts", "shuffled-k3", "none"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_streaming_equals_applying_at_once(method, dtype, cli, monkeypatch):
    z, y = split(400, 0)
    cal = sc.make(method).fit(z, y)
    cal.save("m.json")
    wide = split(3000, 2)[0].astype(dtype)
    np.save("z.npy", wide)
    monkeypatch.setattr(stream_module, "BLOCK_BYTES", 5000)
    assert cli("apply", "m.json", "z.npy", "-o", "p.npy")[0] == 0
    written = np.load("p.npy")
    assert written.dtype == np.promote_types(dtype, np.float32)
    np.testing.assert_array_equal(written, cal.predict_proba(wide))


def test_a_bad_row_is_named_by_its_place_in_the_file(cli, monkeypatch, here):
    wide = split(3000, 2)[0]
    wide[2345, 1] = np.nan
    np.save("z.npy", wide)
    monkeypatch.setattr(stream_module, "BLOCK_BYTES", 5000)
    code, _, err = cli("apply", "cal.json", "z.npy", "-o", "p.npy")
    assert code == 2
    assert "z.npy: logits must be finite" in err
    assert "row 2345 " in err
    assert not (here / "p.npy").exists()


def test_probabilities_stream_too(cli, monkeypatch):
    z, y = split(400, 0)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    cal = sc.SRTS(input="probabilities").fit(p, y)
    cal.save("m.json")
    np.save("p.npy", p)
    monkeypatch.setattr(stream_module, "BLOCK_BYTES", 1000)
    code, _, err = cli("apply", "m.json", "p.npy", "-o", "q.npy", "--input", "logits")
    assert code == 2
    assert "p.npy holds logits, but this calibrator was fitted on probabilities" in err
    assert cli("apply", "m.json", "p.npy", "-o", "q.npy")[0] == 0
    np.testing.assert_array_equal(np.load("q.npy"), cal.predict_proba(p))
    p[300] = 0.9
    np.save("p.npy", p)
    code, _, err = cli("apply", "m.json", "p.npy", "-o", "q.npy", "--input", "probabilities")
    assert code == 2
    assert "(counting from row 300 of the file)" in err


def test_apply_refuses_before_it_works(cli):
    code, _, err = cli("apply", "cal.json", "test.npy", "-o", "p.npy", "--with-temperature")
    assert code == 2
    assert "a .npy file holds one array" in err
    assert "must be one of .npz" in cli("apply", "cal.json", "test.npy", "-o", "p.xls")[2]
    np.save("narrow.npy", np.ones((20, 3)))
    for target in ("p.npy", "p.npz"):
        code, _, err = cli("apply", "cal.json", "narrow.npy", "-o", target)
        assert code == 2
        assert "narrow.npy: logits must have the 5 columns" in err


def test_evaluate_prints_every_metric(cli):
    code, out, _ = cli("evaluate", "test.npz", "--calibrator", "cal.json", "--n-boot", "20")
    assert code == 0
    assert all(name in out for name in METRICS)
    assert max(map(len, out.splitlines())) <= 80


def test_evaluate_gives_fractions_to_machines(cli):
    tz, ty = split(500, 1)
    cal = sc.load("cal.json")
    args = [
        "--calibrator",
        "cal.json",
        "--labels",
        "labels.npy",
        "--json",
        "--metrics",
        "nll,ece15",
    ]
    code, out, err = cli("evaluate", "test.npy", *args)
    found = json.loads(out)
    assert (code, err) == (0, "")
    expected = sc.evaluate(ty, cal.predict_proba(tz), metrics=["nll", "ece15"])
    assert found["metrics"] == pytest.approx(expected, rel=1e-6)
    assert (found["n"], found["n_classes"], found["calibrator"]) == (500, 5, "cal.json")


def test_fail_if_leaves_with_1_when_the_condition_holds(cli):
    base = ["evaluate", "test.npz", "--metrics", "accuracy"]
    code, _, err = cli(*base, "--fail-if", "ece15 > 1%", "--fail-if", "nll>=0")
    assert code == 1
    assert err.count("check failed") == 2
    assert cli(*base, "--fail-if", "ece15>0.99", "--fail-if", "nll<0")[0] == 0
    code, out, _ = cli(*base, "--json", "--fail-if", "ece15>0.01")
    assert code == 1
    assert json.loads(out)["checks"][0]["failed"] is True


def test_a_metric_that_is_undefined_fails_the_check(cli):
    z, _ = split(50, 3)
    np.savez("right.npz", logits=z, labels=z.argmax(axis=1))
    base = ["evaluate", "right.npz", "--n-boot", "20"]
    code, out, err = cli(*base, "--fail-if", "auroc<0.5", "--json")
    assert code == 1
    assert json.loads(out)["metrics"]["auroc"] is None
    assert "auroc is undefined (all predictions are right" in err
    assert "undefined" in cli(*base)[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ece15", "must look like ece15>0.03"),
        ("ece15=0.1", "must look like"),
        ("ece15>1e", "must look like"),
        ("luck>1", "unknown metric 'luck'"),
        ("ece15>3", "write ece15>3% or ece15>0.03"),
    ],
)
def test_a_condition_that_means_nothing_is_bad_input(text, message, cli):
    code, _, err = cli("evaluate", "test.npz", "--fail-if", text)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


def test_a_condition_may_be_in_percent():
    assert Condition.parse("ece15>3%").bound == pytest.approx(0.03)
    assert Condition.parse("nll > 3").bound == 3


def test_compare_takes_two_files_or_one_with_two_splits(cli):
    one, two = cli("compare", "both.npz"), cli("compare", "cal.npz", "test.npz")
    assert one[0] == two[0] == 0
    tables = [text[text.index("method") :] for text in (one[1], two[1])]
    assert tables[0] == tables[1]
    assert "Difference to tva-ts, 95 % interval:" in one[1]
    assert max(map(len, one[1].splitlines())) <= 80
    code, _, err = cli("compare", "cal.npz")
    assert code == 2
    assert "name the test file" in err


def test_groups_are_counted_from_0_in_tables_and_figures(cli):
    pairs = [(a["logits"], a["labels"]) for a in map(np.load, ("cal.npz", "test.npz"))]
    z, y = pairs[1]
    assert cli("fit", "cal.npz", "--method", "srts-bce", "-o", "m.json")[0] == 0
    audit = ("audit", "cal.npz", "--calibrator", "m.json", "--n-refits", "3", "--n-null", "0")
    for text in (cli("inspect", "m.json")[1], cli(*audit)[1]):
        rows = text[text.index("\ngroup  ") :].splitlines()[3:6]
        assert [row.split()[0] for row in rows] == ["0", "1", "2"]
    given = {"calibrator": sc.load("m.json")}
    three = ["group 0", "group 1", "group 2"]
    found = sc.plots.matched_confidence_data(y, z, least=1, **given)
    assert [name.split(",")[0] for name in found] == three
    left = sc.plots.group_residuals_data(y, z, **given)["raw"]
    assert [name.split(",")[0] for name in left.labels] == three
    assert left.group.tolist() == [0, 1, 2]
    report = sc.report(*pairs, methods=["srts-bce"], n_boot=100).content
    (table,) = (t for t in report["groups"]["tables"] if t["by"] == "groups of srts-bce")
    assert [row["group"] for row in table["rows"]] == three


def test_evaluate_names_the_method_of_a_calibrator(cli):
    assert cli("fit", "cal.npz", "--method", "default", "-o", "m.json")[0] == 0
    out = cli("evaluate", "test.npz", "--calibrator", "m.json", *PLAIN)[1]
    assert out.splitlines()[0].endswith("calibrated by m.json (smallcal)")


def test_who_compares_the_default_sees_its_name_everywhere(cli):
    options = ("--methods", "ts-nll,default,adaptive", "--metrics", "nll", "--n-boot", "50")
    code, out, _ = cli("compare", "both.npz", *options, "--baseline", "default")
    assert code == 0
    assert "Difference to smallcal, 95 % interval:" in out
    table, _, advice = out.partition("Use smallcal, the default")
    assert "default" not in table
    assert "Choosing a method by its test results" in " ".join(advice.split())
    found = json.loads(cli("compare", "both.npz", *options, "--json")[1])
    assert list(found["values"]) == ["ts-nll", "smallcal"]
    assert found["recommended"] == "smallcal"
    out = cli("compare", "both.npz", "--metrics", "nll", "--n-boot", "50")[1]
    assert "default" not in out.partition("Use smallcal, the default")[0]


def test_compare_in_json_has_values_and_differences(cli):
    args = ["--methods", "none,ts-nll", "--baseline", "none", "--metrics", "ece15", "--json"]
    code, out, _ = cli("compare", "both.npz", *args)
    found = json.loads(out)
    assert code == 0
    assert found["differences"]["ts-nll"]["ece15"] == pytest.approx(
        found["values"]["ts-nll"]["ece15"] - found["values"]["none"]["ece15"]
    )
    assert found["failures"] == {}


def test_compare_knows_every_method(cli, monkeypatch):
    # One cell of the sweep: all 48 would take as long as every other method.
    monkeypatch.setattr(heads, "PROTOCOLS", {key: c[:1] for key, c in heads.PROTOCOLS.items()})
    code, out, err = cli("compare", "both.npz", "--methods", "all", "--metrics", "nll")
    assert code == 0
    for name, row in METHODS.items():
        left_out = "features" in row.needs or row.binary or missing_package(name)
        assert bool(left_out) != any(line.split()[:1] == [name] for line in out.splitlines())
        assert name in out or name in err  # left out, and said so


def test_compare_prints_intervals_and_a_verdict_in_words(cli):
    options = ("--metrics", "nll,ece15", "--n-boot", "300")
    code, out, _ = cli("compare", "both.npz", *options)
    assert code == 0
    words = " ".join(out.split())
    assert "none: raises log-loss by" in words
    assert ", 95 % interval " in words
    assert max(map(len, out.splitlines())) <= 80
    found = json.loads(cli("compare", "both.npz", *options, "--level", "0.9", "--json")[1])
    row = found["intervals"]["none"]["nll"]
    assert (row["level"], row["n_boot"]) == (0.9, 300)
    assert row["low"] <= row["point"] <= row["high"]
    assert set(found["value_intervals"]) == set(found["values"])
    plain = cli("compare", "both.npz", "--metrics", "nll", "--n-boot", "0")
    assert "interval" not in plain[1].partition("Use smallcal")[0]
    assert "Difference to tva-ts:" in plain[1]


def test_evaluate_prints_intervals_and_floors(cli):
    options = ("--metrics", "ece15,nll", "--n-boot", "200")
    code, out, _ = cli("evaluate", "both.npz:test", *options)
    assert code == 0
    assert "95 % interval" in out
    assert "floor" in out
    found = json.loads(cli("evaluate", "both.npz:test", *options, "--json")[1])
    assert found["intervals"]["ece15"]["floor"] > 0
    assert found["intervals"]["nll"]["floor"] is None
    assert found["intervals"]["nll"]["point"] == found["metrics"]["nll"]
    assert cli("evaluate", "both.npz:test", "--metrics", "nll", "--level", "2")[0] == 2
    plain = cli("evaluate", "both.npz:test", "--metrics", "nll", "--n-boot", "0")[1]
    assert "interval" not in plain


def test_features_in_the_files_reach_the_methods_that_need_them(cli):
    (z, y), (z2, y2) = split(300, 0), split(200, 1)
    np.savez(
        "rich.npz",
        val_logits=z,
        val_labels=y,
        val_features=features_of(z),
        test_logits=z2,
        test_labels=y2,
        test_features=features_of(z2),
    )
    compare = [*PLAIN, "--methods", "features-k3,tva-ts"]
    code, out, err = cli("compare", "rich.npz", *compare, "--json")
    assert (code, json.loads(out)["failures"]) == (0, {})
    assert "features-k3" in json.loads(out)["values"]
    assert cli("fit", "rich.npz:val", "--method", "features-k3", "-o", "f.json")[0] == 0
    assert cli("apply", "f.json", "rich.npz:test", "-o", "p.npz")[0] == 0
    assert cli("evaluate", "rich.npz:test", "--calibrator", "f.json", *PLAIN)[0] == 0
    np.save("bare.npy", z2)
    code, _, err = cli("apply", "f.json", "bare.npy", "-o", "p.npy")
    assert code == 2
    assert "needs features as well as logits" in err
    code, _, err = cli("fit", "both.npz:val", "--method", "features-k3", "-o", "g.json")
    assert code == 2
    assert "needs features as well as logits" in err
    code, _, err = cli("compare", "both.npz", *compare)
    assert code == 1
    assert "features-k3 failed: InputError: features-k3 needs features" in err


def test_one_method_that_fails_does_not_lose_the_others(cli, monkeypatch):
    def fail(method, X, y, **extra):
        if method.name == "ts-nll":
            raise ZeroDivisionError("no\nluck")
        return original(method, X, y, **extra)

    original = compare.fit_arrays
    monkeypatch.setattr(compare, "fit_arrays", fail)
    code, out, err = cli("compare", "both.npz")
    assert code == 1
    assert "srts-bce" in out
    assert [line for line in out.splitlines() if line.split() == ["ts-nll", "failed"]]
    assert "smallcal: ts-nll failed: ZeroDivisionError: no luck\n" in err
    code, out, _ = cli("compare", "both.npz", "--methods", "ts-nll", "--json")
    assert code == 1
    assert "ts-nll" in json.loads(out)["failures"]
    assert cli("compare", "both.npz", "--methods", "ts-nll")[0] == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["both.npz", "--methods", "magic"], "unknown method 'magic'"),
        (["both.npz", "--methods", ","], "--methods names none"),
        (["both.npz", "--baseline", "srts-nll"], "--baseline srts-nll is not among"),
        (["both.npz", "--metrics", "luck"], "unknown metric 'luck'"),
        (["cal.npz", "narrow.npz"], "both must come from one model"),
        (["test.npy", "test.npz"], "test.npy has no labels"),
        (["cal.npz", "probs.npz"], "use one kind"),
    ],
)
def test_compare_refuses_bad_input(args, message, cli):
    np.savez("narrow.npz", logits=np.ones((9, 3)), labels=np.zeros(9, int))
    np.savez("probs.npz", probs=np.full((9, 5), 0.2), labels=np.zeros(9, int))
    code, _, err = cli("compare", *args)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


def test_comparing_on_the_fitted_samples_is_noted(cli):
    code, _, err = cli("compare", "cal.npz", "cal.npz", "--methods", "none")
    assert code == 0
    assert "every result is too good" in err


@pytest.mark.parametrize("method", DEPLOYABLE)
def test_inspect_speaks_of_every_method(method, cli):
    cal = fit(method, *(drawn(method, 400) if METHODS[method].binary else split(400, 0)))
    cal.save("m.json")
    code, out, err = cli("inspect", "m.json")
    assert (code, err) == (0, "")
    n_classes = cal.fitted_.n_classes
    assert f"{cal.method_}: fitted on 400 samples of {n_classes} classes" in " ".join(out.split())
    for temperature in cal.fitted_.map.steps if cal.n_parameters_ else []:
        assert f"{temperature:.4f}" in out
    assert max(map(len, out.splitlines())) <= 80
    found = json.loads(cli("inspect", "m.json", "--json")[1])
    assert [group["temperature"] for group in found["groups"]] == list(cal.fitted_.map.steps)


def test_methods_lists_the_table(cli):
    code, out, _ = cli("methods")
    assert code == 0
    assert all(name in out for name in (*METHODS, "default"))
    assert set(json.loads(cli("methods", "--json")[1])["methods"]) == set(METHODS)


def test_demo_prints_a_table_and_what_is_seen(cli):
    code, out, err = cli("demo", "--draws", "2", "--budget", "250", "--report", "none")
    assert (code, err) == (0, "")
    assert "250 samples: lowest ECE by " in out
    words = " ".join(out.split())
    assert "uncalibrated 7.11" in words
    assert "lowest top-label log-loss by temperature scaling" in words
    assert "smallcal " in words
    assert "(default)" in words
    assert "Quick, Draw! by Google, CC BY 4.0" in out
    assert max(map(len, out.splitlines())) <= 80
    found = json.loads(cli("demo", "--draws", "2", "--budget", "250", "--json")[1])
    fitted = ["none", "ts-nll", "tva-ts", "srts-bce", "smallcal"]
    assert [row["method"] for row in found["results"]] == fitted
    assert all(row["draws"] == 2 for row in found["results"])


def test_the_commands_that_demo_names_work(cli):
    assert cli("demo", "--export", "demo-data")[0] == 0
    assert cli("fit", "demo-data/cal.npz", "-o", "cal.json")[0] == 0
    assert cli("evaluate", "demo-data/test.npz", "--calibrator", "cal.json", *PLAIN)[0] == 0
    both = ("demo-data/cal.npz", "demo-data/test.npz")
    assert cli("compare", *both, "--methods", "none", *PLAIN)[0] == 0
    found = json.loads(cli("demo", "--export", "demo-data", "--json")[1])
    assert found["files"] == ["demo-data/cal.npz", "demo-data/test.npz"]


def test_demo_refuses_a_budget_it_does_not_have(cli, here):
    code, _, err = cli("demo", "--budget", "5000")
    assert code == 2
    assert "--budget must lie in 5 .. 1250; got 5000" in err
    (here / "file").write_text("")
    code, _, err = cli("demo", "--export", "file/folder")
    assert code == 2
    assert "cannot make the folder" in err


def cells(**ece: tuple[float, ...]) -> list[Cell]:
    return [
        Cell(250, name.replace("_", "-"), tuple({"ece15": value} for value in values))
        for name, values in ece.items()
    ]


def test_the_sentence_follows_the_numbers():
    one = next(findings(cells(none=(0.1,), ts_nll=(0.03,), srts_bce=(0.02,))))
    assert one == (
        "250 samples: lowest ECE by SRTS-BCE, 2.00 %, 8.00 points below the uncalibrated 10.00 %."
    )
    tie = next(findings(cells(none=(0.1,), ts_nll=(0.02,), srts_bce=(0.020001,))))
    assert "by temperature scaling and SRTS-BCE (a tie), 2.00 %" in tie
    worse = next(findings(cells(none=(0.01,), ts_nll=(0.02,))))
    assert "by uncalibrated, 1.00 %, so nothing improves on the uncalibrated model" in worse
    near = next(findings(cells(none=(0.1, 0.1), ts_nll=(0.01, 0.03), srts_bce=(0.02, 0.024))))
    assert near.endswith("; SRTS-BCE within one standard deviation.")


def test_evaluate_and_compare_resample_clusters(cli):
    z, y = split(100, 2)
    rows = np.repeat(np.arange(100), 5)
    np.savez("many.npz", logits=z[rows], labels=y[rows], prompt=rows)
    measured = ("evaluate", "many.npz", "--metrics", "accuracy,ece15", "--cost", "miss=5")
    compared = ("compare", "cal.npz", "many.npz", "--methods", "none,ts-nll", "--metrics", "nll")
    for call in (measured, compared):
        call += () if call is measured else ("--n-boot", "100")
        code, out, err = cli(*call)
        assert (code, "of the test samples" in out) == (0, True)
        assert "only 100 of 500 samples differ" in err
        code, out, err = cli(*call, "--cluster", "prompt")
        assert (code, err) == (0, "")
        assert "resamples of the clusters of test samples." in " ".join(out.split())
        code, out, err = cli(*call, "--cluster", "promt")
        assert (code, out) == (2, "")
        assert "--cluster: many.npz has no 'promt'" in err
    code, out, _ = cli(*measured, "--cluster", "prompt", "--json")
    told = json.loads(out)
    assert told["intervals"]["ece15"]["unit"] == "clusters of test samples"
    assert told["cost"]["cost"]["unit"] == "clusters of test samples"
    code, out, err = cli("evaluate", "many.npz", "--by", "prompt", "--cluster", "prompt")
    assert (code, out) == (2, "")
    assert "leave out --cluster" in err
