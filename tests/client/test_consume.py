"""Consuming: positions, ends, gaps, leaders that move, and batches that are not believed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

import pytest

from kmini.client import Client
from kmini.protocol.errors import CorruptMessage, NotLeaderOrFollower, OffsetOutOfRange, UnknownServerError
from kmini.protocol.messages.fetch import READ_COMMITTED, FetchRequest, FetchResponse
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.compression import Codec
from kmini.protocol.records.control import EndTransactionMarker, build_end_transaction_marker
from kmini.protocol.records.record import Record

Topic = FetchResponse.Topic


def batch(first: int, count: int = 1, codec: Codec = Codec.NONE) -> bytes:
    records = [Record(first + n, 1000 + first + n, None, b"%d" % (first + n)) for n in range(count)]
    return bytes(build_batch(records, base_offset=first, codec=codec))


def holds(log: bytes, *, before=None, codes: list[int] | None = None, aborted: Sequence[tuple[int, int]] = ()):
    """Answers Fetch with all of `log`, whatever offset is asked for, or first with these error codes."""
    left = codes or []

    def answer(request: FetchRequest) -> FetchResponse:
        if before is not None:
            before(request)
        code = left.pop(0) if left else 0
        return FetchResponse(
            responses=[
                Topic(
                    topic=topic.topic,
                    topic_id=topic.topic_id,
                    partitions=[
                        Topic.Partition(
                            partition_index=p.partition,
                            error_code=code,
                            records=b"" if code else log,
                            high_watermark=99,
                            aborted_transactions=[
                                Topic.Partition.AbortedTransaction(producer_id=producer_id, first_offset=first)
                                for producer_id, first in aborted
                            ],
                        )
                        for p in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return answer


async def consumed(client: Client, positions, until) -> list[int]:
    async with aclosing(client.consume(positions, until=until)) as records:
        return [record.offset async for record in records]


@pytest.mark.parametrize("codec", list(Codec))
async def test_records_come_with_all_that_belongs_to_them(cluster, client, codec: Codec) -> None:
    cluster.lead("t", 2)
    original = [Record(5, 1000, b"k", b"v", (("h", b"x"), ("n", None))), Record(6, 1001, None, None)]
    cluster[2].answers[FetchRequest] = holds(bytes(build_batch(original, base_offset=5, codec=codec)))
    async with aclosing(client.consume({("t", 0): 5}, until={("t", 0): 7})) as records:
        found = [record async for record in records]
    assert [tuple(record) for record in found] == [("t", 0, *record) for record in original]


async def test_what_lies_before_the_position_or_at_the_end_is_not_handed_out(cluster, client) -> None:
    cluster.lead("t", 1)
    cluster[1].answers[FetchRequest] = holds(batch(0, 5) + batch(5, 5) + batch(10, 5))
    assert await consumed(client, {("t", 0): 7}, {("t", 0): 12}) == [7, 8, 9, 10, 11]


async def test_a_batch_that_is_cut_off_is_fetched_again(cluster, client) -> None:
    cluster.lead("t", 1)
    log = batch(0, 5) + batch(5, 5)
    asked = []
    answers = [holds(log[:-1]), holds(batch(5, 5))]

    def answer(request: FetchRequest) -> FetchResponse:
        asked.append(request.topics[0].partitions[0].fetch_offset)
        return answers.pop(0)(request)

    cluster[1].answers[FetchRequest] = answer
    assert await consumed(client, {("t", 0): 0}, {("t", 0): 10}) == list(range(10))
    assert asked == [0, 5]


async def test_markers_and_gaps_move_the_position_and_are_not_seen(cluster, client) -> None:
    cluster.lead("t", 1)
    marker = build_end_transaction_marker(
        EndTransactionMarker(is_abort=False, coordinator_epoch=1),
        producer_id=1,
        producer_epoch=0,
        timestamp=1,
        base_offset=2,
    )
    compacted = build_batch([Record(7, 1, None, b"7")], base_offset=7, last_offset=9)
    cluster[1].answers[FetchRequest] = holds(batch(0, 2) + bytes(marker) + bytes(compacted))
    assert await consumed(client, {("t", 0): 0}, {("t", 0): 10}) == [0, 1, 7]
    assert len(cluster[1].asked(FetchRequest)) == 1


async def test_a_reader_of_committed_records_is_shown_none_of_an_aborted_transaction(cluster, client) -> None:
    """Producer 1 aborts a transaction and commits the next one; producer 2 commits one that lies between."""

    def sent(first: int, producer_id: int, count: int = 1) -> bytes:
        records = [Record(offset, 1, None, b"%d" % offset) for offset in range(first, first + count)]
        return bytes(build_batch(records, base_offset=first, producer_id=producer_id, transactional=True))

    def marker(offset: int, producer_id: int, *, is_abort: bool) -> bytes:
        end = EndTransactionMarker(is_abort=is_abort, coordinator_epoch=1)
        return bytes(
            build_end_transaction_marker(
                end, producer_id=producer_id, producer_epoch=0, timestamp=1, base_offset=offset
            )
        )

    cluster.lead("t", 1)
    cluster[1].answers[FetchRequest] = holds(
        sent(0, 1, 2) + sent(2, 2) + sent(3, 1) + marker(4, 1, is_abort=True) + batch(5)
        + sent(6, 1) + marker(7, 1, is_abort=False) + marker(8, 2, is_abort=False),
        aborted=[(1, 0)],
    )  # fmt: skip
    committed = client.consume({("t", 0): 0}, until={("t", 0): 9}, isolation_level=READ_COMMITTED)
    async with aclosing(committed) as records:
        assert [record.offset async for record in records] == [2, 5, 6]


async def test_a_partition_that_is_at_its_end_already_is_not_asked_for(cluster, client) -> None:
    cluster.lead("t", 1, 1)
    cluster[1].answers[FetchRequest] = holds(batch(0, 2))
    assert await consumed(client, {("t", 0): 4, ("t", 1): 0}, {("t", 0): 4, ("t", 1): 2}) == [0, 1]
    partitions = [p.partition for r in cluster[1].asked(FetchRequest) for p in r.topics[0].partitions]
    assert partitions == [1]


async def test_each_leader_is_asked_for_all_its_partitions_at_once(cluster, client) -> None:
    cluster.lead("t", 1, 2, 1)
    for node_id in (1, 2):
        cluster[node_id].answers[FetchRequest] = holds(batch(0, 2))
    at = {("t", partition): 0 for partition in range(3)}
    assert sorted(await consumed(client, at, dict.fromkeys(at, 2))) == [0, 0, 0, 1, 1, 1]
    assert [len(cluster[node_id].asked(FetchRequest)) for node_id in (1, 2)] == [1, 1]


async def test_one_leader_does_not_wait_for_another(cluster, client) -> None:
    cluster.lead("t", 1, 2)
    cluster[2].answers[FetchRequest] = holds(batch(0, 2))  # leader 1 is silent
    async with aclosing(client.consume({("t", 0): 0, ("t", 1): 0})) as records:
        first = await anext(records)
    assert (first.partition, first.offset) == (1, 0)


async def test_a_leader_that_moves_is_followed(cluster, client) -> None:
    cluster.lead("t", 1)
    cluster[1].answers[FetchRequest] = holds(
        b"", before=lambda _: cluster.lead("t", 3), codes=[NotLeaderOrFollower.code]
    )
    cluster[3].answers[FetchRequest] = holds(batch(0, 3))
    assert await consumed(client, {("t", 0): 0}, {("t", 0): 3}) == [0, 1, 2]


async def test_a_leader_that_hangs_up_is_looked_for_again(cluster, client) -> None:
    def die(_: FetchRequest) -> None:
        cluster.lead("t", 2)
        raise cluster[1].HangUp

    cluster.lead("t", 1)
    cluster[1].answers[FetchRequest] = die
    cluster[2].answers[FetchRequest] = holds(batch(0, 3))
    assert await consumed(client, {("t", 0): 0}, {("t", 0): 3}) == [0, 1, 2]


async def test_deleted_records_are_an_error(cluster, client) -> None:
    cluster.lead("t", 1)
    cluster[1].answers[FetchRequest] = holds(b"", codes=[OffsetOutOfRange.code])
    with pytest.raises(OffsetOutOfRange):
        await consumed(client, {("t", 0): 0}, {("t", 0): 3})


async def test_a_batch_with_a_wrong_checksum_is_refused(cluster, client) -> None:
    cluster.lead("t", 1)
    damaged = bytearray(batch(0, 3))
    damaged[-1] ^= 1
    cluster[1].answers[FetchRequest] = holds(bytes(damaged))
    with pytest.raises(CorruptMessage, match="t-0: the CRC of the batch at offset 0 is wrong"):
        await consumed(client, {("t", 0): 0}, {("t", 0): 3})


async def test_a_partition_that_the_answer_leaves_out_is_an_error(cluster, client) -> None:
    cluster.lead("t", 1)
    cluster[1].answers[FetchRequest] = lambda _: FetchResponse(responses=[])
    with pytest.raises(UnknownServerError):
        await consumed(client, {("t", 0): 0}, {("t", 0): 3})


async def test_without_an_end_it_goes_on(cluster, client) -> None:
    cluster.lead("t", 1)
    arrived = asyncio.Event()

    async def answer(request: FetchRequest) -> FetchResponse:
        if request.topics[0].partitions[0].fetch_offset == 2:
            await arrived.wait()
            return holds(batch(2))(request)
        return holds(batch(0, 2))(request)

    cluster[1].answers[FetchRequest] = answer
    async with aclosing(client.consume({("t", 0): 0})) as records:
        assert [(await anext(records)).offset for _ in range(2)] == [0, 1]
        third = asyncio.ensure_future(anext(records))
        await asyncio.sleep(0)
        assert not third.done()
        arrived.set()
        assert (await third).offset == 2


async def test_leaving_early_leaves_nothing_behind(cluster, client) -> None:
    cluster.lead("t", 1, 2)
    cluster[1].answers[FetchRequest] = holds(batch(0, 5))
    async with aclosing(client.consume({("t", 0): 0, ("t", 1): 0})) as records:
        await anext(records)
    assert len(asyncio.all_tasks()) == 1 + sum(len(broker._serving) for broker in cluster.brokers.values())


async def test_fetch_gives_the_batches_as_they_lie_in_the_log(cluster, client) -> None:
    cluster.lead("t", 1)
    cluster[1].answers[FetchRequest] = holds(batch(0, 5))
    fetched = await client.fetch("t", 0, 3)
    assert (bytes(fetched.records), fetched.high_watermark) == (batch(0, 5), 99)
