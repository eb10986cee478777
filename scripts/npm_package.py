"""Data that is packed for npm: fetch a package without installing it, and check its bytes."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path


def fetch(package: str, folder: Path) -> Path:
    """Download a package, ``name@version``, into `folder` and return its archive."""
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("npm was not found: install it, or pass the package with --archive FILE")
    done = subprocess.run(
        [npm, "pack", "--silent", package], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    if done.returncode:
        raise SystemExit(f"npm could not fetch {package}; pass the package with --archive FILE")
    return folder / done.stdout.split()[-1]


def check(archive: Path, package: str, sha256: str) -> None:
    """Stop unless `archive` is the package, byte for byte."""
    try:
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    except OSError as error:
        raise SystemExit(f"cannot read {archive}: {error.strerror}") from None
    if digest != sha256:
        raise SystemExit(f"{archive.name} is not {package}: its SHA-256 is {digest}")
