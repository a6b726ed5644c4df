"""Bundle: everything that was published, and everything needed to check it, in one signed file.

It holds the plan, the results, the report, and the entries of the ledger. Stored answers of other plans are kept back:
of them only the digest is in the file, which is enough to follow the chain of hashes.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

import discreet
from discreet.core.door import Claim
from discreet.core.errors import DiscreetError, LedgerCorrupted
from discreet.core.files import read_regular, reason
from discreet.core.guarantee import Guarantee
from discreet.core.ledger.balance import Approvals, Balance, digest_of, fingerprint, key_of, now
from discreet.core.ledger.journal import Entry, canonical, digest_of_body, sealed, without_secret
from discreet.plans.job import Job
from discreet.plans.plan_file import PlanFile, PlannedQuestion, meaning
from discreet.publish.files import write_whole
from discreet.publish.ledger_statement import planned_release
from discreet.publish.report import ReportedRelease, as_markdown, as_page, methods_markdown, methods_page, report_facts
from discreet.results.display import Facts, Result
from discreet.results.ledger import Ledger

FORMAT = 1
_LARGEST = 64_000_000
_FILES = ("report.md", "report.html", "methods.md", "methods.html")
_LIBRARIES = ("numpy", "scipy", "cryptography")


def write_bundle(
    plan: str | Path, out: Path, *, by: str, public: str, sign: Callable[[bytes], bytes], period: str | None = None
) -> Path:
    """Collect what a run published, with the ledger's entries, sign it and write it.

    Parameters
    ----------
    plan, period
        The plan that was run, and the period that was released.
    out
        The file to write.
    by, public, sign
        Who signs, their public key, and what makes the signature.
    """
    job = Job(plan, period=period)
    content = bundle_text(job, by=by, public=public)
    signature = sign(signed_content(content)).hex()
    return write_whole(out, json.dumps({**content, "signature": signature}, ensure_ascii=False, allow_nan=False))


def bundle_text(job: Job, *, by: str, public: str) -> dict[str, Any]:
    """Everything in a bundle but its signature."""
    file = job.file
    directory = file.output / (file.period or "")
    try:
        results = json.loads(read_regular(directory / "results.json", _LARGEST))
        found = [name for name in _FILES if (directory / name).exists()]
        texts = {name: read_regular(directory / name, _LARGEST).decode() for name in found}
    except OSError as failure:
        raise DiscreetError(f"{directory}: holds no results of this plan: {reason(failure)} Run it first.") from None
    except (ValueError, RecursionError):
        raise DiscreetError(f"{directory}: holds no results of this plan. Run it first.") from None
    with job.ledger(write=False) as ledger:
        entries = ledger.entries()
        own = job.spends(ledger)
    return {
        "discreet": "bundle",
        "format": FORMAT,
        "created": now(),
        "versions": {"discreet": discreet.__version__, "python": sys.version.split()[0]}
        | {name: version(name) for name in _LIBRARIES},
        "plan": {"name": file.path.name, "text": file.text, "period": file.period, "source": file.identity()},
        "results": results,
        "files": texts,
        "ledger": [_excerpt(entry, own) for entry in entries],
        "signed": {"by": by, "key": public},
    }


def _excerpt(entry: Entry, own: frozenset[int]) -> dict[str, Any]:
    """An entry; of an answer to another plan only the digest, and of the data set's secret only its hash."""
    kept = entry.kind != "answer" or entry.content["spend"] in own
    body = (
        {"body": without_secret(entry.body) if entry.kind == "open" else entry.body}
        if kept
        else {"digest": digest_of_body(entry.body)}
    )
    return {"seq": entry.seq, "kind": entry.kind, "hash": entry.hash, **body}


def signed_content(content: Mapping[str, Any]) -> bytes:
    """The bytes that the signature of a bundle signs: all of it but the signature."""
    said = {key: value for key, value in content.items() if key != "signature"}
    return b"discreet bundle\n" + canonical("bundle", said).encode()


# ---- Bundled ledger: the entries of a ledger as a bundle holds them, followed and added up like the ledger's own.


_WHERE = "the bundle's ledger"


