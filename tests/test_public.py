"""The public surface: exactly these names, light to import, the contract runs as written."""

import doctest
import subprocess
import sys
from pathlib import Path

import smallcal as sc

ROOT = Path(__file__).parents[1]


def test_all_is_exactly_what_is_public():
    for name in sc.__all__:
        assert getattr(sc, name) is not None
    assert sorted(dir(sc)) == sorted(sc.__all__)
    assert len(set(sc.__all__)) == len(sc.__all__)


def test_importing_smallcal_loads_nothing_heavy():
    # scikit-learn itself loads pandas where that is installed; what smallcal adds is tested.
    program = (
        "import sys, sklearn.base, scipy.fft, scipy.optimize; before = set(sys.modules);"
        "import smallcal; smallcal.SRTS; smallcal.evaluate; smallcal.compare;"
        "heavy = {'torch', 'matplotlib', 'pyarrow', 'pandas', 'h5py', 'dask', 'onnx', 'typer'};"
        "print(sorted(heavy & (set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_the_contract_in_the_guide_runs():
    results = doctest.testfile(
        str(ROOT / "docs" / "guide.md"),
        module_relative=False,
        optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE,
    )
    assert results.attempted > 15
    assert results.failed == 0


def test_the_readme_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    results = doctest.testfile(
        str(ROOT / "README.md"),
        module_relative=False,
        optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE,
    )
    assert results.attempted >= 5
    assert results.failed == 0


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(sc, "nothing")
