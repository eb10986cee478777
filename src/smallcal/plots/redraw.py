"""Draw a plot from what its twin gave, also after that was JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import numpy as np

from smallcal import plots
from smallcal.errors import InputError
from smallcal.plots.forest_plot import ForestRow
from smallcal.plots.twins import Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Plots of samples.
_PLOTS = (
    "reliability",
    "smooth_reliability",
    "confidence_histogram",
    "matched_confidence",
    "group_residuals",
    "risk_coverage",
    "shift_errors",
    "temperature_signal",
    "forest",
    "cost_curve",
    "net_benefit",
)


def redraw(plot: str, data: Mapping[str, Any], *, ax: Axes | None = None) -> Axes:
    """Draw a sample plot from what its ``_data`` twin gave, as plain lists and numbers.

    Parameters
    ----------
    plot : str
        The plot's name, such as ``"reliability"``.
    data : mapping
        The twin's records as mappings, arrays as lists, and None for NaN.
    ax : Axes, optional

    Returns
    -------
    Axes

    Examples
    --------
    >>> row = {"label": "a", "value": -1.0, "low": -2.0, "high": -0.5}
    >>> row |= {"wide_low": -2.0, "wide_high": -0.5, "verdict": "better"}
    >>> redraw("forest", {"rows": [row], "xlabel": "ECE (points)"}).get_xlabel()
    'ECE (points)'
    """
    if plot not in _PLOTS:
        raise InputError(
            f"plot must be one of {', '.join(_PLOTS)}; got {plot!r}", code="unknown-choice"
        )
    drawn: Plot[...] = getattr(plots, plot)
    # A twin says that it returns a record, or one for each name.
    kind = get_type_hints(drawn.data)["return"]
    by_name = get_args(kind)
    if not by_name:
        return drawn.redraw(_thawed(kind, data), ax)
    return drawn.redraw({name: _thawed(by_name[1], row) for name, row in data.items()}, ax)


def _thawed(kind: type, row: Mapping[str, Any]) -> Any:
    # A report that was made before a record had a field does without it.
    known = (field.name for field in fields(kind) if field.name in row)
    return kind(**{name: _value(row[name]) for name in known})


def _value(value: Any) -> Any:
    """Return numbers as an array, rows of a forest as such, anything else as it is."""
    if not isinstance(value, list | tuple) or any(isinstance(entry, str) for entry in value):
        return value
    if value and isinstance(value[0], Mapping):
        return tuple(ForestRow(**row) for row in value)
    return np.array([np.nan if entry is None else entry for entry in value])
