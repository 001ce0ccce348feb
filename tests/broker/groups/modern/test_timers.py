"""Time-outs of members: sessions that every heartbeat extends, and waits that none does. What happens to the member:
`test_group_life.py` and `../consumer/test_life.py`."""

from __future__ import annotations

import pytest

from kmini.broker.groups.modern.timers import MemberTimers, Wait
from support.broker.consumer_lab import StillClock

Fired = tuple[str, str, Wait, int]


class Watched:
    """Timers on a clock that stands still, and what has fired."""

    def __init__(self) -> None:
        self.clock = StillClock()
        self.fired: list[Fired] = []
        self.timers = MemberTimers(self.clock, lambda *fired: self.fired.append(fired))

    async def pass_time(self, ms: int) -> list[Fired]:
        """Move the clock; what has fired meanwhile."""
        await self.clock.advance(ms, liveness=True)
        fired = [*self.fired]
        self.fired.clear()
        return fired


@pytest.fixture
async def watched() -> Watched:
    return Watched()


async def test_a_session_ends_after_its_last_heartbeat(watched: Watched) -> None:
    watched.timers.extend_session("g", "m", 1000)
    for _ in range(5):
        assert await watched.pass_time(999) == []
        watched.timers.extend_session("g", "m", 1000)
    assert watched.timers.is_running("g", "m", Wait.SESSION)
    assert await watched.pass_time(999) == []
    assert await watched.pass_time(1) == [("g", "m", Wait.SESSION, 1000)]
    assert not watched.timers.is_running("g", "m", Wait.SESSION)
    assert await watched.pass_time(100_000) == []


async def test_heartbeats_set_no_timers(watched: Watched) -> None:
    watched.timers.extend_session("g", "m", 1000)
    timers = len(watched.clock._liveness_timers)
    for _ in range(100):
        watched.timers.extend_session("g", "m", 1000)
    assert len(watched.clock._liveness_timers) == timers == 1


async def test_a_session_takes_another_length_with_the_next_heartbeat(watched: Watched) -> None:
    watched.timers.extend_session("g", "m", 1000)
    watched.timers.extend_session("g", "m", 300)
    assert await watched.pass_time(300) == [("g", "m", Wait.SESSION, 300)]
    watched.timers.extend_session("g", "m", 1000)
    watched.timers.extend_session("g", "m", 5000)
    assert watched.timers.deadline_ms("g", "m", Wait.SESSION) == 5300
    assert await watched.pass_time(4999) == []
    assert await watched.pass_time(1) == [("g", "m", Wait.SESSION, 5000)]


async def test_log_time_ends_no_session(watched: Watched) -> None:
    watched.timers.extend_session("g", "m", 1000)
    await watched.clock.advance(1_000_000)
    assert watched.fired == []


@pytest.mark.parametrize("wait", [Wait.REBALANCE, Wait.JOIN, Wait.SYNC])
async def test_a_wait_gives_back_its_number_and_begins_anew_when_it_is_started_again(
    watched: Watched, wait: Wait
) -> None:
    watched.timers.start("g", "m", wait, 1000, 7)
    await watched.pass_time(600)
    watched.timers.start("g", "m", wait, 1000, 8)
    assert await watched.pass_time(999) == []
    assert await watched.pass_time(1) == [("g", "m", wait, 8)]


async def test_waits_of_one_member_are_cancelled_one_by_one_or_together(watched: Watched) -> None:
    for wait in Wait:
        watched.timers.start("g", "m", wait, 1000, 1)
        watched.timers.start("g", "n", wait, 1000, 1)
    watched.timers.cancel("g", "m", Wait.REBALANCE, Wait.JOIN)
    assert [wait for wait in Wait if watched.timers.is_running("g", "m", wait)] == [Wait.SESSION, Wait.SYNC]
    watched.timers.cancel("g", "m")
    assert {member_id for _, member_id, _, _ in await watched.pass_time(1000)} == {"n"}


async def test_the_waits_of_a_group_are_cancelled_together(watched: Watched) -> None:
    for group in ("g", "h"):
        watched.timers.extend_session(group, "m", 1000)
        watched.timers.start(group, "m", Wait.REBALANCE, 1000, 1)
    watched.timers.cancel_group("g")
    watched.timers.cancel_group("unknown")
    assert {group for group, *_ in await watched.pass_time(1000)} == {"h"}


async def test_a_wait_that_does_not_run_has_no_deadline(watched: Watched) -> None:
    assert watched.timers.deadline_ms("g", "m", Wait.SESSION) is None
    watched.timers.cancel("g", "m")
    watched.timers.start("g", "m", Wait.SYNC, 500, 1)
    assert watched.timers.deadline_ms("g", "m", Wait.SYNC) == 500
    assert watched.timers.deadline_ms("g", "m", Wait.SESSION) is None
