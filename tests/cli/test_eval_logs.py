"""Scores and logs of evaluations from the shell."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import smallcal as sc
from smallcal.cli.per import file_names
from smallcal.io import read
from support.eval_logs import harness_samples, judged, write

FIELDS = ("--score", "judge.score", "--outcome", "human.ok")


def records(path):
    return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]


@pytest.fixture
def logs(here):
    write("judged.jsonl", judged())
    models = [
        sample | {"model": ("org/small", "org/large")[i % 2]}
        for i, sample in enumerate(harness_samples(240, widths=(4, 2)))
    ]
    write("samples.jsonl", models)
    return here


def test_a_judge_is_fitted_applied_and_measured(logs, cli):
    code, out, err = cli("fit", "judged.jsonl", *FIELDS, "--method", "ts-nll", "-o", "cal.json")
    assert code == 0, err
    assert "score" in out
    assert sc.load("cal.json").fitted_.input == "score"
    code, out, err = cli(
        "evaluate", "judged.jsonl", *FIELDS, "--calibrator", "cal.json", "--n-boot", "0", "--json"
    )
    assert code == 0, err
    loaded = read("judged.jsonl", score="judge.score", outcome="human.ok")
    p = sc.load("cal.json").predict_score(loaded.logits)
    brier = float(((p - loaded.labels) ** 2).mean())
    assert json.loads(out)["metrics"]["brier"] == pytest.approx(brier, rel=1e-6)
    assert cli("apply", "cal.json", "judged.jsonl", *FIELDS, "-o", "p.npz")[0] == 0
    found = np.load("p.npz")
    given = found["probability"] if "probability" in found else found["probabilities"][:, 1]
    np.testing.assert_allclose(given, p, rtol=1e-6)


def test_scores_stream(logs, cli):
    s = np.random.default_rng(0).random(500)
    y = np.random.default_rng(1).random(500) < s
    np.savez("cal.npz", scores=s, outcomes=y)
    np.save("s.npy", s)
    np.save("y.npy", y)
    assert cli("fit", "cal.npz", "--method", "ts-nll", "-o", "cal.json")[0] == 0
    asked = ("s.npy", "--input", "score")
    code, _, err = cli("apply", "cal.json", *asked, "-o", "p.npy", "--part-rows", "100")
    assert code == 0, err
    found = np.load("p.npy").reshape(len(s), -1)[:, -1]
    np.testing.assert_allclose(found, sc.load("cal.json").predict_score(s), rtol=1e-6)
    found = []
    for more in ((), ("--calibrator", "cal.json")):
        code, out, err = cli(
            "evaluate", *asked, "--labels", "y.npy", *more, "--n-boot", "0", "--json"
        )
        assert code == 0, err
        found.append(json.loads(out)["metrics"]["nll"])
    raw = -np.log(np.where(y, s, 1 - s)).mean()
    assert found[0] == pytest.approx(raw, rel=1e-6)
    assert found[1] <= found[0]
    code, _, err = cli("apply", "cal.json", "s.npy", "-o", "q.npy")  # the calibrator says it
    assert code == 0, err
    assert np.array_equal(np.load("q.npy"), np.load("p.npy"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--score", "judge.scor"], "did you mean 'judge.score'"),
        ([*FIELDS, "--logits-key", "x"], "--score and --logits-key say the same"),
        ([*FIELDS, "--labels-key", "x"], "--outcome and --labels-key say the same"),
        ([*FIELDS, "--input", "logits"], "--score and --outcome are for --input score"),
        (["--score", "judge.score", "--labels", "nothing.txt"], "cannot read nothing.txt"),
        (["--input", "score"], "cannot tell which column is the score|no column|must be"),
    ],
)
def test_one_clear_line(words, message, logs, cli):
    code, out, err = cli("fit", "judged.jsonl", *words, "-o", "cal.json")
    assert code == 2
    assert not out
    assert len(err.strip().splitlines()) == 1
    assert not Path("cal.json").exists()
    assert re.search(message, err), err


def test_scores_that_are_nan_are_named_by_row(here, cli):
    s = np.linspace(0, 1, 30)
    s[[3, 8]] = np.nan
    np.savez("cal.npz", scores=s, outcomes=np.arange(30) % 2)
    code, _, err = cli("fit", "cal.npz", "--method", "ts-nll")
    assert code == 2
    assert "rows 3, 8" in err


def test_scores_that_are_no_probabilities_are_not_measured_raw(logs, cli):
    code, _, err = cli("evaluate", "judged.jsonl", *FIELDS, "--n-boot", "0")
    assert code == 2
    assert "--calibrator" in err


def test_several_models_are_refused_or_fitted_one_by_one(logs, cli):
    code, _, err = cli("fit", "samples.jsonl", "-o", "cal.json")
    assert code == 2
    assert "'org/small', 'org/large'" in err
    assert "--per model" in err
    code, out, err = cli("fit", "samples.jsonl", "--per", "model", "-o", "cals", "--json")
    assert code == 0, err
    told = json.loads(out)
    index = json.loads(Path("cals/index.json").read_text())
    assert index["files"] == told["files"]
    assert index["files"] == {"org/large": "org_large.json", "org/small": "org_small.json"}
    small, large = (sc.load(f"cals/org_{size}.json").fitted_ for size in ("small", "large"))
    assert (small.n_classes, large.n_classes) == (4, 2)
    assert (small.data["n"], large.data["n"]) == (120, 120)
    mine = [record for record in records("samples.jsonl") if record["model"] == "org/large"]
    alone = read(write("alone.jsonl", mine))
    expected = sc.Calibrator(random_state=0).fit(alone.logits, alone.labels).fitted_
    assert large.pooled_temperature == pytest.approx(expected.pooled_temperature)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--per", "model"], "name a folder for them with -o"),
        (["--per", "modle", "-o", "cals"], "values of 'model'"),
        (["--per", "doc_id", "-o", "cals"], "values of 'model'"),
        (["--per", "model", "-o", "there"], "there already"),
        (["--per", "model", "-o", "no/cals"], "does not exist"),
    ],
)
def test_all_calibrators_or_none(words, message, logs, cli):
    Path("there").mkdir()
    before = sorted(path.name for path in Path().iterdir())
    code, _, err = cli("fit", "samples.jsonl", *words)
    assert code == 2
    assert message in err
    assert sorted(path.name for path in Path().iterdir()) == before


def test_one_fit_that_fails_leaves_nothing(logs, cli):
    few = records("samples.jsonl")[:100]
    write("few.jsonl", [*few, {**few[0], "model": "org/one"}])
    code, _, err = cli("fit", "few.jsonl", "--per", "model", "-o", "cals")
    assert code == 2
    assert "few.jsonl, org/one" in err
    assert not [path for path in Path().iterdir() if "cals" in path.name]


def test_a_folder_of_calibrators_is_applied_row_by_row(logs, cli):
    assert cli("fit", "samples.jsonl", "--per", "model", "-o", "cals")[0] == 0
    code, _, err = cli("apply", "cals", "samples.jsonl", "-o", "p.npz")
    assert code == 0, err
    p, whole = np.load("p.npz"), read("samples.jsonl", per="model")
    np.testing.assert_array_equal(p["labels"], whole.labels)
    small, large = (sc.load(f"cals/org_{size}.json") for size in ("small", "large"))
    np.testing.assert_allclose(p["probabilities"][::2], small.predict_proba(whole.logits[::2]))
    np.testing.assert_allclose(
        p["probabilities"][1::2, :2], large.predict_proba(whole.logits[1::2, :2])
    )
    assert (p["probabilities"][1::2, 2:] == 0).all()
    code, out, _ = cli("evaluate", "p.npz", "--n-boot", "0", "--json")
    assert (code, json.loads(out)["n"]) == (0, 240)


def test_a_folder_of_scores(logs, cli):
    models = [one | {"model": ("a", "b")[i % 2]} for i, one in enumerate(judged())]
    write("both.jsonl", models)
    more = (*FIELDS, "--method", "ts-nll", "--per", "model")
    code, _, err = cli("fit", "both.jsonl", *more, "-o", "cals")
    assert code == 0, err
    assert cli("apply", "cals", "both.jsonl", *FIELDS, "-o", "p.csv")[0] == 0
    loaded = read("p.csv")
    assert loaded.input == "score"
    scores = read("both.jsonl", score="judge.score", outcome="human.ok", per="model").logits
    expected = sc.load("cals/b.json").predict_score(scores[1::2])
    np.testing.assert_allclose(loaded.logits[1::2], expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda: Path("cals/index.json").unlink(), "holds no index.json"),
        (lambda: Path("cals/index.json").write_text("[1]"), "is damaged"),
        (
            lambda: Path("cals/index.json").write_text(
                '{"per": "model", "files": {"org/small": "../x.json", "org/large": "y.json"}}'
            ),
            "outside of its folder",
        ),
        (
            lambda: write("samples.jsonl", [one | {"model": "new"} for one in harness_samples(20)]),
            "no calibrator of model 'new'",
        ),
        (
            lambda: write(
                "samples.jsonl",
                [one | {"model": "org/large"} for one in harness_samples(20, widths=(5,))],
            ),
            "more options than its calibrator: 2",
        ),
    ],
)
def test_folders_that_cannot_be_applied(spoil, message, logs, cli):
    assert cli("fit", "samples.jsonl", "--per", "model", "-o", "cals")[0] == 0
    spoil()
    code, _, err = cli("apply", "cals", "samples.jsonl", "-o", "p.npz")
    assert code == 2
    assert message in err
    assert not Path("p.npz").exists()


def test_file_names_are_safe_and_differ():
    found = file_names(["a/b", "a:b", "A B", "index", "..", "", "x" * 300, "ä"])
    assert len({name.lower() for name in found.values()}) == len(found)
    assert all(len(name) < 100 and "/" not in name for name in found.values())
    assert found["index"] != "index.json"


def test_fewer_options_through_the_shell(logs, cli):
    write("one.jsonl", harness_samples(200, widths=(4, 3)))
    assert cli("fit", "one.jsonl", "-o", "cal.json")[0] == 0
    assert cli("apply", "cal.json", "one.jsonl", "-o", "p.csv")[0] == 0
    p = read("p.csv").logits
    assert (p[1::2, 3] == 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1)
    code, out, _ = cli("evaluate", "one.jsonl", "--n-boot", "0", "--json")
    assert code == 0
    assert all(np.isfinite(value) for value in json.loads(out)["metrics"].values())
