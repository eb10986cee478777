"""Logits of a model on images: the numbers of a plain loop, as a collection that studies read."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch", reason="models need torch")
pytest.importorskip("PIL", reason="images need Pillow")

import torch
from PIL import Image

import smallcal as sc
from smallcal import io
from smallcal_lab.studies import check_collection, load_collection
from smallcal_lab.vision import (
    CellImages,
    CellName,
    Corruptions,
    ExtractionSettings,
    corrupt,
    extract,
    open_images,
    open_model,
    split_images,
)
from smallcal_lab.vision.extraction import store
from smallcal_lab.vision.extraction.cell_images import LogitSet
from smallcal_lab.vision.extraction.extracting import Batches
from smallcal_lab.vision.loading import loading
from smallcal_lab.vision.models.model import checkpoint_of
from support.layouts import crops, photograph, wnids, write_cifar10, write_folders

NET = "torch:support.small_net:Net"
FEW = ExtractionSettings(batch_size=8, workers=0)


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """Three classes of 14 photographs, of 24 pixels; parts have 16 images."""
    monkeypatch.setattr(store, "PART_IMAGES", 4)
    return write_folders(tmp_path / "photos", ["cat", "dog", "owl"], 14, side=24, ending=".png")


def plain_loop(model, images, batch_size):
    """Logits and features without a loader: what extraction must give, to the bit."""
    module = model.module.eval()
    logits, features = [], []
    with torch.inference_mode():
        for start in range(0, len(images), batch_size):
            rows = range(start, min(len(images), start + batch_size))
            x = torch.stack([model.preprocess(images.image(row)) for row in rows])
            features.append(module.body(x).numpy())
            logits.append(module(x).numpy())
    return np.concatenate(logits), np.concatenate(features)


def arrays(file):
    with np.load(file) as found:
        return {name: found[name] for name in found}


def content(folder):
    """The bytes of every file but the locks."""
    files = [file for file in folder.rglob("*") if file.is_file() and ".lock" not in file.name]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


@pytest.mark.parametrize("workers", [0, 2])
def test_numbers_are_those_of_a_plain_loop(photos, tmp_path, workers):
    model = open_model(f"{NET}?num_classes=3")
    images = open_images(f"folder:{photos}")
    settings = ExtractionSettings(batch_size=8, workers=workers)
    wanted = CellImages(f"folder:{photos}", split="first-5")
    done = extract(model, wanted, tmp_path / "out", settings=settings)
    split = split_images(images, "first-5")
    for part in ("calibration", "test"):
        found = arrays(tmp_path / "out" / "photos__Net__s0" / f"{part}.npz")
        expected = split.take(images, part)
        logits, features = plain_loop(model, expected, 8)
        np.testing.assert_array_equal(found["logits"], logits)
        np.testing.assert_array_equal(found["features"], features)
        assert found["logits"].dtype == found["features"].dtype == np.float32
        assert found["labels"].tolist() == expected.labels.tolist()
        assert tuple(found["ids"]) == expected.ids
        assert tuple(found["class_names"]) == expected.classes
    assert done.cells == ("photos__Net__s0",)
    assert dict(done.sets) == {"calibration": 15, "test": 27}
    assert (done.images, done.images_before, done.notes) == (42, 0, ())


def test_the_folder_is_a_collection_at_once(photos, tmp_path):
    out = tmp_path / "out"
    extract(
        f"{NET}?num_classes=3", CellImages(f"folder:{photos}", split="halves"), out, settings=FEW
    )
    collection = load_collection(out)
    assert [cell.name for cell in collection.cells] == ["photos__Net__s0"]
    assert not [p for p in check_collection(collection) if p.severity == "error"]
    cell = collection.cells[0]
    assert cell.read("test").logits.shape == (21, 3)
    assert cell.read("calibration").features.shape == (21, 8)
    manifest = json.loads((out / "photos__Net__s0" / "manifest.json").read_text())
    for name, found in manifest["sets"].items():
        assert collection.sha256()[f"photos__Net__s0/{name}.npz"] == found["sha256"]
    images = open_images(f"folder:{photos}")
    split = split_images(images, "halves")
    assert manifest["sets"]["test"]["images"] == split.take(images, "test").checksum()
    assert manifest["weights"] == open_model(f"{NET}?num_classes=3").fingerprint
    loaded = io.read(out / "photos__Net__s0" / "calibration.npz")
    assert loaded.class_names == ("cat", "dog", "owl")
    sc.Identity().fit(loaded.logits, loaded.labels)


def test_corrupted_sets_are_the_test_images_corrupted_by_hand(photos, tmp_path):
    model = open_model(f"{NET}?num_classes=3")
    images = open_images(f"folder:{photos}")
    test = split_images(images, "halves").take(images, "test")
    made = Corruptions.parse("fog,jpeg_compression", "1,5", seed=3)
    wanted = CellImages(f"folder:{photos}", split="halves", corruptions=made)
    extract(model, wanted, tmp_path / "out", settings=FEW)
    by_hand = tmp_path / "by_hand"
    for row, name in enumerate(test.ids):
        (by_hand / name).parent.mkdir(parents=True, exist_ok=True)
        pixels = corrupt(test.image(row), "fog", 5, seed=3, image_id=name)
        Image.fromarray(pixels).save(by_hand / name)
    logits, _ = plain_loop(model, open_images(f"folder:{by_hand}"), 8)
    cell = load_collection(tmp_path / "out").cells[0]
    names = [(shift.kind, shift.severity, shift.paired) for shift in cell.shifts]
    kinds = ("fog", "jpeg_compression")
    assert names == [(kind, severity, True) for kind in kinds for severity in (1, 5)]
    found = arrays(tmp_path / "out" / cell.shifts[1].file)
    np.testing.assert_array_equal(found["logits"], logits)
    assert tuple(found["ids"]) == test.ids


def test_some_of_the_test_images_are_corrupted_and_do_not_pair(photos, tmp_path):
    made = Corruptions(("contrast",), (3,), images=6)
    wanted = CellImages(f"folder:{photos}", split="halves", corruptions=made)
    extract(f"{NET}?num_classes=3", wanted, tmp_path / "out", settings=FEW)
    cell = load_collection(tmp_path / "out").cells[0]
    assert not cell.shifts[0].paired
    assert np.bincount(cell.read(cell.shifts[0]).labels).tolist() == [2, 2, 2]


def test_calibration_from_elsewhere(tmp_path):
    (_, train), (_, test) = write_cifar10(tmp_path / "cifar", each=40)
    where = f"cifar10:{tmp_path / 'cifar'}"
    images = open_images(f"{where}:train")
    split_images(images, "5%", seed=4).save(tmp_path / "split.json")
    model = f"{NET}?num_classes=10"
    for how, seed in (("5%", 4), (str(tmp_path / "split.json"), 0)):
        wanted = CellImages(
            where, calibration=f"{where}:train", calibration_split=how, split_seed=seed
        )
        out = tmp_path / f"out{seed}"
        extract(model, wanted, out, settings=FEW)
        cell = load_collection(out).cells[0]
        assert cell.name == "cifar10__Net__s0"
        assert cell.read("test").labels.tolist() == test.tolist()
        rows = split_images(images, "5%", seed=4).parts["calibration"]
        assert cell.read("calibration").labels.tolist() == train[rows].tolist()
        written = json.loads((out / cell.name / "split.json").read_text())
        assert written["parts"]["calibration"] == rows.tolist()


def test_seeds_are_added_and_what_is_there_stays(photos, tmp_path):
    out, wanted = tmp_path / "out", CellImages(f"folder:{photos}", split="halves")
    extract(f"{NET}?num_classes=3", wanted, out, settings=FEW)
    description = (out / "collection.toml").read_text()
    mine = description.replace('name = "out"', 'name = "mine"  # a remark')
    mine = mine.replace("seed = 0", 'seed = 0\ndraw = "per-class"')
    (out / "collection.toml").write_text(mine)
    extract(f"{NET}?num_classes=3&seed=1", wanted, out, cell=CellName(seed=1), settings=FEW)
    collection = load_collection(out)
    assert [cell.name for cell in collection.cells] == ["photos__Net__s0", "photos__Net__s1"]
    assert collection.name == "mine"
    assert collection.cells[0].draw_ways == ("per-class",)
    first, second = (cell.read("test").logits for cell in collection.cells)
    assert not np.array_equal(first, second)
    # The same again does nothing; shifted sets may be added later.
    before = content(out)
    again = extract(f"{NET}?num_classes=3", wanted, out, settings=FEW)
    assert again.images_before == again.images
    assert content(out) == before
    more = CellImages(
        f"folder:{photos}", split="halves", corruptions=Corruptions(("contrast",), (3,))
    )
    extract(f"{NET}?num_classes=3", more, out, settings=FEW)
    cells = load_collection(out).cells
    assert [len(cell.shifts) for cell in cells] == [1, 0]
    assert cells[0].draw_ways == ("per-class",)


def test_a_cell_of_the_same_name_is_not_written_over(photos, tmp_path):
    out, wanted = tmp_path / "out", CellImages(f"folder:{photos}", split="halves")
    extract(f"{NET}?num_classes=3", wanted, out, settings=FEW)
    before = content(out)
    for model, images, how, said in (
        (f"{NET}?num_classes=3&seed=1", wanted, FEW, "logits of another model"),
        (
            f"{NET}?num_classes=3",
            CellImages(f"folder:{photos}", split="first-2"),
            FEW,
            "another split",
        ),
        (
            f"{NET}?num_classes=3",
            CellImages(f"folder:{photos}", split="halves", limit=6),
            FEW,
            "images",
        ),
        (f"{NET}?num_classes=3", wanted, ExtractionSettings(features=False), "with_features"),
    ):
        with pytest.raises((sc.InputError, sc.FileError), match=said):
            extract(model, images, out, settings=how)
    (tmp_path / "theirs").mkdir()
    text = (out / "collection.toml").read_text().replace("photos__Net__s0/", "elsewhere/")
    (tmp_path / "theirs" / "collection.toml").write_text(text)
    with pytest.raises(sc.InputError, match="with other files"):
        extract(f"{NET}?num_classes=3", wanted, tmp_path / "theirs", settings=FEW)
    assert content(out) == before


def test_limit_takes_images_of_every_class(photos, tmp_path):
    wanted = CellImages(f"folder:{photos}", split="halves", limit=6)
    done = extract(f"{NET}?num_classes=3", wanted, tmp_path / "out", settings=FEW)
    assert dict(done.sets) == {"calibration": 6, "test": 6}
    test = load_collection(tmp_path / "out").cells[0].read("test")
    assert np.bincount(test.labels).tolist() == [2, 2, 2]


def test_without_features(photos, tmp_path):
    wanted = CellImages(f"folder:{photos}", split="halves")
    settings = ExtractionSettings(batch_size=8, workers=0, features=False)
    extract(f"{NET}?num_classes=3", wanted, tmp_path / "out", settings=settings)
    assert "features" not in arrays(tmp_path / "out" / "photos__Net__s0" / "test.npz")


def test_short_floats_are_stored_long(photos, tmp_path):
    wanted = CellImages(f"folder:{photos}", split="halves")
    settings = ExtractionSettings(batch_size=8, workers=0, precision="bfloat16")
    extract(f"{NET}?num_classes=3", wanted, tmp_path / "short", settings=settings)
    extract(f"{NET}?num_classes=3", wanted, tmp_path / "long", settings=FEW)
    short, long = (
        arrays(tmp_path / name / "photos__Net__s0" / "test.npz")["logits"]
        for name in ("short", "long")
    )
    assert short.dtype == np.float32
    assert not np.array_equal(short, long)
    np.testing.assert_allclose(short, long, atol=0.05)


def test_a_model_that_is_no_module_and_gives_arrays(photos, tmp_path):
    net = open_model(f"{NET}?num_classes=3")
    given = replace(
        net,
        source="onnx:model.onnx",
        module=None,
        outputs=lambda x: (net.outputs(x)[0].numpy().astype(np.float64), None),
    )
    wanted = CellImages(f"folder:{photos}", split="halves")
    done = extract(given, wanted, tmp_path / "out", settings=FEW)
    assert done.notes == (
        "onnx:model.onnx has no last layer that smallcal knows: no features were saved",
    )
    extract(net, wanted, tmp_path / "net", settings=FEW)
    files = [tmp_path / name / "photos__Net__s0" / "test.npz" for name in ("out", "net")]
    np.testing.assert_array_equal(*(arrays(file)["logits"] for file in files))
    assert arrays(files[0])["logits"].dtype == np.float32
    with pytest.raises(sc.InputError, match="precision bfloat16"):
        extract(given, wanted, tmp_path / "no", settings=ExtractionSettings(precision="bfloat16"))


def test_batches_can_be_sent_to_other_processes(photos):
    model, images = open_model(f"{NET}?num_classes=3"), open_images(f"folder:{photos}")
    batches = Batches(LogitSet("test", images, corruption=("fog", 3, 0)), model.preprocess)
    again = pickle.loads(pickle.dumps(batches))
    assert torch.equal(again[range(2, 5)], batches[range(2, 5)])
    with pytest.raises(sc.InputError, match="cannot be sent to processes"), loading(Unstartable()):
        pass


class Unstartable:
    def __iter__(self):
        raise AttributeError("Can't pickle local object 'main.<locals>.<lambda>'")


def test_the_module_is_left_in_its_own_mode(photos, tmp_path):
    model = open_model(f"{NET}?num_classes=3")
    model.module.train()
    extract(model, CellImages(f"folder:{photos}", split="halves"), tmp_path / "out", settings=FEW)
    assert model.module.training


def test_a_checkpoint_knows_its_seed_and_its_classes(photos, tmp_path):
    module = open_model(f"{NET}?num_classes=3&seed=5").module
    content = {
        "format": "smallcal-checkpoint-1",
        "source": NET,
        "options": {"num_classes": 3},
        "classes": 3,
        "class_names": ["cat", "dog", "owl"],
        "model": module.state_dict(),
        "recipe": "",
        "epoch": 1,
        "seed": 7,
    }
    torch.save(content, tmp_path / "last.pt")
    torch.save({**content, "class_names": ["dog", "cat", "owl"]}, tmp_path / "moved.pt")
    wanted = CellImages(f"folder:{photos}", split="halves")
    done = extract(checkpoint_of(tmp_path / "last.pt", NET), wanted, tmp_path / "out", settings=FEW)
    assert done.cells == ("photos__Net__s7",)
    with pytest.raises(sc.InputError, match="'cat' is 1 there and 0 here"):
        extract(checkpoint_of(tmp_path / "moved.pt", NET), wanted, tmp_path / "no", settings=FEW)


# --- shifted sets --------------------------------------------------------------------------------


def write_cifar10_c(root, n, *, kinds=("fog", "snow")):
    root.mkdir()
    for number, kind in enumerate(kinds):
        np.save(root / f"{kind}.npy", np.concatenate([crops(n, seed=9 + number)] * 5))


def test_published_corruptions_pair_with_the_test_images(tmp_path):
    _, (_, labels) = write_cifar10(tmp_path / "cifar", each=40)
    write_cifar10_c(tmp_path / "c", 40)
    np.save(tmp_path / "c" / "labels.npy", np.tile(labels, 5))
    where = f"cifar10:{tmp_path / 'cifar'}"
    shifts = (f"cifar10-c:{tmp_path / 'c'}",)
    wanted = CellImages(where, calibration=f"{where}:train", shifts=shifts)
    model = open_model(f"{NET}?num_classes=10")
    extract(model, wanted, tmp_path / "whole", settings=FEW)
    cell = load_collection(tmp_path / "whole").cells[0]
    assert len(cell.shifts) == 10
    assert all(shift.paired for shift in cell.shifts)
    third = next(s for s in cell.shifts if (s.kind, s.severity) == ("snow", 3))
    logits, _ = plain_loop(model, open_images(f"cifar10-c:{tmp_path / 'c'}:snow-3"), 8)
    np.testing.assert_array_equal(arrays(tmp_path / "whole" / third.file)["logits"], logits)
    # Where calibration images are taken from the test set, their corrupted twins are not tested.
    one = (f"cifar10-c:{tmp_path / 'c'}:fog-2",)
    wanted = CellImages(where, split="halves", shifts=one)
    extract(model, wanted, tmp_path / "half", settings=FEW)
    cell = load_collection(tmp_path / "half").cells[0]
    assert [(s.kind, s.severity, s.paired) for s in cell.shifts] == [("fog", 2, True)]
    files = (cell.test, cell.shifts[0].file)
    test, shifted = (arrays(tmp_path / "half" / file) for file in files)
    assert test["ids"].tolist() == shifted["ids"].tolist()


def test_other_folders_are_unpaired_shifts(photos, tmp_path):
    other = write_folders(tmp_path / "sketches", ["cat", "dog", "owl"], 3, ending=".png")
    wanted = CellImages(f"folder:{photos}", split="halves", shifts=(f"folder:{other}",))
    extract(f"{NET}?num_classes=3", wanted, tmp_path / "out", settings=FEW)
    shift = load_collection(tmp_path / "out").cells[0].shifts[0]
    assert (shift.kind, shift.severity, shift.paired) == ("sketches", 0, False)


@pytest.fixture(scope="module")
def imagenet(tmp_path_factory):
    """A val of 1,000 classes with two images each, and an ImageNet-R of 200 with one."""
    root = tmp_path_factory.mktemp("imagenet")
    tile = Image.fromarray(photograph()[:8, :8])
    some = wnids(1000)[3::5]
    for number, name in enumerate(wnids(1000)):
        for folder in ("val", *(["r"] if name in some else [])):
            (root / folder / name).mkdir(parents=True)
        tile.putpixel((0, 0), (number // 4, number % 256, 90))
        for i in range(2):
            tile.rotate(180 * i).save(root / "val" / name / f"{i}.png")
        if name in some:
            tile.rotate(90).save(root / "r" / name / "art.png")
    (root / "imagenet_synsets.txt").write_text("\n".join(wnids(1000)))
    (root / "r" / "imagenet_synsets.txt").write_text("\n".join(wnids(1000)))
    return root


def test_some_of_a_thousand_classes_are_a_cell_of_their_columns(imagenet, tmp_path):
    model = open_model(f"{NET}?num_classes=1000")
    columns = list(range(3, 1000, 5))
    wanted = CellImages(
        f"imagenet:{imagenet}:val", split="first-1", shifts=(f"imagenet-r:{imagenet / 'r'}",)
    )
    settings = ExtractionSettings(batch_size=64, workers=0)
    done = extract(model, wanted, tmp_path / "out", settings=settings)
    assert done.cells == ("imagenet__Net__s0", "imagenet-r__Net__s0")
    collection = load_collection(tmp_path / "out")
    assert not [p for p in check_collection(collection) if p.severity == "error"]
    whole, some = collection.cells
    assert (whole.read("test").logits.shape, whole.shifts) == ((1000, 1000), ())
    logits, _ = plain_loop(model, open_images(f"imagenet-r:{imagenet / 'r'}"), 64)
    shifted = some.read(some.shifts[0])
    np.testing.assert_array_equal(shifted.logits, logits[:, columns].astype(float))
    assert shifted.labels.tolist() == list(range(200))
    test = some.read("test")
    assert test.labels.tolist() == list(range(200))
    np.testing.assert_array_equal(test.logits, whole.read("test").logits[columns][:, columns])


def test_a_test_set_of_some_classes_takes_calibration_images_of_these(imagenet, tmp_path):
    wanted = CellImages(
        f"imagenet-r:{imagenet / 'r'}",
        calibration=f"imagenet:{imagenet}:val",
        calibration_split="first-1",
    )
    done = extract(f"{NET}?num_classes=1000", wanted, tmp_path / "out", settings=FEW)
    assert dict(done.sets) == {"calibration": 200, "test": 200}
    cell = load_collection(tmp_path / "out").cells[0]
    assert cell.name == "imagenet-r__Net__s0"
    for part in ("calibration", "test"):
        assert cell.read(part).logits.shape == (200, 200)
        assert cell.read(part).labels.tolist() == list(range(200))
