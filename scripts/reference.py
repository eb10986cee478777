"""Compare what the working tree does with what the reference commit did: `make reference`.

One recorder runs in two processes, first with ``src`` of the reference commit, then with ours. It
writes down what every method predicts, what saved calibrators predict once loaded, the public
names with their parameters, and the JSON of every command on the demo data. A difference that no
line of ``reference_changes.txt`` expects makes the exit code 1.

`python scripts/reference.py --quick` leaves out what is slow; `... record OUT.json` only records,
with the calibrators of the folder ``artefacts`` beside that file, which it makes where there is
none; `... wheel FOLDER` builds the wheel of the reference commit.
"""

from __future__ import annotations

import argparse
import inspect
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import smallcal as sc
from smallcal.cli import run

#: A hash and no tag: tags may not be carried along.
COMMIT = "5a1736da4c8c75fa628f15ab343eb0e7a6436202"
ROOT = Path(__file__).resolve().parents[1]
TREE = ROOT / "src"
LAB = ROOT / "lab/src"
CHANGES = Path(__file__).with_name("reference_changes.txt")
MAX_LINES = 40
REFUSED = "refused"

#: Simulated problems: the number of classes.
PROBLEMS = {"ten": 10, "two": 2, "three": 3, "score": 2}
#: The default and its relatives: only what their artefacts predict is compared.
DEFAULTS = ("adaptive", "adaptive-free", "*+tail*", "*+gate*")
#: Methods that --quick leaves out: they load torch, or train a network for a second or more.
SLOW_METHODS = ("sats-*", "*temphead*", "smart-softece", "probmetrics:*", "netcal:*")

#: Commands on the demo's files, and after | what names a method. Each is run with those words, as
#: "named", and without, as "default"; CAL is the calibrator that was fitted in the same way.
COMMANDS = """
demo
fit cal.npz -o CAL.json | --method srts-bce
inspect CAL.json
apply CAL.json test.npz -o CAL.npz
evaluate test.npz --calibrator CAL.json
compare cal.npz test.npz | --methods none,tva-ts,srts-bce
select cal.npz | --candidates none,tva-ts,srts-bce
audit cal.npz | --method srts-bce
plan cal.npz | --method srts-bce
certify CAL.json test.npz --risk 20% --sets 10%
report cal.npz test.npz | --methods none,tva-ts,srts-bce
export CAL.json --to sql
monitor CAL.json test.npz
adapt CAL.json test.npz -o CAL-adapted.json --force
refresh CAL.json test.npz -o CAL-new.json
methods
doctor
cite | tva-ts srts-bce
"""
#: Those that --quick leaves out without a named method.
SLOW_COMMANDS = ("demo", "select", "audit", "plan", "adapt", "report")
#: What JSON tells of time, versions, sizes and the machine; of doctor, needs and extras stay.
DROPPED = (
    *("*/seconds", "*/bytes", "*/versions/*", "*/cite/*/version"),
    *("*/doctor/[!en]*", "*/doctor/*/found"),
)

Record = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what is asked for; return 1 for differences that nobody expects."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("do", nargs="?", default="compare", choices=("compare", "record", "wheel"))
    parser.add_argument("out", nargs="?", default=".", help="file to record to; folder of a wheel")
    parser.add_argument("--quick", action="store_true", help="leave out what is slow")
    parser.add_argument("--part", choices=PARTS, help="this part alone")
    parser.add_argument("--tolerance", type=float, default=1e-12, help="relative and absolute")
    options = parser.parse_args(arguments)
    if options.do == "record":
        Path(options.out).write_text(json.dumps(record(options)), encoding="utf-8")
        return 0
    if reason := missing():
        print(reason)
        return 2
    with tempfile.TemporaryDirectory(prefix="reference-") as name:
        if options.do == "compare":
            return compare(Path(name).resolve(), options)
        extract(Path(name))
        built = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", options.out, name]
        return subprocess.run(built).returncode


def missing() -> str:
    """Say why there is no reference to compare with; nothing if there is one."""
    if shutil.which("git") is None:
        return "git is not installed"
    asked = ["git", "-C", str(ROOT), "cat-file", "-e", f"{COMMIT}^{{commit}}"]
    if subprocess.run(asked, capture_output=True).returncode:
        return f"the commit {COMMIT[:8]} is not here: this is no clone, or a shallow one"
    return ""


def extract(folder: Path, *paths: str) -> None:
    """Write the reference commit into a folder, or only these paths of it."""
    archive = folder / "reference.zip"
    words = ["git", "-C", str(ROOT), "archive", "--format=zip", "-o", str(archive), COMMIT, *paths]
    subprocess.run(words, check=True)
    shutil.unpack_archive(archive, folder)


