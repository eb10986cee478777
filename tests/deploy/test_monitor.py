"""The drift monitor: its evidence by other routes, its false alarms, its state."""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

import smallcal as sc
from smallcal import runtime
from smallcal.calibrators.reference import Bins, Reference, log_odds
from smallcal.deploy.monitor import label_free, labelled
from smallcal.deploy.monitor.labelled import UNIT, Gap
from smallcal.deploy.monitor.report import LabelledGap, Report, Stream
from smallcal.deploy.monitor.state import State
from smallcal.io import lock
from smallcal.io.documents import parse_document
from smallcal_lab.studies.simulate import World
from support.cases import features_of, fit
from support.refused import refused
from support.simulated import simulate

Z, Y = simulate(600, 12)
NEW, ANSWERS = simulate(900, 12, seed=1)
SRTS = fit("srts-bce", Z, Y)
PLAIN = fit("tva-ts", Z, Y)


def urn(sequence, prior):
    """The log-probability of a sequence of bins, drawn from an urn one after another."""
    held, total = list(prior), 0.0
    for k in sequence:
        total += math.log(held[k] / sum(held))
        held[k] += 1
    return total


def test_evidence_is_the_ratio_of_two_urns():
    prior = np.array([4.0, 7.0, 3.0])
    sequence = [0, 0, 2, 1, 0, 2, 2, 2]
    counts = np.bincount(sequence, minlength=3)
    parts = [(0.1, [0.5, 0.5, 0.5])]
    for tilt, sure in itertools.product((0.25, 0.5, 1, 2, -0.25, -0.5, -1, -2), (1, 1 / 4, 1 / 16)):
        mean = prior * np.exp(tilt * np.array([-1, 0, 1]))
        parts.append((0.9 / 24, mean / mean.sum() * max(14 * sure, 1.5)))
    mixed = sum(share * math.exp(urn(sequence, part)) for share, part in parts)
    expected = math.log(mixed) - urn(sequence, prior)
    assert float(label_free.log_evidence(counts, prior)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("prior", [[3.0, 5.0, 2.0], [1.0, 1.0], [40.0, 60.0]])
def test_evidence_is_one_on_average_when_nothing_drifts(prior):
    """Summed over all streams of six rows, each with its chance under the urn."""
    total = 0.0
    for sequence in itertools.product(range(len(prior)), repeat=6):
        counts = np.bincount(sequence, minlength=len(prior))
        log_e = float(label_free.log_evidence(counts, np.array(prior)))
        total += math.exp(urn(sequence, prior) + log_e)
    assert total == pytest.approx(1, abs=1e-9)


def test_evidence_does_not_shrink_on_average_as_rows_come():
    """A martingale: the mean over the next row is the evidence of now."""
    prior, counts = np.array([30.0, 31.0, 40.0]), np.array([15.0, 9.0, 30.0])
    chance = (prior + counts) / (prior + counts).sum()
    after = [math.exp(label_free.log_evidence(counts + row, prior)) for row in np.eye(3)]
    now = math.exp(label_free.log_evidence(counts, prior))
    assert chance @ after == pytest.approx(now, rel=1e-9)


def test_chances_of_bins_cut_at_ranks_are_dirichlet():
    rng = np.random.default_rng(0)
    chances, n = [], 57
    for _ in range(4000):
        bins = Bins.of(rng.random(n))
        chances.append(np.diff([0, *bins.edges, 1]))
    a = bins.spacings
    assert a.sum() == n + 1
    mean, variance = a / (n + 1), a * (n + 1 - a) / ((n + 1) ** 2 * (n + 2))
    assert np.mean(chances, axis=0) == pytest.approx(mean, abs=0.003)
    assert np.var(chances, axis=0) == pytest.approx(variance, rel=0.12)


def highest_evidence(rng, values, n_cal, looks):
    """The highest evidence over looks at a stream from where its split came from."""
    bins = Bins.of(values(rng, n_cal))
    steps = np.diff([0, *looks])
    counts = np.array([bins.count(values(rng, step)) for step in steps]).cumsum(axis=0)
    return label_free.log_evidence(counts, bins.spacings).max()


@pytest.mark.parametrize(
    "values",
    [
        lambda rng, n: rng.standard_cauchy(n),
        lambda rng, n: rng.choice([0.0, 1.0, 2.0, 3.0], p=[0.5, 0.3, 0.15, 0.05], size=n),
        lambda rng, n: np.minimum(rng.exponential(size=n), 0.7),  # half of them tied
    ],
    ids=["continuous", "four values", "half tied"],
)
def test_false_alarms_stay_below_alpha_at_every_look_together(values):
    rng = np.random.default_rng(1)
    looks = np.unique(np.geomspace(5, 6000, 40).astype(int))
    found = np.array([highest_evidence(rng, values, 250, looks) for _ in range(300)])
    for alpha, least in ((0.2, 0.03), (0.05, 0.0)):
        rate = np.mean(found >= -math.log(alpha))
        error = math.sqrt(alpha * (1 - alpha) / 300)
        assert least <= rate <= alpha + 2.5 * error


def test_shift_is_found_and_calm_is_calm():
    world = World(n_classes=20, accuracy=0.75)
    cal = world.draw(625)
    calm, shifted = world.draw(3000, split="new"), world.draw(3000, split="new", severity=3)
    for name in ("srts-bce", "tva-ts", "signal-linear"):
        fitted = fit(name, cal.logits, cal.labels)
        assert not sc.Monitor(fitted).update(calm.logits).drifted
        assert sc.Monitor(fitted).update(shifted.logits[:1000]).drifted


def residuals(seed, n, gap=0.0):
    rng = np.random.default_rng(seed)
    confidence = rng.uniform(0.5, 1, n)
    return rng.random(n) < np.clip(confidence + gap, 0, 1), confidence


def test_sums_of_residuals_are_those_of_a_loop():
    correct, confidence = residuals(0, 400)
    gap = Gap.of(correct, confidence)
    loop = [round((bool(b) - c) * UNIT) for b, c in zip(correct, confidence, strict=True)]
    assert (gap.n, gap.total, gap.squares) == (400, sum(loop), sum(r * r for r in loop))
    assert gap.mean == pytest.approx(correct.mean() - confidence.mean(), abs=1e-6)


@pytest.mark.parametrize("mean", [-0.6, -0.02, 0.0, 0.02, 0.4])
def test_capital_is_never_more_than_what_bets_win(mean):
    """The closed form is a lower bound of the products it stands for, and near them."""
    for seed in range(20):
        correct, confidence = residuals(seed, 60, gap=0.1)
        gap = Gap.of(correct, confidence)
        x = (correct - confidence - mean) / (1 + mean)
        bets = 0.5 ** np.arange(1, 14)
        products = np.prod(1 + bets[:, None] * x, axis=1)
        found = labelled._log_capital(gap.n, gap.total, gap.squares, np.array([mean]))[0]
        costs = -np.log1p(-bets) - bets
        closed = np.exp(bets * x.sum() - costs * (x**2).sum()).mean()
        assert math.exp(found) == pytest.approx(closed, rel=1e-3)
        assert math.exp(found) <= products.mean() * (1 + 1e-4)
        if abs(mean) <= 0.02:
            assert math.exp(found) >= 0.5 * products.mean()


def test_evidence_of_a_gap_is_the_mean_capital_of_both_directions():
    gap = Gap.of(*residuals(1, 300, gap=0.1))
    for tolerance in (0.0, 0.03):
        capitals = [
            math.exp(labelled._log_capital(gap.n, total, gap.squares, np.array([tolerance]))[0])
            for total in (gap.total, -gap.total)
        ]
        found = labelled.log_evidence(gap, tolerance)
        assert math.exp(found) == pytest.approx(np.mean(capitals))
    assert labelled.log_evidence(Gap(), 0.02) == pytest.approx(0, abs=1e-12)  # nothing seen


def test_a_gap_within_the_tolerance_rarely_alarms_and_a_larger_one_does():
    looks = np.unique(np.geomspace(5, 3000, 30).astype(int))
    alarms = {-0.1: 0, 0.03: 0, 0.15: 0}
    for true, seed in itertools.product(alarms, range(80)):
        correct, confidence = residuals(seed, 3000, gap=min(true, 0.0))
        if true > 0:  # under-confident: what is said is less than what is so
            confidence = confidence - true
        evidence = [labelled.log_evidence(Gap.of(correct[:n], confidence[:n]), 0.03) for n in looks]
        alarms[true] += max(evidence) >= math.log(5)
    assert alarms[0.03] / 80 <= 0.2
    assert alarms[-0.1] >= 79
    assert alarms[0.15] == 80


def test_the_interval_holds_the_gap_at_every_look():
    looks = np.unique(np.geomspace(10, 2000, 15).astype(int))
    missed, widths = 0, []
    for seed in range(80):
        correct, confidence = residuals(seed, 2000)
        ends = [
            labelled.confidence_sequence(Gap.of(correct[:n], confidence[:n]), 0.2) for n in looks
        ]
        missed += any(low > 0 or high < 0 for low, high in ends)
        widths.append(ends[-1][1] - ends[-1][0])
    assert missed / 80 <= 0.2
    assert np.mean(widths) < 0.07  # six standard errors of the mean gap


def test_the_interval_ends_where_the_capital_reaches_its_limit():
    gap = Gap.of(*residuals(3, 700))
    low, high = labelled.confidence_sequence(gap, 0.05)
    for end, total in ((low, gap.total), (-high, -gap.total)):
        at = labelled._log_capital(gap.n, total, gap.squares, np.array([end]))[0]
        assert at == pytest.approx(math.log(2 / 0.05), abs=1e-5)


def test_labels_wanted_are_enough():
    n = labelled.labels_to_bound(0.02, 0.8, 0.01)
    half = [
        labelled.confidence_sequence(Gap(m, 0, round(m * 0.16 * UNIT**2)), 0.01)[1]
        for m in (n, round(0.95 * n))
    ]
    assert half[0] <= 0.02 < half[1]
    n = labelled.labels_to_show(0.06, 0.02, 0.8, 0.01)
    sums = [
        Gap(m, round(0.06 * m * UNIT), round(m * 0.1636 * UNIT**2)) for m in (n, round(0.9 * n))
    ]
    found = [labelled.log_evidence(each, 0.02) >= math.log(100) for each in sums]
    assert found == [True, False]


def test_a_report_counts_what_is_there():
    report = sc.Monitor(SRTS).update(NEW, ANSWERS)
    proba = SRTS.predict_proba(NEW)
    assert report.rows == report.labelled == 900
    assert report.accuracy == np.mean(proba.argmax(axis=1) == ANSWERS)
    assert report.confidence == pytest.approx(proba.max(axis=1).mean(), abs=1e-6)
    assert report.reference_confidence == pytest.approx(SRTS.predict_proba(Z).max(axis=1).mean())
    assert report.gap.gap == pytest.approx(report.accuracy - report.confidence, abs=1e-6)
    groups = SRTS.group(NEW)
    for k, gap in enumerate(report.gaps):
        rows = groups == k
        right = (proba.argmax(axis=1) == ANSWERS)[rows].mean()
        assert gap.gap == pytest.approx(right - proba.max(axis=1)[rows].mean(), abs=1e-6)
    streams = {stream.name: stream for stream in report.streams}
    assert streams["groups"].counts == tuple(np.bincount(groups, minlength=3))
    assert streams["groups"].reference == tuple(np.bincount(SRTS.group(Z), minlength=3))
    edges = SRTS.fitted_.reference.score.edges
    loop = [sum(edge < score for edge in edges) for score in SRTS.fitted_.scores(NEW)]
    assert streams["score"].counts == tuple(np.bincount(loop, minlength=10))
    mean = np.mean([math.exp(stream.log_e) for stream in report.streams])
    assert report.drift_log_e == pytest.approx(math.log(mean))


def test_each_stream_is_judged_by_its_own_part_of_the_split():
    """Bins hold their counts and one gap more at the end; groups half a sample more each."""
    reference = Reference(
        confidence=Bins((1.0, 3.0, 5.0), (300, 200, 90, 10)),
        score=Bins((0.1, 0.3), (50, 400, 150)),
        groups=(10, 90, 500),
    )
    monitor = sc.Monitor(replace(SRTS.fitted_, reference=reference))
    streams = {stream.name: stream for stream in monitor.update(NEW[:200]).streams}
    priors = {
        "confidence": [300, 200, 90, 11],
        "score": [50, 400, 151],
        "groups": [10.5, 90.5, 500.5],
    }
    assert list(streams) == list(priors)
    for name, prior in priors.items():
        expected = label_free.log_evidence(np.array(streams[name].counts), np.array(prior))
        assert streams[name].log_e == pytest.approx(float(expected) + math.log(1 / 2), rel=1e-12)
    odds = log_odds(NEW[:200])
    binned = [sum(edge < value for edge in (1.0, 3.0, 5.0)) for value in odds]
    assert streams["confidence"].counts == tuple(np.bincount(binned, minlength=4))
    assert streams["groups"].counts == tuple(np.bincount(SRTS.group(NEW[:200]), minlength=3))


@pytest.mark.parametrize(("alpha", "tolerance"), [(0.01, 0.02), (0.2, 0.1)])
def test_alpha_and_tolerance_reach_every_number_of_a_report(alpha, tolerance):
    monitor = sc.Monitor(SRTS, alpha=alpha, tolerance=tolerance)
    for watched in (monitor, sc.Monitor.from_dict(monitor.to_dict(), SRTS), monitor.fresh()):
        report = watched.update(NEW, ANSWERS)
        proba = SRTS.predict_proba(NEW)
        confidence, correct = proba.max(axis=1), proba.argmax(axis=1) == ANSWERS
        whole = Gap.of(correct, confidence)
        assert report.gap_log_e == labelled.log_evidence(whole, tolerance) + math.log(1 / 2)
        ends = labelled.confidence_sequence(whole, alpha / 2)
        assert (report.gap.low, report.gap.high) == ends
        for k, gap in enumerate(report.gaps):
            rows = SRTS.group(NEW) == k
            ends = labelled.confidence_sequence(Gap.of(correct[rows], confidence[rows]), alpha / 2)
            assert (gap.low, gap.high) == ends
    edge = report_with(alpha=alpha, drift_log_e=-math.log(alpha), gap_log_e=-math.log(alpha))
    assert edge.drifted
    assert edge.miscalibrated
    assert not report_with(alpha=alpha, drift_log_e=-math.log(alpha) - 1e-9).drifted


def test_confidence_is_watched_as_log_odds_that_do_not_saturate():
    p = np.exp(NEW - NEW.max(axis=1, keepdims=True))
    top = (p / p.sum(axis=1, keepdims=True)).max(axis=1)
    assert log_odds(NEW) == pytest.approx(np.log(top / (1 - top)), rel=1e-6, abs=1e-9)
    assert log_odds(np.array([[900.0, 0.0, 0.0]])) == pytest.approx(900 - math.log(2))


def sums_of(monitor):
    """What a state counts, but for where its starts lie."""
    known = monitor.to_dict()
    return {name: known[name] for name in known if name not in ("starts", "batches")}


@given(st.lists(st.integers(0, 900), max_size=5), st.randoms(use_true_random=False))
@settings(max_examples=8)
def test_order_parts_and_merging_change_no_sums(cuts, shuffle):
    whole = sc.Monitor(SRTS)
    whole.update(NEW, ANSWERS)
    rows = list(range(900))
    shuffle.shuffle(rows)
    ends = sorted({0, 900, *cuts})
    parts = []
    for start, stop in itertools.pairwise(ends):
        part = sc.Monitor(SRTS)
        part.update(NEW[rows[start:stop]], ANSWERS[rows[start:stop]])
        parts.append(part)
    merged = parts[0]
    for part in parts[1:]:
        merged = part.merge(merged)
    assert sums_of(merged) == sums_of(whole)


def test_long_batches_are_read_in_blocks(monkeypatch):
    expected = sc.Monitor(SRTS)
    expected.update(NEW, ANSWERS)
    monkeypatch.setattr("smallcal.deploy.monitor.monitor._BLOCK", 128)
    monkeypatch.setattr("smallcal.deploy.monitor.labelled._BLOCK", 16)
    found = sc.Monitor(SRTS)
    found.update(NEW, ANSWERS)
    assert sums_of(found) == sums_of(expected)


def test_labels_may_come_later():
    later, once = sc.Monitor(SRTS), sc.Monitor(SRTS)
    later.update(NEW)
    later.update(NEW[:300], ANSWERS[:300], seen=True)
    once.update(NEW[:300], ANSWERS[:300])
    once.update(NEW[300:])
    assert sums_of(later) == sums_of(once)
    report, proba = later.report(), SRTS.predict_proba(NEW)
    assert (report.rows, report.labelled) == (900, 300)
    assert report.confidence == pytest.approx(proba.max(axis=1).mean(), abs=1e-6)
    assert report.accuracy == np.mean(proba[:300].argmax(axis=1) == ANSWERS[:300])


def test_an_update_that_fails_counts_nothing():
    monitor = sc.Monitor(SRTS)
    bad = NEW.copy()
    bad[700, 3] = np.nan
    with refused("not-finite", "700"):
        monitor.update(bad)
    with refused("labels-out-of-range"):
        monitor.update(NEW, ANSWERS + 5)
    assert monitor.report().rows == 0


WATCHED = {
    "none": 1,
    "tva-ts": 1,
    "srts-bce": 3,
    "margin-k3": 3,
    "signal-linear": 2,
    "class-linear": 2,
    "smallcal": 1,
    "vector-scaling": 1,
    "scaling-binning": 1,
    "features-k3": 3,
    "random-k3": 1,
}


@pytest.mark.parametrize("name", WATCHED)
def test_any_method_can_be_watched_and_its_split_is_no_drift(name):
    fitted = fit(name, Z, Y)
    monitor = sc.Monitor(fitted, alpha=0.05)
    report = monitor.update(Z, Y, features_of(Z))
    assert len(report.streams) == WATCHED[name]
    assert all(stream.counts == stream.reference for stream in report.streams)
    assert not report.drifted
    assert len(json.dumps(monitor.to_dict())) < 20_000


def test_probabilities_are_watched_as_their_logarithms():
    p = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
    fitted = sc.SRTS(input="probabilities").fit(p, Y)
    report = sc.Monitor(fitted).update(p, Y)
    assert all(stream.counts == stream.reference for stream in report.streams)
    assert report.gap.n == 600


def test_names_of_classes_are_labels_too():
    names = [f"class {i}" for i in range(12)]
    fitted = sc.TemperatureScaling(class_names=names).fit(Z, Y)
    named = sc.Monitor(fitted).update(NEW, [names[y] for y in ANSWERS])
    assert named.gap == sc.Monitor(fitted).update(NEW, ANSWERS).gap


def test_tied_rows_are_watched():
    few = np.round(Z)  # whole logits: ties everywhere
    fitted = fit("srts-bce", few, Y)
    assert not sc.Monitor(fitted).update(np.tile(np.round(Z), (3, 1)).astype(np.float32)).drifted
    assert Bins.of(np.zeros(30)).counts == (30, 0)


def test_an_artefact_without_counts_loads_and_asks_for_the_split(tmp_path):
    document = SRTS.to_dict()
    del document["reference"]
    path = tmp_path / "old.json"
    path.write_text(json.dumps(document))
    old = sc.load(path)
    with refused("artefact-outdated"):
        sc.Monitor(old)
    report = sc.Monitor(old, reference=Z).update(NEW)
    assert report.streams == sc.Monitor(SRTS).update(NEW).streams


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["confidence", "edges"], [2.0, 1.0], "edges need one count more"),
        (["confidence", "counts"], [0] * 10, "must hold its own upper edge"),
        (["score", "edges"], list(range(9, 0, -1)), "edges must ascend"),
        (["groups"], [1, 2], "a reference of 2 groups, not 3"),
        (["groups"], [1, -2, 3], r"groups\[1\] must lie in"),
        (["score"], {"edges": [1.0]}, "lacks counts"),
    ],
)
def test_a_doctored_reference_is_refused(tmp_path, path, value, message):
    document = copy.deepcopy(SRTS.to_dict())
    target = document["reference"]
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    file = tmp_path / "cal.json"
    file.write_text(json.dumps(document))
    with pytest.raises(sc.ArtefactError, match=message):
        runtime.load(file)


