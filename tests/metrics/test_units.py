"""One convention for numbers: the same metric reads the same wherever it is printed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import smallcal
import smallcal as sc
from smallcal.metrics import METRICS
from smallcal.metrics.units import PERCENT, PLAIN, X100, written
from smallcal.reports.content.verdict import with_interval
from smallcal.reports.render import cells as pages
from smallcal.statistics.interval import interval_of
from smallcal_lab.studies.tables.clean import number_of
from smallcal_lab.studies.tables.table import Number, Table, heading_of, unit_of

PROPER = {"nll", "brier", "top_label_bce"}


def test_shares_are_in_percent_and_proper_scores_x100():
    assert {name for name, row in METRICS.items() if row.unit.sign == "x100"} == PROPER
    assert {name for name, row in METRICS.items() if row.percent} == set(METRICS) - PROPER
    assert {row.unit.scale for row in METRICS.values()} == {100.0}
    assert {name: row.unit.digits for name, row in METRICS.items() if row.unit.digits != 2} == {
        "cwece15": 4
    }


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_reads_the_same_in_every_place(name):
    value = 0.123456
    text = METRICS[name].unit.number(value)
    row = interval_of(value, np.array([value]), unit="samples")
    assert with_interval(name, row).startswith(f"{text} {METRICS[name].unit.sign} (")
    cell = {"value": value, "plain": value, "low": value, "high": value, "floor": None}
    assert pages.metric_cell(name, cell).text == text
    assert pages.metric_column(name).unit == METRICS[name].unit.sign
    assert pages.metric_column(name, difference=True).unit == "points"
    assert number_of({"cell": [value]}, name).text() == text
    assert pages.metric_column(name).label == METRICS[name].title
    assert heading_of(name) == METRICS[name].heading()
    assert heading_of(name) == f"{METRICS[name].title} {METRICS[name].unit.sign}"


@pytest.mark.parametrize("name", METRICS)
def test_a_difference_is_in_points_in_every_place(name):
    row = interval_of(-0.0123456, np.array([-0.02, -0.01]), unit="samples")
    text = METRICS[name].unit.number(row.point, signed=True)
    assert with_interval(name, row, signed=True).startswith(f"{text} points (")
    assert heading_of(name, difference=True) == f"{METRICS[name].title} points"
    cell = {"value": row.point, "low": row.low, "high": row.high, "verdict": "better"}
    assert pages.metric_cell(name, cell, signed=True).text == text.replace("-", "−")


def test_the_sentence_of_a_comparison_has_the_numbers_of_its_table():
    y = np.array([0, 1, 1, 1] * 30)
    sharp = np.array([[0.9, 0.1], [0.2, 0.8], [0.1, 0.9], [0.7, 0.3]] * 30)
    found = sc.compare(y, {"flat": np.full((120, 2), 0.5), "sharp": sharp}, metrics=["nll"])
    size = X100.number(abs(found.differences["sharp"]["nll"]))
    assert f"lowers log-loss by {size} points" in found.verdict("sharp")


def test_what_rounds_to_nothing_has_no_sign_but_what_is_small_is_told():
    assert written(-0.004, signed=True) == written(0.0, signed=True) == written(-0.0) == "0.00"
    assert PERCENT.interval(-0.00001, 0.02, signed=True) == "0.00 to +2.00"
    assert X100.size(0.000012) == "0.0012 points"
    assert PERCENT.value(float("nan")) == PERCENT.difference(float("nan")) == "undefined"


def test_numbers_of_probes_have_units_too():
    assert unit_of("gap_at80") is unit_of("share_of_fits_at_bounds") is PERCENT
    assert unit_of("nll_requantized") is METRICS["nll"].unit
    assert unit_of("temperature_1") is PLAIN
    assert heading_of("temperature_1") == "temperature_1"


def test_latex_has_a_minus_not_a_hyphen():
    cell = Number(-0.5, low=-1.0, high=0.25)
    text = Table("t", "T", ("method", "log-loss points"), (("tva-ts", cell),)).latex()
    assert r"tva-ts & $-$0.50 [$-$1.00, +0.25] \\" in text
    assert "-- " in Table("t", "T", ("a", "b"), (("x", Number(float("nan"))),)).latex()


def test_nobody_writes_a_metric_in_a_way_of_their_own():
    """A hundredfold with two digits is written by ``units``."""
    own = re.compile(r"\{-?100(\.0)? \*[^{}]*:[+,]*\.[234]f\}")
    root = Path(smallcal.__file__).parent
    found = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if own.search(path.read_text(encoding="utf-8"))
    }
    assert found == set()
