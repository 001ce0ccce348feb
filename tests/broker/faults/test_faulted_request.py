"""What becomes of a request on which rules act, seen on the wire."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import pytest

from kmini import Broker
from kmini.protocol import messages as m
from kmini.testing import ConnectionClosed, Wire
from support.fault_rules import codes_of, fetch, produce
from support.until import until

pytestmark = pytest.mark.sockets

NOT_LEADER, TIMED_OUT, TOO_LARGE = 6, 7, 10


def end_offset(broker: Broker, topic: str = "orders") -> int:
    return broker.topic(topic).offsets()[0].log_end_offset


def test_the_newest_rule_decides_and_the_other_one_has_not_acted(broker: Broker, wire: Wire) -> None:
    older = broker.faults.on("Produce", topic="orders").once().error("REQUEST_TIMED_OUT")
    newer = broker.faults.on("Produce").once().error("NOT_LEADER_OR_FOLLOWER")
    assert codes_of(wire.ask(produce("orders"), 9)) == {"orders": NOT_LEADER}
    assert (older.hits, newer.hits, older.seen) == (0, 1, 1)
    assert codes_of(wire.ask(produce("orders"), 9)) == {"orders": TIMED_OUT}


def test_errors_of_several_rules_fail_their_own_topics(broker: Broker, wire: Wire) -> None:
    broker.faults.on("Produce", topic="orders").error("NOT_LEADER_OR_FOLLOWER")
    broker.faults.on("Produce", topic="other").error("MESSAGE_TOO_LARGE")
    before = end_offset(broker)
    assert codes_of(wire.ask(produce("orders", "other"), 9)) == {"orders": NOT_LEADER, "other": TOO_LARGE}
    assert end_offset(broker) == before
    broker.faults.assert_all_hit()


def test_delays_and_throttles_of_several_rules_add_up(broker: Broker, wire: Wire) -> None:
    for when in ("before", "after"):
        broker.faults.on("Heartbeat").delay("20ms", when=when)  # type: ignore[arg-type]
    broker.faults.on("Heartbeat").throttle(100)
    broker.faults.on("Heartbeat").throttle("1s")
    began = time.monotonic()
    answer = wire.ask(m.HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 3)
    assert time.monotonic() - began >= 0.038  # deadlines are whole milliseconds, of which each wait has begun one
    assert answer.throttle_time_ms == 1_100


def test_a_throttled_connection_is_answered_at_once_and_served_again_when_its_time_is_over(
    broker: Broker, wire: Wire
) -> None:
    broker.faults.on("ListGroups").once().throttle("5m")
    assert wire.ask(m.ListGroupsRequest(), 2).throttle_time_ms == 300_000
    waiting = wire.send(m.ListGroupsRequest(), 2)
    until(lambda: [client.waits_for for client in broker.clients()] == ["ListGroups throttled"])
    with Wire(broker.bootstrap_servers) as other:
        other.ask(m.ListGroupsRequest(), 2)
    broker.clock.advance("5m", liveness=True)
    wire.receive(m.ListGroupsResponse, 2, waiting)
    wire.ask(m.ListGroupsRequest(), 2)


def test_a_throttled_connection_that_a_reset_spares_is_served_after_it() -> None:
    with Broker() as broker, Wire(broker.bootstrap_servers) as wire:
        broker.faults.on("ListGroups").once().throttle("5m")
        wire.ask(m.ListGroupsRequest(), 2)
        waiting = wire.send(m.ListGroupsRequest(), 2)
        until(lambda: [client.waits_for for client in broker.clients()] == ["ListGroups throttled"])
        assert broker.reset(keep=["wire"]).closed == []
        wire.receive(m.ListGroupsResponse, 2, waiting)


def test_a_delay_passes_with_the_clock_of_liveness(broker: Broker, wire: Wire) -> None:
    rule = broker.faults.on("ListGroups").delay("1m")
    asking = threading.Thread(target=lambda: wire.ask(m.ListGroupsRequest(), 2))
    asking.start()
    rule.wait_hit()
    broker.clock.advance("1m", liveness=True)
    asking.join(30)
    assert not asking.is_alive()


@pytest.mark.parametrize("applied", [False, True])
def test_a_request_that_is_dropped_is_applied_or_not_and_its_connection_says_nothing_more(
    broker: Broker, applied: bool
) -> None:
    before = end_offset(broker)
    with broker.faults.on("Produce").drop(applied=applied) as rule, Wire(broker.bootstrap_servers) as wire:
        wire.send(produce("orders"), 9)
        later = broker.faults.on("ListGroups").delay(0)
        wire.send(m.ListGroupsRequest(), 2)
        rule.wait_hit()
        until(lambda: end_offset(broker) == before + applied)
        assert later.seen == 0


@pytest.mark.parametrize("applied", [False, True])
def test_a_connection_is_closed_before_or_after_the_request_is_applied(broker: Broker, applied: bool) -> None:
    before = end_offset(broker)
    broker.faults.on("Produce").disconnect(applied=applied)
    with Wire(broker.bootstrap_servers) as wire, pytest.raises(ConnectionClosed):
        wire.ask(produce("orders"), 9)
    assert end_offset(broker) == before + applied


def test_a_reset_is_seen_as_one(broker: Broker) -> None:
    broker.faults.on("ListGroups").disconnect(rst=True)
    host, _, port = broker.bootstrap_servers.rpartition(":")
    with socket.create_connection((host, int(port)), 30) as raw:
        raw.sendall(bytes([0, 0, 0, 10, 0, 16, 0, 0, 0, 0, 0, 1, 0xFF, 0xFF]))
        with pytest.raises(ConnectionResetError):
            raw.recv(1)


def test_an_answer_is_cut_off_or_trickles(broker: Broker) -> None:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    request = bytes([0, 0, 0, 10, 0, 16, 0, 0, 0, 0, 0, 1, 0xFF, 0xFF])
    received = []
    for arm in (
        lambda draft: draft.delay(0),
        lambda draft: draft.truncate(7),
        lambda draft: draft.trickle(200),
    ):
        with arm(broker.faults.on("ListGroups")), socket.create_connection((host, int(port)), 30) as raw:
            raw.sendall(request)
            found = raw.recv(100)
            while 0 < len(found) < 14 and (more := raw.recv(100)):
                found += more
            received.append(found)
    whole, cut, slow = received
    assert cut == whole[:7]
    assert slow == whole


def test_a_produce_that_asks_for_no_answer_closes_its_connection_when_it_fails(broker: Broker, wire: Wire) -> None:
    broker.faults.on("Produce").error("NOT_LEADER_OR_FOLLOWER")
    wire.send(produce("orders", acks=0), 9)
    with pytest.raises(ConnectionClosed):
        wire.ask(m.ListGroupsRequest(), 2)


def test_a_function_sees_request_and_answer_and_makes_the_answer(broker: Broker, wire: Wire) -> None:
    def later(request: Any, answer: Any) -> Any:
        assert request.topics is None
        answer.controller_id = 77
        return answer

    rule = broker.faults.on("Metadata").respond(later)
    assert wire.ask(m.MetadataRequest(topics=None), 9).controller_id == 77
    rule.assert_hit(times=1)


def test_a_rule_about_records_has_not_acted_where_there_are_none(broker: Broker, wire: Wire) -> None:
    wire.ask(produce("orders"), 9)
    rule = broker.faults.on("Fetch", topic="orders").once().corrupt("crc")
    wire.ask(fetch(offset=end_offset(broker)), 12)
    assert (rule.hits, rule.seen) == (0, 1)
    wire.ask(fetch(), 12)
    assert (rule.hits, rule.seen) == (1, 2)


def test_an_error_of_a_fetch_does_not_wait_for_records(broker: Broker, wire: Wire) -> None:
    broker.faults.on("Fetch", topic="orders").error("OFFSET_OUT_OF_RANGE")
    answer = wire.ask(fetch(offset=end_offset(broker), max_wait_ms=600_000), 12)  # the wire would give up before
    assert answer.responses[0].partitions[0].error_code == 1


def test_a_journal_has_the_names_of_the_rules_that_acted() -> None:
    with Broker(topics=["orders"], journal=True) as broker, Wire(broker.bootstrap_servers) as wire:
        broker.faults.on("Produce", name="slow").delay(1)
        broker.faults.on("Produce", name="lost").error("REQUEST_TIMED_OUT")
        wire.ask(produce("orders"), 9)
        (entry,) = broker.requests.all(api="Produce")
        assert {*entry.faults} == {"slow", "lost"}


def test_a_broker_stops_while_requests_are_held_dropped_and_delayed() -> None:
    with Broker(topics=["orders"]) as broker:
        wires = [Wire(broker.bootstrap_servers) for _ in range(3)]
        rules = [
            broker.faults.on("ListGroups").hold(),
            broker.faults.on("Produce").drop(),
            broker.faults.on("Metadata").delay("1h"),
        ]
        wires[0].send(m.ListGroupsRequest(), 2)
        wires[1].send(produce("orders"), 9)
        wires[2].send(m.MetadataRequest(topics=None), 9)
        for rule in rules:
            rule.wait_hit()
        broker.stop()  # and not in an hour
    for wire in wires:
        wire.close()
