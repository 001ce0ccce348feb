"""Format many records as text: values line by line, or a JSON object for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, NamedTuple

from kmini.cli.escaping import visible_bytes, visible_json
from kmini.cli.tables import time_of

if TYPE_CHECKING:
    from kmini.protocol.records.record import Record
    from kmini.protocol.topics import TopicPartition

quoted: Callable[[str], str] = encode_basestring
"""A text as a JSON string; characters outside ASCII are not escaped."""


class Printing(NamedTuple):
    """The format of printed records."""

    as_json: bool
    key_separator: bytes | None
    null_marker: bytes
    with_timestamps: bool
    with_headers: bool
    escaped: bool
    """Whether control characters are escaped, because the output is a terminal."""


def text_of(topic_partition: TopicPartition, records: Sequence[Record], printing: Printing) -> bytes:
    """Format records of one partition as lines."""
    if printing.as_json:
        lines = _json_lines(topic_partition, records)
        return (
            "".join(f"{visible_json(line[:-1])}\n" for line in lines).encode()
            if printing.escaped
            else ("".join(lines).encode())
        )
    null = printing.null_marker
    shown = visible_bytes if printing.escaped else bytes
    lines_of_values = [null if value is None else shown(value) for _, _, _, value, _ in records]
    if printing.key_separator is not None:
        between = printing.key_separator
        keys = (null if key is None else shown(key) for _, _, key, _, _ in records)
        lines_of_values = [key + between + value for key, value in zip(keys, lines_of_values, strict=True)]
    if printing.with_headers:
        headers = (_headers(record, null, shown) for record in records)
        lines_of_values = [pairs + b"\t" + line for pairs, line in zip(headers, lines_of_values, strict=True)]
    if printing.with_timestamps:
        times = (time_of(record.timestamp).encode() for record in records)
        lines_of_values = [time + b"\t" + line for time, line in zip(times, lines_of_values, strict=True)]
    lines_of_values.append(b"")
    return b"\n".join(lines_of_values)


def _headers(record: Record, null: bytes, shown: Callable[[bytes], bytes]) -> bytes:
    return b",".join(
        shown(name.encode()) + b"=" + (null if value is None else shown(value)) for name, value in record.headers
    )


def _json_lines(topic_partition: TopicPartition, records: Sequence[Record]) -> list[str]:
    """Format each record as a JSON object with a newline, as `json.dumps` does without escaping characters outside
    ASCII."""
    topic, partition = topic_partition
    begin = f'{{"topic": {quoted(topic)}, "partition": {partition}, "offset": '
    return [
        f'{begin}{offset}, "timestamp": {timestamp}, "key": {_json_bytes(key)}, "value": {_json_bytes(value)}, '
        f'"headers": {_json_headers(headers) if headers else "[]"}}}\n'
        for offset, timestamp, key, value, headers in records
    ]


def _json_headers(headers: Sequence[tuple[str, bytes | None]]) -> str:
    return f"[{', '.join(f'[{quoted(name)}, {_json_bytes(value)}]' for name, value in headers)}]"


def _json_bytes(data: bytes | None) -> str:
    """A text, or {"base64": ...} for bytes that are not UTF-8."""
    if data is None:
        return "null"
    try:
        return quoted(data.decode())
    except UnicodeDecodeError:
        from base64 import b64encode

        return f'{{"base64": "{b64encode(data).decode("ascii")}"}}'
