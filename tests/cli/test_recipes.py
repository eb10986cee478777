"""The lines of shell in the recipes, run where the files that they name are."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

RECIPES = Path(__file__).parents[2] / "docs" / "recipes"
rng = np.random.default_rng(0)


def lines_of(page):
    """Return the lines of a page's blocks of shell."""
    blocks = re.findall(r"```sh\n(.*?)```", (RECIPES / page).read_text("utf-8"), flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def run_page(page, cli):
    lines = lines_of(page)
    assert lines
    for line in lines:
        name, *args = shlex.split(line, comments=True)
        assert name == "smallcal"
        code, _, err = cli(*args)
        assert code == 0, f"{line}: {err}"


def judged(n):
    marks = rng.integers(1, 11, size=n)
    return marks, rng.random(n) < marks / 16


def write_lines(file, records):
    Path(file).write_text("".join(json.dumps(record) + "\n" for record in records))


def sample(number):
    """One question as lm-evaluation-harness writes it."""
    answer, logits = number % 4, rng.normal(size=4)
    logits[answer] += 2
    said = [[str(one), "False"] for one in logits.tolist()]
    return {"doc_id": number, "target": str(answer), "filtered_resps": said, "arguments": {}}


def test_the_judge(cli):
    records = [{"mark": int(m), "good": bool(g)} for m, g in zip(*judged(100), strict=True)]
    write_lines("judged.jsonl", records)
    Path("new.csv").write_text("mark\n3\n8\n")
    run_page("llm-judge.md", cli)
    found = [float(line) for line in Path("probabilities.csv").read_text().split()[1:]]
    assert 0 < found[0] < found[1] < 1
    assert "def probability(score):" in Path("judge.py").read_text()


def verdicts(file, n):
    clear = rng.normal(4, 2.5, size=n)
    said = 1 / (1 + np.exp(-2 * clear - 0.7 * rng.normal(size=n)))
    agrees = rng.random(n) < 1 / (1 + np.exp(-clear))
    pairs = zip(said.tolist(), agrees.tolist(), strict=True)
    write_lines(file, [{"confidence": p, "agrees": right} for p, right in pairs])


def test_a_judge_that_answers_alone(cli):
    for file, n in (("judged", 300), ("more", 3000), ("new", 500), ("march", 400)):
        verdicts(f"{file}.jsonl", n)
    run_page("judge-alone.md", cli)
    header, *rows = (line.split(",") for line in Path("decided.csv").read_text().split())
    assert header == ["probability", "accepted"]
    sure = {said: [float(p) for p, flag in rows if flag == said] for said in ("True", "False")}
    assert min(sure["True"]) > max(sure["False"])
    assert "def accepted(score):" in Path("judge.py").read_text()


def test_multiple_choice(cli):
    write_lines("samples_quiz.jsonl", map(sample, range(300)))
    write_lines("samples_new.jsonl", map(sample, range(5)))
    run_page("multiple-choice.md", cli)
    assert len(Path("probabilities.csv").read_text().splitlines()) == 6


def test_a_binary_model(cli):
    margins = rng.normal(size=200)
    np.save("margins.npy", margins)
    np.save("outcomes.npy", (margins + rng.normal(size=200) > 1).astype(int))
    np.save("new.npy", rng.normal(size=50))
    run_page("binary-model.md", cli)
    assert np.load("probabilities.npy").shape == (50,)


def test_a_reranker(cli):
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["score"])],
        "reranker",
        [helper.make_tensor_value_info("x", kind, ["batch", 1])],
        [helper.make_tensor_value_info("score", kind, ["batch", 1])],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), "reranker.onnx")
    rows = zip(*judged(100), strict=True)
    text = "".join(f"{score},{int(outcome)}\n" for score, outcome in rows)
    Path("judged.csv").write_text("score,outcome\n" + text)
    run_page("reranker.md", cli)
    outputs = [output.name for output in onnx.load("served.onnx").graph.output]
    assert outputs == ["score", "probabilities"]
