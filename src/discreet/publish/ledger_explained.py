"""Ledger explained: how one charge came about."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.sensitivity import Sensitivity
from discreet.ledgers import Spend, Statement
from discreet.publish.ledger_statement import planned_release
from discreet.publish.wording import mechanism_words

__all__ = ["explained"]


def explained(statement: Statement, release: str) -> str:
    """How the charges of a release came about, in words.

    Parameters
    ----------
    statement
        The statement of a ledger.
    release
        The release's name in its plan, its request, or the first digits of its id.

    Examples
    --------
    >>> from discreet import Exact, Laplace, Ledger, PureDP, Sensitivity
    >>> from discreet import release as publish
    >>> ledger = Ledger(":memory:", PureDP(1.0))
    >>> noisy = publish(Exact(10.0, Sensitivity(l1=1.0)), Laplace(4.0), ledger=ledger, request="visits")
    >>> print(explained(ledger.statement(), "visits").splitlines()[2])
      It is protected by laplace, scale 4; sensitivity ℓ₁ = 1, ℓ₂ = 1.
    """
    found = [spend for spend in statement.spends if _is(spend, release)]
    if not found:
        raise InvalidParameter("release", release, "is not in this ledger", "See `discreet ledger show` for the names.")
    return "\n\n".join("\n".join(_wrapped(_lines(spend, statement))) for spend in found)


def _wrapped(lines: Sequence[str]) -> list[str]:
    """Lines of at most 80 columns; what follows is indented further."""
    return [piece for line in lines for piece in wrap(line, 80, subsequent_indent="    ", break_long_words=False)]


def _is(spend: Spend, release: str) -> bool:
    planned = planned_release(spend.request)
    named = planned is not None and planned[0] == release
    return named or spend.request == release or (len(release) >= 4 and spend.release_id.startswith(release))


def _lines(spend: Spend, statement: Statement) -> list[str]:
    planned = planned_release(spend.request)
    name, period = planned if planned is not None else (spend.request or spend.release_id[:12], None)
    lines = [
        f"{name}{f', {period}' if period else ''}: entry {spend.seq}, {spend.created[:19].replace('T', ' ')} UTC",
        f"  It protects against {spend.protection}.",
        f"  It is protected by {_protected(spend)}.",
        f"  This guarantees {_guaranteed(spend.guarantee)}, verified from the mechanism's exact profile.",
        f"  The ledger counts in {statement.accounting}: it charged {spend.charge}; the total was then {spend.spent} "
        f"of {statement.budget}.",
    ]
    if spend.partition is not None:
        parts = "all parts" if spend.parts is None else ", ".join(spend.parts)
        lines.append(
            f"  It reads {parts} of {spend.partition!r}, which are disjoint: only the rise of the largest part's total "
            "is charged."
        )
    if spend.team is not None:
        lines.append(f"  It was spent on the part of the team {spend.team!r}.")
    if spend.plan is not None:
        lines.append(f"  It was released under the approved plan {spend.plan[:16]}….")
    return [*lines, f"  {'Its answer is stored.' if spend.answered else 'It has no stored answer.'}"]


def _protected(spend: Spend) -> str:
    moved = Sensitivity.from_dict(dict(spend.sensitivity)) if spend.sensitivity else None
    return mechanism_words({"mechanism": spend.mechanism, "sensitivity": moved})


def _guaranteed(guarantee: Guarantee | dict[str, Guarantee]) -> str:
    if isinstance(guarantee, Guarantee):
        return f"{guarantee} ({guarantee.sentence()})"
    return ", ".join(f"{one} in {part!r}" for part, one in guarantee.items())
