"""The working tree does what the reference commit did, apart from listed changes."""

import importlib.util
import shutil
from pathlib import Path

import pytest

# By its path: the benchmarks have a module of the same name.
FILE = Path(__file__).parents[1] / "scripts" / "reference.py"
SPEC = importlib.util.spec_from_file_location("scripts_reference", FILE)
reference = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(reference)

pytestmark = pytest.mark.skipif(bool(reference.missing()), reason=reference.missing())


def test_the_quick_comparison_finds_only_listed_changes(capsys):
    code = reference.main(["--quick"])
    assert code == 0, capsys.readouterr().out


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A copy of the source with another least size of a group; changes are read from a file."""
    tree, changes = tmp_path.resolve() / "src", tmp_path / "changes.txt"
    shutil.copytree(reference.TREE, tree, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("discipline.py", "estimators.py"):
        file = tree / "smallcal" / "calibrators" / name
        text, constant = file.read_text(encoding="utf-8"), "min_group_size: int = "
        assert text.count(f"{constant}50") == 1
        file.write_text(text.replace(f"{constant}50", f"{constant}99"), encoding="utf-8")
    shutil.copy(reference.CHANGES, changes)
    monkeypatch.setattr(reference, "TREE", tree)
    monkeypatch.setattr(reference, "CHANGES", changes)
    return changes


@pytest.mark.slow
def test_a_planted_change_of_numbers_is_found(planted, capsys, monkeypatch):
    monkeypatch.setattr(reference, "MAX_LINES", 1000)
    assert reference.main(["--quick", "--part", "fits"]) == 1
    out = capsys.readouterr().out
    assert "  method/ten/srts-bce/predict_proba: 600 numbers, " in out
    assert "  method/ten/tva-ts/" not in out
    assert "  artefact/" not in out


@pytest.mark.slow
def test_a_listed_change_passes_and_a_line_without_use_is_told(planted, capsys):
    with planted.open("a", encoding="utf-8") as file:
        file.write("public/SRTS*\tlarger groups\npublic/nothing\tno reason\n")
    assert reference.main(["--part", "public"]) == 0
    out = capsys.readouterr().out
    assert " differ, 0 of them unexpected\n" in out
    assert "warning: no difference matches public/nothing (changes.txt: no reason)\n" in out
    planted.write_text("public/SRTS*  a tab is missing\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="needs a tab and a reason"):
        reference.main([])


def test_what_counts_as_a_difference():
    numbers = {"a/b/c": [0.5, float("nan")], "a/b/d": 1, "a/b/e": None}
    assert reference.differences(numbers, dict(numbers), 1e-12) == {}
    near = {"a/b/c": [0.5 + 1e-13, float("nan")], "a/b/d": 1.0, "a/b/e": None}
    assert reference.differences(numbers, near, 1e-12) == {}
    other = {"a/b/c": [0.5], "a/b/d": True, "a/b/f": "x"}
    told = reference.differences(numbers, other, 1e-12)
    assert list(told) == ["a/b/c", "a/b/d", "a/b/e", "a/b/f"]
    assert (told["a/b/e"], told["a/b/f"]) == ("missing, was None", "new, 'x'")


def test_only_the_default_may_refuse_its_old_artefacts():
    old = {f"artefact/ten/{name}/predict_proba": [0.5] for name in ("adaptive", "tva-ts")}
    told = reference.differences(old, dict.fromkeys(old, reference.REFUSED), 1e-12)
    assert list(told) == ["artefact/ten/tva-ts/predict_proba"]
