"""Training runs on real images: reproducible, resumable, and nothing is lost when one stops."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("timm")
pytest.importorskip("PIL")

import torch
from PIL import Image
from torch.nn import functional

from smallcal.errors import FileError, InputError, MissingExtraError, SmallcalError
from smallcal.io.lock import alone_in
from smallcal_lab.vision import open_images, open_model, read_recipe, read_split, train
from smallcal_lab.vision.training.batches import START, draw_from, order_of
from support.training import PAPER_IMAGES, PAPER_MIX, digit_folders, photo_folders, recipe

ROOT = Path(__file__).resolve().parents[3]
TESTS = ROOT / "tests"


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    return digit_folders(tmp_path_factory.mktemp("digits") / "images")


def weights(folder):
    return torch.load(folder / "last.pt", weights_only=True)


def same(one, other):
    """Whether two nested states are equal, bit by bit."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


def parts(folder):
    """Return what must be the same in runs that are: all but the time they took."""
    found = weights(folder)
    log = [row[:4] for row in found["log"]]
    kept = ("model", "optimizer", "scaler", "epoch", "seed", "class_names", "options")
    return {**{key: found[key] for key in kept}, "log": log}


def rows_of(folder):
    return list(csv.DictReader((folder / "log.csv").read_text().splitlines()))


