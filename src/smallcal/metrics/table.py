"""The table of metrics: what each one is called, measures and prefers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Literal

from smallcal.data.predictions import FloatArray
from smallcal.errors import InputError, choose
from smallcal.metrics import binned, proper, selective, smooth, threshold
from smallcal.metrics.scored import Scored
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
    of_outcomes : str
        The same of probabilities of one outcome; empty where the summary will do.
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
    cites : tuple of str
        What to cite for it: keys of ``data/references.bib``.
    """

    name: str
    of: Callable[[Scored], float]
    summary: str
    better: Literal["lower", "higher", "zero"] = "lower"
    unit: Unit = PERCENT
    undefined: str = ""
    values: Callable[[Scored], FloatArray] | None = None
    biased: bool = False
    of_outcomes: str = ""
    cites: tuple[str, ...] = ()

    def told(self, kind: str = "logits") -> str:
        """Return what it measures, of what rows hold: "logits", "probabilities" or "score"."""
        return self.of_outcomes if kind == "score" and self.of_outcomes else self.summary

    @property
    def percent(self) -> bool:
        """Whether it is a share, so that people read it in percent."""
        return self.unit.sign == PERCENT.sign


_ROWS = (
    Metric(
        name="accuracy",
        of=proper.accuracy.of,
        values=proper.accuracy.values,
        summary="share of samples whose most probable class is the true one",
        of_outcomes="share of samples whose outcome is 1",
        better="higher",
    ),
    Metric(
        name="ece15",
        cites=("naeini2015obtaining", "guo2017calibration"),
        of=binned.ece.of,
        summary="gap between confidence and accuracy in 15 bins of equal width",
        of_outcomes="gap between probability and frequency of outcome 1 in 15 bins of equal width",
        biased=True,
    ),
    Metric(
        name="adaece15",
        cites=("nixon2019measuring",),
        of=binned.adaece.of,
        summary="gap between confidence and accuracy in 15 bins of equal count",
        of_outcomes="gap between probability and frequency of outcome 1 in 15 bins of equal count",
        biased=True,
    ),
    Metric(
        name="cwece15",
        cites=("kull2019dirichlet",),
        of=binned.classwise_ece.of,
        summary="gap between probability and frequency in 15 bins, averaged over classes",
        of_outcomes="gap between probability and frequency in 15 bins, averaged over both outcomes",
        # Averaged over classes that most samples are not of, it is tiny.
        unit=replace(PERCENT, digits=4),
        biased=True,
    ),
    Metric(
        name="smece",
        cites=("blasiok2024smooth",),
        of=smooth.smece.of,
        summary="smooth calibration error, as the authors' released estimator computes it",
        biased=True,
    ),
    Metric(
        name="smece_exact",
        cites=("blasiok2024smooth",),
        of=smooth.smece_exact.of,
        summary="smooth calibration error, as it is defined",
        biased=True,
    ),
    Metric(
        name="nll",
        of=proper.nll.of,
        values=proper.nll.values,
        summary="negative log-likelihood of the true class, in nats",
        of_outcomes="log-loss: negative log-likelihood of the outcome, in nats",
        unit=X100,
    ),
    Metric(
        name="brier",
        cites=("brier1950verification",),
        of=proper.brier.of,
        values=proper.brier.values,
        summary="squared distance from the true class, summed over classes",
        of_outcomes="squared distance of the probability from the outcome",
        unit=X100,
    ),
    Metric(
        name="top_label_bce",
        cites=("lecoz2024tva",),
        of=proper.top_label_bce.of,
        values=proper.top_label_bce.values,
        summary="cross-entropy of the confidence as a forecast of being correct, in nats",
        of_outcomes="the same as nll",
        unit=X100,
    ),
    Metric(
        name="auroc",
        cites=("hendrycks2017baseline",),
        of=selective.auroc_of_correctness.of,
        summary="chance that a right prediction is more confident than a wrong one",
        better="higher",
        of_outcomes="chance that a success has a higher probability than a failure",
        undefined="all predictions are right, or all are wrong",
    ),
    Metric(
        name="aurc",
        cites=("geifman2019biasreduced",),
        of=selective.aurc.of,
        summary="error rate averaged over all coverages, most confident first",
        of_outcomes="rate of failures averaged over all coverages, most probable first",
    ),
    Metric(
        name="eaurc",
        cites=("geifman2019biasreduced",),
        of=selective.eaurc.of,
        summary="aurc above that of a perfect ranking",
    ),
    *(
        Metric(
            name=f"hcfp{percent}",
            cites=("liang2026srts",),
            of=partial(threshold.hcfp.of, threshold=percent / 100),
            summary=f"share of errors made with a confidence of {percent} % or more",
            of_outcomes=f"share of failures with a probability of {percent} % or more",
            undefined="no prediction is wrong",
        )
        for percent in threshold.HCFP_PERCENTS
    ),
    Metric(
        name="selective_risk80",
        cites=("geifman2017selective",),
        of=selective.selective_risk.of,
        summary="error rate among the most confident 80 %",
        of_outcomes="rate of failures among the most probable 80 %",
    ),
    Metric(
        name="risk_at90",
        cites=("geifman2017selective",),
        of=threshold.risk_at_threshold.of,
        summary="error rate among predictions with a confidence of 90 % or more",
        of_outcomes="rate of failures where the probability is 90 % or more",
        undefined="no prediction has a confidence of 90 % or more",
    ),
    Metric(
        name="confidence_gap",
        of=threshold.confidence_gap.of,
        values=threshold.confidence_gap.values,
        summary="mean confidence minus accuracy",
        of_outcomes="mean probability minus rate of successes",
        better="zero",
    ),
)

#: Every metric by name, in the order tables show them.
METRICS: Mapping[str, Metric] = MappingProxyType({row.name: row for row in _ROWS})


def chosen_metrics(
    names: Iterable[str], known: Collection[str] = METRICS, *, lack: str = "unknown metric"
) -> list[Metric]:
    """Return rows of ``METRICS`` by name; a name that is not among the known is an error."""
    if isinstance(names, str):
        raise InputError(f"metrics must be a list of names; got the string {names!r}")
    wanted = list(names)
    for name in wanted:
        if name not in known:
            raise InputError(f"{lack} {name!r}; {choose(name, known)}")
    return [METRICS[name] for name in wanted]
