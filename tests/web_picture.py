"""Makes the README's picture of the desk in a browser, in a real Chromium: demos/web.png.

python -m tests.web_picture
"""

import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.audit.test_audit import BROWSER
from tests.support.sizes import ROOT
from tests.support.web import web_desk

ASKED = "My monitor arm (ORD-004) wobbles. I want my $580 back!"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, web_desk(Path(folder)) as desk:
        name = desk.begin(ASKED)
        desk.until(name, "waits")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1000, "height": 960})
            page.goto(f"{desk.url}/#{name}")
            page.wait_for_selector("#card:visible")
            page.wait_for_selector("option", state="attached")
            page.screenshot(path=str(ROOT / "demos/web.png"))
            browser.close()


if __name__ == "__main__":
    main()
