"""Models of timm and torchvision, and weights that are not there."""

import pickle
import socket
import sys
import time

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image")
torch = pytest.importorskip("torch")
timm = pytest.importorskip("timm")
vision = pytest.importorskip("torchvision")
hub = pytest.importorskip("huggingface_hub")

from safetensors.torch import save_file  # noqa: E402

from smallcal.errors import FileError, InputError, MissingExtraError  # noqa: E402
from smallcal_lab.vision import open_model  # noqa: E402
from smallcal_lab.vision.models import libraries  # noqa: E402
from smallcal_lab.vision.models.model import Preprocess  # noqa: E402
from support.photos import photos  # noqa: E402

PHOTOS = [Image.fromarray(one).resize((130, 97)) for one in photos(128)[:2]]


def batch_of(model):
    return torch.stack([model.preprocess(one) for one in PHOTOS])


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of the hub, which is not to be reached."""
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", False)
    return tmp_path / "hub"


@pytest.fixture
def silent(monkeypatch):
    """An address that takes calls and says nothing."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(16)
        monkeypatch.setattr(libraries, "PATIENCE", 0.3)
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def put(cache, repository, **files):
    """Put files into the cache as the hub's client would."""
    home = cache / f"models--{repository.replace('/', '--')}"
    folder = home / "snapshots" / ("0" * 40)
    folder.mkdir(parents=True)
    (home / "refs").mkdir()
    (home / "refs/main").write_text("0" * 40)
    for name, tensors in files.items():
        save_file(tensors, folder / name.replace("_", "."))


class TestTimm:
    @pytest.mark.parametrize(
        "name", ["test_vit", "test_convnext", "test_resnet", "test_efficientnet", "test_byobnet"]
    )
    def test_is_timm_itself(self, name):
        model = open_model(f"timm:{name}", pretrained=False, classes=6)
        own = timm.data.create_transform(**timm.data.resolve_model_data_config(model.module))
        assert all(torch.equal(model.preprocess(one), own(one)) for one in PHOTOS)
        assert all(np.allclose(Preprocess(model.input)(one), own(one), atol=1e-6) for one in PHOTOS)
        pickle.loads(pickle.dumps(model.preprocess))
        batch = batch_of(model)
        logits, features = model.outputs(batch)
        module = model.module.eval()
        with torch.inference_mode():
            assert torch.equal(logits, module(batch))
            seen = module.forward_head(module.forward_features(batch), pre_logits=True)
        assert torch.allclose(features, seen.flatten(1), atol=1e-6)
        assert (model.classes, model.untrained, model.name) == (6, True, name)

    def test_options(self):
        model = open_model("timm:vit_tiny_patch16_224?img_size=32&patch_size=8", pretrained=False)
        assert (model.classes, model.input.size) == (1000, (32, 32))
        assert model.module.patch_embed.grid_size == (4, 4)
        assert model.outputs(batch_of(model))[1].shape == (2, 192)

    def test_two_heads(self):
        model = open_model(
            "timm:deit_tiny_distilled_patch16_224?depth=1&img_size=32", pretrained=False, classes=3
        )
        logits, features = model.outputs(batch_of(model))
        assert (logits.shape, features.shape) == ((2, 3), (2, 192))

    def test_weights_come_from_the_cache(self, cache):
        torch.manual_seed(5)
        weights = timm.create_model("test_vit").state_dict()
        put(cache, "timm/test_vit.r160_in1k", model_safetensors=weights)
        start = time.monotonic()
        model = open_model("timm:test_vit")
        assert time.monotonic() - start < 5
        assert not model.untrained
        assert torch.equal(model.module.head.weight, weights["head.weight"])
        other = open_model("timm:test_vit.r160_in1k", classes=7)
        assert (other.classes, other.untrained) == (7, True)
        assert torch.equal(other.module.norm.weight, weights["norm.weight"])
        assert other.name == "test_vit.r160_in1k"

    def test_a_checkpoint_needs_no_network(self, cache, tmp_path):
        weights = timm.create_model("test_vit", num_classes=4).state_dict()
        save_file(weights, tmp_path / "own.safetensors")
        model = open_model("timm:test_vit", checkpoint=tmp_path / "own.safetensors")
        assert (model.classes, model.untrained) == (4, False)
        with pytest.raises(FileError, match=r"another architecture than timm:test_resnet"):
            open_model("timm:test_resnet", checkpoint=tmp_path / "own.safetensors")

    def test_a_checkpoint_for_other_sizes_of_images(self, tmp_path):
        weights = timm.create_model("test_vit", num_classes=4).state_dict()
        torch.save(weights, tmp_path / "own.pt")
        model = open_model("timm:test_vit?img_size=64", checkpoint=tmp_path / "own.pt")
        assert model.input.size == (64, 64)
        assert model.module.pos_embed.shape != weights["pos_embed"].shape
        assert torch.equal(model.module.head.weight, weights["head.weight"])
        with pytest.raises(FileError, match=r"tensors: .* of another shape"):
            open_model("timm:test_vit2?img_size=64&embed_dim=32", checkpoint=tmp_path / "own.pt")

    def test_weights_at_an_address(self, tmp_path, monkeypatch, silent):
        monkeypatch.setenv("https_proxy", silent)
        monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
        with pytest.raises(FileError, match=r"gcvit.*pth is not in the cache .*cannot be reached"):
            open_model("timm:gcvit_xtiny")

    @pytest.mark.parametrize(
        ("source", "match"),
        [
            ("timm:test_vti", "no model 'test_vti'; did you mean 'test_vit'"),
            ("timm:nothing_like_it", "no model 'nothing_like_it'; see timm.list_models"),
            ("timm:test_vit.r160_in1", "no weights 'r160_in1'; did you mean 'r160_in1k'"),
            ("timm:test_vit?depht=3", "depht"),
            ("timm:vit_small_patch14_dinov2?depth=1", "no classes of its own.*classes=..."),
        ],
    )
    def test_bad_strings(self, source, match):
        with pytest.raises(InputError, match=match):
            open_model(source, pretrained=False)

    def test_no_weights_anywhere(self):
        name = next(one for one in timm.list_models("vit_*") if not timm.is_model_pretrained(one))
        with pytest.raises(InputError, match=f"no weights for {name}: pass pretrained=False"):
            open_model(f"timm:{name}")


