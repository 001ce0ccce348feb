"""A broker with consumer groups (KIP-848) and a clock that stands still: members are single requests.

Requests pass the handlers in the wire format, records are read from the log, and a restart loads them again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from unittest.mock import patch

from kmini.broker.broker import BrokerServer
from kmini.broker.clock import MovableClock
from kmini.broker.controller import topics
from kmini.broker.groups.consumer.consumer_group import ConsumerGroup
from kmini.broker.groups.consumer.state_changes import Change, read_change
from kmini.broker.groups.group_coordinator import GroupCoordinator
from kmini.broker.groups.modern import record_format
from kmini.broker.replication.partition import Partition
from kmini.broker.settings.broker_config import BrokerConfig
from kmini.protocol.errors import NONE, KafkaError, error_name
from kmini.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kmini.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kmini.protocol.messages.describe_configs import GROUP
from kmini.protocol.messages.incremental_alter_configs import SET
from kmini.protocol.records.batch_records import decode_all
from kmini.protocol.records.record import Record
from kmini.protocol.topics import CONSUMER_OFFSETS, TopicPartition
from support.broker.asking import ask_handler
from support.broker.config_requests import alter, change
from support.until import until_async

SESSION_MS = 45_000
REBALANCE_MS = 60_000
ASSIGNMENT_INTERVAL_MS = 1_000
START_MS = 1_800_000_000_000

Assigned = dict[str, list[int]]
"""Partitions by topic name."""


class StillClock(MovableClock):
    """A clock that moves when it is advanced, and never else."""

    def now_ms(self) -> int:
        return START_MS + self._ahead_ms

    def liveness_ms(self) -> int:
        return self._liveness_ahead_ms


class Answer(NamedTuple):
    """The answer to a heartbeat."""

    error: str
    member_id: str | None
    epoch: int
    assigned: Assigned | None
    """None where the answer has no assignment."""
    interval_ms: int
    message: str | None


class ConsumerLab:
    """Asks a broker about the group "g" unless told otherwise. Topics and partitions are given by name."""

    def __init__(self, directory: Path, **settings: object) -> None:
        properties = {name.replace("_", "."): str(value) for name, value in settings.items()}
        own = {"listeners": "PLAINTEXT://127.0.0.1:0", "offsets.topic.num.partitions": "1"}
        self._config = BrokerConfig.parse({**own, **properties})
        self._directory = directory
        self.clock = StillClock()
        self.broker: BrokerServer

    async def start(self) -> None:
        self.broker = await BrokerServer.start(self._config, str(self._directory), clock=self.clock)
        if CONSUMER_OFFSETS not in self.broker.controller.topics:
            topics.create_missing(self.broker, CONSUMER_OFFSETS)

    async def stop(self) -> None:
        if self.broker.server.listeners:
            await self.broker.stop()

    async def restart(self) -> None:
        """Stop the broker, and start another one over the same data."""
        await self.broker.stop()
        await self.start()

    @property
    def groups(self) -> GroupCoordinator:
        return self.broker.groups

    @property
    def group(self) -> ConsumerGroup:
        group = self.groups.groups["g"]
        assert isinstance(group, ConsumerGroup)
        return group

    @property
    def state(self) -> str:
        return self.group.state.value

    @property
    def epochs(self) -> tuple[int, int]:
        """The group epoch and the assignment epoch."""
        return self.group.epoch, self.group.assignment_epoch

    def in_memory(self) -> dict[str, object]:
        """All that a group holds of its records."""
        group = self.group
        targets = {
            member_id: {topic_id: sorted(numbers) for topic_id, numbers in target.items()}
            for member_id, target in group.targets.items()
        }
        return {
            "epochs": (group.epoch, group.assignment_epoch, group.assigned_at_ms, group.metadata_hash),
            "state": group.state,
            "members": dict(group.memberships),
            "assignments": dict(group.currents),
            "targets": targets,
            "expressions": dict(group.expressions),
            "static members": dict(group.static_members),
            "owners": group._owners,
            "subscribers": (group.subscribers, group.expression_subscribers, group.assignor_votes),
        }

    # --- topics

    def add_topics(self, *names: str, partitions: int = 4) -> None:
        for name in names:
            topics.create(self.broker, name, partitions=partitions)

    async def add_partitions(self, name: str, count: int) -> None:
        """Add so many partitions to a topic."""
        await topics.add_partitions(self.broker, self.broker.controller.topics[name], [(1,)] * count)

    def delete_topic(self, name: str) -> None:
        topics.delete(self.broker, name)

    def id_of(self, name: str) -> bytes:
        return self.broker.controller.topics[name].id

    def by_name(self, partitions: Mapping[bytes, Collection[int]]) -> Assigned:
        """Partitions by topic name; a topic that is gone keeps its id."""
        found = {}
        for topic_id, numbers in partitions.items():
            topic = self.broker.controller.topic_by_id(topic_id)
            found[topic_id.hex() if topic is None else topic.name] = sorted(numbers)
        return found

    async def set_group_config(self, name: str, value: str, group: str = "g") -> None:
        assert await alter(ask_handler, self.broker, change(GROUP, group, (name, SET, value))) == [NONE]

    # --- heartbeats

    async def beat(
        self,
        member_id: str,
        epoch: int,
        *,
        owned: Mapping[str, Collection[int]] | None = None,
        names: Collection[str] | None = None,
        regex: str | None = None,
        group: str = "g",
        version: int = 1,
        **fields: Any,
    ) -> Answer:
        """Send a heartbeat, which says that the member owns `owned`, and subscribes to `names` and `regex`."""
        reported = None
        if owned is not None:
            reported = [
                TopicPartitions(topic_id=self.id_of(name), partitions=[*numbers]) for name, numbers in owned.items()
            ]
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=None if names is None else [*names],
            subscribed_topic_regex=regex,
            topic_partitions=reported,
            **fields,
        )
        answer = await ask_handler(self.broker, request, version)
        assigned = None
        if answer.assignment is not None:
            assigned = self.by_name({each.topic_id: each.partitions for each in answer.assignment.topic_partitions})
        return Answer(
            error_name(answer.error_code),
            answer.member_id,
            answer.member_epoch,
            assigned,
            answer.heartbeat_interval_ms,
            answer.error_message,
        )

    async def join(self, member_id: str, *names: str, **fields: Any) -> Answer:
        """Join as a member that subscribes to these topics."""
        wish = {"names": names} if names or "regex" not in fields else {}
        return await self.beat(member_id, 0, **{"rebalance_timeout_ms": REBALANCE_MS, "owned": {}, **wish, **fields})

    async def leave(self, member_id: str, epoch: int = -1, **fields: Any) -> Answer:
        return await self.beat(member_id, epoch, **fields)

    async def settle(self, *member_ids: str, rounds: int = 8) -> dict[str, Assigned]:
        """Let members send heartbeats as clients do, until the group is stable; return what each has then. `rounds` is
        how many heartbeats each may need."""
        has = {member_id: self.assigned_to(member_id) for member_id in member_ids}
        for _ in range(rounds):
            await self.pass_time(ASSIGNMENT_INTERVAL_MS)
            for member_id in member_ids:
                epoch = self.group.current(member_id).epoch
                answer = await self.beat(member_id, epoch, owned=has[member_id])
                assert answer.error == "NONE", answer
                if answer.assigned is not None:
                    has[member_id] = answer.assigned
            if self.state == "Stable":
                return has
        raise AssertionError(f"after {rounds} rounds the group is {self.state}: {has}")

    def assigned_to(self, member_id: str) -> Assigned:
        """What the coordinator has assigned to a member."""
        return self.by_name(self.group.current(member_id).assigned)

    def revoking(self, member_id: str) -> Assigned:
        """What a member has not given up."""
        return self.by_name(self.group.current(member_id).revoking)

    def target_of(self, member_id: str) -> Assigned:
        return self.by_name(self.group.targets.get(member_id, {}))

    async def describe(self, group: str = "g", version: int = 1) -> Any:
        """The description of a group, as the handler answers it."""
        answer = await ask_handler(self.broker, ConsumerGroupDescribeRequest(group_ids=[group]), version)
        (described,) = answer.groups
        return described

    async def pass_time(self, ms: int) -> None:
        """Move both timelines; everything that is due has happened afterwards."""
        await self.clock.advance(ms, liveness=True)
        await self.groups.writes_done()

    # --- records

    @property
    def partition(self) -> Partition:
        """The partition of `__consumer_offsets`."""
        return self.broker.replica_manager.partitions[TopicPartition(CONSUMER_OFFSETS, 0)]

    @property
    def end(self) -> int:
        """The offset of the next record."""
        return self.partition.log.log_end_offset

    def records(self, since: int = 0) -> list[Record]:
        log = self.partition.log
        return decode_all(log.read(since, 1 << 24, limit_offset=log.log_end_offset)) if since < self.end else []

    def changes(self, since: int = 0) -> list[tuple[int, str, Change | None]]:
        """The records from an offset on: their type, member id or expression, and content; None for a tombstone."""
        found: list[tuple[int, str, Change | None]] = []
        for record in self.records(since):
            assert record.key is not None
            key_type, _, name = record_format.decode_key(record.key)
            found.append((key_type, name, None if record.value is None else read_change(key_type, name, record.value)))
        return found

    def types(self, since: int = 0) -> list[tuple[int, str]]:
        """The types of the records from an offset on, with the member id or the expression; tombstones are negative."""
        return [(-kind if change is None else kind, name) for kind, name, change in self.changes(since)]

    def refuse_appends(self, error: KafkaError | None) -> None:
        """Let every append fail before it happens; None ends that."""

        def refuse() -> None:
            assert error is not None
            raise error

        if error is None:
            vars(self.partition).pop("check_min_isr", None)
        else:
            self.partition.check_min_isr = refuse  # type: ignore[method-assign]

    @contextmanager
    def late_replicas(self) -> Iterator[None]:
        """Let no append be replicated before the end."""
        partition = self.partition
        with patch.object(type(partition.log), "update_high_watermark", lambda *_: False):
            yield
        partition._raise_high_watermark(self.end)
        self.broker.replica_manager.offsets_changed(partition.topic_partition)

    async def wait_for_purgatory(self) -> None:
        """Wait until a request waits for the replicas."""
        await until_async(lambda: len(self.broker.purgatory) > 0)


L = TypeVar("L", bound=ConsumerLab)


@asynccontextmanager
async def labs(kind: type[L], directory: Path, *names: str) -> AsyncIterator[Callable[..., Awaitable[L]]]:
    """A maker of labs of this kind with these topics of four partitions; settings are written with underscores for
    dots. They stop in the end."""
    made: list[L] = []

    async def make(**settings: object) -> L:
        place = directory / f"lab-{len(made)}"
        place.mkdir()
        lab = kind(place, **settings)
        await lab.start()
        made.append(lab)
        lab.add_topics(*names)
        return lab

    yield make
    for lab in made:
        await lab.stop()
