"""Fits and what they predict, each computed once; and how a value is written down."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from freeze.fits import Fit, fitted
from freeze.formulas import FORMULAS
from freeze.logits import (
    ELSEWHERE,
    KINDS,
    N_CAL,
    SEEDS,
    SEVERITIES,
    Array,
    Model,
    Split,
    read_logits,
)

Entry = dict[str, Any]

#: What a number is multiplied by in a unit, and how many decimals are kept.
UNITS = {
    **{"percent": (100, 4), "fraction": (1, 6), "nats": (1, 6), "x1000": (1000, 4)},
    **{"x0.001": (1000, 4), "temperature": (1, 4), "ratio": (1, 4), "correlation": (1, 4)},
    "count": (1, 0),
}
NATS = ("nll", "top_label_bce")
FRACTIONS = ("brier", "auroc", "aurc", "eaurc")
#: Metrics that smallcal has; others are named as the paper's values name them.
NAMED = (
    *("ece15", "adaece15", "smece", "cwece15", "accuracy", "auroc", "aurc", "eaurc", "brier"),
    *("nll", "top_label_bce", "hcfp90", "hcfp95", "risk_at90", "selective_risk80"),
)


def parts_of(name: str) -> tuple[str, ...]:
    """Return the splits that a set consists of."""
    if name in KINDS:
        return tuple(f"{name}{severity}" for severity in SEVERITIES)
    if name.startswith("corrupted"):
        asked = [int(word[1:]) for word in name.split("-") if word[1:].isdigit()]
        return tuple(f"{k}{s}" for k, s in product(KINDS, asked or SEVERITIES))
    return {"clean": ("test",), ELSEWHERE: (ELSEWHERE,)}[name]


def unit_of(metric: str) -> str:
    """Return the unit that a metric is told in."""
    if metric in NATS:
        return "nats"
    return "fraction" if metric in FRACTIONS else "percent"


@dataclass(frozen=True)
class Case:
    """A method, and what it is fitted on: all of a model's calibration split, or a draw of it."""

    model: Model
    method: str
    seed: int = 0
    n_groups: int = 3
    budget: int = 0
    draw: int = 0


class Store:
    """The frozen logits, and every fit to them that was asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.splits = cache(self._splits)
        self.fit = cache(self._fit)
        self.scaled = cache(self._scaled)
        self.score = cache(self._score)

    def _splits(self, model: Model, seed: int) -> dict[str, Split]:
        return read_logits(self.folder, model, seed)

    def cal(self, case: Case) -> Split:
        """Return the draw of the calibration split that a case is fitted on."""
        cal = self.splits(case.model, case.seed)["cal"]
        if not case.budget:
            return cal
        state = case.seed * 10**6 + case.budget * 10**3 + case.draw
        rows = np.arange(len(cal.labels))
        options = {"train_size": case.budget, "stratify": cal.labels, "random_state": state}
        return cal.take(np.sort(train_test_split(rows, **options)[0]))

    def _fit(self, case: Case) -> Fit:
        return fitted(case.method, self.cal(case), case.seed, case.n_groups)

    def _scaled(self, case: Case, part: str) -> Split:
        """Return the logits of a split, divided by a fit's temperatures."""
        split = self.splits(case.model, case.seed)[part]
        temperature = self.fit(case).temperature(split.logits)
        return Split(split.logits / temperature[:, None], split.labels)

    def _score(self, metric: str, case: Case, part: str) -> float:
        """Return a metric of one fit on one split."""
        split = self.scaled(case, part)
        return FORMULAS[metric](split.logits, split.labels)

    def over_sets(self, metric: str, case: Case, name: str) -> Array:
        """Return a metric on every split of a set: seeds x splits."""
        return np.array(
            [[self.score(metric, one, part) for part in parts_of(name)] for one in seeds_of(case)]
        )

    def over_draws(self, metric: str, case: Case, draws: int, part: str = "test") -> Array:
        """Return a metric for every draw of the calibration split: seeds x draws."""
        return np.array(
            [
                [self.score(metric, replace(one, draw=draw), part) for draw in range(draws)]
                for one in seeds_of(case)
            ]
        )

    def grid(self, metric: str, case: Case, severities: tuple[int, ...]) -> Array:
        """Return a metric under every corruption: seeds x kinds x severities."""
        name = "-".join(["corrupted", *(f"s{s}" for s in severities)])
        found = self.over_sets(metric, case, name)
        return found.reshape(len(SEEDS), len(KINDS), len(severities))


def seeds_of(case: Case) -> list[Case]:
    """Return a case for each seed."""
    return [replace(case, seed=seed) for seed in SEEDS]


#: Where a value stands: table, study, model, method.
Place = tuple[str, str, Model, str | None]


def mean_entry(place: Place, metric: str, found: Array, **rest: Any) -> Entry:
    """Return the mean over seeds, or over what there is, with the standard deviation."""
    spread = float(found.std(ddof=rest.get("ddof", 0)))
    return entry(place, metric, found.mean(), spread=spread, **rest)


def entry(place: Place, metric: str, value: float | None, **rest: Any) -> Entry:
    """Return an entry of reference.json, in its unit; what ``DEFAULTS`` says is left out."""
    unit = rest.pop("unit", "") or unit_of(metric)
    scale, decimals = UNITS[unit]

    def told(number: Any) -> Any:
        if isinstance(number, dict):
            return {key: told(each) for key, each in number.items()}
        if np.ndim(number):
            return [told(each) for each in number]
        return None if number is None else round(scale * float(number), decimals) + 0.0

    table, study, (dataset, backbone), method = place
    found: Entry = {"table": table, "study": study, "dataset": dataset, "backbone": backbone}
    found |= {"budget": rest.pop("budget", N_CAL.get(place[2])), "method": method}
    found |= {key: rest.pop(key) for key in _NEXT if key in rest}
    found |= {"metric": metric} if metric in NAMED else {"metric": None, "paper_metric": metric}
    found |= {"value": told(value), "unit": unit, "decimals": decimals}
    found |= {key: told(rest.pop(key)) for key in _NUMBERS if key in rest}
    return {key: given for key, given in (found | rest).items() if DEFAULTS.get(key, ...) != given}


#: What is written after the method, and what is in the value's unit.
_NEXT = ("paper_method", "options", "kind", "against", "draws", "set")
_NUMBERS = ("spread", "interval", "other_intervals", "per_seed")

#: What an entry is where it does not say.
DEFAULTS: Entry = {
    **{"kind": "value", "seeds": len(SEEDS), "set": "clean", "decimals": 4},
    **{"spread": None, "interval": None, "spread_over": "seeds", "ddof": 0},
}
