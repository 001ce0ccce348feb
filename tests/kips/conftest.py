"""A broker, a raw connection to it, and what a broker for tests can be made to meet."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kmini import Broker, Cluster
from kmini.protocol.errors import NONE
from kmini.protocol.messages.describe_configs import TOPIC
from kmini.protocol.messages.fetch import FetchRequest
from kmini.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kmini.protocol.messages.produce import ProduceRequest
from kmini.protocol.topics import TopicPartition
from kmini.testing import Wire
from support.flagged_records import Fetch, Produce
from support.replicated_orders import Replicas
from support.until import until


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap_servers) as connection:
        yield connection


@pytest.fixture
def lagging_replica(broker: Broker) -> Callable[[str, int], None]:
    """Give partition 0 of a topic a second live replica whose log start offset stays where it is."""

    def add(topic: str, log_start_offset: int) -> None:
        partition = broker._operations.any_broker().replica_manager.partitions[TopicPartition(topic, 0)]
        partition.replica_log_start_offsets = lambda: iter((partition.log.log_start_offset, log_start_offset))

    return add


@pytest.fixture
def until_waiting(broker: Broker) -> Callable[[int], None]:
    """Return once so many requests wait in the purgatory."""

    purgatory = broker._operations.any_broker().purgatory
    return lambda count: until(lambda: len(purgatory) == count, lambda: f"{len(purgatory)} requests wait, not {count}")


@pytest.fixture
def run_command() -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Run an installed command to its end."""

    def run(name: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        scripts = Path(sys.executable).parent
        path = scripts / name if (scripts / name).exists() else Path(sysconfig.get_path("scripts")) / name
        return subprocess.run([str(path), *arguments], capture_output=True, text=True, timeout=60, check=False)

    return run


@pytest.fixture
def replicas() -> Iterator[Replicas]:
    with Cluster(brokers=3) as cluster:
        made = Replicas(cluster)
        yield made
        made.close()


@pytest.fixture(params=["nothing", "the leader", "a follower"] if os.environ.get("KMINI_SOAK") else ["nothing"])
def after_kill(request: pytest.FixtureRequest, replicas: Replicas) -> Replicas:
    """The same, and with KMINI_SOAK also after `kill -9` and restart of one of them."""
    if request.param != "nothing":
        replicas.kill_and_restart(replicas.leader if request.param == "the leader" else replicas.followers[0])
    return replicas


# KIP-87: the topic t of `broker`, asked on `wire`

SET = 0


@pytest.fixture
def create(broker: Broker) -> Callable[..., None]:
    """Make topic t, compacted and with the flag unless something else is said, by names with underscores."""

    def make(**configs: Any) -> None:
        settings = {"cleanup_policy": "compact", "kmini_tombstone_flag_enable": "true", **configs}
        broker.create_topic("t", config={name.replace("_", "."): value for name, value in settings.items()})

    return make


@pytest.fixture
def produce(wire: Wire) -> Produce:
    """Write these bytes to t, and return what is said of its partition."""

    def ask(records: bytes, version: int = 9) -> Any:
        data = [ProduceRequest.Partition(index=0, records=records)]
        topics = [ProduceRequest.Topic(name="t", partition_data=data)]
        (topic,) = wire.ask(ProduceRequest(acks=1, timeout_ms=1_000, topic_data=topics), version).responses
        return topic.partition_responses[0]

    return ask


@pytest.fixture
def fetch(wire: Wire) -> Fetch:
    """The bytes that a reader of that version gets of t."""

    def ask(version: int) -> bytes:
        asked = FetchRequest.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        topics = [FetchRequest.Topic(topic="t", partitions=[asked])]
        response = wire.ask(FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics), version)
        return bytes(response.responses[0].partitions[0].records)

    return ask


@pytest.fixture
def alter(wire: Wire) -> Callable[..., None]:
    """Change settings of t while the broker runs, by names with underscores."""

    def ask(**configs: str) -> None:
        changes = [
            IncrementalAlterConfigsRequest.Config(name=name.replace("_", "."), config_operation=SET, value=value)
            for name, value in configs.items()
        ]
        resource = IncrementalAlterConfigsRequest.Resource(resource_type=TOPIC, resource_name="t", configs=changes)
        (changed,) = wire.ask(IncrementalAlterConfigsRequest(resources=[resource])).responses
        assert changed.error_code == NONE

    return ask
