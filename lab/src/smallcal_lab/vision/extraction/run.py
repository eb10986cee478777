"""Run a model over batches of images: processes load them, one thread writes what comes out.

Which images make a batch depends on the set and the batch size alone, never on where a run was
stopped: a batch gives the same bytes whenever it is done. torch is imported when a function here is
called.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

from smallcal.data.shown import one_line
from smallcal.deploy.adapters.torch_batches import evaluating
from smallcal.errors import InputError, SmallcalError
from smallcal_lab.vision.extraction.cell_images import LogitSet
from smallcal_lab.vision.extraction.settings import ExtractionSettings
from smallcal_lab.vision.loading import loader_of, loading, of_worker
from smallcal_lab.vision.models.model import VisionModel

#: Processes that load images, where the user does not say and there are this many processors.
_MOST_WORKERS = 8
#: Below so many images it takes longer to start processes than to read them.
_FEW = 512
#: Parts that wait while one is written, at most.
_WAITING = 1

#: What is done with the outputs of a batch.
Keep = Callable[["Batch", Any, Any], None]


@dataclass(frozen=True)
class Engine:
    """Where a model runs, and in which precision.

    Attributes
    ----------
    model : VisionModel
    device : str
        Where batches must be.
    precision : {"float32", "bfloat16", "float16"}
    """

    model: VisionModel
    device: str
    precision: str

    @classmethod
    def of(cls, model: VisionModel, settings: ExtractionSettings) -> Engine:
        """Move a model to where it shall run."""
        if model.module is None and settings.precision not in ("auto", "float32"):
            raise InputError.with_options(
                f"--precision {settings.precision} cannot be set: {model.source} has its own"
            )
        import torch

        model.to(_device(settings.device))
        device = model.device
        kind = torch.device(device).type
        precision = settings.precision
        if precision == "auto":
            precision = "float32" if kind == "cpu" or model.module is None else _mixed(kind)
        return cls(model, device, precision)

    @contextmanager
    def running(self) -> Iterator[Callable[[Any], tuple[Any, Any]]]:
        """Give the function from a batch to logits and features: eval mode, no gradients."""
        import torch

        kind = torch.device(self.device).type
        with ExitStack() as stack:
            if self.model.module is not None:
                stack.enter_context(evaluating(self.model.module))
            stack.enter_context(torch.inference_mode())
            if self.precision != "float32":
                dtype = getattr(torch, self.precision)
                stack.enter_context(torch.autocast(kind, dtype=dtype))
            yield self._outputs

    def _outputs(self, pixels: Any) -> tuple[Any, Any]:
        if self.device != "cpu":
            pixels = pixels.to(self.device, non_blocking=True)
        return self.model.outputs(pixels)


def _device(wanted: str) -> str:
    import torch

    if wanted != "auto":
        return wanted
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _mixed(kind: str) -> str:
    import torch

    # Older GPUs have it by emulation, which is slow.
    short = kind == "cuda" and torch.cuda.get_device_capability()[0] >= 8
    return "bfloat16" if short else "float16"


@dataclass(frozen=True)
class Batch:
    """Rows ``start`` to ``stop`` of a set."""

    set: int
    start: int
    stop: int


@dataclass(frozen=True, eq=False)
class Batches:
    """Batches of images as tensors, by number; it is sent to the processes that load them."""

    sets: Sequence[LogitSet]
    batches: Sequence[Batch]
    preprocess: Callable[[Any], Any]

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, number: int) -> Any:
        """Return a batch; what is wrong with an image is returned, for a loader adds a page."""
        import torch

        batch = self.batches[number]
        loaded = []
        for row in range(batch.start, batch.stop):
            try:
                loaded.append(self.preprocess(self.sets[batch.set].image(row)))
                if loaded[-1].shape != loaded[0].shape:
                    shapes = [" x ".join(map(str, one.shape)) for one in (loaded[-1], loaded[0])]
                    raise InputError(
                        f"the model's preprocessing gives several shapes: {' and '.join(shapes)}"
                    )
            except SmallcalError as error:
                return self._unreadable(batch.set, row, str(error))
            except Exception as error:  # noqa: BLE001 - preprocessing is anybody's
                return self._unreadable(batch.set, row, f"{type(error).__name__}: {error}")
        return torch.stack(loaded)

    def _unreadable(self, number: int, row: int, why: str) -> InputError:
        images = self.sets[number]
        return InputError(
            f"{images.name}: row {row} ({images.images.ids[row]}): {one_line(why).rstrip('.')}; "
            "results of earlier rows are kept"
        )


def workers_for(wanted: int | None, images: int) -> int:
    """Return how many processes load images."""
    if wanted is not None:
        return wanted
    if images < _FEW:
        return 0
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(_MOST_WORKERS, there or 1)


def run(engine: Engine, batches: Batches, keep: Keep, *, workers: int) -> None:
    """Run the model over all batches; ``keep`` gets its outputs in order.

    Raises
    ------
    InputError
        If an image cannot be read, the model fails, or a process that loads images is killed.
    """
    pin = engine.device.startswith("cuda")
    loader = loader_of(batches, range(len(batches)), workers=workers, pin=pin)
    with loading(loader) as stream, engine.running() as outputs:
        for batch, pixels in zip(batches.batches, stream, strict=True):
            with _told_of_model(batches.sets[batch.set], batch):
                logits, features = outputs(pixels)
            keep(batch, logits, features)


class Writer:
    """A thread that writes what is finished, in order; a little may wait for it."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._waiting: deque[Future[None]] = deque()

    def __enter__(self) -> Writer:
        return self

    def submit(self, work: Callable[..., None], *given: Any) -> None:
        """Have something done; what went wrong with things before is raised here."""
        self._waiting.append(self._pool.submit(work, *given))
        while len(self._waiting) > _WAITING or (self._waiting and self._waiting[0].done()):
            self._waiting.popleft().result()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            while self._waiting:
                # Also after an error: what is finished shall be kept.
                with nullcontext() if error is None else suppress(Exception):
                    self._waiting.popleft().result()
        finally:
            self._pool.shutdown(cancel_futures=True)


@contextmanager
def _told_of_model(images: LogitSet, batch: Batch) -> Iterator[None]:
    """Say in one line what a model raises."""
    import torch

    try:
        yield
    except (SmallcalError, KeyboardInterrupt):
        raise
    except torch.cuda.OutOfMemoryError as error:
        raise InputError.with_options(
            f"the device has too little memory for {batch.stop - batch.start} images at once: "
            f"choose a smaller --batch-size ({one_line(error)[:120]})"
        ) from error
    except Exception as error:
        if of_worker(error):
            raise
        rows = f"rows {batch.start} to {batch.stop - 1}"
        why = f"{type(error).__name__}: {one_line(error)[:300]}"
        raise InputError(f"the model failed on {rows} of {images.name}: {why}") from error
