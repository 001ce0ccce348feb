"""The settings of a topic's logs: one table, Kafka's names and defaults.

`broker=` names the broker settings to which a topic without a value of its own falls back; the first that is set wins,
so the finer unit comes first. `differs=` says why a line differs from Kafka's, `no_effect=` why an accepted value has
no effect.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..protocol.errors import InvalidConfig
from ..protocol.records.kernels.records import PlainBatches
from .config_key import (
    ANY,
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    MAX_LONG,
    SET,
    STRING,
    ConfigKey,
    Rule,
    Settings,
    any_rule,
    at_least,
    between,
    closest,
    each_of,
    exactly,
    key,
    one_of,
    shorten,
)

NO_TIERS = "there is no tiered storage"
NO_QUOTAS = "quotas are of clients, none of replication"

_REPLICA = r"[0-9]+:[0-9]+"
THROTTLED = Rule(
    "must be * or partition:broker,partition:broker,...",
    lambda value: value == ("*",) or all(re.fullmatch(_REPLICA, item) for item in value),
)


# fmt: off
class LogConfig(Settings):
    """The settings of one log. `LogConfig()` has Kafka's defaults; `parse` reads a topic's own settings."""

    cleanup_policy: tuple[str, ...] = key(SET, ("delete",), each_of("delete", "compact"),
        "What becomes of old records: delete whole segments, compact (keep the last record of every key), or both.",
        broker="log.cleanup.policy")
    compression_type: str = key(STRING, "producer", one_of("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
        "The codec batches are stored with; producer keeps whatever the producer chose.",
        broker="compression.type")
    compression_gzip_level: int = key(INT, -1, any_rule(between(1, 9), exactly(-1)),
        "Level used when batches are recompressed with gzip; -1 is the codec's own default.",
        broker="compression.gzip.level")
    compression_lz4_level: int = key(INT, 9, between(1, 17),
        "Level used when batches are recompressed with lz4.",
        broker="compression.lz4.level")
    compression_zstd_level: int = key(INT, 3, between(-131072, 22),
        "Level used when batches are recompressed with zstd.",
        broker="compression.zstd.level")
    max_message_bytes: int = key(INT, 1_048_588, at_least(0),
        "The largest batch accepted, as sent, with its header.",
        broker="message.max.bytes")
    min_insync_replicas: int = key(INT, 1, at_least(1),
        "How many replicas must be in sync for acks=all to be accepted; capped at the number of replicas.",
        broker="min.insync.replicas")
    unclean_leader_election_enable: bool = key(BOOLEAN, False, ANY,
        "Whether a replica that is not in sync may become leader when no other is left, losing records.",
        broker="unclean.leader.election.enable")

    message_timestamp_type: str = key(STRING, "CreateTime", one_of("CreateTime", "LogAppendTime"),
        "Whether records keep the timestamp of their producer (CreateTime) or get that of the broker (LogAppendTime).",
        broker="log.message.timestamp.type")
    message_timestamp_before_max_ms: int = key(LONG, MAX_LONG, at_least(0),
        "How far a producer's timestamp may lie behind the broker's clock.",
        broker="log.message.timestamp.before.max.ms")
    message_timestamp_after_max_ms: int = key(LONG, 3_600_000, at_least(0),
        "How far a producer's timestamp may lie ahead of the broker's clock.",
        broker="log.message.timestamp.after.max.ms")

    segment_bytes: int = key(INT, 1_073_741_824, at_least(14),
        "A segment is rolled before an append would make it larger than this.",
        broker="log.segment.bytes",
        differs="Kafka 4 asks for at least 1 MiB; small ones, as before 4.0, make retention and cleaning quick to see")
    segment_ms: int = key(LONG, 604_800_000, at_least(1),
        "A segment is rolled when an append is this much later than the segment's first record.",
        broker="log.roll.ms log.roll.hours")
    segment_jitter_ms: int = key(LONG, 0, at_least(0),
        "At most this much, drawn per segment, is taken off segment.ms, so that logs do not all roll together.",
        broker="log.roll.jitter.ms log.roll.jitter.hours")
    segment_index_bytes: int = key(INT, 10_485_760, at_least(4),
        "A segment is rolled when one of its indexes would become larger than this.",
        broker="log.index.size.max.bytes")
    index_interval_bytes: int = key(INT, 4096, at_least(0),
        "About how many bytes of records lie between two index entries.",
        broker="log.index.interval.bytes")
    preallocate: bool = key(BOOLEAN, False, ANY,
        "Whether a new segment's file is created at full size.",
        broker="log.preallocate",
        no_effect="files grow as they are written; after a crash there are no zeros to be told from records")
    flush_messages: int = key(LONG, MAX_LONG, at_least(1),
        "Force records to disk once so many are not yet there.",
        broker="log.flush.interval.messages")
    flush_ms: int = key(LONG, MAX_LONG, at_least(0),
        "Force records to disk once the oldest has waited so long.",
        broker="log.flush.interval.ms log.flush.scheduler.interval.ms")

    retention_ms: int = key(LONG, 604_800_000, at_least(-1),
        "A segment is deleted once its largest timestamp is older than this; -1 keeps it for ever.",
        broker="log.retention.ms log.retention.minutes log.retention.hours")
    retention_bytes: int = key(LONG, -1, ANY,
        "The oldest segments are deleted while the log stays at least this large without them; -1 sets no limit.",
        broker="log.retention.bytes")
    file_delete_delay_ms: int = key(LONG, 60_000, at_least(0),
        "How long a deleted file stays on disk, renamed, for readers that still hold it.",
        broker="log.segment.delete.delay.ms")

    delete_retention_ms: int = key(LONG, 86_400_000, at_least(0),
        "How long compaction keeps tombstones and transaction markers, so that slow readers see them.",
        broker="log.cleaner.delete.retention.ms")
    min_compaction_lag_ms: int = key(LONG, 0, at_least(0),
        "A record stays uncompacted at least this long.",
        broker="log.cleaner.min.compaction.lag.ms")
    max_compaction_lag_ms: int = key(LONG, MAX_LONG, at_least(1),
        "A record of a compacted topic becomes eligible for compaction, its segment being rolled, at the latest after"
        " this long (KIP-354).",
        broker="log.cleaner.max.compaction.lag.ms")
    min_cleanable_dirty_ratio: float = key(DOUBLE, 0.5, between(0, 1),
        "A log is compacted when more than this share of it is not yet compacted.",
        broker="log.cleaner.min.cleanable.ratio")

    kmini_tombstone_flag_enable: bool = key(BOOLEAN, False, ANY,
        "Whether a record may be a tombstone although it has a value: with the header kmini.tombstone, or bit 5 of its"
        " attributes. Each brings the other, and a null value both (KIP-87).")
    kmini_tombstone_null_refuse: bool = key(BOOLEAN, False, ANY,
        "With kmini.tombstone.flag.enable: whether a null value that is not flagged is refused with INVALID_RECORD"
        " instead of being flagged. Message sets of magic 0 and 1, which have no flag, may still have null values.")

    remote_storage_enable: bool = key(BOOLEAN, False, exactly(False),
        "Tiered storage, which is not offered here.")
    remote_log_copy_disable: bool = key(BOOLEAN, False, ANY,
        "Whether tiered storage stops copying segments.",
        no_effect=NO_TIERS)
    remote_log_delete_on_disable: bool = key(BOOLEAN, False, ANY,
        "Whether tiered data goes when remote.storage.enable does.",
        no_effect=NO_TIERS)
    local_retention_ms: int = key(LONG, -2, at_least(-2),
        "How long segments that are in tiered storage stay here too; -2 is retention.ms.",
        broker="log.local.retention.ms",
        no_effect=NO_TIERS)
    local_retention_bytes: int = key(LONG, -2, at_least(-2),
        "How many bytes of segments that are in tiered storage stay here too; -2 is retention.bytes.",
        broker="log.local.retention.bytes",
        no_effect=NO_TIERS)

    leader_replication_throttled_replicas: tuple[str, ...] = key(LIST, (), THROTTLED,
        "Replicas whose leader sends followers no more than the replication quota: partition:broker, or *.",
        no_effect=NO_QUOTAS)
    follower_replication_throttled_replicas: tuple[str, ...] = key(LIST, (), THROTTLED,
        "Replicas that fetch no more than the replication quota: partition:broker, or *.",
        no_effect=NO_QUOTAS)
    # fmt: on

    __slots__ = ("longest_active_ms", "plain_batches")

    longest_active_ms: int
    """The age at which the active segment of a log rolls, which follows from the settings."""

    plain_batches: PlainBatches | None
    """The batches that need no more than one look before they are appended, which follow from the settings. None where
    the topic changes what producers send, or an append may have to wait for a flush."""

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        object.__setattr__(self, "plain_batches", self._plain_batches())
        longest_ms = min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms
        object.__setattr__(self, "longest_active_ms", longest_ms)

    def _plain_batches(self) -> PlainBatches | None:
        if (
            self.message_timestamp_type != "CreateTime"
            or self.compression_type not in ("producer", "uncompressed")
            or self.kmini_tombstone_flag_enable
            or self.asks_for_flushes
        ):
            return None
        return PlainBatches(
            self.max_message_bytes,
            self.is_compacted,
            self.message_timestamp_before_max_ms,
            self.message_timestamp_after_max_ms,
        )

    def random_segment_jitter_ms(self) -> int:
        """How much earlier a new segment rolls, so that the logs of a broker do not all roll at once."""
        limit = min(self.segment_jitter_ms, self.segment_ms)
        if not limit:
            return 0
        import random  # few configurations come here

        return random.randrange(limit)

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def is_deletable(self) -> bool:
        """Whether retention by time and size applies."""
        return "delete" in self.cleanup_policy

    @property
    def asks_for_flushes(self) -> bool:
        """Whether flush.messages or flush.ms is set: an append may then have to wait for a flush."""
        return self.flush_messages < MAX_LONG or self.flush_ms < MAX_LONG

    @classmethod
    def parse(cls, overrides: Mapping[str, str], defaults: LogConfig | None = None) -> LogConfig:
        """A topic's settings: `overrides` by Kafka's key names, the rest from `defaults`.

        Raises InvalidConfig, naming key, value and rule: for an unknown key, else for a value that breaks its rule,
        else for the rule between two keys.
        """
        defaults = defaults or cls()
        if not overrides:
            return defaults
        lines = {name: _known_key(name, text) for name, text in overrides.items()}
        try:
            values = {line.attribute: line.parse(overrides[name]) for name, line in lines.items()}
        except ValueError as error:
            raise InvalidConfig(str(error)) from None
        if INTERNAL_SEGMENT_BYTES in overrides:  # stronger than the public key, as in Kafka, wherever it stands
            values["segment_bytes"] = cls.KEYS["segment.bytes"].parse(overrides[INTERNAL_SEGMENT_BYTES])
        config = defaults.replace(**values)
        if broken := config.broken_rule():
            raise InvalidConfig(broken)
        return config

    def broken_rule(self, prefix: str = "") -> str | None:
        """The rule between two settings that these values break; `prefix` stands before their names."""
        low, high = self.min_compaction_lag_ms, self.max_compaction_lag_ms
        if low <= high:
            return None
        return f"{prefix}min.compaction.lag.ms={low}: must be at most {prefix}max.compaction.lag.ms={high}"


INTERNAL_SEGMENT_BYTES = "internal.segment.bytes"
"""With this key Kafka's own tests get small segments from a broker that asks for large ones."""


def topic_key(name: str) -> ConfigKey | None:
    """The line of the table that governs the topic setting `name`; None for a name that has none."""
    return LogConfig.KEYS.get("segment.bytes" if name == INTERNAL_SEGMENT_BYTES else name)


def _known_key(name: str, text: str) -> ConfigKey:
    line = topic_key(name)
    if line is None:
        hint = closest(name, LogConfig.KEYS)
        raise InvalidConfig(f"{shorten(name)}={shorten(text)}: there is no such topic setting{hint}")
    return line
