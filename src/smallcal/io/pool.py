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
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing import Pipe, active_children
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from smallcal._version import __version__
from smallcal.errors import InputError, SmallcalError, needing

Task = TypeVar("Task")
Result = TypeVar("Result")

#: Processes are given this many tasks each, so that none waits for the next.
AHEAD = 2
#: After so many seconds in which nothing was finished, see whether any process is left.
GLANCE = 5.0
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
    return SmallcalError(f"{reason}; what is finished is kept; run the same command to resume")


def run_tasks(
    work: Callable[[Task], Result],
    todo: Sequence[Task],
    *,
    keep: Callable[[Task, Result], object] = lambda task, result: None,
    told: Callable[[Task], object] = lambda task: None,
    named: Callable[[Task], str] = str,
    jobs: int = 1,
    dask: str | None = None,
) -> None:
    """Do tasks, and keep what they give.

    Parameters
    ----------
    work : callable
        Does one task.
    todo : sequence
        Tasks.
    keep : callable, optional
        Writes a task's result down: in the process that did it, or here when a cluster did, which
        may not see the same folders.
    told : callable, optional
        Told each task that is done, here.
    named : callable, optional
        What to call a task in an error.
    jobs : int
        Processes.
    dask : str, optional
        Address of a Dask scheduler to run on instead.

    Examples
    --------
    >>> run_tasks(abs, [-1, 2], keep=lambda task, result: print(f"|{task}| = {result}"))
    |-1| = 1
    |2| = 2
    """
    if not todo:
        return
    if dask is not None:
        for task, result in _on_dask(work, todo, dask, named):
            keep(task, result)
            told(task)
    elif jobs == 1 or len(todo) == 1:
        for task in todo:
            keep(task, work(task))
            told(task)
    else:
        _in_processes((work, keep, todo), jobs, lambda number: told(todo[number]))


def _in_processes(order: tuple[Any, ...], jobs: int, told: Callable[[int], object]) -> None:
    """Do tasks in processes of their own.

    If the system kills one, all are started again, as long as that finishes any task. Nothing but
    the number of a task goes to a process and nothing comes back. A kill cannot cut so short a
    message in two, and whoever waits for the second half of one waits for ever.
    """
    queue = deque(range(len(order[-1])))
    while queue:
        before = len(queue)
        try:
            _with_one_pool(order, queue, jobs, told)
        except BrokenProcessPool:
            if len(queue) == before:
                raise stopped(
                    "a process ended before it had finished a task (killed, perhaps out of "
                    "memory: try fewer jobs)"
                ) from None


def _with_one_pool(
    order: tuple[Any, ...], queue: deque[int], jobs: int, told: Callable[[int], object]
) -> None:
    """Work on a queue; what was not finished is in the queue again at the end."""
    from joblib.externals import loky

    leash, grip = Pipe(duplex=False)
    running: dict[Future[None], int] = {}
    with leash, grip, warnings.catch_warnings():
        # Not told of what loky does about processes that grew, or are hard to kill.
        warnings.filterwarnings("ignore", module=r"joblib\.externals\.loky")
        pool = loky.ProcessPoolExecutor(
            min(jobs, len(queue)), initializer=_begin, initargs=(leash, *order), env=_environment()
        )
        others = set(active_children())
        try:
            while queue or running:
                while queue and len(running) < AHEAD * jobs:
                    running[_submitted(pool, queue[0])] = queue[0]
                    queue.popleft()
                for done in _finished(running, others):
                    done.result()
                    told(running.pop(done))
        finally:
            queue.extend(running.values())
            # Not asked to leave, but killed: those that wait for one that was killed never leave.
            pool.shutdown(kill_workers=True)


def _submitted(pool: Any, number: int) -> Future[None]:
    """Give a pool a task; it starts its processes with the first."""
    with _interrupts_put_off():
        try:
            submitted: Future[None] = pool.submit(_do, number)
        except OSError as error:  # one was killed before it had read what to do
            raise BrokenProcessPool(said(error)) from error
    return submitted


def _finished(running: dict[Future[None], int], others: set[Any]) -> list[Future[None]]:
    """Wait until a task is finished, or nobody is left to finish one; failures come last."""
    while not (done := wait(running, GLANCE, return_when=FIRST_COMPLETED).done):
        if not set(active_children()) - others:
            raise BrokenProcessPool("no worker process is left")
    return sorted(done, key=lambda future: future.exception() is not None)


#: What a process of a pool was told to do: work, keep and all tasks.
_ORDER: list[Any] = []


def _begin(leash: Connection, *order: Any) -> None:
    """Prepare a process: Ctrl-C is its parent's business, and it ends when its parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_when_cut, args=(leash,), daemon=True).start()
    _ORDER[:] = order


def _leave_when_cut(leash: Connection) -> None:
    # Nothing is ever sent: the read ends when the parent closes its end, or is killed.
    with suppress(EOFError, OSError):
        leash.recv_bytes()
    os._exit(1)


def _do(number: int) -> None:
    work, keep, todo = _ORDER
    keep(todo[number], work(todo[number]))


def _environment() -> dict[str, str]:
    """Return what is different for processes: one thread each, and no traceback when one dies."""
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    faults = "PYTHONFAULTHANDLER"
    return {**dict.fromkeys(threads, "1"), faults: os.environ.get(faults, "")}


@contextmanager
def _interrupts_put_off() -> Iterator[None]:
    """Start processes that Ctrl-C does not reach as they load: they inherit what is put off."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing.resource_tracker import ensure_running

    ensure_running()  # the first time, it would let interrupts in again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _on_dask(
    work: Callable[[Task], Result], todo: Sequence[Task], address: str, named: Callable[[Task], str]
) -> Iterator[tuple[Task, Result]]:
    """Do tasks on a cluster; what a lost worker had begun is begun again on another."""
    with needing("distributed", "dask", "running on a Dask cluster"):
        distributed: Any = import_module("distributed")
    with _without_chatter(), _client(distributed, address) as client:
        # Not pure: the cluster must not give the results of an earlier run, of other files.
        futures = {
            client.submit(_away, __version__, work, task, retries=RETRIES, pure=False): task
            for task in todo
        }
        for future in distributed.as_completed(list(futures), loop=client.loop):
            task = futures.pop(future)
            yield task, _result(distributed, future, named(task))


def _away(version: str, work: Callable[[Task], Result], task: Task) -> Result:
    """Do a task on another machine, with the same smallcal."""
    if version != __version__:
        raise InputError(
            f"the run uses smallcal {version}, but a worker has {__version__}; install the same "
            "version everywhere",
            code="workers-unusable",
        )
    return work(task)


def _client(distributed: Any, address: str) -> Any:
    try:
        return distributed.Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, distributed.TimeoutError) as error:
        raise InputError(
            f"no Dask scheduler answers at {address} ({said(error)})", code="workers-unusable"
        ) from None


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
        raise stopped("the connection to the Dask scheduler was lost") from None
    except Exception as error:
        raise stopped(f"the Dask cluster could not run {name} ({said(error)})") from error
