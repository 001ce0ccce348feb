"""The requests of transactions on the wire: codes by version, in Kafka's order of checks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import Broker
from kmini.broker.controller import topics
from kmini.protocol.errors import (
    NONE,
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    IllegalGeneration,
    InvalidGroupId,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidRegularExpression,
    InvalidRequest,
    InvalidTxnState,
    OffsetMetadataTooLarge,
    OperationNotAttempted,
    ProducerFenced,
    TopicAuthorizationFailed,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
    TransactionalIdNotFound,
    TransactionCoordinatorFenced,
    UnknownMemberId,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
)
from kmini.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kmini.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, TxnTopic
from kmini.protocol.messages.delete_groups import DeleteGroupsRequest
from kmini.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kmini.protocol.messages.end_txn import EndTxnRequest
from kmini.protocol.messages.find_coordinator import GROUP, TRANSACTION, FindCoordinatorRequest
from kmini.protocol.messages.init_producer_id import InitProducerIdRequest
from kmini.protocol.messages.list_transactions import ListTransactionsRequest
from kmini.protocol.messages.offset_commit import OffsetCommitRequest
from kmini.protocol.messages.offset_fetch import OffsetFetchRequest
from kmini.protocol.messages.produce import ProduceRequest
from kmini.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kmini.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition

Ask = Callable[..., Awaitable[Any]]


class Client:
    """A transactional producer, a request at a time."""

    def __init__(self, broker: Broker, ask: Ask, name: str = "t") -> None:
        self.broker, self.name = broker, name
        self._ask = ask
        self.producer_id = self.epoch = -1
        self._sequence = 0

    async def ask(self, request: Any, version: int | None = None) -> Any:
        return await self._ask(self.broker, request, version)

    @property
    def _identity(self) -> dict[str, Any]:
        return {"transactional_id": self.name, "producer_id": self.producer_id, "producer_epoch": self.epoch}

    async def init(self, version: int = 5, **fields: Any) -> Any:
        request = InitProducerIdRequest(**{"transactional_id": self.name, "transaction_timeout_ms": 60_000, **fields})
        answer = await self.ask(request, version)
        if not answer.error_code:
            self.producer_id, self.epoch, self._sequence = answer.producer_id, answer.producer_epoch, 0
        return answer

    async def add(self, *partitions: int, topic: str = "orders", version: int = 3, **fields: Any) -> list[int]:
        """The codes of the partitions."""
        asked = [TxnTopic(name=topic, partitions=list(partitions or (0,)))]
        if version < 4:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.name,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=fields.get("epoch", self.epoch),
                v3_and_below_topics=asked,
            )
            (result,) = (await self.ask(request, version)).results_by_topic_v3_and_below
        else:
            transaction = AddPartitionsToTxnRequest.Transaction(topics=asked, **{**self._identity, **fields})
            answer = await self.ask(AddPartitionsToTxnRequest(transactions=[transaction]), version)
            assert answer.error_code == NONE
            assert answer.results_by_transaction[0].transactional_id == self.name
            (result,) = answer.results_by_transaction[0].topic_results
        return [one.partition_error_code for one in result.results_by_partition]

    async def end(self, version: int = 4, *, committed: bool = True, **fields: Any) -> int:
        request = EndTxnRequest(committed=committed, **{**self._identity, **fields})
        return int((await self.ask(request, version)).error_code)

    async def produce(self, *, version: int = 11, transactional: bool = True, **fields: Any) -> Any:
        """The answer for partition 0."""
        batch = build_batch(
            [Record(0, 1, None, b"v")],
            producer_id=self.producer_id,
            producer_epoch=fields.pop("epoch", self.epoch),
            base_sequence=self._sequence,
            transactional=transactional,
        )
        request = ProduceRequest(
            transactional_id=fields.pop("transactional_id", self.name),
            acks=-1,
            timeout_ms=1000,
            topic_data=[
                ProduceRequest.Topic(
                    name="orders", partition_data=[ProduceRequest.Partition(index=0, records=bytes(batch))]
                )
            ],
        )
        (topic,) = (await self.ask(request, version)).responses
        (answer,) = topic.partition_responses
        self._sequence += answer.error_code == NONE
        return answer

    async def add_offsets(self, group: str = "g", version: int = 4, **fields: Any) -> int:
        request = AddOffsetsToTxnRequest(group_id=group, **{**self._identity, **fields})
        return int((await self.ask(request, version)).error_code)

    async def commit_offset(
        self,
        offset: int,
        *,
        group: str = "g",
        version: int = 4,
        topic: str = "orders",
        metadata: str = "",
        **fields: Any,
    ) -> int:
        request = TxnOffsetCommitRequest(
            group_id=group,
            topics=[
                TxnOffsetCommitRequest.Topic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequest.Partition(
                            partition_index=0, committed_offset=offset, committed_metadata=metadata
                        )
                    ],
                )
            ],
            **{**self._identity, **fields},
        )
        (topic_answer,) = (await self.ask(request, version)).topics
        return int(topic_answer.partitions[0].error_code)

    async def commit_plainly(self, offset: int, group: str = "g") -> int:
        Partition = OffsetCommitRequest.Partition
        committed = Partition(partition_index=0, committed_offset=offset, committed_metadata="")
        topic = OffsetCommitRequest.Topic(name="orders", partitions=[committed])
        answer = await self.ask(OffsetCommitRequest(group_id=group, topics=[topic]), 8)
        return int(answer.topics[0].partitions[0].error_code)

    async def committed(self, group: str = "g", *, stable: bool = False) -> tuple[int, int]:
        """The code and the offset of partition 0."""
        topic = OffsetFetchRequest.Topic(name="orders", partition_indexes=[0])
        request = OffsetFetchRequest(group_id=group, topics=[topic], require_stable=stable)
        (answer,) = (await self.ask(request, 7)).topics[0].partitions
        return answer.error_code, answer.committed_offset


@pytest.fixture
async def client(broker: Broker, ask: Ask) -> Client:
    topics.create(broker, "orders", partitions=2)
    for key_type in (GROUP, TRANSACTION):
        await ask(broker, FindCoordinatorRequest(key="g", key_type=key_type), 3)
    return Client(broker, ask)


# --- InitProducerId


@pytest.mark.parametrize("version", range(6))
async def test_every_init_raises_the_epoch(client: Client, version: int) -> None:
    first = await client.init(version)
    assert (first.error_code, first.producer_epoch) == (NONE, 0)
    second = await client.init(version)
    assert (second.producer_id, second.producer_epoch) == (first.producer_id, 1)


@pytest.mark.parametrize("version", range(3, 6))
async def test_a_stale_identity_is_fenced_by_its_name(client: Client, version: int) -> None:
    await client.init()
    for epoch in range(1, 3):
        await client.init()
        assert client.epoch == epoch
    refused = await client.init(version, producer_id=client.producer_id, producer_epoch=0)
    assert refused.error_code == (InvalidProducerEpoch if version == 3 else ProducerFenced).code
    assert (refused.producer_id, refused.producer_epoch) == (-1, -1)


# --- AddPartitionsToTxn


@pytest.mark.parametrize("version", range(6))
async def test_partitions_are_added(client: Client, version: int) -> None:
    await client.init()
    assert await client.add(0, 1, version=version) == [NONE, NONE]


@pytest.mark.parametrize("version", range(6))
async def test_one_that_there_is_not_has_all_refused(client: Client, version: int) -> None:
    await client.init()
    assert await client.add(0, 7, 1, version=version) == [
        OperationNotAttempted.code,
        UnknownTopicOrPartition.code,
        OperationNotAttempted.code,
    ]
    assert client.broker.transactions.transactions["t"].entry.state.wire_name == "Empty"


async def test_clients_do_not_add_internal_partitions(client: Client) -> None:
    await client.init()
    assert await client.add(0, topic="__consumer_offsets") == [TopicAuthorizationFailed.code]
    assert await client.add(0, topic="__consumer_offsets", version=4) == [NONE]


async def test_what_is_pending_goes_with_its_topic(client: Client) -> None:
    await client.init()
    await client.add_offsets()
    assert await client.commit_offset(7) == NONE
    topics.delete(client.broker, "orders")
    topics.create(client.broker, "orders", partitions=2)
    await client.end()
    assert await client.committed(stable=True) == (NONE, -1)


@pytest.mark.parametrize("version", range(4))
async def test_a_wrong_epoch_is_called_by_what_the_version_knows(client: Client, version: int) -> None:
    await client.init()
    error = InvalidProducerEpoch if version < 2 else ProducerFenced
    assert await client.add(version=version, epoch=9) == [error.code]
    assert await client.add_offsets(version=version, producer_epoch=9) == error.code
    assert await client.end(version, producer_epoch=9) == error.code


@pytest.mark.parametrize("version", [4, 5])
async def test_brokers_may_only_ask(client: Client, version: int) -> None:
    await client.init()
    assert await client.add(0, version=version, verify_only=True) == [TransactionAbortable.code]
    await client.add(0)
    assert await client.add(0, 1, version=version, verify_only=True) == [NONE, TransactionAbortable.code]


async def test_nobody_and_strangers(client: Client) -> None:
    somebody = {"producer_id": 3, "producer_epoch": 0}
    assert await client.end(**somebody) == InvalidProducerIdMapping.code
    assert await client.end(transactional_id="", **somebody) == InvalidRequest.code
    assert await client.add_offsets(transactional_id="", **somebody) == InvalidRequest.code


# --- EndTxn


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("committed", [True, False])
async def test_a_transaction_ends_once_and_may_be_ended_so_again(client: Client, version: int, committed: bool) -> None:
    await client.init()
    assert await client.end(version, committed=committed) == InvalidTxnState.code
    await client.add()
    assert await client.end(version, committed=committed) == NONE
    assert await client.end(version, committed=committed) == NONE
    assert await client.end(version, committed=not committed) == InvalidTxnState.code


# --- Produce


@pytest.mark.parametrize("version", [3, 10, 11])
async def test_produce_outside_of_a_transaction_is_refused(client: Client, version: int) -> None:
    await client.init()
    error = TransactionAbortable if version >= 11 else InvalidTxnState
    refused = await client.produce(version=version)
    assert (refused.error_code, refused.base_offset) == (error.code, -1)
    await client.add()
    assert (await client.produce(version=version)).error_code == NONE
    assert (await client.produce(version=version, transactional=False)).error_code == InvalidTxnState.code


async def test_a_transactional_batch_needs_a_transactional_id(client: Client) -> None:
    await client.init()
    await client.add()
    refused = await client.produce(transactional_id=None)
    assert refused.error_code == TransactionalIdAuthorizationFailed.code


async def test_the_transactional_id_must_be_the_producers(client: Client, ask: Ask) -> None:
    await client.init()
    await client.add()
    other = Client(client.broker, ask, "other")
    await other.init()
    refused = await client.produce(transactional_id="other")
    assert refused.error_code == InvalidProducerIdMapping.code


async def test_two_producers_in_one_request_are_refused(client: Client, ask: Ask) -> None:
    batches = [
        build_batch([Record(0, 1, None, b"v")], producer_id=one, producer_epoch=0, base_sequence=0, transactional=True)
        for one in (1, 2)
    ]
    partitions = [ProduceRequest.Partition(index=index, records=bytes(batch)) for index, batch in enumerate(batches)]
    request = ProduceRequest(
        transactional_id="t",
        acks=1,
        timeout_ms=1000,
        topic_data=[ProduceRequest.Topic(name="orders", partition_data=partitions)],
    )
    (topic,) = (await client.ask(request, 11)).responses
    assert [one.error_code for one in topic.partition_responses] == [InvalidProducerIdMapping.code] * 2


async def test_a_fenced_producers_batch_has_an_old_epoch(client: Client) -> None:
    await client.init()
    await client.add()
    await client.produce()
    zombie = client.epoch
    assert (await client.init()).error_code == ConcurrentTransactions.code
    await client.init()
    assert (await client.produce(epoch=zombie)).error_code == InvalidProducerEpoch.code


# --- WriteTxnMarkers


def markers(client: Client, *partitions: int, committed: bool = False, **fields: Any) -> WriteTxnMarkersRequest:
    Marker = WriteTxnMarkersRequest.Marker
    topic = Marker.Topic(name="orders", partition_indexes=list(partitions))
    return WriteTxnMarkersRequest(
        markers=[
            Marker(
                **{
                    "producer_id": client.producer_id,
                    "producer_epoch": client.epoch,
                    "transaction_result": committed,
                    "topics": [topic],
                    "coordinator_epoch": 0,
                    **fields,
                }
            )
        ]
    )


async def write(client: Client, request: WriteTxnMarkersRequest, version: int = 2) -> list[int]:
    (marker,) = (await client.ask(request, version)).markers
    assert marker.producer_id == request.markers[0].producer_id
    return [partition.error_code for topic in marker.topics for partition in topic.partitions]


@pytest.mark.parametrize("version", range(3))
async def test_an_administrator_ends_a_hanging_transaction(client: Client, version: int) -> None:
    await client.init()
    await client.add()
    await client.produce()
    log = client.broker.partitions[TopicPartition("orders", 0)].log
    assert log.last_stable_offset == 0
    assert await write(client, markers(client, 0, 5), version) == [NONE, UnknownTopicOrPartition.code]
    assert log.last_stable_offset == 2


async def test_markers_of_older_epochs_are_refused(client: Client) -> None:
    await client.init()
    await client.init()
    await client.add()
    await client.produce()
    assert await write(client, markers(client, 0, producer_epoch=0)) == [InvalidProducerEpoch.code]
    assert await write(client, markers(client, 0, coordinator_epoch=5)) == [NONE]
    assert await write(client, markers(client, 0, coordinator_epoch=4)) == [TransactionCoordinatorFenced.code]


async def test_in_the_second_version_a_marker_has_the_next_epoch(client: Client) -> None:
    await client.init()
    await client.add()
    await client.produce()
    two = {"transaction_version": 2}
    assert await write(client, markers(client, 0, **two)) == [InvalidProducerEpoch.code]
    assert await write(client, markers(client, 0, producer_epoch=1, **two)) == [NONE]
    assert await write(client, markers(client, 0, producer_epoch=1, **two)) == [NONE]  # once more changes nothing
    assert await write(client, markers(client, 0, producer_epoch=0, **two)) == [InvalidProducerEpoch.code]


# --- offsets


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("committed", [True, False])
async def test_offsets_count_when_the_transaction_has_ended(client: Client, version: int, committed: bool) -> None:
    assert await client.commit_plainly(3) == NONE
    await client.init()
    assert await client.add_offsets() == NONE
    assert await client.commit_offset(7, version=version) == NONE
    assert await client.committed() == (NONE, 3)
    assert await client.committed(stable=True) == (UnstableOffsetCommit.code, -1)
    assert await client.end(committed=committed) == NONE
    assert await client.committed(stable=True) == (NONE, 7 if committed else 3)


async def test_what_is_written_last_counts(client: Client) -> None:
    await client.init()
    await client.add_offsets()
    assert await client.commit_offset(7) == NONE
    assert await client.commit_plainly(9) == NONE
    assert await client.committed(stable=True) == (UnstableOffsetCommit.code, -1)
    await client.end()
    assert await client.committed(stable=True) == (NONE, 9)


async def test_of_two_transactions_the_later_commit_counts_whichever_ends_first(client: Client, ask: Ask) -> None:
    other = Client(client.broker, ask, "other")
    for one in (client, other):
        await one.init()
        await one.add_offsets()
    assert await client.commit_offset(7) == NONE
    assert await other.commit_offset(8) == NONE
    await other.end()
    await client.end()
    assert await client.committed(stable=True) == (NONE, 8)


@pytest.mark.parametrize("version", [3, 4])
async def test_offsets_need_their_partition_in_the_transaction(client: Client, version: int) -> None:
    await client.init()
    error = TransactionAbortable if version >= 4 else InvalidTxnState
    assert await client.commit_offset(7, version=version) == error.code
    assert await client.commit_offset(7, version=version, producer_epoch=5) == InvalidProducerEpoch.code
    await client.add_offsets()
    await client.end()
    assert await client.commit_offset(7, version=version) == error.code


async def test_a_commit_while_the_last_transaction_is_ended_has_to_come_again(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.init()
    await client.add_offsets()
    monkeypatch.setattr(client.broker.transactions.markers, "send", lambda _: None)
    await client.end()
    assert await client.commit_offset(7) == CoordinatorNotAvailable.code


async def test_who_commits_in_a_transaction_is_fenced_by_the_group(client: Client) -> None:
    await client.init()
    await client.add_offsets()
    assert await client.commit_offset(7, generation_id=4, member_id="m") == IllegalGeneration.code
    assert await client.commit_offset(7) == NONE  # which makes the group
    assert await client.commit_offset(7, generation_id=4, member_id="m") == UnknownMemberId.code


async def test_a_partition_that_there_is_not_is_refused_by_itself(client: Client) -> None:
    await client.init()
    await client.add_offsets()
    assert await client.commit_offset(7, topic="nothing") == UnknownTopicOrPartition.code
    assert await client.commit_offset(7, metadata="x" * 5000) == OffsetMetadataTooLarge.code
    assert await client.commit_offset(7, group="g" * 0x8000) == InvalidGroupId.code
    assert await client.committed(stable=True) == (NONE, -1)


@pytest.mark.parametrize("committed", [True, False])
async def test_what_is_pending_is_pending_after_a_restart(start_broker: Any, client: Client, committed: bool) -> None:
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


async def test_what_is_superseded_is_so_after_a_restart(start_broker: Any, client: Client) -> None:
    await client.init()
    await client.add_offsets()
    await client.commit_offset(7)
    await client.commit_plainly(9)
    await client.broker.stop()
    client.broker = await start_broker()
    assert await client.committed(stable=True) == (UnstableOffsetCommit.code, -1)
    await client.end()
    assert await client.committed(stable=True) == (NONE, 9)


async def test_a_group_that_is_deleted_takes_with_it_what_is_pending(start_broker: Any, client: Client) -> None:
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


# --- DescribeTransactions, ListTransactions


async def test_a_transaction_is_described(client: Client) -> None:
    await client.init()
    await client.add(1, 0)
    request = DescribeTransactionsRequest(transactional_ids=["t", "nobody", "", "t", "t"])
    described, unknown, nameless = (await client.ask(request)).transaction_states
    assert (described.transaction_state, described.transaction_timeout_ms) == ("Ongoing", 60_000)
    assert (described.producer_id, described.producer_epoch) == (client.producer_id, client.epoch)
    assert [(topic.topic, topic.partitions) for topic in described.topics] == [("orders", [0, 1])]
    assert described.transaction_start_time_ms > 0
    assert (unknown.error_code, nameless.error_code) == (TransactionalIdNotFound.code, InvalidRequest.code)
    assert unknown.transactional_id == "nobody"


async def test_transactions_are_listed_by_filters(client: Client, ask: Ask) -> None:
    other = Client(client.broker, ask, "other")
    await client.init()
    await other.init()
    await client.add()

    async def listed(version: int = 1, **filters: Any) -> list[str]:
        answer = await client.ask(ListTransactionsRequest(**filters), version)
        return sorted(one.transactional_id for one in answer.transaction_states)

    assert await listed() == ["other", "t"]
    assert await listed(state_filters=["Ongoing"]) == ["t"]
    assert await listed(state_filters=["Nonsense"]) == []
    assert await listed(producer_id_filters=[other.producer_id]) == ["other"]
    assert await listed(duration_filter=3_600_000) == ["other"]  # as if it had begun long ago
    assert await listed(2, transactional_id_pattern="o.*r") == ["other"]
    assert await listed(2, transactional_id_pattern="o") == []
    answer = await client.ask(ListTransactionsRequest(state_filters=["Nonsense", "Empty"]), 0)
    assert answer.unknown_state_filters == ["Nonsense"]
    answer = await client.ask(ListTransactionsRequest(transactional_id_pattern="("), 2)
    assert answer.error_code == InvalidRegularExpression.code
