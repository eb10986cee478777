"""Plots of finished studies: each function draws, and its twin ``..._data`` returns the numbers.

The twins need no matplotlib. Names are loaded when first used.
"""

from typing import TYPE_CHECKING

from smallcal._lazy import attach

if TYPE_CHECKING:
    from smallcal_lab.plots.budget_curve_plot import budget_curve as budget_curve
    from smallcal_lab.plots.budget_curve_plot import budget_curve_data as budget_curve_data
    from smallcal_lab.plots.corruption_gain_plot import corruption_gain as corruption_gain
    from smallcal_lab.plots.corruption_gain_plot import corruption_gain_data as corruption_gain_data
    from smallcal_lab.plots.differences import difference_rows as difference_rows
    from smallcal_lab.plots.group_gaps_plot import group_gaps as group_gaps
    from smallcal_lab.plots.group_gaps_plot import group_gaps_data as group_gaps_data
    from smallcal_lab.plots.group_temperatures_plot import group_temperatures as group_temperatures
    from smallcal_lab.plots.group_temperatures_plot import (
        group_temperatures_data as group_temperatures_data,
    )
    from smallcal_lab.plots.k_ablation_plot import k_ablation as k_ablation
    from smallcal_lab.plots.k_ablation_plot import k_ablation_data as k_ablation_data
    from smallcal_lab.plots.risk_confidence_plot import risk_confidence as risk_confidence
    from smallcal_lab.plots.risk_confidence_plot import risk_confidence_data as risk_confidence_data
    from smallcal_lab.plots.risk_density_plot import risk_density as risk_density
    from smallcal_lab.plots.risk_density_plot import risk_density_data as risk_density_data
    from smallcal_lab.plots.risk_flow_plot import risk_flow as risk_flow
    from smallcal_lab.plots.risk_flow_plot import risk_flow_data as risk_flow_data
    from smallcal_lab.plots.severity_curve_plot import severity_curve as severity_curve
    from smallcal_lab.plots.severity_curve_plot import severity_curve_data as severity_curve_data
    from smallcal_lab.plots.within_margin_plot import within_margin as within_margin
    from smallcal_lab.plots.within_margin_plot import within_margin_data as within_margin_data
else:  # checkers know the names above, and no others
    __getattr__, __dir__, __all__ = attach(
        __name__,
        {
            "budget_curve_plot": ["budget_curve", "budget_curve_data"],
            "corruption_gain_plot": ["corruption_gain", "corruption_gain_data"],
            "differences": ["difference_rows"],
            "k_ablation_plot": ["k_ablation", "k_ablation_data"],
            "severity_curve_plot": ["severity_curve", "severity_curve_data"],
            "group_gaps_plot": ["group_gaps", "group_gaps_data"],
            "group_temperatures_plot": ["group_temperatures", "group_temperatures_data"],
            "risk_confidence_plot": ["risk_confidence", "risk_confidence_data"],
            "risk_density_plot": ["risk_density", "risk_density_data"],
            "risk_flow_plot": ["risk_flow", "risk_flow_data"],
            "within_margin_plot": ["within_margin", "within_margin_data"],
        },
    )