class TestMissing:
    LINE = "test_vit.r160_in1k/model.safetensors is not in the cache .*hub, and 127.0.0.1 cannot be"

    def test_no_network(self, cache):
        start = time.monotonic()
        with pytest.raises(FileError, match=self.LINE) as caught:
            open_model("timm:test_vit")
        assert time.monotonic() - start < 5
        assert "checkpoint=FILE" in str(caught.value)
        assert "--checkpoint FILE" in caught.value.shell

    def test_a_network_that_says_nothing(self, cache, silent, monkeypatch):
        monkeypatch.setattr(hub.constants, "ENDPOINT", silent)
        start = time.monotonic()
        with pytest.raises(FileError, match=self.LINE):
            open_model("timm:test_vit")
        assert time.monotonic() - start < 5

    def test_offline_by_choice(self, cache, monkeypatch):
        monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", True)
        for source in ("timm:test_vit", "timm:hf-hub:timm/test_vit.r160_in1k"):
            with pytest.raises(FileError, match=r"HF_HUB_OFFLINE is set"):
                open_model(source)

    def test_a_server_that_answers_is_there(self):
        from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
        from threading import Thread

        class Refuses(BaseHTTPRequestHandler):
            def do_HEAD(self):
                self.send_error(403)

            def log_message(self, *_):
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Refuses) as server:
            Thread(target=server.serve_forever, daemon=True).start()
            assert libraries.reach(f"http://127.0.0.1:{server.server_port}") == ""
            server.shutdown()

    @pytest.mark.parametrize("name", ["timm", "torchvision", "transformers"])
    def test_no_library(self, name, monkeypatch):
        monkeypatch.setitem(sys.modules, name, None)
        kind = "hf" if name == "transformers" else name
        with pytest.raises(MissingExtraError, match=f"'{name}': pip install"):
            open_model(f"{kind}:resnet18")

    def test_a_library_that_does_not_match_torch(self, monkeypatch):
        def broken(_):
            raise RuntimeError("operator torchvision::nms does not exist")

        monkeypatch.setattr(libraries.importlib, "import_module", broken)
        with pytest.raises(MissingExtraError, match=r"nms does not exist.*builds that match"):
            libraries.library("timm", "timm:resnet18")


