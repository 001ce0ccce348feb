"""The metrics of a broker in Prometheus' text format.

Names are Kafka's, by rule. The metric `kafka.log:type=LogCleaner,name=max-compaction-delay-secs` is the sample
`kafka_log_logcleaner_max_compaction_delay_secs`: domain, type and name in lower case, everything that is no letter or
digit an underscore; further properties (`topic=`, `partition=`, `request=`) become labels. A rate, `...PerSec`, becomes
the counter under it, `..._total`. As in Kafka, what is counted per topic is also told without one, for the broker.
"""

import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

from ..protocol.api_keys import API_NAMES
from ..storage.cleaner.stats import CleanerGauges
from .groups.classic.classic_group import ClassicGroup
from .groups.classic.group_states import GroupState
from .groups.consumer.consumer_group import ConsumerGroup, ConsumerGroupState
from .groups.share.share_group import ShareGroup, ShareGroupState
from .groups.streams.streams_group import StreamsGroup, StreamsGroupState
from .metrics import Metrics, RequestMetrics
from .network.socket_server import Server
from .scheduler import Turn
from .services import Services

LINES_OF_A_PIECE = 100
"""Samples that are rendered in one step."""

TURN_S = 0.001
"""Seconds that rendering holds the loop before other tasks have a turn."""


class MeasuredBroker(Protocol):
    """A broker whose metrics are rendered."""

    services: Services
    server: Server


def metrics_text(broker: MeasuredBroker) -> str:
    """All metrics of a broker in Prometheus' text format. To be called on its loop."""
    return "".join(_pieces(broker))


async def metrics_text_in_turns(broker: MeasuredBroker) -> str:
    """The same, while other tasks of the loop go on. What changes meanwhile, later samples have already."""
    return "".join([piece async for piece in metrics_pieces(broker)])


async def metrics_pieces(broker: MeasuredBroker) -> AsyncIterator[str]:
    """The same in pieces of whole lines."""
    turn = Turn(TURN_S)
    for piece in _pieces(broker):
        yield piece
        if turn.is_over:
            await turn.next()


class _Sample(NamedTuple):
    value: float
    labels: str = ""
    """As `_labels` makes them."""
    suffix: str = ""


class _Family(NamedTuple):
    """The samples of a metric."""

    name: str
    about: str
    kind: str
    samples: Iterable[_Sample]
    """Of what exists when the family is made; they may be read later."""

    def pieces(self) -> Iterator[str]:
        yield f"# HELP {self.name} {self.about}\n# TYPE {self.name} {self.kind}\n"
        samples = iter(self.samples)
        while piece := [*islice(samples, LINES_OF_A_PIECE)]:
            yield "".join([f"{self.name}{suffix}{labels} {float(value)!r}\n" for value, labels, suffix in piece])


def _pieces(broker: MeasuredBroker) -> Iterator[str]:
    """The text in pieces, each of which takes well under a millisecond."""
    for family in _families(broker.services, broker.server):
        yield from family.pieces()


def _families(services: Services, server: Server) -> Iterator[_Family]:
    from .replication.replication_metrics import replication_readings  # not needed before

    yield from _traffic(services.metrics)
    yield from _requests(services.metrics)
    yield from _logs(services)
    yield from _cleaner(services)
    yield from _groups(services)
    yield from _transactions(services)
    yield from _broker_state(services, server)
    yield from _quotas(services.metrics)
    for reading in replication_readings(services.replica_manager):
        yield _metric(reading.mbean, reading.about, [_Sample(reading.value, _labels(reading.labels))])


def _labels(labels: Mapping[str, str]) -> str:
    """Labels as a line has them."""
    if not labels:
        return ""
    return f"{{{','.join([f'{name}={_quoted(value)}' for name, value in sorted(labels.items())])}}}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return f'"{escaped}"'


def name_of(mbean: str) -> str:
    """The Prometheus name of a metric of Kafka's, given as `domain:type=...,name=...`, by the rule above."""
    domain, _, properties = mbean.partition(":")
    parts = [domain, *(item.partition("=")[2] for item in properties.split(","))]
    name = re.sub("[^a-z0-9]", "_", "_".join(parts).lower())
    return f"{name.removesuffix('persec')}_total" if name.endswith("persec") else name


