"""Journal, quota, faults, permissions and the request log act on every request, on compiled modules and interpreted."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kmini import Broker
from kmini.broker.api.interception import Exchange, Interceptor, Serve
from kmini.broker.api.registry import loaded
from kmini.broker.api.request_context import CloseConnection
from kmini.broker.handlers import HANDLERS
from kmini.broker.purgatory import Operation
from kmini.broker.security.resources import ResourceType
from kmini.protocol import messages as m
from kmini.protocol.errors import CoordinatorNotAvailable, KafkaStorageError
from kmini.protocol.extension_modules import is_compiled
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.schema import Request, Response
from kmini.testing import ConnectionClosed, Wire
from support.broker.permission_requests import REFUSALS, codes, request_for
from support.until import until

pytestmark = pytest.mark.sockets

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
DELAY_MS = 40


class Never(Operation):
    """Never complete: what waits for it waits as long as it may."""

    keys = ()

    def is_complete(self) -> bool:
        return False


def produce() -> m.ProduceRequest:
    Topic = m.ProduceRequest.Topic
    batch = bytes(build_batch([Record(0, time.time_ns() // 1_000_000, None, b"v", ())]))
    topic = Topic(name="orders", partition_data=[Topic.Partition(index=0, records=batch)])
    return m.ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])


def fetch() -> m.FetchRequest:
    Topic = m.FetchRequest.Topic
    asked = Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    return m.FetchRequest(max_wait_ms=0, min_bytes=1, topics=[Topic(topic="orders", partitions=[asked])])


def offsets_of_transaction() -> m.TxnOffsetCommitRequest:
    Topic = m.TxnOffsetCommitRequest.Topic
    topic = Topic(
        name="orders", partitions=[Topic.Partition(partition_index=0, committed_offset=1, committed_metadata=None)]
    )
    return m.TxnOffsetCommitRequest(
        transactional_id="payments", group_id="readers", producer_id=1, producer_epoch=0, topics=[topic]
    )


ASKED = {"Produce": (produce, 9), "Fetch": (fetch, 12), "TxnOffsetCommit": (offsets_of_transaction, 3)}
"""A request of each hot API and of a rare one, and its version."""
API_NAMES = [*ASKED]
OPEN: dict[str, Request] = {
    "ApiVersions": m.ApiVersionsRequest(),
    "DescribeCluster": m.DescribeClusterRequest(),
    "SaslHandshake": m.SaslHandshakeRequest(mechanism="PLAIN"),
    "SaslAuthenticate": m.SaslAuthenticateRequest(auth_bytes=b""),
}
"""Requests of the APIs that need no permission: their tests have no example."""


def open_broker(**config: str) -> Broker:
    return Broker(topics={"orders": 1}, config={name.replace("_", "."): value for name, value in config.items()})


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with open_broker() as running:
        yield running


@pytest.fixture
def interceptors(broker: Broker) -> Iterator[list[Interceptor]]:
    """The interceptors of the broker; none is left at the end."""
    placed = broker._operations.any_broker().services.interceptors
    yield placed
    placed.clear()


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap_servers) as connection:
        yield connection


def ask(wire: Wire, api: str) -> Any:
    make, version = ASKED[api]
    return wire.ask(make(), version)


@pytest.mark.parametrize("api", API_NAMES)
def test_a_journal_has_each_request_with_its_answer(interceptors: list[Interceptor], wire: Wire, api: str) -> None:
    journal: list[tuple[str, int, str | None, int, Response | None]] = []

    async def note(exchange: Exchange, serve: Serve) -> Response | None:
        answer = await serve()
        header = exchange.header
        journal.append((exchange.request.name, header.api_version, header.client_id, exchange.size_bytes, answer))
        return answer

    interceptors.append(note)
    answers = [ask(wire, api) for _ in range(2)]
    make, version = ASKED[api]
    size = sum(map(len, make().encode(version)))
    assert [entry[:4] for entry in journal] == [(api, version, "wire", size)] * 2
    for answer, (*_, noted) in zip(answers, journal, strict=True):
        assert noted is not None
        assert type(noted).decode(b"".join(map(bytes, noted.encode(version))), version) == answer


@pytest.mark.parametrize("api", API_NAMES)
def test_a_quota_delays_the_answer_and_says_so(interceptors: list[Interceptor], wire: Wire, api: str) -> None:
    async def throttle(exchange: Exchange, serve: Serve) -> Response | None:
        answer: Any = await serve()
        answer.throttle_time_ms = DELAY_MS
        await exchange.context.wait(Never(), timeout_ms=DELAY_MS)
        return answer

    interceptors.append(throttle)
    began = time.monotonic()
    assert ask(wire, api).throttle_time_ms == DELAY_MS
    assert time.monotonic() - began >= (DELAY_MS - 1) / 1000  # a deadline is a whole millisecond, which has begun
    interceptors.clear()
    assert ask(wire, api).throttle_time_ms == 0


@pytest.mark.parametrize("api", API_NAMES)
def test_a_fault_answers_an_error_in_place_of_the_handler(
    broker: Broker, interceptors: list[Interceptor], wire: Wire, api: str
) -> None:
    before = len(broker.records("orders"))
    code = KafkaStorageError.code
    Produced, Committed = m.ProduceResponse.Topic, m.TxnOffsetCommitResponse.Topic
    produced = Produced.Partition(index=0, error_code=code, base_offset=-1)
    committed = Committed.Partition(partition_index=0, error_code=code)
    refusals = {
        "Produce": m.ProduceResponse(responses=[Produced(name="orders", partition_responses=[produced])]),
        "Fetch": m.FetchResponse(error_code=code),
        "TxnOffsetCommit": m.TxnOffsetCommitResponse(topics=[Committed(name="orders", partitions=[committed])]),
    }

    async def fail(exchange: Exchange, serve: Serve) -> Response | None:
        return refusals[exchange.request.name]

    interceptors.append(fail)
    assert KafkaStorageError.code in codes(ask(wire, api))
    assert len(broker.records("orders")) == before, "nothing was applied"


def test_a_kafka_error_of_a_fault_is_the_answer_where_the_api_has_a_place_for_it(
    interceptors: list[Interceptor], wire: Wire
) -> None:
    async def fail(exchange: Exchange, serve: Serve) -> Response | None:
        raise CoordinatorNotAvailable("a fault")

    interceptors.append(fail)
    assert ask(wire, "Fetch").error_code == CoordinatorNotAvailable.code
    with pytest.raises(ConnectionClosed):
        ask(wire, "Produce")


@pytest.mark.parametrize("is_applied", [False, True])
@pytest.mark.parametrize("api", API_NAMES)
def test_a_fault_drops_the_connection_before_or_after_the_request_is_applied(
    broker: Broker, interceptors: list[Interceptor], wire: Wire, api: str, is_applied: bool
) -> None:
    before = len(broker.records("orders"))

    async def disconnect(exchange: Exchange, serve: Serve) -> Response | None:
        if is_applied:
            await serve()
        raise CloseConnection("a fault")

    interceptors.append(disconnect)
    with pytest.raises(ConnectionClosed):
        ask(wire, api)
    assert len(broker.records("orders")) == before + (is_applied and api == "Produce")


@pytest.mark.parametrize("api", API_NAMES)
def test_a_fault_leaves_a_request_without_an_answer_and_the_next_one_is_served(
    interceptors: list[Interceptor], wire: Wire, api: str
) -> None:
    async def swallow(exchange: Exchange, serve: Serve) -> Response | None:
        if exchange.header.correlation_id == 1:
            return None
        return await serve()

    interceptors.append(swallow)
    make, version = ASKED[api]
    first, second = wire.send_together((make(), version), (make(), version))
    assert first == 1
    assert wire.receive(type(make()).response, version, second)


@pytest.mark.parametrize("api", API_NAMES)
def test_a_delay_ends_with_its_connection(
    broker: Broker, interceptors: list[Interceptor], wire: Wire, api: str
) -> None:
    served: list[str] = []

    async def delay(exchange: Exchange, serve: Serve) -> Response | None:
        await exchange.context.wait(Never(), timeout_ms=3_600_000)
        served.append(api)
        return await serve()

    interceptors.append(delay)
    purgatory = broker._operations.any_broker().purgatory
    make, version = ASKED[api]
    wire.send(make(), version)
    until(lambda: len(purgatory) == 1)
    wire.close()
    until(lambda: len(purgatory) == 0)
    assert not served


def test_the_first_interceptor_is_the_outermost(interceptors: list[Interceptor], wire: Wire) -> None:
    steps: list[str] = []

    def named(name: str) -> Interceptor:
        async def step(exchange: Exchange, serve: Serve) -> Response | None:
            steps.append(f"{name} before")
            answer = await serve()
            steps.append(f"{name} after")
            return answer

        return step

    interceptors.extend((named("journal"), named("quota")))
    ask(wire, "Fetch")
    assert steps == ["journal before", "quota before", "quota after", "journal after"]


@pytest.mark.parametrize("api", API_NAMES)
def test_permissions_refuse_and_the_request_log_has_a_line(api: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "kmini.request")
    with open_broker(authorizer_class_name=STANDARD) as guarded, Wire(guarded.bootstrap_servers) as wire:
        assert {*codes(ask(wire, api))} & REFUSALS
        until(lambda: any(one.getMessage().startswith(f"{api} v") for one in caplog.records))
    (line,) = [one.getMessage() for one in caplog.records if one.getMessage().startswith(f"{api} v")]
    assert "AUTHORIZATION_FAILED" in line


def test_every_api_passes_the_interceptors_once(broker: Broker, interceptors: list[Interceptor]) -> None:
    """A request of each API, as its own test file has it, in its newest version."""
    passed: list[int] = []
    topic = broker._operations.any_broker().controller.topic("orders")
    assert topic is not None

    async def note(exchange: Exchange, serve: Serve) -> Response | None:
        passed.append(exchange.header.api_key)
        raise CloseConnection("enough is seen")

    interceptors.append(note)
    for api_key, handler in loaded(HANDLERS).items():
        name = handler.request.name
        request = OPEN.get(name) or request_for(name, ResourceType.TOPIC, topic.id)
        with Wire(broker.bootstrap_servers) as wire, pytest.raises(ConnectionClosed):
            wire.ask(request, handler.max_version)
        assert passed == [api_key], name
        passed.clear()


def test_all_of_this_holds_on_interpreted_modules() -> None:
    from kmini.protocol.records.kernels import records

    if not is_compiled(records):
        pytest.skip("no module is compiled here")
    this = f"{__file__}::{test_all_of_this_holds_on_interpreted_modules.__name__}"
    child = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "--deselect", this, __file__],
        env={**os.environ, "KMINI_PURE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stdout[-4000:]
