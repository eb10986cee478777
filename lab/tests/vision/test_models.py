"""Models of one's own, checkpoints, and what all kinds share."""

import argparse
import hashlib
import io
import pickle
import re
import subprocess
import sys
import zipfile

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image")
torch = pytest.importorskip("torch")

from smallcal.errors import FileError, InputError  # noqa: E402
from smallcal_lab.vision import InputSpec, open_model  # noqa: E402
from smallcal_lab.vision.models.model import (  # noqa: E402
    Preprocess,
    changed,
    split_source,
)
from support.photos import photos  # noqa: E402
from support.small_nets import Small  # noqa: E402

SMALL = "torch:support.small_nets:Small"


def batch_of(model, n=3):
    return torch.stack([model.preprocess(Image.fromarray(one)) for one in photos(48)[:n]])


def checkpoint(file, module, **more):
    content = {
        **{"format": "smallcal-checkpoint-1", "source": SMALL, "options": {"width": 5}},
        **{"classes": 3, "class_names": ["a", "b", "c"], "model": module.state_dict()},
        **{"recipe": "", "epoch": 2, "seed": 7, **more},
    }
    torch.save(content, file)
    return file


def own(file, source=SMALL):
    """How a checkpoint of one's own network is opened."""
    return f"checkpoint:{file}?{source.replace(':', '=', 1)}"


