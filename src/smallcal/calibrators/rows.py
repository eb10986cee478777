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


def _routed(summary: str, *, title: str, good_for: str, paper: str = "", **choices: Any) -> Method:
    signal = choices.pop("signal", "risk")
    # A learned signal has seven numbers, beside the three temperatures.
    usual = {"objective": "bce", "parameters": "10" if ROUTES[signal].care else "3"}
    axes: dict[str, Any] = {name: choices.pop(name, value) for name, value in usual.items()}
    source = choices.pop("source", _PAPER)
    said = {"title": title, "summary": summary, "good_for": good_for}
    axes |= {"source": source, "paper": paper, **said}
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
            summary="no calibration, the probabilities as the model gives them",
            cites=("smallcal",),
            parameters="0",
            good_for="the reference: what happens without calibration",
            paper="Setup",
            title="uncalibrated",
        ),
        # One temperature for all.
        "ts-nll": _scalar(
            "nll",
            "one temperature, fitted by log-loss",
            _GUO,
            good_for="log-loss with very few samples; the common baseline",
            paper="Setup",
            title="temperature scaling",
        ),
        "tva-ts": _scalar(
            "bce",
            "one temperature, fitted by top-label log-loss (top-versus-all, TvA)",
            "Le Coz, Herbin and Adjed 2024",
            good_for="confidence with very few samples; the baseline for routing",
            cites=("lecoz2024tva",),
            paper="RQ1",
            title="top-label temperature scaling",
        ),
        "ts-brier": _scalar(
            "brier",
            "one temperature, fitted by the Brier score of the top label",
            good_for="one temperature where large errors matter most",
            paper="App. Objective",
            title="temperature scaling (Brier score)",
        ),
        "ts-softece": _scalar(
            "softece",
            "one temperature, fitted by a smooth form of ECE",
            _OURS,
            good_for="one temperature where ECE itself is the target",
            title="temperature scaling (soft ECE)",
            cites=("smallcal", "karandikar2021soft", "guo2026smart"),
        ),
        # Groups of similar risk.
        "srts-bce": _routed(
            "three temperatures, by predicted risk of error, as in the SRTS paper",
            good_for="lower ECE at some thousand samples; at 250 a tie (no-harm.md)",
            paper="Method",
            title="SRTS-BCE",
        ),
        "srts-nll": _routed(
            "three temperatures, by predicted risk of error, fitted by log-loss",
            objective="nll",
            good_for="the objective ablation of SRTS",
            paper="RQ2",
            title="SRTS-NLL",
        ),
        "srts-brier": _routed(
            "three temperatures by risk, fitted by the Brier score of the top label",
            objective="brier",
            good_for="the objective ablation of SRTS",
            paper="App. Objective",
            title="SRTS-Brier",
        ),
        "srts-softece": _routed(
            "three temperatures by risk, fitted by a smooth form of ECE",
            objective="softece",
            cites=("liang2026srts", "karandikar2021soft", "guo2026smart"),
            good_for="the objective ablation of SRTS",
            paper="App. Objective",
            title="SRTS (soft ECE)",
        ),
        "srts-mixed": _routed(
            "three temperatures by risk, fitted by log-loss plus top-label log-loss",
            objective="mixed(1)",
            good_for="log-loss and confidence at once",
            paper="App. Objective",
            title="SRTS (log-loss and top-label log-loss)",
        ),
        "srts-shrunk": _routed(
            "three temperatures by risk, with shrinkage towards a common one",
            prior_scale=0.1,
            source=_OURS,
            good_for="SRTS from 150 samples on, without its cost in log-loss",
            title="shrunken SRTS",
        ),
        "signal-linear": Method(
            objective="bce",
            signal="statistics",
            map="regressed",
            summary="log-temperature linear in six statistics of the logits, with a normal prior",
            source=_OURS,
            cites=_CITES[_OURS],
            parameters="7",
            good_for="confidence and log-loss from 150 samples on; seven parameters, no risk model",
            title="linear log-temperature",
        ),
        "class-linear": Method(
            objective="bce",
            signal="statistics_class",
            map="class_regressed",
            summary="signal-linear plus an effect of each predicted class, with its own prior",
            source=_OURS,
            cites=_CITES[_OURS],
            parameters="C + 7",
            good_for="models that are overconfident in some classes",
            title="linear log-temperature with class effects",
        ),
        # Groups by something else.
        "margin-k3": _routed(
            "three temperatures by logit margin, without a learned risk model",
            signal="logit_margin",
            good_for="close to SRTS without a risk model: three parameters",
            paper="App. Routing",
            title="margin groups",
        ),
        "confidence-k3": _routed(
            "three temperatures by raw confidence, without a learned risk model",
            signal="confidence",
            good_for="the simplest grouping, to see what the margin adds",
            paper="App. Routing",
            title="confidence groups",
        ),
        "probmargin-k3": _routed(
            "three temperatures by probability margin, without a learned risk model",
            signal="prob_margin",
            good_for="signal ablation",
            paper="App. Routing",
            title="probability-margin groups",
        ),
        "confmargin-k3": _routed(
            "SRTS whose risk model uses confidence and margin only",
            statistics=("confidence", "logit_margin"),
            parameters="6",
            good_for="signal ablation: two signals instead of six",
            paper="App. Routing",
            title="SRTS on confidence and margin",
        ),
        "signed-residual-k3": _routed(
            "three temperatures by predicted residual (correct or not, minus confidence)",
            signal="signed_residual",
            good_for="routing by the error that is to be corrected",
            paper="App. Routing targets",
            title="signed-residual groups",
        ),
        "abs-residual-k3": _routed(
            "three temperatures by the predicted absolute residual",
            signal="absolute_residual",
            good_for="routing by the size of the error to be corrected",
            paper="App. Routing targets",
            title="absolute-residual groups",
        ),
        "features-k3": _routed(
            "SRTS whose risk model uses features instead of logit statistics",
            signal="feature_risk",
            parameters="d + 4",
            good_for="tests whether features predict errors better than logits",
            paper="App. Objective",
            title="SRTS on features",
        ),
        "features-logits-k3": _routed(
            "SRTS whose risk model uses features and logits",
            signal="feature_logit_risk",
            parameters="d + C + 4",
            source=_OURS,
            good_for="the same with features and logits together",
            title="SRTS on features and logits",
        ),
        "temphead-k3": _routed(
            "three temperatures, by what a network predicts from features (needs torch)",
            signal="head_temperature",
            parameters="128·d + 260",
            good_for="tests whether an unrestricted head finds where temperatures differ",
            paper="App. Objective",
            title="temperature-head groups",
        ),
        "random-k3": _routed(
            "control: three temperatures for random groups",
            signal="random",
            good_for="a control: groups unrelated to risk",
            paper="App. Routing",
            title="random groups",
        ),
        "shuffled-k3": _routed(
            "control: SRTS with risk scores shuffled among samples",
            signal="shuffled",
            good_for="a control: the right scores on the wrong samples",
            paper="App. Routing",
            title="shuffled risk groups",
        ),
        "oracle-risk": _routed(
            "diagnostic that reads the labels: three groups by 1 - probability of the true class",
            signal="oracle_risk",
            good_for="a diagnostic: routing that reads the labels",
            paper="App. Objective",
            title="oracle risk groups",
        ),
        "oracle-correctness": _routed(
            "diagnostic that reads the labels: one group of correct, one of wrong predictions",
            signal="oracle_correctness",
            parameters="2",
            good_for="a diagnostic: the best any router could do",
            paper="App. Routing",
            title="oracle correctness groups",
        ),
        # A curve of the risk, or of one statistic.
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
        # Unrestricted networks.
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
    }
)
