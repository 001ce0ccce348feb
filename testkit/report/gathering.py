"""The facts of a broker or a cluster of kmini, gathered at one moment."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from kmini.broker.journal.entries import JournalEntry, JournalReader
from kmini.broker.network.listeners import Endpoint
from kmini.broker.scheduler import Turn
from kmini.protocol.errors import CoordinatorNotAvailable, KafkaError
from kmini.protocol.topics import TopicPartition, is_internal
from kmini.storage.log import PartitionLog
from kmini.testkit.contents import PartitionOffsets, shown
from kmini.testkit.failed_waits import FailedWait
from kmini.testkit.fault_handle import FaultOperations
from kmini.testkit.group_handle import GroupOperations
from kmini.testkit.operations import Operations
from kmini.testkit.report.facts import (
    ClusterFacts,
    Facts,
    FaultFacts,
    GroupFacts,
    PartitionFacts,
    Replicas,
    TopicFacts,
    client_called,
)
from kmini.testkit.transaction_handle import TransactionOperations

if TYPE_CHECKING:
    from kmini.broker.coordinators.coordinator_topic import CoordinatorTopic
    from kmini.broker.faults.active_rules import ActiveRules
    from kmini.broker.journal.request_journal import RequestJournal

MOST_READ = 1_000
"""Most records of a partition that are read, to count them by what became of them."""
MOST_REQUESTS = 3_000
"""The last requests that are looked at."""

T = TypeVar("T")
Made = TypeVar("Made")


async def gather(
    operations: Operations,
    rules: ActiveRules | None = None,
    waits: Collection[FailedWait] = (),
    *,
    most_topics: int | None = None,
    most_requests: int | None = None,
    most_read: int | None = None,
    is_address_known: bool = True,
) -> Facts:
    """The facts of a running broker or cluster, of its fault rules, if a test has made any, and of the calls that
    waited in vain since its start or its last reset. Records and requests are read in turns of the loop, which serves
    clients meanwhile.

    Of more than `most_topics` topics those are chosen that the requests and the groups name, then the first others;
    `most_requests` are the last requests, and `most_read` the last records of each partition, that are looked at, by
    default MOST_REQUESTS and MOST_READ. `is_address_known` says whether anybody was told where the brokers listen."""
    brokers, turn = [*operations.running], Turn()
    journal = brokers[0].services.journal if brokers else None
    requests: list[JournalEntry] = []
    if journal is not None:
        reader = JournalReader(journal, operations.clock.moves)
        last = [*journal.entries][-(most_requests or MOST_REQUESTS) :]
        requests = await _in_turns(last, reader.decoded, turn)
    listeners = [(broker.server, listener) for broker in brokers for listener in broker.server.listeners]
    told = [found for server, listener in listeners if (found := server.advertised.advertised_at(listener)) is not None]
    cluster = _cluster(operations, requests)
    groups = tuple([one async for one in _groups(operations, is_cluster=cluster is not None)])
    asked = _asked_offsets(requests, groups)
    topics = [
        await _topic(operations, name, journal, most_read or MOST_READ, asked, turn)
        for name in _topic_names(operations, most_topics, requests, groups)
        if operations.has_topic(name)  # still
    ]
    return Facts(
        began_s=requests[0].time_ms / 1_000 if requests else 0.0,
        addresses=tuple(broker.address for broker in brokers),
        told=tuple(Endpoint("", host, port).address for host, port in told),
        requests=tuple(requests),
        has_journal=journal is not None,
        lost=0 if journal is None else journal.lost,
        topics=tuple(topics),
        groups=groups,
        transactions=tuple(await TransactionOperations(operations).open()),
        clients=tuple(await operations.clients()),
        faults=() if rules is None else tuple(await _faults(operations, rules)),
        ahead_ms=operations.clock.ahead_ms,
        waits=tuple(wait for wait in waits if wait.ended_s >= operations.began_s),
        cluster=cluster,
        is_address_known=is_address_known,
    )


def _cluster(operations: Operations, requests: Collection[JournalEntry]) -> ClusterFacts | None:
    """What is known of several brokers; None for one."""
    core = operations.core
    if len(core.configs) == 1:
        return None
    names = dict.fromkeys(name for entry in requests for name in entry.transactional_ids)
    found = {
        name: _leader(core.brokers[node_id].transactions.store.topic, name)
        for name in names
        for node_id in [*core.brokers][:1]
    }
    return ClusterFacts(
        numbers=tuple(config.node_id for config in core.configs),
        running=tuple(sorted(core.brokers)),
        events=tuple(core.events),
        partitions=tuple(
            Replicas(TopicPartition(name, number), one.leader, one.replicas, one.isr)
            for name in operations.topic_names()
            if not is_internal(name)
            for number, one in enumerate(operations.known_topic(name).partitions)
        ),
        coordinators={name: broker for name, broker in found.items() if broker is not None},
    )


def _leader(topic: CoordinatorTopic, key: str) -> int | None:
    """The broker that coordinates what has this key; None if none does."""
    try:
        leader = topic.leader_of(key)
    except CoordinatorNotAvailable:
        return None
    return leader if leader >= 0 else None


def _asked_offsets(
    requests: Collection[JournalEntry], groups: Collection[GroupFacts]
) -> dict[TopicPartition, set[int]]:
    """The offsets that groups have committed and clients have asked for, by partition."""
    asked: dict[TopicPartition, set[int]] = {}
    for group in groups:
        for place, offset in group.offsets.items():
            asked.setdefault(place, set()).add(offset)
    for entry in requests:
        for one in entry.partitions if entry.api == "Fetch" else ():
            if one.partition is not None and one.offset is not None:
                asked.setdefault(TopicPartition(one.topic, one.partition), set()).add(one.offset)
    return asked


def _topic_names(
    operations: Operations, most: int | None, requests: Collection[JournalEntry], groups: Collection[GroupFacts]
) -> list[str]:
    """The topics that are looked at, by name."""
    names = [name for name in operations.topic_names() if not is_internal(name)]
    if most is None or len(names) <= most:
        return names
    named = {topic for entry in requests for topic in entry.topics}
    named |= {topic for group in groups for member in group.description.members for topic in member.topics}
    named |= {place.topic for group in groups for place in group.offsets}
    chosen = sorted(names, key=lambda name: name not in named)[:most]
    return sorted(chosen)


async def _topic(
    operations: Operations,
    name: str,
    journal: RequestJournal | None,
    most_read: int,
    asked: Mapping[TopicPartition, Collection[int]],
    turn: Turn,
) -> TopicFacts:
    count = len(operations.known_topic(name).partitions)
    by = ""
    if journal is not None and name in journal.auto_created:
        by = client_called(journal.auto_created[name])
    partitions = await _in_turns(operations.logs(name), lambda log: _partition(log, most_read, asked), turn)
    return TopicFacts(name, count, tuple(partitions), by)


def _partition(log: PartitionLog, most_read: int, asked: Mapping[TopicPartition, Collection[int]]) -> PartitionFacts:
    since = max(log.log_start_offset, log.high_watermark - most_read)
    records = [*islice(shown(log, "uncommitted", since=since), most_read)]
    place = log.topic_partition
    return PartitionFacts.of(place.partition, PartitionOffsets.of(log), records, asked.get(place, ()))


async def _in_turns(items: Iterable[T], make: Callable[[T], Made], turn: Turn) -> list[Made]:
    """What `make` makes of each item, in turns of the loop."""
    made = []
    for item in items:
        made.append(make(item))
        if turn.is_over:
            await turn.next()
    return made


async def _groups(operations: Operations, *, is_cluster: bool) -> AsyncIterator[GroupFacts]:
    for name in operations.group_names():
        group = GroupOperations(operations, name)
        try:
            yield GroupFacts(
                await group.describe(),
                await group.offsets(),
                await group.departures(),
                _leader(operations.any_broker().groups.store.topic, name) if is_cluster else None,
            )
        except KafkaError:  # it is being loaded, or goes at this moment
            continue


async def _faults(operations: Operations, rules: ActiveRules) -> list[FaultFacts]:
    never = await FaultOperations(operations, rules).unhit()
    return [
        FaultFacts(
            active.rule.name,
            active.hits,
            next((text for text in never if text.startswith(f"fault rule {active.rule.name!r} ")), ""),
            active.chance_seed,
        )
        for active in rules.rules
    ]
