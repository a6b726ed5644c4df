"""Command line for those who attack and advise: parse, call one public function, print."""

from __future__ import annotations

from json import dumps
from pathlib import Path

from discreet.core.errors import DiscreetError
from discreet.publish.files import progress_line, say, tell, write_new


def advise(
    statistic: str,
    n: int,
    epsilon: float,
    /,
    *,
    bounds: tuple[float, float] = (0.0, 1.0),
    expected_sd: float | None = None,
    shares: tuple[float, float] = (0.3, 0.25),
    candidates: int = 10,
    json: bool = False,
) -> None:
    """Say whether sampling or suppressing records would help, at equal privacy. Reads no data.

    Parameters
    ----------
    statistic
        count, sum, mean, proportion, table or histogram (one of its cells), quantile, clusters or mode.
    n
        Number of rows to plan for.
    epsilon
        ε of the result, for data sets that differ by one row.
    bounds
        Public bounds of the column, for sums and means.
    expected_sd
        Standard deviation to plan for; that of a uniform column by default.
    shares
        For a mode: the shares of the two most frequent categories.
    candidates
        For a mode: the number of categories.
    json
        Print JSON.
    """
    from discreet.core.guarantee import PureDP
    from discreet.plans.advice import advise as advised

    advice = advised(
        statistic, n, PureDP(epsilon), bounds=bounds, expected_sd=expected_sd, shares=shares, candidates=candidates
    )
    tell(advice, json)


def attack(file: Path, /, *, json: bool = False, out: Path | None = None) -> None:
    """Attack every release of a plan file on synthetic worst-case data. Reads no data and spends nothing.

    The verdict is kept beside the plan, as NAME.attack.json; the report of a later run tells it.

    Parameters
    ----------
    file
        The plan file (TOML).
    json
        Print JSON.
    out
        Write the result as a page (.html).
    """
    from discreet.audit.attack_plan import attack_plan
    from discreet.plans.job import record_attack

    found = attack_plan(file, progress=progress_line("ran"))
    record_attack(file, found.to_dict())
    if out is not None:
        write_new(out, found.to_html())
    tell(found, json)
    if not found.passed:
        raise DiscreetError("a release loses more than it claims: see the lines marked with !.")


def audit(
    *,
    part: list[str] | None = None,
    list: bool = False,
    quick: bool = False,
    deep: bool = False,
    workers: int = 2,
    details: bool = False,
    json: bool = False,
    quiet: bool = False,
    out: Path | None = None,
) -> None:
    """Attack this installation, exactly and by sampling, and say what was tried and what could not be found.

    Reads no data of yours and spends nothing. A part that needs a package that is not installed is skipped, by name.

    Parameters
    ----------
    part
        Run only the parts with this name or these first words; may be given again. See --list.
    list
        Print the names of the parts and run nothing.
    quick
        Run the parts that find most within a minute.
    deep
        Draw enough samples to detect small violations; takes many minutes.
    workers
        Number of processes.
    details
        Print a line for every check.
    json
        Print JSON.
    quiet
        Print nothing but what was exceeded; the exit status tells the rest.
    out
        Write the report as a page (.html), as JSON (.json) or as markdown (.md).
    """
    from discreet.audit.run import part_names, run_audit

    if list:
        say(dumps(part_names(), indent=1, ensure_ascii=False) if json else "\n".join(part_names()))
        return
    shown = None if quiet else progress_line("audited")
    report = run_audit(deep=deep, quick=quick, parts=part or (), workers=workers, progress=shown)
    if out is not None:
        write_new(out, report.written(out.suffix))
    if not quiet or not report.passed:
        say(report.to_json() if json else report.in_full() if details else report)
    if not report.passed:
        raise DiscreetError("a guarantee was exceeded, or something failed: see Found.")
