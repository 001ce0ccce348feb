"""Fetch and ListOffsets: the same positions get the same answers from us and from Apache Kafka."""

from __future__ import annotations

import uuid

import pytest

from support.batches import Item, batch
from support.kafka_requests import delete_records, fetch, list_offsets, produce
from support.transcript import NONE_EXISTS, SameAnswers, Transcript

FETCH_VERSIONS = range(4, 19)
LIST_VERSIONS = range(1, 12)
START = 1_700_000_000_000


def filled(transcript: Transcript, **configs: str) -> str:
    """A topic with ten batches of three records, one second and one batch apart."""
    topic = transcript.create("", partitions=1, retention_ms="-1", **configs)
    for number in range(10):
        items = [Item(value=b"%d-%d" % (number, n), timestamp_delta=n * 10) for n in range(3)]
        records = batch(items, base_timestamp=START + number * 1000, codec="gzip" if number % 2 else "none")
        transcript.ask(f"fill {topic} {number}", produce(topic, records), 9)
    return topic


def named(transcript: Transcript, topic: str, version: int) -> str | uuid.UUID:
    return transcript.topic_ids[topic] if version >= 13 else topic


def test_positions_in_every_version(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = filled(transcript)
        for version in FETCH_VERSIONS:
            for offset in (0, 1, 3, 29, 30, 31, -1, 1 << 40):
                transcript.ask(f"from {offset}", fetch(named(transcript, topic, version), offset), version)

    same_answers(script)


def test_limits_on_bytes(same_answers: SameAnswers) -> None:
    """The first batch comes whole whatever the limits; what does not fit after it may be cut anywhere."""

    def script(transcript: Transcript) -> None:
        topic = filled(transcript)
        for limit in (0, 1, 50, 90, 100, 150, 200, 250, 300, 1000):
            transcript.ask(f"partition_max_bytes {limit}", fetch(topic, 4, partition_max_bytes=limit), 11)
            transcript.ask(f"max_bytes {limit}", fetch(topic, 4, max_bytes=limit), 11)

    same_answers(script)


def test_limits_over_several_partitions(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create(partitions=3)
        for partition in range(3):
            for number in range(4):
                transcript.ask(f"fill {partition} {number}", produce(topic, batch(), partition=partition), 9)
        for max_bytes in (0, 100, 250, 500, 10_000):
            request = fetch(topic, 0, max_bytes=max_bytes)
            Partition = type(request.topics[0].partitions[0])
            request.topics[0].partitions += [
                Partition(
                    partition=partition,
                    current_leader_epoch=-1,
                    fetch_offset=0,
                    last_fetched_epoch=-1,
                    log_start_offset=-1,
                    partition_max_bytes=150,
                )
                for partition in (1, 2)
            ]
            transcript.ask(f"max_bytes {max_bytes}", request, 11)

    same_answers(script)


def test_waiting_ends_with_the_time(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = filled(transcript)
        transcript.ask("nothing there", fetch(topic, 30, max_wait_ms=100, min_bytes=1), 11)
        transcript.ask("too little there", fetch(topic, 27, max_wait_ms=100, min_bytes=10_000), 11)
        transcript.ask("an error does not wait", fetch(topic, 99, max_wait_ms=60_000, min_bytes=1), 11)

    same_answers(script)


def test_topics_and_partitions_that_do_not_exist(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create()
        for version in FETCH_VERSIONS:
            absent = NONE_EXISTS if version >= 13 else f"{topic}-absent"
            transcript.ask("unknown topic", fetch(absent, 0), version)
            transcript.ask("unknown partition", fetch(named(transcript, topic, version), 0, partition=7), version)

    same_answers(script)


def test_leader_epochs(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = filled(transcript)
        for version in (9, 11, 12):
            for epoch in (-1, 0, 1):
                transcript.ask(f"current {epoch}", fetch(topic, 3, current_leader_epoch=epoch), version)
        for epoch in (-1, 0, 1, 5):
            for offset in (3, 30, 40):
                what = f"last fetched {epoch} at {offset}"
                transcript.ask(what, fetch(topic, offset, last_fetched_epoch=epoch), 12)
        for epoch in (-1, 0, 1):
            transcript.ask(f"list, current {epoch}", list_offsets(topic, -1, epoch=epoch), 5)

    same_answers(script)


def test_isolation_levels(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = filled(transcript)
        for level in (0, 1):
            transcript.ask(f"fetch {level}", fetch(topic, 6, isolation_level=level), 11)
            transcript.ask(f"end {level}", list_offsets(topic, -1, isolation_level=level), 5)

    same_answers(script)


def test_sessions_that_do_not_exist(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = filled(transcript)
        for version in (7, 11, 12):
            for session, epoch in ((123, 1), (123, 0), (123, -1), (0, -1), (0, 5)):
                request = fetch(topic, 0, session_id=session, session_epoch=epoch)
                transcript.ask(f"session {session} epoch {epoch}", request, version)

    same_answers(script)


@pytest.mark.parametrize("version", [7, 11, 12, 14])
def test_sessions(same_answers: SameAnswers, version: int) -> None:
    """What each session is told when partitions are added, forgotten, moved on in, wrong, or have got records."""

    def script(transcript: Transcript) -> None:
        topic = transcript.create(partitions=3)
        name = named(transcript, topic, version)
        session = transcript.ask("first", fetch(name, 0, session_epoch=0), version).session_id

        def go_on(epoch: int, *offsets: tuple[int, int], forget: tuple[int, ...] = (), again: str = "") -> None:
            request = fetch(name, 0, session_id=session, session_epoch=epoch)
            (wanted,) = request.topics
            (template,) = wanted.partitions
            changes = [{"partition": partition, "fetch_offset": offset} for partition, offset in offsets]
            wanted.partitions = [type(template)(**template.to_dict(json=False) | change) for change in changes]
            request.topics = [wanted] if changes else []
            if forget:
                key = "topic_id" if version >= 13 else "topic"
                given_up = type(request).ForgottenTopic(**{key: name, "partitions": list(forget)})
                request.forgotten_topics_data = [given_up]
            transcript.ask(f"epoch {epoch}{again}", request, version)

        go_on(1)
        go_on(2, (1, 0), (2, 5))
        go_on(3)
        transcript.ask("produce", produce(topic, batch(), partition=1), 9)
        go_on(4, (2, 0))
        go_on(5, (1, 1), forget=(0,))
        go_on(5, again=", again")
        go_on(7, again=", too early")
        go_on(6, (7, 0))
        go_on(7, forget=(1, 2, 7))
        go_on(8)

    same_answers(script)


@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
def test_special_timestamps_in_every_version(same_answers: SameAnswers, timestamp_type: str) -> None:
    def script(transcript: Transcript) -> None:
        topic = filled(transcript, message_timestamp_type=timestamp_type)
        empty = transcript.create("-empty")
        for version in LIST_VERSIONS:
            for timestamp in (-1, -2, -4, -5, -6, -7, -100):
                transcript.ask(f"{timestamp}", list_offsets(topic, timestamp), version)
                transcript.ask(f"empty {timestamp}", list_offsets(empty, timestamp), version)
            transcript.ask("empty -3", list_offsets(empty, -3), version)
            if timestamp_type == "CreateTime":
                transcript.ask("-3", list_offsets(topic, -3), version)

    same_answers(script)


def test_timestamps(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = filled(transcript)
        for shift in (-1, 0, 1, 10, 15, 20, 21, 999, 1000, 1001, 4010, 4011, 9020, 9021, 1 << 40):
            transcript.ask(f"start{shift:+}", list_offsets(topic, START + shift), 7)
        transcript.ask("zero", list_offsets(topic, 0), 7)

    same_answers(script)


def test_timestamps_that_go_back(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create(retention_ms="-1")
        for number, shift in enumerate((500, 100, 900, 300, -1 - START, 700)):
            records = batch([Item(), Item(timestamp_delta=5)], base_timestamp=START + shift)
            transcript.ask(f"produce {number}", produce(topic, records), 9)
        for shift in (0, 100, 101, 300, 301, 500, 506, 700, 900, 905, 906):
            transcript.ask(f"start{shift:+}", list_offsets(topic, START + shift), 7)
        transcript.ask("largest", list_offsets(topic, -3), 7)

    same_answers(script)


def test_list_offsets_of_what_does_not_exist_or_is_asked_twice(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = filled(transcript)
        for version in LIST_VERSIONS:
            transcript.ask("unknown topic", list_offsets(f"{topic}-absent", -1), version)
            transcript.ask("unknown partition", list_offsets(topic, -1, partitions=[5]), version)
            transcript.ask("twice", list_offsets(topic, -1, -2), version)

    same_answers(script)


def test_below_the_log_start_offset(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = filled(transcript)
        transcript.ask("delete", delete_records(topic, (0, 10)), 2)
        for offset in (0, 8, 9, 10, 11, 30):
            for version in (4, 5, 11, 12):
                transcript.ask(f"from {offset}", fetch(topic, offset), version)
        for timestamp in (-1, -2, -4, 0, START, START + 3010, START + 4000):
            transcript.ask(f"list {timestamp}", list_offsets(topic, timestamp), 8)

    same_answers(script)
