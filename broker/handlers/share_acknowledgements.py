"""Acknowledgements of members of share groups, which come with ShareAcknowledge and with ShareFetch (KIP-932)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ...protocol.errors import (
    NONE,
    FencedLeaderEpoch,
    InvalidRequest,
    KafkaError,
    NotLeaderOrFollower,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from ...protocol.messages.share_fetch import LeaderIdAndEpoch, NodeEndpoint
from ...protocol.topics import TopicPartition
from ..api.error_mapping import kafka_error
from ..api.request_context import Context
from ..security.fetch_access import FetchAccess
from ..security.guarding import Call
from ..share_fetch.share_partition import Acknowledgement, AcknowledgeType
from ..share_fetch.share_sessions import MemberKey
from ..share_state.persister import SharePartitionKey

MOST_MEMBER_ID = 36
"""Characters of the id of a member."""


class GuardedContext(Context):
    """The context of a request whose topics are asked for one by one: sessions name them, too."""

    __slots__ = ("access",)

    def __init__(self, call: Call) -> None:
        context = call.context
        super().__init__(context.services, context.connection, context.version, context.client_id)
        self.access = FetchAccess(call.access, is_follower=False)


async def guard(call: Call, response: Any) -> Any:
    """Refuse a client that may not read the group; give the handler the access that it asks for each topic."""
    read_group = call.permissions[0]
    if call.context.services.offers_share_groups and not call.may(read_group, call.request.group_id or ""):
        return response(error_code=read_group.code)
    return await call.handler(call.request, GuardedContext(call))


def member_of(request: Any) -> MemberKey:
    """The member that sends a request. Raises InvalidRequest."""
    if request.group_id is None:
        raise InvalidRequest("a share group has a name")
    member_id = request.member_id
    if not member_id or len(member_id) > MOST_MEMBER_ID:
        raise InvalidRequest(f"a member of a share group has an id of 1 to {MOST_MEMBER_ID} characters")
    return MemberKey(request.group_id, member_id)


def keys_of(group_id: str, topics: Iterable[Any]) -> list[SharePartitionKey]:
    """The share partitions that a request names."""
    return [
        SharePartitionKey(group_id, topic.topic_id, each.partition_index)
        for topic in topics
        for each in topic.partitions
    ]


class Outcome(NamedTuple):
    """What became of the acknowledgements of a partition."""

    error: KafkaError | None = None

    @property
    def code(self) -> int:
        return NONE if self.error is None else self.error.code

    @property
    def message(self) -> str | None:
        return None if self.error is None else self.error.message


def acknowledgements(sent: Iterable[Any], *, version: int, is_renewing: bool) -> list[Acknowledgement]:
    """The acknowledgements of a partition. Raises InvalidRequest for what Kafka refuses."""
    found: list[Acknowledgement] = []
    most = AcknowledgeType.RENEW if version >= 2 else AcknowledgeType.REJECT
    for batch in sent:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if first > last:
            raise InvalidRequest(f"the acknowledged batch {first} to {last} ends before it begins")
        if found and first < found[-1].last:
            raise InvalidRequest(f"the acknowledged batch {first} to {last} is out of order")
        if not types or (len(types) > 1 and len(types) != last - first + 1):
            raise InvalidRequest(f"the batch {first} to {last} has one type for all offsets, or one for each")
        if not all(0 <= kind <= most for kind in types):
            raise InvalidRequest(f"the types of acknowledgements are 0 to {most}")
        if AcknowledgeType.RENEW in types and not is_renewing:
            raise InvalidRequest("a request that renews locks says so")
        found.append(Acknowledgement(first, last, types))
    return found


async def acknowledge(
    context: Context, key: SharePartitionKey, member_id: str, sent: Iterable[Any], *, is_renewing: bool
) -> Outcome:
    """Acknowledge records of a partition."""
    services = context.services
    try:
        check_topic(context, key)
        batches = acknowledgements(sent, version=context.version, is_renewing=is_renewing)
        led = services.share_partitions.get(key)
        if led is None or not led.partition.is_served:
            services.replica_manager.leader_of(place_of(context, key))
            raise UnknownTopicOrPartition("the group has acquired no record of this partition here")
        await led.acknowledge(member_id, batches)
    except Exception as error:
        return Outcome(kafka_error(error, f"acknowledgements for {key}"))
    return Outcome()


def check_topic(context: Context, key: SharePartitionKey) -> None:
    """Raise UnknownTopicId, TopicAuthorizationFailed."""
    name = context.services.replica_manager.topic_name(key.topic_id)
    if context.access is not None and not context.access.may_read(name):
        raise TopicAuthorizationFailed("the topic may not be read")


def place_of(context: Context, key: SharePartitionKey) -> TopicPartition:
    """The partition. Raises UnknownTopicId."""
    return TopicPartition(context.services.replica_manager.topic_name(key.topic_id), key.partition)


class Leaders:
    """The leaders that an answer names, because its client has asked another broker (KIP-951)."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._node_ids: set[int] = set()

    def of(self, key: SharePartitionKey, error_code: int) -> LeaderIdAndEpoch:
        """The leader of a partition whose answer has this error; zeroes for any other error."""
        if error_code not in (NotLeaderOrFollower.code, FencedLeaderEpoch.code):
            return LeaderIdAndEpoch(leader_id=0, leader_epoch=0)
        topic = self._context.services.controller.topic_by_id(key.topic_id)
        if topic is None or key.partition >= len(topic.partitions):
            return LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)
        state = topic.partitions[key.partition]
        self._node_ids.add(state.leader)
        return LeaderIdAndEpoch(leader_id=state.leader, leader_epoch=state.leader_epoch)

    @property
    def endpoints(self) -> list[NodeEndpoint]:
        """Where the leaders are reached."""
        addresses = self._context.advertised()
        found = []
        for node_id in sorted(self._node_ids & addresses.keys()):
            host, port = addresses[node_id]
            broker = self._context.services.controller.broker(node_id)
            found.append(NodeEndpoint(node_id=node_id, host=host, port=port, rack=broker.rack if broker else None))
        return found
