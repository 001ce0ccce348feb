"""What any client writes, in any codec, every other client reads back as it was written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.client_adapters import CODECS, Client, Received, Sent, create_topic, make_records
from support.server_process import ServerProcess

CLIENTS = ("kafka-python", "aiokafka", "confluent-kafka", "kcat", "java")
RECORDS = 4_000
"""Written by each client with each codec: 5 × 5 × 4,000 = 100,000 in a run."""


class Written:
    """The topic one client wrote: a partition for each codec."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.records: dict[str, list[Sent]] = {}
        self.first_read: dict[str, list[Received]] = {}
        """What the first reader saw, by codec: where the writer left the timestamp to its client, all must agree."""


@pytest.fixture(scope="module")
def written(
    server: ServerProcess, client: Callable[[str], Client], topic_names: Callable[[str], str]
) -> Callable[[str], Written]:
    """Give the topic a client wrote, writing it at the first call."""
    topics: dict[str, Written] = {}

    def write(writer: str) -> Written:
        adapter = client(writer)
        if writer not in topics:
            topics[writer] = topic = Written(topic_names(writer))
            create_topic(server.bootstrap_servers, topic.topic, partitions=len(CODECS))
            for partition, codec in enumerate(CODECS):
                records = adapter.sayable(make_records(RECORDS, seed=(writer, codec)))
                offsets = adapter.produce(server.bootstrap_servers, topic.topic, partition, records, codec)
                assert offsets == [*range(RECORDS)]
                topic.records[codec] = records
        assert topics[writer].records.keys() == {*CODECS}, f"{writer} could not write its records"
        return topics[writer]

    return write


def exchanges() -> list[Any]:
    """Each client as writer and as reader of two others; `make soak` has all pairs."""
    names = [*CLIENTS]
    return [
        pytest.param(writer, reader, marks=[] if (there - here) % len(names) in (1, 2) else pytest.mark.soak)
        for here, writer in enumerate(names)
        for there, reader in enumerate(names)
    ]


@pytest.mark.parametrize(("writer", "reader"), exchanges())
def test_every_client_reads_what_any_client_writes(
    writer: str, reader: str, server: ServerProcess, client: Callable[[str], Client], written: Callable[[str], Written]
) -> None:
    topic, adapter = written(writer), client(reader)
    for partition, codec in enumerate(CODECS):
        received = adapter.consume(server.bootstrap_servers, topic.topic, partition, RECORDS)
        first_read = topic.first_read.setdefault(codec, received)
        assert [r.offset for r in received] == [*range(RECORDS)]
        assert [r.timestamp for r in received] == [r.timestamp for r in first_read]
        for sent, got in zip(topic.records[codec], received, strict=True):
            assert sent.timestamp in (None, got.timestamp)
            assert (sent.key, sent.value, sent.headers) == (got.key, got.value, got.headers)
