"""`kmini consume --group`: what is printed counts as read, from one run to the next."""

from __future__ import annotations

import json
import signal

import pytest

from kmini import Broker
from support.until import until


@pytest.fixture
def orders(broker: Broker) -> str:
    """A topic with the records 0 to 9 in its one partition."""
    broker.create_topic("orders")
    for number in range(10):
        broker.produce("orders", b"%d" % number)
    return "orders"


@pytest.fixture
def committed(ask):
    """The offset of a group in orders-0."""

    def told(group: str) -> object:
        (row,) = json.loads(ask("group", "describe", group, "--format", "json").stdout)
        return row["offset"]

    return told


def lines(*numbers: int) -> str:
    return "".join(f"{number}\n" for number in numbers)


def test_a_run_begins_where_the_last_one_has_stopped(ask, orders, committed) -> None:
    assert ask("consume", orders, "--group", "g", "-n", 4).stdout == lines(0, 1, 2, 3)
    assert committed("g") == 4
    assert ask("consume", orders, "--group", "g").stdout == lines(*range(4, 10))
    assert ask("consume", orders, "--group", "g").stdout == ""
    assert committed("g") == 10


def test_from_is_for_what_the_group_does_not_know(ask, orders, committed) -> None:
    assert ask("consume", orders, "--group", "g", "--from", 7, "-n", 1).stdout == lines(7)
    assert ask("consume", orders, "--group", "g", "--from", 2, "-n", 1).stdout == lines(8)
    assert ask("consume", orders, "--group", "late", "--from", "end").stdout == ""
    assert committed("late") == 10


def test_what_is_deleted_meanwhile_is_passed_over(ask, broker, orders) -> None:
    ask("consume", orders, "--group", "g", "-n", 3)
    broker.delete_records(orders, 8)
    assert ask("consume", orders, "--group", "g").stdout == lines(8, 9)


def test_a_group_with_members_is_left_alone(refuse, broker, orders, join) -> None:
    join(broker.bootstrap_servers, "g", orders, 0)
    sentence = refuse("consume", orders, "--group", "g", code=1)
    assert sentence.startswith("kmini: group g is Stable with 1 member: its members would not learn")


@pytest.fixture
def follow(start, broker, orders):
    """Start to follow orders with group g, and wait for the first lines."""

    def begin(expected: str):
        process = start("consume", orders, "-g", "g", "--follow", "-b", broker.bootstrap_servers)
        assert "".join(process.stdout.readline() for _ in expected.splitlines()) == expected
        return process

    return begin


def test_while_following_offsets_are_kept_and_at_ctrl_c_too(follow, broker, orders, committed) -> None:
    process = follow(lines(*range(10)))
    # Some of the ten lines may be kept before all are.
    until(lambda: committed_or_none(committed) == 10, lambda: committed_or_none(committed), poll_s=0.05)
    broker.produce(orders, b"10")
    assert process.stdout.readline() == "10\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    assert committed("g") == 11


def committed_or_none(committed) -> object:
    try:
        return committed("g")
    except (AssertionError, ValueError):  # there is no group yet, or nothing in it
        return None


def test_whoever_enters_the_group_is_not_disturbed(follow, broker, orders, join) -> None:
    process = follow(lines(*range(10)))
    join(broker.bootstrap_servers, "g", orders, 0)
    broker.produce(orders, b"10")
    assert process.stdout.readline() == "10\n"
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 1
    assert stderr == "kmini: UNKNOWN_MEMBER_ID: the offset of orders-0 is not kept for group g\n"
