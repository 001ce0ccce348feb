"""Fetch: what is read and answered (broker/handlers/fetch_response.py), what is waited for, and when the wait ends
(broker/replication/delayed_fetch.py); what a connection keeps of it (broker/handlers/kept_fetch.py)."""

from __future__ import annotations

import asyncio

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.broker.handlers.kept_fetch import KeptFetch
from kmini.broker.replication.delayed_fetch import DelayedFetch
from kmini.broker.security.resources import ResourceType
from kmini.broker.settings.broker_config import BrokerConfig
from kmini.protocol.errors import (
    NONE,
    FencedLeaderEpoch,
    FetchSessionIdNotFound,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kmini.protocol.messages.fetch import FetchRequest
from kmini.protocol.records.batch import build_batch, iter_batches
from kmini.protocol.records.batch_records import decode_all
from kmini.protocol.records.control import EndTransactionMarker, build_end_transaction_marker
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage.log import PartitionLog
from kmini.storage.producers.producer_state import Origin
from kmini.storage.validation import ValidatedRecords, validate
from support.broker.asking import ask_in, context_of


def example(resource: ResourceType, topic_id: bytes) -> FetchRequest:
    """A request that needs the permission on this kind of resource; `topic_id` is the one of "orders"."""
    return FetchRequest(
        replica_id=1 if resource is ResourceType.CLUSTER else -1,
        replica_state=FetchRequest.ReplicaState(replica_id=1) if resource is ResourceType.CLUSTER else None,
        max_wait_ms=0,
        min_bytes=0,
        topics=[
            FetchRequest.Topic(
                topic="orders",
                topic_id=topic_id,
                partitions=[FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=100)],
            )
        ],
    )


Asked = FetchRequest.Topic.Partition


def append(broker: BrokerServer, topic: str, *values: bytes, partition: int = 0) -> None:
    """One batch."""
    led = broker.replica_manager.leader_of(TopicPartition(topic, partition))
    batch = build_batch([Record(0, 1_000, None, value) for value in values])
    led.append(validate(memoryview(batch), led.log.config, 1_000), 1_000)


