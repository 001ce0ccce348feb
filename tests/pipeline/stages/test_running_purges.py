"""Purges of running pipelines: up to all consumers, after refusals, and around transactions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("confluent_kafka")

from kmini import Broker
from kmini.pipeline import Batches, Files, Pipeline, Stage, Topic
from kmini.pipeline.stages import running_pipeline as running_module
from kmini.pipeline.stages.pipeline_progress import lines
from kmini.pipeline.stages.running_pipeline import PipelineError, Running
from support.certificates import Authority
from support.until import until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
from support.pipeline_cluster import WITHIN_S, Cluster, commits, same


def test_a_topic_is_purged_to_its_end_when_all_its_consumers_have_it(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline]
) -> None:
    """A group that has not committed keeps a partition; one that goes on, and nothing else, frees it."""
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    cluster.create("in")
    cluster.send("in", *"abcdef")
    kept: list[str] = []

    def keep(batch: DataFrame, _: int) -> None:
        kept.extend(row.value.decode() for row in batch.collect())

    pipeline = piped(
        Stage("s", same, reads="in", writes="between"),
        Stage("one", same, reads="between", writes=Files("one")),
        Stage("two", same, reads="between", writes=Batches(keep)),
        topics=[Topic("between", 1, consumer_groups=["billing"])],
    )
    with pipeline.start(spark=spark) as running:
        until(
            lambda: commits(pipeline, "one") is not None and commits(pipeline, "two") is not None,
            "batches",
            timeout_s=WITHIN_S,
        )
        # An earlier round of purging may have waited for a stage, too.
        until(
            lambda: running.progress().topics[0].waits_for == "0 waits for group billing",
            "a purge that waits",
            timeout_s=WITHIN_S,
        )
        until(
            lambda: len(kept) == 6, "all six records", timeout_s=WITHIN_S
        )  # their stages may have begun before all were written
        assert cluster.bounds("between") == (0, 6)
        committed = ConsumerGroupTopicPartitions("billing", [TopicPartition("between", 0, 4)])
        cluster.admin.alter_consumer_group_offsets([committed])["billing"].result(30)
        until(lambda: cluster.bounds("between") == (4, 6), "a purge up to what the group committed", timeout_s=WITHIN_S)
        cluster.send("in", "g")
        until(lambda: "g" in kept, "another record", timeout_s=WITHIN_S)
        assert cluster.bounds("between")[0] == 4
        committed = ConsumerGroupTopicPartitions("billing", [TopicPartition("between", 0, 7)])
        cluster.admin.alter_consumer_group_offsets([committed])["billing"].result(30)
        until(lambda: cluster.bounds("between") == (7, 7), "a purge to the end", timeout_s=WITHIN_S)
        # The broker knows of it before the thread that asked has its answer.
        until(
            lambda: any(line == "between: 7 purged" for line in lines(running.progress())),
            "the purge to be told",
            timeout_s=WITHIN_S,
        )
    assert kept == [*"abcdefg"]


def test_a_purge_is_caught_up_with_at_the_start(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a driver that was killed between a commit and its purge."""
    cluster.create("in", "between")
    cluster.send("in", *"abc")
    stages = [Stage("s", same, reads="in", writes="between"), Stage("t", same, reads="between", writes=Files("out"))]
    with monkeypatch.context() as patched:
        patched.setattr(running_module, "topic_purges", lambda *_: [])
        piped(*stages).run(available_now=True, spark=spark)
    assert cluster.bounds("between") == (0, 3)
    begun: list[tuple[int, int]] = []
    monkeypatch.setattr(Running, "_start_ready", lambda self: begun.append(cluster.bounds("between")))
    piped(*stages).start(spark=spark).stop()
    assert begun == [(3, 3)]


def test_a_purge_that_is_refused_stops_nothing(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline]
) -> None:
    """A topic that is only compacted refuses DeleteRecords (POLICY_VIOLATION)."""
    cluster.create("in", "out")
    cluster.create("between", cleanup_policy="compact")
    cluster.send("in", *"abc", key=b"k")
    stages = [Stage("s", same, reads="in", writes="between"), Stage("t", same, reads="between", writes="out")]
    pipeline = piped(*stages, topics=[Topic("between", purge=True)])
    with pipeline.start(spark=spark) as running:
        until(lambda: "POLICY_VIOLATION" in running.progress().topics[0].waits_for, "a refusal", timeout_s=WITHIN_S)
        cluster.send("in", "d", key=b"k")
        until(lambda: cluster.bounds("out")[1] == 4, "the stream goes on", timeout_s=WITHIN_S)
        assert cluster.admin.incremental_alter_configs([_delete_too("between")])
        until(lambda: cluster.bounds("between") == (4, 4), "another attempt", timeout_s=WITHIN_S)
        until(lambda: running.progress().topics[0].waits_for == "", "no trouble", timeout_s=WITHIN_S)


def _delete_too(topic: str) -> Any:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    entry = ConfigEntry("cleanup.policy", "compact,delete", incremental_operation=AlterConfigOpType.SET)
    return ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])


JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"


SECURED = {
    "listeners": "SASL_SSL://127.0.0.1:0",
    "ssl.keystore.type": "PEM",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{JAAS} user_admin="a" user_alice="b";',
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}


