"""Images from class folders: any mode and size becomes RGB; what cannot be read is one line."""

import os
import pickle

import numpy as np
import pytest

pytest.importorskip("PIL", reason="images need Pillow")

from PIL import Image

import smallcal as sc
from smallcal_lab.vision import image_parts, open_images
from support.layouts import crops, photograph, write_folders


def pixels(image):
    return np.asarray(image).astype(int)


def one(root, name, image, **options):
    """Write an image into a class folder of its own and read it back."""
    (root / "a").mkdir(parents=True, exist_ok=True)
    image.save(root / "a" / name, **options)
    return open_images(f"folder:{root}").image(0)


def test_class_folders_are_classes_by_name(tmp_path):
    write_folders(tmp_path, ["dog", "Cat", "bird"], 3, ending=".png")
    (tmp_path / ".cache").mkdir()
    (tmp_path / "README.txt").write_text("not a class")
    (tmp_path / "dog" / "notes.txt").write_text("not an image")
    (tmp_path / "dog" / ".hidden.png").write_bytes(b"")
    images = open_images(f"folder:{tmp_path}")
    assert images.classes == ("Cat", "bird", "dog")
    assert images.columns is None
    assert images.labels.dtype == np.int64
    assert images.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert images.ids[:4] == ("Cat/Cat_0.png", "Cat/Cat_1.png", "Cat/Cat_2.png", "bird/bird_0.png")
    assert len(images) == 9
    stored = crops(9, 16)  # dog's came first
    np.testing.assert_array_equal(pixels(images.image(6)), stored[0])
    np.testing.assert_array_equal(pixels(images.image(0)), stored[3])


def test_folders_within_class_folders_belong_to_the_class(tmp_path):
    write_folders(tmp_path, ["a", "b"], 1, inner="x/y")
    assert open_images(f"folder:{tmp_path}").ids == ("a/x/y/a_0.JPEG", "b/x/y/b_0.JPEG")


def test_take_keeps_images_labels_and_ids_together(tmp_path):
    images = open_images(f"folder:{write_folders(tmp_path, ['a', 'b', 'c'], 2, ending='.png')}")
    some = images.take([5, 0, 3]).take(np.array([2, 0]))
    assert some.ids == (images.ids[3], images.ids[5])
    assert some.labels.tolist() == [1, 2]
    assert some.classes == images.classes
    np.testing.assert_array_equal(pixels(some.image(1)), pixels(images.image(5)))
    assert len(images.take([])) == 0
    for wrong in ([6], [-1], [0.5], [True], [[0]]):
        with pytest.raises(sc.InputError, match="rows of"):
            images.take(wrong)
    with pytest.raises(sc.InputError, match="has no image 6; it has 6"):
        images.image(6)


def test_labels_cannot_be_changed_and_a_set_can_be_sent_to_another_process(tmp_path):
    images = open_images(f"folder:{write_folders(tmp_path, ['a', 'b'])}")
    with pytest.raises(ValueError, match="read-only"):
        images.labels[0] = 1
    again = pickle.loads(pickle.dumps(images))
    assert again.checksum() == images.checksum()
    assert again.image(3).tobytes() == images.image(3).tobytes()


def test_the_checksum_sees_names_order_and_labels_and_no_place(tmp_path):
    first = open_images(f"folder:{write_folders(tmp_path / 'one', ['a', 'b'], 2)}")
    other = open_images(f"folder:{write_folders(tmp_path / 'two', ['a', 'b'], 2)}")
    assert first.checksum() == other.checksum()
    assert first.take([1, 0, 2, 3]).checksum() != first.checksum()
    (tmp_path / "two" / "a" / "a_0.JPEG").rename(tmp_path / "two" / "b" / "a_0.JPEG")
    assert open_images(f"folder:{tmp_path / 'two'}").checksum() != first.checksum()


# --- modes and sizes ----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "RGB", "I;16"])
def test_every_mode_of_png_becomes_rgb(tmp_path, mode):
    photo = Image.fromarray(photograph()[:40, :60])
    grey = np.asarray(photo.convert("L"))
    sixteen = Image.fromarray(grey.astype(np.uint16) * 257)
    image = sixteen if mode == "I;16" else photo.convert(mode)
    found = one(tmp_path, "x.png", image)
    assert found.mode == "RGB"
    assert found.size == (60, 40)
    expected = photo.convert("L") if mode.startswith(("L", "I")) else photo.convert(mode)
    np.testing.assert_array_equal(pixels(found), pixels(expected.convert("RGB")))


def test_cmyk_is_near_the_photograph_and_grey_jpeg_is_grey(tmp_path):
    photo = Image.fromarray(photograph()[:64, :64])
    found = one(tmp_path / "cmyk", "x.jpg", photo.convert("CMYK"), quality=95)
    assert found.mode == "RGB"
    assert np.abs(pixels(found) - pixels(photo)).mean() < 12
    grey = pixels(one(tmp_path / "grey", "x.jpg", photo.convert("L")))
    assert (grey[..., 0] == grey[..., 2]).all()


def test_a_palette_with_transparency_and_a_moving_picture(tmp_path):
    photo = Image.fromarray(photograph()[:32, :32])
    palette = photo.convert("P")
    found = one(tmp_path / "p", "x.png", palette, transparency=bytes([0, 128] * 128))
    np.testing.assert_array_equal(pixels(found), pixels(palette.convert("RGB")))
    first, second = Image.new("L", (9, 9), 30), Image.new("L", (9, 9), 220)
    moving = one(tmp_path / "g", "x.gif", first, save_all=True, append_images=[second])
    assert pixels(moving).max() <= 31


