"""A topic as the DataFrame that a stage reads, and a stage's DataFrame as Spark's Kafka sink takes it.

Spark's Kafka source gives key, value, topic, partition, offset, timestamp, timestampType and headers. Its sink takes
key, value, headers and partition, and stamps records with the time of writing. A header carries the timestamp between
two stages, so that event time is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

TIMESTAMP_HEADER = "kmini.timestamp"
"""A record's timestamp in milliseconds, in decimal digits."""

SINK_COLUMNS = ("key", "value", "headers", "partition")
HEADERS = "array<struct<key:string,value:binary>>"


def from_topic(spark: SparkSession, topic: str, options: Mapping[str, str], *, is_ours: bool) -> DataFrame:
    """Read a topic as a stream, with the columns of Spark's Kafka source. For a topic that another stage writes
    (`is_ours`), `timestamp` and `headers` are those of that stage's DataFrame."""
    frame = (
        spark.readStream.format("kafka")
        .options(**{"startingOffsets": "earliest", **options})
        .options(subscribe=topic, includeHeaders="true", failOnDataLoss="true")
        .load()
    )
    if not is_ours:
        return frame
    from pyspark.sql import functions as F

    ours = F.filter("headers", lambda header: header["key"] == TIMESTAMP_HEADER)
    others = F.filter("headers", lambda header: header["key"] != TIMESTAMP_HEADER)
    milliseconds = F.try_element_at(ours, F.lit(1))["value"].cast("string").cast("bigint")
    return frame.withColumn("timestamp", F.coalesce(F.timestamp_millis(milliseconds), F.col("timestamp"))).withColumn(
        "headers", F.when(F.size(others) > 0, others)
    )


def for_sink(frame: DataFrame) -> DataFrame:
    """Select the columns that Spark's Kafka sink takes: key, value, headers and partition; `timestamp` becomes a
    header. Raises ValueError for a frame without `value`.

    The columns `topic` and `offset` belong to the record that was read, and are dropped.
    """
    from pyspark.sql import functions as F

    if "value" not in frame.columns:
        raise ValueError(f"it writes to a topic and has no column 'value' but {', '.join(frame.columns) or 'none'}")
    columns: list[Column] = [F.col(name) for name in SINK_COLUMNS if name in frame.columns and name != "headers"]
    if "timestamp" not in frame.columns:
        return frame.select(*columns, *(["headers"] if "headers" in frame.columns else []))
    milliseconds = F.unix_millis(F.col("timestamp").cast("timestamp"))
    carried = F.array(
        F.struct(F.lit(TIMESTAMP_HEADER).alias("key"), milliseconds.cast("string").cast("binary").alias("value"))
    )
    given = (
        F.coalesce(F.col("headers"), F.array().cast(HEADERS)) if "headers" in frame.columns else F.array().cast(HEADERS)
    )
    return frame.select(*columns, F.concat(given, carried.cast(HEADERS)).alias("headers"))
