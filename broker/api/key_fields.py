"""The key fields of a decoded request: what it is about. Journal, failure report and fault rules read them here.

A table has a line for each API: where its topics and partitions are, and its groups, members, transactional ids and
producers. Topic ids are resolved to names. No key field holds a record, a password, a token or the value of a setting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.messages.describe_configs import GROUP as GROUP_RESOURCE
from ...protocol.messages.describe_configs import TOPIC as TOPIC_RESOURCE
from ...protocol.messages.find_coordinator import GROUP, TRANSACTION
from ...protocol.messages.produce import ProduceRequest
from ...protocol.records.batch import read_header
from ...protocol.records.layout import HEADER_SIZE, MAGIC, MAGIC_AT
from ...protocol.schema import maker
from ...protocol.uuids import ZERO_UUID, format_uuid

if TYPE_CHECKING:
    from ...protocol.primitives import Buffer
    from ...protocol.records.layout import BatchHeader
    from ...protocol.schema import Request, Struct
    from ..services import Services

UNKNOWN_PRODUCER = -1
"""The id that stands for no producer."""


class KeyPartition(NamedTuple):
    """A partition that a request names; without a number, a topic as a whole."""

    topic: str
    """The name; the id as text where no topic has the id."""
    partition: int | None = None
    offset: int | None = None
    """The offset that the request states: to fetch from, to commit, to delete to. For ListOffsets the timestamp, of
    which -1 is the end and -2 the beginning."""
    records: int | None = None
    """Records to be appended, in a Produce, as the header of their batch claims; None where there is no batch, but the
    messages of an old client (magic 0 and 1)."""


class Producer(NamedTuple):
    """The id and the epoch of a producer."""

    id: int
    epoch: int


class KeyFields(NamedTuple):
    """What a request is about."""

    partitions: tuple[KeyPartition, ...] = ()
    """In the order of the request. For a follow-up in a fetch session: all that the session reads then (KIP-227)."""
    groups: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    """The ids of members; the id is empty, and not here, in the first JoinGroup of a member."""
    transactional_ids: tuple[str, ...] = ()
    producers: tuple[Producer, ...] = ()

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of its topics, each once."""
        return tuple(dict.fromkeys(one.topic for one in self.partitions))


class Names(NamedTuple):
    """What a request does not say itself."""

    topic_of: Callable[[bytes], str | None]
    """Gives the name of the topic with an id; None if no topic has it."""
    session: Callable[[int], Iterable[tuple[str, bytes, int]]]
    """Gives the partitions that a fetch session reads, each as topic or topic id, and number; none for an unknown
    session."""

    @classmethod
    def of(cls, services: Services) -> Names:
        """As the broker knows them now."""

        def topic_of(topic_id: bytes) -> str | None:
            topic = services.controller.topic_by_id(topic_id)
            return None if topic is None else topic.name

        return cls(topic_of, services.fetch_sessions.keys_of)


class _Topics(NamedTuple):
    """Where a message has topics."""

    path: str = "topics"
    """The fields that lead to the list of topics, joined by dots; a list on the way is walked."""
    name: str = "name"
    partitions: str | None = "partitions"
    """The list of partitions; None where topics are named as a whole."""
    number: str | None = None
    """The field of a partition that has its number; None where the list is one of numbers."""
    offset: str | None = None
    records: str | None = None


class _Fields(NamedTuple):
    """Where a message has its key fields, as paths."""

    topics: tuple[_Topics, ...] = ()
    groups: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    transactional_ids: tuple[str, ...] = ()
    producers: tuple[str, ...] = ()
    """The prefixes of the fields `producer_id` and `producer_epoch`."""


_NAMES_ONLY = _Topics(partitions=None)
_SHARE_STATE = _Fields((_Topics(number="partition"),), groups=("group_id",))
_MEMBER = _Fields(groups=("group_id",), members=("member_id",))

