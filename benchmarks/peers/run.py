"""smallcal beside other packages: `make compare-peers`, or `python benchmarks/peers/run.py`.

Runs every claim (what each package can do, shown by lines that run), then one benchmark with the
same data and protocol for all, and prints Markdown; `--write docs/comparison.md` puts each part
between its marks there. What is not installed is said to be so. Environment, apart from
the one for development::

    python3 -m venv .venv-peers
    .venv-peers/bin/pip install -e '.[report,onnx]' -r benchmarks/peers/requirements.txt

SMALLCAL_DATA names a folder of real logits; without it the table of real logits is left out.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ.setdefault("MPLBACKEND", "agg")

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

if __name__ == "__main__":  # so that modules here are `peers.…`, and shadow no one's
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from peers import claims, packages

#: Modules whose proofs are loaded; each names its packages' imports inside.
SHOWS = ("smallcal", "netcal", "probmetrics", "sklearn", "mapie", "torch_uncertainty", "others")


def load_proofs() -> None:
    """Fill the table of claims."""
    import_module("peers.features")
    for name in SHOWS:
        import_module(f"peers.show_{name}")


def features() -> str:
    """Return the tables of features."""
    from peers.world import World

    load_proofs()
    return claims.tables(claims.run_all(World()))


def quality() -> str:
    """Return the tables of the benchmark."""
    from peers import quality as room
    from peers import sets

    return room.report(room.collect(sets.cells(sets.folder_given())))


def robust() -> str:
    """Return the table of hard cases."""
    from peers import robust as room

    return "\n".join(room.report())


def times() -> str:
    """Return the table of times."""
    from peers import times as room

    return "\n".join(room.report())


PARTS: dict[str, Callable[[], str]] = {
    "packages": lambda: "\n".join(packages.table()),
    "features": features,
    "quality": quality,
    "robust": robust,
    "times": times,
}


def marks(part: str) -> tuple[str, str]:
    """Return the comments between which a part stands on the page."""
    return f"<!-- begin {part} -->", f"<!-- end {part} -->"


def put(page: str, part: str, text: str) -> str:
    """Return a page with a part replaced."""
    begin, end = marks(part)
    if page.count(begin) != 1 or page.count(end) != 1:
        raise SystemExit(f"the page has no place for {part}: {begin} ... {end}")
    before, rest = page.split(begin)
    return f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--write", type=Path, help="put the tables into this page")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for part in options.only:
        start = time.perf_counter()
        text = PARTS[part]()
        print(f"\n## {part}\n\n{text}", flush=True)
        print(f"{part}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
        if options.write is not None:
            page = options.write.read_text(encoding="utf-8")
            options.write.write_text(put(page, part, text), encoding="utf-8")


if __name__ == "__main__":
    main()
