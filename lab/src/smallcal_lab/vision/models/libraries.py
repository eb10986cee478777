"""Models of timm, torchvision and transformers, and those that the user's own code makes."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image

from smallcal.data.shown import one_line
from smallcal.errors import FileError, InputError, choose, did_you_mean, missing_file, needing
from smallcal_lab.vision.models.built import Built, Logits, last_layer
from smallcal_lab.vision.models.downloads import (
    headless,
    library,
    loading,
    require_address,
    require_hub,
)
from smallcal_lab.vision.models.model import InputSpec
from smallcal_lab.vision.models.preprocess import processor_input
from smallcal_lab.vision.models.source import Order, changed, spec_of

with needing("torch", "vision", "opening a model", of="smallcal-lab"):
    import torch
    from torch import Tensor, nn

#: An image that preprocessing is shown, to see what size it makes.
_GREY = Image.new("RGB", (320, 256), "grey")


def build_timm(order: Order) -> Built:
    """Create a model of timm, ``timm:NAME[.TAG]``, with its own preprocessing."""
    timm = library("timm", order.source)
    trained_on = _known_to_timm(timm, order)
    options = dict(order.options)
    if order.classes is not None:
        options["num_classes"] = order.classes
    with loading(order.source):
        module = timm.create_model(order.place, pretrained=order.pretrained, **options)
        asked = {"img_size": options["img_size"]} if "img_size" in options else {}
        config = timm.data.resolve_data_config(asked, model=module)
        transform = timm.data.create_transform(**config, is_training=False)
    if not getattr(module, "num_classes", 1):
        raise headless(order.source, "no classes of its own, only features")
    spec = InputSpec(
        size=tuple(config["input_size"][1:]),
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
        interpolation=config["interpolation"],
        crop=config["crop_pct"],
        squash=config.get("crop_mode") == "squash",
    )
    new = not order.pretrained or order.classes not in (None, trained_on)
    return Built(
        module, spec, transform, untrained=new, translate=partial(_adapted_by_timm, module)
    )


def _known_to_timm(timm: Any, order: Order) -> int | None:
    """Return how many classes the weights are for; refuse a name or weights that are not there."""
    home, colon, repository = order.place.partition(":")
    if colon and home in ("hf-hub", "hf_hub", "local-dir"):
        if order.pretrained and home != "local-dir":
            require_hub(order.source, repository)
        return None
    name, _, tag = order.place.partition(".")
    if not timm.is_model(name):
        what = did_you_mean(name, timm.list_models()) or "see timm.list_models()"
        raise InputError(f"timm has no model {name!r}; {what}")
    tags = [one.partition(".")[2] for one in timm.list_pretrained(f"{name}.*")]
    if tag and tag not in tags:
        raise InputError(f"timm's {name} has no weights {tag!r}; {choose(tag, tags)}")
    config = timm.get_pretrained_cfg(order.place, allow_unregistered=False)
    if not order.pretrained:
        return getattr(config, "num_classes", None)
    if config is None or not config.has_weights:
        raise InputError(
            f"timm has no weights for {order.place}: ",
            python="pass pretrained=False, or a checkpoint",
            shell="give some by --checkpoint FILE",
        )
    if not config.hf_hub_id:
        require_address(order.source, config.url)
        return int(config.num_classes)
    from huggingface_hub import try_to_load_from_cache

    named = config.hf_hub_filename
    files = [named] if named else ["model.safetensors", "pytorch_model.bin"]
    if not any(isinstance(try_to_load_from_cache(config.hf_hub_id, one), str) for one in files):
        require_hub(order.source, f"{config.hf_hub_id}/{files[0]}")
    return int(config.num_classes)


def _adapted_by_timm(module: Any, state: dict[str, Tensor]) -> dict[str, Tensor]:
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
        require_address(order.source, weights.url)
    elif order.classes is not None:
        options["num_classes"] = order.classes
    with loading(order.source):
        module = models.get_model(name, weights=weights if order.pretrained else None, **options)
        see = weights.transforms()
    new = not order.pretrained or order.classes not in (None, len(names))
    if order.pretrained and new:
        _renew_last_layer(module, len(names), order)
    if getattr(module, "aux_logits", False):  # in training it gives more than logits
        module = Logits(module)
    side = see.crop_size[0]
    spec = InputSpec(
        size=(side, side),
        mean=tuple(see.mean),
        std=tuple(see.std),
        interpolation=see.interpolation.value,
        crop=side / see.resize_size[0],
    )
    return Built(module, spec, see, () if new else names, untrained=new)


def _renew_last_layer(module: nn.Module, classes: int, order: Order) -> None:
    name, old = last_layer(module, classes)
    if old is None or order.classes is None:
        raise InputError(
            f"{order.source}: its last layer is not known, so its number of classes is fixed"
        )
    fresh: nn.Module
    if isinstance(old, nn.Linear):
        fresh = nn.Linear(old.in_features, order.classes, bias=old.bias is not None)
    else:
        fresh = nn.Conv2d(old.in_channels, order.classes, 1)  # type: ignore[arg-type]
    parent, _, own = name.rpartition(".")
    setattr(module.get_submodule(parent), own, fresh)


@dataclass(frozen=True)
class Processed:
    """A processor of transformers as a function of one image. It can be pickled."""

    processor: Any

    def __call__(self, image: Image.Image) -> Tensor:
        """Return a float32 tensor, 3 x height x width."""
        seen: Tensor = self.processor(images=image, return_tensors="pt")["pixel_values"][0]
        return seen.float()


def build_hf(order: Order) -> Built:
    """Load a classifier and its processor, ``hf:NAME`` or ``hf:DIR``, from the cache if there."""
    transformers = library("transformers", order.source)
    folder, place = Path(order.place).expanduser(), order.place
    if folder.is_dir():
        place = str(folder)
    elif place.startswith(("/", ".", "~")) or place.count("/") > 1:
        raise FileError(f"{order.source}: the folder {folder} is not there{missing_file(folder)}")
    with loading(order.source), _quiet(transformers):
        before = torch.get_rng_state()
        try:
            return _from_transformers(transformers, order, place, here=True)
        except OSError:
            if folder.is_dir():
                raise
            known = "name a folder that holds it and its config.json: hf:DIR"
            require_hub(order.source, place, instead=known)
        # A new last layer must be the same whether the weights were in the cache or not.
        torch.set_rng_state(before)
        return _from_transformers(transformers, order, place, here=False)


def _from_transformers(transformers: Any, order: Order, place: str, *, here: bool) -> Built:
    safely = {"local_files_only": here, "trust_remote_code": False}  # else it asks on the terminal
    config, unused = transformers.AutoConfig.from_pretrained(
        place, return_unused_kwargs=True, **safely, **order.options
    )
    if unused:
        name = next(iter(unused))
        what = did_you_mean(name, config.to_dict()) or "see its config.json"
        raise InputError(f"{order.source} does not take the option {name!r}; {what}")
    if order.classes not in (None, config.num_labels):
        config.num_labels = order.classes
    spec, see = _processor(transformers, order, place, safely)
    auto, new = transformers.AutoModelForImageClassification, ["all"]
    if order.pretrained:
        module, found = auto.from_pretrained(
            place,
            config=config,
            ignore_mismatched_sizes=order.classes is not None,
            output_loading_info=True,
            **safely,
        )
        new = [*found["missing_keys"], *found["mismatched_keys"]]
        if new and order.classes is None:
            raise headless(
                order.source, f"no weights for {len(new)} of its tensors ({new[0]}, ...)"
            )
    else:
        module = auto.from_config(config)
    names = tuple(str(config.id2label.get(i, "")) for i in range(config.num_labels))
    unnamed = all(name in ("", f"LABEL_{i}") for i, name in enumerate(names))
    return Built(
        Logits(module.float()),
        spec,
        see,
        () if unnamed else names,
        untrained=bool(new),
        translate=partial(_renamed, transformers, type(module), config),
    )


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
        if safely["local_files_only"] and not Path(place).is_dir():
            raise
        raise FileError(
            f"{order.source} has no preprocessor_config.json that says how images are prepared; "
            "write ?input.size=224&input.mean=0.5&input.std=0.5"
        ) from error
    see = Processed(processor)
    spec = processor_input(processor.to_dict(), order.source)
    return changed(spec, {"size": [*see(_GREY).shape[1:]]}), see


def _renamed(
    transformers: Any, network: Any, config: Any, state: dict[str, Tensor]
) -> dict[str, Tensor]:
    """Return tensors by the names that this version of transformers has for those of files."""
    with _quiet(transformers):
        module, found = network.from_pretrained(
            None,
            config=config,
            state_dict=dict(state),
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    own, missing = module.state_dict(), found["missing_keys"]
    other = {name: torch.empty(shape, device="meta") for name, shape, _ in found["mismatched_keys"]}
    unknown = {name: state[name] for name in sorted(found["unexpected_keys"])}
    return {name: own[name] for name in own if name not in missing} | other | unknown


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Let transformers say nothing of new layers (we do) and draw no bars."""
    log = transformers.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()


