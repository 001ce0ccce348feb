"""The command line in this process and in one of its own, and a broker to talk to."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from click.testing import CliRunner, Result

from kmini import Broker
from kmini.cli import kmini
from kmini.client import Client, Connection
from kmini.client.deadline import Deadline
from kmini.client.errors import check
from kmini.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kmini.protocol.errors import MemberIdRequired
from kmini.protocol.messages import JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, SyncGroupRequest


@pytest.fixture
def run() -> Callable[..., Result]:
    """Run `kmini` with these arguments in this process."""

    def invoke(*arguments: object, stdin: str | bytes | None = None, **environment: str) -> Result:
        runner = CliRunner(env={"KAFKA_BOOTSTRAP_SERVERS": None, **environment})
        return runner.invoke(kmini, [str(argument) for argument in arguments], input=stdin, prog_name="kmini")

    return invoke


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def ask(run: Callable[..., Result], broker: Broker) -> Callable[..., Result]:
    """Run a command that is to succeed, against `broker`."""

    def invoke(*arguments: object, stdin: str | bytes | None = None) -> Result:
        result = run(*arguments, stdin=stdin, KAFKA_BOOTSTRAP_SERVERS=broker.bootstrap_servers)
        assert result.exit_code == 0, result.stderr
        return result

    return invoke


@pytest.fixture
def refuse(run: Callable[..., Result], broker: Broker) -> Callable[..., str]:
    """Run a command that is to fail, against `broker`; the sentence that it says."""

    def invoke(*arguments: object, code: int, stdin: str | bytes | None = None) -> str:
        result = run(*arguments, stdin=stdin, KAFKA_BOOTSTRAP_SERVERS=broker.bootstrap_servers)
        assert result.exit_code == code, result.output
        assert isinstance(result.exception, SystemExit)
        told: list[str] = result.stderr.splitlines()
        # A busy machine may be so slow to answer that the command says so first.
        lines = [line for line in told if not line.endswith("(still trying)")]
        assert len(lines) == 1, result.stderr
        return lines[0]

    return invoke


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> Iterator[None]:
    """Where SIGINT is ignored, as in the background of a script, processes that tests start would ignore it, too."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@pytest.fixture
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start `kmini` in a process of its own, which ends with the test."""
    started = []

    def launch(*arguments: object, **options: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "kmini", *map(str, arguments)]
        options.setdefault("env", {**os.environ, "TMPDIR": str(tmp_path_factory.mktemp("scratch"))})
        process: subprocess.Popen[str] = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
        )  # type: ignore[call-overload]
        started.append(process)
        return process

    yield launch
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def on_terminal() -> Callable[..., str]:
    """Run `kmini` with a terminal as stdout and stderr, or as one of them; return what the terminal was sent."""

    def invoke(
        *arguments: object,
        width: int = 80,
        stdin: bytes = b"",
        streams: tuple[str, ...] = ("stdout", "stderr"),
        code: int = 0,
        **environment: str,
    ) -> str:
        ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        attributes = termios.tcgetattr(theirs)
        attributes[1] &= ~termios.OPOST  # newlines stay as they are
        termios.tcsetattr(theirs, termios.TCSANOW, attributes)
        env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
        process = subprocess.Popen(
            [sys.executable, "-m", "kmini", *map(str, arguments)],
            stdin=subprocess.PIPE,
            **{name: theirs if name in streams else subprocess.DEVNULL for name in ("stdout", "stderr")},
            env={**env, "TERM": "xterm", **environment},
        )
        os.close(theirs)
        received = bytearray()

        def receive() -> None:
            with suppress(OSError):  # EIO: the other side is closed
                while data := os.read(ours, 1 << 16):
                    received.extend(data)

        reader = threading.Thread(target=receive)
        reader.start()
        try:
            process.communicate(stdin, timeout=60)
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()
            reader.join()
            os.close(ours)
        assert process.returncode == code, received
        return received.decode()

    return invoke


@pytest.fixture
def stop() -> Callable[[subprocess.Popen[str]], tuple[int, str]]:
    """End a process that serves; its exit code and what it said on stderr."""

    def end(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> tuple[int, str]:
        os.kill(process.pid, number)
        _, stderr = process.communicate(timeout=30)
        return process.returncode, stderr

    return end


@pytest.fixture
def join() -> Callable[..., str]:
    """`join(bootstrap_servers, group, topic, *partitions)`: a member joins a group, alone, and reads these partitions.

    Returns the member id. No heartbeat follows, so that the member goes when its session of a minute ends.
    """
    return lambda *arguments: asyncio.run(_join(*arguments))


async def _join(bootstrap_servers: str, group: str, topic: str, *partitions: int) -> str:
    subscription = ConsumerProtocolSubscription(topics=[topic])
    TopicPartitions = ConsumerProtocolAssignment.TopicPartitions
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[TopicPartitions(topic=topic, partitions=list(partitions))]
    )
    member_id = ""

    async def enter(connection: Connection) -> JoinGroupResponse:
        metadata = b"\0\0" + b"".join(subscription.encode(0))
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=60_000,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.Protocol(name="range", metadata=metadata)],
        )
        response: JoinGroupResponse = await connection.send(request, timeout_ms=30_000)
        if response.error_code != MemberIdRequired.code:
            check(response.error_code)
        return response

    async with Client(bootstrap_servers, client_id="reader") as client:
        deadline = Deadline(60_000)
        member_id = (await client.cluster.at_coordinator(group, deadline, enter)).member_id
        joined = await client.cluster.at_coordinator(group, deadline, enter)
        coordinator = await client.cluster.coordinator_of(group, deadline)
        mine = SyncGroupRequest.Assignment(member_id=member_id, assignment=b"\0\0" + b"".join(assignment.encode(0)))
        request = SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=member_id,
            protocol_type=joined.protocol_type,
            protocol_name=joined.protocol_name,
            assignments=[mine],
        )
        check((await client.send(coordinator.node_id, request)).error_code)
    return member_id


@pytest.fixture
def leave() -> Callable[[str, str, str], None]:
    """`leave(bootstrap_servers, group, member_id)`: the member goes."""
    return lambda *arguments: asyncio.run(_leave(*arguments))


async def _leave(bootstrap_servers: str, group: str, member_id: str) -> None:
    async with Client(bootstrap_servers) as client:
        coordinator = await client.cluster.coordinator_of(group, Deadline(30_000))
        request = LeaveGroupRequest(group_id=group, members=[LeaveGroupRequest.Member(member_id=member_id)])
        response = await client.send(coordinator.node_id, request)
        check(response.error_code)


@pytest.fixture
def orders(broker: Broker) -> str:
    """A topic with ten records in partition 0, a second apart from 2026-01-31T12:00:00Z on, and five in partition 1."""
    broker.create_topic("orders", 2)
    for number in range(10):
        broker.produce("orders", b"v", partition=0, timestamp_ms=1_769_860_800_000 + number * 1000)
    for _ in range(5):
        broker.produce("orders", b"v", partition=1)
    return "orders"


@pytest.fixture
def offsets(ask) -> Callable[[str], dict[tuple[str, int], object]]:
    """The committed offsets of a group, as `describe` prints them."""

    def committed_offsets(group: str) -> dict[tuple[str, int], object]:
        rows = json.loads(ask("group", "describe", group, "--format", "json").stdout)
        return {(row["topic"], row["partition"]): row["offset"] for row in rows}

    return committed_offsets
