"""The members of a group, and the partitions of a share group, as `broker.group("billing").describe()` tells them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from operator import itemgetter

from kmini.broker.broker import BrokerServer
from kmini.broker.groups.classic.classic_group import ClassicGroup
from kmini.broker.groups.classic.member import Member
from kmini.broker.groups.consumer.consumer_group import ConsumerGroup
from kmini.broker.groups.group import Group as KnownGroup
from kmini.broker.groups.share.share_group import ShareGroup
from kmini.broker.groups.streams.endpoints import read_partitions
from kmini.broker.groups.streams.streams_group import StreamsGroup
from kmini.broker.groups.streams.tasks import Tasks
from kmini.broker.share_fetch.share_partition import RecordState
from kmini.broker.share_fetch.share_partition import SharePartition as Window
from kmini.broker.share_state.persister import NO_OFFSET, SharePartitionKey
from kmini.protocol.consumer_protocol import PROTOCOL_TYPE, read_assignment, subscribed_topics
from kmini.protocol.errors import CoordinatorLoadInProgress, MalformedMessage, NotCoordinator
from kmini.protocol.topics import TopicPartition
from kmini.storage.log import PartitionLog
from kmini.testkit.descriptions import GroupMember, InFlightRecords, SharePartition


def classic_members(group: KnownGroup) -> Iterator[GroupMember]:
    """The members, each with the topics that it subscribes to and the partitions that it has."""
    for member in group.members.values():
        topics, assigned = _of_classic(group, member)
        yield GroupMember(
            member.member_id,
            member.client_id,
            member.client_host.removeprefix("/"),
            member.instance_id,
            tuple(sorted(topics)),
            tuple(sorted(assigned)),
        )


def consumers(broker: BrokerServer, group: ConsumerGroup) -> Iterator[GroupMember]:
    """The members of a consumer group, each with what it has and what it is to have."""
    for member_id, member in group.memberships.items():
        current = group.current(member_id)
        yield GroupMember(
            member_id,
            member.client_id,
            member.client_host.removeprefix("/"),
            member.instance_id,
            tuple(sorted(group.topic_names_of(member))),
            _places(broker, current.assigned, current.revoking),
            group.group_type if member.classic is None else ClassicGroup.group_type,
            current.epoch,
            current.state.name,
            _places(broker, group.targets.get(member_id, {})),
            member.topic_regex,
        )


def sharers(broker: BrokerServer, group: ShareGroup) -> Iterator[GroupMember]:
    """The members of a share group, each with what it has and what it is to have."""
    for member_id, member in group.memberships.items():
        current = group.current(member_id)
        yield GroupMember(
            member_id,
            member.client_id,
            member.client_host.removeprefix("/"),
            None,
            tuple(sorted(member.topic_names)),
            _places(broker, current.assigned),
            group.group_type,
            current.epoch,
            current.state.name,
            _places(broker, group.targets.get(member_id, {})),
        )


def share_partitions(
    brokers: Collection[BrokerServer], group: ShareGroup, log_of: Callable[[TopicPartition], PartitionLog | None]
) -> Iterator[SharePartition]:
    """Where a share group is, in the partitions that it reads. `log_of` gives the log of a leader that runs."""
    for key, place in sorted(share_partition_keys(brokers, group).items(), key=itemgetter(1)):
        window, partition_log = _window(brokers, key), log_of(place)
        if window is None:
            yield SharePartition(place, None, None, ())
            continue
        lag = None
        if partition_log is not None:
            start_offset = max(window.start_offset, partition_log.log_start_offset)
            done = sum(len(record) for record in window.records if record.is_done)  # and stored
            lag = max(partition_log.high_watermark - start_offset - done, 0)
        yield SharePartition(place, window.start_offset, lag, tuple(_in_flight(window)))


def share_partition_keys(brokers: Iterable[BrokerServer], group: ShareGroup) -> dict[SharePartitionKey, TopicPartition]:
    """The partitions that a share group reads; without topics that no longer exist."""
    controller = next(iter(brokers)).controller
    return {
        SharePartitionKey(group.group_id, topic_id, number): TopicPartition(topic.name, number)
        for topic_id, topic in group.partition_states.initialized.items()
        if controller.topic_by_id(topic_id) is not None
        for number in topic.partitions
    }


def _window(brokers: Collection[BrokerServer], key: SharePartitionKey) -> Window | None:
    """The records in flight: those of the leader, or as they are stored; None until they were read."""
    for broker in brokers:
        led = broker.coordination.share_partitions.get(key)
        if led is not None and led.partition.is_served and led.window is not None:
            return led.window
    for broker in brokers:
        with contextlib.suppress(NotCoordinator, CoordinatorLoadInProgress):
            state = broker.share_coordinator.state(key)
            if state is not None and state.start_offset != NO_OFFSET:
                return Window(state.state_epoch, state.start_offset, state.runs)
    return None


def _in_flight(window: Window) -> Iterator[InFlightRecords]:
    """What counts: a change that is being stored does not yet."""
    for records in window.records:
        state, member_id = records.state, records.member_id
        if records.before is not None:
            state, member_id = records.before.state, records.before.member_id
        yield InFlightRecords(records.first, records.last, RecordState(state).name, records.count, member_id)


def instances(broker: BrokerServer, group: StreamsGroup) -> Iterator[GroupMember]:
    """The members of a streams group, each with the partitions that its active tasks read and are to read."""
    topics = tuple(sorted(group.subscribed_topics()))
    for member_id, member in group.memberships.items():
        current = group.current(member_id)
        target = group.targets.get(member_id)
        yield GroupMember(
            member_id,
            member.client_id,
            member.client_host.removeprefix("/"),
            member.instance_id,
            topics,
            _read_by(broker, group, current.active, current.revoking_active),
            group.group_type,
            current.epoch,
            current.state.name,
            () if target is None else _read_by(broker, group, target.active),
        )


def _read_by(broker: BrokerServer, group: StreamsGroup, *tasks: Tasks) -> tuple[TopicPartition, ...]:
    """The partitions that these tasks read."""
    if group.topology is None:
        return ()
    count = broker.groups.streams.life.partition_count
    return tuple(
        sorted(
            TopicPartition(topic, number)
            for some in tasks
            for topic, numbers in read_partitions(some, group.topology, count)
            for number in numbers
        )
    )


def _places(broker: BrokerServer, *assignments: Mapping[bytes, Collection[int]]) -> tuple[TopicPartition, ...]:
    """Partitions by topic id as those of topics; without topics that no longer exist."""
    return tuple(
        sorted(
            TopicPartition(topic.name, number)
            for partitions in assignments
            for topic_id, numbers in partitions.items()
            if (topic := broker.controller.topic_by_id(topic_id)) is not None
            for number in numbers
        )
    )


def _of_classic(group: KnownGroup, member: Member) -> tuple[set[str], list[TopicPartition]]:
    topics: set[str] = set()
    assigned: list[TopicPartition] = []
    if group.shown_protocol_type == PROTOCOL_TYPE:
        with contextlib.suppress(MalformedMessage):  # a client may write any bytes there
            for metadata in member.protocols.values():
                topics |= subscribed_topics(metadata)
            for one in read_assignment(member.assignment).assigned_partitions:
                assigned += [TopicPartition(one.topic, number) for number in one.partitions]
    return topics, assigned
