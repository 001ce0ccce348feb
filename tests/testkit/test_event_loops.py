"""Brokers and clusters inside event loops, in threads, and while they stop: every call returns or explains itself.

These tests hold testkit/host.py and testkit/handle.py; test_loop_thread.py has what happens when nothing returns.
"""

from __future__ import annotations

import asyncio
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from kmini import AsyncBroker, Broker, Cluster
from kmini.broker.network.socket_server import PortTaken
from support.until import until

pytestmark = pytest.mark.usefixtures("leaves_nothing")

Host = Broker | Cluster
Start = Callable[[], Host]

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
HOSTS: dict[str, Start] = {"broker": Broker, "cluster": lambda: Cluster(brokers=2)}


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, object]], object]:
    """Runs a coroutine on a new loop of one kind, and fails where tasks are left."""

    async def alone(coroutine: Coroutine[Any, Any, object]) -> object:
        result = await coroutine
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return result

    def run_it(coroutine: Coroutine[Any, Any, object]) -> object:
        loop = LOOPS[request.param]()
        try:
            return loop.run_until_complete(alone(coroutine))
        finally:
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    return run_it


@pytest.fixture(params=HOSTS)
def start(request: pytest.FixtureRequest) -> Start:
    return HOSTS[request.param]


def is_served(host: Host) -> bool:
    name, _, port = host.bootstrap_servers.split(",")[0].rpartition(":")
    with socket.create_connection((name, int(port)), timeout=10):
        return True


# --- life


def test_with_works_inside_a_running_loop(run: Any, start: Start) -> None:
    async def main() -> None:
        with start() as host:
            host.create_topic("orders")
            assert is_served(host)

    run(main())


def test_start_stop_and_close_work_inside_a_running_loop(run: Any, start: Start) -> None:
    async def main() -> None:
        host = start().start()
        addresses, data_dir = host.bootstrap_servers, host.data_dir
        host.create_topic("orders")
        host.stop()
        assert host.data_dir == data_dir
        host.start()
        assert host.bootstrap_servers == addresses
        host.delete_topic("orders")
        host.close()
        assert data_dir is not None
        assert not Path(data_dir).exists()  # noqa: ASYNC240
        host.close()

    run(main())


def test_it_is_awaited_on_any_loop(run: Any, start: Start) -> None:
    async def main() -> None:
        async with start() as host:
            await host.create_topic("orders")
            addresses = host.bootstrap_servers
            await host.stop()
            assert await host.start() is host
            assert host.bootstrap_servers == addresses
            await host.delete_topic("orders")
            assert host.data_dir is not None
            assert host.aio is host
        assert host.data_dir is None

    run(main())


def test_it_is_started_in_one_thread_and_closed_in_another(start: Start) -> None:
    host = start()
    for step in (host.start, lambda: host.create_topic("orders"), host.stop, host.start, host.close):
        thread = threading.Thread(target=step)
        thread.start()
        thread.join(60)
        assert not thread.is_alive()
    assert host.data_dir is None


def test_threads_that_close_it_at_once_wait_for_one_another(start: Start) -> None:
    host = start().start()
    errors: list[BaseException] = []

    def close() -> None:
        try:
            host.close()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=close) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert host.data_dir is None


def test_a_start_that_fails_inside_a_running_loop_leaves_nothing(run: Any) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            for host in (Broker(port=port), Cluster(port=port)):
                with pytest.raises(PortTaken, match=str(port)):
                    host.start()
                with pytest.raises(PortTaken, match=str(port)):
                    await host.aio.start()
                assert host.data_dir is None

    run(main())


def test_a_start_for_which_the_system_has_no_thread_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, start: Start
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    host = start()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            host.start()
    with pytest.raises(RuntimeError, match="does not run"):
        host.delete_topic("orders")
    with host:
        host.create_topic("orders")


