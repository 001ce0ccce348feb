"""A worker of Celery with its Kafka transport, at its defaults; `send ORDER…` sends tasks instead."""

import os
import sys

from celery import Celery
from confluent_kafka import Producer

servers = os.environ["BOOTSTRAP_SERVERS"]
app = Celery("billing", broker=f"confluentkafka://{servers}")
app.conf.task_default_queue = "orders"


@app.task(name="bill")
def bill(order: str) -> None:
    producer = Producer({"bootstrap.servers": servers})
    producer.produce("invoices", order.upper())
    producer.flush()


if sys.argv[1:2] == ["send"]:
    for order in sys.argv[2:]:
        bill.delay(order)
else:
    app.worker_main(["worker", "--loglevel", "info"])
