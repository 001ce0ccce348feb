"""Explicit tombstones (KIP-87) with any client library: `tombstone` makes them, `is_tombstone` recognizes them.

A topic has them with `kmini.tombstone.flag.enable=true` (docs/tombstones.md). A tombstone is a record with the header
`kmini.tombstone`, so client libraries need no support, and code that does not import this module can write and read the
header itself.

    producer.send("profiles", **tombstone(b"alice", headers=[("deleted-by", b"support")]))

    if is_tombstone(record):
        forget(record.key)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from kmini.protocol.records.record import TOMBSTONE_HEADER
from kmini.testkit import record_arguments

__all__ = ["TOMBSTONE", "TOMBSTONE_HEADER", "Tombstone", "is_tombstone", "tombstone"]

TOMBSTONE: tuple[str, bytes] = (TOMBSTONE_HEADER, b"")
"""The header, for code that makes a list of headers: `headers=[*headers, TOMBSTONE]`. A broker adds the same header to
records that have the flag otherwise. Its value has no meaning, but `0` and `false` are refused."""

_NO = (b"0", b"false", b"\0")


class Tombstone(TypedDict):
    """Keyword arguments of `send`, `send_and_wait` and `produce`."""

    key: Any
    value: Any
    headers: list[tuple[str, bytes | None]]


def tombstone(key: Any, value: Any = None, headers: Iterable[tuple[str, Any]] | Mapping[str, Any] = ()) -> Tombstone:
    """Make the keyword arguments `key`, `value` and `headers` with which a client deletes `key`.

    They are the same for kafka-python's and aiokafka's `send`, aiokafka's `send_and_wait`, confluent-kafka's `produce`
    and the `produce` of an embedded broker. Topic, partition and timestamp are further arguments:

            producer.send("profiles", **tombstone(b"alice"))
            await producer.send_and_wait("profiles", **tombstone(b"alice", b"the last state"), partition=0)
            producer.produce("profiles", **tombstone("alice", headers={"deleted-by": "support"}))

    Key and value go to the client's serializers unchanged. `headers` are pairs, or a mapping; text in them becomes
    UTF-8, because kafka-python and aiokafka take only bytes. Raises ValueError for a tombstone header with a value that
    means no, and TypeError for values that are no headers.
    """
    pairs = [*record_arguments.headers("headers", headers)]
    flags = [content for name, content in pairs if name == TOMBSTONE_HEADER]
    if any(_says_no(content) for content in flags):
        raise ValueError(f"a tombstone cannot have a header {TOMBSTONE_HEADER} that says no")
    return {"key": key, "value": value, "headers": pairs if flags else [*pairs, TOMBSTONE]}


def is_tombstone(record: Any) -> bool:
    """Whether a record deletes its key: its value is null, or it has the header.

    Takes a ConsumerRecord of kafka-python or aiokafka, a Message of confluent-kafka, and a Record of an embedded
    broker. If a value deserializer converts null, the header still tells: the broker adds it to every null value of a
    topic with the flag. The result does not depend on the topic's settings; without compaction no tombstone deletes
    anything. TypeError for an object that is no record.
    """
    try:
        value, headers = record.value, record.headers
    except AttributeError:
        expected = "a record of kafka-python, aiokafka or kmini, or a Message of confluent-kafka"
        raise record_arguments.wrong("record", record, expected, kind=TypeError) from None
    if callable(value):  # confluent-kafka has methods
        value, headers = value(), headers()
    if value is None:
        return True
    return any(name == TOMBSTONE_HEADER and not _says_no(content) for name, content in headers or ())


def _says_no(content: Any) -> bool:
    plain = content.encode() if isinstance(content, str) else content
    return plain is not None and bytes(plain).lower() in _NO
