"""Splits: the paper's rules, the same each time, written down and refused when stale."""

import json

import numpy as np
import pytest

pytest.importorskip("PIL", reason="images need Pillow")

from sklearn.model_selection import train_test_split

import smallcal as sc
from smallcal_lab.studies.portions import draw_rows
from smallcal_lab.vision import ImageSet, read_split, split_images


class Nothing:
    """Pixels that must not be read."""

    def read(self, row, name):
        raise AssertionError


def images_of(labels, name="some"):
    labels = np.asarray(labels)
    ids = [f"{name}-{row}" for row in range(len(labels))]
    classes = [str(one) for one in range(labels.max(initial=0) + 1)]
    return ImageSet.of(name, labels, ids, classes=classes, pixels=Nothing())


def counts(images, rows):
    return np.bincount(images.labels[rows], minlength=len(images.classes)).tolist()


@pytest.fixture
def cifar():
    """Labels as CIFAR-100's training images have them: 500 of each class."""
    return images_of(np.random.default_rng(0).permutation(np.repeat(np.arange(100), 500)))


def together(split):
    return np.sort(np.concatenate(list(split.parts.values())))


def test_five_percent_is_25_of_each_class_of_cifar100(cifar):
    split = split_images(cifar, "5%", seed=3)
    assert counts(cifar, split.parts["calibration"]) == [25] * 100
    assert counts(cifar, split.parts["train"]) == [475] * 100
    np.testing.assert_array_equal(together(split), np.arange(50000))
    again, other = split_images(cifar, "5%", seed=3), split_images(cifar, "5%", seed=4)
    np.testing.assert_array_equal(again.parts["calibration"], split.parts["calibration"])
    assert not np.array_equal(other.parts["calibration"], split.parts["calibration"])


def test_low_data_runs_keep_the_calibration_images(cifar):
    whole = split_images(cifar, "5%", seed=1).parts
    for rule, each in (("5%+10%", 47.5), ("5%+25%", 118.75)):
        parts = split_images(cifar, rule, seed=1).parts
        np.testing.assert_array_equal(parts["calibration"], whole["calibration"])
        assert set(parts["train"]) <= set(whole["train"])
        assert len(parts["train"]) == each * 100
        assert set(counts(cifar, parts["train"])) == {int(each), int(each) + 1}


def test_halves_of_imagenet_100_are_25_and_25():
    images = images_of(np.repeat(np.arange(100), 50))
    split = split_images(images, "halves")
    assert counts(images, split.parts["calibration"]) == [25] * 100
    assert counts(images, split.parts["test"]) == [25] * 100


def test_the_first_of_each_class_are_the_first():
    images = images_of([2, 0, 2, 1, 0, 2, 1, 1])
    split = split_images(images, "first-2", seed=9)
    assert split.parts["calibration"].tolist() == [0, 1, 2, 3, 4, 6]
    assert split.parts["test"].tolist() == [5, 7]
    with pytest.raises(sc.InputError, match=r"first-3 of some .* leaves nothing for test"):
        split_images(images, "first-3")


def test_so_many_at_random_are_those_that_a_study_would_draw():
    labels = np.repeat(np.arange(10), 12)
    split = split_images(images_of(labels), "random-30", seed=2)
    assert np.array_equal(split.parts["calibration"], draw_rows(labels, 30, seed=2, draw=0))
    assert sorted(np.concatenate(list(split.parts.values()))) == list(range(120))
    with pytest.raises(sc.InputError, match=r"random-120 of some .120. leaves nothing for test"):
        split_images(images_of(labels), "random-120")


def test_shares_of_uneven_classes_are_those_that_scikit_learn_gives():
    rng = np.random.default_rng(7)
    for _ in range(20):
        labels = rng.permutation(np.repeat(np.arange(6), rng.integers(20, 90, size=6)))
        images, share = images_of(labels), int(rng.integers(10, 60))
        taken = split_images(images, f"{share}%").parts["calibration"]
        assert len(taken) == int(share * len(labels) / 100 + 0.5)
        theirs = train_test_split(labels, train_size=len(taken), stratify=labels, random_state=0)[0]
        assert np.abs(np.array(counts(images, taken)) - np.bincount(theirs, minlength=6)).max() <= 1
        exact = np.bincount(labels) * share / 100
        assert np.abs(counts(images, taken) - exact).max() < 1


