"""The promises of a topic's settings about deletion, as an audit needs them."""

from __future__ import annotations

from typing import NamedTuple

from ...storage.config_key import MAX_LONG
from ...storage.log_config import LogConfig


class TopicPolicy(NamedTuple):
    """The policy of one topic; the defaults are Kafka's. Times are in milliseconds."""

    is_compacted: bool = False
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = MAX_LONG
    delete_retention_ms: int = 86_400_000
    min_cleanable_dirty_ratio: float = 0.5
    file_delete_delay_ms: int = 60_000
    has_flagged_tombstones: bool = False
    """`kmini.tombstone.flag.enable`: a record with a value may be a tombstone (KIP-87)."""

    @classmethod
    def of(cls, config: LogConfig) -> TopicPolicy:
        return cls(
            is_compacted=config.is_compacted,
            min_compaction_lag_ms=config.min_compaction_lag_ms,
            max_compaction_lag_ms=config.max_compaction_lag_ms,
            delete_retention_ms=config.delete_retention_ms,
            min_cleanable_dirty_ratio=config.min_cleanable_dirty_ratio,
            file_delete_delay_ms=config.file_delete_delay_ms,
            has_flagged_tombstones=config.kmini_tombstone_flag_enable,
        )

    @property
    def bound_ms(self) -> int | None:
        """Longest time that a record may wait for its compaction (KIP-354); None without a bound."""
        return self.max_compaction_lag_ms if self.max_compaction_lag_ms < MAX_LONG else None
