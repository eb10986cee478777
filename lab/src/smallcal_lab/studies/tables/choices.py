"""Tables of choices: what the calibration split picks, what that gives, and what it costs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from smallcal.advice.select_walk import ROUNDING
from smallcal.metrics.units import SHARE, written
from smallcal_lab.studies.frame import CLEAN, Frame, Values
from smallcal_lab.studies.study import Study
from smallcal_lab.studies.tables.clean import (
    SPREAD,
    number_of,
)
from smallcal_lab.studies.tables.shift import SHIFTED, sets_of
from smallcal_lab.studies.tables.table import (
    Number,
    Row,
    Table,
    heading_of,
    title_of,
    unit_of,
)

#: A cell and a draw of it.
Fit = tuple[str, int]
#: Every label's value in each fit.
Lines = Mapping[Fit, Mapping[str, float]]
#: From which difference on a candidate helps or hurts a model: 0.2 points.
MARGIN = 0.002


def lines_of(frame: Frame, metric: str) -> Lines:
    """Return a metric by fit and label, fits in order; a mean where a fit has several sets."""
    found: dict[Fit, dict[str, list[float]]] = {}
    rows = frame.where(metric=metric)
    columns = (rows[name].tolist() for name in ("cell", "draw", "label", "value"))
    for cell, draw, label, value in zip(*columns, strict=True):
        found.setdefault((cell, draw), {}).setdefault(label, []).append(value)
    return {
        fit: {label: float(np.mean(values)) for label, values in line.items()}
        for fit, line in found.items()
    }


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


def picks_text(picks: Mapping[Fit, str]) -> str:
    """Return which label was chosen: seed by seed, or how often.

    Examples
    --------
    >>> picks_text({("a", 0): "K=1", ("a", 1): "K=3", ("a", 2): "K=3"})
    'K=1: 1, K=3: 2'
    """
    if len({cell for cell, _ in picks}) == len(picks) <= 5:
        return " / ".join(picks.values())
    counts = sorted(Counter(picks.values()).items())
    return ", ".join(f"{label}: {count}" for label, count in counts)


def chosen_number(lines: Lines, picks: Mapping[Fit, str], metric: str) -> Number:
    """Return mean and spread of a metric over fits, each with the label that was chosen there."""
    values: Values = {}
    for (cell, draw), label in picks.items():
        values.setdefault(cell, []).append(lines[cell, draw][label])
    return number_of(values, metric)


# What rules cost --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """What a policy picked between two entries in each fit, and what either gives."""

    base: str
    rich: str
    lines: Lines
    picks: Mapping[Fit, str]
    metric: str

    @classmethod
    def of(cls, study: Study, taken: Frame, measured: Frame, rich: str, policy: str) -> Choice:
        """Return what a policy chose; a rule's picks are in ``taken``."""
        metric, base = study.metrics[0], study.baseline
        lines = lines_of(measured, metric)
        lines = {fit: line for fit, line in lines.items() if {base, rich} <= set(line)}
        if policy in (base, rich):
            return cls(base, rich, lines, dict.fromkeys(lines, policy), metric)
        accepted = lines_of(taken, f"accepted_{policy}")
        known = [fit for fit in lines if rich in accepted.get(fit, ())]
        picks = {fit: rich if accepted[fit][rich] else base for fit in known}
        return cls(base, rich, lines, picks, metric)

    @property
    def best(self) -> dict[Fit, str]:
        """The better of the two in each fit, which is not known beforehand."""
        pair = (self.base, self.rich)
        return {fit: lowest({k: self.lines[fit][k] for k in pair}) for fit in self.picks}

    def number(self, picks: Mapping[Fit, str] | str) -> Number:
        """Return the metric of picks, or of one label in every fit."""
        chosen = dict.fromkeys(self.picks, picks) if isinstance(picks, str) else picks
        return chosen_number(self.lines, chosen, self.metric)

    @property
    def excess(self) -> float:
        """How far the picks are above the best ones, in the units of tables."""
        return self.number(self.picks).value - self.number(self.best).value

    @property
    def regrets(self) -> list[float]:
        """The same fit by fit."""
        scale, best = unit_of(self.metric).scale, self.best
        return [
            scale * (self.lines[fit][label] - self.lines[fit][best[fit]])
            for fit, label in self.picks.items()
        ]

    @property
    def helps_by(self) -> float:
        """How much lower the candidate's mean is, in the units of tables."""
        return self.number(self.base).value - self.number(self.rich).value

    @property
    def follows(self) -> bool:
        """Whether the picks' mean is nearer to the candidate's than to the other's."""
        picked, base = self.number(self.picks).value, self.number(self.base).value
        return abs(base - picked) > abs(self.helps_by) / 2


def _candidates(study: Study) -> list[str]:
    return [entry.label for entry in study.entries if entry.label != study.baseline]


