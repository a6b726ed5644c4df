"""Hostile input: files and requests that nobody would write by hand. Each is answered or refused in words, soon."""

import gzip
import json
import os
import random
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from discreet import Bounds, Categories, Contribution, PrivacyUnit, PureDP, Schema, Session
from discreet.core.errors import DiscreetError
from discreet.core.rows.read import Dialect
from discreet.core.rows.source import column_types
from discreet.plans.skeleton import skeleton
from discreet.studio import app
from discreet.studio.toml_document import digest_of
from tests.processes import output
from tests.studio.test_studio import PLAN, Browser, write_people

SOON = 10
"""Seconds within which the whole fuzz wants an answer; the sample in every run of the tests has no such limit."""
MOST_MEMORY = 1_000_000  # kilobytes
HARD = [
    "\x00", "\x1b[2J", "\r", "\n", "\r\n", '"', '""', "'", ",", ";", "\t", "|", "\ufeff", "\u2028", "\u202e",
    "\ufffe", "=cmd|' /C calc'!A0", "<script>alert(1)</script>", "../../etc/passwd", "NaN", "inf", "-inf", "1e999",
    "-0", "1,5", "9" * 400, "0x1F", "1_000", "٣", "½", "true", "NULL", "", " ", "\\N", "#", "é", "😀", "a" * 3000,
    "2020-02-30", "{}", "[[", "'; DROP TABLE x; --", "${HOME}", "%00", "%s%n", "\x7f", "\x85",
]  # fmt: skip


def hostile_bytes(draw: random.Random) -> bytes:
    """The content of a file: text with hard values, broken quotes, other encodings, plain noise."""
    kind = draw.choice(["table", "table", "table", "ragged", "noise", "characters", "wide", "long", "lines", "empty"])
    if kind == "noise":
        return draw.randbytes(draw.choice([1, 10, 1000, 100_000]))
    if kind == "empty":
        return draw.choice([b"", b"\n", b"\r\n\r\n", b"\xef\xbb\xbf", b'"', b",", b"\x00"])
    if kind == "wide":
        width = draw.choice([300, 2000])
        return ",".join(f"c{i}" for i in range(width)).encode() + b"\n" + b",".join([b"1"] * draw.choice([width, 5]))
    if kind == "long":
        return b'x,y\n"' + draw.choice([b"a", b"\n", b'""', b","]) * draw.choice([10_000, 1_000_000]) + b'",1\n'
    if kind == "lines":
        return b"x,y\n" + draw.choice([b"\n", b",\n", b"1,2\n", b'"",""\n']) * draw.choice([1000, 200_000])
    end, mark = draw.choice(["\n", "\r\n", "\r"]), draw.choice([",", ";", "\t", "|"])

    def field() -> str:
        text = draw.choice(HARD) if draw.random() < 0.5 else str(draw.randint(-5, 100))
        text = text + draw.choice(HARD) if draw.random() < 0.1 else text
        quoted = draw.random() < (0.995 if any(one in text for one in f'"{mark}\r\n') else 0.1)
        return '"' + text.replace('"', '""' if draw.random() < 0.995 else '"') + '"' if quoted else text

    width = draw.randint(1, 5)
    names = ["x", "y", "z", "u", "v"][:width] if draw.random() < 0.7 else [field() for _ in range(width)]
    rows = [
        [field() for _ in range(width + (draw.randint(-1, 1) if kind == "ragged" and draw.random() < 0.2 else 0))]
        for _ in range(draw.randint(0, 30))
    ]
    text = end.join(mark.join(row) for row in [names, *rows]) + draw.choice(["", end])
    if kind == "characters":
        text = "".join(draw.choice(HARD) for _ in range(draw.randint(0, 200)))
    encoding = draw.choice(["utf-8", "utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1", "utf-7"])
    return text.encode(encoding, "replace")


def hostile_file(draw: random.Random, folder: Path) -> Path:
    """A file whose name says how it is packed; some are packed wrongly, cut off, or much larger than they look."""
    content = hostile_bytes(draw)
    ending = draw.choice([".csv", ".csv", ".csv", ".csv", ".tsv", ".csv.gz", ".csv.zst", ".parquet"])
    if ending == ".csv.gz" and draw.random() < 0.7:
        content = gzip.compress(content)
        content = content[: draw.randint(0, len(content))] if draw.random() < 0.3 else content
    place = folder / f"rows{ending}"
    place.write_bytes(content)
    return place


