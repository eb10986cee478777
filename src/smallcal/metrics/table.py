"""The table of metrics: what each one is called, measures and prefers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Literal

from smallcal.data.predictions import FloatArray
from smallcal.errors import InputError
from smallcal.metrics import binned, proper, selective, smooth, threshold
from smallcal.metrics.scored import Scored, mean_of
from smallcal.metrics.units import PERCENT, X100, Unit


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One row of the table.

    Attributes
    ----------
    name : str
        Its key in ``METRICS``.
    of : callable
        The metric as a function of a :class:`Scored`, a fraction.
    summary : str
        One line that says what it measures.
    better : "lower", "higher" or "zero"
        Which values are good.
    unit : Unit
        How people read it.
    undefined : str
        When the value is NaN; empty when it never is.
    values : callable or None
        For a mean over samples: the value of each sample.
    biased : bool
        Whether noise raises it: a calibration error of n samples is above zero even for a
        perfectly calibrated model, and its resamples are higher still.
    """

    name: str
    of: Callable[[Scored], float]
    summary: str
    better: Literal["lower", "higher", "zero"] = "lower"
    unit: Unit = PERCENT
    undefined: str = ""
    values: Callable[[Scored], FloatArray] | None = None
    biased: bool = False

    @property
    def percent(self) -> bool:
        """Whether it is a share, so that people read it in percent."""
        return self.unit.sign == PERCENT.sign


_ROWS = (
    Metric(
        name="accuracy",
        of=partial(mean_of, proper.accuracy_values),
        values=proper.accuracy_values,
        summary="share of samples whose most probable class is the true one",
        better="higher",
    ),
    Metric(
        name="ece15",
        of=binned.ece_of,
        summary="gap between confidence and accuracy in 15 bins of equal width",
        biased=True,
    ),
    Metric(
        name="adaece15",
        of=binned.adaece_of,
        summary="gap between confidence and accuracy in 15 bins of equal count",
        biased=True,
    ),
    Metric(
        name="cwece15",
        of=binned.classwise_ece_of,
        summary="gap between probability and frequency in 15 bins, averaged over classes",
        # Averaged over classes that most samples are not of, it is tiny.
        unit=replace(PERCENT, digits=4),
        biased=True,
    ),
    Metric(
        name="smece",
        of=smooth.smece_of,
        summary="smooth calibration error, as the authors' released estimator computes it",
        biased=True,
    ),
    Metric(
        name="smece_exact",
        of=smooth.smece_exact_of,
        summary="smooth calibration error, as it is defined",
        biased=True,
    ),
    Metric(
        name="nll",
        of=partial(mean_of, proper.nll_values),
        values=proper.nll_values,
        summary="negative log-likelihood of the true class, in nats",
        unit=X100,
    ),
    Metric(
        name="brier",
        of=partial(mean_of, proper.brier_values),
        values=proper.brier_values,
        summary="squared distance from the true class, summed over classes",
        unit=X100,
    ),
    Metric(
        name="top_label_bce",
        of=partial(mean_of, proper.top_label_bce_values),
        values=proper.top_label_bce_values,
        summary="cross-entropy of the confidence as a forecast of being correct, in nats",
        unit=X100,
    ),
    Metric(
        name="auroc",
        of=selective.auroc_of,
        summary="chance that a right prediction is more confident than a wrong one",
        better="higher",
        undefined="all predictions are right, or all are wrong",
    ),
    Metric(
        name="aurc",
        of=selective.aurc_of,
        summary="error rate averaged over all coverages, most confident first",
    ),
    Metric(
        name="eaurc",
        of=selective.eaurc_of,
        summary="aurc above that of a perfect ranking",
    ),
    *(
        Metric(
            name=f"hcfp{percent}",
            of=partial(threshold.hcfp_of, threshold=percent / 100),
            summary=f"share of errors made with a confidence of {percent} % or more",
            undefined="no prediction is wrong",
        )
        for percent in threshold.HCFP_PERCENTS
    ),
    Metric(
        name="selective_risk80",
        of=selective.selective_risk_of,
        summary="error rate among the most confident 80 %",
    ),
    Metric(
        name="risk_at90",
        of=threshold.risk_at_threshold_of,
        summary="error rate among predictions with a confidence of 90 % or more",
        undefined="no prediction has a confidence of 90 % or more",
    ),
    Metric(
        name="confidence_gap",
        of=partial(mean_of, threshold.confidence_gap_values),
        values=threshold.confidence_gap_values,
        summary="mean confidence minus accuracy",
        better="zero",
    ),
)

#: Every metric by name, in the order tables show them.
METRICS: Mapping[str, Metric] = MappingProxyType({row.name: row for row in _ROWS})


def chosen_metrics(names: Iterable[str]) -> list[Metric]:
    """Return the rows of ``METRICS`` by name; an unknown name is an error."""
    if isinstance(names, str):
        raise InputError(f"metrics must be a list of names; got the string {names!r}")
    wanted = list(names)
    for name in wanted:
        if name not in METRICS:
            raise InputError(f"unknown metric {name!r}; choose from {', '.join(METRICS)}")
    return [METRICS[name] for name in wanted]
