"""The request log: a line for each request at debug, and nothing secret in it."""

from __future__ import annotations

import logging
import re
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kmini import Broker
from kmini.broker.api.answer_errors import first_error
from kmini.broker.api.registry import loaded
from kmini.broker.handlers import HANDLERS
from kmini.broker.network.request_log import key_fields
from kmini.protocol import messages as m
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.schema import Struct, Type
from kmini.testing import ConnectionClosed, Wire
from support.for_each import for_each
from support.until import until

pytestmark = pytest.mark.sockets

SECRET = "hush-hush"
PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"

Lines = Callable[[int], list[str]]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    config = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{PLAIN_LOGIN} user_alice="{SECRET}";',
    }
    with Broker(topics={"orders": 8}, config=config) as running:
        yield running


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    """Wait for so many lines of the log, and return them without what changes from run to run."""
    caplog.set_level(logging.DEBUG, "kmini.request")

    def messages() -> list[str]:
        return [one.getMessage() for one in caplog.records if one.name == "kmini.request"]

    def read(count: int) -> list[str]:
        until(lambda: len(messages()) >= count, messages)  # a line follows its answer
        found = messages()
        assert len(found) == count, found
        return [re.sub(r"peer=127\.0\.0\.1:\d+", "peer=P", re.sub(r"ms=\d+\.\d$", "ms=T", line)) for line in found]

    return read


@pytest.fixture
def wire(broker: Broker, lines: Lines) -> Iterator[Wire]:
    with Wire(address_of(broker, "PLAINTEXT")) as connection:
        yield connection


def address_of(broker: Broker, listener: str) -> str:
    found = broker._operations.any_broker().server.listener(listener)
    assert found is not None
    return found.address


