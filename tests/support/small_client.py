"""A client that makes the requests of a producer or a consumer one by one, so that each run is the same."""

from __future__ import annotations

import time
from typing import Any

from kmini.protocol import messages as m
from kmini.protocol.consumer_protocol import ConsumerProtocolAssignment, SubscribedTopics
from kmini.protocol.messages.add_partitions_to_txn import TxnTopic
from kmini.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kmini.protocol.messages.find_coordinator import GROUP, TRANSACTION
from kmini.protocol.messages.share_fetch import AcknowledgementBatch
from kmini.protocol.messages.streams_group_heartbeat import Subtopology
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.schema import Request
from kmini.protocol.uuids import format_uuid, random_uuid
from kmini.testing import Wire
from support.until import until

NOT_YET = (14, 15, 16, 51)
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT_TRANSACTIONS."""


class SmallClient(Wire):
    """One connection. Methods return error codes where a request has one."""

    def __init__(self, bootstrap_servers: str, client_id: str) -> None:
        super().__init__(bootstrap_servers, client_id=client_id)
        self.member_id, self.generation, self.epoch = "", -1, 0
        self.assigned: dict[bytes, list[int]] = {}
        """What the coordinator of a consumer group has assigned last, by topic id."""
        self.session_epoch = 0
        """That of the next request in the share session."""
        self.producer: dict[str, Any] = {}
        self.sequence = 0

    def metadata(self, *topics: str, creates: bool = True) -> Any:
        asked = [m.MetadataRequest.Topic(name=topic) for topic in topics]
        return self.ask(m.MetadataRequest(topics=asked, allow_auto_topic_creation=creates), 9)

    def produce(self, topic: str, value: bytes = b"placed", *, key: bytes | None = b"42", version: int = 9) -> int:
        records = [Record(0, time.time_ns() // 1_000_000, key, value)]
        transactional = {**self.producer, "base_sequence": self.sequence} if self.producer else {}
        name = transactional.pop("transactional_id", None)
        batch = build_batch(records, transactional=name is not None, **transactional)
        self.sequence += 1
        Topic = m.ProduceRequest.Topic
        sent = Topic(name=topic, partition_data=[Topic.Partition(index=0, records=batch)])
        request = m.ProduceRequest(transactional_id=name, acks=-1, timeout_ms=30_000, topic_data=[sent])
        answer = self.ask(request, version)
        return int(answer.responses[0].partition_responses[0].error_code)

    def find_coordinator(self, name: str, key_type: int) -> None:
        """Ask until a coordinator is there."""
        request = m.FindCoordinatorRequest(key=name, key_type=key_type)
        until(lambda: self.ask(request, 2).error_code == 0, poll_s=0.005)

    def ask_when_ready(self, request: Request, version: int) -> Any:
        """Ask until the coordinator is ready, and return its answer."""
        answers: list[Any] = []

        def is_ready() -> bool:
            answers.append(self.ask(request, version))
            return answers[-1].error_code not in NOT_YET

        until(is_ready, poll_s=0.005)
        return answers[-1]

    # --- a consumer

    def join(self, group: str, *topics: str, waits: bool = True) -> None:
        """Join; the leader, which is the first member, gives each member one partition of the first topic."""
        metadata = b"\0\0" + b"".join(SubscribedTopics(topics=[*topics]).encode(0)) + b"\xff\xff\xff\xff"
        request = m.JoinGroupRequest(
            group_id=group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=60_000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[m.JoinGroupRequest.Protocol(name="range", metadata=metadata)],
        )
        if not waits:
            self.send(request, 3)
            return
        self.find_coordinator(group, GROUP)
        self.joined(self.ask_when_ready(request, 3))

    def receive_join(self, correlation_id: int) -> Any:
        answer = self.receive(m.JoinGroupResponse, 3, correlation_id)
        self.joined(answer)
        return answer

    def joined(self, answer: Any) -> None:
        assert answer.error_code == 0, answer
        self.member_id, self.generation = answer.member_id, answer.generation_id

    def sync(self, group: str, assignments: dict[str, list[tuple[str, int]]]) -> None:
        """Take the assignment; the leader gives all of them, by member id."""
        given = []
        for member_id, places in assignments.items():
            Topics = ConsumerProtocolAssignment.TopicPartitions
            topics = [Topics(topic=topic, partitions=[number]) for topic, number in places]
            encoded = b"".join(ConsumerProtocolAssignment(assigned_partitions=topics).encode(0))
            given.append(m.SyncGroupRequest.Assignment(member_id=member_id, assignment=b"\0\0" + encoded))
        request = m.SyncGroupRequest(
            group_id=group, generation_id=self.generation, member_id=self.member_id, assignments=given
        )
        assert self.ask(request, 3).error_code == 0

    def subscribe(self, group: str, topic: str, number: int = 0) -> None:
        """Join alone, and have one partition."""
        self.metadata(topic, creates=False)
        self.join(group, topic)
        self.sync(group, {self.member_id: [(topic, number)]})

    def committed(self, group: str, topic: str) -> int:
        Topic = m.OffsetFetchRequest.Topic
        answer = self.ask(m.OffsetFetchRequest(group_id=group, topics=[Topic(name=topic, partition_indexes=[0])]), 5)
        return int(answer.topics[0].partitions[0].committed_offset)

    def commit(self, group: str, topic: str, offset: int) -> None:
        Topic = m.OffsetCommitRequest.Topic
        place = Topic.Partition(partition_index=0, committed_offset=offset, committed_metadata=None)
        request = m.OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            topics=[Topic(name=topic, partitions=[place])],
        )
        assert self.ask(request, 5).topics[0].partitions[0].error_code == 0

    def leave(self, group: str, reason: str | None = None) -> None:
        """Leave as librdkafka does, or with a reason as Java does (KIP-800)."""
        if reason is None:
            assert self.ask(m.LeaveGroupRequest(group_id=group, member_id=self.member_id), 2).error_code == 0
            return
        leaving = m.LeaveGroupRequest.Member(member_id=self.member_id, reason=reason)
        assert self.ask(m.LeaveGroupRequest(group_id=group, members=[leaving]), 5).error_code == 0

    # --- a consumer of the protocol of KIP-848

    def beat(
        self, group: str, *topics: str, gives_up: bool = False, leaves: bool = False, **fields: Any
    ) -> dict[bytes, list[int]]:
        """Send a heartbeat: the first one joins, and subscribes to the topics. Return what the coordinator has assigned
        last, by topic id; `gives_up` reports that the member owns nothing else, `leaves` that it leaves."""
        is_new = not self.epoch
        wish: dict[str, Any] = {}
        if is_new:
            self.member_id = format_uuid(random_uuid())
            self.find_coordinator(group, GROUP)
            wish = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [*topics], "topic_partitions": []}
        elif gives_up:
            owned = [TopicPartitions(topic_id=each, partitions=numbers) for each, numbers in self.assigned.items()]
            wish = {"topic_partitions": owned}
        request = ConsumerGroupHeartbeatRequest(
            group_id=group, member_id=self.member_id, member_epoch=-1 if leaves else self.epoch, **{**wish, **fields}
        )
        answer = self.ask_when_ready(request, 1)
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.assigned = {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}
        return self.assigned

    # --- a member of a share group

    def share(self, group: str, *topics: str) -> None:
        """Join, and send heartbeats until partitions are assigned."""
        self.member_id = format_uuid(random_uuid())
        self.find_coordinator(group, GROUP)

        def is_assigned() -> bool:
            names = [*topics] if not self.epoch else None
            request = m.ShareGroupHeartbeatRequest(
                group_id=group, member_id=self.member_id, member_epoch=self.epoch, subscribed_topic_names=names
            )
            answer = self.ask_when_ready(request, 1)
            assert answer.error_code == 0, answer
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.assigned = {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}
            return any(self.assigned.values())

        until(is_assigned)

    def acquire(self, group: str, *done: tuple[int, int, int], max_records: int = 500) -> list[tuple[int, int, int]]:
        """Acquire records of partition 0 of the topic that is assigned, having acknowledged others, each given as first
        offset, last offset and type; first offset, last offset and delivery count of what was acquired."""
        (topic_id,) = self.assigned
        Topic = m.ShareFetchRequest.Topic
        acks = [
            AcknowledgementBatch(first_offset=at, last_offset=to, acknowledge_types=[kind]) for at, to, kind in done
        ]
        partition = Topic.Partition(partition_index=0, acknowledgement_batches=acks)
        request = m.ShareFetchRequest(
            group_id=group,
            member_id=self.member_id,
            share_session_epoch=self.session_epoch,
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=max_records,
            batch_size=max_records,
            topics=[Topic(topic_id=topic_id, partitions=[partition])],
            forgotten_topics_data=[],
        )
        answer = self.ask(request, 1)
        assert answer.error_code == 0, answer
        self.session_epoch += 1
        places = [place for topic in answer.responses for place in topic.partitions]
        assert all(place.error_code == place.acknowledge_error_code == 0 for place in places), answer
        acquired = [one for place in places for one in place.acquired_records]
        return [(one.first_offset, one.last_offset, one.delivery_count) for one in acquired]

    # --- a member of a streams group

    def stream(self, group: str, *topics: str) -> None:
        """Join with a topology of one part, which reads these topics."""
        self.member_id = format_uuid(random_uuid())
        self.find_coordinator(group, GROUP)
        Topology = m.StreamsGroupHeartbeatRequest.Topology
        part = Subtopology(
            subtopology_id="0",
            source_topics=[*topics],
            source_topic_regex=[],
            state_changelog_topics=[],
            repartition_sink_topics=[],
            repartition_source_topics=[],
            copartition_groups=[],
        )
        request = m.StreamsGroupHeartbeatRequest(
            group_id=group,
            member_id=self.member_id,
            member_epoch=0,
            endpoint_information_epoch=-1,
            rebalance_timeout_ms=60_000,
            topology=Topology(epoch=0, subtopologies=[part]),
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
            process_id=self.member_id,
        )
        answer = self.ask_when_ready(request, 0)
        assert answer.error_code == 0, answer

    # --- offsets and records

    def end_of(self, topic: str, partition: int = 0) -> int:
        """The offset at which a consumer with auto.offset.reset=latest begins."""
        Topic = m.ListOffsetsRequest.Topic
        place = Topic.Partition(partition_index=partition, timestamp=-1)
        answer = self.ask(m.ListOffsetsRequest(topics=[Topic(name=topic, partitions=[place])]), 4)
        return int(answer.topics[0].partitions[0].offset)

    def fetch(self, topic: str, offset: int, partition: int = 0, *, isolation_level: int = 0) -> bytes:
        Topic = m.FetchRequest.Topic
        asked = Topic.Partition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = m.FetchRequest(
            max_wait_ms=0, min_bytes=1, isolation_level=isolation_level, topics=[Topic(topic=topic, partitions=[asked])]
        )
        answer = self.ask(request, 4)
        return bytes(answer.responses[0].partitions[0].records or b"")

    # --- a transactional producer

    def begin(self, transactional_id: str, topic: str, *, timeout_ms: int = 60_000) -> None:
        """Take the transactional id, and add a partition to a transaction."""
        request = m.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        self.find_coordinator(transactional_id, TRANSACTION)
        answer = self.ask_when_ready(request, 1)
        assert answer.error_code == 0
        self.producer = {
            "transactional_id": transactional_id,
            "producer_id": answer.producer_id,
            "producer_epoch": answer.producer_epoch,
        }
        identity: dict[str, Any] = {f"v3_and_below_{name}": value for name, value in self.producer.items()}
        added = TxnTopic(name=topic, partitions=[0])
        self.ask(m.AddPartitionsToTxnRequest(**identity, v3_and_below_topics=[added]), 1)

    def end(self, *, commits: bool = True) -> int:
        return int(self.ask(m.EndTxnRequest(**self.producer, committed=commits), 1).error_code)
