"""Networks in ONNX files, against NumPy."""

import hashlib
import json

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image")
torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from smallcal.errors import FileError, InputError  # noqa: E402
from smallcal_lab.vision import InputSpec, open_model  # noqa: E402
from support.photos import photos  # noqa: E402

WEIGHT = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
SEEN = "?input.mean=0.5&input.std=0.25"


def write(
    file, shape, *, outputs=("logits", "features"), softmax=False, last=False, meta=None, half=False
):
    """Write a network: the mean of each colour, one layer."""
    kind = TensorProto.FLOAT16 if half else TensorProto.FLOAT
    first, *rest = outputs
    nodes = [
        helper.make_node(
            "ReduceMean", ["x"], ["mean"], axes=[1, 2] if last else [2, 3], keepdims=0
        ),
        helper.make_node("MatMul", ["mean", "w"], ["said"]),
        helper.make_node("Softmax" if softmax else "Identity", ["said"], [first]),
        *(helper.make_node("Identity", ["mean"], [name]) for name in rest),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info(name, kind, None) for name in outputs],
        [numpy_helper.from_array(WEIGHT.astype(np.float16 if half else np.float32), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    if meta:
        helper.set_model_props(model, meta)
    onnx.save(model, file)
    return file


def seen(n=5):
    return torch.rand(n, 3, 16, 16, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("shape", "more"),
    [
        (["n", 3, 16, 16], {}),
        (["n", 3, "h", "w"], {}),
        ([2, 3, 16, 16], {}),  # for two images at a time
        (["n", 16, 16, 3], {"last": True}),
        (["n", 3, 16, 16], {"half": True}),
        (["n", 3, 16, 16], {"outputs": ("scores", "features")}),
    ],
)
def test_logits_and_features_are_numpys(tmp_path, shape, more):
    file = write(tmp_path / "net.onnx", shape, **more)
    model = open_model(f"onnx:{file}{SEEN}&input.size=16")
    batch = seen()
    logits, features = model.outputs(batch)
    mean = batch.numpy().mean((2, 3))
    tolerance = 1e-2 if "half" in more else 1e-5
    assert np.allclose(features, mean, atol=tolerance)
    assert np.allclose(logits, mean @ WEIGHT, atol=tolerance)
    assert (model.classes, model.name, model.module, model.device) == (5, "net", None, "cpu")
    assert model.fingerprint == hashlib.sha256(file.read_bytes()).hexdigest()
    assert model.to("cpu") is model


def test_outputs_by_name(tmp_path):
    file = write(tmp_path / "net.onnx", ["n", 3, 16, 16], outputs=("a", "b"))
    with pytest.raises(InputError, match=r"which output is logits: .* a \(2, 5\), b \(2, 3\)"):
        open_model(f"onnx:{file}{SEEN}")
    model = open_model(f"onnx:{file}{SEEN}&logits=a&features=b")
    assert [one.shape for one in model.outputs(seen())] == [(5, 5), (5, 3)]
    assert open_model(f"onnx:{file}{SEEN}&logits=a").outputs(seen())[1] is None
    with pytest.raises(InputError, match=r"which output is features"):
        open_model(f"onnx:{file}{SEEN}&logits=a&features=c")
    with pytest.raises(InputError, match=r"no option 'logit'; did you mean 'logits'"):
        open_model(f"onnx:{file}{SEEN}&logit=a")


class TestInput:
    def test_in_its_metadata(self, tmp_path):
        said = json.dumps({"size": 16, "mean": [0.1, 0.2, 0.3], "std": 0.5, "crop": 0.8})
        file = write(tmp_path / "a.onnx", ["n", 3, 16, 16], meta={"smallcal.input": said})
        model = open_model(f"onnx:{file}")
        assert model.input == InputSpec((16, 16), (0.1, 0.2, 0.3), (0.5,) * 3, crop=0.8)
        assert open_model(f"onnx:{file}?input.crop=1.0").input.crop == 1.0

    def test_beside_it(self, tmp_path):
        file = write(tmp_path / "a.onnx", ["n", 3, 16, 16])
        settings = {
            **{"size": {"shortest_edge": 20}, "do_center_crop": True, "resample": 3},
            **{"crop_size": {"height": 16, "width": 16}, "do_rescale": False},
            **{"image_mean": [255.0, 51.0, 0.0], "image_std": [127.5] * 3},
        }
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings))
        spec = open_model(f"onnx:{file}").input
        assert (spec.size, spec.crop, spec.interpolation) == ((16, 16), 0.8, "bicubic")
        assert np.allclose([spec.mean, spec.std], [[1, 0.2, 0], [0.5] * 3])

    def test_is_that_of_transformers(self, tmp_path):
        transformers = pytest.importorskip("transformers")
        file = write(tmp_path / "a.onnx", ["n", 3, 16, 16])
        major = int(transformers.__version__.partition(".")[0])
        own = {"size": {"height": 16, "width": 16}, "resample": 2}
        settings = {**own, "image_mean": [0.5] * 3, "image_std": [0.4] * 3, "do_normalize": True}
        (tmp_path / "preprocessor_config.json").write_text(
            json.dumps({**settings, "image_processor_type": "ViTImageProcessor"})
        )
        see = transformers.AutoImageProcessor.from_pretrained(
            tmp_path, **({"backend": "pil"} if major >= 5 else {"use_fast": False})
        )
        image = Image.fromarray(photos(64)[0]).resize((50, 40))
        peer = see(images=image, return_tensors="np")["pixel_values"][0]
        assert np.allclose(open_model(f"onnx:{file}").preprocess(image), peer, atol=1e-6)

    @pytest.mark.parametrize("text", ["{", "[]", '{"mean": 0}', '{"size": "big"}'])
    def test_nonsense(self, tmp_path, text):
        file = write(tmp_path / "a.onnx", ["n", 3, 16, 16], meta={"smallcal.input": text})
        with pytest.raises((InputError, FileError), match=r"smallcal\.input"):
            open_model(f"onnx:{file}")
        (tmp_path / "preprocessor_config.json").write_text(text)
        with pytest.raises((InputError, FileError), match=r"preprocessor_config\.json|JSON"):
            open_model(f"onnx:{write(tmp_path / 'b.onnx', ['n', 3, 16, 16])}")

    def test_not_said(self, tmp_path):
        file = write(tmp_path / "a.onnx", ["n", 3, "h", "w"])
        for said in ("", SEEN, "?input.size=16"):
            with pytest.raises(InputError, match=r"does not say how images are prepared"):
                open_model(f"onnx:{file}{said}")


