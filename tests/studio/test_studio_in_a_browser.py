"""The studio in a real browser: a newcomer, two tabs, a restart, hostile names, keyboards, phones, and axe.

Chromium comes from the system's packages; where there is none, these tests are skipped and say so.
"""

import math
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import httpx2
import pytest

from discreet.plans.skeleton import gallery
from tests.processes import LIMIT
from tests.studio.test_studio import ALONE, HOSTILE, PLAN, write_people

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="needs a browser: apt-get install chromium (or any Chromium in the path)"
)
playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
expect = playwright.expect
expect.set_options(timeout=60_000)  # milliseconds; the machine may be slow
WRITTEN = '[id^=was-][name*="title"]'
"""What the page knows to be in the file."""
ONE_OF_EACH_TOPIC = [
    next(one.ask for one in gallery() if one.topic == topic) for topic in {one.topic: 0 for one in gallery()}
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[object]:
    with playwright.sync_playwright() as started:
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = started.chromium.launch(executable_path=CHROMIUM, args=options, timeout=1000 * LIMIT)
        yield browser
        browser.close()


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """A studio of its own, as the command line serves it; the file that it names."""
    from discreet.studio.app import studio_server

    server = studio_server(folder)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield server.entrance.as_uri()
    finally:
        server.should_exit = True
        thread.join(LIMIT)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_people(tmp_path / "people.csv")
    return tmp_path


class Visit:
    """A page that remembers what went wrong in it."""

    def __init__(self, chromium, address: str, **settings) -> None:
        self.context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **settings})
        self.wrong: list[str] = []
        self.page = self.tab()
        self.page.goto(address)
        if not settings.get("java_script_enabled", True):
            self.page.get_by_role("button", name="Open the studio").click()
        self.page.get_by_role("link", name="discreet", exact=True).wait_for()
        self.address = "/".join(self.page.url.split("/")[:3])

    def tab(self):
        page = self.context.new_page()
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("console", lambda said: said.type == "error" and self.wrong.append(said.text))
        page.on("dialog", lambda dialog: (self.wrong.append("a dialog"), dialog.dismiss()))
        known = ("http://127.0.0.1:", "file:///")
        page.on("request", lambda one: one.url.startswith(known) or self.wrong.append(one.url))
        return page

    def wait_for(self, role: str, name: str) -> None:
        """Wait until it is there, or fail with what is there instead."""
        try:
            self.page.get_by_role(role, name=name).wait_for()
        except playwright.TimeoutError:
            pytest.fail(f"no {name!r} at {self.page.url}: {self.page.inner_text('body')} {self.wrong}")

    def step(self, name: str, page=None) -> None:
        """Open a step of the plan."""
        (page or self.page).locator(f"#step-{name} > summary").click()

    def to(self, path: str) -> None:
        self.page.goto(self.address + path)


def test_the_token_is_in_no_address_and_no_referrer(chromium, folder):
    with served(folder) as address:
        token = re.search(r'name="token" value="(\S+)"', Path(address.removeprefix("file://")).read_text())[1]
        told: list[str] = []
        context = chromium.new_context()
        page = context.new_page()
        page.on("request", lambda one: told.append(f"{one.url} {one.all_headers()}"))
        page.goto(address)
        page.get_by_role("link", name="people.csv").click()
        page.get_by_role("button", name="Continue to the columns").wait_for()
        page.go_back()
        page.get_by_role("link", name="people.csv").wait_for()
        assert len(told) > 3
        assert token not in "".join(told) + page.content()
        assert page.evaluate("document.referrer") in ("", f"{page.url.split('/?')[0].rstrip('/')}/enter")


def test_a_newcomer_publishes_a_mean_in_eight_interactions(chromium, folder):
    with served(folder) as address:
        visit = Visit(chromium, address)
        page = visit.page
        page.get_by_role("link", name="people.csv").click()  # 1
        page.get_by_role("button", name="Continue to the columns").click()  # 2
        page.get_by_role("button", name="Add age").click()  # 3
        page.get_by_label("lowest value").fill("0")  # 4
        page.get_by_label("highest value").fill("100")  # 5
        expect(page.locator("#column-0")).to_have_text("")
        page.get_by_role("button", name="Mean age").click()  # 6
        page.get_by_role("link", name="See the price and publish").click()  # 7
        assert not list(folder.glob("*.ledger"))
        page.get_by_role("button", name="Read the data and publish").click()  # 8
        visit.wait_for("link", "Open the report")
        assert re.search(r"The mean age is 5\d\b", page.inner_text("main"))  # of 600 people it is 54 ± 0.3
        assert visit.wrong == []


def test_a_question_of_every_topic_is_added_and_planned(chromium, folder):
    added_and_planned(chromium, folder, ONE_OF_EACH_TOPIC)


