"""What the control API can do beside the test kit's own tables: the server, topics and brokers looked at closely."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from kmini.broker.broker import BrokerServer
from kmini.broker.controller.config_changes import Alteration, Change, alter
from kmini.broker.reset import ResetReport
from kmini.broker.scheduler import in_thread
from kmini.broker.settings.setting_descriptions import Setting, broker_settings, topic_settings
from kmini.control.json_types import WrongValue
from kmini.control.problems import without_data_dir
from kmini.protocol.messages.describe_configs import BROKER, DEFAULT_CONFIG, TOPIC
from kmini.protocol.messages.incremental_alter_configs import DELETE, SET
from kmini.protocol.topics import TopicPartition
from kmini.testkit.argument_checks import config as checked_config
from kmini.testkit.client_connections import host_and_port
from kmini.testkit.contents import PartitionOffsets
from kmini.testkit.operations import Operations
from kmini.testkit.topic_handle import TopicOperations, TopicPartitionState

if TYPE_CHECKING:
    from kmini.broker.faults.active_rules import ActiveRules
    from kmini.registry.registry import Registry
    from kmini.storage.log import PartitionLog


class Served(Protocol):
    """What a control server steers: the broker of a process, or its cluster."""

    data_dir: str
    """The absolute path of the data directory. Answers do not have it."""
    kind: Literal["broker", "cluster"]
    registry_port: int | None
    """The port of the schema registry beside it; None without one."""
    registry: Registry | None
    """That schema registry."""
    missing: Sequence[str]
    """What is not done yet of what was asked for at the start: topics, seeds."""

    @property
    def rules(self) -> ActiveRules:
        """The fault rules. They stay in force when a broker starts again."""

    @property
    def is_running(self) -> bool: ...

    @property
    def operations(self) -> Operations:
        """The table of what runs. Raises RuntimeError while nothing does."""

    async def start(self) -> None:
        """Start what was stopped, with its data and on its ports."""

    async def stop(self) -> None:
        """Stop as Kafka does on SIGTERM; the control server goes on."""


class Description(NamedTuple):
    """What a control server steers."""

    kind: str
    """"broker" or "cluster"."""
    version: str
    """The release of kmini."""
    cluster_id: str
    """Empty while nothing runs."""
    addresses: dict[int, str]
    """host:port of each running broker, as clients of its first listener are told, by its number."""
    node_ids: tuple[int, ...]
    """The numbers of all brokers, running or not."""
    ahead_ms: int
    """How far the clock was moved."""
    registry_port: int | None = None
    """The port of the schema registry, at the host of this API; None without one."""


class Readiness(NamedTuple):
    """Whether tests can begin."""

    is_ready: bool
    missing: tuple[str, ...]
    """What is missing, in words."""


class ClockState(NamedTuple):
    """The clock of a broker or a cluster."""

    now_ms: int
    """Log time, in milliseconds since the epoch."""
    ahead_ms: int
    """By how much that is ahead of the wall clock."""
    moves_to_ms: int | None
    """The log time to which the clock is being moved; None if it only runs."""


class SettingState(NamedTuple):
    """A setting and its value."""

    name: str
    value: str | None
    """None if it has none, and in place of a secret or of a path."""
    is_default: bool
    is_read_only: bool
    is_sensitive: bool

    @classmethod
    def of(cls, setting: Setting) -> SettingState:
        return cls(
            setting.name,
            None if setting.is_sensitive or _is_path(setting.name) else setting.value,
            setting.source == DEFAULT_CONFIG,
            setting.is_read_only,
            setting.is_sensitive,
        )


def _is_path(name: str) -> bool:
    """Whether the value of a setting is a path of the broker's file system."""
    return name in ("log.dir", "log.dirs", "metadata.log.dir") or name.endswith(".location")


class SnapshotTaken(NamedTuple):
    """A snapshot, which the data directory has."""

    name: str


class CleanerState(NamedTuple):
    """How dirty the log of a compacted partition is (`storage/cleaner/dirtiness.py`)."""

    partition: TopicPartition
    first_dirty_offset: int
    end_offset: int
    """The offset up to which a pass would clean."""
    clean_bytes: int
    cleanable_bytes: int
    must_clean_bytes: int
    """Bytes that have waited longer than `max.compaction.lag.ms` (KIP-354)."""
    delay_ms: int
    """Milliseconds by which the longest wait exceeds it."""
    dirty_ratio: float
    uncleanable: str
    """Why a pass has failed; empty if none has."""


class PurgatoryState(NamedTuple):
    """The requests of a broker that wait."""

    waiting: int
    """How many operations wait, those of the test kit included."""
    waits_for: dict[str, int]
    """The numbers of clients' requests by what they wait for: "Fetch of orders-0"."""


