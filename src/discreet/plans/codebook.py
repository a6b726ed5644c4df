"""Codebook: a released profile with the common labels, as people, programs and plan files read it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from csv import DictWriter
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

from discreet.core.columns import Bounds, Categories, Column
from discreet.core.dates import Dates
from discreet.core.guarantee import Guarantee
from discreet.core.schema import Schema
from discreet.display import Facts
from discreet.interval import Interval
from discreet.mechanisms.composition import compose
from discreet.plans.ledger_terms import LedgerTerms
from discreet.publish.codebook_page import codebook_page
from discreet.publish.ddi_codebook import ddi_codebook
from discreet.publish.facts import RELEASED
from discreet.publish.tidy import Row, Tidy, aligned
from discreet.questions.groups import ReleasedGroups
from discreet.questions.profiles.column_profile import ColumnProfile, Estimate
from discreet.questions.profiles.profile_release import ProfileRelease

__all__ = ["Codebook"]


@dataclass(frozen=True, kw_only=True)
class Codebook(Tidy):
    """What a data set holds, and where each fact comes from.

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
        """What to show."""
        shown = []
        for name, text in self._profile_facts():
            listed = name in self.labels
            shown.append((name, self.column(name).words() if listed else text))
            if listed:
                shown.append(("", self._listed(name)))
        return [*shown, ("left to spend", f"{self.remaining} of {self.budget}")]

    @property
    def guarantee(self) -> Guarantee:
        """What the profile and the lists of labels guarantee together."""
        return compose(self.profile.guarantee, *(one.guarantee for one in self.labels.values()))

    def _profile_facts(self) -> Facts:
        """What the profile shows of itself, but for the guarantee: that of all releases together."""
        whole = f"{self.guarantee}: {self.guarantee.sentence()}"
        return [(name, whole if name == "guarantee" else text) for name, text in self.profile.facts()]

    def column(self, name: str) -> ColumnProfile:
        """What was released of a column: it has at least as many distinct labels as were listed."""
        one, listed = self.profile.columns[name], self.labels.get(name)
        if listed is None or one.distinct is None:
            return one
        least, known = float(len(listed.labels)), one.distinct
        ends = Interval(max(known.interval.low, least), max(known.interval.high, least), known.interval.level)
        return replace(one, distinct=Estimate(max(known.value, least), ends))

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
        return self.profile.columns[name].declared()

    def origin(self, name: str) -> str:
        """Where the facts about a column come from."""
        if name in self.schema.columns:
            return "declared"
        listed = self.labels.get(name)
        used = listed if listed is not None and listed.labels else self.profile
        return f"{RELEASED}, release {used.release_id[:8]}"

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        profile, sizes, unit = self.profile, self.profile.unit_sizes, str(self.profile.protection.unit)
        told = [
            (name, text) for name, text in self._profile_facts() if name in ("guarantee", "protects against", "release")
        ]
        return {
            "discreet": "codebook",
            "format": 1,
            "source": self.source,
            "units_words": f"{unit}s: {profile.facts()[0][1]}.".capitalize(),
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
        rows = self.rows()
        text = StringIO()
        writer = DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()

    def plan_text(self, folder: str | Path = "") -> str:
        """A plan file with all that is known filled in, each fact with its source; paths as seen from its folder."""
        parameters = (f"{name} = {value!r}" for name, value in self.budget.parameters().items())
        lines = [
            f"title = {_text(f'Releases from {Path(self.source).name}')}",
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
        left = (f"{name} = {value!r}" for name, value in self.remaining.parameters().items())
        lines += ["", "[[release]]", 'name = "rows"', 'ask = "count"', *left]
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
            words = [f"categories = {_text(told['categories'])}"]
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
    return json.dumps(value, ensure_ascii=False)
