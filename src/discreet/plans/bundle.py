"""Bundle: everything that was published, and everything needed to check it, in one signed file.

It holds the plan, the results, the report, and the entries of the ledger. Stored answers of other plans are kept back:
of them only the digest is in the file, which is enough to follow the chain of hashes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import discreet
from discreet.core.errors import DiscreetError
from discreet.core.ledger.claim import now
from discreet.core.ledger.journal import Entry, canonical, digest_of_body, without_secret
from discreet.core.regular_file import read_regular, reason
from discreet.plans.job import Job
from discreet.publish.whole_file import write_whole

__all__ = ["FORMAT", "bundle_text", "signed_content", "write_bundle"]

FORMAT = 1
_LARGEST = 64_000_000
_FILES = ("report.md", "report.html", "methods.md", "methods.html")
_LIBRARIES = ("numpy", "scipy", "cryptography")


def write_bundle(
    plan: str | Path,
    out: Path,
    *,
    by: str,
    public: str,
    sign: Callable[[bytes], bytes],
    period: str | None = None,
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
    """What the signature of a bundle is about: all of it but the signature."""
    said = {key: value for key, value in content.items() if key != "signature"}
    return b"discreet bundle\n" + canonical("bundle", said).encode()
