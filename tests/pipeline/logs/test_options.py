"""The options of the log source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from kmini.pipeline.log_source import KminiLogSource, LogReader
from kmini.pipeline.logs.options import parse_options
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from support.log_files import Log, batch, errors, offsets, read, reader


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"subscribe": "a", "assign": "{}"}, "exclude each other"),
        ({"colour": "red"}, "there is no option colour"),
        ({"startingOffsets": "latest"}, "can be earliest"),
        ({"endingOffsets": "{"}, "endingOffsets"),
        ({"isolation.level": "serializable"}, "can be read_committed or read_uncommitted"),
        ({"startingTimestamp": "5"}, "filter on the column timestamp"),
        ({"subscribePattern": "("}, "no regular expression"),
        ({"subscribe": "a", "subscribePattern": "a.*"}, "exclude each other"),
        ({"maxPartitionBytes": "0"}, "maxPartitionBytes='0': can be a number of bytes above 0"),
        ({"maxPartitionBytes": "64 miles"}, "maxPartitionBytes"),
        ({"pushDownPredicate": "yes"}, "can be true or false"),
        ({"columns": "key,colour"}, "there is no column colour"),
    ],
)
def test_an_option_that_cannot_be_is_named(log: Log, options: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        reader(log.log_dir, **options)


def test_headers_are_a_column_where_they_are_included_or_named(log: Log) -> None:
    log.segment(0, build_batch([Record(0, 0, None, b"", (("h", b"x"),))]))
    for options in ({"includeHeaders": "true"}, {"columns": "headers,error"}):
        (row,) = read(reader(log.log_dir, **options))
        assert row["headers"] == [{"key": "h", "value": b"x"}]
    (row,) = read(reader(log.log_dir))
    assert "headers" not in row


def test_an_ending_offset_beyond_a_log_of_which_nothing_is_written_down_is_no_loss(log: Log) -> None:
    log.segment(0, batch(0))
    rows = read(reader(log.log_dir, endingOffsets='{"orders": {"0": 99}}'))
    assert (offsets(rows), errors(rows)) == ([*range(5)], [])


def test_the_options_of_sparks_kafka_source_that_change_no_rows_are_taken() -> None:
    options = {"path": "/x", "kafka.bootstrap.servers": "a:1", "failOnDataLoss": "false", "minPartitions": "4"}
    assert parse_options(options) == parse_options({"path": "/x"})


def test_the_size_of_a_split_is_bytes_with_a_unit_or_without() -> None:
    found = [
        parse_options({"path": "/x", "maxPartitionBytes": text}).max_partition_bytes
        for text in ("5", "64m", "1 GB", "2kb")
    ]
    assert found == [5, 64 << 20, 1 << 30, 2 << 10]


def test_a_pattern_matches_the_whole_name_of_a_topic(tmp_path: Path) -> None:
    for topic in ("orders", "orders-eu", "reorders"):
        Log(tmp_path, TopicPartition(topic, 0)).segment(0, batch(0))

    def topics(pattern: str) -> list[str]:
        return sorted({row["topic"] for row in read(reader(tmp_path, subscribePattern=pattern))})

    assert topics("orders") == ["orders"]
    assert topics("orders.*") == ["orders", "orders-eu"]
    assert topics("orders|re.*") == ["orders", "reorders"]


def test_a_column_of_another_type_is_refused(log: Log) -> None:
    source: Callable[[StructType], LogReader] = KminiLogSource({"path": str(log.log_dir)}).reader
    with pytest.raises(ValueError, match="the column offset is of type bigint, not int"):
        source(StructType([StructField("offset", IntegerType())]))
    assert (
        source(StructType([StructField("value", BinaryType()), StructField("error", StringType())])).partitions() == []
    )
