"""``timm:NAME[.TAG]``."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from torch import Tensor

from smallcal.errors import InputError, choose, did_you_mean
from smallcal_lab.vision.models.built import Built
from smallcal_lab.vision.models.downloads import (
    absent,
    headless,
    hub_folder,
    hub_offline,
    library,
    loading,
    require_address,
)
from smallcal_lab.vision.models.model import InputSpec
from smallcal_lab.vision.models.source import Order

#: What weights are called on the hub.
_FILES = ("model.safetensors", "pytorch_model.bin")

#: Names of models that lie on the hub alone begin so.
_ON_HUB = ("hf-hub:", "hf_hub:", "local-dir:")


def build_timm(order: Order) -> Built:
    """Create a model of timm, with its own preprocessing."""
    timm = library("timm", "vision", order.source)
    trained_on = _known(timm, order)
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
    new = order.classes is not None and order.classes != trained_on
    return Built(
        module,
        _spec(config),
        transform,
        untrained=new or not order.pretrained,
        translate=partial(_translated, module),
    )


def _translated(module: Any, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors as timm adapts them: older names, other sizes of images."""
    adapt = getattr(sys.modules[type(module).__module__], "checkpoint_filter_fn", None)
    if adapt is None:
        return state
    try:
        return dict(adapt(dict(state), module))
    except (RuntimeError, ValueError, TypeError, LookupError, AttributeError):
        return state  # of another architecture: what differs is said of the file itself


def _spec(config: dict[str, Any]) -> InputSpec:
    height, width = config["input_size"][1:]
    return InputSpec(
        size=(height, width),
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
        interpolation=config["interpolation"],
        crop=config["crop_pct"],
        squash=config.get("crop_mode") == "squash",
    )


def _known(timm: Any, order: Order) -> int | None:
    """Return how many classes the weights are for; refuse a name or weights that are not there."""
    if order.place.startswith(_ON_HUB):
        if order.pretrained and not order.place.startswith("local-dir:") and (why := hub_offline()):
            raise absent(order.source, order.place.partition(":")[2], hub_folder(), why)
        return None
    name, _, tag = order.place.partition(".")
    if not timm.is_model(name):
        what = did_you_mean(name, timm.list_models()) or "see timm.list_models()"
        raise InputError(f"timm has no model {name!r}; {what}")
    tags = [one.partition(".")[2] for one in timm.list_pretrained(f"{name}.*")]
    if tag and tag not in tags:
        raise InputError(f"timm's {name} has no weights {tag!r}; {choose(tag, tags)}")
    config = timm.get_pretrained_cfg(order.place, allow_unregistered=False)
    if order.pretrained:
        _require_weights(order, config)
    return getattr(config, "num_classes", None)


def _require_weights(order: Order, config: Any) -> None:
    """Raise unless weights are in the cache, or the hub answers."""
    repository = getattr(config, "hf_hub_id", None)
    if config is None or not config.has_weights:
        raise InputError(
            f"timm has no weights for {order.place}: ",
            python="pass pretrained=False, or a checkpoint",
            shell="give some by --checkpoint FILE",
        )
    if not repository:
        require_address(order.source, config.url)
        return
    from huggingface_hub import try_to_load_from_cache

    files = [config.hf_hub_filename] if config.hf_hub_filename else _FILES
    if any(isinstance(try_to_load_from_cache(repository, file), str) for file in files):
        return
    if why := hub_offline():
        raise absent(order.source, f"{repository}/{files[0]}", hub_folder(), why)
