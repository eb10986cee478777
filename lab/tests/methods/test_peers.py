"""Peers behind our interface give what their packages give by hand, and never fail a comparison."""

from __future__ import annotations

import logging
import os
import pickle
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from smallcal.calibrators.discipline import Discipline
from smallcal.calibrators.maps import ScalarMap, Split, fit_temperature
from smallcal.calibrators.objectives import Gaps, objective
from smallcal.data.predictions import Predictions
from smallcal.errors import InputError, MissingExtraError
from smallcal_lab.methods import peers
from smallcal_lab.methods.peers import PEERS, Peer, PeerMap, fit_peer
from support.simulated import simulate


def load(module):
    """Import a peer's module, or skip; imports warn, and venn-abers sets NumPy's error state."""
    with warnings.catch_warnings(), np.errstate():
        warnings.simplefilter("ignore")
        return pytest.importorskip(module, reason=f"{module} is not installed")


@pytest.fixture(params=PEERS)
def peer(request):
    load(PEERS[request.param].module)
    return request.param


def as_split(logits, labels, *, weight=None):
    preds = Predictions.of(logits, labels, weight=weight)
    gaps, goal, rules = Gaps.of(preds), objective("nll"), Discipline()
    pooled = fit_temperature(goal, gaps, bounds=rules.bounds)
    return Split(preds, gaps, goal, pooled, np.zeros(preds.n), rules)


def apply(fit, logits):
    return fit.map.probabilities(logits, np.zeros(len(logits)))


def softmax(logits):
    weight = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


def without(logits, labels, *absent):
    rows = ~np.isin(labels, absent)
    return logits[rows], labels[rows]


def few(n, n_classes):
    return tuple(part[:n] for part in simulate(300, n_classes))


PLAIN = simulate(300, 6)
SPLITS = {
    "plain": PLAIN,
    "missing classes": without(*PLAIN, 1, 5),
    "ten samples": few(10, 6),
    "ten samples, 40 classes": few(10, 40),
    "two classes": simulate(200, 2),
    "two classes, ten samples": few(10, 2),
    "all right": (PLAIN[0], PLAIN[0].argmax(axis=1)),
    "all wrong": (PLAIN[0], PLAIN[0].argmin(axis=1)),
    "one class only": (PLAIN[0], np.full(300, 2)),
    "one of two classes": (simulate(200, 2)[0], np.ones(200, dtype=int)),
    "float32": (PLAIN[0].astype(np.float32), PLAIN[1]),
    "saturated": (PLAIN[0] * 1e6, PLAIN[1]),
}


@pytest.mark.parametrize("name", SPLITS)
def test_every_split_gives_probabilities(peer, name):
    logits, labels = SPLITS[name]
    fit = fit_peer(as_split(logits, labels), peer=peer)
    assert not fit.flags  # no peer fails on these by itself
    assert fit.counts == (len(labels),)
    test = simulate(100, logits.shape[1], seed=1)[0]
    proba = apply(fit, test)
    assert (proba.dtype, proba.shape) == (np.float64, test.shape)
    assert np.isfinite(proba).all()
    assert proba.min() >= 0
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=0, atol=1e-14)


@pytest.mark.parametrize("n_classes", [2, 5, 40])
def test_rows_do_not_depend_on_their_batch(peer, n_classes):
    fit = fit_peer(as_split(*simulate(200, n_classes)), peer=peer)
    test = simulate(50, n_classes, seed=1)[0]
    whole = apply(fit, test)
    alone = np.concatenate([apply(fit, test[row : row + 1]) for row in range(50)])
    # Bitwise here for all but sms, whose matrix product rounds by the shape of the batch.
    np.testing.assert_allclose(whole, alone, rtol=0, atol=1e-12)
    np.testing.assert_allclose(whole[13:], apply(fit, test[13:]), rtol=0, atol=1e-12)


def global_states():
    generator = np.random.get_state()  # noqa: NPY002 - the global state is what is tested
    states = [generator[1].tobytes(), generator[2]]
    torch = sys.modules.get("torch")
    if torch is not None:
        states += [torch.get_rng_state().numpy().tobytes(), torch.get_num_threads()]
    return states


def test_fit_depends_on_the_split_alone_and_leaves_random_states(peer):
    logits, labels = without(*PLAIN, 1)
    results = []
    for seed in (1, 2):
        np.random.seed(seed)  # noqa: NPY002
        if "torch" in sys.modules:
            sys.modules["torch"].manual_seed(seed)
        before = global_states()
        results.append(apply(fit_peer(as_split(logits, labels), peer=peer), PLAIN[0]))
        assert global_states() == before
    np.testing.assert_array_equal(*results)