def _metric(mbean: str, about: str, samples: Iterable[_Sample], kind: str = "") -> _Family:
    """A family of samples; its kind follows from the name unless given."""
    name = name_of(mbean)
    return _Family(name, about, kind or ("counter" if name.endswith("_total") else "gauge"), samples)


_TRAFFIC = (
    ("MessagesInPerSec", "messages_in", "Records appended."),
    ("BytesInPerSec", "bytes_in", "Bytes of batches received from producers, as sent."),
    ("BytesOutPerSec", "bytes_out", "Bytes of batches sent to consumers."),
    ("TotalProduceRequestsPerSec", "produce_requests", "Appends to partitions."),
    ("TotalFetchRequestsPerSec", "fetch_requests", "Reads of partitions."),
)


def _traffic(metrics: Metrics) -> Iterator[_Family]:
    total = metrics.total()
    for name, attribute, about in _TRAFFIC:
        samples = [_Sample(getattr(total, attribute))]
        samples += [
            _Sample(getattr(counted, attribute), _labels({"topic": topic})) for topic, counted in metrics.topics.items()
        ]
        yield _metric(f"kafka.server:type=BrokerTopicMetrics,name={name}", about, samples)


def _requests(metrics: Metrics) -> Iterator[_Family]:
    by_name = {API_NAMES.get(api_key, str(api_key)): counted for api_key, counted in metrics.requests.items()}
    yield _metric(
        "kafka.network:type=RequestMetrics,name=RequestsPerSec",
        "Requests answered.",
        [_Sample(counted.count, _labels({"request": name})) for name, counted in by_name.items()],
    )
    yield _metric(
        "kafka.network:type=RequestMetrics,name=ErrorsPerSec",
        "Requests that were answered with an error as a whole.",
        [
            _Sample(count, _labels({"request": name, "error": error}))
            for name, counted in by_name.items()
            for error, count in counted.errors.items()
        ],
    )
    yield _metric(
        "kafka.network:type=RequestMetrics,name=TotalTimeMs",
        "Milliseconds from a request to its answer, waiting included.",
        [sample for name, counted in by_name.items() for sample in _histogram(name, counted)],
        kind="histogram",
    )


def _histogram(name: str, counted: RequestMetrics) -> Iterator[_Sample]:
    below = 0
    for bucket, count in enumerate(counted.buckets[:-1]):
        below += count
        yield _Sample(below, _labels({"request": name, "le": repr(2**bucket / 1000)}), "_bucket")
    yield _Sample(counted.count, _labels({"request": name, "le": "+Inf"}), "_bucket")
    yield _Sample(counted.count, _labels({"request": name}), "_count")
    yield _Sample(counted.seconds * 1000, _labels({"request": name}), "_sum")


def _logs(services: Services) -> Iterator[_Family]:
    logs = sorted(services.logs.logs.items())
    labels: list[str] = []

    def labelled(number: int) -> str:
        if number == len(labels):  # for the first family
            topic, partition = logs[number][0]
            labels.append(_labels({"topic": topic, "partition": str(partition)}))
        return labels[number]

    gauges: tuple[tuple[str, str, Callable[[Any], int]], ...] = (
        ("Size", "Bytes of the log's segments.", lambda log: log.size_bytes),
        ("LogStartOffset", "The first offset that readers may have.", lambda log: log.log_start_offset),
        ("LogEndOffset", "The offset of the next record.", lambda log: log.log_end_offset),
        ("NumLogSegments", "Segments of the log.", lambda log: len(log.segments)),
    )

    def samples_of(value: Callable[[Any], int]) -> Iterator[_Sample]:
        return (_Sample(value(log), labelled(number)) for number, (_, log) in enumerate(logs))

    for name, about, value in gauges:
        yield _metric(f"kafka.log:type=Log,name={name}", about, samples_of(value))


def _cleaner(services: Services) -> Iterator[_Family]:
    """As they are now; in Apache Kafka most are as the cleaner found them when it last looked."""
    standing = services.cleaner.gauges()
    yield from _cleaner_passes(services, standing)
    yield from _cleaner_manager(services, standing)


