"""Checks of the arguments of public methods: one check for each argument name, for every method that has it.

A wrong type is a TypeError and a wrong value a ValueError; the message names the argument, shows the value and states
the expected one. Kafka's own errors say whether a topic exists and whether a setting is valid.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from kmini.broker.clock import Duration, milliseconds
from kmini.broker.controller.topic_plans import DEFAULT
from kmini.broker.settings.properties import property_text
from kmini.protocol.messages.fetch import FetchRequest
from kmini.testkit import patience
from kmini.testkit.contents import ISOLATIONS
from kmini.testkit.record_arguments import data, headers, wrong
from kmini.testkit.record_selection import Mark

Config = Mapping[str, "str | int | float | bool"]
"""Settings by Kafka's names."""

TopicSpec = int | Mapping[str, Any]
"""A number of partitions, or a mapping with `partitions`, `replication_factor` and `config`, each optional."""

Topics = Mapping[str, TopicSpec] | Iterable[str]
"""Names of topics, or a mapping of names to a `TopicSpec`."""

MAX_INT64 = (1 << 63) - 1
MAX_INT32 = (1 << 31) - 1


def text(argument: str, value: Any, expected: str) -> str:
    """Check for a str."""
    if not isinstance(value, str):
        raise wrong(argument, value, expected, kind=TypeError)
    return value


def integer(argument: str, value: Any, expected: str, smallest: int, largest: int) -> int:
    """Check for a whole number in this range; a bool is none."""
    try:
        number = int(value.__index__())
    except AttributeError:
        raise wrong(argument, value, expected, kind=TypeError) from None
    if isinstance(value, bool):
        raise wrong(argument, value, expected, kind=TypeError)
    if not smallest <= number <= largest:
        raise wrong(argument, value, expected)
    return number


def config(argument: str, value: Any) -> dict[str, str]:
    """Check settings; return them as a properties file has them."""
    if value is None:
        return {}
    expected = "a mapping of Kafka's setting names to str, int, float or bool"
    if not isinstance(value, Mapping):
        raise wrong(argument, value, expected, kind=TypeError)
    for name, setting in value.items():
        if not isinstance(name, str) or not isinstance(setting, str | int | float):
            raise wrong(argument, {name: setting}, expected, kind=TypeError)
    return {name: property_text(setting) for name, setting in value.items()}


def duration(argument: str, value: Any) -> Duration:
    """Check for a duration that is not negative."""
    expected = 'milliseconds as an int, text as "7d", "1h30m" or "250ms", or a timedelta, and not negative'
    if isinstance(value, bool) or not isinstance(value, int | str | timedelta):
        raise wrong(argument, value, expected, kind=TypeError)
    try:
        found = milliseconds(value)
    except ValueError:
        raise wrong(argument, value, expected) from None
    if not 0 <= found <= MAX_DURATION_MS:
        raise wrong(argument, value, expected if found < 0 else f"at most {MAX_DURATION_MS} ms, a hundred years")
    return value


MAX_DURATION_MS = 100 * 366 * 86_400_000
"""Most milliseconds of one clock move: later timestamps must still fit into the log."""


def as_settings(as_version: Any, timestamps: Any) -> dict[str, str]:
    """The settings that the options `as_version` and `timestamps` stand for."""
    settings = {}
    if timestamps not in ("create", "append"):
        raise ValueError(f'timestamps={timestamps!r}: must be "create" or "append"')
    if timestamps == "append":
        settings["log.message.timestamp.type"] = "LogAppendTime"
    if as_version is not None:
        settings["kmini.as.version"] = text("as_version", as_version, 'a release as str, as "3.9"')
    return settings


def directory(argument: str, value: Any) -> str | None:
    """Check for a path or None."""
    if value is None:
        return None
    if not isinstance(value, str | os.PathLike) or not isinstance(found := os.fspath(value), str):
        raise wrong(argument, value, "a path as str or os.PathLike, or None", kind=TypeError)
    if not found:
        raise wrong(argument, value, "a path, or None for a private directory")
    return found


