"""Logs of evaluations: lm-evaluation-harness, fields by path, top-k tokens, judgements of two."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

from smallcal.errors import FileError, SmallcalError
from smallcal.io import read
from support.eval_logs import chat_response, harness_sample, harness_samples, judged, write
from support.refused import refused

OPTIONS = [-1.5, -0.25, -4.0, -2.0]


@pytest.mark.parametrize("old", [False, True], ids=["text", "numbers"])
@pytest.mark.parametrize("target", [2, "C"], ids=["number", "letter"])
def test_samples_of_the_harness(old, target, tmp_path):
    file = write(
        tmp_path / "samples_arc_2026.jsonl",
        [harness_sample(i, OPTIONS, target, old=old) for i in range(3)],
    )
    loaded = read(file)
    np.testing.assert_array_equal(loaded.logits, [OPTIONS] * 3)
    assert loaded.labels.tolist() == [2, 2, 2]
    assert loaded.class_names == ("A", "B", "C", "D")
    assert (loaded.input, loaded.groups) == ("logits", None)
    assert read(file, group="doc.subject").groups.tolist() == ["law", "chess", "law"]


def test_a_target_may_be_the_text_of_an_option(tmp_path):
    texts = [" Paris", " Rome", " Oslo"]
    file = write(
        tmp_path / "a.jsonl", [harness_sample(0, OPTIONS[:3], "Rome", texts=texts, acc=1.0)]
    )
    assert read(file).labels.tolist() == [1]


def test_numbers_as_texts_are_told_by_what_the_harness_found_right(tmp_path):
    """Options 3, 1, 2; the target "1" is the second text, or the second number."""
    texts = [" 3", " 0", " 1"]
    found = []
    for acc, best in ((1.0, 1), (1.0, 2), (0.0, 1), (0.0, 0)):
        z = np.zeros(3)
        z[best] = 2.0
        file = write(tmp_path / "a.jsonl", [harness_sample(0, z, 1, texts=texts) | {"acc": acc}])
        found.append(int(read(file).labels[0]))
    # Right at option 1; right at option 2; wrong at 1, so 2; wrong at 0, as a number.
    assert found == [1, 2, 2, 1]


def test_fewer_options_are_masked_and_said(tmp_path):
    file = write(tmp_path / "a.jsonl", harness_samples(6, widths=(4, 2)))
    loaded = read(file)
    assert np.isneginf(loaded.logits[1::2, 2:]).all()
    assert np.isfinite(loaded.logits[::2]).all()
    assert loaded.class_names is None
    assert "3 of 6 samples have fewer than 4 options" in loaded.notes[0]


def test_each_document_counts_once(tmp_path):
    """The harness writes a document again for each filter, and options again without context."""
    one = harness_samples(4)
    two = [{**sample, "filter": "other"} for sample in one]
    loaded = read(write(tmp_path / "a.jsonl", one + two))
    assert len(loaded.logits) == 4
    assert "those of filter 'none'" in loaded.notes[0]
    both = harness_sample(0, [*OPTIONS, -1, -1, -1, -1], 0) | {"acc_mutual_info": 1.0}
    assert read(write(tmp_path / "b.jsonl", [both])).logits.tolist() == [OPTIONS]


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (
            harness_sample(0, OPTIONS, "no such"),
            "sample 1: the target 'no such' is not one of its 4",
        ),
        (harness_sample(0, OPTIONS, [0, 2]), "several right answers"),
        (harness_sample(0, OPTIONS[:1], 0), "sample 1 has 1 options; it needs at least two"),
        (harness_sample(0, [0.0, -np.inf], 0), "sample 1 has an option with the value -inf"),
        (
            {"doc_id": 0, "target": "4", "resps": [["so 4"]], "filtered_resps": ["4"]},
            "no log-likelihoods of options.* score and outcome",
        ),
    ],
)
def test_samples_that_cannot_be_used(sample, message, tmp_path):
    with pytest.raises(FileError, match=message):
        read(write(tmp_path / "a.jsonl", [sample]))


def test_models_or_tasks_together_are_refused_with_the_list(tmp_path):
    mixed = [
        sample | {"task": ("arc", "mmlu")[i % 2]} for i, sample in enumerate(harness_samples(6))
    ]
    file = write(tmp_path / "a.jsonl", mixed)
    with refused("file-ambiguous", "2", "'task'", "'arc'", "'mmlu'"):
        read(file)
    assert read(file, group="task").groups.tolist() == ["arc", "mmlu"] * 3
    assert len(read(file, per="task").logits) == 6


def test_fields_by_path(tmp_path):
    records = list(judged())
    records[3]["extra"] = 1
    file = write(tmp_path / "a.jsonl", records)
    loaded = read(file, score="judge.score", outcome="human.ok", group="meta.kind")
    assert loaded.input == "score"
    assert loaded.logits.tolist() == [record["judge"]["score"] for record in records]
    assert loaded.labels.tolist() == [int(record["human"]["ok"]) for record in records]
    assert loaded.groups[:3].tolist() == ["code", "law", "chat"]
    lists = write(tmp_path / "b.jsonl", [{"marks": [i, 2 * i], "correct": i % 2} for i in range(5)])
    assert read(lists, score="marks.1").logits.tolist() == [0, 2, 4, 6, 8]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"score": "judge.scores"},
            "score: .* no field 'judge.scores'; did you mean 'judge.score'",
        ),
        ({"score": "mark"}, "score: .* no column 'mark'; it has 'id', 'meta.kind'"),
        ({"score": "judge.score", "outcome": "extra"}, "'extra' is missing in 119 of 120 samples"),
        ({"score": "judge.reason"}, "must be a number in every sample"),
        ({"outcome": "judge.score", "score": "judge.score"}, "outcome"),
        ({"score": "judge.score", "outcome": "judge.score"}, "is the outcome"),
        ({"score": "judge.score", "group": "meta.knid"}, "group: .* did you mean 'meta.kind'"),
    ],
)
def test_fields_that_are_not_there(asked, message, tmp_path):
    records = list(judged())
    records[3]["extra"] = 1
    with pytest.raises(FileError, match=message):
        read(write(tmp_path / "a.jsonl", records), **asked)


def test_lists_of_any_length_are_options(tmp_path):
    file = write(
        tmp_path / "a.jsonl",
        [{"out": {"ll": [-1, -2, -3]}, "label": 2}, {"out": {"ll": [-1, -2]}, "label": 0}],
    )
    loaded = read(file, logits_key="out.ll")
    assert loaded.logits.tolist() == [[-1, -2, -3], [-1, -2, -np.inf]]
    assert loaded.labels.tolist() == [2, 0]


def test_an_option_that_is_not_shown_is_at_most_the_smallest_shown(tmp_path):
    rows = [{"A": -0.1, "B": -3.0}, {"A": -2.0, "C": -0.3}, {"C": -0.01, "B": -9.0}]
    file = write(
        tmp_path / "a.jsonl",
        [{"logprobs": row, "label": next(iter(row))} for row in rows],
    )
    loaded = read(file)
    assert loaded.class_names == ("A", "B", "C")
    left = [1 - sum(np.exp(list(row.values()))) for row in rows]
    expected = [
        [-0.1, -3.0, min(-3.0, np.log(left[0]))],
        [-2.0, min(-2.0, np.log(left[1])), -0.3],
        [-9.0, -9.0, -0.01],
    ]
    np.testing.assert_allclose(loaded.logits, expected)
    assert "3 of 9 log-probabilities are not shown" in loaded.notes[1]
    more = read(file, columns=("A", "B", "C", "D"))
    assert np.isfinite(more.logits).all()
    assert more.class_names == ("A", "B", "C", "D")


@pytest.mark.parametrize("batch", [False, True])
def test_what_an_api_answers(batch, tmp_path):
    answers = [
        [("B", -0.2), (" B", -3.0), ("A", -2.5), ("The", -6.0)],
        [("D", -0.1), ("A", -4.0)],
        [("The", -0.5), ("I", -1.5)],
    ]
    records = []
    for tokens, label in zip(answers, "BDA", strict=True):
        body = chat_response(tokens)
        records.append({"label": label, **({"response": {"body": body}} if batch else body)})
    loaded = read(write(tmp_path / "a.jsonl", records))
    assert loaded.class_names == ("A", "B", "C", "D")
    assert loaded.labels.tolist() == ["B", "D", "A"]
    assert np.isfinite(loaded.logits).all()
    assert loaded.logits[0, 1] == pytest.approx(np.logaddexp(-0.2, -3.0))
    assert loaded.logits[0, 2] == pytest.approx(-6.0)
    assert np.ptp(loaded.logits[2]) == 0
    assert "1 of 3 samples show none of the options" in loaded.notes[-1]


@pytest.mark.parametrize("value", [None, "x", float("nan"), float("-inf"), True])
def test_log_probabilities_are_finite_numbers(value, tmp_path):
    file = write(tmp_path / "a.jsonl", [{"logprobs": {"A": -1.0}}, {"logprobs": {"B": value}}])
    with refused("file-value", "2", "'B'"):
        read(file)


def test_judgements_of_two(tmp_path):
    records = [
        {"score_a": 7, "score_b": 4, "winner": "model_a"},
        {"score_a": 5, "score_b": 5, "winner": "tie"},
        {"score_a": 2, "score_b": 6, "winner": "model_b"},
        {"score_a": 9, "score_b": 8, "winner": "tie (bothbad)"},
    ]
    file = write(tmp_path / "a.jsonl", records)
    loaded = read(file)
    assert (loaded.input, loaded.logits.tolist()) == ("score", [3, -4])
    assert loaded.labels.tolist() == [1, 0]
    assert "2 of 4 judgements are ties" in loaded.notes[0]
    assert len(read(file, keep_ignored=True).logits) == 4
    records[1]["score_a"] = None
    with refused("file-value", "score_a", "score_b", "5"):
        read(write(tmp_path / "b.jsonl", records))


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".npz"])
def test_two_scores_are_not_taken_for_their_difference(suffix, tmp_path):
    """Two signals of one outcome would cancel each other; nothing said that they are compared."""
    both = {"score_a": [0.9, 0.2, 0.7], "score_b": [0.8, 0.1, 0.9], "correct": [1, 0, 1]}
    file = tmp_path / f"a{suffix}"
    if suffix == ".csv":
        rows = zip(*both.values(), strict=True)
        file.write_text("\n".join([",".join(both), *(",".join(map(str, row)) for row in rows)]))
    elif suffix == ".jsonl":
        write(file, [dict(zip(both, row, strict=True)) for row in zip(*both.values(), strict=True)])
    elif suffix == ".npz":
        np.savez(file, **both)
    else:
        pq = pytest.importorskip("pyarrow.parquet")
        pq.write_table(pytest.importorskip("pyarrow").table(both), file)
    for asked in (
        {"score": "score_a,score_b"},
        {"input": "score", "columns": ("score_a", "score_b")},
    ):
        with refused("option-format", "score_a", "score_b"):
            read(file, **asked)
    with pytest.raises(SmallcalError):
        read(file)
    assert read(file, score="score_a", outcome="correct").logits.tolist() == both["score_a"]


def test_damaged_logs(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('{"score": 1, "outcome": 0}\n{"score": 1, "outc\n')
    with refused("file-damaged", "2"):
        read(file)
    packed = gzip.compress(b"".join(json.dumps(one).encode() + b"\n" for one in judged()))
    (tmp_path / "b.jsonl.gz").write_bytes(packed[:-30])
    with refused("file-damaged", "b.jsonl"):
        read(tmp_path / "b.jsonl.gz", score="judge.score")
    (tmp_path / "c.jsonl").write_text("")
    with refused("file-damaged"):
        read(tmp_path / "c.jsonl")
    (tmp_path / "d.jsonl.gz").write_bytes(packed)
    assert len(read(tmp_path / "d.jsonl.gz", score="judge.score", outcome="human.ok").logits) == 120
