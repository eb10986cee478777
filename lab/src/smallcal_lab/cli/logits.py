"""``smallcal logits``: a model and images in, the logits of a cell out."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from smallcal.cli import options, terminal
from smallcal.cli.options import argument, flag, option
from smallcal.data import shown
from smallcal.errors import InputError
from smallcal_lab.cli.study import size_of

_MODELS = (
    "timm:NAME, hf:NAME, torchvision:NAME, onnx:FILE, torch:package.module:factory, or "
    "checkpoint:FILE."
)
_IMAGES = "Images to test on, as folder:DIR, cifar100:DIR, imagenet:DIR:val, and so on."
_OUTPUT = "Collection folder, new or existing; an interrupted run resumes."
_SPLIT = "Divide DATA into calibration and test: halves, first-5, or a saved split."
_WHOLE = "Keep the shifted versions of calibration images in shifted sets."
_SEED = "The cell's seed. Default: that of the checkpoint, else 0."
_SHIFTS = "Shifted test set, such as imagenet-r:DIR or cifar100-c:DIR (all parts). May be repeated."
_PRECISIONS = "auto|float32|bfloat16|float16"


def logits(
    context: typer.Context,
    model: Annotated[str, argument("MODEL", _MODELS)],
    data: Annotated[str, argument("DATA", _IMAGES)],
    output: Annotated[str, option("DIR", _OUTPUT, "-o", "--output", show_default=False)],
    split: Annotated[str | None, option("RULE|FILE.json", _SPLIT)] = None,
    calibration: Annotated[
        str | None, option("DATA", "Calibrate on other images, such as cifar100:DIR:train.")
    ] = None,
    calibration_split: Annotated[
        str | None, option("RULE|FILE.json", "Use only part of them: 5%, or the split of a run.")
    ] = None,
    split_seed: Annotated[int, option("N", "Seed of random splits.", min=0)] = 0,
    shift: Annotated[list[str] | None, option("DATA", _SHIFTS)] = None,
    corrupt: Annotated[
        str | None,
        option("all|standard|A,B,...", "Also corrupt the test images: 19 kinds, 15, or by name."),
    ] = None,
    severity: Annotated[str, option("1-5|3|1,3,5", "Severity of the corruption.")] = "1-5",
    corrupt_seed: Annotated[int, option("N", "Seed of the corruption.", min=0)] = 0,
    corrupt_images: Annotated[
        int | None, option("N", "Corrupt only this many test images, evenly spaced.", min=1)
    ] = None,
    whole_shifts: Annotated[bool, flag("--whole-shifts", _WHOLE)] = False,
    dataset: Annotated[
        str | None, option("NAME", "Name of the data set in the collection.")
    ] = None,
    backbone: Annotated[str | None, option("NAME", "Name of the model in the collection.")] = None,
    seed: Annotated[int | None, option("N", _SEED, min=0, max=2**32 - 1)] = None,
    checkpoint: Annotated[
        str | None, option("FILE", "Weights to load into the model: .pt or .safetensors.")
    ] = None,
    no_features: Annotated[
        bool, flag("--no-features", "Do not save features (the input of the last layer).")
    ] = False,
    batch_size: Annotated[int, option("N", "Images per batch.", min=1)] = 64,
    workers: Annotated[
        int | None,
        option("N", "Processes that load images. Default: one per core, up to 8.", min=0),
    ] = None,
    device: Annotated[str, option("auto|cpu|cuda|mps", "Device for the model.")] = "auto",
    precision: Annotated[
        str, option(_PRECISIONS, "Numerical precision; auto is mixed precision on GPUs only.")
    ] = "auto",
    limit: Annotated[
        int | None, option("N", "At most this many images per set, for a trial run.", min=1)
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Run an image model and save logits and features as a collection for studies."""
    # Here: they need Pillow and torch, and a list of options does not.
    from smallcal_lab import vision

    if corrupt is None and (severity != "1-5" or corrupt_seed or corrupt_images):
        raise InputError("--severity, --corrupt-seed and --corrupt-images go with --corrupt")
    made = corrupt and vision.Corruptions.parse(
        corrupt, severity, seed=corrupt_seed, images=corrupt_images or 0
    )
    images = vision.CellImages(
        data,
        split=split or "",
        calibration=calibration or "",
        calibration_split=calibration_split or "",
        split_seed=split_seed,
        shifts=tuple(shift or ()),
        corruptions=made or None,
        whole_shifts=whole_shifts,
        limit=limit or 0,
    )
    settings = vision.ExtractionSettings(batch_size, workers, device, precision, not no_features)
    opened = model if checkpoint is None else vision.open_model(model, checkpoint=checkpoint)
    quiet = as_json or sys.stderr.isatty()  # where a bar shows it
    try:
        done = vision.extract(
            opened,
            images,
            output,
            cell=vision.CellName(dataset or "", backbone or "", seed),
            settings=settings,
            told=lambda line: None if quiet else terminal.say(line),
        )
    except (KeyboardInterrupt, SystemExit):
        again = terminal.typed(context)
        terminal.note(f"what is finished is kept; run the same command to resume: {again}")
        raise
    terminal.note(*done.notes)
    rate = (done.images - done.images_before) / done.seconds if done.seconds else None
    if as_json:
        about: dict[str, Any] = {
            "output": output,
            "cells": list(done.cells),
            "sets": dict(done.sets),
        }
        about |= {"images": done.images, "images_before": done.images_before}
        terminal.show_json({**about, "seconds": done.seconds, "images_per_second": rate})
        return
    if done.images_before:
        terminal.note(f"{done.images_before:,} of {done.images:,} images were done before")
    speed = f" ({rate:,.0f} images/s)" if rate else ""
    sets = terminal.count(len(done.sets), "set")
    terminal.say(
        f"Wrote {', '.join(done.cells)}: {terminal.count(done.images, 'image')} in {sets}{speed}.",
        f"{output}/collection.toml has {size_of(done.collection)}.",
        f"Next: smallcal study check {shown.command([output])}",
    )
