"""Names that load their module when first used.

The library lazy_loader does the same, but ``smallcal.runtime`` promises to work where NumPy is all
that is installed, and importing it runs ``smallcal/__init__.py``.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def attach(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    Parameters
    ----------
    package : str
        Its name.
    homes : mapping
        Modules below the package, with the names that each gives it.
    """
    home_of = {name: f"{package}.{home}" for home, names in homes.items() for name in names}

    def load(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home_of[name]), name)
        setattr(import_module(package), name, value)
        return value

    public = list(home_of)
    # The same list as ``__all__``, which a package may extend by names of its own.
    return load, lambda: sorted(public), public
