"""kafka-python 2.0, speaking as it did to a broker of old: `kafka_python_2.py WHAT SERVERS TOPIC API_VERSION …`.

It runs in a process of its own, because another release of it is installed beside the tests. API_VERSION is what it
shall take the broker for, such as 0.9. WHAT is

- `produce … CODEC`: send the records on stdin, a line of JSON each: [timestamp, key, value], bytes in base64; print the
  list of their offsets
- `consume … COUNT [GROUP]`: print so many records of partition 0, from its start on, a line of JSON each:
  [offset, timestamp, key, value]; with a GROUP of all partitions, as one of its members
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

RELEASE = "2.0.6"
FOLDER = Path(__file__).resolve().parents[2] / ".peers" / f"kafka-python-{RELEASE}"
"""Where `make test` puts it; KMINI_OLD_CLIENT names another place."""
TIMEOUT_S = 30.0


class OldRecord(NamedTuple):
    """All that a message can say, and such a client knows."""

    offset: int | None
    timestamp: int | None
    key: bytes | None
    value: bytes | None


def folder() -> Path:
    return Path(os.environ.get("KMINI_OLD_CLIENT", FOLDER))


def why_unavailable() -> str:
    return (
        ""
        if (folder() / "kafka").is_dir()
        else f"kafka-python {RELEASE} is not in {folder().name} (make test fetches it)"
    )


def produce(servers: str, topic: str, api_version: str, codec: str, records: Sequence[OldRecord]) -> list[int]:
    """The offsets that the records got in partition 0."""
    lines = [json.dumps([r.timestamp, _text(r.key), _text(r.value)]) for r in records]
    (answer,) = _run("produce", servers, topic, api_version, codec, stdin="\n".join(lines))
    offsets: list[int] = json.loads(answer)
    return offsets


def consume(servers: str, topic: str, api_version: str, count: int, group: str = "") -> list[OldRecord]:
    lines = _run("consume", servers, topic, api_version, str(count), *([group] if group else []))
    fields = (json.loads(line) for line in lines)
    return [OldRecord(offset, timestamp, _bytes(key), _bytes(value)) for offset, timestamp, key, value in fields]


def _run(*arguments: str, stdin: str = "") -> list[str]:
    finished = subprocess.run(
        [sys.executable, __file__, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=3 * TIMEOUT_S,
        check=False,
        env={**os.environ, "PYTHONPATH": str(folder())},
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    return finished.stdout.splitlines()


def _text(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


# In the process


def _produce(servers: str, topic: str, api_version: tuple[int, ...], codec: str) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=servers,
        api_version=api_version,
        compression_type=None if codec == "none" else codec,
        linger_ms=5,
        acks="all",
    )
    futures = []
    for line in sys.stdin:
        timestamp, key, value = json.loads(line)
        at = {} if timestamp is None else {"timestamp_ms": timestamp}
        futures.append(producer.send(topic, _bytes(value), _bytes(key), partition=0, **at))
    producer.flush(TIMEOUT_S)
    print(json.dumps([future.get(TIMEOUT_S).offset for future in futures]))
    producer.close(5)


def _consume(servers: str, topic: str, api_version: tuple[int, ...], count: int, group: str | None = None) -> None:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=servers, api_version=api_version, group_id=group, auto_offset_reset="earliest"
    )
    if group is None:
        consumer.assign([TopicPartition(topic, 0)])
    else:
        consumer.subscribe([topic])
    deadline = time.monotonic() + TIMEOUT_S
    while count > 0 and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=500).values():
            for record in records:
                count -= 1
                print(json.dumps([record.offset, record.timestamp, _text(record.key), _text(record.value)]))
    consumer.close()


if __name__ == "__main__":
    what, servers, topic, version, *rest = sys.argv[1:]
    api_version = tuple(map(int, version.split(".")))
    if what == "produce":
        _produce(servers, topic, api_version, rest[0])
    else:
        _consume(servers, topic, api_version, int(rest[0]), *rest[1:])
