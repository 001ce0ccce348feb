"""The views of the control server's page, and how a browser opens them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from support.busy_cluster import BusyCluster

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
"""The system's browser; None where there is none."""

VIEWS = {
    "overview": ("/", "o"),
    "topics": ("/topics", "t"),
    "requests": ("/requests", "r"),
    "groups": ("/groups", "g"),
    "schemas": ("/schemas", "s"),
    "faults": ("/faults", "f"),
    "cluster": ("/cluster", "c"),
    "topic": ("/topics/orders", None),
    "compacted": ("/topics/profiles", None),
    "group": ("/groups/billing", None),
}
"""Addresses, and the letters after g."""


def open_view(page: Page, busy: BusyCluster, address: str) -> None:
    page.goto(f"{busy.server.url}/#{address}")
    page.wait_for_selector(f'html[data-ready="{address}"]')


def agree(page: Page, verb: str) -> None:
    """Confirm what a dialog asks: its button says what will be done."""
    page.get_by_role("dialog").get_by_role("button", name=verb, exact=True).click()
