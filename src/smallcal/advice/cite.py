"""What to cite: BibTeX for smallcal, and for the works that its methods and metrics come from."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from smallcal.calibrators.catalogue import ALIASES, METHODS, true_name
from smallcal.data.references import OURS, Entry, entry
from smallcal.errors import InputError, did_you_mean
from smallcal.metrics.table import METRICS

#: What to cite where nothing is named: the package, and the paper whose method it is built around.
ITSELF = (OURS, "liang2026srts")

#: Verbs and functions that rest on works of their own.
FEATURES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "certify": ("angelopoulos2025learn",),
        "prediction-sets": (
            "vovk2005algorithmic",
            "papadopoulos2002inductive",
            "sadinle2019least",
            "romano2020classification",
            "angelopoulos2021uncertainty",
        ),
        "adapt": ("saerens2002adjusting", "lipton2018detecting"),
        "monitor": ("saerens2002adjusting", "lipton2018detecting"),
    }
)


class BibTeX(str):
    """Entries of BibTeX as text, which a prompt shows as it is.

    Attributes
    ----------
    sources : mapping of str to tuple of Entry
        The entries of each name that was asked for.
    """

    sources: Mapping[str, tuple[Entry, ...]]

    def __new__(cls, sources: Mapping[str, tuple[Entry, ...]]) -> BibTeX:
        """Write each entry once, in the order they are asked for; of several names, for which."""
        names: dict[str, list[str]] = {}
        found: dict[str, Entry] = {}
        for name, works in sources.items():
            for work in works:
                found.setdefault(work.key, work)
                names.setdefault(work.key, []).append(name)
        several = len(sources) > 1
        blocks = (
            (f"{_comment(names[key])}\n" if several else "") + work.bibtex
            for key, work in found.items()
        )
        made = super().__new__(cls, "\n\n".join(blocks))
        made.sources = MappingProxyType(dict(sources))
        return made

    def __repr__(self) -> str:
        return str(self)

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Travel as plain text."""
        return str, (str(self),)


def cite(method: str | Iterable[str] | None = None) -> BibTeX:
    """Return what to cite, as BibTeX.

    Parameters
    ----------
    method : str or list of str, optional
        A name in :func:`smallcal.methods`, a metric such as "smece", or one of "certify",
        "prediction-sets", "adapt" and "monitor"; several names; or "all". By default smallcal
        itself and the paper of SRTS.

    Returns
    -------
    BibTeX
        A ``str``; a prompt shows it as it is.

    Examples
    --------
    >>> cite("ts-brier")
    @misc{liang2026srts,
      author = {Liang, Wenhao and Zheng, Liangwei Nathan and ...},
      title = {Signal-Routed Temperature Scaling: Low-Capacity ...},
      year = {2026},
      note = {Preprint, Adelaide University},
    }
    >>> [work.label for work in cite(["ts", "smece"]).sources["smece"]]
    ['Błasiok and Nakkiran 2024']
    """
    if method is None:
        return BibTeX({OURS: tuple(map(entry, ITSELF))})
    names = _listed(method)
    if not names:
        raise InputError("cite was given an empty list of names", code="empty")
    if "all" in names:
        metrics = (name for name, row in METRICS.items() if row.cites)
        names = [OURS, *METHODS, *metrics, *FEATURES]
    return BibTeX({name: works(name) for name in names})


def _listed(method: object) -> list[str]:
    """Return the names that were given, one or several."""
    given = method if isinstance(method, Iterable) and not isinstance(method, str) else [method]
    names: list[str] = []
    for name in given:
        if not isinstance(name, str):
            kind = type(name).__name__
            raise InputError(
                f"cite takes the name of a method, or a list of names; got {kind}",
                code="option-type",
            )
        names.append(name)
    return names


def works(name: str) -> tuple[Entry, ...]:
    """Return the entries of one method, metric or feature.

    Examples
    --------
    >>> [work.label for work in works("isotonic")]
    ['Zadrozny and Elkan 2002', 'Pedregosa et al. 2011']
    """
    if name == OURS:
        return tuple(map(entry, ITSELF))
    if name in FEATURES:
        return tuple(map(entry, FEATURES[name]))
    if name in METRICS:
        cites, source = METRICS[name].cites, ""
    else:
        try:  # of a variant, what stands before its options
            row = METHODS[true_name(name.partition("[")[0])]
        except KeyError:
            raise _unknown(name) from None
        cites, source = row.cites, row.source
    if not cites:
        said = f"; its author says: {source}" if source else ""
        raise InputError(f"{name} names no work to cite{said}", code="unknown-choice")
    return tuple(map(entry, cites))


def _unknown(name: str) -> InputError:
    """Build the error for a name that is neither a method nor a metric nor a feature."""
    meant = did_you_mean(name, [*METHODS, *ALIASES, *METRICS, *FEATURES])
    return InputError(
        f"unknown method or metric {name!r}; ",
        python=meant or "smallcal.methods() lists methods",
        shell=meant or "`smallcal methods` lists methods",
        code="method-unknown",
    )


def _comment(names: list[str]) -> str:
    """Return for which names an entry is; BibTeX ignores it."""
    text = f"For {', '.join(names)}"
    return textwrap.fill(
        text, 88, initial_indent="% ", subsequent_indent="% ", break_on_hyphens=False
    )