class NewTopic(NamedTuple):
    """A topic that is created at the start if it is missing."""

    name: str
    partitions: int
    replication_factor: int
    configs: dict[str, str]


def topics(argument: str, value: Any) -> list[NewTopic]:
    """Check the topics that are created at the start."""
    if value is None:
        return []
    expected = "names of topics, or a mapping of names to numbers of partitions"
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise wrong(argument, value, expected, kind=TypeError)
    specs = value.items() if isinstance(value, Mapping) else [(name, {}) for name in value]
    return [_new_topic(argument, text(argument, name, expected), spec) for name, spec in specs]


def _new_topic(argument: str, name: str, spec: Any) -> NewTopic:
    path = f"{argument}[{name!r}]"
    if not isinstance(spec, Mapping):
        spec = {"partitions": spec}
    if unknown := [key for key in spec if key not in ("partitions", "replication_factor", "config")]:
        raise wrong(path, {unknown[0]: spec[unknown[0]]}, "partitions, replication_factor or config")
    return NewTopic(
        name,
        _count(path, spec, "partitions", "partitions"),
        _count(path, spec, "replication_factor", "replicas"),
        config(f"{path}['config']", spec.get("config")),
    )


def _count(path: str, spec: Mapping[str, Any], key: str, what: str) -> int:
    if spec.get(key) is None:
        return DEFAULT
    return integer(f"{path}[{key!r}]", spec[key], f"a number of {what}, 1 or more", 1, MAX_INT32)


def racks(argument: str, value: Any, brokers: int) -> dict[int, str]:
    """Check racks by the number of a broker."""
    if value is None:
        return {}
    expected = f"a mapping of numbers of brokers, 1 to {brokers}, to names of racks"
    if not isinstance(value, Mapping):
        raise wrong(argument, value, expected, kind=TypeError)
    return {integer(argument, key, expected, 1, brokers): text(argument, rack, expected) for key, rack in value.items()}


def offsets(argument: str, value: Any) -> dict[tuple[str, int], int]:
    """Check offsets by topic and partition."""
    expected = 'a mapping of topic and partition to an offset, as {("orders", 0): 7}'
    if not isinstance(value, Mapping):
        raise wrong(argument, value, expected, kind=TypeError)
    checked_offsets = {}
    for place, offset in value.items():
        if not isinstance(place, tuple) or len(place) != 2:
            raise wrong(argument, {place: offset}, expected, kind=TypeError)
        topic = text(argument, place[0], expected)
        partition = integer(argument, place[1], expected, 0, MAX_INT32)
        checked_offsets[topic, partition] = integer(argument, offset, expected, 0, MAX_INT64)
    return checked_offsets


def isolation(argument: str, value: Any) -> str:
    """Check for an isolation level."""
    expected = " or ".join(f'"{one}"' for one in ISOLATIONS)
    if text(argument, value, expected) not in ISOLATIONS:
        raise wrong(argument, value, expected)
    return str(value)


def patterns(argument: str, value: Any) -> tuple[str, ...]:
    """Check patterns of client ids."""
    expected = 'patterns of client ids, as ("app-*",)'
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise wrong(argument, value, expected, kind=TypeError)
    found = tuple(text(argument, pattern, expected) for pattern in value)
    if "" in found:
        raise wrong(argument, value, expected)
    return found


def path(argument: str, value: Any) -> str:
    """Check for a path."""
    expected = "a path as str or os.PathLike"
    if not isinstance(value, str | os.PathLike) or not isinstance(found := os.fspath(value), str):
        raise wrong(argument, value, expected, kind=TypeError)
    if not found:
        raise wrong(argument, value, expected)
    return found