class TestTorchvision:
    @pytest.fixture
    def home(self, tmp_path, monkeypatch):
        before = torch.hub.get_dir()
        torch.hub.set_dir(tmp_path)
        (tmp_path / "checkpoints").mkdir()
        yield tmp_path / "checkpoints"
        torch.hub.set_dir(before)

    @pytest.mark.parametrize("name", ["mobilenet_v3_small", "squeezenet1_1"])
    def test_is_torchvision_itself(self, name):
        model = open_model(f"torchvision:{name}", pretrained=False, classes=6)
        own = vision.models.get_model_weights(name).DEFAULT.transforms()
        assert all(torch.equal(model.preprocess(one), own(one)) for one in PHOTOS)
        assert all(np.allclose(Preprocess(model.input)(one), own(one), atol=1e-6) for one in PHOTOS)
        pickle.loads(pickle.dumps(model.preprocess))
        logits, features = model.outputs(batch_of(model))
        with torch.inference_mode():
            assert torch.equal(logits, model.module.eval()(batch_of(model)))
        assert (len(features), features.ndim, model.untrained) == (2, 2, True)

    @pytest.mark.parametrize("which", ["", ".IMAGENET1K_V1"])
    def test_weights_come_from_the_cache(self, home, which):
        weights = vision.models.SqueezeNet1_1_Weights.DEFAULT
        state = vision.models.squeezenet1_1().state_dict()
        torch.save(state, home / weights.url.rpartition("/")[2])
        model = open_model(f"torchvision:squeezenet1_1{which}")
        assert torch.equal(model.module.classifier[1].weight, state["classifier.1.weight"])
        assert model.class_names == tuple(weights.meta["categories"])
        assert not model.untrained
        other = open_model(f"torchvision:squeezenet1_1{which}", classes=5)
        assert torch.equal(other.module.features[0].weight, state["features.0.weight"])
        assert other.outputs(batch_of(other))[0].shape == (2, 5)
        assert (other.untrained, other.class_names) == (True, ())

    def test_no_network(self, home, silent, monkeypatch):
        monkeypatch.setattr(libraries, "PATIENCE", 0.3)
        monkeypatch.setenv("https_proxy", silent)
        with pytest.raises(
            FileError, match=r"squeezenet1_1-.*pth is not in the cache .*cannot be reached"
        ):
            open_model("torchvision:squeezenet1_1")

    def test_more_than_logits_in_training(self):
        model = open_model(
            "torchvision:googlenet?init_weights=false&aux_logits=true", pretrained=False, classes=3
        )
        assert model.module.train()(torch.rand(2, 3, 64, 64)).shape == (2, 3)

    @pytest.mark.parametrize(
        ("source", "match"),
        [
            ("torchvision:resnet81", "no classifier 'resnet81'; did you mean 'resnet18'"),
            ("torchvision:resnet18.V1", "no weights 'V1'; choose from IMAGENET1K_V1"),
            ("torchvision:resnet18?depth=3", "unexpected keyword argument 'depth'"),
        ],
    )
    def test_bad_strings(self, source, match):
        with pytest.raises(InputError, match=match):
            open_model(source, pretrained=False)


def test_no_download_waits_for_ever(monkeypatch):
    before, seen = socket.getdefaulttimeout(), []

    def create(*args, **options):
        seen.append(socket.getdefaulttimeout())
        raise OSError("the connection was lost")

    monkeypatch.setattr(timm, "create_model", create)
    with pytest.raises(FileError, match="resnet18 cannot be loaded"):
        open_model("timm:resnet18", pretrained=False)
    assert seen == [60]
    assert socket.getdefaulttimeout() == before