class SegmentState(NamedTuple):
    """A segment of a partition's log, at its leader."""

    base_offset: int
    next_offset: int
    """An upper bound for the next offset behind it."""
    size_bytes: int
    is_active: bool
    created_ms: int
    largest_timestamp_ms: int


class PartitionSegments(NamedTuple):
    """The log of a partition at its leader."""

    partition: int
    offsets: PartitionOffsets
    size_bytes: int
    segments: tuple[SegmentState, ...]
    cleaner: CleanerState | None
    """None for a topic that is not compacted."""


class TopicDescription(NamedTuple):
    """A topic."""

    name: str
    topic_id: str
    """32 hexadecimal digits."""
    partitions: tuple[TopicPartitionState, ...]
    offsets: dict[int, PartitionOffsets]
    """By partition; those without a leader are missing."""
    size_bytes: int
    """Of the leaders' logs."""
    configs: dict[str, str]
    """The settings that were given to it."""


class ControlOperations:
    """The server, and what concerns its brokers."""

    def __init__(self, served: Served) -> None:
        self._served = served

    # --- the server

    async def describe(self) -> Description:
        """What is managed: a broker or a cluster, its addresses and its brokers."""
        from importlib.metadata import version

        if not self._served.is_running:
            return Description(self._served.kind, version("kmini"), "", {}, (), 0, self._served.registry_port)
        operations = self._served.operations
        controller = operations._controller
        running = sorted(operations.running, key=lambda broker: broker.node_id)
        return Description(
            self._served.kind,
            version("kmini"),
            controller.cluster_id,
            {broker.node_id: address_of(broker) for broker in running},
            tuple(sorted(controller.node_ids)),
            operations.clock.ahead_ms,
            self._served.registry_port,
        )

    async def readiness(self) -> Readiness:
        """Whether the broker, or every broker of the cluster, runs, with the topics and seeds of its start."""
        missing = [*self._served.missing]
        try:
            operations = self._served.operations
            running = {broker.node_id for broker in operations.running}
            missing += [f"broker {number} does not run" for number in sorted(operations._controller.node_ids - running)]
        except RuntimeError as error:
            missing.append(str(error))
        return Readiness(not missing, tuple(missing))

    async def clock(self) -> ClockState:
        """Log time, by how much it is ahead of the wall clock, and to where it is being moved."""
        clock = self._served.operations.clock
        return ClockState(clock.now_ms(), clock.ahead_ms, clock.moves_to_ms)

    async def start(self) -> None:
        """Start the broker or the cluster again after `stop`, with its data and on its ports. Raises RuntimeError if it
        runs."""
        await self._served.start()

    async def stop(self) -> None:
        """Stop the broker or the cluster as Kafka does on SIGTERM. This API goes on."""
        await self._served.stop()

    # --- snapshots and seeds

    async def snapshots(self) -> list[str]:
        """The names of the snapshots, sorted."""
        from kmini.broker.snapshots import names

        return names(self._served.operations.core.data_dir)

    async def snapshot(self, name: str | None = None) -> SnapshotTaken:
        """Save everything: records, topics, groups, producers, transactions, access rules, users, settings, and how far
        the clock is ahead. `restore` brings it back. It replaces a snapshot of the same name; without a name it gets a
        number. Raises SnapshotError, ValueError for a name that is none for a directory, and KafkaStorageError."""
        if name is not None:
            _check_snapshot_name("name", name)
        return SnapshotTaken((await self._served.operations.snapshot(name)).name)

    async def delete_snapshot(self, snapshot: str) -> None:
        """Delete the snapshot of this name. Raises SnapshotError if there is none."""
        from kmini.broker import snapshots

        _check_snapshot_name("snapshot", snapshot)
        await in_thread(partial(snapshots.delete, self._served.operations.core.data_dir, snapshot))

    async def restore(self, snapshot: str, *, keep: Sequence[str] = ()) -> ResetReport:
        """Make everything as it was when the snapshot of this name was taken. Raises SnapshotError if there is none."""
        from kmini.broker import snapshots

        _check_snapshot_name("snapshot", snapshot)
        snapshots.check_exists(self._served.operations.core.data_dir, snapshot)
        return await self._served.operations.restore(snapshot, keep=keep)

    async def seed(self, records: Sequence[Mapping[str, Any]]) -> dict[str, int]:
        """Append records, each an object as `kmini consume --format json` prints it: `topic`, `value`, and if wanted
        `key`, `partition`, `timestamp` and `headers`. Missing topics are created. Returns the number of records by
        topic. Raises SeedError and KafkaError."""
        from kmini.testkit.seeds import Here, load_entries

        return await load_entries(Here(self._served.operations), records)

    # --- brokers

    async def broker_configs(self, broker: int) -> list[SettingState]:
        """The settings of a broker, secrets without their values. Raises BrokerNotRunning."""
        config = self._broker(broker).config.current
        return [SettingState.of(setting) for setting in broker_settings(config) if setting.is_listed]

    async def alter_broker_configs(self, broker: int, changes: Mapping[str, str | int | float | bool | None]) -> None:
        """Change these settings of a broker while it runs; null takes one back. Raises BrokerNotRunning, InvalidConfig
        and InvalidRequest."""
        await _alter(self._broker(broker), BROKER, str(broker), changes)

    async def cleaner(self, broker: int) -> list[CleanerState]:
        """How dirty the logs of compacted partitions are that a broker has. Raises BrokerNotRunning."""
        found = self._broker(broker)
        states = [_cleaner_state(found, log) for log in list(found.logs.logs.values())]
        return [state for state in states if state is not None]

    async def purgatory(self, broker: int) -> PurgatoryState:
        """The requests of a broker that wait. Raises BrokerNotRunning."""
        found = self._broker(broker)
        waits = Counter(
            client.waits_for for client in await self._served.operations.clients() if client.broker == broker
        )
        waits.pop("", None)
        return PurgatoryState(len(found.purgatory), dict(sorted(waits.items())))

    def _broker(self, number: int) -> BrokerServer:
        return self._served.operations.one_broker(number)


