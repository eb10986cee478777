"""Calibrate a torch model: run it over labelled batches, fit on its logits, put the two together.

torch is imported when a function here is called.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from sklearn.base import clone

from smallcal.calibrators.base import BaseCalibrator
from smallcal.calibrators.estimators import make
from smallcal.deploy.adapters.torch_batches import (
    Forward,
    collect_logits,
    refuse_scores,
    require_torch,
)
from smallcal.errors import InputError

if TYPE_CHECKING:
    import torch
    from torch import nn

    from smallcal.deploy.adapters.torch_wrapped import CalibratedTorchModel


def calibrate(
    model: nn.Module,
    loader: Iterable[Any],
    *,
    method: str | BaseCalibrator = "default",
    output: str = "probabilities",
    device: str | torch.device | None = None,
    forward_fn: Forward | None = None,
    label_key: str | int | None = None,
    ignore_index: int = -100,
) -> CalibratedTorchModel:
    """Fit a calibrator on the logits of a model for labelled batches; return both as one module.

    Parameters
    ----------
    model : torch.nn.Module
        A classifier. It gives logits as a tensor, as the first of a tuple, or under the name
        ``logits``, as Hugging Face models do. It is run in eval mode and left as it was.
    loader : iterable of batches
        Batches of held-out samples, in a fixed order. A batch is a tuple that ends with the
        labels, or a mapping with ``labels``; the model is called with the rest of it.
    method : str or estimator
        A name that ``smallcal.methods`` lists, or an estimator such as ``SRTS(n_groups=5)``.
    output : {"probabilities", "logits"}
        What the returned module returns; see ``to_torch``.
    device : str or torch.device, optional
        Move the model there first. By default batches are moved to the model's device.
    forward_fn : callable, optional
        ``forward_fn(model, batch)`` returns the output, for models that are called in another
        way. It gets the whole batch; the returned module is then called with batches too.
    label_key : str or int, optional
        Key, or position, of the labels in a batch.
    ignore_index : int
        Rows with this label are left out and counted.

    Returns
    -------
    CalibratedTorchModel
        Its ``calibrator`` is the fitted estimator, which can be saved.

    Examples
    --------
    ::

        calibrated = sc.calibrate(model, DataLoader(held_out, batch_size=64))
        probabilities = calibrated(images)
        calibrated.calibrator.save("cal.json")
    """
    require_torch()
    # Here, not above: these two are modules of torch.
    from smallcal.deploy.adapters.torch_wrapped import CalibratedTorchModel
    from smallcal.deploy.export.torch import require_output

    require_output(output)  # now: running the model may take an hour
    estimator = _estimator_of(method)
    how: dict[str, Any] = {"forward_fn": forward_fn, "label_key": label_key}
    found = collect_logits(model, loader, device=device, ignore_index=ignore_index, **how)
    estimator.fit(found.logits, found.labels)
    return CalibratedTorchModel(model, estimator, output=output, n_ignored=found.n_ignored, **how)


def _estimator_of(method: str | BaseCalibrator) -> BaseCalibrator:
    """Return an unfitted estimator, refusing at once what could not be used in the end."""
    if not isinstance(method, str | BaseCalibrator):
        raise InputError(
            f"method must be a name or a calibrator; got {type(method).__name__}",
            code="option-type",
        )
    estimator: BaseCalibrator = make(method) if isinstance(method, str) else clone(method)
    refuse_scores(estimator)
    composed = estimator._compose()
    name = composed.name
    if not composed.deployable:
        raise InputError(
            f"{name} is for comparison only and cannot wrap a model", code="method-unsuitable"
        )
    if composed.needs:
        raise InputError(
            f"{name} needs {', '.join(composed.needs)} beside the logits: fit it on what "
            "collect_logits gives, and call its to_torch() module yourself",
            code="method-unsuitable",
        )
    return estimator
