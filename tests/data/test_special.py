"""Softmax, error and logistic functions against SciPy, far into the tails."""

import numpy as np
import pytest
from scipy import special as scipy_special

from smallcal.calibrators.objectives import sigmoid, softplus
from smallcal.data import special

X = np.concatenate([np.linspace(-40, 40, 2001), [-1e300, -800.0, -1e-300, 1e-300, 800.0, 1e300]])
ROWS = np.random.default_rng(0).normal(size=(50, 6)) * np.geomspace(1e-3, 1e3, 50)[:, None]

PLAIN = {
    "sigmoid": (sigmoid, scipy_special.expit),
    "softplus": (softplus, lambda x: np.logaddexp(0, x)),
    "erf": (special.erf, scipy_special.erf),
}


@pytest.mark.parametrize("name", PLAIN)
def test_functions_of_one_number_are_scipys(name):
    ours, theirs = PLAIN[name]
    np.testing.assert_allclose(ours(X), theirs(X), rtol=1e-13, atol=1e-300)


def test_softmax_and_its_logarithm_are_scipys():
    np.testing.assert_allclose(
        special.softmax(ROWS), scipy_special.softmax(ROWS, axis=1), rtol=1e-12, atol=1e-300
    )
    np.testing.assert_allclose(
        special.log_softmax(ROWS), scipy_special.log_softmax(ROWS, axis=1), rtol=1e-12, atol=1e-13
    )
