"""Publish pages: review and approve, run, take the results away, read the ledger, and attack oneself."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from discreet import Ledger, PureDP
from discreet.core.errors import DiscreetError, LedgerMissing
from discreet.core.guarantee import Guarantee
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.geometric import Geometric
from discreet.plans.bundle import write_bundle
from discreet.plans.job import Job, previewed
from discreet.plans.plan_file import PlanFile
from discreet.plans.review import approve_plan, default_directory, public_key, review, signer
from discreet.plans.skeleton import command_lines, notebook, python_script
from discreet.publish.export import export, read_facts
from discreet.publish.files import anchored_heads, write_anchor
from discreet.publish.ledger_statement import planned_release
from discreet.publish.report import charted, findings, table_words, with_named_quantiles
from discreet.results.display import plural
from discreet.results.wording import attacker_words
from discreet.studio import forms
from discreet.studio.desk import Desk, form_of
from discreet.studio.guard import PUBLISHED_POLICY
from discreet.studio.toml_document import TomlDocument, digest_of

# ---- Ledger view: what was spent, by release, team and period; whether the ledger is intact


def ledger_view(file: PlanFile) -> dict[str, Any] | None:
    """The account of a plan's ledger; None where nothing was released yet."""
    try:
        with Ledger(file.ledger, read_only=True) as ledger:
            statement = ledger.statement()
    except LedgerMissing:
        return None
    rows = []
    by = {"team": defaultdict[str, int](int), "period": defaultdict[str, int](int)}
    for spend in statement.spends:
        planned = planned_release(spend.request)
        name, period = planned if planned is not None else (spend.request or spend.release_id[:12], None)
        by["team"][spend.team or "no team"] += 1
        by["period"][period or "no period"] += 1
        rows.append(
            {
                "seq": spend.seq,
                "created": spend.created[:16].replace("T", " "),
                "name": name,
                "period": period or "",
                "team": spend.team or "",
                "title": spend.title,
                "charge": str(spend.charge),
                "spent": str(spend.spent),
            }
        )
    return {
        "path": file.ledger_name,
        "budget": str(statement.budget),
        "spent": str(statement.spent),
        "remaining": str(statement.remaining),
        "protects": statement.protects,
        "head": statement.head,
        "rows": rows,
        "groups": {kind: sorted(counted.items()) for kind, counted in by.items() if set(counted) - {f"no {kind}"}},
    }


def verified(file: PlanFile) -> list[str]:
    """Check every entry of the ledger again; what was found, line by line."""
    with Ledger(file.ledger, read_only=True) as ledger:
        found = ledger.verify(anchor=anchored_heads(ledger, None))
    return [f"{name}: {value}" for name, value in found.facts()]


def anchored(file: PlanFile, place: Path) -> str:
    """Append the head to a file that is kept elsewhere."""
    if place.exists() and not place.name.endswith(".txt"):
        raise DiscreetError(f"file = {place.name!r}: must end in .txt. Choose another name.")
    with Job(file).ledger(write=True) as ledger:
        return write_anchor(ledger, place)


# ---- Self attack: a made-up person in and out of made-up data, and how often an attacker tells which, at this budget


_OTHERS = 100
"""Made-up people whom the attacker knows everything about."""
_ALPHAS = np.linspace(0.0, 1.0, 2001)


@dataclass(frozen=True)
class SelfAttack:
    """The success of an attacker on many releases.

    Attributes
    ----------
    tries, right
        How often the attacker guessed, and in which proportion rightly.
    most
        The proportion that no attacker exceeds on average, whatever is released, by the guarantee alone.
    shown
        The first releases: whether the person was in, the published count, and whether the guess was right.
    """

    tries: int
    right: float
    most: float
    shown: tuple[tuple[bool, float, bool], ...]


def attack_oneself(budget: Guarantee, *, tries: int = 2000, seed: int | None = None) -> SelfAttack:
    """Release a count of made-up people again and again, with and without one of them, and guess which it was.

    Parameters
    ----------
    budget
        What each release may spend: the whole budget at once, the best case for the attacker.
    tries
        How many releases.
    seed
        The draws repeat for the same seed; new ones by default. No real data takes part.

    Examples
    --------
    >>> attack = attack_oneself(PureDP(1.0), seed=1)
    >>> 0.5 < attack.right < attack.most + 0.05, round(attack.most, 3)
    (True, 0.731)
    """
    rng = np.random.default_rng(seed)
    present = rng.random(tries) < 0.5
    mechanism: Any = (Geometric if isinstance(budget, PureDP) else Gaussian).calibrate(budget, Sensitivity(l1=1.0))
    published = mechanism.law(float(_OTHERS)).sample(tries, rng=rng) + present
    middle = _OTHERS + 0.5
    guesses = np.where(published == middle, rng.random(tries) < 0.5, published > middle)
    right = guesses == present
    shown = tuple(
        (bool(one), round(float(value), 1), bool(hit))
        for one, value, hit in zip(present[:8], published[:8], right[:8], strict=True)
    )
    return SelfAttack(tries, float(right.mean()), most_right(budget), shown)


