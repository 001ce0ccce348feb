"""Produce: the same batches, right and wrong, get the same answers from us and from Apache Kafka."""

from __future__ import annotations

import time
import uuid

import pytest

from support.batches import Item, batch
from support.kafka_requests import fetch, init_producer_id, list_offsets, produce
from support.transcript import NONE_EXISTS, SameAnswers, Transcript

VERSIONS = range(3, 14)


def named(transcript: Transcript, topic: str, version: int) -> str | uuid.UUID:
    """A topic as a Produce request of that version names it."""
    return transcript.topic_ids[topic] if version >= 13 else topic


def test_every_version_appends_and_answers(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create()
        for version in VERSIONS:
            for acks in (1, -1):
                request = produce(named(transcript, topic, version), batch([Item(), Item()]), acks=acks)
                transcript.ask(f"acks={acks}", request, version)
        transcript.ask("log end", list_offsets(topic, -1), 5)

    same_answers(script)


def test_acks_0_is_not_answered(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create()
        transcript._wire.send(produce(topic, batch(), acks=0), 9)
        transcript.ask("the next answer belongs to the next request", list_offsets(topic, -1), 5)

    same_answers(script)


def test_acks_0_with_an_error_closes_the_connection(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create()
        transcript.ask("wrong CRC", produce(topic, batch(crc=1), acks=0), 9)
        transcript.ask("unknown partition", produce(topic, batch(), acks=0, partition=9), 9)

    same_answers(script)


# Null records are missing: Apache Kafka leaves them without an answer.
WRONG = {
    "empty records": b"",
    "a torn header": batch()[:40],
    "a torn batch": batch()[:-1],
    "magic 0": batch(magic=0),
    "magic 1": batch(magic=1),
    "magic 3": batch(magic=3),
    "two batches": batch() + batch(),
    "a batch and a torn one": batch() + batch()[:-1],
    "a batch and a few bytes": batch() + b"\0\0\0",
    "length 1": batch(length=1),
    "length 0": batch(length=0),
    "length -1": batch(length=-1),
    "length smaller than the header": batch(length=40),
    "length larger than the bytes": batch(length=100_000),
    "base offset 7": batch(base_offset=7),
    "wrong CRC": batch(crc=1),
    "leader epoch 9": batch(leader_epoch=9),
    "codec 5": batch(attributes=5),
    "codec 7": batch(attributes=7),
    "an unused attribute bit": batch(attributes=1 << 10),
    "count 0": batch([], count=0, last_offset_delta=0),
    "count -1": batch(count=-1),
    "count 2 for one record": batch(count=2, last_offset_delta=1),
    "count 1 for two records": batch([Item(), Item()], count=1, last_offset_delta=0),
    "count and last offset delta differ": batch([Item(), Item()], last_offset_delta=5),
    "last offset delta -1": batch(last_offset_delta=-1),
    "a control batch": batch(attributes=0x20),
    "a producer without a sequence": batch(producer_id=77, producer_epoch=0, base_sequence=-1),
    "a producer without an epoch": batch(producer_id=77, producer_epoch=-1, base_sequence=0),
    "a sequence without a producer": batch(producer_id=-1, producer_epoch=-1, base_sequence=5),
    "flagged log append time": batch(attributes=8),
    "flagged log append time, timestamp -1": batch(attributes=8, base_timestamp=-1),
    "timestamp -1": batch(base_timestamp=-1),
    "a too small max timestamp": batch([Item(timestamp_delta=500)], max_timestamp=1),
    "a too large max timestamp": batch([Item(timestamp_delta=500)], max_timestamp=1 << 50),
    "flagged delete horizon": batch(attributes=0x40),
    "record attributes 1": batch([Item(attributes=1)]),
    "compressed record attributes 1": batch([Item(attributes=1)], codec="gzip"),
    "a null header name": batch(body=b"\x18\x00\x00\x00\x01\x01\x02\x01\x00\x00\x00\x00\x00"),
    "gzip garbage": batch(attributes=1, body=b"no gzip here"),
    "snappy garbage": batch(attributes=2, body=b"no snappy here"),
    "lz4 garbage": batch(attributes=3, body=b"no lz4 here"),
    "zstd garbage": batch(attributes=4, body=b"no zstd here"),
    "an empty body": batch(body=b""),
    "a record longer than the batch": batch(body=b"\x7e\x00\x00\x00\x01\x01\x00"),
    "a negative record length": batch(body=b"\x01\x00\x00\x00\x01\x01\x00"),
    "bytes after the last record": batch(body=b"\x0c\x00\x00\x00\x01\x01\x00" + b"\x00\x00\x00"),
    "gzip bytes after the last record": batch(body=b"\x0c\x00\x00\x00\x01\x01\x00" + b"\x00\x00\x00", codec="gzip"),
}


@pytest.mark.parametrize("version", [3, 7, 8, 12])
def test_damaged_and_lying_batches(same_answers: SameAnswers, version: int) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create(partitions=len(WRONG))
        for partition, (what, records) in enumerate(WRONG.items()):
            transcript.ask(what, produce(topic, records, partition=partition), version)
            transcript.ask(f"{what}: log end", list_offsets(topic, -1, partitions=[partition]), 5)

    same_answers(script)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_stored_of_each_codec(same_answers: SameAnswers, codec: str) -> None:
    """Batches kept as they came have the same bytes on both sides."""

    def script(transcript: Transcript) -> None:
        topic = transcript.create()
        items = [Item(value=b"%d" % n, timestamp_delta=n, headers=((b"h", None),)) for n in range(50)]
        for version in (3, 6, 7, 9):
            transcript.ask("produce", produce(topic, batch(items, codec=codec)), version)
        healed = batch(items, codec=codec, max_timestamp=5)
        transcript.ask("a wrong max timestamp", produce(topic, healed), 9)
        transcript.ask("stored", fetch(topic, 0), 11)

    same_answers(script)


@pytest.mark.parametrize("compression_type", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_batches_rebuilt_by_the_broker(same_answers: SameAnswers, compression_type: str) -> None:
    """A topic with a codec of its own stores the same records and timestamps; the compressed bytes may differ."""

    def script(transcript: Transcript) -> None:
        topic = transcript.create(compression_type=compression_type)
        items = [Item(value=b"%d" % n, timestamp_delta=-n, headers=((b"h", None),)) for n in range(20)]
        gaps = [Item(offset_delta=3), Item(offset_delta=9)]
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            transcript.ask(f"from {codec}", produce(topic, batch(items, codec=codec)), 9)
            if codec != compression_type.replace("uncompressed", "none"):
                transcript.ask(f"gaps from {codec}", produce(topic, batch(gaps, codec=codec)), 9)
        transcript.note("stored", transcript.read(topic))

    same_answers(script)


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_offset_deltas_other_than_0_1_2(same_answers: SameAnswers, codec: str) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create()
        for deltas in ((0, 0, 0), (0, 5, 9), (1, 2, 3), (1, 0, 2), (0, -1, 2), (0, 1, 2**31 - 1)):
            wrong = batch([Item(offset_delta=delta) for delta in deltas], codec=codec)
            answer = transcript.ask_quietly(produce(topic, wrong), 9).responses[0].partition_responses[0]
            said = "uncompressed" if codec == "none" else "compressed"
            transcript.note(f"offset deltas {deltas}, {said}", {"error_code": answer.error_code}, api="Produce")

    same_answers(script)


def test_topics_and_partitions_that_do_not_exist(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create()
        for version in VERSIONS:
            absent = NONE_EXISTS if version >= 13 else f"{topic}-absent"
            transcript.ask("unknown topic", produce(absent, batch()), version)
            transcript.ask(
                "unknown partition", produce(named(transcript, topic, version), batch(), partition=5), version
            )
            negative = produce(named(transcript, topic, version), batch(), partition=-1)
            transcript.ask("negative partition", negative, version)

    same_answers(script)


def test_acks_other_than_0_1_and_all(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create()
        for acks in (2, -2, 100):
            transcript.ask(f"acks={acks}", produce(topic, batch(), acks=acks), 9)

    same_answers(script)


def test_size_limits(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create(max_message_bytes="200")
        for size in (100, 129, 130, 131, 132, 133, 300):
            transcript.ask(f"a value of {size}", produce(topic, batch([Item(value=b"v" * size)])), 9)
        compressed = batch([Item(value=b"v" * 10_000)], codec="gzip")
        transcript.ask("compressed it fits", produce(topic, compressed), 9)
        large = transcript.create("-uncompressed", max_message_bytes="200", compression_type="uncompressed")
        transcript.ask("rebuilt it does not", produce(large, compressed), 9)

    same_answers(script)


def test_compacted_topics_want_keys(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        items = [Item(), Item(key=None), Item(), Item(key=None)]
        for policy in ("compact", "compact,delete"):
            topic = transcript.create(f"-{policy.replace(',', '-')}", cleanup_policy=policy)
            for codec in ("none", "gzip"):
                for version in (7, 8, 9):
                    what = f"{policy} {codec}"
                    transcript.ask(what, produce(topic, batch(items, codec=codec)), version)
            transcript.ask(f"{policy}: keys", produce(topic, batch()), 9)

    same_answers(script)


def test_timestamps_out_of_range(same_answers: SameAnswers) -> None:
    now = time.time_ns() // 1_000_000

    def script(transcript: Transcript) -> None:
        strict = transcript.create(message_timestamp_before_max_ms="60000", message_timestamp_after_max_ms="60000")
        default = transcript.create("-default")
        for topic, name in ((strict, "strict"), (default, "default")):
            for shift in (-10_000_000_000, -120_000, 0, 120_000, 10_000_000):
                request = produce(topic, batch([Item(), Item()], base_timestamp=now + shift))
                transcript.ask(f"{name} {shift:+}", request, 9)
        mixed = batch([Item(), Item(timestamp_delta=-120_000), Item(key=None)], base_timestamp=now)
        transcript.ask("one of three", produce(strict, mixed), 9)

    same_answers(script)


def test_log_append_time(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create(message_timestamp_type="LogAppendTime")
        for codec in ("none", "zstd"):
            for version in (7, 9):
                transcript.ask(codec, produce(topic, batch(codec=codec)), version)
        transcript.ask("flagged", produce(topic, batch(attributes=8)), 9)
        transcript.ask("from the future", produce(topic, batch(base_timestamp=1 << 45)), 9)

    same_answers(script)


def test_idempotent_sequences(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create()

        def send(what: str, sequence: int, *, count: int = 2, epoch: int = 0, producer: int = 4711) -> None:
            records = batch([Item()] * count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
            transcript.ask(what, produce(topic, records), 9)

        send("first", 0)
        send("second", 2)
        send("second again", 2)
        send("first again", 0)
        send("a gap", 6)
        send("an overlap", 3)
        send("the same start, longer", 2, count=3)
        for number in range(5):
            send(f"number {number}", 4 + 2 * number)
        send("older than five batches", 2)
        send("a new epoch in the middle", 14, epoch=1)
        send("a new epoch from zero", 0, epoch=1)
        send("the old epoch", 2, epoch=0)
        send("unknown producer, any sequence", 1000, producer=4712)
        send("before the wrap", 2**31 - 3, producer=4713)
        send("across the wrap", 2**31 - 1, producer=4713)
        send("after the wrap", 1, producer=4713)
        transcript.ask("stored", fetch(topic, 0), 11)

    same_answers(script)


def test_producer_ids(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        transcript.wait_until_loaded(init_producer_id(), 4)
        for version in range(6):
            transcript.ask("idempotent", init_producer_id(), version)
        for version in (3, 4, 5):
            transcript.ask("with an id", init_producer_id(producer_id=5, producer_epoch=3), version)
            transcript.ask("half an id", init_producer_id(producer_id=5), version)
        transcript.ask("a negative time-out", init_producer_id(timeout_ms=-1), 4)

    same_answers(script)


def test_several_partitions_fail_one_by_one(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create(partitions=3)
        request = produce(topic, batch())
        data = request.topic_data[0]
        Partition = type(data.partition_data[0])
        data.partition_data += [
            Partition(index=1, records=batch(crc=1)),
            Partition(index=2, records=batch([Item()] * 3)),
            Partition(index=3, records=batch()),
        ]
        transcript.ask("four partitions", request, 9)
        for partition in range(3):
            transcript.ask(f"log end {partition}", list_offsets(topic, -1, partitions=[partition]), 5)

    same_answers(script)


def test_an_append_larger_than_a_segment(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create(segment_bytes=str(1 << 20), max_message_bytes=str(4 << 20))
        transcript.ask("2 MiB", produce(topic, batch([Item(value=bytes(2 << 20))])), 9)
        transcript.ask("half", produce(topic, batch([Item(value=bytes(1 << 19))])), 9)

    same_answers(script)