def selector(study: Study, frame: Frame) -> Table:
    """Show which entry each rule picks, what that gives, and what the best pick would give."""
    found: list[Row] = []
    for budget, models, part in frame.blocks():
        for name, own in sets_of(part):
            for rich in _candidates(study):
                for rule in study.settings["rules"]:
                    made = Choice.of(study, part, own, rich, rule)
                    if made.picks:
                        picked = (made.base, made.rich, made.picks, made.best)
                        numbers = [*(made.number(one) for one in picked), Number(made.excess)]
                        words = (budget, models, name, rich, rule, picks_text(made.picks))
                        found.append((*words, *numbers))
    base = study.baseline
    return Table(
        "selector",
        "Chosen on the calibration split",
        (
            *("samples", "models", "set", "candidate", "rule", "picks"),
            *(f"always {base}", "always candidate", "selected", "best of 2", "excess"),
        ),
        tuple(found),
        f"Test {heading_of(study.metrics[0])}, {SPREAD}; {SHIFTED}: the mean over shifted sets. A "
        f"rule takes the candidate in place of {base} when its cross-validated gain is above one "
        "standard error: of the repeats' means, of all folds, or of the samples. Excess: above the "
        "better of the two in each fit, which is not known beforehand.",
    )


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
                    made = [Choice.of(study, part, rows, rich, policy) for rows in each]
                    if models := [one for one in made if one.picks]:
                        said = f"always {policy}" if policy in (base, rich) else policy
                        costs = _costs(models, unit.scale * margin)
                        found.append((part.samples, name, rich, said, *costs))
    return Table(
        "regret",
        "Cost of choosing",
        (
            *("samples", "set", "candidate", "rule", "models", "fits"),
            *("excess", "regret", "worst regret", "gains kept", "harms avoided"),
            f"candidate where {base} is better %",
        ),
        tuple(found),
        f"Test {heading_of(study.metrics[0])} above the better of the two in each fit: mean over "
        "models (excess), mean over fits (regret), and in the worst fit. Gains kept: of the models "
        f"whose mean the candidate lowers by more than {unit.size(margin)}, those where the picks "
        "keep more than half of that; harms avoided: of those whose mean it raises by more, those "
        f"where they take on less than half. {SHIFTED.capitalize()}: the mean over shifted sets; "
        "all: both, each counted as a model.",
    )


def _costs(models: Sequence[Choice], margin: float) -> Iterator[str | Number]:
    digits = unit_of(models[0].metric).digits
    regrets = [value for made in models for value in made.regrets]
    yield f"{len(models):,}"
    yield f"{len(regrets):,}"
    yield Number(float(np.mean([made.excess for made in models])), digits=digits)
    yield Number(float(np.mean(regrets)), digits=digits)
    yield Number(max(regrets), digits=digits)
    helped = [made.follows for made in models if made.helps_by > margin]
    hurt = [not made.follows for made in models if -made.helps_by > margin]
    yield Number(sum(helped), of=len(helped))
    yield Number(sum(hurt), of=len(hurt))
    wrong = [
        made.picks[fit] == made.rich
        for made in models
        for fit, label in made.best.items()
        if label == made.base
    ]
    yield Number.in_units(float(np.mean(wrong)) if wrong else math.nan, SHARE)


# One of several numbers of groups ---------------------------------------------------------------


def nested_k(study: Study, frame: Frame) -> Table:
    """Show which entry a held-out fifth picks, and what that gives."""
    loss = study.settings["loss"]
    note = f"chosen by the lowest {title_of(loss)} on the last, refitted on all."
    return Table(
        "nested-k",
        f"Chosen by {loss} on a held-out fifth",
        *_by_choice(study, frame, f"held_out_{loss}", f"Fitted on four fifths, {note}"),
    )


def oracle_k(study: Study, frame: Frame) -> Table:
    """Show the entry that is best on the test split: a bound, not a method."""
    judge = study.metrics[0]
    note = (
        f"Each fit takes the entry with the lowest test {title_of(judge)}: a "
        "diagnostic that reads the test labels, and cannot be deployed."
    )
    return Table("oracle-k", "Chosen on the test split", *_by_choice(study, frame, judge, note))


def _by_choice(
    study: Study, frame: Frame, judge: str, note: str
) -> tuple[tuple[str, ...], tuple[Row, ...], str, tuple[str, ...]]:
    """Return what choosing by the lowest ``judge`` gives, beside the baseline and the fixed entry.

    These are the header, the rows, the note and the sentences of a table.
    """
    fixed, metric = study.settings["fixed"], study.metrics[0]
    found: list[Row] = []
    above: list[tuple[float, str]] = []
    for budget, models, part in frame.where(set=CLEAN).blocks():
        lines = {m: lines_of(part, m) for m in study.metrics}
        kept = [label for label in (study.baseline, fixed) if label in part.unique("label")]
        picks = {fit: lowest(line) for fit, line in lines_of(part, judge).items()}
        picks = {
            fit: label
            for fit, label in picks.items()
            if label and {*kept, label} <= set(lines[metric].get(fit, ()))
        }
        columns = {"chosen": picks, **{label: dict.fromkeys(picks, label) for label in kept}}
        numbers = {
            label: [chosen_number(lines[m], chosen, m) for m in study.metrics]
            for label, chosen in columns.items()
        }
        for label, own in numbers.items():
            text = picks_text(picks) if label == "chosen" else ""
            found.append((budget, models, label, text, *own))
        if models != "all" and fixed in kept and picks:
            above.append((numbers["chosen"][0].value - numbers[fixed][0].value, models))
    said: tuple[str, ...] = ()
    if above:
        ends = (f"{written(gap, signed=True)} ({name})" for gap, name in (min(above), max(above)))
        said = (f"Chosen minus {fixed} in {heading_of(metric)}: from {' to '.join(ends)}.",)
    header = ("samples", "models", "entry", "picks", *map(heading_of, study.metrics))
    return header, tuple(found), f"{note} Test metrics, {SPREAD}; draws are averaged first.", said
