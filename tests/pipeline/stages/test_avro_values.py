"""Topics whose values are Avro of a schema registry, on real Spark, beside Confluent's serializers."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("confluent_kafka")

from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kmini import Broker
from kmini.pipeline import Avro, Batches, DeadLetters, Pipeline, Stage, Topic
from kmini.pipeline.connector import why_no_avro
from kmini.pipeline.stages import running_pipeline
from kmini.pipeline.stages.checkpoint_files import read_identity
from kmini.pipeline.stages.running_pipeline import PipelineError
from kmini.pipeline.stages.spark_checkpoint import LocalFiles
from support.pipeline_cluster import WITHIN_S, Cluster, commits, same
from support.until import until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def record(*fields: dict[str, Any], name: str = "Order") -> str:
    return json.dumps({"type": "record", "name": name, "namespace": "shop", "fields": [*fields]})


ID = {"name": "id", "type": ["null", "long"], "default": None}
AT = {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None}
PRICE = {"name": "price", "type": "int", "default": 7}
FIRST, SECOND, THIRD = record(ID, AT), record(ID, PRICE), record(ID, PRICE, AT)
TEXT = record({"name": "id", "type": "string"})
MUST = record({"name": "must", "type": "string"})
LIST = record({"name": "next", "type": ["null", "shop.Order"], "default": None})


class Registered:
    """The broker's registry and Confluent's client of it."""

    def __init__(self, cluster: Cluster, url: str) -> None:
        self.cluster = cluster
        self.client = SchemaRegistryClient({"url": url})

    def register(self, topic: str, schema: str, kind: str = "AVRO") -> int:
        return int(self.client.register_schema(f"{topic}-value", Schema(schema, kind)))

    def send(self, topic: str, schema: str, *values: Any) -> None:
        """Serialize and send; bytes and None are sent as they are."""
        serializer = AvroSerializer(self.client, schema)
        producer = Producer(self.cluster.client)
        context = SerializationContext(topic, MessageField.VALUE)
        for value in values:
            producer.produce(topic, serializer(value, context) if isinstance(value, dict) else value)
        assert producer.flush(30) == 0

    def value(self, topic: str, one: Any) -> Any:
        return AvroDeserializer(self.client)(one.value(), SerializationContext(topic, MessageField.VALUE))

    def values(self, topic: str) -> list[Any]:
        return [self.value(topic, one) for one in self.cluster.records(topic)]


@pytest.fixture(scope="module")
def served() -> Iterator[Registered]:
    if reason := why_no_avro():
        pytest.skip(reason)
    with Broker(registry=True) as broker:
        url = broker.registry_url
        registered = Registered(Cluster(broker.bootstrap_servers, schema_registry_url=url), url)
        with registered.client:
            yield registered


@pytest.fixture
def cluster(served: Registered) -> Cluster:
    """In the place of the broker that has no registry."""
    return served.cluster


def test_values_of_several_versions_are_read_as_the_declared_one_and_written_for_other_clients(
    spark: SparkSession, served: Registered, cluster: Cluster, piped: Callable[..., Pipeline]
) -> None:
    """What is malformed goes to the dead letters: also a version that the declared schema cannot read, and an id of
    another subject, and not a value of nulls. Each subject has other versions than the declared one."""
    cluster.create("in", "out", "dead")
    served.client.set_compatibility("in-value", "NONE")
    served.send("in", TEXT, {"id": "one"})
    first = served.register("in", FIRST).to_bytes(4, "big")
    other = served.register("elsewhere", MUST).to_bytes(4, "big")
    malformed = [b"", b"\0", b"\0" + first, b"\1" + first + b"\0\0", b"\0" + first + b"\2", b"\0" + other + b"\0\0"]
    malformed += [b"\0\xff\xff\xff\xff\0\0", b'{"id":1}']
    served.send("in", FIRST, {"id": 1, "at": 0}, {"id": None, "at": None}, None, *malformed)
    served.send("in", THIRD, {"id": 2, "price": 3, "at": 0})
    served.register("out", FIRST)

    def doubled(frame: DataFrame) -> DataFrame:
        assert frame.schema["value"].dataType.simpleString() == "struct<id:bigint,price:int>"
        return frame.selectExpr("key", "if(value is null, null, struct(value.price * 2 price, value.id)) value")

    topics = [
        Topic("in", schema=Avro(SECOND), malformed=DeadLetters("dead")),
        Topic("out", schema=Avro(SECOND, registers=True)),
    ]
    piped(Stage("s", doubled, "in", "out"), topics=topics).run(available_now=True, spark=spark)
    assert served.values("out") == [{"id": 1, "price": 14}, {"id": None, "price": 14}, None, {"id": 2, "price": 6}]
    assert served.client.get_versions("out-value") == [1, 2]
    unreadable, *dead = cluster.records("dead")
    assert served.value("in", unreadable) == {"id": "one"}
    assert [one.value() for one in dead] == malformed
    assert ("kmini.malformed.offset", b"4") in dead[0].headers()
    assert ("kmini.malformed.reason", b"the value is no Avro of subject in-value") in dead[0].headers()


def test_a_running_stage_takes_a_version_that_is_registered_then(
    spark: SparkSession, served: Registered, cluster: Cluster, piped: Callable[..., Pipeline]
) -> None:
    """It reads it as before, by what was the latest version; and an id that the registry does not have even now is a
    dead letter."""
    cluster.create("orders", "bad-orders")
    served.register("orders", SECOND)
    served.send("orders", FIRST, {"id": 1, "at": None})
    rows: list[Any] = []
    taken = Batches(lambda batch, _: rows.extend(tuple(row.value) for row in batch.collect()))
    pipeline = piped(
        Stage("s", same, "orders", taken),
        topics=[Topic("orders", schema=Avro(), malformed=DeadLetters("bad-orders"), purge=True)],
    )
    with pipeline.start(spark=spark) as running:

        def is_taken(count: int, dead: int) -> bool:
            running.check()
            return len({*rows}) >= count and cluster.bounds("bad-orders")[1] >= dead

        until(lambda: is_taken(1, 0), "the first record", timeout_s=WITHIN_S)
        served.send("orders", THIRD, {"id": 2, "price": 3, "at": None})
        until(lambda: is_taken(2, 0), "the record of a new version", timeout_s=WITHIN_S)
        served.send("orders", THIRD, b"\0\xff\xff\xff\xff\0\0", {"id": 3, "price": 3, "at": None})
        until(lambda: is_taken(3, 1), "the dead letter", timeout_s=WITHIN_S)
    assert sorted({*rows}) == [(1, None), (2, None), (3, None)]
    assert {one.value() for one in cluster.records("bad-orders")} == {b"\0\xff\xff\xff\xff\0\0"}
    read_as = read_identity(LocalFiles(pipeline.checkpoint_of(pipeline.stages[1])))["schema"]
    assert json.loads(read_as) == json.loads(FIRST)  # another one is refused while the stages are at different records


def test_a_malformed_record_stops_the_stage_with_its_place(
    spark: SparkSession, served: Registered, cluster: Cluster, piped: Callable[..., Pipeline]
) -> None:
    cluster.create("strict")
    served.send("strict", FIRST, {"id": 1, "at": None}, b"{}")
    taken = Batches(lambda batch, _: batch.collect())
    pipeline = piped(Stage("s", same, "strict", taken), topics=[Topic("strict", schema=Avro())])
    with pytest.raises(PipelineError, match=r"topic strict, partition 0, offset 1: the value is no Avro of subject"):
        pipeline.run(available_now=True, spark=spark)
    assert commits(pipeline, "s") is None


@pytest.mark.parametrize(
    ("name", "read", "written", "words"),
    [
        ("a", Avro(), Avro(), "topic 'a-out' has no subject 'a-out-value' at http"),
        ("b", Avro(), Avro(FIRST), "topic 'b-out' has no subject 'b-out-value' at http"),
        ("c", Avro(), Avro(SECOND), "the declared schema of topic 'c-out' is no version of 'c-out-value' at http"),
        ("d", Avro(MUST), None, "cannot read version 1 of 'd-in-value' (id"),
        ("e", Avro(), Avro(SECOND, registers=True), "whose value is struct<id:bigint,price:int>, and has value"),
        ("f", Avro(), Avro(record({"name": "a", "type": "no"}), registers=True), "the schema registry at http"),
        ("g", Avro(LIST), None, "Spark does not read the Avro schema of topic 'g-in': Found recursive reference"),
    ],
)
def test_schemas_that_do_not_fit_are_told_before_anything_runs(
    spark: SparkSession,
    served: Registered,
    cluster: Cluster,
    piped: Callable[..., Pipeline],
    name: str,
    read: Avro,
    written: Avro | None,
    words: str,
) -> None:
    cluster.create(f"{name}-in", f"{name}-out")
    served.register(f"{name}-in", FIRST)
    served.register("c-out", FIRST)
    topics = [Topic(f"{name}-in", schema=read), Topic(f"{name}-out", schema=written)]
    with pytest.raises(PipelineError) as failed:
        piped(Stage("s", same, f"{name}-in", f"{name}-out"), topics=topics).start(spark=spark)
    assert words in str(failed.value)
    assert "\n" not in str(failed.value)


@pytest.mark.programs
def test_a_registry_that_cannot_be_asked_is_told_before_spark_starts(
    served: Registered, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_pipeline, "_session", lambda *_, **__: pytest.fail("Spark is started"))
    cluster.create("asked")
    topics = [Topic("asked", schema=Avro())]

    def told(**settings: str) -> str:
        kafka = Cluster(cluster.servers, **settings).kafka
        pipeline = Pipeline("p", [Stage("s", same, "asked", Batches(print))], topics, kafka=kafka)
        with pytest.raises(PipelineError) as failed:
            pipeline.start()
        return str(failed.value)

    assert "no setting schema.registry.url says where the schema registry is" in told()
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = f"127.0.0.1:{server.getsockname()[1]}"
    assert f"no schema registry answers at http://{closed}: " in told(schema_registry_url=f"http://ann:pw@{closed}/")
    served.register("asked", "{}", "JSON")
    url = served.cluster.kafka.settings["schema.registry.url"]
    assert f"version 1 of subject 'asked-value' at {url} is JSON, not Avro" in told(schema_registry_url=url)