def request(topic: str = "t", offset: int = 0, **options: object) -> FetchRequest:
    fields = {"max_wait_ms": 0, "min_bytes": 1} | {
        name: options.pop(name) for name in list(options) if name in FetchRequest.__slots__
    }
    asked = Asked(**{"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20} | options)
    return FetchRequest(topics=[FetchRequest.Topic(topic=topic, partitions=[asked])], **fields)


def of(response):
    """The only partition of a response."""
    return response.responses[0].partitions[0]


def values(answer) -> list[bytes | None]:
    return [record.value for record in decode_all(answer.records)]


@pytest.fixture
async def topic(broker: BrokerServer) -> str:
    topics.create(broker, "t", partitions=3)
    return "t"


@pytest.mark.parametrize("version", range(4, 13))
async def test_every_version_by_name_reads_from_the_offset_on(
    broker: BrokerServer, topic: str, ask, version: int
) -> None:
    append(broker, topic, b"a")
    append(broker, topic, b"b")
    answer = of(await ask(broker, request(offset=1), version))
    assert (answer.error_code, answer.high_watermark, values(answer)) == (NONE, 2, [b"b"])


@pytest.mark.parametrize("version", range(13, 19))
async def test_every_version_by_id_reads_and_answers_with_the_id(
    broker: BrokerServer, topic: str, ask, version: int
) -> None:
    append(broker, topic, b"a")
    asked = request()
    asked.topics[0].topic_id = broker.controller.topics[topic].id
    response = await ask(broker, asked, version)
    assert response.responses[0].topic_id == asked.topics[0].topic_id
    assert values(of(response)) == [b"a"]


async def test_an_unknown_topic_id_is_an_error_of_its_partitions(broker: BrokerServer, topic: str, ask) -> None:
    asked = request()
    asked.topics[0].topic_id = b"\1" * 16
    assert of(await ask(broker, asked, 13)).error_code == UnknownTopicId.code


async def test_unknown_topics_and_partitions_are_told_apart_from_known_ones(
    broker: BrokerServer, topic: str, ask
) -> None:
    assert of(await ask(broker, request("nope"), 12)).error_code == UnknownTopicOrPartition.code
    assert of(await ask(broker, request(partition=3), 12)).error_code == UnknownTopicOrPartition.code


async def test_an_error_answers_with_empty_records_and_no_offsets(broker: BrokerServer, topic: str, ask) -> None:
    answer = of(await ask(broker, request("nope"), 12))
    assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (-1, -1, -1)
    assert bytes(answer.records) == b""


async def test_offsets_outside_the_log_are_out_of_range_and_its_end_is_not(
    broker: BrokerServer, topic: str, ask
) -> None:
    append(broker, topic, b"a")
    for offset in (-1, 2, 1 << 60):
        assert of(await ask(broker, request(offset=offset), 12)).error_code == OffsetOutOfRange.code
    assert of(await ask(broker, request(offset=1), 12)).error_code == NONE


async def test_an_offset_within_a_batch_gets_the_whole_batch(broker: BrokerServer, topic: str, ask) -> None:
    append(broker, topic, b"a", b"b", b"c")
    assert values(of(await ask(broker, request(offset=2), 12))) == [b"a", b"b", b"c"]


async def test_the_first_batch_is_whole_whatever_the_limits(broker: BrokerServer, topic: str, ask) -> None:
    append(broker, topic, b"x" * 5_000)
    append(broker, topic, b"y" * 5_000)
    answer = of(await ask(broker, request(max_bytes=1, partition_max_bytes=1), 12))
    assert values(answer) == [b"x" * 5_000]
    assert len(answer.records) == next(iter_batches(answer.records))[1].size


async def test_only_the_first_partition_with_data_may_exceed_the_limits(broker: BrokerServer, topic: str, ask) -> None:
    for partition in range(3):
        append(broker, topic, b"x" * 5_000, partition=partition)
    asked = request(max_bytes=100)
    asked.topics[0].partitions = [Asked(partition=p, fetch_offset=0, partition_max_bytes=1 << 20) for p in range(3)]
    sizes = [len(p.records) for p in (await ask(broker, asked, 12)).responses[0].partitions]
    assert sizes[0] > 5_000
    assert sizes[1:] == [0, 0]


async def test_a_partition_without_records_leaves_the_right_to_one_whole_batch_to_the_next(
    broker: BrokerServer, topic: str, ask
) -> None:
    """KIP-74. Else a consumer at the end of the first partition stands still before a large batch in the second. A
    partition with an error leaves it, too; and the wait for `min_bytes` counts the whole batch."""
    for partition in (1, 2):
        append(broker, topic, b"x" * 5_000, partition=partition)
    for first, offset in ((0, 0), (0, 7), (9, 0)):
        asked = request(max_bytes=100, max_wait_ms=600_000, min_bytes=4_000)
        asked.topics[0].partitions = [
            Asked(partition=number, fetch_offset=at, partition_max_bytes=100)
            for number, at in ((first, offset), (1, 0), (2, 0))
        ]
        answers = (await asyncio.wait_for(ask(broker, asked, 12), 60)).responses[0].partitions
        assert [len(answer.records) > 5_000 for answer in answers] == [False, True, False]


async def test_it_waits_for_min_bytes_and_an_append_wakes_it(
    broker: BrokerServer, topic: str, ask, in_purgatory
) -> None:
    task = asyncio.create_task(ask(broker, request(max_wait_ms=60_000), 12))
    await in_purgatory(broker, 1)
    append(broker, topic, b"a")
    assert values(of(await task)) == [b"a"]
    assert len(broker.purgatory) == 0


async def test_too_little_does_not_wake_it(broker: BrokerServer, topic: str, ask, in_purgatory) -> None:
    task = asyncio.create_task(ask(broker, request(max_wait_ms=60_000, min_bytes=1_000), 12))
    await in_purgatory(broker, 1)
    append(broker, topic, b"a")
    await asyncio.sleep(0)
    assert not task.done()
    append(broker, topic, b"b" * 1_000)
    assert values(of(await task)) == [b"a", b"b" * 1_000]


@pytest.mark.parametrize("session_epoch", [-1, 0], ids=["no session", "a session"])
async def test_a_fetch_for_no_bytes_does_not_wait(broker: BrokerServer, topic: str, ask, session_epoch: int) -> None:
    asked = request(min_bytes=0, max_wait_ms=60_000, session_epoch=session_epoch)
    asking = asyncio.ensure_future(ask(broker, asked, 12))
    await asyncio.sleep(0)
    assert asking.done()
    assert values(of(asking.result())) == []


@pytest.mark.parametrize("kind", ["one partition", "several partitions", "a session"])
async def test_a_fetch_reads_once_after_its_wait(
    broker: BrokerServer, topic: str, in_purgatory, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    reads: list[int] = []
    read = PartitionLog.read

    def counting(log: PartitionLog, offset: int, *limits: object) -> bytes:
        reads.append(offset)
        return read(log, offset, *limits)

    context = context_of(broker, 12)
    asked = request(session_epoch=-1, max_wait_ms=60_000)
    if kind == "several partitions":
        asked.topics[0].partitions.append(Asked(partition=1, fetch_offset=0, partition_max_bytes=100))
    if kind == "a session":
        begun = await ask_in(context, request(session_epoch=0))
        asked.session_id, asked.session_epoch, asked.topics = begun.session_id, 1, []
    monkeypatch.setattr(PartitionLog, "read", counting)
    waiting = asyncio.ensure_future(ask_in(context, asked))
    await in_purgatory(broker, 1)
    assert reads == []
    append(broker, topic, b"a")
    assert values((await waiting).responses[0].partitions[0]) == [b"a"]
    assert reads == [0]


async def test_when_time_is_over_it_answers_with_what_there_is(broker: BrokerServer, topic: str, ask) -> None:
    append(broker, topic, b"a")
    assert values(of(await ask(broker, request(max_wait_ms=1, min_bytes=10_000), 12))) == [b"a"]


async def test_a_topic_that_is_deleted_ends_the_wait(broker: BrokerServer, topic: str, ask, in_purgatory) -> None:
    task = asyncio.create_task(ask(broker, request(max_wait_ms=60_000), 12))
    await in_purgatory(broker, 1)
    topics.delete(broker, topic)
    assert of(await task).error_code == NotLeaderOrFollower.code


async def test_an_error_in_one_partition_is_answered_at_once_with_the_data_of_others(
    broker: BrokerServer, topic: str, ask
) -> None:
    append(broker, topic, b"a")
    asked = request(max_wait_ms=60_000, min_bytes=1 << 20)
    asked.topics[0].partitions.append(Asked(partition=9, fetch_offset=0, partition_max_bytes=100))
    good, bad = (await ask(broker, asked, 12)).responses[0].partitions
    assert values(good) == [b"a"]
    assert bad.error_code == UnknownTopicOrPartition.code


async def test_leader_epochs_that_are_not_ours_are_refused(broker: BrokerServer, topic: str, ask) -> None:
    assert of(await ask(broker, request(current_leader_epoch=0), 12)).error_code == NONE
    assert of(await ask(broker, request(current_leader_epoch=1), 12)).error_code == UnknownLeaderEpoch.code
    broker.replica_manager.partitions[TopicPartition(topic, 0)].leader_epoch = 5
    assert of(await ask(broker, request(current_leader_epoch=4), 12)).error_code == FencedLeaderEpoch.code


async def test_a_reader_from_a_later_epoch_is_told_where_it_diverged(broker: BrokerServer, topic: str, ask) -> None:
    append(broker, topic, b"a")
    answer = of(await ask(broker, request(offset=1, last_fetched_epoch=0), 12))
    assert (answer.error_code, answer.diverging_epoch) == (NONE, None)
    answer = of(await ask(broker, request(offset=1, last_fetched_epoch=3), 12))
    assert answer.error_code == OffsetOutOfRange.code


async def test_a_client_cannot_read_as_a_replica(broker: BrokerServer, topic: str, ask) -> None:
    assert of(await ask(broker, request(replica_id=2), 12)).error_code == NotLeaderOrFollower.code
    assert (
        of(await ask(broker, request(replica_id=2, current_leader_epoch=0), 12)).error_code == UnknownLeaderEpoch.code
    )


async def test_a_session_that_is_claimed_is_unknown(broker: BrokerServer, topic: str, ask) -> None:
    assert (await ask(broker, request(session_id=7, session_epoch=1), 12)).error_code == FetchSessionIdNotFound.code


async def test_read_committed_gets_a_list_of_aborted_transactions_and_others_get_none(
    broker: BrokerServer, topic: str, ask
) -> None:
    append(broker, topic, b"a")
    assert of(await ask(broker, request(), 12)).aborted_transactions is None
    assert of(await ask(broker, request(isolation_level=1), 12)).aborted_transactions == []


async def test_read_committed_gets_the_aborted_transactions_and_reads_to_the_first_open_one(
    broker: BrokerServer, topic: str, ask
) -> None:
    log = broker.replica_manager.leader_of(TopicPartition(topic, 0)).log

    def write(batch: bytearray, origin: Origin = Origin.CLIENT) -> None:
        log.append_as_leader(ValidatedRecords.of(batch), leader_epoch=0, now_ms=1_000, origin=origin)
        log.update_high_watermark(log.log_end_offset)

    for producer_id in (7, 8):
        record = Record(0, 1_000, None, b"undecided")
        write(build_batch([record], producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True))
    abort = EndTransactionMarker(is_abort=True, coordinator_epoch=0)
    marker = build_end_transaction_marker(abort, producer_id=7, producer_epoch=0, timestamp=1_000)
    write(marker, Origin.COORDINATOR)
    answer = of(await ask(broker, request(isolation_level=1), 12))
    assert (answer.last_stable_offset, answer.high_watermark) == (1, 3)
    assert [batch.next_offset for _, batch in iter_batches(answer.records)] == [1]
    assert [(one.producer_id, one.first_offset) for one in answer.aborted_transactions] == [(7, 0)]


# --- what a connection repeats


def next_epoch(broker: BrokerServer) -> None:
    """The broker leads t-0 in a new leader epoch."""
    topic = broker.controller.topics["t"]
    state = topic.partitions[0]
    broker.controller.change_partitions({(topic.id, 0): state._replace(leader_epoch=state.leader_epoch + 1)})


def make_anew(broker: BrokerServer) -> None:
    topics.delete(broker, "t")
    topics.create(broker, "t", partitions=3)
    append(broker, "t", b"of the new topic")


def change_settings(broker: BrokerServer) -> None:
    broker.config.current = BrokerConfig.parse({"fetch.max.bytes": "1024"})


EVENTS = {
    "nothing": lambda broker: None,
    "an append": lambda broker: append(broker, "t", b"more"),
    "a deletion of records": lambda broker: broker.replica_manager.leader_of(T0).log.raise_log_start_offset(1),
    "a new leader epoch": next_epoch,
    "a broker that leads nothing": lambda broker: broker.replica_manager.resign(),
    "a deletion of the topic": lambda broker: topics.delete(broker, "t"),
    "another topic of that name": make_anew,
    "other settings": change_settings,
}
REQUESTS = {
    "the same": {},
    "the next offset": {"offset": 1},
    "an offset beyond the end": {"offset": 9},
    "another partition": {"partition": 1},
    "another topic": {"topic": "nope"},
    "few bytes": {"partition_max_bytes": 1, "max_bytes": 1},
    "many bytes": {"min_bytes": 1 << 20},
    "no bytes": {"min_bytes": 0},
    "a batch that is larger than it asks for": {"min_bytes": 50, "partition_max_bytes": 1},
    "committed records only": {"isolation_level": 1},
    "a leader epoch": {"current_leader_epoch": 0},
    "a leader epoch to come": {"current_leader_epoch": 9},
    "where its log ends": {"last_fetched_epoch": 7, "offset": 2},
    "as a follower": {"replica_id": 2},
    "a fetch session": {"session_epoch": 0},
}
T0 = TopicPartition("t", 0)


@pytest.mark.parametrize("by_id", [False, True], ids=["by name", "by id"])
@pytest.mark.parametrize("event", EVENTS)
async def test_a_connection_that_has_fetched_is_answered_like_a_new_one(
    broker: BrokerServer, topic: str, event: str, by_id: bool
) -> None:
    """Whatever has happened since its last fetch, and whatever it asks for now."""
    version = 13 if by_id else 12
    append(broker, topic, b"a")
    append(broker, topic, b"b")
    topic_id = broker.controller.topics[topic].id if by_id else bytes(16)
    known = [context_of(broker, version) for _ in REQUESTS]
    for context in known:
        asked = request(session_epoch=-1)
        asked.topics[0].topic_id = topic_id
        assert values(of(await ask_in(context, asked))) == [b"a", b"b"]
        assert context.kept is not None
    EVENTS[event](broker)
    for (name, options), context in zip(REQUESTS.items(), known, strict=True):
        asked = request(**{"session_epoch": -1, **options})
        if by_id and "topic" not in options:
            asked.topics[0].topic_id = topic_id
        asked.max_wait_ms = 60_000
        asking = [asyncio.ensure_future(ask_in(each, asked)) for each in (context, context_of(broker, version))]
        await asyncio.sleep(0)
        if not any(task.done() for task in asking):
            for task in asking:
                task.cancel()
            continue
        answer, expected = [task.result() for task in asking]
        assert bool(answer.session_id) == bool(expected.session_id), name
        answer.session_id = expected.session_id = 0
        assert answer == expected, name


async def test_the_first_fetch_waits_as_any_other_and_the_next_one_as_the_kept_one(
    broker: BrokerServer, topic: str, in_purgatory
) -> None:
    context = context_of(broker, 12)
    for offset, kind in enumerate((DelayedFetch, KeptFetch)):
        asked = request(offset=offset, session_epoch=-1, max_wait_ms=60_000)
        waiting = asyncio.ensure_future(ask_in(context, asked))
        await in_purgatory(broker, 1)
        assert [type(operation) for operation in broker.purgatory._watchers[T0]] == [kind]
        append(broker, topic, b"%d" % offset)
        assert values(of(await waiting)) == [b"%d" % offset]


async def test_a_fetch_of_all_ends_the_session_that_it_names(broker: BrokerServer, topic: str) -> None:
    context = context_of(broker, 12)
    await ask_in(context, request(session_epoch=-1))
    begun = await ask_in(context, request(session_epoch=0))
    assert len(broker.services.fetch_sessions) == 1
    await ask_in(context, request(session_epoch=-1, session_id=begun.session_id))
    assert len(broker.services.fetch_sessions) == 0


async def test_a_fetch_that_waits_again_on_its_connection_is_released_again(
    broker: BrokerServer, topic: str, in_purgatory
) -> None:
    context = context_of(broker, 12)
    for offset in range(3):
        asked = request(offset=offset, session_epoch=-1, max_wait_ms=60_000)
        waiting = asyncio.ensure_future(ask_in(context, asked))
        await in_purgatory(broker, 1)
        append(broker, topic, b"%d" % offset)
        assert values(of(await waiting)) == [b"%d" % offset]
    assert broker.metrics.topics[topic].fetch_requests == 3
