"""What a method gains under each corruption, against how wrong or how sure others are there."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from smallcal.data.predictions import FloatArray
from smallcal.errors import InputError, choose
from smallcal.metrics.units import written
from smallcal.plots import style
from smallcal.plots.twins import draws
from smallcal_lab.plots.curves import fitted_on
from smallcal_lab.plots.run import Run, RunLike, name_in, one_budget, open_run, require_one_of
from smallcal_lab.studies.catalogue import study_named
from smallcal_lab.studies.tables.clean import LEVEL
from smallcal_lab.studies.tables.shift import (
    SIGNED,
    gap_heading,
    heterogeneity,
    rank_interval,
    rank_words,
)
from smallcal_lab.studies.tables.table import Number, Row, Table, heading_of

#: Names are written beside the points of a single model with no more corruptions than these.
_MOST_NAMES = 20
#: What gains may be drawn against, and its name in words.
AGAINST = {"error": "error", "raw_gap": "gap", "baseline_gap": "gap"}
#: The most models that get a mark and a line in the legend each.
_MOST_MODELS = 8


@dataclass(frozen=True, eq=False)
class ModelGain:
    """The corruptions of one model, in order of the raw error.

    Attributes
    ----------
    model : str
    corruptions : tuple of str
    x : ndarray
        What the gains are drawn against: the uncalibrated model's error, or a signed gap.
    gain : ndarray
        Of the method over the baseline, positive where the method is better.
    rank : tuple of float
        Spearman's rank correlation of both, with its 95 % interval; NaN where it does not exist.
    slope, intercept : float
        The median line of Theil and Sen through the points.
    """

    model: str
    corruptions: tuple[str, ...]
    x: FloatArray
    gain: FloatArray
    rank: tuple[float, float, float]
    slope: float
    intercept: float


@dataclass(frozen=True, eq=False)
class CorruptionGains:
    """What a method gains over the baseline, corruption by corruption, model by model.

    ``against`` says what ``x`` of the models is, and ``axis`` how that is called.
    """

    metric: str
    unit: str
    method: str
    baseline: str
    raw: str
    models: tuple[ModelGain, ...]
    fitted: str = ""
    against: str = "error"
    axis: str = ""


def corruption_gain_data(
    run: RunLike,
    *,
    metric: str | None = None,
    method: str | None = None,
    baseline: str | None = None,
    against: str = "error",
    where: Mapping[str, Any] | None = None,
) -> CorruptionGains:
    """Return the gain of a method under each corruption and what it is drawn against.

    The numbers are those of the table ``heterogeneity``: means over severities, draws and seeds.
    Rows alone are taken to be of the study ``heterogeneity``.

    Parameters
    ----------
    against : {"error", "raw_gap", "baseline_gap"}
        The uncalibrated model's error, as the paper has it; or the signed gap, mean confidence
        minus accuracy, of the uncalibrated model or of the baseline.
    method : str, optional
        Whose gain it is; the study's own unless it is given.
    baseline : str, optional
        Over whom; the study's own unless it is given.

    Raises
    ------
    InputError
        If nothing is shifted, or the uncalibrated model or the gap was not measured.
    """
    if against not in AGAINST:
        raise InputError(f"unknown against {against!r}; {choose(against, AGAINST)}")
    opened = open_run(run, "heterogeneity", metric=metric, baseline=baseline, where=where)
    opened = _with_method(one_budget(opened), method)
    study = opened.study
    table = heterogeneity(study, opened.frame)
    if not table.rows:
        raise InputError("run has no shifted sets; the study heterogeneity measures them")
    raw = study.settings["raw"]
    x = f"{raw} {heading_of(opened.metric)}"
    axis = f"{raw}: {heading_of(opened.metric)}"
    if against != "error":
        x = gap_heading(raw if against == "raw_gap" else study.baseline)
        axis = f"{x}: mean confidence minus accuracy, points"
    if x not in table.header:
        raise InputError(f"run has no {SIGNED} of {x.removeprefix('gap of ')}: measure it there")
    return CorruptionGains(
        opened.metric,
        heading_of(opened.metric),
        study.settings["gain_of"],
        study.baseline,
        raw,
        tuple(_models(table, x, f"gain over {study.baseline}")),
        fitted_on(opened.frame),
        against,
        axis,
    )


def _with_method(opened: Run, method: str | None) -> Run:
    """Return the run with a study that says whose gain it is; those of shifts do not."""
    study = opened.study
    settings = {**study_named("heterogeneity").settings, **study.settings}
    settings |= {"rivals": (study.baseline,)}
    if method is not None:
        settings["gain_of"] = name_in(opened.labels, method)
    require_one_of("method", settings["gain_of"], opened.labels)
    require_one_of("the uncalibrated model", settings["raw"], opened.labels)
    return replace(opened, study=replace(study, settings=settings))


def _models(table: Table, x: str, y: str) -> Iterator[ModelGain]:
    """Yield each model's points from these two columns of the table."""
    rows: dict[str, list[Row]] = {}
    for row in table.rows:
        rows.setdefault(str(row[table.header.index("models")]), []).append(row)
    places = [table.header.index(name) for name in (x, y)]
    for model, some in rows.items():
        across, gain = (
            np.array([cell.value for row in some if isinstance(cell := row[place], Number)])
            for place in places
        )
        kinds = tuple(str(row[table.header.index("corruption")]) for row in some)
        rank = rank_interval(gain, across)
        yield ModelGain(model, kinds, across, gain, rank, *_median_line(across, gain))


