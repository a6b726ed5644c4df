"""The studio without a browser: every handler, and everything that it refuses."""

import asyncio
import errno
import json
import math
import os
import re
import signal
import socket
import sys
import threading
import tomllib
from pathlib import Path
from statistics import NormalDist
from urllib.parse import unquote

import duckdb
import httpx2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from discreet import ApproxDP, GaussianDP, Ledger, PureDP
from discreet.core.errors import DiscreetError
from discreet.plans.job import Job, RunProgress
from discreet.plans.plan_file import PlanFile
from discreet.plans.review import new_key
from discreet.plans.skeleton import gallery, notebook, python_script, suggested
from discreet.questions import asked
from discreet.studio.app import Turns, studio_app, studio_server
from discreet.studio.desk import Folder, drafted
from discreet.studio.forms import place_of_name, shown_text, typed_value
from discreet.studio.publish_pages import attack_oneself, most_right
from discreet.studio.toml_document import GONE, Conflict, TomlDocument, digest_of
from tests.processes import LIMIT, started, told

PORT = 8123
PLAN = """\
# written by hand
title = "People"  # and kept

[source]
path = "people.csv"

[budget]
epsilon = 4.0
delta = 1e-5

[schema]
neighbours = "add_remove"

[schema.columns.age]
low = 0   # years
high = 100
source = "the questionnaire"

[schema.columns.income]
low = 0
high = 1000

[schema.columns.region]
categories = ["north", "south", "west"]

[schema.columns.sex]
categories = ["f", "m"]

[schema.columns.city]
unlisted = true

[[release]]
name = "rows"
ask = "count"
epsilon = 0.1
"""


