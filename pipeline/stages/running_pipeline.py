"""Run a pipeline: topics, session, checkpoints, queries, purges; and stop it in order.

At the start, topics are looked up or created, every DataFrame is built, and checkpoints are locked and compared with
the cluster. Records that an earlier run committed and did not purge are purged. Only then the queries start.

At the end, for any reason, stages stop upstream first, so that no stage writes to a topic whose reader is gone. Then a
last purge deletes what is committed by then.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..admin import Admin, AdminError, TopicDescription
from ..schema_registry import RegistryError, SchemaRegistry
from .avro_values import NEWER_SCHEMA, AvroValues, asked_again, avro_values
from .checkpoint_files import checkpoint_files, read_identity, write_identity
from .checkpoint_lock import CheckpointInUseError, CheckpointLease, CheckpointLock, lock_checkpoint
from .declaration import Avro, Batches, DeadLetterStage, Files, PipelineDeclaration, SchemaError, Stage
from .declared_topics import TopicRefusedError, prepare_topics
from .durable import stage_sync
from .pipeline_progress import LateRows, Progress, StageProgress, Watcher, stage_progress, topic_progress
from .purge import GroupConsumer, Purger, PurgeThread, StageConsumer, TopicConsumer, TopicPurge
from .spark_checkpoint import CheckpointError, CheckpointFiles, read_planned, read_processed
from .topic_frames import for_sink, from_topic
from .topic_owner import Owner, TopicOwnedError, TopicOwnership
from .topic_schemas import dead_letters, decoded, encoded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("kmini.pipeline")

CHECK_EVERY_S = 0.2
"""Seconds between checks whether a stage has ended or failed."""
CHECK_ROOM_EVERY_S = 0.1
"""Seconds between checks whether a topic has room for a batch."""
REPORT_EVERY_S = 1.0
"""Seconds between two calls of a watcher."""
LIMITS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger")
"""Options of Spark's Kafka source that limit a micro-batch."""
FINISH_BATCHES_S = 10.0
"""Seconds that stopped stages may take to finish their micro-batches; a batch that is cut off runs again later."""
END_STAGES_S = 10.0
"""Seconds after that in which Spark may end the stages. One whose brokers do not answer takes a minute to close its
client. It processes nothing more, and is left behind."""
LAST_PURGE_S = 10.0
"""Seconds that the last purge may take. What it leaves, the next run purges first."""


REFUSALS = (AdminError, CheckpointInUseError, CheckpointError, RegistryError, TopicOwnedError, TopicRefusedError)
"""Errors that a start tells in one sentence."""


class PipelineError(Exception):
    """A pipeline could not start, or a stage of it failed; the message is one line and names stage and topic."""


class StoppedAtStart(Exception):
    """The pipeline was to stop before all its stages had started."""


class StoppedBeforeWriteError(Exception):
    """A stage was to stop while its batch waited for room in its topic. The batch comes again."""


class SinkError(Exception):
    """A batch could not be written to its topic."""


