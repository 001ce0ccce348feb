"""A broker with share groups (KIP-932), a clock that stands still, and a share coordinator that is a table: members are
single requests.

Requests pass the handlers in the wire format, records are read from the log, and a restart loads them again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, NamedTuple

from kmini.broker.groups.modern import record_format
from kmini.broker.groups.modern.changes import Change
from kmini.broker.groups.share.share_group import SharedTopic, ShareGroup
from kmini.broker.groups.share.state_changes import read_change
from kmini.broker.share_state.persister import NOT_COUNTED, SharePartitionKey, Summary
from kmini.protocol.errors import KafkaError, error_name
from kmini.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from kmini.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from support.broker.asking import ask_handler
from support.broker.consumer_lab import ASSIGNMENT_INTERVAL_MS, Assigned, ConsumerLab


class StatesInMemory:
    """A persister: states in a table."""

    def __init__(self) -> None:
        self.states: dict[SharePartitionKey, Summary] = {}
        self.error: KafkaError | None = None
        """What every call raises."""
        self.is_free = asyncio.Event()
        """Cleared to let calls wait."""
        self.is_free.set()

    async def _wait(self) -> None:
        await self.is_free.wait()
        if self.error is not None:
            raise self.error

    async def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> None:
        await self._wait()
        count = NOT_COUNTED if start_offset < 0 else 0
        self.states[key] = Summary(state_epoch, 0, start_offset, count)

    async def summary(self, key: SharePartitionKey, leader_epoch: int) -> Summary:
        await self._wait()
        return self.states.get(key, Summary(0, -1, -1, NOT_COUNTED))

    async def delete(self, key: SharePartitionKey) -> None:
        await self._wait()
        self.states.pop(key, None)


class ShareAnswer(NamedTuple):
    """The answer to a heartbeat."""

    error: str
    epoch: int
    assigned: Assigned | None
    """None where the answer has no assignment."""
    interval_ms: int
    message: str | None


class ShareLab(ConsumerLab):
    """Asks a broker about the share group "g" unless told otherwise."""

    def __init__(self, *args: Any, **settings: object) -> None:
        super().__init__(*args, **settings)
        self.states = StatesInMemory()
        """Outlasts a restart."""

    async def start(self) -> None:
        await super().start()
        self.groups.share.states.persister = lambda: self.states

    @property
    def group(self) -> ShareGroup:  # type: ignore[override]
        group = self.groups.groups["g"]
        assert isinstance(group, ShareGroup)
        return group

    def in_memory(self) -> dict[str, object]:
        group = self.group
        return {
            "epochs": (group.epoch, group.assignment_epoch, group.assigned_at_ms, group.metadata_hash),
            "state": group.state,
            "members": dict(group.memberships),
            "partitions": dict(group.currents),
            "targets": dict(group.targets),
            "states": tuple(map(dict, group.partition_states)),  # type: ignore[call-overload]  # each is a mapping
        }

    async def beat(  # type: ignore[override]
        self, member_id: str, epoch: int, *, names: Collection[str] | None = None, group: str = "g", **fields: Any
    ) -> ShareAnswer:
        request = ShareGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=None if names is None else [*names],
            **fields,
        )
        answer = await ask_handler(self.broker, request, 1)
        assigned = None
        if answer.assignment is not None:
            assigned = self.by_name({each.topic_id: each.partitions for each in answer.assignment.topic_partitions})
        return ShareAnswer(
            error_name(answer.error_code),
            answer.member_epoch,
            assigned,
            answer.heartbeat_interval_ms,
            answer.error_message,
        )

    async def join(self, member_id: str, *names: str, **fields: Any) -> ShareAnswer:  # type: ignore[override]
        """Join as a member that subscribes to these topics; to "t" if none is named."""
        return await self.beat(member_id, 0, names=names or ("t",), **fields)

    async def settle(self, *member_ids: str, rounds: int = 4) -> dict[str, Assigned]:  # type: ignore[override]
        """Let members send heartbeats as clients do, twice as often as the group may be assigned, until nothing
        changes; return what each has then."""
        for _ in range(rounds):
            end = self.end
            await self.pass_time(ASSIGNMENT_INTERVAL_MS)
            for member_id in member_ids:
                answer = await self.beat(member_id, self.group.current(member_id).epoch)
                assert answer.error == "NONE", answer
            await self.groups.writes_done()
            if self.end == end:
                return {member_id: self.assigned_to(member_id) for member_id in member_ids}
        raise AssertionError(f"after {rounds} rounds the group still changes: {self.types(end)}")

    def far(self) -> dict[str, dict[str, list[int] | None]]:
        """How far the states of the group's partitions are."""

        def numbers(topics: dict[bytes, SharedTopic]) -> dict[str, list[int] | None]:
            return {topic.name: sorted(topic.partitions) for topic in topics.values()}

        states = self.group.partition_states
        return {
            "initializing": numbers(dict(states.initializing)),
            "initialized": numbers(dict(states.initialized)),
            "deleting": dict.fromkeys(states.deleting.values()),
        }

    def stored_states(self) -> dict[tuple[str, int], int]:
        """The start offsets of the states that the share coordinator has, by topic and partition."""
        found = {}
        for key, summary in self.states.states.items():
            topic = self.broker.controller.topic_by_id(key.topic_id)
            found[key.topic_id.hex() if topic is None else topic.name, key.partition] = summary.start_offset
        return found

    async def describe(self, group: str = "g", version: int = 1) -> Any:
        answer = await ask_handler(self.broker, ShareGroupDescribeRequest(group_ids=[group]), version)
        (described,) = answer.groups
        return described

    def changes(self, since: int = 0) -> list[tuple[int, str, Change[ShareGroup] | None]]:  # type: ignore[override]
        found: list[tuple[int, str, Change[ShareGroup] | None]] = []
        for record in self.records(since):
            assert record.key is not None
            key_type, _, name = record_format.decode_key(record.key)
            found.append((key_type, name, None if record.value is None else read_change(key_type, name, record.value)))
        return found
