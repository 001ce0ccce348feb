"""Settings of brokers: we answer the same requests as Apache Kafka does."""

from __future__ import annotations

from typing import Any

from support.oracle.config_requests import (
    APPEND,
    BROKER,
    DELETE,
    SET,
    SUBTRACT,
    TOPIC,
    change,
    replace,
    settle,
    tell,
)
from support.transcript import SameAnswers, Transcript

# --- brokers


def test_settings_of_brokers(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        def ask(what: str, *changes: Any, name: str = "1", validate_only: bool = False) -> None:
            transcript.ask(what, change((BROKER, name, list(changes)), validate_only=validate_only), 1)

        keys = ("log.cleaner.threads", "log.retention.ms", "log.retention.hours", "log.cleanup.policy", "log.roll.ms")
        topic = transcript.create(keeps_records=False)
        try:
            ask("for one", ("log.cleaner.threads", SET, "2"), ("log.retention.ms", SET, "700000000"))
            ask("for all", ("log.cleaner.threads", SET, "1"), ("log.retention.ms", SET, "800000000"), name="")
            settle(transcript, BROKER, "", "log.retention.ms", "800000000")
            settle(transcript, BROKER, "1", "log.retention.ms", "700000000")
            settle(transcript, TOPIC, topic, "retention.ms", "700000000")
            tell(transcript, "both", BROKER, "1", *keys)
            tell(transcript, "for all", BROKER, "", *keys)
            tell(transcript, "below both", TOPIC, topic, "retention.ms", "segment.ms")
            ask("a list", ("log.cleanup.policy", APPEND, "compact"))
            settle(transcript, BROKER, "1", "log.cleanup.policy", "delete,compact")
            ask("a list, less", ("log.cleanup.policy", SUBTRACT, "delete"))
            settle(transcript, BROKER, "1", "log.cleanup.policy", "compact")
            ask("a list, back", ("log.cleanup.policy", DELETE, None))
            settle(transcript, BROKER, "1", "log.cleanup.policy", "delete")
            ask("nobody knows it", ("no.such.key", SET, "2"), ("retention.ms", SET, "2"))
            ask("nobody knows it, deleted", ("no.such.key", DELETE, None), ("retention.ms", DELETE, None))
            ask("a throttle", ("leader.replication.throttled.rate", SET, "100"))
            ask("a throttle, deleted", ("leader.replication.throttled.rate", DELETE, None))
            for name in ("1", ""):
                who = "one" if name else "all"
                for key, value in (
                    ("num.partitions", "2"),
                    ("node.id", "2"),
                    ("broker.id", "2"),
                    ("log.dirs", "/x"),
                    ("process.roles", "broker"),
                    ("log.retention.hours", "2"),
                    ("advertised.listeners", "PLAINTEXT://127.0.0.1:1"),
                    ("log.cleaner.threads", "x"),
                    ("log.cleaner.threads", "-1"),
                    ("log.retention.ms", ""),
                    ("log.retention.ms", "-2"),
                    ("message.max.bytes", "-5"),
                    ("unclean.leader.election.enable", "maybe"),
                    ("num.io.threads", "0"),
                    ("num.io.threads", "3"),
                    ("num.io.threads", "17"),
                    ("background.threads", "100"),
                    ("num.recovery.threads.per.data.dir", "5"),
                    ("num.replica.fetchers", "3"),
                    ("ssl.keystore.location", "/x"),
                    ("ssl.key.password", "secret"),
                    ("max.connections.per.ip.overrides", "127.0.0.1"),
                    ("max.connections.per.ip.overrides", "127.0.0.1:x"),
                ):
                    ask(f"{key}={value} for {who}", (key, SET, value), name=name)
                ask(f"no number for {who}, appended", ("log.retention.ms", APPEND, "2"), name=name)
                ask(f"an unknown key for {who}, appended", ("no.such.key", APPEND, "2"), name=name)
                ask(f"operation 7 for {who}", ("log.roll.ms", 7, "2"), name=name)
                ask(f"one key twice for {who}", ("log.roll.ms", SET, "7"), ("log.roll.ms", SET, "8"), name=name)
                ask(f"null for {who}", ("log.roll.ms", SET, None), name=name)
                ask(f"nothing for {who}", name=name)
                ask(f"a read-only key deleted for {who}", ("num.partitions", DELETE, None), name=name)
                ask(f"validate only for {who}", ("log.roll.ms", SET, "77777"), name=name, validate_only=True)
                ask(f"validate only for {who}, wrong", ("log.roll.ms", SET, "x"), name=name, validate_only=True)
            for name in ("2", "x", "-1"):
                ask(f"broker {name}", ("log.roll.ms", SET, "77777"), name=name)
                ask(f"broker {name}, nothing", name=name)
                ask(f"broker {name}, read-only", ("num.partitions", SET, "2"), name=name)
        finally:
            ask("one, back", *((key, DELETE, None) for key in ("log.cleaner.threads", "log.retention.ms")))
            ask("all, back", *((key, DELETE, None) for key in ("log.cleaner.threads", "log.retention.ms")), name="")
            settle(transcript, BROKER, "1", "log.cleaner.threads", "1")
            settle(transcript, BROKER, "1", "log.retention.ms", None)
        transcript.ask("replaced for one", replace((BROKER, "1", [("log.roll.ms", "88888")])), 2)
        settle(transcript, BROKER, "1", "log.roll.ms", "88888")
        transcript.ask("read-only, replaced", replace((BROKER, "1", [("num.partitions", "8")])), 2)
        transcript.ask("replaced for broker 2", replace((BROKER, "2", [("log.roll.ms", "88888")])), 2)
        transcript.ask("nothing for one, replaced", replace((BROKER, "1", [])), 2)
        settle(transcript, BROKER, "1", "log.roll.ms", None)

    same_answers(script)


def test_lags_of_brokers_that_contradict_each_other(same_answers: SameAnswers) -> None:
    lags = ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms")

    def script(transcript: Transcript) -> None:
        changes = [(key, SET, value) for key, value in zip(lags, ("10", "5"), strict=True)]
        transcript.ask("contradicting lags", change((BROKER, "1", changes)), 1)
        transcript.ask("back", change((BROKER, "1", [(key, DELETE, None) for key in lags])), 1)
        settle(transcript, BROKER, "1", lags[0], "0")

    same_answers(script)
