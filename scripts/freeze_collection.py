"""Freeze a small collection: `python scripts/freeze_collection.py [--logits]`.

Writes lab/src/smallcal_lab/studies/reproduce/frozen: simulated logits (only with --logits, for they
should never change), reference values, and the checksum of every file. `smallcal study reproduce
--frozen` then checks smallcal against values that smallcal did not compute: the calibrators,
metrics and bootstraps of `scripts/freeze` are the plain formulas, with SciPy and scikit-learn.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

from freeze.choices import all_choices
from freeze.holdings import all_holdings
from freeze.inference import all_comparisons
from freeze.logits import KINDS, SEVERITIES, STRUCTURED, description, write_logits
from freeze.means import all_means
from freeze.store import DEFAULTS, Store
from smallcal_lab.studies.reproduce.frozen import unpack

FOLDER = Path(__file__).parents[1] / "lab/src/smallcal_lab/studies/reproduce/frozen"


#: What the values are of, in the order of the file.
PARTS = (all_means, all_comparisons, all_holdings, all_choices)


def head() -> dict[str, Any]:
    """Return reference.json without its values."""
    return {
        "version": 1,
        "source": "plain formulas on the frozen collection, by scripts/freeze_collection.py",
        "defaults": DEFAULTS,
        "tolerances": {"deterministic": 0.011, "smart-bce": 0.15, "cifar100c": 0.05},
        "shifts": {STRUCTURED[0]: {"kinds": list(KINDS), "severities": list(SEVERITIES)}},
    }


def reference_text(folder: Path) -> str:
    """Return reference.json: one entry a line."""
    with tempfile.TemporaryDirectory() as made:
        unpack(folder, made)
        return _reference_text(Store(Path(made)))


def _reference_text(store: Store) -> str:
    lines = ",\n".join(
        json.dumps(entry, separators=(",", ":")) for part in PARTS for entry in part(store)
    )
    return json.dumps(head(), indent=1)[:-2] + f',\n "values": [\n{lines}\n]}}\n'


def checksums(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every data file."""
    files = sorted(f for f in folder.iterdir() if f.suffix in (".npz", ".toml", ".json"))
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in files
        if file.name != "checksums.json"
    }


def main() -> None:
    """Write the folder."""
    parser = argparse.ArgumentParser(description="freeze a small collection")
    parser.add_argument("--logits", action="store_true", help="draw the logits anew as well")
    if parser.parse_args().logits:
        write_logits(FOLDER)
    (FOLDER / "collection.toml").write_text(description(), encoding="utf-8")
    (FOLDER / "reference.json").write_text(reference_text(FOLDER), encoding="utf-8")
    text = json.dumps(checksums(FOLDER), indent=1) + "\n"
    (FOLDER / "checksums.json").write_text(text, encoding="utf-8")
    size = sum(file.stat().st_size for file in FOLDER.iterdir() if file.is_file())
    print(f"{FOLDER}: {size / 1024:.0f} KB")


if __name__ == "__main__":
    main()
