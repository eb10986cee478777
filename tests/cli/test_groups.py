"""Groups from the shell: named, asked for, measured by, and said where they are not known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import smallcal as sc
from smallcal.io import read
from support.simulated import simulate


def split(n, seed):
    """Logits, labels and groups: the model is much too sure in one of three."""
    z = simulate(n, 5, seed=seed)[0]
    groups = np.array(["north", "south", "west"])[np.arange(n) % 3]
    sharp = np.where(groups == "north", 0.2, 1.0)[:, None] * z
    y = (sharp + np.random.default_rng(seed).gumbel(size=z.shape)).argmax(axis=1)
    return z, y, groups


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Stand in a folder with data of both kinds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    arrays = {}
    for name, n, seed in (("val", 600, 0), ("test", 900, 1)):
        z, y, groups = split(n, seed)
        arrays |= {f"{name}_logits": z, f"{name}_labels": y, f"{name}_groups": groups}
        header = ",".join([*(f"logit_{c}" for c in range(5)), "label", "site"])
        rows = [
            ",".join([*map(repr, row.tolist()), str(label), group])
            for row, label, group in zip(z, y, groups, strict=True)
        ]
        (tmp_path / f"{name}.csv").write_text("\n".join([header, *rows]) + "\n")
    np.savez("both.npz", **arrays)
    z, y, groups = split(600, 0)
    sc.TemperatureScaling().fit(z, y, groups=groups).save("cal.json")
    sc.TemperatureScaling().fit(z, y).save("plain.json")
    return tmp_path


@pytest.mark.usefixtures("here")
class TestGroups:
    def test_fit_takes_them_where_it_is_asked_to(self, cli):
        code, out, err = cli("fit", "both.npz:val", "--group", "groups", "-o", "new.json")
        assert (code, err) == (0, "")
        assert "an effect of the group" in " ".join(out.split())
        assert "3 of them group effects with a prior" in " ".join(out.split())
        assert sc.load("new.json").fitted_.groups.names == ("north", "south", "west")
        code, _, err = cli("fit", "both.npz:val", "-o", "new.json")
        assert code == 0
        assert "names 3 groups; use --group to fit an effect for each" in err
        assert sc.load("new.json").fitted_.groups is None
        code, out, _ = cli("inspect", "cal.json", "--json")
        effects = json.loads(out)["group_effects"]
        assert effects["sigma"] > 0
        assert [row["group"] for row in effects["groups"]] == ["north", "south", "west"]

    def test_fit_on_a_column_by_its_name(self, cli):
        code, out, err = cli("fit", "val.csv", "--group", "site", "--json")
        assert (code, err) == (0, "")
        assert len(json.loads(out)["group_effects"]["groups"]) == 3
        code, _, err = cli("fit", "val.csv", "--group", "city")
        assert code == 2
        assert "--group: val.csv has no column 'city'" in err
        code, _, err = cli("fit", "val.csv", "--group", "label")
        assert code == 2
        assert "is a class or the label" in err

    def test_apply_takes_them_by_name_and_asks_where_there_are_none(self, cli):
        assert cli("apply", "cal.json", "both.npz:test", "-o", "out.npz")[0] == 0
        with np.load("both.npz") as file:
            z, groups = file["test_logits"], file["test_groups"]
        expected = sc.load("cal.json").predict_proba(z, groups=groups)
        with np.load("out.npz") as file:
            np.testing.assert_array_equal(file["probabilities"], expected)
            assert (file["groups"] == groups).all()
        assert cli("apply", "cal.json", "test.csv", "--group", "site", "-o", "out.csv")[0] == 0
        np.testing.assert_allclose(read("out.csv").logits, expected, atol=1e-6)
        np.save("bare.npy", z)
        for data in ("test.csv", "bare.npy"):
            code, _, err = cli("apply", "cal.json", data, "-o", "none.npz")
            assert code == 2
            assert "fitted with groups; name the column or array" in " ".join(err.split())
        # A calibrator without groups does not look at them.
        assert cli("apply", "plain.json", "both.npz:test", "-o", "out.npz")[0] == 0

    def test_rows_of_unknown_groups_are_said(self, cli):
        z, y, groups = split(90, 2)
        groups[:30] = "east"
        np.savez("new.npz", logits=z, labels=y, groups=groups)
        code, _, err = cli("apply", "cal.json", "new.npz", "-o", "out.npz")
        assert code == 0
        assert "the groups of 30 of 90 rows were not seen in the fit" in " ".join(err.split())

    def test_apply_to_parquet_reads_all_at_once(self, cli):
        pa = pytest.importorskip("pyarrow")
        pq = pytest.importorskip("pyarrow.parquet")
        z, _, groups = split(90, 2)
        columns = {f"logit_{c}": z[:, c] for c in range(5)} | {"group": groups}
        pq.write_table(pa.table(columns), "new.parquet")
        assert cli("apply", "cal.json", "new.parquet", "-o", "out.parquet")[0] == 0
        expected = sc.load("cal.json").predict_proba(z, groups=groups)
        np.testing.assert_allclose(read("out.parquet").logits, expected, atol=1e-12)

    def test_evaluate_by_group_before_and_after(self, cli):
        args = ("evaluate", "both.npz:test", "--metrics", "nll", "--n-boot", "0")
        code, out, err = cli(*args, "--calibrator", "cal.json", "--by", "groups")
        assert (code, err) == (0, "")
        assert "north" in out
        assert "raw gap" in out
        code, out, _ = cli(*args, "--calibrator", "cal.json", "--by", "groups", "--json")
        found = {row["group"]: row for row in json.loads(out)["groups"]}
        assert found["north"]["raw_off"]
        assert not found["north"]["off"]
        assert sum(row["n"] for row in found.values()) == 900
        code, out, _ = cli(*args, "--by", "groups")
        assert "raw gap" not in out

    def test_evaluate_by_other_groups_than_the_calibrators(self, cli):
        z, y, groups = split(90, 2)
        np.savez("new.npz", logits=z, labels=y, groups=groups, day=np.arange(90) // 45)
        args = ("evaluate", "new.npz", "--metrics", "nll", "--n-boot", "0", "--json")
        code, out, _ = cli(*args, "--calibrator", "cal.json", "--group", "groups", "--by", "day")
        assert code == 0
        assert {row["group"] for row in json.loads(out)["groups"]} == {"0", "1"}

    def test_compare_keeps_the_raw_model_raw(self, cli):
        args = ("compare", "both.npz", "--methods", "none,ts-nll", "--n-boot", "0", "--json")
        without, out = json.loads(cli(*args)[1]), cli(*args, "--group", "groups")
        assert out[0] == 0
        found = json.loads(out[1])
        assert found["values"]["none"] == without["values"]["none"]
        assert found["values"]["ts-nll"]["nll"] < without["values"]["ts-nll"]["nll"]

    def test_select_says_that_it_leaves_them_out(self, cli):
        args = ("select", "both.npz:val", "--candidates", "none,ts-nll", "--repeats", "1")
        code, _, err = cli(*args, "--group", "groups")
        assert code == 0, err
        assert "select fits no effects of groups; fit --group does" in err

    def test_report_has_a_table_of_them(self, cli):
        pytest.importorskip("matplotlib")
        args = ("report", "both.npz", "--methods", "none,ts-nll", "--n-boot", "100")
        code, out, _ = cli(*args, "--group", "groups", "--json")
        assert code == 0
        content = json.loads(out)
        (table,) = [one for one in content["groups"]["tables"] if one["by"] == "named group"]
        rows = {row["group"]: row for row in table["rows"]}
        assert rows["north"]["raw_off"]
        assert not rows["north"]["off"]
        artefacts = {one["method"]: one["document"] for one in content["artefacts"]}
        assert artefacts["ts-nll"]["groups"]["sigma"] > 0
        assert "groups" not in artefacts["none"]
        code, out, _ = cli(*args, "-o", "report.md", "--group", "groups")
        assert code == 0
        text = Path("report.md").read_text()
        assert "Raw off" in text
        assert "--group groups" in text

    def test_audit_shows_them_out_of_fold(self, cli):
        args = ("audit", "both.npz:val", "--method", "ts-nll", "--n-refits", "5", "--n-null", "0")
        code, out, _ = cli(*args, "--group", "groups")
        assert code == 0
        assert "of 3 groups before, in 0 after" in " ".join(out.split())
        code, out, _ = cli(*args, "--group", "groups", "--json")
        rows = {row["group"]: row for row in json.loads(out)["groups"]}
        assert rows["north"]["effect"] < 0
        assert json.loads(cli(*args, "--json")[1])["groups"] == []
        args = ("audit", "both.npz:test", "--calibrator", "cal.json", "--n-refits", "5")
        code, out, _ = cli(*args, "--n-null", "0", "--json")
        assert code == 0
        assert len(json.loads(out)["groups"]) == 3

    def test_monitor_takes_them(self, cli):
        code, out, err = cli("monitor", "cal.json", "both.npz:test", "--json")
        assert (code, err) == (0, "")
        assert json.loads(out)["labelled"] == 900
        code, _, err = cli("monitor", "cal.json", "test.csv")
        assert code == 2
        assert "--group" in err
        assert cli("monitor", "cal.json", "test.csv", "--group", "site")[0] == 0

    @pytest.mark.parametrize("groups", [np.zeros(600), np.arange(600)])
    def test_one_group_and_a_group_per_row(self, cli, groups):
        z, y, _ = split(600, 0)
        np.savez("new.npz", logits=z, labels=y, groups=groups)
        code, out, _ = cli("fit", "new.npz", "--group", "groups", "--method", "ts-nll")
        assert code == 0
        assert "Traceback" not in out

    def test_groups_of_another_length_are_one_line(self, cli):
        z, y, _ = split(600, 0)
        np.savez("new.npz", logits=z, labels=y, groups=np.arange(5))
        code, out, err = cli("fit", "new.npz", "--group", "groups", "-o", "none.json")
        assert (code, out) == (2, "")
        assert "600 rows, 5 groups" in err
        code, _, err = cli("fit", "new.npz")
        assert code == 0
        assert "left out groups" in err
