"""The records of `__consumer_offsets`: a key and a value of Kafka's schemas; a null value deletes the key.

| key                                 | value                                                    |
|-------------------------------------|----------------------------------------------------------|
| 1, group, topic, partition (or 0, …) | a committed offset; versions 0 to 4                     |
| 2, group                            | the group, as of its last rebalance; versions 0 to 4     |
| 3 to 8, 16, group, …                | consumer groups: `consumer/consumer_group_records.py`    |
| 10 to 15, 17, …                     | group protocols that are not served here                 |

`modern/record_format.py` has the shape of all below the first two.

A key begins with its type, a value with its version, an int16 each. The length of a string is an int16, from version 4
on (flexible) a varint. Like Apache Kafka 4.3, kmini writes key type 1 with version 4, or with version 1 if the offset
has its own time of expiry, and key type 2 with version 3.

A starting broker reads committed offsets by the hundred thousand, so their codec is written by hand; a group is a
message like those on the wire.
"""

import struct
from typing import NamedTuple

from ...protocol.primitives import Array, Bytes, Int32, NullableString, String, Timestamp
from ...protocol.records.batch import NO_LEADER_EPOCH, NO_TIMESTAMP
from ...protocol.schema import Message, Struct, field
from ...protocol.uuids import ZERO_UUID
from ..coordinators.internal_records import CorruptRecord
from .committed_offsets import CommittedOffset

OFFSET = 1
"""The key type of a committed offset; type 0 is read as one, too."""
OFFSET_KEYS = (b"\0\1", b"\0\0")
"""The first bytes of keys of committed offsets."""
GROUP = 2

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_PREFIX = struct.Struct(">hh")
_OFFSET_V0 = struct.Struct(">hqh")
_OFFSET_V3 = struct.Struct(">hqih")
_OFFSET_V4 = struct.Struct(">hqi")
_TIMES_V1 = struct.Struct(">qq")
_TOPIC_ID_SIZE = 16
_TOPIC_ID_TAG = bytes((1, 0, _TOPIC_ID_SIZE))
"""One tagged field, number 0, of 16 bytes."""


class GroupMetadata(Message, versions="0-4", flexible="4+"):
    """A group, as it last became Stable or Empty."""

    class Member(Struct):
        member_id: String
        group_instance_id: NullableString = field(since=3, default=None)
        client_id: String
        client_host: String
        rebalance_timeout_ms: Int32 = field(since=1, default=-1)
        """-1 in versions without it: as long as the session time-out."""
        session_timeout_ms: Int32
        subscription: Bytes
        """The member's metadata of the chosen protocol."""
        assignment: Bytes

    protocol_type: String
    """Empty for a group that never had a member."""
    generation_id: Int32
    protocol_name: NullableString
    """Null, like the leader, without members."""
    leader_id: NullableString
    state_timestamp_ms: Timestamp = field(since=2, default=NO_TIMESTAMP)
    """Log time of the last change of state: of an Empty group, when it became Empty."""
    members: Array[Member]


MemberMetadata = GroupMetadata.Member

_GROUP_VERSION = 3


class OffsetPlace(NamedTuple):
    """The group and topic of an offset's key."""

    group_id: str
    topic: str


def offset_key_prefix(group_id: str, topic: str) -> bytes:
    """The common prefix of the keys of a topic's partitions; `offset_key` appends the partition."""
    group, name = group_id.encode(), topic.encode()
    return _PREFIX.pack(OFFSET, len(group)) + group + _INT16.pack(len(name)) + name


def offset_key(prefix: bytes, partition: int) -> bytes:
    """The key of a committed offset."""
    return prefix + _INT32.pack(partition)


def split_offset_key(key: bytes) -> tuple[bytes, int]:
    """Split a key of type 0 or 1 into its prefix, which many share, and the partition. Raises CorruptRecord."""
    if len(key) < _INT32.size:
        raise CorruptRecord(f"a key of {len(key)} bytes has no partition")
    return key[:-4], _INT32.unpack_from(key, len(key) - 4)[0]


def decode_offset_prefix(prefix: bytes) -> OffsetPlace:
    """Group and topic of a key's prefix. Raises CorruptRecord."""
    try:
        group_id, position = _string(prefix, _INT16.size)
        topic, position = _string(prefix, position)
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptRecord(f"no key of a committed offset: {error}") from error
    if position != len(prefix):
        raise CorruptRecord("the key of a committed offset is too long")
    return OffsetPlace(group_id, topic)


def encode_offset(committed: CommittedOffset) -> bytes:
    """The value for a committed offset."""
    metadata = committed.metadata.encode()
    if committed.expire_timestamp_ms is not None:  # only version 1 has it, which lacks leader epoch and topic id
        head = _OFFSET_V0.pack(1, committed.offset, len(metadata))
        return head + metadata + _TIMES_V1.pack(committed.commit_timestamp_ms, committed.expire_timestamp_ms)
    length = _varint(len(metadata) + 1)
    head = _OFFSET_V4.pack(4, committed.offset, committed.leader_epoch) + length
    tags = b"\0" if committed.topic_id == ZERO_UUID else _TOPIC_ID_TAG + committed.topic_id
    return head + metadata + _INT64.pack(committed.commit_timestamp_ms) + tags


