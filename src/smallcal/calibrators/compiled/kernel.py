"""The kernel: from a row's logits to its probabilities, compiled by numba. Importing it needs it.

Rows go through one pass after another in blocks that stay in the cache: each pass is a loop that
LLVM turns into vector instructions, and rows that do not wait for one another overlap. A row that
another order of sums could decide otherwise, or that needs care, is named, to be done by NumPy.
All calibrators share one kernel for each floating type, which is kept on disk: their numbers come
as arrays (:mod:`smallcal.calibrators.compiled.plan`). Numba compiles anew when this file changes
and looks at no other, so what the kernel is made of stands here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from smallcal.errors import needing

with needing("numba", "fast", "the compiled kernel"):
    from numba import njit, types
    from numba.extending import overload

# Where each number of a calibrator stands; those of the six statistics follow one another.
KEEPS, REGRESSED, SIGMOID, OFFSET, LOW, HIGH, TAIL, TIE, SLACK, NEAR, LIMIT, EXACT = range(12)
MEANS, INVERSE_SCALES, SLOPES, N_NUMBERS = 12, 18, 24, 30
#: Lines of a number per class: effects, a bias, what the directions read, what they write.
EFFECTS, BIAS, READS, RANK = 0, 1, 2, 5

#: Sums may be taken in any order; NaN and infinity are still what they are.
_SUMS = {"reassoc", "contract", "nsz", "arcp"}
_summing = njit(fastmath=_SUMS, error_model="numpy")
#: For numbers that are known to be finite.
_finite = njit(fastmath={*_SUMS, "nnan"}, error_model="numpy")
_LOG2E = math.log2(math.e)
#: Numbers, and rows, of a block.
_BLOCK, _ROWS = 4096, 64
#: The largest sum of squares: beyond it, or where there is NaN, a row is for NumPy.
_LARGEST = 1e29
#: Corrected logits may be off by this much, as far as a bound can tell.
_COARSE = 0.01
_HIGHEST_EXPONENT = 700.0
_NOWHERE = np.int32(2**31 - 1)
# As in ``softmax`` and ``signals.logit_statistics``.
SMALL = -60.0
SHARING_ROUNDS = 4
NO_GAP = -1e30


def power(x: Any) -> Any:
    """Return 2 to the power of x, in the type of x: a whole part and a polynomial for the rest."""


def ordered(x: Any) -> Any:
    """Return the integer that orders as the number does: integers have a quick maximum."""


def unordered(x: Any) -> Any:
    """Return the number of such an integer."""


@_summing
def _power_single(x):
    f32 = np.float32
    x = max(x, f32(-126.0))
    whole = np.floor(x + f32(0.5))
    f = x - whole
    # 2^f, interpolated at the Chebyshev points of [-1/2, 1/2]: 1e-7 in single precision.
    p = f32(0.00015469732015776374) * f + f32(0.0013400432164987143)
    p = (p * f + f32(0.009618025602827068)) * f + f32(0.05550327214210341)
    p = (p * f + f32(0.2402265121359637)) * f + f32(0.6931472067106195)
    p = p * f + f32(1.0)
    return p * np.int32((np.int32(whole) + np.int32(127)) << np.int32(23)).view(np.float32)


@_summing
def _power_double(x):
    x = max(x, -1022.0)
    whole = np.floor(x + 0.5)
    f = x - whole
    p = 1.025955575541342e-10 * f + 4.2383362724604816e-10
    p = (p * f + 7.027348653867758e-09) * f + 1.0179726122704393e-07
    p = (p * f + 1.3215447918459298e-06) * f + 1.5252728768745978e-05
    p = (p * f + 0.00015403530671306506) * f + 0.0013333558154674824
    p = (p * f + 0.009618129107243533) * f + 0.05550410866474852
    p = (p * f + 0.24022650695911724) * f + 0.6931471805599481
    p = p * f + 1.0
    return p * np.int64((np.int64(whole) + np.int64(1023)) << np.int64(52)).view(np.float64)


@_summing
def _turned_single(i):
    return np.int32(i ^ ((i >> np.int32(31)) & np.int32(0x7FFFFFFF)))


@_summing
def _turned_double(i):
    return np.int64(i ^ ((i >> np.int64(63)) & np.int64(0x7FFFFFFFFFFFFFFF)))


@overload(power, jit_options={"fastmath": _SUMS})
def _power(x):
    return (lambda x: _power_single(x)) if x == types.float32 else (lambda x: _power_double(x))


@overload(ordered)
def _ordered(x):
    if x == types.float32:
        return lambda x: _turned_single(np.float32(x).view(np.int32))
    return lambda x: _turned_double(np.float64(x).view(np.int64))


@overload(unordered)
def _unordered(x):
    if x == types.int32:
        return lambda x: np.int32(_turned_single(x)).view(np.float32)
    return lambda x: np.int64(_turned_double(x)).view(np.float64)


@_finite
def _largest(row):
    best = ordered(row[0])
    for j in range(row.shape[0]):
        best = max(best, ordered(row[j]))
    return unordered(best)


@_finite
def _place(row, value):
    place = _NOWHERE
    for j in range(row.shape[0]):
        place = min(place, np.int32(j) if row[j] == value else _NOWHERE)
    return place


@_summing
def _take(rows, work, norm, again):
    """Copy rows with their squared norms; one that is not sound becomes 0."""
    for i in range(rows.shape[0]):
        total = rows.dtype.type(0)
        for j in range(rows.shape[1]):
            total += rows[i, j] * rows[i, j]
            work[i, j] = rows[i, j]
        again[i] = not total <= _LARGEST
        norm[i] = total
        if again[i]:
            work[i, :] = 0
            norm[i] = 0


@_summing
def _move(work, lines, norm, again):
    """Correct rows: the low-rank product of :class:`Correction`, at most five directions."""
    kind = work.dtype.type
    for i in range(work.shape[0]):
        row = work[i]
        a = b = c = d = e = kind(0)
        for j in range(row.shape[0]):
            z = row[j]
            a += z * lines[2, j]
            b += z * lines[3, j]
            c += z * lines[4, j]
            d += z * lines[5, j]
            e += z * lines[6, j]
        total = kind(0)
        for j in range(row.shape[0]):
            z = row[j] + lines[1, j] + a * lines[7, j] + b * lines[8, j] + c * lines[9, j]
            z += d * lines[10, j] + e * lines[11, j]
            row[j] = z
            total += z * z
        norm[i] = total
        if not total <= _LARGEST:
            again[i] = True
            norm[i] = 0
            row[:] = 0


@_finite
def _tops(work, top, place):
    for i in range(work.shape[0]):
        top[i] = _largest(work[i])
        place[i] = _place(work[i], top[i])


@_finite
def _gaps(work, top, place, second):
    for i in range(work.shape[0]):
        for j in range(work.shape[1]):
            work[i, j] -= top[i]
        work[i, place[i]] = NO_GAP
    for i in range(work.shape[0]):
        second[i] = _largest(work[i])


@_finite
def _moments(work, rest, weighted):
    """Take the sums that statistics are made of: exp(gap), and gap x exp(gap)."""
    kind = work.dtype.type
    for i in range(work.shape[0]):
        one = two = kind(0)
        for j in range(work.shape[1]):
            gap = work[i, j]
            weight = power(gap * kind(_LOG2E))
            one += weight
            two += weight * gap
        rest[i], weighted[i] = one, two


@_finite
def _softmax(work, factor, rest, out):
    for i in range(work.shape[0]):
        total = work.dtype.type(0)
        for j in range(work.shape[1]):
            weight = power(work[i, j] * factor[i])
            out[i, j] = weight
            total += weight
        rest[i] = total


@_finite
def _tailed(work, factor, tail, rest, own, out):
    for i in range(work.shape[0]):
        total = routed = work.dtype.type(0)
        for j in range(work.shape[1]):
            gap = work[i, j]
            weight = power(gap * tail)
            out[i, j] = weight
            total += weight
            routed += power(gap * factor[i])
        rest[i], own[i] = routed, total


@_finite
def _mix(gaps, row, place, tail, factor, second):
    """Mix the tail's weights, a row, with those at T, as ``softmax.tailed_softmax`` does."""
    kind = row.dtype.type
    own, rest = 0.0, 0.0
    for j in range(row.shape[0]):
        own += row[j]
        rest += power(gaps[j] * factor)
    # Relative to the second.
    own_sum = own / power(np.float64(second * tail))
    routed_sum = rest / power(np.float64(second * factor))
    share = 1.0
    if own_sum < routed_sum:
        room = 1 / own_sum - 1 / routed_sum
        share = min(max((1 / rest - 1 / routed_sum) / room, 0.0), 1.0)
    doubt = rest / (1 + rest)
    one, two = kind(doubt * share / own), kind(doubt * (1 - share) / rest)
    for j in range(row.shape[0]):
        row[j] = row[j] * one + power(gaps[j] * factor) * two
    row[place] = kind(1 / (1 + rest))
    _hold(row, place)


