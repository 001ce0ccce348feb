"""One consumer group of a broker or a cluster: `broker.group("billing")`.

What is told is what the group's coordinator knows, whichever broker that is. Waits end with the change that they wait
for: the coordinator tells each change of a group's state and of its committed offsets (`broker/coordination.py`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Hashable, Iterator, Mapping
from typing import Literal

from kmini.broker.broker import BrokerServer
from kmini.broker.coordination import key_of_group
from kmini.broker.groups.classic.classic_group import ClassicGroup
from kmini.broker.groups.committed_offsets import CommittedOffset
from kmini.broker.groups.consumer.consumer_group import ConsumerGroup
from kmini.broker.groups.group import Committer, Departure
from kmini.broker.groups.group import Group as KnownGroup
from kmini.broker.groups.share.share_group import ShareGroup
from kmini.broker.groups.streams.streams_group import StreamsGroup
from kmini.protocol.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    GroupIdNotFound,
    NonEmptyGroup,
    UnknownMemberId,
)
from kmini.protocol.topics import CONSUMER_OFFSETS, TopicPartition
from kmini.storage.log import PartitionLog
from kmini.storage.timestamp_search import batches_since
from kmini.testkit.argument_checks import ARGUMENTS
from kmini.testkit.contents import shown
from kmini.testkit.descriptions import GroupDescription, SharePartition
from kmini.testkit.group_members import (
    classic_members,
    consumers,
    instances,
    share_partition_keys,
    share_partitions,
    sharers,
)
from kmini.testkit.handle import Awaiting, Blocking, Handle, method, waits_for_clients
from kmini.testkit.operations import Operations
from kmini.testkit.phrases import counted, members_expected, there_is_no
from kmini.testkit.waiting import NotInTime, until

SHOWN = 10
"""Most members, or partitions, in an error message."""

OUTSIDER_VERSION = 9
"""The version of OffsetCommit as which `commit` commits: the first one that tells a missing group."""


class GroupOffsets(dict[TopicPartition, int]):
    """Offsets, or how far they are behind, by topic and partition: `offsets["orders", 0]`."""

    def __getitem__(self, place: tuple[str, int]) -> int:
        return super().__getitem__(TopicPartition(*place))


class GroupOperations:
    """The operations of one group. A method that names a group that does not exist raises GroupIdNotFound, which lists
    the groups; `stable`, `caught_up` and `commit` do not need it."""

    def __init__(self, operations: Operations, group: str) -> None:
        self._operations = operations
        self._name = group

    # --- what is there

    async def describe(self) -> GroupDescription:
        """The kind, state, generation or epochs, protocol and members of the group; of a share group also the records
        in flight. Raises GroupIdNotFound, which lists the groups, CoordinatorNotAvailable and
        CoordinatorLoadInProgress.

        >>> broker.group("billing").commit({("orders", 0): 7})
        >>> str(broker.group("billing").describe())
        'group billing is Empty; it never had a member'
        """
        return self._described(*self._find())

    async def offsets(self) -> GroupOffsets:
        """The committed offsets, by topic and partition: `offsets()["orders", 0]` is the next offset to read.

        The offsets of open transactions do not count yet. Raises GroupIdNotFound, CoordinatorNotAvailable and
        CoordinatorLoadInProgress.

        >>> broker.group("billing").commit({("orders", 0): 7})
        >>> broker.group("billing").offsets()["orders", 0]
        7
        """
        return _committed(self._find()[1])

    async def lag(self) -> GroupOffsets:
        """How far the committed offsets are behind the high watermark, by topic and partition, as Kafka's tools tell
        it: transaction markers count.

        It has the partitions with a committed offset, and all partitions of the topics that members subscribe to; of
        those without a committed offset everything is behind. A share group has the partitions that it has begun to
        read, and the records there whose delivery has not ended. Raises GroupIdNotFound, CoordinatorNotAvailable and
        CoordinatorLoadInProgress.

        >>> for value in (b"one", b"two", b"three"):
        ...     _ = orders.produce(value, partition=0)
        >>> broker.group("billing").commit({("orders", 0): 1})
        >>> broker.group("billing").lag()["orders", 0]
        2
        """
        _, group = self._find()
        if isinstance(group, ShareGroup):
            return GroupOffsets((one.partition, one.lag) for one in self._shared(group) if one.lag is not None)
        committed = _committed(group)
        topics = {place.topic for place in committed} | (group.subscribed_topics() or set())
        return GroupOffsets(
            (log.topic_partition, max(log.high_watermark - committed.get(log.topic_partition, log.log_start_offset), 0))
            for topic in sorted(topics)
            for log in self._operations.logs(topic)
            if log.topic_partition in committed or topic in (group.subscribed_topics() or ())
        )

    async def departures(self) -> tuple[Departure, ...]:
        """The last members that have gone, for the failure report. Raises GroupIdNotFound."""
        return self._find()[1].departures

    # --- waiting

    @waits_for_clients
    async def stable(self, members: int | None = None, *, timeout_ms: int = 10_000) -> GroupDescription:
        """Wait until the group is Stable with this many members, or with any; return its description. With `members=0`
        wait until it has none.

        A Stable group has an assignment. A consumer that begins at the end of a partition (`auto.offset.reset=latest`)
        still asks for that end afterwards: records that are written before are not for it. The group need not exist
        yet. Raises RequestTimedOut, which is an AssertionError as well and tells what was there.

        >>> broker.group("billing").stable(members=0).state
        'Dead'
        """
        if await until(self._operations, lambda: self._is_stable(members), self._keys, timeout_ms):
            return self._described(*self._find()) if members != 0 else self._described_or_missing()
        raise NotInTime(f"{self._status()} (after {timeout_ms} ms; expected: Stable, {members_expected(members)})")

    def _is_stable(self, members: int | None) -> bool:
        try:
            _, group = self._find()
        except GroupIdNotFound:
            return members == 0
        except (CoordinatorNotAvailable, CoordinatorLoadInProgress):
            return False
        if members == 0:
            return group.is_empty
        return group.is_stable and members in (None, len(group.members))

    @waits_for_clients
    async def caught_up(self, topic: str, *, timeout_ms: int = 10_000) -> None:
        """Wait until the group has committed an offset behind every record of a topic that a consumer at
        `read_committed` gets. Transaction markers, and records of aborted and open transactions, do not count. A share
        group is waited for until it has no lag.

        Neither need exist yet; a topic without records is caught up with. Raises RequestTimedOut, which is
        an AssertionError as well and tells how far the group is.

        >>> _ = orders.produce(b"one", partition=0)
        >>> broker.group("billing").commit({("orders", 0): 1})
        >>> broker.group("billing").caught_up("orders")
        """
        if not await until(
            self._operations, lambda: self._is_caught_up(topic), lambda: self._keys_with(topic), timeout_ms
        ):
            raise NotInTime(f"{self._progress(topic)} (after {timeout_ms} ms)")

    def _is_caught_up(self, topic: str) -> bool:
        logs = self._operations.logs(topic)
        return bool(logs) and not any(map(self._left, logs))

    def _left(self, log: PartitionLog) -> int:
        """How many records a consumer of the group has left."""
        shared = self._shared_partition(log)
        if shared is not None:
            return log.high_watermark - log.log_start_offset if shared.lag is None else shared.lag
        position = self._position(log)
        if position >= log.last_stable_offset:
            return 0
        return sum(1 for _ in shown(log, "committed", since=position))

    def _position(self, log: PartitionLog) -> int:
        shared = self._shared_partition(log)
        if shared is not None:
            return log.log_start_offset if shared.start_offset is None else shared.start_offset
        try:
            committed = self._find()[1].offsets.shown(log.topic_partition)
        except (GroupIdNotFound, CoordinatorNotAvailable, CoordinatorLoadInProgress):
            committed = None
        return log.log_start_offset if committed is None else max(committed.offset, log.log_start_offset)

    def _progress(self, topic: str) -> str:
        logs = self._operations.logs(topic)
        if not logs:
            return self._operations.no_such_topic(topic)
        behind = [
            f"{log.topic_partition} at {self._position(log)} of {log.last_stable_offset}"
            for log in logs
            if self._left(log)
        ]
        left = sum(map(self._left, logs))
        more = f" and {len(behind) - SHOWN} more" if len(behind) > SHOWN else ""
        places = f"{', '.join(behind[:SHOWN])}{more}"
        return f"{counted(left, 'record')} of {topic} left to commit: {places}; {self._status()}"

    def _keys(self) -> Collection[Hashable]:
        return [key_of_group(self._name), CONSUMER_OFFSETS]

    def _keys_with(self, topic: str) -> Collection[Hashable]:
        logs = [log.topic_partition for log in self._operations.logs(topic)]
        group = self._share_group()
        shared = share_partition_keys(self._operations.running, group) if group is not None else ()
        return [*self._keys(), topic, *logs, *shared]

    # --- changes

    async def rebalance(self) -> None:
        """Have all members join again, as if one had come or gone: they learn it by their next heartbeat, or poll.
        Returns at once; `stable` waits for the next generation. A rebalance that is in progress goes on. A consumer
        group gets another epoch, and its target assignment is computed anew.

        Raises GroupIdNotFound, UnknownMemberId for a group without members, CoordinatorNotAvailable and
        CoordinatorLoadInProgress.
        """
        broker, group = self._find()
        if not group.members:
            raise UnknownMemberId(f"{self._described(broker, group)}: a rebalance needs members")
        await broker.groups.rebalance(self._name, "a test asked for it")

    async def expel(self, member: str) -> None:
        """Remove a member, named by its member id, client id or instance id, as an administrator does. Its client is
        answered UNKNOWN_MEMBER_ID next, and joins again as a new member (of the consumer protocol: with its member id).

        Raises UnknownMemberId, which lists the members, if none is meant or several are; and GroupIdNotFound,
        CoordinatorNotAvailable and CoordinatorLoadInProgress.
        """
        broker, group = self._find()
        meant = [one for one in group.members.values() if member in (one.member_id, one.instance_id)]
        meant = meant or [one for one in group.members.values() if one.client_id == member]
        if len(meant) != 1:
            which = f"{len(meant)} members have the client id" if meant else "there is no member"
            raise UnknownMemberId(f"{which} {member}; {self._described(broker, group)}")
        await broker.groups.expel(self._name, meant[0].member_id, "a test expelled it")

    async def commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit offsets by topic and partition, as an administrator does: `commit({("orders", 0): 7})`. A group that
        does not exist is created.

        Raises NonEmptyGroup if the group has members, whose own commits would count; UnknownTopicOrPartition;
        CoordinatorNotAvailable and CoordinatorLoadInProgress.

        >>> broker.group("billing").commit({("orders", 0): 7, ("orders", 2): 0})
        >>> broker.groups()
        ['billing']
        """
        some = self._operations.any_broker()
        node_id = some.groups.store.coordinator_of(self._name)  # which creates the topic of groups, as for a client
        groups = self._coordinator(node_id).groups
        groups.store.check(self._name)
        present = groups.groups.get(self._name)
        if present is not None and present.members:
            described = self._described(*self._find())
            raise NonEmptyGroup(f"{described}: members commit themselves, so stop them, or expel them, before")
        changes = groups.store.changes(self._name)
        now_ms = self._operations.clock.now_ms()
        for (topic, partition), offset in sorted(offsets.items()):
            place = self._operations.check_partition(topic, partition)
            topic_id = self._operations.known_topic(topic).id
            changes.set(place, CommittedOffset(offset, -1, "", now_ms, topic_id=topic_id))
        if changes:
            group = groups.group_for_commit(Committer("", None, -1, OUTSIDER_VERSION), changes)
            await groups.commit(group, changes)

    async def reset_offsets(
        self, position: Literal["earliest", "latest"] | int, topic: str | None = None
    ) -> GroupOffsets:
        """Commit the beginning or the end of each partition, or the first record since a time in milliseconds since
        the epoch: of one topic, or of all in which the group has committed. Returns what was committed. `commit` takes
        offsets of their own. A group that does not exist is created, if a topic is given.

        Raises GroupIdNotFound for a group that has committed nothing, where no topic is given; NonEmptyGroup,
        UnknownTopicOrPartition, CoordinatorNotAvailable and CoordinatorLoadInProgress as `commit` does.

        >>> _ = orders.produce(b"one", partition=0)
        >>> broker.group("billing").reset_offsets("latest", "orders")["orders", 0]
        1
        >>> broker.group("billing").reset_offsets("earliest")["orders", 0]
        0
        """
        topics = {place.topic for place in _committed(self._find()[1])} if topic is None else {topic}
        limit = self._operations.any_broker().config.current.kmini_max_decompressed_message_bytes
        found: dict[tuple[str, int], int] = {}
        for name in sorted(topics):
            self._operations.known_topic(name)
            for log in self._operations.logs(name):
                found[log.topic_partition] = _offset_at(log, position, limit)
        await self.commit(found)
        return GroupOffsets((TopicPartition(*place), offset) for place, offset in found.items())

    async def lose_offsets(self, topic: str | None = None) -> None:
        """Delete the committed offsets of the group, of one topic or of all, and those that open transactions commit:
        as if they had expired, although the group may have members. Consumers that run read on where they are; they
        begin where `auto.offset.reset` says when they are assigned their partitions anew, and have not committed again.

        Raises UnknownTopicOrPartition and GroupIdNotFound, which list what there is; CoordinatorNotAvailable and
        CoordinatorLoadInProgress.

        >>> broker.group("billing").commit({("orders", 0): 7})
        >>> broker.group("billing").lose_offsets("orders")
        >>> broker.group("billing").offsets()
        {}
        """
        if topic is not None:
            self._operations.known_topic(topic)
        broker, group = self._find()
        changes = broker.groups.store.changes(self._name)
        for place in {*group.offsets, *group.offsets.pending_partitions()}:
            if topic in (None, place.topic):
                changes.remove(place)
        await broker.groups.commit(group, changes)

    # --- looking it up

    def _coordinator(self, node_id: int) -> BrokerServer:
        for broker in self._operations.running:
            if broker.node_id == node_id:
                return broker
        raise CoordinatorNotAvailable(f"broker {node_id}, which coordinates group {self._name}, does not run")

    def _find(self) -> tuple[BrokerServer, KnownGroup]:
        """The group, and the broker that coordinates it. Raises GroupIdNotFound, CoordinatorNotAvailable,
        CoordinatorLoadInProgress."""
        for broker in self._operations.running:
            if self._operations.has_topic(CONSUMER_OFFSETS) and broker.groups.store.leads(self._name):
                try:
                    return broker, broker.groups.find(self._name)
                except GroupIdNotFound:
                    break
        else:
            if self._operations.has_topic(CONSUMER_OFFSETS):
                raise CoordinatorNotAvailable(f"no broker that runs coordinates group {self._name}")
        raise GroupIdNotFound(there_is_no("group", self._name, self._operations.group_names()))

    def _share_group(self) -> ShareGroup | None:
        """The group, if it is a share group."""
        with contextlib.suppress(GroupIdNotFound, CoordinatorNotAvailable, CoordinatorLoadInProgress):
            group = self._find()[1]
            if isinstance(group, ShareGroup):
                return group
        return None

    def _shared(self, group: ShareGroup) -> Iterator[SharePartition]:
        def log_of(place: TopicPartition) -> PartitionLog | None:
            return next((log for log in self._operations.logs(place.topic) if log.topic_partition == place), None)

        return share_partitions(self._operations.running, group, log_of)

    def _shared_partition(self, log: PartitionLog) -> SharePartition | None:
        """Where the group is in a partition, if it is a share group."""
        group = self._share_group()
        if group is None:
            return None
        unread = SharePartition(log.topic_partition, None, None, ())
        return next((one for one in self._shared(group) if one.partition == log.topic_partition), unread)

    def _status(self) -> str:
        try:
            return str(self._described(*self._find()))
        except (GroupIdNotFound, CoordinatorNotAvailable, CoordinatorLoadInProgress) as error:
            return error.message

    def _described_or_missing(self) -> GroupDescription:
        try:
            return self._described(*self._find())
        except GroupIdNotFound:
            return GroupDescription(self._name, ClassicGroup.group_type, "Dead", 0, None, (), -1)

    def _described(self, broker: BrokerServer, group: KnownGroup) -> GroupDescription:
        if isinstance(group, ConsumerGroup):
            members, assignment_epoch = tuple(consumers(broker, group)), group.assignment_epoch
        elif isinstance(group, ShareGroup):
            members, assignment_epoch = tuple(sharers(broker, group)), group.assignment_epoch
        elif isinstance(group, StreamsGroup):
            members, assignment_epoch = tuple(instances(broker, group)), group.assignment_epoch
        else:
            members, assignment_epoch = tuple(classic_members(group)), None
        return GroupDescription(
            group.group_id,
            group.group_type,
            group.state_name,
            group.generation,
            group.protocol,
            members,
            broker.node_id,
            assignment_epoch,
            tuple(self._shared(group)) if isinstance(group, ShareGroup) else (),
        )


