"""CalibratedModel: scikit-learn's manners, and the same numbers as doing it by hand."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import get_scorer, log_loss, roc_auc_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    RepeatedStratifiedKFold,
    StratifiedKFold,
    TimeSeriesSplit,
    cross_val_predict,
)
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import smallcal as sc
from support.pages import run_page
from support.refused import refused
from support.simulated import simulate

#: Checks that fail, and why. Before scikit-learn 1.6 this one did not hand over its own folds:
#: samples of weight 0 change them.
OTHER_FOLDS = {"check_sample_weights_invariance"}
EXPECTED_FAILURES = {"default": OTHER_FOLDS, "ts-nll": OTHER_FOLDS}


class Given(ClassifierMixin, BaseEstimator):
    """A model whose scores are X itself; it remembers what it was fitted with."""

    def fit(self, X, y, **metadata):
        self.classes_ = np.unique(y)
        self.metadata_, self.n_ = metadata, len(y)
        return self

    def decision_function(self, X):
        X = np.asarray(X)
        return X[:, 0] if len(self.classes_) == 2 else X[:, self.classes_]


class Votes(Given):
    """A model that gives probabilities, zeros among them, and no margin."""

    @property
    def decision_function(self):
        raise AttributeError("none")

    def predict_proba(self, X):
        return np.asarray(X)[:, self.classes_]


@pytest.fixture(scope="module")
def data():
    return make_classification(
        400, n_informative=6, n_classes=3, flip_y=0.1, class_sep=0.7, random_state=0
    )


@pytest.fixture(scope="module")
def binary():
    return make_classification(300, flip_y=0.2, random_state=1)


def quick(**options):
    defaults = {"estimator": LogisticRegression(), "method": "ts-nll", "cv": 3}
    return sc.CalibratedModel(**{**defaults, **options})


_CHECKS = parametrize_with_checks(
    [
        sc.CalibratedModel(LogisticRegression(), cv=3),
        sc.CalibratedModel(GaussianNB(), method="ts-nll", cv=3),
    ]
)


# A list, because early scikit-learn gives a generator, which pytest no longer likes.
@pytest.mark.parametrize(_CHECKS.args[0], list(_CHECKS.args[1]), **_CHECKS.kwargs)
@pytest.mark.filterwarnings("ignore")  # the checks look after warnings themselves
def test_scikit_learns_own_checks(estimator, check):
    expected = check.func.__name__ in EXPECTED_FAILURES[estimator.method]
    if expected and check.keywords.get("kind") != "ones":
        with pytest.raises(AssertionError, match="weight"):
            check(estimator)
    else:
        check(estimator)


@pytest.mark.parametrize("method", ["ts-nll", "srts-bce", "default"])
@pytest.mark.filterwarnings("ignore::smallcal.FitWarning")
def test_cross_validation_is_what_one_would_do_by_hand(data, method):
    X, y = data
    model = sc.CalibratedModel(LogisticRegression(), method=method, random_state=3).fit(X, y)
    folds = StratifiedKFold(5, shuffle=True, random_state=3)
    z = cross_val_predict(LogisticRegression(), X, y, cv=folds, method="decision_function")
    cal = sc.Calibrator(method=method, random_state=3).fit(z, y)
    whole = LogisticRegression().fit(X, y)
    expected = cal.predict_proba(whole.decision_function(X))
    assert np.array_equal(model.predict_proba(X), expected)
    assert model.response_ == "decision_function"
    assert model.n_calibration_ == 400


def test_prefit_calibrates_on_what_it_is_given(data):
    X, y = data
    fitted = LogisticRegression().fit(X[:200], y[:200])
    model = sc.CalibratedModel(fitted, method="ts-nll", cv="prefit").fit(X[200:], y[200:])
    cal = sc.make("ts-nll").fit(fitted.decision_function(X[200:]), y[200:])
    assert model.estimator_ is fitted
    assert model.calibrator_.temperatures_[0] == cal.temperatures_[0]
    assert np.array_equal(model.predict(X), fitted.predict(X))


def test_a_known_temperature_is_found():
    z, y = simulate(20_000, 4, temperature=1.6)
    model = sc.CalibratedModel(Given(), method="ts-nll").fit(z, y)
    assert model.calibrator_.temperatures_[0] == pytest.approx(1.6, rel=0.03)


def test_a_known_temperature_is_found_for_a_binary_margin():
    rng = np.random.default_rng(0)
    margin = 2 * rng.normal(size=(20_000, 1))
    y = (rng.random(20_000) < 1 / (1 + np.exp(-margin[:, 0]))).astype(int)
    model = sc.CalibratedModel(Given(), method="ts-nll").fit(3 * margin, y)
    assert model.calibrator_.temperatures_[0] == pytest.approx(3, rel=0.05)
    p = 1 / (1 + np.exp(-3 * margin[:, 0] / model.calibrator_.temperatures_[0]))
    assert np.allclose(model.predict_proba(3 * margin)[:, 1], p)


@pytest.mark.parametrize("method", ["tva-ts", "srts-bce", "signal-linear"])
@pytest.mark.filterwarnings("ignore::smallcal.FitWarning")
def test_which_of_two_classes_is_called_one_makes_no_difference(method):
    rng = np.random.default_rng(0)
    margin = 3 * rng.normal(size=(400, 1))
    y = (rng.random(400) < 1 / (1 + np.exp(-margin[:, 0] / 2))).astype(int)
    there = sc.CalibratedModel(Given(), method=method).fit(margin, y).predict_proba(margin)
    back = sc.CalibratedModel(Given(), method=method).fit(-margin, 1 - y).predict_proba(-margin)
    assert np.allclose(there, back[:, ::-1], atol=1e-9)


def biased(n=1000, seed=0):
    """Margins that are two too high, and outcomes."""
    rng = np.random.default_rng(seed)
    margin = 2 * rng.normal(size=(n, 1))
    y = (rng.random(n) < 1 / (1 + np.exp(-margin[:, 0]))).astype(int)
    return margin + 2, y


def test_a_bias_for_one_of_two_classes_is_repaired():
    margin, y = biased()
    model = sc.CalibratedModel(Given()).fit(margin, y)
    assert model.calibrator_.method_ == "spline"
    p = model.predict_proba([[2.0], [4.0]])[:, 1]
    assert np.allclose(p, [0.5, 0.88], atol=0.06)
    right = (model.predict(margin) == y).mean()
    assert right > ((margin[:, 0] > 0) == y).mean() + 0.05


@pytest.mark.parametrize("method", ["default", "smallcal"])
def test_the_predictions_of_two_classes_can_be_kept(method):
    margin, y = biased()
    kept = sc.CalibratedModel(Given(), method=method, keep_predictions=True).fit(margin, y)
    assert np.array_equal(kept.predict(margin) == 1, margin[:, 0] > 0)
    free = sc.CalibratedModel(Given(), method=method).fit(margin, y)
    assert not np.array_equal(free.predict(margin), kept.predict(margin))
    own = kept.predict(margin)
    assert np.array_equal(kept.confidence(margin), free.confidence(margin, predictions=own))
    assert kept.confidence(margin).min() < 0.4  # a wrong prediction is told as such


def test_more_classes_keep_their_default(data):
    assert sc.CalibratedModel(LogisticRegression()).fit(*data).calibrator_.method_ == "smallcal"


def test_confidence_is_the_probability_of_a_prediction(data):
    X, y = data
    names = np.array(["wolf", "ant", "mole"])  # not in the order of the columns
    model = sc.CalibratedModel(GaussianNB(), method="vector-scaling").fit(X, names[y])
    proba, rows = model.predict_proba(X), np.arange(len(X))
    assert np.array_equal(model.confidence(X), proba.max(axis=1))
    own = model.estimator_.predict(X)
    assert (own != model.predict(X)).any()
    found = model.confidence(X, predictions=own)
    assert np.array_equal(found, proba[rows, np.searchsorted(model.classes_, own)])
    assert np.array_equal(found, model.confidence(X, predictions=own.tolist()))
    with refused("labels-unknown", "'bat'"):
        model.confidence(X[:2], predictions=["ant", "bat"])
    with refused("rows-differ"):
        model.confidence(X[:2], predictions=["ant"])


def test_predictions_of_more_classes_can_be_kept():
    z, y = simulate(600, 5)
    z[:, 2] += 2
    free = sc.CalibratedModel(Given()).fit(z, y)
    kept = sc.CalibratedModel(Given(), keep_predictions=True).fit(z, y)
    assert (free.predict(z) != z.argmax(axis=1)).mean() > 0.05
    assert np.array_equal(kept.predict(z), z.argmax(axis=1))
    assert np.array_equal(kept.predict_proba(z).argmax(axis=1), z.argmax(axis=1))
    assert np.array_equal(kept.confidence(z), free.confidence(z, predictions=z.argmax(axis=1)))
    assert clone(kept).keep_predictions is True


def test_the_order_of_two_classes_stays():
    margin, y = biased()
    model = sc.CalibratedModel(Given()).fit(margin, y)
    ordered = model.decision_function(np.sort(margin, axis=0))
    assert (np.diff(ordered) >= 0).all()
    back = sc.CalibratedModel(Given()).fit(-margin, 1 - y).predict_proba(-margin)
    assert np.allclose(model.predict_proba(margin), back[:, ::-1], atol=1e-6)


def test_what_one_probability_rounds_away_the_other_still_tells():
    """Naive Bayes says 1 - 1e-20, which is 1; but 1e-20 of the other class it can say."""
    rng = np.random.default_rng(0)
    half = 20 * rng.normal(size=2000)
    y = (rng.random(2000) < 1 / (1 + np.exp(-half / 10))).astype(int)
    p = np.column_stack([1 / (1 + np.exp(half)), 1 / (1 + np.exp(-half))])
    model = sc.CalibratedModel(Votes()).fit(p, y)
    found, truth = model.predict_proba(p)[:, 1], 1 / (1 + np.exp(-half / 10))
    assert np.abs(found - truth).max() < 0.08


def test_probabilities_of_zero_are_taken_for_half_the_smallest():
    z, y = simulate(600, 4)
    votes = np.exp(z - z.max(axis=1, keepdims=True))
    votes = np.round(20 * votes / votes.sum(axis=1, keepdims=True))
    votes /= votes.sum(axis=1, keepdims=True)
    assert (votes == 0).any()
    model = sc.CalibratedModel(Votes(), method="ts-nll").fit(votes, y)
    floor = votes[votes > 0].min() / 2
    assert (model.response_, model.floor_) == ("predict_proba", floor)
    by_hand = np.maximum(votes, floor)
    by_hand /= by_hand.sum(axis=1, keepdims=True)
    assert np.array_equal(model.scores(votes), by_hand)
    cal = sc.make("ts-nll").fit(np.log(by_hand), y)
    assert model.calibrator_.temperatures_[0] == pytest.approx(cal.temperatures_[0], rel=1e-6)
    never = sc.make("ts-nll", input="probabilities").fit(votes, y)
    assert log_loss(y, model.predict_proba(votes)) < log_loss(y, never.predict_proba(votes)) - 0.01


def test_a_forest_is_calibrated(binary):
    X, y = binary
    forest = RandomForestClassifier(20, random_state=0)
    model = sc.CalibratedModel(forest, method="ts-nll", cv=3).fit(X[:200], y[:200])
    raw = model.estimator_.predict_proba(X[200:])
    assert log_loss(y[200:], model.predict_proba(X[200:])) <= log_loss(y[200:], raw)


def test_scores_for_pairs_of_classes_are_not_taken_for_classes(data):
    X, y = data
    pairs = SVC(decision_function_shape="ovo")
    assert pairs.fit(X, y).decision_function(X[:1]).shape == (1, 3)  # three pairs, three classes
    for model in (pairs, make_pipeline(StandardScaler(), pairs)):
        with refused("model-output", "decision_function_shape"):
            sc.CalibratedModel(model).fit(X, y)
    assert sc.CalibratedModel(SVC(), method="ts-nll").fit(X, y).response_ == "decision_function"


def test_odd_margins_give_way_to_probabilities(data):
    class Odd(GaussianNB):
        def decision_function(self, X):
            return np.zeros((len(X), 7))

    model = sc.CalibratedModel(Odd(), method="ts-nll").fit(*data)
    assert model.response_ == "predict_proba"


def test_a_class_that_a_fold_lacks_gets_the_rows_lowest_score():
    z, y = simulate(200, 4)
    y[y == 3] = 0
    y[17] = 3  # one sample: the fold that tests it has not seen its class
    model = sc.CalibratedModel(Given(), method="ts-nll", random_state=0).fit(z, y)
    scores = z.copy()
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    with pytest.warns(UserWarning, match="least populated"):
        splits = list(folds.split(z, y))
    for train, test in splits:
        if 17 in test:
            scores[test, 3] = z[test][:, :3].min(axis=1)
            assert 3 not in y[train]
    expected = sc.make("ts-nll").fit(scores, y)
    assert model.calibrator_.temperatures_[0] == expected.temperatures_[0]
    assert model.predict_proba(z).shape == (200, 4)


def test_probabilities_of_a_class_that_a_fold_lacks_still_sum_to_one():
    z, y = simulate(200, 4)
    y[y == 3] = 0
    y[17] = 3
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)

    class Softmax(Votes):
        def predict_proba(self, X):
            known = super().predict_proba(X)
            return known / known.sum(axis=1, keepdims=True)

    model = sc.CalibratedModel(Softmax(), method="ts-nll").fit(p, y)
    assert np.allclose(model.predict_proba(p).sum(axis=1), 1)


def test_classes_without_enough_samples_for_stratified_folds():
    z, y = simulate(60, 40)
    model = sc.CalibratedModel(Given(), method="ts-nll", cv=10).fit(z[:, np.unique(y)], _codes(y))
    assert model.predict_proba(z[:, np.unique(y)]).shape == (60, len(np.unique(y)))


def _codes(y):
    return np.unique(y, return_inverse=True)[1]


def test_a_prefit_model_may_know_classes_that_the_split_lacks(data):
    X, y = data
    fitted = LogisticRegression().fit(X, y)
    some = y < 2
    model = sc.CalibratedModel(fitted, method="ts-nll", cv="prefit").fit(X[some], y[some])
    assert model.predict_proba(X).shape == (400, 3)


def test_classes_of_a_prefit_model_need_not_be_sorted(data):
    X, y = data
    fitted = LogisticRegression().fit(X, y)
    turned = LogisticRegression().fit(X, y)
    turned.classes_ = np.array([2, 0, 1])
    turned.coef_, turned.intercept_ = turned.coef_[[2, 0, 1]], turned.intercept_[[2, 0, 1]]
    model = sc.CalibratedModel(turned, method="ts-nll", cv="prefit").fit(X, y)
    plain = sc.CalibratedModel(fitted, method="ts-nll", cv="prefit").fit(X, y)
    assert np.allclose(model.predict_proba(X)[:, [1, 2, 0]], plain.predict_proba(X))


@settings(max_examples=20)
@given(
    names=st.lists(st.text("abcxyz", min_size=1, max_size=4), min_size=3, max_size=3, unique=True)
)
def test_what_the_classes_are_called_makes_no_difference(names):
    z, y = simulate(120, 3)
    named = np.array(sorted(names))[y]
    plain = sc.CalibratedModel(Given(), method="ts-nll", cv="prefit")
    plain.estimator.fit(z, y)
    other = clone(plain).set_params(estimator=Given().fit(z, y))
    other.estimator.decision_function = lambda X: np.asarray(X)
    other.estimator.classes_ = np.array(sorted(names))
    expected = plain.fit(z, y)
    found = other.fit(z, named)
    assert np.array_equal(found.predict_proba(z), expected.predict_proba(z))
    assert np.array_equal(found.predict(z), np.array(sorted(names))[expected.predict(z)])
    assert list(found.calibrator_.classes_) == sorted(names)


def test_frames_sparse_matrices_and_text(data):
    X, y = data
    dense = quick().fit(X, y)
    sparse = quick().fit(scipy.sparse.csr_matrix(X), y)
    assert np.allclose(sparse.predict_proba(X), dense.predict_proba(X), atol=1e-6)
    assert dense.n_features_in_ == X.shape[1]
    words = np.array(["bad", "fair", "good"])
    texts = [f"{words[label]} {words[i % 3]} day" for i, label in enumerate(y)]
    model = quick(estimator=make_pipeline(CountVectorizer(), LogisticRegression()))
    assert model.fit(texts, y).predict_proba(texts).shape == (400, 3)


def test_a_frames_columns_are_remembered(data):
    pandas = pytest.importorskip("pandas")
    X, y = data
    frame = pandas.DataFrame(X).rename(columns="x{}".format)
    labels = pandas.Series(np.array(["a", "b", "c"])[y], index=np.arange(400) + 1000)
    model = quick().fit(frame, labels)
    assert list(model.feature_names_in_) == list(frame.columns)
    assert set(model.predict(frame)) == {"a", "b", "c"}
    assert np.allclose(model.predict_proba(frame), quick().fit(X, y).predict_proba(X), atol=1e-9)


def test_weights_reach_the_estimator_and_the_calibrator(data):
    X, y = data
    weight = np.where(np.arange(400) % 2, 2.0, 1.0)
    model = quick(cv=StratifiedKFold(4)).fit(X, y, sample_weight=weight)
    z = np.empty((400, 3))
    for train, test in StratifiedKFold(4).split(X, y):
        fold = LogisticRegression().fit(X[train], y[train], sample_weight=weight[train])
        z[test] = fold.decision_function(X[test])
    cal = sc.make("ts-nll").fit(z, y, sample_weight=weight)
    assert model.calibrator_.temperatures_[0] == cal.temperatures_[0]
    whole = LogisticRegression().fit(X, y, sample_weight=weight)
    assert np.array_equal(model.estimator_.coef_, whole.coef_)


def test_an_estimator_without_weights_is_told(data):
    X, y = data
    with pytest.warns(sc.FitWarning, match="KNeighborsClassifier.fit takes no sample_weight"):
        quick(estimator=KNeighborsClassifier()).fit(X, y, sample_weight=np.ones(400))


def test_metadata_of_each_sample_is_cut_into_folds(data):
    X, y = data
    seen = []

    class Watching(Given):
        def fit(self, X, y, **metadata):
            seen.append((len(y), {key: np.shape(value) for key, value in metadata.items()}))
            return super().fit(X, y)

    quick(estimator=Watching(), cv=4).fit(X, y, cost=np.arange(400), note="all", pair=(1, 2))
    folds = [(300, {"cost": (300,), "note": (), "pair": (2,)})] * 4
    assert seen == [*folds, (400, {"cost": (400,), "note": (), "pair": (2,)})]


def test_groups_stay_together(data):
    X, y = data
    groups = np.arange(400) // 20
    seen = []

    class Watching(Given):
        def fit(self, X, y, *, group):
            seen.append(set(group))
            return super().fit(X, y)

    model = quick(estimator=Watching(), cv=GroupKFold(4))
    model.fit(X, y, groups=groups, group=groups)
    assert [len(one) for one in seen] == [15, 15, 15, 15, 20]
    with refused("options-conflict", "3"):
        quick().fit(X, y, groups=groups)


def test_metadata_routing(data):
    X, y = data
    weight, groups = np.where(y == 1, 3.0, 1.0), np.arange(400) // 20
    with sklearn.config_context(enable_metadata_routing=True):
        inner = LogisticRegression().set_fit_request(sample_weight=True)
        model = quick(estimator=inner, cv=GroupKFold(4)).set_fit_request(sample_weight=True)
        routed = model.fit(X, y, sample_weight=weight, groups=groups)
    plain = quick(cv=GroupKFold(4)).fit(X, y, sample_weight=weight, groups=groups)
    assert np.array_equal(routed.predict_proba(X), plain.predict_proba(X))


def test_a_copy_of_a_prefit_model_keeps_the_model(data):
    X, y = data
    fitted = LogisticRegression().fit(X, y)
    assert clone(quick(estimator=fitted, cv="prefit")).estimator is fitted
    assert clone(quick(estimator=fitted)).estimator is not fitted
    search = GridSearchCV(
        quick(estimator=fitted, cv="prefit"),
        {"method": ["none", "ts-nll"]},
        scoring="neg_log_loss",
        cv=2,
    )
    assert search.fit(X, y).best_estimator_.estimator_ is fitted


def test_grid_search_over_method_and_estimator(data):
    X, y = data
    model = make_pipeline(StandardScaler(), quick())
    grid = {
        "calibratedmodel__method": ["none", "ts-nll"],
        "calibratedmodel__estimator__C": [1e-4, 1.0],
    }
    search = GridSearchCV(model, grid, scoring="neg_log_loss", cv=2).fit(X, y)
    assert search.best_params_["calibratedmodel__estimator__C"] == 1.0
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_samples_that_no_fold_tests_do_not_calibrate(data):
    model = quick(cv=TimeSeriesSplit(3)).fit(*data)
    assert model.n_calibration_ == 300


def test_the_calibrator_leaves_with_its_scores(data, tmp_path):
    X, y = data
    model = quick(method="srts-bce").fit(X, y)
    model.calibrator_.save(tmp_path / "cal.json")
    alone = sc.load(tmp_path / "cal.json")
    assert np.array_equal(alone.predict_proba(model.scores(X)), model.predict_proba(X))
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))


def test_the_same_seed_gives_the_same_bits_and_leaves_the_global_one_alone(data):
    X, y = data
    np.random.seed(5)  # noqa: NPY002 - the global state is what is looked at
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, second, third = (quick(random_state=seed).fit(X, y) for seed in (1, 1, 2))
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    assert np.array_equal(first.predict_proba(X), second.predict_proba(X))
    assert not np.array_equal(first.predict_proba(X), third.predict_proba(X))


@pytest.mark.filterwarnings("ignore::smallcal.FitWarning")
def test_methods_that_need_features_are_given_x(data):
    X, y = data
    model = quick(method="features-k3").fit(X, y)
    by_hand = model.calibrator_.predict_proba(model.scores(X), features=X)
    assert np.array_equal(model.predict_proba(X), by_hand)


def test_log_probabilities_stay_finite(data):
    X, y = data
    model = quick(method="none").fit(X, y)
    far = 1e4 * X
    assert (model.predict_proba(far) == 0).any()
    assert np.isfinite(model.predict_log_proba(far)).all()
    assert np.allclose(model.predict_log_proba(X), np.log(model.predict_proba(X)))


BAD = {
    "y is None": ({}, {"y": None}, "y is None"),
    "few": ({}, {"X": np.eye(4), "y": [0, 1, 0, 1]}, "X has 4 samples; .* at least 5"),
    "one class": ({}, {"y": np.zeros(400)}, "y holds one class, 0.0;"),
    "one class weighs": (
        {},
        {"y": np.arange(400) % 2, "sample_weight": np.arange(400) % 2},
        "y holds one class where sample_weight is not 0, 1;",
    ),
    "lengths": ({}, {"y": np.arange(399) % 2}, "X and y do not fit together"),
    "weights": ({}, {"sample_weight": -np.ones(400)}, "sample_weight must be finite and not neg"),
    "method": ({"method": "nothing"}, {}, "unknown method 'nothing'"),
    "oracle": ({"method": "oracle-risk"}, {}, "oracle-risk reads the labels"),
    "cv word": ({"cv": "five"}, {}, "cv must be a number of folds, a splitter or 'prefit'"),
    "cv one": ({"cv": 1}, {}, "cv must be 2 to 400 folds for 400 samples; got 1"),
    "twice": ({"cv": RepeatedStratifiedKFold(n_splits=2)}, {}, "tests some samples more than once"),
    "unfitted": ({"cv": "prefit"}, {}, "needs a fitted classifier; LogisticRegression"),
    "nobody's": (
        {"estimator": LogisticRegression(), "cv": "prefit"},
        {"groups": np.zeros(400), "cost": 1},
        "makes no folds: leave out cost, groups",
    ),
    "response": ({"response": "predict"}, {}, "response must be auto, decision_function or"),
    "no proba": (
        {"estimator": LinearSVC(dual=False), "response": "predict_proba"},
        {},
        "LinearSVC has no predict_proba",
    ),
    "regressor": ({"estimator": Ridge()}, {}, "Ridge has no classes_ after fit"),
    "a class apart": (
        {"cv": [(np.arange(10), np.arange(10, 400))]},
        {"y": np.repeat([0, 1], 200)},
        "a training fold of cv holds one class",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_line(data, case):
    options, changed, message = BAD[case]
    X, y = data
    with pytest.raises(sc.InputError, match=message) as error:
        quick(**options).fit(**{"X": X, "y": y, **changed})
    assert "\n" not in str(error.value)


def test_strange_labels_and_an_unfitted_model(data):
    X, y = data
    fitted = LogisticRegression().fit(X, y)
    with refused("labels-unknown", "3"):
        quick(estimator=fitted, cv="prefit").fit(X, y + 1)
    with pytest.raises(NotFittedError):
        quick().predict_proba(X)


@pytest.mark.parametrize(
    ("page", "least"), [("guides/scikit-learn.md", 20), ("recipes/scikit-learn.md", 20)]
)
def test_the_examples_in_the_docs_run(page, least):
    results = run_page(Path(__file__).parents[3] / "docs" / page)
    assert results.attempted >= least
    assert results.failed == 0


@pytest.mark.filterwarnings("ignore::smallcal.FitWarning")
@pytest.mark.parametrize("method", ["ts-nll", "srts-bce", "default", "matrix-scaling"])
def test_two_classes_are_ranked_by_decision_function_as_by_probabilities(binary, method):
    X, y = binary
    model = quick(method=method).fit(X, y)
    margin, proba = model.decision_function(X), model.predict_proba(X)
    assert margin.shape == (300,)
    assert np.allclose(1 / (1 + np.exp(-margin)), proba[:, 1])
    assert np.array_equal(model.classes_[(margin > 0).astype(int)], model.predict(X))
    assert roc_auc_score(y, margin) == pytest.approx(roc_auc_score(y, proba[:, 1]))
    scorer = get_scorer("roc_auc")  # asks for decision_function first
    assert scorer(model, X, y) == pytest.approx(roc_auc_score(y, proba[:, 1]))


def test_more_classes_have_log_probabilities_as_decisions(data):
    X, y = data
    model = quick().fit(X, y)
    assert np.array_equal(model.decision_function(X), np.log(model.predict_proba(X)))
    assert np.array_equal(model.decision_function(X).argmax(axis=1), model.predict(X))


def test_methods_are_there_where_the_wrapped_model_has_them(data):
    linear, votes = quick(), quick(estimator=GaussianNB())
    for model in (linear, votes, linear.fit(*data), votes.fit(*data)):
        has = model.estimator.__class__ is LogisticRegression
        assert hasattr(model, "decision_function") == has
        assert not hasattr(model, "set_output")
    with pytest.raises(AttributeError, match="no attribute 'decision_function'"):
        votes.decision_function(data[0])
    with pytest.raises(NotFittedError):
        quick().decision_function(data[0])


def test_set_output_reaches_the_transformers(data):
    pandas = pytest.importorskip("pandas")
    X, y = data
    frame = pandas.DataFrame(X).rename(columns="x{}".format)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    plain = quick(estimator=pipeline).fit(frame, y)
    assert not hasattr(plain.estimator_[-1], "feature_names_in_")
    model = quick(estimator=clone(pipeline))
    assert model.set_output(transform="pandas") is model
    model.fit(frame, y)
    assert list(model.estimator_[-1].feature_names_in_) == list(frame.columns)
    assert isinstance(model.estimator_[0].transform(frame), pandas.DataFrame)
    assert isinstance(model.predict_proba(frame), np.ndarray)
    assert np.array_equal(model.predict_proba(frame), plain.predict_proba(frame))
    model.set_output(transform="default")
    assert isinstance(model.estimator_[0].transform(frame), np.ndarray)


def test_labels_in_several_columns_are_told_what_to_do(data):
    X, y = data
    with refused("labels-not-one-per-row", "400", "3"):
        quick().fit(X, np.eye(3)[y])
    two = np.column_stack([y == 0, y != 1]).astype(int)
    with refused("labels-not-one-per-row"):
        quick().fit(X, two)
    each = MultiOutputClassifier(quick()).fit(X, two)
    assert [p.shape for p in each.predict_proba(X)] == [(400, 2), (400, 2)]
