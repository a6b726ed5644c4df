"""Command line for those who look after a ledger: parse, call one public function, print."""

from __future__ import annotations

import os
import sys
from json import dumps
from pathlib import Path
from typing import Literal

from discreet.publish.files import say, tell, write_new


def explain(file: str, release: str, /, *, json: bool = False) -> None:
    """Tell how the charge of a release came about.

    Parameters
    ----------
    file
        The ledger: a file, or postgresql://….
    release
        The release's name in its plan, its request, or the first digits of its id.
    json
        Print JSON.
    """
    from discreet.publish.ledger_statement import explained
    from discreet.results.ledger import Ledger

    with Ledger(file, read_only=True) as opened:
        words = explained(opened.statement(), release)
    say(dumps({"release": release, "explained": words.split("\n\n")}, indent=1, ensure_ascii=False) if json else words)


def show(
    file: str, /, *, by: Literal["release", "period", "team"] | None = None, json: bool = False, out: Path | None = None
) -> None:
    """Show what was spent and what is left.

    Parameters
    ----------
    file
        The ledger: a file, or postgresql://….
    by
        Add up the charges by release, period or team instead of listing them one by one.
    json
        Print JSON.
    out
        Write a page (.html) with charts of the spending.
    """
    from discreet.publish.ledger_statement import grouped_text, ledger_page, spending_by, statement_text
    from discreet.results.ledger import Ledger

    with Ledger(file, read_only=True) as opened:
        statement = opened.statement()
    if out is not None:
        write_new(out, ledger_page(statement))
    if json:
        grouped = {} if by is None else {"by": [row.to_dict() for row in spending_by(statement, by)]}
        say(dumps(statement.to_dict() | grouped, indent=1, ensure_ascii=False))
    else:
        say(statement_text(statement) if by is None else grouped_text(statement, by))


def verify(file: str, /, *, anchor: str | None = None, json: bool = False) -> None:
    """Check every entry of a ledger again, and that it was not rolled back behind an anchor.

    Parameters
    ----------
    file
        The ledger: a file, or postgresql://….
    anchor
        A head that was kept elsewhere, a file with heads, or results.json of a run. Left out, heads are read from the
        files that the ledger remembers.
    json
        Print JSON.
    """
    from discreet.publish.files import anchored_heads
    from discreet.results.ledger import Ledger

    with Ledger(file, read_only=True) as opened:
        tell(opened.verify(anchor=anchored_heads(opened, anchor)), json)
        for place in opened.anchors:
            if not os.path.exists(place):
                say(f"discreet: the anchors in {place} are gone. Restore that file to verify against it.", sys.stderr)


def anchor(file: str, /, *, to: Path | None = None, json: bool = False) -> None:
    """Print the head of a ledger, which stands for everything in it; or append it to a file kept elsewhere.

    Parameters
    ----------
    file
        The ledger: a file, or postgresql://….
    to
        File to append the head to. The ledger remembers it, and verify finds it.
    json
        Print JSON.
    """
    from discreet.publish.files import write_anchor
    from discreet.results.ledger import Ledger

    with Ledger(file, read_only=to is None) as opened:
        told = opened.head if to is None else str(write_anchor(opened, to))
        head = opened.head
    say(dumps({"head": head, "file": None if to is None else str(to)}, indent=1, ensure_ascii=False) if json else told)
