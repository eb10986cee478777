"""Exports accept the rows that the calibrator accepts."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import warnings
from dataclasses import replace
from functools import cache
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smallcal as sc
from smallcal.calibrators.class_frequencies import ClassFrequencies
from smallcal.calibrators.confidence_shift import ConfidenceShift
from smallcal.calibrators.decision import thresholds_of
from smallcal.calibrators.group_effects import GroupEffects
from smallcal.calibrators.later import with_later
from smallcal.deploy.export import append_to_onnx, to_onnx, to_python, to_sql
from smallcal.deploy.export.decided import named_groups
from smallcal.deploy.export.translate import program_of
from smallcal.errors import GroupWarning
from support.backends import module_of, session_of
from support.cases import features_of
from support.decided import near, threshold, with_decisions
from support.nasty_names import NASTY
from support.program_numpy import decide
from support.refused import refused
from support.simulated import simulate

N = 400
NAMES = ("north", "south", "it's")
#: Of rows: two that are known, one without a threshold, one unknown and a missing one.
GROUPS = np.array([*NAMES, "new", ""])[np.arange(N) % 5]

ALL = threshold(0.7)
CLASSES = threshold(0.5, 0.8, None, 0.6, 0.9, by="class", names="abcde", risk=0.05)
BY_GROUP = threshold(0.5, 0.9, None, by="group", names=NAMES, risk=0.005)
OTHERS = threshold(0.4, 0.8, by="group", names=("new", "north"), risk=0.1)

CASES = {
    "all": (ALL,),
    "never": (threshold(None),),
    "class": (CLASSES,),
    "group": (BY_GROUP,),
    "several": (ALL, CLASSES, BY_GROUP, OTHERS),
}


@cache
def fitted_once(method, *, shifted=False):
    z, y = simulate(800, 5, seed=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        fitted = sc.make(method).fit(z, y, features=features_of(z)).fitted_
    if shifted:
        effects = GroupEffects(("south", "new", "far"), (1.0, -2.0, 0.5), (9, 9, 9), 1.0)
        fitted = replace(fitted, groups=effects)
    return fitted


def rows(seed=4):
    z = simulate(N, 5, seed=seed)[0]
    rng = np.random.default_rng(seed)
    z[: N // 4] = rng.normal(scale=8, size=(N // 4, 5))  # as sure as can be
    z[-3:] = 0.0  # ties
    return z


def expected(fitted, z, **more):
    """Return which rows each decision accepts by the calibrator, and which may fall either way."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GroupWarning)
        if fitted.signal.n_features:
            more["features"] = features_of(z)
        known = thresholds_of(fitted.decisions)
        found = {
            column: fitted.accept(z, risk=each.risk, groups=GROUPS, **more)
            for column, each in known.items()
        }
        shifted = {"groups": GROUPS} if fitted.groups is not None else {}
        return found, near(fitted, z, **shifted, **more)


def agree(found, fitted, z):
    wanted, close = expected(fitted, z)
    assert list(found) == list(wanted)
    for column, flags in found.items():
        np.testing.assert_array_equal(np.asarray(flags)[~close], wanted[column][~close], column)
    assert close.mean() < 0.05


every = pytest.mark.parametrize("case", CASES)
shiftings = pytest.mark.parametrize("shifted", [False, True], ids=["plain", "effects"])


def places(fitted):
    names = named_groups(fitted).names
    return np.array([names.index(group) if group in names else -1 for group in GROUPS.tolist()])


@every
@shiftings
@pytest.mark.parametrize("method", ["default", "vector-scaling", "features-logits-k3"])
def test_the_program_decides_as_the_calibrator(method, case, shifted):
    fitted = with_decisions(fitted_once(method, shifted=shifted), *CASES[case])
    z, groups = rows(), named_groups(fitted)
    more = {"features": features_of(z)}
    if groups is not None and groups.effects:
        more["effects"] = np.array([*groups.effects, 0.0])[places(fitted)][:, None]
    if groups is not None and groups.limits:
        more["limits"] = np.array([*groups.limits, groups.unknown])[places(fitted)]
    agree(decide(program_of(fitted), z, **more), fitted, z)


