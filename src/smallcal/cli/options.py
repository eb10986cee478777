"""Arguments and options that several verbs share."""

from __future__ import annotations

from typing import Annotated, Any

import typer


def argument(metavar: str, help: str) -> Any:
    """Return what typer is told of an argument: what stands for its value, and what it is."""
    return typer.Argument(metavar=metavar, help=help, show_default=False)


def option(metavar: str | None, help: str, *names: str, **more: Any) -> Any:
    """Return what typer is told of an option; its names, where the parameter's will not do."""
    return typer.Option(*names, metavar=metavar, help=help, **more)


def flag(name: str, help: str) -> Any:
    """Return what typer is told of an option without a value."""
    return typer.Option(name, help=help)


Data = Annotated[
    str,
    argument(
        "DATA",
        "Logits and labels: .npz .npy .csv .tsv .jsonl .json .parquet .arrow .safetensors .pt .h5, "
        "text also as .gz; a folder of Parquet or Arrow files; or - for standard input. FILE:val "
        "reads val_logits and val_labels.",
    ),
]
CalData = Annotated[
    str,
    argument(
        "CAL_DATA", "Calibration data to fit on. One file with val and test splits is enough."
    ),
]
TestData = Annotated[str | None, argument("[TEST_DATA]", "Test data to measure on.")]
Method = Annotated[str, option("NAME", "Method name; `smallcal methods` lists them.")]
Settings = Annotated[
    list[str] | None, option("NAME=VALUE", "An option of the method, such as n_groups=5.", "--set")
]
Jobs = Annotated[int, option("N", "Number of worker processes.", min=1)]
Calibrator = Annotated[str, argument("CAL", "Calibrator written by fit.")]
CalibratorOrFolder = Annotated[
    str, argument("CAL", "Calibrator written by fit, or the folder written by fit --per.")
]
Labels = Annotated[str | None, option("FILE", "File with the labels, if DATA has none.")]
Input = Annotated[
    str | None,
    option(
        "logits|probabilities|score",
        "What DATA contains; a score is one number per sample, with an outcome of 0 or 1. "
        "Default: by the names in the file, otherwise what CAL takes, or logits.",
    ),
]
Columns = Annotated[
    str | None,
    option(
        "A,B,...", "Columns of a table that hold the classes, in order; class_* matches several."
    ),
]
LogitsKey = Annotated[
    str | None, option("NAME", "Name of the logits in the file, if it is ambiguous.")
]
LabelsKey = Annotated[
    str | None, option("NAME", "Name of the labels in the file, if it is ambiguous.")
]
Score = Annotated[
    str | None,
    option("FIELD", "Field with the score, such as judge.score in JSON lines."),
]
Outcome = Annotated[
    str | None,
    option(
        "FIELD", "Field with the outcome that the score predicts: 0 or 1, true or false, a or b."
    ),
]
Group = Annotated[
    str | None,
    option(
        "NAME",
        "Column or array with the group of each sample, such as a task or a site. In a file with "
        "splits, groups means val_groups.",
    ),
]
Cluster = Annotated[
    str | None,
    option(
        "FIELD",
        "Column or array that says which samples depend on one another, such as those of one "
        "patient or prompt.",
    ),
]
Per = Annotated[
    str | None,
    option("FIELD", "Field with the model or task of each row: fit one calibrator for each."),
]
KeepPredictions = Annotated[
    bool,
    flag(
        "--keep-predictions", "Keep the model's predictions; only their confidence is calibrated."
    ),
]
Force = Annotated[
    bool, flag("--force", "Continue although the labels do not seem to match the predictions.")
]
ClassNames = Annotated[str | None, option("FILE", "Class names, one per line, in column order.")]
Cost = Annotated[
    str | None,
    option(
        "SPEC",
        "Cost of decisions: miss=100,false_alarm=10,review=5 (each optional), or a .csv with a "
        "row per decision and a column per true class.",
    ),
]
Metrics = Annotated[
    str | None,
    option("A,B,...", "Metrics, separated by commas; see `smallcal evaluate` for names."),
]
Seed = Annotated[int, option("N", "Random seed.", min=0, max=2**32 - 1)]
Boot = Annotated[int, option("N", "Bootstrap resamples for intervals; 0 for none.", min=0)]
EnoughBoot = Annotated[
    int | None,
    option(
        "N",
        "Bootstrap resamples for intervals; 0 for none. Default: 500 to 2,000, until the "
        "intervals are stable.",
        min=0,
    ),
]
Level = Annotated[float, option("P", "Level of the confidence intervals.")]
Json = Annotated[bool, flag("--json", "Print JSON.")]
