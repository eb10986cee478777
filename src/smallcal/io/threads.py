"""Work that NumPy does outside Python's lock, on every core: threads that hand back in order.

Fits of a few hundred rows are exponentials and matrix products, during which other threads run.
Unlike processes threads load nothing again, copy nothing, and end with the one that started them.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

#: Threads are given this many tasks each, so that none waits for the next.
AHEAD = 2


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_order(
    work: Callable[[Task], Result], tasks: Iterable[Task], *, threads: int | None = None
) -> Iterator[tuple[Task, Result]]:
    """Do tasks in threads; yield each with its result, in the order of the tasks.

    Every task is done on one core, whatever the number of threads: results do not depend on it,
    bit for bit. Only a few tasks are taken ahead. An error ends the others, and so does Ctrl-C,
    as soon as those that have begun are done.

    Parameters
    ----------
    work : callable
        Does one task. Two may run at the same time, so it must not write what others read.
    tasks : iterable
        Taken one after another, in the thread that asks for results.
    threads : int, optional
        By default as many as there are cores.

    Examples
    --------
    >>> list(in_order(abs, [-2, 1, -3]))
    [(-2, 2), (1, 1), (-3, 3)]
    """
    count = cores() if threads is None else threads
    with one_core_each():
        if count == 1:
            for task in tasks:
                yield task, work(task)
            return
        pool = ThreadPoolExecutor(count)
        waiting: deque[tuple[Task, Future[Result]]] = deque()
        try:
            for task in tasks:
                # In a copy of this thread's context: NumPy keeps its error state there.
                waiting.append((task, pool.submit(copy_context().run, work, task)))
                if len(waiting) >= AHEAD * count:
                    first, future = waiting.popleft()
                    yield first, future.result()
            for task, future in waiting:
                yield task, future.result()
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def one_core_each() -> Iterator[None]:
    """Keep matrix products from starting threads of their own, where that can be asked for.

    Of a few hundred rows and columns they are no faster for it, and where other work wants the
    cores, much slower: the threads wait for one another by turning in circles. Also a decorator.
    """
    try:
        import scipy.linalg  # noqa: F401 - its library is limited only if it is there by now
        from threadpoolctl import threadpool_limits
    except ImportError:  # it comes with scikit-learn
        yield
        return
    with threadpool_limits(1):
        yield
