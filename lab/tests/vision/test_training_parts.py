"""The parts of training, each against a peer: timm's own optimiser, schedule, mixing and loss."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("timm")
pytest.importorskip("PIL")

import timm
import torch
from PIL import Image
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from torch import nn
from torch.nn import functional

from smallcal.errors import FileError, InputError
from smallcal_lab.vision import open_images, open_model
from smallcal_lab.vision.loading import loader_of, loading
from smallcal_lab.vision.models.model import InputSpec, Preprocess
from smallcal_lab.vision.training.batches import (
    MIX,
    Batches,
    Loaded,
    Mixer,
    Place,
    draw_from,
    own_chance,
    pieces,
    place_of,
    training_transform,
)
from smallcal_lab.vision.training.loop import loss_of, optimizer_of, rate_of
from smallcal_lab.vision.training.recipe import Loss, read_recipe
from support.photos import photos
from support.trained_nets import conv
from support.training import PAPER_IMAGES, PAPER_MIX, photo_folders, recipe


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "resnet10t"])
def test_what_is_decayed_is_what_timm_decays(name):
    module = timm.create_model(name, num_classes=7)
    ours = optimizer_of(read_recipe("paper-adamw"), module)
    theirs = create_optimizer_v2(module, "adamw", lr=5e-5, weight_decay=0.05)
    assert type(ours) is type(theirs)
    for one, other in zip(ours.param_groups, theirs.param_groups, strict=True):
        assert [id(p) for p in one["params"]] == [id(p) for p in other["params"]]
        for key in ("lr", "weight_decay", "betas", "eps", "amsgrad"):
            assert one[key] == other[key], key


def test_sgd_is_torchs_with_momentum():
    module = conv()
    ours = optimizer_of(read_recipe("paper-sgd"), module)
    theirs = create_optimizer_v2(module, "momentum", lr=0.1, weight_decay=5e-4, momentum=0.9)
    for one, other in zip(ours.param_groups, theirs.param_groups, strict=True):
        assert [id(p) for p in one["params"]] == [id(p) for p in other["params"]]
        for key in ("lr", "weight_decay", "momentum", "nesterov", "dampening"):
            assert one[key] == other[key], key


def rates(optimizer, step, epochs):
    found = []
    for epoch in range(epochs):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        step(epoch)
    return found


@pytest.mark.parametrize(
    ("epochs", "warmup", "final"), [(100, 5, 0.0), (10, 0, 0.0), (12, 3, 1e-3)]
)
def test_rates_are_those_of_timms_cosine(epochs, warmup, final):
    said = recipe("x", training__epochs=epochs, schedule__warmup_epochs=warmup)
    said = said.changed({"schedule.final_lr": final})
    weight = nn.Parameter(torch.zeros(1))
    theirs = torch.optim.SGD([weight], lr=said.optimizer.lr)
    cosine = CosineLRScheduler(
        theirs, t_initial=epochs, lr_min=final, warmup_t=warmup, warmup_lr_init=1e-6
    )
    wanted = rates(theirs, lambda epoch: cosine.step(epoch + 1), epochs)
    np.testing.assert_allclose([rate_of(said, epoch) for epoch in range(epochs)], wanted, 1e-12)


def test_rates_in_steps_are_torchs_own():
    said = read_recipe("paper-sgd")
    weight = nn.Parameter(torch.zeros(1))
    theirs = torch.optim.SGD([weight], lr=0.1)
    steps = torch.optim.lr_scheduler.MultiStepLR(theirs, [150, 250])
    wanted = rates(theirs, lambda _: steps.step(), 350)
    np.testing.assert_allclose([rate_of(said, epoch) for epoch in range(350)], wanted, rtol=1e-12)
    constant = recipe("x", schedule__name="constant", schedule__warmup_epochs=1)
    assert [rate_of(constant, epoch) for epoch in range(3)] == [1e-6, 0.05, 0.05]


def test_the_loss_of_a_mixed_batch_is_timms():
    torch.manual_seed(0)
    logits, labels = torch.randn(8, 5), torch.randint(0, 5, (8,))
    images = torch.rand(8, 3, 16, 16)
    said = recipe("x", training__batch_size=8, **PAPER_MIX)
    for step in range(6):
        mixed, shares = Mixer(said, 5)(images.clone(), labels, epoch=0, step=step)
        ours = loss_of(said.loss)(logits, shares)
        theirs_mixed, theirs = timms(images.clone(), labels, step)
        assert torch.equal(mixed, theirs_mixed)
        torch.testing.assert_close(ours, SoftTargetCrossEntropy()(logits, theirs))


def timms(images, labels, step):
    mixer = Mixup(0.8, 1.0, prob=1.0, switch_prob=0.5, label_smoothing=0.1, num_classes=5)
    with own_chance():
        draw_from(0, MIX, 0, step)
        return mixer(images, labels)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_brier_score_beside_the_cross_entropy(smoothing):
    torch.manual_seed(1)
    logits, labels = torch.randn(7, 4, dtype=torch.float64), torch.randint(0, 4, (7,))
    found = float(loss_of(Loss(label_smoothing=smoothing, brier=0.7))(logits, labels))
    total = 0.0
    for row, label in zip(logits.numpy(), labels.tolist(), strict=True):
        p = np.exp(row) / np.exp(row).sum()
        aim = np.full(4, smoothing / 4)
        aim[label] += 1 - smoothing
        total += -(aim * np.log(p)).sum() + 0.7 * ((p - aim) ** 2).sum()
    assert found == pytest.approx(total / 7, rel=1e-9)
    shares = functional.one_hot(labels, 4).double()
    same = loss_of(Loss(label_smoothing=smoothing, brier=0.7))(logits, shares)
    assert float(same) == pytest.approx(found, rel=1e-12)


def test_pieces_of_a_batch_are_mixed_as_the_whole():
    said = recipe("x", training__batch_size=16, **PAPER_MIX)
    images, labels = torch.rand(16, 3, 8, 8), torch.randint(0, 5, (16,))
    for step in range(6):
        whole = Mixer(said, 5)(images.clone(), labels, epoch=2, step=step)
        for rank in range(4):
            own = torch.from_numpy(pieces(16, Place(rank, 4)))
            part = Mixer(said, 5)(images[own].clone(), labels[own], epoch=2, step=step)
            assert torch.equal(part[0], whole[0][own])
            assert torch.equal(part[1], whole[1][own])


def test_processes_share_out_each_batch():
    batches = [list(Batches(50, 16, 3, Place(rank, 4)).of(1)) for rank in range(4)]
    (whole,) = [list(Batches(50, 16, 3, Place()).of(1))]
    assert len(whole) == 3
    for step, (_, rows) in enumerate(whole):
        parts = np.concatenate([one[step][1] for one in batches])
        assert sorted(parts) == sorted(rows)
    seen = np.concatenate([rows for _, rows in whole])
    assert len(set(seen.tolist())) == 48
    other = np.concatenate([rows for _, rows in Batches(50, 16, 3, Place()).of(2)])
    assert (seen != other).any()
    with pytest.raises(InputError, match="9 images are fewer than one batch"):
        Batches(9, 16, 0, Place())
    with pytest.raises(InputError, match="must be a multiple of 6 for 3 processes"):
        Batches(90, 16, 0, Place(0, 3))


@pytest.fixture
def pictures(tmp_path):
    return open_images(f"folder:{photo_folders(tmp_path / 'images')}")


def loaded(pictures, **changes):
    said = recipe("x", **changes)
    seen = InputSpec((24, 24), mean=(0.4,) * 3, std=(0.3,) * 3)
    return Loaded(pictures, training_transform(said, seen, Preprocess(seen)), said.training.seed)


@pytest.mark.parametrize(
    "changes",
    [
        PAPER_IMAGES,
        {"augment__crop": "padded", "augment__flip": 0.5},
        {"augment__flip": 1.0, "augment__erasing": 1.0},
    ],
    ids=["paper", "padded", "whole"],
)
def test_an_image_is_changed_alike_whoever_loads_it(pictures, changes):
    rows = np.arange(24)
    makes = loaded(pictures, **changes)
    state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    images, labels = makes[(3, rows)]
    assert torch.equal(torch.get_rng_state(), state[0])
    assert (np.random.get_state()[1] == state[1]).all()  # noqa: NPY002
    assert images.shape == (24, 3, 24, 24)
    assert labels.tolist() == pictures.labels.tolist()
    assert torch.equal(makes[(3, rows[::-1])][0], images.flip(0))
    asked = [(3, rows[start : start + 5]) for start in range(0, 24, 5)]
    for workers in (0, 2):
        with loading(loader_of(makes, asked, workers=workers)) as batches:
            again = torch.cat([one[0] for one in batches])
        assert torch.equal(again, images)
    assert torch.equal(pickle.loads(pickle.dumps(makes))[(3, rows)][0], images)
    other = makes[(4, rows)][0]
    assert not torch.equal(other, images)
    assert not torch.equal(loaded(pictures, training__seed=1, **changes)[(3, rows)][0], images)


def test_a_process_that_is_killed_is_one_line_and_none_stays(pictures):
    makes = Loaded(pictures, Deadly())
    asked = [(0, np.array([row])) for row in range(24)]
    with (
        pytest.raises(InputError, match="was killed, perhaps for lack of memory") as error,
        loading(loader_of(makes, asked, workers=2)) as batches,
    ):
        list(batches)
    assert "try fewer --workers" in error.value.shell
    assert "\n" not in str(error.value)
    assert not multiprocessing.active_children()


class Deadly:
    """A preprocessing that ends the process it is in, at the eighth image."""

    left = 8

    def __call__(self, image):
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.zeros(3, 4, 4)


def test_what_preprocessing_raises_is_one_line(pictures):
    def failing(image):
        raise KeyError("colour\nmap")

    found = Loaded(pictures, failing)[(0, np.array([3]))]
    assert isinstance(found, InputError)
    assert str(found).startswith("images: row 3 (a/03.jpg): KeyError: ")
    assert "\n" not in str(found)
    sizes = iter([torch.zeros(3, 4, 4), torch.zeros(3, 4, 5)])
    found = Loaded(pictures, lambda image: next(sizes))[(0, np.array([3, 4]))]
    assert "images of several sizes" in str(found)


def test_without_augmentation_images_are_seen_as_in_a_test(pictures):
    seen = InputSpec((24, 24))
    own = Preprocess(seen)
    assert training_transform(recipe("x"), seen, own) is own


def test_the_whole_image_flipped_is_the_test_image_flipped(pictures):
    makes = loaded(pictures, augment__flip=1.0)
    seen = Preprocess(InputSpec((24, 24), mean=(0.4,) * 3, std=(0.3,) * 3))
    wanted = seen(pictures.image(5)).flip(2)
    torch.testing.assert_close(makes[(0, np.array([5]))][0][0], wanted, atol=1e-5, rtol=0)


def test_padding_moves_the_image_by_less_than_an_eighth(pictures):
    makes = loaded(pictures, augment__crop="padded")
    seen = Preprocess(InputSpec((24, 24), mean=(0.4,) * 3, std=(0.3,) * 3))
    still = seen(pictures.image(0))
    black = torch.full((3, 30, 30), -0.4 / 0.3)
    black[:, 3:27, 3:27] = still
    windows = {(i, j): black[:, i : i + 24, j : j + 24] for i in range(7) for j in range(7)}
    found = set()
    for epoch in range(30):
        image = makes[(epoch, np.array([0]))][0][0]
        (where,) = [at for at, one in windows.items() if torch.allclose(one, image, atol=1e-5)]
        found.add(where)
    assert len(found) > 15
    alike = loaded(pictures.take([0] * 20), augment__crop="padded")[(0, np.arange(20))][0]
    assert len(torch.unique(alike, dim=0)) > 10  # each image moves by itself


def test_an_image_without_a_bit_of_colour_is_black():
    """Pillow 13 no longer makes it so; timm's strongest Posterize asks for it now and then."""
    said = recipe("x", augment__auto_augment="rand-m10-mstd0-inc1")
    steps = training_transform(said, InputSpec((24, 24)), None)
    (policy,) = [step for step in steps.transforms if hasattr(step, "ops")]
    (posterize,) = [one for one in policy.ops if one.name == "PosterizeIncreasing"]
    posterize.prob = 1.0
    image = Image.fromarray(photos(24)[0])
    assert np.asarray(posterize(image)).max() == 0
    posterize.magnitude = 9
    kept = np.unique(np.asarray(posterize(image)))
    assert set(kept.tolist()) <= {0, 128}