class Running:
    """A running pipeline, made by `Pipeline.start`. Raises `PipelineError` if it cannot start.

    One thread at a time may use it.
    """

    def __init__(
        self,
        pipeline: PipelineDeclaration,
        *,
        available_now: bool = False,
        apply: bool = False,
        take_over: bool = False,
        spark: SparkSession | None = None,
        stop: threading.Event | None = None,
        when_spark_runs: Callable[[], None] = lambda: None,
    ) -> None:
        """`stop` ends the start: it raises StoppedAtStart between two steps, of which the session of Spark takes
        seconds. `when_spark_runs` is called with that session there. The rest is said in `Pipeline.run`."""
        self.pipeline = pipeline
        self._stop_start = stop or threading.Event()
        self._available_now = available_now
        self._stages = pipeline.in_order()
        self._queries: dict[str, StreamingQuery] = {}
        self._waiting = [*self._stages]
        """Stages that have not started for good. With `available_now` a stage does when those before it have ended."""
        self._late_rows = {stage.name: LateRows() for stage in self._stages}
        self._stops_writing = threading.Event()
        self._locks: list[CheckpointLock | CheckpointLease] = []
        self._thread: PurgeThread | None = None
        self._purger: Purger | None = None
        self._has_failed_to_report = False
        self._avro: dict[str, AvroValues] = {}
        """What the registry has of each topic with Avro values."""
        try:
            self._admin = admin = Admin(pipeline.kafka)
            cluster_id = admin.cluster_id()
            topics = prepare_topics(pipeline, admin, apply=apply)
            self._avro |= {n: self._avro_of(n) for n in topics if isinstance(pipeline.topic(n).schema, Avro)}
            self._check_stop()
            self._spark = _session(pipeline, spark, needs_avro=bool(self._avro))
            when_spark_runs()
            self._frames = {stage.name: self._frame(stage) for stage in self._stages}
            files = {stage.name: self._checkpoint(stage) for stage in self._stages}
            owner = self._identify(files, cluster_id, topics)
            purges = topic_purges(pipeline, admin, topics, files)
            ownership = TopicOwnership(admin, owner, [purge.topic for purge in purges])
            ownership.claim(takes_over=take_over)
            self._purger = Purger(admin, purges, ownership=ownership)
            self._purger.purge(at_once=True)
            self._thread = PurgeThread(self._purger, interval_s=pipeline.purge_interval_ms / 1000)
            self._check_stop()
            self._thread.start()
            self._start_ready()
            self._check_stop()
        except REFUSALS as error:
            self.stop()
            raise PipelineError(f"pipeline {pipeline.name!r}: {error}") from error
        except StoppedAtStart:
            self.stop(finishes_batches=False)
            raise
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait(self, stop: threading.Event | None = None, watcher: Watcher | None = None) -> None:
        """Return when `stop` is set or every stage has ended; stop the stages. Raises `PipelineError` if one failed."""
        stop = stop or threading.Event()
        report_at = 0.0
        try:
            while not stop.wait(CHECK_EVERY_S) and not self.is_through():
                if watcher is not None and time.monotonic() >= report_at:
                    self._report(watcher)
                    report_at = time.monotonic() + REPORT_EVERY_S
            self.check()
        finally:
            self.stop()
        if watcher is not None:
            self._report(watcher)

    def _report(self, watcher: Watcher) -> None:
        """Call a watcher. The stages go on whatever goes wrong in it: the first failure is logged."""
        try:
            watcher(self.progress())
        except Exception:
            if not self._has_failed_to_report:
                log.exception("the progress of pipeline %r cannot be shown; its stages go on", self.pipeline.name)
            self._has_failed_to_report = True

    def is_through(self) -> bool:
        """Whether every stage has ended; starts the stages that are ready. Raises `PipelineError` if one failed."""
        self.check()
        self._start_ready()
        return not self._waiting and not any(query.isActive for query in self._queries.values())

    def check(self) -> None:
        """Raise `PipelineError` for the first stage that failed, or whose checkpoint another query has taken."""
        for stage, lock in zip(self._stages, self._locks, strict=False):
            if lock.is_lost:
                location = self.pipeline.checkpoint_of(stage)
                raise PipelineError(f"{stage} failed: another query has taken its checkpoint {location}")
        for stage in self._stages:
            query = self._queries.get(stage.name)
            if query is not None and not query.isActive and (error := query.exception()) is not None:
                told = reason(str(error))
                if NEWER_SCHEMA in told and not self._stops_writing.is_set():
                    log.info("%s begins again, because the record at %s", stage, told)
                    self._begin_with_newer_schemas(stage)
                    continue
                log.error("%s failed:\n%s", stage, error)
                raise PipelineError(f"{stage} failed: {told}") from None

    def progress(self) -> Progress:
        stages: list[StageProgress] = []
        for stage in self._stages:
            query = self._queries.get(stage.name)
            error = query.exception() if query is not None and not query.isActive else None
            has_failed = error is not None and StoppedBeforeWriteError.__name__ not in str(error)
            state = "failed" if has_failed else ""
            stages.append(stage_progress(stage.name, query, state, self._late_rows[stage.name]))
        topics = [topic_progress(topic) for topic in (self._purger.topics if self._purger else ())]
        return Progress(self.pipeline.name, stages, topics)

    def purge_now(self) -> int:
        """Purge what is committed by now, without waiting for the purge thread; return the number of partitions."""
        return self._purger.purge(at_once=True) if self._purger else 0

    def stop(self, *, finishes_batches: bool = True) -> None:
        """Stop the stages, upstream first, purge what they committed, and release the checkpoints, in about half a
        minute at most. With `finishes_batches` the stages have `FINISH_BATCHES_S` for the micro-batches in progress. A
        second call does nothing."""
        self._waiting = []
        self._stops_writing.set()
        finished_by = time.monotonic() + (FINISH_BATCHES_S if finishes_batches else 0)
        for stage in self._stages:
            query = self._queries.get(stage.name)
            if query is not None and query.isActive:
                _let_it_finish(query, finished_by)
                _end(stage, query, finished_by + END_STAGES_S)
        if self._thread is not None:
            self._thread.stop(within_s=LAST_PURGE_S)
            self._thread = None
        locks, self._locks = self._locks, []
        for lock in locks:
            lock.release()

    # --- starting

    def _check_stop(self) -> None:
        if self._stop_start.is_set():
            raise StoppedAtStart

    def _start_ready(self) -> None:
        """Start the stages that are ready: all of them; with `available_now`, those whose upstream stages have ended.

        With `available_now` a stage that reads a purged topic follows the stage that writes it: it runs as long as that
        one does, and once more when that one has ended. Otherwise a whole backlog would lie in the topic at a time.
        """
        for stage in [*self._waiting]:
            query = self._queries.get(stage.name)
            before = [one for one in self._stages if one.topic_written in stage.topics_read]
            if not self._available_now:
                self._queries[stage.name] = self._begin(stage)
            elif any(one in self._waiting or self._queries[one.name].isActive for one in before):
                if query is None and any(self._is_limited(topic) for topic in stage.topics_read):
                    self._queries[stage.name] = self._begin(stage)
                continue
            elif query is not None and query.isActive and _is_busy(query):
                continue
            else:
                if query is not None:
                    query.stop()
                self._queries[stage.name] = self._begin(stage, available_now=True)
            self._waiting.remove(stage)

    def _frame(self, stage: Stage) -> DataFrame:
        """The DataFrame that a stage's function returns for the stage's sources."""
        self._check_stop()
        frames: list[DataFrame] = []
        frame: DataFrame
        for source in stage.sources:
            if isinstance(source, str):
                options = self.pipeline.kafka.spark_options() | dict(stage.source_options)
                limit = self.pipeline.max_offsets_per_trigger
                if limit is not None and all(stage.source_option(name) is None for name in LIMITS):
                    options["maxOffsetsPerTrigger"] = str(limit)
                frame = from_topic(self._spark, source, options, is_ours=self.pipeline.is_between(source))
                frames.append(self._values(stage, source, frame))
            else:
                frames.append(_guarded(stage, lambda source=source: source(self._spark)))  # type: ignore[misc]
        frame = _guarded(stage, lambda: stage.function(*frames))
        if not getattr(frame, "isStreaming", False):
            kind = "a DataFrame that does not stream" if hasattr(frame, "isStreaming") else f"{type(frame).__name__}"
            raise PipelineError(f"{stage} failed: its function returned {kind}")
        if stage.topic_written is None:
            return frame
        topic = self.pipeline.topic(stage.topic_written)
        try:
            return for_sink(frame if topic.schema is None else encoded(frame, topic, self._avro.get(topic.name)))
        except (SchemaError, ValueError) as error:
            raise PipelineError(f"{stage} failed: {error}") from None

    def _values(self, stage: Stage, source: str, frame: DataFrame) -> DataFrame:
        """The records of a topic with values as its schema says. Raises `PipelineError` for a schema that is none."""
        topic = self.pipeline.topic(source)
        if topic.schema is None:
            return frame
        try:
            read = dead_letters if isinstance(stage, DeadLetterStage) else decoded
            return read(frame, topic, self._avro.get(source))
        except SchemaError as error:
            raise PipelineError(f"{stage} failed: {error}") from None

    def _avro_of(self, topic: str) -> AvroValues:
        """What the registry has now. Values of a running pipeline are read as before. Raises `AdminError` and
        `RegistryError`."""
        described = self._admin.describe([topic])[topic]
        if described is None:
            raise AdminError("UNKNOWN_TOPIC_OR_PARTITION", "it is gone", f"topic {topic}")
        ends = self._admin.end_offsets(topic, len(described.partitions))  # before the registry is asked
        registry = SchemaRegistry(self.pipeline.kafka.settings)
        if topic in self._avro:
            return asked_again(self._avro[topic], registry, ends)
        is_written = any(stage.topic_written == topic for stage in self._stages)
        return avro_values(self.pipeline.topic(topic), registry, ends, is_written=is_written)

    def _begin_with_newer_schemas(self, stage: Stage) -> None:
        try:
            self._avro |= {name: self._avro_of(name) for name in stage.topics_read if name in self._avro}
        except (AdminError, RegistryError) as error:
            raise PipelineError(f"{stage} failed: {error}") from None
        self._frames[stage.name] = self._frame(stage)
        available_now = self._available_now and stage not in self._waiting
        self._queries[stage.name] = self._begin(stage, available_now=available_now)

    def _checkpoint(self, stage: Stage) -> CheckpointFiles:
        """Lock a stage's checkpoint."""
        self._check_stop()
        location = self.pipeline.checkpoint_of(stage)
        self._locks.append(lock_checkpoint(self._spark, location))
        return checkpoint_files(self._spark, location)

    def _identify(
        self, files: Mapping[str, CheckpointFiles], cluster_id: str, topics: Mapping[str, TopicDescription]
    ) -> Owner:
        """Write into each checkpoint the ids of its cluster, topics and pipeline; return the pipeline as an owner of
        topics. Raises `PipelineError` if the offsets of a checkpoint belong to other topics."""
        pipeline = self.pipeline
        owner = owner_of(pipeline, files.values())
        read = {stage.name: {name: str(topics[name].topic_id) for name in stage.topics_read} for stage in self._stages}
        for stage in self._stages:
            read_processed(files[stage.name])  # a format that purges could not read is refused here
            check_identity(stage, files[stage.name], cluster_id, read[stage.name])
        for stage in self._stages:
            if isinstance(stage, DeadLetterStage):
                self._check_schema(stage, files)
        for stage in self._stages:
            identity: dict[str, Any] = {
                "cluster_id": cluster_id,
                "topic_ids": read[stage.name],
                "pipeline_id": owner.id,
            }
            if isinstance(stage, DeadLetterStage):
                identity["schema"] = self._schema_of(stage.topics_read[0])
            write_identity(files[stage.name], identity)
        return owner

    def _schema_of(self, topic: str) -> str:
        """The schema that values of a topic are read as."""
        return self._avro[topic].reader if topic in self._avro else str(self.pipeline.topic(topic).schema)

    def _check_schema(self, stage: DeadLetterStage, files: Mapping[str, CheckpointFiles]) -> None:
        """Raise `PipelineError` if the schema of a topic with dead letters is another one than before, and its readers
        have not processed the same records: a record that the former schema refuses and the new one takes would be left
        out by one stage and written by none."""
        (topic,) = stage.topics_read
        former, schema = read_identity(files[stage.name]).get("schema"), self._schema_of(topic)
        readers = self.pipeline.readers(topic)
        processed = [StageConsumer(reader.name, files[reader.name]).processed(topic) for reader in readers]
        if former not in (None, schema) and any(one != processed[0] for one in processed):
            names = ", ".join(reader.name for reader in readers)
            raise PipelineError(
                f"topic {topic!r} has schema {schema!r}, and its stages ({names}) are at different records "
                f"with {former!r}: run the pipeline with that one and --available-now, then change it"
            )

    def _is_limited(self, topic: str) -> bool:
        """Whether the stage that writes a topic waits while that holds too many records."""
        return (
            self.pipeline.max_offsets_per_trigger is not None
            and self.pipeline.is_between(topic)
            and any(purged.name == topic for purged in self.pipeline.purged_topics())
        )

    def _begin(self, stage: Stage, *, available_now: bool = False) -> StreamingQuery:
        # Stages share Spark's scheduler by pools: a slow one does not keep the others waiting.
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", stage.name)
        try:
            return self._begin_in_pool(stage, available_now=available_now)
        finally:
            self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", None)  # type: ignore[arg-type]

    def _begin_in_pool(self, stage: Stage, *, available_now: bool) -> StreamingQuery:
        writer = self._frames[stage.name].writeStream.queryName(stage.name).outputMode(stage.output_mode)
        interval_ms = stage.trigger_interval_ms
        interval_ms = self.pipeline.trigger_interval_ms if interval_ms is None else interval_ms
        if available_now:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{interval_ms} milliseconds")
        writer = writer.option("checkpointLocation", self.pipeline.checkpoint_of(stage))
        if isinstance(stage.writes, Files):
            writer = writer.format(stage.writes.format).option("path", self.pipeline.located(stage.writes.path))
            if stage.writes.partition_by:
                writer = writer.partitionBy(*stage.writes.partition_by)
        elif isinstance(stage.writes, Batches):
            writer = writer.foreachBatch(stage.writes.function)
        elif self._is_limited(stage.writes):
            writer = writer.foreachBatch(self._write_when_there_is_room(stage, stage.writes))
        else:
            writer = writer.format("kafka").options(**self._topic_options(stage))
        query: StreamingQuery = _guarded(stage, writer.options(**stage.sink_options).start)
        return query

    def _topic_options(self, stage: Stage) -> dict[str, str]:
        return {**self.pipeline.kafka.spark_options(), "topic": str(stage.topic_written), **stage.sink_options}

    def _write_when_there_is_room(self, stage: Stage, topic: str) -> Callable[[DataFrame, int], None]:
        """A sink that writes a batch once the topic has room for it. A batch waits before it is written, so one that is
        cut off then comes again and is written once."""
        options = self._topic_options(stage)
        # A reader that waits for more records than that would wait for ever.
        limit = max(self.pipeline.max_offsets_per_trigger or 0, *map(_least_records, self.pipeline.readers(topic)))

        def write(batch: DataFrame, batch_id: int) -> None:
            while self._purger is not None and not self._purger.has_room(topic, limit):
                if self._stops_writing.wait(CHECK_ROOM_EVERY_S):
                    raise StoppedBeforeWriteError(f"batch {batch_id} of {stage}")
            try:
                batch.write.format("kafka").options(**options).save()
            except Exception as error:
                raise SinkError(f"{reason(str(error))}\n{error}") from None

        return write


