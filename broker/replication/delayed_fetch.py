"""Reading for a fetch: what is wanted of each partition, what it has to say, and waiting until that is enough.

A fetch waits while its answer has fewer bytes than `min_bytes` and nothing urgent, for `max_wait_ms` at most.

The first batch of an answer is sent whole, whatever the limits (KIP-74); a batch that begins below the asked offset, or
below the log start offset, is too, and clients skip what they did not ask for.
"""

import time
from collections.abc import Hashable, Iterable, Sequence, Sized
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import (
    NONE,
    KafkaError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    TopicAuthorizationFailed,
    UnknownLeaderEpoch,
)
from ...protocol.messages.fetch import READ_COMMITTED, FetchRequest
from ...protocol.records.batch import MAGIC, MAGIC_AT, end_offset_of
from ...protocol.topics import TopicPartition
from ...storage.config_key import MAX_LONG
from ...storage.indexes.transaction_index import AbortedTransaction
from ..api.error_mapping import kafka_error
from ..metrics import Metrics
from ..purgatory import Operation
from ..scheduler import end_of_next_turn_s, end_of_turn_s
from ..settings.replica_selectors import RACK_AWARE
from .partition import NO_EPOCH, Partition
from .replica_selection import LEADER, preferred_replica

if TYPE_CHECKING:
    from ..security.fetch_access import FetchAccess
    from .fetcher_manager import Followed
    from .replica_manager import ReplicaManager

_LARGEST_READ = 8 * 1024 * 1024
"""Bytes read from a partition at once. A larger limit of the client is met by its next fetch: a read holds the loop."""


class Reader:
    """The client that fetches, and how: the part of a request that counts for all its partitions. Immutable."""

    __slots__ = (
        "access",
        "is_follower",
        "is_plain",
        "is_read_committed",
        "may_read_followers",
        "names_topics_by_id",
        "rack",
        "reads_what_all_have",
        "replica_id",
    )

    def __init__(
        self,
        is_read_committed: bool,
        names_topics_by_id: bool,
        replica_id: int,
        access: "FetchAccess | None" = None,
        may_read_followers: bool = False,
        rack: str = "",
    ) -> None:
        self.is_read_committed = is_read_committed
        self.names_topics_by_id = names_topics_by_id
        self.replica_id = replica_id
        """-1 for a consumer."""
        self.is_follower = replica_id >= 0
        self.reads_what_all_have = not (self.is_follower or is_read_committed)
        """Whether it may have everything below the high watermark."""
        self.access = access
        """Which topics it may read; None for all."""
        self.may_read_followers = may_read_followers
        """Whether it knows that a replica which does not lead may serve it (KIP-392)."""
        self.rack = rack
        """Where it is, if it wants to be told of a replica that is near."""
        self.is_plain = access is None and not rack and not self.is_follower
        """Whether it is a consumer that may read every topic, and only here."""

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Reader) and all(getattr(self, name) == getattr(other, name) for name in self.__slots__)
        )

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def of(
        cls,
        request: FetchRequest,
        *,
        names_topics_by_id: bool,
        access: "FetchAccess | None" = None,
        may_read_followers: bool = False,
        rack: str = "",
    ) -> "Reader":
        replica_id = request.replica_state.replica_id if request.replica_state else request.replica_id
        is_read_committed = request.isolation_level == READ_COMMITTED
        if replica_id >= 0:
            may_read_followers, rack = False, ""
        if access is None:
            return _reader(is_read_committed, names_topics_by_id, replica_id, None, may_read_followers, rack)
        return cls(is_read_committed, names_topics_by_id, replica_id, access, may_read_followers, rack)


_reader = lru_cache(maxsize=64)(Reader)
"""Most requests have the reader of the request before."""


