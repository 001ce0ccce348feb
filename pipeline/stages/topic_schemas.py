"""Values of a topic with a schema: JSON objects that Spark's own functions read and write.

A stage that reads such a topic gets `value` as a struct, and a stage that writes it gives a struct. A record whose
value is not as the schema says is *malformed*. It stops the stages that read it; or they leave it out, and one more
stage, with a checkpoint of its own, writes it to the topic of dead letters. The record and the schema alone decide
whether it is malformed, so the two kinds of stages never differ over a record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .declaration import DeadLetters, Topic
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


class SchemaError(Exception):
    """A schema that Spark cannot read, or a DataFrame that is not as the schema of its topic says."""


def decoded(frame: DataFrame, topic: Topic) -> DataFrame:
    """A frame of the topic's records with `value` as a struct; null for a tombstone. A malformed record is left out if
    the topic has dead letters; otherwise it fails the query, with topic, partition and offset."""
    from pyspark.sql import functions as F

    frame, is_malformed = _parsed(frame, topic)
    if isinstance(topic.malformed, DeadLetters):
        frame = frame.where(~is_malformed)
    else:
        place = [F.lit(f"topic {topic.name}, partition "), F.col("partition"), F.lit(", offset "), F.col("offset")]
        told = F.concat(*place, F.lit(f": {_reason(topic)}"))
        frame = frame.where(F.when(is_malformed, F.raise_error(told).cast("boolean")).otherwise(F.lit(True)))
    return frame.withColumn("value", F.col(PARSED).dropFields(MALFORMED)).drop(PARSED)


def dead_letters(frame: DataFrame, topic: Topic) -> DataFrame:
    """The malformed records among those of the topic, with headers that say where they come from and why."""
    from pyspark.sql import functions as F

    frame, is_malformed = _parsed(frame, topic)
    texts = (F.lit(topic.name), F.col("partition"), F.col("offset"), F.lit(_reason(topic)))
    added = [
        F.struct(F.lit(f"kmini.malformed.{name}").alias("key"), text.cast("string").cast("binary").alias("value"))
        for name, text in zip(DEAD_LETTER_HEADERS, texts, strict=True)
    ]
    headers = F.concat(F.coalesce(F.col("headers"), F.array().cast(HEADERS)), F.array(*added).cast(HEADERS))
    return frame.where(is_malformed).select("key", "value", headers.alias("headers"), "timestamp")


def encoded(frame: DataFrame, topic: Topic) -> DataFrame:
    """A frame with the struct `value` as JSON; a null stays null, for a tombstone. Raises `SchemaError` if the struct
    has other fields than the schema."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    wanted = _fields(schema_of(topic))
    given = frame.schema["value"].dataType if "value" in frame.columns else None
    if not isinstance(given, StructType) or _fields(given) != wanted:
        has = "no column 'value'" if given is None else f"value {given.simpleString()}"
        raise SchemaError(f"it writes topic {topic.name!r}, whose value is a struct of {topic.schema}, and has {has}")
    return frame.withColumn("value", F.to_json("value", WRITTEN_AS))


def schema_of(topic: Topic) -> StructType:
    """The fields of a value. Raises `SchemaError`."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import DataType, StructType

    try:
        found = DataType.fromDDL(topic.schema or "")
    except PySparkException as error:
        told = str(error).strip().split("\n")[0]
        raise SchemaError(f"the schema of topic {topic.name!r}, {topic.schema!r}, is no DDL of Spark: {told}") from None
    if not isinstance(found, StructType) or MALFORMED in found.names:
        raise SchemaError(f"the schema of topic {topic.name!r}, {topic.schema!r}, is not 'name type, name type'")
    return found


def _parsed(frame: DataFrame, topic: Topic) -> tuple[DataFrame, Column]:
    """The frame with the column `PARSED`, the struct of a value with the field `MALFORMED`, and whether a value is
    malformed."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    text = F.col("value").cast("string")
    schema = StructType([*schema_of(topic).fields]).add(MALFORMED, "string")
    # A filter goes below a projection and parses again; nothing goes below a generator, so each value is parsed once.
    frame = frame.select("*", F.explode(F.array(F.from_json(text, schema, READ_AS))).alias(PARSED))
    is_wrong = F.col(PARSED).isNull() | F.col(PARSED)[MALFORMED].isNotNull() | ~F.is_valid_utf8(text)
    return frame, F.col("value").isNotNull() & is_wrong


def _fields(schema: StructType) -> dict[str, str]:
    """Names and types, without whether a field may be null: a JSON object may leave out any."""
    return {field.name: field.dataType.simpleString() for field in schema.fields}


def _reason(topic: Topic) -> str:
    return f"the value is no JSON object of {topic.schema}"
