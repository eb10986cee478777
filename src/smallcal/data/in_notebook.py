"""What a notebook shows of a result: a table and a picture instead of the text of ``repr``.

Results inherit from :class:`InNotebook`, in whatever room they are. How each of them looks is
written in :mod:`smallcal.reports.notebook`, over the plots; it is loaded when a notebook asks.
"""

from __future__ import annotations

from typing import Any


def html_of(result: object) -> str | None:
    """Return what a notebook shows of a result; None where ``repr`` has to do.

    Examples
    --------
    >>> import smallcal as sc
    >>> found = sc.evaluate([0, 1], [[0.75, 0.25], [0.5, 0.5]], metrics=["accuracy"])
    >>> "accuracy" in html_of(found)
    True
    >>> html_of(1.0) is None
    True
    """
    try:
        from smallcal.reports.notebook import view

        return view(result)
    except ImportError:  # smallcal.runtime may stand on NumPy alone
        return None


class InNotebook:
    """A result that notebooks show as HTML.

    Examples
    --------
    >>> InNotebook()._repr_html_() is None   # nothing says how to show this one
    True
    """

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        return html_of(self)


class EstimatorInNotebook:
    """The same for scikit-learn's estimators, which have a diagram of their own.

    Stands before ``BaseEstimator`` among the bases. Where ``sklearn.set_config(display="text")``
    is set there is no HTML; where :func:`html_of` has none, it is scikit-learn's diagram.
    """

    __slots__ = ()

    def _repr_html_inner(self) -> str:
        shown: Any = html_of(self)
        return super()._repr_html_inner() if shown is None else shown  # type: ignore[misc, no-any-return]

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        found = {"text/plain": repr(self)}
        # A property of scikit-learn's, which is not there where text is asked for.
        inner = getattr(self, "_repr_html_", None)
        return found if inner is None else {**found, "text/html": inner()}
