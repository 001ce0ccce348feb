"""Settings of Apache Kafka that are accepted and have no effect here.

A server.properties written for Kafka should start kmini as it is, and a misspelt key should not: hence names for the
families in which kmini has keys of its own, and prefixes for the families in which it has none.
"""

_PREFIXES = (
    # security, until it is offered: a listener that needs it is refused, so nothing is silently open
    "sasl.", "ssl.", "listener.name.", "delegation.token.", "security.", "authorizer.", "principal.",
    # the KRaft quorum and ZooKeeper: here one controller lives in the process
    "controller.", "metadata.", "zookeeper.", "process.", "initial.broker.", "broker.heartbeat.", "broker.session.",
    # quotas, tiered storage, share and streams groups, telemetry
    "quota.", "replication.quota.", "alter.log.dirs.", "client.quota.", "remote.", "log.local.", "log.remote.",
    "follower.fetch.", "group.share.", "group.streams.", "share.", "streams.", "telemetry.",
    "metric.", "metrics.", "kafka.metrics.", "config.providers", "confluent.", "password.encoder.",
    # switches of Kafka's own tests and development
    "internal.", "unstable.",
)  # fmt: skip

_NAMES = frozenset(
    """
    alter.config.policy.class.name
    background.threads
    broker.id.generation.enable
    connection.failed.authentication.delay.ms
    connections.max.reauth.ms
    controlled.shutdown.enable controlled.shutdown.max.retries controlled.shutdown.retry.backoff.ms
    cordoned.log.dirs
    create.topic.policy.class.name
    delete.records.purgatory.purge.interval.requests
    early.start.listeners
    fetch.purgatory.purge.interval.requests
    group.consumer.max.assignment.interval.ms group.consumer.min.assignment.interval.ms
    group.consumer.regex.refresh.interval.ms
    group.coordinator.append.linger.ms
    group.coordinator.background.threads
    group.coordinator.cached.buffer.max.bytes
    group.coordinator.new.enable
    group.coordinator.threads
    inter.broker.listener.name
    inter.broker.protocol.version
    leader.imbalance.per.broker.percentage
    log.dir.failure.timeout.ms
    log.message.downconversion.enable
    log.message.format.version
    log.message.timestamp.difference.max.ms
    max.connection.creation.rate
    max.request.partition.size.limit
    num.network.threads
    num.replica.alter.log.dirs.threads
    offsets.load.buffer.size
    offsets.topic.compression.codec
    producer.purgatory.purge.interval.requests
    queued.max.request.bytes
    queued.max.requests
    replica.selector.class
    replica.socket.receive.buffer.bytes
    replica.socket.timeout.ms
    reserved.broker.max.id
    server.max.startup.time.ms
    socket.connection.setup.timeout.max.ms
    socket.connection.setup.timeout.ms
    super.users allow.everyone.if.no.acl.found
    transaction.state.log.load.buffer.size
    unclean.leader.election.interval.ms
    """.split()  # noqa: SIM905 (names, not code)
)


def is_ignored(name: str) -> bool:
    """Whether `name` is a setting of Apache Kafka, of 4.3 or of the releases before, that has no meaning here."""
    return name in _NAMES or name.startswith(_PREFIXES)
