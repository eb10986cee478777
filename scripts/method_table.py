"""Write the table of all methods into docs/methods.md: `python scripts/method_table.py`.

The axes, parameter counts and argmax claims come from the catalogue; what the paper says of a
method and what it is good for are written here. A test fails when the page is not up to date.
"""

from __future__ import annotations

from pathlib import Path

from smallcal.calibrators.catalogue import ALIASES, METHODS
from smallcal.calibrators.maps.peers import PEERS
from smallcal.calibrators.method import Method

PAGE = Path(__file__).parents[1] / "docs" / "methods.md"
BEGIN, END = "<!-- methods: begin -->", "<!-- methods: end -->"

#: Maps that may change the predicted class.
CLASSWISE = {"vector", "matrix", "dirichlet"}

#: Signals that are learned, and so cross-fitted.
LEARNED = {
    "risk",
    "shuffled",
    "signed_residual",
    "absolute_residual",
    "feature_risk",
    "feature_logit_risk",
}

#: Maps that hold samples apart while they are fitted.
HELD_APART = {
    "vector": "cross-validated penalty",
    "dirichlet": "cross-validated penalties",
    "rejecting": "threshold from a held-out tenth",
    "binned": "bins from the other half",
    "semantic": "temperatures from the other half",
}

MAIN, RQ1, RQ2 = "Method", "RQ1", "RQ2"
OBJECTIVE, ROUTING, TARGETS = "App. Objective", "App. Routing", "App. Routing targets"
MAPS, HEADS, CLASSICAL = "App. Matched maps", "App. Adaptive heads", "App. Classical baselines"

