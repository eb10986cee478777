"""Evidence that decisions err more often than they promise, from counts alone.

Say that each of k rows is an error with chance at most r, whatever came before. Then for every
d > 0 the product over rows of exp(d error) / (1 - r + r exp(d)) is a nonnegative supermartingale
that starts at 1: the likelihood ratio of the rate whose log-odds lie d above those of r. The mean
over several d is one too. It needs k and the number of errors alone, so counts add up in any order,
and it ever reaches 1 / alpha with chance at most alpha, however often one looks.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smallcal.calibrators.decision import Decision, Threshold
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.parts import frozen
from smallcal.data.claims import CLAIMS
from smallcal.data.groups import group_codes
from smallcal.data.predictions import BoolArray, FloatArray, IntArray
from smallcal.data.shown import visible
from smallcal.errors import InputError
from smallcal.metrics.units import SHARE

#: How far the log-odds of the rates lie above the promised one: from a rate 1 % higher, which
#: takes a million rows to show, to odds fifty times as high, which take a dozen.
_ABOVE = 2.0 ** np.arange(-7, 3)

#: A rate that is not refuted is looked for between these log-odds, to this width.
_LOWEST, _HIGHEST, _NEAR = -40.0, 40.0, 1e-6

Counts = tuple[int, ...]


@dataclass(frozen=True)
class Counted:
    """What became of one decision's rows.

    Attributes
    ----------
    decision : str
        Its :func:`fingerprint`.
    rows, accepted : int
        Rows since it is watched, and those that it accepted.
    tried, errors : tuple of int
        Labelled rows that its promise speaks of, and the wrong ones, by entry: accepted rows, or
        where the rule is "all" also the others.
    """

    decision: str
    rows: int = 0
    accepted: int = 0
    tried: Counts = ()
    errors: Counts = ()

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Counted:
        """Rebuild counts from a document that the schema allows."""
        return cls(**{name: frozen(value) for name, value in document.items()})

    def require_possible(self) -> None:
        """Raise unless the numbers fit together."""
        if len(self.tried) != len(self.errors) or not self.tried:
            raise InputError(f"decisions count {len(self.tried)} and {len(self.errors)} entries")
        least = min(self.rows, self.accepted, *self.errors)
        if least < 0 or self.accepted > self.rows or any(map(int.__gt__, self.errors, self.tried)):
            raise InputError("decisions count more errors or accepted rows than rows")


@dataclass(frozen=True)
class Kept:
    """Whether a decision keeps its promise, as far as labels say.

    Attributes
    ----------
    name : str
        Of its column in outputs.
    risk : float
        The promised rate of errors.
    rule : {"accepted", "all"}
        What it is a rate of.
    n, errors : int
        Labelled rows that the promise speaks of, and the wrong ones; of a broken promise, since
        the start with the most evidence.
    low : float
        The rate is at least this, said at every look at once.
    log_e : float
        Evidence that it is above the promised one, from the start that has the most.
    broken : bool
        Whether that is beyond doubt.
    share, share_before : float or None
        Of all rows that are accepted now, and were when it was certified.
    worst : str
        The class or group with the most evidence, where each has a threshold and one is above.
    after : int
        Such labelled rows before those that are counted.
    """

    name: str
    risk: float
    rule: str
    n: int
    errors: int
    low: float
    log_e: float
    broken: bool
    share: float | None
    share_before: float | None
    worst: str = ""
    after: int = 0

    @classmethod
    def of(
        cls,
        name: str,
        decision: Threshold,
        since: Sequence[Counted],
        shares: FloatArray,
        alpha: float,
    ) -> Kept:
        """Say what counts say of a decision: those since each start, which has a share of alpha."""
        logs = np.array([_log_evidence(each, decision.risk) for each in since]) + np.log(shares)
        log_e = float(logs.max())
        broken = log_e >= -math.log(alpha)
        start = int(logs.argmax()) if broken else 0
        counted, risk = since[start], decision.risk
        n, errors = sum(counted.tried), sum(counted.errors)
        each = log_evidence(counted.errors, counted.tried, risk)
        several, worst = len(each) > 1, int(np.argmax(each))
        tested = sum(decision.n)
        return cls(
            name,
            risk,
            decision.rule,
            n,
            errors,
            low=lowest_rate(errors, n, alpha * float(shares[start])),
            log_e=log_e,
            broken=broken,
            share=counted.accepted / counted.rows if counted.rows else None,
            share_before=sum(decision.accepted) / tested if tested else None,
            worst=decision.names[worst] if several and each[worst] > 0 else "",
            after=sum(since[0].tried) - n,
        )

    @property
    def rate(self) -> float | None:
        """Errors among labelled rows that the promise speaks of."""
        return self.errors / self.n if self.n else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; the evidence is told as a p-value elsewhere."""
        told = {"name": self.name, "risk": self.risk, "rule": self.rule, "rate": self.rate}
        rest = ("n", "after", "errors", "low", "share", "share_before", "worst")
        return told | {name: getattr(self, name) for name in rest}


class Rows(NamedTuple):
    """Rows as a decision sees them; ``wrong`` is None without labels, groups are by name."""

    confidence: FloatArray
    claimed: IntArray
    groups: NDArray[np.str_] | None
    wrong: BoolArray | None


