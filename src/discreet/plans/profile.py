"""Profile: what a data set holds, released before anything is known of it, and the plan that follows.

`plan_profile` reads the names of columns alone. `run_profile` spends, and returns a `Codebook`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from discreet.core.columns import Unlisted
from discreet.core.dates import Order
from discreet.core.dialect import Dialect
from discreet.core.guarantee import ApproxDP, Guarantee
from discreet.core.schema import Contribution, PrivacyUnit, Schema
from discreet.display import Facts
from discreet.ledgers import Ledger
from discreet.mechanisms.composition import compose
from discreet.plans.codebook import Codebook
from discreet.plans.ledger_terms import LedgerTerms, begun
from discreet.plans.plan import Plan
from discreet.plans.shares import divided
from discreet.plans.source_options import DIALECT
from discreet.questions.groups import GroupsQuestion, ReleasedGroups
from discreet.questions.profiles.profile_question import ProfileQuestion
from discreet.questions.profiles.profile_release import ProfileRelease
from discreet.result import Result
from discreet.session import Session

__all__ = ["ProfilePlan", "plan_profile", "run_profile"]

_DATES = {"ymd": "2024-01-31", "dmy": "31.01.2024", "mdy": "01/31/2024"}
_LABELS = 0.2
"""Part of an (ε, δ) that is kept for lists of common labels."""


@dataclass(frozen=True, kw_only=True)
class ProfilePlan(Result):
    """A profile that has not happened: what it would cost, and how exact its counts would be.

    Attributes
    ----------
    session
        The data, not read yet, and its ledger.
    question
        The profile.
    labels
        What lists of common labels may cost together; None without a δ, which they need.
    dialect
        How a file is written, where it differs from the default.
    source
        The path of the data.
    options
        What opens the data: its dialect, and a table, an engine or memory where they are given.
    new_ledger
        Where a ledger is to be created when the profile is released; None where there is one.
    """

    session: Session = field(repr=False)
    question: ProfileQuestion
    labels: ApproxDP | None
    dialect: Mapping[str, Any]
    source: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    new_ledger: str | None = None

    @property
    def ledger_path(self) -> str:
        """Where the ledger is, or will be."""
        return self.new_ledger or self.session.ledger.path

    def opened(self) -> ProfilePlan:
        """The same with its ledger, created where there was none: planning alone leaves no file behind."""
        if self.new_ledger is None:
            return self
        session = Session(
            self.source, self.session.schema, ledger=self.new_ledger, budget=self.session.ledger.budget, **self.options
        )
        return replace(self, session=session, new_ledger=None)

    @property
    def cost(self) -> Guarantee:
        """What profile and labels cost together, at most."""
        return self.question.guarantee if self.labels is None else compose(self.question.guarantee, self.labels)

    @property
    def plan(self) -> Plan:
        """The plan of the profile's question."""
        return self.question.plan(None) if self.released else self.session.plan(self.question)

    @property
    def released(self) -> bool:
        """Whether the ledger holds this profile already, so that asking again costs nothing."""
        return self.session.ledger.requested(_request(self.question)) is not None

    def heading(self) -> str:
        return f"Profile of {Path(self.source).name}"

    def facts(self) -> Facts:
        """What to show."""
        planned, ledger = self.plan, self.session.ledger
        names = self.question.names
        listed = ", ".join(names[:12]) + (f", … ({len(names)} in all)" if len(names) > 12 else "")
        left = ledger.remaining()
        where = "" if self.ledger_path == ":memory:" else f", in {self.ledger_path}"
        facts = [
            ("columns", listed),
            ("reads", _ways_of_writing(self.dialect, self.question.order)),
            ("protects", str(self.question.schema.protection())),
            ("cost", f"{self.cost}: {self.cost.sentence()}"),
            *([("already paid", "the ledger holds this profile: asking again costs nothing")] if self.released else []),
            ("ledger", f"{left} left of {ledger.budget}{where}"),
            ("each count", f"off by at most {planned.expected_error:,.0f} (95 %)"),
            *(("note", note) for note in planned.notes),
        ]
        if self.labels is None:
            facts.append(("labels", "only how many there are: lists of common labels need a delta"))
        return [*facts, ("together", _together(self.cost, ledger.budget))]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        return {
            "source": self.source,
            "question": self.question.content(),
            "plan": self.plan.to_dict(),
            "cost": self.cost.to_dict(),
            "labels": None if self.labels is None else self.labels.to_dict(),
            "ledger": self.ledger_path,
        }


def _ways_of_writing(dialect: Mapping[str, Any], order: Order) -> str:
    """How numbers and dates must be written to be read as such, and what to set where they are not."""
    decimal, thousands, symbols = (dialect.get(name) or "" for name in ("decimal", "thousands", "symbols"))
    signs = f", with {' or '.join(symbols.split())} around them" if symbols else ""
    return (
        f"numbers like 1{thousands}234{decimal or '.'}5{signs}; dates like {_DATES[order]}. Other values are text: set "
        "decimal, thousands (1,234), symbols ($, %) or order (of dates) first where yours are written differently"
    )