def produced(topic: str, *partitions: int, acks: int = 1) -> m.ProduceRequest:
    Topic = m.ProduceRequest.Topic
    batch = bytes(build_batch([Record(0, time.time_ns() // 1_000_000, SECRET.encode(), SECRET.encode())]))
    sent = [Topic.Partition(index=number, records=batch) for number in partitions]
    return m.ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[Topic(name=topic, partition_data=sent)])


def fetch(*asked: tuple[int, int], max_wait_ms: int = 0) -> m.FetchRequest:
    Topic = m.FetchRequest.Topic
    partitions = [Topic.Partition(partition=n, fetch_offset=at, partition_max_bytes=1 << 20) for n, at in asked]
    return m.FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=[Topic(topic="orders", partitions=partitions)])


# --- what a line has


def test_each_request_is_a_line_with_its_key_fields_and_the_first_error_of_the_answer(wire: Wire, lines: Lines) -> None:
    wire.ask(produced("orders", 0, 2), 9)
    wire.ask(produced("orders", 99), 9)
    wire.ask(fetch((0, 0), (5, 7)), 4)
    wire.ask(m.MetadataRequest(topics=None), 9)
    wire.ask(m.MetadataRequest(topics=[]), 9)
    wire.ask(m.HeartbeatRequest(group_id="billing", generation_id=3, member_id="m"), 4)
    assert lines(6) == [
        "Produce v9 client=wire correlation=1 peer=P acks=1 timeout_ms=1000 topic_data=orders[0,2] error=NONE ms=T",
        "Produce v9 client=wire correlation=2 peer=P acks=1 timeout_ms=1000 topic_data=orders[99]"
        " error=UNKNOWN_TOPIC_OR_PARTITION ms=T",
        "Fetch v4 client=wire correlation=3 peer=P max_wait_ms=0 min_bytes=1 topics=orders[0@0,5@7]"
        " error=OFFSET_OUT_OF_RANGE ms=T",
        "Metadata v9 client=wire correlation=4 peer=P error=NONE ms=T",
        "Metadata v9 client=wire correlation=5 peer=P topics=[] error=NONE ms=T",
        "Heartbeat v4 client=wire correlation=6 peer=P group_id=billing generation_id=3 member_id=m"
        " error=NOT_COORDINATOR ms=T",
    ]


def test_a_topic_asked_for_by_id_shows_its_name(broker: Broker, wire: Wire, lines: Lines) -> None:
    topic = broker._operations.any_broker().controller.topic("orders")
    assert topic is not None
    request = fetch((1, 0))
    request.topics[0].topic_id = topic.id
    wire.ask(request, 13)
    assert " topics=orders[1@0] " in lines(1)[0]


def test_a_request_without_an_answer_is_a_line(wire: Wire, lines: Lines) -> None:
    wire.send(produced("orders", 1, acks=0), 9)
    assert lines(1)[0].endswith("topic_data=orders[1] error=NONE ms=T")


def test_a_request_that_closes_the_connection_is_a_line(broker: Broker, wire: Wire, lines: Lines) -> None:
    wire.send(produced("orders", 77, acks=0), 9)
    with pytest.raises(ConnectionClosed):
        wire.receive_frame()
    with Wire(address_of(broker, "PLAINTEXT"), client_id=None) as other:
        other.socket.sendall(struct.pack(">ihhih", 10, 80, 1, 5, -1))
        with pytest.raises(ConnectionClosed):
            other.receive_frame()
    told = lines(2)
    assert " topic_data=orders[77] closed=" in told[0]
    assert told[1] == 'AddRaftVoter v1 client=null correlation=5 peer=P closed="not served" ms=T'


def test_a_request_whose_client_leaves_is_a_line(broker: Broker, lines: Lines) -> None:
    with Wire(address_of(broker, "PLAINTEXT")) as leaving:
        leaving.send(fetch((3, 0), max_wait_ms=60_000), 4)
    assert 'closed="the connection ended before the answer"' in lines(1)[0]


def test_an_unknown_version_of_api_versions_is_a_line(wire: Wire, lines: Lines) -> None:
    wire.socket.sendall(struct.pack(">ihhih", 10, 18, 99, 7, -1))
    wire.receive_frame()
    assert lines(1) == ["ApiVersions v99 client=null correlation=7 peer=P error=UNSUPPORTED_VERSION ms=T"]


def test_long_lists_and_names_are_shortened(wire: Wire, lines: Lines) -> None:
    names = [f"t{number}" for number in range(100)]
    wire.ask(m.DeleteTopicsRequest(topic_names=names, timeout_ms=1), 5)
    wire.ask(produced("x" * 10_000, *range(100)), 9)
    told = lines(2)
    assert " topic_names=t0,t1,t2,t3,t4,+95 " in told[0]
    assert "[0,1,2,3,4,+95]" in told[1]
    assert max(map(len, told)) < 500


@pytest.mark.parametrize(
    ("client_id", "shown"),
    [
        ("my app", '"my app"'),
        ("a\nKafka v0 error=NONE", '"a\\\\x0aKafka v0 error=NONE"'),
        ("\x1b[31mred", '"\\\\x1b[31mred"'),
        ('"quoted"', '"\\"quoted\\""'),
        ("", '""'),
    ],
)
def test_what_a_client_calls_itself_cannot_look_like_another_field_or_line(
    broker: Broker, lines: Lines, client_id: str, shown: str
) -> None:
    with Wire(address_of(broker, "PLAINTEXT"), client_id=client_id) as wire:
        wire.ask(m.MetadataRequest(topics=[]), 9)
    assert lines(1)[0].startswith(f"Metadata v9 client={shown} correlation=1 ")


# --- what it never has


def filled(kind: type[Struct], version: int, number: int = 1) -> dict[str, Any]:
    """Every field with a value; text and bytes say which field they are of."""
    return {
        field.name: value_of(field.type, f"{kind.__qualname__}.{field.name}", version, number)
        for field in kind.__fields__
        if field.exists_in(version)
    }


def value_of(type_: Type, name: str, version: int, number: int) -> Any:
    if type_.struct is not None:
        return type_.struct(**filled(type_.struct, version, number))
    assert type_.wire is not None
    if type_.element is not None:
        return [value_of(type_.element, name, version, number)]
    kind = type_.wire.name
    if "string" in kind:
        return name
    if kind == "uuid":
        return b"u" * 16
    if "bytes" in kind or kind == "records":
        return b"BYTES of " + name.encode()
    return 0.5 if kind == "float64" else number


FILLED = {
    handler.request.name: handler.request(**filled(handler.request, handler.max_version))
    for handler in loaded(HANDLERS).values()
}


@for_each("api", FILLED)
def test_no_request_shows_bytes_or_text_from_deep_inside(api: str) -> None:
    line = " ".join(key_fields(FILLED[api], lambda topic_id: None))
    assert "BYTES" not in line
    deep = [text for text in re.findall(r"\w+Request\.\w+\.[\w.]+", line) if text.count(".") > 2]
    assert not deep
    assert not re.search(r"\.(\w*value|salt\w*|\w*bytes|\w*metadata|assignment)\b", line), line


def test_a_name_and_a_password_in_the_settings_of_an_api_stay_apart() -> None:
    assert [*key_fields(FILLED["AlterUserScramCredentials"], lambda topic_id: None)] == [
        "deletions=AlterUserScramCredentialsRequest.Deletion.name",
        "upsertions=AlterUserScramCredentialsRequest.Upsertion.name",
    ]
    assert [*key_fields(FILLED["SaslAuthenticate"], lambda topic_id: None)] == []


def test_logging_in_and_setting_passwords_leaves_no_secret_in_the_log(
    broker: Broker, lines: Lines, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    altered = m.IncrementalAlterConfigsRequest.Resource(
        resource_type=4,
        resource_name="1",
        configs=[
            m.IncrementalAlterConfigsRequest.Resource.Config(name="ssl.key.password", config_operation=0, value=SECRET)
        ],
    )
    with Wire(address_of(broker, "SASL_PLAINTEXT")) as wire:
        wire.ask(m.SaslHandshakeRequest(mechanism="PLAIN"))
        token = f"\0alice\0{SECRET}".encode()
        assert wire.ask(m.SaslAuthenticateRequest(auth_bytes=token)).error_code == 0
        wire.ask(m.IncrementalAlterConfigsRequest(resources=[altered]))
    told = lines(3)
    assert told[0].startswith("SaslHandshake v1 client=wire correlation=1 peer=P mechanism=PLAIN error=NONE")
    assert told[1] == "SaslAuthenticate v2 client=wire correlation=2 peer=P error=NONE ms=T"
    assert " principal=User:alice resources=1 " in told[2]
    assert SECRET not in caplog.text


# --- the error of an answer


def has_error_code(kind: type[Struct]) -> bool:
    inner = [field.type.element or field.type for field in kind.__fields__]
    return any(field.name == "error_code" for field in kind.__fields__) or any(
        one.struct is not None and has_error_code(one.struct) for one in inner
    )


@for_each("api", FILLED)
def test_the_first_error_of_an_answer_is_found_wherever_it_is(api: str) -> None:
    request = type(FILLED[api])
    version, response = request.max_version, request.response
    for error in (0, 1):
        answer = response(**filled(response, version, number=error))
        assert first_error(answer) == (error if has_error_code(response) else 0)


# --- when it is off


def test_at_info_requests_leave_no_line_and_are_not_described(
    broker: Broker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "kmini.request")
    described: list[object] = []
    monkeypatch.setattr("kmini.broker.network.dispatch.LoggedRequest", lambda *arguments: described.append(arguments))
    with Wire(address_of(broker, "PLAINTEXT")) as wire:
        wire.ask(produced("orders", 0), 9)
        wire.ask(m.MetadataRequest(topics=None), 9)
    assert not described
    assert "kmini.request" not in {record.name for record in caplog.records}
