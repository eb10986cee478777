"""The methods that give each row a temperature, one row of parts each; see ``catalogue``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from smallcal.calibrators.method import Method
from smallcal.calibrators.signals import ROUTES

PAPER = "the SRTS paper"
OURS = "this project"
_GUO = "Guo et al. 2017"

#: What to cite for a source: keys of ``data/references.bib``.
CITES = {
    PAPER: ("liang2026srts",),
    OURS: ("smallcal", "liang2026srts"),
    _GUO: ("guo2017calibration",),
}


def _scalar(objective: str, summary: str, source: str = PAPER, **said: Any) -> Method:
    said = {"cites": CITES.get(source, ())} | said
    return Method(objective=objective, summary=summary, source=source, parameters="1", **said)


def routed(summary: str, *, title: str, good_for: str, paper: str = "", **choices: Any) -> Method:
    """Return a row with three groups of a signal, the risk unless it is named."""
    signal = choices.pop("signal", "risk")
    # A learned signal has seven numbers, beside the three temperatures.
    usual = {"objective": "bce", "parameters": "10" if ROUTES[signal].care else "3"}
    axes: dict[str, Any] = {name: choices.pop(name, value) for name, value in usual.items()}
    source = choices.pop("source", PAPER)
    said = {"title": title, "summary": summary, "good_for": good_for}
    axes |= {"source": source, "paper": paper, **said}
    axes["cites"] = choices.pop("cites", CITES[source])
    return Method(signal=signal, map="groups", options=choices, **axes)


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
            OURS,
            good_for="one temperature where ECE itself is the target",
            title="temperature scaling (soft ECE)",
            cites=("smallcal", "karandikar2021soft", "guo2026smart"),
        ),
        # Groups of similar risk.
        "srts-bce": routed(
            "three temperatures, by predicted risk of error, as in the SRTS paper",
            good_for="lower ECE at some thousand samples; at 250 a tie (no-harm.md)",
            paper="Method",
            title="SRTS-BCE",
        ),
        "srts-nll": routed(
            "three temperatures, by predicted risk of error, fitted by log-loss",
            objective="nll",
            good_for="the objective ablation of SRTS",
            paper="RQ2",
            title="SRTS-NLL",
        ),
        "srts-brier": routed(
            "three temperatures by risk, fitted by the Brier score of the top label",
            objective="brier",
            good_for="the objective ablation of SRTS",
            paper="App. Objective",
            title="SRTS-Brier",
        ),
        "srts-softece": routed(
            "three temperatures by risk, fitted by a smooth form of ECE",
            objective="softece",
            cites=("liang2026srts", "karandikar2021soft", "guo2026smart"),
            good_for="the objective ablation of SRTS",
            paper="App. Objective",
            title="SRTS (soft ECE)",
        ),
        "srts-mixed": routed(
            "three temperatures by risk, fitted by log-loss plus top-label log-loss",
            objective="mixed(1)",
            good_for="log-loss and confidence at once",
            paper="App. Objective",
            title="SRTS (log-loss and top-label log-loss)",
        ),
        "srts-shrunk": routed(
            "three temperatures by risk, with shrinkage towards a common one",
            prior_scale=0.1,
            source=OURS,
            good_for="SRTS from 150 samples on, without its cost in log-loss",
            title="shrunken SRTS",
        ),
        "signal-linear": Method(
            objective="bce",
            signal="statistics",
            map="regressed",
            summary="log-temperature linear in six statistics of the logits, with a normal prior",
            source=OURS,
            cites=CITES[OURS],
            parameters="7",
            good_for="confidence and log-loss from 150 samples on; seven parameters, no risk model",
            title="linear log-temperature",
        ),
        "class-linear": Method(
            objective="bce",
            signal="statistics_class",
            map="class_regressed",
            summary="signal-linear plus an effect of each predicted class, with its own prior",
            source=OURS,
            cites=CITES[OURS],
            parameters="C + 7",
            good_for="models that are overconfident in some classes",
            title="linear log-temperature with class effects",
        ),
    }
)
