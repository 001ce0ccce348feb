"""The states of share partitions in `__share_group_state`: fences, snapshots, loading, deletion (KIP-932)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.controller import topics
from kmini.broker.share_state.persister import SharePartitionKey, Summary
from kmini.broker.share_state.share_coordinator import ShareCoordinator
from kmini.broker.share_state.share_group_state_records import (
    SNAPSHOT,
    UPDATE,
    ShareSnapshotValue,
    ShareUpdateValue,
    decode_key,
    encode_key,
)
from kmini.broker.share_state.share_partition_state import Run
from kmini.protocol.errors import (
    FencedLeaderEpoch,
    FencedStateEpoch,
    InvalidRequest,
    UnknownTopicOrPartition,
)
from kmini.protocol.topics import SHARE_GROUP_STATE
from support.broker.share_readers import ShareReaders
from support.until import until_async

MakeShareReaders = Callable[..., Awaitable[ShareReaders]]


@pytest.fixture
async def lab(make_share_readers: MakeShareReaders) -> ShareReaders:
    return await make_share_readers(share_coordinator_snapshot_update_records_per_snapshot=3)


@pytest.fixture
def key(lab: ShareReaders) -> SharePartitionKey:
    return SharePartitionKey("g", lab.topic_id, 0)


@pytest.fixture
def coordinator(lab: ShareReaders) -> ShareCoordinator:
    return lab.broker.share_coordinator


async def write(coordinator: ShareCoordinator, key: SharePartitionKey, *runs: Run, **fields: Any) -> None:
    await coordinator.write(
        key,
        **{
            "state_epoch": 1,
            "leader_epoch": 0,
            "start_offset": 0,
            "delivery_complete_count": 0,
            "runs": runs,
            **fields,
        },
    )


async def test_a_state_is_begun_written_read_and_deleted(
    lab: ShareReaders, coordinator: ShareCoordinator, key: SharePartitionKey
) -> None:
    assert await coordinator.summary(key, -1) == Summary(0, 0, -1, -1)
    await coordinator.initialize(key, 1, -1)
    assert await coordinator.summary(key, -1) == Summary(1, 0, -1, -1)
    await write(coordinator, key, Run(0, 4, 2, 1), start_offset=0, delivery_complete_count=5)
    state = await coordinator.read(key, 0)
    assert (state.state_epoch, state.start_offset, state.runs) == (1, 0, [Run(0, 4, 2, 1)])
    await coordinator.delete(key)
    await coordinator.delete(key)
    assert [type(value) for value in lab.stored()] == [ShareSnapshotValue, ShareUpdateValue, type(None)]
    with pytest.raises(InvalidRequest):
        await coordinator.read(key, 0)


async def test_older_leaders_and_states_are_fenced_also_where_a_state_began_anew(
    coordinator: ShareCoordinator, key: SharePartitionKey
) -> None:
    await coordinator.initialize(key, 2, 0)
    await coordinator.read(key, 5)
    with pytest.raises(FencedLeaderEpoch):
        await coordinator.read(key, 4)
    with pytest.raises(FencedLeaderEpoch):
        await write(coordinator, key, state_epoch=2, leader_epoch=4)
    with pytest.raises(FencedStateEpoch):
        await write(coordinator, key, state_epoch=1, leader_epoch=5)
    with pytest.raises(FencedStateEpoch):
        await coordinator.initialize(key, 1, 0)
    await coordinator.initialize(key, 3, 0)
    with pytest.raises(FencedLeaderEpoch):
        await coordinator.summary(key, 4)


async def test_a_partition_that_there_is_not_is_refused(coordinator: ShareCoordinator, key: SharePartitionKey) -> None:
    with pytest.raises(UnknownTopicOrPartition):
        await coordinator.initialize(key._replace(partition=1), 1, 0)
    with pytest.raises(UnknownTopicOrPartition):
        await coordinator.initialize(key._replace(topic_id=bytes(15) + b"\1"), 1, 0)
    with pytest.raises(InvalidRequest):
        await coordinator.initialize(key._replace(partition=-1), 1, 0)


async def test_after_so_many_updates_comes_a_snapshot_with_all_of_them(
    lab: ShareReaders, coordinator: ShareCoordinator, key: SharePartitionKey
) -> None:
    await coordinator.initialize(key, 1, 0)
    for offset in range(4):
        await write(coordinator, key, Run(offset, offset, 2, 1), delivery_complete_count=offset + 1)
    *updates, snapshot = lab.stored()[1:]
    assert [type(value) for value in updates] == [ShareUpdateValue] * 3
    assert isinstance(snapshot, ShareSnapshotValue)
    assert (snapshot.snapshot_epoch, snapshot.delivery_complete_count) == (1, 4)
    assert [(batch.first_offset, batch.last_offset) for batch in snapshot.state_batches] == [(0, 3)]


async def test_states_are_loaded_as_they_were(make_share_readers: MakeShareReaders) -> None:
    lab = await make_share_readers()
    keys = [SharePartitionKey(group, lab.topic_id, 0) for group in ("g", "h", "gone")]
    for key in keys:
        await lab.broker.share_coordinator.initialize(key, 1, 0)
        await lab.broker.share_coordinator.read(key, 3)
        await write(lab.broker.share_coordinator, key, Run(2, 2, 4, 1), start_offset=1, leader_epoch=3)
    await lab.broker.share_coordinator.delete(keys[-1])
    before = [await lab.broker.share_coordinator.summary(key, 3) for key in keys]
    await lab.broker.stop()
    again = await make_share_readers()
    await again.broker.coordination.loading.idle()
    coordinator = again.broker.share_coordinator
    assert [await coordinator.summary(key, 3) for key in keys] == before
    assert (await coordinator.read(keys[0], 3)).runs == [Run(2, 2, 4, 1)]


async def test_records_below_all_snapshots_are_deleted(
    lab: ShareReaders, coordinator: ShareCoordinator, key: SharePartitionKey
) -> None:
    await coordinator.initialize(key, 1, 0)
    await write(coordinator, key, Run(0, 0, 2, 1))
    await lab.clock.advance("10m")
    assert [type(value) for value in lab.stored()] == [ShareSnapshotValue]
    assert (await coordinator.read(key, 0)).runs == [Run(0, 0, 2, 1)]


async def test_the_states_of_a_deleted_topic_go(
    lab: ShareReaders, coordinator: ShareCoordinator, key: SharePartitionKey
) -> None:
    await coordinator.initialize(key, 1, 0)
    await topics.delete_all(lab.broker, [lab.broker.controller.topics["t"]])
    await until_async(lambda: lab.stored()[-1] is None)


@pytest.mark.parametrize("group", ["g", "a:b", "ü" * 100, ""])
def test_a_key_is_read_as_it_was_written(group: str) -> None:
    place = SharePartitionKey(group, bytes(range(16)), 7)
    assert [decode_key(encode_key(kind, place)) for kind in (SNAPSHOT, UPDATE)] == [(0, place), (1, place)]


def test_the_topic_is_kafkas(lab: ShareReaders) -> None:
    configs = lab.broker.controller.topics[SHARE_GROUP_STATE].configs
    assert {name: configs[name] for name in ("cleanup.policy", "retention.ms")} == {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
    }
