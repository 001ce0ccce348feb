"""Settings of Apache Kafka that are accepted and have no effect here, with the reasons.

A server.properties written for Kafka should start kmini as it is, and a misspelt key should not: hence names for the
families in which kmini has keys of its own, and prefixes for the families in which it has none. Settings that can be
described and changed although they have no effect stand in the table of `broker_config.py`, with `no_effect=`.
"""

from typing import NamedTuple

from ..security.security_settings import LISTENER_PREFIX


class Family(NamedTuple):
    """Keys that have no effect for one reason."""

    reason: str
    prefixes: tuple[str, ...]
    names: frozenset[str] = frozenset()


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


FAMILIES = (
    Family(
        "of security there are TLS, SASL's PLAIN, SCRAM and OAUTHBEARER, and access rules; a listener that needs more "
        "is refused, so nothing is silently open",
        ("sasl.", "ssl.", "listener.name.", "delegation.token.", "security.", "authorizer.", "principal.",
         "password.encoder."),
    ),
    Family(
        "the controller lives in the process of its brokers, which notice each start and end at once: there is no "
        "quorum and no ZooKeeper",
        ("controller.", "metadata.", "zookeeper.", "process.", "initial.broker.", "broker.heartbeat."),
        _names("""
            broker.id.generation.enable reserved.broker.max.id
            controlled.shutdown.enable controlled.shutdown.max.retries controlled.shutdown.retry.backoff.ms
            early.start.listeners server.max.startup.time.ms
            inter.broker.protocol.version
            leader.imbalance.per.broker.percentage unclean.leader.election.interval.ms
            log.dir.failure.timeout.ms
            num.replica.alter.log.dirs.threads
            replica.socket.receive.buffer.bytes replica.socket.timeout.ms
            socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
        """),
    ),
    Family(
        "quotas are of clients, none of replication",
        ("replication.quota.", "alter.log.dirs."),
        _names("""
            leader.replication.throttled.rate follower.replication.throttled.rate
            replica.alter.log.dirs.io.max.bytes.per.second
        """),
    ),
    Family("there is no tiered storage", ("remote.", "log.local.", "log.remote.", "follower.fetch.")),
    Family(
        "the number of share groups is not limited, and what has completed leaves the purgatory at once",
        (),
        _names("group.share.max.groups share.fetch.purgatory.purge.interval.requests"),
    ),
    Family(
        "coordinators are part of the event loop, and keep no buffers of their own",
        (),
        _names("""
            group.coordinator.append.linger.ms group.coordinator.background.threads
            group.coordinator.cached.buffer.max.bytes group.coordinator.new.enable group.coordinator.threads
            offsets.load.buffer.size offsets.topic.compression.codec transaction.state.log.load.buffer.size
            queued.max.request.bytes
            share.coordinator.append.linger.ms share.coordinator.cached.buffer.max.bytes
            share.coordinator.load.buffer.size share.coordinator.state.topic.compression.codec
            share.coordinator.threads
        """),
    ),
    Family(
        "metrics are Prometheus', and clients push none",
        ("telemetry.", "metric.", "metrics.", "kafka.metrics."),
    ),
    Family(
        "no Java classes are loaded",
        ("config.providers", "confluent.", "client.quota."),
        _names("alter.config.policy.class.name create.topic.policy.class.name group.share.persister.class.name"),
    ),
    Family("there is one log directory", (), _names("cordoned.log.dirs")),
    Family(
        "they are of releases before 4.0; the formats of records are told from each other batch by batch",
        (),
        _names("""
            quota.producer.default quota.consumer.default
            log.message.downconversion.enable log.message.format.version log.message.timestamp.difference.max.ms
        """),
    ),
    Family("they are switches of Kafka's own tests and development", ("internal.", "unstable.")),
)  # fmt: skip

DYNAMIC = _names("""
    config.providers
    cordoned.log.dirs
    follower.fetch.last.tiered.offset.enable
    follower.replication.throttled.rate
    group.coordinator.cached.buffer.max.bytes
    leader.replication.throttled.rate
    metric.reporters
    principal.builder.class
    remote.fetch.max.wait.ms
    remote.list.offsets.request.timeout.ms
    remote.log.index.file.cache.total.size.bytes
    remote.log.manager.copier.thread.pool.size
    remote.log.manager.copy.max.bytes.per.second
    remote.log.manager.expiration.thread.pool.size
    remote.log.manager.fetch.max.bytes.per.second
    remote.log.manager.follower.thread.pool.size
    remote.log.reader.threads
    replica.alter.log.dirs.io.max.bytes.per.second
    sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin
    sasl.kerberos.principal.to.local.rules
    sasl.kerberos.service.name
    sasl.kerberos.ticket.renew.jitter
    sasl.kerberos.ticket.renew.window.factor
    sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds
    sasl.login.refresh.window.factor
    sasl.login.refresh.window.jitter
    share.coordinator.cached.buffer.max.bytes
    ssl.endpoint.identification.algorithm
    ssl.engine.factory.class
    ssl.keymanager.algorithm
    ssl.protocol
    ssl.provider
    ssl.secure.random.implementation
    ssl.trustmanager.algorithm
""")
"""Keys without effect that Kafka 4.3 changes while it runs, by their bare names. With a listener's prefix all are."""


def why_ignored(name: str) -> str | None:
    """Why `name`, a setting of Apache Kafka 4.3 or of the releases before, has no meaning here; None if it is none."""
    for family in FAMILIES:
        if name in family.names or name.startswith(family.prefixes):
            return family.reason
    return None


def is_ignored(name: str) -> bool:
    """Whether `name` is a setting of Apache Kafka that has no meaning here."""
    return why_ignored(name) is not None


def can_be_changed(name: str) -> bool:
    """Whether Kafka takes a new value for the setting `name`, which has no meaning here, while it runs."""
    return name in DYNAMIC or name.startswith(LISTENER_PREFIX)
