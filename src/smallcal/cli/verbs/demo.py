"""``smallcal demo``: real logits, five methods, one table, and how to go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any

import numpy as np

from smallcal import io
from smallcal.advice.recommend import DEFAULT, ON_TEST
from smallcal.calibrators.catalogue import method as row
from smallcal.calibrators.catalogue import resolve_method
from smallcal.calibrators.method import fit_arrays
from smallcal.cli import options, terminal
from smallcal.cli.options import option
from smallcal.data.demo import DemoSplit, load_demo
from smallcal.data.predictions import MIN_FIT_SAMPLES, IntArray
from smallcal.data.shown import command
from smallcal.errors import FileError, InputError, MissingExtraError, SmallcalError
from smallcal.io import write_arrays
from smallcal.metrics import METRICS
from smallcal.reports import report
from smallcal.reports.document import format_of
from smallcal.reports.render.html import require_page
from smallcal.reports.settings import Settings
from smallcal.statistics.compare import evaluate

METHODS = ("none", "ts-nll", "tva-ts", "srts-bce", "smallcal")
MEASURED = ("ece15", "top_label_bce", "nll", "brier", "accuracy")
BUDGETS = (250, 625, 1250)
NO_REPORT = "none"
CREDIT = "Data: drawings from Quick, Draw! by Google, CC BY 4.0; the model and its logits are ours."


@dataclass(frozen=True)
class Cell:
    """One method at one budget: the metrics of each draw."""

    budget: int
    method: str
    draws: tuple[dict[str, float], ...]

    def mean(self, metric: str) -> float:
        """Return the mean over draws."""
        return fmean(draw[metric] for draw in self.draws)

    def std(self, metric: str) -> float:
        """Return the standard deviation over draws; 0 for one draw."""
        values = [draw[metric] for draw in self.draws]
        return 0.0 if min(values) == max(values) else stdev(values)


def demo(
    draws: Annotated[int, option(None, "Random subsets per sample size.", min=1, max=1000)] = 5,
    budget: Annotated[
        list[int] | None,
        option("N", "Number of calibration samples; may be repeated. [250 625 1250]"),
    ] = None,
    export: Annotated[
        str | None,
        option("FOLDER", "Only write the demo's data to this folder, as cal.npz and test.npz."),
    ] = None,
    report: Annotated[
        str, option("FILE", "Where to write the report; none for no report.")
    ] = "smallcal-report.html",
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Calibrate a real model from a few hundred samples and show the result."""
    cal, test = load_demo("cal"), load_demo("test")
    if export is not None:
        _export(Path(export), {"cal": cal, "test": test}, as_json=as_json)
        return
    if report != NO_REPORT and not as_json:  # what could not be written after all the work
        format_of(report)
        io.require_folder(report)
    budgets = sorted(set(budget or [min(n, len(cal.labels)) for n in BUDGETS]))
    cells = _measure(cal, test, budgets, draws, seed)
    if as_json:
        terminal.show_json(_document(cells, cal, test))
        return
    terminal.say(
        f"A model with {len(cal.class_names)} classes; fitted on random draws of N calibration "
        f"samples, measured on {len(test.labels):,} others. Mean ± standard deviation over draws."
    )
    headers = [METRICS[metric].heading() for metric in MEASURED]
    terminal.show_table(["N", "method", *headers], list(_rows(cells)), text=(0, 1))
    terminal.say(*findings(cells), f"Use {DEFAULT}, the default. {ON_TEST}")
    if report != NO_REPORT:
        _report(report, cal, test, seed)
    terminal.say("", CREDIT, "", *_GO_ON.split("\n"))


def _report(file: str, cal: DemoSplit, test: DemoSplit, seed: int) -> None:
    """Write the report on the whole calibration split, or say what it takes to have one."""
    try:
        if format_of(file) == "html":
            require_page()
    except MissingExtraError as error:
        terminal.say(f"No report was written: {error}")
        return
    title = "Calibration of the demo's drawing classifier"
    with terminal.progress("Reporting", Settings().steps()) as advance:
        report(cal, test, title=title, random_state=seed, advance=advance).save(file)
    terminal.say(f"Wrote {file}: the full report, with all {len(cal.labels):,} samples.")


def _measure(
    cal: DemoSplit, test: DemoSplit, budgets: list[int], draws: int, seed: int
) -> list[Cell]:
    subsets = {n: _subsets(len(cal.labels), n, draws, seed) for n in budgets}
    total = len(METHODS) * sum(len(rows) for rows in subsets.values())
    cells = []
    with terminal.progress("Fitting and measuring", total) as advance:
        for n, drawn in subsets.items():
            for method in METHODS:
                found = []
                for rows in drawn:
                    found.append(_one(method, cal, rows, test))
                    advance(1)
                cells.append(Cell(n, method, tuple(found)))
    return cells


def _subsets(n: int, budget: int, draws: int, seed: int) -> list[IntArray]:
    """Draw the same subsets for every method; the whole split can be drawn in one way only."""
    if not MIN_FIT_SAMPLES <= budget <= n:
        raise InputError(
            f"--budget must lie in {MIN_FIT_SAMPLES} .. {n}; got {budget}", code="option-range"
        )
    if budget == n:
        return [np.arange(n)]
    rng = np.random.default_rng([seed, budget])
    return [np.sort(rng.choice(n, size=budget, replace=False)) for _ in range(draws)]


def _one(method: str, cal: DemoSplit, rows: IntArray, test: DemoSplit) -> dict[str, float]:
    fitted = fit_arrays(resolve_method(method), cal.logits[rows], cal.labels[rows])
    return evaluate(test.labels, fitted.predict_proba(test.logits), metrics=MEASURED)


