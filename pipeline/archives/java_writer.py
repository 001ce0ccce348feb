"""Write the records that librdkafka cannot: those with timestamp 0 (librdkafka takes it for none) or a NUL in a header
name.

Java's producer can. It lives in the JVM of the driver, with Spark's connector. Each record waits for the one before it,
so that a refused record leaves no gap. That is slow, and meant for few records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from py4j.protocol import Py4JJavaError

from .archive_files import Row
from .partition_replay import Plan, ReplayError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class JavaWriter:
    """Writes single records to the partition of a plan, by the rules of partition_replay.py."""

    def __init__(self, spark: SparkSession, plan: Plan, settings: Mapping[str, str]) -> None:
        self._plan = plan
        self._jvm = cast(Any, spark.sparkContext._jvm)
        clients = self._jvm.org.apache.kafka.clients.producer
        properties = self._jvm.java.util.Properties()
        serializer = "org.apache.kafka.common.serialization.ByteArraySerializer"
        config = {
            **settings,
            "bootstrap.servers": plan.librdkafka["bootstrap.servers"],
            "acks": "all",
            "enable.idempotence": "true",
            "key.serializer": serializer,
            "value.serializer": serializer,
            "compression.type": plan.compression,
            "max.request.size": str(2**31 - 1),
            "max.block.ms": str(plan.stall_ms),
            "delivery.timeout.ms": str(max(plan.stall_ms, 30_001)),
            "linger.ms": "0",
        }
        for key, value in config.items():
            properties.setProperty(key, value)
        self._record = clients.ProducerRecord
        self._header = self._jvm.org.apache.kafka.common.header.internals.RecordHeader
        self._producer = clients.KafkaProducer(properties)

    def write(self, row: Row) -> None:
        plan = self._plan
        headers = None
        if row.headers:
            headers = self._jvm.java.util.ArrayList()
            for name, value in row.headers:
                headers.add(self._header(name, value))
        try:
            record = self._record(plan.topic, plan.partition, row.timestamp_ms, row.key, row.value, headers)
            self._producer.send(record).get()
        except Py4JJavaError as error:
            reason = " ".join(str(error.java_exception.getMessage()).split())
            raise ReplayError(f"the record of offset {row.offset} is refused: {reason}") from error

    def close(self) -> None:
        self._producer.close()
