"""A calibrator as a torch module against NumPy, and torch models calibrated in one call."""

import copy
import io
import os
import shutil
import subprocess
import sys
import warnings
from collections import OrderedDict, namedtuple
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed")

import smallcal as sc  # noqa: E402
from smallcal import runtime  # noqa: E402
from smallcal.deploy import export  # noqa: E402
from smallcal.deploy.adapters import CalibratedTorchModel, collect_logits  # noqa: E402
from smallcal.errors import FitWarning, InputError  # noqa: E402
from smallcal.io import progress  # noqa: E402
from support import real  # noqa: E402
from support.cases import EXPORTABLE, drawn, features_of, fit, fitted_once, predict  # noqa: E402
from support.decided import threshold, with_decisions  # noqa: E402
from support.pages import run_page  # noqa: E402
from support.refused import refused  # noqa: E402
from support.simulated import simulate  # noqa: E402

DOCS = Path(__file__).parents[3] / "docs"
SHORT = (torch.float16, torch.bfloat16)


@cache
def kept_once():
    """The default, fitted so that predictions stay the model's."""
    return fit("default", *drawn("default", 600), keep_predictions=True)


def apply(module, z):
    """What a module gives for logits, with features where it needs them."""
    z = torch.as_tensor(z)
    features = features_of(z.double().reshape(-1, z.shape[-1])) if module.n_features else None
    return module(z, None if features is None else torch.as_tensor(features))


def same(found, expected):
    np.testing.assert_allclose(found.double().numpy(), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", EXPORTABLE)
def test_every_method_gives_what_numpy_gives(name):
    for seed, n_classes in enumerate((2, 3, 5, 9)):
        made = drawn(name, 120, n_classes, seed=seed, temperature=0.7 + 0.5 * seed)
        fitted = fit(name, *made)
        z, _ = drawn(name, 200, n_classes, seed=90 + seed)
        expected = predict(fitted, z)
        same(apply(fitted.to_torch(), z), expected)
        scaled = fitted.to_torch(output="logits")
        same(torch.softmax(apply(scaled, z), dim=-1), expected)
        if fitted.preserves_argmax_:
            for dtype in SHORT:
                short = torch.as_tensor(z).to(dtype)
                for module in (fitted.to_torch(), scaled):
                    found = apply(module, short)
                    assert found.dtype == torch.float32
                    assert torch.equal(found.argmax(-1), short.argmax(-1))


def test_scaled_logits_are_logits_divided_by_temperature():
    z, _ = simulate(50, 12, seed=5)
    for name in ("srts-bce", "ts-nll", "smart-bce"):
        fitted = fitted_once(name)
        found = fitted.to_torch(output="logits")(torch.as_tensor(z))
        np.testing.assert_allclose(found, z / fitted.temperature(z)[:, None], rtol=1e-9)
    # The default does more than divide: log-probabilities.
    found = fitted_once("default").to_torch(output="logits")(torch.as_tensor(z))
    same(found.exp().sum(-1), np.ones(50))


@pytest.mark.parametrize("cell", real.there("cifar100__ce-resnet20", "banking77__tfidf-mlp-seed0"))
@pytest.mark.parametrize("name", ["default", "kept", "srts-bce", "smart-bce", "ets"])
def test_real_logits(cell, name):
    arrays = real.cell(cell)
    z, y = arrays["val_logits"][:400], arrays["val_labels"][:400]
    test = arrays["test_logits"][:2000].copy()  # torch wants arrays that it could write to
    kept = name == "kept"
    fitted = fit("default", z, y, keep_predictions=True) if kept else fit(name, z, y)
    same(
        fitted.to_torch()(torch.as_tensor(test.astype(float))), predict(fitted, test.astype(float))
    )
    for dtype in (*SHORT, torch.float32):
        logits = torch.as_tensor(test).to(dtype)
        if fitted.preserves_argmax_:
            assert torch.equal(fitted.to_torch()(logits).argmax(-1), logits.argmax(-1))


@pytest.mark.parametrize("name", ["default", "qats-bce", "semantic-groups", "none"])
def test_any_leading_shape(name):
    fitted = fitted_once(name)
    z, _ = simulate(24, 12, seed=8)
    expected = predict(fitted, z)
    module, x, f = fitted.to_torch(), torch.as_tensor(z), torch.as_tensor(features_of(z))
    for shape in ((24,), (2, 3, 4), (1, 24)):
        same(module(x.view(*shape, 12), f.view(*shape, 4)).reshape(24, 12), expected)
    same(module(x[3], f[3]), expected[3])
    assert module(x[:0], f[:0]).shape == (0, 12)
    assert module(x.T.contiguous().T, f).shape == (24, 12)  # any stride


@pytest.mark.parametrize("name", ["ts-nll", "srts-bce", "default", "dirichlet-odir"])
def test_probabilities_come_in(name):
    z, y = simulate(200, 5, seed=3)
    p = torch.softmax(torch.as_tensor(z), dim=-1).numpy()
    fitted = fit(name, p, y, input="probabilities")
    for output in ("probabilities", "logits"):
        found = fitted.to_torch(output=output)(torch.as_tensor(p))
        same(found if output == "probabilities" else torch.softmax(found, -1), predict(fitted, p))
    assert fitted.to_torch()(torch.as_tensor(z)).isnan().any()  # logits, where none belong


LOGITS = st.sampled_from([-800.0, -3.0, 0.0, 1e-7, 6e-5, 2.0, 2.002, 2.004, 40.0, 40.03, 6e4])
#: So near one another that their probabilities round to ties.
NEAR = st.sampled_from([-3.0, 0.0, 1e-7, 6e-5, 3e-4])
ROWS = st.lists(LOGITS, min_size=12, max_size=12) | st.lists(NEAR, min_size=12, max_size=12)


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(["kept", "srts-bce", "ets", "scaling-binning", "meta-cal", "none"]),
    dtype=st.sampled_from([*SHORT, torch.float32, torch.float64]),
    output=st.sampled_from(["probabilities", "logits"]),
    rows=st.lists(ROWS, min_size=1, max_size=4),
)
def test_no_type_and_no_tie_changes_the_prediction(name, dtype, output, rows):
    z = torch.tensor(rows, dtype=dtype)
    fitted = kept_once() if name == "kept" else fitted_once(name)
    found = fitted.to_torch(output=output)(z)
    assert found.isfinite().all()
    assert torch.equal(found.argmax(-1), z.argmax(-1))


