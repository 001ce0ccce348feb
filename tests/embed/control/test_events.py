"""The event streams of the control API, over HTTP.

They go through embed/control/changes.py, embed/control/log_events.py and embed/control/request_events.py.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest

import kmini
from kmini.broker.journal import request_journal
from kmini.control import event_ring, events
from kmini.control.connected import ConnectedBroker, ConnectedCluster
from support.control_server_thread import ControlServerThread, control_server
from support.small_client import SmallClient
from support.until import TIMEOUT_S, until

PATH = "/api/v1/events"

Found = tuple[str, dict[str, Any]]


class EventSource:
    """The client's end of a stream: reads what WHATWG's rules make of it."""

    def __init__(self, url: str, query: str = "", headers: dict[str, str] | None = None) -> None:
        self._connection = HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT_S)
        self._connection.request("GET", f"{PATH}?{query}", headers=headers or {})
        self.response = self._connection.getresponse()
        self.last_id = ""
        self.comments = 0
        self.retry_ms = 0
        if self.response.status == 200:
            assert self._block() is None, "the first block has the time of a retry, and the id to begin with"

    def _block(self) -> Found | None:
        """The event of the next block; None for a block without data. Raises EOFError."""
        name, data = "message", []
        while (line := self.response.readline()) not in (b"\n", b"\r\n"):
            if not line:
                raise EOFError
            field, _, value = line.decode().rstrip("\r\n").partition(": ")
            if field == "id":
                self.last_id = value
            elif field == "event":
                name = value
            elif field == "data":
                data.append(value)
            elif field == "retry":
                self.retry_ms = int(value)
            else:
                assert (field, value) == ("", "keep-alive")
                self.comments += 1
        return (name, json.loads("\n".join(data))) if data else None

    def next(self) -> Found:
        """The next event."""
        while (found := self._block()) is None:
            pass
        return found

    def until(self, name: str, **expected: Any) -> dict[str, Any]:
        """The data of the next event of this name with these members."""
        while True:
            found, data = self.next()
            if found == name and expected.items() <= data.items():
                return data

    def until_comment(self) -> None:
        """Wait for a keep-alive."""
        before = self.comments
        while self.comments == before:
            assert self._block() is None

    def close(self) -> None:
        self.response.close()
        self._connection.close()


@pytest.fixture(scope="module")
def server() -> Iterator[ControlServerThread]:
    with control_server(config={"group.initial.rebalance.delay.ms": "0"}) as running:
        yield running


@pytest.fixture(scope="module")
def connected(server: ControlServerThread) -> Iterator[ConnectedBroker]:
    broker = kmini.connect(server.url)
    assert isinstance(broker, ConnectedBroker)
    with broker:
        yield broker


@pytest.fixture
def broker(server: ControlServerThread, connected: ConnectedBroker) -> Iterator[ConnectedBroker]:
    """A broker with the topic `orders`, which has two partitions. The test leaves no stream."""
    connected.create_topic("orders", 2)
    yield connected
    until_left(server)
    connected.reset()


@pytest.fixture
def stream(server: ControlServerThread, broker: ConnectedBroker) -> Iterator[Callable[..., EventSource]]:
    """Opens streams, which end with the test."""
    with streams(server) as opened:
        yield opened


@contextmanager
def streams(server: ControlServerThread) -> Iterator[Callable[..., EventSource]]:
    opened: list[EventSource] = []

    def new(query: str = "", headers: dict[str, str] | None = None) -> EventSource:
        opened.append(EventSource(server.url, query, headers))
        return opened[-1]

    yield new
    for one in opened:
        one.close()


def on_loop(server: ControlServerThread, function: Callable[[], Any]) -> Any:
    async def called() -> Any:
        return function()

    return server.thread.run(called(), deadline_s=TIMEOUT_S)


def watchers(server: ControlServerThread) -> dict[str, int]:
    """What watches for the sake of streams."""

    def count() -> dict[str, int]:
        brokers = server.steered.brokers
        looks = [task for task in asyncio.all_tasks() if "_keep_looking" in repr(task.get_coro())]
        return {
            "tasks": len(looks),
            "logs": sum(len(one.maintenance._listeners) - 1 for one in brokers),  # the cleaner listens always
            "resets": sum(len(one.on_reset) - 1 for one in brokers),  # the fault rules
            "transactions": sum(len(one.transactions.watchers) for one in brokers),
            "journal": sum(len(one.services.journal.watchers) for one in brokers if one.services.journal),
            "streams": len(server.server.events._streams),
        }

    counted: dict[str, int] = on_loop(server, count)
    return counted


def until_left(server: ControlServerThread) -> None:
    """Wait until nothing is left of any stream."""
    until(lambda: not any(watchers(server).values()), lambda: watchers(server))


def client(server: ControlServerThread, name: str = "app") -> SmallClient:
    (broker,) = server.steered.brokers
    return SmallClient(broker.address, name)


Open = Callable[..., EventSource]


# --- what is told


def test_a_stream_begins_with_the_time_of_a_retry_and_an_id(stream: Open) -> None:
    source = stream()
    assert source.response.getheader("Content-Type") == "text/event-stream; charset=utf-8"
    assert source.response.getheader("Cache-Control") == "no-store"
    assert source.retry_ms == 1_000
    assert int(source.last_id) > 0


def test_records_are_told_with_their_offsets_and_without_their_payload(stream: Open, broker: ConnectedBroker) -> None:
    broker.produce("orders", b"before")
    source = stream("types=records")
    broker.topic("orders").produce(b"secret", partition=1)
    name, data = source.next()
    assert name == "records"
    assert data == {"topic": "orders", "partition": 1, "from": 0, "to": 0, "high_watermark": 1}
    broker.produce("orders", b"secret")
    assert source.next()[1] == {"topic": "orders", "partition": 0, "from": 1, "to": 1, "high_watermark": 2}


def test_a_burst_is_told_whole(stream: Open, broker: ConnectedBroker) -> None:
    source = stream("types=records")
    for _ in range(50):
        broker.produce("orders", b"v")
    following = 0
    while following < 50:
        name, data = source.next()
        assert (name, data["from"]) == ("records", following)
        following = data["to"] + 1


def test_topics_are_told_created_altered_rolled_compacted_and_deleted(stream: Open, broker: ConnectedBroker) -> None:
    source = stream("types=topics")
    broker.create_topic("users", 1, configs={"cleanup.policy": "compact"})
    created = {"topic": "users", "partitions": 1, "replication_factor": 1, "is_internal": False}
    assert source.next() == ("topic-created", created)
    for value in (b"1", b"2"):
        broker.produce("users", value, key=b"k")
    broker.topic("users").compact()
    assert source.until("segments-rolled", topic="users")["active_base_offset"] == 2
    assert source.until("compacted", topic="users")["clean_up_to"] == 2
    broker.produce("orders", b"v")
    broker.topic("orders").delete_records(before=1, partition=0)
    assert source.until("log-start-moved", topic="orders")["to"] == 1
    broker.delete_topic("users")
    assert source.until("topic-deleted") == {"topic": "users"}


def test_answered_requests_are_told_in_short(
    stream: Open, server: ControlServerThread, broker: ConnectedBroker
) -> None:
    source = stream("types=requests")
    with client(server) as app:
        assert app.produce("orders") == 0
        app.metadata("nowhere", creates=False)
        data = source.until("request", api="Produce")
        assert (data["client_id"], data["topics"], data["errors"]) == ("app", {"orders": {"0": 1}}, [])
        assert data["ms"] > 0
        assert source.until("request", api="Metadata")["errors"] == ["UNKNOWN_TOPIC_OR_PARTITION"]


def test_a_request_is_told_when_it_is_answered(
    stream: Open, server: ControlServerThread, broker: ConnectedBroker
) -> None:
    held = broker.faults.on("Produce", name="held").hold()
    source = stream("types=requests,faults")
    with client(server, "held") as slow, client(server, "quick") as quick:
        thread = threading.Thread(target=slow.produce, args=("orders",))
        thread.start()
        held.arrived()
        assert source.until("rule-held", rule="held")["new"] == 1
        quick.metadata("orders")
        assert source.until("request")["client_id"] == "quick"
        held.release()
        assert source.until("request", api="Produce")["rules"] == ["held"]
        thread.join()


def test_groups_are_told_with_state_and_generation(
    stream: Open, server: ControlServerThread, broker: ConnectedBroker
) -> None:
    source = stream("types=groups")
    with client(server) as app:
        app.subscribe("billing", "orders")
        stable = source.until("group", group="billing", state="Stable")
        assert (stable["generation"], stable["members"]) == (1, 1)
        app.leave("billing")
        empty = source.until("group", group="billing", state="Empty")
        assert (empty["was"]["state"], empty["members"]) == ("Stable", 0)


def test_each_transaction_is_told_however_short(
    stream: Open, server: ControlServerThread, broker: ConnectedBroker
) -> None:
    with client(server) as app:
        app.begin("tx-1", "orders")
        app.end()
        source = stream("types=transactions")
        for commits in (True, False):
            app.begin("tx-1", "orders")
            assert source.until("transaction-began")["transactional_id"] == "tx-1"
            assert app.end(commits=commits) == 0
            ended = source.until("transaction-ended", transactional_id="tx-1")
            assert ended["outcome"] == ("commit" if commits else "abort")


def test_moves_of_the_clock_are_told(stream: Open, broker: ConnectedBroker) -> None:
    source = stream("types=clock")
    broker.clock.advance("7d")
    assert source.until("clock-moved")["by_ms"] == 7 * 86_400_000
    broker.clock.turn_back("1h")
    data = source.until("clock-moved")
    assert (data["by_ms"], data["ahead_ms"]) == (-3_600_000, 7 * 86_400_000 - 3_600_000)


def test_rules_are_told_set_hit_and_removed(stream: Open, server: ControlServerThread, broker: ConnectedBroker) -> None:
    source = stream("types=faults")
    rule = broker.faults.on("Produce", name="lost").error("NOT_LEADER_OR_FOLLOWER")
    assert source.until("rule-set") == {"rule": "lost"}
    with client(server) as app:
        app.produce("orders")
    assert source.until("rule-hit") == {"rule": "lost", "hits": 1, "new": 1}
    rule.remove()
    assert source.until("rule-removed")["hits"] == 1


def test_clients_are_told_connected_and_disconnected(
    stream: Open, server: ControlServerThread, broker: ConnectedBroker
) -> None:
    source = stream("types=clients")
    with client(server, "app") as app:
        app.metadata("orders")
        data = source.until("client-connected", client_id="app")
    gone = source.until("client-disconnected", client_id="app")
    assert gone["address"] == data["address"]


def test_a_stream_about_a_topic_is_told_of_no_other(stream: Open, broker: ConnectedBroker) -> None:
    source = stream("topic=orders&types=records,topics,clock")
    broker.create_topic("other")
    broker.produce("other", b"v")
    broker.produce("orders", b"v")
    assert source.next()[1]["topic"] == "orders"
    broker.clock.advance("1s")
    assert source.next()[0] == "clock-moved", "what is about no topic is told"


@pytest.mark.parametrize("kind", ["topic", "client", "group"])
def test_a_hostile_name_forges_no_event(
    stream: Open, server: ControlServerThread, broker: ConnectedBroker, kind: str
) -> None:
    name = 'x\n\nid: 1\nevent: forged\ndata: {"a": 1}\r\n\r\n\u2028\x00"'
    source = stream("types=requests,groups,clients,clock")
    with client(server, name if kind == "client" else "app") as app:
        if kind == "group":
            app.subscribe(name, "orders")
        app.metadata(name if kind == "topic" else "orders", creates=False)
    broker.clock.advance("1s")
    seen: list[Found] = []
    while not seen or seen[-1][0] != "clock-moved":
        seen.append(source.next())
    expected = {"request", "client-connected", "client-disconnected", "group", "clock-moved"}
    assert {found for found, _ in seen} <= expected
    member = {"topic": "topics", "client": "client_id", "group": "group"}[kind]
    told = [data.get(member) for _, data in seen]
    assert name in told or {name: {}} in told


# --- what outlasts what


def test_a_stream_goes_on_over_a_reset_and_a_restore(stream: Open, broker: ConnectedBroker) -> None:
    broker.produce("orders", b"v")
    saved = broker.snapshot("saved")
    source = stream("types=topics,records")
    broker.reset()
    assert source.next()[0] == "reset"
    broker.create_topic("orders", 1)
    assert source.until("topic-created")["topic"] == "orders"
    broker.restore(saved)
    source.until("reset")
    assert source.until("topic-created")["partitions"] == 2
    assert source.until("records")["to"] == 0


def test_a_stream_goes_on_over_a_stop_and_a_start(
    stream: Open, server: ControlServerThread, broker: ConnectedBroker
) -> None:
    source = stream("types=brokers,records")
    server.thread.run(server.steered.stop(), deadline_s=TIMEOUT_S)
    assert source.next()[0] == "broker-down"
    server.thread.run(server.steered.start(), deadline_s=TIMEOUT_S)
    assert source.next()[0] == "broker-up"
    broker.produce("orders", b"v")
    assert source.next()[0] == "records"


def test_a_stream_goes_on_over_a_crash(stream: Open, broker: ConnectedBroker) -> None:
    source = stream("types=brokers,records")
    broker.crash()
    assert [source.next()[0], source.next()[0]] == ["broker-down", "broker-up"]
    broker.produce("orders", b"v")
    assert source.next()[0] == "records"


def test_a_client_that_comes_back_is_told_what_it_missed(
    stream: Open, server: ControlServerThread, broker: ConnectedBroker
) -> None:
    source = stream("types=records,topics,requests")
    broker.produce("orders", b"1")
    source.until("records")
    source.close()
    until_left(server)
    broker.produce("orders", b"2")
    broker.create_topic("new")
    with client(server) as app:
        app.metadata("orders")
    for headers, query in (({"Last-Event-ID": source.last_id}, ""), ({}, f"&last_event_id={source.last_id}")):
        again = stream(f"types=records,topics,requests{query}", headers)
        missed = [again.next() for _ in range(3)]
        assert {name for name, _ in missed} == {"records", "topic-created", "request"}
        assert next(data for name, data in missed if name == "records")["from"] == 1


def test_a_new_stream_is_told_nothing_of_before(
    stream: Open, server: ControlServerThread, broker: ConnectedBroker
) -> None:
    stream("types=records,requests").close()
    until_left(server)
    with client(server) as app:
        app.produce("orders")
    source = stream("types=records,requests,clock")
    broker.clock.advance("1s")
    assert source.next()[0] == "clock-moved"


# --- what is lost


def test_what_the_ring_has_dropped_is_told_with_its_number(
    stream: Open, broker: ConnectedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_ring, "MOST_EVENTS", 3)
    source = stream("types=clock,topics")
    first = source.last_id
    for number in range(5):
        broker.clock.advance("1s")
        source.until("clock-moved")
        if number < 2:
            broker.create_topic(f"t{number}")
            source.until("topic-created")
    again = stream("types=clock,topics", {"Last-Event-ID": first})
    assert again.next() == ("dropped", {"lost": 2, "types": ["clock"]})
    names = [again.next()[0] for _ in range(5)]
    assert sorted(names) == ["clock-moved"] * 3 + ["topic-created"] * 2, "each type has its own room"


def test_an_id_of_another_server_is_told_as_dropped(stream: Open) -> None:
    for last in ("1", "999999999999999999"):
        name, data = stream("types=clock", {"Last-Event-ID": last}).next()
        assert (name, data["lost"], data["types"]) == ("dropped", None, ["clock"])


def test_requests_that_the_journal_has_lost_are_told_as_dropped(
    stream: Open, server: ControlServerThread, broker: ConnectedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = stream("types=requests")
    last = source.last_id
    source.close()
    until_left(server)
    with client(server) as app:
        for _ in range(7):
            app.metadata("orders")
    journal = server.steered.operations.any_broker().services.journal
    assert isinstance(journal, request_journal.RequestJournal)
    on_loop(server, lambda: [journal.entries.popleft() for _ in range(5)])
    again = stream("types=requests", {"Last-Event-ID": last})
    name, data = again.next()
    assert (name, data["types"]) == ("dropped", ["requests"])
    assert data["lost"] >= 5
    assert again.next()[0] == "request"


def test_a_slow_reader_is_told_how_much_it_lost(
    stream: Open, server: ControlServerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_ring, "MOST_EVENTS", 4)
    source, total = stream("types=clock"), 40
    megabyte = "x" * 1_000_000  # the buffers of both ends have room for some of these

    def tell(number: int) -> None:
        server.server.events._ring.add("clock", "clock-moved", {"number": number, "filler": megabyte})
        for one in server.server.events._streams:
            one.wake.set()

    for number in range(total):
        on_loop(server, lambda number=number: tell(number))
    had: list[int] = []
    lost = 0
    while not had or had[-1] < total - 1:
        name, data = source.next()
        if name == "dropped":
            assert data["types"] == ["clock"]
            lost += data["lost"]
        else:
            had.append(data["number"])
    assert had == sorted(had)
    assert lost > 0
    assert len(had) + lost == total


# --- streams as such


def test_a_silent_stream_has_a_comment_every_15_s_of_liveness(
    stream: Open, broker: ConnectedBroker, server: ControlServerThread
) -> None:
    source = stream("types=transactions")
    broker.clock.advance("16s", liveness=True)
    source.until_comment()
    broker.clock.advance("16s", liveness=True)
    source.until_comment()


def test_streams_share_a_watcher_and_leave_nothing(stream: Open, server: ControlServerThread) -> None:
    assert not any(watchers(server).values())
    one, two = stream(), stream("types=requests")
    shared = watchers(server)
    assert (shared["tasks"], shared["logs"], shared["resets"], shared["streams"]) == (1, 1, 1, 2)
    assert shared["journal"] == 0, "requests pay nothing"
    one.close()
    until(lambda: watchers(server)["streams"] == 1)
    assert watchers(server)["tasks"] == 1
    two.close()
    until_left(server)


@pytest.mark.parametrize("how", ["reset", "crash", "stop and start"])
def test_nothing_is_left_after_the_broker_began_anew(
    stream: Open, server: ControlServerThread, broker: ConnectedBroker, how: str
) -> None:
    source = stream("types=brokers")
    before = on_loop(server, lambda: server.steered.brokers[0].maintenance)
    if how == "reset":
        broker.reset()
        source.until("reset")
    elif how == "crash":
        broker.crash()
        source.until("broker-up")
    else:
        server.thread.run(server.steered.stop(), deadline_s=TIMEOUT_S)
        server.thread.run(server.steered.start(), deadline_s=TIMEOUT_S)
        source.until("broker-up")
    assert len(before._listeners) == 1
    assert watchers(server)["logs"] == 1
    source.close()
    until_left(server)


def test_a_server_that_stops_ends_its_streams() -> None:
    with control_server() as server:
        source = EventSource(server.url)
    with pytest.raises(EOFError):
        source.next()
    source.close()


def test_the_number_of_streams_is_bounded(
    stream: Open, server: ControlServerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "MOST_STREAMS", 2)
    first, _ = stream(), stream()
    refused = stream()
    assert refused.response.status == 429
    problem = json.loads(refused.response.read())
    assert (problem["type"], problem["status"]) == ("urn:kmini:problem:too-many", 429)
    first.close()
    until(lambda: watchers(server)["streams"] == 1)
    assert stream().response.status == 200


@pytest.mark.parametrize(
    ("query", "pointer"),
    [("types=request", "/types"), ("types=", "/types"), ("topics=a", "/topics"), ("last_event_id=x", "/last_event_id")],
)
def test_wrong_arguments_are_refused(stream: Open, query: str, pointer: str) -> None:
    source = stream(query)
    assert source.response.status == 422
    assert json.loads(source.response.read())["errors"][0]["pointer"] == pointer


def test_a_stream_needs_the_token() -> None:
    with control_server(token="secret") as server, streams(server) as opened:
        assert opened().response.status == 401
        assert opened("", {"Authorization": "Bearer secret"}).response.status == 200
        foreign = opened("", {"Authorization": "Bearer secret", "Origin": "http://elsewhere"})
        assert foreign.response.status == 403


def test_a_client_that_breaks_off_leaves_nothing(server: ControlServerThread, broker: ConnectedBroker) -> None:
    parts = urlsplit(server.url)
    for _ in range(5):
        with socket.create_connection((str(parts.hostname), parts.port or 0), timeout=TIMEOUT_S) as raw:
            raw.sendall(f"GET {PATH} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
            assert raw.recv(1)
    until_left(server)


def test_the_events_of_a_cluster_tell_leaders_isr_and_brokers() -> None:
    with control_server(3) as server, kmini.connect(server.url) as cluster, streams(server) as opened:
        assert isinstance(cluster, ConnectedCluster)
        cluster.create_topic("orders", 1, replication_factor=3)
        leader = cluster.leader("orders")
        source = opened("types=brokers")
        cluster.kill(leader)
        seen = [source.next() for _ in range(3)]
        names = {name for name, _ in seen}
        assert names == {"broker-down", "leader-changed", "isr-changed"}
        assert next(data for name, data in seen if name == "leader-changed")["was"] == leader
        cluster.restart(leader)
        source.until("broker-up", broker=leader)
        assert leader in source.until("isr-changed")["isr"]


def test_the_document_describes_the_stream(server: ControlServerThread) -> None:
    connection = HTTPConnection(urlsplit(server.url).netloc, timeout=TIMEOUT_S)
    connection.request("GET", "/api/v1/openapi.json")
    document = json.loads(connection.getresponse().read())
    connection.close()
    operation = document["paths"][PATH]["get"]
    (types,) = [one for one in operation["parameters"] if one["name"] == "types"]
    assert types["schema"]["items"]["enum"] == list(event_ring.TYPES)
