"""What notebooks show of results: strict HTML, nothing that acts, the same results as before."""

from __future__ import annotations

import copy
import importlib
import json
import pickle
import re
import subprocess
import sys
import time
import warnings
from dataclasses import replace

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

import smallcal as sc
from smallcal.advice.certify_words import Certificate, Certification, Certified
from smallcal.calibrators.group_effects import GroupEffects
from smallcal.calibrators.method import Method
from smallcal.calibrators.summary import accuracy_line
from smallcal.data.in_notebook import html_of
from smallcal.data.shown import visible
from smallcal.metrics import METRICS, Scored
from smallcal.reports.notebook import VIEWS
from smallcal.reports.notebook.markup import (
    MOST_LETTERS,
    MOST_ROWS,
    Safe,
    findings,
    named,
    safe,
    shortened,
    table,
)
from smallcal.reports.render.theme import DARK, LIGHT, contrast
from support.nasty_names import NASTY, RAW
from support.notebook_results import NAMES, ODD, nasty_results

html5lib = pytest.importorskip("html5lib")

DRAWN = importlib.util.find_spec("matplotlib") is not None
needs_matplotlib = pytest.mark.skipif(not DRAWN, reason="pictures need matplotlib")

#: All that are built, and how many pictures each has.
PICTURES = {
    "not fitted": 0,
    "identity": 1,
    "temperature": 1,
    "srts": 2,
    "few samples": 2,
    "default": 1,
    "kept": 1,
    "groups": 1,
    "score": 2,
    "model": 1,
    "evaluate": 1,
    "evaluate score": 1,
    "evaluate ci": 1,
    "evaluate by": 0,
    "compare": 1,
    "compare points": 0,
    "plan": 1,
    "plan default": 1,
    "audit": 1,
    "audit default": 1,
    "select": 1,
    "certify": 1,
    "certify class": 1,
    "certify group": 1,
    "fitted": 2,
    "monitor": 1,
    "monitor empty": 0,
    "drifted": 1,
    "report": 1,
}
every = pytest.mark.parametrize("name", PICTURES)

