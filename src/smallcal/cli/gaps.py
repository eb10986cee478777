"""Gaps between confidence and accuracy by group, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from smallcal.cli import terminal
from smallcal.data.claims import CLAIMS
from smallcal.metrics.units import PERCENT, SHARE

#: Rows of a table; the others are in the JSON.
_MOST = 30


def show_gaps(
    rows: Sequence[Mapping[str, Any]],
    *,
    paired: bool = True,
    level: float = 0.95,
    kind: str = "logits",
) -> None:
    """Print how far confidence lies from accuracy in each group; ``paired`` with before."""
    claim = CLAIMS[kind]
    heads = ["group", "n", SHARE.heading(claim.accuracy)]
    heads += [*(["raw gap"] if paired else []), "gap", f"{100 * level:g} % interval"]
    effects = paired and any(row.get("effect") for row in rows)
    shown = []
    for row in rows[:_MOST]:
        cells = [row["group"], f"{row['n']:,}", SHARE.number(row["accuracy"])]
        cells += [_gap(row["raw_gap"], off=row["raw_off"])] if paired else []
        ends = PERCENT.interval(row["low"], row["high"], signed=True)
        cells += [_gap(row["gap"], off=row["off"]), ends]
        shown.append([*cells, *([f"{row['effect']:+.2f}"] if effects else [])])
    terminal.show_table([*heads, *(["effect"] if effects else [])], shown, text=(0,))
    more = len(rows) - _MOST
    terminal.say(
        f"Gap: mean {claim.confidence} minus {claim.accuracy} in points, positive where the model "
        "is overconfident; "
        "* means beyond chance after Holm's correction for the number of groups.",
        *([f"{more:,} more groups with smaller gaps: --json lists them."] if more > 0 else []),
    )


def _gap(gap: float, *, off: bool) -> str:
    return f"{PERCENT.number(gap, signed=True)}{'*' if off else ' '}"
