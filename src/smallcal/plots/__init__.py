"""Plots: each is a function that draws, and a twin ``..._data`` that returns what it draws.

>>> import smallcal as sc
>>> from smallcal import plots
>>> test = sc.load_demo("test")
>>> raw = sc.Identity().fit(test.logits, test.labels).predict_proba(test.logits)
>>> plots.reliability_data(test.labels, raw)["probs"].count.sum().item()
3000

The twins need no matplotlib. Names are loaded when first used.
"""

from typing import TYPE_CHECKING

from smallcal._lazy import attach

if TYPE_CHECKING:
    from smallcal.plots.cost_curve_plot import cost_curve as cost_curve
    from smallcal.plots.cost_curve_plot import cost_curve_data as cost_curve_data
    from smallcal.plots.forest_plot import forest as forest
    from smallcal.plots.forest_plot import forest_data as forest_data
    from smallcal.plots.net_benefit_plot import net_benefit as net_benefit
    from smallcal.plots.net_benefit_plot import net_benefit_data as net_benefit_data
    from smallcal.plots.reliability_plot import confidence_histogram as confidence_histogram
    from smallcal.plots.reliability_plot import (
        confidence_histogram_data as confidence_histogram_data,
    )
    from smallcal.plots.reliability_plot import reliability as reliability
    from smallcal.plots.reliability_plot import reliability_data as reliability_data
    from smallcal.plots.risk_coverage_plot import risk_coverage as risk_coverage
    from smallcal.plots.risk_coverage_plot import risk_coverage_data as risk_coverage_data
    from smallcal.plots.risk_groups import group_residuals as group_residuals
    from smallcal.plots.risk_groups import group_residuals_data as group_residuals_data
    from smallcal.plots.risk_groups import matched_confidence as matched_confidence
    from smallcal.plots.risk_groups import matched_confidence_data as matched_confidence_data
    from smallcal.plots.shift_errors_plot import shift_errors as shift_errors
    from smallcal.plots.shift_errors_plot import shift_errors_data as shift_errors_data
    from smallcal.plots.smooth_reliability_plot import smooth_reliability as smooth_reliability
    from smallcal.plots.smooth_reliability_plot import (
        smooth_reliability_data as smooth_reliability_data,
    )
    from smallcal.plots.studies.budget_curve import budget_curve as budget_curve
    from smallcal.plots.studies.budget_curve import budget_curve_data as budget_curve_data
    from smallcal.plots.studies.corruption_gain import corruption_gain as corruption_gain
    from smallcal.plots.studies.corruption_gain import corruption_gain_data as corruption_gain_data
    from smallcal.plots.studies.differences import difference_rows as difference_rows
    from smallcal.plots.studies.group_gaps import group_gaps as group_gaps
    from smallcal.plots.studies.group_gaps import group_gaps_data as group_gaps_data
    from smallcal.plots.studies.group_temperatures import group_temperatures as group_temperatures
    from smallcal.plots.studies.group_temperatures import (
        group_temperatures_data as group_temperatures_data,
    )
    from smallcal.plots.studies.k_ablation import k_ablation as k_ablation
    from smallcal.plots.studies.k_ablation import k_ablation_data as k_ablation_data
    from smallcal.plots.studies.risk_confidence import risk_confidence as risk_confidence
    from smallcal.plots.studies.risk_confidence import risk_confidence_data as risk_confidence_data
    from smallcal.plots.studies.risk_density import risk_density as risk_density
    from smallcal.plots.studies.risk_density import risk_density_data as risk_density_data
    from smallcal.plots.studies.risk_flow import risk_flow as risk_flow
    from smallcal.plots.studies.risk_flow import risk_flow_data as risk_flow_data
    from smallcal.plots.studies.severity_curve import severity_curve as severity_curve
    from smallcal.plots.studies.severity_curve import severity_curve_data as severity_curve_data
    from smallcal.plots.studies.within_margin import within_margin as within_margin
    from smallcal.plots.studies.within_margin import within_margin_data as within_margin_data
    from smallcal.plots.style import tips_of as tips_of
    from smallcal.plots.style import to_svg as to_svg
    from smallcal.plots.style import with_tips as with_tips
    from smallcal.plots.temperature_signal_plot import temperature_signal as temperature_signal
    from smallcal.plots.temperature_signal_plot import (
        temperature_signal_data as temperature_signal_data,
    )
else:  # checkers know the names above, and no others
    __getattr__, __dir__, __all__ = attach(
        __name__,
        {
            "cost_curve_plot": ["cost_curve", "cost_curve_data"],
            "forest_plot": ["forest", "forest_data"],
            "net_benefit_plot": ["net_benefit", "net_benefit_data"],
            "reliability_plot": [
                "confidence_histogram_data",
                "reliability",
                "reliability_data",
                "confidence_histogram",
            ],
            "risk_coverage_plot": ["risk_coverage", "risk_coverage_data"],
            "risk_groups": [
                "group_residuals",
                "group_residuals_data",
                "matched_confidence",
                "matched_confidence_data",
            ],
            "shift_errors_plot": ["shift_errors", "shift_errors_data"],
            "smooth_reliability_plot": ["smooth_reliability", "smooth_reliability_data"],
            "studies.budget_curve": ["budget_curve", "budget_curve_data"],
            "studies.corruption_gain": ["corruption_gain", "corruption_gain_data"],
            "studies.differences": ["difference_rows"],
            "studies.k_ablation": ["k_ablation", "k_ablation_data"],
            "studies.severity_curve": ["severity_curve", "severity_curve_data"],
            "studies.group_gaps": ["group_gaps", "group_gaps_data"],
            "studies.group_temperatures": ["group_temperatures", "group_temperatures_data"],
            "studies.risk_confidence": ["risk_confidence", "risk_confidence_data"],
            "studies.risk_density": ["risk_density", "risk_density_data"],
            "studies.risk_flow": ["risk_flow", "risk_flow_data"],
            "studies.within_margin": ["within_margin", "within_margin_data"],
            "style": ["tips_of", "to_svg", "with_tips"],
            "temperature_signal_plot": ["temperature_signal", "temperature_signal_data"],
        },
    )
