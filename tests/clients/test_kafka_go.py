"""segmentio's kafka-go, which asks again for ever where an answer has batches and none of them has a record."""

from __future__ import annotations

import subprocess

import pytest

from kmini import Broker
from support import apache_kafka
from support.compacted_topic import CompactedTopic

PROGRAM = apache_kafka.REPOSITORY / ".peers" / "group-clients" / "kafka-go-reader"
KEYS = 100
RECORDS = 20_050


@pytest.fixture(autouse=True)
def _need_program() -> None:
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is missing (`make group-clients` compiles it)")


def test_kafka_go_reads_a_cleaned_log_from_its_beginning(broker: Broker) -> None:
    """Of many segments by a producer that is not idempotent; the last ones hold all that is left."""
    topic = CompactedTopic(broker, segment_bytes=1024 * 1024)
    values = [f"{number} " + "x" * 250 for number in range(RECORDS)]
    for first in range(0, RECORDS, KEYS):
        topic.put_batch(*[(f"key-{number % KEYS}", values[number]) for number in range(RECORDS)[first : first + KEYS]])
    assert len(topic.files()) > 4
    left = [f"{number} key-{number % KEYS} {values[number]}" for number in range(RECORDS)[-KEYS:]]
    broker.topic(topic.name).compact()
    assert [path.stat().st_size for path in topic.files()][:3] == [0, 0, 0]
    assert read(broker, topic.name) == left
    broker.topic(topic.name).compact()
    assert read(broker, topic.name) == left


def read(broker: Broker, topic: str) -> list[str]:
    """Offset, key and value of each record."""
    command = [str(PROGRAM), broker.bootstrap_servers, topic]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=90)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.splitlines()
