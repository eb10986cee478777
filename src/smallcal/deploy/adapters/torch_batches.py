"""Run a torch model over batches and collect its logits and labels.

torch is imported when a function here is called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from operator import length_hint
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from smallcal.data.checks import FloatArray, as_numpy
from smallcal.data.shapes import one_hot_codes
from smallcal.errors import InputError, needing
from smallcal.io.progress import progress

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from smallcal.calibrators.base import BaseCalibrator

#: Calls the model on a batch and returns its output.
Forward: TypeAlias = Callable[["nn.Module", Any], Any]

#: Where a batch that is a mapping holds its labels, unless the caller says.
LABEL_KEYS = ("labels", "label")


class Collected(NamedTuple):
    """Logits of a model and the true labels.

    Attributes
    ----------
    logits : ndarray of shape (n, C)
    labels : ndarray of shape (n,)
    n_ignored : int
        Rows left out because their label was ``ignore_index``.
    """

    logits: FloatArray
    labels: NDArray[Any]
    n_ignored: int


def collect_logits(
    model: nn.Module,
    loader: Iterable[Any],
    *,
    device: str | torch.device | None = None,
    forward_fn: Forward | None = None,
    label_key: str | int | None = None,
    ignore_index: int = -100,
) -> Collected:
    """Run a model over labelled batches; return its logits and the labels as arrays.

    The parameters are those of :func:`smallcal.calibrate`. On a terminal, a bar shows progress.

    Returns
    -------
    Collected
        ``logits, labels, n_ignored``, ready for the ``fit`` of any estimator.
    """
    parts: list[tuple[FloatArray, NDArray[Any], int]] = []

    def keep(logits: Tensor, labels: Any) -> None:
        _require_rows(logits)
        rows = as_numpy(logits, name="logits")
        codes = _labels_of(labels, n=len(rows), n_classes=rows.shape[1])
        kept = np.asarray(codes != ignore_index)
        parts.append((rows[kept], codes[kept], int((~kept).sum())))

    run_batches(model, loader, keep, device=device, forward_fn=forward_fn, label_key=label_key)
    logits, labels, ignored = zip(*parts, strict=True)
    found = Collected(np.concatenate(logits), np.concatenate(labels), sum(ignored))
    if not len(found.labels):
        raise InputError(
            f"all {found.n_ignored:,} labels are {ignore_index}, which marks rows to leave out; "
            "if it is a class here, pass another ignore_index=...",
            code="no-labels",
        )
    return found


def run_batches(
    model: nn.Module,
    loader: Iterable[Any],
    use: Callable[[Tensor, Any], None],
    *,
    device: str | torch.device | None = None,
    forward_fn: Forward | None = None,
    label_key: str | int | None = None,
) -> None:
    """Hand the logits of each batch, and its labels or None, to ``use``."""
    require_torch()
    from torch import nn

    if not isinstance(model, nn.Module):
        raise InputError(
            f"model must be a torch.nn.Module; got {type(model).__name__}. For saved logits, "
            "smallcal.make(method).fit(logits, labels) needs no model",
            code="option-type",
        )
    if device is not None:
        model.to(device)
    place = device_of(model)
    number = -1
    with evaluating(model), progress("Running the model", length_hint(loader) or None) as advance:
        for number, batch in enumerate(loader):
            try:
                moved = _moved(batch, place)
                inputs, labels = _split(moved, label_key)
                said = _call(model, inputs) if forward_fn is None else forward_fn(model, moved)
                use(logits_of(said), labels)
            except InputError as error:
                raise error.about(f"batch {number}") from None
            advance(1)
    if number < 0:
        raise InputError("the loader gives no batches", code="empty")


def refuse_scores(calibrator: BaseCalibrator) -> None:
    """Raise :class:`InputError` for a calibrator of one number per row."""
    if calibrator.input == "score":
        raise InputError(
            "a calibrator of scores cannot wrap a model, which gives one logit per class: fit "
            "it on the scores, and call its to_torch() module on the output of the model",
            code="method-unsuitable",
        )


def logits_of(output: Any) -> Tensor:
    """Return the logits in what a model gave: a tensor, a tuple's first, or the one so named."""
    import torch

    found = output
    if isinstance(output, Mapping):
        found = output.get("logits")
    elif hasattr(output, "logits"):
        found = output.logits
    elif isinstance(output, tuple | list) and output:
        found = output[0]
    if isinstance(found, torch.Tensor) and found.is_floating_point():
        return found
    what = f"keys {', '.join(map(str, output))}" if isinstance(output, Mapping) else "no logits"
    raise InputError(
        f"the model gives a {type(output).__name__} with {what}; it should give a floating tensor, "
        "a tuple that begins with one, or 'logits'. forward_fn=lambda model, batch: ... can return "
        "the right part",
        code="model-output",
    )


