"""A broker for tests of running pipelines."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("confluent_kafka")

from kmini.pipeline import Kafka, Pipeline
from kmini.pipeline.admin import Admin
from kmini.pipeline.stages.spark_checkpoint import LocalFiles, last_commit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


WITHIN_S = 90.0


def same(frame: DataFrame) -> DataFrame:
    return frame


class Cluster:
    """A broker, and what tests do with it."""

    def __init__(self, servers: str, **settings: str) -> None:
        from confluent_kafka.admin import AdminClient

        self.servers = servers
        self.kafka = Kafka(servers, {key.replace("_", "."): value for key, value in settings.items()})
        self.client = {**self.kafka.admin_config(), "log_level": "2"}
        self.admin = AdminClient(self.client)

    def create(self, *names: str, partitions: int = 1, **configs: str) -> None:
        admin = Admin(self.kafka)
        for name in names:
            admin.create(name, partitions, {key.replace("_", "."): value for key, value in configs.items()})

    def send(self, topic: str, *values: str, **more: Any) -> None:
        from confluent_kafka import Producer

        producer = Producer(self.client)
        for value in values:
            producer.produce(topic, value.encode(), **more)
        assert producer.flush(30) == 0

    def records(self, topic: str, partition: int = 0) -> list[Any]:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({**self.client, "group.id": "looks", "enable.auto.commit": False})
        try:
            start, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
            consumer.assign([TopicPartition(topic, partition, start)])
            found: list[Any] = []
            deadline = time.monotonic() + WITHIN_S
            while len(found) < end - start and time.monotonic() < deadline:
                found += [record for record in consumer.consume(end - start, 1.0) if record.error() is None]
            return found
        finally:
            consumer.close()

    def values(self, topic: str) -> list[str]:
        return [record.value().decode() for record in self.records(topic)]

    def bounds(self, topic: str, partition: int = 0) -> tuple[int, int]:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({**self.client, "group.id": "looks"})
        try:
            start, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
            return int(start), int(end)
        finally:
            consumer.close()


def commits(pipeline: Pipeline, stage: str) -> int | None:
    (found,) = [one for one in pipeline.stages if one.name == stage]
    return last_commit(LocalFiles(pipeline.checkpoint_of(found)))
