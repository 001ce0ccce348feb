"""Clients from before record batches: kafka-python 2 as it speaks to brokers of 0.8.2 to 0.10.2."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from support import kafka_python_2
from support.client_adapters import Client, Sent, create_topic
from support.for_each import sampled
from support.kafka_python_2 import OldRecord
from support.server_process import ServerProcess

RELEASES = ("0.8.2", "0.9", "0.10.0", "0.10.2")
"""Produce and Fetch 0; 1; 2 and 2; 2 and 3."""
CODECS = ("none", "gzip", "snappy", "lz4")
COUNT = 500


@pytest.fixture(autouse=True)
def _need_old_client(against_kafka: bool) -> None:
    if reason := kafka_python_2.why_unavailable():
        pytest.skip(reason)
    if against_kafka:
        pytest.skip("Apache Kafka 4 has forgotten these versions")


def has_timestamps(release: str) -> bool:
    return release >= "0.10" and release != "0.9" and not release.startswith("0.8")


def some_records(*, with_timestamps: bool = True) -> list[OldRecord]:
    now = time.time_ns() // 1_000_000
    return [
        OldRecord(
            number,
            now - COUNT + number if with_timestamps else None,
            None if number % 5 == 0 else b"key %d" % number,
            b"" if number % 7 == 0 else b"value %d " % number * (number % 40),
        )
        for number in range(COUNT)
    ]


def received(records: list[OldRecord], release: str) -> list[OldRecord]:
    """What a client of that time gets of them."""
    return [record if has_timestamps(release) else record._replace(timestamp=None) for record in records]


@pytest.mark.parametrize("codec", sampled(CODECS, "none", "lz4"))
@pytest.mark.parametrize("release", RELEASES)
def test_an_old_client_reads_what_it_wrote(
    server: ServerProcess, topic_names: Callable[[str], str], release: str, codec: str
) -> None:
    topic = topic_names("old")
    create_topic(server.bootstrap_servers, topic)
    records = some_records(with_timestamps=has_timestamps(release))
    offsets = kafka_python_2.produce(server.bootstrap_servers, topic, release, codec, records)
    assert offsets == [*range(COUNT)]
    assert kafka_python_2.consume(server.bootstrap_servers, topic, release, COUNT) == received(records, release)


@pytest.mark.parametrize("codec", CODECS)
def test_old_clients_and_a_new_one_read_each_other(
    server: ServerProcess, topic_names: Callable[[str], str], client: Callable[[str], Client], codec: str
) -> None:
    topic = topic_names("mixed")
    create_topic(server.bootstrap_servers, topic)
    new = client("kafka-python")
    expected: list[OldRecord] = []
    for release in RELEASES:
        old_records = some_records(with_timestamps=has_timestamps(release))
        new_records = some_records()
        sent = [Sent(r.timestamp, r.key, r.value, (("trace", b"1"),)) for r in new_records]
        kafka_python_2.produce(server.bootstrap_servers, topic, release, codec, old_records)
        new.produce(server.bootstrap_servers, topic, 0, sent, codec)
        expected += [*old_records, *new_records]
    expected = [record._replace(offset=offset) for offset, record in enumerate(expected)]
    for release in RELEASES:
        read = kafka_python_2.consume(server.bootstrap_servers, topic, release, len(expected))
        if not has_timestamps(release):
            assert read == received(expected, release)
        else:  # what was written without timestamps has none
            assert [(r.offset, r.timestamp if r.timestamp != -1 else None, *r[2:]) for r in read] == expected
    read_by_new = new.consume(server.bootstrap_servers, topic, 0, len(expected))
    assert [(r.offset, r.timestamp if r.timestamp != -1 else None, r.key, r.value) for r in read_by_new] == expected
    assert sum(bool(r.headers) for r in read_by_new) == COUNT * len(RELEASES)


@pytest.mark.parametrize("release", RELEASES)
def test_what_an_old_client_cannot_read_is_an_error_and_no_silence(
    server: ServerProcess, topic_names: Callable[[str], str], client: Callable[[str], Client], release: str
) -> None:
    topic = topic_names("zstd")
    create_topic(server.bootstrap_servers, topic)
    client("kafka-python").produce(server.bootstrap_servers, topic, 0, [Sent(None, None, b"v" * 1_000, ())], "zstd")
    with pytest.raises(AssertionError, match="Error"):
        kafka_python_2.consume(server.bootstrap_servers, topic, release, 1)


@pytest.mark.parametrize("release", RELEASES[1:])
def test_an_old_client_is_a_member_of_a_group(
    server: ServerProcess, topic_names: Callable[[str], str], release: str
) -> None:
    topic = topic_names("group")
    create_topic(server.bootstrap_servers, topic)
    records = some_records(with_timestamps=has_timestamps(release))
    kafka_python_2.produce(server.bootstrap_servers, topic, release, "none", records)
    read = kafka_python_2.consume(server.bootstrap_servers, topic, release, COUNT, group=topic)
    assert read == received(records, release)
