"""A bar for those who wait: on terminals only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from smallcal.data.shown import visible

#: Told how many steps of a long computation were done.
Advance = Callable[[int], object]


@contextmanager
def progress(
    title: str, total: int | None = None, *, unit: str = ""
) -> Iterator[Callable[[int], None]]:
    """Show a bar on stderr while the block works; nothing when that is not a terminal.

    Without a total the bar only shows that work goes on. With a ``unit``, such as images, it shows
    how many of them were done, and how many a second.
    """
    if not sys.stderr.isatty():
        yield lambda steps: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    columns = _counting(unit) if unit else ()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(escape(visible(title)), total=total)
        yield lambda steps: bar.advance(task, steps)


def _counting(unit: str) -> tuple[Any, ...]:
    """Return the columns of a bar that counts: how many, how many a second, the time left."""
    from rich.progress import BarColumn, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Counted(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(counted(task.completed, task.total, task.speed, unit))

    return (
        TextColumn("[progress.description]{task.description}"),
        BarColumn(bar_width=None),
        Counted(),
        TimeRemainingColumn(compact=True),
    )


def counted(done: float, total: float | None, speed: float | None, unit: str) -> str:
    """Return how far a count is, and how fast.

    Examples
    --------
    >>> counted(1200, 50000, 812.4, "images"), counted(3, None, None, "images")
    ('1,200/50,000 images, 812/s', '3 images')
    """
    of = "" if total is None else f"/{total:,.0f}"
    rate = "" if not speed else f", {speed:,.0f}/s" if speed >= 10 else f", {speed:.1f}/s"
    return f"{done:,.0f}{of} {unit}{rate}"
