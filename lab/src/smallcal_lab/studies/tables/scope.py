"""Tables of scope: where a method wins, and whether the calibration split tells beforehand."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from smallcal.calibrators.catalogue import method
from smallcal.metrics.units import PERCENT, SHARE, X100
from smallcal.statistics.interval import Interval
from smallcal_lab.statistics.nested import tiers
from smallcal_lab.studies.frame import CLEAN, Frame, Values
from smallcal_lab.studies.study import Study
from smallcal_lab.studies.tables.choices import lowest
from smallcal_lab.studies.tables.clean import (
    LEVEL,
    intervals_text,
    is_bare,
    models_of,
    number_of,
    one_seed,
    over_models,
    paired,
    shown,
)
from smallcal_lab.studies.tables.shift import SHIFTED, WHOLE, cube, rank_interval, sets_of
from smallcal_lab.studies.tables.table import (
    Number,
    Row,
    Table,
    better_of,
    title_of,
    unit_of,
)

#: What is known of a candidate before it is used: its gain on left-out samples of the calibration
#: split, and how far its temperatures lie apart.
PROMISED, T_RATIO = "predicted gain", "T ratio"


# What is promised beforehand, and what comes of it ----------------------------------------------


def _mean(values: Values) -> float:
    """Return the mean over cells of the means over draws."""
    means = [float(np.mean(draws)) for draws in values.values()]
    return float(np.mean(means)) if means else math.nan


def signal_to_noise(study: Study, frame: Frame) -> Table:
    """Show what grouping by a signal promised, and what it gave."""
    found = [
        (budget, models, label, *_promise(study, part, label))
        for budget, models, part in frame.where(set=CLEAN).blocks()
        for label in part.where(metric="signal_to_noise").unique("label")
    ]
    gains = ("predicted gain", "gain", "ECE gain")
    return Table(
        "signal-to-noise",
        "Signal and noise",
        (
            *("samples", "models", "method", "loss", "ECE outcome"),
            *("B/σ² x1000", "floor x1000", "random x1000", "p"),
            *(X100.heading(name, difference=True) for name in gains),
        ),
        tuple(found),
        "Means over fits (p: the median). B/σ²: variance of the loss's slope between groups over "
        "that within; grouping should lower the fitted loss where it is above its floor, "
        "(K - 1) / n. Gains, of the loss and of ECE, are over one temperature by the same loss "
        "(tva-ts, ts-nll) on the test split. Outcome: wins or loses where ECE is lower or higher "
        "in every seed; the ratio does not guarantee it.",
    )


def _promise(study: Study, part: Frame, label: str) -> Iterator[str | Number]:
    entry = next(entry for entry in study.entries if entry.label == label)
    objective = entry.options.get("objective", method(entry.name).objective)
    # One temperature by the same loss is what groups of it are compared with.
    one, loss = {"bce": ("tva-ts", "top_label_bce"), "nll": ("ts-nll", "nll")}[str(objective)]
    ece, losses = (paired(part, m, label, one) for m in ("ece15", loss))
    yield loss
    signs = {float(np.sign(np.mean(draws))) for draws in ece.values()}
    words = {(): "unknown", (-1.0,): "wins", (1.0,): "loses"}
    yield words.get(tuple(signs), "mixed")
    for metric in ("signal_to_noise", "signal_to_noise_floor", "signal_to_noise_random"):
        yield Number(1000 * _mean(part.values(metric, label)))
    p_values = [p for own in part.values("p_value", label).values() for p in own if p == p]
    yield Number(float(np.median(p_values)) if p_values else math.nan, digits=3)
    # A gain of three groups is small: one digit more than tables have.
    yield Number.in_units(_mean(part.values("predicted_gain", label)), X100, 3)
    yield Number.in_units(-_mean(losses), X100, 3)
    yield Number.in_units(-_mean(ece), PERCENT, 2)


@dataclass(frozen=True)
class _Unit:
    """A model at a budget: what its calibration split says of a candidate, and what it gains.

    ``criteria`` are known beforehand; ``gains``, by metric, are negative where it loses.
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


