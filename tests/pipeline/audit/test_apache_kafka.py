"""A directory of Apache Kafka, on which Apache Kafka is running."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from click.testing import CliRunner

from kmini.cli import kmini
from kmini.cli.audit_policies import policies_of
from kmini.client import Client, NewTopic, record
from kmini.pipeline.audit.report import KeyStatus, Kind
from kmini.pipeline.logs.log_dir import LogDir

from .directories import DAY_MS, HOUR_MS, audited, of_kind, violated

if TYPE_CHECKING:
    from support.server_process import ServerProcess

CONFIGS = {"cleanup.policy": "compact", "max.compaction.lag.ms": str(DAY_MS), "delete.retention.ms": "77"}


def test_the_directory_of_a_running_apache_kafka_is_audited_with_its_settings(
    apache_kafka_server: ServerProcess, topic_names: Callable[[str], str]
) -> None:
    audited_topic, plain_topic = topic_names("audited"), topic_names("plain")

    async def work() -> None:
        async with Client(apache_kafka_server.bootstrap_servers) as client:
            outcomes = await client.create_topics(
                {audited_topic: NewTopic(1, 1, configs=CONFIGS), plain_topic: NewTopic(1, 1)}
            )
            assert set(outcomes.values()) == {None}
            records = [record(b"1", key=b"john"), record(b"1", key=b"jane"), record(None, key=b"john")]
            await client.produce(audited_topic, 0, records)

    asyncio.run(work())
    arguments = apache_kafka_server.command
    path = Path(arguments[arguments.index("--data-dir") + 1]) / "log"
    policies, default, source = policies_of(LogDir(path), broker_configs=(), topic_configs=(), broker_answers=None)
    assert source.endswith("__cluster_metadata-0")
    assert (policies[audited_topic].bound_ms, policies[audited_topic].delete_retention_ms) == (DAY_MS, 77)
    assert not policies[plain_topic].is_compacted
    options = {"policies": policies, "default": default, "topics": [(audited_topic, None)], "keys": [b"john", b"jack"]}
    now_ms = int(time.time() * 1000)
    fresh = audited(path, now_ms=now_ms, **options)
    assert violated(fresh) == {Kind.ERASED_KEY}
    assert [key.status for key in fresh.keys] == [KeyStatus.LEFT, KeyStatus.GONE]
    late = audited(path, now_ms=now_ms + DAY_MS + HOUR_MS, **options)
    assert violated(late) == {Kind.ERASED_KEY, Kind.DELETED, Kind.UNCOMPACTED}
    assert [finding.offset for finding in of_kind(late, Kind.DELETED)] == [0]

    asked = CliRunner().invoke(
        kmini,
        ["audit", str(path), "--topic", audited_topic, "-b", apache_kafka_server.bootstrap_servers],
        prog_name="kmini",
    )
    assert asked.exit_code == 0, asked.output
    assert "settings of topics: from the broker" in asked.stderr
    assert "\t1d\t" in asked.stdout
