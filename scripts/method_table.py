"""Write what the docs say of every method and part: `python scripts/method_table.py`.

The table in docs/reference/methods.md comes from the catalogue, the schema in
docs/reference/calibrator-v2.json from the parts. A test fails when either is not up to date.
"""

from __future__ import annotations

import json
from pathlib import Path

from smallcal.calibrators import artefact
from smallcal.calibrators.catalogue import ALIASES, METHODS
from smallcal.calibrators.maps import RECIPES
from smallcal.calibrators.maps.peers import PEERS
from smallcal.calibrators.method import Method
from smallcal.calibrators.signals import ROUTES

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "methods.md"
SCHEMA = PAGE.with_name("calibrator-v2.json")
BEGIN, END = "<!-- methods: begin -->", "<!-- methods: end -->"


def discipline(row: Method) -> str:
    """Return what keeps a method's fit honest, beside bounds."""
    found = []
    found += [part.care for part in (ROUTES[row.signal], RECIPES[row.map]) if part.care]
    if row.map == "head":
        found.append({"held-out": "chosen on a fifth"}.get(row.options["protocol"], "none"))
    if row.options.get("prior_scale") is not None:
        found.append("normal prior")
    if row.gate is not None:
        weighed = row.gate == "weight"
        found.append("as far as supported" if weighed else "left alone without evidence")
    return ", ".join(found) or "–"


def table() -> str:
    """Return the table in Markdown."""
    lines = [
        "| name | objective | signal | map | discipline | parameters "
        "| argmax kept | in the paper | good for |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, row in METHODS.items():
        kept = PEERS[name].preserves_argmax if row.map == "peer" else row.keeps_argmax
        others = ", ".join(f"`{other}`" for other, true in ALIASES.items() if true == name)
        alias = f" (= {others})" if others else ""
        cells = [
            f"`{name}`{alias}",
            row.objective if row.map not in ("identity", "peer") else "–",
            row.signal.replace("_", " ") if row.signal != "none" else "–",
            row.map.replace("_", " "),
            discipline(row),
            row.parameters or "by the data",
            "yes" if kept else "no",
            row.paper or "–",
            row.good_for,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def updated(page: str) -> str:
    """Return the page with the table between the marks made anew."""
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def schema() -> str:
    """Return the JSON Schema of calibrators."""
    return json.dumps(artefact.schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    SCHEMA.write_text(schema(), encoding="utf-8")
