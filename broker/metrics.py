"""What is measured: plain numbers, counted where things happen, and told as Prometheus text when somebody asks.

Names are Kafka's, by rule. The metric `kafka.log:type=LogCleaner,name=max-compaction-delay-secs` is the sample
`kafka_log_logcleaner_max_compaction_delay_secs`: domain, type and name in lower case, everything that is no letter or
digit an underscore; further properties (`topic=`, `partition=`, `request=`) become labels. A rate, `...PerSec`, becomes
the counter under it, `..._total`. As in Kafka, what is counted per topic is also told without one, for the broker.
"""

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..protocol.api_keys import API_NAMES
from .groups.group_states import GroupState

if TYPE_CHECKING:
    from prometheus_client import Metric

    from .broker import Broker
    from .replication.delayed_fetch import Answer, Wanted

_LATENCY_BUCKETS = 26
"""Bucket n holds what took less than 2**n microseconds; the last one everything slower."""


class TopicMetrics:
    """The traffic of one topic. Numbers only grow."""

    __slots__ = ("bytes_in", "bytes_out", "fetch_requests", "messages_in", "produce_requests")

    def __init__(self) -> None:
        self.messages_in = self.bytes_in = self.bytes_out = self.produce_requests = self.fetch_requests = 0

    def add(self, other: "TopicMetrics") -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class RequestMetrics:
    """The requests of one API: how many, and how long from decoding to the answer being handed to the socket."""

    __slots__ = ("buckets", "count", "errors", "seconds")

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        self.buckets = [0] * _LATENCY_BUCKETS
        self.errors: dict[str, int] = {}
        """By the name of the error."""


class Metrics:
    """The counters of a broker. Every method is cheap enough for each request."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.topics: dict[str, TopicMetrics] = {}
        self.requests: dict[int, RequestMetrics] = {}
        self.replication_bytes_in = self.replication_bytes_out = 0
        """What this broker fetched as a follower, and what followers fetched from it."""
        self.isr_shrinks = self.isr_expands = self.failed_isr_updates = 0
        """How often it left followers out, or took one in, as a leader, and how often that failed."""
        self._of_deleted_topics = TopicMetrics()

    def produced(self, topic: str, messages: int, size: int) -> None:
        """One partition of a Produce request was appended."""
        counted = self.topics.get(topic) or self._new_topic(topic)
        counted.produce_requests += 1
        counted.messages_in += messages
        counted.bytes_in += size

    def fetched(self, wanted: "Iterable[Wanted]", answers: "Iterable[Answer]") -> None:
        """The partitions of a Fetch request were read: for a consumer, or for a follower."""
        for one, answer in zip(wanted, answers):  # noqa: B905 (they are of the same length, and this is the hot path)
            if not answer.error_code and one.topic_partition is not None:
                topic = one.topic_partition.topic
                counted = self.topics.get(topic) or self._new_topic(topic)
                counted.fetch_requests += 1
                if one.reader.is_follower:
                    self.replication_bytes_out += len(answer.records)
                else:
                    counted.bytes_out += len(answer.records)

    def request(self, api_key: int, seconds: float) -> None:
        """A request was answered, after `seconds`."""
        counted = self.requests.get(api_key) or self._new_api(api_key)
        counted.count += 1
        counted.seconds += seconds
        bucket = int(seconds * 1e6).bit_length()
        counted.buckets[bucket if bucket < _LATENCY_BUCKETS else -1] += 1

    def failed(self, api_key: int, error_name: str) -> None:
        """A request as a whole was answered with an error."""
        errors = (self.requests.get(api_key) or self._new_api(api_key)).errors
        errors[error_name] = errors.get(error_name, 0) + 1

    def forget(self, topic: str) -> None:
        """A topic is deleted: its own numbers go, the broker's keep what it contributed."""
        deleted = self.topics.pop(topic, None)
        if deleted is not None:
            self._of_deleted_topics.add(deleted)

    def total(self) -> TopicMetrics:
        """The traffic of all topics, with those that are deleted."""
        total = TopicMetrics()
        for counted in (self._of_deleted_topics, *self.topics.values()):
            total.add(counted)
        return total

    def _new_topic(self, topic: str) -> TopicMetrics:
        return self.topics.setdefault(topic, TopicMetrics())

    def _new_api(self, api_key: int) -> RequestMetrics:
        return self.requests.setdefault(api_key, RequestMetrics())


def metrics_text(broker: "Broker") -> str:
    """All metrics of a broker in Prometheus' text format. To be called on its loop."""
    from prometheus_client.exposition import generate_latest  # here, because its import costs more than a start

    return generate_latest(_Snapshot(broker)).decode()


