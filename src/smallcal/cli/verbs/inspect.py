"""``smallcal inspect``: what a saved calibrator does, in words."""

from __future__ import annotations

from smallcal import runtime
from smallcal.calibrators.summary import summary
from smallcal.cli import options, terminal
from smallcal.cli.describe import describe


def inspect(calibrator: options.Calibrator, as_json: options.Json = False) -> None:
    """Describe a saved calibrator in words."""
    fitted = runtime.load(calibrator)
    if as_json:
        terminal.show_json({"file": calibrator, **summary(fitted)})
    else:
        describe(fitted)
