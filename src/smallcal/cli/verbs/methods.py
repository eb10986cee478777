"""``smallcal methods``: the methods by name."""

from __future__ import annotations

from smallcal.calibrators.catalogue import ALIASES, METHODS
from smallcal.cli import options, terminal


def methods(as_json: options.Json = False) -> None:
    """List all methods, with their names."""
    if as_json:
        rows = {
            name: {
                "title": row.title,
                "summary": row.summary,
                "objective": row.objective,
                "signal": row.signal,
                "map": row.map,
                "options": dict(row.options),
                "needs": list(row.needs),
                "deployable": row.deployable,
                "parameters": row.parameters,
                "source": row.source,
            }
            for name, row in METHODS.items()
        }
        terminal.show_json({"methods": rows, "aliases": dict(ALIASES)})
        return
    listed = [[name, f"{row.title}: {row.summary}"] for name, row in METHODS.items()]
    terminal.show_table(["name", "method"], listed, text=(0, 1))
    others = {true: [a for a, name in ALIASES.items() if name == true] for true in METHODS}
    known = [[name, ", ".join(names)] for name, names in others.items() if names]
    terminal.show_table(["name", "other names for it"], known, text=(0, 1))
