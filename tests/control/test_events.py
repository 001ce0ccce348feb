"""The event streams of the control API as such: what outlasts what, what is lost, and what they leave behind."""

from __future__ import annotations

import json
import socket
import struct
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from kmini.broker.journal import request_journal
from kmini.control import event_ring, events
from kmini.control.connected import ConnectedBroker
from support.control_api import ControlApi, control_api
from support.event_source import PATH, EventSource, Open, client, streams, until_left, watchers
from support.until import TIMEOUT_S, until

# --- what outlasts what


def test_a_stream_goes_on_over_a_reset_and_a_restore(stream: Open, broker: ConnectedBroker) -> None:
    broker.produce("orders", b"v")
    saved = broker.snapshot("saved")
    source = stream("types=topics,records")
    broker.reset()
    assert source.next()[0] == "reset"
    broker.create_topic("orders", 1)
    assert source.find("topic-created")["topic"] == "orders"
    broker.restore(saved)
    source.find("reset")
    assert source.find("topic-created")["partitions"] == 2
    assert source.find("records")["to"] == 0


def test_a_stream_goes_on_over_a_stop_and_a_start(stream: Open, server: ControlApi, broker: ConnectedBroker) -> None:
    source = stream("types=brokers,records")
    server.run(server.managed.stop())
    assert source.next()[0] == "broker-down"
    server.run(server.managed.start())
    assert source.next()[0] == "broker-up"
    broker.produce("orders", b"v")
    assert source.next()[0] == "records"


def test_a_stream_goes_on_over_a_crash(stream: Open, broker: ConnectedBroker) -> None:
    source = stream("types=brokers,records")
    broker.crash()
    assert [source.next()[0], source.next()[0]] == ["broker-down", "broker-up"]
    broker.produce("orders", b"v")
    assert source.next()[0] == "records"


def test_a_client_that_has_left_before_its_stream_begins_is_no_failure(
    server: ControlApi, broker: ConnectedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(20):
        with server.raw() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.sendall(f"GET {PATH} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert broker.topics() == ["orders"]
    until_left(server)
    assert not [record for record in caplog.records if record.name == "kmini.http"]


def test_a_client_that_comes_back_is_told_what_it_missed(
    stream: Open, server: ControlApi, broker: ConnectedBroker
) -> None:
    source = stream("types=records,topics,requests")
    broker.produce("orders", b"1")
    source.find("records")
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


def test_a_new_stream_is_told_nothing_of_before(stream: Open, server: ControlApi, broker: ConnectedBroker) -> None:
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
        source.find("clock-moved")
        if number < 2:
            broker.create_topic(f"t{number}")
            source.find("topic-created")
    again = stream("types=clock,topics", {"Last-Event-ID": first})
    assert again.next() == ("dropped", {"lost": 2, "types": ["clock"]})
    names = [again.next()[0] for _ in range(5)]
    assert sorted(names) == ["clock-moved"] * 3 + ["topic-created"] * 2, "each type has its own room"


def test_an_id_of_another_server_is_told_as_dropped(stream: Open) -> None:
    for last in ("1", "999999999999999999"):
        name, data = stream("types=clock", {"Last-Event-ID": last}).next()
        assert (name, data["lost"], data["types"]) == ("dropped", None, ["clock"])


def test_requests_that_the_journal_has_lost_are_told_as_dropped(
    stream: Open, server: ControlApi, broker: ConnectedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = stream("types=requests")
    last = source.last_id
    source.close()
    until_left(server)
    with client(server) as app:
        for _ in range(7):
            app.metadata("orders")
    journal = server.managed.operations.any_broker().services.journal
    assert isinstance(journal, request_journal.RequestJournal)
    server.call(lambda: [journal.entries.popleft() for _ in range(5)])
    again = stream("types=requests", {"Last-Event-ID": last})
    name, data = again.next()
    assert (name, data["types"]) == ("dropped", ["requests"])
    assert data["lost"] >= 5
    assert again.next()[0] == "request"


def test_a_slow_reader_is_told_how_much_it_lost(
    stream: Open, server: ControlApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_ring, "MOST_EVENTS", 4)
    source, total = stream("types=clock"), 40
    megabyte = "x" * 1_000_000  # the buffers of both ends have room for some of these

    def tell(number: int) -> None:
        server.server.events._ring.add("clock", "clock-moved", {"number": number, "filler": megabyte})
        for one in server.server.events._streams:
            one.wake.set()

    for number in range(total):
        server.call(lambda number=number: tell(number))
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


def test_a_stream_begins_with_the_time_of_a_retry_and_an_id(stream: Open) -> None:
    source = stream()
    assert source.response.getheader("Content-Type") == "text/event-stream; charset=utf-8"
    assert source.response.getheader("Cache-Control") == "no-store"
    assert source.retry_ms == 1_000
    assert int(source.last_id) > 0


def test_a_silent_stream_has_a_comment_every_15_s_of_liveness(
    stream: Open, broker: ConnectedBroker, server: ControlApi
) -> None:
    source = stream("types=transactions")
    broker.clock.advance("16s", liveness=True)
    source.find_comment()
    broker.clock.advance("16s", liveness=True)
    source.find_comment()


def test_streams_share_a_watcher_and_leave_nothing(stream: Open, server: ControlApi) -> None:
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
    stream: Open, server: ControlApi, broker: ConnectedBroker, how: str
) -> None:
    source = stream("types=brokers")
    before = server.call(lambda: server.managed.brokers[0].maintenance)
    if how == "reset":
        broker.reset()
        source.find("reset")
    elif how == "crash":
        broker.crash()
        source.find("broker-up")
    else:
        server.run(server.managed.stop())
        server.run(server.managed.start())
        source.find("broker-up")
    assert len(before._listeners) == 1
    assert watchers(server)["logs"] == 1
    source.close()
    until_left(server)


def test_a_server_that_stops_ends_its_streams() -> None:
    with control_api() as server:
        source = EventSource(server.url)
    with pytest.raises(EOFError):
        source.next()
    source.close()


def test_the_number_of_streams_is_bounded(stream: Open, server: ControlApi, monkeypatch: pytest.MonkeyPatch) -> None:
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
    with control_api(token="secret") as server, streams(server) as opened:
        assert opened().response.status == 401
        assert opened("", {"Authorization": "Bearer secret"}).response.status == 200
        foreign = opened("", {"Authorization": "Bearer secret", "Origin": "http://elsewhere"})
        assert foreign.response.status == 403


def test_a_client_that_breaks_off_leaves_nothing(server: ControlApi, broker: ConnectedBroker) -> None:
    parts = urlsplit(server.url)
    for _ in range(5):
        with socket.create_connection((str(parts.hostname), parts.port or 0), timeout=TIMEOUT_S) as raw:
            raw.sendall(f"GET {PATH} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
            assert raw.recv(1)
    until_left(server)


def test_the_document_describes_the_stream(server: ControlApi) -> None:
    connection = HTTPConnection(urlsplit(server.url).netloc, timeout=TIMEOUT_S)
    connection.request("GET", "/api/v1/openapi.json")
    document = json.loads(connection.getresponse().read())
    connection.close()
    operation = document["paths"][PATH]["get"]
    (types,) = [one for one in operation["parameters"] if one["name"] == "types"]
    assert types["schema"]["items"]["enum"] == list(event_ring.TYPES)
