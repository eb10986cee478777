"""The page that compares packages: its tables are those the program makes, its claims run."""

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("packaging", reason="tells what a package brings along")

from peers import claims, entrants, packages, quality, robust, run, sets
from peers.features import brier, ece, improves, nll
from peers.world import World

run.load_proofs()
PAGE = (Path(__file__).parents[1] / "docs" / "comparison.md").read_text(encoding="utf-8")
WIDEST = 100


@pytest.fixture(scope="module")
def world():
    return World()


def part(name):
    """Return what the page has between the marks of a part."""
    begin, end = run.marks(name)
    assert PAGE.count(begin) == PAGE.count(end) == 1
    return PAGE.partition(begin)[2].partition(end)[0].strip()


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def words_on_the_page():
    """Return what the page says of each feature and package."""
    text, found = part("features"), {}
    for row in claims.FEATURES.values():
        (line,) = [each for each in text.splitlines() if each.startswith(f"| {row.name} |")]
        said = dict(zip(packages.MAIN, cells(line)[1:], strict=False))
        others = re.findall(r"([\w-]+)(?: \(([\w ]+)\))?", cells(line)[-1])
        said |= {name: word or "yes" for name, word in others}
        for package in row.proofs:
            why = re.search(rf"- {re.escape(row.name)}, {package}: [a-z ]+, `(.*)`\.", text)
            reason = why.group(1) if why else ""
            found[row.name, package] = claims.Outcome(said.pop(package), reason)
        assert set(said.values()) <= {"–"}, (
            f"the page claims more than there are proofs: {row.name}"
        )
    return found


def test_the_tables_of_features_are_what_the_program_writes():
    assert claims.tables(words_on_the_page()) == part("features")


def test_the_page_claims_every_proof_of_smallcal():
    said = words_on_the_page()
    ours = [name for name, package in said if package == "smallcal"]
    assert len(ours) > 40
    assert {said[name, "smallcal"].word for name in ours} == {"yes"}


#: What claims about an extra need beside smallcal.
NEEDS = {"report as one HTML page": "jinja2"}
PROOFS = [(row.name, package) for row in claims.FEATURES.values() for package in row.proofs]


@pytest.mark.parametrize(("name", "package"), PROOFS, ids=[" ".join(each) for each in PROOFS])
def test_a_claim_of_the_page_runs(name, package, world, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], reason="the claim is about an extra")
    result = claims.outcome(claims.FEATURES[name], package, world)
    if result.word == "not run":
        pytest.skip(f"{package}: {result.why}")
    version = next(line for line in part("packages").splitlines() if f"| {package} |" in line)
    if package != "smallcal" and cells(version)[1] != packages.version(package):
        pytest.skip(f"the page is about {package} {cells(version)[1]}")
    assert result.word == words_on_the_page()[name, package].word, result.why


def test_a_claim_that_does_not_hold_fails(world):
    row = claims.Feature("a claim", "Input", improves)
    row.proofs["smallcal"] = claims.Proof(lambda world: world.p_test, "p_test")
    row.proofs["scikit-learn"] = claims.Proof(lambda world: 1 / 0, "1 / 0")
    assert claims.outcome(row, "smallcal", world).word == "fails"
    assert claims.outcome(row, "scikit-learn", world).why.startswith("ZeroDivisionError")


def test_a_package_that_is_not_there_is_not_run(world, monkeypatch):
    monkeypatch.setitem(packages.MODULES, "netcal", "no_such_package")
    row = claims.FEATURES["temperature scaling"]
    assert claims.outcome(row, "netcal", world) == claims.Outcome("not run", "not installed")
    monkeypatch.setattr(packages, "MODULES", {"netcal": "no_such_package"})
    assert "| netcal | not installed |" in list(packages.table())[-1]


def test_lines_that_are_shown_are_those_that_run():
    proof = claims.FEATURES["logits, as they are"].proofs["smallcal"]
    assert proof.lines.splitlines()[-1] == "sc.Calibrator().fit(z, y).predict_proba(z_test)"


