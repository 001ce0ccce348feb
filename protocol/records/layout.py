"""The layout of a record batch and of the records in it (magic 2): offsets, bits, and the reasons to refuse one.

This module is the one description: `batch.py` reads and writes headers by it, the kernels read it interpreted, and
setup.py hands its numbers to the compiled kernels as constants of C.

A batch is a header of 61 bytes and a *block* of records, which may be compressed.

| at | size | field                | |
|---:|-----:|----------------------|-|
|  0 |    8 | base offset          | of the first record; the leader assigns it |
|  8 |    4 | batch length         | bytes that follow this field |
| 12 |    4 | partition leader epoch | the leader assigns it |
| 16 |    1 | magic                | 2 |
| 17 |    4 | CRC-32C              | of everything from byte 21 on |
| 21 |    2 | attributes           | codec (3 bits), log append time, transactional, control, delete horizon |
| 23 |    4 | last offset delta    | |
| 27 |    8 | base timestamp       | of the first record; with a delete horizon: the horizon (KIP-534) |
| 35 |    8 | max timestamp        | |
| 43 |    8 | producer id          | |
| 51 |    2 | producer epoch       | |
| 53 |    4 | base sequence        | |
| 57 |    4 | record count         | |

Base offset and leader epoch are outside the checksum, so a leader writes them in place.

A record of a block, decompressed:

| field            | type          | |
|------------------|---------------|-|
| length           | varint        | bytes that follow this field |
| attributes       | 1 byte        | bit 5 is the tombstone flag (KIP-87); the others mean nothing |
| timestamp delta  | varlong       | from the batch's base timestamp |
| offset delta     | varint        | from its base offset |
| key              | varint, bytes | a negative length is null |
| value            | varint, bytes | likewise |
| header count     | varint        | headers follow: a name and a value each, both like the key; a name is never null |

A varint has at most 5 bytes and makes 32 bits, a varlong at most 10 bytes and makes 64; both are zig-zag.

Old logs and old clients may hold messages of magic 0 and 1 instead: see `old_formats`.
"""

from __future__ import annotations

from typing import NamedTuple

MAGIC = 2

# The header of a batch: where its fields are, in bytes from its start.
LENGTH_AT = 8
LEADER_EPOCH_AT = 12
MAGIC_AT = 16
CRC_AT = 17
CHECKED_FROM = 21
"""Where the bytes begin that the checksum covers."""
ATTRIBUTES_AT = 22
"""The second byte of the attributes, the only one in use."""
LAST_OFFSET_DELTA_AT = 23
BASE_TIMESTAMP_AT = 27
MAX_TIMESTAMP_AT = 35
PRODUCER_ID_AT = 43
PRODUCER_EPOCH_AT = 51
BASE_SEQUENCE_AT = 53
RECORD_COUNT_AT = 57
HEADER_SIZE = 61

HEADER_FORMAT = ">qiibIhiqqqhii"
"""The fields of the header for the module `struct`, in the order of `BatchHeader`."""

LOG_OVERHEAD = 12
"""Bytes that the batch length does not count: the base offset and the length itself."""

SMALLEST_MESSAGE = 14
"""Bytes behind the overhead that a batch or message of any magic has at least."""

# The attributes of a batch.
CODEC_MASK = 0x07
LAST_CODEC = 4
"""The highest number of a codec."""
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

# The fields of a header that are absent.
NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1

MAX_SEQUENCE = 2**31 - 1

# A record.
VARINT_BITS = 35
"""Bits of the bytes that a varint may have at most, seven a byte."""
VARLONG_BITS = 70
"""Bits of the bytes that a varlong may have at most, seven a byte."""
SMALLEST_RECORD = 6
"""Bytes behind the length of the smallest record: attributes, two deltas, two lengths and a header count."""
SMALLEST_STORED_RECORD = 7
"""Bytes of the smallest record with its length."""
LONGEST_NUMBERS = 36
"""Bytes of a record besides its key, its value and its headers, at most."""

TOMBSTONE_BIT = 0x20
"""Of the attributes of a record: an explicit tombstone (KIP-87), where the topic has them."""
TOMBSTONE_HEADER = "kmini.tombstone"
"""The name of the record header that says the same."""
TOMBSTONE_HEADER_SIZE = 15
"""Bytes of that name."""

# What the kernel of the tombstone flag marks a record with: the sum of what is true of it.
MARK_NULL = 1
"""Its value is null."""
MARK_FLAG = 2
"""Its attributes have the tombstone bit."""
MARK_HEADER = 4
"""It has the tombstone header."""
MARK_DENIED = 8
"""It has the tombstone header with the value 0: it is no tombstone."""

# Why a kernel refuses a record, or the batch that holds it.
BAD_NUMBER = 1
BAD_LENGTH = 2
TOO_LARGE = 3
BAD_KEY = 4
BAD_VALUE = 5
BAD_HEADERS = 6
BAD_SIZE = 7
BAD_COUNT = 8
BAD_CHECKSUM = 9

# Which claim in the header of a producer's batch is at fault; 0 stands for none.
NOT_FROM_ZERO = 1
OVERSIZED = 2
WRONG_CHECKSUM = 3
UNKNOWN_CODEC = 4
WRONG_COUNT = 5
FOR_BROKERS_ONLY = 6
WITHOUT_SEQUENCE = 7

REASONS = {
    BAD_NUMBER: "one of its numbers has too many bytes",
    BAD_LENGTH: "its length is negative or too short for a record",
    TOO_LARGE: "it is larger than a record may be",
    BAD_KEY: "its key is longer than the record",
    BAD_VALUE: "its value is longer than the record",
    BAD_HEADERS: "its headers are malformed",
    BAD_SIZE: "its fields do not fill its length exactly",
    BAD_COUNT: "there are not as many records as the batch says",
    BAD_CHECKSUM: "the checksum of its batch is wrong",
}


class BatchHeader(NamedTuple):
    """The fields of a batch's header as they stand; reading them checks nothing."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    """Of the first record, or the delete horizon: record timestamps are deltas from it either way."""
    max_timestamp: int
    """With log append time it is the timestamp of every record."""
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    """0 in a batch that compaction emptied and kept for its producer's sequence; -1 in a wrapper of old messages."""

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """A number of `Codec`, or one that means nothing."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & DELETE_HORIZON)

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)


def increment_sequence(sequence: int, count: int) -> int:
    """The sequence `count` later; sequences go from 0 to 2^31 - 1 and then begin again."""
    if sequence <= MAX_SEQUENCE - count:
        return sequence + count
    return count - (MAX_SEQUENCE - sequence) - 1


def decrement_sequence(sequence: int, count: int) -> int:
    """The sequence `count` earlier."""
    return sequence - count if sequence >= count else MAX_SEQUENCE - (count - sequence) + 1
