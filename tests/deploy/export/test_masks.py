"""Options that a row does not have, through every way to apply a calibrator."""

from __future__ import annotations

import numpy as np
import pytest

import smallcal as sc
from support.backends import BACKENDS

RNG = np.random.default_rng(1)
Z = RNG.normal(size=(300, 4)) * 2
Y = np.where(np.arange(300) % 3 == 0, Z[:, :2].argmax(axis=1), Z.argmax(axis=1))
Y = np.where(RNG.random(300) < 0.2, 0, Y)
Z[::3, 2:] = -np.inf


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("method", ["default", "srts-bce", "matrix-scaling", "scaling-binning"])
@pytest.mark.filterwarnings("ignore::smallcal.errors.FitWarning")
def test_masked_options_get_nothing(method, backend):
    way = BACKENDS[backend]
    if not way.there:
        pytest.skip(f"needs {way.needs}")
    cal = sc.make(method).fit(Z, Y)
    some = Z[:30]
    with np.errstate(invalid="ignore"):  # of features that the helper makes
        found = np.asarray(way.run(cal.fitted_, some))
    np.testing.assert_allclose(found, cal.predict_proba(some), atol=1e-6)
    assert (found[::3, 2:] == 0).all()
