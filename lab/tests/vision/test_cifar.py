"""CIFAR's batches and corrupted arrays: every pixel right, and no file runs code."""

import os
import pickle

import numpy as np
import pytest

pytest.importorskip("PIL", reason="images need Pillow")

import smallcal as sc
from smallcal_lab.vision import image_parts, open_images
from smallcal_lab.vision.cifar import read_batch
from support.layouts import channel_major, crops, python2_pickle, write_cifar10


def all_pixels(images):
    return np.stack([np.asarray(images.image(row)) for row in range(len(images))])


@pytest.mark.parametrize("inner", ["", "cifar-10-batches-py"])
def test_cifar10_is_what_was_written(tmp_path, inner):
    train, test = write_cifar10(tmp_path / inner)
    assert image_parts(f"cifar10:{tmp_path}") == ("train", "test")
    for source, (pixels, labels), name in (
        (f"cifar10:{tmp_path}:train", train, "cifar10-train"),
        (f"cifar10:{tmp_path}", test, "cifar10-test"),
    ):
        images = open_images(source)
        assert images.name == name
        np.testing.assert_array_equal(all_pixels(images), pixels)
        np.testing.assert_array_equal(images.labels, labels)
        assert len(images.classes) == 10
        assert images.columns is None
    assert open_images(f"cifar10:{tmp_path}").ids[:2] == ("test-00000", "test-00001")


def write_cifar100(root, n=6, *, dump=python2_pickle):
    root.mkdir(parents=True, exist_ok=True)
    pixels, labels = crops(n), [99, 0, 42, 7, 7, 13][:n]
    batch = {
        b"filenames": [b"x.png"] * n,
        b"fine_labels": labels,
        b"coarse_labels": [1] * n,
        b"data": channel_major(pixels),
    }
    (root / "test").write_bytes(dump(batch))
    return pixels, labels


@pytest.mark.parametrize("protocol", range(6))
def test_cifar100_is_read_whichever_python_wrote_it(tmp_path, protocol):
    def dump(batch):
        text = {key.decode(): value for key, value in batch.items()}
        return pickle.dumps(text if protocol % 2 else batch, protocol=protocol)

    for folder, how in (("two", python2_pickle), ("three", dump)):
        pixels, labels = write_cifar100(tmp_path / folder, dump=how)
        images = open_images(f"cifar100:{tmp_path / folder}:test")
        np.testing.assert_array_equal(all_pixels(images), pixels)
        assert images.labels.tolist() == labels
        assert images.classes[99] == "worm"
        assert len(images.classes) == 100
    assert image_parts(f"cifar100:{tmp_path / 'two'}") == ("test",)


def test_labels_may_be_an_array_or_numbers_of_numpy(tmp_path):
    data = channel_major(crops(2))
    for labels in (np.array([3, 4]), [np.int64(3), np.int64(4)], np.array([3, 4], ">i4")):
        (tmp_path / "test").write_bytes(pickle.dumps({"data": data, "fine_labels": labels}))
        assert open_images(f"cifar100:{tmp_path}").labels.tolist() == [3, 4]


def test_no_file_runs_code(tmp_path):
    class Evil:
        def __init__(self, call, *given):
            self.call = call, given

        def __reduce__(self):
            return self.call

    marker = tmp_path / "ran"
    for value in (
        Evil(os.system, f"touch {marker}"),
        Evil(exec, f"open({str(marker)!r}, 'w')"),
        Evil(np.load, str(marker)),
        Evil(getattr, "a", "upper"),
        np.array([Evil(os.mkdir, str(marker))], dtype=object),
        np.dtype([("a", "i4")]),
        np.ma.array([1]),
        range(3),
    ):
        for protocol in (0, 2, 4, 5):
            (tmp_path / "test").write_bytes(pickle.dumps({b"data": value}, protocol=protocol))
            with pytest.raises(sc.FileError, match="test is not a batch of") as caught:
                open_images(f"cifar100:{tmp_path}")
            assert "\n" not in str(caught.value)
    assert not marker.exists()


