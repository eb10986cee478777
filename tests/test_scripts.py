"""Scripts that make what the repository holds: they still make it."""

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import make_digits_cell
from support import real


def test_the_digits_cell_is_the_one_that_was_written_down():
    assert hashlib.sha256(make_digits_cell.FILE.read_bytes()).hexdigest() == make_digits_cell.SHA256


def test_the_digits_cell_can_be_made_again():
    made, kept = make_digits_cell.made(), real.cell("digits10__mlp")
    assert made.keys() == kept.keys()
    for split in ("val", "test"):
        np.testing.assert_array_equal(made[f"{split}_labels"], kept[f"{split}_labels"])
        logits, expected = made[f"{split}_logits"], kept[f"{split}_logits"]
        assert (logits.argmax(axis=1) == expected.argmax(axis=1)).mean() > 0.99
        np.testing.assert_allclose(logits, expected, atol=0.1)  # other builds add in another order


def test_every_benchmark_can_be_imported():
    """What a benchmark takes from another module is still there; none is run."""
    pytest.importorskip("torch", reason="some benchmarks are about torch")
    folder = Path(__file__).parents[1] / "benchmarks"
    names = sorted(file.stem for file in folder.glob("*.py"))
    program = (
        "import importlib, sys\n"
        f"sys.path.insert(0, {str(folder)!r})\n"
        f"for name in {names!r}: importlib.import_module(name)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(names) > 30
