"""The first view in a browser: what is wrong, the traffic, topics and clients; the token; keys; dark and light."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import kmini
from kmini.control.connected import ConnectedBroker
from support.control_api import control_api
from support.small_client import SmallClient

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

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


def test_a_broker_without_anything_greets_with_the_first_steps(page: Page) -> None:
    expect = pytest.importorskip("playwright.sync_api").expect
    with control_api(topics={}) as server:
        page.goto(f"{server.url}/")
        expect(page.get_by_role("heading", name="First steps")).to_be_visible()
        expect(page.get_by_role("main")).to_contain_text("kmini topic create orders:3")
        expect(page.get_by_role("heading", name="Worth a look")).to_have_count(0)
        page.goto("about:blank")


def test_a_server_that_is_gone_leaves_its_last_data_and_comes_back(broker: ConnectedBroker, browser: Browser) -> None:
    """In a context of its own: a browser logs each request that is in vain."""
    expect = pytest.importorskip("playwright.sync_api").expect
    broker.produce("orders", b"placed", key=b"alice")
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{broker.url}/#token={TOKEN}")
    row = page.get_by_role("row", name=re.compile("^orders"))
    expect(row).to_contain_text("alice: placed")
    expect(page.locator("#dot")).to_have_class("dot up")
    context.set_offline(True)
    expect(page.get_by_text("The server does not answer. What is shown is from")).to_be_visible(timeout=30_000)
    expect(page.locator("#dot")).to_have_class("dot gone")
    expect(row).to_contain_text("alice: placed")
    page.get_by_role("link", name="Groups").click()  # its module is here already
    expect(page.get_by_role("heading", name="The server does not answer")).to_be_visible()
    context.set_offline(False)
    expect(page.locator("#dot")).to_have_class("dot up", timeout=30_000)
    expect(page.locator("#gone")).to_be_empty()
    context.close()


def test_records_have_the_time_of_the_broker_and_can_be_found_by_offset_and_saved(
    broker: ConnectedBroker, page: Page
) -> None:
    expect = pytest.importorskip("playwright.sync_api").expect
    broker.clock.advance("400d")
    for number in range(60):
        broker.produce("orders", str(number).encode(), key=b"alice", partition=0)
    last_ms = broker.records("orders")[-1].timestamp
    page.goto(f"{broker.url}/#token={TOKEN}")
    page.get_by_role("link", name="orders", exact=True).first.click()
    day = time.strftime("%Y-%m-%d", time.gmtime(last_ms / 1000))
    expect(page.get_by_role("table", name="Records")).to_contain_text(day)
    page.locator("#of").select_option("0")
    page.get_by_label("From offset").fill("3")
    expect(page.get_by_role("row", name=re.compile("^0 3 "))).to_be_visible()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download").click()
    assert saved.value.suggested_filename == "orders.json"
    page.goto("about:blank")
