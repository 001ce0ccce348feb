"""Scripted brokers on loopback sockets."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from kmini.client import Address, Client, Connection
from kmini.protocol.errors import CoordinatorNotAvailable
from kmini.protocol.framing import NEED_DATA, ServerConnection, response_frame
from kmini.protocol.messages import REQUESTS
from kmini.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kmini.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kmini.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kmini.protocol.schema import Request, Response
from kmini.protocol.topics import TopicPartition

Answer = Callable[[Any], "Response | Awaitable[Response | None] | None"]


def silence(_: Request) -> None:
    """The answer of a broker to an API without a script: none."""


class HangUp(Exception):
    """Raised by an answer: the broker closes the connection."""


class ScriptedBroker:
    """One broker. `answers` says by API what it answers: a response, None for silence (as to every API that is not
    there), or HangUp raised."""

    HangUp = HangUp

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.address = Address("127.0.0.1", 0)
        self.requests: list[Request] = []
        """In the order in which they came, without those of the connection's set-up."""
        self.versions: list[int] = []
        """Of `requests`."""
        self.connections = 0
        self.answers: dict[type[Request], Answer] = {ApiVersionsRequest: lambda _: api_versions()}
        self._server: asyncio.Server
        self._serving: set[asyncio.Task[None]] = set()

    def asked(self, api: type[Request]) -> list[Any]:
        """The requests of one API."""
        return [request for request in self.requests if type(request) is api]

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port)
        self.address = Address(*self._server.sockets[0].getsockname())

    async def stop(self) -> None:
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            await self._serve(reader, writer)
        except (HangUp, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._serving.discard(task)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        framing = ServerConnection(1 << 20)
        while data := await reader.read(1 << 16):
            framing.receive_data(data)
            while (frame := framing.next_frame()) is not NEED_DATA:
                header = frame.header
                request = REQUESTS[header.api_key].decode(bytes(frame.body), header.api_version)
                frame.release()
                if type(request) is not ApiVersionsRequest:
                    self.requests.append(request)
                    self.versions.append(header.api_version)
                answer = self.answers.get(type(request), silence)(request)
                response = await answer if isinstance(answer, Awaitable) else answer
                if response is not None:
                    writer.writelines(response_frame(header.correlation_id, response, header.api_version))


class ScriptedCluster:
    """Brokers 1 to n with the same metadata. `leaders` may change while they run."""

    def __init__(self, brokers: list[ScriptedBroker]) -> None:
        self.brokers = {broker.node_id: broker for broker in brokers}
        self.leaders: dict[TopicPartition, int] = {}
        self.topic_ids: dict[str, bytes] = {}
        self.metadata_asked = 0
        for broker in brokers:
            broker.answers[MetadataRequest] = self._metadata

    def __getitem__(self, node_id: int) -> ScriptedBroker:
        return self.brokers[node_id]

    @property
    def bootstrap(self) -> list[Address]:
        return [broker.address for broker in self.brokers.values()]

    def lead(self, topic: str, *leaders: int) -> None:
        """Make a topic whose partitions 0, 1, … these brokers lead; -1 for no leader."""
        self.topic_ids[topic] = topic.encode().ljust(16, b"-")
        self.leaders.update({TopicPartition(topic, index): leader for index, leader in enumerate(leaders)})

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        self.metadata_asked += 1
        wanted = [topic.name for topic in request.topics] if request.topics is not None else sorted(self.topic_ids)
        return MetadataResponse(
            brokers=[
                MetadataResponse.Broker(node_id=node_id, host=broker.address.host, port=broker.address.port)
                for node_id, broker in self.brokers.items()
            ],
            controller_id=min(self.brokers),
            topics=[self._topic(name or "") for name in wanted],
        )

    def _topic(self, name: str) -> MetadataResponse.Topic:
        partitions = [(at, leader) for at, leader in self.leaders.items() if at.topic == name]
        return MetadataResponse.Topic(
            error_code=0 if partitions else 3,
            name=name,
            topic_id=self.topic_ids.get(name, bytes(16)),
            partitions=[
                MetadataResponse.Topic.Partition(
                    error_code=0 if leader >= 0 else 5,
                    partition_index=at.partition,
                    leader_id=leader,
                    replica_nodes=[leader],
                    isr_nodes=[leader],
                )
                for at, leader in partitions
            ],
        )


def api_versions(**other: tuple[int, int]) -> ApiVersionsResponse:
    """The answer of a broker that serves every API; `other` has the versions of single APIs."""
    ranges = {request.name: (request.min_version, request.max_version) for request in REQUESTS.values()} | other
    keys = {request.name: key for key, request in REQUESTS.items()}
    return ApiVersionsResponse(
        api_keys=[
            ApiVersionsResponse.ApiVersion(api_key=keys[name], min_version=low, max_version=high)
            for name, (low, high) in ranges.items()
        ]
    )


@pytest.fixture
async def start_broker() -> AsyncIterator[Callable[..., Awaitable[ScriptedBroker]]]:
    """Start a scripted broker; the first one has number 1."""
    started: list[ScriptedBroker] = []
    numbers = itertools.count(1)

    async def start() -> ScriptedBroker:
        broker = ScriptedBroker(next(numbers))
        await broker.start()
        started.append(broker)
        return broker

    yield start
    for broker in started:
        await broker.stop()


@pytest.fixture
async def broker(start_broker: Callable[[], Awaitable[ScriptedBroker]]) -> ScriptedBroker:
    return await start_broker()


@pytest.fixture
async def cluster(start_broker: Callable[[], Awaitable[ScriptedBroker]]) -> ScriptedCluster:
    """Three scripted brokers."""
    return ScriptedCluster([await start_broker() for _ in range(3)])


@pytest.fixture
async def client(cluster: ScriptedCluster) -> AsyncIterator[Client]:
    """A client of `cluster`."""
    async with Client(cluster.bootstrap, timeout_ms=20_000) as client:
        yield client


@pytest.fixture
async def connect() -> AsyncIterator[Callable[..., Awaitable[Connection]]]:
    """`Connection.open`; the test's end closes the connections."""
    opened: list[Connection] = []

    async def open_(*args: Any, **kwargs: Any) -> Connection:
        connection = await Connection.open(*args, **kwargs)
        opened.append(connection)
        return connection

    yield open_
    for connection in opened:
        await connection.close()


@pytest.fixture
def coordinate(cluster) -> Callable[..., list[int]]:
    """Make the brokers name these coordinators, one after the other, the last one from then on; return the named
    ones."""

    def make(*node_ids: int) -> list[int]:
        left, named = list(node_ids), []

        def answer(request: FindCoordinatorRequest) -> FindCoordinatorResponse:
            node_id = left.pop(0) if len(left) > 1 else left[0]
            named.append(node_id)
            if node_id not in cluster.brokers:
                found = {"error_code": CoordinatorNotAvailable.code}
            else:
                address = cluster[node_id].address
                found = {"node_id": node_id, "host": address.host, "port": address.port}
            Coordinator = FindCoordinatorResponse.Coordinator
            keys = request.coordinator_keys or [request.key]
            return FindCoordinatorResponse(**found, coordinators=[Coordinator(key=key, **found) for key in keys])

        for broker in cluster.brokers.values():
            broker.answers[FindCoordinatorRequest] = answer
        return named

    return make


@pytest.fixture
def serves() -> Callable[..., ApiVersionsResponse]:
    """The answer of a broker to ApiVersions."""
    return api_versions
