"""FastStream over aiokafka, at its defaults but for where a new group begins."""

import asyncio
import os

from faststream import FastStream
from faststream.kafka import KafkaBroker

broker = KafkaBroker(os.environ["BOOTSTRAP_SERVERS"])


@broker.subscriber("orders", group_id="billing", auto_offset_reset="earliest")
@broker.publisher("invoices")
async def bill(order: str) -> str:
    return order.upper()


asyncio.run(FastStream(broker).run())