class FetchPartition:
    """One partition of a fetch: what is asked for it, and what that resolved to."""

    __slots__ = (
        "_replica_manager",
        "asked",
        "error",
        "partition",
        "reader",
        "sent_high_watermark",
        "sent_log_start_offset",
        "topic",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        replica_manager: "ReplicaManager",
        topic: FetchRequest.Topic,
        asked: FetchRequest.Topic.Partition,
        reader: Reader,
    ) -> None:
        self.topic = topic.topic
        self.topic_id = topic.topic_id
        self.topic_partition: TopicPartition | None = None
        """None for a topic id that there is not."""
        self.sent_high_watermark = self.sent_log_start_offset = -1
        """What a session's client was told last."""
        self._replica_manager = replica_manager
        self.asked = asked
        self.reader = reader
        self.resolve()

    def ask(self, asked: FetchRequest.Topic.Partition, reader: Reader) -> None:
        """Want this from now on."""
        self.asked = asked
        self.reader = reader
        self.resolve()

    def resolve(self) -> None:
        """Find the partition as it is now."""
        self.error: KafkaError | None = None
        self.partition: Partition | Followed | None = None
        manager, reader, asked = self._replica_manager, self.reader, self.asked
        try:
            name = manager.topic_name(self.topic_id) if reader.names_topics_by_id else self.topic
            self.topic_partition = topic_partition = tuple.__new__(TopicPartition, (name, asked.partition))
            followed = None
            if reader.may_read_followers:
                followed = manager.fetcher_manager.followed.get(topic_partition)
            if followed is not None and not followed.knows_log_start:
                raise NotLeaderOrFollower("this replica does not know yet what has been deleted while it was away")
            partition = followed or manager.leader_of(topic_partition)
            if asked.current_leader_epoch > NO_EPOCH:  # here, and here only, any negative number stands for none
                partition.check_leader_epoch(asked.current_leader_epoch)
            if reader.is_follower:
                assert isinstance(partition, Partition)
                self._check_follower(partition)
            self.partition = partition
        except KafkaError as error:
            self.error = error

    def _check_follower(self, partition: Partition) -> None:
        """Only a broker with a replica of the partition may read what is not on all replicas yet."""
        if partition.replicas.get(self.reader.replica_id) is None:
            error = NotLeaderOrFollower if self.asked.current_leader_epoch < 0 else UnknownLeaderEpoch
            raise error("the replica id belongs to no replica of this partition")

    def take_up(self, asked: FetchRequest.Topic.Partition) -> bool:
        """Want this of the same partition from now on, for the same reader. Return False, with nothing changed, if the
        partition has to be resolved. One that this broker follows always has to be: it may have to hear of deletions
        first (`Followed.knows_log_start`)."""
        partition, known, reader = self.partition, self.asked, self.reader
        if (
            not isinstance(partition, Partition)
            or not partition.is_served
            or asked.partition != known.partition
            or asked.current_leader_epoch != known.current_leader_epoch
            or (reader.is_follower and partition.replicas.get(reader.replica_id) is None)
        ):
            return False
        self.asked = asked
        return True

    def has_all(self) -> bool:
        """Whether the reader is a follower that has everything: a read would give nothing."""
        reader, asked, partition = self.reader, self.asked, self.partition
        if not reader.is_follower or reader.access is not None or partition is None or not partition.is_served:
            return False
        log = partition.log
        return asked.fetch_offset == log.log_end_offset and asked.last_fetched_epoch == log.leader_epochs.latest_epoch

    def limit_offset(self) -> int:
        """The first offset this reader may not have."""
        assert self.partition is not None
        log, reader = self.partition.log, self.reader
        if reader.is_follower:
            return log.log_end_offset
        return log.high_watermark if reader.reads_what_all_have else log.last_stable_offset

    def is_served_here(self) -> bool:
        """Whether the partition that was found is still what this broker leads, or follows for this reader."""
        return self.partition is not None and self.partition.is_served

    def _preferred_replica(self) -> int:
        partition = self.partition
        if not isinstance(partition, Partition) or not partition.replicas:
            return LEADER
        return preferred_replica(self._replica_manager, partition, self.asked.fetch_offset, self.reader.rack)

    def read(self, max_bytes: int, whole_first_batch: bool) -> "FetchedData":
        """What the partition has for this reader now."""
        reader, asked, partition = self.reader, self.asked, self.partition
        try:
            if partition is None or not (partition.is_served and reader.is_plain and asked.last_fetched_epoch < 0):
                instead = self._instead_of_records()
                if instead is not None:
                    return instead
                assert partition is not None
            log = partition.log
            limit_offset = self.limit_offset()
            if asked.fetch_offset == limit_offset:  # the reader keeps up
                return NOTHING
            limit = asked.partition_max_bytes
            if limit > max_bytes:
                limit = max_bytes
            if not 0 <= limit <= _LARGEST_READ:
                limit = max(min(limit, _LARGEST_READ), 0)
            records = log.read(asked.fetch_offset, limit, limit_offset, whole_first_batch)
            if records and reader.is_read_committed and log.segments.may_have_aborted(asked.fetch_offset):
                return FetchedData(
                    NONE, records, aborted=log.aborted_transactions(asked.fetch_offset, _end_of(records))
                )
        except Exception as error:
            return FetchedData(kafka_error(error, f"the read of {self.topic_partition}").code)
        return tuple.__new__(FetchedData, (NONE, records, None, (), LEADER))  # a third of the constructor's price

    def _instead_of_records(self) -> "FetchedData | None":
        """What this reader has to hear before it may have records; None if that is nothing."""
        reader, access = self.reader, self.reader.access
        if access is not None and self.topic_partition is not None and not access.may_read(self.topic_partition.topic):
            self.error = TopicAuthorizationFailed("the topic may not be read")
        elif self.error is None and not self.is_served_here():
            self.error = NotLeaderOrFollower("leadership moved while the fetch waited")
        if self.error is not None or self.partition is None:
            return FetchedData(self.error.code if self.error else NONE)
        if reader.rack and (preferred := self._preferred_replica()) != LEADER:
            return FetchedData(NONE, preferred_replica=preferred)
        if self.asked.last_fetched_epoch >= 0 and (diverging := self._diverging_epoch()) is not None:
            return FetchedData(NONE, diverging=diverging)
        return None

    def is_behind_high_watermark(self) -> bool:
        """Whether this follower has to hear of the high watermark at once, because consumers may read there
        (KAFKA-9731)."""
        if self._replica_manager.config.current.replica_selector_class != RACK_AWARE:
            return False
        assert self.partition is not None
        known = self.sent_high_watermark if self.sent_high_watermark >= 0 else self.asked.high_watermark
        return known < self.partition.log.high_watermark

    def _diverging_epoch(self) -> tuple[int, int] | None:
        """Where this reader's log left ours, by the epoch it fetched last (KIP-595); None where it did not."""
        assert self.partition is not None
        asked = self.asked
        log = self.partition.log
        is_within = log.log_start_offset <= asked.fetch_offset <= log.log_end_offset
        if is_within and asked.last_fetched_epoch == log.leader_epochs.latest_epoch:
            return None  # most of the time: the epoch ends where the log does
        epoch, end_offset = log.leader_epochs.end_offset_for(asked.last_fetched_epoch, log.log_end_offset)
        if epoch < 0 or asked.fetch_offset < log.log_start_offset:
            raise OffsetOutOfRange(f"no offset is known to end epoch {asked.last_fetched_epoch}")
        if epoch < asked.last_fetched_epoch or end_offset < asked.fetch_offset:
            return epoch, end_offset
        return None