def snapshot(argument: str, value: Any) -> Any:
    """Check for a snapshot, its name or its path."""
    expected = "a snapshot, its name, or the path of its directory"
    given = getattr(value, "path", value)
    if not isinstance(given, str | os.PathLike) or not isinstance(os.fspath(given), str):
        raise wrong(argument, value, expected, kind=TypeError)
    if not os.fspath(given):
        raise wrong(argument, value, expected)
    return value


def flag(argument: str, value: Any) -> bool:
    """Check for True or False."""
    if not isinstance(value, bool):
        raise wrong(argument, value, "True or False", kind=TypeError)
    return value


def predicate(argument: str, value: Any) -> Any:
    """Check for a function of a record."""
    if not callable(value) or inspect.iscoroutinefunction(value):
        expected = "a function, not async, that takes a record and returns True or False"
        raise wrong(argument, value, expected, kind=TypeError)
    return value


def records_wanted(argument: str, value: Any) -> Any:
    """Check for a number of records, or a function of a record."""
    if callable(value):
        return predicate(argument, value)
    return integer(argument, value, "a number of records, 0 or more, or a function that takes a record", 0, MAX_INT64)


def position(argument: str, value: Any) -> Any:
    """Check for a position in partitions."""
    if value in ("earliest", "latest"):
        return value
    expected = '"earliest", "latest", or milliseconds since the epoch; commit() takes offsets'
    return integer(argument, value, expected, 0, MAX_INT64)


def since(argument: str, value: Any) -> Any:
    """Check for an offset or a mark."""
    if isinstance(value, Mark):
        return value
    return integer(argument, value, "an offset, 0 or more, or what mark() returns", 0, MAX_INT64)


def client_kind(argument: str, value: Any) -> str:
    """Check for a client library."""
    from kmini.client.client_config import SETTINGS  # start-up time counts

    expected = f"one of {', '.join(SETTINGS)}"
    if text(argument, value, expected) not in SETTINGS:
        raise wrong(argument, value, expected)
    return str(value)


def _text(expected: str) -> Callable[[str, Any], str]:
    return lambda argument, value: text(argument, value, expected)


def _integer(expected: str, smallest: int, largest: int) -> Callable[[str, Any], int]:
    return lambda argument, value: integer(argument, value, expected, smallest, largest)


_topic = _text("the name of a topic as str")
_milliseconds = _integer("a number of milliseconds, 0 or more", 0, MAX_INT64)

_fetch_version = _integer(
    f"a version of Fetch, {FetchRequest.min_version} to {FetchRequest.max_version}, or None",
    FetchRequest.min_version,
    FetchRequest.max_version,
)


def request_filter(argument: str, value: dict[str, Any]) -> dict[str, Any]:
    """Check the keywords that say which requests are meant (`What` in `journal_handle.py`)."""
    for name, given in value.items():
        if name not in REQUEST_FILTER:
            raise TypeError(f"{name}={given!r}: unknown; of a request can be asked: {', '.join(REQUEST_FILTER)}")
    return {name: (REQUEST_FILTER[name] or ARGUMENTS[name])(name, given) for name, given in value.items()}


def _predicate(argument: str, value: Any) -> Any:
    if not callable(value):
        raise wrong(argument, value, "a function of a JournalEntry", kind=TypeError)
    return value


def _since(argument: str, value: Any) -> Any:
    """Check for a mark or an entry of the journal, which has a number."""
    number = getattr(value, "number", value)
    if isinstance(number, bool) or not isinstance(number, int):
        raise wrong(argument, value, "a mark of requests.mark(), or a JournalEntry", kind=TypeError)
    return value


REQUEST_FILTER: dict[str, Callable[[str, Any], Any] | None] = {
    "topic": None,
    "partition": None,
    "group": None,
    "transactional_id": None,
    "client_id": _text("a client id or a pattern as str"),
    "error": _text('the name of an error as str, as "NOT_LEADER_OR_FOLLOWER"'),
    "subject": _text("a subject of the schema registry as str"),
    "where": _predicate,
    "since": _since,
}
"""The check of each keyword; None where ARGUMENTS has it."""

