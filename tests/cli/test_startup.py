"""Nothing heavy is loaded for a verb that does not need it: here is what each may load."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import smallcal as sc

#: What takes long to load. SciPy is a small door to large parts, each of which counts for itself.
HEAVY = (
    *("numpy", "pydantic", "rich", "pandas", "torch", "matplotlib", "pyarrow", "h5py", "PIL"),
    *("joblib", "sklearn", "jinja2", "onnx", "onnxruntime", "dask", "filelock", "asyncio", "numba"),
    *("scipy.fft", "scipy.interpolate", "scipy.linalg", "scipy.ndimage", "scipy.optimize"),
    *("scipy.sparse", "scipy.special", "scipy.stats"),
)
NUMPY, RICH, SPECIAL, LINALG = {"numpy"}, {"rich"}, {"scipy.special"}, {"scipy.linalg"}
#: CubicSpline comes with most of SciPy.
PARTS = ("fft", "interpolate", "linalg", "optimize", "sparse", "special")
SPLINE = {f"scipy.{part}" for part in PARTS}

#: What each line may load: a table needs rich, a number that was typed pydantic.
MAY_LOAD = {
    "": RICH,
    "--version": set(),
    "methods": NUMPY | RICH,
    "methods --json": NUMPY,
    "cite": NUMPY,
    "cite srts-bce smece --json": NUMPY | {"pydantic"},  # a list of names
    "doctor": RICH,
    "doctor --json": set(),
    "inspect cal.json": NUMPY | RICH,
    "inspect cal.json --json": NUMPY,
    "fit data.npz -o new.json": NUMPY | RICH | LINALG,
    "fit data.csv --seed 3 --json": NUMPY | LINALG | {"pydantic"},
    "apply cal.json data.npz -o p.npy": NUMPY,
    "export cal.json -o cal.py": NUMPY,
    "monitor cal.json data.npz": NUMPY | SPECIAL,
    "certify cal.json data.npz --risk 20%": NUMPY | SPECIAL | {"pydantic"},
    "evaluate data.npz --n-boot 0": NUMPY | RICH | SPLINE | {"pydantic"},
    "compare data.npz data.npz --methods none,ts-nll --n-boot 0": NUMPY
    | RICH
    | SPLINE
    | {"pydantic"},
    "select data.npz --repeats 1": NUMPY | RICH | SPECIAL | LINALG | {"pydantic"},
    "study list": NUMPY | RICH,
    "fit missing.npz": NUMPY,
    "no-such-verb": set(),
}
#: Verbs that work for long are asked for their help: what stands at the top of their modules.
HELPED = {
    **dict.fromkeys(("audit", "logits", "paper", "plan", "select", "study", "train"), frozenset()),
    **dict.fromkeys(("demo", "refresh", "report"), frozenset(SPECIAL)),
    "adapt": SPECIAL | {"scipy.linalg"},
}
MAY_LOAD |= {f"{verb} -h": NUMPY | RICH | more for verb, more in HELPED.items()}

#: Each line in a fork of a process that has loaded typer, and NumPy once it may.
PROGRAM = """
import io, json, os, sys
from contextlib import redirect_stderr, redirect_stdout
from smallcal.cli import run
lines, heavy = json.load(sys.stdin)
for line, known in lines:
    for name in known:
        __import__(name)
    if os.fork():
        os.wait()
        continue
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as said:
        code = run(line.split())
    print(json.dumps([line, code, [name for name in heavy if name in sys.modules]]), flush=True)
    os._exit(0)
"""


#: Lines that do not end with 0.
CODES = {"fit missing.npz": 2, "no-such-verb": 2}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """Return what each line loads, and its exit code."""
    folder = tmp_path_factory.mktemp("startup")
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=400)
    z = (rng.normal(size=(400, 4)) + 2 * np.eye(4)[y]).astype(np.float32)
    np.savez(folder / "data.npz", logits=z, labels=y)
    rows = (",".join(map(str, [*row, label])) for row, label in zip(z, y, strict=True))
    (folder / "data.csv").write_text("\n".join(["logit_0,logit_1,logit_2,logit_3,label", *rows]))
    sc.Calibrator().fit(z[::2], y[::2]).save(folder / "cal.json")
    light = sorted(MAY_LOAD, key=lambda line: "numpy" in MAY_LOAD[line])
    lines = [(line, ["typer.main", *(NUMPY & MAY_LOAD[line])]) for line in light]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([lines, HEAVY]),
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    found = map(json.loads, done.stdout.splitlines())
    return {line: (code, set(names)) for line, code, names in found}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("line", MAY_LOAD)
def test_a_verb_loads_what_it_needs(loaded, line):
    code, names = loaded[line]
    assert code == CODES.get(line, 0)
    assert names <= MAY_LOAD[line]
