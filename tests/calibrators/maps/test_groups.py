"""Groups by a score: cut at its quantiles, a tie always up, in the fit as in use."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smallcal.calibrators.maps.groups import GroupMap, group_members, group_thresholds


@given(
    st.lists(st.integers(-20, 20), min_size=5, max_size=60).filter(lambda v: len(set(v)) > 1),
    st.integers(2, 6),
)
def test_scores_are_cut_at_their_quantiles(values, n_groups):
    scores = np.array(values, dtype=float)
    found = group_thresholds(scores, n_groups)
    expected = np.quantile(scores, np.arange(1, n_groups) / n_groups)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_distinct_scores_make_groups_of_one_size():
    scores = np.random.default_rng(0).permutation(np.arange(300.0))
    member = group_members(scores, group_thresholds(scores, 3))
    assert np.bincount(member).tolist() == [100, 100, 100]


@pytest.mark.parametrize("scores", [np.zeros(9), np.full(9, 7.0), 1.0 + 1e-12 * np.arange(9)])
def test_scores_that_coincide_make_one_group(scores):
    thresholds = group_thresholds(scores, 3)
    np.testing.assert_array_equal(thresholds, scores.min())
    assert set(group_members(scores, thresholds)) == {2}


def test_a_tie_goes_up_in_the_fit_and_in_use():
    fitted = GroupMap((1.0, 2.0, 2.0), (0.5, 1.0, 1.5, 2.0))
    scores = np.array([0.9, 1.0, 1.5, 2.0, 2.1])
    loop = [sum(score >= threshold for threshold in (1.0, 2.0, 2.0)) for score in scores]
    assert loop == [0, 1, 1, 3, 3]
    np.testing.assert_array_equal(fitted.groups(scores), loop)
    np.testing.assert_array_equal(fitted(scores), np.array([0.5, 1.0, 1.5, 2.0])[loop])
    np.testing.assert_array_equal(group_members(scores, np.array([1.0, 2.0, 2.0])), loop)
