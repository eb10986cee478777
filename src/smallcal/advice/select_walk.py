"""Compare candidates from simple to rich: what a richer one must gain, and the reason in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from smallcal.advice.cross_validate import HeldOut
from smallcal.data.claims import CLAIMS
from smallcal.data.plain import plain_fields
from smallcal.data.predictions import BoolArray, FloatArray
from smallcal.errors import InputError
from smallcal.metrics import METRICS
from smallcal.statistics.bootstrap import DEFAULT_BOOT, counts_of_draws
from smallcal.statistics.interval import Interval, interval_of

#: A gain below this is rounding, not a gain: two maps may differ in the last bit alone.
ROUNDING = 1e-12

#: Fewer wrong (or right) predictions than this are no evidence about confidence.
MIN_EACH = 2

#: Flags that say that a fit was not the map it is named after.
_FALLBACKS = ("no_router", "scalar_fallback", "missing_classes", "fallback")

#: What the standard error of a gain is of.
RULES = ("sample", "repeat", "fold", "holdout")


@dataclass(frozen=True)
class Row:
    """What was found about one candidate.

    Attributes
    ----------
    candidate : str
    n_parameters : int
        Fitted numbers.
    verdict : {"start", "accepted", "rejected", "failed", "left out"}
    note : str
        Why it failed or was left out, or what it fell back to.
    loss, nll : float
        Mean over held-out folds.
    against : str
        The simpler candidate it was compared with.
    gain, standard_error : float
        How much lower its loss is than that one's, as the rule computes both.
    interval, nll_interval : Interval or None
        Of the gain in loss and in NLL, resampling held-out samples; None for a loss that is not
        a mean over samples.
    n_failed : int
        Folds in which it could not be fitted.
    flags : dict of flag to int
        In how many fits it was raised; see ``smallcal.calibrators.discipline.FLAGS``.
    """

    candidate: str
    n_parameters: int
    verdict: str = ""
    note: str = ""
    loss: float = math.nan
    nll: float = math.nan
    against: str = ""
    gain: float = math.nan
    standard_error: float = math.nan
    interval: Interval | None = None
    nll_interval: Interval | None = None
    n_failed: int = 0
    flags: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, label: str, entry: HeldOut, loss: str) -> Row:
        """Say how a candidate did, before it is compared."""
        row = cls(label, entry.n_parameters, flags=dict(entry.flags))
        n_fits = entry.folds[loss].size
        if entry.failures:
            why = f"failed in {len(entry.failures)} of {n_fits} fits: {entry.failures[0]}"
            return replace(row, verdict="failed", note=why, n_failed=len(entry.failures))
        odd = int((~np.isfinite(entry.folds[loss])).sum())
        if odd:
            why = f"its {METRICS[loss].title} is undefined in {odd} of {n_fits} folds"
            return replace(row, verdict="failed", note=why, n_failed=odd)
        back = max((entry.flags.get(flag, 0) for flag in _FALLBACKS), default=0)
        note = f"fell back, in part or whole, in {back} of {n_fits} fits" if back else ""
        means = {metric: float(values.mean()) for metric, values in entry.folds.items()}
        return replace(row, note=note, loss=means[loss], nll=means["nll"])

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON; NaN becomes None."""
        return {**plain_fields(self), "against": self.against or None}


def _mean_and_error(gains: FloatArray) -> tuple[float, float]:
    """Return the mean, and its standard error if the gains were independent."""
    return float(gains.mean()), float(gains.std(ddof=1) / math.sqrt(len(gains)))


def _gain(rule: str, base: HeldOut, rich: HeldOut, loss: str) -> tuple[float, float]:
    """Return the gain of the second over the first, and its standard error."""
    if rule == "sample":
        return _mean_and_error(base.samples[loss] - rich.samples[loss])
    gains = base.folds[loss] - rich.folds[loss]
    if rule == "holdout":
        return float(gains.mean()), 0.0
    return _mean_and_error(gains.mean(axis=1) if rule == "repeat" else gains.ravel())


