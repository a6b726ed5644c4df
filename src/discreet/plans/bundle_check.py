"""Bundle check: does everything in a bundle follow from the rest of it? Without the data, offline, and running nothing.

Every check looks at the bundle by itself, so that a changed bundle is refused with the place that was changed, not only
with a signature that no longer fits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

import discreet
from discreet.core.door import Claim
from discreet.core.errors import DiscreetError
from discreet.core.ledger.approval import digest_of, key_of
from discreet.core.regular_file import read_regular, reason
from discreet.display import Facts
from discreet.ledgers import Ledger
from discreet.plans.bundle import FORMAT, signed_content
from discreet.plans.bundled_ledger import BundledLedger
from discreet.plans.meaning import meaning
from discreet.plans.plan_file import PlanFile, PlannedQuestion
from discreet.publish.facts import Entry, report_facts
from discreet.publish.methods_note import methods_markdown, methods_page
from discreet.publish.prose import as_markdown
from discreet.publish.report_page import as_page
from discreet.result import Result

__all__ = ["Verified", "verify_bundle"]

_LARGEST = 64_000_000
_CLOSE = 1e-9
"""Intervals are computed again; other machines round the last bits differently."""
_UNKNOWN = (
    "whether the data was real, and whether the source is the one that the plan names",
    "whether the public facts are public: their sources are sentences",
    "whether the ledger is the only one for these people, and whether its end was cut off; a head that was kept "
    "elsewhere tells (--anchor)",
)


_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What follows from parts that are missing, of another kind, too large or nested too deeply."""
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
    """What was checked in a bundle, what was found wrong, and what nobody can know from it."""

    path: str
    checked: tuple[str, ...]
    refused: tuple[str, ...]
    unknown: tuple[str, ...] = _UNKNOWN

    @property
    def passed(self) -> bool:
        """Whether nothing was found wrong."""
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
        """What the release claims, computed again; a sequence claims the same whichever ledger it is in."""
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
        return f"{len(self.file.questions)} claims follow from mechanism and sensitivity, computed again, and were paid"

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
            Entry(name=one.name, title=one.title, question=one.question, answer=self._answer(one))
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