def test_values_whose_white_is_unknown_are_refused(tmp_path):
    whole, fractions = np.array([[0, 70000]], dtype=np.int32), np.array([[0.5, 1.5]], np.float32)
    for name, values in (("32 bits", whole), ("fractions", fractions)):
        with pytest.raises(sc.FileError, match=rf"x.tif: its pixels .*{name}"):
            one(tmp_path / name[:2], "x.tif", Image.fromarray(values))


# --- bad input ----------------------------------------------------------------------------------


def damaged(kind):
    def cut(file):
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])

    def empty(file):
        file.write_bytes(b"")

    def text(file):
        file.write_text("hello")

    def postscript(file):
        file.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n")

    def gone(file):
        file.unlink()

    def pipe(file):
        file.unlink()
        os.mkfifo(file)

    return locals()[kind]


@pytest.mark.parametrize("kind", ["cut", "empty", "text", "postscript", "gone", "pipe"])
@pytest.mark.parametrize("ending", [".JPEG", ".png", ".webp", ".tiff"])
def test_a_damaged_image_is_one_line_that_names_the_file(tmp_path, kind, ending):
    images = open_images(f"folder:{write_folders(tmp_path, ['a', 'b'], ending=ending, side=64)}")
    file = tmp_path / "b" / f"b_1{ending}"
    damaged(kind)(file)
    with pytest.raises(sc.FileError) as caught:
        images.image(3)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert images.image(2).mode == "RGB"


def test_random_damage_is_an_image_or_one_line(tmp_path):
    rng = np.random.default_rng(5)
    for ending in (".jpg", ".png", ".gif", ".bmp", ".tif", ".ppm", ".webp"):
        root = write_folders(tmp_path / ending[1:], ["a", "b"], 1, ending=ending)
        images, file = open_images(f"folder:{root}"), root / "a" / f"a_0{ending}"
        whole = file.read_bytes()
        for _ in range(40):
            raw = bytearray(whole)
            for place in rng.integers(min(len(raw), 200), size=3):
                raw[place] = rng.integers(256)
            file.write_bytes(raw)
            said = ""
            try:
                assert images.image(0).mode == "RGB"
            except sc.FileError as error:
                said = str(error)
            assert not said or (str(file) in said and "\n" not in said)


def test_an_empty_class_folder_is_named(tmp_path):
    write_folders(tmp_path, ["a", "b"])
    (tmp_path / "c").mkdir()
    with pytest.raises(sc.FileError, match=r"the class folder .*c holds no image"):
        open_images(f"folder:{tmp_path}")


def test_wrong_places_and_kinds_say_what_to_write(tmp_path):
    root = write_folders(tmp_path / "data", ["a", "b"])
    for source, said in {
        f"folder:{tmp_path / 'dat'}": r"the folder .*dat is not there; did you mean .*data'\?",
        f"folder:{root / 'a' / 'a_0.JPEG'}": "is a file, not a folder",
        "folder:": "write folder:DIR",
        "folder": "write folder:DIR",
        "hf-datasets:": "write hf-datasets:NAME",
        f"cifar:{root}": "did you mean 'cifar10'",
        "nothing": "choose from folder, cifar10",
        f"folder:{root / 'a'}": "holds no class folders; images belong in ROOT/CLASS/NAME.png",
        f"folder:{root}:val": "has no part 'val'; its folders are classes",
        "folder:a\0b": "folder: ",
    }.items():
        with pytest.raises(sc.SmallcalError, match=said) as caught:
            open_images(source)
        assert "\n" not in str(caught.value)


def test_train_and_val_are_parts_and_no_classes(tmp_path):
    for part, each in (("train", 3), ("val", 1)):
        write_folders(tmp_path / "pets" / part, ["cat", "dog"], each)
    root = tmp_path / "pets"
    assert image_parts(f"folder:{root}") == ("train", "val")
    with pytest.raises(sc.InputError, match=r"holds train, val and no classes; .*pets:val"):
        open_images(f"folder:{root}")
    images = open_images(f"folder:{root}:train")
    assert (images.name, len(images)) == ("pets-train", 6)
    assert open_images(f"folder:{root / 'val'}").ids == ("cat/cat_0.JPEG", "dog/dog_0.JPEG")
    with pytest.raises(sc.InputError, match="choose from train, val"):
        open_images(f"folder:{root}:dev")
    with pytest.raises(sc.InputError, match="is already one part"):
        image_parts(f"folder:{root}:val")


def test_a_folder_may_have_colons_and_a_tilde(tmp_path, monkeypatch):
    write_folders(tmp_path / "a:b" / "val", ["x", "y"], 1)
    assert len(open_images(f"folder:{tmp_path / 'a:b'}:val")) == 2
    monkeypatch.setenv("HOME", str(tmp_path))
    assert len(open_images("folder:~/a:b:val")) == 2


def test_names_that_are_no_text_are_kept(tmp_path):
    write_folders(tmp_path, ["a", "b"], 1)
    try:
        os.rename(tmp_path / "a" / "a_0.JPEG", os.fsencode(tmp_path / "a") + b"/\xff.JPEG")
    except OSError:
        pytest.skip("this file system knows only text")
    images = open_images(f"folder:{tmp_path}")
    assert len(images.checksum()) == 64
    assert images.image(0).size == (16, 16)
