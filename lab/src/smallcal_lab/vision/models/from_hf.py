"""``hf:NAME`` or ``hf:DIR``: classifiers of images in the package transformers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from smallcal.errors import FileError, InputError, did_you_mean, missing_file
from smallcal_lab.vision.models.built import Built, Logits
from smallcal_lab.vision.models.downloads import (
    absent,
    headless,
    hub_folder,
    hub_offline,
    library,
    loading,
)
from smallcal_lab.vision.models.model import InputSpec
from smallcal_lab.vision.models.processor import processor_input
from smallcal_lab.vision.models.source import Order, changed


@dataclass(frozen=True)
class Processed:
    """A processor of transformers as a function of one image. It can be pickled."""

    processor: Any

    def __call__(self, image: Image.Image) -> Tensor:
        """Return a float32 tensor, 3 x height x width."""
        seen: Tensor = self.processor(images=image, return_tensors="pt")["pixel_values"][0]
        return seen.float()


def build_hf(order: Order) -> Built:
    """Load a classifier and its processor, from the cache or a folder if they are there."""
    transformers = library("transformers", "", order.source)
    place = _place(order)
    with loading(order.source), _quiet(transformers):
        before = torch.get_rng_state()
        try:
            return _load(transformers, order, place, here=True)
        except OSError as error:
            if Path(place).is_dir():
                raise
            if why := hub_offline():
                known = "name a folder that holds it and its config.json: hf:DIR"
                raise absent(order.source, place, hub_folder(), why, instead=known) from error
        # A new last layer must be the same whether the weights were in the cache or not.
        torch.set_rng_state(before)
        return _load(transformers, order, place, here=False)


def _place(order: Order) -> str:
    """Return the name, or the folder."""
    folder = Path(order.place).expanduser()
    if folder.is_dir():
        return str(folder)
    if order.place.startswith(("/", ".", "~")) or order.place.count("/") > 1:
        raise FileError(f"{order.source}: the folder {folder} is not there{missing_file(folder)}")
    return order.place


def _load(transformers: Any, order: Order, place: str, *, here: bool) -> Built:
    config, unused = transformers.AutoConfig.from_pretrained(
        place,
        local_files_only=here,
        return_unused_kwargs=True,
        trust_remote_code=False,  # else it asks on the terminal
        **order.options,
    )
    if unused:
        name = next(iter(unused))
        what = did_you_mean(name, config.to_dict()) or "see its config.json"
        raise InputError(f"{order.source} does not take the option {name!r}; {what}")
    if order.classes not in (None, config.num_labels):
        config.num_labels = order.classes
    spec, see = _seen(transformers, order, place, here=here)
    module, new = _network(transformers, order, place, config, here=here)
    names = tuple(str(config.id2label.get(i, "")) for i in range(config.num_labels))
    unnamed = all(name in ("", f"LABEL_{i}") for i, name in enumerate(names))
    return Built(
        Logits(module.float()),
        spec,
        see,
        () if unnamed else names,
        untrained=new,
        translate=partial(_translated, transformers, type(module), config),
    )


def _network(
    transformers: Any, order: Order, place: str, config: Any, *, here: bool
) -> tuple[Any, bool]:
    """Return the classifier, and whether a part of it is new."""
    auto = transformers.AutoModelForImageClassification
    if not order.pretrained:
        return auto.from_config(config), True
    module, found = auto.from_pretrained(
        place,
        config=config,
        local_files_only=here,
        trust_remote_code=False,
        ignore_mismatched_sizes=order.classes is not None,
        output_loading_info=True,
    )
    new = [*found["missing_keys"], *found["mismatched_keys"]]
    if new and order.classes is None:
        what = f"no weights for {len(new)} of its tensors ({new[0]}, ...)"
        raise headless(order.source, what)
    return module, bool(new)


def _translated(
    transformers: Any, network: Any, config: Any, state: dict[str, Tensor]
) -> dict[str, Tensor]:
    """Return tensors by the names that this version has for those of files."""
    with _quiet(transformers):
        module, found = network.from_pretrained(
            None,
            config=config,
            state_dict=dict(state),
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    other = {name: torch.empty(shape, device="meta") for name, shape, _ in found["mismatched_keys"]}
    loaded = {
        name: value
        for name, value in module.state_dict().items()
        if name not in found["missing_keys"]
    }
    return {**loaded, **other, **{name: state[name] for name in sorted(found["unexpected_keys"])}}


def _seen(transformers: Any, order: Order, place: str, *, here: bool) -> tuple[InputSpec, Any]:
    """Return what the model sees, and its processor on Pillow: the same pixels everywhere."""
    major = int(transformers.__version__.partition(".")[0])
    plain = {"backend": "pil"} if major >= 5 else {"use_fast": False}
    try:
        processor = transformers.AutoImageProcessor.from_pretrained(
            place, local_files_only=here, trust_remote_code=False, **plain
        )
    except (OSError, ValueError) as error:
        if "size" in order.input:
            return changed(InputSpec((1, 1)), order.input), None
        if here and not Path(place).is_dir():
            raise
        raise FileError(
            f"{order.source} has no preprocessor_config.json that says how images are prepared; "
            "write ?input.size=224&input.mean=0.5&input.std=0.5"
        ) from error
    see = Processed(processor)
    _, height, width = see(Image.new("RGB", (320, 256), "grey")).shape
    spec = processor_input(processor.to_dict(), order.source)
    return changed(spec, {"size": [height, width]}), see


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
