"""What a request names, and what the proxy learns from answers for later ones."""

from __future__ import annotations

from typing import Any

import pytest

from kmini.broker.journal.request_journal import SECRET_APIS
from kmini.protocol.messages import (
    REQUESTS,
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
)
from kmini.protocol.messages.headers import RequestHeader, encode_response_header
from kmini.protocol.schema import Request, Response
from kmini.trace import proxy_state
from kmini.trace.lines import json_line
from kmini.trace.observer import Observer, Passing, TracedExchange

ORDERS = bytes(range(16))


class Seen:
    """An observer, and what it has handed out."""

    def __init__(self) -> None:
        self.exchanges: list[TracedExchange] = []
        self.observer = Observer(self.exchanges.append)

    def pass_on(self, request: Request, response: Response, version: int) -> TracedExchange:
        """Pass a request and its answer."""
        body = b"".join(request.encode(version))
        answer = b"".join(response.encode(version))
        return self.pass_bytes(
            request.api_key, version, body, encode_response_header(1, response.header_version(version)) + answer
        )

    def pass_bytes(self, api_key: int, version: int, body: bytes, frame: bytes) -> TracedExchange:
        passing = Passing(RequestHeader(api_key, version, 1, "app"), len(body), 1, "127.0.0.1:40112", 1)
        self.observer.decode(passing, memoryview(body))
        self.observer.answered(
            passing, self.observer.decode_answer(passing, memoryview(frame)), len(frame), passing.started_s + 0.002
        )
        return self.exchanges[-1]


@pytest.fixture
def seen() -> Seen:
    return Seen()


def fetch(*partitions: int, session: int = 0, epoch: int = 0, forgotten: tuple[int, ...] = ()) -> FetchRequest:
    topic, left = FetchRequest.Topic, FetchRequest.ForgottenTopic
    asked = [
        FetchRequest.Partition(partition=number, fetch_offset=5, partition_max_bytes=1 << 20) for number in partitions
    ]
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        session_id=session,
        session_epoch=epoch,
        topics=[topic(topic_id=ORDERS, partitions=asked)] if asked else [],
        forgotten_topics_data=[left(topic_id=ORDERS, partitions=[*forgotten])] if forgotten else [],
    )


def named(exchange: TracedExchange) -> set[tuple[str, int | None]]:
    return {(one.topic, one.partition) for one in exchange.entry.partitions}


def learn_orders(seen: Seen) -> None:
    topic = MetadataResponse.Topic(name="orders", topic_id=ORDERS)
    answer = MetadataResponse(brokers=[], topics=[topic])
    seen.pass_on(MetadataRequest(topics=None), answer, 12)


@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_a_produce_without_acknowledgement_expects_no_answer(acks: int) -> None:
    request = ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=[])
    body = b"".join(request.encode(9))
    passing = Passing(RequestHeader(request.api_key, 9, 1, "app"), len(body), 1, "127.0.0.1:40112", 1)
    Observer([].append).decode(passing, memoryview(body))
    assert passing.expects_answer == (acks != 0)


def test_a_topic_id_has_its_name_once_metadata_told_it(seen: Seen) -> None:
    assert named(seen.pass_on(fetch(0, epoch=-1), FetchResponse(), 13)) == {("AAECAwQFBgcICQoLDA0ODw", 0)}
    learn_orders(seen)
    assert named(seen.pass_on(fetch(0, epoch=-1), FetchResponse(), 13)) == {("orders", 0)}


def test_a_follow_up_of_a_fetch_session_names_what_the_session_reads(seen: Seen) -> None:
    learn_orders(seen)
    session = FetchResponse(session_id=77)
    seen.pass_on(fetch(0, 1), session, 13)
    assert named(seen.pass_on(fetch(session=77, epoch=1), session, 13)) == {("orders", 0), ("orders", 1)}
    seen.pass_on(fetch(2, session=77, epoch=2, forgotten=(0,)), session, 13)
    assert named(seen.pass_on(fetch(session=77, epoch=3), session, 13)) == {("orders", 1), ("orders", 2)}
    seen.pass_on(fetch(session=77, epoch=-1), FetchResponse(), 13)
    assert named(seen.pass_on(fetch(session=77, epoch=4), session, 13)) == set()


def test_no_more_sessions_and_topics_are_remembered_than_a_bound(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_state, "MOST_SESSIONS", 3)
    monkeypatch.setattr(proxy_state, "MOST_TOPICS", 3)
    for number in range(10):
        seen.pass_on(fetch(0), FetchResponse(session_id=number + 1), 13)
        topic = MetadataResponse.Topic(name=f"topic-{number}", topic_id=bytes([number]) * 16)
        seen.pass_on(MetadataRequest(topics=None), MetadataResponse(brokers=[], topics=[topic]), 12)
    known = seen.observer.learned
    assert [bool(known.keys_of(number + 1)) for number in range(10)] == [False] * 7 + [True] * 3
    assert [known.topic_by_id(bytes([number]) * 16) is not None for number in range(1, 10)] == [False] * 6 + [True] * 3


def test_the_errors_of_an_answer_are_named_once_each(seen: Seen) -> None:
    partition = FetchResponse.Partition
    failed = [partition(partition_index=0, error_code=6), partition(partition_index=1, error_code=6)]
    answer = FetchResponse(responses=[FetchResponse.Topic(topic_id=ORDERS, partitions=failed)])
    assert seen.pass_on(fetch(0, 1), answer, 13).entry.errors == ("NOT_LEADER_OR_FOLLOWER",)


def test_what_does_not_decode_is_told_with_the_reason(seen: Seen) -> None:
    assert seen.pass_bytes(71, 0, b"body", b"answer").note == "not decoded: kmini does not know this API"
    assert seen.pass_bytes(3, 99, b"body", b"answer").note == "not decoded: kmini does not know version 99"
    assert "the request does not decode" in str(seen.pass_bytes(1, 13, b"\1", bytes(4)).note) or seen.exchanges[-1].note


SECRET = "wonderland-8812"
SECRET_KEYS = [message.api_key for message in REQUESTS.values() if message.name in SECRET_APIS]


def with_secret(struct: Any, version: int) -> Any:
    """A struct with the secret in every text and all bytes that the version has."""
    values: dict[str, Any] = {}
    for field in struct.__fields__:
        if not field.exists_in(version):
            continue
        held = field.type
        if held.element is not None:
            element = held.element
            values[field.name] = [with_secret(element.struct, version) if element.struct else _secret(element)]
        elif held.struct is not None:
            values[field.name] = with_secret(held.struct, version)
        else:
            values[field.name] = "orders" if field.name in ("name", "resource_name") else _secret(held)
    return struct(**values)


def _secret(type_: Any) -> Any:
    wire = {"string": SECRET, "bytes": SECRET.encode(), "uuid": bytes(16), "boolean": True}
    return wire.get(type_.wire.name, 2)


@pytest.mark.parametrize("api_key", SECRET_KEYS)
def test_nothing_that_may_be_secret_is_handed_out(seen: Seen, api_key: int) -> None:
    message = REQUESTS[api_key]
    for version in range(message.min_version, message.max_version + 1):
        exchange = seen.pass_on(with_secret(message, version), with_secret(message.response, version), version)
        assert exchange.note is None
        assert SECRET not in repr(exchange)
        assert SECRET not in json_line(exchange)
