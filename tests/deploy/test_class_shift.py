"""At an alarm: did only the frequencies of classes move, and what does that do to confidence?"""

from __future__ import annotations

import copy
import json
import pickle
import re
from dataclasses import replace

import numpy as np
import pytest

import smallcal as sc
from smallcal.calibrators import artefact
from smallcal.calibrators.class_table import MAX_PAIRS, UNIT, ClassTable
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.deploy.monitor import class_shift
from smallcal.deploy.monitor.class_shift import ClassShift, Seen, diagnose
from smallcal.deploy.monitor.report import LabelledGap
from smallcal.deploy.monitor.state import State, fingerprint
from support.cases import fit
from support.refused import refused
from support.simulated import simulate

SIGNAL = np.linspace(1.0, 4.0, 8)  # classes from hard to easy


def posterior(seen, factors):
    """The true chances of the classes of rows, by Bayes' rule."""
    scores = SIGNAL * seen - SIGNAL**2 / 2 + np.log(factors)
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def draw(seed, n, factors, weaker=1.0):
    """Rows of a model that is right about evenly frequent classes."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(8, size=n, p=np.array(factors) / np.sum(factors))
    seen = rng.standard_normal((n, 8))
    seen[np.arange(n), labels] += weaker * SIGNAL[labels]
    return seen, SIGNAL * seen - SIGNAL**2 / 2, labels


EVEN = np.ones(8)
HARD = np.geomspace(60, 1, 8)  # the hard classes become the frequent ones
_, Z, Y = draw(0, 2000, EVEN)
CAL = sc.make("none").fit(Z, Y)


def watched(seed, n, factors, weaker=1.0, cal=CAL):
    return sc.Monitor(cal).update(draw(seed, n, factors, weaker)[1])


def table_of(proba, codes):
    return ClassTable.of(proba, [(codes, int(codes.max()) + 1), None])


def plain_em(given, counts, before, strength, steps):
    """Saerens' algorithm in loops: share each count out among the classes, and count again."""
    found = list(before)
    for _ in range(steps):
        new = [strength * each for each in before]
        for k, count in enumerate(counts):
            mixed = sum(given[k][y] * found[y] for y in range(len(found)))
            for y in range(len(found)):
                new[y] += count * given[k][y] * found[y] / mixed
        found = [each / sum(new) for each in new]
    return found


@pytest.mark.parametrize("strength", [0.0, 5.0, 300.0])
def test_frequencies_are_those_of_a_plain_em(strength):
    rng = np.random.default_rng(1)
    joint = rng.dirichlet(np.ones(5), size=5) + 2 * np.eye(5)
    joint /= joint.sum()
    before = joint.sum(axis=0)
    empty = np.zeros(5)
    model = class_shift._Model(joint, joint / before, before, empty, empty, empty)
    counts = np.array([[30.0, 5.0, 80.0, 1.0, 50.0]])
    found = model.frequencies(counts, strength)[0]
    plain = plain_em(model.given.tolist(), counts[0], before.tolist(), strength, 3000)
    assert found == pytest.approx(plain, abs=1e-4)


def test_without_a_prior_frequencies_solve_what_bbse_solves():
    """Where no frequency ends at zero, the likeliest ones give the counts back exactly."""
    joint = np.array([[0.3, 0.05, 0.02], [0.04, 0.25, 0.03], [0.01, 0.02, 0.28]])
    joint /= joint.sum()
    before = joint.sum(axis=0)
    given = joint / before
    truth = np.array([0.5, 0.2, 0.3])
    empty = np.zeros(3)
    model = class_shift._Model(joint, given, before, empty, empty, empty)
    found = model.frequencies(1000 * (given @ truth)[None], 0.0)[0]
    assert found == pytest.approx(np.linalg.solve(given, given @ truth), abs=1e-4)
    assert found == pytest.approx(truth, abs=1e-4)


def test_predictions_that_move_by_chance_alone_move_no_frequencies():
    assert class_shift.strength(7 / 0.03, 500.0) > 1e5
    assert class_shift.strength(7 / 2000, 5000.0) < 100


def test_the_gap_is_what_bayes_rule_gives():
    """Rows weighed by their new likelihood, their true chances known: the same gap, two routes."""
    seen, _, _ = draw(3, 4000, EVEN)
    p = posterior(seen, EVEN)
    table = table_of(p, np.zeros(len(p), dtype=int) + (p.max(axis=1) > 0.9))
    w = HARD / (HARD @ p.mean(axis=0))
    new = posterior(seen, HARD)
    weight = p @ w
    top, rows = p.argmax(axis=1), np.arange(len(p))
    each = weight * (new[rows, top] - p[rows, top]) / weight.sum()
    gap, within = class_shift._Model.of(table).gap(w)
    assert gap == pytest.approx(each.sum(), abs=0.005)
    by_class = np.abs(np.bincount(top, each, minlength=8)).sum()
    assert within == pytest.approx(by_class, abs=0.01)
    assert gap < -0.02  # what is frequent now is hard


