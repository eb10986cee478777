"""Metrics of class probabilities: plain functions ``metric(y_true, y_proba)``.

``METRICS`` is the table of all of them and :func:`evaluate` computes them together.
"""

from __future__ import annotations

from smallcal.metrics.binned import adaece, classwise_ece, ece
from smallcal.metrics.proper import accuracy, brier, nll, top_label_bce
from smallcal.metrics.scored import Scored
from smallcal.metrics.selective import aurc, auroc_of_correctness, eaurc, selective_risk
from smallcal.metrics.smooth import smece, smece_exact
from smallcal.metrics.table import METRICS, Metric
from smallcal.metrics.threshold import (
    confidence_gap,
    coverage_at_threshold,
    hcfp,
    risk_at_threshold,
)

__all__ = [
    "METRICS",
    "Metric",
    "Scored",
    "accuracy",
    "adaece",
    "aurc",
    "auroc_of_correctness",
    "brier",
    "classwise_ece",
    "confidence_gap",
    "coverage_at_threshold",
    "eaurc",
    "ece",
    "hcfp",
    "nll",
    "risk_at_threshold",
    "selective_risk",
    "smece",
    "smece_exact",
    "top_label_bce",
]
