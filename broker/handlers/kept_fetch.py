"""A fetch that a connection keeps for its next request, which most of the time is the same but for the offset.

The answer is that of `_fetch_named` in `fetch.py`; only the way to it is shorter. A first reading may skip this module.
"""

from __future__ import annotations

from ...protocol.messages.fetch import FetchRequest, FetchResponse
from ...protocol.topics import TopicPartition
from ..api.request_context import Context
from ..purgatory import Operation
from ..replication.fetch_partition import FetchPartition
from ..replication.fetch_sessions import FINAL_EPOCH, NO_SESSION
from ..replication.partition import Partition
from .fetch_response import max_bytes, response_of_one


class KeptFetch(Operation):
    """A consumer's fetch of one partition that is led here, with `min_bytes` 1 and without a session.

    It is in the connection's `Context`, which also says that version and client are the same. A fetch that has to be
    resolved replaces it.
    """

    __slots__ = ("_config", "_isolation_level", "_partition", "_rack_id", "_services", "topic_partition", "wanted")

    @classmethod
    def of(cls, request: FetchRequest, wanted: list[FetchPartition], context: Context) -> KeptFetch | None:
        """The request, which has just been resolved, as a fetch to keep. None if it is another kind of fetch."""
        if len(wanted) != 1:
            return None
        (one,) = wanted
        if one.reader.asks_at_each_read or not isinstance(one.partition, Partition):
            return None
        kept = cls(request, one, one.partition, context)
        return kept if kept.take_up(request) else None

    def __init__(self, request: FetchRequest, wanted: FetchPartition, partition: Partition, context: Context) -> None:
        self.wanted = wanted
        self.topic_partition = partition.topic_partition
        self._partition = partition
        self._services = context.services
        self._config = context.services.config.current
        self._isolation_level = request.isolation_level
        self._rack_id = request.rack_id

    def take_up(self, request: FetchRequest) -> bool:
        """Take up a request that repeats this one: `wanted` then has what it asks for. Return False, with nothing
        changed, if the request has to be resolved."""
        topics, known = request.topics, self.wanted
        if len(topics) != 1 or len(topics[0].partitions) != 1 or self._services.config.current is not self._config:
            return False
        topic = topics[0]
        asked = topic.partitions[0]
        if not (
            request.session_epoch == FINAL_EPOCH  # it wants no session, which would keep the partition, too
            and request.session_id == NO_SESSION  # there is none to close
            and request.replica_id < 0  # a follower's offset has to be noted
            and request.replica_state is None
            and request.isolation_level == self._isolation_level  # with the rack, the rest of what makes a Reader
            and request.rack_id == self._rack_id
            and request.min_bytes == 1  # `is_complete` counts no bytes
            and asked.last_fetched_epoch < 0  # and looks for no divergence
            and topic.topic == known.topic
            and topic.topic_id == known.topic_id
        ):
            return False
        return known.ask_again(asked)  # changes `wanted`, if this is the same partition and is served yet

    @property
    def keys(self) -> tuple[TopicPartition]:
        return (self.topic_partition,)

    def is_complete(self) -> bool:
        """What `DelayedFetch` finds for such a fetch: there is nothing to read, and no error, while its offset lies
        between the first one that it may not have and the end of the log."""
        wanted, partition = self.wanted, self._partition
        may_wait = wanted.limit_offset() <= wanted.asked.fetch_offset <= partition.log.log_end_offset
        return not (may_wait and partition.is_served)


async def fetch_kept(request: FetchRequest, kept: KeptFetch, context: Context) -> FetchResponse:
    """Answer a fetch whose partition was kept: what `_fetch_named` does, for one partition and a consumer."""
    if request.max_wait_ms > 0 and not kept.is_complete():
        await context.wait_for_change(kept, request.max_wait_ms)
    wanted = kept.wanted
    answer = wanted.read(max_bytes(request, context), True)
    if not answer.error_code:
        context.services.metrics.fetched(kept.topic_partition.topic, len(answer.records))
    return response_of_one(wanted, answer, context.version)
