"""The share coordinator: the states of share partitions whose partition of `__share_group_state` this broker leads.

A leader of a partition that a share group reads asks it for the state, and writes there what it has answered members
with (KIP-932). Leaders and states are fenced by their epochs. A state is a snapshot and updates; after so many updates
(`share.coordinator.snapshot.update.records.per.snapshot`) comes the next snapshot. Records below all snapshots that
count are deleted from time to time (`prune`), because the topic is not compacted.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING

from ...protocol.errors import (
    FencedLeaderEpoch,
    FencedStateEpoch,
    InvalidRequest,
    KafkaError,
    UnknownTopicOrPartition,
)
from ...protocol.records.record import Record
from ...protocol.uuids import format_uuid
from ...storage.log import PartitionLog
from ..coordinators.background_writes import Writes
from ..coordinators.coordinator_topic import MAX_NAME_BYTES
from ..coordinators.internal_records import CorruptRecord, replayed
from .persister import NO_LEADER_EPOCH, NO_OFFSET, NOT_COUNTED, SharePartitionKey, StoredState, Summary
from .share_group_state_records import (
    SNAPSHOT,
    UPDATE,
    ShareSnapshotValue,
    ShareUpdateValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from .share_partition_state import Run, SharePartitionState, batches_of, merged

if TYPE_CHECKING:
    from ..clock import Clock
    from ..controller.controller import Controller
    from ..coordinators.coordinator_topic import AppendedBatch, Applied, CoordinatorTopic, KeyValue
    from ..coordinators.loader import Steps
    from ..replication.partition import Partition
    from ..settings.dynamic_config import DynamicBrokerConfig

log = logging.getLogger("kmini.share_groups")

UNINITIALIZED_EPOCH = 0
"""The leader epoch of a state that no leader has read."""


def coordinator_key(place: SharePartitionKey) -> str:
    """The key by which the coordinator of a share partition is found."""
    return f"{place.group_id}:{format_uuid(place.topic_id)}:{place.partition}"


class ShareCoordinator:
    """The states that this broker coordinates. Belongs to the broker's loop."""

    def __init__(
        self, config: DynamicBrokerConfig, clock: Clock, controller: Controller, topic: CoordinatorTopic
    ) -> None:
        self._config = config
        self._clock = clock
        self._controller = controller
        self._topic = topic
        self._states: dict[int, dict[SharePartitionKey, SharePartitionState]] = {}
        """By the number of the partition of `__share_group_state`."""
        self._writes = Writes()

    # --- life

    def load(self, partition: Partition) -> Steps:
        """Read the states of a partition that this broker leads from now on, in steps."""
        number = partition.topic_partition.partition
        states = self._states[number] = {}
        return self._topic.load(partition, _replay, lambda _, state: states.__setitem__(*state))

    def unload(self, number: int | None = None) -> None:
        """Forget the states of a partition that this broker leads no more, or all."""
        self._topic.forget(number)
        if number is None:
            self._states.clear()
        else:
            self._states.pop(number, None)

    async def stop(self) -> None:
        """Forget all states, and wait for the writes in progress."""
        self.unload()
        await self._writes.done()

    # --- requests

    async def initialize(self, place: SharePartitionKey, state_epoch: int, start_offset: int) -> None:
        """Begin a state, or begin it anew. Raises InvalidRequest, FencedStateEpoch, UnknownTopicOrPartition, and what
        `CoordinatorTopic.append` does."""
        state = self.state(place)
        _check_place(place)
        if state is not None and state_epoch < state.state_epoch:
            raise FencedStateEpoch(f"the state epoch is {state.state_epoch}, not {state_epoch}")
        self._check_exists(place)
        now_ms = self._clock.now_ms()
        await self._write_snapshot(
            place,
            ShareSnapshotValue(
                snapshot_epoch=0 if state is None else state.snapshot_epoch + 1,
                state_epoch=state_epoch,
                leader_epoch=UNINITIALIZED_EPOCH,
                start_offset=start_offset,
                delivery_complete_count=NOT_COUNTED if start_offset == NO_OFFSET else 0,
                create_timestamp=now_ms,
                write_timestamp=now_ms,
                state_batches=[],
            ),
        )

    async def read(self, place: SharePartitionKey, leader_epoch: int) -> StoredState:
        """The state, for the leader of this epoch, which is noted. Raises InvalidRequest if there is none,
        FencedLeaderEpoch, UnknownTopicOrPartition, and what `CoordinatorTopic.append` does."""
        state = self._known(place)
        self._check_leader(state, leader_epoch)
        self._check_exists(place)
        if leader_epoch > state.known_leader_epoch:
            await self._write_update(place, state, leader_epoch, state.start_offset, state.delivery_complete_count, [])
        return StoredState(state.state_epoch, state.start_offset, [*state.runs])

    async def write(
        self,
        place: SharePartitionKey,
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        runs: Collection[Run],
    ) -> None:
        """Write batches over the state; NO_OFFSET keeps the start offset. Raises InvalidRequest if there is no state,
        FencedLeaderEpoch, FencedStateEpoch, UnknownTopicOrPartition, and what `CoordinatorTopic.append` does."""
        state = self._known(place)
        self._check_leader(state, leader_epoch)
        if state_epoch != NO_LEADER_EPOCH and state_epoch < state.state_epoch:
            raise FencedStateEpoch(f"the state epoch is {state.state_epoch}, not {state_epoch}")
        self._check_exists(place)
        if leader_epoch == NO_LEADER_EPOCH:
            leader_epoch = state.leader_epoch
        await self._write_update(place, state, leader_epoch, start_offset, delivery_complete_count, runs)

    async def delete(self, place: SharePartitionKey) -> None:
        """Delete a state, if there is one. Raises InvalidRequest, UnknownTopicOrPartition, and what
        `CoordinatorTopic.append` does."""
        state = self.state(place)
        _check_place(place)
        self._check_exists(place)
        if state is not None:
            await self._delete(place)

    async def summary(self, place: SharePartitionKey, leader_epoch: int) -> Summary:
        """The state without its batches. Raises InvalidRequest, FencedLeaderEpoch, UnknownTopicOrPartition,
        NotCoordinator, CoordinatorLoadInProgress."""
        state = self.state(place)
        _check_place(place)
        if state is not None:
            self._check_leader(state, leader_epoch)
        self._check_exists(place)
        if state is None:
            return Summary(0, 0, NO_OFFSET, NOT_COUNTED)
        return Summary(state.state_epoch, state.leader_epoch, state.start_offset, state.delivery_complete_count)

    # --- checks

    def state(self, place: SharePartitionKey) -> SharePartitionState | None:
        """The state, if there is one. Raises NotCoordinator, CoordinatorLoadInProgress."""
        number = self._topic.partition_of(coordinator_key(place)).topic_partition.partition
        return self._states.get(number, {}).get(place)

    def _known(self, place: SharePartitionKey) -> SharePartitionState:
        state = self.state(place)
        _check_place(place)
        if state is None:
            raise InvalidRequest("the state of this share partition was not initialized")
        return state

    def _check_leader(self, state: SharePartitionState, leader_epoch: int) -> None:
        if leader_epoch != NO_LEADER_EPOCH and leader_epoch < state.known_leader_epoch:
            raise FencedLeaderEpoch(f"the leader epoch is {state.known_leader_epoch}, not {leader_epoch}")

    def _check_exists(self, place: SharePartitionKey) -> None:
        topic = self._controller.topic_by_id(place.topic_id)
        if topic is None or place.partition >= len(topic.partitions):
            raise UnknownTopicOrPartition("there is no such partition")

    # --- records

    async def _write_update(
        self,
        place: SharePartitionKey,
        state: SharePartitionState,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        runs: Iterable[Run],
    ) -> None:
        update = ShareUpdateValue(
            snapshot_epoch=state.snapshot_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=delivery_complete_count,
            state_batches=batches_of(merged([], runs, start_offset)),
        )
        if state.updates < self._config.current.share_coordinator_snapshot_update_records_per_snapshot:
            await self._append(place, (encode_key(UPDATE, place), encode_value(update)), lambda _: state.update(update))
            return
        following = state.copy()
        following.update(update)
        await self._write_snapshot(place, following.snapshot(self._clock.now_ms()))

    async def _write_snapshot(self, place: SharePartitionKey, snapshot: ShareSnapshotValue) -> None:
        record = encode_key(SNAPSHOT, place), encode_value(snapshot)
        await self._append(place, record, partial(self._take, place, snapshot))

    def _take(self, place: SharePartitionKey, snapshot: ShareSnapshotValue, written: AppendedBatch) -> None:
        states = self._states.setdefault(written.partition.topic_partition.partition, {})
        states[place] = SharePartitionState(snapshot, written.first_offset, states.get(place))

    async def _delete(self, place: SharePartitionKey) -> None:
        def applied(written: AppendedBatch) -> None:
            self._states.get(written.partition.topic_partition.partition, {}).pop(place, None)

        await self._append(place, (encode_key(SNAPSHOT, place), None), applied)

    async def _append(self, place: SharePartitionKey, record: KeyValue, applied: Applied) -> None:
        timeout_ms = self._config.current.share_coordinator_write_timeout_ms
        await self._topic.append(coordinator_key(place), [record], timeout_ms=timeout_ms, applied=applied)

    # --- housekeeping

    def forget_topics(self, topic_ids: Iterable[bytes]) -> None:
        """Delete the states of deleted topics, in the background."""
        deleted = {*topic_ids}
        for states in self._states.values():
            for place in [place for place in states if place.topic_id in deleted]:
                self._writes.start(self._forget(place))

    async def _forget(self, place: SharePartitionKey) -> None:
        try:
            await self._delete(place)
        except KafkaError as error:
            log.warning("the state of %s stays, though its topic was deleted: %s", place, error)

    def next_prune_ms(self) -> int | None:
        """The log time before which `prune` has no effect unless something is written; None if it never has one."""
        interval_ms = self._config.current.share_coordinator_cold_partition_snapshot_interval_ms
        times_ms = [
            min(state.write_timestamp_ms for state in states.values()) + interval_ms
            for number, states in self._states.items()
            if states and (partition := self._topic.led(number)) is not None and _may_shrink(partition.log, states)
        ]
        return min(times_ms, default=None)

    async def prune(self) -> None:
        """Write snapshots of states that have not been written to for long, so that the records before them are of no
        use; then delete what is below all snapshots."""
        cold_since_ms = (
            self._clock.now_ms() - self._config.current.share_coordinator_cold_partition_snapshot_interval_ms
        )
        for number, states in [*self._states.items()]:
            partition = self._topic.led(number)
            if partition is None or self._topic.is_loading(number):
                continue
            if _may_shrink(partition.log, states):
                for place, state in [*states.items()]:
                    if state.write_timestamp_ms <= cold_since_ms and states.get(place) is state:
                        await self._snapshot(place, state)
            if states and partition.is_served:
                first = min(state.snapshot_offset for state in states.values())
                if partition.log.log_start_offset < first < partition.log.high_watermark:  # the snapshot is replicated
                    partition.delete_records(first, lambda _: None)  # retention removes the files

    async def _snapshot(self, place: SharePartitionKey, state: SharePartitionState) -> None:
        try:
            await self._write_snapshot(place, state.snapshot(self._clock.now_ms()))
        except KafkaError as error:
            log.warning("no snapshot of %s could be written: %s", place, error)


