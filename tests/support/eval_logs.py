"""Tiny logs of evaluations, in the shapes that tools write them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

LETTERS = "ABCDE"


def write(path, records):
    Path(path).write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


def harness_sample(number, likelihoods, target, *, texts=None, old=False, **more):
    """A document as lm-evaluation-harness logs it: since 0.4.3, or ``old`` as before."""
    texts = texts or [f" {letter}" for letter in LETTERS[: len(likelihoods)]]
    best = int(np.argmax(likelihoods))
    pairs = [[float(one), i == best] for i, one in enumerate(likelihoods)]
    arguments = [["Question\nAnswer:", text] for text in texts]
    if not old:
        pairs = [[str(a), str(b)] for a, b in pairs]
        arguments = {
            f"gen_args_{i}": {"arg_0": context, "arg_1": text}
            for i, (context, text) in enumerate(arguments)
        }
        target = str(target)
    return {
        "doc_id": number,
        "doc": {"question": "...", "subject": ("law", "chess")[number % 2]},
        "target": target,
        "arguments": arguments,
        "resps": [[pair] for pair in pairs],
        "filtered_resps": pairs,
        "filter": "none",
        "metrics": ["acc", "acc_norm"],
        "doc_hash": "0f3a",
        "prompt_hash": "77aa",
        "target_hash": "91bc",
        "acc": float(str(best) == str(target)),
        **more,
    }


def harness_samples(n=200, *, seed=0, widths=(4,), **more):
    """Documents of a model that is somewhat too sure."""
    rng = np.random.default_rng(seed)
    samples = []
    for number in range(n):
        z = 2 * rng.normal(size=widths[number % len(widths)])
        right = int((0.5 * z + rng.gumbel(size=len(z))).argmax())
        samples.append(harness_sample(number, z, right, **more))
    return samples


def chat_response(tokens):
    """What a chat API answers with ``logprobs=True, top_logprobs=k``, as far as it matters."""
    first, value = tokens[0]
    shown = [{"token": token, "logprob": logprob, "bytes": None} for token, logprob in tokens]
    content = [{"token": first, "logprob": value, "bytes": None, "top_logprobs": shown}]
    choice = {"index": 0, "message": {"role": "assistant", "content": first}}
    return {"choices": [{**choice, "logprobs": {"content": content}}]}


def judged(n=120, *, seed=0):
    """Marks of a judge, and what people said; two models, three kinds of question."""
    rng = np.random.default_rng(seed)
    for number in range(n):
        mark = int(rng.integers(1, 11))
        yield {
            "id": f"q{number}",
            "meta": {"kind": ("code", "law", "chat")[number % 3]},
            "judge": {"score": mark, "reason": "..."},
            "human": {"ok": bool(rng.random() < mark / 12)},
        }
