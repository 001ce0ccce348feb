"""Dispatch: answers, refusals and failures of requests."""

from __future__ import annotations

import asyncio
import gc
import struct
import weakref
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kmini.broker.api.interception import Interceptor
from kmini.broker.api.registry import Handler
from kmini.broker.api.releases import Versions
from kmini.broker.api.request_context import CloseConnection, Context
from kmini.broker.clock import MovableClock
from kmini.broker.metrics import Metrics
from kmini.broker.network.dispatch import Dispatcher
from kmini.broker.purgatory import Operation, Purgatory, Unattended, Wait
from kmini.broker.security.resources import ANONYMOUS
from kmini.protocol.errors import KafkaStorageError
from kmini.protocol.framing import NEED_DATA, ServerConnection
from kmini.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kmini.protocol.messages.headers import RequestHeader
from kmini.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kmini.testing import Wire


@pytest.mark.sockets
def test_an_unknown_version_of_api_versions_is_answered_in_version_0(wire: Wire) -> None:
    wire.socket.sendall(struct.pack(">ihhih", 10, 18, 99, 7, -1))
    content = wire.receive_frame()
    assert struct.unpack(">i", content[:4]) == (7,)
    answer = ApiVersionsResponse.decode(content[4:], 0)
    assert answer.error_code == 35
    assert [(key.api_key, key.max_version) for key in answer.api_keys] == [(18, 4)]
    assert wire.ask(ApiVersionsRequest(client_software_name="x", client_software_version="1")).error_code == 0


# --- a dispatcher without a socket


class Refusals:
    """The hints of a server, counted."""

    def __init__(self) -> None:
        self.not_served_count = 0

    def not_served(self, *_: object) -> None:
        self.not_served_count += 1


class Peer:
    """A connection that remembers what it sends, and why it is dropped."""

    def __init__(self) -> None:
        self.peer = ("192.0.2.7", 40_000)
        self.principal = ANONYMOUS
        self.redirect_watch = None
        self.in_service: asyncio.Future[Any] | None = None
        self.is_closing = False
        self.sent: list[tuple[int, int, Any]] = []
        self.dropped: list[str] = []
        self.served = 0

    def send(self, correlation_id: int, version: int, response: Any) -> None:
        self.sent.append((correlation_id, version, response))

    def drop(self, reason: object, header: object = None) -> None:
        self.dropped.append(str(reason))

    def serve(self) -> None:
        self.served += 1


class Desk:
    """A dispatcher over one handler, of Metadata in versions 1 to 9."""

    def __init__(self, answer: Callable[[], Awaitable[Any]]) -> None:
        self.peer, self.hints, self.metrics = Peer(), Refusals(), Metrics()
        self.purgatory = Purgatory(MovableClock())
        self.interceptors: list[Interceptor] = []

        self.contexts: list[tuple[int, str | None]] = []
        """Version and client id of each request that is served, as its handler is told them."""

        async def handler(request: object, context: Context) -> Any:
            self.contexts.append((context.version, context.client_id))
            return await answer()

        api = Handler(__name__, MetadataRequest.api_key, Versions(1, 9), 1)
        api.bind(MetadataRequest, handler, (), None)
        services: Any = SimpleNamespace(
            metrics=self.metrics,
            purgatory=self.purgatory,
            interceptors=self.interceptors,
            journal=None,
        )
        handlers: Any = {MetadataRequest.api_key: api}
        self.dispatcher = Dispatcher(cast(Any, self.peer), services, handlers, cast(Any, self.hints))

    def ask(
        self,
        version: int = 9,
        api_key: int = MetadataRequest.api_key,
        body: bytes | None = None,
        client_id: str = "c",
    ) -> None:
        request = MetadataRequest(topics=[])
        header = RequestHeader(api_key, version, 7, client_id)
        framing = ServerConnection(1 << 20)
        content = b"".join(map(bytes, request.encode(max(1, min(version, 9))))) if body is None else body
        sent = header.encode(request.header_version(version)) + content
        sent = len(sent).to_bytes(4, "big") + sent
        framing.get_buffer()[: len(sent)] = sent
        framing.buffer_updated(len(sent))
        frame = framing.next_frame()
        assert frame is not NEED_DATA
        self.dispatcher.dispatch(frame)


class OrdersChange(Operation):
    """Waits for a change of orders, which is only settled."""

    keys = ("orders",)

    def is_complete(self) -> bool:
        return False


ANSWER = MetadataResponse(cluster_id="c", topics=[], brokers=[])


async def at_once() -> MetadataResponse:
    return ANSWER


async def test_a_handler_that_does_not_wait_is_answered_without_a_task() -> None:
    desk = Desk(at_once)
    desk.ask()
    assert desk.peer.sent == [(7, 9, ANSWER)]
    assert desk.peer.in_service is None


