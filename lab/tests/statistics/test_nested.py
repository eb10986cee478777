"""Intervals for tables with levels: plain loops, known truth, and what is refused."""

import json
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

import smallcal_lab.statistics.nested as module
from smallcal.errors import InputError
from smallcal_lab.statistics.nested import (
    SEED,
    Interval,
    cells,
    clustered,
    crossed,
    nested,
    student,
    tiers,
    tree_of,
)

TABLES = {
    "one level": [0.3, -1.0, 2.0, 0.5],
    "seeds and draws": np.random.default_rng(1).normal(size=(5, 4)),
    "backbones, seeds and draws": np.random.default_rng(2).normal(size=(3, 2, 4)),
    "ragged draws": [[1.0, 2.0, -4.0], [0.5], [3.0, -1.0]],
    "ragged seeds and draws": [[[1.0, 2.0], [0.0]], [[-3.0, 1.0, 7.0]], [[2.0], [4.0], [9.0]]],
}


def two_levels(rng, seeds=12, draws=10, between=1.0, within=1.0):
    """A table whose expectation is zero."""
    return between * rng.normal(size=(seeds, 1)) + within * rng.normal(size=(seeds, draws))


def largest(units, depth):
    """The largest number of children at each level, the long way."""
    widths = []
    for _ in range(depth):
        widths.append(max(len(unit) for unit in units))
        units = [child for unit in units for child in unit]
    return widths


def depth_of(values):
    return 0 if np.isscalar(values) else 1 + depth_of(values[0])


def plain(values, n_boot, seed=SEED):
    """Every resample by recursion, from the documented streams."""
    depth = depth_of(values)
    widths = largest([values], depth)
    streams = np.random.default_rng(seed).spawn(depth)
    uniform = [s.random((n_boot, *widths[: k + 1])) for k, s in enumerate(streams)]

    def mean_of(unit, position):
        if np.isscalar(unit):
            return Fraction(float(unit))  # so that what cancels is 0 and has no sign
        picks = uniform[len(position) - 1][position][: len(unit)]
        drawn = [unit[int(np.floor(u * len(unit)))] for u in picks]
        return sum(mean_of(child, (*position, i)) for i, child in enumerate(drawn)) / len(unit)

    return np.array([float(mean_of(values, (b,))) for b in range(n_boot)])


def equal_weight_mean(values):
    if np.isscalar(values):
        return float(values)
    return sum(equal_weight_mean(child) for child in values) / len(values)


def assert_summarises(result, point, resampled):
    assert result.point == pytest.approx(point, rel=1e-12, abs=1e-14)
    assert result.values.mean() == pytest.approx(resampled.mean(), rel=1e-12, abs=1e-14)
    ends = np.quantile(resampled, [(1 - result.level) / 2, (1 + result.level) / 2])
    assert [result.low, result.high] == pytest.approx(ends, rel=1e-12, abs=1e-14)
    assert result.p_below == np.mean(resampled < 0)
    assert result.p_above == np.mean(resampled > 0)
    assert result.n_boot == len(resampled)


# Against plain loops


@pytest.mark.parametrize("name", TABLES)
def test_nested_equals_a_plain_loop_over_the_same_resamples(name):
    values = TABLES[name]
    result = nested(values, n_boot=300, level=0.9)
    assert_summarises(result, equal_weight_mean(values), plain(values, 300))


@pytest.mark.parametrize("name", TABLES)
def test_each_resample_is_that_of_the_loop_whatever_the_block(name, monkeypatch):
    values = TABLES[name]
    expected = plain(values, 50, seed=3)
    for block in (1, 100, 10_000):
        monkeypatch.setattr(module, "_BLOCK", block)
        drawn = module._resample(tree_of(values), 50, 3)
        np.testing.assert_allclose(drawn, expected, rtol=1e-12, atol=1e-14)


