"""Values in Avro in Confluent's wire format: a zero byte, the id of the writer's schema in four bytes, the datum.

A query is planned once, with a parser for each version of the subject that the registry had then. A serializer
registers a schema before it writes a record, and so an id that the registry does not know although the record was in
the topic when it was asked is no schema of the topic: the record is malformed. A later record with another id fails the
query with `NEWER_SCHEMA`; the registry is asked again, and then it is one or the other.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..schema_registry import RegistryError, SchemaRegistry, SchemaVersion
from .declaration import Avro, SchemaError, Topic

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

log = logging.getLogger("kmini.pipeline")

NEWER_SCHEMA = "is newer than the schemas that the stage has asked the registry for"
"""Words of the error that fails a query."""
HEADER_BYTES = 5
VALUE = "value"
"""The only field of a record around each schema. It takes no byte, and is null where Spark's parser fails; without it a
value that fails and one of nulls look the same."""


@dataclass(frozen=True)
class AvroValues:
    """What the registry knows of a topic's values."""

    subject: str
    reader: str
    """The schema, as JSON, that values are read as and written by."""
    versions: tuple[SchemaVersion, ...]
    latest_id: int
    """The id of the latest version, which the reader can read."""
    written_id: int | None
    """The id that written values have; None for a topic that is only read."""
    ends: Mapping[int, int]
    """The end of each partition before the registry was asked."""

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(sorted({version.id for version in self.versions}))


def avro_values(topic: Topic, registry: SchemaRegistry, ends: Mapping[int, int], *, is_written: bool) -> AvroValues:
    """Ask the registry for the schemas of a topic; register the declared one if the declaration says so. Raises
    `RegistryError`, also where the subject or the schema to write by is missing."""
    assert isinstance(topic.schema, Avro)
    subject, declared = f"{topic.name}-value", topic.schema.schema
    if declared is not None and topic.schema.registers:
        registry.register(subject, declared)
    versions = tuple(registry.versions(subject))
    remedy = "Avro(schema, registers=True) registers one"
    if not versions:
        raise RegistryError(f"topic {topic.name!r} has no subject {subject!r} at {registry.url}: {remedy}")
    latest = registry.latest(subject)
    reader = latest.text if declared is None else declared
    written_id = None
    if is_written:
        written_id = latest.id if declared is None else registry.id_of(subject, declared)
        if written_id is None:
            raise RegistryError(
                f"the declared schema of topic {topic.name!r} is no version of {subject!r} at {registry.url}: {remedy}"
            )
    return AvroValues(subject, reader, versions, latest.id, written_id, ends)


def asked_again(values: AvroValues, registry: SchemaRegistry, ends: Mapping[int, int]) -> AvroValues:
    """The same values with the versions that the registry has now. Raises `RegistryError`."""
    versions = tuple(registry.versions(values.subject))
    return replace(values, versions=versions, latest_id=registry.latest(values.subject).id, ends=ends)


def read_avro(frame: DataFrame, topic: Topic, values: AvroValues) -> tuple[DataFrame, Column]:
    """The frame without the records of newer schemas, which fail it, and the parser of a value: a struct with the field
    `VALUE`, which is null if the datum is malformed; null if its header is. Raises `SchemaError`."""
    from pyspark.sql import functions as F
    from pyspark.sql.avro.functions import from_avro

    value = F.col("value")
    schema_id = F.conv(F.hex(F.substring(value, 2, 4)), 16, 10).cast("bigint")
    has_header = (F.length(value) >= HEADER_BYTES) & (F.substring(value, 1, 1) == F.lit(b"\0"))
    ends = F.create_map(*(F.lit(number) for end in values.ends.items() for number in end))
    is_later = F.col("offset") >= F.coalesce(F.try_element_at(ends, F.col("partition")), F.lit(0))
    place = [F.lit(f"topic {topic.name}, partition "), F.col("partition"), F.lit(", offset "), F.col("offset")]
    told = F.concat(*place, F.lit(": schema id "), schema_id, F.lit(f" {NEWER_SCHEMA}"))
    is_newer = has_header & ~schema_id.isin(*values.ids) & is_later
    frame = frame.where(F.when(is_newer, F.raise_error(told).cast("boolean")).otherwise(F.lit(True)))
    datum = F.expr(f"substring(value, {HEADER_BYTES + 1})")
    options = {"avroSchema": _around(values.reader), "mode": "PERMISSIVE"}
    parser: Any = F
    for text, ids in _readable(frame.sparkSession, topic, values).items():
        parser = parser.when(has_header & schema_id.isin(*ids), from_avro(datum, _around(text), options))
    return frame, parser


def written_avro(value: Column, topic: Topic, values: AvroValues) -> Column:
    """A struct in the wire format; null for null."""
    from pyspark.sql import functions as F
    from pyspark.sql.avro.functions import to_avro

    assert values.written_id is not None, topic.name
    header = b"\0" + values.written_id.to_bytes(HEADER_BYTES - 1, "big")
    return F.concat(F.lit(header), to_avro(value, values.reader))


def avro_fields(spark: SparkSession, topic: Topic, values: AvroValues) -> StructType:
    """The fields of a value, in Spark's types. Raises `SchemaError`."""
    from py4j.protocol import Py4JJavaError
    from pyspark.sql import functions as F
    from pyspark.sql.avro.functions import from_avro

    try:
        frame = spark.range(0).select(from_avro(F.lit(None).cast("binary"), values.reader).alias(VALUE))
    except Py4JJavaError as error:
        raise SchemaError(f"Spark does not read the Avro schema of topic {topic.name!r}: {_told(error)}") from None
    fields: Any = frame.schema[VALUE].dataType
    return fields  # type: ignore[no-any-return]


def _readable(spark: SparkSession, topic: Topic, values: AvroValues) -> dict[str, list[int]]:
    """The ids of each text that the reader's schema can read. Records of the others are malformed, which is logged.
    Raises `SchemaError` if the reader cannot read the latest one, or is no schema for Spark."""
    from py4j.protocol import Py4JJavaError

    avro_fields(spark, topic, values)
    avro = spark._jvm.org.apache.avro  # type: ignore[union-attr]
    reader = avro.Schema.Parser().parse(values.reader)
    found: dict[str, list[int]] = {}
    for version in values.versions:
        about = f"version {version.version} of {values.subject!r} (id {version.id})"
        try:
            pair = avro.SchemaCompatibility.checkReaderWriterCompatibility(
                reader, avro.Schema.Parser().parse(version.text)
            )
        except Py4JJavaError as error:
            raise SchemaError(f"{about} is no schema of Avro that Spark reads: {_told(error)}") from None
        if pair.getType().name() == "COMPATIBLE":
            found.setdefault(version.text, []).append(version.id)
            continue
        reasons = ", ".join(
            f"{one.getType()} at {one.getLocation()}" for one in pair.getResult().getIncompatibilities()
        )
        told = f"the Avro schema of topic {topic.name!r} cannot read {about}: {reasons}"
        if version.id == values.latest_id:
            raise SchemaError(told)
        log.warning("%s; its records are malformed", told)
    return found


def _around(schema: str) -> str:
    return json.dumps(
        {"type": "record", "name": "kmini_value", "fields": [{"name": VALUE, "type": json.loads(schema)}]}
    )


def _told(error: Any) -> str:
    """The first words of an error of Java, in a line."""
    return " ".join(str(error.java_exception.getMessage()).split("\n at ")[0].split())[:300]
