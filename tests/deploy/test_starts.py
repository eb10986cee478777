"""Starts: what begins late is found as well, and false alarms stay as rare as they are."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smallcal as sc
from smallcal.calibrators.decision import Threshold
from smallcal.deploy.monitor import label_free, labelled
from smallcal.deploy.monitor.labelled import Gap
from smallcal.deploy.monitor.state import EVERY, Start, State
from support.cases import fit
from support.refused import refused
from support.simulated import simulate

Z, Y = simulate(800, 4)
PLAIN = fit("tva-ts", Z, Y).fitted_
NEW, ANSWERS = simulate(9000, 4, seed=1)
WRONG = np.where(np.random.default_rng(0).random(9000) < 0.25, (ANSWERS + 1) % 4, ANSWERS)


def fed(fitted, logits, labels=None, *, batch=250, **settings):
    """A monitor that took in rows batch by batch."""
    monitor = sc.Monitor(fitted, **settings)
    for start in range(0, len(logits), batch):
        rows = slice(start, start + batch)
        monitor.update(logits[rows], None if labels is None else labels[rows])
    return monitor


def rows_to_alarm(alarmed, monitor, logits, labels, *, batch=50):
    for start in range(0, len(logits), batch):
        rows = slice(start, start + batch)
        if alarmed(monitor.update(logits[rows], None if labels is None else labels[rows])):
            return start + batch
    return math.inf


def test_a_gap_is_found_after_any_number_of_clean_rows():
    """Before there were starts: 350, 1,050, 2,550 and never within 3,000."""
    found = []
    for clean in (0, 1000, 3000, 6000):
        monitor = fed(PLAIN, NEW[:clean], ANSWERS[:clean])
        rows = slice(clean, clean + 3000)
        alarm = rows_to_alarm(lambda r: r.miscalibrated, monitor, NEW[rows], WRONG[rows])
        found.append(alarm)
    assert max(found) <= 4 * found[0], found


def test_drift_is_found_after_any_number_of_clean_rows():
    found = []
    for clean in (0, 1000, 6000):
        monitor = fed(PLAIN, NEW[:clean])
        rows = 0.7 * NEW[clean : clean + 3000]
        found.append(rows_to_alarm(lambda r: r.drifted, monitor, rows, None))
    assert max(found) <= 4 * found[0], found


def test_a_broken_promise_is_found_after_any_number_of_clean_rows():
    known = {"risk": 0.1, "confidence": 0.95, "rule": "accepted", "by": "all", "names": ("",)}
    counts = {"thresholds": (0.8,), "n": (500,), "accepted": (300,), "errors": (10,)}
    rest = {"bounds": (0.06,), "cross": False, "sha256": "0" * 64, "promise": ""}
    decided = replace(PLAIN, decisions=(Threshold(**known, **counts, **rest),))
    found = []
    for clean in (0, 1000, 6000):
        monitor = fed(decided, NEW[:clean], ANSWERS[:clean], tolerance=0.5)
        rows = slice(clean, clean + 3000)
        found.append(rows_to_alarm(lambda r: r.broken, monitor, NEW[rows], WRONG[rows]))
    assert max(found) <= 4 * found[0], found
    (kept,) = monitor.report().decisions
    assert kept.after > 1000
    assert kept.rate > kept.low > 0.1
    assert f"since about labelled row {kept.after:,} " in monitor.report().sentences[3]


@given(st.lists(st.integers(1, 900), min_size=1, max_size=60))
@settings(max_examples=30, deadline=None)
def test_there_is_a_start_for_every_age_and_few_in_all(steps):
    """Of any age d there is one of d to 2 d, but for a batch, and two for each doubling."""
    reference = PLAIN.reference
    empty = State.empty("", reference, alpha=0.01, tolerance=0.02)
    state, every = empty, [0]
    for step in steps:
        counts = (step, *(0,) * (len(reference.confidence.counts) - 1))
        last = state
        sums = replace(empty.sums, rows=step, confidence=counts, classes=(step, 0, 0, 0))
        state = state + replace(empty, sums=sums)
        if state.starts[-1] != last.starts[-1]:
            every.append(last.sums.rows)
    ages = [state.sums.rows - start.before.rows for start in state.starts]
    for age in (state.sums.rows - rows for rows in every):
        assert min(kept for kept in ages if kept >= age) <= 2 * age
    assert [start.number for start in state.starts] == [
        every.index(start.before.rows) for start in state.starts
    ]
    assert np.all(-np.diff(every) <= -EVERY)
    assert len(ages) <= 2 * math.log2(max(state.sums.rows / EVERY, 1)) + 4


def test_shares_add_up_to_alpha():
    shares = [Start(number, None).share for number in range(1000)]
    assert sum(shares) == pytest.approx(1 - 1 / 1001)
    assert shares == sorted(shares, reverse=True)


def test_evidence_is_the_most_that_a_monitor_begun_at_a_start_would_have():
    monitor = fed(PLAIN, NEW[:3000], ANSWERS[:3000])
    state, report = monitor._state, monitor.report()
    assert len(state.starts) > 4
    logs, gaps = [], []
    for start in state.starts:
        rows = slice(start.before.rows, 3000)
        alone = fed(PLAIN, NEW[rows], ANSWERS[rows]).to_dict()
        prior = PLAIN.reference.confidence.spacings
        share = math.log(1 / ((start.number + 1) * (start.number + 2)))
        logs.append(float(label_free.log_evidence(np.array(alone["confidence"]), prior)) + share)
        gap = Gap(*alone["labelled"][0])
        gaps.append(labelled.log_evidence(gap, 0.02) + share)
    assert report.drift_log_e == pytest.approx(max(logs))
    assert report.gap_log_e == pytest.approx(max(gaps))


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_false_alarms_are_as_rare_as_promised_with_all_starts_together(alpha):
    """The mean gap is the tolerance to the last digit: the worst there is. 200 streams."""
    rng, alarms = np.random.default_rng(1), 0
    monitor = sc.Monitor(PLAIN, alpha=alpha, tolerance=0.05)
    empty = monitor._state
    for _ in range(200):
        state = empty
        for _ in range(20):
            confidence = rng.uniform(0.6, 0.9, 200)
            correct = rng.random(200) < confidence + 0.05
            gap = Gap.of(correct, confidence)
            part = replace(empty.sums, correct=int(correct.sum()), gaps=(gap,))
            state = state + replace(empty, sums=part)
            logs = [
                labelled.log_evidence((state.sums - start.before).gap, 0.05) + math.log(start.share)
                for start in state.starts
            ]
            if max(logs) >= -math.log(alpha):
                alarms += 1
                break
    assert alarms / 200 <= alpha + 2 * math.sqrt(alpha / 200)


def test_drift_after_many_labels_asks_for_new_ones():
    """Labels from before the change say nothing of calibration after it."""
    monitor = fed(PLAIN, NEW[:6000], ANSWERS[:6000], tolerance=0.1)
    assert monitor.report().gap.within(0.1)
    report = monitor.update(0.5 * NEW[6000:7500])
    assert (report.drifted, report.verdict) == (True, "label")
    assert 5000 < report.after <= 6200
    assert report.labels_wanted > 100
    assert report.gap.n + report.gap.after == report.labelled == 6000
    assert sum(report.streams[0].counts) == 7500 - report.after
    assert report.class_shift.kind == "more"
    rows = 0.5 * NEW[report.after :]
    confidence = PLAIN.predict_proba(rows[: 7500 - report.after]).max(axis=1).mean()
    assert report.confidence == pytest.approx(confidence, abs=0.06)


def test_a_late_gap_is_told_of_the_rows_since():
    monitor = fed(PLAIN, NEW[:6000], ANSWERS[:6000])
    report = monitor.update(NEW[6000:8000], WRONG[6000:8000])
    assert report.miscalibrated
    assert 5000 < report.gap.after <= 6400
    assert report.gap.high < -0.02 < 0
    assert f"since about labelled row {report.gap.after:,}:" in " ".join(report.sentences)
    told = json.loads(json.dumps(report.to_dict()))["calibration"]
    assert (told["after"], told["n"]) == (report.gap.after, 8000 - report.gap.after)


def test_a_state_that_is_saved_goes_on_exactly(tmp_path):
    path = tmp_path / "state.json"
    straight = sc.Monitor(PLAIN)
    for start in range(0, 4000, 160):
        rows = slice(start, start + 160)
        straight.update(NEW[rows], ANSWERS[rows])
        part = sc.Monitor(PLAIN)
        part.update(NEW[rows], ANSWERS[rows])
        whole = part.add_to(path)
    assert whole.to_dict() == straight.to_dict() == sc.Monitor.load(path, PLAIN).to_dict()
    assert whole.report() == straight.report()


def test_states_of_the_release_before_are_read():
    monitor = fed(PLAIN, NEW[:1000], ANSWERS[:1000])
    old = {**monitor.to_dict(), "version": 2}
    del old["starts"], old["batches"]
    known = sc.Monitor.from_dict(old, PLAIN)
    assert known.report().rows == 1000
    known.update(NEW[1000:1100])
    assert [start.number for start in known._state.starts] == [0, 1]
    assert known._state.starts[1].before.rows == 1000


def test_a_batch_counts_once():
    monitor = sc.Monitor(PLAIN)
    monitor.update(NEW[:300])
    kept = monitor.to_dict()
    for labels in (None, ANSWERS[:300]):
        with refused("rows-counted-twice"):
            monitor.update(NEW[:300], labels)
    assert monitor.to_dict() == kept
    monitor.update(NEW[:300], ANSWERS[:300], seen=True)
    with refused("rows-counted-twice"):
        monitor.update(NEW[:300], WRONG[:300], seen=True)
    other = sc.Monitor(PLAIN)
    other.update(NEW[:300])
    with refused("rows-counted-twice"):
        monitor.merge(other)
    monitor.update(NEW[300:310])
    monitor.update(NEW[300:310])  # single rows may well be alike
    assert monitor.report().rows == 320
    assert len(fed(PLAIN, NEW, batch=60).to_dict()["batches"]) == 100


def test_batches_of_a_judge_that_knows_few_marks_may_be_alike():
    rng = np.random.default_rng(0)
    marks = rng.integers(0, 3, 500) / 2
    cal = sc.Calibrator(input="score").fit(marks, (rng.random(500) < 0.2 + 0.6 * marks).astype(int))
    monitor = sc.Monitor(cal)
    for _ in range(3):
        monitor.update(np.ones(40))
    assert monitor.report().rows == 120
    monitor.update(marks)
    with refused("rows-counted-twice"):
        monitor.update(marks)