_TABLE: dict[str, _Fields] = {
    "AddOffsetsToTxn": _Fields(groups=("group_id",), transactional_ids=("transactional_id",), producers=("",)),
    "AddPartitionsToTxn": _Fields(
        (_Topics("transactions.topics"), _Topics("v3_and_below_topics")),
        transactional_ids=("transactions.transactional_id", "v3_and_below_transactional_id"),
        producers=("transactions.", "v3_and_below_"),
    ),
    "AlterPartitionReassignments": _Fields((_Topics(number="partition_index"),)),
    "AlterReplicaLogDirs": _Fields((_Topics("dirs.topics"),)),
    "AlterShareGroupOffsets": _Fields(
        (_Topics(name="topic_name", number="partition_index", offset="start_offset"),), groups=("group_id",)
    ),
    "ConsumerGroupDescribe": _Fields(groups=("group_ids",)),
    "ConsumerGroupHeartbeat": _MEMBER._replace(
        topics=(_Topics("subscribed_topic_names", partitions=None), _Topics("topic_partitions"))
    ),
    "CreatePartitions": _Fields((_NAMES_ONLY,)),
    "CreateTopics": _Fields((_NAMES_ONLY,)),
    "DeleteGroups": _Fields(groups=("groups_names",)),
    "DeleteRecords": _Fields((_Topics(number="partition_index", offset="offset"),)),
    "DeleteShareGroupOffsets": _Fields((_Topics(name="topic_name", partitions=None),), groups=("group_id",)),
    "DeleteShareGroupState": _SHARE_STATE,
    "DeleteTopics": _Fields((_NAMES_ONLY, _Topics("topic_names", partitions=None))),
    "DescribeGroups": _Fields(groups=("groups",)),
    "DescribeLogDirs": _Fields((_Topics(name="topic"),)),
    "DescribeProducers": _Fields((_Topics(partitions="partition_indexes"),)),
    "DescribeShareGroupOffsets": _Fields((_Topics("groups.topics", "topic_name"),), groups=("groups.group_id",)),
    "DescribeTopicPartitions": _Fields((_NAMES_ONLY,)),
    "DescribeTransactions": _Fields(transactional_ids=("transactional_ids",)),
    "ElectLeaders": _Fields((_Topics("topic_partitions", "topic"),)),
    "EndTxn": _Fields(transactional_ids=("transactional_id",), producers=("",)),
    "Fetch": _Fields((_Topics(name="topic", number="partition", offset="fetch_offset"),)),
    "Heartbeat": _MEMBER,
    "InitProducerId": _Fields(transactional_ids=("transactional_id",), producers=("",)),
    "InitializeShareGroupState": _SHARE_STATE,
    "JoinGroup": _MEMBER,
    "LeaveGroup": _Fields(groups=("group_id",), members=("member_id", "members.member_id")),
    "ListOffsets": _Fields((_Topics(number="partition_index", offset="timestamp"),)),
    "ListPartitionReassignments": _Fields((_Topics(partitions="partition_indexes"),)),
    "ListTransactions": _Fields(),
    "Metadata": _Fields((_NAMES_ONLY,)),
    "OffsetCommit": _MEMBER._replace(topics=(_Topics(number="partition_index", offset="committed_offset"),)),
    "OffsetDelete": _Fields((_Topics(number="partition_index"),), groups=("group_id",)),
    "OffsetFetch": _Fields(
        (_Topics(partitions="partition_indexes"), _Topics("groups.topics", partitions="partition_indexes")),
        groups=("group_id", "groups.group_id"),
        members=("groups.member_id",),
    ),
    "OffsetForLeaderEpoch": _Fields((_Topics(name="topic", number="partition"),)),
    "Produce": _Fields(
        (_Topics("topic_data", partitions="partition_data", number="index", records="records"),),
        transactional_ids=("transactional_id",),
    ),
    "ReadShareGroupState": _SHARE_STATE,
    "ReadShareGroupStateSummary": _SHARE_STATE,
    "ShareAcknowledge": _MEMBER._replace(topics=(_Topics(number="partition_index"),)),
    "ShareFetch": _MEMBER._replace(topics=(_Topics(number="partition_index"),)),
    "ShareGroupDescribe": _Fields(groups=("group_ids",)),
    "ShareGroupHeartbeat": _MEMBER._replace(topics=(_Topics("subscribed_topic_names", partitions=None),)),
    "StreamsGroupDescribe": _Fields(groups=("group_ids",)),
    "StreamsGroupHeartbeat": _MEMBER._replace(
        topics=(
            _Topics("topology.subtopologies.source_topics", partitions=None),
            _Topics("topology.subtopologies.repartition_source_topics", partitions=None),
            _Topics("topology.subtopologies.state_changelog_topics", partitions=None),
        )
    ),
    "SyncGroup": _MEMBER,
    "TxnOffsetCommit": _Fields(
        (_Topics(number="partition_index", offset="committed_offset"),),
        ("group_id",),
        ("member_id",),
        ("transactional_id",),
        ("",),
    ),
    "WriteShareGroupState": _SHARE_STATE,
    "WriteTxnMarkers": _Fields((_Topics("markers.topics", partitions="partition_indexes"),), producers=("markers.",)),
}
"""By API. AlterConfigs, DescribeConfigs, IncrementalAlterConfigs and FindCoordinator are read by functions, because
there one field says of what kind another one is."""


