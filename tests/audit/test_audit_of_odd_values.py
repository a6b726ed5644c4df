"""Faults of the kinds that a quiet data set hides: the audit finds each of them."""

from __future__ import annotations

import warnings
from dataclasses import replace
from unittest.mock import patch

from flint import ctx

from discreet.audit import reading, sampling, written
from discreet.audit.arithmetic import audit_guarantees
from discreet.audit.ledgers import audit_ledger_programs
from discreet.audit.report import recomputed
from discreet.audit.tampering import audit_spending
from discreet.core.ledger import account, balance
from discreet.core.ledger.balance import Accounting
from discreet.core.noise import choice
from discreet.core.rows import read
from discreet.mechanisms import geometric
from discreet.mechanisms.composition import Responses


def test_a_warning_about_bytes_that_are_no_text_is_found():
    decoded = read._CsvFile._decoded

    def warned(self, decoder, raw, line):
        text = decoded(self, decoder, raw, line)
        if b"\\x" in text:
            warnings.warn("discreet: bytes that are no text", stacklevel=2)
        return text

    with patch.object(read._CsvFile, "_decoded", warned):
        assert any("warnings" in one for one in recomputed("odd", [written._odd_values]).findings)


def test_numbers_that_lose_digits_beside_a_text_are_found():
    text = read._number_text
    with patch.object(read, "_number_text", lambda one: f"{one:.6g}e+00" if one % 1 else text(one)):
        assert not all(same for _, same in reading._texts())


def test_a_race_with_a_rounded_scale_is_found():
    race = choice.noisy_argmax
    rounded = lambda scores, family, scale, **more: race(scores, family, float(f"{scale:.2g}"), **more)  # noqa: E731
    with ctx.workprec(400), patch.object(sampling, "noisy_argmax", rounded):
        assert not all(same for _, same in sampling._races(1))


def test_a_small_delta_for_nothing_is_found():
    cost = Accounting.cost

    def cheap(self, guarantee):
        found = cost(self, guarantee)
        return found if len(found) == 1 or found[1] > 1e-9 else (found[0], found[1] * 0)

    with patch.object(Accounting, "cost", cheap):
        assert not audit_ledger_programs().passed


def test_a_checkpoint_that_forgets_parts_is_found():
    restored = balance.restored

    def forgetful(where, first, state):
        balance = restored(where, first, state)
        for one in balance.partitions.values():
            one.extra = {}
        return balance

    with patch.object(account, "restored", forgetful):
        assert not audit_ledger_programs().passed


def test_looks_of_two_threads_without_a_lock_are_found():
    class Open:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        acquire = release = lambda self, *_, **__: True

    opened = account.Account.__init__

    def unlocked(self, *given, **options):
        opened(self, *given, **options)
        self._journal.lock = Open()

    with patch.object(account.Account, "__init__", unlocked):
        assert not audit_spending()["followed"]


def test_a_log_that_tells_seconds_is_found():
    found = [("rows", {"run.log": written._NOW.isoformat().encode()})]
    assert not all(same for _, same in written._same(found))


def test_a_loss_that_is_missing_from_a_composition_is_found():
    whole = geometric.geometric_loss
    with patch.object(geometric, "geometric_loss", lambda *given: replace(loss := whole(*given), atoms=loss.atoms[1:])):
        assert "losses of whole noise are not all there" in audit_guarantees().findings


def test_a_failure_that_a_composition_forgets_is_found():
    stated = Responses.epsilon_at
    with patch.object(Responses, "epsilon_at", lambda self, delta: stated(self, delta + float(self.failure))):
        assert "δ of a composition" in audit_guarantees().findings
