"""The paper's numbers as data: `python scripts/reference_values.py [paper.tex] [--write]`.

Checks lab/src/smallcal_lab/studies/reproduce/reference.json. With the paper's source it also checks
that every number stands where the file says; with --write it makes the file anew first. How the
tables are read is in reference_tables.py, figures are in reference_figures.py, everything else
that is known of the numbers in reference_remarks.py.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import smallcal as sc
from reference_figures import FIGURES, captions
from reference_remarks import CORRECTIONS, DOUBTS, NOTES, PAPER_METRICS, PROSE, SKIPPED
from reference_tables import ORDER, REQUIRED, TABLES, Fields, entries, environment
from smallcal.metrics import METRICS
from smallcal_lab.studies import STUDIES

FILE = Path(__file__).parents[1] / "lab/src/smallcal_lab/studies/reproduce/reference.json"

KINDS = {
    "value": "the metric itself, a mean over seeds, and over draws where there are some",
    "difference": "the metric of `method` minus that of `against`, same seeds and draws",
    "win-share": "how often the metric of `method` is below that of `against`, over draws",
    "share-below-zero": "how often the difference of resamples is below zero",
    "median": "the median over fits, the interval holds the middle half",
    "range": "the interval from the lowest to the highest of a fit",
}
FIELDS = {
    "table": "label in the paper's source; a section's label for a number in its text",
    "seeds": "models trained, 0 to n - 1; a list of others; null where not said; of a+b, of each",
    "budget": "samples to calibrate with, always clean ones; of a+b, of each where they differ",
    "draws": "subsets of the calibration split for each model",
    "method": "smallcal's name, with `options`; null with `paper_method` where there is none",
    "set": "what is measured: clean, corrupted (mean over all cells), one part of it, or another",
    "metric": "smallcal's name; null with `paper_metric` where there is none",
    "value": "as printed; null where only an interval is",
    "unit": "of value, spread and interval",
    "spread": "standard deviation over `spread_over`",
    "ddof": "of the spread, where it can be told: 0 divides by n, 1 by n - 1",
    "interval": "95 % interval from resampling `resampled`; other ways in `other_intervals`",
    "decimals": "printed after the point: the value is known to half of the last one",
    "picks": "K chosen for each seed, or each draw where there are some",
    "per_seed": "the value of each seed",
    "entries": "what is fitted, where it is about several methods",
    "cells_of": "the table whose models it is about, where it is about all of them",
    "doubt": "why not to chase this number",
}
#: An entry that lacks one of these has this.
DEFAULTS = {"kind": "value", "spread_over": "seeds", "decimals": 2}
BACKBONES = {
    "vit-b16-controlled": "one checkpoint of another training, weaker than the main one",
    "vit-b16-ce": "one checkpoint trained by cross-entropy; backbone not named in its tables",
    "vit-b16-temphead": "the same with a temperature head trained along",
    "vit-b16-stopgrad": "the same with a head that does not train the backbone",
    "a+b": "several models together",
}
TOLERANCES = {"deterministic": 0.011, "smart-bce": 0.15, "cifar100c": 0.05}

#: What makes an entry one of a kind within a table; across tables, all but the first.
KEY = (
    *("table", "dataset", "backbone", "budget", "method", "options", "paper_method", "set"),
    *("metric", "paper_metric", "kind", "against"),
)


def key(entry: Fields) -> tuple[str, ...]:
    """Return what no other entry may share."""
    return tuple(json.dumps(entry.get(name), sort_keys=True) for name in KEY)


def same(entry: Fields) -> tuple[str, ...]:
    """Return what two places that speak of the same number share."""
    options = dict(entry.get("options", {}))
    if options.get("n_groups") == 3:
        del options["n_groups"]
    resampled = None if entry["kind"] == "value" else entry.get("resampled")
    mean_of_resamples = entry.get("note", "").startswith("mean of resamples")
    more = json.dumps([entry["seeds"], entry["unit"], resampled, mean_of_resamples])
    return (*key({**entry, "options": options})[1:], more)


def half(entry: Fields, most: int = 9) -> float:
    """Return half of the last printed place; ``most`` decimals count."""
    return float(0.5 * 10.0 ** -min(entry["decimals"], most))


def contradicts(one: Fields, other: Fields) -> bool:
    """Return whether two places print numbers that rounding does not explain."""
    room = half(one) + half(other) + 1e-9
    pairs = [(one["value"], other["value"])]
    if one["interval"] is not None and other["interval"] is not None:
        pairs += zip(one["interval"], other["interval"], strict=True)
    apart = any(abs(a - b) > room for a, b in pairs if a is not None and b is not None)
    return apart or _spreads_differ(one, other)


def _spreads_differ(one: Fields, other: Fields) -> bool:
    """Return whether neither rounding nor the divisor explains two spreads over the seeds."""
    if None in (one["spread"], other["spread"]) or one["spread_over"] != other["spread_over"]:
        return False
    room = half(one, SPREAD_DECIMALS) + half(other, SPREAD_DECIMALS) + 1e-9
    close = abs(one["spread"] - other["spread"]) <= room
    return not (close or _ratio_fits(one, other) or _ratio_fits(other, one))


#: No spread is printed with more.
SPREAD_DECIMALS = 4


def contradictions(values: list[Fields]) -> Iterator[tuple[Fields, Fields]]:
    """Yield each entry with each other place that contradicts it."""
    groups = defaultdict(list)
    for entry in values:
        groups[same(entry)].append(entry)
    for group in groups.values():
        yield from ((a, b) for a in group for b in group if a is not b and contradicts(a, b))


def mark_contradictions(values: list[Fields]) -> None:
    """Write into each entry's doubt where the paper says something else."""
    places = defaultdict(list)
    for one, other in contradictions(values):
        places[key(one)].append(f"{_told(other)} in {other['table']}")
    for entry in values:
        found = list(dict.fromkeys(places[key(entry)]))
        if found:
            before = [entry["doubt"]] if "doubt" in entry else []
            entry["doubt"] = "; ".join([*before, "also printed: " + ", ".join(found)])


