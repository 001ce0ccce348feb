"""Consume, transform, produce by three instances, in transactions: each input is answered by one output, whatever dies
in the middle of it.

aiokafka and confluent-kafka have the first version of transactions, franz-go the second one (KIP-890). "both" is a
service of franz-go and confluent-kafka.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import apache_kafka, client_adapters
from support.client_adapters import create_topic
from support.kafka_requests import list_offsets
from support.offset_requests import await_coordinator
from support.offset_requests import fetch as fetch_offsets
from support.server_process import ServerProcess, StartServer
from support.transactional_clients import read_committed
from support.until import until
from support.wire import Wire

pytestmark = [pytest.mark.promise, pytest.mark.soak]

SEED = 20260801
GROUP = "transformers"
INSTANCES = PARTITIONS = 3
IS_SOAK = bool(os.environ.get("KMINI_SOAK"))
INPUTS = 10_000 if IS_SOAK else 3_000
DEATHS = 12 if IS_SOAK else 4
"""Of the broker."""
STEPS = 4
"""Between two of these."""
PATIENCE_S = 600 if IS_SOAK else 180
LATEST = -1
PAUSE_S = 3.5
"""Longer than the sessions of the group's members, shorter than transactions may take."""
SILENCE_S = 10
"""Every call of an instance ends after half of that, or the library breaks its word."""
TRANSFORMER = Path(client_adapters.__file__).with_name("transformer.py")
CONFLUENT, GO, BOTH = "confluent-kafka", "franz-go", "both"
GO_TRANSFORMER = apache_kafka.REPOSITORY / ".peers" / "group-clients" / "franz-go-transformer"


class Instance:
    """A service in a process of its own, which is started again whenever it ends."""

    def __init__(self, command: list[str], complaints: Path, seed: str) -> None:
        self._command = command
        self._complaints = complaints
        self._seed = seed
        self.lives = 0
        self.said: Counter[str] = Counter()
        self.start()

    def start(self) -> None:
        self.lives += 1
        with self._complaints.open("ab") as stderr:
            self._process = subprocess.Popen(
                [*self._command, f"{self._seed} {self.lives}"], stdout=subprocess.PIPE, stderr=stderr, text=True
            )
        self._heard = time.monotonic()
        self._paused: float | None = None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._heard = time.monotonic()
            with contextlib.suppress(ValueError):  # half a line of a process that was killed
                what, *rest = json.loads(line)
                self.said[f"ends: {rest[0]}" if what == "ends" else what] += 1
                if what == "pauses":
                    self._paused = self._heard

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def is_stuck(self) -> bool:
        return time.monotonic() - self._heard > SILENCE_S

    def go_on(self) -> None:
        """If it has paused for long enough."""
        if self._paused is not None and time.monotonic() - self._paused > PAUSE_S:
            self._heard, self._paused = time.monotonic(), None
            self._process.send_signal(signal.SIGCONT)

    def __str__(self) -> str:
        complaints = self._complaints.read_text(encoding="utf-8", errors="replace")[-1500:]
        return f"{self.lives} lives: {dict(self.said)}\n{complaints}"

    def say_where(self) -> None:
        """Have it write down what its threads are doing."""
        self._process.send_signal(signal.SIGUSR1)
        time.sleep(0.5)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()


class Service:
    """All instances, and the supervisor that starts them again."""

    def __init__(self, server: ServerProcess, client: str, directory: Path) -> None:
        self.deaths: Counter[str] = Counter()
        self.instances = [
            Instance(
                [*program_of(client, number), server.bootstrap_servers, GROUP, str(number), str(PARTITIONS)],
                directory / f"instance-{number}",
                f"{SEED} {number}",
            )
            for number in range(INSTANCES)
        ]

    def wait(self, seconds: float) -> None:
        """Meanwhile start instances again that have ended, and, as the liveness probe of an orchestrator does, those
        that are stuck.

        It happens to confluent-kafka, in one run of three: after the broker's death, send_offsets_to_transaction of
        librdkafka 2.16 never returns, whatever time it was given, because it waits for a handle of the group's
        coordinator that is no more (librdkafka issue 5511); its consumer goes on sending heartbeats, so that the group
        would wait for it for ever. With metadata.recovery.strategy=none it does not happen. Here the clients are as
        they are by default.
        """
        deadline = time.monotonic() + seconds
        while True:
            for instance in self.instances:
                instance.go_on()
                if instance.has_ended or instance.is_stuck:
                    self.restart(instance, "ended" if instance.has_ended else "stuck")
            if (left := deadline - time.monotonic()) <= 0:
                return
            time.sleep(min(0.05, left))

    def restart(self, instance: Instance, why: str) -> None:
        self.deaths[why] += 1
        if why == "stuck":
            instance.say_where()
        instance.kill()
        instance.start()

    def __str__(self) -> str:
        return "\n".join([str(dict(self.deaths)), *map(str, self.instances)])

    def close(self) -> None:
        for instance in self.instances:
            instance.kill()


