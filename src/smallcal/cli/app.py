"""The verbs: what each is called, what it does in one line, and where it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

import typer

from smallcal._version import __version__
from smallcal.cli.lazy import LazyGroup, Verb, verbs_of

_HELP = {
    "demo": "Calibrate a real model from a few hundred samples and show what that gives.",
    "fit": "Fit a calibrator on held-out logits and labels, or scores and outcomes.",
    "apply": "Write calibrated probabilities; .npy, Parquet and Arrow stream, however large.",
    "evaluate": "Measure the calibration of logits or scores, or of what a calibrator makes.",
    "compare": "Fit several methods and show their metrics side by side.",
    "select": "Compare the default with others on samples held out, and choose.",
    "audit": "Refit a calibrator on resamples and say how far to trust its numbers.",
    "certify": "Find the confidence above which errors stay below a risk, with a guarantee.",
    "plan": "Say how many samples calibration needs, from a pilot split.",
    "report": "Report how well a model is calibrated, and which method to use.",
    "export": "Write a calibrator as ONNX, a Python file or SQL, for places without smallcal.",
    "monitor": "Watch for drift; exit with 1 on alarm. May be asked as often as one likes.",
    "adapt": "Adapt a calibrator to classes that became more or less frequent; no labels needed.",
    "refresh": "Update a calibrator with new labelled rows, and say what changed.",
    "inspect": "Say what a saved calibrator does, in words.",
    "methods": "List the methods by name.",
    "cite": "Print what to cite for methods and metrics, or for smallcal itself, as BibTeX.",
    "train": "Train a model of images as a recipe says; a stopped run goes on.",
    "logits": "Run a model over images: logits and features, as a collection that studies read.",
    "paper": "Plan the paper's models, or make them: train, take logits, compare with its numbers.",
    "study": "Run the paper's experiments on your own logits, and print their tables.",
    "help": "Show the help of a verb.",
}


class Verbs(LazyGroup):
    """The commands of ``smallcal``."""

    verbs: ClassVar[Mapping[str, Verb]] = verbs_of(_HELP)


app = typer.Typer(
    cls=Verbs,
    name="smallcal",
    help="Calibrate a classifier from a few hundred labelled examples.",
    epilog="Start with: smallcal demo",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"smallcal {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _main(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
