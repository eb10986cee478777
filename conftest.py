"""Shared data for the tests: simulated logits with known truth, and real ones."""

from __future__ import annotations

import importlib.util
import signal

import pytest
from hypothesis import settings

from smallcal.cli import run
from support import real
from support.fuzzing import again
from support.simulated import simulate
from support.torchvision_ops import sitecustomize  # noqa: F401  before anything imports torchvision

# The same examples in every run: a red test means a changed program, not an unlucky draw.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

# A shell starts its background jobs deaf to Ctrl-C, and they would start our programs so.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Modules whose examples draw.
DRAWS = (
    "src/smallcal/plots/",
    "src/smallcal/reports/render/drawer.py",
    "src/smallcal/reports/notebook/pictures.py",
)

# Networks that tests open by name; they are nothing without torch.
collect_ignore = []
if importlib.util.find_spec("torch") is None or importlib.util.find_spec("PIL") is None:
    collect_ignore += [
        f"tests/support/{name}.py"
        for name in ("small_net", "small_nets", "trained_nets", "training")
    ]


def pytest_report_header():
    """Say which real logits there are."""
    folder = real.data_folder()
    more = f"those in {folder}" if folder else "none more: SMALLCAL_DATA may name a folder"
    thrown = [f"thrown with {again()}"] if again() else []
    return [f"real logits: {', '.join(real.SHIPPED)}; {more}", *thrown]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """Say with which seed a hard test failed."""
    report = yield
    if report.failed and item.get_closest_marker("hard") and again():
        report.sections.append(("thrown again with", again()))
    return report


#: Cases of one test that `make test` runs, evenly taken; the others are marked slow, except those
#: of style and types.
MOST_CASES = 4


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark what is slow, and skip the examples of what draws where matplotlib is not installed."""
    cases = {}
    for item in items:
        if item.path.name == "test_tooling.py":
            continue
        name = getattr(item, "originalname", None) or item.name
        cases.setdefault((item.path, item.parent.name, name), []).append(item)
    for alike in cases.values():
        step = (len(alike) - 1) / (MOST_CASES - 1)
        kept = {round(step * i) for i in range(MOST_CASES)}
        for i in set(range(len(alike))) - kept:
            alike[i].add_marker("slow")
    if importlib.util.find_spec("matplotlib") is not None:
        return
    for item in items:
        if any(part in item.path.as_posix() for part in DRAWS):
            item.add_marker(pytest.mark.skip(reason="its examples need matplotlib"))


@pytest.fixture
def split():
    """A calibration split of 600 samples and 12 classes, over-confident."""
    return simulate(600, 12)


@pytest.fixture(
    params=real.there(
        "cifar100__ce-resnet20", "cifar10__akamaster-resnet56", "banking77__tfidf-mlp-seed0"
    )
)
def real_cell(request):
    """Real logits of a real model: a dict with val_logits, val_labels, test_logits, test_labels."""
    return real.cell(request.param)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Stand in an empty folder, before a terminal of 80 columns; tests may put files there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.fixture
def cli(here, capsys):
    """Run a command; give its code, stdout and stderr."""

    def call(*args):
        capsys.readouterr()
        code = run(args)
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    return call