class TestBad:
    def test_files(self, tmp_path):
        write(tmp_path / "net.onnx", ["n", 3, 16, 16])
        with pytest.raises(FileError, match=r"not there; did you mean '.*net.onnx'"):
            open_model(f"onnx:{tmp_path}/nett.onnx")
        with pytest.raises(FileError, match=r"a folder"):
            open_model(f"onnx:{tmp_path}")
        (tmp_path / "bad.onnx").write_bytes(b"\x08nonsense")
        with pytest.raises(FileError, match=r"bad\.onnx cannot be loaded"):
            open_model(f"onnx:{tmp_path}/bad.onnx")

    def test_networks(self, tmp_path):
        file = write(tmp_path / "net.onnx", ["n", 3, 16, 16])
        for asked, match in (
            ({"classes": 4}, "gives 5 columns, not 4"),
            ({"checkpoint": file}, "takes no checkpoint"),
            ({"options": {"input.size": 8}}, r"takes images of \(16, 16\), not of \(8, 8\)"),
        ):
            with pytest.raises(InputError, match=match):
                open_model(f"onnx:{file}{SEEN}", **asked)
        for shape, match in ((["n", 3], "one batch of images"), (["n", 4, 8, 8], "cannot take")):
            takes = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
            gives = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
            node = helper.make_node("Relu", ["x"], ["y"])
            graph = helper.make_graph([node], "a", [takes], [gives])
            opset = [helper.make_opsetid("", 13)]
            made = helper.make_model(graph, opset_imports=opset, ir_version=8)
            onnx.save(made, tmp_path / "a.onnx")
            with pytest.raises(InputError, match=match):
                open_model(f"onnx:{tmp_path}/a.onnx{SEEN}")
        soft = write(tmp_path / "soft.onnx", ["n", 3, 16, 16], softmax=True)
        with pytest.raises(InputError, match=r"probabilities, not logits"):
            open_model(f"onnx:{soft}{SEEN}")

    def test_devices(self, tmp_path):
        model = open_model(f"onnx:{write(tmp_path / 'net.onnx', ['n', 3, 16, 16])}{SEEN}")
        with pytest.raises(InputError, match=r"cannot run on 'mps'"):
            model.to("mps")

    def test_weights_beside_the_file_count(self, tmp_path):
        file = write(tmp_path / "net.onnx", ["n", 3, 16, 16])
        before = open_model(f"onnx:{file}{SEEN}").fingerprint
        (tmp_path / "net.onnx.data").write_bytes(b"more")
        assert open_model(f"onnx:{file}{SEEN}").fingerprint != before
