"""One follower's loop: fetch from a leader, append what comes, and do what the leader's answers ask for.

An answer is appended, and the next fetch sent, in the turn of the loop in which the answer arrives (`_answered`). The
loop's task sees to all else: it connects, pauses after errors, and does what takes time, such as to truncate a log
(`truncation.py`).

In a module of its own because a client comes with it, and a broker that follows no other starts without one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from ...client.address import Address
from ...client.connection import Connection
from ...client.errors import Disconnected, check
from ...protocol.errors import (
    NONE,
    FencedLeaderEpoch,
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
    KafkaError,
    OffsetOutOfRange,
    RequestTimedOut,
    UnknownLeaderEpoch,
)
from ...protocol.messages.fetch import FetchRequest, FetchResponse
from ...protocol.messages.list_offsets import ListOffsetsRequest
from ...protocol.topics import TopicPartition
from ...storage.deletion import delete_records_below
from ..security.inter_broker import inter_broker_connection
from .follower_session import FollowerSession
from .truncation import begin_with_batch, truncate_to_leader

if TYPE_CHECKING:
    from ..controller.topology import BrokerHandle
    from .fetcher_manager import FetcherManager, FollowedPartition

log = logging.getLogger("kmini.replication")


_LOST_SESSION = (FetchSessionIdNotFound.code, InvalidFetchSessionEpoch.code, FetchSessionTopicIdError.code)
_TIMEOUT_MS = 30_000
"""Milliseconds beyond the longest wait of a fetch, after which the connection counts as lost."""

_Deletions: TypeAlias = "list[tuple[FollowedPartition, Callable[[], object]]]"
"""Partitions whose log start offset rose, with the step that deletes their files."""


class _Changed(Exception):
    """What is to be fetched has changed while a fetch was under way."""


class _Rest:
    """What an answer leaves to be done, because it takes time."""

    __slots__ = ("deletions", "diverging", "error_code", "has_deleted")

    def __init__(self, error_code: int) -> None:
        self.error_code = error_code
        """That of the whole answer."""
        self.diverging: list[tuple[FollowedPartition, FetchResponse.Topic.Partition]] = []
        """The partitions whose logs do not continue the leader's, and what the leader says about them."""
        self.has_deleted = False
        """Whether a log start offset rose, so that the checkpoint of log start offsets has to be written."""
        self.deletions: _Deletions = []
        """What to do after that."""


