"""``smallcal train``: what it prints, and that what is wrong is one line."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("PIL")

from smallcal.errors import InputError
from support.training import digit_folders, recipe


@pytest.fixture
def digits(here):
    images = digit_folders(here / "digits", classes=3)
    (here / "r.toml").write_text(recipe(images, training__epochs=2, training__batch_size=8).text())
    return images


def test_recipes_are_listed_and_shown(cli):
    code, out, _ = cli("train", "--list")
    assert code == 0
    assert "paper-lowdata-10    The paper's fine-tuning on 10 %" in out
    code, out, _ = cli("train", "--list", "--json")
    assert json.loads(out)["paper-sgd"] == "SGD for 350 epochs, from random weights"
    code, out, _ = cli("train", "paper-adamw", "--show")
    assert code == 0
    assert "lr = 5e-5\n" in out
    assert "# RandAugment; its strength is not said" in out
    code, out, _ = cli("train", "paper-adamw", "--show", "--epochs", "30", "--seed", "4")
    assert "epochs = 30\n" in out
    assert "seed = 4\n" in out


def test_a_run_its_lines_and_its_end(cli, digits, here):
    code, out, err = cli("train", "r.toml", "-o", "run", "--seed", "3", "--set", "optimizer.lr=0.1")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("epoch 1 of 2: loss ")
    assert lines[1].split(",")[2] == " rate 0.05"
    assert lines[2:] == [
        "Wrote run/last.pt. Next:",
        "  smallcal logits 'checkpoint:run/last.pt?torch=support.trained_nets:conv' TEST_DATA "
        "--calibration TRAIN_DATA --calibration-split run/split.json -o DIR",
    ]
    again = ("train", "r.toml", "-o", "run", "--seed", "3", "--set", "optimizer.lr=0.1")
    code, out, err = cli(*again)
    assert code == 0
    assert err == "smallcal: note: all 2 epochs were done before\n"
    code, out, _ = cli(*again, "--json")
    found = json.loads(out)
    assert (found["resumed"], len(found["log"])) == (2, 2)
    assert found["checkpoint"] == "run/last.pt"
    # Its own recipe goes on as well.
    code, _, err = cli("train", "run/recipe.toml", "-o", "run")
    assert (code, err) == (0, "smallcal: note: all 2 epochs were done before\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name a recipe; smallcal train --list shows them"),
        (["r.toml"], "name an output folder with -o"),
        (["r.tml", "-o", "x"], "there is no recipe r.tml; did you mean 'r.toml'?"),
        (["r.toml", "-o", "x", "--set", "lr"], "--set must look like optimizer.lr=1e-4; got 'lr'"),
        (["r.toml", "-o", "x", "--set", "optimizer.lr=fast"], "lr must be a number; got 'fast'"),
        (["r.toml", "-o", "x", "--data", "folder:none"], "the folder none is not there"),
        (["r.toml", "-o", "x", "--device", "cuda:99"], "the device 'cuda:99' is not available"),
        (["r.toml", "-o", "r.toml"], "r.toml is an input and would be overwritten"),
        (["paper-sgd", "-o", "x"], "write --data cifar100:DIR"),
        (["r.toml", "-o", "digits/x"], "would be written into"),
    ],
)
def test_what_is_wrong_is_one_line(cli, digits, here, words, said):
    code, out, err = cli("train", *words)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1
    assert out == ""
    assert not (here / "x").exists()


def test_an_error_on_the_way_says_how_to_go_on(cli, digits, here, monkeypatch):
    monkeypatch.setattr("smallcal_lab.vision.training.training._DRAWING", 0)
    images = sorted((digits / "1").iterdir())
    good = [image.read_bytes() for image in images]

    def damaged(self, log):
        for image in images:
            image.write_bytes(b"nothing")

    monkeypatch.setattr("smallcal_lab.vision.training.training.RunFolder.draw", damaged)
    code, out, err = cli("train", "r.toml", "-o", "run")
    assert code == 2
    assert out.count("\n") == 1
    note, error = err.splitlines()
    assert note.endswith("run the same command to resume: smallcal train r.toml -o run")
    assert "cannot read the image" in error
    for image, content in zip(images, good, strict=True):
        image.write_bytes(content)
    monkeypatch.undo()
    monkeypatch.chdir(here)
    assert cli("train", "r.toml", "-o", "run")[0] == 0


def test_ctrl_c_keeps_what_is_done(cli, digits, here, monkeypatch):
    def pressed(self, log):
        raise KeyboardInterrupt

    monkeypatch.setattr("smallcal_lab.vision.training.training.RunFolder.draw", pressed)
    code, _, err = cli("train", "r.toml", "-o", "run")
    assert code == 130
    note, error = err.splitlines()
    assert note == (
        "smallcal: note: finished epochs are kept; run the same command to resume: "
        "smallcal train r.toml -o run"
    )
    assert error == "smallcal: error: interrupted; no partial file was left"
    assert len((here / "run" / "log.csv").read_text().splitlines()) == 2
    monkeypatch.undo()
    monkeypatch.chdir(here)
    code, out, _ = cli("train", "r.toml", "-o", "run")
    assert code == 0
    assert out.startswith("epoch 2 of 2")


def test_only_the_first_of_several_processes_speaks(cli, digits, monkeypatch):
    def failing(*given, **more):
        raise InputError("the disk is on fire")

    monkeypatch.setattr("smallcal_lab.vision.train", failing)
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    assert cli("train", "r.toml", "-o", "run") == (2, "", "")
    monkeypatch.setenv("RANK", "0")
    said = cli("train", "r.toml", "-o", "run")[2]
    assert said.startswith("smallcal: error: the disk is on fire [")
