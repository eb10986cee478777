"""The sections behind the results: temperatures, groups, classes, fits, data, commands."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence

from smallcal.data.claims import CLAIMS, Claim
from smallcal.metrics.units import PERCENT
from smallcal.reports.render.blocks import (
    Block,
    Cell,
    Column,
    Command,
    Download,
    Downloads,
    Facts,
    Fold,
    Heading,
    Points,
    Table,
    Text,
)
from smallcal.reports.render.cells import (
    Content,
    Filled,
    between,
    claim_of,
    level_of,
    metric_cell,
    metric_column,
    number,
    numbers,
    percent,
    shares,
    table_of,
    words,
    written,
)

#: Rows of a long table that are shown; the JSON of the report has them all.
MOST_ROWS = 40

#: Bytes of artefacts that a page may hold, before base64; more would make it slow to open.
MOST_BYTES = 1_200_000


def explained(content: Content) -> Iterator[Block]:
    """Show what the recommended method does: to which classes, and by which statistics."""
    entry = content["explained"]
    own = next((e for e in content["routing"] if e["method"] == entry["method"]), None)
    if not entry["n_parameters"]:
        return
    yield Text(entry["words"])
    if own:
        yield Text(_temperatures(own))
    elif entry["temperature"] is not None:
        yield Text(f"The temperature is {written(entry['temperature'], 4)}.")
    if entry["accuracy_line"]:
        yield Text(f"On the calibration samples, it {entry['accuracy_line']}.")
    if entry["weights"]:
        yield _weight_table(entry, "own")
    yield from _effects(entry, "own")
    if own:
        yield _band_table(own, "own")


def routing(content: Content) -> Iterator[Block]:
    """Show which samples get which temperature in the other methods."""
    chosen = content["verdict"]["recommended"]
    for number_of, entry in enumerate(content["routing"]):
        if entry["method"] == chosen:
            continue
        yield Heading(entry["method"])
        yield Text(_temperatures(entry))
        yield _band_table(entry, str(number_of))
        if entry["weights"]:
            yield _weight_table(entry, str(number_of))
        yield from _effects(entry, str(number_of))


def _effects(entry: Content, place: str) -> Iterator[Block]:
    effects = entry["class_effects"]
    if effects:
        yield Text(
            f"The predicted class multiplies the temperature by {written(effects['low'], 3)} "
            f"to {written(effects['high'], 3)}; {effects['n']:,} classes have an effect of "
            "their own."
        )
        yield table_of(
            f"effects-{place}",
            f"Classes that move the temperature of {entry['method']} most.",
            [words("Predicted class", "class"), numbers("Factor on the temperature", "factor")],
            effects["strongest"],
        )


def _temperatures(entry: Content) -> str:
    said = (
        "The pooled temperature, one for all samples, is "
        f"{written(entry['pooled_temperature'], 4)}. "
    )
    spread = sorted(entry["test_temperature"].items(), key=lambda item: float(item[0]))
    levels = " / ".join(f"{100 * float(level):g} %" for level, _ in spread)
    return (
        f"{said}Temperatures of test samples at {levels}: "
        f"{' / '.join(written(value, 3) for _, value in spread)}."
    )


def _band_table(entry: Content, place: str) -> Table:
    by = entry["banded_by"]
    thirds = by == "temperature"
    kind = "Thirds by temperature" if thirds else "Groups by score"
    return table_of(
        f"bands-{place}",
        f"{kind} of {entry['method']}, and how the samples fall into them.",
        [
            words("Third" if thirds else "Group", "group"),
            numbers(f"From {by}", "from"),
            numbers(f"To {by}", "to"),
            numbers(
                "Median temperature" if thirds else "Temperature",
                "temperature",
                help="median over the calibration samples of the group",
            ),
            shares("Calibration", "calibration_share", help="share of the calibration samples"),
            shares("Test", "test_share", help="share of the test samples"),
        ],
        entry["bands"],
    )


def _weight_table(entry: Content, place: str) -> Table:
    what = entry["weights_of"]
    factor = numbers(
        "Temperature multiplied by", "factor", 3, help="for one standard deviation more"
    )
    return table_of(
        f"weights-{place}",
        f"What one standard deviation more of each statistic does to the {what} of "
        f"{entry['method']}. The statistics are correlated, so a single weight is not a cause.",
        [
            words("Statistic", "statistic"),
            *([factor] if what == "log-temperature" else []),
            numbers(
                "Weight",
                "weight",
                help=f"added to the {what} for one standard deviation more",
                signed=True,
            ),
            shares("Share of all weights", "share", help="size of the weight among them all"),
        ],
        entry["weights"],
    )


def groups(content: Content) -> Iterator[Block]:
    """Show where confidence and accuracy differ: by group, and by predicted class."""
    entry, claim = content["groups"], claim_of(content)
    exact, classes = f"with exact {level_of(content)} intervals", content["classes"]["rows"]
    gaps = _gaps(claim)
    its = "its" if classes else "the"
    yield Text(
        f"Where the {claim.confidence} of {entry['method']} and {its} {claim.accuracy} differ. A "
        f"gap is mean {claim.confidence} minus {claim.accuracy}: positive where the model is "
        "overconfident. Intervals are exact for each group; a gap is called beyond chance after "
        "Holm's correction for the number of groups."
    )
    if classes:
        yield Heading("Groups")
    if entry["worst"]:
        yield table_of(
            "worst",
            f"Groups whose {claim.confidence} is miscalibrated beyond chance after Holm's "
            "correction, "
            f"largest gaps first, {exact}.",
            [words("Group", "group"), words("By", "by"), _COUNT, *gaps],
            entry["worst"],
        )
    else:
        none = "No group and no class" if classes else "No group"
        yield Text(f"{none} is miscalibrated beyond chance.")
    for number_of, table in enumerate(entry["tables"]):
        more = len(table["rows"]) - MOST_ROWS
        rows = sorted(table["rows"], key=lambda row: row["p_value"])[:MOST_ROWS]
        yield table_of(
            f"groups-{number_of}",
            f"By {table['by']}: gaps {exact}.",
            [
                *(words("Group", "group"), _COUNT, *gaps, _OFF, _RAW_OFF),
                (metric_column("ece15"), _error),
            ],
            rows if more > 0 else table["rows"],
            note=f"{more:,} more groups are in the report's JSON." if more > 0 else "",
        )
    if classes:
        yield Heading("Classes")
        yield Fold(f"All classes ({len(classes):,})", [_class_table(classes, exact)])


def _class_table(rows: Sequence[Content], exact: str) -> Table:
    more = len(rows) - MOST_ROWS
    return table_of(
        "classes",
        "Gap between confidence and accuracy by predicted class, the least likely by chance "
        f"first, {exact}.",
        [
            words("Predicted class", "group"),
            numbers("n", "n", 0, help="test samples that were given this class"),
            numbers("n true", "n_true", 0, help="test samples that are of this class"),
            *_gaps(CLAIMS["logits"]),
            _OFF,
        ],
        rows[:MOST_ROWS],
        note=f"{more:,} more classes are in the report's JSON." if more > 0 else "",
    )


def _gap(row: Content) -> Cell:
    notes = [between(row["low"], row["high"], PERCENT)]
    return percent(row["gap"], notes=notes, signed=True)


def _chance(*, off: bool) -> Cell:
    return Cell("yes", tone="worse") if off else Cell("no", tone="tie")


def _error(row: Content) -> Cell:
    if "ece15" not in row:  # there is one group only
        return number(None)
    keys = {"plain": "", "value": "_debiased", "low": "_low", "high": "_high", "note": "_note"}
    return metric_cell("ece15", {name: row[f"ece15{key}"] for name, key in keys.items()})


_COUNT = numbers("n", "n", 0)


def _gaps(claim: Claim) -> tuple[Filled, ...]:
    """Return the columns of what is claimed, what came, and what lies between."""
    gap = (
        f"mean {claim.confidence} minus {claim.accuracy}; positive where the model is overconfident"
    )
    return (
        shares(claim.accuracy.capitalize(), "accuracy"),
        shares(claim.confidence.capitalize(), "confidence"),
        (Column("Gap", "points", help=gap), _gap),
        shares("Raw gap", "raw_gap", unit="points", help=f"the same of {claim.raw}", signed=True),
    )


_OFF: Filled = (
    Column("Beyond chance", number=False, help="after Holm's correction for all rows"),
    lambda row: _chance(off=row["off"]),
)
_RAW_OFF: Filled = (
    Column("Raw off", number=False, help="the same of the uncalibrated model"),
    lambda row: _chance(off=row["raw_off"]),
)


def methods(content: Content) -> Iterator[Block]:
    """Show what was fitted, what the fits warn of, and what could not be fitted."""
    chosen, score = content["verdict"]["recommended"], content["data"]["input"] == "score"
    yield table_of(
        "methods-fitted",
        "What was fitted.",
        [
            (Column("Method", number=False), _name),
            words("What it is", "summary"),
            numbers("Fitted numbers", "n_parameters", 0),
            *([] if score else [_PREDICTED]),
        ],
        content["methods"],
        chosen=lambda row: row["name"] == chosen,
    )
    flags = [
        f"{row['name']}, {flag['name']}: {flag['meaning']}"
        for row in content["methods"]
        for flag in row["flags"]
    ]
    if flags:
        yield Heading("Warnings of the fits")
        yield Points(flags)
    if content["failures"]:
        yield Heading("Methods that could not be fitted")
        yield Points([f"{name}: {reason}" for name, reason in content["failures"].items()])


_PREDICTED: Filled = (
    Column("Predicted class", number=False),
    lambda row: Cell("kept" if row["preserves_argmax"] else "may change"),
)


def _name(row: Content) -> Cell:
    also = () if row["asked"] == row["name"] else (f"as {row['asked']}",)
    return Cell(row["name"], also)


def data(content: Content) -> Iterator[Block]:
    """Show what the samples were, and what it takes to have the same numbers again."""
    pairs, claim = [], claim_of(content)
    for role in ("calibration", "test"):
        split = content["data"][role]
        name = role.capitalize()
        pairs += [
            (
                f"{name} samples",
                f"{split['n']:,} ({split['n_errors']:,} {claim.failed}) of {split['source']}",
            ),
            (f"{name} arrays, SHA-256", split["sha256"]),
        ]
        if split["file_sha256"]:
            pairs.append((f"{name} file, SHA-256", split["file_sha256"]))
    settings, score = content["settings"], content["data"]["input"] == "score"
    pairs += [
        *([] if score else [("Classes", f"{content['data']['test']['n_classes']:,}")]),
        ("Given as", "one score per sample" if score else content["data"]["input"]),
        ("Resamples", f"{settings['n_boot']:,}, seed {settings['seed']}"),
        ("Level of intervals", level_of(content)),
        ("Versions", ", ".join(f"{name} {v}" for name, v in content["versions"].items())),
    ]
    yield Facts(pairs)


def reproduce(content: Content) -> Iterator[Block]:
    """Show how to make the report again, and give the fitted calibrators away."""
    command = content["reproduce"]["command"]
    if command:
        yield Text("This command reproduces the report, byte for byte, from the same files.")
        yield Command("command", command, "Command")
    yield Text("In Python:")
    yield Command("python", content["reproduce"]["python"], "Python")
    if content["artefacts"]:
        yield Heading("Fitted calibrators")
        yield Text(
            "Calibrators to load with sc.load or apply with smallcal apply; the HTML and JSON "
            "reports contain them."
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
