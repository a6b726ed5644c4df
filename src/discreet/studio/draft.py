"""Draft: a plan file that may have mistakes. What is right is planned; what is wrong is said at its place."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomlkit

from discreet.core.errors import DiscreetError, PlanFileError
from discreet.plans.job import Job
from discreet.plans.job_results import JobPlan
from discreet.plans.plan import Plan
from discreet.plans.plan_file import PlanFile, lines_of
from discreet.studio.toml_document import Place, value_at

__all__ = ["Draft", "drafted"]

_GUARANTEE = ("share", "epsilon", "delta", "rho", "mu")


@dataclass(frozen=True, kw_only=True)
class Draft:
    """What can be told of a plan file as it stands.

    Attributes
    ----------
    data
        The file as plain data; empty where it is no TOML.
    problems
        What is wrong, by place; the empty place stands for the whole file.
    plans
        What each release that is right would give and cost, by its position.
    file, job
        The whole plan, with what is wrong left out; None where too little is right.
    """

    data: Mapping[str, Any]
    problems: Mapping[Place, str] = field(default_factory=dict)
    plans: Mapping[int, Plan] = field(default_factory=dict)
    file: PlanFile | None = None
    job: JobPlan | None = None

    @property
    def sound(self) -> bool:
        """Whether the plan can be run as it stands."""
        return self.file is not None and not self.problems

    def below(self, *place: str | int) -> str | None:
        """What is wrong at a place or below it."""
        return next((said for where, said in self.problems.items() if where[: len(place)] == place), None)


def drafted(text: str, path: Path) -> Draft:
    """Plan what can be planned of a plan file's text. Reads no data and spends nothing."""
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as failure:  # as for a number of thousands of digits
        return Draft(data={}, problems={(): f"This is not valid TOML: {failure}. Mend it in the text view."})
    kept = deepcopy(data)
    problems: dict[Place, str] = {}
    if not data.get("release"):
        problems[("release",)] = "Add a question: the plan asks nothing yet."
        kept["release"] = [{"ask": "count"}]
    for _ in range(len(tomlkit.dumps(kept).splitlines()) + 1):  # each round mends one place
        written = tomlkit.dumps(kept) if problems else text
        try:
            file = PlanFile.parse(written, path)
            job = Job(file).plan(rehearse=False)
        except PlanFileError as failure:
            place, said = _located(str(failure), written, path)
            if not _without(kept, place):
                return Draft(data=data, problems={**problems, (): said})
            problems.setdefault(_own(data, place), said)
            continue
        except DiscreetError as failure:
            return Draft(data=data, problems={**problems, (): str(failure)})
        looks = sum(one.look for one in file.questions)
        planned = [plan for _, plan in job.releases][looks:]
        wrong = {place[1] for place in problems if len(place) > 1 and place[0] == "release"}
        right = {position: plan for position, plan in enumerate(planned) if position not in wrong}
        if ("release",) in problems:
            right = {}
        return Draft(data=data, problems=problems, plans=right, file=file, job=job)
    return Draft(data=data, problems={**problems, (): "The plan has more mistakes than can be told apart."})


def _located(message: str, text: str, path: Path) -> tuple[Place, str]:
    """The place that a refusal is about, and its words without file and line."""
    rest = message.removeprefix(f"{path}:")
    line, colon, said = rest.partition(": ")
    if rest == message or not line.isdecimal() or not colon:
        return (), message.removeprefix(f"{path}: ")
    places = {number: _place(dotted, text) for dotted, number in lines_of(text)}
    return places.get(int(line), ()), said


def _place(dotted: str, text: str) -> Place:
    """A dotted path as a place; names of columns may hold dots themselves."""
    data: Any = tomllib.loads(text)
    place: list[str | int] = []
    parts = dotted.split(".")
    while parts:
        for size in range(len(parts), 0, -1):
            key: str | int = ".".join(parts[:size])
            if isinstance(data, list) and str(key).isdecimal():
                key = int(key)
            try:
                data = data[key]
            except (KeyError, IndexError, TypeError):
                continue
            place.append(key)
            parts = parts[size:]
            break
        else:
            break
    return tuple(place)


def _own(data: Mapping[str, Any], place: Place) -> Place:
    """The longest part of a place that the file itself has."""
    return next(
        place[:size] for size in range(len(place), -1, -1) if size == 0 or value_at(data, place[:size]) is not None
    )


def _without(data: dict[str, Any], place: Place) -> bool:
    """Take what is wrong out of the data, so that the rest can be planned; whether that was possible."""
    if len(place) > 1 and place[0] == "release" and isinstance(place[1], int):
        release = data["release"][place[1]]
        stand_in = {"ask": "count", "name": f"wrong {place[1]}"}
        if isinstance(release, dict):
            stand_in |= {key: release[key] for key in _GUARANTEE if key in release and place[2:] != (key,)}
        if release == stand_in:
            return False
        data["release"][place[1]] = stand_in
        return True
    if len(place) > 2 and place[:2] == ("schema", "columns"):
        del data["schema"]["columns"][place[2]]
        return True
    if len(place) > 1 and place[0] in ("variables", "output", "scenario"):
        del data[place[0]]
        return True
    return False
