"""Everything a user may pass, and what it must be told."""

import numpy as np
import pytest

from smallcal.data.checks import (
    as_labels,
    as_numpy,
    as_probabilities,
    as_scores,
    probabilities_like,
)
from smallcal.data.predictions import Predictions
from smallcal.data.special import softmax
from smallcal.errors import InputError
from support.real import cell, there
from support.refused import refused

Z = np.random.default_rng(0).normal(size=(20, 3))
Y = np.arange(20) % 3


@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        (None, Y, "logits is None"),
        (Z[:, 0], Y, r"shape \(n, C\).*got \(20,\).*input='score'"),
        (Z[:, :1], Y, r"got \(20, 1\).*input='score'"),
        (Z[None], Y, r"got \(1, 20, 3\).*reshape\(-1, 3\)"),
        (Z[:0], Y[:0], r"logits has no rows \(shape \(0, 3\)\)"),
        (np.empty((5, 0)), np.zeros(5), "no columns"),
        ([[1.0, 2.0], [3.0]], [0, 1], "logits (cannot be read|must hold real numbers)"),
        (np.array([["a", "b"]]), [0], "real numbers; got type <U1"),
        (Z.astype(complex), Y, "got type complex128"),
        (Z, Y[:-1], "one entry per row: 20 rows, 19 labels"),
        (Z, np.r_[Y, 0], "one entry per row: 20 rows, 21 labels"),
        (Z, 2 * np.eye(3)[Y], r"labels is a matrix with numbers other than 0 and 1.*argmax"),
        (Z, Y + 1, r"0 \.\. 2 .*rows 2, 5, 8, 11, 14 and 1 more.*row 2 is 3.*pass labels - 1"),
        (Z, np.where(np.arange(20) == 4, -1, Y), r"row 4 do not \(row 4 is -1\)"),
        (Z, np.where(np.arange(20) == 3, 0.5, Y), r"whole numbers.*row 3 .*0\.5"),
        (Z, np.where(np.arange(20) == 3, np.nan, Y), "whole numbers"),
        (Z, np.array(["a"] * 20), r"labels are strings \(the first is 'a'\).*class_names"),
        (Z, [object()] * 20, "integers or strings; got mixed types"),
        (Z, Y.astype("datetime64[s]"), "must be integers; got type datetime64"),
        (Y, Z, "seem to be swapped"),
    ],
)
def test_bad_input_gets_one_clear_line(logits, labels, message):
    with pytest.raises(InputError, match=message) as caught:
        Predictions.of(logits, labels)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.nan, r"must be finite; 2 of 20 rows are not: rows 3, 7 \(column 1 .* nan\)"),
        (np.inf, "Minus infinity masks a class"),
        (1e200, "smaller than 1e\\+15"),
    ],
)
def test_numbers_that_cannot_be_used_are_named_by_row(value, message):
    bad = Z.copy()
    bad[[3, 7], 1] = value
    with pytest.raises(InputError, match=message):
        Predictions.of(bad, Y)


@pytest.mark.parametrize(
    "convert",
    [
        lambda z: z.tolist(),
        np.asfortranarray,
        lambda z: z.astype(np.float32),
        lambda z: z.astype(np.longdouble),
        lambda z: np.repeat(z, 2, axis=0)[::2],
        lambda z: np.ma.masked_array(z),
    ],
    ids=["list", "fortran", "float32", "longdouble", "strided", "masked-without-mask"],
)
def test_what_users_have_is_accepted(convert):
    preds = Predictions.of(convert(Z), Y)
    assert preds.logits.dtype in (np.float32, np.float64)
    np.testing.assert_allclose(preds.logits, Z, rtol=1e-6)


def test_read_only_and_memory_mapped_arrays_are_accepted_and_left_alone(tmp_path):
    path = tmp_path / "z.npy"
    np.save(path, Z)
    mapped = np.load(path, mmap_mode="r")
    preds = Predictions.of(mapped, Y)
    np.testing.assert_array_equal(preds.logits, Z)
    assert as_scores(mapped) is not None
    assert not mapped.flags.writeable


