"""Noise: of the sensor, of few photons, of broken pixels, and in proportion to the light.

Every corruption takes an image of floats, height x width x channels from 0 to 1, the numbers of
its severity and a generator; what it returns is clipped to 0 and 1 by the caller.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from smallcal.data.checks import FloatArray
from smallcal_lab.vision.corruptions.severities import Strength


def gaussian_noise(x: FloatArray, strength: Strength, rng: Generator) -> FloatArray:
    """Add normal noise to every value."""
    (spread,) = strength.values
    return x + spread * rng.standard_normal(x.shape)


def shot_noise(x: FloatArray, strength: Strength, rng: Generator) -> FloatArray:
    """Count photons, of which white has so many on average."""
    (photons,) = strength.values
    counted: FloatArray = rng.poisson(x * photons) / photons
    return counted


def impulse_noise(x: FloatArray, strength: Strength, rng: Generator) -> FloatArray:
    """Make some values black and as many white, in each channel by itself."""
    (share,) = strength.values
    drawn = rng.random(x.shape)
    return np.where(drawn < share / 2, 0.0, np.where(drawn < share, 1.0, x))


def speckle_noise(x: FloatArray, strength: Strength, rng: Generator) -> FloatArray:
    """Add normal noise in proportion to every value."""
    (spread,) = strength.values
    return x + spread * x * rng.standard_normal(x.shape)
