"""Command line: parse, call one public function, show progress."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.cli import audit, profile
from discreet.core import errors
from discreet.publish.files import progress_line, say, tell, write_new

if TYPE_CHECKING:
    from cyclopts import App


_NO_BUDGET = 3
_STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (errors.InsufficientBudget, _NO_BUDGET),
    (errors.SourceError, 4),
    (errors.NotApproved, 6),
    (errors.LedgerError, 5),
    (errors.PlanFileError, 2),
    (errors.InvalidParameter, 2),
    (errors.NoConversion, 2),
)
_FILE_COMMANDS = 6
"""Help lists so many commands on files first, then the ledger, then the rest."""


def _app() -> App:
    try:
        from cyclopts import App, Parameter
    except ImportError as missing:
        raise errors.MissingExtra(missing.name or "cyclopts", "cli") from None
    from discreet import __version__

    app = App(
        name="discreet",
        help="Publish statistics about people under differential privacy.",
        help_epilogue=(
            "Exit status: 0 success; 2 wrong usage or invalid plan; 3 over budget; 4 data; 5 ledger; 6 not approved; "
            "130 interrupted; 1 anything else."
        ),
        version=__version__,
        result_action="return_value",
        suppress_keyboard_interrupt=False,  # so that `main` says what is kept
        default_parameter=Parameter(negative=(), show_default=_default),
    )
    ledger = App(
        name="ledger",
        help="Show what a ledger holds, and check that it is intact.",
        result_action="return_value",
        sort_key=_FILE_COMMANDS,
    )
    keys = App(
        name="keys", help="Make the keys that approvals need.", result_action="return_value", sort_key=_FILE_COMMANDS
    )
    app.command(ledger)
    app.command(keys)
    commands: tuple[Callable[..., None], ...] = (
        _convert,
        _describe,
        profile.profile,
        _plan,
        _run,
        _export,
        _open,
        audit.advise,
        audit.attack,
        audit.audit,
        _reproduce,
    )
    for place, command in enumerate(commands):
        app.command(command, name=command.__name__.removeprefix("_"), sort_key=place + (place >= _FILE_COMMANDS))
    from discreet.cli import ledger as ledger_commands
    from discreet.cli import review  # they need the same extra

    checks = (review.review, review.approve, review.withdraw, review.bundle, review.verify)
    for check in checks:
        app.command(check, name=check.__name__, sort_key=_FILE_COMMANDS)
    keys.command(review.new_keys, name="new")
    for look in (
        ledger_commands.show,
        ledger_commands.explain,
        ledger_commands.verify,
        ledger_commands.anchor,
        review.renew,
    ):
        ledger.command(look, name=look.__name__)
    app.register_install_completion_command(help="Set up completion of commands for this shell and exit.")
    return app


def _default(value: Any) -> Any:
    """The default as help shows it; None for switches, which are off."""
    return None if value is False else " ".join(map(str, value)) if isinstance(value, tuple) else value


def _plan(file: Path, /, *, period: str | None = None, json: bool = False) -> None:
    """Show what a plan file would release, with what error and at what cost. Reads no data.

    Parameters
    ----------
    file
        The plan file (TOML).
    period
        The period to plan, instead of the plan's own.
    json
        Print JSON.
    """
    from discreet.plans.job import Job

    planned = Job(file, period=period).plan()
    tell(planned, json)
    if planned.refusal is not None:
        raise SystemExit(_NO_BUDGET)


def _run(
    file: Path,
    /,
    *,
    again: bool = False,
    yes: bool = False,
    out: Path | None = None,
    period: str | None = None,
    dry_run: bool = False,
    check_source: bool = False,
    json: bool = False,
    quiet: bool = False,
    log: Path | None = None,
) -> None:
    """Make the releases of a plan file that are not in its ledger yet, and write results and report.

    Parameters
    ----------
    file
        The plan file (TOML).
    again
        Release everything again and spend again, if the whole plan was released before.
    yes
        With --again: spend again without asking.
    out
        Directory for results and report; NAME-report beside the plan file by default.
    period
        The period to release, instead of the plan's own.
    dry_run
        Check plan, approvals, budget and columns as a run would, and release nothing.
    check_source
        Read the rows on this machine and say what is wrong with them, or whether they changed since the releases. The
        words may depend on somebody's data: they are for its owner. Spends nothing, releases nothing, logs nothing.
    json
        Print JSON.
    quiet
        Print nothing but refusals.
    log
        File to append one line of JSON to for each release, for the end of the run, and for a refusal.
    """
    from discreet.plans.job import Job
    from discreet.publish.files import logged

    if check_source:
        found = Job(file, period=period).check_source()
        say(dumps({"source": found}, indent=1, ensure_ascii=False) if json else "\n".join(found))
        return
    with logged(log, str(file), _status) as noted:
        job = Job(file, period=period)
        shown = None if quiet else progress_line("released")
        done: Any
        if dry_run:
            done = job.check()
        else:
            done = job.run(again=_spend_again(job, again, yes), output=out, progress=noted.following(shown))
        noted.end(done)
    if not quiet:
        tell(done, json)


def _open(plan: Path | None = None, /, *, port: int = 0, no_browser: bool = False) -> None:
    """Open the studio: plan, review and publish in the browser, on this machine alone.

    Parameters
    ----------
    plan
        A plan file, a data file, or a folder; the current folder by default.
    port
        Port of this machine to listen on; a free one by default.
    no_browser
        Only print which page to open.
    """
    try:
        from discreet.studio.app import open_studio
    except ImportError as missing:
        raise errors.MissingExtra(missing.name or "starlette", "studio") from None
    open_studio(plan, port=port, browser=not no_browser, say=say)


def _export(results: Path, /, *, format: str = "csv", out: Path | None = None, json: bool = False) -> None:
    """Write the numbers of a run as csv, xlsx, parquet, sdmx-csv, r or stata. Reads no data.

    Parameters
    ----------
    results
        results.json of a run, or the directory that holds it.
    format
        csv, xlsx, parquet, sdmx-csv, r or stata; the last two write a CSV file and a script that reads it.
    out
        Directory to write to; the directory of the results by default.
    json
        Print JSON.
    """
    from discreet.publish.export import export

    files = [str(file) for file in export(results, format, out)]
    say(dumps({"files": files}, indent=1, ensure_ascii=False) if json else "\n".join(files))


def _describe(
    file: str,
    /,
    *,
    delimiter: str | None = None,
    decimal: str = ".",
    thousands: str | None = None,
    symbols: str = "",
    encoding: str = "utf-8",
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Write a plan file to fill in, from column names and types alone.

    Parameters
    ----------
    file
        CSV or Parquet file, or a glob of them.
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
    out
        File to write; the terminal by default.
    json
        Print JSON: the text of the plan, and where it was written.
    """
    from discreet.core.rows.read import Dialect
    from discreet.core.rows.source import column_types
    from discreet.plans.convert import described
    from discreet.plans.skeleton import skeleton

    delimiter = "\t" if delimiter == "\\t" else delimiter  # as shells pass it on
    dialect = Dialect(delimiter=delimiter, decimal=decimal, encoding=encoding, thousands=thousands, symbols=symbols)
    types = column_types(file, dialect)
    # A plan finds its data from its own folder.
    place = file if out is None or os.path.isabs(file) else os.path.relpath(file, out.parent)
    told = described(file) if file.lower().endswith(".parquet") and os.path.isfile(file) else {}
    text = skeleton(place, types, dialect.declared(), told)
    if out is not None:
        write_new(out, text)
    if json:
        say(dumps({"plan": text, "file": None if out is None else str(out)}, indent=1, ensure_ascii=False))
    else:
        say(text if out is None else out)


