"""The declaration of a pipeline: stages joined by topics (see docs/pipelines.md).

    pipeline = Pipeline(
        "orders",
        stages=[
            Stage("clean", clean, reads="raw-orders", writes="orders"),
            Stage("archive", archive, reads="orders", writes=Files("archive")),
        ],
        topics=[Topic("orders", partitions=4)],
    )

This module imports no Spark: a declaration is checked when it is made, before anything runs.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from ..clients import Kafka
from .locations import HAS_SCHEME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

StageFunction = Callable[..., "DataFrame"]
"""Takes one DataFrame for each source of a stage, in that order, and returns the one that is written."""

Source = Callable[["SparkSession"], "DataFrame"]
"""A source that is no topic: a table to join with, files that arrive."""

Declared = TypeVar("Declared", bound="PipelineDeclaration")

OUTPUT_MODES = ("append", "update", "complete")
STAGE_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")

RESERVED_OPTIONS = {
    "subscribe": "the topic is what the stage reads",
    "subscribepattern": "the topic is what the stage reads",
    "assign": "the topic is what the stage reads",
    "topic": "the topic is what the stage writes",
    "path": "the path is what the stage writes",
    "checkpointlocation": "Stage(checkpoint=...) says where it lies",
    "includeheaders": "headers are always read",
    "kafka.bootstrap.servers": "Kafka(bootstrap_servers=...) says where the brokers are",
}
"""Options of Spark that a stage may not set, each with the reason. In lower case, because Spark ignores case."""


class DeclarationError(Exception):
    """A pipeline cannot be run as it is declared; the message names stage and topic."""


class SchemaError(Exception):
    """A schema that Spark cannot read, or a DataFrame that is not as the schema of its topic says."""


@dataclass(frozen=True)
class Avro:
    """Values in Avro, as Confluent's serializers write them, by the versions of the subject TOPIC-value in the schema
    registry. Its address is the setting `schema.registry.url` of `Kafka`."""

    schema: str | None = None
    """The record, as JSON, that stages read values as, whatever version they were written with, and write them by.
    None: the latest version of the subject when the pipeline starts."""
    registers: bool = False
    """Whether the start registers `schema`. Otherwise a subject whose topic is written must have it."""


@dataclass(frozen=True)
class DeadLetters:
    """Malformed records of a topic go to another topic of the pipeline: key, value, headers and timestamp as they were,
    and the headers `kmini.malformed.topic`, `.partition`, `.offset` and `.reason`. A stage of its own writes them."""

    topic: str


@dataclass(frozen=True)
class Topic:
    """A topic of a pipeline, how it is created and purged, and what its values are."""

    name: str
    partitions: int | None = None
    """Partitions of a topic that the pipeline creates; None: the topic must exist."""
    configs: Mapping[str, str] = field(default_factory=dict)
    """Settings of a topic that the pipeline creates: `segment.bytes`, `retention.ms`, ..."""
    replication_factor: int = -1
    """Replication factor of a topic that the pipeline creates; -1: the broker's default."""
    purge: bool | None = None
    """Whether records that all consumers have processed are deleted. None: yes if one stage writes the topic, another
    reads it, and its `cleanup.policy` is not `compact`."""
    consumer_groups: Sequence[str] = ()
    """Groups outside the pipeline that read the topic too: records they have not committed are not purged."""
    schema: str | Avro | None = None
    """The fields of a value, a JSON object, as Spark's DDL: "user string, at timestamp"; or `Avro`. Stages then read
    and write `value` as a struct. None: `value` is bytes."""
    malformed: Literal["stop"] | DeadLetters = "stop"
    """What becomes of a record whose value is not as `schema` says: it stops the stages that read it, or is written to
    a topic of dead letters and left out."""


@dataclass(frozen=True)
class Files:
    """A sink of files: Spark's file sink, exactly once."""

    path: str
    format: str = "parquet"
    partition_by: Sequence[str] = ()


@dataclass(frozen=True)
class Batches:
    """A sink that calls a function with each micro-batch and its id, at least once: Spark's foreachBatch. A batch that
    is passed again has the same id and, where the stage keeps no state, the same rows."""

    function: Callable[[DataFrame, int], None]


