"""How fast a calibrator is in each place it can be sent: `python benchmarks/export_speed.py`.

Rows per second on the demo data, one thread, best of three; the runtime is the yardstick.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import sys
import time

import duckdb
import numpy as np
import onnxruntime
import torch

import smallcal as sc
from smallcal.deploy.export import to_onnx, to_python, to_sql, to_torch

METHODS = ("ts-nll", "srts-bce", "default")
FEW = 300  # rows for the places that take long


def runtime(fitted, z):
    return lambda: fitted.predict_proba(z)


def torch_module(fitted, z):
    torch.set_num_threads(1)
    module, rows = to_torch(fitted), torch.from_numpy(z)

    def run():
        with torch.inference_mode():
            module(rows)

    return run


def onnx_session(fitted, z):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(to_onnx(fitted), options, ["CPUExecutionProvider"])
    return lambda: session.run(["probabilities"], {session.get_inputs()[0].name: z})


def python_file(fitted, z):
    names = {"__name__": "exported"}
    exec(to_python(fitted), names)
    rows = z.astype(float).tolist()
    return lambda: names["calibrate_rows"](rows)


def sql_macros(fitted, z):
    base = duckdb.connect(config={"threads": 1, "memory_limit": "2GB"})
    base.execute("CREATE TABLE t (logits DOUBLE[])")
    base.executemany("INSERT INTO t VALUES (?)", [[row] for row in z.astype(float).tolist()])
    base.execute(to_sql(fitted))
    return lambda: base.execute("SELECT smallcal_probabilities(logits) FROM t").fetchall()


PLACES = {
    "runtime": (runtime, None),
    "torch": (torch_module, None),
    "ONNX": (onnx_session, None),
    "Python": (python_file, FEW),
    "SQL": (sql_macros, FEW),
}


def main():
    val, test = sc.load_demo("cal"), sc.load_demo("test")
    print(f"| method | {' | '.join(PLACES)} |")
    print("|---" * (len(PLACES) + 1) + "|")
    for method in METHODS:
        fitted = sc.make(method).fit(val.logits, val.labels).fitted_
        cells = []
        for make, most in PLACES.values():
            z = np.ascontiguousarray(test.logits[:most], dtype=np.float32)
            run = make(fitted, z)
            run()
            times = []
            for _ in range(3):
                start = time.perf_counter()
                run()
                times.append(time.perf_counter() - start)
            cells.append(f"{float(f'{len(z) / min(times):.2g}'):,.0f}")
        print(f"| `{method}` | {' | '.join(cells)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
