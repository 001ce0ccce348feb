"""A browser for the page: the system's Chromium, driven by playwright, which downloads nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from support.busy_cluster import BusyCluster, busy_cluster
from support.page_views import CHROMIUM

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Ends with its module: while playwright runs, this thread has a running event loop."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    with playwright.sync_playwright() as running:
        launched = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """An empty page. What goes wrong in its console fails the test, and so does a request to another server."""
    context = browser.new_context(viewport={"width": 1280, "height": 860})
    opened = context.new_page()
    wrong: list[str] = []
    opened.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("dialog", lambda dialog: wrong.append(dialog.message))
    hosts: set[str] = set()
    opened.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    yield opened
    context.close()
    assert wrong == []
    assert len(hosts) <= 1, "the page asks its own server alone"


@pytest.fixture(scope="module")
def busy() -> Iterator[BusyCluster]:
    with busy_cluster() as running:
        yield running


@pytest.fixture
def expect() -> Any:
    return pytest.importorskip("playwright.sync_api").expect
