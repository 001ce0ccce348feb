"""Members of the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup (KIP-848)."""

from __future__ import annotations

import asyncio

import pytest

from kmini.broker.groups.classic.member import JoinResult, Leaving
from kmini.broker.groups.consumer.members import MemberState
from kmini.protocol.errors import NotEnoughReplicas, error_name
from support.broker.consumer_lab import ASSIGNMENT_INTERVAL_MS, REBALANCE_MS
from support.broker.mixed_group_lab import CLASSIC_SESSION_MS, MakeMixedLab, MixedLab, subscription


async def joined(waiting: asyncio.Future[JoinResult]) -> JoinResult:
    """The answer to a JoinGroup that succeeds at once."""
    result = await asyncio.wait_for(waiting, 10)
    assert error_name(result.error_code) == "NONE"
    return result


def refusal(waiting: asyncio.Future[JoinResult]) -> str:
    """The error of a JoinGroup, which waits for nothing."""
    return error_name(waiting.result().error_code)


async def with_one_member(lab: MixedLab) -> None:
    """A member "m" of the consumer protocol has all four partitions."""
    await lab.join("m", "t")
    await lab.settle("m")
    await lab.pass_time(ASSIGNMENT_INTERVAL_MS)


async def mixed(lab: MixedLab) -> str:
    """The members "m" and one of the classic protocol have two partitions each; the id of the latter."""
    (member_id,) = await lab.form_mixed(None)
    return member_id


# --- JoinGroup


