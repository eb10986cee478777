"""What a weight means: twice the weight is the sample twice, and no weight is no sample."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import smallcal as sc
from smallcal.calibrators.catalogue import METHODS, method
from smallcal.calibrators.discipline import Discipline
from smallcal.calibrators.maps import Prior, fit_temperature
from smallcal.calibrators.maps.base import Split
from smallcal.calibrators.maps.groups import fit_groups
from smallcal.calibrators.maps.regressed import fit_class_regressed, fit_regressed
from smallcal.calibrators.objectives import OBJECTIVES, Gaps, objective
from smallcal.calibrators.signals import statistics
from smallcal.data.predictions import Predictions
from smallcal_lab.methods.curves import fit_linear
from support.cases import drawn, features_of, inputs_of, make, require_package
from support.refused import refused
from support.simulated import simulate

BOUNDS = (0.05, 20.0)

#: Signals that a sample's copies do not change: moments and thresholds stay what they were.
UNMOVED = {"none", "statistics", "statistics_class", "standardised_margin", "log_entropy"}
UNMOVED |= {"oracle_correctness"}

#: Maps that deal samples out by chance, so that copies are dealt out too.
DEALT = {"head", "binned", "rejecting", "semantic", "peer"}
#: To the default copies are no new evidence, see maps/test_multinomial.py.
DEALT |= {"multinomial"}

#: Without a choice between penalties there is nothing to cross-validate.
ONE_PENALTY = {
    "vector-scaling": {"penalties": [0.01]},
    "dirichlet-odir": {"lambdas": [0.01], "mus": [0.1]},
}


def quietly(name, z, y, weight=None, **options):
    estimator = make(name, **{**ONE_PENALTY.get(name, {}), **options})
    require_package(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        return estimator.fit(z, y, features=features_of(z), sample_weight=weight)


def repeated(z, y, weight):
    again = np.repeat(np.arange(len(y)), weight.astype(int))
    return z[again], y[again]


def counts(n, seed=0):
    return np.random.default_rng(seed).integers(1, 4, size=n).astype(float)


@pytest.mark.parametrize("name", [name for name, row in METHODS.items() if row.map != "peer"])
def test_no_weight_is_no_sample(name):
    z, y = drawn(name, 360, 6)
    weight = counts(360)
    weight[np.random.default_rng(1).random(360) < 0.2] = 0
    keep = weight > 0
    with_them = quietly(name, z, y, weight)
    without = quietly(name, z[keep], y[keep], weight[keep])
    assert with_them.to_dict() == without.to_dict()
    extra = inputs_of(without, z)
    np.testing.assert_array_equal(
        with_them.predict_proba(z, **extra), without.predict_proba(z, **extra)
    )


def test_weights_of_zero_are_served_where_they_empty_a_group_and_told_where_too_few_are_left():
    z, y = simulate(300, 6)
    margin = np.diff(np.sort(z, axis=1)[:, -2:], axis=1)[:, 0]
    weight = np.where(margin < np.quantile(margin, 0.4), 0.0, 1.0)
    assert len(quietly("margin-k3", z, y, weight).temperatures_) == 3
    few = np.where(np.arange(300) < 4, 1.0, 0.0)
    with refused("too-few-samples", "0", "4"):
        sc.SRTS().fit(z, y, sample_weight=few)
    # The same below the door: a method may be fitted on a record that has such rows.
    preds = Predictions.of(z, y, weight=np.where(np.arange(300) % 3, 1.0, 0.0))
    assert method("margin-k3").fit(preds).pooled_temperature == pytest.approx(
        method("tva-ts").fit(preds.counted()).pooled_temperature, rel=1e-8
    )


@pytest.mark.parametrize(
    "name",
    [name for name, row in METHODS.items() if row.signal in UNMOVED and row.map not in DEALT],
)
def test_twice_the_weight_is_every_sample_twice(name):
    z, y = drawn(name, 240, 5)
    weighted = quietly(name, z, y, np.full(240, 2.0))
    twice = quietly(name, np.repeat(z, 2, axis=0), np.repeat(y, 2))
    # Whether there are few samples is a matter of rows.
    assert set(weighted.flags_) - {"few_samples"} == set(twice.flags_) - {"few_samples"}
    extra = inputs_of(twice, z)
    np.testing.assert_allclose(
        weighted.predict_proba(z, **extra), twice.predict_proba(z, **extra), rtol=2e-5, atol=1e-9
    )


@pytest.mark.parametrize(
    "name",
    [n for n, row in METHODS.items() if row.signal == "none" and row.map not in DEALT],
)
def test_a_weight_is_so_many_copies(name):
    z, y = drawn(name, 240, 5)
    weight = counts(240)
    weighted, copied = quietly(name, z, y, weight), quietly(name, *repeated(z, y, weight))
    np.testing.assert_allclose(
        weighted.predict_proba(z), copied.predict_proba(z), rtol=2e-5, atol=1e-9
    )


def split_of(z, y, weight=None, *, goal="bce", scores=None, prior=None, **more):
    preds = Predictions.of(z, y, weight=weight)
    gaps, chosen = Gaps.of(preds), objective(goal)
    pooled = fit_temperature(chosen, gaps, bounds=BOUNDS, prior=prior)
    return Split(preds, gaps, chosen, pooled, scores, Discipline(), prior, **more)


@pytest.mark.parametrize("prior", [None, Prior(1.4, 0.05), Prior(0.8, 1.0)])
@pytest.mark.parametrize("goal", OBJECTIVES)
def test_a_prior_weighs_less_the_more_the_samples_weigh(goal, prior):
    z, y = simulate(90, 5)
    weight = counts(90)
    found = [
        fit_temperature(objective(goal), Gaps.of(preds), bounds=BOUNDS, prior=prior).value
        for preds in (Predictions.of(z, y, weight=weight), Predictions.of(*repeated(z, y, weight)))
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-7)


MAPS = {
    "groups": lambda split: fit_groups(split),
    "shrunk groups": lambda split: fit_groups(split, prior_scale=0.1),
    "linear": fit_linear,
    "regressed": lambda split: fit_regressed(split, prior_scale=0.2),
    "regressed, independent": lambda split: fit_regressed(split, prior="independent"),
    "class effects": lambda split: fit_class_regressed(split, class_scale=0.3),
}


@pytest.mark.parametrize("prior", [None, Prior(1.3, 0.05)])
@pytest.mark.parametrize("name", MAPS)
def test_a_map_of_given_scores_takes_weights_for_copies(name, prior):
    z, y = simulate(400, 5)
    weight = counts(400)
    again = np.repeat(np.arange(400), weight.astype(int))
    stats = statistics(z)[:, :3]
    scores = (stats - stats.mean(axis=0)) / stats.std(axis=0)
    more = {}
    if "groups" in name:
        scores, more = scores[:, 1], {"thresholds": (-0.5, 0.5)}
    elif name == "linear":
        scores = scores[:, 1]
    elif name == "class effects":
        scores = np.column_stack([scores, z.argmax(axis=1)])
    weighted = MAPS[name](split_of(z, y, weight, scores=scores, prior=prior, **more))
    copied = MAPS[name](split_of(z[again], y[again], scores=scores[again], prior=prior, **more))
    np.testing.assert_allclose(weighted.map(scores), copied.map(scores), rtol=1e-4)


def test_the_router_is_the_weighted_regression():
    z, y = simulate(400, 6)
    weight = counts(400) / 2
    stats = statistics(z)
    s = (stats - stats.mean(axis=0)) / stats.std(axis=0)
    wrong = z.argmax(axis=1) != y
    for C in (0.1, 1.0):
        cal = quietly("srts-bce", z, y, weight, C=C)
        model = LogisticRegression(C=C, tol=1e-10, max_iter=10_000).fit(s, wrong, weight)
        np.testing.assert_allclose(cal.coef_, model.coef_[0], atol=1e-4)
        assert cal.intercept_ == pytest.approx(model.intercept_[0], abs=1e-4)


def test_weights_that_add_up_to_one_count_as_one_sample():
    """To a prior; one temperature without it sees their proportions alone."""
    z, y = simulate(400, 6, temperature=2.0)
    share = np.full(400, 1 / 400)
    drawn = quietly("srts-shrunk", z, y, share).temperatures_
    assert np.ptp(np.log(drawn)) < 0.01
    free = quietly("tva-ts", z, y).temperature_
    assert quietly("tva-ts", z, y, share).temperature_ == pytest.approx(free, rel=1e-7)
