"""Profile: what a data set holds, released before anything is known of it, and the plan that follows.

`plan_profile` reads the names of columns alone. `run_profile` spends, and returns a `Codebook`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from discreet.core.columns import Bounds, Categories, Column, Dates, Order, PrivateLabels
from discreet.core.guarantee import ApproxDP, Guarantee
from discreet.core.rows.read import Dialect
from discreet.core.schema import Contribution, PrivacyUnit, Schema
from discreet.mechanisms.composition import compose
from discreet.plans.plan_file import DIALECT, LedgerTerms, begun, divided
from discreet.plans.skeleton import check_names
from discreet.publish.export import as_csv
from discreet.publish.pages import codebook_page, ddi_codebook
from discreet.publish.report import RELEASED
from discreet.questions.common_labels import GroupsQuestion, ReleasedGroups
from discreet.questions.profile.columns import ColumnProfile, ProfiledNumber
from discreet.questions.profile.question import ProfileQuestion, ProfileRelease
from discreet.results.display import Facts, Interval, Result, held, plural, printable
from discreet.results.frames import Row, Tidy, aligned
from discreet.results.ledger import Ledger
from discreet.results.plan import Plan
from discreet.session import Session

# ---- Codebook: a released profile with the common labels, as people, programs and plan files read it


@dataclass(frozen=True, kw_only=True)
class Codebook(Tidy):
    """The contents of a data set, with the origin of each fact.

    Attributes
    ----------
    source
        The path of the data.
    dialect
        How the file is written, where it differs from the default.
    schema
        What was declared: the unit, neighbours, and columns that the profile left alone.
    profile
        What was released about the other columns.
    labels
        Common labels that were released, by column.
    budget, remaining
        The ledger's budget, and what the profile left of it.
    ledger
        The path of the ledger.
    """

    source: str
    dialect: Mapping[str, Any]
    schema: Schema
    profile: ProfileRelease
    labels: Mapping[str, ReleasedGroups]
    budget: Guarantee
    remaining: Guarantee
    ledger: str = ":memory:"

    def heading(self) -> str:
        return f"Codebook of {Path(self.source).name}"

    def facts(self) -> Facts:
        """The facts to show."""
        shown = []
        for name, text in self._profile_facts():
            listed = name in self.labels
            shown.append((name, self.column(name).words() if listed else text))
            if listed:
                shown.append(("", self._listed(name)))
        return [*shown, ("left to spend", f"{self.remaining} of {self.budget}")]

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the profile and the lists of labels together."""
        return compose(self.profile.guarantee, *(one.guarantee for one in self.labels.values()))

    def _profile_facts(self) -> Facts:
        """The profile's own facts to show, but with the guarantee of all releases together."""
        whole = f"{self.guarantee}: {self.guarantee.sentence()}"
        return [(name, whole if name == "guarantee" else text) for name, text in self.profile.facts()]

    def column(self, name: str) -> ColumnProfile:
        """The released facts about a column: it has at least as many distinct labels as were listed."""
        one, listed = self.profile.columns[name], self.labels.get(name)
        if listed is None or one.distinct is None:
            return one
        least, known = float(len(listed.labels)), one.distinct
        ends = Interval(max(known.interval.low, least), max(known.interval.high, least), known.interval.level)
        return replace(one, distinct=ProfiledNumber(max(known.value, least), ends))

    def _listed(self, name: str) -> str:
        found = self.labels[name]
        return f"common labels: {', '.join(map(str, found.labels)) or 'none was large enough'}"

    def rows(self) -> list[Row]:
        """One row per figure, and one per label that is shown."""
        return aligned([*self.profile.rows(), *(row for one in self.labels.values() for row in one.rows())])

    def plot(self) -> Any:
        """Altair chart of every figure with its interval."""
        return self.profile.plot()

    def declared(self) -> dict[str, Column]:
        """Declarations of all columns of which enough is known, for a schema."""
        found = {name: self._declaration(name) for name in self.profile.names}
        return {**self.schema.columns, **{name: one for name, one in found.items() if one is not None}}

    def _declaration(self, name: str) -> Column | None:
        listed = self.labels.get(name)
        if listed is not None and listed.labels:
            return listed.categories()
        found = self.profile.columns[name]
        return Categories(found.codes) if found.codes else found.declared()

    def origin(self, name: str) -> str:
        """Where the facts about a column come from."""
        if name in self.schema.columns:
            return "declared"
        listed = self.labels.get(name)
        used = listed if listed is not None and listed.labels else self.profile
        return f"{RELEASED}, release {used.release_id[:8]}"

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        profile = self.profile
        sizes = self.profile.unit_sizes
        unit = str(self.profile.protection.unit)
        told = [
            (name, text) for name, text in self._profile_facts() if name in ("guarantee", "protects against", "release")
        ]
        return {
            "discreet": "codebook",
            "format": 1,
            "source": self.source,
            "units_words": f"{plural(unit)}: {profile.facts()[0][1]}.".capitalize(),
            "sizes_words": None if sizes is None else f"Rows per {unit}: {sizes.words(unit)}.",
            "protection_words": told,
            "columns": [self._column(name) for name in profile.names],
            "profile": profile.to_dict(),
            "labels": {name: one.to_dict() for name, one in self.labels.items()},
            "budget": self.budget.to_dict(),
            "remaining": self.remaining.to_dict(),
        }

    def _column(self, name: str) -> dict[str, Any]:
        one, listed = self.column(name), self.labels.get(name)
        ends = {"low_words": one.low, "high_words": one.high}
        return {
            **one.to_dict(),
            "words": one.words(),
            "labels": None if listed is None else self._listed(name),
            "label_list": None if listed is None else list(listed.labels),
            "origin": self.origin(name),
            "range_words": one.range_words(),
            "quartile_words": [one.shown_about(value).replace(",", "") for value in one.quartiles],
            **{key: None if end is None else one.shown(end).replace(",", "") for key, end in ends.items()},
        }

    def html(self) -> str:
        """A page with one row per column and small charts; it holds no script and fetches nothing."""
        return codebook_page(self.to_dict())

    def ddi(self) -> str:
        """DDI-Codebook 2.5, which catalogues of statistical offices and archives read."""
        return ddi_codebook(self.to_dict())

    def csv(self) -> str:
        """Every figure as a line of a CSV file."""
        return as_csv([held(row) for row in self.rows()])

    def plan_text(self, folder: str | Path = "") -> str:
        """A plan file with all that is known filled in, each fact with its source; paths as seen from its folder."""
        parameters = (f"{name} = {value!r}" for name, value in self.budget.parameters().items())
        lines = [
            f"title = {_text(f'Statistics from {Path(self.source).name}')}",
            "",
            "[source]",
            f"path = {_text(_seen_from(folder, self.source))}",
            *(f"{name} = {_text(value)}" for name, value in self.dialect.items()),
            "",
            "# What the profile and this plan may cost together; the profile has spent its part.",
            "[budget]",
            *parameters,
            *self._ledger_lines(folder),
            "",
            "[schema]",
            f"neighbours = {_text(self.schema.neighbours.value)}",
            *([] if self.schema.size is None else [f"size = {self.schema.size}"]),
            *self._unit_lines(),
        ]
        declared = self.declared()
        for name in dict.fromkeys([*self.schema.columns, *self.profile.names]):
            lines += ["", *self._column_lines(name, declared.get(name))]
        part = self.remaining.split([_FIRST_COUNT, 1 - _FIRST_COUNT])[0]
        cost = (f"{name} = {value!r}" for name, value in part.parameters().items())
        lines += ["", "[[release]]", 'name = "rows"', 'ask = "count"', *cost]
        return "\n".join(lines) + "\n"

    def _ledger_lines(self, folder: str | Path) -> list[str]:
        """Where the ledger is, unless it is where a plan looks for it: beside the data."""
        usual = LedgerTerms().place(Path(), {"path": self.source})
        if self.ledger == ":memory:" or os.path.abspath(usual) == os.path.abspath(self.ledger):
            return []
        return ["", "[ledger]", f"path = {_text(_seen_from(folder, self.ledger))}"]

    def _unit_lines(self) -> list[str]:
        unit, sizes = self.schema.unit, self.profile.unit_sizes
        if unit.column is None:
            return []
        declared = unit.contribution
        if declared is not None:
            limits = [f"{name} = {value}" for name, value in declared.to_dict().items()]
            source = "declared"
        else:
            limits = [f"total = {1 if sizes is None else sizes.best_limit}"]
            source = f"{RELEASED}, release {self.profile.release_id[:8]}"
        return ["", "[schema.unit]", f"column = {_text(unit.column)}", *limits, f"source = {_text(source)}"]

    def _column_lines(self, name: str, column: Column | None) -> list[str]:
        head = f"[schema.columns.{_text(name)}]"
        if column is None:
            return [f"# {head}", f"# {self.column(name).words()}"]
        told = column.to_dict()
        if isinstance(column, Bounds):
            shown = {key: told[key] for key in ("low", "high", "grid")}
            words = [
                f"{key} = {value if isinstance(column, Dates) and key != 'grid' else _text(_short(value))}"
                for key, value in shown.items()
            ]
        elif isinstance(column, Categories):
            words = [f"categories = {_text(list(told['categories']))}"]
            codes = () if name in self.schema.columns else self.profile.columns[name].codes
            if codes and told["categories"] == list(codes):
                numbers = f"low = {codes[0]}, high = {codes[-1]}, grid = 1"
                words.append(f'# or labels = {{ {codes[0]} = "…" }} with their words; numbers to add up: {numbers}')
        else:
            words = ["unlisted = true"]
        about = [] if name in self.schema.columns else [f"# {self.column(name).words()}"]
        return [*about, head, *words, f"source = {_text(self.origin(name))}"]


