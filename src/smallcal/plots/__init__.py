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
            "style": ["tips_of", "to_svg", "with_tips"],
            "temperature_signal_plot": ["temperature_signal", "temperature_signal_data"],
        },
    )
