"""The settings of the topics of a directory, from which `kmini audit` derives its promises.

A directory of records does not store the topics' settings. They come from these sources; later ones override earlier
ones:

1. the defaults of the broker: Kafka's, or those of `--broker-config` (KEY=VALUE, or a properties file); 2. the metadata
beside the records: kmini's database, or the metadata log of Apache Kafka (KRaft, `__cluster_metadata-0`); or, instead
of both, a running broker (`--bootstrap-server`); 3. `--topic-config`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from kmini.cli.option_values import parse_setting, read_properties

if TYPE_CHECKING:
    from kmini.pipeline.audit.topic_policy import TopicPolicy
    from kmini.pipeline.logs.log_dir import LogDir
    from kmini.storage.log_config import LogConfig

CLUSTER_METADATA = "__cluster_metadata"
SNAPSHOT = ".checkpoint"

_INTERNAL = ("__consumer_offsets", "__transaction_state")

_RELEVANT = (
    "cleanup.policy",
    "min.compaction.lag.ms",
    "max.compaction.lag.ms",
    "delete.retention.ms",
    "min.cleanable.dirty.ratio",
    "file.delete.delay.ms",
    "kmini.tombstone.flag.enable",
)
"""Settings of a topic that an audit uses."""

_TOPIC_RECORD, _CONFIG_RECORD, _REMOVE_TOPIC_RECORD = 2, 4, 9


@dataclass
class Settings:
    """The known settings of a cluster."""

    topics: dict[str, dict[str, str]] = field(default_factory=dict)
    """Own settings by topic."""
    brokers: dict[str, dict[str, str]] = field(default_factory=dict)
    """Settings by node id as text; the empty text: for all brokers."""
    source: str = ""
    """The source of the settings; empty without one."""


def policies_of(
    log_dir: LogDir,
    *,
    broker_configs: Iterable[str],
    topic_configs: Iterable[str],
    broker_answers: Mapping[str, Mapping[str, str]] | None,
) -> tuple[dict[str, TopicPolicy], TopicPolicy, str]:
    """The policy of each topic, the policy of all others, and the source of the settings (empty: none).
    `broker_answers` holds the settings that a running broker returned. UsageError for invalid settings."""
    from kmini.pipeline.audit.topic_policy import TopicPolicy
    from kmini.protocol.errors import InvalidConfig
    from kmini.storage.log_config import LogConfig

    found = Settings(source="the broker") if broker_answers is not None else stored_settings(log_dir)
    defaults = _broker_defaults(broker_configs, found)
    for_all, by_topic = _topic_overrides(topic_configs)
    own: dict[str, Mapping[str, str]] = {**found.topics, **(broker_answers or {})}
    names = {*own, *by_topic, *_INTERNAL}
    policies = {}
    name = ""
    try:
        for name in names:
            # Other settings may have values that kmini does not accept. (Only the policy may be empty.)
            known = {key: value or "delete" for key, value in own.get(name, {}).items() if key in _RELEVANT}
            if name in _INTERNAL:
                known.setdefault("cleanup.policy", "compact")
            policies[name] = TopicPolicy.of(LogConfig.parse({**known, **for_all, **by_topic.get(name, {})}, defaults))
        name = "all topics"
        default = TopicPolicy.of(LogConfig.parse(for_all, defaults))
    except InvalidConfig as error:
        raise click.UsageError(f"the settings of {name}: {error.message}") from None
    return policies, default, found.source


def _topic_overrides(texts: Iterable[str]) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """`KEY=VALUE` for all topics, and `TOPIC:KEY=VALUE` for one."""
    for_all: dict[str, str] = {}
    by_topic: dict[str, dict[str, str]] = {}
    for text in texts:
        key, value = parse_setting("--topic-config", text)
        topic, separator, name = key.partition(":")
        if separator:
            by_topic.setdefault(topic, {})[name] = value
        else:
            for_all[key] = value
    return for_all, by_topic


def _broker_defaults(texts: Iterable[str], found: Settings) -> LogConfig:
    from kmini.broker.settings.broker_config import BROKER_KEYS, BrokerConfig, ConfigError

    properties: dict[str, str] = {}
    for text in texts:
        if "=" in text:
            key, value = parse_setting("--broker-config", text)
            if key not in BROKER_KEYS:
                raise click.UsageError(f"--broker-config {text}: there is no such setting of a broker")
            properties[key] = value
        else:
            # A file of Apache Kafka has settings that kmini does not know; an audit needs none of them.
            properties |= {key: value for key, value in read_properties(text).items() if _is_log_default(key)}
    this = next((configs for name, configs in found.brokers.items() if name), {})
    try:
        config = BrokerConfig.parse(properties)
        known = [
            {k: v for k, v in configs.items() if _is_log_default(k)} for configs in (found.brokers.get("", {}), this)
        ]
        return config.with_dynamic(known[0], known[1]).log_config
    except ConfigError as error:
        raise click.UsageError(f"--broker-config: {error}") from None


def _is_log_default(key: str) -> bool:
    """Whether a key is a broker's default of a topic setting."""
    from kmini.broker.settings.broker_config import BROKER_KEYS

    return key in BROKER_KEYS and key.startswith("log.")


