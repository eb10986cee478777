"""Unrestricted heads: a network from all logits, or features, to the temperature; needs torch.

They are what the paper's few-parameter maps are held against: up to a hundred thousand weights
for a few thousand samples, chosen from a sweep over width, weight decay and learning rate.
torch trains the network; the loss and its slope come from the same kernel as in every other fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import product, starmap
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from smallcal.calibrators.maps.base import MapFit, Split, recipe
from smallcal.calibrators.maps.network import NetworkMap
from smallcal.calibrators.maps.temperature import (
    Temperature,
    one_sided,
    scalar_fallback,
    weighted_rows,
)
from smallcal.calibrators.objectives import Gaps, moments, objective
from smallcal.calibrators.signals.base import Observed, SignalFit, no_signal, route
from smallcal.calibrators.signals.crossfit import OUT_OF_FOLD, stratified_folds
from smallcal.calibrators.signals.heads import FLOOR, HeadTemperature, LogitHeadTemperature
from smallcal.data.predictions import BoolArray, FloatArray
from smallcal.errors import InputError, missing_extra

#: Held-out selection judges on every fifth sample.
_PARTS = 5


class Cell(NamedTuple):
    """One setting of a sweep; without hidden units the head is linear."""

    hidden: int
    learning_rate: float
    weight_decay: float


#: The settings that each protocol tries.
_RATES, _DECAYS = (1e-3, 1e-4, 1e-5), (0.0, 1e-4, 1e-3, 1e-2)
PROTOCOLS: Mapping[str, tuple[Cell, ...]] = MappingProxyType(
    {
        "in-sample": tuple(starmap(Cell, product((0, 16, 32, 128), _RATES, _DECAYS))),
        "held-out": tuple(starmap(Cell, product((16, 32, 128), _RATES, _DECAYS))),
        "fixed": (Cell(128, 1e-3, 0.0),),
    }
)
#: What says when the chosen setting has been trained long enough on the whole split.
REFITS = ("patience", "epochs")


class Trained(NamedTuple):
    """The head that a cell ended with, its loss, and the epochs it took to get there."""

    cell: Cell
    network: NetworkMap
    loss: float
    epochs: int


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

    The protocol "in-sample" keeps, of 48 cells, the one with the lowest loss on the very samples it
    was trained on, as the paper does for NLL. "held-out" trains 36 cells on four fifths, stops and
    chooses them by the last fifth, and trains the chosen cell again on the whole split, from the
    same first weights: with the refit "patience" until its loss no longer falls, as the paper has
    it, with "epochs" for as many epochs as were best on the held-out fifth. "fixed" trains one
    cell, 128 units wide, in-sample.

    A cell takes at most ``epochs`` steps of AdamW, each over all samples, and stops after
    ``patience`` of them without a lower loss; its best weights are kept.
    """
    if protocol not in PROTOCOLS:
        raise InputError(f"unknown protocol {protocol!r}; choose from {', '.join(PROTOCOLS)}")
    if refit not in REFITS:
        raise InputError(f"unknown refit {refit!r}; choose from {', '.join(REFITS)}")
    if refit == "epochs" and protocol != "held-out":
        raise InputError(
            "refit 'epochs' takes the number of epochs from held-out samples, and the protocol "
            f"{protocol!r} holds none out; leave refit away, or choose ",
            python="protocol='held-out'",
            shell="--set protocol=held-out",
        )
    if split.goal.name == "softece":
        raise InputError(
            "a head is fitted by an objective that adds over samples, which softece does not; "
            "choose nll, bce, brier or mixed(weight)"
        )
    with _own_torch():
        if one_sided(split):
            return scalar_fallback(split)
        tried = sweep(split, protocol=protocol, epochs=epochs, patience=patience)
        winner = min(tried, key=lambda each: each.loss)
        if protocol == "held-out":
            steps, wait = (winner.epochs, None) if refit == "epochs" else (epochs, patience)
            winner = train(split, winner.cell, epochs=steps, patience=wait)
    if not math.isfinite(winner.loss):
        return scalar_fallback(split)
    return MapFit(winner.network, (split.gaps.n,))


def sweep(split: Split, *, protocol: str, epochs: int = 500, patience: int = 20) -> list[Trained]:
    """Train every cell of a protocol; see :func:`fit_head`."""
    judged = judging_rows(split) if protocol == "held-out" else None
    return [
        train(split, cell, judged, epochs=epochs, patience=patience) for cell in PROTOCOLS[protocol]
    ]


@contextmanager
def _own_torch() -> Iterator[None]:
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


def judging_rows(split: Split) -> BoolArray:
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


