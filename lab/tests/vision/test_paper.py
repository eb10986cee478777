"""The paper as one file: its cells are those of the printed numbers; errors name the entry."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("PIL", reason="images need Pillow")

import smallcal as sc
from perfect_collection import perfect_collection
from smallcal_lab.studies import Cell, Collection
from smallcal_lab.studies.collection import ShiftSet
from smallcal_lab.studies.reproduce.reference import load_reference
from smallcal_lab.studies.reproduce.run import agenda_of
from smallcal_lab.vision import Places, load_paper, plan_paper
from smallcal_lab.vision.paper.cells import PAPER
from smallcal_lab.vision.paper.work import work_of
from smallcal_lab.vision.training.recipe import recipe_names

NOWHERE = Places(Path("nowhere"), Path("out"))


def of_reference():
    """Every model and seed that a printed number is of."""
    found = set()
    for value in load_reference().values:
        for backbone in value.backbones if value.dataset != "all" else ():
            for seed in value.seeds_of(backbone) or (0,):
                found.add(f"{value.dataset}/{backbone}/seed{seed}")
    return found


def test_every_model_of_the_printed_numbers_is_planned_and_no_other():
    paper = load_paper()
    planned = {cell.name for cell in paper.cells if not cell.unprinted}
    elsewhere = set(paper.elsewhere)
    assert planned | elsewhere == of_reference()
    assert planned & elsewhere == set()
    assert all(paper.elsewhere.values())
    unprinted = {cell.name for cell in paper.cells if cell.unprinted}
    assert unprinted & of_reference() == set()
    assert {cell.recipe for cell in paper.cells if cell.recipe} == set(recipe_names())


def calibrated_on(work):
    """How many images a cell is calibrated on."""
    sizes = {"first-5": 5000, "halves": 2500, "random-2500": 2500}
    if work.cell.calibration:
        return 200 * 50
    return sizes.get(work.cell.split, work.calibration)


def planned_collection(folder, paper):
    """What ``study reproduce`` would find if the whole plan was run, with noise for logits."""
    cells = []
    for cell in paper.cells:
        work = work_of(cell, paper, NOWHERE)
        size, file = calibrated_on(work), f"{calibrated_on(work)}.npz"
        if not (folder / file).exists():
            logits = np.random.default_rng(0).normal(size=(size, 3))
            np.savez(folder / file, logits=logits, labels=np.arange(size) % 3, features=logits)
        shifts = (
            [ShiftSet(kind, severity, file) for kind, severity in cell.corrupt.parts]
            if cell.corrupt
            else []
        )
        for shift in cell.shifts:
            parts = shift.parts or ((shift.kind, 0),)
            shifts += [ShiftSet(kind, severity, file) for kind, severity in parts]
        shifts += [ShiftSet(cell.test_is, 0, file)] if cell.test_is else []
        named = cell.dataset, cell.backbone, cell.seed
        cells.append(Cell(*named, file, file, tuple(shifts), folder))
    return Collection("planned", tuple(cells), folder)


@pytest.mark.slow
def test_what_the_plan_makes_is_what_the_reproduction_needs(tmp_path):
    reference = load_reference()
    elsewhere = {name.split("/")[1] for name in load_paper().elsewhere}
    planned, all_there = tmp_path / "planned", tmp_path / "all"
    for folder in (planned, all_there):
        folder.mkdir()
    ours = agenda_of(planned_collection(planned, load_paper()), reference)
    best = agenda_of(perfect_collection(all_there, reference), reference)

    def checked(agenda):
        return {claim.value for claim in map(hashable, agenda.claims)}

    def hashable(claim):
        return replace(claim, value=repr(claim.value))

    lost = checked(best) - checked(ours)
    assert checked(ours) <= checked(best)
    assert all(any(name in value for name in elsewhere) for value in lost)
    assert len(checked(ours)) > 3000


def test_the_protocols_of_the_paper_are_in_the_file():
    paper = load_paper()
    works = {cell.name: work_of(cell, paper, NOWHERE) for cell in paper.cells}
    main = works["cifar100/vit-b16/seed4"]
    assert (main.trained, main.epochs, main.calibration, main.test) == (47500, 100, 2500, 10000)
    assert main.shifts == {"cifar100-c": (95, 10000)}
    assert main.recipe.training.seed == 4
    assert main.recipe.model.source == "timm:vit_base_patch16_224.augreg_in21k_ft_in1k"
    low = works["cifar100-10pct/vit-b16/seed0"]
    assert (low.trained, low.calibration, low.recipe.data.split) == (4750, 2500, "5%+10%")
    one = works["cifar100/vit-b16-stopgrad/seed0"]
    assert (one.epochs, one.recipe.optimizer.name, one.begins_pretrained) == (350, "sgd", False)
    tiny = works["tiny-imagenet/swin-t/seed2"]
    assert (tiny.trained, tiny.calibration, tiny.shifts) == (
        95000,
        5000,
        {"corrupted here": (95, 10000)},
    )
    hundred = works["imagenet100/deit-s/seed4"]
    assert (hundred.trained, hundred.test, hundred.shifts) == (
        126689,
        5000,
        {"imagenet-v2": (1, 1000)},
    )
    assert hundred.recipe.data.split == "none"
    whole = works["imagenet1k/vit-b16/seed0"]
    assert (whole.recipe, whole.trained, whole.cell.whole_shifts) == (None, 0, True)
    assert whole.shifts == {"imagenet-c": (75, 50000)}
    assert whole.seen == 76 * 50000
    assert [works[f"imagenet-sketch/vit-b16/seed{n}"].images.split_seed for n in range(3)] == [
        0,
        1,
        2,
    ]


def test_names_choose_cells():
    paper = load_paper()
    names = [cell.name for cell in paper.only(["imagenet100/*/seed0", "imagenet1k/resnet50"])]
    assert names == [
        *(f"imagenet100/{name}/seed0" for name in ("vit-b16", "deit-s", "swin-t")),
        "imagenet1k/resnet50/seed0",
    ]
    assert len(paper.only(["cifar100"])) == 22
    assert paper.only([]) == paper.cells
    for text, said in {
        "cifar100/vit-b16/seed9": "no cell is called 'cifar100/vit-b16/seed9'; did you mean",
        "cifra100": "did you mean 'cifar100'?",
        "mnist": "choose from cifar100, cifar100-10pct",
        "cifar100/resnet20": "cifar100/resnet20/seed0 is not made here: the paper says neither",
    }.items():
        with pytest.raises(sc.InputError) as error:
            paper.only([text])
        assert said in str(error.value)


CELL = """
[[cell]]
dataset = "d"
backbone = "b"
model = "timm:resnet18"
recipe = "paper-adamw"
train = "folder:d:train"
split = "5%"
test = "folder:d:test"
"""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("split =", "spilt ="), "cell 1: does not know spilt; keys are dataset, backbone"),
        (('test = "folder:d:test"', ""), "cell 1: lacks test"),
        (('"5%"', '"five"'), "cell 1 (d b): unknown split 'five'"),
        (('recipe = "paper-adamw"', ""), "cell 1 (d b): give both recipe (how to train) and train"),
        (('split = "5%"', ""), "give exactly one of split and calibration"),
        (('split = "5%"', 'split = "5%"\ncalibration = "folder:d:val"'), "exactly one of"),
        (('"folder:d:test"', '"folder:"'), "'folder:' does not say where the images are"),
        (
            ('"folder:d:test"', '"foldr:d"'),
            "unknown kind of images 'foldr'; did you mean 'folder'?",
        ),
        (('"b"', '"a/b"'), "backbone 'a/b' cannot be part of a file's name"),
        (('"b"', '"b"\nseeds = 0'), "seeds must be their number, or a list of numbers; got 0"),
        (('"b"', '"b"\nseeds = [1, 1]'), "seeds must differ"),
        (('"b"', '"b"\nseeds = "all"'), "seeds must be of type int | list; got 'all'"),
        (
            ('"b"', '"b"\ncorrupt = {kinds = ["fogg"]}'),
            "there is no corruption 'fogg': did you mean",
        ),
        (
            ('"b"', '"b"\ncorrupt = {severities = [6]}'),
            "severity must be a whole number from 1 to 5; got 6",
        ),
        (('"b"', '"b"\ncorrupt = {kinds = "most"}'), "there is no corruption 'most'"),
        (('"b"', '"b"\nshifts = [{date = "folder:e"}]'), "shift 1: lacks data"),
        (('"b"', '"b"\nshifts = [{data = "folder:e", kinds = "all"}]'), "no corruptions to choose"),
        (('"b"', '"b"\ncorrupt_images = 9'), "corrupt (which images) is missing"),
        (("[[cell]]", "[[cells]]\na = 1\n[[cell]]"), "does not know cells"),
        (
            ("[[cell]]", '[images]\n"folder:d" = "many"\n[[cell]]'),
            "folder:d must be a whole number of at least 1; got 'many'",
        ),
        (("[[cell]]", CELL + "[[cell]]"), "d/b/seed0 occurs more than once"),
        (('"5%"', '"5%'), "cannot be read as a file of cells"),
    ],
)
def test_a_wrong_file_is_told_in_a_line(tmp_path, change, said):
    file = tmp_path / "mine.toml"
    file.write_text(CELL.replace(*change))
    with pytest.raises(sc.FileError) as error:
        load_paper(file)
    assert said in str(error.value)
    assert str(error.value).startswith(str(file))
    assert "\n" not in str(error.value)


def test_a_published_model_cannot_have_a_split_of_training_images(tmp_path):
    text = CELL.replace('recipe = "paper-adamw"\n', "").replace('train = "folder:d:train"\n', "")
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(sc.FileError, match="the split 5% divides training images"):
        load_paper(tmp_path / "mine.toml")


@pytest.mark.parametrize(
    ("recipe", "overrides", "said"),
    [
        ("paper-adam", "{}", "there is no recipe"),
        ("paper-adamw", "{training.epochz = 3}", "[training] has no key 'epochz'"),
        ("paper-adamw", "{epochs = 3}", "'epochs' is not a key of a recipe"),
        ("paper-adamw", "{training.epochs = 0}", "epochs must be at least 1"),
    ],
)
def test_a_wrong_recipe_names_file_and_cell(tmp_path, recipe, overrides, said):
    file = tmp_path / "mine.toml"
    file.write_text(CELL.replace("paper-adamw", recipe) + f"overrides = {overrides}\n")
    paper = load_paper(file)
    with pytest.raises(sc.FileError) as error:
        work_of(paper.cells[0], paper, NOWHERE)
    assert said in str(error.value)
    assert str(error.value).startswith(f"{file}: d/b/seed0: ")


def test_the_shipped_file_is_the_one_that_is_loaded(tmp_path):
    assert load_paper() == load_paper(PAPER)
    assert load_paper().reference == "paper"
    copy = tmp_path / "paper.toml"
    copy.write_text(PAPER.read_text().replace('"paper" ', '"mine.json" '))
    assert load_paper(copy).cells == load_paper().cells
    assert load_paper(copy).reference == str(tmp_path / "mine.json")


def test_a_plan_without_anything_there_says_how_much_it_would_be():
    paper = load_paper()
    plan = plan_paper(paper, paper.cells, NOWHERE, measured=False)
    assert all(plan.images.values())
    assert not plan.trained | plan.extracted
    assert sum(work.steps for work in plan.works) > 4e8
    found = json.loads(json.dumps(plan.to_dict()))
    assert len(found["cells"]) == 72
    assert len(found["elsewhere"]) == 4
    sketch = next(one for one in found["cells"] if one["cell"] == "imagenet-sketch/vit-b16/seed2")
    assert sketch["commands"] == [
        [
            *("smallcal", "logits", "timm:vit_base_patch16_224.augreg_in21k_ft_in1k"),
            *("imagenet-sketch:nowhere/imagenet-sketch", "-o", "out/logits"),
            *("--dataset", "imagenet-sketch", "--backbone", "vit-b16", "--seed", "2"),
            *("--split", "random-2500", "--split-seed", "2"),
        ]
    ]
