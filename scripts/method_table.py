"""Write what the docs say of every method, part and metric: `python scripts/method_table.py`.

The table in docs/reference/methods.md comes from the catalogue, that of names in docs/glossary.md
from the metrics, the schema docs/reference/calibrator-v3.json from the parts. A test fails when one
is not up to date.
"""

from __future__ import annotations

import json
from pathlib import Path

from smallcal.calibrators import artefact
from smallcal.calibrators.catalogue import ALIASES, LAB, METHODS
from smallcal.calibrators.maps import RECIPES
from smallcal.calibrators.method import Method
from smallcal.calibrators.signals import ROUTES
from smallcal.metrics import METRICS
from smallcal_lab.methods.peers import PEERS

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "methods.md"
SCHEMA = PAGE.with_name("calibrator-v3.json")
GLOSSARY = PAGE.parents[1] / "glossary.md"


def discipline(row: Method) -> str:
    """Return what keeps a method's fit honest, beside bounds."""
    found = []
    found += [part.care for part in (ROUTES[row.signal], RECIPES[row.map]) if part.care]
    if row.map == "head":
        found.append({"held-out": "chosen on a fifth"}.get(row.options["protocol"], "none"))
    if row.options.get("prior_scale") is not None:
        found.append("normal prior")
    return ", ".join(found) or "–"


def table() -> str:
    """Return the table in Markdown."""
    lines = [
        "| name | method | package | objective | signal | map | discipline | parameters "
        "| argmax kept | in the paper | good for |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, row in METHODS.items():
        kept = PEERS[name].preserves_argmax if row.map == "peer" else row.keeps_argmax
        others = ", ".join(f"`{other}`" for other, true in ALIASES.items() if true == name)
        alias = f" (= {others})" if others else ""
        cells = [
            f"`{name}`{alias}",
            row.title,
            "lab" if name in LAB else "smallcal",
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


def metric_names() -> str:
    """Return what code and people call each metric, in Markdown."""
    lines = [
        "| in tables and sentences | in code | what it measures | better |",
        "|---|---|---|---|",
    ]
    better = {"lower": "lower", "higher": "higher", "zero": "near zero"}
    lines += [
        f"| {row.title} | `{name}` | {row.summary} | {better[row.better]} |"
        for name, row in METRICS.items()
    ]
    return "\n".join(lines)


def updated(page: str, what: str, made: str) -> str:
    """Return a page with what stands between the marks of its name made anew."""
    begin, end = f"<!-- {what}: begin -->", f"<!-- {what}: end -->"
    before, _, rest = page.partition(begin)
    after = rest.partition(end)[2]
    return f"{before}{begin}\n{made}\n{end}{after}"


#: Each generated page with the name of its marks and what stands between them.
TABLES = ((PAGE, "methods", table), (GLOSSARY, "metrics", metric_names))


def schema() -> str:
    """Return the JSON Schema of calibrators."""
    return json.dumps(artefact.schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for page, what, make in TABLES:
        page.write_text(updated(page.read_text(encoding="utf-8"), what, make()), encoding="utf-8")
    SCHEMA.write_text(schema(), encoding="utf-8")