async def test_a_join_is_answered_at_once_without_leader_and_members(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    await with_one_member(lab)
    answer = await joined(lab.classic_join("", "t", protocols={"x": subscription("t"), "y": b""}))
    assert answer.generation_id == lab.group.epoch == lab.group.current(answer.member_id).epoch
    assert (answer.protocol_type, answer.protocol_name, answer.leader_id, answer.members) == ("consumer", "x", "", ())
    assert not answer.skip_assignment


async def test_a_member_waits_until_another_has_given_up_its_partitions(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    await with_one_member(lab)
    member_id, generation, *_ = (await joined(lab.classic_join("", "t")))[1:]
    assert lab.synced(member_id, generation) == {}
    assert lab.group.current(member_id).state is MemberState.UNRELEASED_PARTITIONS
    assert lab.classic_heartbeat(member_id, generation) == "NONE"
    shown = await lab.beat("m", generation - 1)
    assert shown.assigned is not None
    await lab.beat("m", shown.epoch, owned=shown.assigned)  # it gives up the others
    assert lab.classic_heartbeat(member_id, generation) == "REBALANCE_IN_PROGRESS"
    again = await joined(lab.classic_join(member_id, "t"))
    assert again.generation_id == generation
    assert lab.group.is_stable
    assert lab.synced(member_id, generation) == lab.assigned_to(member_id)
    assert len(lab.assigned_to(member_id)["t"]) == 2


async def test_a_member_gives_up_partitions_by_joining_without_them(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    member_id = await mixed(lab)
    generation = lab.group.current(member_id).epoch
    had = lab.assigned_to(member_id)
    await lab.join("new", "t")
    await lab.pass_time(ASSIGNMENT_INTERVAL_MS)
    await lab.beat("new", lab.group.current("new").epoch, owned={})
    assert lab.classic_heartbeat(member_id, generation) == "REBALANCE_IN_PROGRESS"
    assert lab.synced(member_id, generation) == "REBALANCE_IN_PROGRESS"
    first = await joined(lab.classic_join(member_id, "t", owned=had))
    current = lab.group.current(member_id)
    assert (current.state, first.generation_id) == (MemberState.UNREVOKED_PARTITIONS, generation)
    shown = lab.synced(member_id, generation)
    assert isinstance(shown, dict)
    assert {*shown["t"]} < {*had["t"]}
    assert lab.classic_heartbeat(member_id, generation) == "REBALANCE_IN_PROGRESS"
    second = await joined(lab.classic_join(member_id, "t", owned=shown))
    assert second.generation_id == lab.group.epoch
    assert lab.synced(member_id, second.generation_id) == shown


async def test_an_eager_member_that_owns_nothing_moves_at_once(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    member_id = await mixed(lab)
    await lab.join("new", "t")
    await lab.pass_time(ASSIGNMENT_INTERVAL_MS)
    await lab.beat("new", lab.group.current("new").epoch, owned={})
    answer = await joined(lab.classic_join(member_id, "t"))
    assert answer.generation_id == lab.group.epoch
    assert lab.group.current(member_id).state is MemberState.STABLE


async def test_another_subscription_raises_the_group_epoch(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    member_id = await mixed(lab)
    lab.add_topics("other", partitions=2)
    epoch = lab.group.epoch
    await lab.pass_time(ASSIGNMENT_INTERVAL_MS)
    answer = await joined(lab.classic_join(member_id, "t", "other"))
    assert lab.group.epoch == answer.generation_id == epoch + 1
    assert lab.assigned_to(member_id)["other"] == [0, 1]


async def test_a_nameless_member_is_given_an_id_first(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    await with_one_member(lab)
    required = lab.classic_join("", "t", version=9).result()
    assert error_name(required.error_code) == "MEMBER_ID_REQUIRED"
    assert set(lab.group.memberships) == {"m"}
    answer = await joined(lab.classic_join(required.member_id, "t", version=9))
    assert answer.member_id == required.member_id


async def test_old_versions_and_static_members_join_without_an_id(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    await with_one_member(lab)
    old = await joined(lab.classic_join("", "t", version=3))
    static = await joined(lab.classic_join("", "t", version=9, instance="i"))
    assert set(lab.group.memberships) == {"m", old.member_id, static.member_id}
    assert lab.group.static_members == {"i": static.member_id}


async def test_what_cannot_join(make_mixed_lab: MakeMixedLab) -> None:
    lab = await make_mixed_lab(group_consumer_max_size=2)
    await with_one_member(lab)
    assert refusal(lab.classic_join("", "t", protocol_type="connect")) == "INCONSISTENT_GROUP_PROTOCOL"
    assert refusal(lab.classic_join("", "t", protocols={"range": b"x"})) == "UNKNOWN_SERVER_ERROR"
    await joined(lab.classic_join("", protocols={"a": subscription("t"), "b": subscription("t")}))
    assert refusal(lab.classic_join("", "t")) == "GROUP_MAX_SIZE_REACHED"
    assert len(lab.group.memberships) == 2


async def test_a_protocol_has_to_be_common_to_all_classic_members(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    await with_one_member(lab)
    await joined(lab.classic_join("", protocols={"a": subscription("t"), "b": subscription("t")}))
    assert refusal(lab.classic_join("", protocols={"c": subscription("t")})) == "INCONSISTENT_GROUP_PROTOCOL"
    await joined(lab.classic_join("", protocols={"b": subscription("t")}))
    assert refusal(lab.classic_join("", protocols={"a": subscription("t")})) == "INCONSISTENT_GROUP_PROTOCOL"


async def test_the_policy_may_keep_the_classic_protocol_out(make_mixed_lab: MakeMixedLab) -> None:
    lab = await make_mixed_lab(group_consumer_migration_policy="Disabled")
    await with_one_member(lab)
    assert refusal(lab.classic_join("", "t")) == "INCONSISTENT_GROUP_PROTOCOL"
    assert set(lab.group.memberships) == {"m"}


@pytest.mark.parametrize("policy", ["upgrade", "downgrade", "bidirectional"])
async def test_the_other_policies_let_it_in(make_mixed_lab: MakeMixedLab, policy: str) -> None:
    lab = await make_mixed_lab(group_consumer_migration_policy=policy)
    await with_one_member(lab)
    await joined(lab.classic_join("", "t"))


async def test_a_static_member_takes_its_place_again(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    (old_id,) = await lab.form_mixed("i")
    had, epoch = lab.assigned_to(old_id), lab.group.epoch
    new = await joined(lab.classic_join("", "t", instance="i", owned=had))
    assert new.member_id != old_id
    assert (lab.assigned_to(new.member_id), lab.group.epoch) == (had, epoch)
    assert refusal(lab.classic_join(old_id, "t", instance="i")) == "FENCED_INSTANCE_ID"
    assert refusal(lab.classic_join("any", "t", instance="unknown")) == "UNKNOWN_MEMBER_ID"
    assert lab.classic_heartbeat(old_id, epoch, "i") == "FENCED_INSTANCE_ID"


async def test_a_refused_append_refuses_the_join(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    await with_one_member(lab)
    before = lab.epochs
    lab.refuse_appends(NotEnoughReplicas("not now"))
    assert refusal(lab.classic_join("", "t")) == "COORDINATOR_NOT_AVAILABLE"
    lab.refuse_appends(None)
    assert (lab.epochs, set(lab.group.memberships)) == (before, {"m"})
    assert (await lab.beat("m", before[0])).error == "NONE"


# --- SyncGroup and Heartbeat


async def test_requests_of_other_members_are_refused(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    member_id = await mixed(lab)
    generation = lab.group.current(member_id).epoch
    for stranger in ("nobody", "m"):
        assert lab.synced(stranger, generation) == "UNKNOWN_MEMBER_ID"
        assert lab.classic_heartbeat(stranger, generation) == "UNKNOWN_MEMBER_ID"
    for other in (generation - 1, generation + 1):
        assert lab.synced(member_id, other) == "ILLEGAL_GENERATION"
        assert lab.classic_heartbeat(member_id, other) == "ILLEGAL_GENERATION"
    for protocol in (("connect", None), ("consumer", "other"), (None, "other")):
        wrong = lab.classic_sync(member_id, generation, protocol=protocol).result()
        assert error_name(wrong.error_code) == "INCONSISTENT_GROUP_PROTOCOL"
    right = lab.classic_sync(member_id, generation, protocol=("consumer", "range")).result()
    assert (right.error_code, right.protocol_type, right.protocol_name) == (0, "consumer", "range")


async def test_a_member_that_does_not_sync_is_removed(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    await with_one_member(lab)
    answer = await joined(lab.classic_join("", "t"))
    for _ in range(REBALANCE_MS // 5_000):
        lab.classic_heartbeat(answer.member_id, answer.generation_id)
        await lab.beat("m", lab.group.current("m").epoch, owned=lab.assigned_to("m"))
        await lab.pass_time(5_000)
    assert set(lab.group.memberships) == {"m"}
    assert [gone.reason for gone in lab.group.departures] == ["no SyncGroup within max.poll.interval.ms=60000"]


async def test_a_member_that_does_not_join_again_is_removed(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    member_id = await mixed(lab)
    generation = lab.group.current(member_id).epoch
    await lab.join("new", "t")
    for _ in range(REBALANCE_MS // 5_000):
        await lab.beat("new", lab.group.current("new").epoch)
        await lab.beat("m", lab.group.current("m").epoch, owned=lab.assigned_to("m"))
        lab.classic_heartbeat(member_id, generation)
        await lab.pass_time(5_000)
    await lab.pass_time(5_000)
    assert member_id not in lab.group.memberships
    assert lab.group.departures[-1].reason == "no JoinGroup within max.poll.interval.ms=60000"


async def test_heartbeats_keep_a_member_that_is_where_it_is_to_be(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    member_id = await mixed(lab)
    generation = lab.group.current(member_id).epoch
    for _ in range(2 * REBALANCE_MS // 5_000):
        assert lab.classic_heartbeat(member_id, generation) == "NONE"
        await lab.beat("m", generation)
        await lab.pass_time(5_000)
    await lab.pass_time(CLASSIC_SESSION_MS - 5_000)
    assert set(lab.group.memberships) == {"m"}


# --- LeaveGroup


async def test_members_leave_together_with_one_epoch(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    await with_one_member(lab)
    first = (await joined(lab.classic_join("", "t"))).member_id
    second = (await joined(lab.classic_join("", "t", instance="i"))).member_id
    epoch, since = lab.group.epoch, lab.end
    leaving = [Leaving(first, reason="done"), Leaving("", "i"), Leaving("nobody"), Leaving("m"), Leaving("x", "i")]
    outcomes = await lab.classic_leave(*leaving)
    assert outcomes == ["NONE", "NONE", "UNKNOWN_MEMBER_ID", "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"]
    assert (set(lab.group.memberships), lab.group.epoch) == ({"m"}, epoch + 1)
    expected = [(-kind, member_id) for member_id in (first, second) for kind in (8, 7, 5)]
    assert lab.types(since) == [*expected, (3, "")]
    assert [(gone.member_id, gone.reason, gone.is_expelled) for gone in lab.group.departures] == [
        (first, "done", False),
        (second, "", False),
    ]
