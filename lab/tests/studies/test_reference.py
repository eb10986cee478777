"""The paper's numbers: the file obeys its format, and says what the paper says."""

import copy
import json
from collections import Counter
from pathlib import Path

import pytest

import paper_table
import reference_values
import smallcal as sc
from reference_remarks import PAPER_METRICS
from reference_tables import TABLES
from smallcal.metrics import METRICS
from smallcal_lab.studies import STUDIES

ROOT = Path(__file__).parents[3]
PAPER = ROOT.parent / "shared" / "paper" / "srts.tex"
TEXT = reference_values.FILE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def content():
    return reference_values.read(TEXT)


@pytest.fixture(scope="module")
def paper():
    if not PAPER.is_file():
        pytest.skip("the paper's source is not beside the repository")
    return PAPER.read_text(encoding="utf-8")


def one_of(content, **wanted):
    found = [e for e in content["values"] if reference_values.matches(e, wanted)]
    assert len(found) == 1
    return found[0]


def test_the_file_has_no_problems(content):
    assert list(reference_values.problems(content)) == []
    assert len(TEXT) < 600 * 1024
    assert content["version"] == 1
    assert content["tolerances"] == {"deterministic": 0.011, "smart-bce": 0.15, "cifar100c": 0.05}


def test_every_entry_has_the_fields_of_the_format():
    for entry in json.loads(TEXT)["values"]:
        assert {"table", "study", "dataset", "backbone", "seeds", "budget", "method"} <= set(entry)
        assert {"set", "metric", "value", "unit", "spread", "interval"} <= set(entry)
        assert entry["method"] in sc.methods() or (
            entry["method"] is None and "paper_method" in entry
        )
        assert entry["metric"] in METRICS or (entry["metric"] is None and "paper_metric" in entry)


def test_every_method_can_be_made(content):
    rows = {(e["method"], json.dumps(e.get("options", {}))) for e in content["values"]}
    for name, options in rows:
        if name is not None:
            assert sc.make(name, **json.loads(options)) is not None


def test_no_number_is_there_twice(content):
    names = "table dataset backbone budget method paper_method options set metric paper_metric kind"
    names += " against"
    counts = Counter(
        tuple(json.dumps(entry.get(name)) for name in names.split()) for entry in content["values"]
    )
    assert [key for key, count in counts.items() if count > 1] == []


def test_every_table_has_numbers(content):
    counts = Counter(entry["table"] for entry in content["values"])
    assert set(TABLES) <= set(counts)
    assert not {entry["table"] for entry in content["skipped"]} & set(counts)
    used = {entry.get("paper_metric") for entry in content["values"]} - {None}
    assert used == set(PAPER_METRICS)


def test_every_table_and_figure_has_a_study_or_a_reason(content):
    values = {entry["table"]: entry["study"] for entry in content["values"]}
    skipped = {entry["table"]: entry for entry in content["skipped"]}
    assert len(content["labels"]) == len(set(content["labels"])) == 76
    for label in content["labels"]:
        about = content["figures"].get(label) or skipped.get(label) or {"study": values[label]}
        assert "why" in about or about["study"] in STUDIES
    figures = [label for label in content["labels"] if label.startswith("fig:")]
    assert sorted(figures) == sorted(content["figures"])


def test_the_list_in_the_docs_is_up_to_date():
    page = paper_table.PAGE.read_text(encoding="utf-8")
    assert paper_table.updated(page) == page, "run python scripts/paper_table.py"
    rows = [line for line in page.splitlines() if line.startswith(("| `tab:", "| `fig:"))]
    assert len(rows) == 76


