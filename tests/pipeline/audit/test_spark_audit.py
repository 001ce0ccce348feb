"""Spark gives the same result as the loop."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from click.testing import CliRunner

from kmini import Broker
from kmini.cli import kmini
from kmini.pipeline.audit import spark_audit
from kmini.pipeline.audit.audit_plan import Scope
from kmini.pipeline.audit.report import Kind
from kmini.pipeline.logs.log_dir import LogDir

from .directories import HOUR_MS, PROFILES, WITHOUT_CLEANER, audited, copy_back, policy, segments, violated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONFIGS = PROFILES | {"segment.bytes": 4000, "max.compaction.lag.ms": HOUR_MS}


def violations(path: Path) -> int:
    """Write a directory with something of everything; the time of its broker, in ms."""
    dice = random.Random(7)
    with Broker(config=WITHOUT_CLEANER, data_dir=path) as broker:
        broker.create_topic("profiles", config=CONFIGS, partitions=3)
        broker.create_topic("events")
        for _ in range(400):
            value = None if dice.random() < 0.1 else b"v" * dice.randrange(200)
            broker.produce("profiles", value, key=b"key-%d" % dice.randrange(90), partition=dice.randrange(3))
        broker.produce("events", b"1", key=b"key-5")
        broker.topic("profiles").compact()
        for _ in range(200):
            value = None if dice.random() < 0.1 else b"w"
            broker.produce("profiles", value, key=b"key-%d" % dice.randrange(90), partition=dice.randrange(3))
        broker.clock.advance("2d")
        now_ms = broker.clock.now_ms()
    logs = [path / "broker-1" / f"profiles-{number}" for number in range(2)]
    copy_back(segments(logs[0])[0], logs[0])
    data = bytearray(segments(logs[1])[0].read_bytes())
    data[len(data) // 2] ^= 0xFF
    segments(logs[1])[0].write_bytes(data)
    return now_ms


def test_spark_and_the_loop_find_the_same(spark: SparkSession, tmp_path: Path) -> None:
    now_ms = violations(tmp_path)
    keys = (b"key-5", b"nobody")
    policies = {"profiles": policy(CONFIGS), "events": policy({})}
    here = audited(tmp_path, now_ms=now_ms, keys=keys, policies=policies)
    scope = Scope(now_ms, keys=keys, secret=b"another secret !")
    there = spark_audit.audit_on_spark(spark, LogDir(tmp_path), scope, policies, default=policy(), bucket_rows=50)
    assert there.engine == "spark"
    assert replace(there, engine=here.engine, seconds=here.seconds) == here
    assert {Kind.SUPERSEDED, Kind.DELETED, Kind.TOMBSTONE, Kind.LEFT_OVER, Kind.ERASED_KEY, Kind.DAMAGED} <= violated(
        here
    )


def test_the_command_takes_spark_when_it_is_told_to(spark: SparkSession, tmp_path: Path) -> None:
    with Broker(config=WITHOUT_CLEANER, data_dir=tmp_path) as broker:
        broker.create_topic("profiles", config=PROFILES)
        broker.produce("profiles", b"1", key=b"john")
    result = CliRunner().invoke(kmini, ["audit", str(tmp_path), "--spark", "--format", "json", "--key", "john"])
    assert result.exit_code == 1, result.output
    told = json.loads(result.stdout)
    assert (told["engine"], told["records"], told["keys"][0]["status"]) == ("spark", 1, "left")


def test_a_directory_without_partitions_is_clean_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path):
        pass
    report = spark_audit.audit_on_spark(spark, LogDir(tmp_path), Scope(0), {})
    assert (report.is_clean, report.partitions, report.records) == (True, [], 0)
