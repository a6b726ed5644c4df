"""Profile pages: learn bounds and labels that nobody knows, privately and for a price that is shown first."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from discreet import Ledger
from discreet.core.errors import DiscreetError
from discreet.core.guarantee import Guarantee
from discreet.plans.job import Job
from discreet.plans.plan_file import PlanFile
from discreet.plans.profile import ProfilePlan, plan_profile, run_profile
from discreet.studio.desk import Desk, form_of
from discreet.studio.plan_pages import undeclared_columns
from discreet.studio.toml_document import Place, TomlDocument, digest_of, value_at

__all__ = ["profile_page", "run_profile_page"]

_PART = 0.2
"""Part of the budget that a profile takes unless somebody says otherwise."""


def profile_page(desk: Desk, request: Request) -> Response:
    """What a profile of the columns that are not declared would cost. Reads no rows."""
    document, file, names = _asked(desk, request)
    amount = _amount(file, request.query_params.get("amount", ""))
    with Job(file).ledger(write=False) as ledger:
        planned = _planned(file, names, amount, ledger)
        told = planned.facts()
        affordable = ledger.preview(planned.cost).after is not None
    return desk.page(
        "profile.html", plan=desk.name_of(document), step="plan", title="Profile", seen=digest_of(document.text()),
        amount=repr(amount), symbol=_symbol(file.budget), told=told, names=names, affordable=affordable,
    )  # fmt: skip


def run_profile_page(desk: Desk, request: Request) -> Response:
    """Read the data, spend, and write what was released into the plan."""
    document, file, names = _asked(desk, request)
    form = form_of(request)
    if form.get("seen") != digest_of(document.text()):
        raise DiscreetError("The plan was changed meanwhile. Go back and look at the price again. Nothing was spent.")
    with Job(file).ledger(write=True) as ledger:
        found = run_profile(_planned(file, names, _amount(file, form.get("amount")), ledger))
    document.change(_declarations(tomllib.loads(found.plan_text()), document, names))
    return desk.go_to("plan", document, fragment="columns")


def _asked(desk: Desk, request: Request) -> tuple[TomlDocument, PlanFile, list[str]]:
    document = desk.document(request)
    _, draft = desk.draft(document)
    if draft.file is None:
        raise DiscreetError(draft.problems.get((), "The plan has mistakes. Mend them first."))
    desk.folder.refuse_outside(draft.file.open_options())
    names = undeclared_columns(desk, draft, document)
    if not names:
        raise DiscreetError("Every column is declared already. There is nothing to profile.")
    return document, draft.file, names


def _symbol(budget: Guarantee) -> str:
    return {"epsilon": "ε", "rho": "ρ", "mu": "μ"}[next(iter(budget.parameters()))]


def _amount(file: PlanFile, typed: str) -> float:
    whole = float(next(iter(file.budget.parameters().values())))
    try:
        return float(typed) if typed.strip() else float(f"{_PART * whole:.2g}")
    except ValueError:
        raise DiscreetError(
            f"amount = {typed!r}: must be a number. Type 0.2, for example. Nothing was spent."
        ) from None


def _planned(file: PlanFile, names: list[str], amount: float, ledger: Ledger) -> ProfilePlan:
    """A profile that spends the given amount of the budget's currency, and as large a part of its δ."""
    (first, whole), *others = file.budget.parameters().items()
    given = {first: amount, **{name: value * amount / whole for name, value in others}}
    options = file.open_options()
    return plan_profile(
        options.pop("source"), type(file.budget)(**given), schema=file.schema, columns=names, ledger=ledger, **options
    )


def _declarations(written: Mapping[str, Any], document: TomlDocument, names: list[str]) -> dict[Place, Any]:
    """What a codebook declares of the columns that were asked for, and the limit of rows where there was none."""
    columns = written["schema"].get("columns", {})
    edits: dict[Place, Any] = {("schema", "columns", name): columns[name] for name in names if name in columns}
    unit, found = value_at(document.data(), ("schema", "unit")), written["schema"].get("unit", {})
    if isinstance(unit, Mapping) and not {"total", "rows", "groups"} & set(unit) and "total" in found:
        edits[("schema", "unit", "total")] = found["total"]
    return edits
