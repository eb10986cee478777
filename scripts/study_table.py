"""Write the list of studies into docs/lab/studies.md: `python scripts/study_table.py`.

Everything in it comes from ``STUDIES``. A test fails when the page is not up to date.
"""

from __future__ import annotations

from pathlib import Path

from smallcal_lab.studies import STUDIES
from smallcal_lab.studies.frame import ALL

PAGE = Path(__file__).parents[1] / "docs" / "lab" / "studies.md"
BEGIN, END = "<!-- studies: begin -->", "<!-- studies: end -->"


def table() -> str:
    """Return the list in Markdown."""
    lines = ["| study | what it asks | fits on | against | tables |", "|---|---|---|---|---|"]
    for name, study in STUDIES.items():
        budgets = ", ".join("all" if n == ALL else f"{n:,}" for n in study.budgets)
        draws = f" x {study.draws} draws" if study.draws > 1 else ""
        tables = ", ".join(study.tables)
        lines.append(
            f"| `{name}` | {study.question} | {budgets}{draws} | `{study.baseline}` | {tables} |"
        )
    return "\n".join(lines)


def updated(page: str) -> str:
    """Return the page with the list between the marks made anew."""
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
