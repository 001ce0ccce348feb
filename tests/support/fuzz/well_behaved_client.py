"""A client that does nothing wrong, in a process of its own: what it sees while others misbehave.

Record by record it produces, fetches what it produced, and notes how long that took. The test process imports
`WellBehavedClient`; the child runs this file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from types import TracebackType
from typing import NamedTuple

PAUSE_S = 0.001
NOISE = os.urandom(2_000)


class Report(NamedTuple):
    """What the client saw; times are those of a produce and a fetch together."""

    records: int
    p50_ms: float
    p99_ms: float
    longest_ms: float
    trouble: str
    """The first error, or what was lost; empty if there was none."""


class WellBehavedClient:
    """Works from `with` on; `report()` ends it."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self._command = [sys.executable, __file__, bootstrap_servers, topic]

    def __enter__(self) -> WellBehavedClient:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise AssertionError(self._process.communicate()[1])
        return self

    def report(self, rounds: int = 0) -> Report:
        """What it has seen, after so many more records."""
        out, err = self._process.communicate(f"{rounds}\n", timeout=60)
        if self._process.returncode:
            raise AssertionError(err)
        return Report(**json.loads(out))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


# --- in the child


def work(bootstrap_servers: str, topic: str) -> Report:
    import select

    from kmini.protocol.messages import FetchRequest, MetadataRequest, ProduceRequest
    from kmini.protocol.records.batch import build_batch
    from kmini.protocol.records.batch_records import decode_all
    from kmini.protocol.records.compression import Codec
    from kmini.protocol.records.record import Record
    from kmini.testing import Wire

    took_ms: list[float] = []
    trouble = ""
    with Wire(bootstrap_servers, client_id="well-behaved") as wire:
        wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name=topic)], allow_auto_topic_creation=True), 9)
        print("ready", flush=True)
        number = offset = 0
        rounds_left: int | None = None
        while not trouble and rounds_left != 0:
            # Every other batch is compressed and of some size: a worker thread has to check it.
            value = b"%d" % number + (NOISE if number % 2 else bytes(90))
            began = time.perf_counter()
            record = Record(0, int(time.time() * 1000), b"k", value)
            batch = build_batch([record], codec=Codec.GZIP if number % 2 else Codec.NONE)
            data = [ProduceRequest.Partition(index=0, records=batch)]
            produced = wire.ask(
                ProduceRequest(
                    acks=-1, timeout_ms=30_000, topic_data=[ProduceRequest.Topic(name=topic, partition_data=data)]
                ),
                9,
            ).responses[0]
            outcome = produced.partition_responses[0]
            wanted = FetchRequest.Partition(partition=0, fetch_offset=outcome.base_offset, partition_max_bytes=1 << 20)
            fetched = wire.ask(
                FetchRequest(
                    max_wait_ms=30_000,
                    min_bytes=1,
                    max_bytes=1 << 20,
                    topics=[FetchRequest.Topic(topic=topic, partitions=[wanted])],
                ),
                12,
            ).responses[0]
            answer = fetched.partitions[0]
            took_ms.append((time.perf_counter() - began) * 1000)
            values = [record.value for record in decode_all(bytes(answer.records))]
            if outcome.error_code or answer.error_code:
                trouble = f"produce answered {outcome.error_code}, fetch {answer.error_code}"
            elif values != [value] or (number and outcome.base_offset != offset + 1):
                trouble = f"record {number} got offset {outcome.base_offset}, and {len(values)} came back"
            number += 1
            offset = outcome.base_offset
            if rounds_left is not None:
                rounds_left -= 1
            elif select.select([sys.stdin], [], [], PAUSE_S)[0]:
                rounds_left = int(sys.stdin.readline())
    took_ms.sort()
    at = len(took_ms)
    return Report(at, took_ms[at // 2], took_ms[at * 99 // 100], took_ms[-1], trouble)


if __name__ == "__main__":
    print(json.dumps(work(*sys.argv[1:])._asdict()))