def _cleaner_passes(services: Services, standing: CleanerGauges) -> Iterator[_Family]:
    cleaner = services.cleaner
    passes = cleaner.schedule.last_passes
    for name, about, value in (
        (
            "max-compaction-delay-secs",
            "For how long the record that waits longest has waited for compaction beyond max.compaction.lag.ms.",
            standing.max_compaction_delay_secs,
        ),
        (
            "max-buffer-utilization-percent",
            "How full the map of keys was, in the last pass of each thread.",
            passes.max_buffer_utilization_percent,
        ),
        (
            "cleaner-recopy-percent",
            "Of the bytes that these passes have read, those they wrote again.",
            passes.recopy_percent,
        ),
        (
            "max-clean-time-secs",
            "How long the longest of them took.",
            passes.max_clean_time_secs,
        ),
        (
            "DeadThreadCount",
            "Threads of the cleaner that an error has ended; they begin again with its next look.",
            cleaner.dead_threads,
        ),
    ):
        yield _metric(f"kafka.log:type=LogCleaner,name={name}", about, [_Sample(value)])


def _cleaner_manager(services: Services, standing: CleanerGauges) -> Iterator[_Family]:
    cleaner = services.cleaner
    directory = {"logDirectory": services.logs.directory}
    for name, about, value, labels in (
        (
            "max-dirty-percent",
            "The share of the dirtiest log that is not cleaned.",
            standing.max_dirty_percent,
            {},
        ),
        (
            "uncleanable-partitions-count",
            "Partitions whose cleaning has failed; they are left alone until the broker starts again.",
            standing.uncleanable_partitions,
            directory,
        ),
        (
            "uncleanable-bytes",
            "Bytes of them that could be cleaned.",
            standing.uncleanable_bytes,
            directory,
        ),
        (
            "time-since-last-run-ms",
            "Since the cleaner last looked for something to clean: when something had changed, or fell due.",
            services.clock.now_ms() - cleaner.last_look_ms,
            {},
        ),
    ):
        yield _metric(f"kafka.log:type=LogCleanerManager,name={name}", about, [_Sample(value, _labels(labels))])


_GROUPS = (
    (GroupState.PREPARING_REBALANCE, "Classic groups whose members are joining."),
    (GroupState.COMPLETING_REBALANCE, "Classic groups that wait for their leader's assignment."),
    (GroupState.STABLE, "Classic groups whose members have their assignment."),
    (GroupState.DEAD, "Classic groups that are being removed."),
    (GroupState.EMPTY, "Classic groups without members."),
)


_GROUP_KINDS = (
    (ClassicGroup.group_type, GroupState, "Classic groups that this broker coordinates, by state."),
    (ConsumerGroup.group_type, ConsumerGroupState, "Consumer groups (KIP-848) that this broker coordinates, by state."),
    (ShareGroup.group_type, ShareGroupState, "Share groups (KIP-932) that this broker coordinates, by state."),
    (StreamsGroup.group_type, StreamsGroupState, "Streams groups (KIP-1071) that this broker coordinates, by state."),
)


def _groups(services: Services) -> Iterator[_Family]:
    groups = services.groups.groups.values()
    states = Counter((group.group_type, group.state_name) for group in groups)
    kinds = Counter(group.group_type for group in groups)
    offsets = sum(len(group.offsets) for group in groups)
    yield from _groups_of_old(states, kinds, offsets)
    coordinator = "kafka.server:type=group-coordinator-metrics"
    yield _metric(
        f"{coordinator},name=group-count",
        "Groups that this broker coordinates, by group protocol.",
        [_Sample(kinds[kind], _labels({"protocol": kind})) for kind, _, _ in _GROUP_KINDS],
    )
    for kind, named, about in _GROUP_KINDS:
        samples = [_Sample(states[kind, state.value], _labels({"state": state.value})) for state in named]
        yield _metric(f"{coordinator},name={kind}-group-count", about, samples)
    for name, about, value in (
        ("offset-count", "Committed offsets of the groups that this broker coordinates.", offsets),
        (
            "group-completed-rebalance-count",
            "Generations of classic groups that got their assignment.",
            services.groups.completed_rebalances,
        ),
        (
            "consumer-group-rebalance-count",
            "Epochs of consumer groups (KIP-848) that began because subscriptions or topics had changed.",
            services.groups.member_steps.rebalances,
        ),
        (
            "share-group-rebalance-count",
            "Epochs of share groups (KIP-932) that began because subscriptions, topics or partitions had changed.",
            services.groups.share.members.rebalances,
        ),
        (
            "streams-group-rebalance-count",
            "Epochs of streams groups (KIP-1071) that began because members, topics or settings had changed.",
            services.groups.streams.steps.rebalances,
        ),
    ):
        yield _metric(f"{coordinator},name={name}", about, [_Sample(value)])


