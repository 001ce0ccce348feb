"""TxnOffsetCommit: offsets count when their transaction has ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.protocol.errors import (
    NONE,
    ConcurrentTransactions,
    IllegalGeneration,
    InvalidGroupId,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    OffsetMetadataTooLarge,
    UnknownMemberId,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
)
from kmini.protocol.messages.delete_groups import DeleteGroupsRequest
from kmini.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from support.broker.txn_client import TxnClient

EXAMPLE = TxnOffsetCommitRequest(
    transactional_id="payments",
    group_id="readers",
    producer_id=1,
    producer_epoch=0,
    topics=[
        TxnOffsetCommitRequest.Topic(
            name="orders",
            partitions=[
                TxnOffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=1, committed_metadata=None)
            ],
        )
    ],
)

Ask = Callable[..., Awaitable[Any]]


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("committed", [True, False])
async def test_offsets_count_when_the_transaction_has_ended(client: TxnClient, version: int, committed: bool) -> None:
    assert await client.commit_plainly(3) == NONE
    await client.init()
    assert await client.add_offsets() == NONE
    assert await client.commit_offset(7, version=version) == NONE
    assert await client.committed() == (NONE, 3)
    assert await client.committed(stable=True) == (UnstableOffsetCommit.code, -1)
    assert await client.end(committed=committed) == NONE
    assert await client.committed(stable=True) == (NONE, 7 if committed else 3)


async def test_what_is_written_last_counts(client: TxnClient) -> None:
    await client.init()
    await client.add_offsets()
    assert await client.commit_offset(7) == NONE
    assert await client.commit_plainly(9) == NONE
    assert await client.committed(stable=True) == (UnstableOffsetCommit.code, -1)
    await client.end()
    assert await client.committed(stable=True) == (NONE, 9)


async def test_of_two_transactions_the_later_commit_counts_whichever_ends_first(client: TxnClient, ask: Ask) -> None:
    other = TxnClient(client.broker, ask, "other")
    for one in (client, other):
        await one.init()
        await one.add_offsets()
    assert await client.commit_offset(7) == NONE
    assert await other.commit_offset(8) == NONE
    await other.end()
    await client.end()
    assert await client.committed(stable=True) == (NONE, 8)


async def test_a_commit_while_the_last_transaction_is_ended_has_to_come_again(
    client: TxnClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.init()
    await client.add_offsets()
    monkeypatch.setattr(client.broker.transactions.completion, "start", lambda _: None)
    await client.end()
    assert await client.commit_offset(7) == ConcurrentTransactions.code


async def test_the_group_fences_a_member_that_commits_in_a_transaction(client: TxnClient) -> None:
    await client.init()
    await client.add_offsets()
    assert await client.commit_offset(7, generation_id=4, member_id="m") == IllegalGeneration.code
    assert await client.commit_offset(7) == NONE  # which makes the group
    assert await client.commit_offset(7, generation_id=4, member_id="m") == UnknownMemberId.code


async def test_a_partition_that_there_is_not_is_refused_by_itself(client: TxnClient) -> None:
    await client.init()
    await client.add_offsets()
    assert await client.commit_offset(7, topic="nothing") == UnknownTopicOrPartition.code
    assert await client.commit_offset(7, metadata="x" * 5000) == OffsetMetadataTooLarge.code
    assert await client.commit_offset(7, group="g" * 0x8000) == InvalidGroupId.code
    assert await client.committed(stable=True) == (NONE, -1)


@pytest.mark.parametrize("committed", [True, False])
async def test_what_is_pending_is_pending_after_a_restart(
    start_broker: Any, client: TxnClient, committed: bool
) -> None:
    await client.init()
    await client.add_offsets()
    await client.commit_plainly(3)
    await client.commit_offset(7)
    await client.broker.stop()
    client.broker = await start_broker()
    assert await client.committed(stable=True) == (UnstableOffsetCommit.code, -1)
    assert await client.end(committed=committed) == NONE
    assert await client.committed(stable=True) == (NONE, 7 if committed else 3)
    await client.broker.stop()
    client.broker = await start_broker()
    assert await client.committed(stable=True) == (NONE, 7 if committed else 3)


async def test_what_is_superseded_is_so_after_a_restart(start_broker: Any, client: TxnClient) -> None:
    await client.init()
    await client.add_offsets()
    await client.commit_offset(7)
    await client.commit_plainly(9)
    await client.broker.stop()
    client.broker = await start_broker()
    assert await client.committed(stable=True) == (UnstableOffsetCommit.code, -1)
    await client.end()
    assert await client.committed(stable=True) == (NONE, 9)


async def test_a_group_that_is_deleted_takes_with_it_what_is_pending(start_broker: Any, client: TxnClient) -> None:
    await client.init()
    await client.add_offsets()
    await client.commit_offset(7)
    (deleted,) = (await client.ask(DeleteGroupsRequest(groups_names=["g"]))).results
    assert deleted.error_code == NONE
    assert await client.committed(stable=True) == (NONE, -1)
    await client.end()
    assert await client.committed(stable=True) == (NONE, -1)
    await client.broker.stop()
    client.broker = await start_broker()
    assert await client.committed(stable=True) == (NONE, -1)


async def test_in_version_5_the_partition_of_the_group_joins_the_transaction(client: TxnClient) -> None:
    await client.init()
    for epoch, committed in enumerate((True, False)):
        assert await client.commit_offset(7 + epoch, version=5) == NONE
        entry = client.broker.transactions.transactions["t"].entry
        assert (entry.state.wire_name, entry.client_version) == ("Ongoing", 2)
        assert {one.topic for one in entry.partitions} == {"__consumer_offsets"}
        assert await client.committed(stable=True) == (UnstableOffsetCommit.code, -1)
        assert (await client.end_raising_epoch(committed=committed))[0] == NONE
        assert await client.committed(stable=True) == (NONE, 7)


async def test_version_5_gives_the_errors_of_the_coordinator(
    client: TxnClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.init()
    assert await client.commit_offset(7, version=5, producer_epoch=9) == InvalidProducerEpoch.code
    assert await client.commit_offset(7, version=5, producer_id=99) == InvalidProducerIdMapping.code
    assert await client.commit_offset(7, version=5, transactional_id="unknown") == InvalidProducerIdMapping.code
    transaction = client.broker.transactions.transactions["t"]
    with monkeypatch.context() as patched:
        patched.setattr(transaction, "pending", transaction.entry.state)
        assert await client.commit_offset(7, version=5) == ConcurrentTransactions.code
    assert await client.commit_offset(7, version=5) == NONE
    await client.end_raising_epoch()
    assert await client.commit_offset(8, version=5, producer_epoch=0) == InvalidProducerEpoch.code
    assert await client.committed(stable=True) == (NONE, 7)
