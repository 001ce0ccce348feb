"""Members of streams groups and share groups, as an embedded broker tells of them; other members are in
test_group_handle.py."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kmini import Broker, NotInTime
from kmini.protocol.errors import NONE
from kmini.protocol.messages.find_coordinator import FindCoordinatorRequest
from kmini.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kmini.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from kmini.protocol.topics import TopicPartition
from kmini.testing import Wire
from kmini.testkit.group_members import instances
from support.broker.streams_lab import READS_T
from support.small_client import SmallClient
from support.until import until

ACCEPT, RELEASE = 1, 2
AT_ONCE = {"group.streams.initial.rebalance.delay.ms": 0, "group.streams.assignment.interval.ms": 0}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"t": 2}, config=AT_ONCE) as broker:
        yield broker


def beat(broker: Broker, member_id: str, epoch: int) -> int:
    """Send a heartbeat, one that joins with epoch 0; return the member epoch."""
    joining = epoch == 0
    request = StreamsGroupHeartbeatRequest(
        group_id="app",
        member_id=member_id,
        member_epoch=epoch,
        endpoint_information_epoch=-1,
        rebalance_timeout_ms=60_000 if joining else -1,
        topology=READS_T if joining else None,
        active_tasks=[] if joining else None,
        standby_tasks=[] if joining else None,
        warmup_tasks=[] if joining else None,
        process_id=member_id,
    )
    with Wire(broker.bootstrap_servers) as wire:
        assert wire.ask(FindCoordinatorRequest(key="app", key_type=0), 3).error_code == NONE
        answer = wire.ask(request, 0)
    assert answer.error_code == NONE, answer
    return int(answer.member_epoch)


def test_a_member_has_the_partitions_that_its_tasks_read(broker: Broker) -> None:
    beat(broker, "m1", 0)
    beat(broker, "m2", 0)
    beat(broker, "m1", 2)
    group = broker.group("app").describe()
    assert (group.kind, group.state, group.generation, group.assignment_epoch) == ("streams", "Reconciling", 3, 3)
    assert group.protocol == "sticky"
    first, second = group.members
    assert (first.member_id, first.topics, first.epoch, first.state) == ("m1", ("t",), 2, "UNREVOKED_TASKS")
    assert first.assignment == (TopicPartition("t", 0), TopicPartition("t", 1))  # with what it has not given up
    assert first.target == (TopicPartition("t", 0),)
    assert (second.protocol, second.assignment, second.target) == ("streams", (), (TopicPartition("t", 1),))
    assert "m2" in str(group)


def test_a_member_that_has_just_joined_has_nothing(broker: Broker) -> None:
    beat(broker, "m1", 0)
    core = broker._operations.any_broker()
    group = core.groups.groups["app"]
    group.targets.clear()
    group.put_current("m1", None)
    (member,) = instances(core, group)
    assert (member.assignment, member.target, member.epoch) == ((), (), 0)


# --- share groups


def test_a_member_of_a_share_group_has_its_topics_and_epochs(broker: Broker) -> None:
    request = ShareGroupHeartbeatRequest(
        group_id="sharers", member_id="m", member_epoch=0, subscribed_topic_names=["t"]
    )
    with Wire(broker.bootstrap_servers) as wire:
        assert wire.ask(FindCoordinatorRequest(key="sharers", key_type=0), 3).error_code == NONE
        assert wire.ask(request, 1).error_code == NONE
    core = broker._operations.any_broker()
    core.groups.groups["sharers"].put_target("m", {core.controller.topics["t"].id: frozenset({1})})
    group = broker.group("sharers").describe()
    assert (group.kind, group.state, group.generation, group.assignment_epoch) == ("share", "Stable", 2, 2)
    assert group.protocol == "simple"
    (member,) = group.members
    assert (member.member_id, member.protocol, member.topics, member.epoch) == ("m", "share", ("t",), 2)
    assert (member.assignment, member.target) == ((), (TopicPartition("t", 1),))
    assert broker.group("sharers").lag() == {}  # nothing was read yet
    broker.group("sharers").expel("m")
    assert broker.group("sharers").describe().state == "Empty"


def test_a_share_group_tells_what_it_has_in_flight(broker: Broker) -> None:
    group = broker.group("sharers")
    with SmallClient(broker.bootstrap_servers, "worker") as member:
        member.share("sharers", "t")
        assert member.acquire("sharers") == []  # the group begins at the end
        for _ in range(5):
            broker.produce("t", b"job", partition=0)
        assert member.acquire("sharers") == [(0, 4, 1)]
        me = member.member_id
        first, second = group.describe().share_partitions
        assert (first.partition, first.start_offset, first.lag) == (("t", 0), 0, 5)
        assert {record.member_id for record in first.in_flight or ()} == {me}
        assert second == (("t", 1), None, None, ())
        member.acquire("sharers", (0, 1, ACCEPT), (2, 2, RELEASE), (4, 4, ACCEPT))
        (first, _) = group.describe().share_partitions
        assert first == (
            ("t", 0),
            2,
            2,
            ((2, 2, "AVAILABLE", 1, ""), (3, 3, "ACQUIRED", 1, me), (4, 4, "ACKNOWLEDGED", 1, "")),
        )
        assert group.lag() == {("t", 0): 2}
        assert str(group.describe()).endswith(
            "; t-0 starts at 2, lag 2, in flight: 2 AVAILABLE (delivery count 1), "
            f"3 ACQUIRED by {me} (delivery count 1), 4 ACKNOWLEDGED (delivery count 1); t-1 is not read yet"
        )
        with pytest.raises(NotInTime, match=r"^2 records of t left to commit: t-0 at 2 of 5; group sharers is Stable"):
            group.caught_up("t", timeout_ms=0)
    until(lambda: not any(one.member_id for one in group.describe().share_partitions[0].in_flight or ()))
    (first, _) = group.describe().share_partitions  # now as it is stored
    assert first == (("t", 0), 2, 2, ((2, 3, "AVAILABLE", 1, ""), (4, 4, "ACKNOWLEDGED", 1, "")))
    assert broker.report().count("t-0 starts at 2, lag 2, in flight: 2-3 AVAILABLE") == 1


def test_a_share_group_has_caught_up_once_all_is_accepted(broker: Broker) -> None:
    broker.create_topic("one")
    group = broker.group("sharers")
    with SmallClient(broker.bootstrap_servers, "worker") as member, ThreadPoolExecutor() as threads:
        member.share("sharers", "one")
        member.acquire("sharers")
        group.caught_up("one")
        broker.produce("one", b"job")
        waits = threads.submit(group.caught_up, "one")
        assert member.acquire("sharers") == [(0, 0, 1)]
        assert not waits.done()
        member.acquire("sharers", (0, 0, ACCEPT))
        waits.result()
