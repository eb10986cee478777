"""Decisions under watch: evidence by another route, false alarms, power, and the state."""

from __future__ import annotations

import copy
import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smallcal as sc
from smallcal.calibrators.decision import Threshold
from smallcal.deploy.monitor import promises
from smallcal.deploy.monitor.promises import Counted, Kept, log_evidence, lowest_rate
from smallcal.deploy.monitor.state import State
from support.cases import fit
from support.refused import refused
from support.simulated import simulate

Z, Y = simulate(800, 4)
NEW, ANSWERS = simulate(3000, 4, seed=1)
PLAIN = fit("tva-ts", Z, Y).fitted_
WRONG = (ANSWERS + 1) % 4


def threshold(level=0.8, **changes):
    known = {
        "risk": 0.1,
        "confidence": 0.95,
        "rule": "accepted",
        "by": "all",
        "names": ("",),
        "thresholds": (level,),
        "n": (500,),
        "accepted": (300,),
        "errors": (10,),
        "bounds": (0.06,),
        "cross": False,
        "sha256": "0" * 64,
        "promise": "",
    }
    return Threshold(**{**known, **changes})


def by_class(**changes):
    four = {"by": "class", "names": tuple("abcd"), "thresholds": (0.8, 0.7, 0.9, None)}
    counts = {"n": (125,) * 4, "accepted": (75, 80, 60, 0), "errors": (1, 2, 0, 0)}
    return threshold(**{**four, **counts, "bounds": (0.05, 0.06, 0.05, None), **changes})


DECIDED = replace(PLAIN, decisions=(threshold(),))


def chance_of(sequence, rate):
    return math.prod(rate if error else 1 - rate for error in sequence)


def test_evidence_is_the_mean_likelihood_ratio_of_higher_rates():
    sequence, risk = (1, 0, 0, 1, 0, 1), 0.07
    ratios = []
    for above in 2.0 ** np.arange(-7, 3):
        odds = risk / (1 - risk) * math.exp(above)
        ratios.append(chance_of(sequence, odds / (1 + odds)) / chance_of(sequence, risk))
    assert math.exp(log_evidence(3, 6, risk)) == pytest.approx(np.mean(ratios), rel=1e-9)


@pytest.mark.parametrize(("rate", "relation"), [(0.1, "equal"), (0.04, "below"), (0.2, "above")])
def test_evidence_is_one_on_average_at_the_risk_and_less_below(rate, relation):
    """Summed over all sequences of eight rows, each with its chance."""
    sequences = itertools.product((0, 1), repeat=8)
    found = sum(chance_of(s, rate) * math.exp(log_evidence(sum(s), 8, 0.1)) for s in sequences)
    assert (found == pytest.approx(1, abs=1e-9)) == (relation == "equal")
    assert (found > 1) == (relation == "above") or relation == "equal"


@pytest.mark.parametrize("risk", [0.005, 0.02, 0.2])
def test_false_alarms_at_every_look_and_power(risk):
    """2,000 streams of 3,000 rows, looked at after every row."""
    rng = np.random.default_rng(0)
    looks = np.arange(1, 3001)
    for times, alpha in ((1, 0.05), (1, 0.2), (0.7, 0.05)):
        errors = (rng.random((2000, 3000), dtype=np.float32) < risk * times).cumsum(axis=1)
        limit = lowest_alarm(looks, risk, alpha)
        share = (errors >= limit).any(axis=1).mean()
        assert share < alpha + 3 * math.sqrt(alpha / 2000)
    doubled = (rng.random((500, 3000), dtype=np.float32) < 2 * risk).cumsum(axis=1)
    share = (doubled >= lowest_alarm(looks, risk, 0.05)).any(axis=1).mean()
    assert share > (0.9 if risk > 0.01 else 0.3)


def lowest_alarm(looks, risk, alpha):
    """How many errors raise the alarm at each look: evidence grows with them."""
    low, high = np.zeros(len(looks)), looks + 1.0
    while (high - low > 1).any():
        middle = (low + high) // 2
        alarm = log_evidence(middle, looks, risk) >= -math.log(alpha)
        low, high = np.where(alarm, low, middle), np.where(alarm, middle, high)
    return high


@given(st.integers(0, 400), st.integers(0, 2000), st.floats(0.001, 0.5), st.floats(0.001, 0.3))
def test_evidence_grows_with_errors_and_shrinks_with_the_risk(errors, right, risk, more):
    n = errors + right
    assert log_evidence(errors + 1, n + 1, risk) >= log_evidence(errors, n + 1, risk)
    assert log_evidence(errors, n, risk) >= log_evidence(errors, n, min(risk + more, 0.9)) - 1e-9
    assert np.isfinite(log_evidence(errors, n, risk))


@given(st.integers(1, 300), st.integers(0, 2000), st.floats(0.001, 0.2))
def test_the_lowest_rate_is_where_evidence_meets_its_limit(errors, right, alpha):
    low = lowest_rate(errors, errors + right, alpha)
    assert 0 <= low <= errors / (errors + right)
    if low > 1e-9:
        found = float(log_evidence(errors, errors + right, low))
        assert found == pytest.approx(-math.log(alpha), abs=1e-2)


