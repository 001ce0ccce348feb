"""What a connection repeats: its last fetch is kept, and answers as a new one would."""

from __future__ import annotations

import asyncio

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.broker.handlers.kept_fetch import KeptFetch
from kmini.broker.replication.delayed_fetch import DelayedFetch
from kmini.broker.settings.broker_config import BrokerConfig
from kmini.protocol.topics import TopicPartition
from support.broker.asking import ask_in, context_of
from support.broker.fetching import append, of, request, values


@pytest.fixture
async def topic(broker: BrokerServer) -> str:
    topics.create(broker, "t", partitions=3)
    return "t"


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
