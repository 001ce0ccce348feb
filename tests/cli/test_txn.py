"""`kmini txn`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kmini import Broker


@pytest.fixture
def payments(broker: Broker) -> Iterator[Any]:
    """A producer with an open transaction over both partitions of a topic."""
    confluent_kafka = pytest.importorskip("confluent_kafka")
    broker.create_topic("orders", 2)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "payments", "log_level": 0}
    )
    producer.init_transactions(20)
    producer.begin_transaction()
    for partition in (0, 1):
        producer.produce("orders", b"v", partition=partition)
    assert producer.flush(20) == 0
    yield producer
    producer.purge()


def rows_of(output: str) -> list[list[str]]:
    return [line.split("\t") for line in output.splitlines()]


def test_transactions_are_listed_with_their_state(ask, payments) -> None:
    (_, (name, state, _, coordinator)) = rows_of(ask("txn", "list").stdout)
    assert (name, state, coordinator) == ("payments", "Ongoing", "1")
    assert json.loads(ask("txn", "list", "--state", "Empty", "--format", "json").stdout) == []


def test_an_unknown_state_of_transactions_is_refused_with_the_known_ones(run) -> None:
    result = run("txn", "list", "--state", "Open")
    assert result.exit_code == 2
    assert "'Open' is not one of 'Empty', 'Ongoing', 'PrepareCommit', 'PrepareAbort', 'CompleteCommit'" in result.stderr


def test_a_transaction_is_described(ask, broker, payments) -> None:
    (told,) = json.loads(ask("txn", "describe", "payments", "--format", "json").stdout)
    assert (told["transaction"], told["state"], told["epoch"], told["timeout_ms"]) == ("payments", "Ongoing", 0, 60_000)
    assert told["partitions"] == [["orders", 0], ["orders", 1]] or told["partitions"] == ["orders-0", "orders-1"]
    assert told["began"].endswith("Z")
    assert told["coordinator"] == f"{broker.bootstrap_servers} (1)"
    assert rows_of(ask("txn", "describe").stdout)[1][0] == "payments"


def test_one_that_is_aborted_is_over_and_its_producer_fenced(ask, payments) -> None:
    assert ask("txn", "abort", "payments").stdout == ""
    (told,) = json.loads(ask("txn", "describe", "payments", "--format", "json").stdout)
    assert told["state"] == "Empty"
    assert told["epoch"] > 0
    with pytest.raises(Exception, match="fenced"):
        payments.commit_transaction(20)


def test_one_that_hangs_is_aborted_where_it_began(ask, refuse, payments) -> None:
    ask("txn", "abort", "--partition", "orders:1", "--offset", 0)
    assert "no transaction is open in orders-1 since offset 0" in refuse(
        "txn", "abort", "--partition", "orders:1", "--offset", 0, code=1
    )


def test_unknown_ones_are_told_by_name(refuse) -> None:
    for command in ("describe", "abort"):
        assert "nobody" in refuse("txn", command, "nobody", code=1)


@pytest.mark.parametrize(
    "arguments", [(), ("t", "--partition", "orders:0", "--offset", 1), ("--partition", "orders:0"), ("--offset", 1)]
)
def test_what_is_to_be_aborted_is_said_in_one_way(refuse, arguments) -> None:
    assert "expected" in refuse("txn", "abort", *arguments, code=2)


def test_one_partition_is_named(refuse) -> None:
    assert "orders:0" in refuse("txn", "abort", "--partition", "orders", "--offset", 1, code=2)
