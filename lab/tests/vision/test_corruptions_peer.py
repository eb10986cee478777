"""Corruptions against the package imagecorruptions, where it is installed.

It makes those of 224 pixels for any size, cuts levels off where we round them, and needs an older
setuptools (below 81). Two of its calls into today's NumPy and scikit-image are mended here.
"""

import warnings

import numpy as np
import pytest

pytest.importorskip("PIL", reason="images need Pillow")

from smallcal_lab.corruption_names import SEVERITIES
from smallcal_lab.vision import corrupt
from smallcal_lab.vision.corruptions.kinds import cloud, streaked
from support.photos import photos


def peer_package():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        why = "compared with a peer where it is there: pip install imagecorruptions 'setuptools<81'"
        return pytest.importorskip("imagecorruptions.corruptions", reason=why, exc_type=ImportError)


@pytest.fixture
def peer(monkeypatch):
    """Return ``peer(image, kind, severity)``, an array of floats."""
    package = peer_package()
    monkeypatch.setattr(np, "float_", np.float64, raising=False)
    blur = package.gaussian

    def gaussian(image, sigma, multichannel=False, **rest):
        return blur(image, sigma=sigma, channel_axis=-1 if multichannel else None, **rest)

    monkeypatch.setattr(package, "gaussian", gaussian)
    np.random.seed(0)  # noqa: NPY002 - what the package draws from

    def corrupted(image, kind, severity):
        from PIL import Image

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.uint8(getattr(package, kind)(Image.fromarray(image), severity)).astype(float)

    corrupted.package = package
    return corrupted


def both(peer, kind, severity, n=4):
    images = photos(224, n)
    ours = [corrupt(x, kind, severity, seed=0, image_id=i) for i, x in enumerate(images)]
    theirs = [peer(x, kind, severity) for x in images]
    return np.array(images, float), np.array(ours, float), np.array(theirs)


@pytest.mark.parametrize(
    ("kind", "most", "mean"),
    [
        *[("contrast", 1, 0.6), ("brightness", 1, 0.7), ("saturate", 1, 0.6)],
        *[("gaussian_blur", 1, 0.6), ("pixelate", 0, 0), ("jpeg_compression", 0, 0)],
        ("defocus_blur", 6, 1.0),  # its kernel is cut off at radius 8 and 10
        ("zoom_blur", 60, 1.3),  # it keeps the first pixels of a magnified image, not the middle
    ],
)
def test_what_is_not_drawn_is_the_same(peer, kind, most, mean):
    for severity in SEVERITIES:
        _, ours, theirs = both(peer, kind, severity)
        apart = np.abs(ours - theirs)
        assert apart.max() <= most
        assert apart.mean() <= mean


@pytest.mark.parametrize(
    ("kind", "tolerance"),
    [
        *[("gaussian_noise", 0.03), ("shot_noise", 0.03), ("impulse_noise", 0.03)],
        *[("speckle_noise", 0.03), ("glass_blur", 0.03), ("snow", 0.1)],
        ("spatter", 0.5),  # the rim of a drop is found in another way
    ],
)
def test_what_is_drawn_is_as_far_from_the_clean_image(peer, kind, tolerance):
    for severity in SEVERITIES:
        clean, ours, theirs = both(peer, kind, severity)
        distance = ((theirs - clean) ** 2).mean()
        assert ((ours - clean) ** 2).mean() == pytest.approx(distance, rel=tolerance)


@pytest.mark.parametrize("angle", [-44.0, -10.5, 0.0, 31.0])
def test_a_smear_at_the_same_angle_is_the_same(peer, angle):
    image = photos(224, 4)[1].astype(float)
    for radius, sigma in ((10, 3), (15, 8), (20, 15)):
        theirs = peer.package._motion_blur(image, radius=radius, sigma=sigma, angle=angle)
        np.testing.assert_allclose(streaked(image, radius, sigma, angle), theirs, atol=1e-3)


@pytest.mark.parametrize("decay", [2.0, 1.4])
def test_clouds_look_the_same(peer, decay):
    rng = np.random.default_rng(0)
    ours = np.array([cloud(128, 128, decay, rng) for _ in range(150)])
    theirs = np.array([peer.package.plasma_fractal(128, decay) for _ in range(150)])
    for look in (np.mean, np.std, lambda lands: np.abs(np.diff(lands)).mean()):
        assert look(ours) == pytest.approx(look(theirs), rel=0.06)
