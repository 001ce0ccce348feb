"""Replay an archive into a topic: the same partitions, keys, values, headers, timestamps, tombstones, in the same
order.

    from kmini.pipeline.clients import Kafka
    from kmini.pipeline.session import spark_session

    print(replay_topic(spark_session(), "backup", "orders", Kafka("localhost:9092"), to="orders-again"))

The topic is created with its archived settings, except those in `HELD`, which would refuse or remove old records or
change their timestamps; they are set when all records are written. One task for each partition writes with an
idempotent producer, in the order of offsets. `partition_replay.py` has the rule by which a second run continues a
killed one without duplicates. docs/archive.md lists what is reproduced.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from py4j.protocol import Py4JJavaError

from ...storage.config_key import OWN_PREFIX
from ..clients import Kafka
from .archive_files import BROKER_SETTINGS, HELD, Description, Row, archived_parts, get_description
from .cluster_topics import Topic, Topics
from .partition_replay import Conversion, KafkaPartition, Outcome, Plan, ReplayError, replay_partition, run_plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NULL_REFUSE = "kmini.tombstone.null.refuse"
FLAG = "kmini.tombstone.flag.enable"

DEFAULT_MAX_MESSAGE_BYTES = 1_048_588
MAX_BATCH_BYTES = 1_000_000


class Replayed(NamedTuple):
    """The result of a replay."""

    topic: str
    partitions: int
    found: int
    """Records that an earlier run had written."""
    written: int
    notes: tuple[str, ...]
    """Differences from the archived topic, in sentences."""


def replay_topic(
    spark: SparkSession,
    archive: str,
    topic: str,
    kafka: Kafka,
    *,
    to: str | None = None,
    resume: bool = False,
    with_offsets: bool = False,
    null_tombstones: bool = False,
    compression: str = "lz4",
    replication_factor: int = -1,
    stall_ms: int = 60_000,
) -> Replayed:
    """Write the archived records of `topic` to a topic of that name, or `to`.

    The topic is created, with `replication_factor` (-1: the cluster's default). An existing topic must have the same
    number of partitions and never have had a record; its settings stay as they are. With `resume` it may hold the begin
    of this replay, which is then continued.

    `with_offsets` adds the header `kmini.offset`, the original offset in digits. `null_tombstones` gives a null value
    to tombstones with a value (KIP-87), for clusters that do not know them. A partition fails after `stall_ms` without
    an acknowledgement.

    Raises NotAnArchive, ArchiveError and ReplayError; the partitions that did not fail are complete then.
    """
    description = get_description(archive, topic)
    parts = archived_parts(archive, description)
    conversion = Conversion(with_offsets, null_tombstones)
    target = _Target(Topics(kafka), to or topic, description, resume)
    target.prepare(replication_factor)
    plans = [
        Plan(
            to or topic,
            partition,
            tuple(found),
            conversion,
            kafka.admin_config(),
            compression,
            _batch_bytes(description),
            stall_ms,
        )
        for partition, found in parts.items()
    ]
    outcomes = _write(spark, plans, kafka)
    if failed := [outcome for outcome in outcomes if outcome.problem is not None]:
        raise ReplayError("; ".join(f"{to or topic}-{outcome.partition}: {outcome.problem}" for outcome in failed[:3]))
    notes = (*target.finish(), *_notes(outcomes, target.has_flag, null_tombstones))
    found, written = (sum(getattr(outcome, name) for outcome in outcomes) for name in ("found", "written"))
    return Replayed(to or topic, description.partitions, found, written, notes)


def _write(spark: SparkSession, plans: list[Plan], kafka: Kafka) -> list[Outcome]:
    """Write all partitions, one task for each; the driver writes the records that only Java's producer can write."""
    if spark.conf.get("spark.speculation", "false") == "true":
        raise ReplayError("spark.speculation=true lets two tasks write the same partition: turn it off for a replay")
    if not plans:
        return []
    outcomes = spark.sparkContext.parallelize(plans, len(plans)).map(run_plan).collect()
    ended: list[Outcome] = []
    for plan, outcome in zip(plans, outcomes, strict=True):
        if outcome.needs_exact_writer:
            rest = _write_exactly(spark, plan, kafka)
            outcome = rest._replace(
                found=outcome.found,
                written=outcome.written + rest.written,
                flagged=outcome.flagged + rest.flagged,
                log_append_time=outcome.log_append_time + rest.log_append_time,
            )
        ended.append(outcome)
    return ended


def _write_exactly(spark: SparkSession, plan: Plan, kafka: Kafka) -> Outcome:
    target = KafkaPartition(plan)
    writer = JavaWriter(spark, plan, kafka.settings)
    try:
        return replay_partition(plan, target, writer)
    finally:
        writer.close()
        target.close()


def _batch_bytes(description: Description) -> int:
    """The largest batch: the topic's own limit, although it is lifted during the replay, because readers may rely on
    it."""
    limit = int((description.configs or {}).get("max.message.bytes", DEFAULT_MAX_MESSAGE_BYTES))
    return max(1, min(limit, MAX_BATCH_BYTES))


class _Target:
    """The topic that is written, with its settings before and after."""

    def __init__(self, topics: Topics, name: str, description: Description, resume: bool) -> None:
        self._topics = topics
        self._name = name
        self._description = description
        self._resume = resume
        self._is_held = False
        self._notes: list[str] = []
        self.has_flag = False

    def prepare(self, replication_factor: int) -> None:
        """Create the topic, or check that the existing one can be written to."""
        found = self._topics.find(self._name)
        if found is None:
            self._topics.create(self._name, self._description.partitions, HELD, replication_factor)
            found = self._topics.wait_for(self._name)
            self._is_held = True
            self._set(found, self._settings_while_filled(found))
        else:
            self._check(found)
            self._is_held = HELD.items() <= found.configs.items()
            if self._is_held:
                self._set(found, self._settings_while_filled(found))
            elif found.known.get("message.timestamp.type") == "LogAppendTime":
                raise ReplayError(
                    f"{self._name} has message.timestamp.type=LogAppendTime, which would give all records the time of"
                    " the replay: set it to CreateTime meanwhile, or let the replay create the topic"
                )
        self.has_flag = self._topics.get(self._name).known.get(FLAG) == "true"

    def finish(self) -> tuple[str, ...]:
        """Set the held-back settings of a created topic; return notes on differences."""
        if self._is_held:
            configs = self._description.configs or {}
            last: dict[str, str | None] = {key: configs.get(key) for key in HELD}
            if NULL_REFUSE in configs and self.has_flag:
                last[NULL_REFUSE] = configs[NULL_REFUSE]
            self._note_refused(self._topics.alter(self._name, last))
            if self._description.configs is None:
                self._notes.append("the archive does not know what settings the topic had: it has those of its cluster")
        return tuple(self._notes)

    def _check(self, found: Topic) -> None:
        if found.partitions != self._description.partitions:
            raise ReplayError(
                f"{self._name} has {found.partitions} partition{'s' if found.partitions != 1 else ''}, and the archived"
                f" topic {self._description.partitions}: records would go elsewhere (--topic names another topic)"
            )
        if self._resume:
            return  # the task of each partition checks it
        ends = self._topics.end_offsets(self._name, found.partitions)
        if any(ends.values()):
            raise ReplayError(
                f"{self._name} exists and has had records (partition {min(p for p in ends if ends[p])} ends at offset"
                f" {next(end for _, end in sorted(ends.items()) if end)}): --resume goes on with a replay that was"
                " interrupted, --topic names another topic"
            )

    def _settings_while_filled(self, found: Topic) -> dict[str, str | None]:
        """The archived settings that the topic may have while it is filled."""
        configs = self._description.configs or {}
        kept = {key: value for key, value in configs.items() if key not in (*HELD, *BROKER_SETTINGS, NULL_REFUSE)}
        if int(kept.get("min.insync.replicas", 0)) > found.replication_factor:
            value = kept.pop("min.insync.replicas")
            self._notes.append(
                f"min.insync.replicas={value} was left out: it has {found.replication_factor} replica(s)"
            )
        for key in [key for key in kept if key not in found.known and not key.startswith(OWN_PREFIX)]:
            self._notes.append(f"{key}={kept.pop(key)} was left out: its brokers do not know that setting")
        return {key: value for key, value in kept.items() if found.configs.get(key) != value}

    def _set(self, found: Topic, configs: Mapping[str, str | None]) -> None:
        refused = self._topics.alter(found.name, configs)
        for key in [key for key in refused if key.startswith(OWN_PREFIX)]:
            # This cannot be known before: kmini lists its own settings only where they are set.
            self._notes.append(f"{key}={configs[key]} was left out: {refused.pop(key)}")
        self._note_refused(refused)

    def _note_refused(self, refused: Mapping[str, str]) -> None:
        for key, reason in refused.items():
            self._notes.append(f"{key} could not be set as it was: {reason}")


def _notes(outcomes: list[Outcome], has_flag: bool, null_tombstones: bool) -> list[str]:
    notes = []
    flagged = sum(outcome.flagged for outcome in outcomes)
    if flagged and null_tombstones:
        notes.append(f"{flagged} tombstones that had a value have none now")
    elif flagged and not has_flag:
        notes.append(
            f"{flagged} tombstones with a value (KIP-87) are records with a header here, which delete nothing:"
            " --null-tombstones gives them a null value"
        )
    if appended := sum(outcome.log_append_time for outcome in outcomes):
        notes.append(f"{appended} records keep the time at which they were first appended, now as their CreateTime")
    return notes


# --- the writer in the JVM


class JavaWriter:
    """Writes single records to the partition of a plan, by the rules of partition_replay.py."""

    def __init__(self, spark: SparkSession, plan: Plan, settings: Mapping[str, str]) -> None:
        self._plan = plan
        self._jvm = cast(Any, spark.sparkContext._jvm)
        clients = self._jvm.org.apache.kafka.clients.producer
        properties = self._jvm.java.util.Properties()
        serializer = "org.apache.kafka.common.serialization.ByteArraySerializer"
        config = {
            **settings,
            "bootstrap.servers": plan.librdkafka["bootstrap.servers"],
            "acks": "all",
            "enable.idempotence": "true",
            "key.serializer": serializer,
            "value.serializer": serializer,
            "compression.type": plan.compression,
            "max.request.size": str(2**31 - 1),
            "max.block.ms": str(plan.stall_ms),
            "delivery.timeout.ms": str(max(plan.stall_ms, 30_001)),
            "linger.ms": "0",
        }
        for key, value in config.items():
            properties.setProperty(key, value)
        self._record = clients.ProducerRecord
        self._header = self._jvm.org.apache.kafka.common.header.internals.RecordHeader
        self._producer = clients.KafkaProducer(properties)

    def write(self, row: Row) -> None:
        plan = self._plan
        headers = None
        if row.headers:
            headers = self._jvm.java.util.ArrayList()
            for name, value in row.headers:
                headers.add(self._header(name, value))
        try:
            record = self._record(plan.topic, plan.partition, row.timestamp_ms, row.key, row.value, headers)
            self._producer.send(record).get()
        except Py4JJavaError as error:
            reason = " ".join(str(error.java_exception.getMessage()).split())
            raise ReplayError(f"the record of offset {row.offset} is refused: {reason}") from error

    def close(self) -> None:
        self._producer.close()
