"""Versions that Apache Kafka 4 has forgotten, and 3.9 is the last to serve: the same requests, the same answers.

`make soak` fetches Apache Kafka 3.9 and runs this.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kmini.protocol.messages.create_topics import CreateTopicsRequest
from kmini.protocol.messages.fetch import FetchRequest
from kmini.protocol.messages.list_offsets import EARLIEST, LATEST, MAX_TIMESTAMP, ListOffsetsRequest
from kmini.protocol.messages.produce import ProduceRequest
from kmini.protocol.records.batch import build_batch, iter_batches
from kmini.protocol.records.batch_records import decode_all
from kmini.protocol.records.record import Record
from kmini.testing import Wire
from support import apache_kafka, message_sets
from support.oracle.differences import intention_of
from support.server_process import ServerProcess, kafka_command
from support.until import until

pytestmark = pytest.mark.soak

JARS = Path(os.environ.get("KMINI_KAFKA_39_JARS", apache_kafka.REPOSITORY / ".peers" / "kafka-3.9" / "lib"))
TOPICS = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "strict": {"message.timestamp.before.max.ms": "1000000", "message.timestamp.after.max.ms": "1000000"},
    "lz4": {"compression.type": "lz4"},
    "zstd": {"compression.type": "zstd"},
    "small": {"max.message.bytes": "200"},
    "new": {},
    "large": {},
}
UNKNOWN_SERVER_ERROR = -1


@pytest.fixture(scope="module")
def wires(server: ServerProcess, against_kafka: bool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Wire]]:
    """A connection to our broker, and one to Apache Kafka 3.9, both with the topics."""
    if against_kafka:
        pytest.skip("Apache Kafka 4 has forgotten these versions")
    if not any(JARS.glob("kafka-clients-3.9*.jar")):
        pytest.skip("Apache Kafka 3.9 is not here: it takes Java and Maven to fetch it")
    directory = tmp_path_factory.mktemp("kafka-3.9")
    command = ["env", f"KMINI_KAFKA_JARS={JARS}", *kafka_command(directory / "data", {})]
    theirs = ServerProcess(command, directory / "server.log")
    both = [Wire(each.bootstrap_servers) for each in (server, theirs)]
    for wire in both:
        create_topics(wire)
    yield both
    for wire in both:
        wire.close()
    theirs.stop()


def create_topics(wire: Wire) -> None:
    Topic = CreateTopicsRequest.Topic
    topics = [
        Topic(
            name=name,
            num_partitions=1,
            replication_factor=1,
            assignments=[],
            configs=[Topic.Config(name=key, value=value) for key, value in configs.items()],
        )
        for name, configs in TOPICS.items()
    ]
    answer = wire.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 5)
    assert not any(topic.error_code for topic in answer.topics)
    # Kafka answers before its partitions have leaders.
    until(lambda: not any(list_offsets(wire, name, (LATEST, 1))[0][0] for name in TOPICS), "leaders of the topics")


def produce(wire: Wire, topic: str, version: int, records: bytes | None, acks: int = -1) -> tuple[int, int, object]:
    data = [ProduceRequest.Partition(index=0, records=records)]
    topics = [ProduceRequest.Topic(name=topic, partition_data=data)]
    answer = wire.ask(ProduceRequest(acks=acks, timeout_ms=5_000, topic_data=topics), version)
    partition = answer.responses[0].partition_responses[0]
    append_time = "a time" if partition.log_append_time_ms > 0 else partition.log_append_time_ms
    return partition.error_code, partition.base_offset, append_time


def ask_fetch(wire: Wire, topic: str, version: int, offset: int, limit: int) -> Any:
    """What the partition answers."""
    asked = FetchRequest.Partition(partition=0, fetch_offset=offset, partition_max_bytes=limit)
    topics = [FetchRequest.Topic(topic=topic, partitions=[asked])]
    return wire.ask(FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics), version).responses[0].partitions[0]


def fetch(wire: Wire, topic: str, version: int, offset: int, limit: int) -> tuple[int, int, list[Any], list[Record]]:
    """Error code, high watermark, the messages or batches, and the records in them."""
    partition = ask_fetch(wire, topic, version, offset, limit)
    data = bytes(partition.records or b"")
    entries = [(header.magic, header.attributes, header.last_offset) for _, header in iter_batches(data)]
    records = decode_all(data)
    if topic == "stamped":
        records = [record._replace(timestamp=min(record.timestamp, 0)) for record in records]
    return partition.error_code, partition.high_watermark, entries, records


def list_offsets(wire: Wire, topic: str, *asked: tuple[int, int], replica_id: int = -1) -> list[tuple[int, list[int]]]:
    """For each timestamp and number of offsets, the error code and the offsets."""
    partitions = [
        ListOffsetsRequest.Partition(partition_index=0, timestamp=timestamp, max_num_offsets=count)
        for timestamp, count in asked
    ]
    topics = [ListOffsetsRequest.Topic(name=topic, partitions=partitions)]
    answer = wire.ask(ListOffsetsRequest(replica_id=replica_id, topics=topics), 0)
    return [(partition.error_code, list(partition.old_style_offsets)) for partition in answer.topics[0].partitions]


@pytest.mark.oracle
def test_old_versions_are_answered_as_apache_kafka_3_9_does(wires: list[Wire]) -> None:
    now_ms = int(time.time() * 1000)
    produce_everything(wires, now_ms)
    for topic in TOPICS:
        end = fetch(wires[0], topic, 4, 0, 1)[1]
        for version in range(4):
            for offset in sorted({0, 1, 2, 5, 17, end // 2, end - 1, end, end + 1}):
                for limit in (1 << 20, 2000, 100, 50, 0):
                    compare_fetched(wires, topic, version, offset, limit)
    for topic in (*TOPICS, "unknown"):
        asked = [(time_ms, count) for time_ms in (LATEST, EARLIEST) for count in (0, 1, 5)]
        asked += [(0, 3), (MAX_TIMESTAMP, 3), (-100, 1), (now_ms + 10**9, 2)]
        ours, theirs = (list_offsets(wire, topic, *asked) for wire in wires)
        assert ours == theirs, topic
        ours, theirs = (list_offsets(wire, topic, (LATEST, 1), replica_id=-2) for wire in wires)
        assert ours == theirs, topic


@pytest.mark.oracle
def test_what_is_otherwise_is_meant_so(wires: list[Wire]) -> None:
    now_ms = int(time.time() * 1000)
    for wire in wires:
        produce(wire, "large", 2, message_sets.message(1, 0, bytes(5_000), timestamp=now_ms))
    for version in range(3):
        cut_off, nothing = (ask_fetch(wire, "large", version, 0, 4_000).records for wire in wires)
        assert (len(cut_off), bytes(nothing)) == (12, b"")
    assert is_listed("Fetch", "a limit without room for a batch, v0 to v2", "the beginning of a message", "nothing")

    ours, theirs = (list_offsets(wire, "new", (LATEST, -1))[0][0] for wire in wires)
    assert is_listed("ListOffsets", "a negative number of offsets, v0", ours, theirs)

    for version in range(3):
        error, *_ = produce(wires[0], "new", version, None)
        assert is_listed("Produce", "null records, v0 to v2", error, "no answer")
    address = ":".join(map(str, wires[1].socket.getpeername()))
    # short: no answer comes
    with Wire(address, timeout_s=1) as impatient, pytest.raises(TimeoutError):
        produce(impatient, "new", 2, None)


def is_listed(api: str, what: str, ours: object, theirs: object) -> bool:
    field = "records" if api == "Fetch" else "error_code"
    return intention_of(what, api, f"partition.{field}", ours, theirs) is not None


def produce_everything(wires: list[Wire], now_ms: int) -> None:
    dice = random.Random("3.9")
    sets = [*message_sets.sets_that_producers_send(dice, now_ms)]
    others = [b"", bytes(5), bytes(26), bytes(100), bytes(build_batch([Record(0, now_ms, b"k", b"v")]))]
    others += [others[-1] * 2, bytes(build_batch([Record(0, now_ms, b"k", b"v" * 50)], codec=4))]
    for number, data in enumerate([*dice.sample(sets, 150), *others]):
        for topic in ("plain", "compacted", "stamped", "strict", "lz4", "small"):
            ours, theirs = (produce(wire, topic, number % 3, data, dice.choice((1, -1))) for wire in wires)
            assert ours == theirs or (theirs[0] == UNKNOWN_SERVER_ERROR and ours[0]), (topic, number, data[:60].hex())
    for _ in range(40):
        records = [
            Record(0, now_ms + dice.randrange(3_000), dice.choice((None, b"k")), b"v" * dice.randrange(300), headers)
            for headers in dice.choices(((), (("h", b"1"),)), k=dice.choice((1, 3, 30)))
        ]
        data = bytes(build_batch(records, codec=dice.choice((0, 1, 2, 3))))
        for topic in ("new", "zstd"):
            ours, theirs = (produce(wire, topic, 7, data) for wire in wires)
            assert ours == theirs


def compare_fetched(wires: list[Wire], topic: str, version: int, offset: int, limit: int) -> None:
    """As much as both have: how much fits depends on how well each compresses."""
    asked = (topic, version, offset, limit)
    ours, theirs = (fetch(wire, *asked) for wire in wires)
    assert ours[:2] == theirs[:2], asked
    assert bool(ours[3]) == bool(theirs[3]), asked
    for mine, other in zip(ours[2:], theirs[2:], strict=True):
        shorter = min(len(mine), len(other))
        assert mine[:shorter] == other[:shorter], asked