@pytest.mark.parametrize("policy", ["rand-x9", "bogus"])
def test_a_policy_that_timm_does_not_know(policy):
    said = recipe("x", augment__auto_augment=policy)
    with pytest.raises(FileError, match=f"auto_augment = '{policy}'"):
        training_transform(said, InputSpec((24, 24)), None)


def test_a_temperature_head_divides_and_may_stop_the_gradient():
    torch.manual_seed(0)
    images, labels = torch.rand(6, 3, 8, 8), torch.randint(0, 10, (6,))
    gradients = {}
    for kind in ("unrestricted", "stop-grad"):
        torch.manual_seed(5)
        options = {"head.temperature": kind, "head.width": 9}
        opened = open_model("torch:support.trained_nets:conv", classes=10, options=options)
        head = opened.module.train()
        logits, found = head.parts(images)
        torch.testing.assert_close(head(images), logits / found[:, None])
        assert ((found > 0.5) & (found < 2)).all()  # it begins near one
        functional.cross_entropy(head(images), labels).backward()
        gradients[kind] = [p.grad.clone() for p in head.parameters()]
        weights = dict(head.named_parameters())
        # Through z alone, the temperature being a number.
        head.zero_grad()
        functional.cross_entropy(head.backbone(images) / found[:, None].detach(), labels).backward()
        through_z = weights["backbone.0.weight"].grad
        same = torch.allclose(gradients[kind][0], through_z, atol=1e-7)
        assert same == (kind == "stop-grad")
        assert gradients[kind][-1].abs().sum() > 0  # the head itself learns in both


