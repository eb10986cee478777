"""What every verb that reads data does with it: columns, names, keys, and labels that cannot be."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import smallcal as sc
from smallcal.io import read, write_arrays

NAMES = ("cat", "dog", "bird")
N = 240


def model(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(N) % 3
    return 2 * rng.normal(size=(N, 3)) + 3 * np.eye(3)[y], y


Z, Y = model()
WORDS = np.array(NAMES)[Y]


def csv(path: str, columns: dict, *, n: int = N) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(",".join(columns) + "\n")
        for i in range(n):
            file.write(",".join(str(values[i]) for values in columns.values()) + "\n")


def columns_of(order=(0, 1, 2), z=Z) -> dict:
    return {NAMES[i]: z[:, i] for i in order}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    age = np.random.default_rng(9).normal(size=N)
    csv("plain.csv", {**columns_of(), "label": WORDS})
    csv("age.csv", {"age": age, **columns_of(), "label": WORDS})
    csv("id.csv", {"id": np.arange(N), **columns_of(), "label": WORDS})
    csv("reversed.csv", {**columns_of((2, 1, 0)), "label": WORDS})
    csv("other.csv", {"cat": Z[:, 0], "wolf": Z[:, 1], "bird": Z[:, 2], "label": WORDS})
    np.savez("keys.npz", foo=Z, bar=Y)
    np.savez("wrong.npz", logits=Z, labels=(Y + 1 + np.arange(N) // 3 % 2) % 3)
    sc.TemperatureScaling(class_names=NAMES).fit(Z, Y).save("cal.json")
    return tmp_path


QUICK = {
    "fit": ["--method", "tva-ts"],
    "select": ["--candidates", "none,tva-ts", "--repeats", "1"],
    "plan": ["--draws", "5", "--method", "tva-ts"],
    "audit": ["--method", "tva-ts", "--n-refits", "3", "--n-null", "0"],
    "evaluate": ["--metrics", "accuracy", "--n-boot", "0"],
    "compare": ["--methods", "none,tva-ts", "--metrics", "accuracy", "--n-boot", "0"],
    "report": ["--methods", "tva-ts", "--n-boot", "100"],
}


def command(verb: str, data: str, *more: str) -> list[str]:
    both = [data, data] if verb in ("compare", "report") else [data]
    return [verb, *both, *QUICK[verb], *more]


@pytest.mark.parametrize("verb", QUICK)
def test_columns_say_which_are_classes(verb, cli):
    code, _, err = cli(*command(verb, "age.csv"))
    assert code == 2
    assert "cannot tell whether 'age' is a class; name the classes: --columns cat,dog,bird" in err
    assert err.count("\n") == 1 + (verb in ("compare", "report"))  # the same file twice is noted
    code, out, err = cli(*command(verb, "age.csv", "--columns", "cat,dog,bird"))
    assert (code, "not taken" in err) == (0, False)
    assert out


@pytest.mark.parametrize("verb", QUICK)
def test_an_id_is_left_out_with_a_note(verb, cli):
    code, out, err = cli(*command(verb, "id.csv"))
    assert code == 0
    assert "smallcal: note: id.csv: not used as classes, going by names and values: 'id'" in err
    expected = cli(*command(verb, "plain.csv"))[1]
    same = out.replace("id.csv", "plain.csv").split() == expected.split()
    assert same or verb == "report"  # which names the files and their fingerprints


@pytest.mark.parametrize("verb", QUICK)
def test_keys_name_arrays(verb, cli):
    code, _, err = cli(*command(verb, "keys.npz"))
    assert (code, "--logits-key" in err) == (2, True)
    code, *_ = cli(*command(verb, "keys.npz", "--logits-key", "foo", "--labels-key", "bar"))
    assert code == 0


@pytest.mark.parametrize("verb", QUICK)
def test_labels_that_cannot_be_right_are_a_question(verb, cli):
    code, out, err = cli(*command(verb, "wrong.npz"))
    assert (code, out) == (2, "")
    last = err.splitlines()[-1]
    assert last.startswith("smallcal: error: wrong.npz: only ")
    assert "of predictions are right, where always saying class 0 would be right in 33.3 %" in last
    assert last.endswith(" [labels-implausible]")
    assert "--force" in last
    code, out, err = cli(*command(verb, "wrong.npz", "--force"))
    assert code == 0
    assert "smallcal: note: wrong.npz: only " in err


def test_labels_that_cannot_be_right_stop_data_read_in_pieces(cli):
    pytest.importorskip("pyarrow", reason="writes Parquet")
    with np.load("wrong.npz") as wrong:
        write_arrays("wrong.parquet", dict(wrong))
    code, out, err = cli(*command("evaluate", "wrong.parquet"))
    assert (code, out) == (2, "")
    assert "use --force to continue" in err
    assert cli(*command("evaluate", "wrong.parquet", "--force"))[0] == 0


def test_a_model_below_the_most_frequent_class_is_noted_not_stopped(cli):
    rng = np.random.default_rng(0)
    y = np.where(rng.random(600) < 0.7, 0, rng.integers(4, size=600))
    z = rng.normal(size=(600, 4)) + np.eye(4)[y] + [0, 1.5, 0, 0]  # prefers class 1
    accuracy = float((z.argmax(axis=1) == y).mean())
    assert 0.25 < accuracy < 0.5
    np.savez("biased.npz", logits=z, labels=y)
    code, _, err = cli(*command("fit", "biased.npz"))
    assert code == 0
    assert "smallcal: note: biased.npz: only " in err
    assert "where always saying class 0 would be right" in err


def test_a_model_that_always_says_the_rarest_class_is_not_stopped(cli):
    y = np.repeat([0, 1, 2, 3], [300, 150, 100, 20])
    z = np.random.default_rng(0).normal(size=(570, 4)) + np.array([0, 0, 0, 9])
    np.savez("stubborn.npz", logits=z, labels=y)
    assert float((z.argmax(axis=1) == y).mean()) < 0.05
    assert cli(*command("fit", "stubborn.npz"))[0] == 0


# Names of classes


def test_fit_keeps_the_names_of_a_table(cli):
    for data in ("plain.csv", "id.csv"):
        assert cli("fit", data, "-o", "new.json", "--method", "tva-ts")[0] == 0
        assert sc.load("new.json").fitted_.class_names == NAMES


def numbers(out: str) -> str:
    return out.partition("\n")[2]


def test_evaluate_takes_columns_by_name(cli):
    args = ("--calibrator", "cal.json", "--metrics", "accuracy,nll", "--n-boot", "0")
    code, expected, _ = cli("evaluate", "plain.csv", *args)
    assert code == 0
    code, out, err = cli("evaluate", "reversed.csv", *args)
    assert (code, numbers(out)) == (0, numbers(expected))
    assert "they were matched by name" in err
    code, out, err = cli("evaluate", "other.csv", *args)
    assert (code, out) == (2, "")
    assert err.endswith(" [class-names-invalid]\n")
    assert all(part in err for part in ("other.csv", "'dog'", "'wolf'"))


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".arrow"])
@pytest.mark.parametrize("output", ["out.npy", "out.parquet", "out.csv"])
def test_apply_takes_columns_by_name_and_leaves_them_where_they_are(suffix, output, cli):
    pytest.importorskip("pyarrow", reason="writes Parquet")
    order = [2, 0, 1]
    names = np.array(NAMES)[order]
    arrays = {"logits": Z[:, order], "labels": WORDS, "class_names": names}
    write_arrays(f"moved{suffix}", arrays)
    code, _, err = cli("apply", "cal.json", f"moved{suffix}", "-o", output)
    assert (code, "they were matched by name" in err) == (0, True)
    expected = sc.load("cal.json").predict_proba(Z)[:, order]
    found = read(output)
    np.testing.assert_allclose(found.logits, expected, rtol=1e-12)
    if output != "out.npy":
        assert found.class_names == tuple(names)
        assert found.labels.tolist() == WORDS.tolist()


def test_apply_in_parts_and_processes_takes_columns_by_name(cli):
    pytest.importorskip("pyarrow", reason="writes Parquet")
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({f"logit_{name}": values for name, values in columns_of((1, 2, 0)).items()})
    pq.write_table(table, "moved.parquet", row_group_size=50)
    args = ("apply", "cal.json", "moved.parquet", "-o", "out", "--part-rows", "50", "--jobs", "2")
    assert cli(*args)[0] == 0
    expected = sc.load("cal.json").predict_proba(Z)[:, [1, 2, 0]]
    np.testing.assert_allclose(read("out").logits, expected, rtol=1e-12)


def test_apply_refuses_other_names(cli):
    for data in ("other.csv", "other.parquet"):
        if data.endswith(".parquet"):
            pytest.importorskip("pyarrow", reason="writes Parquet")
            names = np.array(["cat", "wolf", "bird"])
            write_arrays(data, {"logits": Z, "class_names": names})
        code, _, err = cli("apply", "cal.json", data, "-o", "out.npy")
        assert (code, err.count("\n")) == (2, 1)
        assert "missing 'dog'; unknown 'wolf'" in err


def test_apply_takes_data_without_names_as_they_stand(cli):
    np.savez("bare.npz", logits=Z)
    assert cli("apply", "cal.json", "bare.npz", "-o", "out.npy")[0] == 0
    np.testing.assert_array_equal(np.load("out.npy"), sc.load("cal.json").predict_proba(Z))


def test_apply_keeps_rows_without_a_label(cli):
    np.savez("some.npz", logits=Z, labels=np.where(np.arange(N) % 2, -100, Y))
    assert cli("apply", "cal.json", "some.npz", "-o", "out.npz")[0] == 0
    assert len(read("out.npz", keep_ignored=True).logits) == N


def test_columns_choose_what_is_applied(cli):
    args = ("apply", "cal.json", "age.csv", "-o", "out.npy")
    code, _, err = cli(*args)
    assert (code, "unknown 'age'; name the classes: --columns cat,dog,bird" in err) == (2, True)
    assert cli(*args, "--columns", "cat,dog,bird")[0] == 0
    np.testing.assert_allclose(np.load("out.npy"), sc.load("cal.json").predict_proba(Z))


def test_numbers_of_columns_in_another_order_are_refused_or_counted_as_said(cli):
    pytest.importorskip("pyarrow", reason="writes Parquet")
    order = (2, 1, 0)
    csv("r.csv", {**columns_of(order), "label": 2 - Y})
    arrays = {"logits": Z[:, order], "labels": 2 - Y, "class_names": np.array(NAMES)[list(order)]}
    write_arrays("r.parquet", arrays)
    args = ("--calibrator", "cal.json", "--metrics", "accuracy,nll", "--n-boot", "0")
    expected = cli("evaluate", "plain.csv", *args)[1]
    for data, columns in (
        ("r.csv", "bird,dog,cat"),
        ("r.parquet", "logit_bird,logit_dog,logit_cat"),
    ):
        code, _, err = cli("evaluate", data, *args)
        assert code == 2
        assert "labels that are numbers are ambiguous" in err
        code, out, _ = cli("evaluate", data, *args, "--columns", columns)
        assert (code, numbers(out)) == (0, numbers(expected))


def test_names_of_rows_without_columns_order_them_too(cli):
    order = [2, 1, 0]
    np.save("r.npy", Z[:, order])
    np.save("y.npy", 2 - Y)
    Path("names.txt").write_text("\n".join(np.array(NAMES)[order]))
    args = ("--calibrator", "cal.json", "--metrics", "accuracy,nll")
    expected = cli("evaluate", "plain.csv", *args, "--n-boot", "0")[1]
    more = ("--labels", "y.npy", "--class-names", "names.txt")
    for n_boot in ("0", "50"):  # in pieces, and at once
        code, out, _ = cli("evaluate", "r.npy", *args, *more, "--n-boot", n_boot, "--json")
        assert code == 0
        found = json.loads(out)["metrics"]
        assert f"{100 * found['accuracy']:.2f}" in expected


def test_compare_takes_columns_of_the_test_by_name(cli):
    args = (*QUICK["compare"], "--metrics", "accuracy,nll")
    expected = cli("compare", "plain.csv", "plain.csv", *args)[1]
    code, out, err = cli("compare", "plain.csv", "reversed.csv", *args)
    assert code == 0
    assert "they were matched by name" in err
    assert out.split("\n\n")[0].splitlines()[2:] == expected.split("\n\n")[0].splitlines()[2:]


def test_monitor_takes_columns_by_name(cli):
    cli("fit", "plain.csv", "-o", "new.json", "--method", "srts-bce")
    code, expected, _ = cli("monitor", "new.json", "plain.csv")
    found = cli("monitor", "new.json", "reversed.csv")
    assert found[:2] == (code, expected)
    assert "they were matched by name" in found[2]
    assert cli("monitor", "new.json", "other.csv")[0] == 2
    assert cli("monitor", "new.json", "age.csv")[0] == 2
    assert cli("monitor", "new.json", "age.csv", "--columns", "cat,dog,bird")[:2] == (
        code,
        expected,
    )


# Files


def test_ignored_labels_are_left_out_wherever_data_come_from(cli):
    pytest.importorskip("pyarrow", reason="writes Parquet")
    y = np.where(np.arange(N) % 4 == 0, -100, Y)
    np.savez("some.npz", predictions=Z, label_ids=y)
    np.savez("rest.npz", logits=Z[y != -100], labels=Y[y != -100])
    write_arrays("some.parquet", {"logits": Z, "labels": y})
    expected = cli(*command("evaluate", "rest.npz"))[1]
    for data in ("some.npz", "some.parquet"):
        code, out, err = cli(*command("evaluate", data))
        assert (code, out.replace(data, "rest.npz")) == (0, expected)
        assert f"{data}: left out 60 of 240 rows, whose label is -100" in err


def test_data_without_any_label_are_refused(cli):
    pytest.importorskip("pyarrow", reason="writes Parquet")
    for data in ("none.npz", "none.parquet"):
        write_arrays(data, {"logits": Z, "labels": np.full(N, -100)})
        code, out, err = cli(*command("evaluate", data))
        assert (code, out) == (2, "")
        assert (data in err, err.endswith(" [no-labels]\n")) == (True, True)


def test_standard_input_is_a_dash(cli, here, monkeypatch):
    content = (here / "plain.csv").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    code, out, err = cli("fit", "-", "--method", "tva-ts", "-o", "new.json")
    assert (code, err) == (0, "")
    assert "fitted on 240 samples of 3 classes" in out
    assert cli("apply", "new.json", "-", "-o", "out.npy")[0] == 0
    np.testing.assert_array_equal(np.load("out.npy"), sc.load("new.json").predict_proba(Z))


P = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
LIKE = {
    "exact": (P, "they lie in [0, 1] and sum to 1"),
    "half": (P.astype(np.float16), "they lie in [0, 1] and sum to 1"),
    "rounded": (P.round(2), "they lie in [0, 1] and sum to about 1"),
    "percent": (100 * P, "they lie in [0, 100] and sum to 100"),
    "whole percent": ((100 * P).round(), "they lie in [0, 100] and sum to about 100"),
}


@pytest.mark.parametrize("verb", QUICK)
def test_probabilities_are_not_taken_for_logits(verb, cli):
    for values, like in LIKE.values():
        np.savez("p.npz", logits=values, labels=Y)
        code, out, err = cli(*command(verb, "p.npz"))
        assert (code, out) == (2, "")
        assert f"p.npz: logits look like probabilities ({like}): " in err
        assert err.endswith("--input logits [probabilities-as-logits]\n")
        assert ("divide each row by its sum" in err) == (not like.endswith("to 1"))
        assert err.count("\n") == 1 + (verb in ("compare", "report"))  # the same file twice
    np.savez("p.npz", logits=P, labels=Y)
    for kind in ("probabilities", "logits"):
        assert cli(*command(verb, "p.npz", "--input", kind))[0] == 0


@pytest.mark.parametrize("suffix", [".npy", ".csv", ".parquet"])
def test_data_that_are_read_in_pieces_are_looked_at_too(suffix, cli):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    np.savetxt("y.txt", Y, fmt="%d")
    if suffix == ".npy":
        np.save("p.npy", P)
    else:
        write_arrays(f"p{suffix}", {"probabilities": P})
        (table,) = [read(f"p{suffix}")]
        assert table.input == "probabilities"
        columns = dict(zip("abc", P.T, strict=True))
        if suffix == ".csv":
            csv("p.csv", columns)
        else:
            arrow = pytest.importorskip("pyarrow")
            pytest.importorskip("pyarrow.parquet").write_table(arrow.table(columns), "p.parquet")
    for more in (["--n-boot", "0"], ["--n-boot", "100"]):
        ask = ["evaluate", f"p{suffix}", "--labels", "y.txt", "--metrics", "ece15", *more]
        code, out, err = cli(*ask)
        assert (code, out) == (2, "")
        assert f"p{suffix}: logits look like probabilities" in err
        assert cli(*ask, "--input", "probabilities")[0] == 0
        assert cli(*ask, "--input", "logits")[0] == 0


@pytest.fixture
def taught(here):
    """Calibrators of logits, of probabilities, and of logits that look like probabilities."""
    z, p = 1.5 * Z, np.exp(1.5 * Z) / np.exp(1.5 * Z).sum(axis=1, keepdims=True)
    kinds = {"logits": (Z, z), "probabilities": (P, p), "alike": (P, p)}
    for kind, (old, new) in kinds.items():
        said = "probabilities" if kind == "probabilities" else "logits"
        sc.make("ts-nll", input=said).fit(old, Y).save(f"{kind}.json")
        for seed, rows in enumerate((slice(0, 150), slice(150, N))):
            order = np.random.default_rng(seed).permutation(N)[rows]
            np.savez(f"{kind}-{seed}.npz", predictions=new[order], labels=Y[order])
    return here


JUDGED = {
    "apply": ["apply", "CAL", "DATA", "-o", "out.csv"],
    "apply in parts": ["apply", "CAL", "DATA.npy", "-o", "out.npy"],
    "evaluate": ["evaluate", "DATA", "--calibrator", "CAL", "--n-boot", "0", "--by", "labels"],
    "audit": ["audit", "DATA", "--calibrator", "CAL", "--n-refits", "3", "--n-null", "0"],
    "certify": ["certify", "CAL", "DATA", "--risk", "30%", "-o", "out.json"],
    "monitor": ["monitor", "CAL", "DATA"],
    "adapt": ["adapt", "CAL", "DATA", "-o", "out.json"],
    "refresh": ["refresh", "CAL", "DATA", "-o", "out.json"],
}


def judged(verb: str, calibrator: str, data: str) -> list[str]:
    np.save(f"{data}.npz.npy", np.load(f"{data}.npz")["predictions"])
    names = {"CAL": f"{calibrator}.json", "DATA": f"{data}.npz", "DATA.npy": f"{data}.npz.npy"}
    return [names.get(word, word) for word in JUDGED[verb]]


@pytest.mark.parametrize("verb", JUDGED)
def test_a_calibrator_knows_what_it_takes(verb, taught, cli):
    for kind in ("logits", "probabilities", "alike"):
        code, _, err = cli(*judged(verb, kind, f"{kind}-0"))
        assert code in (0, 1), err  # 1: nothing certified, adapted or refreshed
        assert "--input" not in err
    code, _, err = cli(*judged(verb, "logits", "probabilities-0"))
    assert code == 2
    assert "logits look like probabilities" in err
    assert "this calibrator was fitted on logits" in err
    code, _, err = cli(*judged(verb, "probabilities", "logits-0"))
    assert code == 2
    assert "probabilities must be probabilities in [0, 1]" in err
    code, _, err = cli(*judged(verb, "probabilities", "probabilities-0"), "--input", "logits")
    assert code == 2
    assert "this calibrator was fitted on probabilities" in err
    assert err.count("\n") == 1


def test_report_reads_what_its_calibrator_takes(cli):
    for seed in range(3):
        z, y = model(seed)
        p = np.exp(4 * z) / np.exp(4 * z).sum(axis=1, keepdims=True)
        np.savez(f"p{seed}.npz", predictions=p, labels=y)
        if not seed:
            sc.make("ts-nll", input="probabilities").fit(p, y).save("cal.json")
    assert cli("certify", "cal.json", "p1.npz", "--risk", "30%", "-o", "out.json")[0] == 0
    quick = ("--methods", "tva-ts", "--n-boot", "100", "--format", "md")
    code, out, err = cli("report", "p1.npz", "p2.npz", "--calibrator", "out.json", *quick)
    assert (code, err) == (0, "")
    (shipped,) = {line for line in out.splitlines() if line.startswith("smallcal fit")}
    assert "--input probabilities" in shipped
    found = sc.report("p1.npz", "p2.npz", calibrator="out.json", methods=["tva-ts"], n_boot=100)
    assert "smallcal fit p1.npz" in found.text("md")
    assert "look like probabilities" in cli("report", "p1.npz", "p2.npz", *quick)[2]