def test_the_cases_accept_some_rows_and_not_others():
    fitted = with_decisions(fitted_once("default"), *CASES["several"])
    shares = {column: flags.mean() for column, flags in expected(fitted, rows())[0].items()}
    assert list(shares) == [
        "accepted_at_2pct",
        "accepted_at_5pct",
        "accepted_at_0_5pct",
        "accepted_at_10pct",
    ]
    assert all(0.05 < share < 0.95 for share in shares.values()), shares


@every
@shiftings
@pytest.mark.parametrize("method", ["default", "features-logits-k3"])
def test_python_decides(method, case, shifted):
    fitted = with_decisions(fitted_once(method, shifted=shifted), *CASES[case])
    z, module = rows(), module_of(to_python(fitted))
    found = {}
    for column, each in thresholds_of(fitted.decisions).items():
        more = [features_of(z).tolist()] if fitted.signal.n_features else []
        more += [GROUPS.tolist()] if shifted or each.by == "group" else []
        found[column] = [module[column](*row) for row in zip(z.tolist(), *more, strict=True)]
        assert {type(flag) for flag in found[column]} == {bool}
    agree(found, fitted, z)
    # What probabilities are does not depend on decisions, and neither does how to ask for them.
    plain = module_of(to_python(replace(fitted, decisions=())))
    own = [features_of(z).tolist()] if fitted.signal.n_features else []
    own += [GROUPS.tolist()] if shifted else []
    assert module["calibrate_rows"](z.tolist(), *own) == plain["calibrate_rows"](z.tolist(), *own)


@pytest.mark.parametrize("case", ["all", "several"])
def test_python_as_a_program_writes_the_flags_last(case, tmp_path):
    fitted, z = with_decisions(fitted_once("default"), *CASES[case]), rows()
    path = tmp_path / "cal.py"
    path.write_text(to_python(fitted))
    ends = [f",{group}" if case == "several" else "" for group in GROUPS]
    text = "".join(f"{','.join(map(repr, z[i].tolist()))}{ends[i]}\n" for i in range(N))
    command = [sys.executable, "-I", "-S", str(path)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    found = np.loadtxt(io.StringIO(done.stdout), delimiter=",")
    np.testing.assert_allclose(found[:, :5], fitted.predict_proba(z), atol=1e-6)
    columns = thresholds_of(fitted.decisions)
    agree({name: found[:, 5 + i] != 0 for i, name in enumerate(columns)}, fitted, z)


@every
@shiftings
def test_sql_decides(case, shifted):
    duckdb = pytest.importorskip("duckdb")
    fitted, z = with_decisions(fitted_once("default", shifted=shifted), *CASES[case]), rows()
    base = duckdb.connect(config={"threads": 1})
    base.execute("CREATE TABLE t (row INTEGER, z DOUBLE[], g VARCHAR)")
    base.executemany(
        "INSERT INTO t VALUES (?, ?, ?)", [(i, z[i].tolist(), GROUPS[i] or None) for i in range(N)]
    )
    base.execute("INSERT INTO t VALUES (?, NULL, 'north')", (N,))
    base.execute(to_sql(fitted))
    found = {}
    for column, each in thresholds_of(fitted.decisions).items():
        given = "z, g" if shifted or each.by == "group" else "z"
        answer = base.execute(f"SELECT smallcal_{column}({given}) FROM t ORDER BY row").fetchall()
        *found[column], missing = [row[0] for row in answer]
        assert missing is None
        assert {type(flag) for flag in found[column]} == {bool}
    given = "z, g" if shifted else "z"
    base.execute(f"SELECT smallcal_probabilities({given}) FROM t").fetchall()
    base.close()
    agree(found, fitted, z)


@every
@shiftings
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_onnx_decides(case, shifted, dtype):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    fitted = with_decisions(fitted_once("default", shifted=shifted), *CASES[case])
    z = rows().astype(dtype)
    session = session_of(to_onnx(fitted, dtype=dtype))
    given = {"logits": z}
    if named_groups(fitted) is not None:
        codes = places(fitted)
        codes[codes < 0] = np.tile([-1, 99], N)[: (codes < 0).sum()]
        given["group"] = codes
        names = session.get_modelmeta().custom_metadata_map["smallcal.group_names"]
        assert json.loads(names) == list(named_groups(fitted).names)
    columns = list(thresholds_of(fitted.decisions))
    found = session.run(columns, given)
    assert {(flags.shape, flags.dtype.kind) for flags in found} == {((N,), "b")}
    # Inside it is double, whatever came in: so decides the calibrator of the same numbers.
    agree(dict(zip(columns, found, strict=True)), fitted, z.astype(float))
    empty = {name: array[:0] for name, array in given.items()}
    assert [flags.shape for flags in session.run(columns, empty)] == [(0,)] * len(columns)
    told = json.loads(session.get_modelmeta().custom_metadata_map["smallcal.decisions"])
    assert list(told) == columns


def test_onnx_accepts_no_row_that_is_none():
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    fitted = with_decisions(fitted_once("default"), threshold(0.01))
    z = np.zeros((4, 5))
    z[1, 2], z[2, :] = np.nan, np.nan
    found = session_of(to_onnx(fitted, dtype="float64")).run(["accepted"], {"logits": z})[0]
    assert found.tolist() == [True, False, False, True]


def model_file(onnx, path, width, names=("logits",), shape=("batch",)):
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    axes = [*shape, *([width] if width else [])]
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], [name]) for name in names],
        "model",
        [helper.make_tensor_value_info("x", kind, axes)],
        [helper.make_tensor_value_info(name, kind, axes) for name in names],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)