def test_a_start_again_that_fails_keeps_the_data() -> None:
    with Broker(topics={"orders": 1}) as broker:
        broker.produce("orders", b"one")
        name, _, port = broker.bootstrap_servers.rpartition(":")
        broker.stop()
        with socket.create_server((name, int(port))), pytest.raises(PortTaken):
            broker.start()
        broker.start()
        assert [record.value for record in broker.records("orders")] == [b"one"]


def test_a_start_that_is_cancelled_is_undone(run: Any, start: Start) -> None:
    async def main() -> None:
        host = start()
        starting = asyncio.ensure_future(host.aio.start())
        await asyncio.sleep(0)  # let it begin
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert host.data_dir is None
        with pytest.raises(RuntimeError, match="does not run"):
            host.create_topic("orders")

    run(main())


def test_an_error_inside_async_with_is_raised_and_leaves_nothing(run: Any, start: Start) -> None:
    async def main() -> None:
        with pytest.raises(ZeroDivisionError):
            async with start():
                raise ZeroDivisionError

    run(main())


def test_it_cannot_be_started_twice_and_goes_on(run: Any, start: Start) -> None:
    async def main() -> None:
        async with start() as host:
            with pytest.raises(RuntimeError, match="runs already"):
                await host.start()
            await host.create_topic("orders")

    run(main())


# --- stopped meanwhile


def is_waiting(broker: Broker | AsyncBroker) -> bool:
    return len(broker._operations.any_broker().purgatory) > 0


def test_a_call_that_waits_while_the_broker_is_stopped_says_so() -> None:
    broker = Broker(topics={"orders": 1}).start()
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            broker.wait_for_records("orders", 1, timeout_ms=60_000)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: is_waiting(broker))
    broker.close()
    thread.join(60)
    (error,) = errors
    assert isinstance(error, RuntimeError)
    assert str(error) == "the broker was stopped during this call"


def test_an_awaited_call_that_waits_while_the_broker_is_stopped_says_so(run: Any) -> None:
    async def main() -> None:
        async with Broker(topics={"orders": 1}) as broker:
            waiting = asyncio.ensure_future(broker.wait_for_records("orders", 1, timeout_ms=60_000))
            await asyncio.to_thread(until, lambda: is_waiting(broker))
            await broker.stop()
            with pytest.raises(RuntimeError, match="the broker was stopped during this call"):
                await waiting

    run(main())


def test_cancelling_an_awaited_call_ends_it_on_the_broker_too(run: Any) -> None:
    async def main() -> None:
        async with Broker(topics={"orders": 1}) as broker:
            waiting = asyncio.ensure_future(broker.wait_for_records("orders", 1, timeout_ms=60_000))
            await asyncio.to_thread(until, lambda: is_waiting(broker))
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await asyncio.to_thread(until, lambda: not is_waiting(broker))

    run(main())


def test_the_brokers_own_thread_cannot_wait_for_the_broker() -> None:
    with Broker() as broker:
        orders = broker.topic("orders")

        async def call(method: Callable[[], object]) -> None:
            method()

        for method in (broker.topics, broker.close, lambda: orders.wait_for(1), orders.expect().__enter__):
            with pytest.raises(RuntimeError, match="the thread that the broker runs on cannot"):
                broker._thread.run(call(method))


def test_a_forked_process_is_told_that_the_broker_runs_in_another() -> None:
    program = """
import os, sys
from kmini import Broker
with Broker() as broker:
    child = os.fork()
    if child == 0:
        orders = broker.topic("orders")
        for method in (broker.topics, broker.stop, lambda: orders.wait_for(0), orders.expect(0).__enter__):
            try:
                method()
            except RuntimeError as error:
                print(error, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    broker.topics()
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    for line in finished.stdout.splitlines():
        assert re.match(r"the broker runs in process \d+, from which this one, \d+, was forked: connect", line)
    assert len(finished.stdout.splitlines()) == 4


def test_a_process_that_closes_nothing_leaves_no_data_and_its_forks_remove_none() -> None:
    program = """
