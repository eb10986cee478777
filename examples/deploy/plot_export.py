"""
Export to ONNX, Python or SQL
=============================

The model runs where smallcal cannot be installed: in a service, in a database, in a script with
nothing but the standard library. Do the exported files give the same probabilities?
"""

# %%
# One calibrator, three files
# ---------------------------
#
# Needs ``pip install 'smallcal[onnx]'`` for the ONNX part and ``pip install duckdb`` for the SQL
# part; each is left out where its package is missing.

import importlib.util

import matplotlib.pyplot as plt
import numpy as np

import smallcal as sc
from smallcal.deploy.export import to_python, to_sql
from smallcal_lab.studies.simulate import World

world = World(n_classes=10, accuracy=0.8, temperature=1.6, structure=0.3)
val, test = world.draw(400), world.draw(2000, split="test")
cal = sc.Calibrator().fit(val.logits, val.labels)

logits = test.logits.astype(np.float64)
expected = cal.predict_proba(logits)
answers = {}

# %%
# A Python file
# -------------
#
# ``to_python`` writes a module with a function ``calibrate(logits)`` that imports nothing but the
# standard library. Here it is run in place; usually you would save it as ``cal.py``.

source = to_python(cal.fitted_)
module = {"__name__": "cal"}
exec(source, module)
print(f"{len(source.splitlines())} lines; imports:")
print("\n".join(line for line in source.splitlines() if line.startswith(("import", "from"))))

answers["Python file"] = np.array(module["calibrate_rows"](logits.tolist()))

# %%
# ONNX
# ----

if importlib.util.find_spec("onnx") and importlib.util.find_spec("onnxruntime"):
    import onnxruntime

    from smallcal.deploy.export import to_onnx

    session = onnxruntime.InferenceSession(to_onnx(cal.fitted_))
    answers["ONNX"] = session.run(["probabilities"], {"logits": test.logits})[0]
    print("inputs:", [(one.name, one.shape, one.type) for one in session.get_inputs()])

# %%
# SQL
# ---

if importlib.util.find_spec("duckdb"):
    import duckdb

    base = duckdb.connect()
    base.execute(to_sql(cal.fitted_))
    base.execute("CREATE TABLE predictions (id INTEGER, logits DOUBLE[])")
    base.executemany(
        "INSERT INTO predictions VALUES (?, ?)", list(enumerate(logits.tolist()))[:200]
    )
    query = "SELECT smallcal_probabilities(logits) FROM predictions ORDER BY id"
    answers["SQL, 200 rows"] = np.array([row[0] for row in base.execute(query).fetchall()])

# %%
# Do they agree?
# --------------
#
# The largest difference from smallcal's own probabilities, over all rows and classes. ONNX works in
# single precision where that is enough; the predicted class is the same everywhere.

largest = {}
for name, p in answers.items():
    largest[name] = np.abs(p - expected[: len(p)]).max()
    same = np.array_equal(p.argmax(axis=1), expected[: len(p)].argmax(axis=1))
    print(f"{name:14} differs by at most {largest[name]:.1e}; same predictions: {same}")

fig, ax = plt.subplots(figsize=(6.5, 2.6), layout="constrained")
ax.barh(list(largest), list(largest.values()), color="#0072B2")
ax.set(xscale="log", xlim=(1e-17, 1e-2), xlabel="largest difference from smallcal")
ax.axvline(1e-6, color="black", linestyle=":", label="one in a million")
ax.legend(loc="center right")
plt.show()

# %%
# From a shell it is ``smallcal export cal.json -o cal.onnx`` (or ``cal.py``, ``cal.sql``).
# :doc:`/guides/export` also puts the calibrator behind an existing ONNX model.
