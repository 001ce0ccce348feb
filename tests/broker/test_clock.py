"""Two timelines, and what falls due when they are moved."""

import asyncio
import logging
import time
from datetime import timedelta

import pytest

from kmini.broker.clock import Duration, MovableClock, in_days, milliseconds
from support.until import until_async

WEEK_MS = 7 * 24 * 3_600_000


async def test_what_falls_due_runs_in_order_and_sees_its_own_time() -> None:
    clock = MovableClock()
    start = clock.now_ms()
    seen: list[tuple[str, int]] = []
    clock.call_later(WEEK_MS, lambda: seen.append(("late", clock.now_ms())))
    clock.call_later(60_000, lambda: seen.append(("early", clock.now_ms())))
    await clock.advance(WEEK_MS + 60_000)
    assert [name for name, _ in seen] == ["early", "late"]
    (_, early), (_, late) = seen
    assert 60_000 <= early - start < 120_000
    assert WEEK_MS <= late - start < WEEK_MS + 60_000
    assert clock.now_ms() - start >= WEEK_MS + 60_000


async def test_a_timer_set_on_the_way_runs_too() -> None:
    clock = MovableClock()
    runs: list[int] = []

    def again() -> None:
        runs.append(clock.now_ms())
        clock.call_later(100_000, again)

    clock.call_later(100_000, again)
    await clock.advance(1_050_000)  # each sets the next a little late, as real time goes on
    assert len(runs) == 10


async def test_log_time_leaves_liveness_where_it_is() -> None:
    clock = MovableClock()
    before = clock.liveness_ms()
    fired: list[str] = []
    clock.call_later(30_000, lambda: fired.append("liveness"), liveness=True)
    await clock.advance(WEEK_MS)
    assert fired == []
    assert clock.liveness_ms() - before < WEEK_MS
    await clock.advance(30_000, liveness=True)
    assert fired == ["liveness"]


async def test_a_log_time_has_the_liveness_time_at_which_it_was() -> None:
    clock = MovableClock()
    began_ms, then_ms = clock.now_ms(), clock.liveness_ms()
    await clock.advance(WEEK_MS)
    later_ms, then_later_ms = clock.now_ms(), clock.liveness_ms()
    await clock.advance(30_000, liveness=True)
    assert abs(clock.liveness_at(began_ms) - then_ms) <= 1
    assert abs(clock.liveness_at(later_ms) - then_later_ms) <= 1
    assert clock.liveness_at(began_ms + WEEK_MS // 2) <= clock.liveness_ms()
    before_the_start_ms = began_ms - 60_000
    assert abs(then_ms - clock.liveness_at(before_the_start_ms) - 60_000) <= 1


async def test_a_cancelled_timer_does_not_run() -> None:
    clock = MovableClock()
    clock.call_later(1_000, lambda: pytest.fail("it was cancelled")).cancel()
    await clock.advance(WEEK_MS, liveness=True)


async def test_advance_returns_when_what_it_started_has_finished() -> None:
    clock = MovableClock()
    steps: list[str] = []

    async def work() -> None:
        steps.append("begun")
        await asyncio.sleep(0)
        steps.append("done")

    clock.call_later(1_000, work)
    await clock.advance(1_000)
    assert steps == ["begun", "done"]


async def test_what_runs_already_is_waited_for_and_what_it_asks_for_runs_too() -> None:
    clock = MovableClock()
    has_begun, may_end = asyncio.Event(), asyncio.Event()
    fired: list[str] = []

    async def slow() -> None:
        has_begun.set()
        await may_end.wait()
        clock.call_later(1_000, lambda: fired.append("asked for late"))

    clock.call_later(0, slow)
    await has_begun.wait()  # started by the wall clock
    moved = asyncio.ensure_future(clock.advance("1h"))
    await asyncio.sleep(0)
    may_end.set()
    await moved
    assert fired == ["asked for late"]


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        ("7d", WEEK_MS),
        ("1w", WEEK_MS),
        ("1h30m", 5_400_000),
        ("1.5 h", 5_400_000),
        ("250ms", 250),
        ("2m 3s", 123_000),
        (timedelta(days=7), WEEK_MS),
        (WEEK_MS, WEEK_MS),
    ],
)
def test_durations_are_said_as_people_say_them(duration: Duration, expected: int) -> None:
    assert milliseconds(duration) == expected


