"""Methods of other packages: the page on adding a method, followed word by word, from outside."""

import json
import os
import re
import subprocess
import sys
import zipfile
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

import smallcal as sc
from smallcal.calibrators import plugins
from smallcal.calibrators.catalogue import METHODS, method
from smallcal.calibrators.method import Method
from support.refused import refused
from support.simulated import simulate

PAGE = Path(__file__).parents[2] / "docs" / "contributing" / "adding-a-method.md"
SOURCE = str(Path(sc.__file__).parents[1])


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.S)


def wheel(folder):
    """A package with the page's map, its row as a Method, and its entry point."""
    _, part, row = blocks("python")
    (entry,) = blocks("toml")
    module = part.replace(
        "from smallcal.calibrators.parts",
        "from smallcal.calibrators.method import Method\nfrom smallcal.calibrators.parts",
    )
    named = row.partition(":")[2].strip().rstrip(",")
    points = entry.splitlines()[1].replace('"', "")
    info = "mycal-1.0.dist-info"
    files = {
        "mycal/__init__.py": "",
        "mycal/methods.py": f"{module}\n\nRAISED_RISK = {named}\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: mycal\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[smallcal.methods]\n{points}\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    path = folder / "mycal-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder where the package is installed, and a calibration and a test file."""
    folder = tmp_path_factory.mktemp("outside")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    target = folder / "site"
    done = subprocess.run(
        [*pip, "--disable-pip-version-check", "--target", str(target), str(wheel(folder))],
        capture_output=True,
        text=True,
    )
    if "No module named pip" in done.stderr:
        pytest.skip("pip is not installed here")
    assert done.returncode == 0, done.stderr
    for name, seed in (("cal", 0), ("test", 1)):
        z, y = simulate(500, 5, seed=seed)
        np.savez(folder / f"{name}.npz", logits=z.astype(np.float32), labels=y)
    return folder


@pytest.fixture(scope="module")
def outside(installed):
    """Run a command where the package is installed; what it printed."""

    def run(*command):
        path = os.pathsep.join([str(installed / "site"), SOURCE])
        done = subprocess.run(
            [sys.executable, *command],
            capture_output=True,
            text=True,
            cwd=installed,
            env={**os.environ, "PYTHONPATH": path},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


IN_PYTHON = """
import numpy as np, smallcal as sc
from smallcal.deploy.export import to_onnx, to_python, to_sql
cal, test = np.load("cal.npz"), np.load("test.npz")
made = sc.make("raised-risk").fit(cal["logits"], cal["labels"])
made.save("again.json")
p = made.predict_proba(test["logits"])
np.testing.assert_array_equal(sc.load("again.json").predict_proba(test["logits"]), p)
assert made.fitted_.map.kind == "raised" and made.n_parameters_ == 9 and 0 <= made.fitted_.map.rise
assert (p.argmax(axis=1) == test["logits"].argmax(axis=1)).all()
space = {}
exec(to_python(made.fitted_), space)
found = [space["calibrate"](row) for row in test["logits"][:50].tolist()]
np.testing.assert_allclose(found, p[:50], rtol=3e-7, atol=1e-6)
assert "CREATE" in to_sql(made.fitted_).upper()
other = sc.Calibrator(method="raised-risk", options={"most": 0.0})
assert other.fit(cal["logits"], cal["labels"]).method_ == "raised-risk[most=0.0]"
try:
    import torch
except ImportError:
    pass
else:
    module = made.to_torch()
    there = module(torch.as_tensor(test["logits"])).numpy()
    np.testing.assert_allclose(there, p, rtol=1e-5, atol=1e-6)
try:
    import onnxruntime
except ImportError:
    pass
else:
    session = onnxruntime.InferenceSession(to_onnx(made.fitted_))
    (there,) = session.run(["probabilities"], {"logits": test["logits"]})
    np.testing.assert_allclose(there, p, rtol=1e-5, atol=1e-6)
print("fine")
"""


def test_python_makes_fits_saves_loads_and_exports_it(outside):
    assert outside("-c", IN_PYTHON).strip() == "fine"


def test_the_command_line_knows_it(outside, installed):
    run = ("-m", "smallcal")
    assert "raised-risk" in outside(*run, "methods")
    said = outside(*run, "fit", "cal.npz", "--method", "raised-risk", "-o", "cal.json")
    assert "divided by a temperature that rises with a logistic score of its logits" in " ".join(
        said.split()
    )
    assert "raised-risk" in outside(*run, "inspect", "cal.json")
    outside(*run, "apply", "cal.json", "test.npz", "-o", "p.npy")
    assert np.load(installed / "p.npy").shape == (500, 5)
    for suffix in ("py", "sql"):
        outside(*run, "export", "cal.json", "-o", f"cal.{suffix}")
    table = outside(*run, "compare", "cal.npz", "test.npz", "--methods", "tva-ts,raised-risk")
    assert "raised-risk" in table
    outside(*run, "report", "cal.npz", "test.npz", "--methods", "raised-risk", "-o", "report.json")
    content = json.loads((installed / "report.json").read_text(encoding="utf-8"))
    assert "raised-risk" in json.dumps(content["methods"])


def test_without_the_package_its_calibrator_is_refused_in_one_line(outside, installed):
    outside("-c", IN_PYTHON)
    with refused("artefact-damaged", "'raised'"):
        sc.load(installed / "again.json")


@pytest.fixture
def offers(monkeypatch):
    """Pretend that packages offer methods."""

    def pretend(**values):
        entries = {
            name.replace("_", "-"): EntryPoint(name, value, plugins.METHODS)
            for name, value in values.items()
        }
        monkeypatch.setattr(plugins, "offered", lambda group: entries)

    def forget():
        plugins.load.cache_clear()
        plugins.methods.cache_clear()

    forget()
    yield pretend
    forget()


def test_a_package_that_cannot_be_imported_is_left_out_and_named(offers):
    offers(broken="no_such_package:METHOD")
    with pytest.warns(RuntimeWarning, match=r"left out: the method 'broken' of the package"):
        assert "broken" not in list(METHODS)
    with refused("plugin-unusable", "'broken'"):
        method("broken")


def test_what_is_offered_must_be_a_method(offers):
    offers(odd="math:pi")
    with refused("plugin-unusable", "'odd'"):
        method("odd")


def test_a_name_of_ours_stays_ours(offers):
    offers(**{"tva-ts": "math:pi"})
    assert isinstance(method("tva-ts"), Method)
    assert list(METHODS).count("tva-ts") == 1
