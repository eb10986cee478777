"""Tables of choices that the calibration split makes: what they give, and what they cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from smallcal.advice.select_walk import ROUNDING
from smallcal.metrics.units import SHARE
from smallcal_lab.studies.frame import Frame, Values
from smallcal_lab.studies.study import Study
from smallcal_lab.studies.tables.clean import SPREAD, number_of
from smallcal_lab.studies.tables.shift import SHIFTED, sets_of
from smallcal_lab.studies.tables.table import Number, Row, Table, heading_of, unit_of

#: A cell and a draw of it.
Fit = tuple[str, int]
#: From which difference on a candidate helps or hurts a model: 0.2 points.
MARGIN = 0.002
#: Every label's value in one fit.
Line = Mapping[str, float]


def lines_of(frame: Frame, metric: str) -> dict[Fit, dict[str, float]]:
    """Return a metric by fit and label, fits in order; a mean where a fit has several sets."""
    found: dict[Fit, dict[str, list[float]]] = {}
    rows = frame.where(metric=metric)
    columns = ("cell", "draw", "label", "value")
    for cell, draw, label, value in zip(*(rows[name].tolist() for name in columns), strict=True):
        found.setdefault((cell, draw), {}).setdefault(label, []).append(value)
    return {
        fit: {label: _mean(values) for label, values in line.items()} for fit, line in found.items()
    }


def _mean(values: Sequence[float]) -> float:
    return values[0] if len(values) == 1 else float(np.mean(values))


def lowest(line: Line) -> str:
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
    >>> picks_text({("a", 0): "K=1", ("b", 0): "K=3"})
    'K=1 / K=3'
    >>> picks_text({("a", 0): "K=1", ("a", 1): "K=3", ("a", 2): "K=3"})
    'K=1: 1, K=3: 2'
    """
    if len({cell for cell, _ in picks}) == len(picks) <= 5:
        return " / ".join(picks.values())
    return ", ".join(
        f"{label}: {count}" for label, count in sorted(Counter(picks.values()).items())
    )


def chosen_number(lines: Mapping[Fit, Line], picks: Mapping[Fit, str], metric: str) -> Number:
    """Return mean and spread of a metric over fits, each with the label that was chosen there."""
    values: Values = {}
    for (cell, draw), label in picks.items():
        values.setdefault(cell, []).append(lines[cell, draw][label])
    return number_of(values, metric)


@dataclass(frozen=True)
class Choice:
    """What a policy chose between two entries, and what either gives.

    Attributes
    ----------
    base, rich : str
        The entry that a rule starts from, and the candidate for its place.
    lines : dict
        The metric of both in every fit.
    picks : dict
        Fit to the label chosen.
    metric : str
    """

    base: str
    rich: str
    lines: Mapping[Fit, Line]
    picks: Mapping[Fit, str]
    metric: str

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
            scale * (self.lines[fit][self.picks[fit]] - self.lines[fit][best[fit]])
            for fit in self.picks
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


def choices(study: Study, taken: Frame, measured: Frame, rich: str, policy: str) -> Choice:
    """Return what a policy chose; a rule's picks are in ``taken``, the metric in ``measured``."""
    metric, base = study.metrics[0], study.baseline
    lines = {
        fit: line for fit, line in lines_of(measured, metric).items() if {base, rich} <= set(line)
    }
    if policy in (base, rich):
        return Choice(base, rich, lines, dict.fromkeys(lines, policy), metric)
    accepted = lines_of(taken, f"accepted_{policy}")
    picks = {
        fit: rich if accepted[fit][rich] else base for fit in lines if rich in accepted.get(fit, ())
    }
    return Choice(base, rich, lines, picks, metric)


def _candidates(study: Study) -> list[str]:
    return [entry.label for entry in study.entries if entry.label != study.baseline]


def selector(study: Study, frame: Frame) -> Table:
    """Show which entry each rule picks, what that gives, and what the best pick would give."""
    found: list[Row] = []
    for budget, models, part in frame.blocks():
        for name, own in sets_of(part):
            for rich in _candidates(study):
                for rule in study.settings["rules"]:
                    made = choices(study, part, own, rich, rule)
                    if not made.picks:
                        continue
                    picked = (made.base, made.rich, made.picks, made.best)
                    numbers = [*(made.number(one) for one in picked), Number(made.excess)]
                    about = (budget, models, name, rich, rule, picks_text(made.picks))
                    found.append((*about, *numbers))
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
    margin = study.settings.get("margin", MARGIN)
    found: list[Row] = []
    for _, part in frame.groups("budget"):
        for name, own in (*sets_of(part), *_together(part)):
            for rich in _candidates(study):
                always = (study.baseline, rich)
                for policy in (*study.settings["rules"], *always):
                    models = [
                        choices(study, part, rows, rich, policy) for rows in _regimes(own, name)
                    ]
                    models = [made for made in models if made.picks]
                    said = f"always {policy}" if policy in always else policy
                    if models:
                        about = (part.samples, name, rich, said)
                        found.append((*about, *_costs(models, margin)))
    base, unit = study.baseline, unit_of(study.metrics[0])
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


def _together(part: Frame) -> Iterator[tuple[str, Frame]]:
    """Yield clean and shifted sets together, where there are both."""
    if len(list(sets_of(part))) > 1:
        yield "all", part


def _regimes(own: Frame, name: str) -> Iterator[Frame]:
    """Yield the rows of each model; of all sets, clean and shifted ones apart."""
    for _, _, rows in own.models():
        yield from (some for _, some in sets_of(rows)) if name == "all" else (rows,)


def _costs(models: Sequence[Choice], margin: float) -> Iterator[str | Number]:
    unit = unit_of(models[0].metric)
    regrets = [value for made in models for value in made.regrets]
    yield f"{len(models):,}"
    yield f"{len(regrets):,}"
    yield Number(float(np.mean([made.excess for made in models])), digits=unit.digits)
    yield Number(float(np.mean(regrets)), digits=unit.digits)
    yield Number(max(regrets), digits=unit.digits)
    helped = [made.follows for made in models if made.helps_by > unit.scale * margin]
    hurt = [not made.follows for made in models if -made.helps_by > unit.scale * margin]
    yield Number(sum(helped), of=len(helped))
    yield Number(sum(hurt), of=len(hurt))
    wrong = [
        made.picks[fit] == made.rich
        for made in models
        for fit, label in made.best.items()
        if label == made.base
    ]
    share = SHARE.scale * float(np.mean(wrong)) if wrong else math.nan
    yield Number(share, digits=SHARE.digits)
