"""ONNX files against ONNX Runtime's own softmax: `python benchmarks/speed_onnx.py`.

One thread, both sides in this process and in turns; the reference is a graph of z / 1.5 and a
softmax. Times are medians of the processor's seconds, which other work disturbs less.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import sys
import time
import warnings

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import smallcal as sc
from smallcal.deploy.export import to_onnx
from speed import logits

#: What each method may take, in softmaxes, on 10,000 rows of 1,000 classes.
BOUNDS = {"ts-nll": 1.5, "srts-bce": 2.5, "default": 3.0}
#: Rows, classes, and in how many turns.
SIZES = ((10_000, 1_000, 15), (10_000, 100, 60), (1, 1_000, 1_000))


def session_of(content):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"])


def softmax_graph(n_classes):
    """Return the bytes of the reference: a division by one temperature, and a softmax."""
    row = ["batch", n_classes]
    graph = helper.make_graph(
        [
            helper.make_node("Div", ["logits", "temperature"], ["scaled"]),
            helper.make_node("Softmax", ["scaled"], ["probabilities"], axis=-1),
        ],
        "softmax",
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, row)],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, row)],
        [numpy_helper.from_array(np.array(1.5, dtype=np.float32), "temperature")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def in_turns(sessions, z, repeats):
    """Return the median time of each session, taken in turns so that none has the quiet minute."""
    times = np.empty((repeats + 1, len(sessions)))
    for turn in times:
        for place, session in enumerate(sessions):
            start = time.process_time()
            session.run(["probabilities"], {"logits": z})
            turn[place] = time.process_time() - start
    return np.median(times[1:], axis=0)


def rows():
    """Yield what was timed, its seconds, those of the reference, and the bound of the ratio."""
    fitted = {}
    for n, n_classes, repeats in SIZES:
        if n_classes not in fitted:
            split = logits(2_500, n_classes)
            fitted[n_classes] = {name: sc.make(name).fit(*split).fitted_ for name in BOUNDS}
        z, _ = logits(n, n_classes, seed=1)
        contents = [softmax_graph(n_classes), *map(to_onnx, fitted[n_classes].values())]
        reference, *ours = in_turns([session_of(content) for content in contents], z, repeats)
        promised = (n, n_classes) == SIZES[0][:2]
        for (name, bound), seconds in zip(BOUNDS.items(), ours, strict=True):
            what = f"ONNX {name} / its softmax, {n:,} x {n_classes:,} float32"
            yield what, seconds, reference, bound if promised else np.inf


def main():
    warnings.simplefilter("ignore")
    for what, ours, reference, bound in rows():
        numbers = f"{ours * 1e3:.2f} ms, {reference * 1e3:.2f} ms"
        print(f"{what:<55} {ours / reference:6.2f}  (at most {bound:g})  {numbers}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