def key_fields(request: Request, names: Names) -> KeyFields:
    """The key fields of a decoded request. An API that is about none of this has none.

    For a Produce this is to be called while its records are there.
    """
    read = _SPECIAL.get(request.name)
    if read is not None:
        return read(request)
    fields = _TABLE.get(request.name)
    if fields is None:
        return KeyFields()
    partitions = [one for topics in fields.topics for one in _partitions(request, topics, names)]
    producers = [one for prefix in fields.producers for one in _producers(request, prefix)]
    if request.name == "Fetch":
        partitions = _of_session(request, partitions, names)
    elif request.name == "Produce":
        producers = [one for topic in _walk(request, "topic_data") for one in _producers_of_batches(topic)]
    return KeyFields(
        tuple(partitions),
        _texts(request, fields.groups),
        _texts(request, fields.members),
        _texts(request, fields.transactional_ids),
        tuple(dict.fromkeys(producers)),
    )


def kinds_of(api: str) -> frozenset[str]:
    """What the requests of an API may be about: "topic", "partition", "group" and "transactional_id"."""
    if api == "FindCoordinator":
        return frozenset({"group", "transactional_id"})
    if api in _SPECIAL:
        return frozenset({"topic", "group"})
    fields = _TABLE.get(api, _Fields())
    found = {
        "topic": fields.topics,
        "partition": [topics for topics in fields.topics if topics.partitions is not None],
        "group": fields.groups,
        "transactional_id": fields.transactional_ids,
    }
    if api == "Metadata":  # its answer has partitions, although its request names none
        found["partition"] = [*fields.topics]
    return frozenset(kind for kind, places in found.items() if places)


def _walk(message: Struct, path: str) -> Iterator[Any]:
    """The values at the end of a path: the items of a list, or the value itself; none for null."""
    first, _, rest = path.partition(".")
    found = getattr(message, first)
    values = found if isinstance(found, list) else () if found is None else (found,)
    for value in values:
        if rest:
            yield from _walk(value, rest)
        else:
            yield value


def _texts(request: Struct, paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for path in paths for text in _walk(request, path) if text))


def _partitions(request: Struct, topics: _Topics, names: Names) -> Iterator[KeyPartition]:
    for topic in _walk(request, topics.path):
        name = _topic_name(topic, topics.name, names)
        if topics.partitions is None:
            yield KeyPartition(name)
            continue
        for one in getattr(topic, topics.partitions):
            yield KeyPartition(
                name,
                getattr(one, topics.number) if topics.number else one,
                getattr(one, topics.offset) if topics.offset else None,
                _count_records(getattr(one, topics.records)) if topics.records else None,
            )