def test_slopes_of_the_head_are_right_by_finite_differences():
    torch.manual_seed(0)
    options = {"head.temperature": "unrestricted", "head.width": 4}
    head = open_model(
        "torch:support.trained_nets:conv", classes=10, options=options
    ).module.double()
    images, labels = torch.rand(4, 3, 8, 8, dtype=torch.float64), torch.arange(4)

    def loss():
        return functional.cross_entropy(head(images), labels)

    loss().backward()
    for name in ("backbone.0.weight", "head.0.weight", "head.2.bias"):
        weight = dict(head.named_parameters())[name]
        flat, step = weight.data.view(-1), 1e-6
        flat[0] += step
        high = loss().item()
        flat[0] -= 2 * step
        low = loss().item()
        flat[0] += step
        assert (high - low) / (2 * step) == pytest.approx(float(weight.grad.view(-1)[0]), rel=1e-4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"head.temperature": "warm"}, "head.temperature cannot be 'warm'; choose from unrest"),
        ({"head.temprature": "stop-grad"}, "a head has no option 'temprature'; did you mean"),
        (
            {"head.temperature": "stop-grad", "head.width": 0},
            "head.width cannot be 0; choose from whole",
        ),
        ({"head.features": "temperature"}, "has no temperature head"),
    ],
)
def test_options_of_a_head_that_cannot_be(options, words):
    with pytest.raises(InputError, match=words):
        open_model("torch:support.trained_nets:conv", classes=10, options=options)


def test_temperatures_may_stand_for_features():
    options = {"head.temperature": "stop-grad", "head.features": "temperature"}
    model = open_model("torch:support.trained_nets:conv", classes=10, options=options)
    images = torch.rand(5, 3, 8, 8)
    logits, features = model.outputs(images)
    assert features.shape == (5, 1)
    torch.testing.assert_close(features[:, 0], model.module.temperature(images))
    torch.testing.assert_close(logits, model.module(images))


def test_processes_and_devices_that_cannot_be():
    assert place_of({"RANK": "0"}) == Place()
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="the device 'cuda' is not available: ") as caught:
            Place().device("cuda")
        assert "\n" not in str(caught.value)
        assert Place().device("auto").type == "cpu"
