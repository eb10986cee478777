"""How the parts of a method meet: which scores a map is fitted on, who is told.

The parts have tests of their own; these look at what is handed from one to the next.
"""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

import smallcal as sc
from smallcal.calibrators.catalogue import METHODS, method
from smallcal.calibrators.signals import statistics
from smallcal.data.predictions import Predictions
from support.cases import drawn, features_of, fit, fitted_once, make, require_package
from support.simulated import simulate

#: Signals that are learned in folds, or drawn; and maps that deal samples out, or begin at random.
BY_CHANCE = {"risk", "signed_residual", "absolute_residual", "feature_risk", "feature_logit_risk"}
BY_CHANCE |= {"random", "shuffled", "head_temperature"}
DEALT = {"smart", "head", "rejecting", "binned", "semantic"}
#: Maps whose folds choose between penalties, mostly the same one.
CHOSEN = {"vector", "dirichlet", "multinomial"}
#: A row's own confidence may be rounded to either side of itself, which is one rank.
RANKED = {"qats-nll", "qats-bce"}

OURS = [name for name, row in METHODS.items() if row.map != "peer"]


def out_of_fold(z, y, *, seed=0, C=1.0, n_folds=5):
    """The risk of each sample by a model that did not see it, from scikit-learn's parts."""
    table = statistics(z)
    table = (table - table.mean(axis=0)) / table.std(axis=0)
    wrong = z.argmax(axis=1) != y
    risk = np.empty(len(y))
    for train, held in StratifiedKFold(n_folds, shuffle=True, random_state=seed).split(z, wrong):
        model = LogisticRegression(C=C, tol=1e-9, max_iter=5000).fit(table[train], wrong[train])
        risk[held] = model.predict_proba(table[held])[:, 1]
    return risk


def top_of(z, temperature):
    """The confidence of each row at its temperature."""
    scaled = z / np.broadcast_to(temperature, len(z))[:, None]
    return 1 / np.exp(scaled - scaled.max(axis=1, keepdims=True)).sum(axis=1)


@pytest.mark.parametrize(
    "options",
    [{}, {"random_state": 3}, {"n_folds": 3}, {"C": 0.05}, {"n_groups": 4, "min_group_size": 10}],
    ids=str,
)
def test_groups_are_cut_by_scores_that_did_not_see_their_labels(options):
    z, y = simulate(420, 6)
    cal = fit("srts-bce", z, y, **options)
    named = {"seed": options.get("random_state", 0)}
    risk = out_of_fold(z, y, **named, **{k: options[k] for k in ("n_folds", "C") if k in options})
    k = options.get("n_groups", 3)
    np.testing.assert_allclose(cal.thresholds_, np.quantile(risk, np.arange(1, k) / k), atol=1e-5)
    group = np.searchsorted(cal.thresholds_, risk, side="right")
    for g in range(k):
        alone = fit("tva-ts", z[group == g], y[group == g])
        assert cal.temperatures_[g] == pytest.approx(alone.temperature_, rel=1e-4)
    # New rows are scored by the model of the whole split.
    assert (cal.group(z) != group).any()


def test_a_small_group_takes_the_pooled_temperature_by_the_size_that_was_asked_for():
    z, y = simulate(420, 6)
    assert "fallback" not in fit("srts-bce", z, y, n_groups=4).flags_
    cal = fit("srts-bce", z, y, n_groups=4, min_group_size=106)
    assert cal.flags_["fallback"] == [0, 1, 2, 3]
    np.testing.assert_array_equal(cal.temperatures_, cal.pooled_temperature_)


def test_thresholds_that_a_signal_knows_are_kept():
    cal = fit("oracle-correctness", *simulate(300, 5))
    assert cal.thresholds_.tolist() == [0.5]
    assert len(cal.temperatures_) == 2


