"""Without smallcal-lab the product works, and what the lab brings says what to install."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import smallcal as sc
from smallcal.calibrators.catalogue import LAB
from support.cases import EXPORTABLE, require_package
from support.simulated import simulate

SOURCE = Path(sc.__file__).parents[1]


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    """Run Python where the lab cannot be imported and offers nothing; give code and output."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "smallcal_lab.py").write_text("raise ImportError('no lab here')")
    hidden = folder / "smallcal_lab-0.dist-info" / "METADATA"
    hidden.parent.mkdir()
    hidden.write_text("Metadata-Version: 2.1\nName: smallcal-lab\nVersion: 0\n")
    path = os.pathsep.join([str(folder), str(SOURCE)])

    def run(*words):
        done = subprocess.run(
            [sys.executable, *map(str, words)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path, "COLUMNS": "80"},
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.mark.parametrize(
    "words",
    [
        ("study", "list"),
        ("paper", "--plan"),
        ("train", "recipe.toml"),
        ("logits", "timm:resnet18", "folder:images", "-o", "out"),
        ("fit", "cal.npz", "--method", "smart-bce", "-o", "cal.json"),
        ("fit", "cal.npz", "--method", "svs", "-o", "cal.json"),
    ],
    ids=" ".join,
)
def test_what_the_lab_brings_says_what_to_install(outside, words):
    code, out, err = outside("-m", "smallcal", *words)
    assert (code, out) == (2, "")
    assert err.startswith("smallcal: error: ")
    assert err.count("\n") == 1
    assert "pip install 'smallcal[lab]'" in err


def test_the_product_works(outside):
    for words in (
        ("-h",),
        ("methods",),
        ("demo", "--export", "."),
        ("fit", "cal.npz", "-o", "cal.json"),
        ("inspect", "cal.json"),
        ("evaluate", "test.npz", "--calibrator", "cal.json", "--n-boot", "0"),
        ("select", "cal.npz", "--candidates", "none,ts-nll,isotonic"),
    ):
        code, _, err = outside("-m", "smallcal", *words)
        assert code == 0, (words, err)
    _, out, _ = outside("-m", "smallcal", "methods")
    assert "isotonic" in out
    assert "smart-bce" not in out


def test_calibrators_of_the_lab_load_apply_and_export(outside, tmp_path):
    z, y = simulate(300, 3)
    features = z[:, :2] * 1.5
    made = []
    for name in sorted(LAB & set(EXPORTABLE) - {"temphead-k3", "utemphead"}):
        if name.startswith("sats-"):
            continue  # the same parts as those of temphead; they train for long
        require_package(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sc.FitWarning)
            fitted = sc.make(name).fit(z, y, features=features)
        fitted.save(tmp_path / f"{name}.json")
        made.append(name)
    assert len(made) > 15
    code, out, err = outside(
        "-c",
        "import sys, numpy as np, smallcal as sc\n"
        "from smallcal.deploy.export import to_python\n"
        "from pathlib import Path\n"
        "z = np.array([[2.0, 1.0, 0.0], [0.0, 3.0, 1.0]])\n"
        f"for file in sorted(Path({str(tmp_path)!r}).glob('*.json')):\n"
        "    cal = sc.load(file)\n"
        "    p = cal.predict_proba(z, features=z[:, :2])\n"
        "    assert np.allclose(p.sum(axis=1), 1), file\n"
        "    to_python(cal.fitted_)\n"
        "print('smallcal_lab' in sys.modules)\n",
    )
    assert (code, out.strip()) == (0, "False"), err
    file = tmp_path / "smart-bce.json"
    for words in (("inspect", file), ("export", file, "--to", "sql")):
        code, out, err = outside("-m", "smallcal", *words)
        assert code == 0, err
    refit = f"import smallcal as sc; sc.load({str(file)!r}).fit([[1.0, 0.0]] * 60, [0, 1] * 30)"
    code, _, err = outside("-c", refit)
    assert (code, "pip install 'smallcal[lab]'" in err) == (1, True)
