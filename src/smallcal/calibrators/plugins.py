"""Methods and parts from other packages, through the entry points ``smallcal.methods``.

Each entry point names one :class:`~smallcal.calibrators.method.Method`. Loading it imports the
package, and that is when its signals and maps become known by their kinds. Standard library only.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from smallcal.errors import InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "smallcal.methods"


@cache
def offered() -> Mapping[str, EntryPoint]:
    """Return what installed packages offer, by name; nothing is imported."""
    from importlib.metadata import entry_points  # it loads half the standard library

    return {entry.name: entry for entry in entry_points(group=GROUP)}


@cache
def load(name: str) -> object:
    """Return what a package offers under a name.

    Raises
    ------
    KeyError
        If no package does.
    InputError
        If the package cannot be imported.
    """
    entry = offered()[name]
    try:
        return entry.load()
    except Exception as error:  # whatever another package raises is its own, not a defect here
        package = entry.dist.name if entry.dist is not None else entry.module
        raise InputError(
            f"the method {name!r} of the package {package} cannot be loaded: "
            f"{type(error).__name__}: {error}"
        ) from error


@cache
def usable() -> tuple[str, ...]:
    """Load everything that packages offer, and return the names that could be."""
    found = []
    for name in offered():
        try:
            load(name)
        except InputError as error:
            warnings.warn(f"left out: {error}", RuntimeWarning, stacklevel=3)
        else:
            found.append(name)
    return tuple(found)