FIRST_IMPORT = """
import logging, warnings
import numpy as np
from test_peers import PEERS, PLAIN, apply, as_split, fit_peer, without
from smallcal.errors import MissingExtraError

def state():
    return np.geterr(), np.random.get_state()[2], logging.root.manager.disable, warnings.filters[:]

logging.basicConfig(level=0)
np.random.seed(0)
before = state()
for name in PEERS:
    try:
        apply(fit_peer(as_split(*without(*PLAIN, 1)), peer=name), PLAIN[0])
    except MissingExtraError:
        pass
assert state() == before, (before, state())
"""


def test_first_import_is_silent_and_changes_no_setting():
    """In a process of its own, because a package sets things once, when it is imported."""
    here = Path(__file__).parent
    paths = os.pathsep.join([str(here), str(here.parents[1]), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FIRST_IMPORT],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_prints_warnings_and_log_records_are_kept_from_the_caller(monkeypatch, capfd, caplog):
    def noisy(logits):
        print("progress")  # noqa: T201 - the noise that is tested
        print("progress", file=sys.stderr)  # noqa: T201
        warnings.warn("careful", stacklevel=1)
        logging.getLogger("noisy").error("noise")
        return np.ones(logits.shape) / np.zeros(1)

    monkeypatch.setattr(peers, "PEERS", {"noisy": Peer("math", lambda *_: (noisy, 1))})
    fit = fit_peer(as_split(*PLAIN), peer="noisy")
    # Its rows are infinite, so they become the model's own.
    np.testing.assert_allclose(apply(fit, PLAIN[0]), softmax(PLAIN[0]), rtol=1e-14)
    assert capfd.readouterr() == ("", "")
    assert not caplog.records
    logging.getLogger("noisy").error("heard again")
    assert caplog.messages == ["heard again"]


@pytest.mark.parametrize(
    "bad", [[0, 0, 0], [np.nan, 0.5, 0.5], [np.inf, 0, 0], [-0.1, 0.6, 0.5]], ids=str
)
def test_unusable_rows_become_the_models_own(bad):
    def fixed(logits):
        return np.array([[1, 1, 2], bad])

    logits = np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])
    proba = PeerMap("probmetrics:svs", fixed, 0).probabilities(logits, np.zeros(2))
    np.testing.assert_allclose(proba, [[0.25, 0.25, 0.5], softmax(logits)[1]], rtol=1e-15)


@pytest.mark.parametrize("when", ["fit", "predict"])
def test_a_peer_that_raises_gives_way_to_one_temperature(monkeypatch, when):
    def fit(module, split):
        return (lambda logits: 1 / 0, 1) if when == "predict" else 1 / 0

    monkeypatch.setattr(peers, "PEERS", {"failing": Peer("math", fit)})
    split = as_split(*PLAIN)
    result = fit_peer(split, peer="failing")
    assert result.map == ScalarMap(split.pooled.value)
    assert (result.counts, result.flags) == ((300,), {"scalar_fallback": []})


@pytest.mark.parametrize("name", PEERS)
def test_a_missing_package_is_one_line_that_says_what_to_install(monkeypatch, name):
    monkeypatch.setitem(sys.modules, PEERS[name].module, None)
    needed = f"the peer '{name}' needs the package '{name.partition(':')[0]}'"
    line = f"^{re.escape(needed)}: pip install 'smallcal-lab\\[peers\\]'$"
    with pytest.raises(MissingExtraError, match=line):
        fit_peer(as_split(*PLAIN), peer=name)


def test_a_package_that_lacks_one_of_its_own_names_that_one(monkeypatch):
    def without_numba(module):
        raise ModuleNotFoundError("No module named 'numba'", name="numba")

    monkeypatch.setattr(peers, "import_module", without_numba)
    with pytest.raises(MissingExtraError, match="'probmetrics:svs' needs the package 'numba'"):
        fit_peer(as_split(*PLAIN), peer="probmetrics:svs")


def test_unknown_peers_are_refused_with_the_choices():
    with pytest.raises(InputError, match="unknown peer 'platt'; choose from probmetrics:svs, "):
        fit_peer(as_split(*PLAIN), peer="platt")


def test_weights_are_refused(peer):
    weight = np.random.default_rng(0).integers(1, 4, size=300)
    split = as_split(*PLAIN, weight=weight)
    with pytest.raises(InputError, match=f"{peer}' cannot weigh samples"):
        fit_peer(split, peer=peer)


