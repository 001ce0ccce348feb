"""A broker in a process of its own that can be asked what it holds, and for how long something held its loop.

The test process imports `WatchedBroker`; the child runs this file.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from support.until import until

TESTS = Path(__file__).resolve().parents[2]
HEARTBEAT_S = 0.002
SETTLED_WITHIN_S = 60.0
"""A member that has joined by chance stays for a session: 45 s (KIP-848)."""


class State(NamedTuple):
    """What a broker holds, garbage collected, at one moment."""

    connections: int
    purgatory: int
    timers: int
    """That have not run and were not cancelled."""
    tasks: int
    sockets: int
    descriptors: int
    """Open ones that are no sockets."""
    longest_hold_ms: float
    """The longest that the loop was not free since it was last asked."""


class WatchedBroker:
    """The parent's view. Ended by `close`, at the latest."""

    def __init__(self, config: dict[str, str], *, open_files: int = 0) -> None:
        """With `open_files` its process may have no more descriptors than that."""
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by `close`)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.fuzz.watched_broker", json.dumps(config), str(open_files)],
            cwd=TESTS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self.bootstrap_servers: str = self._answer()

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.bootstrap_servers.rpartition(":")
        return host, int(port)

    def address_of(self, listener: str) -> tuple[str, int]:
        """Host and port of the listener of this name."""
        host, port = self._ask(f"address {listener}")
        return host, port

    def state(self) -> State:
        return State(**self._ask("state"))

    def let_time_pass(self, duration_ms: int) -> None:
        """Move the liveness timeline, and that alone: no record becomes older."""
        self._ask(f"pass {duration_ms}")

    def let_records_age(self, duration_ms: int) -> None:
        """Move log time, and that alone; what falls due, such as the deletion of files, is done on return."""
        self._ask(f"age {duration_ms}")

    def settled(self, before: State) -> State:
        """The state once it has no more of anything than `before`, or the last one if that does not come in time."""

        def has_settled() -> bool:
            return all(now <= then for now, then in zip(self.state()[:-1], before[:-1], strict=True))

        with suppress(AssertionError):
            until(has_settled, timeout_s=SETTLED_WITHIN_S, poll_s=0.05)
        return self.state()

    def resident_bytes(self) -> int:
        return self._memory("VmRSS")

    def peak_bytes(self) -> int:
        """The most that was resident since `forget_peak`."""
        return self._memory("VmHWM")

    def forget_peak(self) -> None:
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5")

    def _memory(self, field: str) -> int:
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) * 1024
        raise LookupError(field)

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def log(self) -> list[str]:
        """The lines that the broker has written to stderr so far."""
        self._log.seek(0)
        return self._log.read().splitlines()

    def close(self) -> None:
        """Stop the broker."""
        if self._log.closed:
            return
        try:
            self._process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            raise
        finally:
            self._log.close()

    def _ask(self, question: str) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(question + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError("the broker's process ended:\n" + "\n".join(self.log()[-30:]))
        return json.loads(line)


# --- in the child


class Heartbeat:
    """Beats on the loop and notes the longest time that it could not.

    Waiting for a processor does not count, where the system tells it: that is other processes' doing.
    """

    def __init__(self, loop: Any) -> None:
        self._loop = loop
        self._expected = 0.0
        self._waited_s = 0.0
        self.longest_s = 0.0

    def beat(self) -> None:
        now, waited_s = time.perf_counter(), waited_for_processor_s()
        if self._expected:
            self.longest_s = max(self.longest_s, now - self._expected - (waited_s - self._waited_s))
        self._expected, self._waited_s = now + HEARTBEAT_S, waited_s
        self._loop.call_later(HEARTBEAT_S, self.beat)

    def skip(self) -> None:
        """Do not count the present beat."""
        self._expected = 0.0


def waited_for_processor_s() -> float:
    """How long this thread was ready to run in all, and did not."""
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as schedstat:
            return int(schedstat.read().split()[1]) / 1e9
    except OSError:
        return 0.0


def descriptors() -> list[bool]:
    """Of every open descriptor, whether it is a socket; nothing where there is no /proc."""
    are_sockets = []
    for descriptor in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        try:
            are_sockets.append(os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:"))
        except OSError:
            continue  # the one that lists the others
    return are_sockets


async def look(core: Any, heartbeat: Heartbeat) -> dict[str, Any]:
    import asyncio

    longest_s, heartbeat.longest_s = heartbeat.longest_s, 0.0
    gc.collect()
    are_sockets = descriptors()
    clock = core.clock
    _ = core.groups, core.transactions  # made when they are first needed, with timers that stay
    core.maintenance.paused_tasks.resume()  # a periodic task without work has no timer, and gets one later
    timers = [timer for timer in (*clock._timers, *clock._liveness_timers) if timer.callback is not None]
    state = State(
        connections=len(core.server.connections),
        purgatory=len(core.purgatory),
        timers=len(timers),
        tasks=len(asyncio.all_tasks()),
        sockets=sum(are_sockets),
        descriptors=len(are_sockets) - sum(are_sockets),
        longest_hold_ms=longest_s * 1000,
    )
    heartbeat.skip()  # collecting garbage is our own doing
    return state._asdict()


async def start_heartbeat() -> Heartbeat:
    import asyncio

    heartbeat = Heartbeat(asyncio.get_running_loop())
    heartbeat.beat()
    return heartbeat


def main() -> None:
    import logging

    from kmini import Broker

    if open_files := int(sys.argv[2]):
        import resource

        resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, open_files))
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    with Broker(config=json.loads(sys.argv[1])) as broker:
        thread, core = broker._thread, broker._operations.any_broker()
        heartbeat = thread.run(start_heartbeat())
        print(json.dumps(broker.bootstrap_servers), flush=True)
        for question in sys.stdin:
            answer: Any = None
            match question.split():
                case ["state"]:
                    answer = thread.run(look(core, heartbeat))
                case ["address", name]:
                    answer = (core.server.listener(name).host, core.server.listener(name).port)
                case ["age", duration_ms]:
                    broker.advance_clock(int(duration_ms))
                case ["pass", duration_ms]:
                    thread.run(core.clock._advance_liveness(core.clock.liveness_ms() + int(duration_ms)))
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
