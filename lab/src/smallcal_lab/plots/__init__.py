"""Plots of finished studies: each function draws, and its twin ``..._data`` returns the numbers.

The twins need no matplotlib.
"""

from smallcal_lab.plots.curves import (
    budget_curve,
    budget_curve_data,
    k_ablation,
    k_ablation_data,
    severity_curve,
    severity_curve_data,
    within_margin,
    within_margin_data,
)
from smallcal_lab.plots.points import (
    corruption_gain,
    corruption_gain_data,
    difference_rows,
    group_temperatures,
    group_temperatures_data,
)
from smallcal_lab.plots.risk import (
    group_gaps,
    group_gaps_data,
    risk_confidence,
    risk_confidence_data,
    risk_density,
    risk_density_data,
    risk_flow,
    risk_flow_data,
)

__all__ = [
    "budget_curve",
    "budget_curve_data",
    "corruption_gain",
    "corruption_gain_data",
    "difference_rows",
    "group_gaps",
    "group_gaps_data",
    "group_temperatures",
    "group_temperatures_data",
    "k_ablation",
    "k_ablation_data",
    "risk_confidence",
    "risk_confidence_data",
    "risk_density",
    "risk_density_data",
    "risk_flow",
    "risk_flow_data",
    "severity_curve",
    "severity_curve_data",
    "within_margin",
    "within_margin_data",
]
