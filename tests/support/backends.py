"""Every way to apply a fitted calibrator, behind one call, for tests that hold them together."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from smallcal.calibrators import artefact
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.deploy.export import to_onnx, to_python, to_sql
from support.cases import features_of


@dataclass(frozen=True)
class Backend:
    """``run(fitted, logits)`` gives probabilities of the logits' type, or of float64.

    ``most_rows`` keeps the slow ones quick, ``most_fits`` those that take long to set up.
    """

    run: Callable
    needs: str = "numpy"
    most_rows: int = 10_000
    most_fits: int = 4

    @property
    def there(self) -> bool:
        return importlib.util.find_spec(self.needs) is not None


def through_json(fitted, z):
    document = artefact.parse(artefact.text_of(fitted.to_dict()), source="memory")
    loaded = FittedCalibrator.from_dict(document, source="memory")
    return loaded.predict_proba(z, **wanted(fitted, z))


def wanted(fitted, z):
    return {"features": features_of(z)} if fitted.signal.n_features else {}


def session_of(content):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def through_onnx(fitted, z):
    session = session_of(to_onnx(fitted, dtype=str(z.dtype)))
    name = session.get_inputs()[0].name
    more = {key: value.astype(z.dtype) for key, value in wanted(fitted, z).items()}
    return session.run(["probabilities"], {name: z, **more})[0]


def module_of(text):
    """Return the names of an exported file; tests in a process of its own are elsewhere."""
    names = {"__name__": "exported"}
    exec(compile(text, "exported.py", "exec"), names)
    return names


def through_python(fitted, z):
    more = [features.tolist() for features in wanted(fitted, z).values()]
    return np.array(module_of(to_python(fitted))["calibrate_rows"](z.tolist(), *more))


def database(z, features=None):
    """Return a connection with a table t(row, logits, features)."""
    import duckdb

    base = duckdb.connect(config={"threads": 1, "memory_limit": "1GB"})
    base.execute("CREATE TABLE t (row INTEGER, logits DOUBLE[], features DOUBLE[])")
    more = features_of(z) if features is None else features
    rows = zip(range(len(z)), z.tolist(), more.tolist(), strict=True)
    for row in rows:
        base.execute("INSERT INTO t VALUES (?, ?, ?)", row)
    return base


def through_sql(fitted, z):
    base = database(z)
    base.execute(to_sql(fitted))
    given = "logits, features" if fitted.signal.n_features else "logits"
    found = base.execute(f"SELECT smallcal_probabilities({given}) FROM t ORDER BY row").fetchall()
    base.close()
    return np.array([row[0] for row in found])


def through_torch(fitted, z):
    import torch

    from smallcal.deploy.export import to_torch

    more = [torch.from_numpy(features) for features in wanted(fitted, z).values()]
    with torch.inference_mode():
        return to_torch(fitted)(torch.from_numpy(z), *more).numpy()


#: SMALLCAL_AGREEMENT=full holds the plain Python file to every row, which takes minutes.
FULL = os.environ.get("SMALLCAL_AGREEMENT") == "full"

BACKENDS = {
    "runtime": Backend(through_json),
    "torch": Backend(through_torch, needs="torch"),
    "onnx": Backend(through_onnx, needs="onnxruntime"),
    "python": Backend(through_python, most_rows=10_000 if FULL else 100),
    "sql": Backend(through_sql, needs="duckdb", most_rows=20, most_fits=1),
}
