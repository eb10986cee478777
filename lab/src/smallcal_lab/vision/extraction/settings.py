"""How a model is run over images, and what its cell is called."""

from __future__ import annotations

from dataclasses import dataclass

from smallcal.data.checks import whole_number
from smallcal.errors import InputError, choose

DEVICES = ("auto", "cpu", "cuda", "mps")
PRECISIONS = ("auto", "float32", "bfloat16", "float16")


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
class CellName:
    """The name of a cell; parts left out come from the names of the images and the model.

    Attributes
    ----------
    dataset, backbone : str
    seed : int, optional
        By default the seed that a checkpoint was trained with, else 0.
    """

    dataset: str = ""
    backbone: str = ""
    seed: int | None = None
