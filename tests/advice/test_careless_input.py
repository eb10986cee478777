"""Inputs that a careless day produces, for every verb that has to say something about them."""

import json
import re

import numpy as np
import pytest

from smallcal.data.special import softmax
from support.simulated import simulate


def drawn(z, rng):
    steps = softmax(z).cumsum(axis=1)
    return (steps > steps[:, -1:] * rng.random((len(z), 1))).argmax(axis=1)


def nasty():
    """Name each split, with what the verbs may answer: words to find, or a refusal."""
    rng = np.random.default_rng(0)
    z, y = simulate(300, 6)
    top = z.argmax(axis=1)
    two, labels = simulate(300, 2)
    many = 3 * rng.normal(size=(100, 1000))
    honest = 2.5 * rng.normal(size=(400, 6))
    lonely = np.where(top == 5, y, top)  # nearly all right, class 5 never a label
    return {
        "no errors": (z, top),
        "all errors": (z, (top + 1) % 6),
        "one error": (z, np.r_[(top[0] + 1) % 6, top[1:]]),
        "twenty samples": (z[:20], y[:20]),
        "two classes": (two, labels),
        "a thousand classes": (many, np.where(rng.random(100) < 0.6, many.argmax(axis=1), 7)),
        "constant logits": (np.ones((300, 6)), y),
        "already calibrated": (honest, drawn(honest, rng)),
        "a missing class": (z, np.where(lonely == 5, 0, lonely)),
        "huge logits": (z * 1e4, y),
        "half precision": (z.astype(np.float16), y),
        "every row twice": (np.tile(z[:150], (2, 1)), np.tile(y[:150], 2)),
        "rows all alike": (np.tile(z[:1], (300, 1)), y),
        "not a number": (np.where(np.arange(6) == 2, np.nan, z), y),
    }


#: Splits that every verb must refuse, with words of the reason.
REFUSED = {"constant logits": "constant", "not a number": "nan"}

COMMANDS = {
    "select": ["--candidates", "none,tva-ts,signal-linear,srts-bce", "--repeats", "2"],
    "audit": ["--n-refits", "8", "--n-null", "49"],
    "plan": ["--draws", "5", "--sizes", "100,400"],
    "fit": [],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", nasty())
@pytest.mark.parametrize("verb", COMMANDS)
def test_a_nasty_split_gets_words_and_no_traceback(verb, name, cli, tmp_path):
    z, y = nasty()[name]
    file = tmp_path / "nasty.npz"
    np.savez(file, logits=z, labels=y)
    code, out, err = cli(verb, str(file), *COMMANDS[verb])
    assert "Traceback" not in err
    if name in REFUSED:
        assert code == 2
        assert REFUSED[name] in err.lower()
    if code == 2:  # one line, which names the file or says what to do
        assert err.startswith("smallcal: error: ")
        assert len(err.strip().splitlines()) == 1
        return
    assert code == 0
    assert not re.search(r"\bnan\b|\binf\b", out, re.IGNORECASE)
    assert len(out.splitlines()) >= 3
    document = cli(verb, str(file), *COMMANDS[verb], "--json")[1]
    assert json.loads(document)


def said(cli, tmp_path, verb, name):
    z, y = nasty()[name]
    file = tmp_path / "nasty.npz"
    np.savez(file, logits=z, labels=y)
    code, out, err = cli(verb, str(file), *COMMANDS[verb])
    assert code == 0
    return " ".join((out + err).split())


@pytest.mark.parametrize("name", ["no errors", "already calibrated"])
def test_select_keeps_the_raw_model_where_nothing_speaks_against_it(name, cli, tmp_path):
    text = said(cli, tmp_path, "select", name)
    assert "Choice: none" in text
    assert "keep the uncalibrated model" in text


def test_fit_says_where_there_is_nothing_to_learn_from(cli, tmp_path):
    text = said(cli, tmp_path, "fit", "no errors")
    assert "one_sided: fewer than two predictions are right, or fewer than two wrong" in text
    assert "No flags" not in text