def test_what_a_peer_map_says_of_itself_and_that_it_pickles(peer):
    fitted = fit_peer(as_split(*PLAIN), peer=peer).map
    assert (fitted.kind, fitted.name, fitted.saved) == ("peer", peer, False)
    assert fitted.preserves_argmax == (peer == "probmetrics:ts-mix")
    copied, scores = pickle.loads(pickle.dumps(fitted)), np.zeros(300)
    expected = fitted.probabilities(PLAIN[0], scores)
    np.testing.assert_array_equal(copied.probabilities(PLAIN[0], scores), expected)


@pytest.mark.parametrize(
    ("peer", "count"),
    [
        ("probmetrics:ts-mix", 1),
        ("probmetrics:svs", 1 + 6 + 6),
        ("probmetrics:sms", 1 + 36 + 6),
    ],
)
def test_parameter_counts(peer, count):
    load(PEERS[peer].module)
    assert fit_peer(as_split(*PLAIN), peer=peer).map.n_parameters == count


def test_step_functions_count_their_levels():
    logits = np.array([[2.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 2.0]] * 5)
    split = as_split(logits, [0, 0, 1, 1] * 5)
    load("venn_abers.venn_abers")
    # Two bounds at each score.
    assert fit_peer(split, peer="venn-abers:classwise").map.n_parameters > 3


def test_only_rounding_could_change_the_argmax_of_ts_mix():
    load("probmetrics.calibrators")
    fit = fit_peer(as_split(PLAIN[0], PLAIN[0].argmin(axis=1)), peer="probmetrics:ts-mix")
    logits = np.random.default_rng(0).normal(size=(200, 6)) * 1e-9  # ties, at a temperature of e^16
    assert (apply(fit, logits).argmax(axis=1) == logits.argmax(axis=1)).all()


# Each package by hand, on the same numbers.


def quietly(function, *args, **kwargs):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return function(*args, **kwargs)


def arrays(n_classes):
    return (*simulate(400, n_classes), simulate(150, n_classes, seed=1)[0])


@pytest.mark.parametrize("method", ["ts-mix", "svs", "sms"])
@pytest.mark.parametrize("n_classes", [2, 8])
def test_probmetrics_by_hand(method, n_classes):
    module, torch = load("probmetrics.calibrators"), load("torch")
    wrap = load("probmetrics.distributions").CategoricalLogits
    logits, labels, test = arrays(n_classes)
    ours = apply(fit_peer(as_split(logits, labels), peer=f"probmetrics:{method}"), test)
    theirs = module.get_calibrator(method)
    quietly(theirs.fit_torch, wrap(torch.as_tensor(logits)), torch.as_tensor(labels))
    proba = theirs.predict_proba_torch(wrap(torch.as_tensor(test))).get_probs().numpy()
    np.testing.assert_allclose(ours, proba / proba.sum(axis=1, keepdims=True), rtol=0, atol=1e-12)
    # Its NumPy interface sees probabilities; where none is tiny they say the same.
    theirs = quietly(module.get_calibrator(method).fit, softmax(logits), labels)
    np.testing.assert_allclose(ours, theirs.predict_proba(softmax(test)), rtol=0, atol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 8])
def test_venn_abers_by_hand(n_classes):
    module = load("venn_abers.venn_abers")
    logits, labels, test = arrays(n_classes)
    theirs = quietly(
        module.VennAbersCalibrator().predict_proba,
        p_cal=softmax(logits),
        y_cal=labels,
        p_test=softmax(test),
        va_type="one_vs_rest",
    )
    ours = apply(fit_peer(as_split(logits, labels), peer="venn-abers:classwise"), test)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


def test_a_missing_class_keeps_the_models_column():
    name, module = "venn-abers:classwise", load("venn_abers.venn_abers")
    logits, labels = without(*PLAIN, 4)
    own, test = softmax(logits), simulate(100, 6, seed=1)[0]
    expected = softmax(test)
    for label in (0, 1, 2, 3, 5):
        hit = (labels == label).astype(int)
        pairs = [np.column_stack((1 - p, p)) for p in (own[:, label], expected[:, label])]
        both = quietly(
            module.VennAbersCalibrator().predict_proba, p_cal=pairs[0], y_cal=hit, p_test=pairs[1]
        )
        expected[:, label] = both[:, 1]
    expected /= expected.sum(axis=1, keepdims=True)
    ours = apply(fit_peer(as_split(logits, labels), peer=name), test)
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-12)
    # With one class only, every column is the model's.
    fit = fit_peer(as_split(PLAIN[0], np.full(300, 2)), peer=name)
    np.testing.assert_allclose(apply(fit, test), softmax(test), rtol=1e-14)