def test_counts_are_those_of_a_loop():
    monitor = sc.Monitor(replace(PLAIN, decisions=(threshold(), by_class(risk=0.05))))
    monitor.update(NEW[:1000])
    monitor.update(NEW[1000:], ANSWERS[1000:])
    p = PLAIN.predict_proba(NEW)
    accepted = tried = errors = 0
    each = {name: [0, 0] for name in range(4)}
    for i, row in enumerate(p):
        top = int(row.argmax())
        accepted += row[top] >= 0.8
        labelled, wrong = i >= 1000, top != ANSWERS[i]
        if labelled and row[top] >= 0.8:
            tried, errors = tried + 1, errors + wrong
        if labelled and row[top] >= (0.8, 0.7, 0.9, 2)[top]:
            each[top][0] += 1
            each[top][1] += wrong
    report = monitor.report()
    first, second = report.decisions
    assert (first.n, first.errors, first.share) == (tried, errors, accepted / 3000)
    assert first.share_before == 300 / 500
    assert second.n == sum(a for a, _ in each.values())
    assert second.errors == sum(b for _, b in each.values())
    counts = {c.decision: c for c in State.from_dict(monitor.to_dict()).sums.decisions}
    found = counts[promises.fingerprint(by_class(risk=0.05))]
    assert (found.tried, found.errors) == tuple(zip(*map(tuple, each.values()), strict=True))


def test_the_rule_of_all_rows_counts_all_labelled_rows():
    decided = replace(PLAIN, decisions=(threshold(rule="all"),))
    (kept,) = sc.Monitor(decided).update(NEW, ANSWERS).decisions
    (accepted,) = sc.Monitor(DECIDED).update(NEW, ANSWERS).decisions
    assert kept.n == 3000
    assert kept.errors == accepted.errors
    assert "accepted and wrong" in sc.Monitor(decided).update(NEW, ANSWERS).sentences[3]


def test_a_broken_promise_is_an_alarm():
    calm = sc.Monitor(DECIDED).update(NEW, ANSWERS)
    assert not calm.broken
    assert calm.verdict == "fine"
    assert not calm.alarm
    assert any("not shown to be above" in each for each in calm.sentences)
    labels = np.where(np.random.default_rng(0).random(3000) < 0.2, WRONG, ANSWERS)
    alarm = sc.Monitor(DECIDED, tolerance=0.5).update(NEW, labels)
    assert alarm.broken
    assert alarm.alarm
    assert alarm.verdict == "certify"
    assert "the guarantee is broken" in alarm.sentences[3]
    assert alarm.sentences[-1].startswith("Certify again")
    assert alarm.decisions[0].low > 0.1
    both = sc.Monitor(DECIDED).update(NEW, labels)
    assert both.verdict == "refit"
    assert "then certify" in both.sentences[-1]


def test_the_class_that_breaks_the_promise_is_named():
    labels = np.where(PLAIN.predict_proba(NEW).argmax(axis=1) == 1, WRONG, ANSWERS)
    decided = replace(PLAIN, decisions=(by_class(),))
    report = sc.Monitor(decided, tolerance=0.5).update(NEW, labels)
    assert report.broken
    assert report.decisions[0].worst == "b"
    assert "most of all in b" in report.sentences[3]


def test_one_class_is_seen_where_all_together_keep_the_promise():
    """200 of 4,000 rows are wrong, 5 % where 10 % are promised, but all of them in one class."""
    counted = Counted("", 4000, 4000, (1000,) * 4, (0, 200, 0, 0))
    kept = Kept.of("accepted", by_class(), [counted], np.ones(1), 0.01)
    assert kept.broken
    assert kept.worst == "b"
    assert log_evidence(200, 4000, 0.1) < 0


def test_groups_of_a_threshold_are_asked_for():
    named = np.where(np.arange(3000) % 3, "north", "south")
    two = {"by": "group", "names": ("north", "south"), "thresholds": (0.8, 0.9), "n": (300, 200)}
    rule = threshold(**two, accepted=(200, 90), errors=(3, 1), bounds=(0.05, 0.06))
    decided = replace(PLAIN, decisions=(rule,))
    with refused("groups-missing"):
        sc.Monitor(decided).update(NEW, ANSWERS)
    monitor = sc.Monitor(decided)
    (kept,) = monitor.update(NEW, ANSWERS, groups=named).decisions
    confidence = PLAIN.predict_proba(NEW).max(axis=1)
    expected = confidence >= np.where(named == "north", 0.8, 0.9)
    assert kept.n == expected.sum()
    assert kept.share == pytest.approx(expected.mean())
    with pytest.warns(sc.GroupWarning, match="no threshold for their group"):
        monitor.update(NEW[:9], groups=["east"] * 9)
    with refused("groups-invalid"):
        sc.Monitor(DECIDED).update(NEW, groups=named)


