"""What corruptions are made of, by a second route each."""

import numpy as np
import pytest
from scipy import ndimage

pytest.importorskip("PIL", reason="images need Pillow")

from smallcal_lab.corruption_names import EXTRA, SEVERITIES, STANDARD
from smallcal_lab.vision.corruptions import SIZES, mixed, rows_of
from smallcal_lab.vision.corruptions.kinds import (
    _disk,
    _ice,
    _taken_from_neighbours,
    cloud,
    defocus_blur,
    magnified,
    smoothed,
    streaked,
)


def numbers(kind, severity, size):
    return mixed(rows_of(kind, severity, size))


@pytest.mark.parametrize("shape", [(30, 41, 3), (64, 64, 3), (12, 9, 1)])
@pytest.mark.parametrize("reach", [1, 2, 4])
def test_glass_is_the_loop_over_pixels(shape, reach):
    image = np.random.default_rng(0).random(shape)
    fast = _taken_from_neighbours(image, reach, np.random.default_rng(1))
    steps = np.random.default_rng(1).integers(-reach, reach, size=(2, *shape[:2]))
    slow = image.copy()
    for row in range(shape[0] - reach, reach, -1):
        for column in range(shape[1] - reach, reach, -1):
            down, right = steps[:, row, column]
            slow[row, column] = slow[row + down, column + right]
    np.testing.assert_array_equal(fast, slow)


@pytest.mark.parametrize("sigma", [0.4, 3.0, 25.0, 170.8])
def test_a_smooth_field_is_a_gaussian_filter(sigma):
    field = np.random.default_rng(0).uniform(-1, 1, (40, 57))
    expected = ndimage.gaussian_filter(field, sigma, mode="reflect", truncate=3)
    np.testing.assert_allclose(smoothed(field, sigma), expected, atol=1e-12)


@pytest.mark.parametrize("factor", [1.0, 1.06, 1.15, 1.3, 1.75, 2.25, 4.5])
@pytest.mark.parametrize("side", [32, 64, 224])
def test_a_magnified_centre_is_what_scipy_zooms(factor, side):
    image = np.random.default_rng(0).random((side, side, 3))
    kept = int(np.ceil(side / factor))
    top = (side - kept) // 2
    cut = image[top : top + kept, top : top + kept]
    large = ndimage.zoom(cut, (factor, factor, 1), order=1)
    trim = (large.shape[0] - side) // 2
    expected = large[trim : trim + side, trim : trim + side]
    np.testing.assert_allclose(magnified(image, factor), expected, atol=1e-5)


@pytest.mark.parametrize("angle", [0, 30, 45, -45, -90, -135, 110, 180])
def test_a_streak_is_a_weighted_mean_along_a_line(angle):
    image = np.random.default_rng(0).random((20, 17, 2))
    along = np.arange(13)
    weights = np.exp(-((along / 2.5) ** 2) / 2)
    rows = np.ceil(along * np.sin(np.radians(angle)) - 0.5 - 1e-9).astype(int)
    columns = np.ceil(along * np.cos(np.radians(angle)) - 0.5 - 1e-9).astype(int)
    expected = np.empty_like(image)
    for row in range(20):
        for column in range(17):
            line = image[np.clip(row + rows, 0, 19), np.clip(column + columns, 0, 16)]
            expected[row, column] = weights @ line / weights.sum()
    np.testing.assert_allclose(streaked(image, 6, 2.5, angle), expected, atol=1e-12)


@pytest.mark.parametrize(("height", "width"), [(32, 32), (33, 20), (8, 100)])
def test_clouds_reach_from_0_to_1_and_fade_with_size(height, width):
    rng = np.random.default_rng(0)
    soft, rough = (
        np.mean([np.abs(np.diff(cloud(height, width, decay, rng))).mean() for _ in range(30)])
        for decay in (3.0, 1.2)
    )
    assert soft < rough
    land = cloud(height, width, 2.0, rng)
    assert land.shape == (height, width)
    assert (land >= 0).all()
    assert (land <= 1).all()
    whole = cloud(32, 32, 2.0, rng)
    assert (whole.min(), whole.max()) == (0.0, 1.0)


