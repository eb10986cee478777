"""Data sets of the package ``datasets``: read if it is there, one line if not."""

import importlib.util
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("PIL", reason="images need Pillow")

from PIL import Image

import smallcal as sc
from smallcal_lab.vision import image_parts, open_images
from support.layouts import crops


def test_without_the_package_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(sc.MissingExtraError, match="pip install datasets"):
        open_images("hf-datasets:cifar10:test")
    with pytest.raises(sc.InputError, match="NAME:CONFIG:SPLIT"):
        open_images("hf-datasets:a:b:c:d")


@pytest.fixture
def saved(tmp_path):
    if importlib.util.find_spec("datasets") is None:
        pytest.skip("datasets is not installed")
    import datasets

    pictures = [Image.fromarray(one) for one in crops(4)]
    pictures[2] = pictures[2].convert("L")
    features = datasets.Features(
        {"img": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])}
    )
    rows = {"img": pictures, "label": [1, 0, 0, 1]}
    whole = datasets.Dataset.from_dict(rows, features=features)
    datasets.DatasetDict({"train": whole, "test": whole.select([0, 1])}).save_to_disk(
        tmp_path / "d"
    )
    whole.remove_columns("label").save_to_disk(tmp_path / "unlabelled")
    return tmp_path / "d"


def test_a_saved_data_set_is_read(saved):
    assert image_parts(f"hf-datasets:{saved}") == ("train", "test")
    images = open_images(f"hf-datasets:{saved}:train")
    assert images.labels.tolist() == [1, 0, 0, 1]
    assert images.classes == ("cat", "dog")
    np.testing.assert_array_equal(np.asarray(images.image(1)), crops(4)[1])
    assert images.take([2]).image(0).mode == "RGB"
    assert images.ids[3] == "train-0000003"
    with pytest.raises(sc.InputError, match="names none of 2 splits; choose from train, test"):
        open_images(f"hf-datasets:{saved}")
    with pytest.raises(sc.FileError, match="one column of type ClassLabel; it has 0"):
        open_images(f"hf-datasets:{saved.with_name('unlabelled')}")


def test_what_cannot_be_loaded_is_one_line(saved, monkeypatch):
    (saved.parent / "empty").mkdir()
    with pytest.raises(sc.FileError, match="cannot be loaded") as caught:
        open_images(f"hf-datasets:{saved.parent / 'empty'}")
    assert "\n" not in str(caught.value)


def test_without_pillow_one_line_says_what_to_install():
    program = (
        "import sys; sys.modules['PIL'] = None\n"
        "try:\n    from smallcal_lab.vision import open_images\n"
        "except ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == (
        "working with images needs the package 'pillow': pip install 'smallcal-lab[vision]'"
    )
