"""Every public method with a wrong type and a wrong value of each argument: a sentence says what was expected."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

import kmini
from kmini import Broker, BrokerNotRunning, Cluster, ConfigError
from kmini.argument_checks import ARGUMENTS
from kmini.protocol.errors import (
    InvalidConfig,
    InvalidReplicationFactor,
    InvalidTopic,
    KafkaError,
    OffsetOutOfRange,
    PolicyViolation,
    RequestTimedOut,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)

GOOD: dict[str, Any] = {
    "broker": 1,
    "count": 1,
    "duration": 0,
    "group": "billing",
    "name": "orders",
    "timeout_ms": 1,
    "topic": "orders",
    "transactional_id": "billing-1",
    "value": b"v",
    "version": 4,
}
"""What the arguments beside the wrong one are."""

WRONG_TYPES: dict[str, list[Any]] = {
    "broker": ["1", None, 1.0, True],
    "configs": [["retention.ms"], {"retention.ms": None}, {1: "a"}, "a"],
    "count": ["1", None, 1.5],
    "duration": [1.5, None, True, b"1s"],
    "group": [1, None, b"billing"],
    "headers": ["trace", 1, [("trace",)], [("trace", 1)], {"trace": 1}, {1: b""}, [1], None],
    "isolation": [1, None],
    "key": ["42", 42, ["42"]],
    "liveness": [1, None, "yes"],
    "name": [1, None, b"orders"],
    "offset": ["1", None, 1.5],
    "partition": ["0", 1.0, True],
    "partitions": ["3", None, 3.0],
    "replication_factor": ["3", None],
    "timeout_ms": ["1s", None, 1.5, timedelta(seconds=1)],
    "timestamp_ms": ["now", 1.5],
    "to": ["2", 2.0],
    "topic": [1, None, b"orders", ["orders"]],
    "transactional_id": [1, None],
    "value": ["str", 1, {"a": 1}],
    "version": ["4", 4.0],
}

WRONG_VALUES: dict[str, list[Any]] = {
    "broker": [-1],
    "count": [-1],
    "duration": [-1, "soon", "", "-1s", timedelta(-1), 1 << 62],
    "isolation": ["comitted", ""],
    "offset": [-2, 1 << 63],
    "partition": [-1, 1 << 31],
    "partitions": [0, -2],
    "replication_factor": [0, -2],
    "timeout_ms": [-1],
    "timestamp_ms": [-2, 1 << 63],
    "to": [-1],
    "version": [-1, 99],
}


class Case(NamedTuple):
    """A method of a handle."""

    path: str
    """As an attribute of a Broker or Cluster, with a handle before it if it is one's: "clock.advance"."""
    host: str
    parameters: tuple[inspect.Parameter, ...]

    def __str__(self) -> str:
        return f"{self.host}.{self.path}"


def methods_of(cls: type, host: str, prefix: str = "") -> Iterator[Case]:
    for name, method in inspect.getmembers(cls, inspect.isfunction):
        parameters = tuple(inspect.signature(method).parameters.values())[1:]
        if not name.startswith("_"):
            yield Case(prefix + name, host, parameters)


METHODS = [
    *methods_of(Broker, "broker"),
    *methods_of(kmini.Topic, "broker", 'topic("orders").'),
    *methods_of(kmini.Clock, "broker", "clock."),
    *methods_of(Cluster, "cluster"),
    *methods_of(kmini.Clock, "cluster", "clock."),
]
TAKING = [method for method in METHODS if method.parameters]


@pytest.fixture(scope="module")
def hosts() -> Iterator[dict[str, Any]]:
    with Broker(topics=["orders"]) as broker, Cluster(brokers=2, topics=["orders"]) as cluster:
        yield {"broker": broker, "cluster": cluster}


def find(host: Any, path: str) -> Callable[..., Any]:
    handle, _, name = path.rpartition(".")
    if handle == "clock":
        host = host.clock
    elif handle:
        host = host.topic("orders")
    method: Callable[..., Any] = getattr(host, name)
    return method


def callers(hosts: dict[str, Any], case: Case) -> list[Callable[..., Any]]:
    """The blocking method and the one that is awaited."""
    awaited = find(hosts[case.host].aio, case.path)
    if not inspect.iscoroutinefunction(awaited):  # what gives a handle or an address
        return [find(hosts[case.host], case.path), awaited]

    async def call(*args: Any, **kwargs: Any) -> Any:
        return await awaited(*args, **kwargs)

    return [find(hosts[case.host], case.path), lambda *args, **kwargs: asyncio.run(call(*args, **kwargs))]