def test_the_estimate_of_a_full_table_is_its_mean():
    for table in (np.ones((2, 3)), np.arange(60.0).reshape(3, 4, 5), np.arange(6)):
        assert nested(table, n_boot=10).point == pytest.approx(np.mean(table))
        assert clustered(table, n_boot=10).point == pytest.approx(np.mean(table))
        assert cells(table, n_boot=10).point == pytest.approx(np.mean(table))


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
def test_clustered_keeps_all_that_belongs_to_a_unit(axis):
    table = np.random.default_rng(5).normal(size=(3, 6, 4))
    uniform = np.random.default_rng(9).spawn(1)[0].random((200, table.shape[axis]))
    picks = (uniform * table.shape[axis]).astype(int)
    resampled = np.array([np.take(table, row, axis=axis).mean() for row in picks])
    result = clustered(table, axis=axis, n_boot=200, random_state=9)
    assert_summarises(result, table.mean(), resampled)


def test_clusters_of_ragged_lists_weigh_the_same():
    values = TABLES["ragged draws"]
    means = [np.mean(row) for row in values]
    assert_summarises(clustered(values, n_boot=100), np.mean(means), plain(means, 100))
    with pytest.raises(InputError, match="axis 1 of ragged lists has no units in common"):
        clustered(values, axis=1)


def test_cells_weigh_every_entry_the_same():
    values = TABLES["ragged draws"]
    flat = [x for row in values for x in row]
    assert_summarises(cells(values, n_boot=100), np.mean(flat), plain(flat, 100))


def test_tiers_are_the_three_functions():
    table = np.random.default_rng(6).normal(size=(3, 5, 4))
    result = tiers(table, n_boot=100, level=0.8, random_state=1)
    options = {"n_boot": 100, "level": 0.8, "random_state": 1}
    names = ("seed", "corruption", "severity")
    assert result == {
        "cell": cells(table, **options),
        "corruption": clustered(table, axis=1, levels=names, **options),
        "seed x corruption x severity": nested(table, levels=names, **options),
    }
    assert [row.unit for row in result.values()] == [
        "entry",
        "corruption",
        "seed -> corruption -> severity",
    ]
    assert tiers(table.tolist(), n_boot=100, level=0.8, random_state=1) == result


def test_the_spread_of_resamples_has_its_exact_variance():
    """Top level: variance of seed means; below: within-seed variances, by the laws of variance."""
    table = two_levels(np.random.default_rng(7), seeds=6, draws=5)
    drawn = module._resample(tree_of(table), 200_000, 0)
    between = table.mean(axis=1).var() / 6
    within = table.var(axis=1).mean() / (6 * 5)
    assert drawn.var() == pytest.approx(between + within, rel=0.02)
    assert drawn.mean() == pytest.approx(table.mean(), abs=5 * np.sqrt(between / 200_000) * 2)


# Against known truth


def coverage(interval, repetitions=200, **shape):
    rng = np.random.default_rng(11)
    results = [interval(two_levels(rng, **shape)) for _ in range(repetitions)]
    return np.mean([r.low <= 0 <= r.high for r in results])


def test_nested_covers_and_cells_do_not_when_seeds_differ():
    quick = {"n_boot": 1000}
    assert 0.88 <= coverage(partial(nested, **quick)) <= 0.99
    assert 0.85 <= coverage(partial(clustered, **quick)) <= 0.99
    assert coverage(partial(cells, **quick)) < 0.75


def test_cells_cover_when_seeds_do_not_differ():
    assert 0.88 <= coverage(partial(cells, n_boot=1000), between=0.0) <= 0.99


def test_width_orders_the_readings_under_seed_effects():
    table = two_levels(np.random.default_rng(12), seeds=8, draws=20)
    width = {f: f(table).high - f(table).low for f in (cells, clustered, nested)}
    assert width[cells] < 0.5 * width[clustered]
    assert width[clustered] < width[nested]


# The result


def test_same_seed_same_result_and_another_seed_another():
    table = TABLES["seeds and draws"]
    assert nested(table) == nested(table.copy()) == nested(table.tolist())
    assert nested(table, random_state=1).low != nested(table).low


