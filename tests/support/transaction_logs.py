"""What transactions leave in a partition, for transcripts."""

from __future__ import annotations

from kafka.protocol.admin import DescribeProducersRequest
from kafka.record import MemoryRecords

from support.kafka_requests import fetch, list_offsets
from support.transcript import Transcript

COMMITTED = 1
LATEST = -1


def note_log(transcript: Transcript, what: str, topic: str) -> None:
    """The batches of partition 0 with their producers, what a read_committed reader gets, and where both end."""
    answer = transcript.ask_quietly(fetch(topic, 0), 11)
    records = MemoryRecords(bytes(answer.responses[0].partitions[0].records))
    batches = []
    while records.has_next():
        stored = records.next_batch()
        kinds = [(record.key, record.value) if stored.is_control_batch else "data" for record in stored]
        batches.append((stored.base_offset, stored.attributes, stored.producer_epoch, stored.base_sequence, str(kinds)))
    transcript.note(f"the log {what}", batches)
    committed = transcript.ask_quietly(fetch(topic, 0, isolation_level=COMMITTED), 11).responses[0].partitions[0]
    transcript.note(
        f"what is committed {what}",
        {
            "last_stable_offset": committed.last_stable_offset,
            "high_watermark": committed.high_watermark,
            "aborted": [each.first_offset for each in committed.aborted_transactions or ()],
            "bytes": len(committed.records or b"") > 0,
        },
    )
    for level in (0, COMMITTED):
        request = list_offsets(topic, LATEST, isolation_level=level)
        transcript.ask(f"the end at level {level} {what}", request, 6)


def note_producers(transcript: Transcript, what: str, topic: str) -> None:
    Topic = DescribeProducersRequest.TopicRequest
    answer = transcript.ask_quietly(DescribeProducersRequest(topics=[Topic(name=topic, partition_indexes=[0])]), 0)
    (partition,) = answer.topics[0].partitions
    producers = [
        (one.producer_epoch, one.last_sequence, one.coordinator_epoch >= 0, one.current_txn_start_offset)
        for one in partition.active_producers
    ]
    transcript.note(f"the producers {what}", sorted(producers))
