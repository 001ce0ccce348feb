"""One partition of a fetch: what is asked for, the partition that this resolves to, and what it has for the reader.

A `FetchPartition` serves each step of a fetch (`handlers/fetch.py`): it is resolved (`resolve`, or `ask_again` where
the partition was kept); the wait asks what it has (`instead_of_records`, `must_tell_follower`, `bytes_to_read`); then
it is read (`read`), up to the high watermark or the last stable offset (`limit_offset`).

The first batch of an answer is sent whole, whatever the limits (KIP-74): of which partition, `fetch_byte_limits.py`
says. A batch that begins below the asked offset, or below the log start offset, is sent, too: clients skip what they
did not ask for.
"""

from collections.abc import Sequence
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
from ..settings.replica_selectors import RACK_AWARE
from .partition import NO_EPOCH, Partition, check_topic_id
from .replica_selection import LEADER, preferred_replica

if TYPE_CHECKING:
    from ...storage.log import PartitionLog
    from ..security.fetch_access import FetchAccess
    from .fetcher_manager import FollowedPartition
    from .replica_manager import ReplicaManager

_LARGEST_READ = 8 * 1024 * 1024
"""Bytes read from a partition at once. A larger limit of the client is met by its next fetch: a read holds the loop."""


class Reader:
    """The client that fetches, and how: the part of a request that counts for all its partitions. Immutable."""

    __slots__ = (
        "access",
        "asks_at_each_read",
        "is_follower",
        "is_read_committed",
        "may_read_followers",
        "names_topics_by_id",
        "rack",
        "reads_what_all_have",
        "replica_epoch",
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
        replica_epoch: int = -1,
    ) -> None:
        self.is_read_committed = is_read_committed
        self.names_topics_by_id = names_topics_by_id
        self.replica_id = replica_id
        """-1 for a consumer."""
        self.replica_epoch = replica_epoch
        """The broker epoch of a follower; -1 before version 15."""
        self.is_follower = replica_id >= 0
        self.reads_what_all_have = not (self.is_follower or is_read_committed)
        """Whether it may have everything below the high watermark."""
        self.access = access
        """Which topics it may read; None for all."""
        self.may_read_followers = may_read_followers
        """Whether it knows that a replica which does not lead may serve it (KIP-392)."""
        self.rack = rack
        """Where it is, if it wants to be told of a replica that is near."""
        self.asks_at_each_read = access is not None or rack != ""
        """Whether each read asks if it may read the topic, or if another replica is nearer to it."""

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
        state = request.replica_state
        replica_id, replica_epoch = (state.replica_id, state.replica_epoch) if state else (request.replica_id, -1)
        is_read_committed = request.isolation_level == READ_COMMITTED
        if replica_id >= 0:
            may_read_followers, rack = False, ""
        if access is None:
            return _reader(
                is_read_committed, names_topics_by_id, replica_id, None, may_read_followers, rack, replica_epoch
            )
        return cls(is_read_committed, names_topics_by_id, replica_id, access, may_read_followers, rack, replica_epoch)


_reader = lru_cache(maxsize=64)(Reader)
"""Most requests have the reader of the request before."""


