"""Report: what an audit tried, what it found, its verdict in words, and what it could not have found."""

from __future__ import annotations

import html
import math
import platform
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from textwrap import wrap
from typing import Any

from discreet import __version__
from discreet.core.errors import DiscreetError, InvalidParameter
from discreet.results.charts import PALETTE
from discreet.results.display import Facts, Result, number

# ---- Audit: the one kind of result that every check has.


@dataclass(frozen=True)
class Audit(Result):
    """The claim and the findings of one check.

    Attributes
    ----------
    section, name
        The section of a report to which it belongs, and what was audited.
    claimed, found
        What must hold, and what was found, in words.
    findings
        What is wrong, each in words; none where the check passed.
    reached
        The largest share of a claim that was reached: all of it is right, and means that no noise is wasted.
    measured
        The numbers behind the words, by name: ``audit["certified"]``.
    skipped
        Whether it could not run because a package is missing; then it has neither passed nor failed.
    """

    section: str
    name: str
    claimed: str
    found: str
    findings: tuple[str, ...] = ()
    reached: float | None = None
    measured: Mapping[str, Any] = field(default_factory=dict)
    skipped: bool = False

    @property
    def passed(self) -> bool:
        """True where the check ran and nothing is wrong."""
        return not self.findings and not self.skipped

    def __getitem__(self, name: str) -> Any:
        return self.measured[name]

    def heading(self) -> str:
        return f"{self.section.capitalize()} audit: {self.name}"

    @property
    def words(self) -> str:
        """The result in words, and the first thing that is wrong."""
        return ": ".join(dict.fromkeys(one for one in (self.found, *self.findings[:1]) if one))

    def facts(self) -> Facts:
        """The lines to show."""
        numbers = [(name.replace("_", " "), _short(value)) for name, value in self.measured.items()]
        wrong = "none" if not self.findings else f"{len(self.findings)}: {'; '.join(self.findings[:3])}"
        verdict = "skipped" if self.skipped else "holds" if self.passed else "EXCEEDED"
        return [
            ("claimed", self.claimed), ("found", self.found), *numbers, ("findings", wrong), ("verdict", verdict),
        ]  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        told = _plain({**vars(self), "passed": self.passed})
        return dict(told)

    def called(self, name: str) -> Audit:
        """The same under another name."""
        return replace(self, name=name)

    def tightly(self) -> Audit:
        """The same, with a finding where worst neighbours stay clearly below the claim: then they are not the worst."""
        if not self.passed or (self.reached or 0.0) >= _TIGHT:
            return self
        return replace(self, findings=(f"only {100 * (self.reached or 0.0):.4g} % of the claim is reached",))


_TIGHT = 0.99


def _short(value: Any) -> str:
    """A value in few words."""
    if isinstance(value, float):
        return number(value)
    text = ", ".join(map(_short, value)) if isinstance(value, list | tuple) else str(value)
    return text if len(text) <= 200 else f"{text[:199]}…"


