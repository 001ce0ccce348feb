"""Tracebacks of calls (testkit/handle.py): an answer shows the line of the caller, and what went wrong shows where.

The methods themselves are in test_event_loops.py and test_parts.py.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kmini import Broker, RecordsMissing, Topic
from kmini.protocol.errors import InvalidArgument
from kmini.testkit.handle import brief


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics=["orders"]) as running:
        yield running


@pytest.fixture
def orders(broker: Broker) -> Topic:
    return broker.topic("orders")


def files_of(call: Callable[[], object], expected: type[Exception]) -> list[str]:
    """The files in the traceback of an error."""
    with pytest.raises(expected) as caught:
        call()
    return [Path(frame.filename).name for frame in traceback.extract_tb(caught.value.__traceback__)]


def test_an_answer_shows_the_line_of_the_caller_and_no_inside_of_the_broker(broker: Broker, orders: Topic) -> None:
    here = Path(__file__).name

    async def await_it() -> None:
        await broker.aio.topic("orders").wait_for(1, key=b"none", timeout_ms=1)

    def expect() -> None:
        with orders.expect(timeout_ms=1):
            pass

    assert files_of(lambda: orders.wait_for(1, key=b"none", timeout_ms=1), RecordsMissing) == [here, here, "handle.py"]
    assert files_of(expect, RecordsMissing) == [here, here, "expectation.py"]
    assert files_of(lambda: asyncio.run(await_it()), RecordsMissing)[-2:] == [here, "handle.py"]
    assert files_of(lambda: orders.produce("text"), TypeError)[-1] == "handle.py"  # type: ignore[arg-type]


def test_an_error_of_the_callers_own_function_shows_its_line(orders: Topic) -> None:
    def asserts(record: object) -> bool:
        raise AssertionError("of the caller")

    written = orders.produce(b"v", key=b"of this test")
    files = files_of(lambda: orders.wait_for(asserts, key=written.key, timeout_ms=1), AssertionError)
    here = Path(__file__).name
    assert files == [here, here, "handle.py", here]


def test_a_call_of_ours_that_fails_keeps_its_frames_and_an_answer_does_not() -> None:
    ours: dict[str, Any] = {"__name__": "kmini.made_up", "InvalidArgument": InvalidArgument}
    exec("def fails(): int('none')\ndef refuses(): raise InvalidArgument('none')", ours)
    for function, frames in (("fails", ["fails"]), ("refuses", [])):
        with pytest.raises(ValueError, match="none") as caught:
            ours[function]()
        assert caught.tb.tb_next is not None
        inside = caught.value.with_traceback(caught.tb.tb_next)
        assert [frame.name for frame in traceback.extract_tb(brief(inside).__traceback__)] == frames
