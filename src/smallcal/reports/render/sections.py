"""The order of a report: which part of the content stands where, and under which words."""

from __future__ import annotations

from collections.abc import Iterator

from smallcal.reports.render import background, promises, results
from smallcal.reports.render.blocks import Document, Figure, Section
from smallcal.reports.render.cells import Content, level_of
from smallcal.reports.render.costs import costs


def document_of(content: Content) -> Document:
    """Return everything that a report says, in order, for any renderer."""
    cal, test = content["data"]["calibration"], content["data"]["test"]
    version = content["versions"]["smallcal"]
    score = content["data"]["input"] == "score"
    rows = "One score per sample." if score else f"{test['n_classes']:,} classes."
    return Document(
        title=content["title"],
        lead=(
            f"{rows} Methods were fitted on {cal['n']:,} samples from "
            f"{cal['source']}, and measured on {test['n']:,} from {test['source']}."
        ),
        sections=list(_sections(content)),
        footer=(
            f"Made by smallcal {version}. Intervals are {level_of(content)} and come from "
            "resampled test samples unless a table says otherwise."
            if content["settings"]["n_boot"]
            else f"Made by smallcal {version}. Nothing was resampled: values have no intervals."
        ),
        version=version,
    )


def _sections(content: Content) -> Iterator[Section]:
    figures = [Figure(**spec) for spec in content["figures"]]
    forest = [figure for figure in figures if figure.id.startswith("forest")]
    shift = [figure for figure in figures if figure.id.startswith("shift")]
    priced = [figure for figure in figures if figure.id in ("cost-curve", "net-benefit")]
    apart = [*forest, *shift, *priced]
    others = [figure for figure in figures if figure not in apart]
    chosen = content["verdict"]["recommended"]
    score = content["data"]["input"] == "score"
    found = {
        "verdict": ("Verdict", results.verdict(content)),
        "findings": ("What was found", results.findings(content)),
        "promise": ("Guarantees on error rates", promises.promise(content)),
        "metrics": ("Metrics", results.metrics(content)),
        "differences": ("Differences", results.differences(content, forest)),
        "costs": ("What mistakes cost", costs(content, priced)),
        "figures": ("Figures", results.figures(others)),
        "shift": ("Under shift", results.shift(content, shift)),
        "explained": (f"How {chosen} works", background.explained(content)),
        "routing": ("Temperatures of other methods", background.routing(content)),
        "groups": ("Groups" if score else "Classes and groups", background.groups(content)),
        "methods": ("Methods", background.methods(content)),
        "data": ("Data and versions", background.data(content)),
        "reproduce": ("Make it again", background.reproduce(content)),
    }
    for id, (title, blocks) in found.items():
        shown = list(blocks)
        if shown:
            yield Section(id, title, shown, open=id == "verdict")
