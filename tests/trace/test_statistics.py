"""Totals of a trace."""

from __future__ import annotations

import pytest

from kmini.trace.statistics import MOST_CLIENTS, Statistics
from support.exchanges import exchange


def test_requests_errors_bytes_and_latencies_add_up_by_api_and_by_client() -> None:
    statistics = Statistics()
    for number in range(100):
        statistics.add(exchange("Fetch", "billing", ms=number + 1.0, bytes_in=10, bytes_out=100))
    statistics.add(exchange("Produce", None, errors=("NOT_LEADER_OR_FOLLOWER",)))
    (api_columns, apis), (client_columns, clients) = statistics.tables()
    assert api_columns == ("API", "REQUESTS", "ERRORS", "P50-MS", "P99-MS", "BYTES-IN", "BYTES-OUT")
    assert client_columns[0] == "CLIENT"
    name, count, errors, p50, p99, bytes_in, bytes_out = apis[0]
    assert (name, count, errors, bytes_in, bytes_out) == ("Fetch", 100, 0, 1_000, 10_000)
    assert p50 == pytest.approx(50, rel=0.06)
    assert p99 == pytest.approx(99, rel=0.06)
    assert apis[1][:3] == ("Produce", 1, 1)
    assert [row[0] for row in clients] == ["billing", "-"]


def test_an_exchange_without_an_answer_has_no_latency() -> None:
    statistics = Statistics()
    statistics.add(exchange("Produce", "app", closed="no answer is due"))
    (_, apis), _ = statistics.tables()
    assert apis[0][1:5] == (1, 0, None, None)


def test_clients_beyond_a_bound_are_added_up() -> None:
    statistics = Statistics()
    for number in range(MOST_CLIENTS + 50):
        statistics.add(exchange("Fetch", f"client-{number}"))
    assert len(statistics.by_client) == MOST_CLIENTS + 1
    assert statistics.by_client["(others)"].count == 50
