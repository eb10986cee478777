"""Figures drawn by another process are those drawn here, and drawn here where it fails."""

from __future__ import annotations

import subprocess
import sys

import pytest

import smallcal as sc
from support.simulated import simulate

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

from smallcal.reports.render import drawer as drawing
from smallcal.reports.render.blocks import Figure
from smallcal.reports.render.drawer import Drawer
from smallcal.reports.render.svg import drawn


@pytest.fixture(scope="module")
def made():
    test = simulate(n=400, n_classes=4, seed=1)
    with Drawer() as drawer:
        found = sc.report(simulate(n=300, n_classes=4, seed=0), test, n_boot=100, drawer=drawer)
        return found, found.to_html()


@pytest.fixture
def figures(made):
    return [Figure(**spec) for spec in made[0].content["figures"]]


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(drawing, "cores", lambda: 2)


def test_the_page_is_the_one_drawn_here(made):
    found, page = made
    assert page == sc.reports.Report(found.content).to_html()


def test_figures_come_from_the_process(figures, monkeypatch):
    here = [drawn(figure) for figure in figures]
    monkeypatch.setattr(drawing, "drawn", None)  # not callable
    with Drawer() as drawer:
        for figure in figures:
            drawer.begin(vars(figure))
        assert [drawer.drawn(figure) for figure in figures] == here


def test_a_process_that_was_killed_leaves_the_rest_to_this_one(figures):
    with Drawer() as drawer:
        drawer.begin(vars(figures[0]))
        assert drawer.drawn(figures[0]) == drawn(figures[0])
        drawer._process.kill()
        drawer._process.wait()
        drawer.begin(vars(figures[1]))
        assert drawer.drawn(figures[1]) == drawn(figures[1])


def test_a_figure_that_it_was_not_asked_for_is_drawn_here(figures):
    with Drawer() as drawer:
        drawer.begin(vars(figures[0]) | {"title": "another"})
        assert drawer.drawn(figures[0]) == drawn(figures[0])


@pytest.mark.parametrize("executable", ["", None, "/no/such/python"])
def test_without_a_python_to_start_figures_are_drawn_here(figures, monkeypatch, executable):
    monkeypatch.setattr(sys, "executable", executable)
    with Drawer() as drawer:
        drawer.begin(vars(figures[0]))
        assert drawer.drawn(figures[0]) == drawn(figures[0])


def test_one_core_starts_no_process(figures, monkeypatch):
    monkeypatch.setattr(drawing, "cores", lambda: 1)
    monkeypatch.setattr(subprocess, "Popen", None)
    with Drawer() as drawer:
        drawer.begin(vars(figures[0]))
        assert drawer.drawn(figures[0]) == drawn(figures[0])


def test_the_process_ends_with_the_block_and_with_its_figures(figures):
    with Drawer() as drawer:
        drawer.begin(vars(figures[0]))  # and never asked for
    assert drawer._process.poll() is not None
    alone = drawing._started()
    alone.communicate(timeout=60)  # no more figures
    assert alone.returncode == 0


def test_modules_in_the_folder_of_the_user_are_left_alone(figures, monkeypatch, tmp_path):
    (tmp_path / "gc.py").write_text("raise SystemExit(1)")
    (tmp_path / "matplotlib.py").write_text("raise SystemExit(1)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    monkeypatch.setattr(drawing, "drawn", None)
    with Drawer() as drawer:
        drawer.begin(vars(figures[0]))
        assert drawer.drawn(figures[0]).startswith("<svg")
