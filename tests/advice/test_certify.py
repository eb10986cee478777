"""What `sc.certify` finds: numbers against plain counts, words, and what it refuses."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binomtest

import smallcal as sc
from smallcal.advice.cross_validate import out_of_fold, repeated_folds
from smallcal.calibrators.decision import Threshold
from smallcal.data.predictions import Predictions
from smallcal.errors import GroupWarning, InputError
from support.cases import features_of
from support.cases import fit as fit_quietly
from support.refused import refused
from support.simulated import simulate


@pytest.fixture(scope="module")
def split():
    """Six classes, most of them plain: rows to fit on, and rows to certify on."""
    z, y = simulate(2_400, 6)
    return (z[:400], y[:400]), (z[400:], y[400:])


@pytest.fixture(scope="module")
def cal(split):
    return sc.TemperatureScaling().fit(*split[0])


def judged(n, seed):
    """Scores of which a quarter are the same, and outcomes."""
    rng = np.random.default_rng(seed)
    x = np.where(rng.random(n) < 0.25, 4.0, rng.normal(1.5, 1.5, n))
    return x, (rng.random(n) < expit(1.5 * x)).astype(int)


def counted(cal, z, y, threshold, groups=None):
    """Count accepted rows and errors among them by hand."""
    proba = cal.predict_proba(z) if groups is None else cal.predict_proba(z, groups=groups)
    taken = proba.max(axis=1) >= threshold
    return int(taken.sum()), int((taken & (proba.argmax(axis=1) != y)).sum())


@pytest.mark.parametrize("rule", ["accepted", "all"])
def test_the_numbers_are_those_of_the_rows(cal, split, rule):
    z, y = split[1]
    found = sc.certify(cal, z, y, risk=0.1, rule=rule)
    (row,) = found.certificates[0].rows
    assert found.found
    assert found.threshold == row.threshold
    assert (row.accepted, row.errors) == counted(cal, z, y, row.threshold)
    tried = row.accepted if rule == "accepted" else row.n
    exact = binomtest(row.errors, tried, alternative="less").proportion_ci(0.95, method="exact")
    assert row.bound == pytest.approx(exact.high, rel=1e-9)
    assert row.bound <= 0.1
    shares = binomtest(row.accepted, row.n).proportion_ci(0.95, method="exact")
    assert (row.low, row.high) == pytest.approx((shares.low, shares.high), rel=1e-9)
    assert row.coverage == row.accepted / row.n


def test_the_calibrator_carries_it_and_gives_the_same_probabilities(cal, split, tmp_path):
    z, y = split[1]
    found = sc.certify(cal, z, y, risk=[0.1, 0.2])
    made = found.calibrator
    assert [each.risk for each in made.decisions] == [0.1, 0.2]
    assert all(isinstance(each, Threshold) for each in made.decisions)
    assert (made.predict_proba(z) == cal.predict_proba(z)).all()
    made.save(tmp_path / "cal.json")
    loaded = sc.load(tmp_path / "cal.json")
    for each in found.certificates:
        assert int(loaded.accept(z, risk=each.risk).sum()) == each.rows[0].accepted
        assert each.promise == next(d.promise for d in made.decisions if d.risk == each.risk)
    # New thresholds take the place of those before.
    again = sc.certify(loaded, z, y, risk=0.15).calibrator
    assert [each.risk for each in again.decisions] == [0.15]
    assert not cal.fitted_.decisions


def test_the_order_of_rows_says_nothing(cal, split):
    z, y = split[1]
    order = np.random.default_rng(0).permutation(len(y))
    one, other = (sc.certify(cal, z[rows], y[rows], risk=0.1) for rows in (slice(None), order))
    assert one.certificates[0].rows == other.certificates[0].rows


@pytest.mark.parametrize("correction", ["holm", "bonferroni"])
def test_each_class_as_predicted(cal, split, correction):
    z, y = split[1]
    found = sc.certify(cal, z, y, risk=0.2, by="class", correction=correction)
    certificate = found.certificates[0]
    predicted = cal.predict_proba(z).argmax(axis=1)
    assert [row.n for row in certificate.rows] == np.bincount(predicted, minlength=6).tolist()
    accepted = found.calibrator.accept(z)
    for code, row in enumerate(certificate.rows):
        mine = accepted & (predicted == code)
        assert row.accepted == mine.sum()
        assert row.errors == (mine & (predicted != y)).sum()
        assert row.bound is None or row.bound <= 0.2
    assert certificate.found


def test_each_group(cal, split):
    z, y = split[1]
    groups = np.where(np.arange(len(y)) % 3 == 0, "north", "south")
    found = sc.certify(cal, z, y, risk=0.15, by="group", groups=groups)
    for row in found.certificates[0].rows:
        mine = groups == row.name
        assert (row.accepted, row.errors) == counted(cal, z[mine], y[mine], row.threshold or 2.0)
    named = found.calibrator.accept(z, groups=groups)
    assert named.sum() == sum(row.accepted for row in found.certificates[0].rows)
    with pytest.warns(GroupWarning, match="2,000 of 2,000 rows have no threshold"):
        assert not found.calibrator.accept(z, groups=["west"] * len(y)).any()


def test_rows_without_a_group_are_in_no_test(cal, split):
    z, y = split[1]
    groups = np.array(["", "north"] * (len(y) // 2))
    with pytest.warns(GroupWarning, match="1,000 of 2,000 rows have no group"):
        found = sc.certify(cal, z, y, risk=0.2, by="group", groups=groups)
    assert [row.n for row in found.certificates[0].rows] == [1_000]


def test_effects_of_groups_are_applied(split):
    (z, y), (new, labels) = split
    rng = np.random.default_rng(0)
    groups, others = (rng.choice(["plain", "noisy"], len(each)) for each in (y, labels))
    y, labels = (
        np.where((g == "noisy") & (rng.random(len(g)) < 0.4), rng.integers(6, size=len(g)), each)
        for g, each in ((groups, y), (others, labels))
    )
    cal = sc.TemperatureScaling().fit(z, y, groups=groups)
    found = sc.certify(cal, new, labels, risk=0.3, groups=others)
    row = found.certificates[0].rows[0]
    assert (row.accepted, row.errors) == counted(cal, new, labels, row.threshold, others)
    with refused("groups-missing"):
        sc.certify(cal, new, labels, risk=0.2)
    with refused("rows-of-the-fit"):
        sc.certify(cal, z, y, groups=groups)


def test_scores_and_ties(tmp_path):
    cal = sc.Calibrator(input="score").fit(*judged(400, 0))
    x, y = judged(1_500, 1)
    found = sc.certify(cal, x, y, risk=0.05)
    row = found.certificates[0].rows[0]
    taken = cal.predict_score(x) >= row.threshold
    assert (row.accepted, row.errors) == (taken.sum(), (taken & (y == 0)).sum())
    assert taken[x == 4.0].all()  # rows of one confidence are accepted together
    assert "at most 5 % have outcome 0" in str(found)
    assert "probability" in str(found)
    with refused("method-unsuitable"):
        sc.certify(cal, x, y, by="class")


def test_probabilities_and_features(split):
    (z, y), (new, labels) = split
    p, q = (np.exp(each - np.log(np.exp(each).sum(1, keepdims=True))) for each in (z, new))
    cal = sc.Calibrator(method="tva-ts", input="probabilities").fit(p, y)
    found = sc.certify(cal, q, labels, risk=0.2)
    assert found.calibrator.accept(q).sum() == found.certificates[0].rows[0].accepted
    cal = fit_quietly("features-logits-k3", z, y)
    found = sc.certify(cal, new, labels, risk=0.2, features=features_of(new))
    accepted = found.calibrator.accept(new, features=features_of(new))
    assert accepted.sum() == found.certificates[0].rows[0].accepted


def test_cross_takes_refits_that_have_not_seen_the_row(cal, split):
    z, y = split[0]
    found = sc.certify(cal, z, y, risk=0.25, cross=True)
    preds = Predictions.of(z, y)
    folds = repeated_folds(preds, n_repeats=1, n_folds=5, seed=0)
    sure = np.zeros(len(y))
    for fold in range(folds.n_folds):
        held = folds.of[0] == fold
        part = sc.TemperatureScaling().fit(z[~held], y[~held])
        sure[held] = part.predict_proba(z[held].astype(float)).max(axis=1)
    row = found.certificates[0].rows[0]
    assert row.accepted == (sure >= row.threshold).sum()
    assert found.calibrator.decisions[0].cross
    assert "approximate" in found.calibrator.decisions[0].promise
    assert sc.certify(cal.fitted_, z, y, risk=0.25, cross=True).to_dict() == found.to_dict()


def test_a_fold_that_cannot_be_fitted_is_an_error_unless_there_is_something_instead():
    class Fussy:
        def fit(self, preds, *, record=True):
            raise InputError(f"{preds.n} rows are too few")

    preds, instead = Predictions.of(*simulate(20, 3)), np.full((20, 3), 1 / 3)
    with pytest.raises(InputError, match="rows are too few"):
        out_of_fold(Fussy(), preds, seed=0)
    assert (out_of_fold(Fussy(), preds, seed=0, instead=instead) == instead).all()


def test_the_rows_of_the_fit_are_refused(cal, split):
    z, y = split[0]
    with refused("rows-of-the-fit") as raised:
        sc.certify(cal, z, y)
    assert str(raised.value).endswith("cross=True")
    assert raised.value.shell.endswith("--cross")
    groups = ["a", "b"] * 200
    with refused("rows-of-the-fit"):
        sc.certify(cal, z, y, by="group", groups=groups)
    with refused("rows-of-the-fit"):
        sc.certify(cal, *split[1], cross=True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"risk": 0}, "risk 0: no number of samples can show"),
        ({"risk": 2}, "write 0.02 for 2 %"),
        ({"risk": -0.1}, "between 0 and 1"),
        ({"risk": float("nan")}, "between 0 and 1"),
        ({"risk": []}, "is empty; give at least one"),
        ({"risk": "2%"}, "such as 0.02"),
        ({"risk": True}, "such as 0.02"),
        ({"confidence": 1.0}, "at least 0.5 and below 1"),
        ({"confidence": 0.05}, "at least 0.5 and below 1"),
        ({"confidence": "95%"}, "at least 0.5 and below 1"),
        ({"rule": "accept"}, "did you mean 'accepted'"),
        ({"by": "classes"}, "did you mean 'class'"),
        ({"by": "group"}, "needs the group of each row"),
        ({"correction": "none"}, "choose from holm, bonferroni"),
    ],
)
def test_bad_options_get_one_line(cal, split, options, words):
    with pytest.raises(InputError, match=words) as raised:
        sc.certify(cal, *split[1], **options)
    assert "\n" not in str(raised.value)


def test_bad_arrays_get_one_line(cal, split):
    z, y = split[1]
    with refused("option-type"):
        sc.certify("cal.json", z, y)
    with pytest.raises(InputError):
        sc.certify(cal, z, None)
    with pytest.raises(InputError):
        sc.certify(cal, z[:, :4], y)
    with pytest.raises(InputError):
        sc.certify(cal, z, y[:-1])
    with pytest.raises(InputError):
        sc.certify(cal, z[:0], y[:0])
    oracle = fit_quietly("oracle-risk", *split[0])
    with refused("method-unsuitable"):
        sc.certify(oracle, z, y)


def test_none_qualifies_is_an_answer(cal, split):
    z, y = split[1]
    found = sc.certify(cal, z[:150], y[:150], risk=0.02)
    assert not found.found
    assert not found.calibrator.decisions
    (row,) = found.certificates[0].rows
    assert (row.threshold, row.bound, row.accepted) == (None, None, 0)
    assert row.best > 0.02
    assert "None qualifies for 2 %: the best bound reachable here is" in str(found)


def test_twenty_rows_all_right(cal):
    z = np.tile(np.array([[9.0, 0, 0, 0, 0, 0]]), (20, 1))
    found = sc.certify(cal, z, np.zeros(20, dtype=int))
    assert str(found) == (
        "None qualifies for 2 %: the best bound reachable here is 14 %; 2 % takes at least 149 "
        "samples, even without an error."
    )
    z = np.tile(z, (20, 1))
    found = sc.certify(cal, z, np.zeros(400, dtype=int))
    assert found.threshold == 0.0
    assert str(found).startswith("All samples may be accepted: at most 2 % of them are predicted")
    found = sc.certify(cal, z, np.ones(400, dtype=int))
    assert str(found) == "None qualifies for 2 %: the best bound reachable here is 100 %."
    found = sc.certify(cal, z, np.ones(400, dtype=int), rule="all")
    assert not found.found


def test_what_is_told_is_plain_data(cal, split):
    found = sc.certify(cal, *split[1], risk=[0.1, 0.001], by="class")
    told = found.to_dict()
    assert json.loads(json.dumps(told)) == told
    assert told["found"] is False
    assert [each["found"] for each in told["certificates"]] == [True, False]
    assert told["sentences"][-1].startswith("Each risk is guaranteed separately")
    assert "calibrator=" not in repr(found)


def test_sets_stay_with_the_calibrator(cal, split):
    z, y = split[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        sets = sc.prediction_sets(cal, z[:500], y[:500], alpha=0.1)
    made = sc.certify(sets.calibrator, z[500:], y[500:], risk=0.15).calibrator
    assert [each.kind for each in made.decisions] == ["threshold", "set"]


def test_what_was_learned_later_forbids_refits(cal, split):
    class Moved:
        batches = (Predictions.of(*split[1]).sha256(),)

        def apply(self, probabilities, *, claim):
            pass

    moved = replace(cal.fitted_, later=(Moved(),))
    with refused("artefact-outdated"):
        sc.certify(moved, *split[0], cross=True)
    with pytest.raises(InputError, match=r"fitted on.* certify on other labelled rows$"):
        sc.certify(moved, *split[0])
    for cross in (False, True):
        with pytest.raises(InputError, match=r"refreshed on.* certify on other labelled rows$"):
            sc.certify(moved, *split[1], cross=cross)


def in_clusters(z, y, sizes):
    """Return rows in clusters of copies, and the number of each row's cluster."""
    rows = np.repeat(np.arange(len(sizes)), sizes)
    return z[rows], y[rows], rows


