"""Measure data that do not fit in memory, block by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from smallcal import io
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.cli import inputs, terminal
from smallcal.data.checks import FloatArray, IntArray, as_labels
from smallcal.deploy.apply_in_parts import calibrated, uncalibrated
from smallcal.errors import InputError
from smallcal.io import Source
from smallcal.io.memory import fits
from smallcal.metrics.blocks import evaluate_blocks


def source_of(
    data: str, fitted: FittedCalibrator | None, *, input: str | None, resampled: bool
) -> Source | None:
    """Return the data as a source, or None where they are to be read at once.

    Resampling needs all probabilities at hand: such data are read at once if they fit.
    """
    found = inputs.in_pieces(data, fitted)
    if found is None:
        return None
    source = io.open_source(found[0], prefix=found[1], input=input)
    if resampled and fits(source.rows * source.n_classes * 8):
        return None
    if fitted is not None:
        inputs.require_same_input(fitted, source.input, data)
    return source


def measured(
    source: Source,
    fitted: FittedCalibrator | None,
    *,
    metrics: Sequence[str],
    labels: str | None,
    names: str | None,
) -> tuple[dict[str, float], int]:
    """Return the metrics of a source, and how many samples it has."""
    given = None if labels is None else io.read_labels(labels)
    if given is None and source.label is None:
        raise InputError(
            f"{source.path} has no labels; put a column called labels into it or name their file "
            "with --labels"
        )
    if given is not None and len(given) != source.rows:
        raise InputError(
            f"{source.path} has {source.rows} rows and {labels} {len(given)} labels; there must "
            "be one label per row"
        )
    classes = source.class_names if names is None else io.read_names(names)
    if classes is None and fitted is not None:
        classes = fitted.class_names

    def blocks() -> Iterator[tuple[IntArray, FloatArray]]:
        before = 0
        for part in source.parts():
            for block in source.blocks(part, carry=False):
                n = len(block.scores)
                found = block.labels if given is None else given[before : before + n]
                with inputs.naming(part.shown):
                    codes = as_labels(found, n=n, n_classes=source.n_classes, class_names=classes)
                if fitted is None:
                    yield codes, uncalibrated(block, source.input, part.shown)
                else:
                    yield codes, calibrated(fitted, block, part.shown)
                before += n
                advance(n)

    with terminal.progress("Evaluating", source.rows) as advance:
        return evaluate_blocks(blocks(), metrics=metrics)
