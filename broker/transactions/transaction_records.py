"""The records of `__transaction_state`: a key and a value of Kafka's schemas for each transactional id; a null value
deletes the id.

A key begins with its version, 0, and a value with its own, an int16 each. Value version 1 is flexible and has more
fields about successive producer ids; it is written where the feature `transaction.version` has level 1 or more. Both
are read.
"""

import struct
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from ...protocol.errors import MalformedMessage
from ...protocol.primitives import Array, Int8, Int16, Int32, Int64, NullableArray, String, Timestamp
from ...protocol.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP
from ...protocol.schema import Message, Struct, field, maker
from ...protocol.topics import TopicPartition
from ..coordinators.internal_records import CorruptRecord
from .transaction_states import EMPTY, STORED, TransactionState

_INT16 = struct.Struct(">h")
_KEY = struct.Struct(">hh")
_KEY_VERSION = 0


class Entry(NamedTuple):
    """The stored state of a transactional id. A change makes a new entry."""

    producer_id: int
    producer_epoch: int
    """-1 until a producer is given one."""
    timeout_ms: int
    """Milliseconds that a transaction may stay open."""
    state: TransactionState
    partitions: frozenset[TopicPartition] = frozenset()
    """The partitions of the transaction; empty between transactions."""
    last_update_ms: int = NO_TIMESTAMP
    """Log time of the last change; `transactional.id.expiration.ms` counts from here."""
    start_ms: int = NO_TIMESTAMP
    """Log time at which the present or last transaction began; -1 without one under this producer epoch."""
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the last change, usually the same."""
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id after a decided transaction whose epoch was the last one of its producer id; -1 otherwise."""
    client_version: int = 0
    """The level of `transaction.version` by whose rules the present or last transaction runs; 0 stands for 1, too."""

    def by_topic(self) -> list[tuple[str, list[int]]]:
        """Partition numbers by topic name, both in order."""
        if len(self.partitions) == 1:  # as of most transactions; it is stored three times in each
            ((name, number),) = self.partitions
            return [(name, [number])]
        return [
            (name, [number for _, number in its]) for name, its in groupby(sorted(self.partitions), attrgetter("topic"))
        ]


class TransactionValue(Message, versions="0-1", flexible="1+"):
    """An entry, as the log holds it."""

    class Topic(Struct):
        topic: String
        partition_ids: Array[Int32]

    producer_id: Int64
    previous_producer_id: Int64 = field(since=1, default=NO_PRODUCER_ID, tag=0)
    next_producer_id: Int64 = field(since=1, default=NO_PRODUCER_ID, tag=1)
    producer_epoch: Int16
    next_producer_epoch: Int16 = field(since=1, default=NO_PRODUCER_EPOCH, tag=3)
    """Apache Kafka neither writes nor reads it."""
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: NullableArray[Topic]
    """Null in the state Empty."""
    last_update_timestamp_ms: Timestamp
    start_timestamp_ms: Timestamp
    client_transaction_version: Int16 = field(since=1, default=0, tag=2)


_make_value = maker(TransactionValue)
_make_topic = maker(TransactionValue.Topic)


def encode_key(transactional_id: str) -> bytes:
    """The key of a transactional id of at most 32,767 bytes."""
    name = transactional_id.encode()
    return _KEY.pack(_KEY_VERSION, len(name)) + name


def decode_key(key: bytes) -> str | None:
    """The transactional id of a key; None for keys of unknown versions. Raises CorruptRecord."""
    try:
        (version,) = _INT16.unpack_from(key)
        if version != _KEY_VERSION:
            return None
        _, length = _KEY.unpack_from(key)
        if length != len(key) - _KEY.size:
            raise CorruptRecord(f"a key of {len(key)} bytes announces a name of {length}")
        return key[_KEY.size :].decode()
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptRecord(f"no key of a transactional id: {error}") from error


def encode_entry(entry: Entry, version: int) -> bytes:
    """The value for an entry."""
    value = _make_value(  # in the order of the fields
        entry.producer_id,
        entry.previous_producer_id,
        entry.next_producer_id,
        entry.producer_epoch,
        NO_PRODUCER_EPOCH,
        entry.timeout_ms,
        entry.state,
        None if entry.state is EMPTY else [_make_topic(name, numbers) for name, numbers in entry.by_topic()],
        entry.last_update_ms,
        entry.start_ms,
        entry.client_version,
    )
    return _INT16.pack(version) + b"".join(value.encode(version))


def decode_entry(value: bytes) -> Entry:
    """Decode an entry of any version. Raises CorruptRecord."""
    try:
        (version,) = _INT16.unpack_from(value)
        stored = TransactionValue.decode(memoryview(value)[_INT16.size :], version)
        state = TransactionState(stored.transaction_status)
    except (struct.error, ValueError, MalformedMessage) as error:
        raise CorruptRecord(f"no transactional id's state: {error}") from error
    if state not in STORED:
        raise CorruptRecord(f"{state.wire_name} is never stored")
    return Entry(
        producer_id=stored.producer_id,
        producer_epoch=stored.producer_epoch,
        timeout_ms=stored.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            TopicPartition(topic.topic, number)
            for topic in stored.transaction_partitions or ()
            for number in topic.partition_ids
        ),
        last_update_ms=stored.last_update_timestamp_ms,
        start_ms=stored.start_timestamp_ms,
        previous_producer_id=stored.previous_producer_id,
        next_producer_id=stored.next_producer_id,
        client_version=stored.client_transaction_version,
    )
