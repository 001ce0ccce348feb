"""Clients that commit and fetch the offsets of a group while their cluster is in trouble."""

from __future__ import annotations

from functools import partial

from kmini.client.errors import check
from kmini.protocol.errors import (
    KafkaError,
    NotCoordinator,
    OutOfOrderSequenceNumber,
)
from kmini.protocol.messages import (
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    TxnOffsetCommitRequest,
)
from kmini.protocol.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from support.simulation.actor import Actor
from support.simulation.world import PLAIN, TOPIC, TRANSACTIONAL, Violation, World

GROUP = "readers"


class Committer(Actor):
    """Keeps an offset in a group, and finds it again."""

    async def act(self) -> None:
        offsets = self.world.promises.offsets[PLAIN]
        offsets.asked += 1
        await self.until_it_works("OffsetCommit", self._commit)
        offsets.tell(self.name, offsets.asked)
        await self.until_it_works("OffsetFetch", partial(self.find, PLAIN))
        if offsets.told != offsets.asked:
            raise Violation(f"{self.name}: committed {offsets.asked}, found {offsets.told}")

    def _coordinator(self) -> int:
        return self.coordinator(CONSUMER_OFFSETS, GROUP)

    async def _commit(self) -> None:
        Topic = OffsetCommitRequest.Topic
        offset = self.world.promises.offsets[PLAIN].asked
        partition = Topic.Partition(partition_index=PLAIN, committed_offset=offset, committed_metadata="")
        request = OffsetCommitRequest(group_id=GROUP, topics=[Topic(name=TOPIC, partitions=[partition])])
        response = await self.ask(self._coordinator(), request, 8)
        check(response.topics[0].partitions[0].error_code)

    async def find(self, number: int, *, stable: bool = True) -> None:
        """Fetch the committed offset once, and compare it with all that clients were told of before. Raises what the
        broker answers, and Violation."""
        offsets = self.world.promises.offsets[number]
        node_id = self._coordinator()
        lives, told = self.world.lives(node_id), offsets.told
        request = OffsetFetchRequest(
            group_id=GROUP,
            topics=[OffsetFetchRequest.Topic(name=TOPIC, partition_indexes=[number])],
            require_stable=stable,
        )
        response = await self.ask(node_id, request, 7)
        check(response.error_code)
        check(response.topics[0].partitions[0].error_code)
        if not self.world.has_stayed(node_id, lives):
            raise NotCoordinator("it was fenced, and does not know what has been committed since")
        found = int(response.topics[0].partitions[0].committed_offset)
        if found < told:
            raise Violation(f"{self.name}: the committed offset of {number} goes back from {told} to {found}")
        offsets.tell(self.name, found)


class TransactionalCommitter(Committer):
    """Commits offsets in transactions, and aborts some; with `raises_epoch` by the second version of transactions."""

    def __init__(self, name: str, world: World, *, raises_epoch: bool = False) -> None:
        super().__init__(name, world)
        self._producer = (-1, -1)
        self._raises_epoch = raises_epoch

    async def act(self) -> None:
        offsets = self.world.promises.offsets[TRANSACTIONAL]
        if self._producer[0] < 0:
            self._producer = await self.until_it_works("InitProducerId", self._init)
        is_commit = self.random.random() < 0.7
        offsets.asked += 1
        if not is_commit:
            offsets.aborted.add(offsets.asked)
        if not self._raises_epoch:
            await self.until_it_works("AddOffsetsToTxn", self._add)
        try:
            await self.until_it_works("TxnOffsetCommit", self._commit)
        except OutOfOrderSequenceNumber as error:
            raise Violation(f"{self.name}: offsets have no sequence") from error
        await self.until_it_works("EndTxn", partial(self._end, is_commit))
        if is_commit:
            # EndTxn may answer before the marker is in the offsets topic: a stable fetch waits for that.
            await self.until_it_works("OffsetFetch", partial(self.find, TRANSACTIONAL))
            if offsets.told != offsets.asked:
                raise Violation(f"{self.name}: committed {offsets.asked}, found {offsets.told}")

    def _transactions(self) -> int:
        return self.coordinator(TRANSACTION_STATE, self.name)

    async def _init(self) -> tuple[int, int]:
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=900_000)
        response = await self.ask(self._transactions(), request)
        check(response.error_code)
        return response.producer_id, response.producer_epoch

    async def _add(self) -> None:
        producer_id, epoch = self._producer
        request = AddOffsetsToTxnRequest(
            transactional_id=self.name, producer_id=producer_id, producer_epoch=epoch, group_id=GROUP
        )
        check((await self.ask(self._transactions(), request)).error_code)

    async def _commit(self) -> None:
        Topic = TxnOffsetCommitRequest.Topic
        producer_id, epoch = self._producer
        offset = self.world.promises.offsets[TRANSACTIONAL].asked
        partition = Topic.Partition(partition_index=TRANSACTIONAL, committed_offset=offset, committed_metadata="")
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=GROUP,
            producer_id=producer_id,
            producer_epoch=epoch,
            topics=[Topic(name=TOPIC, partitions=[partition])],
        )
        response = await self.ask(self._coordinator(), request, 5 if self._raises_epoch else 4)
        check(response.topics[0].partitions[0].error_code)

    async def _end(self, is_commit: bool) -> None:
        producer_id, epoch = self._producer
        request = EndTxnRequest(
            transactional_id=self.name, producer_id=producer_id, producer_epoch=epoch, committed=is_commit
        )
        response = await self.ask(self._transactions(), request, 5 if self._raises_epoch else 4)
        check(response.error_code)
        if self._raises_epoch:
            self._producer = response.producer_id, response.producer_epoch


class OffsetReader(Committer):
    """Looks at the committed offsets on and on: what one client was told, no later one is told less than."""

    async def act(self) -> None:
        number = self.random.choice((PLAIN, TRANSACTIONAL))
        try:
            await self.find(number, stable=self.random.random() < 0.3)
        except KafkaError as error:
            self._leaders.clear()
            if not error.retriable:
                raise Violation(f"{self.name}: {error!r}") from error