@_finite
def _hold(row, place):
    """Hold rivals at most as large as the prediction, those before it below."""
    best = row[place]
    below = np.nextafter(best, row.dtype.type(0))
    for j in range(row.shape[0]):
        row[j] = min(row[j], below if j < place else best)
    row[place] = best


@_finite
def _term(value, k, numbers):
    """Return what a statistic adds to the score."""
    scaled = (value - numbers[MEANS + k]) * numbers[INVERSE_SCALES + k]
    return numbers[SLOPES + k] * min(max(scaled, -numbers[LIMIT]), numbers[LIMIT])


@_finite
def _score(facts, i, numbers):
    """Return what the temperature of a row depends on, and how large what it is made of is."""
    norm, top, second = np.float64(facts[0, i]), np.float64(facts[1, i]), np.float64(facts[2, i])
    rest, weighted = np.float64(facts[3, i]), np.float64(facts[4, i])
    p = 1 / (1 + rest)
    a = _term(p, 0, numbers)
    b = _term(-second, 1, numbers)
    c = _term((1 - power(second * _LOG2E)) * p, 2, numbers)
    d = _term(math.log(1 + rest) - weighted * p, 3, numbers)
    e = _term(math.sqrt(norm), 4, numbers)
    f = _term(top, 5, numbers)
    size = abs(a) + abs(b) + abs(c) + abs(d) + abs(e) + abs(f)
    return numbers[OFFSET] + a + b + c + d + e + f, 1 + abs(numbers[OFFSET]) + size