@dataclass(frozen=True, kw_only=True)
class BundledLedger:
    """The sums of a bundle's ledger, and its state at the head that the report prints.

    Attributes
    ----------
    budget, head
        What a report says of it.
    entries, heads, opening
        How many entries there are, the hash of each, and what the first one fixes.
    """

    budget: Guarantee
    head: str
    entries: int
    heads: frozenset[str]
    opening: Mapping[str, Any]
    _balance: Balance
    _spent: Guarantee
    _left: Guarantee
    _spends: Mapping[int, Mapping[str, Any]]
    _answers: Mapping[int, Any]

    @staticmethod
    def read(records: Sequence[Mapping[str, Any]], head: str) -> BundledLedger:
        """Follow the entries; refuse a broken chain, an overspent budget, a forged approval or an unknown head."""
        balance, heads = Balance(_WHERE), []
        spends: dict[int, Mapping[str, Any]] = {}
        answers: dict[int, Any] = {}
        state = None
        for record in records:
            if "body" in record:
                entry = Entry(record["seq"], record["kind"], record["body"], record["hash"])
                balance.apply(entry)
                if entry.kind == "spend":
                    spends[entry.seq] = entry.content
                elif entry.kind == "answer":
                    answers[entry.content["spend"]] = entry.content["answer"]
            else:
                _follow_sealed(balance, record)
            heads.append(balance.head)
            if balance.head == head:
                counted = balance.accounting
                state = counted.at_least(balance.spent), counted.at_most(balance.left())
        if state is None:
            raise LedgerCorrupted(f"{_WHERE}: the head that the report prints is none of its heads.")
        return BundledLedger(
            budget=balance.accounting.budget,
            head=head,
            entries=balance.seq,
            heads=frozenset(heads),
            opening=balance.opening,
            _balance=balance,
            _spent=state[0],
            _left=state[1],
            _spends=spends,
            _answers=answers,
        )

    def spent(self) -> Guarantee:
        """The guarantee spent when the report was made."""
        return self._spent

    def remaining(self) -> Guarantee:
        """The guarantee left when the report was made."""
        return self._left

    @property
    def rule(self) -> Approvals | None:
        """Who must approve a plan, and their keys."""
        return self._balance.consent.rule

    def approving(self, plan: str) -> frozenset[str]:
        """Who approves a plan at the end of the ledger."""
        return frozenset(self._balance.consent.approving.get(plan, ()))

    def spend(self, name: str, period: str | None, identity: str) -> Mapping[str, Any] | None:
        """The last payment for a release of that name, in that period, with exactly that claim."""
        spends = reversed(list(self._spends.values()))
        made = (one for one in spends if planned_release(one["request"]) == (name, period))
        return next((one for one in made if fingerprint(dict(one)) == identity), None)

    def answers_in(self, partition: str) -> list[Any]:
        """The stored answers of a sequence, in the order of their payments."""
        made = [seq for seq, content in self._spends.items() if content["partition"] == partition]
        return [self._answers[seq] for seq in made if seq in self._answers]

    def answer(self, spend: Mapping[str, Any]) -> Any:
        """The stored answer of a payment; None where there is none, or the bundle keeps it back."""
        seq = next(seq for seq, content in self._spends.items() if content is spend)
        return self._answers.get(seq)


def _follow_sealed(balance: Balance, record: Mapping[str, Any]) -> None:
    """Follow an entry whose body is kept back: the answer of another plan."""
    seq, kind = record["seq"], record["kind"]
    if kind != "answer" or seq != balance.seq + 1:
        raise LedgerCorrupted(f"{_WHERE}, entry {seq}: only answers of other plans may be kept back.")
    if record["hash"] != sealed(balance.head, seq, kind, record["digest"]):
        raise LedgerCorrupted(f"{_WHERE}, entry {seq}: its hash does not fit the entries before it.")
    balance.seq, balance.head = seq, record["hash"]


# ---- Bundle check: does everything in a bundle follow from the rest of it? Without the data, offline, and running
# nothing.
#
# Every check looks at the bundle by itself, so that a changed bundle is refused with the place that was changed, not
# only with a signature that no longer fits.


