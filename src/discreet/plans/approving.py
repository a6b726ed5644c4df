"""Approving: sign what a plan says, once every public fact in it has a source."""

from __future__ import annotations

from collections.abc import Callable

from discreet.core.errors import InvalidParameter
from discreet.plans.job import Job
from discreet.plans.review import review

__all__ = ["approve_plan"]


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