def decode_offset(value: bytes) -> CommittedOffset:
    """Decode a committed offset of any version. Raises CorruptRecord."""
    try:
        version, offset, leader_epoch = _OFFSET_V4.unpack_from(value)  # all versions are at least as long
        if version == 4:
            return _decode_flexible(value, offset, leader_epoch)
        if version == 3:
            _, _, _, length = _OFFSET_V3.unpack_from(value)
            end = _OFFSET_V3.size + length
        elif 0 <= version < 3:
            _, _, length = _OFFSET_V0.unpack_from(value)
            leader_epoch, end = NO_LEADER_EPOCH, _OFFSET_V0.size + length
        else:
            raise CorruptRecord(f"there is no version {version} of a committed offset")
        if length < 0:
            raise CorruptRecord("the metadata of a committed offset is null")
        metadata = value[end - length : end].decode()
        (commit_timestamp,) = _INT64.unpack_from(value, end)
        expires = _INT64.unpack_from(value, end + 8)[0] if version == 1 else NO_TIMESTAMP
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise CorruptRecord(f"no committed offset: {error}") from error
    expire_timestamp = None if expires == NO_TIMESTAMP else expires
    return CommittedOffset(offset, leader_epoch, metadata, commit_timestamp, expire_timestamp)


def _decode_flexible(value: bytes, offset: int, leader_epoch: int) -> CommittedOffset:
    length, position = _read_varint(value, _OFFSET_V4.size)
    end = position + length - 1
    if length == 0:
        raise CorruptRecord("the metadata of a committed offset is null")
    metadata = value[position:end].decode()
    (commit_timestamp,) = _INT64.unpack_from(value, end)
    topic_id = _tagged_topic_id(value, end + _INT64.size)
    return CommittedOffset(offset, leader_epoch, metadata, commit_timestamp, None, topic_id)


def _tagged_topic_id(value: bytes, position: int) -> bytes:
    """The topic id among the tagged fields at `position`; unknown tags are skipped."""
    tags = value[position:]
    if tags == b"\0":
        return ZERO_UUID
    if len(tags) == len(_TOPIC_ID_TAG) + _TOPIC_ID_SIZE and tags.startswith(_TOPIC_ID_TAG):
        return tags[len(_TOPIC_ID_TAG) :]
    topic_id = ZERO_UUID
    count, position = _read_varint(value, position)
    for _ in range(count):
        tag, position = _read_varint(value, position)
        size, position = _read_varint(value, position)
        if tag == 0 and size == _TOPIC_ID_SIZE:
            topic_id = value[position : position + size]
        position += size
    if position != len(value):
        raise CorruptRecord("the tagged fields of a committed offset do not fill it")
    return topic_id


def group_key(group_id: str) -> bytes:
    """The key of a group."""
    group = group_id.encode()
    return _PREFIX.pack(GROUP, len(group)) + group


def decode_group_key(key: bytes) -> str:
    """The group id of a key of type 2. Raises CorruptRecord."""
    try:
        group_id, end = _string(key, _INT16.size)
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptRecord(f"no key of a group: {error}") from error
    if end != len(key):
        raise CorruptRecord("the key of a group is too long")
    return group_id


def encode_group(metadata: GroupMetadata) -> bytes:
    """The value for a group."""
    return _INT16.pack(_GROUP_VERSION) + b"".join(metadata.encode(_GROUP_VERSION))


def decode_group(value: bytes) -> GroupMetadata:
    """Decode a group of any version. Raises CorruptRecord."""
    from ...protocol.errors import MalformedMessage

    try:
        (version,) = _INT16.unpack_from(value)
        return GroupMetadata.decode(memoryview(value)[_INT16.size :], version)
    except (struct.error, ValueError, MalformedMessage) as error:
        raise CorruptRecord(f"no group: {error}") from error


def key_type(key: bytes) -> int:
    """The type of a key. Raises CorruptRecord if it has none."""
    if len(key) < _INT16.size:
        raise CorruptRecord(f"a key of {len(key)} bytes has no type")
    return int(_INT16.unpack_from(key)[0])


def _string(buffer: bytes, position: int) -> tuple[str, int]:
    (length,) = _INT16.unpack_from(buffer, position)
    position += _INT16.size
    end = position + length
    if length < 0 or end > len(buffer):
        raise CorruptRecord("a string is longer than its key")
    return buffer[position:end].decode(), end


def _varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _read_varint(buffer: bytes, position: int) -> tuple[int, int]:
    value = buffer[position]
    position += 1
    if value < 0x80:
        return value, position
    value &= 0x7F
    for shift in range(7, 35, 7):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise CorruptRecord("a number has too many bytes")
