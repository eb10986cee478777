"""A world with known truth: is the truth true, and does it show what the paper predicts?"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smallcal as sc
from predictions import (
    MANY,
    MILD,
    NOISY,
    PLAIN,
    STRUCTURED,
    difference,
    high_risk_share,
    losses,
    requantised,
)
from smallcal.data.special import softmax
from smallcal.errors import InputError
from smallcal.metrics import proper
from smallcal.metrics.scored import Scored
from smallcal_lab.studies.simulate import World
from support.cases import fit


def top(rows):
    return rows.logits.argmax(axis=1)


def confidence(rows, temperature):
    scaled = softmax(rows.logits / np.reshape(temperature, (-1, 1)))
    return scaled[np.arange(rows.n), top(rows)]


def z_score(hits, chances):
    return (hits - chances).sum() / np.sqrt((chances * (1 - chances)).sum())


# The truth is true.


@pytest.mark.parametrize("severity", [0, 2.5, 5])
def test_the_logits_are_the_truth_times_its_temperature(severity):
    rows = World(n_classes=30).draw(2000, severity=severity)
    assert rows.logits.dtype == np.float32
    scaled = rows.logits.astype(np.float64) / rows.temperature[:, None]
    odds = np.exp(scaled - np.logaddexp.reduce(scaled, axis=1)[:, None])
    np.testing.assert_allclose(odds, rows.probabilities, rtol=1e-12)
    np.testing.assert_array_equal(top(rows), rows.probabilities.argmax(axis=1))
    np.testing.assert_array_equal(rows.temperature, rows.visible_temperature)


@pytest.mark.parametrize("noise", [0.0, 0.5])
@pytest.mark.parametrize("severity", [0, 4])
def test_labels_come_as_often_as_their_probabilities_say(severity, noise):
    world = World(n_classes=10, accuracy=0.7, noise=noise)
    rows = world.draw(40_000, severity=severity)
    np.testing.assert_allclose(rows.probabilities.sum(axis=1), 1, rtol=1e-12)

    def chi_square(proba):
        """Over bins of a class's probability, which are independent enough to be summed."""
        total = 0.0
        for k in range(10):
            chance, hit = proba[:, k], rows.labels == k
            which = np.digitize(chance, [0.01, 0.1, 0.3, 0.5, 0.7, 0.9])
            total += sum(z_score(hit[which == b], chance[which == b]) ** 2 for b in range(7))
        return total

    # 70 squares of about unit mean: 70 expected, standard deviation about 12.
    assert chi_square(rows.probabilities) < 115
    assert chi_square(softmax(rows.logits.astype(np.float64))) > 1000


def test_noise_is_miscalibration_that_logits_do_not_show():
    noisy = World(n_classes=10, accuracy=0.7, noise=0.5).draw(60_000)
    right = top(noisy) == noisy.labels
    factor = noisy.temperature / noisy.visible_temperature
    assert set(factor.round(12)) == {round(np.exp(0.5), 12), round(np.exp(-0.5), 12)}
    true, seen = (confidence(noisy, t) for t in (noisy.temperature, noisy.visible_temperature))
    np.testing.assert_allclose(true, noisy.probabilities[np.arange(noisy.n), top(noisy)], rtol=1e-9)
    # Who knows the factor sees the miscalibration; the logits alone do not show it anywhere.
    for hot in (factor > 1, factor < 1):
        assert abs(z_score(right[hot], true[hot])) < 3.5
        assert abs(z_score(right[hot], seen[hot])) > 20
    raw = np.sort(noisy.logits.astype(np.float64), axis=1)
    for statistic in (raw[:, -1], raw[:, -1] - raw[:, -2], np.linalg.norm(raw, axis=1), raw[:, 0]):
        edges = np.quantile(statistic, np.arange(1, 6) / 6)
        for group in range(6):
            member = np.digitize(statistic, edges) == group
            assert abs(z_score(right[member], seen[member])) < 4
    # The same samples, logits and labels as without noise: only the truth behind them differs.
    clean = World(n_classes=10, accuracy=0.7).draw(60_000)
    np.testing.assert_array_equal(noisy.logits, clean.logits)
    np.testing.assert_array_equal(noisy.labels, clean.labels)


