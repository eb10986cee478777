"""One process or several: which one this is, on which device, and what they tell each other.

``torchrun`` starts a process for each device and says so in the environment.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smallcal.data.shown import one_line
from smallcal.errors import InputError

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn


@dataclass(frozen=True)
class Place:
    """Which process this is: its number of how many, and its number on this machine."""

    rank: int = 0
    world: int = 1
    local: int = 0

    @property
    def first(self) -> bool:
        """Whether this process writes and speaks."""
        return self.rank == 0


def place_of(environment: Mapping[str, str] = os.environ) -> Place:
    """Return which process this is, by the variables that ``torchrun`` sets.

    Examples
    --------
    >>> place_of({"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"})
    Place(rank=1, world=2, local=1)
    """
    said = {name: environment.get(name, "") for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    if not all(said.values()):
        return Place()
    digits = all(text.isdigit() for text in said.values())
    if not digits or int(said["RANK"]) >= int(said["WORLD_SIZE"]):
        words = ", ".join(f"{name}={text}" for name, text in said.items())
        raise InputError(f"the environment has {words}, which torchrun would never set")
    return Place(*map(int, said.values()))


def device_named(name: str, place: Place) -> torch.device:
    """Return a device that is there."""
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f"unknown device {name!r}; write auto, cpu, cuda, cuda:1 or mps") from None
    if name == "cuda" and place.world > 1:
        device = torch.device("cuda", place.local)
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        why = one_line(error)[:120]
        raise InputError(f"the device {str(device)!r} is not available: {why}") from None
    return device


@contextmanager
def together(place: Place, device: torch.device) -> Iterator[None]:
    """Join the processes while the block works, unless they are joined already."""
    import torch
    from torch import distributed

    if place.world == 1 or distributed.is_initialized():
        yield
        return
    gpu = device.type == "cuda"
    if gpu:
        torch.cuda.set_device(device)
    try:
        distributed.init_process_group("nccl" if gpu else "gloo")
    except (RuntimeError, ValueError) as error:
        raise InputError(f"cannot connect the processes: {one_line(error)[:200]}") from None
    try:
        yield
    finally:
        distributed.destroy_process_group()


def shared(value: Any, place: Place) -> Any:
    """Return what the first process has; all wait for it."""
    held = [value]
    if place.world > 1:
        from torch import distributed

        distributed.broadcast_object_list(held, src=0)
    return held[0]


def summed(numbers: Tensor, place: Place) -> Tensor:
    """Return the sum over processes."""
    if place.world > 1:
        from torch import distributed

        distributed.all_reduce(numbers)
    return numbers


def even_out(module: nn.Module, place: Place) -> None:
    """Give every process what the first has beside its weights, such as running means."""
    if place.world > 1:
        from torch import distributed

        for buffer in module.buffers():
            distributed.broadcast(buffer, src=0)


def parallel(module: nn.Module, place: Place, device: torch.device, *, sync: bool) -> Any:
    """Return the module that averages gradients over processes, itself if there is one process."""
    if place.world == 1:
        return module
    from torch import nn

    gpu = device.type == "cuda"
    norms: Any = nn.SyncBatchNorm
    chosen = norms.convert_sync_batchnorm(module) if sync and gpu else module
    return nn.parallel.DistributedDataParallel(chosen, device_ids=[device.index] if gpu else None)
