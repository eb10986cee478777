"""What a temperature may depend on: logit statistics, and the scores made from them.

NumPy only: this runs wherever a calibrator is applied.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from smallcal.calibrators.signals.base import FittedSignal, Rows
from smallcal.calibrators.signals.controls import (
    OracleCorrectness,
    OracleRisk,
    RandomScore,
    ShuffledRisk,
)
from smallcal.calibrators.signals.fitted import (
    ConfidenceRank,
    FeatureRisk,
    LinearScore,
    LogEntropy,
    NoSignal,
    RawFeatures,
    RawLogits,
    Residual,
    Risk,
    Standardised,
    StandardisedStatistics,
    Statistic,
    StatisticsAndClass,
)
from smallcal.calibrators.signals.logit_statistics import (
    STATISTICS,
    RowBlock,
    block_statistics,
    collect_statistics,
    require_statistics,
    row_blocks,
    six_statistics,
    statistics,
)

__all__ = [
    "SIGNALS",
    "STATISTICS",
    "ConfidenceRank",
    "FeatureRisk",
    "FittedSignal",
    "LinearScore",
    "LogEntropy",
    "NoSignal",
    "OracleCorrectness",
    "OracleRisk",
    "RandomScore",
    "RawFeatures",
    "RawLogits",
    "Residual",
    "Risk",
    "RowBlock",
    "Rows",
    "ShuffledRisk",
    "Standardised",
    "StandardisedStatistics",
    "Statistic",
    "StatisticsAndClass",
    "block_statistics",
    "collect_statistics",
    "require_statistics",
    "row_blocks",
    "six_statistics",
    "statistics",
]

#: Every fitted signal by its kind.
SIGNALS: Mapping[str, type[FittedSignal]] = MappingProxyType(
    {
        part.kind: part
        for part in (
            NoSignal,
            Statistic,
            Standardised,
            StandardisedStatistics,
            StatisticsAndClass,
            LogEntropy,
            ConfidenceRank,
            Risk,
            Residual,
            FeatureRisk,
            RandomScore,
            ShuffledRisk,
            RawLogits,
            RawFeatures,
            OracleRisk,
            OracleCorrectness,
        )
    }
)
