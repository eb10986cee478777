"""Check that what would be released works: `make release-check`.

Builds the source archive, the wheel, and those of smallcal-lab into dist/, looks at what is in
them, installs smallcal's wheel with its core dependencies alone into an environment of its own and
uses it there, far from the sources; then adds the lab and uses that. Prints a line for each check;
leaves with 1 if one fails. Needs build, twine and check-wheel-contents, and a package index to
install from.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
MAX_WHEEL = 2_000_000

#: What a person who unpacks the sources looks for.
IN_SOURCES = (
    *("README.md", "CHANGELOG.md", "LICENSE", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md"),
    *("SECURITY.md", "Makefile", "pyproject.toml", "constraints-lowest.txt"),
    *("src/smallcal/py.typed", "tests/test_public.py", "docs/contributing/architecture.md"),
)
#: What the installed package reads besides its modules.
IN_WHEEL = (
    *("smallcal/py.typed", "smallcal/cli/completion.json", "smallcal/data/demo/quickdraw345.npz"),
    *("smallcal/calibrators/calibrator-v3.json",),
)
#: The same of the lab.
IN_LAB = (
    *("smallcal_lab/py.typed", "smallcal_lab/studies/reproduce/frozen/logits.npz"),
    *("smallcal_lab/studies/reproduce/reference.json", "smallcal_lab/vision/paper/paper.toml"),
    "smallcal_lab/vision/training/recipes/paper-sgd.toml",
    "smallcal_lab/vision/corruptions/severities.toml",
    "smallcal_lab/studies/tables/texts.toml",
)
WHEEL, LAB = "smallcal-*.whl", "smallcal_lab-*.whl"
#: What the lab brings.
LAB_COMMANDS = (
    *(("study", "list"), ("study", "reproduce", "--help"), ("paper", "--help")),
    *(("train", "--help"), ("logits", "--help")),
)
#: Words of licences that are open source, as packages spell them.
OPEN = re.compile(
    r"\b(MIT|BSD|Apache|PSF|Python Software Foundation|ISC|MPL|Unlicense|Zlib)\b", re.I
)

#: Runs in the clean environment: the licences of everything that is installed there.
LICENCES = """
import json
from importlib.metadata import distributions
found = {}
for one in distributions():
    about = one.metadata
    said = [about.get("License-Expression") or ""]
    classifiers = about.get_all("Classifier") or ()
    said += [text.rpartition(" :: ")[2] for text in classifiers if "License ::" in text]
    said += [(about.get("License") or "").strip().partition(chr(10))[0]]
    found[about["Name"]] = next((text for text in said if text), "")
print(json.dumps(found))
"""


class Failure(Exception):
    """A check did not pass; the message says why."""


def run(*command: object, cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
    """Run a program and return what it printed; a failure shows the end of that."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True)
    if done.returncode:
        told = (done.stdout + done.stderr).strip().splitlines()[-15:]
        raise Failure("\n      ".join([f"{' '.join(words)} ended with {done.returncode}", *told]))
    return done.stdout


def require(fine: object, reason: str) -> None:
    """Fail for this reason unless all is fine."""
    if not fine:
        raise Failure(reason)


def only(pattern: str) -> Path:
    """Return the one file in dist/ that looks like this."""
    found = list(DIST.glob(pattern))
    require(len(found) == 1, f"dist has {len(found)} files {pattern}")
    return found[0]


# --- the files


def build() -> str:
    """Build all files anew; a wheel is built from its source archive, as others would."""
    shutil.rmtree(DIST, ignore_errors=True)
    for project in (ROOT, ROOT / "lab"):
        run(sys.executable, "-m", "build", "--outdir", DIST, project)
    return ", ".join(sorted(file.name for file in DIST.iterdir()))


def metadata() -> str:
    """Let twine look at what PyPI will show."""
    run(sys.executable, "-m", "twine", "check", "--strict", *DIST.iterdir())
    return "twine has nothing to say"


