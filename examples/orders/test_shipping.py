"""At least once: groups that share work, commits, lag, and repeats after a crash.

`broker.records` and `broker.produce` wait for no client, so asynchronous tests call them as they are; what does wait
has an awaitable form in `broker.aio`.
"""

import asyncio

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from shipping import Shipping
from status import statuses

pytestmark = pytest.mark.asyncio


async def test_an_invoice_is_shipped(broker):
    broker.produce("invoices", b"{}", key=b"42")
    async with Shipping(broker.bootstrap_servers) as shipping:
        shipped = asyncio.create_task(shipping.ship_next())
        (parcel,) = await broker.aio.wait_for_records("parcels", 1)
        assert parcel.key == b"42"
        assert await shipped == "42"


async def test_an_invoice_that_was_taken_back_is_not_shipped(broker, open_billing, place):
    place("free", cents=0)
    with pytest.raises(Exception, match="free"):
        await asyncio.to_thread(open_billing(broker.bootstrap_servers).bill_next)
    broker.produce("invoices", b"{}", key=b"42")
    async with Shipping(broker.bootstrap_servers) as shipping:
        assert await shipping.ship_next() == "42"


def lag(broker, group, topic, partition=0):
    """How many records of a partition the group has not committed."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition)])
    (committed,) = admin.list_consumer_group_offsets([asked])[group].result().topic_partitions
    return broker.offsets(topic, partition).last_stable_offset - max(committed.offset, 0)


async def test_the_lag_of_a_group_is_what_it_has_not_committed(broker):
    for order in (b"1", b"2", b"3"):
        broker.produce("invoices", b"{}", key=order)
    async with Shipping(broker.bootstrap_servers) as shipping:
        for left in (2, 1, 0):
            await shipping.ship_next()
            assert await asyncio.to_thread(lag, broker, "shipping", "invoices") == left


async def test_a_crash_between_a_parcel_and_its_commit_ships_it_again(broker, monkeypatch):
    async def crash():
        raise SystemError("crash")

    broker.produce("invoices", b"{}", key=b"42")
    async with Shipping(broker.bootstrap_servers) as crashing:
        monkeypatch.setattr(crashing.consumer, "commit", crash)
        with pytest.raises(SystemError):
            await crashing.ship_next()
    async with Shipping(broker.bootstrap_servers) as shipping:
        assert await shipping.ship_next() == "42"
    assert [parcel.key for parcel in broker.records("parcels")] == [b"42", b"42"]
    assert await asyncio.to_thread(statuses, broker.bootstrap_servers) == {"42": "shipped"}


async def test_two_instances_share_the_partitions_until_one_leaves(broker):
    def bill(order: bytes, partition: int) -> None:
        broker.produce("invoices", b"{}", key=order, partition=partition)

    # A member learns of a rebalance from the answer to its next heartbeat, which is sent every 3 s by default.
    quick = {"heartbeat_interval_ms": 100}
    async with Shipping(broker.bootstrap_servers, **quick) as first:
        bill(b"alone", 0)
        await first.ship_next()
        assert len(first.consumer.assignment()) == 2
        async with Shipping(broker.bootstrap_servers, **quick) as second:
            bill(b"one", 0)
            bill(b"other", 1)
            assert {*await asyncio.gather(first.ship_next(), second.ship_next())} == {"one", "other"}
            assert len(first.consumer.assignment()) == len(second.consumer.assignment()) == 1
        bill(b"later one", 0)
        bill(b"later other", 1)
        assert {await first.ship_next(), await first.ship_next()} == {"later one", "later other"}
