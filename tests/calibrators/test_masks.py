"""Options that a row does not have: probability 0 after every method, and no trace elsewhere."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import smallcal as sc
from smallcal.calibrators.catalogue import METHODS
from smallcal.calibrators.signals.logit_statistics import statistics
from smallcal.data.masks import MASKED
from smallcal.data.predictions import Predictions
from smallcal.errors import InputError
from support.cases import EXPORTABLE
from support.refused import refused

pytestmark = pytest.mark.filterwarnings("ignore::smallcal.errors.FitWarning")

RNG = np.random.default_rng(0)
N, C = 400, 5
FULL = RNG.normal(size=(N, C)) * 2 + [0.8, 0, 0, 0, -0.3]
Y = (0.6 * FULL + RNG.gumbel(size=FULL.shape)).argmax(axis=1)
#: Odd rows have three options.
FEW = np.arange(N) % 2 == 1
Z = FULL.copy()
Z[FEW, 3:] = -np.inf
Y = np.where(FEW, (0.6 * FULL[:, :3] + RNG.gumbel(size=(N, 3))).argmax(axis=1), Y)

NAMES = [
    name
    for name, row in METHODS.items()
    if row.deployable and not row.needs and not row.binary  # two options are the fewest
]


def test_the_six_statistics_are_those_of_the_options_there_are():
    np.testing.assert_allclose(statistics(Z[FEW]), statistics(Z[FEW, :3]), rtol=1e-12)
    np.testing.assert_allclose(
        statistics(Z.astype(np.float32)[FEW]), statistics(Z[FEW, :3].astype(np.float32)), rtol=1e-6
    )


@pytest.mark.parametrize("low", [-np.inf, np.finfo(np.float32).min, MASKED])
def test_one_temperature_does_not_see_them(low):
    """The same fit on three columns alone."""
    some = np.where(np.isneginf(Z), low, Z)[FEW]
    masked = sc.TemperatureScaling().fit(some, Y[FEW])
    alone = sc.TemperatureScaling().fit(Z[FEW, :3], Y[FEW])
    np.testing.assert_allclose(masked.temperatures_, alone.temperatures_, rtol=1e-9)
    found = masked.predict_proba(some)
    np.testing.assert_allclose(found[:, :3], alone.predict_proba(Z[FEW, :3]), rtol=1e-9)
    assert (found[:, 3:] == 0).all()


@functools.cache
def fitted(name):
    if METHODS[name].map == "head":
        pytest.importorskip("torch")
    with np.errstate(all="raise", under="ignore"):
        return sc.make(name).fit(Z, Y)


@pytest.mark.parametrize("name", NAMES)
def test_every_method_gives_them_nothing(name):
    cal = fitted(name)
    with np.errstate(all="raise", under="ignore"):
        for given in (Z, Z.astype(np.float32), Z.astype(np.float16)):
            found = cal.predict_proba(given)
            assert found.dtype == np.promote_types(given.dtype, np.float32)
            assert (found[FEW, 3:] == 0).all()
            np.testing.assert_allclose(found.sum(axis=1, dtype=float), 1, atol=2e-3)
    shown = sc.evaluate(Y, cal.predict_proba(Z))
    if name not in ("isotonic", "histogram"):  # these may rule out the class that was true
        assert all(np.isfinite(value) for value in shown.values())


@pytest.mark.parametrize("name", ["srts-bce", "margin-k3", "hts-bce", "ts-nll"])
def test_routed_rows_are_those_of_fewer_columns(name):
    """Fitted on all columns, applied to rows with the columns masked or left out of a softmax."""
    cal = sc.make(name).fit(FULL, Y)
    temperature = cal.temperature(Z[FEW])
    scaled = np.exp((Z[FEW, :3] - Z[FEW, :3].max(axis=1, keepdims=True)) / temperature[:, None])
    np.testing.assert_allclose(
        cal.predict_proba(Z[FEW])[:, :3], scaled / scaled.sum(axis=1, keepdims=True), rtol=1e-9
    )


def test_a_mask_gives_way_to_nothing_else():
    for value, message in ((np.nan, "find out why"), (np.inf, "Minus infinity")):
        bad = Z.copy()
        bad[4, 1] = value
        with pytest.raises(InputError, match=rf"1 of 400 rows are not: row 4 .*({message})"):
            Predictions.of(bad, Y)
        with refused("not-finite", "row 4"):
            sc.Identity().fit(FULL, Y).predict_proba(bad)


def test_rows_need_two_options_and_their_own_label():
    bad = Z.copy()
    bad[[2, 5]] = -np.inf
    bad[5, 0] = 1.0
    with refused("too-few-options", "rows 2, 5"):
        Predictions.of(bad, Y)
    with refused("too-few-options", "rows 2, 5"):
        sc.Identity().fit(FULL, Y).predict_proba(bad)
    labels = Y.copy()
    labels[7] = 4
    with refused("labels-unknown", "row 7", "4"):
        Predictions.of(Z, labels)


@pytest.mark.parametrize("name", [name for name in NAMES if name in EXPORTABLE])
def test_exports_know_masks(name):
    from smallcal.deploy.export.translate import program_of
    from support.program_numpy import run

    cal = fitted(name)
    found = run(program_of(cal.fitted_), Z[:40])[0]
    np.testing.assert_allclose(found, cal.predict_proba(Z[:40]), atol=1e-6)


def test_the_artefact_says_how_many_rows_had_fewer(tmp_path):
    cal = sc.make("default").fit(Z, Y)
    cal.save(tmp_path / "cal.json")
    again = sc.load(tmp_path / "cal.json")
    assert again.fitted_.data["masked"] == N // 2
    np.testing.assert_array_equal(again.predict_proba(Z), cal.predict_proba(Z))
    assert "masked" not in sc.make("ts-nll").fit(FULL, Y).fitted_.data
