"""Review: a plan in words, for the person who must say yes or no to it. Reads no data."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

import platformdirs
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.core.errors import DiscreetError, InvalidParameter
from discreet.core.files import read_regular, reason
from discreet.core.guarantee import ApproxDP, Guarantee, PureDP
from discreet.core.ledger.balance import digest_of
from discreet.core.protection import Neighbours
from discreet.core.schema import Schema
from discreet.plans.job import Job, JobPlan
from discreet.plans.plan_file import PlanFile, differences
from discreet.publish.pages import review_markdown, review_page
from discreet.publish.report import meaning_of
from discreet.results.display import Facts, Result, expected, printable
from discreet.results.ledger import Ledger
from discreet.results.wording import attacker_words, checklist


@dataclass(frozen=True)
class PublicFact:
    """Something that the plan takes as known to everybody, and where it says that it is known from."""

    name: str
    fact: str
    source: str | None


@dataclass(frozen=True, kw_only=True)
class Review(Result):
    """The facts that an officer reads before approving.

    Attributes
    ----------
    title, digest
        What the plan is called, and what an approval would sign.
    protected
        Who is protected and who is not.
    public
        What is taken as public.
    releases
        Title, what it tells, how exact it will be, and what it costs, for every release.
    cost, left
        What the releases cost together, and what is left now.
    attacker
        What an attacker could still learn.
    changes
        What differs from the plan that was approved last; None where none was.
    approvals
        Who has approved, and who may.
    checklist
        Questions after NIST SP 800-226, with an answer from the plan; None where only a person can answer.
    """

    title: str
    digest: str
    protected: tuple[str, ...]
    public: tuple[PublicFact, ...]
    releases: tuple[Mapping[str, str], ...]
    cost: str
    left: str
    attacker: tuple[str, ...]
    changes: tuple[str, ...] | None
    approvals: str
    checklist: tuple[tuple[str, str | None], ...]

    @property
    def unsourced(self) -> tuple[str, ...]:
        """The public facts without a source."""
        return tuple(fact.name for fact in self.public if fact.source is None)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready data."""
        return asdict(self) | {"unsourced": list(self.unsourced)}

    def to_markdown(self) -> str:
        """The review as markdown."""
        return review_markdown(self.to_dict())

    def to_html(self) -> str:
        """The review as a page of its own."""
        return review_page(self.to_dict())

    def heading(self) -> str:
        return f"Review of {self.title}"

    def facts(self) -> Facts:
        return [("plan", self.digest[:16]), ("cost", self.cost), ("left", self.left), ("approvals", self.approvals)]

    def __str__(self) -> str:
        shown = review_markdown(self.to_dict(), printable)
        return "\n".join(line for text in shown.splitlines() for line in (wrap(text, 80) or [""]))


def review(plan: PlanFile | str | Path, *, period: str | None = None) -> Review:
    """Say in words what a plan would do. Reads no data, spends nothing, and leaves no file behind.

    Parameters
    ----------
    plan
        The plan, or the path of its file.
    period
        The period to review, instead of the one that the plan names.
    """
    job = Job(plan, period=period)
    planned = job.plan()
    with job.ledger(write=False) as ledger:
        said = job.meaning(ledger)
        earlier = [one for one in ledger.approved() if one.get("discreet") == "plan"]
        return Review(
            title=job.file.title,
            digest=digest_of(said),
            protected=tuple(_protected(job.file.schema, _called(job.file))),
            public=tuple(_public(job.file)),
            releases=tuple(_releases(job.file, planned)),
            cost=planned.cost_words(),
            left=str(planned.remaining),
            attacker=tuple(_attacker(job.file, ledger)),
            changes=tuple(differences(earlier[-1], said)) if earlier else None,
            approvals=_approvals(ledger, digest_of(said)),
            checklist=tuple(
                checklist(
                    job.file.schema,
                    ledger.budget,
                    [fact.name for fact in _public(job.file) if fact.source is None],
                    job.file.ledger_name,
                )
            ),
        )


def _called(file: PlanFile) -> str:
    """The name of what is protected, for readers."""
    return file.variables.get(file.schema.unit.name, file.schema.unit.name)


