"""Members of a share group (KIP-932), and what they are promised: what one of them has accepted comes to none again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kmini.client.errors import check
from kmini.protocol.errors import (
    NONE,
    FencedMemberEpoch,
    GroupIdNotFound,
    InvalidRecordState,
    KafkaError,
    UnknownMemberId,
)
from kmini.protocol.messages.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from kmini.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from kmini.protocol.messages.share_fetch import AcknowledgementBatch, ShareFetchRequest
from kmini.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kmini.protocol.records.batch import iter_batches
from kmini.protocol.records.batch_records import decode_records
from kmini.protocol.topics import CONSUMER_OFFSETS, TopicPartition
from support.simulation.actor import Actor
from support.simulation.world import TOPIC, Violation, World

GROUP = "sharers"
MOST_DELIVERIES = 10
SETTINGS = {
    "group.share.record.lock.duration.ms": "15000",
    "group.share.delivery.count.limit": str(MOST_DELIVERIES),
    "share.coordinator.state.topic.num.partitions": "2",
}
GROUP_SETTINGS = {"share.auto.offset.reset": "earliest"}
ACCEPT, RELEASE, REJECT = 1, 2, 3
DONE = (ACCEPT, REJECT)
"""After these a record is not delivered again."""


class Shared:
    """What the members of the group know together."""

    def __init__(self, partitions: Sequence[TopicPartition]) -> None:
        self.done: dict[TopicPartition, dict[int, int]] = {one: {} for one in partitions}
        """The offsets for which ACCEPT or REJECT was acknowledged, with the place in which they were, of all."""
        self.delivered: dict[TopicPartition, set[int]] = {one: set() for one in partitions}
        self.unanswered = 0
        """Fetches whose answer did not come: the broker counts their records as delivered."""
        self.lags = dict.fromkeys(partitions, -1)
        """As the group's coordinator tells them, without records that were deleted since its state was written: they
        count until the next write."""
        self._place = 0

    def now(self) -> int:
        """The place of the next one that is done."""
        return self._place

    def finish(self, name: str, partition: TopicPartition, offset: int) -> None:
        """Raises Violation if that was done before."""
        if offset in self.done[partition]:
            raise Violation(f"{name}: {partition} offset {offset} was accepted or rejected before")
        self.done[partition][offset] = self._place
        self._place += 1

    def deliver(self, name: str, partition: TopicPartition, offset: int, asked: int | None) -> None:
        """`asked` is the place at the time of the question; None where the broker may not know what has happened.
        Raises Violation."""
        if asked is not None and self.done[partition].get(offset, asked) < asked:
            raise Violation(f"{name}: {partition} offset {offset} is delivered, and was accepted or rejected before")
        self.delivered[partition].add(offset)


class Acquired(NamedTuple):
    """What a member has been given of a partition."""

    partition: TopicPartition
    first: int
    last: int


class ShareMember(Actor):
    """Heartbeats, acquires records, accepts most of them, releases or rejects others, and forgets some. Sometimes it
    leaves."""

    def __init__(self, name: str, world: World, shared: Shared) -> None:
        super().__init__(name, world)
        self._shared = shared
        self._epoch = 0
        self._assigned: list[TopicPartition] = []
        self._sessions: dict[int, int] = {}
        """The epoch of the next request of each share session, by broker."""

    async def act(self) -> None:
        chance = self.random.random()
        if self._epoch and chance < 0.02:
            await self._leave()
        elif not self._assigned or chance < 0.3:
            await self.beat()
        else:
            await self._share(is_willing=False)

    async def finish(self) -> None:
        """Be a member that accepts all, and look how much is left."""
        await self.beat()
        for _ in range(10):
            if self._assigned:
                await self._share(is_willing=True)
        try:
            await self._look()
        except KafkaError as error:
            self._forgive(error)

    def _forgive(self, error: KafkaError) -> None:
        """Raises Violation for an error that is not to come."""
        self._leaders.clear()
        if not error.retriable:
            raise Violation(f"{self.name}: {error!r}") from error

    # --- the group

    async def beat(self) -> None:
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.name, member_epoch=self._epoch, subscribed_topic_names=[TOPIC]
        )
        try:
            response = await self._heartbeat(request)
        except (FencedMemberEpoch, UnknownMemberId, GroupIdNotFound):
            self._epoch, self._assigned = 0, []
        except KafkaError as error:
            self._forgive(error)
        else:
            self._epoch = response.member_epoch
            if response.assignment is not None:
                assigned = [number for topic in response.assignment.topic_partitions for number in topic.partitions]
                partitions = [TopicPartition(TOPIC, number) for number in sorted(assigned)]
                if partitions != self._assigned:
                    self.world.history.say(f"{self.name} is assigned {assigned} in epoch {self._epoch} of {GROUP}")
                self._assigned = partitions

    async def _leave(self) -> None:
        request = ShareGroupHeartbeatRequest(group_id=GROUP, member_id=self.name, member_epoch=-1)
        self._epoch, self._assigned = 0, []
        self._sessions.clear()
        await self.hang_up()
        try:
            await self._heartbeat(request)
        except KafkaError:
            return  # the session ends, if the coordinator does not know

    async def _heartbeat(self, request: ShareGroupHeartbeatRequest) -> Any:
        response = await self.ask(self.coordinator(CONSUMER_OFFSETS, GROUP), request)
        check(response.error_code, response.error_message)
        return response

    async def _look(self) -> None:
        Group = DescribeShareGroupOffsetsRequest.Group
        request = DescribeShareGroupOffsetsRequest(groups=[Group(group_id=GROUP, topics=None)])
        response = await self.ask(self.coordinator(CONSUMER_OFFSETS, GROUP), request)
        (group,) = response.groups
        check(group.error_code, group.error_message)
        for topic in group.topics:
            for answered in topic.partitions:
                check(answered.error_code, answered.error_message)
                partition = TopicPartition(topic.topic_name, answered.partition_index)
                offsets = self.world.cluster.replica_offsets(partition)[self.world.cluster.state(partition).leader]
                deleted = offsets.log_start_offset - answered.start_offset
                self._shared.lags[partition] = max(answered.lag - max(deleted, 0), min(answered.lag, 0))

    # --- records

    async def _share(self, *, is_willing: bool) -> None:
        node_id = -1
        try:
            partition = self.random.choice(self._assigned)
            node_id = self.leader(partition)
            for acquired in await self._acquire(node_id, partition):
                kind = ACCEPT if is_willing else self.random.choice((ACCEPT, ACCEPT, ACCEPT, RELEASE, REJECT, None))
                if kind is not None:
                    await self._acknowledge(node_id, acquired, kind)
        except InvalidRecordState:
            return  # the lock has ended, or another leader does not know of it
        except KafkaError as error:
            self._sessions.pop(node_id, None)
            self._forgive(error)

    async def _acquire(self, node_id: int, partition: TopicPartition) -> list[Acquired]:
        Topic = ShareFetchRequest.Topic
        epoch = self._sessions.pop(node_id, 0)
        request = ShareFetchRequest(
            group_id=GROUP,
            member_id=self.name,
            share_session_epoch=epoch,
            max_wait_ms=20,
            min_bytes=1,
            max_records=self.random.choice((1, 10, 100)),
            batch_size=self.random.choice((1, 10)),
            share_acquire_mode=self.random.choice((0, 1)),
            topics=[
                Topic(
                    topic_id=self.world.topic_id(TOPIC),
                    partitions=[Topic.Partition(partition_index=partition.partition, acknowledgement_batches=[])],
                )
            ],
            forgotten_topics_data=[],
        )
        asked, lives = self._shared.now(), self.world.lives(node_id)
        try:
            response = await self.ask(node_id, request)
        except KafkaError:
            self._shared.unanswered += 1
            raise
        check(response.error_code, response.error_message)
        self._sessions[node_id] = epoch + 1
        found = []
        error_code, error_message = NONE, None
        for topic in response.responses:
            for answered in topic.partitions:
                if answered.error_code:
                    error_code, error_message = answered.error_code, answered.error_message
                where = TopicPartition(TOPIC, answered.partition_index)
                found += [Acquired(where, each.first_offset, each.last_offset) for each in answered.acquired_records]
                self._take(where, answered, asked if self.world.has_stayed(node_id, lives) else None)
        if not found:
            check(error_code, error_message)
        return found

    def _take(self, partition: TopicPartition, answered: Any, asked: int | None) -> None:
        acquired = {
            offset for each in answered.acquired_records for offset in range(each.first_offset, each.last_offset + 1)
        }
        for offset in acquired:
            self._shared.deliver(self.name, partition, offset, asked)
        for position, header in iter_batches(answered.records or b""):
            if header.is_control:
                continue
            for record in decode_records(answered.records, position, header):
                if record.offset in acquired:
                    assert record.value is not None
                    self.world.promises.delivered(partition, record.offset, record.value)

    async def _acknowledge(self, node_id: int, acquired: Acquired, kind: int) -> None:
        Topic = ShareAcknowledgeRequest.Topic
        partition, first, last = acquired
        batch = AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[kind])
        epoch = self._sessions.pop(node_id)
        request = ShareAcknowledgeRequest(
            group_id=GROUP,
            member_id=self.name,
            share_session_epoch=epoch,
            topics=[
                Topic(
                    topic_id=self.world.topic_id(TOPIC),
                    partitions=[Topic.Partition(partition_index=partition.partition, acknowledgement_batches=[batch])],
                )
            ],
        )
        response = await self.ask(node_id, request)
        check(response.error_code, response.error_message)
        self._sessions[node_id] = epoch + 1
        answered = response.responses[0].partitions[0]
        check(answered.error_code, answered.error_message)
        if kind in DONE:
            self.world.history.say(f"{self.name}: {partition} {first} to {last} are done")
            for offset in range(first, last + 1):
                self._shared.finish(self.name, partition, offset)


def is_at_the_end(shared: Shared, world: World) -> bool:
    """Whether the group has come to the end of each partition. A lag that leaves out what was deleted is a lower bound:
    some of that was done before. Where nothing was ever acquired the lag stays -1, as in Apache Kafka."""
    for partition, lag in shared.lags.items():
        begin = world.promises.asked_to_delete[partition]
        has_records = any(offset >= begin for offset in world.promises.acknowledged[partition])
        if lag > 0 or (lag < 0 and has_records):
            return False
    return True


def not_delivered(shared: Shared, world: World) -> dict[TopicPartition, list[int]]:
    """The offsets of acknowledged records that came to no member; empty if answers were lost as often as a record is
    delivered."""
    if shared.unanswered >= MOST_DELIVERIES:
        return {}
    missing = {}
    for partition, values in world.promises.acknowledged.items():
        below = world.promises.asked_to_delete[partition]
        offsets = [offset for offset in values if offset >= below and offset not in shared.delivered[partition]]
        if offsets:
            missing[partition] = offsets
    return missing