@pytest.mark.parametrize("kind", SHORT)
@pytest.mark.parametrize("output", ["probabilities", "logits"])
def test_short_logits_give_float32(kind, output):
    z = torch.as_tensor(simulate(50, 12, seed=1)[0]).to(kind)
    module = fitted_once("ts-nll").to_torch(output=output)
    found = module(z)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, module(z.double()).float())


def test_rivals_that_round_to_a_tie_move_by_little():
    module = fitted_once("ts-nll").to_torch()
    z = torch.full((1, 12), -200.0)
    z[0, 3], z[0, 7] = 0.5, 0.5 + 2.0**-24  # neighbours, which the softmax brings together
    plain = torch.softmax(z.double() / fitted_once("ts-nll").temperature_, -1)[0].float()
    assert plain[3] == plain[7]
    p = module(z)[0]
    assert p.argmax() == 7
    assert 0 < p[7] - p[3] <= 2.0**-23


def test_moving_a_module_never_shortens_its_numbers():
    module = fitted_once("default").to_torch()
    before = module.numbers.clone()
    for change in (lambda m: m.half(), lambda m: m.to(torch.bfloat16), lambda m: m.float()):
        assert torch.equal(change(module).numbers, before)
    whole = torch.nn.Sequential(torch.nn.Linear(4, 12), module).half()
    assert whole[0].weight.dtype == torch.float16
    assert torch.equal(whole[1].numbers, before)
    assert whole.to("meta")[1].numbers.device.type == "meta"


def test_the_result_is_where_the_logits_are():
    module = fitted_once("default").to_torch()
    assert module(torch.empty(3, 12, device="meta")).device.type == "meta"
    assert copy.deepcopy(module).to("meta")(torch.empty(3, 12, device="meta")).shape == (3, 12)


