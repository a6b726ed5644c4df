"""Bounded: exact totals of what units keep.

What units lose is subtracted from the plain totals. All sums are sums of whole numbers, so the subtraction is exact.
Proofs: ``docs/proofs/bounding.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.core.errors import InvalidParameter
from discreet.core.rows.expressions import clipped, identifier, product_total, total
from discreet.core.rows.kept import Kept
from discreet.core.stability import unit_sum_steps

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = ["Bounded", "Totals"]


@dataclass(frozen=True)
class Totals:
    """Exact, private totals per cell: rows (or units) and sums of products of grid steps, as Python integers."""

    counts: NDArray[Any]
    sums: Mapping[tuple[str, ...], NDArray[Any]]

    def __repr__(self) -> str:
        return f"Totals(cells={self.counts.size}, sums={list(self.sums)}, values=‹private›)"


class Bounded(Kept):
    """The rows of a data set, bounded as declared and ready to be added up on the engine; parameters as of `Rows`."""

    def totals(self, products: Sequence[tuple[str, ...]] = ()) -> Totals:
        """Rows per cell, and for each product of columns the sum over rows of the product of grid steps.

        Where ``unit_sum`` is set a unit takes the place of a row, and its clipped sum that of the grid step.
        """
        wanted = [tuple(product) for product in products]
        for product in wanted:
            if not 1 <= len(product) <= 1 + self.squares or not set(product) <= set(self.columns):
                raise InvalidParameter("products", product, f"must be one or two of {self.columns}", "Check the names.")
        if self._by_row:
            return self._collect([(1, self._from_rows(self._rows, wanted))], wanted)
        if self.unit_sum is not None:
            return self._unit_totals(wanted)
        parts = [(1, self._from_pairs(self._pairs, wanted))]
        if self._lost_pairs is not None:
            parts.append((-1, self._from_pairs(self._lost_pairs, wanted)))
        if self._lost_rows is not None:
            parts.append((-1, self._from_rows(self._lost_rows, wanted)))
        return self._collect(parts, wanted)

    def _unit_totals(self, wanted: list[tuple[str, ...]]) -> Totals:
        parts = [(1, self._from_unit_values(self._pairs, wanted))]
        if self._lost_pairs is not None:
            parts.append((-1, self._from_unit_values(self._lost_pairs, wanted)))
        return self._collect(parts, wanted)

    def _unit_values(self, pairs: ir.Table) -> ir.Table:
        """One clipped value ``v0`` per unit and cell."""
        low, high = unit_sum_steps(self.schema, self.columns, self.unit_sum)
        return pairs.select(c=pairs.c, v0=clipped(pairs.s0, low, high))

    def _from_unit_values(self, pairs: ir.Table, wanted: list[tuple[str, ...]]) -> ir.Table:
        values = self._unit_values(pairs)
        low, high = unit_sum_steps(self.schema, self.columns, self.unit_sum)
        reach = max(abs(low), abs(high))
        sums = {
            f"t{i}": total(values.v0, reach) if len(one) == 1 else product_total(values.v0, values.v0, reach**2)
            for i, one in enumerate(wanted)
        }
        return values.group_by("c").aggregate(n=values.count(), **sums)

    def _from_rows(self, rows: ir.Table, wanted: list[tuple[str, ...]]) -> ir.Table:
        sums = {}
        for i, product in enumerate(wanted):
            steps = [rows[f"v{self.columns.index(name)}"] for name in product]
            reach = math.prod(self._reach(name) for name in product)
            sums[f"t{i}"] = total(steps[0], reach) if len(steps) == 1 else product_total(steps[0], steps[1], reach)
        return rows.group_by("c").aggregate(n=rows.count(), **sums)

    def _from_pairs(self, pairs: ir.Table, wanted: list[tuple[str, ...]]) -> ir.Table:
        sums = {}
        for i, product in enumerate(wanted):
            positions = sorted(self.columns.index(name) for name in product)
            column = f"s{positions[0]}" if len(positions) == 1 else f"p{positions[0]}_{positions[1]}"
            sums[f"t{i}"] = pairs[column].cast("decimal(38, 0)").sum()
        return pairs.group_by("c").aggregate(n=pairs.n.sum(), **sums)

    def _collect(self, parts: list[tuple[int, ir.Table]], wanted: list[tuple[str, ...]]) -> Totals:
        counts = np.zeros(self.cells, dtype=object)
        sums = {product: np.zeros(self.cells, dtype=object) for product in wanted}
        for sign, part in parts:
            fetched = self.dataset.fetch(part).to_pydict()
            for row, cell in enumerate(fetched["c"]):
                if cell is None:
                    continue
                counts[cell] += sign * int(fetched["n"][row])
                for i, product in enumerate(wanted):
                    sums[product][cell] += sign * int(fetched[f"t{i}"][row])
        return Totals(counts, sums)

    def histograms(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """For every cell, the grid steps of the single numeric column that occur and how often, in order."""
        if len(self.columns) != 1:
            raise InvalidParameter("columns", self.columns, "must be exactly one numeric column", "Name one column.")
        parts = [(1, self._rows)]
        if not self._by_row and self.unit_sum is not None:
            parts = [(1, self._unit_values(self._pairs))]
            if self._lost_pairs is not None:
                parts.append((-1, self._unit_values(self._lost_pairs)))
        elif not self._by_row:
            if self._lost_pairs is not None:
                parts.append((-1, self._rows.semi_join(self._lost_pairs, ["u", "c"])))
            if self._lost_rows is not None:
                parts.append((-1, self._lost_rows))
        found: list[dict[int, int]] = [{} for _ in range(self.cells)]
        for sign, part in parts:
            whole = part.filter(part.c.notnull())
            grouped = self.dataset.fetch(whole.group_by(["c", "v0"]).aggregate(n=whole.count()))
            for cell, step, rows in zip(*(grouped.column(name).to_numpy() for name in ("c", "v0", "n")), strict=True):
                counts = found[int(cell)]
                counts[int(step)] = counts.get(int(step), 0) + sign * int(rows)
        return [_sorted(counts) for counts in found]

    def matrix(self) -> NDArray[np.float64]:
        """The clipped values of the numeric columns, one row per row of the data, brought here. Private."""
        if not self._by_row:
            raise InvalidParameter(
                "unit", self.schema.unit.name, "rows can only be taken one by one where a row is the unit",
                "Ask of data with one row per unit, and leave the id column out of the schema.",
            )  # fmt: skip
        fetched = self.dataset.fetch(self._rows.select(*(f"v{i}" for i in range(len(self.columns)))))
        grids = [self.schema.bounds(name).grid for name in self.columns]
        steps = [fetched.column(f"v{i}").to_numpy().astype(float) for i in range(len(self.columns))]
        return np.column_stack([step * grid for step, grid in zip(steps, grids, strict=True)])

    def units(self) -> int:
        """Number of units (rows, where rows are the units); public under replace-one neighbours only."""
        table = self.dataset.table
        if self._by_row:
            count = table.aggregate(n=table.count())
        else:
            count = table.aggregate(n=identifier(table[self.schema.unit.column], "").nunique())
        return int(self.dataset.fetch(count).column("n")[0].as_py())


def _sorted(counts: dict[int, int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    steps = sorted(step for step, rows in counts.items() if rows)
    return np.array(steps, dtype=np.int64), np.array([counts[step] for step in steps], dtype=np.int64)
