"""One group with members of both protocols, and a live group on its way from the classic protocol to the new one and
back, while records come in."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.group_members import GO
from support.group_protocols import ProtocolGroup
from support.java_clients import JavaAdmin

RANGE = "org.apache.kafka.clients.consumer.RangeAssignor"

NewGroup = Callable[[int], ProtocolGroup]


def test_members_of_both_protocols_and_all_clients_share_a_topic(new_group: NewGroup, java_admin: JavaAdmin) -> None:
    group = new_group(12)
    classic = [
        group.start("kafka-python", protocol="classic"),
        group.start("aiokafka", protocol="classic"),
        group.start("java", protocol="classic", partition_assignment_strategy=RANGE),
    ]
    group.wait_until_shared(*classic)
    group.produce()
    assert java_admin.describe(group.name)["type"] == "Classic"
    new = [group.start(client) for client in ("java", "confluent-kafka", GO)]
    group.wait_until_shared(*classic, *new)
    group.produce()
    group.assert_each_record_was_handled_once()
    described = java_admin.describe(group.name)
    assert described["type"] == "Consumer"
    assert sorted(member["upgraded"] for member in described["members"]) == [False] * 3 + [True] * 3
    group.leave(new)
    group.produce()
    group.wait_until_shared(*classic)
    group.assert_each_record_was_handled_once()
    assert java_admin.describe(group.name)["type"] == "Classic"


@pytest.mark.parametrize("instances", [(None, None, None), ("first", "second", "third")], ids=["dynamic", "static"])
def test_a_live_group_migrates_to_the_new_protocol_and_back_and_each_record_is_handled_once(
    new_group: NewGroup, java_admin: JavaAdmin, instances: tuple[str | None, ...]
) -> None:
    group = new_group(6)
    members = [group.start("java", protocol="classic", instance=instance) for instance in instances]
    group.wait_until_shared(*members)
    with group.producing():
        for protocol in ("consumer", "classic"):
            for number in range(3):
                members[number].leave()
                members[number] = group.start("java", protocol=protocol, instance=instances[number])
                group.wait_until_shared(*members)
                described = java_admin.describe(group.name)
                is_new = protocol == "consumer" or number < 2
                assert described["type"] == ("Consumer" if is_new else "Classic")
    group.assert_each_record_was_handled_once()
