"""Balance: what the entries of a ledger add up to.

The balance is a fold over the entries: the same code follows other processes' spends, opens a file and verifies
it, so a total that was written can never differ unnoticed from a total that was computed.
"""

from __future__ import annotations

import hashlib
import math
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache, reduce
from operator import itemgetter
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from discreet.core import errors, requirements
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.ledger.journal import ROOT, Entry, canonical, chained
from discreet.core.numbers import decimal, down, greatest, least, up
from discreet.core.protection import Neighbours, Unit

# ---- Accounting: how guarantees add up against a budget, in exact fractions.
#
# Each way of accounting is a *privacy filter*: the releases, their number and their parameters may be chosen
# after seeing earlier answers; as long as the sum stays within the allowance, all of them together satisfy the
# budget.
# Proofs: ``docs/proofs/ledger.md``.


Amount = tuple[Fraction, ...]
"""The numbers that are added up: (Σε,), (Σε, Σδ), (Σρ,) or (Σμ²,)."""


def added(first: Amount, second: Amount) -> Amount:
    """Sum, coordinate by coordinate."""
    return tuple(a + b for a, b in zip(first, second, strict=True))


def less(first: Amount, second: Amount) -> Amount:
    """Difference, coordinate by coordinate."""
    return tuple(a - b for a, b in zip(first, second, strict=True))


def peak(first: Amount, second: Amount) -> Amount:
    """The larger of the two, coordinate by coordinate."""
    return tuple(max(a, b) for a, b in zip(first, second, strict=True))


def covers(allowance: Amount, amount: Amount) -> bool:
    """True where no coordinate of ``amount`` exceeds the allowance."""
    return all(a <= b for a, b in zip(amount, allowance, strict=True))


CURRENCIES: dict[str, tuple[Any, int]] = {
    "pure": (PureDP, 1),
    "basic": (ApproxDP, 1),
    "zcdp": (ZeroConcentratedDP, 1),
    "gdp": (GaussianDP, 2),
}
"""By accounting: the kind of guarantee, and which power of its parameters adds up. ε, δ and ρ themselves, but μ²."""
_CRUMB = Fraction(1, 10**12)
"""Less than this part of the allowance is left by the rounding of shares, and is not worth a mention."""


@dataclass(frozen=True)
class Accounting:
    """A budget, what it allows in the unit of account, and what a guarantee costs in it.

    Attributes
    ----------
    name
        ``"pure"`` (ε adds), ``"basic"`` (ε and δ add), ``"zcdp"`` (ρ adds) or ``"gdp"`` (μ² adds).
    budget
        What all releases together must satisfy.
    allowance
        How much may be spent in all.
    """

    name: str
    budget: Guarantee
    allowance: Amount

    @staticmethod
    def own(budget: Guarantee) -> Accounting:
        """A guarantee counted in its own kind. `discreet.results.ledger` counts it in others."""
        name, power = next((name, power) for name, (kind, power) in CURRENCIES.items() if kind is type(budget))
        return Accounting(name, budget, amount_of(budget, power))

    @property
    def currency(self) -> type[Guarantee]:
        """The kind of guarantee that is charged. Ask a mechanism for this kind to be charged least."""
        kind: type[Guarantee] = CURRENCIES[self.name][0]
        return kind

    @property
    def nothing(self) -> Amount:
        """The zero amount."""
        return (Fraction(0),) * len(self.allowance)

    def kept(self) -> bool:
        """True where spending the whole allowance certainly satisfies the budget."""
        return self.at_least(self.allowance).within(self.budget)

    def cost(self, guarantee: Guarantee) -> Amount:
        """The exact amount that a release with this guarantee adds."""
        try:
            charged = _converted(guarantee, self.currency)
        except (errors.InvalidParameter, errors.NoConversion) as refusal:
            raise errors.NoConversion(
                f"this ledger counts in {self.currency.__name__} and cannot charge {guarantee}: {refusal} "
                f"State the release's guarantee as {self.currency.__name__}, or use a ledger with another "
                "budget or accounting. Nothing was spent."
            ) from None
        return amount_of(charged, CURRENCIES[self.name][1])

    def at_least(self, amount: Amount) -> Guarantee:
        """The amount as a guarantee, rounded up: for what was spent."""
        if self.name != "gdp" or amount == self.nothing:
            return self._stated(map(up, amount))
        return GaussianDP(least(lambda mu: decimal(mu) ** 2 >= amount[0], math.sqrt(amount[0])))

    def at_most(self, amount: Amount) -> Guarantee:
        """The amount as a guarantee, rounded down: for what is left. It can be spent."""
        if self.name != "gdp" or amount == self.nothing:
            crumbs = [part < _CRUMB * whole for part, whole in zip(amount, self.allowance, strict=True)]
            left = (0.0 if crumb else down(part) + 0.0 for part, crumb in zip(amount, crumbs, strict=True))
            return self._stated(left)  # adding 0.0 never shows minus zero
        return GaussianDP(greatest(lambda mu: decimal(mu) ** 2 <= amount[0], math.sqrt(amount[0])))

    def _stated(self, parameters: Iterable[float]) -> Guarantee:
        kind: Any = self.currency
        stated: Guarantee = kind(*parameters)
        return stated