class _Snapshot:
    """What prometheus_client renders: an object that can be collected."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    def collect(self) -> "Iterator[Metric]":
        from .replication.replication_metrics import replication_readings  # nobody needs it before

        yield from _traffic(self._broker.metrics)
        yield from _requests(self._broker.metrics)
        yield from _logs(self._broker)
        yield from _cleaner(self._broker)
        yield from _groups(self._broker)
        yield from _transactions(self._broker)
        yield from _broker_state(self._broker)
        for reading in replication_readings(self._broker):
            yield _metric(reading.mbean, reading.about, [_Sample(reading.value, reading.labels)])


class _Sample(NamedTuple):
    value: float
    labels: dict[str, str]
    suffix: str = ""


def name_of(mbean: str) -> str:
    """The Prometheus name of a metric of Kafka's, given as `domain:type=...,name=...`, by the rule above."""
    domain, _, properties = mbean.partition(":")
    parts = [domain, *(item.partition("=")[2] for item in properties.split(","))]
    name = re.sub("[^a-z0-9]", "_", "_".join(parts).lower())
    return f"{name.removesuffix('persec')}_total" if name.endswith("persec") else name


def _metric(mbean: str, about: str, samples: Iterable[_Sample], kind: str = "") -> "Metric":
    """A family of samples; its kind follows from the name unless given."""
    from prometheus_client import Metric

    name = name_of(mbean)
    kind = kind or ("counter" if name.endswith("_total") else "gauge")
    metric = Metric(name.removesuffix("_total"), about, kind)
    for sample in samples:
        metric.add_sample(name + sample.suffix, sample.labels, sample.value)
    return metric


_TRAFFIC = (
    ("MessagesInPerSec", "messages_in", "Records appended."),
    ("BytesInPerSec", "bytes_in", "Bytes of batches received from producers, as sent."),
    ("BytesOutPerSec", "bytes_out", "Bytes of batches sent to consumers."),
    ("TotalProduceRequestsPerSec", "produce_requests", "Appends to partitions."),
    ("TotalFetchRequestsPerSec", "fetch_requests", "Reads of partitions."),
)


def _traffic(metrics: Metrics) -> "Iterator[Metric]":
    total = metrics.total()
    for name, attribute, about in _TRAFFIC:
        samples = [_Sample(getattr(total, attribute), {})]
        samples += [_Sample(getattr(counted, attribute), {"topic": topic}) for topic, counted in metrics.topics.items()]
        yield _metric(f"kafka.server:type=BrokerTopicMetrics,name={name}", about, samples)


