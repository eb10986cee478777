"""What a report says of costs: the numbers of other routes, in words, a table and figures."""

from __future__ import annotations

import json

import numpy as np
import pytest

import smallcal as sc
from smallcal.plots.redraw import redraw
from smallcal.reports import Report
from support.judged import marks
from support.refused import refused
from support.simulated import simulate


def samples():
    (z, y), (tz, ty) = simulate(300, 4, seed=0), simulate(400, 4, seed=1)
    return (4 * z, y), (4 * tz, ty)  # much surer than it should be


@pytest.fixture(scope="module")
def made():
    costs = sc.Costs(wrong=10, review=3)
    return sc.report(*samples(), methods=["ts-nll"], costs=costs, n_boot=100)


@pytest.fixture(scope="module")
def scored():
    costs = sc.Costs(miss=10, false_alarm=40, review=4)
    return sc.report(marks(200, 0), marks(300, 1), input="score", costs=costs, n_boot=100)


def test_the_numbers_are_those_of_expected_cost(made):
    (z, y), (tz, ty) = samples()
    raw, own = (sc.make(name).fit(z, y).predict_proba(tz) for name in ("none", "ts-nll"))
    costs = sc.Costs(wrong=10, review=3)
    found = sc.expected_cost(ty, own, costs, raw=raw, n_boot=100)
    said = made.content["costs"]
    assert said["method"] == "ts-nll"
    rows = {row["rule"]: row for row in said["rows"]}
    assert list(rows) == ["own", "raw", "always_answer", "always_review"]
    assert rows["own"]["cost"]["value"] == pytest.approx(found.cost.point)
    assert rows["own"]["saved"] is None
    assert rows["raw"]["saved"]["low"] == pytest.approx(found.gains["raw"].low)
    assert rows["raw"]["saved"]["verdict"] == "better"
    assert said["promised"] == pytest.approx(found.promised)
    assert said["threshold"] == 0.7
    assert "beyond chance" in said["headline"]


def test_figures_stand_in_their_section_and_can_be_drawn_again(made, scored):
    pytest.importorskip("matplotlib")
    for report, ids in ((made, ["cost-curve"]), (scored, ["cost-curve", "net-benefit"])):
        own = [spec for spec in report.content["figures"] if spec["id"] in ids]
        assert [spec["id"] for spec in own] == ids
        for spec in own:
            assert redraw(spec["plot"], spec["data"]).get_ylabel()
            assert report.to_markdown().count(f"{spec['title']}: ") == 1
    assert "net-benefit" not in {spec["id"] for spec in made.content["figures"]}


def test_markdown_and_the_page_say_it(made, scored):
    for report in (made, scored):
        text = report.to_markdown()
        section = text.split("### What mistakes cost")[1].split("### Figures")[0]
        assert report.content["costs"]["headline"].split(":")[0] in section
        assert "| everything passed on for review |" in section
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    page = scored.to_html()
    assert "What mistakes cost" in page
    assert "a miss (1 taken for 0) costs 10, a false alarm (0 taken for 1) 40, a review 4" in page


def test_without_costs_nothing_is_said_and_old_documents_are_shown():
    plain = sc.report(*samples(), methods=["ts-nll"], n_boot=100)
    assert plain.content["costs"] is None
    assert "What mistakes cost" not in plain.to_markdown()
    before = {key: value for key, value in plain.content.items() if key != "costs"}
    assert Report(before).to_markdown() == plain.to_markdown()


def test_without_resamples_there_are_values_alone():
    report = sc.report(*samples(), methods=["ts-nll"], costs=sc.Costs(wrong=10, review=3), n_boot=0)
    assert "cost-curve" not in {spec["id"] for spec in report.content["figures"]}
    section = report.to_markdown().split("### What mistakes cost")[1].split("###")[0]
    assert "interval" not in section
    assert json.loads(report.to_json())["costs"]["rows"][0]["cost"]["low"] is None


def test_a_raw_model_that_is_kept_is_compared_with_no_other():
    z, y = simulate(300, 4, seed=0)
    costs = sc.Costs([[0, 1, 2, 3], [1, 0, 1, 2], [2, 1, 0, 1], [3, 2, 1, 0]])
    report = sc.report((z, y), simulate(200, 4, seed=1), methods=["none"], costs=costs, n_boot=100)
    assert [row["rule"] for row in report.content["costs"]["rows"]] == ["own", "most_probable"]
    assert report.content["costs"]["threshold"] is None
    assert "costs=sc.Costs([[0.0, 1.0" in report.content["reproduce"]["python"]


def test_many_numbers_are_not_written_out_as_python():
    z, y = simulate(200, 12, seed=0)
    costs = sc.Costs(1 - np.eye(12), review=0.3)
    report = sc.report((z, y), simulate(200, 12, seed=1), methods=["none"], costs=costs, n_boot=0)
    assert "costs=costs)" in report.content["reproduce"]["python"]


def test_costs_of_other_classes_are_refused_before_anything_is_fitted():
    with refused("costs-invalid", "3", "4"):
        sc.report(*samples(), costs=sc.Costs(1 - np.eye(3)))
