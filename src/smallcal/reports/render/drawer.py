"""A process that draws a report's figures while the rest of it is still being measured.

matplotlib is all Python, which threads do not make faster: a third of a report's time would come
after everything else. The process is a Python that knows nothing of its parent's, and ends when
its parent does. A figure that it does not draw, whatever the reason, is drawn here, with the same
code and so with the same result.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from smallcal.io.threads import cores
from smallcal.reports.render.blocks import Figure
from smallcal.reports.render.svg import drawn


class Drawer:
    """Figures drawn elsewhere, and here where that fails; a context manager.

    Where there is one core there is no process.

    Examples
    --------
    >>> row = {"label": "a", "value": -1.0, "low": -2.0, "high": -0.5}
    >>> row |= {"wide_low": -2.0, "wide_high": -0.5, "verdict": "better"}
    >>> data = {"rows": [row], "xlabel": "ece15 (points)"}
    >>> figure = Figure("forest", "A forest", "", "One row", "forest", data)
    >>> with Drawer() as drawer:
    ...     drawer.begin(vars(figure))
    ...     drawer.drawn(figure) == drawn(figure)
    True
    """

    def __init__(self) -> None:
        self._process = _started() if cores() > 1 else None
        # One thread hands figures over, one at a time, and waits for each.
        self._waiting = ThreadPoolExecutor(1)
        self._begun: dict[str, Future[str]] = {}

    def __enter__(self) -> Drawer:
        return self

    def __exit__(self, *error: object) -> None:
        if self._process is not None:
            self._process.kill()  # all that it was asked for is there, or not wanted any more
        self._waiting.shutdown(cancel_futures=True)
        if self._process is not None:
            self._process.communicate()

    def begin(self, figure: Mapping[str, Any]) -> None:
        """Have a figure drawn, given as the report's content has it."""
        if self._process is not None:
            order = json.dumps(figure)
            self._begun[order] = self._waiting.submit(_asked, self._process, order)

    def drawn(self, figure: Figure) -> str:
        """Return a figure as SVG for a page."""
        begun = self._begun.get(json.dumps(vars(figure)))
        return (begun.result() if begun else "") or drawn(figure)


def _started() -> subprocess.Popen[str] | None:
    """Start the process; what it says beside figures would be of no use to anybody."""
    # It finds modules where they are found here, and not in whatever folder this is.
    program = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import draw_all; draw_all()"
    pipe, quiet = subprocess.PIPE, subprocess.DEVNULL
    try:
        return subprocess.Popen(
            [sys.executable, "-c", program], stdin=pipe, stdout=pipe, stderr=quiet, encoding="utf-8"
        )
    except (OSError, TypeError):  # no Python to be found, or no more processes allowed
        return None


def _asked(process: subprocess.Popen[str], order: str) -> str:
    """Hand a figure over and return what comes back, or nothing."""
    if process.stdin is None or process.stdout is None:
        return ""
    try:
        process.stdin.write(f"{order}\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        return str(json.loads(answer)) if answer.endswith("\n") else ""
    except (OSError, ValueError):  # it is gone
        return ""


def draw_all() -> None:
    """Draw figures as they come, one on a line, until there are no more: what the process does."""
    import matplotlib.backends.backend_svg  # noqa: F401 - before the first figure comes

    gc.disable()  # a tenth of the time, for memory that is free again in a second
    for order in sys.stdin:
        sys.stdout.write(json.dumps(drawn(Figure(**json.loads(order)))) + "\n")
        sys.stdout.flush()