def test_who_to_be_and_whom_to_trust_is_said_once_and_a_missing_right_to_delete_stops_nothing(
    spark: SparkSession, piped: Callable[..., Pipeline], tmp_path: Path
) -> None:
    from confluent_kafka.admin import (
        AclBinding,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
        ResourceType,
    )

    authority = Authority()
    signed = authority.sign("broker")
    keys = {"ssl.keystore.key": signed.key_pem, "ssl.keystore.certificate.chain": signed.certificate_pem}
    trusted = str(authority.write(tmp_path))
    with Broker(config=SECURED | keys) as broker:

        def signed_in(user: str, password: str) -> Cluster:
            login = f'{JAAS} username="{user}" password="{password}";'
            return Cluster(
                broker.bootstrap_servers,
                security_protocol="SASL_SSL",
                ssl_truststore_type="PEM",
                ssl_truststore_location=trusted,
                sasl_mechanism="PLAIN",
                sasl_jaas_config=login,
            )

        def let_alice(*operations: AclOperation) -> None:
            where = (ResourceType.TOPIC, "alice", ResourcePatternType.PREFIXED, "User:alice", "*")
            rules = [AclBinding(*where, operation, AclPermissionType.ALLOW) for operation in operations]
            for future in admin.admin.create_acls(rules).values():
                future.result(30)

        admin, alice = signed_in("admin", "a"), signed_in("alice", "b")
        admin.create("alice-in", "alice-between", "alice-out")
        admin.send("alice-in", *"abc")
        let_alice(AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE)
        pipeline = piped(
            Stage("s", same, reads="alice-in", writes="alice-between"),
            Stage("t", same, reads="alice-between", writes="alice-out"),
            kafka=alice.kafka,
        )
        with pipeline.start(spark=spark) as running:
            until(
                lambda: "TOPIC_AUTHORIZATION_FAILED" in running.progress().topics[0].waits_for,
                "a refusal",
                timeout_s=WITHIN_S,
            )
            admin.send("alice-in", "d")
            until(lambda: admin.bounds("alice-out")[1] == 4, "the stream goes on", timeout_s=WITHIN_S)
            let_alice(AclOperation.DELETE)
            until(lambda: admin.bounds("alice-between") == (4, 4), "another attempt", timeout_s=WITHIN_S)
        with pytest.raises(PipelineError, match="AUTHENTICATION"):
            pipeline.with_kafka(settings=signed_in("admin", "wrong").kafka.settings).start(spark=spark)


def test_only_what_is_committed_of_a_transaction_is_read_and_all_of_it_purged(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline]
) -> None:
    """Offsets of a read_committed stage end at the last stable offset, control records count."""
    from confluent_kafka import Producer

    cluster.create("in", "out")
    producer = Producer({"bootstrap.servers": cluster.servers, "transactional.id": "t", "log_level": "2"})
    producer.init_transactions(30)
    for value, is_kept in (("a", True), ("b", False), ("c", True)):
        producer.begin_transaction()
        producer.produce("in", value.encode())
        producer.flush(30)  # an abort throws away what was not sent
        (producer.commit_transaction if is_kept else producer.abort_transaction)(30)
    producer.begin_transaction()
    producer.produce("in", b"open")
    producer.flush(30)
    pipeline = piped(
        Stage("s", same, reads="in", writes="out", source_options={"kafka.isolation.level": "read_committed"}),
        topics=[Topic("in", purge=True)],
    )
    pipeline.run(available_now=True, spark=spark)
    assert cluster.values("out") == ["a", "c"]
    assert cluster.bounds("in")[0] == 6  # the open transaction begins there
    producer.commit_transaction(30)
    pipeline.run(available_now=True, spark=spark)
    assert cluster.values("out") == ["a", "c", "open"]
    assert cluster.bounds("in") == (8, 8)


def test_two_pipelines_do_not_purge_one_topic(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline], tmp_path: Path
) -> None:
    """They have checkpoints of their own. The second one may take over; then the first one stops to purge."""
    cluster.create("in", "out")
    cluster.send("in", "a")

    def declared(folder: str) -> Pipeline:
        purged = [Topic("in", purge=True)]
        return piped(Stage(folder, same, "in", "out"), topics=purged, directory=str(tmp_path / folder))

    first, second = declared("first"), declared("second")
    with first.start(spark=spark) as running:
        until(lambda: cluster.bounds("in") == (1, 1), "a purge", timeout_s=WITHIN_S)
        with pytest.raises(PipelineError, match=r"'in' is purged by pipeline 'p' .*first.*second.*--take-over"):
            second.start(spark=spark)
        second.run(available_now=True, take_over=True, spark=spark)
        cluster.send("in", "b")
        until(lambda: "has taken it over" in lines(running.progress())[-1], "the new owner", timeout_s=WITHIN_S)
    assert cluster.bounds("in") == (1, 2)
    second.run(available_now=True, spark=spark)
    assert cluster.bounds("in") == (2, 2)
    with pytest.raises(PipelineError, match=r"first.*second|second.*first"):
        first.start(spark=spark)


def test_what_this_run_purged_is_told(spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline]) -> None:
    cluster.create("in", "out")
    pipeline = piped(Stage("s", same, "in", "out"), topics=[Topic("in", purge=True)])
    told: list[list[str]] = []
    for values in ("abc", "de"):
        cluster.send("in", *values)
        pipeline.run(available_now=True, spark=spark, watcher=lambda progress: told.append(lines(progress)))
        assert told[-1][-1] == f"in: {len(values)} purged"