@pytest.mark.parametrize(
    ("n_classes", "accuracy", "n"),
    [
        (2, 0.55, 40_000),
        (10, 0.9, 40_000),
        (100, 0.4, 20_000),
        (100, 0.95, 20_000),
        (1000, 0.7, 4_000),
    ],
)
def test_the_accuracy_is_the_one_asked_for(n_classes, accuracy, n):
    rows = World(n_classes=n_classes, accuracy=accuracy, structure=-0.4, noise=0.2).draw(n)
    chance = confidence(rows, rows.visible_temperature)
    error = 4 * chance.std() / np.sqrt(n)
    assert chance.mean() == pytest.approx(accuracy, abs=error)
    assert (top(rows) == rows.labels).mean() == pytest.approx(accuracy, abs=2 * error)
    assert error < 0.02


@given(
    n_classes=st.sampled_from([2, 3, 10, 100]),
    accuracy=st.floats(0.6, 0.98),
    structure=st.floats(-0.5, 0.5),
    temperature=st.floats(0.3, 3),
)
def test_temperature_follows_the_margin_and_margins_keep_their_order(
    n_classes, accuracy, structure, temperature
):
    world = World(
        n_classes=n_classes, accuracy=accuracy, structure=structure, temperature=temperature
    )
    rows = world.draw(300)
    ordered = np.sort(rows.logits / rows.temperature[:, None], axis=1)
    order = np.argsort(ordered[:, -1] - ordered[:, -2])
    logs = np.log(rows.temperature[order] / temperature)
    assert (np.diff(logs) * np.sign(structure) <= 1e-6).all()
    assert np.abs(logs).max() <= abs(structure) + 1e-9
    assert logs.mean() == pytest.approx(0, abs=0.15 * abs(structure) + 1e-9)
    raw = np.sort(rows.logits.astype(np.float64), axis=1)
    assert (np.diff((raw[:, -1] - raw[:, -2])[order]) > -2e-5).all()  # float32


# Draws: repeatable, nested, paired.


def test_draws_are_repeatable_nested_and_leave_the_global_state_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    world = World(n_classes=7, noise=0.3)
    many, few = world.draw(500, severity=2), World(n_classes=7, noise=0.3).draw(120, severity=2)
    for name in ("logits", "labels", "probabilities", "temperature", "visible_temperature"):
        np.testing.assert_array_equal(getattr(many, name)[:120], getattr(few, name))
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_what_is_shared_between_seeds_severities_draws_and_splits():
    world, other = World(n_classes=50), World(n_classes=50, seed=1)
    rows = world.draw(2000)
    np.testing.assert_array_equal(rows.labels, other.draw(2000).labels)
    np.testing.assert_array_equal(rows.labels, world.draw(2000, severity=5).labels)
    agreement = (top(rows) == top(other.draw(2000))).mean()
    assert 0.55 < agreement < 0.75  # 0.8² and a little: two models of one accuracy
    for unlike in (world.draw(2000, draw=1), world.draw(2000, split="test")):
        assert (rows.labels == unlike.labels).mean() < 0.05
    shift = world.draw(2000, severity=1)
    assert (top(rows) == top(shift)).mean() > 0.85
    assert np.corrcoef(rows.logits.ravel(), shift.logits.ravel())[0, 1] > 0.95


def test_a_shift_lowers_accuracy_and_makes_the_model_over_confident():
    world = World(n_classes=100)
    path = [world.draw(4000, split="test", severity=s) for s in range(6)]
    raw = [softmax(rows.logits.astype(np.float64)) for rows in path]
    right = np.array([rows.expected(p)["accuracy"] for rows, p in zip(path, raw, strict=True)])
    gap = np.array([p.max(axis=1).mean() for p in raw]) - right
    assert (np.diff(right) < -0.03).all()
    assert right[-1] > 0.4
    assert (np.diff(gap) > 0.02).all()


def test_a_model_under_shift_is_what_it_was_for_evidence_worth_less():
    world = World(n_classes=100)
    clean, shift = world.draw(8000), world.draw(2000, severity=5)

    def margin(rows):
        ordered = np.sort(rows.logits.astype(np.float64), axis=1)
        return ordered[:, -1] - ordered[:, -2]

    # At the same margin of its logits the true temperature is the clean one over 0.7.
    order = np.argsort(margin(clean))
    usual = np.interp(margin(shift), margin(clean)[order], clean.temperature[order])
    np.testing.assert_allclose(shift.temperature * 0.7, usual, rtol=2e-3)


# Expected metrics.