@_finite
def _temperature(score, size, numbers, steps):
    """Return the temperature, and whether it could be another one."""
    if numbers[REGRESSED] != 0:
        found = power(min(-score, _HIGHEST_EXPONENT) * _LOG2E)
        return min(max(found, numbers[LOW]), numbers[HIGH]), False
    if numbers[SIGMOID] != 0:
        score = 1 / (1 + power(min(-score, _HIGHEST_EXPONENT) * _LOG2E))
    found, near = steps[1, 0], False
    for k in range(1, steps.shape[1]):
        if score >= steps[0, k]:
            found = steps[1, k]
        near |= abs(score - steps[0, k]) <= numbers[NEAR] * size
    return found, near


@_summing
def _share(row, place):
    """Let the prediction share with what overtook it, as ``softmax.keep_predictions`` does."""
    level = np.float64(row[place])
    for _ in range(SHARING_ROUNDS):
        total, count = np.float64(row[place]), 1
        for j in range(row.shape[0]):
            if row[j] >= level and j != place:
                total += row[j]
                count += 1
        level = total / count
    total = level
    for j in range(row.shape[0]):
        if j != place:
            total += min(np.float64(row[j]), level)
    for j in range(row.shape[0]):
        row[j] = min(np.float64(row[j]), level) / total
    row[place] = level / total
    _hold(row, place)