def amount_of(guarantee: Guarantee, power: int) -> Amount:
    """The amount that a guarantee counts in its own kind."""
    return tuple(decimal(parameter) ** power for parameter in guarantee.parameters().values())


@lru_cache(maxsize=4096)
def _converted(guarantee: Guarantee, kind: type[Guarantee]) -> Guarantee:
    return guarantee.to(kind)


# ---- Approval: who must agree to a plan before a ledger pays for it, and the proof that they did.
#
# A person signs, with Ed25519, the digest of what a plan means and the head of the ledger at that moment. The signature
# therefore belongs to one plan, one ledger and one position in it: it can be neither moved nor used twice.


_KEY_BYTES = 32


@dataclass(frozen=True)
class Approvals:
    """The number of approvals that a plan needs, and the people who may give them.

    Parameters
    ----------
    need
        How many of them.
    keys
        Name and public key (64 hexadecimal digits, as `discreet keys new` prints it) of everyone who may approve.

    Examples
    --------
    >>> Approvals(1, {"officer": "00" * 32}).need
    1
    """

    need: int
    keys: Mapping[str, str]

    def __post_init__(self) -> None:
        given = requirements.instance("keys", self.keys, Mapping, "names and keys")
        keys = {name: found for name, text in given.items() if (found := key_of(text)) is not None}
        if len(keys) < len(given):
            raise errors.WrongType(
                "keys", self.keys, "must give a public key of 64 hexadecimal digits for each name",
                "Copy the keys that `discreet keys new` printed.",
            )  # fmt: skip
        if requirements.positive_integer("need", self.need) > len(self.keys):
            raise errors.InvalidParameter(
                "need",
                self.need,
                f"is more than the {len(self.keys)} who have a key",
                "Write a key for each below [ledger.approvals.keys], as `discreet keys new officer` prints it.",
            )
        if len(set(keys.values())) < len(keys):
            raise errors.InvalidParameter(
                "keys", self.keys, "give one key to two names", "Everyone needs a key of their own."
            )
        object.__setattr__(self, "keys", keys)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {"need": self.need, "keys": dict(self.keys)}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Approvals:
        """Read what `to_dict` wrote."""
        return Approvals(data["need"], data["keys"])

    def check(self, head: str, content: Mapping[str, Any]) -> None:
        """Refuse a statement that nobody of them signed at that head."""
        name = content["by"]
        if name not in self.keys:
            raise errors.InvalidParameter("by", name, f"is none of {sorted(self.keys)}", "Sign as one of them.")
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.keys[name]))
        try:
            key.verify(bytes.fromhex(content["signature"]), signed_text(head, content))
        except (InvalidSignature, ValueError):
            raise errors.InvalidParameter(
                "signature", content["signature"][:16], f"was not made with the key of {name!r}",
                "Sign with the key whose public part the ledger holds.",
            ) from None  # fmt: skip


def key_of(text: Any) -> str | None:
    """A public key in its one spelling: case and blanks do not make another key. None where it is no key.

    Examples
    --------
    >>> key_of("AB " * 32) == key_of("ab" * 32), key_of("ab")
    (True, None)
    """
    try:
        key = bytes.fromhex(text) if isinstance(text, str) else b""
    except ValueError:
        return None
    return key.hex() if len(key) == _KEY_BYTES else None


