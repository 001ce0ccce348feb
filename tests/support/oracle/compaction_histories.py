"""Histories drawn at random for the log cleaner: what is written to a topic of Apache Kafka, round after round."""

from __future__ import annotations

import os
import random
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka.protocol.producer import WriteTxnMarkersRequest

from kmini.protocol.records.batch import build_batch, read_header
from kmini.protocol.records.old_formats.messages import build_messages, build_wrapper
from kmini.protocol.records.record import Header, Record
from kmini.protocol.uuids import format_uuid
from support.kafka_requests import delete_records, produce
from support.wire import Wire

DAY_MS = 86_400_000
HOUR_MS = 3_600_000
NONE = 0
DUPLICATE_KEYS = [b"a", b"b", b"c", b"d", b"", b"a key of some length, because there are such keys"]


@dataclass
class Producer:
    """What must go on where it stopped: one producer id in one partition."""

    producer_id: int
    epoch: int = 0
    sequence: int = 0
    is_open: bool = False
    """Its transaction has data, and no marker yet."""


@dataclass
class History:
    """One topic of one partition. All that is random is drawn from `seed`; times are counted from `began_ms`."""

    topic: str
    seed: int
    began_ms: int
    log_end_offset: int = 0
    log_start_offset: int = 0
    rounds: int = 0
    producers: list[Producer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dice = dice = random.Random(self.seed)
        self.now_ms = self.began_ms
        self.segment_bytes = dice.choice([1_500, 3_000, 6_000])
        self.policy = dice.choice(["compact", "compact", "compact,delete"])
        self.is_log_append_time = dice.random() < 0.2
        self.is_old = dice.random() < 0.3
        """It begins with messages of magic 0 and 1, which only a folder from an old Kafka brings."""
        self.producers = [Producer(1_000 + number) for number in range(4)]
        self.configs = {
            "internal.segment.bytes": str(self.segment_bytes),
            "segment.index.bytes": "10000",
            "index.interval.bytes": str(dice.choice([100, 1_000])),
            "message.timestamp.type": "LogAppendTime" if self.is_log_append_time else "CreateTime",
            "retention.ms": "-1",
            "min.cleanable.dirty.ratio": "1.0",
            "delete.retention.ms": str(DAY_MS),
        }
        """Of the topic as it is created: with the policy `delete`, so that keyless records are taken. (With indexes so
        small that they fill up, Kafka's cleaner gives up on a log.)"""

    def draw_retention(self) -> int:
        """`delete.retention.ms` for the cleaning that comes: over before the next one begins, or long after all."""
        return self.dice.choice([1, 1, DAY_MS])

    # What an old Kafka has left

    def write_folder(self, folder: Path) -> None:
        """A few segments without indexes, and of various ages: that is what old tombstones go by."""
        dice = self.dice
        folder.mkdir(parents=True)
        topic_id = format_uuid(uuid.UUID(int=self.seed + (1 << 100)).bytes)
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}", encoding="ascii")
        for _ in range(dice.randrange(2, 5)):
            path = folder / f"{self.log_end_offset:020d}.log"
            path.write_bytes(b"".join(self.old_messages() for _ in range(dice.randrange(1, 8))))
            age_ms = dice.randrange(3 * DAY_MS)
            os.utime(path, ns=((self.began_ms - age_ms) * 1_000_000,) * 2)

    def old_messages(self) -> bytes:
        """A batch, or a message set: uncompressed, so each message is on its own, or in a wrapper."""
        dice, first = self.dice, self.log_end_offset
        records = [record._replace(offset=first + n, headers=()) for n, record in enumerate(self.records())]
        self.log_end_offset += len(records)
        magic, codec = dice.choice([0, 1, 1, 2]), dice.choice([0, 0, 1, 2, 3])
        append_time = self.now_ms if dice.random() < 0.2 and magic else None
        if magic == 2:
            return bytes(
                build_batch(records, base_offset=first, codec=codec, log_append_time_ms=append_time, leader_epoch=0)
            )
        if codec == 0:
            return bytes(build_messages(records, magic, log_append_time_ms=append_time))
        return build_wrapper([records], magic, codec, log_append_time_ms=append_time)

    # Writing

    def write_round(self, wire: Wire) -> None:
        """Append for a while, then what makes Kafka roll: all but the last batch can be cleaned, unless a transaction
        is left open."""
        dice = self.dice
        may_delete = not self.rounds or "delete" in self.policy
        for _ in range(dice.randrange(6, 30)):
            dice.choice([self.put] * 4 + [self.put_idempotent] * 2 + [self.put_in_transaction] * 3 + [self.end] * 2)(
                wire
            )
            if may_delete and dice.random() < 0.02:
                self.delete_records(wire)
        # Kafka's cleaner cannot empty a message of magic 0 or 1, as it must if cleaning ends behind one.
        leaves_open = dice.random() < 0.15 and not self.is_old
        for producer in self.producers:
            if producer.is_open and not leaves_open:
                self.write_marker(wire, producer, abort=dice.random() < 0.5)
        self.seal(wire)
        self.rounds += 1

    def records(self) -> list[Record]:
        dice = self.dice
        self.now_ms += dice.randrange(0, 1_000)
        has_keyless = not self.rounds and dice.random() < 0.1
        found = []
        for number in range(dice.choice([1, 1, 2, 3, 5, 12])):
            key: bytes | None = dice.choice(DUPLICATE_KEYS)
            if dice.random() < 0.2:
                key = b"key %d" % dice.randrange(40)
            if has_keyless and dice.random() < 0.5:
                key = None
            value = dice.choice([None, None, b"", b"value %d" % number, b"x" * 150, dice.randbytes(60)])
            headers: tuple[Header, ...] = dice.choice([(), (), (("h", None), ("h", b"1"), ("", b""))])
            found.append(Record(0, self.now_ms + dice.randrange(-500, 500), key, value, headers))
        return found

    def put(self, wire: Wire, producer: Producer | None = None, *, transactional: bool = False) -> None:
        records, more = self.records(), {}
        if producer is not None:
            more = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
            more["base_sequence"] = producer.sequence
            producer.sequence += len(records)
        elif self.dice.random() < 0.05:
            records = [record._replace(timestamp=-1) for record in records]
        self.append(wire, records, codec=self.dice.choice([0, 0, 0, 1, 2, 3, 4]), transactional=transactional, **more)

    def put_idempotent(self, wire: Wire) -> None:
        self.put(wire, self.producers[self.dice.randrange(2)])

    def put_in_transaction(self, wire: Wire) -> None:
        producer = self.producers[self.dice.randrange(2, 4)]
        self.put(wire, producer, transactional=True)
        producer.is_open = True

    def end(self, wire: Wire) -> None:
        """End a transaction, or one that has never got as far as this partition; at times with a later epoch."""
        producer = self.dice.choice(self.producers[2:])
        if self.dice.random() < 0.2:
            producer.epoch += 1
            producer.sequence = 0
        self.write_marker(wire, producer, abort=self.dice.random() < 0.5)

    def append(self, wire: Wire, records: list[Record], **batch: Any) -> None:
        built = bytes(build_batch(records, **batch))
        request = produce(self.topic, built, transactional_id="any" if batch.get("transactional") else None)
        answer = wire.ask(request, 11).responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (NONE, self.log_end_offset), answer
        self.log_end_offset += len(records)

    def write_marker(self, wire: Wire, producer: Producer, *, abort: bool) -> None:
        Marker = WriteTxnMarkersRequest.WritableTxnMarker
        marker = Marker(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            transaction_result=not abort,
            topics=[Marker.WritableTxnMarkerTopic(name=self.topic, partition_indexes=[0])],
            coordinator_epoch=0,
        )
        answer = wire.ask(WriteTxnMarkersRequest(markers=[marker]), 1).markers[0].topics[0].partitions[0]
        assert answer.error_code == NONE, answer
        producer.is_open = False
        self.log_end_offset += 1

    def delete_records(self, wire: Wire) -> None:
        """Not beyond what is decided: Kafka would wait."""
        offset = self.dice.randrange(self.log_start_offset, self.log_end_offset + 1)
        answer = wire.ask(delete_records(self.topic, (0, offset)), 2).topics[0].partitions[0]
        assert answer.error_code == NONE, answer
        self.log_start_offset = answer.low_watermark

    def seal(self, wire: Wire) -> None:
        """A batch as large as a segment, so that it is the first of a new one."""
        record = Record(0, self.now_ms, b"seal", b"")
        missing = self.segment_bytes - read_header(build_batch([record])).size - 3
        self.append(wire, [record._replace(value=b"." * missing)])


def recently_ms() -> int:
    """An hour ago: producers that are not heard of for a day are forgotten."""
    return time.time_ns() // 1_000_000 - HOUR_MS