class Fetcher:
    """Fetches all that is followed from one leader."""

    def __init__(self, manager: FetcherManager, leader: int) -> None:
        self._manager = manager
        self._config, self._clock = manager.config, manager.clock
        self._leader = leader
        self._partitions: dict[TopicPartition, FollowedPartition] = {}
        self._session = FollowerSession(manager.config, manager.broker_epoch)
        self._changed = asyncio.Event()
        self._is_pausing = self._is_stopped = False
        self._connection: Connection | None = None
        self._fetching: asyncio.Future[_Rest] | None = None
        """What the task waits for while fetches follow each other without it: what an answer leaves to be done."""
        self._asked: dict[tuple[str, int], FollowedPartition] = {}
        """The partitions that these fetches are about, by topic and number."""
        self._answered_about: list[FollowedPartition] = []
        """The partitions of the last answer, whose logs may have changed."""
        self._has_paused = False
        """Whether a partition pauses after an error, and has to be asked for again later."""
        self._task = asyncio.ensure_future(self._run())

    def cancel(self) -> None:
        """Take over nothing more, at once; `stop` follows."""
        self._is_stopped = True
        self._partitions.clear()
        self._task.cancel()

    async def stop(self) -> None:
        self.cancel()
        await asyncio.wait([self._task])
        await self._disconnect()

    async def hang_up(self) -> None:
        """Break the connection; the next fetch makes a new one, if it can."""
        await self._disconnect()

    def retry_now(self) -> None:
        """Try again now, if it pauses after an error."""
        if self._is_pausing:
            self._changed.set()

    def _change(self) -> None:
        """What is new must not wait until a fetch has waited for the old."""
        self._changed.set()
        if self._fetching is not None and not self._fetching.done():
            self._fetching.set_exception(_Changed())

    def add(self, followed: FollowedPartition) -> None:
        self._partitions[followed.topic_partition] = followed
        self._change()

    def remove(self, topic_partition: TopicPartition) -> None:
        followed = self._partitions.pop(topic_partition, None)
        if followed is not None and followed.named is not None:
            self._session.forget(followed.log.topic_id, topic_partition)
            self._change()

    # --- the loop

    async def _run(self) -> None:
        while True:
            try:
                await self._fetch_once()
            except (Disconnected, RequestTimedOut) as error:
                log.info("following broker %d: %s", self._leader, error)
                await self._disconnect()
                await self._pause()
            except OSError as error:  # of the checkpoint of log start offsets: it is tried again before the next fetch
                log.warning("following broker %d: %s", self._leader, error)
                await self._disconnect()
                await self._pause()
            except Exception:
                log.exception("following broker %d", self._leader)
                await self._disconnect()
                await self._pause()

    async def _pause(self) -> None:
        """Wait for `replica.fetch.backoff.ms`, or until something is different."""
        self._changed.clear()
        await self._sleep(self._config.current.replica_fetch_backoff_ms)

    async def _sleep(self, delay_ms: int) -> None:
        timer = self._clock.call_later(delay_ms, self._changed.set, liveness=True)
        self._is_pausing = True
        try:
            await self._changed.wait()
        finally:
            self._is_pausing = False
            timer.cancel()

    async def _fetch_once(self) -> None:
        """Fetch until an answer leaves something to be done that takes time, and do that."""
        self._changed.clear()
        now_ms = self._clock.liveness_ms()
        ready: dict[tuple[str, int], FollowedPartition] = {
            name: one for name, one in self._partitions.items() if one.paused_until_ms <= now_ms
        }
        if not ready:
            if not self._partitions:
                await self._changed.wait()
            else:
                await self._sleep(min(one.paused_until_ms for one in self._partitions.values()) - now_ms)
            return
        log_starts = self._manager.maintenance.log_start_checkpoint
        if log_starts.has_failed:  # no fetch tells a leader of a log start that a kill would take back
            await log_starts.write()
        connection = await self._connected()
        if self._changed.is_set():  # while it connected
            return
        self._asked, self._has_paused = ready, len(ready) < len(self._partitions)
        self._session.version = self._version_for(connection)
        self._fetching = asyncio.get_running_loop().create_future()
        try:
            self._ask(connection, ready.values())
            rest = await self._fetching
        except _Changed:
            await self._disconnect()
            return
        finally:
            self._fetching = None
        await self._finish(rest)

    def _ask(self, connection: Connection, named: Iterable[FollowedPartition]) -> None:
        """Send a fetch, which names these partitions if the leader has to be told of them. Raises Disconnected."""
        assert self._fetching is not None
        session = self._session
        request = session.next_request(named)
        timeout_ms = request.max_wait_ms + _TIMEOUT_MS
        connection.ask_in_turn(request, session.version, self._answered, self._fetching, timeout_ms=timeout_ms)

    def _answered(self, response: FetchResponse) -> None:
        """Take an answer and send the next fetch; where that is not all, leave the rest to the task."""
        fetching, connection = self._fetching, self._connection
        assert fetching is not None
        assert connection is not None
        try:
            rest = self._take(response)
            if rest is not None:
                fetching.set_result(rest)
            else:
                self._ask(connection, self._answered_about if self._session.is_open else self._asked.values())
        except Exception as error:
            fetching.set_exception(error)

    async def _connected(self) -> Connection:
        if self._connection is None or not self._connection.is_open:
            await self._disconnect()
            config = self._config.current
            settings = inter_broker_connection(config, f"broker-{config.node_id}-fetcher-0")
            leader, address = self._reachable_leader()
            connection = await Connection.open(address, settings._replace(connector=leader.connect))
            if self._is_stopped:  # wait_for of Python 3.11 forgets a cancellation that comes with what it waits for
                await connection.close()
                raise asyncio.CancelledError
            try:
                self._reachable_leader()  # it may have been cut off meanwhile
            except Disconnected:
                await connection.close()
                raise
            self._connection = connection
        return self._connection

    def _reachable_leader(self) -> tuple[BrokerHandle, Address]:
        """The leader and its address. Raises Disconnected."""
        leader = self._manager.peers.get(self._leader)
        address = None if leader is None else leader.address_for_brokers
        if leader is None or address is None:
            raise Disconnected(f"broker {self._leader} is not there")
        return leader, Address(*address)

    async def _disconnect(self) -> None:
        """Hang up; the next connection begins a new session."""
        self._session.end(self._partitions.values())
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def _version_for(self, connection: Connection) -> int:
        newest = self._manager.max_fetch_version
        version = connection.version_for(FetchRequest)
        return version if newest is None else min(version, newest)

    # --- what comes back

    def _take(self, response: FetchResponse) -> _Rest | None:
        """Append what an answer brought, and return what else there is to do before the next fetch; None for
        nothing."""
        rest = None
        if response.error_code:
            return _Rest(response.error_code)
        self._answered_about = answered_about = []
        self._session.accepted(response.session_id)
        for topic in response.responses:
            known = None if topic.topic else self._manager.controller.topic_by_id(topic.topic_id)
            name = topic.topic if known is None else known.name
            for partition in topic.partitions:
                key = (name, partition.partition_index)
                followed = self._asked.get(key)
                if followed is None or self._partitions.get(followed.topic_partition) is not followed:
                    self._session.forget(topic.topic_id, TopicPartition(*key))  # another broker leads it by now
                    continue
                answered_about.append(followed)
                if partition.error_code == OffsetOutOfRange.code or partition.diverging_epoch is not None:
                    rest = rest or _Rest(NONE)
                    rest.diverging.append((followed, partition))
                    continue
                start = followed.log.log_start_offset
                deletions: _Deletions = []
                try:
                    self._follow(followed, partition, deletions)
                except (KafkaError, OSError) as error:
                    self._delay(followed, error)
                if deletions or followed.log.log_start_offset > start:
                    rest = rest or _Rest(NONE)
                    rest.has_deleted |= followed.log.log_start_offset > start
                    rest.deletions += deletions
        if rest is None and (self._has_paused or not self._partitions):
            return _Rest(NONE)  # the task waits for what there is to fetch
        return rest

    async def _finish(self, rest: _Rest) -> None:
        """Do what an answer has left to be done."""
        if rest.error_code:
            if rest.error_code not in _LOST_SESSION:
                log.warning("broker %d refuses to be followed: error %d", self._leader, rest.error_code)
                await self._pause()
            self._session.end(self._partitions.values())
            return
        has_deleted = rest.has_deleted
        for followed, partition in rest.diverging:
            start = followed.log.log_start_offset
            try:
                await self._truncate(followed, partition)
            except (KafkaError, OSError) as error:
                self._delay(followed, error)
            has_deleted = has_deleted or followed.log.log_start_offset > start
        if has_deleted:  # the next fetch tells the leader of it, and after that it must stay so
            await self._manager.maintenance.log_start_checkpoint.write()
        for followed, delete_files in rest.deletions:
            if self._partitions.get(followed.topic_partition) is followed:
                try:
                    delete_files()
                except KafkaError as error:
                    self._delay(followed, error)
                self._manager.maintenance.offsets_changed(followed.topic_partition)

    def _delay(self, followed: FollowedPartition, error: Exception) -> None:
        """Fetch it no more for a while."""
        self._has_paused = True
        level = logging.INFO if isinstance(error, (FencedLeaderEpoch, UnknownLeaderEpoch)) else logging.WARNING
        log.log(level, "following %s at broker %d: %s", followed.topic_partition, self._leader, error)
        now_ms = self._clock.liveness_ms()
        followed.paused_until_ms = now_ms + self._config.current.replica_fetch_backoff_ms
        if followed.named is not None:  # else the leader would send the same again at once
            self._session.forget(followed.log.topic_id, followed.topic_partition)
        followed.named = None

    def _follow(
        self, followed: FollowedPartition, partition: FetchResponse.Topic.Partition, deletions: _Deletions
    ) -> None:
        """Append what the leader has sent for a partition, and follow its log start. Raises KafkaError.

        Adds to `deletions` the step that is to follow the checkpoint (storage/deletion.py).
        """
        if partition.error_code:
            check(partition.error_code)
        partition_log = followed.log
        start = max(partition.log_start_offset, partition_log.log_start_offset)
        if partition.records:
            begin_with_batch(partition_log, partition)
            try:
                partition_log.append_as_follower(
                    partition.records, now_ms=self._clock.now_ms(), leader_epoch=followed.leader_epoch
                )
            except (KafkaError, OSError):
                if partition_log.log_end_offset < start:  # it was emptied for the batch, and began at `start` before
                    partition_log.truncate_fully_and_start_at(start)
                raise
            self._manager.metrics.replication_bytes_in += len(partition.records)
        followed.lag = max(partition.high_watermark - partition_log.log_end_offset, 0)
        partition_log.update_high_watermark(partition.high_watermark)
        if start > partition_log.log_start_offset:
            delete_records_below(
                partition_log,
                min(start, partition_log.high_watermark),
                lambda delete_files: deletions.append((followed, delete_files)),
            )
        followed.knows_log_start = partition_log.log_start_offset >= start
        self._manager.maintenance.offsets_changed(followed.topic_partition)

    async def _truncate(self, followed: FollowedPartition, answer: FetchResponse.Topic.Partition) -> None:
        """Truncate its log, unless the broker follows another leader by then, or leads itself. Raises KafkaError."""
        truncate = partial(
            self._manager.cleaner.truncate,
            followed.topic_partition,
            is_wanted=lambda: self._partitions.get(followed.topic_partition) is followed,
        )
        await truncate_to_leader(followed.log, answer, truncate, partial(self._leader_offset, followed))

    async def _leader_offset(self, followed: FollowedPartition, landmark: int) -> int:
        connection = await self._connected()
        name, number = followed.topic_partition
        Topic = ListOffsetsRequest.Topic
        request = ListOffsetsRequest(
            replica_id=self._config.current.node_id,
            topics=[
                Topic(
                    name=name,
                    partitions=[
                        Topic.Partition(
                            partition_index=number, current_leader_epoch=followed.leader_epoch, timestamp=landmark
                        )
                    ],
                )
            ],
        )
        response = await connection.send(request, timeout_ms=_TIMEOUT_MS)
        partition = response.topics[0].partitions[0]
        check(partition.error_code)
        return int(partition.offset)
