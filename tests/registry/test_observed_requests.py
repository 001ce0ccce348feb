"""Requests to the registry in the journal of its brokers, the fault rules that act on them, and what the failure report
says of them."""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Iterator
from http.client import RemoteDisconnected
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

import kmini
from kmini import Broker, Cluster
from support.registry_api import RegistryApi
from support.until import until

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
    from kmini.testkit.journal_handle import RequestOperations

    return await RequestOperations(api.control.managed.operations).all("registry")


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


# --- fault rules


@pytest.fixture(scope="module")
def faulted() -> Iterator[Broker]:
    with Broker(registry=True, journal=True) as broker:
        yield broker


@pytest.fixture
def broker(faulted: Broker) -> Iterator[Broker]:
    yield faulted
    faulted.reset()


def test_a_rule_answers_an_error_to_the_requests_that_it_means(broker: Broker) -> None:
    rule = broker.faults.on("registry", method="POST", subject="orders-*").times(1).error(40901, message="no price")
    with client_of(broker) as client:
        client.register_schema("users-value", OLD)
        with pytest.raises(SchemaRegistryError) as refused:
            client.register_schema("orders-value", OLD)
        assert (refused.value.http_status_code, refused.value.error_code) == (409, 40901)
        assert refused.value.error_message == "no price"
        assert client.get_subjects() == ["users-value"]
        client.register_schema("orders-value", OLD)
        assert sorted(client.get_subjects()) == ["orders-value", "users-value"]
    rule.assert_hit(1)
    assert (rule.hits, rule.seen) == (1, 2)
    (entry,) = broker.requests.all("registry", error="40901")
    assert entry.faults == ("registry error 40901",)


def test_a_rule_acts_on_the_nth_request_and_may_apply_it_first(broker: Broker) -> None:
    broker.faults.on("registry", method="POST").on_call(2).apply_then_error(50002)
    with client_of(broker) as client:
        client.register_schema("a", OLD)
        with pytest.raises(SchemaRegistryError) as refused:
            client.register_schema("b", OLD)
        assert (refused.value.http_status_code, refused.value.error_code) == (500, 50002)
        assert client.get_subjects() == ["a", "b"]


@pytest.mark.parametrize(("applied", "subjects"), [(False, []), (True, ["a"])])
@pytest.mark.parametrize("rst", [False, True])
def test_a_rule_closes_the_connection(broker: Broker, applied: bool, rst: bool, subjects: list[str]) -> None:
    rule = broker.faults.on("registry").once().disconnect(applied=applied, rst=rst)
    body = json.dumps({"schema": OLD.schema_str, "schemaType": "PROTOBUF"}).encode()
    request = Request(f"{broker.registry_url}/subjects/a/versions", body, {"Content-Type": "application/json"})
    with pytest.raises((ConnectionResetError, URLError) if rst else RemoteDisconnected):
        urlopen(request, timeout=60)
    assert rule.hits == 1
    (entry,) = broker.requests.all("registry")
    assert entry.closed == "fault rule 'registry disconnect'"
    with client_of(broker) as client:
        assert client.get_subjects() == subjects


def test_a_rule_holds_requests_until_they_are_released(broker: Broker) -> None:
    held = broker.faults.on("registry", subject="a").hold()
    with client_of(broker) as client:
        registering = threading.Thread(target=client.register_schema, args=("a", OLD))
        registering.start()
        held.arrived(1)
        (text,) = held.blocked
        assert text.startswith("registry POST /subjects/a/versions")
        with client_of(broker) as other:
            assert other.get_subjects() == []
        held.release()
        registering.join(60)
        assert client.get_subjects() == ["a"]


def test_a_removed_rule_lets_go_what_it_kept_silent(broker: Broker) -> None:
    with client_of(broker) as client:
        with broker.faults.on("registry").silent() as silent:
            asking = threading.Thread(target=client.get_subjects)
            asking.start()
            silent.arrived(1)
        asking.join(60)
        assert not asking.is_alive()


def test_a_request_whose_client_leaves_is_held_no_more(broker: Broker) -> None:
    held = broker.faults.on("registry").hold()
    with socket.create_connection(("127.0.0.1", int(broker.registry_url.rpartition(":")[2]))) as client:
        client.sendall(b"GET /subjects HTTP/1.1\r\nHost: localhost\r\n\r\n")
        held.arrived(1)
    until(lambda: not held.blocked)
    until(lambda: broker.requests.all("registry")[0].closed == "the client has gone")


def test_a_delay_passes_before_the_answer(broker: Broker) -> None:
    broker.faults.on("registry").delay("150ms")
    with client_of(broker) as client:
        client.get_subjects()
    (entry,) = broker.requests.all("registry")
    assert entry.ms is not None
    assert entry.ms >= 150


def test_a_rule_that_met_nothing_says_what_came(broker: Broker) -> None:
    broker.faults.on("registry", subject="oders-value").error(503)
    with client_of(broker) as client:
        client.register_schema("orders-value", OLD)
    (told,) = broker.faults.unhit()
    assert told == (
        "fault rule 'registry error 503' never acted: 1 registry request came: subject was 'orders-value', the rule "
        "says subject 'oders-value'"
    )


def test_rules_act_by_a_function_and_of_the_newest_one_alone(broker: Broker) -> None:
    broker.faults.on("registry", name="old").error(500)
    broker.faults.on("registry", name="new", where=lambda asked: asked.path.startswith("/config")).error(503)
    with client_of(broker) as client:
        for ask, status in ((client.get_subjects, 500), (client.get_compatibility, 503)):
            with pytest.raises(SchemaRegistryError) as refused:
                ask()
            assert refused.value.http_status_code == status


def test_a_rule_is_set_and_shown_by_the_control_api(api: RegistryApi) -> None:
    rule = {
        "name": "slow",
        "when": {"api": ["registry"], "subject": "a"},
        "which": {"times": 1},
        "do": [{"error": "503"}],
    }
    api.control.done("POST", "/faults", {"rules": [rule]})
    assert api.get("/subjects/a/versions").status == 503
    assert api.get("/subjects/a/versions").status == 404
    (shown,) = api.control.done("GET", "/faults")
    assert (shown["hits"], shown["seen"], shown["rule"]) == (1, 2, rule)


def test_a_connected_broker_sets_rules_and_releases_what_they_hold(api: RegistryApi) -> None:
    with kmini.connect(api.control.url) as broker:
        rule = broker.faults.on("registry", method="GET", subject="a").once().error(503, message="down")
        refused = api.get("/subjects/a/versions")
        assert (refused.status, refused.document) == (503, {"error_code": 503, "message": "down"})
        rule.assert_hit(1)
        rule.remove()
        held = broker.faults.on("registry").hold()
        asking = threading.Thread(target=api.get, args=("/subjects",))
        asking.start()
        held.arrived(1)
        held.release()
        asking.join(60)
        assert not asking.is_alive()