def look_at(place: Path, draw: random.Random) -> str:
    """What everybody does with a file: describe it, count it, and take a mean; returns how that ended."""
    told = draw.random() < 0.7  # by somebody who has looked at it
    content = place.read_bytes()[:1000]
    dialect = {
        "delimiter": max(",;\t|", key=content.decode("latin-1").count) if told else draw.choice([None, *",;\t|"]),
        "encoding": draw.choice(["utf-16"] if told and b"\0" in content else ["utf-8", "utf-8", "cp1252", "latin-1"]),
        "header": draw.random() < 0.9,
        "decimal": draw.choice([".", "."]),
        "thousands": draw.choice([None, "'"]),
        "symbols": draw.choice(["", "$ %"]),
    }
    try:
        names = list(column_types(str(place), Dialect(**dialect)))
        skeleton(place.name, column_types(str(place), Dialect(**dialect)), Dialect(**dialect).declared())
        columns = {names[0]: Categories(["1", "2", "a", "NaN", "\x1b[2J"])}
        columns |= {names[-1]: Bounds(0, 100, grid=1)} if len(names) > 1 else {}
        unit = PrivacyUnit(names[1], contribution=Contribution(total=2)) if len(names) > 2 else None
        schema = Schema(columns=columns, **({} if unit is None else {"unit": unit}))
        session = Session(str(place), schema, ledger=":memory:", budget=PureDP(10.0), **dialect)
        session.count(epsilon=1.0, by=names[0])
        if len(names) > 1:
            session.mean(names[-1], epsilon=1.0)
    except DiscreetError as refusal:
        return type(refusal).__name__
    return "answered"