def test_damaged_batches_are_one_line(tmp_path):
    write_cifar100(tmp_path, 2)
    file = tmp_path / "test"
    whole = file.read_bytes()
    small = python2_pickle({b"data": np.zeros((2, 3), np.uint8), b"fine_labels": [1, 2]})
    rng = np.random.default_rng(0)
    for number in range(600):
        raw = bytearray(small if number % 2 else whole)
        if number % 3:
            for place in rng.integers(min(len(raw), 300), size=1 + number % 4):
                raw[place] = rng.integers(256)
        else:
            del raw[rng.integers(len(raw)) :]
        file.write_bytes(raw)
        said = ""
        try:
            assert isinstance(read_batch(file), dict)
        except sc.FileError as error:
            said = str(error)
        assert not said or (str(file) in said and "\n" not in said)


def test_a_few_bytes_reserve_no_gigabytes(tmp_path):
    # LONG_BINPUT with the largest number: the reader in C makes its memo that long.
    (tmp_path / "test").write_bytes(b"\x80\x02}r\xff\xff\xff\x7f.")
    assert read_batch(tmp_path / "test") == {}


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        ({b"fine_labels": [1]}, "3,072 bytes"),
        ({b"data": np.zeros((1, 3072), np.uint8), b"labels": [1]}, "labels must be"),
        ({b"data": np.zeros((1, 3072)), b"fine_labels": [1]}, "3,072 bytes"),
        ({b"data": np.zeros((1, 300), np.uint8), b"fine_labels": [1]}, "3,072 bytes"),
        ({b"data": np.zeros((2, 3072), np.uint8), b"fine_labels": [1]}, "for 2 images"),
        ({b"data": np.zeros((1, 3072), np.uint8), b"fine_labels": [100]}, "must be 0 .. 99"),
        ({b"data": np.zeros((1, 3072), np.uint8), b"fine_labels": [b"a"]}, "whole numbers"),
        ({b"data": np.zeros((2, 3072), np.uint8), b"fine_labels": [[1], []]}, "whole numbers"),
        ({b"data": np.zeros((0, 3072), np.uint8), b"fine_labels": []}, "whole numbers"),
        ([1, 2], "does not hold a dictionary"),
    ],
)
def test_a_batch_of_something_else_is_named(tmp_path, batch, said):
    (tmp_path / "test").write_bytes(python2_pickle(batch))
    with pytest.raises(sc.FileError, match=said) as caught:
        open_images(f"cifar100:{tmp_path}")
    assert str(tmp_path / "test") in str(caught.value)


def test_missing_files_and_parts_are_named(tmp_path):
    write_cifar10(tmp_path)
    (tmp_path / "data_batch_4").unlink()
    with pytest.raises(sc.FileError, match="data_batch_4"):
        open_images(f"cifar10:{tmp_path}:train")
    assert image_parts(f"cifar10:{tmp_path}") == ("test",)
    with pytest.raises(sc.InputError, match="has no part 'val'; choose from train, test"):
        open_images(f"cifar10:{tmp_path}:val")
    with pytest.raises(sc.FileError, match="test is not a batch of CIFAR: no file"):
        open_images(f"cifar100:{tmp_path}")
    os.mkfifo(tmp_path / "test")
    with pytest.raises(sc.FileError, match="no file"):
        open_images(f"cifar100:{tmp_path}")


# --- corrupted ----------------------------------------------------------------------------------


def write_corrupted(root, labels, kinds=("fog", "spatter", "gaussian_noise")):
    root.mkdir(parents=True, exist_ok=True)
    made = {kind: crops(5 * len(labels), seed=number) for number, kind in enumerate(kinds)}
    for kind, pixels in made.items():
        np.save(root / f"{kind}.npy", pixels)
    np.save(root / "labels.npy", np.tile(np.asarray(labels, np.int64), 5))
    return made


