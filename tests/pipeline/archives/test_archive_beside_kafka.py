"""The same from and to Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kmini import Broker
from kmini.records import TOMBSTONE
from support.archives import consume
from support.server_process import ServerProcess
from support.transactional_clients import Confluent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_topic_goes_from_kmini_to_apache_kafka_and_from_there_into_an_archive_again(
    spark: SparkSession, apache_kafka_server: ServerProcess, topic_names: Callable[[str], str], tmp_path: Path
) -> None:
    from kmini.pipeline.archives.archive import archive_topic
    from kmini.pipeline.archives.cluster_topics import Topics
    from kmini.pipeline.archives.replay import replay_topic
    from kmini.pipeline.clients import Kafka

    name, apache = topic_names("archived"), Kafka(apache_kafka_server.bootstrap_servers)
    kept = {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime", "segment.bytes": "1048576"}
    with Broker() as broker:
        broker.create_topic(name, 2, config={**kept, "kmini.tombstone.flag.enable": "true"})
        broker.produce(name, b"old", key=b"alice", headers=[("é", None)])
        broker.produce(name, b"last state", key=b"alice", headers=[TOMBSTONE])
        broker.produce(name, None, key=b"bob")
        original = [one._replace(timestamp_type=0) for one in consume(broker.bootstrap_servers, name)]
        archive_topic(spark, name, str(tmp_path / "from-kmini"), Kafka(broker.bootstrap_servers))
    done = replay_topic(spark, str(tmp_path / "from-kmini"), name, apache)
    assert done.written == 3
    assert [note.split(":")[0] for note in done.notes] == [
        "kmini.tombstone.flag.enable=true was left out",
        "1 tombstones with a value (KIP-87) are records with a header here, which delete nothing",
        "3 records keep the time at which they were first appended, now as their CreateTime",
    ]
    assert Topics(apache).get(name).configs == kept
    assert consume(apache_kafka_server.bootstrap_servers, name) == original

    done = replay_topic(spark, str(tmp_path / "from-kmini"), name, apache, to=f"{name}-null", null_tombstones=True)
    alice = consume(apache_kafka_server.bootstrap_servers, f"{name}-null")[1]
    assert (alice.key, alice.value, alice.headers) == (b"alice", None, (TOMBSTONE,))

    topics = Topics(apache)
    topics.create(f"{name}-transactions", 1, {})
    producer = Confluent(apache_kafka_server.bootstrap_servers, name)
    for ending in (producer.abort, producer.commit):
        producer.begin()
        producer.produce(f"{name}-transactions", ending.__name__.encode())
        ending()
    producer.close()
    archive = str(tmp_path / "from-kafka")
    assert archive_topic(spark, f"{name}-transactions", archive, apache).records == 1
    replay_topic(spark, archive, f"{name}-transactions", apache, to=f"{name}-again")
    before, again = (
        consume(apache_kafka_server.bootstrap_servers, f"{name}-{one}") for one in ("transactions", "again")
    )
    assert [one.value for one in before] == [b"commit"]
    assert before == again
