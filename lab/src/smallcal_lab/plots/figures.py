"""Which figures a study allows: ``FIGURES`` is the only list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from inspect import signature
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from smallcal.errors import InputError
from smallcal.metrics import METRICS
from smallcal.plots import style
from smallcal.plots.forest_plot import forest
from smallcal_lab import plots
from smallcal_lab.plots.curves import curves_of
from smallcal_lab.plots.given import Where, clean, open_run
from smallcal_lab.studies.frame import ALL, Frame
from smallcal_lab.studies.study import Study
from smallcal_lab.studies.tables.shift import SIGNED
from smallcal_lab.studies.tables.table import better_of, heading_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Figure(NamedTuple):
    """How a figure is drawn, of studies that have one of its tables and suit it besides.

    It is drawn for each budget, unless it has ``all_budgets``.
    """

    draw: Callable[..., Axes]
    tables: tuple[str, ...]
    also: Callable[[Study], bool] = lambda study: True
    all_budgets: bool = False

    def suits(self, study: Study) -> bool:
        """Return whether a study has this figure."""
        return not set(self.tables).isdisjoint(study.tables) and self.also(study)


def _differences(
    run: tuple[Study, Frame], *, metric: str | None = None, where: Where = None
) -> Axes:
    """Draw the rows of differences as a forest, with what they are of above its legend."""
    rows = plots.difference_rows(run, metric=metric, where=where)
    if not rows:
        raise InputError("no difference has an interval: each is of a single fit")
    opened = clean(open_run(run, "clean", metric=metric, where=where))
    axes, curves = forest(rows, better=better_of(opened.metric)), curves_of(opened)
    label = f"{heading_of(opened.metric, difference=True)}, minus {run[0].baseline}"
    axes.set_xlabel(style.literal(label))
    style.caption(axes, curves.about, curves.bars_text("Bars"), pad=24)
    figure = style.figure_of(axes)
    figure.set_figheight(figure.get_figheight() + 0.6)  # inches, for these lines
    return axes


def _signed(study: Study) -> bool:
    return SIGNED in study.metrics


def _gain(against: str) -> Callable[..., Axes]:
    return partial(plots.corruption_gain, against=against)


#: Every figure of studies by the name of its file.
FIGURES: Mapping[str, Figure] = MappingProxyType(
    {
        "budget-curve": Figure(
            plots.budget_curve, ("means",), lambda study: len(study.budgets) > 1, all_budgets=True
        ),
        "severity-curve": Figure(
            plots.severity_curve, ("severity",), lambda study: study.metrics[0] in METRICS
        ),
        "corruption-gain": Figure(plots.corruption_gain, ("heterogeneity",)),
        "corruption-gain-raw-gap": Figure(_gain("raw_gap"), ("heterogeneity",), _signed),
        "corruption-gain-baseline-gap": Figure(_gain("baseline_gap"), ("heterogeneity",), _signed),
        "k-ablation": Figure(
            plots.k_ablation,
            ("means",),
            lambda study: all(entry.options.get("n_groups") for entry in study.entries),
        ),
        "group-temperatures": Figure(plots.group_temperatures, ("temperatures", "audit")),
        "within-margin": Figure(plots.within_margin, ("within-margin",)),
        "risk-density": Figure(plots.risk_density, ("ranking",)),
        "risk-confidence": Figure(plots.risk_confidence, ("ranking",)),
        "group-gaps": Figure(plots.group_gaps, ("group-gaps",)),
        "risk-flow": Figure(plots.risk_flow, ("flow",)),
        "differences": Figure(_differences, ("differences",)),
    }
)


def study_figures(
    study: Study, frame: Frame, *, metric: str | None = None
) -> Iterator[tuple[str, Callable[[], Axes]]]:
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
        what = {"metric": run.metric} if "metric" in signature(figure.draw).parameters else {}
        for budget in [None] if figure.all_budgets else budgets:
            where = {} if budget is None else {"budget": budget}
            told = len(budgets) > 1 and budget is not None
            suffix = f"-{'all' if budget == ALL else budget}" if told else ""
            yield name + suffix, partial(figure.draw, (study, frame), **what, where=where)
