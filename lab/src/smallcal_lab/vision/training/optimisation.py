"""Optimiser, learning rates and loss: torch's own, set up as a recipe says."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from smallcal.errors import InputError
from smallcal_lab.vision.training.recipe import Loss, Recipe

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer


def optimizer_of(recipe: Recipe, module: nn.Module) -> Optimizer:
    """Return torch's AdamW or SGD over the weights that are trained.

    As in timm, vectors (biases and norms) are not decayed, nor what the model itself names in
    ``no_weight_decay``, such as the embeddings of places.
    """
    from torch import optim

    said = recipe.optimizer
    asked: Any = getattr(module, "no_weight_decay", set)
    spared = asked()
    plain: list[Any] = []
    decayed: list[Any] = []
    for name, weight in module.named_parameters():
        if weight.requires_grad:
            vector = weight.ndim <= 1 or name.endswith(".bias")
            (plain if vector or name in spared else decayed).append(weight)
    if not plain and not decayed:
        raise InputError("the model has no weights that can be trained")
    groups = [
        {"params": plain, "weight_decay": 0.0},
        {"params": decayed, "weight_decay": said.weight_decay},
    ]
    if said.name == "adamw":
        return optim.AdamW(groups, lr=said.lr, betas=(said.betas[0], said.betas[1]), eps=said.eps)
    return optim.SGD(groups, lr=said.lr, momentum=said.momentum, nesterov=said.nesterov)


def rate_of(recipe: Recipe, epoch: int) -> float:
    """Return the learning rate of an epoch, counted from 0.

    Warm-up epochs are the first of those that the cosine is counted over, as in timm.
    """
    said, lr = recipe.schedule, recipe.optimizer.lr
    if epoch < said.warmup_epochs:
        return said.warmup_lr + epoch * (lr - said.warmup_lr) / said.warmup_epochs
    if said.name == "steps":
        return lr * said.factor ** sum(epoch >= step for step in said.milestones)
    if said.name == "constant":
        return lr
    share = epoch / recipe.training.epochs
    return said.final_lr + 0.5 * (lr - said.final_lr) * (1 + math.cos(math.pi * share))


def schedule_of(recipe: Recipe, optimizer: Optimizer) -> Any:
    """Return the scheduler that sets the rate of each epoch."""
    from torch.optim.lr_scheduler import LambdaLR

    return LambdaLR(optimizer, lambda epoch: rate_of(recipe, epoch) / recipe.optimizer.lr)


def loss_of(said: Loss) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the mean loss of logits, for labels or for shares of classes.

    The cross-entropy is torch's, smoothed; the Brier score, the sum of squared differences of
    probabilities over classes, has the same smoothed shares to aim at.
    """
    import torch
    from torch.nn import functional

    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        found = functional.cross_entropy(logits, labels, label_smoothing=said.label_smoothing)
        if not said.brier:
            return found
        classes = logits.shape[1]
        shares = labels if labels.ndim == 2 else functional.one_hot(labels, classes).to(logits)
        shares = shares * (1 - said.label_smoothing) + said.label_smoothing / classes
        gaps = torch.softmax(logits, 1) - shares
        return found + said.brier * gaps.square().sum(1).mean()

    return loss