ARGUMENTS: dict[str, Callable[[str, Any], Any]] = {
    "api": _text('the name of an API as str, as "Produce"'),
    "broker": _integer("the number of a broker", 0, MAX_INT32),
    "client_id": _text("a client id as str, in which * stands for any text"),
    "config": config,
    "count": _integer("a number of records, 0 or more", 0, MAX_INT64),
    "duration": duration,
    "group": _text("the id of a group as str"),
    "headers": headers,
    "host": lambda argument, value: None if value is None else text(argument, value, "a host as str, or None"),
    "isolation": isolation,
    "keep": patterns,
    "key": data,
    "kind": client_kind,
    "liveness": flag,
    "member": _text("a member id, client id or instance id as str"),
    "members": _integer("a number of members, 0 or more", 0, MAX_INT32),
    "name": _topic,
    "number": _integer("a number of requests, 1 or more", 1, MAX_INT64),
    "offset": _integer("an offset, or -1 for the high watermark", -1, MAX_INT64),
    "offsets": offsets,
    "path": path,
    "partition": _integer("the number of a partition, 0 or more", 0, MAX_INT32),
    "partitions": _integer("a number of partitions, 1 or more", 1, MAX_INT32),
    "port": _integer("a port, 1 to 65535", 1, 65_535),
    "position": position,
    "replication_factor": _integer("a number of replicas, 1 or more", 1, MAX_INT32),
    "since": since,
    "snapshot": snapshot,
    "timeout_ms": _milliseconds,
    "timestamp_ms": _integer("milliseconds since the epoch, or -1 for none", -1, MAX_INT64),
    "to": _integer("the number of a broker", 0, MAX_INT32),
    "topic": _topic,
    "torn": _topic,
    "transactional_id": _text("a transactional id as str"),
    "unindexed": _topic,
    "user": lambda argument, value: None if value is None else text(argument, value, "a user as str, or None"),
    "value": data,
    "wanted": records_wanted,
    "what": request_filter,
    "where": predicate,
    "within_ms": _milliseconds,
    "version": lambda argument, value: None if value is None else _fetch_version(argument, value),
}
"""The check of each argument of the methods of a table, by name. Defaults of parameters are not checked."""


OTHER_NAMES = {
    "configs": ("config", "changes"),
    "config": ("changes",),
    "count": ("wanted", "number"),
    "wanted": ("count",),
    "number": ("count",),
    "to": ("position",),
    "leader": ("to",),
}
"""The parameters that each name stands for where there is none of that name: settings are `config`, and a number is a
`count`, everywhere."""


def renamed(name: str, parameters: Collection[str]) -> str:
    """The parameter that a keyword means."""
    if name in parameters:
        return name
    return next((other for other in OTHER_NAMES.get(name, ()) if other in parameters), name)


def checked(
    name: str, signature: inspect.Signature, args: tuple[object, ...], kwargs: dict[str, Any]
) -> inspect.BoundArguments:
    """Check the arguments of a call of the method `name`; return each as its check returns it. Raises TypeError and
    ValueError. A wait without `timeout_ms` gets its default, as patient as the run of tests is."""
    parameters = signature.parameters
    keywords = {renamed(given, parameters): value for given, value in kwargs.items()}
    try:
        bound = signature.bind(*args, **keywords)
    except TypeError as error:
        from kmini.testkit.name_hints import unknown_keyword  # start-up time counts

        raise TypeError(f"{name}() {error}{unknown_keyword(keywords, parameters)}") from None
    for argument, value in bound.arguments.items():
        if value is not parameters[argument].default:
            bound.arguments[argument] = ARGUMENTS[argument](argument, value)
    if "timeout_ms" in parameters and "timeout_ms" not in bound.arguments:
        bound.arguments["timeout_ms"] = round(parameters["timeout_ms"].default * patience.factor)
    return bound
