"""Style, types and layers are part of the tests."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

COMMANDS = {
    "ruff": [sys.executable, "-m", "ruff", "check", "."],
    "ruff format": [sys.executable, "-m", "ruff", "format", "--check", "."],
    "mypy": [sys.executable, "-m", "mypy"],
    "importlinter": [
        sys.executable,
        "-c",
        "from importlinter.cli import lint_imports_command; lint_imports_command()",
    ],
}


@pytest.mark.parametrize("tool", COMMANDS)
def test_the_code_is_clean(tool):
    if importlib.util.find_spec(tool.split()[0]) is None:
        pytest.skip(f"{tool} is not installed: the light run has no developer tools")
    done = subprocess.run(COMMANDS[tool], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


def test_modules_stay_small():
    sizes = {path: len(path.read_text().splitlines()) for path in (ROOT / "src").rglob("*.py")}
    assert {str(path): size for path, size in sizes.items() if size > 420} == {}