def _requests(metrics: Metrics) -> "Iterator[Metric]":
    by_name = {API_NAMES.get(api_key, str(api_key)): counted for api_key, counted in metrics.requests.items()}
    yield _metric(
        "kafka.network:type=RequestMetrics,name=RequestsPerSec",
        "Requests answered.",
        [_Sample(counted.count, {"request": name}) for name, counted in by_name.items()],
    )
    yield _metric(
        "kafka.network:type=RequestMetrics,name=ErrorsPerSec",
        "Requests that were answered with an error as a whole.",
        [
            _Sample(count, {"request": name, "error": error})
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
        yield _Sample(below, {"request": name, "le": repr(2**bucket / 1000)}, "_bucket")
    yield _Sample(counted.count, {"request": name, "le": "+Inf"}, "_bucket")
    yield _Sample(counted.count, {"request": name}, "_count")
    yield _Sample(counted.seconds * 1000, {"request": name}, "_sum")


def _logs(broker: "Broker") -> "Iterator[Metric]":
    logs = [
        (log, {"topic": name, "partition": str(number)}) for (name, number), log in sorted(broker.logs.logs.items())
    ]
    for name, about, values in (
        ("Size", "Bytes of the log's segments.", [log.size_bytes for log, _ in logs]),
        ("LogStartOffset", "The first offset that readers may have.", [log.log_start_offset for log, _ in logs]),
        ("LogEndOffset", "The offset of the next record.", [log.log_end_offset for log, _ in logs]),
        ("NumLogSegments", "Segments of the log.", [len(log.segments) for log, _ in logs]),
    ):
        yield _metric(f"kafka.log:type=Log,name={name}", about, map(_Sample, values, (labels for _, labels in logs)))


def _cleaner(broker: "Broker") -> "Iterator[Metric]":
    """As they are now; in Apache Kafka most are as the cleaner found them when it last looked."""
    cleaner = broker.cleaner
    passes, standing = cleaner.schedule.last_passes, cleaner.standing()
    directory = {"logDirectory": broker.log_dir}
    for mbean, about, value, labels in (
        (
            "type=LogCleaner,name=max-compaction-delay-secs",
            "For how long the record that waits longest has waited for compaction beyond max.compaction.lag.ms.",
            standing.max_compaction_delay_secs,
            {},
        ),
        (
            "type=LogCleaner,name=max-buffer-utilization-percent",
            "How full the map of keys was, in the last pass of each thread.",
            passes.max_buffer_utilization_percent,
            {},
        ),
        (
            "type=LogCleaner,name=cleaner-recopy-percent",
            "Of the bytes that these passes have read, those they wrote again.",
            passes.recopy_percent,
            {},
        ),
        (
            "type=LogCleaner,name=max-clean-time-secs",
            "How long the longest of them took.",
            passes.max_clean_time_secs,
            {},
        ),
        (
            "type=LogCleaner,name=DeadThreadCount",
            "Threads of the cleaner that an error has ended; they begin again with its next look.",
            cleaner.dead_threads,
            {},
        ),
        (
            "type=LogCleanerManager,name=max-dirty-percent",
            "The share of the dirtiest log that is not cleaned.",
            standing.max_dirty_percent,
            {},
        ),
        (
            "type=LogCleanerManager,name=uncleanable-partitions-count",
            "Partitions whose cleaning has failed; they are left alone until the broker starts again.",
            standing.uncleanable_partitions,
            directory,
        ),
        (
            "type=LogCleanerManager,name=uncleanable-bytes",
            "Bytes of them that could be cleaned.",
            standing.uncleanable_bytes,
            directory,
        ),
        (
            "type=LogCleanerManager,name=time-since-last-run-ms",
            "Since the cleaner last looked for something to clean: when something had changed, or fell due.",
            broker.clock.now_ms() - cleaner.last_look_ms,
            {},
        ),
    ):
        yield _metric(f"kafka.log:{mbean}", about, [_Sample(value, labels)])


_GROUPS = (
    (GroupState.PREPARING_REBALANCE, "Groups whose members are joining."),
    (GroupState.COMPLETING_REBALANCE, "Groups that wait for their leader's assignment."),
    (GroupState.STABLE, "Groups whose members have their assignment."),
    (GroupState.DEAD, "Groups that are being removed."),
    (GroupState.EMPTY, "Groups without members."),
)


def _groups(broker: "Broker") -> "Iterator[Metric]":
    groups = broker.groups.groups.values()
    states = Counter(group.state for group in groups)
    manager = "kafka.coordinator.group:type=GroupMetadataManager"
    yield _metric(f"{manager},name=NumGroups", "Groups that this broker coordinates.", [_Sample(len(groups), {})])
    for state, about in _GROUPS:
        yield _metric(f"{manager},name=NumGroups{state.value}", about, [_Sample(states[state], {})])
    offsets = sum(len(group.offsets) for group in groups)
    yield _metric(f"{manager},name=NumOffsets", "Committed offsets of these groups.", [_Sample(offsets, {})])
    yield _metric(
        "kafka.server:type=group-coordinator-metrics,name=group-completed-rebalance-count",
        "Generations that got their assignment.",
        [_Sample(broker.groups.completed_rebalances, {})],
    )


_LATE_BY_MS = 300_000
"""A transaction in a log is late so long after the longest time-out there may be: nobody is going to end it."""


def _transactions(broker: "Broker") -> "Iterator[Metric]":
    now_ms, liveness_ms = broker.clock.now_ms(), broker.clock.liveness_ms()
    late_before_ms = now_ms - broker.config.transaction_max_timeout_ms - _LATE_BY_MS
    late = sum(log.producers.has_transaction_since(late_before_ms) for log in broker.logs.logs.values())
    began = [transaction.began_ms for transaction in broker.transactions.open_transactions()]
    for mbean, about, value in (
        ("kafka.server:type=ReplicaManager,name=PartitionsWithLateTransactionsCount", "Some hang.", late),
        (
            "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name=UnknownDestinationQueueSize",
            "Decided transactions whose markers wait.",
            len(broker.transactions.markers),
        ),
        ("kmini:type=transactions,name=transactional_ids", "Coordinated here.", len(broker.transactions.transactions)),
        ("kmini:type=transactions,name=open", "Begun, and neither committed nor aborted.", len(began)),
        (
            "kmini:type=transactions,name=oldest_open_seconds",
            "How long the oldest of them has been open.",
            (liveness_ms - min(began, default=liveness_ms)) / 1000,
        ),
    ):
        yield _metric(mbean, about, [_Sample(value, {})])


def _broker_state(broker: "Broker") -> "Iterator[Metric]":
    topics = broker.controller.topics.values()
    partitions = [state for topic in topics for state in topic.partitions]
    for mbean, about, value in (
        ("kafka.controller:type=KafkaController,name=GlobalTopicCount", "Topics of the cluster.", len(topics)),
        ("kafka.controller:type=KafkaController,name=GlobalPartitionCount", "Their partitions.", len(partitions)),
        (
            "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize",
            "Requests that wait for something.",
            len(broker.purgatory),
        ),
        (
            "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions",
            "Fetch sessions.",
            len(broker.fetch_sessions),
        ),
        (
            "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchPartitionsCached",
            "Partitions that they remember.",
            broker.fetch_sessions.partition_count,
        ),
        (
            "kafka.server:type=FetchSessionCache,name=IncrementalFetchSessionEvictionsPerSec",
            "Sessions pushed out for others.",
            broker.fetch_sessions.evictions,
        ),
        ("kmini:name=uptime_seconds", "Seconds since the broker was made.", time.monotonic() - broker.metrics.started),
    ):
        yield _metric(mbean, about, [_Sample(value, {})])
    yield _metric("kafka.server:type=socket-server-metrics,name=connection-count", "Connections.", _connections(broker))


def _connections(broker: "Broker") -> Sequence[_Sample]:
    names = [connection.listener.name for connection in broker.server.connections]
    return [_Sample(names.count(listener.name), {"listener": listener.name}) for listener in broker.server.listeners]
