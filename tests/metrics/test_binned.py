import numpy as np
import pytest

from smallcal.metrics import Scored, adaece, classwise_ece, ece
from smallcal.metrics import scored as scored_module
from smallcal.metrics.binned import bin_table, equal_mass, equal_width
from support.refused import refused

UNEQUAL_MASS = [4, 4, 3, 3, 3]


def loop_bins(values, hits, groups):
    """Weighted gap of the group means, empty groups skipped: the textbook form."""
    total = 0.0
    for members in groups:
        if len(members) == 0:
            continue
        mean_value = sum(values[i] for i in members) / len(members)
        mean_hit = sum(float(hits[i]) for i in members) / len(members)
        total += len(members) / len(values) * abs(mean_value - mean_hit)
    return total


def loop_width_groups(values, bins):
    edges = np.linspace(0, 1, bins + 1)
    groups = []
    for j in range(bins):
        last = j == bins - 1
        groups.append(
            [i for i, v in enumerate(values) if edges[j] <= v and (v < edges[j + 1] or last)]
        )
    return groups


def top(y_true, y_proba):
    return y_proba.max(axis=1), y_proba.argmax(axis=1) == y_true


@pytest.mark.parametrize("bins", [1, 2, 10, 15, 40])
def test_ece_equals_its_definition_written_as_a_loop(bins, softmax_case):
    case = softmax_case(400)
    values, hits = top(*case)
    expected = loop_bins(values, hits, loop_width_groups(values, bins))
    assert ece(*case, bins=bins) == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("n", [1, 7, 15, 16, 301])
def test_adaece_equals_its_definition_written_as_a_loop(n, softmax_case):
    case = softmax_case(n)
    values, hits = top(*case)
    groups = np.array_split(np.argsort(values, kind="stable"), 15)
    assert adaece(*case) == pytest.approx(loop_bins(values, hits, groups), abs=1e-14)


@pytest.mark.parametrize("bins", [3, 15])
def test_classwise_ece_equals_its_definition_written_as_a_loop(bins, softmax_case):
    y_true, y_proba = softmax_case(300, 4)
    total = 0.0
    for k in range(4):
        values = y_proba[:, k]
        total += loop_bins(values, y_true == k, loop_width_groups(values, bins))
    assert classwise_ece(y_true, y_proba, bins=bins) == pytest.approx(total / 4, abs=1e-14)


def test_an_unseen_class_counts_in_classwise_ece():
    y_proba = [[0.8, 0.0, 0.2], [0.8, 0.0, 0.2]]
    # Column 0 says 0.8 and holds 1.0, column 1 is right, column 2 says 0.2 and holds 0.
    assert classwise_ece([0, 0], y_proba) == pytest.approx((0.2 + 0.0 + 0.2) / 3)


def test_a_value_on_an_edge_belongs_to_the_upper_bin_and_one_to_the_last():
    values = np.array([0.0, 0.25, 0.5, 0.75, 1.0, np.nextafter(0.5, 0)])
    assert equal_width(values, 4).tolist() == [0, 1, 2, 3, 3, 1]


@pytest.mark.parametrize("bins", [2, 3, 15, 100])
def test_every_edge_opens_its_own_bin(bins):
    edges = np.linspace(0, 1, bins + 1)
    assert equal_width(edges[:-1], bins).tolist() == list(range(bins))
    assert equal_width(edges[-1:], bins).tolist() == [bins - 1]


def test_samples_on_both_sides_of_an_edge_do_not_cancel():
    # Bins of one half: 0.5 opens the upper one, and 0.4 is below it.
    y_proba = [[0.5, 0.25, 0.25], [0.4, 0.3, 0.3]]
    assert ece([0, 1], y_proba, bins=2) == pytest.approx((0.5 + 0.4) / 2)


def test_equal_mass_bins_differ_by_one_sample_at_most_the_first_being_larger():
    index = equal_mass(np.arange(17) / 17, 5)
    assert np.bincount(index).tolist() == UNEQUAL_MASS
    assert (np.diff(index) >= 0).all()


def test_equal_mass_bins_cut_ties_in_the_order_of_the_samples():
    assert equal_mass(np.full(17, 0.7), 5).tolist() == np.repeat(range(5), UNEQUAL_MASS).tolist()


def test_fewer_samples_than_bins_leave_the_last_bins_empty():
    assert equal_mass(np.array([0.9, 0.1]), 5).tolist() == [1, 0]


def test_the_bin_table_gives_back_the_ece(softmax_case):
    scored = Scored.of(*softmax_case(400))
    for split in (equal_width, equal_mass):
        table = bin_table(scored, split(scored.confidence, 15), bins=15)
        full = table.count > 0
        gap = np.abs(table.confidence - table.accuracy)[full]
        metric = ece if split is equal_width else adaece
        expected = metric(scored.labels, scored.proba)
        assert (table.count[full] * gap).sum() / scored.n == pytest.approx(expected, abs=1e-14)
        assert table.count.sum() == scored.n
        assert np.isnan(table.accuracy[~full]).all()
        np.testing.assert_array_equal(np.bincount(table.index, minlength=15), table.count)


def test_classwise_ece_does_not_depend_on_the_block_size(softmax_case, monkeypatch):
    case = softmax_case(50, 7)
    whole = classwise_ece(*case)
    monkeypatch.setattr(scored_module, "BLOCK_SIZE", 20)
    assert classwise_ece(*case) == pytest.approx(whole, rel=1e-13)


@pytest.mark.parametrize("metric", [ece, adaece, classwise_ece])
@pytest.mark.parametrize("bins", [0, -3, 2.5, "15"])
def test_a_number_of_bins_that_makes_no_sense_is_refused(metric, bins):
    with refused("option-range", "1"):
        metric([0], [[0.9, 0.1]], bins=bins)


@pytest.mark.parametrize("metric", [ece, adaece])
def test_one_sample_costs_its_own_gap(metric):
    assert metric([0], [[0.9, 0.1]]) == pytest.approx(0.1)
    assert metric([1], [[0.9, 0.1]]) == pytest.approx(0.9)
