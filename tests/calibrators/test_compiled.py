"""The compiled kernel against NumPy: real and hostile logits, any type and layout; off is off."""

import subprocess
import sys
import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smallcal as sc
from smallcal.calibrators import compiled, softmax
from smallcal.calibrators.maps.correction_fit import RANK
from smallcal.calibrators.signals import logit_statistics
from smallcal.errors import InputError, MissingExtraError
from support import real

pytest.importorskip("numba", reason="numba is not installed")

from smallcal.calibrators.compiled import kernel

#: What the kernel has, and two methods that it does not.
KERNEL = ("none", "ts-nll", "srts-bce", "margin-k3", "confmargin-k3", "signed-residual-k3")
KERNEL += ("signal-linear", "class-linear", "default", "free")
OTHERS = ("vector-scaling", "ets")
LARGEST = {np.float64: 1e-12, np.float32: 1e-6, np.float16: 1e-3}


@pytest.fixture(autouse=True)
def _off_again():
    compiled._switch.clear()
    yield
    compiled._switch.clear()


def drawn(n, n_classes, seed=0):
    rng = np.random.default_rng(seed)
    z = 2 * rng.standard_normal((n, n_classes))
    z[np.arange(n), rng.integers(n_classes, size=n)] += 10 * rng.random(n)
    biased = z / 1.5 - np.linspace(0, 2, n_classes)
    return z, (biased + rng.gumbel(size=z.shape)).argmax(axis=1)


