"""The order of the page: which part of the content stands where, and under which words."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from smallcal.metrics import METRICS
from smallcal.reports.render import tables
from smallcal.reports.render.blocks import (
    Block,
    Command,
    Download,
    Downloads,
    Facts,
    Figure,
    Figures,
    Fold,
    Heading,
    Points,
    Section,
    Text,
)
from smallcal.reports.render.drawn import figures_of
from smallcal.reports.render.tables import written

Content = Mapping[str, Any]

RAW = "none"

#: Bytes of artefacts that a page may hold, before base64; more would make it slow to open.
MOST_BYTES = 1_200_000

#: What the cards at the top show.
_CARDS = ("ece15", "top_label_bce", "accuracy")

#: What a finding begins with: a colour alone would not tell everybody.
_WORDS = {"care": "take care", "bad": "harm"}

#: How the metrics are put beside one another: five columns fit a page, and a sheet of paper.
_ABREAST = 5


def view_of(content: Content) -> dict[str, Any]:
    """Return what the template needs."""
    data, judged = content["data"], content["verdict"]
    cal, test = data["calibration"], data["test"]
    version = content["versions"]["smallcal"]
    return {
        "title": content["title"],
        "lead": (
            f"{test['n_classes']:,} classes. Methods were fitted on {cal['n']:,} samples from "
            f"{cal['source']}, and measured on {test['n']:,} from {test['source']}."
        ),
        "version": version,
        "verdict": {
            "headline": judged["headline"],
            "findings": [
                {**entry, "word": _WORDS.get(entry["level"], "")} for entry in judged["findings"]
            ],
            "numbers": _cards(content),
        },
        "sections": list(_sections(content)),
        "footer": (
            f"Made by smallcal {version}. Intervals are {_level(content)} and come from resampled "
            "test samples unless a table says otherwise. This file asks nothing of any network."
        ),
    }


def _level(content: Content) -> str:
    return f"{100 * content['settings']['level']:g} %"


def _sections(content: Content) -> Iterator[Section]:
    yield Section("verdict", "Verdict", [_choice(content)])
    figures = figures_of(content["figures"])
    forest = [figure for figure in figures if figure.id.startswith("forest")]
    shift = [figure for figure in figures if figure.id.startswith("shift")]
    others = [figure for figure in figures if figure not in forest and figure not in shift]
    yield Section("metrics", "Metrics", list(_metrics(content)))
    yield Section("differences", "Differences", list(_differences(content, forest)))
    if others:
        yield Section("figures", "Figures", _shown(others))
    if content["routing"]:
        yield Section("routing", "How temperatures are chosen", list(_routing(content)))
    if content["gates"]:
        yield Section("gate", "Do no harm", list(_gates(content)))
    yield Section("groups", "Classes and groups", list(_groups(content)))
    if content["shift"]:
        yield Section("shift", "Under shift", list(_shift(content, shift)))
    yield Section("methods", "Methods and warnings", list(_methods(content)))
    yield Section("data", "Data and versions", [_facts(content)])
    yield Section("reproduce", "Make it again", list(_reproduce(content)))


def _shown(figures: Sequence[Figure]) -> list[Block]:
    return [Figures(figures)] if figures else []


def _cards(content: Content) -> list[dict[str, str]]:
    """Return the numbers that a reader wants first: before, after, and how sure."""
    chosen = content["verdict"]["recommended"]
    rows = {row["method"]: row["cells"] for row in content["metrics"]["rows"]}
    cards = []
    for name in _CARDS:
        before, after = (tables.metric_cell(name, rows[key][name]) for key in (RAW, chosen))
        unit = " %" if METRICS[name].percent else ""
        if chosen == RAW:
            value, note = after.text + unit, f"{_level(content)} interval {after.note}"
        else:
            value = f"{before.text} → {after.text}{unit}"
            note = _change(content, chosen, name)
        if before.text == after.text:
            value = after.text + unit
        cards.append({"label": METRICS[name].summary, "value": value, "note": note, "name": name})
    return cards


def _change(content: Content, chosen: str, name: str) -> str:
    table = next(table for table in content["differences"] if table["baseline"] == RAW)
    row = next(row for row in table["rows"] if row["method"] == chosen)["metrics"][name]
    scale, digits = tables.scale_of(name)
    interval = tables.between(row["low"], row["high"], digits, scale=scale)
    if row["value"] == row["low"] == row["high"] == 0:
        return "the same predictions"
    return f"{row['verdict']}; change {interval}, {_level(content)} interval"


def _choice(content: Content) -> Text:
    judged = content["verdict"]
    asked = judged["asked"]
    also = f" (asked for as {asked})" if asked != judged["recommended"] else ""
    return Text([f"Recommended: {judged['recommended']}{also}. Why: {judged['reason']}."], "note")


def _metrics(content: Content) -> Iterator[Block]:
    yield Text(
        [f"Each value has its {_level(content)} interval below it. {content['metrics']['note']}"]
    )
    names = [column["name"] for column in content["metrics"]["columns"]]
    chosen = content["verdict"]["recommended"]
    for start in range(0, len(names), _ABREAST):
        part = names[start : start + _ABREAST]
        yield tables.metric_table(content["metrics"], part, chosen, number_of=start // _ABREAST)
    yield Fold(
        "What the metrics are",
        [Facts([(name, METRICS[name].summary) for name in names])],
    )


def _differences(content: Content, forest: Sequence[Figure]) -> Iterator[Block]:
    yield Text(
        [
            "Each method minus the one it is compared with, on the same samples. A difference is "
            "called better or worse only where its interval lies on one side of zero; otherwise "
            "it is a tie."
        ]
    )
    yield from _shown(forest)
    names = [column["name"] for column in content["metrics"]["columns"]]
    for number, table in enumerate(content["differences"]):
        base = "the raw model" if table["baseline"] == RAW else table["baseline"]
        yield Heading(f"From {base}")
        compared = [name for name in names if name in table["metrics"]]
        for start in range(0, len(compared), _ABREAST):
            part = compared[start : start + _ABREAST]
            yield tables.difference_table(
                table, part, level=_level(content), number_of=(number, start // _ABREAST)
            )


def _routing(content: Content) -> Iterator[Block]:
    for number, entry in enumerate(content["routing"]):
        yield Heading(entry["method"])
        spread = entry["test_temperature"]
        ends = [spread[key] for key in sorted(spread, key=float)]
        said = [f"Pooled temperature {written(entry['pooled_temperature'], 4)}"]
        if entry["tail_temperature"] is not None:
            said.append(f"tail temperature {written(entry['tail_temperature'], 4)}")
        levels = " / ".join(f"{100 * float(key):g} %" for key in sorted(spread, key=float))
        said.append(
            f"temperatures of test samples at {levels}: "
            + " / ".join(written(value, 3) for value in ends)
        )
        yield Text(["; ".join(said) + "."])
        yield tables.band_table(entry, number)
        yield from _uses(entry, number)


def _uses(entry: Content, number: int) -> Iterator[Block]:
    if entry["weights"]:
        yield tables.weight_table(entry, number)
    effects = entry["class_effects"]
    if effects:
        yield Text(
            [
                f"The predicted class multiplies the temperature by {written(effects['low'], 3)} "
                f"to {written(effects['high'], 3)}; {effects['n']:,} classes have an effect of "
                "their own."
            ]
        )
        yield tables.effect_table(entry, number)


def _gates(content: Content) -> Iterator[Block]:
    for gate in content["gates"]:
        kept = gate["kept_raw"]
        what = "left the model alone" if kept else "calibrated the model"
        side = "less than" if kept else "at least"
        yield Text(
            [
                f"The gate of {gate['method']} {what}: on the {gate['n']:,} calibration samples "
                f"the fit gained {written(gate['gained'])} in log-likelihood, {side} the "
                f"{written(gate['needed'])} that it must gain to count as evidence."
            ]
        )


def _groups(content: Content) -> Iterator[Block]:
    level, groups = content["settings"]["level"], content["groups"]
    yield Text(
        [
            f"Where the confidence of {groups['method']} and its accuracy part. A positive gap "
            "means that it is too sure. Intervals here are exact for each group; what is beyond "
            "chance is so after Holm's correction for looking at many."
        ]
    )
    if groups["worst"]:
        yield tables.worst_table(groups["worst"], level=level)
    else:
        yield Text(["No group or class is off beyond chance."])
    for number, table in enumerate(groups["tables"]):
        yield tables.group_table(table, number, level=level)
    rows = content["classes"]["rows"]
    yield Fold(f"All classes ({len(rows):,})", [tables.class_table(rows, level=level)])


def _shift(content: Content, figures: Sequence[Figure]) -> Iterator[Block]:
    yield Text(
        [
            "The same fits on samples from other conditions; nothing was fitted again. Where many "
            "samples moved to groups that were small in calibration, the fit rests on few."
        ]
    )
    yield from _shown(figures)
    yield tables.shift_table(content["shift"], content["verdict"]["recommended"])


def _methods(content: Content) -> Iterator[Block]:
    yield tables.method_table(content["methods"], content["verdict"]["recommended"])
    flags = [
        f"{row['name']}: {flag['meaning']}" for row in content["methods"] for flag in row["flags"]
    ]
    if flags:
        yield Heading("What the fits warn of")
        yield Points(flags)
    if content["failures"]:
        yield Heading("What could not be fitted")
        yield Points([f"{name}: {reason}" for name, reason in content["failures"].items()])


def _facts(content: Content) -> Block:
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
        ("Level of intervals", _level(content)),
        ("Versions", ", ".join(f"{name} {v}" for name, v in content["versions"].items())),
    ]
    return Facts(pairs)


def _reproduce(content: Content) -> Iterator[Block]:
    command = content["reproduce"]["command"]
    if command:
        yield Text(["This command makes the same page, byte by byte, from the same files."])
        yield Command("command", command, "Command")
    yield Text(["In Python:"])
    yield Command("python", content["reproduce"]["python"], "Python")
    if content["artefacts"]:
        yield Heading("Fitted calibrators")
        yield Text(["Files to load with sc.load or to apply with smallcal apply."])
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
