"""The brokers of a cluster: leaders, controller and coordinators, a shared connection to each, and retries.

Leaders are looked up once and cached until a broker denies it. `at_leader`, `at_controller`, `at_coordinator` and
`at_broker` retry: after a retriable error they drop the cached broker, pause, look up again and try again, until the
deadline.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from ..protocol.errors import BrokerNotAvailable, KafkaError, LeaderNotAvailable, UnknownTopicOrPartition
from ..protocol.messages.find_coordinator import GROUP, FindCoordinatorRequest, FindCoordinatorResponse
from ..protocol.messages.metadata import MetadataRequest, MetadataResponse
from ..protocol.topics import TopicPartition
from ..protocol.uuids import ZERO_UUID
from .address import Address, Advertised
from .connection import Connection, ConnectionSettings
from .deadline import Backoff, Deadline
from .errors import Disconnected, NoBrokerAnswers, check, error_of

T = TypeVar("T")

UNKNOWN_TOPIC_RETRY_MS = 500
"""Milliseconds for which an unknown topic is looked up again: brokers learn of a new topic at different times."""
CREATION_RETRY_MS = 5_000
"""The same if the request may create the topic: the broker answers before the topic exists."""
REPORT_AFTER_MS = 2_000
"""Milliseconds for which an address fails or stays silent before `on_unreachable` is called; the client still tries."""


class Coordinator(NamedTuple):
    """The coordinator of a group or of a transactional id."""

    node_id: int
    address: Address


class _Opening(NamedTuple):
    """A connection, and the task that connects it."""

    connection: Connection
    connecting: asyncio.Task[None]

    @property
    def is_open(self) -> bool:
        """Whether the set-up steps are done, and the connection has not ended."""
        task = self.connecting
        return task.done() and not task.cancelled() and task.exception() is None and self.connection.is_open


class ClusterConnections:
    """Connections to the brokers of a cluster, from bootstrap addresses on. For one event loop; ends with `close`.

    `on_unreachable` gets a sentence, once for each address, when a broker cannot be reached for REPORT_AFTER_MS.
    """

    def __init__(
        self,
        bootstrap: Sequence[Address],
        settings: ConnectionSettings | None = None,
        on_unreachable: Callable[[str], None] | None = None,
    ) -> None:
        self.settings = settings or ConnectionSettings()
        self._on_unreachable = on_unreachable
        self._advertised: dict[Address, Advertised] = {}
        """Addresses from a broker that are not bootstrap addresses."""
        self._failing_since: dict[Address, float] = {}
        """Monotonic seconds of the first failure to connect, by address; success removes the entry."""
        self._reported: set[Address] = set()
        """Addresses for which `on_unreachable` was called."""
        self.brokers: dict[int, Address] = {}
        """The live brokers by node id, as of the last metadata."""
        self._bootstrap = list(bootstrap)
        self._controller_id = -1
        self._coordinators: dict[tuple[int, str], Coordinator] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._topic_ids: dict[str, bytes] = {}
        self._connections: dict[Address, _Opening] = {}

    async def close(self) -> None:
        """Close the shared connections."""
        openings = list(self._connections.values())
        self._connections.clear()
        for opening in openings:
            opening.connecting.cancel()
        await asyncio.gather(*(opening.connecting for opening in openings), return_exceptions=True)
        for opening in openings:
            await opening.connection.close()

    # --- connections

    async def connection(self, node_id: int, deadline: Deadline) -> Connection:
        """Return the shared connection to a broker. Raises Disconnected."""
        return await self._shared(self._address_of(node_id), deadline)

    async def open_connection(self, node_id: int, deadline: Deadline) -> Connection:
        """Open a connection for the caller alone, for requests that wait at the broker. The caller closes it."""
        opening = self._open(self._address_of(node_id), timeout_ms=deadline.remaining_ms)
        try:
            await self._connected(opening, deadline)
        except BaseException:
            opening.connecting.cancel()
            await asyncio.wait([opening.connecting])
            await opening.connection.close()
            raise
        return opening.connection

    async def any_connection(self, deadline: Deadline) -> Connection:
        """Return a connection to any broker: an open one, or the first that can be made.

        Raises NoBrokerAnswers if the cluster was never reached, and Disconnected if it was.
        """
        for opening in self._connections.values():
            if opening.is_open:
                return opening.connection
        reasons = []
        addresses = list(dict.fromkeys([*self.brokers.values(), *self._bootstrap]))
        for number, address in enumerate(addresses):
            share = Deadline(deadline.remaining_ms / (len(addresses) - number))
            try:
                return await self._shared(address, share)
            except Disconnected as error:
                reasons.append(error.message)
        raise (Disconnected if self.brokers else NoBrokerAnswers)("; ".join(reasons))

    async def _shared(self, address: Address, deadline: Deadline) -> Connection:
        """Return the shared connection to an address; concurrent calls wait for the same one."""
        opening = self._connections.get(address)
        if opening is None or (opening.connecting.done() and not opening.is_open):
            opening = self._connections[address] = self._open(address)
        await self._connected(opening, deadline)
        return opening.connection

    def _open(self, address: Address, *, timeout_ms: float | None = None) -> _Opening:
        """Begin to connect."""
        connection = Connection(address, self.settings.client_id, self._advertised.get(address))
        return _Opening(connection, asyncio.ensure_future(connection.connect(self.settings, timeout_ms=timeout_ms)))

    async def _connected(self, opening: _Opening, deadline: Deadline) -> None:
        """Return once the connection is made. Raises Disconnected, whose message has the origin of the address."""
        connection, connecting = opening
        address = connection.address
        timer = asyncio.get_running_loop().call_later(
            REPORT_AFTER_MS / 1000, lambda: self._report_unreachable(address, connection.silence)
        )
        try:
            await asyncio.wait([connecting], timeout=deadline.remaining_ms / 1000)
            if not connecting.done():
                raise Disconnected(connection.silence)
            connecting.result()
        except Disconnected as error:
            failing_since = self._failing_since.setdefault(address, time.monotonic())
            if address not in self._advertised:
                raise
            message = f"{error.message}; is that broker down, or its advertised.listeners wrong?"
            if (time.monotonic() - failing_since) * 1000 >= REPORT_AFTER_MS:
                self._report_unreachable(address, message)
            raise type(error)(message) from error
        finally:
            timer.cancel()
        self._failing_since.pop(address, None)

    def _report_unreachable(self, address: Address, message: str) -> None:
        if self._on_unreachable is not None and address not in self._reported:
            self._reported.add(address)
            self._on_unreachable(message)

    def _address_of(self, node_id: int) -> Address:
        address = self.brokers.get(node_id)
        if address is None:
            raise Disconnected(f"broker {node_id} is not among the live ones")
        return address

    # --- metadata

    async def refresh(
        self, topics: Iterable[str] | None, deadline: Deadline, *, create_missing: bool = False
    ) -> MetadataResponse:
        """Ask any broker for the metadata of `topics` (None: of all) and cache it. Does not retry."""
        connection = await self.any_connection(deadline)
        asked = None if topics is None else [MetadataRequest.Topic(name=name) for name in topics]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=create_missing)
        response: MetadataResponse = await connection.send(request, timeout_ms=deadline.remaining_ms)
        check(response.error_code)
        self.brokers = {broker.node_id: Address(broker.host, broker.port) for broker in response.brokers}
        self._advertised.clear()
        for node_id, address in self.brokers.items():
            self._advertises(connection, node_id, address)
        self._controller_id = response.controller_id
        for topic in response.topics:
            if topic.name is not None and not topic.error_code:
                self._topic_ids[topic.name] = topic.topic_id
                for partition in topic.partitions:
                    self._leaders[TopicPartition(topic.name, partition.partition_index)] = partition.leader_id
        return response

    def _advertises(self, connection: Connection, node_id: int, address: Address) -> None:
        """Remember the origin of an address, for messages."""
        if address not in self._bootstrap:
            self._advertised[address] = Advertised(node_id, address, connection.address)

    def topic_id(self, topic: str) -> bytes:
        """Return the id of a topic whose leaders were looked up; zeros if the cluster has no ids."""
        return self._topic_ids.get(topic, ZERO_UUID)

    def topic_name(self, topic_id: bytes) -> str:
        """Return the name of a topic with this id; empty if no such topic was looked up."""
        return next((name for name, known in self._topic_ids.items() if known == topic_id), "")

    def forget_leader(self, topic_partition: TopicPartition) -> None:
        """Drop the cached leader of this partition: the next use looks it up."""
        self._leaders.pop(topic_partition, None)

    async def leaders(
        self, partitions: Iterable[TopicPartition], deadline: Deadline, *, create_missing: bool = False
    ) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, KafkaError]]:
        """Return the partitions by leader, and an error for each one without a leader by the deadline.

        One request asks for all unknown leaders. A partition that does not exist, and is not to be created, is an error
        before the deadline. Raises NoBrokerAnswers.
        """
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        errors: dict[TopicPartition, KafkaError] = {}
        backoff = Backoff(deadline)
        retry = Deadline(UNKNOWN_TOPIC_RETRY_MS)
        creation_retry = Deadline(CREATION_RETRY_MS) if create_missing else retry
        wanted = list(partitions)
        while True:
            obstacles = await self._obstacles(wanted, deadline, create_missing)
            for partition in wanted:
                if partition in obstacles:
                    continue
                leader = self._leaders.get(partition, -1)
                if leader >= 0:
                    by_leader[leader].append(partition)
                else:  # another call has just dropped the leader
                    obstacles[partition] = LeaderNotAvailable(f"{partition} has no leader at the moment")
            wanted = []
            for partition, obstacle in obstacles.items():
                lookup = retry if partition.topic in self._topic_ids else creation_retry
                is_unknown = isinstance(obstacle, UnknownTopicOrPartition) and lookup.has_passed
                if obstacle.retriable and not is_unknown:
                    wanted.append(partition)
                else:
                    errors[partition] = obstacle
            if not wanted or not await backoff.pause():
                return by_leader, {**obstacles, **errors}

    async def _obstacles(
        self, partitions: Iterable[TopicPartition], deadline: Deadline, create_missing: bool
    ) -> dict[TopicPartition, KafkaError]:
        """Look up unknown leaders; return an error for each partition that still has none."""
        leaderless = [partition for partition in partitions if self._leaders.get(partition, -1) < 0]
        if not leaderless:
            return {}
        topics = sorted({partition.topic for partition in leaderless})
        try:
            response = await self.refresh(topics, deadline, create_missing=create_missing)
        except KafkaError as error:
            if not error.retriable:
                raise
            return dict.fromkeys(leaderless, error)
        return {
            partition: _why_no_leader(partition, response)
            for partition in leaderless
            if self._leaders.get(partition, -1) < 0
        }

    async def leader_of(
        self, topic_partition: TopicPartition, deadline: Deadline, *, create_missing: bool = False
    ) -> int:
        """Return the node id of the leader. Raises UnknownTopicOrPartition; after the deadline, the last obstacle."""
        by_leader, errors = await self.leaders([topic_partition], deadline, create_missing=create_missing)
        for error in errors.values():
            raise error
        return next(iter(by_leader))

    # --- retries

    async def at_leader(
        self,
        topic_partition: TopicPartition,
        deadline: Deadline,
        attempt: Callable[[Connection], Awaitable[T]],
        *,
        create_missing: bool = False,
    ) -> T:
        """Return what `attempt` returns for the shared connection to the leader; retry after each retriable error.

        After the deadline the last error is raised; any other error is raised at once. An attempt whose effect must not
        happen twice must not raise a retriable error if the effect may have happened.
        """
        backoff = Backoff(deadline)
        while True:
            leader = await self.leader_of(topic_partition, deadline, create_missing=create_missing)
            try:
                return await attempt(await self.connection(leader, deadline))
            except KafkaError as error:
                if not error.retriable or not await backoff.pause():
                    raise
            self.forget_leader(topic_partition)

    async def at_controller(self, deadline: Deadline, attempt: Callable[[Connection], Awaitable[T]]) -> T:
        """Return what `attempt` returns for the shared connection to the controller; retry as in `at_leader`."""
        backoff = Backoff(deadline)
        while True:
            try:
                return await attempt(await self._controller(deadline))
            except KafkaError as error:
                if not error.retriable or not await backoff.pause():
                    raise
            self._controller_id = -1

    async def _controller(self, deadline: Deadline) -> Connection:
        """Return the connection for administrative requests: to the controller, or to any broker if none is named."""
        if self._controller_id not in self.brokers:
            await self.refresh((), deadline)
        if self._controller_id not in self.brokers:
            return await self.any_connection(deadline)
        return await self.connection(self._controller_id, deadline)

    async def at_broker(self, node_id: int, deadline: Deadline, attempt: Callable[[Connection], Awaitable[T]]) -> T:
        """Return what `attempt` returns for the shared connection to this broker; retry as in `at_leader`."""
        backoff = Backoff(deadline)
        while True:
            try:
                if node_id not in self.brokers:
                    await self.refresh((), deadline)
                if node_id not in self.brokers:
                    raise BrokerNotAvailable(f"there is no broker {node_id} among the live ones")
                return await attempt(await self.connection(node_id, deadline))
            except KafkaError as error:
                if not error.retriable or not await backoff.pause():
                    raise

    async def at_every_broker(self, deadline: Deadline, attempt: Callable[[Connection], Awaitable[T]]) -> dict[int, T]:
        """Return what `attempt` returns at each live broker, by node id; retry at each as in `at_leader`."""
        await self.refresh((), deadline)
        node_ids = list(self.brokers)
        answers = await asyncio.gather(*(self.at_broker(node_id, deadline, attempt) for node_id in node_ids))
        return dict(zip(node_ids, answers, strict=True))

    async def at_coordinator(
        self, key: str, deadline: Deadline, attempt: Callable[[Connection], Awaitable[T]], *, key_type: int = GROUP
    ) -> T:
        """Return what `attempt` returns for the shared connection to the coordinator of a group or (key type
        TRANSACTION) of a transactional id; retry as in `at_leader`."""
        backoff = Backoff(deadline)
        while True:
            try:
                coordinator = await self.coordinator_of(key, deadline, key_type=key_type)
                return await attempt(await self._shared(coordinator.address, deadline))
            except KafkaError as error:
                if not error.retriable or not await backoff.pause():
                    raise
            self._coordinators.pop((key_type, key), None)

    async def coordinator_of(self, key: str, deadline: Deadline, *, key_type: int = GROUP) -> Coordinator:
        """Return the coordinator that any broker names. Does not retry."""
        known = self._coordinators.get((key_type, key))
        if known is not None:
            return known
        connection = await self.any_connection(deadline)
        request = FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key])
        response: FindCoordinatorResponse = await connection.send(request, timeout_ms=deadline.remaining_ms)
        found = response.coordinators[0] if response.coordinators else response
        check(found.error_code, found.error_message)
        coordinator = Coordinator(found.node_id, Address(found.host, found.port))
        self._advertises(connection, *coordinator)
        self._coordinators[key_type, key] = coordinator
        return coordinator


def _why_no_leader(topic_partition: TopicPartition, response: MetadataResponse) -> KafkaError:
    """Return the error of a partition that has no leader in the metadata."""
    topic = next((topic for topic in response.topics if topic.name == topic_partition.topic), None)
    if topic is None or topic.error_code == UnknownTopicOrPartition.code:
        return UnknownTopicOrPartition(f"there is no topic {topic_partition.topic}")
    error = error_of(topic.error_code, topic_partition.topic)
    if error is not None:
        return error
    if any(partition.partition_index == topic_partition.partition for partition in topic.partitions):
        return LeaderNotAvailable(f"{topic_partition} has no leader at the moment")
    return UnknownTopicOrPartition(
        f"{topic.name} has no partition {topic_partition.partition}, it has {len(topic.partitions)} of them"
    )
