"""The demo's data: what its small form keeps, and that the file is what it is said to be."""

from __future__ import annotations

from importlib.resources import files

import numpy as np
import pytest

import demo_form
import smallcal as sc
from smallcal.data.demo import FINE, N_EXACT, Packed, decoded
from support.refused import refused


@pytest.fixture(scope="module")
def packed():
    """Logits of many classes that go together, and what is read back of them."""
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(20, 150))
    rows = rng.normal(size=(700, 20)) @ mixing * 0.35 + 0.2 * rng.normal(size=(700, 150))
    given = {"cal": rows[:300], "test": rows[300:]}
    arrays = demo_form.pack(given)
    read = {}
    for split, logits in given.items():
        kept = Packed(
            decoded(arrays[f"{split}_coefficients"], np.int8, len(logits)),
            decoded(arrays[f"{split}_exact"], np.int16, len(logits)),
            arrays[f"{split}_bend"],
        )
        read[split] = kept.logits(arrays["components"], arrays["centre"])
    return given, read


def sums(logits):
    weights = np.exp(logits)
    total = weights.sum(axis=1)
    entropy = np.log(total) - (weights * logits).sum(axis=1) / total
    return np.log(total), entropy, np.linalg.norm(logits, axis=1)


@pytest.mark.parametrize("split", ["cal", "test"])
def test_what_a_calibrator_looks_at_is_kept(packed, split):
    given, read = (part[split].astype(float) for part in packed)
    order = np.argsort(-given, axis=1)
    assert np.array_equal(order[:, :3], np.argsort(-read, axis=1)[:, :3])
    top = order[:, :3]
    lost = np.take_along_axis(given - read, top, axis=1)
    assert np.abs(lost).max() <= 2 * FINE
    for before, after in zip(sums(given), sums(read), strict=True):
        assert np.abs(after / before - 1).max() < 0.003
    assert 0.02 < np.sqrt(((given - read) ** 2).mean()) < 0.3  # the rest is rounded


def test_logits_that_are_different_stay_different():
    wanted = np.array([[1.0, 1.0 - FINE / 10, 1.0, 0.5, 1.0 - FINE / 5]])
    steps = demo_form._in_order(wanted, np.rint(wanted / FINE))
    assert steps[0, 0] == steps[0, 2] > steps[0, 1] > steps[0, 4] > steps[0, 3]


def test_a_number_that_does_not_fit_stops_the_packing():
    with pytest.raises(SystemExit, match="128 does not fit into int8"):
        demo_form._whole(np.array([127.6]), np.int8)


def test_no_more_is_kept_of_a_row_than_its_largest_logits():
    """Were the true class kept as well, its logit would tell it from all others."""
    path = files("smallcal.data.demo").joinpath("quickdraw345.npz")
    with np.load(str(path)) as arrays:
        assert len(decoded(arrays["test_exact"], np.int16, 3000)) == N_EXACT
    assert sc.load_demo("test").logits.shape == (3000, 345)


def test_the_file_is_small_and_as_described():
    folder = files("smallcal.data.demo")
    path = folder.joinpath("quickdraw345.npz")
    assert len(path.read_bytes()) < 500_000
    page = folder.joinpath("README.md").read_text(encoding="utf-8")
    with np.load(str(path)) as arrays:
        assert all(f"`{name}`" in page for name in arrays.files)
        assert f"int8, {len(arrays['components'])} × 345" in page
    for split, text in (("cal", "41.4 % | 34.5 %"), ("test", "42.7 % | 35.6 %")):
        found = sc.load_demo(split)
        z = found.logits.astype(float)
        right = (z.argmax(axis=1) == found.labels).mean()
        confidence = np.exp(z.max(axis=1) - sums(z)[0]).mean()
        assert f"{100 * right:.1f} % | {100 * confidence:.1f} %" == text
        assert text in page


def test_an_unknown_split_is_told():
    with refused("unknown-choice"):
        sc.load_demo("train")