def test_a_device_without_float64_works_in_float32(monkeypatch):
    """A processor that plays mps: it refuses float64 with the same kind of error."""
    module = kept_once().to_torch()
    z, _ = simulate(200, 12, seed=4)
    monkeypatch.setattr("smallcal.deploy.export.torch._NARROW_DEVICES", {"cpu"})

    def narrow(tensor):
        if tensor.dtype == torch.float64:
            raise TypeError("Cannot convert a MPS Tensor to float64 dtype")
        return tensor

    module._apply(narrow)
    assert module.numbers.dtype == torch.float32
    logits = torch.as_tensor(z).float()
    found = module(logits)
    np.testing.assert_allclose(found, predict(kept_once(), z), atol=2e-5)
    assert torch.equal(found.argmax(-1), logits.argmax(-1))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e16])
@pytest.mark.parametrize("name", ["default", "srts-bce", "ts-nll", "semantic-groups"])
def test_a_row_that_cannot_be_calibrated_is_nan_and_the_others_are_not(name, bad):
    z, _ = simulate(3, 12, seed=2)
    expected = predict(fitted_once(name), z)
    z_bad = z.copy()
    z_bad[1, 4] = bad
    module, f = fitted_once(name).to_torch(), torch.as_tensor(features_of(z))
    found = module(torch.as_tensor(z_bad), f)
    assert found[1].isnan().all()
    same(found[[0, 2]], expected[[0, 2]])
    if module.n_features:
        f[0, 0] = bad
        assert module(torch.as_tensor(z), f)[0].isnan().all()


def test_wrong_input_is_told():
    module, needy = fitted_once("ts-nll").to_torch(), fitted_once("semantic-groups").to_torch()
    z = torch.zeros(3, 12)
    for call, message in (
        (lambda: module(torch.zeros(3, 5)), r"the 12 columns .* got shape \(3, 5\)"),
        (lambda: module(torch.tensor(1.0)), r"got shape \(\)"),
        (lambda: module(z.long()), r"must be floating-point numbers; got torch.int64"),
        (lambda: needy(z), "semantic-groups.* needs features"),
        (lambda: needy(z, torch.zeros(2, 4)), r"one row of 4 .* got shape \(2, 4\)"),
        (
            lambda: fitted_once("ts-nll").to_torch(output="odds"),
            "probabilities, logits; got 'odds'",
        ),
        (lambda: fitted_once("random-k3").to_torch(), "cannot be exported"),
    ):
        with pytest.raises(InputError, match=message):
            call()


@pytest.mark.parametrize("name", ["default", "hts-bce", "dirichlet-odir", "ets"])
def test_gradients_flow(name):
    z, _ = simulate(2, 12, seed=6)
    module = fitted_once(name).to_torch()
    x = torch.as_tensor(z).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: module(x), (x,), eps=1e-6, atol=1e-5)
    flat = torch.zeros(2, 12, requires_grad=True)  # a fresh, all-zero layer
    module(flat)[:, 0].sum().backward()
    assert flat.grad.isfinite().all()