def test_with_the_old_frequencies_the_gap_is_nothing():
    p = posterior(draw(4, 1000, EVEN)[0], EVEN)
    gap, within = class_shift._Model.of(table_of(p, np.arange(1000) % 3)).gap(np.ones(8))
    assert gap == pytest.approx(0, abs=1e-4)
    assert within == pytest.approx(0, abs=1e-3)


def test_new_frequencies_are_found_and_their_gap_is_the_true_one():
    _, logits, labels = draw(50, 20_000, EVEN)
    report = watched(5, 20_000, HARD, cal=sc.make("none").fit(logits, labels))
    found = report.class_shift
    assert report.drifted
    assert found.kind == "frequencies"
    assert found.now == pytest.approx(HARD / HARD.sum(), abs=0.03)
    assert found.before == pytest.approx(np.full(8, 1 / 8), abs=0.03)
    seen, _, _ = draw(6, 20_000, HARD)
    p, new = posterior(seen, EVEN), posterior(seen, HARD)
    top, rows = p.argmax(axis=1), np.arange(len(p))
    truth = float((new[rows, top] - p[rows, top]).mean())
    assert found.gap == pytest.approx(truth, abs=0.008)
    assert found.low < found.gap < found.high


def test_label_shift_is_rarely_taken_for_more_and_blur_never_for_label_shift():
    """Known truth, 30 streams each."""
    label = [watched(100 + i, 2000, HARD).class_shift.kind for i in range(30)]
    blurred = [watched(200 + i, 2000, EVEN, weaker=0.7).class_shift.kind for i in range(30)]
    assert label.count("more") <= 4
    assert label.count("frequencies") >= 20
    assert blurred.count("more") == 30


def test_a_few_rows_do_not_tell():
    """Drift is proven after a dozen rows; what kind it is is not."""
    logits = draw(7, 4000, HARD)[1]
    sizes = (20, 40, 80, 160, 320)
    reports = [sc.Monitor(CAL).update(logits[:n]) for n in sizes]
    kinds = [report.class_shift.kind for report in reports if report.drifted]
    assert kinds
    assert "more" not in kinds


def test_no_alarm_no_diagnosis():
    report = watched(8, 1000, EVEN)
    assert (report.drifted, report.class_shift) == (False, None)
    assert report.to_dict()["drift"]["class_shift"] is None
    assert not any("frequencies" in sentence for sentence in report.sentences)


def test_the_verdict_is_one_sentence_in_words_python_and_json():
    report = watched(9, 4000, HARD)
    document = report.to_dict()["drift"]["class_shift"]
    assert document["kind"] == "frequencies"
    assert document["sentence"] in report.sentences
    assert len(document["now"]) == 8
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert re.fullmatch(
        r"Only class frequencies changed \(label shift, estimated\); confidence is likely "
        r"miscalibrated by about \d\.\d\d points: recalibrate, or correct for the new "
        r"frequencies\.",
        document["sentence"],
    )
    assert report.verdict == "label"
    lenient = sc.Monitor(CAL, tolerance=0.2).update(draw(9, 4000, HARD)[1])
    assert (lenient.alarm, lenient.verdict, lenient.labels_wanted) == (True, "fine", 0)
    assert lenient.sentences[-2].endswith("points: no need to act.")
    assert lenient.sentences[-1] == "Nothing to do."
    more = watched(10, 2000, EVEN, weaker=0.7)
    assert more.sentences[-2] == (
        "More than class frequencies changed: calibration has likely got worse."
    )
    assert more.sentences[-1].startswith("Label about")


def said(report, shift, **changes):
    """The sentences of a report with a diagnosis given."""
    made = replace(report, **changes)
    made.__dict__["class_shift"] = shift
    return made.sentences


def test_labels_have_the_last_word():
    _, logits, labels = draw(11, 4000, HARD)
    report = sc.Monitor(CAL).update(logits, labels)
    assert report.class_shift.kind == "frequencies"
    wrong = sc.Monitor(CAL).update(logits, (labels + (np.arange(4000) % 3 == 0)) % 8)
    assert (wrong.class_shift.kind, wrong.verdict) == ("more", "refit")
    assert "and labels show that calibration got worse." in " ".join(wrong.sentences)
    holds = {"gap": LabelledGap(9000, 0.0, -0.01, 0.01), "gap_log_e": 0.0}
    hurt = {"gap": LabelledGap(9000, -0.1, -0.11, -0.09), "gap_log_e": 99.0}
    frequencies = report.class_shift
    more = replace(frequencies, kind="more")
    assert said(report, frequencies, **holds)[-2].endswith(
        "; labels show that calibration still holds."
    )
    assert "holds all the same" in said(report, more, **holds)[-2]
    assert said(report, frequencies, **hurt)[-2].endswith("correct for the new frequencies.")
    unclear = said(report, ClassShift("unclear"))
    assert "cannot be determined yet" in unclear[-2]


