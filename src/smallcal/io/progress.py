"""A bar for those who wait: on terminals only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from smallcal.data.shown import visible

#: Told how many steps of a long computation were done.
Advance = Callable[[int], object]


@contextmanager
def progress(title: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Show a bar on stderr while the block works; nothing when that is not a terminal.

    Without a total the bar only shows that work goes on.
    """
    if not sys.stderr.isatty():
        yield lambda steps: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(escape(visible(title)), total=total)
        yield lambda steps: bar.advance(task, steps)
