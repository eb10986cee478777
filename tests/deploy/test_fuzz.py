"""Damaged states of a monitor: taken in or refused in one line, and never changed by a refusal."""

from __future__ import annotations

import copy
import json
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smallcal as sc
from support.fuzzing import command, thrown
from support.simulated import simulate

Z, Y = simulate(400, 5, seed=1)
NEW, ANSWERS = simulate(300, 5, seed=2)

HOSTILE = st.one_of(
    st.sampled_from([0, -1, 1, 1e308, -1e308, 5e-324, 2**31, 2**63, 2**64, True, None]),
    st.sampled_from([10**300, 10**400, -(10**400)]),
    st.sampled_from([[], {}, [[]], [0] * 50, "", "x", "\x1b[2J", "\ud800", "9" * 50, [None]]),
    # Rows of a table of classes.
    st.lists(st.sampled_from([0, 1, 100, 10**12, -1]), max_size=6).map(
        lambda row: " ".join(map(str, row))
    ),
    st.floats(),
    st.integers(-(10**20), 10**20),
)


@cache
def kept(method):
    """A calibrator and the state of its monitor, as texts."""
    cal = sc.make(method).fit(Z, Y)
    monitor = sc.Monitor(cal)
    monitor.update(NEW, ANSWERS)
    return json.dumps(cal.to_dict()), json.dumps(monitor.to_dict())


def places(node, path=()):
    entries = node.items() if isinstance(node, dict) else ()
    entries = enumerate(node) if isinstance(node, list) else entries
    for key, child in entries:
        yield (*path, key)
        yield from places(child, (*path, key))


def watched(method, text):
    """Look at a state and add to it; give the codes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "cal.json").write_text(kept(method)[0])
        (folder / "state.json").write_bytes(text)
        np.savez(folder / "new.npz", logits=NEW, labels=ANSWERS)
        state = folder / "state.json"
        looks = [command("monitor", folder / "cal.json", "--state", state, folder=folder)]
        looks.append(command("monitor", folder / "cal.json", "--merge", state, "--json"))
        before = state.read_bytes()
        own = [state, folder / "state.json.lock", folder / ".state.json.lock"]
        looks.append(
            command(
                *("monitor", folder / "cal.json", folder / "new.npz", "--state", state),
                folder=folder,
                outputs=own,
            )
        )
        if looks[-1][0] == 2:
            assert state.read_bytes() == before
        else:
            json.loads(state.read_text())
        return [code for code, _, _ in looks]


@pytest.mark.parametrize("method", ["ts-nll", "srts-bce"])
@thrown(40)
@given(data=st.data())
def test_a_state_with_other_values_is_taken_or_refused(method, data):
    document = json.loads(kept(method)[1])
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(list(places(document))))
        node = document
        for key in path[:-1]:
            node = node[key]
        way = data.draw(st.sampled_from(["put", "put", "drop", "double"]))
        if way == "put":
            node[path[-1]] = copy.deepcopy(data.draw(HOSTILE))
        elif way == "drop":
            del node[path[-1]]
        elif isinstance(node, list):
            node.append(copy.deepcopy(node[path[-1]]))
        else:
            node[f"{path[-1]}x"] = copy.deepcopy(node[path[-1]])
    first, second, third = watched(method, json.dumps(document).encode())
    assert (first == 2) == (second == 2)
    assert first != 2 or third == 2


@thrown(30)
@given(
    edits=st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=5),
    keep=st.one_of(st.just(1.0), st.floats(0.01, 1.0)),
)
def test_a_state_of_damaged_bytes_is_taken_or_refused(edits, keep):
    text = bytearray(kept("srts-bce")[1].encode())
    for place, value in edits:
        text[place % len(text)] = value
    watched("srts-bce", bytes(text[: max(1, int(keep * len(text)))]))


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b"{}", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_state_is_refused(content):
    assert watched("ts-nll", content) == [2, 2, 2]
