"""Random numbers that depend on what they are for, and on nothing that came before.

Every image of every epoch has its own seed. So the same seed gives the same run however many
processes load or train, and a run that was stopped goes on as if it had not been.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from smallcal.data.predictions import IntArray

#: What numbers are drawn for.
START, ORDER, DROPOUT, IMAGE, MIX = range(5)


def seed_of(*key: int) -> int:
    """Return a seed of 64 bits for a few numbers.

    Examples
    --------
    >>> seed_of(0, IMAGE, 3, 17) == seed_of(0, IMAGE, 3, 17) != seed_of(0, IMAGE, 17, 3)
    True
    """
    text = ",".join(map(str, key)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def draw_from(*key: int) -> None:
    """Let all generators begin anew, as the key says: Python's, NumPy's and torch's on the CPU."""
    import torch

    seed = seed_of(*key)
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - timm and torchvision draw from this one
    torch.default_generator.manual_seed(seed)


@contextmanager
def own_chance() -> Iterator[None]:
    """Leave all generators as they were, whatever the block draws."""
    import torch

    before = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        torch.set_rng_state(before[2])


def order_of(n: int, *, seed: int, epoch: int) -> IntArray:
    """Return the order in which an epoch goes through the images.

    Examples
    --------
    >>> sorted(order_of(5, seed=0, epoch=1).tolist())
    [0, 1, 2, 3, 4]
    """
    rng = np.random.default_rng(seed_of(seed, ORDER, epoch))
    return rng.permutation(n)