@_finite
def _scale(out, scale, top, place):
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] *= scale[i]
        out[i, place[i]] = top[i]


@_summing
def _factors(facts, place, again, numbers, lines, steps):
    """Write log2(e) / T of each row; the facts are those of :func:`_block`."""
    for i in range(facts.shape[1]):
        found, near = steps[1, 0], False
        if _routed(numbers, steps):
            score, size = _score(facts, i, numbers)
            found, near = _temperature(score + lines[EFFECTS, place[i]], size, numbers, steps)
        again[i] |= near or -facts[2, i] <= numbers[TIE] * found
        facts[5, i] = _LOG2E / found


@_summing
def _routed(numbers, steps):
    """Whether the temperature depends on the row."""
    return numbers[REGRESSED] != 0 or steps.shape[1] > 1


@_summing
def _block(work, out, again, facts, places, numbers, lines, steps):
    """Turn some rows, which have their squared norms and are sound, into probabilities."""
    norm, top, second, rest, weighted, factor = facts
    given, place = places
    kind = work.dtype.type
    _tops(work, top, given)
    place[:] = given
    slack = np.zeros_like(norm)
    if lines.shape[0] > BIAS:
        slack[:] = kind(numbers[SLACK]) * np.sqrt(norm)
        _move(work, lines, norm, again)
        _tops(work, top, place)
    _gaps(work, top, place, second)
    again |= (-second <= slack) | (slack > _COARSE)
    if _routed(numbers, steps):
        _moments(work, rest, weighted)
    _factors(facts, place, again, numbers, lines, steps)
    if numbers[TAIL] == 0:
        _softmax(work, factor, rest, out)
        top[:] = 1 / (1 + rest)
        _scale(out, top, top, place)
    else:
        _with_tail(work, out, again, facts, place, numbers)
    if numbers[KEEPS] != 0:
        for i in range(work.shape[0]):
            if given[i] != place[i]:
                again[i] |= numbers[EXACT] == 0
                _share(out[i], given[i])


@_summing
def _with_tail(work, out, again, facts, place, numbers):
    """Write probabilities with a temperature of the tail."""
    _, top, second, rest, own, factor = facts
    tail = work.dtype.type(_LOG2E / numbers[TAIL])
    _tailed(work, factor, tail, rest, own, out)
    for i in range(work.shape[0]):
        p = 1 / (1 + rest[i])
        scale = rest[i] * p / own[i]
        best = second[i] * tail
        again[i] |= best < SMALL
        if p - power(best) * scale > numbers[TIE] * p:
            top[i], own[i] = p, scale
        else:  # the largest of the others would overtake, or nearly
            again[i] |= numbers[EXACT] == 0 or second[i] * factor[i] < SMALL
            _mix(work[i], out[i], place[i], tail, factor[i], second[i])
            top[i], own[i] = out[i, place[i]], 1
    _scale(out, own, top, place)


def calibrate(z, out, again, numbers, lines, steps):
    """Write the probabilities of rows (n, C), and which of them are to be done again."""
    n, n_classes = z.shape
    size = max(1, min(_ROWS, _BLOCK // n_classes))
    work = np.empty((min(size, n), n_classes), z.dtype)
    facts = np.empty((6, len(work)), z.dtype)
    places = np.empty((2, len(work)), np.int32)
    for start in range(0, n, size):
        here, m = slice(start, min(start + size, n)), min(size, n - start)
        _take(z[here], work[:m], facts[0, :m], again[here])
        told = numbers, lines, steps
        _block(work[:m], out[here], again[here], facts[:, :m], places[:, :m], *told)


try:
    calibrate = njit(fastmath=_SUMS, error_model="numpy", cache=True)(calibrate)
except RuntimeError:  # there is no folder to keep it in
    calibrate = _summing(calibrate)