def on_off(study: Study, frame: Frame) -> Table:
    """Show cell by cell what the calibration split says of routing, and what routing gave."""
    first = study.metrics[0]
    units = sorted(_units(study, frame), key=lambda unit: -unit.gains[first])
    rows: list[Row] = []
    for unit in units:
        gain = unit.gains[first]
        outcome = "wins" if gain > 0 else "loses" if gain < 0 else "tie"
        # A gain of a few groups is small: one digit more than tables have.
        promised = Number.in_units(unit.criteria[PROMISED], X100, 3)
        gains = [Number.in_units(value, unit_of(m)) for m, value in unit.gains.items()]
        words = (unit.samples, unit.model, unit.rich, outcome)
        rows.append((*words, promised, Number(unit.criteria[T_RATIO]), *gains))
    return Table(
        "on-off",
        "Predicted and actual gains",
        (
            *("samples", "models", "candidate", "outcome"),
            *((X100.heading(PROMISED, difference=True), T_RATIO) if units else ()),
            *(unit_of(m).heading(f"{title_of(m)} gain", difference=True) for m in study.metrics),
        ),
        tuple(rows),
        "A cell is a model at a budget; means over seeds and draws. Known "
        "beforehand: the predicted "
        f"gain, cross-validated, in {title_of(study.settings['loss'])}, and the highest "
        f"temperature over the lowest. The gains over {study.baseline} on the test split are not. "
        f"In order of the {title_of(first)} gain.",
    )


def gate(study: Study, frame: Frame) -> Table:
    """Show how well each criterion ranks the cells, and whether any threshold tells them apart."""
    units = _units(study, frame)
    found: list[Row] = []
    sentences: list[str] = []
    for rich in dict.fromkeys(unit.rich for unit in units):
        own = [unit for unit in units if unit.rich == rich]
        for name in (PROMISED, T_RATIO):
            for metric in study.metrics:
                known = [u for u in own if math.isfinite(u.criteria[name] + u.gains[metric])]
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
    separates = "yes" if both and win.min() > lose.max() else "no"
    yield separates if both else "one outcome only"
    rho, low, high = rank_interval(x, gain)
    yield Number(rho) if math.isnan(low) else Number(rho, None, low, high)
    defined = not math.isnan(rho)
    yield Number(float(scipy.stats.spearmanr(x, gain).pvalue) if defined else math.nan, digits=3)
    if not both:
        yield from (Number(), Number())
        return
    yield Number(int((win > lose.max()).sum()), of=len(win))
    # The largest share of cells that "route from this value on" gets right.
    cuts = (*win, *lose, math.inf)
    right = max(int((win >= cut).sum()) + int((lose < cut).sum()) for cut in cuts)
    yield Number.in_units(right / (len(win) + len(lose)), SHARE)


def _twins(units: Sequence[_Unit], name: str, metric: str) -> Iterator[str]:
    """Name the winner and the loser that the criterion puts in the wrong order most nearly."""
    pairs = [
        (abs(a.criteria[name] - b.criteria[name]), i, j)
        for i, a in enumerate(units)
        for j, b in enumerate(units)
        if a.gains[metric] > 0 > b.gains[metric] and a.criteria[name] <= b.criteria[name]
    ]
    if pairs:
        unit = unit_of(metric)
        said = (
            f"{one.model} at {one.samples} samples ({unit.number(one.gains[metric], signed=True)} "
            f"{unit.change})"
            for one in (units[i] for i in min(pairs)[1:])
        )
        yield (
            f"No threshold on the {name} separates {' from '.join(said)}: the cell that loses in "
            f"{title_of(metric)} does not have the lower value."
        )