def test_derived_numbers_and_words():
    result = Interval(
        point=-0.7, low=-0.9, high=-0.3, level=0.95, n_boot=10, unit="seed",
        p_below=1.0, p_above=0.0, plain=-0.6,
    )  # fmt: skip
    assert result.numbers == {"value": -0.7, "plain": -0.6, "low": -0.9, "high": -0.3, "note": ""}
    assert result.excludes_zero
    assert result.text() == "-0.7000 (95 % interval -0.9000 to -0.3000; 10 resamples of seed)"
    plain_data = result.to_dict()
    assert json.loads(json.dumps(plain_data)) == plain_data
    assert set(plain_data) > {"point", "plain", "note", "excludes_zero"}


@pytest.mark.parametrize("ends", [(-1.0, 1.0), (0.0, 1.0), (-1.0, 0.0)])
def test_an_interval_that_touches_zero_does_not_exclude_it(ends):
    low, high = ends
    result = Interval(
        point=0.0, low=low, high=high, level=0.9, n_boot=1, unit="seed",
        p_below=0.5, p_above=0.5, plain=0.0, note="thin",
    )  # fmt: skip
    assert not result.excludes_zero
    assert "; thin" in result.text()


@settings(max_examples=40)
@given(
    st.lists(st.lists(st.floats(-10, 10), min_size=1, max_size=4), min_size=1, max_size=4),
    st.floats(-100, 100),
    st.floats(0.01, 100),
)
def test_shifting_shifts_and_scaling_scales(values, shift, scale):
    moved = [[scale * x + shift for x in row] for row in values]
    for interval in (nested, clustered, cells):
        before, after = interval(values, n_boot=60), interval(moved, n_boot=60)
        for end in ("point", "plain", "low", "high"):
            expected = scale * getattr(before, end) + shift
            assert getattr(after, end) == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert before.low <= before.high


def test_turning_the_sign_swaps_the_shares():
    table = TABLES["seeds and draws"]
    result, turned = nested(table), nested(-table)
    assert (result.p_below, result.p_above) == (turned.p_above, turned.p_below)
    assert (result.low, result.high) == pytest.approx((-turned.high, -turned.low))


# Thin and unusable input


@pytest.mark.parametrize(
    ("values", "note"),
    [
        ([[1.0, 2.0]], "one seed: its uncertainty is not measured"),
        (
            [[1.0]],
            "one seed: its uncertainty is not measured; one draw: its uncertainty is not measured",
        ),
        ([[1.0], [2.0]], "one draw in 2 of 2 seeds: its uncertainty is not measured"),
        ([[1.0], [2.0, 3.0]], "one draw in 1 of 2 seeds: its uncertainty is not measured"),
        ([[1.0, 0.0], [2.0, 3.0]], ""),
    ],
)
def test_a_level_with_one_unit_is_said_aloud(values, note):
    result = nested(values, levels=("seed", "draw"), n_boot=50)
    assert result.note == note
    assert note in result.text()
    assert np.isfinite([result.low, result.high]).all()


def test_one_seed_leaves_only_the_spread_of_its_draws():
    row = [0.1, 0.9, -0.4]
    thin = clustered([row], levels=("seed", "draw"), n_boot=50)
    assert (thin.low, thin.high) == (thin.point, thin.point)
    assert thin.note == "one seed: its uncertainty is not measured"
    assert cells([4], n_boot=5).note == "one entry: its uncertainty is not measured"
    assert nested([row], n_boot=5).note.startswith("one level-1 unit:")


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ([[1.0, 2.0], [3.0, float("nan")]], "values holds nan"),
        ([[1.0], [3.0, 5.0, float("-inf")]], "values holds -inf"),
        (np.array([[[0.0, 1.0], [np.inf, 0.0]]]), "values holds inf"),
        ([1.0, 1e300], r"values holds 1e\+300"),
        ([], "empty"),
        (np.zeros((3, 0)), "empty"),
        ([[1.0], []], "empty, or a part of it is, at level 2"),
        ([[1.0], 2.0], "mixes lists and single entries at level 1"),
        ([2.0, [1.0]], "mixes lists and single entries at level 1"),
        (3.0, "a single entry"),
        (None, "is None"),
        ([["1.5", "2"]], "must hold real numbers; got str"),
        ([True, False], "must hold real numbers"),
        ([1.0, None], "must hold real numbers"),
        ([1j], "must hold real numbers"),
        ([np.ma.masked_array([1.0, 2.0], [True, False])], "must hold real numbers"),
        (np.ma.masked_array([1.0, 2.0], [True, False]), "masked"),
    ],
)
def test_values_without_a_mean_are_refused(values, match):
    for interval in (nested, clustered, cells):
        with pytest.raises(InputError, match=match):
            interval(values, n_boot=5)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n_boot": 0}, "n_boot must be a whole number of at least 1; got 0"),
        ({"n_boot": 10.5}, "n_boot must be a whole number"),
        ({"level": 1.0}, "level must lie between 0 and 1"),
        ({"level": float("nan")}, "level must lie between 0 and 1"),
        ({"random_state": -1}, "random_state must be a whole number of at least 0"),
        ({"random_state": None}, "random_state must be a whole number"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, match):
    table = np.zeros((2, 2, 2))
    for interval in (nested, clustered, cells, tiers):
        with pytest.raises(InputError, match=match):
            interval(table, **options)


