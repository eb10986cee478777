"""Unrestricted heads: a network from all logits, or features, to the temperature; needs torch.

They are what the paper's few-parameter maps are held against: up to a hundred thousand weights
for a few thousand samples, chosen from a sweep over width, weight decay and learning rate.
torch multiplies the matrices and differentiates the network. The loss and its slope in each
temperature come from the same kernel as in every other fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby, pairwise, product
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from smallcal.calibrators.maps.base import MapFit, Split, recipe
from smallcal.calibrators.maps.network import NetworkMap
from smallcal.calibrators.maps.temperature import one_sided, scalar_fallback, weighted_rows
from smallcal.calibrators.objectives import Gaps, Objective, moments
from smallcal.calibrators.signals.heads import FLOOR
from smallcal.data.predictions import BoolArray, FloatArray
from smallcal.errors import InputError, missing_extra
from smallcal_lab.methods.smart import Adam

if TYPE_CHECKING:
    from torch import Tensor

#: Numbers in flight while cells are trained side by side; beyond it they no longer fit in a
#: core's own cache, and one after the other is quicker.
_BLOCK_SIZE = 320_000

#: Held-out selection judges on every fifth sample.
_PARTS = 5


@dataclass(frozen=True)
class Cell:
    """One setting of a sweep; without hidden units the head is linear."""

    hidden: int
    learning_rate: float
    weight_decay: float


def _grid(*hidden: int) -> tuple[Cell, ...]:
    rates, decays = (1e-3, 1e-4, 1e-5), (0.0, 1e-4, 1e-3, 1e-2)
    return tuple(Cell(*choice) for choice in product(hidden, rates, decays))


#: The settings that each protocol tries.
PROTOCOLS: Mapping[str, tuple[Cell, ...]] = MappingProxyType(
    {
        "in-sample": _grid(0, 16, 32, 128),
        "held-out": _grid(16, 32, 128),
        "fixed": (Cell(128, 1e-3, 0.0),),
    }
)

#: What says when the chosen setting has been trained long enough on the whole split.
REFITS = ("patience", "epochs")


@dataclass(frozen=True, eq=False)
class Trained:
    """The weights a cell ended with, their loss, and the number of epochs it took to get there.

    A layer has shape (outputs, inputs + 1); its last column is the bias.
    """

    cell: Cell
    layers: tuple[FloatArray, ...]
    loss: float
    epochs: int

    def network(self) -> NetworkMap:
        """Return the head as a map, which needs no torch."""
        weights = tuple(layer[:, :-1] for layer in self.layers)
        biases = tuple(layer[:, -1] for layer in self.layers)
        return NetworkMap(weights, biases, "gelu", offset=0.0, floor=FLOOR)


@recipe("head")
def fit_head(
    split: Split,
    *,
    protocol: str = "in-sample",
    refit: str = "patience",
    epochs: int = 500,
    patience: int = 20,
) -> MapFit:
    """Fit a network from ``split.scores`` of shape (n, d) to the temperature.

    Parameters
    ----------
    split : Split
        Its objective must add over samples: nll, bce, brier or mixed(weight).
    protocol : {"in-sample", "held-out", "fixed"}
        "in-sample" trains 48 cells and keeps the one with the lowest loss on the very samples
        it was trained on, as the paper does for NLL. "held-out" trains 36 cells on four fifths,
        stops and chooses them by the last fifth, and trains the chosen cell again on the whole
        split, from the same first weights; ``refit`` says for how long. "fixed" trains a single
        cell, 128 units wide, in-sample.
    refit : {"patience", "epochs"}
        How long the chosen cell is trained again, where some were held out. "patience", as the
        paper has it: until its loss on the whole split no longer falls, like any other cell; the
        choice hands on the settings alone. "epochs": for as many epochs as were best on the
        held-out fifth, which stops an unrestricted head before it overfits.
    epochs : int
        At most so many steps of AdamW, each over all samples.
    patience : int
        A cell stops after this many epochs without a lower loss. Its best weights are kept.

    Returns
    -------
    MapFit
        With a :class:`~smallcal.calibrators.maps.network.NetworkMap`; or with the pooled
        temperature and the flag ``scalar_fallback``, where fewer than two
        predictions are wrong, or right.

    Examples
    --------
    >>> {name: len(cells) for name, cells in PROTOCOLS.items()}
    {'in-sample': 48, 'held-out': 36, 'fixed': 1}
    """
    _require_protocol(protocol)
    _require_refit(refit, protocol)
    with _one_thread():
        if one_sided(split):
            return scalar_fallback(split)
        tried = sweep(split, protocol=protocol, epochs=epochs, patience=patience)
        winner = min(tried, key=lambda each: each.loss)
        if protocol == "held-out":
            whole = _Problem.of(split, held_out=False)
            steps, wait = (winner.epochs, None) if refit == "epochs" else (epochs, patience)
            (winner,) = _train(whole, (winner.cell,), epochs=steps, patience=wait)
    if not math.isfinite(winner.loss):
        return scalar_fallback(split)
    return MapFit(winner.network(), (split.gaps.n,))


def sweep(split: Split, *, protocol: str, epochs: int = 500, patience: int = 20) -> list[Trained]:
    """Train every cell of a protocol, those of one width side by side; see :func:`fit_head`."""
    _require_protocol(protocol)
    trained = []
    with _one_thread():
        problem = _Problem.of(split, held_out=protocol == "held-out")
        for hidden, alike in groupby(PROTOCOLS[protocol], key=lambda cell: cell.hidden):
            cells = tuple(alike)
            size = problem.gaps.n * max(hidden, split.preds.n_classes)
            together = max(1, _BLOCK_SIZE // size)
            for i in range(0, len(cells), together):
                part = cells[i : i + together]
                trained += _train(problem, part, epochs=epochs, patience=patience)
    return trained


def _require_protocol(protocol: str) -> None:
    if protocol not in PROTOCOLS:
        raise InputError(f"unknown protocol {protocol!r}; choose from {', '.join(PROTOCOLS)}")


def _require_refit(refit: str, protocol: str) -> None:
    if refit not in REFITS:
        raise InputError(f"unknown refit {refit!r}; choose from {', '.join(REFITS)}")
    if refit == "epochs" and protocol != "held-out":
        raise InputError(
            "refit 'epochs' takes the number of epochs from held-out samples, and the protocol "
            f"{protocol!r} holds none out; leave refit away, or choose ",
            python="protocol='held-out'",
            shell="--set protocol=held-out",
        )


@contextmanager
def _one_thread() -> Iterator[None]:
    """Give torch one thread, so that sums have one order, and gradients, whatever the caller set.

    At a few thousand samples more threads would only wait for each other.
    """
    try:
        import torch
    except ImportError:
        raise missing_extra("torch", "torch", "fitting an unrestricted head") from None
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode(mode=False), torch.enable_grad():
            yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True, eq=False)
class _Problem:
    """What a sweep is run on.

    Attributes
    ----------
    inputs : Tensor of shape (d + 1, n)
        The scores, and a row of ones for the bias.
    goal : Objective
    gaps : Gaps
    fitting, judging : ndarrays of shape (n,)
        Weights of the samples, summing to 1, in the loss that is minimised and in the one that
        stops and chooses. A held-out sample has no weight in the former.
    seed : int
    """

    inputs: Tensor
    goal: Objective
    gaps: Gaps
    fitting: FloatArray
    judging: FloatArray
    seed: int

    @classmethod
    def of(cls, split: Split, *, held_out: bool) -> _Problem:
        """Turn a split into tensors; ``held_out`` keeps a fifth for judging."""
        import torch

        if split.goal.name == "softece":
            raise InputError(
                "a head is fitted by an objective that adds over samples, which softece does "
                "not; choose nll, bce, brier or mixed(weight)"
            )
        gaps = split.gaps
        weight = gaps.weights
        judged = _judged(split) if held_out else np.ones(gaps.n, dtype=bool)
        fitted = ~judged if held_out else judged
        rows = np.vstack([split.scores.reshape(gaps.n, -1).T, np.ones(gaps.n)])
        return cls(
            torch.from_numpy(rows.astype(np.float32)),
            split.goal,
            gaps,
            weight * fitted / weight[fitted].sum(),
            weight * judged / weight[judged].sum(),
            split.discipline.seed,
        )

    def repeat(self, times: int) -> Gaps:
        """Return the gaps several times over, for as many cells side by side."""
        if times == 1:
            return self.gaps
        repeated = self.gaps.take(np.tile(np.arange(self.gaps.n), times))
        return replace(repeated, scratch=np.empty_like(repeated.rest))


def _judged(split: Split) -> BoolArray:
    """Choose every fifth sample, class by class.

    Where some class has fewer than five samples, right and wrong predictions are shared out
    evenly instead; where there are fewer than five of these, chance alone decides.
    """
    rows = weighted_rows(split)
    kinds = [stratum[rows] for stratum in (split.preds.labels, split.gaps.correct)]
    kind = next((k for k in kinds if np.unique(k, return_counts=True)[1].min() >= _PARTS), None)
    order = np.random.default_rng([split.discipline.seed, 4]).permutation(len(rows))
    if kind is not None:
        order = order[np.argsort(kind[order], kind="stable")]
    judged = np.zeros(split.gaps.n, dtype=bool)
    judged[rows[order[::_PARTS]]] = True
    return judged


def _train(
    problem: _Problem, cells: tuple[Cell, ...], *, epochs: int, patience: int | None
) -> list[Trained]:
    """Train cells of one width; without patience, to the last epoch, whose weights are kept."""
    import torch

    layers = _first_layers(problem, cells[0].hidden, copies=len(cells))
    arrays = [layer.numpy() for layer in layers]  # the same memory
    for layer in layers:
        layer.requires_grad_()
    rate, decay = (
        np.array([getattr(cell, name) for cell in cells], dtype=np.float32)[:, None, None]
        for name in ("learning_rate", "weight_decay")
    )
    adam = Adam(arrays, rate=rate, decay=decay)
    record = _Record(arrays, patience)
    gaps = problem.repeat(len(cells))
    for epoch in range(epochs + 1):
        temperature = _temperatures(layers, problem.inputs)
        losses, slope = _losses_and_slopes(problem, gaps, temperature.detach().numpy())
        record.note(epoch, losses, arrays)
        if epoch == epochs or not record.hopeful.any():
            break
        pull = torch.from_numpy(slope.astype(np.float32))
        gradients = torch.autograd.grad(temperature, layers, pull)
        adam.step([gradient.numpy() for gradient in gradients])
    return [
        Trained(cell, tuple(best[i] for best in record.best), float(loss), int(epoch))
        for i, (cell, loss, epoch) in enumerate(zip(cells, record.loss, record.epoch, strict=True))
    ]


def _first_layers(problem: _Problem, hidden: int, *, copies: int) -> list[Tensor]:
    """Draw U(±1/√inputs), torch's own habit; cells of one width start alike."""
    import torch

    generator = torch.Generator(device="cpu").manual_seed(problem.seed)
    sizes = [len(problem.inputs) - 1, *([hidden] if hidden else []), 1]
    layers = []
    for inputs, outputs in pairwise(sizes):
        draw = torch.rand(
            (outputs, inputs + 1), generator=generator, dtype=torch.float32, device="cpu"
        )
        layers.append(((2 * draw - 1) / math.sqrt(inputs)).repeat(copies, 1, 1))
    return layers


