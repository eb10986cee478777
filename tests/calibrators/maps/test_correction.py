"""A correction as a part: what it computes, refuses, writes down, and leaves at a share."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smallcal.calibrators.maps.correction import Correction
from smallcal.calibrators.program import Program, Row
from smallcal.errors import InputError
from support import program_numpy


def random_correction(rng, n_classes, rank):
    rows = (map(tuple, rng.normal(size=(rank, n_classes)).tolist()) for _ in range(2))
    return Correction(tuple(rng.normal(size=n_classes).tolist()), *map(tuple, rows))


def matrix_of(correction):
    """W R, whole."""
    shape = len(correction.reads), correction.n_classes
    reads, writes = (np.reshape(side, shape) for side in (correction.reads, correction.writes))
    return writes.T @ reads


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 8), st.integers(0, 4))
def test_logits_are_moved_by_the_bias_and_the_matrix(seed, n_classes, rank):
    rng = np.random.default_rng(seed)
    correction = random_correction(rng, n_classes, rank)
    z = 5 * rng.normal(size=(6, n_classes))
    expected = z + correction.bias + z @ matrix_of(correction).T
    np.testing.assert_allclose(correction(z), expected, rtol=1e-10, atol=1e-10)
    row = Row(n_classes)
    program = Program(correction.program(row), None, n_classes, 0, "logits")
    np.testing.assert_allclose(program_numpy.run(program, z)[0], expected, rtol=1e-10, atol=1e-10)


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.floats(0, 1), st.integers(0, 3))
def test_a_weakened_correction_moves_logits_by_that_share(seed, weight, rank):
    rng = np.random.default_rng(seed)
    correction = random_correction(rng, 5, rank)
    z = 5 * rng.normal(size=(6, 5))
    weak = correction.weakened(weight)
    assert weak.reads == correction.reads
    np.testing.assert_allclose(weak(z) - z, weight * (correction(z) - z), atol=1e-9)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_a_rows_bits_do_not_depend_on_its_batch(kind):
    rng = np.random.default_rng(0)
    correction = random_correction(rng, 50, 5)
    z = (5 * rng.normal(size=(64, 50))).astype(kind)
    before = z.copy()
    whole = correction(z)
    assert whole.dtype == (np.float64 if kind is np.float64 else np.float32)
    one_by_one = np.concatenate([correction(z[i : i + 1]) for i in range(64)])
    np.testing.assert_array_equal(whole, one_by_one)
    np.testing.assert_array_equal(correction(z[::2]), whole[::2])
    np.testing.assert_array_equal(z, before)  # the caller's own are left alone


def test_reads_and_writes_must_be_as_many_and_as_wide_as_the_classes():
    row = (0.0, 1.0, 2.0)
    wrong = [((row,), ()), ((), (row,)), (((0.0, 1.0),), (row,)), ((row,), ((0.0, 1.0),))]
    for reads, writes in wrong:
        with pytest.raises(InputError, match="as many reads as writes, each a number per class"):
            Correction(row, reads, writes)


def test_parameters_are_biases_that_are_not_0_and_the_matrix_between_directions():
    row = (0.0, 1.0, 2.0)
    assert Correction(row).n_parameters == 2
    assert Correction(row, (row, row), (row, row)).n_parameters == 2 + 4
    assert Correction(row).n_classes == 3


def test_a_correction_survives_its_dictionary():
    correction = random_correction(np.random.default_rng(1), 4, 2)
    assert Correction.from_dict(correction.to_dict()) == correction
