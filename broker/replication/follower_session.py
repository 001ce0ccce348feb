"""A follower's end of a fetch session (KIP-227): the fetch that comes next.

The first fetch of a session names all partitions. Later ones name those whose log has changed since they were last
named, and those that the leader is to forget. The leader's end is in `fetch_sessions.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...protocol.messages.fetch import FetchRequest
from ...protocol.schema import maker
from ...protocol.topics import TopicPartition
from .fetch_sessions import INITIAL_EPOCH, NO_SESSION, TOPIC_IDS_SINCE, next_epoch

if TYPE_CHECKING:
    from ..settings.broker_config import BrokerConfig
    from ..settings.dynamic_config import DynamicBrokerConfig
    from .fetcher_manager import FollowedPartition

_make_topic = maker(FetchRequest.Topic)

OLDEST_WITH_LOG_START = 5
"""The first version of Fetch in which a follower tells where its log starts (KIP-107)."""


class FollowerSession:
    """What one leader was told. A fetch repeats the one before but for what has changed, so the objects are kept."""

    def __init__(self, config: DynamicBrokerConfig, broker_epoch: int) -> None:
        self.version = 0
        """That of the fetches."""
        self.epoch = INITIAL_EPOCH
        """Of the next fetch."""
        self._id = NO_SESSION
        self._forgotten: list[tuple[bytes, TopicPartition]] = []
        """Topic ids and names of the partitions that the leader is to forget."""
        self._config = config
        self._broker_epoch = broker_epoch
        self._config_sent = config.current
        """The settings that the last fetch has."""
        self._request = _request_of(self._config_sent, broker_epoch)
        """The last fetch."""

    @property
    def is_open(self) -> bool:
        """Whether the leader remembers what it was told."""
        return self._id != NO_SESSION

    def accepted(self, session_id: int) -> None:
        """The leader has answered the last fetch, in this session or in none."""
        self._id = session_id
        self.epoch = next_epoch(self.epoch) if session_id != NO_SESSION else INITIAL_EPOCH

    def end(self, followed: Iterable[FollowedPartition]) -> None:
        """Begin anew: the leader knows nothing of these partitions."""
        self._id, self.epoch = NO_SESSION, INITIAL_EPOCH
        self._forgotten.clear()
        for one in followed:
            one.named = None

    def forget(self, topic_id: bytes, topic_partition: TopicPartition) -> None:
        """Have the next fetch take a partition out of the session."""
        self._forgotten.append((topic_id, topic_partition))

    def next_request(self, followed: Iterable[FollowedPartition]) -> FetchRequest:
        """The next fetch. It names those of these partitions that the leader has to be told of. Valid until the next
        call."""
        config, request = self._config.current, self._request
        if config is not self._config_sent:
            request = self._request = _request_of(config, self._broker_epoch)
            self._config_sent = config
        request.session_id, request.session_epoch = self._id, self.epoch
        request.topics = self._topics(followed, config.replica_fetch_max_bytes)
        request.forgotten_topics_data = self._take_forgotten(request.topics) if self._forgotten else []
        return request

    def _topics(self, followed: Iterable[FollowedPartition], max_bytes: int) -> list[FetchRequest.Topic]:
        topics: dict[str, FetchRequest.Topic] = {}
        for one in followed:
            log, named = one.log, one.named
            offset, epoch = log.log_end_offset, log.leader_epochs.latest_epoch
            log_start_offset = log.log_start_offset if self.version >= OLDEST_WITH_LOG_START else -1
            if named is None:
                named = one.named = FetchRequest.Topic.Partition(
                    partition=one.topic_partition.partition,
                    current_leader_epoch=one.leader_epoch,
                    fetch_offset=offset,
                    partition_max_bytes=max_bytes,
                )
            elif (
                self._id != NO_SESSION
                and named.fetch_offset == offset
                and named.last_fetched_epoch == epoch
                and named.log_start_offset == log_start_offset
            ):
                continue
            named.fetch_offset, named.last_fetched_epoch, named.log_start_offset = offset, epoch, log_start_offset
            named.partition_max_bytes, named.high_watermark = max_bytes, log.high_watermark
            name = log.topic_partition.topic
            if name in topics:
                topics[name].partitions.append(named)
            else:
                topics[name] = _make_topic(name, log.topic_id, [named])
        return [*topics.values()]

    def _take_forgotten(self, topics: Iterable[FetchRequest.Topic]) -> list[FetchRequest.ForgottenTopic]:
        """What the leader is to forget, without what the same fetch names: the leader would forget that, too."""
        is_by_id = self.version >= TOPIC_IDS_SINCE
        named = {
            (topic.topic_id if is_by_id else topic.topic, one.partition) for topic in topics for one in topic.partitions
        }
        forgotten: dict[tuple[bytes, str], FetchRequest.ForgottenTopic] = {}
        for topic_id, (name, number) in self._forgotten:
            if (topic_id if is_by_id else name, number) in named:
                continue
            topic = forgotten.get((topic_id, name))
            if topic is None:
                topic = FetchRequest.ForgottenTopic(topic=name, topic_id=topic_id, partitions=[])
                forgotten[topic_id, name] = topic
            topic.partitions.append(number)
        self._forgotten.clear()
        return [*forgotten.values()]


def _request_of(config: BrokerConfig, broker_epoch: int) -> FetchRequest:
    """A fetch of a broker with these settings, for no partition yet."""
    return FetchRequest(
        replica_id=config.node_id,
        replica_state=FetchRequest.ReplicaState(replica_id=config.node_id, replica_epoch=broker_epoch),
        max_wait_ms=config.replica_fetch_wait_max_ms,
        min_bytes=config.replica_fetch_min_bytes,
        max_bytes=config.replica_fetch_response_max_bytes,
        topics=[],
    )