def stored_settings(log_dir: LogDir) -> Settings:
    """The settings that are stored beside the records, if any. UsageError if they are unreadable."""
    from kmini.storage.filenames import DATABASE

    for directory in _above(log_dir):
        path = os.path.join(directory, DATABASE)
        if os.path.exists(path):
            return _of_database(path)
    for directory in _above(log_dir):
        path = os.path.join(directory, f"{CLUSTER_METADATA}-0")
        if os.path.isdir(path):
            return _of_metadata_log(path)
    return Settings()


def _above(log_dir: LogDir) -> Iterator[str]:
    """The directories that may hold a cluster's settings: the given one, and two above it."""
    yield from dict.fromkeys([log_dir.path, *log_dir.log_directories])
    yield os.path.dirname(log_dir.path)
    yield os.path.dirname(os.path.dirname(log_dir.path))


# --- kmini's database


def _of_database(path: str) -> Settings:
    from kmini.broker.controller.database import ControllerError, read_database
    from kmini.storage.filesystem import OsFileSystem

    try:
        stored = read_database(OsFileSystem(), path)
    except ControllerError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.UsageError(f"{path}: cannot be read: {error}") from error
    topics = {topic.name: dict(topic.configs) for topic in stored.topics}
    return Settings(topics, stored.broker_configs, path)


# --- the metadata log of Apache Kafka


def _of_metadata_log(folder: str) -> Settings:
    """Read the newest snapshot and the records after it. UsageError for damage."""
    from kmini.protocol.errors import KafkaError, MalformedMessage

    settings = Settings(source=folder)
    names: dict[bytes, str] = {}
    try:
        for record_type, version, fields in _metadata_records(folder):
            _apply(settings, names, record_type, version, fields)
    except (KafkaError, MalformedMessage, OSError, ValueError, IndexError) as error:
        raise click.UsageError(f"{folder}: cannot be read ({error}); give --topic-config instead") from error
    return settings


def _apply(settings: Settings, names: dict[bytes, str], record_type: int, version: int, fields: bytes) -> None:
    from kmini.protocol.messages.describe_configs import BROKER, TOPIC
    from kmini.protocol.metadata_records import ConfigRecord, TopicRecord

    if record_type == _TOPIC_RECORD:
        topic = TopicRecord.decode(fields, min(version, TopicRecord.max_version))
        names[topic.topic_id] = topic.name
        settings.topics.setdefault(topic.name, {})
    elif record_type == _REMOVE_TOPIC_RECORD:
        settings.topics.pop(names.pop(bytes(fields[:16]), ""), None)
    elif record_type == _CONFIG_RECORD:
        config = ConfigRecord.decode(fields, min(version, ConfigRecord.max_version))
        by_name = {TOPIC: settings.topics, BROKER: settings.brokers}.get(config.resource_type)
        if by_name is None:
            return
        own = by_name.setdefault(config.resource_name, {})
        if config.value is None:
            own.pop(config.name, None)
        else:
            own[config.name] = config.value


def _metadata_records(folder: str) -> Iterator[tuple[int, int, bytes]]:
    """Yield type, version and fields of each record, from the newest snapshot."""
    from kmini.protocol.primitives import read_unsigned_varint

    for value in _metadata_values(folder):
        at = 0
        numbers = []
        for _ in range(3):  # the version of the frame, the type, the version of the type
            number, at = read_unsigned_varint(value, at)
            numbers.append(number)
        yield numbers[1], numbers[2], value[at:]


def _metadata_values(folder: str) -> Iterator[bytes]:
    from kmini.storage.filenames import LOG, parse_segment_file

    names = sorted(os.listdir(folder))
    snapshots = [name for name in names if name.endswith(SNAPSHOT)]
    begin = 0
    if snapshots:  # named by the offset that comes after it, and an epoch
        begin = int(snapshots[-1][:20])
        yield from _values(os.path.join(folder, snapshots[-1]), 0)
    segments = [parsed for name in names if (parsed := parse_segment_file(name)) and parsed.kind == LOG]
    for segment in segments:
        if not segment.suffix:
            yield from _values(os.path.join(folder, f"{segment.base_offset:020d}{LOG}"), begin)


def _values(path: str, begin: int) -> Iterator[bytes]:
    """Yield the values of the records from an offset, from all whole batches; a batch that is being written is
    skipped."""
    from kmini.protocol.records.batch import iter_batches
    from kmini.protocol.records.batch_records import decode_records

    with open(path, "rb") as file:
        data = file.read()
    for position, header in iter_batches(data[: _whole(data)]):
        if not header.is_control and header.next_offset > begin:
            for record in decode_records(data, position, header):
                if record.offset >= begin and record.value is not None:
                    yield record.value


def _whole(data: bytes) -> int:
    """The number of bytes in whole batches; a log may end in zeros or in a part of a batch."""
    from kmini.protocol.records.batch import HEADER_SIZE, batch_size

    position = 0
    while position + HEADER_SIZE <= len(data):
        size = batch_size(data, position)
        if size < HEADER_SIZE or position + size > len(data):
            break
        position += size
    return position