def test_labels_that_come_later_count_once():
    at_once = sc.Monitor(DECIDED).update(NEW, ANSWERS)
    later = sc.Monitor(DECIDED)
    later.update(NEW)
    later.update(NEW[:1500], ANSWERS[:1500], seen=True)
    last = later.update(NEW[1500:], ANSWERS[1500:], seen=True)
    assert (last.decisions, last.gap) == (at_once.decisions, at_once.gap)
    assert (last.rows, last.labelled) == (at_once.rows, at_once.labelled)


def test_order_parts_and_merging_change_no_counts():
    whole = sc.Monitor(DECIDED)
    whole.update(NEW, ANSWERS)
    order = np.random.default_rng(0).permutation(3000)
    parts = [sc.Monitor(DECIDED) for _ in range(3)]
    for monitor, rows in zip(parts, np.array_split(order, 3), strict=True):
        monitor.update(NEW[rows], ANSWERS[rows])
    first, second, third = parts
    merged = third.merge(first).merge(second)
    assert merged.to_dict()["decisions"] == whole.to_dict()["decisions"]
    assert sc.Monitor.from_dict(json.loads(json.dumps(whole.to_dict())), DECIDED).report() == (
        whole.report()
    )


def test_a_calibrator_without_decisions_has_the_state_it_had():
    monitor = sc.Monitor(PLAIN)
    monitor.update(NEW, ANSWERS)
    state = monitor.to_dict()
    assert "decisions" not in state
    assert "decisions" not in monitor.report().to_dict()
    assert "decision" not in monitor.report().prometheus()
    watched = sc.Monitor(DECIDED)
    watched.update(NEW, ANSWERS)
    document = watched.to_dict()
    for counted in (document, *document["starts"]):
        assert len(counted.pop("decisions")) == 1
    assert document == state


def test_a_state_goes_on_after_certify(tmp_path):
    """Rows from before have no say on a threshold that was not there."""
    before = sc.Monitor(PLAIN)
    before.update(NEW[:1000], ANSWERS[:1000])
    before.save(tmp_path / "state.json")
    fresh = sc.Monitor(DECIDED)
    fresh.update(NEW[1000:], ANSWERS[1000:])
    report = fresh.add_to(tmp_path / "state.json").report()
    assert report.rows == 3000
    (kept,) = report.decisions
    (alone,) = sc.Monitor(DECIDED).update(NEW[1000:], ANSWERS[1000:]).decisions
    assert kept == alone
    other = replace(PLAIN, decisions=(threshold(0.9),))
    (kept,) = sc.Monitor.load(tmp_path / "state.json", other).report().decisions
    assert (kept.n, kept.share) == (0, None)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"errors": [900]}, "more errors"),
        ({"accepted": 5000}, "more errors or accepted rows"),
        ({"tried": [1, 2]}, "entries"),
        ({"tried": [-1]}, "must lie in"),
        ({"extra": 1}, "unknown field"),
    ],
)
def test_a_doctored_state_is_refused(change, match):
    monitor = sc.Monitor(DECIDED)
    monitor.update(NEW[:500], ANSWERS[:500])
    document = copy.deepcopy(monitor.to_dict())
    document["decisions"][0].update(change)
    with pytest.raises(sc.ArtefactError, match=match):
        sc.Monitor.from_dict(document, DECIDED)


def test_a_state_with_other_entries_is_refused():
    monitor = sc.Monitor(DECIDED)
    monitor.update(NEW[:500], ANSWERS[:500])
    document = copy.deepcopy(monitor.to_dict())
    document["decisions"][0].update({"tried": [1, 2], "errors": [0, 0]})
    document["starts"] = []
    with pytest.raises(sc.InputError, match="counts 2 entries"):
        sc.Monitor.from_dict(document, DECIDED)


def test_json_and_prometheus_tell_of_decisions():
    report = sc.Monitor(replace(PLAIN, decisions=(threshold(), threshold(0.9, risk=0.05)))).update(
        NEW, ANSWERS
    )
    first, second = json.loads(json.dumps(report.to_dict()))["decisions"]
    assert (first["name"], second["name"]) == ("accepted_at_10pct", "accepted_at_5pct")
    assert first["alarm"] is False
    assert first["rate"] == report.decisions[0].errors / report.decisions[0].n
    text = report.prometheus()
    assert (
        'smallcal_monitor_decision_risk{method="tva-ts",decision="accepted_at_5pct"} 0.05' in text
    )
    assert 'smallcal_monitor_alarm{method="tva-ts",check="decisions"} 0.0' in text
    nothing = sc.Monitor(DECIDED).report()
    assert "no labels yet" in " ".join(nothing.sentences)
    assert "decision_share{" not in nothing.prometheus()


def test_scores_are_watched_in_their_own_words():
    rng = np.random.default_rng(0)
    marks = rng.random(2000)
    passed = (rng.random(2000) < marks).astype(int)
    cal = sc.Calibrator(input="score").fit(marks[:500], passed[:500]).fitted_
    decided = replace(cal, decisions=(threshold(0.8),))
    report = sc.Monitor(decided).update(marks[500:], passed[500:])
    (kept,) = report.decisions
    p = cal.predict_score(marks[500:])
    assert kept.n == (p >= 0.8).sum()
    assert kept.errors == ((p >= 0.8) & (passed[500:] == 0)).sum()
    assert "% failed" in report.sentences[3]
