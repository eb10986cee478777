"""Write the paper's tables and figures into docs/lab/reproduce.md.

Labels, figures and numbers come from ``reference.json``, which numbers can be checked from the
reproduction itself, asked about a collection that has everything. A test fails when the page is
not up to date. What makes a number doubtful is told in its own words.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from perfect_collection import perfect_collection
from smallcal_lab.studies.reproduce.reference import PAPER, load_reference
from smallcal_lab.studies.reproduce.run import agenda_of

PAGE = Path(__file__).parents[1] / "docs" / "lab" / "reproduce.md"
BEGIN, END = "<!-- paper: begin -->", "<!-- paper: end -->"
TEXT = "in the text"


def table() -> str:
    """Return the list in Markdown."""
    content: dict[str, Any] = json.loads(PAPER.read_text(encoding="utf-8"))
    reference = load_reference()
    with tempfile.TemporaryDirectory() as folder:
        agenda = agenda_of(perfect_collection(Path(folder), reference), reference)
    places = [*content["labels"], TEXT]
    place = {value.table: value.table for value in reference.values}
    place |= {label: TEXT for label in place if label not in content["labels"]}
    studies: dict[str, dict[str, None]] = {label: {} for label in places}
    for value in reference.values:
        studies[place[value.table]][value.study] = None
    checked = Counter(place[claim.value.table] for claim in agenda.claims)
    reasons: dict[str, Counter[str]] = {label: Counter() for label in places}
    for reason, values in agenda.unchecked.items():
        for value in values:
            own = value.doubt if "in doubt" in reason else reason
            reasons[place[value.table]][own.partition("; ")[0]] += 1
    lines = ["| printed | study | numbers | checked | why not the rest |", "|---|---|---|---|---|"]
    skipped = {one["table"]: one for one in content["skipped"]}
    for label in places:
        about = content["figures"].get(label) or skipped.get(label) or {}
        total = checked[label] + reasons[label].total()
        why = [f"{count}: {reason}" for reason, count in reasons[label].most_common()]
        why += [about["why"]] if "why" in about else []
        cells = (_studies(about, studies[label]), _count(total), _count(checked[label]))
        lines.append(f"| {_code(label)} | {' | '.join(cells)} | {'; '.join(why)} |")
    total = len(reference.values)
    lines.append(f"| all | | {total:,} | {len(agenda.claims):,} | |")
    return "\n".join(lines)


def _studies(about: dict[str, str], found: dict[str, None]) -> str:
    """Return the studies that compute a place's numbers, and the figure that shows them."""
    names = [about["study"]] if "study" in about else list(found)
    text = ", ".join(f"`{name}`" for name in names)
    return text + (f": `{about['figure']}`" if "figure" in about else "")


def _count(number: int) -> str:
    return f"{number:,}" if number else ""


def _code(label: str) -> str:
    return label if label == TEXT else f"`{label}`"


def updated(page: str) -> str:
    """Return the page with the list between the marks made anew."""
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
