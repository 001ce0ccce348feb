"""AlterReplicaLogDirs, where there is one directory."""

from __future__ import annotations

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.protocol.errors import NONE, LogDirNotFound, UnknownTopicOrPartition
from kmini.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest

EXAMPLE = AlterReplicaLogDirsRequest(
    dirs=[
        AlterReplicaLogDirsRequest.Dir(
            path="/nowhere", topics=[AlterReplicaLogDirsRequest.Dir.Topic(name="orders", partitions=[0])]
        )
    ]
)

Dir = AlterReplicaLogDirsRequest.Dir


def request(*dirs: tuple[str, str, list[int]]) -> AlterReplicaLogDirsRequest:
    return AlterReplicaLogDirsRequest(
        dirs=[Dir(path=path, topics=[Dir.Topic(name=name, partitions=numbers)]) for path, name, numbers in dirs]
    )


def told(response) -> dict[tuple[str, int], int]:
    return {(topic.topic_name, p.partition_index): p.error_code for topic in response.results for p in topic.partitions}


@pytest.fixture
async def here(broker: BrokerServer) -> str:
    topics.create(broker, "t", partitions=2)
    return broker.logs.directory


@pytest.mark.parametrize("version", range(3))
async def test_what_is_to_go_where_it_is_has_arrived(broker: BrokerServer, here: str, ask, version: int) -> None:
    assert told(await ask(broker, request((here, "t", [0, 1])), version)) == {("t", 0): NONE, ("t", 1): NONE}


async def test_what_is_unknown_cannot_be_moved(broker: BrokerServer, here: str, ask) -> None:
    answer = told(await ask(broker, request((here, "t", [2, -1]), (here, "no name", [0]))))
    assert set(answer.values()) == {UnknownTopicOrPartition.code}
    assert len(answer) == 3


@pytest.mark.parametrize("path", ["/nowhere", "", "relative"])
async def test_another_directory_is_not_found_whatever_is_to_go_there(
    broker: BrokerServer, here: str, ask, path: str
) -> None:
    answer = told(await ask(broker, request((path, "t", [0, 9]), (path, "absent", [0]))))
    assert set(answer.values()) == {LogDirNotFound.code}


async def test_the_last_of_several_directories_counts(broker: BrokerServer, here: str, ask) -> None:
    assert told(await ask(broker, request(("/x", "t", [0]), (here, "t", [0])))) == {("t", 0): NONE}
    assert told(await ask(broker, request((here, "t", [0]), ("/x", "t", [0])))) == {("t", 0): LogDirNotFound.code}