@pytest.mark.parametrize("case", ["all", "class"])
def test_behind_a_model(case, tmp_path):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    fitted, z = with_decisions(fitted_once("default"), *CASES[case]), rows().astype(np.float32)
    path = tmp_path / "model.onnx"
    model_file(onnx, path, 5, names=("logits", "accepted"), shape=("batch", "tokens"))
    session = session_of(append_to_onnx(fitted, path, output_name="logits"))
    assert [output.name for output in session.get_outputs()][:2] == ["logits", "accepted"]
    column = session.get_outputs()[3].name
    assert column == "smallcal_accepted"
    (found,) = session.run([column], {"x": z.reshape(20, 20, 5)})
    assert found.shape == (20, 20)
    agree({"accepted": found.reshape(-1)}, fitted, z.astype(float))


def test_thresholds_by_group_cannot_stand_behind_a_model(tmp_path):
    pytest.importorskip("onnx")
    fitted = with_decisions(fitted_once("ts-nll"), BY_GROUP)
    with refused("method-unsuitable"):
        append_to_onnx(fitted, tmp_path / "model.onnx")


@every
@shiftings
@pytest.mark.parametrize("output", ["probabilities", "logits"])
@pytest.mark.parametrize("method", ["ts-nll", "features-logits-k3"])
def test_torch_decides(method, case, shifted, output):
    torch = pytest.importorskip("torch")
    from smallcal.deploy.export import to_torch

    fitted = with_decisions(fitted_once(method, shifted=shifted), *CASES[case])
    z, module = rows(), to_torch(fitted, output=output).half()
    more = [torch.from_numpy(features_of(z))] if fitted.signal.n_features else [None]
    groups = None if named_groups(fitted) is None else torch.from_numpy(places(fitted))
    found = {
        column: module.accept(torch.from_numpy(z), *more, groups, risk=each.risk).numpy()
        for column, each in thresholds_of(fitted.decisions).items()
    }
    assert {(flags.shape, flags.dtype.kind) for flags in found.values()} == {((N,), "b")}
    agree(found, fitted, z)
    # The call is what it was, and needs groups only where the calibrator has effects of them.
    plain = to_torch(replace(fitted, decisions=()), output=output)
    own = groups if shifted and plain.group_names == module.group_names else None
    if not shifted or own is not None:
        both = [each(torch.from_numpy(z), *more, groups=own) for each in (module, plain)]
        np.testing.assert_array_equal(*(each.numpy() for each in both))


def test_torch_takes_any_shape_and_refuses_what_is_no_row():
    torch = pytest.importorskip("torch")
    from smallcal.deploy.export import to_torch

    fitted = with_decisions(fitted_once("default"), threshold(0.01), threshold(0.99, risk=0.01))
    module = to_torch(fitted)
    z = torch.zeros(2, 3, 5)
    z[0, 1, 2] = torch.nan
    z[1, 2, 0] = 1e30  # as sure as can be, and no logit
    found = module.accept(z, risk=0.02)
    assert found.tolist() == [[True, False, True], [True, True, False]]
    assert not module.accept(z, risk=0.01).any()
    with refused("unknown-choice"):
        module.accept(z)
    with refused("no-decision"):
        to_torch(fitted_once("default")).accept(z)
    with refused("groups-missing"):
        to_torch(with_decisions(fitted_once("default"), BY_GROUP)).accept(z)


