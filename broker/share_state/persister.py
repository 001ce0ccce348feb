"""How a broker reaches the state of share partitions, whichever broker coordinates it (KIP-932)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from ...protocol.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator

if TYPE_CHECKING:
    from ..clock import Clock
    from ..coordinators.coordinator_topic import CoordinatorTopic
    from .share_coordinator import ShareCoordinator
    from .share_partition_state import Run

T = TypeVar("T")

ATTEMPTS = 50
PAUSE_MS = 100
"""How often a coordinator is asked that moves or is being loaded, and the milliseconds between two attempts."""

NO_OFFSET = -1
"""The start offset of a share partition that has not been read yet."""
NO_LEADER_EPOCH = -1
NOT_COUNTED = -1
"""In place of a delivery complete count that is not known."""


class SharePartitionKey(NamedTuple):
    """A partition that a share group reads."""

    group_id: str
    topic_id: bytes
    partition: int


class Summary(NamedTuple):
    """The state of a share partition, without its batches."""

    state_epoch: int
    leader_epoch: int
    """-1 if no leader has read or written it."""
    start_offset: int
    """NO_OFFSET until a leader has written one, and for a share partition that there is not."""
    delivery_complete_count: int
    """Offsets from the start offset on whose delivery has ended (KIP-1226); NOT_COUNTED if that is not known."""


class StoredState(NamedTuple):
    """The state of a share partition, for its leader."""

    state_epoch: int
    start_offset: int
    """NO_OFFSET until a leader has written one."""
    runs: Collection[Run]


class SharePeer(Protocol):
    """A broker of the cluster, as the persister uses it."""

    @property
    def share_coordinator(self) -> ShareCoordinator: ...


class Persister:
    """The states of all share partitions, as one broker reaches them. Belongs to the broker's loop.

    While the coordinator of a state moves or is being loaded, its methods wait and try again. They raise what those of
    `ShareCoordinator` do.
    """

    def __init__(self, topic: CoordinatorTopic, clock: Clock, peer: Callable[[int], SharePeer | None]) -> None:
        """`peer` gives the live broker with a node id, which may be this one."""
        self._topic = topic
        self._clock = clock
        self._peer = peer
        self._pauses: set[asyncio.Future[None]] = set()
        self._is_closed = False

    def close(self) -> None:
        """Try nothing again from now on."""
        self._is_closed = True
        for pause in self._pauses:
            _end(pause)

    async def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> None:
        """Begin the state of a share partition, or begin it anew."""
        await self._ask(key, lambda coordinator: coordinator.initialize(key, state_epoch, start_offset))

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> StoredState:
        """The state, for the leader of this epoch."""
        return await self._ask(key, lambda coordinator: coordinator.read(key, leader_epoch))

    async def write(
        self,
        key: SharePartitionKey,
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        runs: Collection[Run],
    ) -> None:
        """Write batches over the state."""
        await self._ask(
            key,
            lambda coordinator: coordinator.write(
                key,
                state_epoch=state_epoch,
                leader_epoch=leader_epoch,
                start_offset=start_offset,
                delivery_complete_count=delivery_complete_count,
                runs=runs,
            ),
        )

    async def summary(self, key: SharePartitionKey, leader_epoch: int) -> Summary:
        """The state, without batches."""
        return await self._ask(key, lambda coordinator: coordinator.summary(key, leader_epoch))

    async def delete(self, key: SharePartitionKey) -> None:
        """Delete the state, if there is one."""
        await self._ask(key, lambda coordinator: coordinator.delete(key))

    async def _ask(self, key: SharePartitionKey, ask: Callable[[ShareCoordinator], Awaitable[T]]) -> T:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await ask(self._coordinator(key))
            except (CoordinatorNotAvailable, CoordinatorLoadInProgress, NotCoordinator):
                if attempt < ATTEMPTS and not self._is_closed:
                    await self._pause()
                if attempt == ATTEMPTS or self._is_closed:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def _pause(self) -> None:
        pause: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self._clock.call_later(PAUSE_MS, partial(_end, pause), liveness=True)
        self._pauses.add(pause)
        try:
            await pause
        finally:
            self._pauses.discard(pause)
            timer.cancel()

    def _coordinator(self, key: SharePartitionKey) -> ShareCoordinator:
        """The coordinator of a state. Raises CoordinatorNotAvailable."""
        from .share_coordinator import coordinator_key

        node_id = self._topic.coordinator_of(coordinator_key(key))
        peer = self._peer(node_id)
        if peer is None:
            raise CoordinatorNotAvailable(f"broker {node_id}, which coordinates the share partition, is away")
        return peer.share_coordinator


def _end(pause: asyncio.Future[None]) -> None:
    if not pause.done():
        pause.set_result(None)
