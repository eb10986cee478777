"""``smallcal export``: the suffix chooses, text may go to stdout, errors are one line."""

import doctest
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import smallcal as sc
from smallcal.cli import run
from smallcal.deploy.export import EXPORTERS
from support.backends import module_of, session_of
from support.simulated import simulate


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    z, y = simulate(300, 4)
    sc.make("srts-bce").fit(z, y).save("cal.json")
    sc.make("random-k3").fit(z, y).save("random.json")
    return tmp_path


def test_the_suffix_chooses_and_text_goes_to_stdout(cli):
    for suffix, kind in ((".py", "python"), (".sql", "sql")):
        code, out, err = cli("export", "cal.json", "-o", f"cal{suffix}")
        assert (code, err) == (0, "")
        assert out.startswith(f"Wrote srts-bce as {kind} to cal{suffix} (")
        text = Path(f"cal{suffix}").read_text()
        assert hashlib.sha256(Path("cal.json").read_bytes()).hexdigest() in text
        assert cli("export", "cal.json", "--to", kind) == (0, text, "")
    code, out, _ = cli("export", "cal.json", "-o", "odd.txt", "--to", "python", "--json")
    assert code == 0
    assert json.loads(out) == {
        "output": "odd.txt",
        "format": "python",
        "method": "srts-bce",
        "bytes": Path("odd.txt").stat().st_size,
    }
    assert Path("odd.txt").read_text() == Path("cal.py").read_text()
    assert json.loads(cli("export", "cal.json", "--to", "sql", "--json")[1])["text"].startswith(
        "--"
    )


def test_onnx_alone_and_behind_a_model(cli):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    fitted = sc.load("cal.json")
    z = simulate(20, 4, seed=1)[0]
    assert cli("export", "cal.json", "-o", "cal.onnx", "--dtype", "float64")[0] == 0
    (p,) = session_of(Path("cal.onnx").read_bytes()).run(["probabilities"], {"logits": z})
    np.testing.assert_allclose(p, fitted.predict_proba(z), rtol=3e-7, atol=1e-9)
    assert cli("export", "cal.json", "-o", "cal.onnx")[0] == 0
    # A calibrator is a model too: its logits are its input here.
    made = onnx.load("cal.onnx")
    del made.metadata_props[:]
    made.graph.node.add(op_type="Identity", input=["logits"], output=["scores"])
    made.graph.output.add().CopyFrom(made.graph.input[0])
    made.graph.output[-1].name = "scores"
    onnx.save(made, "model.onnx")
    args = ("export", "cal.json", "-o", "both.onnx", "--append", "model.onnx")
    code, out, err = cli(*args, "--output-name", "scores")
    assert (code, err) == (0, "")
    assert "Wrote srts-bce behind model.onnx as onnx to both.onnx" in " ".join(out.split())
    session = session_of(Path("both.onnx").read_bytes())
    last = session.get_outputs()[-1].name
    first, again = session.run(["probabilities", last], {"logits": z.astype(np.float32)})
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["cal.json"], "say what to write"),
        (["cal.json", "-o", "cal.xyz"], "the suffix must be one of .onnx, .py, .sql; --to says it"),
        (["cal.json", "--to", "rust"], "--to must be one of onnx, python, sql"),
        (["cal.json", "--to", "onnx"], "needs a file to write to: -o cal.onnx"),
        (["cal.json", "-o", "no/cal.py"], "the folder no does not exist"),
        (["none.json", "--to", "sql"], "cannot read none.json"),
        (["random.json", "--to", "sql"], "cannot be exported"),
        (["cal.json", "--to", "sql", "--append", "m.onnx"], "--append is for ONNX"),
        (["cal.json", "--to", "python", "--dtype", "float16"], "--dtype is for ONNX"),
        (["cal.json", "-o", "a.onnx", "--output-name", "x"], "--append MODEL says which"),
        (["cal.json", "-o", "a.onnx", "--append", "m", "--dtype", "float16"], "type of its logits"),
        (["cal.json", "-o", "a.onnx", "--append", "cal.json"], "not a"),
        (["cal.json", "-o", "a.onnx", "--dtype", "int8"], "dtype must be one of"),
    ],
)
def test_bad_input_is_one_line_and_code_2(args, message, cli):
    if any("onnx" in arg for arg in args):
        pytest.importorskip("onnx")
    code, out, err = cli("export", *args)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert not list(Path().glob("a.onnx"))


def test_a_failed_export_leaves_the_old_file(cli):
    Path("cal.sql").write_text("old")
    assert cli("export", "random.json", "-o", "cal.sql")[0] == 2
    assert Path("cal.sql").read_text() == "old"


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), kind=st.sampled_from([k for k, e in EXPORTERS.items() if e.is_text]))
def test_a_damaged_artefact_is_refused_or_harmless(data, kind, here, capsys):
    content = bytearray(Path("cal.json").read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    Path("damaged.json").write_bytes(bytes(content))
    code = run(["export", "damaged.json", "--to", kind])
    out, err = capsys.readouterr()
    assert code in (0, 2)
    assert err.count("\n") == (code == 2)
    if code == 0 and kind == "python":
        assert "calibrate" in module_of(out)


@pytest.mark.parametrize(
    ("page", "least"), [("guides/export.md", 9), ("recipes/onnx-service.md", 30)]
)
def test_the_pages_run_as_written(page, least, here):
    for package in ("onnx", "onnxruntime"):
        pytest.importorskip(package)
    results = doctest.testfile(
        str(Path(__file__).parents[2] / "docs" / page),
        module_relative=False,
        optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE,
    )
    assert results.attempted >= least
    assert results.failed == 0