Sign = Callable[[bytes], bytes]
"""Makes the signature of a text."""


def signed_text(head: str, content: Mapping[str, Any]) -> bytes:
    """The bytes that a statement signs: everything in it, at this place of this ledger."""
    said = {name: content[name] for name in ("plan", "by", "approves")}
    return b"discreet approval\n" + canonical("approval", {"head": head, **said}).encode()


def digest_of(meaning: Any) -> str:
    """One text for one meaning of a plan."""
    return hashlib.sha256(canonical("meaning", meaning).encode()).hexdigest()


# ---- Claim: what a release asks of a ledger, checked and in the form in which it is written down.


Guarantees = Guarantee | Mapping[str, Guarantee]
"""One guarantee, or one for each part of a partition."""
_CONTENT = ("question", "mechanism", "sensitivity", "protection", "guarantee", "partition", "parts")


def now() -> str:
    """The time, as entries and releases record it: to the minute, so that no bundle tells how long a release took."""
    return datetime.now(UTC).replace(second=0, microsecond=0).isoformat(timespec="seconds")


def text(name: str, value: Any) -> str:
    """Return ``value`` if it is non-empty text."""
    if not isinstance(value, str):
        raise errors.WrongType(name, value, "must be text", f"Pass {name} as a string.")
    if not value.strip():
        raise errors.InvalidParameter(name, value, "must not be empty", f"Pass {name} as a non-empty string.")
    return value


def identified(release_id: str | None, request: str | None) -> dict[str, Any]:
    """The fields that tell it from other releases."""
    return {
        "release_id": uuid.uuid4().hex if release_id is None else text("release_id", release_id),
        "request": None if request is None else text("request", request),
        "created": now(),
    }


def scope(guarantee: Guarantees, partition: str | None) -> dict[str, Any]:
    """The fields that say what is promised, and to which groups."""
    if not isinstance(guarantee, Mapping):
        return {"guarantee": guarantee.to_dict(), "partition": partition, "parts": None}
    return {
        "guarantee": None,
        "partition": partition,
        "parts": {part: one.to_dict() for part, one in guarantee.items()},
    }


def fingerprint(content: Mapping[str, Any]) -> str:
    """The hash that two spends of the same request share: of all that is said of the release, and nothing else."""
    said = {name: content[name] for name in _CONTENT}
    return hashlib.sha256(canonical("request", said).encode()).hexdigest()


def written(content: dict[str, Any]) -> str:
    """The claim in canonical form; a part that is not made of JSON values is named."""
    try:
        return canonical("release", content)
    except errors.InvalidParameter:
        for name in ("question", "mechanism", "sensitivity"):
            canonical(name, content[name])
        raise


# ---- Balance: what the entries of a ledger add up to.


# ---- Consent: which plans were approved in a ledger, by whom, and how often their releases may still be made


