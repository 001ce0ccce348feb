"""What Kafka's own producers and consumers do when a request fails, as `broker.faults` makes it fail.

The Javadoc of KafkaProducer, of KafkaConsumer and of their exceptions says it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from kmini import Broker
from support import retried_errors
from support.in_order import contains_in_order
from support.java_clients import JavaClients, JavaConsumer, JavaError, JavaProducer
from support.until import until

GROUP = "billing"


@pytest.fixture(autouse=True)
def _leaky_clients() -> None:
    """These clients leave no sockets in this process: a test need not collect them."""


@pytest.fixture
def producer(broker: Broker, java_clients: JavaClients) -> Iterator[JavaProducer]:
    with java_clients.producer(broker.bootstrap_servers) as client:
        yield client


@pytest.fixture
def consumer(broker: Broker, java_clients: JavaClients) -> Iterator[JavaConsumer]:
    with java_clients.consumer(broker.bootstrap_servers, group_id=GROUP) as client:
        yield client


def written(broker: Broker) -> list[str]:
    return [record.text() for record in broker.records("orders")]


def thrown(call: Any, *arguments: Any) -> list[str]:
    """The classes of the exception that a call throws, and of its causes."""
    with pytest.raises(JavaError) as raised:
        call(*arguments)
    return raised.value.thrown


# --- producers


@pytest.mark.parametrize("code", retried_errors.PRODUCE)
def test_a_record_is_sent_again_after_a_retriable_exception(broker: Broker, producer: JavaProducer, code: str) -> None:
    rule = broker.faults.on("Produce", topic="orders").times(2).error(code)
    assert producer.send("orders", "placed") == 0
    rule.assert_hit(times=2)
    assert written(broker) == ["placed"]


FATAL = {
    "MESSAGE_TOO_LARGE": "RecordTooLargeException",
    "TOPIC_AUTHORIZATION_FAILED": "TopicAuthorizationException",
    "CLUSTER_AUTHORIZATION_FAILED": "ClusterAuthorizationException",
    "INVALID_RECORD": "InvalidRecordException",
    "INVALID_TIMESTAMP": "InvalidTimestampException",
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": "UnsupportedForMessageFormatException",
}


@pytest.mark.parametrize("code", FATAL)
def test_an_exception_that_no_retry_mends_is_thrown(broker: Broker, producer: JavaProducer, code: str) -> None:
    rule = broker.faults.on("Produce", topic="orders").error(code)
    assert thrown(producer.send, "orders", "placed") == ["ExecutionException", FATAL[code]]
    rule.assert_hit(times=1)
    assert written(broker) == []


@pytest.mark.parametrize(("idempotent", "times"), [("false", 2), ("true", 1)])
def test_a_lost_answer_makes_a_duplicate_unless_the_producer_is_idempotent(
    broker: Broker, java_clients: JavaClients, idempotent: str, times: int
) -> None:
    rule = broker.faults.produce_succeeds_but_answer_is_lost("orders")
    with java_clients.producer(broker.bootstrap_servers, enable_idempotence=idempotent) as client:
        client.send("orders", "placed")
    rule.assert_hit(times=1)
    assert written(broker) == ["placed"] * times


def test_a_record_expires_whose_answer_never_comes(broker: Broker, java_clients: JavaClients) -> None:
    rule = broker.faults.on("Produce", topic="orders").drop()
    limits = {"delivery_timeout_ms": 300, "request_timeout_ms": 100}  # short: a record may expire at any time
    with java_clients.producer(broker.bootstrap_servers, **limits) as client:

        def expired_at_the_broker() -> bool:
            assert thrown(client.send, "orders", "placed") == ["ExecutionException", "TimeoutException"]
            return rule.hits > 0

        until(expired_at_the_broker)  # on a busy machine a record expires before it is sent
    assert written(broker) == []


def test_a_producer_waits_for_a_topic_that_is_not_known_yet(broker: Broker, producer: JavaProducer) -> None:
    rule = broker.faults.unknown_topic_until("orders", times=2)
    assert producer.send("orders", "placed") == 0
    rule.assert_hit(times=2)


# --- consumers


FETCH_RETRIED = [
    "NOT_LEADER_OR_FOLLOWER",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
    "KAFKA_STORAGE_ERROR",
    "OFFSET_NOT_AVAILABLE",
    "REPLICA_NOT_AVAILABLE",
]


@pytest.mark.parametrize("code", FETCH_RETRIED)
def test_a_fetch_is_repeated_after_a_retriable_error(broker: Broker, consumer: JavaConsumer, code: str) -> None:
    broker.produce("orders", b"placed")
    rule = broker.faults.on("Fetch", topic="orders").times(2).error(code)
    consumer.assign("orders")
    assert consumer.poll_some() == ["placed"]
    rule.assert_hit(times=2)


@pytest.mark.parametrize("code", ["FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH"])
def test_a_fetch_session_begins_anew_where_the_broker_has_lost_it(
    broker: Broker, consumer: JavaConsumer, code: str
) -> None:
    broker.produce("orders", b"placed")
    consumer.assign("orders")
    assert consumer.poll_some() == ["placed"]
    rule = broker.faults.on("Fetch").once().error(code)
    until(lambda: (consumer.poll(), rule.hits)[1])
    broker.produce("orders", b"paid")
    assert consumer.poll_some() == ["paid"]


def test_an_offset_out_of_range_is_reset_or_thrown_as_auto_offset_reset_says(
    broker: Broker, consumer: JavaConsumer, java_clients: JavaClients
) -> None:
    broker.produce("orders", b"placed")
    consumer.assign("orders")
    consumer.seek("orders", 70)
    assert consumer.poll_some() == ["placed"]
    with java_clients.consumer(broker.bootstrap_servers, auto_offset_reset="none") as strict:
        strict.assign("orders")
        strict.seek("orders", 0)
        rule = broker.faults.on("Fetch", topic="orders").once().error("OFFSET_OUT_OF_RANGE")
        assert thrown(strict.poll_some) == ["OffsetOutOfRangeException"]
        rule.assert_hit(times=1)


def test_a_topic_that_may_not_be_read_is_thrown(broker: Broker, consumer: JavaConsumer) -> None:
    broker.faults.on("Fetch", topic="orders").error("TOPIC_AUTHORIZATION_FAILED")
    consumer.assign("orders")
    assert thrown(consumer.poll_some) == ["TopicAuthorizationException"]


def test_a_wrong_checksum_is_thrown_until_the_consumer_seeks_past_it(broker: Broker, consumer: JavaConsumer) -> None:
    broker.produce("orders", b"placed")
    broker.produce("orders", b"paid")
    rule = broker.faults.on("Fetch", topic="orders").once().corrupt("crc")
    consumer.assign("orders")
    assert thrown(consumer.poll_some)[0] == "KafkaException"
    rule.assert_hit(times=1)
    consumer.seek("orders", 1)
    assert consumer.poll_some() == ["paid"]


def test_a_log_that_was_truncated_is_thrown_where_no_reset_is_set(broker: Broker, java_clients: JavaClients) -> None:
    for value in (b"placed", b"paid", b"sent"):
        broker.produce("orders", value)

    def ends_at_one(request: Any, answer: Any) -> Any:
        answer.topics[0].partitions[0].end_offset = 1
        return answer

    rule = broker.faults.on("OffsetForLeaderEpoch", topic="orders").respond(ends_at_one)
    with java_clients.consumer(broker.bootstrap_servers, auto_offset_reset="none") as client:
        client.assign("orders")
        client.seek("orders", 2, epoch=0)
        assert thrown(client.poll_some) == ["LogTruncationException"]
    rule.assert_hit()
    with java_clients.consumer(broker.bootstrap_servers) as client:
        client.assign("orders")
        client.seek("orders", 2, epoch=0)
        assert client.poll_some() == ["paid", "sent"]


def test_a_position_is_validated_again_after_a_retriable_error(broker: Broker, consumer: JavaConsumer) -> None:
    broker.produce("orders", b"placed")
    broker.produce("orders", b"paid")
    rule = broker.faults.on("OffsetForLeaderEpoch", topic="orders").times(2).error("NOT_LEADER_OR_FOLLOWER")
    consumer.assign("orders")
    consumer.seek("orders", 1, epoch=0)
    assert consumer.poll_some() == ["paid"]
    rule.assert_hit(times=2)


# --- groups


JOINED_AGAIN = [
    ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
    ("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("JoinGroup", "NOT_COORDINATOR"),
    ("JoinGroup", "UNKNOWN_MEMBER_ID"),
    ("SyncGroup", "REBALANCE_IN_PROGRESS"),
    ("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("OffsetFetch", "NOT_COORDINATOR"),
    ("OffsetFetch", "UNSTABLE_OFFSET_COMMIT"),
    ("ListOffsets", "NOT_LEADER_OR_FOLLOWER"),
]


@pytest.mark.parametrize(("api", "code"), JOINED_AGAIN)
def test_a_member_joins_its_group_in_spite_of_a_passing_error(
    broker: Broker, consumer: JavaConsumer, api: str, code: str
) -> None:
    broker.produce("orders", b"placed")
    rule = broker.faults.on(api).once().error(code)
    consumer.subscribe("orders")
    assert consumer.poll_some() == ["placed"]
    rule.assert_hit(times=1)


def test_a_member_that_is_not_known_yet_joins_with_the_id_that_it_is_given(
    broker: Broker, consumer: JavaConsumer
) -> None:
    ids: list[str] = []
    broker.faults.on("JoinGroup", where=lambda asked: ids.append(asked.request.member_id) is None).delay(0)
    broker.produce("orders", b"placed")
    consumer.subscribe("orders")
    assert consumer.poll_some() == ["placed"]
    (member,) = broker.group(GROUP).describe().members
    assert ids[:2] == ["", member.member_id]


@pytest.fixture
def member(broker: Broker, consumer: JavaConsumer) -> JavaConsumer:
    """The one member of a group, with its partition."""
    broker.produce("orders", b"placed")
    consumer.subscribe("orders")
    assert consumer.poll_some() == ["placed"]
    assert consumer.events[-1] == "assigned"
    return consumer


def wait_for_events(member: JavaConsumer, *events: str) -> None:
    """Return once this has happened to the partitions of a member, in this order."""
    until(lambda: (member.poll(), contains_in_order(member.events, events))[1], lambda: member.events)


def test_partitions_are_revoked_and_assigned_by_a_forced_rebalance(broker: Broker, member: JavaConsumer) -> None:
    broker.group(GROUP).rebalance()
    wait_for_events(member, "assigned", "revoked", "assigned")


def test_partitions_are_lost_by_a_member_that_is_expelled(broker: Broker, member: JavaConsumer) -> None:
    (first,) = broker.group(GROUP).describe().members
    broker.group(GROUP).expel(first.client_id)
    wait_for_events(member, "assigned", "lost", "assigned")
    (again,) = broker.group(GROUP).describe().members
    assert again.member_id != first.member_id


def test_partitions_are_lost_by_a_member_whose_session_has_ended(broker: Broker, member: JavaConsumer) -> None:
    broker.clock.advance("7s", liveness=True)
    wait_for_events(member, "assigned", "lost", "assigned")


@pytest.mark.parametrize("code", ["UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"])
def test_a_heartbeat_that_fails_costs_a_member_its_partitions(broker: Broker, member: JavaConsumer, code: str) -> None:
    rule = broker.faults.on("Heartbeat", group=GROUP).once().error(code)
    until(lambda: rule.hits)
    if (
        code == "UNKNOWN_MEMBER_ID"
    ):  # it joins under another id, which would wait for the session of the first one to end
        broker.group(GROUP).expel(broker.group(GROUP).describe().members[0].member_id)
    wait_for_events(member, "assigned", "lost", "assigned")


def test_a_commit_after_the_member_was_expelled_fails_for_good(broker: Broker, java_clients: JavaClients) -> None:
    broker.produce("orders", b"placed")
    with java_clients.consumer(broker.bootstrap_servers, group_id=GROUP, heartbeat_interval_ms=5_000) as client:
        client.subscribe("orders")
        assert client.poll_some() == ["placed"]
        broker.group(GROUP).expel(broker.group(GROUP).describe().members[0].member_id)
        assert thrown(client.commit, "orders", 1) == ["CommitFailedException"]
        wait_for_events(client, "assigned", "lost", "assigned")


@pytest.mark.parametrize("code", ["COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"])
def test_a_commit_is_repeated_after_a_retriable_error(broker: Broker, member: JavaConsumer, code: str) -> None:
    rule = broker.faults.on("OffsetCommit", group=GROUP).times(2).error(code)
    member.commit("orders", 1)
    rule.assert_hit(times=2)
    assert broker.group(GROUP).offsets() == {("orders", 0): 1}


REFUSED = {
    "ILLEGAL_GENERATION": "CommitFailedException",
    "UNKNOWN_MEMBER_ID": "CommitFailedException",
    "REBALANCE_IN_PROGRESS": "RebalanceInProgressException",
    "FENCED_INSTANCE_ID": "FencedInstanceIdException",
    "GROUP_AUTHORIZATION_FAILED": "GroupAuthorizationException",
    "TOPIC_AUTHORIZATION_FAILED": "TopicAuthorizationException",
    "OFFSET_METADATA_TOO_LARGE": "OffsetMetadataTooLarge",
}


@pytest.mark.parametrize("code", REFUSED)
def test_a_commit_that_is_refused_throws(broker: Broker, member: JavaConsumer, code: str) -> None:
    rule = broker.faults.on("OffsetCommit", group=GROUP).once().error(code)
    assert thrown(member.commit, "orders", 1)[0] == REFUSED[code]
    rule.assert_hit(times=1)
    assert broker.group(GROUP).offsets() == {}


def test_lost_offsets_are_thrown_where_no_reset_is_set(broker: Broker, java_clients: JavaClients) -> None:
    broker.produce("orders", b"placed")
    broker.group(GROUP).commit({("orders", 0): 0})
    with java_clients.consumer(broker.bootstrap_servers, group_id=GROUP, auto_offset_reset="none") as client:
        client.subscribe("orders")
        assert client.poll_some() == ["placed"]
        broker.group(GROUP).lose_offsets("orders")
        broker.group(GROUP).rebalance()
        assert thrown(lambda: until(client.poll, poll_s=0)) == ["NoOffsetForPartitionException"]


def test_a_static_member_is_fenced_by_another_one_of_its_instance_id(broker: Broker, java_clients: JavaClients) -> None:
    def static() -> AbstractContextManager[JavaConsumer]:
        return java_clients.consumer(broker.bootstrap_servers, group_id=GROUP, group_instance_id="one")

    broker.produce("orders", b"placed")
    with static() as first, static() as second:
        first.subscribe("orders")
        assert first.poll_some() == ["placed"]
        second.subscribe("orders")
        assert second.poll_some() == ["placed"]
        assert thrown(lambda: until(lambda: first.poll() and False)) == ["FencedInstanceIdException"]


def test_a_member_too_many_is_told(java_clients: JavaClients) -> None:
    config = {"group.initial.rebalance.delay.ms": 0, "group.max.size": 1}
    with Broker(topics=["orders"], config=config) as small:
        small.produce("orders", b"placed")
        with (
            java_clients.consumer(small.bootstrap_servers, group_id=GROUP) as first,
            java_clients.consumer(small.bootstrap_servers, group_id=GROUP) as second,
        ):
            first.subscribe("orders")
            assert first.poll_some() == ["placed"]
            second.subscribe("orders")
            assert thrown(second.poll_some) == ["GroupMaxSizeReachedException"]


def test_a_group_that_may_not_be_used_is_thrown(broker: Broker, consumer: JavaConsumer) -> None:
    broker.faults.on("JoinGroup", group=GROUP).error("GROUP_AUTHORIZATION_FAILED")
    consumer.subscribe("orders")
    assert thrown(consumer.poll_some) == ["GroupAuthorizationException"]
