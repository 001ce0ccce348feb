"""Fetch sessions (KIP-227): a reader of many partitions names what changed, and is told what changed.

A request with epoch 0 names all its partitions and asks for a session; the answer gives its id. The next one, with
epoch 1, names only what is to be read from elsewhere than before, and is answered with only those partitions that have
something to say. The epoch counts requests, 1 to 2^31-1 and around, when they are accepted; a request with the wrong
one is refused, and the reader begins anew.

A session listens to its partitions instead of looking at all of them: a fetch costs what is *pending*, the partitions
of which something may be new, however many there are. The same set keeps the order: a partition that gave records, or
has become pending, stands at the end.

Sessions belong to no connection. There is room for `max.incremental.fetch.session.cache.slots`; a newcomer may push out
one that was not used for two minutes, or that is that old and smaller. A reader that gets none is served without.
"""

import os
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING

from ...protocol.errors import (
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
)
from ...protocol.messages.fetch import FetchRequest
from ..clock import Clock
from .fetch_partition import FetchedData, FetchPartition, Reader

if TYPE_CHECKING:
    from .replica_manager import ReplicaManager

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
"""Epochs of requests that name everything; after the final one there is no session."""

NO_SESSION = 0
TOPIC_IDS_SINCE = 13
"""The first version of Fetch that names topics by id (KIP-516)."""
_MAX_INT = 0x7FFFFFFF
_STALE_MS = 120_000

MAX_PARTITIONS = 500_000
"""Partitions that all sessions together may remember: bounds the memory that clients can make the broker use."""

Key = tuple[str, bytes, int]
"""A partition as requests name it: topic or topic id, and number."""


def next_epoch(epoch: int) -> int:
    """The epoch after this one."""
    return 1 if epoch == _MAX_INT else epoch + 1


