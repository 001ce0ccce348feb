"""Members of consumer groups, by the protocol of KIP-848 and by the classic one, and of a streams group (KIP-1071), and
what they are promised: each partition has one owner."""

from __future__ import annotations

import json
from collections.abc import Coroutine
from typing import Any

from kmini.client.errors import check
from kmini.protocol.errors import (
    CoordinatorLoadInProgress,
    FencedInstanceId,
    FencedMemberEpoch,
    GroupIdNotFound,
    IllegalGeneration,
    KafkaError,
    NotCoordinator,
    RebalanceInProgress,
    StaleMemberEpoch,
    UnknownMemberId,
    UnreleasedInstanceId,
)
from kmini.protocol.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from kmini.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kmini.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, TaskIds
from kmini.protocol.topics import CONSUMER_OFFSETS
from support.simulation.actor import Actor
from support.simulation.world import TOPIC, Violation, World, has_rarities

GROUP = "members"
CLASSIC_GROUP = "classic members"
STREAMS_GROUP = "streams"
SUBTOPOLOGY = "0"
JOIN_S = 60
"""So long a member waits in JoinGroup and SyncGroup for the others."""
SESSION_S = 12
OWNED_S = SESSION_S - 0.001
"""So long after it has sent a heartbeat a member owns what it owned: the broker counts whole milliseconds."""
REBALANCE_MS = 600_000
"""Longer than a history: a member that is told to give partitions up, and does not get the answer, loses the others
after this time though it is there. Kafka has it so, and the member cannot know when the time began."""
SETTINGS = {
    "group.consumer.session.timeout.ms": str(SESSION_S * 1000),
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.streams.session.timeout.ms": str(SESSION_S * 1000),
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.heartbeat.interval.ms": "3000",
    "group.streams.min.heartbeat.interval.ms": "1000",
}


class Claims:
    """Which member owns each partition, by its own knowledge, and how long it may think so."""

    def __init__(self) -> None:
        self._until_s: dict[int, dict[str, float]] = {}

    def claim(self, partition: int, name: str, now_s: float, until_s: float) -> None:
        """Raises Violation if another member owns the partition."""
        claims = self._until_s.setdefault(partition, {})
        for other, others_until_s in claims.items():
            if other != name and others_until_s > now_s:
                raise Violation(f"{TOPIC}-{partition} is given to {name}, and {other} owns it until {others_until_s}")
        claims[name] = until_s

    def give_up(self, partition: int, name: str) -> None:
        self._until_s.get(partition, {}).pop(name, None)

    def owners(self, now_s: float) -> dict[int, set[str]]:
        return {
            partition: {name for name, until_s in claims.items() if until_s > now_s}
            for partition, claims in self._until_s.items()
        }


