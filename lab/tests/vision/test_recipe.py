"""Recipes: what may stand in them, and that those which come with smallcal are the paper's."""

from __future__ import annotations

import pytest

pytest.importorskip("PIL")

from smallcal.errors import FileError, InputError
from smallcal_lab.vision import read_recipe, recipe_names
from smallcal_lab.vision.training.recipe import recipe_of, recipe_text

TABLES = {"model": {"source": "timm:resnet18"}, "optimizer": {"lr": 0.1}}


def made(**sections):
    return recipe_of({**TABLES, **sections}, source="r.toml")


@pytest.mark.parametrize("name", recipe_names())
def test_a_shipped_recipe_is_read_and_written_back_as_it_is(name, tmp_path):
    recipe = read_recipe(name)
    assert recipe.title
    (tmp_path / "copy.toml").write_text(recipe.text(), encoding="utf-8")
    assert read_recipe(tmp_path / "copy.toml") == recipe
    (tmp_path / "own.toml").write_text(recipe_text(name), encoding="utf-8")
    assert read_recipe(tmp_path / "own.toml") == recipe


def test_the_fine_tuning_is_the_papers():
    recipe = read_recipe("paper-adamw")
    said, mixed = recipe.optimizer, recipe.augment
    assert (said.name, said.lr, said.weight_decay) == ("adamw", 5e-5, 0.05)
    assert (recipe.training.batch_size, recipe.training.epochs) == (64, 100)
    plan = recipe.schedule
    assert (plan.name, plan.warmup_epochs, plan.warmup_lr, plan.final_lr) == ("cosine", 5, 1e-6, 0)
    assert (mixed.mixup, mixed.cutmix, mixed.mix_probability) == (0.8, 1.0, 1.0)
    assert mixed.auto_augment.startswith("rand-")
    assert mixed.erasing > 0
    assert recipe.loss.label_smoothing == 0.1
    assert recipe.data.split == "5%"


@pytest.mark.parametrize("share", [10, 25])
def test_low_data_changes_nothing_but_the_split(share):
    low = read_recipe(f"paper-lowdata-{share}")
    assert low.data.split == f"5%+{share}%"
    plain = read_recipe("paper-adamw")
    assert low.changed({"data.split": "5%"}).tables() == plain.tables()


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("brier", {"loss.brier": 0.0}),
        ("temphead", {"model.temperature_head": "none"}),
        ("stopgrad", {"model.temperature_head": "none"}),
    ],
)
def test_the_bases_of_the_diagnostic_differ_in_one_thing(name, changes):
    base, plain = read_recipe(f"paper-sgd-{name}"), read_recipe("paper-sgd")
    assert base.tables() != plain.tables()
    assert base.changed(changes).tables() == plain.tables()
    assert (plain.training.epochs, plain.optimizer.name) == (350, "sgd")
    assert (plain.augment.crop, plain.augment.flip, plain.augment.mixes) == ("padded", 0.5, False)


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"modell": {}}, r"has no section 'modell'; did you mean 'model'\?"),
        ({"optimizer": {"lrr": 1, "lr": 1}}, r"\[optimizer\] has no key 'lrr'; did you mean 'lr'"),
        ({"optimizer": {}}, r"\[optimizer\] lacks the key lr"),
        ({"model": {}}, r"\[model\] lacks the key source"),
        ({"model": "timm:resnet18"}, r"\[model\] must be a table"),
        ({"optimizer": {"lr": "0.1"}}, r"\[optimizer\] lr must be a number; got '0.1'"),
        ({"optimizer": {"lr": True}}, r"\[optimizer\] lr must be a number; got True"),
        ({"optimizer": {"lr": 0}}, r"\[optimizer\] lr must be above 0; got 0"),
        ({"optimizer": {"lr": float("nan")}}, r"\[optimizer\] lr must be above 0; got nan"),
        ({"optimizer": {"lr": float("inf")}}, r"\[optimizer\] lr must be at most 1,000; got inf"),
        ({"optimizer": {"lr": 1001}}, r"\[optimizer\] lr must be at most 1,000; got 1001"),
        ({"optimizer": {"lr": 10**400}}, r"\[optimizer\] lr must be a number; got 10"),
        ({"optimizer": {"lr": 1, "name": "adam"}}, r"name is 'adam'; did you mean 'adamw'\?"),
        ({"optimizer": {"lr": 1, "betas": [0.9]}}, r"\[optimizer\] betas must be two numbers"),
        ({"optimizer": {"lr": 1, "betas": 0.9}}, r"betas must be a list of numbers; got 0.9"),
        ({"training": {"epochs": 2.5}}, r"\[training\] epochs must be a whole number; got 2.5"),
        ({"training": {"epochs": 0}}, r"\[training\] epochs must be at least 1; got 0"),
        ({"training": {"seed": 10**30}}, r"\[training\] seed must be at most 4,294,967,295"),
        ({"training": {"workers": -1}}, r"\[training\] workers must be at least 0"),
        ({"training": {"precision": "half"}}, r"precision is 'half'; choose from float32"),
        ({"loss": {"label_smoothing": 1}}, r"\[loss\] label_smoothing must be below 1; got 1"),
        ({"model": {"source": "a", "options": {"x": None}}}, r"options: None is no text, number"),
        ({"title": 3}, "title must be a text"),
        (
            {"schedule": {"warmup_epochs": 5}, "training": {"epochs": 5}},
            r"warmup_epochs \(5\) must be below \[training\] epochs \(5\)",
        ),
        ({"schedule": {"milestones": [3, 2]}}, r"milestones must rise"),
        (
            {"schedule": {"milestones": [99]}, "training": {"epochs": 9}},
            r"milestones must .* below \[training\] epochs \(9\)",
        ),
        (
            {"augment": {"mixup": 0.2}, "training": {"batch_size": 63}},
            r"batch_size must be even where images of a batch are mixed in pairs; got 63",
        ),
        ({"augment": {"crop_scale": [1.0, 0.1]}}, r"crop_scale must be two shares"),
    ],
)
def test_what_is_wrong_is_one_line_that_names_the_key(sections, words):
    with pytest.raises(FileError, match=words) as caught:
        made(**sections)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("r.toml")