class FetchSession:
    """What a reader asked for, and which of it may have news."""

    def __init__(
        self,
        replica_manager: "ReplicaManager",
        session_id: int,
        wanted: Iterable[FetchPartition],
        reader: Reader,
        now_ms: int,
    ) -> None:
        self.id = session_id
        self.epoch = next_epoch(INITIAL_EPOCH)
        """Of the request that is expected next."""
        self.reader = reader
        self.created_ms = self.used_ms = now_ms
        self._replica_manager = replica_manager
        self._wanted: dict[Key, FetchPartition] = {}
        self._keys: tuple[Key, ...] | None = None
        self._by_partition: dict[Hashable, FetchPartition] = {}
        self.pending: dict[FetchPartition, None] = {}
        """In the order of service."""
        for one in wanted:
            self._add(one)

    def __len__(self) -> int:
        """How many partitions it has."""
        return len(self._wanted)

    @property
    def is_privileged(self) -> bool:
        """Followers' sessions stay before those of consumers."""
        return self.reader.is_follower

    def changed(self, key: Hashable) -> None:
        """A partition has news."""
        wanted = self._by_partition.get(key)
        if wanted is not None:
            self.pending[wanted] = None
            self._replica_manager.purgatory.check(self)

    def keys(self) -> tuple[Key, ...]:
        """The partitions that it reads; the same tuple until they change."""
        if self._keys is None:
            self._keys = tuple(self._wanted)
        return self._keys

    # --- what a request says

    def update(self, request: FetchRequest, reader: Reader) -> None:
        """Add or change the partitions that it names, and forget those it gives up."""
        if reader != self.reader:
            for known in self._wanted.values():
                self._stop_listening(known)
                known.ask(known.asked, reader)
                self._mark_pending(known)
            self.reader = reader
        for topic in request.topics:
            for asked in topic.partitions:
                wanted = self._wanted.get((topic.topic, topic.topic_id, asked.partition))
                if wanted is None:
                    self._add(FetchPartition(self._replica_manager, topic, asked, reader))
                elif wanted not in self.pending or not wanted.ask_again(asked):  # what it asks again stays pending
                    self._stop_listening(wanted)
                    wanted.ask(asked, reader)
                    self._mark_pending(wanted)
        for forgotten in request.forgotten_topics_data:
            for number in forgotten.partitions:
                gone = self._wanted.pop((forgotten.topic, forgotten.topic_id, number), None)
                self._keys = None
                if gone is not None:
                    self._stop_listening(gone)
                    self.pending.pop(gone, None)

    def _add(self, wanted: FetchPartition) -> None:
        self._wanted[wanted.topic, wanted.topic_id, wanted.asked.partition] = wanted
        self._keys = None
        self._mark_pending(wanted)

    def _mark_pending(self, wanted: FetchPartition) -> None:
        """It is to be looked at in the next fetch, and listened to after that."""
        self._take_name(wanted)
        self.pending[wanted] = None

    def _take_name(self, wanted: FetchPartition) -> None:
        """News of the partition of its name are for it, unless it is an earlier topic's."""
        if wanted.error is None:
            self._by_partition[wanted.topic_partition] = wanted

    def _stop_listening(self, wanted: FetchPartition) -> None:
        """Stop listening for news of it."""
        if self._by_partition.get(wanted.topic_partition) is wanted:
            self._replica_manager.purgatory.ignore(wanted.topic_partition, self)
            del self._by_partition[wanted.topic_partition]

    def close(self) -> None:
        """Listen to nothing any more."""
        for wanted in self._wanted.values():
            self._stop_listening(wanted)
        self._wanted.clear()
        self._keys = None
        self.pending.clear()

    # --- what is answered

    def to_read(self) -> list[FetchPartition]:
        """The partitions that may have something to say, as they are now."""
        pending = list(self.pending)
        for wanted in pending:
            partition = wanted.partition
            if partition is None or wanted.error is not None or not partition.is_served:
                self._stop_listening(wanted)
                wanted.resolve()
                self._take_name(wanted)
        return pending

    def changed_since_sent(
        self, read: Iterable[FetchPartition], answers: Iterable[FetchedData]
    ) -> tuple[list[FetchPartition], list[FetchedData]]:
        """Of what was read, what has to be answered; it counts as answered from now on."""
        sent: list[FetchPartition] = []
        changed: list[FetchedData] = []
        for wanted, answer in zip(read, answers, strict=True):
            if _note_sent(wanted, answer):
                sent.append(wanted)
                changed.append(answer)
            self._put_back(wanted, answer)
        return sent, changed

    def news_in(
        self, read: Iterable[FetchPartition], answers: Iterable[FetchedData]
    ) -> tuple[list[FetchPartition], list[FetchedData]]:
        """What `changed_since_sent` returns; nothing counts as answered."""
        news = [pair for pair in zip(read, answers, strict=True) if _is_news(*pair)]
        return [wanted for wanted, _ in news], [answer for _, answer in news]

    def _put_back(self, wanted: FetchPartition, answer: FetchedData) -> None:
        if wanted not in self.pending:  # it was forgotten while it was read
            return
        if answer.records:
            del self.pending[wanted]
            self.pending[wanted] = None
        elif not answer.is_urgent and _is_at_rest(wanted):
            del self.pending[wanted]
            self._replica_manager.purgatory.listen(wanted.topic_partition, self)

    def remember(self, read: Iterable[FetchPartition], answers: Iterable[FetchedData]) -> None:
        """The partitions were answered in full, as a session's first request is."""
        for wanted, answer in zip(read, answers, strict=True):
            _note_sent(wanted, answer)
            self._put_back(wanted, answer)


def _note_sent(wanted: FetchPartition, answer: FetchedData) -> bool:
    """Count it as told; False if there is nothing new."""
    is_news = _is_news(wanted, answer)
    if answer.error_code or answer.diverging is not None or wanted.partition is None:
        wanted.sent_high_watermark = -1  # recovery is told, and to a follower that truncates its log all offsets again
    else:
        log = wanted.partition.log
        wanted.sent_high_watermark, wanted.sent_log_start_offset = log.high_watermark, log.log_start_offset
    return is_news


def _is_news(wanted: FetchPartition, answer: FetchedData) -> bool:
    """Whether there are records, an error, or offsets that the reader does not know."""
    if answer.error_code or wanted.partition is None:
        return True
    log = wanted.partition.log
    return (
        log.high_watermark != wanted.sent_high_watermark
        or log.log_start_offset != wanted.sent_log_start_offset
        or bool(answer.records)
        or answer.is_urgent
    )


