"""Transactions that hold back consumers are named: which, where, and since when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kmini import Broker
from support.small_client import SmallClient

from .conftest import Examine


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics=["orders"]) as running, SmallClient(running.bootstrap_servers, "svc") as client:
        client.produce("orders")
        client.begin("tx-1", "orders")
        assert client.produce("orders") == 0
        yield running


def test_a_transaction_that_is_open_for_long_is_named_with_what_it_pins(diagnose: Examine, broker: Broker) -> None:
    broker.faults.on("DescribeTransactions").respond(older)
    found = diagnose(broker.bootstrap_servers)["transaction-left-open"]
    assert "transaction 'tx-1' has been open for 60." in found.text
    assert "It pins orders-0 at 1. The broker aborts it when it is 60 s old." in found.text
    assert "kmini txn abort tx-1" in found.change


def older(request: Any, answer: Any) -> Any:
    for one in answer.transaction_states:
        one.transaction_start_time_ms -= 60_000
    return answer


def test_a_transaction_at_work_is_no_finding(diagnose: Examine, broker: Broker) -> None:
    found = diagnose(broker.bootstrap_servers)
    assert {finding.level for finding in found.values()} == {"ok"}


def test_a_last_stable_offset_that_no_transaction_explains_is_named(diagnose: Examine, broker: Broker) -> None:
    broker.faults.on("ListTransactions").respond(without_transactions)
    found = diagnose(broker.bootstrap_servers)["transaction-not-known"]
    assert "orders-0 at 1 of 2" in found.text
    assert f"kmini txn abort --partition orders:0 --offset 1 -b {broker.bootstrap_servers}" in found.change


def without_transactions(request: Any, answer: Any) -> Any:
    answer.transaction_states = []
    return answer