def test_a_layer_learns_through_its_calibrator():
    torch.manual_seed(0)
    layer = torch.nn.Linear(6, 12)
    module = torch.nn.Sequential(layer, fitted_once("default").to_torch(output="logits"))
    x, y = torch.randn(64, 6), torch.arange(64) % 12
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.5)
    losses = []
    for _ in range(20):
        loss = torch.nn.functional.cross_entropy(module(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.1
    assert [name for name, _ in module[1].named_parameters()] == []


def test_export_takes_any_batch():
    module = fitted_once("srts-bce").to_torch()
    z = torch.as_tensor(simulate(40, 12, seed=1)[0])
    batch = torch.export.Dim("batch")
    program = torch.export.export(module, (z[:7],), dynamic_shapes={"logits": {0: batch}})
    exported = program.module()
    for n in (0, 1, 2, 40):
        assert torch.equal(exported(z[:n]), module(z[:n]))


def test_compile_breaks_no_graph():
    module = fitted_once("margin-k3").to_torch()
    z = torch.as_tensor(simulate(40, 12, seed=1)[0])
    torch._dynamo.reset()
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True, dynamic=True)
    for n in (40, 7):
        assert torch.equal(compiled(z[:n]), module(z[:n]))


@pytest.mark.skipif(
    "SMALLCAL_COMPILE" not in os.environ or shutil.which("g++") is None,
    reason="takes minutes and needs g++: set SMALLCAL_COMPILE=1",
)
def test_compiled_to_machine_code():
    module = fitted_once("default").to_torch()
    z = torch.as_tensor(simulate(40, 12, seed=1)[0])
    torch._dynamo.reset()
    compiled = torch.compile(module, fullgraph=True, dynamic=True)
    np.testing.assert_allclose(compiled(z), module(z), rtol=0, atol=1e-12)
    half = z.half()
    assert torch.equal(compiled(half).argmax(-1), half.argmax(-1))


def test_a_state_dict_goes_round(tmp_path):
    first = fitted_once("srts-bce")
    second = fit("srts-bce", *simulate(600, 12, seed=1))
    second.save(tmp_path / "cal.json")
    z = torch.as_tensor(simulate(50, 12, seed=9)[0])
    module = export.to_torch(runtime.load(tmp_path / "cal.json"))
    assert torch.equal(module(z), second.to_torch()(z))
    file = io.BytesIO()
    torch.save(first.to_torch().state_dict(), file)
    file.seek(0)
    assert not torch.equal(module(z), first.to_torch()(z))
    module.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(module(z), first.to_torch()(z))


def test_a_state_of_another_program_is_refused():
    # The same numbers in number and shape, but of another statistic.
    margin, confidence = (fitted_once(name).to_torch() for name in ("margin-k3", "confidence-k3"))
    before = confidence.numbers.clone()
    with pytest.raises(RuntimeError, match="not that of a confidence-k3 calibrator for 12 classes"):
        confidence.load_state_dict(margin.state_dict())
    assert torch.equal(confidence.numbers, before)


def test_a_module_can_be_pickled_and_copied():
    module = fitted_once("default").to_torch()
    z = torch.as_tensor(simulate(5, 12, seed=9)[0])
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=False)(z), module(z))
    assert torch.equal(copy.deepcopy(module)(z), module(z))


def test_large_batches_do_not_hold_every_step():
    module = fitted_once("default").to_torch()
    kept = {part for step in module._steps for part in step.done}
    assert kept == set(range(len(module._steps) - 1))  # all but the result are let go


# Models.


class Model(torch.nn.Module):
    """Gives the logits it is given, in whatever wrapping; has a part frozen in eval mode."""

    def __init__(self, wrap=lambda logits: logits):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))
        self.drop = torch.nn.Dropout(0.5)
        self.frozen = torch.nn.BatchNorm1d(12).eval()
        self.wrap = wrap
        self.seen = []

    def forward(self, x, shift=None):
        self.seen.append((self.training, torch.is_inference_mode_enabled()))
        x = self.drop(x * self.scale)
        return self.wrap(x if shift is None else x + shift)


Z, Y = simulate(300, 12, seed=11)
X = torch.as_tensor(Z, dtype=torch.float32)


def loader_of(make=lambda x, y: (x, y), size=64):
    y = torch.as_tensor(Y)
    return [make(X[i : i + size], y[i : i + size]) for i in range(0, len(X), size)]


