"""What Kafka's own share consumer (KIP-932) does when a request fails, as `broker.faults` makes it fail, and when locks
and deliveries come to their end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from kmini import Broker
from support.java_clients import JavaClients, JavaError, JavaShareConsumer
from support.until import until

GROUP = "workers"
LOCK = "31s"

Join = Callable[[], JavaShareConsumer]


@pytest.fixture(autouse=True)
def _leaky_clients() -> None:
    """These clients leave no sockets in this process: a test need not collect them."""


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics=["orders"], journal=True) as running:
        yield running


@pytest.fixture
def join(broker: Broker, java_clients: JavaClients) -> Iterator[Join]:
    """Makes members of the group, which begins at the earliest offset."""
    with java_clients.admin(broker.bootstrap_servers) as admin, ExitStack() as stack:
        admin.set(GROUP, "share.auto.offset.reset", "earliest")
        admin.set(GROUP, "share.delivery.count.limit", "2")

        def join() -> JavaShareConsumer:
            member = stack.enter_context(java_clients.share_consumer(broker.bootstrap_servers, group_id=GROUP))
            member.subscribe("orders")
            return member

        yield join


@pytest.fixture
def member(broker: Broker, join: Join) -> JavaShareConsumer:
    """A member that reads: it has accepted a record."""
    made = join()
    accept(broker, made, "first")
    return made


def accept(broker: Broker, member: JavaShareConsumer, value: str) -> None:
    """Produce a record, and let the member accept it."""
    broker.produce("orders", value.encode())
    assert member.poll_some() == {value: 1}
    member.acknowledge(value)
    assert member.commit() == []


def errors_of(broker: Broker, api: str) -> list[str]:
    return [error for entry in broker.requests.all(api, group=GROUP) for error in entry.errors]


def in_flight(broker: Broker) -> list[tuple[str, int]]:
    """State and delivery count of the records in flight."""
    (partition,) = broker.group(GROUP).describe().share_partitions
    return [(records.state, records.delivery_count) for records in partition.in_flight or ()]


# --- fetches


@pytest.mark.parametrize("error", ["SHARE_SESSION_NOT_FOUND", "INVALID_SHARE_SESSION_EPOCH"])
def test_a_member_whose_session_is_lost_begins_another_one(
    broker: Broker, member: JavaShareConsumer, error: str
) -> None:
    rule = broker.faults.on("ShareFetch", group=GROUP).once().error(error)
    until(lambda: (member.poll(), rule.hits)[1])
    accept(broker, member, "second")
    assert errors_of(broker, "ShareFetch") == [error]


@pytest.mark.parametrize("error", ["NOT_LEADER_OR_FOLLOWER", "KAFKA_STORAGE_ERROR", "UNKNOWN_TOPIC_OR_PARTITION"])
def test_a_partition_that_cannot_be_read_for_a_while_is_read_then(
    broker: Broker, member: JavaShareConsumer, error: str
) -> None:
    rule = broker.faults.on("ShareFetch", topic="orders").times(2).error(error)
    until(lambda: (member.poll(), rule.hits == 2)[1])
    # Only now: a fetch that came before the rule, and waits, would take the record.
    broker.produce("orders", b"second")
    assert member.poll_some() == {"second": 1}
    assert errors_of(broker, "ShareFetch") == [error] * 2


def test_a_member_without_a_session_asks_until_there_is_room(broker: Broker, join: Join) -> None:
    rule = broker.faults.on("ShareFetch", group=GROUP).times(2).error("SHARE_SESSION_LIMIT_REACHED")
    accept(broker, join(), "first")
    rule.assert_hit(times=2)


def test_a_share_coordinator_that_is_away_is_thrown_and_the_next_poll_reads_on(
    broker: Broker, member: JavaShareConsumer
) -> None:
    """Java's client does not know the error, which brokers of Apache Kafka answer as well."""
    broker.faults.on("ShareFetch", topic="orders").once().error("COORDINATOR_NOT_AVAILABLE")
    with pytest.raises(JavaError, match="IllegalStateException: Unexpected error code 15"):
        member.poll_some()
    broker.produce("orders", b"second")
    assert member.poll_some() == {"second": 1}


def test_acknowledgements_of_a_fetch_that_fails_are_not_done(broker: Broker, member: JavaShareConsumer) -> None:
    broker.produce("orders", b"second")
    assert member.poll_some() == {"second": 1}
    member.acknowledge("second")
    rule = broker.faults.on("ShareFetch", topic="orders").error("NOT_LEADER_OR_FOLLOWER")
    # The member may have sent a fetch ahead, without acknowledgements; one with them names their topic.
    until(lambda: (member.poll(), any(entry.errors and entry.topics for entry in broker.requests.all("ShareFetch")))[1])
    rule.remove()
    assert in_flight(broker) == [("ACQUIRED", 1)]
    broker.clock.advance(LOCK, liveness=True)
    assert member.poll_some() == {"second": 2}