class Member(Actor):
    """Of a consumer group. Heartbeats, gives up what it is asked to, and sometimes leaves or is silent for too long. A
    static one comes back under its instance id."""

    group, version = GROUP, 1

    def __init__(self, name: str, world: World, claims: Claims, *, is_static: bool = False) -> None:
        super().__init__(name, world)
        self._claims = claims
        self._lives = 0
        self.rebalance_ms = REBALANCE_MS
        self.is_gone = False
        """Whether it gives nothing up any more, though it heartbeats: the group has to do without it."""
        self._instance_id = name if is_static else None
        self._forget()

    def _forget(self) -> None:
        """Be a new member from now on."""
        for partition in getattr(self, "owned", ()):
            self._claims.give_up(partition, self.name)
        self._lives += 1
        self._member_id = f"{self.name}.{self._lives}"
        self.epoch = self._epoch_before = 0
        self.owned: set[int] = set()
        self._assigned_at: dict[int, int] = {}
        """The epoch in which it was given each partition."""

    async def act(self) -> None:
        if self.epoch and self.random.random() < 0.04:
            leaving = self._request(epoch=-1 if self._instance_id is None else self.random.choice((-1, -2)))
            self._forget()
            try:
                await self._heartbeat(leaving)
            except KafkaError:
                return  # the session ends, if the coordinator does not know
            return
        await self.beat()
        if self.owned and has_rarities(self.world.seed) and self.random.random() < 0.3:
            await self._forgive(self._use_old_epoch())

    async def beat(self) -> None:
        if self.epoch or not self.is_gone:
            await self._forgive(self._beat())

    async def _forgive(self, beating: Coroutine[Any, Any, object]) -> None:
        """Raises Violation for an error that is not to come."""
        try:
            await beating
        except (FencedMemberEpoch, UnknownMemberId):
            self._forget()
        except UnreleasedInstanceId:  # its former life counts as there until its session ends
            self._forget()
        except GroupIdNotFound:  # an empty group without offsets goes after a while
            self._forget()
        except KafkaError as error:
            self._leaders.clear()
            if not error.retriable:
                raise Violation(f"{self.name}: {error!r}") from error

    def _request(self, epoch: int) -> Any:
        owned = [TopicPartitions(topic_id=self.world.topic_id(TOPIC), partitions=sorted(self.owned))]
        return ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self._member_id,
            instance_id=self._instance_id,
            member_epoch=epoch,
            rebalance_timeout_ms=self.rebalance_ms,
            subscribed_topic_names=[TOPIC],
            server_assignor="uniform",
            topic_partitions=owned if self.owned and epoch else [],
        )

    def _target(self, response: Any) -> set[int] | None:
        """What it is to own; None if that has not changed."""
        if response.assignment is None:
            return None
        return {number for topic in response.assignment.topic_partitions for number in topic.partitions}

    async def _heartbeat(self, request: Any) -> Any:
        response = await self.ask(self.coordinator(CONSUMER_OFFSETS, self.group), request, self.version)
        check(response.error_code, response.error_message)
        return response

    async def _beat(self) -> None:
        coordinator = self.coordinator(CONSUMER_OFFSETS, self.group)
        lives, sent_s = self.world.lives(coordinator), self.world.now_s()
        member_id = self._member_id
        response = await self._heartbeat(self._request(self.epoch))
        if not self.world.has_stayed(coordinator, lives):
            self._forget()  # it may be no coordinator any more, and not know it
            return
        assert member_id == self._member_id
        if response.member_epoch != self.epoch:
            self._epoch_before, self.epoch = self.epoch, response.member_epoch
        now_s, until_s = self.world.now_s(), sent_s + OWNED_S
        target = None if self.is_gone else self._target(response)
        if target is not None:
            for partition in self.owned - target:
                self._claims.give_up(partition, self.name)
            if target != self.owned:
                self.world.history.say(f"{self._member_id} owns {sorted(target)} in epoch {self.epoch} of {self.group}")
            self.owned = target
            self._assigned_at = {one: self._assigned_at.get(one, self.epoch) for one in target}
        if not self.is_gone:
            for partition in self.owned:
                self._claims.claim(partition, self.name, now_s, until_s)

    async def _use_old_epoch(self) -> None:
        """Commit, with an epoch since the partition was assigned (KIP-848). Raises what the broker answers."""
        if self.world.cluster.configs[0].kmini_as_version is not None:
            return
        partition = self.random.choice(sorted(self.owned))
        Topic = OffsetCommitRequest.Topic
        committed = Topic.Partition(partition_index=partition, committed_offset=0, committed_metadata="")
        coordinator = self.coordinator(CONSUMER_OFFSETS, self.group)
        lives = self.world.lives(coordinator)
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.random.randint(self._assigned_at[partition], self.epoch),
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            topics=[Topic(name=TOPIC, partitions=[committed])],
        )
        response = await self.ask(coordinator, request, 9)
        try:
            check(response.topics[0].partitions[0].error_code)
        except StaleMemberEpoch:
            if self.world.has_stayed(coordinator, lives):
                raise
            self._forget()

    # --- at the end

    async def leave(self) -> None:
        """Leave the group for good, as far as the coordinator can be told."""
        leaving = self._request(epoch=-1)
        self._forget()
        await self._forgive(self._heartbeat(leaving))

    def get_stuck(self) -> None:
        """Give nothing up any more, and claim nothing: others may be given it at any time now."""
        self.is_gone = True
        for partition in self.owned:
            self._claims.give_up(partition, self.name)