def arguments(case: Case, wrong: str, value: Any) -> dict[str, Any]:
    needed = [parameter.name for parameter in case.parameters if parameter.default is inspect.Parameter.empty]
    return {**{name: GOOD[name] for name in needed}, wrong: value}


def check_sentence(error: BaseException) -> None:
    """A person can read it: no names of ours that are not public, no addresses, no words of Python's internals."""
    told = str(error)
    assert len(told.split()) >= 4, told
    assert not re.search(r"object at 0x|NoneType|Operations|has no attribute|__|struct\.error", told), told


def check_documented(hosts: dict[str, Any], case: Case, error: type[Exception]) -> None:
    """The docstring, from which docs/api.md is written, names the error."""
    assert error.__name__ in (find(hosts[case.host], case.path).__doc__ or "")


@pytest.mark.parametrize("case", TAKING, ids=str)
def test_a_wrong_type_of_any_argument_is_told_by_name(hosts: dict[str, Any], case: Case) -> None:
    for parameter in case.parameters:
        for value in WRONG_TYPES[parameter.name]:
            if value is parameter.default:
                continue
            for call in callers(hosts, case):
                with pytest.raises(TypeError, match=rf"^{parameter.name}(\[.*\])?=.*: must be ") as caught:
                    call(**arguments(case, parameter.name, value))
                check_sentence(caught.value)


@pytest.mark.parametrize("case", TAKING, ids=str)
def test_a_wrong_value_of_any_argument_is_told_by_name(hosts: dict[str, Any], case: Case) -> None:
    for parameter in case.parameters:
        for value in WRONG_VALUES.get(parameter.name, []):
            if value == parameter.default:
                continue
            for call in callers(hosts, case):
                with pytest.raises(ValueError, match=rf"^{parameter.name}=.*: must be ") as caught:
                    call(**arguments(case, parameter.name, value))
                check_sentence(caught.value)


@pytest.mark.parametrize("case", METHODS, ids=str)
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
    with_any_value = {"configs", "group", "headers", "key", "liveness", "name", "topic", "transactional_id", "value"}
    assert named == set(WRONG_VALUES) | with_any_value, "of others, a wrong value is one of a wrong type"


# --- names of topics, partitions and brokers

TOPIC_METHODS = [
    case for case in TAKING if any(one.name == "topic" for one in case.parameters) and case.path != "produce"
]
NO_TOPIC = re.escape("there is no topic ordres; there are: orders")


@pytest.mark.parametrize("case", TOPIC_METHODS, ids=str)
def test_a_misspelt_topic_is_told_with_those_that_exist(hosts: dict[str, Any], case: Case) -> None:
    expected = RequestTimedOut if case.path == "wait_for_records" else UnknownTopicOrPartition
    check_documented(hosts, case, expected)
    for call in callers(hosts, case):
        with pytest.raises(expected, match=NO_TOPIC):
            call(**arguments(case, "topic", "ordres"), **({"timeout_ms": 1} if case.path == "wait_for_records" else {}))


@pytest.mark.parametrize("method", ["compact", "roll", "apply_retention"])
def test_a_misspelt_topic_of_a_handle_is_told_with_those_that_exist(hosts: dict[str, Any], method: str) -> None:
    with pytest.raises(UnknownTopicOrPartition, match=NO_TOPIC):
        getattr(hosts["broker"].topic("ordres"), method)()


def test_a_topic_to_be_deleted_or_produced_to_is_told_in_the_same_way(hosts: dict[str, Any]) -> None:
    for host in hosts.values():
        with pytest.raises(UnknownTopicOrPartition, match=NO_TOPIC):
            host.delete_topic("ordres")
    with (
        Broker(config={"auto.create.topics.enable": False}) as broker,
        pytest.raises(UnknownTopicOrPartition) as caught,
    ):
        broker.produce("ordres", b"v")
    assert str(caught.value).endswith("there is no topic ordres; there are none")


def test_of_many_topics_the_most_similar_are_named() -> None:
    names = [*(f"unrelated-{number}" for number in range(20)), "orders"]
    with Broker(topics=names) as broker, pytest.raises(UnknownTopicOrPartition) as caught:
        broker.records("ordres")
    assert re.search(r"there are: orders, .*, and 11 more$", str(caught.value))


