"""Reads the orders as a member of the group `billing`: start several, and they share the partitions."""

import json
import os

from kafka import KafkaConsumer

COUNT = int(os.environ.get("COUNT", "0"))
"""How many to read; 0: without end."""


def main() -> None:
    consumer = KafkaConsumer(
        "orders",
        group_id="billing",
        auto_offset_reset="earliest",
        bootstrap_servers=os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092"),
    )
    for count, record in enumerate(consumer, 1):
        print(f"read {json.loads(record.value)} from partition {record.partition} at offset {record.offset}")
        if count == COUNT:
            break
    consumer.close()


if __name__ == "__main__":
    main()
