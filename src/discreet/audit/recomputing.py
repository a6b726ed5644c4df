"""Recomputing: the audits that compute everything a second time, and how much of it in a short and in a deep run."""

from __future__ import annotations

from collections.abc import Callable

from discreet.audit.adding_up import audit_adding_up
from discreet.audit.amplified import audit_amplified
from discreet.audit.calibrations import audit_calibrations
from discreet.audit.chosen_words import audit_chosen_words
from discreet.audit.declarations import audit_declarations
from discreet.audit.declared import audit_declared
from discreet.audit.formulas import audit_formulas
from discreet.audit.governed_ledgers import audit_governed_ledgers
from discreet.audit.guarantee_arithmetic import audit_arithmetic, audit_guarantees
from discreet.audit.measurements import audit_measurements
from discreet.audit.near_ids import audit_near_ids
from discreet.audit.reading import audit_engine, audit_reading
from discreet.audit.recomputed import Recomputed
from discreet.audit.statistic_values import audit_statistic_values
from discreet.audit.tampering import audit_tampering

__all__ = ["RECOMPUTING"]

RECOMPUTING: dict[str, Callable[[bool], Recomputed]] = {
    "arithmetic": lambda _: audit_arithmetic(),
    "guarantees": lambda _: audit_guarantees(),
    "amplification": lambda _: audit_amplified(),
    "declarations": lambda _: audit_declarations(),
    "declared": lambda _: audit_declared(),
    "statistics": lambda _: audit_statistic_values(),
    "measurements": lambda _: audit_measurements(),
    "calibrations": lambda _: audit_calibrations(),
    "chosen words": lambda deep: audit_chosen_words(5_000 if deep else 150),
    "reading": lambda deep: audit_reading(3_000 if deep else 240),
    "engine": lambda _: audit_engine(),
    "adding up": lambda _: audit_adding_up(),
    "formulas": lambda _: audit_formulas(),
    "nearly equal ids": lambda _: audit_near_ids(),
    "governed ledgers": lambda deep: audit_governed_ledgers(60 if deep else 8),
    "tampering": lambda deep: audit_tampering(4_000 if deep else 120),
}
"""Name of a part to its audit; ``True`` asks for the deep one."""