def _worse(base: HeldOut, rich: HeldOut, metric: str) -> bool:
    return bool(rich.folds[metric].mean() > base.folds[metric].mean())


def walk(
    found: Mapping[str, HeldOut],
    *,
    loss: str,
    rule: str,
    enough: bool = True,
    errors: float = 1.0,
    guard: str | None = None,
) -> list[Row]:
    """Compare each candidate with the best so far, from simple to rich.

    Parameters
    ----------
    found : mapping of label to HeldOut
    loss : str
    rule : str
        A name in ``RULES``.
    enough : bool
        Whether there are wrong and right predictions to learn from; without, none is accepted.
    errors : float
        By how many standard errors one must be better than the best so far.
    guard : str, optional
        A metric in which it must not be worse on average. With it, the best of all takes the place
        of the uncalibrated model only if it gains one standard error in that metric or the loss.

    Returns
    -------
    list of Row
        One that could not be measured in every fold is out.
    """
    best, rows = "", []
    for label, entry in found.items():
        row = Row.of(label, entry, loss)
        if row.verdict != "failed":
            if not best:
                row = replace(row, verdict="start")
            else:
                gain, error = _gain(rule, found[best], entry, loss)
                better = enough and gain > errors * error and gain > ROUNDING
                better = better and (guard is None or not _worse(found[best], entry, guard))
                told = "accepted" if better else "rejected"
                row = replace(row, verdict=told, against=best, gain=gain, standard_error=error)
            best = label if row.verdict != "rejected" else best
        rows.append(row)
    if not best:
        raise InputError(
            f"no candidate could be judged; {rows[0].candidate}: {rows[0].note}",
            code="method-unsuitable",
        )
    plain = next((row for row in rows if row.candidate == "none" and row.against), None)
    if guard is None or plain is None or not enough or best == "none":
        return rows
    gains = [_gain(rule, found["none"], found[best], metric) for metric in (loss, guard)]
    if any(gain > error and gain > ROUNDING for gain, error in gains):
        return rows
    gain, error = gains[0]
    kept = replace(plain, verdict="accepted", against=best, gain=-gain, standard_error=error)
    rows = [replace(row, verdict="rejected") if row.verdict == "accepted" else row for row in rows]
    return [kept if row.candidate == "none" else row for row in rows]


def chosen_row(rows: Sequence[Row]) -> Row:
    """Return the row of the choice: the last that was accepted."""
    return next(row for row in reversed(rows) if row.verdict in ("start", "accepted"))


def with_intervals(
    rows: Sequence[Row], found: Mapping[str, HeldOut], *, loss: str, level: float, random_state: int
) -> list[Row]:
    """Give each comparison its intervals: bootstrap over samples of their held-out gains."""
    gains = {
        (row.candidate, metric): found[row.against].samples[metric] - samples
        for row in rows
        if row.against
        for metric, samples in found[row.candidate].samples.items()
    }
    if not gains:
        return list(rows)
    table = np.array(list(gains.values())).T
    blocks = counts_of_draws(len(table), DEFAULT_BOOT, np.random.default_rng(random_state))
    drawn = np.vstack([counts @ table / len(table) for counts in blocks])
    intervals = {
        key: interval_of(float(values.mean()), column, unit="held-out samples", level=level)
        for (key, values), column in zip(gains.items(), drawn.T, strict=True)
    }
    return [
        replace(
            row,
            interval=intervals.get((row.candidate, loss)),
            nll_interval=intervals.get((row.candidate, "nll")),
        )
        for row in rows
    ]