@contextmanager
def within(limit: int, what: str) -> Iterator[None]:
    """Fail with the seed where something is neither answered nor refused, or not within so many seconds; 0: any."""

    def stop(number: int, frame: object) -> None:
        raise TimeoutError(f"not done after {limit} s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(limit)
    try:
        yield
    except BaseException as failure:
        raise AssertionError(f"{what}: {type(failure).__name__}: {str(failure)[:2000]}") from failure
    finally:
        signal.alarm(0)


def peak_memory() -> int:
    """The most memory of this process, in kilobytes; ``getrusage`` would count that of the process that started it."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])


def fuzzed_files(folder: str, seeds: list[int], limit: int) -> None:
    """Look at a file per seed, and print how that went: run in a process of its own, so that its memory is known."""
    ended: Counter[str] = Counter()
    for seed in seeds:
        draw = random.Random(seed)
        place = hostile_file(draw, Path(folder))
        with within(limit, f"seed {seed}, {place.name}"):
            ended[look_at(place, draw)] += 1
        place.unlink()
    most = peak_memory()
    print(json.dumps({"ended": ended, "kilobytes": most}))


def _fuzzed(what: str, folder: Path, seeds: list[int], limit: int) -> dict[str, object]:
    code = f"from tests.session.test_hostile_input import *; fuzzed_{what}({str(folder)!r}, {seeds}, {limit})"
    places = {**os.environ, "HOME": str(folder.parent), "XDG_CONFIG_HOME": str(folder.parent)}
    return json.loads(output([sys.executable, "-W", "error", "-c", code], limit=3000.0, env=places).splitlines()[-1])


def test_hostile_files_are_answered_or_refused(tmp_path):
    told = _fuzzed("files", tmp_path, list(range(60)), 0)
    assert told["ended"]["answered"] > 10
    assert told["ended"]["SourceError"] > 10


@pytest.mark.deep
def test_thousands_of_hostile_files_are_answered_or_refused_soon(tmp_path):
    told = _fuzzed("files", tmp_path, list(range(2000)), SOON)
    assert sum(told["ended"].values()) == 2000
    assert told["kilobytes"] < MOST_MEMORY


HUGE = {
    "a quote in the header that nobody closes": ('b\'"x\' + b"a" * 40_000_000', "line 1"),
    "a header that never ends": ('b"x" * 40_000_000', "line 1"),
    "a million empty names": ('b"," * 1_000_000 + b"\\n"', "fields, more than"),
    "a quote that nobody closes": ('b\'x,y\\n1,"\' + b"a,b\\n" * 8_000_000', "line 2"),
    "a long field": ("b'x,y\\n1,\"' + b\"0\" * 200_000_000 + b'\"\\n'", ""),
    "a field of line ends": ("b'x,y\\n1,\"' + b\"\\n\" * 60_000_000 + b'\"\\n'", ""),
}


@pytest.mark.parametrize("kind", HUGE)
def test_files_that_are_larger_than_they_look_take_no_memory(kind, tmp_path):
    """A reader that looks for the end of a record again and again, or splits it first, takes minutes and gigabytes."""
    made, says = HUGE[kind]
    place = tmp_path / "rows.csv.gz"
    output([sys.executable, "-c", f"import gzip; gzip.open({str(place)!r}, 'wb', 1).write({made})"])
    code = f"""if True:
        from discreet import *
        from discreet.core.errors import SourceError
        try:
            schema = Schema(columns={{"x": Categories(["1", "2"])}})
            Session({str(place)!r}, schema, ledger=":memory:", budget=PureDP(1.0)).check_source()
        except SourceError as refusal:
            print(refusal)
        print(*[line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")])
    """
    *refusal, most = output([sys.executable, "-c", code]).splitlines()
    assert len(refusal) == bool(says)  # a record that is too long is one of missing values
    assert says in "".join(refusal)
    assert int(most) < MOST_MEMORY


# ---- requests to the studio ---------------------------------------------------------------------------------------

ELSEWHERE = ["/enter", "/static/studio.css", "/static/../app.py", "/static/%2e%2e/app.py", "/none", "//", "/plan/"]
QUERIES = ["plan", "file", "at", "seen", "what", "verify", "epsilon", "amount", "name", "address", "table", "encoding"]
FIELDS = [
    "ask", "as", "column", "position", "name", "text", "seen", "by", "password", "file", "table", "unit", "total",
    "epsilon", "delimiter", "encoding", "decimal", "thousands", "symbols", "amount", "address", '["title"]',
    '["budget", "epsilon"]', '["schema", "unit", "column"]', '["schema", "columns", "age", "low"]',
    '["release", 0, "epsilon"]', '["release", 99]', '["release", -1, "name"]', '["schema"]',
    '["release", 0, "columns"]', '["schema", "columns", "", "x"]', "[]", "[1]", '["budget", 3]', '["title", "x"]',
    '["release", 1e400]', "[" * 2000,
]  # fmt: skip
VALUES = [
    *HARD, "people.toml", "people.csv", "mean", "count", "quantile", "table", "regression", "number", "labels", "age",
    "0", "-1", "0.5", "1e308", "9" * 5000, "heads.txt", "report.html", "csv", "xlsx", "script.py", "rows",
    "../x.toml", "/etc/passwd", "postgresql://127.0.0.1:1/x", "duckdb://people.csv", "utf-16", "[1, 2]", '"a", "b"',
    "[" * 2000, "a = 1", "[[release]]", 'title = "x"\n[source]\npath = 3\n',
    '[source]\npath = "people.csv"\nrelated = 3\n[budget]\nepsilon = 1\n', '[source]\npath = ["a"]\ndelimiter = 5\n',
    "release = 1\nschema = []\nbudget = 'x'\n", "[schema]\nunit = 1\ncolumns = [1]\n", PLAN,
    PLAN.replace('"people.csv"', '"../secret.csv"'), PLAN.replace("high = 100\n", "high = 1e999\n"),
    PLAN.replace('ask = "count"', 'ask = "mean"\ncolumn = "age"'),
    PLAN.replace('"people.csv"', '"people.csv"\nengine = "duckdb:///etc/passwd"'),
    "x = " + "{a = " * 500 + "1" + "}" * 500,
]  # fmt: skip


def hostile_request(draw: random.Random, browser: Browser):
    """Send one request, mostly with the token of the studio's pages; the answer."""
    value = lambda: draw.choice(VALUES)  # noqa: E731
    query = {name: value() for name in draw.sample(QUERIES, draw.randint(0, 4))}
    if draw.random() < 0.8:
        query["plan"] = "people.toml"
    seen = draw.random() < 0.4
    paths = draw.choice([app._SEEN, app._DONE]) if draw.random() < 0.1 else app._SEEN if seen else app._DONE
    path = draw.choice([*paths] if draw.random() < 0.95 else ELSEWHERE)
    address = f"{path}?{urlencode(query, errors='replace')}"
    headers = {"hx-request": "true"} if draw.random() < 0.3 else {}
    if draw.random() < 0.1:
        headers |= {draw.choice(["cookie", "content-type", "range", "accept", "x-csrf"]): quote(value()[:200])}
    if seen:
        return browser.client.get(address, headers=headers)
    if path == "/upload":
        headers["x-csrf"] = browser.guard.csrf
        return browser.client.post(address, content=hostile_bytes(draw)[:10_000], headers=headers)
    form = {name: value() for name in draw.sample(FIELDS, draw.randint(0, 6))}
    form |= {f"was:{name}": value() for name in [*form] if draw.random() < 0.3}
    if draw.random() < 0.5:
        plan = Path(browser.folder) / "people.toml"
        form |= {"text": value(), "seen": digest_of(plan.read_text(encoding="utf-8", errors="replace"))}
    return browser.client.post(address, data={"csrf": browser.guard.csrf, **form}, headers=headers)


def fuzzed_requests(folder: str, seeds: list[int], limit: int) -> None:
    """Send a request per seed to a studio, whose plan is written anew now and then; print how that went."""
    place = Path(folder)
    write_people(place / "people.csv", 50)
    (place.parent / "secret.csv").write_text("SECRETCOLUMN\n1\n")
    browser = Browser(place)
    ended: Counter[int] = Counter()
    for seed in seeds:
        draw = random.Random(seed)
        if draw.random() < 0.3 or not (place / "people.toml").exists():
            (place / "people.toml").write_text(PLAN)
        with within(limit, f"seed {seed}"):
            answer = hostile_request(draw, browser)
            assert answer.status_code < 500, answer.status_code
            assert app.FAILED not in answer.text, answer.text
            assert "SECRETCOLUMN" not in answer.text, answer.url
        ended[answer.status_code] += 1
    print(json.dumps({"ended": ended, "kilobytes": peak_memory()}))


def test_hostile_requests_are_answered_or_refused(tmp_path):
    (tmp_path / "work").mkdir()
    told = _fuzzed("requests", tmp_path / "work", list(range(150)), 0)
    assert told["ended"]["200"] > 20
    assert told["ended"]["400"] > 20


@pytest.mark.deep
def test_thousands_of_hostile_requests_are_answered_or_refused_soon(tmp_path):
    (tmp_path / "work").mkdir()
    told = _fuzzed("requests", tmp_path / "work", list(range(5000)), SOON)
    assert sum(told["ended"].values()) == 5000
    assert told["kilobytes"] < MOST_MEMORY


PLANS = [
    *(
        PLAN.replace('path = "people.csv"', source)
        for source in (
            "path = 3", 'path = ["a"]', "path = true", "path = 2020-01-01", 'path = ""', "address = 3", 'address = "x"',
            'path = "people.csv"\nencoding = 3', 'path = "people.csv"\ndelimiter = "é"', 'path = "x\\u0000.csv"',
            'path = "people.csv"\nengine = 3', 'path = "people.csv"\nrelated = 3', f'path = "{"x" * 5000}.csv"',
        )
    ),
    PLAN.replace("[budget]", "[output]\ndirectory = 3\n[budget]"),
    PLAN.replace("[budget]", f"[ledger]\npath = '{'x' * 400}'\n[budget]"),
    PLAN[: PLAN.index("[[release]]")], "release = 1\nschema = []\nbudget = 'x'\n", f"a = {'9' * 5000}",
]  # fmt: skip


@pytest.mark.parametrize("text", PLANS, ids=map(str, range(len(PLANS))))
def test_hostile_plans_have_pages(text, tmp_path):
    """Nothing but words on every page, also where a plan is edited that holds something else than it should."""
    (tmp_path / "work").mkdir()
    write_people(tmp_path / "work" / "people.csv", 10)
    browser = Browser(tmp_path / "work")
    fields = {"ask": "mean", "position": "9" * 5000, "name": "rows", "column": "age", "as": "labels", "file": "h.txt"}
    fields |= {'["release", 0, "labels"]': "9" * 5000, '["title", "x"]': "x", "[" * 5000: "x"}
    change = partial(browser.post, form=fields)
    for path, send in (
        ("/plan", browser.get), ("/text", browser.get), ("/add", change), ("/remove", change), ("/declare", change),
        ("/change", change),
    ):  # fmt: skip
        (tmp_path / "work" / "people.toml").write_text(text)
        answer = send(f"{path}?plan=people.toml")
        assert answer.status_code < 500
        assert app.FAILED not in answer.text
