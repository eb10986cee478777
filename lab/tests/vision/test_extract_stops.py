"""Extraction that is stopped or meets what it cannot use: one line, and the work is kept."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="models need torch")
pytest.importorskip("PIL", reason="images need Pillow")

from PIL import Image

import smallcal as sc
from smallcal.io.lock import alone_in
from smallcal_lab.vision import CellImages, ExtractionSettings, extract, open_images, split_images
from smallcal_lab.vision.extraction import store
from support.layouts import write_cifar10, write_folders

posix = pytest.mark.skipif(os.name != "posix", reason="signals and limits of a POSIX system")

NET = "torch:support.small_net:Net?num_classes=3"
FEW = ExtractionSettings(batch_size=8, workers=0)
WHITE = "dog/dog_9.png"
ROOT = Path(__file__).parents[3]
TESTS = ROOT / "tests"

#: The command line with parts of 16 images (four times the number), after a statement.
PROGRAM = """
import sys
from smallcal.cli import main
from smallcal_lab.vision.extraction import store
store.PART_IMAGES = 4
{}
sys.argv[0] = "smallcal"
main()
"""


@pytest.fixture
def photos(here, monkeypatch):
    monkeypatch.setattr(store, "PART_IMAGES", 4)
    write_folders(Path("photos"), ["cat", "dog", "owl"], 20, side=24, ending=".png")
    Image.new("RGB", (24, 24), "white").save(f"photos/{WHITE}")
    return "folder:photos"


def wanted(**more):
    return CellImages("folder:photos", **{"split": "first-2", **more})


def content(folder):
    files = [file for file in Path(folder).rglob("*") if file.is_file()]
    return {str(f.relative_to(folder)): f.read_bytes() for f in files if ".lock" not in f.name}


def finished_parts(folder="out"):
    return sorted(Path(folder).glob("*/parts/*/*.npz"))


def command(*args, before=""):
    return [sys.executable, "-c", PROGRAM.format(before), "logits", *args]


def environment(**more):
    sources = [ROOT / "src", ROOT / "lab/src", TESTS, TESTS / "support" / "torchvision_ops"]
    path = os.pathsep.join(map(str, sources))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **more}


def started(*args, before=""):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "start_new_session": True}
    return subprocess.Popen(command(*args, before=before), env=environment(), text=True, **pipes)


# --- stops ---------------------------------------------------------------------------------------


@pytest.mark.slow
@posix
@pytest.mark.parametrize(("how", "stops"), [(signal.SIGKILL, (1, 5)), (signal.SIGINT, (5,))])
def test_after_any_stop_the_result_is_the_same_to_the_byte(photos, cli, how, stops):
    args = (photos, "--split", "first-2", "--corrupt", "contrast", "--severity", "3")
    args += ("--batch-size", "8", "--workers", "1", "-o", "out")
    for least in stops:
        with started(f"{NET}&delay=0.05", *args) as process:
            while process.poll() is None and len(finished_parts()) + 4 * _sets() < least:
                time.sleep(0.01)
            if how == signal.SIGINT:
                os.killpg(process.pid, how)  # as a terminal does it, to all of them
            else:
                process.send_signal(how)
            _, said = process.communicate()
        assert process.returncode == (130 if how == signal.SIGINT else -how)
        if how == signal.SIGINT:
            assert "run the same command to resume: smallcal logits" in said
            assert len(said.splitlines()) == 2, said
    code, _, err = cli("logits", f"{NET}&delay=0", *args)
    assert code == 0, err
    assert "were done before" in err
    assert cli("logits", f"{NET}&delay=0", *args[:-1], "whole")[0] == 0
    for file in ("test.npz", "calibration.npz", "shift/contrast-3.npz"):
        found = [Path(out, "photos__Net__s0", file).read_bytes() for out in ("out", "whole")]
        assert found[0] == found[1]
    assert content("out").keys() == content("whole").keys()


KILLED_AT_EVERY_WRITE = """
import os, shutil, sys
from pathlib import Path
from smallcal_lab.vision import CellImages, ExtractionSettings, extract
from smallcal_lab.vision.extraction import store
from smallcal_lab.vision.extraction import extracting  # torch before any fork

store.PART_IMAGES = 4
replace = os.replace
wanted = CellImages("folder:photos", split="first-2", limit=20)
settings = ExtractionSettings(batch_size=8, workers=0)

def run(at, after):
    calls = []
    def counted(*names):
        calls.append(names)
        if len(calls) == at and not after:
            os._exit(9)
        replace(*names)
        if len(calls) == at:
            os._exit(9)
    os.replace = counted
    extract(sys.argv[1], wanted, "out", settings=settings)
    os._exit(0)

