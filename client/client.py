"""The client of programs and of the command line: one object with a method for each operation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from ..protocol.errors import KafkaError
from ..protocol.messages.fetch import READ_UNCOMMITTED
from ..protocol.messages.list_offsets import EARLIEST, LATEST
from ..protocol.messages.metadata import MetadataResponse
from ..protocol.messages.produce import ALL_IN_SYNC
from ..protocol.primitives import Buffer
from ..protocol.records.compression import Codec
from ..protocol.records.record import Record
from ..protocol.schema import Request
from ..protocol.topics import TopicPartition
from .address import Address, parse_addresses
from .cluster_connections import ClusterConnections
from .configs import ConfigEntry, ConfigResource, alter_configs, describe_configs
from .connection import Connection, ConnectionSettings
from .consume import ConsumedRecord, Consumption, Fetched, fetch
from .deadline import Deadline
from .delete_records import DeleteRecordsResult, delete_records_before
from .group_descriptions import GroupDescription, ShareGroupOffset, describe_group, share_group_offsets
from .groups import (
    CommittedOffset,
    GroupListing,
    commit_offsets,
    committed_offsets,
    delete_groups,
    delete_offsets,
    list_groups,
    rebalance,
)
from .list_offsets import OffsetAndTimestamp, list_offset
from .produce import ProduceResult, produce, produce_batch
from .sasl import Sasl
from .topics import NewTopic, Outcomes, create_partitions, create_topics, delete_topics
from .transactions import (
    TransactionDescription,
    TransactionListing,
    abort_hanging_transaction,
    abort_transaction,
    describe_transaction,
    list_transactions,
)

if TYPE_CHECKING:
    import ssl

P = TypeVar("P", bound="tuple[str, int]")
"""A TopicPartition, or a plain tuple of its two fields."""


class Client:
    """A Kafka client for one event loop. `timeout_ms` bounds every call and its retries, unless the call has its own.

    The first call connects. Every method raises `KafkaError`: NoBrokerAnswers if no bootstrap server can be reached;
    after the time-out RequestTimedOut, or the last retriable error.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[Address] = "127.0.0.1:9092",
        *,
        client_id: str = "kmini",
        timeout_ms: int = 30_000,
        settings: ConnectionSettings | None = None,
        sasl: Sasl | None = None,
        tls: ssl.SSLContext | None = None,
        on_unreachable: Callable[[str], None] | None = None,
    ) -> None:
        """`sasl` authenticates at brokers that require it, `tls` encrypts (`key_stores.client_context` makes one);
        `settings` replace `client_id` and both.

        `on_unreachable` gets a sentence about a broker that cannot be reached, while the client still tries.
        """
        addresses = parse_addresses(bootstrap_servers) if isinstance(bootstrap_servers, str) else bootstrap_servers
        settings = settings or ConnectionSettings(client_id=client_id, sasl=sasl, tls=tls)
        self.cluster = ClusterConnections(addresses, settings, on_unreachable)
        self.timeout_ms = timeout_ms

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self.cluster.close()

    def _deadline(self, timeout_ms: int | None = None) -> Deadline:
        return Deadline(self.timeout_ms if timeout_ms is None else timeout_ms)

    # --- any request

    async def send(self, node_id: int | None, request: Request, *, timeout_ms: int | None = None) -> Any:
        """Send a request to a broker, or to any broker (None), once; return its answer.

        Uses the highest version that both sides have. Raises UnsupportedVersion, Disconnected, RequestTimedOut.
        """
        deadline = self._deadline(timeout_ms)
        if node_id is None:
            connection = await self.cluster.any_connection(deadline)
        else:
            if node_id not in self.cluster.brokers:
                await self.cluster.refresh((), deadline)
            connection = await self.cluster.connection(node_id, deadline)
        return await connection.send(request, timeout_ms=deadline.remaining_ms)

    # --- topics

    async def metadata(self, topics: Iterable[str] | None = None) -> MetadataResponse:
        """Return brokers and topics: all topics (None) or those named. A topic that does not exist has an error
        code."""
        return await self.cluster.refresh(topics, self._deadline())

    async def partitions(self, topic: str, *, create_missing: bool = False) -> list[TopicPartition]:
        """Return the partitions of a topic, in order. Raises UnknownTopicOrPartition, unless the request may create
        it."""
        deadline = self._deadline()
        await self.cluster.leader_of(TopicPartition(topic, 0), deadline, create_missing=create_missing)
        metadata = await self.cluster.refresh([topic], deadline)
        return [TopicPartition(topic, index) for index in range(len(metadata.topics[0].partitions))]

    async def create_topics(self, topics: Mapping[str, NewTopic]) -> Outcomes:
        """Create topics; return the error of each by name, None for success."""
        return await create_topics(self.cluster, topics, self._deadline())

    async def delete_topics(self, names: Iterable[str]) -> Outcomes:
        """Delete topics; return the error of each by name, None for success."""
        return await delete_topics(self.cluster, names, self._deadline())

    async def create_partitions(self, counts: Mapping[str, int], *, validate_only: bool = False) -> Outcomes:
        """Raise topics to these numbers of partitions; return the error of each by name, None for success."""
        return await create_partitions(self.cluster, counts, self._deadline(), validate_only=validate_only)

    # --- configurations

    async def describe_configs(self, resource: ConfigResource, names: Collection[str] = ()) -> list[ConfigEntry]:
        """Return the settings of a topic or broker in the order of their names: those in `names`, or all.

        A kmini broker lists a setting of its own (`kmini.…`) only if that is set or in `names`. Raises
        UnknownTopicOrPartition, InvalidRequest.
        """
        return await describe_configs(self.cluster, resource, self._deadline(), names)

    async def alter_configs(
        self, changes: Mapping[ConfigResource, Mapping[str, str | None]], *, validate_only: bool = False
    ) -> dict[ConfigResource, KafkaError | None]:
        """Change single settings; the value None restores the default. All settings of a resource change, or none does.

        Return the error of each resource, None for success.
        """
        return await alter_configs(self.cluster, changes, self._deadline(), validate_only=validate_only)

    # --- groups

    async def list_groups(self, *, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[GroupListing]:
        """Return all groups, or those in one of these states and of one of these types, by name."""
        return await list_groups(self.cluster, self._deadline(), states=states, types=types)

    async def describe_group(self, group_id: str) -> GroupDescription:
        """Return a group of any type, with its members. Raises GroupIdNotFound."""
        return await describe_group(self.cluster, group_id, self._deadline())

    async def delete_groups(self, group_ids: Iterable[str]) -> Outcomes:
        """Delete groups without members, with their offsets; return the error of each by name, None for success."""
        return await delete_groups(self.cluster, group_ids, self._deadline())

    async def rebalance(self, group_id: str) -> None:
        """Have all members of a group of consumers join again: this client joins, and leaves before they have. In a
        consumer group (KIP-848) it raises the epoch. A rebalance that is in progress goes on.

        Returns at once; members learn of it by their next heartbeat. Raises GroupIdNotFound, UnknownMemberId for a
        group without members, and InconsistentGroupProtocol for one that is not of consumers.
        """
        await rebalance(self.cluster, group_id, self._deadline())

    async def share_group_offsets(self, group_id: str) -> dict[TopicPartition, ShareGroupOffset]:
        """Return where a share group is in the partitions that it reads; none for a group that is of another type or
        does not exist."""
        return await share_group_offsets(self.cluster, group_id, self._deadline())

    async def committed_offsets(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """Return the committed offsets of a group; none for a group that does not exist."""
        return await committed_offsets(self.cluster, group_id, self._deadline())

    async def commit_offsets(
        self, group_id: str, offsets: Mapping[P, CommittedOffset | int]
    ) -> dict[P, KafkaError | None]:
        """Commit offsets for a group without members (else UnknownMemberId). Creates the group if it does not exist.

        Return the error of each partition, None for success.
        """
        wanted = {
            TopicPartition(*at): CommittedOffset(offset) if isinstance(offset, int) else offset
            for at, offset in offsets.items()
        }
        outcomes = await commit_offsets(self.cluster, group_id, wanted, self._deadline())
        return {at: outcomes[TopicPartition(*at)] for at in offsets}

    async def delete_offsets(self, group_id: str, partitions: Iterable[P]) -> dict[P, KafkaError | None]:
        """Delete committed offsets of a group, for topics that it does not read now (else GroupSubscribedToTopic).

        Return the error of each partition, None for success. Raises GroupIdNotFound.
        """
        wanted = list(partitions)
        outcomes = await delete_offsets(
            self.cluster, group_id, [TopicPartition(*at) for at in wanted], self._deadline()
        )
        return {at: outcomes[TopicPartition(*at)] for at in wanted}

    # --- transactions

    async def list_transactions(self, *, states: Sequence[str] = ()) -> list[TransactionListing]:
        """Return all transactional ids, or those in one of these states, by name."""
        return await list_transactions(self.cluster, self._deadline(), states=states)

    async def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        """Return a transactional id and its transaction. Raises TransactionalIdNotFound."""
        return await describe_transaction(self.cluster, transactional_id, self._deadline())

    async def abort_transaction(self, transactional_id: str) -> None:
        """Abort the open transaction of a transactional id, and fence its producer. Raises TransactionalIdNotFound."""
        await abort_transaction(self.cluster, transactional_id, self._deadline())

    async def abort_hanging_transaction(self, topic_partition: P, start_offset: int) -> None:
        """Abort, in one partition, the transaction that began at an offset and that no coordinator knows any more.

        Raises InvalidTxnState if no transaction began there. Its other partitions stay as they are.
        """
        partition = TopicPartition(*topic_partition)
        await abort_hanging_transaction(self.cluster, partition, start_offset, self._deadline())

    # --- records

    async def produce(
        self,
        topic: str,
        partition: int,
        records: Sequence[Record],
        *,
        acks: int = ALL_IN_SYNC,
        codec: Codec = Codec.NONE,
        timeout_ms: int | None = None,
    ) -> ProduceResult:
        """Append records as one batch (`record` makes them); the request may create the topic.

        A batch that may have been written is not sent again (`client/produce.py`). Raises the error of the broker, with
        `record_errors` if it names faulty records.
        """
        deadline = self._deadline(timeout_ms)
        return await produce(self.cluster, TopicPartition(topic, partition), records, deadline, acks=acks, codec=codec)

    async def produce_batch(
        self, topic: str, partition: int, batch: Buffer, *, acks: int = ALL_IN_SYNC, timeout_ms: int | None = None
    ) -> ProduceResult:
        """Append a batch that is built already (`kmini.protocol.records.batch`), as `produce` appends records."""
        return await produce_batch(
            self.cluster, TopicPartition(topic, partition), batch, self._deadline(timeout_ms), acks=acks
        )

    async def fetch(self, topic: str, partition: int, offset: int, *, max_wait_ms: int = 0) -> Fetched:
        """Record batches from an offset on, as they lie in the log. Raises OffsetOutOfRange."""
        deadline = self._deadline()
        topic_partition = TopicPartition(topic, partition)

        async def attempt(connection: Connection) -> Fetched:
            answers = await fetch(
                self.cluster,
                connection,
                {topic_partition: offset},
                max_wait_ms=max_wait_ms,
                timeout_ms=deadline.remaining_ms,
            )
            answer = answers[topic_partition]
            if isinstance(answer, Fetched):
                return answer
            raise answer

        return await self.cluster.at_leader(topic_partition, deadline, attempt)

    def consume(
        self,
        positions: Mapping[P, int],
        *,
        until: Mapping[P, int] | None = None,
        isolation_level: int = READ_UNCOMMITTED,
    ) -> AsyncGenerator[ConsumedRecord, None]:
        """Yield the records of partitions from these offsets on: up to the offsets `until`, or without end.

        The records of a partition come in order. Follows leaders as they move. Close the generator
        (`contextlib.aclosing`) to leave it before its end. With READ_COMMITTED (`kmini.client.consume`) it leaves out
        records of aborted transactions, and waits for the end of open ones. Raises OffsetOutOfRange if records were
        deleted meanwhile.
        """
        return self._consumption(positions, until, isolation_level).records()

    def consume_batches(
        self,
        positions: Mapping[P, int],
        *,
        until: Mapping[P, int] | None = None,
        isolation_level: int = READ_UNCOMMITTED,
    ) -> AsyncGenerator[tuple[TopicPartition, list[Record]], None]:
        """Yield the records of `consume` as a list for each batch of the log: several times as fast."""
        return self._consumption(positions, until, isolation_level).batches()

    def _consumption(
        self, positions: Mapping[P, int], until: Mapping[P, int] | None, isolation_level: int
    ) -> Consumption:
        start = {TopicPartition(*partition): offset for partition, offset in positions.items()}
        end = None if until is None else {TopicPartition(*partition): offset for partition, offset in until.items()}
        return Consumption(self.cluster, start, end, patience_ms=self.timeout_ms, isolation_level=isolation_level)

    async def list_offsets(
        self, timestamps: Mapping[P, int], *, isolation_level: int = READ_UNCOMMITTED
    ) -> dict[P, OffsetAndTimestamp]:
        """For each partition the first record at or after a time in ms, or a landmark: `EARLIEST`, `LATEST`, …"""
        deadline = self._deadline()
        found = await asyncio.gather(
            *(
                list_offset(self.cluster, TopicPartition(*at), timestamp, deadline, isolation_level=isolation_level)
                for at, timestamp in timestamps.items()
            )
        )
        return dict(zip(timestamps, found, strict=True))

    async def beginning(self, partitions: Iterable[P]) -> dict[P, int]:
        """The log start offsets."""
        offsets = await self.list_offsets(dict.fromkeys(partitions, EARLIEST))
        return {partition: found.offset for partition, found in offsets.items()}

    async def end(self, partitions: Iterable[P], *, isolation_level: int = READ_UNCOMMITTED) -> dict[P, int]:
        """The high watermarks: the offsets of the next records. With READ_COMMITTED the last stable offsets."""
        offsets = await self.list_offsets(dict.fromkeys(partitions, LATEST), isolation_level=isolation_level)
        return {partition: found.offset for partition, found in offsets.items()}

    def delete_records_before(
        self, offsets: Mapping[P, int], timeout_ms: int | None = None
    ) -> asyncio.Future[dict[P, DeleteRecordsResult]]:
        """Delete the records before an offset in each partition; -1 stands for the high watermark (KIP-107).

        Returns at once. The future has the result of every partition once all are known, within `timeout_ms`: the low
        watermark, or the error. A leader that did not answer leaves its partitions with (-1, RequestTimedOut).
        """
        wanted = {TopicPartition(*partition): offset for partition, offset in offsets.items()}
        deadline = self._deadline(timeout_ms)

        async def delete() -> dict[P, DeleteRecordsResult]:
            results = await delete_records_before(self.cluster, wanted, deadline)
            return {partition: results[TopicPartition(*partition)] for partition in offsets}

        return asyncio.ensure_future(delete())
