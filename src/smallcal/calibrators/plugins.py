"""What other packages add: methods (``smallcal.methods``) and commands (``smallcal.commands``).

Both are groups of entry points. One of ``smallcal.methods`` names a
:class:`~smallcal.calibrators.method.Method`, or a mapping of several by name; loading it imports
the package, and that is when its signals and maps become known by their kinds.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from smallcal.errors import InputError, MissingExtraError, missing_extra

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

METHODS, COMMANDS = "smallcal.methods", "smallcal.commands"


@cache
def offered(group: str) -> Mapping[str, EntryPoint]:
    """Return what installed packages offer in a group, by name; nothing is imported."""
    from importlib.metadata import entry_points  # it loads half the standard library

    return {entry.name: entry for entry in entry_points(group=group)}


@cache
def load(name: str, group: str) -> object:
    """Return what a package offers under a name.

    Raises
    ------
    KeyError
        If no package does.
    InputError
        If the package cannot be imported.
    """
    entry = offered(group)[name]
    what = "method" if group == METHODS else "command"
    try:
        return entry.load()
    except MissingExtraError:
        raise
    except Exception as error:  # whatever another package raises is its own, not a defect here
        package = entry.dist.name if entry.dist is not None else entry.module
        raise InputError(
            f"the {what} {name!r} of the package {package} cannot be loaded: "
            f"{type(error).__name__}: {error}",
            code="plugin-unusable",
        ) from error


@cache
def methods() -> Mapping[str, object]:
    """Load everything that packages offer as methods; what cannot be loaded is left out, named."""
    found: dict[str, object] = {}
    for name in offered(METHODS):
        try:
            one = load(name, METHODS)
        except (InputError, MissingExtraError) as error:
            warnings.warn(f"left out: {error}", RuntimeWarning, stacklevel=3)
        else:
            found.update(one if isinstance(one, Mapping) else {name: one})
    return found


def needs_lab(what: str) -> MissingExtraError:
    """Return the error for a command or a method of the lab where the lab is not installed.

    Examples
    --------
    >>> str(needs_lab("smallcal study"))
    "smallcal study needs the package 'smallcal-lab': pip install 'smallcal[lab]'"
    """
    return missing_extra("smallcal-lab", "lab", what)