def test_a_state_of_another_decision_is_refused():
    pytest.importorskip("torch")
    from smallcal.deploy.export import to_torch

    one = to_torch(with_decisions(fitted_once("ts-nll"), ALL))
    other = to_torch(with_decisions(fitted_once("ts-nll"), threshold(0.9)))
    other.load_state_dict(one.state_dict())
    assert float(other.decided[-1]) == 0.7
    with pytest.raises(RuntimeError):
        to_torch(fitted_once("ts-nll")).load_state_dict(one.state_dict())


@cache
def of_scores():
    rng = np.random.default_rng(6)
    x = rng.normal(size=600)
    y = rng.logistic(size=600) < 2 * x
    return sc.Calibrator(input="score").fit(x, y).fitted_


@pytest.mark.parametrize(
    "decision", [threshold(0.6), threshold(0.9, 0.6, by="class", names="01"), BY_GROUP]
)
def test_scores_claim_outcome_1_everywhere(decision, tmp_path):
    fitted = with_decisions(of_scores(), decision)
    x = np.random.default_rng(7).normal(size=N) * 2
    grouped = decision.by == "group"
    module = module_of(to_python(fitted))
    more = [GROUPS.tolist()] if grouped else []
    found = {"accepted": [module["accepted"](*row) for row in zip(x.tolist(), *more, strict=True)]}
    assert 0.1 < np.mean(found["accepted"]) < 0.9
    agree(found, fitted, x)
    assert module["probability"](0.5) == pytest.approx(fitted.predict_score([0.5])[0])


def test_scores_in_onnx_and_torch(tmp_path):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    torch = pytest.importorskip("torch")
    from smallcal.deploy.export import to_torch

    fitted = with_decisions(of_scores(), threshold(0.6))
    x = np.random.default_rng(7).normal(size=N) * 2
    (found,) = session_of(to_onnx(fitted, dtype="float64")).run(["accepted"], {"score": x[:, None]})
    agree({"accepted": found}, fitted, x)
    agree({"accepted": to_torch(fitted).accept(torch.from_numpy(x)).numpy()}, fitted, x)
    odd = np.array([[np.nan], [np.inf], [9.0]])
    (found,) = session_of(to_onnx(fitted, dtype="float64")).run(["accepted"], {"score": odd})
    assert found.tolist() == [False, True, True]
    assert to_torch(fitted).accept(torch.from_numpy(odd[:, 0])).tolist() == [False, True, True]
    model_file(onnx, tmp_path / "model.onnx", 0, names=("score",))
    session = session_of(append_to_onnx(fitted, tmp_path / "model.onnx"))
    (found,) = session.run(["accepted"], {"x": x.astype(np.float32)})
    agree({"accepted": found}, fitted, x.astype(np.float32).astype(float))


def test_a_probability_above_1_is_no_score():
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(0)
    p = rng.random(400)
    fitted = sc.Calibrator(input="score").fit(p, rng.random(400) < p).fitted_
    session = session_of(to_onnx(with_decisions(fitted, threshold(0.5)), dtype="float64"))
    (found,) = session.run(["accepted"], {"score": np.array([[0.99], [1.5], [-1.0], [0.01]])})
    assert found.tolist() == [True, False, False, False]


@pytest.mark.parametrize("name", NASTY)
def test_names_and_promises_do_no_harm(name):
    fitted = fitted_once("ts-nll")
    decision = threshold(0.5, 0.9, by="group", names=(name, "other"), promise=f"It's {name}\n*/'")
    text = to_python(with_decisions(fitted, decision))
    text.encode("ascii")
    z = rows()[:40]
    accepted = module_of(text)["accepted"]
    found = [accepted(row, name) for row in z.tolist()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GroupWarning)
        named = np.array([name] * len(z), dtype=object)
        wanted = with_decisions(fitted, decision).accept(z, groups=named)
    assert found == wanted.tolist()


