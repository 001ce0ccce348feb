"""Waiting: released once, by completion, expiry or the end of the connection."""

import asyncio

import pytest

from kmini.broker.clock import MovableClock
from kmini.broker.purgatory import RELEASED_IN_PLACE, Operation, Purgatory, Wait
from kmini.protocol.topics import TopicPartition


class Switch(Operation):
    """Complete once it is on."""

    def __init__(self, *keys: str) -> None:
        self.is_on = False
        self._keys = keys

    @property
    def keys(self) -> tuple[str, ...]:
        return self._keys

    def is_complete(self) -> bool:
        return self.is_on


class Waiter:
    waiting: "asyncio.Future[bool] | None" = None


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
def purgatory(clock: MovableClock) -> Purgatory:
    return Purgatory(clock)


async def begin(purgatory: Purgatory, operation: Operation, timeout_ms: int = 1_000, waiter: Waiter | None = None):
    task = asyncio.ensure_future(purgatory.wait(operation, timeout_ms=timeout_ms, waiter=waiter or Waiter()))
    await asyncio.sleep(0)
    return task


async def test_what_is_complete_does_not_wait(purgatory: Purgatory) -> None:
    operation = Switch("a")
    operation.is_on = True
    assert await purgatory.wait(operation, timeout_ms=0, waiter=Waiter())
    assert len(purgatory) == 0


async def test_without_time_an_incomplete_operation_expires_at_once(purgatory: Purgatory) -> None:
    assert not await purgatory.wait(Switch("a"), timeout_ms=0, waiter=Waiter())


async def test_a_check_of_any_of_its_keys_releases_a_complete_operation(purgatory: Purgatory) -> None:
    for key in ("a", "b"):
        operation = Switch("a", "b")
        task = await begin(purgatory, operation)
        operation.is_on = True
        purgatory.check(key)
        assert await task
        assert len(purgatory) == 0


async def test_a_check_leaves_incomplete_operations_and_other_keys_alone(purgatory: Purgatory) -> None:
    incomplete, elsewhere = Switch("a"), Switch("b")
    tasks = [await begin(purgatory, incomplete), await begin(purgatory, elsewhere)]
    elsewhere.is_on = True
    purgatory.check("a")
    await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)
    assert len(purgatory) == 2
    purgatory.check("b")
    assert await tasks[1]
    tasks[0].cancel()


async def test_it_expires_when_liveness_time_has_passed_and_not_with_log_time(
    purgatory: Purgatory, clock: MovableClock
) -> None:
    task = await begin(purgatory, Switch("a"), timeout_ms=60_000)
    await clock.advance(3_600_000)
    assert not task.done()
    await clock.advance(60_000, liveness=True)
    assert await task is False
    assert len(purgatory) == 0


async def test_a_waiter_that_leaves_takes_its_operation_with_it(purgatory: Purgatory) -> None:
    waiter = Waiter()
    task = await begin(purgatory, Switch("a"), waiter=waiter)
    assert waiter.waiting is not None
    waiter.waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(purgatory) == 0
    assert waiter.waiting is None
    purgatory.check("a")


async def test_completion_and_expiry_at_the_same_moment_release_it_once(
    purgatory: Purgatory, clock: MovableClock
) -> None:
    operation = Switch("a")
    task = await begin(purgatory, operation, timeout_ms=1_000)
    operation.is_on = True
    purgatory.check("a")
    await clock.advance(2_000, liveness=True)
    assert await task is True


async def test_an_operation_that_cannot_be_asked_fails_by_itself(purgatory: Purgatory) -> None:
    """Neither whoever changed something nor the others that wait are hurt."""
    broken, sound = Switch("a"), Switch("a")
    tasks = [await begin(purgatory, broken), await begin(purgatory, sound)]
    broken.is_complete = lambda: 1 // 0  # type: ignore[assignment, method-assign]
    sound.is_on = True
    purgatory.check("a")
    with pytest.raises(ZeroDivisionError):
        await tasks[0]
    assert await tasks[1]
    assert len(purgatory) == 0


async def without_a_task(purgatory: Purgatory, operation: Operation, log: list[str], name: str, **wait: object) -> Wait:
    """Begin a wait as a dispatcher does; `log` gets the name when it goes on, with its outcome."""

    async def handler() -> bool:
        return await purgatory.wait(operation, **{"timeout_ms": 1_000, "waiter": Waiter(), **wait})  # type: ignore[arg-type]

    coroutine = handler()
    waiting = coroutine.send(None)
    assert isinstance(waiting, Wait)

    def go_on() -> None:
        try:
            coroutine.send(None)
        except StopIteration as done:
            log.append(f"{name} {done.value}")
        except asyncio.CancelledError:
            log.append(f"{name} left")

    waiting.resume_request = go_on
    return waiting


