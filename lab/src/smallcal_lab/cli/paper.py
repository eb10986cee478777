"""``smallcal paper``: the paper's models, planned and made."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smallcal.cli import BAD_INPUT, options, terminal
from smallcal.cli.options import flag, option
from smallcal.data import shown
from smallcal.errors import InputError
from smallcal_lab.cli.study_reproduce import study_reproduce
from smallcal_lab.studies.collection import load_collection
from smallcal_lab.studies.reproduce.reference import PAPER, load_reference
from smallcal_lab.studies.reproduce.run import agenda_of

if TYPE_CHECKING:
    from smallcal_lab.vision.paper.cells import Paper
    from smallcal_lab.vision.paper.run import Plan
    from smallcal_lab.vision.paper.work import Places

#: It trains and takes logits, which call it so, and ends in a study, which calls it otherwise.
_OUT = ("-o", "--output", "--out")


def paper(
    context: typer.Context,
    plan: Annotated[
        bool, flag("--plan", "Show what would run, for how long, and what is done; run nothing.")
    ] = False,
    cells: Annotated[
        list[str] | None,
        option(
            "NAME,...",
            "Only these cells: cifar100, cifar100/vit-b16, cifar10*/deit-s/seed0. May be repeated.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        option("DIR", "Output folder for runs and logits; an interrupted run resumes.", *_OUT),
    ] = None,
    root: Annotated[
        str | None,
        option(
            "DIR", "Folder that contains the image folders. Default: the current one.", "--data"
        ),
    ] = None,
    file: Annotated[
        str | None,
        option("FILE", "TOML file with other cells than the paper's, in the same format."),
    ] = None,
    no_measure: Annotated[
        bool, flag("--no-measure", "Plan without timing a batch of each model.")
    ] = False,
    tflops: Annotated[
        float,
        option("N", "Speed of the GPU in 10^12 operations per second, for the plan.", min=0.001),
    ] = 30.0,
    device: Annotated[str, option("auto|cpu|cuda|mps", "Device for the models.")] = "auto",
    workers: Annotated[
        int | None, option("N", "Processes that load images.", min=0, max=256)
    ] = None,
    batch_size: Annotated[int, option("N", "Images per batch when saving logits.", min=1)] = 64,
    jobs: options.Jobs = 1,
    as_json: options.Json = False,
) -> None:
    """Plan or make the paper's models: train, save logits, compare with its numbers."""
    from smallcal_lab import vision  # it needs Pillow, and a list of options does not

    known = vision.load_paper(file)
    chosen = known.only([name for text in cells or () for name in text.split(",") if name])
    places = vision.Places(Path(root or "."), Path(output or "OUT"))
    work = known, chosen, places
    if plan:
        measured = not no_measure
        with terminal.progress("Measuring", len({cell.model for cell in chosen})) as advance:
            found = vision.plan_paper(*work, measured=measured, tflops=tflops, advance=advance)
        if as_json:
            terminal.show_json(found.to_dict())
        else:
            _show_plan(found, whole=len(chosen) == len(known.cells))
        return
    if output is None:
        raise InputError("say --plan to see what would be run, or -o DIR to run it")
    told = _to_stderr if as_json else _say_now
    settings = vision.RunSettings(device, workers, batch_size)
    try:
        vision.run_paper(*work, settings=settings, told=told)
    except InputError as error:
        terminal.leave(getattr(error, "lines", ()), code=BAD_INPUT)
        raise
    except (KeyboardInterrupt, SystemExit):
        again = terminal.typed(context)
        terminal.note(f"what is finished is kept; run the same command to resume: {again}")
        raise
    _compare(known, places, jobs=jobs, as_json=as_json)


def _say_now(line: str) -> None:
    """Print a line at once: who writes a run of days into a file wants to see how far it is."""
    terminal.say(line)
    sys.stdout.flush()


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"{shown.one_line(line)}\n")


def _compare(known: Paper, places: Places, *, jobs: int, as_json: bool) -> None:
    """Compare with the printed numbers, where all seeds of one are there; else say what to do."""
    logits, kept = str(places.logits), str(places.out / "reproduced")
    own = None if known.reference == "paper" else known.reference
    more = ["--reference", own] if own else []
    again = shown.command(["smallcal", "study", "reproduce", logits, "--out", kept, *more])
    if known.reference:
        reference = load_reference(own or PAPER)
        if agenda_of(load_collection(logits), reference).claims:
            if not as_json:
                terminal.say("", again, "")
            study_reproduce(logits, out=kept, reference=own, jobs=jobs, as_json=as_json)
            return
        terminal.note(f"no printed number is of these cells alone; with more of them: {again}")
    if as_json:
        terminal.show_json({"collection": logits})
    elif not known.reference:
        terminal.say("", f"Next: {shown.command(['smallcal', 'study', 'check', logits])}")


# --- the plan ------------------------------------------------------------------------------------


