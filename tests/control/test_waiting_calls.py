"""Requests that wait: they end with their client, and a reset or a stop answers them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kmini.control.control_server import WaitingCalls
from kmini.control.routes import PREFIX
from support.control_api import Answer, ControlApi, problem_of
from support.until import until

WAITS = {
    "records": ("/topics/orders/wait-for", {"count": 1}),
    "requests": ("/requests/wait-for", {"api": "Produce"}),
    "a group": ("/groups/billing/wait-stable", {"members": 1}),
    "a transaction": ("/transactions/wait-ended", {"transactional_id": "tx-1"}),
    "a fault rule": ("/faults/lost/wait-hit", {}),
}

RULE = {"name": "lost", "when": {"api": ["Produce"]}, "do": [{"error": "NOT_LEADER_OR_FOLLOWER"}]}


@contextmanager
def asked(api: ControlApi, path: str, document: Any) -> Iterator[Callable[[], Answer]]:
    """Send a request on a thread of its own; yields a function that waits for its answer."""
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(api.ask("POST", path, document)))
    thread.start()

    def answer() -> Answer:
        thread.join(60)
        assert answers, f"{path} has no answer"
        return answers[0]

    yield answer
    thread.join(60)


def wait_for_long(api: ControlApi, name: str) -> tuple[str, dict[str, Any]]:
    path, arguments = WAITS[name]
    if name == "a fault rule":
        api.done("POST", "/faults", {"rules": [RULE]})
    return path, {**arguments, "timeout_ms": 600_000}


def begun(api: ControlApi) -> None:
    until(lambda: api.call(lambda: len(api.server._waiting)) == 1)


def waiting(api: ControlApi) -> tuple[int, ...]:
    """The calls that wait, operations in the purgatory, and watchers of the journal and of fault rules."""
    broker = api.any_broker
    journal = broker.services.journal
    assert journal is not None
    rules = api.managed.rules.rules
    return api.call(
        lambda: (
            len(api.server._waiting),
            len(broker.purgatory),
            len(journal.watchers),
            sum(len(rule._watchers) for rule in rules),
        )
    )


@pytest.mark.parametrize("name", WAITS)
@pytest.mark.parametrize("verb", ["reset", "stop"])
def test_a_wait_is_answered_by_a_reset_and_by_a_stop(api: ControlApi, name: str, verb: str) -> None:
    path, arguments = wait_for_long(api, name)
    with asked(api, path, arguments) as answer:
        begun(api)
        api.done("POST", f"/{verb}")
        problem = problem_of(answer())
    assert (problem["type"], problem["status"]) == ("urn:kmini:problem:not-now", 409)
    assert "during this call" in problem["detail"]
    assert api.call(lambda: len(api.server._waiting)) == 0


def test_a_restore_answers_what_waits(api: ControlApi) -> None:
    api.done("POST", "/snapshots", {"name": "seeded"})
    with asked(api, "/requests/wait-for", {"api": "Produce", "timeout_ms": 600_000}) as answer:
        begun(api)
        api.done("POST", "/snapshots/seeded/restore")
        assert "restored from a snapshot" in problem_of(answer())["detail"]


def test_a_wait_that_begins_after_a_reset_goes_on(api: ControlApi) -> None:
    api.done("POST", "/reset")
    with asked(api, "/topics/orders/wait-for", {"count": 1, "timeout_ms": 600_000}) as answer:
        begun(api)
        api.done("POST", "/topics/orders/records", {"value": "placed"})
        assert answer().document[0]["value"] == "placed"


def test_the_end_of_the_server_answers_what_waits(tmp_path: Path) -> None:
    api = ControlApi(str(tmp_path)).start()
    try:
        with asked(api, "/topics/orders/wait-for", {"count": 1, "timeout_ms": 600_000}) as answer:
            begun(api)
            api.run(api.server.stop())
            assert problem_of(answer())["detail"] == "the control server has stopped"
    finally:
        api.end()


@pytest.mark.parametrize("name", WAITS)
def test_a_client_that_goes_away_leaves_no_wait_behind(api: ControlApi, name: str) -> None:
    path, arguments = wait_for_long(api, name)
    before = waiting(api)
    with api.raw() as connection:
        connection.sendall(request(path, arguments))
        begun(api)
    until(lambda: waiting(api) == before, lambda: waiting(api))
    assert before == (0, 0, 0, 0)


def test_a_client_that_goes_away_ends_the_move_of_the_clock_that_it_asked_for(api: ControlApi) -> None:
    clock = api.managed.operations.clock
    before_ms = clock.ahead_ms
    may_end = api.call(asyncio.Event)

    async def hold() -> None:
        await may_end.wait()

    api.call(lambda: clock.call_later(3_600_000, hold))
    with api.raw() as connection:
        connection.sendall(request("/clock/advance", {"duration": "30d"}))
        until(lambda: clock.ahead_ms > before_ms)
        state = api.done("GET", "/clock")
        assert 29 < (state["moves_to_ms"] - state["now_ms"]) / 86_400_000 < 30
    until(lambda: clock.move is None)
    api.call(may_end.set)
    assert clock.ahead_ms - before_ms < 7_200_000
    assert api.done("GET", "/clock")["moves_to_ms"] is None


def test_a_client_that_goes_away_during_a_reset_does_not_stop_it(
    api: ControlApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.done("POST", "/topics/orders/records", {"value": "placed"})
    operations = api.managed.operations
    reset, may_go_on, began, ended = operations.core.reset, threading.Event(), threading.Event(), threading.Event()

    async def slow_reset(*args: Any) -> Any:
        began.set()
        await asyncio.get_running_loop().run_in_executor(None, may_go_on.wait, 60)
        try:
            return await reset(*args)
        finally:
            ended.set()

    monkeypatch.setattr(operations.core, "reset", slow_reset)
    with api.raw() as connection:
        connection.sendall(request("/reset", {}))
        assert began.wait(60)
    until(lambda: not api.call(lambda: connections(api)))
    may_go_on.set()
    assert ended.wait(60)
    assert api.done("GET", "/topics/orders/records") == []


def connections(api: ControlApi) -> list[object]:
    return [*api.server._server.connections]


def request(path: str, document: Any) -> bytes:
    body = json.dumps(document).encode()
    head = f"POST {PREFIX}{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def test_a_call_gives_its_result_and_its_error() -> None:
    waits = WaitingCalls()

    async def returns() -> int:
        return 7

    async def raises() -> None:
        raise ValueError("no")

    assert await waits.result(returns()) == 7
    with pytest.raises(ValueError, match="no"):
        await waits.result(raises())
    assert len(waits) == 0


async def test_a_cancelled_request_has_ended_its_call() -> None:
    waits, ended = WaitingCalls(), []

    async def waits_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    request = asyncio.ensure_future(waits.result(waits_for_ever()))
    await asyncio.sleep(0)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    assert (ended, len(waits)) == ([True], 0)


async def test_only_the_calls_that_are_named_end() -> None:
    waits = WaitingCalls()
    first = asyncio.ensure_future(waits.result(asyncio.Event().wait()))
    await asyncio.sleep(0)
    begun = waits.begun
    happens = asyncio.Event()
    second = asyncio.ensure_future(waits.result(happens.wait()))
    await asyncio.sleep(0)
    waits.end(begun, "it was reset")
    with pytest.raises(RuntimeError, match="it was reset"):
        await first
    happens.set()
    assert await second is True
