"""Work on several cores at once, in threads: NumPy's long loops leave Python to the others."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TypeVar

from threadpoolctl import ThreadpoolController

In = TypeVar("In")
Out = TypeVar("Out")


def in_threads(work: Callable[[In], Out], items: Iterable[In]) -> Iterator[Out]:
    """Yield what becomes of each item, in order, on as many cores as there are.

    An item's result is the same on any number of cores. Few items wait: they may be large.

    Examples
    --------
    >>> list(in_threads(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    cores = _cores()
    waiting: deque[Future[Out]] = deque()
    # Matrix products with threads of their own would have them wait for one another.
    with _libraries().limit(limits=1, user_api="blas"), ThreadPoolExecutor(cores) as pool:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > cores:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


def _cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
