"""Models of timm, torchvision and transformers, and those that the user's own code makes.

What is missing, a library or weights, is one line that says what to do.
"""

from __future__ import annotations

import importlib
import inspect
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from PIL import Image

from smallcal.data.shown import one_line
from smallcal.errors import (
    FileError,
    InputError,
    MissingExtraError,
    choose,
    did_you_mean,
    missing_file,
    needing,
)
from smallcal_lab.vision.image_set import one_line_errors
from smallcal_lab.vision.models.built import Built, Logits, last_of_size
from smallcal_lab.vision.models.model import (
    BY_HAND,
    InputSpec,
    Order,
    changed,
    processor_input,
    spec_of,
)

with needing("torch", "vision", "opening a model", of="smallcal-lab"):
    import torch
    from torch import Tensor, nn

#: Seconds after which a server that says nothing counts as not there.
PATIENCE = 8
#: Seconds without a byte after which a download has failed.
STALLED = 60

#: What to do with a model whose last layer is yet to be trained.
_TRAIN_IT = {
    "python": "pass classes=... to train it",
    "shell": "train it first, with smallcal train",
}

#: An image that preprocessing is shown, to see what size it makes.
_GREY = Image.new("RGB", (320, 256), "grey")


def library(name: str, source: str) -> Any:
    """Import the library of a kind of models, or say what to install."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = (error.name or name).partition(".")[0]
        how = "'smallcal-lab[vision]'" if package == "timm" else package
        raise MissingExtraError(
            f"opening {source} needs the package '{package}': pip install {how}"
        ) from None
    except (RuntimeError, OSError) as error:  # builds of torch and torchvision that do not match
        raise MissingExtraError(
            f"{name} cannot be imported ({one_line(error)[:150]}): torch needs builds that match"
        ) from None


def reach(url: str) -> str:
    """Return why a server cannot be reached, or nothing.

    The hub's own client tries six times and waits up to a minute each; this asks once.
    """
    request = urllib.request.Request(url, method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE):
            return ""
    except urllib.error.HTTPError:
        return ""  # it answered
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        return f"{urlsplit(url).hostname} cannot be reached ({one_line(reason)[:80]})"


def _from_hub(source: str, repository: str, *files: Sequence[str], instead: str = "") -> bool:
    """Return whether the hub is to be asked, for the cache lacks one of each; it must answer."""
    import huggingface_hub as hub

    def cached(name: str) -> bool:
        return isinstance(hub.try_to_load_from_cache(repository, name), str)

    lacking = [names for names in files if not any(map(cached, names))]
    if lacking:
        what, offline = f"{repository}/{lacking[0][0]}", hub.constants.HF_HUB_OFFLINE
        why = "HF_HUB_OFFLINE is set" if offline else reach(hub.constants.ENDPOINT)
        _require(source, what, hub.constants.HF_HUB_CACHE, why, instead)
    return bool(lacking)


def _require_address(source: str, url: str) -> None:
    """Raise unless a file is in the cache of torch, or the server that has it answers."""
    folder = Path(torch.hub.get_dir()) / "checkpoints"
    file = folder / urlsplit(url).path.rpartition("/")[2]
    if not file.exists():
        _require(source, file.name, folder, reach(url))


def _require(source: str, what: str, folder: object, why: str, instead: str = "") -> None:
    """Raise if there is a reason why what the cache lacks cannot be fetched."""
    if why:
        raise FileError(
            f"{source}: {what} is not in the cache {folder}, and {why}: fetch it there on a "
            "machine with network and copy that folder, or ",
            python=instead or BY_HAND[0],
            shell=instead or BY_HAND[1],
        )


@contextmanager
def _loading(source: str) -> Iterator[None]:
    """Say in one line what a library objects to; no download waits for ever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(STALLED)
    try:
        with one_line_errors(f"{source} cannot be loaded"):
            yield
    finally:
        socket.setdefaulttimeout(before)


def build_timm(order: Order) -> Built:
    """Create a model of timm, ``timm:NAME[.TAG]``, with its own preprocessing."""
    timm = library("timm", order.source)
    trained_on = _known_to_timm(timm, order)
    options = dict(order.options)
    if order.classes is not None:
        options["num_classes"] = order.classes
    with _loading(order.source):
        module = timm.create_model(order.place, pretrained=order.pretrained, **options)
        asked = {"img_size": options["img_size"]} if "img_size" in options else {}
        config = timm.data.resolve_data_config(asked, model=module)
        transform = timm.data.create_transform(**config, is_training=False)
    if not getattr(module, "num_classes", 1):
        what = f"{order.source} has no classes of its own, only features: "
        raise InputError(what, **_TRAIN_IT)
    size, mean, std = (tuple(config[name]) for name in ("input_size", "mean", "std"))
    squash = config.get("crop_mode") == "squash"
    spec = InputSpec(size[1:], mean, std, config["interpolation"], config["crop_pct"], squash)
    new = not order.pretrained or order.classes not in (None, trained_on)
    return Built(module, spec, transform, untrained=new, translate=partial(_adapted, module))


