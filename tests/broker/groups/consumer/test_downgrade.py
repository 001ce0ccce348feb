"""Consumer groups become classic groups when the last member of the consumer protocol goes (KIP-848)."""

from __future__ import annotations

import asyncio

from kmini.broker.groups.classic.group_states import GroupState
from kmini.broker.groups.group_records import GroupMetadata
from kmini.protocol.errors import NotEnoughReplicas, error_name
from support.broker.consumer_lab import SESSION_MS
from support.broker.mixed_group_lab import CLASSIC_SESSION_MS, MakeMixedLab, MixedLab, assigned_in


def stored(lab: MixedLab) -> GroupMetadata:
    return lab.classic.stored(lab.classic.assignments())


async def test_the_last_member_of_the_consumer_protocol_leaves(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    first, second = await lab.form_mixed(None, None)
    epoch, since = lab.group.epoch, lab.end
    had = {member_id: lab.target_of(member_id) for member_id in (first, second)}
    assert (await lab.leave("m")).error == "NONE"
    assert lab.kind == "classic"
    kinds = lab.types(since)
    assert lab.records(since)[-1].value is not None, "the last one is the classic group"
    everyone = ("m", first, second)
    removed = [(-8, each) for each in everyone] + [(-7, each) for each in everyone] + [(-6, "")]
    assert sorted(kinds[:-1]) == sorted(removed + [(-5, each) for each in everyone] + [(-3, "")])
    assert lab.classic.state is GroupState.PREPARING_REBALANCE
    assert (lab.classic.generation_id, lab.classic.protocol_name) == (epoch, "range")
    assert set(lab.classic.members) == {first, second}
    assert {each: assigned_in(member.assignment) for each, member in lab.classic.members.items()} == had
    assert [gone.member_id for gone in lab.classic.departures] == ["m"]


async def test_the_members_join_again_and_go_on(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    first, second = await lab.form_mixed(None, None)
    generation = lab.group.current(first).epoch
    await lab.leave("m")
    assert lab.classic_heartbeat(first, generation) == "REBALANCE_IN_PROGRESS"
    waiting = [lab.classic_join(member_id, "t") for member_id in (first, second)]
    results = [await asyncio.wait_for(one, 10) for one in waiting]
    assert [(error_name(one.error_code), one.generation_id) for one in results] == [("NONE", generation + 1)] * 2
    assert lab.classic.leader_id in (first, second)


async def test_the_last_member_of_the_consumer_protocol_loses_its_session(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    (member_id,) = await lab.form_mixed(None)
    generation = lab.group.current(member_id).epoch
    for _ in range(SESSION_MS // 5_000):
        assert lab.classic_heartbeat(member_id, generation) == "NONE"
        await lab.pass_time(5_000)
    assert lab.kind == "classic"
    assert lab.classic_heartbeat(member_id, generation) == "REBALANCE_IN_PROGRESS"


async def test_sessions_and_offsets_go_on(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    (member_id,) = await lab.form_mixed(None)
    offsets = lab.group.offsets
    await lab.leave("m")
    assert lab.classic.offsets is offsets
    assert lab.classic.is_shown
    assert lab.classic.members[member_id].session_timeout_ms == CLASSIC_SESSION_MS
    await lab.pass_time(CLASSIC_SESSION_MS)
    assert not lab.classic.members


async def test_a_downgraded_group_comes_back_from_its_log(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    await lab.form_mixed(None, "i")
    await lab.leave("m")
    before = stored(lab)
    await lab.restart()
    assert lab.kind == "classic"
    assert timeless(stored(lab)) == timeless(before)


def timeless(metadata: GroupMetadata) -> GroupMetadata:
    metadata.state_timestamp_ms = 0
    return metadata


async def test_a_refused_append_keeps_the_consumer_group(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    (member_id,) = await lab.form_mixed(None)
    epoch = lab.group.epoch
    lab.refuse_appends(NotEnoughReplicas("not now"))
    assert (await lab.leave("m")).error == "COORDINATOR_NOT_AVAILABLE"
    lab.refuse_appends(None)
    assert (set(lab.group.memberships), lab.group.epoch) == ({"m", member_id}, epoch)
    assert not lab.group.departures
    assert lab.classic_heartbeat(member_id, epoch) == "NONE"


# --- where the group stays a consumer group


async def test_the_policy_may_forbid_it(make_mixed_lab: MakeMixedLab) -> None:
    lab = await make_mixed_lab(group_consumer_migration_policy="upgrade")
    (member_id,) = await lab.form_mixed(None)
    epoch = lab.group.epoch
    await lab.leave("m")
    assert (set(lab.group.memberships), lab.group.epoch) == ({member_id}, epoch + 1)


async def test_a_group_without_members_stays(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    await lab.form_mixed()
    await lab.leave("m")
    assert (lab.kind, lab.state) == ("consumer", "Empty")


async def test_a_group_that_is_too_large_stays(make_mixed_lab: MakeMixedLab) -> None:
    lab = await make_mixed_lab(group_max_size=1)
    ids = await lab.form_mixed(None, None)
    await lab.leave("m")
    assert set(lab.group.memberships) == {*ids}


async def test_another_member_of_the_consumer_protocol_keeps_it(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    (member_id,) = await lab.form_mixed(None)
    await lab.join("n", "t")
    await lab.leave("m")
    assert set(lab.group.memberships) == {member_id, "n"}


# --- a static member that comes back with the classic protocol


async def test_a_static_member_takes_its_place_in_the_classic_protocol(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    (other,) = await lab.form_mixed(None, instance_id="i")
    epoch, had = lab.group.epoch, lab.target_of("m")
    result = await asyncio.wait_for(lab.classic_join("", "t", instance="i", owned=had), 10)
    assert error_name(result.error_code) == "NONE"
    assert lab.kind == "classic"
    assert (lab.classic.state, lab.classic.generation_id) == (GroupState.STABLE, epoch)
    assert set(lab.classic.members) == {other, result.member_id}
    answer = lab.classic_sync(result.member_id, result.generation_id, instance="i").result()
    assert (answer.error_code, assigned_in(answer.assignment)) == (0, had)


async def test_it_may_be_the_only_member(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    await lab.form_mixed(instance_id="i")
    result = await asyncio.wait_for(lab.classic_join("", "t", instance="i"), 10)
    assert (error_name(result.error_code), lab.kind) == ("NONE", "classic")
    assert set(lab.classic.members) == {result.member_id}


async def test_with_another_subscription_the_members_join_again(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    lab.add_topics("other")
    await lab.form_mixed(None, instance_id="i")
    result = await asyncio.wait_for(lab.classic_join("", "t", "other", instance="i"), 10)
    assert error_name(result.error_code) == "NONE"
    assert lab.classic.state is GroupState.PREPARING_REBALANCE