@pytest.mark.deep
def test_every_question_is_added_planned_and_run(chromium, folder):
    added_and_planned(chromium, folder, [one.ask for one in gallery() if one.ask not in ALONE])


def added_and_planned(chromium, folder, asks: list[str]) -> None:
    (folder / "people.toml").write_text(PLAN.replace("epsilon = 4.0", "epsilon = 30.0"))
    with served(folder) as address:
        visit = Visit(chromium, address)
        visit.page.set_default_timeout(120_000)  # plans of quantiles and tests by ranks are simulated
        visit.to("/plan?plan=people.toml")
        page = visit.page
        for position, ask in enumerate(asks, start=1):
            page.locator(f"button[name=ask][value={ask}]").evaluate("one => one.click()")
            page.locator(f"#release-{position}").wait_for()
        data = tomllib.loads((folder / "people.toml").read_text())
        assert [one["ask"] for one in data["release"][1:]] == asks
        assert page.locator("#live .result .problem").all_inner_texts() == []
        assert page.locator("#live .result .big").count() == len(asks) + 1
        text = (folder / "people.toml").read_text()
        text = re.sub(r"^epsilon = \S+$", "epsilon = 1.0", text.replace("epsilon = 30.0", "epsilon = 3e1"), flags=re.M)
        (folder / "people.toml").write_text(text.replace("epsilon = 1.0", "epsilon = 30.0", 1))
        visit.to("/run?plan=people.toml")
        page.get_by_role("button", name="Read the data and publish").click()
        page.get_by_role("link", name="Open the report").wait_for(timeout=120_000)
        assert visit.wrong == []


def test_a_question_is_a_sentence_with_choices(chromium, folder):
    (folder / "people.toml").write_text(PLAN)
    with served(folder) as address:
        visit = Visit(chromium, address)
        visit.to("/plan?plan=people.toml&at=column income")
        page = visit.page
        page.get_by_role("button", name="Mean income").click()
        question = page.locator("#release-1")
        question.locator(".pick > summary").click()
        question.get_by_label("region", exact=True).check()
        expect(page.locator("#heading-1")).to_have_text("Mean income by region")
        expect(question.locator(".pick > summary")).to_have_text("region")
        question.get_by_label("which number").select_option("median")
        expect(page.locator("#heading-1")).to_have_text("Median income by region")
        assert tomllib.loads((folder / "people.toml").read_text())["release"][1]["ask"] == "median"
        assert visit.wrong == []


def test_two_tabs_and_an_editor_lose_nothing(chromium, folder):
    plan = folder / "people.toml"
    plan.write_text(PLAN)
    with served(folder) as address:
        visit = Visit(chromium, address)
        visit.to("/plan?plan=people.toml")
        first, second = visit.page, visit.tab()
        second.goto(first.url)
        visit.step("data", first)
        visit.step("data", second)
        second.get_by_label("title", exact=True).first.focus()  # or it shows the first one's title within two seconds
        first.get_by_label("title", exact=True).first.fill("From the first")
        expect(first.locator(WRITTEN).first).to_have_value("From the first")
        second.get_by_label("title", exact=True).first.fill("From the second")
        second.wait_for_selector("#notice:has-text('changed elsewhere')")
        assert tomllib.loads(plan.read_text())["title"] == "From the first"
        assert second.get_by_label("title", exact=True).first.input_value() == "From the second"
        first.locator("h1").click()
        first.evaluate("document.activeElement.blur()")
        plan.write_text(plan.read_text().replace("From the first", "From an editor"))
        expect(first.locator("h1")).to_have_text("From an editor")
        visit.step("price", first)
        first.get_by_label("budget ε", exact=True).fill("2.5")
        expect(first.locator("#live")).to_contain_text("ε = 2.5")
        assert plan.read_text().startswith("# written by hand")


def test_sliders_move_errors_without_a_press(chromium, folder, monkeypatch):
    monkeypatch.setattr("discreet.studio.toml_document._TOGETHER", math.inf)  # seconds, however slow the machine is
    (folder / "people.toml").write_text(PLAN)
    with served(folder) as address:
        visit = Visit(chromium, address)
        visit.to("/plan?plan=people.toml")
        page = visit.page
        before = page.locator("#live .big").first.inner_text()
        page.locator("#release-0 > summary").click()
        slider = page.locator("#release-0 input.slide")
        slider.focus()
        for _ in range(60):  # the page's script may not listen yet
            page.keyboard.press("ArrowRight")
            page.wait_for_timeout(500)
            if page.locator("#live .big").first.inner_text() != before:
                break
        expect(page.locator("#live .big").first).not_to_have_text(before)
        field = slider.get_attribute("data-for")
        wanted = page.locator(f"[id='{field}']").input_value()
        expect(page.locator(f"[id='was-{field}']")).to_have_value(wanted)  # all of it is written
        assert tomllib.loads((folder / "people.toml").read_text())["release"][0]["epsilon"] > 0.1
        page.get_by_role("button", name="Undo").click()
        expect(page.locator("#live .big").first).to_have_text(before)
        assert (folder / "people.toml").read_text() == PLAN
        assert visit.wrong == []


