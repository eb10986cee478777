"""Cells made end to end: trained, run over images, kept, and gone on with."""

import json
import shutil

import numpy as np
import pytest

pytest.importorskip("torch", reason="models need torch")
pytest.importorskip("PIL", reason="images need Pillow")

import smallcal as sc
from smallcal_lab.cli import paper as verb
from smallcal_lab.studies import load_collection
from smallcal_lab.vision import Places, RunSettings, load_paper, open_images, plan_paper, run_paper
from smallcal_lab.vision.paper.run import measure, missing_for
from smallcal_lab.vision.paper.work import work_of
from support.layouts import wnids, write_folders

NET = "torch:support.small_net:Net"
RECIPE = """
[model]
source = "torch:support.small_net:Net"
pretrained = false
[training]
epochs = 3
batch_size = 8
[optimizer]
name = "sgd"
lr = 0.1
"""
CELLS = f"""
name = "small"
[[cell]]
dataset = "photos"
backbone = "net"
seeds = 2
model = "{NET}"
recipe = "recipe.toml"
overrides = {{training.epochs = 1, model.options = {{width = 4}}}}
train = "folder:photos:train"
split = "20%"
test = "folder:photos:val"
corrupt = {{kinds = ["contrast", "fog"], severities = [1, 5]}}
corrupt_images = 9

[[cell]]
dataset = "photos"
backbone = "raw"
seeds = [3]
model = "{NET}?num_classes=3"
split = "random-12"
test = "folder:photos:val"
shifts = ["folder:dark"]
"""
SETTINGS = RunSettings(device="cpu", workers=0)


@pytest.fixture
def small(here):
    """A file of three cells with their images, in the current folder."""
    for part, each, side in (("train", 20, 24), ("val", 10, 40)):  # other sides, other pieces
        folder = here / "data" / "photos" / part
        write_folders(folder, ["cat", "dog", "owl"], each, side=side, ending=".png")
    write_folders(here / "data" / "dark", ["cat", "dog", "owl"], 4, ending=".png")
    (here / "recipe.toml").write_text(RECIPE)
    (here / "mine.toml").write_text(CELLS)
    return here


