"""Audits that compute everything twice: they pass, and they find a fault in each thing that they compute."""

from dataclasses import replace
from unittest.mock import patch

import pytest

from discreet.audit.arithmetic import audit_amplified, audit_arithmetic, audit_guarantees
from discreet.audit.catalogue import audit_shapes
from discreet.audit.declarations import audit_declarations, audit_declared
from discreet.audit.identities import audit_near_ids
from discreet.audit.ledgers import audit_governed_ledgers
from discreet.audit.reading import audit_adding_up, audit_engine, audit_formulas, audit_reading
from discreet.audit.run import RECOMPUTING
from discreet.audit.sampling import audit_calibrations, audit_chosen_words
from discreet.audit.statistic_values import audit_measurements, audit_statistic_values
from discreet.audit.tampering import audit_tampering
from discreet.core import guarantee, numbers, schema
from discreet.core.ledger import balance, journal
from discreet.core.noise import choice, sampler
from discreet.core.rows import expressions, read, totals
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms import laplace
from discreet.mechanisms.omission import amplification
from discreet.questions.bounded import SampleMoment
from tests.planted_faults import everywhere

AUDITS = {
    "arithmetic": audit_arithmetic,
    "guarantees": audit_guarantees,
    "shapes": audit_shapes,
    "amplification": audit_amplified,
    "declarations": audit_declarations,
    "declared": audit_declared,
    "statistics": audit_statistic_values,
    "measurements": audit_measurements,
    "calibrations": audit_calibrations,
    "chosen words": audit_chosen_words,
    "reading": lambda: audit_reading(60),
    "engine": audit_engine,
    "adding up": audit_adding_up,
    "formulas": audit_formulas,
    "nearly equal ids": audit_near_ids,
    "governed ledgers": lambda: audit_governed_ledgers(4, 30),
    "tampering": lambda: audit_tampering(20),
}


def test_all_of_them_are_here():
    assert AUDITS.keys() == RECOMPUTING.keys()


@pytest.mark.parametrize("name", AUDITS)
def test_both_computations_agree(name):
    audit = AUDITS[name]()
    assert audit.passed, audit.findings
    assert audit["checks"] > 100 or name in ("engine", "nearly equal ids")
    assert audit.to_dict()["findings"] == []


def not_flipped():
    return patch.object(sampler, "with_sign", lambda noise, words: noise)


def halved_bound():
    original = sampler.LaplaceFamily.fast
    return patch.object(
        sampler.LaplaceFamily, "fast", lambda self, words, part: (original(self, words, part)[0], 2.0**-60)
    )


def first_wins():
    return everywhere(choice.photo_finish, lambda bits, enclose, entropy: min(bits))


def rounded_to_even():
    original = numbers.Grid.offsets
    return patch.object(
        numbers.Grid,
        "offsets",
        lambda self, name, values: original(replace(self, step=2 * self.step), name, values) * 2,
    )


def rounded_down():
    return patch.object(guarantee, "up", lambda value: float(value.mid()) if hasattr(value, "mid") else float(value))


def half_declared():
    return everywhere(schema.in_parts, lambda limits, groups, coordinates, neighbours: Sensitivity(l1=1.0))


def twice_the_noise():
    original = laplace.Laplace.calibrate.__func__
    return patch.object(
        laplace.Laplace, "calibrate", classmethod(lambda kind, *facts: kind(2 * original(kind, *facts).scale))
    )


def quotes_ignored():
    return patch.object(read, "_end_of_records", lambda piece: piece.rfind(b"\n") + 1)


def forgetful_witness():
    return patch.object(journal, "_witnessed", lambda record: {})


def no_chain():
    return patch.object(balance, "chained", lambda head, seq, kind, body: "0" * 64)


def undivided():
    return patch.dict(totals.__globals__, {"_limbs": lambda factors, reaches: [(list(factors), list(reaches))]})


def no_leap_years():
    original = expressions.civil
    return everywhere(expressions.civil, lambda days: (original(days)[0], original(days)[1], original(days)[1]))


def any_signature():
    return patch.object(balance.Approvals, "check", lambda self, head, content: None)


def quarters_as_months():
    return patch.dict(balance.WINDOWS, {"month": 4})


def no_sampled_delta():
    return patch.object(amplification, "_rebuilt", lambda guarantee, epsilon, delta: type(guarantee)(epsilon))


def narrow_domain():
    right = SampleMoment.domain
    wrong = lambda self, n=None: (0.0, 0.1) if self.of == "variance" else right(self, n)  # noqa: E731
    return patch.object(SampleMoment, "domain", wrong)


FAULTS = {
    "a product overflows": (undivided, "adding up"),
    "a day is its month": (no_leap_years, "formulas"),
    "anybody signs": (any_signature, "governed ledgers"),
    "a month is a year": (quarters_as_months, "governed ledgers"),
    "a sample forgets δ": (no_sampled_delta, "amplification"),
    "a domain is too narrow": (narrow_domain, "statistics"),
    "the sign bit is ignored": (not_flipped, "chosen words"),
    "doubles promise too much": (halved_bound, "chosen words"),
    "a tie goes to the first": (first_wins, "chosen words"),
    "a grid is twice as coarse": (rounded_to_even, "arithmetic"),
    "a guarantee is rounded down": (rounded_down, "guarantees"),
    "a sensitivity is too small": (half_declared, "declared"),
    "noise is wasted": (twice_the_noise, "calibrations"),
    "a record ends inside quotes": (quotes_ignored, "reading"),
    "nobody remembers the last entry": (forgetful_witness, "tampering"),
    "entries are not chained": (no_chain, "tampering"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name):
    plant, audit = FAULTS[name]
    with plant():
        assert not AUDITS[audit]().passed
