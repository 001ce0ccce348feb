"""A broker, a raw connection to it, and what a broker for tests can be made to meet."""

import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kmini import Broker, Cluster
from kmini.broker.api.request_context import Context
from kmini.broker.purgatory import Operation
from kmini.protocol.messages.delete_records import DeleteRecordsRequest
from kmini.protocol.topics import TopicPartition
from kmini.testing import Wire
from support.replicated_orders import Replicas


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
        partition = broker._operations.core.partitions[TopicPartition(topic, 0)]
        partition.replica_log_start_offsets = lambda: iter((partition.log.log_start_offset, log_start_offset))

    return add


@pytest.fixture
def until_waiting(broker: Broker) -> Callable[[int], None]:
    """Return once so many requests wait in the purgatory."""

    def poll(count: int) -> None:
        for _ in range(100_000):
            broker.topics()  # a round trip through the broker's loop
            if len(broker._operations.core.purgatory) == count:
                return
        pytest.fail(f"{len(broker._operations.core.purgatory)} requests wait, not {count}")

    return poll


@pytest.fixture
def run_command() -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Run an installed command to its end."""

    def run(name: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        scripts = Path(sys.executable).parent
        path = scripts / name if (scripts / name).exists() else Path(sysconfig.get_path("scripts")) / name
        return subprocess.run([str(path), *arguments], capture_output=True, text=True, timeout=60, check=False)

    return run


@pytest.fixture
def unanswered_delete_records(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have DeleteRecords requests wait until their client leaves."""

    class Never(Operation):
        keys = ()

        def is_complete(self) -> bool:
            return False

    async def wait(request: DeleteRecordsRequest, context: Context) -> None:
        await context.wait(Never(), timeout_ms=60_000)

    handlers = broker._operations.core.server.handlers
    silent = handlers[DeleteRecordsRequest.api_key]._replace(function=wait)
    monkeypatch.setitem(handlers, DeleteRecordsRequest.api_key, silent)


@pytest.fixture
def replicas() -> Iterator[Replicas]:
    with Cluster(brokers=3) as cluster:
        made = Replicas(cluster)
        yield made
        made.close()


@pytest.fixture(params=["nothing", "the leader", "a follower"])
def after_kill(request: pytest.FixtureRequest, replicas: Replicas) -> Replicas:
    """The same after `kill -9` and restart of one of them."""
    if request.param != "nothing":
        replicas.kill_and_restart(replicas.leader if request.param == "the leader" else replicas.followers[0])
    return replicas
