"""Raw events → sessions → per-user state, with deletion on request; see README.md beside this file."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kmini.pipeline import Files, Pipeline, Stage, Topic

SESSION_GAP = "30 minutes"
"""Inactivity of a user that ends a session."""
LATEST = "10 minutes"
"""The delay at which an event still counts."""

EVENT = "user string, action string, at timestamp"
SESSION = "session string, user string, began timestamp, ended timestamp, events bigint"
ERASURE = "user string, at timestamp"


def value_as(schema: str) -> Column:
    return F.from_json(F.col("value").cast("string"), schema).alias("it")


def as_value(*names: str) -> Column:
    """Columns as a record's value. Times are text in UTC, down to the millisecond."""
    return (
        F.to_json(F.struct(*names), {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"}).cast("binary").alias("value")
    )


def sessionize(events: DataFrame) -> DataFrame:
    """One record a session, keyed by its user, when no event can belong to it any more."""
    return (
        events.select(value_as(EVENT))
        .select("it.*")
        .withWatermark("at", LATEST)
        .groupBy(F.session_window("at", SESSION_GAP).alias("window"), "user")
        .agg(F.count("*").alias("events"))
        .select(
            # The same session has the same name if it is written again: a repeated session is not counted twice.
            F.sha2(F.concat_ws(" ", "user", F.unix_millis("window.start")), 256).alias("session"),
            "user",
            F.col("window.start").alias("began"),
            F.col("window.end").alias("ended"),
            "events",
        )
        .select(F.col("user").cast("binary").alias("key"), as_value("session", "user", "began", "ended", "events"))
    )


def profiles(sessions: DataFrame, erasures: DataFrame) -> DataFrame:
    """The state of each user, for a compacted topic: the last session, or a tombstone after an erasure request.

    The newest fact about a user wins. Repeated facts and facts in another order give the same state, so it is exact
    although records between stages are delivered at least once. Of an erased user only the name and the time of the
    request stay in the state.
    """
    known = sessions.select(value_as(SESSION)).select(
        F.col("it.user").alias("user"),
        F.struct(
            F.col("it.ended").alias("at"),
            F.lit(False).alias("is_erased"),
            F.col("it.session").alias("session"),
            F.col("it.began").alias("last_session"),
            F.col("it.events").alias("events"),
        ).alias("fact"),
    )
    forgotten = erasures.select(value_as(ERASURE)).select(
        F.col("it.user").alias("user"),
        F.struct(
            F.col("it.at").alias("at"),
            F.lit(True).alias("is_erased"),
            F.lit(None).cast("string").alias("session"),
            F.lit(None).cast("timestamp").alias("last_session"),
            F.lit(None).cast("bigint").alias("events"),
        ).alias("fact"),
    )
    return (
        known.unionByName(forgotten)
        .where("user is not null and fact.at is not null")
        .groupBy("user")
        .agg(F.max("fact").alias("fact"))
        .select("user", "fact.*")
        .select(
            F.col("user").cast("binary").alias("key"),
            F.when(~F.col("is_erased"), as_value("last_session", "events")).alias("value"),
        )
    )


def statistics(sessions: DataFrame) -> DataFrame:
    """Sessions without their users, as Parquet; partition and offset identify each."""
    return sessions.select("partition", "offset", value_as(SESSION)).select(
        "partition", "offset", "it.session", "it.began", "it.ended", "it.events", F.to_date("it.began").alias("day")
    )


pipeline = Pipeline(
    "sessions",
    stages=[
        Stage("sessionize", sessionize, reads="events", writes="sessions"),
        Stage("profiles", profiles, reads=["sessions", "erasures"], writes="profiles", output_mode="update"),
        Stage("statistics", statistics, reads="sessions", writes=Files("statistics", partition_by=["day"])),
    ],
    topics=[
        Topic("events", partitions=2, configs={"retention.ms": str(24 * 3_600_000)}),
        # Written by one stage and read by two: what both have processed is deleted. A deletion frees whole segments.
        Topic("sessions", partitions=2, configs={"segment.bytes": str(1 << 20), "file.delete.delay.ms": "1000"}),
        Topic("erasures", partitions=1),
        Topic("profiles", partitions=2, configs={"cleanup.policy": "compact"}),
    ],
    spark_settings={"spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "2"},
)

if __name__ == "__main__":  # spark-submit pipeline.py
    pipeline.run()
