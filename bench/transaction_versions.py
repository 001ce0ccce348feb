"""Transactions of one record as single requests, by the first and the second version of transactions (KIP-890).

By the first, a transaction is AddPartitionsToTxn, Produce and EndTxn; by the second, Produce and EndTxn, which raises
the epoch. A request that is refused while the last transaction is still being ended is sent again, and its time
counts.

The requests are encoded once; producer id, epoch and sequence are written into them, and error codes are read where
they are, so that the client costs little beside the server.
"""

from __future__ import annotations

import struct
import time

from crc32c import crc32c
from raw_client import Client, framed

from kmini.protocol.messages import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
)
from kmini.protocol.messages.add_partitions_to_txn import TxnTopic
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record

CONCURRENT_TRANSACTIONS = 51
VALUE = b"x" * 100
PRODUCER = struct.Struct(">qh")
"""A producer id and an epoch, as requests and batches have them behind each other."""
PLACEHOLDER = (0x0BADCAFE0BADCAFE, 0x0BAD)
CODE, CRC, SEQUENCE = struct.Struct(">h"), struct.Struct(">I"), struct.Struct(">i")

CRC_AT, CHECKED_FROM, PRODUCER_AT, SEQUENCE_AT = 17, 21, 43, 53
"""Of a batch: where the checksum is, where begins what it is about, and where producer and sequence are."""

HEADER_BYTES = 5
"""Of a response of a flexible version: its correlation id, and no tags."""
END_CODE_AT = HEADER_BYTES + 4
NEXT_PRODUCER = slice(END_CODE_AT + CODE.size, END_CODE_AT + CODE.size + PRODUCER.size)


class OneRecord:
    """A transactional producer that writes one record in each transaction."""

    def __init__(self, client: Client, name: str, topic: str, *, raises_epoch: bool) -> None:
        self._client = client
        self._raises_epoch = raises_epoch
        self._sequence = 0
        producer_id, epoch = PLACEHOLDER
        add = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[TxnTopic(name=topic, partitions=[0])],
        )
        batch = build_batch(
            [Record(0, 1, None, VALUE)], producer_id=producer_id, producer_epoch=epoch, transactional=True
        )
        data = [ProduceRequest.Partition(index=0, records=bytes(batch))]
        produce = ProduceRequest(
            transactional_id=name,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[ProduceRequest.Topic(name=topic, partition_data=data)],
        )
        end = EndTxnRequest(transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=True)
        self._add = bytearray(framed(add, 3))
        self._produce = bytearray(framed(produce, 12 if raises_epoch else 11))
        self._end = bytearray(framed(end, 5 if raises_epoch else 4))
        placeholder = PRODUCER.pack(*PLACEHOLDER)
        self._places = [(frame, frame.index(placeholder)) for frame in (self._add, self._produce, self._end)]
        batch_at = self._places[1][1] - PRODUCER_AT
        self._batch = memoryview(self._produce)[batch_at : batch_at + len(batch)]
        self._produce_code_at = HEADER_BYTES + 1 + 1 + len(topic) + 1 + 4
        self._add_code_at = self._produce_code_at + 4
        init = framed(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), 4)
        while (answer := InitProducerIdResponse.decode(client.ask(init)[HEADER_BYTES:], 4)).error_code:
            time.sleep(0.05)  # the coordinator has not loaded its partition yet
        self._identify(PRODUCER.pack(answer.producer_id, answer.producer_epoch))

    def _identify(self, producer: bytes) -> None:
        """Write the producer id and epoch into the requests."""
        for frame, place in self._places:
            frame[place : place + PRODUCER.size] = producer

    def commit_one(self) -> None:
        """One transaction, from its first request to the answer of its end."""
        if not self._raises_epoch:
            self._until_done(self._add, self._add_code_at)
        SEQUENCE.pack_into(self._batch, SEQUENCE_AT, self._sequence)
        CRC.pack_into(self._batch, CRC_AT, crc32c(self._batch[CHECKED_FROM:]))
        self._until_done(self._produce, self._produce_code_at)
        self._sequence += 1
        answer = self._until_done(self._end, END_CODE_AT)
        if self._raises_epoch:
            self._identify(answer[NEXT_PRODUCER])
            self._sequence = 0

    def _until_done(self, frame: bytearray, code_at: int) -> bytes:
        """The answer without an error."""
        while True:
            answer = self._client.ask(frame)
            (code,) = CODE.unpack_from(answer, code_at)
            if code != CONCURRENT_TRANSACTIONS:
                assert code == 0, code
                return answer
