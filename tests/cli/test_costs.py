"""Costs from the shell: measured, written beside probabilities, told in a report."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

import smallcal as sc
from support.scored import drawn
from support.simulated import simulate

NAMES = ("cat", "dog", "owl")
MATRIX = "decision,owl,cat,dog\nreview,2,2,2\ncat,9,0,4\ndog,7,1,0\nowl,0,5,9\n"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Stand in a folder with logits and scores, calibrators of both, and a matrix of costs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    z, y = simulate(400, 3, seed=0)
    new, labels = simulate(500, 3, seed=1)
    sc.TemperatureScaling().fit(z, y).save("cal.json")
    named = sc.TemperatureScaling(class_names=list(NAMES)).fit(z, y)
    named.save("named.json")
    np.savez("new.npz", logits=new, labels=labels)
    sure = {"val_logits": 4 * z, "test_logits": 4 * new}  # much surer than they should be
    np.savez("splits.npz", val_labels=y, test_labels=labels, **sure)
    # Columns in another order than the calibrator's.
    rows = [[repr(float(row[i])) for i in (2, 0, 1)] for row in new]
    with open("new.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["owl", "cat", "dog", "label"])
        writer.writerows([*row, NAMES[label]] for row, label in zip(rows, labels, strict=True))
    x, outcome = drawn(300, kind="probability")
    sc.Calibrator(input="score").fit(x, outcome).save("score.json")
    x, outcome = drawn(400, kind="probability", seed=2)
    np.savez("scores.npz", scores=x, outcomes=outcome)
    x, outcome = drawn(300)
    sc.Calibrator(input="score").fit(x, outcome).save("number.json")
    np.savez("numbers.npz", scores=x, outcomes=outcome)
    (tmp_path / "matrix.csv").write_text(MATRIX)
    return tmp_path


def table(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.usefixtures("here")
class TestEvaluate:
    def test_what_decisions_cost_stands_beside_the_raw_models(self, cli):
        how = ("--calibrator", "cal.json", "--metrics", "ece15", "--n-boot", "100")
        code, out, _ = cli("evaluate", "new.npz", *how, "--cost", "wrong=10,review=2")
        assert code == 0
        for said in (
            "Costs: a wrong answer costs 10, a review 2.",
            "best decisions, calibrated",
            "best decisions of the uncalibrated model",
            "everything passed on for review",
            "answered where the answer has a probability of 80.0 % or more",
        ):
            assert said in " ".join(out.split())
        code, out, _ = cli("evaluate", "new.npz", *how, "--cost", "wrong=10,review=2", "--json")
        found = json.loads(out)["cost"]
        fitted, data = sc.load("cal.json"), np.load("new.npz")
        raw = sc.Identity().fit(data["logits"], data["labels"]).predict_proba(data["logits"])
        own = sc.expected_cost(
            data["labels"],
            fitted.predict_proba(data["logits"]),
            sc.Costs(wrong=10, review=2),
            raw=raw,
            n_boot=100,
        )
        assert found["cost"]["point"] == pytest.approx(own.cost.point)
        assert found["gains"]["raw"]["low"] == pytest.approx(own.gains["raw"].low)
        assert found["threshold"] == 0.8

    def test_a_matrix_finds_its_classes_by_name(self, cli):
        how = ("--calibrator", "named.json", "--metrics", "ece15", "--n-boot", "0", "--json")
        found = []
        for data in ("new.csv", "new.npz"):
            code, out, _ = cli("evaluate", data, *how, "--cost", "matrix.csv")
            assert code == 0
            found.append(json.loads(out)["cost"]["cost"]["point"])
        assert found[0] == pytest.approx(found[1])

    def test_scores_that_are_no_probabilities_have_no_raw_decisions(self, cli):
        how = ("--metrics", "ece15", "--n-boot", "0", "--cost", "miss=5,review=1", "--json")
        code, out, err = cli("evaluate", "numbers.npz", "--calibrator", "number.json", *how)
        assert code == 0
        assert "raw scores are no probabilities" in err
        assert "a false alarm is not named and costs what the other mistake does, 5" in err
        assert "raw" not in json.loads(out)["cost"]["others"]
        code, out, err = cli("evaluate", "scores.npz", "--calibrator", "score.json", *how)
        assert "raw" in json.loads(out)["cost"]["others"]

    @pytest.mark.parametrize(
        ("cost", "message"),
        [
            ("mis=3", "--cost: 'mis=3': unknown cost 'mis'; did you mean 'miss'?"),
            ("miss=-3", "--cost: costs: miss must be finite and not negative; got -3"),
            ("false_alarm=3", "--cost: costs: false_alarm is for two classes or a score"),
            ("gone.csv", "cannot read gone.csv"),
            ("matrix.csv", "names classes ('owl', 'cat', 'dog'), and the data do not"),
            ("two.csv", "--cost: costs: the matrix is for 2 classes, and there are 3"),
        ],
    )
    def test_bad_costs_are_one_line(self, cli, here, cost, message):
        (here / "two.csv").write_text(",0,1\n0,0,1\n1,1,0\n")
        code, out, err = cli("evaluate", "new.npz", "--cost", cost, "--n-boot", "0")
        assert (code, out) == (2, "")
        assert message in err
        assert err.count("\n") == 1

    def test_a_review_that_is_too_dear_is_said(self, cli):
        how = ("--metrics", "ece15", "--n-boot", "0")
        code, _, err = cli("evaluate", "new.npz", "--cost", "wrong=3,review=5", *how)
        assert code == 0
        assert (
            "a review (5) is more expensive than answering ever is: nothing is passed on for review"
            in err
        )


@pytest.mark.usefixtures("here")
class TestApply:
    def test_decisions_stand_beside_the_probabilities(self, cli):
        code, *_ = cli(
            "apply", "cal.json", "new.npz", "-o", "out.csv", "--cost", "wrong=10,review=2"
        )
        assert code == 0
        rows = table("out.csv")
        p = np.array([[float(row[f"prob_{c}"]) for c in range(3)] for row in rows])
        costs = sc.Costs(wrong=10, review=2)
        names = costs.table(3).names(costs.decide(p))
        assert [row["decision"] for row in rows] == names.tolist()
        assert "review" in names
        assert [float(row["expected_cost"]) for row in rows] == pytest.approx(costs.expected(p))

    def test_no_decision_is_a_formula(self, cli):
        with np.load("new.npz") as new:
            z, y = new["logits"], new["labels"]
        sc.TemperatureScaling(class_names=["=cmd()", "@b", "-c"]).fit(z, y).save("odd.json")
        code, *_ = cli(
            "apply", "odd.json", "new.npz", "-o", "out.csv", "--cost", "wrong=10,review=2"
        )
        assert code == 0
        said = {row[name] for row in table("out.csv") for name in ("decision", "prediction")}
        assert said == {"'=cmd()", "'@b", "'-c", "review"}

    def test_classes_are_called_by_their_names_whatever_their_order(self, cli):
        found = []
        for data in ("new.csv", "new.npz"):
            code, *_ = cli("apply", "named.json", data, "-o", "out.csv", "--cost", "matrix.csv")
            assert code == 0
            found.append([(row["decision"], row["prob_owl"]) for row in table("out.csv")])
        assert [row[0] for row in found[0]] == [row[0] for row in found[1]]
        assert {row[0] for row in found[0]} == {*NAMES, "review"}

    def test_of_a_score_it_is_the_outcome(self, cli):
        how = ("--cost", "miss=30,false_alarm=100,review=15")
        code, *_ = cli("apply", "score.json", "scores.npz", "-o", "out.csv", *how)
        assert code == 0
        for row in table("out.csv"):
            p = float(row["probability"])
            assert row["decision"] == ("1" if p >= 0.85 else "0" if p <= 0.5 else "review")

    def test_parts_are_decided_as_the_whole_is(self, cli):
        pq = pytest.importorskip("pyarrow.parquet")
        import pyarrow as pa

        z = np.load("new.npz")["logits"]
        columns = {name: z[:, i] for i, name in ((2, "owl"), (0, "cat"), (1, "dog"))}
        pq.write_table(pa.table(columns), "new.parquet")
        for i, how in enumerate(([], ["--part-rows", "70"], ["--part-rows", "70", "--jobs", "2"])):
            code, *_ = cli(
                *("apply", "named.json", "new.parquet", "-o", f"{i}.parquet"),
                *("--cost", "matrix.csv", *how),
            )
            assert code == 0
        cli("apply", "named.json", "new.npz", "-o", "out.csv", "--cost", "matrix.csv")
        whole = [row["decision"] for row in table("out.csv")]
        for i in range(3):
            found = pq.read_table(f"{i}.parquet").to_pydict()
            assert found["decision"] == whole
            assert list(found)[:3] == ["prob_owl", "prob_cat", "prob_dog"]
        # A run with other costs is another run.
        code, *_ = cli("apply", "named.json", "new.parquet", "-o", "0.parquet", "--cost", "wrong=1")
        assert code == 0
        assert "review" not in pq.read_table("0.parquet").to_pydict()["decision"]

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            (("-o", "out.npy", "--cost", "wrong=1"), "--cost: a .npy file holds one array"),
            (("-o", "out.csv", "--cost", "matrix.csv"), "and the data do not; name those with"),
            (("-o", "matrix.csv", "--cost", "matrix.csv"), "matrix.csv is an input and would be"),
            (("-o", "out.csv", "--cost", "two=1"), "unknown cost 'two'"),
        ],
    )
    def test_bad_costs_are_one_line_and_nothing_is_written(self, cli, here, given, message):
        code, _, err = cli("apply", "cal.json", "new.npz", *given)
        assert code == 2
        assert message in err
        assert not (here / "out.csv").exists()
        assert (here / "matrix.csv").read_text() == MATRIX


@pytest.mark.usefixtures("here")
class TestReport:
    def test_it_has_a_section_about_costs(self, cli):
        how = ("--methods", "ts-nll", "--n-boot", "100")
        code, out, _ = cli("report", "splits.npz", *how, "--cost", "wrong=10,review=2")
        assert code == 0
        assert "### What mistakes cost" in out
        assert "| best decisions of the uncalibrated model |" in out
        assert "costs=sc.Costs(wrong=10.0, review=2.0)" in out
        assert "--cost wrong=10,review=2 -o decisions.csv" in out
        code, out, _ = cli("report", "splits.npz", *how)
        assert "What mistakes cost" not in out

    def test_bad_costs_are_one_line(self, cli):
        code, out, err = cli("report", "splits.npz", "--cost", "false_alarm=3")
        assert (code, out) == (2, "")
        assert "--cost: costs: false_alarm is for two classes or a score" in err
        assert err.count("\n") == 1