class TopicControl:
    """A topic looked at closely. Raises UnknownTopicOrPartition."""

    def __init__(self, operations: Operations, topic: str) -> None:
        self._operations = operations
        self._topic = topic

    async def describe(self) -> TopicDescription:
        """The partitions, offsets, size and settings of the topic."""
        known = self._operations.known_topic(self._topic)
        logs = self._operations.logs(self._topic)
        return TopicDescription(
            self._topic,
            known.id.hex(),
            tuple(await TopicOperations(self._operations, self._topic).partitions()),
            {log.topic_partition.partition: PartitionOffsets.of(log) for log in logs},
            sum(log.size_bytes for log in logs),
            dict(known.configs),
        )

    async def configs(self) -> list[SettingState]:
        """All settings of the topic, those of the broker included."""
        known, config = self._operations.known_topic(self._topic), self._operations.any_broker().config.current
        return [SettingState.of(setting) for setting in topic_settings(known.configs, config) if setting.is_listed]

    async def alter_configs(self, changes: Mapping[str, str | int | float | bool | None]) -> None:
        """Change these settings of the topic; null takes one back. Raises InvalidConfig."""
        await _alter(self._operations.any_broker(), TOPIC, self._topic, changes)

    async def segments(self, partition: int | None = None) -> list[PartitionSegments]:
        """The segments of each partition, or of one, at its leader. Raises LeaderNotAvailable."""
        return [
            PartitionSegments(
                led.topic_partition.partition,
                PartitionOffsets.of(led.log),
                led.log.size_bytes,
                tuple(_segments(led.log)),
                _cleaner_state(broker, led.log),
            )
            for broker, led in self._operations.leaders_of(self._topic, partition)
        ]


def address_of(broker: BrokerServer) -> str:
    """Where clients are told that a broker is."""
    told = broker.server.advertised.advertised_at(broker.server.listeners[0])
    return broker.address if told is None else host_and_port(*told)


def _check_snapshot_name(argument: str, name: str) -> None:
    """Raise WrongValue for what is no name of a directory, such as a path."""
    from kmini.broker.snapshots import check_name

    try:
        check_name(argument, name)
    except ValueError as error:
        raise WrongValue(str(error), f"/{argument}") from None


def _segments(log: PartitionLog) -> list[SegmentState]:
    active = log.segments.active
    return [
        SegmentState(
            one.base_offset, one.next_offset, one.size, one is active, one.created_ms, max(one.largest_timestamp, 0)
        )
        for one in log.segments
    ]


def _cleaner_state(broker: BrokerServer, log: PartitionLog) -> CleanerState | None:
    """How dirty a log is; None if it is not compacted, or cannot be measured."""
    if not log.config.is_compacted:
        return None
    schedule = broker.cleaner.schedule
    found = schedule.measure(log.topic_partition, log, broker.clock.now_ms())
    if found is None:
        return None
    return CleanerState(
        log.topic_partition,
        found.first_dirty_offset,
        found.end_offset,
        found.clean_bytes,
        found.cleanable_bytes,
        found.must_clean_bytes,
        found.delay_ms,
        found.ratio,
        without_data_dir(schedule.uncleanable().get(log.topic_partition, ""), broker.data_dir),
    )


async def _alter(
    broker: BrokerServer, kind: int, name: str, configs: Mapping[str, str | int | float | bool | None]
) -> None:
    texts = checked_config("configs", {key: value for key, value in configs.items() if value is not None})
    changes = [Change(key, DELETE if value is None else SET, texts.get(key)) for key, value in configs.items()]
    (error,) = await alter(
        broker, broker.controller, [Alteration(kind, name, changes)], replaces=False, validate_only=False
    )
    if error is not None:
        raise error
