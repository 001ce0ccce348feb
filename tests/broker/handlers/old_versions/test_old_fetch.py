"""Fetch versions 0 to 3: batches converted to messages."""

from __future__ import annotations

import asyncio

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.protocol.errors import (
    NONE,
    KafkaStorageError,
    MessageTooLarge,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownTopicOrPartition,
    UnsupportedCompressionType,
)
from kmini.protocol.messages.fetch import FetchRequest
from kmini.protocol.records.batch import build_batch, iter_batches
from kmini.protocol.records.batch_records import decode_all
from kmini.protocol.records.compression import Codec
from kmini.protocol.records.control import EndTransactionMarker, build_end_transaction_marker
from kmini.protocol.records.old_formats import down_conversion
from kmini.protocol.records.old_formats.messages import build_messages, build_wrapper
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage.log import PartitionLog
from kmini.storage.validation import ValidatedRecords

Asked = FetchRequest.Topic.Partition
VERSIONS = (0, 1, 2, 3)
CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)


def append(broker: BrokerServer, *values: bytes, partition: int = 0, codec: Codec = Codec.NONE) -> None:
    """One batch, with headers and timestamps."""
    led = broker.replica_manager.leader_of(TopicPartition("t", partition))
    batch = build_batch([Record(0, 1_000, b"k", value, (("h", b"1"),)) for value in values], codec=codec)
    led.append(ValidatedRecords.of(batch), 1_000)


def append_marker(broker: BrokerServer) -> None:
    marker = build_end_transaction_marker(
        EndTransactionMarker(is_abort=False, coordinator_epoch=0), producer_id=7, producer_epoch=0, timestamp=1
    )
    broker.replica_manager.leader_of(TopicPartition("t", 0)).append(ValidatedRecords.of(marker), 1_000)


def write_old(broker: BrokerServer, data: bytes) -> None:
    """As a follower would that copies an old log."""
    led = broker.replica_manager.leader_of(TopicPartition("t", 0))
    led.log.append_as_follower(data, now_ms=1_000)
    led.log.update_high_watermark(led.log.log_end_offset)


def request(*offsets: int, topic: str = "t", max_wait_ms: int = 0, **limits: int) -> FetchRequest:
    """Of partition 0 from the first offset on, of partition 1 from the second…"""
    asked = [
        Asked(partition=partition, fetch_offset=offset, partition_max_bytes=limits.get("partition_max_bytes", 1 << 20))
        for partition, offset in enumerate(offsets or (0,))
    ]
    return FetchRequest(
        topics=[FetchRequest.Topic(topic=topic, partitions=asked)],
        max_wait_ms=max_wait_ms,
        min_bytes=limits.get("min_bytes", 1),
        max_bytes=limits.get("max_bytes", 1 << 30),
    )


def of(response, partition: int = 0):
    return response.responses[0].partitions[partition]


def values(answer) -> list[bytes | None]:
    return [record.value for record in decode_all(answer.records)]


@pytest.fixture
async def topic(broker: BrokerServer) -> str:
    topics.create(broker, "t", partitions=3)
    return "t"


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", VERSIONS)
async def test_every_version_gets_what_it_can_read(
    broker: BrokerServer, topic: str, ask, version: int, codec: Codec
) -> None:
    append(broker, *[b"v%d" % n for n in range(100)], codec=codec)
    answer = of(await ask(broker, request(0), version))
    assert (answer.error_code, answer.high_watermark) == (NONE, 100)
    magic = int(version >= 2)
    assert {(header.magic, header.codec) for _, header in iter_batches(answer.records)} == {(magic, codec)}
    expected = [Record(n, 1_000 if magic else -1, b"k", b"v%d" % n) for n in range(100)]
    assert decode_all(answer.records) == expected


