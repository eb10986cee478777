"""Files that people and tools expect beside the code: they parse, and agree with one another."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import release_check

ROOT = Path(__file__).parents[1]
if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
YAML = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*(ROOT / ".github").rglob("*.yml"), ROOT / ".pre-commit-config.yaml")
)


@pytest.mark.parametrize("name", YAML)
def test_yaml_parses(name):
    yaml = pytest.importorskip("yaml")
    assert yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def workflow(name):
    yaml = pytest.importorskip("yaml")
    found = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text(encoding="utf-8"))
    return found["jobs"], found["permissions"]


def test_every_supported_python_is_tested():
    jobs, _ = workflow("tests.yml")
    tested = set(jobs["core"]["strategy"]["matrix"]["python"])
    named = {
        line.rpartition(" ")[2]
        for line in PYPROJECT["project"]["classifiers"]
        if re.search(r"Python :: 3\.\d+$", line)
    }
    assert tested == named
    assert f">={min(tested, key=lambda v: int(v[2:]))}" == PYPROJECT["project"]["requires-python"]
    assert "test-lowest" in str(jobs["lowest"])
    assert ".ci/run" in str(jobs["full"])


def test_the_upload_needs_no_token_and_may_do_nothing_else():
    jobs, permissions = workflow("release.yml")
    assert permissions == {"contents": "read"}
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["publish"]["environment"]["name"] == "pypi"
    assert "secrets." not in (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert "make release-check" in str(jobs["build"])


def test_workflows_run_targets_that_exist():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.M))
    called = {
        target
        for path in (ROOT / ".github" / "workflows").glob("*.yml")
        for target in re.findall(r"run: make ([\w-]+)", path.read_text(encoding="utf-8"))
    }
    assert {"test-core", "test-lowest", "release-check", "docs"} == called
    assert called - {"docs"} <= targets  # docs: see the site's own tests


def test_addresses_are_one_and_the_same():
    urls = PYPROJECT["project"]["urls"]
    assert set(urls) == {"Homepage", "Documentation", "Source", "Issues", "Changelog"}
    for name in ("CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        ours = re.findall(r"https://github\.com/smallcal/[\w-]+", text)
        assert ours
        assert set(ours) == {urls["Source"]}, name
    config = (ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml").read_text(encoding="utf-8")
    assert urls["Documentation"] in config


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md"])
def test_links_to_files_lead_somewhere(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (ROOT / target).exists(), target


def test_the_sources_hold_what_is_looked_for():
    included = PYPROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    for name in release_check.IN_SOURCES:
        assert (ROOT / name).is_file(), name
        assert name == "pyproject.toml" or name.partition("/")[0] in included, name


def test_sp_repo_review_finds_nothing_that_is_not_explained():
    pytest.importorskip("sp_repo_review", reason="of the dev extra")
    done = subprocess.run(
        [sys.executable, "-m", "repo_review", "--format", "json", str(ROOT)],
        capture_output=True,
        text=True,
    )
    checks = json.loads(done.stdout)["checks"]
    assert len(checks) > 30
    assert [name for name, told in checks.items() if told["result"] is False] == []


# --- the checks of a release can fail


@pytest.mark.parametrize(
    ("told", "fine"),
    [
        ("BSD-3-Clause", True),
        ("MIT License", True),
        ("Apache Software License", True),
        ("Python Software Foundation License", True),
        ("Proprietary", False),
        ("submitted", False),
        ("", False),
    ],
)
def test_licences_are_told_apart(told, fine):
    assert bool(release_check.OPEN.search(told)) is fine


def test_a_wheel_that_is_too_heavy_or_missing_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(release_check, "DIST", tmp_path)
    with pytest.raises(release_check.Failure, match="dist has 0 files"):
        release_check.size()
    wheel = tmp_path / "smallcal-0.1.0-py3-none-any.whl"
    wheel.write_bytes(bytes(release_check.MAX_WHEEL - 1))
    assert release_check.size().startswith("1,999,999 bytes")
    wheel.write_bytes(bytes(release_check.MAX_WHEEL))
    with pytest.raises(release_check.Failure, match="2,000,000 bytes"):
        release_check.size()


def test_a_check_that_fails_gives_one(capsys, monkeypatch):
    def build():
        raise release_check.Failure("no compiler")

    monkeypatch.setattr(release_check, "build", build)
    assert release_check.main([]) == 1
    assert capsys.readouterr().out == "FAIL  build: no compiler\n1 failed\n"


def test_a_program_that_fails_is_shown():
    with pytest.raises(release_check.Failure, match=r"ended with 3\n +what is wrong"):
        release_check.run(sys.executable, "-c", "print('what is wrong'); raise SystemExit(3)")


@pytest.mark.parametrize(
    "told", [{"metrics": {"nll": {"value": 2.5}}}, {"metrics": {"nll": 2.5}}, {"nll": 2.5}]
)
def test_a_value_is_found_in_what_evaluate_says(told):
    assert release_check._value(told) == 2.5