def test_a_run_is_what_a_plain_loop_does(digits, tmp_path):
    said = recipe(digits, optimizer__name="adamw", optimizer__lr=0.01, loss__label_smoothing=0.1)
    said = said.changed({"optimizer.weight_decay": 0.05, "training.clip": 0.5})
    steps = []
    done = train(said, tmp_path / "run", on_step=steps.append)
    images = open_images(f"folder:{digits}")
    split = read_split(tmp_path / "run" / "split.json", images)
    assert {part: len(rows) for part, rows in split.parts.items()} == {
        "calibration": 24,
        "train": 96,
    }
    torch.manual_seed(0)
    draw_from(0, START)
    model = open_model("torch:support.trained_nets:conv", classes=10)
    module = model.module.train()
    flat = [p for p in module.parameters() if p.ndim <= 1]
    deep = [p for p in module.parameters() if p.ndim > 1]
    groups = [{"params": flat, "weight_decay": 0.0}, {"params": deep, "weight_decay": 0.05}]
    optimizer = torch.optim.AdamW(groups, lr=0.01)
    chosen = split.take(images, "train")
    losses = []
    for epoch in range(3):
        for group in optimizer.param_groups:
            group["lr"] = 0.01 * 0.5 * (1 + np.cos(np.pi * epoch / 3))
        order = order_of(96, seed=0, epoch=epoch)
        for start in range(0, 96, 16):
            rows = order[start : start + 16]
            batch = torch.stack([model.preprocess(chosen.image(row)) for row in rows.tolist()])
            logits = module(batch)
            aims = torch.from_numpy(chosen.labels[rows])
            loss = functional.cross_entropy(logits, aims, label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(module.parameters(), 0.5)
            optimizer.step()
            losses.append(loss.item())
    np.testing.assert_allclose([step.loss for step in steps], losses, rtol=1e-5)
    for name, value in weights(tmp_path / "run")["model"].items():
        torch.testing.assert_close(value, module.state_dict()[name], rtol=1e-4, atol=1e-6)
    assert [(step.epoch, step.step) for step in steps[5:7]] == [(1, 6), (2, 1)]
    check = split.take(images, "calibration")
    module.eval()
    batch = torch.stack([model.preprocess(check.image(row)) for row in range(24)])
    right = (module(batch).argmax(1).numpy() == check.labels).mean()
    assert done.log[-1].accuracy == pytest.approx(right)
    assert done.log[-1].loss == pytest.approx(np.mean(losses[-6:]), rel=1e-5)


def test_what_a_run_leaves_behind(digits, tmp_path):
    run = tmp_path / "a" / "run"
    seen = []
    done = train(recipe(digits), run, on_epoch=lambda row, epochs: seen.append((row, epochs)))
    assert {file.name for file in run.iterdir()} == {
        *("recipe.toml", "split.json", "log.csv", "last.pt", "run.png", ".lock")
    }
    assert [epochs for _, epochs in seen] == [3, 3, 3]
    assert tuple(row for row, _ in seen) == done.log
    assert read_recipe(run / "recipe.toml") == recipe(digits)
    table = rows_of(run)
    assert [row["epoch"] for row in table] == ["1", "2", "3"]
    assert [float(row["loss"]) for row in table] == [row.loss for row in done.log]
    with Image.open(run / "run.png") as picture:
        assert picture.size[0] > 400
    kept = weights(run)
    assert kept["format"] == "smallcal-checkpoint-1"
    assert (kept["source"], kept["classes"]) == ("torch:support.trained_nets:conv", 10)
    assert (kept["epoch"], kept["seed"], kept["recipe"]) == (3, 0, recipe(digits).text())
    model = open_model(done.model)
    assert model.class_names == tuple("0123456789")
    assert same(dict(model.module.state_dict()), dict(kept["model"]))


def test_it_learns(digits, tmp_path):
    said = recipe(digits, training__epochs=20, optimizer__name="adamw", optimizer__lr=0.01)
    log = train(said, tmp_path / "run").log
    assert log[-1].loss < 0.3 < 1.5 < log[0].loss
    assert log[-1].accuracy > 0.6


def test_the_same_seed_gives_the_same_bytes_whoever_loads(tmp_path):
    images = photo_folders(tmp_path / "images")
    changes = {"model__options": {"dropout": 0.3, "norm": True}, **PAPER_IMAGES, **PAPER_MIX}
    said = recipe(images, training__epochs=2, training__batch_size=6, **changes)
    before = torch.get_rng_state()
    for name, workers in (("a", 0), ("b", 0), ("c", 2)):
        train(said, tmp_path / name, changes={"training.workers": workers})
        torch.rand(3)
    assert same(parts(tmp_path / "a"), parts(tmp_path / "b"))
    assert same(parts(tmp_path / "a"), parts(tmp_path / "c"))
    torch.set_rng_state(before)
    train(said, tmp_path / "d")
    assert torch.equal(torch.get_rng_state(), before)  # nobody else's chance is touched
    train(said, tmp_path / "e", changes={"training.seed": 1})
    assert not same(parts(tmp_path / "a")["model"], parts(tmp_path / "e")["model"])


KILLED = """
import os, signal, sys
from smallcal_lab.vision import train
from smallcal_lab.vision.training import training
recipe, run, when = sys.argv[1:]
if when == "step":
    told = lambda step: step.epoch == 3 and os.kill(os.getpid(), signal.SIGKILL)
    train(recipe, run, on_step=told)
training.RunFolder.show = lambda self, log: len(log) < 3 or os.kill(os.getpid(), signal.SIGKILL)
train(recipe, run)
"""


@pytest.mark.slow
@pytest.mark.parametrize("when", ["step", "written"])
def test_a_killed_run_goes_on_as_if_nothing_had_happened(tmp_path, when):
    """Killed in the third epoch, or after its checkpoint and before its log."""
    images = photo_folders(tmp_path / "images")
    changes = {"model__options": {"dropout": 0.3, "norm": True}, **PAPER_MIX}
    changes |= {"augment__crop": "padded", "optimizer__name": "adamw", "optimizer__lr": 0.001}
    said = recipe(images, training__epochs=4, training__batch_size=8, **changes)
    (tmp_path / "r.toml").write_text(said.text())
    train(tmp_path / "r.toml", tmp_path / "whole")
    script = [sys.executable, "-c", KILLED, str(tmp_path / "r.toml"), str(tmp_path / "run"), when]
    ended = subprocess.run(script, env=environment(), check=False, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    assert weights(tmp_path / "run")["epoch"] == (2 if when == "step" else 3)
    steps = []
    done = train(tmp_path / "r.toml", tmp_path / "run", on_step=steps.append)
    assert done.resumed == (2 if when == "step" else 3)
    assert {step.epoch for step in steps} == ({3, 4} if when == "step" else {4})
    assert same(parts(tmp_path / "run"), parts(tmp_path / "whole"))
    logs = [
        [(row["epoch"], row["lr"], row["loss"], row["accuracy"]) for row in rows_of(tmp_path / one)]
        for one in ("run", "whole")
    ]
    assert logs[0] == logs[1]
    assert len(logs[0]) == 4
    again = train(tmp_path / "r.toml", tmp_path / "run")
    assert (again.resumed, len(again.log)) == (4, 4)


def environment(**more):
    ops = TESTS / "support" / "torchvision_ops"
    path = os.pathsep.join(map(str, [ROOT / "src", ROOT / "lab/src", TESTS, ops]))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **more}


def test_a_folder_of_another_recipe_is_refused(digits, tmp_path):
    run = tmp_path / "run"
    train(recipe(digits, training__epochs=1), run)
    before = (run / "last.pt").read_bytes()
    with pytest.raises(InputError, match=r"another recipe \(optimizer lr: 0.05, now 0.1\)"):
        train(recipe(digits, training__epochs=1, optimizer__lr=0.1), run)
    assert (run / "last.pt").read_bytes() == before
    # Where it is done may change, and where the images lie.
    elsewhere = digits.parent.with_name("elsewhere")
    digits.parent.rename(elsewhere)
    try:
        changes = {"data.source": f"folder:{elsewhere / 'images'}", "training.workers": 1}
        assert train(recipe(digits, training__epochs=1), run, changes=changes).resumed == 1
    finally:
        elsewhere.rename(digits.parent)
    with pytest.raises(InputError, match="holds other files; name a new folder"):
        train(recipe(digits), digits.parent)
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match="file is a file; name a folder"):
        train(recipe(digits), tmp_path / "file")
    with alone_in(run), pytest.raises(InputError, match="another process is working on this run"):
        train(recipe(digits, training__epochs=1), run)


