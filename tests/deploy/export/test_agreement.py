"""One calibrator, many places: do all of them say the same?

On 10,000 real rows where the real logits are, else on simulated ones. Every exportable method is
fitted on four random draws.
"""

import functools

import numpy as np
import pytest

from smallcal.calibrators.catalogue import method
from support.backends import BACKENDS
from support.cases import EXPORTABLE, fit, predict
from support.real import cell, there
from support.simulated import simulate

#: SMALLCAL_AGREEMENT=full compares all rows.
pytestmark = pytest.mark.hard

CELL = "cifar10__akamaster-resnet56"
N_FITTED, N_FITS = 300, 4
#: A spline through knots that are close together loses digits, whoever computes it.
LOOSE = {"spline-risk": 1e-5}


@functools.cache
def data(name):
    """Return logits and labels to fit on, and logits to apply to, for a method."""
    z, y, test = rows()
    return (z[:, :2], y % 2, test[:, :2]) if method(name).binary else (z, y, test)


@functools.cache
def rows():
    if CELL not in there(CELL):
        return *simulate(1500, 10, seed=1), simulate(10_000, 10, seed=2)[0]
    arrays = cell(CELL)
    z, y = arrays["val_logits"], arrays["val_labels"]
    return z, y, np.concatenate([arrays["test_logits"], z])[:10_000]


@functools.cache
def fits(name):
    z, y, _ = data(name)
    rng = np.random.default_rng(5)
    rows = [rng.choice(len(z), N_FITTED, replace=False) for _ in range(N_FITS)]
    return [(fit(name, z[chosen].astype(float), y[chosen]), chosen) for chosen in rows]


@pytest.mark.parametrize("name", EXPORTABLE)
def test_every_place_gives_the_same_probabilities(name):
    z = np.asarray(data(name)[2], dtype=np.float64)
    assert len(z) == 10_000
    for number, (fitted, chosen) in enumerate(fits(name)):
        # A row that was fitted on may lie exactly on a step, where the last bit counts.
        known = {row.tobytes() for row in data(name)[0][chosen].astype(float)}
        new = z[[row.tobytes() not in known for row in z]]
        expected = predict(fitted, new)
        for place, backend in BACKENDS.items():
            if not backend.there or number >= backend.most_fits:
                continue
            rows = slice(None, None, max(1, len(new) // backend.most_rows))
            found = backend.run(fitted.fitted_, new[rows])
            # A rival held below the predicted class may move by 2^-22 of it.
            loose, where = LOOSE.get(name, 1e-9), f"{place}, fit {number}"
            np.testing.assert_allclose(found, expected[rows], rtol=3e-7, atol=loose, err_msg=where)
            if fitted.preserves_argmax_:
                top = new[rows].argmax(axis=1)
                np.testing.assert_array_equal(found.argmax(axis=1), top, err_msg=place)


@pytest.mark.parametrize("place", ["torch", "onnx"])
@pytest.mark.parametrize("name", EXPORTABLE)
def test_single_precision(name, place):
    """Every row within 1e-6 of double, and the same prediction."""
    backend = BACKENDS[place]
    if not backend.there:
        pytest.skip(f"{backend.needs} is not installed")
    z32 = np.asarray(data(name)[2], dtype=np.float32)
    for number, (fitted, chosen) in enumerate(fits(name)):
        known = {row.tobytes() for row in data(name)[0][chosen].astype(np.float32)}
        new = z32[[row.tobytes() not in known for row in z32]]
        found = backend.run(fitted.fitted_, new)
        assert found.dtype == np.float32
        expected = predict(fitted, new.astype(float))
        loose = max(1e-6, LOOSE.get(name, 0.0))
        np.testing.assert_allclose(found, expected, rtol=0, atol=loose, err_msg=f"fit {number}")
        if fitted.preserves_argmax_:
            np.testing.assert_array_equal(found.argmax(axis=1), new.argmax(axis=1))


@pytest.mark.parametrize("name", ["ts-nll", "default", "dirichlet-odir"])
def test_float32_in_float32_out(name):
    """What a service sees: ONNX in single precision against the runtime in single precision."""
    pytest.importorskip("onnxruntime")
    z = np.asarray(data(name)[2], dtype=np.float32)
    for fitted, _ in fits(name):
        found = BACKENDS["onnx"].run(fitted.fitted_, z)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, fitted.predict_proba(z), atol=1e-5)
