"""Is a calibrator's program the calibrator? Twenty operations against the runtime's own code."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smallcal.calibrators.maps import FittedMap
from smallcal.calibrators.program import COMPOUNDS, OPERATIONS, Program, constant
from smallcal.calibrators.program_plain import plain
from smallcal.calibrators.signals import FittedSignal
from smallcal.deploy.export import translate
from smallcal.errors import InputError
from support.cases import EXPORTABLE, drawn, features_of, fit, fitted_once, predict
from support.program_numpy import run
from support.simulated import simulate

#: Kinds that no export can know: controls that look at the batch, and readers of the labels.
NOT_ROWWISE = {"random", "shuffled", "oracle_risk", "oracle_correctness"}


def agree(fitted, z, *, atol=1e-9):
    program = translate.program_of(fitted.fitted_)
    p, t = run(program, z, features_of(z))
    expected = predict(fitted, z)
    # A rival held below the predicted class may move by 2^-22 of it.
    np.testing.assert_allclose(p, expected, rtol=3e-7, atol=atol)
    if fitted.preserves_argmax_:
        np.testing.assert_array_equal(p.argmax(axis=1), np.asarray(z).argmax(axis=1))
    if t is not None:
        given_features = features_of(z) if fitted.fitted_.signal.needs else None
        np.testing.assert_allclose(t, fitted.temperature(z, features=given_features), rtol=1e-9)
    return program


@pytest.mark.parametrize("name", EXPORTABLE)
def test_the_program_of_every_method_does_what_the_runtime_does(name):
    z, _ = drawn(name, 500, seed=7)
    program = agree(fitted_once(name), z)
    assert {value.operation for value in program.values()} <= {*OPERATIONS, *COMPOUNDS}
    assert {value.operation for value in plain(program).values()} <= set(OPERATIONS)


def test_every_part_is_written_down():
    unwritten = {
        kind
        for base in (FittedSignal, FittedMap)
        for kind, part in base.kinds.items()
        if part.program is base.program
    }
    assert unwritten == {*NOT_ROWWISE, "peer", "classwise"}


@pytest.mark.parametrize("name", ["ts-nll", "srts-bce", "default", "dirichlet-odir", "ets"])
def test_probabilities_come_in(name):
    z, y = simulate(400, 5, seed=3)
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[0] = np.eye(5)[2]  # a zero is floored, as the runtime does
    fitted = fit(name, p, y, input="probabilities")
    found, _ = run(translate.program_of(fitted.fitted_), p)
    np.testing.assert_allclose(found, fitted.predict_proba(p), rtol=3e-7, atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(["default", "srts-bce", "smart-bce", "ets", "scaling-binning", "hts-bce"]),
    rows=st.lists(
        st.lists(
            st.sampled_from([-800.0, -3.0, 0.0, 1e-9, 2.0, 2.0, 40.0, 800.0]),
            min_size=12,
            max_size=12,
        ),
        min_size=1,
        max_size=6,
    ),
)
def test_extreme_rows_and_ties_neither_overflow_nor_change_the_prediction(name, rows):
    agree(fitted_once(name), np.array(rows))


def test_what_cannot_be_exported_is_refused():
    for name, message in (
        ("random-k3", "a control whose groups depend on the whole batch"),
        ("oracle-risk", "for comparison only"),
    ):
        with pytest.raises(InputError, match=message):
            translate.program_of(fitted_once(name).fitted_)


def test_a_long_chain_needs_no_deep_stack():
    value = constant(0.0)
    for _ in range(5000):
        value = value + 1.0
    program = Program(value, None, 2, 0, "logits")
    assert run(program, np.zeros((1, 2)))[0].item() == 5000
