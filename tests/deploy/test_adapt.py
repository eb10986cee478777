"""Classes that became more or less frequent: found without labels, or given; refused; undone."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smallcal as sc
from smallcal.calibrators.class_frequencies import ClassFrequencies
from smallcal.calibrators.decision import Threshold
from smallcal.calibrators.fitted import load
from smallcal.calibrators.given import Given
from smallcal.calibrators.group_effects import GroupEffects
from smallcal.calibrators.later import with_later
from smallcal.deploy.adapt import rows as deployed_rows
from smallcal.deploy.adapt.estimate import _within, adapt_blocks, unadapted
from smallcal.deploy.adapt.rates import rates_of, read_rates
from smallcal.deploy.adapt.rows import Spool
from smallcal.errors import FileError, InputError
from smallcal.statistics.moved_classes import Moved
from support.real import cell, data_folder, there
from support.refused import refused

C = 6
EVEN = np.full(C, 1 / C)
NOW = np.array([0.4, 0.25, 0.15, 0.1, 0.06, 0.04])


def draw(seed, n, frequencies=EVEN, scale=1.5, weaker=1.0):
    """Logits of a model that is too sure by a factor, and labels."""
    rng = np.random.default_rng(seed)
    y = rng.choice(C, size=n, p=frequencies)
    return scale * 1.8 * (rng.normal(size=(n, C)) + weaker * 1.8 * np.eye(C)[y]), y


def uneven(seed, n, frequencies=EVEN):
    """The same with classes from hard to easy: confidence moves with their frequencies."""
    rng = np.random.default_rng(seed)
    ease, y = np.linspace(1.0, 3.5, C), rng.choice(C, size=n, p=frequencies)
    return ease * (rng.normal(size=(n, C)) + ease * np.eye(C)[y]) - ease**2 / 2, y


def log_loss(p, y):
    return -np.log(np.maximum(p[np.arange(len(y)), y], 1e-12)).mean()


CAL = sc.TemperatureScaling().fit(*draw(0, 1500))
ROWS, LABELS = draw(1, 2000, NOW)
FOUND = sc.adapt(CAL, ROWS)


def test_finds_how_frequent_classes_are():
    assert FOUND.adapted
    assert FOUND.verdict == "moved"
    assert FOUND.p_value < 1e-10
    assert FOUND.class_shift.kind != "more"
    assert np.array(FOUND.now) == pytest.approx(NOW, abs=0.03)
    inside = (np.array(FOUND.low) <= NOW) & (np.array(FOUND.high) >= NOW)
    assert inside.sum() >= C - 1
    fresh, y = draw(2, 4000, NOW)
    before, after = (cal.predict_proba(fresh) for cal in (CAL, FOUND.calibrator))
    assert log_loss(after, y) < log_loss(before, y) - 0.02
    assert (after.argmax(axis=1) == y).mean() > (before.argmax(axis=1) == y).mean()
    changed = (after.argmax(axis=1) != before.argmax(axis=1)).mean()
    assert changed == pytest.approx(FOUND.changed / FOUND.rows, abs=0.02)
    assert f"{FOUND.changed:,} of 2,000 rows" in FOUND.sentences[1]


def even_rows(rng, n, n_classes, frequencies=None):
    """Logits that are right where classes are equally frequent, and labels."""
    y = rng.choice(n_classes, size=n, p=frequencies)
    return 2 * (rng.normal(size=(n, n_classes)) + 2 * np.eye(n_classes)[y]), y


@pytest.mark.slow
@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 10, 50])
def test_the_estimate_lies_in_its_interval_and_the_interval_holds_the_truth(n_classes, shifted):
    """Unchanged rows too: there nearly all is held back, up to the ends of the intervals."""
    rng, held, even = np.random.default_rng(n_classes), [], np.full(n_classes, 1 / n_classes)
    for _ in range(12):
        cal = sc.TemperatureScaling().fit(*even_rows(rng, 1000, n_classes))
        now = rng.dirichlet(np.full(n_classes, 3.0)) if shifted else even
        found = sc.adapt(cal, even_rows(rng, 1500, n_classes, now)[0])
        low, high = np.array(found.low), np.array(found.high)
        assert (low <= found.now).all()
        assert (found.now <= high).all()
        assert sum(found.now) == pytest.approx(1, abs=1e-12)
        held.append((low <= now) & (now <= high))
    assert np.mean(held) > 0.87


@given(st.integers(0, 10_000), st.integers(2, 40))
def test_frequencies_are_cut_to_intervals_and_still_sum_to_one(seed, n_classes):
    rng = np.random.default_rng(seed)
    likeliest, wanted = rng.dirichlet(np.full(n_classes, 0.5), size=2) * 0.999 + 0.001 / n_classes
    wide = rng.uniform(0, 0.1, size=(2, n_classes)) * rng.integers(0, 2, size=(2, n_classes))
    low, high = np.maximum(likeliest - wide[0], 0), likeliest + wide[1]
    found = _within(wanted, Moved(likeliest, low, high, 0.5, 0.5, np.empty(0)))
    assert (low <= found).all()
    assert (found <= high).all()
    assert found.sum() == pytest.approx(1, abs=1e-12)
    # The nearest of all by relative entropy: what lies between the ends keeps its proportions.
    free = (low < found) & (found < high)
    np.testing.assert_allclose(np.ptp((found / wanted)[free]) if free.any() else 0, 0, atol=1e-6)


def test_probabilities_are_weighed_by_bayes_rule():
    p = CAL.predict_proba(ROWS.astype(np.float64))
    weighed = p * np.array(FOUND.now) / np.array(FOUND.before)
    weighed /= weighed.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(FOUND.calibrator.predict_proba(ROWS), weighed, atol=1e-12)
    assert not FOUND.calibrator.preserves_argmax
    assert CAL.fitted_.later == ()


def test_the_same_rows_give_the_same_numbers():
    again = sc.adapt(CAL, ROWS)
    assert again.to_dict() == FOUND.to_dict()
    json.dumps(FOUND.to_dict())
    assert again.calibrator.to_dict() == FOUND.calibrator.to_dict()


def test_nothing_is_done_where_nothing_changed():
    verdicts = [sc.adapt(CAL, draw(100 + i, 600)[0]).verdict for i in range(12)]
    assert verdicts.count("unchanged") >= 10
    found = sc.adapt(CAL, draw(100 + verdicts.index("unchanged"), 600)[0])
    assert found.calibrator is CAL.fitted_
    assert not found.adapted
    assert "may be unchanged" in found.sentences[0]
    assert len(found.sentences) == 1


def test_few_rows_are_refused():
    found = sc.adapt(CAL, ROWS[:30])
    assert (found.verdict, found.adapted, found.calibrator) == ("few", False, CAL.fitted_)
    assert found.sentences == [
        "Not adapted: class frequencies cannot be estimated from 30 rows; at least 50 are needed."
    ]
    assert sc.adapt(CAL, ROWS[:30], force=True).adapted


def test_other_inputs_are_no_other_frequencies():
    refused = [
        sc.adapt(CAL, draw(200 + i, 1500, weaker=0.6)[0]).verdict != "moved" for i in range(10)
    ]
    assert sum(refused) >= 8
    found = sc.adapt(CAL, 0.4 * draw(300, 2000, NOW)[0])
    assert found.verdict == "more"
    assert "more than class frequencies" in found.sentences[0]
    forced = sc.adapt(CAL, 0.4 * draw(300, 2000, NOW)[0], force=True)
    assert forced.adapted
    assert forced.sentences[0].startswith("Adapted all the same, as asked: rows differ in more")


def test_undone_to_the_byte(tmp_path):
    CAL.save(tmp_path / "cal.json")
    cal = sc.load(tmp_path / "cal.json")
    sc.adapt(cal, ROWS).calibrator.save(tmp_path / "new.json")
    back = sc.adapt(sc.load(tmp_path / "new.json"), undo=True)
    back.calibrator.save(tmp_path / "old.json")
    assert (tmp_path / "old.json").read_bytes() == (tmp_path / "cal.json").read_bytes()
    assert back.sentences == [
        "The calibrator is as it was before it was adapted to other class frequencies."
    ]
    with refused("options-conflict"):
        sc.adapt(back.calibrator, undo=True)
    with refused("options-conflict"):
        sc.adapt(FOUND.calibrator, ROWS, undo=True)


def test_adapting_again_replaces_what_was_adapted():
    rows, _ = draw(5, 2000, NOW[::-1])
    again, alone = sc.adapt(FOUND.calibrator, rows), sc.adapt(CAL, rows)
    assert again.calibrator.to_dict() == alone.calibrator.to_dict()
    assert len(again.calibrator.later) == 1
    assert unadapted(again.calibrator).to_dict() == CAL.fitted_.to_dict()
    # Rows as before lead nowhere, and what was adapted to others stays for the user to undo.
    assert sc.adapt(FOUND.calibrator, draw(101, 600)[0]).calibrator is FOUND.calibrator


def test_what_was_certified_is_set_aside():
    decision = Threshold(
        risk=0.02, confidence=0.95, rule="accepted", by="all", names=("",), thresholds=(0.7,),
        n=(100,), accepted=(50,), errors=(0,), bounds=(0.02,), cross=False, sha256="0" * 64,
        promise="Among accepted rows at most 2 % are wrong.",
    )  # fmt: skip
    cal = replace(CAL.fitted_, decisions=(decision,))
    found = sc.adapt(cal, ROWS)
    assert (found.set_aside, found.calibrator.decisions) == (1, ())
    assert found.sentences[-1].endswith("certify again.")
    back = sc.adapt(found.calibrator, undo=True)
    assert (back.calibrator.decisions, back.set_aside) == ((decision,), 0)
    later = replace(found.calibrator, decisions=(decision, decision))
    assert sc.adapt(later, rates=NOW).set_aside == 2
    assert sc.adapt(later, undo=True).sentences[-1].startswith("Thresholds certified since then")


def test_a_monitor_compares_with_the_rows_that_were_adapted_to():
    old = sc.TemperatureScaling().fit(*uneven(0, 1500))
    found = sc.adapt(old, uneven(1, 2000, NOW)[0])
    assert found.adapted
    fresh, y = uneven(6, 3000, NOW)
    assert sc.Monitor(old).update(fresh).drifted
    report = sc.Monitor(found.calibrator).update(fresh, y)
    assert (report.drifted, report.verdict) == (False, "fine")
    assert report.reference_confidence == pytest.approx(report.confidence, abs=0.02)
    assert report.reference_confidence != old.fitted_.fit_metrics["after"]["mean_confidence"]
    # Rows as they were are the drift now, and it is one of frequencies.
    back = sc.Monitor(found.calibrator).update(uneven(7, 3000)[0])
    assert back.drifted
    assert back.class_shift.kind != "more"


def test_a_monitor_of_given_rates_expects_them():
    cal = sc.adapt(sc.TemperatureScaling().fit(*uneven(0, 1500)), rates=NOW).calibrator
    drifts = [sc.Monitor(cal).update(uneven(400 + i, 2000, NOW)[0]).drifted for i in range(10)]
    assert sum(drifts) <= 1
    report = sc.Monitor(cal).update(uneven(500, 3000)[0])
    assert report.drifted
    assert report.reference_confidence is None
    assert all(report.sentences)


def test_given_rates_are_bayes_rule(tmp_path):
    found = sc.adapt(CAL, rates=dict(zip(map(str, range(C)), NOW, strict=True)))
    assert (found.verdict, found.rows, found.changed, found.low) == ("rates", 0, None, ())
    p = CAL.predict_proba(ROWS)
    table = CAL.fitted_.reference.classes.sums("confidence").sum(axis=0)
    weighed = p * NOW / (table / table.sum())
    weighed /= weighed.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.calibrator.predict_proba(ROWS), weighed, atol=1e-9)
    with_rows = sc.adapt(CAL, ROWS, rates=NOW)
    assert with_rows.calibrator.to_dict() == found.calibrator.to_dict()
    assert with_rows.changed == (weighed.argmax(axis=1) != p.argmax(axis=1)).sum()
    found.calibrator.save(tmp_path / "new.json")
    (part,) = load(tmp_path / "new.json").later
    assert isinstance(part, ClassFrequencies)
    assert (part.source, part.rows, part.p_value) == ("rates", 0, None)


def test_undersampled_training():
    """A model of rare cases, trained and calibrated on as many of both kinds."""
    rng = np.random.default_rng(11)

    def rows(n, rate):
        y = (rng.random(n) < rate).astype(int)
        return rng.normal(size=n) + 2.0 * y - 1.0, y

    cal = sc.Calibrator(input="score").fit(*rows(4000, 0.5))
    found = sc.adapt(cal, rates=[0.98, 0.02])
    x, _ = rows(200_000, 0.02)
    assert found.calibrator.predict_score(x).mean() == pytest.approx(0.02, abs=0.003)
    right = 1 / (1 + np.exp(-2 * x) * 0.98 / 0.02)
    assert np.abs(found.calibrator.predict_score(x) - right).mean() < 0.004
    estimated = sc.adapt(cal, x[:50_000])
    assert estimated.classes == ("outcome 0", "outcome 1")
    assert estimated.now[1] == pytest.approx(0.02, abs=0.006)


def test_scores_of_which_none_passes_a_half():
    """Rare outcomes: class 0 is always the likelier one, and its frequency moves all the same."""
    rng = np.random.default_rng(12)

    def rows(n, rate):
        y = (rng.random(n) < rate).astype(int)
        return 1.2 * y + rng.normal(size=n), y

    cal = sc.Calibrator(input="score").fit(*rows(3000, 0.05))
    found = sc.adapt(cal, rows(5000, 0.12)[0])
    assert found.adapted
    assert found.low[1] < 0.12 < found.high[1]


def test_probabilities_come_as_logits_do():
    p = np.exp(ROWS) / np.exp(ROWS).sum(axis=1, keepdims=True)
    z, y = draw(0, 1500)
    fitted = sc.TemperatureScaling(input="probabilities").fit(
        np.exp(z) / np.exp(z).sum(axis=1, keepdims=True), y
    )
    found = sc.adapt(fitted, p)
    assert np.array(found.now) == pytest.approx(FOUND.now, abs=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_any_precision(dtype):
    found = sc.adapt(CAL, ROWS.astype(dtype))
    assert np.array(found.now) == pytest.approx(FOUND.now, abs=2e-3)


def test_options_that_a_row_does_not_have():
    z, y = draw(0, 1500)
    masked = ROWS.copy()
    hidden = np.arange(len(z)) % 3 == 0
    z[hidden & (y != C - 1), C - 1] = -np.inf
    gone = np.arange(len(masked)) % 3 == 0
    masked[gone & (LABELS != C - 1), C - 1] = -np.inf
    cal = sc.TemperatureScaling().fit(z, y)
    found = sc.adapt(cal, masked)
    assert found.adapted
    assert np.array(found.now) == pytest.approx(NOW, abs=0.04)
    p = found.calibrator.predict_proba(masked)
    assert (p[np.isneginf(masked)] == 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1)


def test_groups_are_asked_for():
    z, y = draw(0, 1500)
    names = np.where(np.arange(1500) % 2, "a", "b")
    z[names == "a"] *= 3
    cal = sc.TemperatureScaling().fit(z, y, groups=names)
    assert isinstance(cal.fitted_.groups, GroupEffects)
    assert cal.fitted_.groups.sigma
    rows, which = ROWS.copy(), np.where(np.arange(2000) % 2, "a", "b")
    rows[which == "a"] *= 3
    with refused("groups-missing"):
        sc.adapt(cal, rows)
    found = sc.adapt(cal, rows, groups=which)
    assert np.array(found.now) == pytest.approx(NOW, abs=0.04)
    p = found.calibrator.predict_proba(rows, groups=which)
    np.testing.assert_allclose(p.sum(axis=1), 1)


def test_frequencies_after_a_refresh_stay_below_it():
    """Only the last thing learned is replaced: what came after frequencies keeps them."""
    other = with_later(FOUND.calibrator, ClassFrequencies((1 / C,) * C, tuple(NOW)))
    assert len(unadapted(other).later) == 1


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ([0.5, 0.5], "one number for each of the 6 classes; got shape"),
        ([0.2] * 6, "must sum to 1; they sum to 1.2"),
        ([0.5, 0.5, 0, 0, 0, 0], "that of class 2 is 0. A class that never comes"),
        ([1.5, -0.5, 0, 0, 0, 0], "that of class 0 is 1.5"),
        ([float("nan")] * 6, "that of class 0 is nan"),
        (["a"] * 6, "must be numbers"),
        ({"0": 0.5, "1": 0.5}, "rates lack 4 of the 6 classes: 2, 3, 4, 5"),
        ({str(i): 0.1 for i in range(10)}, "classes that the calibrator does not have: 6, 7, 8, 9"),
    ],
)
def test_rates_that_will_not_do(rates, said):
    with pytest.raises(InputError, match=said):
        sc.adapt(CAL, rates=rates)


def test_rounded_rates_are_taken():
    assert rates_of([0.333, 0.333, 0.333], ["a", "b", "c"]).sum() == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("class,share\na,1\n", "no column 'rate'"),
        ("name,rate\na,1\n", "no column 'class'"),
        ("class,rate\na,half\n", "must be a number"),
        ("class,rate\na,0.5\na,0.5\n", "names class a more than once"),
        ("", "is empty"),
    ],
)
def test_files_of_rates_that_will_not_do(tmp_path, text, said):
    file = tmp_path / "rates.csv"
    file.write_text(text)
    with pytest.raises(FileError, match=said):
        read_rates(str(file))


def test_careless_input():
    with refused("option-missing"):
        sc.adapt(CAL)
    with refused("option-range", "0"):
        sc.adapt(CAL, ROWS, confidence=95)
    with refused("option-type"):
        sc.adapt("cal.json", ROWS)
    with refused("columns-differ", "6", "5"):
        sc.adapt(CAL, ROWS[:, :5])
    with refused("empty"):
        sc.adapt(CAL, np.empty((0, C)))
    rows = ROWS.copy()
    rows[1234, 2] = np.nan
    with refused("not-finite", "row 1234"):
        sc.adapt(CAL, rows)
    bare = replace(CAL.fitted_, reference=None)
    with refused("artefact-outdated"):
        sc.adapt(bare, ROWS)


def test_frequencies_that_no_file_may_hold():
    with pytest.raises(InputError, match="two ends for each class"):
        ClassFrequencies((0.5, 0.5), (0.2, 0.8), low=(0.1,), high=(0.3,))
    with pytest.raises(InputError, match="begin before they end"):
        ClassFrequencies((0.5, 0.5), (0.2, 0.8), low=(0.4, 0.1), high=(0.3, 0.9))


def test_what_is_kept_of_rows_is_the_same_however_they_come():
    blocks = [[ROWS[:700], ROWS[700:701], ROWS[701:]], [ROWS]]
    found = []
    for cut in blocks:
        found.append(adapt_blocks(CAL.fitted_, map(_given, cut)))
    assert found[0].to_dict() == found[1].to_dict()
    assert found[0].calibrator.to_dict() == found[1].calibrator.to_dict()


def _given(part):
    return Given(part, None, None)


def test_a_sample_is_drawn_of_many_rows(monkeypatch):
    monkeypatch.setattr(deployed_rows, "_SAMPLE_ROWS", 800)
    some = sc.adapt(CAL, ROWS)
    assert sum(some.calibrator.reference.confidence.counts) == 800
    assert np.array(some.now) == pytest.approx(FOUND.now, abs=0.01)
    assert some.changed == pytest.approx(FOUND.changed, abs=20)


def test_memory_does_not_grow_with_rows(monkeypatch):
    monkeypatch.setattr(deployed_rows, "_IN_MEMORY", 2**16)
    monkeypatch.setattr(deployed_rows, "_SAMPLE_ROWS", 1000)
    part = ROWS[:1000].astype(np.float32)

    def peak(n):
        tracemalloc.start()
        adapt_blocks(CAL.fitted_, (_given(part) for _ in range(n)))
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(2)
    small, large = peak(10), peak(100)
    assert large < 1.1 * small + 2**18


def test_a_spool_gives_back_what_it_was_given(monkeypatch):
    monkeypatch.setattr(deployed_rows, "_AT_ONCE", 100)
    spool = Spool(3)
    parts = [np.arange(12, dtype=np.float32).reshape(4, 3), np.ones((5, 3), np.float32)]
    for part in parts:
        spool.add(part)
    for _ in range(2):
        np.testing.assert_array_equal(np.concatenate(list(spool)), np.concatenate(parts))
    spool.close()


@pytest.mark.parametrize(
    "name", [name for name in there("fashion10__cnn-ce", "cifar100__ce-resnet20") if name[0] != "q"]
)
def test_log_loss_of_real_rows_with_other_frequencies(name):
    data, rng = cell(name), np.random.default_rng(0)
    z, y = data["test_logits"], data["test_labels"]
    n_classes = z.shape[1]
    cal = sc.make("ts-nll").fit(data["val_logits"][:1500], data["val_labels"][:1500])
    gains = []
    for _ in range(3):
        chance = rng.dirichlet(np.full(n_classes, 1.0))[y]
        rows, fresh = (rng.choice(len(y), size=k, p=chance / chance.sum()) for k in (1500, 4000))
        found = sc.adapt(cal, z[rows], force=True)
        p, q = cal.predict_proba(z[fresh]), found.calibrator.predict_proba(z[fresh])
        gains.append(log_loss(p, y[fresh]) - log_loss(q, y[fresh]))
    assert min(gains) > 0


@pytest.mark.skipif(data_folder() is None, reason="no SMALLCAL_DATA and no ../shared/data")
@pytest.mark.parametrize("kind", ["fog-s5", "gaussian_noise-s5"])
def test_corrupted_images_are_refused(kind):
    data = cell("cifar10__akamaster-resnet20")
    files = sorted((data_folder() / "shift").glob(f"cifar10__akamaster-resnet20__{kind}.npz"))
    if not files:
        pytest.skip(f"no rows of {kind} there")
    cal = sc.Calibrator().fit(data["val_logits"][:2500], data["val_labels"][:2500])
    assert sc.adapt(cal, np.load(files[0])["logits"][:2000]).verdict != "moved"


@pytest.mark.parametrize("keep", [False, True])
def test_the_default_is_adapted_with_and_without_its_own_predictions(keep):
    cal = sc.Calibrator(keep_predictions=keep).fit(*draw(0, 1500))
    found = sc.adapt(cal, ROWS)
    assert found.adapted
    assert np.array(found.now) == pytest.approx(NOW, abs=0.04)
    now = found.calibrator
    assert log_loss(now.predict_proba(ROWS), LABELS) < log_loss(cal.predict_proba(ROWS), LABELS)
    predicted = now.predict_proba(ROWS).argmax(axis=1)
    assert np.array_equal(predicted, ROWS.argmax(axis=1)) == keep
    for told in (found, sc.adapt(cal, ROWS, rates=NOW)):
        after = told.calibrator.predict_proba(ROWS).argmax(axis=1)
        assert told.changed == (after != cal.predict(ROWS)).sum()
    sure = now.confidence(ROWS)
    assert sure.mean() == pytest.approx((predicted == LABELS).mean(), abs=0.03)