def most_right(guarantee: Guarantee) -> float:
    """The largest chance that a guess with even odds is right: one minus half of the smallest sum of both errors."""
    errors = np.asarray(guarantee.tradeoff(_ALPHAS), dtype=float) + _ALPHAS
    return float(1 - errors.min() / 2)


_FILES = {
    "report.html": "text/html; charset=utf-8",
    "methods.html": "text/html; charset=utf-8",
    "report.md": "text/markdown; charset=utf-8",
    "results.json": "application/json",
}
_EXPORTS = {"csv": "results.csv", "xlsx": "results.xlsx"}
_LARGEST = 10.0


def _read(desk: Desk, request: Request) -> tuple[TomlDocument, PlanFile]:
    """The plan of a request, refused where it has mistakes."""
    document = desk.document(request)
    return document, PlanFile.parse(document.text(), document.path)


def _runnable(desk: Desk, request: Request) -> tuple[TomlDocument, PlanFile]:
    """The plan of a request, refused where it reads or writes outside of the folder, too."""
    document, file = _read(desk, request)
    desk.folder.refuse_outside(file.open_options())
    desk.folder.refuse_output(file.output)
    return document, file


def _shared(desk: Desk, document: TomlDocument, file: PlanFile, step: str) -> dict[str, Any]:
    return {"plan": desk.name_of(document), "step": step, "title": file.title, "seen": digest_of(file.text)}


def review_page(desk: Desk, request: Request, notice: str | None = None) -> Response:
    """The page that an officer reads, with its checklist and the changes since the last approval."""
    document, file = _read(desk, request)
    found = review(file)
    with Job(file).ledger(write=False) as ledger:
        rule = ledger.approvals
    return desk.page(
        "review.html", **{**_shared(desk, document, file, "review"), "notice": notice}, review=found.to_dict(),
        signers=[] if rule is None else sorted(rule.keys), unsourced=found.unsourced,
    )  # fmt: skip


def _typed_key(form: Any) -> tuple[str, Path, str]:
    by = form.get("by").strip()
    if not by or Path(by).name != by:
        raise DiscreetError(f"by = {by!r}: must be the name of a key.")
    return by, default_directory() / f"{by}.key", form.get("password")


def approve(desk: Desk, request: Request) -> Response:
    """Sign the plan that was shown."""
    _, file = _read(desk, request)
    form = form_of(request)
    _refuse_other(file, form.get("seen"))
    by, key, password = _typed_key(form)
    said = approve_plan(Job(file), by=by, sign=lambda: signer(key, password))
    return review_page(desk, request, said)


def _refuse_other(file: PlanFile, seen: str) -> None:
    if digest_of(file.text) != seen:
        raise DiscreetError(
            "The plan was changed meanwhile. Go back, read it again, and then decide. Nothing was spent."
        )


def run_page(desk: Desk, request: Request, notice: str | None = None) -> Response:
    """The price, then the progress, then the report."""
    document, file = _runnable(desk, request)
    run, job = desk.runs.of(file.path), Job(file)
    if run is not None and not run.ended:
        return desk.page("run.html", **_shared(desk, document, file, "run"), run=run, state="running")
    planned, finished = job.plan(rehearse=False), job.finished()
    with job.ledger(write=False) as ledger:
        waits = not finished and job.not_approved(ledger) is not None
    directory = file.output / (file.period or "")
    facts = read_facts(directory) if finished and (directory / "results.json").exists() else None
    found = [with_named_quantiles(one) for one in facts["releases"]] if facts is not None else []
    shown = {**_shared(desk, document, file, "run"), "notice": notice or (run.refusal if run is not None else None)}
    return desk.page(
        "run.html",
        **shown,
        run=run,
        state="done" if facts is not None else "finished" if finished else "waiting",
        cost=str(planned.cost or "nothing"),
        left=str(planned.remaining),
        refusal=planned.refusal,
        waits=waits,
        releases=[(one.title, str(one.question.guarantee)) for one in file.questions],
        found=[(one, findings(one), charted(one)) for one in found],
        **table_words(),
        python=python_script(file),
        commands=command_lines(file),
    )


def preview_page(desk: Desk, request: Request) -> Response:
    """What the report could look like, on made-up rows. Reads no data and spends nothing."""
    document, file = _read(desk, request)
    _, draft = desk.draft(document)
    facts = previewed(file)
    found = [with_named_quantiles(one) for one in facts["releases"]]
    read = dict.fromkeys(name for one in file.questions for name in one.question.columns_read())
    return desk.page(
        "preview.html", **_shared(desk, document, file, "plan"), rows=facts["made_up"],
        found=[(one, findings(one), charted(one)) for one in found], fields=forms.scenario_fields(draft, [*read]),
        noun=plural(file.schema.noun or "row"), **table_words(),
    )  # fmt: skip