def test_tables_add_up_what_rows_say():
    z, y = simulate(500, 6)
    fitted = fit("srts-bce", z, y).fitted_
    table, p = fitted.reference.classes, fitted.predict_proba(z)
    top, sure = p.argmax(axis=1), p.max(axis=1)
    for k in range(6):
        assert table.predicted[k] == UNIT * np.sum(top == k)
        assert table.certainty[k] == pytest.approx(UNIT * sure[top == k].sum(), abs=0.51)
        assert table.squares[k] == pytest.approx(UNIT * (sure[top == k] ** 2).sum(), abs=0.51)
    for k, other, amount in table.confused:
        assert amount == pytest.approx(UNIT * p[top == k, other].sum(), abs=0.51)
    seen = fitted.watch(z)
    for name in ("confidence", "score"):
        codes = getattr(fitted.reference, name).code(getattr(seen, name))
        expected = [p[codes == b].sum(axis=0) for b in range(codes.max() + 1)]
        assert UNIT * np.array(expected) == pytest.approx(table.sums(name), abs=0.51)
    joint = np.array([p[top == k].sum(axis=0) for k in range(6)]) / 500
    assert table.joint == pytest.approx(joint, abs=2e-4)


def test_both_ways_of_adding_up_give_the_same(monkeypatch):
    z, y = simulate(300, 5)
    product = fit("srts-bce", z, y).fitted_.reference.classes
    monkeypatch.setattr("smallcal.calibrators.class_table._FEW", 0)
    sorted_first = fit("srts-bce", z, y).fitted_.reference.classes
    assert np.array(sorted_first.confidence) == pytest.approx(np.array(product.confidence), abs=1)
    assert sorted_first.predicted == product.predicted


def test_a_table_is_made_when_it_is_asked_for_and_knows_the_rows_of_the_fit(monkeypatch):
    made = []
    whole = ClassTable.of
    monkeypatch.setattr(ClassTable, "of", lambda *given: made.append(1) or whole(*given))
    z, y = simulate(300, 5)
    cal = fit("srts-bce", z, y)
    expected = fit("srts-bce", z.copy(), y).fitted_.to_dict()["reference"]["classes"]
    assert len(made) == 1
    z[:] = 0  # what becomes of the caller's array is no matter of the calibrator's
    copies = [pickle.loads(pickle.dumps(cal)), copy.deepcopy(cal), cal]
    assert [each.fitted_.to_dict()["reference"]["classes"] for each in copies] == [expected] * 3
    assert len(made) == 2
    assert copies[0].fitted_.reference == copies[2].fitted_.reference
    assert copies[2].fitted_.reference == copies[0].fitted_.reference
    assert hash(copies[0].fitted_.reference) == hash(copies[2].fitted_.reference)
    assert "predicted=" in repr(cal.fitted_.reference)


def test_a_large_split_gives_a_sample_of_its_rows(monkeypatch):
    z, y = simulate(3000, 5)
    whole = fit("srts-bce", z, y).fitted_.reference.classes
    monkeypatch.setattr("smallcal.calibrators.reference._NUMBERS", 5 * 2000)
    one, two = (fit("srts-bce", z, y).fitted_.reference.classes for _ in range(2))
    assert one == two
    assert sum(one.predicted) == UNIT * 2000
    assert one.joint == pytest.approx(whole.joint, abs=0.03)


def test_many_classes_keep_the_largest_confusions_and_the_sums_of_the_rest():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(60, 0.05), size=3000)
    table = table_of(p, np.arange(3000) % 4)
    assert len(table.confused) == MAX_PAIRS
    assert table.joint.sum() == pytest.approx(1)
    assert table.joint.sum(axis=1) == pytest.approx(np.array(table.predicted) / 300_000, abs=1e-4)
    assert table.joint.sum(axis=0) == pytest.approx(p.mean(axis=0), abs=0.003)


def parsed(document):
    return FittedCalibrator.from_dict(
        artefact.parse(json.dumps(document), source="it"), source="it"
    )


def without_table(fitted):
    """A calibrator as earlier releases wrote it."""
    document = fitted.to_dict()
    del document["reference"]["classes"]
    return parsed(document), document


