"""Long work comes one after the other; quick work does not wait for it."""

import asyncio
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kmini.broker.long_work import LongWork
from kmini.protocol.errors import InvalidRecord
from support.until import until_async

LARGE = 1 << 26


@pytest.fixture
def requester() -> Callable[[], Any]:
    return lambda: SimpleNamespace(waiting=None, is_closing=False)


class Job:
    """Work that is more than a quick try allows, and lasts until it may end."""

    def __init__(self, *, ends: bool = False) -> None:
        self.limits: list[int] = []
        self.began = threading.Event()
        self.may_end = threading.Event()
        if ends:
            self.may_end.set()

    def __call__(self, limit: int) -> str:
        self.limits.append(limit)
        if limit < LARGE:
            raise InvalidRecord("too large")
        self.began.set()
        assert self.may_end.wait(30)
        return "done"


async def has_begun(job: Job) -> None:
    assert await asyncio.get_running_loop().run_in_executor(None, job.began.wait, 30)


async def test_what_a_quick_try_can_do_is_done_with_it(requester: Callable[[], Any]) -> None:
    assert await LongWork().run(lambda limit: limit, LARGE, requester()) < LARGE


async def test_what_a_quick_try_refuses_for_good_is_refused(requester: Callable[[], Any]) -> None:
    def refuse(limit: int) -> None:
        limits.append(limit)
        raise InvalidRecord("no key", [(0, "no key")])

    limits: list[int] = []
    with pytest.raises(InvalidRecord, match="no key"):
        await LongWork().run(refuse, LARGE, requester())
    assert len(limits) == 1


async def test_a_small_limit_is_tried_once(requester: Callable[[], Any]) -> None:
    job = Job()
    with pytest.raises(InvalidRecord):
        await LongWork().run(job, 1_000, requester())
    assert job.limits == [1_000]


@pytest.mark.sockets
async def test_long_work_comes_one_after_the_other_and_quick_work_meanwhile(requester: Callable[[], Any]) -> None:
    long_work = LongWork()
    jobs = [Job(), Job(), Job()]
    first, second, third = (asyncio.create_task(long_work.run(job, LARGE, requester())) for job in jobs)
    await has_begun(jobs[0])
    await until_async(lambda: len(jobs[1].limits) == len(jobs[2].limits) == 1)
    assert await long_work.run(lambda limit: limit, LARGE, requester()) < LARGE
    assert not jobs[1].began.is_set()
    assert not jobs[2].began.is_set()
    for job, task in zip(jobs, (first, second, third), strict=True):
        job.may_end.set()
        assert await task == "done"


@pytest.mark.sockets
async def test_who_leaves_before_its_turn_is_passed_over(requester: Callable[[], Any]) -> None:
    long_work = LongWork()
    jobs = [Job(), Job(), Job(ends=True)]
    requesters = [requester() for _ in jobs]
    tasks = []
    for job, each in zip(jobs, requesters, strict=True):
        tasks.append(asyncio.create_task(long_work.run(job, LARGE, each)))
        await until_async(lambda job=job, each=each: job.began.is_set() or each.waiting is not None)  # type: ignore[misc]
    requesters[1].waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks[1]
    jobs[0].may_end.set()
    assert await tasks[0] == "done"
    assert await tasks[2] == "done"
    assert not jobs[1].began.is_set()


async def test_who_left_during_the_quick_try_does_not_wait(requester: Callable[[], Any]) -> None:
    gone = requester()
    gone.is_closing = True
    job = Job()
    with pytest.raises(asyncio.CancelledError):
        await LongWork().run(job, LARGE, gone)
    assert not job.began.is_set()


async def test_work_that_fails_makes_way_for_the_next(requester: Callable[[], Any]) -> None:
    long_work = LongWork()
    for _ in range(3):
        with pytest.raises(InvalidRecord):
            await long_work.run(lambda _: Job()(0), LARGE, requester())
    assert await long_work.run(Job(ends=True), LARGE, requester()) == "done"