def test_a_state_survives_a_file(tmp_path):
    monitor = sc.Monitor(SRTS, alpha=0.02, tolerance=0.05)
    report = monitor.update(NEW, ANSWERS)
    monitor.save(tmp_path / "state.json")
    SRTS.save(tmp_path / "cal.json")
    again = sc.Monitor.load(tmp_path / "state.json", sc.load(tmp_path / "cal.json"))
    assert again.report() == report
    assert (report.alpha, report.tolerance) == (0.02, 0.05)
    assert sc.Monitor.from_dict(monitor.to_dict(), SRTS).to_dict() == monitor.to_dict()


def test_a_state_of_another_calibrator_is_refused(tmp_path):
    sc.Monitor(PLAIN).save(tmp_path / "state.json")
    with pytest.raises(sc.InputError, match="another calibrator"):
        sc.Monitor.load(tmp_path / "state.json", SRTS)
    with pytest.raises(sc.InputError, match="another calibrator"):
        sc.Monitor(SRTS).merge(sc.Monitor(PLAIN))
    with pytest.raises(sc.InputError, match=r"alpha is 0\.01 here and 0\.05"):
        sc.Monitor(SRTS).merge(sc.Monitor(SRTS, alpha=0.05))
    with pytest.raises(sc.InputError, match="different references"):
        sc.Monitor(SRTS).merge(sc.Monitor(SRTS, reference=Z[:300]))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("format", "x", "not the state of a monitor"),
        ("version", 1, "state version 1"),
        ("version", 2, "state version 2"),
        ("version", 4, "state version 4"),
        ("version", True, "state version True"),
        ("rows", 901, "confidence counts 900 rows of 901"),
        ("rows", -1, "rows must lie in"),
        ("alpha", 0, "alpha must be above 0"),
        ("tolerance", 2, "tolerance must lie in"),
        ("groups", [900], "groups has 1 counts; its reference has 3"),
        ("score", [], "score has 0 counts"),
        ("classes", [900], "classes has 1 counts; its reference has 12"),
        ("classes", [1] * 12, "classes counts 12 rows of 900"),
        ("certainty", 10**12, "certainty 1000000000000 is too large"),
        ("correct", 1000, "more than the labelled ones"),
        ("labelled", [[1, 0, 0]], "labelled has 1 entries for 3 groups"),
        ("labelled", [[300, 10, 0]] * 3, "no 300 residuals have the sums 10, 0"),
        ("labelled", [[300, 300 * UNIT, 299 * UNIT**2]] * 3, "no 300 residuals have the sums"),
        ("labelled", [[-300, 0, -1]] * 3, "more than the labelled ones"),
        ("labelled", [[400, 1], [1, 2], [1, 2]], "must have at least 3 entries"),
        ("reference", None, "reference must be object"),
        ("extra", 1, "unknown field 'extra'"),
        ("batches", [1], "batches[0] must be string"),
        ("starts", [{}], "starts[0] lacks number"),
        ("starts", lambda old: [old[0], old[0]], "the numbers of starts must ascend"),
        ("starts", lambda old: [{**old[0], "number": 0}], "the numbers of starts must ascend"),
        ("starts", lambda old: [{**old[0], "rows": 401}], "confidence counts 400 rows of 401"),
        ("starts", lambda old: [{**old[0], "score": []}], "score has 0 counts"),
        (
            "starts",
            lambda old: [old[1], {**old[0], "number": 9}],
            "fewer rows in all than at one of the starts",
        ),
    ],
)
def test_a_doctored_state_is_refused(key, value, message):
    monitor = sc.Monitor(SRTS)
    monitor.update(NEW, ANSWERS)
    known = monitor.to_dict()
    value = value(known[key]) if callable(value) else value
    with pytest.raises(sc.ArtefactError, match=re.escape(message)):
        sc.Monitor(SRTS, state={**known, key: value})


