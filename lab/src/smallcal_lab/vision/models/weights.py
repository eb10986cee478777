"""Checkpoints: files of weights, read without running code, loaded strictly."""

from __future__ import annotations

import argparse
import hashlib
import pickle
import warnings
import zipfile
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smallcal.data.shown import one_line
from smallcal.errors import FileError, file_errors, missing_file, needing
from smallcal.io.memory import refuse_bomb
from smallcal.io.readers import refuse_zip_bomb

if TYPE_CHECKING:
    from torch import Tensor, nn

#: The checkpoints of ``smallcal train``.
FORMAT = "smallcal-checkpoint-1"

#: Where programs for training put the state dict.
_KEYS = ("model", "state_dict", "model_state_dict")

#: What several processes, a wrapper or a compiler put before every name.
_PREFIXES = ("module.", "model.", "_orig_mod.")

_SUFFIXES = (".pt", ".pth", ".bin", ".safetensors")

#: What readers raise for a file that is cut off or something else.
_DAMAGED = (RuntimeError, EOFError, ValueError, TypeError, LookupError, zipfile.BadZipFile)

#: Names that a message has room for.
_SHOWN = 3


@dataclass(frozen=True)
class Weights:
    """What a checkpoint holds.

    Attributes
    ----------
    file : Path
    state : dict
        Tensors by name, without prefixes that all names share.
    about : dict
        Whatever else the file holds.
    """

    file: Path
    state: dict[str, Tensor]
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes, where the file says."""
        names = self.about.get("class_names")
        return tuple(map(str, names)) if isinstance(names, list | tuple) else ()

    @property
    def seed(self) -> int | None:
        """The seed of the training, where the file says."""
        seed = self.about.get("seed")
        return seed if isinstance(seed, int) and not isinstance(seed, bool) else None

    def rows(self, layer: str) -> int | None:
        """Return how many outputs a layer has here; None if it is not here."""
        weight = self.state.get(f"{layer}.weight")
        return None if weight is None or weight.ndim < 2 else int(weight.shape[0])


def read_weights(path: str | Path) -> Weights:
    """Read a checkpoint: .pt, .pth, .bin or .safetensors."""
    file = Path(path).expanduser()
    if not file.is_file():
        what = "a folder" if file.is_dir() else f"not there{missing_file(file)}"
        raise FileError(f"the checkpoint {file} is {what}")
    if file.suffix not in _SUFFIXES:
        raise FileError(f"{file}: a checkpoint must end in one of {', '.join(_SUFFIXES)}")
    with file_errors(f"cannot read {file}"):
        content = _safetensors(file) if file.suffix == ".safetensors" else _torch(file)
    return _weights(file, content)


def _safetensors(file: Path) -> Any:
    with needing("safetensors", "safetensors", "reading .safetensors files"):
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    try:
        return load_file(file)
    except SafetensorError as error:
        raise FileError(f"{file} is damaged: {one_line(error)[:200]}") from None


def _torch(file: Path) -> Any:
    with needing("torch", "torch", f"reading {file.suffix} files"):
        import torch
    # timm's script for training keeps its arguments so; nothing of it runs. From torch 2.5 on.
    allow = getattr(torch.serialization, "safe_globals", lambda _: nullcontext())
    with warnings.catch_warnings(), allow([argparse.Namespace]):
        warnings.simplefilter("ignore")
        try:
            refuse_zip_bomb(file)
            # Mapped, so that what is not asked for, such as an optimiser's state, is not read.
            mapped = zipfile.is_zipfile(file)
            return torch.load(file, map_location="cpu", weights_only=True, mmap=mapped)
        except pickle.UnpicklingError as error:
            if "Unsupported" in str(error) or "GLOBAL" in str(error):
                raise FileError(
                    f"{file} holds more than tensors, and reading that could run code, which is "
                    "never done; write it with torch.save(model.state_dict(), FILE)"
                ) from None
            raise _damaged(file, error) from None
        except FileError:
            raise
        except _DAMAGED as error:
            raise _damaged(file, error) from None


def _damaged(file: Path, error: Exception) -> FileError:
    why = f"{type(error).__name__}: {one_line(error)[:120]}"
    return FileError(f"{file} is damaged or not a checkpoint ({why})")


def _weights(file: Path, content: Any) -> Weights:
    """Find the state dict in what a file holds."""
    import torch

    about: dict[str, Any] = {}
    state = content
    if isinstance(content, Mapping):
        key = next((key for key in _KEYS if isinstance(content.get(key), Mapping)), None)
        if key is not None:
            state = content[key]
            about = {str(name): value for name, value in content.items() if name != key}
    if (
        not isinstance(state, Mapping)
        or not state
        or not all(isinstance(one, torch.Tensor) for one in state.values())
    ):
        raise FileError(
            f"{file} holds no state dict: tensors by name, alone or under {', '.join(_KEYS)}"
        )
    # An expanded tensor is a huge view of a few numbers.
    size = sum(one.numel() * one.element_size() for one in state.values())
    refuse_bomb(str(file), size=size, stored=file.stat().st_size)
    cut = len(_bare(list(map(str, state)))[1])
    return Weights(file, {str(name)[cut:]: value for name, value in state.items()}, about)


def _bare(names: list[str]) -> tuple[list[str], str]:
    """Return names without the prefixes that all of them have, and these."""
    cut = ""
    while found := next((one for one in _PREFIXES if names and _all_start(names, one)), None):
        names = [name[len(found) :] for name in names]
        cut += found
    return names, cut


def _all_start(names: list[str], prefix: str) -> bool:
    return all(name.startswith(prefix) for name in names)


@dataclass(frozen=True)
class Fit:
    """How a file's tensors fit a module's.

    Attributes
    ----------
    wrong : dict
        Names that are missing, unknown or of another shape.
    left : set
        Names in layers that are to be new.
    prefix : str
        What all names of the module begin with.
    """

    wrong: dict[str, list[str]]
    left: set[str]
    prefix: str

    @property
    def good(self) -> bool:
        """Whether nothing is wrong."""
        return not any(self.wrong.values())


def compare(module: nn.Module, weights: Weights, *, new: int | None = None) -> Fit:
    """Compare names and shapes.

    Layers with ``new`` outputs may have another number of these in the file, as for other classes:
    for training.
    """
    own = module.state_dict()
    names, cut = _bare(list(own))
    mine = {name: tuple(own[cut + name].shape) for name in names}
    given = {name: tuple(value.shape) for name, value in weights.state.items()}
    differ = [name for name in mine if name in given and given[name] != mine[name]]
    left = {name for name in differ if _other_rows(mine[name], given[name], new)}
    wrong = {
        "missing": [name for name in mine if name not in given],
        "unknown": [name for name in given if name not in mine],
        "of another shape": [
            f"{name} {[*given[name]]} for {[*mine[name]]}" for name in differ if name not in left
        ],
    }
    return Fit(wrong, left, cut)


def load_into(module: nn.Module, weights: Weights, source: str, *, new: int | None = None) -> bool:
    """Load all weights, or say in one line how they differ; return whether layers stay new."""
    own = module.state_dict()
    fit = compare(module, weights, new=new)
    if not fit.good:
        counts = [
            f"{len(found):,} {what} ({', '.join(found[:_SHOWN])}{', ...' * (len(found) > _SHOWN)})"
            for what, found in fit.wrong.items()
            if found
        ]
        raise FileError(
            f"{weights.file} is of another architecture than {source}, which has {len(own):,} "
            f"tensors: {', '.join(counts)}"
        )
    kept = {
        fit.prefix + name: value for name, value in weights.state.items() if name not in fit.left
    }
    module.load_state_dict({**own, **kept})
    return bool(fit.left)


def _other_rows(mine: tuple[int, ...], given: tuple[int, ...], new: int | None) -> bool:
    """Whether tensors are alike but for their rows, of which one has ``new``."""
    return len(mine) == len(given) > 0 and mine[0] == new and mine[1:] == given[1:]


def bare_name(module: nn.Module, name: str) -> str:
    """Return a layer's name without the prefixes that all names of a module have."""
    return name.removeprefix(_bare(list(module.state_dict()))[1])


def fingerprint(module: nn.Module) -> str:
    """Return the SHA-256 of the weights: names, types, shapes and bytes, by name."""
    import torch

    digest = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        if not isinstance(value, torch.Tensor):  # what a layer keeps beside its weights
            continue
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        flat = value.detach().cpu().contiguous().reshape(-1)
        content: Any = flat.view(torch.uint8).numpy()
        digest.update(content)
    return digest.hexdigest()
