"""Recomputing: the audits that compute everything a second time, and how much of it in a short and in a deep run."""

from __future__ import annotations

from collections.abc import Callable

from discreet.audit.arithmetic import audit_arithmetic
from discreet.audit.calibrations import audit_calibrations
from discreet.audit.chosen_words import audit_chosen_words
from discreet.audit.declarations import audit_declarations
from discreet.audit.declared import audit_declared
from discreet.audit.guarantee_arithmetic import audit_guarantees
from discreet.audit.measurements import audit_measurements
from discreet.audit.reading import audit_engine, audit_reading
from discreet.audit.recomputed import Recomputed
from discreet.audit.tampering import audit_tampering

__all__ = ["RECOMPUTING"]

RECOMPUTING: dict[str, Callable[[bool], Recomputed]] = {
    "arithmetic": lambda _: audit_arithmetic(),
    "guarantees": lambda _: audit_guarantees(),
    "declarations": lambda _: audit_declarations(),
    "declared": lambda _: audit_declared(),
    "measurements": lambda _: audit_measurements(),
    "calibrations": lambda _: audit_calibrations(),
    "chosen words": lambda deep: audit_chosen_words(5_000 if deep else 150),
    "reading": lambda deep: audit_reading(3_000 if deep else 240),
    "engine": lambda _: audit_engine(),
    "tampering": lambda deep: audit_tampering(4_000 if deep else 120),
}
"""Name of a part to its audit; ``True`` asks for the deep one."""
