"""Transactions with the clients' own producers: what was committed is read, and what was not is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.client_adapters import create_topic
from support.offset_requests import await_coordinator
from support.offset_requests import fetch as fetch_offsets
from support.server_process import ServerProcess, StartServer
from support.transaction_requests import describe
from support.transactional_clients import CLIENTS, Confluent, TransactionalClient, read_committed
from support.until import PATIENCE, until
from support.wire import Wire

each_client = pytest.mark.parametrize("maker", CLIENTS.values(), ids=CLIENTS)


@pytest.fixture
def new(request: pytest.FixtureRequest) -> Iterator[Callable[..., TransactionalClient]]:
    """A maker of producers, closed in the end; clients that are not installed are skipped."""
    made: list[TransactionalClient] = []

    def make(maker: type[TransactionalClient], *arguments: Any, **settings: Any) -> TransactionalClient:
        pytest.importorskip({"confluent-kafka": "confluent_kafka", "kafka-python": "kafka"}.get(maker.name, maker.name))
        made.append(maker(*arguments, **settings))
        return made[-1]

    yield make
    for producer in made:
        producer.close()


def committed_offset(server: ServerProcess, group: str, topic: str) -> int:
    wire = Wire(server.host, server.port)
    try:
        await_coordinator(wire, group)
        (answer,) = wire.ask(fetch_offsets(group, [(topic, [0])], 7, stable=True), 7).topics[0].partitions
        assert answer.error_code == 0, answer
        return int(answer.committed_offset)
    finally:
        wire.socket.close()


@each_client
def test_what_is_committed_is_read_and_what_is_aborted_is_not(
    server: ServerProcess, topic_names: Callable[[str], str], new: Any, maker: type[TransactionalClient]
) -> None:
    topic = topic_names("ends")
    create_topic(server.bootstrap_servers, topic, partitions=2)
    producer = new(maker, server.bootstrap_servers, f"{topic}-t")
    for number in range(6):
        producer.begin()
        for partition in (0, 1):
            producer.produce(topic, b"%d-%d" % (number, partition), partition)
        (producer.commit if number % 2 else producer.abort)()
    expected = [b"%d-%d" % (number, partition) for number in (1, 3, 5) for partition in (0, 1)]
    assert sorted(read_committed(server.bootstrap_servers, topic, 2)) == expected


@each_client
def test_offsets_are_committed_with_the_transaction_or_not_at_all(
    server: ServerProcess, topic_names: Callable[[str], str], new: Any, maker: type[TransactionalClient]
) -> None:
    topic = topic_names("offsets")
    group = f"{topic}-group"
    create_topic(server.bootstrap_servers, topic)
    producer = new(maker, server.bootstrap_servers, f"{topic}-t")
    for offset, ends in ((5, producer.commit), (9, producer.abort), (7, producer.commit)):
        producer.begin()
        producer.produce(topic, b"%d" % offset)
        producer.send_offsets(group, {(topic, 0): offset})
        ends()
        assert committed_offset(server, group, topic) == (5 if offset == 9 else offset)


@each_client
def test_a_zombie_is_fenced(
    server: ServerProcess, topic_names: Callable[[str], str], new: Any, maker: type[TransactionalClient]
) -> None:
    topic = topic_names("zombies")
    create_topic(server.bootstrap_servers, topic)
    zombie = new(maker, server.bootstrap_servers, f"{topic}-t")
    zombie.begin()
    zombie.produce(topic, b"of the zombie")
    following = new(maker, server.bootstrap_servers, f"{topic}-t")
    with pytest.raises(Exception, match=r"(?i)fence|epoch|newer"):
        zombie.commit()
    following.begin()
    following.produce(topic, b"of the next")
    following.commit()
    assert read_committed(server.bootstrap_servers, topic) == [b"of the next"]


@each_client
def test_what_is_open_for_too_long_is_aborted(
    start_server: StartServer, new: Any, maker: type[TransactionalClient]
) -> None:
    server = start_server(transaction_abort_timed_out_transaction_cleanup_interval_ms="100")
    create_topic(server.bootstrap_servers, "orders")
    producer = new(maker, server.bootstrap_servers, "slow", timeout_ms=1_000 * PATIENCE)
    producer.begin()
    producer.produce("orders", b"too slow")
    wait_for_state(server, "slow", "CompleteAbort")
    with pytest.raises(Exception, match=r"(?i)fence|epoch|newer|transaction"):
        producer.commit()
    assert read_committed(server.bootstrap_servers, "orders") == []


def wait_for_state(server: ServerProcess, transactional_id: str, wanted: str) -> None:
    wire = Wire(server.host, server.port)
    try:
        until(
            lambda: wire.ask(describe(transactional_id), 0).transaction_states[0].transaction_state == wanted,
            f"the state {wanted} of {transactional_id}",
        )
    finally:
        wire.socket.close()


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_open_transaction_survives_kill_9_and_can_be_ended(
    start_server: StartServer, new: Any, is_commit: bool
) -> None:
    server = start_server()
    create_topic(server.bootstrap_servers, "orders")
    producer = new(Confluent, server.bootstrap_servers, "t")
    producer.begin()
    producer.produce("orders", b"before")
    server.kill()
    server.start()
    producer.produce("orders", b"after")
    (producer.commit if is_commit else producer.abort)()
    assert read_committed(server.bootstrap_servers, "orders") == ([b"before", b"after"] if is_commit else [])
