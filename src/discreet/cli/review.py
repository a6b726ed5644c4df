"""Command line for those who review, approve and check: parse, call one public function, print."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable
from json import dumps
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from discreet.core.errors import DiscreetError
from discreet.publish.files import say, tell

_PASSWORD = "DISCREET_PASSWORD"
Signer = Annotated[str, Parameter(name="--as")]
"""Who signs; `as` is no name in Python."""


def review(file: Path, /, *, period: str | None = None, json: bool = False, out: Path | None = None) -> None:
    """Say in words what a plan would release, whom it protects, how well, and what changed. Reads no data.

    Parameters
    ----------
    file
        The plan file (TOML).
    period
        The period to review, instead of the plan's own.
    json
        Print JSON.
    out
        Write the review as a page (.html) or as markdown (.md).
    """
    from discreet.plans.review import review as reviewed
    from discreet.publish.files import write_whole

    found = reviewed(file, period=period)
    if out is not None:
        write_whole(out, found.to_html() if out.suffix == ".html" else found.to_markdown())
    tell(found, json)


def approve(
    file: Path, /, *, by: Signer, key: Path | None = None, period: str | None = None, json: bool = False
) -> None:
    """Sign the meaning of a plan, so that the ledger pays for its releases. Reads no data.

    Every public fact of the plan needs a source. The password is asked for, or read from DISCREET_PASSWORD.

    Parameters
    ----------
    file
        The plan file (TOML).
    by
        Your name in the ledger's rule.
    key
        Your private key; that of this name in your settings by default.
    period
        The period to approve, instead of the plan's own.
    json
        Print JSON.
    """
    from discreet.plans.job import Job
    from discreet.plans.review import approve_plan

    _said(json, approve_plan(Job(file, period=period), by=by, sign=lambda: _signer(by, key)), by=by)


def withdraw(
    file: Path, /, *, by: Signer, key: Path | None = None, period: str | None = None, json: bool = False
) -> None:
    """Withdraw an approval. What was released remains released.

    Parameters
    ----------
    file
        The plan file (TOML).
    by
        Your name in the ledger's rule.
    key
        Your private key; that of this name in your settings by default.
    period
        The period, instead of the plan's own.
    json
        Print JSON.
    """
    from discreet.core.ledger.balance import digest_of
    from discreet.plans.job import Job

    job = Job(file, period=period)
    sign = _signer(by, key)
    with job.ledger(write=True) as ledger:
        digest = digest_of(job.meaning(ledger))
        ledger.withdraw(digest, by=by, sign=sign)
        _said(json, f"{by} no longer approves plan {digest}.", by=by, plan=digest)


def renew(
    file: str, /, *, by: Signer, reason: str, epsilon: float, key: Path | None = None, json: bool = False
) -> None:
    """Approve an addition to the budget of a ledger. It counts once enough people approve the same one.

    Parameters
    ----------
    file
        The ledger: a file, or postgresql://….
    by
        Your name in the ledger's rule.
    reason
        Why; part of what is signed, and different for every renewal.
    epsilon
        What is added: ε, or ρ or μ where the ledger counts in these.
    key
        Your private key; that of this name in your settings by default.
    json
        Print JSON.
    """
    from discreet.core.guarantee import ApproxDP
    from discreet.results.ledger import Ledger

    sign = _signer(by, key)
    with Ledger(file) as ledger:
        counted: Any = ledger.currency
        added = counted(epsilon, 0.0) if counted is ApproxDP else counted(epsilon)
        ledger.approve({"discreet": "renewal", "renew": added.to_dict(), "reason": reason}, by=by, sign=sign)
        left = ledger.remaining()
        _said(json, f"{by} approves {added} more. The ledger has {left} left.", by=by, remaining=left.to_dict())


def bundle(
    file: Path,
    /,
    *,
    by: Signer,
    key: Path | None = None,
    period: str | None = None,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Write plan, results, report and ledger of a run into one signed file, which others can verify.

    Parameters
    ----------
    file
        The plan file (TOML) that was run.
    by
        Who signs.
    key
        Your private key; that of this name in your settings by default.
    period
        The period, instead of the plan's own.
    out
        File to write; NAME.bundle beside the plan by default.
    json
        Print JSON.
    """
    from discreet.plans.bundle import write_bundle
    from discreet.plans.review import public_key, signer

    place, password = _key_file(by, key), _password(by)
    sign = signer(place, password)
    public = public_key(place, password)
    written = write_bundle(file, out or file.with_suffix(".bundle"), by=by, public=public, sign=sign, period=period)
    _said(json, str(written), file=str(written), by=by, key=public)


def verify(file: Path, /, *, key: str | None = None, anchor: str | None = None, json: bool = False) -> None:
    """Check a bundle: signatures, approvals, ledger, claims, values, intervals, pages. Needs no data.

    Parameters
    ----------
    file
        The bundle.
    key
        The public key that must have signed it.
    anchor
        A head of the ledger that was kept elsewhere.
    json
        Print JSON.
    """
    from discreet.plans.bundle import verify_bundle

    found = verify_bundle(file, key=key, anchor=anchor)
    tell(found, json)
    if not found.passed:
        raise DiscreetError("the bundle is refused: see the lines marked wrong.")


def new_keys(name: str, /, *, out: Path | None = None, json: bool = False) -> None:
    """Make a key pair to approve plans and sign bundles with. The private key is encrypted and stays with you.

    Parameters
    ----------
    name
        Whose key it is, for example officer.
    out
        Directory to keep it in; your settings by default, never a project.
    json
        Print JSON.
    """
    from discreet.plans.review import new_key

    tell(new_key(name, _password(name, twice=True), out), json)


def _key_file(name: str, key: Path | None) -> Path:
    from discreet.plans.review import default_directory

    return key or default_directory() / f"{name}.key"


def _signer(name: str, key: Path | None) -> Callable[[bytes], bytes]:
    from discreet.plans.review import signer

    return signer(_key_file(name, key), _password(name))


def _password(name: str, *, twice: bool = False) -> str:
    given = os.environ.get(_PASSWORD)
    if given is not None:
        return given
    if not sys.stdin.isatty():
        raise DiscreetError(f"there is no terminal to ask for the password of {name!r}. Set {_PASSWORD}.")
    typed = getpass.getpass(f"Password of {name}: ")
    if twice and getpass.getpass("Once more: ") != typed:
        raise DiscreetError("the passwords differ. Nothing was written.")
    return typed


def _said(json: bool, words: str, **facts: Any) -> None:
    """Print one sentence, or the facts behind it."""
    say(dumps({"said": words, **facts}, indent=1, ensure_ascii=False) if json else words)