def _is_at_rest(wanted: FetchPartition) -> bool:
    """Whether there is nothing to tell until something changes."""
    if wanted.error is not None or not wanted.is_served_here():
        return False
    assert wanted.partition is not None
    log, offset = wanted.partition.log, wanted.asked.fetch_offset
    return (
        log.log_start_offset <= offset <= log.log_end_offset
        and offset >= wanted.limit_offset()
        and log.high_watermark == wanted.sent_high_watermark
        and log.log_start_offset == wanted.sent_log_start_offset
        and wanted.is_noted()
    )


class FetchSessions:
    """The sessions of a broker."""

    def __init__(self, replica_manager: "ReplicaManager", slots: int, clock: Clock) -> None:
        self._replica_manager = replica_manager
        self._slots = slots
        self._clock = clock
        self._sessions: dict[int, FetchSession] = {}
        """Least recently used first."""
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """Partitions that the sessions remember."""
        return sum(map(len, self._sessions.values()))

    def keys_of(self, session_id: int) -> tuple[Key, ...]:
        """The partitions that a session reads; none if there is no such session."""
        session = self._sessions.get(session_id)
        return () if session is None else session.keys()

    def accept(self, request: FetchRequest, reader: Reader) -> FetchSession | None:
        """Accept a follow-up; None if it gives up the last partition, and the session with it.

        Raises FetchSessionIdNotFound, InvalidFetchSessionEpoch, FetchSessionTopicIdError.
        """
        session = self._sessions.get(request.session_id)
        if session is None:
            raise FetchSessionIdNotFound(f"there is no fetch session {request.session_id}")
        if session.epoch != request.session_epoch:
            raise InvalidFetchSessionEpoch(f"epoch {request.session_epoch} came where {session.epoch} is due")
        if session.reader.names_topics_by_id != reader.names_topics_by_id:
            raise FetchSessionTopicIdError("a session names topics as its first request did, by name or by id")
        session.update(request, reader)
        if not session:
            self.close(session.id)
            return None
        session.epoch = next_epoch(session.epoch)
        self._sessions[session.id] = self._sessions.pop(session.id)
        session.used_ms = self._clock.liveness_ms()
        return session

    def check_accepted(self, session: FetchSession, epoch: int) -> None:
        """Raise InvalidFetchSessionEpoch if a later request was accepted since the one with `epoch`."""
        if session.epoch != next_epoch(epoch) or self._sessions.get(session.id) is not session:
            raise InvalidFetchSessionEpoch(f"a later request of session {session.id} has taken over")

    def create(self, wanted: list[FetchPartition], reader: Reader) -> FetchSession | None:
        """A session over these partitions, or None if there is no room."""
        if not wanted or self.partition_count + len(wanted) > MAX_PARTITIONS:
            return None
        now_ms = self._clock.liveness_ms()
        if len(self._sessions) >= self._slots and not self._evict(len(wanted), reader.is_follower, now_ms):
            return None
        session_id = _random_id()
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = _random_id()
        session = self._sessions[session_id] = FetchSession(self._replica_manager, session_id, wanted, reader, now_ms)
        return session

    def close(self, session_id: int) -> None:
        """End a session, if there is one."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()

    def _evict(self, size: int, is_privileged: bool, now_ms: int) -> bool:
        """Evict a session for a new one of this size, if one may be evicted."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        victim: FetchSession | None = oldest
        if now_ms - oldest.used_ms <= _STALE_MS:
            evictable = (
                session
                for session in self._sessions.values()
                if now_ms - session.created_ms > _STALE_MS or (is_privileged and not session.is_privileged)
            )
            victim = min(evictable, key=_rank, default=None)
            if victim is None or (is_privileged, size, 0) < _rank(victim):
                return False
        assert victim is not None
        self.close(victim.id)
        self.evictions += 1
        return True


def _rank(session: FetchSession) -> tuple[bool, int, int]:
    """The order of eviction."""
    return (session.is_privileged, len(session), session.id)


def _random_id() -> int:
    return int.from_bytes(os.urandom(4), "big") & _MAX_INT
