"""Three brokers in processes, of which one can be killed and restarted: kmini's are in one process, Apache Kafka's in
one each."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Protocol

import kmini
from kmini.control.connected import ConnectedCluster
from support.apache_kafka import free_port
from support.server_process import PORT, ServerProcess, kafka_command

REPLICATED = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "3",
}
IDS = (1, 2, 3)


class ThreeBrokers(Protocol):
    servers: str

    def kill(self, broker: int) -> None:
        """End a broker as `kill -9` does."""

    def restart(self, broker: int) -> None:
        """Start a killed broker with its data, on its port."""


class KminiBrokers:
    """`kmini serve --brokers 3`, whose control API kills a broker."""

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        http = free_port()
        command = ["-m", "kmini", "serve", "--brokers", "3", "--port", PORT, "--data-dir", str(directory / "data")]
        command += [
            "--http",
            str(http),
            *(part for key, value in settings.items() for part in ("-c", f"{key}={value}")),
        ]
        self.process = ServerProcess([sys.executable, *command], directory / "server.log")
        connected = kmini.connect(f"http://127.0.0.1:{http}")
        assert isinstance(connected, ConnectedCluster)
        self._cluster = connected
        self.servers = self._cluster.bootstrap_servers

    def kill(self, broker: int) -> None:
        self._cluster.kill(broker)

    def restart(self, broker: int) -> None:
        self._cluster.restart(broker)

    def close(self) -> None:
        self._cluster.close()
        self.process.kill()


class KafkaBrokers:
    """Three nodes of Apache Kafka, each a broker and a voter of the quorum of controllers."""

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        self._nodes: dict[int, ServerProcess] = {}
        ports = {number: (free_port(), free_port()) for number in IDS}
        voters = ",".join(f"{number}@127.0.0.1:{controller}" for number, (_, controller) in ports.items())

        def start(number: int) -> None:
            port, controller = ports[number]
            own = {
                **settings,
                "node.id": str(number),
                "controller.quorum.voters": voters,
                "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            }
            command = [str(port) if part == PORT else part for part in kafka_command(directory / f"data-{number}", own)]
            self._nodes[number] = ServerProcess(command, directory / f"server-{number}.log")

        try:
            with ThreadPoolExecutor(len(IDS)) as pool:  # none is up before two of them are
                [*pool.map(start, IDS)]
        except BaseException:
            self.close()
            raise
        self.servers = ",".join(f"127.0.0.1:{port}" for port, _ in ports.values())

    def kill(self, broker: int) -> None:
        self._nodes[broker].kill()

    def restart(self, broker: int) -> None:
        self._nodes[broker].start()

    def close(self) -> None:
        for node in self._nodes.values():
            node.kill()


@contextmanager
def three_brokers(directory: Path, *, is_kafka: bool) -> Iterator[ThreeBrokers]:
    """Three brokers until the block ends; topics have a replica on each."""
    with closing((KafkaBrokers if is_kafka else KminiBrokers)(directory, REPLICATED)) as brokers:
        yield brokers
