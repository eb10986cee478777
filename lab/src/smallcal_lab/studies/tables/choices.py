"""Tables of choices and of scope.

What the calibration split picks, what that gives and costs; where a method wins, and whether that
could be told beforehand.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import scipy

from smallcal.advice.select_walk import ROUNDING
from smallcal.calibrators.catalogue import method
from smallcal.data.predictions import FloatArray
from smallcal.metrics.units import PERCENT, SHARE, X100, written
from smallcal.statistics.interval import Interval
from smallcal_lab.statistics.nested import tiers
from smallcal_lab.studies.frame import CLEAN, Frame, Values
from smallcal_lab.studies.study import Study
from smallcal_lab.studies.tables.clean import (
    LEVEL,
    intervals_text,
    is_bare,
    mean_number,
    models_of,
    number_of,
    one_seed,
    over_models,
    paired,
    shown,
    table_of,
)
from smallcal_lab.studies.tables.shift import SHIFTED, WHOLE, cube, rank_interval, sets_of
from smallcal_lab.studies.tables.table import (
    Number,
    Row,
    Table,
    better_of,
    heading_of,
    title_of,
    unit_of,
)

#: From which difference on a candidate helps or hurts a model: 0.2 points.
MARGIN = 0.002


def fits_of(frame: Frame, metric: str) -> Any:
    """Return a pandas.DataFrame: a row for each fit, by cell and draw, a column for each label.

    A fit that was measured on several sets has the mean over them.
    """
    rows = frame.where(metric=metric).data.set_index(["cell", "draw"])
    means = rows.groupby(["cell", "draw", "label"])["value"].mean().unstack("label")
    return means.reindex(index=rows.index.unique(), columns=rows["label"].unique())


def lowest(line: Mapping[str, float]) -> str:
    """Return the label of the lowest value; one that is lower by rounding alone is not.

    Examples
    --------
    >>> lowest({"K=1": 0.02, "K=3": 0.01, "K=5": 0.01})
    'K=3'
    """
    best = ""
    for label, value in line.items():
        if math.isfinite(value) and (not best or value < line[best] - ROUNDING):
            best = label
    return best


def picks_text(picks: Any) -> str:
    """Return which label was chosen in each fit, a pandas.Series: seed by seed, or how often."""
    if picks.index.get_level_values("cell").nunique() == len(picks) <= 5:
        return " / ".join(picks)
    return ", ".join(f"{label}: {count}" for label, count in sorted(Counter(picks).items()))


def number_over(fits: Any, metric: str) -> Number:
    """Return mean and spread of a metric over fits, a pandas.Series."""
    return mean_number(fits[np.isfinite(fits)].groupby("cell", sort=False).mean(), metric)


# What rules cost --------------------------------------------------------------------------------

#: What a choice gives: the baseline, the candidate, the picks, the best picks.
_GIVEN = ("base", "rich", "picked", "best")


def _choice(study: Study, taken: Frame, measured: Frame, rich: str, policy: str) -> Any:
    """Return a row for each fit: what a policy took, what was better, what each gives.

    A rule's picks are in ``taken``; what is better is not known beforehand.
    """
    base = study.baseline
    found = fits_of(measured, study.metrics[0]).reindex(columns=[base, rich]).dropna()
    found = found.set_axis(["base", "rich"], axis=1)
    took: Any = policy == rich
    if policy not in (base, rich):
        accepted = fits_of(taken, f"accepted_{policy}").reindex(columns=[rich])[rich].dropna()
        found = found[found.index.isin(accepted.index)]
        took = accepted[found.index].astype(bool)
    found = found.assign(took=took, better=found["rich"] < found["base"] - ROUNDING)
    picked, best = (found["rich"].where(found[one], found["base"]) for one in ("took", "better"))
    return found.assign(picked=picked, best=best)


def _candidates(study: Study) -> list[str]:
    return [entry.label for entry in study.entries if entry.label != study.baseline]


def selector(study: Study, frame: Frame) -> Table:
    """Show which entry each rule picks, what that gives, and what the best pick would give."""
    base, metric = study.baseline, study.metrics[0]
    found: list[Row] = []
    for budget, models, part in frame.blocks():
        for name, own in sets_of(part):
            for rich in _candidates(study):
                for rule in study.settings["rules"]:
                    made = _choice(study, part, own, rich, rule)
                    if len(made):
                        picks = picks_text(made["took"].map({True: rich, False: base}))
                        numbers = [number_over(made[given], metric) for given in _GIVEN]
                        excess = Number(numbers[2].value - numbers[3].value)
                        found.append((budget, models, name, rich, rule, picks, *numbers, excess))
    return table_of("selector", study, found)


def regret(study: Study, frame: Frame) -> Table:
    """Show what each rule costs beside always taking one: over models, and in the worst fit."""
    base, unit = study.baseline, unit_of(study.metrics[0])
    margin = study.settings.get("margin", MARGIN)
    found: list[Row] = []
    for _, part in frame.groups("budget"):
        # By set: the rows of each model; of all sets, clean and shifted ones of a model apart.
        regimes = {name: [rows for *_, rows in own.models()] for name, own in sets_of(part)}
        if len(regimes) > 1:
            regimes["all"] = [own for *_, rows in part.models() for _, own in sets_of(rows)]
        for name, each in regimes.items():
            for rich in _candidates(study):
                for policy in (*study.settings["rules"], base, rich):
                    made = [_choice(study, part, rows, rich, policy) for rows in each]
                    if models := [one for one in made if len(one)]:
                        said = f"always {policy}" if policy in (base, rich) else policy
                        costs = _costs(models, study.metrics[0], unit.scale * margin)
                        found.append((part.samples, name, rich, said, *costs))
    return table_of("regret", study, found, margin=unit.size(margin))


def _costs(models: Sequence[Any], metric: str, margin: float) -> Iterator[str | Number]:
    unit = unit_of(metric)
    means = [[number_over(made[given], metric).value for given in _GIVEN] for made in models]
    base, rich, picked, best = np.array(means).T
    regrets = np.concatenate([unit.scale * (made["picked"] - made["best"]) for made in models])
    yield f"{len(models):,}"
    yield f"{len(regrets):,}"
    for cost in ((picked - best).mean(), regrets.mean(), regrets.max()):
        yield Number(float(cost), digits=unit.digits)
    # The picks follow where their mean is nearer to the candidate's than to the other's.
    gain, follows = base - rich, abs(base - picked) > abs(base - rich) / 2
    yield Number(int(follows[gain > margin].sum()), of=int((gain > margin).sum()))
    yield Number(int((~follows)[-gain > margin].sum()), of=int((-gain > margin).sum()))
    wrong = np.concatenate([made["took"][~made["better"]] for made in models])
    yield Number.in_units(float(wrong.mean()) if len(wrong) else math.nan, SHARE)


# One of several numbers of groups ---------------------------------------------------------------


def nested_k(study: Study, frame: Frame) -> Table:
    """Show which entry a held-out fifth picks, and what that gives."""
    loss = study.settings["loss"]
    return _by_choice("nested-k", study, frame, f"held_out_{loss}", loss=title_of(loss))


def oracle_k(study: Study, frame: Frame) -> Table:
    """Show the entry that is best on the test split: a bound, not a method."""
    return _by_choice("oracle-k", study, frame, study.metrics[0])


def _by_choice(name: str, study: Study, frame: Frame, judge: str, **words: str) -> Table:
    """Show what choosing by the lowest ``judge`` gives, beside the baseline and a fixed entry."""
    fixed, metric = study.settings["fixed"], study.metrics[0]
    found: list[Row] = []
    above: list[tuple[float, str]] = []
    for budget, models, part in frame.where(set=CLEAN).blocks():
        labels, judged = part.unique("label"), fits_of(part, judge)
        fits = {m: fits_of(part, m).reindex(judged.index, columns=labels) for m in study.metrics}
        kept = [label for label in (study.baseline, fixed) if label in labels]
        known = fits[metric].notna()
        picks = judged.index.to_series().map(lambda fit, by=judged: lowest(by.loc[fit].to_dict()))
        whole = [one and known.loc[fit, [*kept, one]].all() for fit, one in picks.items()]
        picks = picks[np.array(whole, dtype=bool)]
        for m, own in fits.items():
            values = [own.at[fit, one] for fit, one in picks.items()]
            fits[m] = own.loc[picks.index].assign(chosen=values)
        means: dict[str, float] = {}
        for label in ("chosen", *kept):
            numbers = [number_over(own[label], m) for m, own in fits.items()]
            text = picks_text(picks) if label == "chosen" else ""
            found.append((budget, models, label, text, *numbers))
            means[label] = numbers[0].value
        if models != "all" and fixed in kept and len(picks):
            above.append((means["chosen"] - means[fixed], models))
    said: tuple[str, ...] = ()
    if above:
        ends = (f"{written(gap, signed=True)} ({model})" for gap, model in (min(above), max(above)))
        said = (f"Chosen minus {fixed} in {heading_of(metric)}: from {' to '.join(ends)}.",)
    return table_of(name, study, found, *map(heading_of, study.metrics), said=said, **words)


# What is promised beforehand, and what comes of it ----------------------------------------------

#: What is known of a candidate before it is used: its gain on left-out samples of the calibration
#: split, and how far its temperatures lie apart.
PROMISED, T_RATIO = "predicted gain", "T ratio"


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
    return table_of("signal-to-noise", study, found)


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


#: A model at a budget: its samples, name and candidate, what is known, gains by metric.
_Unit = dict[str, Any]


def _units(study: Study, frame: Frame) -> list[_Unit]:
    named = {PROMISED: f"gain_{study.settings['rules'][0]}", T_RATIO: "temperature_ratio"}
    found = []
    for samples, model, part in frame.where(set=CLEAN).models():
        for rich in part.unique("label"):
            unit = {"samples": samples, "model": model, "rich": rich}
            known = {name: _mean(part.values(metric, rich)) for name, metric in named.items()}
            gains = {m: -_mean(paired(part, m, rich, study.baseline)) for m in study.metrics}
            if rich != study.baseline and not math.isnan(gains[study.metrics[0]]):
                found.append({**unit, **known, **gains})
    return found


def on_off(study: Study, frame: Frame) -> Table:
    """Show cell by cell what the calibration split says of routing, and what routing gave."""
    first = study.metrics[0]
    rows: list[Row] = []
    for unit in sorted(_units(study, frame), key=lambda unit: -unit[first]):
        outcome = "wins" if unit[first] > 0 else "loses" if unit[first] < 0 else "tie"
        # A gain of a few groups is small: one digit more than tables have.
        known = Number.in_units(unit[PROMISED], X100, 3), Number(unit[T_RATIO])
        gains = (Number.in_units(unit[m], unit_of(m)) for m in study.metrics)
        rows.append((unit["samples"], unit["model"], unit["rich"], outcome, *known, *gains))
    heads = (X100.heading(PROMISED, difference=True), T_RATIO) if rows else ()
    gained = (unit_of(m).heading(f"{title_of(m)} gain", difference=True) for m in study.metrics)
    return table_of("on-off", study, rows, *heads, *gained, loss=title_of(study.settings["loss"]))


def gate(study: Study, frame: Frame) -> Table:
    """Show how well each criterion ranks the cells, and whether any threshold tells them apart."""
    units = _units(study, frame)
    found: list[Row] = []
    sentences: list[str] = []
    for rich in dict.fromkeys(unit["rich"] for unit in units):
        own = [unit for unit in units if unit["rich"] == rich]
        for name in (PROMISED, T_RATIO):
            for metric in study.metrics:
                pairs = np.array([(unit[name], unit[metric]) for unit in own])
                x, gain = pairs[np.isfinite(pairs).all(axis=1)].T
                found.append((rich, name, metric, f"{len(x):,}", *_ranked(x, gain)))
            sentences += _twins(own, name, study.metrics[0])
    return table_of("gate", study, found, said=sentences)


def _ranked(x: FloatArray, gain: FloatArray) -> Iterator[str | Number]:
    """Yield whether a threshold separates the cells, the correlation, p, and two counts."""
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
        (abs(a[name] - b[name]), i, j)
        for (i, a), (j, b) in product(enumerate(units), repeat=2)
        if a[metric] > 0 > b[metric] and a[name] <= b[name]
    ]
    if pairs:
        unit = unit_of(metric)
        said = (
            f"{one['model']} at {one['samples']} samples ({unit.number(one[metric], signed=True)} "
            f"{unit.change})"
            for one in (units[i] for i in min(pairs)[1:])
        )
        yield (
            f"No threshold on the {name} separates {' from '.join(said)}: the cell that loses in "
            f"{title_of(metric)} does not have the lower value."
        )


# In which models a method wins ------------------------------------------------------------------


class Outcome(NamedTuple):
    """Which method is best in one cell of the map, how far ahead, and how ours stands.

    ``rivals`` has for each how ours stands, whether it is ahead, if by chance, and the difference.
    """

    samples: str
    dataset: str
    backbone: str
    set: str
    metric: str
    best: str
    lead: Number
    rivals: dict[str, tuple[str, bool, Number]]


def _standing(metric: str, gap: Interval | None) -> tuple[str, bool, Number]:
    """Return "wins", "loses" or "tie"; without an interval "ahead" or "behind"."""
    if gap is None:
        return "unknown", False, Number()
    higher = better_of(metric) == "higher"
    ahead = gap.point > 0 if higher else gap.point < 0
    word = {"better": "wins", "worse": "loses"}.get(gap.verdict("higher" if higher else "lower"))
    if is_bare(gap):
        word = "ahead" if ahead else "behind"
    return word or "tie", ahead, shown(gap, metric)


def outcomes(study: Study, frame: Frame) -> Iterator[Outcome]:
    """Yield every cell of the map: each model, clean and shifted, in each metric."""
    ours = study.settings["gain_of"]
    for (_, dataset, backbone), part in frame.groups("budget", "dataset", "backbone"):
        sets = ((*one, m) for one in sets_of(part) for m in one[1].measured(study.metrics))
        for name, rows, metric in sets:
            labels = rows.unique("label")
            sign = -1.0 if better_of(metric) == "higher" else 1.0
            numbers = {label: number_of(rows.values(metric, label), metric) for label in labels}
            means = {label: sign * number.value for label, number in numbers.items()}
            first, second, *_ = *sorted(filter(math.isfinite, means.values())), *[math.nan] * 2
            lead = Number(second - first, digits=unit_of(metric).digits)
            rivals = {
                rival: _standing(metric, _gap(study, rows, name, metric, (ours, rival)))
                for rival in study.settings["rivals"]
                if {ours, rival} <= set(labels)
            }
            where = (part.samples, dataset, backbone, name, metric)
            yield Outcome(*where, lowest(means), lead, rivals)


def _gap(
    study: Study, rows: Frame, name: str, metric: str, pair: tuple[str, str]
) -> Interval | None:
    """Return the difference of two labels: seeds and draws resampled, or seeds and shifted sets."""
    if name == SHIFTED:
        values, _ = cube(rows, *((metric, label) for label in pair))
        return None if values is None else tiers(values, n_boot=study.n_boot, level=LEVEL)[WHOLE]
    return over_models(models_of(rows, paired(rows, metric, *pair)), study, single=True)


def scope_map(study: Study, frame: Frame) -> Table:
    """Show for every model which method is best, and how ours stands against its rivals."""
    found = [
        (
            *(one.samples, f"{one.dataset} {one.backbone}", one.set, title_of(one.metric)),
            *(one.best, rival, word, one.lead, gap),
        )
        for one in outcomes(study, frame)
        for rival, (word, _, gap) in one.rivals.items()
    ]
    intervals = intervals_text(study, "seeds", "draws")
    return table_of("scope-map", study, found, said=one_seed(frame), intervals=intervals)


def regimes(study: Study, frame: Frame) -> Table:
    """Count bests, wins and losses over the models of each data set, and over all."""
    found: list[Row] = []
    for _, part in frame.groups("budget"):
        every = list(outcomes(study, part))
        datasets = list(dict.fromkeys(one.dataset for one in every))
        for dataset in (*datasets, *(["all"] if len(datasets) > 1 else [])):
            own = [one for one in every if dataset in (one.dataset, "all")]
            samples = part.samples if dataset == "all" else part.where(dataset=dataset).samples
            for name, metric in dict.fromkeys((one.set, one.metric) for one in own):
                words = (samples, dataset, name, title_of(metric))
                block = [one for one in own if (one.set, one.metric) == (name, metric)]
                found += [(*words, *counts) for counts in _counted(block)]
    return table_of("regimes", study, found)


def _counted(own: list[Outcome]) -> Iterator[Row]:
    best = Counter(one.best for one in own)
    named = ", ".join(f"{label} {count}" for label, count in best.most_common())
    widest = max((one.lead for one in own), key=lambda lead: np.nan_to_num(lead.value, nan=-1.0))
    for rival in own[0].rivals:
        standing = [one.rivals[rival] for one in own if rival in one.rivals]
        words = Counter(word for word, *_ in standing)
        counts = " / ".join(str(words[word]) for word in ("wins", "tie", "loses"))
        ahead = Number(sum(ahead for _, ahead, _ in standing), of=len(standing))
        yield f"{len(own):,}", named, rival, counts, ahead, widest