def test_changes_are_named_by_section_and_key():
    recipe = made().changed(
        {"training.epochs": 7, "model.options.input.size": 32, "model.options.depth": 3}
    )
    assert recipe.training.epochs == 7
    assert recipe.model.options == {"input.size": 32, "depth": 3}
    assert recipe_of({**TABLES}, source="r.toml").model.options == {}
    with pytest.raises(InputError, match="'epochs' is not a key of a recipe"):
        made().changed({"epochs": 7})
    with pytest.raises(InputError, match="did you mean 'training'"):
        made().changed({"trainin.epochs": 7})


def test_odd_texts_come_back_from_toml(tmp_path):
    odd = 'a "quoted" \\ name\twith \x7f and 雪'
    recipe = made(model={"source": odd, "options": {"a b": [1, 2.5, {"c": odd}], "ü": True}})
    (tmp_path / "r.toml").write_text(recipe.text(), encoding="utf-8")
    assert read_recipe(tmp_path / "r.toml") == recipe


def test_files_that_are_no_recipes(tmp_path):
    with pytest.raises(FileError, match="there is no recipe paper-adam; did you mean 'paper-adamw"):
        read_recipe("paper-adam")
    (tmp_path / "bad.toml").write_text("[model\n")
    with pytest.raises(FileError, match=r"bad\.toml cannot be read as a recipe: .*line 1"):
        read_recipe(tmp_path / "bad.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError, match="cannot be read as a recipe"):
        read_recipe(tmp_path / "bytes.toml")
    with pytest.raises(FileError, match="cannot be read as a recipe: Is a directory"):
        read_recipe(tmp_path)
    with pytest.raises(FileError, match=r"did you mean .*bad\.toml"):
        read_recipe(tmp_path / "bed.toml")
    (tmp_path / "few.toml").write_text("title = 'x'\n")
    with pytest.raises(FileError, match=r"\[model\] lacks the key source"):
        read_recipe(tmp_path / "few.toml")
