"""Archive topics as Parquet files: all that a consumer sees of a record, and the topic's properties.

    from kmini.pipeline.archives.archive import archive_topic, read_archive
    from kmini.pipeline.clients import Kafka
    from kmini.pipeline.session import spark_session

    spark = spark_session()
    print(archive_topic(spark, "orders", "backup", Kafka("localhost:9092")).new_records)
    read_archive(spark, "backup", "orders").groupBy("partition").count().show()

Spark's Kafka source reads up to the topic's end at the begin of the run, and Spark's file sink writes. Each file counts
exactly once, even if a run is killed: the sink's log lists the files that count, and `read_archive` follows it. The
next run appends new records. `pipeline/archives/archive_files.py` describes the files; docs/archive.md is for users.
"""

from __future__ import annotations

import os
import re
import time
from base64 import b64encode
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import Observation
from pyspark.sql import functions as F

from ..clients import Kafka
from .archive_files import (
    SCHEMA_DDL,
    ArchiveError,
    Description,
    archived_parts,
    check_free,
    checkpoint_folder,
    count_rows,
    counted_files,
    for_spark,
    get_description,
    read_description,
    remove_files,
    topic_folder,
    write_description,
)
from .cluster_topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS_PER_BATCH = 5_000_000
"""Most records that a run reads again after it was killed."""

READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"

_TOO_FAR = "is beyond the year 294246, which Spark does not have"
_SELECTED = (
    "offset",
    "coalesce(unix_millis(timestamp), raise_error('the timestamp of offset ' || offset"
    f" || ' {_TOO_FAR}')) AS timestamp_ms",
    "timestampType AS timestamp_type",
    "key",
    "value",
    "headers",
    "partition",
)


class Archived(NamedTuple):
    """The result of a run for one topic."""

    topic: str
    partitions: int
    new_records: int
    records: int
    """Number of records in the archive."""
    damaged: int = 0
    """Unreadable places in a log directory."""


def archive_topic(
    spark: SparkSession,
    topic: str,
    archive: str,
    kafka: Kafka,
    *,
    isolation_level: str = READ_COMMITTED,
    allow_loss: bool = False,
    codec: str = "zstd",
    records_per_batch: int = RECORDS_PER_BATCH,
) -> Archived:
    """Append the topic's new records to the archive; the first time, all records.

    `codec` is one of Parquet's: none, snappy, gzip, lz4, zstd. If records were deleted before they were archived
    (retention, DeleteRecords), the run fails; with `allow_loss` it continues after them.

    Raises ArchiveError: the topic does not exist, or is another one than was archived, records are lost, the archive is
    of another kind, or Spark fails.
    """
    found = Topics(kafka).get(topic)
    before = read_description(archive, topic)
    description = Description(
        topic,
        found.partitions,
        found.configs,
        found.topic_id,
        "kafka",
        isolation_level,
        before is not None and before.is_complete,
    )
    if before is None:
        check_free(archive, topic)
    else:
        _check_same(before, description)
    old = set(counted_files(archive, topic)) if before else set()
    write_description(archive, description)
    source = _topic_stream(spark, topic, kafka, isolation_level, allow_loss, records_per_batch)
    writer = (
        source.writeStream.format("parquet")
        .queryName(f"archive {topic}")
        .option("compression", codec)
        .option("path", for_spark(topic_folder(archive, topic)))
        .option("checkpointLocation", for_spark(checkpoint_folder(archive, topic)))
        .partitionBy("partition")
        .trigger(availableNow=True)
    )
    try:
        query = writer.start()
        try:
            query.awaitTermination()
        finally:
            query.stop()  # where waiting was interrupted
    except PySparkException as error:
        raise ArchiveError(f"{topic}: {_reason(error, allow_loss)}") from error
    write_description(archive, replace(description, is_complete=True, archived_at_ms=int(time.time() * 1000)))
    counts = {uri: count_rows(uri) for uri in counted_files(archive, topic)}
    new = sum(count for uri, count in counts.items() if uri not in old)
    return Archived(topic, found.partitions, new, sum(counts.values()))


def _topic_stream(
    spark: SparkSession, topic: str, kafka: Kafka, isolation_level: str, allow_loss: bool, records_per_batch: int
) -> DataFrame:
    """The records of a topic as a stream, with the columns of an archive."""
    return (
        spark.readStream.format("kafka")
        .options(**kafka.spark_options())
        .option("kafka.isolation.level", isolation_level)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "false" if allow_loss else "true")
        .option("maxOffsetsPerTrigger", str(records_per_batch))
        .option("groupIdPrefix", "kmini-archive")
        .load()
        .selectExpr(*_SELECTED)
    )