class Consent:
    """The approvals of a ledger, added up. Without a rule everything is allowed."""

    def __init__(self, rule: Approvals | None) -> None:
        self.rule = rule
        self.meanings: dict[str, Mapping[str, Any]] = {}
        self.approving: dict[str, set[str]] = {}
        """By digest of a plan: what it means, and who approves it."""
        self.made: Counter[tuple[str, str]] = Counter()

    def check_statement(self, head: str, content: Mapping[str, Any]) -> None:
        """Refuse an approval or a withdrawal that nobody of the rule signed, or that is about no plan."""
        if self.rule is None:
            raise errors.InvalidParameter(
                "approvals", None, "this ledger was opened without a rule", "Open a ledger with approvals=Approvals(…)."
            )
        self.rule.check(head, content)
        plan, meaning = content["plan"], content["meaning"]
        if meaning is not None and digest_of(meaning) != plan:
            raise errors.InvalidParameter("plan", plan, "is not the digest of its meaning", "Approve the plan again.")
        if meaning is None and plan not in self.meanings:
            raise errors.InvalidParameter("plan", plan, "was never approved", "Nothing has to be withdrawn.")

    def state(self, head: str, content: Mapping[str, Any]) -> None:
        """Count an approval or its withdrawal."""
        self.check_statement(head, content)
        plan = content["plan"]
        self.meanings.setdefault(plan, content["meaning"])
        agreed = self.approving.setdefault(plan, set())
        (agreed.add if content["approves"] else agreed.discard)(content["by"])

    def agreed(self, plan: str) -> bool:
        """True where enough people approve a plan now."""
        return self.rule is None or len(self.approving.get(plan, ())) >= self.rule.need

    def check(self, plan: str | None, fingerprint: str) -> None:
        """Refuse a release that is not in an approved plan, or was made as often as the plan says."""
        if self.rule is None:
            return
        if plan is None or not self.agreed(plan):
            missing = self.rule.need - len(self.approving.get(plan or "", ()))
            raise errors.NotApproved(
                f"this ledger pays for approved plans only; {missing} more of {sorted(self.rule.keys)} must approve "
                "this one. Run `discreet review` and `discreet approve`. Nothing was spent."
            )
        times = self.meanings[plan].get("releases", {}).get(fingerprint, 0)
        if self.made[plan, fingerprint] >= times:
            raise errors.NotApproved(
                f"the approved plan allows this release {times} times, and it was made as often. Raise times in the "
                "plan and have it approved again. Nothing was spent."
            )

    def make(self, plan: str, fingerprint: str) -> None:
        """Count a release."""
        self.made[plan, fingerprint] += 1


# ---- Partition: disjoint groups of privacy units, and what was spent in each of them


@dataclass(frozen=True)
class Partition:
    """Disjoint groups of privacy units that are charged in parallel.

    Attributes
    ----------
    name
        What the groups are.
    parts
        Their names: public, fixed before any release, and each unit belongs to at most one of them.
    membership_public
        Whether it is public which unit belongs to which part, so that a replaced unit stays in its part.
    """

    name: str
    parts: tuple[str, ...]
    membership_public: bool = False

    def check(self, neighbours: Neighbours | None, parts: Iterable[str] = ()) -> None:
        """Refuse parts that were not declared, and parallel composition where a unit may move between parts."""
        if neighbours is Neighbours.REPLACE_ONE and not self.membership_public:
            raise errors.InvalidParameter(
                "membership_public", False,
                f"a replaced unit may leave one part of {self.name!r} and enter another, so the parts do not "
                "compose in parallel under REPLACE_ONE",
                "Use ADD_REMOVE, or declare membership_public=True if who belongs to which part is public.",
            )  # fmt: skip
        known = frozenset(self.parts) if parts else frozenset()
        unknown = [part for part in parts if part not in known]
        if unknown:
            raise errors.InvalidParameter(
                "parts", unknown, f"are not parts of {self.name!r}", "Name parts that were declared."
            )


Costs = Mapping[str, Amount] | Amount
"""The cost of a release: one amount, or one for each part that it reads."""


class ParallelSpending:
    """The amounts that single parts spent beyond those spent in all parts alike."""

    def __init__(self, partition: Partition, nothing: Amount) -> None:
        self.partition = partition
        self._nothing = self.highest = nothing
        self.extra: dict[str, Amount] = {}

    def charge(self, costs: Costs) -> Amount:
        """The rise of the largest total over the parts; one amount for all parts raises it by just that."""
        if not isinstance(costs, Mapping):
            return costs
        return less(reduce(peak, set(self._after(costs).values()), self.highest), self.highest)

    def _after(self, costs: Mapping[str, Amount]) -> dict[str, Amount]:
        """The amounts that the named parts would have spent by themselves."""
        return {part: added(self.extra.get(part, self._nothing), cost) for part, cost in costs.items()}

    def spend(self, costs: Costs) -> None:
        """Count it."""
        if isinstance(costs, Mapping):
            self.highest = added(self.highest, self.charge(costs))
            self.extra |= self._after(costs)


FORMAT = 3
"""Version of the entries. Kinds and fields are added under a new version and never re-meant."""


WINDOWS = {"year": 4, "quarter": 7, "month": 7}
"""Calendar windows (UTC) in which a budget is spent anew, and how much of a time stamp tells them."""


