"""ONNX files against ONNX Runtime's own softmax of z / 1.5: one thread, float32."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import smallcal as sc
from ratio import Ratio, in_turns, logits
from smallcal.deploy.export import to_onnx
from torch_module import METHODS

#: Rows, classes, in how many turns, and how many calls are a turn: what is short is noisy.
SIZES = ((10_000, 1_000, 15, 1), (10_000, 100, 20, 5), (1, 1_000, 50, 50))
#: By method, the bound for a batch: double precision, against a softmax in single.
BOUNDS = {"ts-nll": 30.0, "srts-bce": 45.0, "default": 65.0}
#: Each of some dozen operations costs a microsecond or two, whatever the size.
ONE_ROW = 20.0


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


def run(session, z):
    return lambda: session.run(["probabilities"], {"logits": z})


def rows() -> Iterator[Ratio]:
    for n, n_classes, repeats, calls in SIZES:
        split = logits(2_500, n_classes)
        z, _ = logits(n, n_classes, seed=1)
        plain = run(session_of(softmax_graph(n_classes)), z)
        for method, (name, _) in METHODS.items():
            ours = run(session_of(to_onnx(sc.make(method).fit(*split).fitted_)), z)
            times = in_turns(ours, plain, repeats=repeats, calls=calls)
            promised = BOUNDS[method] if n > 1 else ONE_ROW
            yield Ratio.of(f"{name}, {n:,} x {n_classes:,}", "its softmax", *times, promised)
