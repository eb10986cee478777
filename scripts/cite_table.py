"""Write the tables of docs/cite.md: `python scripts/cite_table.py`.

Which works each method, metric and feature comes from, and the works themselves, all from the rows
and src/smallcal/data/references.bib. A test fails when the page is not up to date.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from smallcal.advice.cite import FEATURES
from smallcal.calibrators import plugins
from smallcal.calibrators.catalogue import ALIASES, METHODS
from smallcal.data.references import Entry, entries, entry, joined
from smallcal.metrics import METRICS

PAGE = Path(__file__).parents[1] / "docs" / "cite.md"
BEGIN, END = "<!-- {}: begin -->", "<!-- {}: end -->"


def table(what: str, cites: Mapping[str, Iterable[str]]) -> str:
    """Return a table of names that share their works, in the order of the rows."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for name, keys in cites.items():
        if found := tuple(keys):
            rows.setdefault(found, []).append(f"`{name}`")
    lines = [f"| {what} | cite |", "|---|---|"]
    for keys, names in rows.items():
        lines.append(f"| {', '.join(names)} | {'; '.join(map(_named, keys))} |")
    return "\n".join(lines)


def _named(key: str) -> str:
    """Return how the tables name a work: by its key too, where another has the same label."""
    label = entry(key).label
    alike = sum(work.label == label for work in entries().values())
    return label if alike == 1 else f"{label} (`{key}`)"


def methods() -> str:
    """Return the table of methods; another name stands beside the one it means."""
    others = plugins.offered(plugins.METHODS)
    own = {name: row.cites for name, row in METHODS.items() if name not in others}
    own |= {alias: own[name] for alias, name in ALIASES.items()}
    return table("methods", own)


def reference(work: Entry) -> str:
    """Return one line of the list of works."""
    where = work["journal"] or work["booktitle"] or work["publisher"] or work["note"]
    if not where and work["archiveprefix"]:
        where = f"{work['archiveprefix']}:{work['eprint']}"
    numbers = work["volume"] + (f"({work['number']})" if work["number"] else "")
    if work["pages"]:
        numbers += f":{work['pages']}" if numbers else f"pages {work['pages']}"
    told = ". ".join(
        part
        for part in (
            joined(work.authors),
            work["title"],
            ", ".join(part for part in (where, numbers, work["year"]) if part),
        )
        if part
    )
    link = f" [{work.link.partition('//')[2]}]({work.link})" if work.link else ""
    return f"- **{work.label}** (`{work.key}`). {told}.{link}"


def works() -> str:
    """Return the list of works, by label."""
    return "\n".join(reference(work) for work in sorted(entries().values(), key=_place))


def _place(work: Entry) -> tuple[str, str]:
    return work.label.casefold().removeprefix("the "), work.key


PARTS = {
    "methods": methods,
    "metrics": lambda: table("metrics", {name: row.cites for name, row in METRICS.items()}),
    "features": lambda: table("features", FEATURES),
    "works": works,
}


def updated(page: str) -> str:
    """Return the page with what stands between the marks made anew."""
    for name, made in PARTS.items():
        begin, end = BEGIN.format(name), END.format(name)
        before, _, rest = page.partition(begin)
        after = rest.partition(end)[2]
        page = f"{before}{begin}\n{made()}\n{end}{after}"
    return page


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
