"""Every public method and option with wrong types and values of each argument: a sentence states the expected one."""

from __future__ import annotations

import inspect
from datetime import timedelta
from typing import Any

import pytest

from kmini import Broker, Cluster, ConfigError
from kmini.testkit.argument_checks import ARGUMENTS
from support.for_each import for_each
from support.method_cases import (
    GOOD,
    METHODS,
    TAKING,
    WRONG_TYPES,
    WRONG_VALUES,
    Case,
    arguments,
    callers,
    check_sentence,
)


@for_each("case", TAKING, ids=str)
def test_a_wrong_type_of_any_argument_is_told_by_name(hosts: dict[str, Any], case: Case) -> None:
    for parameter in case.parameters:
        for value in WRONG_TYPES[parameter.name]:
            if value is parameter.default:
                continue
            for call in callers(hosts, case):
                with pytest.raises(TypeError, match=rf"^{parameter.name}(\[.*\])?=.*: must be ") as caught:
                    call(**arguments(case, parameter.name, value))
                check_sentence(caught.value)


@for_each("case", TAKING, ids=str)
def test_a_wrong_value_of_any_argument_is_told_by_name(hosts: dict[str, Any], case: Case) -> None:
    for parameter in case.parameters:
        for value in WRONG_VALUES.get(parameter.name, []):
            if value == parameter.default:
                continue
            for call in callers(hosts, case):
                with pytest.raises(ValueError, match=rf"^{parameter.name}=.*: must be ") as caught:
                    call(**arguments(case, parameter.name, value))
                check_sentence(caught.value)


@for_each("case", METHODS, ids=str)
def test_a_missing_or_unknown_argument_is_told_with_the_name_of_the_method(hosts: dict[str, Any], case: Case) -> None:
    name = case.path.rpartition(".")[2]
    needed = [parameter.name for parameter in case.parameters if parameter.default is inspect.Parameter.empty]
    for call in callers(hosts, case):
        with pytest.raises(TypeError, match=rf"{name}\(\) got an unexpected keyword argument 'sorts'") as caught:
            call(**{**{argument: GOOD[argument] for argument in needed}, "sorts": 1})
        check_sentence(caught.value)
        if needed:
            with pytest.raises(TypeError, match=rf"{name}\(\) missing .*'{needed[0]}'") as caught:
                call()
            check_sentence(caught.value)


def test_every_argument_has_a_check_and_wrong_values() -> None:
    named = {parameter.name for case in TAKING for parameter in case.parameters}
    assert named == set(WRONG_TYPES)
    assert named <= set(ARGUMENTS) | {"name", "broker"}
    with_any_value = {"config", "group", "headers", "key", "liveness", "name", "topic", "transactional_id", "value"}
    with_any_value |= {"where", "client_id", "host", "member", "torn", "unindexed", "user"}
    assert named == set(WRONG_VALUES) | with_any_value, "of others, a wrong value is one of a wrong type"


def test_headers_are_a_mapping_or_pairs_with_bytes_or_text(kafka_broker: Broker) -> None:
    shapes: list[Any] = [
        {"trace": b"1", "by": "me", "empty": None},
        [("trace", b"1"), ("by", "me"), ("empty", None)],
        (pair for pair in [("trace", bytearray(b"1")), ["by", "me"], ("empty", None)]),
    ]
    for headers in shapes:
        kafka_broker.produce("orders", b"v", headers=headers)
    expected = (("trace", b"1"), ("by", b"me"), ("empty", None))
    assert [record.headers for record in kafka_broker.records("orders")] == [expected] * 3


def test_keys_and_values_are_any_kind_of_bytes(kafka_broker: Broker) -> None:
    kafka_broker.produce("orders", bytearray(b"v"), key=memoryview(b"k"))  # type: ignore[arg-type]
    (record,) = kafka_broker.records("orders")
    assert (type(record.key), record.key, type(record.value), record.value) == (bytes, b"k", bytes, b"v")


def test_topics_are_names_or_tell_partitions_replicas_and_settings() -> None:
    spec = {"partitions": 3, "replication_factor": 2, "config": {"min.insync.replicas": 2, "retention.ms": -1}}
    topics = {"orders": spec, "users": 2, "events": {}}
    with Cluster(brokers=2, topics=topics, config={"num.partitions": 4}) as cluster:
        assert cluster.topics() == ["events", "orders", "users"]
        assert len(cluster.replicas("orders", 2)) == 2
        assert len(cluster.replicas("users", 1)) == 1
        assert len(cluster.replicas("events", 3)) == 1, "num.partitions"
        known = cluster._operations.core.controller.topic("orders")
        assert known is not None
        assert known.configs == {"min.insync.replicas": "2", "retention.ms": "-1"}
    for names in (["orders", "users"], ("orders", "users"), {"orders", "users"}, iter(["orders", "users"])):
        with Broker(topics=names) as broker:
            assert broker.topics() == ["orders", "users"]


