"""Invoices become parcels: an asynchronous service, with aiokafka, in a consumer group.

It commits after the parcel is on its way: at least once. After a crash in between the same parcel is sent again, and
the order's number says that it is the same.
"""

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from places import Kafka


class Shipping:
    """Ships one order after another; `settings` are the consumer's. `async with Shipping(kafka) as shipping:`"""

    def __init__(self, kafka: Kafka, **settings):
        self.kafka = kafka
        self.consumer = AIOKafkaConsumer(
            kafka.name("invoices"),
            bootstrap_servers=kafka.servers,
            group_id=kafka.name("shipping"),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            **settings,
        )
        self.producer = AIOKafkaProducer(bootstrap_servers=kafka.servers, enable_idempotence=True)

    async def __aenter__(self):
        await self.producer.start()
        await self.consumer.start()
        return self

    async def __aexit__(self, *_):
        await self.consumer.stop()
        await self.producer.stop()

    async def ship_next(self) -> str:
        """Ship the next order and return its number."""
        invoice = await self.consumer.getone()
        await self.ship(invoice.key)
        await self.consumer.commit()
        return invoice.key.decode()

    async def ship(self, order: bytes) -> None:
        await self.producer.send_and_wait(self.kafka.name("parcels"), b"on its way", key=order)
        await self.producer.send_and_wait(self.kafka.name("status"), b"shipped", key=order)
