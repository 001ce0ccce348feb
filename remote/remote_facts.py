"""What a broker that runs elsewhere tells for the failure report: topics, groups and open transactions of the run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from typing import TYPE_CHECKING

from kmini.protocol.errors import KafkaError
from kmini.protocol.topics import TopicPartition
from kmini.remote.needs_kmini import RefusingTable
from kmini.remote.remote_group import RemoteGroupOperations
from kmini.remote.remote_operations import RemoteOperations
from kmini.remote.remote_records import offsets_of, read
from kmini.remote.remote_transactions import RemoteTransactionOperations
from kmini.testkit.contents import PartitionOffsets, Record
from kmini.testkit.report.facts import Facts, GroupFacts, PartitionFacts, TopicFacts
from kmini.testkit.report.failure_report import failure_report
from kmini.testkit.report_handle import ReportOperations

if TYPE_CHECKING:
    from kmini.broker.faults.active_rules import ActiveRules
    from kmini.testkit.failed_waits import FailedWait

MOST_READ = 200
"""Most records of a partition that are read, to count them by what became of them: they come over the network."""
READ_S = 10
"""Seconds that reading the records of a topic may take; afterwards the report has its offsets only."""


class RemoteReportOperations(RefusingTable):
    """The failure report of a broker that runs elsewhere."""

    _local = ReportOperations

    def __init__(
        self, operations: RemoteOperations, rules: ActiveRules | None, waits: Collection[FailedWait], told_s: float
    ) -> None:
        """`rules` and `told_s` are those of a broker of kmini; here they tell nothing."""
        self._operations = operations
        self._waits = waits

    async def text(self) -> str:
        """The failure report."""
        return failure_report(await gather(self._operations, self._waits))


async def gather(operations: RemoteOperations, waits: Collection[FailedWait] = ()) -> Facts:
    """The facts that requests tell: of the topics, groups and transactions of the run, and of those that the test
    waited for in vain."""
    waits = [wait for wait in waits if wait.ended_s >= operations.began_s]
    groups = [one async for one in _groups(operations, waits)]
    named = {place.topic for group in groups for place in group.offsets}
    named |= {place.topic for group in groups for member in group.description.members for place in member.assignment}
    named |= {wait.topic for wait in waits if wait.topic is not None}
    found = {topic.name or "": len(topic.partitions) for topic in await operations.metadata(None)}
    chosen = [name for name in sorted(found) if operations.is_own_topic(name) or name in named]
    return Facts(
        topics=tuple([await _topic(operations, name, found[name]) for name in chosen]),
        groups=tuple(groups),
        transactions=tuple(await RemoteTransactionOperations(operations).open()),
        waits=tuple(waits),
        elsewhere=operations.server,
    )


async def _topic(operations: RemoteOperations, name: str, count: int) -> TopicFacts:
    places = [TopicPartition(name, number) for number in range(count)]
    try:
        offsets = await offsets_of(operations.client, places)
    except KafkaError:  # a partition has no leader, or the topic goes at this moment
        return TopicFacts(name, count, ())
    records = await _last_records(operations, offsets)
    return TopicFacts(
        name,
        count,
        tuple(
            PartitionFacts.of(
                place.partition, found, [record for record in records if record.partition == place.partition]
            )
            for place, found in offsets.items()
        ),
    )


async def _last_records(
    operations: RemoteOperations, offsets: Mapping[TopicPartition, PartitionOffsets]
) -> list[Record]:
    starts = {place: found.high_watermark - MOST_READ for place, found in offsets.items()}
    try:
        return await asyncio.wait_for(read(operations.client, offsets, "uncommitted", starts), READ_S)
    except (KafkaError, asyncio.TimeoutError):
        return []


async def _groups(operations: RemoteOperations, waits: Collection[FailedWait]) -> AsyncIterator[GroupFacts]:
    waited = {wait.group for wait in waits}
    for name in sorted(await operations.group_names()):
        if operations.has_prefix(name) or name in waited:
            group = RemoteGroupOperations(operations, name)
            try:
                yield GroupFacts(await group.describe(), await group.offsets())
            except KafkaError:  # its members are not told, or it goes at this moment
                continue
