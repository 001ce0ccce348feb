"""Kafka's own share consumers (KIP-932): records that members share, release, lose and accept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from kmini import Broker
from support.java_clients import JavaClients, JavaShareConsumer
from support.until import until

GROUP = "workers"
LOCK = "31s"

Join = Callable[[], JavaShareConsumer]


@pytest.fixture(autouse=True)
def _leaky_clients() -> None:
    """These clients leave no sockets in this process: a test need not collect them."""


@contextmanager
def joining(broker: Broker, java_clients: JavaClients) -> Iterator[Join]:
    """Makes members of the group."""
    with java_clients.admin(broker.bootstrap_servers) as admin, ExitStack() as stack:
        admin.set(GROUP, "share.auto.offset.reset", "earliest")

        def join() -> JavaShareConsumer:
            member = stack.enter_context(java_clients.share_consumer(broker.bootstrap_servers, group_id=GROUP))
            member.subscribe("orders")
            return member

        yield join


@pytest.fixture
def join(broker: Broker, java_clients: JavaClients) -> Iterator[Join]:
    with joining(broker, java_clients) as join:
        yield join


def produce(broker: Broker, *values: str) -> None:
    for value in values:
        broker.topic("orders").produce(value.encode())


def all_of(member: JavaShareConsumer, count: int) -> dict[str, int]:
    """So many records, however they come."""
    found: dict[str, int] = {}

    def are_there() -> bool:
        found.update(member.poll())
        return len(found) == count

    until(are_there, lambda: f"{found} came")
    return found


def test_each_record_is_accepted_by_one_of_two_members(broker: Broker, join: Join) -> None:
    values = [f"order {number}" for number in range(40)]
    produce(broker, *values)
    members = [join(), join()]
    accepted: list[str] = []

    def are_accepted() -> bool:
        for member in members:
            got = member.poll()
            assert {*got.values()} <= {1}
            member.acknowledge(*got)
            assert member.commit() == []
            accepted.extend(got)
        return len(accepted) >= len(values)

    until(are_accepted)
    assert sorted(accepted) == sorted(values)


def test_a_released_record_comes_again_and_a_rejected_one_does_not(broker: Broker, join: Join) -> None:
    produce(broker, "good", "later", "bad")
    member = join()
    assert all_of(member, 3) == {"good": 1, "later": 1, "bad": 1}
    member.acknowledge("good")
    member.acknowledge("later", as_="RELEASE")
    member.acknowledge("bad", as_="REJECT")
    assert member.commit() == []
    assert member.poll_some() == {"later": 2}
    member.acknowledge("later")
    assert member.commit() == []
    produce(broker, "last")
    assert member.poll_some() == {"last": 1}


def test_what_a_member_that_stands_still_has_acquired_comes_to_another_one(broker: Broker, join: Join) -> None:
    produce(broker, "order")
    stuck = join()
    assert stuck.poll_some() == {"order": 1}
    other = join()
    other.poll()
    broker.clock.advance(LOCK, liveness=True)
    # A fetch that `stuck` had sent ahead may take it first; then it comes when that lock has ended, too.
    assert other.poll_some() in ({"order": 2}, {"order": 3})
    stuck.acknowledge("order")
    assert stuck.commit() == ["InvalidRecordStateException"]
    other.acknowledge("order")
    assert other.commit() == []


def test_what_a_member_that_leaves_has_acquired_comes_to_another_one(broker: Broker, join: Join) -> None:
    produce(broker, "order")
    first = join()
    assert first.poll_some() == {"order": 1}
    first.call("close")
    assert join().poll_some() == {"order": 2}


def test_after_a_crash_nothing_that_was_accepted_comes_again(broker: Broker, join: Join) -> None:
    produce(broker, "done", "open")
    member = join()
    assert all_of(member, 2) == {"done": 1, "open": 1}
    member.acknowledge("done")
    assert member.commit() == []
    broker.crash()
    member.call("close")
    assert {*all_of(join(), 1)} == {"open"}
