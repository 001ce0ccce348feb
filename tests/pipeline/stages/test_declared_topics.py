"""Topics that are there, beside their declaration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("confluent_kafka")

from kmini import Broker
from kmini.pipeline import Kafka, Pipeline, Stage, Topic
from kmini.pipeline.admin import Admin
from kmini.pipeline.stages.declared_topics import TopicRefusedError, prepare_topics

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.sockets

DAY_MS = "86400000"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def declared(broker: Broker, *topics: Topic) -> Pipeline:
    return Pipeline("p", [Stage("s", lambda frame: frame, "in", "out")], topics, kafka=Kafka(broker.bootstrap_servers))


def prepare(pipeline: Pipeline, *, apply: bool = False) -> None:
    prepare_topics(pipeline, Admin(pipeline.kafka), apply=apply)


def test_a_start_is_refused_while_records_would_stay_longer_than_declared(broker: Broker) -> None:
    """The topic was made before the pipeline, without its settings."""
    broker.create_topic("in", 1)
    broker.create_topic("out", 1)
    pipeline = declared(broker, Topic("in", 1, configs={"retention.ms": DAY_MS, "segment.bytes": "1048576"}))
    with pytest.raises(TopicRefusedError) as refused:
        prepare(pipeline)
    assert "'in' has retention.ms=604800000, segment.bytes=1073741824" in str(refused.value)
    assert f"retention.ms={DAY_MS}, segment.bytes=1048576 is declared" in str(refused.value)
    assert "--apply" in str(refused.value)
    prepare(pipeline, apply=True)
    assert Admin(pipeline.kafka).topic_configs("in").own == {"retention.ms": DAY_MS, "segment.bytes": "1048576"}
    prepare(pipeline)


def test_a_difference_that_deletes_nothing_is_told(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    broker.create_topic("in", 1)
    broker.create_topic("out", 2)
    prepare(
        declared(
            broker,
            Topic("in", 4, configs={"segment.bytes": "1048576"}, replication_factor=3),
            Topic("out", 2, configs={"cleanup.policy": "delete"}, replication_factor=1),
        )
    )
    told = [record.getMessage() for record in caplog.records]
    assert told[:2] == ["topic in has 1 partitions, 4 are declared", "topic in has 1 replicas, 3 are declared"]
    assert told[2].startswith("topic 'in' has segment.bytes=1073741824, and segment.bytes=1048576 is declared")
    assert len(told) == 3


def test_a_setting_that_the_cluster_has_by_default_is_as_declared_and_so_is_another_order_of_a_list(
    broker: Broker,
) -> None:
    broker.create_topic("in", 1, configs={"cleanup.policy": "delete,compact"})
    broker.create_topic("out", 1)
    prepare(
        declared(
            broker,
            Topic("in", configs={"cleanup.policy": "compact, delete"}),
            Topic("out", configs={"retention.ms": "604800000"}),
        )
    )


def test_a_setting_that_the_cluster_refuses_is_told_before_spark_starts(broker: Broker) -> None:
    from kmini.pipeline.admin import AdminError

    broker.create_topic("in", 1)
    broker.create_topic("out", 1)
    with pytest.raises(AdminError, match="INVALID_CONFIG"):
        prepare(declared(broker, Topic("in", configs={"retention.ms": "a day"})), apply=True)
