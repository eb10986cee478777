"""JSON of our own: read in bounded time and memory, or refused in one line."""

import json
import os
import sys
import time

import numpy as np
import pytest

import smallcal as sc
from smallcal import cli
from smallcal.deploy.monitor.state import State
from smallcal.errors import FileError
from smallcal.io.documents import MAX_DEPTH, parse_document, read_document, shown
from smallcal.io.resumable import read_manifest
from smallcal_lab.studies.reproduce.frozen import require_unchanged
from smallcal_lab.studies.reproduce.reference import load_reference

#: Whoever reads JSON that smallcal wrote, and the error of each.
READERS = {
    "calibrator": (sc.load, sc.ArtefactError),
    "state": (State.load, sc.ArtefactError),
    "manifest": (read_manifest, FileError),
    "reference": (load_reference, FileError),
}

BAD_TEXTS = {
    "nothing": ("", "is not a JSON document"),
    "half": ('{"a": ', "is not a JSON document"),
    "NaN": ('{"a": NaN}', "JSON does not allow the number NaN"),
    "infinity": ('{"a": [-Infinity]}', "JSON does not allow the number -Infinity"),
    "beyond floats": ('{"a": [1, 1e999]}', "a number beyond 1.8e308"),
    "beyond floats, whole": ('{"a": ' + "9" * 400 + "}", "has 400 digits"),
    "very many digits": ('{"a": ' + "9" * 100_000 + "}", "has 100000 digits"),
    "a key twice": ('{"a": {"b": 1, "c": 2, "b": 3}}', "the key 'b' appears twice"),
    "deep": ('{"a": ' + "[" * 300 + "]" * 300 + "}", "nested more than 32 levels deep"),
    "deeper": ("[" * 100_000, "nested more than 32 levels deep"),
    "objects, deep": ('{"a":' * 300 + "1" + "}" * 300, "nested more than 32 levels deep"),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("bad", BAD_TEXTS)
def test_a_bad_text_is_one_line_for_whoever_reads_it(tmp_path, reader, bad):
    read, error = READERS[reader]
    text, message = BAD_TEXTS[bad]
    file = tmp_path / "a.json"
    file.write_text(text)
    with pytest.raises(error) as caught:
        read(file)
    assert message in str(caught.value)
    assert str(file) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 400


def pipe(folder):
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def folder_of(folder):
    return folder


NO_FILES = {
    "a pipe": (pipe, "it is a pipe, not a file"),
    "a device": (lambda _: "/dev/zero", "it is a device, not a file"),
    "a folder": (folder_of, "it is a folder, not a file"),
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a POSIX system")
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("sort", NO_FILES)
def test_what_is_no_file_is_never_opened(tmp_path, reader, sort):
    read, error = READERS[reader]
    make, message = NO_FILES[sort]
    path = make(tmp_path)
    if reader == "manifest":
        read, path = (lambda file: read_manifest(type(tmp_path)(file))), str(path)
    start = time.perf_counter()
    with pytest.raises(error, match=message):
        read(path)
    assert time.perf_counter() - start < 5


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="a POSIX system")
@pytest.mark.parametrize(
    "verb",
    [
        ["inspect", "{}"],
        ["export", "{}", "--to", "python"],
        ["apply", "{}", "z.npy", "-o", "p.npy"],
    ],
)
@pytest.mark.parametrize("path", ["/dev/zero", "pipe", ".", "huge.json", "a\0b", "x" * 5000])
def test_the_command_line_says_it_in_a_line(tmp_path, monkeypatch, capsys, verb, path):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with open("huge.json", "wb") as huge:
        huge.truncate(10**12)  # a terabyte of nothing
    np.save("z.npy", np.eye(3))
    assert cli.run([word.format(path) for word in verb]) == 2
    said = capsys.readouterr().err
    assert said.startswith("smallcal: error: ")
    assert len(said.splitlines()) == 1


def test_a_file_that_grows_while_it_is_read_is_cut_off(tmp_path):
    file = tmp_path / "a.json"
    file.write_text("[1]")
    with pytest.raises(sc.ArtefactError, match="a state is never larger than 2e-06 MB"):
        read_document(file, most=2, what="state")
    if os.path.exists("/proc/self/smaps"):  # says that it is empty, and is not
        with pytest.raises(sc.ArtefactError, match="never larger than"):
            read_document("/proc/self/smaps", most=1000, what="state")


def test_a_name_that_no_file_can_have(tmp_path):
    with pytest.raises(sc.ArtefactError, match="cannot read"):
        sc.load("a\0b")
    with pytest.raises(sc.ArtefactError, match="cannot read"):
        sc.load(tmp_path / ("x" * 5000))


def test_what_is_allowed_is_read_as_it_stands():
    deep = "[" * MAX_DEPTH + "1.5" + "]" * MAX_DEPTH
    assert str(parse_document(deep, source="it")).count("[") == MAX_DEPTH
    document = {"a": [1, -2.5, "é", None, True], "b": {"": {}}, "c": 10**299}
    assert parse_document(json.dumps(document), source="it") == document


def test_lists_without_end_are_counted_before_they_are_made():
    with pytest.raises(sc.ArtefactError, match="more than 1,000,000 lists and objects"):
        parse_document("[" + "[]," * 1_000_001 + "1]", source="it")


def test_a_document_deep_in_the_stack_is_refused_the_same_way():
    def called(depth):
        return called(depth - 1) if depth else parse_document("[" * 500, source="it")

    with pytest.raises(sc.ArtefactError, match="nested"):
        called(sys.getrecursionlimit() - 400)


def test_values_in_errors_are_short_whatever_they_are():
    assert shown(10**5000) == "a number of 5001 digits"
    assert len(shown([1.5] * 1000)) == 60
    assert len(shown("é" * 10**6)) == 60


def test_checksums_that_are_no_object_are_refused(tmp_path):
    (tmp_path / "checksums.json").write_text("[1]")
    with pytest.raises(FileError, match="is not a list of checksums"):
        require_unchanged(tmp_path)