@dataclass(frozen=True)
class Stage:
    """One streaming query: its sources, a function, and its sink."""

    name: str
    """Also the name of the query and of its checkpoint's folder."""
    function: StageFunction
    reads: str | Source | Sequence[str | Source] = ()
    """Names of topics, or functions that make a DataFrame of the session."""
    writes: str | Files | Batches = ""
    """The name of a topic, or another sink."""
    output_mode: str = "append"
    trigger_interval_ms: int | None = None
    """Milliseconds between the starts of micro-batches; None: the pipeline's interval."""
    source_options: Mapping[str, str] = field(default_factory=dict)
    """Options of Spark's Kafka source for each topic: maxOffsetsPerTrigger, kafka.*, startingOffsets (earliest by
    default)."""
    sink_options: Mapping[str, str] = field(default_factory=dict)
    checkpoint: str | None = None
    """Location of the checkpoint; None: a folder with the stage's name in the pipeline's `checkpoints`."""

    @property
    def sources(self) -> tuple[str | Source, ...]:
        return (self.reads,) if isinstance(self.reads, str) or callable(self.reads) else tuple(self.reads)

    @property
    def topics_read(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(source for source in self.sources if isinstance(source, str)))

    def source_option(self, name: str) -> str | None:
        """The value of one of `source_options`. Spark ignores the case of names."""
        return next((value for key, value in self.source_options.items() if key.lower() == name.lower()), None)

    @property
    def topic_written(self) -> str | None:
        return self.writes if isinstance(self.writes, str) else None

    def __str__(self) -> str:
        reads = ", ".join(self.topics_read) or "no topic"
        sink = type(self.writes).__name__.lower()
        return f"stage {self.name!r} (reads {reads}, writes {self.topic_written or sink})"


def _as_they_are(dead_letters: DataFrame) -> DataFrame:
    return dead_letters


@dataclass(frozen=True)
class DeadLetterStage(Stage):
    """Writes the malformed records of one topic to its topic of dead letters. A pipeline adds it by itself."""

    @classmethod
    def of(cls, topic: str, dead_letters: DeadLetters, readers: Sequence[Stage]) -> DeadLetterStage:
        """It reads with the options of the readers, but from the beginning: a start at the end would be another one
        than theirs. Raises `DeclarationError` if their options differ."""
        options = readers[0].source_options
        if any(reader.source_options != options for reader in readers):
            names = " and ".join(repr(reader.name) for reader in readers)
            raise DeclarationError(
                f"stages {names} read topic {topic!r} with different source_options: "
                "its dead letters would not be those of both"
            )
        kept = {key: value for key, value in options.items() if not key.lower().startswith("starting")}
        name = f"{topic}-dead-letters"
        return cls(name, _as_they_are, reads=topic, writes=dead_letters.topic, source_options=kept)


