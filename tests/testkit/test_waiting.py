"""Waits end with the change that they wait for, and look at nothing meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kmini import Broker
from kmini.testkit.operations import Operations
from kmini.testkit.waiting import until

KEY = "something that a test changes"


class Seen:
    """A condition that counts how often it is asked."""

    def __init__(self) -> None:
        self.holds = False
        self.asked = 0

    def __call__(self) -> bool:
        self.asked += 1
        return self.holds


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def test_a_wait_without_a_change_asks_at_its_begin_and_at_its_end_only(broker: Broker) -> None:
    seen = Seen()
    assert not broker._thread.run(until(broker._operations, seen, lambda: [KEY], 100))
    assert seen.asked <= 3


def test_a_change_of_a_key_ends_the_wait(broker: Broker) -> None:
    seen = Seen()

    async def change_and_wait(operations: Operations) -> bool:
        def change() -> None:
            seen.holds = True
            operations.any_broker().purgatory.check(KEY)

        operations.clock.call_later(20, change, liveness=True)
        return await until(operations, seen, lambda: [KEY], 60_000)

    assert broker._thread.run(change_and_wait(broker._operations))
    assert seen.asked <= 4


def test_keys_that_change_are_watched_from_then_on(broker: Broker) -> None:
    seen = Seen()
    keys = [KEY]

    async def change_twice(operations: Operations) -> bool:
        def add_a_key() -> None:
            keys.append("another key")
            operations.any_broker().purgatory.check(KEY)
            operations.clock.call_later(20, hold, liveness=True)

        def hold() -> None:
            seen.holds = True
            operations.any_broker().purgatory.check("another key")

        operations.clock.call_later(20, add_a_key, liveness=True)
        return await until(operations, seen, lambda: [*keys], 60_000)

    assert broker._thread.run(change_twice(broker._operations))


def test_what_the_condition_raises_ends_the_wait(broker: Broker) -> None:
    def fail() -> bool:
        raise LookupError("nothing to look at")

    with pytest.raises(LookupError, match="nothing to look at"):
        broker._thread.run(until(broker._operations, fail, lambda: [KEY], 60_000))