def _plain(value: Any) -> Any:
    """JSON-ready data; numbers that JSON does not have are None."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in (sorted(value) if isinstance(value, set | frozenset) else value)]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value.to_dict() if hasattr(value, "to_dict") else value


@dataclass(frozen=True)
class Refusal:
    """An error in place of an answer: an outcome like any other, and in an audit a finding by its name."""

    kind: str
    words: str

    @staticmethod
    def of(error: Exception) -> Refusal:
        """The refusal that an error stands for."""
        return Refusal(type(error).__name__, str(error).split("\n")[0][:120])

    def __str__(self) -> str:
        return f"refused: {self.kind}: {self.words}"


def about(found: Any) -> dict[str, Any]:
    """The facts that every page begins with: what was audited by which version, on which machine, and the verdict."""
    machine = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    return {"title": found.heading(), "version": __version__, "machine": machine, "passed": found.passed}


# ---- Page: the facts of an audit as one self-contained HTML file, and as markdown for the documentation.


def _stored(name: str) -> str:
    return files("discreet.audit").joinpath("data", name).read_text(encoding="utf-8")


@cache
def _words() -> dict[str, Any]:
    """The sections of a report, and what no run finds."""
    return tomllib.loads(_stored("report.toml"))


_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def audit_page(facts: Mapping[str, Any]) -> str:
    """HTML: no script, nothing fetched, everything escaped."""
    sections = "".join(_section(section) for section in facts["sections"])
    title = html.escape(facts["title"])
    kind = "Deep run" if facts["deep"] else "Short run"
    about = html.escape(f"{kind} of discreet {facts['version']}, {facts['created']}, {facts['machine']}.")
    mark = "good" if facts["passed"] else "bad"
    style = _stored("report.css")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"><style>{PALETTE}\n{style}</style></head>'
        f'<body><main><h1>{title}</h1><p class="soft">{about}</p>'
        f'<p class="verdict {mark}">{html.escape(facts["verdict"])}</p>'
        f"{_limits(facts)}{sections}</main></body></html>\n"
    )


def _limits(facts: Mapping[str, Any]) -> str:
    """The limits of the run, as a list."""
    items = "".join(f"<li>{html.escape(one)}</li>" for one in facts["limits"])
    return f"<h2>What this run could not have found</h2><ul>{items}</ul>" if items else ""


def _section(section: Mapping[str, Any]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{html.escape(line["name"])}</th><td>{html.escape(line["claimed"])}</td>'
        f"<td>{html.escape(line['found'])}</td><td>{_share(line)}</td>{_verdict(line)}</tr>"
        for line in section["lines"]
    )
    head = "".join(f'<th scope="col">{name}</th>' for name in ("audited", "claimed", "found", "reached", "verdict"))
    title = html.escape(section["title"])
    key = html.escape(section["key"])
    return (
        f'<section aria-labelledby="{key}"><h2 id="{key}">{title}</h2>'
        f'<p class="soft">{html.escape(section["words"])}</p><div class="wide">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></section>"
    )


def _share(line: Mapping[str, Any]) -> str:
    reached = line["reached"]
    return "" if reached is None or reached <= 0 else f"{100 * reached:.1f} %"


def _verdict(line: Mapping[str, Any]) -> str:
    if line.get("skipped"):
        return '<td class="soft">skipped</td>'
    return '<td class="good">holds</td>' if line["passed"] else '<td class="bad">EXCEEDED</td>'


def audit_markdown(facts: Mapping[str, Any]) -> str:
    """The same tables in markdown."""
    parts = [facts["verdict"], "", "What this run could not have found:", ""]
    parts += [*(f"- {one}" for one in facts["limits"]), ""]
    for section in facts["sections"]:
        parts += [
            f"## {section['title']}",
            "",
            section["words"],
            "",
            "| audited | claimed | found | reached | |",
            "|---|---|---|---|---|",
        ]
        parts += [
            f"| {line['name']} | {line['claimed']} | {line['found']} | {_share(line)} "
            f"| {'skipped' if line.get('skipped') else 'holds' if line['passed'] else '**exceeded**'} |"
            for line in section["lines"]
        ]
        parts.append("")
    return "\n".join(parts)


# ---- Report: what an audit tried, what it found, its verdict in words, and what it could not have found.


@dataclass(frozen=True)
class AuditReport(Result):
    """All lines of a run.

    Attributes
    ----------
    lines
        What was audited.
    deep
        Whether it was the deep run.
    created, seconds, elapsed
        When, how much processor time it took, and how long one had to wait for it, in seconds.
    tried, dropped_rows
        Names of the parts that were tried, and of those that were not asked for.
    """

    lines: tuple[Audit, ...]
    deep: bool
    created: str
    seconds: float
    elapsed: float
    tried: tuple[str, ...] = ()
    dropped_rows: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """True where nothing that ran exceeded its claim."""
        return all(line.passed or line.skipped for line in self.lines)

    @property
    def failed(self) -> tuple[Audit, ...]:
        """The audits that exceeded their claim, or failed."""
        return tuple(line for line in self.lines if not (line.passed or line.skipped))

    @property
    def skipped(self) -> tuple[Audit, ...]:
        """The audits that could not run."""
        return tuple(line for line in self.lines if line.skipped)

    def heading(self) -> str:
        return "Audit of this installation"

    def facts(self) -> Facts:
        shown = [(section["title"], section["lines"]) for section in self.to_dict()["sections"]]
        return [(title, _held(lines)) for title, lines in shown]

    def tried_words(self) -> str:
        """The number of audits that ran, of how many, and the time they took."""
        parts = f"{len(self.tried)} of {len(self.tried) + len(self.dropped_rows)} parts, " if self.tried else ""
        kind = "deep" if self.deep else "short"
        return (
            f"A {kind} run tried {parts}{len(self.lines) - len(self.skipped):,} checks of "
            f"{len(self.lines):,} in {self.elapsed:.0f} s ({self.seconds:.0f} s of processor time)."
        )

    def verdict(self) -> str:
        """The result in one sentence, for a privacy officer."""
        ran = len(self.lines) - len(self.skipped)
        skipped = len(self.skipped)
        more = f" {skipped} checks were skipped, so nothing is known of what they look at." if skipped else ""
        if self.failed:
            places = "one place" if len(self.failed) == 1 else f"{len(self.failed)} places"
            return (
                f"NOT SAFE: in {places} a guarantee was exceeded, or something failed that must work. Publish nothing "
                f"with this installation before each of them is explained.{more}"
            )
        if not ran:
            return "NOTHING WAS TRIED: every check was skipped."
        return (
            f"Nothing was found. In {ran:,} checks no release told more about one person than its guarantee allows, "
            f"and nothing was drawn before it was paid for. This is evidence, not a proof.{more}"
        )

    def limits(self) -> list[str]:
        """The faults that this run could not have found."""
        own = []
        if self.dropped_rows:
            own.append(f"What {len(self.dropped_rows)} other parts look at: {', '.join(_grouped(self.dropped_rows))}.")
        if self.skipped:
            own.append(f"What was skipped: {', '.join(dict.fromkeys(line.name for line in self.skipped))}.")
        if not self.deep:
            own.append("Excesses of a few per cent that only many draws show: run discreet audit --deep.")
        return [*own, *_words()["limits"]]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        sections = []
        for key, words in _words()["sections"].items():
            lines = [line.to_dict() | {"found": line.words} for line in self.lines if line.section == key]
            if lines:
                sections.append({"key": key, **words, "lines": lines})
        own = {name: _plain(value) for name, value in vars(self).items() if name != "lines"}
        failed, skipped = ([line.name for line in some] for some in (self.failed, self.skipped))
        told = {"verdict": self.verdict(), "limits": self.limits(), "sections": sections}
        return {**about(self), "discreet": "audit", **own, "failed": failed, "skipped": skipped, **told}

    def to_html(self) -> str:
        """One page that needs nothing else."""
        return audit_page(self.to_dict())

    def to_markdown(self) -> str:
        """The tables in markdown."""
        return audit_markdown(self.to_dict())

    def written(self, suffix: str) -> str:
        """The report as the kind of file that a suffix asks for."""
        kinds = {".html": self.to_html, ".json": lambda: self.to_json(indent=1), ".md": self.to_markdown}
        if suffix not in kinds:
            raise InvalidParameter("out", suffix, f"must end in one of {sorted(kinds)}", "Pass audit.html.")
        return kinds[suffix]()

    def in_full(self) -> str:
        """The report with a line for each check."""
        return "\n".join([*_all_lines(self.to_dict()), str(self)])

    def __str__(self) -> str:
        parts = [self.heading(), "", *wrap(self.tried_words(), 80), ""]
        for section in self.to_dict()["sections"]:
            held = _held(section["lines"])
            parts.append(f"{section['title'][: 78 - len(held)]:<{78 - len(held)}}  {held}")
        for heading, lines in (("Found", self.failed), ("Skipped", self.skipped)):
            if lines:
                parts += ["", heading, *(text for line in lines for text in _told(line))]
        parts += ["", "Verdict", *_item(self.verdict(), "  ")]
        parts += ["", "What this run could not have found"]
        parts += [text for one in self.limits() for text in _item(one, "- ")]
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        return self.to_html()


def _held(lines: list[dict[str, Any]]) -> str:
    """The number of audits that hold, of how many, and the number that were skipped."""
    skipped = sum(line["skipped"] for line in lines)
    ran = len(lines) - skipped
    held = f"{sum(line['passed'] for line in lines):,} of {ran:,} hold" if ran else ""
    return ", ".join(one for one in (held, f"{skipped} skipped" if skipped else "") if one)


def _grouped(parts: tuple[str, ...]) -> list[str]:
    """Names of parts, those that differ in a number once."""
    return list(dict.fromkeys(part.rstrip("0123456789").strip() for part in parts))


def _item(text: str, mark: str) -> list[str]:
    """Words at eighty columns; a mark stands before the first line."""
    return wrap(text, 80, initial_indent=mark, subsequent_indent=" " * len(mark))


def _told(line: Audit) -> list[str]:
    """A finding at eighty columns: where, what was claimed, and what was found."""
    claimed = "" if line.skipped else f" (claimed: {line.claimed})"
    return _item(f"{line.name}{claimed}: {line.words}", "- " if line.skipped else "! ")


def _all_lines(facts: dict[str, Any]) -> Iterator[str]:
    for section in facts["sections"]:
        yield from (section["title"], *_item(section["words"], "  "))
        yield from (text for line in section["lines"] for text in _row(line))
        yield ""


def _row(line: dict[str, Any]) -> list[str]:
    """Eighty columns: mark, name, claim, what was found; what is long stands on lines of its own."""
    mark = "-" if line["skipped"] else " " if line["passed"] else "!"
    one = f"{mark} {line['name']:<37} {line['claimed']:>17} {line['found']:>21}"
    if len(one) <= 80:
        return [one]
    return [*_item(line["name"], f"{mark} "), *_item(f"{line['claimed']}: {line['found']}", " " * 6)]


# ---- Comparisons: what an audit finds that compares the package with a second, slower computation.


Compared = tuple[str, bool]
"""What was compared, and whether both computations agree."""


def recomputed(title: str, parts: Iterable[Callable[[], Iterator[Compared]]], section: str = "recomputed") -> Audit:
    """Run comparisons; one that refuses or fails is a finding by its name."""
    checks = 0
    findings = dict[str, None]()
    lacking = dict[str, None]()
    for part in parts:
        try:
            for name, same in part():
                checks += 1
                if not same:
                    findings[name] = None
        except Exception as error:
            package = missing_package(error)
            if package is None:
                findings[f"{getattr(part, '__name__', title)}: {Refusal.of(error)}"] = None
            else:
                lacking[package] = None
    found = f"{len(findings)} differ" if findings else "the same"
    measured = {"checks": checks, "lacking": list(lacking)}
    return Audit(section, title, f"{checks:,} results", found, tuple(findings), measured=measured)


def missing_package(error: Exception) -> str | None:
    """The package without which something cannot run here; None for every other error."""
    if not isinstance(error, ImportError) or (error.name or "").startswith("discreet"):
        return None
    return error.name or str(error)


def refused(call: Callable[[], Any], kind: type[Exception] = DiscreetError) -> bool:
    """True where a call ends in words that say what is wrong."""
    try:
        call()
    except kind:
        return True
    return False