def _told(entry: Fields) -> str:
    """Return what an entry says, for people."""
    if entry["value"] is None:
        return str(entry["interval"])
    spread = "" if entry["spread"] is None else f"±{entry['spread']}"
    return f"{entry['value']}{spread}"


def mark_spreads(values: list[Fields]) -> None:
    """Write by what a spread was divided, where two places print one number and two spreads."""
    groups = defaultdict(list)
    for entry in values:
        if entry["spread"] is not None:
            groups[same(entry), entry["spread_over"]].append(entry)
    for group in groups.values():
        for one in group:
            for other in group:
                if not contradicts(one, other) and _ratio_fits(one, other):
                    one["ddof"], other["ddof"] = 1, 0


def _ratio_fits(one: Fields, other: Fields) -> bool:
    """Return whether the spreads are as n - 1 to n, and rounding alone does not explain it."""
    if not isinstance(one["seeds"], int) or one["seeds"] < 2:
        return False
    wanted = (one["seeds"] / (one["seeds"] - 1)) ** 0.5
    room, other_room = half(one, SPREAD_DECIMALS), half(other, SPREAD_DECIMALS)
    low = (one["spread"] - room) / (other["spread"] + other_room)
    high = (one["spread"] + room) / max(other["spread"] - other_room, 1e-12)
    return bool(1 < low <= wanted <= high)


def matches(entry: Fields, wanted: Fields) -> bool:
    """Return whether an entry has all these fields."""
    return all(entry.get(name) == value for name, value in wanted.items())