class FetchedData(NamedTuple):
    """What one partition answers."""

    error_code: int
    records: bytes | memoryview = b""
    diverging: tuple[int, int] | None = None
    aborted: Sequence[AbortedTransaction] = ()
    """For a reader of committed records: whose records among these to skip."""
    preferred_replica: int = LEADER
    """The follower to read from instead, with no records."""

    @property
    def is_urgent(self) -> bool:
        """Whether the reader must hear of it now, whatever else there is."""
        return self.error_code != NONE or self.diverging is not None or self.preferred_replica != LEADER


NOTHING = FetchedData(NONE)
"""What a partition answers that has nothing new for the reader."""


class DelayedFetch(Operation):
    """Complete when `min_bytes` can be read, or a partition has something else to say.

    `wanted` may change while the fetch waits: the code that changes it checks `session`, which is watched, too.
    """

    __slots__ = ("_min_bytes", "_session", "_wanted")

    def __init__(self, wanted: Iterable[FetchPartition], min_bytes: int, session: Hashable = None) -> None:
        self._wanted = wanted
        self._min_bytes = min_bytes
        self._session = session

    @property
    def keys(self) -> list[Hashable]:
        keys: list[Hashable] = []
        for wanted in self._wanted:
            keys.append(wanted.topic_partition)
        if self._session is not None:
            keys.append(self._session)
        return keys

    def is_complete(self) -> bool:
        available = 0
        for wanted in self._wanted:
            partition = wanted.partition
            if partition is None or not partition.is_served:
                return True
            asked, log = wanted.asked, partition.log
            offset = asked.fetch_offset
            if not log.log_start_offset <= offset <= log.log_end_offset:
                return True
            if wanted.reader.is_follower:
                if 0 <= asked.log_start_offset < log.log_start_offset:
                    return True  # a deletion waits for it (KIP-107)
                if wanted.is_behind_high_watermark():
                    return True
            limit = wanted.limit_offset()
            if offset < limit:
                if self._min_bytes <= 1:
                    return True
                available += min(log.bytes_between(offset, limit), asked.partition_max_bytes)
        return available >= self._min_bytes