def program_of(client: str, number: int) -> list[str]:
    """How an instance with this client is started, but for its arguments."""
    if client == BOTH:
        client = (GO, CONFLUENT)[number % 2]
    if client == GO:
        return [str(GO_TRANSFORMER)]
    return [sys.executable, str(TRANSFORMER), client]


@pytest.fixture(params=["aiokafka", CONFLUENT, GO, BOTH])
def client(request: pytest.FixtureRequest) -> str:
    if request.param in (GO, BOTH) and not GO_TRANSFORMER.exists():
        pytest.skip(f"{GO_TRANSFORMER} is missing (`make group-clients` compiles it)")
    python_client = CONFLUENT if request.param == BOTH else request.param
    if python_client != GO and (reason := client_adapters.why_unavailable(python_client)):
        pytest.skip(reason)
    return str(request.param)


def test_every_input_has_one_output_whichever_process_dies(
    start_server: StartServer, tmp_path: Path, client: str, against_kafka: bool
) -> None:
    """Instances die at random, by their own hand and by ours, or pause until they are zombies; the broker dies every
    few seconds."""
    deaths = 1 if against_kafka else DEATHS  # it takes half a minute to come back
    # Apache Kafka 4.3.1, asked too soon after its start, aborts what has timed out without a marker in the partitions,
    # which it does not know yet; the next commit of the same producer then covers it.
    interval_ms = "10000" if against_kafka else "1000"
    server = start_server(
        group_min_session_timeout_ms="1000", transaction_abort_timed_out_transaction_cleanup_interval_ms=interval_ms
    )
    for name in ("inputs", "outputs"):
        create_topic(server.bootstrap_servers, name, partitions=PARTITIONS)
    chance = random.Random(SEED)
    service = Service(server, client, tmp_path)
    written = written_inputs(server, deaths * STEPS)
    try:
        for _ in range(deaths):
            for _ in range(STEPS):
                next(written)
                service.wait(chance.uniform(0.3, 1.0))
                if chance.random() < 0.5:
                    service.restart(chance.choice(service.instances), "killed")
            server.kill()
            service.wait(chance.uniform(0.0, 0.5))
            server.start()
        deadline = time.monotonic() + PATIENCE_S
        while committed_inputs(server) < INPUTS:
            assert time.monotonic() < deadline, f"it is never done\n{service}\n{server.log_tail()}"
            service.wait(0.2)
    finally:
        service.close()
    wait_until_nothing_is_open(server)
    outputs = read_committed(server.bootstrap_servers, "outputs", PARTITIONS)
    print(service)
    counted = Counter(map(int, outputs))
    assert {number: counted[number] for number in range(INPUTS) if counted[number] != 1} == {}, service
    assert len(counted) == INPUTS


def written_inputs(server: ServerProcess, slices: int) -> Iterator[None]:
    """Write the inputs, a slice at each step."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": server.bootstrap_servers,
            "enable.idempotence": True,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
    )
    for first in range(slices):
        for number in range(first, INPUTS, slices):
            producer.produce("inputs", b"%d" % number, partition=number % PARTITIONS)
        assert producer.flush(60) == 0
        yield


def committed_inputs(server: ServerProcess) -> int:
    """How many inputs are done for good."""
    wire = Wire(server.host, server.port)
    try:
        await_coordinator(wire, GROUP)
        answer = wire.ask(fetch_offsets(GROUP, [("inputs", range(PARTITIONS))], 7), 7)
        return sum(max(one.committed_offset, 0) for one in answer.topics[0].partitions)
    finally:
        wire.socket.close()


def wait_until_nothing_is_open(server: ServerProcess) -> None:
    """Return when the last transaction of the last instance that was killed has timed out."""
    wire = Wire(server.host, server.port)
    try:
        until(
            lambda: ends("outputs", wire, isolation_level=0) == ends("outputs", wire, isolation_level=1),
            "the end of every transaction",
            timeout_s=PATIENCE_S,
            poll_s=0.1,
        )
    finally:
        wire.socket.close()


def ends(topic: str, wire: Wire, isolation_level: int) -> list[int]:
    latest = [LATEST] * PARTITIONS
    request = list_offsets(topic, *latest, partitions=range(PARTITIONS), isolation_level=isolation_level)
    return [one.offset for one in wire.ask(request, 6).topics[0].partitions]