def calibrate(model, loader, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        return sc.calibrate(model, loader, **options)


Output = namedtuple("Output", ["logits", "aux"])
WRAPS = {
    "tensor": lambda z: z,
    "tuple": lambda z: (z, "states"),
    "list": lambda z: [z],
    "dict": lambda z: {"loss": None, "logits": z},
    "ordered": lambda z: OrderedDict(logits=z),
    "named": lambda z: Output(z, None),
    "object": lambda z: SimpleNamespace(logits=z),
}
BATCHES = {
    "tuple": (lambda x, y: (x, y), {}),
    "list": (lambda x, y: [x, y], {}),
    "three": (lambda x, y: (x, torch.zeros(1), y), {}),
    "first": (lambda x, y: (y, x), {"label_key": 0}),
    "dict": (lambda x, y: {"x": x, "labels": y}, {}),
    "label": (lambda x, y: {"x": x, "label": y}, {}),
    "named": (lambda x, y: {"x": x, "target": y}, {"label_key": "target"}),
    "column": (lambda x, y: (x, y[:, None]), {}),
    "array": (lambda x, y: (x, y.numpy()), {}),
    "one-hot": (lambda x, y: (x, torch.nn.functional.one_hot(y, 12)), {}),
    "nested": (
        lambda x, y: {"in": {"x": x}, "labels": y},
        {"forward_fn": lambda model, batch: model(**batch["in"])},
    ),
}


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_logits_come_in_any_wrapping(wrap):
    found = collect_logits(Model(wrap), loader_of())
    np.testing.assert_array_equal(found.logits, X.numpy())
    np.testing.assert_array_equal(found.labels, Y)
    assert found.n_ignored == 0


@pytest.mark.parametrize(("make", "options"), BATCHES.values(), ids=BATCHES)
def test_batches_come_in_any_form(make, options):
    found = collect_logits(Model(), loader_of(make), **options)
    np.testing.assert_array_equal(found.logits, X.numpy())
    np.testing.assert_array_equal(found.labels, Y)


def test_the_model_is_left_as_it_was():
    model = Model()
    collect_logits(model, loader_of())
    assert model.seen == [(False, True)] * 5
    assert (model.training, model.drop.training, model.frozen.training) == (True, True, False)

    def fail(model, batch):
        raise KeyError("no such thing")

    with pytest.raises(KeyError):
        collect_logits(model, loader_of(), forward_fn=fail)
    assert (model.training, model.frozen.training) == (True, False)
    assert not torch.is_inference_mode_enabled()


@pytest.mark.parametrize("method", ["default", "ts-nll", sc.SRTS(n_groups=2)], ids=str)
def test_a_calibrated_model_gives_what_its_parts_give(method):
    model = Model()
    calibrated = calibrate(model, loader_of(), method=method)
    by_hand = sc.make(method) if isinstance(method, str) else sc.SRTS(n_groups=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        by_hand.fit(X.numpy(), Y)
    expected = by_hand.predict_proba(Z)
    assert calibrated.calibrator.to_dict() == by_hand.to_dict()
    assert calibrated.model is model
    assert model.training
    np.testing.assert_allclose(calibrated.eval()(X).detach(), expected, atol=1e-6)
    model.train()
    found = calibrated.predict_proba(loader_of())
    np.testing.assert_allclose(found, expected, atol=1e-6)
    labels = calibrated.predict([X[:9], (X[9:],)])  # without labels
    np.testing.assert_array_equal(labels, expected.argmax(axis=1))
    assert model.training


@pytest.mark.parametrize("output", ["probabilities", "logits"])
@pytest.mark.parametrize("kept", [False, True])
def test_the_confidence_of_a_calibrated_model_is_its_calibrators(kept, output):
    method = sc.Calibrator(keep_predictions=kept)
    calibrated = calibrate(Model(), loader_of(), method=method, output=output)
    estimator = calibrated.calibrator
    found = calibrated.confidence(loader_of())
    assert found.shape == (len(Z),)
    np.testing.assert_allclose(found, estimator.confidence(X.numpy()), atol=1e-6)
    assert calibrated.confidence(X[0]).shape == (1,)
    proba, predicted = calibrated.predict_proba(X), calibrated.predict(X)
    np.testing.assert_array_equal(predicted, estimator.predict(X.numpy()))
    if kept:
        assert torch.equal(predicted, X.argmax(-1))
        assert (found < proba.amax(-1) - 1e-3).any()  # another class is more probable
    else:
        np.testing.assert_allclose(found, proba.amax(-1), atol=1e-6)


@pytest.mark.parametrize("output", ["probabilities", "logits"])
def test_a_calibrated_model_accepts_what_its_calibrator_accepts(output):
    estimator = calibrate(Model(), loader_of(), method="ts-nll").calibrator
    estimator.fitted_ = with_decisions(
        estimator.fitted_, threshold(0.5), threshold(0.9, risk=0.005)
    )
    certified = CalibratedTorchModel(Model(), estimator, output=output)
    for risk in (0.02, 0.005):
        wanted = estimator.accept(Z, risk=risk)
        found = certified.accept(loader_of(), risk=risk)
        assert (found.dtype, found.shape) == (torch.bool, (len(Z),))
        np.testing.assert_array_equal(found.numpy(), wanted)
    assert certified.accept(X[0], risk=0.02).shape == (1,)
    with refused("unknown-choice"):
        certified.accept(X)


@pytest.mark.parametrize("output", ["probabilities", "logits"])
def test_probabilities_of_anything_are_n_rows_of_c(output):
    model = Model()
    calibrated = calibrate(model, loader_of(), method="ts-nll", output=output)
    expected = sc.make("ts-nll").fit(X.numpy(), Y).predict_proba(X.numpy())
    y = torch.as_tensor(Y)
    given = {
        "tensor": X,
        "array of another type": Z,
        "a row": X[:1],
        "a sample without a batch axis": X[0],
        "loader": loader_of(),
        "DataLoader": torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), 64),
        "DataLoader without labels": torch.utils.data.DataLoader(X, 64),
        "data set": torch.utils.data.TensorDataset(X, y),
        "tuple with labels": (X, y),
        "tuple without": (X,),
        "what a DataLoader gives": [X, y],
        "mapping": {"x": X, "labels": y},
        "tensors": [X[:100], X[100:]],
        "tuple of batches": tuple(loader_of()),
        "iterator": iter(loader_of()),
    }
    for name, data in given.items():
        found = calibrated.predict_proba(data)
        n = 1 if name.startswith("a ") else 300
        assert tuple(found.shape) == (n, 12), name
        assert not found.requires_grad
        np.testing.assert_allclose(found, expected[:n], atol=1e-6, err_msg=name)
    for data, n in ((X, 300), (Z, 300), (X[0], 1), ((X, y), 300)):
        assert torch.equal(calibrated.predict(data), X.argmax(-1)[:n])
    assert model.training


