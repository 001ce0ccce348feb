"""What a reader at read_committed gets, with each client. Transactions interleave on one partition, end out of order,
lie across segments, and outlive a kill -9 of the broker: what was aborted is never seen."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from support.client_adapters import READ_COMMITTED, READ_UNCOMMITTED, Client, create_topic
from support.server_process import ServerProcess, StartServer
from support.transactional_clients import Confluent, read_committed

SEED = 20260801
STEPS = 240
PRODUCERS = 4
TOPIC = "orders"


class History:
    """Producers that write transactions to one partition, a record at a time, and what readers must make of it."""

    def __init__(self, servers: str) -> None:
        self._chance = random.Random(SEED)
        self._producers = [Confluent(servers, f"t{number}") for number in range(PRODUCERS)]
        self._open: dict[int, list[bytes]] = {}
        """What each producer has written in its transaction so far; in the order in which they began."""
        self.written: list[bytes] = []
        self.aborted: set[bytes] = set()
        self.ended_before_an_earlier_one = 0

    @property
    def committed(self) -> list[bytes]:
        """In the order of the log; without what is open."""
        left_out = self.aborted.union(*self._open.values())
        return [value for value in self.written if value not in left_out]

    @property
    def stable(self) -> list[bytes]:
        """What lies before the first open transaction."""
        first = min((self.written.index(values[0]) for values in self._open.values()), default=len(self.written))
        return [value for value in self.written[:first] if value not in self.aborted]

    def go_on(self, steps: int) -> None:
        for _ in range(steps):
            number = self._chance.randrange(PRODUCERS)
            if number in self._open and self._chance.random() < 0.25:
                self.end(number)
            else:
                self.write(number)

    def write(self, number: int) -> None:
        if number not in self._open:
            self._producers[number].begin()
            self._open[number] = []
        value = b"%d of %d" % (len(self.written), number)
        self._producers[number].produce(TOPIC, value)
        self._open[number].append(value)
        self.written.append(value)

    def end(self, number: int) -> None:
        self.ended_before_an_earlier_one += next(iter(self._open)) != number
        if self._chance.random() < 0.5:
            self._producers[number].commit()
            del self._open[number]
        else:
            self._producers[number].abort()
            self.aborted.update(self._open.pop(number))

    def end_all(self) -> None:
        """The last to begin first; then another producer commits the last record of all."""
        for number in [*self._open][::-1]:
            self.end(number)
        self.write(0)
        self._producers[0].commit()
        self._open.clear()
        for producer in self._producers:
            producer.close()


@pytest.mark.parametrize("name", ["kafka-python", "aiokafka", "confluent-kafka", "java"])
def test_what_was_aborted_is_never_read(
    start_server: StartServer,
    client: Callable[[str], Client],
    log_directory: Callable[[ServerProcess], Path],
    name: str,
) -> None:
    reader = client(name)
    server = start_server()
    create_topic(server.bootstrap_servers, TOPIC, configs={"internal.segment.bytes": "1000"})
    history = History(server.bootstrap_servers)
    history.go_on(STEPS // 2)
    server.kill()
    server.start()
    history.go_on(STEPS // 2)
    assert read_committed(server.bootstrap_servers, TOPIC) == history.stable
    history.end_all()
    for isolation_level, expected in ((READ_COMMITTED, history.committed), (READ_UNCOMMITTED, history.written)):
        received = reader.consume(server.bootstrap_servers, TOPIC, 0, len(expected), isolation_level)
        assert [record.value for record in received] == expected
    assert history.aborted
    assert history.ended_before_an_earlier_one > 5
    assert len([*(log_directory(server) / f"{TOPIC}-0").glob("*.log")]) > 5