def reason_for(
    rows: Sequence[Row], *, loss: str, rule: str, came: BoolArray, kind: str = "logits"
) -> str:
    """Say in one sentence why the choice was made; ``came`` says which claims were right."""
    choice, claim = chosen_row(rows), CLAIMS[kind]
    rivals = [row for row in rows if row.against]
    keep = claim.raw if choice.candidate == "none" else choice.candidate
    n, n_wrong = len(came), int((~came).sum())
    fewer = min(n_wrong, n - n_wrong)
    if fewer < MIN_EACH:
        what = claim.wrong if n_wrong < MIN_EACH else claim.right
        many = f"{'only one' if fewer else 'no'} {claim.row} of {n:,} is"
        return (
            f"not enough evidence: keep {keep}, for {many} {what}, so the data cannot show "
            "overconfidence."
        )
    if choice.verdict == "accepted":
        return _accepted(choice, rivals, loss=loss, rule=rule, raw=claim.raw)
    if not rivals:
        return f"keep {keep}: there was no other candidate that could be tried."
    best = max(rivals, key=lambda row: row.gain)
    lead = f"not enough evidence: keep {keep}, for the best of the others, {best.candidate},"
    if best.gain <= ROUNDING:
        worse = best.gain < -ROUNDING
        what = (
            f"raises it by {METRICS[loss].unit.size(best.gain)}" if worse else "leaves it unchanged"
        )
        return (
            f"{lead} does not lower the held-out {METRICS[loss].title} but {what} ({n:,} samples)."
        )
    return (
        f"{lead} lowers the held-out {METRICS[loss].title} by only "
        f"{METRICS[loss].unit.size(best.gain)}, where "
        f"one standard error is {METRICS[loss].unit.size(best.standard_error)} ({n:,} samples)."
    )


def reason_for_default(
    rows: Sequence[Row], *, loss: str, errors: float, kind: str = "logits"
) -> str:
    """Say in one sentence why the default stays, or what took its place."""
    choice, start, unit = chosen_row(rows), rows[0].candidate, METRICS[loss].unit
    if choice.candidate == "none":
        losses = dict.fromkeys([METRICS[loss].title, METRICS["nll"].title])
        usual = ", the default," if choice.against == start else ""
        return (
            f"keep {CLAIMS[kind].raw}: {choice.against}{usual} does not lower the held-out "
            f"{' or '.join(losses)} by more than one standard error "
            f"({METRICS[loss].title} {'higher' if choice.gain > 0 else 'lower'} by "
            f"{unit.size(choice.gain)}, one standard error {unit.size(choice.standard_error)})."
        )
    if choice.candidate != start:
        return (
            f"{choice.candidate} lowers the held-out {METRICS[loss].title} by "
            f"{unit.size(choice.gain)} compared "
            f"with {choice.against}: more than {errors:.1f} standard errors, which is beyond "
            f"chance for {len(rows) - 1} comparisons."
        )
    others = "no other candidate is better beyond chance"
    plain = CLAIMS[kind].raw
    raw = next((row for row in rows if row.candidate == "none" and row.against), None)
    if raw is None:
        return f"{start} is the default, and {others}."
    size = unit.size(raw.gain)
    if raw.gain + 2 * raw.standard_error < 0:
        return (
            f"{start}, the default, lowers the held-out {METRICS[loss].title} by {size} compared "
            "with "
            f"{plain}, and {others}."
        )
    return (
        f"{start}, the default, and {plain} do not differ beyond chance on held-out samples "
        f"({METRICS[loss].title} {'lower' if raw.gain < 0 else 'higher'} by {size}), and {others}."
    )


def _accepted(choice: Row, rivals: Sequence[Row], *, loss: str, rule: str, raw: str) -> str:
    against = raw if choice.against == "none" else choice.against
    unit = METRICS[loss].unit
    gain = unit.size(choice.gain)
    if rule == "holdout":
        return (
            f"{choice.candidate} has the lowest {METRICS[loss].title} on the fifth that was held "
            "out, "
            f"{unit.value(choice.loss)}, which is {gain} below {against}; one split gives no "
            "measure of uncertainty."
        )
    richer = rivals[rivals.index(choice) + 1 :]
    rest = ", and no more complex candidate adds as much again" if richer else ""
    nll = choice.nll_interval
    if nll is not None and nll.high < 0:  # the predicted class gains, the others lose more
        rest += f"; but it raises the held-out log-loss by {METRICS['nll'].unit.size(nll.point)}"
    return (
        f"{choice.candidate} lowers the held-out {METRICS[loss].title} by {gain} compared with "
        f"{against}, more "
        f"than one standard error ({unit.size(choice.standard_error)}){rest}."
    )