def device_of(model: nn.Module) -> torch.device:
    """Return where a model's first parameter or buffer is; the processor, if it has neither."""
    import torch

    for tensors in (model.parameters(), model.buffers()):
        for tensor in tensors:
            return tensor.device
    return torch.device("cpu")


def require_torch() -> None:
    """Raise in one line what to install, unless torch is there."""
    with needing("torch", "torch", "calibrating a torch model"):
        import torch  # noqa: F401


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode without gradients; afterwards every part is in its own mode again."""
    import torch

    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for part, training in modes:
            part.training = training


def _moved(batch: Any, device: torch.device) -> Any:
    """Return a batch with every tensor in it on a device."""
    if callable(getattr(batch, "to", None)):  # tensors, and what tokenizers give
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {key: _moved(part, device) for key, part in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(_moved(part, device) for part in batch))
    if isinstance(batch, tuple | list):
        return type(batch)(_moved(part, device) for part in batch)
    return batch


def _split(batch: Any, label_key: str | int | None) -> tuple[Any, Any]:
    """Return what the model is called with (a dict or a tuple), and the labels or None."""
    if isinstance(batch, Mapping):
        keys = LABEL_KEYS if label_key is None else (label_key,)
        key = next((key for key in keys if key in batch), None)
        inputs = {name: part for name, part in batch.items() if name != key}
        return inputs, None if key is None else batch[key]
    if not isinstance(batch, tuple | list):
        return (batch,), None
    if isinstance(label_key, str):
        raise InputError(
            f"label_key must be the position of the labels in a batch, a tuple; got {label_key!r}",
            code="option-type",
        )
    if label_key is None:
        label_key = len(batch) - 1 if len(batch) > 1 else None
    if label_key is None or label_key not in range(-len(batch), len(batch)):
        return tuple(batch), None
    place = range(len(batch))[label_key]
    return tuple(part for i, part in enumerate(batch) if i != place), batch[place]


def _call(model: nn.Module, inputs: Any) -> Any:
    args, names = ((), inputs) if isinstance(inputs, Mapping) else (inputs, {})
    try:
        signature = inspect.signature(model.forward)
    except (TypeError, ValueError):  # scripted modules have none
        return model(*args, **names)
    try:
        signature.bind(*args, **names)
    except TypeError as error:
        what = f"keys {', '.join(names)}" if names else f"{len(args)} inputs"
        raise InputError(
            f"the model cannot be called with the batch's {what} ({error}); say how with "
            "forward_fn=lambda model, batch: model(...)",
            code="model-output",
        ) from None
    return model(*args, **names)


def _require_rows(logits: Tensor) -> None:
    shape = tuple(logits.shape)
    if logits.ndim == 2 and shape[1] > 1:
        return
    if logits.ndim > 2:
        advice = (
            "For a prediction per token or pixel, let forward_fn put the classes last and "
            "flatten the rest, as in lambda model, batch: model(**batch).logits.flatten(0, -2); "
            "labels are flattened in the same way"
        )
    else:
        advice = (
            "For a binary model with one logit z, let forward_fn return two columns: "
            "torch.stack([torch.zeros_like(z), z], dim=-1)"
        )
    raise InputError(
        f"logits must have one row per sample; the model's have {shape}. {advice}",
        code="model-output",
    )


def _labels_of(labels: Any, *, n: int, n_classes: int) -> NDArray[Any]:
    if labels is None:
        raise InputError(
            "there are no labels; a batch should be a tuple that ends with them or a mapping with "
            "'labels'. label_key=... says where they are",
            code="no-labels",
        )
    codes = as_numpy(labels, name="labels")
    if codes.size == n:
        return codes.reshape(-1)
    if codes.shape == (n, n_classes):
        return one_hot_codes(codes, n=n, n_classes=n_classes)
    raise InputError(
        f"{n} rows of logits, but labels of shape {codes.shape}; there must be one label per row",
        code="rows-differ",
    )