@pytest.mark.parametrize("name", run.PARTS)
def test_no_table_is_wider_than_the_page(name):
    rows = [line for line in part(name).splitlines() if line.startswith("|")]
    assert rows
    visible = ["  ".join(cells(re.sub(r"[`*]", "", line))) for line in rows]
    assert max(map(len, visible)) <= WIDEST


@pytest.mark.parametrize("name", ["quality", "robust", "times"])
def test_every_calibrator_is_in_the_tables(name):
    text = part(name)
    assert all(f"| {label} |" in text for label in entrants.ENTRANTS)


def test_packages_on_the_page_are_those_compared():
    rows = [cells(line)[0] for line in part("packages").splitlines()[2:]]
    assert rows == list(packages.MODULES)


def test_one_model_is_measured_and_told(monkeypatch):
    few = {
        label: each
        for label, each in entrants.ENTRANTS.items()
        if each.package in ("smallcal", "scikit-learn")
    }
    monkeypatch.setattr(quality, "ENTRANTS", few)
    cell = next(sets.simulated())
    rows = quality.collect(iter([cell]), n_boot=200)
    text = quality.report(rows)
    assert '| scikit-learn `"temperature"` | 0 / 1 / 0 |' in text  # one temperature is one
    assert '| scikit-learn `"isotonic"` | 1 / 0 / 0 |' in text
    assert text.count("| the true probabilities |") == 1


def test_what_a_package_gives_is_judged_as_it_is():
    z = np.zeros((3, 2))
    assert quality.judged(np.full((3, 1), 1.0), z).why == "1 of 2 classes"
    assert quality.judged(np.full((3, 2), np.nan), z).why == "not finite"
    assert quality.judged(np.full((3, 2), 0.7), z).why == "not probabilities"
    assert quality.judged(np.full((3, 2), 0.5), z).sum() == 3


def test_a_smallcal_without_a_result_is_told_as_worse():
    (found, _) = quality.measure(next(sets.simulated()), 100)
    compared = found["comparison"]
    compared.values.pop(quality.ONE)
    assert quality.verdict(compared, 'scikit-learn `"temperature"`', "nll") == "worse"


def test_hard_cases_are_what_they_are_called():
    z, y, *_ = robust.case("class missing")
    assert 3 not in y
    assert robust.case("float32")[0].dtype == np.float32
    assert abs(robust.exact(*robust.case("float64")[:2]) - 2) < 0.15
    assert (robust.with_zeros(z) == 0).any()
    assert robust.case("250 of 100")[0].shape == (250, 100)


def test_the_page_is_written_between_its_marks_alone():
    text = "a\n<!-- begin times -->\nold\n<!-- end times -->\nb"
    assert run.put(text, "times", "new") == "a\n<!-- begin times -->\nnew\n<!-- end times -->\nb"
    with pytest.raises(SystemExit, match="no place for robust"):
        run.put(text, "robust", "new")


def test_real_logits_are_taken_evenly_by_name(tmp_path):
    (tmp_path / "more").mkdir()
    arrays = {"logits": np.eye(4), "labels": np.arange(4)}
    whole = {f"{s}_{k}": v for s in ("val", "test") for k, v in arrays.items()}
    for name in "abcde":
        np.savez(tmp_path / f"{name}.npz", **whole)
    np.savez(tmp_path / "more" / "x.npz", **whole)
    np.savez(tmp_path / "more" / "y.npz", other=np.eye(2))
    assert [cell.name for cell in sets.real(tmp_path)] == ["a", "c", "e", "x"]


def test_metrics_of_the_checks_by_hand():
    p, y = np.array([[0.75, 0.25], [0.5, 0.5]]), np.array([0, 1])
    assert nll(y, p) == pytest.approx(-(np.log(0.75) + np.log(0.5)) / 2)
    assert brier(y, p) == pytest.approx((2 * 0.0625 + 0.5) / 2)
    assert ece(y, p) == pytest.approx((0.25 + 0.5) / 2)
