"""Odd names and odd paths through every verb: one line where it cannot be, no harm where it can."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smallcal.io import write_arrays
from support.fuzzing import command, standing_in, thrown
from support.nasty_names import NASTY, ODD_NAMES, RAW
from support.simulated import simulate

N, CLASSES = 90, 4
Z, Y = simulate(N, CLASSES, seed=3)

NAME = st.one_of(
    st.sampled_from([*NASTY, *ODD_NAMES.values()]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
)
NAMES = st.lists(NAME, min_size=CLASSES, max_size=CLASSES)


def written(file, names):
    """Write samples whose labels are names; whether that was possible."""
    with contextlib.suppress(ValueError):
        words = np.array(names)[Y]
        write_arrays(file, {"logits": Z, "labels": words, "class_names": np.array(names)})
        return True
    return False


def through_all(suffix, names):
    """Fit, apply, evaluate, report, export and watch with these classes."""
    with standing_in() as folder:
        data = f"a{suffix}"
        if not written(data, names):
            return
        fit = ["fit", data, "-o", "cal.json", "--method", "ts-nll"]
        code, _, err = command(*fit, folder=folder, outputs=[folder / "cal.json"])
        if code == 2:
            assert len(set(names)) < len(names) or "letters" in err or "NUL" in err, err
            return
        told = json.loads(Path("cal.json").read_text())["class_names"]
        # An array of text drops a NUL at the end of a name before it is written.
        assert told is None or told == np.array(names).tolist()
        for target in ("p.csv", "p.jsonl", "p.npz", "p.parquet"):
            made = command("apply", "cal.json", data, "-o", target)
            assert made[0] == 0, made
            again = command("evaluate", target, "--force", "--n-boot", "0")
            assert again[0] == 0, again
        for args in (
            ["inspect", "cal.json"],
            ["inspect", "cal.json", "--json"],
            ["evaluate", data, "--calibrator", "cal.json", "--n-boot", "0", "--json"],
            ["monitor", "cal.json", data, "--state", "state.json", "--prometheus"],
            ["certify", "cal.json", data, "--cross", "--by", "class", "--risk", "0.6", "--force"],
            ["certify", "cal.json", data, "--cross", "--risk", "60%", "--force", "--json"],
            ["export", "cal.json", "--to", "python"],
            ["export", "cal.json", "--to", "sql"],
        ):
            found = command(*args)
            assert found[0] in (0, 1), found
            if "--json" in args:
                json.loads(found[1])
            if args[-1] == "python":
                exec(found[1], {"__name__": "exported"})


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".parquet", ".jsonl"])
@thrown(4, shrink=False)
@given(names=NAMES)
def test_any_names_of_classes_through_all_verbs(suffix, names):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow", reason=".parquet needs pyarrow")
    pytest.importorskip("pyarrow", reason="one of the outputs is .parquet")
    through_all(suffix, names)


@thrown(1, shrink=False)
@given(names=NAMES, title=NAME)
def test_any_names_in_a_report(names, title):
    pytest.importorskip("matplotlib", reason="a page needs matplotlib")
    pytest.importorskip("jinja2", reason="a page needs jinja2")
    with standing_in() as folder:
        if len(set(names)) < len(names) or not written("a.npz", names):
            return
        for target in ("r.html", "r.md"):
            args = ["report", "a.npz", "a.npz", "-o", target, "--n-boot", "100", "--methods"]
            code, _, err = command(*args, "none,ts-nll", "--title", title)
            assert code in (0, 1) or "letters" in err or "NUL" in err, err
            if code < 2:
                assert not RAW.search(Path(target).read_text(encoding="utf-8")), names
        assert sorted(path.name for path in folder.iterdir() if path.name.startswith(".")) == []


#: A device like /dev/null: that one is the machine's, and a defect would replace it.
NULL = "null"


def _is_within(name):
    """Whether nothing can be written elsewhere by this name: fuzzers leave the machine alone."""
    return not os.path.isabs(name) and (name == ".." or ".." not in Path(name).parts)


def _make_null():
    try:
        os.mknod(NULL, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except OSError:  # only root may, and nobody else could replace what is linked to
        os.symlink(os.devnull, NULL)


PATH_NAMES = st.one_of(
    st.sampled_from(["-", "--", "-x.npz", "--help", " ", "  a .npz", "a\nb.npz", "\x1b[2J.npz"]),
    st.sampled_from(["a:b.npz", "a.npz:val", "a.npz:", ":val", "~", "a.npz:/x", "b.h5:x/y", "..."]),
    st.sampled_from(
        ["x" * 255, "x" * 300 + ".npz", "a/" * 600 + "b.npz", "é.npz", "a.NPZ", "a.gz"]
    ),
    st.sampled_from(["a.npz/", "folder", "folder/", "folder.npz", "gone/a.npz", ".", "..", ""]),
    st.sampled_from([os.fsdecode(b"\xff\xfe.npz"), os.fsdecode(b"\x80.csv"), "*.npz"]),
    st.sampled_from([NULL, "a.json", "a.csv", "a.parquet", "a.npy", "a.html", "a.npz"]),
    st.text(max_size=8),
    st.text(max_size=4).map(lambda text: f"{text}.npz"),
).filter(lambda name: "\0" not in name and _is_within(name))  # no shell types NUL


@contextlib.contextmanager
def furnished(name):
    """Stand in a folder with samples, a calibrator, an odd file and folders."""
    with standing_in() as above:
        folder = above / "here"  # what is written to .. is gone in the end too
        folder.mkdir()
        os.chdir(folder)
        np.savez("good.npz", logits=Z, labels=Y)
        Path("cal.json").write_text(CALIBRATOR)
        for place in ("folder", "folder.npz"):
            Path(place).mkdir()
        _make_null()
        with contextlib.suppress(OSError, ValueError):
            if not os.path.isabs(name) and ".." not in Path(name).parts and name:
                Path(name).parent.mkdir(parents=True, exist_ok=True)
                if not Path(name).exists():
                    Path(name).write_bytes(Path("good.npz").read_bytes())
        yield folder


def _calibrator():
    import smallcal as sc

    with tempfile.TemporaryDirectory() as folder:
        sc.make("ts-nll").fit(Z, Y).save(Path(folder) / "cal.json")
        return (Path(folder) / "cal.json").read_text()


CALIBRATOR = _calibrator()


NO_BOOT = ("--n-boot", "0")
#: Commands; the question mark is where the path goes.
COMMANDS = [
    ["fit", "?", "-o", "new.json"],
    ["fit", "good.npz", "-o", "?"],
    ["fit", "good.npz", "--class-names", "?"],
    ["fit", "good.npz", "--columns", "?"],
    ["fit", "good.npz", "--logits-key", "?"],
    ["apply", "cal.json", "?", "-o", "p.npz"],
    ["apply", "cal.json", "good.npz", "-o", "?"],
    ["apply", "?", "good.npz", "-o", "p.npz"],
    ["evaluate", "?", *NO_BOOT],
    ["evaluate", "good.npz", "--labels", "?", *NO_BOOT],
    ["evaluate", "good.npz", "--fail-if", "?", *NO_BOOT],
    ["inspect", "?"],
    ["export", "cal.json", "-o", "?"],
    ["export", "?", "--to", "sql"],
    ["monitor", "cal.json", "good.npz", "--state", "?"],
    ["monitor", "cal.json", "--merge", "?"],
    ["certify", "?", "good.npz", "--risk", "50%"],
    ["certify", "cal.json", "?", "--risk", "50%", "-o", "new.json"],
    ["certify", "cal.json", "good.npz", "--cross", "--risk", "50%", "-o", "?"],
    ["certify", "cal.json", "good.npz", "--cross", "--by", "?"],
    ["certify", "cal.json", "good.npz", "--cross", "--risk", "?"],
    ["report", "?", "gone.npz", "-o", "r.md"],
    ["compare", "good.npz", "?", "--methods", "none", "--n-boot", "100"],
    ["study", "check", "?"],
    ["study", "show", "?"],
    ["study", "budget", "?", "--out", "run"],
    ["study", "import", "?", "-o", "made"],
    ["study", "import", "folder", "-o", "?"],
    ["demo", "--export", "?"],
    ["help", "?"],
    ["?"],
]


@thrown(80, shrink=False)
@given(name=PATH_NAMES, verb=st.sampled_from(COMMANDS))
def test_any_path_at_every_place(name, verb):
    with furnished(name) as folder:
        before = {path for path in folder.rglob("*") if path.is_file()}
        kept = {path: path.read_bytes() for path in before}
        words = [name if word == "?" else word for word in verb]
        code, out, _ = command(*words)
        for path in before:
            asked = "-o" in verb or "--state" in verb
            if not asked or code == 2:
                assert path.read_bytes() == kept[path], path
        left = [path for path in folder.rglob(".*") if path not in before and path.is_file()]
        assert [path.name for path in left if path.name != ".lock"] == []
        assert stat.S_ISCHR(os.stat(NULL).st_mode)
        assert code != 2 or out == ""
