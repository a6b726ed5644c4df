"""Checkpoint: what the entries of a long ledger added up to, so that opening it need not add them up again.

It is bound to every byte of those entries by a hash, only its own user believes it, and verification ignores it.
Without one a ledger opens as well, only later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from discreet.core.ledger.balance import FORMAT, Amount, Balance, ParallelSpending, Partition, texts
from discreet.core.ledger.journal import Entry
from discreet.core.protection import Neighbours, Unit

__all__ = ["EVERY", "restored", "state_of"]

EVERY = 5000
"""Entries after which a new one is worth its time."""
_MEANING = [FORMAT, 1]
"""Of entries, and of what is kept here; other numbers are another version's."""


def state_of(balance: Balance) -> dict[str, Any]:
    """Everything in a balance that does not follow from its first entry, as JSON-ready data."""
    consent = balance.consent
    return {
        "meaning": _MEANING,
        "seq": balance.seq,
        "head": balance.head,
        "neighbours": balance.neighbours and balance.neighbours.value,
        "unit": balance.unit and balance.unit.to_dict(),
        "sources": sorted(balance.sources),
        "anchors": sorted(balance.anchors),
        "meanings": dict(consent.meanings),
        "approving": {plan: sorted(names) for plan, names in consent.approving.items()},
        "made": [[*key, count] for key, count in consent.made.items()],
        "window": balance.window,
        "amounts": [texts(one) for one in (balance.spent, balance.ever, balance.renewed)],
        "renewals": sorted(balance.renewals),
        "teams": {team: texts(spent) for team, spent in balance.by_team.items()},
        "partitions": [_parallel(one) for one in balance.partitions.values()],
        "requests": dict(balance.requests),
        "releases": dict(balance.releases),
        "answers": [list(pair) for pair in balance.answers.items()],
    }


def _parallel(one: ParallelSpending) -> list[Any]:
    declared, extra = one.partition, {part: texts(spent) for part, spent in one.extra.items()}
    return [declared.name, list(declared.parts), declared.membership_public, texts(one.highest), extra]


def restored(where: str, first: Entry, state: Mapping[str, Any]) -> Balance | None:
    """The balance that a state was made of; None where it is another version's."""
    if state["meaning"] != _MEANING:
        return None
    balance = Balance(where)
    balance.apply(first)
    neighbours, unit, consent = state["neighbours"], state["unit"], balance.consent
    balance.seq, balance.head, balance.window = state["seq"], state["head"], state["window"]
    balance.neighbours, balance.unit = neighbours and Neighbours(neighbours), unit and Unit.from_dict(unit)
    balance.sources, balance.anchors = set(state["sources"]), set(state["anchors"])
    consent.meanings = dict(state["meanings"])
    consent.approving = {plan: set(names) for plan, names in state["approving"].items()}
    consent.made = Counter({(plan, claimed): count for plan, claimed, count in state["made"]})
    balance.spent, balance.ever, balance.renewed = map(_amount, state["amounts"])
    balance.renewals = set(state["renewals"])
    balance.by_team = {team: _amount(spent) for team, spent in state["teams"].items()}
    for name, parts, public, highest, extra in state["partitions"]:
        one = ParallelSpending(Partition(name, tuple(parts), public), balance.accounting.nothing)
        one.highest, one.extra = _amount(highest), {part: _amount(spent) for part, spent in extra.items()}
        balance.partitions[name] = one
    balance.requests, balance.releases = state["requests"], state["releases"]
    balance.answers = dict(state["answers"])
    return balance


def _amount(numbers: list[str]) -> Amount:
    return tuple(map(Fraction, numbers))
