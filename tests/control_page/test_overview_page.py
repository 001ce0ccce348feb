"""The first view in a browser: what is wrong, the traffic, topics and clients; the token; keys; dark and light."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kmini
from kmini.control.connected import ConnectedBroker
from kmini.registry.schema_reading import SchemaReader
from support.control_api import control_api
from support.registry_api import RegistryApi
from support.small_client import SmallClient
from support.until import until

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

        page.keyboard.press("g")
        page.keyboard.press("t")
        expect(page.get_by_label("Find topics")).to_be_visible()
        page.keyboard.press("/")
        page.keyboard.type("oder")
        expect(page.get_by_role("row", name=re.compile("^orders"))).to_have_count(0)
        expect(page.get_by_role("row", name=re.compile("^oders"))).to_be_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("d")
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_contain_text("go to a view")


def test_topics_and_groups_are_sorted_by_a_click_on_a_column_and_a_topic_has_a_way_back(
    broker: ConnectedBroker, page: Page
) -> None:
    expect = pytest.importorskip("playwright.sync_api").expect
    broker.create_topic("users")
    for number in range(3):
        broker.produce("users", b"%d" % number)
    broker.produce("orders", b"one")
    broker.group("late").commit({("users", 0): 0})
    broker.group("at-the-end").commit({("users", 0): 3})
    page.goto(f"{broker.url}/#token={TOKEN}")
    page.get_by_role("link", name="Topics", exact=True).click()
    rows = page.get_by_role("table", name="Topics").locator("tbody tr")
    expect(rows.first).to_contain_text("orders")
    page.get_by_role("button", name="Records", exact=True).click()
    expect(rows.first).to_contain_text("users")
    expect(page.get_by_role("columnheader", name="Records", exact=True)).to_have_attribute("aria-sort", "descending")
    page.get_by_role("button", name="Records", exact=True).click()
    expect(rows.first).to_contain_text("orders")
    page.get_by_role("link", name="orders", exact=True).click()
    page.get_by_role("link", name="← all topics").click()
    expect(page.get_by_label("Find topics")).to_be_visible()
    page.get_by_role("link", name="Groups", exact=True).click()
    groups = page.get_by_role("table", name="Groups").locator("tbody tr")
    expect(groups.first).to_contain_text("at-the-end")
    page.get_by_role("button", name="Lag").click()
    expect(groups.first).to_contain_text("late")
    page.goto("about:blank")


def test_a_schema_is_tried_registered_and_compared_with_the_version_before(page: Page, tmp_path: Path) -> None:
    expect = pytest.importorskip("playwright.sync_api").expect
    pytest.importorskip("avro")
    first = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    second = {**first, "fields": [*first["fields"], {"name": "note", "type": "string"}]}  # type: ignore[misc]
    registry = RegistryApi(str(tmp_path)).start(SchemaReader())
    try:
        page.goto(f"{registry.control.url}/#/schemas")
        page.get_by_label("Subject", exact=True).fill("orders-value")
        page.get_by_label("Schema", exact=True).fill(json.dumps(first))
        page.get_by_role("button", name="Register", exact=True).click()
        page.get_by_role("link", name="orders-value", exact=True).click()
        # Until the subject is shown, the form is that of the list; what it finds goes with it.
        page.wait_for_selector('html[data-ready="/schemas/orders-value"]')
        page.get_by_label("Schema", exact=True).fill(json.dumps(second))
        page.get_by_role("button", name="Check", exact=True).click()
        expect(page.get_by_text("It is not compatible.")).to_be_visible()
        second["fields"][-1]["default"] = ""  # type: ignore[index]
        page.get_by_label("Schema", exact=True).fill(json.dumps(second))
        page.get_by_role("button", name="Check", exact=True).click()
        expect(page.get_by_text("It is compatible: it can be registered.")).to_be_visible()
        page.get_by_role("button", name="Register", exact=True).click()
        expect(page.get_by_label("Differences")).to_contain_text('+       "name": "note"')
        page.locator("#version").select_option("1")
        expect(page.get_by_label("Schema of version 1")).not_to_contain_text("note")
        page.goto("about:blank")
    finally:
        registry.end()


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
    loaded = "performance.getEntriesByType('resource').some((one) => one.name.endsWith('/page/groups.js'))"
    until(lambda: page.evaluate(loaded), "the other views are not there")
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
    page.get_by_label("Find records").fill("59")
    expect(page.get_by_role("table", name="Records").locator("tbody tr")).to_have_count(1)
    page.get_by_label("Find records").fill("")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download").click()
    assert saved.value.suggested_filename == "orders.json"
    page.goto("about:blank")
