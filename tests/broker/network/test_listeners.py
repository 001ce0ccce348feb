"""Listeners: how they are written, and the rules between their settings."""

from __future__ import annotations

import pytest

from kmini.broker.network.listeners import Endpoint
from kmini.broker.settings.broker_config import BrokerConfig, ConfigError


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("PLAINTEXT://:9092", Endpoint("PLAINTEXT", "", 9092)),
        ("plaintext://0.0.0.0:0", Endpoint("PLAINTEXT", "0.0.0.0", 0)),
        ("PLAINTEXT://[::1]:9092", Endpoint("PLAINTEXT", "::1", 9092)),
        ("PLAINTEXT://Host-1.example:65535", Endpoint("PLAINTEXT", "Host-1.example", 65535)),
    ],
)
def test_a_listener_is_a_name_a_host_and_a_port(text: str, endpoint: Endpoint) -> None:
    assert BrokerConfig.parse({"listeners": text}).listeners == (endpoint,)


@pytest.mark.parametrize("text", ["A://h:1,B://h:2,", ",A://h:1,B://h:2", "A://h:1,,B://h:2", "A://h:1, ,B://h:2, ,"])
@pytest.mark.parametrize("name", ["listeners", "advertised.listeners", "kmini.mapped.listeners"])
def test_empty_items_of_a_list_of_endpoints_are_dropped(name: str, text: str) -> None:
    both = {"listeners": "A://h:1,B://h:2", "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT,"}
    config = BrokerConfig.parse({**both, name: text})
    assert config.text_of(name) == "A://h:1,B://h:2"


@pytest.mark.parametrize(
    ("name", "item"), [("listener.security.protocol.map", "SSL:SSL"), ("max.connections.per.ip.overrides", "::1:4")]
)
def test_a_list_of_pairs_may_end_with_commas_and_has_no_other_empty_item(name: str, item: str) -> None:
    same = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"}
    two = {"listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{item}"}.get(name, item)
    with_commas = BrokerConfig.parse({**same, name: f"{two}, ,"})
    assert with_commas.text_of(name) == BrokerConfig.parse({**same, name: two}).text_of(name)
    for text in (f",{two}", f"{two},,{item}"):
        with pytest.raises(ConfigError, match="is not of the form"):
            BrokerConfig.parse({**same, name: text})


def test_an_endpoint_is_written_as_it_is_read() -> None:
    for text in ("PLAINTEXT://:9092", "A://[fe80::1]:1", "B://host:2"):
        endpoints = {"listeners": text, "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT,PLAINTEXT:PLAINTEXT"}
        assert BrokerConfig.parse(endpoints).text_of("listeners") == text


@pytest.mark.parametrize(
    ("properties", "rule"),
    [
        ({"listeners": ""}, "must name at least one"),
        ({"listeners": " , "}, "must name at least one"),
        ({"listeners": "9092"}, "9092 is not of the form NAME://host:port"),
        ({"listeners": "PLAINTEXT://host:99999"}, "is not of the form NAME://host:port"),
        ({"listeners": "PLAINTEXT://host:"}, "is not of the form NAME://host:port"),
        ({"listeners": "PLAINTEXT://::1:9092"}, "is not of the form NAME://host:port"),
        ({"listeners": "PLAINTEXT://ho/st:9092"}, "is not of the form NAME://host:port"),
        ({"listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2"}, "a listener name may occur once only"),
        ({"listeners": "SSL://:9092"}, "a listener with TLS needs a key store"),
        ({"listeners": "INSIDE://:9092"}, "INSIDE has no entry in listener.security.protocol.map"),
        (
            {"listeners": "A://h:1,B://h:1", "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT"},
            "two listeners cannot have the same host and port",
        ),
        ({"listener.security.protocol.map": "A:NONSENSE"}, "A:NONSENSE is not of the form NAME:PLAINTEXT|SSL"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "must name addresses that clients can connect to"),
        ({"advertised.listeners": "PLAINTEXT://:9092"}, "must name addresses that clients can connect to"),
        ({"advertised.listeners": "OUTSIDE://host:9092"}, "there is no listener of that name"),
        ({"controller.listener.names": "PLAINTEXT"}, "all of them are in controller.listener.names"),
    ],
)
def test_invalid_listeners_are_refused(properties: dict[str, str], rule: str) -> None:
    with pytest.raises(ConfigError) as raised:
        BrokerConfig.parse(properties)
    assert rule in str(raised.value)


def test_several_listeners_of_any_free_port_are_no_conflict() -> None:
    config = BrokerConfig.parse(
        {"listeners": "A://h:0,B://h:0", "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT"}
    )
    assert len(config.listeners) == 2
