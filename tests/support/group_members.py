"""Members of consumer groups outside the test's process, of any client: what they own and handle, from the test's side.

A member tells each change of its partitions with the time, so that a test can say whether two owned one at once.
"""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from support import apache_kafka, client_adapters
from support.java_peer import JavaPeer

PATIENCE_S = 40
PYTHON_MEMBER = Path(__file__).with_name("group_member.py")
JAVA_MEMBERS = Path(__file__).with_name("GroupMembers.java")
GO = "franz-go"

Partition = tuple[str, int]
"""Topic and partition."""
Place = tuple[str, int, int]
"""Topic, partition and offset."""


class Ownership(NamedTuple):
    """A partition that a member had for a time; the times are microseconds since the epoch."""

    partition: Partition
    start_us: int
    end_us: int
    """Now, for a partition that the member still has."""
    is_certain: bool
    """False where the member was fenced or killed: the group may have given the partition to another before the end."""


class GroupMember:
    """What a member of a group has told so far."""

    def __init__(self) -> None:
        self._handled: list[Place] = []
        self._changes: list[tuple[int, frozenset[Partition], bool]] = []
        self._notes: list[list[object]] = []
        self._refused: set[Place] = set()

    def refresh(self) -> None:
        """Take in what the member has told since."""

    def note(self, kind: str, at_us: int, *rest: Any) -> None:
        """Take in one line of `group_member.py`."""
        if kind == "record":
            topic, partition, offset = rest
            self._handled.append((topic, partition, offset))
        elif kind in ("owned", "lost"):
            owned = frozenset((topic, partition) for topic, partition in rest[0])
            self._changes.append((at_us, owned, kind == "lost"))
        else:
            if kind == "commit failed":
                self._refused.update((topic, partition, offset) for topic, partition, offset in rest[0])
            self._notes.append([kind, *rest])

    @property
    def owned(self) -> frozenset[Partition]:
        self.refresh()
        return self._changes[-1][1] if self._changes else frozenset()

    @property
    def handled(self) -> list[Place]:
        self.refresh()
        return self._handled

    @property
    def notes(self) -> list[list[object]]:
        """What else it told: commits that were refused, and failures."""
        self.refresh()
        return self._notes

    @property
    def refused(self) -> set[Place]:
        """The records that it had not committed yet when the group refused a commit."""
        self.refresh()
        return self._refused

    def ownerships(self) -> Iterator[Ownership]:
        """Each stretch of time in which it had a partition."""
        self.refresh()
        since: dict[Partition, int] = {}
        for at_us, owned, is_lost in self._changes:
            for partition in since.keys() - owned:
                yield Ownership(partition, since.pop(partition), at_us, not is_lost)
            since.update(dict.fromkeys(owned - since.keys(), at_us))
        for partition, start_us in since.items():
            yield Ownership(partition, start_us, time.time_ns() // 1_000, True)

    def say(self) -> str:
        """What it has told, for a test that fails."""
        return f"{sorted(self.owned)} {len(self.handled)} {self.notes}"

    def leave(self) -> None:
        """Leave the group in order, and end."""
        raise NotImplementedError

    def crash(self) -> None:
        """End at once and tell the group nothing."""
        raise NotImplementedError

    def pause(self) -> None:
        """Stop until `resume`."""
        raise NotImplementedError

    def resume(self) -> None:
        raise NotImplementedError


class MemberProcess(GroupMember):
    """A consumer in a process of its own, which tells in JSON."""

    def __init__(self, command: list[str], complaints: Path) -> None:
        super().__init__()
        self._complaints = complaints
        with complaints.open("wb") as stderr:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.take(json.loads(line))

    def take(self, said: Any) -> None:
        """Take in one line that the process has told."""
        self.note(*said)

    def say(self) -> str:
        """What it owns, and what it has said on stderr; one in Python says there what it is doing just now."""
        if self._process.poll() is None and self._process.args[0] == sys.executable:
            self._process.send_signal(signal.SIGUSR1)
            time.sleep(0.5)
        complaints = self._complaints.read_text(errors="replace")[-4000:]
        return f"{super().say()}, exit code {self._process.poll()}\n{complaints}"

    def leave(self) -> None:
        self._process.terminate()
        self._end()

    def crash(self) -> None:
        self._process.kill()
        self._end()

    def pause(self) -> None:
        """Stop the whole process, the thread that sends its heartbeats too."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def _end(self) -> None:
        self._process.wait(PATIENCE_S)
        self._reader.join()
        if self.owned:  # it was killed
            self._changes.append((time.time_ns() // 1_000, frozenset(), True))
        assert self._process.stdout is not None
        self._process.stdout.close()


class JavaMember(GroupMember):
    """A KafkaConsumer in a thread of a JVM, which may be others' too."""

    _numbers = itertools.count(1)

    def __init__(self, peer: JavaPeer, subscription: str, settings: Mapping[str, object]) -> None:
        super().__init__()
        self._peer = peer
        self._name = f"member-{next(self._numbers)}"
        self._told = 0
        self._has_ended = False
        self._call("start", subscription, *(f"{key}={value}" for key, value in settings.items()))

    def _call(self, call: str, *arguments: object) -> str:
        finished = self._peer.run(str(JAVA_MEMBERS), self._name, call, *arguments)
        assert finished.exit == 0, finished.stderr[-4000:]
        return finished.stdout

    def refresh(self) -> None:
        if not self._has_ended:
            events = json.loads(self._call("events", self._told))
            self._told += len(events)
            for event in events:
                self.note(*event)

    def leave(self) -> None:
        if not self._has_ended:
            self._call("leave")
            self.refresh()
            self._has_ended = True

    def crash(self) -> None:
        """End the JVM, with all members that are in it."""
        self.refresh()
        self._has_ended = True
        self._peer.close()
        self._changes.append((time.time_ns() // 1_000, frozenset(), True))

    def pause(self) -> None:
        """No longer poll; the thread that sends its heartbeats goes on."""
        self._call("pause")

    def resume(self) -> None:
        self._call("resume")


def overlaps(members: Iterable[GroupMember]) -> list[tuple[Ownership, Ownership]]:
    """Return the pairs of members that owned a partition at one time. A member that was killed or fenced does not
    count: it learns late or never that the partition is another's. What Java's heartbeat thread was assigned while the
    application paused, the application hears of when it is another's already."""
    everything = [one for member in members for one in member.ownerships() if one.is_certain]
    everything.sort(key=lambda one: (one.partition, one.start_us))
    pairs = itertools.combinations(everything, 2)
    return [
        (first, second)
        for first, second in pairs
        if first.partition == second.partition and second.start_us < first.end_us
    ]


def go_program() -> Path:
    """The member in Go, which `make group-clients` compiles."""
    return apache_kafka.REPOSITORY / ".peers" / "group-clients" / "franz-go-member"


def why_unavailable(client: str) -> str | None:
    """Why a client cannot run here, or None when it can."""
    if client == client_adapters.Java.name:
        return apache_kafka.why_unavailable()
    if client == GO:
        return None if go_program().exists() else f"{go_program()} is missing (`make group-clients` compiles it)"
    return client_adapters.why_unavailable(client)


def process_command(client: str, protocol: str, options: Mapping[str, str | None], *places: str) -> list[str]:
    """The command of a member in Go or Python, with options that `group_member.py` has; those that are None are left
    out. The places are the servers, the group and the topic."""
    flags = [f"--{name}={value}" for name, value in options.items() if value is not None]
    if client == GO:
        assert protocol == "consumer", "the member in Go speaks the new protocol only"
        return [str(go_program()), *flags, *places]
    return [sys.executable, str(PYTHON_MEMBER), *flags, f"--protocol={protocol}", client, *places]


def java_settings(servers: str, group: str, protocol: str, instance: str | None) -> dict[str, object]:
    """The settings of a member in Java. The broker sets the times of the new protocol."""
    settings: dict[str, object] = {
        "bootstrap.servers": servers,
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": "false",
        "fetch.max.wait.ms": 100,
        "metadata.max.age.ms": 500,
        "retry.backoff.ms": 20,
        "reconnect.backoff.ms": 20,
    }
    if instance is not None:
        settings["group.instance.id"] = instance
    if protocol == "classic":
        assignor = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
        settings |= {"session.timeout.ms": 3_000, "heartbeat.interval.ms": 200}
        settings |= {"partition.assignment.strategy": assignor}
    return settings