def test_at_most_one_row_of_each_cluster_is_tested(cal, split):
    z, y = split[1]
    one = sc.certify(cal, z, y, risk=0.1)
    assert sc.certify(cal, z, y, risk=0.1, clusters=np.arange(len(y))).threshold == one.threshold
    assert one.certificates[0].assumption == "the samples are independent of one another"
    *rows, clusters = in_clusters(z, y, np.full(len(y), 3))
    found = sc.certify(cal, *rows, risk=0.1, clusters=clusters)
    (certificate,) = found.certificates
    assert certificate.rows == one.certificates[0].rows  # copies are no new evidence
    assert found.to_dict()["certificates"][0]["clusters"] == len(y)
    assert certificate.assumption == "the clusters are independent of one another"
    assert found.calibrator.decisions[0].promise == certificate.promise
    assert "at most one from each of 2,000 clusters" in certificate.promise
    assert certificate.promise.endswith(f"assuming that {certificate.assumption}.")


def test_by_class_and_by_group_clusters_are_drawn_once(cal, split):
    *rows, clusters = in_clusters(*split[1], np.tile([1, 2, 3, 4], 500))
    groups = np.where(clusters % 2, "odd", "even")
    for by in ("class", "group"):
        given = {"by": by, "groups": groups, "clusters": clusters}
        found = sc.certify(cal, *rows, risk=0.2, **given)
        tested = sum(row.n for row in found.certificates[0].rows)
        assert 1_150 < tested < 1_350  # 5,000 rows, clusters of at most 4
        assert sc.certify(cal, *rows, risk=0.2, **given).to_dict() == found.to_dict()
        other = sc.certify(cal, *rows, risk=0.2, **given, random_state=1)
        assert other.to_dict() != found.to_dict()


