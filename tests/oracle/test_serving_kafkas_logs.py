"""The way that kmini names for a log directory of Apache Kafka: refused as it is, served as a copy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from server_process import ServerProcess

from kmini import Broker
from kmini.broker.controller import ControllerError
from kmini.client import Client, NewTopic
from kmini.protocol.records.record import Record


async def test_a_copy_of_kafkas_log_directory_is_served_as_the_refusal_says(
    apache_kafka_server: ServerProcess, tmp_path: Path
) -> None:
    async with Client(apache_kafka_server.bootstrap_servers) as client:
        assert await client.create_topics({"served-by-both": NewTopic(2)}) == {"served-by-both": None}
        for partition in range(2):
            await client.produce("served-by-both", partition, [Record(0, -1, None, b"of %d" % partition)])
        await client.commit_offsets("served-by-both", {("served-by-both", 1): 1})
    data = apache_kafka_server.command[apache_kafka_server.command.index("--data-dir") + 1]
    kafkas = tmp_path / "kafka-logs"
    shutil.copytree(Path(data) / "log", kafkas, ignore=shutil.ignore_patterns("*.lock", ".lock"))

    with pytest.raises(ControllerError) as refused:
        async with Broker(data_dir=kafkas):
            pass
    assert f"{kafkas} is a log directory of Apache Kafka's node 1" in str(refused.value)
    assert f"copy {kafkas} to broker-1 in a new directory, name the new directory" in str(refused.value)

    shutil.copytree(kafkas, tmp_path / "new" / "broker-1")
    async with Broker(data_dir=tmp_path / "new") as broker, Client(broker.bootstrap_servers) as client:
        for partition in range(2):
            (record,) = await broker.records("served-by-both", partition)
            assert record.value == b"of %d" % partition
        committed = await client.committed_offsets("served-by-both")
        assert [(key, value.offset) for key, value in committed.items()] == [(("served-by-both", 1), 1)]