def made(tex: str) -> Fields:
    """Return the file's content, from the paper's source."""
    values = [entry for label in TABLES for entry in entries(tex, label)] + PROSE + captions()
    for entry in values:
        for wanted, change in CORRECTIONS:
            if matches(entry, wanted):
                entry |= change
        notes = [text for wanted, text in NOTES if matches(entry, wanted)]
        if notes:
            entry["note"] = "; ".join(notes)
        doubts = [text for wanted, text in DOUBTS if matches(entry, wanted)]
        if doubts:
            entry["doubt"] = "; ".join(doubts)
    mark_contradictions(values)
    mark_spreads(values)
    return {
        "version": 1,
        "source": "SRTS-BCE: the tables of the paper that smallcal follows, as numbers",
        "fields": FIELDS,
        "kinds": KINDS,
        "defaults": DEFAULTS,
        "backbones": BACKBONES,
        "paper_metrics": PAPER_METRICS,
        "tolerances": TOLERANCES,
        "skipped": SKIPPED,
        "figures": FIGURES,
        "labels": labels(tex),
        "values": [shortened(entry) for entry in values],
    }


def labels(tex: str) -> list[str]:
    """Return the labels of all tables and figures, in the paper's order."""
    return re.findall(r"\\label\{((?:tab|fig):[^}]*)\}", tex)


def shortened(entry: Fields) -> Fields:
    """Return an entry in order, without what the defaults say."""
    return {
        name: entry[name]
        for name in ORDER
        if name in entry and (name not in DEFAULTS or entry[name] != DEFAULTS[name])
    }


def read(text: str) -> Fields:
    """Return the file's content, every entry with its defaults."""
    content: Fields = json.loads(text)
    content["values"] = [{**content["defaults"], **entry} for entry in content["values"]]
    return content


def written(content: Fields) -> str:
    """Return the file's text: one entry a line."""
    head = {name: part for name, part in content.items() if name != "values"}
    lines = ",\n".join(
        json.dumps(entry, separators=(",", ":"), ensure_ascii=False) for entry in content["values"]
    )
    return json.dumps(head, indent=1, ensure_ascii=False)[:-2] + f',\n "values": [\n{lines}\n]}}\n'


def problems(content: Fields) -> Iterator[str]:
    """Yield what is wrong with the file, without the paper."""
    known = {entry.get("paper_method") for entry in content["values"]} | set(sc.methods())
    for entry in content["values"]:
        at = f"{entry.get('table')} {entry.get('method')} {entry.get('metric')}"
        yield from (f"{at}: no {name}" for name in REQUIRED if name not in entry)
        yield from (f"{at}: unknown field {name}" for name in set(entry) - set(ORDER))
        yield from (f"{at}: {text}" for text in _wrong(entry, known))
    for label, figure in content["figures"].items():
        if "why" not in figure and figure.get("study") not in STUDIES:
            yield f"{label}: unknown study"
    counts = Counter(key(entry) for entry in content["values"])
    yield from (f"twice: {' '.join(one)}" for one, count in counts.items() if count > 1)
    for one, other in contradictions(content["values"]):
        if other["table"] not in one.get("doubt", ""):
            yield f"{one['table']}: contradicts {other['table']} without a doubt"


def _wrong(entry: Fields, known: set[str | None]) -> Iterator[str]:
    checks = {
        "unknown study": entry["study"] in STUDIES,
        "unknown kind": entry["kind"] in KINDS,
        "unknown method": (entry["method"] or entry.get("paper_method")) in known,
        "unknown metric": (entry["metric"] in METRICS)
        or entry.get("paper_metric") in PAPER_METRICS,
        "against nothing": ("against" in entry) == (entry["kind"] in COMPARED),
        "against unknown": entry.get("against", "none") in known,
        "no number": entry["value"] is not None or entry["interval"] is not None,
        "interval upside down": entry["interval"] is None or _rises(entry["interval"]),
        "negative spread": entry["spread"] is None or entry["spread"] >= 0,
        "ddof": entry.get("ddof", 0) in (0, 1),
    }
    yield from (text for text, right in checks.items() if not right)


COMPARED = {"difference", "win-share", "share-below-zero"}


def _rises(interval: list[float]) -> bool:
    return len(interval) == 2 and interval[0] <= interval[1]


