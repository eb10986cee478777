"""What a user asks of a study in place of its own: metrics, options of methods, settings."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import smallcal as sc
from smallcal_lab.studies import STUDIES, import_folder, load_collection, run, study_named
from smallcal_lab.studies.engine import finished
from smallcal_lab.studies.study import Study, given_text, offered
from support.simulated import simulate


def options_of(study):
    return {entry.label: dict(entry.options) for entry in study.entries}


def test_an_option_goes_to_every_method_that_takes_it():
    study = study_named("routing-signal").with_options(settings={"n_groups": 5})
    found = options_of(study)
    assert found["srts-bce"] == found["margin-k3"] == {"n_groups": 5}
    assert found["tva-ts"] == {}
    assert "tva-ts" not in study.given["n_groups"]["of"]
    assert study.given["n_groups"]["value"] == 5


def test_what_a_study_varies_stays_varied():
    study = study_named("matched-maps").with_options(settings={"scale": "logit"})
    found = options_of(study)
    assert found["pwlinear-3(logit)"] == found["pwlinear-3"] == {"scale": "logit"}
    assert "pwlinear-3(logit)" not in study.given["scale"]["of"]
    with pytest.raises(sc.InputError, match=r"study 'k-ablation' varies n_groups itself"):
        study_named("k-ablation").with_options(settings={"n_groups": 5})


def test_a_setting_of_the_study_wins_over_an_option_of_that_name():
    study = study_named("thresholds").with_options(settings={"thresholds": [0.5, 0.6]})
    assert study.settings["thresholds"] == (0.5, 0.6)
    assert study.given == {"thresholds": {"value": [0.5, 0.6], "of": []}}
    one = study_named("thresholds").with_options(settings={"thresholds": 0.5})
    assert one.settings["thresholds"] == (0.5,)


@pytest.mark.parametrize("name", STUDIES)
def test_every_setting_of_a_study_can_be_set_to_what_it_is(name):
    study = study_named(name)
    own = {key: value for key, value in study.settings.items() if key in offered(study)}
    again = study.with_options(settings=own)
    assert again.settings == study.settings
    assert again.entries == study.entries


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("clean", {"n_grups": 5}, "did you mean 'n_groups'"),
        (
            "clean",
            {"magic": 5},
            "not a setting of study 'clean' or of its methods; choose from C, ",
        ),
        ("clean", {"n_groups": 0}, "n_groups=0 of srts-nll: n_groups must be a whole number"),
        ("requantize", {"control": "x"}, "control is not a setting"),
        ("deployment", {"metrics": ["ece15"]}, "metrics is not a setting"),
        ("deployment", {"coverages": [0.0]}, "coverages must be shares"),
        ("selector", {"folds": 1}, "folds must be a whole number of at least 2"),
        ("selector", {"rules": ["best"]}, "rules must be among repeat, fold, sample; got 'best'"),
        ("selector", {"loss": "luck"}, "loss must be a metric; unknown 'luck'"),
        ("heterogeneity", {"gain_of": "hts"}, "gain_of must be among none, tva-ts, "),
        ("risk-score", {"bins": 1.5}, "bins must be a whole number"),
    ],
)
def test_what_cannot_be_set_is_one_line(name, settings, message):
    with pytest.raises(sc.InputError, match=message) as told:
        study_named(name).with_options(settings=settings)
    assert "\n" not in str(told.value)


def test_metrics_are_replaced_where_a_study_has_some():
    assert study_named("clean").with_options(metrics=("nll",)).metrics == ("nll",)
    study = study_named("deployment").with_options(metrics=("nll", "ece15"))
    assert (study.metrics, study.settings["metrics"]) == ((), ("nll", "ece15"))
    # Its table reads these two, whatever else is asked for.
    found = study_named("signal-to-noise").with_options(metrics=("nll", "ece15")).metrics
    assert found == ("nll", "ece15", "top_label_bce")
    for name in ("thresholds", "efficiency", "risk-score", "risk-flow"):
        with pytest.raises(
            sc.InputError,
            match=f"study '{name}' measures its own quantities: its metrics cannot be replaced",
        ):
            study_named(name).with_options(metrics=("nll",))
    with pytest.raises(sc.InputError, match="did you mean 'ece15'"):
        study_named("clean").with_options(metrics=("ece51",))
    with pytest.raises(sc.InputError, match="accuracy is better when higher: put another first"):
        study_named("oracle-k").with_options(metrics=("accuracy",))
    assert study_named("oracle-k").with_options(metrics=("nll", "accuracy")).metrics[0] == "nll"


def test_what_was_set_is_recorded_and_read_again():
    study = study_named("requantize").with_options(settings={"n_groups": 4, "min_group_size": 10})
    document = json.loads(json.dumps(study.document()))
    assert list(document["set"]) == ["n_groups", "min_group_size"]
    again = Study.from_document(document, known=study_named("requantize"))
    assert (again.given, again.document()) == (study.given, document)
    assert "set" not in study_named("requantize").document()
    assert given_text(study.given).startswith("Set: n_groups=4 (srts-bce, margin-k3, srts-shrunk);")


# The command.


@pytest.fixture
def here(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow", reason="studies keep their rows as Parquet")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    Path("data").mkdir()
    (z, y), (tz, ty) = simulate(200, 5, seed=0), simulate(200, 5, seed=1)
    arrays = {"val_logits": z, "val_labels": y, "test_logits": tz, "test_labels": ty}
    np.savez("data/a__mlp.npz", **arrays)
    import_folder("data", "data")
    return tmp_path


def test_the_command_sets_options_and_metrics(cli, here):
    asked = ("--set", "n_groups=2", "--set", "min_group_size=20", "--metrics", "ece15,auroc")
    command = ("study", "routing-target", "data", "--out", "run", "--n-boot", "20")
    code, out, err = cli(*command, "--methods", "srts-bce", *asked)
    assert (code, err) == (0, "")
    assert "Set: n_groups=2 (srts-bce); min_group_size=20 (srts-bce)." in " ".join(out.split())
    study, outcome = finished(Path("run"))
    assert study.metrics == ("ece15", "auroc")
    assert outcome.frame.unique("metric") == ["ece15", "auroc"]
    arrays = np.load("data/a__mlp.npz")
    fitted = sc.make("srts-bce", n_groups=2, min_group_size=20, random_state=0)
    fitted.fit(arrays["val_logits"].astype(float), arrays["val_labels"])
    proba = fitted.predict_proba(arrays["test_logits"].astype(float))
    expected = sc.evaluate(arrays["test_labels"], proba, metrics=["ece15"])["ece15"]
    found = outcome.frame.where(label="srts-bce", metric="ece15")["value"].tolist()
    assert found == pytest.approx([expected])
    assert json.loads(Path("run/manifest.json").read_text())["study"]["set"]["n_groups"] == {
        "value": 2,
        "of": ["srts-bce"],
    }
    assert "Set: " in Path("run/tables.md").read_text()
    assert Path("run/tables.tex").read_text().startswith("% Set: n_groups=2 (srts-bce);")
    assert json.loads(Path("run/tables.json").read_text())["set"]["n_groups"]["value"] == 2
    shown = json.loads(cli("study", "show", "run", "--json")[1])
    assert shown["set"]["min_group_size"]["value"] == 20
    # Another value is another run.
    code, _, err = cli(*command, "--methods", "srts-bce", "--set", "n_groups=3")
    assert code == 2
    assert "run holds another run" in err


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (["--set", "n_groups"], "--set needs name=value; got 'n_groups'"),
        (["--set", "n_groups=many"], "--set n_groups must be a whole number; got 'many'"),
        (["--set", "seed=1"], "a study seeds its folds by the seed of each cell"),
        (["--set", "magic=1"], "magic is not a setting of study 'clean' or of its methods"),
        (["--metrics", "luck"], "unknown metric 'luck'"),
        (["--metrics", ","], "--metrics names none"),
    ],
)
def test_what_cannot_be_asked_is_one_line_and_nothing_is_run(cli, here, asked, message):
    code, out, err = cli("study", "clean", "data", "--out", "run", *asked)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert not Path("run").exists()


def test_the_command_says_how_to_choose_what_a_study_varies(cli, here):
    code, _, err = cli("study", "k-ablation", "data", "--out", "run", "--set", "n_groups=5")
    assert code == 2
    assert "choose among them with --methods" in err


def test_settings_of_a_study_are_read_as_their_type(cli, here):
    asked = ("--set", "thresholds=0.5,0.75", "--methods", "ts-nll")
    assert cli("study", "thresholds", "data", "--out", "run", *asked)[0] == 0
    frame = finished(Path("run"))[1].frame
    assert {"coverage_at50", "coverage_at75"} <= set(frame.unique("metric"))
    again = study_named("thresholds").with_options(
        methods=("ts-nll",), settings={"thresholds": (0.5, 0.75)}
    )
    assert run(again, load_collection("data"), "run").frame.unique("metric") == frame.unique(
        "metric"
    )
