"""DescribeConfigs and ListConfigResources: we answer the same requests as Apache Kafka does."""

from __future__ import annotations

from kafka.protocol.admin import (
    DescribeConfigsRequest,
    ListConfigResourcesRequest,
)

from kmini.broker.handlers.describe_configs import CONFIG_TYPE_CODES
from kmini.broker.settings.broker_config import ALIASES, BROKER_KEYS
from kmini.broker.settings.ignored_keys import can_be_changed, is_ignored
from kmini.storage.config_key import READ_ONLY
from support.kafka_requests import create_topics
from support.oracle.config_requests import (
    BROKER,
    CLIENT_METRICS,
    GROUP,
    LOGGER,
    TOPIC,
    describe,
    settle,
    tell,
)
from support.server_process import ServerProcess
from support.transcript import SameAnswers, Transcript

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
    stays_here |= {name for name in BROKER_KEYS if name.startswith("ssl.")} - {"ssl.principal.mapping.rules"}
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
            assert config.read_only != can_be_changed(config.name), config.name
            continue
        defaults = [synonym.value for synonym in config.synonyms if synonym.source == 5 and synonym.name == config.name]
        assert config.config_type == CONFIG_TYPE_CODES[line.type.name], config.name
        assert config.read_only == (line.dynamic == READ_ONLY) or config.name in stays_here, config.name
        is_kafkas = (defaults or [None]) == [line.text(line.default)]
        assert is_kafkas or line.differs or config.name == "controller.listener.names", config.name


def test_list_config_resources(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        def ask(what: str, *kinds: int, version: int = 1) -> None:
            answer = transcript.ask_quietly(ListConfigResourcesRequest(resource_types=list(kinds)), version)
            resources = [(one.resource_type, one.resource_name) for one in answer.config_resources]
            # Groups that have settings are those of other tests; test_same_answers_group_configs.py has its own.
            listed = sorted(each for each in resources if each[0] != GROUP)
            transcript.note(what, {"error_code": answer.error_code, "resources": listed}, api="ListConfigResources")

        ask("all", version=0)
        for kind in (BROKER, LOGGER, CLIENT_METRICS, GROUP, 0, 1, 99, -1):
            ask(f"type {kind}", kind)
        ask("several", BROKER, LOGGER, CLIENT_METRICS)
        ask("one twice", BROKER, BROKER)
        ask("one bad", BROKER, 99)

    same_answers(script)
