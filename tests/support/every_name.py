"""Uses every public name of kmini: from plain code, in a thread, and blocking and awaiting inside running event loops.

`python every_name.py` exits with 0 if all of it works, no warning comes from kmini's modules, no resource is left to
the garbage collector, and after each way no thread, task or descriptor is there that there was not before.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import os
import socket
import sys
import tempfile
import threading
import warnings
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from typing import Any, NamedTuple

import kmini
from kmini import (
    Broker,
    BrokerNotRunning,
    Cluster,
    ConfigError,
    ControllerError,
    Expectation,
    FaultDraft,
    KafkaError,
    PortTaken,
    RequestsLost,
)

SENTENCE = "wait_for_records would stop the event loop that your client runs on: await"
NOTHING: Any = object()
"""Stands for any result."""


class Step(NamedTuple):
    """One use of a public name."""

    path: str
    """Of a method, or of a property where `args` is None."""
    args: tuple[Any, ...] | None = ()
    """The arguments; a mapping at the end has those that are given by name."""
    expected: Any = NOTHING
    """The result; a type that it has to be of; or an exception that is raised."""


COMPACTED = {"cleanup.policy": "compact"}

COMMON = [
    Step("start"),
    Step("report", (), str),
    Step("requests.mark", (), 1),
    Step("requests.lost", (), 0),
    Step("requests.all", ("Produce",), []),
    Step("requests.count", (), 0),
    Step("requests.assert_none", ("Fetch", {"topic": "orders"}), None),
    Step("requests.assert_some", ("Fetch",), AssertionError),
    Step("requests.wait_for", ("Fetch", {"timeout_ms": 1}), KafkaError),
    Step("data_dir", None, str),
    Step("bootstrap_servers", None, str),
    Step("registry_url", None, ""),
    Step("client_config", ("java",), dict),
    Step("client_config", ("pulsar",), ValueError),
    Step("create_topic", ("profiles", 1), None),
    Step("topics", (), ["orders", "profiles"]),
    Step("produce", ("orders", b"one"), 0),
    Step("records", ("orders",), list),
    Step("wait_for_records", ("orders", 1), list),
    Step("wait_for_records", ("orders", 2), KafkaError),
    Step("records", ("ordres",), KafkaError),
    Step("produce", ("orders", "text"), TypeError),
    Step("delete_records", ("orders",), 1),
    Step("clock.now_ms", (), int),
    Step("clock.advance", ("1h",), None),
    Step("clock.turn_back", ("1h",), None),
    Step("clock.stop_moving", (), False),
    Step("advance_clock", (timedelta(seconds=1),), None),
    Step("delete_topic", ("profiles",), None),
    Step("apply_retention", (), None),
    Step("create_topic", ("compacted", 1, {"configs": COMPACTED}), None),
    Step("compact", ("compacted",), list),
    Step("topic", ("compacted",)),
    Step("topic.name", None, "compacted"),
    Step("topic.partitions", (), [kmini.TopicPartitionState(0, 1, (1,), (1,))]),
    Step("topic.mark", (), kmini.Mark),
    Step("topic.produce", (b"one", {"key": b"42"}), kmini.Record),
    Step("topic.wait_for", (1,), list),
    Step("topic.wait_for", (2, {"timeout_ms": 1}), kmini.RecordsMissing),
    Step("topic.expect", (0,), Expectation),
    Step("topic.records", (), list),
    Step("topic.offsets", (), {0: kmini.PartitionOffsets(0, 1, 1, 1)}),
    Step("topic.delete_records", (), KafkaError),
    Step("topic.roll", (), None),
    Step("topic.compact", (), list),
    Step("topic.apply_retention", (), None),
    Step("metrics_text", (), str),
    Step("group", ("billing",)),
    Step("group.name", None, "billing"),
    Step("group.commit", ({"offsets": {("orders", 0): 1}},), None),
    Step("groups", (), ["billing"]),
    Step("group.describe", (), kmini.GroupDescription),
    Step("group.offsets", (), {("orders", 0): 1}),
    Step("group.lag", (), {("orders", 0): 0}),
    Step("group.stable", ({"members": 0},), kmini.GroupDescription),
    Step("group.stable", ({"members": 1, "timeout_ms": 1},), kmini.NotInTime),
    Step("group.caught_up", ("orders",), None),
    Step("group.rebalance", (), KafkaError),
    Step("group.expel", ("billing-1",), KafkaError),
    Step("group.reset_offsets", ("earliest",), {("orders", 0): 1}),
    Step("group.lose_offsets", ("orders",), None),
    Step("transactions", None),
    Step("transactions.open", (), []),
    Step("transactions.wait_ended", (), None),
    Step("transactions.abort", ("billing-1",), KafkaError),
    Step("clients", (), []),
    Step("disconnect", ("billing-1",), KafkaError),
    Step("advertise", ("127.0.0.1", {"broker": 1}), None),
    Step("advertise", (None, {"broker": 1}), None),
    Step("faults", None),
    Step("faults.on", ("Produce",), FaultDraft),
    Step("faults.load", ([{"when": {"api": "Fetch", "topic": "other"}, "do": [{"delay": 1}]}],), list),
    Step("faults.leader_not_available", ("other", {"for_ms": 1})),
    Step("faults.leader_moved", ("other",)),
    Step("faults.stale_leader", ("other", {"leader": 1})),
    Step("faults.broker_missing_from_metadata", (1,)),
    Step("faults.controller_moved", ()),
    Step("faults.no_coordinator", ("other",)),
    Step("faults.unknown_topic_until", ("other", {"times": 1})),
    Step("faults.coordinator_load_in_progress", ("other", {"for_ms": 1})),
    Step("faults.coordinator_moved", ("other",)),
    Step("faults.transaction_hangs", ("other",)),
    Step("faults.rebalance_storm", ("other",)),
    Step("faults.produce_succeeds_but_answer_is_lost", ("other",)),
    Step("faults.commit_answer_is_lost", ("other",)),
    Step("faults.producer_fenced", ("other",)),
    Step("faults.slow_fetch", ("other", {"delay": 1})),
    Step("faults.slow_broker", ({"delay": 1},)),
    Step("faults.network_partition", ("other",)),
    Step("faults.outage", ({"for_ms": 1},)),
    Step("faults.disk_full", ("other",)),
    Step("faults.rules", (), list),
    Step("faults.unhit", (), list),
    Step("faults.held", (), []),
    Step("faults.assert_all_hit", (), AssertionError),
    Step("faults.clear", (), None),
]

RESET = [
    Step("reset", (), kmini.ResetReport),
    Step("topics", (), ["orders"]),
    Step("produce", ("orders", b"one"), 0),
    Step("load", ("no such file",), FileNotFoundError),
    Step("load", (os.path.dirname(__file__),), kmini.SeedError),
    Step("snapshot", ("seeded",), kmini.Snapshot),
    Step("reset", ({"keep": ["app-*"]},), kmini.ResetReport),
    Step("produce", ("orders", b"two"), 0),
    Step("restore", ("sowed",), kmini.SnapshotError),
    Step("restore", ("seeded",), kmini.ResetReport),
    Step("produce", ("orders", b"three"), 1),
]

OF_A_BROKER = [
    *COMMON,
    Step("brokers", (), [1]),
    Step("offsets", ("orders",), kmini.PartitionOffsets(1, 1, 1, 1)),
    Step("crash", (), None),
    Step("crash", (9,), BrokerNotRunning),
    Step("pause", (), None),
    Step("pause", (), ValueError),
    Step("reconnect", (), None),
    Step("reconnect", (), ValueError),
    Step("stop", (), None),
    Step("topics", (), RuntimeError),
    Step("start"),
    Step("topics", (), ["__consumer_offsets", "compacted", "orders"]),
    *RESET,
    Step("close", (), None),
]

OF_A_CLUSTER = [
    *COMMON,
    Step("brokers", (), [1, 2]),
    Step("crash", (2,), None),
    Step("wait_until_in_sync", ("orders",), None),
    Step("address_of", (1,), str),
    Step("offsets", ("orders",), dict),
    Step("replicas", ("orders",), [1, 2]),
    Step("leader", ("orders",), 1),
    Step("isr", ("orders",), {1, 2}),
    Step("move_leader", ("orders", 0, 2), TypeError),
    Step("move_leader", ("orders", {"to": 2}), None),
    Step("move_leader", ("orders",), None),
    Step("coordinator", ("billing",), int),
    Step("transaction_coordinator", ("billing-1",), int),
    Step("move_coordinator", ("billing", 9), BrokerNotRunning),
    Step("move_transaction_coordinator", ("billing-1", 9), BrokerNotRunning),
    Step("kill", (9,), BrokerNotRunning),
    Step("kill", (1,), None),
    Step("leader", ("orders",), 2),
    Step("restart", (1,), None),
    Step("wait_until_in_sync", ("orders",), None),
    Step("stop_broker", (1,), None),
    Step("restart", (1,), None),
    Step("wait_until_in_sync", ("orders",), None),
    Step("pause", (1,), None),
    Step("reconnect", (1,), None),
    Step("cut_off", (1,), None),
    Step("reconnect", (1,), None),
    Step("hold", (1,), None),
    Step("release", (1,), None),
    Step("limit_fetch_version", (1, 4), None),
    Step("limit_fetch_version", (1, None), None),
    Step("stop", (), None),
    Step("brokers", (), RuntimeError),
    Step("start"),
    Step("brokers", (), [1, 2]),
    *RESET,
    Step("close", (), None),
]


def hosts() -> list[tuple[Any, list[Step]]]:
    replicated = {"orders": {"partitions": 1, "replication_factor": 2}}
    return [
        (Broker(topics=["orders"], journal=True), OF_A_BROKER),
        (Cluster(brokers=2, topics=replicated, journal=True), OF_A_CLUSTER),
    ]


def target(host: Any, path: str) -> Any:
    """What a path names: "clock.advance" is the method of a handle."""
    handle, _, name = path.rpartition(".")
    if handle:
        names = {"topic": "compacted", "group": "billing"}
        host = getattr(host, handle)(names[handle]) if handle in names else getattr(host, handle)
    return getattr(host, name)


def arguments(step: Step) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args = step.args or ()
    named = args[-1] if args and isinstance(args[-1], dict) else {}
    args = args[:-1] if named else args
    if step.path == "wait_for_records" and step.expected is KafkaError:
        named = {"timeout_ms": 1}
    return args, named


def check(step: Step, result: Any) -> None:
    expected = step.expected
    if isinstance(expected, type) and not issubclass(expected, Exception):
        assert isinstance(result, expected), (step, result)
    elif expected is not NOTHING:
        assert result == expected, (step, result)
    if step.path == "records":
        assert [type(record) for record in result] == [kmini.Record], result
    if step.path == "offsets" and isinstance(result, dict):
        assert {type(one) for one in result.values()} == {kmini.ReplicaOffsets}, result


def is_error(expected: Any) -> bool:
    return isinstance(expected, type) and issubclass(expected, Exception)


def check_error(step: Step, error: Exception, *, inside_a_loop: bool) -> None:
    if inside_a_loop and step.path in ("wait_for_records", "topic.wait_for", "requests.wait_for", "group.stable"):
        sentence = SENTENCE.replace("wait_for_records", step.path.rpartition(".")[2])
        is_right = isinstance(error, RuntimeError) and str(error).startswith(sentence)
    else:
        is_right = is_error(step.expected) and isinstance(error, step.expected)
    if not is_right:
        raise AssertionError(step) from error


def block(*, inside_a_loop: bool) -> None:
    """Use every name of Broker and Cluster by calls that block."""
    for host, steps in hosts():
        for step in steps:
            args, named = arguments(step)
            try:
                found = target(host, step.path)
                result = found if step.args is None else found(*args, **named)
            except Exception as error:
                check_error(step, error, inside_a_loop=inside_a_loop)
            else:
                assert not is_error(step.expected), step
                check(step, result)
    errors()


async def await_all() -> None:
    """Use every name of AsyncBroker and AsyncCluster."""
    for host, steps in hosts():
        for step in steps:
            args, named = arguments(step)
            try:
                found = target(host.aio, step.path)
                result = found if step.args is None else found(*args, **named)
                if isinstance(result, Awaitable):
                    result = await result
            except Exception as error:
                check_error(step, error, inside_a_loop=False)
            else:
                assert not is_error(step.expected), step
                check(step, result)
        async with type(host)() as running:
            assert running.aio is running
            assert await running.topics() == []


async def block_inside_a_loop() -> None:
    """Call what blocks on the thread of a running loop."""
    block(inside_a_loop=True)
    with Broker() as broker, Cluster(brokers=1) as cluster:
        assert broker.topics() == cluster.topics() == []


def errors() -> None:
    """Meet every error that has a public name."""
    with socket.create_server(("127.0.0.1", 0)) as taken, contextlib.suppress(PortTaken):
        Broker(port=taken.getsockname()[1]).start()
        raise AssertionError("the port was free")
    with contextlib.suppress(ConfigError):
        Broker(config={"log.retenton.ms": 1})
        raise AssertionError("there is such a setting")
    with tempfile.TemporaryDirectory() as directory, contextlib.suppress(ControllerError):
        with open(os.path.join(directory, "kmini.db"), "wb") as file:
            file.write(b"no database" * 100)
        Broker(data_dir=directory).start()
        raise AssertionError("the database was taken")
    assert issubclass(RequestsLost, AssertionError)


def check_every_name_is_used() -> None:
    """Nothing public is left out of the steps."""
    for cls, steps in [(Broker, OF_A_BROKER), (Cluster, OF_A_CLUSTER)]:
        public = {name for name in dir(cls) if not name.startswith("_")}
        assert {step.path.partition(".")[0] for step in steps} | {"aio"} == public, cls
    classes = {name: getattr(kmini, name) for name in kmini.__all__ if f"Async{name}" in kmini.__all__}
    for name in ("Broker", "Cluster", "Fault"):  # a fault is what `faults.on(...)` makes
        del classes[name]
    names = {(name.lower(), member) for name, cls in classes.items() for member in dir(cls) if member[0] != "_"}
    assert {f"{handle}.{member}" for handle, member in names} <= {step.path for step in COMMON}
    with open(__file__, encoding="utf-8") as file:
        text = file.read()
    handled = {*classes, "Fault", "KafkaTestWarning"}
    handled |= {"ClientConnection", "GroupMember", "JournalEntry", "OpenTransaction"}  # parts of results
    handled |= {"SharePartition", "InFlightRecords"}
    handled |= {name for name in kmini.__all__ if name.startswith("Async")}
    functions = {"connect"}  # what it returns has all names in tests/control/test_connected.py
    for name in kmini.__all__:
        assert name in handled | functions or name in text, name
        assert inspect.isclass(getattr(kmini, name)) != (name in functions)


def descriptors() -> set[tuple[str, str]]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the one of the listing itself
            found.add((name, os.readlink(f"/proc/self/fd/{name}")))
    return found


@contextlib.contextmanager
def leaves_nothing() -> Iterator[None]:
    """Fails if threads or descriptors are left, or something was left to the garbage collector."""
    with contextlib.suppress(ImportError):
        import uvloop

        uvloop.new_event_loop().close()  # libuv keeps one pipe a process, from its first loop on
    unraisable: list[Any] = []
    hook, sys.unraisablehook = sys.unraisablehook, unraisable.append
    gc.collect()
    threads, open_before = set(threading.enumerate()), descriptors()
    try:
        yield
        gc.collect()
    finally:
        sys.unraisablehook = hook
    assert not unraisable, [repr(one.exc_value) for one in unraisable]
    left = [thread for thread in threading.enumerate() if thread not in threads]
    assert not left, left
    assert descriptors() <= open_before, descriptors() - open_before


async def leaves_no_task(using: Callable[[], Awaitable[None]]) -> None:
    """Fails if tasks are left on this loop."""
    before = asyncio.all_tasks()
    await using()
    assert asyncio.all_tasks() == before, asyncio.all_tasks() - before


def in_a_thread(function: Callable[[], None]) -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            function()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    for failure in failures:
        raise failure


def on_loops(using: Callable[[], Awaitable[None]]) -> None:
    """Run a coroutine on asyncio's own loop, and on uvloop where it is installed."""
    makers: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop]
    with contextlib.suppress(ImportError):
        import uvloop

        makers.append(uvloop.new_event_loop)
    for make in makers:
        loop = make()
        try:
            loop.run_until_complete(leaves_no_task(using))
        finally:
            loop.close()


def main() -> None:
    warnings.filterwarnings("error", category=ResourceWarning)
    warnings.filterwarnings("error", module=r"kmini(\.|$)")
    check_every_name_is_used()
    ways: dict[str, Callable[[], None]] = {
        "plain code": lambda: block(inside_a_loop=False),
        "a thread": lambda: in_a_thread(lambda: block(inside_a_loop=False)),
        "blocking inside a running loop": lambda: on_loops(block_inside_a_loop),
        "awaiting": lambda: on_loops(await_all),
    }
    for way, use in ways.items():
        with leaves_nothing():
            use()
        print(f"{way}: every name works, and nothing is left")


if __name__ == "__main__":
    main()
