"""Groups of both kinds are described at once, each by the request for its kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kmini import Broker
from support.small_client import SmallClient

from .conftest import Examine


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 1}, journal=True) as running:
        running.produce("orders", b"placed")
        yield running


@pytest.fixture
def members(broker: Broker) -> Iterator[None]:
    """Two members of a classic group and two of a consumer group, each with one partition to share."""
    with (
        SmallClient(broker.bootstrap_servers, "classic-1") as classic,
        SmallClient(broker.bootstrap_servers, "consumer-1") as first,
        SmallClient(broker.bootstrap_servers, "consumer-2") as second,
    ):
        classic.subscribe("shipping", "orders")
        first.beat("billing", "orders")
        second.beat("billing", "orders")
        broker.clock.advance("2s")
        first.beat("billing")
        second.beat("billing")
        yield


def test_members_of_both_kinds_of_groups_are_examined(diagnose: Examine, broker: Broker, members: None) -> None:
    found = diagnose(broker.bootstrap_servers)
    assert found["groups-examined"].text == "2 groups examined"
    idle = found["group-has-idle-members"].text
    assert "group billing has 2 members and orders has 1 partition" in idle
    asked = {one.api: one.groups for one in broker.requests.all() if "Describe" in one.api and one.groups}
    assert asked == {"DescribeGroups": ("shipping",), "ConsumerGroupDescribe": ("billing",)}


def test_a_consumer_group_that_may_not_be_seen_is_told_as_unknown(
    diagnose: Examine, broker: Broker, members: None
) -> None:
    def refuse(request: Any, answer: Any) -> Any:
        for group in answer.groups:
            group.error_code, group.members = 30, []
        return answer

    broker.faults.on("ConsumerGroupDescribe").respond(refuse)
    found = diagnose(broker.bootstrap_servers)
    assert any("GROUP_AUTHORIZATION_FAILED" in one.text and "'billing'" in one.text for one in found.values())
    assert "group-has-idle-members" not in found
