"""Instructions that the broker executes for a request, which other work on the machine does not change.

The broker runs under `valgrind --tool=callgrind` (the package valgrind, with vgdb), and a raw socket asks it. Each case
is counted over N requests and over 2N; the difference, divided by N, is its figure. System calls count as the
instructions in front of them: the kernel's are not seen, so `strace -c` counts the calls in a second run.

produce    one record of 100 bytes, acks=1
all        the same with acks=all, on one broker
idempotent that with the next sequence of an idempotent producer (KIP-98), as Java sends by default
bulk       256 records of 1 KB in one batch, acks=1, as librdkafka sends them in the bulk of `roundtrip.py`
fetch      a fetch of one record that is there
poll       one record from its producer to a consumer that waits for it: the produce, the release of the fetch, and the
           next fetch, which waits. Produce taken off, it is what a fetch by long polling costs.
session    the same where the consumer has a fetch session (KIP-227)
replicas   acks=all over three replicas, on three brokers in one process: with the fetches of both followers

    instructions.py [--before PATH] [--requests 300] [--allocations | --syscalls | --calls] [case…]

PATH is a checkout of another commit with its kernels compiled, as for pairs.py. `--command 'peer {port} {data_dir}'`
counts another server, too, where it serves these requests.
"""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from pairs import serve
from peers import DATA_DIR, ServerProcess, apache_kafka
from raw_client import Client
from raw_client import framed as framed_as

from kmini import Cluster
from kmini.client import Address
from kmini.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kmini.protocol.messages.create_topics import CreateTopicsRequest
from kmini.protocol.messages.fetch import FetchRequest, FetchResponse
from kmini.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kmini.protocol.messages.produce import ALL_IN_SYNC, ProduceRequest, ProduceResponse
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.schema import Request, Response

ROOT = Path(__file__).resolve().parent.parent
TOPIC = "counted"
WARM_UP = 100
PRODUCE, FETCH, METADATA, CREATE_TOPICS = 9, 12, 9, 5
"""Versions of the requests, at most."""
LONG_MS = 30_000
TIMEOUT_S = 120
"""Seconds to wait for an answer: a server is slow in callgrind."""
CLIENT_ID = "rdkafka"


def framed(request: Request, version: int) -> bytes:
    return framed_as(request, version, CLIENT_ID)


def answered(response: type[Response], content: bytes, version: int) -> Response:
    body = content[4 + response.header_version(version) :]
    return response.decode(body, version)


