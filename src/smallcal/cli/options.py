"""Arguments and options that several verbs share."""

from __future__ import annotations

from typing import Annotated

import typer

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="Logits and labels: .npz .npy .csv .parquet .arrow .safetensors .pt .h5, or a folder "
        "of Parquet or Arrow files; FILE:val takes val_logits and val_labels.",
        show_default=False,
    ),
]
CalData = Annotated[
    str,
    typer.Argument(
        metavar="CAL_DATA",
        help="Fit on this file. One that holds val and test splits is enough.",
        show_default=False,
    ),
]
TestData = Annotated[
    str | None,
    typer.Argument(metavar="[TEST_DATA]", help="Measure on this file.", show_default=False),
]
Method = Annotated[str, typer.Option(metavar="NAME", help="A name that `smallcal methods` lists.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="An option of the method, such as n_groups=5."
    ),
]
Jobs = Annotated[int, typer.Option(metavar="N", min=1, help="Processes.")]
Calibrator = Annotated[
    str,
    typer.Argument(metavar="CAL", help="A calibrator that fit wrote.", show_default=False),
]
Labels = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="The labels, if DATA does not hold them."),
]
Input = Annotated[
    str | None,
    typer.Option(
        metavar="logits|probabilities",
        help="What the numbers are. Default: what the file's names say, else logits.",
    ),
]
ClassNames = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Class names, one per line, in column order."),
]
Metrics = Annotated[
    str | None,
    typer.Option(metavar="A,B,...", help="Which metrics, separated by commas."),
]
Seed = Annotated[
    int, typer.Option(min=0, max=2**32 - 1, metavar="N", help="Seed of the folds and draws.")
]
Boot = Annotated[
    int,
    typer.Option(
        "--n-boot", metavar="N", min=0, help="Resamples for intervals; 0 leaves them out."
    ),
]
Level = Annotated[
    float, typer.Option("--level", metavar="P", help="Level of the intervals, such as 0.95.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
