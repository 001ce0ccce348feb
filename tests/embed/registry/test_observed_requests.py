"""Requests to the registry in the journal of its brokers, and what the failure report says of them."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

import kmini
from kmini import Broker, Cluster
from support.registry_api import RegistryApi

OLD = Schema('syntax = "proto3"; message Order { string price = 1; }', "PROTOBUF")
NEW = Schema('syntax = "proto3"; message Order { int32 price = 1; }', "PROTOBUF")


def client_of(host: Any) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": host.registry_url, "max.retries": 0})


@pytest.mark.parametrize("host", [Broker, Cluster])
def test_the_journal_has_requests_to_the_registry_among_kafkas(host: Any) -> None:
    with host(registry=True, journal=True) as running, client_of(running) as client:
        number = client.register_schema("orders/value", OLD)
        with pytest.raises(SchemaRegistryError):
            client.register_schema("orders/value", NEW)
        with client_of(running) as other:
            other.get_schema(number)
        asked = running.requests.all("registry")
        assert [entry.registry.method for entry in asked] == ["POST", "POST", "GET"]
        assert [entry.registry.status for entry in asked] == [200, 409, 200]
        assert [entry.errors for entry in asked] == [(), ("40901",), ()]
        assert [entry.registry.subject for entry in asked] == ["orders/value", "orders/value", None]
        assert asked[1].registry.path.startswith("/subjects/orders%2Fvalue/versions")
        assert asked[1].registry.message.startswith("Schema being registered is incompatible")
        assert asked[0].client_id.startswith("python-")
        assert asked[0].bytes_in > 50
        assert all(entry.ms is not None and entry.bytes_out > 0 for entry in asked)
        assert asked[0].connection == asked[1].connection != asked[2].connection
        running.requests.assert_some("registry", subject="orders/value", error="40901")
        running.requests.assert_none("registry", subject="orders")
        assert running.requests.count("registry", error="NONE") == 2


async def test_a_test_can_wait_for_a_request() -> None:
    async with Broker(registry=True, journal=True) as broker:
        waiting = broker.requests.wait_for("registry", subject="orders-value")
        with SchemaRegistryClient({"url": broker.registry_url}) as client:
            await kmini.broker.scheduler.in_thread(client.register_schema, "orders-value", OLD)
            (entry,) = await waiting
        assert entry.registry is not None


def test_nothing_is_written_without_a_journal_and_the_registry_serves() -> None:
    with Broker(registry=True) as broker, client_of(broker) as client:
        assert client.get_subjects() == []
        with pytest.raises(RuntimeError, match="no journal of requests is written"):
            broker.requests.all("registry")


def test_what_is_refused_before_a_handler_is_in_the_journal_too(api: RegistryApi) -> None:
    api.get("/nowhere")
    api.send("PATCH", "/config")
    api.send("POST", "/subjects/a/versions", b"{", {"Content-Type": "text/plain"})
    journal = api.control.any_broker.services.journal
    assert journal is not None
    assert [entry.answered.status for entry in journal.entries if entry.source.api == "registry"] == [404, 405, 415]


def test_a_password_is_not_in_the_journal_and_the_user_is(api: RegistryApi) -> None:
    basic = base64.b64encode(b"alice:secret-word").decode()
    api.send("GET", "/subjects", headers={"Authorization": f"Basic {basic}", "User-Agent": "curl/8"})
    (entry,) = api.control.run(_all(api))
    assert entry.principal == "User:alice"
    assert "secret-word" not in repr(entry)
    assert basic not in repr(entry)


async def _all(api: RegistryApi) -> Any:
    from kmini.journal_handle import RequestOperations

    return await RequestOperations(api.control.steered.operations).all("registry")


def test_the_control_api_tells_requests_to_the_registry(api: RegistryApi) -> None:
    api.registered("orders", {"fields": ["a"]})
    with kmini.connect(api.control.url) as broker:
        (entry,) = broker.requests.all("registry", subject="orders")
        assert entry.registry == kmini.broker.journal.entries.RegistryCall(
            "POST", "/subjects/orders/versions", "orders", 200, ""
        )


def test_the_report_says_why_the_registry_refused_a_schema() -> None:
    with Broker(registry=True, journal=True) as broker, client_of(broker) as client:
        client.register_schema("orders-value", OLD)
        with pytest.raises(SchemaRegistryError):
            client.register_schema("orders-value", NEW)
        report = " ".join(broker.report().split())
        assert "LIKELY the schema registry refused orders-value of client 'python-" in report
        assert 'with 409: The field "price" is of type int32' in report
        assert "POST /subjects/orders-value/versions" in report
