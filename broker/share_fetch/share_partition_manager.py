"""The share partitions that this broker leads: their states are read and written, and their locks end (KIP-932).

A share partition is made when the first member fetches from it, and reads its state from its coordinator first. It goes
when the broker leads the partition no more, when a newer leader or a newer state has taken its place, and when the last
member of the group has gone from this broker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from ...protocol.errors import (
    FencedLeaderEpoch,
    FencedStateEpoch,
    InvalidRequest,
    KafkaError,
    NotLeaderOrFollower,
    UnknownTopicOrPartition,
)
from ...protocol.topics import TopicPartition
from ...storage.timestamp_search import batches_since
from ..api.error_mapping import kafka_error
from ..coordinators.background_writes import Writes
from ..replication.partition import check_topic_id
from ..settings.group_config import BY_DURATION, duration_ms
from ..share_state.persister import NO_OFFSET, SharePartitionKey
from .share_partition import Acknowledgement, Change, SharePartition

if TYPE_CHECKING:
    from ..clock import Timer
    from ..replication.partition import Partition
    from ..replication.replica_manager import ReplicaManager
    from ..settings.group_config import GroupConfig
    from ..share_state.persister import Persister

log = logging.getLogger("kmini.share_groups")


class LedSharePartition:
    """A share partition whose partition this broker leads. Belongs to the broker's loop."""

    def __init__(self, owner: SharePartitionManager, key: SharePartitionKey, partition: Partition) -> None:
        self.key = key
        self.partition = partition
        self.window: SharePartition | None = None
        """The records in flight; None until the state is read."""
        self._error: KafkaError | None = None
        self._owner = owner
        self._timer: Timer | None = None
        self._is_closed = False
        self._state_lock = owner.state_lock(key)
        """Held while the state is read or a change is written. A write that is tried again would come after a later
        one, and put back where the window begins and how much of it is done."""

    @property
    def config(self) -> GroupConfig:
        """The settings of the group."""
        return self._owner.settings(self.key.group_id)

    @property
    def error(self) -> KafkaError | None:
        """Why nothing can be acquired any more."""
        if self._error is None and (self._is_closed or not self.partition.is_served):
            return NotLeaderOrFollower(f"another leader or state has taken the place of {self.key}")
        return self._error

    # --- the state

    async def load(self) -> None:
        """Read the state."""
        try:
            async with self._state_lock:
                state = await self._owner.persister.read(self.key, self.partition.leader_epoch)
            start_offset = state.start_offset
            if start_offset == NO_OFFSET:
                start_offset = self._first_offset()
            self.window = SharePartition(state.state_epoch, start_offset, state.runs)
        except Exception as error:
            self.fail(_for_members(kafka_error(error, f"reading the state of {self.key}")))
        self._owner.changed(self)

    def fail(self, error: KafkaError) -> None:
        """Answer members with this error. The next fetch begins anew."""
        self._error = error
        self._owner.drop(self)

    def _first_offset(self) -> int:
        """Where a group begins to read (share.auto.offset.reset)."""
        partition_log, reset = self.partition.log, self.config.share_auto_offset_reset
        if reset == "earliest":
            return partition_log.log_start_offset
        if reset.startswith(BY_DURATION):
            since_ms = self._owner.now_ms() - (duration_ms(reset.removeprefix(BY_DURATION)) or 0)
            for batch in batches_since(partition_log, since_ms):
                found = batch.first_since(since_ms, partition_log.log_start_offset, self._owner.max_decompressed_bytes)
                if found is not None:
                    return min(found.offset, partition_log.high_watermark)
        return partition_log.high_watermark

    async def _store(self, change: Change) -> None:
        """Write what has changed. Raises the error that members are answered with."""
        window = self.window
        assert window is not None
        if not change:
            return
        try:
            async with self._state_lock:
                if self._is_closed:  # another one may have the state, and be in the same leader epoch
                    raise NotLeaderOrFollower(f"another one has taken the place of {self.key}")
                await self._owner.persister.write(
                    self.key,
                    state_epoch=window.state_epoch,
                    leader_epoch=self.partition.leader_epoch,
                    start_offset=window.start_offset,
                    delivery_complete_count=window.complete_count,
                    runs=[record.run for record in change],
                )
        except Exception as failure:
            error = kafka_error(failure, f"writing the state of {self.key}")
            if isinstance(error, (FencedLeaderEpoch, FencedStateEpoch, InvalidRequest, UnknownTopicOrPartition)):
                self._owner.drop(self)
            raise _for_members(error) from failure

    # --- what members do

    def lock_deadline_ms(self) -> int:
        """When a lock that begins now ends, in liveness time."""
        return self._owner.liveness_ms() + self.config.share_record_lock_duration_ms

    async def acknowledge(self, member_id: str, batches: Iterable[Acknowledgement]) -> None:
        """Acknowledge records. Raises InvalidRecordState, InvalidRequest, and what the persister does."""
        if self.window is None:
            raise UnknownTopicOrPartition("the group has acquired no record of this partition here")
        config = self.config
        renewed_until_ms = self.lock_deadline_ms() if config.share_renew_acknowledge_enable else None
        change = self.window.acknowledge(member_id, batches, config.share_delivery_count_limit, renewed_until_ms)
        await self._settle(change)

    async def release(self, member_id: str) -> None:
        """Release all that a member has acquired: its session has ended."""
        if self.window is None:
            return
        try:
            await self._settle(self.window.release(member_id, self.config.share_delivery_count_limit))
        except KafkaError as error:
            log.warning("%s: what %s had acquired stays locked for now: %s", self.key, member_id, error)

    async def _settle(self, change: Change) -> None:
        """Store a change, and let it count then; or take it back."""
        window = self.window
        assert window is not None
        try:
            await self._store(change)
        except BaseException:
            window.roll_back(change)
            raise
        else:
            window.commit(change)
        finally:
            self.set_timer()
            self._owner.changed(self)

    # --- locks

    def set_timer(self) -> None:
        """Wait for the end of the next lock."""
        assert self.window is not None
        if self._is_closed:
            return
        due_ms = self.window.next_deadline_ms
        if self._timer is not None:
            if due_ms is not None and self._timer.due_ms <= due_ms:
                return  # it looks again then
            self._timer.cancel()
            self._timer = None
        if due_ms is not None:
            self._timer = self._owner.call_at(due_ms, self._expire)

    def _expire(self) -> None:
        self._timer = None
        assert self.window is not None
        expired = self.window.expire(self._owner.liveness_ms(), self.config.share_delivery_count_limit)
        self.set_timer()
        if expired:
            self._owner.writes.start(self._store_expired(expired))
            self.window.commit([])
            self._owner.changed(self)

    async def _store_expired(self, expired: Change) -> None:
        try:
            await self._store(expired)
        except KafkaError as error:
            log.warning("%s: the end of a lock could not be stored: %s", self.key, error)

    def close(self) -> None:
        """Let nothing be acquired, and no lock end any more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class SharePartitionManager:
    """The share partitions of one broker. Belongs to the broker's loop."""

    def __init__(
        self, replica_manager: ReplicaManager, persister: Persister, settings: Callable[[str], GroupConfig]
    ) -> None:
        """`settings` gives those of a group id."""
        self.persister = persister
        self.settings = settings
        self.writes = Writes()
        self._replica_manager = replica_manager
        self._clock = replica_manager.clock
        self.now_ms = self._clock.now_ms
        self.liveness_ms = self._clock.liveness_ms
        self._by_key: dict[SharePartitionKey, LedSharePartition] = {}
        self._state_locks: WeakValueDictionary[SharePartitionKey, asyncio.Lock] = WeakValueDictionary()
        replica_manager.add_listener(self)

    @property
    def max_decompressed_bytes(self) -> int:
        """Bytes to which a batch may be decompressed."""
        return self._replica_manager.config.current.kmini_max_decompressed_message_bytes

    def state_lock(self, key: SharePartitionKey) -> asyncio.Lock:
        """The lock of a state: one that is opened anew is read after the last write of the former share partition."""
        return self._state_locks.setdefault(key, asyncio.Lock())

    def call_at(self, due_ms: int, callback: Callable[[], None]) -> Timer:
        """Call back at a time of liveness."""
        return self._clock.call_at(due_ms, callback, liveness=True)

    def get(self, key: SharePartitionKey) -> LedSharePartition | None:
        """The share partition, if it is there."""
        return self._by_key.get(key)

    def of_group(self, group_id: str) -> list[LedSharePartition]:
        """The share partitions of a group that are led here."""
        return [each for each in self._by_key.values() if each.key.group_id == group_id]

    def open(self, key: SharePartitionKey) -> LedSharePartition:
        """The share partition, which begins to read its state if it is new. Raises UnknownTopicId,
        UnknownTopicOrPartition, NotLeaderOrFollower."""
        led = self._by_key.get(key)
        if led is None or not led.partition.is_served:
            topic = self._replica_manager.topic_name(key.topic_id)
            partition = self._replica_manager.leader_of(TopicPartition(topic, key.partition))
            check_topic_id(partition.log, key.topic_id)
            led = self._by_key[key] = LedSharePartition(self, key, partition)
            self.writes.start(led.load())
        return led

    def drop(self, led: LedSharePartition) -> None:
        """Forget a share partition: the next fetch reads its state anew."""
        if self._by_key.get(led.key) is led:
            del self._by_key[led.key]
        led.close()

    def drop_group(self, group_id: str) -> None:
        """Forget the share partitions of a group that has no more members here."""
        for led in self.of_group(group_id):
            self.drop(led)

    def changed(self, led: LedSharePartition) -> None:
        """Look whether a fetch waits for what has become available."""
        self._replica_manager.purgatory.check(led.key)

    # --- leadership

    def became_leader(self, partition: Partition) -> None:
        """Nothing to do: members come."""

    def resigned(self, topic_partition: TopicPartition) -> None:
        for led in [each for each in self._by_key.values() if each.partition.topic_partition == topic_partition]:
            self.drop(led)
            self.changed(led)

    async def stop(self) -> None:
        """Forget everything, and wait for the writes in progress."""
        for led in [*self._by_key.values()]:
            self.drop(led)
        await self.writes.done()


def _for_members(error: KafkaError) -> KafkaError:
    """What members are told of an error of the persister: a leader that is fenced is none any more."""
    if isinstance(error, (FencedLeaderEpoch, FencedStateEpoch)):
        return NotLeaderOrFollower(f"another leader or state has taken its place: {error.message}")
    return error
