"""The methods of the lab, one row of parts each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from smallcal.calibrators.method import Method
from smallcal.calibrators.rows import CITES, OURS, PAPER, routed

_HTS = "Balanya, Maroñas and Ramos 2024"
_SMART = "Guo et al. 2026"
_QATS = "Chakraborty et al. 2026"

#: What to cite for a source: keys of smallcal's ``data/references.bib``.
_CITES = {
    **CITES,
    _HTS: ("balanya2024adaptive",),
    _SMART: ("guo2026smart",),
    _QATS: ("chakraborty2026quantile",),
}


def _shaped(shape: str, summary: str, **said: Any) -> Method:
    usual: dict[str, Any] = {"signal": "risk", "objective": "bce", "parameters": "2"}
    usual |= {"source": PAPER, "paper": "App. Matched maps"} | said
    usual.setdefault("cites", _CITES[usual["source"]])
    return Method(map=shape, summary=summary, **usual)


def _head(signal: str, objective: str, protocol: str, **said: Any) -> Method:
    what = {"logits": "all logits", "features": "features"}[signal]
    how = {
        "in-sample": "48 settings, chosen on the training samples",
        "held-out": "36 settings, chosen on a held-out fifth",
        "fixed": "128 units",
    }
    return Method(
        objective=objective,
        signal=signal,
        map="head",
        options={"protocol": protocol},
        summary=f"a network of {what} gives the temperature; {how[protocol]} (needs torch to fit)",
        source=PAPER,
        cites=(*_CITES[PAPER], "joy2023sample"),
        paper="App. Adaptive heads",
        **said,
    )


def _peer(name: str, what: str, parameters: str = "", **said: Any) -> Method:
    package = name.partition(":")[0]
    package = {"sklearn": "scikit-learn"}.get(package, package)
    return Method(
        objective="nll",
        map="peer",
        options={"peer": name},
        summary=f"{what}, by the package {package}",
        source=f"the package {package}",
        parameters=parameters,
        **said,
    )


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "margin-k3": routed(
            "three temperatures by logit margin, without a learned risk model",
            signal="logit_margin",
            good_for="close to SRTS without a risk model: three parameters",
            paper="App. Routing",
            title="margin groups",
        ),
        "confidence-k3": routed(
            "three temperatures by raw confidence, without a learned risk model",
            signal="confidence",
            good_for="the simplest grouping, to see what the margin adds",
            paper="App. Routing",
            title="confidence groups",
        ),
        "probmargin-k3": routed(
            "three temperatures by probability margin, without a learned risk model",
            signal="prob_margin",
            good_for="signal ablation",
            paper="App. Routing",
            title="probability-margin groups",
        ),
        "confmargin-k3": routed(
            "SRTS whose risk model uses confidence and margin only",
            statistics=("confidence", "logit_margin"),
            parameters="6",
            good_for="signal ablation: two signals instead of six",
            paper="App. Routing",
            title="SRTS on confidence and margin",
        ),
        "signed-residual-k3": routed(
            "three temperatures by predicted residual (correct or not, minus confidence)",
            signal="signed_residual",
            good_for="routing by the error that is to be corrected",
            paper="App. Routing targets",
            title="signed-residual groups",
        ),
        "abs-residual-k3": routed(
            "three temperatures by the predicted absolute residual",
            signal="absolute_residual",
            good_for="routing by the size of the error to be corrected",
            paper="App. Routing targets",
            title="absolute-residual groups",
        ),
        "features-k3": routed(
            "SRTS whose risk model uses features instead of logit statistics",
            signal="feature_risk",
            parameters="d + 4",
            good_for="tests whether features predict errors better than logits",
            paper="App. Objective",
            title="SRTS on features",
        ),
        "features-logits-k3": routed(
            "SRTS whose risk model uses features and logits",
            signal="feature_logit_risk",
            parameters="d + C + 4",
            source=OURS,
            good_for="the same with features and logits together",
            title="SRTS on features and logits",
        ),
        "temphead-k3": routed(
            "three temperatures, by what a network predicts from features (needs torch)",
            signal="head_temperature",
            parameters="128·d + 260",
            good_for="tests whether an unrestricted head finds where temperatures differ",
            paper="App. Objective",
            title="temperature-head groups",
        ),
        "random-k3": routed(
            "control: three temperatures for random groups",
            signal="random",
            good_for="a control: groups unrelated to risk",
            paper="App. Routing",
            title="random groups",
        ),
        "shuffled-k3": routed(
            "control: SRTS with risk scores shuffled among samples",
            signal="shuffled",
            good_for="a control: the right scores on the wrong samples",
            paper="App. Routing",
            title="shuffled risk groups",
        ),
        "oracle-risk": routed(
            "diagnostic that reads the labels: three groups by 1 - probability of the true class",
            signal="oracle_risk",
            good_for="a diagnostic: routing that reads the labels",
            paper="App. Objective",
            title="oracle risk groups",
        ),
        "oracle-correctness": routed(
            "diagnostic that reads the labels: one group of correct, one of wrong predictions",
            signal="oracle_correctness",
            parameters="2",
            good_for="a diagnostic: the best any router could do",
            paper="App. Routing",
            title="oracle correctness groups",
        ),
        "linear-risk": _shaped(
            "linear",
            "temperature is a linear function of the predicted risk",
            parameters="9",
            good_for="the simplest smooth use of the risk score",
            title="temperature linear in risk",
        ),
        "pwlinear-3": _shaped(
            "anchors",
            "temperature is piecewise linear in the predicted risk, with three anchors",
            parameters="10",
            good_for="SRTS without jumps between groups",
            title="temperature piecewise linear in risk",
        ),
        "spline-risk": _shaped(
            "spline",
            "temperature is a natural cubic spline of the predicted risk",
            parameters="10",
            good_for="SRTS without jumps or kinks",
            title="temperature as a spline of risk",
        ),
        "hts-nll": _shaped(
            "linear",
            "temperature depends on the log of the entropy, fitted by log-loss",
            signal="log_entropy",
            objective="nll",
            source=_HTS,
            good_for="two parameters, temperature by entropy",
            title="HTS",
        ),
        "hts-bce": _shaped(
            "linear",
            "temperature depends on the log of the entropy, fitted by top-label log-loss",
            signal="log_entropy",
            source=_HTS,
            good_for="the same under the objective of SRTS",
            title="HTS (top-label log-loss)",
        ),
        "lts-scalar": _shaped(
            "linear",
            "temperature is linear in the raw confidence, fitted by log-loss",
            signal="confidence",
            objective="nll",
            good_for="the smallest local temperature: two parameters",
            cites=("liang2026srts", "ding2021local"),
            paper="App. Objective",
            title="LTS on confidence",
        ),
        "qats-nll": _shaped(
            "positive_linear",
            "temperature depends on the quantile of the confidence, fitted by log-loss",
            signal="confidence_rank",
            objective="nll",
            source=_QATS,
            good_for="two parameters, where low confidences are too high",
            title="QATS",
        ),
        "qats-bce": _shaped(
            "positive_linear",
            "temperature depends on the quantile of the confidence, by top-label log-loss",
            signal="confidence_rank",
            source=_QATS,
            good_for="the same under the objective of SRTS",
            title="QATS (top-label log-loss)",
        ),
        "smart-bce": _shaped(
            "smart",
            "a 16-unit network of the logit margin gives the temperature, by top-label log-loss",
            signal="standardised_margin",
            parameters="49",
            source=_SMART,
            good_for="a flexible curve of the margin, from some thousand samples on",
            paper="RQ1",
            title="SMART (top-label log-loss)",
        ),
        "smart-softece": _shaped(
            "smart",
            "a 16-unit network of the logit margin gives the temperature, by soft ECE",
            signal="standardised_margin",
            objective="softece",
            parameters="49",
            source=_SMART,
            good_for="SMART as published: soft ECE",
            paper="RQ1",
            title="SMART",
        ),
        "sats-logit-nll": _head(
            "logits",
            "nll",
            "in-sample",
            good_for="shows how an unrestricted head overfits 2,500 samples",
            title="SATS on logits",
        ),
        "sats-logit-bce": _head(
            "logits",
            "bce",
            "held-out",
            good_for="the same, selected on held-out samples",
            title="SATS on logits (top-label log-loss)",
        ),
        "sats-features-nll": _head(
            "features",
            "nll",
            "in-sample",
            good_for="the same from features",
            title="SATS on features",
        ),
        "sats-features-bce": _head(
            "features",
            "bce",
            "held-out",
            good_for="the same from features, selected on held-out samples",
            title="SATS on features (top-label log-loss)",
        ),
        "utemphead": _head(
            "features",
            "nll",
            "fixed",
            parameters="128·d + 257",
            good_for="one wide head, no sweep",
            title="unrestricted temperature head",
        ),
        "meta-cal": Method(
            objective="nll",
            signal="entropy",
            map="rejecting",
            summary="one temperature; the most uncertain samples get uniform probabilities",
            source="Ma and Blaschko 2021",
            cites=("ma2021metacal",),
            parameters="2",
            good_for="models that may reject uncertain samples",
            paper="Related work",
            title="Meta-Cal",
        ),
        "scaling-binning": Method(
            objective="bce",
            map="binned",
            summary="one temperature, then confidences replaced by the means of ten bins",
            source="Kumar, Liang and Ma 2019",
            cites=("kumar2019verified",),
            parameters="11",
            good_for="a calibration error that can be measured without bias",
            paper="Related work",
            title="scaling-binning",
        ),
        "semantic-groups": Method(
            objective="nll",
            signal="features",
            map="semantic",
            summary="temperatures of groups of samples with similar features, averaged",
            source="Yang, Zhan and Gan 2023",
            cites=("yang2023beyond",),
            parameters="40·d + 40",
            good_for="groups that features separate and logits do not",
            paper="Related work",
            title="semantic-aware groups",
        ),
        "probmetrics:svs": _peer(
            "probmetrics:svs",
            "structured vector scaling",
            "2·C + 1",
            cites=("berta2025structured",),
            good_for="CalArena's best small calibrator; few classes, log-loss",
            title="structured vector scaling",
        ),
        "probmetrics:sms": _peer(
            "probmetrics:sms",
            "structured matrix scaling",
            "C² + C + 1",
            cites=("berta2025structured",),
            good_for="CalArena's best; classes confused with one another",
            title="structured matrix scaling",
        ),
        "probmetrics:ts-mix": _peer(
            "probmetrics:ts-mix",
            "temperature scaling mixed with a little uniform",
            "1",
            cites=("berta2025rethinking", "guo2017calibration"),
            good_for="temperature scaling whose log-loss stays finite",
            title="temperature scaling with a uniform mixture",
        ),
        "venn-abers:classwise": _peer(
            "venn-abers:classwise",
            "Venn-Abers predictors, class by class",
            cites=("vovk2015large", "manokhin2017multiclass", "petej2024vennabers"),
            good_for="many samples of few classes, with validity in theory",
            title="classwise Venn-Abers prediction",
        ),
    }
)
