"""The one way in which tests wait for a condition: `support.until`."""

from __future__ import annotations

import threading

import pytest

from support.until import until, until_async


def test_it_returns_what_the_condition_returned_once_that_is_true() -> None:
    answers = iter([0, None, 7])
    assert until(lambda: next(answers), poll_s=0) == 7


def test_it_waits_for_another_thread() -> None:
    arrived = threading.Event()
    threading.Timer(0.01, arrived.set).start()
    until(arrived.is_set)
    assert arrived.is_set()


@pytest.mark.parametrize(
    ("about", "told"),
    [
        ("the topic is gone", "after 0 s still False: the topic is gone"),
        (lambda: {"topics": 3}, "after 0 s still False: {'topics': 3}"),
    ],
)
def test_a_condition_that_stays_false_fails_with_what_was_awaited(about: str, told: str) -> None:
    with pytest.raises(AssertionError) as failed:
        until(lambda: False, about, timeout_s=0)
    assert str(failed.value) == told


def test_the_source_of_the_condition_tells_what_was_awaited_where_nothing_else_does() -> None:
    with pytest.raises(AssertionError, match=r"still \[\]: until\(lambda: \[\], timeout_s=0\)"):
        until(lambda: [], timeout_s=0)
    with pytest.raises(AssertionError, match=r"still False: <built-in method"):
        until("".isdigit, timeout_s=0)


def test_what_the_condition_raises_ends_the_wait() -> None:
    with pytest.raises(ZeroDivisionError):
        until(lambda: 1 // 0)


async def test_an_asynchronous_test_waits_for_plain_conditions_and_for_coroutines() -> None:
    answers = iter([0, 3, 0, 4])

    async def answer() -> int:
        return next(answers)

    assert await until_async(lambda: next(answers), poll_s=0) == 3
    assert await until_async(answer, poll_s=0) == 4
    with pytest.raises(AssertionError, match="after 0 s still None: an answer"):
        await until_async(lambda: None, "an answer", timeout_s=0)
