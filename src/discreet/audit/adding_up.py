"""Adding up: totals of the engine beside plain Python, where bounds are wide, units have shares and tables are joined.

`check_source` compares ordinary totals of any engine. Here are those that take other paths: products that 64 bits
cannot hold, sums of more than four factors, clipped sums of units by partition, rows with weights, what limits leave
out, how many values can be used, and rows of two tables.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.audit.recomputed import Compared, Recomputed, recomputed
from discreet.core.rows import (
    Selected,
    Snapshot,
    coarsening,
    histograms,
    left_out,
    matrix,
    take,
    totals,
    totals_by_partition,
    unit_counts,
    usable_totals,
    weighted_totals,
)
from discreet.core.rows.join import take_joined
from discreet.core.schema import Bounds, Categories, Column, Contribution, PrivacyUnit, Related, Schema, Unlisted
from discreet.declarations.language import Formula
from discreet.opening import open_source
from discreet.testing.sources import documented_choice

__all__ = ["audit_adding_up"]

_SALT = "5a" * 32


def audit_adding_up() -> Recomputed:
    """Add up hostile rows on the engine and in plain Python.

    Examples
    --------
    >>> audit_adding_up().passed
    True
    """
    checks = [_cells, _products, _merged, _units, _weighed, _left_out, _labels, _usable, _joins]
    return recomputed("Totals of the engine", checks)


def _snapshot(rows: Sequence[dict[str, Any]], schema: Schema) -> Snapshot:
    import pyarrow

    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return take(open_source(pyarrow.table(columns)), schema, salt=_SALT)


# ---- products -------------------------------------------------------------------------------------------------------

_WIDE = {
    "tiny": Bounds(-3, 5, grid=1),
    "short": Bounds(-(2**15), 2**15, grid=1),
    "long": Bounds(-(2**31), 2**31 - 2, grid=1),
    "half": Bounds(-9.5, 2**33, grid=0.5),
    "vast": Bounds(-(2**39), 2**39 - 1, grid=1),
}
"""Numbers at the ends of the types that hold them."""


def _wide_rows(count: int = 9) -> list[dict[str, float]]:
    draw = random.Random(7)
    ends: list[dict[str, float]] = [{name: one.high for name, one in _WIDE.items()}]
    ends.append({name: one.low for name, one in _WIDE.items()})
    ends += [{name: float(draw.randrange(int(b.low), int(b.high))) for name, b in _WIDE.items()} for _ in range(count)]
    return ends


def _products() -> Iterator[Compared]:
    """One to four factors; nothing overflows and nothing is rounded."""
    rows, schema = _wide_rows(), Schema(columns=_WIDE)
    snapshot = _snapshot(rows, schema)
    products = [p for size in (1, 2, 3, 4) for p in itertools.combinations_with_replacement(_WIDE, size)]
    asked = [product for place, product in enumerate(products) if len(product) < 3 or place % 3 == 0]
    asked += [("vast",) * 4, ("half", "vast", "vast", "long"), ("tiny", "tiny", "vast"), ("short",) * 4]
    steps = [{name: schema.bounds(name).index(value) for name, value in row.items()} for row in rows]
    for batch in _batches(list(dict.fromkeys(asked))):
        found = totals(snapshot, Selected(columns=tuple(_WIDE)), batch)
        for product, total in found.sums.items():
            wanted = sum(math.prod(one[name] for name in product) for one in steps)
            yield f"a sum of products of {', '.join(product)}", total[0] == wanted
    values = matrix(snapshot, list(_WIDE))
    exact = [[float(schema.bounds(n).index(v) * schema.bounds(n).step) for n, v in row.items()] for row in rows]
    yield "rows one by one", sorted(values.tolist()) == sorted(exact)


def _batches(products: list[tuple[str, ...]], size: int = 8) -> Iterator[list[tuple[str, ...]]]:
    """A few at a time: a sum of four wide factors is sixteen sums on the engine."""
    for start in range(0, len(products), size):
        yield products[start : start + size]


def _merged() -> Iterator[Compared]:
    """More than four factors: steps merge into the fewest that 38 digits hold."""
    rows, schema = _wide_rows(), Schema(columns=_WIDE)
    snapshot = _snapshot(rows, schema)
    for factors in (1, 2, 4, 5, 6, 8):
        steps = {}
        for name, bounds in _WIDE.items():
            merged, reach = coarsening(bounds, factors)
            across = bounds.highest - bounds.lowest
            yield "steps merge by powers of two", merged.bit_count() == 1 and reach == (across + merged // 2) // merged
            if factors > 4:  # below, nothing merges: limbs hold the product
                room = 86 // factors  # bits of one factor in a product of 86
                least = max(0, across.bit_length() - room)
                yield "no more merge than must", merged == 2**least
            else:
                yield "few factors are exact", merged == 1
            steps[name] = [(bounds.index(row[name]) - bounds.lowest + merged // 2) // merged for row in rows]
        names = tuple(_WIDE) * 2
        product = names[:factors]
        used = tuple(dict.fromkeys(product))
        found = totals(snapshot, Selected(columns=used), [product], from_lowest=True).sums[product]
        wanted = sum(math.prod(steps[name][place] for name in product) for place in range(len(rows)))
        yield f"products of {factors} factors", found[0] == wanted


def _cells() -> Iterator[Compared]:
    """Cells whose numbers need more than 16 bits."""
    draw = random.Random(5)
    labels = [f"l{place}" for place in range(200)]
    rows = [{"a": draw.choice(labels), "b": draw.choice(labels[-3:])} for _ in range(20)]
    rows.append({"a": labels[-1], "b": labels[-1]})
    schema = Schema(columns={"a": Categories(labels), "b": Categories(labels)})
    found = totals(_snapshot(rows, schema), Selected(by=("a", "b"))).counts
    wanted = Counter(200 * labels.index(row["a"]) + labels.index(row["b"]) for row in rows)
    yield "many cells", {place: int(found[place]) for place in np.flatnonzero(found)} == dict(wanted)


# ---- units ----------------------------------------------------------------------------------------------------------

_LIMITS = (Contribution(groups=1, rows=2), Contribution(rows=2), Contribution(total=3), Contribution(groups=2, rows=9))


def _unit_schema(limits: Contribution) -> Schema:
    columns: dict[str, Column] = {"arm": Categories(["a", "b", "c"]), "x": Bounds(-4, 3, grid=0.5)}
    return Schema(columns=columns, unit=PrivacyUnit("who", contribution=limits))


def _unit_rows(count: int = 160) -> list[dict[str, Any]]:
    draw = random.Random(11)
    values = (None, -9.0, -4.0, -1.25, 0.0, 0.5, 3.0, 7.0)
    return [
        {"who": f"p{min(draw.randrange(25), 20)}", "arm": draw.choice(("a", "b", "c", "?")), "x": draw.choice(values)}
        for _ in range(count)
    ]


def _encoded(rows: Sequence[dict[str, Any]], schema: Schema) -> list[tuple[Any, ...]]:
    """Unit, cell, code and grid step of the rows that take part."""
    labels, bounds = list(schema.categories("arm").labels), schema.bounds("x")
    return [
        (row["who"], labels.index(row["arm"]), labels.index(row["arm"]), bounds.index(row["x"]))
        for row in rows
        if row["arm"] in labels and row["x"] is not None
    ]


def _digits(count: int, *parts: str) -> int:
    return int(hashlib.sha256("|".join((_SALT[:32], *parts)).encode()).hexdigest()[:count], 16)


def _units() -> Iterator[Compared]:
    """Clipped sums of units, by arm and by partition, and their histograms."""
    rows, sums = _unit_rows(), Bounds(-6, 4, grid=0.5)
    selected = Selected(by=("arm",), columns=("x",), unit_sum=sums)
    snapshots = {limits: _snapshot(rows, _unit_schema(limits)) for limits in _LIMITS}
    for (limits, snapshot), partitions in itertools.product(snapshots.items(), (None, 7)):
        schema = snapshot.schema
        found = totals_by_partition(snapshot, selected, partitions)
        generous = Contribution(groups=limits.groups, rows=len(rows)) if limits.groups else Contribution(rows=len(rows))
        own: dict[tuple[str, int], int] = defaultdict(int)
        for who, cell, _, step in documented_choice(_encoded(rows, schema), generous, _SALT):
            own[who, cell] += step
        wanted = np.zeros((3, 3, partitions or 1), dtype=object)
        for (who, cell), total in own.items():
            above = min(max(total, sums.lowest), sums.highest) - sums.lowest
            wanted[:, cell, _digits(4, "p", who) * (partitions or 1) // 16**4] += np.array([1, above, above**2])
        yield "sums of units by partition", bool((np.array(found) == wanted).all())
        if partitions is None:
            counted = [Counter[int]() for _ in range(3)]
            for (_, cell), total in own.items():
                counted[cell][min(max(total, sums.lowest), sums.highest)] += 1
            shown = histograms(snapshot, selected)
            yield (
                "histograms of units",
                [dict(zip(a.tolist(), b.tolist(), strict=True)) for a, b in shown] == list(map(dict, counted)),
            )


def _weighed() -> Iterator[Compared]:
    """All rows of units, with weights that add up to their limits: whole parts of a row, then k/m of their sums."""
    rows = _unit_rows()
    for limits, degree in itertools.product((Contribution(rows=2), Contribution(total=3)), (0, 1, 4)):
        schema = _unit_schema(limits)
        taking, bounds = _encoded(rows, schema), schema.bounds("x")
        across, most = bounds.highest - bounds.lowest, limits.rows or limits.total or 0
        whole = across**degree * (2**30 // across**degree)
        held = Counter(row[: 2 if limits.rows else 1] for row in taking)
        sums = Counter[tuple[str, int, int]]()
        for who, cell, _, step in taking:
            u = Fraction(step - bounds.lowest, across)
            for j in range(degree + 1):
                sums[who, cell, j] += int(whole * math.comb(degree, j) * u**j * (1 - u) ** (degree - j))
        wanted = np.full((3, degree + 1), Fraction(0))
        for (who, cell, j), part in sums.items():
            n = held[(who, cell) if limits.rows else (who,)]
            wanted[cell, j] += Fraction(part if n <= most else part * most // n, whole)
        read = "x" if degree else None
        selected = Selected(by=("arm",), columns=(read,) if read else (), whole=("x",), weighted=True)
        found = weighted_totals(_snapshot(rows, schema), selected, degree)
        yield f"weighted rows of degree {degree}", bool((found == wanted).all())


def _left_out() -> Iterator[Compared]:
    """Rows beyond limits and without a value, at most so many of each unit, those beyond limits first."""
    rows = _unit_rows()
    snapshots = {limits: _snapshot(rows, _unit_schema(limits)) for limits in _LIMITS}
    for (limits, snapshot), most in itertools.product(snapshots.items(), (1, 4)):
        schema = snapshot.schema
        taking = _encoded(rows, schema)
        kept = Counter(row[0] for row in documented_choice(taking, limits, _SALT))
        part, held = Counter(row[0] for row in taking), Counter(row["who"] for row in rows)
        over = {who: min(part[who] - kept[who], most) for who in held}
        missing = {who: min(held[who] - part[who], most - over[who]) for who in held}
        some = sum(over[who] + missing[who] > 0 for who in held)
        found = left_out(snapshot, Selected(by=("arm",), columns=("x",)), most)
        yield "rows that are left out", found == (some, sum(over.values()), sum(missing.values()))
    schema = Schema(columns=_unit_schema(_LIMITS[0]).columns)
    lost = len(rows) - len(_encoded(rows, schema))
    found = left_out(_snapshot(rows, schema), Selected(by=("arm",), columns=("x",)), 1)
    yield "rows that are units and left out", found == (lost, 0, lost)


def _labels() -> Iterator[Compared]:
    """Labels without a public list: a unit keeps some of its own, at even distances."""
    draw = random.Random(13)
    rows: list[dict[str, Any]] = [
        {"who": draw.randrange(12), "word": draw.choice(("x", "y", "z", "w", None))} for _ in range(60)
    ]
    schema = Schema(columns={"word": Unlisted()}, unit=PrivacyUnit("who", contribution=Contribution(rows=1)))
    snapshot = _snapshot(rows, schema)
    for limit in (1, 2, 3):
        found = dict(zip(*unit_counts(snapshot, "word", groups=limit), strict=True))
        wanted = Counter[str]()
        for who in range(12):
            own = sorted({row["word"] for row in rows if row["who"] == who and row["word"] is not None})
            start = _digits(12, "g", str(who))
            wanted.update(
                one
                for place, one in enumerate(own)
                if len(own) <= limit or (place + start) % len(own) * limit % len(own) < limit
            )
        yield "labels that units keep", {name: int(count) for name, count in found.items()} == dict(wanted)
    found = dict(
        zip(*unit_counts(_snapshot(rows, Schema(columns={"word": Unlisted()})), "word", groups=1), strict=True)
    )
    plain = Counter(row["word"] for row in rows if row["word"] is not None)
    yield "labels of rows", {name: int(count) for name, count in found.items()} == dict(plain)


def _usable() -> Iterator[Compared]:
    """A value can be used where it is on the list or inside its bounds; a unit counts for the share of its rows."""
    rows = _unit_rows()
    good: dict[str, Callable[[Any], bool]] = {
        "arm": lambda one: one in ("a", "b", "c"),
        "x": lambda one: one is not None and -4 <= one <= 3,
    }
    for limits in (None, _LIMITS[0]):
        whole = _unit_schema(limits or _LIMITS[0])
        schema = whole if limits else Schema(columns=whole.columns)
        units: dict[Any, list[dict[str, Any]]] = defaultdict(list)
        for place, row in enumerate(rows):
            units[row["who"] if limits else place].append(row)
        wanted = [
            sum(256 * sum(map(good[name], (row[name] for row in own))) // len(own) for own in units.values())
            for name in ("arm", "x")
        ]
        found = usable_totals(_snapshot(rows, schema), ["arm", "x"])
        yield "values that can be used", (found[0], list(found[1])) == (len(units), wanted)


# ---- tables ---------------------------------------------------------------------------------------------------------


def _joins() -> Iterator[Compared]:
    """Each row meets the rows that its unit keeps in another table, or their number; a unit without one has a gap."""
    import pyarrow

    draw = random.Random(17)
    people: list[dict[str, Any]] = [{"who": draw.randrange(14), "arm": draw.choice(("a", "b", "c"))} for _ in range(40)]
    visits: list[dict[str, Any]] = [
        {"id": draw.randrange(3, 16), "cost": draw.choice((0.0, 1.0, 2.0, 5.0))} for _ in range(60)
    ]
    cost = Bounds(0, 3, grid=1, nulls=0)
    for counted, most, filtered in itertools.product((None, "visits"), (1, 3), (False, True)):
        where = Formula("cost >= 1") if filtered else None
        one = Related(id="id", rows=most, columns={"cost": cost}, where=where, counted=counted)
        unit = PrivacyUnit("who", contribution=Contribution(total=1000))
        schema = Schema(columns={"arm": Categories(["a", "b", "c"])}, unit=unit, related={"visits": one})
        tables = [
            open_source(pyarrow.table({name: [row[name] for row in rows] for name in rows[0]}))
            for rows in (people, visits)
        ]
        snapshot = take_joined(tables[0], schema, {"visits": tables[1]}, salt=_SALT)
        name = counted or "cost"
        found = totals(snapshot, Selected(by=("arm",), columns=(name,)), [(name,)])
        counts, sums = np.zeros(3, dtype=object), np.zeros(3, dtype=object)
        for row in people:
            own = sorted(
                min(v["cost"], 3) for v in visits if v["id"] == row["who"] and (v["cost"] >= 1 or not filtered)
            )
            start = _digits(12, "j", str(row["who"]))
            kept = [c for i, c in enumerate(own) if len(own) <= most or (i + start) % len(own) * most % len(own) < most]
            met = [float(len(kept))] if counted else kept or [0.0]
            counts["abc".index(row["arm"])] += len(met)
            sums["abc".index(row["arm"])] += int(sum(met))
        same = bool((found.counts == counts).all() and (found.sums[name,] == sums).all())
        yield f"rows of two tables, {name}, at most {most}", same
