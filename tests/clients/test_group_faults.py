"""What members of groups do, with real client libraries, when their group takes something from them.

Most faults are made in the group itself, and not as an answer: a member is expelled, a session ends, offsets are lost.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from kmini import Broker
from kmini.protocol.errors import GroupIdNotFound, UnknownMemberId
from kmini.remote.remote_broker import RemoteBroker
from support.in_order import contains_in_order
from support.librdkafka import GroupMember, joining
from support.transactional_clients import Confluent
from support.until import PATIENCE, until, until_async

aiokafka = pytest.importorskip("aiokafka")
confluent = pytest.importorskip("confluent_kafka")
kafka = pytest.importorskip("kafka")

GROUP = "billing"
REBALANCED = ("assigned", "revoked", "assigned")
PLACE = confluent.TopicPartition("orders", 0)


@pytest.fixture
def broker(broker: Broker) -> Broker:
    """The topic `orders` has one record."""
    broker.produce("orders", b"placed")
    return broker


NOTED = {"assign": "assigned", "revoke": "revoked", "lost": "lost"}


class Member(GroupMember):
    """A member of the classic protocol."""

    def __init__(self, broker: Broker, **config: Any) -> None:
        patient = {"heartbeat_interval_ms": 20, "session_timeout_ms": 6_000}
        super().__init__(broker, GROUP, "orders", **{**patient, **config})

    def note(self, what: str, partitions: list[int]) -> None:
        self.events.append(NOTED[what])

    def record(self) -> bytes | None:
        """The value of the next record, once it is there."""
        message = until(lambda: self.client.poll(0.05), poll_s=0)
        assert message.error() is None, message.error()
        value: bytes | None = message.value()
        return value

    def error(self) -> Any:
        """The first error that it tells, or raises."""
        try:
            return until(lambda: self.client.poll(0.05), poll_s=0).error()
        except confluent.KafkaException as error:
            return error.args[0]


@pytest.fixture
def join(broker: Broker) -> Iterator[Callable[..., Member]]:
    with joining(broker, Member) as join:
        yield join


@pytest.fixture
def member(join: Callable[..., Member]) -> Member:
    """The one member of the group, with its partition."""
    made = join()
    assert made.record() == b"placed"
    assert made.events[-1] == "assigned"
    return made


# --- joining


def test_a_member_that_is_not_known_yet_joins_with_the_id_that_it_is_given(
    broker: Broker, join: Callable[..., Member]
) -> None:
    ids: list[str] = []
    broker.faults.on("JoinGroup", where=lambda asked: ids.append(asked.request.member_id) is None).delay(0)
    assert join().record() == b"placed"
    (member,) = broker.group(GROUP).describe().members
    assert ids[:2] == ["", member.member_id]


def test_a_static_member_is_fenced_by_another_one_of_its_instance_id(join: Callable[..., Member]) -> None:
    first = join(group_instance_id="one")
    assert first.record() == b"placed"
    second = join(group_instance_id="one")
    assert second.record() == b"placed"
    error = first.error()
    assert error.name() == "_FATAL"
    assert "fenced" in error.str()


def test_a_member_too_many_is_told() -> None:
    config = {"group.initial.rebalance.delay.ms": 0, "group.max.size": 1}
    with Broker(topics=["orders"], config=config) as small:
        small.produce("orders", b"placed")
        first = Member(small)
        with contextlib.closing(first.client):
            assert first.record() == b"placed"
            second = Member(small)
            with contextlib.closing(second.client):
                assert second.error().name() == "GROUP_MAX_SIZE_REACHED"


# --- losing partitions


def test_partitions_are_revoked_and_assigned_by_a_forced_rebalance(broker: Broker, member: Member) -> None:
    broker.group(GROUP).rebalance()
    member.wait_for_events(*REBALANCED)


def test_a_rebalance_can_be_forced_by_a_client_that_is_no_member(broker: Broker, member: Member) -> None:
    before = broker.group(GROUP).describe()
    with RemoteBroker(broker.bootstrap_servers) as remote:
        remote.group(GROUP).rebalance()
        member.wait_for_events(*REBALANCED)
        after = remote.group(GROUP).stable(members=1)
    assert [one.member_id for one in after.members] == [one.member_id for one in before.members]


def test_a_rebalance_cannot_be_forced_by_a_client_where_no_consumers_are(broker: Broker) -> None:
    broker.group("empty").commit({("orders", 0): 0})
    with RemoteBroker(broker.bootstrap_servers) as remote:
        with pytest.raises(UnknownMemberId, match="group empty is Empty: a rebalance needs members"):
            remote.group("empty").rebalance()
        with pytest.raises(GroupIdNotFound):
            remote.group("missing").rebalance()


def test_partitions_are_lost_by_a_member_that_is_expelled(broker: Broker, member: Member) -> None:
    (before,) = broker.group(GROUP).describe().members
    broker.group(GROUP).expel(before.member_id)
    member.wait_for_events("assigned", "lost", "assigned")
    (after,) = broker.group(GROUP).describe().members
    assert after.member_id != before.member_id


def test_partitions_are_lost_by_a_member_whose_session_has_ended(broker: Broker, member: Member) -> None:
    broker.clock.advance("7s", liveness=True)
    member.wait_for_events("assigned", "lost", "assigned")


def test_a_commit_of_a_member_that_was_expelled_fails_for_good(broker: Broker, join: Callable[..., Member]) -> None:
    member = join(heartbeat_interval_ms=5_000)
    assert member.record() == b"placed"
    broker.group(GROUP).expel(broker.group(GROUP).describe().members[0].member_id)
    with pytest.raises(confluent.KafkaException) as failed:
        member.commit()
    error = failed.value.args[0]
    assert (error.name(), error.retriable()) == ("UNKNOWN_MEMBER_ID", False)
    assert broker.group(GROUP).offsets() == {}


@pytest.mark.parametrize("code", ["ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS"])
def test_a_commit_out_of_its_generation_raises(broker: Broker, member: Member, code: str) -> None:
    rule = broker.faults.on("OffsetCommit", group=GROUP).once().error(code)
    with pytest.raises(confluent.KafkaException) as failed:
        member.commit()
    assert failed.value.args[0].name() == code
    rule.assert_hit(times=1)
    assert broker.group(GROUP).offsets() == {}


# --- losing offsets


def test_a_member_begins_anew_where_the_offsets_of_its_group_are_lost(broker: Broker, member: Member) -> None:
    member.commit()
    broker.group(GROUP).lose_offsets("orders")
    broker.group(GROUP).rebalance()
    assert member.record() == b"placed"


def test_a_member_that_may_not_begin_anew_reports_lost_offsets(broker: Broker, join: Callable[..., Member]) -> None:
    broker.group(GROUP).commit({("orders", 0): 0})
    member = join(auto_offset_reset="error")
    assert member.record() == b"placed"
    broker.group(GROUP).lose_offsets()
    broker.group(GROUP).rebalance()
    assert member.error().name() == "_AUTO_OFFSET_RESET"


def test_a_group_that_was_away_for_longer_than_offsets_are_kept_begins_anew(
    broker: Broker, join: Callable[..., Member]
) -> None:
    broker.group(GROUP).commit({("orders", 0): 1})
    broker.clock.advance("8d")
    broker.produce("orders", b"paid")
    assert join().record() == b"paid"  # and the record of last week is gone, too


def test_offsets_of_an_open_transaction_are_waited_for(broker: Broker, join: Callable[..., Member]) -> None:
    producer = Confluent(broker.bootstrap_servers, "payments")
    producer.begin()
    producer.send_offsets(GROUP, {("orders", 0): 1})
    member = join(isolation_level="read_committed")
    with pytest.raises(confluent.KafkaException) as failed:
        member.client.committed([PLACE], timeout=PATIENCE)
    assert failed.value.args[0].name() in ("_TIMED_OUT", "UNSTABLE_OFFSET_COMMIT")
    producer.commit()
    (committed,) = member.client.committed([PLACE], timeout=30)
    assert committed.offset == 1
    producer.close()


# --- the other clients


class Events(aiokafka.ConsumerRebalanceListener, kafka.ConsumerRebalanceListener):
    """What happens to the partitions of a member of aiokafka or kafka-python."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_partitions_revoked(self, revoked: Any) -> None:
        if revoked:
            self.seen.append("revoked")

    def on_partitions_assigned(self, assigned: Any) -> None:
        if assigned:
            self.seen.append("assigned")

    def on_partitions_lost(self, lost: Any) -> None:
        self.seen.append("lost")