@pytest.mark.parametrize("name", OURS)
def test_the_losses_of_a_fit_are_those_of_what_it_gives(name):
    """Of the deployed calibrator on its split; the random ones draw the same scores again."""
    require_package(name)
    z, y = drawn(name, 600)
    cal = fitted_once(name)
    extra = {"features": features_of(z)} if "features" in cal.fitted_.signal.needs else {}
    if "labels" in cal.fitted_.signal.needs:
        extra["y"] = y
    for key, p in (
        ("after", cal.predict_proba(z, **extra)),
        ("before", sc.Identity().fit(z, y).predict_proba(z)),
    ):
        expected = sc.evaluate(y, p, metrics=["nll", "top_label_bce"])
        found = cal.fitted_.fit_metrics[key]
        near = 1e-4 if name in RANKED else 1e-6
        assert found["nll"] == pytest.approx(expected["nll"], rel=near)
        assert found["top_label_bce"] == pytest.approx(expected["top_label_bce"], rel=near)
        assert found["mean_confidence"] == pytest.approx(p.max(axis=1).mean(), rel=near)
    assert cal.fitted_.fit_metrics["accuracy"] == np.mean(z.argmax(axis=1) == y)


def test_what_the_router_says_of_its_fit_is_told():
    z, _ = simulate(200, 6)
    y = z.argmax(axis=1)
    y[:3] = (y[:3] + 1) % 6
    cal = fit("srts-shrunk", z, y)
    assert "fewer_folds" in cal.flags_
    assert "no_router" in fit("srts-bce", z, z.argmax(axis=1)).flags_


def test_numbers_that_a_prior_holds_need_no_samples_of_their_own():
    z, y = simulate(100, 12)
    assert "few_samples" not in fit("class-linear", z, y).flags_  # 7 free, 12 held
    assert "few_samples" in fit("class-linear", z[:60], y[:60]).flags_
    assert "few_samples" in fit("srts-bce", z[:99], y[:99]).flags_
    assert "few_samples" not in fit("srts-bce", z, y).flags_


@pytest.mark.parametrize("name", METHODS)
def test_every_option_reaches_the_method_and_its_artefact(name):
    other = {
        "n_folds": 4,
        "C": 0.3,
        "min_group_size": 33,
        "bounds": (0.2, 8.0),
        "seed": 11,
        "n_groups": 2,
        "statistics": ("entropy",),
        "prior_scale": 0.07,
        "class_scale": 0.3,
        "objective": "brier",
    }
    row = METHODS[name]
    known = row.known_options()
    changed = {key: value for key, value in other.items() if key in known}
    if name == "none":
        changed.pop("objective")
    made = row.with_options(changed)
    now = made.known_options()
    assert {key: now[key] for key in changed} == changed
    assert {key: now[key] for key in known if key not in changed} == {
        key: value for key, value in known.items() if key not in changed
    }


@pytest.mark.parametrize("name", OURS)
def test_the_seed_matters_where_chance_has_a_say_and_only_there(name):
    if "random_state" not in make(name).get_params():
        assert METHODS[name].signal not in BY_CHANCE
        assert METHODS[name].map not in DEALT
        return
    z, y = drawn(name, 200, 4)
    cals = [fit(name, z, y, random_state=seed) for seed in (0, 0, 1)]
    numbers = [dict(cal.to_dict(), discipline=None) for cal in cals]
    assert numbers[0] == numbers[1]
    chance = METHODS[name].signal in BY_CHANCE or METHODS[name].map in DEALT
    if METHODS[name].map not in CHOSEN:
        assert (numbers[0] != numbers[2]) is chance


@pytest.mark.parametrize("name", ["smallcal", "class-linear", "srts-bce", "vector", "none"])
@pytest.mark.parametrize("n", [25, 300])
def test_a_fit_without_a_record_is_the_same_calibrator_bit_for_bit(name, n):
    z, y = simulate(n, 6, seed=3)
    preds, other = Predictions.of(z, y), simulate(80, 6, seed=4)[0]
    whole, bare = (method(name).fit(preds, record=record) for record in (True, False))
    np.testing.assert_array_equal(bare.predict_proba(other), whole.predict_proba(other))
    assert (bare.flags, bare.n_parameters) == (whole.flags, whole.n_parameters)
    for flag in set(bare.flags) - {"absent_classes"}:  # whose text has the cross-validated loss
        assert bare.flag_text(flag) == whole.flag_text(flag)
    assert (bare.reference, whole.reference is None) == (None, False)