def archive_log_dir(
    spark: SparkSession,
    topic: str,
    archive: str,
    log_dir: str,
    kafka: Kafka | None = None,
    *,
    isolation_level: str = READ_COMMITTED,
    allow_loss: bool = False,
    codec: str = "zstd",
) -> Archived:
    """Archive a topic from the files of a log directory of kmini or Apache Kafka, running or stopped: once and as a
    whole. The executors must see the directory.

    `kafka` gives the topic's settings; without it they are unknown. Damage fails the run; with `allow_loss` it is
    skipped and counted.

    Raises ArchiveError: the directory lacks the topic or some of its partitions, is damaged, or the archive exists.
    """
    folders = _folders(log_dir, topic)
    found = None if kafka is None else Topics(kafka).get(topic)
    partitions = max(folders) + 1 if found is None else found.partitions
    if missing := sorted(set(range(partitions)) - folders.keys()):
        raise ArchiveError(
            f"{topic}: {log_dir} has not its partition{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}:"
            " other brokers have them; give the directory above theirs, or archive from the brokers"
        )
    topic_id = None if not (ids := [one for one in folders.values() if one]) else b64encode(ids[0]).decode().rstrip("=")
    configs = None if found is None else found.configs
    description = Description(topic, partitions, configs, topic_id, "log-dir", isolation_level)
    before = read_description(archive, topic)
    if before is None:
        check_free(archive, topic)
    elif before.is_complete or before.source != description.source:
        raise ArchiveError(
            f"{topic}: {archive} has an archive of it: what comes from a log directory is taken as a whole"
        )
    write_description(archive, description)
    remove_files(archive, topic)
    damage = Observation()
    rows = _log_dir_rows(spark, topic, log_dir, isolation_level, allow_loss, damage)
    try:
        rows.write.mode("append").option("compression", codec).partitionBy("partition").parquet(
            for_spark(topic_folder(archive, topic))
        )
    except PySparkException as error:
        raise ArchiveError(f"{topic}: {_cause(str(error))}") from error
    write_description(archive, replace(description, is_complete=True, archived_at_ms=int(time.time() * 1000)))
    count = sum(count_rows(uri) for uri in counted_files(archive, topic))
    return Archived(topic, partitions, count, count, damage.get["damaged"])


def _log_dir_rows(
    spark: SparkSession, topic: str, log_dir: str, isolation_level: str, allow_loss: bool, damage: Observation
) -> DataFrame:
    """The records of a topic in a log directory, with the columns of an archive. `damage` counts unreadable places."""
    from ..log_source import KminiLogSource

    spark.dataSource.register(KminiLogSource)
    return (
        spark.read.format("kmini-log")
        .option("subscribe", topic)
        .option("includeHeaders", "true")
        .option("isolation.level", isolation_level)
        .option("errors", "report" if allow_loss else "fail")
        .load(os.path.abspath(log_dir))
        .observe(damage, F.count("error").alias("damaged"))
        .where("error IS NULL")
        .selectExpr(*_SELECTED)
    )


def _folders(log_dir: str, topic: str) -> dict[int, bytes | None]:
    """The topic ids of a topic's partitions, by partition."""
    from ..logs.log_dir import LogDir

    try:
        found = LogDir(log_dir).partitions([topic])
    except OSError as error:
        raise ArchiveError(f"{log_dir} cannot be read: {error.strerror or error}") from error
    folders = {folder.partition: folder.topic_id for folder in found if not folder.mark}
    if not folders:
        raise ArchiveError(f"{topic}: there is no such topic in {log_dir}")
    return folders


def _check_same(before: Description, now: Description) -> None:
    """Raise ArchiveError unless the archive was begun with the same topic and options."""
    if before.source != now.source:
        raise ArchiveError(f"{now.topic}: the archive was taken from {_named(before.source)}: take a new one elsewhere")
    if None not in (before.topic_id, now.topic_id) and before.topic_id != now.topic_id:
        raise ArchiveError(
            f"{now.topic}: not the topic that was archived: its id is {now.topic_id}, and was {before.topic_id};"
            " it was created anew, archive it elsewhere"
        )
    if before.isolation_level != now.isolation_level:
        raise ArchiveError(
            f"{now.topic}: the archive was taken with {before.isolation_level}, and can only be continued so"
        )
    if now.partitions < before.partitions:
        raise ArchiveError(
            f"{now.topic}: it has {now.partitions} partitions, and had {before.partitions} when it was archived;"
            " it was created anew, archive it elsewhere"
        )


def _named(source: str) -> str:
    return "a log directory" if source == "log-dir" else "a broker"


def _reason(error: PySparkException, allow_loss: bool) -> str:
    """Spark's error on one line; for lost records, the remedy."""
    text = str(error)
    if not allow_loss and ("failOnDataLoss" in text or "KAFKA_DATA_LOSS" in text):
        return (
            "records were deleted before they were archived (retention, or DeleteRecords);"
            " to go on behind them, allow the loss (--allow-loss)"
        )
    return _cause(text)


def _cause(text: str) -> str:
    """The innermost cause in an error of Spark, Java and Python, on one line."""
    if "java.lang.ArithmeticException: long overflow" in text:
        return f"a timestamp {_TOO_FAR}"
    causes = re.findall(r"(?:^|\s)(?:[\w$]+\.)+[\w$]*(?:Error|Exception): ([^\n]+)", text)
    cause = causes[-1] if causes else text.split("\n\n")[0].split("JVM stacktrace")[0]
    return " ".join(re.sub(r"^\[[A-Z_.]+\] |SQLSTATE: \w+$", "", cause.strip()).split())


# --- reading


def read_archive(spark: SparkSession, archive: str, topic: str) -> DataFrame:
    """Read the archived records of a topic, with the columns and types of Spark's Kafka source, `headers` included:
    code for one works with the other. Raises NotAnArchive."""
    description = get_description(archive, topic)
    uris = [part.uri for parts in archived_parts(archive, description).values() for part in parts]
    rows = spark.createDataFrame([], SCHEMA_DDL)
    if uris:
        reader = spark.read.schema(SCHEMA_DDL).option("basePath", for_spark(topic_folder(archive, topic)))
        rows = reader.parquet(*(for_spark(_no_pattern(uri)) for uri in uris))
    return rows.select(
        "key",
        "value",
        F.lit(topic).alias("topic"),
        "partition",
        "offset",
        F.timestamp_millis("timestamp_ms").alias("timestamp"),
        F.col("timestamp_type").alias("timestampType"),
        "headers",
    )


def _no_pattern(path: str) -> str:
    """Escape a path where Hadoop takes a pattern."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)
