"""The options of the log source. Their names are those of Spark's Kafka source and of Kafka where these have the
option."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...protocol.topics import INTERNAL_TOPICS

READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"
EARLIEST, LATEST = -2, -1
"""Special offsets, with the values of Spark's Kafka source."""

_INTERNAL = INTERNAL_TOPICS | {"__cluster_metadata"}

_IGNORED = {
    "faildataloss",
    "failondataloss",
    "fetchoffset.numretries",
    "fetchoffset.retryintervalms",
    "groupidprefix",
    "kafkaconsumer.polltimeoutms",
    "maxrecordsperpartition",
    "minpartitions",
    "startingoffsetsbytimestampstrategy",
}
"""Options of Spark's Kafka source that do not change the result."""
_BY_TIME = ("startingtimestamp", "endingtimestamp", "startingoffsetsbytimestamp", "endingoffsetsbytimestamp")

_SHIFTS = {None: 0, "k": 10, "m": 20, "g": 30, "t": 40}

Offsets = Mapping[tuple[str, int], int]


class LogOptions(NamedTuple):
    """The parsed options of a read. `parse_options` makes it."""

    paths: tuple[str, ...]
    topics: frozenset[str] | None = None
    pattern: str | None = None
    partitions: frozenset[tuple[str, int]] | None = None
    """At most one of these three is set; without one, all topics that are not internal are read."""
    starting_offsets: Offsets = {}  # noqa: RUF012
    ending_offsets: Offsets = {}  # noqa: RUF012
    """Offsets of single partitions: an offset, EARLIEST or LATEST. Other partitions are read from EARLIEST to
    LATEST."""
    is_committed: bool = True
    include_control: bool = False
    include_headers: bool = False
    fails_at_damage: bool = False
    columns: tuple[str, ...] | None = None
    max_partition_bytes: int = 128 << 20
    """Bytes of a segment that one task reads, about."""
    pushes_down: bool = False
    """Whether Spark (4.1 or later) gives the filters of a query to the source."""

    def wants(self, topic: str, partition: int) -> bool:
        if self.topics is not None:
            return topic in self.topics
        if self.pattern is not None:
            return re.fullmatch(self.pattern, topic) is not None and topic not in _INTERNAL
        if self.partitions is not None:
            return (topic, partition) in self.partitions
        return topic not in _INTERNAL


def parse_options(options: Mapping[str, str]) -> LogOptions:
    """Parse options. ValueError, which names the option, for an unknown option or an invalid value."""
    found: dict[str, Any] = {}
    for name, text in options.items():
        key = name.lower()
        if key in _IGNORED or (key.startswith("kafka.") and key != "kafka.isolation.level"):
            continue
        if key in _BY_TIME:
            raise ValueError(f"{name} is not known to kmini-log: filter on the column timestamp")
        if key not in _PARSERS:
            raise ValueError(f"there is no option {name}")
        field, parse = _PARSERS[key]
        try:
            found[field] = parse(text)
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{name}={text!r}: {error}") from None
    if not found.get("paths"):
        raise ValueError("there is no path: load(LOG_DIR)")
    if len(found.keys() & {"topics", "pattern", "partitions"}) > 1:
        raise ValueError("subscribe, subscribePattern and assign exclude each other")
    return LogOptions(**found)


def _topics(text: str) -> frozenset[str]:
    names = frozenset(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise ValueError("no topic is named")
    return names


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"no regular expression: {error}") from None
    return text


def _assigned(text: str) -> frozenset[tuple[str, int]]:
    return frozenset((topic, int(number)) for topic, numbers in json.loads(text).items() for number in numbers)


def _offsets(default: str) -> Callable[[str], Offsets]:
    def parse(text: str) -> Offsets:
        if text.lower() in ("earliest", "latest"):
            if text.lower() != default:
                raise ValueError(f"can be {default}, or offsets by topic and partition as JSON")
            return {}
        offsets = {
            (topic, int(number)): int(offset)
            for topic, numbers in json.loads(text).items()
            for number, offset in numbers.items()
        }
        if min(offsets.values(), default=0) < EARLIEST:
            raise ValueError("an offset is not negative, or -2 for earliest, or -1 for latest")
        return offsets

    return parse


def _one_of(*values: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in values:
            raise ValueError(f"can be {' or '.join(values)}")
        return text.lower()

    return parse


def _flag(text: str) -> bool:
    return _one_of("true", "false")(text) == "true"


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d+)\s*(?:([kmgt])b?|b)?", text.strip().lower())
    size = int(found[1]) << _SHIFTS[found[2]] if found else 0
    if not size:
        raise ValueError("can be a number of bytes above 0, or one with a unit: 64m, 1g")
    return size


def _is_committed(text: str) -> bool:
    return _one_of(READ_COMMITTED, READ_UNCOMMITTED)(text) == READ_COMMITTED


_PARSERS: dict[str, tuple[str, Callable[[str], object]]] = {
    "path": ("paths", lambda text: (text,)),
    "paths": ("paths", lambda text: tuple(json.loads(text))),
    "subscribe": ("topics", _topics),
    "subscribepattern": ("pattern", _pattern),
    "assign": ("partitions", _assigned),
    "startingoffsets": ("starting_offsets", _offsets("earliest")),
    "endingoffsets": ("ending_offsets", _offsets("latest")),
    "isolation.level": ("is_committed", _is_committed),
    "kafka.isolation.level": ("is_committed", _is_committed),
    "include.control": ("include_control", _flag),
    "includeheaders": ("include_headers", _flag),
    "errors": ("fails_at_damage", lambda text: _one_of("report", "fail")(text) == "fail"),
    "maxpartitionbytes": ("max_partition_bytes", _bytes),
    "pushdownpredicate": ("pushes_down", _flag),
    "columns": ("columns", lambda text: tuple(name.strip() for name in text.split(","))),
}
