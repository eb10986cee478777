"""Which figures a study allows: ``FIGURES`` is the only list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from smallcal.errors import InputError
from smallcal.metrics import METRICS
from smallcal.plots import style
from smallcal.plots.forest_plot import forest
from smallcal_lab.plots.clean import budget_curve, difference_rows, group_temperatures, k_ablation
from smallcal_lab.plots.curves import curves_of
from smallcal_lab.plots.given import clean, open_run
from smallcal_lab.plots.risk import group_gaps, risk_confidence, risk_density
from smallcal_lab.plots.shift import corruption_gain, risk_flow, severity_curve, within_margin
from smallcal_lab.studies.frame import ALL, Frame
from smallcal_lab.studies.study import Study
from smallcal_lab.studies.tables.shift import SIGNED
from smallcal_lab.studies.tables.table import better_of, heading_of

#: What the lines over a figure of differences need, in inches.
_CAPTION = 0.6


class Figure(NamedTuple):
    """A figure: which studies have it, and how it is drawn.

    ``all_budgets`` says whether it has all budgets, or is drawn for each; ``of_metric`` whether it
    is of a metric that can be chosen.
    """

    suits: Callable[[Study], bool]
    draw: Callable[..., style.Axes]
    all_budgets: bool = False
    of_metric: bool = True


def _with_table(*names: str) -> Callable[[Study], bool]:
    """Return whether a study has one of these tables."""
    return lambda study: not set(names).isdisjoint(study.tables)


def _differences(run: tuple[Study, Frame], *, metric: str, where: Mapping[str, Any]) -> style.Axes:
    rows = difference_rows(run, metric=metric, where=where)
    if not rows:
        raise InputError("no difference has an interval: each is of a single fit")
    axes = forest(rows, better=better_of(metric))
    label = f"{heading_of(metric, difference=True)}, minus {run[0].baseline}"
    axes.set_xlabel(style.literal(label))
    curves = curves_of(clean(open_run(run, "clean", metric=metric, where=where)))
    # Above the legend, which stands above the axes; the figure grows by that much.
    style.caption(axes, curves.about, curves.bars_text("Bars"), pad=24)
    figure = style.figure_of(axes)
    figure.set_figheight(figure.get_figheight() + _CAPTION)
    return axes


def _signed(study: Study) -> bool:
    return "heterogeneity" in study.tables and SIGNED in study.metrics


def _of_groups(study: Study) -> bool:
    grouped = all(entry.options.get("n_groups") for entry in study.entries)
    return "means" in study.tables and grouped


#: Every figure of studies by the name of its file.
FIGURES: Mapping[str, Figure] = MappingProxyType(
    {
        "budget-curve": Figure(
            lambda study: "means" in study.tables and len(study.budgets) > 1,
            budget_curve,
            all_budgets=True,
        ),
        "severity-curve": Figure(
            lambda study: "severity" in study.tables and study.metrics[0] in METRICS,
            severity_curve,
        ),
        "corruption-gain": Figure(_with_table("heterogeneity"), corruption_gain),
        "corruption-gain-raw-gap": Figure(_signed, partial(corruption_gain, against="raw_gap")),
        "corruption-gain-baseline-gap": Figure(
            _signed, partial(corruption_gain, against="baseline_gap")
        ),
        "k-ablation": Figure(_of_groups, k_ablation),
        "group-temperatures": Figure(
            _with_table("temperatures", "audit"), group_temperatures, of_metric=False
        ),
        "within-margin": Figure(_with_table("within-margin"), within_margin),
        "risk-density": Figure(_with_table("ranking"), risk_density, of_metric=False),
        "risk-confidence": Figure(_with_table("ranking"), risk_confidence, of_metric=False),
        "group-gaps": Figure(_with_table("group-gaps"), group_gaps, of_metric=False),
        "risk-flow": Figure(_with_table("flow"), risk_flow, of_metric=False),
        "differences": Figure(_with_table("differences"), _differences),
    }
)


def study_figures(
    study: Study, frame: Frame, *, metric: str | None = None
) -> Iterator[tuple[str, Callable[[], style.Axes]]]:
    """Yield the name of each figure that a study allows, and what draws it.

    Figures that are not of all budgets are drawn once for each, and say so in their names.
    ``metric`` is the study's first unless it is given.
    """
    fitting = {name: figure for name, figure in FIGURES.items() if figure.suits(study)}
    if not fitting:
        raise InputError(f"the study {study.name!r} has no figures; its tables say all there is")
    run = open_run((study, frame), study.name, metric=metric)
    budgets = run.frame.unique("budget")
    for name, figure in fitting.items():
        what = {"metric": run.metric} if figure.of_metric else {}
        for budget in [None] if figure.all_budgets else budgets:
            where = {} if budget is None else {"budget": budget}
            told = len(budgets) > 1 and budget is not None
            suffix = f"-{'all' if budget == ALL else budget}" if told else ""
            yield name + suffix, partial(figure.draw, (study, frame), **what, where=where)
