"""The first view in a browser: what is wrong, the traffic, topics and clients; the token; keys; dark and light."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import kmini
from kmini.control.connected import ConnectedBroker
from support.control_api import control_api
from support.small_client import SmallClient

if TYPE_CHECKING:
    from playwright.sync_api import Page

TOKEN = "only for this test"


@pytest.fixture
def broker() -> Iterator[ConnectedBroker]:
    with control_api(topics={"orders": 2}, token=TOKEN) as server:
        connected = kmini.connect(server.url, token=TOKEN)
        assert isinstance(connected, ConnectedBroker)
        with connected:
            yield connected


def test_the_first_view_says_what_is_odd_and_shows_topics_and_clients(broker: ConnectedBroker, page: Page) -> None:
    # in this order: the page ends before the broker, which it would ask in vain
    expect = pytest.importorskip("playwright.sync_api").expect
    broker.produce("orders", b'{"id": 42}', key=b"alice")
    with SmallClient(broker.bootstrap_servers, "web-shop") as client:
        client.metadata("oders")
        page.goto(f"{broker.url}/#token={TOKEN}")
        expect(page.get_by_text("'oders' is not 'orders'")).to_be_visible()
        assert TOKEN not in page.url, "the token leaves the address bar"
        expect(page.get_by_role("row", name=re.compile("^orders"))).to_contain_text('alice: {"id": 42}')
        expect(page.get_by_role("table", name="Clients")).to_contain_text("web-shop")

        page.keyboard.press("/")
        page.keyboard.type("oder")
        expect(page.get_by_role("row", name=re.compile("^orders"))).to_have_count(0)
        expect(page.get_by_role("row", name=re.compile("^oders"))).to_be_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("d")
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_contain_text("go to a view")
