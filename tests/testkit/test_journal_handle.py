"""What the broker was asked, as tests ask for it: `broker.requests`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kmini import Broker, Cluster, KafkaError, RequestsLost
from kmini.broker.journal import request_journal
from kmini.protocol import messages as m
from kmini.testing import Wire


@pytest.fixture(scope="module")
def shared() -> Iterator[Broker]:
    with Broker(topics={"orders": 2}, journal=True) as running:
        yield running


@pytest.fixture
def broker(shared: Broker) -> Broker:
    shared._operations.any_broker().services.journal.clear()  # type: ignore[union-attr]
    return shared


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap_servers, client_id="app-1") as connection:
        yield connection


def fetch(topic: str = "orders", max_wait_ms: int = 0) -> m.FetchRequest:
    Topic = m.FetchRequest.Topic
    asked = Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    return m.FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=[Topic(topic=topic, partitions=[asked])])


def test_requests_are_counted_and_shown_by_what_they_are_about(broker: Broker, wire: Wire) -> None:
    for topic in ("orders", "orders", "ordres"):
        wire.ask(fetch(topic), 4)
    assert broker.requests.count() == broker.requests.count("Fetch", client_id="app-*") == 3
    assert broker.requests.count("Fetch", topic="orders") == 2
    (wrong,) = broker.requests.all(error="UNKNOWN_TOPIC_OR_PARTITION")
    assert str(wrong).startswith("Fetch v4 app-1 ordres-0@0 UNKNOWN_TOPIC_OR_PARTITION ")


def test_what_came_before_a_mark_or_an_entry_does_not_count(broker: Broker, wire: Wire) -> None:
    mark = broker.requests.mark()
    wire.ask(fetch(), 4)
    (first,) = broker.requests.assert_some("Fetch", since=mark)
    broker.requests.assert_none("Fetch", since=first)
    broker.requests.assert_none("Fetch", since=broker.requests.mark())
    wire.ask(fetch(), 4)
    assert broker.requests.count(since=mark) == 2
    (second,) = broker.requests.all(since=first)
    assert second.number == first.number + 1


def test_a_missing_request_is_told_with_the_nearest_ones(broker: Broker, wire: Wire) -> None:
    for _ in range(13):
        wire.ask(fetch("order"), 4)
    with Wire(broker.bootstrap_servers, client_id="other") as other:
        other.ask(fetch("order"), 4)
    with pytest.raises(AssertionError) as told:
        broker.requests.assert_some("Fetch", topic="orders", client_id="app-*")
    assert str(told.value) == (
        "no Fetch request topic='orders' client_id='app-*', and one was expected: "
        "14 Fetch requests came; nearest, 13 of them: topic was 'order', not 'orders'"
    )
    with pytest.raises(
        AssertionError, match=r"^14 Fetch request, and 15 of them was expected: 14 Fetch requests came$"
    ):
        broker.requests.assert_some("Fetch", number=15)


def test_a_request_that_should_not_have_come_is_shown(broker: Broker, wire: Wire) -> None:
    for _ in range(7):
        wire.ask(fetch(), 4)
    with pytest.raises(AssertionError) as told:
        broker.requests.assert_none("Fetch", topic="orders")
    lines = str(told.value).splitlines()
    assert lines[0] == "expected no Fetch request topic='orders', and 7 came:"
    assert "Fetch v4 app-1 orders-0@0 ok " in lines[1]
    assert lines[-1] == "... and 2 more"
    assert len(lines) == 7


def in_a_moment(do: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=do)
    thread.start()
    return thread


def test_a_wait_ends_when_the_request_arrives_though_it_is_not_answered_yet(broker: Broker, wire: Wire) -> None:
    client = in_a_moment(lambda: wire.send(fetch(max_wait_ms=30_000), 4))
    (entry,) = broker.requests.wait_for("Fetch", topic="orders", timeout_ms=20_000)
    client.join()
    assert entry.is_in_service


def test_a_wait_that_is_in_vain_tells_what_came(broker: Broker, wire: Wire) -> None:
    wire.ask(fetch(), 4)
    with pytest.raises(KafkaError, match=r"no JoinGroup request after 20 ms.*no JoinGroup came; these did: Fetch 1"):
        broker.requests.wait_for("JoinGroup", timeout_ms=20)
    assert not broker._operations.any_broker().services.journal.watchers  # type: ignore[union-attr]


async def test_a_wait_is_awaited_beside_the_client(broker: Broker) -> None:
    with pytest.raises(RuntimeError, match=r"wait_for would stop the event loop .* broker\.aio\.requests\.wait_for"):
        broker.requests.wait_for("Fetch", timeout_ms=20)
    waiting = asyncio.ensure_future(broker.aio.requests.wait_for("Fetch", number=2))
    with Wire(broker.bootstrap_servers) as wire:
        for _ in range(2):
            await asyncio.to_thread(wire.ask, fetch(), 4)
    assert len(await waiting) == 2


def test_a_question_about_requests_that_are_lost_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_journal, "MOST_ENTRIES", 2)
    with Broker(topics=["orders"], journal=True) as broker, Wire(broker.bootstrap_servers) as wire:
        begin = broker.requests.mark()
        for _ in range(4):
            wire.ask(fetch(), 4)
        assert broker.requests.lost() == 2
        assert len(broker.requests.all()) == 2
        for ask in (
            lambda: broker.requests.count("Fetch"),
            lambda: broker.requests.assert_none("Produce", since=begin),
            lambda: broker.requests.assert_some("Produce", since=begin + 1),
        ):
            with pytest.raises(RequestsLost, match="requests of the time in question are lost: the journal keeps"):
                ask()
        broker.requests.assert_none("Produce", since=begin + 2)
        assert broker.requests.assert_some("Fetch")
        with pytest.raises(AssertionError, match="no Produce came"):
            broker.requests.assert_some("Produce", since=begin + 2)


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"api": "Fetsh"}, ValueError, r"api='Fetsh': Kafka has none of this name; near: Fetch"),
    ({"api": 1}, TypeError, r"api=1: must be the name of an API as str"),
    ({"error": "NOT_LEADER"}, ValueError, r"error='NOT_LEADER': .* near: .*NOT_LEADER_OR_FOLLOWER"),
    ({"topik": "orders"}, TypeError, r"topik='orders': unknown; of a request can be asked: topic, partition"),
    ({"topic": b"orders"}, TypeError, r"topic=b'orders'"),
    ({"partition": -1}, ValueError, r"partition=-1"),
    ({"client_id": 7}, TypeError, r"client_id=7"),
    ({"where": "x"}, TypeError, r"where='x': must be a function of a JournalEntry"),
    ({"since": "yesterday"}, TypeError, r"since='yesterday': must be a mark"),
    ({"since": True}, TypeError, r"since=True"),
]


@pytest.mark.parametrize(("given", "kind", "told"), WRONG, ids=str)
@pytest.mark.parametrize("name", ["all", "count", "wait_for", "assert_some", "assert_none"])
def test_a_wrong_question_says_what_can_be_asked(
    shared: Broker, name: str, given: dict[str, Any], kind: type[Exception], told: str
) -> None:
    with pytest.raises(kind, match=told):
        getattr(shared.requests, name)(**given)
    with pytest.raises(kind, match=told):
        asyncio.run(_ask(shared, name, given))


async def _ask(broker: Broker, name: str, given: dict[str, Any]) -> None:
    await getattr(broker.aio.requests, name)(**given)


def test_a_number_of_requests_is_one_or_more(shared: Broker) -> None:
    with pytest.raises(ValueError, match="number=0: must be a number of requests, 1 or more"):
        shared.requests.assert_some("Fetch", number=0)
    with pytest.raises(TypeError, match="journal=1: must be True or False"):
        Broker(journal=1)  # type: ignore[arg-type]


def test_a_cluster_has_the_requests_of_all_its_brokers() -> None:
    with Cluster(brokers=2, topics=["orders"], journal=True) as cluster:
        for number in (1, 2):
            with Wire(cluster.address_of(number)) as wire:
                wire.ask(m.ListGroupsRequest(), 4)
        cluster.kill(1)
        assert [entry.broker for entry in cluster.requests.all("ListGroups")] == [1, 2]
