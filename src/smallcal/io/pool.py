"""Where tasks run: here, in processes, or on a Dask cluster.

A task is anything that can be pickled, and ``work`` a function of a module that does one. What a
killed process or a lost worker had begun is begun again, so ``work`` must be such that doing a
task twice does no harm.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from smallcal.errors import InputError, SmallcalError, missing_extra

Task = TypeVar("Task")
Result = TypeVar("Result")

#: Processes are given this many tasks each, so that none waits for the next.
AHEAD = 2
#: How often a cluster tries a task again whose worker could not do it, such as one without the
#: folder of the data. What a lost worker had begun does not count.
RETRIES = 2
#: How long a scheduler may take to answer.
PATIENCE = "20s"


def said(error: BaseException) -> str:
    """Return an error in one line.

    Examples
    --------
    >>> said(OSError("no such   thing"))
    'OSError: no such thing'
    """
    return " ".join(f"{type(error).__name__}: {error}".split())


def stopped(reason: str) -> SmallcalError:
    """Build the one-line error of a run that could not be completed now."""
    return SmallcalError(f"{reason}; what is finished is kept, the same command goes on from there")


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread: sums split over threads round differently."""
    import sklearn.linear_model  # noqa: F401 - only libraries that are loaded can be limited
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        yield


def in_processes(
    work: Callable[[Task], Result], todo: Sequence[Task], jobs: int
) -> Iterator[tuple[Task, Result]]:
    """Do tasks in processes of their own.

    If the system kills one, all are started again, as long as that finishes any task.
    """
    queue = deque(todo)
    while queue:
        before = len(queue)
        try:
            yield from _pooled(work, queue, jobs)
        except BrokenProcessPool:
            if len(queue) == before:
                raise stopped(
                    "a process ended before it had finished a task (killed, perhaps for want of "
                    "memory: try fewer jobs)"
                ) from None


def _pooled(
    work: Callable[[Task], Result], queue: deque[Task], jobs: int
) -> Iterator[tuple[Task, Result]]:
    """Work on a queue with one pool; what was not finished is in the queue again at the end."""
    # Spawned, not forked: a forked child of a process with threads may hang.
    context = get_context("spawn")
    leash, grip = context.Pipe(duplex=False)
    running: dict[Future[Result], Task] = {}
    with (
        leash,
        grip,
        ProcessPoolExecutor(
            min(jobs, len(queue)), mp_context=context, initializer=_begin, initargs=(leash,)
        ) as pool,
    ):
        try:
            while queue or running:
                while queue and len(running) < AHEAD * jobs:
                    with _birth():
                        running[pool.submit(work, queue[0])] = queue[0]
                    queue.popleft()
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    result = done.result()
                    yield running.pop(done), result
        except BaseException:
            queue.extend(running.values())
            grip.close()
            raise


def _begin(leash: Connection) -> None:
    """Prepare a process: Ctrl-C is its parent's business, and it ends when its parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_when_cut, args=(leash,), daemon=True).start()


def _leave_when_cut(leash: Connection) -> None:
    # Nothing is ever sent: the read ends when the parent closes its end, or is killed.
    with suppress(EOFError, OSError):
        leash.recv_bytes()
    os._exit(1)


@contextmanager
def _birth() -> Iterator[None]:
    """Start processes that have pools of one thread, and that Ctrl-C does not reach as they load.

    What is not ignored yet is blocked: processes inherit that, and it holds from their first step.
    """
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    blocked = _block_interrupts()
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if blocked is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _block_interrupts() -> Any:
    """Put Ctrl-C off, and return what was put off before; None where signals cannot be."""
    if not hasattr(signal, "pthread_sigmask"):
        return None
    return signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def on_dask(
    work: Callable[[Task], Result],
    todo: Sequence[Task],
    address: str,
    *,
    named: Callable[[Task], str] = str,
) -> Iterator[tuple[Task, Result]]:
    """Do tasks on a cluster; what a lost worker had begun is begun again on another."""
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise missing_extra("distributed", "dask", "running on a Dask cluster") from None
    with _without_chatter(), _client(distributed, address) as client:
        # Not pure: the cluster must not give the results of an earlier run, of other files.
        futures = {client.submit(work, task, retries=RETRIES, pure=False): task for task in todo}
        for future in distributed.as_completed(list(futures), loop=client.loop):
            task = futures.pop(future)
            yield task, _result(distributed, future, named(task))


def _client(distributed: Any, address: str) -> Any:
    try:
        return distributed.Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, distributed.TimeoutError) as error:
        raise InputError(f"no Dask scheduler answers at {address} ({said(error)})") from None


@contextmanager
def _without_chatter() -> Iterator[None]:
    """Keep Dask from logging tracebacks of what is handled here and said in one line."""
    logger = logging.getLogger("distributed")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _result(distributed: Any, future: Any, name: str) -> Any:
    """Return what a cluster found, or say in one line why it did not."""
    try:
        return future.result()
    except SmallcalError:
        raise
    except distributed.CancelledError:
        raise stopped("the Dask scheduler went away") from None
    except Exception as error:
        raise stopped(f"the Dask cluster could not do {name} ({said(error)})") from error
