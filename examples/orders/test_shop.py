"""An order from end to end, and its data over time: retention, tombstones and compaction."""

import asyncio

import pytest
from shipping import Shipping
from shop import Shop
from status import statuses

pytestmark = pytest.mark.asyncio


async def test_an_order_is_placed_billed_and_shipped(kafka, open_billing):
    async with Shop(kafka) as shop:
        await shop.place("42", cents=999)
    await asyncio.to_thread(open_billing(kafka).bill_next)
    assert await asyncio.to_thread(statuses, kafka) == {"42": "billed"}
    async with Shipping(kafka) as shipping:
        await shipping.ship_next()
    assert await asyncio.to_thread(statuses, kafka) == {"42": "shipped"}


async def test_an_order_is_placed_once_although_the_answer_is_lost(kafka, topic, kafka_faults):
    lost = kafka_faults.produce_succeeds_but_answer_is_lost(kafka.name("orders"))
    async with Shop(kafka) as shop:
        await shop.place("42", cents=999)
    lost.assert_hit(times=1)
    assert [order.key for order in topic("orders").records()] == [b"42"]


async def test_an_order_is_placed_although_the_leader_has_moved(kafka, kafka_broker, topic, kafka_faults):
    moved = kafka_faults.on("Produce", topic=kafka.name("orders")).times(2).error("NOT_LEADER_OR_FOLLOWER")
    async with Shop(kafka) as shop:
        await shop.place("42", cents=999)
    moved.assert_hit(times=2)
    assert kafka_broker.requests.count("Produce", topic=kafka.name("orders")) == 3
    assert len(topic("orders").records()) == 1


async def test_orders_go_after_a_week(kafka, kafka_broker, topic):
    async with Shop(kafka) as shop:
        await shop.place("42", cents=999)
    await kafka_broker.aio.clock.advance("6d")
    assert len(topic("orders").records()) == 1
    await kafka_broker.aio.clock.advance("2d")
    assert topic("orders").records() == []


async def test_an_order_that_is_forgotten_leaves_no_byte_in_the_log(kafka, kafka_broker, topic):
    async with Shop(kafka) as shop:
        topic("status").produce(b"shipped", key=b"42")
        topic("status").produce(b"shipped", key=b"43")
        await shop.forget("42")
    assert await asyncio.to_thread(statuses, kafka) == {"43": "shipped"}
    status = kafka_broker.aio.topic(kafka.name("status"))
    await status.compact()  # the value goes, and the tombstone gets a horizon
    await kafka_broker.aio.clock.advance("2d")
    await status.compact()  # and goes
    assert [record.key for record in topic("status").records()] == [b"43"]