def _session(pipeline: PipelineDeclaration, spark: SparkSession | None, *, needs_avro: bool) -> SparkSession:
    """The given session, or one that is started."""
    from ..session import SparkUnavailableError, require_avro, spark_session

    settings = {
        "spark.log.level": "ERROR",
        "spark.scheduler.mode": "FAIR",
        "spark.sql.streaming.metricsEnabled": "true",
        **pipeline.spark_settings,
    }
    try:
        if spark is None:
            return spark_session(pipeline.name, settings=settings, needs_avro=needs_avro)
        if needs_avro:
            require_avro(spark)
        return spark
    except SparkUnavailableError as error:
        raise PipelineError(str(error)) from error


def owner_of(pipeline: PipelineDeclaration, files: Iterable[CheckpointFiles]) -> Owner:
    """A pipeline as an owner of topics, with the id that its checkpoints have."""
    ids = (str(read_identity(one).get("pipeline_id", "")) for one in files)
    return Owner.of(pipeline.name, pipeline.located(pipeline.checkpoints), filter(None, ids))


def topic_purges(
    pipeline: PipelineDeclaration,
    admin: Admin,
    topics: Mapping[str, TopicDescription],
    files: Mapping[str, CheckpointFiles],
) -> list[TopicPurge]:
    """The purged topics among `topics`, each with the consumers whose offsets limit the purge."""
    stages = {
        stage.name: StageConsumer(
            stage.name,
            files[stage.name],
            stage_sync(
                stage,
                pipeline.checkpoint_of(stage),
                pipeline.located(stage.writes.path) if isinstance(stage.writes, Files) else None,
            ),
        )
        for stage in pipeline.stages
    }
    purges = []
    for topic in pipeline.purged_topics():
        if topic.name not in topics:
            continue
        partitions = topics[topic.name].partitions
        consumers: list[TopicConsumer] = [stages[stage.name] for stage in pipeline.readers(topic.name)]
        consumers += [GroupConsumer(group, partitions, admin) for group in topic.consumer_groups]
        starts = admin.start_offsets(topic.name, len(partitions))
        purges.append(TopicPurge(topic.name, partitions, consumers, starts))
    return purges