@dataclass(frozen=True)
class PipelineDeclaration:
    """Stages joined by topics. Raises `DeclarationError` where they do not fit together. `Pipeline` can also run."""

    name: str
    stages: Sequence[Stage]
    topics: Sequence[Topic] = ()
    """Topics with declared properties; a topic that a stage names may be left out."""
    kafka: Kafka = field(default_factory=Kafka)
    checkpoints: str = "checkpoints"
    """Folder of the stages' checkpoints: a path, or a URI that Spark can write to."""
    directory: str = "."
    """Folder that relative paths of checkpoints and `Files` start from. For a pipeline read from a file: its folder."""
    trigger_interval_ms: int = 1000
    purge_interval_ms: int = 1000
    """Least milliseconds between two purges; one purge covers everything committed since the last."""
    max_offsets_per_trigger: int | None = 500_000
    """Records that a micro-batch reads of a topic, unless the stage's `source_options` say it (maxOffsetsPerTrigger).
    A purged topic that holds more records has the stage that writes it wait for its readers. None: no limit."""
    spark_settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of a session that is started for this pipeline."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "stages", self._with_dead_letters())
        for check in (_check_stages, _check_topics, _check_options, _check_checkpoints):
            check(self)
        self.in_order()

    def _with_dead_letters(self) -> Sequence[Stage]:
        """The stages, and one for the dead letters of each topic that has some and is read."""
        given = [stage for stage in self.stages if not isinstance(stage, DeadLetterStage)]
        added = [
            DeadLetterStage.of(topic.name, topic.malformed, readers)
            for topic in self.topics
            if isinstance(topic.malformed, DeadLetters)
            and (readers := [stage for stage in given if topic.name in stage.topics_read])
        ]
        return (*given, *added)

    def in_order(self) -> tuple[Stage, ...]:
        """The stages, each after the stages that write its topics. Raises `DeclarationError` for a cycle."""
        left, ordered = [*self.stages], list[Stage]()
        while left:
            written = {stage.topic_written for stage in left}
            ready = [stage for stage in left if not written & {*stage.topics_read}]
            if not ready:
                raise DeclarationError(f"stages read what they write, in a circle: {_circle(left)}")
            ordered += ready
            left = [stage for stage in left if stage not in ready]
        return tuple(ordered)

    def topic(self, name: str) -> Topic:
        """The declaration of a topic; the default one if there is none."""
        return next((topic for topic in self.topics if topic.name == name), Topic(name))

    def topic_names(self) -> list[str]:
        """The topics that stages read or write, in the order of the stages."""
        names = (name for stage in self.in_order() for name in (*stage.topics_read, stage.topic_written) if name)
        return list(dict.fromkeys(names))

    def readers(self, topic: str) -> list[Stage]:
        return [stage for stage in self.stages if topic in stage.topics_read]

    def is_between(self, topic: str) -> bool:
        """Whether one stage writes the topic and another one reads it."""
        return bool(self.readers(topic)) and any(stage.topic_written == topic for stage in self.stages)

    def purged_topics(self) -> list[Topic]:
        """The topics whose consumed records are deleted."""
        topics = [self.topic(name) for name in self.topic_names() if self.readers(name)]
        return [
            topic
            for topic in topics
            if (
                topic.purge
                if topic.purge is not None
                else self.is_between(topic.name) and topic.configs.get("cleanup.policy", "").strip() != "compact"
            )
        ]

    def located(self, path: str) -> str:
        """Make a path of this declaration absolute; a URI stays as it is."""
        return path if HAS_SCHEME.match(path) else str(Path(self.directory).absolute() / path)

    def checkpoint_of(self, stage: Stage) -> str:
        return self.located(stage.checkpoint or os.path.join(self.checkpoints, stage.name))

    def with_kafka(self: Declared, bootstrap_servers: str = "", settings: Mapping[str, str] | None = None) -> Declared:
        """The same pipeline on another cluster or as another user; an empty argument changes nothing."""
        kafka = replace(
            self.kafka,
            bootstrap_servers=bootstrap_servers or self.kafka.bootstrap_servers,
            settings={**self.kafka.settings, **(settings or {})},
        )
        return replace(self, kafka=kafka)


def _each_topic(pipeline: PipelineDeclaration) -> Iterator[tuple[Stage, str]]:
    for stage in pipeline.stages:
        for name in (*stage.topics_read, stage.topic_written):
            if name is not None:
                yield stage, name


def _check_stages(pipeline: PipelineDeclaration) -> None:
    if not pipeline.stages:
        raise DeclarationError(f"pipeline {pipeline.name!r} has no stage")
    names = [stage.name for stage in pipeline.stages]
    for stage in pipeline.stages:
        if not STAGE_NAME.fullmatch(stage.name) or stage.name in (".", ".."):
            raise DeclarationError(f"stage {stage.name!r}: a name has letters, digits, '.', '_' and '-', up to 100")
        if names.count(stage.name) > 1:
            raise DeclarationError(f"there are two stages {stage.name!r}: their names are those of their checkpoints")
        if not stage.sources:
            raise DeclarationError(f'{stage} has no source: reads="a-topic" gives it one')
        for source in stage.sources:
            if source == "" or not (isinstance(source, str) or callable(source)):
                raise DeclarationError(
                    f"stage {stage.name!r} reads {source!r}: a topic's name, or a function of the session"
                )
        if stage.writes == "" or not isinstance(stage.writes, (str, Files, Batches)):
            raise DeclarationError(f'{stage} has no sink: writes="a-topic", Files(path) or Batches(function)')
        if not callable(stage.function):
            raise DeclarationError(f"{stage}: {stage.function!r} is no function")
        if stage.output_mode not in OUTPUT_MODES:
            raise DeclarationError(f"{stage}: output_mode {stage.output_mode!r} is none of {', '.join(OUTPUT_MODES)}")
    for interval in (pipeline.trigger_interval_ms, *(stage.trigger_interval_ms for stage in pipeline.stages)):
        if interval is not None and interval < 0:
            raise DeclarationError(f"trigger_interval_ms is {interval}: 0 (batch after batch) or more milliseconds")
    if pipeline.max_offsets_per_trigger is not None and pipeline.max_offsets_per_trigger < 1:
        raise DeclarationError(
            f"max_offsets_per_trigger is {pipeline.max_offsets_per_trigger}: at least 1 record, or None for no limit"
        )