def test_what_was_typed_is_written_before_a_click_counts(chromium, folder):
    (folder / "people.toml").write_text(PLAN)
    with served(folder) as address:
        visit = Visit(chromium, address)
        visit.to("/plan?plan=people.toml")
        visit.step("price")
        visit.page.get_by_label("budget ε", exact=True).fill("3.5")
        visit.page.get_by_role("navigation").get_by_role("link", name="Run", exact=True).click()
        expect(visit.page.locator("main")).to_contain_text("ε = 3.5")
        assert tomllib.loads((folder / "people.toml").read_text())["budget"]["epsilon"] == 3.5
        assert visit.wrong == []


def test_what_is_typed_before_the_scripts_come_is_written(chromium, folder):
    (folder / "people.toml").write_text(PLAN)
    with served(folder) as address:
        visit = Visit(chromium, address)
        held = []
        visit.page.route("**/htmx.min.js", lambda route: held.append(route))
        visit.page.goto(visit.address + "/plan?plan=people.toml", wait_until="commit")
        visit.step("data")
        visit.page.get_by_label("title", exact=True).first.fill("Half a sen")
        assert visit.page.locator("html.scripted").count() == 0
        held[0].continue_()
        expect(visit.page.locator(WRITTEN).first).to_have_value("Half a sen")
        assert tomllib.loads((folder / "people.toml").read_text())["title"] == "Half a sen"
        assert visit.wrong == []


def test_a_page_takes_no_change_of_its_own_for_somebody_elses(chromium, folder):
    """A pulse that asked before a page wrote and is answered after it tells nothing; a change by others is told."""
    plan = folder / "people.toml"
    plan.write_text(PLAN)
    with served(folder) as address:
        visit = Visit(chromium, address)
        held = []
        visit.page.route("**/pulse*", lambda route: held.append(route))
        visit.to("/plan?plan=people.toml")
        visit.step("data")
        while not held:
            visit.page.wait_for_timeout(100)
        visit.page.get_by_label("title", exact=True).first.fill("Mine")
        expect(visit.page.locator(WRITTEN).first).to_have_value("Mine")
        with visit.page.expect_response("**/pulse*") as told:
            held[0].continue_()
        assert told.value.headers.get("hx-trigger") == "plan-changed"  # as far as the server knows, another's
        visit.page.wait_for_timeout(300)
        assert visit.page.locator("#notice").inner_text() == ""
        visit.page.unroute("**/pulse*")
        plan.write_text(plan.read_text().replace("Mine", "Another's"))
        visit.page.wait_for_selector("#notice:has-text('changed elsewhere')")
        assert visit.wrong == []


def test_a_killed_studio_loses_nothing(chromium, folder):
    (folder / "people.toml").write_text(PLAN)
    command = [sys.executable, "-m", "discreet", "open", str(folder / "people.toml"), "--no-browser"]

    def start() -> tuple[subprocess.Popen, str]:
        running = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
        )
        return running, Path(re.search(r"that opens (\S+)", running.stdout.readline())[1]).as_uri()

    running, address = start()
    try:
        visit = Visit(chromium, address)
        assert "/plan?plan=people.toml" in visit.page.url
        visit.step("data")
        visit.page.get_by_label("title", exact=True).first.fill("Half a sen")
        expect(visit.page.locator(WRITTEN).first).to_have_value("Half a sen")
        running.send_signal(signal.SIGKILL)
        running.wait()
        running.stdout.close()
        assert tomllib.loads((folder / "people.toml").read_text())["title"] == "Half a sen"
        running, address = start()
        again = Visit(chromium, address)
        assert again.page.get_by_label("title", exact=True).first.input_value() == "Half a sen"
    finally:
        running.kill()
        running.wait()
        running.stdout.close()


def test_hostile_names_run_no_script(chromium, folder):
    hostile = HOSTILE.replace('"', '""')
    (folder / "people.csv").write_text(f'"{hostile}",<img src=x onerror=alert(1)>\n1,2\n')
    with served(folder) as address:
        visit = Visit(chromium, address)
        page = visit.page
        page.get_by_role("link", name="people.csv").click()
        page.get_by_role("button", name="Continue to the columns").click()
        page.locator(".adds button").first.click()
        page.get_by_role("button", name="holds labels", exact=False).first.click()
        page.get_by_label("labels (needed)").fill("<img src=x onerror=alert(2)>, ok")
        expect(page.locator("#column-0")).to_have_text("")
        visit.step("data")
        page.get_by_label("title", exact=True).first.fill("<script>alert(3)</script>")
        visit.step("questions")
        page.get_by_role("button", name="How many rows have each combination").click()
        page.locator("#release-1").wait_for()
        for step in ("Review", "Run", "Ledger", "Learn", "File", "Plan"):
            page.get_by_role("navigation").get_by_role("link", name=step, exact=True).click()
        assert page.locator("img").count() == 0
        assert visit.wrong == []


