"""A broker with the topic "t" and a clock that stands still, and members of share groups that are single requests
(KIP-932): they acquire and acknowledge records without a heartbeat, which Kafka's brokers allow, too."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, NamedTuple

from kmini.broker.api.request_context import Context
from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.broker.coordinators.coordinator_topic import Producer
from kmini.broker.share_fetch.share_partition import AcknowledgeType
from kmini.broker.share_state.share_group_state_records import decode_key, decode_value
from kmini.broker.transactions.markers import Marker
from kmini.protocol.errors import NONE, error_name
from kmini.protocol.messages.describe_configs import GROUP
from kmini.protocol.messages.incremental_alter_configs import SET
from kmini.protocol.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from kmini.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from kmini.protocol.messages.share_fetch import AcknowledgementBatch, ShareFetchRequest
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.batch_records import decode_all
from kmini.protocol.records.record import Record
from kmini.protocol.topics import SHARE_GROUP_STATE, TopicPartition
from kmini.storage.validation import ValidatedRecords
from support.broker.asking import ask_handler, ask_in, context_of
from support.broker.config_requests import alter, change
from support.broker.consumer_lab import StillClock
from support.until import until_async

GAP, ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType

Acks = Iterable[tuple[int, int, Any]]
"""First offset, last offset, and the type of all or the types of each."""


class Fetched(NamedTuple):
    """What the answer to a fetch says of one partition."""

    error: str
    acquired: list[tuple[int, int, int]]
    """First offset, last offset, delivery count."""
    offsets: list[int]
    """The offsets of the records that came."""
    acknowledged: str
    """The error of the acknowledgements."""


class ShareReaders:
    """Asks a broker about partition 0 of "t" for the group "g", unless told otherwise."""

    def __init__(self, broker: BrokerServer) -> None:
        self.broker = broker
        for name in {"t", SHARE_GROUP_STATE} - {*broker.controller.topics}:
            topics.create_missing(broker, name)
        self.topic_id = broker.controller.topics["t"].id
        self._contexts: dict[str, Context] = {}
        self._epochs: dict[str, int] = {}

    @property
    def clock(self) -> StillClock:
        assert isinstance(self.broker.clock, StillClock)
        return self.broker.clock

    async def initialize(self, group: str = "g", *, start_offset: int = 0, state_epoch: int = 1) -> str:
        partition = InitializeShareGroupStateRequest.Topic.Partition(
            partition=0, state_epoch=state_epoch, start_offset=start_offset
        )
        answer = await ask_handler(
            self.broker,
            InitializeShareGroupStateRequest(
                group_id=group,
                topics=[InitializeShareGroupStateRequest.Topic(topic_id=self.topic_id, partitions=[partition])],
            ),
        )
        return error_name(answer.results[0].partitions[0].error_code)

    async def set(self, group: str = "g", **settings: object) -> None:
        """Set settings of a group; underscores stand for dots."""
        changes = [(name.replace("_", "."), SET, str(value)) for name, value in settings.items()]
        assert await alter(ask_handler, self.broker, change(GROUP, group, *changes)) == [NONE]

    def append(self, *sizes: int, producer_id: int | None = None) -> None:
        """Append batches of so many records; with a producer they are part of its transaction."""
        partition = self.broker.replica_manager.partitions[TopicPartition("t", 0)]
        for size in sizes:
            now_ms = self.broker.clock.now_ms()
            records = [Record(number, now_ms, None, b"value") for number in range(size)]
            of_producer = {} if producer_id is None else {"producer_id": producer_id, "producer_epoch": 0}
            batch = build_batch(
                records,
                base_sequence=-1 if producer_id is None else 0,
                transactional=producer_id is not None,
                **of_producer,
            )
            partition.append(ValidatedRecords.of(batch), now_ms)

    async def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Write the marker that ends a producer's transaction."""
        marker = Marker(Producer(producer_id, 0), is_commit, 0, 0)
        assert {*(await self.broker.services.marker_writer.write(marker, [TopicPartition("t", 0)])).values()} == {NONE}

    # --- members

    def connection(self, member: str) -> Any:
        """The connection of a member, whose `close` ends it."""
        return self._context(member, 2).connection

    def _context(self, member: str, version: int) -> Context:
        known = self._contexts.get(member)
        if known is None:
            known = self._contexts[member] = context_of(self.broker, version)
            lost: list[Any] = []
            connection: SimpleNamespace = known.connection  # type: ignore[assignment]
            connection.when_lost = lost.append
            connection.close = lambda: [callback() for callback in lost]
        known.version = version
        return known

    async def fetch_raw(self, member: str, *, epoch: int, group: str = "g", acks: Acks = (), **fields: Any) -> Any:
        """Send a fetch of the partition; the answer."""
        request = ShareFetchRequest(
            **{
                "group_id": group,
                "member_id": member,
                "share_session_epoch": epoch,
                "max_wait_ms": 0,
                "min_bytes": 1,
                "max_bytes": 1 << 20,
                "max_records": 500,
                "batch_size": 500,
                "topics": self.topics_of(acks),
                "forgotten_topics_data": [],
                **fields,
            }
        )
        return await ask_in(self._context(member, 2), request)

    def topics_of(self, acks: Acks) -> list[ShareFetchRequest.Topic]:
        partition = ShareFetchRequest.Topic.Partition(partition_index=0, acknowledgement_batches=_batches(acks))
        return [ShareFetchRequest.Topic(topic_id=self.topic_id, partitions=[partition])]

    async def fetch(self, member: str = "m", **fields: Any) -> Fetched:
        """Fetch in the session of the member, which begins with the first one."""
        epoch = fields.pop("epoch", self._epochs.get(member, 0))
        answer = await self.fetch_raw(member, epoch=epoch, **fields)
        if answer.error_code:
            return Fetched(error_name(answer.error_code), [], [], "")
        self._epochs[member] = 0 if epoch < 0 else epoch + 1
        if not answer.responses:
            return Fetched("NONE", [], [], "NONE")
        (partition,) = answer.responses[0].partitions
        return Fetched(
            error_name(partition.error_code),
            [(one.first_offset, one.last_offset, one.delivery_count) for one in partition.acquired_records],
            [record.offset for record in decode_all(bytes(partition.records))] if partition.records else [],
            error_name(partition.acknowledge_error_code),
        )

    async def acknowledge(self, member: str, *acks: tuple[int, int, Any], **fields: Any) -> str:
        """Acknowledge in the session of the member; the error of the answer, or else of the partition."""
        epoch = fields.pop("epoch", self._epochs.get(member, 0))
        partition = ShareAcknowledgeRequest.Topic.Partition(partition_index=0, acknowledgement_batches=_batches(acks))
        request = ShareAcknowledgeRequest(
            **{
                "group_id": "g",
                "member_id": member,
                "share_session_epoch": epoch,
                "topics": [ShareAcknowledgeRequest.Topic(topic_id=self.topic_id, partitions=[partition])]
                if acks
                else [],
                **fields,
            }
        )
        answer = await ask_in(self._context(member, 2), request)
        if answer.error_code:
            return error_name(answer.error_code)
        self._epochs[member] = 0 if epoch < 0 else epoch + 1
        return error_name(answer.responses[0].partitions[0].error_code) if answer.responses else "NONE"

    # --- what is stored

    def stored(self) -> list[Any]:
        """The values of the records of `__share_group_state`, in order; None for a tombstone."""
        values: list[Any] = []
        for topic_partition, partition in sorted(self.broker.replica_manager.partitions.items()):
            if topic_partition.topic == SHARE_GROUP_STATE and partition.log.log_end_offset:
                data = partition.log.read(partition.log.log_start_offset, 1 << 20, partition.log.log_end_offset)
                for record in decode_all(data):
                    key = decode_key(record.key)
                    assert key is not None
                    values.append(None if record.value is None else decode_value(key.key_type, record.value))
        return values

    def updates(self) -> list[tuple[int, int, list[tuple[int, int, int, int]]]]:
        """Start offset, delivery complete count and batches of each record that is stored."""
        return [
            (
                value.start_offset,
                value.delivery_complete_count,
                [(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in value.state_batches],
            )
            for value in self.stored()
        ]

    async def advance(self, duration_ms: int) -> None:
        """Let locks end."""
        await self.clock.advance(f"{duration_ms}ms", liveness=True)

    async def settled(self) -> None:
        """Wait until nothing is being stored."""
        await until_async(lambda: not self.broker.services.share_partitions.writes.in_progress)


def _batches(acks: Acks) -> list[AcknowledgementBatch]:
    return [
        AcknowledgementBatch(
            first_offset=first, last_offset=last, acknowledge_types=[*kind] if isinstance(kind, list) else [kind]
        )
        for first, last, kind in acks
    ]


async def ask_about(readers: ShareReaders, example: Any, group: str) -> Any:
    """Send a request about a state, with the topic of `readers` and this group in place of the example's."""
    request = copy.deepcopy(example)
    request.group_id, request.topics[0].topic_id = group, readers.topic_id
    return await ask_handler(readers.broker, request)
