"""Calls that do not return: each is given up, and says where the thread of the broker is (testkit/loop_thread.py).

What the thread does otherwise is in test_event_loops.py.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from kmini import Broker, Cluster
from kmini.testkit import loop_thread
from kmini.testkit.loop_thread import LoopThread


def test_a_call_that_does_not_return_is_given_up_and_says_where_it_waits() -> None:
    with Broker() as broker:

        async def wait_for_ever() -> None:
            await asyncio.get_running_loop().create_future()

        async def begin() -> None:
            await wait_for_ever()

        with pytest.raises(TimeoutError) as caught:
            broker._thread.run(begin(), deadline_s=0.05)
        told = str(caught.value)
        assert told.startswith("begin has not returned after 0.05 s. The call waits at:\n")
        assert told.index("await wait_for_ever()") < told.index(".create_future()")
        assert "The thread that the broker runs on is at:" in told
        assert broker.topics() == [], "the broker goes on"


def test_a_call_to_a_thread_that_hangs_is_given_up_and_says_where_the_thread_is() -> None:
    with Broker() as broker:
        release = threading.Event()

        async def hang() -> None:
            release.wait(60)

        hanging = broker._thread.submit(hang())
        with pytest.raises(TimeoutError, match=r"The thread that the broker runs on is at:(?s:.*)release\.wait\(60\)"):
            broker._thread.run(asyncio.sleep(0), deadline_s=0.05)
        release.set()
        hanging.result(60)


def test_a_time_out_of_the_call_itself_is_raised_as_it_is() -> None:
    with Broker() as broker:

        async def time_out() -> None:
            raise TimeoutError("of its own")

        with pytest.raises(TimeoutError, match=r"^of its own$"):
            broker._thread.run(time_out(), deadline_s=60)


def test_an_end_that_hangs_is_given_up_and_says_where_the_thread_is(monkeypatch: pytest.MonkeyPatch) -> None:
    thread = LoopThread("broker")
    thread.start()
    release = threading.Event()

    async def hang() -> None:
        release.wait(60)

    hanging = thread.submit(hang())
    with monkeypatch.context() as patch:
        patch.setattr(loop_thread, "END_S", 0.05)
        with pytest.raises(TimeoutError, match=r"the broker has not ended after 0\.05 s\. (?s:.*)release\.wait\(60\)"):
            thread.end()
    release.set()
    hanging.result(60)


OWN_S = [0, 5, 10, 0, 3.001, 600, 600]
"""Seconds that the calls of the next two tests may take: retention and a moved clock may work on many logs."""


def assert_beyond(deadlines: list[float | None], own: list[float]) -> None:
    """`own` are the calls' own time-outs: the deadlines leave each of them half a minute more."""
    assert [pair for pair in zip(deadlines, own, strict=True) if pair[0] is None or pair[0] < pair[1] + 30] == []


def test_every_blocking_call_has_a_deadline_beyond_its_own_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with Cluster(brokers=1, topics=["orders"]) as cluster:
        deadlines: list[float | None] = []
        run = cluster._thread.run

        def record(coroutine: Any, *, deadline_s: float | None = None) -> Any:
            deadlines.append(deadline_s)
            return run(coroutine, deadline_s=deadline_s)

        monkeypatch.setattr(cluster._thread, "run", record)
        orders = cluster.topic("orders")
        cluster.topics()
        orders.wait_for(0, timeout_ms=5_000)
        cluster.wait_for_records("orders", 0)
        with orders.expect(0, timeout_ms=3_000, within_ms=1):
            pass
        orders.apply_retention()
        cluster.clock.advance("1s")
        assert_beyond(deadlines, OWN_S)


async def test_every_awaited_call_has_the_deadline_of_the_blocking_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Cluster(brokers=1, topics=["orders"]) as cluster:
        deadlines: list[float | None] = []
        awaited = cluster._thread.awaited

        async def record(coroutine: Any, *, deadline_s: float | None = None) -> Any:
            deadlines.append(deadline_s)
            return await awaited(coroutine, deadline_s=deadline_s)

        monkeypatch.setattr(cluster._thread, "awaited", record)
        orders = cluster.topic("orders")
        await cluster.topics()
        await orders.wait_for(0, timeout_ms=5_000)
        await cluster.wait_for_records("orders", 0)
        async with orders.expect(0, timeout_ms=3_000, within_ms=1):
            pass
        await orders.apply_retention()
        await cluster.clock.advance("1s")
        await cluster.faults.on("Produce", topic="orders").drop()
        assert_beyond(deadlines, [*OWN_S, 0])


async def test_an_awaited_call_past_its_deadline_says_where_it_hangs_and_is_cancelled() -> None:
    async with Broker() as broker:
        ended = asyncio.Event()

        async def hang() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        with pytest.raises(TimeoutError, match=r"hang has not returned after 0\.05 s(?s:.*)await asyncio\.Event"):
            await broker._thread.awaited(hang(), deadline_s=0.05)
        await broker._thread.awaited(ended.wait(), deadline_s=60)