_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
_NUMBER = re.compile(r"\d{1,4000}(/\d{1,4000})?", re.ASCII)
"""A fraction that can be computed with: not one that is written short and fills the memory."""


def window_of(length: str | None, created: str) -> str:
    """The window of a time stamp; later windows compare as larger. Empty where the budget has none.

    Examples
    --------
    >>> window_of("quarter", "2026-11-15T10:00:00+00:00")
    '2026-Q4'
    """
    if length is None:
        return ""
    start = created[: WINDOWS[length]]
    return start if length != "quarter" else f"{start[:4]}-Q{(int(start[5:7]) + 2) // 3}"


def texts(amount: Amount) -> list[str]:
    """An amount as it is written down: exact fractions."""
    return [str(number) for number in amount]


class Balance:
    """The state of a ledger after an entry."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.seq, self.head = 0, ROOT
        """Position and hash of the last entry; the hash stands for all of them."""
        self.accounting: Accounting
        self.opening: dict[str, Any] = {}
        self.neighbours: Neighbours | None = None
        self.unit: Unit | None = None
        self.sources: set[str] = set()
        self.anchors: set[str] = set()
        self.consent = Consent(None)
        self.window = ""
        self.spent: Amount = ()
        """The amount spent in the window of the last spend; in all where the budget has no windows."""
        self.ever: Amount = ()
        """The amount spent in all windows together."""
        self.allowance: Amount = ()
        """The amount that may be spent in a window: the budget and its approved renewals."""
        self.renewals: set[str] = set()
        self.by_team: dict[str, Amount] = {}
        self.partitions: dict[str, ParallelSpending] = {}
        self.requests: dict[str, int] = {}
        self.releases: dict[str, int] = {}
        self.answers: dict[int, int | None] = {}
        """Position of the answer, or None, by the position of the spend."""
        self._prices: dict[tuple[Any, ...], Amount] = {}
        self._pinned: tuple[Any, Any] | None = None
        """Neighbours and unit in the words of an entry, once both are fixed: most entries use the same."""

    def following(self, kind: str, body: str) -> Entry:
        """The entry that would come next."""
        seq = self.seq + 1
        return Entry(seq, kind, body, chained(self.head, seq, kind, body))

    def left(self) -> Amount:
        """The amount that may still be spent."""
        return less(self.allowance, self.spent)

    def left_to(self, team: str | None) -> Amount:
        """The amount that a team may still spend, of its allotment and of the rest of the budget."""
        allotted = self.opening["teams"]
        if not allotted:
            return self.left()
        if team is None or team not in allotted:
            raise errors.InvalidParameter("team", team, f"must be one of {sorted(allotted)}", "Pass team=… to Ledger.")
        own = less(self._price(allotted[team]), self.by_team.get(team, self.accounting.nothing))
        return tuple(map(min, own, self.left()))

    def at(self, created: str) -> Balance:
        """The balance at a time: a new window begins with nothing spent. A clock that goes back changes nothing."""
        window = window_of(self.opening["window"], created)
        if window <= self.window:
            return self
        later, nothing = copy(self), self.accounting.nothing
        later.window, later.spent, later.by_team = window, nothing, {}
        later.partitions = {name: ParallelSpending(one.partition, nothing) for name, one in self.partitions.items()}
        return later

    def ahead_of(self, created: str) -> str:
        """Words for spends that are dated in a later window than a time; empty where none is."""
        window = window_of(self.opening["window"], created)
        if window >= self.window:
            return ""
        return (
            f"The last spend is dated {self.window}, and the clock of this computer says {window}: one of the clocks "
            f"was wrong. All spends count in {self.window} until it has ended. Set the clock; the owner of the data "
            "may renew the budget."
        )

    def costs(self, content: Mapping[str, Any]) -> Costs:
        """The costs of a spend's guarantees."""
        if content["guarantee"] is None:
            return {part: self._price(guarantee) for part, guarantee in content["parts"].items()}
        cost = self._price(content["guarantee"])
        return cost if content["parts"] is None else dict.fromkeys(content["parts"], cost)

    def _price(self, guarantee: dict[str, Any]) -> Amount:
        key = tuple(guarantee.values())  # its kind is among them
        price = self._prices.get(key)
        if price is None:
            price = self._prices[key] = self.accounting.cost(Guarantee.from_dict(guarantee))
        return price

    def charge(self, content: Mapping[str, Any], neighbours: Neighbours | None) -> Amount:
        """The amount that a spend adds to the total; refuses parts that are not declared."""
        name, costs = content["partition"], self.costs(content)
        if name is None:
            if isinstance(costs, Mapping):
                raise errors.InvalidParameter(
                    "partition", None, "is needed where parts are named", "Declare it with ledger.partition(…)."
                )
            return costs
        if name not in self.partitions:
            raise errors.InvalidParameter(
                "partition", name, "was not declared", "Call ledger.partition(name, parts) first."
            )
        self.partitions[name].partition.check(neighbours, content["parts"] or ())
        return self.partitions[name].charge(costs)

    def check_pins(self, neighbours: Neighbours | None, unit: Unit | None) -> None:
        """Refuse a guarantee that is about something else than those that were spent before."""
        if neighbours and self.neighbours and neighbours is not self.neighbours:
            raise errors.LedgerMismatch(
                f"this ledger counts guarantees for neighbours = {self.neighbours.name}, not {neighbours.name}. "
                "Guarantees about different neighbours do not add up: use one ledger for each. Nothing was spent."
            )
        if unit and self.unit and unit != self.unit:
            raise errors.LedgerMismatch(
                f"this ledger counts guarantees for unit = {str(self.unit)!r}, not {str(unit)!r}. Guarantees for "
                "different units do not add up: use one ledger for each. Nothing was spent."
            )

    def admit(self, content: Mapping[str, Any]) -> tuple[Balance, Amount, Amount]:
        """The balance at the time of a spend, what the spend adds and the new total; refuses what must not be spent."""
        now, release = self.at(content["created"]), content["release_id"]
        if now.consent.rule is not None:
            now.consent.check(content["plan"], fingerprint(content))
        neighbours, _ = now.pins(content["protection"])
        if release in now.releases or content["request"] in now.requests:
            raise errors.InvalidParameter("release_id", release, "was used before", "Leave release_id out.")
        charge = now.charge(content, neighbours)
        total, teams = added(now.spent, charge), now.opening["teams"]
        if not covers(now.allowance, total) or (teams and not covers(now.left_to(content["team"]), charge)):
            left, fix = self.accounting.at_most(now.left_to(content["team"])), now.ahead_of(content["created"])
            raise errors.InsufficientBudget(self.accounting.at_least(charge), left, fix=fix)
        return now, charge, total

    # -- the fold ------------------------------------------------------------------------------------------

    def apply(self, entry: Entry) -> None:
        """Follow one entry; refuse it where the chain, its kind or its numbers are wrong."""
        if entry.seq != self.seq + 1:
            raise self._broken(entry, f"entry {self.seq + 1} is missing")
        # Ledgers of older formats hash their entries differently, so the format is looked at first.
        if entry.seq == 1 and '"format":' in entry.body and f'"format":{FORMAT},' not in entry.body:
            raise self._broken(entry, f"it is not of format {FORMAT}, which this version reads")
        if entry.hash != chained(self.head, entry.seq, entry.kind, entry.body):
            raise self._broken(entry, "its hash does not fit its content and the entries before it")
        follow = _KINDS.get(entry.kind)
        if follow is None:
            raise self._broken(entry, f"its kind {entry.kind!r} is unknown. A newer version may have written it")
        if (entry.seq == 1) != (entry.kind == "open"):
            raise self._broken(entry, "a ledger begins with one entry of kind 'open'")
        try:
            follow(self, entry, entry.content)
        except errors.LedgerCorrupted:
            raise
        except errors.InsufficientBudget as error:
            raise self._broken(entry, "it overspends the budget") from error
        except (errors.DiscreetError, *_UNREADABLE) as error:
            raise self._broken(entry, f"its content cannot be read ({type(error).__name__}: {error})") from error
        self.seq, self.head = entry.seq, entry.hash

    def _broken(self, entry: Entry, what: str) -> errors.LedgerCorrupted:
        return errors.LedgerCorrupted(
            f"{self.where}, entry {entry.seq}: {what}. Restore the ledger from a copy that includes the last release."
        )

    def _open(self, entry: Entry, content: dict[str, Any]) -> None:
        if not all(map(_NUMBER.fullmatch, content["allowance"])):
            raise self._broken(entry, "its allowance is not made of fractions")
        allowance = tuple(Fraction(text) for text in content["allowance"])
        self.accounting = Accounting(content["accounting"], Guarantee.from_dict(content["budget"]), allowance)
        if not self.accounting.kept():
            raise self._broken(entry, "its allowance is more than its budget implies")
        self.spent = self.ever = self.accounting.nothing
        self.allowance = allowance
        self.opening = content
        # What is used later is read now. Ledgers begun before secrets had hashes of their own call theirs a salt.
        window_of(content["window"], content["created"])
        _texts(content["created"], content["dataset"] or "")
        if not {"salt", "secret", "secret_hash"} & content.keys():
            raise self._broken(entry, "it has no secret")
        bytes.fromhex(content.get("salt", content.get("secret", "")))
        for part in (content["teams"] or {}).values():
            self._price(part)
        self.consent = Consent(content["approvals"] and Approvals.from_dict(content["approvals"]))
        self._pin(content)

    def pins(self, content: Mapping[str, Any]) -> tuple[Neighbours | None, Unit | None]:
        """Neighbours and unit as an entry states them; refuses others than those that are fixed."""
        neighbours, unit = said = content["neighbours"], content["unit"]
        if said == self._pinned:
            return self.neighbours, self.unit
        found = neighbours and Neighbours(neighbours), unit and Unit.from_dict(unit)
        self.check_pins(*found)
        return found

    def _pin(self, content: Mapping[str, Any]) -> None:
        """Fix neighbours and unit, or refuse others than those that are fixed."""
        neighbours, unit = self.pins(content)
        self.neighbours, self.unit = self.neighbours or neighbours, self.unit or unit
        if neighbours and unit:
            self._pinned = content["neighbours"], content["unit"]

    def _note(self, _: Entry, content: dict[str, Any]) -> None:
        self.sources.update(_texts(*content["sources"]))
        self.anchors.update(_texts(*content["anchors"]))

    def _partition(self, entry: Entry, content: dict[str, Any]) -> None:
        (name,) = _texts(content["name"])
        if name in self.partitions:
            raise self._broken(entry, f"the partition {name!r} is declared twice")
        declared = Partition(name, tuple(content["parts"]), content["membership_public"])
        self.partitions[name] = ParallelSpending(declared, self.accounting.nothing)

    def _approval(self, entry: Entry, content: dict[str, Any]) -> None:
        plan = content["plan"]
        was = self.consent.agreed(plan)
        self.consent.state(self.head, content)
        renewal = self.consent.meanings[plan].get("renew")
        if renewal is not None and not was and self.consent.agreed(plan) and plan not in self.renewals:
            self.renewals.add(plan)  # what was granted stays granted: it may have been spent
            self.allowance = added(self.allowance, self._price(renewal))

    def _spend(self, entry: Entry, content: dict[str, Any]) -> None:
        _texts(content["created"], content["release_id"])
        if not {*map(type, _names(content))} <= {str, type(None)}:
            raise TypeError("a name is no text")
        now, charge, total = self.admit(content)
        if content["charge"] != texts(charge) or content["total"] != texts(total):
            raise self._broken(entry, "its charge or running total is not what the entries add up to")
        if now is not self:
            vars(self).update(vars(now))
        self._pin(content["protection"])
        team, request = content["team"], content["request"]
        if self.consent.rule is not None:
            self.consent.make(content["plan"], fingerprint(content))
        if team is not None:
            self.by_team[team] = added(self.by_team.get(team, self.accounting.nothing), charge)
        if content["partition"] is not None:
            self.partitions[content["partition"]].spend(self.costs(content))
        self.spent, self.ever = total, added(self.ever, charge) if self.window else total
        self.releases[content["release_id"]] = entry.seq
        self.answers[entry.seq] = None
        if request is not None:
            self.requests[request] = entry.seq

    def _answer(self, entry: Entry, content: dict[str, Any]) -> None:
        spend, _ = content["spend"], content["answer"]
        if spend not in self.answers:
            raise self._broken(entry, f"it answers entry {spend}, which is not a spend")
        if self.answers[spend] is not None:
            raise self._broken(entry, f"entry {spend} is answered twice")
        self.answers[spend] = entry.seq