def _groups_of_old(states: Mapping[tuple[str, str], int], kinds: Mapping[str, int], offsets: int) -> Iterator[_Family]:
    """The metrics from before there were kinds of groups: like Kafka's they count classic ones."""
    manager, classic = "kafka.coordinator.group:type=GroupMetadataManager", ClassicGroup.group_type
    about = "Classic groups that this broker coordinates."
    yield _metric(f"{manager},name=NumGroups", about, [_Sample(kinds[classic])])
    for state, about in _GROUPS:
        yield _metric(f"{manager},name=NumGroups{state.value}", about, [_Sample(states[classic, state.value])])
    yield _metric(f"{manager},name=NumOffsets", "Committed offsets of groups of all kinds.", [_Sample(offsets)])


_LATE_BY_MS = 300_000
"""Milliseconds after the longest time-out at which a transaction in a log counts as late: no coordinator ends it."""


def _transactions(services: Services) -> Iterator[_Family]:
    now_ms, liveness_ms = services.clock.now_ms(), services.clock.liveness_ms()
    late_before_ms = now_ms - services.config.current.transaction_max_timeout_ms - _LATE_BY_MS
    producers = [log.producers for log in services.logs.logs.values() if log.producers.ongoing]
    late = sum(one.has_transaction_since(late_before_ms) for one in producers)
    began = [transaction.began_ms for transaction in services.transactions.open_transactions()]
    for mbean, about, value in (
        ("kafka.server:type=ReplicaManager,name=PartitionsWithLateTransactionsCount", "Some hang.", late),
        (
            "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name=UnknownDestinationQueueSize",
            "Decided transactions whose markers wait.",
            len(services.transactions.completion),
        ),
        (
            "kmini:type=transactions,name=transactional_ids",
            "Coordinated here.",
            len(services.transactions.transactions),
        ),
        ("kmini:type=transactions,name=open", "Begun, and neither committed nor aborted.", len(began)),
        (
            "kmini:type=transactions,name=oldest_open_seconds",
            "How long the oldest of them has been open.",
            (liveness_ms - min(began, default=liveness_ms)) / 1000,
        ),
    ):
        yield _metric(mbean, about, [_Sample(value)])


def _broker_state(services: Services, server: Server) -> Iterator[_Family]:
    topics = services.controller.topics.values()
    partitions = [state for topic in topics for state in topic.partitions]
    for mbean, about, value in (
        ("kafka.controller:type=KafkaController,name=GlobalTopicCount", "Topics of the cluster.", len(topics)),
        ("kafka.controller:type=KafkaController,name=GlobalPartitionCount", "Their partitions.", len(partitions)),
        (
            "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize",
            "Requests that wait for something.",
            len(services.purgatory),
        ),
        (
            "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions",
            "Fetch sessions.",
            len(services.fetch_sessions),
        ),
        (
            "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchPartitionsCached",
            "Partitions that they remember.",
            services.fetch_sessions.partition_count,
        ),
        (
            "kafka.server:type=FetchSessionCache,name=IncrementalFetchSessionEvictionsPerSec",
            "Sessions pushed out for others.",
            services.fetch_sessions.evictions,
        ),
        (
            "kmini:name=uptime_seconds",
            "Seconds since the broker was made.",
            time.monotonic() - services.metrics.started,
        ),
    ):
        yield _metric(mbean, about, [_Sample(value)])
    yield _metric("kafka.server:type=socket-server-metrics,name=connection-count", "Connections.", _connections(server))


def _quotas(metrics: Metrics) -> Iterator[_Family]:
    throttles = [(_labels({"quota": quota}), counted) for quota, counted in sorted(metrics.throttles.items())]
    for name, about, value_of in (
        ("throttles_total", "How often clients were above a quota.", attrgetter("count")),
        ("throttle_seconds_total", "For how long together nothing more of them was served.", attrgetter("seconds")),
    ):
        samples = [_Sample(value_of(counted), labels) for labels, counted in throttles]
        yield _metric(f"kmini:type=quotas,name={name}", about, samples)


def _connections(server: Server) -> Sequence[_Sample]:
    names = [connection.listener.name for connection in server.connections]
    return [_Sample(names.count(listener.name), _labels({"listener": listener.name})) for listener in server.listeners]
