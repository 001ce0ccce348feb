"""A transactional producer written as single requests, with kafka-python's classes; every answer goes into a
transcript."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)

from support.batches import Item, batch
from support.kafka_requests import produce
from support.offset_requests import NOT_YET, await_transaction_coordinator
from support.transcript import Transcript
from support.until import until

NOT_DONE = (*NOT_YET, 51)
"""And CONCURRENT_TRANSACTIONS."""
TRANSACTIONAL = 0x10
RAISES_EPOCH_SINCE = 5
"""The version of EndTxn of the second version of transactions."""


def describe(*transactional_ids: str) -> Any:
    return DescribeTransactionsRequest(transactional_ids=list(transactional_ids))


def list_transactions(**filters: Any) -> Any:
    given = {"state_filters": [], "producer_id_filters": [], "duration_filter": -1, "transactional_id_pattern": None}
    return ListTransactionsRequest(**{**given, **filters})


def init(name: str | None, *, timeout_ms: int = 60_000, producer_id: int = -1, epoch: int = -1) -> Any:
    return InitProducerIdRequest(
        transactional_id=name, transaction_timeout_ms=timeout_ms, producer_id=producer_id, producer_epoch=epoch
    )


class TransactionalProducer:
    """One producer id and epoch under a transactional id. Each method asks once, and notes the answer under `what`."""

    def __init__(self, transcript: Transcript, name: str) -> None:
        self.transcript, self.name = transcript, name
        self.producer_id = self.epoch = -1
        self.sequence = 0
        await_transaction_coordinator(transcript._wire, name)
        self._load()

    @property
    def _identity(self) -> dict[str, Any]:
        return {"transactional_id": self.name, "producer_id": self.producer_id, "producer_epoch": self.epoch}

    def _load(self) -> None:
        """Wait until the coordinator has what there was of this id, and another producer has the producer id 0, which
        is noted as it is."""

        def is_loaded() -> bool:
            (state,) = self.transcript.ask_quietly(describe(self.name), 0).transaction_states
            return state.error_code not in NOT_YET and not self.transcript.ask_quietly(init(None), 4).error_code

        until(is_loaded, f"a coordinator that has loaded {self.name}")

    def begin_life(self) -> TransactionalProducer:
        """Get an id and an epoch, however long the last transaction takes to end."""

        def answered() -> Any:
            answer = self.transcript.ask_quietly(init(self.name), 4)
            return answer if answer.error_code not in NOT_DONE else None

        answer = until(answered, f"the end of the last transaction of {self.name}")
        assert answer.error_code == 0, answer
        self.producer_id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0
        return self

    def init(self, what: str, version: int = 4, **fields: Any) -> Any:
        answer = self.transcript.ask(what, init(self.name, **fields), version)
        if not answer.error_code:
            self.producer_id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0
        return answer

    def add(self, what: str, topic: str, *partitions: int, version: int = 3, **fields: Any) -> Any:
        identity = {**self._identity, **fields}
        numbers = list(partitions or (0,))
        if version < 4:
            named = {f"v3_and_below_{key}": value for key, value in identity.items()}
            Topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
            request = AddPartitionsToTxnRequest(v3_and_below_topics=[Topic(name=topic, partitions=numbers)], **named)
        else:
            Transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
            topics = [Transaction.AddPartitionsToTxnTopic(name=topic, partitions=numbers)]
            transaction = Transaction(**{"verify_only": False, **identity}, topics=topics)
            request = AddPartitionsToTxnRequest(transactions=[transaction])
        return self.transcript.ask(what, request, version)

    def produce(self, what: str, topic: str, *, version: int = 11, partition: int = 0, **fields: Any) -> Any:
        name = fields.pop("transactional_id", self.name)
        written = {
            "attributes": TRANSACTIONAL,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "base_sequence": self.sequence,
            **fields,
        }
        request = produce(topic, batch([Item()], **written), partition=partition, transactional_id=name)
        answer = self.transcript.ask(what, request, version)
        if not answer.responses[0].partition_responses[0].error_code:
            self.sequence += 1
        return answer

    def add_offsets(self, what: str, group: str, version: int = 3, **fields: Any) -> Any:
        request = AddOffsetsToTxnRequest(group_id=group, **{**self._identity, **fields})
        return self.transcript.ask(what, request, version)

    def commit_offset(
        self, what: str, group: str, topic: str, offset: int, *, version: int = 3, metadata: str = "", **fields: Any
    ) -> Any:
        Topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        wanted = Topic.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=metadata
        )
        given = {"generation_id": -1, "member_id": "", "group_instance_id": None, **self._identity, **fields}
        request = TxnOffsetCommitRequest(group_id=group, topics=[Topic(name=topic, partitions=[wanted])], **given)
        return self.transcript.ask(what, request, version)

    def end(self, what: str, *, commit: bool, version: int = 3, **fields: Any) -> Any:
        """End it, and wait until every partition knows. From version 5 on take the producer id and epoch that are
        answered."""
        request = EndTxnRequest(committed=commit, **{**self._identity, **fields})
        answer = self.transcript.ask(what, request, version)
        if version >= RAISES_EPOCH_SINCE and not answer.error_code:
            self.transcript.note(f"{what}: it is the same producer id", answer.producer_id == self.producer_id)
            self.producer_id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0
        self.wait()
        return answer

    def wait(self) -> None:
        """Until nothing is being ended any more."""

        def is_ended() -> bool:
            (state,) = self.transcript.ask_quietly(describe(self.name), 0).transaction_states
            return not state.transaction_state.startswith("Prepare")

        until(is_ended, f"every marker of the transaction of {self.name}")

    def write_marker(self, what: str, topic: str, *partitions: int, version: int = 1, **fields: Any) -> Any:
        Marker = WriteTxnMarkersRequest.WritableTxnMarker
        topics = [Marker.WritableTxnMarkerTopic(name=topic, partition_indexes=list(partitions or (0,)))]
        given = {
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "transaction_result": False,
            "coordinator_epoch": 0,
            **fields,
        }
        return self.transcript.ask(what, WriteTxnMarkersRequest(markers=[Marker(topics=topics, **given)]), version)
