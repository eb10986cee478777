"""A torch model with its calibrator behind it, as one module. Importing it needs torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from smallcal.calibrators.base import BaseCalibrator
from smallcal.data.checks import as_numpy
from smallcal.deploy.adapters.torch_batches import (
    Forward,
    device_of,
    logits_of,
    refuse_scores,
    run_batches,
)
from smallcal.errors import needing

with needing("torch", "torch", "a calibrated torch model"):
    import torch
    from torch import Tensor, nn


class CalibratedTorchModel(nn.Module):
    """A torch model whose output is calibrated, as :func:`smallcal.calibrate` returns it.

    Parameters
    ----------
    model : torch.nn.Module
    calibrator : estimator
        Fitted on the model's logits, for instance loaded by ``smallcal.load``.
    output : {"probabilities", "logits"}
    forward_fn : callable, optional
        ``forward_fn(model, batch)`` returns the output; the module is then called with a batch.
    label_key : str or int, optional
        Key or position of the labels in a batch, which predictions do not use.
    n_ignored : int
        Rows that were left out of the fit.

    Attributes
    ----------
    head : TorchCalibrator
        The calibrator as a module; the state dict holds its numbers beside the model's.

    Examples
    --------
    >>> import smallcal as sc
    >>> val = sc.load_demo("cal")
    >>> cal = sc.TemperatureScaling().fit(val.logits, val.labels)
    >>> calibrated = CalibratedTorchModel(nn.Linear(8, 345), cal)
    >>> calibrated(torch.zeros(4, 8)).sum(dim=-1).round(decimals=5).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """

    def __init__(
        self,
        model: nn.Module,
        calibrator: BaseCalibrator,
        *,
        output: str = "probabilities",
        forward_fn: Forward | None = None,
        label_key: str | int | None = None,
        n_ignored: int = 0,
    ) -> None:
        super().__init__()
        refuse_scores(calibrator)
        self.model = model
        self.head = calibrator.to_torch(output=output).to(device_of(model))
        self.calibrator = calibrator
        self.forward_fn = forward_fn
        self.label_key = label_key
        self.n_ignored = n_ignored

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Call the model and return calibrated probabilities, or logits, of its output."""
        call = self.model if self.forward_fn is None else self._forward
        return self.head(logits_of(call(*args, **kwargs)))  # type: ignore[no-any-return]

    def _forward(self, batch: Any) -> Any:
        assert self.forward_fn is not None
        return self.forward_fn(self.model, batch)

    def predict_proba(self, data: Any) -> Tensor:
        """Return calibrated probabilities of every row, of shape (n, C), on the CPU.

        The model is run in eval mode and without gradients; on a terminal, a bar shows progress.
        The result is probabilities even if the module's ``output`` is logits.

        Parameters
        ----------
        data : tensor, array, batch or iterable of batches
            A tensor or an array is one batch of inputs; a floating array is converted to the
            model's type. A mapping, or a tuple of tensors, is one batch too; its labels are not
            used. One sample without a batch axis gives one row. Anything else, such as a
            ``DataLoader``, is read batch by batch, as by :func:`smallcal.calibrate`. A list of
            tensors is several batches, unless they differ in their number of axes, as inputs and
            labels do.

        Returns
        -------
        Tensor of shape (n, C)

        Examples
        --------
        >>> import smallcal as sc
        >>> val = sc.load_demo("cal")
        >>> cal = sc.TemperatureScaling().fit(val.logits, val.labels)
        >>> calibrated = CalibratedTorchModel(nn.Linear(8, 345), cal)
        >>> calibrated.predict_proba(torch.zeros(4, 8)).shape
        torch.Size([4, 345])
        """

        def proba(logits: Tensor) -> Tensor:
            given: Tensor = self.head(logits)
            return given if self.head.output == "probabilities" else given.softmax(dim=-1)

        return self._of_each(data, proba)

    def accept(self, data: Any, *, risk: float | None = None) -> Tensor:
        """Return which rows the calibrator's certified threshold accepts, shape (n,).

        Parameters
        ----------
        data : tensor, array, batch or iterable of batches
            As for :meth:`predict_proba`.
        risk : float, optional
            Which threshold is meant, where several were certified.

        Returns
        -------
        Tensor of bool, of shape (n,), on the CPU
        """
        return self._of_each(data, lambda logits: self.head.accept(logits, risk=risk))

    def _of_each(self, data: Any, of: Callable[[Tensor], Tensor]) -> Tensor:
        """Run the model over all batches, and return something of the logits of each row."""
        parts: list[Tensor] = []

        def keep(logits: Tensor, labels: Any) -> None:
            parts.append(of(logits[None] if logits.ndim == 1 else logits).cpu())

        run_batches(
            self.model,
            _batches(data, self.model),
            keep,
            forward_fn=self.forward_fn,
            label_key=self.label_key,
        )
        return torch.cat(parts)

    def predict(self, data: Any) -> Tensor:
        """Return the class of every row, as a column number; see :meth:`predict_proba`."""
        return self.predict_proba(data).argmax(dim=-1)

    def confidence(self, data: Any) -> Tensor:
        """Return the probability that each prediction is correct, shape (n,), on the CPU.

        It is the largest probability, or with ``keep_predictions=True`` the calibrated probability
        of the model's own prediction. ``data`` is as for :meth:`predict_proba`.
        """
        return self._of_each(data, self.head.confidence)


def _batches(data: Any, model: nn.Module) -> Iterable[Any]:
    """Return what was given as batches: one, where it is a tensor, an array or a batch itself."""
    if isinstance(data, Tensor | Mapping):
        return [data]
    if hasattr(data, "__array__"):
        tensor = torch.tensor(as_numpy(data, name="data"))  # a copy: it may be read-only
        kinds = [part.dtype for part in model.parameters() if part.is_floating_point()]
        return [tensor.to(kinds[0]) if kinds and tensor.is_floating_point() else tensor]
    if isinstance(data, tuple) and any(isinstance(part, Tensor) for part in data):
        return [data]
    if isinstance(data, list) and all(isinstance(part, Tensor) for part in data):
        return [tuple(data)] if len({part.ndim for part in data}) > 1 else data
    return data  # type: ignore[no-any-return]
