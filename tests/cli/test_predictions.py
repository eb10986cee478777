"""Predictions and their confidences: what fit says of them, apply writes, evaluate measures."""

from __future__ import annotations

import csv
import json
import warnings

import numpy as np
import pytest

import smallcal as sc
from smallcal import io, runtime
from smallcal.calibrators.summary import accuracy_change, accuracy_line
from smallcal.deploy.decided_rows import PREDICTIONS
from support.real import cell, there
from support.simulated import simulate

pa = pytest.importorskip("pyarrow", reason="Parquet and Arrow need pyarrow")
pq = pytest.importorskip("pyarrow.parquet", reason="Parquet needs pyarrow")

NAMES = ("ant", "bee", "cat", "dog", "eel")
PLAIN = ("--n-boot", "0")


def biased(n, seed):
    """A model that prefers the third class too often."""
    z, y = simulate(n, 5, seed=seed)
    z[:, 2] += 1.5
    return z, y


@pytest.fixture
def files(here):
    for name, n, seed in (("cal", 600, 0), ("test", 500, 1)):
        z, y = biased(n, seed)
        np.savez(f"{name}.npz", logits=z, labels=y, class_names=np.array(NAMES))
        np.savez(f"bare_{name}.npz", logits=z, labels=y)
    with np.load("cal.npz") as cal:
        for file, names, more in (
            ("m", NAMES, {}),
            ("bare", None, {}),
            ("keep", NAMES, {"keep_predictions": True}),
        ):
            made = sc.Calibrator(class_names=names, **more).fit(cal["logits"], cal["labels"])
            made.save(f"{file}.json")


def rows_of(name="test.npz"):
    with np.load(name) as file:
        return file["logits"], file["labels"]


def expected(cal="m.json", z=None):
    """The four columns as the functions of a calibrator give them, classes as numbers."""
    fitted = runtime.load(cal)
    z = rows_of()[0] if z is None else z
    own = z.argmax(axis=1)
    return {
        "prediction": fitted.predict_proba(z).argmax(axis=1),
        "confidence": fitted.confidence(z),
        "model_prediction": own,
        "model_confidence": fitted.confidence(z, predictions=own),
    }


# Fit and inspect.


@pytest.mark.parametrize(
    ("options", "begins"),
    [((), "Changes "), (("--keep-predictions",), "Letting predictions change would change ")],
)
def test_a_fit_says_what_changing_predictions_does(options, begins, files, cli):
    code, out, err = cli("fit", "cal.npz", "-o", "new.json", *options)
    assert (code, err) == (0, "")
    found = runtime.load("new.json").fit_metrics["cross_validated"]
    line = f"{begins}{accuracy_change(found).removeprefix('changes ')}."
    assert line in " ".join(out.split())
    assert line in " ".join(cli("inspect", "new.json")[1].split())
    told = json.loads(cli("inspect", "new.json", "--json")[1])
    assert told["fit_metrics"]["cross_validated"] == found


def test_a_fit_that_cannot_change_predictions_says_so_and_no_more(files, cli):
    out = cli("fit", "cal.npz", "--method", "ts-nll")[1]
    assert "The predicted class never changes." in out
    assert "cross-validated" not in out


def test_the_old_option_is_gone_and_the_new_one_is_no_setting(files, cli):
    assert cli("fit", "cal.npz", "--may-change-predictions")[0] == 2
    code, _, err = cli("fit", "cal.npz", "--set", "keep_predictions=true")
    assert code == 2
    assert "--set keep_predictions: use --keep-predictions" in err


@pytest.mark.parametrize(
    "line",
    [
        "compare cal.npz test.npz --methods none,default --n-boot 0",
        "select cal.npz --candidates none,default --repeats 1",
        "plan cal.npz --draws 5",
        "audit cal.npz --n-refits 3 --n-null 0",
        "report cal.npz test.npz --methods none,default --n-boot 0",
    ],
)
def test_predictions_are_kept_wherever_something_is_fitted(line, files, cli):
    code, out, err = cli(*line.split(), "--keep-predictions", "--json")
    assert code == 0, err
    assert json.loads(out) != json.loads(cli(*line.split(), "--json")[1])


def test_comparing_with_kept_predictions_leaves_accuracy_alone(files, cli):
    line = ("compare", "cal.npz", "test.npz", "--methods", "none,default", "--metrics", "accuracy")
    found = json.loads(cli(*line, *PLAIN, "--keep-predictions", "--json")[1])["values"]
    assert found["none"] == found["smallcal"]


