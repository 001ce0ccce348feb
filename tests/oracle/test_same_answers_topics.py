"""Topics, DeleteRecords and the outermost layer: we answer the same requests as Apache Kafka does."""

from __future__ import annotations

import struct
from typing import Any

from kafka.protocol.metadata import ApiVersionsRequest

from support.batches import Item, batch
from support.kafka_requests import create_topics, delete_records, delete_topics, fetch, list_offsets, metadata, produce
from support.transcript import NONE_EXISTS, SameAnswers, Transcript
from support.wire import Wire


def test_create_topics(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        name = transcript.topic

        def create(what: str, version: int = 7, *, validate_only: bool = False, **topic: Any) -> None:
            request = create_topics({"name": name, **topic}, validate_only=validate_only)
            transcript.ask(what, request, version)

        for version in range(2, 8):
            create("plain", version, name=f"{name}-v{version}")
        create("exists", name=f"{name}-v7")
        create("validate only", validate_only=True)
        create("validate only, again", validate_only=True)
        create("defaults", name=f"{name}-defaults", num_partitions=-1, replication_factor=-1)
        for partitions in (0, -2):
            create(f"{partitions} partitions", num_partitions=partitions)
        for replicas in (0, -2, 2, 1000):
            create(f"replication factor {replicas}", replication_factor=replicas)
        for bad in ("", ".", "..", "a" * 250, "a b", "a/b", "ä", "a:b"):
            create(f"name {bad[:5]!r}", name=bad)
        create("the longest name", validate_only=True, name="a" * 249)
        create(
            "assigned", name=f"{name}-assigned", num_partitions=-1, replication_factor=-1, assignments={0: [1], 1: [1]}
        )
        create("assigned and counted", num_partitions=2, assignments={0: [1]})
        create("assigned to nobody", num_partitions=-1, replication_factor=-1, assignments={0: []})
        create("assigned to a stranger", num_partitions=-1, replication_factor=-1, assignments={0: [99]})
        create("assigned twice to one", num_partitions=-1, replication_factor=-1, assignments={0: [1, 1]})
        create("assigned with a gap", num_partitions=-1, replication_factor=-1, assignments={1: [1]})
        create("unknown setting", configs={"no.such.key": "1"})
        create("not a number", configs={"retention.ms": "soon"})
        create("out of range", configs={"min.cleanable.dirty.ratio": "2"})
        create("not a choice", configs={"cleanup.policy": "burn"})
        create("null setting", configs={"retention.ms": None})
        create("a dot where an underscore is", name=f"{name}_v7")
        request = create_topics({"name": f"{name}-twice"}, {"name": f"{name}-twice"}, {"name": f"{name}-once"})
        transcript.ask("twice in one request", request, 7)
        transcript.ask("no topics", create_topics(), 7)

    same_answers(script)


def test_names_that_collide(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        transcript.create(".a")
        transcript.ask("a dot for an underscore", create_topics({"name": f"{transcript.topic}_a"}), 7)

    same_answers(script)


def test_delete_topics(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        for version in range(1, 7):
            topic = transcript.create(f"-{version}")
            transcript.ask("exists", delete_topics(topic, version=version), version)
            transcript.ask("exists no more", delete_topics(topic, version=version), version)
        by_id, twice = transcript.create("-by-id"), transcript.create("-twice")
        for what in ("by id", "by id again"):
            transcript.ask(what, delete_topics(transcript.topic_ids[by_id], version=6), 6)
        transcript.ask("unknown id", delete_topics(NONE_EXISTS, version=6), 6)
        transcript.ask("twice in one request", delete_topics(twice, twice, version=5), 5)
        transcript.ask("bad name", delete_topics("a b", version=5), 5)

    same_answers(script)


def test_a_topic_made_again_is_empty_and_new(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create()
        old_id = transcript.topic_ids[topic]
        transcript.ask("produce", produce(topic, batch([Item()] * 5)), 9)
        transcript.ask("delete", delete_topics(topic, version=5), 5)
        transcript.create()
        transcript.ask("end", list_offsets(topic, -1), 5)
        transcript.ask("fetch by the old id", fetch(old_id, 0), 13)
        transcript.ask("produce to the old id", produce(old_id, batch()), 13)

    same_answers(script)


def test_delete_records(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create(partitions=3)
        for partition in range(3):
            transcript.ask(f"fill {partition}", produce(topic, batch([Item()] * 10), partition=partition), 9)
        for version in range(3):
            transcript.ask("in the middle", delete_records(topic, (0, 3 + version)), version)
            transcript.ask("below", delete_records(topic, (0, 1)), version)
            transcript.ask("zero", delete_records(topic, (1, 0)), version)
            transcript.ask("above the high watermark", delete_records(topic, (0, 11)), version)
            transcript.ask("-2", delete_records(topic, (0, -2)), version)
            transcript.ask("unknown partition", delete_records(topic, (9, 0)), version)
            transcript.ask("unknown topic", delete_records(f"{topic}-absent", (0, 0)), version)
        transcript.ask("several, some wrong", delete_records(topic, (0, 6), (1, 99), (2, 7), (8, 0)), 2)
        transcript.ask("the same partition twice", delete_records(topic, (2, 8), (2, 9)), 2)
        transcript.ask("everything", delete_records(topic, (0, -1)), 2)
        transcript.ask("everything again", delete_records(topic, (0, -1)), 2)
        transcript.ask("with no time", delete_records(topic, (1, 5), timeout_ms=0), 2)
        for partition in range(3):
            transcript.ask(f"start {partition}", list_offsets(topic, -2, partitions=[partition]), 5)
            transcript.ask(f"fetch {partition}", fetch(topic, 4, partition=partition), 11)
        transcript.ask("produce on", produce(topic, batch()), 9)

    same_answers(script)


def test_delete_records_and_the_cleanup_policy(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        for policy in ("compact", "delete", "compact,delete"):
            topic = transcript.create(f"-{policy.replace(',', '-')}", cleanup_policy=policy)
            transcript.ask(f"fill {policy}", produce(topic, batch([Item()] * 4)), 9)
            transcript.ask(policy, delete_records(topic, (0, 2)), 2)

    same_answers(script)


def test_metadata_in_every_version(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create(partitions=3)
        for version in range(14):
            transcript.ask("a topic", metadata(topic), version)
            if version >= 1:
                transcript.ask("no topics", metadata(), version)
            if version >= 4:  # older requests create what they ask for
                transcript.ask("an unknown topic", metadata(f"{topic}-absent"), version)
            transcript.ask("a bad name", metadata("a b"), version)
        for version in (12, 13):
            transcript.ask("by id", metadata(transcript.topic_ids[topic]), version)
            transcript.ask("by an unknown id", metadata(NONE_EXISTS), version)

    same_answers(script)


def test_metadata_creates_topics_when_asked_to(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = f"{transcript.topic}-auto"
        transcript.ask("not without leave", metadata(topic), 9)
        transcript._wire.ask(metadata(topic, auto_create=True), 9)  # Kafka answers before it has made the topic
        transcript.ask("a bad name", metadata("a b", auto_create=True), 9)

    same_answers(script)


def test_api_versions(same_answers: SameAnswers) -> None:
    """What each server can do is its own; how the question may be put is not."""

    def script(transcript: Transcript) -> None:
        def ask(what: str, version: int, body: bytes = b"") -> None:
            response = ask_api_versions(transcript, version, body)
            transcript.note(what, "closed" if response is None else response[:2])

        for version in (0, 1, 2):
            ask(f"v{version}", version)
        ask("v3", 3, b"\x05name\x041.0\x00")
        ask("v4", 4, b"\x05name\x041.0\x00")
        for version in (5, 9, 32767):
            ask(f"v{version}", version)
        ask("empty name", 3, b"\x01\x041.0\x00")
        ask("ill-formed name", 3, b"\x05n me\x041.0\x00")
        ask("no body", 3)

    same_answers(script)


def ask_api_versions(transcript: Transcript, version: int, body: bytes) -> bytes | None:
    """Ask in any version, with any body, on a fresh connection; return the response after its header."""
    flexible = b"\0" if version >= 3 else b""
    header = struct.pack(">hhih", 18, version, 7, 2) + b"me" + flexible
    with Wire(transcript.server.host, transcript.server.port, timeout=30) as wire:
        wire.socket.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        response = wire.receive()
        return None if response is None else response[4:]


def test_what_is_no_request_closes_the_connection(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        sends = {
            "a negative size": struct.pack(">i", -1),
            "size zero": struct.pack(">i", 0),
            "a size above the limit": struct.pack(">i", 2**31 - 1),
            "an unknown API": _frame(9999, 0, b""),
            "an API for brokers only": _frame(5, 0, b""),
            "a version too high": _frame(3, 99, b""),
            "a version below the floor": _frame(1, 0, b""),
            "a negative version": _frame(3, -1, b""),
            "an empty body": _frame(3, 4, b""),
            "a body cut short": _frame(3, 4, b"\0\0\0\1\0\4ab"),
            "a count of two billion": _frame(3, 4, struct.pack(">i", 2**31 - 1)),
            "an HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        }
        for what, data in sends.items():
            with Wire(transcript.server.host, transcript.server.port, timeout=30) as wire:
                wire.socket.sendall(data)
                transcript.note(what, "closed" if wire.receive() is None else "answered")

    same_answers(script)


def _frame(api_key: int, version: int, body: bytes) -> bytes:
    header = struct.pack(">hhih", api_key, version, 1, -1)
    return struct.pack(">i", len(header) + len(body)) + header + body


def test_kmini_offers_no_version_that_apache_kafka_does_not(server: Any, apache_kafka_server: Any) -> None:
    """Our floors may be lower (those of 3.9); our tops are those of 4.3."""
    offered = []
    for each in (server, apache_kafka_server):
        with Wire(each.host, each.port) as wire:
            answer = wire.ask(ApiVersionsRequest(), 0)
        offered.append({api.api_key: api.max_version for api in answer.api_keys})
    ours, theirs = offered
    assert {key: top for key, top in ours.items() if top > theirs.get(key, -1)} == {}