def _may_shrink(partition_log: PartitionLog, states: Collection[SharePartitionKey]) -> bool:
    """Whether there are more records than one for each state."""
    return partition_log.log_end_offset - partition_log.log_start_offset > len(states)


def _check_place(place: SharePartitionKey) -> None:
    if not place.group_id or len(place.group_id.encode()) > MAX_NAME_BYTES:
        raise InvalidRequest(f"the name of a group has 1 to {MAX_NAME_BYTES} bytes")
    if place.partition < 0:
        raise InvalidRequest(f"there is no partition {place.partition}")


class _States:
    """A `Replay` that makes the states of the records. No transaction writes to the topic."""

    def __init__(self) -> None:
        self.states: dict[SharePartitionKey, SharePartitionState] = {}

    def add(self, key: bytes, record: Record) -> None:
        decoded = decode_key(key)
        if decoded is None:
            return
        place = decoded.place
        if record.value is None:
            self.states.pop(place, None)
            return
        value = decode_value(decoded.key_type, record.value)
        known = self.states.get(place)
        if isinstance(value, ShareSnapshotValue):
            self.states[place] = SharePartitionState(value, record.offset, known)
        elif known is not None and value.snapshot_epoch == known.snapshot_epoch:
            known.update(value)

    def add_pending(self, producer_id: int, key: bytes, record: Record) -> None:
        raise CorruptRecord("no transaction writes to this topic")

    def decide(self, producer_id: int, *, is_commit: bool) -> None:
        """Ignore the marker: no record is pending."""


def _replay(partition_log: PartitionLog, found: dict[str, tuple[SharePartitionKey, SharePartitionState]]) -> Steps:
    """Put the states of a partition into `found`, with the keys by which their coordinators are found."""
    states = _States()
    yield from replayed(partition_log, states)
    for place, state in states.states.items():
        found[coordinator_key(place)] = place, state
