"""The *door*: the code that every release passes, and the one place where a private value may become public.

The steps of a release, in this order:

1. **verify** that each step's privacy curve lies within its cost, and the costs within the claim,
2. **reserve** the claim in the ledger, durably,
3. **read** the rows: whatever can fail or differ by a value happens behind the payment, with one outcome,
4. **draw**, from an `Allowance` that verifies each step again and takes its cost,
5. **record** the answer where it can be asked for again,
6. return it.

So a mechanism may state a wrong scale, and a question a wrong split of its budget: nothing leaves that its own privacy
curve does not cover. A crash can cost budget, but no value leaves without its cost on record. Proof:
``docs/proofs/door.md``.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, cast

import numpy as np

from discreet.core.errors import DiscreetError, InvalidParameter, NotCertified, ReleaseFailed
from discreet.core.guarantee import Guarantee, Profile
from discreet.core.ledger.account import Account
from discreet.core.ledger.balance import Accounting, Guarantees, added, covers, fingerprint, now, scope
from discreet.core.ledger.journal import canonical
from discreet.core.noise.sampler import Floats, Truth, generator, plain, saturated
from discreet.core.protection import Protection
from discreet.core.sensitivity import Sensitivity

T = TypeVar("T")
_LONGEST = 1 << 26
"""A longer answer fits no ledger and has failed, too: it could be drawn again and again for the same money."""
Rng = int | np.random.Generator | None
_LARGEST = np.finfo(float).max
_FAILED = {"discreet": "failed"}
"""The ledger's answer to a request whose run failed after something was drawn."""


class Drawing(Protocol):
    """The methods that the door needs of a mechanism, whoever wrote it."""

    @property
    def name(self) -> str: ...
    def profile(self, sensitivity: Sensitivity) -> Profile: ...
    def guarantee(self, sensitivity: Sensitivity) -> Guarantee: ...
    def measure(self, truth: Truth, *, rng: np.random.Generator | None = None) -> Floats: ...


@dataclass(frozen=True)
class Step:
    """One draw: a mechanism, how far a unit moves what it protects, and what the draw costs."""

    mechanism: Drawing
    sensitivity: Sensitivity
    cost: Guarantee

    def verify(self) -> None:
        """Refuse a cost that the mechanism's own privacy curve does not stay within."""
        if not self.mechanism.profile(self.sensitivity).within(self.cost):
            raise InvalidParameter(
                "guarantee", self.cost, f"is stronger than {self.mechanism.name} with these parameters provides",
                f"It provides {self.mechanism.guarantee(self.sensitivity)}; state that, or calibrate again.",
            )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The statement that a release makes about itself before it happens; the ledger records all of it.

    Parameters
    ----------
    guarantee
        What the whole release promises, and costs.
    protection
        Who is protected against what.
    question
        All of what is asked, as JSON-ready data: columns, filters, limits and the facts of the schema that matter. A
        stored answer belongs to all of it.
    mechanism, sensitivity
        Public descriptions, for the ledger.
    steps
        The draws that are known in advance. Those that depend on earlier outputs are verified when they happen.
    counted
        How the costs of the steps add up, where the claim's own kind is not the best.
    partition, parts
        Where the ledger charges disjoint parts of the units each for themselves: the partition, and for each part how
        far its units move what is drawn, and what that costs them. Units of no part must not move it. There is one
        draw then, known in advance, which costs the guarantee.
    request
        The name under which the answer is kept where the caller gives none.
    """

    guarantee: Guarantee
    protection: Protection
    question: Mapping[str, Any]
    mechanism: Mapping[str, Any]
    sensitivity: Sensitivity
    steps: Sequence[Step] = ()
    counted: Accounting | None = None
    partition: str | None = None
    parts: Mapping[str, Step] = field(default_factory=dict)
    request: str | None = None

    def verify(self) -> None:
        """Refuse a claim that its steps exceed, before anything is reserved."""
        allowance = Allowance(self)
        for part in self.parts.values():  # their costs are those of the draw: no other may take its place
            if [(step.mechanism, step.cost) for step in self.steps] != [(part.mechanism, self.guarantee)]:
                raise InvalidParameter("parts", part, "must be of the one draw, for the guarantee", "State one step.")
            part.verify()
        for step in self.steps:
            step.verify()
            allowance.take(step)

    @property
    def charged(self) -> Guarantees:
        """The guarantee that the ledger is asked to charge, or one for each part."""
        return {part: step.cost for part, step in self.parts.items()} if self.parts else self.guarantee

    def identity(self) -> str:
        """One text for everything that the ledger will record of it, and for nothing else: what approvals name."""
        return fingerprint(self.record())

    def record(self) -> dict[str, Any]:
        """The record that the ledger writes down."""
        return {
            "question": dict(self.question),
            "mechanism": dict(self.mechanism),
            "sensitivity": self.sensitivity.to_dict(),
            "protection": self.protection.to_dict(),
            **scope(self.charged, self.partition),
        }


class Allowance:
    """The cost that a release may still draw. Every draw is verified and its cost taken, whoever asks for it.

    The costs add up as in a ledger (`Accounting`): a privacy filter, so later steps may depend on earlier outputs.
    """

    def __init__(self, claim: Claim, rng: np.random.Generator | None = None, owner: int | None = None) -> None:
        self.rng = rng
        self.owner = os.getpid() if owner is None else owner
        """The process that paid: a fork must not draw for the same money."""
        self._claim, counted = claim, claim.counted
        if counted is not None and (counted.budget != claim.guarantee or not counted.kept()):
            raise InvalidParameter("counted", counted, "must keep the claim", "Use accounting_of(guarantee).")
        self._accounting = counted or Accounting.own(claim.guarantee)
        self._spent = self._accounting.nothing

    def take(self, step: Step) -> None:
        """Verify a step and take its cost; refuse what is not covered."""
        if self.owner != os.getpid():
            raise DiscreetError("the process was forked inside a release, which its parent makes. Ask again.")
        if not any(step is one for one in self._claim.steps):  # which `Claim.verify` verified
            step.verify()
            if self._claim.parts:
                raise InvalidParameter("guarantee", step.cost, "is paid by no part", "Report this internal error.")
        spent = added(self._spent, self._accounting.cost(step.cost))
        if not covers(self._accounting.allowance, spent):
            raise InvalidParameter(
                "guarantee", step.cost, "is more than the release has left to spend", "Split its guarantee again."
            )
        self._spent = spent

    @property
    def used(self) -> bool:
        """True where anything was taken."""
        return self._spent != self._accounting.nothing

    def draw(self, step: Step, truth: Truth) -> Floats:
        """One noisy measurement of ``truth``, paid for."""
        self.take(step)
        measured = step.mechanism.measure(saturated(truth), rng=self.rng)
        # Noise beside the largest float may pass it; no ledger or file holds an infinite number.
        return measured if np.all(np.isfinite(measured)) else plain(np.clip(measured, -_LARGEST, _LARGEST))


class Unclaimed(Allowance):
    """Draws of a procedure that has no proved guarantee: for simulations only."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def take(self, step: Step) -> None:
        """Nothing is claimed, so nothing is taken."""