def test_other_images_than_the_run_began_with_are_refused(tmp_path):
    images = digit_folders(tmp_path / "images", classes=2)
    said = recipe(images, training__epochs=1, training__batch_size=8)
    train(said, tmp_path / "run")
    (images / "0" / "00.png").unlink()
    with pytest.raises(FileError, match="the images are not those that the run started with"):
        train(said.changed({}), tmp_path / "run")


def test_a_recipe_may_be_changed_while_no_epoch_is_done(digits, tmp_path):
    run = tmp_path / "run"
    with pytest.raises(InputError, match="the loss is nan at epoch 1, step 4; try a lower"):
        train(recipe(digits, model__source="torch:support.trained_nets:broken"), run)
    assert (run / "recipe.toml").exists()
    train(recipe(digits, training__epochs=1, data__split="10%"), run)
    assert read_recipe(run / "recipe.toml").data.split == "10%"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model__source": "torch:support.trained_nets:stubborn"}, "10 columns, not 2"),
        ({"data__source": ""}, "does not say which images"),
        ({"data__split": "halves"}, r"'halves' leaves nothing to train on; write one as 5%"),
        ({"data__split": "five"}, "unknown split 'five'"),
        ({"training__batch_size": 64}, "19 images are fewer than one batch"),
        ({"training__device": "cuda:7"}, "the device 'cuda:7' is not available"),
        ({"training__device": "gpu"}, "the device 'gpu' is not available"),
        ({"training__precision": "float16"}, "'float16' needs a GPU"),
        ({"model__source": "timmm:resnet18"}, "did you mean 'timm'"),
    ],
)
def test_what_cannot_be_trained_is_one_line(tmp_path, changes, words):
    images = digit_folders(tmp_path / "images", classes=2)
    with pytest.raises(SmallcalError, match=words) as caught:
        train(recipe(images, **{"training__batch_size": 8, **changes}), tmp_path / "run")
    assert "\n" not in str(caught.value)


def test_a_model_that_fails_is_one_line(digits, tmp_path):
    said = recipe(digits, model__source="torch:support.trained_nets:picky")
    words = r"failed on a training batch: ValueError: Expected more than.*1 value per channel"
    with pytest.raises(InputError, match=words) as caught:
        train(said, tmp_path / "run")
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="has no weights that can be trained"):
        train(said, tmp_path / "run", changes={"model.options.weights": False})


def test_a_class_without_images_to_train_on(tmp_path):
    images = digit_folders(tmp_path / "images", classes=3)
    for number in range(1, 12):
        (images / "1" / f"{number:02d}.png").unlink()
    said = recipe(images, training__batch_size=4, data__split="60%", data__split_seed=0)
    with pytest.raises(InputError, match="the class '1' has no image to train on"):
        train(said, tmp_path / "run")