def _known_to_timm(timm: Any, order: Order) -> int | None:
    """Return how many classes the weights are for; refuse a name or weights that are not there."""
    home, _, repository = order.place.partition(":")
    if repository and home in ("hf-hub", "hf_hub", "local-dir"):
        if order.pretrained and home != "local-dir":
            _from_hub(order.source, repository, ("config.json",), _WEIGHTS)
        return None
    name, _, tag = order.place.partition(".")
    if not timm.is_model(name):
        what = did_you_mean(name, timm.list_models()) or "see timm.list_models()"
        raise InputError(f"timm has no model {name!r}; {what}")
    tags = [one.partition(".")[2] for one in timm.list_pretrained(f"{name}.*")]
    if tag and tag not in tags:
        raise InputError(f"timm's {name} has no weights {tag!r}; {choose(tag, tags)}")
    config = timm.get_pretrained_cfg(order.place, allow_unregistered=False)
    if order.pretrained and (config is None or not config.has_weights):
        raise InputError(
            f"timm has no weights for {order.place}: ",
            python="pass pretrained=False, or a checkpoint",
            shell="give some by --checkpoint FILE",
        )
    if order.pretrained and config.hf_hub_id:
        named = config.hf_hub_filename
        _from_hub(order.source, config.hf_hub_id, (named,) if named else _WEIGHTS)
    elif order.pretrained:
        _require_address(order.source, config.url)
    return getattr(config, "num_classes", None)


