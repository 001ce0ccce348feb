"""A broker with streams groups (KIP-1071) and a clock that stands still: members are single requests.

Requests pass the handlers in the wire format, records are read from the log, and a restart loads them again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from kmini.broker.groups.modern import record_format
from kmini.broker.groups.modern.changes import Change
from kmini.broker.groups.streams.state_changes import read_change
from kmini.broker.groups.streams.statuses import Status
from kmini.broker.groups.streams.streams_group import StreamsGroup
from kmini.broker.groups.streams.tasks import Duties
from kmini.protocol.errors import error_name
from kmini.protocol.messages import streams_group_heartbeat as messages
from kmini.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from kmini.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from support.broker.asking import ask_handler
from support.broker.consumer_lab import REBALANCE_MS, ConsumerLab

INITIAL_DELAY_MS = 3_000

Tasks = Mapping[str, Collection[int]]
"""Partitions by subtopology id."""


class StreamsAnswer(NamedTuple):
    """The answer to a heartbeat."""

    error: str
    epoch: int
    active: dict[str, list[int]] | None
    """None where the answer has no tasks."""
    standby: dict[str, list[int]] | None
    statuses: list[str]
    details: list[str]
    endpoint_epoch: int
    endpoints: dict[str, dict[str, list[int]]] | None
    """Active partitions by topic, by host; None where the answer has no endpoints."""
    interval_ms: int
    message: str | None


def subtopology(
    name: str,
    *sources: str,
    keeps: Iterable[str] = (),
    writes: Iterable[str] = (),
    through: Mapping[str, int] | None = None,
    regex: Iterable[str] = (),
    configs: Mapping[str, str] | None = None,
    replicas: int = 0,
    changelog_partitions: int = 0,
) -> messages.Subtopology:
    """A subtopology that reads `sources`, and repartition topics with their given sizes."""
    pairs = [messages.KeyValue(key=key, value=value) for key, value in (configs or {}).items()]
    return messages.Subtopology(
        subtopology_id=name,
        source_topics=[*sources],
        source_topic_regex=[*regex],
        state_changelog_topics=[
            messages.TopicInfo(
                name=topic, partitions=changelog_partitions, replication_factor=replicas, topic_configs=pairs
            )
            for topic in keeps
        ],
        repartition_sink_topics=[*writes],
        repartition_source_topics=[
            messages.TopicInfo(name=topic, partitions=size, replication_factor=replicas, topic_configs=[])
            for topic, size in (through or {}).items()
        ],
        copartition_groups=[],
    )


def topology(*subtopologies: messages.Subtopology, epoch: int = 0) -> StreamsGroupHeartbeatRequest.Topology:
    return StreamsGroupHeartbeatRequest.Topology(epoch=epoch, subtopologies=[*subtopologies])


READS_T = topology(subtopology("0", "t"))
"""One subtopology that reads the topic "t", and keeps nothing."""
COUNTS_T = topology(subtopology("0", "t", keeps=["counts"]))
"""One subtopology that reads the topic "t", and keeps something."""


class StreamsLab(ConsumerLab):
    """Asks a broker about the streams group "g" unless told otherwise."""

    @property
    def group(self) -> StreamsGroup:  # type: ignore[override]
        group = self.groups.groups["g"]
        assert isinstance(group, StreamsGroup)
        return group

    def in_memory(self) -> dict[str, object]:
        group = self.group
        return {
            "epochs": (group.epoch, group.assignment_epoch, group.assigned_at_ms, group.metadata_hash),
            "state": group.state,
            "topology": (group.topology, group.validated_topology_epoch),
            "configs": dict(group.assignment_configs),
            "members": dict(group.memberships),
            "tasks": dict(group.currents),
            "targets": {member_id: duties.as_sets() for member_id, duties in group.targets.items()},
            "owners": (group._active, group._copies),
        }

    async def beat(  # type: ignore[override]
        self, member_id: str, epoch: int, *, owned: Duties | None = None, group: str = "g", **fields: Any
    ) -> StreamsAnswer:
        """Send a heartbeat, which says that the member has the tasks `owned`."""
        if owned is not None:
            roles = ("active_tasks", "standby_tasks", "warmup_tasks")
            fields = {**{role: task_ids(tasks) for role, tasks in zip(roles, owned, strict=True)}, **fields}
        request = StreamsGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            **{"endpoint_information_epoch": -1, **fields},
        )
        answer = await ask_handler(self.broker, request, 0)
        endpoints = answer.partitions_by_user_endpoint
        return StreamsAnswer(
            error_name(answer.error_code),
            answer.member_epoch,
            as_dict(answer.active_tasks),
            as_dict(answer.standby_tasks),
            [Status(status.status_code).name for status in answer.status],
            [status.status_detail for status in answer.status],
            answer.endpoint_information_epoch,
            None
            if endpoints is None
            else {
                each.user_endpoint.host: {part.topic: part.partitions for part in each.active_partitions}
                for each in endpoints
            },
            answer.heartbeat_interval_ms,
            answer.error_message,
        )

    async def join(  # type: ignore[override]
        self, member_id: str, sent: StreamsGroupHeartbeatRequest.Topology = READS_T, **fields: Any
    ) -> StreamsAnswer:
        """Join as a member of this topology, in a process of its own."""
        wish = {"rebalance_timeout_ms": REBALANCE_MS, "process_id": f"p-{member_id}", "client_tags": []}
        return await self.beat(member_id, 0, topology=sent, **{"owned": Duties(), **wish, **fields})

    async def settle(self, *member_ids: str, rounds: int = 8) -> dict[str, Duties]:  # type: ignore[override]
        """Let members send heartbeats as clients do, until the group is stable; return what each has then."""
        has = {member_id: self.tasks_of(member_id) for member_id in member_ids}
        for _ in range(rounds):
            await self.pass_time(INITIAL_DELAY_MS)
            for member_id in member_ids:
                answer = await self.beat(member_id, self.group.current(member_id).epoch, owned=has[member_id])
                assert answer.error == "NONE", answer
                has[member_id] = self.tasks_of(member_id)
            if self.state == "Stable":
                return has
        raise AssertionError(f"after {rounds} rounds the group is {self.state}: {has}")

    def tasks_of(self, member_id: str) -> Duties:
        """The tasks that the coordinator has assigned to a member, without those that it is to give up."""
        assigned = self.group.current(member_id).assigned
        return Duties(*({name: sorted(each) for name, each in tasks.items()} for tasks in assigned))

    def active_of(self, member_id: str) -> dict[str, list[int]]:
        return {name: sorted(each) for name, each in self.group.current(member_id).active.items()}

    def standby_of(self, member_id: str) -> dict[str, list[int]]:
        return {name: sorted(each) for name, each in self.group.current(member_id).standby.items()}

    async def describe(self, group: str = "g", version: int = 0) -> Any:
        answer = await ask_handler(self.broker, StreamsGroupDescribeRequest(group_ids=[group]), version)
        (described,) = answer.groups
        return described

    def changes(self, since: int = 0) -> list[tuple[int, str, Change[StreamsGroup] | None]]:  # type: ignore[override]
        found: list[tuple[int, str, Change[StreamsGroup] | None]] = []
        for record in self.records(since):
            assert record.key is not None
            key_type, _, name = record_format.decode_key(record.key)
            found.append((key_type, name, None if record.value is None else read_change(key_type, name, record.value)))
        return found


def task_ids(tasks: Tasks) -> list[messages.TaskIds]:
    return [messages.TaskIds(subtopology_id=name, partitions=[*each]) for name, each in tasks.items()]


def as_dict(tasks: Iterable[messages.TaskIds] | None) -> dict[str, list[int]] | None:
    return None if tasks is None else {one.subtopology_id: [*one.partitions] for one in tasks}