def start_run(desk: Desk, request: Request) -> Response:
    """Run the plan whose price was shown; what is in the ledger already is repeated for free."""
    document, file = _runnable(desk, request)
    _refuse_other(file, form_of(request).get("seen"))
    desk.runs.forget(file.path)
    run = desk.runs.start(file)
    if run.thread is not None:
        run.thread.join(0.4)  # small plans are ready before a page could ask
    return desk.go_to("run", document)


def progress(desk: Desk, request: Request) -> Response:
    """The progress of the run; the whole page once it has ended."""
    document, file = _read(desk, request)
    run = desk.runs.of(file.path)
    if run is None or run.ended:
        return Response(status_code=204, headers={"hx-refresh": "true"})
    return desk.page("progress.html", **_shared(desk, document, file, "run"), run=run)


def download(desk: Desk, request: Request) -> Response:
    """A file of the results, or the plan as Python."""
    _, file = _runnable(desk, request)
    which = request.query_params.get("what", "")
    made: dict[str, tuple[str, Callable[[PlanFile], str]]] = {
        "script.py": ("text/x-python", python_script),
        "notebook.ipynb": ("application/x-ipynb+json", notebook),
    }
    stem = file.path.stem
    if which in made:
        kind, write = made[which]
        return Response(write(file), media_type=kind, headers=_as_file(f"{stem}.{which.rpartition('.')[2]}"))
    directory = file.output / (file.period or "")
    if which in _EXPORTS:
        (written,) = export(directory, which)
        return FileResponse(written, filename=f"{stem}.{which}")
    if which not in _FILES or not (directory / which).is_file():
        raise DiscreetError(f"what = {which!r}: there is no such result. Run the plan first.")
    desk.folder.refuse_output(directory / which)  # a link may lead out
    opened = {"content-security-policy": PUBLISHED_POLICY} if which.endswith(".html") else _as_file(f"{stem}-{which}")
    return FileResponse(directory / which, media_type=_FILES[which], headers=opened)


def _as_file(name: str) -> dict[str, str]:
    plain = "".join(one if one.isascii() and (one.isalnum() or one in "._-") else "-" for one in name)
    return {"content-disposition": f'attachment; filename="{plain}"'}


def bundle(desk: Desk, request: Request) -> Response:
    """Everything that was published, and what is needed to check it, in one signed file."""
    _, file = _runnable(desk, request)
    by, key, password = _typed_key(form_of(request))
    place = file.path.with_suffix(".bundle")
    public = public_key(key, password)
    sign = signer(key, password)
    written = write_bundle(file.path, place, by=by, public=public, sign=sign, period=file.period)
    return run_page(desk, request, f"{written.name} is beside the plan. `discreet verify {written.name}` checks it.")


def ledger_page(desk: Desk, request: Request) -> Response:
    """The page of what was spent; with the result of a check where one was asked for."""
    document, file = _read(desk, request)
    checked = verified(file) if request.query_params.get("verify") else []
    return desk.page(
        "ledger.html", **_shared(desk, document, file, "ledger"), account=ledger_view(file), checked=checked
    )


def anchor(desk: Desk, request: Request) -> Response:
    """Append the ledger's head to a file of the folder."""
    document, file = _read(desk, request)
    anchored(file, desk.folder.inside(form_of(request).get("file")))
    return desk.go_to("ledger", document, verify="1")


def learn_page(desk: Desk, request: Request) -> Response:
    """An attack on a made-up person, at this plan's budget or another."""
    document, file = _read(desk, request)
    budget, typed = file.budget, request.query_params.get("epsilon", "")
    name, whole = next(iter(budget.parameters().items()))
    try:
        chosen = min(max(float(typed), 0.01), _LARGEST) if typed else float(whole)
        budget = type(budget)(**{**budget.parameters(), name: chosen})
        attack = attack_oneself(budget)
    except (ValueError, DiscreetError) as failure:
        raise DiscreetError(
            f"{name} = {typed!r}: must be a positive number. Type 1, for example. ({failure})"
        ) from None
    words = (
        f"The attacker was right {100 * attack.right:.0f} % of the time. On average, no attacker is right more than "
        f"{100 * attack.most:.1f} % of the time."
    )
    return desk.page(
        "learn.html",
        **_shared(desk, document, file, "learn"),
        symbol={"epsilon": "ε", "rho": "ρ", "mu": "μ"}[name],
        chosen=json.dumps(chosen),
        attack=attack,
        words=words,
        odds=attacker_words(budget, file.schema.unit.name, file.schema.neighbours),
    )