def test_expected_metrics_are_sums_over_every_label_that_could_have_come():
    world = World(n_classes=6, accuracy=0.5, noise=0.4)
    rows = world.draw(300)
    given_proba = softmax(rows.logits.astype(np.float64) / 2.2)
    given_proba[0] = np.eye(6)[2]  # a logarithm of 0 is floored, as in the metrics themselves
    values = {
        "accuracy": proper.accuracy.values,
        "top_label_bce": proper.top_label_bce.values,
        "nll": proper.nll.values,
        "brier": proper.brier.values,
    }
    expected = rows.expected(given_proba)
    assert list(expected) == list(values)
    for name, function in values.items():
        total = 0.0
        for k in range(6):
            scored = Scored.of(np.full(300, k), given_proba)
            total += (rows.probabilities[:, k] * function(scored)).mean()
        assert expected[name] == pytest.approx(total, rel=1e-10)


def test_the_true_ece_is_what_ever_more_labels_would_measure():
    rows = World(n_classes=10, accuracy=0.7, noise=0.3).draw(400)
    p = softmax(rows.logits / 1.1)
    rng = np.random.default_rng(0)
    chances = rows.probabilities[np.arange(rows.n), p.argmax(axis=1)]
    right = (rng.random((100_000, rows.n)) < chances).mean(axis=0)
    c, expected = p.max(axis=1), 0.0
    for k in range(15):
        inside = (c >= k / 15) & (c < (k + 1) / 15) if k < 14 else c >= 14 / 15
        expected += abs((c - right)[inside].sum()) / rows.n
    assert rows.true_ece(p) == pytest.approx(expected, abs=3e-4)
    true = softmax(rows.logits / rows.temperature[:, None])
    assert rows.true_ece(true) == pytest.approx(0, abs=1e-9)
    with pytest.raises(InputError, match=r"y_proba must have shape \(400, 10\)"):
        rows.true_ece(p[:9])


def test_no_calibrator_beats_the_truth():
    rows = STRUCTURED.draw(3000, split="test")
    best = rows.expected(rows.probabilities)
    for name in ("none", "tva-ts", "margin-k3", "default"):
        given_proba = fit(name, *_pair(STRUCTURED.draw(2000))).predict_proba(rows.logits)
        loss = rows.expected(given_proba)
        for metric in ("top_label_bce", "nll", "brier"):
            assert loss[metric] > best[metric]


def _pair(rows):
    return rows.logits, rows.labels


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_classes": 1}, "n_classes must be a whole number of at least 2; got 1"),
        ({"n_classes": 4.0}, "n_classes must be a whole number"),
        ({"accuracy": 0.05, "n_classes": 10}, "accuracy must be a number from 0.1 to 0.98"),
        ({"accuracy": float("nan")}, "accuracy must be a number"),
        ({"temperature": 0}, "temperature must be a number from 0.05 to 20; got 0"),
        ({"structure": 0.6}, "structure must be a number from -0.5 to 0.5"),
        ({"noise": -0.1}, "noise must be a number from 0 to 1"),
        ({"seed": -1}, "seed must be a whole number from 0 to"),
        ({"seed": True}, "seed must be a whole number"),
    ],
)
def test_impossible_worlds_are_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        World(**wrong)


def test_impossible_draws_are_refused():
    world = World(n_classes=5)
    for options, message in (
        ({"n": 0}, "n must be a whole number of at least 1"),
        ({"n": 5, "severity": 6}, "severity must be a number from 0 to 5"),
        ({"n": 5, "draw": -1}, "draw must be a whole number"),
        ({"n": 5, "split": ""}, "split must be a name"),
    ):
        with pytest.raises(InputError, match=message):
            world.draw(**options)
    with pytest.raises(InputError, match=r"y_proba must have shape \(5, 5\); got \(5, 4\)"):
        world.draw(5).expected(np.full((5, 4), 0.25))


# Calibrators find the truth, and the paper's predictions come true.


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_one_temperature_is_found_where_one_is_true(noise):
    world = World(n_classes=20, accuracy=0.6, temperature=1.7, structure=0.0, noise=noise)
    for name in ("tva-ts", "ts-nll"):
        errors = [
            abs(np.log(fit(name, *_pair(world.draw(n, draw=1))).temperature_ / 1.7))
            for n in (400, 40_000)
        ]
        assert errors[1] < 0.01
        assert errors[1] < errors[0] < 0.2


