"""Names in figures: drawn as they are, whatever mathematics they look like."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib", reason="drawing needs matplotlib")

from xml.etree import ElementTree

import numpy as np

from smallcal import plots
from smallcal.data.shown import visible
from smallcal.plots import style
from support.nasty_names import NASTY, RAW
from support.simulated import simulate

Z, Y = simulate(300, 3)
P = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
MATHS = ["$x$", "$\\frac{1}{0}$", "$\\notacommand$", "a $ b", "$$", "\\$5", "$\\", "x^{$}_"]


def texts_of(figure):
    svg = ElementTree.fromstring(style.to_svg(figure))
    return ["".join(node.itertext()) for node in svg.iter() if node.tag.endswith("text")]


@pytest.mark.filterwarnings("ignore:Glyph", "ignore:constrained_layout")
@pytest.mark.parametrize("name", [*MATHS, *NASTY])
def test_a_series_is_called_by_its_name(name):
    axes = plots.reliability(Y, {name: P, "other": P})
    drawn = [" ".join(text.split()) for text in texts_of(axes.figure)]
    wanted = " ".join(visible(name, keep="\n").split("\n")[0].split())
    assert any(wanted in text for text in drawn), drawn
    assert not any(map(RAW.search, drawn))
    axes.figure.savefig("/dev/null", format="png")


@pytest.mark.parametrize("name", MATHS)
def test_rows_and_labels_are_literal(name):
    rows = [{"label": name, "value": 1.0, "low": 0.5, "high": 1.5}]
    axes = plots.forest(rows)
    assert any(name in text for text in texts_of(axes.figure))
    axes = style.axes_or_new(None)
    style.dress(axes, xlabel=name, ylabel=name, title=name)
    style.caption(axes, name)
    assert sum(name in text for text in texts_of(axes.figure)) == 3


def test_axes_keep_their_own_mathematics():
    axes = style.axes_or_new(None)
    axes.set_yscale("log")
    axes.set_ylim(1, 1000)
    assert style.to_svg(axes.figure)
