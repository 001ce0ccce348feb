"""`with topic.expect(count=1):` around the code under test."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kmini import Broker, Record, RecordsMissing, Topic


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def orders(broker: Broker) -> Iterator[Topic]:
    """A topic of two partitions with one record, for one test."""
    broker.create_topic("orders", 2)
    topic = broker.topic("orders")
    topic.produce(b"earlier", key=b"42")
    yield topic
    broker.delete_topic("orders")


def values(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


def test_the_records_of_the_block_are_in_the_list_at_its_end(orders: Topic) -> None:
    with orders.expect() as records:
        assert records == []
        orders.produce(b"one")
        assert records == []
    assert values(records) == [b"one"]


def test_only_records_count_that_are_meant(orders: Topic) -> None:
    with orders.expect(2, key=b"42", where=lambda record: record.text() != "no", partition=1) as records:
        for value in (b"1", b"no", b"2"):
            orders.produce(value, key=b"42", partition=1)
        orders.produce(b"3", key=b"43", partition=1)
        orders.produce(b"4", key=b"42", partition=0)
    assert values(records) == [b"1", b"2"]


def test_the_end_of_the_block_waits_for_records_that_come_later(orders: Topic) -> None:
    is_over = threading.Event()

    def write() -> None:
        is_over.wait(60)
        orders.produce(b"one")

    thread = threading.Thread(target=write)
    with orders.expect() as records:
        thread.start()
        is_over.set()
    assert values(records) == [b"one"]
    thread.join(60)


def test_a_record_that_does_not_come_is_told_with_those_that_are_there(orders: Topic) -> None:
    with (
        pytest.raises(RecordsMissing) as caught,
        orders.expect(key=b"43", timeout_ms=1),
    ):
        orders.produce(b"other", key=b"44")
    assert str(caught.value) == (
        "orders holds 0 of 1 record with key b'43' since the mark after 1 ms: []; "
        "2 others: [b'42': b'earlier', b'44': b'other']"
    )


def test_a_record_too_many_fails_the_block(orders: Topic) -> None:
    with pytest.raises(AssertionError) as caught, orders.expect(1, key=b"42"):
        [orders.produce(value, key=b"42") for value in (b"1", b"2")]
    assert str(caught.value) == "2 records with key b'42' came to orders, and 1 should: [b'42': b'1', b'42': b'2']"


def test_a_record_too_many_that_comes_later_fails_the_block_within_its_time(orders: Topic) -> None:
    thread = threading.Thread(target=lambda: [orders.produce(value) for value in (b"1", b"2")])
    with (
        pytest.raises(AssertionError, match="2 records came to orders, and 1 should"),
        orders.expect(1, within_ms=60_000),
    ):
        thread.start()
    thread.join(60)


def test_where_nothing_should_come_a_record_is_told_at_once(orders: Topic) -> None:
    with (
        pytest.raises(AssertionError, match=re.escape("1 record came to orders, and none should: [b'one']")),
        orders.expect(0, within_ms=3_600_000),
    ):
        orders.produce(b"one")


def test_where_nothing_should_come_the_block_takes_its_time_and_no_other_record_counts(orders: Topic) -> None:
    began = time.monotonic()
    with orders.expect(0, key=b"43", within_ms=20) as records:
        orders.produce(b"other", key=b"42")
    assert records == []
    assert time.monotonic() - began >= 0.019  # the timers of uvloop count whole milliseconds


def test_a_topic_that_is_not_there_yet_can_be_expected_on(broker: Broker) -> None:
    with broker.topic("later").expect(0, within_ms=1):
        pass
    with broker.topic("later").expect() as records:
        broker.topic("later").produce(b"one")
    assert values(records) == [b"one"]
    broker.delete_topic("later")


def test_an_error_inside_the_block_ends_it_without_waiting(broker: Broker, orders: Topic) -> None:
    with pytest.raises(ZeroDivisionError), orders.expect(timeout_ms=3_600_000):
        raise ZeroDivisionError

    async def main() -> None:
        with pytest.raises(ZeroDivisionError):
            async with broker.aio.topic("orders").expect(timeout_ms=3_600_000):
                raise ZeroDivisionError

    asyncio.run(main())


def test_an_expectation_can_be_entered_again_and_counts_from_there(orders: Topic) -> None:
    expectation = orders.expect()
    for value in (b"1", b"2"):
        with expectation as records:
            orders.produce(value)
        assert values(records) == [value]


def test_async_with_awaits_while_a_client_on_the_same_loop_writes(broker: Broker, orders: Topic) -> None:
    async def main() -> None:
        async def write(begin: asyncio.Event) -> None:
            await begin.wait()
            await broker.aio.topic("orders").produce(b"one")

        begin = asyncio.Event()
        writing = asyncio.ensure_future(write(begin))
        async with broker.aio.topic("orders").expect() as records:
            begin.set()
        await writing
        assert values(records) == [b"one"]

    asyncio.run(main())


@pytest.mark.parametrize("count", [0, 1])
def test_with_refuses_to_wait_on_the_thread_of_a_running_loop(orders: Topic, count: int) -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError) as caught, orders.expect(count):
            pass
        assert str(caught.value) == (
            "the end of `with expect` would stop the event loop that your client runs on: "
            "async with broker.aio.topic('orders').expect(...)"
        )

    asyncio.run(main())


def test_with_takes_what_has_come_already_on_the_thread_of_a_running_loop(orders: Topic) -> None:
    async def main() -> None:
        with orders.expect() as records:
            orders.produce(b"one")
        assert values(records) == [b"one"]
        with pytest.raises(AssertionError, match="1 record came to orders, and none should"), orders.expect(0):
            orders.produce(b"two")

    asyncio.run(main())


def test_trio_is_told_to_wait_in_a_thread(orders: Topic) -> None:
    trio = pytest.importorskip("trio")

    async def main() -> None:
        with (
            pytest.raises(
                RuntimeError, match=r"await trio\.to_thread\.run_sync\(broker\.topic\('orders'\)\.wait_for, \.\.\.\)"
            ),
            orders.expect(),
        ):
            pass
        with pytest.raises(RuntimeError, match="kmini's awaitable methods need asyncio"):
            async with orders.expect():
                pass

    trio.run(main)


def test_one_that_does_not_run_says_so() -> None:
    expectation: Any = Broker().topic("orders").expect()
    with pytest.raises(RuntimeError, match="the broker does not run"), expectation:
        pass
