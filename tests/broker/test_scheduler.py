"""Shared writes, periodic tasks, and work that is begun at once."""

import asyncio
import inspect
import threading

import pytest

from kmini.broker.clock import MovableClock
from kmini.broker.scheduler import CheckpointWriter, PausedTasks, Periodic, run_now
from kmini.protocol.topics import TopicPartition

ORDERS_0 = TopicPartition("orders", 0)


class Store:
    """What is written, and a gate that holds writes back."""

    def __init__(self) -> None:
        self.offset = 0
        self.written: list[int] = []
        self.gate = threading.Event()
        self.gate.set()
        self.fails = False

    def snapshot(self) -> dict[TopicPartition, int]:
        return {ORDERS_0: self.offset}

    def write(self, offsets: dict[TopicPartition, int]) -> None:
        assert self.gate.wait(30)
        if self.fails:
            raise OSError("disk full")
        self.written.append(offsets[ORDERS_0])


async def turns() -> None:
    """Let what was started get to its first real wait."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_write_that_was_asked_for_holds_what_was_true_then() -> None:
    store = Store()
    shared = CheckpointWriter(store.snapshot, store.write)
    store.offset = 7
    await shared.write()
    assert store.written == [7]
    assert shared.written == {ORDERS_0: 7}


@pytest.mark.sockets
async def test_those_who_ask_during_a_write_share_the_one_after_it() -> None:
    store = Store()
    shared = CheckpointWriter(store.snapshot, store.write)
    store.gate.clear()
    first = asyncio.create_task(shared.write())
    await turns()
    store.offset = 1
    later = [asyncio.create_task(shared.write()) for _ in range(20)]
    await turns()
    store.gate.set()
    await asyncio.gather(first, *later)
    assert store.written == [0, 1]


async def test_a_failed_write_fails_those_who_asked_and_nobody_later() -> None:
    store = Store()
    shared = CheckpointWriter(store.snapshot, store.write)
    store.fails = True
    with pytest.raises(OSError, match="disk full"):
        await shared.write()
    store.fails = False
    await shared.write()
    assert store.written == [0]


@pytest.mark.sockets
async def test_who_waits_for_the_write_after_a_failed_one_gets_it() -> None:
    store = Store()
    shared = CheckpointWriter(store.snapshot, store.write)
    store.gate.clear()
    store.fails = True
    first = asyncio.create_task(shared.write())
    await turns()
    second = asyncio.create_task(shared.write())
    await turns()
    store.gate.set()
    results = await asyncio.gather(first, second, return_exceptions=True)
    assert all(isinstance(result, OSError) for result in results)
    store.fails = False
    await shared.write()
    assert store.written == [0]


async def test_a_periodic_task_runs_every_interval_and_survives_its_failures() -> None:
    clock = MovableClock()
    runs: list[int] = []

    async def task() -> None:
        runs.append(clock.now_ms())
        if len(runs) == 2:
            raise OSError("once")

    periodic = Periodic(clock, "a test", task, interval_ms=60_000, delay_ms=10_000)
    await clock.advance(10_000)
    assert len(runs) == 1
    await clock.advance(180_000)
    assert len(runs) == 4
    periodic.cancel()
    await clock.advance(600_000)
    assert len(runs) == 4


async def test_a_periodic_task_skips_the_beats_at_which_it_can_have_no_effect() -> None:
    clock = MovableClock()
    start = clock.now_ms()
    runs: list[int] = []
    effects: list[int | None] = [start + 1_000_000, None, 0, 0]

    async def task() -> None:
        runs.append(round((clock.now_ms() - start) / 60_000))

    paused_tasks = PausedTasks()
    Periodic(
        clock, "a test", task, interval_ms=60_000, next_effect_ms=lambda: effects.pop(0), paused_tasks=paused_tasks
    )
    await clock.advance(900_000)
    assert (runs, bool(paused_tasks)) == ([1], True)
    await clock.advance(6_030_000)
    assert runs == [1, 17]
    paused_tasks.resume()
    assert not paused_tasks
    await clock.advance(120_000)
    assert runs == [1, 17, 116, 117]


async def test_what_changes_ends_the_nap_at_the_next_beat() -> None:
    clock = MovableClock()
    start = clock.now_ms()
    runs: list[int] = []

    async def task() -> None:
        runs.append(round((clock.now_ms() - start) / 60_000))

    paused_tasks = PausedTasks()
    periodic = Periodic(
        clock, "a test", task, interval_ms=60_000, next_effect_ms=lambda: start + 86_400_000, paused_tasks=paused_tasks
    )
    await clock.advance(130_000)
    paused_tasks.resume()
    await clock.advance(60_000)
    assert runs == [1, 3]
    periodic.cancel()
    paused_tasks.resume()
    await clock.advance(86_400_000)
    assert runs == [1, 3]


async def test_a_change_that_counts_later_ends_the_nap_at_the_last_beat_before() -> None:
    clock = MovableClock()
    start = clock.now_ms()
    runs: list[int] = []

    async def task() -> None:
        runs.append(round((clock.now_ms() - start) / 60_000))

    paused_tasks = PausedTasks()
    Periodic(clock, "a test", task, interval_ms=60_000, next_effect_ms=lambda: None, paused_tasks=paused_tasks)
    await clock.advance(90_000)
    paused_tasks.resume_by(start + 630_000)
    paused_tasks.resume_by(start + 930_000)
    await clock.advance(900_000)
    assert runs == [1, 10]
    paused_tasks.resume_by(start + 6_000_000)
    paused_tasks.resume()
    await clock.advance(120_000)
    assert runs == [1, 10, 17]


async def test_what_need_not_wait_is_done_at_once() -> None:
    done: list[str] = []

    async def work(gate: asyncio.Event) -> str:
        done.append("begun")
        if not gate.is_set():
            await gate.wait()
        done.append("ended")
        return "result"

    gate = asyncio.Event()
    waiting = run_now(work(gate))
    assert done == ["begun"]
    gate.set()
    assert await waiting == "result"
    at_once = run_now(work(gate))
    assert at_once.done()
    assert at_once.result() == "result"


async def test_work_that_is_begun_at_once_fails_through_its_future() -> None:
    async def fail(waits: int) -> None:
        for _ in range(waits):
            await asyncio.sleep(0)
        raise OSError("disk full")

    for waits in (0, 2):
        with pytest.raises(OSError, match="disk full"):
            await run_now(fail(waits))


async def test_work_that_was_begun_can_be_cancelled() -> None:
    task = run_now(asyncio.Event().wait())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_task_that_waits_is_a_coroutine_that_every_python_takes() -> None:
    """Since Python 3.12 asyncio takes no coroutine that is a generator."""
    over = asyncio.Event()

    async def wait() -> int:
        await over.wait()
        return 7

    task = run_now(wait())
    assert isinstance(task, asyncio.Task)
    assert inspect.iscoroutine(task.get_coro())
    over.set()
    assert await task == 7
