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

    group, number = GROUP, PLAIN

    async def act(self) -> None:
        offsets = self.world.promises.offsets[PLAIN]
        offsets.asked += 1
        await self.until_it_works("OffsetCommit", self._commit)
        offsets.tell(self.name, offsets.asked)
        await self.until_it_works("OffsetFetch", partial(self.find, PLAIN))
        if offsets.told != offsets.asked:
            raise Violation(f"{self.name}: committed {offsets.asked}, found {offsets.told}")

    def _coordinator(self) -> int:
        return self.coordinator(CONSUMER_OFFSETS, self.group)

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
        told = offsets.told
        found = await self.committed(number, stable=stable)
        if found < told:
            raise Violation(f"{self.name}: the committed offset of {number} goes back from {told} to {found}")
        offsets.tell(self.name, found)

    async def committed(self, number: int, *, stable: bool = True) -> int:
        """The committed offset of the group. Raises what the broker answers."""
        node_id = self._coordinator()
        lives = self.world.lives(node_id)
        request = OffsetFetchRequest(
            group_id=self.group,
            topics=[OffsetFetchRequest.Topic(name=TOPIC, partition_indexes=[number])],
            require_stable=stable,
        )
        response = await self.ask(node_id, request, 7)
        check(response.error_code)
        check(response.topics[0].partitions[0].error_code)
        if not self.world.has_stayed(node_id, lives):
            raise NotCoordinator("it was fenced, and does not know what has been committed since")
        return int(response.topics[0].partitions[0].committed_offset)


class TransactionalCommitter(Committer):
    """Commits offsets in transactions, and aborts some; with `raises_epoch` by the second version of transactions."""

    number = TRANSACTIONAL

    def __init__(self, name: str, world: World, *, raises_epoch: bool = False) -> None:
        super().__init__(name, world)
        self._producer = (-1, -1)
        self._raises_epoch = raises_epoch

    async def act(self) -> None:
        offsets = self.world.promises.offsets[TRANSACTIONAL]
        await self._begin_life()
        is_commit = self.random.random() < 0.7
        offsets.asked += 1
        if not is_commit:
            offsets.aborted.add(offsets.asked)
        await self.begin(offsets.asked)
        await self.end(is_commit)
        if is_commit:
            # EndTxn may answer before the marker is in the offsets topic: a stable fetch waits for that.
            await self.until_it_works("OffsetFetch", partial(self.find, TRANSACTIONAL))
            if offsets.told != offsets.asked:
                raise Violation(f"{self.name}: committed {offsets.asked}, found {offsets.told}")

    async def _begin_life(self) -> None:
        if self._producer[0] < 0:
            self._producer = await self.until_it_works("InitProducerId", self._init)

    async def begin(self, offset: int) -> None:
        """Begin a transaction, and commit this offset in it."""
        await self._begin_life()
        if not self._raises_epoch:
            await self.until_it_works("AddOffsetsToTxn", self._add)
        try:
            await self.until_it_works("TxnOffsetCommit", partial(self._commit_in_transaction, offset))
        except OutOfOrderSequenceNumber as error:
            raise Violation(f"{self.name}: offsets have no sequence") from error

    async def end(self, is_commit: bool) -> None:
        await self.until_it_works("EndTxn", partial(self._end, is_commit))

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
            transactional_id=self.name, producer_id=producer_id, producer_epoch=epoch, group_id=self.group
        )
        check((await self.ask(self._transactions(), request)).error_code)

    async def _commit_in_transaction(self, offset: int) -> None:
        Topic = TxnOffsetCommitRequest.Topic
        producer_id, epoch = self._producer
        partition = Topic.Partition(partition_index=self.number, committed_offset=offset, committed_metadata="")
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=self.group,
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


class _Rival(TransactionalCommitter):
    group, number = "rivals", PLAIN


class RivalCommitter(Actor):
    """Commits two offsets of one partition in two transactions at once, which end in any order. Of those that are
    committed the one that was written last counts."""

    def __init__(self, name: str, world: World) -> None:
        super().__init__(name, world)
        self._rivals = [_Rival(f"{name}{letter}", world) for letter in "ab"]
        self._asked = self._committed = -1

    async def act(self) -> None:
        await self._check()
        first, second = self.random.sample(self._rivals, 2)
        ends = []
        for rival in (first, second):
            self._asked += 1
            await rival.begin(self._asked)
            ends.append((rival, self._asked, self.random.random() < 0.7))
        self.random.shuffle(ends)
        for rival, offset, is_commit in ends:
            await rival.end(is_commit)
            self._committed = max(self._committed, offset) if is_commit else self._committed
        await self._check()

    async def _check(self) -> None:
        reader = self._rivals[0]
        found = await reader.until_it_works("OffsetFetch", partial(reader.committed, PLAIN))
        if found != self._committed:
            raise Violation(f"{self.name}: committed {self._committed}, found {found}")

    async def hang_up(self) -> None:
        for rival in self._rivals:
            await rival.hang_up()


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
