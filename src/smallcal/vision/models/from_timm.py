"""``timm:NAME[.TAG]``."""

from __future__ import annotations

from typing import Any

from smallcal.errors import needing
from smallcal.vision.models.built import Built
from smallcal.vision.models.model import InputSpec
from smallcal.vision.models.source import Order


def build_timm(order: Order) -> Built:
    """Create a model of timm, with its own preprocessing."""
    with needing("timm", "vision", f"opening {order.source}"):
        import timm
    data: Any = timm.data
    options = dict(order.options)
    if order.classes is not None:
        options["num_classes"] = order.classes
    module = timm.create_model(order.place, pretrained=order.pretrained, **options)
    asked = {"img_size": options["img_size"]} if "img_size" in options else {}
    config = data.resolve_data_config(asked, model=module)
    spec = InputSpec(
        size=tuple(config["input_size"][1:]),
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
        interpolation=config["interpolation"],
        crop=config["crop_pct"],
        squash=config.get("crop_mode") == "squash",
    )
    return Built(
        module,
        spec,
        data.create_transform(**config, is_training=False),
        untrained=not order.pretrained,
    )