def compare(folder: Path, options: argparse.Namespace) -> int:
    """Record both trees and print how they differ; return the exit code."""
    changes = read_changes()
    extract(folder, "src")
    # The reference is older than the lab: it must not load the one that is installed.
    hidden = folder / "src" / "smallcal_lab-0.dist-info" / "METADATA"
    hidden.parent.mkdir()
    hidden.write_text("Metadata-Version: 2.1\nName: smallcal-lab\nVersion: 0\n", encoding="utf-8")
    old, new = (recorded(tree, folder, options) for tree in (folder / "src", TREE))
    found = differences(old, new, options.tolerance)
    used = {row: {key for key in found if fnmatchcase(key, row)} for row in changes}
    left = [key for key in found if not any(key in keys for keys in used.values())]
    print(f"{len(old)} values compared: {len(found)} differ, {len(left)} of them unexpected")
    for key in left[:MAX_LINES]:
        print(f"  {key}: {found[key]}")
    if len(left) > MAX_LINES:
        print(f"  ... and {len(left) - MAX_LINES} more")
    for row in changes:
        if not used[row]:
            print(f"warning: no difference matches {row} ({CHANGES.name}: {changes[row]})")
    return int(bool(left))


def recorded(tree: Path, folder: Path, options: argparse.Namespace) -> Record:
    """Run the recorder with a tree in a process of its own."""
    out = folder / "record.json"
    words = [sys.executable, str(Path(__file__).resolve()), "record", str(out)]
    words += ["--quick"] * options.quick + (["--part", options.part] if options.part else [])
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    path = os.pathsep.join(map(str, [TREE, LAB] if tree == TREE else [tree]))
    subprocess.run(words, env={**os.environ, **one_thread, "PYTHONPATH": path}, check=True)
    found: Record = json.loads(out.read_text(encoding="utf-8"))
    if (home := found.pop("home")) != str(tree):
        raise SystemExit(f"Python imports smallcal from {home}, not from {tree}")
    return found


def differences(old: Record, new: Record, tolerance: float) -> dict[str, str]:
    """Return what is missing, new or changed, by key."""
    told = {key: f"missing, was {_shown(old[key])}" for key in old.keys() - new.keys()}
    told |= {key: f"new, {_shown(new[key])}" for key in new.keys() - old.keys()}
    for key in old.keys() & new.keys():
        one, other = old[key], new[key]
        if _are_numbers(one) and _are_numbers(other) and np.shape(one) == np.shape(other):
            if not np.allclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True):
                gap = np.max(np.abs(np.subtract(one, other)))
                told[key] = f"{_shown(one)} -> {_shown(other)}, up to {gap:.1e} apart"
        elif type(one) is not type(other) or one != other:
            refused = other == REFUSED and _matches(key.split("/")[2], DEFAULTS)
            told |= {} if refused else {key: f"{_shown(one)} -> {_shown(other)}"}
    return dict(sorted(told.items()))


def read_changes() -> dict[str, str]:
    """Return the expected changes: patterns of keys, each with its reason."""
    lines = CHANGES.read_text(encoding="utf-8").splitlines()
    rows = [line.partition("\t") for line in lines if line.strip() and not line.startswith("#")]
    for pattern, _, reason in rows:
        if not reason.strip():
            raise SystemExit(f"{CHANGES}: {pattern!r} needs a tab and a reason")
    return {pattern.strip(): reason.strip() for pattern, _, reason in rows}


def _shown(value: Any) -> str:
    return f"{len(value)} numbers, {value[:3]} ..." if isinstance(value, list) else repr(value)


# --- the recorder: it must run with both trees, so it uses public names


def record(options: argparse.Namespace) -> Record:
    """Return what the smallcal that Python imports gives, by key."""
    warnings.simplefilter("ignore")
    os.environ["COLUMNS"] = "80"
    found: Record = {"home": str(Path(sc.__file__).resolve().parents[1])}
    for part in [options.part] if options.part else PARTS:
        found |= PARTS[part](options)
    return found


def _fits(options: argparse.Namespace) -> Record:
    """Record what methods predict once fitted, then what saved calibrators predict."""
    found: Record = {}
    saved = Path(options.out).resolve().parent / "artefacts"
    left_out = SLOW_METHODS if options.quick else ()
    saves, names = not saved.exists(), json.loads(_called("methods")[1])["methods"]
    for problem in PROBLEMS:
        (saved / problem).mkdir(parents=True, exist_ok=True)
        given = _rows(problem, 240, seed=1)
        make = partial(sc.make, input="score" if problem == "score" else "logits")
        for name in (name for name in names if not _matches(name, left_out)):
            fit = cache(lambda name=name, make=make, given=given: make(name).fit(**given))
            if saves:
                with suppress(Exception):  # some cannot be fitted here, some not saved
                    fit().save(saved / problem / f"{name}.json")
            if not _matches(name, DEFAULTS):
                found |= _predicted(f"method/{problem}/{name}", fit)
        for file in (saved / problem).glob("*.json"):
            found |= _predicted(f"artefact/{problem}/{file.stem}", partial(sc.load, file))
    return found


