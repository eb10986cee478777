"""What came of adapting a calibrator to other frequencies of classes: numbers and words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.data.plain import plain_fields
from smallcal.deploy.monitor.class_shift import ClassShift
from smallcal.metrics.units import PERCENT, SHARE

#: Fewest rows that frequencies are estimated from.
LEAST_ROWS = 50

_ANYWAY = "Adapted all the same, as asked: "


@dataclass(frozen=True)
class Adaptation:
    """What was found, and the calibrator for it.

    Attributes
    ----------
    calibrator : FittedCalibrator
        Adapted; as it was given where ``adapted`` is False.
    verdict : {"moved", "unchanged", "few", "more", "rates", "undone"}
        Frequencies of classes moved; they may be what they were; rows are too few to tell; more
        than frequencies moved; rates were given; or what was adapted before was taken away.
    adapted : bool
        Whether the calibrator is another one.
    rows : int
        Rows without labels that were looked at.
    classes : tuple of str
        Names of classes, or of outcomes.
    before, now : tuple of float
        Frequency of each class in the calibration split, and now.
    low, high : tuple of float
        An interval for each of those now; empty where they were given.
    level : float
        Of the intervals; one minus it is the level of the test.
    p_value : float or None
        Of "frequencies are what they were".
    class_shift : ClassShift or None
        Whether frequencies explain all that a monitor sees of the same rows.
    changed : int or None
        Rows that are predicted otherwise.
    set_aside : int
        Decisions that no longer hold.
    """

    calibrator: FittedCalibrator
    verdict: str
    adapted: bool
    rows: int = 0
    classes: tuple[str, ...] = ()
    before: tuple[float, ...] = ()
    now: tuple[float, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    level: float = 0.95
    p_value: float | None = None
    class_shift: ClassShift | None = None
    changed: int | None = None
    set_aside: int = 0

    @property
    def sentences(self) -> list[str]:
        """What was found, in words."""
        return list(_sentences(self))

    def most_moved(self, n: int = 10) -> list[tuple[str, float, float, float | None, float | None]]:
        """Return class, before, now and interval of the classes that moved most, in frequency.

        Examples
        --------
        >>> shares = {"before": (0.5, 0.3, 0.2), "now": (0.1, 0.5, 0.4)}
        >>> Adaptation(None, "rates", True, classes=("a", "b", "c"), **shares).most_moved(1)
        [('a', 0.5, 0.1, None, None)]
        """
        none = (None,) * len(self.now)
        each = zip(
            *(self.classes, self.before, self.now, self.low or none, self.high or none), strict=True
        )
        return sorted(each, key=lambda row: -abs(row[2] - row[1]))[:n]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return plain_fields(self, without="calibrator")


def _sentences(found: Adaptation) -> Iterator[str]:
    if found.verdict == "undone":
        yield "The calibrator is as it was before it was adapted to other class frequencies."
        if found.set_aside:
            yield "Thresholds certified since then are removed; earlier ones are valid again."
        return
    if found.verdict == "rates":
        yield "Adapted to the class frequencies that were given."
    elif found.verdict == "moved":
        yield f"Adapted to {found.rows:,} rows: class frequencies changed ({_p(found)})."
    else:
        why = _why(found)
        yield f"{_ANYWAY}{why}." if found.adapted else f"Not adapted: {why}."
    if found.adapted and found.changed is not None:
        share = SHARE.value(found.changed / max(found.rows, 1))
        yield (
            f"{found.changed:,} of {found.rows:,} rows ({share}) now have another predicted class."
        )
    if found.set_aside:
        yield "Certified thresholds are no longer valid and were removed: certify again."


def _why(found: Adaptation) -> str:
    """Say what stands against it."""
    if found.verdict == "few":
        least = max(LEAST_ROWS, len(found.classes))
        return (
            f"class frequencies cannot be estimated from {found.rows:,} rows; at least "
            f"{least:,} are needed"
        )
    if found.verdict == "unchanged":
        asked = f"below {1 - found.level:.2g} is asked for"
        return f"class frequencies may be unchanged ({_p(found)}, {asked})"
    p = 0.0 if found.class_shift is None else found.class_shift.p_value or 0.0
    return (
        f"rows differ in more than class frequencies (p = {p:.1g}):"
        " the inputs themselves changed, which new frequencies cannot correct. Label some rows, "
        "and refresh or fit"
    )


def _p(found: Adaptation) -> str:
    p = found.p_value or 0.0
    return f"p = {p:.2g}" if p > 1e-99 else "p below 1e-99"


def table(found: Adaptation, n: int = 10) -> tuple[list[str], list[list[str]]]:
    """Return headers and rows of a table of the classes that moved most."""
    headers = ["class", PERCENT.heading("was"), PERCENT.heading("is"), "interval", "times"]
    rows = []
    for name, before, now, low, high in found.most_moved(n):
        ends = "" if low is None or high is None else PERCENT.interval(low, high)
        numbers = PERCENT.number(before), PERCENT.number(now)
        rows.append([name, *numbers, ends, f"{now / before:.2f}"])
    if not found.low:
        return headers[:3] + headers[4:], [row[:3] + row[4:] for row in rows]
    return headers, rows