def test_internal_topics_are_not_suggested(hosts: dict[str, Any]) -> None:
    hosts["cluster"].coordinator("billing")
    with pytest.raises(UnknownTopicOrPartition, match=r"there are: orders$"):
        hosts["cluster"].records("ordres")


@pytest.mark.parametrize(
    "case", [case for case in TAKING if any(one.name == "partition" for one in case.parameters)], ids=str
)
def test_a_partition_that_a_topic_does_not_have_is_told_with_those_it_has(hosts: dict[str, Any], case: Case) -> None:
    check_documented(hosts, case, UnknownTopicOrPartition)
    for call in callers(hosts, case):
        with pytest.raises(UnknownTopicOrPartition, match="there is no partition 7 of orders; it has 0 only"):
            call(**arguments(case, "partition", 7))


@pytest.mark.parametrize(
    "case", [case for case in TAKING if any(one.name in ("broker", "to") for one in case.parameters)], ids=str
)
def test_a_broker_that_the_cluster_does_not_have_is_told_with_those_that_run(hosts: dict[str, Any], case: Case) -> None:
    name = next(one.name for one in case.parameters if one.name in ("broker", "to"))
    check_documented(hosts, case, BrokerNotRunning)
    for call in callers(hosts, case):
        with pytest.raises(BrokerNotRunning) as caught:
            call(**arguments(case, name, 9))
        assert str(caught.value) == "there is no broker 9; the cluster has 1, 2, of which run: 1, 2"


def test_a_broker_that_does_not_run_is_told_with_those_that_do() -> None:
    with Cluster(brokers=2) as cluster:
        cluster.kill(2)
        for method in (cluster.kill, cluster.pause, cluster.hold, cluster.address_of, cluster.reconnect):
            with pytest.raises(KeyError, match="broker 2 does not run; there run: 1"):
                method(2)


# --- states


def test_a_broker_is_paused_cut_off_reconnected_and_restarted_only_where_that_means_something() -> None:
    with Cluster(brokers=2) as cluster:
        with pytest.raises(ValueError, match="broker 1 is neither cut off nor paused"):
            cluster.reconnect(1)
        with pytest.raises(ValueError, match="broker 1 runs"):
            cluster.restart(1)
        cluster.pause(1)
        for method in (cluster.pause, cluster.cut_off):
            with pytest.raises(ValueError, match="broker 1 is cut off or paused already"):
                method(1)
        cluster.reconnect(1)


def test_a_fence_that_was_replaced_does_not_end_a_broker_that_is_back() -> None:
    with Cluster(brokers=2) as cluster:
        cluster.cut_off(1)
        with pytest.raises(ValueError, match="already"):
            cluster.pause(1)
        cluster.reconnect(1)
        cluster.advance_clock("1h", liveness=True)
        assert cluster._operations.core.controller.is_live(1)


def test_a_cluster_whose_brokers_all_died_says_so() -> None:
    with Cluster(brokers=2, topics=["orders"]) as cluster:
        for broker in cluster.brokers():
            cluster.kill(broker)
        told = "no broker of the cluster runs: restart one"
        calls: list[Callable[[], object]] = [
            lambda: cluster.create_topic("more"),
            lambda: cluster.delete_topic("orders"),
            lambda: cluster.produce("orders", b"v"),
            lambda: cluster.wait_for_records("orders", 1),
            lambda: cluster.coordinator("billing"),
            lambda: cluster.transaction_coordinator("billing-1"),
        ]
        for call in calls:
            with pytest.raises(RuntimeError, match=told):
                call()
        for call in (lambda: cluster.records("orders"), lambda: cluster.delete_records("orders")):
            with pytest.raises(KafkaError, match="no broker that runs leads orders-0"):
                call()
        with pytest.raises(RequestTimedOut, match="are in sync"):
            cluster.wait_until_in_sync("orders")
        assert (cluster.brokers(), cluster.leader("orders"), cluster.bootstrap_servers) == ([], -1, "")
        assert cluster.offsets("orders") == {}
        cluster.restart(1)
        cluster.create_topic("more")


@pytest.mark.parametrize(
    "case", [case for case in METHODS if case.path not in ("start", "stop", "close", "topic")], ids=str
)
def test_a_method_of_what_does_not_run_says_so(case: Case) -> None:
    hosts: dict[str, Any] = {"broker": Broker(), "cluster": Cluster()}
    needed = [one.name for one in case.parameters if one.default is inspect.Parameter.empty]
    for call in callers(hosts, case):
        with pytest.raises(RuntimeError, match=f"the {case.host} does not run"):
            call(**{name: GOOD[name] for name in needed})


