"""Cases in which a fit may go wrong in silence, each against the exact temperature."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from peers.claims import quiet
from peers.entrants import ENTRANTS, Entrant, softmax
from peers.features import nll
from peers.packages import installed
from peers.quality import Failed, attempt, judged
from smallcal_lab.studies.simulate import World

CASES = ("float64", "float32", "x 20", "class missing", "250 of 100", "zeros")
FAR = 0.01  # beyond this a log-loss is not that of the same fit


def drawn(classes: int, n: int) -> tuple[Any, Any, Any, Any]:
    """Return calibration and test samples of a model that one temperature, 2, makes right."""
    world = World(n_classes=classes, accuracy=0.8, temperature=2.0, structure=0.0)
    cal, test = world.draw(n), world.draw(4000, split="test")
    return cal.logits.astype(float), cal.labels, test.logits.astype(float), test.labels


def case(name: str) -> tuple[Any, Any, Any, Any]:
    """Return the samples of a case: logits, labels, test logits, test labels."""
    z, y, z_test, y_test = drawn(100, 250) if name == "250 of 100" else drawn(10, 1000)
    if name == "float32":
        return z.astype(np.float32), y, z_test.astype(np.float32), y_test
    if name == "x 20":
        return 20 * z, y, 20 * z_test, y_test
    if name == "class missing":
        return z[y != 3], y[y != 3], z_test, y_test
    return z, y, z_test, y_test


def exact(z: Any, y: Any) -> float:
    """Return the temperature of least log-loss, searched by SciPy in float64."""
    wide = np.asarray(z, dtype=np.float64)
    found = minimize_scalar(lambda u: nll(y, softmax(wide * np.exp(-u))), bounds=(-6, 8))
    return float(np.exp(found.x))


def with_zeros(z: Any) -> Any:
    """Return probabilities of which those below 0.001 were rounded to 0, as forests give them."""
    p = softmax(z)
    p[p < 1e-3] = 0
    return p / p.sum(axis=1, keepdims=True)


def from_zeros(entrant: Entrant, z: Any, y: Any, z_test: Any) -> Any:
    """Fit on probabilities with zeros, by the way in which a package takes probabilities."""
    p, p_test = with_zeros(z), with_zeros(z_test)
    if not installed(entrant.package):
        return Failed("not installed")
    try:
        with quiet(), np.errstate(all="ignore"):
            found = _on_probabilities(entrant, p, y, p_test)
    except Exception as error:  # noqa: BLE001 - whatever a package raises is what is reported
        return Failed(f"raises {type(error).__name__}")
    return found if isinstance(found, Failed) else judged(np.asarray(found, float), z_test)


def _on_probabilities(entrant: Entrant, p: Any, y: Any, p_test: Any) -> Any:
    options = getattr(entrant.run, "keywords", {})
    if entrant.package == "smallcal":
        import smallcal as sc

        cal = sc.Calibrator(method=options["method"], input="probabilities")
        return cal.fit(p, y).predict_proba(p_test)
    if entrant.package == "netcal":
        from importlib import import_module

        model = getattr(import_module(f"netcal.{options['room']}"), options["name"])()
        model.fit(p, y)
        return model.transform(p_test)
    if entrant.package == "probmetrics":
        from probmetrics.calibrators import get_calibrator

        return get_calibrator(options["method"]).fit(p, y).predict_proba(p_test)
    if entrant.package == "torch-uncertainty":
        return Failed("takes logits")
    if entrant.package == "scikit-learn":
        return _sklearn_on_probabilities(options["method"], p, y, p_test)
    return entrant.run(np.log(np.maximum(p, 1e-300)), y, np.log(np.maximum(p_test, 1e-300)))


def _sklearn_on_probabilities(method: str, p: Any, y: Any, p_test: Any) -> Any:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    class Given(ClassifierMixin, BaseEstimator):
        def fit(self, X: Any, y: Any = None) -> Any:
            self.classes_ = np.arange(X.shape[1])
            return self

        def predict_proba(self, X: Any) -> Any:
            return X

        def predict(self, X: Any) -> Any:
            return X.argmax(axis=1)

    frozen = FrozenEstimator(Given().fit(p))
    return CalibratedClassifierCV(frozen, method=method).fit(p, y).predict_proba(p_test)


def cell(entrant: Entrant, name: str, best: float, raw: float) -> str:
    """Return what one calibrator makes of one case: its test log-loss x100, or what went wrong."""
    z, y, z_test, y_test = case(name)
    run = from_zeros if name == "zeros" else attempt
    found = run(entrant, z, y, z_test)
    if isinstance(found, Failed):
        return found.why
    value = nll(y_test, found)
    if abs(value - raw) < 1e-6 < abs(best - raw):
        return f"{100 * value:.1f} unchanged"
    return f"{100 * value:.1f}" + (" **!**" if value > raw + FAR else "")


def reference(name: str) -> tuple[float, float, float]:
    """Return the exact temperature, its test log-loss, and that of the model itself."""
    z, y, z_test, y_test = case(name)
    if name == "zeros":
        # Zeros have no logarithm: those of the others are not asked to be likelier than 0.0005.
        p, p_test = (np.log(np.maximum(with_zeros(each), 5e-4)) for each in (z, z_test))
        z, z_test = p, p_test
    at = exact(z, y)
    wide = np.asarray(z_test, dtype=np.float64)
    return at, nll(y_test, softmax(wide / at)), nll(y_test, softmax(wide))


def report() -> Iterator[str]:
    """Yield the table: test log-loss x100 of each calibrator in each case."""
    known = {name: reference(name) for name in CASES}
    yield f"| test log-loss x100 | {' | '.join(CASES)} |"
    yield "|---|" + "---:|" * len(CASES)
    yield f"| the model itself | {' | '.join(f'{100 * known[n][2]:.1f}' for n in CASES)} |"
    best = " | ".join(f"{100 * known[n][1]:.1f}" for n in CASES)
    yield f"| exact temperature, by SciPy | {best} |"
    yield f"| its value | {' | '.join(f'T = {known[n][0]:.2f}' for n in CASES)} |"
    for label, entrant in ENTRANTS.items():
        cells = [cell(entrant, name, *known[name][1:]) for name in CASES]
        yield f"| {label} | {' | '.join(cells)} |"