def misprints(content: Fields, tex: str) -> Iterator[str]:
    """Yield the numbers of the file that are not where it says they are in the paper."""
    given = {entry["table"] for entry in content["values"] + content["skipped"]}
    listed = set(re.findall(r"\\label\{((?:tab|fig|app|sec):[^}]*)\}", tex))
    yield from (f"{label} is no label of the paper" for label in sorted(given - listed))
    shown = set(labels(tex)) - given - set(content["figures"])
    yield from (f"{label} is neither read nor skipped" for label in sorted(shown))
    texts = {label: bare(environment(tex, label)) for label in given & listed}
    for entry in content["values"]:
        text = texts.get(entry["table"], "")
        for wanted in _printed(entry):
            if not re.search(rf"(?<![\d.-])(?:{wanted})(?!\d|\.\d)", text):
                yield f"{entry['table']}: {wanted} is not there"


def bare(text: str) -> str:
    r"""Return LaTeX with nothing left but numbers, their signs, ± and intervals.

    >>> bare(r"$0.96{\pm}0.32$ & $[-0.72,\,+0.01]$").split()
    ['0.96±0.32', '[-0.72,0.01]']
    """
    text = re.sub(r"(?<!\\)%.*", "", text).replace("{,}", "").replace("\\,", "")
    text = re.sub(r"\\[a-z]+|[${}&\s]", " ", text.replace("\\pm", "±"))
    text = re.sub(r"(?<![\d.])\.(?=\d)", "0.", text)
    # A hyphen is a sign only where a number may start, and no number needs its plus.
    text = re.sub(r"(?<![\[,=± ])-(?=\d)", " ", re.sub(r"\+(?=\d)", "", text))
    text = re.sub(r"\s*([±,\[\]])\s*", r"\1", re.sub(r"[^\d.±\[\],-]", " ", text))
    return re.sub(r"(?<=\])|(?=\[)", " ", text)


def _printed(entry: Fields) -> Iterator[str]:
    """Yield what must stand in the text: the value with its spread, both ends of an interval."""
    places = entry["decimals"]
    if entry["value"] is not None:
        apart = entry["spread"] is None or entry["spread_over"] == "seeds x draws"
        spread = "" if apart else f"±(?:{_digits(entry['spread'], places)})"
        yield f"(?:{_digits(entry['value'], places)}){spread}"
    for interval in [entry["interval"], *entry.get("other_intervals", {}).values()]:
        if interval is not None:
            low, high = (_digits(end, places) for end in interval)
            yield rf"\[(?:{low}),(?:{high})\]"
    yield from (_digits(one, places) for one in entry.get("per_seed", []))


def _digits(number: float, places: int) -> str:
    """Return how a number may be printed: with these decimals, or with those it needs."""
    shown = {f"{number:.{places}f}", repr(number)}
    return "|".join(re.escape(one) for one in sorted(shown) if float(one) == number)


def main() -> int:
    """Write the file if asked to, check it, and say what it holds."""
    parser = argparse.ArgumentParser(description="make and check the paper's numbers")
    parser.add_argument("paper", nargs="?", type=Path, help="the paper's .tex")
    parser.add_argument("--write", action="store_true", help="make the file anew")
    given = parser.parse_args()
    tex = given.paper.read_text(encoding="utf-8") if given.paper else None
    if given.write and tex is None:
        parser.error("--write needs the paper")
    if given.write and tex is not None:
        FILE.write_text(written(made(tex)), encoding="utf-8")
    content = read(FILE.read_text(encoding="utf-8"))
    found = [*problems(content), *(misprints(content, tex) if tex else [])]
    for table, count in Counter(entry["table"] for entry in content["values"]).items():
        print(f"{count:5}  {table}")
    doubtful = sum("doubt" in entry for entry in content["values"])
    print(f"{len(content['values']):5}  values, {doubtful} in doubt, {len(found)} problems")
    print("\n".join(found), file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
