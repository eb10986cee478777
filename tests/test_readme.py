"""The README's promises: each sentence stands there still, and a test holds it."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import smallcal as sc
from smallcal.calibrators.catalogue import ALIASES, METHODS
from smallcal.cli.app import Verbs

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs" / "start" / "five-minutes.md").read_text(encoding="utf-8")


def one_line(text):
    return " ".join(text.split())


#: What the README promises, word for word, and the test that fails when it is not so. Who changes a
#: sentence looks at its test again; statements about intervals are held in tests/statistics.
PROMISES = [
    ("the predicted class never changes (unless you say that it may)",
     "calibrators/test_contract.py::test_probabilities_are_finite_sum_to_one_and_keep_their_promise_on_the_argmax"),
    ("the predicted class never changes (unless you say that it may)",
     "calibrators/test_srts.py::test_the_argmax_never_changes_even_a_hair_from_a_tie"),
    ("is a small JSON file that runs anywhere NumPy does",
     "calibrators/test_artefact.py::test_the_runtime_needs_numpy_only_and_gives_the_same_numbers"),
    ("SRTS-BCE: ten parameters, three temperatures",
     "calibrators/test_srts.py::test_deployed_srts_has_ten_parameters_and_equal_groups"),
    ("every post-hoc method its paper compares it with",
     "test_readme.py::test_every_post_hoc_method_of_the_papers_tables_is_there"),
    ("some sixty methods under one protocol, by name",
     "test_readme.py::test_there_are_some_sixty_methods"),
    ("Each needs Python 3.10 or newer and make",
     "test_readme.py::test_python_and_the_extras_are_those_of_the_package"),
    ("`pip install '.[formats]'` to",
     "test_readme.py::test_python_and_the_extras_are_those_of_the_package"),
    ("read `.parquet`, `.h5`, `.safetensors` and `.pt` too",
     "io/test_read.py::test_every_type_that_is_read_can_be_written"),
    ("# rows sum to 1, same argmax", "test_public.py::test_the_readme_examples_run"),
    ("versioned JSON; sc.load reads it back",
     "calibrators/test_contract.py::test_saving_and_loading_changes_nothing"),
    ("or one line of shell", "test_readme.py::test_the_line_of_shell_runs"),
    ("a small network's logits for 345 kinds of drawing) and measures on 3,000 others",
     "test_readme.py::test_the_demo_is_as_large_as_it_is_said_to_be"),
    ("Mean ± standard deviation over five draws, printed by `smallcal demo`",
     "test_public.py::test_the_table_in_the_readme_is_what_the_demo_prints"),
    ("the fit says so by itself",
     "calibrators/test_two_views.py::test_free_predictions_are_right_more_often_as_the_warning_says"),
    ("`smallcal fit` says both the first and how many predictions change",
     "test_readme.py::test_fit_says_the_accuracies_of_the_readme"),
    ("from [no-harm.md](docs/explanation/no-harm.md), made by `make study-no-harm`",
     "test_readme.py::test_the_table_of_models_is_that_of_the_study"),
    ("It changes as much as the samples support, and says when it holds back",
     "cli/test_notes.py::test_a_model_that_was_left_alone_is_a_note"),
    ("`keep_predictions=False`, or `smallcal fit --may-change-predictions`",
     "calibrators/test_two_views.py::test_one_view_keeps_every_prediction_and_the_other_becomes_it_when_told_to"),
    ("`smallcal select` compares the default with others on samples held out",
     "advice/test_select.py::test_the_default_is_where_it_starts_and_stays"),
    ("`smallcal plan` says what more samples would give",
     "advice/test_plan.py::test_a_plan_names_the_true_method_and_all_sizes"),
    ("`smallcal audit` how far a fit is to be trusted",
     "advice/test_audit.py::test_every_method_can_be_audited"),
    ("an `unidentified` group means",
     "calibrators/test_srts.py::test_an_error_free_group_is_flagged_and_finite"),
    ("`smallcal compare val.npz test.npz --methods all` puts them side by side",
     "cli/test_verbs.py::test_compare_knows_every_method"),
    ("From which confidence on may it answer alone?",
     "advice/test_certify_walk.py::test_the_promise_holds_in_simulation"),
    ("and so do every export, and smallcal apply --with-decision",
     "deploy/export/test_decisions.py::test_the_program_decides_as_the_calibrator"),
    ("one page: verdict, intervals, figures, what to use and why",
     "cli/test_report.py::test_the_page_is_one_file"),
    ("smallcal export cal.json --append model.onnx -o calibrated.onnx",
     "cli/test_export.py::test_onnx_alone_and_behind_a_model"),
    ("or cal.py (standard library only), cal.sql",
     "deploy/export/test_python.py::test_the_file_runs_alone"),
    ("or cal.py (standard library only), cal.sql",
     "deploy/export/test_agreement.py::test_every_place_gives_the_same_probabilities"),
    ("# any size, resumable",
     "deploy/test_apply_in_parts.py::test_a_stopped_run_goes_on_and_does_nothing_twice"),
    ("# any size, resumable",
     "deploy/test_apply_in_parts.py::test_data_that_do_not_fit_in_memory"),
    ("drift, with false alarms held; exit code 1",
     "deploy/test_monitor.py::test_false_alarms_stay_below_alpha_at_every_look_together"),
    ("drift, with false alarms held; exit code 1",
     "cli/test_monitor.py::test_drift_and_wrong_confidence_are_code_1"),
    ("`cal.to_torch()` is an `nn.Module`",
     "deploy/adapters/test_torch.py::test_every_method_gives_what_numpy_gives"),
    ("`sc.calibrate(model, loader)` calibrates a torch or Hugging Face model",
     "deploy/adapters/test_torch.py::test_a_calibrated_model_gives_what_its_parts_give"),
    ("`sc.CalibratedModel(estimator)` a scikit-learn one",
     "deploy/adapters/test_sklearn.py::test_cross_validation_is_what_one_would_do_by_hand"),
    ("Recipes: [Hugging Face]", "deploy/adapters/test_torch.py::test_the_pages_run"),
    ("`smallcal evaluate` prints the floor that a perfectly calibrated model would show",
     "cli/test_verbs.py::test_evaluate_prints_intervals_and_floors"),
    ("A split without errors does not tell how much confidence is too much: the default then "
     "leaves the model alone",
     "calibrators/test_default_edges.py::test_a_split_without_errors_leaves_the_model_alone"),
    ("Other methods fit with a warning and a flag",
     "calibrators/test_contract.py::test_a_split_that_tells_little_still_gives_a_usable_calibrator"),
    ("[Guide](docs/start/five-minutes.md)", "test_readme.py::test_what_is_linked_is_there"),
    ("`make bench` measures speed as ratios",
     "test_readme.py::test_commands_that_are_named_are_there"),
]  # fmt: skip

#: The same of the guide's opening.
GUIDE_PROMISES = [
    ("The predicted class never changes; only the confidence does",
     "calibrators/test_contract.py::test_probabilities_are_finite_sum_to_one_and_keep_their_promise_on_the_argmax"),
    ("Every example on this page runs as a test",
     "test_public.py::test_the_examples_in_the_docs_run"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("page", "promises"), [(README, PROMISES), (GUIDE, GUIDE_PROMISES)], ids=["readme", "guide"]
)
def test_every_promise_stands_there_and_has_a_test(page, promises):
    page, gone, untested = one_line(page), [], []
    for words, test in promises:
        if one_line(words) not in page:
            gone.append(words)
        file, _, name = test.partition("::")
        tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
        if name not in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}:
            untested.append(test)
    assert (gone, untested) == ([], []), "look at the promise and its test again"


def test_there_are_some_sixty_methods():
    own = [name for name in METHODS if ":" not in name]
    assert 55 <= len(own) <= len(METHODS) <= 75


#: The rows of the paper's tables, as they are called there.
IN_THE_PAPER = {
    "NoTS": "none",
    "TS-NLL": "ts-nll",
    "TvA-TS": "tva-ts",
    "TvA-Brier": "ts-brier",
    "SRTS-BCE": "srts-bce",
    "SRTS-NLL": "srts-nll",
    "SRTS-Brier": "srts-brier",
    "SRTS-SoftECE": "srts-softece",
    "SRTS-Mixed": "srts-mixed",
    "SRTS, features": "features-k3",
    "SRTS, temphead": "temphead-k3",
    "Margin-K3": "margin-k3",
    "Confidence-only": "confidence-k3",
    "Prob-margin-only": "probmargin-k3",
    "Confidence + logit-margin": "confmargin-k3",
    "Random": "random-k3",
    "Shuffled": "shuffled-k3",
    "True-label risk": "oracle-risk",
    "Correctness oracle": "oracle-correctness",
    "Signed residual": "signed-residual-k3",
    "Absolute residual": "abs-residual-k3",
    "LinearRiskTemp": "linear-risk",
    "PWLinear-3": "pwlinear-3",
    "SplineRiskTemp": "spline-risk",
    "HTS-NLL": "hts-nll",
    "HTS-BCE": "hts-bce",
    "QaTS-NLL": "qats-nll",
    "QaTS-BCE": "qats-bce",
    "SMART+BCE": "smart-bce",
    "SMART": "smart-softece",
    "LTS-scalar": "lts-scalar",
    "LTS-feature": "lts-feature",
    "SATS-Logit": "sats-logit-nll",
    "Feature-SATS": "sats-features-nll",
    "SATS-Logit-BCE": "sats-logit-bce",
    "Feature-SATS-BCE": "sats-features-bce",
    "Frozen-feature UTempH": "utemphead",
    "Vector Scaling": "vector-scaling",
    "Dirichlet (ODIR)": "dirichlet-odir",
}


def test_every_post_hoc_method_of_the_papers_tables_is_there():
    rows = {name: METHODS[ALIASES.get(name, name)] for name in IN_THE_PAPER.values()}
    assert all(row.paper for row in rows.values())
    # And what the table calls the paper's is in it, or cited there.
    said = {name for name, row in METHODS.items() if row.paper not in ("", "Related work")}
    assert said == {ALIASES.get(name, name) for name in rows}


def test_python_and_the_extras_are_those_of_the_package():
    tomllib = pytest.importorskip("tomllib", reason="came with Python 3.11")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == ">=3.10"
    named = set(re.findall(r"'\.\[(\w+)\]'", README))
    assert {"formats", "plots"} <= named <= set(project["optional-dependencies"])
    core = {re.match(r"[\w-]+", entry)[0].lower() for entry in project["dependencies"]}
    assert not core & {"torch", "matplotlib", "pandas", "pyarrow", "onnx", "h5py"}


def test_the_demo_is_as_large_as_it_is_said_to_be():
    cal, test = sc.load_demo("cal"), sc.load_demo("test")
    assert (cal.logits.shape, test.logits.shape) == ((1250, 345), (3000, 345))


def shell(*args, cwd):
    environment = {**os.environ, "COLUMNS": "80"}
    command = [sys.executable, "-m", "smallcal", *args]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=True, env=environment
    )


def test_the_line_of_shell_runs(tmp_path):
    (line,) = [line for line in README.splitlines() if line.startswith("smallcal fit cal.npz")]
    shell("demo", "--export", ".", cwd=tmp_path)
    np.save(tmp_path / "new.npy", sc.load_demo("test").logits)
    for command in line.split("&&"):
        shell(*command.split()[1:], cwd=tmp_path)
    assert np.load(tmp_path / "probabilities.npy").shape == (3000, 345)


def test_fit_says_the_accuracies_of_the_readme(tmp_path):
    shell("demo", "--export", ".", cwd=tmp_path)
    done = shell("fit", "cal.npz", "-o", "cal.json", cwd=tmp_path)
    said = one_line(done.stdout + done.stderr)
    before, after = re.search(r"accuracy ([\d.]+) to ([\d.]+) % there", one_line(README)).groups()
    assert before in said
    assert after in said
    free = sc.Calibrator(keep_predictions=False)
    val, test = sc.load_demo("cal"), sc.load_demo("test")
    right = (free.fit(val.logits, val.labels).predict(test.logits) == test.labels).mean()
    assert f"to {100 * right:.1f} % on the test samples" in one_line(README)


def test_the_demo_fits_80_columns(tmp_path):
    done = shell("demo", "--draws", "2", "--report", "none", cwd=tmp_path)
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert sum("adaptive-free  " in line for line in lines) == 3  # no name is broken in two


def test_the_table_of_models_is_that_of_the_study():
    """Each number of the README's second table stands on the page of its study."""
    page = (ROOT / "docs" / "explanation" / "no-harm.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w:-]+)` \|(.*)\|$", README, flags=re.MULTILINE)
    assert len(rows) == 8
    for name, cells in rows:
        lines = [line for line in page.splitlines() if f"`{name}`" in line or f"| {name} " in line]
        found = set(re.findall(r"\d+\.\d+", " ".join(lines)))
        assert set(re.findall(r"\d+\.\d+", cells)) <= found, name


def test_commands_that_are_named_are_there():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"\bmake ([a-z][a-z-]+)\b", re.sub(r"```sh", "", README)))
    assert {"demo", "test", "bench", "study-no-harm"} <= targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
    prose = README.replace("smallcal calibrates", "")
    verbs = set(re.findall(r"(?:`|^|&& )smallcal ([a-z]+)", prose, flags=re.MULTILINE))
    assert {"fit", "apply", "monitor", "report"} <= verbs <= set(Verbs.verbs)


def test_what_is_linked_is_there():
    links = re.findall(r"\]\(([^)#]+)[^)]*\)|<img src=\"([^\"]+)\"", README)
    local = [one or other for one, other in links if "://" not in (one or other)]
    assert len(local) > 25
    assert [link for link in local if not (ROOT / link).exists()] == []


def test_json_of_the_demo_names_what_the_readme_recommends(tmp_path):
    found = json.loads(shell("demo", "--draws", "1", "--json", cwd=tmp_path).stdout)
    assert f"The default (`{found['recommended']}`)" in README
