"""Every calibrator that is measured: fitted as its package's documentation does it.

An entrant takes (logits, labels, test logits) and returns the probabilities of the test rows, each
in the form that its package asks for: logits where it takes them, otherwise float64
probabilities. Nothing is repaired: what a package raises or returns is what is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import log_softmax


def softmax(logits: Any) -> Any:
    """Return probabilities in the dtype of the logits."""
    return np.exp(log_softmax(logits, axis=1))


@dataclass(frozen=True)
class Entrant:
    """One calibrator of one package.

    Attributes
    ----------
    package : str
    label : str
        What tables call it.
    run : callable
        (logits, labels, test logits) to probabilities.
    temperature : bool
        Whether it is one temperature; otherwise one of the package's richer maps.
    most_classes : int
        Where its time or its memory grows too fast for this benchmark.
    """

    package: str
    label: str
    run: Callable[[Any, Any, Any], Any]
    temperature: bool = False
    most_classes: int = 10_000


def _smallcal(z: Any, y: Any, z_test: Any, *, method: str) -> Any:
    import smallcal as sc

    return sc.make(method).fit(z, y).predict_proba(z_test)


def _netcal(z: Any, y: Any, z_test: Any, *, room: str, name: str) -> Any:
    from importlib import import_module

    model = getattr(import_module(f"netcal.{room}"), name)()
    model.fit(softmax(z), y)
    found = np.asarray(model.transform(softmax(z_test)))
    return np.column_stack((1 - found, found)) if found.ndim == 1 else found


def _probmetrics(z: Any, y: Any, z_test: Any, *, method: str) -> Any:
    import torch
    from probmetrics.calibrators import get_calibrator
    from probmetrics.distributions import CategoricalLogits

    cal = get_calibrator(method)
    cal.fit_torch(CategoricalLogits(torch.as_tensor(z)), torch.as_tensor(y))
    found = cal.predict_proba_torch(CategoricalLogits(torch.as_tensor(z_test)))
    return found.get_probs().detach().numpy()


def _frozen(z: Any) -> Any:
    """Return a fitted scikit-learn classifier whose rows are logits."""
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.frozen import FrozenEstimator

    class Logits(ClassifierMixin, BaseEstimator):
        def fit(self, X: Any, y: Any = None) -> Any:
            self.classes_ = np.arange(X.shape[1])
            self.n_features_in_ = X.shape[1]
            return self

        def decision_function(self, X: Any) -> Any:
            return X[:, 1] - X[:, 0] if X.shape[1] == 2 else X

        def predict_proba(self, X: Any) -> Any:
            return softmax(X)

        def predict(self, X: Any) -> Any:
            return X.argmax(axis=1)

    return FrozenEstimator(Logits().fit(z))


def _sklearn(z: Any, y: Any, z_test: Any, *, method: str) -> Any:
    from sklearn.calibration import CalibratedClassifierCV

    return CalibratedClassifierCV(_frozen(z), method=method).fit(z, y).predict_proba(z_test)


def _mapie_top_label(z: Any, y: Any, z_test: Any) -> Any:
    """Spread what the predicted class does not get as the model does: MAPIE gives no rest."""
    from mapie.calibration import TopLabelCalibrator

    cal = TopLabelCalibrator(_frozen(z), calibrator="sigmoid", cv="prefit").fit(z, y)
    top = np.nanmax(cal.predict_proba(z_test), axis=1)
    found, rows = softmax(z_test), np.arange(len(z_test))
    first = z_test.argmax(axis=1)
    found[rows, first] = 0
    found *= ((1 - top) / np.maximum(found.sum(axis=1), 1e-300))[:, None]
    found[rows, first] = top
    return found


def _mapie_venn_abers(z: Any, y: Any, z_test: Any) -> Any:
    from mapie.calibration import VennAbersCalibrator

    return VennAbersCalibrator(_frozen(z), cv="prefit").fit(z, y).predict_proba(z_test)


def _venn_abers(z: Any, y: Any, z_test: Any) -> Any:
    from venn_abers import VennAbersCalibrator

    return VennAbersCalibrator().predict_proba(
        p_cal=softmax(z), y_cal=y, p_test=softmax(z_test), va_type="one_vs_all"
    )


def _torch_uncertainty(z: Any, y: Any, z_test: Any, *, name: str, **options: Any) -> Any:
    import torch
    import torch_uncertainty.post_processing as post
    from torch.utils.data import DataLoader, TensorDataset

    rows = torch.as_tensor(z, dtype=torch.float32), torch.as_tensor(y)
    if name != "TemperatureScaler":
        options["num_classes"] = z.shape[1]
    scaler = getattr(post, name)(**options)
    scaler.fit(DataLoader(TensorDataset(*rows), batch_size=512), progress=False)
    with torch.no_grad():
        scaled = scaler(torch.as_tensor(z_test, dtype=torch.float32))
    return scaled.double().softmax(-1).numpy()


def _raw(z: Any, y: Any, z_test: Any) -> Any:
    return softmax(z_test)


RAW = Entrant("", "the model itself", _raw)

ENTRANTS: Mapping[str, Entrant] = {
    each.label: each
    for each in (
        Entrant(
            "smallcal", "smallcal `ts-nll`", partial(_smallcal, method="ts-nll"), temperature=True
        ),
        Entrant(
            "netcal",
            "netcal `TemperatureScaling`",
            partial(_netcal, room="scaling", name="TemperatureScaling"),
            temperature=True,
        ),
        Entrant(
            "probmetrics",
            "probmetrics `temp-scaling`",
            partial(_probmetrics, method="temp-scaling"),
            temperature=True,
        ),
        Entrant(
            "scikit-learn",
            'scikit-learn `"temperature"`',
            partial(_sklearn, method="temperature"),
            temperature=True,
        ),
        Entrant(
            "torch-uncertainty",
            "torch-uncertainty `TemperatureScaler`",
            partial(_torch_uncertainty, name="TemperatureScaler"),
            temperature=True,
        ),
        Entrant("smallcal", "smallcal (default)", partial(_smallcal, method="smallcal")),
        Entrant(
            "netcal",
            "netcal `LogisticCalibration`",
            partial(_netcal, room="scaling", name="LogisticCalibration"),
            most_classes=100,
        ),
        Entrant(
            "netcal",
            "netcal `HistogramBinning`",
            partial(_netcal, room="binning", name="HistogramBinning"),
        ),
        Entrant("probmetrics", "probmetrics `svs`", partial(_probmetrics, method="svs")),
        Entrant(
            "probmetrics",
            "probmetrics `logistic` (SMS)",
            partial(_probmetrics, method="logistic"),
        ),
        Entrant("scikit-learn", 'scikit-learn `"sigmoid"`', partial(_sklearn, method="sigmoid")),
        Entrant("scikit-learn", 'scikit-learn `"isotonic"`', partial(_sklearn, method="isotonic")),
        Entrant("MAPIE", "MAPIE `TopLabelCalibrator`", _mapie_top_label),
        Entrant("MAPIE", "MAPIE `VennAbersCalibrator`", _mapie_venn_abers, most_classes=20),
        Entrant("venn-abers", "venn-abers, one against all", _venn_abers, most_classes=100),
        Entrant(
            "torch-uncertainty",
            "torch-uncertainty `VectorScaler`",
            partial(_torch_uncertainty, name="VectorScaler"),
        ),
        Entrant(
            "torch-uncertainty",
            "torch-uncertainty `DirichletScaler`",
            partial(_torch_uncertainty, name="DirichletScaler", lambda_reg=1e-2, mu_reg=1e-2),
        ),
    )
}
