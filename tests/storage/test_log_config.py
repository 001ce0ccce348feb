"""The table of topic settings: what is read, what is refused and in which words."""

from __future__ import annotations

import pytest

from kmini.protocol.errors import InvalidConfig
from kmini.storage.config_key import MAX_LONG
from kmini.storage.log_config import LogConfig, topic_key

KAFKA_DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "producer",
    "compression.zstd.level": "3",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": str(MAX_LONG),
    "flush.ms": str(MAX_LONG),
    "follower.replication.throttled.replicas": "",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": str(MAX_LONG),
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": str(MAX_LONG),
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}
"""As `LogConfig` of Apache Kafka 4.3.1 prints them."""


def test_keys_and_defaults_are_those_of_kafka_4_3() -> None:
    defaults = {line.name: line.text(line.default) for line in LogConfig.KEYS.values()}
    assert {name: text for name, text in defaults.items() if not name.startswith("kmini.")} == KAFKA_DEFAULTS


def test_keys_of_our_own_change_nothing_by_default() -> None:
    ours = {line.name: line.default for line in LogConfig.KEYS.values() if line.name.startswith("kmini.")}
    assert ours == {"kmini.tombstone.flag.enable": False, "kmini.tombstone.null.refuse": False}


def test_every_default_is_what_its_own_text_parses_to() -> None:
    for line in LogConfig.KEYS.values():
        assert line.parse(line.text(line.default) or "") == line.default, line


def test_every_key_is_described_in_sentences() -> None:
    for line in LogConfig.KEYS.values():
        assert line.doc.endswith("."), line
        assert line.doc[0].isupper(), line


def test_a_topic_without_settings_shares_the_brokers_defaults() -> None:
    defaults = LogConfig(retention_ms=5)
    assert LogConfig.parse({}, defaults) is defaults


def test_a_topics_settings_win_over_the_brokers_defaults() -> None:
    config = LogConfig.parse({"retention.ms": " 7 "}, LogConfig(retention_ms=5, segment_bytes=100))
    assert (config.retention_ms, config.segment_bytes) == (7, 100)


@pytest.mark.parametrize(
    ("policy", "is_compacted", "is_deletable"),
    [("delete", False, True), ("compact", True, False), ("delete, compact", True, True), ("", False, False)],
)
def test_the_cleanup_policy_is_a_set_of_words(policy: str, is_compacted: bool, is_deletable: bool) -> None:
    config = LogConfig.parse({"cleanup.policy": policy})
    assert (config.is_compacted, config.is_deletable) == (is_compacted, is_deletable)


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("retention.ms", "x", "must be a whole number"),
        ("retention.ms", "", "must be a whole number"),
        ("retention.ms", "1_000", "must be a whole number"),
        ("retention.ms", "-2", "must be at least -1"),
        ("retention.ms", "9223372036854775808", "must fit in 64 bits"),
        ("segment.bytes", "13", "must be at least 14"),
        ("segment.bytes", "2147483648", "must fit in 32 bits"),
        ("preallocate", "yes", "must be true or false"),
        ("min.cleanable.dirty.ratio", "1.5", "must be between 0 and 1"),
        ("min.cleanable.dirty.ratio", "nan", "must be a number"),
        ("cleanup.policy", "delete,shred", "may contain delete, compact"),
        ("cleanup.policy", "delete,", "must not have empty items"),
        ("compression.type", "brotli", "must be one of producer, uncompressed, gzip, snappy, lz4, zstd"),
        ("compression.gzip.level", "0", "must be between 1 and 9 or must be -1"),
        ("message.timestamp.type", "createtime", "must be one of CreateTime, LogAppendTime"),
        ("remote.storage.enable", "true", "must be false"),
        ("local.retention.ms", "-3", "must be at least -2"),
        ("leader.replication.throttled.replicas", "0:1,*", "must be * or partition:broker,partition:broker,..."),
        ("follower.replication.throttled.replicas", "none", "must be * or partition:broker,partition:broker,..."),
    ],
)
def test_a_broken_rule_is_named_with_its_key_and_value(key: str, value: str, rule: str) -> None:
    with pytest.raises(InvalidConfig) as raised:
        LogConfig.parse({key: value})
    assert raised.value.message == f"{key}={value}: {rule}"


def test_an_unknown_key_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(InvalidConfig, match=r"retention\.m=1: there is no .* \(did you mean retention\.ms\?\)"):
        LogConfig.parse({"retention.m": "1"})


def test_an_unknown_key_is_named_before_a_value_that_cannot_be() -> None:
    with pytest.raises(InvalidConfig, match=r"no\.such=1: there is no such topic setting"):
        LogConfig.parse({"retention.ms": "x", "no.such": "1"})


def test_settings_of_kafka_before_4_are_unknown_as_in_kafka_4() -> None:
    with pytest.raises(InvalidConfig, match=r"message\.format\.version=3\.0: there is no such topic setting"):
        LogConfig.parse({"message.format.version": "3.0"})


@pytest.mark.parametrize("value", ["", "*", "0:1", "0:1, 12:3"])
def test_throttled_replicas_are_all_or_named_one_by_one(value: str) -> None:
    assert LogConfig.parse({"leader.replication.throttled.replicas": value})


def test_the_smallest_lag_must_not_be_above_the_largest() -> None:
    with pytest.raises(InvalidConfig, match=r"min\.compaction\.lag\.ms=7: must be at most max\.compaction\.lag\.ms=1"):
        LogConfig.parse({"min.compaction.lag.ms": "7", "max.compaction.lag.ms": "1"})


def test_one_lag_is_checked_against_the_brokers_default_of_the_other() -> None:
    with pytest.raises(InvalidConfig, match=r"min\.compaction\.lag\.ms=7"):
        LogConfig.parse({"min.compaction.lag.ms": "7"}, LogConfig(max_compaction_lag_ms=1))


@pytest.mark.parametrize(
    "keys", [("segment.bytes", "internal.segment.bytes"), ("internal.segment.bytes", "segment.bytes")]
)
def test_the_internal_segment_size_of_kafkas_tests_is_the_stronger_one(keys: tuple[str, str]) -> None:
    values = {"segment.bytes": "1000", "internal.segment.bytes": "100"}
    assert LogConfig.parse({key: values[key] for key in keys}).segment_bytes == 100


def test_the_internal_segment_size_follows_the_rule_of_the_public_one() -> None:
    assert topic_key("internal.segment.bytes") is topic_key("segment.bytes")
    with pytest.raises(InvalidConfig, match="must be at least 14"):
        LogConfig.parse({"internal.segment.bytes": "0"})
