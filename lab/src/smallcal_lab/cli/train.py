"""``smallcal train``: a model of images, trained as a recipe says."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext, redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smallcal.cli import BAD_INPUT, options, terminal
from smallcal.cli.options import argument, flag, option
from smallcal.data import shown
from smallcal.errors import InputError, SmallcalError
from smallcal_lab.toml import value_of

if TYPE_CHECKING:
    from smallcal_lab.vision import TrainingRun
    from smallcal_lab.vision.training.loop import Epoch

_SETTINGS = "Override a key of the recipe, such as optimizer.lr=1e-4. May be repeated."


def train(
    context: typer.Context,
    recipe: Annotated[
        str | None, argument("[RECIPE]", "A TOML file, or a name that --list shows.")
    ] = None,
    output: Annotated[
        str | None,
        option("RUN", "Output folder; an interrupted run resumes there.", "-o", "--output"),
    ] = None,
    data: Annotated[
        str | None, option("KIND:DIR", "The images, such as cifar100:DIR or folder:DIR.")
    ] = None,
    epochs: Annotated[int | None, option("N", "Overrides the recipe.", min=1)] = None,
    seed: Annotated[int | None, option("N", "Overrides the recipe.", min=0, max=2**32 - 1)] = None,
    device: Annotated[
        str | None,
        option("NAME", "Device, such as cpu, cuda or cuda:1. Default: a GPU if there is one."),
    ] = None,
    workers: Annotated[
        int | None, option("N", "Processes that load images.", min=0, max=256)
    ] = None,
    setting: Annotated[list[str] | None, option("KEY=VALUE", _SETTINGS, "--set")] = None,
    listed: Annotated[
        bool, flag("--list", "List the recipes that come with smallcal, and exit.")
    ] = False,
    show: Annotated[
        bool, flag("--show", "Print the recipe, to edit and save as a file, and exit.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Train an image model from a recipe; an interrupted run resumes."""
    # Not at the top: without Pillow the help of this verb should still be there.
    from smallcal_lab.vision import read_recipe, recipe_names
    from smallcal_lab.vision import train as train_model
    from smallcal_lab.vision.training.batches import place_of
    from smallcal_lab.vision.training.recipe import recipe_text

    if listed:
        titles = {name: read_recipe(name).title for name in recipe_names()}
        if as_json:
            terminal.show_json(titles)
        else:
            terminal.show_table(["recipe", "what it does"], [*titles.items()], text=(0, 1))
        return
    if recipe is None:
        raise InputError("name a recipe; smallcal train --list shows them")
    changes: dict[str, Any] = {}
    for text in setting or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--set must look like optimizer.lr=1e-4; got {text!r}")
        changes[name.strip()] = value_of(value.strip())
    usual = {"data.source": data, "training.epochs": epochs, "training.seed": seed}
    usual |= {"training.device": device, "training.workers": workers}
    changes |= {name: value for name, value in usual.items() if value is not None}
    if show:  # with its comments, if nothing is changed
        own = recipe in recipe_names() and not changes
        text = recipe_text(recipe) if own else read_recipe(recipe).changed(changes).text()
        sys.stdout.write(shown.visible(text, keep="\n"))
        return
    if output is None:
        raise InputError("name an output folder with -o")
    work = partial(train_model, recipe, output, changes=changes)
    if place_of().first:
        _train(context, work, output, as_json=as_json)
        return
    try:  # the first of several processes speaks for all
        work()
    except SmallcalError:
        raise typer.Exit(BAD_INPUT) from None


def _train(
    context: typer.Context, work: Callable[..., TrainingRun], output: str, *, as_json: bool
) -> None:
    """Train, with a line for each epoch, and say what to do next."""
    stream = sys.stdout
    done: list[Epoch] = []

    def told(row: Epoch, epochs: int) -> None:
        done.append(row)
        if not as_json:  # a bar on the terminal would take the line to itself, even from a file
            with nullcontext() if stream.isatty() else redirect_stdout(stream):
                terminal.say(row.line(epochs))
            stream.flush()

    try:
        run = work(on_epoch=told)
    except (KeyboardInterrupt, SystemExit, SmallcalError):
        if done or Path(output, "last.pt").exists():
            again = terminal.typed(context)
            terminal.note(f"finished epochs are kept; run the same command to resume: {again}")
        raise
    if as_json:
        log = [row._asdict() for row in run.log]
        words = {"run": str(run.folder), "checkpoint": str(run.checkpoint)}
        terminal.show_json({**words, "resumed": run.resumed, "log": log})
        return
    if not done:
        terminal.note(f"all {terminal.count(run.resumed, 'epoch')} were done before")
    logits = ["smallcal", "logits", run.model, "TEST_DATA"]
    if (split := run.folder / "split.json").exists():
        logits += ["--calibration", "TRAIN_DATA", "--calibration-split", str(split)]
    terminal.say(f"Wrote {run.checkpoint}. Next:", f"  {shown.command([*logits, '-o', 'DIR'])}")
