"""Tables of scope: in which cells a method wins, ties or loses, and regime by regime."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from smallcal.statistics.interval import Interval
from smallcal_lab.statistics.nested import tiers
from smallcal_lab.studies.frame import Frame
from smallcal_lab.studies.study import Study
from smallcal_lab.studies.tables.clean import (
    LEVEL,
    better_of,
    intervals_text,
    is_bare,
    models_of,
    number_of,
    one_seed,
    over_models,
    paired,
    shown,
)
from smallcal_lab.studies.tables.selection import lowest
from smallcal_lab.studies.tables.shift import SHIFTED, cube, sets_of
from smallcal_lab.studies.tables.table import Number, Row, Table, title_of, unit_of

WINS, TIE, LOSES = "wins", "tie", "loses"


@dataclass(frozen=True)
class Outcome:
    """How a method stands in one cell of the map.

    Attributes
    ----------
    samples, dataset, backbone, set, metric : str
    means : dict
        Label to mean, in the units of tables; higher is better where the metric says so.
    gaps : dict
        Rival to the difference, ours minus theirs, with its interval.
    """

    samples: str
    dataset: str
    backbone: str
    set: str
    metric: str
    means: dict[str, float]
    gaps: dict[str, Interval | None]

    @property
    def sign(self) -> float:
        """-1 for a metric that is better when it is higher."""
        return -1.0 if better_of(self.metric) == "higher" else 1.0

    @property
    def best(self) -> str:
        """The method with the best mean."""
        return lowest({label: self.sign * mean for label, mean in self.means.items()})

    @property
    def lead(self) -> float:
        """How far the next is behind the best, in the units of tables."""
        ordered = sorted(self.sign * mean for mean in self.means.values() if math.isfinite(mean))
        return ordered[1] - ordered[0] if len(ordered) > 1 else math.nan

    def ahead(self, rival: str) -> bool:
        """Whether our mean is strictly better, chance or not."""
        gap = self.gaps[rival]
        return gap is not None and self.sign * gap.point < 0

    def against(self, rival: str) -> str:
        """Return "wins", "loses" or "tie"; without an interval "ahead" or "behind"."""
        gap = self.gaps[rival]
        if gap is None:
            return "unknown"
        if is_bare(gap):
            return "ahead" if self.ahead(rival) else "behind"
        word = gap.verdict("higher" if self.sign < 0 else "lower")
        return {"better": WINS, "worse": LOSES}.get(word, TIE)


def outcomes(study: Study, frame: Frame) -> Iterator[Outcome]:
    """Yield every cell of the map: each model, clean and shifted, in each metric."""
    ours = study.settings["gain_of"]
    for (_, dataset, backbone), part in frame.groups("budget", "dataset", "backbone"):
        for name, rows in sets_of(part):
            labels = rows.unique("label")
            rivals = [r for r in study.settings["rivals"] if r in labels and ours in labels]
            for metric in rows.measured(study.metrics):
                means = {label: number_of(rows.values(metric, label), metric) for label in labels}
                yield Outcome(
                    part.samples,
                    dataset,
                    backbone,
                    name,
                    metric,
                    {label: number.value for label, number in means.items()},
                    {rival: _gap(study, rows, name, metric, (ours, rival)) for rival in rivals},
                )


def _gap(
    study: Study, rows: Frame, name: str, metric: str, pair: tuple[str, str]
) -> Interval | None:
    """Return the difference of two labels: seeds and draws resampled, or seeds and shifted sets."""
    if name == SHIFTED:
        values, _ = cube(rows, metric, *pair)
        if values is None:
            return None
        *_, whole = tiers(values, n_boot=study.n_boot, level=LEVEL).values()
        return whole
    return over_models(models_of(rows, paired(rows, metric, *pair)), study, single=True)


def scope_map(study: Study, frame: Frame) -> Table:
    """Show for every model which method is best, and how ours stands against its rivals."""
    found: list[Row] = []
    for one in outcomes(study, frame):
        about = (
            one.samples,
            f"{one.dataset} {one.backbone}",
            one.set,
            title_of(one.metric),
            one.best,
        )
        lead = Number(one.lead, digits=unit_of(one.metric).digits)
        found += [
            (*about, rival, one.against(rival), lead, shown(gap, one.metric))
            for rival, gap in one.gaps.items()
        ]
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
        blocks: dict[tuple[str, str, str], list[Outcome]] = {}
        for dataset in (*datasets, *(["all"] if len(datasets) > 1 else [])):
            for one in every:
                if dataset in (one.dataset, "all"):
                    blocks.setdefault((dataset, one.set, one.metric), []).append(one)
        for (dataset, name, metric), own in blocks.items():
            samples = part.samples if dataset == "all" else part.where(dataset=dataset).samples
            found += [
                (samples, dataset, name, title_of(metric), *counts) for counts in _counted(own)
            ]
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
    best = Counter(one.best for one in own)
    named = ", ".join(f"{label} {count}" for label, count in best.most_common())
    leads = [one.lead for one in own if math.isfinite(one.lead)]
    widest = Number(max(leads, default=math.nan), digits=unit_of(own[0].metric).digits)
    for rival in own[0].gaps:
        there = [one for one in own if rival in one.gaps]
        words = Counter(one.against(rival) for one in there)
        ahead = Number(sum(one.ahead(rival) for one in there), of=len(there))
        yield (
            f"{len(own):,}",
            named,
            rival,
            f"{words[WINS]} / {words[TIE]} / {words[LOSES]}",
            ahead,
            widest,
        )
