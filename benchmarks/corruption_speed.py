"""How many images per second each corruption makes: `python benchmarks/corruption_speed.py`.

Real photographs (scikit-learn's), one process, one thread, severities 1 to 5 in turn, best of
three rounds. `--sizes 32 224` are the sides in pixels; `--write docs/lab/vision.md` puts the
table into the page.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import argparse
import time
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images

from smallcal_lab.corruption_names import SEVERITIES
from smallcal_lab.vision import CORRUPTIONS, corrupt

ROUNDS = 3
BEGIN, END = "<!-- speed of corruptions -->", "<!-- end of speed -->"


def images(size, n=4):
    whole = [Image.fromarray(one) for one in load_sample_images().images]
    return [np.asarray(whole[i % len(whole)].resize((size, size))) for i in range(n)]


def per_second(kind, shown):
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for number, image in enumerate(shown):
            for severity in SEVERITIES:
                corrupt(image, kind, severity, seed=0, image_id=number)
        best = min(best, time.perf_counter() - start)
    return len(shown) * len(SEVERITIES) / best


def table(sizes):
    heads = "".join(f" {size} pixels |" for size in sizes)
    lines = [f"| images per second |{heads}", "|---|" + "---:|" * len(sizes)]
    shown = {size: images(size) for size in sizes}
    for kinds in CORRUPTIONS.values():
        for kind in kinds:
            cells = [f" {_plain(per_second(kind, shown[size]))} |" for size in sizes]
            lines.append(f"| `{kind}` |{''.join(cells)}")
    return "\n".join(lines)


def _plain(number):
    """Return two digits: more would not come out again."""
    return f"{float(f'{number:.2g}'):,.0f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[32, 224])
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    made = table(asked.sizes)
    print(made)
    if asked.write:
        page = asked.write.read_text(encoding="utf-8")
        before, rest = page.split(BEGIN)
        after = rest.split(END)[1]
        asked.write.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