_names = itemgetter("request", "partition", "plan", "team")
"""The fields of a spend that are names, or null."""


def _texts(*names: Any) -> tuple[str, ...]:
    """Names of an entry; whoever shows or compares them takes them for text."""
    if not all(isinstance(name, str) for name in names):
        raise TypeError("a name is no text")
    return names


_KINDS = {
    "open": Balance._open,
    "note": Balance._note,
    "partition": Balance._partition,
    "approval": Balance._approval,
    "spend": Balance._spend,
    "answer": Balance._answer,
}


# ---- Checkpoint: what the entries of a long ledger added up to, so that opening it need not add them up again.
#
# It is bound to every byte of those entries by a hash, only its own user believes it, and verification ignores it.
# Without one a ledger opens as well, only later.


EVERY = 5000
"""Entries after which a new one is worth its time."""
_MEANING = [FORMAT, 2]
"""Of entries, and of what is kept here; other numbers are another version's."""


def state_of(balance: Balance) -> dict[str, Any]:
    """Everything in a balance that does not follow from its first entry, as JSON-ready data."""
    consent = balance.consent
    return {
        "meaning": _MEANING,
        "seq": balance.seq,
        "head": balance.head,
        "neighbours": balance.neighbours and balance.neighbours.value,
        "unit": balance.unit and balance.unit.to_dict(),
        "sources": sorted(balance.sources),
        "anchors": sorted(balance.anchors),
        "meanings": dict(consent.meanings),
        "approving": {plan: sorted(names) for plan, names in consent.approving.items()},
        "made": [[*key, count] for key, count in consent.made.items()],
        "window": balance.window,
        "amounts": [texts(one) for one in (balance.spent, balance.ever, balance.allowance)],
        "renewals": sorted(balance.renewals),
        "teams": {team: texts(spent) for team, spent in balance.by_team.items()},
        "partitions": [_parallel(one) for one in balance.partitions.values()],
        "requests": dict(balance.requests),
        "releases": dict(balance.releases),
        "answers": [list(pair) for pair in balance.answers.items()],
    }


