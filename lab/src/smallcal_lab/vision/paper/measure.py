"""How long a model takes for an image: one step of training and one batch, tried out."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smallcal.data.shown import one_line
from smallcal.errors import SmallcalError, needing
from smallcal_lab.vision.models.opening import open_model

if TYPE_CHECKING:
    from torch import nn

#: Images of a step that is tried: as many as in a batch, or as a processor does in seconds.
_MOST, _LEAST = 64, 2
#: Seconds that a step may take on a processor.
_PATIENCE = 2.0
#: A step of training is a pass forward and one backward, which is twice as long.
STEP = 3
#: Times a step is tried, where it is not slow; the fastest counts.
_TIMES = 3


@dataclass(frozen=True)
class Speed:
    """What one image costs.

    Attributes
    ----------
    train, apply : float
        Seconds for one image of a step of training, and of a batch whose logits are taken; 0 where
        nothing was measured.
    flops : float
        Floating-point operations of one image forward, a multiplication and an addition being two;
        products of matrices and convolutions alone.
    device : str
        What it was measured on.
    reason : str
        Why nothing was.
    """

    train: float = 0.0
    apply: float = 0.0
    flops: float = 0.0
    device: str = ""
    reason: str = ""


def device_here() -> tuple[str, str]:
    """Return the device that a model would run on here, and its name.

    Examples
    --------
    >>> device_here()[0] in ("cpu", "cuda")
    True
    """
    import torch

    if torch.cuda.is_available():
        return "cuda", str(torch.cuda.get_device_name())
    threads = torch.get_num_threads()
    return "cpu", f"CPU, {threads} thread{'s' * (threads != 1)}"


def measure(source: str, *, options: dict[str, Any] | None = None, precision: str = "") -> Speed:
    """Build a model with random weights and try one step of training and one batch.

    Parameters
    ----------
    source : str
        As ``open_model`` takes it; its weights are not needed.
    options : dict, optional
        Keywords of whatever makes the model.
    precision : {"", "bfloat16", "float16"}
        Of products of matrices, on a GPU.

    Returns
    -------
    Speed
        With a reason where the model cannot be built.

    Examples
    --------
    >>> speed = measure("timm:test_vit.r160_in1k")
    >>> speed.reason, 0 < speed.apply < speed.train, speed.flops > 1e6
    ('', True, True)
    >>> measure("timm:no_such_model").reason != ""
    True
    """
    try:
        with needing("torch", "vision", "measuring a model", of="smallcal-lab"):
            import torch
        device, name = device_here()
        # Of as many classes as it likes: the last layer is the smallest part of it all.
        model = open_model(source, options=options, pretrained=False)
        if model.module is None:
            return Speed(reason="it cannot be trained or timed here")
        module = model.module.to(device)
        flops = _flops(module, model.input.size)
        batch = torch.randn(_MOST, 3, *model.input.size, device=device)
        cast = _casting(device, precision)
        mixed = _casting(device, "bfloat16")  # as logits are taken on a GPU
        n = _LEAST
        first = _timed(lambda: _apply(module, batch[:n], mixed), device) / n
        if device != "cpu" or first * STEP * _MOST < _PATIENCE:
            n = _MOST
        else:
            n = max(_LEAST, int(_PATIENCE / (first * STEP)))
        apply = _timed(lambda: _apply(module, batch[:n], mixed), device) / n
        train = _timed(_step_of(module, batch[:n], cast), device) / n
    except (SmallcalError, ImportError) as error:
        return Speed(reason=one_line(error))
    except RuntimeError as error:  # out of memory, most of all
        return Speed(reason=f"{type(error).__name__}: {one_line(error)[:120]}")
    return Speed(train=train, apply=apply, flops=flops, device=name)


def _casting(device: str, precision: str) -> Callable[[], Any]:
    import torch

    if device != "cuda" or precision not in ("bfloat16", "float16"):
        return nullcontext
    return lambda: torch.autocast(device, dtype=getattr(torch, precision))


def _apply(module: nn.Module, batch: Any, cast: Callable[[], Any]) -> None:
    import torch

    module.eval()
    with torch.inference_mode(), cast():
        module(batch)


def _step_of(module: nn.Module, batch: Any, cast: Callable[[], Any]) -> Callable[[], None]:
    import torch

    labels = torch.zeros(len(batch), dtype=torch.long, device=batch.device)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-6)

    def step() -> None:
        module.train()
        with cast():
            loss = torch.nn.functional.cross_entropy(module(batch), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()

    return step


def _timed(work: Callable[[], None], device: str) -> float:
    """Return seconds, the fewest of some trials; what is slow is tried once."""
    import torch

    taken: list[float] = []
    while not taken or (len(taken) <= _TIMES and sum(taken) < _PATIENCE):
        start = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        taken.append(time.perf_counter() - start)
    return min(taken)


def _flops(module: nn.Module, size: tuple[int, int]) -> float:
    """Count; it also is the first call, which sets things up."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    image = torch.randn(1, 3, *size, device=next(module.parameters()).device)
    counter = FlopCounterMode(display=False)
    module.eval()
    with torch.no_grad(), counter:
        module(image)
    return float(counter.get_total_flops())
