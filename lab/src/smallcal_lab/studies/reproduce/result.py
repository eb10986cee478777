"""What a reproduction found: every value beside its reference, and what could not be checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from smallcal_lab.studies.reproduce.reference import Value


@dataclass(frozen=True, kw_only=True)
class Row:
    """A value, found again or not.

    Attributes
    ----------
    table : str
        Where it is printed.
    dataset, backbone, set : str
    budget, draws, seeds : int
    method, against, metric, unit : str
        ``against`` is empty unless it is a difference.
    kind, part, resampled : str
        Which number of the metric it is: see
        :class:`~smallcal_lab.studies.reproduce.reference.Value`.
    reference, spread : float
        As printed; ``spread`` may be None.
    reproduced, difference : float or None
        None where a fit failed or the metric is not defined; ``error`` says which.
    tolerance : float
    verdict : "PASS" or "FAIL"
    error : str
    decimals : int
        With which the reference is printed.
    """

    table: str
    dataset: str
    backbone: str
    set: str
    budget: int
    draws: int
    seeds: int
    method: str
    against: str
    metric: str
    unit: str
    reference: float
    spread: float | None
    reproduced: float | None
    difference: float | None
    tolerance: float
    verdict: Literal["PASS", "FAIL"]
    error: str = ""
    decimals: int = 2
    kind: str = "value"
    part: str = "value"
    resampled: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class Reproduction:
    """What came of it.

    Attributes
    ----------
    rows : tuple of Row
        The values that could be checked.
    unchecked : dict
        Reason to the values that could not.
    """

    rows: tuple[Row, ...]
    unchecked: Mapping[str, tuple[Value, ...]]

    @property
    def n_failed(self) -> int:
        """How many values were not reproduced."""
        return sum(row.verdict == "FAIL" for row in self.rows)

    @property
    def n_unchecked(self) -> int:
        """How many values could not be checked."""
        return sum(map(len, self.unchecked.values()))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "passed": len(self.rows) - self.n_failed,
            "failed": self.n_failed,
            "not_checked": self.n_unchecked,
            "rows": [asdict(row) for row in self.rows],
            "unchecked": [
                {"reason": reason, "count": len(values), "values": [_named(v) for v in values]}
                for reason, values in self.unchecked.items()
            ],
        }


def _named(value: Value) -> dict[str, Any]:
    """Return what a value is of."""
    place = {name: getattr(value, name) for name in ("table", "dataset", "backbone", "set")}
    what = {"method": value.label, "against": value.against, "metric": value.told}
    why = {"doubt": value.doubt} if value.doubt else {}
    return {
        **place,
        "budget": value.budget,
        **what,
        "kind": value.kind,
        "value": value.value,
        **why,
    }