def test_it_reads_and_saves_without_scripts(chromium, folder):
    (folder / "people.toml").write_text(PLAN)
    with served(folder) as address:
        visit = Visit(chromium, address, java_script_enabled=False)
        visit.to("/plan?plan=people.toml")
        page = visit.page
        assert "± " in page.inner_text("#live")
        visit.step("price")
        page.get_by_label("budget ε", exact=True).fill("3")
        page.locator("#step-price").get_by_role("button", name="Save").click()
        assert tomllib.loads((folder / "people.toml").read_text())["budget"]["epsilon"] == 3
        assert "ε = 3" in page.inner_text("#live")


STEPS = (
    "/",
    "/new?file=people.csv",
    *(f"/{one}?plan=people.toml" for one in ("plan", "review", "run", "ledger", "learn", "text")),
    *(f"/plan?plan=people.toml&at={one}" for one in ("data", "unit", "column income", "release 0", "price")),
)


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (768, "light"), (1280, "dark")])
def test_every_page_is_accessible_and_fits(chromium, folder, width, scheme):
    """axe finds nothing against WCAG 2.2 AA, and no page is wider than its window."""
    (folder / "people.toml").write_text(PLAN.replace("high = 1000", 'high = "wrong"'))
    axe = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
    rules = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
    with served(folder) as address:
        visit = Visit(chromium, address, viewport={"width": width, "height": 800}, color_scheme=scheme)
        visit.page.get_by_role("button", name="Take a tour").click()
        visit.page.wait_for_url("**/plan?plan=tour.toml*")
        tour = [f"/plan?plan=tour.toml&at={one}" for one in ("data", "columns", "release 0")]
        for step in (*STEPS, *tour, "/preview?plan=tour.toml"):
            visit.to(step)
            visit.page.evaluate(axe)
            found = visit.page.evaluate("rules => axe.run(document, rules)", rules)["violations"]
            assert [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found] == [], step
            wide = visit.page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, step


def test_everything_is_reached_by_keyboard(chromium, folder):
    (folder / "people.toml").write_text(PLAN)
    with served(folder) as address:
        visit = Visit(chromium, address)
        visit.to("/plan?plan=people.toml")
        page = visit.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        reached = set()
        for _ in range(250):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.value || document.activeElement.textContent"))
            if page.evaluate("document.activeElement.matches('details:not([open]) > summary')"):
                page.keyboard.press("Enter")
        assert {"mean", "count", "none", "See the price and publish"} <= reached


@pytest.mark.deep
def test_memory_does_not_grow_under_a_minute_of_requests(folder):
    """Ten users' worth of requests for a minute, to the studio as the command line serves it."""
    (folder / "people.toml").write_text(PLAN)
    command = [sys.executable, "-m", "discreet", "open", str(folder / "people.toml"), "--no-browser"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    status = Path(f"/proc/{running.pid}/status")

    def memory() -> int:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read_text())[1])

    try:
        address, entrance = re.search(r"open at (\S+), .* opens (\S+)", running.stdout.readline()).groups()
        if not status.exists():
            pytest.skip("needs /proc to read the memory of a process")
        with httpx2.Client(base_url=address, follow_redirects=True, timeout=60) as client:
            token = re.search(r'name="token" value="(\S+)"', Path(entrance).read_text())[1]
            client.post("/enter", data={"token": token})
            csrf = re.search(r'name="csrf" content="([^"]+)"', client.get("/").text)[1]
            place, epsilon, sizes, end = '["budget", "epsilon"]', 4.0, [], time.monotonic()
            for seconds in (20, 40):
                end += seconds
                while time.monotonic() < end:
                    for page in ("/plan", "/review", "/run", "/learn"):
                        assert client.get(f"{page}?plan=people.toml").status_code == 200
                    form = {"csrf": csrf, place: str(round(epsilon + 0.01, 2)), f"was:{place}": str(epsilon)}
                    client.post("/change?plan=people.toml", data=form, headers={"hx-request": "true"})
                    epsilon = round(epsilon + 0.01, 2)
                sizes.append(memory())
        assert sizes[1] - sizes[0] < 10_000  # kilobytes
    finally:
        running.kill()
        running.wait()
        running.stdout.close()
