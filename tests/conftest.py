"""How Hypothesis looks for examples, which certificates are read, and two fixtures.

`fixed`, the default: the same examples every time, on every machine, so the tests that a newcomer
runs are the tests that we ran. `random` (`pytest --hypothesis-profile=random`, as `.ci/run` and
`tests/soak.py` do): new examples each time. A find is printed as a line `@reproduce_failure(...)`
and as arguments: keep it as an `@example` of its test.
"""

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings

# Each HTTP client reads all certificates of this file, and those of a system take it 20 to 50 ms.
# There are thousands of clients in these tests, and no test uses TLS, so one certificate is enough.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "data" / "certificate.pem")

# A deadline fails on a busy machine. A database would make a run depend on the one before it.
settings.register_profile(
    "fixed",
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
)
settings.register_profile("random", database=None, deadline=None, print_blob=True)
settings.load_profile("fixed")


@pytest.fixture
def no_collection() -> Iterator[None]:
    """For a test that uses up the stack. A garbage collection at the bottom of it would run the
    finalizers of what earlier tests left, and these would have no stack to run on.
    """
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(scope="module")  # while it is there, asyncio cannot be used
def chromium() -> Iterator[Any]:
    """A real Chromium, driven by playwright."""
    from tests.support.browser import BROWSER, NO_BROWSER

    api = pytest.importorskip("playwright.sync_api", reason="needs pip install playwright")
    if not BROWSER:
        pytest.skip(NO_BROWSER)
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser
        browser.close()


def pytest_collection_finish() -> None:
    """Thousands of collected tests stay until the end, so no collection has to look at them."""
    gc.collect()
    gc.freeze()
