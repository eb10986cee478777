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
        "text also as .gz; a folder of Parquet or Arrow files; or - for standard input, its type "
        "told by its content. FILE:val takes val_logits and val_labels.",
    ),
]
CalData = Annotated[
    str, argument("CAL_DATA", "Fit on this file. One that holds val and test splits is enough.")
]
TestData = Annotated[str | None, argument("[TEST_DATA]", "Measure on this file.")]
Method = Annotated[str, option("NAME", "A name that `smallcal methods` lists.")]
Settings = Annotated[
    list[str] | None, option("NAME=VALUE", "An option of the method, such as n_groups=5.", "--set")
]
Jobs = Annotated[int, option("N", "Processes.", min=1)]
Calibrator = Annotated[str, argument("CAL", "A calibrator that fit wrote.")]
CalibratorOrFolder = Annotated[
    str, argument("CAL", "A calibrator that fit wrote, or a folder of them that fit --per wrote.")
]
Labels = Annotated[str | None, option("FILE", "The labels, if DATA does not hold them.")]
Input = Annotated[
    str | None,
    option(
        "logits|probabilities|score",
        "What the numbers are; a score is one per row, with an outcome. Default: what the file's "
        "names say, else logits.",
    ),
]
Columns = Annotated[
    str | None,
    option("A,B,...", "Which columns of a table are classes, in order; class_* names several."),
]
LogitsKey = Annotated[
    str | None, option("NAME", "What the logits are called in the file, if it cannot be told.")
]
LabelsKey = Annotated[
    str | None, option("NAME", "What the labels are called in the file, if it cannot be told.")
]
Score = Annotated[
    str | None,
    option("FIELD", "The score of a row, as judge.score in JSON lines; A,B takes the difference."),
]
Outcome = Annotated[
    str | None, option("FIELD", "What a score should foretell: 0 or 1, true or false, a or b.")
]
Group = Annotated[
    str | None,
    option(
        "NAME",
        "The column or array that says which group a row belongs to: a kind of question, a site. "
        "In a file of splits, groups stands for val_groups.",
    ),
]
Per = Annotated[
    str | None, option("FIELD", "Models or tasks that DATA holds together: one calibrator each.")
]
Force = Annotated[
    bool, flag("--force", "Go on where the labels do not seem to be those of the predictions.")
]
ClassNames = Annotated[str | None, option("FILE", "Class names, one per line, in column order.")]
Cost = Annotated[
    str | None,
    option(
        "SPEC",
        "What decisions cost: miss=100,false_alarm=10,review=5 (those there are), or a .csv with a "
        "row per decision and a column per true class.",
    ),
]
Metrics = Annotated[str | None, option("A,B,...", "Which metrics, separated by commas.")]
Seed = Annotated[int, option("N", "Seed of the folds and draws.", min=0, max=2**32 - 1)]
Boot = Annotated[int, option("N", "Resamples for intervals; 0 leaves them out.", min=0)]
EnoughBoot = Annotated[
    int | None,
    option(
        "N",
        "Resamples for intervals; 0 leaves them out. Default: until the ends of intervals are "
        "steady, 500 to 2,000.",
        min=0,
    ),
]
Level = Annotated[float, option("P", "Level of the intervals, such as 0.95.")]
Json = Annotated[bool, flag("--json", "Print JSON for machines.")]
