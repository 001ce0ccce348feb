"""The page shows records decoded by the schema registry, and says why where it cannot. Behind `make soak`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from kmini.registry.schema_reading import SchemaReader
from support.registry_api import RegistryApi

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.soak

MARK = b"\0\0\0\0\1"
"""What is in front of data that have the schema with the id 1."""


@pytest.fixture
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryApi]:
    """A broker with a page and a registry, a schema of records in the topic `orders`."""
    running = RegistryApi(str(tmp_path_factory.mktemp("broker"))).start(SchemaReader())
    running.control.done("POST", "/topics", {"name": "orders"})
    reply = running.post("/subjects/orders-value/versions", {"schema": "true", "schemaType": "JSON"})
    assert reply.document["id"] == 1
    yield running
    running.end()


@pytest.fixture
def rows(page: Page, api: RegistryApi) -> Any:
    """The rows of the records of `orders`, the newest first."""
    page.goto(f"{api.control.url}/#/topics/orders")
    page.wait_for_selector('html[data-ready="/topics/orders"]')
    return page.get_by_role("table", name="Records").locator("tbody tr")


@pytest.fixture
def expect() -> Any:
    return pytest.importorskip("playwright.sync_api").expect


def write(api: RegistryApi, value: bytes) -> None:
    api.control.run(api.control.managed.operations.produce("orders", value))


def test_a_record_is_decoded_as_it_arrives_and_shown_as_its_bytes_on_demand(
    page: Page, api: RegistryApi, rows: Any, expect: Any
) -> None:
    write(api, MARK + b'{"total": 1, "name": "<b>x</b>"}')
    expect(rows.first).to_contain_text('{"total":1,"name":"<b>x</b>"}')
    expect(rows.first).to_contain_text("orders-value version 1, id 1")
    page.get_by_label("Show as").select_option("hex")
    expect(rows.first).to_contain_text("00 00 00 00 01 7b")
    expect(rows.first).not_to_contain_text("orders-value version 1")
    page.get_by_label("Show as").select_option("auto")
    expect(rows.first).to_contain_text("orders-value version 1, id 1")


def test_what_cannot_be_decoded_is_shown_as_hex_with_the_reason(api: RegistryApi, rows: Any, expect: Any) -> None:
    write(api, b"\0\0\0\0\7abc")
    expect(rows.first).to_contain_text("00 00 00 00 07 61 62 63")
    expect(rows.first).to_contain_text("The registry of this broker has no schema with the id 7.")
    write(api, b"plain")
    expect(rows.first).to_contain_text("plain")


def test_a_long_value_is_decoded_whole_on_demand(page: Page, api: RegistryApi, rows: Any, expect: Any) -> None:
    write(api, MARK + b'"' + b"a" * 100_000 + b'the end"')
    expect(rows.first).to_contain_text("bytes are here")
    rows.first.get_by_role("button", name="show all").click()
    expect(page.get_by_role("dialog")).to_contain_text("the end")
    expect(page.get_by_role("dialog")).to_contain_text("orders-value version 1, id 1")
