"""An order from end to end, and its data over time: retention, tombstones and compaction."""

import asyncio

import pytest
from shipping import Shipping
from shop import Shop
from status import statuses

pytestmark = pytest.mark.asyncio


async def test_an_order_is_placed_billed_and_shipped(broker, open_billing):
    servers = broker.bootstrap_servers
    async with Shop(servers) as shop:
        await shop.place("42", cents=999)
    await asyncio.to_thread(open_billing(servers).bill_next)
    assert await asyncio.to_thread(statuses, servers) == {"42": "billed"}
    async with Shipping(servers) as shipping:
        await shipping.ship_next()
    assert await asyncio.to_thread(statuses, servers) == {"42": "shipped"}


async def test_orders_go_after_a_week(broker):
    async with Shop(broker.bootstrap_servers) as shop:
        await shop.place("42", cents=999)
    await broker.aio.clock.advance("6d")
    assert len(broker.records("orders")) == 1
    await broker.aio.clock.advance("2d")
    assert broker.records("orders") == []


async def test_an_order_that_is_forgotten_leaves_no_byte_in_the_log(broker):
    async with Shop(broker.bootstrap_servers) as shop:
        broker.produce("status", b"shipped", key=b"42")
        broker.produce("status", b"shipped", key=b"43")
        await shop.forget("42")
    assert await asyncio.to_thread(statuses, broker.bootstrap_servers) == {"43": "shipped"}
    status = broker.aio.topic("status")
    await status.compact()  # the value goes, and the tombstone gets a horizon
    await broker.aio.clock.advance("2d")
    await status.compact()  # and goes
    assert [record.key for record in broker.records("status")] == [b"43"]
