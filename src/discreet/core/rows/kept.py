"""Kept: which cells and rows a unit keeps, chosen by keys of its own data.

A key is SHA-256 of the data set's salt and the unit's own data, so the choice is uniform, the same on every engine,
and never depends on anybody else. Work is done in the order that keeps it cheap: aggregate first, then key only the
units over their limit. Proofs: ``docs/proofs/bounding.md``.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from discreet.core.rows.encoded import Rows
from discreet.core.rows.expressions import identifier, product_total, total

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = ["Kept"]

_KEY_DIGITS = 8
"""Hexadecimal digits that order a unit's cells; one SHA-256 serves eight cells."""
_KEYS_PER_HASH = 64 // _KEY_DIGITS
_MOST_BLOCKS = 4
_ROW_DIGITS = 12
"""Hexadecimal digits that order a unit's rows; DuckDB keeps twelve characters inline."""


class Kept(Rows):
    """Rows, with what each unit loses of them."""

    def _hash(self, *parts: Any) -> Any:
        """SHA-256 over one canonical string; the unit comes last, so no two strings coincide."""
        import ibis

        text = ibis.literal(self.salt)
        for part in parts:
            text = text.concat("|", part.cast("string"))
        return text.hexdigest("sha256")

    @cached_property
    def _pairs(self) -> ir.Table:
        """One row per unit and cell: number of rows and sums, computed once."""
        rows = self._rows
        sums = {f"s{i}": total(rows[f"v{i}"], self._reach(name)) for i, name in enumerate(self.columns)}
        if self.squares and self.unit_sum is None:
            for i, j in _positions(len(self.columns)):
                reach = self._reach(self.columns[i]) * self._reach(self.columns[j])
                sums[f"p{i}_{j}"] = product_total(rows[f"v{i}"], rows[f"v{j}"], reach)
        pairs = rows.group_by(["u", "c"]).aggregate(n=rows.count(), **sums)
        return self.dataset.keep(pairs.filter(pairs.c.notnull()))

    def _reach(self, name: str) -> int:
        bounds = self.schema.bounds(name)
        return max(abs(bounds.lowest), abs(bounds.highest))

    @cached_property
    def _lost_pairs(self) -> ir.Table | None:
        """Pairs of unit and cell beyond the limit on groups."""
        import ibis

        groups = self.limits.groups
        if groups is None or groups >= self.cells:
            return None
        pairs = self._pairs
        over = pairs.group_by("u").aggregate(groups=pairs.count())
        over = over.filter(over.groups > groups).select("u")
        blocks = -(-self.cells // _KEYS_PER_HASH)
        if blocks <= _MOST_BLOCKS:  # few hashes per unit serve all of its cells
            hashes = {f"h{block}": self._hash(ibis.literal(block), over.u) for block in range(blocks)}
            some = pairs.join(over.mutate(**hashes), "u")
            digits = ibis.cases(
                *((some.c < (block + 1) * _KEYS_PER_HASH, some[f"h{block}"]) for block in range(blocks)), else_=""
            )
        else:
            some = pairs.semi_join(over, "u")
            digits = self._hash(some.c // _KEYS_PER_HASH, some.u)
        keyed = some.mutate(key=digits.substr(some.c % _KEYS_PER_HASH * _KEY_DIGITS, _KEY_DIGITS))
        within = ibis.window(group_by=keyed.u, order_by=[keyed.key, keyed.c])
        ranked = keyed.mutate(rank=ibis.row_number().over(within))
        return self.dataset.keep(ranked.filter(ranked["rank"] >= groups).select(*pairs.columns))

    @cached_property
    def _lost_rows(self) -> ir.Table | None:
        """Rows beyond the limit on rows, among the pairs that are kept."""
        import ibis

        if self.unit_sum is not None:
            return None
        scope = ["u"] if self.limits.rows is None else ["u", "c"]
        limit = self.limits.most_rows_in_a_group()
        rows = self._over_rows(scope, limit)
        names = [name for name in rows.columns if name.startswith("v")]
        same = ibis.window(group_by=[rows.u, rows.c, *(rows[name] for name in names)], order_by=rows.c)
        numbered = rows.mutate(copy=ibis.row_number().over(same))
        text = self._hash(numbered.c, *(numbered[name] for name in names), numbered["copy"], numbered.u)
        keyed = numbered.mutate(key=text.left(_ROW_DIGITS))
        order = [keyed[name] for name in ("key", "c", *names, "copy")]
        within = ibis.window(group_by=[keyed[name] for name in scope], order_by=order)
        ranked = keyed.mutate(rank=ibis.row_number().over(within))
        return self.dataset.keep(ranked.filter(ranked["rank"] >= limit).select(*rows.columns))

    def _over_rows(self, scope: list[str], limit: int) -> ir.Table:
        """All rows of those units (or pairs of unit and cell) that hold more rows than the limit."""
        pairs = self._pairs
        if scope == ["u"]:
            held = pairs.group_by("u").aggregate(held=pairs.n.sum())
            rows = self._rows.semi_join(held.filter(held.held > limit).select("u"), "u")
            return rows.filter(rows.c.notnull())
        over = pairs.filter(pairs.n > limit).select("u", "c")
        if self._lost_pairs is not None:
            over = over.anti_join(self._lost_pairs, scope)
        # Few units are over: leave out the others before their labels and numbers are read again.
        name = str(self.schema.unit.column)
        table, units = self.dataset.table, over.select("u").distinct()
        some = table.semi_join(units, [identifier(table[name], name) == units.u])
        return self._encoded(some).semi_join(over, scope)


def _positions(columns: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(columns) for j in range(i, columns)]
