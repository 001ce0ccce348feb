"""Quotas come into force with the change, at every start, and cost nothing where there are none."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kmini.broker.metrics_text import metrics_text
from kmini.protocol.messages.metadata import MetadataRequest
from support.broker.clusters import Clusters
from support.broker.fetching import append, request
from support.broker.quota_lab import QuotaLab, produce
from support.until import until_async

PRODUCER, CONSUMER, REQUESTS = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
CONNECTIONS = "connection_creation_rate"


def is_intercepted(lab: QuotaLab, asked: Any) -> bool:
    services = lab.broker.services
    return bool(services.interceptors) and services.is_intercepted(asked, None)  # type: ignore[arg-type]


async def test_only_requests_that_a_quota_is_about_are_intercepted(lab: QuotaLab) -> None:
    asked = produce(1), request("t"), MetadataRequest(topics=[])
    assert not lab.broker.services.interceptors
    for quotas, about in (
        ({PRODUCER: 1.0}, [True, False, False]),
        ({CONSUMER: 1.0}, [True, True, False]),
        ({PRODUCER: None}, [False, True, False]),
        ({REQUESTS: 1.0}, [True, True, True]),
        ({REQUESTS: None}, [False, True, False]),
        ({CONSUMER: None, "controller_mutation_rate": 1.0}, [False, False, False]),
    ):
        await lab.set({"user": "ann"}, quotas)
        assert [is_intercepted(lab, one) for one in asked] == about, quotas
    assert not lab.broker.services.interceptors


async def test_a_quota_changes_at_once_and_what_was_used_stays_counted(lab: QuotaLab) -> None:
    await lab.set({"user": "ann"}, {PRODUCER: 1_000_000.0})
    assert lab.client().ask(produce(20_000), 9).throttle_time_ms == 0
    await lab.set({"user": "ann"}, {PRODUCER: 1_000.0})
    assert lab.client().ask(produce(1), 9).throttle_time_ms > 10_000
    await lab.set({"user": "ann"}, {PRODUCER: None})
    assert lab.client().ask(produce(20_000), 9).throttle_time_ms == 0


async def test_quotas_are_in_force_after_a_restart(start_lab: Any) -> None:
    lab = await start_lab()
    await lab.set({"user": None}, {PRODUCER: 1_000.0})
    await lab.broker.stop()
    again = await start_lab()
    assert again.client().ask(produce(20_000), 9).throttle_time_ms > 0


async def test_the_settings_of_windows_count(start_lab: Any) -> None:
    lab = await start_lab(quota_window_num=3, quota_window_size_seconds=2)
    await lab.set({"user": "ann"}, {PRODUCER: 1_000.0})
    assert lab.client().ask(produce(3_000), 9).throttle_time_ms == 0
    assert 1_900 < lab.client().ask(produce(3_000), 9).throttle_time_ms < 2_500


async def test_a_client_that_logs_in_is_not_held_to_quotas(lab: QuotaLab) -> None:
    await lab.set({"user": None}, {REQUESTS: 0.000_001})
    client = lab.client("ANONYMOUS")
    client.connection.sasl = object()  # type: ignore[assignment]
    assert client.ask(MetadataRequest(topics=[]), 9).throttle_time_ms == 0
    client.connection.sasl = None
    assert client.ask(MetadataRequest(topics=[]), 9).throttle_time_ms > 0


async def test_every_broker_of_a_cluster_holds_clients_to_a_quota_and_none_another_broker(clusters: Clusters) -> None:
    cluster = await clusters.start(2)
    first, second = (QuotaLab(broker) for broker in cluster.brokers.values())
    await first.set({"user": None}, {CONSUMER: 1.0, REQUESTS: 0.000_001})
    assert second.client().ask(MetadataRequest(topics=[]), 9).throttle_time_ms > 0
    throttled = [broker.services.metrics.throttles for broker in cluster.brokers.values()]
    assert [*throttled[0]] == []  # though the follower of the other broker has fetched from it, or will
    client = second.client()
    client.connection.peer = (client.connection.peer[0], 0)
    assert client.ask(MetadataRequest(topics=[]), 9).throttle_time_ms == 0


async def test_a_reset_ends_quotas(clusters: Clusters) -> None:
    cluster = await clusters.start(1)
    (broker,) = cluster.brokers.values()
    lab = QuotaLab(broker)
    await lab.set({"user": None}, {REQUESTS: 0.000_001})
    assert broker.services.interceptors
    await cluster.reset()
    assert not broker.services.interceptors
    assert broker.services.quotas is None


async def test_operators_see_how_often_and_how_long_clients_were_throttled(lab: QuotaLab) -> None:
    await lab.set({"user": "ann"}, {PRODUCER: 1_000.0, CONSUMER: 100.0})
    throttled_ms = [lab.client().ask(produce(20_000), 9).throttle_time_ms for _ in range(2)]
    append(lab.broker, "t", bytes(9_000))
    assert lab.client().ask(request("t"), 11).throttle_time_ms > 0
    samples = {
        (sample.name, sample.labels["quota"]): sample.value
        for family in text_string_to_metric_families(metrics_text(lab.broker))
        for sample in family.samples
        if sample.name.startswith("kmini_quotas")
    }
    assert samples["kmini_quotas_throttles_total", PRODUCER] == 2
    assert samples["kmini_quotas_throttles_total", CONSUMER] == 1
    assert samples["kmini_quotas_throttle_seconds_total", PRODUCER] == pytest.approx(sum(throttled_ms) / 1000)


# --- connections


async def test_an_address_above_its_rate_of_connections_is_not_served_and_hung_up_on(lab: QuotaLab) -> None:
    await lab.set({"ip": None}, {CONNECTIONS: 1.0})
    clients = [lab.client() for _ in range(11)]
    assert [client.is_served for client in clients] == [True] * 10 + [False]
    assert not clients[-1].written
    await lab.advance(999)
    assert not clients[-1].written
    await lab.advance(1)
    await until_async(lambda: len(clients[-1].written) == 1)  # which is how the transport writes that it is closed
    await lab.advance(11_000)
    assert lab.client().is_served


async def test_the_rate_of_an_address_comes_before_that_of_all(lab: QuotaLab) -> None:
    await lab.set({"ip": None}, {CONNECTIONS: 1.0})
    await lab.set({"ip": "127.0.0.1"}, {CONNECTIONS: 100.0})
    assert all(lab.client().is_served for _ in range(20))
    await lab.set({"ip": "127.0.0.1"}, {CONNECTIONS: None})
    assert not lab.client().is_served
    await lab.set({"ip": None}, {CONNECTIONS: None})
    assert lab.client().is_served


@pytest.mark.parametrize(("most", "at_once", "wait_ms"), [(2, 20, 500), (0, 10, 1_000)])
async def test_connections_beyond_the_rate_of_the_broker_wait(
    start_lab: Any, most: int, at_once: int, wait_ms: int
) -> None:
    lab = await start_lab(max_connection_creation_rate=most)
    clients = [lab.client() for _ in range(at_once + 2)]
    assert [client.is_served for client in clients] == [True] * at_once + [False] * 2
    for client in clients[-2:]:
        await lab.advance(wait_ms - 1)
        assert not client.written
        await lab.advance(1)
        await until_async(lambda client=client: len(client.written) == 1)  # type: ignore[misc]