def _show_plan(found: Plan, *, whole: bool) -> None:
    """Print a plan: cells, then models, then images, then commands and the sum."""
    _show_table(_cell_rows(found), text=(0, 2, 4))
    for first, *_ in found.groups():
        if first.cell.unprinted:
            terminal.say(f"{first.cell.dataset}/{first.cell.backbone}: {first.cell.unprinted}.")
    if whole:
        names = {name.rpartition("/")[0]: why for name, why in found.paper.elsewhere.items()}
        terminal.say(*(f"Not made here: {them}: {why}." for why, them in _by_value(names)))
    terminal.say("")
    _show_table(_model_rows(found), text=(0, 1))
    reasons = {source: speed.reason for source, speed in found.speeds.items() if speed.reason}
    for why, sources in _by_value(reasons):
        terminal.say(f"Not measured: {sources}: {why}", "")
    states = {found.places.images(named): why for named, why in found.images.items()}
    words = {name: "not there" if " is not there" in why else why for name, why in states.items()}
    rows = [{"images": name, "there?": why or "there"} for name, why in words.items()]
    _show_table(rows, text=(0, 1))
    if len(found.works) > 6:
        terminal.say("With --cells and a few of them, the commands are shown here.", "")
    else:
        for work in found.works:
            commands = (f"  {shown.command(words)}" for words in work.commands)
            terminal.say(f"{work.cell.name}:", *commands)
        terminal.say("")
    terminal.say(*_sums(found))


def _show_table(rows: Sequence[Mapping[str, str]], text: tuple[int, ...]) -> None:
    """Print rows by heading; the last one has all."""
    heads = list(rows[-1])
    terminal.show_table(heads, [[row.get(head, "") for head in heads] for row in rows], text=text)


def _by_value(reasons: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return each reason with the names that have it."""
    found: dict[str, list[str]] = {}
    for name, why in reasons.items():
        found.setdefault(why, []).append(name)
    return [(why, ", ".join(names)) for why, names in found.items()]


def _cell_rows(found: Plan) -> list[dict[str, str]]:
    """Return backbones under their data sets: whole names would not fit beside the rest."""
    rows: list[dict[str, str]] = []
    dataset = ""
    order = [work.cell.dataset for work in found.works]
    for group in sorted(found.groups(), key=lambda group: order.index(group[0].cell.dataset)):
        first, names = group[0], {work.cell.name for work in group}
        if first.cell.dataset != dataset:
            dataset = first.cell.dataset
            rows.append({"cell": f"{dataset}/"})
        sets = [_n(first.calibration + first.test)]
        sets += [_n(n) if many == 1 else f"{many} x {_n(n)}" for many, n in first.shifts.values()]
        row = {
            "cell": first.cell.backbone,
            "seeds": f"{len(group)}",
            "recipe": first.cell.recipe or "as published",
            "trained on": f"{_n(first.trained)} x {first.epochs}" if first.recipe else "–",
            "logits of": " + ".join(sets),
        }
        if found.speeds:
            row["GPU h"] = _hours(found.hours(group, counted=not _on_gpu(found)))
        if found.trained | found.extracted:
            trained = len(names & found.trained - found.extracted)
            more = f", {trained} trained" if trained else ""
            row["done"] = f"{len(names & found.extracted)}{more}"
        rows.append(row)
    return rows


def _model_rows(found: Plan) -> list[dict[str, str]]:
    """Return the models: whether their weights are here, and what an image takes."""
    words = {True: "here", False: "not here", None: "not looked for"}
    rows = []
    for source in dict.fromkeys(work.cell.model for work in found.works):
        state = words[found.weights[source]] if source in found.weights else "not needed"
        row = {"model": source, "weights": state}
        if speed := found.speeds.get(source):
            each = (1000 * speed.train, 1000 * speed.apply, speed.flops / 1e9)
            timed = ["–" if speed.reason else _short(number) for number in each]
            row |= zip(("ms to train on", "ms to apply", "GFLOP"), timed, strict=True)
        rows.append(row)
    return rows


def _n(number: float) -> str:
    return "?" if math.isnan(number) else f"{number:,}"


def _hours(number: float | None) -> str:
    if number is None:
        return "–"
    return _short(number) if number >= 0.01 else "< 0.01"


def _short(number: float) -> str:
    """Return a number with three digits or so."""
    return f"{number:,.{0 if number >= 100 else 1 if number >= 10 else 2}f}"


def _on_gpu(found: Plan) -> bool:
    """Whether a GPU was measured."""
    return any(speed.device[:3] not in ("", "CPU") for speed in found.speeds.values())


def _sums(found: Plan) -> list[str]:
    """Return what is left to do, in all."""
    left = found.left
    steps = sum(work.steps for work in left if not math.isnan(work.steps))
    seen = sum(work.seen for work in left if not math.isnan(work.seen))
    said = [
        f"{terminal.count(len(found.works), 'cell')}, {len(left):,} of them to be done: "
        f"{steps:,} images to train on, all epochs together, and logits of {seen:,}."
    ]
    if lacking := sum(bool(missing) for missing in found.images.values()):
        said.append(f"{lacking} of {len(found.images)} sets of images are not there.")
    if not found.speeds:
        return [*said, "Nothing was measured."]
    here, gpu = found.hours(left), found.hours(left, counted=True)
    if here is None:
        return said
    device = next((speed.device for speed in found.speeds.values() if speed.device), "")
    untimed = sum(found.hours([work]) is None for work in left)
    without = f", without {terminal.count(untimed, 'cell')} that cannot be told" if untimed else ""
    batch = f"A batch of each model was tried out on {device}: {_hours(here)}"
    if _on_gpu(found):
        return [*said, f"{batch} GPU hours{without}, if images load as fast."]
    return [
        *said,
        f"{batch} hours here{without}. GPU hours are by the operations that were counted, at "
        f"{found.tflops:g} x 10^12 a second (--tflops): {_hours(gpu)}.",
    ]
