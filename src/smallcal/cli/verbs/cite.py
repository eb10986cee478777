"""``smallcal cite``: what to cite, as BibTeX."""

from __future__ import annotations

import sys
from typing import Annotated

from smallcal.advice.cite import BibTeX
from smallcal.advice.cite import cite as cited
from smallcal.cli import options, terminal
from smallcal.cli.choices import words
from smallcal.data.references import Entry


def cite(
    method: Annotated[
        list[str] | None,
        options.argument(
            "[NAME]...",
            "Methods, metrics, certify, prediction-sets, adapt, monitor; or all. Without a name, "
            "smallcal itself and the paper of SRTS.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Print what to cite for methods and metrics, or for smallcal itself, as BibTeX."""
    names = [name for text in method or [] for name in words(text, "NAME")]
    found = cited(names or None)
    if as_json:
        terminal.show_json(_document(found))
    else:
        sys.stdout.write(f"{found}\n")


def _document(found: BibTeX) -> dict[str, object]:
    """Return which entries each name has, and the entries."""
    works = {work.key: work for row in found.sources.values() for work in row}
    return {
        "names": {name: [work.key for work in row] for name, row in found.sources.items()},
        "entries": {key: _fields(work) for key, work in works.items()},
    }


def _fields(work: Entry) -> dict[str, object]:
    own = {name: work[name] for name in work.fields if name != "author"}
    return {
        "type": work.kind,
        "label": work.label,
        "authors": work.authors,
        **own,
        "bibtex": work.bibtex,
    }
