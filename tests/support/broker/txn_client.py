"""A transactional producer that sends its requests one at a time to a broker's handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from kmini.broker.broker import BrokerServer
from kmini.protocol.errors import (
    NONE,
)
from kmini.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kmini.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, TxnTopic
from kmini.protocol.messages.end_txn import EndTxnRequest
from kmini.protocol.messages.init_producer_id import InitProducerIdRequest
from kmini.protocol.messages.offset_commit import OffsetCommitRequest
from kmini.protocol.messages.offset_fetch import OffsetFetchRequest
from kmini.protocol.messages.produce import ProduceRequest
from kmini.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record

Ask = Callable[..., Awaitable[Any]]


class TxnClient:
    """A transactional producer, a request at a time."""

    def __init__(self, broker: BrokerServer, ask: Ask, name: str = "t") -> None:
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

    async def end_raising_epoch(self, *, committed: bool = True, **fields: Any) -> tuple[int, int, int]:
        """The code, and the producer id and epoch of the next transaction, which the producer takes."""
        request = EndTxnRequest(committed=committed, **{**self._identity, **fields})
        answer = await self.ask(request, 5)
        if answer.error_code == NONE:
            self.producer_id, self.epoch, self._sequence = answer.producer_id, answer.producer_epoch, 0
        return answer.error_code, answer.producer_id, answer.producer_epoch

    async def produce(self, *, version: int = 11, transactional: bool = True, **fields: Any) -> Any:
        """The answer for partition 0."""
        (answer,) = await self.produce_to([0], version=version, transactional=transactional, **fields)
        self._sequence += answer.error_code == NONE
        return answer

    async def produce_to(
        self, partitions: Sequence[int], *, version: int = 11, transactional: bool = True, **fields: Any
    ) -> list[Any]:
        """Write a batch to each of some partitions by one request; the answers for them."""
        batch = build_batch(
            [Record(0, 1, None, b"v")],
            producer_id=fields.pop("producer_id", self.producer_id),
            producer_epoch=fields.pop("epoch", self.epoch),
            base_sequence=fields.pop("sequence", self._sequence),
            transactional=transactional,
        )
        data = [ProduceRequest.Partition(index=number, records=bytes(batch)) for number in partitions]
        topic_id = {} if version < 13 else {"topic_id": self.broker.controller.topics["orders"].id}
        request = ProduceRequest(
            transactional_id=fields.pop("transactional_id", self.name),
            acks=-1,
            timeout_ms=1000,
            topic_data=[ProduceRequest.Topic(name="orders", partition_data=data, **topic_id)],
        )
        (topic,) = (await self.ask(request, version)).responses
        return list(topic.partition_responses)

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
