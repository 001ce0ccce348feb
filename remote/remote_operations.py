"""The operations of a broker that runs elsewhere, by a client: those of `Broker` that Kafka's protocol has.

Names and signatures are those of the operations of a broker (`testkit/operations.py`); a test compares them. Every
coroutine runs on the loop of the client and raises KafkaError.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any

from kmini.broker.reset import ResetReport
from kmini.broker.settings.broker_config import BROKER_KEYS
from kmini.client import Client, ConfigResource
from kmini.client import NewTopic as CreatedTopic
from kmini.client.group_descriptions import DEAD
from kmini.client.produce import record as new_record
from kmini.protocol.errors import RequestTimedOut, TopicAlreadyExists, UnknownTopicOrPartition
from kmini.protocol.messages.metadata import MetadataResponse
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Header
from kmini.protocol.records.record import Record as LogRecord
from kmini.protocol.topics import TopicPartition
from kmini.remote.needs_kmini import Refuse, RefusingTable
from kmini.remote.remote_records import offsets_of, read
from kmini.testkit.argument_checks import Config, NewTopic
from kmini.testkit.contents import Isolation, PartitionOffsets, Record
from kmini.testkit.embedded import BrokerOperations
from kmini.testkit.phrases import there_is_no, there_is_no_partition
from kmini.testkit.record_arguments import Headers
from kmini.testkit.seeds import fitting_configs

POLL_MS = 20
"""Milliseconds between two looks at what a wait is for: the protocol announces nothing."""


class RemoteOperations(RefusingTable):
    """The operations of a broker that runs elsewhere.

    Topics and groups whose names begin with `prefix`, and topics that an operation has created, are the run's own:
    `reset` deletes them, and `topics` lists them. All others are left alone.
    """

    _local = BrokerOperations

    def __init__(self, client: Client, prefix: str, refuse: Refuse) -> None:
        self.client = client
        self.refuse = refuse
        self._prefix = prefix
        self.server = ""
        """The server and its release: "Apache Kafka 4.3"."""
        self.began_s = time.time()
        """When the run began, or was last reset, in seconds since the epoch."""
        self._created: set[str] = set()
        """Topics that were created here, whatever their names."""

    def part(self, table: type, *about: Any) -> Any:
        """The table of a topic, of a group, of the transactions or of the report."""
        from kmini.remote.remote_facts import RemoteReportOperations
        from kmini.remote.remote_group import RemoteGroupOperations
        from kmini.remote.remote_topic import RemoteTopicOperations
        from kmini.remote.remote_transactions import RemoteTransactionOperations

        tables = (RemoteTopicOperations, RemoteGroupOperations, RemoteTransactionOperations, RemoteReportOperations)
        made: Any = next(one for one in tables if one._local is table)
        return made(self, *about)

    # --- topics

    async def create_topic(
        self, name: str, partitions: int = 1, config: Config | None = None, *, replication_factor: int = -1
    ) -> None:
        """See `BrokerOperations.create_topic`."""
        texts: dict[str, str] = dict(config or {})  # type: ignore[arg-type]  # argument_checks made them so
        await self.create(NewTopic(name, partitions, replication_factor, texts))

    async def create_all(self, new_topics: Collection[NewTopic]) -> None:
        """Create these topics. One that exists belongs to another test or another user, and may have other partitions
        and records. Raises TopicAlreadyExists."""
        for topic in new_topics:
            try:
                await self.create(topic)
            except TopicAlreadyExists:
                raise TopicAlreadyExists(
                    f"topic {topic.name} exists already: another test, another worker or another user created it. Give"
                    " the topics of this test names of their own (kafka_topic, kafka_prefix)"
                ) from None

    async def create(self, topic: NewTopic) -> None:
        """Create a topic. Its partitions have leaders when this returns."""
        wanted = CreatedTopic(topic.partitions, topic.replication_factor, topic.configs)
        for error in (await self.client.create_topics({topic.name: wanted})).values():
            if error is not None:
                raise error
        self._created.add(topic.name)

        async def has_leaders() -> bool:
            found = await self.metadata([topic.name])
            return bool(found) and all(partition.leader_id >= 0 for partition in found[0].partitions)

        if not await self.until(has_leaders, self.client.timeout_ms):
            raise RequestTimedOut(f"topic {topic.name} has partitions without a leader")

    async def delete_topic(self, name: str) -> None:
        """See `Operations.delete_topic`."""
        await self.partitions(name)
        await self._delete([name])

    async def _delete(self, names: Collection[str]) -> None:
        present = await self.metadata(names)
        for name, error in (await self.client.delete_topics(names)).items():
            if error is not None and not isinstance(error, UnknownTopicOrPartition):
                raise error
            self._created.discard(name)
        for topic in present:
            for partition in topic.partitions:
                self.client.cluster.forget_leader(TopicPartition(topic.name or "", partition.partition_index))

        async def are_gone() -> bool:
            return not await self.metadata(names)

        await self.until(are_gone, self.client.timeout_ms)

    async def topics(self) -> list[str]:
        """See `Operations.topics`. They are those of this run: those that it has created, and those with its prefix."""
        return sorted(topic.name for topic in await self.metadata(None) if topic.name and self.is_own_topic(topic.name))

    def is_own_topic(self, name: str) -> bool:
        """Whether a topic is of this run: one that it has created, or one with its prefix."""
        return name in self._created or (self._prefix != "" and self.has_prefix(name))

    def has_prefix(self, name: str) -> bool:
        """Whether a group or a transactional id may be of this run: with an empty prefix any may."""
        return name.startswith(self._prefix)

    async def metadata(self, names: Iterable[str] | None) -> list[MetadataResponse.Topic]:
        """The topics that exist, of these or of all."""
        return [topic for topic in (await self.client.metadata(names)).topics if not topic.error_code]

    async def partitions(self, topic: str, partition: int | None = None) -> list[TopicPartition]:
        """All partitions of a topic, or one of them. Raises UnknownTopicOrPartition, which says what exists."""
        found = await self.metadata([topic])
        if not found:
            raise UnknownTopicOrPartition(await self.no_such_topic(topic))
        count = len(found[0].partitions)
        if partition is not None and partition >= count:
            raise UnknownTopicOrPartition(there_is_no_partition(topic, partition, count))
        return [TopicPartition(topic, number) for number in (range(count) if partition is None else [partition])]

    async def no_such_topic(self, name: str) -> str:
        """Say that a topic is missing, and which there are."""
        known = await self.metadata(None)
        return there_is_no("topic", name, (topic.name for topic in known if topic.name and not topic.is_internal))

    # --- records

    async def produce(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int = 0,
        timestamp_ms: int | None = None,
    ) -> int:
        """See `Operations.produce`."""
        await self.create_if_allowed(topic)
        return (await self.append(topic, value, key, headers, partition, timestamp_ms)).offset

    async def create_if_allowed(self, topic: str) -> None:
        """Have the broker create a topic, as for a producer, if it is missing and the broker allows it."""
        if not await self.metadata([topic]):
            await self.client.partitions(topic, create_missing=True)
            self._created.add(topic)

    async def append(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Headers,
        partition: int,
        timestamp_ms: int | None,
    ) -> Record:
        """Append one record, and return it with its place."""
        await self.partitions(topic, partition)
        pairs: tuple[Header, ...] = tuple(headers)  # type: ignore[arg-type]  # argument_checks made them so
        one = new_record(value, key=key, headers=pairs, timestamp_ms=timestamp_ms)
        result = await self.client.produce(topic, partition, [one])
        timestamp = one.timestamp if result.log_append_time_ms < 0 else result.log_append_time_ms
        return Record(result.base_offset, timestamp, key, value, pairs, topic, partition)

    async def records(
        self, topic: str, partition: int | None = None, *, isolation: Isolation = "committed"
    ) -> list[Record]:
        """See `Operations.records`. `isolation="all"` needs kmini."""
        self.check_isolation(isolation)
        return await read(
            self.client, await offsets_of(self.client, await self.partitions(topic, partition)), isolation
        )

    def check_isolation(self, isolation: Isolation) -> None:
        """Refuse an isolation that no consumer has."""
        if isolation == "all":
            self.refuse('records with isolation="all"')

    async def wait_for_records(
        self, topic: str, count: int, *, timeout_ms: int = 10_000, isolation: Isolation = "committed"
    ) -> list[Record]:
        """See `Operations.wait_for_records`."""
        from kmini.remote.remote_topic import RemoteTopicOperations

        wait_for = RemoteTopicOperations(self, topic).wait_for
        return await wait_for(count, timeout_ms=timeout_ms, isolation=isolation)

    async def offsets(self, topic: str, partition: int = 0) -> PartitionOffsets:
        """See `BrokerOperations.offsets`. The log end offset is given as the high watermark."""
        (place,) = await self.partitions(topic, partition)
        return (await offsets_of(self.client, [place]))[place]

    async def delete_records(self, topic: str, offset: int = -1, *, partition: int = 0) -> int:
        """See `Operations.delete_records`."""
        (place,) = await self.partitions(topic, partition)
        result = (await self.client.delete_records_before({place: offset}))[place]
        if result.error is not None:
            raise result.error
        return result.low_watermark

    async def load(self, path: str | os.PathLike[str], *, topic: str | None = None) -> dict[str, int]:
        """See `Operations.load`. A copy of a log directory needs kmini."""
        from kmini.testkit.seeds import load

        return await load(Elsewhere(self), os.fspath(path), topic)

    # --- groups

    async def groups(self) -> list[str]:
        """See `Operations.groups`. They are those of this run: with its prefix; with an empty prefix, all groups."""
        return sorted(filter(self.has_prefix, await self.group_names()))

    async def group_names(self) -> list[str]:
        """The names of all groups of the broker, sorted."""
        return [group.group_id for group in await self.client.list_groups() if group.state != DEAD]

    # --- the run

    async def differences(self, configs: Mapping[str, str]) -> list[str]:
        """The settings of the broker that are not as `configs` says, a phrase for each."""
        return await differences(self.client, configs)

    async def reset(self, *, keep: Collection[str] = ()) -> ResetReport:
        """Delete the topics of this run, and the groups with its prefix that have no members any more.

        Connections stay, so `keep` changes nothing."""
        if names := await self.topics():
            await self._delete(names)
        if self._prefix:
            await self.client.delete_groups(await self.groups())
        self.began_s = time.time()
        return ResetReport([])

    async def until(self, holds: Callable[[], Awaitable[bool]], timeout_ms: int) -> bool:
        """Wait until a condition holds; return False if it does not by then."""
        deadline = time.monotonic() + timeout_ms / 1000
        while not await holds():
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            await asyncio.sleep(min(POLL_MS / 1000, left_s))
        return True


# --- what load brings


class Elsewhere:
    """Fills the topics of a broker that runs elsewhere, as a client does."""

    def __init__(self, operations: RemoteOperations) -> None:
        self._operations = operations
        self._client = operations.client

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def partitions_of(self, topic: str) -> int:
        await self._operations.create_if_allowed(topic)
        return len(await self._operations.partitions(topic))

    async def append(self, place: TopicPartition, records: list[LogRecord]) -> None:
        await self._client.produce_batch(*place, build_batch(records))

    async def topics_among(self, names: Collection[str]) -> list[str]:
        return sorted(topic.name for topic in await self._operations.metadata(names) if topic.name)

    async def create(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        await self._operations.create(NewTopic(topic, partitions, -1, {**configs}))

    async def configure(self, topic: str, configs: Mapping[str, str]) -> None:
        (found,) = await self._operations.metadata([topic])
        fitting = fitting_configs(configs, len(found.partitions[0].replica_nodes))
        resource = ConfigResource.topic(topic)
        present = [one.name for one in await self._client.describe_configs(resource) if one.source == "dynamic-topic"]
        changes = {**dict.fromkeys(present), **fitting}
        for error in (await self._client.alter_configs({resource: changes})).values():
            if error is not None:
                raise error

    async def take_in_logs(self, path: str) -> dict[str, int]:
        self._operations.refuse("load of a log directory")


# --- settings


async def differences(client: Client, configs: Mapping[str, str]) -> list[str]:
    """Compare broker settings with those of any broker; return a phrase for each that differs: "log.retention.hours is
    168, not 24". Raises KafkaError."""
    if not configs:
        return []
    node_id = (await client.metadata([])).brokers[0].node_id
    found = await client.describe_configs(ConfigResource.broker(node_id), [*configs])
    there = {entry.name: "hidden" if entry.is_sensitive else entry.value for entry in found}
    return [
        f"{name} is {_shown(name, there)}, not {wanted}"
        for name, wanted in sorted(configs.items())
        if name not in there or not _are_same(name, wanted, there[name])
    ]


def _shown(name: str, there: Mapping[str, str | None]) -> str:
    return (there[name] or "unset") if name in there else "unknown"


def _are_same(name: str, one: str, other: str | None) -> bool:
    """Whether two texts are one value of a setting: "1000.0" and "1000", "TRUE" and "true"."""
    line = BROKER_KEYS.get(name)
    if line is None:
        return one.strip() == (other or "")
    try:
        return bool(line.parse(one) == line.parse(other or ""))
    except ValueError:
        return False