def _protected(schema: Schema, name: str) -> list[str]:
    unit = schema.unit
    who = (
        f"Every row counts as one {'person or thing' if name == unit.name else name}. Somebody with several rows is "
        "protected row by row, not as a whole."
        if unit.column is None
        else f"All rows with the same {unit.column!r} count as one {name} and are protected together."
    )
    change = {
        Neighbours.ADD_REMOVE: f"The releases hardly change whether or not any one {name} is in the data.",
        Neighbours.REPLACE_ONE: f"The releases hardly change whatever the data of any one {name} is. How many there "
        "are is not protected.",
    }[schema.neighbours]
    return [
        who,
        change,
        "Groups of people are protected less: what is true of one person at ε holds for k people at k·ε.",
        "What everybody knows about people in general is not protected. If smokers fall ill more often, a release may "
        "show it, and says something about every smoker, in the data or not.",
    ]


def _public(file: PlanFile) -> list[PublicFact]:
    schema, unit = file.schema, file.schema.unit
    rows = schema.of_rows
    facts = [PublicFact(name, column.words(), file.sources.get(name)) for name, column in rows.columns.items()]
    if rows.where is not None:
        facts.append(PublicFact("where", f"only rows with {rows.where.text} take part", file.sources.get("schema")))
    for name, feature in rows.features.items():
        said = f"{feature.words(unit.name)}, {rows.per_unit().columns[name].words()}"
        facts.append(PublicFact(f"features.{name}", said, file.sources.get(f"features.{name}")))
    for name, one in rows.related.items():
        facts.append(PublicFact(name, f"a table about the same units: at most {one.rows} rows of each count", None))
    if rows.design is not None:
        facts.append(PublicFact("design", rows.design.words(), file.sources.get("design")))
    if unit.contribution is not None:
        facts.append(PublicFact("unit", _limit(unit.name, unit.contribution.to_dict()), file.sources.get("unit")))
    if schema.size is not None:
        facts.append(PublicFact("size", f"there are {schema.size:,} units", file.sources.get("schema")))
    return facts


def _limit(unit: str, limits: dict[str, Any]) -> str:
    private = limits.pop("private", None)
    words = ", ".join(f"{key} {value}" for key, value in limits.items())
    if private is None:
        return f"at most {words} of each {unit} count"
    return f"a release for ε = {private['epsilon']:g} finds how many rows of each {unit} count; expected: {words}"


def _releases(file: PlanFile, planned: JobPlan) -> list[dict[str, str]]:
    rows = []
    for question, (_, one) in zip(file.questions, planned.releases, strict=True):
        error = one.rows()[0]["error_95"]
        exact = "depends on the data" if error is None else f"{one.told_read} ± {expected(error)} (95 %)"
        exact += f", for {one.scenario}" if one.scenario else ""
        rows.append(
            {
                "title": question.title,
                "tells": meaning_of(question.question, file.variables),
                "exact": exact,
                "cost": str(one.guarantee),
            }
        )
    return rows


def _attacker(file: PlanFile, ledger: Ledger) -> list[str]:
    budget, unit = ledger.budget, _called(file)
    said = [
        attacker_words(budget, unit, file.schema.neighbours),
        f"Whatever somebody believed with even odds about one {unit}, all releases of the whole budget together "
        f"move to at most {100 * _believed(budget):.3g} %.",
    ]
    if file.terms.window is not None:
        said.append(
            f"The budget is spent anew every {file.terms.window}. Somebody who is in the data in several of them loses "
            f"the sum: {ledger.spent_in_all()} so far."
        )
    return said


def _epsilon(guarantee: Guarantee) -> float:
    """ε; of guarantees that have many, the one at δ = 10⁻⁶."""
    pure = isinstance(guarantee, PureDP | ApproxDP)
    return guarantee.parameters()["epsilon"] if pure else guarantee.epsilon_at(1e-6)


def _believed(guarantee: Guarantee) -> float:
    return 1 / (1 + math.exp(-min(_epsilon(guarantee), 700.0)))


def _approvals(ledger: Ledger, plan: str) -> str:
    rule = ledger.approvals
    if rule is None:
        return "the ledger asks for none"
    given = ledger.approving(plan)
    return f"{rule.need} of {', '.join(sorted(rule.keys))} needed; given by {', '.join(given) or 'nobody yet'}"


# ---- Approving: sign what a plan says, once every public fact in it has a source


