"""Every reader: what it gives back, how it chooses, and what it says when it cannot."""

from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from smallcal import FileError, InputError
from smallcal.io import READERS, WRITERS, read, read_names, splits, write_arrays
from smallcal.io import readers as readers_module
from support.refused import refused

NEEDS = {
    ".parquet": "pyarrow",
    ".safetensors": "safetensors",
    ".pt": "torch",
    ".pth": "torch",
    ".h5": "h5py",
    ".hdf5": "h5py",
    ".arrow": "pyarrow",
    ".feather": "pyarrow",
    ".ipc": "pyarrow",
}
TEXT = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".jsonl", ".jsonl.gz", ".ndjson")
TABLES = (*TEXT, ".parquet", ".arrow", ".feather", ".ipc")
CONTAINERS = tuple(suffix for suffix in WRITERS if suffix not in (*TABLES, ".npy"))


def need(suffix: str) -> None:
    if suffix in NEEDS:
        pytest.importorskip(NEEDS[suffix], reason=f"{suffix} needs {NEEDS[suffix]}")


@pytest.fixture
def logits() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)


@pytest.fixture
def labels() -> np.ndarray:
    return np.arange(12) % 3


def test_every_type_that_is_read_can_be_written():
    assert set(READERS) == set(WRITERS)


@pytest.mark.parametrize("suffix", WRITERS)
def test_what_is_written_reads_back_equal(suffix, tmp_path, logits, labels):
    need(suffix)
    file = tmp_path / f"a{suffix}"
    names = np.array(["ant", "bee", "çat"])
    write_arrays(file, {"logits": logits, "labels": labels, "class_names": names})
    loaded = read(file)
    assert loaded.input == "logits"
    assert loaded.source == str(file)
    np.testing.assert_array_equal(loaded.logits.astype(np.float32), logits)
    if suffix == ".npy":
        assert loaded.labels is None
        assert isinstance(loaded.logits.base, np.memmap)
        return
    np.testing.assert_array_equal(loaded.labels, labels)
    assert loaded.class_names == ("ant", "bee", "çat")


@pytest.mark.parametrize("suffix", [s for s in WRITERS if s != ".npy"])
def test_probabilities_are_known_by_their_name(suffix, tmp_path):
    need(suffix)
    file = tmp_path / f"a{suffix}"
    write_arrays(file, {"probabilities": np.full((4, 2), 0.5), "temperature": np.ones(4)})
    loaded = read(file)
    assert (loaded.input, loaded.logits.shape, loaded.class_names) == (
        "probabilities",
        (4, 2),
        None,
    )


@pytest.mark.parametrize("suffix", CONTAINERS)
def test_a_prefix_chooses_the_split(suffix, tmp_path, logits, labels):
    need(suffix)
    file = tmp_path / f"a{suffix}"
    write_arrays(
        file,
        {
            "val_logits": logits,
            "val_labels": labels,
            "logits_test": logits[:5],
            "y_test": labels[:5],
        },
    )
    assert len(read(f"{file}:val").logits) == 12
    assert len(read(f"{file}:test").labels) == 5
    assert set(splits(file)) == {"val", "test"}
    with pytest.raises(FileError, match=rf"several splits; choose one: .*a{suffix}:(val|test), "):
        read(file)
    with refused("file-column", "'train'"):
        read(f"{file}:train")


def test_a_file_without_prefixes_says_so(tmp_path, logits):
    np.savez(tmp_path / "a.npz", logits=logits)
    with refused("file-column"):
        read(f"{tmp_path / 'a.npz'}:val")


def test_a_colon_in_a_file_name_is_not_a_prefix(tmp_path, logits):
    np.savez(tmp_path / "a.npz:val.npz", logits=logits)
    assert read(tmp_path / "a.npz:val.npz").logits.shape == (12, 3)


def test_the_calarena_layout_holds_probabilities(tmp_path, labels):
    need(".h5")
    p = np.full((12, 3), 1 / 3)
    file = tmp_path / "cell.h5"
    write_arrays(
        file, {"probas_cal": p, "labels_cal": labels, "probas_test": p, "labels_test": labels}
    )
    loaded = read(f"{file}:test")
    assert loaded.input == "probabilities"
    np.testing.assert_array_equal(loaded.labels, labels)


def test_the_caller_may_choose_probabilities_beside_logits(tmp_path, logits):
    np.savez(tmp_path / "a.npz", logits=logits, probs=np.full((12, 3), 1 / 3))
    assert read(tmp_path / "a.npz").input == "logits"
    chosen = read(tmp_path / "a.npz", input="probabilities")
    assert float(chosen.logits[0, 0]) == 1 / 3
    with pytest.raises(InputError, match="input must be one of logits, probabilities"):
        read(tmp_path / "a.npz", input="odds")