def count(decision: Threshold, rows: Rows) -> Counted:
    """Return what becomes of some rows."""
    entries = len(decision.names)
    accepted = decision.accept(rows.confidence, rows.claimed, rows.groups)
    tried = errors = np.zeros(entries, dtype=np.int64)
    if rows.wrong is not None:
        codes = _codes(decision, rows)
        known = codes >= 0
        spoken = known & accepted if decision.rule == "accepted" else known
        tried = np.bincount(codes[spoken], minlength=entries)
        errors = np.bincount(codes[known & accepted & rows.wrong], minlength=entries)
    return Counted(
        fingerprint(decision),
        len(accepted),
        int(accepted.sum()),
        tuple(tried.tolist()),
        tuple(errors.tolist()),
    )


def _codes(decision: Threshold, rows: Rows) -> IntArray:
    """Return the place of each row among the names of a decision, -1 where it has none."""
    if decision.by == "group" and rows.groups is not None:
        return group_codes(rows.groups, decision.names)
    return rows.claimed if decision.by == "class" else np.zeros(len(rows.claimed), dtype=np.int64)


def takes_groups(fitted: FittedCalibrator) -> bool:
    """Whether a monitor of this calibrator asks for the groups of rows."""
    return fitted.groups is not None or by_group(fitted)


def by_group(fitted: FittedCalibrator) -> bool:
    """Whether a threshold of the calibrator is by group."""
    return any(isinstance(each, Threshold) and each.by == "group" for each in fitted.decisions)


def fingerprint(decision: Decision) -> str:
    """Return the SHA-256 of a decision's numbers."""
    text = json.dumps(decision.to_dict(), sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def log_evidence(errors: ArrayLike, n: ArrayLike, risk: float) -> FloatArray:
    """Return the log of the e-value against "errors come with a chance of at most the risk".

    Examples
    --------
    >>> bool(abs(log_evidence(0, 0, 0.02)) < 1e-12)
    True
    >>> kept, broken = log_evidence([4, 16], [200, 200], 0.02)
    >>> bool(kept < 0), bool(broken > math.log(100))
    (True, True)
    """
    costs = np.log1p(risk * np.expm1(_ABOVE))
    e, k = (np.asarray(each, dtype=np.float64)[..., None] for each in (errors, n))
    logs = e * _ABOVE - k * costs
    return np.asarray(np.logaddexp.reduce(logs, axis=-1) - math.log(len(_ABOVE)))


def _log_evidence(counted: Counted, risk: float) -> float:
    """Return the log of the e-value of all entries: half on them together, half on each alone."""
    pooled = float(log_evidence(sum(counted.errors), sum(counted.tried), risk))
    each = log_evidence(counted.errors, counted.tried, risk)
    if len(each) == 1:
        return pooled
    alone = float(np.logaddexp.reduce(each)) - math.log(len(each))
    return float(np.logaddexp(pooled, alone)) - math.log(2)


def lowest_rate(errors: int, n: int, alpha: float) -> float:
    """Return the lowest rate of errors that is not refuted at any look so far.

    Examples
    --------
    >>> lowest_rate(0, 100, 0.01)
    0.0
    >>> 0.05 < lowest_rate(160, 2000, 0.01) < 0.08
    True
    """
    if not errors:
        return 0.0
    low, high = _LOWEST, _HIGHEST
    while high - low > _NEAR:
        middle = (low + high) / 2
        refuted = log_evidence(errors, n, 1 / (1 + math.exp(-middle))) >= -math.log(alpha)
        low, high = (middle, high) if refuted else (low, middle)
    return 1 / (1 + math.exp(-low)) if low > _LOWEST else 0.0


def sentence(kept: Kept, input: str) -> str:
    """Say how many rows a decision accepts, how often it errs, and what it promised.

    Examples
    --------
    >>> sentence(Kept("accepted", 0.02, "accepted", 200, 1, 0.0, -1.0, False, 0.6, 0.63), "logits")
    'Accepted at a risk of 2 %: 60.0 % of rows (63.0 % when certified); of 200 labelled ones 0.5 %
    are wrong, not shown to be above.'
    """
    text = f"Accepted at a risk of {100 * kept.risk:.6g} %"
    if kept.share is not None:
        text += f": {SHARE.value(kept.share)} of rows"
    if kept.share_before is not None:
        text += f" ({SHARE.value(kept.share_before)} when certified)"
    if kept.rate is None:
        return f"{text}; no labels yet."
    failed, of = CLAIMS[input].failed, "ones"
    failed = failed if input == "score" else f"are {failed}"
    if kept.rule == "all":
        failed, of = f"are accepted and {CLAIMS[input].failed}", "rows of all"
    since = f" since about labelled row {kept.after:,}" if kept.after else ""
    text += f"; of {kept.n:,} labelled {of}{since} {SHARE.value(kept.rate)} {failed}"
    if not kept.broken:
        return f"{text}, not shown to be above."
    where = f", most of all in {visible(kept.worst)}" if kept.worst else ""
    return f"{text}, at least {SHARE.value(kept.low)}: the guarantee is broken{where}."
