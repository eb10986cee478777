"""The verbs: what each is called, what it does in one line, and where it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

import typer

from smallcal._version import __version__
from smallcal.cli.lazy import LazyGroup, Verb, verbs_of

_HELP = {
    "demo": "Calibrate a real model from a few hundred samples and show the result.",
    "fit": "Fit a calibrator on held-out logits and labels, or scores and outcomes.",
    "apply": "Write calibrated probabilities; .npy, Parquet and Arrow files may be of any size.",
    "evaluate": "Measure how well logits, scores or a calibrator's probabilities are calibrated.",
    "compare": "Fit several methods and compare their metrics on a test split.",
    "select": "Choose a method by cross-validation, the uncalibrated model among the candidates.",
    "audit": "Refit a calibrator on resamples and say how stable it is.",
    "certify": "Find a confidence threshold that keeps the error rate low, with a guarantee.",
    "plan": "Estimate how many labelled samples calibration needs, from a pilot split.",
    "report": "Write a report: how well a model is calibrated, and which method to use.",
    "export": "Export a calibrator to ONNX, a Python file or SQL, to run without smallcal.",
    "monitor": "Detect drift in new data; exit code 1 on alarm. Run it as often as you like.",
    "adapt": "Adapt a calibrator to new class frequencies (label shift), without labels.",
    "refresh": "Update a calibrator with new labelled samples, and say what changed.",
    "inspect": "Describe a saved calibrator in words.",
    "methods": "List all methods, with their names.",
    "cite": "Print what to cite for methods and metrics, or for smallcal itself, as BibTeX.",
    "doctor": "Say what is installed, what is missing, and how to get it.",
    "help": "Show the help of a command.",
}

#: The commands of smallcal-lab.
_LAB = {
    "train": "Train an image model from a recipe; an interrupted run resumes.",
    "logits": "Run an image model and save logits and features as a collection for studies.",
    "paper": "Plan or make the paper's models: train, save logits, compare with its numbers.",
    "study": "Run the paper's experiments on your own logits, and print their tables.",
}


class Verbs(LazyGroup):
    """The commands of ``smallcal``."""

    verbs: ClassVar[Mapping[str, Verb]] = {
        **verbs_of(_HELP),
        **{name: Verb("", text, "Research (smallcal-lab)") for name, text in _LAB.items()},
    }


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
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