def _temperatures(layers: Sequence[Tensor], inputs: Tensor) -> Tensor:
    """Return the temperature of every sample, by every cell: shape (cells, n)."""
    import torch
    from torch.nn import functional

    values = layers[0].flatten(0, 1) @ inputs  # one product serves all cells
    if len(layers) > 1:
        last = layers[1]
        hidden = functional.gelu(values).view(len(last), -1, inputs.shape[1])
        values = torch.bmm(last[:, :, :-1], hidden)[:, 0] + last[:, :, -1]
    return functional.softplus(values).clamp(min=FLOOR)


def _losses_and_slopes(
    problem: _Problem, gaps: Gaps, temperature: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return each cell's judging loss, and the slope of its fitting loss in each temperature."""
    beta = 1 / temperature.astype(np.float64)
    terms = problem.goal.terms(gaps, moments(gaps, beta.ravel()))
    loss, slope = (part.reshape(beta.shape) for part in (terms.loss, terms.slope))
    return loss @ problem.judging, -problem.fitting * slope * beta**2


class _Record:
    """The best weights of every cell so far."""

    def __init__(self, arrays: Sequence[FloatArray], patience: int | None) -> None:
        self.best = [array.copy() for array in arrays]
        self.loss = np.full(len(arrays[0]), np.inf)
        self.epoch = np.zeros(len(arrays[0]), dtype=np.int64)
        self.hopeful = np.ones(len(arrays[0]), dtype=bool)
        self.patience = patience

    def note(self, epoch: int, losses: FloatArray, arrays: Sequence[FloatArray]) -> None:
        """Take over weights that are better, and give up on cells that have not improved."""
        better = self.hopeful & (losses < self.loss) if self.patience is not None else self.hopeful
        self.loss[better] = losses[better]
        self.epoch[better] = epoch
        for best, array in zip(self.best, arrays, strict=True):
            best[better] = array[better]
        if self.patience is not None:
            self.hopeful = self.hopeful & (epoch - self.epoch < self.patience)
