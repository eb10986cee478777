"""A model over batches of images: where it runs, and what is loaded for it.

Which images make a batch depends on the set and the batch size alone, never on where a run was
stopped: a batch gives the same bytes whenever it is done. torch is imported when a function here is
called.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from smallcal.data.checks import whole_number
from smallcal.data.shown import one_line
from smallcal.deploy.adapters.torch_batches import evaluating
from smallcal.errors import InputError, SmallcalError, choose
from smallcal_lab.vision.extraction.cell_images import LogitSet
from smallcal_lab.vision.loading import of_worker
from smallcal_lab.vision.models.model import VisionModel

DEVICES = ("auto", "cpu", "cuda", "mps")
PRECISIONS = ("auto", "float32", "bfloat16", "float16")

#: Processes that load images, where the user does not say and there are this many processors.
_MOST_WORKERS = 8
#: Below so many images it takes longer to start processes than to read them.
_FEW = 512


@dataclass(frozen=True)
class ExtractionSettings:
    """How a model is run over images.

    Attributes
    ----------
    batch_size : int
    workers : int, optional
        Processes that load images; 0 for none. By default as many as there are processors, up to
        eight, and none for a few images.
    device : {"auto", "cpu", "cuda", "mps"} or str
        A GPU where there is one, by default; ``cuda:1`` is the second.
    precision : {"auto", "float32", "bfloat16", "float16"}
        What torch's autocast computes in: mixed on GPUs, float32 on CPUs, by default.
    features : bool
        Whether the inputs of the last layer are kept, too.
    """

    batch_size: int = 64
    workers: int | None = None
    device: str = "auto"
    precision: str = "auto"
    features: bool = True

    def __post_init__(self) -> None:
        whole_number(self.batch_size, "batch_size", least=1)
        if self.workers is not None:
            whole_number(self.workers, "workers")
        if self.device.partition(":")[0] not in DEVICES:
            raise InputError(f"unknown device {self.device!r}; {choose(self.device, DEVICES)}")
        if self.precision not in PRECISIONS:
            offer = choose(self.precision, PRECISIONS)
            raise InputError(f"unknown precision {self.precision!r}; {offer}")


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
        import torch

        precision, device = settings.precision, settings.device
        if model.module is None and precision not in ("auto", "float32"):
            raise InputError.with_options(
                f"--precision {precision} cannot be set: {model.source} has its own"
            )
        if device == "auto":
            mps = "mps" if torch.backends.mps.is_available() else "cpu"
            device = "cuda" if torch.cuda.is_available() else mps
        model.to(device)
        kind = torch.device(model.device).type
        if precision == "auto" and (kind == "cpu" or model.module is None):
            precision = "float32"
        elif precision == "auto":
            # Older GPUs have bfloat16 by emulation, which is slow.
            short = kind == "cuda" and torch.cuda.get_device_capability()[0] >= 8
            precision = "bfloat16" if short else "float16"
        return cls(model, model.device, precision)

    @contextmanager
    def running(self) -> Iterator[Callable[[Any], tuple[Any, Any]]]:
        """Give the function from a batch to logits and features: eval mode, no gradients."""
        import torch

        with ExitStack() as stack:
            if self.model.module is not None:
                stack.enter_context(evaluating(self.model.module))
            stack.enter_context(torch.inference_mode())
            if self.precision != "float32":
                kind, dtype = torch.device(self.device).type, getattr(torch, self.precision)
                stack.enter_context(torch.autocast(kind, dtype=dtype))
            yield lambda x: self.model.outputs(x.to(self.device, non_blocking=True))


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

    def __getitem__(self, number: int) -> Any:
        """Return a batch; what is wrong with an image is returned, for a loader adds a page."""
        import torch

        batch = self.batches[number]
        images = self.sets[batch.set]
        loaded: list[Any] = []
        for row in range(batch.start, batch.stop):
            try:
                loaded.append(self.preprocess(images.image(row)))
                if loaded[-1].shape != loaded[0].shape:
                    shapes = [" x ".join(map(str, one.shape)) for one in (loaded[-1], loaded[0])]
                    raise InputError(
                        f"the model's preprocessing gives several shapes: {' and '.join(shapes)}"
                    )
            except Exception as error:  # noqa: BLE001 - preprocessing is anybody's
                own = isinstance(error, SmallcalError)
                why = one_line(error if own else f"{type(error).__name__}: {error}").rstrip(".")
                return InputError(
                    f"{images.name}: row {row} ({images.images.ids[row]}): {why}; "
                    "results of earlier rows are kept"
                )
        return torch.stack(loaded)


def workers_for(wanted: int | None, images: int) -> int:
    """Return how many processes load images."""
    if wanted is not None:
        return wanted
    if images < _FEW:
        return 0
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(_MOST_WORKERS, there or 1)


@contextmanager
def explained(images: LogitSet, batch: Batch) -> Iterator[None]:
    """Say in one line what a model raises."""
    import torch

    try:
        yield
    except SmallcalError:
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