def _convert(file: Path, /, *, out: Path | None = None, sheet: str | None = None, json: bool = False) -> None:
    """Write a table of SPSS, Stata, SAS or Excel as a Parquet file. Read it afterwards with `discreet describe`.

    Parameters
    ----------
    file
        File that ends in .sav, .zsav, .por, .dta, .sas7bdat, .xpt or .xlsx.
    out
        File to write; by default FILE with the ending .parquet. Nobody else may read it.
    sheet
        Sheet of a workbook; the first by default.
    json
        Print JSON: where it was written.
    """
    from discreet.plans.convert import convert

    place = file.with_suffix(".parquet") if out is None else out
    write_new(place, convert(file, sheet))
    say(dumps({"file": str(place)}) if json else place)


def _reproduce(
    study: str,
    /,
    *,
    quick: bool = False,
    out: Path | None = None,
    seed: int = 1,
    workers: int = 1,
    data: Path | None = None,
    json: bool = False,
) -> None:
    """Repeat a paper's experiments. A stopped run resumes where it was.

    Parameters
    ----------
    study
        Key of the study, for example liu2019; liu2023/figure-3 for one figure or part; "all" runs every study and
        builds a page of all figures; "claims" lists what the papers say with a verdict each, from the run that comes
        with discreet or from a full run in OUT.
    quick
        Run the small grids.
    out
        Directory for the results; studies/KEY by default.
    seed
        Seed of the simulations.
    workers
        Number of processes.
    data
        Folder with the original data files, for studies that can read them; stand-ins are generated otherwise.
    json
        Print claims as JSON.
    """
    from discreet import papers

    if study == "claims":
        from discreet.papers.gallery import decided_in, shipped

        claims = shipped() if out is None else decided_in(papers.load_all(data), out)
        say(claims.to_json(indent=1) if json else claims)
        return
    target = out or Path("studies") / study
    done = progress_line("computed")
    if study == "all":
        from discreet.papers.gallery import run_gallery

        say(run_gallery(papers.load_all(data), target, quick=quick, seed=seed, workers=workers, progress=done))
        return
    key, _, one = study.partition("/")
    if one:
        target = out or Path("studies") / key
        found = papers.run_one(
            papers.load(key, data), one, target, quick=quick, seed=seed, workers=workers, progress=done
        )
        say(found)
        return
    say(papers.run(papers.load(study, data), target, quick=quick, seed=seed, workers=workers, progress=done))