async def test_a_client_that_changes_its_version_or_its_id_is_served_by_the_new_one() -> None:
    """What is kept for a request that repeats the last one must not serve another."""
    desk = Desk(at_once)
    asked = [(9, "c"), (9, "c"), (1, "c"), (1, "d"), (9, "d")]
    for version, client_id in asked:
        desk.ask(version, client_id=client_id)
        assert desk.peer.client_id == client_id
    assert desk.contexts == asked


async def test_a_handler_that_waits_is_in_service_and_answered_later() -> None:
    wait: asyncio.Future[MetadataResponse] = asyncio.get_running_loop().create_future()

    async def later() -> MetadataResponse:
        return await wait

    desk = Desk(later)
    desk.ask()
    task = desk.peer.in_service
    assert task is not None
    assert not desk.peer.sent
    wait.set_result(ANSWER)
    await task
    assert desk.peer.sent == [(7, 9, ANSWER)]
    assert (desk.peer.in_service, desk.peer.served) == (None, 1)


async def test_a_request_whose_client_leaves_is_not_answered(caplog: pytest.LogCaptureFixture) -> None:
    wait: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def fail_later() -> None:
        await wait
        raise RuntimeError("a bug")

    desk = Desk(fail_later)
    desk.ask()
    desk.peer.is_closing = True
    wait.set_result(None)
    assert desk.peer.in_service is not None
    await desk.peer.in_service
    assert (desk.peer.sent, desk.peer.dropped) == ([], [])
    assert "Metadata failed after its client left" in caplog.text


async def test_a_response_of_none_is_no_answer() -> None:
    async def nothing() -> None:
        return None

    desk = Desk(nothing)
    desk.ask()
    assert (desk.peer.sent, desk.peer.dropped) == ([], [])


@pytest.mark.parametrize(("version", "api_key"), [(0, 3), (10, 3), (1, 99)])
async def test_a_request_that_is_not_served_closes_the_connection_with_a_hint(version: int, api_key: int) -> None:
    desk = Desk(at_once)
    desk.ask(version, api_key)
    assert desk.hints.not_served_count == len(desk.peer.dropped) == 1
    assert not desk.peer.sent


async def test_a_request_that_does_not_decode_closes_the_connection() -> None:
    desk = Desk(at_once)
    desk.ask(1, body=b"\x7f\xff\xff\xff")
    assert len(desk.peer.dropped) == 1
    assert not desk.peer.sent


@pytest.mark.parametrize("error", [KafkaStorageError("full"), RuntimeError("a bug"), CloseConnection("acks is 0")])
async def test_a_failure_without_a_place_in_the_answer_closes_the_connection(error: Exception) -> None:
    """An answer to Metadata has no error code of the whole request."""

    async def fail() -> None:
        raise error

    desk = Desk(fail)
    desk.ask()
    assert not desk.peer.sent
    assert len(desk.peer.dropped) == 1


@pytest.mark.sockets
async def test_a_failed_request_is_freed_with_its_answer() -> None:
    """The collector of cycles need not run: what a request holds has views of the receive buffer."""
    held: list[weakref.ref[object]] = []

    async def fail() -> None:
        local = Purgatory(MovableClock())
        held.append(weakref.ref(local))
        raise KafkaStorageError("full")

    desk = Desk(fail)
    gc.disable()
    try:
        desk.ask()
        assert held[-1]() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("error", "then"),
    [(None, ["answered"]), (RuntimeError("a bug"), ["dropped"]), (asyncio.CancelledError(), ["raised"])],
    ids=["answer", "failure", "cancelled"],
)
async def test_what_a_request_released_goes_on_before_its_own_end(error: BaseException | None, then: list[str]) -> None:
    waiter = Unattended()
    events: list[str] = []

    async def release() -> MetadataResponse:
        assert waiter.waiting is not None
        cast(Wait, waiter.waiting).settle(True)
        if error is not None:
            raise error
        return ANSWER

    desk = Desk(release)
    desk.peer.send = lambda *_: events.append("answered")  # type: ignore[method-assign, assignment]
    desk.peer.drop = lambda *_: events.append("dropped")  # type: ignore[method-assign, assignment]
    wait = cast(Wait, desk.purgatory.wait_for_change(OrdersChange(), 1_000, waiter))
    wait.resume_request = lambda: events.append("released")
    try:
        desk.ask()
    except asyncio.CancelledError:
        events.append("raised")
    assert events == ["released", *then]
    assert desk.purgatory.attend(), "no request attends any longer"


async def test_an_answer_that_cannot_be_sent_closes_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk(at_once)

    def fail(*_: object) -> None:
        raise ValueError("it does not encode")

    desk.peer.send = fail  # type: ignore[method-assign]
    desk.ask()
    assert desk.peer.dropped == ["the answer cannot be sent"]
    assert "the answer to Metadata v9 failed" in caplog.text