def train(
    split: Split,
    cell: Cell,
    judged: BoolArray | None = None,
    *,
    epochs: int,
    patience: int | None,
) -> Trained:
    """Train one cell; without ``patience`` to the last epoch, whose weights are kept.

    The samples ``judged`` stop the training, and are not trained on; all do both without them.
    """
    import torch
    from torch.nn import functional

    gaps = split.gaps
    fitting = judging = gaps.weights / gaps.total
    if judged is not None:
        parts = (gaps.weights * ~judged, gaps.weights * judged)
        fitting, judging = (part / part.sum() for part in parts)
    inputs = torch.from_numpy(split.scores.reshape(gaps.n, -1).astype(np.float32))
    model = _first_network(inputs.shape[1], cell.hidden, split.discipline.seed)
    adam = torch.optim.AdamW(
        model.parameters(), lr=cell.learning_rate, weight_decay=cell.weight_decay
    )
    lowest, best_epoch, best = math.inf, 0, _as_map(model)
    for epoch in range(epochs + 1):
        temperature = functional.softplus(model(inputs)[:, 0]).clamp(min=FLOOR)
        beta = 1 / temperature.detach().numpy().astype(np.float64)
        terms = split.goal.terms(gaps, moments(gaps, beta))
        loss = float(terms.loss @ judging)
        if math.isfinite(loss) if patience is None else loss < lowest:
            lowest, best_epoch, best = loss, epoch, _as_map(model)
        if epoch == epochs or (patience is not None and epoch - best_epoch >= patience):
            break
        slope = -fitting * terms.slope * beta**2
        adam.zero_grad()
        torch.autograd.backward(temperature, torch.from_numpy(slope.astype(np.float32)))
        adam.step()
    return Trained(cell, best, lowest, best_epoch)


def _first_network(inputs: int, hidden: int, seed: int) -> Any:
    """Build a network with weights from U(±1/√inputs), torch's own habit."""
    import torch

    generator = torch.Generator(device="cpu").manual_seed(seed)
    layers: list[Any] = []
    options: Any = {"dtype": torch.float32, "device": "cpu"}
    without_draws: Any = torch.nn.utils.skip_init
    for size, outputs in ((inputs, hidden), (hidden, 1)) if hidden else ((inputs, 1),):
        draw = torch.rand((outputs, size + 1), generator=generator, **options)
        start = (2 * draw - 1) / math.sqrt(size)
        layer = without_draws(torch.nn.Linear, size, outputs, **options)
        layer.weight.data, layer.bias.data = start[:, :-1].contiguous(), start[:, -1].contiguous()
        layers += [torch.nn.GELU(), layer] if layers else [layer]
    return torch.nn.Sequential(*layers)


def _as_map(model: Any) -> NetworkMap:
    """Return a copy of the network as a map, which needs no torch."""
    arrays = [part.detach().numpy().astype(np.float64) for part in model.parameters()]
    return NetworkMap(tuple(arrays[::2]), tuple(arrays[1::2]), "gelu", offset=0.0, floor=FLOOR)


# --- a head's temperature as a signal ------------------------------------------------------------


@route("head_temperature", needs=("features",), care=OUT_OF_FOLD)
def fit_head_temperature(seen: Observed, *, epochs: int = 500, patience: int = 20) -> SignalFit:
    """Fit the temperature head of features, cross-fitted."""
    return _cross_fitted(seen, seen.rows.features, HeadTemperature, epochs, patience)


@route("logit_head_temperature", care=OUT_OF_FOLD)
def fit_logit_head(seen: Observed, *, epochs: int = 500, patience: int = 20) -> SignalFit:
    """Fit the temperature head of logits, cross-fitted."""
    return _cross_fitted(seen, seen.rows.logits, LogitHeadTemperature, epochs, patience)


def _cross_fitted(
    seen: Observed, inputs: FloatArray, kind: type[HeadTemperature], epochs: int, patience: int
) -> SignalFit:
    """Score each sample by a head that did not see it; new rows by one that saw all.

    The head is that of the method ``utemphead``. Where there is too little to train one on, the
    result is no signal, with the flag ``no_router``.
    """
    preds, care = seen.preds, seen.discipline
    wrong = ~preds.correct
    n_folds = min(care.n_folds, int(wrong.sum()), int((~wrong).sum()))
    if n_folds < 2:
        return no_signal(preds.n, no_router=[])
    gaps = Gaps.of(preds)
    split = Split(preds, gaps, objective("nll"), Temperature(1.0), inputs, care)
    fold = stratified_folds(wrong, n_folds, care.seed, preds.clusters)
    heads = []
    for trained_on in (fold >= 0, *(fold != left_out for left_out in range(n_folds))):
        part = replace(split, gaps=replace(gaps, weight=gaps.weights * trained_on))
        head = fit_head(part, protocol="fixed", epochs=epochs, patience=patience).map
        if not isinstance(head, NetworkMap):
            return no_signal(preds.n, no_router=[])
        heads.append(head)
    whole, *others = heads
    scores = np.empty(preds.n)
    for left_out, head in enumerate(others):
        scores[fold == left_out] = head(inputs[fold == left_out])
    signal = kind(whole.weights, whole.biases)
    flags: dict[str, list[int]] = {"fewer_folds": []} if n_folds < care.n_folds else {}
    return SignalFit(scores, signal, signal.scores(seen.rows), flags)
