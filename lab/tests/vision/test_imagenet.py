"""ImageNet's family and Tiny-ImageNet: labels and columns right, whatever the folders' order."""

import sys

import numpy as np
import pytest

pytest.importorskip("PIL", reason="images need Pillow")

from PIL import Image

import smallcal as sc
from smallcal_lab.vision import image_parts, open_images
from support.layouts import crops, wnids, write_folders

ALL = wnids(1000)


@pytest.fixture
def no_timm(monkeypatch):
    """A machine without timm, whatever this one has."""
    monkeypatch.setitem(sys.modules, "timm", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


@pytest.fixture
def timm(tmp_path, monkeypatch):
    """A machine with timm, of which only the list of wnids is read."""
    folder = tmp_path / "packages" / "timm"
    (folder / "data" / "_info").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('imported')")
    (folder / "data" / "_info" / "imagenet_synsets.txt").write_text("\n".join(ALL))
    monkeypatch.syspath_prepend(tmp_path / "packages")
    monkeypatch.delitem(sys.modules, "timm", raising=False)


def many_folders(root, names):
    """A class folder with one image for each name, all the same image."""
    image = Image.fromarray(crops(1, 8)[0])
    for name in names:
        (root / name).mkdir(parents=True)
        image.save(root / name / f"{name}_0.JPEG")
    return root


def test_all_classes_need_no_list(tmp_path, no_timm):
    many_folders(tmp_path / "val", ALL)
    images = open_images(f"imagenet:{tmp_path}")
    assert images.name == "imagenet-val"
    assert images.columns is None
    assert images.classes == tuple(ALL)
    assert images.labels.tolist() == list(range(1000))
    sketch = tmp_path / "sketch"
    (tmp_path / "val").rename(sketch)
    assert open_images(f"imagenet-sketch:{tmp_path}").ids == images.ids
    assert open_images(f"imagenet:{sketch}").columns is None


@pytest.mark.parametrize("kind", ["imagenet-r", "imagenet-a"])
@pytest.mark.parametrize("inner", [False, True])
def test_200_classes_know_their_columns(tmp_path, timm, kind, inner):
    chosen = np.sort(np.random.default_rng(3).choice(1000, 200, replace=False))
    place = tmp_path / "data"
    many_folders(place / kind if inner else place, [ALL[column] for column in chosen])
    (place / "README.txt").write_text("as the archive has it")
    images = open_images(f"{kind}:{place}")
    assert images.columns == tuple(chosen.tolist())
    assert images.labels.tolist() == list(range(200))
    assert all(ALL[images.columns[y]] == images.classes[y] for y in images.labels)
    assert "timm" not in sys.modules


def test_a_list_beside_the_images_says_the_columns(tmp_path, no_timm):
    chosen = list(range(3, 1000, 5))
    many_folders(tmp_path, [ALL[column] for column in chosen])
    with pytest.raises(sc.FileError, match=r"install timm, or put imagenet_synsets.txt there"):
        open_images(f"imagenet-r:{tmp_path}")
    lines = [f"{wnid} some, words" for wnid in reversed(ALL)]
    (tmp_path / "LOC_synset_mapping.txt").write_text("\n".join(lines))
    assert open_images(f"imagenet-r:{tmp_path}").columns == tuple(chosen)
    (tmp_path / "imagenet_synsets.txt").write_text("\n".join(ALL[:999]))
    with pytest.raises(sc.FileError, match=r"imagenet_synsets.txt must hold ImageNet's 1,000"):
        open_images(f"imagenet-r:{tmp_path}")
    (tmp_path / "imagenet_synsets.txt").write_text("\n".join(wnids(1000, step=8)))
    with pytest.raises(sc.FileError, match="is not one of ImageNet's 1,000 classes"):
        open_images(f"imagenet-r:{tmp_path}")


def test_wrong_layouts_of_wnids_are_named(tmp_path, timm):
    some = many_folders(tmp_path / "some", ALL[:3])
    for source, said in {
        f"imagenet-r:{some}": "some holds 3 class folders.*; imagenet-r has 200",
        f"imagenet-a:{some}:val": "imagenet-a has no parts",
        f"imagenet:{some}:val": "it holds neither train nor val",
        f"imagenet-sketch:{some / ALL[0]}": "holds 0 class folders like n01440764",
        f"imagenet-c:{some}:fog-3": "has no corruption and severity 'fog-3'",
    }.items():
        with pytest.raises(sc.SmallcalError, match=said):
            open_images(source)
    assert open_images(f"imagenet-sketch:{some}").columns == (0, 1, 2)
    (some / "misc").mkdir()
    with pytest.raises(sc.FileError, match="misc is not a class folder"):
        open_images(f"imagenet-sketch:{some}")
    (some / "misc").rename(some / ALL[10])
    with pytest.raises(sc.FileError, match=rf"class folder .*{ALL[10]} holds no image"):
        open_images(f"imagenet-sketch:{some}")


def test_val_in_one_folder_is_the_same_set_as_in_class_folders(tmp_path, timm):
    names = [ALL[2], ALL[900], ALL[17]]
    sorted_ = write_folders(tmp_path / "a" / "val", names, 2, ending=".JPEG")
    flat = tmp_path / "b" / "ILSVRC" / "Data" / "CLS-LOC" / "val"
    flat.mkdir(parents=True)
    rows = ["ImageId,PredictionString"]
    for file in sorted(sorted_.rglob("*.JPEG"), key=lambda file: file.name[::-1]):
        (flat / file.name).write_bytes(file.read_bytes())
        rows.append(f"{file.stem},{file.parent.name} 1 2 3 4 {file.parent.name} 5 6 7 8")
    with pytest.raises(sc.FileError, match=r"in no class folders; put LOC_val_solution.csv"):
        open_images(f"imagenet:{tmp_path / 'b'}")
    solution = tmp_path / "b" / "LOC_val_solution.csv"
    solution.write_text("\n".join(rows))
    one, other = (
        open_images(f"imagenet:{tmp_path / 'a'}"),
        open_images(f"imagenet:{tmp_path / 'b'}"),
    )
    assert one.checksum() == other.checksum()
    assert one.columns == other.columns == (2, 17, 900)
    assert image_parts(f"imagenet:{tmp_path / 'b'}") == ("val",)
    assert [one.image(i).tobytes() for i in range(6)] == [
        other.image(i).tobytes() for i in range(6)
    ]
    for text, said in {
        "\n".join(rows[:-1]): "does not say the class of",
        "\n".join([*rows, "x,n01440764 1 2"]): "lacks x, which",
        "\n".join([*rows, "x,y"]): "an image and its wnid are expected, not 'x,y'",
    }.items():
        solution.write_text(text)
        with pytest.raises(sc.FileError, match=said):
            open_images(f"imagenet:{tmp_path / 'b'}")


@pytest.mark.parametrize("inner", ["", "imagenet-c"])
def test_imagenet_c_pairs_with_val(tmp_path, timm, inner):
    names = [ALL[4], ALL[7]]
    write_folders(tmp_path / "val", names)
    for folder in ("fog/1", "fog/5", "gaussian_noise/3"):
        write_folders(tmp_path / "c" / inner / folder, names)
    place = f"imagenet-c:{tmp_path / 'c'}"
    assert image_parts(place) == ("gaussian_noise-3", "fog-1", "fog-5")
    images = open_images(f"{place}:fog-5")
    assert images.name == "imagenet-c-fog-5"
    assert images.checksum() == open_images(f"imagenet:{tmp_path}").checksum()
    for part, said in {
        "": "no corruption and severity ''; name one",
        "fog-2": "'fog-2'; did you mean 'fog-",
        "frog-1": "did you mean 'fog-",
        "val": "no corruption and severity 'val'",
    }.items():
        with pytest.raises(sc.InputError, match=said):
            open_images(f"{place}:{part}" if part else place)


def test_the_folders_of_v2_are_numbers(tmp_path):
    numbers = [str(number) for number in range(1000)]
    many_folders(tmp_path / "imagenetv2-matched-frequency-format-val", numbers)
    images = open_images(f"imagenet-v2:{tmp_path}")
    assert images.name == "imagenet-v2-matched-frequency"
    assert images.columns is None
    for row, label in enumerate(images.labels.tolist()):  # sorted as text, 10 would come before 2
        assert images.ids[row] == f"{label}/{label}_0.JPEG"
    write_folders(tmp_path / "imagenetv2-top-images", ["10", "9", "100"])
    assert set(image_parts(f"imagenet-v2:{tmp_path}")) == {"matched-frequency", "top-images"}
    some = open_images(f"imagenet-v2:{tmp_path}:top-images")
    assert (some.classes, some.columns) == (("9", "10", "100"), (9, 10, 100))
    assert some.labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert open_images(f"imagenet-v2:{tmp_path / 'imagenetv2-top-images'}").ids == some.ids
    with pytest.raises(sc.InputError, match="choose from matched-frequency, top-images"):
        open_images(f"imagenet-v2:{tmp_path}:nothing")
    with pytest.raises(sc.FileError, match="9: class folders are called 0 to 999, not none"):
        open_images(f"imagenet-v2:{tmp_path / 'imagenetv2-top-images' / '9'}")
    write_folders(tmp_path / "imagenetv2-top-images", ["1000"])
    with pytest.raises(sc.FileError, match=r"top-images: .* called 0 to 999, not .'1000'"):
        open_images(f"imagenet-v2:{tmp_path}:top-images")


# --- Tiny-ImageNet --------------------------------------------------------------------------------


def write_tiny(root):
    """Three classes; wnids.txt is not sorted, as the official one is not."""
    names = wnids(3)
    write_folders(root / "train", names, 4, inner="images")
    (root / "wnids.txt").write_text("\n".join([names[1], names[2], names[0]]) + "\n")
    (root / "val" / "images").mkdir(parents=True)
    rows = []
    for number, pixels in enumerate(crops(6, 16, seed=2)):
        Image.fromarray(pixels).save(root / "val" / "images" / f"val_{number}.JPEG")
        rows.append(f"val_{number}.JPEG\t{names[(number * 2) % 3]}\t0\t32\t44\t62")
    (root / "val" / "val_annotations.txt").write_text("\n".join(rows) + "\n")
    return names


@pytest.mark.parametrize("inner", ["", "tiny-imagenet-200"])
def test_tiny_imagenet_counts_sorted_wnids_in_both_parts(tmp_path, inner):
    names = write_tiny(tmp_path / inner)
    place = f"tiny-imagenet:{tmp_path}"
    assert image_parts(place) == ("train", "val")
    train, val = open_images(f"{place}:train"), open_images(place)
    assert train.classes == val.classes == tuple(names)
    assert train.ids[0] == f"{names[0]}/{names[0]}_0.JPEG"
    assert train.image(0).size == (16, 16)
    assert len(train) == 12
    assert val.ids == (
        *(f"{names[0]}/val_{number}.JPEG" for number in (0, 3)),
        *(f"{names[1]}/val_{number}.JPEG" for number in (2, 5)),
        *(f"{names[2]}/val_{number}.JPEG" for number in (1, 4)),
    )
    stored = Image.open(tmp_path / inner / "val" / "images" / "val_3.JPEG")
    assert val.image(1).tobytes() == stored.tobytes()


def test_a_val_that_was_sorted_into_folders_is_the_same(tmp_path):
    write_tiny(tmp_path)
    place = f"tiny-imagenet:{tmp_path}"
    official = open_images(place)
    for name in official.ids:
        wnid, file = name.split("/")
        (tmp_path / "val" / wnid).mkdir(exist_ok=True)
        (tmp_path / "val" / "images" / file).rename(tmp_path / "val" / wnid / file)
    (tmp_path / "val" / "val_annotations.txt").unlink()
    (tmp_path / "val" / "images").rmdir()
    assert open_images(place).checksum() == official.checksum()
    (tmp_path / "wnids.txt").unlink()
    assert open_images(place).checksum() == official.checksum()
    assert open_images(place).image(2).mode == "RGB"


def test_a_damaged_tiny_imagenet_is_one_line(tmp_path):
    names = write_tiny(tmp_path)
    notes, place = tmp_path / "val" / "val_annotations.txt", f"tiny-imagenet:{tmp_path}"
    whole = notes.read_text()
    for text, said in {
        whole + "val_9.JPEG\tn00000001\n": "lacks val_9, which .*val_annotations.txt names",
        whole.replace(names[1], "n00000001"): "the class n00000001 is not in .*wnids.txt",
        whole[: whole.rindex("val_")]: r"does not say the class of .*val_5.JPEG",
        "val_1.JPEG\n": "an image and its wnid are expected, not 'val_1.JPEG'",
    }.items():
        notes.write_text(text)
        with pytest.raises(sc.FileError, match=said):
            open_images(place)
    notes.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(sc.FileError, match="an image and its wnid are expected"):
        open_images(place)
    notes.unlink()
    with pytest.raises(sc.FileError, match=r"neither class folders nor val_annotations.txt"):
        open_images(place)
    with pytest.raises(sc.InputError, match="choose from train, val"):
        open_images(f"{place}:test")
    with pytest.raises(sc.InputError, match="choose from train, val"):
        open_images(f"{place}:dev")