def _rows(problem: str, n: int, seed: int) -> Record:
    """Return simulated rows; of three groups the last has many wrong labels."""
    n_classes, rng = PROBLEMS[problem], np.random.default_rng(seed)
    y, groups = rng.integers(n_classes, size=n), rng.choice(["a", "b", "c"], size=n)
    logits = 2 * rng.normal(size=(n, n_classes)) + 3 * np.eye(n_classes)[y]
    features = np.column_stack([logits.max(axis=1), groups == "c", rng.normal(size=(n, 2))])
    y = np.where((groups == "c") & (rng.random(n) < 0.4), rng.integers(n_classes, size=n), y)
    if problem == "score":
        return {"X": logits[:, 1] - logits[:, 0], "y": y}
    rows = {"X": logits, "y": y, "features": features}
    more = {"groups": groups, "sample_weight": rng.uniform(0.5, 1.5, size=n)}
    return rows | more if problem == "three" else rows


def _predicted(key: str, calibrator: Callable[[], Any]) -> Record:
    """Record probabilities and temperatures, or the type of the error."""
    found, rows = {}, _rows(key.split("/")[1], 60, seed=2)
    for name, not_asked in (("predict_proba", "sample_weight"), ("temperature", "groups")):
        rows.pop(not_asked, None)
        try:
            found[f"{key}/{name}"] = getattr(calibrator(), name)(**rows).ravel().tolist()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is recorded
            refused = isinstance(error, sc.ArtefactError)
            found[f"{key}/{name}"] = REFUSED if refused else type(error).__name__
    return found


def _public(options: argparse.Namespace) -> Record:
    """Record the public names with their parameters, and those of the members of classes."""
    found: Record = {}
    for name in vars(sc)["__all__"]:
        thing = getattr(sc, name)
        found[f"public/{name}"] = _signature(thing)
        for member in dir(thing) if inspect.isclass(thing) else ():
            if not member.startswith("_"):
                found[f"public/{name}/{member}"] = _signature(getattr(thing, member))
    return found


def _signature(thing: Any) -> str:
    """Return the parameters of what can be called, without types; of others what they are."""
    try:
        rows = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return type(thing).__name__
    bare = inspect.Signature([row.replace(annotation=row.empty) for row in rows])
    return re.sub(r" at 0x\w+", "", str(bare))


def _commands(options: argparse.Namespace) -> Record:
    """Record the exit code and the JSON of every command."""
    found: Record = {}
    with tempfile.TemporaryDirectory() as folder:
        home = os.getcwd()
        os.chdir(folder)
        _called("demo --export .")
        for words, _, named in (line.partition("|") for line in COMMANDS.strip().splitlines()):
            verb = words.split()[0]
            if named or "CAL" in words:
                found |= _command(f"command/named/{verb}", words + named)
            if not (options.quick and verb in SLOW_COMMANDS):
                found |= _command(f"command/default/{verb}", words)
        os.chdir(home)
    return found


def _command(key: str, words: str) -> Record:
    """Record one command."""
    code, out = _called(words.replace("CAL", key.split("/")[1]))
    leaves = dict(_leaves(key, json.loads(out))) if out else {}
    kept = {name: leaf for name, leaf in leaves.items() if not _matches(name, DROPPED)}
    return {f"{key}/exit code": code, **kept}


def _called(words: str) -> tuple[int, str]:
    """Return the exit code of a command and what it printed."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()):
        return run([*words.split(), "--json"]), out.getvalue()


def _leaves(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of JSON; a list of numbers is one, and a sentence may have any words."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _leaves(f"{key}/{name}", part)
    elif isinstance(value, list) and not _are_numbers(value):
        for place, part in enumerate(value):
            yield from _leaves(f"{key}/{place}", part)
    else:
        yield key, "(words)" if isinstance(value, str) and " " in value else value


def _are_numbers(value: Any) -> bool:
    parts = value if isinstance(value, list) else [value]
    return all(isinstance(part, int | float) and not isinstance(part, bool) for part in parts)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


PARTS = {"fits": _fits, "public": _public, "commands": _commands}

if __name__ == "__main__":
    sys.exit(main())
