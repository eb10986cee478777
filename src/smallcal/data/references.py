"""The works that methods come from: entries of BibTeX, read once from ``references.bib``.

Rows of methods and metrics name entries by key, in ``cites``. A method of another package may hold
its entry itself instead of a key.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from smallcal._version import __version__
from smallcal.errors import InputError

#: The key of this package's own entry.
OURS = "smallcal"

_HEAD = re.compile(r"@(\w+)\s*\{\s*([^\s,{}]+)\s*,")
_FIELD = re.compile(r"\s*(\w+)\s*=\s*\{")
#: What LaTeX's accents are in Unicode: marks that follow their letter, and letters of their own.
_ACCENTS = {'"': "\u0308", "'": "\u0301", "`": "\u0300", "^": "\u0302", "~": "\u0303"}
_LETTERS = {"l": "ł", "L": "Ł", "o": "ø", "O": "Ø", "ss": "ß"}


@dataclass(frozen=True)
class Entry:
    r"""One work.

    Attributes
    ----------
    kind : str
        "article", "inproceedings", "misc" and so on.
    key : str
        What a text cites it by.
    fields : mapping of str to str
        As BibTeX has them, accents and braces included.

    Examples
    --------
    >>> found = entry("balanya2024adaptive")
    >>> found.label, found["journal"]
    ('Balanya, Maroñas and Ramos 2024', 'Neural Computing and Applications')
    """

    kind: str
    key: str
    fields: Mapping[str, str]

    def __getitem__(self, name: str) -> str:
        """Return a field for people: letters instead of LaTeX, no braces; "" if there is none."""
        return _plain(self.fields.get(name, ""))

    @property
    def bibtex(self) -> str:
        """The entry as BibTeX."""
        lines = (f"  {name} = {{{value}}},\n" for name, value in self.fields.items())
        return f"@{self.kind}{{{self.key},\n{''.join(lines)}}}"

    @property
    def authors(self) -> list[str]:
        """The authors for people, first names first."""
        return [
            " ".join(reversed(_plain(author).split(", ", 1)))
            for author in self.fields["author"].split(" and ")
        ]

    @property
    def label(self) -> str:
        """How a sentence names it: up to three surnames, or the first of more; the year."""
        names = [_plain(one.split(",")[0]) for one in self.fields["author"].split(" and ")]
        said = f"{names[0]} et al." if len(names) > 3 else joined(names)
        return f"{said} {self['year']}"

    @property
    def link(self) -> str:
        """Where it can be read, if that is known."""
        if self["doi"]:
            return f"https://doi.org/{self['doi']}"
        if self["archiveprefix"] == "arXiv":
            return f"https://arxiv.org/abs/{self['eprint']}"
        return self["url"]


def joined(names: list[str]) -> str:
    """Return names as a sentence has them.

    Examples
    --------
    >>> joined(["Ma", "Blaschko"]), joined(["Le Coz", "Herbin", "Adjed"])
    ('Ma and Blaschko', 'Le Coz, Herbin and Adjed')
    """
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


@cache
def entries() -> Mapping[str, Entry]:
    """Return every entry of the package by key; its own says the version that runs."""
    text = (files("smallcal.data") / "references.bib").read_text(encoding="utf-8")
    found = {one.key: one for one in parsed(text)}
    ours = found[OURS]
    found[OURS] = Entry(ours.kind, ours.key, {**ours.fields, "version": __version__})
    return MappingProxyType(found)


def entry(cited: str) -> Entry:
    """Return the entry of a key; or, of an entry itself, what it says.

    Examples
    --------
    >>> entry("guo2017calibration").label
    'Guo et al. 2017'
    >>> entry("@misc{doe2030, author = {Doe, Jane}, title = {A Map}, year = {2030}}").label
    'Doe 2030'
    """
    if cited in entries():
        return entries()[cited]
    found = list(parsed(cited))
    if len(found) != 1:
        raise InputError(
            f"cites must hold keys of references.bib or BibTeX; got {cited!r}",
            code="reference-invalid",
        )
    return found[0]


def parsed(text: str) -> Iterator[Entry]:
    """Yield the entries of a text; what is between them is ignored, as BibTeX does.

    An entry must have an author, a title and a year, and its values must stand in braces.
    """
    end = 0
    while head := _HEAD.search(text, end):
        kind, key = head.groups()
        fields, end = {}, head.end()
        while field := _FIELD.match(text, end):
            value, end = _braced(text, field.end(), key)
            fields[field[1].lower()] = " ".join(value.split())
            end += len(text[end:]) - len(text[end:].lstrip(" \t\r\n,"))
        if text[end : end + 1] != "}":
            raise InputError(
                f"the BibTeX entry {key!r} has a value that is not in braces",
                code="reference-invalid",
            )
        if missing := [name for name in ("author", "title", "year") if not fields.get(name)]:
            raise InputError(
                f"the BibTeX entry {key!r} has no {' and no '.join(missing)}",
                code="reference-invalid",
            )
        yield Entry(kind.lower(), key, MappingProxyType(fields))


def _braced(text: str, start: int, key: str) -> tuple[str, int]:
    """Return what stands between a brace that was opened and its end, and where that is."""
    depth = 1
    for place in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if not depth:
            return text[start:place], place + 1
    raise InputError(f"a brace of the BibTeX entry {key!r} is not closed", code="reference-invalid")


def _plain(latex: str) -> str:
    """Return LaTeX's words as people read them."""
    text = re.sub(r"\\([\"'`^~])\{?(\w)\}?", lambda found: found[2] + _ACCENTS[found[1]], latex)
    text = re.sub(r"\{\\(l|L|o|O|ss)\}", lambda found: _LETTERS[found[1]], text)
    text = text.replace("--", "–").replace("{", "").replace("}", "").replace("\\&", "&")
    return unicodedata.normalize("NFC", text)
