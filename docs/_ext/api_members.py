"""The API reference shows what smallcal defines, not what its classes inherit from others."""

from typing import Any

from sphinx.application import Sphinx


def is_foreign(member: Any) -> bool:
    """Tell whether a member of a class comes from another package.

    Examples
    --------
    >>> import smallcal as sc
    >>> from sklearn.base import BaseEstimator
    >>> is_foreign(sc.Calibrator.fit), is_foreign(BaseEstimator.get_params)
    (False, True)
    """
    inner = getattr(member, "fget", None) or getattr(member, "__func__", None) or member
    home = getattr(inner, "__module__", None)
    return home is not None and home.partition(".")[0] not in ("smallcal", "builtins")


def _skip(app: Sphinx, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:  # noqa: FBT001 - Sphinx's
    return True if what == "class" and is_foreign(member) else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Look at each member before it is documented."""
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
