"""Records over HTTP come in pages: an answer is bounded however much a topic holds, and says where the next one is."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from kmini.control.connected import ConnectedBroker
from kmini.control.record_pages import PAGE_RECORDS
from kmini.testkit import contents
from support.control_api import ControlApi

MANY = 2_500
"""Records in partition 0 of orders; 10 more are in partition 1."""


@pytest.fixture
def full(api: ControlApi) -> ControlApi:
    for first in range(0, MANY, 500):
        seeds = [{"topic": "orders", "partition": 0, "key": "k", "value": str(first + each)} for each in range(500)]
        api.done("POST", "/seed", {"records": seeds})
    seeds = [{"topic": "orders", "partition": 1, "key": "other", "value": str(MANY + each)} for each in range(10)]
    api.done("POST", "/seed", {"records": seeds})
    return api


def pages(api: ControlApi, path: str) -> list[list[Any]]:
    """The pages that begin at a path, by their links."""
    found = []
    while path:
        answer = api.ask("GET", path)
        assert answer.status == 200
        found.append(answer.document)
        link = answer.headers.get("Link", "")
        path = link.partition(">")[0].removeprefix("</api/v1")
    return found


def test_an_answer_is_a_page_whose_link_leads_to_the_next_one(full: ControlApi) -> None:
    found = pages(full, "/topics/orders/records")
    assert [len(page) for page in found] == [PAGE_RECORDS, PAGE_RECORDS, MANY - 2 * PAGE_RECORDS + 10]
    values = [record["value"] for page in found for record in page]
    assert values == [str(number) for number in range(MANY + 10)]


def test_a_page_is_as_long_as_its_limit_and_the_next_one_asks_for_the_same(full: ControlApi) -> None:
    found = pages(full, "/topics/orders/records?key=other&limit=4&decode=hex&since=2")
    assert [len(page) for page in found] == [4, 4]
    assert found[1][-1]["value"] == str(MANY + 9).encode().hex()
    assert [len(page) for page in pages(full, "/records?topic=orders&partition=1&limit=9")] == [9, 1]


def test_a_page_ends_before_its_bytes_are_many(api: ControlApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kmini.testkit.contents.PAGE_BYTES", 1_000)
    seeds = [{"topic": "orders", "partition": 0, "value": "x" * 400} for _ in range(7)]
    api.done("POST", "/seed", {"records": seeds})
    assert [len(page) for page in pages(api, "/topics/orders/records")] == [3, 3, 1]


def test_a_key_that_is_no_text_is_repeated_in_the_link(api: ControlApi) -> None:
    key = {"base64": base64.b64encode(b"\xff").decode()}
    seeds = [{"topic": "orders", "partition": 0, "key": key, "value": str(number)} for number in range(3)]
    api.done("POST", "/seed", {"records": [*seeds, {"topic": "orders", "partition": 0, "value": "other"}]})
    answer = api.ask("POST", "/topics/orders/wait-for", {"count": 1, "key": key, "limit": 2})
    assert len(answer.document) == 2
    ((last,),) = pages(api, answer.headers["Link"].partition(">")[0].removeprefix("</api/v1"))
    assert last["value"] == "2"


def test_a_wait_answers_a_page_and_reads_no_more_than_it_needs(
    full: ControlApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kmini.testkit.contents.READ_BYTES", 1_000)
    read: list[int] = []
    batches = contents._batches

    def counting(*args: Any, **kwargs: Any) -> Any:
        for batch in batches(*args, **kwargs):
            read.append(len(batch.records))
            yield batch

    monkeypatch.setattr(contents, "_batches", counting)
    answer = full.ask("POST", "/topics/orders/wait-for", {"count": 1, "limit": 3})
    assert [record["value"] for record in answer.document] == ["0", "1", "2"]
    assert answer.headers["Link"].startswith("</api/v1/topics/orders/records?")
    assert "cursor=0%3A3" in answer.headers["Link"]
    assert sum(read) < MANY
    assert len(full.done("POST", "/wait-for-records", {"topic": "orders", "count": MANY})) == PAGE_RECORDS


def test_a_limit_and_a_cursor_are_checked(api: ControlApi) -> None:
    for query in ("limit=0", "cursor=orders", "cursor=1:-1", "cursor=1:1:A"):
        assert api.problem("GET", f"/topics/orders/records?{query}")["status"] == 422


def test_the_handles_of_a_broker_elsewhere_read_all_pages(broker: ConnectedBroker) -> None:
    orders = broker.topic("orders")
    for number in range(1_100):
        orders.produce(b"%d" % number, partition=number % 2)
    assert len(orders.records()) == len(broker.records("orders")) == 1_100
    assert len(orders.wait_for(1)) == 1_001
    assert len(orders.wait_for(1_100)) == len(broker.wait_for_records("orders", 1_100)) == 1_100
    (last,) = orders.wait_for(lambda record: record.value == b"1099")
    assert last.partition == 1