def _adapted(module: Any, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors as timm adapts them: older names, other sizes of images."""
    adapt = getattr(sys.modules[type(module).__module__], "checkpoint_filter_fn", None)
    try:
        return state if adapt is None else dict(adapt(dict(state), module))
    except (RuntimeError, ValueError, TypeError, LookupError, AttributeError):
        return state  # of another architecture: what differs is said of the file itself


def build_torchvision(order: Order) -> Built:
    """Create a model of torchvision, ``torchvision:NAME[.WEIGHTS]``, with its transforms."""
    models = library("torchvision", order.source).models
    name, _, which = order.place.partition(".")
    known = models.list_models(module=models)
    if name not in known:
        what = did_you_mean(name, known) or "see torchvision.models.list_models()"
        raise InputError(f"torchvision has no classifier {name!r}; {what}")
    every = models.get_model_weights(name).__members__
    if which and which not in every:
        raise InputError(f"torchvision's {name} has no weights {which!r}; {choose(which, every)}")
    weights = every[which or "DEFAULT"]
    names = tuple(weights.meta.get("categories", ()))
    options = dict(order.options)
    if order.pretrained:
        _require_address(order.source, weights.url)
    elif order.classes is not None:
        options["num_classes"] = order.classes
    with _loading(order.source):
        module = models.get_model(name, weights=weights if order.pretrained else None, **options)
        see = weights.transforms()
    new = not order.pretrained or order.classes not in (None, len(names))
    if order.pretrained and new:
        name, last = last_of_size(module, len(names))
        parent, _, own = name.rpartition(".")
        setattr(module.get_submodule(parent), own, _renewed(last, order.classes))
    if getattr(module, "aux_logits", False):  # in training it gives more than logits
        module = Logits(module)
    side, mean, std = see.crop_size[0], tuple(see.mean), tuple(see.std)
    crop = side / see.resize_size[0]
    spec = InputSpec((side, side), mean, std, see.interpolation.value, crop)
    return Built(module, spec, see, () if new else names, untrained=new)


def _renewed(layer: Any, classes: Any) -> nn.Module:
    """Return a last layer for another number of classes."""
    if isinstance(layer, nn.Linear):
        return nn.Linear(layer.in_features, classes)
    return nn.Conv2d(layer.in_channels, classes, 1)


#: What a repository's weights may be called.
_WEIGHTS = (
    *("model.safetensors", "pytorch_model.bin"),
    *("model.safetensors.index.json", "pytorch_model.bin.index.json"),
)


def _processed(processor: Any, image: Image.Image) -> Tensor:
    """Return what a processor of transformers makes of one image."""
    seen: Tensor = processor(images=image, return_tensors="pt")["pixel_values"][0]
    return seen.float()


def build_hf(order: Order) -> Built:
    """Load a classifier and its processor, ``hf:NAME`` or ``hf:DIR``, from the cache if there."""
    transformers = library("transformers", order.source)
    transformers.utils.logging.set_verbosity_error()  # of new layers: we say it
    transformers.utils.logging.disable_progress_bar()
    folder, place, here = Path(order.place).expanduser(), order.place, True
    if folder.is_dir():
        place = str(folder)
    elif place.startswith(("/", ".", "~")) or place.count("/") > 1:
        raise FileError(f"{order.source}: the folder {folder} is not there{missing_file(folder)}")
    else:
        files: list[tuple[str, ...]] = [("config.json",)]
        files += [_WEIGHTS] if order.pretrained else []
        files += [] if "size" in order.input else [("preprocessor_config.json",)]
        known = "name a folder that holds it and its config.json: hf:DIR"
        here = not _from_hub(order.source, place, *files, instead=known)
    with _loading(order.source):
        return _from_transformers(transformers, order, place, here=here)


def _from_transformers(transformers: Any, order: Order, place: str, *, here: bool) -> Built:
    safely = {"local_files_only": here, "trust_remote_code": False}  # else it asks on the terminal
    config, unused = transformers.AutoConfig.from_pretrained(
        place, return_unused_kwargs=True, **safely, **order.options
    )
    for name in unused:
        what = did_you_mean(name, config.to_dict()) or "see its config.json"
        raise InputError(f"{order.source} does not take the option {name!r}; {what}")
    if order.classes is not None:
        config.num_labels = order.classes
    spec, see = _processor(transformers, order, place, safely)
    auto, new = transformers.AutoModelForImageClassification, ["all"]
    if order.pretrained:
        other = {"ignore_mismatched_sizes": order.classes is not None, "output_loading_info": True}
        module, found = auto.from_pretrained(place, config=config, **other, **safely)
        new = [*found["missing_keys"], *found["mismatched_keys"]]
        if new and order.classes is None:
            what = f"no weights for {len(new)} of its tensors ({new[0]}, ...)"
            raise InputError(f"{order.source} has {what}: ", **_TRAIN_IT)
    else:
        module = auto.from_config(config)
    names = tuple(str(config.id2label.get(i, "")) for i in range(config.num_labels))
    unnamed = all(name in ("", f"LABEL_{i}") for i, name in enumerate(names))
    translate = partial(_renamed, type(module), config)
    return Built(Logits(module.float()), spec, see, () if unnamed else names, bool(new), translate)


def _processor(
    transformers: Any, order: Order, place: str, safely: dict[str, bool]
) -> tuple[InputSpec, Any]:
    """Return what the model sees, and its processor on Pillow: the same pixels everywhere."""
    major = int(transformers.__version__.partition(".")[0])
    plain = {"backend": "pil"} if major >= 5 else {"use_fast": False}
    try:
        processor = transformers.AutoImageProcessor.from_pretrained(place, **safely, **plain)
    except (OSError, ValueError) as error:
        if "size" in order.input:
            return changed(InputSpec((1, 1)), order.input), None
        raise FileError(
            f"{order.source} has no preprocessor_config.json that says how images are prepared; "
            "write ?input.size=224&input.mean=0.5&input.std=0.5"
        ) from error
    see = partial(_processed, processor)
    spec = processor_input(processor.to_dict(), order.source)
    return changed(spec, {"size": [*see(_GREY).shape[1:]]}), see


def _renamed(network: Any, config: Any, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors by the names that this version of transformers has for those of files."""
    other = {"ignore_mismatched_sizes": True, "output_loading_info": True}
    module, found = network.from_pretrained(None, config=config, state_dict=dict(state), **other)
    own, missing = module.state_dict(), found["missing_keys"]
    differ = {
        name: torch.empty(shape, device="meta") for name, shape, _ in found["mismatched_keys"]
    }
    unknown = {name: state[name] for name in sorted(found["unexpected_keys"])}
    return {name: own[name] for name in own if name not in missing} | differ | unknown


def build_factory(order: Order) -> Built:
    """Call the user's own ``torch:package.module:factory``; see what it gave."""
    where, _, name = order.place.rpartition(":")
    if not where or not name:
        raise InputError(f"{order.source}: write torch:package.module:factory")
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        # It stays there: the factory may import more when it is called, and so may processes
        # that load images.
        sys.path.insert(0, here)
    with one_line_errors(f"{order.source}, importing {where}"):
        code = importlib.import_module(where)
    factory, options = getattr(code, name, None), dict(order.options)
    if not callable(factory):
        own = [key for key, one in vars(code).items() if getattr(one, "__module__", "") == where]
        raise InputError(f"{order.source}: {where} has no factory {name!r}; {choose(name, own)}")
    with one_line_errors(order.source, InputError):
        takes = inspect.signature(factory).parameters
        any_name = any(one.kind is one.VAR_KEYWORD for one in takes.values())
        if order.classes is not None and (any_name or "num_classes" in takes):
            options["num_classes"] = order.classes
        made = factory(**options)
    module, how = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(module, nn.Module) or not (how is None or callable(how)):
        raise InputError(f"{order.source} must give a torch.nn.Module; got {type(made).__name__}")
    return Built(module, _seen_by(module, how, order), how)


def _seen_by(module: nn.Module, how: Callable[..., Any] | None, order: Order) -> InputSpec:
    """Return what a network says that it sees, or its preprocessing makes, or the options."""
    for one in (module, how):
        if (said := getattr(one, "input_spec", None)) is not None:
            return spec_of(said, f"{order.source}, input_spec")
    if how is not None:
        with one_line_errors(f"{order.source}, its preprocessing", InputError):
            _, height, width = how(_GREY).shape
        return InputSpec((height, width))
    if "size" in order.input:
        return InputSpec((1, 1))
    raise InputError(
        f"{order.source} does not say its input: give the module an attribute input_spec = "
        "{'size': 224, 'mean': 0.5, 'std': 0.5}, or write ?input.size=224&input.mean=0.5&..."
    )
