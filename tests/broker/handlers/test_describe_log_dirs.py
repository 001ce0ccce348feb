"""DescribeLogDirs: bytes on the disk."""

from __future__ import annotations

import os
import shutil

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage.validation import validate

EXAMPLE = DescribeLogDirsRequest(topics=None)

Topic = DescribeLogDirsRequest.Topic


@pytest.fixture
async def filled(broker: BrokerServer) -> BrokerServer:
    topics.create(broker, "t", partitions=2)
    topics.create(broker, "other")
    led = broker.replica_manager.leader_of(TopicPartition("t", 1))
    led.append(validate(memoryview(build_batch([Record(0, 1_000, None, b"value")])), led.log.config, 1_000), 1_000)
    return broker


def size_on_disk(broker: BrokerServer, partition: str) -> int:
    return os.path.getsize(os.path.join(broker.logs.directory, partition, f"{0:020}.log"))


def sizes(result) -> dict[tuple[str, int], int]:
    return {(topic.name, p.partition_index): p.partition_size for topic in result.topics for p in topic.partitions}


@pytest.mark.parametrize("version", range(6))
async def test_every_version_tells_the_size_of_every_log(filled: BrokerServer, ask, version: int) -> None:
    answer = await ask(filled, DescribeLogDirsRequest(topics=None), version)
    (result,) = answer.results
    assert (answer.error_code, result.error_code, result.log_dir) == (0, 0, filled.logs.directory)
    assert sizes(result) == {("t", 0): 0, ("t", 1): size_on_disk(filled, "t-1"), ("other", 0): 0}
    assert {(p.offset_lag, p.is_future_key) for topic in result.topics for p in topic.partitions} == {(0, False)}
    assert not result.is_cordoned


async def test_from_version_4_on_the_volume_is_told(filled: BrokerServer, ask) -> None:
    (result,) = (await ask(filled, DescribeLogDirsRequest(topics=[]), 4)).results
    assert result.total_bytes == shutil.disk_usage(filled.logs.directory).total
    assert 0 <= result.usable_bytes <= result.total_bytes
    (result,) = (await ask(filled, DescribeLogDirsRequest(topics=[]), 3)).results
    assert (result.total_bytes, result.usable_bytes) == (-1, -1)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ([("t", [0, 1, 1, 9, -1])], {("t", 0), ("t", 1)}),
        ([("t", [0]), ("t", [0, 1])], {("t", 0), ("t", 1)}),
        ([("absent", [0]), ("no name", [0]), ("other", [0])], {("other", 0)}),
        ([("t", [])], set()),
        ([], set()),
    ],
)
async def test_what_is_not_there_is_left_out_and_what_is_named_twice_told_once(
    filled: BrokerServer, ask, asked, told
) -> None:
    request = DescribeLogDirsRequest(topics=[Topic(topic=name, partitions=numbers) for name, numbers in asked])
    (result,) = (await ask(filled, request)).results
    assert sizes(result).keys() == told
    assert sum(len(topic.partitions) for topic in result.topics) == len(told)


async def test_a_disk_that_does_not_tell_its_size_hides_no_logs(filled: BrokerServer, ask, monkeypatch) -> None:
    def fail(path: str) -> tuple[int, int]:
        raise OSError("no such volume")

    monkeypatch.setattr(filled.logs.filesystem, "space", fail)
    (result,) = (await ask(filled, DescribeLogDirsRequest(topics=None))).results
    assert (result.total_bytes, result.usable_bytes, len(result.topics)) == (-1, -1, 2)
