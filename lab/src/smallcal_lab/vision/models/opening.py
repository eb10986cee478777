"""Models of images by one string, ``KIND:NAME`` or ``KIND:NAME?option=value``, ONNX among them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smallcal.data.shown import one_line
from smallcal.errors import FileError, InputError, choose, needing
from smallcal.io.paths import file_sha256
from smallcal_lab.vision.image_set import one_line_errors
from smallcal_lab.vision.models import libraries
from smallcal_lab.vision.models.built import FORMAT, existing, finish, read_weights
from smallcal_lab.vision.models.model import (
    CODE,
    INPUT,
    InputSpec,
    Order,
    Preprocess,
    VisionModel,
    changed,
    checkpoint_of,
    processor_input,
    spec_of,
    split_source,
)

#: Where a file says what its network sees: JSON with the fields of InputSpec.
INPUT_KEY = "smallcal.input"

_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}


def open_model(
    source: str,
    *,
    checkpoint: str | Path | None = None,
    classes: int | None = None,
    options: Mapping[str, Any] | None = None,
    pretrained: bool = True,
) -> VisionModel:
    """Open an image classifier with its own preprocessing, on the CPU.

    Parameters
    ----------
    source : str
        ``KIND:NAME``, and options behind a question mark as in ``?img_size=32&patch_size=4``.
        Kinds are

        - ``timm:NAME`` or ``timm:NAME.TAG``;
        - ``hf:NAME`` or ``hf:DIR``, a classifier of the package transformers;
        - ``torchvision:NAME`` or ``torchvision:NAME.WEIGHTS``;
        - ``onnx:FILE``;
        - ``torch:package.module:factory``, a function or class that gives a ``torch.nn.Module``,
          alone or with its preprocessing; the current folder counts as installed;
        - ``checkpoint:FILE``, what ``smallcal train`` wrote; of a network that one's own code
          makes, ``checkpoint:FILE?torch=package.module:factory``.

        Options that begin with ``input.`` change the model's input: ``?input.size=64``.
    checkpoint : path, optional
        A file of weights in place of the library's own: .pt, .pth, .bin or .safetensors. It is read
        without running code, and must fit in every tensor; the number of classes is that of the
        file.
    classes : int, optional
        Columns of the logits. Where the weights have others, the last layer is new: for training.
    options : mapping, optional
        More options, as in the string; those given here take precedence.
    pretrained : bool, default True
        Whether weights are loaded; False for training from random ones.

    Examples
    --------
    >>> model = open_model("timm:resnet10t", classes=7, pretrained=False)
    >>> model, model.name, model.input.size, model.untrained
    (<VisionModel timm:resnet10t: 7 classes>, 'resnet10t', (176, 176), True)
    """
    kind, order = _order(source, options or {})
    file = Path(checkpoint) if checkpoint is not None else None
    return KINDS[kind](
        replace(order, classes=_classes(classes), pretrained=pretrained, checkpoint=file)
    )


def _order(source: str, options: Mapping[str, Any]) -> tuple[str, Order]:
    """Return the kind that a string names, and what it asks for."""
    kind, place, written = split_source(source)
    if kind not in KINDS:
        raise InputError(f"unknown kind of model {kind!r}; {choose(kind, KINDS)}")
    if not place and kind != CODE:
        raise InputError(f"the model's name is missing: write {kind}:NAME")
    asked = {**written, **options}
    seen = {name[len(INPUT) :]: one for name, one in asked.items() if name.startswith(INPUT)}
    network = {name: one for name, one in asked.items() if not name.startswith(INPUT)}
    return kind, Order(str(source), place, network, seen)


def _classes(number: object) -> int | None:
    if number is None:
        return None
    if isinstance(number, bool) or not isinstance(number, Integral) or number < 2:
        raise InputError(f"classes must be a number, 2 or more; got {number!r}")
    return int(number)


def _open_checkpoint(order: Order) -> VisionModel:
    """Open what ``smallcal train`` wrote: the file names its own network."""
    if order.checkpoint is not None:
        raise InputError(f"{order.source} is already a checkpoint; name only one file")
    file = Path(order.place).expanduser()
    about = read_weights(file).about
    source, options = about.get("source"), about.get("options")
    if about.get("format") != FORMAT or type(source) is not str or not isinstance(options, dict):
        raise FileError(
            f"{file} does not say its network, as files of smallcal train do: "
            "name the network, with this file as its checkpoint"
        )
    own = {f"{INPUT}{name}": value for name, value in order.input.items()} | order.options
    code = own.pop(CODE, None) if source.startswith(f"{CODE}:") else None
    try:
        kind, inner = _order(source, {**{str(name): one for name, one in options.items()}, **own})
        classes = order.classes or _classes(about.get("classes"))
    except InputError as error:
        raise FileError(f"{file}: {error}") from None
    if kind == CODE and code != inner.place:
        raise FileError(
            f"{file} needs the code of {one_line(source)}, and code that only a file names is "
            f"never imported; if you trust it, write {one_line(checkpoint_of(file, source))}"
        )
    model = KINDS[kind](replace(inner, classes=classes, checkpoint=file))
    if model.untrained and order.classes is None:
        raise FileError(f"{file} is damaged: its weights are not of {classes:,} classes")
    return replace(model, source=order.source)


class Session:
    """A network and how it is called; options may name its ``logits`` and ``features``."""

    def __init__(self, order: Order, file: Path) -> None:
        self.source, self.file = order.source, file
        self.names = {"logits": "", "features": ""}
        for name in order.options.keys() - self.names:
            raise InputError(f"{self.source} has no option {name!r}; {choose(name, self.names)}")
        self.names.update({name: str(value) for name, value in order.options.items()})
        self.to("cpu")
        takes, *more = self.session.get_inputs()
        self.shape, self.dtype = takes.shape, _TYPES.get(takes.type)
        if more or len(self.shape) != 4 or self.dtype is None:
            raise InputError(
                f"{self.source} must take one batch of images, not {takes.type} {self.shape}"
            )
        _, first, *sides, last = self.shape
        self.channels_last = last == 3 and first != 3
        height, width = (first, *sides) if self.channels_last else (*sides, last)
        known = isinstance(height, int) and isinstance(width, int)
        self.size = (height, width) if known else None

    def to(self, device: str) -> None:
        """Run on a device from now on."""
        with needing("onnxruntime", "onnx", "running an ONNX model"):
            import onnxruntime
        kind, _, number = str(device).partition(":")
        wanted = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}.get(kind)
        if wanted not in onnxruntime.get_available_providers():
            raise InputError(f"this onnxruntime cannot run on {device!r}")
        place = [(wanted, {"device_id": int(number or 0)})] if kind == "cuda" else [wanted]
        quiet = onnxruntime.SessionOptions()
        quiet.log_severity_level = 3
        with one_line_errors(f"{self.file} cannot be loaded", FileError):
            self.session: Any = onnxruntime.InferenceSession(self.file, quiet, providers=place)

    def run(self, batch: Any) -> dict[str, NDArray[Any]]:
        """Return all outputs for a batch (n x 3 x height x width), by name."""
        rows = np.asarray(batch.cpu() if hasattr(batch, "cpu") else batch, dtype=self.dtype)
        if self.channels_last:
            rows = np.ascontiguousarray(rows.transpose(0, 2, 3, 1))
        names = [one.name for one in self.session.get_outputs()]
        takes = self.session.get_inputs()[0].name
        step = self.shape[0] if isinstance(self.shape[0], int) else max(len(rows), 1)
        parts = []
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            # A network for a fixed number of images gets as many, and the copies are left out.
            full = np.concatenate([part, part[:1].repeat(step - len(part), axis=0)])
            said = self.session.run(names, {takes: full})
            parts.append([np.atleast_1d(one)[: len(part)] for one in said])
        joined = zip(*parts, strict=True)
        return {name: np.concatenate(one) for name, one in zip(names, joined, strict=True)}

    def __call__(self, batch: Any) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Return logits and features of a batch."""
        said = self.run(batch)
        return said[self.names["logits"]], said.get(self.names["features"])

    def look(self, spec: InputSpec) -> int:
        """Show it images; find out which output is which; return the number of classes."""
        noise = np.random.default_rng(0).normal(size=(2, 3, *spec.size))
        with one_line_errors(f"{self.source} cannot take images of {spec.size}", InputError):
            said = self.run(noise)
        flat = [name for name, one in said.items() if one.ndim == 2 and len(one) == 2]
        if "features" in flat and len(flat) > 1:
            self.names["features"] = self.names["features"] or "features"
        rest = [name for name in flat if name != self.names["features"]]
        only = rest[0] if len(rest) == 1 else ""
        self.names["logits"] = self.names["logits"] or ("logits" if "logits" in rest else only)
        for what, name in self.names.items():
            if (name or what == "logits") and name not in flat:
                shown = ", ".join(f"{one} {said[one].shape}" for one in said)
                raise InputError(
                    f"{self.source}: it is not clear which output is {what}: for two images it "
                    f"gives {shown}; write ?{what}=NAME, of one with two dimensions"
                )
        logits = said[self.names["logits"]]
        if (logits >= 0).all() and np.allclose(logits.sum(axis=1), 1, rtol=0, atol=1e-4):
            raise InputError(
                f"{self.source} gives probabilities, not logits: leave out its softmax"
            )
        return int(logits.shape[1])