def test_the_signal_to_noise_ratio_is_at_its_floor_without_structure_and_far_above_with_it():
    chosen = ("risk", "confidence", "logit_margin", "logit_norm")

    def ratios(world):
        tables = [
            sc.signal_to_noise(
                *_pair(world.draw(1000, draw=d)), signals=chosen, n_null=0, n_partitions=20
            )
            for d in range(20)
        ]
        return np.array([[table[name].times_floor for name in chosen] for table in tables])

    # (K - 1) times the ratio in floors is about chi-square of two: mean 1, here within 4 errors.
    flat = ratios(PLAIN).mean(axis=0)
    assert (flat < 2.0).all()
    assert (flat > 0.2).all()
    assert (ratios(STRUCTURED).mean(axis=0)[:3] > 8).all()


@pytest.mark.parametrize("control", ["random-k3", "shuffled-k3"])
def test_random_and_shuffled_routing_are_inert(control):
    gain, error = difference(STRUCTURED, 2000, "srts-bce", draws=10)
    assert gain + 4 * error < -1.5
    # Two temperatures too many cost (K - 1) / 2n nats, 0.05 points here, and give nothing.
    cost, error = difference(STRUCTURED, 2000, control, draws=10)
    assert 0 < cost < 0.15
    assert cost + 4 * error < 0.25


def test_random_groups_cost_what_their_parameters_cost():
    cost, error = difference(PLAIN, 500, "random-k3", draws=40)
    assert cost == pytest.approx(100 * 2 / (2 * 500), abs=4 * error)
    assert error < 0.05


def test_the_gain_vanishes_where_miscalibration_does_not_depend_on_risk():
    gains = [difference(world, 2000, "srts-bce", draws=10) for world in (PLAIN, MILD, STRUCTURED)]
    (none, error), (some, _), (much, _) = gains
    assert -2 * error < none < 0.2  # two parameters too many: a small loss
    assert much < some - 0.8 < none - 1


def test_unstructured_miscalibration_gives_routing_nothing():
    cost, error = difference(NOISY, 2000, "srts-bce", draws=10)
    assert -2 * error < cost < 0.2


def test_too_many_groups_hurt_with_few_samples_and_not_with_many():
    few = [difference(STRUCTURED, 250, "srts-bce", draws=12, n_groups=k)[0] for k in (3, 10, 20)]
    assert few[0] < -1  # three still gain
    assert few[0] + 3 < few[1]
    assert few[1] + 3 < few[2]
    many = [difference(STRUCTURED, 5000, "srts-bce", draws=3, n_groups=k)[0] for k in (3, 10, 20)]
    assert many[1] < many[0]
    assert many[2] < -0.5


@pytest.mark.slow
def test_the_larger_map_is_ahead_with_many_samples_and_behind_with_few():
    # Behind by a lot in some draws and by a little in most, so that errors of means say little.
    few = losses(STRUCTURED, 150, "smart-bce", draws=14)
    few = few - losses(STRUCTURED, 150, "srts-bce", draws=14)
    assert few.mean() > 1
    assert (few > 0).mean() > 0.75
    many, error = difference(STRUCTURED, 5000, "smart-bce", "srts-bce", draws=2)
    assert many + error < -0.2


@pytest.mark.slow
def test_the_larger_map_is_behind_in_ece_too_with_few_samples_and_ahead_with_many():
    few, many = (
        losses(MANY, n, "smart-bce", draws=draws, metric="ece15")
        - losses(MANY, n, "srts-bce", draws=draws, metric="ece15")
        for n, draws in ((250, 12), (5000, 2))
    )
    assert few.mean() > 0.4
    assert (few > 0).mean() > 0.6
    assert (many < -0.2).all()


def test_the_high_risk_share_grows_with_severity():
    shares = [high_risk_share(severity) for severity in range(6)]
    assert shares[0] == pytest.approx(1 / 3, abs=0.03)
    assert (np.diff(shares) > 0.03).all()
    assert shares[-1] == pytest.approx(0.65, abs=0.04)


def added(structure, severity):
    """What cutting shifted samples into thirds anew adds to top-label BCE and to ECE."""
    kept, recut = requantised(structure, severity)
    return recut - kept


def test_requantising_hurts_under_shift_and_more_so_the_further_it_goes():
    clean, mild, severe = np.array([added(0.3, severity) for severity in (0, 2, 5)])
    assert np.abs(clean).max() < 0.005
    assert (mild > 0.005).all()
    assert (severe > mild + 0.01).all()
    # It is the hotter temperatures of risky samples that hold against the shift. Where they are
    # the colder ones, to send more samples there is wrong, and thirds are the lesser evil.
    assert (np.array(added(-0.3, 5)) < 0).all()