def build_factory(order: Order) -> Built:
    """Call the user's own ``torch:package.module:factory``; see what it gave."""
    made = _called(order, _factory(order))
    module, how = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(module, nn.Module) or not (how is None or callable(how)):
        raise InputError(
            f"{order.source} must give a torch.nn.Module, or one with its preprocessing; got "
            f"{type(made).__name__}"
        )
    for one in (module, how):
        if (said := getattr(one, "input_spec", None)) is not None:
            return Built(module, spec_of(said, f"{order.source}, input_spec"), how)
    if how is not None:
        with _own_code(f"{order.source}, its preprocessing"):
            shape = tuple(how(_GREY).shape)
        if len(shape) != 3 or shape[0] != 3:
            raise InputError(
                f"{order.source}: its preprocessing must give a tensor of 3 x height x width; it "
                f"gives {shape}"
            )
        return Built(module, InputSpec((shape[1], shape[2])), how)
    if "size" in order.input:
        return Built(module, changed(InputSpec((1, 1)), order.input))
    raise InputError(
        f"{order.source} does not say its input: give the module an attribute input_spec = "
        "{'size': 224, 'mean': 0.5, 'std': 0.5}, or write ?input.size=224&input.mean=0.5&..."
    )


def _factory(order: Order) -> Callable[..., Any]:
    where, _, name = order.place.rpartition(":")
    if not where or not name:
        raise InputError(f"{order.source}: write torch:package.module:factory")
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        # It stays there: the factory may import more when it is called, and so may processes
        # that load images.
        sys.path.insert(0, here)
    with _own_code(f"{order.source}, importing {where}"):
        try:
            module = importlib.import_module(where)
        except ModuleNotFoundError as error:
            if not error.name or not f"{where}.".startswith(f"{error.name}."):
                raise
            raise FileError(
                f"{order.source}: there is no module {error.name} in {here}, on PYTHONPATH or "
                "installed"
            ) from None
    found = getattr(module, name, None)
    if not callable(found):
        own = [key for key, one in vars(module).items() if getattr(one, "__module__", "") == where]
        raise InputError(f"{order.source}: {where} has no factory {name!r}; {choose(name, own)}")
    return found  # type: ignore[no-any-return]


def _called(order: Order, factory: Callable[..., Any]) -> Any:
    """Call the factory with the options, and ``num_classes`` if it takes that."""
    try:
        takes = inspect.signature(factory).parameters
    except (TypeError, ValueError):  # some callables tell nothing
        takes = {}  # type: ignore[assignment]
    any_name = any(one.kind is one.VAR_KEYWORD for one in takes.values())
    known = [
        name
        for name, one in takes.items()
        if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    ]
    given = dict(order.options)
    if order.classes is not None and (any_name or "num_classes" in known):
        given["num_classes"] = order.classes
    for name in given:
        if not any_name and name not in known:
            what = choose(name, known) if known else "it takes none"
            raise InputError(f"{order.source} does not take the option {name!r}; {what}")
    with _own_code(order.source):
        return factory(**given)


@contextmanager
def _own_code(what: str) -> Iterator[None]:
    """Say in one line what code of the user's raises."""
    try:
        yield
    except FileError:
        raise
    except Exception as error:
        raise InputError(f"{what}: {type(error).__name__}: {one_line(error)[:300]}") from error
