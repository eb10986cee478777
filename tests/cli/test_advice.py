"""Advice works where it is printed: keywords in Python, options on the command line."""

from __future__ import annotations

import ast
import inspect
import json
import re
from pathlib import Path

import numpy as np
import pytest

import smallcal as sc
from smallcal import errors, io
from smallcal.calibrators.catalogue import ALIASES, METHODS
from smallcal.cli.complete import table
from smallcal.data.predictions import Predictions
from smallcal.deploy.adapters import torch as torch_adapter
from smallcal.metrics.condition import Condition
from support.refused import refused
from support.simulated import simulate

SOURCE = Path(sc.__file__).parent
Z, Y = simulate(120, 3)
P = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
MULTILABEL = np.eye(3, dtype=int)[Y]
MULTILABEL[4] = 1

#: What is wrong, the arrays, and the advice in Python and on the command line.
ARRAYS = {
    "probabilities as logits": (
        {"logits": P, "labels": Y},
        r": say input='probabilities'; for real logits, say input='logits'$",
        r": say --input probabilities; for real logits, say --input logits$",
    ),
    "logits as probabilities": (
        {"probabilities": Z, "labels": Y},
        r"If they are logits, say input='logits', in the fit too$",
        r"If they are logits, say --input logits, in the fit too$",
    ),
    "one column of probabilities": (
        {"probabilities": P[:, 1:2], "labels": Y == 1},
        r"class 1 of two\), use input='score'$",
        r"class 1 of two\), use --input score$",
    ),
    "probabilities of class 1 as logits": (
        {"logits": P[:, 1], "labels": Y == 1},
        r"class 1 of two\), use input='score'$",
        r"class 1 of two\), use --input score$",
    ),
    "one column of margins": (
        {"logits": Z[:, 1], "labels": Y == 1},
        r"class 1 of two\), use input='score'$",
        r"class 1 of two\), use --input score$",
    ),
    "labels from 1": (
        {"logits": Z, "labels": Y + 1},
        r"They seem to start at 1: pass labels - 1$",
        r"They seem to start at 1: take 1 off each$",
    ),
    "names without class names": (
        {"logits": Z, "labels": np.array(["a", "b", "c"])[Y]},
        r"which class with Calibrator\(class_names=\[\.\.\.\]\), or pass",
        r"which class with --class-names FILE, one name per line, or save",
    ),
    "multilabel": (
        {"logits": Z, "labels": MULTILABEL},
        r"labels are multilabel, .* in row 4 \(row 4 has 3\).* with labels\[:, j\]$",
        r"labels are multilabel, .* in row 4 \(row 4 has 3\).* and its 0/1 labels$",
    ),
    "soft labels": (
        {"logits": Z, "labels": P},
        r"each row needs one class: labels\.argmax\(axis=1\) takes the largest$",
        r"each row needs one class: save the column number of the largest$",
    ),
    "one-hot labels of other classes": (
        {"logits": Z, "labels": np.eye(4)[Y]},
        r"or \(120, 3\), one-hot; got \(120, 4\)",
        r"or \(120, 3\), one-hot; got \(120, 4\)",
    ),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_that_cannot_be_used_say_what_to_do_in_both_worlds(name, cli):
    arrays, python, shell = ARRAYS[name]
    kind = "logits" if "logits" in arrays else "probabilities"
    said = None if kind == "logits" else kind
    with pytest.raises(sc.InputError, match=python):
        sc.Calibrator(input=said).fit(arrays[kind], arrays["labels"])
    np.savez("bad.npz", **arrays)
    code, out, err = cli("fit", "bad.npz")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert re.search(shell, err.rpartition(" [")[0])


def test_the_advice_works(cli):
    np.savez("p.npz", logits=P, labels=Y)
    assert cli("fit", "p.npz", "--input", "probabilities")[0] == 0
    p = P[:, 1]
    two = np.column_stack([1 - p, p])
    assert sc.make("ts-nll", input="probabilities").fit(two, Y == 1).n_parameters_ == 1
    np.savez("words.npz", logits=Z, labels=np.array(["a", "b", "c"])[Y])
    Path("names.txt").write_text("a\nb\nc\n")
    assert cli("fit", "words.npz", "--class-names", "names.txt")[0] == 0


@pytest.mark.parametrize("kind", [int, bool, np.float32])
def test_one_hot_labels_are_column_numbers(kind, cli):
    expected = sc.make("ts-nll").fit(Z, Y).to_dict()
    assert sc.make("ts-nll").fit(Z, np.eye(3)[Y].astype(kind)).to_dict() == expected
    np.savez("one-hot.npz", logits=Z, labels=np.eye(3)[Y].astype(kind))
    np.savez("plain.npz", logits=Z, labels=Y)
    for verb in (["evaluate"], ["fit", "--method", "ts-nll"]):
        first, second = (cli(*verb, f"{name}.npz", "--json")[1] for name in ("one-hot", "plain"))
        assert first.replace("one-hot", "plain") == second


@pytest.mark.parametrize("output", ["p.csv", "p.npz"])
def test_one_hot_labels_go_along_as_column_numbers(output, cli):
    sc.make("ts-nll").fit(Z, Y).save("cal.json")
    np.savez("one-hot.npz", logits=Z, labels=np.eye(3)[Y])
    assert cli("apply", "cal.json", "one-hot.npz", "-o", output)[0] == 0
    written = io.read(output)
    assert np.array_equal(written.labels, Y)
    assert written.logits.shape == (120, 3)


def test_evaluate_asks_for_a_softmax_where_there_is_no_such_option():
    with refused("probabilities-range"):
        sc.evaluate(Y, Z)


@pytest.fixture
def files(cli):
    np.savez("cal.npz", logits=Z, labels=Y)
    np.save("scores.npy", Z)
    sc.make("ts-nll").fit(Z, Y).save("cal.json")
    Path("names.txt").write_text("a\nb\nc\n")
    return cli


#: A slip, and what was meant.
SLIPS = [
    (["fitt"], "unknown verb 'fitt'; did you mean 'fit'?"),
    (["help", "evalute"], "unknown verb 'evalute'; did you mean 'evaluate'?"),
    (["study", "bugdet"], "unknown study 'bugdet'; did you mean 'budget'?"),
    (["fit", "cal.npz", "--metod", "x"], "No such option: --metod; did you mean '--method'?"),
    (
        ["evaluate", "cal.npz", "--n_boot", "0"],
        "No such option: --n_boot; did you mean '--n-boot'?",
    ),
    (
        ["fit", "cal.npz", "--method", "srts_bec"],
        "unknown method 'srts_bec'; did you mean 'srts-bce'?",
    ),
    (["compare", "cal.npz", "cal.npz", "--methods", "none,ts-nl"], "did you mean 'ts-nll'?"),
    (["select", "cal.npz", "--candidates", "tva-tss"], "did you mean 'tva-ts'?"),
    (["evaluate", "cal.npz", "--metrics", "ec15"], "unknown metric 'ec15'; did you mean 'ece15'?"),
    (
        ["evaluate", "cal.npz", "--fail-if", "ec15>3%"],
        "--fail-if 'ec15>3%': unknown metric 'ec15'; did",
    ),
    (
        ["fit", "cal.npz", "--method", "srts-bce", "--set", "n_grups=5"],
        "--set n_grups: srts-bce has no such option; did you mean 'n_groups'?",
    ),
    (["fit", "cla.npz"], "cannot read cla.npz: No such file or directory; did you mean 'cal.npz'?"),
    (["fit", "cal.nzp"], "cannot read cal.nzp: No such file or directory; did you mean 'cal.npz'?"),
    (["fit", "score.npy"], "did you mean 'scores.npy'?"),
    (["evaluate", "score.npy", "--n-boot", "0"], "did you mean 'scores.npy'?"),
    (["inspect", "cal.jsn"], "did you mean 'cal.json'?"),
    (["apply", "cla.json", "scores.npy", "-o", "p.npy"], "did you mean 'cal.json'?"),
    (["fit", "cal.npz", "--labels", "scors.npy"], "did you mean 'scores.npy'?"),
    (["fit", "cal.npz", "--class-names", "nmes.txt"], "did you mean 'names.txt'?"),
]


@pytest.mark.parametrize(("args", "said"), SLIPS, ids=[" ".join(args) for args, _ in SLIPS])
def test_a_slip_gets_one_suggestion_in_one_line(args, said, files):
    code, out, err = files(*args)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert err.count("did you mean") == 1


def test_nothing_is_suggested_for_what_is_like_nothing(files):
    said = files("fit", "cal.npz", "--method", "magic")[2]
    assert said.endswith(" [method-unknown]\n")
    assert "'magic'" in said
    assert "did you mean" not in said
    for args in (["fit", "elsewhere.npz"], ["fit", "cal.npz", "--zzz"], ["fit", "no/such.npz"]):
        assert "did you mean" not in files(*args)[2]


def test_a_file_is_suggested_with_its_folder(files, here):
    (here / "data").mkdir()
    np.savez("data/val.npz", logits=Z, labels=Y)
    assert f"did you mean '{Path('data/val.npz')}'?" in files("fit", "data/vall.npz")[2]
    with refused("file-missing", "data/val.npz"):
        io.read("data/vall.npz")


def test_python_suggests_too():
    with refused("method-unknown", "'srts_bec'", "'srts-bce'"):
        sc.make("srts_bec")
    with refused("method-unknown", "'magic'"):
        sc.make("magic")
    with refused("unknown-choice", "'n_grups'", "'n_groups'"):
        sc.make("srts-bce", n_grups=5)
    with refused("unknown-choice", "'n_fods'", "'n_folds'"):
        sc.make("default", n_fods=5)
    with refused("metric-unknown", "'eec15'", "'ece15'"):
        sc.evaluate(Y, P, metrics=["eec15"])
    with refused("condition-invalid", "'eec15>1'"):
        Condition.parse("eec15>1")


#: Other advice that differs: what raises it in Python, the command, and both texts.
DIFFERENT = {
    "features": (
        lambda: sc.make("features-k3").fit(Z, Y),
        ["fit", "cal.npz", "--method", "features-k3"],
        "features-k3 needs features as well as logits: pass features=...",
        "put an array called features into the file",
    ),
    "rule": (
        lambda: sc.select(Z, Y, loss="ece15"),
        ["select", "cal.npz", "--loss", "ece15"],
        "say rule='repeat', 'fold' or 'holdout'",
        "say --rule repeat, fold or holdout",
    ),
    "repeats": (
        lambda: sc.select(Z, Y, rule="repeat", n_repeats=1),
        ["select", "cal.npz", "--rule", "repeat", "--repeats", "1"],
        "needs n_repeats of at least 2",
        "needs --repeats of at least 2",
    ),
    "input": (
        lambda: sc.Calibrator(input="probs").fit(Z, Y),
        ["fit", "cal.npz", "--input", "probs"],
        "input must be one of logits, probabilities, score; got 'probs'",
        "--input must be one of logits, probabilities, score; got 'probs'",
    ),
    "condition": (
        lambda: Condition.parse("low"),
        ["evaluate", "cal.npz", "--fail-if", "low"],
        "'low': must look like ece15>0.03",
        "--fail-if 'low': must look like ece15>0.03",
    ),
    "not JSON": (
        lambda: sc.load("scores.npy"),
        ["inspect", "scores.npy"],
        "name the file that `save` wrote",
        "name the file that `smallcal fit -o` wrote",
    ),
    "reference": (
        lambda: sc.Monitor(sc.load("bare.json")),
        ["monitor", "bare.json", "cal.npz"],
        "pass the split's logits as reference=...",
        "name the split with --reference FILE",
    ),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_each_world_gets_its_own_words(name, files):
    call, args, python, shell = DIFFERENT[name]
    document = json.loads(Path("cal.json").read_text())
    Path("bare.json").write_text(json.dumps({**document, "reference": None}))
    with pytest.raises(sc.SmallcalError) as caught:
        call()
    assert python in str(caught.value)
    assert " --" not in str(caught.value)
    code, _, err = files(*args)
    assert (code, err.count("\n")) == (2, 1)
    assert shell in err


def test_the_words_survive_what_is_put_in_front():
    error = sc.InputError("no: ", python="a=1", shell="--a 1").about("x.npz").about("fit")
    assert (str(error), error.shell) == ("fit: x.npz: no: a=1", "fit: x.npz: no: --a 1")
    assert isinstance(error, sc.InputError)


def _texts(call: ast.Call) -> tuple[str, str]:
    """Return what an error says in Python and on the command line, as far as it is written out."""

    def said(node: ast.AST | None) -> str:
        parts = [] if node is None else ast.walk(node)
        return "".join(
            p.value for p in parts if isinstance(p, ast.Constant) and isinstance(p.value, str)
        )

    given = {word.arg: said(word.value) for word in call.keywords}
    message = said(call.args[0]) if call.args else ""
    python = given.get("python", "")
    return message + python, message + (given.get("shell") or python)


RAISED = [
    (path.relative_to(SOURCE).as_posix(), node.lineno, *_texts(node))
    for path in sorted(SOURCE.rglob("*.py"))
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    if isinstance(node, ast.Call)
    and getattr(node.func, "id", "") in vars(errors)
    and str(getattr(node.func, "id", "")).endswith("Error")
]
#: How to write a file, in the words of the library that does, and what only Python can reach.
_OF_FILES = ("io/readers.py", "deploy/export/onnx_append.py", "vision/models/weights.py")
_PYTHON_ONLY = ("plots/", "deploy/adapters/", "deploy/export/torch.py")


def test_no_error_of_python_names_an_option_and_every_option_is_there():
    assert len(RAISED) > 400
    options = {name for row in table()["options"].values() for name in row["names"]}
    for path, line, python, shell in RAISED:
        named = re.findall(r"(?<![\w-])--[a-z][a-z-]*", shell)
        assert options.issuperset(named), (path, line, shell)
        assert path.startswith("cli/") or "--" not in python, (path, line, python)


def test_no_error_of_the_command_line_names_a_keyword():
    keyword = re.compile(r"\b[a-z_]+=(\.\.\.|\[|'|\"|True|False)|\bnp\.|\.\w+\(\)")
    for path, line, _, shell in RAISED:
        if not path.startswith(_PYTHON_ONLY) and path not in _OF_FILES and "sparse" not in shell:
            assert not keyword.search(shell), (path, line, shell)


def test_keywords_in_advice_exist():
    taken = {"p", "m", "z", "j"}
    for function in (
        sc.Calibrator,
        sc.Calibrator.fit,
        sc.Calibrator.predict_proba,
        sc.select,
        sc.audit,
        sc.plan,
        sc.report,
        sc.compare,
        sc.evaluate,
        sc.Monitor,
        sc.CalibratedModel,
        torch_adapter.calibrate,
    ):
        taken |= set(inspect.signature(function).parameters)
    for path, line, python, _ in RAISED:
        if path.startswith(("data/", "advice/", "calibrators/estimators", "deploy/monitor/")):
            named = re.findall(r"\b([a-z_]+)=(?:\.\.\.|\[|')", python)
            assert taken.issuperset(named), (path, line, python)


def test_errors_go_through_processes():
    import pickle

    error = sc.InputError("no: ", python="a=1", shell="--a 1")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.shell) == (str(error), error.shell)


# Aliases.


@pytest.mark.parametrize("alias", ALIASES)
def test_an_alias_is_its_method_under_another_name(alias):
    true = ALIASES[alias]
    assert sc.make(alias)._compose().name == true
    assert alias not in METHODS
    assert sc.methods()[alias] == f"the same as {true}"


@pytest.mark.parametrize(
    ("alias", "true"),
    [
        ("temperature", "ts-nll"),
        ("ts", "ts-nll"),
        ("srts", "srts-bce"),
        ("vector", "vector-scaling"),
        ("matrix", "matrix-scaling"),
        ("dirichlet", "dirichlet-odir"),
    ],
)
def test_what_people_type_is_fitted_and_recorded_by_its_true_name(alias, true, files):
    code, out, _ = files("fit", "cal.npz", "--method", alias, "-o", "made.json")
    assert code == 0
    assert out.startswith(f"{true}: fitted on")
    assert json.loads(Path("made.json").read_text())["method"] == true
    assert sc.load("made.json").method_ == true


def test_isotonic_regression_is_fitted_though_not_saved(files):
    code, out, _ = files("fit", "cal.npz", "--method", "isotonic")
    assert (code, out.startswith("isotonic: fitted on")) == (0, True)


def test_for_two_classes_matrix_scaling_and_platt_are_the_same_line():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    m = 3 * rng.normal(size=2000)
    y = (rng.random(2000) < 1 / (1 + np.exp(-(0.6 * m - 0.4)))).astype(int)
    line = LogisticRegression(C=1e9, tol=1e-10).fit(m[:, None], y)
    two = np.column_stack([np.zeros(2000), m])
    for name, near in (("matrix-scaling", 1e-3), ("platt", 5e-3), ("sigmoid", 5e-3)):
        found = sc.make(name).fit(two, y).predict_proba(two)
        assert np.allclose(found, line.predict_proba(m[:, None]), atol=near), name


def test_methods_lists_the_other_names(files):
    out = files("methods")[1]
    assert re.search(r"^ts-nll +ts, temperature, temperature-scaling$", out, re.MULTILINE)
    assert json.loads(files("methods", "--json")[1])["aliases"] == dict(ALIASES)


def test_a_baseline_may_be_named_by_another_name(files):
    args = ["compare", "cal.npz", "cal.npz", "--methods", "none,ts-nll", "--baseline", "ts"]
    code, out, _ = files(*args, "--n-boot", "0")
    assert code == 0
    assert "Difference to ts-nll:" in out


def test_checked_records_take_one_hot_labels():
    assert np.array_equal(Predictions.of(Z, np.eye(3)[Y]).labels, Y)