@given(st.data())
@settings(max_examples=100)
def test_a_damaged_state_is_an_error_and_nothing_else(data):
    text = json.dumps(sc.Monitor(SRTS).to_dict())
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, min(start + 20, len(text))))
    junk = data.draw(st.text(alphabet='0123456789-.eE[]{},:"nul', max_size=8))
    damaged = text[:start] + junk + text[stop:]
    with contextlib.suppress(sc.ArtefactError):
        document = parse_document(damaged, source="it")
        assert State.from_dict(document).to_dict() == document


def test_files_that_are_not_states_are_refused(tmp_path):
    file = tmp_path / "state.json"
    for content, message in (
        (b"", "not a JSON document"),
        (b"\xff\xfe", "not JSON text"),
        (b"[1]", "not the state of a monitor"),
        (b'{"a": NaN}', "JSON does not allow the number NaN"),
        (b" " * 4_000_001, "a state is never larger than 4 MB"),
    ):
        file.write_bytes(content)
        with pytest.raises(sc.ArtefactError, match=message):
            sc.Monitor.load(file, SRTS)
    with pytest.raises(sc.ArtefactError, match="cannot read"):
        sc.Monitor.load(tmp_path / "gone.json", SRTS)


def test_adding_to_a_file_begins_it_and_goes_on(tmp_path):
    first, second = sc.Monitor(SRTS), sc.Monitor(SRTS)
    first.update(NEW[:400])
    second.update(NEW[400:], ANSWERS[400:])
    assert first.add_to(tmp_path / "state.json").report().rows == 400
    both = second.add_to(tmp_path / "state.json")
    assert both.to_dict() == first.merge(second).to_dict()
    assert sc.Monitor.load(tmp_path / "state.json", SRTS).to_dict() == both.to_dict()