def _seen_from(folder: str | Path, path: str) -> str:
    """A path as a plan in this folder writes it; addresses stay as they are."""
    return path if "://" in path or os.path.isabs(path) else os.path.relpath(path, folder or ".")


def _short(value: Any) -> Any:
    """A whole number without its decimal point."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _text(value: Any) -> str:
    """A value as TOML writes it: text, numbers and lists are as in JSON."""
    return printable(json.dumps(value, ensure_ascii=False))


_FIRST_COUNT = 0.1
"""Part of what is left that the first release of a plan may cost."""
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
        """The most that profile and labels cost together."""
        return self.question.guarantee if self.labels is None else compose(self.question.guarantee, self.labels)

    @property
    def plan(self) -> Plan:
        """The plan of the profile's question."""
        return self.question.plan(None) if self.released else self.session.plan(self.question)

    @property
    def released(self) -> bool:
        """True where the ledger has this profile already, so that asking again costs nothing."""
        return self.session.ledger.requested(_request(self.question)) is not None

    def heading(self) -> str:
        return f"Profile of {Path(self.source).name}"

    def facts(self) -> Facts:
        """The facts to show."""
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
            ("each count", f"off by at most {planned.error_95:,.0f} (95 %)"),
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
    """The accepted ways of writing numbers and dates, and the settings for others, in words."""
    decimal, thousands, symbols = (dialect.get(name) or "" for name in ("decimal", "thousands", "symbols"))
    signs = f", with {' or '.join(symbols.split())} around them" if symbols else ""
    return (
        f"numbers like 1{thousands}234{decimal or '.'}5{signs}; dates like {_DATES[order]}. Other values are text: set "
        "decimal, thousands (1,234), symbols ($, %) or order (of dates) first where yours are written differently"
    )


