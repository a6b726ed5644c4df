"""Verdicts: every claim of the papers decided from stored runs, as a list, as JSON and as tables of a page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from discreet.core.errors import InvalidParameter
from discreet.display import Facts
from discreet.papers.paper_claim import HOLDS, VERDICTS, Decision
from discreet.papers.study import Row, Study, decide, stored_rows
from discreet.result import Result

__all__ = ["ClaimList", "claims_table", "count_table", "decided_in", "shipped"]


@dataclass(frozen=True)
class ClaimList(Result):
    """Claims with their verdicts: `to_dict` lists paper, place, claim, verdict and figures."""

    claims: tuple[Mapping[str, Any], ...]

    def heading(self) -> str:
        tally = ", ".join(f"{sum(one['verdict'] == verdict for one in self.claims)} {verdict}" for verdict in VERDICTS)
        return f"{len(self.claims)} claims: {tally}"

    def facts(self) -> Facts:
        return [(f"{one['paper']} {one['place']}", f"{one['verdict']}: {one['claim']}") for one in self.claims]

    def to_dict(self) -> dict[str, Any]:
        """The claims as JSON-ready data."""
        return {"claims": [dict(one) for one in self.claims]}


def shipped() -> ClaimList:
    """The verdicts of the full run that comes with discreet."""
    text = files("discreet.papers").joinpath("data/claims.json").read_text(encoding="utf-8")
    return ClaimList(tuple(json.loads(text)["claims"]))


def decided_in(studies: Sequence[Study], folder: Path) -> ClaimList:
    """Decide the claims of every study from a full run in ``folder``, as `run_gallery` stores it."""
    decisions = [
        one for study in studies if study.claims for one in decide(study.claims, _needed(study, folder / study.paper))
    ]
    return ClaimList(tuple(one.to_dict() for one in decisions))


def _needed(study: Study, folder: Path) -> dict[str, list[Row]]:
    parts = {claim.part for claim in study.claims}
    rows = {}
    for part in study.parts:
        if part.name in parts:
            found = stored_rows(study, part, folder)
            if found is None:
                fix = f"Run `discreet reproduce {study.paper} --out {folder}`."
                raise InvalidParameter("out", str(folder), f"holds no full run of {study.paper} {part.name}", fix)
            rows[part.name] = found
    return rows


_MOST_CLAIMS = 12
"""A longer table of claims is cut on a page; the command lists all of them."""


def claims_table(decisions: Sequence[Decision]) -> str:
    """How many claims hold, and the first of the others beside what was found, as markdown."""
    others = [one for one in decisions if one.verdict != HOLDS]
    tally = f"Claims that hold: {len(decisions) - len(others)} of {len(decisions)}."
    if len(others) > _MOST_CLAIMS:
        tally += f" The first {_MOST_CLAIMS} of the others:"
    if not others:
        return f"{tally}\n"
    lines = [f"{tally}\n", "| place | the paper says | found here | verdict |", "|---|---|---|---|"]
    for one in others[:_MOST_CLAIMS]:
        cells = (one.claim.place, one.claim.claim, one.figures(), f"**{one.verdict}**")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def count_table(decisions: Mapping[str, Sequence[Decision]], *, of: str = "paper") -> str:
    """How many claims of each paper, or part of one, have each verdict, as a markdown table."""
    lines = [f"| {of} | claims | {' | '.join(VERDICTS)} |", "|" + "---|" * (len(VERDICTS) + 2)]
    for paper, found in decisions.items():
        tally = [sum(one.verdict == verdict for one in found) for verdict in VERDICTS]
        lines.append("| " + " | ".join([paper, str(len(found)), *map(str, tally)]) + " |")
    return "\n".join(lines) + "\n"
