"""Kafka's TransactionalMessageCopier, with which its own system tests check transactions: it consumes, produces, and
commits its offsets in the same transaction, aborting one in three, while it and the broker are killed."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from kmini import Cluster
from support import apache_kafka
from support.client_adapters import create_topic
from support.server_process import ServerProcess, StartServer
from support.transaction_requests import describe, init
from support.transactional_clients import read_committed, read_to_end
from support.until import until
from support.wire import Wire

pytestmark = pytest.mark.promise

Served = ServerProcess | Cluster

MESSAGES = 4_000
PARTITIONS = 2
PATIENCE_S = 120


class Copier:
    """The tool in a process of its own, since it is to be killed."""

    def __init__(
        self,
        server: Served,
        number: int,
        options: list[str],
        log: Path,
        transaction_size: int = 10,
        *,
        aborts: bool = True,
    ) -> None:
        java = apache_kafka.java_command("-Xmx128m", "-XX:TieredStopAtLevel=1")
        self._command = [
            *(*java, "org.apache.kafka.tools.TransactionalMessageCopier"),
            *("--broker-list", server.bootstrap_servers, "--transactional-id", f"copier-{number}"),
            *("--input-topic", "inputs", "--input-partition", str(number), "--output-topic", "outputs"),
            *("--consumer-group", "copiers", "--transaction-size", str(transaction_size)),
            *("--transaction-timeout", "10000", *(["--enable-random-aborts"] if aborts else []), *options),
        ]
        self.log = log
        self.start()

    def start(self) -> None:
        self.consumed = 0
        """By this life of it."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=log, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("}\n"):
                said: dict[str, Any] = json.loads(line)
                self.consumed = max(self.consumed, said.get("totalProcessed", 0))

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.mark.usefixtures("need_kafka")
@pytest.mark.parametrize(
    "options",
    [pytest.param([], marks=pytest.mark.soak), ["--group-mode", "--use-group-metadata"]],
    ids=["partitions of their own", "a group (KIP-447)"],
)
def test_every_message_is_copied_once_whichever_process_is_killed(
    start_server: StartServer, tmp_path: Path, options: list[str]
) -> None:
    server = start_server(transaction_abort_timed_out_transaction_cleanup_interval_ms="1000")
    for topic in ("inputs", "outputs"):
        create_topic(server.bootstrap_servers, topic, partitions=PARTITIONS)
    write_inputs(server)
    copiers = [Copier(server, number, options, tmp_path / f"copier-{number}") for number in range(PARTITIONS)]
    try:
        first = copiers[0]
        wait_for(lambda: first.consumed or first.exit_code is not None, copiers)
        first.kill()
        first.start()
        wait_for(
            lambda: any(copier.consumed and copier.exit_code is None for copier in copiers) or done(copiers), copiers
        )
        server.kill()
        server.start()
        wait_for(lambda: done(copiers), copiers)
        assert [copier.exit_code for copier in copiers] == [0] * PARTITIONS, said_by(copiers)
    finally:
        for copier in copiers:
            copier.kill()
    outputs = read_committed(server.bootstrap_servers, "outputs", PARTITIONS)
    assert sorted(map(int, outputs)) == list(range(MESSAGES))
    written = read_to_end(server.bootstrap_servers, "outputs", PARTITIONS, "read_uncommitted")
    assert len(written) > MESSAGES, "nothing was ever aborted"


