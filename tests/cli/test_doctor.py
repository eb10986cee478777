"""``smallcal doctor``: what it says of whole, incomplete and broken installations."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path

import pytest

from smallcal.cli import installation
from smallcal.cli.installation import PURPOSES, Package, core, extras

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PYPROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
#: Extras that only developers need.
OF_DEVELOPERS = {"test", "dev", "docs", "release"}


@pytest.fixture
def only(monkeypatch):
    """Pretend that these packages are installed, and no others."""

    def pretend(**found):
        def version(name):
            try:
                return found[name.replace("-", "_")]
            except KeyError:
                raise metadata.PackageNotFoundError(name) from None

        monkeypatch.setattr(installation.metadata, "version", version)

    return pretend


def installed_core(**changes):
    return {package.name.replace("-", "_"): "99.0" for package in core()} | changes


def test_the_extras_are_those_of_the_package():
    assert set(PURPOSES) == set(PYPROJECT["optional-dependencies"]) - OF_DEVELOPERS
    assert all(packages for packages in extras().values())


def test_the_core_is_what_the_package_depends_on():
    names = {line.partition(">")[0].strip() for line in PYPROJECT["dependencies"]}
    if sys.version_info >= (3, 11):
        names.discard("tomli")
    assert {package.name for package in core()} == names
    assert {package.name: package.least for package in core()}["numpy"] == "1.26"


def test_an_extra_of_extras_has_all_of_their_packages():
    found = {name: {package.name for package in packages} for name, packages in extras().items()}
    assert found["formats"] == {"pyarrow", "h5py", "safetensors", "torch"}
    assert found["parquet"] == {"pyarrow"}
    assert found["report"] == {"jinja2", "matplotlib"}
    assert found["dask"] == {"dask"}
    assert found["formats"] - {"torch"} < found["all"]
    assert "torch" not in found["all"]


@pytest.mark.parametrize(
    ("least", "found", "fine"),
    [
        ("1.26", "1.26", True),
        ("1.26", "1.26.4", True),
        ("1.26.0", "1.26", True),
        ("1.26", "2.0.0rc1", True),
        ("2.4", "2.13.0+cpu", True),
        ("1.26", "1.9.3", False),
        ("", "0.1", True),
        ("1.26", None, False),
    ],
)
def test_versions_are_compared_as_numbers(least, found, fine):
    assert Package("one", least, found).fine is fine


def test_a_whole_installation(cli, only):
    only(**installed_core(), jinja2="99", matplotlib="3.8.0")
    code, out, err = cli("doctor")
    assert (code, err) == (0, "")
    table, _, rest = out.partition("To get what is missing:")
    rows = dict(line.split()[:2] for line in table.splitlines() if len(line.split()) > 2)
    assert rows["report"] == rows["plots"] == "yes"
    assert rows["onnx"] == rows["all"] == "no"
    assert "pip install 'smallcal[onnx]'" in rest
    assert "pip install 'smallcal[report]'" not in rest
    assert "onnxruntime is missing" in rest


def test_json_says_how_to_get_what_is_missing(cli, only):
    only(**installed_core(), pyarrow="1.0")
    code, out, err = cli("doctor", "--json")
    told = json.loads(out)
    assert (code, err, told["fine"]) == (0, "", True)
    assert told["extras"]["parquet"] == {
        "installed": False,
        "for": PURPOSES["parquet"],
        "install": "pip install 'smallcal[parquet]'",
        "packages": [{"name": "pyarrow", "least": "14", "found": "1.0", "fine": False}],
    }
    assert told["cores"] >= 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"numpy": "1.20"}, "numpy 1.20 is too old (1.26 or newer is needed)"),
        ({"scipy": None}, "scipy is missing"),
    ],
)
def test_a_broken_core_ends_with_one(cli, only, changes, said):
    only(**{k: v for k, v in installed_core(**changes).items() if v})
    code, out, err = cli("doctor")
    assert code == 1
    assert said in " ".join(out.split())
    assert err.count("\n") == 1
    assert f"smallcal cannot run: {said}; pip install --upgrade smallcal" in err


def test_a_module_that_is_gone_is_told(cli, monkeypatch):
    known = installation.util.find_spec
    monkeypatch.setattr(
        installation.util, "find_spec", lambda name: None if name == "joblib" else known(name)
    )
    code, _, err = cli("doctor", "--json")
    assert code == 1
    assert "its module is not there" in err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_that_was_installed_is_seen(cli, monkeypatch, tmp_path, shell):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "Shell completion is not installed" in cli("doctor")[1]
    file = tmp_path / installation._COMPLETIONS[shell]
    file.parent.mkdir(parents=True)
    file.touch()
    assert f"Shell completion is installed for {shell}." in cli("doctor")[1]


def test_limits_on_threads_are_told(cli, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert "OMP_NUM_THREADS=3" in cli("doctor")[1]