def check_identity(stage: Stage, files: CheckpointFiles, cluster_id: str, topic_ids: Mapping[str, str]) -> None:
    """Raise `PipelineError` if the checkpoint's offsets belong to other records, which would be skipped or purged.

    `topic_ids` are the ids of the topics that the stage reads. Raises `CheckpointError` too.
    """
    planned = read_planned(files)
    if planned is None:
        return
    read = {topic for topic, _ in planned.offsets}
    remedy = "a new checkpoint begins with the records that are there"
    if other := read - topic_ids.keys():
        reads = ", ".join(sorted(other))
        raise PipelineError(f"{stage}: checkpoint {files} is that of a query that reads {reads}; {remedy}")
    known = read_identity(files)
    if known and known.get("cluster_id") != cluster_id:
        raise PipelineError(
            f"{stage}: checkpoint {files} is about topics of cluster {known.get('cluster_id')}; {remedy}"
        )
    for name, topic_id in topic_ids.items():
        former = known.get("topic_ids", {}).get(name)
        if former is not None and former != topic_id:
            raise PipelineError(
                f"{stage}: topic {name!r} was deleted and made anew since checkpoint {files} was written; {remedy}"
            )


def _guarded(stage: Stage, work: Callable[[], Any]) -> Any:
    """Call `work`; raise `PipelineError` for any exception."""
    try:
        return work()
    except Exception as error:
        raise PipelineError(f"{stage} failed: {reason(f'{type(error).__name__}: {error}')}") from error


