"""Fetch sessions (KIP-227): what a follow-up request must name, what it gets, and which readers get a session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.clock import MovableClock
from kmini.broker.controller import topics
from kmini.broker.replication.fetch_partition import FetchPartition, Reader
from kmini.broker.replication.fetch_sessions import FetchSessions, next_epoch
from kmini.protocol.errors import (
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
    OffsetOutOfRange,
    UnknownTopicOrPartition,
)
from kmini.protocol.messages.fetch import FetchRequest, FetchResponse
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.batch_records import decode_all
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage.deletion import without_checkpoint
from kmini.storage.validation import validate

Asked = FetchRequest.Topic.Partition
Fetch = Callable[..., Awaitable[FetchResponse]]
PARTITIONS = 4
ALL = dict.fromkeys(range(PARTITIONS), 0)


def append(broker: BrokerServer, partition: int, *values: bytes, topic: str = "t") -> None:
    led = broker.replica_manager.leader_of(TopicPartition(topic, partition))
    batch = build_batch([Record(0, 1_000, None, value) for value in values])
    led.append(validate(memoryview(batch), led.log.config, 1_000), 1_000)


def request(
    offsets: dict[int, int], *, session: int, epoch: int, forget: tuple[int, ...] = (), topic: str = "t", **options: int
) -> FetchRequest:
    """Fetch of partitions from offsets on."""
    limit, last_epoch = options.pop("partition_max_bytes", 1 << 20), options.pop("last_fetched_epoch", -1)
    asked = [
        Asked(partition=p, fetch_offset=offset, partition_max_bytes=limit, last_fetched_epoch=last_epoch)
        for p, offset in offsets.items()
    ]
    return FetchRequest(
        **{"max_wait_ms": 0, "min_bytes": 1} | options,
        session_id=session,
        session_epoch=epoch,
        topics=[FetchRequest.Topic(topic=topic, partitions=asked)] if asked else [],
        forgotten_topics_data=[FetchRequest.ForgottenTopic(topic=topic, partitions=list(forget))] if forget else [],
    )


@pytest.fixture
async def fetch(broker: BrokerServer, ask) -> Fetch:
    """Ask the broker, which has a topic `t`, in version 12."""
    topics.create(broker, "t", partitions=PARTITIONS)

    async def fetch(offsets: dict[int, int], *, session: int, epoch: int, **options: object) -> FetchResponse:
        return await ask(broker, request(offsets, session=session, epoch=epoch, **options), 12)

    return fetch


def told(response: FetchResponse) -> dict[int, list[bytes | None]]:
    """The values of each partition in the answer, in its order."""
    assert response.error_code == 0
    return {
        partition.partition_index: [record.value for record in decode_all(partition.records)]
        for topic in response.responses
        for partition in topic.partitions
    }


async def test_a_follow_up_request_gets_only_changed_partitions(broker: BrokerServer, fetch: Fetch) -> None:
    first = await fetch(ALL, session=0, epoch=0)
    assert told(first) == {partition: [] for partition in range(PARTITIONS)}
    assert first.session_id != 0
    assert told(await fetch({}, session=first.session_id, epoch=1)) == {}
    append(broker, 2, b"a")
    assert told(await fetch({}, session=first.session_id, epoch=2)) == {2: [b"a"]}
    assert told(await fetch({2: 1}, session=first.session_id, epoch=3)) == {}


async def test_a_reader_that_has_to_truncate_its_log_is_told_all_offsets_again_afterwards(
    broker: BrokerServer, fetch: Fetch
) -> None:
    """It took nothing of the answer but where its log diverges. Else a follower would not learn of deletions (KIP-107),
    and stay out of the ISR."""
    append(broker, 0, b"a")
    session = (await fetch({0: 1}, session=0, epoch=0)).session_id
    diverging = await fetch({0: 5}, session=session, epoch=1, last_fetched_epoch=0)
    assert diverging.responses[0].partitions[0].diverging_epoch is not None
    after = await fetch({0: 1}, session=session, epoch=2, last_fetched_epoch=0)
    assert told(after) == {0: []}
    assert after.responses[0].partitions[0].high_watermark == 1
    assert told(await fetch({}, session=session, epoch=3)) == {}


async def test_records_that_are_not_taken_are_sent_again(broker: BrokerServer, fetch: Fetch) -> None:
    session = (await fetch(ALL, session=0, epoch=0)).session_id
    append(broker, 1, b"a")
    for epoch in (1, 2, 3):
        assert told(await fetch({}, session=session, epoch=epoch)) == {1: [b"a"]}


async def test_the_final_epoch_reads_without_a_session_and_ends_the_one_it_names(fetch: Fetch) -> None:
    session = (await fetch(ALL, session=0, epoch=0)).session_id
    final = await fetch({0: 0}, session=session, epoch=-1)
    assert (final.session_id, told(final)) == (0, {0: []})
    assert (await fetch({}, session=session, epoch=1)).error_code == FetchSessionIdNotFound.code


async def test_a_new_full_request_ends_the_session_it_names(broker: BrokerServer, fetch: Fetch) -> None:
    session = (await fetch(ALL, session=0, epoch=0)).session_id
    assert (await fetch(ALL, session=session, epoch=0)).session_id not in (0, session)
    assert len(broker.fetch_sessions) == 1


@pytest.mark.parametrize("epoch", [2, 7])
async def test_an_epoch_out_of_turn_is_refused(fetch: Fetch, epoch: int) -> None:
    session = (await fetch(ALL, session=0, epoch=0)).session_id
    assert (await fetch({}, session=session, epoch=epoch)).error_code == InvalidFetchSessionEpoch.code
    assert told(await fetch({}, session=session, epoch=1)) == {}


async def test_an_epoch_counts_when_it_is_accepted_so_a_repeated_one_is_refused(fetch: Fetch) -> None:
    session = (await fetch(ALL, session=0, epoch=0)).session_id
    assert told(await fetch({}, session=session, epoch=1)) == {}
    assert (await fetch({}, session=session, epoch=1)).error_code == InvalidFetchSessionEpoch.code


def test_epochs_go_around_without_zero() -> None:
    assert [next_epoch(epoch) for epoch in (0, 1, 0x7FFFFFFE, 0x7FFFFFFF)] == [1, 2, 0x7FFFFFFF, 1]


async def test_partitions_are_added_and_forgotten(broker: BrokerServer, fetch: Fetch) -> None:
    session = (await fetch({0: 0, 1: 0}, session=0, epoch=0)).session_id
    assert told(await fetch({3: 0}, session=session, epoch=1, forget=(0,))) == {3: []}
    for partition in range(PARTITIONS):
        append(broker, partition, b"%d" % partition)
    assert told(await fetch({}, session=session, epoch=2)) == {1: [b"1"], 3: [b"3"]}


async def test_partitions_of_a_session_by_topic_id_are_forgotten_by_topic_id(
    broker: BrokerServer, fetch: Fetch, ask
) -> None:
    topic_id = broker.controller.topics["t"].id
    asked = [Asked(partition=partition, fetch_offset=0, partition_max_bytes=1 << 20) for partition in (0, 1)]
    first = FetchRequest(
        max_wait_ms=0, min_bytes=1, session_epoch=0, topics=[FetchRequest.Topic(topic_id=topic_id, partitions=asked)]
    )
    session = (await ask(broker, first, 13)).session_id
    for partition in (0, 1):
        append(broker, partition, b"%d" % partition)
    forgotten = [FetchRequest.ForgottenTopic(topic_id=topic_id, partitions=[0])]
    follow_up = FetchRequest(
        max_wait_ms=0, min_bytes=1, session_id=session, session_epoch=1, topics=[], forgotten_topics_data=forgotten
    )
    assert told(await ask(broker, follow_up, 13)) == {1: [b"1"]}


async def test_giving_up_the_last_partition_ends_the_session(broker: BrokerServer, fetch: Fetch) -> None:
    session = (await fetch({0: 0}, session=0, epoch=0)).session_id
    last = await fetch({}, session=session, epoch=1, forget=(0,))
    assert (last.session_id, last.error_code, len(broker.fetch_sessions)) == (0, 0, 0)


async def test_a_partition_that_gave_records_is_read_last_the_next_time(broker: BrokerServer, fetch: Fetch) -> None:
    """One batch at a time, so that none starves behind a partition that always has more."""
    for partition in range(3):
        append(broker, partition, b"a" * 50)
        append(broker, partition, b"b" * 50)
    session = (await fetch({0: 0, 1: 0, 2: 0}, session=0, epoch=0, max_bytes=1)).session_id
    order = []
    for epoch in range(1, 4):
        answer = told(await fetch({}, session=session, epoch=epoch, max_bytes=1))
        order += [partition for partition, values in answer.items() if values]
    assert order == [1, 2, 0]


async def test_a_log_start_offset_that_moved_is_told(broker: BrokerServer, fetch: Fetch) -> None:
    append(broker, 0, b"a")
    session = (await fetch({0: 1, 1: 0}, session=0, epoch=0)).session_id
    broker.replica_manager.leader_of(TopicPartition("t", 0)).delete_records(1, without_checkpoint)
    answer = await fetch({}, session=session, epoch=1)
    (partition,) = answer.responses[0].partitions
    assert (partition.partition_index, partition.log_start_offset) == (0, 1)
    assert told(await fetch({}, session=session, epoch=2)) == {}


async def test_an_error_is_told_until_it_is_over_and_then_its_end(broker: BrokerServer, fetch: Fetch) -> None:
    session = (await fetch({0: 0, 1: 9}, session=0, epoch=0)).session_id
    for epoch in (1, 2):
        (partition,) = (await fetch({}, session=session, epoch=epoch)).responses[0].partitions
        assert (partition.partition_index, partition.error_code) == (1, OffsetOutOfRange.code)
    assert told(await fetch({1: 0}, session=session, epoch=3)) == {1: []}
    assert told(await fetch({}, session=session, epoch=4)) == {}


async def test_a_topic_that_goes_and_comes_back_is_noticed(broker: BrokerServer, fetch: Fetch) -> None:
    session = (await fetch({0: 0}, session=0, epoch=0)).session_id
    assert told(await fetch({}, session=session, epoch=1)) == {}
    topics.delete(broker, "t")
    (partition,) = (await fetch({}, session=session, epoch=2)).responses[0].partitions
    assert partition.error_code == UnknownTopicOrPartition.code
    await asyncio.sleep(0)
    topics.create(broker, "t", partitions=1)
    append(broker, 0, b"new")
    assert told(await fetch({}, session=session, epoch=3)) == {0: [b"new"]}


@pytest.mark.parametrize("is_forgotten", [True, False])
async def test_a_session_by_topic_id_is_told_of_the_next_topic_of_a_name(
    broker: BrokerServer, fetch: Fetch, ask, is_forgotten: bool
) -> None:
    """It has both for a while, or gives up the old one as it takes in the new one."""

    def by_id(session: int, epoch: int, topic_ids: list[bytes], given_up: list[bytes]) -> FetchRequest:
        asked = Asked(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        forgotten = [FetchRequest.ForgottenTopic(topic_id=topic_id, partitions=[0]) for topic_id in given_up]
        return FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            session_id=session,
            session_epoch=epoch,
            topics=[FetchRequest.Topic(topic_id=topic_id, partitions=[asked]) for topic_id in topic_ids],
            forgotten_topics_data=forgotten,
        )

    before = broker.controller.topics["t"].id
    session = (await ask(broker, by_id(0, 0, [before], []), 13)).session_id
    assert told(await ask(broker, by_id(session, 1, [], []), 13)) == {}
    topics.delete(broker, "t")
    await asyncio.sleep(0)
    topics.create(broker, "t", partitions=1)
    after = broker.controller.topics["t"].id
    await ask(broker, by_id(session, 2, [after], [before] if is_forgotten else []), 13)
    await ask(broker, by_id(session, 3, [], []), 13)
    append(broker, 0, b"new")
    answer = await ask(broker, by_id(session, 4, [], []), 13)
    assert [topic.topic_id for topic in answer.responses if topic.partitions[0].records] == [after]


async def test_a_follow_up_waits_and_an_append_wakes_it(broker: BrokerServer, fetch: Fetch, in_purgatory) -> None:
    session = (await fetch(ALL, session=0, epoch=0)).session_id
    waiting = asyncio.create_task(fetch({}, session=session, epoch=1, max_wait_ms=60_000))
    await in_purgatory(broker, 1)
    append(broker, 3, b"a")
    assert told(await waiting) == {3: [b"a"]}


async def test_a_follow_up_waits_for_min_bytes_in_all(broker: BrokerServer, fetch: Fetch, in_purgatory) -> None:
    session = (await fetch(ALL, session=0, epoch=0)).session_id
    append(broker, 0, b"a")
    waiting = asyncio.create_task(fetch({}, session=session, epoch=1, max_wait_ms=60_000, min_bytes=1_000))
    await in_purgatory(broker, 1)
    append(broker, 0, b"b")
    await asyncio.sleep(0)
    append(broker, 1, b"c" * 1_000)
    assert told(await waiting) == {0: [b"a", b"b"], 1: [b"c" * 1_000]}


async def test_a_request_that_a_later_one_overtook_is_refused(broker: BrokerServer, fetch: Fetch, in_purgatory) -> None:
    session = (await fetch(ALL, session=0, epoch=0)).session_id
    waiting = asyncio.create_task(fetch({}, session=session, epoch=1, max_wait_ms=60_000))
    await in_purgatory(broker, 1)
    assert told(await fetch({}, session=session, epoch=2)) == {}
    append(broker, 0, b"a")
    assert (await waiting).error_code == InvalidFetchSessionEpoch.code
    assert told(await fetch({}, session=session, epoch=3)) == {0: [b"a"]}


async def test_a_session_by_name_takes_no_request_by_id(broker: BrokerServer, fetch: Fetch, ask) -> None:
    session = (await fetch(ALL, session=0, epoch=0)).session_id
    by_id = FetchRequest(max_wait_ms=0, min_bytes=1, session_id=session, session_epoch=1, topics=[])
    assert (await ask(broker, by_id, 13)).error_code == FetchSessionTopicIdError.code


async def test_versions_without_sessions_get_none(broker: BrokerServer, fetch: Fetch, ask) -> None:
    assert (await ask(broker, request(ALL, session=0, epoch=-1), 6)).session_id == 0
    assert len(broker.fetch_sessions) == 0


class Cache:
    """The sessions of a broker with three slots, and a clock that can be moved."""

    def __init__(self, broker: BrokerServer) -> None:
        self.broker = broker
        self.clock = MovableClock()
        self.sessions = FetchSessions(broker.replica_manager, 3, self.clock)

    def create(self, partitions: int, *, follower: bool = False) -> int | None:
        reader = Reader(False, False, 1 if follower else -1)
        topic = FetchRequest.Topic(topic="t", partitions=[])
        asked = [Asked(partition=p, fetch_offset=0, partition_max_bytes=1) for p in range(partitions)]
        wanted = [FetchPartition(self.broker.replica_manager, topic, each, reader) for each in asked]
        session = self.sessions.create(wanted, reader)
        return None if session is None else session.id

    def is_there(self, session: int | None) -> bool:
        assert session is not None
        follow_up = FetchRequest(max_wait_ms=0, min_bytes=1, session_id=session, session_epoch=-7, topics=[])
        with pytest.raises((FetchSessionIdNotFound, InvalidFetchSessionEpoch)) as raised:
            self.sessions.accept(follow_up, Reader(False, False, -1))
        return raised.type is InvalidFetchSessionEpoch


@pytest.fixture
async def cache(broker: BrokerServer) -> Cache:
    topics.create(broker, "t", partitions=PARTITIONS)
    return Cache(broker)


async def test_a_full_cache_keeps_sessions_that_are_in_use(cache: Cache) -> None:
    kept = [cache.create(1) for _ in range(3)]
    assert cache.create(4) is None
    assert all(map(cache.is_there, kept))


async def test_a_session_unused_for_two_minutes_gives_way_to_any_other(cache: Cache) -> None:
    old = [cache.create(4) for _ in range(3)]
    await cache.clock.advance(120_001, liveness=True)
    assert cache.create(1) is not None
    assert [cache.is_there(session) for session in old] == [False, True, True]
    assert cache.sessions.evictions == 1


async def test_a_follower_takes_the_place_of_the_smallest_consumer(cache: Cache) -> None:
    consumers = [cache.create(size) for size in (3, 1, 2)]
    assert cache.create(1, follower=True) is not None
    assert [cache.is_there(session) for session in consumers] == [True, False, True]


async def test_a_follower_keeps_its_place_against_consumers(cache: Cache) -> None:
    followers = [cache.create(1, follower=True) for _ in range(3)]
    assert cache.create(4) is None
    assert all(map(cache.is_there, followers))


async def test_a_session_that_is_closed_listens_to_nothing(broker: BrokerServer, fetch: Fetch) -> None:
    session = (await fetch(ALL, session=0, epoch=0)).session_id
    assert told(await fetch({}, session=session, epoch=1)) == {}
    assert broker.purgatory.listened_keys == PARTITIONS
    await fetch({}, session=session, epoch=-1)
    assert broker.purgatory.listened_keys == 0