def test_numbers_known_by_heart(content):
    """Read off the paper by eye, one for each way a table is laid out."""
    summary = {"table": "tab:sota_3seed_summary", "metric": "ece15", "kind": "value"}
    main = one_of(content, method="srts-bce", seeds=5, **summary)
    assert (main["value"], main["spread"], main["unit"]) == (0.96, 0.32, "percent")
    tiers = one_of(content, table="tab:matched_capacity_tiers", against="pwlinear-3")
    assert (tiers["value"], tiers["interval"]) == (0.05, [-0.01, 0.14])
    assert tiers["other_intervals"] == {"cells": [0.03, 0.08], "corruption types": [0.01, 0.10]}
    wins = one_of(
        content, table="tab:budget_resampling", method="smart-bce", budget=250, kind="win-share"
    )
    assert wins["value"] == 47
    spread = one_of(
        content, table="tab:budget_resampling", method="smart-bce", budget=625, kind="value"
    )
    assert (spread["value"], spread["spread"]) == (1.43, 0.50)
    pair = one_of(
        content,
        table="tab:cross_dataset_ece_summary",
        dataset="imagenet100",
        backbone="deit-s",
        method="smart-softece",
        metric="adaece15",
    )
    assert (pair["value"], pair["spread"], pair["seeds"]) == (1.63, 0.04, 3)
    gain = one_of(
        content, table="tab:phi_proper_scores", method="none", against="srts-bce", metric="nll"
    )
    assert (gain["value"], gain["spread"]) == (0.0821, 0.0049)
    picked = one_of(content, table="tab:selector", dataset="cifar10", backbone="swin-t", value=0.38)
    assert picked["picks"] == [3, 1, 1]
    groups = one_of(content, table="sec:results-rq2", options={"n_groups": 10})
    assert (groups["value"], groups["study"]) == (1.01, "k-ablation")


def test_spreads_say_by_what_they_were_divided(content):
    """Two places print one number with 0.6483 and 0.5294: the square root of 3/2 apart."""
    rows = {"dataset": "cifar100", "method": "srts-nll", "metric": "ece15", "seeds": 3}
    long = one_of(content, table="tab:router_causality", **rows)
    short = one_of(content, table="tab:fairness_sweep", **rows)
    assert (long["spread"], long["ddof"]) == (0.6483, 1)
    assert (short["spread"], short["ddof"]) == (0.5294, 0)
    for entry in content["values"]:
        if "per_seed" in entry:
            values = entry["per_seed"]
            mean = sum(values) / len(values)
            sd = (sum((v - mean) ** 2 for v in values) / (len(values) - entry["ddof"])) ** 0.5
            room = 0.5 * 10 ** -entry["decimals"] + 0.005
            assert mean == pytest.approx(entry["value"], abs=room)
            assert sd == pytest.approx(entry["spread"], abs=room)


def test_what_contradicts_itself_is_in_doubt(content):
    nested = [e for e in content["values"] if e["table"] == "tab:nested_k_cross_backbone"]
    doubtful = [e["value"] for e in nested if e["method"] is None and "NLL" in e.get("doubt", "")]
    assert doubtful == [1.72, 2.71, 2.77, 2.98]
    older = one_of(content, table="tab:router_ablation_margin", method="srts-bce", value=4.626)
    assert "4.6283" in older["doubt"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"method": "no-such-method"}, "unknown method"),
        ({"metric": "ece16"}, "unknown metric"),
        ({"study": "astrology"}, "unknown study"),
        ({"interval": [2.0, 1.0]}, "upside down"),
        ({"value": None, "interval": None}, "no number"),
        ({"kind": "difference"}, "against nothing"),
        ({"value": 5.0}, "contradicts"),
        ({"colour": "red"}, "unknown field"),
    ],
)
def test_a_bad_entry_is_told(content, change, problem):
    worse = copy.deepcopy(content)
    one_of(worse, table="tab:in100", method="tva-ts", backbone="vit-b16").update(change)
    assert any(problem in text for text in reference_values.problems(worse))


def test_a_repeated_entry_is_told(content):
    worse = {**content, "values": [*content["values"], content["values"][0]]}
    assert any("twice" in text for text in reference_values.problems(worse))


def test_the_paper_says_so(content, paper):
    assert content["labels"] == reference_values.labels(paper)
    assert list(reference_values.misprints(content, paper)) == []


def test_the_file_can_be_made_again(paper):
    assert reference_values.written(reference_values.made(paper)) == TEXT


def test_a_misprint_is_found(content, paper):
    changes = ({"value": 1.59}, {"spread": 0.25}, {"interval": [-0.11, 0.12]})
    for change in (*changes, {"table": "tab:none"}):
        worse = copy.deepcopy(content)
        one_of(worse, table="tab:in100", method="tva-ts", backbone="vit-b16").update(change)
        assert any("is" in text for text in reference_values.misprints(worse, paper)), change
