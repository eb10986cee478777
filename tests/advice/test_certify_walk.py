"""The walk down a fixed grid: against plain loops and scipy's bounds, and by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import binom, binomtest

from smallcal.advice.certify_walk import (
    GRID,
    Counts,
    Target,
    counts_by,
    interval,
    lowest_risk,
    one_of_each,
    rows_to_pass,
    start_rows,
    upper_bound,
    walk,
    walk_each,
)

TWO = Target(risk=0.02, delta=0.05)


def rows(n, seed=0, *, centre=3.0, spread=1.8):
    """Draw calibrated confidences, and whether each row is right."""
    rng = np.random.default_rng(seed)
    sure = expit(rng.normal(centre, spread, n))
    return sure, rng.random(n) < sure


def plain_walk(sure, right, target, start):
    """Test threshold after threshold, each on its own."""
    last = None
    for place, threshold in enumerate(GRID):
        taken = sure >= threshold
        tried = len(sure) if target.rule == "all" else int(taken.sum())
        if target.rule == "accepted" and tried < start:
            continue
        if binom.cdf(int((taken & ~right).sum()), tried, target.risk) > target.delta:
            break
        last = place
    return None if last is None or not (sure >= GRID[last]).any() else last


@pytest.mark.parametrize("rule", ["accepted", "all"])
@pytest.mark.parametrize("risk", [0.02, 0.1])
@pytest.mark.parametrize("n", [40, 200, 900])
def test_the_walk_equals_a_plain_loop(rule, risk, n):
    target = Target(risk=risk, delta=0.1, rule=rule)
    for seed in range(3):
        sure, right = rows(n, seed, centre=4.0)
        if seed == 2:
            sure = np.round(sure, 1)  # ties
        wanted = plain_walk(sure, right, target, start_rows(n, risk, 0.1))
        assert walk(Counts.of(sure, right), target) == wanted


def test_the_first_that_fails_ends_the_walk():
    """Later thresholds would pass again, and do not count."""
    sure = np.repeat([0.99, 0.9, 0.6], [800, 40, 3_000])
    counts = Counts.of(sure, sure != 0.9)
    place = walk(counts, TWO)
    assert counts.accepted[place] == 800
    assert binom.cdf(40, 3_840, TWO.risk) <= TWO.delta  # as at the end
    assert plain_walk(sure, sure != 0.9, TWO, start_rows(3_840, 0.02, 0.05)) == place
    # Nor does a start that fails.
    assert walk(Counts.of(sure, np.arange(3_840) >= 40), TWO) is None


def test_a_row_at_a_threshold_is_accepted():
    sure = np.repeat(GRID[[100, 700, -1]], [2, 3, 4])
    counts = Counts.of(sure, np.arange(9) % 2 == 0)
    assert counts.accepted[[99, 100, 699, 700, -2, -1]].tolist() == [0, 2, 2, 5, 5, 9]
    assert counts.errors[[99, 100, 699, 700, -2, -1]].tolist() == [0, 1, 1, 2, 2, 4]


@pytest.mark.parametrize(("errors", "n"), [(0, 1), (0, 149), (1, 236), (7, 300), (5, 5), (99, 400)])
def test_bounds_are_those_of_scipy(errors, n):
    one_sided = binomtest(errors, n, alternative="less").proportion_ci(0.95, method="exact")
    assert upper_bound(errors, n, 0.05) == pytest.approx(one_sided.high, rel=1e-9)
    both = binomtest(errors, n).proportion_ci(0.9, method="exact")
    assert interval(errors, n, 0.9) == pytest.approx((both.low, both.high), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("risk", [0.001, 0.02, 0.3, 0.9])
@pytest.mark.parametrize("delta", [0.01, 0.05, 0.4])
def test_the_fewest_rows_that_pass(risk, delta):
    for errors in (0, 1, 4):
        fewest = rows_to_pass(errors, risk, delta)
        assert binom.cdf(errors, fewest, risk) <= delta
        assert fewest == errors + 1 or binom.cdf(errors, fewest - 1, risk) > delta


def test_the_start_knows_sizes_only():
    starts = [start_rows(n, 0.02, 0.05) for n in range(1, 20_000, 50)]
    assert starts == sorted(starts)
    assert starts[0] == rows_to_pass(0, 0.02, 0.05)
    assert starts[-1] == rows_to_pass(20, 0.02, 0.05)


def test_the_grid_is_fixed_and_ends_with_every_row():
    odds = np.log(GRID[:-1] / (1 - GRID[:-1]))
    assert odds[[0, -1]] == pytest.approx([16, -8], abs=1e-6)
    assert np.diff(odds) == pytest.approx(np.full(len(odds) - 1, -0.02), abs=1e-6)
    assert GRID[-1] == 0


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60),
    st.floats(0.01, 0.6),
    st.floats(0.01, 0.5),
    st.sampled_from(["accepted", "all"]),
    st.randoms(use_true_random=False),
)
def test_what_holds_of_every_walk(drawn, risk, delta, rule, dice):
    target = Target(risk=risk, delta=delta, rule=rule)
    sure, right = np.array(drawn).T
    counts = Counts.of(sure, right == 1)
    place = walk(counts, target)
    order = list(range(len(sure)))
    dice.shuffle(order)
    assert walk(Counts.of(sure[order], right[order] == 1), target) == place
    if place is not None:
        accepted, errors = int(counts.accepted[place]), int(counts.errors[place])
        assert accepted == (sure >= GRID[place]).sum()
        tried = accepted if rule == "accepted" else counts.n
        assert upper_bound(errors, tried, delta) <= risk * (1 + 1e-9)
        # A larger risk never takes rows away where the walk starts at the same place.
        wider = walk(counts, Target(risk=min(0.99, 1.5 * risk), delta=delta, rule=rule), start=1)
        same = walk(counts, target, start=1)
        assert same is None or (wider is not None and wider >= same)


def test_rows_of_classes_are_counted_apart():
    sure, right = rows(500)
    codes = np.random.default_rng(1).integers(-1, 3, 500)
    for code, part in enumerate(counts_by(sure, right, codes, 3)):
        alone = Counts.of(sure[codes == code], right[codes == code])
        assert part.n == alone.n
        assert (part.accepted == alone.accepted).all()
        assert (part.errors == alone.errors).all()


def test_holm_never_accepts_less_than_bonferroni():
    gained = 0
    for seed in range(20):
        parts = [Counts.of(*rows(400, 10 * seed + i, centre=2 + i)) for i in range(4)]
        target = Target(risk=0.05, delta=0.05)
        plain = walk_each(parts, target, correction="bonferroni")
        for (low, share), (high, more) in zip(plain, walk_each(parts, target), strict=True):
            assert low is None or (high is not None and high >= low)
            assert more >= share == 0.05 / 4
            gained += high != low
    assert gained


def test_groups_that_cannot_pass_take_no_share():
    big, small = Counts.of(*rows(500, centre=6.0)), Counts.of(*rows(30))
    (place, share), (none, _) = walk_each([big, small], TWO)
    assert (share, none) == (0.05, None)
    assert place == walk(big, TWO)
    assert walk_each([small, small], TWO)[0][0] is None


def test_what_these_rows_can_promise_instead():
    counts = Counts.of(*rows(200, centre=3.0))
    assert walk(counts, TWO) is None
    risk = lowest_risk(counts, TWO)
    assert walk(counts, Target(risk=risk, delta=0.05)) is not None
    assert walk(counts, Target(risk=risk * 0.999, delta=0.05)) is None
    assert lowest_risk(Counts.of([0.9], [False]), TWO) == pytest.approx(1.0)


def sharply_wrong(n, rng):
    """The surest rows are the worst, and half of all confidences are equal."""
    odds = rng.normal(3.0, 1.8, n)
    sure = np.where(odds > 3.0, 1.0, np.round(expit(odds), 2))
    return sure, np.where(odds > 3.0, 0.948, 0.97)


def equal_everywhere(n, rng):
    return expit(rng.normal(3.0, 1.8, n)), np.full(n, 0.949)


def calibrated(n, rng):
    sure = expit(rng.normal(2.0, 1.6, n))
    return sure, sure


@pytest.mark.parametrize("model", [sharply_wrong, equal_everywhere, calibrated])
@pytest.mark.parametrize("rule", ["accepted", "all"])
@pytest.mark.parametrize("n", [70, 500])
def test_the_promise_holds_in_simulation(model, rule, n):
    """`make study-decisions` has more models and more repetitions."""
    target, repeats = Target(risk=0.05, delta=0.1, rule=rule), 400
    sure, right = model(200_000, np.random.default_rng(0))
    order = np.argsort(sure)
    wrong = np.append(np.cumsum((1 - right)[order][::-1])[::-1], 0.0)
    below = np.searchsorted(sure[order], GRID)
    accepted = np.maximum(len(sure) - below, 1) if rule == "accepted" else len(sure)
    rate = wrong[below] / accepted
    rng, broken = np.random.default_rng(n), 0
    for _ in range(repeats):
        sure, right = model(n, rng)
        place = walk(Counts.of(sure, rng.random(n) < right), target)
        broken += place is not None and bool(rate[place] > target.risk)
    assert broken <= binom.ppf(0.9999, repeats, target.delta)


def test_rows_drawn_from_clusters_are_each_as_likely():
    clusters = np.array([3, 1, 1, 1, 2, 0, 2, 2, 2])  # of 1, 3, 4 and 1 rows
    drawn = [one_of_each(clusters, seed=seed) for seed in range(4_000)]
    assert all(len(np.unique(clusters[rows])) == len(rows) > 0 for rows in drawn)
    share = np.bincount(np.concatenate(drawn), minlength=9) / 4_000
    np.testing.assert_allclose(share, 1 / 4, atol=0.03)  # one over the largest size
    alone = np.random.default_rng(0).permutation(50)
    assert one_of_each(alone, seed=1).tolist() == list(range(50))


def test_copies_break_the_promise_unless_one_of_each_is_taken():
    target, rng = Target(risk=0.05, delta=0.05), np.random.default_rng(0)
    flat = 0.9475  # confidence says nothing, and the error rate is above the risk
    broken = np.zeros(2)
    for seed in range(400):
        clusters = np.repeat(np.arange(200), 5)
        sure, right = rng.random(200)[clusters], (rng.random(200) < flat)[clusters]
        for way, drawn in enumerate((np.arange(1_000), one_of_each(clusters, seed=seed))):
            broken[way] += walk(Counts.of(sure[drawn], right[drawn]), target) is not None
    assert broken[0] > 40
    assert broken[1] <= 20 + 3 * np.sqrt(19)