def contents() -> str:
    """Look at what is packed."""
    packed: set[str] = set()
    for pattern in (WHEEL, LAB):
        run(Path(sys.executable).with_name("check-wheel-contents"), only(pattern))
        with zipfile.ZipFile(only(pattern)) as wheel:
            packed |= set(wheel.namelist())
    with tarfile.open(only("smallcal-*.tar.gz")) as sources:
        names = {name.partition("/")[2] for name in sources.getnames()}
    missing = [name for name in (*IN_WHEEL, *IN_LAB) if name not in packed]
    missing += [name for name in IN_SOURCES if name not in names]
    require(not missing, f"missing: {', '.join(missing)}")
    return f"{len(packed)} files in both wheels, {len(names)} in the source archive"


def size() -> str:
    """Weigh the wheel."""
    weight = only(WHEEL).stat().st_size
    require(weight < MAX_WHEEL, f"{weight:,} bytes; at most {MAX_WHEEL:,} are allowed")
    return f"{weight:,} bytes (below {MAX_WHEEL:,})"


# --- the installed package


class Clean:
    """An environment with the wheel and what it depends on, and a folder to work in."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.work = folder / "environment", folder / "work"
        self.work.mkdir()
        programs = "Scripts" if os.name == "nt" else "bin"
        self.python, self.smallcal = (self.folder / programs / n for n in ("python", "smallcal"))
        # Nothing of the sources, and a terminal of known width.
        hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
        self.env = {k: v for k, v in os.environ.items() if k not in hidden} | {"COLUMNS": "80"}

    def install(self) -> str:
        """Install the wheel, with its core dependencies and nothing else."""
        venv.create(self.folder, with_pip=True)
        pip = (self.python, "-m", "pip", "--disable-pip-version-check")
        run(*pip, "install", "--quiet", only(WHEEL), env=self.env)
        run(*pip, "check", env=self.env)
        where = self.say(self.python, "-c", "import smallcal; print(smallcal.__file__)").strip()
        require(Path(where).is_relative_to(self.folder), f"smallcal comes from {where}")
        installed = run(*pip, "list", "--format=freeze", env=self.env).splitlines()
        files = (file for file in self.folder.rglob("*") if file.is_file())
        weight = sum(file.stat().st_size for file in files if not file.is_symlink())
        return f"{len(installed)} packages, {weight / 1e6:.0f} MB"

    def say(self, *command: object) -> str:
        """Return what a command prints, far from the sources."""
        return run(*command, cwd=self.work, env=self.env)

    def version(self) -> str:
        """Compare what the program says of itself with the name of the wheel."""
        told = self.say(self.smallcal, "--version").split()[-1]
        require(only(WHEEL).name.split("-")[1] == told, f"the program says it is {told}")
        return told

    def imports(self) -> str:
        """Time imports, each the best of five processes, against that of NumPy."""

        def seconds(code: str) -> float:
            timed = f"import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
            return min(float(self.say(self.python, "-c", timed)) for _ in range(5))

        numpy = seconds("import numpy")
        told = [
            f"{code.removeprefix('import ')} {seconds(code) / numpy:.1f}"
            for code in ("import smallcal", "import smallcal.runtime", "import sklearn.base")
        ]
        return f"NumPy in {1000 * numpy:.0f} ms; times as long: {', '.join(told)}"

    def doctor(self) -> str:
        """Ask what is installed: the core, and no extra."""
        told = json.loads(self.say(self.smallcal, "doctor", "--json"))
        require(told["fine"], "doctor is not content")
        extras = [name for name, about in told["extras"].items() if about["installed"]]
        require(not extras, f"these extras are there without having been asked for: {extras}")
        return ", ".join(f"{one['name']} {one['found']}" for one in told["needed"])

    def demo(self) -> str:
        """Run the demo; what it cannot do without an extra is told in a line."""
        told = self.say(self.smallcal, "demo")
        missing = "No report was written: "
        lines = [line for line in told.splitlines() if line.startswith(missing)]
        require(len(lines) == 1, f"no line begins with '{missing}'")
        require(
            "smallcal[report]" in " ".join(told.split()), "the demo does not say what to install"
        )
        require("Brier" in told, "the demo shows no table")
        return lines[0]

    def own_data(self) -> str:
        """Fit, apply and evaluate as a person would, on files."""
        self.say(self.smallcal, "demo", "--export", ".")
        self.say(self.smallcal, "fit", "cal.npz", "-o", "cal.json")
        self.say(self.smallcal, "apply", "cal.json", "test.npz", "-o", "probabilities.npz")
        require((self.work / "probabilities.npz").stat().st_size, "apply wrote nothing")
        words = ("test.npz", "--metrics", "nll", "--n-boot", "0", "--json")
        before = json.loads(self.say(self.smallcal, "evaluate", *words))
        after = json.loads(self.say(self.smallcal, "evaluate", *words, "--calibrator", "cal.json"))
        first, last = (_value(told) for told in (before, after))
        require(last < first, f"calibration raised the NLL from {first:.4f} to {last:.4f}")
        return f"NLL {first:.4f} before, {last:.4f} after"

    def without_lab(self) -> str:
        """Ask for what the lab brings: one line says what to install."""
        asked = [(self.smallcal, *words) for words in LAB_COMMANDS]
        asked.append((self.smallcal, "fit", "cal.npz", "--method", "smart-bce", "-o", "lab.json"))
        for words in asked:
            done = subprocess.run(
                words, cwd=self.work, env=self.env, capture_output=True, text=True
            )
            lines = done.stderr.splitlines()
            fine = done.returncode and len(lines) == 1 and "pip install 'smallcal[lab]'" in lines[0]
            require(fine, f"{' '.join(map(str, words[1:]))} says {done.stderr!r}")
        return f"{len(asked)} commands say what to install"

    def with_lab(self) -> str:
        """Add the lab, and use it."""
        pip = (self.python, "-m", "pip", "--disable-pip-version-check")
        run(*pip, "install", "--quiet", only(LAB), env=self.env)
        run(*pip, "check", env=self.env)
        for words in LAB_COMMANDS:
            self.say(self.smallcal, *words)
        self.say(self.smallcal, "fit", "cal.npz", "--method", "smart-bce", "-o", "lab.json")
        return f"{len(LAB_COMMANDS)} commands and a method"

    def lab_first(self) -> str:
        """Install the lab by its name into another environment; it brings smallcal."""
        folder = self.folder.with_name("lab")
        venv.create(folder, with_pip=True)
        python = folder / self.python.relative_to(self.folder)
        words = ("install", "--quiet", "--find-links", DIST, "smallcal-lab")
        run(python, "-m", "pip", "--disable-pip-version-check", *words, env=self.env)
        return self.say(python.with_name(self.smallcal.name), "study", "list").splitlines()[0]

    def licences(self) -> str:
        """Read the licence of everything that was installed."""
        found = json.loads(self.say(self.python, "-c", LICENCES))
        closed = [
            f"{name} ({told or 'none'})" for name, told in found.items() if not OPEN.search(told)
        ]
        require(not closed, f"not known as open source: {', '.join(closed)}")
        return f"{len(found)} packages, all open source"


def _value(told: dict[str, object]) -> float:
    """Return the NLL in what `evaluate --json` printed."""
    text = json.dumps(told)
    found = re.search(r'"nll":\s*(?:\{[^{}]*?"value":\s*)?([\d.eE+-]+)', text)
    require(found, "evaluate --json tells no nll")
    return float(found.group(1)) if found else 0.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the checks one after the other; those that need the files stop where there are none."""
    argparse.ArgumentParser(description="check what would be released").parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        clean = Clean(Path(folder))
        checks: list[tuple[str, Callable[[], str], bool]] = [
            ("build", build, True),
            ("metadata", metadata, False),
            ("contents", contents, False),
            ("size", size, False),
            ("install", clean.install, True),
            ("version", clean.version, False),
            ("imports", clean.imports, False),
            ("doctor", clean.doctor, False),
            ("demo", clean.demo, False),
            ("own data", clean.own_data, False),
            ("licences", clean.licences, False),
            ("without the lab", clean.without_lab, False),
            ("with the lab", clean.with_lab, False),
            ("the lab alone", clean.lab_first, False),
        ]
        failed = 0
        for name, check, needed in checks:
            try:
                print(f"ok    {name}: {check()}", flush=True)
            except Failure as error:
                failed += 1
                print(f"FAIL  {name}: {error}", flush=True)
                if needed:
                    break
    print(f"{failed} failed" if failed else "all is well: ready for a release")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