@pytest.mark.parametrize("name", ["y.npy", "y.csv", "y.txt", "y.npz"])
def test_labels_may_come_from_another_file(name, tmp_path, logits, labels):
    np.save(tmp_path / "z.npy", logits)
    file = tmp_path / name
    if file.suffix == ".npy":
        np.save(file, labels)
    elif file.suffix == ".npz":
        np.savez(file, labels=labels, logits=logits)
    else:
        file.write_text("label\n" + "\n".join(map(str, labels)) + "\n")
    np.testing.assert_array_equal(read(tmp_path / "z.npy", labels=file).labels, labels)


def test_labels_may_be_a_column_of_another_table(tmp_path, logits, labels):
    np.save(tmp_path / "z.npy", logits)
    rows = "\n".join(f"{i},{label}" for i, label in enumerate(labels))
    (tmp_path / "y.csv").write_text(f"score,label\n{rows}\n")
    np.testing.assert_array_equal(
        read(tmp_path / "z.npy", labels=tmp_path / "y.csv").labels, labels
    )


def test_a_number_of_labels_that_differs_is_refused(tmp_path, logits):
    np.savez(tmp_path / "a.npz", logits=logits, labels=np.arange(3))
    with refused("rows-differ", "12", "3"):
        read(tmp_path / "a.npz")


def test_labels_that_are_not_there_are_refused(tmp_path, logits):
    np.save(tmp_path / "z.npy", logits)
    np.savez(tmp_path / "y.npz", a=logits, b=logits)
    with refused("no-labels"):
        read(tmp_path / "z.npy", labels=tmp_path / "y.npz")
    np.savez(tmp_path / "y2.npz", val_y=np.arange(2), test_y=np.arange(2))
    with refused("file-ambiguous"):
        read(tmp_path / "z.npy", labels=tmp_path / "y2.npz")


def test_class_names_are_text_as_it_stands(tmp_path):
    (tmp_path / "names.txt").write_text("y\n007\n\ncat, big\n")
    assert read_names(tmp_path / "names.txt") == ("y", "007", "cat, big")


# Tables


def csv(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "t.csv"
    file.write_text(text, encoding="utf-8")
    return file


def test_headers_that_are_words_are_class_names(tmp_path):
    loaded = read(csv(tmp_path, 'cat,"dog, big",label\n1,2,cat\n3,4,"dog, big"\n'))
    assert loaded.class_names == ("cat", "dog, big")
    assert loaded.labels.tolist() == ["cat", "dog, big"]
    assert loaded.logits.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("header", ["0,1", "logit_0,logit_1", "1,2", "class_0,class_1"])
def test_headers_that_are_numbers_are_not(header, tmp_path):
    assert read(csv(tmp_path, f"{header},y\n1,2,0\n")).class_names is None


def test_headers_can_say_what_the_numbers_are(tmp_path):
    loaded = read(csv(tmp_path, "prob_cat,prob_dog,temperature\n0.5,0.5,1\n"))
    assert (loaded.input, loaded.class_names) == ("probabilities", ("cat", "dog"))


def test_a_class_may_be_called_temperature(tmp_path):
    loaded = read(csv(tmp_path, "weather,temperature\n1,2\n"))
    assert loaded.class_names == ("weather", "temperature")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cat,dog,label\n1,2\n", "line 2: 2 columns where the header has 3"),
        ("cat,dog,label\n1,2,0,9\n", "line 2: 4 columns where the header has 3"),
        ("cat,dog\n1,2\n3,x\n", "line 3: column 'dog' must be a number; got 'x'"),
        ("cat,dog\n1,\n", "column 'dog' must be a number; got ''"),
        ("0.5,1.5\n1,2\n", "no header row"),
        ("3,1\n1,2\n", "numbered columns must be in the order 0, 1, 2"),
        ("cat,cat\n1,2\n", "two columns called 'cat'"),
        ("cat,dog,label,y\n1,2,0,0\n", "several label columns, label and y"),
        ("cat;dog\n1;2\n", "column names separated by commas"),
        ("label,\n0,0\n", "no array called logits"),
    ],
)
def test_a_table_that_cannot_be_used_says_where(text, message, tmp_path):
    with pytest.raises(FileError, match=message):
        read(csv(tmp_path, text))


