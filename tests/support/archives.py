"""Archives made by hand, records as a consumer of another maker sees them, and what the tests of both ask."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("timestamp_type", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)

Headers = Sequence[tuple[str, "bytes | None"]]


class Consumed(NamedTuple):
    """A record as kafka-python gives it. The offset is not among what is compared."""

    partition: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def write_file(path: Path, rows: Iterable[Any], group_rows: int = 1 << 20) -> str:
    """A file of an archive with these `Row`s."""
    columns = list(zip(*rows, strict=True)) or [[]] * len(SCHEMA)
    headers = [pairs and [{"key": name, "value": value} for name, value in pairs] for pairs in columns[-1]]
    arrays = [
        pa.array(list(column), field.type) for column, field in zip([*columns[:-1], headers], SCHEMA, strict=True)
    ]
    pq.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA), path, row_group_size=group_rows)
    return str(path)


def consume(bootstrap_servers: str, topic: str, *, committed: bool = True) -> list[Consumed]:
    """Everything in a topic, in order of partition and offset."""
    return [record for _, record in consume_with_offsets(bootstrap_servers, topic, committed=committed)]


def consume_with_offsets(bootstrap_servers: str, topic: str, *, committed: bool = True) -> list[tuple[int, Consumed]]:
    from kafka import KafkaConsumer, TopicPartition

    level = "read_committed" if committed else "read_uncommitted"
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap_servers, isolation_level=level, auto_offset_reset="earliest", group_id=None
    )
    try:
        places = [TopicPartition(topic, partition) for partition in consumer.partitions_for_topic(topic)]
        consumer.assign(places)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(places)
        found: list[tuple[int, Consumed]] = []
        deadline = time.monotonic() + 60
        while any(consumer.position(place) < ends[place] for place in places):
            assert time.monotonic() < deadline, (topic, ends, len(found))
            for place, records in consumer.poll(timeout_ms=200).items():
                found += [(record.offset, _consumed(place.partition, record)) for record in records]
    finally:
        consumer.close()
    return sorted(found, key=lambda pair: (pair[1].partition, pair[0]))


def _consumed(partition: int, record: Any) -> Consumed:
    headers = tuple((name, value) for name, value in record.headers)
    return Consumed(partition, record.timestamp, record.timestamp_type, record.key, record.value, headers)


def write_archive(
    folder: Path, topic: str, partitions: Sequence[Sequence[Any]], configs: dict[str, str] | None = None
) -> str:
    """An archive of a topic with these `Row`s in its partitions, in two files each."""
    from kmini.pipeline.archives.archive_files import Description, write_description

    archive = str(folder)
    write_description(archive, Description(topic, len(partitions), configs or {}, is_complete=True))
    for number, rows in enumerate(partitions):
        place = folder / f"topic={topic}" / f"partition={number}"
        place.mkdir()
        half = len(rows) // 2
        for name, some in (("b", rows[:half]), ("a", rows[half:])):
            if some:
                write_file(place / f"part-{name}.parquet", some)
    return archive
