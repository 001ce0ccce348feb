"""Orders become invoices: the synchronous service, with confluent-kafka.

The invoice, the status "billed" and the offset of the order are one transaction, so each order is billed exactly
once, even if the service or a broker dies.
"""

import json

from confluent_kafka import Consumer, Producer, TopicPartition
from places import Kafka

TIMEOUT_S = 30


class ChargeRefused(Exception):
    """The bank refuses the charge."""


def charge(order: str, cents: int) -> None:
    """Charge the bank account; this bank refuses amounts of zero."""
    if cents <= 0:
        raise ChargeRefused(f"order {order}: {cents} cents")


class Billing:
    """Bills one order after another. `instance` names this instance of the service: a second one fences the first."""

    def __init__(self, kafka: Kafka, instance: str = "billing-1"):
        self.kafka = kafka
        common = {
            "bootstrap.servers": kafka.servers,
            "metadata.recovery.strategy": "none",  # else send_offsets may hang after a broker's death: librdkafka #5511
        }
        self.producer = Producer({**common, "transactional.id": kafka.name(instance)})
        self.producer.init_transactions(TIMEOUT_S)
        self.consumer = Consumer(
            {
                **common,
                "group.id": kafka.name("billing"),
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        self.consumer.subscribe([kafka.name("orders")])

    def bill_next(self) -> str:
        """Bill the next order and return its number. An order whose charge is refused stays the next one."""
        order = self.next_order()
        self.producer.begin_transaction()
        try:
            self.bill(order)
        except ChargeRefused:
            self.producer.abort_transaction(TIMEOUT_S)
            self.consumer.seek(position_of(order))
            raise
        self.producer.commit_transaction(TIMEOUT_S)
        return order.key().decode()

    def next_order(self):
        order = self.consumer.poll(TIMEOUT_S)
        if order is None:
            raise TimeoutError(f"no order in {TIMEOUT_S} s")
        if order.error():
            raise RuntimeError(order.error())
        return order

    def bill(self, order) -> None:
        """Write all that belongs to one order into the open transaction, and charge for it."""
        cents = json.loads(order.value())["cents"]
        self.producer.produce(self.kafka.name("status"), key=order.key(), value=b"billed")
        invoice = json.dumps({"cents": cents}).encode()
        self.producer.produce(self.kafka.name("invoices"), key=order.key(), value=invoice)
        self.producer.flush(TIMEOUT_S)  # the invoice is written before the money moves
        charge(order.key().decode(), cents)
        done = position_of(order, behind=True)
        self.producer.send_offsets_to_transaction([done], self.consumer.consumer_group_metadata(), TIMEOUT_S)

    def close(self) -> None:
        self.consumer.close()
        self.producer = None  # librdkafka's producer disconnects when the last reference goes


def position_of(message, behind: bool = False) -> TopicPartition:
    """Where a message is, for `seek`, or the position behind it, for commits."""
    return TopicPartition(message.topic(), message.partition(), message.offset() + behind)
