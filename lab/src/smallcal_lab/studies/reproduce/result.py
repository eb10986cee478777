"""What a reproduction found: every value beside its reference, and what could not be checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from smallcal_lab.studies.reproduce.reference import Value


@dataclass(frozen=True, kw_only=True)
class Row:
    """A value, found again or not.

    ``against`` is empty unless it is a difference. ``kind``, ``part`` and ``resampled`` say which
    number of the metric it is. ``reproduced`` and ``difference`` are None where a fit failed or
    the metric is not defined; ``error`` says which. ``decimals`` are those of the reference.
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
    """What came of it: a row for each value that could be checked, a reason for the others."""

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
    return {
        **{name: getattr(value, name) for name in ("table", "dataset", "backbone", "set")},
        **{"budget": value.budget, "method": value.label, "against": value.against},
        **{"metric": value.told, "kind": value.kind, "value": value.value},
        **({"doubt": value.doubt} if value.doubt else {}),
    }