def fit(method, z, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        if method == "free":
            return sc.Calibrator(keep_predictions=False).fit(z, y).fitted_
        return sc.make(method).fit(z, y).fitted_


@cache
def fitted(method, n_classes):
    return fit(method, *drawn(600, n_classes))


def both(found, z, **given):
    """Return what NumPy gives, and the kernel."""
    sc.use_compiled(on=False)
    plain = found.predict_proba(z, **given)
    sc.use_compiled()
    return plain, found.predict_proba(z, **given)


def agree(found, z, *, atol=None):
    plain, fast = both(found, z)
    assert fast.dtype == plain.dtype
    assert fast.shape == plain.shape
    np.testing.assert_allclose(fast, plain, rtol=0, atol=atol or LARGEST[z.dtype.type])
    assert np.array_equal(fast.argmax(axis=1), plain.argmax(axis=1))


def hostile(n_classes, kind):
    """Return ties, near ties, overtaken predictions, large and saturated logits, and masks."""
    z, _ = drawn(80, n_classes, seed=1)
    z[0] = 0
    z[1, :2] = z[1].max()
    z[2, -1] = np.nextafter(z[2].max(), np.inf)
    z[3] *= 20
    z[4] = np.where(np.arange(n_classes) == 1, 500.0, -500.0)
    z[5, 2:] = -np.inf
    z[6, 0] = -np.inf if n_classes > 2 else 0
    z[7] += 30
    z[8] *= 1e-20
    z[9, 0] = z[9].max() + 1e-3
    z[10:40, 0] = z[10:40].max(axis=1) + np.linspace(-2, 2, 30)
    return z.astype(kind)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("n_classes", [2, 3, 10, 17, 100])
@pytest.mark.parametrize("method", KERNEL)
def test_hostile_rows(method, n_classes, kind):
    found = fitted(method, n_classes)
    agree(found, drawn(300, n_classes, seed=2)[0].astype(kind))
    agree(found, hostile(n_classes, kind))


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize(
    "name", real.there("banking77__tfidf-mlp-seed0", "cifar100__brier-resnet50")
)
@pytest.mark.parametrize("method", ["ts-nll", "srts-bce", "default", "free"])
def test_real_logits(method, name, kind):
    try:
        cell = real.cell(name)
    except FileNotFoundError:
        pytest.skip(f"{name} is not in the folder of real logits")
    found = fit(method, cell["val_logits"][:1000], cell["val_labels"][:1000])
    agree(found, cell["test_logits"][:2000].astype(kind))


LOGITS = st.sampled_from([-800.0, -3.0, 0.0, 1e-7, 2.0, 2.0000002, 40.0, 1e-40, -1.5, 7.0])


@settings(max_examples=60)
@given(
    st.lists(st.lists(LOGITS, min_size=5, max_size=5), min_size=1, max_size=9),
    st.sampled_from(KERNEL),
)
def test_drawn_rows(rows, method):
    for kind in (np.float64, np.float32):
        z = np.array(rows, dtype=kind).reshape(-1, 5)
        # Single precision rounds a corrected logit of 800 by 5e-5, in any order of sums.
        large = kind is np.float32 and z.size and np.abs(z).max() > 100
        agree(fitted(method, 5), z, atol=1e-4 if large else None)


@pytest.mark.parametrize("method", ["ts-nll", "default"])
def test_layouts_rows_and_room_of_ones_own(method):
    found, (z, _) = fitted(method, 10), drawn(150, 10, seed=3)
    for kind in (np.float32, np.float64):
        rows = z.astype(kind)
        plain, fast = both(found, rows)
        wide = np.zeros((150, 20), kind)
        wide[:, ::2] = rows
        read_only = rows.copy()
        read_only.flags.writeable = False
        for same in (
            np.asfortranarray(rows),
            wide[:, ::2],
            read_only,
            rows.astype(rows.dtype.newbyteorder()),
        ):
            assert np.array_equal(found.predict_proba(same), fast)
        alone = np.concatenate([found.predict_proba(row[None]) for row in rows])
        assert np.array_equal(alone, fast)  # a row's bits do not depend on the rows beside it
        for out in (np.empty((150, 10), kind, order="F"), np.empty((150, 20), kind)[:, ::2]):
            assert found.predict_proba(rows, out=out) is out
            assert np.array_equal(out, fast)
        half = found.predict_proba(rows, out=np.empty((150, 10), np.float16))
        assert np.array_equal(half.argmax(axis=1), plain.argmax(axis=1))
        with pytest.raises(InputError, match="no rows"):
            found.predict_proba(rows[:0])


def test_many_parts_are_one(monkeypatch):
    found, (z, _) = fitted("default", 10), drawn(150, 10, seed=3)
    z[50, 3] = -np.inf
    plain, fast = both(found, z)
    monkeypatch.setattr(
        compiled, "slices", lambda n, c: (slice(k, k + 40) for k in range(0, n, 40))
    )
    assert np.array_equal(found.predict_proba(z), fast)
    np.testing.assert_allclose(fast, plain, rtol=0, atol=1e-12)
    z[120, 2] = np.nan
    with pytest.raises(InputError, match="row 120") as error:
        found.predict_proba(z)
    sc.use_compiled(on=False)
    with pytest.raises(InputError) as plainly:
        found.predict_proba(z)
    assert str(error.value) == str(plainly.value)


def test_groups_and_what_was_learned_later_come_after_it():
    z, y = drawn(600, 5)
    groups = np.array(["a", "b"])[np.arange(600) % 2]
    y = np.where(groups == "a", z.argmax(axis=1), y)
    found = sc.Calibrator().fit(z, y, groups=groups).fitted_
    assert found.groups.sigma > 0
    plain, fast = both(found, z, groups=groups)
    np.testing.assert_allclose(fast, plain, rtol=0, atol=1e-12)


def test_the_kernel_has_the_methods_it_is_for_and_leaves_the_others():
    sc.use_compiled()
    double = np.dtype(np.float64)
    for method in KERNEL:
        assert compiled.plan_for(fitted(method, 5), double, double) is not None
    for method in OTHERS:
        found = fitted(method, 5)
        assert compiled.plan_for(found, double, double) is None
        plain, fast = both(found, drawn(50, 5)[0])
        assert np.array_equal(plain, fast)
    found = fitted("default", 5)
    reads = tuple(tuple(0.1 * row) for row in np.eye(6, 5))
    large = replace(found, correction=replace(found.correction, reads=reads, writes=reads))
    assert compiled.plan_for(large, double, double) is None


def test_most_rows_are_the_kernels():
    found, z = fitted("default", 10), drawn(2000, 10, seed=4)[0]
    sc.use_compiled()
    for kind in (np.float32, np.float64):
        plan = compiled.plan_for(found, np.dtype(kind), np.dtype(kind))
        rows = z.astype(kind)
        assert len(compiled.run(plan, rows, np.empty_like(rows))) < 20


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_score_at_a_threshold_is_left_to_numpy(kind):
    found, z = fitted("srts-bce", 10), drawn(60, 10, seed=4)[0].astype(kind)
    score = np.sort(found.scores(z))
    thresholds = float(score[20]), float(score[40])
    found = replace(found, map=replace(found.map, thresholds=thresholds))
    agree(found, z)
    plan = compiled.plan_for(found, z.dtype, z.dtype)
    left = compiled.run(plan, z, np.empty_like(z))
    at = np.flatnonzero(np.isin(found.scores(z), thresholds))
    assert set(at) <= set(left)
    assert len(left) < 6


def test_the_power_is_that_of_two():
    from numba import njit

    power = njit(lambda x: kernel.power(x))
    for kind, most in ((np.float32, 2e-7), (np.float64, 1e-15)):
        x = np.linspace(-100, 3, 5001).astype(kind)
        exact = np.exp2(x.astype(np.longdouble))
        found = np.array([power(kind(each)) for each in x], dtype=np.longdouble)
        assert np.abs(found / exact - 1).max() < most


def test_what_the_kernel_writes_down_again_is_the_same():
    assert kernel.SHARING_ROUNDS == softmax.SHARING_ROUNDS
    assert kernel.SMALL == softmax._SMALL
    assert kernel.NO_GAP == logit_statistics.NO_GAP
    assert kernel.RANK == RANK


def test_off_is_off(monkeypatch):
    monkeypatch.delenv(compiled.VARIABLE, raising=False)
    found, (z, _) = fitted("default", 10), drawn(100, 10, seed=3)
    before = found.predict_proba(z)
    assert not compiled.is_on()
    _, fast = both(found, z)
    assert not np.array_equal(before, fast)  # else the switch does nothing
    sc.use_compiled(on=False)
    assert np.array_equal(found.predict_proba(z), before)


@pytest.mark.parametrize(("value", "on"), [("1", True), ("0", False), ("", False)])
def test_the_environment_asks_for_it(monkeypatch, value, on):
    monkeypatch.setenv(compiled.VARIABLE, value)
    assert compiled.is_on() is on
    sc.use_compiled(on=False)
    assert not compiled.is_on()


def test_without_numba_one_line_says_what_to_install(monkeypatch):
    for name in ("kernel", "plan"):
        monkeypatch.delitem(sys.modules, f"smallcal.calibrators.compiled.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(MissingExtraError, match=r"^the compiled kernel needs .*smallcal\[fast\]'$"):
        sc.use_compiled()
    assert not compiled._switch


def test_numba_is_not_loaded_unless_it_is_asked_for():
    program = (
        "import sys, smallcal as sc; d = sc.load_demo('cal');"
        "p = sc.make('ts-nll').fit(d.logits, d.labels).predict_proba(d.logits);"
        "print('numba' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