@pytest.mark.parametrize("inner", ["", "CIFAR-10-C"])
def test_each_severity_is_its_block_and_pairs_with_the_clean_images(tmp_path, inner):
    _, (_, labels) = write_cifar10(tmp_path / "clean")
    made = write_corrupted(tmp_path / "c" / inner, labels)
    clean, place = open_images(f"cifar10:{tmp_path / 'clean'}"), f"cifar10-c:{tmp_path / 'c'}"
    parts = image_parts(place)
    assert parts[:6] == (*(f"gaussian_noise-{s}" for s in range(1, 6)), "fog-1")
    assert len(parts) == 15
    for part in parts:
        kind, severity = part.rsplit("-", 1)
        images = open_images(f"{place}:{part}")
        start = (int(severity) - 1) * len(labels)
        np.testing.assert_array_equal(all_pixels(images), made[kind][start : start + len(labels)])
        assert (images.ids, images.classes) == (clean.ids, clean.classes)
        np.testing.assert_array_equal(images.labels, clean.labels)
    some = pickle.loads(pickle.dumps(open_images(f"{place}:fog-3").take([2])))
    np.testing.assert_array_equal(np.asarray(some.image(0)), made["fog"][2 * len(labels) + 2])


def test_corrupted_sets_that_are_wrong_are_one_line(tmp_path):
    write_corrupted(tmp_path, [1, 2, 3])
    np.save(tmp_path / "snow.npy", np.zeros((15, 32, 32), np.uint8))
    np.save(tmp_path / "frost.npy", crops(14))
    np.save(tmp_path / "jpeg.npy", np.array([{}], dtype=object))
    (tmp_path / "contrast.npy").write_bytes(b"none")
    np.save(tmp_path / "pixelate.npy", crops(10))
    np.save(tmp_path / "spatter.npy", crops(15))
    whole = (tmp_path / "spatter.npy").read_bytes()
    (tmp_path / "spatter.npy").write_bytes(whole.replace(b", 3), }", b", 3(, }"))
    np.save(tmp_path / "saturate.npy", crops(15))
    (tmp_path / "saturate.npy").write_bytes(whole[:-40])
    for part, said in {
        "snow-1": r"snow.npy must hold bytes of shape \(5 n, 32, 32, 3\)",
        "frost-1": "frost.npy must hold bytes of shape .5 n, 32",
        "jpeg-1": "jpeg.npy",
        "contrast-1": "contrast.npy",
        "pixelate-1": "labels.npy: labels must be .*for 10 images",
        "spatter-1": "spatter.npy.*the header is damaged",
        "saturate-1": "saturate.npy.*cut short",
        "fogg-1": "did you mean 'fog-1'",
        "fog": "did you mean 'fog-",
        "fog-6": "did you mean 'fog-",
    }.items():
        with pytest.raises(sc.SmallcalError, match=said):
            open_images(f"cifar100-c:{tmp_path}:{part}")
    with pytest.raises(sc.InputError, match=r"such as cifar100-c:.*:fog-3"):
        open_images(f"cifar100-c:{tmp_path}")
    np.save(tmp_path / "labels.npy", np.full(15, 12))
    with pytest.raises(sc.FileError, match=r"labels must be 0 .. 9"):
        open_images(f"cifar10-c:{tmp_path}:fog-1")
    np.save(tmp_path / "labels.npy", np.arange(15) % 10)
    with pytest.raises(sc.FileError, match="the same labels"):
        open_images(f"cifar10-c:{tmp_path}:fog-1")
    (tmp_path / "labels.npy").unlink()
    with pytest.raises(sc.FileError, match=r"cannot read .*labels.npy: No such file"):
        open_images(f"cifar10-c:{tmp_path}:fog-1")
    (tmp_path / "empty").mkdir()
    with pytest.raises(sc.FileError, match="no corruption and severity 'fog-1'"):
        open_images(f"cifar10-c:{tmp_path / 'empty'}:fog-1")