@pytest.mark.sockets
async def test_a_wait_without_a_task_goes_on_before_the_caller_that_attends(purgatory: Purgatory) -> None:
    operation, log = Switch("a"), []
    await without_a_task(purgatory, operation, log, "reader")
    assert purgatory.attend()
    operation.is_on = True
    purgatory.check("a")
    assert not log
    purgatory.run_released()
    assert log == ["reader True"]
    assert len(purgatory) == 0


async def test_a_wait_without_a_task_goes_on_soon_where_no_caller_attends(purgatory: Purgatory) -> None:
    operation, log = Switch("a"), []
    await without_a_task(purgatory, operation, log, "reader")
    operation.is_on = True
    purgatory.check("a")
    assert not log
    await asyncio.sleep(0)
    assert log == ["reader True"]


async def test_more_than_a_few_go_on_after_the_caller(purgatory: Purgatory) -> None:
    operations, log = [Switch("a") for _ in range(RELEASED_IN_PLACE + 1)], []
    for operation in operations:
        await without_a_task(purgatory, operation, log, "reader")
        operation.is_on = True
    assert purgatory.attend()
    purgatory.check("a")
    purgatory.run_released()
    assert not log
    await asyncio.sleep(0)
    assert log == ["reader True"] * len(operations)


async def test_one_caller_attends_until_it_goes_on_with_the_released(purgatory: Purgatory) -> None:
    operation, log = Switch("a"), []
    wait = await without_a_task(purgatory, operation, log, "reader")
    go_on = wait.resume_request
    assert go_on is not None

    def go_on_and_attend() -> None:
        go_on()
        log.append(f"a request meanwhile attends: {purgatory.attend()}")

    wait.resume_request = go_on_and_attend
    assert purgatory.attend()
    assert not purgatory.attend()
    operation.is_on = True
    purgatory.check("a")
    purgatory.run_released()
    assert log == ["reader True", "a request meanwhile attends: False"]
    assert purgatory.attend()


async def test_what_goes_on_may_release_others(purgatory: Purgatory) -> None:
    first, second, log = Switch("a"), Switch("b"), []
    wait = await without_a_task(purgatory, first, log, "first")
    await without_a_task(purgatory, second, log, "second")
    go_on = wait.resume_request
    assert go_on is not None

    def go_on_and_release() -> None:
        go_on()
        second.is_on = True
        purgatory.check("b")

    wait.resume_request = go_on_and_release
    first.is_on = True
    assert purgatory.attend()
    purgatory.check("a")
    purgatory.run_released()
    assert log == ["first True", "second True"]


async def test_a_wait_without_a_task_expires_and_leaves_as_others_do(purgatory: Purgatory, clock: MovableClock) -> None:
    log: list[str] = []
    waiter = Waiter()
    await without_a_task(purgatory, Switch("a"), log, "slow")
    await without_a_task(purgatory, Switch("a"), log, "gone", waiter=waiter)
    assert waiter.waiting is not None
    waiter.waiting.cancel()
    await asyncio.sleep(0)
    assert log == ["gone left"]
    await clock.advance(1_000, liveness=True)
    await asyncio.sleep(0)
    assert log == ["gone left", "slow False"]
    assert len(purgatory) == 0


async def test_waits_expire_in_the_order_of_their_deadlines(purgatory: Purgatory, clock: MovableClock) -> None:
    log: list[str] = []
    for timeout_ms in (3_000, 1_000, 2_000):
        await without_a_task(purgatory, Switch("a"), log, str(timeout_ms), timeout_ms=timeout_ms)
    for _ in range(3):
        await clock.advance(1_000, liveness=True)
        await asyncio.sleep(0)
    assert log == ["1000 False", "2000 False", "3000 False"]


async def test_deadlines_of_waits_that_have_ended_are_forgotten(purgatory: Purgatory) -> None:
    log: list[str] = []
    for _ in range(10_000):
        operation = Switch("a")
        await without_a_task(purgatory, operation, log, "reader", timeout_ms=3_600_000)
        operation.is_on = True
        assert purgatory.attend()
        purgatory.check("a")
        purgatory.run_released()
    assert len(log) == 10_000
    assert len(purgatory._deadlines) < 1_000


async def test_at_the_end_of_the_broker_waits_end_as_if_their_time_were_over(purgatory: Purgatory) -> None:
    first, second = await begin(purgatory, Switch("a")), await begin(purgatory, Switch("b", "c"), 60_000)
    purgatory.close()
    assert [await first, await second] == [False, False]
    assert len(purgatory) == 0


class Places(Operation):
    """Waits for partitions."""

    def __init__(self, count: int) -> None:
        self._count = count

    @property
    def keys(self) -> list[TopicPartition | str]:
        return ["orders", *(TopicPartition("orders", number) for number in reversed(range(self._count)))]


def test_a_wait_tells_its_partitions_and_of_many_the_first_ones() -> None:
    assert Switch("orders").what == ""
    assert Places(1).what == "of orders-0"
    assert Places(3).what == "of orders-0, orders-1, orders-2"
    assert Places(5).what == "of orders-0, orders-1, orders-2 and 2 more"
