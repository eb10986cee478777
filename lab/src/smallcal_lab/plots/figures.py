"""Which figures a study allows: ``FIGURES`` is the only list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from smallcal.errors import InputError
from smallcal.metrics import METRICS
from smallcal.plots import style
from smallcal.plots.forest_plot import forest
from smallcal_lab.plots.budget_curve_plot import budget_curve
from smallcal_lab.plots.corruption_gain_plot import corruption_gain
from smallcal_lab.plots.curves import about, bars_text, curves_of
from smallcal_lab.plots.differences import difference_rows
from smallcal_lab.plots.group_gaps_plot import group_gaps
from smallcal_lab.plots.group_temperatures_plot import group_temperatures
from smallcal_lab.plots.k_ablation_plot import k_ablation
from smallcal_lab.plots.risk_confidence_plot import risk_confidence
from smallcal_lab.plots.risk_density_plot import risk_density
from smallcal_lab.plots.risk_flow_plot import risk_flow
from smallcal_lab.plots.run import clean, open_run
from smallcal_lab.plots.severity_curve_plot import severity_curve
from smallcal_lab.plots.within_margin_plot import within_margin
from smallcal_lab.studies.frame import ALL, Frame
from smallcal_lab.studies.study import Study
from smallcal_lab.studies.tables.shift import SIGNED
from smallcal_lab.studies.tables.table import better_of, heading_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: What the lines over a figure of differences need, in inches.
_CAPTION = 0.6


@dataclass(frozen=True)
class Figure:
    """A figure: which studies have it, how it is drawn, and what it is of.

    Attributes
    ----------
    all_budgets : bool
        Whether it has all budgets, or is drawn for each.
    of_metric : bool
        Whether it is of a metric that can be chosen.
    """

    suits: Callable[[Study], bool]
    draw: Callable[..., Axes]
    all_budgets: bool = False
    of_metric: bool = True


def _with_table(*names: str) -> Callable[[Study], bool]:
    """Return whether a study has one of these tables."""
    return lambda study: not set(names).isdisjoint(study.tables)


def _differences(run: tuple[Study, Frame], *, metric: str, where: Mapping[str, Any]) -> Axes:
    rows = difference_rows(run, metric=metric, where=where)
    if not rows:
        raise InputError("no difference has an interval: each is of a single fit")
    axes = forest(rows, better=better_of(metric))
    label = f"{heading_of(metric, difference=True)}, minus {run[0].baseline}"
    axes.set_xlabel(style.literal(label))
    curves = curves_of(clean(open_run(run, "clean", metric=metric, where=where)), np.empty(0))
    # Above the legend, which stands above the axes; the figure grows by that much.
    style.caption(axes, about(curves), bars_text(curves, "Bars"), pad=24)
    figure = style.figure_of(axes)
    figure.set_figheight(figure.get_figheight() + _CAPTION)
    return axes


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
        "corruption-gain": Figure(lambda study: "heterogeneity" in study.tables, corruption_gain),
        **{
            f"corruption-gain-{against.replace('_', '-')}": Figure(
                lambda study: "heterogeneity" in study.tables and SIGNED in study.metrics,
                partial(corruption_gain, against=against),
            )
            for against in ("raw_gap", "baseline_gap")
        },
        "k-ablation": Figure(
            lambda study: (
                "means" in study.tables
                and all(entry.options.get("n_groups") for entry in study.entries)
            ),
            k_ablation,
        ),
        "group-temperatures": Figure(
            _with_table("temperatures", "audit"), group_temperatures, of_metric=False
        ),
        "within-margin": Figure(_with_table("within-margin"), within_margin),
        "risk-density": Figure(_with_table("ranking"), risk_density, of_metric=False),
        "risk-confidence": Figure(_with_table("ranking"), risk_confidence, of_metric=False),
        "group-gaps": Figure(_with_table("group-gaps"), group_gaps, of_metric=False),
        "risk-flow": Figure(_with_table("flow"), risk_flow, of_metric=False),
        "differences": Figure(lambda study: "differences" in study.tables, _differences),
    }
)


def study_figures(
    study: Study, frame: Frame, *, metric: str | None = None
) -> Iterator[tuple[str, Callable[[], Axes]]]:
    """Yield the name of each figure that a study allows, and what draws it.

    Figures that are not of all budgets are drawn once for each, and say so in their names.

    Parameters
    ----------
    study : Study
    frame : Frame
        The rows of its run.
    metric : str, optional
        The study's first unless it is given.

    Raises
    ------
    InputError
        If the study has no figures, or the metric was not measured.

    Examples
    --------
    >>> from smallcal_lab.studies import study_named
    >>> [name for name, figure in FIGURES.items() if figure.suits(study_named("budget"))]
    ['budget-curve', 'differences']
    """
    fitting = {name: figure for name, figure in FIGURES.items() if figure.suits(study)}
    if not fitting:
        raise InputError(f"the study {study.name!r} has no figures; its tables say all there is")
    run = open_run((study, frame), study.name, metric=metric)
    budgets = run.frame.unique("budget")
    for name, figure in fitting.items():
        for budget in [None] if figure.all_budgets else budgets:
            where = {} if budget is None else {"budget": budget}
            told = len(budgets) > 1 and budget is not None
            suffix = f"-{'all' if budget == ALL else budget}" if told else ""
            what = {"metric": run.metric} if figure.of_metric else {}
            yield name + suffix, partial(figure.draw, (study, frame), **what, where=where)