def test_pandas_frames_and_series_are_accepted():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pd.DataFrame(Z, columns=["a", "b", "c"])
    preds = Predictions.of(frame, pd.Series(Y))
    np.testing.assert_array_equal(preds.logits, Z)
    named = Predictions.of(
        frame, pd.Series(["abc"[i] for i in Y], dtype=object), class_names=["a", "b", "c"]
    )
    np.testing.assert_array_equal(named.labels, Y)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_torch_tensors_are_accepted(dtype):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    tensor = torch.tensor(Z, dtype=getattr(torch, dtype), requires_grad=True)
    preds = Predictions.of(tensor, torch.tensor(Y))
    np.testing.assert_allclose(preds.logits, Z, atol=0.02)


@pytest.mark.parametrize("labels", [Y.astype(float), Y.astype(np.uint8), Y[:, None], Y.tolist()])
def test_labels_in_any_whole_number_form_are_accepted(labels):
    np.testing.assert_array_equal(as_labels(labels, n=20, n_classes=3), Y)


def test_boolean_labels_of_a_binary_model_are_accepted():
    flags = Y.astype(bool)
    np.testing.assert_array_equal(as_labels(flags, n=20, n_classes=2), flags.astype(int))


def test_string_labels_are_looked_up_in_class_names():
    codes = as_labels(["b", "a"], n=2, n_classes=2, class_names=["a", "b"])
    assert codes.tolist() == [1, 0]
    with refused("labels-unknown", "class_names", "row 1", "'x'"):
        as_labels(["b", "x"], n=2, n_classes=2, class_names=["a", "b"])


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "b"], "3 columns, 2 names"),
        (["a", "b", "a"], "'a' repeats"),
        ("abc", "list of strings; got the string 'abc'"),
    ],
)
def test_bad_class_names_are_refused(names, message):
    with pytest.raises(InputError, match=message):
        Predictions.of(Z, Y, class_names=names)


def test_sparse_and_masked_arrays_are_refused():
    from scipy.sparse import csr_matrix

    with refused("array-unreadable"):
        Predictions.of(csr_matrix(Z), Y)
    with refused("array-unreadable"):
        Predictions.of(np.ma.masked_less(Z, 0), Y)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.ones(3), r"20 numbers; got shape \(3,\)"),
        (-np.ones(20), "not negative; rows 0, 1, 2, 3, 4 and 15 more"),
        (np.zeros(20), "zero everywhere"),
        (["x"] * 20, "20 numbers"),
    ],
)
def test_bad_weights_are_refused(weight, message):
    with pytest.raises(InputError, match=message):
        Predictions.of(Z, Y, weight=weight)


@pytest.mark.parametrize(
    ("proba", "message"),
    [
        (Z, r"probabilities in \[0, 1\].*If they are logits, take their softmax first"),
        (np.full((4, 3), 0.5), r"must sum to 1; rows 0, 1, 2, 3 do not \(row 0 sums to 1.5\)"),
        (np.full((4, 3), 0.3), r"must sum to 1; rows 0, 1, 2, 3 do not \(row 0 sums to 0.9\)"),
        (np.full((4, 3), np.nan), "must be finite"),
    ],
)
def test_what_is_not_probabilities_is_refused(proba, message):
    with pytest.raises(InputError, match=message):
        as_probabilities(proba)


def test_probabilities_become_logarithms_only_when_the_caller_says_so():
    p = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.exp(as_scores(p, input="probabilities")), p)
    np.testing.assert_array_equal(as_scores(p, input="logits"), p)
    with refused("probabilities-as-logits"):
        as_scores(p)
    with pytest.raises(
        InputError, match="input must be one of logits, probabilities, score; got 'p'"
    ):
        as_scores(p, input="p")


