"""The small form of the demo's logits: principal components, and the top of each row put right.

Half-precision logits of 345 classes hardly compress: their low bits are noise. Classes go together,
though. So a row is kept as whole-number coefficients of its principal components, which gives every
logit roughly, and what matters most is put right afterwards. The classes with the largest logits
get their own logits back; labels play no part in what is kept. All others are bent, by three
numbers for each row, so that the sum of the exponentials, the entropy and the norm of the row are
what they were: a calibrator that looks at probabilities and at statistics of a row sees what it
saw. `smallcal.data.demo` reads this form.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from smallcal.data.demo import FINE, UNIT, Packed

Floats = npt.NDArray[np.float64]

#: A step of a coefficient. Half as large a step costs a quarter more room.
STEP = 0.7
#: Components with less variance than this many times that of rounding are left out.
WORTH = 1.2


def pack(logits: dict[str, Floats]) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays to keep of each split's logits; both splits share the components."""
    rows = np.concatenate(list(logits.values()))
    centre = np.rint(rows.mean(axis=0) / FINE)
    variances, vectors = np.linalg.eigh(np.cov(rows.T))
    kept = variances > WORTH * STEP**2 / 12
    components = np.rint(vectors[:, kept][:, ::-1].T * STEP / UNIT)
    arrays: dict[str, npt.NDArray[Any]] = {
        "centre": centre.astype(np.int16),
        "components": components.astype(np.int8),
    }
    for split, given in logits.items():
        found = np.linalg.lstsq(components.T * UNIT, (given - centre * FINE).T, rcond=None)[0]
        coefficients = _whole(found, np.int8)
        rough = Packed.rough(coefficients, components, centre)
        exact, bend = _put_right(given, rough)
        arrays |= {
            f"{split}_coefficients": _coded(coefficients),
            f"{split}_exact": _coded(exact.T),
            f"{split}_bend": bend,
        }
    return arrays


def _put_right(given: Floats, rough: Floats) -> tuple[Any, Any]:
    """Return what the logits of some classes lack in each row, and how to bend the others."""
    places = Packed.places(rough)
    wanted = np.take_along_axis(given, places, axis=1)
    steps = _in_order(wanted, np.rint(wanted / FINE))
    lacking = _whole(steps - np.take_along_axis(rough, places, axis=1) / FINE, np.int16)
    others = np.ones(given.shape, dtype=bool)
    np.put_along_axis(others, places, values=False, axis=1)
    kept = np.where(others, 0.0, rough)
    np.put_along_axis(kept, places, steps * FINE, axis=1)
    return lacking, _whole(_bend(given, kept, np.where(others, rough, np.nan)) / FINE, np.int16)


def _totals(logits: Floats) -> Floats:
    """Return three sums over each row: of exponentials, of those times logits, and of squares."""
    weights = np.exp(logits)
    return np.stack([np.nansum(a, axis=1) for a in (weights, weights * logits, logits**2)], axis=1)


def _bend(given: Floats, kept: Floats, rough: Floats) -> Floats:
    """Find the bends, shape (3, rows), that give the other logits of a row the sums they lack."""
    known = np.isnan(rough)
    target = _totals(given) - _totals(np.where(known, kept, np.nan))
    bend = np.zeros((3, len(given)))
    powers = np.stack([np.ones_like(rough), rough / 4, (rough / 4) ** 2])
    for _ in range(12):
        logits = Packed.bent(rough, bend / FINE)
        weights = np.exp(logits)
        slopes = np.stack([weights, weights * (1 + logits), 2 * logits])
        jacobian = np.nansum(slopes[:, None] * powers[None], axis=3).transpose(2, 0, 1)
        lacking = target - _totals(logits)
        bend += np.clip(np.linalg.solve(jacobian, lacking[:, :, None])[:, :, 0].T, -0.3, 0.3)
    return bend


def _in_order(wanted: Floats, steps: Floats) -> Floats:
    """Return rounded logits that are as different as the logits themselves: no new ties."""
    order = np.argsort(-wanted, axis=1, kind="stable")
    ranked, original = (np.take_along_axis(a, order, axis=1) for a in (steps, wanted))
    for k in range(1, ranked.shape[1]):
        apart = (original[:, k] < original[:, k - 1]).astype(float)
        ranked[:, k] = np.minimum(ranked[:, k], ranked[:, k - 1] - apart)
    put = np.empty_like(steps)
    np.put_along_axis(put, order, ranked, axis=1)
    return put


def _whole(values: Floats, kind: type[np.signedinteger[Any]]) -> npt.NDArray[Any]:
    """Round to whole numbers, or stop: one that does not fit would become another one."""
    rounded = np.rint(values)
    if np.abs(rounded).max() > np.iinfo(kind).max:
        raise SystemExit(f"{np.abs(rounded).max():.0f} does not fit into {kind.__name__}")
    return rounded.astype(kind)


def _coded(numbers: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Compress whole numbers, low bytes first, each on its own: nothing repeats that is there."""
    flat = np.ascontiguousarray(numbers).astype(numbers.dtype.newbyteorder("<"))
    planes = flat.reshape(-1, 1).view(np.uint8).T
    coder = zlib.compressobj(9, strategy=zlib.Z_HUFFMAN_ONLY)
    content = coder.compress(planes.tobytes()) + coder.flush()
    return np.frombuffer(content, dtype=np.uint8)
