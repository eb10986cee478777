"""``smallcal train``: a model of images, trained as a recipe says."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from smallcal.cli import options, terminal
from smallcal.cli.options import argument, flag, option
from smallcal.data import shown
from smallcal.errors import InputError, SmallcalError
from smallcal_lab.toml import value_of

if TYPE_CHECKING:
    from smallcal_lab.vision import TrainingRun
    from smallcal_lab.vision.training.loop import Epoch


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
    setting: Annotated[
        list[str] | None,
        option(
            "KEY=VALUE",
            "Override a key of the recipe, such as optimizer.lr=1e-4. May be repeated.",
            "--set",
        ),
    ] = None,
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
    from smallcal_lab.vision.training.processes import place_of
    from smallcal_lab.vision.training.recipe import recipe_text

    if listed:
        _list({name: read_recipe(name).title for name in recipe_names()}, as_json=as_json)
        return
    if recipe is None:
        raise InputError("name a recipe; smallcal train --list shows them")
    usual = {"data.source": data, "training.epochs": epochs, "training.seed": seed}
    usual |= {"training.device": device, "training.workers": workers}
    given = {name: value for name, value in usual.items() if value is not None}
    changes = {**{name: value_of(text) for name, text in _pairs(setting or ())}, **given}
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
        raise typer.Exit(2) from None


def _train(
    context: typer.Context, work: Callable[..., TrainingRun], output: str, *, as_json: bool
) -> None:
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
        if done or os.path.exists(os.path.join(output, "last.pt")):
            terminal.note(
                "finished epochs are kept; run the same command to resume: "
                f"{terminal.typed(context)}"
            )
        raise
    if as_json:
        log = [row._asdict() for row in run.log]
        words = {"run": str(run.folder), "checkpoint": str(run.checkpoint)}
        terminal.show_json({**words, "resumed": run.resumed, "log": log})
        return
    if not done:
        terminal.note(f"all {terminal.count(run.resumed, 'epoch')} were done before")
    terminal.say(f"Wrote {run.checkpoint}. Next:", f"  {_next(run)}")


def _next(run: TrainingRun) -> str:
    """Return the command that gets the logits."""
    words = ["smallcal", "logits", run.model, "TEST_DATA"]
    split = run.folder / "split.json"
    if split.exists():
        words += ["--calibration", "TRAIN_DATA", "--calibration-split", str(split)]
    return shown.command([*words, "-o", "DIR"])


def _list(titles: Mapping[str, str], *, as_json: bool) -> None:
    if as_json:
        terminal.show_json(titles)
        return
    rows = [[name, title] for name, title in titles.items()]
    terminal.show_table(["recipe", "what it does"], rows, text=(0, 1))


def _pairs(given: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield names and values of what was set."""
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--set must look like optimizer.lr=1e-4; got {text!r}")
        yield name.strip(), value.strip()