_CLOSE = 1e-9
"""Intervals are computed again; other machines round the last bits differently."""
_UNKNOWN = (
    "whether the data was real, and whether the source is the one that the plan names",
    "whether the public facts are public: their sources are sentences",
    "whether the ledger is the only one for these people, and whether its end was cut off; a head that was kept "
    "elsewhere tells (--anchor)",
)


_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""The errors that follow from parts that are missing, of another kind, too large or nested too deeply."""
_PAGES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "report.md": as_markdown,
    "report.html": as_page,
    "methods.md": methods_markdown,
    "methods.html": methods_page,
}


class _Refused(Exception):
    """A check failed: where, and why."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"{place}: {why}")


@dataclass(frozen=True, kw_only=True)
class Verified(Result):
    """The checks made on a bundle, the faults found, and the facts that nobody can know from it."""

    path: str
    checked: tuple[str, ...]
    refused: tuple[str, ...]
    unknown: tuple[str, ...] = _UNKNOWN

    @property
    def passed(self) -> bool:
        """True where nothing was found wrong."""
        return not self.refused

    def heading(self) -> str:
        return f"{self.path}: {'everything that can be checked holds' if self.passed else 'REFUSED'}"

    def facts(self) -> Facts:
        wrong = [("wrong", line) for line in self.refused]
        return [*wrong, *(("holds", line) for line in self.checked), *(("not known", line) for line in self.unknown)]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {
            "path": self.path,
            "passed": self.passed,
            "checked": list(self.checked),
            "refused": list(self.refused),
            "unknown": list(self.unknown),
        }


def verify_bundle(path: str | Path, *, key: str | None = None, anchor: str | None = None) -> Verified:
    """Check a bundle.

    Parameters
    ----------
    path
        The file.
    key
        The public key that must have signed it. Without it, the signer must be somebody whom the ledger names; where
        it names nobody, the signature shows only that the file was not changed after it was signed.
    anchor
        A head of the ledger that was kept elsewhere.
    """
    checked: list[str] = []
    refused: list[str] = []
    try:
        bundle = _read(Path(path))
        case = _Case(bundle, key, anchor)
    except _Refused as failure:
        return Verified(path=str(path), checked=(), refused=(str(failure),))
    for check in case.checks():
        try:
            checked.append(check())
        except _Refused as failure:
            refused.append(str(failure))
        except (DiscreetError, *_UNREADABLE) as failure:
            refused.append(f"{check.__name__.strip('_').replace('_', ' ')}: cannot be read ({type(failure).__name__})")
    return Verified(path=str(path), checked=tuple(checked), refused=tuple(refused))


def _read(path: Path) -> dict[str, Any]:
    """The content of the file; limited in size, without repeated keys, and nothing but JSON."""
    try:
        content = json.loads(read_regular(path, _LARGEST), object_pairs_hook=_unique, parse_constant=_no_number)
    except OSError as failure:
        raise _Refused(path.name, f"cannot be read: {reason(failure)}") from None
    except (ValueError, RecursionError):
        raise _Refused(path.name, "is not a bundle: it is no JSON, or nested too deeply") from None
    if not isinstance(content, dict) or (content.get("discreet"), content.get("format")) != ("bundle", FORMAT):
        raise _Refused(path.name, f"is not a bundle of format {FORMAT}")
    return content


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is given twice")
    return found


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is not a number")


