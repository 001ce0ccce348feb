"""Members of a share group (KIP-932) that read partition 0 of a topic to a script, on two servers alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from kmini.broker.coordinators.coordinator_topic import partition_for
from kmini.broker.share_state.persister import SharePartitionKey
from kmini.broker.share_state.share_coordinator import coordinator_key
from kmini.broker.share_state.share_group_state_records import decode_key, decode_value
from kmini.protocol import messages as m
from kmini.protocol.errors import NONE, OffsetOutOfRange, error_name
from kmini.protocol.messages.list_offsets import EARLIEST
from kmini.protocol.messages.share_fetch import AcknowledgementBatch, ShareFetchRequest
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.batch_records import decode_all
from kmini.protocol.records.record import Record
from kmini.protocol.topics import SHARE_GROUP_STATE
from kmini.testing import Wire
from support.oracle.config_requests import GROUP, SET, change
from support.transcript import Transcript
from support.until import until

NOW_MS = 1_700_000_000_000

Acks = Iterable[tuple[int, int, Any]]
"""First offset, last offset, and the type of all or the types of each."""


class ShareReaders:
    """The members of one group, each on a connection of its own."""

    def __init__(self, transcript: Transcript, group: str, topic: str) -> None:
        self.transcript = transcript
        self.group = group
        self.topic = topic
        self._wires: dict[str, Wire] = {}
        self._epochs: dict[str, int] = {}
        self._seen = 0
        self._states: list[Any] = []
        """What was read of the share partition's state."""
        self._next = 0
        """The next offset in the log of states."""
        self._key = SharePartitionKey(group, transcript.topic_ids[topic].bytes, 0)

    def set(self, **settings: str) -> None:
        """Give the group settings, with underscores for dots; without others it begins at the earliest offset."""
        given = {"share_auto_offset_reset": "earliest", **settings}
        changes = [(name.replace("_", "."), SET, value) for name, value in given.items()]
        (answer,) = self.transcript.ask_quietly(change((GROUP, self.group, changes)), 1).responses
        assert answer.error_code == NONE, answer

    def begin(self) -> None:
        """Initialize the state, as members that join have it done."""
        until(lambda: self._initialize().error_code == NONE, "no coordinator of the state")

    def _initialize(self) -> Any:
        Request = m.InitializeShareGroupStateRequest
        key = coordinator_key(self._key)
        self._ask("admin", m.FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), 6)
        partition = Request.Topic.Partition(partition=0, state_epoch=1, start_offset=-1)
        topics = [Request.Topic(topic_id=self._key.topic_id, partitions=[partition])]
        return self._ask("admin", Request(group_id=self.group, topics=topics), 0).results[0].partitions[0]

    def _ask(self, member: str, request: Any, version: int) -> Any:
        wire = self._wires.get(member)
        if wire is None:
            wire = self._wires[member] = Wire(self.transcript.server.bootstrap_servers, client_id="tests")
        return wire.ask(request, version)

    def close(self, *members: str) -> None:
        """Close the connections of these members; of all without one."""
        for member in members or [*self._wires]:
            self._wires.pop(member).close()
            self._epochs.pop(member, None)

    def produce(self, *sizes: int) -> None:
        """Append batches of so many records."""
        Topic = m.ProduceRequest.Topic
        for size in sizes:
            records = build_batch([Record(number, NOW_MS, None, b"value") for number in range(size)])
            data = [Topic(name=self.topic, partition_data=[Topic.Partition(index=0, records=bytes(records))])]
            answer = self._ask("admin", m.ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=data), 9)
            assert answer.responses[0].partition_responses[0].error_code == NONE

    # --- requests

    def fetch(self, what: str, member: str, acks: Acks = (), **fields: Any) -> None:
        """Fetch in the member's session, which begins with the first one, and note what comes."""
        epoch = fields.pop("epoch", self._epochs.get(member, 0))
        partition = ShareFetchRequest.Topic.Partition(partition_index=0, acknowledgement_batches=_batches(acks))
        request = ShareFetchRequest(
            **{
                "group_id": self.group,
                "member_id": member,
                "share_session_epoch": epoch,
                "max_wait_ms": 200,
                "min_bytes": 1,
                "max_bytes": 1 << 20,
                "max_records": 500,
                "batch_size": 500,
                "topics": [ShareFetchRequest.Topic(topic_id=self._key.topic_id, partitions=[partition])],
                "forgotten_topics_data": [],
                **fields,
            }
        )
        answer = self._ask(member, request, 2)
        self._noted(what, member, epoch, answer)

    def acknowledge(self, what: str, member: str, *acks: tuple[int, int, Any], **fields: Any) -> None:
        """Acknowledge in the member's session, and note the outcome."""
        epoch = fields.pop("epoch", self._epochs.get(member, 0))
        Topic = m.ShareAcknowledgeRequest.Topic
        partition = Topic.Partition(partition_index=0, acknowledgement_batches=_batches(acks))
        request = m.ShareAcknowledgeRequest(
            **{
                "group_id": self.group,
                "member_id": member,
                "share_session_epoch": epoch,
                "topics": [Topic(topic_id=self._key.topic_id, partitions=[partition])] if acks else [],
                **fields,
            }
        )
        self._noted(what, member, epoch, self._ask(member, request, 2))

    def _noted(self, what: str, member: str, epoch: int, answer: Any) -> None:
        if answer.error_code == NONE:
            self._epochs[member] = 0 if epoch < 0 else epoch + 1
        told: dict[str, Any] = {"error": error_name(answer.error_code), "lock_ms": answer.acquisition_lock_timeout_ms}
        for topic in answer.responses:
            for each in topic.partitions:
                told[f"{each.partition_index}"] = {
                    name: error_name(getattr(each, name))
                    for name in ("error_code", "acknowledge_error_code")
                    if hasattr(each, name)
                } | self._acquired(each)
        self.transcript.note(f"{self.group.removeprefix(self.transcript.topic)} {what}", told)

    @staticmethod
    def _acquired(partition: Any) -> dict[str, Any]:
        if not hasattr(partition, "acquired_records"):
            return {}
        ranges = [[one.first_offset, one.last_offset, one.delivery_count] for one in partition.acquired_records]
        offsets = [record.offset for record in decode_all(bytes(partition.records or b""))]
        return {
            "acquired": ranges,
            "records": [offset for offset in offsets if any(first <= offset <= last for first, last, _ in ranges)],
        }

    # --- what is stored

    def note_states(self, what: str, count: int) -> None:
        """Note the next `count` records of the share partition's state."""
        found: list[Any] = []

        def are_there() -> bool:
            self._read_states()
            found[:] = self._states[self._seen :]
            return len(found) >= count

        until(are_there, lambda: f"{len(found)} of {count} records of the state: {found}")
        self._seen += len(found)
        self.transcript.note(f"{self.group.removeprefix(self.transcript.topic)} {what}", {"states": found})

    def _read_states(self) -> None:
        """Read on in the log of states, which begins later once the coordinator has pruned it."""
        metadata = m.MetadataRequest(topics=[m.MetadataRequest.Topic(name=SHARE_GROUP_STATE)])
        (topic,) = self._ask("admin", metadata, 12).topics
        number = partition_for(coordinator_key(self._key), len(topic.partitions))
        asked = m.FetchRequest.Topic.Partition(partition=number, fetch_offset=self._next, partition_max_bytes=1 << 20)
        request = m.FetchRequest(
            max_wait_ms=100, min_bytes=1, topics=[m.FetchRequest.Topic(topic=SHARE_GROUP_STATE, partitions=[asked])]
        )
        (answer,) = self._ask("admin", request, 12).responses
        if answer.partitions[0].error_code == OffsetOutOfRange.code:
            Topic = m.ListOffsetsRequest.Topic
            first = [Topic.Partition(partition_index=number, timestamp=EARLIEST)]
            listed = m.ListOffsetsRequest(topics=[Topic(name=SHARE_GROUP_STATE, partitions=first)])
            self._next = self._ask("admin", listed, 5).topics[0].partitions[0].offset
        for record in decode_all(bytes(answer.partitions[0].records or b"")):
            key = decode_key(record.key)
            if record.offset >= self._next and key is not None and key.place == self._key:
                value = record.value and _plain(decode_value(key.key_type, record.value))
                self._states.append([key.key_type, value])
            self._next = max(self._next, record.offset + 1)


def _plain(value: Any) -> dict[str, Any]:
    fields = {field.name: getattr(value, field.name) for field in type(value).__fields__}
    batches = [
        [one.first_offset, one.last_offset, one.delivery_state, one.delivery_count] for one in fields["state_batches"]
    ]
    return {name: one for name, one in fields.items() if "timestamp" not in name} | {"state_batches": batches}


def _batches(acks: Acks) -> list[AcknowledgementBatch]:
    return [
        AcknowledgementBatch(
            first_offset=first, last_offset=last, acknowledge_types=[*kind] if isinstance(kind, list) else [kind]
        )
        for first, last, kind in acks
    ]


@contextmanager
def share_readers(transcript: Transcript, suffix: str = "", **settings: str) -> Iterator[ShareReaders]:
    """The readers of a topic; settings of the group with underscores for dots."""
    readers = ShareReaders(transcript, f"{transcript.topic}{suffix}", transcript.create(suffix or "-read"))
    readers.set(**settings)
    readers.begin()
    try:
        yield readers
    finally:
        readers.close()
