"""What members of consumer groups (KIP-848) do, with real client libraries, when their coordinator fails or refuses
them, and when their group takes something from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kmini import Broker
from support.in_order import contains_in_order
from support.java_clients import JavaClients, JavaError
from support.librdkafka import GroupMember, joining
from support.until import until

confluent = pytest.importorskip("confluent_kafka")

GROUP = "billing"
BEAT = "ConsumerGroupHeartbeat"


@pytest.fixture
def broker() -> Iterator[Broker]:
    """Its topic `orders` has two partitions, with one record."""
    config = {"group.consumer.heartbeat.interval.ms": 50, "group.consumer.min.heartbeat.interval.ms": 50}
    config |= {"group.consumer.assignment.interval.ms": 0}
    with Broker(topics={"orders": 2}, config=config, journal=True) as running:
        running.produce("orders", b"placed", partition=0)
        yield running


NOTED = {"assign": "+", "revoke": "-", "lost": "lost "}


class Member(GroupMember):
    """A member of the consumer protocol."""

    def __init__(self, broker: Broker, topic: str = "orders", **config: Any) -> None:
        super().__init__(broker, GROUP, topic, **{"group_protocol": "consumer", "retry_backoff_ms": 10, **config})

    def note(self, what: str, partitions: list[int]) -> None:
        self.events += [f"{NOTED[what]}{partition}" for partition in partitions]

    def fatal(self) -> str:
        """The reason of the error that ends it."""
        error = until(lambda: self.client.poll(0.02), poll_s=0).error()
        assert error.code() == confluent.KafkaError._FATAL, error
        return str(error.str())


@pytest.fixture
def join(broker: Broker) -> Iterator[Callable[..., Member]]:
    with joining(broker, Member) as join:
        yield join


@pytest.fixture
def member(join: Callable[..., Member]) -> Member:
    """The one member of the group, with its partitions."""
    made = join()
    made.wait_for_events("+0", "+1")
    return made


LOST_AND_BACK = ("+0", "+1", "lost 0", "lost 1", "+0", "+1")


# --- errors of heartbeats


@pytest.mark.parametrize("error", ["COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"])
def test_a_member_joins_in_spite_of_a_passing_error(broker: Broker, join: Callable[..., Member], error: str) -> None:
    rule = broker.faults.on(BEAT, group=GROUP).times(2).error(error)
    join().wait_for_events("+0", "+1")
    assert rule.hits == 2
    assert broker.requests.all(BEAT, group=GROUP)[0].errors == (error,)


@pytest.mark.parametrize("error", ["FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID"])
def test_a_member_that_is_fenced_loses_its_partitions_and_joins_again(
    broker: Broker, member: Member, error: str
) -> None:
    broker.faults.on(BEAT, group=GROUP).once().error(error)
    member.wait_for_events(*LOST_AND_BACK)


REFUSED = {
    "GROUP_MAX_SIZE_REACHED": "reached maximum size",
    "UNSUPPORTED_ASSIGNOR": "assignor or its version range is not supported",
    "INVALID_REGULAR_EXPRESSION": "regular expression is not valid",
    "UNRELEASED_INSTANCE_ID": "instance ID is still used by another member",
}
"""What librdkafka says of a heartbeat that is refused for good."""


@pytest.mark.parametrize("error", REFUSED)
def test_a_member_that_may_not_join_is_told(broker: Broker, join: Callable[..., Member], error: str) -> None:
    broker.faults.on(BEAT, group=GROUP).error(error)
    assert REFUSED[error] in join().fatal()


def test_a_static_member_whose_instance_id_another_one_has_is_told(join: Callable[..., Member]) -> None:
    join(group_instance_id="till-1").wait_for_events("+0", "+1")
    assert REFUSED["UNRELEASED_INSTANCE_ID"] in join(group_instance_id="till-1").fatal()


def test_an_assignor_that_the_broker_does_not_have_is_told(join: Callable[..., Member]) -> None:
    assert REFUSED["UNSUPPORTED_ASSIGNOR"] in join(group_remote_assignor="sticky").fatal()


def test_an_expression_that_the_broker_cannot_read_is_told(join: Callable[..., Member]) -> None:
    assert REFUSED["INVALID_REGULAR_EXPRESSION"] in join(topic=r"^(o)rders\1").fatal()


def test_a_static_member_that_is_fenced_ends(broker: Broker, join: Callable[..., Member]) -> None:
    static = join(group_instance_id="till-1")
    static.wait_for_events("+0", "+1")
    assert static.client.poll(10).value() == b"placed"
    broker.faults.on(BEAT, group=GROUP).once().error("FENCED_INSTANCE_ID")
    assert "fenced by other consumer with same group.instance.id" in static.fatal()


# --- what the group takes from its members


def test_partitions_are_lost_by_a_member_whose_session_has_ended(broker: Broker, member: Member) -> None:
    epoch = broker.group(GROUP).describe().generation
    broker.clock.advance("46s", liveness=True)
    member.wait_for_events(*LOST_AND_BACK)
    assert broker.group(GROUP).describe().generation > epoch


def test_partitions_are_lost_by_a_member_that_is_expelled(broker: Broker, member: Member) -> None:
    broker.group(GROUP).expel("rdkafka")
    member.wait_for_events(*LOST_AND_BACK)


def test_a_member_that_comes_takes_over_a_partition_that_the_other_has_given_up(
    member: Member, join: Callable[..., Member]
) -> None:
    other = join()
    until(lambda: (member.client.poll(0.02), other.client.poll(0.02), "+1" in other.events)[2])
    assert contains_in_order(member.events, ("+0", "+1", "-1"))


def test_a_member_gives_up_what_the_target_that_it_is_told_does_not_have(broker: Broker, member: Member) -> None:
    def nothing(request: Any, answer: Any) -> Any:
        answer.assignment = answer.Assignment(topic_partitions=[])
        return answer

    broker.faults.on(BEAT, group=GROUP).once().respond(nothing)
    member.wait_for_events("+0", "+1", "-0", "-1")


# --- commits, and administrators


@pytest.mark.parametrize("error", ["STALE_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID", "GROUP_ID_NOT_FOUND"])
def test_a_commit_out_of_its_epoch_raises(broker: Broker, member: Member, error: str) -> None:
    broker.faults.on("OffsetCommit", group=GROUP).once().error(error)
    with pytest.raises(confluent.KafkaException) as raised:
        member.commit()
    assert raised.value.args[0].name() == error
    member.commit()
    assert broker.group(GROUP).offsets()["orders", 0] == 1


def test_a_description_that_is_refused_is_thrown(broker: Broker, member: Member, java_clients: JavaClients) -> None:
    rule = broker.faults.on("ConsumerGroupDescribe", group=GROUP).once().error("GROUP_AUTHORIZATION_FAILED")
    with java_clients.admin(broker.bootstrap_servers) as admin:
        with pytest.raises(JavaError) as raised:
            admin.describe(GROUP)
        assert raised.value.thrown[-1].endswith("GroupAuthorizationException")
        rule.assert_hit(1)
        assert admin.describe(GROUP)["state"] == "Stable"
    assert [one.errors for one in broker.requests.all("ConsumerGroupDescribe", group=GROUP)] == [
        ("GROUP_AUTHORIZATION_FAILED",),
        (),
    ]