def _together(cost: Guarantee, budget: Guarantee) -> str:
    """What the profile and everything after it mean for one person, in the words of the guide to ε."""
    power = 1 - float(budget.tradeoff(0.05))
    alone = 1 - float(cost.tradeoff(0.05))
    return (
        f"an attacker who accepts 5 % false alarms recognises a person from the profile at most {100 * alone:.0f} % of "
        f"the time, and from all that the ledger allows, {budget}, at most {100 * power:.0f} %"
    )


def plan_profile(
    source: str | Path,
    guarantee: Guarantee,
    *,
    unit: str | None = None,
    schema: Schema | None = None,
    columns: Sequence[str] = (),
    proportion: float = 0.95,
    order: Order = "ymd",
    ledger: Ledger | str | Path | None = None,
    budget: Guarantee | None = None,
    **dialect: Any,
) -> ProfilePlan:
    """Plan a profile of a file; reads the names of its columns alone.

    Parameters
    ----------
    source
        The path of a CSV or Parquet file.
    guarantee
        What the profile may cost, lists of common labels included.
    unit
        The id column, where several rows can belong to one person.
    schema
        What is declared already, instead of ``unit``: its columns are left alone.
    columns
        The columns to profile; all that the schema does not declare by default.
    proportion
        Proportion of the values that bounds are to hold.
    order
        How dates are written: ``"ymd"``, ``"dmy"`` or ``"mdy"``.
    ledger
        A `Ledger` or its path; a file beside the data by default, as for plan files.
    budget
        The budget of a new ledger: what the profile and all releases after it may cost together. Twice the profile's
        by default.
    dialect
        ``delimiter``, ``decimal``, ``encoding``, ``header``, ``thousands`` and ``symbols``, as for a `Session`.
    """
    place = str(source)
    known = Schema(columns={}, unit=PrivacyUnit(unit)) if schema is None else schema
    if ledger is None:
        ledger = LedgerTerms().place(Path(), {"path": place})
    opened = ledger if isinstance(ledger, Ledger) else str(ledger)
    new = None
    if isinstance(opened, str) and opened != ":memory:" and not begun(opened):
        new, opened = opened, ":memory:"
        budget = compose(guarantee, guarantee) if budget is None else budget
    session = Session(place, known, ledger=opened, budget=budget, **dialect)
    names = tuple(columns) or tuple(name for name in session.source_names() if name not in known.columns)
    labels, rest = None, guarantee
    if isinstance(guarantee, ApproxDP) and guarantee.delta > 0:
        rest, kept = divided(guarantee, [1 - _LABELS, _LABELS])
        labels = ApproxDP(**kept.parameters())
    question = ProfileQuestion(known, rest, columns=names, proportion=proportion, order=order)
    written = Dialect(**{name: dialect[name] for name in DIALECT if name in dialect}).declared()
    return ProfilePlan(
        session=session,
        question=question,
        labels=labels,
        dialect=written,
        source=place,
        options=dialect,
        new_ledger=new,
    )


def run_profile(planned: ProfilePlan) -> Codebook:
    """Release a profile, and the common labels of the columns that it finds to be labels.

    Asking again returns the stored answers and spends nothing.
    """
    planned = planned.opened()
    session, question = planned.session, planned.question
    profile = session.ask(question, _request(question))
    return Codebook(
        source=planned.source,
        dialect=planned.dialect,
        schema=question.schema,
        profile=profile,
        labels=_common_labels(planned, profile),
        budget=session.ledger.budget,
        remaining=session.ledger.remaining(),
        ledger=planned.ledger_path,
    )


def _common_labels(planned: ProfilePlan, profile: ProfileRelease) -> dict[str, ReleasedGroups]:
    """Common labels of the columns that are labels, each for an equal part of what is kept for them."""
    names = [name for name, one in profile.columns.items() if one.kind == "label"]
    if planned.labels is None or not names:
        return {}
    known = planned.question.schema
    unit = PrivacyUnit(known.unit.column, nulls=known.unit.nulls)
    schema = Schema(
        columns={name: Unlisted() for name in names}, unit=unit, neighbours=known.neighbours, size=known.size
    )
    session = Session(planned.source, schema, ledger=planned.session.ledger, **planned.options)
    limits = None if unit.column is None else Contribution(total=1)
    parts = zip(names, planned.labels.split(len(names)), strict=True)
    asked = [GroupsQuestion(schema, name, part, contribution=limits) for name, part in parts]
    return {one.column: session.ask(one, _request(one)) for one in asked}


def _request(question: ProfileQuestion | GroupsQuestion) -> str:
    """A name in the ledger that follows from what is asked and for how much."""
    told = {"question": question.content(), "guarantee": question.guarantee.to_dict()}
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]
    return f"profile:{digest}"