@pytest.mark.parametrize(
    "part",
    [
        ClassFrequencies((0.2,) * 5, (0.6, *(0.1,) * 4)),
        ConfidenceShift(slope=0.6, bias=-0.8, tail=1.4),
    ],
    ids=["frequencies", "shift"],
)
def test_what_was_learned_later_is_part_of_the_decision(part):
    fitted = with_decisions(with_later(fitted_once("ts-nll"), part), ALL)
    z = rows()
    wanted = fitted.accept(z)
    plain = with_decisions(fitted_once("ts-nll"), ALL).accept(z)
    assert (wanted != plain).mean() > 0.02
    module = module_of(to_python(fitted))
    agree({"accepted": [module["accepted"](row) for row in z.tolist()]}, fitted, z)
    if not find_spec("torch"):
        return
    import torch

    from smallcal.deploy.export import to_torch

    for output in ("probabilities", "logits"):
        made = to_torch(fitted, output=output)
        agree({"accepted": made.accept(torch.from_numpy(z)).numpy()}, fitted, z)
        found = made(torch.from_numpy(z))
        found = found.softmax(dim=-1) if output == "logits" else found
        np.testing.assert_allclose(found.numpy(), fitted.predict_proba(z), atol=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    logits=st.lists(
        st.lists(st.floats(-300, 300, width=32), min_size=5, max_size=5), min_size=1, max_size=8
    ),
    levels=st.lists(st.none() | st.floats(0, 1), min_size=5, max_size=5),
    method=st.sampled_from(["default", "vector-scaling", "ts-nll"]),
)
def test_any_logits_and_any_thresholds(logits, levels, method):
    decisions = threshold(levels[0]), threshold(*levels, by="class", names="abcde", risk=0.3)
    fitted, z = with_decisions(fitted_once(method), *decisions), np.array(logits)
    proba = fitted.predict_proba(z)
    close = near(fitted, z) | tied(proba)
    found = decide(program_of(fitted), z)
    for column, each in thresholds_of(decisions).items():
        np.testing.assert_array_equal(
            found[column][~close], fitted.accept(z, risk=each.risk)[~close]
        )


def tied(proba):
    """Return which rows have two classes so close that rounding decides which one is predicted."""
    ordered = np.sort(proba, axis=1)
    return ordered[:, -2] > ordered[:, -1] * (1 - 1e-6)


def test_real_logits(real_cell):
    """As a service sees them: float32 in, 2,000 rows, every place."""
    z, y = real_cell["val_logits"], real_cell["val_labels"]
    new = np.array(real_cell["test_logits"][:2000], dtype=np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        fitted = sc.Calibrator().fit(z, y).fitted_
    sure = np.sort(fitted.predict_proba(new).max(axis=1)).astype(float)
    rng = np.random.default_rng(0)
    each = [None if rng.random() < 0.2 else float(rng.choice(sure)) for _ in range(z.shape[1])]
    names = map(str, range(z.shape[1]))
    half, classes = (
        threshold(float(np.median(sure))),
        threshold(*each, by="class", names=names, risk=0.1),
    )
    fitted = with_decisions(fitted, half, classes)
    close = near(fitted, new, by=1e-5)  # float32 has seven digits
    close |= tied(fitted.predict_proba(new))
    assert close.mean() < 0.05
    wanted = {
        column: fitted.accept(new, risk=rule.risk)[~close]
        for column, rule in thresholds_of(fitted.decisions).items()
    }
    places = {"program": decide(program_of(fitted), new)}
    module, few = module_of(to_python(fitted)), new[:50].tolist()
    places["python"] = {column: np.array([*map(module[column], few)]) for column in wanted}
    if find_spec("onnxruntime"):
        found = session_of(to_onnx(fitted)).run([*wanted], {"logits": new})
        places["onnx"] = dict(zip(wanted, found, strict=True))
    if find_spec("torch"):
        import torch

        from smallcal.deploy.export import to_torch

        made, rows = to_torch(fitted), torch.from_numpy(new)
        places["torch"] = {
            column: made.accept(rows, risk=rule.risk).numpy()
            for column, rule in thresholds_of(fitted.decisions).items()
        }
    for place, found in places.items():
        for column, flags in found.items():
            kept = ~close[: len(flags)]
            said = flags[kept] == wanted[column][: kept.sum()]
            assert said.all(), (place, column)
