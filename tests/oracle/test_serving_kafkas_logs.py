"""The way that kmini names for a log directory of Apache Kafka: refused as it is, served as a copy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kmini import Broker
from kmini.broker.controller.controller import ControllerError
from kmini.client import Client, NewTopic
from kmini.protocol.records.record import Record
from kmini.protocol.topics import CONSUMER_OFFSETS
from support.server_process import ServerProcess

TOPIC = "served-by-both"


def not_needed(directory: str, names: list[str]) -> set[str]:
    """Locks, indexes, which a start after a crash makes again (Kafka preallocates 10 MiB each, which a copy would fill
    with zeros), and the partitions that other tests of this Apache Kafka have made."""
    is_log_dir = "meta.properties" in names
    return {
        name
        for name in names
        if name.endswith((".lock", "index"))
        or (is_log_dir and Path(directory, name).is_dir() and not name.startswith((TOPIC, CONSUMER_OFFSETS)))
    }


async def test_a_copy_of_kafkas_log_directory_is_served_as_the_refusal_says(
    apache_kafka_server: ServerProcess, tmp_path: Path
) -> None:
    async with Client(apache_kafka_server.bootstrap_servers) as client:
        assert await client.create_topics({TOPIC: NewTopic(2)}) == {TOPIC: None}
        for partition in range(2):
            await client.produce(TOPIC, partition, [Record(0, -1, None, b"of %d" % partition)])
        await client.commit_offsets(TOPIC, {(TOPIC, 1): 1})
    data = apache_kafka_server.command[apache_kafka_server.command.index("--data-dir") + 1]
    kafkas = tmp_path / "kafka-logs"
    shutil.copytree(Path(data) / "log", kafkas, ignore=not_needed)

    with pytest.raises(ControllerError) as refused:
        async with Broker(data_dir=kafkas):
            pass
    assert f"{kafkas} is a log directory of Apache Kafka's node 1" in str(refused.value)
    assert f"copy {kafkas} to broker-1 in a new directory, name the new directory" in str(refused.value)

    shutil.copytree(kafkas, tmp_path / "new" / "broker-1")
    async with Broker(data_dir=tmp_path / "new") as broker, Client(broker.bootstrap_servers) as client:
        for partition in range(2):
            (record,) = await broker.records(TOPIC, partition)
            assert record.value == b"of %d" % partition
        committed = await client.committed_offsets(TOPIC)
        assert [(key, value.offset) for key, value in committed.items()] == [((TOPIC, 1), 1)]
