"""The records of groups in `__consumer_offsets`: keys and values of Kafka's schemas.

A key begins with its type, an int16; then come the group id, and the member id or the regular expression of a record
that is about one: strings, whose length is an int16. A value begins with its version, 0, which is flexible.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple, TypeVar

from ....protocol.errors import MalformedMessage
from ....protocol.schema import Message
from ...coordinators.internal_records import CorruptRecord

CONSUMER, SHARE, STREAMS = "consumer", "share", "streams"
"""The kinds of groups to which key types belong, as ListGroups names them."""

_OF_GROUPS = {CONSUMER: (3, 4, 6), SHARE: (11, 12, 15), STREAMS: (17, 20, 23)}
_OF_MEMBERS = {CONSUMER: (5, 7, 8, 16), SHARE: (10, 13, 14), STREAMS: (19, 21, 22)}

KINDS = {key_type: kind for table in (_OF_GROUPS, _OF_MEMBERS) for kind, types in table.items() for key_type in types}
"""The kind of group by the type of a key."""

_NAMED = frozenset(key_type for types in _OF_MEMBERS.values() for key_type in types)
_INT16 = struct.Struct(">h")
_VERSION = 0
M = TypeVar("M", bound=Message)


class RecordKey(NamedTuple):
    """The key of a record."""

    key_type: int
    group_id: str
    name: str
    """A member id, or a regular expression; empty where the type has none."""


def group_key(key_type: int, group_id: str) -> bytes:
    """The key of a record about the group."""
    return _INT16.pack(key_type) + _packed(group_id)


def member_key(key_type: int, group_id: str, name: str) -> bytes:
    """The key of a record about a member, or about a regular expression."""
    return group_key(key_type, group_id) + _packed(name)


def decode_key(key: bytes) -> RecordKey:
    """The parts of a key of one of these types. Raises CorruptRecord."""
    try:
        (key_type,) = _INT16.unpack_from(key)
        group_id, end = _unpacked(key, _INT16.size)
        name, end = _unpacked(key, end) if key_type in _NAMED else ("", end)
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptRecord(f"no key of a group's record: {error}") from error
    if end != len(key):
        raise CorruptRecord("the key of a group's record is too long")
    return RecordKey(key_type, group_id, name)


def encode(value: Message) -> bytes:
    """The bytes of a value."""
    return _INT16.pack(_VERSION) + b"".join(value.encode(_VERSION))


def decode(kind: type[M], value: bytes) -> M:
    """The value of this kind. Raises CorruptRecord."""
    try:
        (version,) = _INT16.unpack_from(value)
        return kind.decode(memoryview(value)[_INT16.size :], version)
    except (struct.error, ValueError, MalformedMessage) as error:
        raise CorruptRecord(f"no {kind.__name__}: {error}") from error


def with_epochs(partitions: Sequence[int], epochs: Sequence[int] | None, member_epoch: int) -> dict[int, int]:
    """Partitions with the epochs at which they were assigned; a record of an older version has none, and the member
    epoch counts."""
    return dict(zip_longest(partitions, (epochs or ())[: len(partitions)], fillvalue=member_epoch))


def _packed(name: str) -> bytes:
    encoded = name.encode()
    return _INT16.pack(len(encoded)) + encoded


def _unpacked(buffer: bytes, position: int) -> tuple[str, int]:
    (length,) = _INT16.unpack_from(buffer, position)
    end = position + _INT16.size + length
    if length < 0 or end > len(buffer):
        raise CorruptRecord("a string is longer than its key")
    return buffer[position + _INT16.size : end].decode(), end
