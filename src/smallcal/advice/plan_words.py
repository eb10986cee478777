"""The record of a plan, with its sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from smallcal.advice.recommend import Recommendation
from smallcal.data.claims import CLAIMS
from smallcal.data.in_notebook import InNotebook
from smallcal.data.plain import plain_fields
from smallcal.errors import InputError
from smallcal.metrics import METRICS
from smallcal.statistics.interval import Interval

#: A change of ECE smaller than this is called little.
_LITTLE = 0.002

#: From this ratio of two sizes on, the curve between them counts as flat.
_FLAT = 2

#: How ECE is written, with and without its noise.
_ECE = METRICS["ece15"].unit


@dataclass(frozen=True)
class Expected:
    """A metric that is expected at one size.

    Attributes
    ----------
    value : float
        The mean over draws of calibration samples.
    spread : float
        Standard deviation from one draw to another: what one calibration split will give is
        the value give or take this.
    low, high : float
        Where the mean may be: the pilot is small, and so is a test set.
    """

    value: float
    spread: float
    low: float
    high: float


@dataclass(frozen=True)
class PlanRow:
    """One method at one size.

    Attributes
    ----------
    method : str
    size : int
        Calibration samples; 0 for the model as it is.
    measured : bool
        Whether fits of this size were made; otherwise the curve goes on beyond them.
    metrics : dict of metric to Expected
    gains : dict of metric to Interval
        Minus the uncalibrated model on the same rows; below zero is better. Empty for that model.
    """

    method: str
    size: int
    measured: bool
    metrics: dict[str, Expected]
    gains: dict[str, Interval] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return plain_fields(self)


@dataclass(frozen=True)
class Target:
    """How many samples a target takes.

    Attributes
    ----------
    metric : str
    value : float
    size : int or None
        None where no number of samples is expected to reach it.
    low, high : int or None
        Between these with the plan's level; None where it may never be reached.
    floor : float
        The value with endless samples.
    earliest, latest : int or None
        Where the curve, give or take the standard error of its draws, comes to stay at or below
        the value; None where it does not. Far apart where the curve is flat.
    """

    metric: str
    value: float
    size: int | None
    low: int | None
    high: int | None
    floor: float
    earliest: int | None = None
    latest: int | None = None

    @property
    def flat(self) -> bool:
        """Whether another set of draws may as well give a size several times as large."""
        if self.size is None or self.earliest is None:
            return False
        return self.latest is None or self.latest >= _FLAT * self.earliest


@dataclass(frozen=True)
class Plan(InNotebook):
    """What more samples would give.

    Attributes
    ----------
    method : str
        Its true name.
    n, n_classes : int
        Of the pilot.
    test_size : int
        The rows of the test set that ``ece15`` is predicted for.
    draws : int
        Fits at each size.
    level : float
        Of all bands.
    rows : tuple of PlanRow
        The method at each size.
    references : tuple of PlanRow
        The uncalibrated model, and one temperature at each size, on the same rows.
    more : dict of metric to Interval
        The largest size minus the whole pilot: what more data would change.
    targets : tuple of Target
    recommendation : Recommendation or None
        What to use for the pilot as it is.
    sentences : tuple of str
        The plan in words.
    notes : tuple of str
        What the plan rests on, where that is thin.
    input : {"logits", "score"}
        What rows hold.
    simple : str
        The method with one temperature.
    """

    method: str
    n: int
    n_classes: int
    test_size: int
    draws: int
    level: float
    rows: tuple[PlanRow, ...]
    references: tuple[PlanRow, ...]
    more: dict[str, Interval]
    targets: tuple[Target, ...] = ()
    recommendation: Recommendation | None = None
    sentences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    input: str = "logits"
    simple: str = "tva-ts"

    def row(self, size: int, method: str | None = None) -> PlanRow:
        """Return one row, of the planned method if no other is named."""
        wanted = method or self.method
        for row in (*self.rows, *self.references):
            if row.method == wanted and (row.size == size or wanted == "none"):
                return row
        raise InputError(
            f"the plan has no row of {wanted} with {size} samples", code="unknown-choice"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return plain_fields(self)


def sentences_of(plan: Plan, simple: Mapping[str, Interval]) -> tuple[str, ...]:
    """Return the plan in words; ``simple`` is the method minus one temperature, if not the same."""
    told = [_expectation(plan), _worth_calibrating(plan)]
    if simple:
        told.append(_against_one_temperature(plan, simple["top_label_bce"]))
    if plan.more:
        told.append(_worth_more(plan))
    if plan.recommendation is not None:
        told.append(plan.recommendation.sentence)
    return (*told, *(_target(plan, target) for target in plan.targets))


def notes_on(plan: Plan, wrong: int) -> Iterator[str]:
    """Yield what a reader should know before believing the plan."""
    right = plan.n - wrong
    claim = CLAIMS[plan.input]
    few, kind = (wrong, claim.wrong) if wrong <= right else (right, claim.right)
    if few == 0:
        yield f"no {claim.row} of the pilot is {kind}: calibration cannot be fitted"
    elif few < 10:
        counted = f"{claim.row} of the pilot is" if few == 1 else f"{claim.rows} of the pilot are"
        yield f"only {few} {counted} {kind}"
    if plan.n < 200:
        yield f"a pilot of {plan.n} samples says little; a few hundred say more"
    largest = plan.rows[-1].size
    if largest > 10 * plan.n:
        yield f"{largest:,} samples are more than ten times the pilot: a rough guess"


def _expectation(plan: Plan) -> str:
    now, last = plan.row(plan.n).metrics["ece15"], plan.rows[-1]
    text = (
        f"With all {plan.n:,} samples {plan.method} is expected to show ECE "
        f"{_ECE.spread(now.value, now.spread)} {_ECE.sign} on a test set of {plan.test_size:,} rows"
    )
    if last.size > plan.n:
        then = last.metrics["ece15"]
        text += f"; {last.size:,} would give {_ECE.spread(then.value, then.spread)} {_ECE.sign}"
    return f"{text}."


def _worth_calibrating(plan: Plan) -> str:
    """Judge by the proper score: calibration errors of few rows are too noisy to decide."""
    row, raw = plan.row(plan.n), plan.row(0, "none")
    gain = row.gains["top_label_bce"]
    claim = CLAIMS[plan.input]
    ece = f"{claim.raw} shows ECE {_ECE.value(raw.metrics['ece15'].value)}"
    if gain.high < 0:
        verdict = "Calibration helps"
    elif gain.low > 0:
        verdict = "Calibration does harm here"
    elif row.gains["ece15"].high < 0:
        verdict = "Calibration lowers ECE; the proper score is inconclusive"
    elif gain.low == gain.high == 0:
        verdict = "Calibration changes nothing here"
    else:
        verdict = "The gain of calibration cannot be measured with so few samples"
    return (
        f"{verdict}: {ece}, and {METRICS[claim.loss].title} changes by {_change(gain)} with "
        f"{plan.n:,} samples."
    )


def _against_one_temperature(plan: Plan, gap: Interval) -> str:
    verdict = {
        "better": f"{plan.method} is better than one temperature ({plan.simple})",
        "worse": f"One temperature ({plan.simple}) is better than {plan.method}",
        "tie": f"{plan.method} and one temperature ({plan.simple}) do not differ beyond chance",
    }[gap.verdict()]
    loss = METRICS[CLAIMS[plan.input].loss].title
    return f"{verdict}: {loss} differs by {_change(gap)} with {plan.n:,} samples."


def _worth_more(plan: Plan) -> str:
    ece, bce = plan.more["ece15"], plan.more["top_label_bce"]
    last = plan.rows[-1].size
    falls = max(0.0, -ece.point)
    band = _ECE.interval(max(0.0, -ece.high), max(0.0, -ece.low))
    verdict = "More samples would help" if falls >= _LITTLE else "More samples would change little"
    return (
        f"{verdict}: {last - plan.n:,} more would lower ECE by {_ECE.size(falls)} ({band}) "
        f"and change {METRICS[CLAIMS[plan.input].loss].title} by {_change(bce)}."
    )


def _change(gap: Interval) -> str:
    unit = METRICS["top_label_bce"].unit
    return f"{unit.difference(gap.point)} ({unit.interval(gap.low, gap.high, signed=True)})"


def _titled(metric: str) -> str:
    """Return what people call a metric that can be a target."""
    found = METRICS[metric.removeprefix("debiased_")].title
    return f"debiased {found}" if metric.startswith("debiased_") else found


def _target(plan: Plan, target: Target) -> str:
    unit = METRICS[target.metric].unit if target.metric in METRICS else _ECE
    aim, floor = unit.value(target.value), unit.value(target.floor)
    where = f" on {plan.test_size:,} test rows" if target.metric == "ece15" else ""
    goal = f"{_titled(target.metric)} of {aim}{where}"
    if target.size is None and target.floor > target.value:
        reach = "" if target.low is None else f"; at best {target.low:,} samples would be enough"
        return f"{goal}: not expected with {plan.method}, which stays above {floor}{reach}."
    if target.size is None:
        return f"{goal}: not expected with a hundred times the pilot either."
    low = f"{target.low or target.size:,}"
    band = f"{low} or more" if target.high is None else f"{low} to {target.high:,}"
    smallest = min(row.size for row in plan.rows)
    if target.size <= smallest:
        return f"{goal}: at most {target.size:,} samples ({band})."
    if target.flat:
        most = "far more" if target.latest is None else f"{target.latest:,}"
        return (
            f"{goal}: between about {target.earliest:,} and {most} samples, "
            f"the curve is flat there ({band})."
        )
    return f"{goal}: about {target.size:,} samples ({band})."
