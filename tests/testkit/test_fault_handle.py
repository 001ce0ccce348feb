"""`broker.faults`: rules in a test's own words, blocking and to be awaited."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kmini import AsyncFault, AsyncFaults, Broker, Fault, Faults
from kmini.protocol import messages as m
from kmini.testing import Wire


@pytest.fixture(scope="module")
def running() -> Iterator[Broker]:
    with Broker(topics=["orders"]) as broker:
        yield broker


@pytest.fixture
def broker(running: Broker) -> Iterator[Broker]:
    yield running
    running.faults.clear()


def ask(broker: Broker) -> Any:
    with Wire(broker.bootstrap_servers) as wire:
        return wire.ask(m.ListGroupsRequest(), 2)


def test_an_act_puts_the_rule_in_force_and_returns_it(broker: Broker) -> None:
    draft = broker.faults.on("ListGroups", client_id="wire", name="loading").times(2).skip(1)
    assert broker.faults.rules() == []
    rule = draft.error("COORDINATOR_LOAD_IN_PROGRESS")
    assert [ask(broker).error_code for _ in range(4)] == [0, 14, 14, 0]
    assert (rule.name, rule.hits, rule.seen) == ("loading", 2, 4)
    assert repr(rule) == "<fault rule loading (ListGroups, client_id='wire': error); hits 2, seen 4>"
    (found,) = broker.faults.rules()
    assert (found.name, found.hits) == ("loading", 2)


def test_rules_without_a_name_get_different_ones(broker: Broker) -> None:
    names = [broker.faults.on("ListGroups").drop().name for _ in range(3)]
    assert names == ["ListGroups drop", "ListGroups drop #2", "ListGroups drop #3"]


def test_a_draft_can_be_used_for_several_rules(broker: Broker) -> None:
    draft = broker.faults.on("ListGroups")
    once = draft.once().delay(0)
    always = draft.always().delay(0)
    ask(broker)
    ask(broker)
    assert (once.hits, always.hits) == (1, 2)


def test_rules_are_given_as_json_and_taken_back_as_json(broker: Broker) -> None:
    document = {
        "name": "loading",
        "when": {"api": "ListGroups"},
        "which": {"times": 1},
        "do": [{"error": "COORDINATOR_LOAD_IN_PROGRESS"}],
    }
    (rule,) = broker.faults.load([document])
    assert ask(broker).error_code == 14
    rule.assert_hit(times=1)
    assert broker.faults.load([rule.to_json()])[0].to_json() == rule.to_json()


def test_with_takes_the_rule_back(broker: Broker) -> None:
    with broker.faults.on("ListGroups").error("COORDINATOR_NOT_AVAILABLE") as rule:
        assert ask(broker).error_code == 15
    assert ask(broker).error_code == 0
    assert rule.hits == 1
    rule.remove()  # again does nothing


def test_what_never_acted_and_what_is_held_is_listed(broker: Broker) -> None:
    broker.faults.on("Produce", name="lost").drop()
    held = broker.faults.on("ListGroups", name="gate").hold()
    asking = threading.Thread(target=ask, args=(broker,))
    asking.start()
    held.arrived()
    assert [text.partition(": ")[0] for text in broker.faults.unhit()] == ["fault rule 'lost' never acted"]
    (text,) = broker.faults.held()
    assert text.startswith("fault rule 'gate' holds ListGroups of wire (127.0.0.1:")
    held.release()
    asking.join(30)
    with pytest.raises(AssertionError, match="'lost' never acted"):
        broker.faults.assert_all_hit()


def test_a_wait_for_clients_refuses_inside_a_running_loop_unless_it_is_over(broker: Broker) -> None:
    rule = broker.faults.on("ListGroups").delay(0)

    async def inside() -> None:
        with pytest.raises(RuntimeError, match="wait_hit would stop the event loop"):
            rule.wait_hit()

    import asyncio

    asyncio.run(inside())
    ask(broker)

    async def later() -> None:
        rule.wait_hit()

    asyncio.run(later())


async def test_the_same_is_awaited(broker: Broker) -> None:
    faults = broker.aio.faults
    rule = await faults.on("ListGroups", name="loading").once().error("COORDINATOR_LOAD_IN_PROGRESS")
    async with faults.on("Produce").hold() as held:
        assert held.blocked == []
        assert await faults.held() == []
    assert ask(broker).error_code == 14
    await rule.wait_hit()
    await faults.assert_all_hit()
    assert [one.name for one in await faults.rules()] == ["loading"]
    await faults.slow_fetch("orders", delay=1)
    await rule.remove()
    await faults.clear()
    assert await faults.rules() == []


@pytest.mark.parametrize(("blocking", "awaiting"), [(Faults, AsyncFaults), (Fault, AsyncFault)])
def test_both_kinds_have_the_same_methods(blocking: type, awaiting: type) -> None:
    for name, member in inspect.getmembers(blocking, inspect.isfunction):
        if not name.startswith("_"):
            other = getattr(awaiting, name)
            assert [*inspect.signature(member).parameters] == [*inspect.signature(other).parameters], name
            assert inspect.getdoc(member) == inspect.getdoc(other), name


def test_faults_need_a_broker_that_runs() -> None:
    with pytest.raises(RuntimeError, match="the broker does not run"):
        Broker().faults.on("Produce").drop()