def _rows(cells: list[Cell]) -> Iterator[list[str]]:
    for number, cell in enumerate(cells):
        first = number == 0 or cells[number - 1].budget != cell.budget
        spreads = (
            METRICS[metric].unit.spread(cell.mean(metric), cell.std(metric)) for metric in MEASURED
        )
        shown = [text.replace(" ", "") for text in spreads]  # so that 80 columns are enough
        yield [str(cell.budget) if first else "", titled(cell.method), *shown]


def titled(method: str) -> str:
    """Return what people call a method.

    Examples
    --------
    >>> [titled(name) for name in ("none", "ts-nll", "smallcal")]
    ['uncalibrated', 'temperature scaling', 'smallcal (default)']
    """
    return row(method).title


def findings(cells: list[Cell]) -> Iterator[str]:
    """Say for each budget which method is best, from the numbers alone."""
    for budget in dict.fromkeys(cell.budget for cell in cells):
        found = {cell.method: cell for cell in cells if cell.budget == budget}
        ece, unit = _printed(found, "ece15"), METRICS["ece15"].unit
        best = min(ece.values())
        winners = [method for method, value in ece.items() if value == best]
        tie = " (a tie)" if len(winners) > 1 else ""
        named = " and ".join(map(titled, winners))
        gain = f"{unit.size(ece['none'] - best)} below the uncalibrated {unit.value(ece['none'])}"
        if "none" in winners:
            gain = "so nothing improves on the uncalibrated model"
        spread = max(found[method].std("ece15") for method in winners)
        near = [m for m, value in ece.items() if m not in winners and value - best <= spread]
        level = " and ".join(map(titled, near))
        level = f"; {level} within one standard deviation" if near else ""
        yield (
            f"{budget:,} samples: lowest ECE by {named}{tie}, {unit.value(best)}, {gain}{level}."
        )
        yield _proper(budget, found)


def _proper(budget: int, found: dict[str, Cell]) -> str:
    """Say which method has the lowest top-label log-loss, beside the uncalibrated one."""
    loss, unit = _printed(found, "top_label_bce"), METRICS["top_label_bce"].unit
    best = min(loss.values())
    winners = " and ".join(titled(name) for name, value in loss.items() if value == best)
    return (
        f"{budget:,} samples: lowest top-label log-loss by {winners}, {unit.number(best)}, "
        f"uncalibrated {unit.value(loss['none'])}."
    )


def _printed(found: dict[str, Cell], metric: str) -> dict[str, float]:
    """Return each method's mean as it is printed, so that what looks level is level."""
    unit = METRICS[metric].unit
    return {
        name: round(unit.scale * cell.mean(metric), unit.digits) / unit.scale
        for name, cell in found.items()
    }


def _document(cells: list[Cell], cal: DemoSplit, test: DemoSplit) -> dict[str, Any]:
    return {
        "n_cal": len(cal.labels),
        "n_test": len(test.labels),
        "n_classes": len(cal.class_names),
        "results": [
            {
                "budget": cell.budget,
                "method": cell.method,
                "draws": len(cell.draws),
                "mean": {metric: cell.mean(metric) for metric in MEASURED},
                "std": {metric: cell.std(metric) for metric in MEASURED},
            }
            for cell in cells
        ],
        "findings": list(findings(cells)),
        "recommended": DEFAULT,
        "credit": CREDIT,
    }


def _export(folder: Path, demo_splits: dict[str, DemoSplit], *, as_json: bool) -> None:
    io.make_folder(folder)
    written = [folder / f"{name}.npz" for name in demo_splits]
    for file, split in zip(written, demo_splits.values(), strict=True):
        _require_own(file, split)
    for file, split in zip(written, demo_splits.values(), strict=True):
        arrays = {"logits": split.logits, "labels": split.labels}
        write_arrays(file, {**arrays, "class_names": np.array(split.class_names)})
    if as_json:
        terminal.show_json({"files": [str(file) for file in written], "credit": CREDIT})
        return
    terminal.say(f"Wrote {' and '.join(map(str, written))}.", CREDIT, "", *_commands(folder))


def _require_own(file: Path, split: DemoSplit) -> None:
    """Raise for a file that would be replaced, and is not this split: it may be somebody's own."""
    if not file.exists():
        return
    with suppress(SmallcalError):
        if np.array_equal(io.read(file).logits, split.logits):
            return
    raise FileError(
        f"{file} is there already, and is not the demo's; name another folder", code="file-exists"
    )


def _commands(folder: Path) -> list[str]:
    cal, test = (folder / f"{name}.npz" for name in ("cal", "test"))
    lines: list[list[object]] = [
        ["fit", cal, "-o", "cal.json"],
        ["inspect", "cal.json"],
        ["evaluate", test, "--calibrator", "cal.json"],
        ["compare", cal, test],
    ]
    return ["Go on with:", *(f"  {command(['smallcal', *words])}" for words in lines)]


_GO_ON = """\
Continue with the same data as files:
  smallcal demo --export demo-data
  smallcal fit demo-data/cal.npz -o cal.json
  smallcal evaluate demo-data/test.npz --calibrator cal.json
or in Python:
  import smallcal as sc
  cal, test = sc.load_demo("cal"), sc.load_demo("test")
  fitted = sc.Calibrator().fit(cal.logits, cal.labels)
  p = fitted.predict_proba(test.logits)
  print(sc.evaluate(test.labels, p))"""
