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
        Its key in ``METRICS``, in code and in JSON.
    title : str
        What people call it: in headings, sentences and the glossary, and nothing else there.
    of : callable
        The metric as a function of a :class:`Scored`, a fraction.
    summary : str
        One line that says what it measures.
    of_outcomes : str
        The same of probabilities of one outcome; empty where the summary will do.
    outcome_title : str
        What people call it there; empty where the title will do.
    better : "lower", "higher" or "zero"
        Which values are good.
    unit : Unit
        How people read it.
    undefined : str
        When the value is NaN; empty when it never is.
    values : callable or None
        For a mean over samples: the value of each sample.
    trials : callable or None
        For a share: of how many samples it is one.
    biased : bool
        Whether noise raises it: a calibration error of n samples is above zero even for a
        perfectly calibrated model, and its resamples are higher still.
    cites : tuple of str
        What to cite for it: keys of ``data/references.bib``.
    """

    name: str
    title: str
    of: Callable[[Scored], float]
    summary: str
    better: Literal["lower", "higher", "zero"] = "lower"
    unit: Unit = PERCENT
    undefined: str = ""
    values: Callable[[Scored], FloatArray] | None = None
    trials: Callable[[Scored], int] | None = None
    biased: bool = False
    of_outcomes: str = ""
    outcome_title: str = ""
    cites: tuple[str, ...] = ()

    def told(self, kind: str = "logits") -> str:
        """Return what it measures, of what rows hold: "logits", "probabilities" or "score"."""
        return self.of_outcomes if kind == "score" and self.of_outcomes else self.summary

    def called(self, kind: str = "logits") -> str:
        """Return what people call it, of what rows hold: "logits", "probabilities" or "score".

        Examples
        --------
        >>> METRICS["accuracy"].called(), METRICS["accuracy"].called("score")
        ('accuracy', 'success rate')
        """
        return self.outcome_title if kind == "score" and self.outcome_title else self.title

    def heading(self, *, difference: bool = False) -> str:
        """Return the heading of a column of its values, or of differences.

        Examples
        --------
        >>> METRICS["ece15"].heading(), METRICS["nll"].heading(difference=True)
        ('ECE %', 'log-loss points')
        """
        return self.unit.heading(self.title, difference=difference)

    @property
    def percent(self) -> bool:
        """Whether it is a share, so that people read it in percent."""
        return self.unit.sign == PERCENT.sign


_ROWS = (
    Metric(
        name="accuracy",
        title="accuracy",
        of=proper.accuracy.of,
        values=proper.accuracy.values,
        trials=lambda scored: scored.n,
        summary="share of samples whose most probable class is the true one",
        of_outcomes="share of samples whose outcome is 1",
        outcome_title="success rate",
        better="higher",
    ),
    Metric(
        name="ece15",
        title="ECE",
        cites=("naeini2015obtaining", "guo2017calibration"),
        of=binned.ece.of,
        summary="mean gap between confidence and accuracy, in 15 bins of equal width",
        of_outcomes="mean gap between probability and success rate, in 15 bins of equal width",
        biased=True,
    ),
    Metric(
        name="adaece15",
        title="adaptive ECE",
        cites=("nixon2019measuring",),
        of=binned.adaece.of,
        summary="mean gap between confidence and accuracy, in 15 bins of equal count",
        of_outcomes="mean gap between probability and success rate, in 15 bins of equal count",
        biased=True,
    ),
    Metric(
        name="cwece15",
        title="classwise ECE",
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
        title="smECE",
        cites=("blasiok2024smooth",),
        of=smooth.smece.of,
        summary="smooth calibration error, as computed by its authors' program",
        biased=True,
    ),
    Metric(
        name="smece_exact",
        title="exact smECE",
        cites=("blasiok2024smooth",),
        of=smooth.smece_exact.of,
        summary="smooth calibration error, by its exact definition",
        biased=True,
    ),
    Metric(
        name="nll",
        title="log-loss",
        of=proper.nll.of,
        values=proper.nll.values,
        summary="negative log-likelihood (NLL) of the true class, in nats",
        of_outcomes="negative log-likelihood (NLL) of the outcome, in nats",
        unit=X100,
    ),
    Metric(
        name="brier",
        title="Brier score",
        cites=("brier1950verification",),
        of=proper.brier.of,
        values=proper.brier.values,
        summary="squared distance from the true class, summed over classes",
        of_outcomes="squared distance of the probability from the outcome",
        unit=X100,
    ),
    Metric(
        name="top_label_bce",
        title="top-label log-loss",
        cites=("lecoz2024tva",),
        of=proper.top_label_bce.of,
        values=proper.top_label_bce.values,
        summary="log-loss of the confidence as a forecast of correctness (BCE), in nats",
        of_outcomes="the same as log-loss",
        unit=X100,
    ),
    Metric(
        name="auroc",
        title="AUROC",
        cites=("hendrycks2017baseline",),
        of=selective.auroc_of_correctness.of,
        summary="probability that a right prediction is more confident than a wrong one",
        better="higher",
        of_outcomes="probability that a success has a higher score than a failure",
        undefined="all predictions are right, or all are wrong",
    ),
    Metric(
        name="aurc",
        title="AURC",
        cites=("geifman2019biasreduced",),
        of=selective.aurc.of,
        summary="error rate averaged over all coverages, most confident first",
        of_outcomes="failure rate averaged over all coverages, most probable first",
    ),
    Metric(
        name="eaurc",
        title="excess AURC",
        cites=("geifman2019biasreduced",),
        of=selective.eaurc.of,
        summary="AURC minus that of a perfect ranking",
    ),
    *(
        Metric(
            name=f"hcfp{percent}",
            title=f"high-confidence errors (≥{percent / 100})",
            outcome_title=f"high-probability failures (≥{percent / 100})",
            cites=("liang2026srts",),
            of=partial(threshold.hcfp.of, threshold=percent / 100),
            trials=lambda scored: int((~scored.correct).sum()),
            summary=f"share of errors made with a confidence of {percent} % or more",
            of_outcomes=f"share of failures with a probability of {percent} % or more",
            undefined="no prediction is wrong",
        )
        for percent in threshold.HCFP_PERCENTS
    ),
    Metric(
        name="selective_risk80",
        title="selective risk (coverage 0.8)",
        cites=("geifman2017selective",),
        of=selective.selective_risk.of,
        trials=lambda scored: round(selective.DEFAULT_COVERAGE * scored.n),
        summary="error rate among the most confident 80 %",
        of_outcomes="failure rate among the most probable 80 %",
    ),
    Metric(
        name="risk_at90",
        title="error rate (confidence ≥0.9)",
        outcome_title="failure rate (probability ≥0.9)",
        cites=("geifman2017selective",),
        of=threshold.risk_at_threshold.of,
        trials=lambda scored: int((scored.confidence >= threshold.DEFAULT_THRESHOLD).sum()),
        summary="error rate among predictions with a confidence of 90 % or more",
        of_outcomes="failure rate where the probability is 90 % or more",
        undefined="no prediction has a confidence of 90 % or more",
    ),
    Metric(
        name="confidence_gap",
        title="confidence gap",
        of=threshold.confidence_gap.of,
        values=threshold.confidence_gap.values,
        summary="mean confidence minus accuracy",
        of_outcomes="mean probability minus success rate",
        outcome_title="probability gap",
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
        raise InputError(
            f"metrics must be a list of names; got the string {names!r}", code="option-type"
        )
    wanted = list(names)
    for name in wanted:
        if name not in known:
            raise InputError(f"{lack} {name!r}; {choose(name, known)}", code="metric-unknown")
    return [METRICS[name] for name in wanted]
