"""The torch module against `torch.softmax(z / 1.5, 1)`: float32, one thread, nothing else asked."""

from __future__ import annotations

from collections.abc import Iterator

import torch

import smallcal as sc
from ratio import Ratio, in_turns, logits

#: By method: what to call it, and the bound for a batch.
METHODS = {
    "ts-nll": ("one temperature", 25.0),
    "srts-bce": ("SRTS", 35.0),
    "default": ("the default", 45.0),
}
#: Each of some dozen operations costs torch some microseconds, whatever the size.
ONE_ROW = 250.0
#: `torch.compile` makes few passes over the rows of the many.
COMPILED = 10.0


def against_softmax(what, module, x, bound, **how) -> Ratio:
    times = in_turns(lambda: module(x), lambda: torch.softmax(x / 1.5, 1), **how)
    return Ratio.of(what, "`torch.softmax`", *times, bound)


def rows() -> Iterator[Ratio]:
    torch.set_num_threads(1)
    for n_classes, repeats, calls in ((1_000, 15, 1), (100, 20, 5)):
        z, y = logits(10_000, n_classes)
        x = torch.from_numpy(z)
        one = x[:1].clone()
        size = f"10,000 x {n_classes:,}"
        for method, (name, bound) in METHODS.items():
            module = sc.make(method).fit(z[:2_500], y[:2_500]).to_torch()
            yield against_softmax(f"{name}, {size}", module, x, bound, repeats=repeats, calls=calls)
            row = f"{name}, one row of {n_classes:,}"
            yield against_softmax(row, module, one, ONE_ROW, repeats=50, calls=50)
        if n_classes == 1_000:  # compiling takes a minute or two
            fused = torch.compile(module, fullgraph=True)
            what = f"the default by `torch.compile`, {size}"
            with torch.no_grad():
                yield against_softmax(what, fused, x, COMPILED, repeats=repeats)
