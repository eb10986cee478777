"""A torch model with its calibrator behind it, as one module. Importing it needs torch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from smallcal.calibrators.base import BaseCalibrator
from smallcal.deploy.adapters.torch_batches import Forward, device_of, logits_of, run_batches
from smallcal.errors import needing

with needing("torch", "torch", "a calibrated torch model"):
    import torch
    from torch import Tensor, nn


class CalibratedTorchModel(nn.Module):
    """A model whose output is calibrated; :func:`smallcal.calibrate` makes one.

    Parameters
    ----------
    model : torch.nn.Module
    calibrator : estimator
        Fitted on the model's logits, for instance by ``smallcal.load``.
    output : {"probabilities", "logits"}
    forward_fn : callable, optional
        ``forward_fn(model, batch)`` returns the output; the module is then called with a batch.
    label_key : str or int, optional
        Where batches hold labels, which predictions leave out.
    n_ignored : int
        Rows that were left out of the fit.

    Attributes
    ----------
    head : TorchCalibrator
        The calibrator as a module, the part that the state dict holds beside the model's.

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
        self.model = model
        self.head = calibrator.to_torch(output=output).to(device_of(model))
        self.calibrator = calibrator
        self.forward_fn = forward_fn
        self.label_key = label_key
        self.n_ignored = n_ignored

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Call the model, and return calibrated probabilities, or logits, of what it says."""
        call = self.model if self.forward_fn is None else self._forward
        return self.head(logits_of(call(*args, **kwargs)))  # type: ignore[no-any-return]

    def _forward(self, batch: Any) -> Any:
        assert self.forward_fn is not None
        return self.forward_fn(self.model, batch)

    def predict_proba(self, loader: Iterable[Any]) -> Tensor:
        """Return what the module gives for every row of a loader, on the processor.

        Batches are as for :func:`smallcal.calibrate`; labels may be missing. The model is run in
        eval mode and without gradients, with a bar on terminals.
        """
        parts: list[Tensor] = []
        run_batches(
            self.model,
            loader,
            lambda logits, labels: parts.append(self.head(logits).cpu()),
            forward_fn=self.forward_fn,
            label_key=self.label_key,
        )
        return torch.cat(parts)

    def predict(self, loader: Iterable[Any]) -> Tensor:
        """Return the class, as a column number, of every row of a loader."""
        return self.predict_proba(loader).argmax(dim=-1)
