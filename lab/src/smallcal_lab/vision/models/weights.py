"""Checkpoints: files of weights, read without running code, loaded strictly."""

from __future__ import annotations

import argparse
import hashlib
import os
import pickle
import re
import warnings
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smallcal.data.shown import one_line
from smallcal.errors import FileError, SmallcalError, file_errors, missing_file, needing
from smallcal.io.memory import refuse_bomb
from smallcal.io.readers import refuse_zip_bomb

with needing("torch", "vision", "opening a model", of="smallcal-lab"):
    import torch
    from torch import Tensor, nn

# timm's script for training keeps its arguments so in a checkpoint; nothing of it runs.
torch.serialization.add_safe_globals([argparse.Namespace])

#: The checkpoints of ``smallcal train``.
FORMAT = "smallcal-checkpoint-1"

#: Where programs for training put the state dict.
_KEYS = ("model", "state_dict", "model_state_dict")

#: What several processes, a wrapper or a compiler put before every name.
_PREFIXES = re.compile(r"((module|model|_orig_mod)\.)*")

_SUFFIXES = (".pt", ".pth", ".bin", ".safetensors")


@dataclass(frozen=True)
class Weights:
    """Tensors by name, without prefixes that all names share, and what else a file says."""

    file: Path
    state: dict[str, Tensor]
    about: dict[str, Any]


def existing(path: str | Path, what: str) -> Path:
    """Return a file that is there."""
    file = Path(path).expanduser()
    if not file.is_file():
        why = "a folder" if file.is_dir() else f"not there{missing_file(file)}"
        raise FileError(f"{what} {file} is {why}")
    return file


def read_weights(path: str | Path) -> Weights:
    """Read a checkpoint: .pt, .pth, .bin or .safetensors."""
    file = existing(path, "the checkpoint")
    if file.suffix not in _SUFFIXES:
        raise FileError(f"{file}: a checkpoint must end in one of {', '.join(_SUFFIXES)}")
    try:
        with file_errors(f"cannot read {file}"):
            content = _content(file)
    except SmallcalError:
        raise
    except Exception as error:  # a file that is cut off makes torch raise whatever it likes
        if isinstance(error, pickle.UnpicklingError) and re.search(
            "Unsupported|GLOBAL", str(error)
        ):
            raise FileError(
                f"{file} holds more than tensors, and reading that could run code, which is never "
                "done; write it with torch.save(model.state_dict(), FILE)"
            ) from error
        why = f"{type(error).__name__}: {one_line(error)[:120]}"
        raise FileError(f"{file} is damaged or not a checkpoint ({why})") from error
    about = dict(content) if isinstance(content, Mapping) else {}
    state = next((about.pop(key) for key in _KEYS if isinstance(about.get(key), Mapping)), None)
    if state is None:
        state, about = about, {}
    if not state or not all(isinstance(one, torch.Tensor) for one in state.values()):
        raise FileError(
            f"{file} holds no state dict: tensors by name, alone or under {', '.join(_KEYS)}"
        )
    # An expanded tensor is a huge view of a few numbers.
    size = sum(one.numel() * one.element_size() for one in state.values())
    refuse_bomb(str(file), size=size, stored=file.stat().st_size)
    cut = len(_prefix(map(str, state)))
    return Weights(file, {str(name)[cut:]: value for name, value in state.items()}, about)


def _content(file: Path) -> Any:
    if file.suffix == ".safetensors":
        with needing("safetensors", "safetensors", "reading .safetensors files"):
            from safetensors.torch import load_file
        return load_file(file)
    refuse_zip_bomb(file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Mapped, so that what is not asked for, such as an optimiser's state, is not read.
        mapped = zipfile.is_zipfile(file)
        return torch.load(file, map_location="cpu", weights_only=True, mmap=mapped)


def _prefix(names: Iterable[str]) -> str:
    """Return the prefixes that all of the names have."""
    found = _PREFIXES.match(os.path.commonprefix(list(names)))  # noqa: RUF071 - letters are meant
    return found[0] if found else ""


def outputs_in(weights: Weights, module: nn.Module, layer: str) -> int | None:
    """Return how many outputs a module's layer has in a file; None if it is not there."""
    bare = layer.removeprefix(_prefix(module.state_dict()))
    weight = weights.state.get(f"{bare}.weight")
    return None if weight is None or weight.ndim < 2 else int(weight.shape[0])


def load_into(
    module: nn.Module,
    weights: Weights,
    source: str,
    *,
    new: int | None = None,
    translate: Callable[[dict[str, Tensor]], dict[str, Tensor]] | None = None,
) -> bool:
    """Load all weights, or say in one line how they differ; return whether layers stay new.

    Layers with ``new`` outputs may have another number of these in the file, as for other classes:
    for training. What does not fit is tried again after ``translate``.
    """
    own = module.state_dict()
    wrong, fits = _compared(own, weights.state, new)
    if wrong and translate:
        wrong, fits = _compared(own, translate(weights.state), new)
    if wrong:
        raise FileError(
            f"{weights.file} is of another architecture than {source}, which has {len(own):,} "
            f"tensors: {wrong}"
        )
    module.load_state_dict({**own, **fits})
    return len(fits) < len(own)


def _compared(
    own: Mapping[str, Tensor], state: Mapping[str, Tensor], new: int | None
) -> tuple[str, dict[str, Tensor]]:
    """Return what is wrong with a file's tensors, in words, and those that fit, by own names."""
    cut = _prefix(own)
    mine = {name.removeprefix(cut): tuple(value.shape) for name, value in own.items()}
    given = {name: tuple(value.shape) for name, value in state.items()}
    differ = [name for name in mine if name in given and given[name] != mine[name]]
    left = {
        name
        for name in differ
        if mine[name][:1] == (new,) and given[name][:1] and mine[name][1:] == given[name][1:]
    }
    wrong = {
        "missing": [name for name in mine if name not in given],
        "unknown": [name for name in given if name not in mine],
        "of another shape": [
            f"{name} {[*given[name]]} for {[*mine[name]]}" for name in differ if name not in left
        ],
    }
    counts = [
        f"{len(found):,} {what} ({', '.join(found[:3])}{', ...' * (len(found) > 3)})"
        for what, found in wrong.items()
        if found
    ]
    return ", ".join(counts), {cut + name: state[name] for name in state if name not in left}


def fingerprint(module: nn.Module) -> str:
    """Return the SHA-256 of the weights: names, types, shapes and bytes, by name."""
    digest = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        if isinstance(value, torch.Tensor):  # a layer may keep more beside its weights
            digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
            content: Any = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
            digest.update(content)
    return digest.hexdigest()
