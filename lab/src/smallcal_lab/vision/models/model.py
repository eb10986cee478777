"""A model of images: what comes in, what goes out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from PIL import Image

from smallcal.data.shown import one_line
from smallcal.deploy.adapters.torch_batches import device_of
from smallcal.errors import InputError


@dataclass(frozen=True)
class InputSpec:
    """The input that a model takes: size, normalisation and resizing.

    Attributes
    ----------
    size : tuple of int
        Height and width.
    mean, std : tuple of float
        Of each colour, on a scale from 0 to 1.
    interpolation : str
        As Pillow calls it: ``bilinear``, ``bicubic``, ...
    crop : float
        The share of the resized image's side that the crop in its centre keeps.
    squash : bool
        Whether height and width are resized separately, so that nothing is cut off at the sides
        and shapes change, as many models of transformers want it.
    """

    size: tuple[int, int]
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)
    interpolation: str = "bilinear"
    crop: float = 1.0
    squash: bool = False


@dataclass(frozen=True, eq=False)
class VisionModel:
    """A classifier of images with its own preprocessing.

    Attributes
    ----------
    source : str
        As it was named, ``timm:vit_tiny_patch16_224``.
    name : str
        Short, fit for the name of a file: ``vit_tiny_patch16_224``.
    classes : int
        Columns of the logits.
    preprocess : callable
        From one RGB image to a float32 tensor, 3 x height x width. It can be pickled, so that
        processes that load images can have it.
    outputs : callable
        From a batch (a tensor on ``device``) to logits (n x classes) and the features that the last
        layer sees (n x d, or None where that layer is not known), as tensors or arrays.
    fingerprint : str
        SHA-256 of the weights.
    input : InputSpec
    module : torch.nn.Module, or None
        From a batch to logits, to train it; None for a model that cannot be trained (ONNX).
    class_names : tuple of str
        Empty where the model does not know them.
    seed : int, or None
        Of the training, where the weights are a checkpoint of ``smallcal train``.
    untrained : bool
        Whether the last layer, or all of them, have random weights: to be trained, not to be
        asked. Models of ``torch:`` load what they load, so that nothing is known of theirs.
    """

    source: str
    name: str
    classes: int
    preprocess: Callable[[Image.Image], Any]
    outputs: Callable[[Any], tuple[Any, Any]]
    fingerprint: str
    input: InputSpec
    module: Any = None
    class_names: tuple[str, ...] = ()
    seed: int | None = None
    untrained: bool = False

    @property
    def device(self) -> str:
        """Where batches must be, as torch calls it: ``cpu``, ``cuda:0``, ..."""
        return "cpu" if self.module is None else str(device_of(self.module))

    def to(self, device: str) -> VisionModel:
        """Move the weights to a device, and return this model."""
        moved = self.outputs if self.module is None else self.module
        try:
            if hasattr(moved, "to"):
                moved.to(device)
        except (RuntimeError, AssertionError) as error:  # what torch raises without a GPU
            raise InputError(f"cannot use the device {device!r}: {one_line(error)[:200]}") from None
        return self

    def __repr__(self) -> str:
        return f"<VisionModel {self.source}: {self.classes:,} classes>"
