"""The packages that are compared: names, versions, what they bring along."""

from __future__ import annotations

import importlib.util
import resource
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

#: Columns of the tables: the name to install, and its short heading.
MAIN = {
    "smallcal": "smallcal",
    "netcal": "netcal",
    "probmetrics": "probmetrics",
    "scikit-learn": "scikit-learn",
    "MAPIE": "MAPIE",
    "torch-uncertainty": "torch-unc.",
}

#: What to import of each, and the extra without which it cannot be.
MODULES = {
    "smallcal": "smallcal",
    "netcal": "netcal.scaling",
    "probmetrics": "probmetrics.calibrators",
    "scikit-learn": "sklearn.calibration",
    "MAPIE": "mapie.calibration",
    "torch-uncertainty": "torch_uncertainty.post_processing",
    "venn-abers": "venn_abers",
    "TorchCP": "torchcp.classification.predictor",
    "relplot": "relplot",
    "torchmetrics": "torchmetrics.classification",
}

#: The command that a user types, where it is not the name alone.
INSTALLS = {
    "probmetrics": ["probmetrics", "numba"],
    "torch-uncertainty": ["torch-uncertainty[cpu]", "scipy"],
}


def installed(package: str) -> bool:
    """Return whether a package is there; what it needs in turn may not be."""
    return importlib.util.find_spec(MODULES[package].partition(".")[0]) is not None


def version(package: str) -> str:
    """Return the version found, or "not installed"."""
    return metadata.version(package) if installed(package) else "not installed"


def brought(package: str) -> set[str]:
    """Return the distributions that installing a package brings, itself included."""
    seen: dict[tuple[str, str], None] = {}
    for wish in INSTALLS.get(package, [package]):
        _follow(Requirement(wish), seen)
    return {name for name, _ in seen}


def _follow(wish: Requirement, seen: dict[tuple[str, str], None]) -> None:
    name = canonicalize_name(wish.name)
    for extra in ("", *wish.extras):
        if (name, extra) in seen:
            continue
        try:
            needs = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            return  # an optional one that was left out
        seen[name, extra] = None
        for line in needs:
            need = Requirement(line)
            if need.marker is None or need.marker.evaluate({"extra": extra}):
                _follow(need, seen)


def megabytes(packages: set[str]) -> float:
    """Return how much room the files of distributions take."""
    return sum(_size(name) for name in packages) / 1e6


def _size(name: str) -> int:
    paths = [Path(file.locate()) for file in metadata.files(name) or []]
    spec = importlib.util.find_spec(name) if name == "smallcal" else None
    if spec and spec.origin and not any(path.suffix == ".py" for path in paths):
        paths += Path(spec.origin).parent.rglob("*")  # installed in place: no files on record
    return sum(path.stat().st_size for path in paths if path.is_file())


def typed_marker(package: str) -> bool:
    """Return whether a package tells type checkers that it has types (PEP 561)."""
    spec = importlib.util.find_spec(MODULES[package].partition(".")[0])
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return any((Path(each) / "py.typed").is_file() for each in spec.submodule_search_locations)


def seconds_to_import(package: str) -> float | None:
    """Return the processor time that a new process takes to import it, or None if it cannot."""
    program = f"import {MODULES[package]}"
    if package == "smallcal":
        program = "import smallcal; smallcal.Calibrator"  # names are loaded when first used
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        return None
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def licence(package: str) -> str:
    """Return the licence as the package states it, in one word or two."""
    said = metadata.metadata(package)
    expression = said.get("License-Expression")
    if expression:
        return str(expression)
    classes = [each for each in said.get_all("Classifier") or [] if each.startswith("License ::")]
    short = {"Apache Software License": "Apache-2.0", "BSD License": "BSD", "MIT License": "MIT"}
    named = [each.rpartition(" :: ")[2] for each in classes]
    if named:
        return ", ".join(short.get(each, each) for each in named)
    return (said.get("License") or "see its files").splitlines()[0][:30]


def table() -> Iterator[str]:
    """Yield a row for each package: version, licence, Python, weight, typing, time to import."""
    yield "| package | version | licence | Python | packages | MB | types | import |"
    yield "|---|---|---|---|---:|---:|:---:|---:|"
    for package in MODULES:
        if not installed(package):
            yield f"| {package} | not installed | | | | | | |"
            continue
        with_it = brought(package)
        seconds = seconds_to_import(package)
        took = "fails" if seconds is None else f"{seconds:.1f} s"
        python = metadata.metadata(package).get("Requires-Python") or ""
        yield (
            f"| {package} | {version(package)} | {licence(package)} | {python.replace(' ', '')} | "
            f"{len(with_it)} | {megabytes(with_it):,.0f} | "
            f"{'yes' if typed_marker(package) else '–'} | {took} |"
        )
