"""Which partitions the next fetch of a follower names, and which it gives up."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kmini.broker.replication.fetcher_manager import FollowedPartition
from kmini.broker.replication.follower_session import FollowerSession
from kmini.broker.settings.broker_config import BrokerConfig
from kmini.broker.settings.dynamic_config import DynamicBrokerConfig
from kmini.protocol.messages.fetch import FetchRequest
from kmini.protocol.topics import TopicPartition

SESSION = 77


def followed(topic: str, number: int, *, end: int = 0, start: int = 0) -> FollowedPartition:
    log = SimpleNamespace(
        topic_partition=TopicPartition(topic, number),
        topic_id=topic.encode().ljust(16, b"-"),
        log_start_offset=start,
        log_end_offset=end,
        high_watermark=end,
        leader_epochs=SimpleNamespace(latest_epoch=3),
    )
    return FollowedPartition(log, leader=1, leader_epoch=4)  # type: ignore[arg-type]


@pytest.fixture
def config() -> DynamicBrokerConfig:
    return DynamicBrokerConfig(BrokerConfig.parse({"node.id": "9", "replica.fetch.max.bytes": "5000"}))


@pytest.fixture
def session(config: DynamicBrokerConfig) -> FollowerSession:
    session = FollowerSession(config, 3)
    session.version = FetchRequest.max_version
    return session


def named(request: FetchRequest) -> list[tuple[str, int, int]]:
    """Topic, number and offset of each partition that a request names, as it is on the wire."""
    version = FetchRequest.max_version - 6  # 12, which names topics by name
    again = FetchRequest.decode(b"".join(request.encode(version)), version)
    return [(topic.topic, one.partition, one.fetch_offset) for topic in again.topics for one in topic.partitions]


def test_the_first_fetch_of_a_session_names_all_and_later_ones_what_has_changed(session: FollowerSession) -> None:
    a0, a1, b0 = followed("a", 0), followed("a", 1, end=5), followed("b", 0)
    everything = [("a", 0, 0), ("a", 1, 5), ("b", 0, 0)]
    request = session.next_request([a0, a1, b0])
    assert (request.session_id, request.session_epoch, request.replica_id) == (0, 0, 9)
    assert named(request) == everything
    session.accepted(SESSION)
    request = session.next_request([a0, a1, b0])
    assert (request.session_id, request.session_epoch) == (SESSION, 1)
    assert named(request) == []
    session.accepted(SESSION)
    a1.log.log_end_offset = 6
    request = session.next_request([a0, a1, b0])
    assert request.session_epoch == 2
    assert named(request) == [("a", 1, 6)]


@pytest.mark.parametrize("change", ["log_start_offset", "latest_epoch"])
def test_a_partition_is_named_again_when_its_log_start_or_its_epoch_changes(
    session: FollowerSession, change: str
) -> None:
    one = followed("a", 0, end=5)
    session.next_request([one])
    session.accepted(SESSION)
    assert named(session.next_request([one])) == []
    setattr(one.log.leader_epochs if change == "latest_epoch" else one.log, change, 4)
    request = session.next_request([one])
    assert named(request) == [("a", 0, 5)]
    assert getattr(request.topics[0].partitions[0], change.replace("latest", "last_fetched")) == 4


def test_without_a_session_each_fetch_names_everything(session: FollowerSession) -> None:
    one = followed("a", 0)
    for _ in range(2):
        request = session.next_request([one])
        assert (request.session_id, request.session_epoch) == (0, 0)
        assert named(request) == [("a", 0, 0)]
        session.accepted(0)
        assert not session.is_open


def test_a_session_that_has_ended_is_begun_anew_with_everything(session: FollowerSession) -> None:
    one = followed("a", 0)
    session.next_request([one])
    session.accepted(SESSION)
    session.forget(b"x" * 16, TopicPartition("x", 1))
    session.end([one])
    request = session.next_request([one])
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert named(request) == [("a", 0, 0)]
    assert request.forgotten_topics_data == []


def test_what_is_forgotten_is_told_once_and_by_topic_id(session: FollowerSession) -> None:
    """A topic that is gone has no name any more, so that its id tells it from others."""
    for topic_id, name, number in ((b"a" * 16, "a", 0), (b"b" * 16, "", 1), (b"c" * 16, "", 2), (b"a" * 16, "a", 3)):
        session.forget(topic_id, TopicPartition(name, number))
    request = session.next_request([])
    told = [(topic.topic_id, topic.topic, topic.partitions) for topic in request.forgotten_topics_data]
    assert told == [(b"a" * 16, "a", [0, 3]), (b"b" * 16, "", [1]), (b"c" * 16, "", [2])]
    assert session.next_request([]).forgotten_topics_data == []


@pytest.mark.parametrize(("version", "forgotten"), [(12, []), (13, [b"b" * 16])])
def test_what_is_named_again_is_not_forgotten_by_the_same_fetch(
    session: FollowerSession, version: int, forgotten: list[bytes]
) -> None:
    """A leader takes in what a fetch names first. By name it knows no earlier topic of that name; by id it does."""
    session.version = version
    again = followed("a", 0)
    for topic_id in (again.log.topic_id, b"b" * 16):
        session.forget(topic_id, again.topic_partition)
    assert [topic.topic_id for topic in session.next_request([again]).forgotten_topics_data] == forgotten
    assert session.next_request([again]).forgotten_topics_data == []


def test_a_follower_of_an_old_release_does_not_tell_where_its_log_starts(session: FollowerSession) -> None:
    session.version = 4
    assert session.next_request([followed("a", 0, end=9, start=7)]).topics[0].partitions[0].log_start_offset == -1


def test_settings_are_those_in_force_at_each_fetch(session: FollowerSession, config: DynamicBrokerConfig) -> None:
    one = followed("a", 0)
    assert session.next_request([one]).topics[0].partitions[0].partition_max_bytes == 5000
    config.current = config.current.replace(replica_fetch_max_bytes=6000, replica_fetch_wait_max_ms=123)
    request = session.next_request([one])
    assert request.max_wait_ms == 123
    assert request.topics[0].partitions[0].partition_max_bytes == 6000
