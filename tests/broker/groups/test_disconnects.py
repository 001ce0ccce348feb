"""kmini.group.expel.on.disconnect: members leave with their connection, and only with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from kmini.broker.groups.disconnects import ENDED, MANY_TIES, Disconnects
from kmini.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from support.broker.asking import ask_in, context_of
from support.broker.consumer_lab import ConsumerLab
from support.broker.group_lab import Lab


class Line:
    """A connection that ends when the test says so."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[], None]] = []

    def when_lost(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def lose(self) -> None:
        for callback in self._callbacks:
            callback()


@pytest.fixture
def lab(new_lab: Callable[..., Lab]) -> Lab:
    return new_lab(kmini_group_expel_on_disconnect="true")


@pytest.fixture
def disconnects(lab: Lab) -> Disconnects:
    assert lab.coordinator.disconnects is not None
    return lab.coordinator.disconnects


def test_by_default_members_outlive_their_connection_as_in_kafka(new_lab: Callable[..., Lab]) -> None:
    assert new_lab().coordinator.disconnects is None


async def test_a_member_leaves_with_its_connection_and_the_others_rebalance(lab: Lab, disconnects: Disconnects) -> None:
    ids = await lab.form("a", "b")
    lines = {name: Line() for name in ids}
    for name, member_id in ids.items():
        disconnects.came_by(lines[name], "g", member_id)
    lines["a"].lose()
    assert [*lab.group.members] == [ids["b"]]
    assert lab.state == "PreparingRebalance"


async def test_a_member_that_came_back_by_another_connection_stays_when_the_old_one_ends(
    lab: Lab, disconnects: Disconnects
) -> None:
    ids = await lab.form("a")
    old, new = Line(), Line()
    disconnects.came_by(old, "g", ids["a"])
    disconnects.came_by(new, "g", ids["a"])
    old.lose()
    assert lab.state == "Stable"
    new.lose()
    assert lab.state == "Empty"


async def test_a_static_member_stays(lab: Lab, disconnects: Disconnects) -> None:
    ids = await lab.form("static-a")
    line = Line()
    disconnects.came_by(line, "g", ids["static-a"])
    line.lose()
    assert lab.state == "Stable"


async def test_a_member_whose_join_still_waits_leaves(lab: Lab, disconnects: Disconnects) -> None:
    ids = await lab.form("a")
    line = Line()
    answer = lab.join(version=3)
    assert not answer.done()
    disconnects.join_came_by(line, "g", answer)
    line.lose()
    assert [*lab.group.members] == [ids["a"]]


async def test_a_member_id_that_has_not_joined_yet_delays_no_rebalance(lab: Lab, disconnects: Disconnects) -> None:
    line = Line()
    answer = lab.join()
    assert answer.result().member_id in lab.group.pending_members
    disconnects.join_came_by(line, "g", answer)
    line.lose()
    assert not lab.group.pending_members


async def test_former_members_of_a_connection_are_forgotten(lab: Lab, disconnects: Disconnects) -> None:
    ids = await lab.form("a")
    line = Line()
    disconnects.came_by(line, "g", ids["a"])
    for number in range(10 * MANY_TIES):
        disconnects.came_by(line, "g", f"former-{number}")
    assert len(disconnects._connection_of) <= MANY_TIES + 1
    line.lose()
    assert lab.state == "Empty"
    assert not disconnects._connection_of


async def test_a_group_that_another_broker_coordinates_by_now_is_left_alone(lab: Lab, disconnects: Disconnects) -> None:
    ids = await lab.form("a")
    line = Line()
    disconnects.came_by(line, "g", ids["a"])
    lab.coordinator.unload()
    line.lose()
    assert "g" not in lab.coordinator.groups


async def test_a_member_of_a_consumer_group_leaves_with_its_connection_and_a_static_one_stays(
    new_consumer_lab: Callable[..., Awaitable[ConsumerLab]],
) -> None:
    lab = await new_consumer_lab(kmini_group_expel_on_disconnect="true")
    line = Line()
    for member_id, instance_id in (("a", None), ("s", "i"), ("b", None)):
        context = context_of(lab.broker, 1)
        if member_id != "b":
            context.connection.when_lost = line.when_lost  # type: ignore[method-assign]
        else:
            context.connection.when_lost = Line().when_lost  # type: ignore[method-assign]
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=member_id,
            member_epoch=0,
            instance_id=instance_id,
            rebalance_timeout_ms=1000,
            subscribed_topic_names=["orders"],
            topic_partitions=[],
        )
        assert (await ask_in(context, request)).error_code == 0
    line.lose()
    await lab.groups.writes_done()
    assert [*lab.group.memberships] == ["s", "b"]
    assert [gone.reason for gone in lab.group.departures] == [ENDED]