def _check_topics(pipeline: PipelineDeclaration) -> None:
    names = [topic.name for topic in pipeline.topics]
    used = {name for _, name in _each_topic(pipeline)}
    for topic in pipeline.topics:
        if names.count(topic.name) > 1:
            raise DeclarationError(f"topic {topic.name!r} is declared twice")
        if topic.name not in used:
            raise DeclarationError(f"topic {topic.name!r} is declared, and no stage reads or writes it")
        if topic.partitions is not None and topic.partitions < 1:
            raise DeclarationError(f"topic {topic.name!r} has {topic.partitions} partitions: at least 1")
        if isinstance(topic.consumer_groups, str):
            raise DeclarationError(f"topic {topic.name!r}: consumer_groups is a list, ({topic.consumer_groups!r},)")
        _check_schema(topic)
        if topic.malformed != "stop" and not isinstance(topic.malformed, DeadLetters):
            raise DeclarationError(
                f'topic {topic.name!r}: malformed={topic.malformed!r} is neither "stop" nor DeadLetters'
            )
        if isinstance(topic.malformed, DeadLetters):
            if topic.schema is None:
                raise DeclarationError(f"topic {topic.name!r} has dead letters and no schema that says which these are")
            if not topic.malformed.topic or pipeline.topic(topic.malformed.topic).schema is not None:
                raise DeclarationError(
                    f"topic {topic.name!r}: its dead letters need a topic without a schema, "
                    f"not {topic.malformed.topic!r}"
                )
        if topic.purge and not pipeline.readers(topic.name):
            raise DeclarationError(f"topic {topic.name!r} is to be purged, and no stage reads it")


def _check_schema(topic: Topic) -> None:
    if isinstance(topic.schema, Avro):
        if topic.schema.schema is not None and not _is_record(topic.schema.schema):
            raise DeclarationError(f"topic {topic.name!r}: its Avro schema is no record in JSON")
        if topic.schema.registers and topic.schema.schema is None:
            raise DeclarationError(f"topic {topic.name!r} registers an Avro schema, and declares none")
    elif topic.schema is not None and not isinstance(topic.schema, str):
        raise DeclarationError(f"topic {topic.name!r}: schema={topic.schema!r} is neither fields as text nor Avro()")
    elif topic.schema is not None and not topic.schema.strip():
        raise DeclarationError(f'topic {topic.name!r} has an empty schema: "user string, at timestamp"')


def _is_record(schema: str) -> bool:
    try:
        found = json.loads(schema)
    except (ValueError, TypeError):
        return False
    return isinstance(found, dict) and found.get("type") == "record"


def _check_options(pipeline: PipelineDeclaration) -> None:
    for stage in pipeline.stages:
        for key, value in {**stage.source_options, **stage.sink_options}.items():
            if key.lower() == "failondataloss" and str(value).lower() != "true":
                raise DeclarationError(
                    f"{stage}: failOnDataLoss stays true, or records that were lost would be missed in silence"
                )
            if key.lower() in RESERVED_OPTIONS:
                raise DeclarationError(
                    f"{stage}: option {key} is not for a stage to set, {RESERVED_OPTIONS[key.lower()]}"
                )


def _check_checkpoints(pipeline: PipelineDeclaration) -> None:
    writers: dict[str, Stage] = {}
    for stage in pipeline.stages:
        location = pipeline.checkpoint_of(stage)
        location = location if HAS_SCHEME.match(location) else os.path.realpath(location)
        if other := writers.get(location):
            raise DeclarationError(f"{other} and {stage} have one checkpoint, {location}: each query needs its own")
        writers[location] = stage


def _circle(stages: Sequence[Stage]) -> str:
    """Name the stages and topics of a cycle. Every one of these stages reads a topic that another one writes."""
    writer_of = {stage.topic_written: stage for stage in stages}
    path, stage = list[Stage](), stages[0]
    while stage not in path:
        path.append(stage)
        stage = next(writer_of[topic] for topic in stage.topics_read if topic in writer_of)
    circle = [*reversed(path[path.index(stage) :])]
    circle = circle[-1:] + circle[:-1]
    return " → ".join(f"{one.name} → {one.topic_written}" for one in circle) + f" → {circle[0].name}"