def _together(cost: Guarantee, budget: Guarantee) -> str:
    """The meaning for one person of the profile and all that follows it, in the words of the guide to ε."""
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
        The guarantee to spend on the profile, lists of common labels included.
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
    check_names(place, session.source_names())
    names = tuple(columns) or tuple(name for name in session.source_names() if name not in known.columns)
    labels, rest = None, guarantee
    if isinstance(guarantee, ApproxDP) and guarantee.delta > 0:
        rest, kept = divided(guarantee, [1 - _LABELS, _LABELS])
        labels = ApproxDP(**kept.parameters())
    question = ProfileQuestion(known, guarantee=rest, columns=names, proportion=proportion, order=order)
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
        columns={name: PrivateLabels() for name in names}, unit=unit, neighbours=known.neighbours, size=known.size
    )
    session = Session(planned.source, schema, ledger=planned.session.ledger, **planned.options)
    limits = None if unit.column is None else Contribution(total=1)
    parts = zip(names, planned.labels.split(len(names)), strict=True)
    asked = [GroupsQuestion(schema, name, guarantee=part, contribution=limits) for name, part in parts]
    return {one.column: session.ask(one, _request(one)) for one in asked}


def _request(question: ProfileQuestion | GroupsQuestion) -> str:
    """A name in the ledger that follows from what is asked and for how much."""
    told = {"question": question.content(), "guarantee": question.guarantee.to_dict()}
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]
    return f"profile:{digest}"