def _topic_name(topic: Any, field: str, names: Names) -> str:
    if isinstance(topic, str):
        return topic
    topic_id = getattr(topic, "topic_id", ZERO_UUID)
    name: str = getattr(topic, field, "") or ""
    if name or topic_id == ZERO_UUID:
        return name
    return names.topic_of(topic_id) or format_uuid(topic_id)


def _producers(request: Struct, prefix: str) -> Iterator[Producer]:
    ids, epochs = _walk(request, f"{prefix}producer_id"), _walk(request, f"{prefix}producer_epoch")
    for producer_id, epoch in zip(ids, epochs, strict=True):
        if producer_id != UNKNOWN_PRODUCER:
            yield Producer(producer_id, epoch)


def _producers_of_batches(topic: Any) -> Iterator[Producer]:
    for partition in topic.partition_data:
        header = _header_of(partition.records)
        if header is not None and header.producer_id != UNKNOWN_PRODUCER:
            yield Producer(header.producer_id, header.producer_epoch)


def _of_session(request: Any, named: list[KeyPartition], names: Names) -> list[KeyPartition]:
    """What a fetch reads: what it names, and if it follows up on a session, what the session has besides."""
    if request.session_id == 0 or request.session_epoch <= 0:
        return named
    forgotten = {
        (_topic_name(topic, "topic", names), number)
        for topic in request.forgotten_topics_data
        for number in topic.partitions
    }
    read: dict[tuple[str, int | None], KeyPartition] = {
        (topic, number): KeyPartition(topic, number)
        for name, topic_id, number in names.session(request.session_id)
        for topic in [name or names.topic_of(topic_id) or format_uuid(topic_id)]
    }
    read.update({(one.topic, one.partition): one for one in named})
    return [one for key, one in read.items() if key not in forgotten]


# --- APIs of which one field says what another one means


def _of_coordinator(request: Any) -> KeyFields:
    keys = tuple(request.coordinator_keys) or (request.key,)
    if request.key_type == GROUP:
        return KeyFields(groups=keys)
    return KeyFields(transactional_ids=keys) if request.key_type == TRANSACTION else KeyFields()


def _of_resources(request: Any) -> KeyFields:
    """The topics and groups whose settings a request is about; never the values."""

    def named(kind: int) -> list[str]:
        return [one.resource_name for one in request.resources if one.resource_type == kind]

    return KeyFields(tuple(map(KeyPartition, named(TOPIC_RESOURCE))), tuple(named(GROUP_RESOURCE)))


_SPECIAL: dict[str, Callable[[Any], KeyFields]] = {
    "AlterConfigs": _of_resources,
    "DescribeConfigs": _of_resources,
    "FindCoordinator": _of_coordinator,
    "IncrementalAlterConfigs": _of_resources,
}


# --- records


def _header_of(records: Buffer | None) -> BatchHeader | None:
    """The header of the batch that a partition is sent; None where it is sent no batch."""
    if records is None or len(records) < HEADER_SIZE or records[MAGIC_AT] != MAGIC:
        return None
    return read_header(records)


def _count_records(records: Buffer | None) -> int | None:
    header = _header_of(records)
    return None if header is None else header.record_count


_make_produce = maker(ProduceRequest)
_make_topic = maker(ProduceRequest.Topic)
_make_partition = maker(ProduceRequest.Topic.Partition)


def without_records(request: ProduceRequest) -> ProduceRequest:
    """The same request with nothing but the headers of its batches, which are copied: to be kept, when the bytes that
    it came from are not. Its key fields are the same."""
    topics = [
        _make_topic(
            topic.name,
            topic.topic_id,
            [
                _make_partition(one.index, None if one.records is None else bytes(one.records[:HEADER_SIZE]))
                for one in topic.partition_data
            ],
        )
        for topic in request.topic_data
    ]
    return _make_produce(request.transactional_id, request.acks, request.timeout_ms, topics)