@pytest.mark.usefixtures("need_kafka")
def test_a_java_producer_that_was_thought_dead_is_refused(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server()
    for topic in ("inputs", "outputs"):
        create_topic(server.bootstrap_servers, topic)
    write_inputs(server, partitions=1)
    # After an abort it would look up what is committed, find that its successor has done everything, and wait for more.
    zombie = Copier(server, 0, [], tmp_path / "zombie", aborts=False)
    copiers = [zombie]
    try:
        wait_for(lambda: zombie.consumed, copiers)
        pause_in_a_transaction(zombie, server)
        abort_what_is_open(server)
        copiers.append(Copier(server, 0, [], tmp_path / "its-successor", transaction_size=500))
        wait_for(lambda: copiers[1].exit_code is not None, copiers)
        zombie.go_on()
        wait_for(lambda: zombie.exit_code is not None, copiers)
        assert [copier.exit_code for copier in copiers] == [1, 0], said_by(copiers)
        # What it had sent before it was paused is read after the abort: its commit of a transaction that was aborted.
        refusal = r"fence|InvalidTxnStateException"
        assert re.search(refusal, zombie.log.read_text(), re.IGNORECASE), said_by(copiers)
    finally:
        for copier in copiers:
            copier.kill()
    assert sorted(map(int, read_committed(server.bootstrap_servers, "outputs"))) == list(range(MESSAGES))


@pytest.mark.usefixtures("need_kafka")
def test_every_message_is_copied_once_while_leaders_move_and_brokers_die(tmp_path: Path) -> None:
    with Cluster(brokers=3) as cluster:
        for topic in ("inputs", "outputs"):
            cluster.create_topic(topic, PARTITIONS, replication_factor=3)
        write_inputs(cluster)
        copiers = [Copier(cluster, number, [], tmp_path / f"copier-{number}") for number in range(PARTITIONS)]
        try:
            wait_for(lambda: copiers[0].consumed or done(copiers), copiers)
            leader = cluster.leader("inputs")
            cluster.move_leader("inputs", to=min(cluster.isr("inputs") - {leader}))
            for find in (lambda: cluster.transaction_coordinator("copier-0"), lambda: cluster.leader("outputs")):
                broker = find()
                cluster.kill(broker)
                cluster.restart(broker)
                for topic in ("inputs", "outputs"):
                    for partition in range(PARTITIONS):
                        cluster.wait_until_in_sync(topic, partition)
            wait_for(lambda: done(copiers), copiers)
            assert [copier.exit_code for copier in copiers] == [0] * PARTITIONS, said_by(copiers)
        finally:
            for copier in copiers:
                copier.kill()
        outputs = read_committed(cluster.bootstrap_servers, "outputs", PARTITIONS)
    assert sorted(map(int, outputs)) == list(range(MESSAGES))


def pause_in_a_transaction(copier: Copier, server: ServerProcess) -> None:
    """Stop the process while its transaction is open and has a partition of "outputs".

    A Java producer that is fenced as it adds this partition may go on waiting for `max.block.ms`, a minute: the fatal
    error leaves a TxnOffsetCommit queued that `sendOffsetsToTransaction` waits for.
    """

    def is_caught() -> bool:
        copier.pause()
        with Wire(server.host, server.port) as wire:
            states = [wire.ask(describe("copier-0"), 0).transaction_states[0] for _ in range(3)]
        if all(
            state.transaction_state == "Ongoing" and "outputs" in {topic.topic for topic in state.topics}
            for state in states
        ):
            return True
        copier.go_on()
        return False

    until(is_caught, "an open transaction")


def abort_what_is_open(server: ServerProcess) -> None:
    """Begin another life of the transactional id. The tool asks for committed offsets before it does so, and would wait
    until the transaction of its predecessor times out."""
    with Wire(server.host, server.port) as wire:
        until(lambda: wire.ask(init("copier-0"), 4).error_code == 0, "another epoch")


def done(copiers: list[Copier]) -> bool:
    return all(copier.exit_code is not None for copier in copiers)


def wait_for(is_so: Any, copiers: list[Copier]) -> None:
    until(is_so, lambda: said_by(copiers), timeout_s=PATIENCE_S)


def said_by(copiers: list[Copier]) -> str:
    return "\n".join(
        f"{copier.consumed} {copier.exit_code} {copier.log.read_text(errors='replace')[-2000:]}" for copier in copiers
    )


def write_inputs(server: Served, partitions: int = PARTITIONS) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": server.bootstrap_servers, "log_level": 0})
    for number in range(MESSAGES):
        producer.produce("inputs", b"%d" % number, partition=number % partitions)
    assert producer.flush(60) == 0
