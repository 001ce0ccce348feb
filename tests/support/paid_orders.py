"""A pipeline with state and a join of streams: orders and their payments → what became of each order → the totals of
each customer → files."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kmini.pipeline import Files, Pipeline, Stage, Topic

LATEST = "30 minutes"
"""The delay at which a record still counts."""
PAID_WITHIN = "1 hour"

ORDER = "order string, customer string, at timestamp"
PAYMENT = "paid string, cents bigint, paid_at timestamp"
OUTCOME = "order string, customer string, cents bigint"
TOTAL = "customer string, orders int, paid int, cents bigint"


def value_as(schema: str) -> Column:
    return F.from_json(F.col("value").cast("string"), schema).alias("it")


def keyed(key: str, *names: str) -> list[Column]:
    return [F.col(key).cast("binary").alias("key"), F.to_json(F.struct(*names)).cast("binary").alias("value")]


def join(orders: DataFrame, payments: DataFrame) -> DataFrame:
    """Each order with the cents that were paid for it in time; without any if there were none."""
    ordered = orders.select(value_as(ORDER)).select("it.*").withWatermark("at", LATEST)
    paid = payments.select(value_as(PAYMENT)).select("it.*").withWatermark("paid_at", LATEST)
    in_time = F.expr(f"order = paid and paid_at >= at and paid_at <= at + interval {PAID_WITHIN}")
    return ordered.join(paid, in_time, "leftOuter").select(*keyed("customer", "order", "customer", "cents"))


def totals(outcomes: DataFrame) -> DataFrame:
    """The totals of each customer. Orders are a set, so that one that comes again changes nothing."""
    cents = F.aggregate(
        "outcomes", F.lit(0).cast("bigint"), lambda sum_, one: sum_ + F.coalesce(one["cents"], F.lit(0))
    )
    return (
        outcomes.select(value_as(OUTCOME))
        .groupBy("it.customer")
        .agg(F.collect_set(F.struct("it.order", "it.cents")).alias("outcomes"))
        .select(
            "customer",
            F.size("outcomes").alias("orders"),
            F.size(F.filter("outcomes", lambda one: one["cents"].isNotNull())).alias("paid"),
            cents.alias("cents"),
        )
        .select(*keyed("customer", "customer", "orders", "paid", "cents"))
    )


def ledger(totals: DataFrame) -> DataFrame:
    return totals.select("partition", "offset", value_as(TOTAL)).select("partition", "offset", "it.*")


pipeline = Pipeline(
    "paid-orders",
    stages=[
        Stage("join", join, reads=["orders", "payments"], writes="outcomes"),
        Stage("totals", totals, reads="outcomes", writes="totals", output_mode="update"),
        Stage("ledger", ledger, reads="totals", writes=Files("ledger")),
    ],
    topics=[Topic("outcomes", partitions=2), Topic("totals", partitions=2)],
    spark_settings={"spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "2"},
)