def fails(kind, match, source, **asked):
    with pytest.raises(kind, match=match) as caught:
        open_model(source, **asked)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class TestFactory:
    def test_logits_and_features_are_those_of_a_plain_forward(self):
        torch.manual_seed(0)
        model = open_model(SMALL, classes=7, options={"width": 5})
        batch = batch_of(model)
        logits, features = model.outputs(batch)
        with torch.no_grad():
            model.module.eval()
            plain = model.module.body(batch).mean((2, 3))
            assert torch.equal(features, plain)
            assert torch.equal(logits, model.module.fc(plain))
        assert (model.classes, model.name, model.device) == (7, "Small", "cpu")
        assert model.input == InputSpec((32, 32), (0.5,) * 3, (0.25,) * 3, crop=0.875)
        assert not model.untrained  # whatever the factory loads is its own affair

    def test_asking_leaves_the_mode_and_no_hook(self):
        model = open_model(SMALL)
        model.module.train()
        model.module.body[1].eval()
        before = [one.training for one in model.module.modules()]
        first, _ = model.outputs(batch_of(model))
        assert torch.equal(first, model.outputs(batch_of(model))[0])  # no dropout
        assert [one.training for one in model.module.modules()] == before
        pickle.dumps(model.module)
        assert not any(one._forward_pre_hooks for one in model.module.modules())

    def test_a_convolution_may_be_the_last_layer(self):
        model = open_model("torch:support.small_nets:Convolved")
        batch = torch.rand(2, 3, 16, 16)
        _, features = model.outputs(batch)
        assert torch.allclose(features, model.module.stem(batch).mean((2, 3)), atol=1e-6)

    def test_a_pair_has_its_own_preprocessing_and_no_known_last_layer(self):
        model = open_model("torch:support.small_nets:pair")
        assert (model.classes, model.input.size) == (3, (24, 24))
        logits, features = model.outputs(batch_of(model))
        assert features is None
        assert logits.shape == (3, 3)

    def test_more_than_logits_becomes_logits(self):
        model = open_model("torch:support.small_nets:Wide", classes=5)
        assert model.module(batch_of(model)).shape == (3, 5)
        assert model.outputs(batch_of(model))[1].shape == (3, 6)

    def test_input_may_be_said_in_the_string(self):
        model = open_model("torch:support.small_nets:Bare?input.size=8,6&input.mean=0.25")
        assert model.input == InputSpec((8, 6), mean=(0.25,) * 3)
        assert model.preprocess(Image.new("RGB", (30, 30))).shape == (3, 8, 6)

    def test_the_current_folder_counts(self, tmp_path):
        code = "from smallcal_lab.vision import open_model; print(open_model('torch:own.nets:Net'))"
        (tmp_path / "own").mkdir()
        (tmp_path / "own/nets.py").write_text(
            "from torch import nn\n"
            "def Net(**given):\n"
            "    net = nn.Sequential(nn.Flatten(), nn.Linear(12, given.get('num_classes', 2)))\n"
            "    net.input_spec = {'size': 2}\n"
            "    return net\n"
        )
        # As a console script starts: without the current folder on the path.
        code = f"import sys; sys.path.remove(''); {code}"
        ran = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
        )
        assert ran.stdout == "<VisionModel torch:own.nets:Net: 2 classes>\n", ran.stderr

    @pytest.mark.parametrize(
        ("source", "match"),
        [
            ("torch:support.small_nets", "write torch:package.module:factory"),
            (f"{SMALL}?widht=3", "unexpected keyword argument 'widht'"),
            (f"{SMALL}?width", "written \\?name=value"),
            (f"{SMALL}?width=3&width=4", "each once"),
            ("torch:support.small_nets:Smal", "no factory 'Smal'; did you mean 'Small'"),
            ("torch:support.small_nets:broken", "RuntimeError: no such layer"),
            ("torch:support.small_nets:nothing", "must give a torch.nn.Module.*got int"),
            ("torch:support.small_nets:Bare", "does not say its input"),
            (f"{SMALL}?input.size=1", "cannot take images of 1 x 1"),
            (f"{SMALL}?input.sise=9", "no 'sise'; did you mean 'size'"),
            (f"{SMALL}?input.crop=2", "crop cannot be 2"),
            (f"{SMALL}?input.std=0", "std cannot be 0"),
            (f"{SMALL}?input.interpolation=cubic", "interpolation 'cubic'; did you mean 'bicubic'"),
            ("tmm:resnet18", "unknown kind of model 'tmm'; did you mean 'timm'"),
            ("torch:", "write torch:package.module:factory"),
        ],
    )
    def test_bad_strings(self, source, match):
        fails(InputError, match, source)

    def test_a_module_that_is_not_there(self):
        fails(
            FileError,
            "importing support.smal_nets: .*No module named",
            "torch:support.smal_nets:Small",
        )

    def test_bad_classes(self):
        fails(InputError, "gives 4 columns, not 6", "torch:support.small_nets:fixed", classes=6)
        fails(InputError, "2 or more; got 1", SMALL, classes=1)

    def test_a_device_that_is_not_there(self):
        if torch.cuda.is_available():
            pytest.skip("it is there")
        model = open_model(SMALL)
        assert model.to("cpu") is model
        with pytest.raises(InputError, match="cannot use the device 'cuda'"):
            model.to("cuda")


def test_without_torch():
    code = "import sys; sys.modules['torch'] = None; from smallcal_lab.vision import open_model"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stderr.endswith("needs the package 'torch': pip install 'smallcal-lab[vision]'\n")


class TestStrings:
    def test_values(self):
        _, place, options = split_source("timm:a.b?x=3&y=1e-3&z=True&n=none&t=gelu&l=1,0.5")
        assert place == "a.b"
        assert options == {"x": 3, "y": 1e-3, "z": True, "n": None, "t": "gelu", "l": [1, 0.5]}

    def test_arguments_win(self):
        model = open_model(f"{SMALL}?width=3", options={"width": 4})
        assert model.module.fc.in_features == 4

    @pytest.mark.parametrize(
        ("place", "name"),
        [
            ("timm/x.y_1", "x.y_1"),
            ("runs/seed 0/last.pt", "last.pt"),
            ("a.b:make", "make"),
            ("..", "model"),
        ],
    )
    def test_names_fit_files(self, place, name):
        from smallcal_lab.vision.models.model import Order

        assert Order("", place).name == name


