"""The report as Markdown, for a model card or a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from smallcal.reports.content.words import shown_value

#: Rows shown of the classes; JSON has them all.
_CLASSES = 20

#: Metrics beside one another.
_ABREAST = 5

#: What Markdown or HTML would read as more than text.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$&])")
_MARKS = {"fine": "", "care": "**Care:** ", "bad": "**Warning:** "}

Content = Mapping[str, Any]


def render(content: Content) -> str:
    """Return the whole report.

    Parameters
    ----------
    content : mapping
        See :mod:`smallcal.reports.content.gather`.
    """
    parts = [
        *_head(content),
        *_metrics(content),
        *_differences(content),
        *_figures(content),
        *_routing(content),
        *_gates(content),
        *_groups(content),
        *_classes(content),
        *_shift(content),
        *_methods(content),
        *_origin(content),
    ]
    return "\n\n".join(parts) + "\n"


def escaped(text: object) -> str:
    r"""Return text that Markdown shows as it is, in one line.

    Examples
    --------
    >>> print(escaped("a|b\n<script>"))
    a\|b \<script\>
    """
    return _SPECIAL.sub(r"\\\1", " ".join(str(text).split()))


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, text: int = 1) -> str:
    """Return a table; the first ``text`` columns are words, the others numbers.

    Cells are Markdown: what comes from users must have been escaped.
    """
    sides = ["---" if i < text else "---:" for i in range(len(headers))]
    lines = [headers, sides, *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def code(text: str) -> str:
    """Return a block of code, fenced by more backticks than it holds."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def _percent(value: float | None, *, signed: bool = False) -> str:
    if value is None:
        return "undefined"
    return f"{100 * value:{'+' if signed else ''}.2f} %"


def _between(metric: str, cell: Content, *, signed: bool = False) -> str:
    """Return a value and its interval."""
    if cell["value"] is None:
        return "undefined"
    value = shown_value(metric, cell["value"], signed=signed)
    if cell["low"] is None:
        return value
    low, high = (
        shown_value(metric, cell[end], signed=signed).removesuffix(" %") for end in ("low", "high")
    )
    return f"{value} [{low}, {high}]"


def _change(metric: str, cell: Content) -> str:
    return f"{_between(metric, cell, signed=True)} {cell['verdict']}"


def _level(content: Content) -> str:
    return f"{100 * content['settings']['level']:g} %"


def _head(content: Content) -> Iterator[str]:
    data, verdict = content["data"], content["verdict"]
    cal, test = data["calibration"], data["test"]
    yield f"# {escaped(content['title'])}"
    yield f"**{escaped(verdict['headline'])}**"
    yield (
        f"Fitted on {cal['n']:,} samples ({escaped(cal['source'])}), measured on {test['n']:,} "
        f"others ({escaped(test['source'])}), {test['n_classes']:,} classes. Brackets are "
        f"{_level(content)} intervals."
    )
    yield (f"Recommended: {escaped(verdict['recommended'])}. Why: {escaped(verdict['reason'])}.")
    yield "\n".join(
        f"- {_MARKS[entry['level']]}{escaped(entry['text'])}" for entry in verdict["findings"]
    )


def _metrics(content: Content) -> Iterator[str]:
    yield "## Metrics"
    columns, rows = content["metrics"]["columns"], content["metrics"]["rows"]
    for start in range(0, len(columns), _ABREAST):
        part = columns[start : start + _ABREAST]
        shown = [
            [
                escaped(row["method"]),
                *(_metric_cell(column, row["cells"][column["name"]]) for column in part),
            ]
            for row in rows
        ]
        yield table(["method", *(escaped(column["name"]) for column in part)], shown)
    yield escaped(content["metrics"]["note"])
    yield "\n".join(f"- {escaped(c['name'])}: {escaped(c['summary'])}" for c in columns)


def _metric_cell(column: Content, cell: Content) -> str:
    text = _between(column["name"], cell)
    if cell["floor"] is None:
        return text
    return f"{text}, floor {shown_value(column['name'], cell['floor'])}"


def _differences(content: Content) -> Iterator[str]:
    for entry in content["differences"]:
        if not entry["rows"]:
            continue
        base = entry["baseline"]
        called = "the raw model" if base == "none" else escaped(base)
        yield f"## Differences from {called}"
        for start in range(0, len(entry["metrics"]), _ABREAST):
            part = entry["metrics"][start : start + _ABREAST]
            rows = [
                [
                    escaped(row["method"]),
                    *(_change(m, row["metrics"][m]) for m in part),
                ]
                for row in entry["rows"]
            ]
            yield table(["method", *(escaped(name) for name in part)], rows)
    yield (
        "Differences are paired by sample. Better or worse only where the interval lies on one "
        "side of zero (for calibration errors the basic interval, too); otherwise a tie."
    )


def _figures(content: Content) -> Iterator[str]:
    if content["figures"]:
        yield "## Figures in words"
        yield "\n".join(
            f"- {escaped(figure['title'])}: {escaped(figure['alt'])}"
            for figure in content["figures"]
        )


def _routing(content: Content) -> Iterator[str]:
    if content["routing"]:
        yield "## How temperatures are chosen"
    for entry in content["routing"]:
        yield f"### {escaped(entry['method'])}"
        by = entry["banded_by"]
        rows = [
            [
                str(band["group"]),
                _edge(band["from"]),
                _edge(band["to"]),
                f"{band['temperature']:.4f}",
                _percent(band["calibration_share"]),
                _percent(band["test_share"]),
            ]
            for band in entry["bands"]
        ]
        what = "third" if by == "temperature" else "group"
        median = "median temperature" if by == "temperature" else "temperature"
        headers = [what, f"{by} from", "to", median, "of calibration", "of test"]
        yield table(headers, rows)
        tail = entry["tail_temperature"]
        also = "" if tail is None else f" Classes not predicted have their own: {tail:.4f}."
        yield f"One temperature for all would be {entry['pooled_temperature']:.4f}.{also}"
        if entry["weights"]:
            rows = [
                [escaped(w["statistic"]), f"{w['weight']:+.4f}", _percent(w["share"])]
                for w in entry["weights"]
            ]
            headers = ["statistic", f"weight in the {entry['weights_of']}", "share of all weights"]
            yield table(headers, rows)
        yield from _effects(entry["class_effects"])