def test_a_frame_is_taken_as_an_array():
    pandas = pytest.importorskip("pandas")
    calibrated = calibrate(Model(), loader_of(), method="ts-nll")
    frame = pandas.DataFrame(Z)
    assert torch.equal(calibrated.predict_proba(frame), calibrated.predict_proba(X))


def test_a_calibrated_model_goes_through_files(tmp_path):
    calibrated = calibrate(Model(), loader_of(), method=sc.Calibrator(keep_predictions=True)).eval()
    calibrated.calibrator.save(tmp_path / "cal.json")
    torch.save(calibrated.state_dict(), tmp_path / "model.pt")
    again = CalibratedTorchModel(Model(), sc.load(tmp_path / "cal.json")).eval()
    again.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    assert torch.equal(again(X), calibrated(X))
    half = again.half()(X.half())
    assert half.dtype == torch.float32
    assert torch.equal(half.argmax(-1), X.half().argmax(-1))


def test_a_way_of_calling_stays_with_the_calibrated_model():
    def shifted(model, batch):
        return model(batch["in"], shift=1.0)

    loader = loader_of(lambda x, y: {"in": x, "labels": y})
    calibrated = calibrate(Model(), loader, forward_fn=shifted, output="logits").eval()
    found = torch.softmax(calibrated(loader[0]), -1)
    expected = calibrated.calibrator.predict_proba(Z[:64] + 1)
    np.testing.assert_allclose(found.detach(), expected, atol=1e-5)


def test_a_model_that_gives_probabilities():
    model = Model(lambda z: torch.softmax(z, dim=-1))
    with refused("probabilities-as-logits"):
        calibrate(model, loader_of())
    method = sc.TemperatureScaling(input="probabilities")
    calibrated = calibrate(model, loader_of(), method=method).eval()
    expected = sc.TemperatureScaling().fit(Z, Y).predict_proba(Z)
    np.testing.assert_allclose(calibrated(X).detach(), expected, atol=1e-4)


def test_ignored_rows_are_left_out_and_counted():
    """A tagger: rows are tokens, and padding has the label -100."""
    y = torch.as_tensor(Y).clone()
    y[::7] = -100
    tokens = [(X[i : i + 50].view(5, 10, 12), y[i : i + 50].view(5, 10)) for i in range(0, 300, 50)]

    def flat(model, batch):
        return model(batch[0]).flatten(0, -2)

    found = collect_logits(Model(), tokens, forward_fn=flat)
    np.testing.assert_array_equal(found.logits, X.numpy()[y != -100])
    np.testing.assert_array_equal(found.labels, Y[y != -100])
    assert found.n_ignored == 43
    assert calibrate(Model(), tokens, forward_fn=flat).n_ignored == 43
    kept = collect_logits(Model(), loader_of(), ignore_index=3)
    assert kept.n_ignored == (Y == 3).sum() == 300 - len(kept.labels)


def test_a_stream_has_no_length():
    found = collect_logits(Model(), iter(loader_of()))
    assert len(found.labels) == 300


def test_a_model_without_parameters():
    found = collect_logits(torch.nn.Identity(), loader_of())
    np.testing.assert_array_equal(found.logits, X.numpy())


