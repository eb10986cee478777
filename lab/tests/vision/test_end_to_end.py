"""From images to the tables of the page, in small: drawings of digits, a network, two seeds."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("timm")
pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

from PIL import Image
from sklearn.datasets import load_digits

ROOT = Path(__file__).resolve().parents[3]
END_TO_END = ROOT / "benchmarks" / "end_to_end"

CELLS = """
name = "digits"

[[cell]]
dataset = "digits"
backbone = "resnet8"
seeds = 2
model = "torch:small_resnet:resnet8?width=8"
recipe = "recipe.toml"
train = "folder:digits:train"
split = "20%"
test = "folder:digits:test"
corrupt = {kinds = ["fog", "gaussian_noise"], severities = [1, 5]}
corrupt_images = 60
"""


def write_digits(folder, n=900):
    """Write the first digits of scikit-learn's 1,797 as images of 32 pixels, in class folders."""
    digits = load_digits()
    for row in range(n):
        part = "train" if row < 500 else "test"
        place = folder / part / str(digits.target[row])
        place.mkdir(parents=True, exist_ok=True)
        levels = (255 - digits.images[row] * 255 / 16).astype("uint8")
        Image.fromarray(levels).resize((32, 32)).save(place / f"{row:04d}.png")


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Write images, cells and recipe; return what starts the run."""
    root = tmp_path_factory.mktemp("end-to-end")
    write_digits(root / "data" / "digits")
    (root / "cells.toml").write_text(CELLS, encoding="utf-8")
    recipe = (END_TO_END / "recipe.toml").read_text(encoding="utf-8")
    small = recipe.replace("epochs = 10", "epochs = 3").replace("width = 16", "width = 8")
    small = small.replace("batch_size = 128", "batch_size = 20")
    (root / "recipe.toml").write_text(small, encoding="utf-8")
    ops = ROOT / "tests" / "support" / "torchvision_ops"
    paths = os.pathsep.join([str(ops), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    words = [sys.executable, END_TO_END / "run.py", root / "out", "--data", root / "data"]
    words += ["--file", root / "cells.toml", "--write", root / "page.md"]
    words += ["--study", "--budgets 50,100 --draws 2 --n-boot 200"]

    def started():
        return subprocess.Popen(
            words,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    (root / "page.md").write_text(
        "# Digits\n<!-- begin end-to-end -->\n<!-- end end-to-end -->\nThe end.\n", encoding="utf-8"
    )
    return root, started


def kill_when(process, there):
    """Kill a run and all its children, as soon as something is there."""
    until = time.monotonic() + 120
    while not there() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    said, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL, said


@pytest.mark.slow
def test_from_images_to_tables_with_two_kills(start):
    root, started = start
    out = root / "out"
    # Once while the first network is trained, once while logits are taken.
    checkpoint = out / "runs" / "digits__resnet8__s0" / "last.pt"
    kill_when(started(), checkpoint.exists)
    first = out / "logits" / "digits__resnet8__s0"
    kill_when(started(), (first / "calibration.npz").exists)
    stamp = checkpoint.stat().st_mtime_ns

    process = started()
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert checkpoint.stat().st_mtime_ns == stamp  # what was trained is not trained again

    page = (root / "page.md").read_text(encoding="utf-8")
    assert page.startswith("# Digits\n")
    assert page.endswith("The end.\n")
    for title in ("The networks", "How many samples", "grouped by", "Under corruption"):
        assert title in page
    assert "| `srts-bce` |" in page
    assert "nan" not in page
    assert (out / "report.html").stat().st_size > 10_000
    means = json.loads((out / "clean" / "tables.json").read_text(encoding="utf-8"))["tables"][0]
    accuracy = means["rows"][0][means["header"].index("accuracy %")]["value"]
    assert accuracy > 30  # three epochs on 400 drawings: it learned something
