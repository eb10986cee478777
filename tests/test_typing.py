"""``py.typed`` keeps its word: a user's script passes strict checkers, and a wrong one does not."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import smallcal as sc

FOLDER = Path(__file__).parent / "typing"
GOOD, WRONG = FOLDER / "user_script.py", FOLDER / "wrong_script.py"
SOURCE = Path(sc.__file__).parents[1]


def wrong_lines():
    lines = WRONG.read_text(encoding="utf-8").splitlines()
    return {(WRONG.name, n) for n, line in enumerate(lines, 1) if line.endswith("# wrong")}


def checked(*command, cwd):
    env = {**os.environ, "MYPYPATH": str(SOURCE), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    words = [sys.executable, "-m", *map(str, command)]
    return subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, timeout=600)


def test_the_package_says_that_it_is_typed():
    assert (SOURCE / "smallcal" / "py.typed").is_file()


def test_the_script_runs(tmp_path):
    words = [sys.executable, "-W", "ignore", str(GOOD), str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(words, env=env, capture_output=True, text=True)
    assert done.stdout.startswith("345 classes, NLL 2."), done.stderr
    assert "one entry per row" in done.stdout


@pytest.mark.slow
def test_mypy_agrees_with_a_users_script(tmp_path):
    """With no settings but --strict, as a user has none of ours."""
    pytest.importorskip("mypy")
    words = ("--strict", "--config-file=", "--follow-imports=silent", "--no-error-summary")
    done = checked("mypy", *words, "--cache-dir", tmp_path, GOOD, WRONG, cwd=tmp_path)
    found = re.findall(r"(\w+\.py):(\d+): error", done.stdout)
    assert {(name, int(line)) for name, line in found} == wrong_lines(), done.stdout + done.stderr


def test_pyright_agrees_with_a_users_script(tmp_path):
    pytest.importorskip("pyright", reason="pyright is not installed")
    try:
        ready = checked("pyright", "--version", cwd=tmp_path)
    except subprocess.TimeoutExpired:
        pytest.skip("pyright cannot fetch its program here")
    if ready.returncode:
        pytest.skip(f"pyright cannot fetch its program here: {ready.stderr.strip()[-200:]}")
    settings = {"include": ["."], "extraPaths": [str(SOURCE)], "typeCheckingMode": "strict"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    for script in (GOOD, WRONG):
        (tmp_path / script.name).write_text(script.read_text(encoding="utf-8"), encoding="utf-8")
    done = checked("pyright", "--outputjson", "--pythonpath", sys.executable, cwd=tmp_path)
    told = json.loads(done.stdout)
    assert told["summary"]["filesAnalyzed"] == 2
    errors = {
        (Path(one["file"]).name, one["range"]["start"]["line"] + 1)
        for one in told["generalDiagnostics"]
        if one["severity"] == "error"
    }
    assert errors == wrong_lines(), done.stdout
