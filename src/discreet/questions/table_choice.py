"""The best mechanism for a table, chosen from public facts before any data is read."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.core import requirements
from discreet.core.errors import NoConversion
from discreet.core.guarantee import Guarantee
from discreet.core.protection import Neighbours
from discreet.core.sensitivity import Sensitivity
from discreet.display import Facts, number
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.laplace import Laplace
from discreet.mechanisms.location_noise import AdditiveNoise
from discreet.mechanisms.tables.clipped import Clipped
from discreet.mechanisms.tables.james_stein import JamesSteinGaussian
from discreet.mechanisms.tables.post_processed import PostProcessed
from discreet.plans.plan import Plan, plan
from discreet.questions.table import ContingencyTable
from discreet.result import Result

if TYPE_CHECKING:
    from discreet.ledgers import Ledger

__all__ = ["TableChoice", "TablePlan", "best_table_mechanism"]

_TABLES = 32


@dataclass(frozen=True)
class TablePlan(Plan):
    """A plan for a table whose mechanism was chosen by expected cost; ``reason`` says why."""

    reason: str

    def facts(self) -> Facts:
        """What to show of a plan."""
        return [*super().facts(), ("chosen because", self.reason)]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        return {**super().to_dict(), "reason": self.reason}


@dataclass(frozen=True)
class TableChoice(Result):
    """A mechanism for a table, and why it was chosen.

    Attributes
    ----------
    mechanism
        The mechanism.
    reason
        One sentence.
    costs
        Expected squared error over all cells of every candidate, by name.
    """

    mechanism: PostProcessed
    reason: str
    costs: dict[str, float]
    sensitivity: Sensitivity

    def plan(self, *, ledger: Ledger | None = None) -> TablePlan:
        """What a release with it would cost, with the reason of the choice."""
        base = plan(self.sensitivity, self.mechanism, ledger=ledger)
        named = {entry.name: getattr(base, entry.name) for entry in fields(base)}
        named |= {"statistic": ContingencyTable.name, "read": "rows of a cell"}
        return TablePlan(**named, reason=self.reason)

    def facts(self) -> Facts:
        """What to show of a choice."""
        costs = [(f"cost of {name}", number(cost)) for name, cost in self.costs.items()]
        return [("mechanism", self.mechanism.name), ("reason", self.reason), *costs]

    def to_dict(self) -> dict[str, Any]:
        """The choice as JSON-ready data."""
        return {"mechanism": self.mechanism.to_dict(), "reason": self.reason, "costs": dict(self.costs)}

    def heading(self) -> str:
        return "Choice of mechanism"


def best_table_mechanism(
    guarantee: Guarantee,
    table: ContingencyTable,
    *,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    n: int | None = None,
    integers: bool = False,
) -> TableChoice:
    """The mechanism with the least expected squared error for a table, by public facts alone.

    Between Gaussian and Laplace noise the exactly calibrated variances decide; with Gaussian noise shrinkage is always
    added, because it never costs anything on average (lee2022, Theorems 4 to 6), and clipping likewise (Proposition 8).
    Where the total is public it is kept.

    Parameters
    ----------
    guarantee
        What is to be guaranteed, of any kind; `PureDP` leaves only Laplace noise.
    table
        The public description of the cells.
    neighbours
        Under replace-one the total is public.
    n
        The number of rows where it is public. Under add/remove, giving it declares it public.
    integers
        Whether the cells shall be whole numbers.

    Examples
    --------
    >>> from discreet import ContingencyTable, GaussianDP
    >>> table = ContingencyTable({"group": list(range(18))})
    >>> choice = best_table_mechanism(GaussianDP(0.3), table, neighbours=Neighbours.REPLACE_ONE)
    >>> choice.mechanism.name, choice.mechanism.clip
    ('james_stein_gaussian', 'simplex')
    """
    requirements.instance("table", table, ContingencyTable, 'ContingencyTable({"arm": ["a", "b"]})')
    rows = None if n is None else requirements.positive_integer("n", n)
    sensitivity = table.sensitivity(neighbours)
    known = neighbours is Neighbours.REPLACE_ONE or rows is not None
    total = rows if neighbours is Neighbours.ADD_REMOVE else None
    clip: Any = "simplex" if known else "nonnegative"
    candidates: dict[str, PostProcessed] = {}
    for kind in (Gaussian, Laplace):
        scale = _scale(kind, guarantee, sensitivity)
        if scale is None:
            continue
        if kind is Gaussian:
            candidates["shrunken Gaussian"] = JamesSteinGaussian(
                scale=scale, towards="mean", rank_deficient=known, total=total, clip=clip, integers=integers
            )
        else:
            candidates["Laplace"] = Clipped(
                mechanism=Laplace(scale), rank_deficient=known, total=total, clip=clip, integers=integers
            )
    costs = {name: _expected_cost(mechanism, table.cells, rows) for name, mechanism in candidates.items()}
    best = min(costs, key=lambda name: costs[name])
    return TableChoice(candidates[best], _reason(best, costs, guarantee, table, rows), costs, sensitivity)


def _scale(kind: type[AdditiveNoise], guarantee: Guarantee, sensitivity: Sensitivity) -> float | None:
    try:
        return kind.calibrate(guarantee, sensitivity).scale
    except NoConversion:
        return None


def _expected_cost(mechanism: PostProcessed, cells: int, n: int | None) -> float:
    """Cost before clipping: over tables drawn evenly from all shares where N is public; else for any table."""
    plain = replace(mechanism, clip="none", integers=False)
    if n is None:
        # The least favourable table: shrinkage gains nothing where cells differ much.
        return plain.l2_cost(_spread_out(cells))
    shares = np.random.default_rng(0).dirichlet(np.ones(cells), size=_TABLES if cells <= 10_000 else 1)
    return float(np.mean([plain.l2_cost(n * share) for share in shares]))


def _spread_out(cells: int) -> Any:
    table = np.zeros(cells)
    table[::2] = 1e12
    return table


def _reason(best: str, costs: dict[str, float], guarantee: Guarantee, table: ContingencyTable, n: int | None) -> str:
    facts = f"{table.cells} cells" if n is None else f"{table.cells} cells, {n} rows"
    if len(costs) == 1:
        return f"only {best} noise meets {guarantee}"
    other = next(name for name in costs if name != best)
    return f"squared error {number(costs[best])}, {other} {number(costs[other])} ({facts})"
