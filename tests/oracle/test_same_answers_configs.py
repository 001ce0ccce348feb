"""Settings of topics, loggers, client metrics and groups: we answer the same requests as Apache Kafka does."""

from __future__ import annotations

from typing import Any

from support.oracle.config_requests import (
    APPEND,
    CLIENT_METRICS,
    DELETE,
    GROUP,
    LOGGER,
    SET,
    SUBTRACT,
    TOPIC,
    change,
    replace,
    settle,
    tell,
)
from support.transcript import SameAnswers, Transcript

# --- topics


def test_settings_of_topics(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic, other = transcript.create(partitions=2), transcript.create("-other")

        def ask(what: str, *changes: Any, name: str = topic, version: int = 1, validate_only: bool = False) -> None:
            transcript.ask(what, change((TOPIC, name, list(changes)), validate_only=validate_only), version)

        for version in range(2):
            ask("set", ("retention.ms", SET, "5000"), version=version)
        settle(transcript, TOPIC, topic, "retention.ms", "5000")
        tell(transcript, "after set", TOPIC, topic, "retention.ms")
        ask("validate only", ("retention.ms", SET, "7"), validate_only=True)
        ask("validate only, wrong", ("retention.ms", SET, "x"), validate_only=True)
        for value in ("soon", "", "-2", "1.5", "9223372036854775808"):
            ask(f"retention.ms={value}", ("retention.ms", SET, value))
        for key, value in (
            ("min.cleanable.dirty.ratio", "2"),
            ("compression.type", "zip"),
            ("compression.type", ""),
            ("cleanup.policy", "burn"),
            ("cleanup.policy", ","),
            ("cleanup.policy", "delete,"),
            ("compression.gzip.level", "0"),
            ("preallocate", "maybe"),
            ("max.message.bytes", "3000000000"),
            ("message.timestamp.type", "createtime"),
            ("remote.storage.enable", "true"),
            ("local.retention.ms", "-5"),
            ("leader.replication.throttled.replicas", "none"),
            ("leader.replication.throttled.replicas", "abc"),
            ("leader.replication.throttled.replicas", "*,2:1"),
            ("message.format.version", "3.0"),
            ("message.downconversion.enable", "true"),
            ("message.timestamp.difference.max.ms", "5"),
            ("producer_byte_rate", "5"),
            ("log.retention.ms", "5"),
            ("no.such.key", "1"),
        ):
            ask(f"{key}={value[:20]}", (key, SET, value))
        ask("an unknown key, deleted", ("no.such.key", DELETE, None))
        ask("a default, deleted", ("segment.bytes", DELETE, None))
        ask("deleted with a value", ("retention.ms", DELETE, "5"))
        settle(transcript, TOPIC, topic, "retention.ms", "604800000")
        tell(transcript, "after deletion", TOPIC, topic, "retention.ms")
        for operation in (SET, APPEND, SUBTRACT):
            ask(f"null for operation {operation}", ("cleanup.policy", operation, None))
        for operation in (APPEND, SUBTRACT):
            ask(f"operation {operation} on a number", ("retention.ms", operation, "1"))
            ask(f"operation {operation} on an unknown key", ("no.such.key", operation, "1"))
        for operation in (4, -1):
            ask(f"operation {operation}", ("retention.ms", operation, "1"))
        ask("one key twice", ("retention.ms", SET, "1"), ("retention.ms", SET, "1"))
        ask("one key set and deleted", ("retention.ms", SET, "1"), ("retention.ms", DELETE, None))
        ask("a good and a bad key", ("retention.bytes", SET, "9"), ("retention.ms", SET, "x"))
        ask("a bad value and an unknown key", ("retention.ms", SET, "x"), ("no.such.key", SET, "1"))
        ask("lags", ("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5"))
        ask("nothing")
        for name in (f"{topic}-absent", "a b", ""):
            what = "an unknown topic" if name.startswith(topic) else repr(name)
            ask(f"{what}", ("retention.ms", SET, "1"), name=name)
            ask(f"{what}, nothing", name=name)
            ask(f"{what}, null", ("retention.ms", SET, None), name=name)
            ask(f"{what}, a bad value", ("retention.ms", SET, "x"), name=name)
            ask(f"{what}, no list", ("retention.ms", APPEND, "x"), name=name)
            ask(f"{what}, one key twice", ("retention.ms", SET, "1"), ("retention.ms", SET, "2"), name=name)
        good = ("retention.ms", SET, "1")
        transcript.ask("twice, and another", change(*[(TOPIC, topic, [good])] * 2, (TOPIC, other, [good])), 1)
        settle(transcript, TOPIC, other, "retention.ms", "1")
        transcript.ask("one good", change((TOPIC, topic, [("nope", SET, "1")]), (TOPIC, other, [good])), 1)
        transcript.ask("no resources", change(), 1)
        for kind in (0, 1, 3, 99, -1):
            transcript.ask(f"type {kind}", change((kind, "x", [("a", SET, "1")])), 1)
        tell(transcript, "at the end", TOPIC, topic, "retention.ms", "retention.bytes", "cleanup.policy")

    same_answers(script)


def test_small_segments(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create()
        transcript.ask("small segments", change((TOPIC, topic, [("segment.bytes", SET, "1000")])), 1)
        transcript.ask("tiny segments", change((TOPIC, topic, [("segment.bytes", SET, "13")])), 1)
        transcript.ask("internally", change((TOPIC, topic, [("internal.segment.bytes", SET, "1000")])), 1)
        settle(transcript, TOPIC, topic, "internal.segment.bytes", "1000")
        tell(transcript, "internally", TOPIC, topic, "internal.segment.bytes")

    same_answers(script)


def test_lists(same_answers: SameAnswers) -> None:
    steps = [
        ("cleanup.policy", APPEND, "compact", "delete,compact"),
        ("cleanup.policy", APPEND, "compact", "delete,compact"),
        ("cleanup.policy", SUBTRACT, "delete", "compact"),
        ("cleanup.policy", SUBTRACT, "delete", "compact"),
        ("cleanup.policy", SUBTRACT, "compact", ""),
        ("cleanup.policy", DELETE, None, "delete"),
        ("cleanup.policy", SUBTRACT, "delete", ""),
        ("cleanup.policy", SET, "delete,compact,delete", "delete,compact"),
        ("cleanup.policy", SET, " compact , delete ", "compact,delete"),
        ("cleanup.policy", SET, " ", ""),
        ("cleanup.policy", SET, "compact", "compact"),
        ("cleanup.policy", APPEND, "delete", "compact,delete"),
        ("leader.replication.throttled.replicas", APPEND, "0:1", "0:1"),
        ("leader.replication.throttled.replicas", APPEND, "1:1,0:1", "0:1,1:1"),
        ("leader.replication.throttled.replicas", SET, "", ""),
        ("leader.replication.throttled.replicas", SET, "*", "*"),
        ("preallocate", SET, "TRUE", "true"),
        ("min.cleanable.dirty.ratio", SET, ".25", "0.25"),
        ("max.message.bytes", SET, " +5000 ", "5000"),
    ]

    def script(transcript: Transcript) -> None:
        topic = transcript.create()
        for number, (key, operation, value, after) in enumerate(steps):
            transcript.ask(f"step {number}", change((TOPIC, topic, [(key, operation, value)])), 1)
            settle(transcript, TOPIC, topic, key, after)
            tell(transcript, f"after step {number}", TOPIC, topic, key)
        transcript.ask("an empty item", change((TOPIC, topic, [("cleanup.policy", APPEND, "")])), 1)

    same_answers(script)


def test_settings_of_topics_as_a_whole(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic, other = transcript.create(segment_ms="6000"), transcript.create("-other")

        def ask(what: str, *settings: Any, name: str = topic, version: int = 2, validate_only: bool = False) -> None:
            transcript.ask(what, replace((TOPIC, name, list(settings)), validate_only=validate_only), version)

        for version in range(3):
            ask("replace", ("retention.ms", f"500{version}"), ("cleanup.policy", "compact"), version=version)
            settle(transcript, TOPIC, topic, "retention.ms", f"500{version}")
        ask("without one", ("retention.ms", "6000"))
        settle(transcript, TOPIC, topic, "retention.ms", "6000")
        tell(transcript, "without one", TOPIC, topic, "retention.ms", "cleanup.policy", "segment.ms")
        ask("validate only", ("retention.ms", "1"), validate_only=True)
        ask("a bad value", ("retention.ms", "x"))
        ask("null", ("retention.ms", None))
        ask("one key twice", ("retention.ms", "1"), ("retention.ms", "2"))
        ask("an unknown key", ("no.such.key", "1"))
        for name in (f"{topic}-absent", "a b", ""):
            what = "an unknown topic" if name.startswith(topic) else repr(name)
            ask(what, ("retention.ms", "1"), name=name)
        for kind in (0, 99, LOGGER):
            transcript.ask(f"type {kind}", replace((kind, "1", [("a", "b")])), 2)
        transcript.ask("one good", replace((TOPIC, topic, [("nope", "1")]), (TOPIC, other, [("retention.ms", "8")])), 2)
        settle(transcript, TOPIC, other, "retention.ms", "8")
        ask("nothing")
        settle(transcript, TOPIC, topic, "retention.ms", "604800000")

    same_answers(script)


# --- loggers, and what has no settings here


def test_levels_of_loggers(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        def ask(what: str, *changes: Any, name: str = "1", validate_only: bool = False) -> None:
            transcript.ask(what, change((LOGGER, name, list(changes)), validate_only=validate_only), 1)

        ask("set", ("root", SET, "ERROR"))
        for version in range(1, 5):
            tell(transcript, "root", LOGGER, "1", "root", version=version)
        tell(transcript, "after set", LOGGER, "1", "root")
        ask("validate only", ("root", SET, "DEBUG"), validate_only=True)
        for level in ("debug", "LOUD", "WARNING", ""):
            ask(f"level {level}", ("root", SET, level))
        ask("null", ("root", SET, None))
        ask("unknown logger", ("no.such.logger", SET, "INFO"))
        ask("unknown logger deleted", ("no.such.logger", DELETE, None))
        ask("root deleted", ("root", DELETE, None))
        ask("append", ("root", APPEND, "INFO"))
        ask("subtract", ("root", SUBTRACT, "INFO"))
        for name in ("2", "x", ""):
            ask(f"broker {name!r}", ("root", SET, "INFO"), name=name)
        ask("back", ("root", SET, "WARN"))

    same_answers(script)


def test_client_metrics_and_groups(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        name = transcript.topic
        for what, kind, key in (
            ("client metrics", CLIENT_METRICS, "interval.ms"),
            ("a group's setting", GROUP, "consumer.session.timeout.ms"),
        ):
            transcript.ask(what, change((kind, name, [(key, SET, "50000")])), 1)
            transcript.ask(f"{what}, back", change((kind, name, [(key, DELETE, None)])), 1)
            transcript.ask(f"without a name, type {kind}", change((kind, "", [(key, SET, "50000")])), 1)
        transcript.ask("an unknown metrics setting", change((CLIENT_METRICS, name, [("nope", SET, "1")])), 1)
        transcript.ask("an unknown group setting", change((GROUP, name, [("nope", SET, "1")])), 1)

    same_answers(script)