# In which models a method wins ------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """How a method stands in one cell of the map.

    ``means`` are by label, in the units of tables, with the sign that makes lower ones better;
    ``gaps`` by rival, ours minus theirs, with an interval.
    """

    samples: str
    dataset: str
    backbone: str
    set: str
    metric: str
    means: dict[str, float]
    gaps: dict[str, Interval | None]

    @property
    def lead(self) -> float:
        """How far the next is behind the best, in the units of tables."""
        ordered = sorted(mean for mean in self.means.values() if math.isfinite(mean))
        return ordered[1] - ordered[0] if len(ordered) > 1 else math.nan

    def ahead(self, rival: str) -> bool:
        """Whether our mean is strictly better, chance or not."""
        gap = self.gaps[rival]
        return gap is not None and _sign(self.metric) * gap.point < 0

    def against(self, rival: str) -> str:
        """Return "wins", "loses" or "tie"; without an interval "ahead" or "behind"."""
        gap = self.gaps[rival]
        if gap is None:
            return "unknown"
        if is_bare(gap):
            return "ahead" if self.ahead(rival) else "behind"
        word = gap.verdict("higher" if _sign(self.metric) < 0 else "lower")
        return {"better": "wins", "worse": "loses"}.get(word, "tie")


def _sign(metric: str) -> float:
    return -1.0 if better_of(metric) == "higher" else 1.0


def outcomes(study: Study, frame: Frame) -> Iterator[Outcome]:
    """Yield every cell of the map: each model, clean and shifted, in each metric."""
    ours = study.settings["gain_of"]
    for (_, dataset, backbone), part in frame.groups("budget", "dataset", "backbone"):
        for name, rows in sets_of(part):
            labels = rows.unique("label")
            rivals = [r for r in study.settings["rivals"] if r in labels and ours in labels]
            for metric in rows.measured(study.metrics):
                means = {
                    label: _sign(metric) * number_of(rows.values(metric, label), metric).value
                    for label in labels
                }
                gaps = {rival: _gap(study, rows, name, metric, (ours, rival)) for rival in rivals}
                yield Outcome(part.samples, dataset, backbone, name, metric, means, gaps)


def _gap(
    study: Study, rows: Frame, name: str, metric: str, pair: tuple[str, str]
) -> Interval | None:
    """Return the difference of two labels: seeds and draws resampled, or seeds and shifted sets."""
    if name == SHIFTED:
        values, _ = cube(rows, metric, *pair)
        return None if values is None else tiers(values, n_boot=study.n_boot, level=LEVEL)[WHOLE]
    return over_models(models_of(rows, paired(rows, metric, *pair)), study, single=True)


def scope_map(study: Study, frame: Frame) -> Table:
    """Show for every model which method is best, and how ours stands against its rivals."""
    found: list[Row] = []
    for one in outcomes(study, frame):
        model, best = f"{one.dataset} {one.backbone}", lowest(one.means)
        lead = Number(one.lead, digits=unit_of(one.metric).digits)
        for rival, gap in one.gaps.items():
            words = (one.samples, model, one.set, title_of(one.metric), best, rival)
            found.append((*words, one.against(rival), lead, shown(gap, one.metric)))
    ours = study.settings["gain_of"]
    return Table(
        "scope-map",
        f"Where {ours} wins, ties and loses",
        (
            *("samples", "models", "set", "metric", "best", "against", "outcome"),
            *("lead", "difference"),
        ),
        tuple(found),
        "Best: the method with the lowest mean; lead: how far the next is behind it, in points. "
        f"Difference: {ours} minus the other, in points; it wins or loses where the interval "
        "excludes zero, otherwise it is a tie; ahead or behind if there is only one fit. Clean: "
        f"{intervals_text(study, 'seeds', 'draws')}; shifted: of seeds, of kinds in each, of "
        "severities in each.",
        one_seed(frame),
    )


def regimes(study: Study, frame: Frame) -> Table:
    """Count bests, wins and losses over the models of each data set, and over all."""
    found: list[Row] = []
    for _, part in frame.groups("budget"):
        every = list(outcomes(study, part))
        datasets = list(dict.fromkeys(one.dataset for one in every))
        for dataset in (*datasets, *(["all"] if len(datasets) > 1 else [])):
            blocks: dict[tuple[str, str], list[Outcome]] = {}
            for one in every:
                if dataset in (one.dataset, "all"):
                    blocks.setdefault((one.set, one.metric), []).append(one)
            samples = part.samples if dataset == "all" else part.where(dataset=dataset).samples
            for (name, metric), own in blocks.items():
                words = (samples, dataset, name, title_of(metric))
                found += [(*words, *counts) for counts in _counted(own)]
    ours = study.settings["gain_of"]
    return Table(
        "regimes",
        "Regimes",
        (
            *("samples", "data set", "set", "metric", "models", "best", "against"),
            *("wins / ties / losses", "ahead in", "widest lead"),
        ),
        tuple(found),
        "Over the models of a data set. Best: in how many of them each method has the lowest mean. "
        f"Wins, ties and losses of {ours} are those of the map; models with one fit have none. "
        "Ahead: models where its mean is lower, even if by chance. Widest lead: the "
        "largest lead of the best method over the next, in points.",
    )


def _counted(own: list[Outcome]) -> Iterator[Row]:
    best = Counter(lowest(one.means) for one in own)
    named = ", ".join(f"{label} {count}" for label, count in best.most_common())
    leads = [one.lead for one in own if math.isfinite(one.lead)]
    widest = Number(max(leads, default=math.nan), digits=unit_of(own[0].metric).digits)
    for rival in own[0].gaps:
        there = [one for one in own if rival in one.gaps]
        words = Counter(one.against(rival) for one in there)
        counts = " / ".join(str(words[word]) for word in ("wins", "tie", "loses"))
        ahead = Number(sum(one.ahead(rival) for one in there), of=len(there))
        yield f"{len(own):,}", named, rival, counts, ahead, widest