def _end_of(records: bytes | memoryview) -> int:
    """Below which offset records may lie that a read has returned. Messages from before magic 2 know no transactions,
    and do not say where they end."""
    return end_offset_of(records) if records[MAGIC_AT] == MAGIC else MAX_LONG


def read_at_once(wanted: Sequence[FetchPartition], max_bytes: int) -> list[FetchedData] | None:
    """What `read_all` returns, where that needs one turn of the loop only: of one partition. Else None."""
    return [wanted[0].read(max_bytes, True)] if len(wanted) == 1 else None


async def read_all(wanted: Sequence[FetchPartition], max_bytes: int) -> list[FetchedData]:
    """Read the partitions in order, `max_bytes` of all together; the first batch of all is whole, however large."""
    left = max(max_bytes, 0)
    nothing_yet = True
    turn_ends_s = end_of_turn_s()
    answers = []
    for partition in wanted:
        if time.perf_counter() >= turn_ends_s:
            turn_ends_s = await end_of_next_turn_s()
        answer = partition.read(left, nothing_yet)
        size = len(answer.records)
        if size:
            nothing_yet = False
            left = max(left - size, 0)
        answers.append(answer)
    return answers


def must_wait(wanted: Sized, answers: Iterable[FetchedData], request: FetchRequest) -> bool:
    """Whether an answer now has too few bytes: then a `DelayedFetch` waits for `min_bytes`, for `max_wait_ms` at most.
    A request for no partition does not wait. `wanted` is what is asked for, or the session that remembers it."""
    return request.max_wait_ms > 0 and len(wanted) > 0 and not is_enough(answers, request.min_bytes)


def is_enough(answers: Iterable[FetchedData], min_bytes: int) -> bool:
    """Whether there is nothing to wait for: as much as was asked for, or something that the reader must hear now."""
    size = 0
    for answer in answers:
        records = answer.records
        if records:
            size += len(records)
        elif answer.is_urgent:
            return True
    return size >= min_bytes


def count_fetched(metrics: Metrics, wanted: Iterable[FetchPartition], answers: Iterable[FetchedData]) -> None:
    """Count the partitions that a request has read: as traffic of consumers, or of followers."""
    for one, answer in zip(wanted, answers):  # noqa: B905 (they are of the same length, and this is the hot path)
        if not answer.error_code and one.topic_partition is not None:
            size = len(answer.records)
            if one.reader.is_follower:
                metrics.replication_bytes_out += size
                size = 0
            metrics.fetched(one.topic_partition.topic, size)