def files(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


def test_a_file_of_ones_own_is_run_and_ends_in_a_collection(cli, small):
    asked = ("paper", "--file", "mine.toml", "--data", "data", "--device", "cpu", "--workers", "0")
    code, out, err = cli(*asked, "-o", "out")
    assert (code, err) == (0, "")
    assert "photos/net/seed1 (2 of 3)" in out
    assert out.endswith("Next: smallcal study check out/logits\n")
    found = load_collection("out/logits")
    assert [cell.name for cell in found.cells] == [
        *("photos__net__s0", "photos__net__s1", "photos__raw__s3")
    ]
    trained, raw = found.cells[1], found.cells[2]
    assert [(one.kind, one.severity) for one in trained.shifts] == [
        *(("contrast", 1), ("contrast", 5), ("fog", 1), ("fog", 5))
    ]
    assert (trained.read("calibration").n, trained.read("test").n) == (12, 30)
    assert trained.read(trained.shifts[0]).n == 9
    assert (raw.read("calibration").n, raw.read("test").n) == (12, 18)
    assert [(one.kind, one.severity) for one in raw.shifts] == [("dark", 0)]

    before = files(small / "out")
    code, out, err = cli(*asked, "-o", "out")
    assert (code, err) == (0, "")
    assert out.count("it is trained already") == 2
    assert out.count("its logits exist already") == 3
    assert files(small / "out") == before


def test_a_run_gives_what_its_commands_give(cli, small):
    asked = (
        "paper",
        "--file",
        "mine.toml",
        "--data",
        "data",
        "--cells",
        "photos/net/seed1,photos/raw",
    )
    assert cli(*asked, "-o", "out", "--device", "cpu", "--workers", "0")[0] == 0
    code, out, _ = cli(*asked, "-o", "by-hand", "--plan", "--no-measure", "--json")
    assert code == 0
    for cell in json.loads(out)["cells"]:
        for words in cell["commands"]:
            assert cli(*words[1:], "--device", "cpu", "--workers", "0")[0] == 0
    for name in ("photos__net__s1", "photos__raw__s3"):
        ours, theirs = (files(small / root / "logits" / name) for root in ("out", "by-hand"))
        npz = [one for one in ours if one.endswith(".npz")]
        assert len(npz) >= 3
        assert {one: ours[one] for one in npz} == {one: theirs[one] for one in npz}


def test_what_was_stopped_goes_on(small):
    paper, places = load_paper("mine.toml"), Places(small / "data", small / "out")
    said = []

    def stop(line):
        said.append(line)
        if "contrast-1" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_paper(paper, paper.cells[:1], places, settings=SETTINGS, told=stop)
    assert not (small / "out" / "logits" / "collection.toml").exists()
    said.clear()
    run_paper(paper, paper.cells[:1], places, settings=SETTINGS, told=said.append)
    assert "  it is trained already" in said
    assert not any("calibration:" in line for line in said)
    whole = Places(small / "data", small / "whole")
    run_paper(paper, paper.cells[:1], whole, settings=SETTINGS)
    ours, theirs = (files(place.logits / "photos__net__s0") for place in (places, whole))
    assert {n: b for n, b in ours.items() if n.endswith(".npz")} == {
        n: b for n, b in theirs.items() if n.endswith(".npz")
    }


def test_more_corruptions_are_added_to_a_finished_cell(small):
    places = Places(small / "data", small / "out")
    paper = load_paper("mine.toml")
    run_paper(paper, paper.cells[:1], places, settings=SETTINGS)
    (small / "mine.toml").write_text(
        CELLS.replace('["contrast", "fog"]', '["contrast", "fog", "snow"]')
    )
    more = load_paper("mine.toml")
    found = run_paper(more, more.cells[:1], places, settings=SETTINGS)
    assert len(found.cells[0].shifts) == 6


@pytest.mark.parametrize(("whole", "n"), [("true", 30), ("false", 18)])
def test_shifted_sets_may_keep_the_twins_of_calibration_images(small, whole, n):
    shutil.copytree(small / "data" / "photos" / "val", small / "data" / "dark", dirs_exist_ok=True)
    for left in (small / "data" / "dark").glob("*/*_1[0-9].png"):
        left.unlink()
    (small / "mine.toml").write_text(CELLS + f"whole_shifts = {whole}\n")
    paper, places = load_paper("mine.toml"), Places(small / "data", small / "out")
    (cell,) = run_paper(paper, paper.cells[2:], places, settings=SETTINGS).cells
    assert cell.read(cell.shifts[0]).n == n
    assert cell.shifts[0].paired == (whole == "false")


def test_a_plan_knows_what_is_trained_and_what_is_finished(cli, small):
    asked = ("paper", "--file", "mine.toml", "--data", "data", "-o", "out")
    assert cli(*asked, "--cells", "photos/net", "--device", "cpu", "--workers", "0")[0] == 0
    paper, places = load_paper("mine.toml"), Places(small / "data", small / "out")
    (places.run(paper.cells[1]) / "last.pt").touch()  # trained once more, so to say
    code, out, _ = cli(*asked, "--plan", "--no-measure")
    assert code == 0
    words = " ".join(out.split())
    assert "net 2 recipe.toml 48 x 1 42 + 4 x 9 1, 1 trained" in words
    assert "3 cells, 2 of them to be done" in words


def test_a_changed_recipe_is_not_taken_for_the_old_one(cli, small):
    asked = ("paper", "--file", "mine.toml", "--data", "data", "--cells", "photos/net/seed0")
    assert cli(*asked, "-o", "out", "--device", "cpu")[0] == 0
    (small / "recipe.toml").write_text(RECIPE.replace("0.1", "0.2"))
    code, _, err = cli(*asked, "-o", "out", "--device", "cpu")
    assert code == 2
    assert "holds a run of another recipe" in err


def test_all_that_is_missing_is_told_at_once_and_nothing_begins(cli, small):
    text = CELLS.replace("folder:photos:val", "folder:photo:val").replace(":Net?", ":Nett?")
    (small / "mine.toml").write_text(text)
    code, out, err = cli("paper", "--file", "mine.toml", "--data", "data", "-o", "out")
    lines = err.splitlines()
    assert (code, out, len(lines)) == (2, "", 2)
    assert "the folder data/photo is not there; did you mean 'data/photos'?" in lines[0]
    assert "no factory 'Nett'; did you mean 'Net'?" in lines[1]
    assert not (small / "out").exists()


def test_parts_of_corrupted_sets_that_are_missing_are_named(small):
    (small / "data" / "c" / "fog" / "1").mkdir(parents=True)
    write_folders(small / "data" / "c" / "fog" / "1", wnids(3), 1)
    shifts = 'shifts = [{data = "imagenet-c:c", kinds = ["fog"], severities = [1, 2, 3]}]'
    (small / "mine.toml").write_text(CELLS.replace('shifts = ["folder:dark"]', shifts))
    paper, places = load_paper("mine.toml"), Places(small / "data", small / "out")
    lines = missing_for([work_of(paper.cells[2], paper, places)], places)
    assert lines == [f"imagenet-c:{small}/data/c lacks fog-2, fog-3"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "say --plan to see what would be run, or -o DIR to run it"),
        (("--plan", "--cells", "photos/nett"), "did you mean 'photos/net'?"),
        (("--plan", "--file", "mine.tml"), "mine.tml is not there; did you mean 'mine.toml'?"),
        (("-o", "mine.toml"), "mine.toml"),
    ],
)
def test_bad_commands_are_one_line(cli, small, words, said):
    file = () if "--file" in words else ("--file", "mine.toml")
    code, out, err = cli("paper", *file, "--data", "data", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_a_plan_is_printed_with_what_is_there(cli, small):
    code, out, err = cli("paper", "--file", "mine.toml", "--data", "data", "--plan")
    assert (code, err) == (0, "")
    words = " ".join(out.split())
    assert "net 2 recipe.toml 48 x 1 42 + 4 x 9" in words
    assert "raw 1 as published – 30 + 12" in words
    assert "folder:data/photos:val there" in words
    assert "smallcal train" in words
    assert "3 cells, 3 of them to be done: 96 images to train on" in words
    assert "A batch of each model was tried out on" in words
    shutil.rmtree(small / "data" / "dark")
    code, out, _ = cli("paper", "--file", "mine.toml", "--data", "data", "--plan", "--no-measure")
    assert code == 0
    words = " ".join(out.split())
    assert "folder:data/dark not there" in words
    assert "raw 1 as published – 30 + ?" in words
    assert "Nothing was measured." in words


def test_costs_are_those_of_the_images_and_the_batch_that_was_measured(small):
    paper = load_paper("mine.toml")
    plan = plan_paper(paper, paper.cells, Places(small / "data"), tflops=2.0)
    speed, work = plan.speeds[NET], plan.works[0]
    assert speed.reason == ""
    assert (work.steps, work.seen) == (48, 78)
    assert plan.hours([work]) == pytest.approx((48 * speed.train + 78 * speed.apply) / 3600)
    flops = (3 * 48 + 78) * speed.flops
    assert plan.hours([work], counted=True) == pytest.approx(flops / 2e12 / 3600)
    # Two convolutions and a layer of three classes, counted by hand for the width that is asked.
    first, second, last = 7 * 7 * 8 * 27, 3 * 3 * 4 * 72, 4 * 3
    assert speed.flops == 2 * (first + second + last)


def test_a_model_that_cannot_be_built_has_a_reason():
    assert "nowhere" in measure("torch:nowhere:net").reason
    assert measure("torch:nowhere:net").train == 0


def test_links_show_a_model_of_some_classes_the_folders_of_version_2(tmp_path):
    names = wnids(1000)
    own = [names[3], names[12], names[110]]
    write_folders(tmp_path / "imagenet3" / "val", own, 2)
    v2 = tmp_path / "imagenet-v2" / "imagenetv2-matched-frequency"
    write_folders(v2, [str(number) for number in range(120)], 1)
    (v2 / "imagenet_synsets.txt").write_text("\n".join(names))
    entry = CELLS.replace(
        'shifts = ["folder:dark"]',
        'shifts = [{data = "imagenet-v2:imagenet-v2:matched-frequency", '
        'classes = "folder:imagenet3:val"}]',
    )
    (tmp_path / "mine.toml").write_text(entry)
    shift = load_paper(tmp_path / "mine.toml").cells[2].shifts[0]
    places = Places(tmp_path, tmp_path / "out")
    for _ in range(2):  # what is there is left as it is
        folder = places.make_links(shift)
    images = open_images(f"folder:{folder}")
    assert images.classes == tuple(own)
    assert images.name == "imagenet-v2"
    assert images.ids == tuple(
        f"{wnid}/{n}_0.JPEG" for wnid, n in zip(own, (3, 12, 110), strict=True)
    )
    shutil.rmtree(v2 / "12")
    with pytest.raises(sc.FileError, match=f"has no class {names[12]}"):
        places.make_links(shift)


def test_imagenet_r_is_calibrated_on_clean_images_of_its_classes(here):
    names = wnids(1000)
    chosen = names[::5]
    write_folders(here / "imagenet" / "val", names, 2, side=8, ending=".png")
    write_folders(here / "imagenet-r", chosen, 1, side=8, ending=".png")
    (here / "imagenet-r" / "imagenet_synsets.txt").write_text("\n".join(names))
    (here / "mine.toml").write_text(f"""
[[cell]]
dataset = "imagenet1k-r"
backbone = "net"
model = "{NET}?num_classes=1000"
calibration = "imagenet:imagenet:val"
test = "imagenet-r:imagenet-r"
test_is = "imagenet-r"
draw = ["first-per-class", "stratified"]
""")
    paper = load_paper("mine.toml")
    for _ in range(2):
        (cell,) = run_paper(paper, paper.cells, Places(here, here / "out"), settings=SETTINGS).cells
    assert cell.draw_ways == ("first-per-class", "stratified")
    assert [(one.kind, one.severity) for one in cell.shifts] == [("imagenet-r", 0)]
    clean, shifted = cell.read("calibration"), cell.read(cell.shifts[0])
    assert (clean.logits.shape, shifted.logits.shape) == ((400, 200), (200, 200))
    assert np.array_equal(shifted.labels, np.arange(200))
    first = cell.draw(200, 0)
    assert np.array_equal(first.logits, clean.logits[::2])


def test_a_run_ends_in_the_reproduction_where_numbers_can_be_checked(cli, small, monkeypatch):
    asked = []
    monkeypatch.setattr(verb, "study_reproduce", lambda *words, **more: asked.append((words, more)))
    (small / "mine.toml").write_text('reference = "paper"\n' + CELLS)
    run = ("paper", "--file", "mine.toml", "--data", "data", "--cells", "photos/raw", "-o", "out")
    code, _, err = cli(*run, "--device", "cpu", "--workers", "0")
    assert code == 0
    assert err == (
        "smallcal: note: no printed number is of these cells alone; with more of them: "
        "smallcal study reproduce out/logits --out out/reproduced\n"
    )
    assert not asked
    value = {
        **{"table": "t", "dataset": "photos", "backbone": "raw", "seeds": [3], "budget": 12},
        **{"draws": None, "method": "none", "set": "clean", "metric": "ece15", "value": 10.0},
        "unit": "percent",
    }
    tolerances = {"deterministic": 0.011, "smart-bce": 0.15, "cifar100c": 0.05}
    (small / "numbers.json").write_text(
        json.dumps(
            {"version": 1, "tolerances": tolerances, "values": [{**value, "study": "clean"}]}
        )
    )
    (small / "mine.toml").write_text('reference = "numbers.json"\n' + CELLS)
    assert cli(*run, "--device", "cpu", "--workers", "0")[0] == 0
    ((words, more),) = asked
    assert words == ("out/logits",)
    assert (more["out"], more["reference"]) == ("out/reproduced", "numbers.json")