def _least_records(stage: Stage) -> int:
    """The records that a stage waits for before it begins a micro-batch."""
    return int(stage.source_option("minOffsetsPerTrigger") or 0)


def _is_busy(query: StreamingQuery) -> bool:
    """Whether a micro-batch runs, or would now."""
    status = query.status
    return bool(status["isTriggerActive"] or status["isDataAvailable"])


def _let_it_finish(query: StreamingQuery, deadline: float) -> None:
    """Return between two micro-batches, or at the deadline, in the time of `time.monotonic`."""
    first = query.lastProgress
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        last = query.lastProgress
        if last is not None and (first is None or last["batchId"] != first["batchId"]):
            return
        time.sleep(0.02)


def _end(stage: Stage, query: StreamingQuery, deadline: float) -> None:
    """Stop a query. Return when it has ended, or at the deadline, in the time of `time.monotonic`."""

    def stop() -> None:
        try:
            query.stop()
        except Exception as error:
            log.warning("%s was not stopped: %s", stage, reason(str(error)))

    ending = threading.Thread(target=stop, name="kmini-stop", daemon=True)
    ending.start()
    ending.join(max(deadline - time.monotonic(), 0))
    if ending.is_alive():
        log.warning("%s is left behind: Spark did not end it within %g s", stage, END_STAGES_S)


