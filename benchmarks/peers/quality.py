"""How good each calibrator is: the same samples, the same metrics, intervals of differences."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import smallcal as sc
from peers.claims import quiet
from peers.entrants import ENTRANTS, RAW, Entrant
from peers.packages import installed
from peers.sets import Cell

METRICS = ("nll", "ece15", "brier", "accuracy")
HEADS = ("log-loss x100", "ECE %", "Brier x100", "accuracy %")
SAME = 5e-5  # a difference that rounds to 0.00 in the tables: solvers stop at another digit
ONE, RICH = "smallcal `ts-nll`", "smallcal (default)"


@dataclass(frozen=True)
class Failed:
    """Why there are no probabilities."""

    why: str


def attempt(entrant: Entrant, z: Any, y: Any, z_test: Any) -> Any:
    """Return probabilities, or what went wrong."""
    if entrant.package and not installed(entrant.package):
        return Failed("not installed")
    if z.shape[1] > entrant.most_classes:
        return Failed(f"over {entrant.most_classes} classes")
    try:
        with quiet(), np.errstate(all="ignore"):
            found = np.asarray(entrant.run(z, y, z_test), dtype=np.float64)
    except ImportError as error:
        return Failed(f"needs {error.name or error}")
    except Exception as error:  # noqa: BLE001 - whatever a package raises is what is reported
        return Failed(f"raises {type(error).__name__}")
    return judged(found, z_test)


def judged(found: Any, z_test: Any) -> Any:
    """Return rows that sum to 1, or say why these cannot be."""
    if found.shape != z_test.shape:
        return Failed(f"{found.shape[1]} of {z_test.shape[1]} classes")
    if not np.isfinite(found).all():
        return Failed("not finite")
    total = found.sum(axis=1, keepdims=True)
    if (np.abs(total - 1) > 1e-3).any() or (found < 0).any():
        return Failed("not probabilities")
    return found / total


def measure(cell: Cell, n_boot: int) -> tuple[dict[str, Any], dict[str, Failed]]:
    """Return a comparison against each of the two references, and what failed."""
    found = {
        label: attempt(entrant, cell.z, cell.y, cell.z_test)
        for label, entrant in {RAW.label: RAW, **ENTRANTS}.items()
    }
    if cell.truth is not None:
        found["the true probabilities"] = cell.truth
    good = {label: each for label, each in found.items() if not isinstance(each, Failed)}
    failed = {label: each for label, each in found.items() if isinstance(each, Failed)}
    compared = sc.compare(cell.y_test, good, baseline=RAW.label, metrics=METRICS, n_boot=n_boot)
    return {"comparison": compared, "kind": cell.kind, "name": cell.name}, failed


def collect(cells: Iterator[Cell], n_boot: int = 1000) -> list[tuple[dict[str, Any], Any]]:
    """Measure on every cell."""
    rows = []
    for cell in cells:
        rows.append(measure(cell, n_boot))
        print(f"measured: {cell.kind}, {cell.name}", file=sys.stderr, flush=True)
    return rows


def verdict(row: Any, label: str, metric: str) -> str:
    """Say how smallcal stands against another: "better", "tie" or "worse", beyond chance.

    Where smallcal has no result and the other has one, that is worse.
    """
    reference = ONE if ENTRANTS[label].temperature else RICH
    if reference not in row.values:
        return "worse"
    gap = row.paired(label, reference, metric)
    if not gap.excludes_zero or abs(gap.point) < SAME:
        return "tie"
    return "better" if gap.low > 0 else "worse"


def standings(rows: list[tuple[dict[str, Any], Any]]) -> Iterator[str]:
    """Yield how often smallcal is better, tied and worse, for each calibrator of the others."""
    yield "| against | log-loss | ECE | Brier | no result |"
    yield "|---|:---:|:---:|:---:|---:|"
    for label, entrant in ENTRANTS.items():
        if entrant.package == "smallcal" or not installed(entrant.package):
            continue
        have = [found["comparison"] for found, _ in rows if label in found["comparison"].values]
        cells = []
        for metric in METRICS[:3]:
            words = [verdict(each, label, metric) for each in have]
            counts = [str(words.count(word)) for word in ("better", "tie", "worse")]
            cells.append(" / ".join(counts))
        yield f"| {label} | {' | '.join(cells)} | {len(rows) - len(have)} of {len(rows)} |"


def values(rows: list[tuple[dict[str, Any], Any]], kind: str) -> Iterator[str]:
    """Yield the mean of each metric over the models of a kind; lower is better but for accuracy."""
    ours = [(found["comparison"], failed) for found, failed in rows if found["kind"] == kind]
    yield f"| | {' | '.join(HEADS)} |"
    yield "|---|" + "---:|" * len(HEADS)
    labels = [*(["the true probabilities"] if kind == "simulated" else []), RAW.label, *ENTRANTS]
    for label in labels:
        reasons = [failed[label].why for _, failed in ours if label in failed]
        if reasons:
            told = sorted(set(reasons))
            yield f"| {label} | {', '.join(told)} ({len(reasons)} of {len(ours)}) | | | |"
            continue
        means = [100 * np.mean([each.values[label][name] for each, _ in ours]) for name in METRICS]
        yield f"| {label} | {' | '.join(f'{mean:.2f}' for mean in means)} |"


def losses(rows: list[tuple[dict[str, Any], Any]]) -> Iterator[str]:
    """Yield every comparison that smallcal loses significantly, with its interval."""
    for found, _ in rows:
        compared = found["comparison"]
        for label, entrant in ENTRANTS.items():
            if entrant.package == "smallcal" or label not in compared.values:
                continue
            for metric, head in zip(METRICS[:3], HEADS, strict=False):
                if verdict(compared, label, metric) == "worse":
                    reference = ONE if entrant.temperature else RICH
                    if reference not in compared.values:
                        yield f"- {found['kind']}, {found['name']}: {reference} has no result"
                        continue
                    gap = compared.paired(label, reference, metric)
                    yield (
                        f"- {found['kind']}, {found['name']}: {reference} to {label}, {head} "
                        f"{-100 * gap.point:+.2f} ({-100 * gap.high:+.2f} to {-100 * gap.low:+.2f})"
                    )


def report(rows: list[tuple[dict[str, Any], Any]]) -> str:
    """Return the tables as Markdown."""
    kinds = list(dict.fromkeys(found["kind"] for found, _ in rows))
    lost = list(losses(rows))
    lines = [
        f"How often smallcal is better / tied / worse, over {len(rows)} models: one temperature "
        f"against {ONE}, richer maps against {RICH}. A tie: the paired 95 % interval holds zero, "
        "or the difference rounds to 0.00.",
        "",
        *standings(rows),
        "",
        f"Every comparison that smallcal loses significantly ({len(lost)}), as smallcal minus the "
        "other, with its 95 % interval:"
        if lost
        else "smallcal loses none significantly.",
        "",
        *lost,
    ]
    for kind in kinds:
        names = [found["name"] for found, _ in rows if found["kind"] == kind]
        lines += ["", f"Means over {kind}: {'; '.join(names)}.", "", *values(rows, kind)]
    return "\n".join(lines)
