"""The methods that give each row a temperature, one row of parts each; see ``catalogue``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from smallcal.calibrators.method import Method
from smallcal.calibrators.signals import ROUTES

_PAPER = "the SRTS paper"
_OURS = "this project"
_GUO = "Guo et al. 2017"
_HTS = "Balanya, Maroñas and Ramos 2024"
_SMART = "Guo et al. 2026"
_QATS = "Chakraborty et al. 2026"

#: What to cite for a source: keys of ``data/references.bib``.
_CITES = {
    _PAPER: ("liang2026srts",),
    _OURS: ("smallcal", "liang2026srts"),
    _GUO: ("guo2017calibration",),
    _HTS: ("balanya2024adaptive",),
    _SMART: ("guo2026smart",),
    _QATS: ("chakraborty2026quantile",),
}


def _scalar(objective: str, summary: str, source: str = _PAPER, **said: Any) -> Method:
    said = {"cites": _CITES.get(source, ())} | said
    return Method(objective=objective, summary=summary, source=source, parameters="1", **said)


def _routed(summary: str, *, good_for: str, paper: str = "", **choices: Any) -> Method:
    signal = choices.pop("signal", "risk")
    # A learned signal has seven numbers, beside the three temperatures.
    usual = {"objective": "bce", "parameters": "10" if ROUTES[signal].care else "3"}
    axes: dict[str, Any] = {name: choices.pop(name, value) for name, value in usual.items()}
    source = choices.pop("source", _PAPER)
    axes |= {"summary": summary, "source": source, "good_for": good_for, "paper": paper}
    axes["cites"] = choices.pop("cites", _CITES[source])
    return Method(signal=signal, map="groups", options=choices, **axes)


def _shaped(shape: str, summary: str, **said: Any) -> Method:
    usual: dict[str, Any] = {"signal": "risk", "objective": "bce", "parameters": "2"}
    usual |= {"source": _PAPER, "paper": "App. Matched maps"} | said
    usual.setdefault("cites", _CITES[usual["source"]])
    return Method(map=shape, summary=summary, **usual)


def _head(signal: str, objective: str, protocol: str, **said: Any) -> Method:
    what = {"logits": "all logits", "features": "features"}[signal]
    how = {
        "in-sample": "48 settings, chosen in-sample",
        "held-out": "36 settings, chosen on a held-out fifth",
        "fixed": "128 units",
    }
    return Method(
        objective=objective,
        signal=signal,
        map="head",
        options={"protocol": protocol},
        summary=f"temperature by a network of {what}, {how[protocol]} (needs torch to fit)",
        source=_PAPER,
        cites=(*_CITES[_PAPER], "joy2023sample"),
        paper="App. Adaptive heads",
        **said,
    )


TEMPERATURES: Mapping[str, Method] = MappingProxyType(
    {
        "none": Method(
            objective="none",
            map="identity",
            summary="leave the model alone",
            cites=("smallcal",),
            parameters="0",
            good_for="the reference: what happens without calibration",
            paper="Setup",
        ),
        # One temperature for all.
        "ts-nll": _scalar(
            "nll",
            "temperature scaling, by log-likelihood",
            _GUO,
            good_for="log-loss with very few samples; the common baseline",
            paper="Setup",
        ),
        "tva-ts": _scalar(
            "bce",
            "temperature scaling, by top-label BCE (TvA)",
            "Le Coz, Herbin and Adjed 2024",
            cites=("lecoz2024tva",),
            good_for="confidence with very few samples; what routing must beat",
            paper="RQ1",
        ),
        "ts-brier": _scalar(
            "brier",
            "temperature scaling, by top-label Brier",
            good_for="one temperature when large errors matter most",
            paper="App. Objective",
        ),
        "ts-softece": _scalar(
            "softece",
            "temperature scaling, by soft ECE",
            _OURS,
            cites=("smallcal", "karandikar2021soft", "guo2026smart"),
            good_for="one temperature when ECE itself is the target",
        ),
        # Groups of similar risk.
        "srts-bce": _routed(
            "three temperatures by risk of being wrong: the paper's SRTS-BCE",
            good_for="lower ECE at some thousand samples; at 250 a tie (no-harm.md)",
            paper="Method",
        ),
        "srts-nll": _routed(
            "SRTS fitted by log-likelihood",
            objective="nll",
            good_for="the objective ablation of SRTS",
            paper="RQ2",
        ),
        "srts-brier": _routed(
            "SRTS by top-label Brier",
            objective="brier",
            good_for="the objective ablation of SRTS",
            paper="App. Objective",
        ),
        "srts-softece": _routed(
            "SRTS fitted by soft ECE",
            objective="softece",
            cites=("liang2026srts", "karandikar2021soft", "guo2026smart"),
            good_for="the objective ablation of SRTS",
            paper="App. Objective",
        ),
        "srts-mixed": _routed(
            "SRTS by NLL + BCE",
            objective="mixed(1)",
            good_for="log-loss and confidence at once",
            paper="App. Objective",
        ),
        "srts-shrunk": _routed(
            "SRTS whose temperatures are drawn towards one another: safe with few samples",
            prior_scale=0.1,
            source=_OURS,
            good_for="SRTS from 150 samples on, without its cost in log-loss",
        ),
        "signal-linear": Method(
            objective="bce",
            signal="statistics",
            map="regressed",
            summary="log-temperature linear in the six statistics, under a normal prior",
            source=_OURS,
            cites=_CITES[_OURS],
            parameters="7",
            good_for="confidence and log-loss from 150 samples on; seven numbers, no router",
        ),
        "class-linear": Method(
            objective="bce",
            signal="statistics_class",
            map="class_regressed",
            summary="signal-linear, with an effect of the predicted class under a prior of its own",
            source=_OURS,
            cites=_CITES[_OURS],
            parameters="C + 7",
            good_for="models that are surer of some classes than they should be",
        ),
        # Groups by something else.
        "margin-k3": _routed(
            "three temperatures by logit margin, no router",
            signal="logit_margin",
            good_for="nearly SRTS without a router: three numbers",
            paper="App. Routing",
        ),
        "confidence-k3": _routed(
            "three temperatures by raw confidence, no router",
            signal="confidence",
            good_for="the simplest grouping; shows what the margin adds",
            paper="App. Routing",
        ),
        "probmargin-k3": _routed(
            "three temperatures by probability margin, no router",
            signal="prob_margin",
            good_for="signal ablation",
            paper="App. Routing",
        ),
        "confmargin-k3": _routed(
            "SRTS whose risk sees confidence and margin only",
            statistics=("confidence", "logit_margin"),
            parameters="6",
            good_for="signal ablation: two signals instead of six",
            paper="App. Routing",
        ),
        "signed-residual-k3": _routed(
            "three temperatures by expected residual, right or not minus confidence",
            signal="signed_residual",
            good_for="routing straight by the error to be corrected",
            paper="App. Routing targets",
        ),
        "abs-residual-k3": _routed(
            "three temperatures by the expected size of the residual",
            signal="absolute_residual",
            good_for="routing by the size of the error to be corrected",
            paper="App. Routing targets",
        ),
        "features-k3": _routed(
            "SRTS whose risk sees features instead of logit statistics",
            signal="feature_risk",
            parameters="d + 4",
            good_for="whether features know more than logits about risk",
            paper="App. Objective",
        ),
        "features-logits-k3": _routed(
            "SRTS whose risk sees features and logits",
            signal="feature_logit_risk",
            parameters="d + C + 4",
            source=_OURS,
            good_for="the same, with the logits beside them",
        ),
        "temphead-k3": _routed(
            "three temperatures by the temperature that a network of features gives (needs torch)",
            signal="head_temperature",
            parameters="128·d + 260",
            good_for="whether an unrestricted head knows where temperatures differ",
            paper="App. Objective",
        ),
        "random-k3": _routed(
            "control: three temperatures for random groups",
            signal="random",
            good_for="a control: groups that mean nothing",
            paper="App. Routing",
        ),
        "shuffled-k3": _routed(
            "control: SRTS with the risk scores shuffled between samples",
            signal="shuffled",
            good_for="a control: the right scores on the wrong samples",
            paper="App. Routing",
        ),
        "oracle-risk": _routed(
            "diagnostic that reads the labels: three groups by 1 - probability of the true class",
            signal="oracle_risk",
            good_for="a diagnostic: routing that reads the labels",
            paper="App. Objective",
        ),
        "oracle-correctness": _routed(
            "diagnostic that reads the labels: right and wrong predictions apart",
            signal="oracle_correctness",
            parameters="2",
            good_for="a diagnostic: the best any router could do",
            paper="App. Routing",
        ),
        # A curve of the risk, or of one statistic.
        "linear-risk": _shaped(
            "linear",
            "temperature rises or falls with risk along a line",
            parameters="9",
            good_for="the smoothest use of the risk score",
        ),
        "pwlinear-3": _shaped(
            "anchors",
            "temperature by risk, straight between three anchors",
            parameters="10",
            good_for="SRTS without jumps between groups",
        ),
        "spline-risk": _shaped(
            "spline",
            "temperature by risk along a natural cubic spline",
            parameters="10",
            good_for="SRTS without jumps or kinks",
        ),
        "hts-nll": _shaped(
            "linear",
            "temperature by log-entropy, by log-likelihood",
            signal="log_entropy",
            objective="nll",
            source=_HTS,
            good_for="two parameters, temperature by entropy",
        ),
        "hts-bce": _shaped(
            "linear",
            "temperature by log-entropy, by top-label BCE",
            signal="log_entropy",
            source=_HTS,
            good_for="the same under the objective of SRTS",
        ),
        "lts-scalar": _shaped(
            "linear",
            "temperature by raw confidence along a line, by log-likelihood",
            signal="confidence",
            objective="nll",
            cites=("liang2026srts", "ding2021local"),
            good_for="the smallest local temperature: two numbers for one scalar",
            paper="App. Objective",
        ),
        "qats-nll": _shaped(
            "positive_linear",
            "temperature by confidence quantile, by log-likelihood",
            signal="confidence_rank",
            objective="nll",
            source=_QATS,
            good_for="two parameters, for low confidence that is overstated",
        ),
        "qats-bce": _shaped(
            "positive_linear",
            "temperature by confidence quantile, by top-label BCE",
            signal="confidence_rank",
            source=_QATS,
            good_for="the same under the objective of SRTS",
        ),
        "smart-bce": _shaped(
            "smart",
            "temperature by a 16-unit network of the logit margin, by top-label BCE",
            signal="standardised_margin",
            parameters="49",
            source=_SMART,
            good_for="a flexible curve of the margin, from some thousand samples on",
            paper="RQ1",
        ),
        "smart-softece": _shaped(
            "smart",
            "temperature by a 16-unit network of the logit margin, by soft ECE",
            signal="standardised_margin",
            objective="softece",
            parameters="49",
            source=_SMART,
            good_for="SMART as published: soft ECE",
            paper="RQ1",
        ),
        # Networks without restraint.
        "sats-logit-nll": _head(
            "logits",
            "nll",
            "in-sample",
            good_for="shows what an unrestricted head does to 2,500 samples",
        ),
        "sats-logit-bce": _head(
            "logits", "bce", "held-out", good_for="the same, selected on held-out samples"
        ),
        "sats-features-nll": _head(
            "features", "nll", "in-sample", good_for="the same from features"
        ),
        "sats-features-bce": _head(
            "features",
            "bce",
            "held-out",
            good_for="the same from features, selected on held-out samples",
        ),
        "utemphead": _head(
            "features", "nll", "fixed", parameters="128·d + 257", good_for="one wide head, no sweep"
        ),
    }
)
