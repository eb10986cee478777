"""Effects of groups: right against other routes, harmless where groups do not differ."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

import smallcal as sc
from smallcal.calibrators import artefact
from smallcal.calibrators.catalogue import METHODS
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.group_effects import (
    SCALES,
    USUAL_SCALE,
    Claims,
    GroupEffects,
    claims_of,
    fit_effects,
    log_evidence,
    modes,
)
from smallcal.calibrators.objectives import sigmoid
from smallcal.data.predictions import Predictions
from smallcal.errors import ArtefactError, GroupWarning, InputError
from support.cases import answers_of, features_of, fit, make, require_package
from support.refused import refused
from support.simulated import simulate


def claims(n=600, n_groups=8, scale=0.8, seed=0):
    rng = np.random.default_rng(seed)
    odds, codes = rng.normal(1, 1.5, n), rng.integers(0, n_groups, n)
    truth = rng.normal(0, scale, n_groups)
    holds = rng.random(n) < sigmoid(odds + truth[codes])
    return Claims(odds, holds, rng.uniform(0.2, 2, n), codes), truth


def test_modes_are_those_of_a_plain_optimiser():
    found, _ = claims()
    for sigma in (0.1, 0.7, 3.0):

        def loss(b, sigma=sigma):
            shifted = found.odds + b[found.codes]
            terms = np.logaddexp(0, np.where(found.holds, -shifted, shifted))
            return found.weight @ terms + np.sum(b**2) / (2 * sigma**2)

        plain = minimize(loss, np.zeros(8), method="BFGS", options={"gtol": 1e-7}).x
        np.testing.assert_allclose(modes(found, np.zeros(8), sigma), plain, atol=1e-5)


def test_evidence_is_near_the_integral():
    found, _ = claims(n=200, n_groups=2)
    sigma, grid = 0.7, np.linspace(-6, 6, 4001)
    total = 0.0
    for group in range(2):
        rows = found.codes == group
        shifted = found.odds[rows] + grid[:, None]
        terms = -np.logaddexp(0, np.where(found.holds[rows], -shifted, shifted))
        density = np.exp(-(grid**2) / (2 * sigma**2)) / np.sqrt(2 * np.pi) / sigma
        like = terms @ found.weight[rows]
        total += np.log(np.trapezoid(np.exp(like - like.max()) * density, grid)) + like.max()
    prior = (sigma / USUAL_SCALE) ** 2 / 2
    assert log_evidence(found, modes(found, np.zeros(2), sigma), sigma) == pytest.approx(
        total - prior, abs=0.02
    )


def test_the_scale_has_the_largest_evidence():
    found, _ = claims()
    chosen = fit_effects(found, tuple("abcdefgh"))

    def evidence(sigma):
        return log_evidence(found, modes(found, np.zeros(8), sigma), sigma)

    best = minimize_scalar(lambda s: -evidence(s), bounds=(0.05, 3), method="bounded").x
    assert chosen.sigma in SCALES
    assert chosen.sigma == pytest.approx(best, rel=0.1)


def test_effects_come_near_the_truth_and_beat_none():
    errors, plain = [], []
    for seed in range(20):
        found, truth = claims(n=3000, n_groups=10, scale=0.6, seed=seed)
        effects = np.array(fit_effects(found, tuple("abcdefghij")).effects)
        errors.append(np.mean((effects - truth) ** 2))
        plain.append(np.mean(truth**2))
    assert np.mean(errors) < 0.1 * np.mean(plain)


def test_no_difference_is_mostly_seen_as_none():
    same = [claims(scale=0.0, seed=seed)[0]._replace(weight=np.ones(600)) for seed in range(40)]
    found = [fit_effects(one, tuple("abcdefgh")) for one in same]
    assert np.mean([one.sigma == 0 for one in found]) > 0.5
    assert max(np.abs(one.effects).max() for one in found) < 0.6


def test_thousands_of_groups_are_fast():
    found, truth = claims(n=100_000, n_groups=5_000)
    began = time.perf_counter()
    fitted = fit_effects(found, tuple(map(str, range(5_000))))
    assert time.perf_counter() - began < 5
    assert np.corrcoef(fitted.effects, truth)[0, 1] > 0.6


@pytest.mark.parametrize("effect", [-3.0, -0.2, 0.4, 9.0])
def test_the_prediction_stays_and_proportions_too(effect):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(4), 200).astype(np.float32)
    known = GroupEffects(("a",), (effect,), (9,), 1.0)
    moved, codes = p.copy(), np.where(np.arange(200) % 4, 0, -1)
    known.shift(moved, codes, claim=None)
    assert (moved.argmax(axis=1) == p.argmax(axis=1)).all()
    assert (moved[codes < 0] == p[codes < 0]).all()
    np.testing.assert_allclose(moved.sum(axis=1), 1, atol=1e-6)
    wide, top = p.astype(float), p.argmax(axis=1)
    order = np.argsort(p, axis=1)
    second, third = wide[np.arange(200), order[:, -2]], wide[np.arange(200), order[:, -3]]
    after = moved[np.arange(200), order[:, -3]] / moved[np.arange(200), order[:, -2]]
    np.testing.assert_allclose(after, third / second, rtol=1e-3)
    c = wide[np.arange(200), top]
    rival = second / (1 - c)
    wanted = np.maximum(sigmoid(np.log(c / (1 - c)) + effect), rival / (1 + rival))
    np.testing.assert_allclose(
        moved[np.arange(200), top], np.where(codes < 0, c, wanted), atol=1e-6
    )


def test_a_claim_of_one_column_may_cross():
    p = np.array([[0.4, 0.6]])
    GroupEffects(("a",), (-2.0,), (9,), 1.0).shift(p, np.array([0]), claim=1)
    assert p[0, 1] == pytest.approx(sigmoid(np.log(1.5) - 2))
    odds, holds = claims_of(np.array([[0.8, 0.2]]), np.array([1]), claim=1)
    assert odds[0] == pytest.approx(np.log(0.25))
    assert holds[0]


def test_certain_rows_stay_certain():
    p = np.array([[1.0, 0.0], [0.5, 0.5]])
    GroupEffects(("a",), (-5.0,), (9,), 1.0).shift(p, np.array([0, 0]), claim=None)
    assert p.tolist() == [[1.0, 0.0], [0.5, 0.5]]
    odds, _ = claims_of(np.array([[1.0, 0.0]]), np.array([0]), claim=None)
    assert np.isfinite(odds).all()


def loaded(text):
    return FittedCalibrator.from_dict(artefact.parse(text, source="a.json"), source="a.json")


def grouped(n=600, seed=0, n_classes=6):
    """Logits, labels and groups: the model is much too sure in one of three."""
    z = simulate(n, n_classes, seed=seed)[0]
    rng = np.random.default_rng(seed)
    groups = np.array(["north", "south", "west"])[np.arange(n) % 3]
    sharp = np.where(groups == "north", 0.2, 1.0)[:, None] * z
    y = (sharp + rng.gumbel(size=z.shape)).argmax(axis=1)
    return z, y, groups


@pytest.mark.parametrize("name", list(METHODS))
def test_every_method_takes_groups(name):
    require_package(name)
    z, y, groups = grouped(n_classes=2 if METHODS[name].binary else 6)
    estimator = make(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        estimator.fit(z, y, features=features_of(z), groups=groups)
    more = {"features": features_of(z), "y": answers_of(z)}
    p = estimator.predict_proba(z, groups=groups, **more)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-6)
    if estimator.preserves_argmax_:
        assert (p.argmax(axis=1) == z.argmax(axis=1)).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GroupWarning)
        other = estimator.predict_proba(z, groups=np.full(len(z), "new"), **more)
    plain = fit(name, z, y).predict_proba(z, **more)
    np.testing.assert_array_equal(other, plain)  # unseen groups: the calibrator without groups


def test_groups_help_where_they_differ():
    z, y, groups = grouped(1200)
    new, truth, where = grouped(6000, seed=1)
    plain = sc.Calibrator().fit(z, y)
    better = sc.Calibrator().fit(z, y, groups=groups)
    before = sc.evaluate(truth, plain.predict_proba(new))["nll"]
    after = sc.evaluate(truth, better.predict_proba(new, groups=where))["nll"]
    assert after < before - 0.01
    effects = dict(zip(better.fitted_.groups.names, better.fitted_.groups.effects, strict=True))
    assert effects["north"] < -0.3
    assert better.fitted_.fit_metrics["after"]["nll"] < plain.fitted_.fit_metrics["after"]["nll"]
    assert better.n_parameters_ == plain.n_parameters_ + 3
    assert not better.fitted_.has_few_samples


def test_where_nothing_differs_it_is_the_calibrator_without():
    z, y, _ = grouped()
    groups = np.random.default_rng(1).integers(0, 4, len(z))
    cal = sc.TemperatureScaling().fit(z, y, groups=groups)
    assert cal.fitted_.groups.sigma == 0
    plain = sc.TemperatureScaling().fit(z, y)
    np.testing.assert_array_equal(cal.predict_proba(z), plain.predict_proba(z))
    np.testing.assert_array_equal(cal.predict_proba(z, groups=groups), plain.predict_proba(z))
    assert cal.n_parameters_ == plain.n_parameters_


def test_one_group_and_a_group_per_row():
    z, y, _ = grouped()
    with pytest.warns(sc.FitWarning, match="all samples belong to one group"):
        one = sc.TemperatureScaling().fit(z, y, groups=np.zeros(len(z)))
    assert one.fitted_.groups.sigma == 0
    each = sc.TemperatureScaling().fit(z, y, groups=np.arange(len(z)))
    plain = sc.TemperatureScaling().fit(z, y).predict_proba(z)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GroupWarning)
        new = each.predict_proba(z, groups=["new"] * len(z))
    np.testing.assert_array_equal(new, plain)
    assert np.abs(each.fitted_.groups.effects).max() < 0.5


def test_missing_groups_count_as_unseen_and_are_said():
    z, y, groups = grouped()
    given = groups.astype(object)
    given[:60] = None
    with pytest.warns(sc.FitWarning, match="60 of 600 samples have no group"):
        cal = sc.Calibrator().fit(z, y, groups=given)
    assert sum(cal.fitted_.groups.counts) == 540
    with pytest.warns(GroupWarning, match="60 of 600 rows"):
        cal.predict_proba(z, groups=given)


@pytest.mark.parametrize(
    ("groups", "why"),
    [
        (["a", "b"], "600 rows, 2 groups"),
        ([None] * 600, "no row has a group"),
        (np.zeros((600, 2)), "one name or number per row"),
    ],
)
def test_bad_groups_are_refused_in_one_line(groups, why):
    z, y, _ = grouped()
    with pytest.raises(InputError, match=why) as error:
        sc.Calibrator().fit(z, y, groups=groups)
    assert "\n" not in str(error.value)


def test_groups_are_asked_for_and_not_taken_in_silence():
    z, y, groups = grouped()
    cal = sc.Calibrator().fit(z, y, groups=groups)
    with refused("groups-missing"):
        cal.predict_proba(z)
    with refused("rows-differ", "600", "5"):
        cal.predict(z, groups=groups[:5])
    with refused("groups-invalid"):
        sc.Calibrator().fit(z, y).predict_proba(z, groups=groups)


def test_weights_count_rows_and_zero_leaves_them_out():
    z, y, groups = grouped()
    weight = np.tile([1.0, 2.0, 0.0], 200)
    cal = sc.TemperatureScaling().fit(z, y, groups=groups, sample_weight=weight)
    assert cal.fitted_.groups.names == ("north", "south")
    kept = weight > 0
    again = sc.TemperatureScaling().fit(
        z[kept], y[kept], groups=groups[kept], sample_weight=weight[kept]
    )
    assert cal.fitted_.groups == again.fitted_.groups


def test_groups_are_part_of_the_record():
    z, y, groups = grouped(20)
    preds = Predictions.of(z, y, groups=groups)
    assert preds.group_names == ("north", "south", "west")
    assert preds.take(np.array([0, 4])).group_labels.tolist() == ["north", "south"]
    assert preds.sha256() != Predictions.of(z, y).sha256()
    assert preds.sha256() != Predictions.of(z, y, groups=groups[::-1]).sha256()


def test_saved_and_loaded_by_name(tmp_path):
    z, y, groups = grouped()
    cal = sc.Calibrator().fit(z, y, groups=groups)
    cal.save(tmp_path / "cal.json")
    again = sc.load(tmp_path / "cal.json")
    assert again.fitted_.groups == cal.fitted_.groups
    np.testing.assert_array_equal(
        again.predict_proba(z, groups=groups), cal.predict_proba(z, groups=groups)
    )
    assert "groups" not in sc.Calibrator().fit(z, y).to_dict()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"names": ["a", "a", "b"]}, "repeats"),
        ({"names": ["a", "b"]}, "a name, an effect and a count"),
        ({"names": ["a", "b", ""]}, "none may be empty"),
        ({"effects": [1.0, 2.0, 99.0]}, "larger than 50"),
        ({"sigma": 0.0}, "scale above 0"),
        ({"sigma": -1.0}, "scale above 0"),
        ({"counts": [400, 400, 400]}, "more samples in groups"),
        ({"kind": "other"}, "kind must be one of"),
        ({"more": 1}, "unknown field"),
    ],
)
def test_a_damaged_file_is_refused(change, why):
    z, y, groups = grouped()
    document = sc.Calibrator().fit(z, y, groups=groups).to_dict()
    document["groups"] = {**document["groups"], **change}
    text = artefact.text_of(document)
    with pytest.raises(ArtefactError, match=why):
        loaded(text)


def scored(n=900, seed=0):
    """Scores, outcomes and groups: outcome 1 is much rarer in one of three than scores say."""
    rng = np.random.default_rng(seed)
    odds, codes = rng.normal(0, 1.5, n), np.arange(n) % 3
    outcomes = rng.random(n) < sigmoid(odds + np.array([-1.5, 0.2, 0.8])[codes])
    return sigmoid(odds), outcomes, np.array(["a", "b", "c"])[codes]


@pytest.mark.parametrize("number", [False, True])
def test_scores_take_groups_and_claim_outcome_1(number, tmp_path):
    scores, outcomes, groups = scored()
    new, truth, where = scored(5000, seed=1)
    if number:
        scores, new = (100 * np.log(x / (1 - x)) for x in (scores, new))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        cal = sc.Calibrator(method="ts-nll", input="score").fit(scores, outcomes, groups=groups)
        plain = sc.Calibrator(method="ts-nll", input="score").fit(scores, outcomes)
    effects = cal.fitted_.groups.effects
    assert effects[0] < -0.5 < 0.3 < effects[2]
    p, before = cal.predict_score(new, groups=where), plain.predict_score(new)
    shift = np.log(p / (1 - p)) - np.log(before / (1 - before))
    np.testing.assert_allclose(shift, np.array(effects)[np.arange(5000) % 3], atol=1e-6)

    def loss(p):
        return -np.mean(np.log(np.where(truth, p, 1 - p)))

    assert loss(p) < loss(before) - 0.03
    cal.save(tmp_path / "cal.json")
    again = sc.load(tmp_path / "cal.json").predict_score(new, groups=where)
    np.testing.assert_array_equal(again, p)