@pytest.mark.parametrize("name", ["", ".", "folder"])
def test_a_folder_is_not_added_to(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with refused("file-write"):
        sc.Monitor(SRTS).add_to(name)
    assert [path.name for path in tmp_path.rglob("*")] == ["folder"]


def test_a_held_file_is_waited_for_and_given_up_in_the_end(tmp_path, monkeypatch):
    path = tmp_path / "state.json"
    with (
        lock.one_at_a_time(path),
        refused("file-busy", "state.json"),
        lock.one_at_a_time(path, patience=0.05),
    ):
        pass
    with lock.one_at_a_time(path, patience=0):
        pass

    def no_locks(handle, how):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", no_locks)
    with refused("file-write"):
        sc.Monitor(SRTS).add_to(path)
    with refused("file-missing"):
        sc.Monitor(SRTS).add_to(tmp_path / "gone" / "state.json")


def test_bad_input_is_told():
    with refused("option-range"):
        sc.Monitor(SRTS, alpha=0)
    with refused("option-range"):
        sc.Monitor(SRTS, tolerance=math.nan)
    with refused("option-type"):
        sc.Monitor("cal.json")
    with pytest.raises(NotFittedError):
        sc.Monitor(sc.SRTS())
    with refused("no-labels"):
        sc.Monitor(SRTS).update(NEW, seen=True)
    with refused("columns-differ", "12"):
        sc.Monitor(SRTS).update(NEW[:, :5])
    with refused("method-unsuitable"):
        fit("oracle-risk", Z, Y).fitted_.watch(Z)


@pytest.mark.parametrize(
    ("low", "high", "within"),
    [(-0.02, 0.02, True), (-0.021, 0.01, False), (-0.01, 0.021, False), (-1.0, 1.0, False)],
)
def test_a_gap_is_known_to_be_small_where_both_ends_are(low, high, within):
    assert LabelledGap(9, 0.0, low, high).within(0.02) is within


def report_with(**changes):
    gap = LabelledGap(0, None, -1.0, 1.0)
    base = Report(
        method='odd "name"\\\n',
        alpha=0.01,
        tolerance=0.02,
        rows=1000,
        labelled=0,
        streams=(Stream("confidence", (400, 600), (50, 50), 9.0),),
        drift_log_e=0.0,
        gap_log_e=0.0,
        gap=gap,
        gaps=(),
        confidence=0.8,
        reference_confidence=0.9,
        accuracy=None,
    )
    return replace(base, **changes)


def test_verdicts_follow_the_checks():
    calm = report_with()
    assert (calm.alarm, calm.verdict, calm.labels_wanted) == (False, "fine", 0)
    drifted = report_with(drift_log_e=5.0)
    assert (drifted.alarm, drifted.verdict) == (True, "label")
    assert drifted.labels_wanted == labelled.labels_to_show(0.06, 0.02, 0.8, 0.01)
    late = replace(drifted, labelled=5000, after=9000, share=0.1)  # no labels since then
    assert late.labels_wanted == labelled.labels_to_show(0.06, 0.02, 0.8, 0.001)
    assert "Inputs have drifted since about row 9,000 (p " in late.sentences[1]
    some = report_with(drift_log_e=5.0, labelled=5000, gap=LabelledGap(5000, 0.0, -0.03, 0.03))
    assert some.labels_wanted == labelled.labels_to_bound(0.02, 0.8, 0.01) - 5000
    known = LabelledGap(90_000, 0.001, -0.004, 0.006)
    fine = report_with(drift_log_e=5.0, labelled=90_000, gap=known, accuracy=0.8)
    assert (fine.alarm, fine.verdict) == (True, "fine")
    assert fine.sentences[-1].startswith("Nothing to do: inputs have changed")
    off = report_with(gap_log_e=800.0, labelled=9, gap=LabelledGap(9, -0.2, -0.3, -0.1))
    assert (off.alarm, off.verdict) == (True, "refit")
    assert "-20.00 points (-30.00 to -10.00); 2 are allowed" in off.sentences[2]


LINE = re.compile(r'([a-z0-9_]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\} (\S+)')


def test_prometheus_can_read_the_metrics():
    text = sc.Monitor(SRTS).update(NEW, ANSWERS).prometheus()
    helped, typed, seen = set(), {}, {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            helped.add(line.split()[2])
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            typed[name] = kind
        else:
            name, labels, value = LINE.fullmatch(line).groups()
            assert name in helped
            assert typed[name] == ("counter" if name.endswith("_total") else "gauge")
            assert (name, labels) not in seen
            seen[name, labels] = float(value)
            assert math.isfinite(float(value))
    assert set(typed) == helped
    assert seen["smallcal_monitor_rows_total", 'method="srts-bce"'] == 900
    share = seen["smallcal_monitor_group_share", 'method="srts-bce",group="2"']
    assert share == np.mean(SRTS.group(NEW) == 2)
    assert text.endswith("\n")
    odd = report_with().prometheus()
    assert 'method="odd \\"name\\"\\\\\\n"' in odd
    assert all(line.startswith("#") or LINE.fullmatch(line) for line in odd.splitlines())


def test_real_shift_is_seen_and_real_test_rows_are_calm(real_cell):
    fitted = fit("srts-bce", real_cell["val_logits"][:1000], real_cell["val_labels"][:1000])
    monitor = sc.Monitor(fitted)
    assert not monitor.update(real_cell["test_logits"], real_cell["test_labels"]).drifted
    hotter = sc.Monitor(fitted).update(real_cell["test_logits"] * np.float32(0.7))
    assert hotter.drifted


def test_kept_predictions_are_watched_by_their_own_confidence():
    z, y = Z.copy(), Y
    z[:, 3] += 2
    free, kept = (sc.Calibrator(keep_predictions=keep).fit(z, y) for keep in (False, True))
    own = z.argmax(axis=1)
    assert (free.predict(z) != own).mean() > 0.05
    reports = {cal: sc.Monitor(cal).update(z, y) for cal in (free, kept)}
    for cal, predicted in ((free, free.predict(z)), (kept, own)):
        report, sure = reports[cal], cal.confidence(z)
        assert report.accuracy == (predicted == y).mean()
        assert report.confidence == pytest.approx(sure.mean(), abs=1e-6)
        assert report.gap.gap == pytest.approx((predicted == y).mean() - sure.mean(), abs=1e-6)
        assert report.reference_confidence == pytest.approx(sure.mean(), abs=1e-9)
        assert not report.miscalibrated
    # The split's classes are those with the largest probability, and so are those that are seen.
    assert reports[kept].classes.predicted == reports[free].classes.predicted
    table, seen = kept.fitted_.reference.classes.predicted, reports[kept].classes.predicted
    assert np.allclose(np.array(table) / sum(table), np.array(seen) / 600)