def test_comparing_with_kept_predictions_measures_their_confidence(files, cli):
    line = ("compare", "cal.npz", "test.npz", "--methods", "none,default", *PLAIN)
    found = json.loads(cli(*line, "--keep-predictions", "--json")[1])["values"]["smallcal"]
    z, y = rows_of()
    cal = sc.Calibrator(keep_predictions=True).fit(*rows_of("cal.npz"))
    sure, right = cal.confidence(z), z.argmax(axis=1) == y
    loss = -np.log(np.where(right, sure, 1 - sure)).mean()
    assert found["top_label_bce"] == pytest.approx(loss, rel=1e-5)
    out = " ".join(cli(*line, "--keep-predictions")[1].split())
    assert f"with keep_predictions: it {accuracy_line(cal.fitted_)}." in out


def test_a_report_ships_the_option_once(files, cli):
    line = ("report", "cal.npz", "test.npz", "--methods", "none,default", "--n-boot", "100")
    code, out, err = cli(*line, "--keep-predictions", "-o", "report.json")
    assert code == 0, err
    command = next(text for text in out.splitlines() if text.strip().startswith("smallcal fit"))
    assert command.split().count("--keep-predictions") == 1
    assert cli(*command.split()[1:])[0] == 0
    assert runtime.load("cal.json").keep_predictions


def test_select_names_the_command_that_keeps_predictions(files, cli):
    line = ("select", "cal.npz", "--candidates", "none,default", "--repeats", "1")
    out = cli(*line, "--keep-predictions")[1]
    command = out.splitlines()[-1].split()
    assert "--keep-predictions" in command
    assert cli(*command[1:])[0] == 0
    assert runtime.load("cal.json").keep_predictions


# Apply.


def read_columns(file):
    """The columns of a table, or the arrays of a file, by name."""
    if file.endswith((".csv", ".tsv")):
        with open(file, newline="") as text:
            rows = list(csv.reader(text, delimiter="\t" if file.endswith("tsv") else ","))
        return dict(zip(rows[0], map(np.array, zip(*rows[1:], strict=True)), strict=True))
    if file.endswith(".npz"):
        with np.load(file) as content:
            return dict(content)
    if file.endswith(".json"):
        with open(file) as text:
            return {name: np.array(values) for name, values in json.load(text).items()}
    table = pq.read_table(file) if file.endswith("parquet") else pa.ipc.open_file(file).read_all()
    return {name: np.array(table[name].to_pylist()) for name in table.column_names}


@pytest.mark.parametrize("suffix", ["csv", "tsv", "npz", "json", "parquet", "arrow"])
@pytest.mark.parametrize("cal", ["m.json", "keep.json", "bare.json"])
def test_predictions_and_confidences_are_written(cal, suffix, files, cli):
    data = "bare_test.npz" if cal == "bare.json" else "test.npz"
    code, _, err = cli("apply", cal, data, "-o", f"p.{suffix}")
    assert (code, err) == (0, "")
    found, wanted = read_columns(f"p.{suffix}"), expected(cal)
    for name in ("confidence", "model_confidence"):
        np.testing.assert_array_equal(found[name].astype(float), wanted[name])
    for name in ("prediction", "model_prediction"):
        codes = found[name] if cal == "bare.json" else [NAMES.index(x) for x in found[name]]
        np.testing.assert_array_equal(np.array(codes).astype(int), wanted[name])
    changed = (wanted["prediction"] != wanted["model_prediction"]).mean()
    assert changed == 0 if cal == "keep.json" else changed > 0.02


def test_kept_predictions_have_their_own_calibrated_confidence(files, cli):
    for cal in ("m", "keep"):
        assert cli("apply", f"{cal}.json", "test.npz", "-o", f"{cal}.npz")[0] == 0
    free, kept = (read_columns(f"{name}.npz") for name in ("m", "keep"))
    np.testing.assert_array_equal(kept["confidence"], free["model_confidence"])
    np.testing.assert_array_equal(kept["model_confidence"], free["model_confidence"])
    top = kept["probabilities"].argmax(axis=1)
    np.testing.assert_array_equal(np.array(NAMES)[top], kept["prediction"])
    assert (kept["confidence"] < kept["probabilities"].max(axis=1)).any()


