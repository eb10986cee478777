"""CalArena and probmetrics: our methods as their calibrators, and their files as our input."""

import json
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import smallcal as sc
from smallcal import io
from smallcal.calibrators.catalogue import ALIASES
from smallcal.data.special import softmax
from smallcal.deploy.adapters.calarena import Entry, entries, entry_names
from support.cases import QUICK, require_package
from support.refused import refused
from support.simulated import simulate


@pytest.fixture(scope="module")
def multiclass():
    z, y = simulate(400, 4)
    return softmax(z), y


@pytest.fixture(scope="module")
def binary():
    z, y = simulate(400, 2)
    return softmax(z)[:, 1], y


def quiet_fit(entry, p, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        return entry.fit(p, y)


@pytest.mark.parametrize("name", entry_names())
def test_every_deployable_method_is_an_entry(name, multiclass):
    require_package(name)
    p, y = multiclass
    entry = clone(Entry(name, options=QUICK.get(name)))
    proba = quiet_fit(entry, p, y).predict_proba(p[:50])
    assert proba.shape == (50, 4)
    assert proba.dtype == np.float64
    assert np.allclose(proba.sum(axis=1), 1)
    assert entry.calibrator_.method_.partition("[")[0] == ALIASES.get(name, name)
    assert np.array_equal(entry.predict(p[:50]), proba.argmax(axis=1))


def test_an_entry_is_the_calibrator_of_probabilities(multiclass):
    p, y = multiclass
    entry = Entry("srts-bce").fit(p, y)
    cal = sc.make("srts-bce", input="probabilities").fit(p, y)
    assert np.allclose(entry.predict_proba(p), cal.predict_proba(p), atol=1e-12)


def test_a_known_temperature_is_found():
    z, y = simulate(20_000, 4, temperature=1.6)
    entry = Entry("ts-nll").fit(softmax(z), y)
    assert entry.calibrator_.temperatures_[0] == pytest.approx(1.6, rel=0.03)


def test_one_column_is_the_probability_of_class_one(binary):
    p, y = binary
    both = np.column_stack([1 - p, p])
    expected = Entry("ts-nll").fit(both, y).predict_proba(both)
    for one in (p, p[:, None]):
        assert np.array_equal(Entry("ts-nll").fit(one, y).predict_proba(one), expected)


def test_a_probability_of_zero_is_taken_for_half_the_smallest(multiclass):
    p, y = multiclass
    votes = np.round(10 * p)
    votes /= votes.sum(axis=1, keepdims=True)
    entry = Entry("ts-nll").fit(votes, y)
    assert entry.floor_ == votes[votes > 0].min() / 2
    hit = entry.predict_proba(votes)[np.arange(len(y)), y]
    cal = quiet_fit(sc.make("ts-nll", input="probabilities"), votes, y)
    assert cal.flags_ == {"at_bound": [0]}  # one sample that "never" happens decides the fit
    never = cal.predict_proba(votes)
    assert -np.log(hit).mean() < -np.log(never[np.arange(len(y)), y]).mean() - 0.01


def test_entries_are_factories_for_the_benchmarks_table(multiclass):
    table = entries()
    assert list(table) == [f"smallcal-{name}" for name in entry_names()]
    assert table["smallcal-default"]() is not table["smallcal-default"]()
    # What the benchmark does with each row of its table of experiments.
    p, y = multiclass
    calibrator = entries("tva-ts")["smallcal-tva-ts"]()
    calibrator.fit(p[:300].astype(np.float32), y[:300])
    assert calibrator.predict_proba(p[300:].astype(np.float32)).shape == (100, 4)


def test_bad_input_is_one_clear_line(multiclass):
    p, y = multiclass
    with refused("method-unsuitable", "'oracle-risk'"):
        entries("oracle-risk")
    with refused("method-unsuitable"):
        Entry("features-k3").fit(p, y)
    with refused("probabilities-range"):
        Entry("ts-nll").fit(5 * p, y)
    with pytest.raises(NotFittedError):
        Entry("ts-nll").predict_proba(p)


def test_inside_probmetrics(multiclass, binary):
    """Our entries in place of its calibrators: one-vs-rest, mixture, metrics with calibration."""
    pytest.importorskip("numba", reason="probmetrics needs numba")
    theirs = pytest.importorskip("probmetrics.calibrators")
    distributions = pytest.importorskip("probmetrics.distributions")
    torch = pytest.importorskip("torch")
    p, y = multiclass
    rest = theirs.MulticlassOneVsRestCalibrator(Entry("ts-nll")).fit(p, y)
    assert np.allclose(rest.predict_proba(p).sum(axis=1), 1)

    mixed = theirs.MixtureCalibrator(Entry("ts-nll")).fit(p, y).predict_proba(p)
    share = 1 / (len(y) + 1)
    own = Entry("ts-nll").fit(p, y).predict_proba(p)
    assert np.allclose(mixed, (1 - share) * own + share / 4, atol=1e-6)

    wrapped = theirs.WrapCalibratorAsClassifier(Entry("tva-ts")).fit(p, y)
    assert np.array_equal(wrapped.predict_proba(p), Entry("tva-ts").fit(p, y).predict_proba(p))

    for kind, close in ((torch.float32, 1e-5), (torch.float16, 1e-2)):
        scores = distributions.CategoricalProbs(torch.as_tensor(p, dtype=kind))
        after = Entry("ts-nll").fit_torch(scores, torch.as_tensor(y)).predict_proba_torch(scores)
        assert after.get_probs().dtype == torch.float32
        assert np.allclose(after.get_probs().numpy(), own, atol=close)


def test_probmetrics_measures_our_entry(multiclass):
    pytest.importorskip("numba", reason="probmetrics needs numba")
    metrics = pytest.importorskip("probmetrics.metrics")
    splitters = pytest.importorskip("probmetrics.splitters")
    distributions = pytest.importorskip("probmetrics.distributions")
    torch = pytest.importorskip("torch")
    p, y = multiclass
    measured = metrics.MetricsWithCalibration(
        metrics.Metrics.from_names(["logloss"]),
        calibrator=Entry("ts-nll"),
        val_splitter=splitters.CVSplitter(n_cv=4),
        random_state=0,
    ).compute_all(
        distributions.CategoricalDirac(torch.as_tensor(y), 4),
        distributions.CategoricalProbs(torch.as_tensor(p)),
    )
    gain = next(value for name, value in measured.items() if name.startswith("calib-err"))
    assert gain > 0.02  # the logits are 1.6 times too large


@pytest.fixture
def bench(here, multiclass, binary):
    """A benchmark file: a group for each data set, in it one for each model."""
    h5py = pytest.importorskip("h5py", reason=".h5 needs h5py")
    with h5py.File("bench.h5", "w") as file:
        for name, (p, y) in {"faces/net": multiclass, "adult (9)/forest": binary}.items():
            group = file.create_group(name)
            group["probas_cal"], group["labels_cal"] = p[:200], y[:200]
            group["probas_test"], group["labels_test"] = p[200:], y[200:]
        file["alone/probas_cal"], file["alone/labels_cal"] = multiclass[0], multiclass[1]
        file["outside"] = h5py.ExternalLink("other.h5", "/")
    return here


def test_one_cell_of_the_benchmarks_file_is_read(bench, multiclass, binary):
    p, y = multiclass
    assert io.splits("bench.h5:faces/net") == ("cal", "test")
    cell = io.read("bench.h5:faces/net:test")
    assert cell.input == "probabilities"
    assert np.array_equal(cell.logits, p[200:])
    assert np.array_equal(cell.labels, y[200:])
    two = io.read("bench.h5:adult (9)/forest:cal")
    assert np.array_equal(two.logits, np.column_stack([1 - binary[0][:200], binary[0][:200]]))
    assert len(io.read("bench.h5:/alone").labels) == 400


@pytest.mark.parametrize("cell", ["bench.h5:faces/net", "bench.h5:adult (9)/forest"])
def test_compare_takes_one_cell(bench, cli, cell):
    code, out, _ = cli("compare", cell, "--methods", "none,ts-nll", "--n-boot", "50", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["cal"], found["test"]) == (f"{cell}:cal", f"{cell}:test")
    assert found["values"]["ts-nll"]["nll"] < found["values"]["none"]["nll"]


def test_fit_evaluate_and_apply_take_one_cell(bench, cli):
    assert cli("fit", "bench.h5:faces/net:cal", "--method", "ts-nll", "-o", "cal.json")[0] == 0
    evaluate = ("evaluate", "bench.h5:faces/net:test", "--calibrator", "cal.json")
    assert cli(*evaluate, "--metrics", "nll")[0] == 0
    assert cli("apply", "cal.json", "bench.h5:faces/net:test", "-o", "out.npz")[0] == 0
    assert io.read("out.npz").logits.shape == (200, 4)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("bench.h5", r"bench.h5 holds its arrays in groups; name one: bench.h5:.*/"),
        ("bench.h5:faces/gone", r"bench.h5 has no group 'faces/gone'; /faces holds net"),
        ("bench.h5:gone/net", r"bench.h5 has no group 'gone/net'; / holds"),
        ("bench.h5:outside/net", r"has no group 'outside/net'"),
        ("bench.h5:faces/net/probas_cal", r"has no group 'faces/net/probas_cal'"),
        ("bench.h5:faces/net", r"holds several splits; choose one: bench.h5:faces/net:cal"),
        ("bench.h5:faces/net:val", r"has no split 'val'; choose one: bench.h5:faces/net:cal"),
        ("bench.h5:faces/", r"holds its arrays|holds no array"),
        ("bench.h5://", r"has no group '//'"),
        ("gone.h5:faces/net", r"cannot read gone.h5"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(bench, cli, path, message):
    with pytest.raises(sc.FileError, match=message):
        io.read(path)
    code, _, err = cli("evaluate", path, "--metrics", "nll")
    assert code == 2
    assert len(err.strip().splitlines()) <= 4