class StreamsMember(Member):
    """Of a streams group. A task is a partition of the only topic that is read. A member is told its tasks once, as in
    Apache Kafka: one that did not get the answer begins anew."""

    group, version = STREAMS_GROUP, 0

    async def _heartbeat(self, request: Any) -> Any:
        try:
            return await super()._heartbeat(request)
        except KafkaError:
            if self.epoch:
                self._forget()
            raise

    def _request(self, epoch: int) -> StreamsGroupHeartbeatRequest:
        owned = [TaskIds(subtopology_id=SUBTOPOLOGY, partitions=sorted(self.owned))]
        request = StreamsGroupHeartbeatRequest(
            group_id=STREAMS_GROUP,
            member_id=self._member_id,
            member_epoch=epoch,
            endpoint_information_epoch=-1,
            active_tasks=owned if self.owned and epoch else [],
            standby_tasks=[],
            warmup_tasks=[],
        )
        if not epoch:
            request.process_id = self.name
            request.rebalance_timeout_ms = REBALANCE_MS
            request.topology = StreamsGroupHeartbeatRequest.Topology(
                epoch=0,
                subtopologies=[
                    Subtopology(
                        subtopology_id=SUBTOPOLOGY,
                        source_topics=[TOPIC],
                        source_topic_regex=[],
                        state_changelog_topics=[],
                        repartition_sink_topics=[],
                        repartition_source_topics=[],
                        copartition_groups=[],
                    )
                ],
            )
        return request

    async def _use_old_epoch(self) -> None:
        """Heartbeat as one that did not hear of its last epoch, with a task that it was not assigned. Raises what the
        broker answers, and Violation."""
        tasks = {number for _, number in self.world.promises.partitions}
        coordinator = self.coordinator(CONSUMER_OFFSETS, self.group)
        lives = self.world.lives(coordinator)
        if self._epoch_before <= 0 or tasks == self.owned:
            return
        request = self._request(self._epoch_before)
        request.active_tasks = [TaskIds(subtopology_id=SUBTOPOLOGY, partitions=sorted(tasks))]
        try:
            response = await self.ask(coordinator, request, self.version)
            check(response.error_code, response.error_message)
        except FencedMemberEpoch:
            return
        if self.world.has_stayed(coordinator, lives):
            raise Violation(
                f"{self._member_id}: a heartbeat of the epoch {self._epoch_before} before {self.epoch} was accepted "
                f"with the tasks {tasks}, and {self.owned} are assigned"
            )

    def _target(self, response: Any) -> set[int] | None:
        if response.active_tasks is None:
            return None
        return {number for task in response.active_tasks for number in task.partitions}