# --- what Kafka's own errors say


def test_what_breaks_a_rule_of_kafkas_has_kafkas_error_with_a_sentence(hosts: dict[str, Any]) -> None:
    for host in hosts.values():
        calls: list[tuple[type[KafkaError], Callable[[], object]]] = [
            (TopicAlreadyExists, lambda host=host: host.create_topic("orders")),  # type: ignore[misc]
            (InvalidTopic, lambda host=host: host.create_topic("no spaces")),  # type: ignore[misc]
            (InvalidTopic, lambda host=host: host.create_topic("")),  # type: ignore[misc]
            (InvalidTopic, lambda host=host: host.produce("a/b", b"v")),  # type: ignore[misc]
            (InvalidConfig, lambda host=host: host.create_topic("t", configs={"retention.ms": "x"})),  # type: ignore[misc]
            (InvalidConfig, lambda host=host: host.create_topic("t", configs={"retenton.ms": 1})),  # type: ignore[misc]
            (InvalidReplicationFactor, lambda host=host: host.create_topic("t", replication_factor=3)),  # type: ignore[misc]
            (OffsetOutOfRange, lambda host=host: host.delete_records("orders", 99)),  # type: ignore[misc]
        ]
        for expected, call in calls:
            with pytest.raises(expected) as caught:
                call()
            check_sentence(caught.value)
    with pytest.raises(PolicyViolation, match=r"cleanup\.policy of orders is not compact"):
        hosts["broker"].compact("orders")


# --- arguments that work


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


# --- making one

WRONG_OPTIONS: list[tuple[type, dict[str, Any], type[Exception], str]] = [
    *[
        case
        for cls in (Broker, Cluster)
        for case in [
            (cls, {"port": "9092"}, TypeError, "port='9092': must be"),
            (cls, {"port": 70_000}, ValueError, "port=70000: must be"),
            (cls, {"port": -1}, ValueError, "port=-1: must be"),
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
    (Broker, {"as_version": 3.9}, TypeError, "as_version=3.9: must be"),
    (Broker, {"as_version": "2.8"}, ConfigError, "must be one of"),
    (Broker, {"timestamps": "log"}, ValueError, 'timestamps=.*must be "create" or "append"'),
    (Broker, {"timestamps": None}, ValueError, 'timestamps=None: must be "create" or "append"'),
    (Cluster, {"brokers": 0}, ValueError, "brokers=0: must be"),
    (Cluster, {"brokers": "3"}, TypeError, "brokers='3': must be"),
    (Cluster, {"brokers": 3, "port": 65_534}, ValueError, "port=65534: must be a port that leaves room for 3"),
    (Cluster, {"racks": ["a"]}, TypeError, r"racks=\['a'\]: must be a mapping"),
    (Cluster, {"racks": {9: "a"}}, ValueError, "racks=9: must be a mapping of numbers of brokers, 1 to 3"),
    (Cluster, {"racks": {1: 2}}, TypeError, "racks=2: must be"),
]


@pytest.mark.parametrize(("cls", "options", "expected", "told"), WRONG_OPTIONS)
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


@pytest.mark.parametrize("cls", [Broker, Cluster])
def test_a_topic_that_cannot_be_made_fails_the_start_with_kafkas_error(cls: type) -> None:
    for topics, expected in [
        (["no spaces"], InvalidTopic),
        ({"orders": {"config": {"retenton.ms": 1}}}, InvalidConfig),
        ({"orders": {"replication_factor": 9}}, InvalidReplicationFactor),
    ]:
        host = cls(topics=topics)
        with pytest.raises(expected) as caught:
            host.start()
        check_sentence(caught.value)
        assert host.data_dir is None


# --- names


def test_errors_and_records_are_imported_from_the_package() -> None:
    from kmini import ConfigError, ControllerError, KafkaError, PortTaken, Record

    assert issubclass(UnknownTopicOrPartition, KafkaError)
    assert issubclass(BrokerNotRunning, KeyError)
    assert all(issubclass(error, Exception) for error in (ConfigError, ControllerError, PortTaken))
    assert Record(0, 0, b"k", b"v").state == "committed"