def _spend_again(job: Any, again: bool, yes: bool) -> bool:
    """True where everything is to be released again; asks where a person can answer."""
    if not job.finished():
        return False
    if again and yes:
        return True
    note = "Everything in this plan was released before."
    if not sys.stdin.isatty():
        if again:
            raise errors.DiscreetError(f"{note} To release it again and spend again without a terminal, add --yes.")
        say(f"{note} Showing the stored answers; nothing is spent. To release again, add --again --yes.", sys.stderr)
        return False
    return input(f"{note} Release it again, and spend again? [y/N] ").strip().lower() in ("y", "yes")


def _status(refusal: errors.DiscreetError) -> int:
    """The exit status that tells a script what kind of refusal it was."""
    cause = refusal.__cause__ if isinstance(refusal.__cause__, errors.DiscreetError) else refusal
    return next((status for kind, status in _STATUSES if isinstance(cause, kind)), 1)


@contextmanager
def _no_lost_interrupts() -> Iterator[None]:
    """Stop for every Ctrl-C, also for one that arrives while an object is destroyed.

    Python cannot raise an error there, prints it and goes on, and the engine's objects are destroyed all the time: a
    hundredth of all interrupts was lost. So one that is lost is sent again, a moment later.
    """
    before = sys.unraisablehook

    def again(lost: Any) -> None:
        if lost.exc_type is KeyboardInterrupt and sys.platform != "win32":
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            signal.setitimer(signal.ITIMER_REAL, 0.01)
        else:
            before(lost)

    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = before


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; refusals are printed without a traceback and end with a status of their kind."""
    if arguments is None:  # a process of its own: at its end, a search for cycles in all that it imported takes long
        atexit.register(gc.freeze)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal that cannot show ε must not end a run
            stream.reconfigure(errors="replace")
    try:
        with _no_lost_interrupts():
            _app()(arguments)
            sys.stdout.flush()
    except errors.DiscreetError as refusal:
        say(f"discreet: {refusal}", sys.stderr)
        raise SystemExit(_status(refusal)) from None
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except KeyboardInterrupt:
        say("discreet: stopped; what was released so far is in the ledger.", sys.stderr)
        raise SystemExit(130) from None
