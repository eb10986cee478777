"""`adapt` and `refresh` against known truth: part of `benchmarks/decisions_study.py`."""

from __future__ import annotations


def adapted(repeats, pool):
    return [], []


def refreshed(repeats, pool):
    return [], []


def adapted_real(folder, draws, pool):
    return [], []