@pytest.mark.parametrize("workers", [0, 2])
def test_a_damaged_image_is_named_and_the_run_is_kept(tmp_path, workers):
    images = photo_folders(tmp_path / "images")
    said = recipe(images, training__batch_size=8, training__workers=workers, training__epochs=2)
    said = said.changed({"model.options.dropout": 0.4})
    train(said, tmp_path / "whole")
    whole = open_images(f"folder:{images}")
    seen = read_split(tmp_path / "whole" / "split.json", whole).take(whole, "train")
    file = images / seen.ids[order_of(len(seen), seed=0, epoch=1)[9]]
    good = file.read_bytes()
    epochs = []

    def damage(row, _):
        epochs.append(row.epoch)
        file.write_bytes(good[:300])

    with pytest.raises(FileError, match=f"cannot read the image {file}: ") as caught:
        train(said, tmp_path / "run", on_epoch=damage)
    assert "\n" not in str(caught.value)
    assert epochs == [1]
    assert weights(tmp_path / "run")["epoch"] == 1
    file.write_bytes(good)
    assert train(said, tmp_path / "run").resumed == 1
    assert same(parts(tmp_path / "run"), parts(tmp_path / "whole"))


def test_a_full_disk_leaves_the_last_checkpoint_whole(digits, tmp_path, monkeypatch):
    said = recipe(digits, training__epochs=2)
    train(said, tmp_path / "whole")
    save = torch.save

    def full(content, path):
        save(content, path)
        if content["epoch"] == 2:
            with open(path, "r+b") as half:
                half.truncate(1000)
            raise RuntimeError("PytorchStreamWriter failed writing file data/3: file write failed")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(FileError, match=r"cannot write .*is the disk full\?.*of epoch 1 is kept"):
        train(said, tmp_path / "run")
    monkeypatch.undo()
    assert weights(tmp_path / "run")["epoch"] == 1
    assert not [file for file in (tmp_path / "run").iterdir() if "last-" in file.name]
    assert train(said, tmp_path / "run").resumed == 1
    assert same(parts(tmp_path / "run"), parts(tmp_path / "whole"))


def test_a_disk_that_is_really_full(digits, tmp_path):
    """The system itself refuses: no file may have more than 4,000 bytes."""
    resource = pytest.importorskip("resource", reason="limits of a POSIX system")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, before[1]))
    try:
        with pytest.raises(FileError, match=r"cannot write .*last\.pt") as caught:
            train(recipe(digits, training__epochs=2), tmp_path / "run")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "\n" not in str(caught.value)
    assert {file.name for file in (tmp_path / "run").iterdir()} == {
        *("recipe.toml", "split.json", ".lock")
    }


def test_a_damaged_checkpoint_is_said(digits, tmp_path):
    train(recipe(digits, training__epochs=1), tmp_path / "run")
    last = tmp_path / "run" / "last.pt"
    last.write_bytes(last.read_bytes()[:-500])
    with pytest.raises(FileError, match=r"last\.pt"):
        train(recipe(digits, training__epochs=1), tmp_path / "run")
    torch.save({"model": {}}, last)
    with pytest.raises(FileError, match=r"last\.pt"):
        train(recipe(digits, training__epochs=1), tmp_path / "run")


@pytest.mark.parametrize("kind", ["unrestricted", "stop-grad"])
def test_a_temperature_head_is_trained_and_opened_again(digits, tmp_path, kind):
    said = recipe(digits, model__temperature_head=kind, model__head_width=12)
    done = train(said, tmp_path / "run")
    model = open_model(done.model)
    images = open_images(f"folder:{digits}")
    batch = torch.stack([model.preprocess(images.image(row)) for row in range(0, 120, 10)])
    logits, features = model.outputs(batch)
    assert features.shape == (12, 16)
    found = model.module.temperature(batch).detach()
    assert found.std() > 0  # it has learnt to differ
    torch.testing.assert_close(logits, (model.module.parts(batch)[0] / found[:, None]).detach())
    asked = {"head.features": "temperature"}
    also = open_model(done.model, options=asked).outputs(batch)
    torch.testing.assert_close(also[1][:, 0], found)
    torch.testing.assert_close(also[0], logits)
    assert train(said, tmp_path / "run").resumed == 3


