"""The table of planted bugs keeps in step with the source; the script tells what survives."""

import sys

import pytest

import mutants

TABLE = mutants.read_table()


def test_every_snippet_stands_once_in_its_file_and_every_test_is_there():
    assert [line for mutant in TABLE if (line := mutants.problem(mutant))] == []


def test_there_are_many_bugs_and_no_two_are_the_same():
    assert len(TABLE) >= 60
    assert len({(mutant.file, mutant.bug) for mutant in TABLE}) == len(TABLE)
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in TABLE}) == len(TABLE)
    assert sum(bool(mutant.reason) for mutant in TABLE) * mutants.OUT_OF <= mutants.ALLOWED * len(
        TABLE
    )


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A project of one function and one test, in the place of ours."""
    (tmp_path / "src" / "smallcal").mkdir(parents=True)
    (tmp_path / "src" / "smallcal" / "__init__.py").touch()
    (tmp_path / "lab" / "src").mkdir(parents=True)
    source = tmp_path / "src" / "smallcal" / "toy.py"
    source.write_text(
        "def mean(values):\n    total = sum(values)\n    return total / len(values)\n"
    )
    tests = tmp_path / "test_toy.py"
    tests.write_text(
        "from smallcal.toy import mean\n\ndef test_mean():\n    assert mean([1, 3]) == 2\n"
    )
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the toy needs none
    table = tmp_path / "mutants.txt"
    monkeypatch.setattr(mutants, "TABLE", table)

    def write(*bugs):
        lines = ["# a comment", "@ toy.py", "? test_toy.py::test_mean", ""]
        for i, (old, new) in enumerate(bugs):
            lines += [f"* bug {i}", *(f"- {line}" for line in old.split("\n")), f"+ {new}", ""]
        table.write_text("\n".join(lines))

    return write


def run(capsys, *arguments):
    code = mutants.main(["--jobs", "1", *arguments])
    return code, capsys.readouterr().out


def test_a_bug_is_killed_or_survives_and_the_source_stays(toy, capsys):
    source = mutants.ROOT / "src" / "smallcal" / "toy.py"
    before = source.read_text()
    toy(("total / len(values)", "total"), ("sum(values)", "sum(values) + 0"))
    code, out = run(capsys)
    assert code == 1  # of two none may survive
    assert "2 planted, 1 killed, 1 survived (0 may)" in out
    assert "survived: toy.py: bug 1: no reason is known" in out
    assert source.read_text() == before
    assert run(capsys, "--only", "bug 0")[0] == 0
    assert run(capsys, "--only", "nothing like it") == (2, "no bug matches 'nothing like it'\n")


@pytest.mark.slow
def test_what_hangs_is_killed_and_what_cannot_be_loaded_is_no_bug(toy, capsys):
    toy(("total = sum(values)", "[None for _ in iter(int, 1)]"), ("def mean", "de mean"))
    code, out = run(capsys, "--only", "bug 0", "--timeout", "3")
    assert (code, "1 killed, 0 survived" in out) == (0, True)
    code, out = run(capsys, "--only", "bug 1")
    assert (code, "0 killed, 0 survived" in out) == (1, True)
    assert "cannot be loaded or run: toy.py: bug 1" in out


def test_a_bug_of_two_lines_and_rows_that_no_longer_fit(toy, capsys):
    toy(("sum(values)\n    return total", "1\n"), ("values", "numbers"), ("x = 1", "x = 2"))
    code, out = run(capsys)
    assert code == 2
    assert out.splitlines() == [
        "toy.py: 'values' is there 3 times, not once (bug 1)",
        "toy.py: 'x = 1' is there 0 times, not once (bug 2)",
    ]
    with pytest.raises(ValueError, match="a line must begin with one of"):
        mutants.read_table("@ toy.py\nx = 1")


def test_tests_that_fail_anyway_prove_nothing(toy, capsys, monkeypatch):
    toy(("total / len(values)", "total"))
    (mutants.ROOT / "test_toy.py").write_text("def test_mean():\n    assert False\n")
    code, out = run(capsys)
    assert code == 2
    assert "the tests fail without a bug" in out
    monkeypatch.setattr(sys, "argv", ["mutants.py", "--only", "nothing like it"])
    assert mutants.main() == 2