@pytest.mark.parametrize("version", VERSIONS)
async def test_errors_are_those_of_any_version(broker: BrokerServer, topic: str, ask, version: int) -> None:
    append(broker, b"a")
    assert of(await ask(broker, request(2), version)).error_code == OffsetOutOfRange.code
    assert of(await ask(broker, request(0, topic="no"), version)).error_code == UnknownTopicOrPartition.code
    nothing = of(await ask(broker, request(1), version))
    assert (nothing.error_code, nothing.high_watermark, bytes(nothing.records)) == (NONE, 1, b"")


@pytest.mark.parametrize("version", range(7))
async def test_a_disk_that_fails_is_told_in_a_word_that_clients_of_the_time_know(
    broker: BrokerServer, topic: str, ask, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(broker, b"a")

    def fail(*arguments: object, **options: object) -> bytes:
        raise KafkaStorageError("the disk is gone")

    monkeypatch.setattr(PartitionLog, "read", fail)
    expected = NotLeaderOrFollower if version < 6 else KafkaStorageError
    assert of(await ask(broker, request(0), version)).error_code == expected.code


class TestMixedLogs:
    OLD = bytes(build_messages([Record(n, 1_000, b"k", b"a%d" % n) for n in range(3)], 0)) + build_wrapper(
        [[Record(n, 1_000, b"k", b"b%d" % n) for n in range(3, 6)]], 1, Codec.GZIP
    )
    VALUES = (b"a0", b"a1", b"a2", b"b3", b"b4", b"b5", b"c", b"d")

    @pytest.fixture
    async def mixed(self, broker: BrokerServer, topic: str) -> BrokerServer:
        write_old(broker, self.OLD)
        append(broker, b"c", b"d")
        return broker

    @pytest.mark.parametrize("version", VERSIONS)
    async def test_are_read_whole(self, mixed: BrokerServer, ask, version: int) -> None:
        read: list[bytes | None] = []
        while len(read) < 8:
            answer = of(await ask(mixed, request(len(read)), version))
            new = [record for record in decode_all(answer.records) if record.offset >= len(read)]
            assert new
            read += [record.value for record in new]
            assert max(header.magic for _, header in iter_batches(answer.records)) <= int(version >= 2)
        assert tuple(read) == self.VALUES

    @pytest.mark.parametrize("version", [4, 12])
    async def test_go_to_newer_readers_as_they_are(self, mixed: BrokerServer, ask, version: int) -> None:
        answer = of(await ask(mixed, request(0), version))
        assert bytes(answer.records).startswith(self.OLD)
        assert [record.value for record in decode_all(answer.records)] == [*self.VALUES]

    async def test_come_back_after_a_restart(self, mixed: BrokerServer, ask, start_broker) -> None:
        await mixed.stop()
        again = await start_broker()
        assert values(of(await ask(again, request(0), 12))) == [*self.VALUES]


class TestZstd:
    @pytest.mark.parametrize("version", VERSIONS)
    async def test_is_an_error_where_it_begins(self, broker: BrokerServer, topic: str, ask, version: int) -> None:
        append(broker, b"a")
        append(broker, b"b", codec=Codec.ZSTD)
        assert values(of(await ask(broker, request(0), version))) == [b"a"]
        answer = of(await ask(broker, request(1), version))
        assert (answer.error_code, answer.high_watermark) == (UnsupportedCompressionType.code, -1)

    @pytest.mark.parametrize("version", VERSIONS)
    async def test_forced_by_the_topic_is_an_error_at_once(self, broker: BrokerServer, ask, version: int) -> None:
        topics.create(broker, "t", configs={"compression.type": "zstd"})
        assert of(await ask(broker, request(0), version)).error_code == UnsupportedCompressionType.code


class TestTransactionMarkers:
    @pytest.mark.parametrize("version", VERSIONS)
    async def test_are_left_out(self, broker: BrokerServer, topic: str, ask, version: int) -> None:
        append(broker, b"a")
        append_marker(broker)
        append(broker, b"b")
        assert [value for start in (0, 1) for value in values(of(await ask(broker, request(start), version)))][-1:] == [
            b"b"
        ]

    async def test_do_not_stop_a_reader(self, broker: BrokerServer, topic: str, ask) -> None:
        for _ in range(30):
            append_marker(broker)
        append(broker, b"b")
        answer = of(await ask(broker, request(3, partition_max_bytes=100), 2))
        assert [(record.offset, record.value) for record in decode_all(answer.records)] == [(30, b"b")]

    async def test_at_the_end_of_the_log_are_waited_behind(
        self, broker: BrokerServer, topic: str, ask, in_purgatory
    ) -> None:
        append_marker(broker)
        fetching = asyncio.ensure_future(ask(broker, request(0, max_wait_ms=60_000), 2))
        await in_purgatory(broker, 1)
        append(broker, b"late")
        assert values(of(await fetching)) == [b"late"]


class TestLimits:
    @pytest.mark.parametrize("version", [0, 1, 2])
    async def test_are_hard_up_to_version_2(self, broker: BrokerServer, topic: str, ask, version: int) -> None:
        append(broker, bytes(5_000))
        answer = of(await ask(broker, request(0, partition_max_bytes=4_000), version))
        assert (answer.error_code, len(answer.records)) == (NONE, 12)
        assert values(answer) == []  # the beginning of a message: the reader asks for more, or gives up
        assert len(of(await ask(broker, request(0, partition_max_bytes=6_000), version)).records) > 5_000

    async def test_are_not_for_the_first_batch_in_version_3(self, broker: BrokerServer, topic: str, ask) -> None:
        append(broker, bytes(5_000))
        append(broker, bytes(5_000))
        answer = of(await ask(broker, request(0, partition_max_bytes=4_000, max_bytes=10), 3))
        assert [record.offset for record in decode_all(answer.records)] == [0]

    async def test_in_version_3_only_one_batch_is_beyond_them(self, broker: BrokerServer, topic: str, ask) -> None:
        append(broker, bytes(5_000))
        append(broker, bytes(5_000), partition=1)
        response = await ask(broker, request(0, 0, max_bytes=5_500), 3)
        assert [len(decode_all(of(response, partition).records)) for partition in (0, 1)] == [1, 0]
        assert bytes(of(response, 1).records) == b""

    async def test_a_batch_above_what_is_usually_read_comes_too(self, broker: BrokerServer, topic: str, ask) -> None:
        append(broker, *[bytes(100_000)] * 15)
        for version in VERSIONS:
            assert len(values(of(await ask(broker, request(0, partition_max_bytes=1 << 22), version)))) == 15

    async def test_nothing_at_a_limit_of_nothing(self, broker: BrokerServer, topic: str, ask) -> None:
        append(broker, b"a")
        for limit in (0, -1):
            answer = of(await ask(broker, request(0, partition_max_bytes=limit), 1))
            assert (answer.error_code, bytes(answer.records)) == (NONE, b"")

    async def test_a_batch_of_too_many_records_is_an_error(
        self, broker: BrokerServer, topic: str, ask, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(down_conversion, "MAX_RECORDS", 2)
        append(broker, b"a", b"b", b"c")
        assert of(await ask(broker, request(0), 2)).error_code == MessageTooLarge.code


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_reader_waits_for_records(broker: BrokerServer, topic: str, ask, in_purgatory, version: int) -> None:
    fetching = asyncio.ensure_future(ask(broker, request(0, max_wait_ms=60_000), version))
    await in_purgatory(broker, 1)
    append(broker, b"late")
    assert values(of(await fetching)) == [b"late"]


@pytest.mark.sockets
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
async def test_what_takes_its_time_is_converted_elsewhere(
    broker: BrokerServer, topic: str, ask, turns, codec: Codec
) -> None:
    append(broker, *[b"v" * 20] * 5_000, codec=codec)
    turns()
    answer = of(await ask(broker, request(0), 2))
    assert turns() > 3
    assert len(values(answer)) == 5_000
