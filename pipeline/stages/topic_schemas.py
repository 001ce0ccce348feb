"""Values of a topic with a schema: JSON objects, or Avro, that Spark's own functions read and write.

A stage that reads such a topic gets `value` as a struct, and a stage that writes it gives a struct. A record whose
value is not as the schema says is *malformed*. It stops the stages that read it; or they leave it out, and one more
stage, with a checkpoint of its own, writes it to the topic of dead letters. The record and the schemas alone decide
whether it is malformed, so the two kinds of stages never differ over a record. (`avro_values.py` says how that holds
while schemas are registered.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .avro_values import VALUE, AvroValues, avro_fields, read_avro, written_avro
from .declaration import Avro, DeadLetters, SchemaError, Topic
from .topic_frames import HEADERS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

MALFORMED = "kmini_malformed"
"""The field in which Spark keeps the text of a malformed value. No field of a schema may have this name."""
PARSED = "kmini_parsed"
"""A column within this module."""
DEAD_LETTER_HEADERS = ("topic", "partition", "offset", "reason")
"""The headers of a dead letter beside those of the record, each with "kmini.malformed." before it."""
READ_AS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": MALFORMED, "allowSingleQuotes": "false"}
WRITTEN_AS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
"""Spark's default has milliseconds. A timestamp that is read may have any fraction."""


def decoded(frame: DataFrame, topic: Topic, avro: AvroValues | None = None) -> DataFrame:
    """A frame of the topic's records with `value` as a struct; null for a tombstone. A malformed record is left out if
    the topic has dead letters; otherwise it fails the query, with topic, partition and offset. `avro` are the schemas
    of a topic with Avro values. Raises `SchemaError`."""
    from pyspark.sql import functions as F

    frame, is_malformed = _parsed(frame, topic, avro)
    if isinstance(topic.malformed, DeadLetters):
        frame = frame.where(~is_malformed)
    else:
        place = [F.lit(f"topic {topic.name}, partition "), F.col("partition"), F.lit(", offset "), F.col("offset")]
        told = F.concat(*place, F.lit(f": {_reason(topic)}"))
        frame = frame.where(F.when(is_malformed, F.raise_error(told).cast("boolean")).otherwise(F.lit(True)))
    value = F.col(PARSED).dropFields(MALFORMED) if avro is None else F.col(PARSED)[VALUE]
    return frame.withColumn("value", value).drop(PARSED)


def dead_letters(frame: DataFrame, topic: Topic, avro: AvroValues | None = None) -> DataFrame:
    """The malformed records among those of the topic, with headers that say where they come from and why. Raises
    `SchemaError`."""
    from pyspark.sql import functions as F

    frame, is_malformed = _parsed(frame, topic, avro)
    texts = (F.lit(topic.name), F.col("partition"), F.col("offset"), F.lit(_reason(topic)))
    added = [
        F.struct(F.lit(f"kmini.malformed.{name}").alias("key"), text.cast("string").cast("binary").alias("value"))
        for name, text in zip(DEAD_LETTER_HEADERS, texts, strict=True)
    ]
    headers = F.concat(F.coalesce(F.col("headers"), F.array().cast(HEADERS)), F.array(*added).cast(HEADERS))
    return frame.where(is_malformed).select("key", "value", headers.alias("headers"), "timestamp")


def encoded(frame: DataFrame, topic: Topic, avro: AvroValues | None = None) -> DataFrame:
    """A frame with the struct `value` as JSON or Avro; a null stays null, for a tombstone. Raises `SchemaError` if the
    struct has other fields than the schema."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    schema = schema_of(topic) if avro is None else avro_fields(frame.sparkSession, topic, avro)
    given = frame.schema["value"].dataType if "value" in frame.columns else None
    if not isinstance(given, StructType) or _fields(given) != _fields(schema):
        has = "no column 'value'" if given is None else f"value {given.simpleString()}"
        wanted = f"a struct of {topic.schema}" if avro is None else schema.simpleString()
        raise SchemaError(f"it writes topic {topic.name!r}, whose value is {wanted}, and has {has}")
    value = F.to_json("value", WRITTEN_AS) if avro is None else written_avro(F.col("value"), topic, avro)
    return frame.withColumn("value", value)


def schema_of(topic: Topic) -> StructType:
    """The fields of a JSON value. Raises `SchemaError`."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import DataType, StructType

    try:
        found = DataType.fromDDL(str(topic.schema))
    except PySparkException as error:
        told = str(error).strip().split("\n")[0]
        raise SchemaError(f"the schema of topic {topic.name!r}, {topic.schema!r}, is no DDL of Spark: {told}") from None
    if not isinstance(found, StructType) or MALFORMED in found.names:
        raise SchemaError(f"the schema of topic {topic.name!r}, {topic.schema!r}, is not 'name type, name type'")
    return found


def _parsed(frame: DataFrame, topic: Topic, avro: AvroValues | None) -> tuple[DataFrame, Column]:
    """The frame with the column `PARSED`, and whether a value is malformed. `PARSED` is the struct of a value with the
    field `MALFORMED`; of Avro it has the struct in its only field, `VALUE`."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    parsed, text = F.col(PARSED), F.col("value").cast("string")
    if avro is None:
        parser = F.from_json(text, StructType([*schema_of(topic).fields]).add(MALFORMED, "string"), READ_AS)
        is_wrong = parsed.isNull() | parsed[MALFORMED].isNotNull() | ~F.is_valid_utf8(text)
    else:
        frame, parser = read_avro(frame, topic, avro)
        is_wrong = parsed.isNull() | parsed[VALUE].isNull()
    # A filter goes below a projection and parses again; nothing goes below a generator, so each value is parsed once.
    frame = frame.select("*", F.explode(F.array(parser)).alias(PARSED))
    return frame, F.col("value").isNotNull() & is_wrong


def _fields(schema: StructType) -> dict[str, str]:
    """Names and types, without whether a field may be null: a JSON object may leave out any."""
    return {field.name: field.dataType.simpleString() for field in schema.fields}


def _reason(topic: Topic) -> str:
    if isinstance(topic.schema, Avro):
        return f"the value is no Avro of subject {topic.name}-value"
    return f"the value is no JSON object of {topic.schema}"