def open_onnx(order: Order) -> VisionModel:
    """Open a file of ONNX with its preprocessing."""
    if order.checkpoint is not None:
        raise InputError(f"{order.source} has its weights inside; it takes no checkpoint")
    file = existing(order.place, "the network")
    session = Session(order, file)
    spec = _input(order, session)
    classes = session.look(spec)
    if order.classes not in (None, classes):
        raise InputError(f"{order.source} gives {classes:,} columns, not {order.classes:,}")
    # Large weights lie beside the file.
    beside = [file.with_name(file.name + end) for end in (".data", "_data")]
    digests = [file_sha256(one) for one in (file, *beside) if one.is_file()]
    if len(digests) > 1:
        digests = [hashlib.sha256("".join(digests).encode()).hexdigest()]
    name = order.name.removesuffix(".onnx")
    return VisionModel(order.source, name, classes, Preprocess(spec), session, digests[0], spec)


def _input(order: Order, session: Session) -> InputSpec:
    """Return what the network sees: as the file says, or one beside it, or the options."""
    said = session.session.get_modelmeta().custom_metadata_map.get(INPUT_KEY)
    beside = session.file.with_name("preprocessor_config.json")
    where = f"{order.source}, {INPUT_KEY}" if said is not None else str(beside)
    if said is not None or beside.is_file():
        with one_line_errors(f"{where} is not JSON", FileError):
            content = json.loads(beside.read_bytes() if said is None else said)
        spec = processor_input(content, where) if said is None else spec_of(content, where)
    elif {"mean", "std"} <= order.input.keys() and (session.size or "size" in order.input):
        spec = InputSpec(session.size or (1, 1))
    else:
        raise InputError(
            f"{order.source} does not say how images are prepared: write ?input.size=224"
            "&input.mean=0.485,0.456,0.406&input.std=0.229,0.224,0.225, or put its "
            f"preprocessor_config.json beside it, or {INPUT_KEY} into its metadata"
        )
    spec = changed(spec, order.input)
    if session.size not in (None, spec.size):
        raise InputError(f"{order.source} takes images of {session.size}, not of {spec.size}")
    return spec


#: What can be opened.
KINDS: dict[str, Callable[[Order], VisionModel]] = {
    "timm": partial(finish, libraries.build_timm),
    "hf": partial(finish, libraries.build_hf),
    "torchvision": partial(finish, libraries.build_torchvision),
    "onnx": open_onnx,
    "torch": partial(finish, libraries.build_factory),
    "checkpoint": _open_checkpoint,
}