def test_each_image_is_as_likely_as_any_other():
    images, drawn = images_of([0] * 6 + [1] * 14), np.zeros(20)
    for seed in range(2000):
        drawn[split_images(images, "25%", seed=seed).parts["calibration"]] += 1
    # 1.5 of 6 and 3.5 of 14: which class gives one more is chance, so each has 1 in 4.
    assert np.abs(drawn / 2000 - 0.25).max() < 0.05


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("5", "unknown split '5'; write one as 5%, 5%.10%, first-5, halves or random-2500"),
        ("100%", "unknown split"),
        ("first-0", "unknown split"),
        ("0%", "nothing for calibration"),
        ("99.9%", "nothing for train"),
        ("50%+1%", "nothing for train"),
        ("first-2", "nothing for test"),
    ],
)
def test_rules_that_make_no_split_say_so(rule, said):
    with pytest.raises(sc.InputError, match=said):
        split_images(images_of([0, 0, 1, 1]), rule)


@pytest.mark.parametrize("seed", [-1, 1.5, True, "0"])
def test_seeds_are_whole_numbers(seed):
    with pytest.raises(sc.InputError, match="the seed must be a whole number"):
        split_images(images_of([0, 0, 1, 1]), "halves", seed=seed)


def test_no_images_cannot_be_split():
    for rule in ("5%", "halves", "first-1"):
        with pytest.raises(sc.InputError, match="nothing for calibration"):
            split_images(images_of(np.arange(0)), rule)


# --- files ----------------------------------------------------------------------------------------


@pytest.fixture
def kept(tmp_path):
    images = images_of(np.arange(40) % 4)
    split_images(images, "25%", seed=2).save(tmp_path / "split.json")
    return images, tmp_path / "split.json"


def test_a_split_is_read_back_as_it_was(kept):
    images, file = kept
    made, found = split_images(images, "25%", seed=2), read_split(file, images)
    assert (found.rule, found.seed, found.n, found.images) == ("25%", 2, 40, "some")
    assert found.parts.keys() == made.parts.keys()
    for part, rows in made.parts.items():
        np.testing.assert_array_equal(found.parts[part], rows)
        assert found.take(images, part).ids == tuple(images.ids[row] for row in rows)
    with pytest.raises(sc.InputError, match="has no part 'val': calibration, train"):
        found.take(images, "val")


def test_the_draw_of_today_is_that_of_tomorrow(kept):
    """Rows that were drawn when this was written."""
    images, _ = kept
    expected = [6, 7, 8, 11, 13, 16, 22, 30, 33, 35]
    assert split_images(images, "25%", seed=2).parts["calibration"].tolist() == expected


def test_a_stale_split_is_one_line(kept):
    images, file = kept
    changed = images_of([*(np.arange(39) % 4), 0])
    for other in (changed, images.take(np.arange(39)), images.take(np.arange(40)[::-1])):
        with pytest.raises(sc.FileError, match=r"split.json is stale: .*make it again") as caught:
            read_split(file, other)
        assert "\n" not in str(caught.value)
        with pytest.raises(sc.InputError, match="made for other images"):
            read_split(file, images).take(other, "train")


def test_another_split_is_not_written_over(kept):
    images, file = kept
    before = file.read_bytes()
    split_images(images, "25%", seed=2).save(file)
    with pytest.raises(sc.FileError, match=r"holds another split already \(25%, seed 2, some\)"):
        split_images(images, "25%", seed=3).save(file)
    assert file.read_bytes() == before
    file.write_text("{}")
    with pytest.raises(sc.FileError, match="is not a split of images"):
        split_images(images, "25%", seed=2).save(file)


def test_changed_and_damaged_files_are_refused(kept):
    images, file = kept
    whole = json.loads(file.read_text())
    rows = whole["parts"]["calibration"]
    for change, said in (
        ({"parts": {**whole["parts"], "calibration": rows[1:]}}, "was changed"),
        ({"seed": 3}, "was changed"),
        ({"sha256": "0"}, "was changed"),
        ({"version": 2}, "version 2, not 1"),
        ({"format": "x"}, "is not a split of images"),
        ({"more": 1}, "was changed"),
        ({"seed": "2"}, "was changed"),
    ):
        file.write_text(json.dumps({**whole, **change}))
        with pytest.raises(sc.FileError, match=said):
            read_split(file, images)
    file.write_text(json.dumps(whole)[:-20])
    with pytest.raises(sc.FileError, match="is not a JSON document"):
        read_split(file, images)
    with pytest.raises(sc.FileError, match="cannot read"):
        read_split(file.with_name("none.json"), images)


def test_rows_that_cannot_be_are_refused_even_with_a_right_checksum(kept):
    from smallcal_lab.vision.splits import _digest

    images, file = kept
    whole = json.loads(file.read_text())
    del whole["sha256"]
    for parts in ({"train": [40]}, {"train": [-1]}, {"a": [1], "b": [1]}, {"a": [0.5]}, {"a": 1}):
        content = {**whole, "parts": parts}
        file.write_text(json.dumps({**content, "sha256": _digest(content)}))
        with pytest.raises(sc.FileError, match=r"rows must be whole numbers below 40, each once"):
            read_split(file, images)