def test_old_calibrators_and_states_are_read_and_say_that_they_cannot_tell(tmp_path):
    old, document = without_table(CAL.fitted_)
    assert old.to_dict() == document  # so that its states still know it
    logits = draw(12, 4000, HARD)[1]
    now = sc.Monitor(old)
    now.update(logits[:2000])
    state = now.to_dict()
    assert state.pop("classes") == []
    del state["starts"], state["batches"]
    assert "classes" not in state["reference"]
    first = {**state, "version": 1}
    (tmp_path / "state.json").write_text(json.dumps(first))
    whole = sc.Monitor.load(tmp_path / "state.json", old)
    assert {**whole.to_dict(), "starts": []} == {**now.to_dict(), "starts": [], "batches": []}
    report = whole.update(logits[2000:])
    assert (report.rows, report.drifted) == (4000, True)
    assert report.class_shift.kind == "unknown"
    assert "cannot be determined: there is no table of classes" in report.sentences[-2]
    assert report.verdict == "label"
    assert State.from_dict(first).calibrator == fingerprint(old)


def test_a_split_named_later_gives_the_table_too():
    old, _ = without_table(CAL.fitted_)
    logits = draw(13, 4000, HARD)[1]
    later = sc.Monitor(old, reference=Z).update(logits)
    assert later.class_shift == sc.Monitor(CAL).update(logits).class_shift


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("predicted", "1 2", "must have 2 numbers in each row"),
        ("predicted", "1  2", "whole numbers with a space between"),
        ("certainty", "a b", "whole numbers with a space between"),
        ("squares", 7, "squares must be string"),
        ("confused", "0 1", "half a pair"),
        ("confused", "0 99 5", "no pair 0, 99"),
        ("confused", " ".join(["0 1 1"] * (MAX_PAIRS + 1)), "too many"),
        ("predicted", " ".join(["0"] * 8), "is empty"),
        ("predicted", " ".join(["-5"] * 8), "no counts of samples"),
        ("predicted", "1 " * 10**6 + "1", "a row of 2,000,001 letters"),
        ("score", ["1 1 1 1 1 1 1 1"], "1 rows for the bins of score"),
        ("more", "1", "unknown field 'more'"),
    ],
)
def test_a_doctored_table_is_refused(key, value, message):
    document = CAL.fitted_.to_dict()
    document["reference"]["classes"][key] = value
    with pytest.raises(sc.ArtefactError, match=re.escape(message)):
        parsed(document)


@pytest.mark.parametrize(
    ("certainty", "confidence"), [((0, 0), (5, 0)), ((0, 0), (10**12, 0)), ((10**12, 0), (9, 0))]
)
def test_shares_are_numbers_whatever_the_sums_are(certainty, confidence):
    table = ClassTable((10**12, 0), certainty, (0, 0), (), (confidence, (0, 0)))
    np.testing.assert_allclose(table.joint, [[1, 0], [0, 0]])


def test_a_table_of_other_classes_is_refused():
    document = CAL.fitted_.to_dict()
    z, y = simulate(300, 5)
    other = fit("none", z, y).fitted_.reference.classes.to_dict()
    n_bins = len(document["reference"]["confidence"]["counts"])
    other["confidence"] = other["confidence"][:1] * n_bins
    document["reference"]["classes"] = other
    with refused("artefact-damaged", "5"):
        parsed(document)


def test_predicted_classes_are_counted_and_states_add_up():
    logits = draw(14, 900, EVEN)[1]
    one, two = sc.Monitor(CAL), sc.Monitor(CAL)
    one.update(logits[:400])
    two.update(logits[400:])
    counts = np.bincount(CAL.predict_proba(logits).argmax(axis=1), minlength=8)
    assert one.merge(two).to_dict()["classes"] == counts.tolist()


def test_a_diagnosis_is_the_same_every_time():
    seen = sc.Monitor(CAL).update(draw(15, 3000, HARD)[1]).classes
    assert isinstance(seen, Seen)
    assert diagnose(seen) == diagnose(seen)


def test_real_frequencies_and_real_corruption_are_told_apart(real_cell):
    """Classes of a real model at other frequencies, and the same rows at half their evidence."""
    z, y = real_cell["val_logits"], real_cell["val_labels"]
    cal = fit("tva-ts", z[:2000], y[:2000])
    test, labels = real_cell["test_logits"], real_cell["test_labels"]
    p = cal.predict_proba(test)
    right = p.argmax(axis=1) == labels
    ease = np.array([right[labels == k].mean() for k in range(z.shape[1])])
    weight = np.geomspace(30, 1, z.shape[1])[np.argsort(np.argsort(ease))][labels]
    rows = np.random.default_rng(0).choice(len(labels), size=3000, p=weight / weight.sum())
    found = sc.Monitor(cal).update(test[rows])
    if found.drifted:
        assert found.class_shift.kind in ("frequencies", "unclear")
    assert sc.Monitor(cal).update(test * np.float32(0.5)).class_shift.kind == "more"
