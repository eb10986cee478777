"""SQL macros, run in DuckDB: same answers, NULL stays NULL, bad rows are errors."""

from dataclasses import replace

import numpy as np
import pytest

from smallcal.deploy.export import to_sql
from smallcal.deploy.export.translate import program_of
from support.backends import database, through_sql
from support.cases import features_of, fit, fitted_once, predict
from support.nasty_names import NASTY, RAW
from support.program_numpy import run
from support.refused import refused
from support.simulated import simulate

duckdb = pytest.importorskip("duckdb")

#: One of each signal and map; tests/deploy/export/test_agreement.py has all methods.
SOME = (
    *("none", "srts-bce", "qats-bce", "pwlinear-3", "spline-risk", "smart-bce", "features-k3"),
    *("dirichlet-odir", "vector-scaling", "ets", "meta-cal", "scaling-binning"),
    *("semantic-groups", "default"),
)


def base_with(fitted, z):
    base = database(z)
    base.execute(to_sql(fitted))
    return base


@pytest.mark.parametrize("name", SOME)
def test_the_macros_are_the_program(name):
    z = simulate(15, 12, seed=7)[0]
    fitted = fitted_once(name)
    expected, temperature = run(program_of(fitted.fitted_), z, features_of(z))
    found = through_sql(fitted.fitted_, z)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found, predict(fitted, z), rtol=3e-7, atol=1e-9)
    if temperature is not None:
        base = base_with(fitted.fitted_, z)
        given = "logits, features" if fitted.fitted_.signal.n_features else "logits"
        rows = base.execute(f"SELECT smallcal_temperature({given}) FROM t ORDER BY row").fetchall()
        np.testing.assert_allclose(np.ravel(rows), temperature, rtol=1e-9)


def test_null_gives_null_and_types_are_cast():
    z = simulate(4, 12, seed=7)[0]
    fitted = fitted_once("srts-bce")
    base = base_with(fitted.fitted_, z)
    base.execute("INSERT INTO t VALUES (9, NULL, NULL)")
    found = base.execute(
        "SELECT smallcal_probabilities(logits), smallcal_temperature(logits) FROM t ORDER BY row"
    ).fetchall()
    assert found[4] == (None, None)
    np.testing.assert_allclose([row[0] for row in found[:4]], fitted.predict_proba(z), atol=1e-9)
    for kind in ("FLOAT[]", "FLOAT[12]", "DOUBLE[12]"):
        query = f"SELECT smallcal_probabilities(logits::{kind}) FROM t WHERE row < 4 ORDER BY row"
        rows = [row[0] for row in base.execute(query).fetchall()]
        np.testing.assert_allclose(rows, fitted.predict_proba(z), atol=1e-5)
    assert base.execute("SELECT smallcal_probabilities(logits) FROM t WHERE false").fetchall() == []


def test_bad_rows_are_errors():
    base = base_with(fitted_once("ts-nll").fitted_, np.zeros((1, 12)))
    for row in (
        "[1.0, 2.0]",
        "[]",
        "list_value('nan'::DOUBLE" + ", 0" * 11 + ")",
        "[NULL" + ", 0" * 11 + "]",
    ):
        with pytest.raises(duckdb.Error, match="a row must be a list of 12 finite logits"):
            base.execute(f"SELECT smallcal_probabilities(CAST({row} AS DOUBLE[]))").fetchall()


def test_columns_of_any_name_and_queries_of_any_shape():
    z = simulate(6, 12, seed=7)[0]
    fitted = fitted_once("default")
    base = base_with(fitted.fitted_, z)
    expected = fitted.predict_proba(z)
    names = (
        "a",
        "i",
        "given_logits",
        "smallcal_logits",
        "smallcal_0",
        "largest_1",
        "probabilities",
    )
    for name in names:
        query = (
            f"SELECT max(list_max(smallcal_probabilities({name}))) FROM "
            f"(SELECT logits AS {name}, row AS b FROM t) AS u GROUP BY b ORDER BY b"
        )
        found = np.ravel(base.execute(query).fetchall())
        np.testing.assert_allclose(found, expected.max(axis=1), atol=1e-9)
    query = "SELECT count(*) FROM t WHERE smallcal_probabilities(logits)[1] > 0.1"
    assert base.execute(query).fetchone()[0] == (expected[:, 0] > 0.1).sum()


def test_probabilities_come_in():
    z, y = simulate(300, 5, seed=3)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    fitted = fit("srts-bce", p, y, input="probabilities")
    np.testing.assert_allclose(
        through_sql(fitted.fitted_, p[:10]), fitted.predict_proba(p[:10]), rtol=3e-7, atol=1e-9
    )


def test_names_are_escaped_and_the_text_is_the_same_every_time():
    fitted = fitted_once("ts-nll").fitted_
    nasty = (*NASTY[:10], "it's\0", "'); DROP TABLE t; --")
    named = replace(fitted, class_names=nasty, method="x\n; DROP TABLE t; --")
    base = base_with(named, np.zeros((1, 12)))
    assert base.execute("SELECT smallcal_class_names()").fetchone()[0] == list(nasty)
    assert base.execute("SELECT count(*) FROM t").fetchone()[0] == 1
    assert to_sql(named) == to_sql(named)
    assert "\0" not in to_sql(named)
    with refused("class-names-invalid"):
        to_sql(replace(fitted, class_names=("\ud800",) * 12))


def test_what_acts_on_a_terminal_is_written_by_number():
    fitted = fitted_once("ts-nll").fitted_
    nasty = ("a\nb\x1b[2J\x9b", "\u202e'", *NASTY[-5:], *"cdefg")
    named = replace(fitted, class_names=nasty)
    base = base_with(named, np.zeros((1, 12)))
    assert base.execute("SELECT smallcal_class_names()").fetchone()[0] == list(nasty)
    assert not RAW.search(to_sql(named))


def test_what_cannot_be_exported_is_refused():
    with refused("method-unsuitable"):
        to_sql(fitted_once("random-k3").fitted_)