def _edge(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _effects(effects: Content | None) -> Iterator[str]:
    if effects is not None:
        named = ", ".join(f"{escaped(e['class'])} {e['factor']:.3f}" for e in effects["strongest"])
        yield (
            f"The predicted class multiplies the temperature by {effects['low']:.3f} to "
            f"{effects['high']:.3f}; strongest: {named}."
        )


def _gates(content: Content) -> Iterator[str]:
    if content["gates"]:
        yield "## Do no harm"
    for gate in content["gates"]:
        verb = "left the model alone" if gate["kept_raw"] else "let the calibrator pass"
        yield (
            f"The gate of {escaped(gate['method'])} {verb}: on {gate['n']:,} calibration samples "
            f"it gains {gate['gained']:.2f} in log-likelihood, and {gate['needed']:.2f} are needed."
        )


def _gap_row(row: Content) -> list[str]:
    return [
        f"{row['n']:,}",
        _percent(row["accuracy"]),
        _percent(row["confidence"]),
        _between("confidence_gap", {**row, "value": row["gap"]}, signed=True),
        _percent(row["raw_gap"], signed=True),
        "yes" if row["off"] else "no",
    ]


_GAP_HEADERS = ("n", "accuracy", "confidence", "gap", "raw gap", "beyond chance")


def _groups(content: Content) -> Iterator[str]:
    yield "## Groups"
    yield (
        f"Gaps are mean confidence minus accuracy of {escaped(content['groups']['method'])}, with "
        "exact intervals; beyond chance by Holm's correction."
    )
    for entry in content["groups"]["tables"]:
        rows = [
            [
                escaped(row["group"]),
                *_gap_row(row),
                _between("ece15", _ece(row)) if "ece15" in row else "",
            ]
            for row in entry["rows"]
        ]
        yield table([escaped(entry["by"]), *_GAP_HEADERS, "ece15"], rows)
    worst = content["groups"]["worst"]
    if not worst:
        yield "No group and no class is off beyond chance."
        return
    yield "Largest gaps beyond chance:"
    rows = [[escaped(row["by"]), escaped(row["group"]), *_gap_row(row)] for row in worst]
    yield table(["by", "group", *_GAP_HEADERS], rows, text=2)


def _ece(row: Content) -> dict[str, Any]:
    return {"value": row["ece15"], "low": row["ece15_low"], "high": row["ece15_high"]}


def _classes(content: Content) -> Iterator[str]:
    rows = content["classes"]["rows"]
    yield "## Classes"
    yield table(
        ["predicted class", *_GAP_HEADERS],
        [[escaped(row["group"]), *_gap_row(row)] for row in rows[:_CLASSES]],
    )
    if len(rows) > _CLASSES:
        yield f"{len(rows) - _CLASSES:,} more classes are in the JSON report."


def _shift(content: Content) -> Iterator[str]:
    if not content["shift"]:
        return
    chosen = content["verdict"]["recommended"]
    yield "## Under shift"
    rows = []
    for row in content["shift"]:
        change = row["differences"].get("ece15")
        rows.append(
            [
                escaped(row["kind"]),
                escaped(row["severity"]),
                f"{row['n']:,}",
                _percent(row["accuracy"]),
                _between("ece15", row["values"]["none"]["ece15"]),
                _between("ece15", row["values"][chosen]["ece15"]),
                "" if change is None else _change("ece15", change),
                _percent(row["moved"]) if row["occupancy"] else "",
            ]
        )
    headers = ["kind", "severity", "n", "accuracy", "raw ece15", f"{escaped(chosen)} ece15"]
    yield table([*headers, "difference", "moved between groups"], rows, text=2)


def _methods(content: Content) -> Iterator[str]:
    yield "## Methods"
    rows = [
        [
            escaped(row["name"]),
            escaped(row["summary"]),
            f"{row['n_parameters']:,}",
            escaped("; ".join(f"{flag['name']}: {flag['meaning']}" for flag in row["flags"])),
        ]
        for row in content["methods"]
    ]
    yield table(["method", "what it does", "fitted numbers", "flags"], rows, text=2)
    for name, reason in content["failures"].items():
        yield f"{escaped(name)} could not be fitted: {escaped(reason)}"


def _origin(content: Content) -> Iterator[str]:
    yield "## Data and versions"
    rows = [
        [
            role,
            escaped(split["source"]),
            f"{split['n']:,}",
            f"{split['n_errors']:,}",
            split["sha256"],
            split["file_sha256"] or "",
        ]
        for role, split in ((r, content["data"][r]) for r in ("calibration", "test"))
    ]
    headers = ["split", "source", "n", "errors", "SHA-256 of the arrays", "SHA-256 of the file"]
    yield table(headers, rows, text=2)
    settings = content["settings"]
    said = ", ".join(f"{name} {version}" for name, version in content["versions"].items())
    yield f"{settings['n_boot']:,} resamples, seed {settings['seed']}. Versions: {escaped(said)}."
    yield "## Make it again"
    if content["reproduce"]["command"]:
        yield code(content["reproduce"]["command"])
    yield code(content["reproduce"]["python"])