def test_an_index_column_of_pandas_is_not_a_class(tmp_path, logits, labels):
    pd = pytest.importorskip("pandas", reason="writes the frame")
    frame = pd.DataFrame(logits).assign(label=labels)
    frame.to_csv(tmp_path / "f.csv")
    assert read(tmp_path / "f.csv").logits.shape == (12, 3)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:pyarrow")
def test_frames_in_parquet_are_read(tmp_path, logits, labels):
    pd = pytest.importorskip("pandas", reason="writes the frame")
    need(".parquet")
    frame = pd.DataFrame(logits, columns=["a", "b", "c"], index=np.arange(12) * 2)
    names = np.array(["a", "b", "c"])[labels]
    frame.assign(label=pd.Categorical(names)).to_parquet(tmp_path / "f.parquet")
    loaded = read(tmp_path / "f.parquet")
    np.testing.assert_array_equal(loaded.logits, logits)
    assert loaded.labels.tolist() == names.tolist()
    frame = pd.DataFrame({"logits": list(logits), "label": labels})
    frame.to_parquet(tmp_path / "g.parquet")
    loaded = read(tmp_path / "g.parquet")
    np.testing.assert_array_equal(loaded.logits, logits)
    np.testing.assert_array_equal(loaded.labels, labels)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"logits": [[1.0, 2.0], [1.0]]}, "row 0 has 2 numbers, row 1 has 1"),
        ({"a": [1.0, None], "b": [1.0, 2.0]}, "column 'a' has missing values"),
        ({"a": ["x", "y"], "b": [1.0, 2.0]}, "cannot tell whether 'a' is a class.*columns"),
    ],
)
def test_a_parquet_table_that_cannot_be_used_says_where(columns, message, tmp_path):
    need(".parquet")
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    with pytest.raises(FileError, match=message):
        read(tmp_path / "t.parquet")


# Tensors


def test_tuples_tensors_and_bfloat16_are_read(tmp_path, logits, labels):
    torch = pytest.importorskip("torch", reason=".pt needs torch")
    half = torch.tensor(logits).bfloat16()
    torch.save((half, torch.tensor(labels)), tmp_path / "a.pt")
    loaded = read(tmp_path / "a.pt")
    np.testing.assert_array_equal(loaded.logits, half.float().numpy())
    np.testing.assert_array_equal(loaded.labels, labels)
    torch.save(half, tmp_path / "b.pt")
    assert read(tmp_path / "b.pt").labels is None
    torch.save(["half"], tmp_path / "c.pt")
    with refused("file-type"):
        read(tmp_path / "c.pt")


def test_bfloat16_safetensors_are_read(tmp_path, logits):
    torch = pytest.importorskip("torch", reason="writes bfloat16")
    save = pytest.importorskip("safetensors.torch", reason="writes the file").save_file
    half = torch.tensor(logits).bfloat16()
    save({"logits": half}, tmp_path / "a.safetensors")
    np.testing.assert_array_equal(read(tmp_path / "a.safetensors").logits, half.float().numpy())


# Files that must not be trusted


class Payload:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return (os.mkdir, (str(self.target),))


def test_a_pickle_in_pt_is_never_executed(tmp_path):
    torch = pytest.importorskip("torch", reason=".pt needs torch")
    mark = tmp_path / "executed"
    torch.save({"logits": Payload(mark)}, tmp_path / "a.pt")
    (tmp_path / "b.pt").write_bytes(pickle.dumps(Payload(mark)))
    for name in ("a.pt", "b.pt"):
        with refused("file-objects"):
            read(tmp_path / name)
    assert not mark.exists()


def test_a_pickle_in_npz_is_never_executed(tmp_path):
    mark = tmp_path / "executed"
    payload = np.empty((1, 1), dtype=object)
    payload[0, 0] = Payload(mark)
    np.savez(tmp_path / "a.npz", allow_pickle=True, logits=payload)
    np.save(tmp_path / "a.npy", payload, allow_pickle=True)
    (tmp_path / "b.npz").write_bytes(pickle.dumps(Payload(mark)))
    with refused("file-objects"):
        read(tmp_path / "a.npz")
    for name in ("a.npy", "b.npz"):
        with pytest.raises(FileError, match=r"holds Python objects|is not an \.npz archive"):
            read(tmp_path / name)
    assert not mark.exists()


def test_a_zip_bomb_is_not_unpacked(tmp_path):
    file = tmp_path / "bomb.npz"
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("logits.npy", "w", force_zip64=True) as member,
    ):
        for _ in range(70):
            member.write(bytes(2**24))
    with refused("file-too-large", "1.1", "1,174"):
        read(file)


