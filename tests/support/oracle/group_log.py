"""What a server has written about one consumer group, batch by batch, in a form that two servers can agree on."""

from __future__ import annotations

from itertools import chain, groupby, product
from typing import Any

from kmini.broker.coordinators.coordinator_topic import partition_for
from kmini.broker.groups import group_records
from kmini.broker.groups.consumer import consumer_group_records as records
from kmini.broker.groups.modern import record_format
from kmini.broker.groups.modern.topic_catalog import group_hash, topic_hash
from kmini.broker.groups.share import share_group_records as share
from kmini.broker.groups.streams import streams_group_records as streams
from kmini.protocol import messages as m
from kmini.protocol.messages.list_offsets import LATEST
from kmini.protocol.records.batch import iter_batches
from kmini.protocol.records.batch_records import decode_records
from kmini.protocol.schema import Message, Struct
from kmini.protocol.topics import CONSUMER_OFFSETS
from kmini.testing import Wire
from support.until import until

VALUES: dict[int, type[Message]] = {
    records.GROUP_METADATA: records.ConsumerGroupMetadataValue,
    records.MEMBER_METADATA: records.ConsumerGroupMemberMetadataValue,
    records.TARGET_ASSIGNMENT_METADATA: records.ConsumerGroupTargetAssignmentMetadataValue,
    records.TARGET_ASSIGNMENT_MEMBER: records.ConsumerGroupTargetAssignmentMemberValue,
    records.CURRENT_MEMBER_ASSIGNMENT: records.ConsumerGroupCurrentMemberAssignmentValue,
    records.REGULAR_EXPRESSION: records.ConsumerGroupRegularExpressionValue,
    share.GROUP_METADATA: share.ShareGroupMetadataValue,
    share.MEMBER_METADATA: share.ShareGroupMemberMetadataValue,
    share.TARGET_ASSIGNMENT_METADATA: share.ShareGroupTargetAssignmentMetadataValue,
    share.TARGET_ASSIGNMENT_MEMBER: share.ShareGroupTargetAssignmentMemberValue,
    share.CURRENT_MEMBER_ASSIGNMENT: share.ShareGroupCurrentMemberAssignmentValue,
    share.STATE_PARTITION_METADATA: share.ShareGroupStatePartitionMetadataValue,
    streams.GROUP_METADATA: streams.StreamsGroupMetadataValue,
    streams.MEMBER_METADATA: streams.StreamsGroupMemberMetadataValue,
    streams.TARGET_ASSIGNMENT_METADATA: streams.StreamsGroupTargetAssignmentMetadataValue,
    streams.TARGET_ASSIGNMENT_MEMBER: streams.StreamsGroupTargetAssignmentMemberValue,
    streams.CURRENT_MEMBER_ASSIGNMENT: streams.StreamsGroupCurrentMemberAssignmentValue,
    streams.TOPOLOGY: streams.StreamsGroupTopologyValue,
}
"""The schemas of the values, by the type of the key."""

TIMES = {"assignment_timestamp", "timestamp", "version"}
"""When something was done, and with which version of the server's metadata; 0 keeps its meaning."""


