"""Orders come in: an asynchronous service, with aiokafka.

Topics: `orders` has each order by its number; `status` is compacted and has the last status of each order.
"""

import json

from aiokafka import AIOKafkaProducer
from places import Kafka


class Shop:
    """Takes orders, and forgets them on request. `async with Shop(kafka) as shop:`"""

    def __init__(self, kafka: Kafka):
        self.kafka = kafka
        self.producer = AIOKafkaProducer(bootstrap_servers=kafka.servers, enable_idempotence=True)

    async def __aenter__(self):
        await self.producer.start()
        return self

    async def __aexit__(self, *_):
        await self.producer.stop()

    async def place(self, order: str, cents: int) -> None:
        """Return when the order is on every replica in sync."""
        text = json.dumps({"cents": cents}).encode()
        await self.producer.send_and_wait(self.kafka.name("orders"), text, key=order.encode())

    async def forget(self, order: str) -> None:
        """Write a tombstone: compaction removes the order from `status`."""
        await self.producer.send_and_wait(self.kafka.name("status"), None, key=order.encode())
