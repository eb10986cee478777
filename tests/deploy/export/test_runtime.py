"""The runtime needs NumPy alone: SciPy and scikit-learn are kept away."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from support.cases import fit
from support.simulated import simulate

PROGRAM = """
import sys

class Away:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("scipy", "sklearn", "pandas", "torch", "numba"):
            raise ImportError(name + " is kept away")

sys.meta_path.insert(0, Away())
import numpy as np
from smallcal.runtime import load

cal, z = load("cal.json"), np.load("z.npy")
given = {"p": cal.predict_proba(z), "c": cal.confidence(z)}
given["own"] = cal.confidence(z, predictions=z.argmax(axis=1))
if cal.map.kind == "multinomial":
    given["t"] = cal.temperature(z)
np.savez("found.npz", **given)
"""


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("name", ["default", "ts-nll"])
def test_numpy_is_enough(name, kept, tmp_path):
    z, y = simulate(400, 5, seed=2)
    if name == "default":
        cal = fit(name, z, y, keep_predictions=kept)
        assert cal.fitted_.map.kind == "multinomial"
    else:
        cal = fit(name, z, y)
    cal.save(tmp_path / "cal.json")
    np.save(tmp_path / "z.npy", z)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = np.load(tmp_path / "found.npz")
    np.testing.assert_array_equal(found["p"], cal.predict_proba(z))
    np.testing.assert_array_equal(found["c"], cal.confidence(z))
    np.testing.assert_array_equal(found["own"], cal.confidence(z, predictions=z.argmax(axis=1)))
    if name == "default":
        np.testing.assert_array_equal(found["t"], cal.temperature(z))