def _offset_at(log: PartitionLog, position: Literal["earliest", "latest"] | int, max_decompressed_bytes: int) -> int:
    """The offset of a position; the end for a time after the last record."""
    if position == "earliest":
        return log.log_start_offset
    if position != "latest":
        for batch in batches_since(log, position):
            found = batch.first_since(position, log.log_start_offset, max_decompressed_bytes)
            if found is not None:
                return min(found.offset, log.high_watermark)
    return log.high_watermark


def _committed(group: KnownGroup) -> GroupOffsets:
    return GroupOffsets(
        (TopicPartition(topic, number), committed.offset)
        for topic, partitions in sorted(group.offsets.shown_by_topic().items())
        for number, committed in sorted(partitions.items())
    )


class _GroupHandle(Handle[GroupOperations]):
    """The methods of `Group` and `AsyncGroup`."""

    def __init__(self, host: Handle[Operations], name: str) -> None:
        """Raises TypeError for a name that is no text."""
        ARGUMENTS["group"]("name", name)
        super().__init__(host._thread, lambda: host._operations.part(GroupOperations, name))
        self._called, self._about = f"group({name!r}).", {"group": name}
        self.name = name

    describe = method(GroupOperations.describe)
    offsets = method(GroupOperations.offsets)
    lag = method(GroupOperations.lag)
    stable = method(GroupOperations.stable)
    caught_up = method(GroupOperations.caught_up)
    rebalance = method(GroupOperations.rebalance)
    expel = method(GroupOperations.expel)
    commit = method(GroupOperations.commit)
    reset_offsets = method(GroupOperations.reset_offsets)
    lose_offsets = method(GroupOperations.lose_offsets)


class Group(_GroupHandle, Blocking[GroupOperations]):
    """One consumer group of a broker or a cluster, which need not exist yet."""


class AsyncGroup(_GroupHandle, Awaiting[GroupOperations]):
    """One consumer group of a broker or a cluster; see Group."""