class _Case:
    """One bundle under examination."""

    def __init__(self, bundle: dict[str, Any], key: str | None, anchor: str | None) -> None:
        self.bundle, self.key, self.anchor = bundle, key, anchor
        self._spends: dict[str, Mapping[str, Any] | None] = {}
        """The payment of each release: several checks ask for it."""
        try:
            told = bundle["plan"]
            self.file = PlanFile.parse(told["text"], Path(told["name"]), period=told["period"])
            self.results, self.facts = bundle["results"], bundle["results"]["facts"]
            self._account = Ledger(":memory:", self.file.budget)  # in whose currency claims are stated
            self.ledger = BundledLedger.read(bundle["ledger"], self.facts["privacy"]["head"])
        except DiscreetError as failure:
            raise _Refused("plan or ledger", str(failure)) from None
        except _UNREADABLE as failure:
            raise _Refused("bundle", f"lacks a part or holds a wrong one ({type(failure).__name__})") from None

    def checks(self) -> Iterator[Callable[[], str]]:
        """All checks, the signature last: what it covers is looked at by itself first."""
        return iter(
            (
                self.ledger_chain,
                self.ledger_anchor,
                self.terms,
                self.approvals,
                self.releases,
                self.values,
                self.report,
                self.pages,
                self.signature,
            )
        )

    # -- the ledger ----------------------------------------------------------------------------------------

    def ledger_chain(self) -> str:
        """Follow every entry."""
        return f"the ledger's {self.ledger.entries} entries form a chain, and their sum stays within the budget"

    def ledger_anchor(self) -> str:
        """The head that the report printed, and one that was kept elsewhere."""
        if self.anchor is None:
            return "the head that the report prints is a head of this ledger"
        if self.anchor not in self.ledger.heads:
            raise _Refused("ledger", "the anchor is none of its heads: it is another ledger, or an older copy of it")
        return "the anchor is a head of this ledger"

    def terms(self) -> str:
        """Budget, window and rule of the plan are those of the ledger."""
        opening, file = self.ledger.opening, self.file
        if opening["budget"] != file.budget.to_dict():
            raise _Refused("plan", "its budget is not the ledger's")
        if opening["window"] != file.terms.window:
            raise _Refused("plan", "its window is not the ledger's")
        rule = file.terms.approvals
        if rule is not None and self.ledger.rule != rule:
            raise _Refused("plan", "its rule on approvals is not the ledger's")
        return "budget, window and rule on approvals of the plan are those of the ledger"

    def approvals(self) -> str:
        """The plan that ran is the one that was approved."""
        if self.ledger.rule is None:
            return "the ledger asks for no approvals"
        told, made = self.bundle["plan"]["source"], self.bundle["versions"]["discreet"]
        digest = digest_of(meaning(self.file, self._account) | {"source": told, "software": made})
        for name in self.results["releases"]:
            if self._spend(self._question(name))["plan"] != digest:
                raise _Refused(f"release {name!r}", "was not made under the approved meaning of this plan")
        names = ", ".join(sorted(self.ledger.approving(digest)))
        return f"this plan was approved when it ran; it is approved now by: {names or 'nobody any more'}"

    # -- releases ------------------------------------------------------------------------------------------

    def _question(self, name: str) -> PlannedQuestion:
        found = [question for question in self.file.questions if question.name == name]
        if not found:
            raise _Refused(f"release {name!r}", "is not in the plan")
        return found[0]

    def _claim(self, question: PlannedQuestion) -> Claim:
        """The claim of the release, computed again; a sequence claims the same whichever ledger it is in."""
        return question.question.claim(None if question.question.continues else self._account)

    def _spend(self, question: PlannedQuestion) -> Mapping[str, Any]:
        if question.name not in self._spends:
            identity = self._claim(question).identity()
            self._spends[question.name] = self.ledger.spend(question.name, self.file.period, identity)
        spend = self._spends[question.name]
        if spend is None:
            raise _Refused(f"release {question.name!r}", "the ledger holds no payment for this question as planned")
        return spend

    def releases(self) -> str:
        """Every claim follows from its mechanism and sensitivity."""
        if set(self.results["releases"]) != {question.name for question in self.file.questions}:
            raise _Refused("results", "they are not the releases of the plan")
        for question in self.file.questions:
            try:
                self._claim(question).verify()
            except DiscreetError as failure:
                raise _Refused(f"release {question.name!r}", str(failure)) from None
            self._spend(question)
        return f"claims follow from mechanism and sensitivity, checked again, and were paid: {len(self.file.questions)}"

    def _answer(self, question: PlannedQuestion) -> Any:
        stored = self.ledger.answer(self._spend(question))
        if stored is None:
            raise _Refused(f"release {question.name!r}", "the ledger holds no answer")
        return question.question.read(stored)

    def values(self) -> str:
        """Every value is the one that the ledger stored."""
        for question in self.file.questions:
            answer = self._answer(question)
            stored = json.loads(json.dumps(getattr(answer, "release", answer).to_dict()))
            _compare(f"release {question.name!r}", stored, self.results["releases"][question.name])
            self._continues(question, stored)
        return "every value is the one that the ledger stored when it was drawn"

    def _continues(self, question: PlannedQuestion, stored: Mapping[str, Any]) -> None:
        """The earlier measurements of a sequence are those that the ledger stored for its earlier periods."""
        partition = self._claim(question).partition
        if partition is None:
            return
        made = {one["statistic"]["period"]: one["measurement"] for one in self.ledger.answers_in(partition)}
        before = [made.get(period) for period in stored["statistic"]["periods"]][: len(stored["public"]["earlier"])]
        _compare(f"release {question.name!r}, earlier periods", before, stored["public"]["earlier"])

    def report(self) -> str:
        """Every printed number and interval follows from a stored value."""
        entries = [
            ReportedRelease(name=one.name, title=one.title, question=one.question, answer=self._answer(one))
            for one in self.file.questions
        ]
        again = json.loads(
            json.dumps(
                report_facts(
                    title=self.file.title,
                    plan=self.file.text,
                    schema=self.file.schema,
                    ledger=self.ledger,
                    entries=entries,
                    variables=self.file.variables,
                    sources=self.file.sources,
                )
            )
        )
        told = dict(self.facts)
        for name in ("version", "assumptions"):  # with which version, and a line about an attack
            again.pop(name, None)
            told.pop(name, None)
        _compare("report", again, told)
        return "every printed number and interval follows from a stored value, computed again"

    def pages(self) -> str:
        """The pages say what the facts say."""
        files, same = self.bundle["files"], self.bundle["versions"]["discreet"] == discreet.__version__
        for name, written in _PAGES.items():
            if name in files and (same or name == "report.md") and files[name] != written(self.facts):
                raise _Refused(name, "it does not say what the results say")
        if "report.md" not in files or set(files) - set(_PAGES):
            raise _Refused("files", "they are not those that a run writes")
        return "report and methods note say what the results say" + (
            "" if same else "; pages of another version were not compared"
        )

    # -- the signature -------------------------------------------------------------------------------------

    def signature(self) -> str:
        """Who signed all of it."""
        by, key = self.bundle["signed"]["by"], self.bundle["signed"]["key"]
        try:
            public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))
            public.verify(bytes.fromhex(self.bundle["signature"]), signed_content(self.bundle))
        except (InvalidSignature, ValueError):
            raise _Refused("signature", f"the content is not what {by!r} signed") from None
        rule = self.ledger.rule
        if self.key is not None and key_of(key) != key_of(self.key):
            raise _Refused("signature", f"{by!r} signed with another key than the one given")
        if self.key is None and rule is not None and rule.keys.get(by) != key_of(key):
            raise _Refused("signature", f"{by!r} is nobody whom the ledger names: signed by a stranger")
        if self.key is None and rule is None:
            return f"signed with the key {key[:16]}…; give --key to check whose it is"
        return f"signed by {by}"


def _compare(place: str, expected: Any, found: Any) -> None:
    """Refuse the first difference, by its place; numbers may differ in their last bits."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for name in sorted(expected.keys() | found.keys()):
            if (name in expected) != (name in found):
                raise _Refused(f"{place}, {name}", "is missing" if name in expected else "does not belong there")
            _compare(f"{place}, {name}", expected[name], found[name])
    elif isinstance(expected, list) and isinstance(found, list):
        if len(expected) != len(found):
            raise _Refused(place, f"has {len(found)} parts instead of {len(expected)}")
        for number, (one, other) in enumerate(zip(expected, found, strict=True), start=1):
            _compare(f"{place} {number}", one, other)
    elif not _same(expected, found):
        raise _Refused(place, "is not what the ledger and the plan give")


def _same(expected: Any, found: Any) -> bool:
    numbers = [isinstance(one, int | float) and not isinstance(one, bool) for one in (expected, found)]
    if all(numbers):
        return math.isclose(expected, found, rel_tol=_CLOSE, abs_tol=_CLOSE * 1e-3)
    return type(expected) is type(found) and bool(expected == found)