class ClassicMember(Actor):
    """Joins, has the leader assign partitions, heartbeats, and sometimes leaves or is silent for too long. It gives all
    up before it joins again, as eager assignors do. A static one comes back under its instance id."""

    def __init__(self, name: str, world: World, claims: Claims, *, is_static: bool = False) -> None:
        super().__init__(name, world)
        self._claims = claims
        self._instance_id = name if is_static else None
        self._member_id = ""
        self._generation = -1
        """-1 while it is not a member."""
        self.owned: list[int] = []
        self.is_gone = False
        """Whether it has died for good."""

    @property
    def is_static(self) -> bool:
        return self._instance_id is not None

    @property
    def is_member(self) -> bool:
        return self._generation >= 0

    def _give_up(self) -> None:
        for partition in self.owned:
            self._claims.give_up(partition, self.name)
        self.owned = []
        self._generation = -1

    def forget(self) -> None:
        """Be as one that has just started."""
        self._give_up()
        self._member_id = ""

    async def act(self) -> None:
        if self.is_gone:
            return
        if self._generation < 0 or self.random.random() >= 0.04:
            await self.beat()
            return
        leaving = LeaveGroupRequest.Member(member_id=self._member_id)
        self.forget()
        if self.is_static:
            return
        try:
            await self._ask(LeaveGroupRequest(group_id=CLASSIC_GROUP, members=[leaving]), 3)
        except KafkaError:
            return  # the session ends, if the coordinator does not know

    async def beat(self) -> None:
        """A heartbeat; and a place in the next generation, if the group rebalances."""
        if self.is_gone:
            return
        try:
            if self._generation >= 0:
                try:
                    await self._heartbeat()
                except IllegalGeneration as error:
                    raise Violation(f"{self.name}: generation {self._generation}: {error!r}") from error
                except RebalanceInProgress:
                    self._give_up()
            if self._generation < 0:
                await self._join()
        except (UnknownMemberId, IllegalGeneration, FencedInstanceId):
            self.forget()
        except RebalanceInProgress:
            self._give_up()
        except KafkaError as error:
            self._leaders.clear()
            if not error.retriable:
                raise Violation(f"{self.name}: {error!r}") from error

    async def _ask(self, request: Any, version: int, timeout_s: float | None = None) -> Any:
        """The answer of a coordinator that is one for sure. Raises what it answers, and NotCoordinator."""
        coordinator = self.coordinator(CONSUMER_OFFSETS, CLASSIC_GROUP)
        lives = self.world.lives(coordinator)
        response = await self.ask(coordinator, request, version, timeout_s=timeout_s)
        check(response.error_code)
        if not self.world.has_stayed(coordinator, lives):
            self._give_up()
            raise NotCoordinator("it may be no coordinator any more, and not know it")
        return response

    async def _heartbeat(self) -> None:
        sent_s, is_blind = self.world.now_s(), self._is_coordinator_loading()
        await self._ask(
            HeartbeatRequest(
                group_id=CLASSIC_GROUP,
                generation_id=self._generation,
                member_id=self._member_id,
                group_instance_id=self._instance_id,
            ),
            3,
        )
        if not is_blind:
            self._claim(sent_s + OWNED_S)

    def _is_coordinator_loading(self) -> bool:
        """Whether the coordinator answers heartbeats without knowing the group, as Apache Kafka's does."""
        broker = self.world.cluster.brokers.get(self.coordinator(CONSUMER_OFFSETS, CLASSIC_GROUP))
        if broker is None:
            return False
        try:
            broker.services.groups.store.topic.partition_of(CLASSIC_GROUP)
        except KafkaError as error:
            return isinstance(error, CoordinatorLoadInProgress)
        return False

    async def _join(self) -> None:
        joined = await self._ask(self._joining(), 5 if self.is_static else 3, JOIN_S)
        self._member_id = joined.member_id
        if self.is_static and has_rarities(self.world.seed) and self.random.random() < 0.1:
            self.is_gone = True
            self.world.history.say(f"{self.name} dies")
            return
        members = [member.member_id for member in joined.members]
        partitions = [number for _, number in self.world.promises.partitions]
        assignments = [
            SyncGroupRequest.Assignment(
                member_id=member_id, assignment=json.dumps(partitions[place :: len(members)]).encode()
            )
            for place, member_id in enumerate(members)
        ]
        request = SyncGroupRequest(
            group_id=CLASSIC_GROUP,
            generation_id=joined.generation_id,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            assignments=assignments,  # only the leader is told of members
        )
        sent_s = self.world.now_s()
        synced = await self._ask(request, 3, JOIN_S)
        self._generation = joined.generation_id
        self.owned = json.loads(bytes(synced.assignment) or b"[]")
        self.world.history.say(f"{self.name} owns {self.owned} in generation {self._generation} of {CLASSIC_GROUP}")
        # No other member may own them now, unless the answer was on its way for a whole session. How long it will own
        # them, it knows by its next heartbeat: in a stable group Apache Kafka answers a follower's JoinGroup and
        # SyncGroup without extending its session.
        if self.world.now_s() < sent_s + OWNED_S:
            self._claim(self.world.now_s())

    def _joining(self) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=CLASSIC_GROUP,
            session_timeout_ms=SESSION_S * 1000,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"")],
        )

    def _claim(self, until_s: float) -> None:
        for partition in self.owned:
            self._claims.claim(partition, self.name, self.world.now_s(), until_s)
