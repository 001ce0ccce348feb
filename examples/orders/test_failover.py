"""Brokers die: three of them, each partition on all, and services as they run elsewhere."""

import asyncio

import pytest
from shop import Shop
from status import read, statuses

ONE_EACH = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}
"""One coordinator of all groups, and one of all transactions."""

pytestmark = [pytest.mark.asyncio, pytest.mark.kafka(brokers=3, config=ONE_EACH)]


async def test_orders_are_kept_when_their_leader_dies(cluster, kafka_cluster):
    async with Shop(cluster) as shop:
        await shop.place("1", cents=100)
        dead = kafka_cluster.leader("orders")
        kafka_cluster.kill(dead)
        await shop.place("2", cents=100)
        kafka_cluster.restart(dead)
        await kafka_cluster.aio.wait_until_in_sync("orders")
        await kafka_cluster.aio.move_leader("orders", to=dead)  # which has the order that it missed
        await shop.place("3", cents=100)
    orders = await asyncio.to_thread(lambda: [*read(cluster, "orders")])
    assert [order.key() for order in orders] == [b"1", b"2", b"3"]


async def test_orders_are_billed_once_each_when_the_coordinator_of_transactions_dies(
    cluster, kafka_cluster, open_billing
):
    async with Shop(cluster) as shop:
        for order in ("1", "2", "3"):
            await shop.place(order, cents=100)
    # Another broker than that of the group: librdkafka 2.16 may hang if both die at once (issue 5511).
    kafka_cluster.move_coordinator("billing", 1)
    kafka_cluster.move_transaction_coordinator("billing-1", 2)
    billing = await asyncio.to_thread(open_billing, cluster)
    assert await asyncio.to_thread(billing.bill_next) == "1"
    kafka_cluster.kill(2)
    assert [await asyncio.to_thread(billing.bill_next) for _ in range(2)] == ["2", "3"]
    invoices = await asyncio.to_thread(lambda: [*read(cluster, "invoices")])
    assert [invoice.key() for invoice in invoices] == [b"1", b"2", b"3"]
    assert await asyncio.to_thread(statuses, cluster) == dict.fromkeys("123", "billed")