def test_one_array_holds_probabilities_alone_and_scores_have_no_predictions(files, cli):
    assert cli("apply", "m.json", "test.npz", "-o", "p.npy")[0] == 0
    assert np.load("p.npy").shape == (500, 5)
    scores = np.linspace(0, 1, 200)
    np.savez("judged.npz", score=scores, outcome=scores > np.random.default_rng(0).random(200))
    assert cli("fit", "judged.npz", "-o", "judge.json")[0] == 0
    assert cli("apply", "judge.json", "judged.npz", "-o", "p.csv")[0] == 0
    assert list(read_columns("p.csv")) == ["probability", "outcome"]
    table = pa.table({"score": scores})
    pq.write_table(table, "judged.parquet")
    assert cli("apply", "judge.json", "judged.parquet", "-o", "p.parquet")[0] == 0
    assert list(read_columns("p.parquet")) == ["probability"]


def test_names_that_are_numbers_are_column_numbers(files, cli):
    z, y = rows_of()
    names = np.array(list("01234"))
    np.savez("numbered.npz", logits=z, labels=names[y], class_names=names)
    assert cli("fit", "numbered.npz", "-o", "n.json")[0] == 0
    assert cli("apply", "n.json", "numbered.npz", "-o", "p.parquet")[0] == 0
    table = pq.read_table("p.parquet")
    assert {table.schema.field(name).type for name in ("label", "prediction")} == {pa.int64()}
    assert cli("evaluate", "p.parquet", *PLAIN)[0] == 0


def test_columns_in_another_order_have_the_same_predictions(files, cli):
    z, _ = rows_of()
    turned = pa.table({f"logit_{NAMES[i]}": z[:, i] for i in (3, 0, 4, 2, 1)})
    pq.write_table(turned, "turned.parquet")
    with open("turned.csv", "w") as file:
        csv.writer(file).writerow(turned.column_names)
        csv.writer(file).writerows(zip(*turned.to_pydict().values(), strict=True))
    wanted = expected()
    for suffix in ("csv", "parquet"):
        assert cli("apply", "m.json", f"turned.{suffix}", "-o", f"p.{suffix}")[0] == 0
        found = read_columns(f"p.{suffix}")
        assert list(found)[:5] == [f"prob_{NAMES[i]}" for i in (3, 0, 4, 2, 1)]
        np.testing.assert_array_equal(found["prediction"], np.array(NAMES)[wanted["prediction"]])
        own = np.array(NAMES)[wanted["model_prediction"]]
        np.testing.assert_array_equal(found["model_prediction"], own)
        confidence = found["model_confidence"].astype(float)
        np.testing.assert_allclose(confidence, wanted["model_confidence"], rtol=1e-12)


@pytest.mark.parametrize("cal", ["m.json", "keep.json", "bare.json"])
@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_parts_have_the_columns_of_the_whole(cal, suffix, files, cli):
    z, _ = rows_of()
    np.save("z.npy", z)
    np.savez("z.npz", logits=z)
    more = ("--with-temperature",)
    assert cli("apply", cal, "z.npz", "-o", f"whole.{suffix}", *more)[0] == 0
    call = ("apply", cal, "z.npy", "-o", f"parts.{suffix}", "--part-rows", "128", *more)
    assert cli(*call)[0] == 0
    whole, parts = (read_columns(f"{name}.{suffix}") for name in ("whole", "parts"))
    assert list(parts) == list(whole)
    assert list(whole)[-5:] == ["temperature", *PREDICTIONS]
    for name, column in whole.items():
        if column.dtype.kind == "f":
            np.testing.assert_allclose(parts[name], column, rtol=1e-12)
        else:
            np.testing.assert_array_equal(parts[name], column)


def test_columns_of_earlier_predictions_are_replaced_and_said(files, cli):
    z, y = rows_of()
    columns = {f"logit_{name}": z[:, i] for i, name in enumerate(NAMES)}
    pq.write_table(pa.table({**columns, "confidence": y / 10, "note": y}), "told.parquet")
    code, _, err = cli("apply", "m.json", "told.parquet", "-o", "p.parquet")
    assert code == 0
    said = "told.parquet: the columns confidence are replaced by those of the calibrator"
    assert said in " ".join(err.split())
    found = read_columns("p.parquet")
    np.testing.assert_array_equal(found["confidence"], expected()["confidence"])
    np.testing.assert_array_equal(found["note"], y)