def test_cross_keeps_clusters_together(split):
    z, y, clusters = in_clusters(*(part[:150] for part in split[0]), np.full(150, 3))
    preds = replace(Predictions.of(z, y), clusters=clusters)
    folds = repeated_folds(preds, n_repeats=2, n_folds=5, seed=0)
    for fold in folds.of:
        assert len(np.unique(np.column_stack([fold, clusters]), axis=0)) == 150
        shares = [(~preds.came)[fold == k].mean() for k in range(5)]
        assert max(shares) - min(shares) < 0.1
    two = replace(preds, clusters=clusters % 2)
    assert repeated_folds(two, n_repeats=1, n_folds=5, seed=0).n_folds == 2
    cal = sc.TemperatureScaling().fit(z, y)
    found = sc.certify(cal, z, y, risk=0.4, cross=True, clusters=clusters)
    assert sum(row.n for row in found.certificates[0].rows) == 150


def test_copies_are_noticed(cal, split):
    z, y = split[1]
    *rows, clusters = in_clusters(z, y, np.tile([1, 2], 1_000))
    with pytest.warns(sc.FitWarning, match="only 2,000 of 3,000 samples differ") as caught:
        sc.certify(cal, *rows, risk=0.1)
    assert "--cluster (in Python clusters=)" in str(caught[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sc.certify(cal, *rows, risk=0.1, clusters=clusters)
        few = np.r_[0 : len(y), :10]
        sc.certify(cal, z[few], y[few], risk=0.1)


@pytest.mark.parametrize(
    ("clusters", "words"),
    [
        (["a", "b"], "one entry per row"),
        ([None, *["a"] * 1_999], "1 of 2,000 rows have none, row 0 first"),
    ],
)
def test_bad_clusters_get_one_line(cal, split, clusters, words):
    with pytest.raises(InputError, match=words) as raised:
        sc.certify(cal, *split[1], clusters=clusters)
    assert "\n" not in str(raised.value)