def child(*how):
    if not (number := os.fork()):
        run(*how)
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])

def content():
    files = [one for one in Path("out").rglob("*") if one.is_file() and ".lock" not in one.name]
    return {one: one.read_bytes() for one in files}

assert child(0, False) == 0
whole, kills = content(), 0
for at in range(1, 100):
    for after in (False, True):
        shutil.rmtree("out")
        code = child(at, after)
        kills += code == 9
        assert child(0, False) == 0, at
        assert content() == whole, (at, after, content().keys() ^ whole.keys())
    if code == 0:
        break
print(kills)
"""


@pytest.mark.slow
@posix
def test_killed_at_any_write(photos):
    command = [sys.executable, "-c", KILLED_AT_EVERY_WRITE, NET]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 20


def _sets():
    return len(list(Path("out").glob("*/*.npz")) + list(Path("out").glob("*/shift/*.npz")))


def test_parts_are_checked_before_they_are_used(photos, monkeypatch):
    whole = extract(NET, wanted(), "whole", settings=FEW)
    real = store.SetStore.finish

    def stop(self):
        if self.images.name == "test":
            raise KeyboardInterrupt
        return real(self)

    with monkeypatch.context() as patch:
        patch.setattr(store.SetStore, "finish", stop)
        with pytest.raises(KeyboardInterrupt):
            extract(NET, wanted(), "out", settings=FEW)

    parts = finished_parts()
    assert len(parts) == 4
    broken = bytearray(parts[1].read_bytes())
    broken[200] ^= 1
    parts[1].write_bytes(broken)
    parts[2].write_bytes(b"")
    done = extract(NET, wanted(), "out", settings=FEW)
    assert done.images_before == whole.images - 32
    assert len(done.notes) == 2
    assert all(note.endswith("is damaged; it will be computed again") for note in done.notes)
    assert content("out").keys() == content("whole").keys()
    for name in ("calibration", "test"):
        file = f"photos__Net__s0/{name}.npz"
        assert Path("out", file).read_bytes() == Path("whole", file).read_bytes()


def test_a_finished_file_that_is_damaged_is_made_again(photos):
    extract(NET, wanted(), "out", settings=FEW)
    before = content("out")
    file = Path("out/photos__Net__s0/test.npz")
    file.write_bytes(file.read_bytes()[:-1])
    done = extract(NET, wanted(), "out", settings=FEW)
    assert "missing or damaged" in done.notes[0]
    assert content("out") == before


def test_other_settings_do_not_go_on_with_parts(photos):
    good = Path("photos/owl/owl_19.png").read_bytes()
    Path("photos/owl/owl_19.png").write_bytes(b"no image")
    with pytest.raises(sc.FileError, match="owl_19"):
        extract(NET, wanted(), "out", settings=FEW)
    assert len(finished_parts()) == 2
    Path("photos/owl/owl_19.png").write_bytes(good)
    settings = ExtractionSettings(batch_size=4, workers=0)
    done = extract(NET, wanted(), "out", settings=settings)
    assert done.images_before == 6  # the set that was finished
    assert not finished_parts()


def test_two_at_once_in_one_cell(photos):
    Path("out/photos__Net__s0").mkdir(parents=True)
    Path("out/collection.toml.lock").touch()
    with (
        alone_in(Path("out/photos__Net__s0")),
        pytest.raises(sc.InputError, match="another process"),
    ):
        extract(NET, wanted(), "out", settings=FEW)
    extract(NET, wanted(), "out", settings=FEW)


# --- images, models and disks that fail ----------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 2])
def test_a_damaged_image_is_named_and_all_before_it_is_kept(photos, workers):
    good = Path("photos/owl/owl_19.png").read_bytes()
    Path("photos/owl/owl_19.png").write_bytes(good[:200])
    settings = ExtractionSettings(batch_size=8, workers=workers)
    with pytest.raises(sc.FileError) as error:
        extract(NET, wanted(), "out", settings=settings)
    begin = "test: row 45 (owl/owl_19.png): cannot read the image photos/owl/owl_19.png: "
    assert str(error.value).startswith(begin)
    assert "\n" not in str(error.value)
    assert not Path("out/collection.toml").exists()
    Path("photos/owl/owl_19.png").write_bytes(good)
    done = extract(NET, wanted(), "out", settings=settings)
    assert done.images_before == 6 + 32
    assert len(sc.io.read("out/photos__Net__s0/test.npz").labels) == 54


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("BrightIsNan", r"test: row 35 \(dog/dog_9.png\): its logits are NaN or infinite$"),
        ("Raises", r"failed on rows 0 to 5 of calibration: RuntimeError: no kernel for this$"),
        ("uneven", r"test: row 35 \(dog/dog_9.png\): the model's preprocessing gives"),
    ],
)
def test_a_model_that_fails_is_one_line(photos, name, said):
    if name == "uneven":
        for file in Path("photos").rglob("*.png"):
            Image.open(file).resize((16, 16)).save(file)
        Image.new("RGB", (20, 16), "white").save(f"photos/{WHITE}")
    with pytest.raises(sc.InputError, match=said):
        extract(f"torch:support.small_net:{name}?num_classes=3", wanted(), "out", settings=FEW)


@posix
def test_a_killed_process_that_loads_images_is_one_line(photos):
    settings = ExtractionSettings(batch_size=8, workers=2)
    with pytest.raises(sc.InputError, match="was killed, perhaps for lack of memory") as error:
        extract("torch:support.small_net:deadly?num_classes=3", wanted(), "out", settings=settings)
    assert "try fewer --workers" in error.value.shell
    assert not multiprocessing.active_children()
    Image.new("RGB", (24, 24), "black").save(f"photos/{WHITE}")
    extract("torch:support.small_net:deadly?num_classes=3", wanted(), "out", settings=settings)


@posix
def test_a_full_disk_is_one_line_and_what_was_done_is_kept(photos, cli):
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({}, -1))"
    model, args = (
        f"{NET}&width=64",
        (photos, "--split", "first-2", "--batch-size", "8", "-o", "out"),
    )
    small = command(model, *args, before=limit.format(6000))
    done = subprocess.run(small, env=environment(), capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "cannot write" in done.stderr
    assert "File too large" in done.stderr
    assert len(finished_parts()) == 4, "those fit, and all of them in one file do not"
    code, _, err = cli("logits", model, *args)
    assert code == 0, err
    assert "60 of 60 images were done before" in err


# --- what cannot be a cell -----------------------------------------------------------------------


def test_a_test_set_alone_says_what_to_add(photos, cli):
    code, out, err = cli("logits", NET, photos, "-o", "out")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "--split halves" in err
    assert "--calibration" in err
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--split", "5%"), "leaves no images to test on"),
        (("--split", "halves", "--calibration", "folder:photos"), "give only one of them"),
        (("--split", "halves", "--calibration-split", "5%"), "divides the images"),
        (("--calibration", "folder:photos"), "used both to calibrate and to test"),
        (("--split", "thirds"), "unknown split 'thirds'"),
        (("--split", "nothing.json"), "nothing.json"),
        (("--split", "halves", "--corrupt", "fogg"), "did you mean 'fog'?"),
        (("--split", "halves", "--corrupt", ","), "no corruption is named"),
        (("--split", "halves", "--corrupt", "fog", "--severity", "6"), "from 1 to 5"),
        (("--split", "halves", "--severity", "3"), "go with --corrupt"),
        (("--split", "halves", "--shift", "folder:none"), "folder none is not there"),
        (("--split", "halves", "--device", "tpu"), "cannot use the device 'tpu'"),
        (("--split", "halves", "--device", "cuda"), "cannot use the device 'cuda'"),
        (("--split", "halves", "--precision", "int8"), "unknown precision 'int8'"),
        (("--split", "halves", "--output", "photos"), "holds other files (cat)"),
        (("--split", "halves", "--output", "photos/out"), "which is an input"),
        (("--split", "halves", "--output", "mine"), "holds other files (notes.txt)"),
        (("--split", "halves", "--output", "mine/notes.txt"), "not a folder"),
    ],
)
def test_bad_requests_are_one_line_and_nothing_is_made(photos, cli, args, said):
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("the user's")
    before = content(".")
    code, out, err = cli("logits", NET, photos, "-o", "out", *args)
    assert (code, out, len(err.splitlines())) == (2, "", 1), err
    assert said in err
    assert content(".") == before
    assert not Path("out").exists()


def test_a_stale_split_is_refused(photos):
    split_images(open_images(photos), "halves").save("split.json")
    Path("photos/owl/owl_19.png").unlink()
    with pytest.raises(sc.FileError, match=r"split.json is stale"):
        extract(NET, wanted(split="split.json"), "out", settings=FEW)


def test_classes_that_are_not_the_models_columns(photos, tmp_path):
    with pytest.raises(sc.InputError, match=r"photos has 3 classes and .* has 10 columns"):
        extract("torch:support.small_net:Net?num_classes=10", wanted(), "out", settings=FEW)
    write_folders(Path("other"), ["ant", "cat", "dog"], 4, ending=".png")
    with pytest.raises(sc.InputError, match="in another order than those of photos: 'cat'"):
        extract(NET, wanted(shifts=("folder:other",)), "out", settings=FEW)
    write_cifar10(tmp_path / "cifar", each=20)
    shifts = (f"cifar10:{tmp_path / 'cifar'}",)
    with pytest.raises(sc.InputError, match="10 classes and photos has 3"):
        extract(NET, wanted(shifts=shifts), "out", settings=FEW)
    assert not Path("out").exists()


def test_names_that_stand_in_another_order_than_the_columns(photos):
    from dataclasses import replace

    from smallcal_lab.vision import open_model

    model = open_model(NET)
    named = replace(model, class_names=("cat", "owl", "dog"))
    with pytest.raises(sc.InputError, match="'dog' is 2 there and 1 here"):
        extract(named, wanted(), "out", settings=FEW)
    others = replace(model, class_names=("a", "b", "c"), source="checkpoint:last.pt")
    with pytest.raises(sc.InputError, match=r"trained on other classes \(a, b, c\)"):
        extract(others, wanted(), "out", settings=FEW)
    extract(replace(model, class_names=("a", "b", "c")), wanted(), "out", settings=FEW)


def test_odd_settings_are_refused_before_anything_is_opened():
    from smallcal_lab.vision import Corruptions

    for make in (
        lambda: Corruptions(("mist",)),
        lambda: Corruptions(("fog",), (0,)),
        lambda: Corruptions(("fog",), seed=-1),
        lambda: CellImages("folder:photos", limit=-1),
        lambda: ExtractionSettings(batch_size=0),
        lambda: ExtractionSettings(workers=-1),
    ):
        with pytest.raises(sc.InputError):
            make()


def test_one_kind_of_shift_twice(photos):
    from smallcal_lab.vision import Corruptions

    both = wanted(corruptions=Corruptions(("fog", "fog"), (1,)))
    with pytest.raises(sc.InputError, match="shift/fog-1 occurs twice"):
        extract(NET, both, "out", settings=FEW)


# --- the command line ----------------------------------------------------------------------------


def test_the_verb_and_a_study_on_what_it_wrote(photos, cli):
    pytest.importorskip("pyarrow", reason="studies need pyarrow")
    args = ("--split", "halves", "--corrupt", "contrast,fog", "--severity", "1,5", "--workers", "0")
    for seed in ("0", "1"):
        model = f"{NET}&seed={seed}"
        code, out, err = cli("logits", model, photos, *args, "--seed", seed, "-o", "out")
        assert code == 0, err
    assert out.splitlines()[0].startswith("calibration: 30 images (")
    assert "Wrote photos__Net__s1: 180 images in 6 sets" in out
    assert "2 cells, 8 shifted sets" in out
    code, out, err = cli("study", "check", "out")
    assert code == 0, out
    given = ("--methods", "none,ts-nll", "--n-boot", "20")
    code, out, err = cli("study", "shift", "out", "--out", "run", *given)
    assert code == 0, err
    assert cli("evaluate", "out/photos__Net__s0/test.npz", "--n-boot", "0")[0] == 0
    assert cli("fit", "out/photos__Net__s0/calibration.npz", "-o", "cal.json")[0] == 0
    code, out, err = cli(
        "logits", f"{NET}&seed=1", photos, *args, "--seed", "1", "-o", "out", "--json"
    )
    assert code == 0, err
    assert '"images_before": 180' in out


PEAKS = """
import os
import numpy as np
from smallcal_lab.vision import CellImages, ExtractionSettings, ImageSet, extract, open_model
from smallcal_lab.vision.cifar import NAMES, Rows
from smallcal_lab.vision.extraction import extracting, store  # torch before any fork

store.PART_IMAGES = 64

def run(n):
    pixels = Rows(np.zeros((n, 3072), dtype=np.uint8))
    ids = [f"test-{row}" for row in range(n)]
    classes = NAMES["cifar10"]
    images = ImageSet.of("zeros", np.arange(n) % 10, ids, classes=classes, pixels=pixels)
    model = open_model("torch:support.small_net:Net?num_classes=10&width=4096")
    settings = ExtractionSettings(batch_size=64, workers=0)
    extract(model, CellImages(images, split="first-1"), f"out{n}", settings=settings)
    os._exit(0)

for n in (2_000, 6_000):
    if not (number := os.fork()):
        run(n)
    _, code, usage = os.wait4(number, 0)
    assert code == 0
    print(usage.ru_maxrss / 1024)
"""


@pytest.mark.slow
@posix
def test_memory_does_not_grow_with_the_images(here):
    command = [sys.executable, "-c", PEAKS]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    fewer, more = map(float, done.stdout.split())  # images of 6 and 18 MB, outputs of 32 and 98
    assert more - fewer < 12 + 16, (fewer, more)
    with np.load("out6000/zeros__Net__s0/test.npz") as found:
        assert found["features"].nbytes > 95e6
