"""``smallcal study list``: the studies, and what they ask."""

from __future__ import annotations

from smallcal.cli import options, terminal
from smallcal_lab.studies import STUDIES


def study_list(as_json: options.Json = False) -> None:
    """List the studies and their questions."""
    if as_json:
        rows = {
            name: {
                **one.document(),
                "title": one.title,
                "question": one.question,
                "tables": list(one.tables),
            }
            for name, one in STUDIES.items()
        }
        terminal.show_json({"studies": rows})
        return
    asked = [[name, one.question] for name, one in STUDIES.items()]
    terminal.show_table(["study", "what it asks"], asked, text=(0, 1))
