"""`broker.group("billing")`: what it tells, how it waits, and what its changes do to real consumers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer

from kmini import AsyncBroker, AsyncCluster, Broker, Cluster, NotInTime
from kmini.protocol.errors import (
    GroupIdNotFound,
    NonEmptyGroup,
    RequestTimedOut,
    UnknownMemberId,
    UnknownTopicOrPartition,
)
from support.transactional_clients import Confluent

Host = AsyncBroker | AsyncCluster
StartMember = Callable[[str], Awaitable[AIOKafkaConsumer]]


@pytest.fixture(params=["broker", "cluster"])
async def host(request: pytest.FixtureRequest) -> AsyncIterator[Host]:
    made: Any = Broker(topics={"orders": 2}) if request.param == "broker" else Cluster(2, topics={"orders": 2})
    async with made as running:
        yield running


@pytest.fixture
async def start_member(host: Host) -> AsyncIterator[StartMember]:
    """Starts consumers of the group "billing", by client id; those that have not stopped are stopped at the end."""
    started: list[AIOKafkaConsumer] = []

    async def start(client_id: str) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=host.bootstrap_servers,
            group_id="billing",
            client_id=client_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=50,
            metadata_max_age_ms=1_000,
        )
        started.append(consumer)
        await consumer.start()
        return consumer

    yield start
    await asyncio.gather(*(consumer.stop() for consumer in started))


# --- what is there


async def test_a_group_tells_its_members_with_what_they_want_and_have(host: Host, start_member: StartMember) -> None:
    await start_member("billing-1")
    described = await host.group("billing").stable(members=1)
    assert (described.group, described.kind, described.state) == ("billing", "classic", "Stable")
    assert described.generation >= 1
    assert described.protocol == "roundrobin"
    if isinstance(host, AsyncCluster):
        assert described.coordinator == await host.coordinator("billing")
    (member,) = described.members
    assert member.member_id.startswith("billing-1-")
    assert (member.client_id, member.address, member.instance_id) == ("billing-1", "127.0.0.1", None)
    assert member.topics == ("orders",)
    assert member.assignment == (("orders", 0), ("orders", 1))
    assert [one.member_id for one in (await host.group("billing").describe()).members] == [member.member_id]
    assert await host.groups() == ["billing"]


async def test_offsets_and_lag_are_those_that_consumers_see(host: Host, start_member: StartMember) -> None:
    for _ in range(3):
        await host.topic("orders").produce(b"v", partition=0)
    consumer = await start_member("billing-1")
    group = host.group("billing")
    await group.stable(members=1)
    assert await group.lag() == {("orders", 0): 3, ("orders", 1): 0}
    record = await consumer.getone()
    await consumer.commit()
    assert (await group.offsets())["orders", 0] == record.offset + 1
    assert await group.lag() == {("orders", 0): 2, ("orders", 1): 0}


async def test_a_misspelt_group_is_told_with_those_that_exist(host: Host) -> None:
    await host.group("shipping").commit({("orders", 0): 0})
    group = host.group("biling")
    for call in (
        group.describe,
        group.offsets,
        group.lag,
        group.rebalance,
        lambda: group.expel("a"),
        group.lose_offsets,
    ):
        with pytest.raises(GroupIdNotFound, match="there is no group biling; there are: shipping"):
            await call()
    with pytest.raises(NotInTime, match="there is no group biling; there are: shipping"):
        await group.stable(timeout_ms=1)


def test_before_the_first_group_there_is_none_and_asking_makes_none(kafka_broker: Broker) -> None:
    assert kafka_broker.groups() == []
    with pytest.raises(GroupIdNotFound, match="there is no group billing; there are none"):
        kafka_broker.group("billing").describe()
    assert "__consumer_offsets" not in kafka_broker.topics()


# --- waiting


async def test_a_group_is_stable_once_all_have_their_assignment(host: Host, start_member: StartMember) -> None:
    both = asyncio.ensure_future(host.group("billing").stable(members=2))
    first, second = await start_member("billing-1"), await start_member("billing-2")
    described = await both
    assert {member.client_id for member in described.members} == {"billing-1", "billing-2"}
    assert sorted(place for member in described.members for place in member.assignment) == [
        ("orders", 0),
        ("orders", 1),
    ]
    await asyncio.gather(first.stop(), second.stop())
    assert (await host.group("billing").stable(members=0)).state == "Empty"


async def test_a_wait_that_times_out_tells_what_was_there(host: Host, start_member: StartMember) -> None:
    await host.group("billing").commit({("orders", 0): 0})
    with pytest.raises(AssertionError, match=r"it never had a member \(after 1 ms; expected: Stable, 2 members\)"):
        await host.group("billing").stable(members=2, timeout_ms=1)
    consumer = await start_member("billing-1")
    await host.group("billing").stable()
    told = (
        r"group billing is Stable, generation \d+, protocol roundrobin, 1 member: billing-1-\S+ \(client billing-1 at"
    )
    with pytest.raises(RequestTimedOut, match=told + " 127.0.0.1, subscribed to orders, has orders-0 orders-1"):
        await host.group("billing").stable(members=2, timeout_ms=1)
    await consumer.stop()
    with pytest.raises(RequestTimedOut, match="group billing is Empty; its members have left"):
        await host.group("billing").stable(timeout_ms=1)


async def test_a_call_that_blocks_the_loop_of_the_consumer_is_refused() -> None:
    with Broker(topics=["orders"]) as broker:
        with pytest.raises(RuntimeError, match="would stop the event loop that your client runs on"):
            broker.group("billing").stable(members=1)
        with pytest.raises(RuntimeError, match="would stop the event loop that your client runs on"):
            broker.group("billing").caught_up("events")


async def test_a_group_has_caught_up_once_it_has_committed_behind_the_last_record(
    host: Host, start_member: StartMember
) -> None:
    for partition in (0, 1):
        await host.topic("orders").produce(b"v", partition=partition)
    consumer = await start_member("billing-1")
    caught_up = asyncio.ensure_future(host.group("billing").caught_up("orders"))
    await consumer.getone()
    await consumer.getone()
    assert not caught_up.done()
    await consumer.commit()
    await caught_up
    await host.topic("orders").produce(b"v", partition=1)
    with pytest.raises(
        NotInTime, match="1 record of orders left to commit: orders-1 at 1 of 2; group billing is Stable"
    ):
        await host.group("billing").caught_up("orders", timeout_ms=1)
    with pytest.raises(NotInTime, match="there is no topic ordres; there are: orders"):
        await host.group("billing").caught_up("ordres", timeout_ms=1)


def test_markers_and_aborted_records_are_nothing_to_catch_up_with_but_they_are_lag() -> None:
    with Broker(topics=["orders"]) as broker:
        producer = Confluent(broker.bootstrap_servers, "billing-1")
        producer.begin()
        producer.produce("orders", b"undone")
        producer.abort()
        broker.transactions.wait_ended("billing-1")
        group = broker.group("billing")
        group.commit({("orders", 0): 0})
        group.caught_up("orders", timeout_ms=0)
        assert group.lag() == {("orders", 0): 2}
        producer.begin()
        producer.produce("orders", b"done")
        group.caught_up("orders", timeout_ms=0)
        producer.commit()
        broker.transactions.wait_ended("billing-1")
        with pytest.raises(NotInTime, match="1 record of orders left to commit: orders-0 at 0 of 4"):
            group.caught_up("orders", timeout_ms=0)
        producer.close()


@pytest.mark.parametrize("host_class", [Broker, Cluster])
def test_offsets_of_a_transaction_count_once_it_is_committed(host_class: type[Broker] | type[Cluster]) -> None:
    with host_class(topics=["orders"]) as host:
        host.produce("orders", b"v")
        group = host.group("billing")
        producer = Confluent(host.bootstrap_servers, "billing-1")
        producer.begin()
        producer.send_offsets("billing", {("orders", 0): 1})
        assert group.offsets() == {}
        with pytest.raises(NotInTime, match="orders-0 at 0 of 1"):
            group.caught_up("orders", timeout_ms=0)
        done: list[None] = []
        waiter = threading.Thread(target=lambda: done.append(group.caught_up("orders")))
        waiter.start()
        producer.commit()
        waiter.join(30)
        assert done == [None]
        assert group.offsets() == {("orders", 0): 1}
        producer.close()


# --- changes


async def test_a_rebalance_makes_another_generation_with_the_same_members(
    host: Host, start_member: StartMember
) -> None:
    await start_member("billing-1")
    group = host.group("billing")
    before = await group.stable(members=1)
    await group.rebalance()
    after = await group.stable(members=1)
    assert after.generation > before.generation
    assert after.members[0].member_id == before.members[0].member_id


async def test_a_group_without_members_cannot_rebalance(host: Host) -> None:
    await host.group("billing").commit({("orders", 0): 0})
    with pytest.raises(
        UnknownMemberId, match="group billing is Empty; it never had a member: a rebalance needs members"
    ):
        await host.group("billing").rebalance()


@pytest.mark.parametrize("by", ["client_id", "member_id"])
async def test_an_expelled_member_comes_back_as_another(host: Host, start_member: StartMember, by: str) -> None:
    await start_member("billing-1")
    group = host.group("billing")
    before = (await group.stable(members=1)).members[0]
    await group.expel(getattr(before, by))
    after = (await group.stable(members=1)).members[0]
    assert after.client_id == before.client_id
    assert after.member_id != before.member_id


async def test_who_is_expelled_has_to_be_clear(host: Host, start_member: StartMember) -> None:
    await start_member("billing")
    await start_member("billing")
    group = host.group("billing")
    before = {member.member_id for member in (await group.stable(members=2)).members}
    with pytest.raises(UnknownMemberId, match="2 members have the client id billing; group billing is Stable"):
        await group.expel("billing")
    with pytest.raises(UnknownMemberId, match="there is no member billing-9; group billing is Stable"):
        await group.expel("billing-9")
    assert {member.member_id for member in (await group.describe()).members} == before


async def test_consumers_begin_at_the_offset_that_was_committed(host: Host, start_member: StartMember) -> None:
    for value in (b"0", b"1", b"2"):
        await host.topic("orders").produce(value, partition=0)
    group = host.group("billing")
    await group.commit({("orders", 0): 1})
    assert await group.offsets() == {("orders", 0): 1}
    await group.commit({("orders", 0): 2, ("orders", 1): 0})
    consumer = await start_member("billing-1")
    assert (await consumer.getone()).value == b"2"
    with pytest.raises(NonEmptyGroup, match=r"1 member: billing-1-.*members commit themselves"):
        await group.commit({("orders", 0): 0})


async def test_consumers_read_on_when_offsets_are_lost_and_begin_anew_with_the_next_assignment(
    host: Host, start_member: StartMember
) -> None:
    await host.topic("orders").produce(b"0", partition=0)
    group = host.group("billing")
    await group.commit({("orders", 0): 1})
    consumer = await start_member("billing-1")
    await host.topic("orders").produce(b"1", partition=0)
    assert (await consumer.getone()).value == b"1"  # so it has asked for the committed offset
    await group.lose_offsets()
    assert await group.offsets() == {}
    await host.topic("orders").produce(b"2", partition=0)
    assert (await consumer.getone()).value == b"2"
    await group.rebalance()
    assert (await consumer.getone()).value == b"0"


async def test_the_offsets_of_one_topic_are_lost(host: Host) -> None:
    await host.create_topic("refunds", 1)
    group = host.group("billing")
    await group.commit({("orders", 0): 7, ("orders", 1): 8, ("refunds", 0): 9})
    await group.lose_offsets("orders")
    assert await group.offsets() == {("refunds", 0): 9}
    await group.lose_offsets("orders")
    with pytest.raises(UnknownTopicOrPartition, match="there is no topic ordres; there are: orders, refunds"):
        await group.lose_offsets("ordres")


async def test_offsets_of_partitions_that_do_not_exist_are_refused_and_nothing_is_committed(host: Host) -> None:
    group = host.group("billing")
    with pytest.raises(UnknownTopicOrPartition, match="there is no topic ordres; there are: orders"):
        await group.commit({("orders", 0): 1, ("ordres", 0): 1})
    with pytest.raises(UnknownTopicOrPartition, match="there is no partition 2 of orders; it has 0 to 1"):
        await group.commit({("orders", 2): 1})
    assert await host.groups() == []


async def test_a_group_is_found_where_its_coordinator_went() -> None:
    async with Cluster(2, topics=["orders"], config={"offsets.topic.replication.factor": 2}) as cluster:
        group = cluster.group("billing")
        await group.commit({("orders", 0): 0})
        coordinator = (await group.describe()).coordinator
        for number in range(len(await cluster.topic("__consumer_offsets").partitions())):
            await cluster.wait_until_in_sync("__consumer_offsets", number)
        await cluster.kill(coordinator)
        described = await group.stable(members=0)
        assert described.coordinator == 3 - coordinator
        assert await group.offsets() == {("orders", 0): 0}


async def test_a_group_whose_partition_no_broker_leads_says_so() -> None:
    async with Cluster(2, topics=["orders"], config={"offsets.topic.replication.factor": 1}) as cluster:
        group = cluster.group("billing")
        await group.commit({("orders", 0): 0})
        await cluster.kill((await group.describe()).coordinator)
        with pytest.raises(NotInTime, match="no broker that runs coordinates group billing"):
            await group.stable(timeout_ms=1)
