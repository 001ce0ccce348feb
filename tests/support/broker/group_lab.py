"""A group coordinator without a broker: a store that remembers, a clock that can be moved, members that are a call."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

from kmini.broker.clock import MovableClock
from kmini.broker.coordinators.coordinator_topic import AppendedBatch, Applied, KeyValue
from kmini.broker.groups.classic.classic_group import ClassicGroup
from kmini.broker.groups.classic.classic_groups import Syncing
from kmini.broker.groups.classic.group_states import GroupState
from kmini.broker.groups.classic.member import Joining, JoinResult, Leaving, SyncResult
from kmini.broker.groups.committed_offsets import CommittedOffsets
from kmini.broker.groups.group_coordinator import GroupCoordinator
from kmini.broker.groups.group_loader import LoadedGroup
from kmini.broker.groups.group_records import GroupMetadata
from kmini.broker.groups.group_store import GroupStore
from kmini.broker.groups.modern.topic_catalog import Metadata
from kmini.broker.replication.partition import Partition
from kmini.broker.scheduler import run_now
from kmini.broker.settings.broker_config import BrokerConfig
from kmini.protocol.errors import KafkaError, error_name

SESSION_MS = 10_000
REBALANCE_MS = 60_000

NONE = "NONE"


class RememberingStore:
    """In place of `__consumer_offsets`: the last metadata of each group. Can fail, and can be slow."""

    def __init__(self) -> None:
        self.groups: dict[str, GroupMetadata] = {}
        self.writes = 0
        self.failure: KafkaError | None = None
        self.gate: asyncio.Event | None = None
        """Writes end when it is set; without one they end at once."""
        self.topic = SimpleNamespace(forget=lambda number: None)
        self.stored: Mapping[str, GroupMetadata] = {}
        """What `load` finds."""

    def check(self, group_id: str, *, allow_empty: bool = False) -> None:
        pass

    def leads(self, group_id: str) -> bool:
        return True

    def partition_of(self, group_id: str) -> int:
        return 0

    def load(self, partition: object, take: Callable[[str, LoadedGroup], None]) -> Iterator[None]:
        for group_id, metadata in self.stored.items():
            take(group_id, LoadedGroup(metadata, CommittedOffsets()))
            yield

    async def write_group(
        self, group_id: str, metadata: GroupMetadata, applied: Applied | None = None, before: Collection[KeyValue] = ()
    ) -> None:
        await self._write(applied)
        self.groups[group_id] = metadata

    async def write_tombstones(
        self, group_id: str, offsets: CommittedOffsets, tombstones: Collection[KeyValue], applied: Applied | None = None
    ) -> None:
        await self._write(applied)
        self.groups.pop(group_id, None)

    async def _write(self, applied: Applied | None) -> None:
        """Append at once, and replicate when the gate opens. A failure after that is a time-out."""
        self.writes += 1
        if self.gate is None and self.failure is not None:
            raise self.failure
        replicated: list[Callable[[], None]] = []
        if applied is not None:
            applied(cast(AppendedBatch, SimpleNamespace(is_replicated=False, when_replicated=replicated.append)))
        if self.gate is not None:
            await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        for callback in replicated:
            callback()

    async def close(self) -> None:
        pass


class Lab:
    """Asks a coordinator as handlers do, of the group "g" unless told otherwise."""

    def __init__(self, **settings: object) -> None:
        properties = {name.replace("_", "."): str(value) for name, value in settings.items()}
        self.clock = MovableClock()
        self.store = RememberingStore()
        self.coordinator = GroupCoordinator(
            BrokerConfig.parse(properties),
            self.clock,
            cast(GroupStore, self.store),
            cast(Metadata, None),
            cast(Any, None),
        )

    @property
    def group(self) -> ClassicGroup:
        group = self.coordinator.groups["g"]
        assert isinstance(group, ClassicGroup)
        return group

    @property
    def state(self) -> str:
        return self.group.state.value

    def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        instance: str | None = None,
        protocols: Mapping[str, bytes] | None = None,
        version: int = 9,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        protocol_type: str = "consumer",
        client: str = "client",
    ) -> asyncio.Future[JoinResult]:
        joining = Joining(
            member_id=member_id,
            instance_id=instance,
            client_id=client,
            client_host="/192.0.2.1",
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type=protocol_type,
            protocols={"range": b"all"} if protocols is None else protocols,
            takes_member_id=version >= 4,
            skips_assignment=version >= 9,
        )
        return self.coordinator.join(group, joining)

    def sync(
        self,
        member_id: str,
        generation: int | None = None,
        assignments: Mapping[str, bytes] | None = None,
        *,
        group: str = "g",
        instance: str | None = None,
        protocol: tuple[str | None, str | None] = (None, None),
    ) -> asyncio.Future[SyncResult]:
        if generation is None:
            generation = self.coordinator.groups[group].generation
        return self.coordinator.sync(group, Syncing(member_id, instance, generation, *protocol, assignments or {}))

    def heartbeat(
        self, member_id: str, generation: int | None = None, *, group: str = "g", instance: str | None = None
    ) -> str:
        """Send a heartbeat and give the name of the error."""
        if generation is None:
            generation = self.coordinator.groups[group].generation
        try:
            self.coordinator.heartbeat(group, member_id, instance, generation)
        except KafkaError as error:
            return error.kafka_name
        return NONE

    def leave(self, *leaving: str | Leaving, group: str = "g") -> list[str]:
        """Leave, and give the name of each error."""
        given = [Leaving(one) if isinstance(one, str) else one for one in leaving]
        try:
            return [error_name(code) for code in run_now(self.coordinator.leave(group, given)).result()]
        except KafkaError as error:
            return [error.kafka_name] * len(given)

    async def pass_time(self, ms: int = 0) -> None:
        """Move liveness; nothing that is due stays undone."""
        await self.clock.advance(ms, liveness=True)
        await asyncio.sleep(0)

    def load(self, groups: Mapping[str, GroupMetadata]) -> None:
        """Begin with what another coordinator has stored."""
        self.store.stored = groups
        deque(self.coordinator.load(cast(Partition, None)), maxlen=0)

    # --- the usual way

    async def form(self, *names: str, **options: Any) -> dict[str, str]:
        """Members join under these names, static ones where they begin with "static", and get themselves as assignment.
        The ids, by name; the first one leads."""
        waiting = {}
        for name in names:
            waiting[name] = self.join(version=3, client=name, instance=name if is_static(name) else None, **options)
        await self.pass_time(100)  # that of the initial rebalance, which is as long again when others come
        ids = {name: answer.result().member_id for name, answer in waiting.items()}
        await self.synced(ids)
        return ids

    async def leader_and_follower(self, **options: Any) -> tuple[str, str]:
        """Two dynamic members join, and have no assignment yet; returns their ids."""
        waiting = [self.join(version=3, **options) for _ in range(2)]
        await self.pass_time(100)
        leader, follower = (answer.result().member_id for answer in waiting)
        return leader, follower

    async def synced(self, ids: Mapping[str, str]) -> None:
        """Make the group stable, with its own name as the assignment of each member."""
        leader = self.group.leader_id
        for member_id in ids.values():
            if member_id != leader:
                self.sync(member_id)
        assert leader is not None
        self.sync(leader, assignments={member_id: name.encode() for name, member_id in ids.items()})
        assert self.group.state is GroupState.STABLE


def is_static(name: str) -> bool:
    return name.startswith("static")
