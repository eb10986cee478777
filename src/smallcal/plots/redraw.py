"""Draw a plot from what its twin gave, also after that was JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from smallcal.errors import InputError
from smallcal.plots.forest_plot import Forest, ForestRow, draw_forest
from smallcal.plots.reliability_plot import (
    ReliabilityBins,
    Spread,
    draw_confidence_histogram,
    draw_reliability,
)
from smallcal.plots.risk_coverage_plot import RiskCurve, draw_risk_coverage
from smallcal.plots.risk_groups import (
    GroupBins,
    GroupResiduals,
    draw_group_residuals,
    draw_matched_confidence,
)
from smallcal.plots.shift_errors_plot import ShiftErrors, draw_shift_errors
from smallcal.plots.smooth_reliability_plot import SmoothCurve, draw_smooth_reliability
from smallcal.plots.temperature_signal_plot import TemperatureSignal, draw_temperature_signal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Plots of samples: the record that is drawn, and what draws it, or one for each name.
_PLOTS: Mapping[str, tuple[type, Callable[..., Axes]]] = MappingProxyType(
    {
        "reliability": (ReliabilityBins, draw_reliability),
        "smooth_reliability": (SmoothCurve, draw_smooth_reliability),
        "confidence_histogram": (Spread, draw_confidence_histogram),
        "matched_confidence": (GroupBins, draw_matched_confidence),
        "group_residuals": (GroupResiduals, draw_group_residuals),
        "risk_coverage": (RiskCurve, draw_risk_coverage),
        "shift_errors": (ShiftErrors, draw_shift_errors),
        "temperature_signal": (TemperatureSignal, draw_temperature_signal),
        "forest": (Forest, draw_forest),
    }
)
#: Those that draw a single record.
_SINGLE = ("temperature_signal", "forest")


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
    >>> redraw("forest", {"rows": [row], "xlabel": "ece15 (points)"}).get_xlabel()
    'ece15 (points)'
    """
    if plot not in _PLOTS:
        raise InputError(f"plot must be one of {', '.join(_PLOTS)}; got {plot!r}")
    kind, draw = _PLOTS[plot]
    if plot in _SINGLE:
        return draw(_thawed(kind, data), ax=ax)
    return draw({name: _thawed(kind, row) for name, row in data.items()}, ax=ax)


def _thawed(kind: type, row: Mapping[str, Any]) -> Any:
    return kind(**{field.name: _value(row[field.name]) for field in fields(kind)})


def _value(value: Any) -> Any:
    """Return numbers as an array, rows of a forest as such, anything else as it is."""
    if not isinstance(value, list | tuple) or any(isinstance(entry, str) for entry in value):
        return value
    if value and isinstance(value[0], Mapping):
        return tuple(ForestRow(**row) for row in value)
    if any(entry is None for entry in value):
        value = [np.nan if entry is None else entry for entry in value]
    return np.array(value)
