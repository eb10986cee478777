"""The order of a report: which part of the content stands where, and under which words."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

from smallcal.reports.render import anatomy, results
from smallcal.reports.render.blocks import (
    Block,
    Command,
    Document,
    Download,
    Downloads,
    Facts,
    Figure,
    Heading,
    Section,
    Text,
)
from smallcal.reports.render.cells import Content
from smallcal.reports.render.results import level_of

#: Bytes of artefacts that a page may hold, before base64; more would make it slow to open.
MOST_BYTES = 1_200_000


def document_of(content: Content) -> Document:
    """Return everything that a report says, in order, for any renderer."""
    cal, test = content["data"]["calibration"], content["data"]["test"]
    version = content["versions"]["smallcal"]
    return Document(
        title=content["title"],
        lead=(
            f"{test['n_classes']:,} classes. Methods were fitted on {cal['n']:,} samples from "
            f"{cal['source']}, and measured on {test['n']:,} from {test['source']}."
        ),
        sections=list(_sections(content)),
        footer=(
            f"Made by smallcal {version}. Intervals are {level_of(content)} and come from "
            "resampled test samples unless a table says otherwise."
        ),
        version=version,
    )


def _sections(content: Content) -> Iterator[Section]:
    figures = [Figure(**spec) for spec in content["figures"]]
    forest = [figure for figure in figures if figure.id.startswith("forest")]
    shift = [figure for figure in figures if figure.id.startswith("shift")]
    others = [figure for figure in figures if figure not in forest and figure not in shift]
    found = {
        "verdict": ("Verdict", results.verdict(content)),
        "metrics": ("Metrics", results.metrics(content)),
        "differences": ("Differences", results.differences(content, forest)),
        "figures": ("Figures", results.figures(others)),
        "shift": ("Under shift", results.shift(content, shift)),
        "routing": ("How temperatures are chosen", anatomy.routing(content)),
        "gate": ("Do no harm", anatomy.gates(content)),
        "groups": ("Classes and groups", anatomy.groups(content)),
        "methods": ("Methods", anatomy.methods(content)),
        "data": ("Data and versions", _data(content)),
        "reproduce": ("Make it again", _reproduce(content)),
    }
    for id, (title, blocks) in found.items():
        shown = list(blocks)
        if shown:
            yield Section(id, title, shown)


def _data(content: Content) -> Iterator[Block]:
    pairs = []
    for role in ("calibration", "test"):
        split = content["data"][role]
        name = role.capitalize()
        pairs += [
            (
                f"{name} samples",
                f"{split['n']:,} ({split['n_errors']:,} wrong) of {split['source']}",
            ),
            (f"{name} arrays, SHA-256", split["sha256"]),
        ]
        if split["file_sha256"]:
            pairs.append((f"{name} file, SHA-256", split["file_sha256"]))
    settings = content["settings"]
    pairs += [
        ("Classes", f"{content['data']['test']['n_classes']:,}"),
        ("Given as", content["data"]["input"]),
        ("Resamples", f"{settings['n_boot']:,}, seed {settings['seed']}"),
        ("Level of intervals", level_of(content)),
        ("Versions", ", ".join(f"{name} {v}" for name, v in content["versions"].items())),
    ]
    yield Facts(pairs)


def _reproduce(content: Content) -> Iterator[Block]:
    command = content["reproduce"]["command"]
    if command:
        yield Text("This command makes the same report, byte by byte, from the same files.")
        yield Command("command", command, "Command")
    yield Text("In Python:")
    yield Command("python", content["reproduce"]["python"], "Python")
    if content["artefacts"]:
        yield Heading("Fitted calibrators")
        yield Text(
            "Files to load with sc.load or to apply with smallcal apply; they are in the report's "
            "page and in its JSON."
        )
        yield Downloads(list(_artefacts(content)))


def _artefacts(content: Content) -> Iterator[Download]:
    room = MOST_BYTES
    chosen = content["verdict"]["recommended"]
    # The recommended one first: if room runs out, it must not be the one left out.
    for entry in sorted(content["artefacts"], key=lambda entry: entry["method"] != chosen):
        text = json.dumps(entry["document"], indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        size = len(text.encode())
        data = base64.b64encode(text.encode()).decode() if size <= room else ""
        room -= size if data else 0
        said = f"{entry['file_name']}, {max(1, round(size / 1000)):,} kB"
        if not data:
            said += ": too large to be in this page; fit it with the command above"
        yield Download(entry["file_name"], entry["method"], said, data)