def test_a_disk_keeps_the_light_and_is_round():
    for radius, rim in [(0.3, 0.4), (1, 0.2), (3, 0.1), (8, 0.5), (10, 0.5), (18.5, 0.5)]:
        disk = _disk(radius, rim)
        assert disk.sum() == pytest.approx(1)
        np.testing.assert_allclose(disk, disk.T, atol=1e-15)
        np.testing.assert_allclose(disk, disk[::-1, ::-1], atol=1e-15)
    # The second moment of a disk is a quarter of its radius squared.
    along = np.arange(len(disk)) - len(disk) // 2
    assert (disk * along**2).sum() == pytest.approx(18.5**2 / 4, rel=0.02)


@pytest.mark.parametrize("size", [32, 64, 224])
def test_frost_is_as_light_as_blue_and_as_uneven_as_the_photographs(size):
    rng = np.random.default_rng(0)
    panes = np.array([_ice(size, size, 3, rng=rng) for _ in range(40)])
    light = panes.mean(axis=(1, 2, 3))
    assert 0.4 < light.min() < 0.55 < 0.75 < light.max() < 0.9  # theirs: 0.47 to 0.83
    assert 0.05 < panes.mean(axis=3).std(axis=(1, 2)).mean() < 0.15  # theirs: 0.06 to 0.14
    red, green, blue = panes.mean(axis=(0, 1, 2))
    assert red < green < blue


@pytest.mark.parametrize(("size", "radius", "rim"), [(32, 1, 0.2), (64, 3, 0.1), (224, 10, 0.5)])
def test_out_of_focus_is_a_disk_at_every_pixel(size, radius, rim):
    image = np.random.default_rng(0).random((size, size + 5, 3))
    severity = 4 if size == 32 else 5
    made = defocus_blur(image, None, *numbers("defocus_blur", severity, size))
    disk = _disk(radius, rim)[..., None]
    np.testing.assert_allclose(made, ndimage.convolve(image, disk, mode="mirror"), atol=1e-12)


@pytest.mark.parametrize("kind", STANDARD + EXTRA)
def test_numbers_between_published_sizes_lie_between_theirs(kind):
    for severity in SEVERITIES:
        small, middle, large = (np.array(numbers(kind, severity, size)) for size in SIZES)
        assert numbers(kind, severity, 9) == tuple(small)
        for size, low, high in ((47, small, middle), (150, middle, large)):
            between = np.array(numbers(kind, severity, size))
            assert (between >= np.minimum(low, high) - 1e-12).all()
            assert (between <= np.maximum(low, high) + 1e-12).all()
            assert sum(weight for weight, _ in rows_of(kind, severity, size)) == 1
        larger = np.array(numbers(kind, severity, 448))
        assert set(larger[large > 0] / large[large > 0]) <= {1.0, 2.0}


def test_near_a_published_size_the_numbers_are_near_its_own():
    (at_34,), (at_60,) = (numbers("contrast", 1, size) for size in (34, 60))
    assert at_34 == pytest.approx(0.75 - (0.75 - 0.4) * np.log2(34 / 32))
    assert 0.4 < at_60 < 0.45 < 0.7 < at_34 < 0.75


def test_in_larger_images_lengths_grow_and_nothing_else():
    assert numbers("motion_blur", 1, 448) == (20, 6)
    assert rows_of("defocus_blur", 5, 336) == ((1.0, (15, 0.5)),)
    assert numbers("snow", 1, 448) == (0.1, 0.3, 6, 0.5, 20, 8, 0.8)
    assert numbers("spatter", 4, 448) == (0.65, 0.3, 2, 0.65, 0, 3)
    for kind in ("gaussian_noise", "zoom_blur", "fog", "pixelate", "jpeg_compression"):
        assert numbers(kind, 3, 448) == numbers(kind, 3, 224)