SUFFIXES = ("csv", "tsv.gz", "jsonl", "json", "npz", "parquet", "arrow")


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("cal", ["m.json", "bare.json"])
def test_what_apply_writes_evaluate_reads(cal, suffix, files, cli):
    data = "bare_test.npz" if cal == "bare.json" else "test.npz"
    assert cli("apply", cal, data, "-o", f"out.{suffix}")[0] == 0
    code, out, err = cli("evaluate", f"out.{suffix}", *PLAIN, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    direct = json.loads(cli("evaluate", data, "--calibrator", cal, *PLAIN, "--json")[1])
    assert found["input"] == "probabilities"
    assert found["metrics"] == pytest.approx(direct["metrics"], rel=1e-9)
    assert io.read(f"out.{suffix}").class_names == (None if cal == "bare.json" else NAMES)


def test_a_folder_of_calibrators_writes_them_too(files, cli):
    z, y = rows_of()
    np.savez("two.npz", logits=z, labels=y, model=np.array(["a", "b"])[np.arange(500) % 2])
    assert cli("fit", "two.npz", "--per", "model", "-o", "each")[0] == 0
    assert cli("apply", "each", "two.npz", "-o", "p.npz")[0] == 0
    found = read_columns("p.npz")
    for i, name in enumerate("ab"):
        wanted = expected(f"each/{name}.json", z[i::2])
        for column, values in wanted.items():
            np.testing.assert_array_equal(found[column][i::2], values)
    assert cli("evaluate", "p.npz", *PLAIN)[0] == 0


# Decisions and costs.


def test_a_threshold_is_held_against_the_confidence_of_the_prediction(files, cli):
    for cal in ("m", "keep"):
        call = ("certify", f"{cal}.json", "test.npz", "--risk", "20%", "-o", f"{cal}.json")
        assert cli(*call)[0] == 0
        z, _ = biased(300, 7)
        np.savez("new.npz", logits=z)
        np.save("new.npy", z)
        for data, output in (("new.npz", "p.npz"), ("new.npy", "p.parquet")):
            assert cli("apply", f"{cal}.json", data, "--with-decision", "-o", output)[0] == 0
            found, fitted = read_columns(output), runtime.load(f"{cal}.json")
            level = fitted.decisions[0].thresholds[0]
            accepted = found["accepted"].astype(bool)
            np.testing.assert_array_equal(accepted, found["confidence"] >= level)
            np.testing.assert_array_equal(accepted, fitted.accept(z))
            assert 0.1 < accepted.mean() < 0.95


def test_costs_are_weighed_with_unadjusted_probabilities(files, cli):
    with open("costs.csv", "w") as file:
        file.write(f"decision,{','.join(NAMES)}\n")
        for i, name in enumerate(NAMES):
            file.write(f"{name},{','.join('0' if i == j else '1' for j in range(5))}\n")
    z, _ = rows_of()
    best = expected()["prediction"]  # with all mistakes alike, the most probable class
    for output in ("p.npz", "p.parquet"):
        np.save("z.npy", z)
        data = "test.npz" if output == "p.npz" else "z.npy"
        assert cli("apply", "keep.json", data, "--cost", "costs.csv", "-o", output)[0] == 0
        found = read_columns(output)
        np.testing.assert_array_equal(found["decision"], np.array(NAMES)[best])
    line = ("evaluate", "test.npz", "--cost", "costs.csv", *PLAIN, "--json", "--calibrator")
    kept, free = (json.loads(cli(*line, f"{name}.json")[1])["cost"] for name in ("keep", "m"))
    assert kept == free


# Evaluate.


def measures(labels, confidence, predicted):
    correct = predicted == labels
    return {
        "accuracy": correct.mean(),
        **sc.evaluate(correct.astype(int), confidence, metrics=["ece15", "top_label_bce"]),
    }


@pytest.mark.parametrize("cal", ["m.json", "keep.json"])
def test_the_models_own_predictions_are_measured_beside(cal, files, cli):
    z, y = rows_of()
    code, out, err = cli("evaluate", "test.npz", "--calibrator", cal, *PLAIN, "--json")
    assert (code, err) == (0, "")
    found, wanted = json.loads(out), expected(cal)
    own = measures(y, wanted["model_confidence"], wanted["model_prediction"])
    assert found["model_predictions"] == pytest.approx(own, rel=1e-9)
    proba = runtime.load(cal).predict_proba(z)
    assert found["metrics"] == pytest.approx(sc.evaluate(y, proba), rel=1e-9)
    out = cli("evaluate", "test.npz", "--calibrator", cal, *PLAIN)[1]
    line = (
        "The model's own predictions, with their calibrated confidence: accuracy "
        f"{100 * own['accuracy']:.2f} %, ECE {100 * own['ece15']:.2f} %, top-label log-loss "
        f"{100 * own['top_label_bce']:.2f} x100."
    )
    assert line in " ".join(out.split())


def test_streamed_rows_are_measured_as_those_in_memory(files, cli, monkeypatch):
    z, y = rows_of()
    columns = {f"logit_{name}": z[:, i] for i, name in enumerate(NAMES)}
    pq.write_table(pa.table({**columns, "label": y}), "test.parquet", row_group_size=100)
    call = ("--calibrator", "keep.json", *PLAIN, "--json")
    streamed, whole = (
        json.loads(cli("evaluate", f"test.{suffix}", *call)[1]) for suffix in ("parquet", "npz")
    )
    for name in ("metrics", "model_predictions"):
        assert streamed[name] == pytest.approx(whole[name], rel=1e-9)


def test_a_very_sure_mistake_costs_as_much_in_single_precision(cli):
    """One minus a probability that rounds to 1 is 0: the others' sum still tells."""
    z, y = biased(400, 0)
    sc.TemperatureScaling().fit(z, y).save("ts.json")
    z[:5] = 18 * np.eye(5)[(y[:5] + 1) % 5]
    for name, kind in (("single", np.float32), ("double", np.float64)):
        np.savez(f"{name}.npz", logits=z.astype(kind), labels=y)
    call = ("--calibrator", "ts.json", *PLAIN, "--json")
    single, double = (
        json.loads(cli("evaluate", f"{name}.npz", *call)[1]) for name in ("single", "double")
    )
    own = single["model_predictions"]
    assert own["top_label_bce"] == pytest.approx(single["metrics"]["top_label_bce"], rel=1e-9)
    assert own == pytest.approx(double["model_predictions"], rel=1e-3)


def test_without_classes_or_a_calibrator_there_is_nothing_beside(files, cli):
    assert "model_predictions" not in json.loads(cli("evaluate", "test.npz", *PLAIN, "--json")[1])
    assert cli("fit", "test.npz", "--method", "ts-nll", "-o", "ts.json")[0] == 0
    out = cli("evaluate", "test.npz", "--calibrator", "ts.json", *PLAIN)[1]
    assert "The model's own predictions" not in out  # they are the calibrator's
    scores = np.linspace(0, 1, 200)
    np.savez("judged.npz", score=scores, outcome=scores > np.random.default_rng(0).random(200))
    assert cli("fit", "judged.npz", "-o", "judge.json")[0] == 0
    call = ("evaluate", "judged.npz", "--calibrator", "judge.json", *PLAIN)
    assert "model_predictions" not in json.loads(cli(*call, "--json")[1])
    assert "The model's own predictions" not in cli(*call)[1]


# Ties.


def near_ties():
    """Logits whose two largest differ by less than float32 probabilities can tell."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(2000, 10)).astype(np.float32)
    rows, top = np.arange(len(z)), z.argsort(axis=1)[:, -2:]
    z[rows, top[:, 0]] = z[rows, top[:, 1]] * np.float32(1 - 1e-7)
    return z, top[rows, rng.integers(2, size=len(z))]


def of_model(name):
    if name == "near ties":
        return (*near_ties(), *near_ties())
    file = cell(name)
    return tuple(file[key] for key in ("val_logits", "val_labels", "test_logits", "test_labels"))


MODELS = [
    name
    for name in there(
        "options/mmlu16__gpt-prompt0",  # with logits that are equal
        "saturated/income9__bernoulli-nb",
        "saturated/satellite6__hgb-lr5",
        "saturated/spam2__hgb-lr5",
        "saturated/satellite6__tree",
    )
    if name != "quickdraw345"
]


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("method", ["none", "ts-nll", "default"])
@pytest.mark.parametrize("name", ["near ties", *MODELS])
def test_what_apply_writes_predicts_what_the_calibrator_predicts(name, method, keep, cli):
    z, y, test_z, test_y = of_model(name)
    names = np.array([f"class {'badcfehgji'[i]}" for i in range(z.shape[1])])
    cal = sc.Calibrator(method=method, keep_predictions=keep, class_names=names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        cal.fit(z, y).save("cal.json")
    said = cal.predict(test_z)
    for order in (slice(None), slice(None, None, -1)):  # of the columns in the file
        held = {"logits": test_z[:, order], "class_names": names[order]}
        np.savez("in.npz", labels=names[test_y], **held)
        io.write_arrays("in.parquet", {**held, "labels": names[test_y]})
        for out in ("out.npz", "out.csv", "out.parquet"):
            data = "in.parquet" if out == "out.parquet" else "in.npz"
            assert cli("apply", "cal.json", data, "-o", out)[0] == 0
            loaded = io.read(out)
            assert loaded.class_names == tuple(names[order])
            assert (names[order][loaded.logits.argmax(axis=1)] == said).all()
            ask = ("evaluate", out, "--metrics", "accuracy", *PLAIN, "--json", "--force")
            found = json.loads(cli(*ask)[1])
            assert found["metrics"]["accuracy"] == np.mean(said == names[test_y])
