"""The ports of the proxy: one for each broker, opened when an answer first names it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from kmini.trace import proxy as proxy_module
from kmini.trace.observer import Observer
from kmini.trace.proxy import Proxy, shown
from kmini.trace.rewriting import Node

TARGET = ("kafka-1", 9092)


def run(work: Callable[[Proxy, list[str]], Awaitable[None]], *, host: str = "127.0.0.1") -> None:
    """Run a proxy of which no client wants anything."""

    async def running() -> None:
        notes: list[str] = []
        proxy = Proxy(TARGET, (host, 0), Observer(lambda _: None), notes.append)
        await proxy.start()
        try:
            await work(proxy, notes)
        finally:
            await proxy.close()

    asyncio.run(running())


def test_a_broker_at_the_traced_address_has_the_first_port() -> None:
    async def work(proxy: Proxy, notes: list[str]) -> None:
        local = proxy.local_address("127.0.0.1")
        first = proxy._ports[0]
        assert local(Node(1), *TARGET) == ("127.0.0.1", first.port)
        assert first.node_id == 1
        assert notes == []

    run(work)


def test_each_other_broker_has_a_port_of_its_own_that_listens_at_once() -> None:
    async def work(proxy: Proxy, notes: list[str]) -> None:
        local = proxy.local_address("127.0.0.1")
        host, port = local(Node(2), "kafka-2", 9092)
        assert local(Node(2), "kafka-2", 9092) == (host, port)
        assert local(Node(3), "kafka-3", 9092)[1] != port
        assert local(Node(2, is_controller=True), "kafka-2", 9093)[1] != port
        assert notes[0] == f"127.0.0.1:{port} -> kafka-2:9092 (broker 2)"
        assert notes[2].endswith("-> kafka-2:9093 (controller 2)")
        socket.create_connection((host, port), 10).close()

    run(work)


def test_a_broker_that_moves_keeps_its_port() -> None:
    async def work(proxy: Proxy, notes: list[str]) -> None:
        local = proxy.local_address("127.0.0.1")
        before = local(Node(2), "kafka-2", 9092)
        assert local(Node(2), "kafka-9", 9095) == before
        assert [port.upstream for port in proxy._ports] == [TARGET, ("kafka-9", 9095)]
        assert notes[-1] == "broker 2 has moved from kafka-2:9092 to kafka-9:9095"

    run(work)


def test_the_first_port_goes_on_to_stand_for_the_traced_address() -> None:
    async def work(proxy: Proxy, notes: list[str]) -> None:
        local = proxy.local_address("127.0.0.1")
        first = local(Node(1), *TARGET)
        moved = local(Node(1), "kafka-9", 9092)
        assert moved != first
        assert proxy._ports[0].upstream == TARGET
        assert local(Node(5), *TARGET) == first

    run(work)


def test_a_client_is_told_the_address_at_which_it_reached_the_proxy() -> None:
    async def work(proxy: Proxy, notes: list[str]) -> None:
        assert proxy.local_address("10.1.2.3")(Node(2), "kafka-2", 9092)[0] == "10.1.2.3"

    run(work)


def test_a_proxy_listens_at_an_ipv6_address() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")

    async def work(proxy: Proxy, notes: list[str]) -> None:
        host, port = proxy.local_address("::1")(Node(2), "fd00::2", 9092)
        assert notes == [f"[::1]:{port} -> [fd00::2]:9092 (broker 2)"]
        socket.create_connection((host, port), 10).close()

    run(work, host="::1")


def test_no_more_ports_are_opened_than_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_module, "MOST_PORTS", 3)

    async def work(proxy: Proxy, notes: list[str]) -> None:
        local = proxy.local_address("127.0.0.1")
        found = [local(Node(number), f"kafka-{number}", 9092) for number in range(2, 7)]
        assert [host for host, _ in found] == ["127.0.0.1"] * 2 + ["kafka-4", "kafka-5", "kafka-6"]
        assert [note for note in notes if "more than 3 brokers" in note] == notes[2:]

    run(work)


def test_an_address_is_shown_as_clients_write_it() -> None:
    assert shown(("kafka", 9092)) == "kafka:9092"
    assert shown(("fd00::1", 9092)) == "[fd00::1]:9092"
