"""What is installed: the packages that smallcal needs, and those that its extras bring.

Everything is read from the metadata of installed packages, so nothing heavy is loaded.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata, util
from pathlib import Path

#: What each extra is for. Those of developers are left out: their packages change no result.
PURPOSES = {
    "parquet": "Parquet and Arrow files",
    "h5": "HDF5 files",
    "safetensors": "safetensors files",
    "torch": "PyTorch files, export and adapters",
    "formats": "every file format",
    "plots": "pictures (smallcal.plots)",
    "report": "reports as a web page",
    "onnx": "export to ONNX",
    "dask": "large files on many machines",
    "lab": "the paper's experiments and image models (smallcal study, train, logits, paper)",
    "all": "all of these but torch, formats and lab",
}
#: Packages whose module has another name.
_MODULES = {"scikit-learn": "sklearn"}
#: Where typer installs the completion of each shell, below the home folder.
_COMPLETIONS = {
    "bash": ".bash_completions/smallcal.sh",
    "zsh": ".zfunc/_smallcal",
    "fish": ".config/fish/completions/smallcal.fish",
}
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Package:
    """A package that is needed, and what is there of it.

    Attributes
    ----------
    name : str
    least : str
        The oldest version that will do; empty for any.
    found : str or None
        The version that is installed; None for none.
    whole : bool
        Whether its module is there too, as far as that was looked at.
    """

    name: str
    least: str
    found: str | None
    whole: bool = True

    @property
    def fine(self) -> bool:
        """Whether it is there, and new enough."""
        return (
            self.found is not None and self.whole and _release(self.found) >= _release(self.least)
        )

    def text(self) -> str:
        """Say what is there.

        Examples
        --------
        >>> Package("numpy", "1.26", "1.25.0").text()
        'numpy 1.25.0 is too old (1.26 or newer is needed)'
        """
        if self.found is None:
            return f"{self.name} is missing"
        if not self.whole:
            return f"{self.name} {self.found} is broken: its module is not there"
        if not self.fine:
            return f"{self.name} {self.found} is too old ({self.least} or newer is needed)"
        return f"{self.name} {self.found}"


def _release(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, without what makes it a pre-release or a local build."""
    start = re.match(r"[\d.]*", version)
    numbers = [int(part) for part in (start.group() if start else "").split(".") if part]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def core() -> list[Package]:
    """Return what smallcal cannot do without.

    Examples
    --------
    >>> [package.name for package in core() if not package.fine]
    []
    """
    return [_package(need, check=True) for need in _needs("")]


def extras() -> dict[str, list[Package]]:
    """Return the packages of each extra."""
    return {name: [_package(need) for need in _needs(name)] for name in PURPOSES}


def _package(need: str, *, check: bool = False) -> Package:
    name, least = re.match(r"([\w.-]+)(?:\[.*?\])?[^>]*(?:>=\s*([\w.]+))?", need).groups("")  # type: ignore[union-attr]
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Package(name, least, None)
    module = _MODULES.get(name, name.replace("-", "_"))
    return Package(name, least, found, not check or util.find_spec(module) is not None)


def _needs(extra: str) -> list[str]:
    """Return what the core, or an extra, needs; an extra of our own stands for its packages."""
    found: dict[str, None] = {}
    for need, marker in _requirements():
        if not _applies(marker, extra):
            continue
        own = re.match(r"smallcal\[(.*?)\]", need)
        names = [one for e in own.group(1).split(",") for one in _needs(e.strip())] if own else []
        found |= dict.fromkeys(names if own else [need])
    return list(found)


def _applies(marker: str, extra: str) -> bool:
    """Tell whether a requirement is one of the core (no extra) or of an extra, on this Python."""
    asked = re.search(r"extra\s*==\s*['\"]([\w.-]+)['\"]", marker)
    if (asked.group(1) if asked else "") != extra:
        return False
    older = re.search(r"python_version\s*<\s*['\"](\d+)\.(\d+)['\"]", marker)
    return older is None or sys.version_info < tuple(map(int, older.groups()))


@cache
def _requirements() -> Sequence[tuple[str, str]]:
    return [
        (need.strip(), marker)
        for need, _, marker in (line.partition(";") for line in metadata.requires("smallcal") or ())
    ]


def cores() -> int:
    """Return how many processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def thread_limits() -> dict[str, str]:
    """Return the environment's limits on threads, as far as they are set."""
    return {name: os.environ[name] for name in _THREADS if name in os.environ}


def completed_shells() -> Iterator[str]:
    """Yield the shells for which completion is installed."""
    home = Path(os.path.expanduser("~"))
    for shell, file in _COMPLETIONS.items():
        if (home / file).is_file():
            yield shell