class FetchPartition:
    """One partition of a fetch: what is asked for it, and what that resolved to.

    `_refusal` has something to say only where no partition was found, where it is no longer served, and to a reader
    that asks at each read. `instead_of_records` calls it under this condition. `read` calls `instead_of_records` under
    the same condition, or if the reader gives the epoch that it fetched last and may have diverged: nothing else but an
    offset out of range stands instead of records, and `log.read` finds that by itself. So most reads make neither call.
    """

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
        self.partition: Partition | FollowedPartition | None = None
        manager, reader, asked = self._replica_manager, self.reader, self.asked
        try:
            name = manager.topic_name(self.topic_id) if reader.names_topics_by_id else self.topic
            topic_partition = tuple.__new__(TopicPartition, (name, asked.partition))  # cheap (COSTS.md)
            self.topic_partition = topic_partition
            followed = None
            if reader.may_read_followers:
                followed = manager.fetcher_manager.followed.get(topic_partition)
            if followed is not None and not followed.knows_log_start:
                raise NotLeaderOrFollower("this replica does not know yet what has been deleted while it was away")
            partition = followed or manager.leader_of(topic_partition)
            if reader.names_topics_by_id:
                check_topic_id(partition.log, self.topic_id)
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

    def ask_again(self, asked: FetchRequest.Topic.Partition) -> bool:
        """Want this of the same partition from now on, for the same reader. Return False, with nothing changed, if the
        partition has to be resolved. One that this broker follows always has to be: its leader may have deleted records
        that it does not know of yet (`FollowedPartition.knows_log_start`)."""
        partition, known, reader = self.partition, self.asked, self.reader
        if (
            not isinstance(partition, Partition)
            or not partition.is_served
            or asked.partition != known.partition
            or asked.current_leader_epoch != known.current_leader_epoch
            or (reader.is_follower and reader.replica_id not in partition.replicas.by_id)
        ):
            return False
        self.asked = asked
        return True

    # --- what it has for the reader

    def is_served_here(self) -> bool:
        """Whether the partition that was found is still what this broker leads, or follows for this reader."""
        return self.partition is not None and self.partition.is_served

    def limit_offset(self) -> int:
        """The first offset this reader may not have."""
        assert self.partition is not None
        log, reader = self.partition.log, self.reader
        if reader.is_follower:
            return log.log_end_offset
        return log.high_watermark if reader.reads_what_all_have else log.last_stable_offset

    def instead_of_records(self) -> "FetchedData | None":
        """What the reader has to hear before it may have records, or wait for them: an error, the replica to read from,
        or where its log diverges. None if it may have them."""
        reader, asked, partition = self.reader, self.asked, self.partition
        if partition is None or not partition.is_served or reader.asks_at_each_read:  # see the class
            instead = self._refusal()
            if instead is not None:
                return instead
            assert partition is not None
        log = partition.log
        is_within = log.log_start_offset <= asked.fetch_offset <= log.log_end_offset
        epoch = asked.last_fetched_epoch
        if epoch >= 0 and not (is_within and epoch == log.leader_epochs.latest_epoch):
            divergence = self._divergence(log)
            if divergence is not None:
                return divergence
        return None if is_within else _OUT_OF_RANGE

    def _refusal(self) -> "FetchedData | None":
        """The error with which the partition is refused, or the replica that the reader should ask."""
        access, partition = self.reader.access, self.partition
        if access is not None and self.topic_partition is not None and not access.may_read(self.topic_partition.topic):
            self.error = TopicAuthorizationFailed("the topic may not be read")
        elif self.error is None and not self.is_served_here():
            self.error = NotLeaderOrFollower("leadership moved while the fetch waited")
        if self.error is not None:
            return FetchedData(self.error.code)
        if self.reader.rack and isinstance(partition, Partition) and partition.replicas:
            offset = self.asked.fetch_offset
            preferred = preferred_replica(self._replica_manager, partition, offset, self.reader.rack)
            if preferred != LEADER:
                return FetchedData(NONE, preferred_replica=preferred)
        return None

    def _divergence(self, log: "PartitionLog") -> "FetchedData | None":
        """Where the reader's log left this one, by the epoch that it fetched last (KIP-595); None where it did not."""
        asked = self.asked
        epoch, end_offset = log.leader_epochs.end_offset_for(asked.last_fetched_epoch, log.log_end_offset)
        if epoch < 0 or asked.fetch_offset < log.log_start_offset:
            return _OUT_OF_RANGE  # no offset is known to end that epoch
        if epoch < asked.last_fetched_epoch or end_offset < asked.fetch_offset:
            return FetchedData(NONE, diverging=(epoch, end_offset))
        return None

    def note_fetched(self) -> None:
        """Note in the partition how far this follower has its log. Its offset says nothing where the logs diverge."""
        asked, partition = self.asked, self.partition
        if isinstance(partition, Partition) and self.instead_of_records() is None:
            partition.follower_fetched(self.reader.replica_id, asked.fetch_offset, asked.log_start_offset)

    def is_noted(self) -> bool:
        """Whether the partition knows what this follower has, and counts it as in sync; true for a consumer. Else the
        next fetch says it again: one that was sent earlier may have come later, on another connection, or the
        controller could not be asked."""
        reader, partition = self.reader, self.partition
        if not (reader.is_follower and isinstance(partition, Partition)):
            return True
        replica = partition.replicas.get(reader.replica_id)
        return replica is None or (
            replica.log_end_offset == self.asked.fetch_offset
            and replica.log_start_offset == self.asked.log_start_offset
            and replica.node_id in partition.state.isr
        )

    def must_tell_follower(self) -> bool:
        """Whether this follower has to be answered without records: its answer raises its log start offset, for which
        a deletion waits (KIP-107), or its high watermark, because consumers may read there (KAFKA-9731), or a test
        waits for it."""
        assert self.partition is not None
        asked, log = self.asked, self.partition.log
        if 0 <= asked.log_start_offset < log.log_start_offset:
            return True
        manager = self._replica_manager
        if manager.config.current.replica_selector_class != RACK_AWARE and not manager.tells_high_watermarks:
            return False
        known = self.sent_high_watermark if self.sent_high_watermark >= 0 else asked.high_watermark
        return known < log.high_watermark

    def bytes_to_read(self, min_bytes: int, whole_first_batch: bool) -> int:
        """How many bytes a read would give a reader that may have records; from `min_bytes` on it need not be exact."""
        assert self.partition is not None
        log, asked, limit_offset = self.partition.log, self.asked, self.limit_offset()
        most = asked.partition_max_bytes
        try:
            size = log.bytes_between(asked.fetch_offset, limit_offset)
            if most < size and most < min_bytes and whole_first_batch:
                most = max(most, len(log.read(asked.fetch_offset, 0, limit_offset)))  # one batch
        except KafkaError:
            return min_bytes  # the read answers with the error
        return min(size, most)

    def read(self, max_bytes: int, whole_first_batch: bool) -> "FetchedData":
        """What the partition has for this reader now: at most `max_bytes`, apart from a whole first batch."""
        reader, asked, partition = self.reader, self.asked, self.partition
        try:
            if (
                (partition is None or not partition.is_served or reader.asks_at_each_read)  # see the class
                or asked.last_fetched_epoch >= 0
            ):
                instead = self.instead_of_records()
                if instead is not None:
                    return instead
                assert partition is not None
            log = partition.log
            limit_offset = self.limit_offset()
            if asked.fetch_offset == limit_offset:
                return _NOTHING
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
        return tuple.__new__(FetchedData, (NONE, records, None, (), LEADER))  # cheap (COSTS.md)


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


_NOTHING = FetchedData(NONE)
_OUT_OF_RANGE = FetchedData(OffsetOutOfRange.code)


def _end_of(records: bytes | memoryview) -> int:
    """Below which offset records may lie that a read has returned. Messages from before magic 2 know no transactions,
    and do not say where they end."""
    return end_offset_of(records) if records[MAGIC_AT] == MAGIC else MAX_LONG
