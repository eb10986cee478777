"""``smallcal methods``: the methods by name."""

from __future__ import annotations

from smallcal.calibrators.catalogue import ALIASES, METHODS
from smallcal.cli import options, terminal


def methods(as_json: options.Json = False) -> None:
    """List the methods by name."""
    if as_json:
        rows = {
            name: {
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
    listed = [[name, row.summary] for name, row in METHODS.items()]
    listed += [[alias, f"the same as {name}"] for alias, name in ALIASES.items()]
    terminal.show_table(["method", "what it does"], listed, text=(0, 1))