import os, sys
from kmini import Broker, Cluster
broker, cluster = Broker().start(), Cluster(brokers=1).start()
for host in broker, cluster:
    host.produce("orders", b"one")
    print(host.data_dir, flush=True)
child = os.fork()
if child == 0:
    sys.exit(0)
os.waitpid(child, 0)
assert os.path.exists(broker.data_dir)
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    directories = [Path(line) for line in finished.stdout.splitlines()]
    assert len(directories) == 2
    assert not any(directory.exists() for directory in directories)


# --- waiting for clients

SENTENCE = "wait_for_records would stop the event loop that your client runs on: await broker.aio.wait_for_records(...)"


def test_waiting_on_the_thread_of_a_running_loop_raises_at_once(run: Any) -> None:
    async def main() -> None:
        with Broker(topics={"orders": 1}) as broker:
            with pytest.raises(RuntimeError, match=re.escape(SENTENCE)):
                broker.wait_for_records("orders", 1)
            with pytest.raises(RuntimeError, match=re.escape(SENTENCE)):
                broker.wait_for_records("not there yet", 1, timeout_ms=60_000)

    run(main())


def test_waiting_on_the_thread_of_a_running_loop_returns_what_is_there(run: Any) -> None:
    async def main() -> None:
        with Broker() as broker:
            broker.produce("orders", b"one")
            assert [record.value for record in broker.wait_for_records("orders", 1)] == [b"one"]

    run(main())


def test_waiting_in_a_thread_beside_a_running_loop_waits(run: Any) -> None:
    async def main() -> None:
        with Broker(topics={"orders": 1}) as broker:
            values: list[bytes | None] = []
            thread = threading.Thread(
                target=lambda: values.extend(record.value for record in broker.wait_for_records("orders", 1))
            )
            thread.start()
            await broker.aio.produce("orders", b"one")
            thread.join(60)
            assert values == [b"one"]

    run(main())


def test_aio_waits_while_a_client_on_the_same_loop_writes(run: Any) -> None:
    from aiokafka import AIOKafkaProducer

    async def write(bootstrap_servers: str) -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
            await producer.send_and_wait("orders", b"one")

    async def main() -> None:
        with Broker(topics={"orders": 1}) as broker:
            waiting = asyncio.ensure_future(broker.aio.wait_for_records("orders", 1))
            await write(broker.bootstrap_servers)
            assert [record.value for record in await waiting] == [b"one"]

    run(main())


# --- trio


def test_on_trio_what_blocks_works_and_what_is_awaited_says_in_a_sentence_that_it_needs_asyncio() -> None:
    trio = pytest.importorskip("trio")

    async def main() -> None:
        with Broker() as broker:
            aio = broker.aio
            awaited: list[Awaitable[object]] = [
                aio.topics(),
                aio.wait_for_records("orders", 1),
                aio.clock.now_ms(),
                aio.stop(),
                Broker().__aenter__(),
            ]
            for one in awaited:
                with pytest.raises(RuntimeError, match="kmini's awaitable methods need asyncio, and this is trio"):
                    await one
            with pytest.raises(RuntimeError, match=r"await trio\.to_thread\.run_sync\(broker\.wait_for_records, "):
                broker.wait_for_records("orders", 1)
            broker.produce("orders", b"one")
            records = await trio.to_thread.run_sync(broker.wait_for_records, "orders", 1)
            assert [record.value for record in records] == [b"one"]

    trio.run(main)


# --- fixtures


async def test_the_fixture_gives_what_is_awaited(async_kafka_broker: AsyncBroker, kafka_broker: Broker) -> None:
    await async_kafka_broker.produce("orders", b"one")
    assert [record.value for record in kafka_broker.records("orders")] == [b"one"]
    assert async_kafka_broker.bootstrap_servers == kafka_broker.bootstrap_servers