class Cases:
    """A producer and a consumer of a server, and what they ask in each case. Without a process, the server is in this
    one."""

    def __init__(self, port: int, process: ServerProcess | None = None) -> None:
        self.process = process
        address = Address("127.0.0.1", port)
        self.producer, self.consumer = Client(address, TIMEOUT_S), Client(address, TIMEOUT_S)
        answer = self.producer.ask(framed(ApiVersionsRequest(), 0))
        served = answered(ApiVersionsResponse, answer, 0).api_keys  # type: ignore[attr-defined]
        highest = {one.api_key: one.max_version for one in served}
        self.versions = {
            request.api_key: min(version, highest.get(request.api_key, -1))
            for request, version in (
                (ProduceRequest, PRODUCE),
                (FetchRequest, FETCH),
                (MetadataRequest, METADATA),
                (CreateTopicsRequest, CREATE_TOPICS),
            )
        }
        self.session_id, self.session_epoch = 0, -1
        self.next_offset = 0
        self.next_sequence = 0
        self._records = [Record(0, time.time_ns() // 1_000_000, None, b"x" * 100, ())]
        self._produce = {acks: self.produce_frame(acks, build_batch(self._records)) for acks in (1, ALL_IN_SYNC)}

        bulk = [Record(number, time.time_ns() // 1_000_000, None, b"z" * 1_000, ()) for number in range(256)]
        self._bulk = self.produce_frame(1, build_batch(bulk))

    def create_topic(self, replicas: int) -> None:
        if self.versions[CreateTopicsRequest.api_key] >= 0:
            topic = CreateTopicsRequest.Topic(
                name=TOPIC, num_partitions=1, replication_factor=replicas, assignments=[], configs=[]
            )
            request = CreateTopicsRequest(topics=[topic], timeout_ms=LONG_MS)
            self.producer.ask(framed(request, self.versions[request.api_key]))
        version = self.versions[MetadataRequest.api_key]
        metadata = MetadataRequest(topics=[MetadataRequest.Topic(name=TOPIC)])
        answer = self.producer.ask(framed(metadata, version))
        if replicas > 1:
            found = answered(MetadataResponse, answer, version)
            ports = {broker.node_id: broker.port for broker in found.brokers}  # type: ignore[attr-defined]
            leader = found.topics[0].partitions[0].leader_id  # type: ignore[attr-defined]
            address = Address("127.0.0.1", ports[leader])
            self.producer, self.consumer = Client(address, TIMEOUT_S), Client(address, TIMEOUT_S)

    def produce_frame(self, acks: int, batch: bytearray) -> bytes:
        data = ProduceRequest.Topic.Partition(index=0, records=batch)
        topics = [ProduceRequest.Topic(name=TOPIC, partition_data=[data])]
        request = ProduceRequest(acks=acks, timeout_ms=LONG_MS, topic_data=topics)
        return framed(request, self.versions[ProduceRequest.api_key])

    def produce(self, acks: int = 1) -> None:
        self.appended(self.producer.ask(self._produce[acks]))

    def produce_next(self) -> None:
        """Produce with the next sequence of producer 1."""
        batch = build_batch(self._records, producer_id=1, producer_epoch=0, base_sequence=self.next_sequence)
        self.next_sequence += 1
        self.appended(self.producer.ask(self.produce_frame(ALL_IN_SYNC, batch)))

    def appended(self, content: bytes) -> None:
        """Check that a produce has appended its record."""
        answer = answered(ProduceResponse, content, self.versions[ProduceRequest.api_key])
        partition = answer.responses[0].partition_responses[0]  # type: ignore[attr-defined]
        if partition.error_code:
            raise RuntimeError(f"error {partition.error_code}")
        self.next_offset = partition.base_offset + 1

    def fetch_frame(self, offset: int) -> bytes:
        wanted = FetchRequest.Topic.Partition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=LONG_MS,
            min_bytes=1,
            max_bytes=1 << 24,
            session_id=self.session_id,
            session_epoch=self.session_epoch,
            topics=[FetchRequest.Topic(topic=TOPIC, partitions=[wanted])],
        )
        return framed(request, self.versions[FetchRequest.api_key])

    def fetched(self, content: bytes) -> None:
        """Check that the answer to a fetch has one batch, and go on with the session."""
        answer = answered(FetchResponse, content, self.versions[FetchRequest.api_key])
        records = answer.responses[0].partitions[0].records  # type: ignore[attr-defined]
        if not records:
            raise RuntimeError(f"no records: {answer}")
        if self.session_epoch >= 0:
            self.session_id, self.session_epoch = answer.session_id, self.session_epoch + 1  # type: ignore[attr-defined]

    def until_idle(self) -> None:
        """Return when the server waits for input: what it was sent is done, or waits."""
        if self.process is None:
            time.sleep(0.005)
            return
        stat = Path(f"/proc/{self.process.pid}/stat")
        seen = 0
        while seen < 3:
            seen = seen + 1 if stat.read_text().rpartition(")")[2].split()[0] == "S" else 0
            time.sleep(0.0005)

    # --- the cases: each is a function of how many requests

    def case_produce(self, count: int) -> None:
        for _ in range(count):
            self.produce()

    def case_all(self, count: int) -> None:
        for _ in range(count):
            self.produce(ALL_IN_SYNC)

    def case_idempotent(self, count: int) -> None:
        for _ in range(count):
            self.produce_next()

    def case_bulk(self, count: int) -> None:
        for _ in range(count):
            self.appended(self.producer.ask(self._bulk))

    def case_fetch(self, count: int) -> None:
        frame = self.fetch_frame(self.next_offset - 1)
        for _ in range(count):
            self.fetched(self.consumer.ask(frame))

    def case_poll(self, count: int) -> None:
        self.consumer.send(self.fetch_frame(self.next_offset))
        for number in range(count):
            self.until_idle()
            self.produce()
            self.fetched(self.consumer.receive())
            if number < count - 1:
                self.consumer.send(self.fetch_frame(self.next_offset))

    def case_session(self, count: int) -> None:
        self.session_id, self.session_epoch = 0, 0
        self.case_poll(count)
        self.session_id, self.session_epoch = 0, -1

    case_replicas = case_all


REPLICAS = {"replicas": 3}
CASES = ("produce", "all", "idempotent", "bulk", "fetch", "poll", "session", "replicas")


@contextmanager
def launched(command: list[str], *, replicas: int) -> Iterator[Cases]:
    """A server in a directory of its own, with the topic, warmed up."""
    with tempfile.TemporaryDirectory(prefix="bench-instructions-") as directory:
        parts = [part.replace(DATA_DIR, f"{directory}/data") for part in command]
        own_port = 0 if "kmini" in parts else apache_kafka.free_port()
        process = ServerProcess(parts, Path(directory) / "log", port=own_port)
        try:
            broker = Cases(process.port, process)
            broker.create_topic(replicas)
            yield broker
        finally:
            process.kill()


def measured(broker: Cases, case: str, requests: int, read: Callable[[], int]) -> float:
    """What `read` counts for each request of a case, by the difference between N and 2N of them."""
    run = getattr(broker, f"case_{case}")
    broker.produce()
    run(WARM_UP)
    counted = []
    for count in (requests, 2 * requests):
        broker.until_idle()
        before = read()
        run(count)
        broker.until_idle()
        counted.append(read() - before)
    return (counted[1] - counted[0]) / requests


def total_of(profile: str) -> int:
    """The instructions of a dump of callgrind."""
    found = re.search(r"^(?:totals|summary): (\d+)", profile, re.MULTILINE)
    assert found is not None
    return int(found[1])


def allocations_of(profile: str) -> int:
    """The allocations of a dump of callgrind: calls of the interpreter's allocator."""
    called = re.search(r"^c?fn=\((\d+)\) _PyObject_Malloc$", profile, re.MULTILINE)
    if called is None:  # none yet, or the interpreter has no symbols
        return 0
    return sum(map(int, re.findall(rf"^cfn=\({called[1]}\).*\ncalls=(\d+)", profile, re.MULTILINE)))


def in_callgrind(command: list[str], case: str, requests: int, count: Callable[[str], int] = total_of) -> float:
    """What `count` finds for a request in the dumps of callgrind."""
    with tempfile.TemporaryDirectory(prefix="bench-callgrind-") as directory:
        out = Path(directory) / "out"
        valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}"]
        at = next(number for number, word in enumerate(command) if word != "env" and "=" not in word)
        words = ["env", "PYTHONHASHSEED=0", *command[:at], *valgrind, *command[at:]]
        with launched(words, replicas=REPLICAS.get(case, 1)) as broker:
            assert broker.process is not None
            pid = str(broker.process.pid)
            total = 0

            def read() -> int:
                """The count so far: each dump has what happened since the dump before it."""
                nonlocal total
                vgdb(pid, "dump")
                newest = max(Path(directory).glob("out.*"), key=lambda path: int(path.suffix[1:]))
                total += count(newest.read_text())
                return total

            vgdb(pid, "instrumentation on")
            return measured(broker, case, requests, read)


def vgdb(pid: str, command: str) -> None:
    subprocess.run(
        ["vgdb", f"--pid={pid}", *command.split()], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def system_calls(command: list[str], case: str, requests: int) -> dict[str, float]:
    """System calls of a request by name, by strace."""
    with launched(command, replicas=REPLICAS.get(case, 1)) as broker, tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "out"
        broker.produce()
        getattr(broker, f"case_{case}")(WARM_UP)
        assert broker.process is not None
        words = ["strace", "-f", "-c", "-U", "calls,name", "-o", str(out), "-p", str(broker.process.pid)]
        with subprocess.Popen(words, stderr=subprocess.DEVNULL) as strace:
            time.sleep(1)
            getattr(broker, f"case_{case}")(requests)
            broker.until_idle()
            strace.terminate()
        rows = [line.split() for line in out.read_text().splitlines()]
        return {
            row[1]: int(row[0]) / requests for row in rows if len(row) == 2 and row[0].isdigit() and row[1] != "total"
        }


def python_calls(case: str, requests: int) -> str:
    """Calls of Python functions and their bytecodes in a request, by `sys.settrace` in a broker of this process."""
    counted = {"calls": 0, "opcode": 0}

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            counted["calls"] += 1
        elif event == "opcode":
            counted["opcode"] += 1
        return trace

    async def set_trace(function: Any) -> None:
        sys.settrace(function)

    replicas = REPLICAS.get(case, 1)
    with Cluster(brokers=replicas) as cluster:
        cluster.create_topic(TOPIC, 1, replicas)
        port = int(cluster.bootstrap_servers.partition(",")[0].rpartition(":")[2])
        client = Cases(port)
        client.create_topic(replicas)
        client.produce()
        run = getattr(client, f"case_{case}")
        run(WARM_UP)
        cluster._thread.run(set_trace(trace))
        run(requests)
        cluster._thread.run(set_trace(None))
    return f"{counted['calls'] / requests:.0f} calls, {counted['opcode'] / requests:,.0f} bytecodes"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="a checkout of the commit to compare with")
    parser.add_argument("--command", help="another server, with {port} and {data_dir}")
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--allocations", action="store_true", help="count allocations of Python objects instead")
    parser.add_argument("--syscalls", action="store_true", help="count system calls instead")
    parser.add_argument(
        "--calls", action="store_true", help="count Python calls and bytecodes instead; only of this commit"
    )
    parser.add_argument("cases", nargs="*", help=", ".join(CASES))
    options = parser.parse_args()
    cases = options.cases or CASES
    if unknown := {*cases} - {*CASES}:
        parser.error(f"there is no case {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    if options.calls:
        for case in cases:
            print(f"{case}: {python_calls(case, options.requests)}", flush=True)
        return
    tool = "strace" if options.syscalls else "valgrind"
    if shutil.which(tool) is None:
        sys.exit(f"{tool} is not installed")
    commands = {"now": serve(ROOT, Path(DATA_DIR))}
    if options.before is not None:
        commands["before"] = serve(options.before.resolve(), Path(DATA_DIR))
    if options.command is not None:
        commands["peer"] = shlex.split(options.command)
    print(f"| a request of case | {' | '.join(commands)} |")
    print(f"|---|{'---:|' * len(commands)}", flush=True)
    for case in cases:
        cells = []
        for name, command in commands.items():
            words = [*command, *(("--brokers", "3") if case in REPLICAS and name != "peer" else ())]
            if options.syscalls:
                calls = system_calls(words, case, options.requests)
                cells.append(", ".join(f"{name} {count:.1f}" for name, count in calls.items() if count >= 0.1))
            else:
                count = allocations_of if options.allocations else total_of
                cells.append(f"{in_callgrind(words, case, options.requests, count):,.0f}")
        print(f"| {case} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
