"""``smallcal paper``: the paper's models, planned and made."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from smallcal.cli import options, terminal
from smallcal.cli.options import flag, option
from smallcal.data import shown
from smallcal.errors import InputError
from smallcal_lab.cli.study_reproduce import study_reproduce
from smallcal_lab.studies.collection import load_collection
from smallcal_lab.studies.reproduce.reference import PAPER, load_reference
from smallcal_lab.studies.reproduce.run import agenda_of

if TYPE_CHECKING:
    from smallcal_lab.vision.paper.cells import Paper
    from smallcal_lab.vision.paper.plan import Plan
    from smallcal_lab.vision.paper.work import Places, Work

#: Cells whose commands are shown without being asked for.
_FEW = 6
#: Where a comparison with the printed numbers is kept.
_REPRODUCED = "reproduced"

BAD_INPUT = 2

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
        _show(found, whole=len(chosen) == len(known.cells), as_json=as_json)
        return
    if output is None:
        raise InputError("say --plan to see what would be run, or -o DIR to run it")
    told = _to_stderr if as_json else _say_now
    settings = vision.RunSettings(device, workers, batch_size)
    with _explained(context):
        vision.run_paper(*work, settings=settings, told=told)
    _compare(known, places, jobs=jobs, as_json=as_json)


# --- running -------------------------------------------------------------------------------------


@contextmanager
def _explained(context: typer.Context) -> Iterator[None]:
    """Say all that is missing, a line each; say how a run that is stopped goes on."""
    try:
        yield
    except InputError as error:
        terminal.leave(getattr(error, "lines", ()), code=BAD_INPUT)
        raise
    except (KeyboardInterrupt, SystemExit):
        again = terminal.typed(context)
        terminal.note(f"what is finished is kept; run the same command to resume: {again}")
        raise


def _say_now(line: str) -> None:
    """Print a line at once: who writes a run of days into a file wants to see how far it is."""
    terminal.say(line)
    sys.stdout.flush()


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"{shown.one_line(line)}\n")


def _compare(known: Paper, places: Places, *, jobs: int, as_json: bool) -> None:
    """Compare with the printed numbers, where all seeds of one are there; else say what to do."""
    logits, kept = str(places.logits), str(places.out / _REPRODUCED)
    if not known.reference:
        if as_json:
            terminal.show_json({"collection": logits})
            return
        terminal.say("", f"Next: {shown.command(['smallcal', 'study', 'check', logits])}")
        return
    own = None if known.reference == "paper" else known.reference
    more = ["--reference", own] if own else []
    again = shown.command(["smallcal", "study", "reproduce", logits, "--out", kept, *more])
    reference = load_reference(own or PAPER)
    if not agenda_of(load_collection(logits), reference).claims:
        terminal.note(f"no printed number is of these cells alone; with more of them: {again}")
        if as_json:
            terminal.show_json({"collection": logits})
        return
    if not as_json:
        terminal.say("", again, "")
    study_reproduce(logits, out=kept, reference=own, jobs=jobs, as_json=as_json)


# --- the plan ------------------------------------------------------------------------------------


def _show(found: Plan, *, whole: bool, as_json: bool) -> None:
    if as_json:
        terminal.show_json(found.to_dict())
    else:
        show_plan(found, whole=whole)


def show_plan(found: Plan, *, whole: bool) -> None:
    """Print a plan: cells, then models, then images, then the sum."""
    _show_cells(found)
    for group in found.groups():
        if group[0].cell.unprinted:
            terminal.say(f"{_name(group)}: {group[0].cell.unprinted}.")
    if whole:
        reasons: dict[str, list[str]] = {}
        for one in found.paper.elsewhere:
            reasons.setdefault(one.reason, []).append(f"{one.dataset}/{one.backbone}")
        terminal.say(
            *(f"Not made here: {', '.join(names)}: {why}." for why, names in reasons.items())
        )
    terminal.say("")
    _show_models(found)
    _show_images(found)
    _show_commands(found)
    terminal.say(*_sums(found))


def _show_cells(found: Plan) -> None:
    """Print backbones under their data sets: whole names would not fit beside the rest."""
    heads = ["cell", "seeds", "recipe", "trained on", "logits of"]
    heads += ["GPU h"] * bool(found.speeds) + ["done"] * bool(found.trained | found.extracted)
    rows: list[list[str]] = []
    groups = found.groups()
    for dataset in dict.fromkeys(group[0].cell.dataset for group in groups):
        rows.append([f"{dataset}/", *[""] * (len(heads) - 1)])
        rows += [_row(found, group) for group in groups if group[0].cell.dataset == dataset]
    terminal.show_table(heads, rows, text=(0, 2, 4))


def _row(found: Plan, group: Sequence[Work]) -> list[str]:
    first = group[0]
    trained = f"{_n(first.trained)} x {first.epochs}" if first.recipe else "–"
    hours = [_hours(_gpu(found, group))] if found.speeds else []
    return [
        first.cell.backbone,
        f"{len(group)}",
        first.cell.recipe or "as published",
        trained,
        _sets(first),
        *hours,
        *([_done(found, group)] if found.trained | found.extracted else []),
    ]


def _done(found: Plan, group: Sequence[Work]) -> str:
    """Return how many cells are finished, and how many are trained and no more."""
    names = {work.cell.name for work in group}
    trained = len(names & found.trained - found.extracted)
    return f"{len(names & found.extracted)}" + (f", {trained} trained" if trained else "")


def _name(group: Sequence[Work]) -> str:
    return f"{group[0].cell.dataset}/{group[0].cell.backbone}"


def _sets(work: Work) -> str:
    clean = [n for n in (work.calibration, work.test) if n != 0]
    own = ["?"] if None in clean else [_n(sum(n for n in clean if n is not None))]
    own += [_n(n) if many == 1 else f"{many} x {_n(n)}" for many, n in work.shifts.values()]
    return " + ".join(own)


def _n(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"


def _hours(number: float | None) -> str:
    if number is None:
        return "–"
    return _short(number) if number >= 0.01 else "< 0.01"


def _short(number: float) -> str:
    """Return a number with three digits or so."""
    return (
        f"{number:,.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"
    )


def _gpu(found: Plan, works: Sequence[Work]) -> float | None:
    """Return hours on the GPU that was measured; without one, those by operations."""
    return found.hours(works) if _on_gpu(found) else found.gpu_hours(works)


def _on_gpu(found: Plan) -> bool:
    return any(
        speed.device and not speed.device.startswith("CPU") for speed in found.speeds.values()
    )


def _show_models(found: Plan) -> None:
    words = {True: "here", False: "not here", None: "not looked for"}
    models = dict.fromkeys(work.cell.model for work in found.works)
    rows = []
    for source in models:
        speed = found.speeds.get(source)
        state = words[found.weights[source]] if source in found.weights else "not needed"
        timed = ["–"] * 3
        if speed is not None and not speed.reason:
            each = (1000 * speed.train, 1000 * speed.apply, speed.flops / 1e9)
            timed = [_short(number) for number in each]
        rows.append([source, state, *(timed if found.speeds else [])])
    heads = [
        "model",
        "weights",
        *(["ms to train on", "ms to apply", "GFLOP"] if found.speeds else []),
    ]
    terminal.show_table(heads, rows, text=(0, 1))
    reasons: dict[str, list[str]] = {}
    for source, speed in found.speeds.items():
        if speed.reason:
            reasons.setdefault(speed.reason, []).append(source)
    for why, sources in reasons.items():
        terminal.say(f"Not measured: {', '.join(sources)}: {why}", "")


def _show_images(found: Plan) -> None:
    rows = [
        [found.places.images(named), _state(missing)] for named, missing in found.images.items()
    ]
    terminal.show_table(["images", "there?"], rows, text=(0, 1))


def _state(missing: str) -> str:
    if not missing:
        return "there"
    return "not there" if " is not there" in missing else missing


def _show_commands(found: Plan) -> None:
    if len(found.works) > _FEW:
        terminal.say("With --cells and a few of them, the commands are shown here.", "")
        return
    for work in found.works:
        terminal.say(f"{work.cell.name}:")
        for words in found.commands(work):
            terminal.say(f"  {shown.command(words)}")
    terminal.say("")


def _sums(found: Plan) -> list[str]:
    """Return what is left to do, in all."""
    left = found.left
    steps, seen = (sum(n or 0 for n in one) for one in _counts(left))
    said = [
        f"{terminal.count(len(found.works), 'cell')}, {len(left):,} of them to be done: "
        f"{steps:,} images to train on, all epochs together, and logits of {seen:,}."
    ]
    lacking = sum(bool(missing) for missing in found.images.values())
    if lacking:
        said.append(f"{lacking} of {len(found.images)} sets of images are not there.")
    if not found.speeds:
        return [*said, "Nothing was measured."]
    device = next((speed.device for speed in found.speeds.values() if speed.device), "")
    here = found.hours(left)
    if here is None:
        return said
    untimed = sum(found.hours([work]) is None for work in left)
    without = f", without {terminal.count(untimed, 'cell')} that cannot be told" if untimed else ""
    batch = f"A batch of each model was tried out on {device}"
    if _on_gpu(found):
        return [*said, f"{batch}: {_hours(here)} GPU hours{without}, if images load as fast."]
    return [
        *said,
        f"{batch}: {_hours(here)} hours here{without}. GPU hours are by the operations that were "
        f"counted, at {found.tflops:g} x 10^12 a second (--tflops): "
        f"{_hours(found.gpu_hours(left))}.",
    ]


def _counts(works: Sequence[Work]) -> tuple[list[int | None], list[int | None]]:
    return [work.steps for work in works], [work.seen for work in works]
