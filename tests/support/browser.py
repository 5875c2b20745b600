"""A real Chromium and axe-core, where they are installed (`.ci/run`)."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
BROWSER = next(filter(None, map(shutil.which, NAMES)), "")
AXE = Path(
    os.environ.get("AXE_CORE", Path(tempfile.gettempdir()) / "axe/node_modules/axe-core/axe.min.js")
)
NO_BROWSER = "needs chromium: apt-get install -y chromium"
NO_AXE = f"needs axe-core at {AXE} (npm install axe-core), or AXE_CORE"
WIDTHS = (390, 1400)  # of a phone, and of a desk
SCHEMES = ("light", "dark")


def in_browser(test: Any) -> Any:
    return pytest.mark.browser(pytest.mark.skipif(not BROWSER, reason=NO_BROWSER)(test))


def faults(page: Any) -> list[tuple[str, str, str]]:
    """What axe-core finds wrong with a page of playwright: how bad, which rule, and where."""
    page.add_script_tag(path=str(AXE))
    found = page.evaluate("axe.run(document).then(run => run.violations)")
    return [
        (fault["impact"], fault["id"], node["html"][:200])
        for fault in found
        for node in fault["nodes"]
    ]


def is_in_view(page: Any, selector: str) -> bool:
    """Is all of this element in the window?"""
    box = page.locator(selector).bounding_box()
    if box is None:
        return False
    return box["y"] >= 0 and box["y"] + box["height"] <= page.viewport_size["height"]