@pytest.mark.parametrize("axis", [2, -3])
def test_an_axis_out_of_range_is_refused(axis):
    with pytest.raises(InputError, match=f"axis {axis} is out of range: values has 2"):
        clustered(np.zeros((2, 2)), axis=axis)


@pytest.mark.parametrize("levels", [("seed",), "ab", ()])
def test_names_must_fit_the_levels(levels):
    with pytest.raises(InputError, match=r"levels must name 2 level\(s\)"):
        nested(np.zeros((2, 2)), levels=levels)


@pytest.mark.parametrize("values", [np.zeros((2, 2)), [[[1.0], [2.0]], [[1.0]]]])
def test_tiers_need_a_full_table_of_three_levels(values):
    with pytest.raises(InputError, match="full table of shape"):
        tiers(values)


def test_a_table_too_large_for_memory_is_refused(monkeypatch):
    monkeypatch.setattr(module, "_MAX_ENTRIES", 5)
    with pytest.raises(InputError, match="a resample has 6 entries, over 5"):
        nested(np.zeros((2, 3)))


def test_crossed_equals_a_plain_loop():
    table = np.random.default_rng(3).normal(size=(4, 5, 2))
    found = crossed(table, n_boot=50, random_state=7)
    rng = np.random.default_rng(7)
    counts = [rng.multinomial(n, np.full(n, 1 / n), size=50) for n in table.shape]
    for b, value in enumerate(found.values):
        rows = [np.repeat(np.arange(n), c[b]) for n, c in zip(table.shape, counts, strict=True)]
        assert value == pytest.approx(table[np.ix_(*rows)].mean(), abs=1e-12)


def test_crossed_sees_a_shared_corruption_effect_that_nested_hides():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(1, 19, 1)) + 0.1 * rng.normal(size=(5, 19, 5))
    wide, narrow = crossed(table, n_boot=2000), nested(table, n_boot=2000)
    assert wide.high - wide.low > 1.5 * (narrow.high - narrow.low)


def test_student_is_the_textbook_interval():
    table = np.random.default_rng(1).normal(size=(5, 20))
    found = student(table, levels=("seed", "draw"))
    seeds = table.mean(axis=1)
    low, high = scipy.stats.t.interval(
        0.95, 4, loc=seeds.mean(), scale=seeds.std(ddof=1) / np.sqrt(5)
    )
    assert (found.low, found.high) == pytest.approx((low, high))
    test = scipy.stats.ttest_1samp(seeds, 0, alternative="greater")
    assert found.p_below == pytest.approx(test.pvalue)
    with pytest.raises(InputError, match="needs at least two seeds; got 1"):
        student(table[:1], levels=("seed", "draw"))


def test_student_covers_with_three_seeds_where_resampling_does_not():
    rng = np.random.default_rng(2)
    hits = {"student": 0, "nested": 0}
    for _ in range(200):
        table = rng.normal(size=(3, 1)) + rng.normal(size=(3, 10))
        for name, found in (("student", student(table)), ("nested", nested(table, n_boot=300))):
            hits[name] += found.low <= 0 <= found.high
    assert hits["student"] >= 0.9 * 200
    assert hits["nested"] < 0.9 * 200