#: Name to the part of the paper it appears in ("" for none), and what it is good for.
NOTES = {
    "none": ("Setup", "the reference: what happens without calibration"),
    "ts-nll": ("Setup", "log-loss with very few samples; the common baseline"),
    "tva-ts": (RQ1, "confidence with very few samples; what routing must beat"),
    "ts-brier": ("", "one temperature when large errors matter most"),
    "ts-softece": ("", "one temperature when ECE itself is the target"),
    "srts-bce": (MAIN, "lower ECE at some thousand samples; at 250 a tie (no-harm.md)"),
    "srts-nll": (RQ2, "the objective ablation of SRTS"),
    "srts-brier": ("", "the objective ablation of SRTS"),
    "srts-softece": (OBJECTIVE, "the objective ablation of SRTS"),
    "srts-mixed": (OBJECTIVE, "log-loss and confidence at once"),
    "srts-shrunk": ("", "SRTS from 150 samples on, without its cost in log-loss"),
    "signal-linear": ("", "confidence and log-loss from 150 samples on; seven numbers, no router"),
    "margin-k3": (ROUTING, "nearly SRTS without a router: three numbers"),
    "confidence-k3": (ROUTING, "the simplest grouping; shows what the margin adds"),
    "probmargin-k3": (ROUTING, "signal ablation"),
    "confmargin-k3": (ROUTING, "signal ablation: two signals instead of six"),
    "signed-residual-k3": (TARGETS, "routing straight by the error to be corrected"),
    "abs-residual-k3": (TARGETS, "routing by the size of the error to be corrected"),
    "features-k3": (OBJECTIVE, "whether features know more than logits about risk"),
    "features-logits-k3": (OBJECTIVE, "the same, with the logits beside them"),
    "random-k3": (ROUTING, "a control: groups that mean nothing"),
    "shuffled-k3": (ROUTING, "a control: the right scores on the wrong samples"),
    "oracle-risk": (OBJECTIVE, "a diagnostic: routing that reads the labels"),
    "oracle-correctness": (ROUTING, "a diagnostic: the best any router could do"),
    "linear-risk": (MAPS, "the smoothest use of the risk score"),
    "pwlinear-3": (MAPS, "SRTS without jumps between groups"),
    "spline-risk": (MAPS, "SRTS without jumps or kinks"),
    "hts-nll": (MAPS, "two parameters, temperature by entropy"),
    "hts-bce": (MAPS, "the same under the objective of SRTS"),
    "qats-nll": (MAPS, "two parameters, for low confidence that is overstated"),
    "qats-bce": (MAPS, "the same under the objective of SRTS"),
    "smart-bce": (RQ1, "a flexible curve of the margin, from some thousand samples on"),
    "smart-softece": (RQ1, "SMART as published: soft ECE"),
    "sats-logit-nll": (HEADS, "shows what an unrestricted head does to 2,500 samples"),
    "sats-logit-bce": (HEADS, "the same, selected on held-out samples"),
    "sats-features-nll": (HEADS, "the same from features"),
    "sats-features-bce": (HEADS, "the same from features, selected on held-out samples"),
    "utemphead": (HEADS, "one wide head, no sweep"),
    "vector-scaling": (CLASSICAL, "classes that are miscalibrated differently, many samples"),
    "dirichlet-odir": (CLASSICAL, "the same with confusions between classes, many samples"),
    "matrix-scaling": (CLASSICAL, "shows how badly C² parameters can overfit"),
    "ets": ("", "one temperature with a floor under every class; safe for log-loss"),
    "meta-cal": ("Related work", "when uncertain samples may be refused"),
    "scaling-binning": ("", "when calibration error must be measurable"),
    "semantic-groups": ("Related work", "groups that features show and logits do not"),
    "probmetrics:svs": ("", "CalArena's best small calibrator; few classes, log-loss"),
    "probmetrics:sms": ("", "CalArena's best; classes confused with one another"),
    "probmetrics:ts-mix": ("", "temperature scaling whose log-loss stays finite"),
    "sklearn:isotonic": ("", "many samples of few classes"),
    "venn-abers": ("", "many samples of few classes, with validity in theory"),
    "netcal:histogram": ("", "the classic; many samples of few classes"),
}
NOTES |= {
    "tva-ts+tail": ("", "log-loss of one temperature for the confidence, one for the rest"),
    "srts-bce+tail": ("", "the tail's ablation on the paper's method"),
    "srts-shrunk+tail": ("", "confidence by risk and the whole vector, from 150 samples on"),
    "signal-linear+tail": ("", "the whole probability vector, from 150 samples on"),
    "class-linear": ("", "models that are surer of some classes than they should be"),
    "class-linear+tail": ("", "the same, and the whole probability vector"),
    "signal-linear+tail+gate": ("", "the default's ablation without classes"),
    "class-linear+tail+gate": ("", "any budget: no worse than the raw model (no-harm.md)"),
}


def discipline(row: Method) -> str:
    """Return what keeps a method's fit honest, beside bounds."""
    found = []
    if row.signal in LEARNED:
        found.append("out-of-fold scores")
    if row.map == "groups":
        found.append("small groups pooled")
    if row.map == "head":
        found.append({"held-out": "chosen on a fifth"}.get(row.options["protocol"], "none"))
    if row.options.get("prior_scale") is not None:
        found.append("normal prior")
    if row.gate is not None:
        found.append("left alone without evidence")
    found += [HELD_APART[row.map]] if row.map in HELD_APART else []
    return ", ".join(found) or "–"


def table() -> str:
    """Return the table in Markdown."""
    lines = [
        "| name | objective | signal | map | discipline | parameters "
        "| argmax kept | in the paper | good for |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, row in METHODS.items():
        kept = PEERS[name].preserves_argmax if row.map == "peer" else row.map not in CLASSWISE
        section, use = NOTES[name]
        alias = "".join(f" (= `{other}`)" for other, true in ALIASES.items() if true == name)
        cells = [
            f"`{name}`{alias}",
            row.objective if row.map not in ("identity", "peer") else "–",
            row.signal.replace("_", " ") if row.signal != "none" else "–",
            row.map.replace("_", " "),
            discipline(row),
            row.parameters or "by the data",
            "yes" if kept else "no",
            section or "–",
            use,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def updated(page: str) -> str:
    """Return the page with the table between the marks made anew."""
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
