"""Costs of decisions on the command line: what was typed, and the table that is printed."""

from __future__ import annotations

from collections.abc import Sequence

from smallcal.advice.cost_table import CostTable
from smallcal.advice.cost_words import costs_of
from smallcal.advice.costs import Costs
from smallcal.advice.expected_cost import RULES, ExpectedCost
from smallcal.cli import inputs, terminal
from smallcal.data.claims import CLAIMS
from smallcal.data.names import listed
from smallcal.errors import InputError
from smallcal.metrics.units import SHARE


def read(text: str | None) -> Costs | None:
    """Return the costs that ``--cost`` names, or None where it was not given."""
    if text is None:
        return None
    with inputs.naming("--cost"):
        return costs_of(text)


def table_for(
    costs: Costs, n_classes: int, class_names: Sequence[str] | None, *, score: bool
) -> CostTable:
    """Return the costs of this model's decisions; what was assumed is said."""
    with inputs.naming("--cost"):
        if costs.classes is not None and (score or class_names is None):
            must = "call its rows and columns 0 and 1" if score else "name those with --class-names"
            raise InputError(
                f"the matrix names classes ({listed(costs.classes)}), and the data do not; {must}",
                code="costs-invalid",
            )
        table = costs.table(n_classes, None if score else class_names, score=score)
    terminal.note(*(f"--cost: {text}" for text in table.notes))
    return table


def show(found: ExpectedCost, table: CostTable, *, level: float, kind: str) -> None:
    """Print what the decisions cost, beside those of other rules."""
    unit, claim = table.unit, CLAIMS[kind]
    resampled = bool(found.cost.n_boot)
    own = "best decisions" if "raw" not in found.others else "best decisions, calibrated"
    rows = [[own, unit.number(found.cost.point)]]
    if resampled:
        rows[0] += [unit.interval(*found.cost), "", ""]
    for name, row in found.others.items():
        gain = found.gains[name]
        cells = [RULES[name].format(raw=claim.raw), unit.number(row.point)]
        if resampled:
            cells += [unit.interval(*row), unit.number(gain.point, signed=True)]
            cells += [unit.interval(*gain, signed=True)]
        rows.append(cells)
    ends = f"{100 * level:g} % interval"
    heads = ["decisions", "mean cost", *([ends, "saved", ends] if resampled else [])]
    terminal.say(f"Costs: {table.text}.")
    terminal.show_table(heads, rows, text=(0,))
    said = [
        f"By the costs alone: {table.rule}.",
        f"Expected from the probabilities: {unit.number(found.promised)} per row.",
    ]
    if table.review is not None:
        said.append(f"Passed on for review: {SHARE.value(found.reviewed)} of rows.")
    terminal.say(" ".join(said))
    if resampled:
        terminal.say(
            "Saved: the cost of this row of the table minus that of the best decisions, paired by "
            "sample."
        )
