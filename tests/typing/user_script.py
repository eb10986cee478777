"""What a user's script looks like to a type checker; test_typing.py checks it and runs it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

import smallcal as sc


def calibrated(
    logits: npt.NDArray[np.float32], labels: npt.NDArray[np.int64], file: Path
) -> npt.NDArray[np.floating]:
    """Fit, save, load and apply."""
    calibrator = sc.Calibrator(random_state=0).fit(logits, labels)
    calibrator.save(file)
    fitted = sc.load(file)
    probabilities: npt.NDArray[np.floating] = fitted.predict_proba(logits)
    return probabilities


def measured(labels: npt.NDArray[np.int64], probabilities: npt.NDArray[np.floating]) -> float:
    """Measure in two ways."""
    values: dict[str, float] = sc.evaluate(labels, probabilities, metrics=("ece15", "nll"))
    return values["nll"]


def main(folder: Path) -> None:
    """Use the demo's data."""
    cal, test = sc.load_demo("cal"), sc.load_demo("test")
    names: tuple[str, ...] = cal.class_names
    probabilities = calibrated(cal.logits[:300], cal.labels[:300], folder / "cal.json")
    nll = measured(cal.labels[:300], probabilities)
    compared = sc.compare(
        test.labels[:500],
        {
            "none": sc.Identity().fit(cal.logits, cal.labels).predict_proba(test.logits[:500]),
            "srts": sc.SRTS().fit(cal.logits, cal.labels).predict_proba(test.logits[:500]),
        },
        metrics=("nll",),
        n_boot=200,
    )
    try:
        sc.TemperatureScaling().fit(cal.logits, cal.labels[:5])
    except sc.InputError as error:
        sys.stdout.write(f"{len(names)} classes, NLL {nll:.2f}; {compared.verdict('srts')} {error}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
