"""One long computation of a group at a time; other groups go on meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from kmini.broker import scheduler
from kmini.broker.groups.modern.group_life import GroupTurns


@pytest.fixture
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A computation lets everything else have a turn at every step."""
    monkeypatch.setattr(scheduler, "_TURN_S", 0.0)


def steps(count: int, log: list[str], name: str) -> Generator[None, None, str]:
    for number in range(count):
        log.append(f"{name}{number}")
        yield
    return name


async def run(turns: GroupTurns, group_id: str, count: int, log: list[str], name: str) -> str:
    await turns.free(group_id)
    return await turns.run(group_id, steps(count, log, name))


async def test_a_short_computation_lets_nothing_else_have_a_turn() -> None:
    turns, taken = GroupTurns(), []
    asyncio.get_running_loop().call_soon(taken.append, 1)
    assert await run(turns, "g", 5, [], "x") == "x"
    assert taken == []


@pytest.mark.usefixtures("short_turns")
async def test_computations_of_one_group_come_one_after_the_other() -> None:
    turns, log = GroupTurns(), []
    found = await asyncio.gather(*(run(turns, "g", 3, log, name) for name in "abc"))
    assert found == ["a", "b", "c"]
    assert log == ["a0", "a1", "a2", "b0", "b1", "b2", "c0", "c1", "c2"]


@pytest.mark.usefixtures("short_turns")
async def test_computations_of_other_groups_do_not_wait() -> None:
    turns, log = GroupTurns(), []
    await asyncio.gather(run(turns, "g", 3, log, "a"), run(turns, "h", 3, log, "b"))
    assert log == ["a0", "b0", "a1", "b1", "a2", "b2"]


@pytest.mark.usefixtures("short_turns")
async def test_a_request_that_computes_nothing_waits_for_the_group_too() -> None:
    turns, log = GroupTurns(), []
    computing = asyncio.create_task(run(turns, "g", 3, log, "a"))
    await asyncio.sleep(0)
    assert log == ["a0"]
    await turns.free("h")
    assert log == ["a0"]
    await turns.free("g")
    assert log == ["a0", "a1", "a2"]
    assert await computing == "a"


def failing() -> Generator[None, None, str]:
    yield
    raise ZeroDivisionError


@pytest.mark.usefixtures("short_turns")
async def test_a_computation_that_fails_or_is_cancelled_leaves_the_group_free() -> None:
    turns, log = GroupTurns(), []
    with pytest.raises(ZeroDivisionError):
        await turns.run("g", failing())
    cancelled = asyncio.create_task(run(turns, "g", 3, log, "a"))
    waiting = asyncio.create_task(run(turns, "g", 1, log, "b"))
    await asyncio.sleep(0)
    cancelled.cancel()
    assert await waiting == "b"
    assert log == ["a0", "b0"]
    with pytest.raises(asyncio.CancelledError):
        await cancelled