@pytest.mark.parametrize(
    "name", there("cifar100__ce-resnet20", "large/tiny-imagenet200-of-1000__efficientnet-lite2")
)
def test_real_logits_do_not_look_like_probabilities_and_their_softmax_does(name):
    z = cell(name)["test_logits"][:400]
    p = softmax(z.astype(np.float64))
    assert probabilities_like(z) == ""
    assert not any(probabilities_like(row[None]) for row in z)
    assert all(probabilities_like(row[None].astype(np.float32)) for row in p)
    assert all(probabilities_like(100 * row[None]) for row in p)
    shown = (p, p.astype(np.float16), p.round(3), p.round(2), 100 * p, (100 * p).round(1))
    assert all(probabilities_like(each) for each in (*shown, p[:10], p[:10].round(2)))


def test_logits_that_happen_to_lie_near_the_simplex_are_logits():
    rng = np.random.default_rng(0)
    drawn = {
        "log-odds of two classes": np.column_stack([np.zeros(20_000), rng.normal(size=20_000)]),
        "cosines of four prompts": 0.25 + 0.05 * rng.normal(size=(20_000, 4)),
        "cosines in hundredths": 25 + 5 * rng.normal(size=(20_000, 4)),
        "positive logits": np.abs(rng.normal(size=(20_000, 3))).round(2),
        "what several sigmoids say": 1 / (1 + np.exp(rng.normal(size=(20_000, 3)))),
    }
    for what, z in drawn.items():
        assert probabilities_like(z) == "", what
        alone = sum(bool(probabilities_like(row[None])) for row in z)
        assert alone <= (80 if what == "positive logits" else 1), what


def test_a_probability_of_zero_stays_finite():
    for dtype in (np.float16, np.float32, np.float64):
        scores = as_scores(np.array([[1, 0]], dtype=dtype), input="probabilities")
        assert np.isfinite(scores).all()


def test_a_tiny_probability_keeps_its_logarithm_and_zero_is_floored_below_it():
    p = np.array([[1 - 1e-20, 1e-20, 0.0]])
    scores = as_scores(p, input="probabilities")
    np.testing.assert_allclose(scores[0], [0.0, np.log(1e-20), np.log(1e-30)])


def test_some_rows_keep_all_that_belongs_to_them():
    rng = np.random.default_rng(0)
    weight, features = rng.random(20), rng.normal(size=(20, 2))
    preds = Predictions.of(Z, Y, weight=weight, features=features)
    rows = np.array([7, 3, 3, 19])
    some = preds.take(rows)
    for name in ("logits", "labels", "squared_norms", "weight", "features"):
        np.testing.assert_array_equal(getattr(some, name), getattr(preds, name)[rows])
    np.testing.assert_allclose(some.squared_norms, (Z[rows] ** 2).sum(axis=1))
    np.testing.assert_array_equal(some.correct, preds.correct[rows])
    assert preds.take(rows, weight=np.ones(4)).weight.tolist() == [1.0] * 4
    counted = Predictions.of(Z, Y, weight=weight * (weight > 0.5), features=features).counted()
    for name in ("logits", "labels", "squared_norms", "weight", "features"):
        np.testing.assert_array_equal(getattr(counted, name), getattr(preds, name)[weight > 0.5])
    assert preds.counted() is preds


@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        (Z[:1], Y[:1], "has 1 sample; fitting needs at least 5"),
        (Z[:4], Y[:4], "has 4 samples; fitting needs at least 5"),
        (np.full((20, 3), 1 / 3), Y, "look like probabilities"),
        (np.full((20, 3), 2.0), Y, "constant in every row"),
    ],
)
def test_what_no_calibrator_can_be_fitted_on_is_refused(logits, labels, message):
    with pytest.raises(InputError, match=message):
        Predictions.of(logits, labels).require_fittable()


def test_the_fingerprint_sees_every_number_and_label():
    base = Predictions.of(Z, Y)
    moved = Z.copy()
    moved[5, 1] = np.nextafter(moved[5, 1], 9)
    prints = {
        base.sha256(),
        Predictions.of(moved, Y).sha256(),
        Predictions.of(Z, Y[::-1]).sha256(),
    }
    assert len(prints) == 3
    assert base.sha256() == Predictions.of(Z.copy(order="F"), Y.tolist()).sha256()


def test_as_numpy_does_not_copy_an_array():
    assert as_numpy(Z, name="z") is Z
