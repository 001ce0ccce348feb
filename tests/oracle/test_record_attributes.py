"""Attributes of records, which mean nothing in Apache Kafka: we keep and lose them where it does.

With the tombstone flag (KIP-87) bit 5 means something; without, a record that has it is a record like any other.
"""

from __future__ import annotations

import pytest

from kmini.protocol.records.batch import iter_batches, records_of
from kmini.protocol.records.compression import decompress_chunks
from kmini.protocol.records.record import TOMBSTONE_BIT
from support.batches import Item, batch
from support.kafka_requests import fetch, produce
from support.transcript import SameAnswers, Transcript

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ITEMS = [
    Item(attributes=TOMBSTONE_BIT, headers=((b"kmini.tombstone", b""),)),
    Item(attributes=TOMBSTONE_BIT, value=None),
    Item(headers=((b"kmini.tombstone", b"false"),)),
    Item(value=None),
]


@pytest.mark.parametrize("compression_type", ["producer", "uncompressed", "gzip"])
def test_the_block_of_a_batch_is_stored_as_in_kafka(same_answers: SameAnswers, compression_type: str) -> None:
    """As it was sent where the codec is right; without attributes where the batch had to be rebuilt."""

    def script(transcript: Transcript) -> None:
        topic = transcript.create(compression_type=compression_type, cleanup_policy="compact")
        for codec in CODECS:
            transcript.ask(f"in {codec}", produce(topic, batch(ITEMS, codec=codec)), 9)
        answer = transcript.ask_quietly(fetch(topic, 0), 11)
        stored = bytes(answer.responses[0].partitions[0].records)
        for position, header in iter_batches(stored):
            block = b"".join(
                bytes(chunk) for chunk in decompress_chunks(header.codec, records_of(stored, position, header), 10_000)
            )
            transcript.note(f"stored at {header.base_offset}", block)

    same_answers(script)