@pytest.mark.parametrize("text", ["", "7", "d", "7 moons", "-1h", "1h-30m", "1e3s"])
async def test_what_is_no_duration_is_refused_with_the_units(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no duration: .*ms, s, m, h, d, w"):
        await MovableClock().advance(text)


async def test_a_clock_that_is_turned_back_leaves_timers_the_time_that_they_have() -> None:
    clock = MovableClock()
    ran: list[int] = []
    before = clock.now_ms()
    clock.call_later(3_600_000, lambda: ran.append(clock.now_ms()))
    clock.turn_back("1d")
    assert -1_000 < clock.now_ms() - (before - 86_400_000) < 60_000
    assert clock.ahead_ms == -86_400_000
    await clock.advance("59m")
    assert ran == []
    await clock.advance("1m")
    assert len(ran) == 1


def test_a_clock_is_turned_back_by_a_positive_duration() -> None:
    with pytest.raises(ValueError, match="not by -1 ms"):
        MovableClock().turn_back(-1)


async def test_the_clock_does_not_move_backwards() -> None:
    with pytest.raises(ValueError, match="forward only"):
        await MovableClock().advance(-1)


async def test_timers_that_ended_are_forgotten() -> None:
    clock = MovableClock()
    for _ in range(10_000):
        clock.call_later(600_000, lambda: None, liveness=True).cancel()
    assert len(clock._liveness_timers) < 1_000


async def test_a_caller_that_goes_ends_the_move_where_it_is() -> None:
    clock = MovableClock()
    start_ms = clock.now_ms()
    may_end = asyncio.Event()
    steps: list[str] = []

    async def work() -> None:
        steps.append("begun")
        await may_end.wait()
        steps.append("done")

    clock.call_later(60_000, work)
    clock.call_later(WEEK_MS, lambda: steps.append("a week later"))
    move = asyncio.ensure_future(clock.advance(2 * WEEK_MS))
    await until_async(lambda: steps == ["begun"], "the timer fires")
    move.cancel()
    await asyncio.wait([move])
    may_end.set()
    await clock.settle()
    assert (steps, move.cancelled(), clock.move) == (["begun", "done"], True, None)
    assert 60_000 <= clock.now_ms() - start_ms < 120_000
    assert clock.moves[-1][1] == clock.ahead_ms
    await clock.advance(WEEK_MS)
    assert steps == ["begun", "done", "a week later"]


async def test_what_is_tried_again_and_again_is_not_waited_for() -> None:
    """Such as the abort of a transaction whose state no replica takes."""
    clock = MovableClock()
    tries: list[int] = []

    async def try_again() -> None:
        tries.append(len(tries))
        await asyncio.sleep(0)
        if len(tries) < 1_000:
            clock.call_later(0, try_again, liveness=True)

    clock.call_later(0, try_again, liveness=True)
    await until_async(lambda: tries, "it is tried")
    await clock.settle()
    assert len(tries) < 1_000


async def test_a_move_of_log_time_does_not_wait_for_what_liveness_has_started() -> None:
    clock = MovableClock()
    may_end = asyncio.Event()
    steps: list[str] = []

    async def wait_for_replicas() -> None:
        steps.append("begun")
        await may_end.wait()

    clock.call_later(0, wait_for_replicas, liveness=True)
    await until_async(lambda: steps == ["begun"], "the timer fires")
    clock.call_later(60_000, lambda: steps.append("a minute later"))
    await clock.advance(WEEK_MS)
    assert steps == ["begun", "a minute later"]
    may_end.set()
    await clock.settle()


async def test_a_move_that_another_caller_stops_ends_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    stands_ns = time.time_ns()  # else the wall clock may go on by a millisecond, and a minute is 59 seconds
    monkeypatch.setattr(time, "time_ns", lambda: stands_ns)
    clock = MovableClock()
    start_ms = clock.now_ms()
    steps: list[str] = []
    assert not clock.stop_moving()

    def stop() -> None:
        steps.append("a minute later")
        assert clock.stop_moving()

    clock.call_later(60_000, stop)
    clock.call_later(WEEK_MS, lambda: steps.append("a week later"))
    with pytest.raises(RuntimeError, match="the move of the clock was stopped after 1m"):
        await clock.advance(2 * WEEK_MS)
    assert (steps, clock.moves_to_ms) == (["a minute later"], None)
    assert 60_000 <= clock.now_ms() - start_ms < 120_000
    await clock.advance(2 * WEEK_MS)
    assert steps == ["a minute later", "a week later"]


async def test_two_moves_are_one_after_the_other() -> None:
    clock = MovableClock()
    start_ms = clock.now_ms()
    await asyncio.gather(clock.advance("1d"), clock.advance("1d"))
    assert clock.now_ms() - start_ms >= 2 * 86_400_000


async def test_a_long_move_gives_way_and_says_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("kmini.broker.clock.TURN_S", 0)
    monkeypatch.setattr("kmini.broker.clock.TOLD_EVERY_S", 0)
    stands_ns = time.time_ns()  # else the wall clock may go on by a millisecond, and an hour is 59 minutes
    monkeypatch.setattr(time, "time_ns", lambda: stands_ns)
    caplog.set_level(logging.INFO, logger="kmini.clock")
    clock = MovableClock()
    order: list[str] = []
    for hour in range(1, 3):
        clock.call_later(hour * 3_600_000, lambda: order.append("timer"))
    asyncio.get_running_loop().call_soon(order.append, "client")
    await clock.advance("3h")
    assert order == ["timer", "client", "timer"]
    assert caplog.messages == ["the clock is being moved: 1h 0m of 3h 0m", "the clock is being moved: 2h 0m of 3h 0m"]
    assert [round(ahead_ms / 3_600_000) for _, ahead_ms in clock.moves] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("duration_ms", "text"), [(0, "0s"), (59_999, "59s"), (3_600_000, "1h 0m"), (2 * WEEK_MS + 7_200_000, "14d 2h")]
)
def test_a_duration_is_said_in_its_two_largest_units(duration_ms: int, text: str) -> None:
    assert in_days(duration_ms) == text
