"""The paper's figures: which study draws each, and the numbers in their captions."""

from __future__ import annotations

from reference_remarks import REQUANTIZED, SRTS, named, said
from reference_tables import ECE, VIT3, VIT_C, Fields, cell, method, metric

#: Label to the study whose rows it shows, and the figure of that study, or a function of `plots`.
FIGURES: dict[str, Fields] = {
    "fig:srts-methodology-overview": {"why": "an overview drawn by hand"},
    "fig:budget_resampling": {"study": "budget", "figure": "budget-curve"},
    "fig:router_causality": {"study": "routing-signal", "figure": "differences"},
    "fig:srts-protocol-c-severity": {"study": "shift", "figure": "severity-curve"},
    "fig:srts-recovery-case-study": {"study": "clean", "figure": "differences"},
    "fig:srts-signal-ablation": {"study": "routing-signal", "figure": "differences"},
    "fig:srts-protocol-b-bars-a": {"study": "clean", "figure": "differences"},
    "fig:srts-protocol-b-bars-b": {"study": "clean", "figure": "differences"},
    "fig:srts-protocol-b-bars": {"study": "clean", "figure": "differences"},
    "fig:motivation-why-routing": {"study": "risk-score", "figure": "group-gaps"},
    "fig:risk-vs-confidence": {"study": "risk-score", "figure": "risk-confidence"},
    "fig:high-margin-c100c": {"study": "within-margin", "figure": "within-margin"},
    "fig:appendix-group-temperatures": {"study": "audit", "figure": "group-temperatures"},
    "fig:appendix-risk-score-separation": {"study": "risk-score", "figure": "risk-density"},
    "fig:appendix-signal-variant-ci": {"study": "routing-signal", "figure": "differences"},
    "fig:validation-budget": {"study": "budget", "figure": "budget-curve"},
    "fig:corruption-risk-sankey": {"study": "risk-flow", "figure": "risk-flow"},
    "fig:appendix-c100c-overall": {"study": "shift", "figure": "severity-curve"},
    "fig:appendix-c100c-k3-minus-k1": {"study": "heterogeneity", "figure": "corruption-gain"},
    "fig:appendix-c100c-sats-failure": {"study": "shift", "figure": "severity-curve"},
    "fig:appendix-routing-heterogeneity": {"study": "heterogeneity", "figure": "corruption-gain"},
    "fig:appendix-imagenetc-severity": {"study": "shift", "figure": "severity-curve"},
}


def captions() -> list[Fields]:
    """Return the numbers that captions print, and no table does."""
    at = "fig:srts-recovery-case-study"
    base = {**cell("cifar100", "vit-b16-temphead", 1), "budget": 2500}
    grouped = method("srts-nll[n_groups=3]")
    found = [
        said(at, "clean", text, base, row, metric(name) or {})
        for row, name, text in (
            ({"method": "none"}, "ece15", "29.38"),
            ({"method": "none"}, "nll", "4.253"),
            ({"method": "none"}, "hcfp90", "23.11"),
            (grouped, "nll", "1.281"),
            (grouped, "hcfp90", "0.83"),
        )
    ]
    share = named("?share_of_group2", "percent")
    high = "fig:srts-protocol-c-severity"
    found.append(said(high, "audit", "32.7", VIT3, SRTS, share, decimals=1))
    flow = "fig:corruption-risk-sankey"
    first = {**VIT_C, "seeds": [0]}
    found += [
        said(flow, "audit", text, first, SRTS, share, set=where)
        for where, text in (("clean", "32"), ("corrupted-s5", "62"))
    ]
    ranked = {**VIT3, "seeds": [0]}
    found += [
        said("fig:risk-vs-confidence", "risk-score", text, ranked, SRTS, named(what, "fraction"))
        for what, text in (("?auroc_risk", "0.900"), ("?auroc_confidence", "0.889"))
    ]
    worse = {"kind": "difference", "against": "srts-bce", "set": "corrupted-s5"}
    found.append(
        said("sec:results-protocol-c", "requantize", "2.3", VIT_C, REQUANTIZED, ECE, **worse)
    )
    return found