#: Attributes that the markup may have; none runs anything, and none is a link.
ATTRIBUTES = {
    *("class", "title", "scope", "role", "aria-label", "style", "id", "width", "viewBox"),
    *("d", "x", "y", "transform", "clip-path", "height", "points", "href"),
}
TAGS = {
    *("div", "style", "p", "b", "code", "span", "bdi", "small", "ul", "li", "details", "summary"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td"),
    *("svg", "g", "path", "defs", "use", "text", "title", "clipPath", "rect", "tspan"),
}


@pytest.fixture(scope="module")
def results():
    return nasty_results()


@pytest.fixture(scope="module")
def shown(results):
    return {name: result._repr_html_() for name, result in results.items()}


def tree_of(markup):
    """Parse as browsers do, and fail where they would have to guess."""
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    return parser.parseFragment(markup)


def elements(markup):
    return [each for each in tree_of(markup).iter() if isinstance(each.tag, str)][1:]


def bare(tag):
    return tag.rpartition("}")[2]


def text_of(markup):
    """What a reader sees: without the style sheet and the texts of figures."""
    without = re.sub(r"<(style|svg)\b.*?</\1>", " ", markup, flags=re.DOTALL)
    return " ".join(" ".join(tree_of(without).itertext()).split())


def test_everything_that_has_a_view_is_tested(results):
    assert list(results) == list(PICTURES)
    kinds = {
        f"{kind.__module__}.{kind.__qualname__}"
        for result in results.values()
        for kind in type(result).__mro__
    }
    assert set(VIEWS) <= kinds


@every
def test_it_parses_strictly(shown, name):
    (root,) = list(tree_of(shown[name]))
    assert root.tag == "div"
    assert root.get("class") == "smallcal-nb"


@every
def test_nothing_in_it_acts_or_asks_a_network(shown, name):
    for each in elements(shown[name]):
        assert bare(each.tag) in TAGS
        assert {bare(key) for key in each.attrib} <= ATTRIBUTES
        for key, value in each.attrib.items():
            if bare(key) == "href":
                assert value.startswith("#smallcal-")
            if bare(key) in ("style", "clip-path"):
                assert re.findall(r"url\((?!#smallcal-)", value) == []
    style = re.search(r"<style>(.*?)</style>", shown[name], re.DOTALL)[1]
    assert not re.search(r"@import|url\(|https?:|expression|<", style)


@every
def test_no_character_turns_the_text_or_the_terminal(shown, name):
    assert RAW.search(shown[name]) is None


@every
def test_classes_and_ids_are_ours(shown, name):
    for each in elements(shown[name]):
        for word in each.get("class", "smallcal-nb").split():
            assert word.startswith("smallcal-nb")
        assert each.get("id", "smallcal-").startswith("smallcal-")
    style = re.search(r"<style>(.*?)</style>", shown[name], re.DOTALL)[1]
    rules = re.findall(r"([^{}]+)\{[^{}]*\}", re.sub(r"@media[^{]*\{", "", style))
    assert len(rules) > 20
    for rule in rules:
        for selector in re.sub(r"\([^()]*\)", "", rule).split(","):
            assert ".smallcal-nb" in selector


@every
@needs_matplotlib
def test_there_are_pictures_with_words(shown, name):
    pictures = [each for each in elements(shown[name]) if bare(each.tag) == "svg"]
    assert len(pictures) == PICTURES[name]
    for each in pictures:
        assert each.get("role") == "img"
        assert len(each.get("aria-label")) > 20
        colours = re.findall(r"(?:fill|stroke): ?(#\w+)", html5lib.serialize(each))
        assert colours == []  # all are variables


@every
def test_results_go_through_pickle_and_copy_and_look_the_same(results, shown, name):
    result = results[name]
    for other in (pickle.loads(pickle.dumps(result)), copy.copy(result), copy.deepcopy(result)):
        assert type(other) is type(result)
        assert other._repr_html_() == shown[name]
        assert repr(other) == repr(result) or " at 0x" in repr(result)


@every
def test_it_is_quick_and_fits_nothing(results, name, monkeypatch):
    def no_fit(*args, **kwargs):
        raise AssertionError("fitted again")

    results[name]._repr_html_()  # loads what it needs
    monkeypatch.setattr(Method, "fit", no_fit)
    assert least_time(results[name]) < 0.3


def least_time(result):
    """Return the seconds that it takes a processor, undisturbed."""
    times = []
    for _ in range(5):
        begun = time.process_time()
        result._repr_html_()
        times.append(time.process_time() - begun)
    return min(times)


def without_matplotlib(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@every
def test_without_matplotlib_there_are_the_tables_alone(results, shown, name, monkeypatch):
    without_matplotlib(monkeypatch)
    markup = results[name]._repr_html_()
    assert "<svg" not in markup
    assert text_of(markup) == text_of(shown[name])
    tree_of(markup)


@needs_matplotlib
def test_where_drawing_fails_there_are_the_tables_alone(results, shown, monkeypatch):
    from smallcal.plots import style

    def broken(*args, **kwargs):
        raise RuntimeError("no fonts here")

    monkeypatch.setattr(style, "to_svg", broken)
    for name, result in results.items():
        markup = result._repr_html_()
        assert "<svg" not in markup
        assert text_of(markup) == text_of(shown[name])


@needs_matplotlib
def test_a_letter_without_a_shape_is_no_warning():
    table = {"😀 猫": np.eye(2)[[0, 1] * 20] * 0.8 + 0.1, "b": np.full((40, 2), 0.5)}
    found = sc.compare([0, 1] * 10 + [1, 0] * 10, table, baseline="b", metrics=["nll"], n_boot=50)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "<svg" in found._repr_html_()


@needs_matplotlib
def test_a_users_settings_do_not_change_pictures(results, shown):
    import matplotlib

    with matplotlib.rc_context({"font.size": 40, "axes.facecolor": "red", "text.usetex": False}):
        assert results["compare"]._repr_html_() == shown["compare"]


def test_ids_differ_between_pictures(shown):
    """Unless they are the same picture: then it does not matter which one is meant."""
    pictures = {}
    for markup in shown.values():
        for svg in re.findall(r"<svg.*?</svg>", markup, re.DOTALL):
            (prefix,) = set(re.findall(r' id="smallcal-(\w+)-', svg))
            pictures.setdefault(prefix, set()).add(re.sub(r'aria-label="[^"]*"', "", svg, count=1))
    assert len(pictures) > 10
    assert {len(each) for each in pictures.values()} == {1}


class TestNames:
    @pytest.mark.parametrize(
        "name", ["srts", "model", "evaluate by", "compare", "select", "audit", "certify class"]
    )
    def test_are_text(self, shown, name):
        seen = text_of(shown[name])
        # In a list of many, the first few are named.
        told = [" ".join(visible(each).split()) for each in NASTY[:3]]
        assert [each for each in told if each not in seen] == []

    def test_of_classes_are_in_the_report(self, shown):
        assert "window.harmed" in text_of(shown["report"])

    def test_that_are_long_are_short_and_can_be_read_whole(self):
        shown = named(ODD[0])
        (element,) = elements(shown)
        assert len(element.text) <= MOST_LETTERS
        assert element.get("title").startswith("longlong")
        assert len(shown) < 2000

    def test_of_any_direction_stay_apart(self):
        assert named("שלום") == '<bdi class="smallcal-nb-name">שלום</bdi>'

    def test_may_be_thousands(self):
        names = [f"<b>{i}</b>" for i in range(5000)]
        markup = table(["name", "n"], [[named(name), "1"] for name in names], more="names")
        assert markup.count("<tr>") == MOST_ROWS + 1
        assert f"And {5000 - MOST_ROWS:,} more names." in markup
        tree_of(markup)

    def test_that_cannot_be_seen_are_spelled_out(self):
        assert ">“ ”<" in named(" ")
        assert ">a\\nb<" in named("a\nb")

    def test_by_the_ten_thousand_take_no_time(self):
        """Of groups and classes there may be any number: only those shown are written."""
        n = 50_000
        names, z, y = tuple(f"<{i}>" for i in range(n)), [[2.0, 0.0]] * 10, [0, 1] * 5
        effects = tuple(np.linspace(-1, 1, n).tolist())
        known = GroupEffects(names, effects, counts=(1,) * n, sigma=1.0)
        fitted = replace(sc.Identity().fit(z, y).fitted_, groups=known)
        row = Certified(threshold=0.5, n=9, accepted=5, errors=1, bound=0.9, coverage=0.5)
        rows = tuple(replace(row, name=name) for name in names)
        found = Certificate(risk=0.9, confidence=0.5, by="group", rows=rows)
        certified = Certification(certificates=(found,), calibrator=fitted)
        for result in (fitted, certified):
            markup = result._repr_html_()
            assert least_time(result) < 0.3
            assert len(markup) < 50_000
            assert f"And {n - MOST_ROWS:,} more groups" in text_of(markup)

    def test_are_never_markup_by_themselves(self):
        assert safe("<b>") == "&lt;b&gt;"
        assert safe(Safe("<b>")) == "<b>"
        assert "<img" not in findings([("care", "<img src=x>")])
        assert shortened("a" * 61) == "a" * 29 + "…" + "a" * 29


class TestEstimators:
    def test_say_method_temperature_samples_classes_and_flags(self):
        cal = sc.load_demo("cal")
        few = (cal.logits[:60], cal.labels[:60])
        with pytest.warns(sc.FitWarning):
            fitted = sc.SRTS().fit(*few)
        seen = text_of(fitted._repr_html_())
        assert "srts-bce" in seen
        assert "60 samples of 345 classes" in seen
        assert f"{fitted.temperatures_[0]:.4f}" in seen
        assert "take care 60 samples for 10 fitted parameters" in seen
        one = sc.TemperatureScaling().fit(cal.logits, cal.labels)
        told = f"divided by the temperature {one.temperature_:.4f}"
        assert told in text_of(one._repr_html_())

    def test_show_the_effects_of_groups(self, results, shown):
        groups = results["groups"].fitted_.groups
        assert groups.sigma > 0
        assert f"{max(groups.effects, key=abs):+.3f}" in text_of(shown["groups"])

    def test_that_may_change_predictions_say_so(self, results, shown):
        line = accuracy_line(results["default"].fitted_)
        assert line.startswith("changes ")
        assert line in text_of(shown["default"])
        kept = "keeps the model's predictions; without keep_predictions it changes"
        assert kept in text_of(shown["kept"])
        assert "multinomial regression on their log-probabilities" in text_of(shown["default"])

    def test_that_are_not_fitted_say_how_to(self, shown):
        assert "not fitted yet" in text_of(shown["not fitted"])
        assert "fit(logits, labels)" in text_of(shown["not fitted"])

    def test_show_promises_that_they_carry(self, results, shown):
        assert results["fitted"].decisions[0].promise in text_of(shown["fitted"])

    def test_give_notebooks_both_forms(self, results, shown):
        bundle = results["srts"]._repr_mimebundle_()
        assert bundle == {"text/plain": repr(results["srts"]), "text/html": shown["srts"]}

    @pytest.mark.parametrize("name", ["srts", "model"])
    def test_obey_sklearns_wish_for_text(self, results, name):
        with sklearn.config_context(display="text"):
            assert not hasattr(results[name], "_repr_html_")
            assert list(results[name]._repr_mimebundle_()) == ["text/plain"]

    def test_inside_sklearns_diagrams_are_as_others(self):
        diagram = make_pipeline(sc.SRTS())._repr_html_()
        assert "SRTS" in diagram
        assert "smallcal-nb" not in diagram

    def test_a_model_before_its_fit_has_sklearns_diagram(self):
        model = sc.CalibratedModel(GaussianNB())
        assert "GaussianNB" in model._repr_html_()
        assert "smallcal-nb" not in model._repr_html_()
        assert "GaussianNB" in model._repr_mimebundle_()["text/html"]

    def test_a_clone_is_not_fitted(self, results):
        assert "not fitted yet" in clone(results["srts"])._repr_html_()

    def test_loaded_ones_look_as_before(self, results, shown, tmp_path):
        path = tmp_path / "cal.json"
        results["temperature"].save(path)
        assert text_of(sc.load(path)._repr_html_()) == text_of(shown["temperature"])


class TestEvaluation:
    @pytest.fixture
    def given(self):
        return [0, 1] * 30, [[0.75, 0.25], [0.5, 0.5]] * 30

    def test_is_the_dictionary_that_it_was(self):
        # Right and wrong, sure and not: no metric is undefined.
        given = [0, 1, 1] * 20, [[0.995, 0.005], [0.4, 0.6], [0.92, 0.08]] * 20
        found = sc.evaluate(*given)
        as_before = {name: METRICS[name].of(Scored.of(*given)) for name in METRICS}
        assert found == as_before
        assert as_before == found
        assert isinstance(found, dict)
        assert repr(found) == repr(as_before)
        assert str(found) == str(as_before)
        assert json.dumps(found) == json.dumps(as_before)
        assert list(found) == list(METRICS)
        assert {**found} == dict(found) == found.copy() == as_before
        assert pickle.loads(pickle.dumps(found)) == as_before

    def test_by_group_is_one_too(self, given):
        found = sc.evaluate(*given, by=["a", "b"] * 30, metrics=["nll"], n_boot=20)
        assert dict(found) == found
        assert type(found["a"]) is dict

    def test_shows_every_metric_with_its_unit(self, given):
        seen = text_of(sc.evaluate(*given)._repr_html_())
        for name, value in sc.evaluate(*given).items():
            assert f"{METRICS[name].title} {METRICS[name].unit.value(value)}" in seen

    def test_shows_intervals_and_floors(self, results, shown):
        row = results["evaluate ci"]["ece15"]
        unit, seen = METRICS["ece15"].unit, text_of(shown["evaluate ci"])
        assert f"ECE {unit.value(row.plain)} {unit.interval(*row)} {unit.value(row.floor)}" in seen
        assert f"Debiased ECE, which its interval is about: {unit.value(row.point)}." in seen

    def test_shows_what_others_put_in(self, given):
        found = sc.evaluate(*given, metrics=["nll"])
        found["<mine>"] = "a & b"
        assert "<mine> a & b" in text_of(found._repr_html_())
        tree_of(found._repr_html_())

    def test_emptied_is_shown(self, given):
        found = sc.evaluate(*given)
        found.clear()
        tree_of(found._repr_html_())

    @needs_matplotlib
    def test_draws_its_bins(self, given):
        markup = sc.evaluate(*given, metrics=["ece15"])._repr_html_()
        assert "30 samples: confidence 75.00 %, accuracy 100.00 %" in markup


class TestComparison:
    def test_shows_values_differences_and_verdicts(self, results, shown):
        found, seen = results["compare"], text_of(shown["compare"])
        unit = METRICS["nll"].unit
        for method, row in found.values.items():
            assert unit.number(row["nll"]) in seen
            if method != found.baseline:
                assert unit.number(found.differences[method]["nll"], signed=True) in seen
        flat = found.intervals[NAMES[1]]["nll"]
        verdict = flat.verdict("lower")
        assert verdict in ("better", "worse")
        told = unit.number(found.differences[NAMES[1]]["nll"], signed=True)
        assert f"{told} {verdict}" in seen
        for method in found.intervals:
            assert shortened(visible(found.verdict(method)), 1000)[:30] in seen

    def test_of_many_metrics_has_a_row_for_each(self, shown):
        seen = [each for each in elements(shown["compare points"]) if each.tag == "tr"]
        assert len(seen) == 1 + len(METRICS)

    def test_of_one_method_is_shown(self):
        found = sc.compare([0, 1] * 20, {"one": [[0.6, 0.4]] * 40}, metrics=["nll"], n_boot=20)
        assert "one" in text_of(found._repr_html_())


class TestAdvice:
    def test_a_plan_has_its_sentences_and_sizes(self, results, shown):
        seen = text_of(shown["plan"])
        for sentence in results["plan"].sentences:
            assert sentence in seen
        for row in results["plan"].rows:
            assert f"{row.size:,} {'measured' if row.measured else 'extrapolated'}" in seen

    def test_an_audit_has_its_verdict_findings_and_groups(self, results, shown):
        found, seen = results["audit"], text_of(shown["audit"])
        assert found.verdict in seen
        for finding in found.findings:
            assert " ".join(visible(finding.text).split())[:40] in seen
        assert f"{found.pooled_temperature.point:.4g}" in seen

    def test_a_selection_has_its_choice_and_why(self, results, shown):
        found, seen = results["select"], text_of(shown["select"])
        assert "chosen" in seen
        assert " ".join(visible(found.reason).split())[1:40] in seen

    def test_a_certificate_has_its_promise_or_why_not(self, results, shown):
        first, second = results["certify"].certificates
        seen = text_of(shown["certify"])
        assert first.found
        assert not second.found
        assert first.promise in seen
        assert second.sentences[0] in seen
        assert results["certify"].together in seen


class TestDeployed:
    def test_a_monitor_says_what_to_do(self, results, shown):
        assert results["drifted"].verdict == "label"
        for sentence in results["drifted"].sentences[1:]:
            assert sentence in text_of(shown["drifted"])

    def test_a_monitor_that_has_seen_nothing_is_shown(self, shown):
        assert "0 rows, 0 with labels" in text_of(shown["monitor empty"])

    def test_a_report_says_where_it_is(self, results, tmp_path):
        pytest.importorskip("jinja2")
        report = copy.deepcopy(results["report"])
        before = repr(report)
        assert report.saved == []
        assert "Not saved yet" in text_of(report._repr_html_())
        report.save(tmp_path / "<i>report.md")
        report.save(tmp_path / "<i>report.json")
        seen = text_of(report._repr_html_())
        assert "Saved as" in seen
        assert "<i>report.json" in seen
        assert "saved" not in before
        assert repr(report) == before

    def test_a_report_has_its_verdict_and_numbers(self, results, shown):
        judged = results["report"].content["verdict"]
        seen = text_of(shown["report"])
        assert judged["headline"] in seen
        for entry in judged["changes"]:
            assert METRICS[entry["metric"]].unit.value(entry["after"]["plain"]) in seen


def test_what_nothing_shows_is_left_to_repr():
    assert html_of(3) is None
    assert html_of({"a": 1}) is None


def test_ipython_takes_the_html_and_keeps_the_text(results, shown):
    formatters = pytest.importorskip("IPython.core.formatters")
    formatter = formatters.DisplayFormatter()
    for name, result in results.items():
        data, _ = formatter.format(result)
        assert data["text/html"] == shown[name]
        assert "text/plain" in data


def test_nothing_is_loaded_before_a_notebook_asks():
    program = (
        "import sys, smallcal as sc\n"
        "val = sc.load_demo('cal')\n"
        "cal = sc.TemperatureScaling().fit(val.logits, val.labels)\n"
        "found = sc.evaluate(val.labels, cal.predict_proba(val.logits), metrics=['nll'])\n"
        "repr(cal), repr(found)\n"
        "loaded = [n for n in sys.modules if n.startswith(('smallcal.reports', 'matplotlib'))]\n"
        "print(loaded)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_with_numpy_alone_there_is_the_text(tmp_path):
    """A calibrator is applied where nothing else is installed: it may be looked at there."""
    cal = sc.load_demo("cal")
    sc.SRTS().fit(cal.logits, cal.labels).save(tmp_path / "cal.json")
    program = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(['scipy', 'sklearn', 'matplotlib', 'jinja2']))\n"
        "from smallcal import runtime\n"
        f"cal = runtime.load({str(tmp_path / 'cal.json')!r})\n"
        "print(cal._repr_html_() is None, repr(cal)[:16])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "True FittedCalibrator", done.stderr


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["ink", "soft", "good", "bad", "warn"])
@pytest.mark.parametrize("paper", ["paper", "notebook"])
def test_words_can_be_read(colours, name, paper):
    """Against our paper, and against that of JupyterLab and VS Code."""
    own = {"light": "#ffffff", "dark": "#1f1f1f"}["light" if colours is LIGHT else "dark"]
    assert contrast(colours[name], colours["paper"] if paper == "paper" else own) >= 4.5
