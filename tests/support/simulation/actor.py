"""A client of a cluster in trouble. It speaks the wire protocol and tries again after every retriable error.

It reads leaders off the controller, which spares it the time of asking brokers for them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from kmini.client.connection import Connection
from kmini.client.errors import check
from kmini.protocol.errors import (
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    InvalidReplicationFactor,  # while no broker is live
    KafkaError,
    NotLeaderOrFollower,
    OutOfOrderSequenceNumber,
)
from kmini.protocol.messages import FetchRequest, FetchResponse, ProduceRequest
from kmini.protocol.topics import TopicPartition
from kmini.protocol.uuids import ZERO_UUID
from support.simulation.invariants import check_now
from support.simulation.world import Violation, World

T = TypeVar("T")
PATIENCE_MS = 1_500
"""Milliseconds that a client waits for an answer before it turns to another broker."""
FETCH_VERSION = 12
"""The last that names topics by name."""
BY_ID = 13
"""The first version of Produce and of Fetch that names topics by id."""
GIVE_UP_S = 60
"""Nothing takes longer than that once nothing harms the cluster any more."""


class Actor:
    """A client: connections of its own, and perseverance."""

    def __init__(self, name: str, world: World) -> None:
        self.name = name
        self.world = world
        self.random = random.Random(f"{world.seed} {name}")
        self._connections: dict[int, Connection] = {}
        self._leaders: dict[TopicPartition, int] = {}

    async def act(self) -> None:
        """Do the next thing."""
        raise NotImplementedError

    async def run(self) -> None:
        try:
            while not self.world.is_over:
                await self.act()
                check_now(self.world)
                await self.world.pause(self.random)
        except Violation as error:
            self.world.history.say(f"!! {self.name}: {error}")
            self.world.history.say(f"!! {self.world.shown()}")
            raise
        finally:
            await self.hang_up()

    async def hang_up(self) -> None:
        for connection in self._connections.values():
            await connection.close()
        self._connections.clear()

    async def ask(
        self, node_id: int, request: Any, version: int | None = None, *, timeout_s: float | None = None
    ) -> Any:
        """Send a request once, and wait for its answer for so long, or as long as the client is patient. Raises
        Disconnected, RequestTimedOut."""
        connection = self._connections.pop(node_id, None)
        if connection is None or not connection.is_open:
            connection = await Connection.open(self.world.addresses[node_id], timeout_ms=PATIENCE_MS)
        try:
            timeout_ms = PATIENCE_MS if timeout_s is None else timeout_s * 1000
            answer = await connection.send(request, version=version, timeout_ms=timeout_ms)
        except BaseException:
            await connection.close()
            raise
        self._connections[node_id] = connection
        return answer

    async def until_it_works(
        self, what: str, attempt: Callable[[], Awaitable[T]], *, may_raise: tuple[type[KafkaError], ...] = ()
    ) -> T:
        """What `attempt` returns, made again after every retriable error. Raises Violation for others, but for those
        that it may raise."""
        began_s = self.world.now_s()
        pause_s = 0.005
        while True:
            try:
                return await attempt()
            except may_raise:
                raise
            except OutOfOrderSequenceNumber as error:
                if not self.world.history.has_deletions:
                    raise Violation(f"{self.name}: {what}: {error!r}") from error
                raise
            except KafkaError as error:
                self._leaders.clear()
                if not error.retriable and not isinstance(error, (ConcurrentTransactions, InvalidReplicationFactor)):
                    raise Violation(f"{self.name}: {what}: {error!r}") from error
                calm_since_s = self.world.calm_since_s
                if calm_since_s is not None and self.world.now_s() > max(began_s, calm_since_s) + GIVE_UP_S:
                    raise Violation(f"{self.name}: {what} does not work for {GIVE_UP_S} s: {error!r}") from error
            await asyncio.sleep(pause_s + self.random.random() * 0.02)
            pause_s = min(pause_s * 1.5, 1)

    def leader(self, partition: TopicPartition) -> int:
        """The leader as of the last error. Raises NotLeaderOrFollower."""
        if partition not in self._leaders:
            leader = self.world.cluster.state(partition).leader
            if leader < 0:
                raise NotLeaderOrFollower("it has no leader")
            self._leaders[partition] = leader
        return self._leaders[partition]

    def coordinator(self, topic: str, key: str) -> int:
        from kmini.broker.coordinators.coordinator_topic import partition_for

        count = len(self.world.cluster.controller.topics[topic].partitions)
        try:
            return self.leader(TopicPartition(topic, partition_for(key, count)))
        except NotLeaderOrFollower as error:
            raise CoordinatorNotAvailable("its partition has no leader") from error

    async def produce(
        self,
        partition: TopicPartition,
        batch: bytes,
        transactional_id: str | None = None,
        *,
        version: int = 11,
        topic_id: bytes | None = None,
        node_id: int | None = None,
        acks: int = -1,
    ) -> int:
        """The base offset. The topic is named by its id, if that is given; the broker is the leader, if no other is
        given. Raises what the broker answers."""
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=PATIENCE_MS,
            topic_data=[
                ProduceRequest.Topic(
                    name=partition.topic,
                    topic_id=topic_id or ZERO_UUID,
                    partition_data=[ProduceRequest.Topic.Partition(index=partition.partition, records=batch)],
                )
            ],
        )
        to = self.leader(partition) if node_id is None else node_id
        response = await self.ask(to, request, version if topic_id is None else BY_ID)
        answer = response.responses[0].partition_responses[0]
        check(answer.error_code, answer.error_message)
        return int(answer.base_offset)

    async def fetch(
        self,
        node_id: int,
        partition: TopicPartition,
        offset: int,
        *,
        is_read_committed: bool = False,
        max_wait_ms: int = 20,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        topic_id: bytes | None = None,
    ) -> FetchResponse.Topic.Partition:
        """What a broker answers about a partition. The topic is named by its id, if that is given. Raises what the
        broker answers about the request."""
        part = FetchRequest.Topic.Partition(
            partition=partition.partition, fetch_offset=offset, partition_max_bytes=max_bytes
        )
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=int(is_read_committed),
            topics=[FetchRequest.Topic(topic=partition.topic, topic_id=topic_id or ZERO_UUID, partitions=[part])],
        )
        response: FetchResponse = await self.ask(node_id, request, FETCH_VERSION if topic_id is None else BY_ID)
        check(response.error_code)
        return response.responses[0].partitions[0]
