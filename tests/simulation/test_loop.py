"""The simulated loop: its time, its network and its threads are functions of a seed."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.settings.broker_config import BrokerConfig
from kmini.client.address import Address
from kmini.client.connection import Connection
from kmini.client.errors import Disconnected
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from support.simulation.loop import BEGIN_S, Deadlock, simulate, simulated_loop


def test_time_jumps_to_the_next_timer() -> None:
    async def sleep_for_a_day() -> tuple[float, float]:
        began_s = time.monotonic()
        await asyncio.sleep(86_400)
        return time.monotonic() - began_s, time.time()

    assert simulate(1, sleep_for_a_day) == (86_400, BEGIN_S + 86_400)


def test_time_and_chance_are_real_again_afterwards() -> None:
    async def look() -> float:
        return time.time()

    assert simulate(1, look) == BEGIN_S
    assert time.time() > BEGIN_S + 1
    assert os.urandom(16) != os.urandom(16)


def test_a_wait_that_nothing_can_end_fails() -> None:
    async def wait() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock):
        simulate(1, wait)


def test_what_is_given_to_a_thread_is_done_by_the_loop_at_a_moment_of_the_seed() -> None:
    async def work() -> list[int]:
        done: list[int] = []
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(None, done.append, number) for number in range(8)))
        return done

    orders = {tuple(simulate(seed, work)) for seed in range(5)}
    assert len(orders) > 1
    assert simulate(3, work) == simulate(3, work)


def test_chance_is_the_seeds() -> None:
    async def draw() -> tuple[bytes, float]:
        return os.urandom(8), random.random()

    assert simulate(1, draw) == simulate(1, draw) != simulate(2, draw)


def with_broker(then: Callable[[Address], Awaitable[object]]) -> object:
    async def run() -> object:
        config = BrokerConfig.parse({"listeners": "PLAINTEXT://127.0.0.1:0"})
        broker = await BrokerServer.start(config, "data", filesystem=MemoryFileSystem())
        try:
            return await then(Address("127.0.0.1", broker.server.listeners[0].port))
        finally:
            await broker.stop()

    return simulate(1, run)


def test_a_client_connects_to_a_broker_and_bytes_need_time() -> None:
    async def connect(address: Address) -> float:
        began_s = time.monotonic()
        connection = await Connection.open(address)
        assert connection.versions
        await connection.close()
        return time.monotonic() - began_s

    assert with_broker(connect) > 0  # type: ignore[operator]


def test_nobody_listens_at_another_port() -> None:
    async def connect(address: Address) -> None:
        await Connection.open(Address(address.host, address.port + 1))

    with pytest.raises(Disconnected, match="refused"):
        with_broker(connect)


def test_an_end_that_is_held_up_gets_nothing_until_then() -> None:
    async def ask(address: Address) -> float:
        network = simulated_loop().network
        connection = await Connection.open(address)
        for end in network.open_ends():
            network.hold_up(end, 7)
        began_s = time.monotonic()
        from kmini.client.connection import negotiate_versions

        await negotiate_versions(connection)
        await connection.close()
        return time.monotonic() - began_s

    assert 7 <= with_broker(ask) < 8  # type: ignore[operator]