def _median_line(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    from scipy.stats import theilslopes

    if len(x) < 3 or np.ptp(x) == 0:
        return math.nan, math.nan
    found = theilslopes(y, x)
    return float(found.slope), float(found.intercept)


@draws(corruption_gain_data)
def corruption_gain(ax: style.Axes, found: CorruptionGains) -> None:
    """Draw the gain of a method under each corruption against how wrong or how sure others are.

    Against the uncalibrated model's error a correlation says as much about that model as about
    the method: its sign turns with the side on which that model errs. A signed gap has a side.

    Points above the dashed line favour the method. The legend has Spearman's rank correlation of
    each model with its 95 % interval; the line through the points is that of Theil and Sen. With
    many models all points look the same, and the title has the median correlation. Rows alone are
    taken to be of the study ``heterogeneity``.
    """
    ax.axhline(0, **style.REFERENCE)
    few = len(found.models) <= _MOST_MODELS
    for i, model in enumerate(found.models):
        _draw_model(ax, found, model, style.look(i if few else 0), named=few)
    if len(found.models) == 1 and len(found.models[0].corruptions) <= _MOST_NAMES:
        _write_names(ax, found.models[0])
    style.dress(
        ax,
        xlabel=found.axis,
        ylabel=f"gain of {found.method} over {found.baseline}",
    )
    if not few:
        style.caption(ax, _together(found))
    style.legend(
        ax,
        loc="lower left",
        bbox_to_anchor=(0, 1.01),
        borderaxespad=0.0,
        title=style.literal("\n".join(filter(None, [_about(found), _ranks(found)]))),
        title_fontsize=style.SMALL,
        alignment="left",
    )


def _draw_model(
    ax: style.Axes, found: CorruptionGains, model: ModelGain, look: style.Look, *, named: bool
) -> None:
    of, signed = f"{found.raw} {found.unit}", found.against != "error"
    if signed:
        of = gap_heading(found.raw if found.against == "raw_gap" else found.baseline)
    tips = [
        f"{model.model}, {kind}: {of} {written(x, signed=signed)}, gain "
        f"{written(gain, signed=True)}"
        for kind, x, gain in zip(model.corruptions, model.x, model.gain, strict=True)
    ]
    label = style.literal(f"{model.model}: {rank_words(*model.rank)}") if named else None
    plot = f"corruption-gain {model.model}"
    style.marks(ax, model.x, model.gain, look, label=label, zorder=3, tips=tips, name=plot)
    if named and math.isfinite(model.slope):
        ends = np.array([model.x.min(), model.x.max()])
        ax.plot(ends, model.intercept + model.slope * ends, **look.stroke, linewidth=1, zorder=2)


def _write_names(ax: style.Axes, model: ModelGain) -> None:
    for kind, x, gain in zip(model.corruptions, model.x, model.gain, strict=True):
        ax.annotate(
            style.literal(kind.replace("_", " ")),
            (x, gain),
            xytext=(5, 4),
            textcoords="offset points",
            fontsize=7,
            color=style.GREY,
        )


def _ranks(found: CorruptionGains) -> str:
    """Say what the numbers beside the models are."""
    return f"rank correlation of gain and {AGAINST[found.against]} [{100 * LEVEL:g} % interval]"


def _about(found: CorruptionGains) -> str:
    """Say how many models there are, and on how many samples methods were fitted."""
    n = len(found.models)
    return "; ".join(filter(None, [f"{n} model{'s' if n > 1 else ''}", found.fitted]))


def _together(found: CorruptionGains) -> str:
    ranks = np.array([model.rank[0] for model in found.models])
    known = ranks[np.isfinite(ranks)]
    text = _about(found)
    if len(known):
        low, middle, high = np.quantile(known, [0, 0.5, 1])
        text += f"; rank correlations {low:+.2f} to {high:+.2f}, median {middle:+.2f}"
    return text
