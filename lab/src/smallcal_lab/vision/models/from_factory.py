"""``torch:package.module:factory``: a network that the user's own code makes."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image
from torch import nn

from smallcal.data.shown import one_line
from smallcal.errors import FileError, InputError, choose
from smallcal_lab.vision.models.built import Built
from smallcal_lab.vision.models.model import InputSpec
from smallcal_lab.vision.models.source import Order, changed, spec_of


def build_factory(order: Order) -> Built:
    """Call the factory; see what it gave."""
    made = _called(order, _factory(order))
    module, how = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(module, nn.Module):
        raise InputError(
            f"{order.source} must give a torch.nn.Module, or one with its preprocessing; got "
            f"{type(made).__name__}"
        )
    if how is not None and not callable(how):
        raise InputError(
            f"{order.source}: the preprocessing that comes with the module must be callable"
        )
    return Built(module, _input(order, module, how), how)


def _input(order: Order, module: Any, how: Any) -> InputSpec:
    """Return what the module or its preprocessing says of images, or else the options."""
    for one in (module, how):
        if (said := getattr(one, "input_spec", None)) is not None:
            return spec_of(said, f"{order.source}, input_spec")
    if how is not None:
        return InputSpec(_seen_size(order, how))
    if "size" in order.input:
        return changed(InputSpec((1, 1)), order.input)
    raise InputError(
        f"{order.source} does not say its input: give the module an attribute input_spec = "
        "{'size': 224, 'mean': 0.5, 'std': 0.5}, or write ?input.size=224&input.mean=0.5&..."
    )


def _seen_size(order: Order, how: Callable[[Any], Any]) -> tuple[int, int]:
    """Return the size of what a preprocessing makes of a grey image."""
    try:
        shape = tuple(how(Image.new("RGB", (320, 256), "grey")).shape)
    except Exception as error:
        raise _raised(f"{order.source}, its preprocessing", error) from error
    if len(shape) != 3 or shape[0] != 3:
        raise InputError(
            f"{order.source}: its preprocessing must give a tensor of 3 x height x width; it "
            f"gives {shape}"
        )
    return shape[1], shape[2]


def _factory(order: Order) -> Callable[..., Any]:
    where, _, name = order.place.rpartition(":")
    if not where or not name:
        raise InputError(f"{order.source}: write torch:package.module:factory")
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        # It stays there: the factory may import more when it is called, and so may processes
        # that load images.
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(where)
    except ModuleNotFoundError as error:
        if error.name and (where == error.name or where.startswith(f"{error.name}.")):
            raise FileError(
                f"{order.source}: there is no module {error.name} in {here}, on PYTHONPATH or "
                "installed"
            ) from None
        raise _raised(f"{order.source}, importing {where}", error) from error
    except Exception as error:
        raise _raised(f"{order.source}, importing {where}", error) from error
    found = getattr(module, name, None)
    if not callable(found):
        known = [one for one in vars(module) if callable(getattr(module, one))]
        own = [one for one in known if getattr(vars(module)[one], "__module__", "") == where]
        raise InputError(f"{order.source}: {where} has no factory {name!r}; {choose(name, own)}")
    return found  # type: ignore[no-any-return]


def _called(order: Order, factory: Callable[..., Any]) -> Any:
    arguments = dict(order.options)
    if order.classes is not None and _accepts(factory, "num_classes"):
        arguments["num_classes"] = order.classes
    _require(order, factory, arguments)
    try:
        return factory(**arguments)
    except Exception as error:
        raise _raised(order.source, error) from error


def _require(order: Order, factory: Callable[..., Any], arguments: dict[str, Any]) -> None:
    """Say which option a factory does not take."""
    unknown = [name for name in arguments if not _accepts(factory, name)]
    if unknown:
        known = [*inspect.signature(factory).parameters]
        what = choose(unknown[0], known) if known else "it takes none"
        raise InputError(f"{order.source} does not take the option {unknown[0]!r}; {what}")


def _accepts(factory: Callable[..., Any], name: str) -> bool:
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):  # some callables tell nothing
        return False
    one = parameters.get(name)
    if one is not None:
        return one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    return any(other.kind is other.VAR_KEYWORD for other in parameters.values())


def _raised(what: str, error: Exception) -> InputError:
    return InputError(f"{what}: {type(error).__name__}: {one_line(error)[:300]}")
