"""Command line of profiles: show the cost, release, write what was asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from discreet.core.errors import DiscreetError
from discreet.publish.files import say, write_new


def profile(
    file: str,
    /,
    *,
    epsilon: float,
    delta: float | None = None,
    budget: float | None = None,
    unit: str | None = None,
    columns: tuple[str, ...] = (),
    codes: tuple[str, ...] = (),
    proportion: float = 0.95,
    order: str = "ymd",
    ledger: str | None = None,
    delimiter: str | None = None,
    decimal: str = ".",
    thousands: str | None = None,
    symbols: str = "",
    encoding: str = "utf-8",
    yes: bool = False,
    json: bool = False,
    out: Path | None = None,
    html: Path | None = None,
    ddi: Path | None = None,
    csv: Path | None = None,
) -> None:
    """Release what each column holds, and write a plan file with it filled in. Shows the cost first.

    Parameters
    ----------
    file
        CSV or Parquet file, or a glob of them.
    epsilon
        ε to spend on the profile.
    delta
        With it, discreet also lists the common labels of columns of labels.
    budget
        The ε of a new ledger: what the profile and all releases after it may cost together. Twice the profile's by
        default.
    unit
        The id column, where several rows can belong to one person.
    columns
        A column to profile, where not all are wanted: fewer columns have less noise each. Repeat it for further ones.
    codes
        A column of codes that look like numbers, such as 00501: left alone, and written into the plan as labels.
        Repeat it for further columns.
    proportion
        Proportion of the values that bounds are to hold.
    order
        How dates are written: ymd, dmy or mdy.
    ledger
        The ledger; a file beside the data by default.
    delimiter
        Character between the fields of a CSV file: a comma by default, a tab for .tsv.
    decimal
        Decimal mark of the numbers: "." or ",".
    thousands
        Mark between groups of three digits: "," where numbers look like 1,234.5.
    symbols
        Signs before or after numbers, with blanks between them: "$ %".
    encoding
        Encoding of a CSV file, for example cp1252.
    yes
        Spend without asking.
    json
        Print JSON.
    out
        Plan file to write.
    html
        Page to write.
    ddi
        DDI-Codebook (XML) to write.
    csv
        Table of all figures to write.
    """
    from discreet.core.columns import PrivateLabels
    from discreet.core.schema import PrivacyUnit, Schema
    from discreet.plans.profile import plan_profile, run_profile
    from discreet.questions.question import KINDS

    given = {"epsilon": epsilon} if delta is None else {"epsilon": epsilon, "delta": delta}
    kind = KINDS[frozenset(given)]
    whole = None if budget is None else kind(**{**{name: 2 * one for name, one in given.items()}, "epsilon": budget})
    planned = plan_profile(
        file,
        kind(**given),
        schema=Schema(columns={name: PrivateLabels() for name in codes}, unit=PrivacyUnit(unit)),
        columns=columns,
        proportion=proportion,
        order=order,  # type: ignore[arg-type]  # the question refuses other words
        ledger=ledger,
        budget=whole,
        delimiter="\t" if delimiter == "\\t" else delimiter,
        decimal=decimal,
        thousands=thousands,
        symbols=symbols,
        encoding=encoding,
    )
    say(planned, sys.stderr)
    _agree(yes or planned.released)
    for path in (out, html, ddi, csv):
        if path is not None and path.exists():
            raise DiscreetError(f"{str(path)!r}: exists already. Choose another name. Nothing was spent.")
    found = run_profile(planned)
    say(found.to_json(indent=1) if json else found)
    plan_text = partial(found.plan_text, "" if out is None else out.parent)
    written: dict[Path | None, Callable[[], str]] = {out: plan_text, html: found.html, ddi: found.ddi, csv: found.csv}
    for path, text in written.items():
        if path is not None:
            write_new(path, text())
            say(path, sys.stderr)


def _agree(yes: bool) -> None:
    """Ask before spending, where a person can answer; refuse where nobody can."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise DiscreetError("yes: nobody is there to agree to the cost. Add --yes to spend. Nothing was spent.")
    if input("Release it, and spend this? [y/N] ").strip().lower() not in ("y", "yes"):
        raise DiscreetError("The profile was not released. Nothing was spent.")
