"""A group as data: the protocol that its members agree on, and the topics that they subscribe to."""

from __future__ import annotations

from kmini.protocol.errors import (
    error_name,
)
from support.broker.group_lab import Lab


async def test_the_leader_gets_static_members_first(lab: Lab) -> None:
    ids = await lab.form("a", "b", "static-1", "c", "static-2")
    listed = [member.member_id for member in lab.group.metadata_of_all()]
    assert listed == [ids[name] for name in ("static-1", "static-2", "a", "b", "c")]


async def test_the_protocol_that_most_members_prefer_among_those_that_all_support_is_chosen(lab: Lab) -> None:
    answers = [
        lab.join(version=3, protocols=dict.fromkeys(protocols, b""))
        for protocols in (("a", "b", "x"), ("b", "a"), ("c", "b", "a"))
    ]
    await lab.pass_time(100)
    assert answers[0].result().protocol_name == "b"


async def test_a_member_without_a_common_protocol_is_refused(lab: Lab) -> None:
    ids = await lab.form("a", "b", protocols={"x": b"", "y": b""})
    lab.join(ids["a"], protocols={"x": b""})
    assert error_name(lab.join(ids["b"], protocols={"y": b""}).result().error_code) == "INCONSISTENT_GROUP_PROTOCOL"
    lab.join(ids["b"], protocols={"x": b"", "y": b""})
    assert lab.group.protocol_name == "x"


async def test_an_empty_group_may_become_one_of_another_type(lab: Lab) -> None:
    ids = await lab.form("a")
    lab.leave(ids["a"])
    answer = lab.join(version=3, protocol_type="connect", protocols={"v1": b""})
    await lab.pass_time(100)
    assert answer.result().protocol_type == "connect"


async def test_subscriptions_of_consumers_are_known_and_those_of_other_clients_are_not(lab: Lab) -> None:
    def wants(*topics: str) -> dict[str, bytes]:
        names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
        return {"range": b"\0\1" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"}

    answers = [lab.join(version=3, protocols=wants("a", "b")), lab.join(version=3, protocols=wants("b", "c"))]
    assert lab.group.is_subscribed_to("z")  # its subscriptions are not known yet
    await lab.pass_time(100)
    assert lab.group.subscribed_topics() == {"a", "b", "c"}
    assert not lab.group.is_subscribed_to("z")
    lab.leave(*(answer.result().member_id for answer in answers))
    assert lab.group.subscribed_topics() == set()
    unreadable = lab.join(version=3, protocols={"range": b"\0\0\x7f\xff\xff\xff"})
    await lab.pass_time(100)
    assert unreadable.done()
    assert lab.group.subscribed_topics() is None
    assert lab.group.is_subscribed_to("z")
