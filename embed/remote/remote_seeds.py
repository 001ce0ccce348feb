"""Loading records from a file, or from an archive, into the topics of a broker that runs elsewhere."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from kmini.argument_checks import NewTopic
from kmini.client import ConfigResource
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.seeds import fitting_configs

if TYPE_CHECKING:
    from kmini.remote.remote_operations import RemoteOperations


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

    async def append(self, place: TopicPartition, records: list[Record]) -> None:
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
