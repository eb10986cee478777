"""SRTS itself: against a plain reference, its identities, its edge cases."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import smallcal as sc
from reference import ReferenceSRTS
from support.refused import refused
from support.simulated import simulate


def test_srts_equals_the_plain_reference(split):
    z, y = split
    ours, plain = sc.SRTS().fit(z, y), ReferenceSRTS(tol=1e-9).fit(z, y)
    np.testing.assert_allclose(ours.temperatures_, plain.temperatures, rtol=1e-3)
    np.testing.assert_allclose(ours.thresholds_, plain.thresholds, atol=1e-3)
    assert ours.pooled_temperature_ == pytest.approx(plain.pooled, rel=1e-6)


@pytest.mark.filterwarnings("ignore::smallcal.FitWarning")
@pytest.mark.parametrize("n", [250, 1250, 2500])
def test_srts_agrees_with_the_reference_on_real_logits(real_cell, n):
    z, y = real_cell["val_logits"][:n], real_cell["val_labels"][:n]
    ours, plain = sc.SRTS().fit(z, y), ReferenceSRTS(tol=1e-9).fit(z, y)
    test, labels = real_cell["test_logits"], real_cell["test_labels"]
    mine = sc.evaluate(labels, ours.predict_proba(test), metrics=["ece15", "brier"])
    theirs = sc.evaluate(labels, plain.predict_proba(test), metrics=["ece15", "brier"])
    # The paper's own tolerance for a deterministic method is 0.011 points of ECE.
    assert mine["ece15"] == pytest.approx(theirs["ece15"], abs=1.1e-4)
    assert mine["brier"] == pytest.approx(theirs["brier"], abs=1.1e-4)


def test_one_group_is_temperature_scaling_bit_for_bit(split):
    z, y = split
    for objective in ("bce", "nll", "brier", "softece", "mixed(3)"):
        grouped = sc.SRTS(n_groups=1, objective=objective).fit(z, y)
        scalar = sc.TemperatureScaling(objective=objective).fit(z, y)
        np.testing.assert_array_equal(grouped.temperatures_, scalar.temperatures_)
        np.testing.assert_array_equal(grouped.predict_proba(z), scalar.predict_proba(z))
        assert grouped.n_parameters_ == 1


def test_deployed_srts_has_ten_parameters_and_equal_groups(split):
    cal = sc.SRTS().fit(*split)
    assert cal.n_parameters_ == 10
    assert cal.group_counts_.tolist() == [200, 200, 200]
    assert cal.coef_.shape == cal.signal_mean_.shape == cal.signal_scale_.shape == (6,)
    assert isinstance(cal.intercept_, float)
    assert cal.thresholds_.shape == (2,)
    assert cal.flags_ == {}


def test_each_group_temperature_is_the_scalar_fit_of_its_samples():
    z, y = simulate(900, 8)
    cal = sc.SRTS(signal="logit_margin", n_groups=4).fit(z, y)
    margin = np.sort(z, axis=1)[:, -1] - np.sort(z, axis=1)[:, -2]
    group = np.searchsorted(np.quantile(margin, [0.25, 0.5, 0.75]), margin, side="right")
    for g in range(4):
        alone = sc.TemperatureScaling(objective="bce").fit(z[group == g], y[group == g])
        assert cal.temperatures_[g] == pytest.approx(alone.temperature_, rel=1e-7)


def test_a_score_on_a_threshold_goes_up():
    z, y = simulate(300, 5)
    cal = sc.SRTS(signal="top_logit", n_groups=2, min_group_size=10).fit(z, y)
    at = np.zeros((1, 5))
    at[0, 0] = cal.thresholds_[0]
    below = at.copy()
    below[0, 0] = np.nextafter(at[0, 0], -np.inf)
    assert cal.group(at)[0] == 1
    assert cal.group(below)[0] == 0


@pytest.mark.parametrize("n", [100, 147])
def test_groups_below_fifty_samples_fall_back_to_the_pooled_temperature(n):
    z, y = simulate(n, 6)
    with pytest.warns(sc.FitWarning, match="fallback in groups 0, 1, 2"):
        cal = sc.SRTS().fit(z, y)
    scalar = sc.TemperatureScaling(objective="bce").fit(z, y)
    np.testing.assert_array_equal(cal.temperatures_, [scalar.temperature_] * 3)
    np.testing.assert_array_equal(cal.predict_proba(z), scalar.predict_proba(z))


def test_fifty_samples_are_enough_for_a_group():
    assert "fallback" not in sc.SRTS().fit(*simulate(150, 6)).flags_


def test_coinciding_scores_are_reported_as_degenerate():
    z = np.tile([[2.0, 0.0, 1.0]], (300, 1))
    y = (np.arange(300) % 5 == 0).astype(int)
    with pytest.warns(sc.FitWarning):
        cal = sc.SRTS().fit(z, y)
    assert cal.flags_["degenerate"]
    assert cal.flags_["fallback"]
    assert sum(cal.group_counts_) == 300


def test_an_error_free_group_is_flagged_and_finite():
    z, y = simulate(600, 10, signal=9)
    order = np.argsort(z.max(axis=1))
    y[order[300:]] = z[order[300:]].argmax(axis=1)
    with pytest.warns(sc.FitWarning, match="unidentified in group 2"):
        cal = sc.SRTS(signal="top_logit").fit(z, y)
    assert 0.05 <= cal.temperatures_[2] <= 20
    assert cal.flags_["unidentified"] == [2]


def test_routing_finds_what_one_temperature_cannot():
    """Half the samples need T = 1, half need T = 3; the logit norm tells them apart."""
    rng = np.random.default_rng(0)
    a, ya = simulate(4000, 20, temperature=1.0, seed=1)
    b, yb = simulate(4000, 20, temperature=3.0, seed=2)
    z, y = np.concatenate([a, b]), np.concatenate([ya, yb])
    order = rng.permutation(8000)
    z, y = z[order], y[order]
    cal = sc.SRTS(signal="logit_norm", n_groups=2).fit(z[:4000], y[:4000])
    assert cal.temperatures_ == pytest.approx([1.0, 3.0], rel=0.1)
    scores = {}
    for name, estimator in {
        "routed": sc.SRTS(signal="logit_norm", n_groups=2),
        "scalar": sc.TemperatureScaling(objective="bce"),
        "random": sc.make("random-k3"),
    }.items():
        p = estimator.fit(z[:4000], y[:4000]).predict_proba(z[4000:])
        scores[name] = sc.evaluate(y[4000:], p, metrics=["top_label_bce"])["top_label_bce"]
    assert scores["routed"] < scores["scalar"] - 0.01
    assert scores["random"] == pytest.approx(scores["scalar"], abs=0.005)


def test_risk_ranks_the_wrong_predictions_higher(split):
    z, y = split
    risk = sc.SRTS().fit(z, y).risk(z)
    wrong = z.argmax(axis=1) != y
    assert risk[wrong].mean() > risk[~wrong].mean() + 0.05
    assert ((risk > 0) & (risk < 1)).all()


def test_calibrators_without_a_risk_score_say_so(split):
    cal = sc.SRTS(signal="entropy").fit(*split)
    with refused("method-unsuitable", "'statistic'"):
        cal.risk(split[0])
    with pytest.raises(AttributeError, match="no risk model"):
        _ = cal.coef_


@settings(max_examples=200, deadline=None)
@given(
    arrays(np.float32, (4, 6), elements=st.floats(-30, 30, width=32)),
    st.sampled_from([np.float16, np.float32, np.float64]),
    st.sampled_from([0.05, 1.0, 20.0]),
    st.integers(-3, 3),
)
def test_the_argmax_never_changes_even_a_hair_from_a_tie(z, dtype, temperature, ulps):
    z = z.astype(dtype)
    # Put the winner in the last column, a few units in the last place above an earlier one.
    rival = z.max(axis=1)
    for _ in range(abs(ulps)):
        rival = np.nextafter(rival, dtype(np.inf), dtype=dtype)
    z[:, -1] = rival
    fitted = _scalar_calibrator(temperature)
    p = fitted.predict_proba(z)
    np.testing.assert_array_equal(p.argmax(axis=1), z.argmax(axis=1))


def _scalar_calibrator(temperature):
    from smallcal.calibrators.fitted import FittedCalibrator
    from smallcal.calibrators.maps import ScalarMap
    from smallcal.calibrators.signals import NoSignal

    return FittedCalibrator(
        method="custom",
        objective="bce",
        signal=NoSignal(),
        map=ScalarMap(temperature),
        pooled_temperature=temperature,
        n_classes=6,
        group_counts=(1,),
    )


@settings(max_examples=60)
@given(
    arrays(np.float64, (5, 6), elements=st.floats(-30, 30)),
    st.lists(st.floats(0.05, 20), min_size=2, max_size=6, unique=True),
)
def test_a_higher_temperature_never_raises_the_top_confidence(z, temperatures):
    confidences = [_scalar_calibrator(t).predict_proba(z).max(axis=1) for t in sorted(temperatures)]
    for hotter, cooler in zip(confidences[1:], confidences, strict=False):
        assert (hotter <= cooler + 1e-12).all()


@pytest.mark.parametrize("objective", ["nll", "bce", "brier", "softece"])
def test_one_temperature_does_not_see_a_constant_added_to_a_row(split, objective):
    z, y = split
    shift = np.random.default_rng(0).normal(size=(len(z), 1)) * 50
    plain = sc.TemperatureScaling(objective=objective).fit(z, y)
    moved = sc.TemperatureScaling(objective=objective).fit(z + shift, y)
    assert moved.temperature_ == pytest.approx(plain.temperature_, rel=1e-7)
    np.testing.assert_allclose(moved.predict_proba(z + shift), plain.predict_proba(z), atol=1e-9)


def test_routing_by_risk_does_see_it(split):
    """Norm and top logit are among the statistics: logits must be used as the model gives them."""
    z, y = split
    cal = sc.SRTS().fit(z, y)
    assert not np.allclose(cal.risk(z), cal.risk(z + 5))


def test_weights_change_the_fit_the_way_repetition_does():
    z, y = simulate(400, 6)
    weight = np.random.default_rng(1).integers(1, 4, size=400)
    again = np.repeat(np.arange(400), weight)
    weighted = sc.TemperatureScaling(objective="bce").fit(z, y, sample_weight=weight)
    repeated = sc.TemperatureScaling(objective="bce").fit(z[again], y[again])
    assert weighted.temperature_ == pytest.approx(repeated.temperature_, rel=1e-8)
    equal = sc.SRTS().fit(z, y, sample_weight=np.full(400, 1.0))
    np.testing.assert_allclose(equal.temperatures_, sc.SRTS().fit(z, y).temperatures_, rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "x"}, "unknown objective 'x'"),
        ({"signal": "x"}, "unknown signal 'x'"),
        ({"n_groups": 0}, "n_groups must be a whole number of at least 1; got 0"),
        ({"n_groups": 2.5}, "n_groups must be a whole number of at least 1; got 2.5"),
        ({"n_groups": True}, "n_groups must be a whole number of at least 1; got True"),
        # As much as the usual value, but not a whole number.
        ({"n_groups": 3.0}, r"n_groups must be a whole number of at least 1; got 3\.0"),
        ({"n_folds": 5.0}, r"n_folds must be a whole number of at least 2; got 5\.0"),
        ({"n_folds": "a"}, "n_folds must be a whole number of at least 2; got 'a'"),
        ({"statistics": ["entropy", "x"]}, "statistics must be different names"),
        ({"bounds": 3}, "bounds must be two temperatures"),
        ({"bounds": (1, 2, 3)}, "bounds must be two temperatures"),
        ({"bounds": (2, 1)}, "bounds must satisfy 0 < low < high"),
        ({"bounds": (0, 1)}, "bounds must satisfy 0 < low < high"),
        ({"bounds": (1, 1)}, "bounds must satisfy 0 < low < high"),
        ({"n_folds": 1}, "n_folds must be a whole number of at least 2; got 1"),
        ({"C": 0.0}, "C must be positive; got 0"),
        ({"min_group_size": 0}, "min_group_size must be a whole number of at least 1; got 0"),
        ({"random_state": "x"}, "random_state must be an integer"),
        ({"random_state": -1}, "random_state must be an integer"),
        ({"input": "x"}, "input must be one of logits, probabilities"),
    ],
)
def test_bad_options_are_refused(split, options, message):
    with pytest.raises(sc.InputError, match=message):
        sc.SRTS(**options).fit(*split)


def test_options_may_be_arrays_and_lists(split):
    usual = sc.SRTS().fit(*split).to_dict()
    for bounds in (np.array([0.05, 20.0]), [0.05, 20]):
        assert sc.SRTS(bounds=bounds).fit(*split).to_dict() == usual
    some = sc.SRTS(statistics=np.array(["entropy", "top_logit"]), bounds=np.array([0.1, 10]))
    assert some.fit(*split).fitted_.discipline.bounds == (0.1, 10.0)
    penalties = {"penalties": np.array([0.1, 1.0])}
    cal = sc.Calibrator(method="vector-scaling", options=penalties).fit(*split)
    assert cal.method_ == "vector-scaling[penalties=0.1+1.0]"


def test_random_states_of_every_kind_seed_the_folds(split):
    for state in (7, np.random.default_rng(7), np.random.RandomState(7), None):
        cal = sc.SRTS(random_state=state).fit(*split)
        assert cal.to_dict()["discipline"]["seed"] >= 0
    one = sc.SRTS(random_state=np.random.default_rng(3)).fit(*split)
    two = sc.SRTS(random_state=np.random.default_rng(3)).fit(*split)
    np.testing.assert_array_equal(one.temperatures_, two.temperatures_)


def test_make_refuses_unknown_names_and_options():
    with refused("method-unknown", "'magic'"):
        sc.make("magic")
    with refused("unknown-choice", "'n_groups'"):
        sc.make("tva-ts", n_groups=3)


def test_options_show_in_the_name(split):
    assert sc.SRTS(n_groups=5).fit(*split).method_ == "srts-bce[n_groups=5]"
    two = sc.SRTS(statistics=["entropy", "top_logit"]).fit(*split)
    assert two.method_ == "srts-bce[statistics=entropy+top_logit]"
    mixed = sc.SRTS(objective="mixed(3)").fit(*split)
    assert mixed.method_ == "srts-bce[objective=mixed(3)]"


def test_class_names_name_the_predictions():
    z, y = simulate(300, 3, signal=2)
    names = ["ant", "bee", "cow"]
    cal = sc.SRTS(class_names=names, min_group_size=20).fit(z, np.array(names)[y])
    assert cal.predict(z[:5]).tolist() == np.array(names)[z[:5].argmax(axis=1)].tolist()
    assert cal.to_dict()["class_names"] == names


def test_results_can_be_written_into_a_given_array(split):
    z, y = split
    cal = sc.SRTS().fit(z, y)
    out = np.empty_like(z)
    assert cal.predict_proba(z, out=out) is out
    np.testing.assert_array_equal(out, cal.predict_proba(z))
    with refused("array-shape", "600", "12", "5"):
        cal.predict_proba(z, out=out[:5])
    for bad in (">f8", np.int64):
        with refused("array-shape"):
            cal.predict_proba(z, out=np.empty(z.shape, dtype=bad))


@pytest.mark.parametrize("dtype", [">f2", ">f4", ">f8"])
def test_logits_in_another_byte_order_work(split, dtype):
    z, y = split
    foreign = z.astype(dtype)
    native = foreign.astype(foreign.dtype.newbyteorder("="))
    ours, theirs = sc.SRTS().fit(native, y), sc.SRTS().fit(foreign, y)
    np.testing.assert_array_equal(theirs.temperatures_, ours.temperatures_)
    np.testing.assert_array_equal(theirs.predict_proba(foreign), ours.predict_proba(native))


@pytest.mark.parametrize("spelling", ["mixed", "mixed(1.0)", "mixed(1)"])
def test_one_objective_has_one_name(split, spelling):
    cal = sc.SRTS(objective=spelling).fit(*split)
    assert (cal.method_, cal.to_dict()["objective"]) == ("srts-mixed", "mixed(1)")


def test_srts_helps_on_the_demo_data():
    val, test = sc.load_demo("cal"), sc.load_demo("test")
    raw = sc.Identity().fit(val.logits, val.labels).predict_proba(test.logits)
    p = sc.SRTS().fit(val.logits, val.labels).predict_proba(test.logits)
    before, after = (sc.evaluate(test.labels, q, metrics=["ece15", "nll"]) for q in (raw, p))
    assert after["ece15"] < 0.7 * before["ece15"]
    assert after["nll"] < before["nll"]
