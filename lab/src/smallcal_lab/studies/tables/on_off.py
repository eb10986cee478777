"""Tables of the gate: whether the calibration split tells in which cells routing helps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from smallcal.data.predictions import FloatArray
from smallcal.metrics.units import SHARE, X100
from smallcal_lab.studies.frame import CLEAN, Frame, Values
from smallcal_lab.studies.study import Study
from smallcal_lab.studies.tables.clean import LEVEL, paired
from smallcal_lab.studies.tables.shift import rank_interval
from smallcal_lab.studies.tables.table import Number, Row, Table, title_of, unit_of

#: What is known of a candidate before it is used: its gain on left-out samples of the calibration
#: split, and how far its temperatures lie apart.
PROMISED, T_RATIO = "predicted gain", "T ratio"


@dataclass(frozen=True)
class _Unit:
    """A model at a budget: what its calibration split says of a candidate, and what came of it.

    Attributes
    ----------
    samples, model, rich : str
    criteria : dict
        Name to value: the cross-validated gain, and how far the groups' temperatures lie apart.
    gains : dict
        Metric to what the candidate gains on the test split; negative where it loses.
    """

    samples: str
    model: str
    rich: str
    criteria: dict[str, float]
    gains: dict[str, float]


def _units(study: Study, frame: Frame) -> list[_Unit]:
    named = {PROMISED: f"gain_{study.settings['rules'][0]}", T_RATIO: "temperature_ratio"}
    found = []
    for samples, model, part in frame.where(set=CLEAN).models():
        for rich in part.unique("label"):
            criteria = {name: _mean(part.values(metric, rich)) for name, metric in named.items()}
            gains = {m: -_mean(paired(part, m, rich, study.baseline)) for m in study.metrics}
            if rich != study.baseline and not math.isnan(gains[study.metrics[0]]):
                found.append(_Unit(samples, model, rich, criteria, gains))
    return found


def _mean(values: Values) -> float:
    """Return the mean over cells of the means over draws."""
    means = [float(np.mean(draws)) for draws in values.values()]
    return float(np.mean(means)) if means else math.nan


def on_off(study: Study, frame: Frame) -> Table:
    """Show cell by cell what the calibration split says of routing, and what routing gave."""
    units = sorted(_units(study, frame), key=lambda unit: -unit.gains[study.metrics[0]])
    names = list(units[0].criteria) if units else []
    return Table(
        "on-off",
        "Predicted and actual gains",
        (
            *("samples", "models", "candidate", "outcome"),
            *(_heading(name) for name in names),
            *(unit_of(m).heading(f"{title_of(m)} gain", difference=True) for m in study.metrics),
        ),
        tuple(
            (unit.samples, unit.model, unit.rich, _outcome(study, unit), *_numbers(unit))
            for unit in units
        ),
        "A cell is a model at a budget; means over seeds and draws. Known "
        "beforehand: the predicted "
        f"gain, cross-validated, in {title_of(study.settings['loss'])}, and the highest "
        f"temperature over the lowest. The gains over {study.baseline} on the test split are not. "
        f"In order of the {title_of(study.metrics[0])} gain.",
    )


def _heading(criterion: str) -> str:
    return criterion if criterion == T_RATIO else X100.heading(criterion, difference=True)


def _outcome(study: Study, unit: _Unit) -> str:
    gain = unit.gains[study.metrics[0]]
    return "wins" if gain > 0 else "loses" if gain < 0 else "tie"


def _numbers(unit: _Unit) -> Iterator[Number]:
    for name, value in unit.criteria.items():
        # A gain of a few groups is small: one digit more than tables have.
        yield Number(value) if name == T_RATIO else Number(X100.scale * value, digits=3)
    for metric, gain in unit.gains.items():
        own = unit_of(metric)
        yield Number(own.scale * gain, digits=own.digits)


def gate(study: Study, frame: Frame) -> Table:
    """Show how well each criterion ranks the cells, and whether any threshold tells them apart."""
    units = _units(study, frame)
    found: list[Row] = []
    sentences: list[str] = []
    for rich in dict.fromkeys(unit.rich for unit in units):
        own = [unit for unit in units if unit.rich == rich]
        for name in own[0].criteria:
            for metric in study.metrics:
                known = [
                    u
                    for u in own
                    if math.isfinite(u.criteria[name] + u.gains.get(metric, math.nan))
                ]
                found.append((rich, name, metric, f"{len(known):,}", *_ranked(known, name, metric)))
            sentences += _twins(own, name, study.metrics[0])
    return Table(
        "gate",
        "Does a threshold separate wins from losses",
        (
            *("candidate", "criterion", "gain in", "cells", "separates"),
            *("rank correlation", "p", "winners above all losers", "right at the best threshold %"),
        ),
        tuple(found),
        f"Over cells (a model at a budget): Spearman's rank correlation of the criterion with the "
        f"gain on the test split, {100 * LEVEL:g} % interval, and p of no correlation. Separates: "
        "whether a threshold puts all cells that win on one side and all that lose on the other. "
        "The best threshold is chosen with the outcomes known.",
        tuple(sentences),
    )


def _ranked(units: Sequence[_Unit], name: str, metric: str) -> Iterator[str | Number]:
    """Yield whether a threshold separates the cells, the correlation, p, and two counts."""
    x = np.array([unit.criteria[name] for unit in units])
    gain = np.array([unit.gains[metric] for unit in units])
    win, lose = x[gain > 0], x[gain < 0]
    both = bool(len(win) and len(lose))
    if both:
        yield "yes" if win.min() > lose.max() else "no"
    else:
        yield "one outcome only"
    rho, low, high = rank_interval(x, gain)
    yield Number(rho) if math.isnan(low) else Number(rho, None, low, high)
    defined = not math.isnan(rho)
    yield Number(float(scipy.stats.spearmanr(x, gain).pvalue) if defined else math.nan, digits=3)
    if not both:
        yield from (Number(math.nan), Number(math.nan))
        return
    yield Number(int((win > lose.max()).sum()), of=len(win))
    yield Number(SHARE.scale * _best_share(win, lose), digits=SHARE.digits)


def _best_share(win: FloatArray, lose: FloatArray) -> float:
    """Return the largest share of cells that "route from this value on" gets right.

    Examples
    --------
    >>> _best_share(np.array([1.0, 3.0, 4.0]), np.array([2.0]))
    0.75
    """
    cuts = (*win, *lose, math.inf)
    right = max(int((win >= cut).sum()) + int((lose < cut).sum()) for cut in cuts)
    return right / (len(win) + len(lose))


def _twins(units: Sequence[_Unit], name: str, metric: str) -> Iterator[str]:
    """Name the winner and the loser that the criterion puts in the wrong order most nearly."""
    pairs = [
        (abs(a.criteria[name] - b.criteria[name]), i, j)
        for i, a in enumerate(units)
        for j, b in enumerate(units)
        if a.gains[metric] > 0 > b.gains[metric] and a.criteria[name] <= b.criteria[name]
    ]
    if not pairs:
        return
    _, i, j = min(pairs)
    unit = unit_of(metric)
    said = (
        f"{one.model} at {one.samples} samples ({unit.number(one.gains[metric], signed=True)} "
        f"{unit.change})"
        for one in (units[i], units[j])
    )
    yield (
        f"No threshold on the {name} separates {' from '.join(said)}: the cell that loses in "
        f"{title_of(metric)} does not have the lower value."
    )