def test_training_goes_on_from_another_checkpoint(digits, tmp_path):
    first = train(recipe(digits, training__epochs=4, optimizer__lr=0.2), tmp_path / "first")
    said = recipe(digits, model__source=first.model, training__epochs=1)
    second = train(said.changed({"optimizer.lr": 1e-6}), tmp_path / "second")
    assert second.log[0].loss < first.log[0].loss
    first.checkpoint.unlink()  # the second is whole without it
    model = open_model(second.model)
    assert weights(tmp_path / "second")["source"] == "torch:support.trained_nets:conv"
    assert model.classes == 10
    again = train(said.changed({"optimizer.lr": 1e-6}), tmp_path / "second")
    assert again.resumed == 1


def test_training_begins_with_the_weights_of_a_file(digits, tmp_path):
    other = open_model("torch:support.trained_nets:conv", classes=4).module.state_dict()
    torch.save(other, tmp_path / "fetched.pt")
    said = recipe(digits, training__epochs=1, optimizer__lr=1e-9)
    done = train(said.changed({"model.weights": str(tmp_path / "fetched.pt")}), tmp_path / "run")
    found = torch.load(done.checkpoint, weights_only=True)["model"]
    assert len(found["10.weight"]) == 10  # the last layer is new: there are other classes
    for name in other:
        if not name.startswith("10."):
            torch.testing.assert_close(found[name], other[name], atol=1e-6, rtol=0)


def test_weights_that_are_not_there_are_named_as_the_recipe_names_them(
    digits, tmp_path, monkeypatch
):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    said = recipe(digits, model__source="timm:resnet18", model__pretrained=True)
    with pytest.raises(FileError, match=r"--set model\.weights=FILE") as error:
        train(said, tmp_path / "run")
    assert "--checkpoint" not in error.value.shell
    with pytest.raises(FileError, match=r"none\.pt"):
        train(said.changed({"model.weights": "none.pt"}), tmp_path / "other")


def test_all_images_may_be_trained_on(digits, tmp_path):
    done = train(recipe(digits, data__split="none", training__epochs=1), tmp_path / "run")
    assert done.log[0].accuracy is None
    assert not (tmp_path / "run" / "split.json").exists()
    assert rows_of(tmp_path / "run")[0]["accuracy"] == ""


def test_of_a_folder_with_parts_the_one_to_train_on_is_taken(tmp_path):
    digit_folders(tmp_path / "set" / "train", classes=2, each=10)
    digit_folders(tmp_path / "set" / "val", classes=2, each=5)
    said = recipe(tmp_path / "set", training__epochs=1, training__batch_size=4)
    train(said, tmp_path / "run")
    images = open_images(f"folder:{tmp_path / 'set'}:train")
    assert len(read_split(tmp_path / "run" / "split.json", images).parts["train"]) == 16


def test_bfloat16_learns_nearly_the_same(digits, tmp_path, monkeypatch):
    # Some virtual machines promise instructions for bfloat16 that they do not have.
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    curves = {}
    for precision in ("float32", "bfloat16"):
        said = recipe(digits, training__epochs=2, training__precision=precision)
        curves[precision] = [row.loss for row in train(said, tmp_path / precision).log]
    assert curves["float32"] != curves["bfloat16"]
    np.testing.assert_allclose(curves["bfloat16"], curves["float32"], rtol=0.02)


def test_without_matplotlib_there_is_no_picture(digits, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    train(recipe(digits, training__epochs=1), tmp_path / "run")
    assert not (tmp_path / "run" / "run.png").exists()
    assert (tmp_path / "run" / "log.csv").exists()


def test_plain_training_needs_neither_timm_nor_torchvision(digits, tmp_path, monkeypatch):
    for name in ("timm", "timm.data", "torchvision", "torchvision.transforms"):
        monkeypatch.setitem(sys.modules, name, None)
    train(recipe(digits, training__epochs=1), tmp_path / "run")
    with pytest.raises(MissingExtraError, match="mixing images needs the package 'timm'"):
        train(recipe(digits, augment__mixup=0.2), tmp_path / "mixed")
    with pytest.raises(MissingExtraError, match="changing training images needs the package 'tim"):
        train(recipe(digits, augment__flip=0.5), tmp_path / "flipped")