def approve_plan(job: Job, *, by: str, sign: Callable[[], Callable[[bytes], bytes]]) -> str:
    """Write an approval of a plan's meaning to its ledger; returns what was done, in words. Reads no data.

    Parameters
    ----------
    job
        The plan. What is reviewed is what is signed, whatever happens to its file.
    by
        Whose name of the ledger's rule approves.
    sign
        Gives what signs; asked for only once the plan can be approved, since it may ask for a password.
    """
    missing = review(job.file).unsourced
    if missing:
        raise InvalidParameter(
            "source", ", ".join(missing), "has no source in the plan",
            'Write source = "…", a sentence on where the fact is public, below each of them.',
        )  # fmt: skip
    signing = sign()
    with job.ledger(write=True) as ledger:
        job.check_approvable(ledger)
        digest = ledger.approve(job.meaning(ledger), by=by, sign=signing)
        return f"{by} approves plan {digest}. Approving now: {', '.join(ledger.approving(digest))}."


# ---- Keys: Ed25519 key pairs with which people approve plans and sign bundles.
#
# The private key is encrypted with a password and stays with its owner. Only the public key goes into a plan.


_SHORTEST = 8
_LARGEST = 1_000_000


@dataclass(frozen=True)
class KeyPair(Result):
    """Where a new private key is, and the public key that belongs to it."""

    name: str
    public: str
    path: Path

    def heading(self) -> str:
        return f"Key of {self.name}"

    def facts(self) -> Facts:
        return [
            ("public key", self.public),
            ("private key", f"{self.path}; keep it, and its password, to yourself"),
            ("in the plan", f'below [ledger.approvals.keys]: {self.name}="{self.public}"'),
        ]

    def to_dict(self) -> dict[str, str]:
        """JSON-ready data; never the private key."""
        return {"name": self.name, "public": self.public, "path": str(self.path)}


def default_directory() -> Path:
    """Where keys are kept: in the user's own settings, never beside a plan."""
    return platformdirs.user_config_path("discreet", appauthor=False) / "keys"


def new_key(name: str, password: str, directory: Path | None = None) -> KeyPair:
    """Make a key pair and keep the private key, encrypted, where only its owner can read it.

    Parameters
    ----------
    name
        Whose key it is: a name, not a path.
    password
        Encrypts the private key; at least eight characters.
    directory
        Where to keep it; the user's settings by default. A directory under version control is refused.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as home:
    ...     made = new_key("officer", "correct horse", Path(home))
    ...     signature = signer(made.path, "correct horse")(b"a text")
    >>> len(bytes.fromhex(made.public)), len(signature)
    (32, 64)
    """
    if not name.isidentifier():
        raise InvalidParameter("name", name, "must be letters, digits and underscores", "Pass a name like officer.")
    if len(password) < _SHORTEST:
        raise DiscreetError(f"the password must have at least {_SHORTEST} characters.")
    place = directory or default_directory()
    _refuse_versioned(place)
    key = Ed25519PrivateKey.generate()
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password.encode()),
    )
    path = place / f"{name}.key"
    _write_private(path, text)
    return KeyPair(name, key.public_key().public_bytes_raw().hex(), path)


def _refuse_versioned(place: Path) -> None:
    """A private key in a repository is one commit away from everybody."""
    for folder in (place.absolute(), *place.absolute().parents):
        if (folder / ".git").exists():
            raise InvalidParameter(
                "directory", str(place), "is under version control", "Keep private keys outside of the project."
            )


def _write_private(path: Path, text: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise DiscreetError(f"{path}: there is a key of this name already. Choose another name.") from None
    except OSError as failure:
        raise DiscreetError(f"{path}: cannot be written: {reason(failure)}") from None
    with os.fdopen(handle, "wb") as file:
        file.write(text)


def signer(path: str | Path, password: str) -> Callable[[bytes], bytes]:
    """A function that signs with a private key."""
    return _private(path, password).sign


def public_key(path: str | Path, password: str) -> str:
    """The public key that belongs to a private one."""
    return _private(path, password).public_key().public_bytes_raw().hex()


def _private(path: str | Path, password: str) -> Ed25519PrivateKey:
    try:
        key = serialization.load_pem_private_key(read_regular(path, _LARGEST), password.encode())
    except OSError as failure:
        raise DiscreetError(f"{path}: there is no key to read: {reason(failure)}") from None
    except (TypeError, ValueError):
        raise DiscreetError(f"{path}: wrong password, or not a private key of discreet.") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise DiscreetError(f"{path}: is another kind of key. Make one with `discreet keys new`.")
    return key
