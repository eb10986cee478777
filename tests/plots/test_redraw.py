"""A plot drawn from its data after a trip through JSON is the plot drawn from the samples."""

from __future__ import annotations

import json
from dataclasses import asdict, is_dataclass

import pytest

import smallcal as sc
from support.simulated import simulate

pytest.importorskip("matplotlib")

from smallcal import plots
from smallcal.data.plain import plain
from smallcal.plots.redraw import redraw
from smallcal.plots.style import figure_of, tips_of, to_svg
from support.refused import refused


@pytest.fixture(scope="module")
def arguments():
    z, y = simulate(600, 5, seed=1)
    cal = sc.SRTS().fit(z, y)
    probs = {"none": sc.Identity().fit(z, y).predict_proba(z), "srts": cal.predict_proba(z)}
    compared = sc.compare(y, probs, metrics=["ece15"], n_boot=50)
    grouped = ((y, z), {"calibrator": cal})
    return {
        "reliability": ((y, probs), {}),
        "smooth_reliability": ((y, probs), {"n_boot": 10}),
        "confidence_histogram": ((y, probs), {}),
        "matched_confidence": grouped,
        "group_residuals": grouped,
        "temperature_signal": ((cal, z), {}),
        "risk_coverage": ((y, probs), {"n_boot": 10}),
        "forest": ((compared,), {}),
        "cost_curve": ((y, probs), {"costs": sc.Costs(wrong=10, review=2), "n_boot": 10}),
        "net_benefit": (
            (y > 2, {k: p[:, 3:].sum(axis=1) for k, p in probs.items()}),
            {"n_boot": 9},
        ),
        "shift_errors": (({"fog": y}, {k: {"fog": p} for k, p in probs.items()}), {"n_boot": 10}),
    }


def as_json(found):
    found = asdict(found) if is_dataclass(found) else {k: asdict(v) for k, v in found.items()}
    return json.loads(json.dumps(plain(found)))


@pytest.mark.parametrize(
    "plot",
    [
        "reliability",
        "smooth_reliability",
        "confidence_histogram",
        "matched_confidence",
        "group_residuals",
        "temperature_signal",
        "risk_coverage",
        "forest",
        "shift_errors",
        "cost_curve",
        "net_benefit",
    ],
)
def test_a_plot_survives_json(plot, arguments):
    given, options = arguments[plot]
    direct = figure_of(getattr(plots, plot)(*given, **options))
    data = as_json(getattr(plots, f"{plot}_data")(*given, **options))
    again = figure_of(redraw(plot, data))
    assert to_svg(again) == to_svg(direct)
    assert tips_of(again) == tips_of(direct) != {}


def test_an_unknown_plot_is_named():
    with refused("unknown-choice", "'pie'"):
        redraw("pie", {})