class TestCheckpoint:
    def test_names_its_own_network(self, tmp_path):
        torch.manual_seed(3)
        module = Small(3, width=5)
        file = checkpoint(tmp_path / "last.pt", module)
        model = open_model(own(file))
        assert (model.classes, model.class_names, model.seed) == (3, ("a", "b", "c"), 7)
        assert (model.name, model.source) == ("Small", own(file))
        assert not model.untrained
        batch = batch_of(model)
        assert torch.equal(model.outputs(batch)[0], module.eval()(batch))

    @pytest.mark.parametrize("key", [None, "model", "state_dict", "model_state_dict"])
    @pytest.mark.parametrize("prefix", ["", "module.", "model.", "_orig_mod.", "module._orig_mod."])
    def test_where_programs_put_weights(self, tmp_path, key, prefix):
        module = Small(4)
        state = {prefix + name: value for name, value in module.state_dict().items()}
        more = {"epoch": 3, "args": argparse.Namespace(lr=0.1)}
        torch.save(state if key is None else {key: state, **more}, tmp_path / "net.pth")
        model = open_model(SMALL, checkpoint=tmp_path / "net.pth")  # classes are the file's
        assert (model.classes, model.untrained) == (4, False)
        assert torch.equal(model.module.fc.weight, module.fc.weight)

    def test_safetensors(self, tmp_path):
        tensors = pytest.importorskip("safetensors.torch")
        module = Small(4)
        tensors.save_file(module.state_dict(), tmp_path / "net.safetensors")
        model = open_model(SMALL, checkpoint=tmp_path / "net.safetensors")
        assert torch.equal(model.module.fc.weight, module.fc.weight)
        cut = tmp_path / "cut.safetensors"
        cut.write_bytes((tmp_path / "net.safetensors").read_bytes()[:-100])
        fails(FileError, "cut.safetensors is damaged", SMALL, checkpoint=cut)

    def test_an_old_file_that_is_no_archive(self, tmp_path):
        module = Small(4)
        torch.save(module.state_dict(), tmp_path / "a.pt", _use_new_zipfile_serialization=False)
        model = open_model(SMALL, checkpoint=tmp_path / "a.pt")
        assert torch.equal(model.module.fc.weight, module.fc.weight)

    def test_other_classes_have_a_new_last_layer(self, tmp_path):
        module = Small(4)
        torch.save(module.state_dict(), tmp_path / "net.pt")
        model = open_model(SMALL, checkpoint=tmp_path / "net.pt", classes=9)
        assert (model.classes, model.untrained) == (9, True)
        assert torch.equal(model.module.body[0].weight, module.body[0].weight)

    def test_another_architecture_is_one_line(self, tmp_path):
        state = Small(10, width=5).state_dict()
        state["extra"] = state.pop("fc.bias")
        torch.save(state, tmp_path / "net.pt")
        said = fails(FileError, "another architecture", SMALL, checkpoint=tmp_path / "net.pt")
        assert "which has 9 tensors: 1 missing (fc.bias), 1 unknown (extra), 7 of another" in said
        assert "body.0.weight [5, 3, 3, 3] for [6, 3, 3, 3]" in said

    def test_no_file_runs_code(self, tmp_path):
        class Trap:
            def __reduce__(self):
                return exec, ("raise SystemExit('it ran')",)

        for name, content in (("a.pt", {"model": Trap()}), ("b.pt", Small())):
            torch.save(content, tmp_path / name)
            fails(
                FileError, "could run code, which is never done", SMALL, checkpoint=tmp_path / name
            )

    @pytest.mark.parametrize("named", ["", "?torch=support.small_nets:Small", "?torch=marks"])
    def test_no_file_names_what_is_imported(self, tmp_path, monkeypatch, named):
        (tmp_path / "marks.py").write_text("open('ran', 'w').close()\nmake = None\n")
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(tmp_path)
        sys.modules.pop("marks", None)
        options = {"torch": "marks:make"}  # neither does it say that its user named it
        file = checkpoint(tmp_path / "a.pt", Small(), source="torch:marks:make", options=options)
        said = fails(FileError, "code that only a file names is never", f"checkpoint:{file}{named}")
        assert f"if you trust it, write checkpoint:{file}?torch=marks:make" in said
        assert not (tmp_path / "ran").exists()
        fails(InputError, "has no factory 'make'", f"checkpoint:{file}?torch=marks:make")
        assert (tmp_path / "ran").exists()

    @pytest.mark.parametrize("source", ["os:system", "pickle:loads", "support.small_nets:fixed"])
    def test_no_file_calls_what_it_likes(self, tmp_path, source):
        options = {"command": f"touch {tmp_path}/ran"}
        file = checkpoint(tmp_path / "a.pt", Small(), source=f"torch:{source}", options=options)
        fails(FileError, "needs the code of torch:.*, and code that only", f"checkpoint:{file}")
        assert not (tmp_path / "ran").exists()

    def test_a_function_of_ones_own_may_be_called(self, tmp_path):
        source = "torch:support.small_nets:fixed"
        file = checkpoint(tmp_path / "a.pt", Small(4), source=source, options={}, classes=4)
        assert open_model(own(file, source)).classes == 4

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            *(("classes", one) for one in ("many", 1, 9)),
            *(("options", one) for one in ([1], {1: 2}, {"depth": 2}, {"input.size": "big"})),
            *(("source", one) for one in ("nothing", "checkpoint:a.pt", "onnx:a.onnx", 3)),
            ("format", "other"),
        ],
    )
    def test_nonsense_in_a_checkpoint(self, tmp_path, key, value):
        file = checkpoint(tmp_path / "a.pt", Small(3, width=5), **{key: value})
        assert fails((FileError, InputError), None, own(file))

    def test_a_checkpoint_as_a_start_for_other_classes(self, tmp_path):
        file = checkpoint(tmp_path / "a.pt", Small(3, width=5))
        model = open_model(own(file), classes=9)
        assert (model.classes, model.untrained, model.class_names, model.seed) == (
            9,
            True,
            (),
            None,
        )

    @pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04 and more", None])
    def test_damage(self, tmp_path, content):
        if content is None:
            whole = io.BytesIO()
            torch.save(Small().state_dict(), whole)
            content = whole.getvalue()[:1500]
        (tmp_path / "a.pt").write_bytes(content)
        fails(FileError, "a.pt is damaged", SMALL, checkpoint=tmp_path / "a.pt")

    def test_a_bomb(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "a.pt", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("archive/data/0", bytes(50_000_000))
        fails(FileError, "a.pt", SMALL, checkpoint=tmp_path / "a.pt")

    def test_a_huge_view_of_a_few_numbers(self, tmp_path):
        state = {**Small().state_dict(), "fc.weight": torch.zeros(1, 6).expand(10**9, 6)}
        torch.save(state, tmp_path / "a.pt")
        fails(FileError, "unpacks from .* to 24,000 MB", SMALL, checkpoint=tmp_path / "a.pt")

    def test_other_content(self, tmp_path):
        for content in ([1, 2], {}, {"model": {"a": 1}}, {"epoch": 3}):
            torch.save(content, tmp_path / "a.pt")
            fails(FileError, "holds no state dict", SMALL, checkpoint=tmp_path / "a.pt")

    def test_other_files(self, tmp_path):
        torch.save(Small().state_dict(), tmp_path / "net.pt")
        fails(FileError, "does not say its network", f"checkpoint:{tmp_path / 'net.pt'}")
        fails(FileError, "not there; did you mean '.*net.pt'", SMALL, checkpoint=tmp_path / "nt.pt")
        fails(FileError, "is a folder", SMALL, checkpoint=tmp_path)
        (tmp_path / "net.npz").touch()
        fails(
            FileError, "a checkpoint must end in one of .pt", SMALL, checkpoint=tmp_path / "net.npz"
        )
        both = {"checkpoint": tmp_path / "net.pt"}
        fails(InputError, "is already a checkpoint", f"checkpoint:{tmp_path / 'net.pt'}", **both)


class TestFingerprint:
    def test_is_that_of_names_types_shapes_and_bytes(self):
        model = open_model(SMALL)
        digest = hashlib.sha256()
        for name, value in sorted(model.module.state_dict().items()):
            digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
            digest.update(value.numpy().tobytes())
        assert model.fingerprint == digest.hexdigest()

    def test_changes_with_a_weight_and_not_with_a_file(self, tmp_path):
        module = Small()
        prints = []
        for name in ("a.pt", "b.pth"):
            torch.save({"state_dict": module.state_dict()}, tmp_path / name)
            prints.append(open_model(SMALL, checkpoint=tmp_path / name).fingerprint)
        with torch.no_grad():
            module.fc.bias[0] += 1e-3
        torch.save(module.state_dict(), tmp_path / "c.pt")
        prints.append(open_model(SMALL, checkpoint=tmp_path / "c.pt").fingerprint)
        assert prints[0] == prints[1] != prints[2]
        assert re.fullmatch("[0-9a-f]{64}", prints[0])

    def test_half_precision_and_empty_tensors(self):
        from smallcal_lab.vision.models.built import fingerprint

        module = torch.nn.Linear(3, 2, bias=False).bfloat16()
        module.register_buffer("none", torch.empty(0, 4))
        module.register_buffer("one", torch.tensor(3))
        assert len(fingerprint(module)) == 64


class TestPreprocess:
    SIZES = ((640, 427), (31, 57), (57, 31), (224, 224), (33, 32), (500, 333))

    @pytest.mark.parametrize("crop", [1.0, 0.875, 0.9, 224 / 232])
    @pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
    def test_is_what_torchvision_does(self, crop, interpolation):
        transforms = pytest.importorskip("torchvision.transforms")
        spec = InputSpec((64, 64), (0.4, 0.5, 0.6), (0.2, 0.25, 0.3), interpolation, crop)
        how = transforms.InterpolationMode(interpolation)
        peer = transforms.Compose(
            [
                transforms.Resize(int(64 / crop + 1e-6), how),
                transforms.CenterCrop(64),
                transforms.ToTensor(),
                transforms.Normalize(spec.mean, spec.std),
            ]
        )
        for size in self.SIZES:
            image = Image.fromarray(photos(224)[0]).resize(size)
            assert np.allclose(Preprocess(spec)(image), peer(image), atol=1e-6), size

    @pytest.mark.parametrize("mode", ["center", "squash"])
    def test_is_what_timm_does(self, mode):
        data = pytest.importorskip("timm.data")
        spec = InputSpec((48, 48), (0.5,) * 3, (0.5,) * 3, "bicubic", 0.9, mode == "squash")
        peer = data.create_transform(
            (3, 48, 48),
            interpolation="bicubic",
            mean=spec.mean,
            std=spec.std,
            crop_pct=0.9,
            crop_mode=mode,
        )
        for size in self.SIZES:
            image = Image.fromarray(photos(224)[1]).resize(size)
            assert np.allclose(Preprocess(spec)(image), peer(image), atol=1e-6), size

    def test_other_modes_and_extreme_shapes(self):
        see = Preprocess(InputSpec((20, 30)))
        for mode in ("L", "RGBA", "CMYK", "P"):
            assert see(Image.new(mode, (5, 400))).shape == (3, 20, 30)
        assert see(Image.new("RGB", (400, 1))).shape == (3, 20, 30)

    def test_can_be_pickled(self):
        see = Preprocess(InputSpec((20, 30)))
        assert pickle.loads(pickle.dumps(see)) == see

    def test_fields_are_checked(self):
        spec = changed(InputSpec((1, 1)), {"size": [8, 9], "std": 0.5, "squash": True})
        assert (spec.size, spec.std, spec.squash) == ((8, 9), (0.5,) * 3, True)
        for name, bad in (
            ("size", 0.5),
            ("size", "big"),
            ("mean", [1, 2]),
            ("squash", 1),
            ("size", True),
        ):
            with pytest.raises(InputError, match=f"{name} cannot be"):
                changed(spec, {name: bad})
