"""Row expression: a condition or a derived value, as a tree of operations on the declared columns of one row.

Whatever language a tree was written in, nothing in it can reach another row: there are no sums over rows, no windows
and no queries. Proof: ``docs/proofs/rows.md``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["RowExpression", "Term", "label_of"]


@dataclass(frozen=True)
class Term:
    """One operation of a tree, with its operands: terms and plain values."""

    op: str
    parts: tuple[Any, ...]

    def names(self) -> frozenset[str]:
        """The columns that it reads."""
        if self.op == "column":
            return frozenset(self.parts)
        return frozenset(name for part in self.parts if isinstance(part, Term) for name in part.names())


class RowExpression(ABC):
    """What a language makes of a text."""

    text: str
    term: Term

    @abstractmethod
    def check(self, columns: Mapping[str, Any], name: str, kinds: tuple[str, ...]) -> None:
        """Refuse, under this name, what does not fit the declared columns or gives none of these kinds of values."""

    def names(self) -> frozenset[str]:
        """The columns that it reads."""
        return self.term.names()


def label_of(term: Term) -> Any:
    """The label that a plain value stands for."""
    value = term.parts[0]
    return int(value) if isinstance(value, float) and value.is_integer() else value