class GroupLog:
    """The records of one group in `__consumer_offsets`, from the end of its partition on."""

    def __init__(self, wire: Wire, group: str) -> None:
        self._wire = wire
        self._group = group
        (topic,) = wire.ask(m.MetadataRequest(topics=[m.MetadataRequest.Topic(name=CONSUMER_OFFSETS)]), 12).topics
        self._partition = partition_for(group, len(topic.partitions))
        self._next = self._end()
        self._unread: list[Any] = []
        """Batches that came since the last `read`, and have been looked at."""
        self._names: dict[bytes, str] = {}
        self._hashes: dict[str, dict[int, int]] = {}
        """By topic and number of partitions."""
        self.left_out: frozenset[int] = frozenset()
        """Types of keys whose records are not read."""

    def add_topic(self, name: str, topic_id: bytes, count: int) -> None:
        """A topic of the group, which may be recreated, has this number of partitions now."""
        self._names[topic_id] = name
        self._hashes.setdefault(name, {})[count] = topic_hash(topic_id, name, [[]] * count)

    def _end(self) -> int:
        Topic = m.ListOffsetsRequest.Topic
        asked = [Topic.Partition(partition_index=self._partition, timestamp=LATEST)]
        request = m.ListOffsetsRequest(topics=[Topic(name=CONSUMER_OFFSETS, partitions=asked)])
        (answer,) = self._wire.ask(request, 5).topics
        assert answer.partitions[0].error_code == 0, answer
        return int(answer.partitions[0].offset)

    def read(self) -> list[Any]:
        """The batches since the last time, each a list of records."""
        self._look()
        batches, self._unread = self._unread, []
        return batches

    def wait_for_states(self) -> None:
        """Wait until no partition's state is being initialized or deleted, which servers do after their answer."""

        def are_settled() -> bool:
            self._look()
            told = [row[2] for batch in self._unread for row in batch if row[0] == share.STATE_PARTITION_METADATA]
            return not told or told[-1] is None or not (told[-1]["initializing_topics"] or told[-1]["deleting_topics"])

        until(are_settled, lambda: f"settled states: {self._unread[-1:]}")

    def _look(self) -> None:
        end = self._end()
        while self._next < end:
            data = self._fetched()
            for position, header in iter_batches(data):
                rows = [self._row(one.key, one.value) for one in decode_records(data, position, header)]
                if mine := [row for row in rows if row is not None]:
                    self._unread.append(_in_order(mine))
                self._next = header.base_offset + header.last_offset_delta + 1

    def wait_for_records(self, count: int) -> None:
        """Wait until the group has got so many records more since the last look. Those of other groups, which other
        tests write into the same partition at the same time, do not count."""
        enough = self._unread_records() + count

        def have_come() -> bool:
            self._look()
            return self._unread_records() >= enough

        until(have_come, lambda: f"{self._unread_records()} of {enough} records of the group: {self._unread}")

    def _unread_records(self) -> int:
        return sum(map(len, self._unread))

    def _fetched(self) -> bytes:
        Topic = m.FetchRequest.Topic
        asked = Topic.Partition(partition=self._partition, fetch_offset=self._next, partition_max_bytes=1 << 20)
        topics = [Topic(topic=CONSUMER_OFFSETS, partitions=[asked])]
        request = m.FetchRequest(max_wait_ms=1_000, min_bytes=1, topics=topics)
        (answer,) = self._wire.ask(request, 12).responses
        assert answer.partitions[0].error_code == 0, answer
        return bytes(answer.partitions[0].records)

    def _row(self, key: bytes | None, value: bytes | None) -> Any:
        """Type, name and content of a record of the group; None for one of another group."""
        assert key is not None
        kind = group_records.key_type(key)
        if key.startswith(group_records.OFFSET_KEYS):
            return self._offset_row(kind, key, value)
        if kind == group_records.GROUP:
            if group_records.decode_group_key(key) != self._group:
                return None
            return [kind, "", value and self._plain(group_records.decode_group(value))]
        _, group, name = record_format.decode_key(key)
        if group != self._group or kind in self.left_out:
            return None
        if value is None:
            return [kind, name, None]
        decoded = record_format.decode(VALUES[kind], value)
        assert record_format.encode(decoded) == value, "the record has something that its schema does not have"
        return [kind, name, self._plain(decoded)]

    def _offset_row(self, kind: int, key: bytes, value: bytes | None) -> Any:
        prefix, partition = group_records.split_offset_key(key)
        group, topic = group_records.decode_offset_prefix(prefix)
        if group != self._group:
            return None
        if value is None:
            return [kind, f"{topic}-{partition}", None]
        decoded = group_records.decode_offset(value)
        content = {**decoded._asdict(), "version": value[:2].hex(), "commit_timestamp_ms": "a time"}
        content["topic_id"] = self._names.get(decoded.topic_id, "none")
        return [kind, f"{topic}-{partition}", content]

    def _plain(self, value: Any, name: str = "") -> Any:
        if isinstance(value, Struct):
            fields = {field.name: getattr(value, field.name) for field in type(value).__fields__}
            if fields.get("assignment_epochs") is not None:  # partitions may stand in any order
                pairs = sorted(zip(fields["partitions"], fields["assignment_epochs"], strict=True))
                fields["partitions"], fields["assignment_epochs"] = map(list, zip(*pairs, strict=True))
            plain = {name: self._plain(one, name) for name, one in fields.items() if name != "topic_id"}
            if "topic_id" in fields:
                plain["topic"] = self._names.get(fields["topic_id"], "unknown")
            return plain
        if isinstance(value, list):
            entries = [self._plain(one) for one in value]
            if name == "assignment_epochs":
                return entries
            return sorted(entries, key=lambda one: str(one.get("topic")) if isinstance(one, dict) else one)
        if name == "metadata_hash":
            return self._meaning(value)
        if name in TIMES:
            return value and "a time"
        return value.hex() if isinstance(value, bytes) else value

    def _meaning(self, metadata_hash: int) -> str:
        """Of which topics, with how many partitions, this is the hash."""
        choices = [[None, *by_count.items()] for by_count in self._hashes.values()]
        for chosen in product(*choices):
            some = {name: one for name, one in zip(self._hashes, chosen, strict=True) if one is not None}
            if group_hash({name: one[1] for name, one in some.items()}) == metadata_hash:
                return f"of { {name: count for name, (count, _) in some.items()} }"
        return f"of nothing that the script knows: {metadata_hash}"


def _in_order(rows: list[Any]) -> list[Any]:
    """Neighbours of one type by their names: Apache Kafka goes through members in the order of a hash table."""
    return [*chain.from_iterable(sorted(same, key=lambda row: str(row[1])) for _, same in groupby(rows, _kind))]


def _kind(row: list[Any]) -> tuple[Any, bool]:
    return row[0], row[2] is None