def write_people(path: Path, count: int = 600) -> None:
    rng = np.random.default_rng(7)
    cities = rng.choice(["Oslo", "Bergen"], count)
    rows = zip(
        rng.integers(18, 90, count), rng.integers(0, 1000, count), rng.choice(["north", "south", "west"], count),
        rng.choice(["f", "m"], count), cities, strict=True,
    )  # fmt: skip
    lines = ["age,income,region,sex,city", *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "work"
    place.mkdir()
    write_people(place / "people.csv")
    (place / "people.toml").write_text(PLAN)
    (tmp_path / "secret.toml").write_text(PLAN)
    (tmp_path / "secret.csv").write_text("a,b\n1,2\n")
    return place


class Browser:
    """A client that was let in, and reads tokens from pages as a browser would."""

    def __init__(self, folder: Path, **settings: int) -> None:
        self.folder, self.guard = folder, studio_app(folder, token="once", **settings)
        self.guard.serve_on(PORT)
        self.client = TestClient(self.guard, base_url=f"http://127.0.0.1:{PORT}", follow_redirects=True)
        assert self.client.post("/enter", data={"token": "once"}).status_code == 200

    def get(self, path: str):
        return self.client.get(path)

    def post(self, path: str, form: dict | None = None, script: bool = False, follow: bool = True, **headers: str):
        data = {"csrf": self.guard.csrf, **(form or {})}
        more = {"hx-request": "true"} if script else {}
        sent = {"origin": f"http://127.0.0.1:{PORT}", **more, **headers}
        return self.client.post(path, data=data, headers=sent, follow_redirects=follow)

    def change(self, plan: str, place: list, text: str, was: str, script: bool = True):
        name = json.dumps(place)
        return self.post(f"/change?plan={plan}", {name: text, f"was:{name}": was}, script)


@pytest.fixture
def browser(folder: Path) -> Browser:
    return Browser(folder)


STEPS = ("plan", "text", "review", "run", "ledger", "learn")
PAGES = ["/", "/new?file=people.csv", *(f"/{page}?plan=people.toml" for page in STEPS)]


@pytest.mark.parametrize("page", STEPS)
def test_a_plan_of_features_is_shown(folder, page):
    features = """
[schema.unit]
column = "id"
total = 1

[schema.features.total]
of = "income"
take = "sum"
low = 0
high = 3000

[[release]]
name = "totals"
ask = "mean"
column = "total"
per_unit = true
epsilon = 0.1
"""
    (folder / "people.toml").write_text(PLAN + features)
    answer = Browser(folder).get(f"/{page}?plan=people.toml")
    assert answer.status_code == 200
    if page == "plan":
        assert "one row per person" in answer.text
        assert '<option value="total" selected' in answer.text
    if page == "review":
        assert "sum of &#39;income&#39; over all rows of a id" in answer.text


@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_shown_under_a_strict_policy(browser, page):
    answer = browser.get(page)
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert not re.search(r"<script(?! src=\"/static/)|\son\w+=|style=|javascript:", answer.text)
    addresses = re.findall(r'(?:src|href|action)="([^"]*)"', answer.text)
    assert all(one.startswith(("/", "#")) for one in addresses)


def test_nobody_else_gets_in(folder):
    guard = studio_app(folder, token="once")
    guard.serve_on(PORT)
    used = []
    guard.entered = lambda: used.append(True)
    stranger = TestClient(guard, base_url=f"http://127.0.0.1:{PORT}", follow_redirects=False)
    for path in ("/", "/?token=once", "/enter?token=once", "/plan?plan=people.toml&token=once", "/static/studio.css"):
        assert stranger.get(path).status_code == 403, path
    for form in ({"token": ""}, {"token": "other"}, {"csrf": guard.csrf}):
        assert stranger.post("/enter", data=form).status_code == 403, form
    assert stranger.post("/enter?token=once", data={"a": "b"}).status_code == 403
    assert stranger.post("/enter", data={"token": "once" * 1000}).status_code == 413
    assert stranger.post("/enter", data={"token": "once"}, headers={"host": "evil.example"}).status_code == 421
    assert used == []
    # Browsers say that a form in a file has no origin, and comes from another site than 127.0.0.1.
    headers = {"origin": "null", "sec-fetch-site": "cross-site"}
    first = stranger.post("/enter", data={"token": "once"}, headers=headers)
    assert first.status_code == 200
    assert 'content="0;url=/"' in first.text
    assert "once" not in first.text + str(first.headers)
    assert "HttpOnly" in first.headers["set-cookie"]
    assert "SameSite=Strict" in first.headers["set-cookie"]
    assert used == [True]
    second = TestClient(guard, base_url=f"http://127.0.0.1:{PORT}", follow_redirects=False)
    assert second.post("/enter", data={"token": "once"}).status_code == 403  # the token works once
    for cookie in ("", "None", "once"):
        assert second.get("/", headers={"cookie": f"{guard.cookie_name}={cookie}"}).status_code == 403
    assert stranger.get("/").status_code == 200


BROWSER = """#!/bin/sh
printf '%s\\n' "$@" > "$0.argv"
"""


def test_other_users_of_the_machine_see_no_token(folder, tmp_path):
    """What `ps` shows of the browser, and what the terminal shows, lets nobody in."""
    opened = tmp_path / "browser"
    opened.write_text(BROWSER)
    opened.chmod(0o755)
    places = {**os.environ, "BROWSER": f"{opened} %s", "HOME": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    studio = started([sys.executable, "-m", "discreet", "open", str(folder)], env=places)
    try:
        said = studio.stdout.readline() + studio.stdout.readline()
        address, entrance = re.search(r"open at (\S+), for the browser that opens (\S+)", said).groups()
        assert Path(entrance).stat().st_mode & 0o777 == 0o600
        page = Path(entrance).read_text()
        token = re.search(r'name="token" value="(\S{40,})"', page)[1]
        while not (argv := tmp_path / "browser.argv").exists() or not argv.read_text():
            assert studio.poll() is None
        assert argv.read_text().split() == [Path(entrance).as_uri()]
        assert token not in said + argv.read_text()
        assert token not in Path(f"/proc/{studio.pid}/cmdline").read_text()
        with httpx2.Client(base_url=address) as client:
            assert client.get("/").status_code == 403
            assert client.post("/enter", data={"token": token}, headers={"origin": "null"}).status_code == 200
            assert client.get("/").status_code == 200
        assert not Path(entrance).exists()
    finally:
        studio.send_signal(signal.SIGINT)
        out, err = told(studio, status=130)
    assert token not in out + err


def test_connections_that_bring_no_whole_request_are_closed(folder, monkeypatch):
    monkeypatch.setattr("discreet.studio.app._PATIENCE", 0.05)
    monkeypatch.setattr("discreet.studio.guard._PATIENCE", 0.05)
    server = studio_server(folder)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    where = ("127.0.0.1", int(server.address.rpartition(":")[2]))
    host = f"Host: 127.0.0.1:{where[1]}\r\n"
    token = re.search(r'name="token" value="(\S+)"', server.entrance.read_text())[1]
    try:
        cookie = httpx2.post(f"{server.address}/enter", data={"token": token}).headers["set-cookie"].partition(";")[0]
        ours = f"{host}Cookie: {cookie}\r\nX-Csrf: {server.config.app.csrf}\r\nContent-Length: 100\r\n\r\n"
        for sent in (
            f"POST /upload?name=x.csv HTTP/1.1\r\n{ours}a,b",
            f"POST /add HTTP/1.1\r\n{ours}ask=",
            "",
            "GET / HT",
            f"GET / HTTP/1.1\r\n{host}",
            f"POST /enter HTTP/1.1\r\n{host}Content-Length: 100\r\n\r\ntoken=",
        ):
            with socket.create_connection(where, timeout=LIMIT) as one:
                one.sendall(sent.encode())
                while one.recv(65536):
                    pass  # until the studio closes it
    finally:
        server.should_exit = True
        thread.join(LIMIT)
    assert not server.entrance.exists()
    assert not list(folder.glob("*x.csv*"))


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", f"127.0.0.1.evil.example:{PORT}", "localhost:1", ""])
def test_other_hosts_are_refused(browser, host):
    assert browser.client.get("/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize(
    "headers", [{"origin": "http://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}]
)
def test_requests_from_other_pages_are_refused(browser, folder, headers):
    before = (folder / "people.toml").read_text()
    assert browser.post("/add?plan=people.toml", {"ask": "count"}, **headers).status_code == 403
    assert browser.client.get("/plan?plan=people.toml", headers=headers).status_code == 403
    assert (folder / "people.toml").read_text() == before


@pytest.mark.parametrize(
    "path",
    [
        "/add",
        "/change",
        "/remove",
        "/undo",
        "/text",
        "/run",
        "/approve",
        "/declare",
        "/new",
        "/tour",
        "/bundle",
        "/anchor",
    ],
)
def test_changes_need_the_token_of_our_pages(browser, folder, path):
    before = (folder / "people.toml").read_text()
    for form in ({}, {"csrf": "guessed"}, {"csrf": ""}):
        answer = browser.client.post(f"{path}?plan=people.toml", data=form)
        assert answer.status_code in (403, 413)
    assert (folder / "people.toml").read_text() == before
    assert not list(folder.glob("*.ledger"))


def test_large_requests_are_refused(folder):
    browser = Browser(folder, most_upload=1000)
    assert browser.post("/text?plan=people.toml", {"text": "x" * 3_000_000}).status_code == 413
    headers = {"x-csrf": browser.guard.csrf}
    assert browser.client.post("/upload?name=big.csv", content=b"x" * 1001, headers=headers).status_code == 413
    endless = browser.client.post("/upload?name=big.csv", content=iter([b"x" * 600] * 10), headers=headers)
    assert endless.status_code == 413
    assert not list(folder.glob("*big*"))


def test_files_are_dropped_into_the_folder_and_nowhere_else(browser, folder):
    headers = {"x-csrf": browser.guard.csrf}
    body = b"age,sex\n1,f\n"
    for name, kept in (
        ("more.csv", "more.csv"),
        ("more.csv", "more-2.csv"),
        ("../../up.csv", "up.csv"),
        ("a/b\\c.csv", "c.csv"),
    ):
        answer = browser.client.post("/upload", params={"name": name}, content=body, headers=headers)
        assert answer.text == f"/new?file={kept}"
        assert (folder / kept).read_bytes() == body
    for name in ("run.sh", "plan.toml", "", ".csv/.."):
        assert browser.client.post("/upload", params={"name": name}, content=body, headers=headers).status_code == 400
    assert browser.client.post("/upload?name=x.csv", content=body).status_code == 403
    assert sorted(one.name for one in folder.parent.iterdir()) == ["secret.csv", "secret.toml", "work"]


@pytest.mark.parametrize(
    "name",
    ["../secret.toml", "..%2Fsecret.toml", "/etc/passwd", "people.csv", "", "no.toml", "x%00.toml", "link.toml", "."],
)
def test_plans_outside_of_the_folder_are_refused(browser, folder, name):
    os.symlink(folder.parent / "secret.toml", folder / "link.toml")
    for page in ("plan", "run", "text", "review", "ledger", "learn", "download"):
        answer = browser.get(f"/{page}?plan={name}")
        assert answer.status_code == 400
        assert "north" not in answer.text


@pytest.mark.parametrize("name", ["../secret.csv", "/etc/hosts.csv", "../../etc/passwd", "people.toml", "no.csv"])
def test_data_outside_of_the_folder_is_refused(browser, name):
    assert browser.get(f"/new?file={name}").status_code == 400


def test_results_outside_of_the_report_are_refused(browser):
    for what in ("../people.csv", "people.csv", "..", "", "/etc/passwd", "report.html"):
        assert browser.get(f"/download?plan=people.toml&what={what}").status_code == 400
    assert browser.post("/anchor?plan=people.toml", {"file": "../heads.txt"}).status_code == 400


def test_addresses_of_files_are_no_way_around_the_folder(browser):
    for address in ("duckdb:///etc/passwd", "sqlite:///x.db", "/etc/passwd", "file:///etc/passwd"):
        assert browser.post("/connect", {"address": address}).status_code == 400


def test_the_address_of_a_database_is_in_no_address_of_a_page(browser, monkeypatch):
    """It may hold a password, and addresses of pages are in the history of the browser."""
    secret = "postgresql://me:SECRET@127.0.0.1:1/base"
    asked = []
    monkeypatch.setattr(
        "discreet.studio.start_pages.source_tables", lambda address: asked.append(address) or ["buyers"]
    )
    assert browser.get(f"/new?address={secret}").status_code == 400  # a file must be named
    assert asked == []
    assert re.search(r'<form action="/connect" method="post"[^§]*name="address"', browser.get("/").text)
    page = browser.post("/connect", {"address": secret})
    assert asked == [secret]
    assert "SECRET" not in str(page.url)
    assert '<button name="table" value="buyers">' in page.text
    assert "SECRET" not in "".join(re.findall(r'(?:href|action)="[^"]*"', page.text))


OUTSIDE = {
    "beside": 'path = "../secret.csv"',
    "absolute": 'path = "{secret}"',
    "pattern": 'path = "../*.csv"',
    "link": 'path = "link.csv"',
    "folder": 'path = "parts.csv"',
    "database": 'address = "duckdb://{base}"\ntable = "t"',
}


@pytest.mark.parametrize("kind", OUTSIDE)
def test_a_plan_gets_nothing_from_outside_of_the_folder(browser, folder, kind):
    outside = folder.parent
    os.symlink(outside / "secret.csv", folder / "link.csv")
    (folder / "parts.csv").mkdir()
    os.symlink(outside / "secret.csv", folder / "parts.csv" / "one.csv")
    with duckdb.connect(str(outside / "base.duckdb")) as base:
        base.execute("create table t as select 1 as SECRETCOLUMN")
    (outside / "secret.csv").write_text("SECRETCOLUMN,b\n1,2\n")
    source = OUTSIDE[kind].format(secret=outside / "secret.csv", base=outside / "base.duckdb")
    (folder / "people.toml").write_text(PLAN.replace('path = "people.csv"', source))
    for page in ("plan", "text", "review", "run", "profile", "ledger", "learn"):
        assert "SECRETCOLUMN" not in browser.get(f"/{page}?plan=people.toml").text, page
    assert "outside of the folder" in browser.get("/plan?plan=people.toml").text
    seen = digest_of((folder / "people.toml").read_text())
    for path, form in (("run", {"seen": seen}), ("profile", {"seen": seen, "amount": "0.1"})):
        answer = browser.post(f"/{path}?plan=people.toml", form)
        assert answer.status_code == 400
        assert "outside of the folder" in answer.text
    assert not list(outside.rglob("*.ledger"))


def test_a_plan_writes_nothing_outside_of_the_folder(browser, folder):
    (folder / "people.toml").write_text(PLAN + '[output]\ndirectory = "../elsewhere"\n')
    answer = browser.post("/run?plan=people.toml", {"seen": digest_of((folder / "people.toml").read_text())})
    assert (answer.status_code, "outside of the folder" in answer.text) == (400, True)
    assert not (folder.parent / "elsewhere").exists()
    (folder / "people.toml").write_text(PLAN)
    (folder / "people-report").mkdir()
    os.symlink(folder.parent / "secret.csv", folder / "people-report" / "report.md")
    answer = browser.get("/download?plan=people.toml&what=report.md")
    assert (answer.status_code, "outside of the folder" in answer.text) == (400, True)


def test_dropped_files_are_private_and_their_names_fit(browser, folder):
    headers = {"x-csrf": browser.guard.csrf}
    before = os.umask(0)  # what is usual here must not matter
    try:
        for name in ("people.csv", "x" * 400 + ".csv", "ä" * 400 + ".csv.gz", "€" * 90 + "." + "y" * 400 + ".parquet"):
            answer = browser.client.post("/upload", params={"name": name}, content=b"a\n1\n", headers=headers)
            assert answer.status_code == 200, answer.text
            kept = folder / unquote(answer.text.partition("=")[2])
            assert kept.stat().st_mode & 0o777 == 0o600
            assert kept.name.endswith(name[-4:])
    finally:
        os.umask(before)
    assert not [one for one in folder.iterdir() if one.name.startswith(".")]


def test_a_file_that_cannot_be_kept_leaves_nothing(browser, folder, monkeypatch):
    def full(self, *given):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "rename", full)
    headers = {"x-csrf": browser.guard.csrf}
    answer = browser.client.post("/upload?name=x.csv", content=b"a\n1\n", headers=headers)
    assert (answer.status_code, "the disk is full" in answer.text) == (400, True)
    assert not list(folder.glob("*x.csv*"))
    for page in ("plan", "new"):
        assert browser.get(f"/{page}?plan={'x' * 5000}.toml&file={'x' * 5000}.csv").status_code == 400


def test_nothing_is_wrong_before_anything_was_typed(browser, folder):
    head, _, release = PLAN.partition("[schema.columns.age]")
    (folder / "people.toml").write_text(head + release[release.index("[[release]]") :])
    red = re.compile(r'class="problem"[^>]*>[^<]')
    assert not red.search(browser.post("/declare?plan=people.toml", {"column": "age", "as": "usual"}).text)
    page = browser.post("/add?plan=people.toml", {"ask": "mean", "column": "age"}).text
    assert not red.search(page)
    assert "Give the lowest age that can occur." in page
    place = ["schema", "columns", "age"]
    assert "Give the highest age that can occur." in browser.change("people.toml", [*place, "low"], "200,000", "").text
    answer = browser.change("people.toml", [*place, "high"], "100", "").text
    assert "The lowest age must be below the highest." in answer
    answer = browser.change("people.toml", [*place, "low"], "0", "200,000").text
    assert not red.search(answer)
    assert "Mean age" in answer
    data = tomllib.loads((folder / "people.toml").read_text())
    assert data["schema"]["columns"]["age"] == {"low": 0, "high": 100}
    assert data["release"][1]["column"] == "age"


def test_codes_bands_missing_values_words_and_filters_are_typed_in_words(browser, folder):
    plan = folder / "people.toml"
    place = ["schema", "columns", "sex"]
    page = browser.post("/declare?plan=people.toml", {"column": "sex", "as": "codes"}).text
    assert "Give every code of sex with its word." in page
    browser.change("people.toml", [*place, "labels"], "f = women, m = men", "")
    browser.change("people.toml", [*place, "missing"], "99, N", "")
    browser.change("people.toml", [*place, "label"], "Sex", "")
    browser.change("people.toml", ["schema", "columns", "income", "measured_in"], "€", "")
    page = browser.post("/declare?plan=people.toml", {"column": "age", "as": "grouped"}).text
    assert "Give the ends of the bands of age group." in page
    group = ["schema", "columns", "age group"]
    browser.change("people.toml", [*group, "bands"], "0, 18, 65, 120", "")
    browser.change("people.toml", [*group, "categories"], "young, middle, 65+", "")
    browser.post("/add?plan=people.toml", {"ask": "table"})
    browser.change("people.toml", ["release", 1, "columns"], "sex\nage group", "age group")
    browser.change("people.toml", ["release", 1, "where"], "income > 10", "")
    page = browser.get("/plan?plan=people.toml").text
    assert "women, men" in page
    assert "young, middle, 65+" in page
    assert re.search(r'class="problem"[^>]*>[^<]', page) is None
    data = tomllib.loads(plan.read_text())
    assert data["schema"]["columns"]["sex"] == {
        "labels": {"f": "women", "m": "men"},
        "missing": ["99", "N"],
        "label": "Sex",
    }
    assert data["schema"]["columns"]["age group"]["value"] == '"age"'
    assert data["release"][1]["where"] == "income > 10"


def test_the_tour_is_on_made_up_people_and_says_a_word_at_each_step(browser, folder):
    page = browser.post("/tour").text
    assert "made-up survey" in page
    assert page.count('class="todo">') >= 5
    assert "± " in page  # its first question is planned
    assert "any one person" in page
    data = tomllib.loads((folder / "tour.toml").read_text())
    assert data["source"]["path"] == "tour.csv"
    assert "tour-2.toml" in str(browser.post("/tour").url)
    assert "made-up survey" not in browser.get("/plan?plan=people.toml").text
    assert not list(folder.glob("*.ledger"))


def test_a_question_says_what_it_asks_and_may_become_another(browser, folder):
    mean = '[[release]]\nname = "m"\nask = "mean"\ncolumn = "income"\nexpected_mean = 500\nexpected_rows = 600\n'
    share = '[[release]]\nname = "s"\nask = "proportion"\ncolumn = "sex"\nlabel = "f"\nepsilon = 0.1\n'
    (folder / "people.toml").write_text(PLAN + mean + "epsilon = 0.1\n" + share)
    page = re.sub(
        r'<select[^>]*aria-label="(.*?)".*?</select>', r"[\1]", browser.get("/plan?plan=people.toml").text, flags=re.S
    )
    said = [" ".join(re.sub("<.*?>", " ", one).split()) for one in page.split('<div class="say">')[1:]]
    assert said[0].startswith("Number of rows by nothing")
    assert said[1].startswith("What is the [which number] of [column] by nothing")
    assert said[2].startswith("Share of rows with [column] = [label] by nothing")
    browser.change("people.toml", ["release", 1, "ask"], "median", "mean")
    now = tomllib.loads((folder / "people.toml").read_text())["release"][1]
    assert now == {"name": "m", "ask": "median", "column": "income", "expected_rows": 600, "epsilon": 0.1}
    assert "Median income" in browser.get("/plan?plan=people.toml").text


def test_a_preview_is_made_up_and_spends_nothing(browser, folder):
    mean = '[[release]]\nask = "mean"\ncolumn = "income"\nepsilon = 0.9\n'
    (folder / "people.toml").write_text(PLAN + mean)
    (folder / "people.csv").unlink()  # what is not there is not read
    page = browser.get("/preview?plan=people.toml").text
    assert "All of this is made up." in page
    assert "invented 1,000 rows" in page
    place = ["scenario", "columns", "income", "mean"]
    sent = {json.dumps([*place[:3], key]): text for key, text in (("mean", "900"), ("sd", "5"))}
    sent |= {f"was:{name}": "" for name in sent}
    page = browser.post("/change?plan=people.toml&to=preview", sent).text
    [middle] = re.findall(r"The mean income is (\d+)", page)
    assert 850 < int(middle) < 950
    assert tomllib.loads((folder / "people.toml").read_text())["scenario"]["rows"] == 1000
    assert not list(folder.glob("*.ledger"))


def test_the_panel_counts_what_is_to_be_corrected(browser, folder):
    (folder / "people.toml").write_text(PLAN.replace("high = 1000", 'high = "4o"'))
    page = browser.get("/plan?plan=people.toml").text
    found = re.search(r'1 answer to correct: <a href="#(\w+)">highest value</a>', page)
    assert f'id="{found[1]}"' in page


def test_a_newcomer_gets_a_plan_from_a_header_alone(browser, folder):
    (folder / "odd.csv").write_bytes("who;höhe\n1;25\n".encode("cp1252"))
    page = browser.get("/new?file=odd.csv&encoding=cp1252").text
    assert "one field with" in page
    assert "höhe" in browser.get("/new?file=odd.csv&encoding=cp1252&delimiter=%3B").text
    form = {
        "file": "odd.csv",
        "delimiter": ";",
        "decimal": ",",
        "thousands": ".",
        "symbols": "€ %",
        "encoding": "cp1252",
        "unit": "who",
        "total": "3",
        "epsilon": "0.5",
    }
    assert browser.post("/new", form).status_code == 200
    plan = tomllib.loads((folder / "odd.toml").read_text())
    assert plan["source"] == {
        "path": "odd.csv", "delimiter": ";", "decimal": ",", "thousands": ".", "symbols": "€ %", "encoding": "cp1252",
    }  # fmt: skip
    assert plan["schema"]["unit"] == {"column": "who", "total": 3}
    assert PlanFile.read(folder / "odd.toml").budget == PureDP(0.5)


def test_a_database_is_chosen_by_its_table(browser, folder):
    with duckdb.connect(str(folder / "shop.duckdb")) as base:
        base.execute("create table buyers as select 1 as age")
    page = browser.get("/new?file=shop.duckdb").text
    assert "buyers" in page
    assert browser.post("/new", {"file": "shop.duckdb", "table": "buyers"}).status_code == 200
    assert tomllib.loads((folder / "buyers.toml").read_text())["source"]["table"] == "buyers"
    browser.post("/run?plan=buyers.toml", {"seen": _seen(browser, "buyers.toml")})
    assert _finished(browser, "buyers.toml")


def _seen(browser, plan: str) -> str:
    return re.search(r'name="seen" value="(\w+)"', browser.get(f"/run?plan={plan}").text)[1]


def _finished(browser, plan: str) -> str:
    for _ in range(600):
        text = browser.get(f"/run?plan={plan}").text
        if "every answer is stored" in text:
            return text
        assert 'class="problem"' not in text, text
        (run,) = [one for path, one in _desk_runs(browser) if path.name == plan] or [None]
        if run is not None and run.thread is not None:
            run.thread.join(1.0)
    raise AssertionError("the run did not end")


def _desk_runs(browser):
    handler = browser.guard.app.app.routes[0].endpoint
    return list(handler.__closure__[0].cell_contents.runs._runs.items())


def test_changes_keep_comments_and_are_undone(browser, folder):
    plan = folder / "people.toml"
    answer = browser.change("people.toml", ["schema", "columns", "age", "high"], "120", "100")
    assert answer.status_code == 200
    assert "± " in answer.text
    text = plan.read_text()
    assert text == PLAN.replace("high = 100\nsource", "high = 120\nsource")
    browser.post("/add?plan=people.toml", {"ask": "mean"})
    browser.post("/declare?plan=people.toml", {"column": "sex", "as": "none"})
    assert plan.read_text().startswith("# written by hand\n")
    for _ in range(3):
        browser.post("/undo?plan=people.toml")
    assert plan.read_text() == PLAN


def test_a_stale_tab_changes_only_what_was_typed_in_it(browser, folder):
    plan = folder / "people.toml"
    plan.write_text(PLAN.replace("epsilon = 4.0", "epsilon = 3.0"))  # an editor, or another tab
    stale = {
        json.dumps(["budget", "epsilon"]): "4.0", "was:" + json.dumps(["budget", "epsilon"]): "4.0",
        json.dumps(["title"]): "Mine", "was:" + json.dumps(["title"]): "People",
    }  # fmt: skip
    assert browser.post("/change?plan=people.toml", stale, script=True).status_code == 200
    data = tomllib.loads(plan.read_text())
    assert (data["budget"]["epsilon"], data["title"]) == (3.0, "Mine")


def test_two_tabs_on_one_field_conflict_and_nothing_is_lost(browser, folder):
    browser.change("people.toml", ["title"], "First", "People")
    answer = browser.change("people.toml", ["title"], "Second", "People")
    assert "changed elsewhere" in answer.text
    assert "First" in answer.text
    assert tomllib.loads((folder / "people.toml").read_text())["title"] == "First"
    page = browser.change("people.toml", ["title"], "Second", "People", script=False)
    assert page.status_code == 400
    assert "Second" in page.text


def test_the_text_view_conflicts_by_digest(browser, folder):
    seen = re.search(r'name="seen" value="(\w+)"', browser.get("/text?plan=people.toml").text)[1]
    (folder / "people.toml").write_text(PLAN + "# beside\n")
    answer = browser.post("/text?plan=people.toml", {"text": "mine", "seen": seen})
    assert "changed elsewhere" in answer.text
    assert ">\nmine</textarea>" in answer.text
    assert (folder / "people.toml").read_text() == PLAN + "# beside\n"


def test_the_page_follows_an_editor(browser, folder):
    seen = re.search(r'id="seen" name="seen" value="(\w+)"', browser.get("/plan?plan=people.toml").text)[1]
    assert "hx-trigger" not in browser.get(f"/pulse?plan=people.toml&seen={seen}").headers
    (folder / "people.toml").write_text(PLAN.replace("People", "Persons"))
    assert browser.get(f"/pulse?plan=people.toml&seen={seen}").headers["hx-trigger"] == "plan-changed"
    assert "<h1>Persons</h1>" in browser.get("/plan?plan=people.toml").text


def test_what_is_wrong_stays_as_typed_and_is_said_at_its_place(browser, folder):
    browser.post("/add?plan=people.toml", {"ask": "mean"})
    answer = browser.change("people.toml", ["schema", "columns", "income", "high"], "a lot", "1000")
    assert "“a lot” is not a number" in answer.text
    assert tomllib.loads((folder / "people.toml").read_text())["schema"]["columns"]["income"]["high"] == "a lot"
    page = browser.get("/plan?plan=people.toml").text
    assert 'value="a lot"' in page
    assert "± " in page
    assert browser.get("/run?plan=people.toml").status_code == 400
    answer = browser.change("people.toml", ["schema", "columns", "income", "high"], "500", "a lot")
    assert "a lot" not in answer.text


@pytest.mark.parametrize(
    "text",
    ["", "= =", "[[release", "title = 1", "release = 3\n[source]\n", "[schema]\ncolumns = 7", '[budget]\nepsilon="x"'],
)
def test_a_broken_file_has_pages_too(browser, folder, text):
    (folder / "people.toml").write_text(text)
    for page in ("plan", "text"):
        assert browser.get(f"/{page}?plan=people.toml").status_code == 200
    for page in ("review", "run", "ledger", "learn"):
        assert browser.get(f"/{page}?plan=people.toml").status_code == 400
    assert browser.post("/add?plan=people.toml", {"ask": "count"}).status_code in (200, 400)


HOSTILE = "<script>alert(1)</script>\"'>{{7*7}}é\u202e"


def test_hostile_names_are_text(browser, folder):
    (folder / "people.csv").write_text('"' + HOSTILE.replace('"', '""') + '",age\n1,2\n')
    browser.post("/declare?plan=people.toml", {"column": HOSTILE, "as": "labels"})
    browser.change("people.toml", ["schema", "columns", HOSTILE, "categories"], "<b>, 2", "")
    browser.change("people.toml", ["title"], HOSTILE, "People")
    browser.post("/add?plan=people.toml", {"ask": "table"})
    browser.change("people.toml", ["release", 1, "title"], HOSTILE, "")
    browser.change("people.toml", ["release", 1, "columns"], HOSTILE, "region\nsex")
    data = tomllib.loads((folder / "people.toml").read_text())
    assert data["title"] == HOSTILE
    assert data["release"][1]["columns"] == [HOSTILE]
    assert data["schema"]["columns"][HOSTILE]["categories"] == ["<b>", 2]
    for page in (
        "/",
        "/plan?plan=people.toml",
        "/text?plan=people.toml",
        "/review?plan=people.toml",
        "/run?plan=people.toml",
    ):
        text = browser.get(page).text
        assert "<script>alert" not in text
        assert "<b>" not in text
        assert "49" not in re.findall(r"\{\{.*?\}\}", text)


ALONE = ("running_total",)
"""Its charge is in μ, which no plan adds to a δ that another release states."""


def add(browser, folder: Path, asks: list[str]) -> None:
    """Add questions by the forms of the gallery alone, with the settings that it suggests, at ε = 0.1 each."""
    for ask in asks:
        assert browser.post("/add?plan=people.toml", {"ask": ask}, follow=False).status_code == 303
    plan = folder / "people.toml"
    head, release, rest = plan.read_text().partition("[[release]]")
    plan.write_text(head + release + re.sub(r"^epsilon = \S+$", "epsilon = 0.1", rest, flags=re.MULTILINE))
    draft = drafted(plan.read_text(), plan)
    assert draft.problems == {}
    assert set(draft.plans) == set(range(len(asks) + 1))


def test_every_question_is_added_and_planned(browser, folder):
    add(browser, folder, [one.ask for one in gallery() if one.ask not in ALONE])


@pytest.mark.parametrize(
    "asks",
    [
        ["proportion", "mean", "regression", "compare_means", "usable_values"],
        pytest.param(
            [one.ask for one in gallery() if one.ask not in ALONE], marks=pytest.mark.deep, id="every question"
        ),
    ],
)
def test_questions_are_run_and_their_answers_taken_away(browser, folder, asks):
    plan = folder / "people.toml"
    add(browser, folder, asks)
    browser.post("/run?plan=people.toml", {"seen": _seen(browser, "people.toml")})
    page = _finished(browser, "people.toml")
    assert page.count('<section class="res" aria-labelledby="found-') == len(asks) + 1
    assert page.count("<table>") >= len(asks)
    assert "people-report" not in browser.get("/").text  # what was published is not offered as data
    with Ledger(folder / "people.ledger", read_only=True) as ledger:
        spent = ledger.spent()
    for what in ("report.html", "methods.html", "csv", "xlsx", "results.json", "script.py", "notebook.ipynb"):
        assert browser.get(f"/download?plan=people.toml&what={what}").status_code == 200
    assert "sandbox" in browser.get("/download?plan=people.toml&what=report.html").headers["content-security-policy"]
    exec(compile(python_script(PlanFile.read(plan)), "script.py", "exec"), {})  # asks all of it again, under its names
    assert len(json.loads(notebook(PlanFile.read(plan)))["cells"]) == len(asks) + 5
    with Ledger(folder / "people.ledger", read_only=True) as ledger:
        assert ledger.spent() == spent
    assert "people.ledger" in browser.get("/ledger?plan=people.toml&verify=1").text
    browser.post("/anchor?plan=people.toml", {"file": "heads.txt"})
    assert len((folder / "heads.txt").read_text().split()) == 3


def test_people_with_several_rows_are_protected_whole(browser, folder):
    rows = ["who,age", *(f"{person},{20 + person % 50}" for person in range(300) for _ in range(3))]
    (folder / "visits.csv").write_text("\n".join(rows))
    browser.post("/new", {"file": "visits.csv", "unit": "who", "total": "2", "epsilon": "2"})
    page = browser.get("/plan?plan=visits.toml").text
    assert "At most 2 rows of each count" in page
    browser.post("/declare?plan=visits.toml", {"column": "age", "as": "number"})
    browser.change("visits.toml", ["schema", "columns", "age", "low"], "0", "")
    browser.change("visits.toml", ["schema", "columns", "age", "high"], "100", "")
    browser.post("/add?plan=visits.toml", {"ask": "mean"})
    browser.change("visits.toml", ["release", 1, "expected_rows"], "600", "")
    assert drafted((folder / "visits.toml").read_text(), folder / "visits.toml").problems == {}
    browser.post("/run?plan=visits.toml", {"seen": _seen(browser, "visits.toml")})
    assert "Number of people" in _finished(browser, "visits.toml")
    with Ledger(folder / "visits.ledger", read_only=True) as ledger:
        assert str(ledger.statement().unit) == "who"


def test_the_gallery_knows_every_question():
    listed = {one.ask for one in gallery()}
    assert set(asked()) - listed == {"profile"}
    assert all(one.answers and all(setting.words for setting in one.settings) for one in gallery())
    assert suggested("mean", {}) == {}


def test_columns_are_profiled_for_a_price_that_is_shown_first(browser, folder):
    plan = folder / "people.toml"
    head, _, release = PLAN.partition("[schema.columns.age]")
    plan.write_text(head + release[release.index("[[release]]") :])
    page = browser.get("/profile?plan=people.toml").text
    assert "age, income, region, sex, city" in page
    assert "ε = 0.8" in page
    assert not (folder / "people.ledger").exists()
    seen = re.search(r'name="seen" value="(\w+)"', page)[1]
    assert browser.post("/profile?plan=people.toml", {"seen": "old", "amount": "2"}).status_code == 400
    assert browser.post("/profile?plan=people.toml", {"seen": seen, "amount": "2"}).status_code == 200
    data = tomllib.loads(plan.read_text())
    assert data["schema"]["columns"]["age"]["low"] >= 0
    assert "released privately" in data["schema"]["columns"]["income"]["source"]
    assert plan.read_text().startswith("# written by hand")
    with Ledger(folder / "people.ledger", read_only=True) as ledger:
        assert ledger.spent().epsilon <= 2.0
    assert drafted(plan.read_text(), plan).problems == {}
    for wrong in ("much", "-1", "0", "100"):
        assert browser.get(f"/profile?plan=people.toml&amount={wrong}").status_code == 400 or wrong == "100"


def test_pages_of_a_plan_wait_for_its_changes():
    order = []

    async def ask(app, method: str, plan: str, path: str = "/run") -> None:
        scope = {"type": "http", "method": method, "path": path, "query_string": f"plan={plan}".encode()}
        await app(scope, None, None)

    async def main() -> None:
        written = asyncio.Event()

        async def slow(scope, receive, send) -> None:
            if scope["method"] == "POST":
                await written.wait()
            order.append((scope["method"], scope["path"], scope["query_string"]))
            if order[-1][0] == "POST":
                raise DiscreetError("it was refused")

        app = Turns(slow, at_once=("/pulse",))
        asked = (("POST", "a"), ("GET", "a"), ("GET", "b"), ("GET", "a", "/pulse"))
        waiting = asyncio.gather(*(ask(app, *one) for one in asked), return_exceptions=True)
        while len(order) < 2:
            await asyncio.sleep(0)
        for _ in range(100):  # more turns than a page needs that does not wait
            await asyncio.sleep(0)
        written.set()
        await waiting
        await ask(app, "GET", "a")

    asyncio.run(main())
    assert order == [
        ("GET", "/run", b"plan=b"), ("GET", "/pulse", b"plan=a"),
        ("POST", "/run", b"plan=a"), ("GET", "/run", b"plan=a"), ("GET", "/run", b"plan=a"),
    ]  # fmt: skip


def test_a_run_is_refused_where_the_plan_changed_since_its_price_was_shown(browser, folder):
    seen = _seen(browser, "people.toml")
    (folder / "people.toml").write_text(PLAN.replace("epsilon = 0.1", "epsilon = 3.9"))
    answer = browser.post("/run?plan=people.toml", {"seen": seen})
    assert answer.status_code == 400
    assert "Nothing was spent" in answer.text
    assert not (folder / "people.ledger").exists()


def test_a_plan_that_costs_too_much_is_not_run(browser, folder):
    (folder / "people.toml").write_text(PLAN.replace("epsilon = 0.1", "epsilon = 5"))
    page = browser.get("/run?plan=people.toml").text
    assert "A run would be refused" in page
    assert "disabled" in page
    browser.post("/run?plan=people.toml", {"seen": _seen(browser, "people.toml")})
    assert not (folder / "people.ledger").exists() or Ledger(folder / "people.ledger").events() == ()


def test_plans_are_approved_with_a_key_and_bundled(browser, folder, tmp_path, monkeypatch):
    monkeypatch.setattr("discreet.studio.publish_pages.default_directory", lambda: tmp_path / "keys")
    key = new_key("officer", "a long password", tmp_path / "keys")
    sourced = re.sub(r"^(high = \d+|categories = .*|unlisted = true)$", r'\1\nsource = "codebook"', PLAN, flags=re.M)
    sourced = sourced.replace('source = "codebook"\nsource = "the questionnaire"', 'source = "codebook"')
    rule = f'\n[ledger.approvals]\nneed = 1\nkeys = {{ officer = "{key.public}" }}\n\n[budget]'
    (folder / "people.toml").write_text(sourced.replace("\n[budget]", rule))
    page = browser.get("/review?plan=people.toml")
    seen = re.search(r'name="seen" value="(\w+)"', page.text)[1]
    assert "Not enough people have approved" in browser.get("/run?plan=people.toml").text
    browser.post("/run?plan=people.toml", {"seen": seen})
    assert not Path(folder / "people-report" / "results.json").exists()
    wrong = browser.post("/approve?plan=people.toml", {"seen": seen, "by": "officer", "password": "guess guess"})
    assert wrong.status_code == 400
    assert "guess guess" not in wrong.text
    assert (
        browser.post(
            "/approve?plan=people.toml", {"seen": "old", "by": "officer", "password": "a long password"}
        ).status_code
        == 400
    )
    said = browser.post("/approve?plan=people.toml", {"seen": seen, "by": "officer", "password": "a long password"})
    assert "officer approves plan" in said.text
    browser.post("/run?plan=people.toml", {"seen": seen})
    _finished(browser, "people.toml")
    done = browser.post("/bundle?plan=people.toml", {"by": "officer", "password": "a long password"})
    assert "people.bundle" in done.text
    assert (folder / "people.bundle").exists()
    assert browser.post("/bundle?plan=people.toml", {"by": "../officer", "password": "x"}).status_code == 400


def test_a_document_changes_nothing_but_what_it_is_told(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    document = TomlDocument(path)
    document.change({("release", 1): {"name": "new", "ask": "mean", "bins": {"low": 0, "high": 1}}})
    document.change({("schema", "columns", 'a "b".c\n'): {"categories": []}})
    document.change({("release", 0): GONE, ("schema", "unit", "column"): "city"})
    data = tomllib.loads(path.read_text())
    assert data["release"] == [{"name": "new", "ask": "mean", "bins": {"low": 0, "high": 1}}]
    assert data["schema"]["columns"]['a "b".c\n'] == {"categories": []}
    document.change({("release", 0): GONE})
    document.change({("release", 0): {"ask": "count"}})
    assert tomllib.loads(path.read_text())["release"] == [{"ask": "count"}]
    with pytest.raises(Conflict):
        document.change({("title",): "x"}, was=lambda place, now: False)
    while document.undo():
        pass
    assert path.read_text() == PLAN


def test_a_folder_that_cannot_be_written_is_told(browser, folder, monkeypatch):
    def refuse(path, content):
        raise PermissionError

    monkeypatch.setattr("discreet.publish.files._written_whole", refuse)
    answer = browser.post("/add?plan=people.toml", {"ask": "count"})
    assert answer.status_code == 400
    assert "cannot be written" in answer.text
    assert (folder / "people.toml").read_text() == PLAN


def test_undo_never_crosses_what_others_wrote(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    document = TomlDocument(path)
    document.change({("title",): "mine"})
    path.write_text(path.read_text() + "# theirs\n")
    with pytest.raises(Conflict):
        document.undo()
    document.change({("title",): "mine again"})
    assert document.undo()
    assert not document.undo()
    assert path.read_text().endswith("# theirs\n")


def test_a_long_run_tells_how_far_it_is(browser, folder, monkeypatch):
    told, going, seen = threading.Event(), threading.Event(), _seen(browser, "people.toml")

    class Slow(Job):
        def run(self, *, progress, **settings):
            progress(RunProgress("rows", 1, 2, True))
            told.set()
            going.wait(LIMIT)
            return super().run(progress=progress, **settings)

    monkeypatch.setattr("discreet.studio.desk.Job", Slow)
    browser.post("/run?plan=people.toml", {"seen": seen})
    assert told.wait(LIMIT)
    assert "1 of 1 released; last: rows" in browser.get("/run?plan=people.toml").text
    assert "Running" in browser.get("/progress?plan=people.toml").text
    assert len(_desk_runs(browser)) == 1
    going.set()
    _finished(browser, "people.toml")
    assert browser.get("/progress?plan=people.toml").headers["hx-refresh"] == "true"


def test_slides_are_one_step_to_undo(tmp_path, monkeypatch):
    monkeypatch.setattr("discreet.studio.toml_document._TOGETHER", math.inf)  # seconds
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    document = TomlDocument(path)
    for epsilon in (1.0, 1.5, 2.0, 2.5):
        document.change({("budget", "epsilon"): epsilon})
    assert document.undo()
    assert path.read_text() == PLAN


values = {
    "number": st.integers(-(10**9), 10**9) | st.floats(-1e9, 1e9),
    "numbers": st.lists(st.integers(-999, 999) | st.floats(-1e6, 1e6), min_size=1),
    "labels": st.lists(st.text(min_size=1) | st.integers(0, 99) | st.booleans(), min_size=1),
    "columns": st.lists(
        st.text(st.characters(exclude_characters="\n\r", codec="utf-8"), min_size=1).filter(str.strip), min_size=1
    ),
    "flag": st.booleans(),
    "toml": st.dictionaries(st.text(min_size=1), st.integers(0, 9) | st.booleans(), min_size=1),
}


@pytest.mark.parametrize("kind", values)
def test_what_a_field_shows_is_what_it_means(kind):
    @given(values[kind])
    def shown_and_typed(value):
        text = shown_text(kind, value)
        assert typed_value(kind, text) == value
        assert shown_text(kind, typed_value(kind, text)) == text

    shown_and_typed()


@given(st.text())
def test_any_text_can_be_typed(text):
    for kind in ("number", "numbers", "labels", "label", "toml", "flag", "bound", "columns", "text"):
        value = typed_value(kind, text)
        assert value is GONE or isinstance(shown_text(kind, value), str)
    place_of_name(text)


def test_folders_list_what_can_be_opened(folder):
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "x.csv").write_text("a\n")
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "y.parquet").write_text("")
    assert Folder(folder).sources() == ["people.csv", "deep/er/y.parquet"]
    with pytest.raises(DiscreetError):
        Folder(folder).inside("deep/../../secret.csv")


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_no_attacker_exceeds_the_odds(epsilon):
    assert math.isclose(most_right(PureDP(epsilon)), math.exp(epsilon) / (1 + math.exp(epsilon)), rel_tol=1e-3)
    assert math.isclose(most_right(GaussianDP(epsilon)), NormalDist().cdf(epsilon / 2), rel_tol=1e-3)
    for guarantee in (PureDP(epsilon), GaussianDP(epsilon), ApproxDP(epsilon, 1e-6)):
        found = attack_oneself(guarantee, tries=20_000, seed=3)
        assert found.right <= found.most + 4 * math.sqrt(0.25 / 20_000)
    tight = attack_oneself(GaussianDP(epsilon), tries=20_000, seed=3)
    assert tight.right >= tight.most - 4 * math.sqrt(0.25 / 20_000)  # the best guess about a Gaussian count


def test_websockets_are_closed(browser):
    with pytest.raises(Exception), browser.client.websocket_connect("/"):  # noqa: B017, PT011
        pass