@dataclass(frozen=True, kw_only=True)
class Passed:
    """Identity of something that passed the door."""

    release_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    created: str = field(default_factory=now)
    simulated: bool = False


def pass_through(
    claim: Claim | None,
    run: Callable[[Allowance, Passed], T],
    *,
    write: Callable[[T], Any],
    read: Callable[[Any], T],
    ledger: Account | None,
    rng: Rng = None,
    request: str | None = None,
) -> T:
    """Verify, reserve, draw, record, return.

    Parameters
    ----------
    claim
        What is claimed; None for a procedure without a proof, which may only be simulated.
    run
        Reads the rows and makes the answer. All of its randomness about private data comes from the allowance it is
        handed. Whatever it raises on real data becomes one `ReleaseFailed`, after the payment.
    write, read
        From an answer to JSON-ready data and back, for repeated requests.
    ledger, rng, request
        As in `release`.
    """
    check_simulation(ledger, rng)
    source = None if rng is None else generator(rng)
    if claim is None:
        if source is None:
            raise NotCertified("without a proved guarantee no real data may be touched. Pass rng=… to simulate.")
        return run(Unclaimed(source), Passed(simulated=True))
    claim.verify()
    if ledger is None:
        return run(Allowance(claim, source), Passed(simulated=True))
    owner = os.getpid()  # before the payment, in which a fork may happen
    reservation = ledger.pay(claim.record(), request=request)
    if reservation.answered:
        return read(not_failed(reservation.answer, request))
    allowance = Allowance(claim, source, owner)
    passed = Passed(release_id=reservation.release_id, simulated=source is not None)
    answer, written, made = None, None, False
    try:
        answer = run(allowance, passed)
        written = None if request is None else write(answer)
        if len(canonical("answer", written)) > _LONGEST:
            raise OverflowError("the answer is too long")
        made = True
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException:  # one outcome for all: which one it is may depend on a row or on the noise; polars "panics"
        if source is not None:
            raise
    if made and request is None and owner == os.getpid():
        return cast(T, answer)
    # A run that failed after a draw must not get other noise for the same money; one that drew nothing may be repeated.
    stored = _FAILED
    if owner == os.getpid() and (made or (allowance.used and request is not None)):
        stored = ledger.record_answer(reservation, written if made else _FAILED)  # of two that race, the first counts
    if stored == _FAILED and (not made or owner != os.getpid()):
        raise ReleaseFailed
    return read(not_failed(stored, request))


def not_failed(answer: Any, request: str | None) -> Any:
    """The ledger's answer to a request; refused where its run failed after something was drawn."""
    if answer == _FAILED:
        raise InvalidParameter(
            "name", request, "failed after its noise was drawn, and was paid for",
            "Ask under another name, which spends again.",
        )  # fmt: skip
    return answer


def recall(claim: Claim, read: Callable[[Any], T], *, ledger: Account, request: str) -> T | None:
    """The stored answer of a request, without any data; None where there is none.

    Raises
    ------
    InvalidParameter
        Where the request was used for another question.
    """
    if ledger.requested(request) is None:
        return None
    # The reservation exists, so this charges nothing; it compares the whole content and returns what is stored.
    reservation = ledger.pay(claim.record(), request=request)
    return read(not_failed(reservation.answer, request)) if reservation.answered else None


def check_simulation(ledger: Account | None, rng: Any) -> None:
    """Refuse a real release without a ledger, and simulated noise on a ledger that lasts."""
    if rng is None and ledger is None:
        raise InvalidParameter(
            "ledger", None, "is required for a real release", "Pass ledger=Ledger(…), or rng=… to simulate."
        )
    if rng is not None and ledger is not None and ledger.path != ":memory:":
        raise InvalidParameter(
            "rng", rng, "seeded noise protects nobody, so a ledger on disk refuses it",
            'Leave rng out, or simulate with Ledger(":memory:", …).',
        )  # fmt: skip