def test_batches_go_where_the_model_is():
    """Numbers of a model on meta cannot be read, so the way there is what is tested."""
    seen = []

    def look(model, batch):
        seen.append((batch["x"].device.type, batch["more"][0].device.type, batch["name"]))
        return torch.zeros(2, 12)

    batch = {"x": X[:2], "more": [X[:2]], "name": "a", "labels": Y[:2]}
    collect_logits(Model(), [batch], device="meta", forward_fn=look)
    assert seen == [("meta", "meta", "a")]


def test_a_bar_is_shown_on_terminals(monkeypatch, capsys):
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    collect_logits(Model(), loader_of())
    assert "Running the model" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("model", "loader", "options", "message"),
    [
        (Model(), [X], {}, "batch 0: there are no labels; a batch should be a tuple"),
        (Model(), loader_of(), {"label_key": "y"}, "label_key must be the position"),
        (Model(), [(X, Y[:5])], {}, r"300 rows of logits, but labels of shape \(5,\)"),
        (
            Model(),
            [(X, np.eye(12)[Y] + np.eye(12)[0])],
            {},
            "a matrix with numbers other than 0 and",
        ),
        (Model(), [(X, np.ones((300, 12)))], {}, "labels are multilabel"),
        (Model(), [(X[None], Y)], {}, r"have \(1, 300, 12\). For a prediction per token or pixel"),
        (
            Model(lambda z: z[:, :1]),
            loader_of(),
            {},
            "For a binary model with one logit z, let forward_fn return two columns",
        ),
        (Model(lambda z: {"out": z}), loader_of(), {}, "gives a dict with keys out; it should"),
        (Model(lambda z: z.argmax(-1)), loader_of(), {}, "gives a Tensor with no logits"),
        (Model(), loader_of(lambda x, y: {"image": x, "labels": y}), {}, "batch's keys image"),
        (Model(), [(X, X, X, Y)], {}, "batch's 3 inputs"),
        (Model(), [], {}, "the loader gives no batches"),
        (Model(), [(X, np.full(300, -100))], {}, "all 300 labels are -100"),
        (Model(), [(X[0], 3)], {}, r"must have one row per sample; the model's have \(12,\)"),
        (len, loader_of(), {}, "model must be a torch.nn.Module; got builtin_function_or_method"),
        (Model(), loader_of(), {"method": "no-such"}, "no-such"),
        (Model(), loader_of(), {"method": "oracle-risk"}, "for comparison only"),
        (Model(), loader_of(), {"method": "semantic-groups"}, "needs features beside the logits"),
        (Model(), None, {"output": "odds"}, "got 'odds'"),  # before any batch is asked for
        (Model(), loader_of(), {"method": torch.nn.Identity()}, "method must be a name or a"),
    ],
)
def test_what_cannot_be_calibrated_is_told_in_one_line(model, loader, options, message):
    with pytest.raises(InputError, match=message) as caught:
        calibrate(model, loader, **options)
    assert "\n" not in str(caught.value)


def test_without_torch_one_line_says_what_to_install():
    program = (
        "import sys\n"
        "class Without:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'torch': raise ImportError(name)\n"
        "sys.meta_path.insert(0, Without())\n"
        "import smallcal as sc\n"
        "cal = sc.Identity().fit([[2.0, 0.0]] * 10, [0] * 10)\n"
        "for call in (cal.to_torch, lambda: sc.calibrate(None, [])):\n"
        "    try: call()\n"
        "    except sc.MissingExtraError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "a torch module needs the package 'torch': pip install 'smallcal[torch]'",
        "calibrating a torch model needs the package 'torch': pip install 'smallcal[torch]'",
    ], done.stderr


@pytest.mark.parametrize(
    ("page", "least", "needs"),
    [
        ("guides/torch.md", 15, "torch"),
        ("recipes/torch-vision.md", 10, "torch"),
        ("recipes/huggingface.md", 10, "transformers"),
    ],
)
def test_the_pages_run(page, least, needs, tmp_path, monkeypatch):
    pytest.importorskip(needs, reason=f"the page needs {needs}")
    monkeypatch.chdir(tmp_path)
    results = run_page(DOCS / page)
    assert results.attempted >= least
    assert results.failed == 0
