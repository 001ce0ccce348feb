"""The records of `__share_group_state`: keys and values of Kafka's schemas (KIP-932).

| key                          | value                                                                            |
|------------------------------|----------------------------------------------------------------------------------|
| 0, group, topic id, partition | a snapshot: the whole state of the share partition; a tombstone deletes the state |
| 1, group, topic id, partition | an update of the snapshot of the same epoch: what a leader has written           |

The topic is not compacted: a state is its last snapshot and the updates behind it. Key and value begin with their type
and version, an int16 each.
"""

import struct
from typing import NamedTuple

from ...protocol.errors import MalformedMessage
from ...protocol.messages.read_share_group_state import StateBatch
from ...protocol.primitives import Array, Int32, Int64, Timestamp
from ...protocol.schema import Message, field
from ..coordinators.internal_records import CorruptRecord
from .persister import NOT_COUNTED, SharePartitionKey

SNAPSHOT, UPDATE = 0, 1
"""The types of keys."""

_INT16 = struct.Struct(">h")
_HEAD = struct.Struct(">hh")
_PLACE = struct.Struct(">16si")
_VERSION = 0


class ShareSnapshotValue(Message, versions="0", flexible="0+"):
    """The whole state of a share partition."""

    snapshot_epoch: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = field(tag=0, default=NOT_COUNTED)
    create_timestamp: Timestamp
    write_timestamp: Timestamp
    state_batches: Array[StateBatch]


class ShareUpdateValue(Message, versions="0", flexible="0+"):
    """What has changed since the snapshot of this epoch."""

    snapshot_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = field(tag=0, default=NOT_COUNTED)
    state_batches: Array[StateBatch]


Value = ShareSnapshotValue | ShareUpdateValue


class RecordKey(NamedTuple):
    """The key of a record."""

    key_type: int
    place: SharePartitionKey


def encode_key(key_type: int, place: SharePartitionKey) -> bytes:
    """The key of a record about a share partition."""
    group = place.group_id.encode()
    return _HEAD.pack(key_type, len(group)) + group + _PLACE.pack(place.topic_id, place.partition)


def decode_key(key: bytes) -> RecordKey | None:
    """The parts of a key; None for a type that is not known here. Raises CorruptRecord."""
    try:
        key_type, length = _HEAD.unpack_from(key)
        if key_type not in (SNAPSHOT, UPDATE):
            return None
        end = _HEAD.size + length
        if length < 0 or end + _PLACE.size != len(key):
            raise CorruptRecord(f"a key of {len(key)} bytes is none of a share partition")
        topic_id, partition = _PLACE.unpack_from(key, end)
        return RecordKey(key_type, SharePartitionKey(key[_HEAD.size : end].decode(), topic_id, partition))
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptRecord(f"no key of a share partition: {error}") from error


def encode_value(value: Value) -> bytes:
    """The bytes of a value."""
    return _INT16.pack(_VERSION) + b"".join(value.encode(_VERSION))


def decode_value(key_type: int, value: bytes) -> Value:
    """The value of a record whose key has this type. Raises CorruptRecord."""
    kind: type[Value] = ShareSnapshotValue if key_type == SNAPSHOT else ShareUpdateValue
    try:
        (version,) = _INT16.unpack_from(value)
        return kind.decode(memoryview(value)[_INT16.size :], version)
    except (struct.error, ValueError, MalformedMessage) as error:
        raise CorruptRecord(f"no {kind.__name__}: {error}") from error
