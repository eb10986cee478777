"""What select, audit and plan take on the demo, with every core there is."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from ratio import Ratio, commands, verbs

VERBS = {
    f"{verb}`, the demo's 1,250 x 345": (f"{verb} cal.npz", 5.0)
    for verb in ("select", "audit", "plan")
}


def rows() -> Iterator[Ratio]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        commands(("-m", "smallcal", "demo", "--export", "."), folder=folder, repeats=0)
        yield from verbs(VERBS, folder, repeats=3)