PYTHON_ERROR = re.compile(r"^((?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt)\b.*)$", re.MULTILINE)


def reason(text: str) -> str:
    """The line of Spark's error text that states the cause."""
    text = text.split("=== Streaming Query ===")[0].split("Driver stacktrace:")[0]
    if told := re.search(r"\[USER_RAISED_EXCEPTION\] ([^\n]*?)(?: SQLSTATE: |\n|$)", text):
        return _one_line(told[1])
    if "Traceback (most recent call last)" in text:
        # The last traceback is the innermost; the line after its frames names the exception.
        raised = PYTHON_ERROR.findall(text.rsplit("Traceback (most recent call last)", 1)[1])
        if raised:
            return _one_line(raised[0].rpartition(f"{SinkError.__name__}: ")[2])
    if "Some data may have been lost" in text:
        found = re.search(r"Reason: ([^\n]*(?:\n[^\n]*)?)", text)
        return _one_line("records that were not processed yet are gone. " + (found[1] if found else text))
    text = re.sub(r"^Query \[[^]]*\] terminated with exception: ", "", text.removeprefix("[STREAM_FAILED] "))
    text = re.sub(r"^An error occurred while calling \S+\n: ", "", text)
    return _one_line(next((line for line in text.splitlines() if line.strip()), "no reason given"))


def _one_line(text: str) -> str:
    return " ".join(text.split())[:500]
