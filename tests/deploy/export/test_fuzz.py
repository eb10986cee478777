"""Damaged and hostile calibrators: refused by one clear error, or sound in every way."""

import json
import resource
import time
from functools import cache

import numpy as np
import pytest

from smallcal import ArtefactError, runtime
from smallcal.calibrators import artefact
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.deploy.export import to_python, to_sql
from smallcal.deploy.export.translate import program_of
from support.cases import DEPLOYABLE, fitted_once, missing_package
from support.fuzzing import TIMES, dice, told
from support.mutations import mutated, repaired, require_sound, written
from support.program_numpy import run

NAMES = [name for name in DEPLOYABLE if not missing_package(name)]

#: Of each method, before they are multiplied by SMALLCAL_FUZZ.
EXAMPLES = 6

#: What one file may cost before it is refused: seconds, and memory in kB.
MOST_SECONDS, MOST_MEMORY = 10, 1_000_000


@cache
def documents():
    return {name: fitted_once(name).to_dict() for name in NAMES}


@pytest.mark.hard
@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_artefact_is_refused_or_sound(name, tmp_path):
    """What loads applies, inspects, serialises, is monitored and becomes every kind of file."""
    others = list(documents().values())
    for number in range(EXAMPLES * TIMES):
        chance = dice(name, number)
        what, document = mutated(documents()[name], chance, others)
        raw = written(document, chance)
        file = tmp_path / "cal.json"
        file.write_bytes(raw)
        try:
            fitted = loaded(file, document, raw)
            if fitted is not None:
                whole = json.loads(file.read_bytes())
                require_sound(fitted, whole)
        except Exception as error:
            raise AssertionError(f"{told(name, number)}: {what}") from error


def loaded(file, document, raw):
    """Load, in bounded time and memory; None where that is refused in one short line."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    same = raw == json.dumps(document).encode(errors="surrogatepass")
    found, said = None, ""
    try:
        found = repaired(file, document) if same else runtime.load(file)
    except ArtefactError as error:
        said = str(error)
    assert time.perf_counter() - start < MOST_SECONDS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_MEMORY
    assert len(said) < 600
    assert len(said.splitlines()) == (found is None)
    return found


def test_words_in_a_calibrator_never_become_code(tmp_path):
    fitted = fitted_once("srts-bce")
    document = fitted.to_dict()
    target = tmp_path / "made"
    evil = f'"""\nopen({str(target)!r}, "w")\n"""'
    document["method"] = evil
    document["class_names"] = [evil, *(f"c{i}" for i in range(11))]
    loaded = FittedCalibrator.from_dict(
        artefact.parse(json.dumps(document), source="x"), source="x"
    )
    exec(to_python(loaded), {"__name__": "exported"})
    assert not target.exists()


def test_words_in_a_calibrator_never_become_sql():
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    document = fitted_once("srts-bce").to_dict()
    evil = "x\n'; CREATE TABLE evil (a INT); --"
    document["method"] = evil
    document["class_names"] = [evil, *(f"c{i}" for i in range(11))]
    checked = artefact.parse(json.dumps(document), source="x")
    with duckdb.connect() as database:
        database.execute(to_sql(FittedCalibrator.from_dict(checked, source="x")))
        assert database.execute("SELECT count(*) FROM duckdb_tables()").fetchone() == (0,)


def test_the_interpreter_of_the_tests_would_notice(tmp_path):
    program = program_of(fitted_once("ts-nll").fitted_)
    with pytest.raises(FloatingPointError):
        run(program, np.full((1, 12), np.inf))
