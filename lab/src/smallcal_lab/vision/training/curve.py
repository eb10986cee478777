"""A picture of a run: loss, accuracy and learning rate by epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from smallcal.plots.style import axes_or_new, caption, dress, legend, look, name_series, strip_over

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from smallcal_lab.vision.training.run_folder import Epoch


def draw_run(log: Sequence[Epoch], *, ax: Axes | None = None) -> Axes:
    """Draw the loss of each epoch, the share of errors if known, and the learning rate above.

    Examples
    --------
    >>> from smallcal_lab.vision.training.run_folder import Epoch
    >>> log = [Epoch(1, 0.1, 2.3, 0.2, 9.0, 500.0), Epoch(2, 0.05, 1.9, 0.4, 9.0, 500.0)]
    >>> draw_run(log).get_ylabel()
    'loss, or share of errors'
    """
    ax = axes_or_new(ax)
    epochs = [row.epoch for row in log]
    dress(ax, xlabel="epoch", ylabel="loss, or share of errors")
    series = {"training loss": [row.loss for row in log]}
    wrong = [np.nan if row.accuracy is None else 1 - row.accuracy for row in log]
    if np.isfinite(wrong).any():
        series["share of errors on the calibration images"] = wrong
    for number, (name, values) in enumerate(series.items()):
        style = look(number)
        ax.plot(epochs, values, **style.stroke)
        ax.plot(epochs, values, **style.mark, linestyle="none", markersize=4)
        name_series(ax, name, style)
    ax.set_ylim(bottom=0)
    ax.locator_params(axis="x", integer=True)
    legend(ax)
    strip = strip_over(ax, ylabel="rate")
    strip.plot(epochs, [row.lr for row in log], **look(2).stroke)
    strip.set_ylim(bottom=0)
    caption(strip, f"{len(log):,} epochs")
    return ax