def test_a_dataset_that_was_never_filled_is_not_allocated(tmp_path):
    h5py = pytest.importorskip("h5py", reason=".h5 needs h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("logits", shape=(10**9, 100), dtype="f8", chunks=(1000, 100))
        file["labels"] = h5py.ExternalLink("/etc/passwd", "/x")
    with refused("file-too-large"):
        read(tmp_path / "a.h5")


def test_text_of_variable_length_in_h5_is_left_alone(tmp_path, logits):
    h5py = pytest.importorskip("h5py", reason=".h5 needs h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["logits"], file["class_names"] = logits, ["a", "b", "c"]
    assert read(tmp_path / "a.h5").class_names is None
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["logits"], file["labels"] = logits, ["a"] * 12
    with refused("file-type"):
        read(tmp_path / "b.h5")


def test_an_expanded_tensor_is_not_worked_on(tmp_path):
    torch = pytest.importorskip("torch", reason=".pt needs torch")
    torch.save({"logits": torch.zeros(1, 1).expand(10**9, 10)}, tmp_path / "a.pt")
    with refused("file-too-large"):
        read(tmp_path / "a.pt")


def test_a_header_that_claims_too_much_is_refused(tmp_path):
    file = tmp_path / "a.npy"
    np.save(file, np.zeros((4, 3)))
    file.write_bytes(file.read_bytes().replace(b"(4, 3), ", b"(4000000000000, 3), "))
    with refused("file-damaged", "4000000000000", "3"):
        read(file)


@pytest.mark.parametrize("suffix", READERS)
def test_a_damaged_file_is_one_line(suffix, tmp_path, logits, labels):
    need(suffix)
    file = tmp_path / f"a{suffix}"
    write_arrays(file, {"logits": logits, "labels": labels})
    whole = file.read_bytes()
    if suffix not in (
        ".csv",
        ".tsv",
        ".jsonl",
        ".ndjson",
    ):  # a table cut at a line's end is a whole table
        file.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(FileError, match=r"^[^\n]*a\.[^\n]*$"):
            read(file)
    file.write_bytes(b"\x00\xff not this at all \x80" * 20)
    with pytest.raises(FileError, match=r"^[^\n]*a\.[^\n]*$"):
        read(file)
    file.write_bytes(b"")
    with refused("file-damaged"):
        read(file)


def test_a_path_that_cannot_be_read_says_why(tmp_path):
    with refused("file-missing", "nothing.npz"):
        read(tmp_path / "nothing.npz")
    (tmp_path / "folder.npz").mkdir()
    with refused("file-type"):
        read(tmp_path / "folder.npz")
    (tmp_path / "a.pkl").write_text("x")
    with refused("file-type"):
        read(tmp_path / "a.pkl")
    with refused("file-type"):
        read(tmp_path / "a")


def test_arrays_without_a_known_name_are_listed(tmp_path, logits, labels):
    np.savez(tmp_path / "a.npz", logits, labels)
    with refused("file-column"):
        read(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", logits=logits, y=labels, labels=labels)
    with refused("file-ambiguous", "labels_key"):
        read(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", logits=logits.astype(complex))
    with refused("file-value"):
        read(tmp_path / "c.npz")


@pytest.mark.parametrize("suffix", sorted(NEEDS))
def test_a_missing_package_says_what_to_install(suffix, tmp_path, monkeypatch):
    file = tmp_path / f"a{suffix}"
    file.write_bytes(b"x" * 100)
    for name in ("pyarrow", "pyarrow.parquet", "safetensors", "torch", "h5py"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    with refused("missing-extra"):
        read(file)


def test_out_of_memory_is_said(tmp_path, logits, monkeypatch):
    def fail(*args: object, **kwargs: object) -> None:
        raise MemoryError("Unable to allocate 80 TiB")

    np.savez(tmp_path / "a.npz", logits=logits)
    monkeypatch.setattr(readers_module, "read_npy", fail)
    with refused("file-too-large", "80"):
        read(tmp_path / "a.npz")


def test_a_file_that_only_claims_to_be_npz_is_not_called_a_pickle(tmp_path):
    file = tmp_path / "x.npz"
    file.write_text("hello")
    with refused("file-damaged"):
        read(file)


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".parquet", ".csv", ".npz:val"])
def test_a_name_that_is_too_long_is_one_line(suffix, cli, tmp_path):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow", reason="reading the type needs it")
    name = "x" * 300 + suffix
    with refused("file-access"):
        read(name)
    code, out, err = cli("evaluate", name, "--n-boot", "0")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "File name too long" in err
