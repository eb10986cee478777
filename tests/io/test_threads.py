"""Work on several cores: in order, a few items ahead, and errors come through."""

import pytest

from smallcal.io import threads
from smallcal.io.threads import in_threads


@pytest.mark.parametrize("cores", [1, 2, 7])
def test_results_come_in_order_and_few_items_wait(monkeypatch, cores):
    monkeypatch.setattr(threads, "_cores", lambda: cores)
    taken = []

    def items():
        for i in range(40):
            taken.append(i)
            yield i

    for i, found in enumerate(in_threads(lambda x: x * x, items())):
        assert found == i * i
        assert len(taken) <= i + cores + 2
    assert len(taken) == 40
    assert list(in_threads(str, [])) == []


@pytest.mark.parametrize("cores", [1, 3])
def test_an_error_comes_through(monkeypatch, cores):
    monkeypatch.setattr(threads, "_cores", lambda: cores)
    with pytest.raises(ZeroDivisionError):
        list(in_threads(lambda x: 1 / x, [2, 1, 0, 3]))


def test_there_is_a_core():
    assert threads._cores() >= 1