def _parallel(one: ParallelSpending) -> list[Any]:
    declared = one.partition
    extra = {part: texts(spent) for part, spent in one.extra.items()}
    return [declared.name, list(declared.parts), declared.membership_public, texts(one.highest), extra]


def restored(where: str, first: Entry, state: Mapping[str, Any]) -> Balance | None:
    """The balance that a state was made of; None where it is another version's."""
    if state["meaning"] != _MEANING:
        return None
    balance = Balance(where)
    balance.apply(first)
    neighbours, unit, consent = state["neighbours"], state["unit"], balance.consent
    balance.seq, balance.head, balance.window = state["seq"], state["head"], state["window"]
    balance.neighbours = neighbours and Neighbours(neighbours)
    balance.unit = unit and Unit.from_dict(unit)
    balance.sources = set(state["sources"])
    balance.anchors = set(state["anchors"])
    consent.meanings = dict(state["meanings"])
    consent.approving = {plan: set(names) for plan, names in state["approving"].items()}
    consent.made = Counter({(plan, claimed): count for plan, claimed, count in state["made"]})
    balance.spent, balance.ever, balance.allowance = map(_amount, state["amounts"])
    balance.renewals = set(state["renewals"])
    balance.by_team = {team: _amount(spent) for team, spent in state["teams"].items()}
    for name, parts, public, highest, extra in state["partitions"]:
        one = ParallelSpending(Partition(name, tuple(parts), public), balance.accounting.nothing)
        one.highest = _amount(highest)
        one.extra = {part: _amount(spent) for part, spent in extra.items()}
        balance.partitions[name] = one
    balance.requests, balance.releases = state["requests"], state["releases"]
    balance.answers = dict(state["answers"])
    return balance


def _amount(numbers: list[str]) -> Amount:
    return tuple(map(Fraction, numbers))
