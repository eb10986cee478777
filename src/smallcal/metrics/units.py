"""How a metric is written for people: decided here, for tables, reports, studies and plots.

Functions and JSON give fractions and nats. What people read is a hundred times that: shares are in
percent, proper scores are written x100, and a difference of either is in points (0.01).
"""

from __future__ import annotations

import math
from dataclasses import dataclass


def written(value: float, digits: int = 2, *, signed: bool = False) -> str:
    """Write a number that is already in its unit; what rounds to nothing has no sign.

    Examples
    --------
    >>> written(1234.567), written(0.5, signed=True), written(-0.001, signed=True)
    ('1,234.57', '+0.50', '0.00')
    """
    if math.isnan(value):
        return "undefined"
    text = f"{value:{'+' if signed else ''},.{digits}f}"
    return text if text.strip("+-0.,") else text.lstrip("+-")


@dataclass(frozen=True)
class Unit:
    """What a number is multiplied by, how many digits are shown, and what stands behind them.

    Attributes
    ----------
    sign : str
        Behind a value, and in the heading of its column.
    scale : float
    digits : int
        After the point.
    change : str
        Behind a difference, and in the heading of its column.
    """

    sign: str
    scale: float = 100.0
    digits: int = 2
    change: str = "points"

    def number(self, value: float, *, signed: bool = False) -> str:
        """Return the bare number, for a column whose heading names the unit.

        Examples
        --------
        >>> PERCENT.number(0.0312), X100.number(-0.002, signed=True), PLAIN.number(0.0312)
        ('3.12', '-0.20', '0.0312')
        """
        return written(self.scale * value, self.digits, signed=signed)

    def value(self, value: float) -> str:
        """Return a value.

        Examples
        --------
        >>> PERCENT.value(0.0312), X100.value(1.4321), PERCENT.value(float("nan"))
        ('3.12 %', '143.21 x100', 'undefined')
        """
        return self._with(self.sign, value, self.number(value))

    def difference(self, value: float) -> str:
        """Return a difference, with its sign.

        Examples
        --------
        >>> PERCENT.difference(0.0312), X100.difference(-0.002)
        ('+3.12 points', '-0.20 points')
        """
        return self._with(self.change, value, self.number(value, signed=True))

    def size(self, value: float) -> str:
        """Return how large a difference is, for a sentence; a small one keeps two digits.

        Examples
        --------
        >>> X100.size(-0.002), X100.size(0.00002149), PERCENT.size(0.0)
        ('0.20 points', '0.0021 points', '0.00 points')
        """
        size = abs(self.scale * value)
        small = 0 < size < 10.0 ** (1 - self.digits)
        text = f"{size:.2g}" if small else written(size, self.digits)
        return self._with(self.change, value, text)

    def interval(
        self, low: float, high: float, *, signed: bool = False, n_undefined: int = 0
    ) -> str:
        """Return an interval without its unit, and in how many resamples it is undefined.

        Examples
        --------
        >>> PERCENT.interval(0.01, 0.025), X100.interval(-0.01, 0.002, signed=True)
        ('1.00 to 2.50', '-1.00 to +0.20')
        >>> PERCENT.interval(0.01, 0.025, n_undefined=3)
        '1.00 to 2.50 (3 undefined)'
        """
        if math.isnan(low):
            return "undefined"
        ends = f"{self.number(low, signed=signed)} to {self.number(high, signed=signed)}"
        return f"{ends} ({n_undefined} undefined)" if n_undefined else ends

    def spread(self, value: float, spread: float) -> str:
        """Return a bare number and its standard deviation, where there is one.

        Examples
        --------
        >>> PERCENT.spread(0.0225, 0.0048), PERCENT.spread(0.427, 0.0)
        ('2.25 ±0.48', '42.70')
        """
        return self.number(value) + (f" ±{self.number(spread)}" if spread > 0 else "")

    def heading(self, name: str, *, difference: bool = False) -> str:
        """Return the heading of a column of bare numbers.

        Examples
        --------
        >>> PERCENT.heading("ECE"), X100.heading("gain"), X100.heading("gain", difference=True)
        ('ECE %', 'gain x100', 'gain points')
        """
        return f"{name} {self.change if difference else self.sign}".rstrip()

    def _with(self, sign: str, value: float, text: str) -> str:
        return text if math.isnan(value) else f"{text} {sign}".rstrip()


#: A share: of samples, of errors, of probability.
PERCENT = Unit("%")
#: A share of samples or of fits, where two digits would pretend.
SHARE = Unit("%", digits=1)
#: A proper score: nats, or squared distance.
X100 = Unit("x100")
#: A number as it is: a temperature, a threshold.
PLAIN = Unit("", scale=1.0, digits=4, change="")
