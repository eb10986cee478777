"""Processes that load images: they end with the work, and that one was killed is one line."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pickle import PicklingError
from typing import Any

from smallcal.data.shown import one_line
from smallcal.errors import InputError, SmallcalError


def loader_of(dataset: Any, asked: Sequence[Any], *, workers: int, pin: bool = False) -> Any:
    """Return torch's loader of ``dataset[one]`` for each one that is asked for, in order."""
    from torch.utils.data import DataLoader

    return DataLoader(
        dataset,
        sampler=asked,
        batch_size=None,
        num_workers=workers,
        pin_memory=pin,
        worker_init_fn=_quiet,
    )


@contextmanager
def loading(loader: Any) -> Iterator[Iterator[Any]]:
    """Give what a loader loads; its processes end with the block, whatever happens.

    A data set returns what is wrong with an image as a :class:`SmallcalError`, which is raised
    here: raised there, it would come with a page of text. Torch tells anywhere in the block that a
    process was ended.
    """
    try:
        stream = iter(loader)
    except (PicklingError, AttributeError, TypeError) as error:  # whichever pickle feels like
        raise InputError.with_options(
            "the model's preprocessing cannot be sent to processes that load images "
            f"({one_line(error)[:120]}): load them here, with --workers 0"
        ) from error
    try:
        yield _fetched(stream)
    except RuntimeError as error:
        if not of_worker(error):
            raise
        raise _gone(error) from error
    finally:
        with suppress(RuntimeError):
            getattr(stream, "_shutdown_workers", lambda: None)()


def of_worker(error: BaseException) -> bool:
    """Whether torch tells with this error that a process that loads images has gone."""
    return isinstance(error, RuntimeError) and "DataLoader worker" in str(error)


def _quiet(worker: int) -> None:
    """Let no thread of a process that loads images print a page when the work is at its end."""
    sys.excepthook = lambda *error: None
    threading.excepthook = lambda error: None


def _fetched(stream: Iterator[Any]) -> Iterator[Any]:
    """Yield batches as they come; a process that has gone in the midst of sending is one line."""
    try:
        for batch in stream:
            if isinstance(batch, SmallcalError):
                raise batch
            yield batch
    except (OSError, EOFError) as error:
        with suppress(RuntimeError):  # what torch tells of the same process, as soon as it knows
            time.sleep(0.2)
        raise _gone(error) from error


def _gone(error: BaseException) -> InputError:
    why = one_line(error).split("Error:")[-1].strip()[:200]
    return InputError.with_options(
        "a process that loads images was killed, perhaps for lack of memory "
        f"({why or type(error).__name__}): try fewer --workers, or 0; what was done is kept"
    )
