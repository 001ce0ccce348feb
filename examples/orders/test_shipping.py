"""At least once: groups that share work, commits, lag, and repeats after a crash.

`records` and `produce` wait for no client, so asynchronous tests call them as they are; what does wait has an awaitable
form in `kafka_broker.aio`.
"""

import asyncio

import pytest
from shipping import Shipping
from status import statuses

pytestmark = pytest.mark.asyncio


async def test_an_invoice_is_shipped(kafka, kafka_broker, topic):
    topic("invoices").produce(b"{}", key=b"42")
    parcels = kafka_broker.aio.topic(kafka.name("parcels"))
    async with Shipping(kafka) as shipping, parcels.expect(count=1, key=b"42"):
        assert await shipping.ship_next() == "42"


async def test_an_invoice_that_was_taken_back_is_not_shipped(kafka, topic, open_billing, place):
    place("free", cents=0)
    with pytest.raises(Exception, match="free"):
        await asyncio.to_thread(open_billing(kafka).bill_next)
    topic("invoices").produce(b"{}", key=b"42")
    async with Shipping(kafka) as shipping:
        assert await shipping.ship_next() == "42"


async def test_the_lag_of_a_group_is_what_it_has_not_committed(kafka, kafka_broker, topic):
    for order in (b"1", b"2", b"3"):
        topic("invoices").produce(b"{}", key=order, partition=0)
    group = kafka_broker.group(kafka.name("shipping"))
    async with Shipping(kafka) as shipping:
        for left in (2, 1, 0):
            await shipping.ship_next()
            assert group.lag()[kafka.name("invoices"), 0] == left
    group.caught_up(kafka.name("invoices"))


async def test_a_crash_between_a_parcel_and_its_commit_ships_it_again(kafka, topic, monkeypatch):
    async def crash():
        raise SystemError("crash")

    topic("invoices").produce(b"{}", key=b"42")
    async with Shipping(kafka) as crashing:
        monkeypatch.setattr(crashing.consumer, "commit", crash)
        with pytest.raises(SystemError):
            await crashing.ship_next()
    async with Shipping(kafka) as shipping:
        assert await shipping.ship_next() == "42"
    assert [parcel.key for parcel in topic("parcels").records()] == [b"42", b"42"]
    assert await asyncio.to_thread(statuses, kafka) == {"42": "shipped"}


async def test_two_instances_share_the_partitions_until_one_leaves(kafka, kafka_broker, topic):
    def bill(order: bytes, partition: int) -> None:
        topic("invoices").produce(b"{}", key=order, partition=partition)

    # A member learns of a rebalance from the answer to its next heartbeat, which is sent every 3 s by default.
    quick = {"heartbeat_interval_ms": 100}
    group = kafka_broker.aio.group(kafka.name("shipping"))
    async with Shipping(kafka, **quick) as first:
        bill(b"alone", 0)
        await first.ship_next()
        assert len(first.consumer.assignment()) == 2
        async with Shipping(kafka, **quick) as second:
            bill(b"one", 0)
            bill(b"other", 1)
            assert {*await asyncio.gather(first.ship_next(), second.ship_next())} == {"one", "other"}
            assert len(first.consumer.assignment()) == len(second.consumer.assignment()) == 1
            assert len((await group.stable(members=2)).members) == 2
        await group.stable(members=1)  # until then, a commit would be one of the old generation
        bill(b"later one", 0)
        bill(b"later other", 1)
        assert {await first.ship_next(), await first.ship_next()} == {"later one", "later other"}
