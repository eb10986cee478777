"""Plots: each is a function that draws, and a twin ``..._data`` that returns what it draws.

>>> import smallcal as sc
>>> from smallcal import plots
>>> test = sc.load_demo("test")
>>> raw = sc.Identity().fit(test.logits, test.labels).predict_proba(test.logits)
>>> plots.reliability_data(test.labels, raw)["probs"].count.sum().item()
3000

The twins need no matplotlib. Names are loaded when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smallcal.plots.binned import confidence_histogram as confidence_histogram
    from smallcal.plots.binned import confidence_histogram_data as confidence_histogram_data
    from smallcal.plots.binned import reliability as reliability
    from smallcal.plots.binned import reliability_data as reliability_data
    from smallcal.plots.budgets import budget_curve as budget_curve
    from smallcal.plots.budgets import budget_curve_data as budget_curve_data
    from smallcal.plots.capacity import k_ablation as k_ablation
    from smallcal.plots.capacity import k_ablation_data as k_ablation_data
    from smallcal.plots.corruptions import corruption_gain as corruption_gain
    from smallcal.plots.corruptions import corruption_gain_data as corruption_gain_data
    from smallcal.plots.coverage import risk_coverage as risk_coverage
    from smallcal.plots.coverage import risk_coverage_data as risk_coverage_data
    from smallcal.plots.paired import forest as forest
    from smallcal.plots.paired import forest_data as forest_data
    from smallcal.plots.routed import group_residuals as group_residuals
    from smallcal.plots.routed import group_residuals_data as group_residuals_data
    from smallcal.plots.routed import matched_confidence as matched_confidence
    from smallcal.plots.routed import matched_confidence_data as matched_confidence_data
    from smallcal.plots.severity import severity_curve as severity_curve
    from smallcal.plots.severity import severity_curve_data as severity_curve_data
    from smallcal.plots.shifted import shift_errors as shift_errors
    from smallcal.plots.shifted import shift_errors_data as shift_errors_data
    from smallcal.plots.smoothed import smooth_reliability as smooth_reliability
    from smallcal.plots.smoothed import smooth_reliability_data as smooth_reliability_data
    from smallcal.plots.style import tips_of as tips_of
    from smallcal.plots.style import to_svg as to_svg
    from smallcal.plots.style import with_tips as with_tips
    from smallcal.plots.temperatures import temperature_signal as temperature_signal
    from smallcal.plots.temperatures import temperature_signal_data as temperature_signal_data
    from smallcal.plots.verdicts import difference_rows as difference_rows

_HOME = {
    "budget_curve": "budgets",
    "budget_curve_data": "budgets",
    "corruption_gain": "corruptions",
    "corruption_gain_data": "corruptions",
    "difference_rows": "verdicts",
    "k_ablation": "capacity",
    "k_ablation_data": "capacity",
    "severity_curve": "severity",
    "severity_curve_data": "severity",
    "shift_errors": "shifted",
    "shift_errors_data": "shifted",
    "confidence_histogram": "binned",
    "confidence_histogram_data": "binned",
    "forest": "paired",
    "forest_data": "paired",
    "group_residuals": "routed",
    "group_residuals_data": "routed",
    "matched_confidence": "routed",
    "matched_confidence_data": "routed",
    "reliability": "binned",
    "reliability_data": "binned",
    "risk_coverage": "coverage",
    "risk_coverage_data": "coverage",
    "smooth_reliability": "smoothed",
    "smooth_reliability_data": "smoothed",
    "temperature_signal": "temperatures",
    "temperature_signal_data": "temperatures",
    "tips_of": "style",
    "to_svg": "style",
    "with_tips": "style",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'smallcal.plots' has no attribute {name!r}")
    value = getattr(import_module(f"smallcal.plots.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
