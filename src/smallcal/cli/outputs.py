"""What a verb writes must not be what it reads: checked for all of them, before any begins."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import nullcontext, redirect_stdout
from typing import Any

from typer.core import TyperCommand

from smallcal.cli.as_typed import as_typed
from smallcal.io.atomic import stream_of
from smallcal.io.paths import require_apart, split_path

#: Parameters of verbs that name what is read.
READ = (
    *("data", "cal_data", "test_data", "calibrator", "labels", "class_names", "shift", "apply_to"),
    *("append", "merge", "reference", "folder", "source", "run", "gate", "model", "calibration"),
    *("checkpoint", "split", "calibration_split", "recipe", "file", "root", "cost", "rates"),
)
#: Those that name what is written. The state of a monitor is read as well, and meant to be.
WRITTEN = ("output", "out", "figures", "state", "export", "report")
#: What is read, and may be written into: a description goes beside the logits that it is of, and
#: figures into the folder of the run that they show, logits beside the folders of images.
SHARED = ("source", "run", "root")
#: Verbs that may write onto what they read: a calibrator gets something more, whole or not at all.
IN_PLACE = dict.fromkeys(("certify", "adapt", "refresh"), "calibrator")

_STDOUT = 1


class Careful(TyperCommand):
    """A verb that is not called where it would write onto what it reads."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters of the verb."""
        return as_typed(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        """Call the verb; what it says goes to stderr where stdout takes what it writes."""
        gc.enable()
        written = [path for name in WRITTEN for path in _paths(ctx.params.get(name))]
        for output in written:
            for name in (name for name in READ if name != IN_PLACE.get(str(self.name))):
                for path in _paths(ctx.params.get(name)):
                    require_apart(output, split_path(path)[0], inside=name in SHARED)
        taken = any(stream_of(output) == _STDOUT for output in written)
        with redirect_stdout(sys.stderr) if taken else nullcontext():
            return super().invoke(ctx)


def _paths(value: object) -> Iterator[str]:
    """Yield the paths that a parameter was given: none, one or several."""
    for path in value if isinstance(value, list | tuple) else [value]:
        if isinstance(path, str):
            yield path
