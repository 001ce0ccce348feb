"""Settings, and partitions that topics get later: we answer the same requests as Apache Kafka does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kafka.protocol.admin import (
    AlterConfigsRequest,
    CreatePartitionsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
)

from kmini.broker.handlers.describe_configs import CONFIG_TYPE_CODES
from kmini.broker.settings.broker_config import ALIASES, BROKER_KEYS
from kmini.broker.settings.ignored_keys import PER_LISTENER, can_be_changed, is_ignored
from kmini.storage.config_key import READ_ONLY
from support.kafka_requests import create_topics, metadata
from support.server_process import ServerProcess
from support.transcript import Transcript

SameAnswers = Callable[[Callable[[Transcript], None]], None]
Resource = tuple[int, str, list[Any]]

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def change(*resources: Resource, validate_only: bool = False) -> Any:
    """IncrementalAlterConfigs; each change is a key, an operation and a value."""
    Altered = IncrementalAlterConfigsRequest.AlterConfigsResource
    return IncrementalAlterConfigsRequest(
        resources=[
            Altered(
                resource_type=kind,
                resource_name=name,
                configs=[Altered.AlterableConfig(name=k, config_operation=op, value=v) for k, op, v in changes],
            )
            for kind, name, changes in resources
        ],
        validate_only=validate_only,
    )


def replace(*resources: Resource, validate_only: bool = False) -> Any:
    """AlterConfigs; each setting is a key and a value."""
    Altered = AlterConfigsRequest.AlterConfigsResource
    return AlterConfigsRequest(
        resources=[
            Altered(
                resource_type=kind,
                resource_name=name,
                configs=[Altered.AlterableConfig(name=key, value=value) for key, value in settings],
            )
            for kind, name, settings in resources
        ],
        validate_only=validate_only,
    )


def describe(kind: int, name: str, *keys: str, documented: bool = False) -> Any:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    return DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=documented)


def grow(*wishes: tuple[str, int, list[list[int]] | None], validate_only: bool = False, timeout_ms: int = 5_000) -> Any:
    Wish = CreatePartitionsRequest.CreatePartitionsTopic
    Assignment = Wish.CreatePartitionsAssignment
    return CreatePartitionsRequest(
        topics=[
            Wish(
                name=name,
                count=count,
                assignments=None if replicas is None else [Assignment(broker_ids=ids) for ids in replicas],
            )
            for name, count, replicas in wishes
        ],
        timeout_ms=timeout_ms,
        validate_only=validate_only,
    )


def tell(transcript: Transcript, what: str, kind: int, name: str, *keys: str, version: int = 4) -> None:
    """Note what DescribeConfigs says; by name, because each server has an order of its own, and without the texts."""
    result = transcript.ask_quietly(describe(kind, name, *keys, documented=version >= 3), version).results[0]
    told = {}
    for config in result.configs:
        told[config.name] = {
            field: value
            for field, value in config.to_dict(json=False).items()
            if field not in ("name", "documentation", "synonyms")
        }
        told[config.name]["synonyms"] = [
            f"{synonym.name}={synonym.value} ({synonym.source})" for synonym in config.synonyms
        ]
    answer = {"error_code": result.error_code, "settings": told}
    transcript.note(f"{what}, v{version}", answer, api="DescribeConfigs")


def settle(transcript: Transcript, kind: int, name: str, key: str, value: str | None) -> None:
    """Return once DescribeConfigs tells `value`: in Apache Kafka a change is known to the broker a moment later."""
    told = None
    for _ in range(3_000):
        (result,) = transcript.ask_quietly(describe(kind, name, key), 4).results
        told = [config.value for config in result.configs]
        if told == [value]:
            return
        time.sleep(0.01)
    raise TimeoutError(f"{key} is {told}, not {value}")


# --- CreatePartitions


def test_create_partitions(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic, other = transcript.create(partitions=2), transcript.create("-other")

        def ask(what: str, *wishes: tuple[str, int, list[list[int]] | None], version: int = 3, **options: Any) -> None:
            transcript.ask(what, grow(*wishes, **options), version)

        for version in range(4):
            ask("one more", (topic, 3 + version, None), version=version)
        for count in (6, 1, 0, -1):
            ask(f"{count} partitions where there are 6", (topic, count, None))
        ask("validate only", (topic, 100, None), validate_only=True)
        ask("validate only, again", (topic, 100, None), validate_only=True)
        ask("validate only, fewer", (topic, 1, None), validate_only=True)
        ask("an unknown topic", (f"{topic}-absent", 4, None))
        ask("an impossible topic", ("a b", 4, None))
        ask("an empty name", ("", 4, None))
        ask("twice", (topic, 10, None), (topic, 11, None))
        ask("twice, and another", (topic, 10, None), (topic, 10, None), (other, 2, None))
        ask("assigned", (other, 4, [[1], [1]]))
        ask("too few assigned", (other, 7, [[1], [1]]))
        ask("too many assigned", (other, 5, [[1], [1]]))
        ask("none assigned", (other, 5, []))
        ask("assigned to nobody", (other, 5, [[]]))
        ask("one of two assigned to nobody", (other, 6, [[1], []]))
        ask("assigned to a stranger", (other, 5, [[9]]))
        ask("assigned twice to one", (other, 5, [[1, 1]]))
        ask("assigned to two", (other, 5, [[1, 2]]))
        ask("fewer, and assigned", (other, 1, [[1]]))
        ask("several, some wrong", (other, 1, None), (f"{topic}-absent", 5, None), (topic, 7, None))
        ask("nothing")
        ask("with no time", (topic, 8, None), timeout_ms=0)
        transcript.wait_for_partitions(topic, 7)
        transcript.wait_for_partitions(other, 4)
        transcript.ask("the result", metadata(other), 12)

    same_answers(script)


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


# --- brokers


def test_settings_of_brokers(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        def ask(what: str, *changes: Any, name: str = "1", validate_only: bool = False) -> None:
            transcript.ask(what, change((BROKER, name, list(changes)), validate_only=validate_only), 1)

        keys = ("log.cleaner.threads", "log.retention.ms", "log.retention.hours", "log.cleanup.policy", "log.roll.ms")
        topic = transcript.create()
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


# --- DescribeConfigs, ListConfigResources


def test_describe_configs(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic = transcript.create(retention_ms="77", compression_type="gzip", cleanup_policy="compact,delete")
        settle(transcript, TOPIC, topic, "retention.ms", "77")
        for version in range(1, 5):
            tell(transcript, "described: a topic", TOPIC, topic, version=version)
        for kind, name in (
            *((TOPIC, name) for name in (f"{topic}-absent", "a b", "")),
            *((BROKER, name) for name in ("2", "x")),
            *((LOGGER, name) for name in ("2", "x", "")),
            *((kind, "1") for kind in (0, 1, 3, 99, -1)),
        ):
            what = "an unknown topic" if name.startswith(topic) else f"type {kind}, {name!r}"
            transcript.ask(what, describe(kind, name), 4)
        transcript.ask("client metrics", describe(CLIENT_METRICS, transcript.topic), 4)
        transcript.ask("a group's settings", describe(GROUP, transcript.topic), 4)
        twice = describe(TOPIC, topic, "retention.ms")
        twice.resources = twice.resources * 2
        transcript.ask("the same twice", twice, 4)
        tell(transcript, "unknown keys", TOPIC, topic, "nope", "retention.ms")
        tell(transcript, "unknown keys of a broker", BROKER, "1", "nope", "num.partitions")
        transcript.ask("no resources", DescribeConfigsRequest(resources=[], include_synonyms=False), 1)

    same_answers(script)


def test_what_a_topic_is_created_with_is_told(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        configs = {"retention.ms": "77", "cleanup.policy": "compact,delete", "internal.segment.bytes": "5000"}
        request = create_topics({"name": transcript.topic, "configs": configs}, validate_only=True)
        for version in (5, 6, 7):
            (created,) = transcript.ask_quietly(request, version).topics
            told = {
                config.name: {field: value for field, value in config.to_dict(json=False).items() if field != "name"}
                for config in created.configs
            }
            transcript.note(f"a topic made, v{version}", told, api="CreateTopics")

    same_answers(script)


def test_a_broker_described(same_answers: SameAnswers) -> None:
    """Those settings of which the two servers of this suite have the same value."""
    keys = """
        auto.create.topics.enable compression.gzip.level compression.type connections.max.idle.ms
        default.replication.factor delete.topic.enable fetch.max.bytes group.max.session.timeout.ms log.cleanup.policy
        log.cleaner.delete.retention.ms log.cleaner.min.cleanable.ratio log.flush.interval.messages
        log.flush.interval.ms log.flush.scheduler.interval.ms log.index.interval.bytes log.index.size.max.bytes
        log.local.retention.ms log.message.timestamp.type log.preallocate log.retention.bytes
        log.retention.check.interval.ms log.retention.hours log.retention.minutes log.retention.ms log.roll.hours
        log.roll.jitter.hours log.roll.jitter.ms log.roll.ms log.segment.delete.delay.ms max.connections
        max.connections.per.ip max.connections.per.ip.overrides message.max.bytes min.insync.replicas num.io.threads
        num.network.threads num.partitions offsets.retention.minutes replica.fetch.max.bytes socket.request.max.bytes
        transaction.max.timeout.ms transactional.id.expiration.ms unclean.leader.election.enable
    """.split()  # noqa: SIM905 (names, not code)

    def script(transcript: Transcript) -> None:
        for version in range(1, 5):
            tell(transcript, "described: a broker", BROKER, "1", *keys, version=version)

    same_answers(script)


def test_every_setting_of_apache_kafkas_brokers_is_known_here(apache_kafka_server: ServerProcess) -> None:
    """Each is in our table, as Kafka has it but for what the table says, or among those without meaning here."""
    stays_here = {"listeners", "listener.security.protocol.map"}  # the table tells why
    stays_here |= {"sasl.enabled.mechanisms", "sasl.jaas.config", "sasl.mechanism.inter.broker.protocol"}
    transcript = Transcript(apache_kafka_server, "")
    try:
        (result,) = transcript.ask_quietly(describe(BROKER, "1"), 4).results
    finally:
        transcript.close()
    assert len(result.configs) > 300
    for config in result.configs:
        line = BROKER_KEYS.get(config.name)
        if line is None:
            assert is_ignored(config.name) or config.name in ALIASES, config.name
            assert config.read_only != (can_be_changed(config.name) or config.name in PER_LISTENER), config.name
            continue
        defaults = [synonym.value for synonym in config.synonyms if synonym.source == 5 and synonym.name == config.name]
        assert config.config_type == CONFIG_TYPE_CODES[line.type.name], config.name
        assert config.read_only == (line.dynamic == READ_ONLY) or config.name in stays_here, config.name
        is_kafkas = (defaults or [None]) == [line.text(line.default)]
        assert is_kafkas or line.differs or config.name == "controller.listener.names", config.name


def test_list_config_resources(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        def ask(what: str, *kinds: int, version: int = 1) -> None:
            transcript.ask(what, ListConfigResourcesRequest(resource_types=list(kinds)), version)

        ask("all", version=0)
        for kind in (BROKER, LOGGER, CLIENT_METRICS, GROUP, 0, 1, 99, -1):
            ask(f"type {kind}", kind)
        ask("several", BROKER, LOGGER, CLIENT_METRICS)
        ask("one twice", BROKER, BROKER)
        ask("one bad", BROKER, 99)

    same_answers(script)