def test_durations_are_text_numbers_of_milliseconds_or_timedeltas(kafka_broker: Broker) -> None:
    before_ms = kafka_broker.clock.now_ms()
    for duration in ("1h30m", 250, timedelta(days=1), "1.5s", 0):
        kafka_broker.clock.advance(duration)
    assert kafka_broker.clock.now_ms() - before_ms >= 5_400_000 + 250 + 86_400_000 + 1_500


WRONG_OPTIONS: list[tuple[type, dict[str, Any], type[Exception], str]] = [
    *[
        case
        for cls in (Broker, Cluster)
        for case in [
            (cls, {"port": "9092"}, TypeError, "port='9092': must be"),
            (cls, {"port": 70_000}, ValueError, "port=70000: must be"),
            (cls, {"port": -1}, ValueError, "port=-1: must be"),
            (cls, {"as_version": 3.9}, TypeError, "as_version=3.9: must be"),
            (cls, {"as_version": "2.7"}, ConfigError, "must be one of"),
            (cls, {"timestamps": "log"}, ValueError, 'timestamps=.*must be "create" or "append"'),
            (cls, {"timestamps": None}, ValueError, 'timestamps=None: must be "create" or "append"'),
            (cls, {"journal": "yes"}, TypeError, "journal='yes': must be True or False"),
            (cls, {"registry": "yes"}, TypeError, "registry='yes': must be True or False"),
            (cls, {"registry": True, "registry_port": 70_000}, ValueError, "registry_port=70000: must be"),
            (cls, {"registry_port": 8081}, ValueError, "registry_port=8081: there is no registry without"),
            (cls, {"tls": "yes"}, ValueError, "tls='yes': must be one of auto, mutual"),
            (cls, {"sasl": "GSSAPI"}, ValueError, "sasl='GSSAPI': must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
            (cls, {"sasl": "PLAIN", "users": ["alice"]}, TypeError, "users: must be a mapping of names to passwords"),
            (cls, {"sasl": "PLAIN", "acls": ["alice may"]}, ValueError, "acls='alice may': must be \"user operation"),
            (cls, {"host": 1}, TypeError, "host=1: must be"),
            (cls, {"config": ["a"]}, TypeError, r"config=\['a'\]: must be"),
            (cls, {"config": {"log.retention.ms": None}}, TypeError, r"config=\{'log.retention.ms': None\}: must be"),
            (cls, {"config": {"log.retention.ms": "x"}}, ConfigError, "log.retention.ms=x: "),
            (cls, {"config": {"log.retenton.ms": 1}}, ConfigError, "log.retenton.ms=1: "),
            (cls, {"topics": "orders"}, TypeError, "topics='orders': must be names of topics, or"),
            (cls, {"topics": 3}, TypeError, "topics=3: must be"),
            (cls, {"topics": [1]}, TypeError, "topics=1: must be names"),
            (cls, {"topics": {"o": "3"}}, TypeError, r"topics\['o'\]\['partitions'\]='3': must be a number"),
            (cls, {"topics": {"o": 0}}, ValueError, r"topics\['o'\]\['partitions'\]=0: must be a number"),
            (cls, {"topics": {"o": {"partition": 3}}}, ValueError, r"topics\['o'\]=\{'partition': 3\}: must be parti"),
            (cls, {"topics": {"o": {"config": 3}}}, TypeError, r"topics\['o'\]\['config'\]=3: must be a mapping"),
            (
                cls,
                {"topics": {"o": {"replication_factor": 0}}},
                ValueError,
                r"topics\['o'\]\['replication_factor'\]=0: must be",
            ),
            (cls, {"data_dir": b"data"}, TypeError, "data_dir=b'data': must be a path"),
            (cls, {"data_dir": ""}, ValueError, "data_dir='': must be a path"),
            (cls, {"data_dir": 3}, TypeError, "data_dir=3: must be a path"),
        ]
    ],
    (Cluster, {"brokers": 0}, ValueError, "brokers=0: must be"),
    (Cluster, {"brokers": "3"}, TypeError, "brokers='3': must be"),
    (Cluster, {"brokers": 3, "port": 65_534}, ValueError, "port=65534: must be a port that leaves room for 3"),
    (Cluster, {"racks": ["a"]}, TypeError, r"racks=\['a'\]: must be a mapping"),
    (Cluster, {"racks": {9: "a"}}, ValueError, "racks=9: must be a mapping of numbers of brokers, 1 to 3"),
    (Cluster, {"racks": {1: 2}}, TypeError, "racks=2: must be"),
]


@for_each(("cls", "options", "expected", "told"), WRONG_OPTIONS)
def test_a_wrong_option_is_told_by_name_before_anything_starts(
    cls: type, options: dict[str, Any], expected: type[Exception], told: str
) -> None:
    with pytest.raises(expected, match=told) as caught:
        cls(**options)
    check_sentence(caught.value)


def test_every_option_has_a_wrong_value_here() -> None:
    for cls in (Broker, Cluster):
        tried = {name for tried, options, _, _ in WRONG_OPTIONS if tried is cls for name in options}
        assert tried == {*inspect.signature(cls).parameters}