# --- acknowledgements


@pytest.mark.parametrize("error", ["COORDINATOR_NOT_AVAILABLE", "KAFKA_STORAGE_ERROR"])
def test_an_acknowledgement_is_sent_again_after_a_retriable_error(
    broker: Broker, member: JavaShareConsumer, error: str
) -> None:
    broker.produce("orders", b"second")
    assert member.poll_some() == {"second": 1}
    broker.faults.on("ShareAcknowledge", topic="orders").times(2).error(error)
    member.acknowledge("second")
    assert member.commit() == []
    assert errors_of(broker, "ShareAcknowledge") == [error] * 2
    broker.group(GROUP).caught_up("orders")


REFUSED = {
    "INVALID_RECORD_STATE": "InvalidRecordStateException",
    "NOT_LEADER_OR_FOLLOWER": "NotLeaderOrFollowerException",
    "SHARE_SESSION_NOT_FOUND": "NotLeaderOrFollowerException",
    "INVALID_SHARE_SESSION_EPOCH": "NotLeaderOrFollowerException",
}
"""What Java's client says of an acknowledgement that it does not send again."""


@pytest.mark.parametrize("error", REFUSED)
def test_an_acknowledgement_that_is_refused_is_told_and_the_record_comes_again(
    broker: Broker, member: JavaShareConsumer, error: str
) -> None:
    broker.produce("orders", b"second")
    assert member.poll_some() == {"second": 1}
    broker.faults.on("ShareAcknowledge", group=GROUP).once().error(error)
    member.acknowledge("second")
    assert member.commit() == [REFUSED[error]]
    assert in_flight(broker) == [("ACQUIRED", 1)]
    broker.clock.advance(LOCK, liveness=True)
    assert member.poll_some() == {"second": 2}
    member.acknowledge("second")
    assert member.commit() == []


# --- heartbeats


@pytest.mark.parametrize("error", ["COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"])
def test_a_member_joins_in_spite_of_a_passing_error(broker: Broker, join: Join, error: str) -> None:
    rule = broker.faults.on("ShareGroupHeartbeat", group=GROUP).times(2).error(error)
    accept(broker, join(), "first")
    rule.assert_hit(times=2)


@pytest.mark.parametrize("error", ["FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID"])
def test_a_member_that_is_fenced_joins_again_and_reads_on(
    broker: Broker, member: JavaShareConsumer, error: str
) -> None:
    rule = broker.faults.on("ShareGroupHeartbeat", group=GROUP).once().error(error)
    until(lambda: (member.poll(), rule.hits)[1])
    accept(broker, member, "second")
    broker.group(GROUP).stable(members=1)


def test_a_member_that_is_expelled_joins_again_and_reads_on(broker: Broker, member: JavaShareConsumer) -> None:
    (me,) = broker.group(GROUP).describe().members
    broker.group(GROUP).expel(me.member_id)
    accept(broker, member, "second")


@pytest.mark.parametrize(
    ("error", "thrown"),
    [
        ("GROUP_MAX_SIZE_REACHED", "GroupMaxSizeReachedException"),
        ("GROUP_AUTHORIZATION_FAILED", "GroupAuthorizationException"),
        ("UNSUPPORTED_VERSION", "UnsupportedVersionException"),
    ],
)
def test_a_member_that_may_not_join_is_told(broker: Broker, join: Join, error: str, thrown: str) -> None:
    broker.faults.on("ShareGroupHeartbeat", group=GROUP).error(error)
    member = join()
    with pytest.raises(JavaError, match=thrown):
        member.poll_some()


# --- locks and deliveries


def test_a_record_that_is_released_too_often_is_archived(broker: Broker, member: JavaShareConsumer) -> None:
    broker.produce("orders", b"bad")
    for count in (1, 2):
        assert member.poll_some() == {"bad": count}
        member.acknowledge("bad", as_="RELEASE")
        assert member.commit() == []
    broker.group(GROUP).caught_up("orders")
    accept(broker, member, "good")


def test_a_record_whose_lock_ends_too_often_is_archived(broker: Broker, join: Join) -> None:
    broker.produce("orders", b"bad")
    first, second = join(), join()
    assert first.poll_some() == {"bad": 1}
    broker.clock.advance(LOCK, liveness=True)
    # The first member may have sent another fetch, which waits at the broker and takes the record earlier.
    until(lambda: (second.poll(), in_flight(broker))[1] == [("ACQUIRED", 2)], poll_s=0)
    broker.clock.advance(LOCK, liveness=True)
    broker.group(GROUP).caught_up("orders")
    broker.produce("orders", b"good")
    assert {*join().poll_some()} == {"good"}  # for the second time where a fetch ahead of the others had taken it
