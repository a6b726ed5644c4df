"""Take the pictures of the studio again: python docs/studio_pictures.py. Needs Chromium and playwright."""

from __future__ import annotations

import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from discreet.studio.app import StudioServer, studio_server

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
PICTURES = {
    "studio-plan": ("/plan?plan=survey.toml", 1280, 900, "light"),
    "studio-phone": ("/plan?plan=survey.toml#live", 390, 760, "dark"),
    "studio-learn": ("/learn?plan=survey.toml", 1100, 680, "light"),
}


def main() -> None:
    """Serve a copy of the demonstration, and photograph its pages."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("survey.csv", "survey.toml"):
            shutil.copy(EXAMPLES / name, folder)
        plan = Path(folder) / "survey.toml"
        text = plan.read_text(encoding="utf-8").replace("grid = 1\n", 'grid = 1\nsource = "the questionnaire"\n')
        text = text.replace('"west"]', '"west"]\nsource = "the questionnaire"').replace(
            '"no"]', '"no"]\nsource = "the questionnaire"'
        )
        plan.write_text(text, encoding="utf-8")
        server = studio_server(Path(folder))
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            with sync_playwright() as started:
                take(started, server)
        finally:
            server.should_exit = True
            thread.join()


def take(started: Any, server: StudioServer) -> None:
    """Every picture, in a window of its own size."""
    browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
    first = browser.new_context()
    page = first.new_page()
    page.goto(server.entrance.as_uri())
    page.get_by_role("link", name="discreet", exact=True).wait_for()
    for name, (path, width, height, scheme) in PICTURES.items():
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        context.add_cookies(first.cookies())
        page = context.new_page()
        page.goto(server.address + path)
        if path.startswith("/plan"):
            page.locator("#release-0 > summary").click()
        page.wait_for_timeout(800)
        page.screenshot(path=HERE / "_static" / f"{name}.png")
        context.close()
    browser.close()


if __name__ == "__main__":
    main()
