"""Produces orders, one a second or at another rate, as any service would."""

import itertools
import json
import os
import time

from kafka import KafkaProducer

PAUSE_S = float(os.environ.get("PAUSE_S", "1"))
COUNT = int(os.environ.get("COUNT", "0"))
"""How many to send; 0: without end."""


def main() -> None:
    producer = KafkaProducer(bootstrap_servers=os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092"))
    for number in range(COUNT) if COUNT else itertools.count():
        order = {"number": number, "item": ("tea", "salt", "rice")[number % 3]}
        sent = producer.send("orders", json.dumps(order).encode(), key=order["item"].encode()).get(timeout=30)
        print(f"sent {order} to partition {sent.partition} at offset {sent.offset}")
        time.sleep(PAUSE_S)
    producer.close()


if __name__ == "__main__":
    main()
