"""Models of transformers: what comes out is what it gives itself."""

import json
import pickle
import shutil
import subprocess
import sys

import pytest

Image = pytest.importorskip("PIL.Image")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
hub = pytest.importorskip("huggingface_hub")

from smallcal.errors import FileError, InputError  # noqa: E402
from smallcal_lab.vision import open_model  # noqa: E402
from smallcal_lab.vision.models.model import Preprocess  # noqa: E402
from support.photos import photos  # noqa: E402

MAJOR = int(transformers.__version__.partition(".")[0])
PILLOW = {"backend": "pil"} if MAJOR >= 5 else {"use_fast": False}
PHOTOS = [Image.fromarray(one).resize((130, 97)) for one in photos(128)[:2]]


def vit_config(**more):
    return transformers.ViTConfig(
        **{"image_size": 48, "patch_size": 16, "hidden_size": 32, "num_hidden_layers": 1},
        **{"num_attention_heads": 2, "intermediate_size": 40, **more},
    )


@pytest.fixture(scope="module")
def vit(tmp_path_factory):
    """A small ViT of five classes, as ``save_pretrained`` writes it."""
    folder = tmp_path_factory.mktemp("models") / "vit"
    torch.manual_seed(0)
    names = dict(enumerate(["ant", "bee", "cat", "dog", "eel"]))
    config = vit_config(id2label=names, label2id={name: i for i, name in names.items()})
    transformers.utils.logging.disable_progress_bar()
    transformers.ViTForImageClassification(config).save_pretrained(folder)
    settings = {
        **{"image_processor_type": "ViTImageProcessor", "do_resize": True, "resample": 2},
        **{"size": {"height": 48, "width": 48}, "do_rescale": True, "rescale_factor": 1 / 255},
        **{"do_normalize": True, "image_mean": [0.5, 0.4, 0.3], "image_std": [0.5, 0.6, 0.7]},
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    return folder


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of the hub, which is not to be reached."""
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    return tmp_path / "hub"


def batch_of(model):
    return torch.stack([model.preprocess(one) for one in PHOTOS])


def test_is_transformers_itself(vit):
    model = open_model(f"hf:{vit}")
    own = transformers.ViTForImageClassification.from_pretrained(vit).eval()
    see = transformers.AutoImageProcessor.from_pretrained(vit, **PILLOW)
    batch = see(images=PHOTOS, return_tensors="pt")["pixel_values"]
    assert torch.equal(batch_of(model), batch)
    logits, features = model.outputs(batch)
    with torch.no_grad():
        body = own.vit(batch).last_hidden_state[:, 0]
        assert torch.equal(logits, own(batch).logits)
    assert torch.allclose(features, body, atol=1e-6)
    assert model.class_names == ("ant", "bee", "cat", "dog", "eel")
    assert (model.name, model.untrained, model.input.size) == ("vit", False, (48, 48))
    assert model.module(batch).shape == (2, 5)  # for training: a tensor
    pickle.loads(pickle.dumps(model.preprocess))
    assert all(
        torch.allclose(Preprocess(model.input)(one), model.preprocess(one)) for one in PHOTOS
    )


@pytest.mark.parametrize("edge", [64, 384])
def test_other_processors_are_understood(tmp_path, edge):
    config = transformers.ConvNextConfig(hidden_sizes=[4] * 4, depths=[1] * 4)
    transformers.ConvNextForImageClassification(config).save_pretrained(tmp_path)
    settings = {
        **{"image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": edge}},
        **{"crop_pct": 0.875, "resample": 3, "image_mean": [0.5] * 3, "image_std": [0.5] * 3},
        **{"do_normalize": True, "do_resize": True, "do_rescale": True, "rescale_factor": 1 / 255},
    }
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings))
    model = open_model(f"hf:{tmp_path}")
    assert (model.classes, model.class_names, model.input.size) == (2, (), (edge, edge))
    for one in PHOTOS:
        assert torch.allclose(Preprocess(model.input)(one), model.preprocess(one), atol=1e-5)


def test_other_classes_have_a_new_last_layer(vit):
    seeded = []
    for _ in range(2):
        torch.manual_seed(1)
        seeded.append(open_model(f"hf:{vit}", classes=8))
    model = seeded[0]
    assert (model.classes, model.untrained, model.class_names) == (8, True, ())
    assert model.fingerprint == seeded[1].fingerprint
    plain = open_model(f"hf:{vit}").module.state_dict()
    assert torch.equal(
        model.module.state_dict()["model.vit.layernorm.bias"], plain["model.vit.layernorm.bias"]
    )
    assert open_model(f"hf:{vit}", pretrained=False).untrained


def test_checkpoints_of_all_names(vit, tmp_path):
    """As the file of the folder names tensors, as its module does, and as ours does."""
    model = open_model(f"hf:{vit}")
    torch.save(model.module.model.state_dict(), tmp_path / "theirs.pt")
    torch.save({"model": model.module.state_dict()}, tmp_path / "ours.pt")
    for file in (vit / "model.safetensors", tmp_path / "theirs.pt", tmp_path / "ours.pt"):
        again = open_model(f"hf:{vit}", checkpoint=file)
        assert (again.fingerprint, again.untrained) == (model.fingerprint, False)
        other = open_model(f"hf:{vit}", checkpoint=file, classes=3)
        assert (other.classes, other.untrained) == (3, True)
    torch.save({"a": torch.zeros(3)}, tmp_path / "foreign.pt")
    with pytest.raises(FileError, match=r"another architecture than hf:.* missing .* 1 unknown"):
        open_model(f"hf:{vit}", checkpoint=tmp_path / "foreign.pt")


def test_without_a_trained_last_layer(vit, tmp_path):
    transformers.ViTModel(vit_config()).save_pretrained(tmp_path / "body")
    shutil.copy(vit / "preprocessor_config.json", tmp_path / "body")
    with pytest.raises(
        InputError, match=r"no weights for 2 of its tensors .*classifier.*classes=..."
    ):
        open_model(f"hf:{tmp_path / 'body'}")
    assert open_model(f"hf:{tmp_path / 'body'}", classes=3).untrained


def test_half_precision_becomes_single(vit, tmp_path):
    shutil.copytree(vit, tmp_path / "half")
    half = transformers.ViTForImageClassification.from_pretrained(vit).bfloat16()
    half.save_pretrained(tmp_path / "half")
    logits, _ = open_model(f"hf:{tmp_path / 'half'}").outputs(torch.zeros(2, 3, 48, 48))
    assert logits.dtype == torch.float32


def test_no_word_about_how_images_are_prepared(vit, tmp_path):
    shutil.copytree(vit, tmp_path / "vit")
    (tmp_path / "vit/preprocessor_config.json").unlink()
    with pytest.raises(FileError, match=r"no preprocessor_config.json that says"):
        open_model(f"hf:{tmp_path / 'vit'}")
    model = open_model(f"hf:{tmp_path / 'vit'}?input.size=48&input.mean=0.5&input.std=0.5")
    assert model.outputs(batch_of(model))[0].shape == (2, 5)


def test_options_are_of_the_configuration(vit):
    model = open_model(f"hf:{vit}?num_hidden_layers=2", pretrained=False)
    assert len(model.module.model.vit.layers) == 2
    with pytest.raises(InputError, match=r"'num_hiden_layers'; did you mean 'num_hidden_layers'"):
        open_model(f"hf:{vit}?num_hiden_layers=2")


def test_from_the_cache_and_without_network(vit, cache):
    with pytest.raises(
        FileError,
        match=r"someone/vit/config.json is not in the cache .*cannot be reached.*hf:DIR",
    ):
        open_model("hf:someone/vit")
    home = cache / "models--someone--vit"
    shutil.copytree(vit, home / "snapshots" / ("0" * 40))
    (home / "refs").mkdir()
    (home / "refs/main").write_text("0" * 40)
    assert open_model("hf:someone/vit").fingerprint == open_model(f"hf:{vit}").fingerprint


def test_places_that_are_not_there(vit, tmp_path):
    with pytest.raises(FileError, match=r"the folder .*vot is not there; did you mean '.*vit'"):
        open_model(f"hf:{vit.with_name('vot')}")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(FileError, match=r"cannot be loaded"):
        open_model(f"hf:{tmp_path}")


def test_needs_neither_torchvision_nor_timm(vit):
    code = (
        "import sys; sys.modules['torchvision'] = sys.modules['timm'] = None\n"
        "from smallcal_lab.vision import open_model\n"
        "from PIL import Image\n"
        f"model = open_model({f'hf:{vit}'!r})\n"
        "seen = model.preprocess(Image.new('RGB', (90, 70), 'red'))\n"
        "print(tuple(model.outputs(seen[None])[0].shape))\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stdout == "(1, 5)\n", ran.stderr
    assert ran.stderr == ""
