"""Consumer groups in the new protocol (KIP-848), with every client that speaks it: the members of a group share topics,
come, go, crash, pause and return, and each record is handled once, by one of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.group_members import GO
from support.group_protocols import ProtocolGroup

CLIENTS = ("java", "confluent-kafka", GO)

NewGroup = Callable[[int], ProtocolGroup]


@pytest.mark.parametrize("client", CLIENTS)
def test_members_come_and_go_and_each_record_is_handled_once(new_group: NewGroup, client: str) -> None:
    group = new_group(6)
    first, second = group.start(client), group.start(client)
    group.wait_until_shared(first, second)
    group.produce()
    third = group.start(client)
    group.wait_until_shared(first, second, third)
    group.produce()
    group.assert_each_record_was_handled_once()
    first.leave()
    group.produce()
    group.wait_until_shared(second, third)
    group.assert_each_record_was_handled_once()
    group.leave([second, third])
    group.produce()
    last = group.start(client)
    group.wait_until_shared(last)
    group.assert_each_record_was_handled_once()
    assert len(last.handled) == 10 * 6, "it goes on from what the members before it have committed"


def test_the_partitions_of_members_that_were_killed_go_to_the_others(new_group: NewGroup) -> None:
    group = new_group(12)
    living = [group.start(client) for client in CLIENTS]
    killed = [group.start(client, is_alone=True) for client in CLIENTS]
    group.wait_until_shared(*living, *killed)
    group.produce()
    group.wait_until_handled()
    group.wait_until_committed()
    for member in killed:
        member.crash()
    group.produce()
    group.let_sessions_expire(living)
    group.wait_until_shared(*living)
    group.assert_each_record_was_handled_once()


def test_members_that_pause_for_too_long_lose_their_partitions_and_get_others_when_they_return(
    new_group: NewGroup,
) -> None:
    group = new_group(12)
    awake = [group.start(client) for client in CLIENTS]
    paused = [group.start(client, max_poll_interval_ms=1_500) for client in CLIENTS]
    group.wait_until_shared(*awake, *paused)
    group.produce()
    group.wait_until_handled()
    group.wait_until_committed()
    for member in paused:
        member.pause()
    group.let_sessions_expire(awake)
    group.wait(lambda: sorted(one for member in awake for one in member.owned) == group.partitions)
    group.produce()
    group.wait_until_handled()
    group.wait_until_committed()
    for member in paused:
        member.resume()
    group.wait_until_shared(*awake, *paused)
    group.produce()
    group.assert_each_record_was_handled_once()


@pytest.mark.parametrize("client", ["java", "confluent-kafka"])
def test_a_static_member_that_returns_has_its_partitions_again_and_the_others_notice_nothing(
    new_group: NewGroup, client: str
) -> None:
    group = new_group(6)
    first, second, third = (group.start(client, instance=name) for name in ("first", "second", "third"))
    # Each has two. Before that, a member may still have a third partition, which it has to give up.
    group.wait(lambda: all(len(member.owned) == 2 for member in (first, second, third)))
    group.produce()
    group.assert_each_record_was_handled_once()
    before, changes = second.owned, [*first.ownerships(), *third.ownerships()]
    second.leave()
    group.produce()
    second = group.start(client, instance="second")
    group.wait_until_shared(first, second, third)
    group.assert_each_record_was_handled_once()
    assert second.owned == before
    assert len([*first.ownerships(), *third.ownerships()]) == len(changes)


def test_a_static_member_of_franz_go_returns_once_its_session_has_ended(new_group: NewGroup) -> None:
    """Its last heartbeat names no instance id (as of 1.22.2), so the broker refuses it and the member has not left."""
    group = new_group(6)
    first, second = group.start(GO, instance="first"), group.start(GO, instance="second")
    group.wait_until_shared(first, second)
    group.produce()
    group.assert_each_record_was_handled_once()
    second.leave()
    group.produce()
    second = group.start(GO, instance="second")
    group.let_sessions_expire([first])
    group.wait_until_shared(first, second)
    group.assert_each_record_was_handled_once()


def test_an_expression_subscribes_to_topics_that_come_later(new_group: NewGroup) -> None:
    group = new_group(0)
    group.create_topic(f"{group.name}.first", 3)
    group.create_topic(f"not.{group.name}.first", 1, is_subscribed=False)
    members = [group.start(client, f"{group.name}[.][a-z]+", expression=True) for client in CLIENTS]
    group.let_pass_ms(11_000, members)  # the broker resolves new expressions of a group once in ten seconds
    group.wait_until_shared(*members)
    group.produce()
    group.assert_each_record_was_handled_once()
    group.create_topic(f"{group.name}.second", 3)
    group.create_topic(f"{group.name}.not-third", 1, is_subscribed=False)
    group.produce()
    group.let_pass_ms(11_000, members)  # and looks for new topics as seldom
    group.wait_until_shared(*members)
    group.assert_each_record_was_handled_once()


def test_partitions_that_are_added_get_members(new_group: NewGroup) -> None:
    group = new_group(3)
    members = [group.start(client) for client in CLIENTS]
    group.wait_until_shared(*members)
    group.produce()
    group.add_partitions(9)
    group.produce()
    group.wait_until_shared(*members)
    group.assert_each_record_was_handled_once()
    assert [len(member.owned) for member in members] == [3, 3, 3]
