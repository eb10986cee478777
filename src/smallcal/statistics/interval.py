"""What a bootstrap says about a number: an interval, and how sure one may be of its sign."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import scipy

from smallcal.data.checks import whole_number
from smallcal.data.plain import plain_fields
from smallcal.data.predictions import FloatArray
from smallcal.errors import InputError
from smallcal.metrics.units import Unit

Better = Literal["lower", "higher", "zero"]

#: With fewer errors, resamples do not tell how far a metric varies that errors decide: their 95 %
#: intervals hold the truth in 65 to 91 % of cases, with so many in 90 to 98 %. Chosen by
#: simulation, see ``benchmarks/coverage_study.py``.
FEWEST_ERRORS = 20


@dataclass(frozen=True)
class Interval:
    """A number with its bootstrap interval.

    Attributes
    ----------
    point : float
        The estimate. Of a calibration error in bins (``ece15``, ``adaece15``) it is the error
        without the noise of the samples, and at least 0: see ``smallcal.metrics.debiased``.
    low, high : float
        Its ends; the point lies between them. NaN where nothing tells them; ``note`` says why.
    level : float
    n_boot : int
        Resamples that were drawn.
    unit : str
        What was resampled.
    p_below, p_above : float
        Shares of resamples below and above zero: for a difference, the probability of its
        direction.
    plain : float
        The number as it is on these data: the point, but for calibration errors in bins.
    n_undefined : int
        Resamples in which the number does not exist; they are left out and counted here.
    floor : float or None
        For a calibration error: what a perfectly calibrated model would show on average.
    note : str
        How it was found other than by resamples, or why there is none.

    Examples
    --------
    >>> found = interval_of(0.5, np.array([0.4, 0.5, 0.6]), unit="samples")
    >>> found.text()
    '0.5000 (95 % interval 0.4050 to 0.5950; 3 resamples of samples)'
    >>> low, high = found
    """

    point: float
    low: float
    high: float
    level: float
    n_boot: int
    unit: str
    p_below: float
    p_above: float
    plain: float
    n_undefined: int = 0
    floor: float | None = None
    note: str = ""
    values: FloatArray = field(default_factory=lambda: np.empty(0), repr=False, compare=False)

    def __iter__(self) -> Iterator[float]:
        """Yield low and high."""
        yield self.low
        yield self.high

    @property
    def numbers(self) -> dict[str, Any]:
        """The value and the ends of its interval, as documents have them."""
        ends = {"low": self.low, "high": self.high, "note": self.note}
        return {"value": self.point, "plain": self.plain, **ends}

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval is on one side of zero; never where it does not exist."""
        return self.low > 0 or self.high < 0

    def ends(self, unit: Unit, *, signed: bool = False) -> str:
        """Return the interval without its unit, or why there is none."""
        if math.isnan(self.low) and self.note:
            return self.note
        return unit.interval(self.low, self.high, signed=signed, n_undefined=self.n_undefined)

    def win_rate(self, better: Better = "lower") -> float:
        """Return the share of resamples in which a difference is for the better."""
        return self.p_above if better == "higher" else self.p_below

    def verdict(self, better: Better = "lower", *, margin: float | None = None) -> str:
        """Return "better", "worse", "tie", or, with a margin, "equivalent".

        A difference whose interval holds zero is never better or worse. It is equivalent when
        the whole interval lies within the margin.
        """
        if margin is not None and not margin > 0:
            raise InputError(f"margin must be positive; got {margin}", code="option-range")
        if margin is not None and -margin < self.low and self.high < margin:
            return "equivalent"
        if not self.excludes_zero or better == "zero":
            return "tie"
        return "better" if (self.high < 0) == (better == "lower") else "worse"

    def text(self) -> str:
        """Return the number and its interval in words."""
        if math.isnan(self.low):
            return f"{self.point:.4f} (no interval: {self.note or 'undefined in every resample'})"
        how = f"{self.n_boot:,} resamples of {self.unit}" if self.n_boot else ""
        odd = f"undefined in {self.n_undefined:,} of them" if self.n_undefined else ""
        interval = f"{100 * self.level:g} % interval {self.low:.4f} to {self.high:.4f}"
        return f"{self.point:.4f} ({'; '.join(filter(None, [interval, how, odd, self.note]))})"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON; NaN becomes None."""
        return plain_fields(self, without="values") | {"excludes_zero": self.excludes_zero}


def interval_of(
    point: float,
    values: FloatArray,
    *,
    unit: str,
    level: float = 0.95,
    note: str = "",
) -> Interval:
    """Return the percentile interval of resampled values; undefined ones (NaN) are counted."""
    defined = values[~np.isnan(values)]
    tail = (1 - level) / 2
    low, high = np.quantile(defined, [tail, 1 - tail]) if len(defined) else (np.nan, np.nan)
    share = max(len(defined), 1)
    return Interval(
        point=float(point),
        plain=float(point),
        low=float(low),
        high=float(high),
        level=level,
        n_boot=len(values),
        unit=unit,
        p_below=float((defined < 0).sum() / share),
        p_above=float((defined > 0).sum() / share),
        n_undefined=len(values) - len(defined),
        note=note,
        values=values,
    )


def binomial_interval(
    successes: FloatArray, n: FloatArray, *, level: float = 0.95
) -> tuple[FloatArray, FloatArray]:
    """Return Clopper and Pearson's interval of a chance: it holds the truth at least so often.

    Parameters
    ----------
    successes, n : ndarray of shape (k,)
        Successes among n trials; 0 and n give an end at exactly 0 and 1.
    level : float

    Examples
    --------
    >>> low, high = binomial_interval(np.array([0.0, 9.0]), np.array([10.0, 10.0]))
    >>> low.round(4).tolist(), high.round(4).tolist()
    ([0.0, 0.555], [0.3085, 0.9975])
    """
    tail = (1 - level) / 2
    # An argument of 0 is not allowed; the end it belongs to is known.
    low = scipy.special.betaincinv(np.maximum(successes, 1e-9), n - successes + 1, tail)
    high = scipy.special.betaincinv(successes + 1, np.maximum(n - successes, 1e-9), 1 - tail)
    return np.where(successes > 0, low, 0.0), np.where(successes < n, high, 1.0)


def paired_interval(gained: int, lost: int, n: int, *, level: float = 0.95) -> tuple[float, float]:
    """Return the interval of the difference of two shares of the same n samples.

    Only samples on which they differ tell: intervals of both ways to differ, added in squares.

    Examples
    --------
    >>> [round(end, 4) for end in paired_interval(0, 0, 300)]
    [-0.0122, 0.0122]
    """
    share = np.array([gained, lost]) / n
    low, high = binomial_interval(share * n, np.array([n, n], dtype=np.float64), level=level)
    less, more = share - low, high - share
    middle = share[0] - share[1]
    return float(middle - np.hypot(less[0], more[1])), float(middle + np.hypot(more[0], less[1]))


def require_options(
    n_boot: int | None, level: float, *, name: str = "n_boot", least: int = 0, why: str = ""
) -> None:
    """Raise unless the options of a bootstrap make sense; None leaves the number open."""
    require_level(level)
    if n_boot is not None:
        whole_number(n_boot, name, least=least, why=why)


def require_level(level: float) -> None:
    """Raise unless an interval can have this level."""
    if not 0 < level < 1:
        raise InputError(f"level must lie between 0 and 1; got {level}", code="option-range")