CONFIG = {"group_id": GROUP, "auto_offset_reset": "earliest", "enable_auto_commit": False} | {
    "heartbeat_interval_ms": 20,
    "retry_backoff_ms": 10,
}


@pytest.fixture
async def of_aiokafka(broker: Broker) -> AsyncIterator[Any]:
    async with aiokafka.AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers, **CONFIG) as client:
        yield client


async def test_aiokafka_is_revoked_its_partitions_by_a_rebalance_and_by_an_expulsion(
    broker: Broker, of_aiokafka: Any
) -> None:
    events = Events()
    of_aiokafka.subscribe(["orders"], listener=events)
    assert (await of_aiokafka.getone()).value == b"placed"
    group = broker.aio.group(GROUP)
    await group.rebalance()
    await until_async(lambda: contains_in_order(events.seen, REBALANCED), lambda: events.seen)
    (before,) = (await group.stable(members=1)).members
    await group.expel(before.member_id)
    with pytest.raises(aiokafka.errors.CommitFailedError):
        await of_aiokafka.commit({aiokafka.TopicPartition("orders", 0): 1})
    await until_async(lambda: events.seen.count("assigned") >= 3, lambda: events.seen)
    (after,) = (await group.stable(members=1)).members
    assert after.member_id != before.member_id


@pytest.fixture
def of_kafka_python(broker: Broker) -> Iterator[Any]:
    client = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, fetch_max_wait_ms=20, **CONFIG)
    yield client
    client.close()


def test_kafka_python_is_revoked_its_partitions_by_a_rebalance_and_loses_them_by_an_expulsion(
    broker: Broker, of_kafka_python: Any
) -> None:
    events = Events()
    of_kafka_python.subscribe(["orders"], listener=events)
    assert next(of_kafka_python).value == b"placed"
    broker.group(GROUP).rebalance()
    until(lambda: (of_kafka_python.poll(20), contains_in_order(events.seen, REBALANCED))[1], lambda: events.seen)
    (before,) = broker.group(GROUP).describe().members
    broker.group(GROUP).expel(before.member_id)
    with pytest.raises(kafka.errors.CommitFailedError):
        of_kafka_python.commit({kafka.TopicPartition("orders", 0): kafka.OffsetAndMetadata(1, "", -1)})
    until(lambda: (of_kafka_python.poll(20), events.seen.count("assigned") >= 3)[1], lambda: events.seen)
    (after,) = broker.group(GROUP).describe().members
    assert after.member_id != before.member_id
