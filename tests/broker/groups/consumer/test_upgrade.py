"""Classic groups with members become consumer groups when the first member of the consumer protocol joins (KIP-848)."""

from __future__ import annotations

import pytest

from kmini.broker.groups.consumer.members import MemberState
from kmini.protocol.consumer_protocol import ConsumerProtocolAssignment, write_assignment
from kmini.protocol.errors import NotEnoughReplicas, error_name
from support.broker.consumer_lab import REBALANCE_MS
from support.broker.mixed_group_lab import CLASSIC_SESSION_MS, MakeMixedLab, MixedLab, subscription

HALVES = {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}}


async def test_an_upgrade_writes_the_records_of_kafka_in_one_batch(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    ids = await lab.form_classic("a", "b", shares=HALVES)
    since = lab.end
    answer = await lab.join("new", "t")
    assert answer.error == "NONE"
    a, b = sorted(ids.values(), key=[*ids.values()].index)
    kinds = lab.types(since)
    assert kinds[:10] == [(-2, ""), (5, a), (5, b), (3, ""), (7, a), (7, b), (6, ""), (8, a), (8, b), (5, "new")]
    assert {kind for kind, _ in kinds[10:]} == {3, 7, 6, 8}
    batches = lab.partition.log.read(since, 1 << 20, limit_offset=lab.end)
    assert int.from_bytes(bytes(batches)[23:27], "big") == len(kinds) - 1  # the last offset delta of the first batch


async def test_members_keep_their_generation_and_what_they_have(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    ids = await lab.form_classic("a", "b", shares=HALVES)
    generation = lab.classic.generation_id
    answer = await lab.join("new", "t")
    assert lab.kind == "consumer"
    assert answer.epoch == generation + 1
    assert answer.assigned == {}
    for name, member_id in ids.items():
        member = lab.group.memberships[member_id]
        assert member.classic is not None
        assert (member.classic.session_timeout_ms, member.rebalance_timeout_ms) == (CLASSIC_SESSION_MS, REBALANCE_MS)
        assert member.topic_names == ("t",)
        current = lab.group.current(member_id)
        assert (current.epoch, current.previous_epoch, current.state) == (generation, generation, MemberState.STABLE)
        assert lab.assigned_to(member_id) == HALVES[name]


async def test_committed_offsets_stay(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    await lab.form_classic("a", shares={"a": {"t": [0]}})
    offsets = lab.classic.offsets
    await lab.join("new", "t")
    assert lab.group.offsets is offsets
    assert lab.group.is_shown


async def test_requests_that_wait_are_told_to_join_again(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    ids = await lab.form_classic("a", "b", shares=HALVES)
    generation = lab.classic.generation_id
    joining = lab.classic_join(ids["a"], "t", "other")  # begins a rebalance, which waits for b
    await lab.join("new", "t")
    assert error_name(joining.result().error_code) == "REBALANCE_IN_PROGRESS"
    assert lab.classic_heartbeat(ids["b"], generation) == "REBALANCE_IN_PROGRESS"


async def test_sessions_of_the_members_begin_anew(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    ids = await lab.form_classic("a", "b", shares=HALVES)
    await lab.pass_time(CLASSIC_SESSION_MS - 1_000)
    await lab.join("new", "t")
    await lab.pass_time(CLASSIC_SESSION_MS - 1_000)
    assert set(lab.group.memberships) == {*ids.values(), "new"}
    await lab.pass_time(1_000)
    assert set(lab.group.memberships) == {"new"}
    assert [gone.reason for gone in lab.group.departures] == ["no heartbeat for a session time-out of 10000 ms"] * 2


async def test_a_static_member_keeps_its_partitions_through_the_change_of_protocol(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    ids = await lab.form_classic("static", "b", shares={"static": {"t": [0, 1]}, "b": {"t": [2, 3]}})
    answer = await lab.join("new", "t", instance_id="static")
    assert answer.error == "NONE"
    assert answer.assigned == {"t": [0, 1]}
    assert set(lab.group.memberships) == {ids["b"], "new"}


async def test_an_upgraded_group_comes_back_from_its_log(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    ids = await lab.form_classic("a", "b", shares=HALVES)
    await lab.join("new", "t")
    before = (lab.epochs, lab.group.memberships, lab.group.currents, lab.group.targets)
    await lab.restart()
    assert lab.kind == "consumer"
    assert (lab.epochs, lab.group.memberships, lab.group.currents) == before[:3]
    assert {member_id: lab.target_of(member_id) for member_id in before[3]} == {
        member_id: lab.by_name(target) for member_id, target in before[3].items()
    }
    await lab.pass_time(CLASSIC_SESSION_MS)
    assert not set(lab.group.memberships) & set(ids.values())


async def test_a_refused_append_leaves_the_classic_group_as_it_was(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    ids = await lab.form_classic("a", "b", shares=HALVES)
    generation = lab.classic.generation_id
    lab.refuse_appends(NotEnoughReplicas("not now"))
    answer = await lab.join("new", "t")
    assert answer.error == "COORDINATOR_NOT_AVAILABLE"
    lab.refuse_appends(None)
    assert lab.kind == "classic"
    assert [lab.classic_heartbeat(member_id, generation) for member_id in ids.values()] == ["NONE", "NONE"]
    await lab.pass_time(CLASSIC_SESSION_MS - 1)
    assert set(lab.classic.members) == {*ids.values()}
    assert (await lab.join("new", "t")).error == "NONE"


async def test_an_empty_group_is_replaced_whatever_the_policy(make_mixed_lab: MakeMixedLab) -> None:
    lab = await make_mixed_lab(group_consumer_migration_policy="disabled")
    ids = await lab.form_classic("a", shares={"a": {"t": [0]}})
    await lab.pass_time(CLASSIC_SESSION_MS)
    assert lab.classic.is_empty, ids
    since = lab.end
    assert (await lab.join("new", "t")).epoch == 2
    assert lab.types(since)[0] == (-2, "")


# --- what is refused


@pytest.mark.parametrize("policy", ["disabled", "DOWNGRADE"])
async def test_the_policy_may_forbid_it(make_mixed_lab: MakeMixedLab, policy: str) -> None:
    lab = await make_mixed_lab(group_consumer_migration_policy=policy)
    await lab.form_classic("a", shares={"a": {"t": [0]}})
    answer = await lab.join("new", "t")
    assert answer.error == "GROUP_ID_NOT_FOUND"
    assert "group.consumer.migration.policy" in (answer.message or "")
    assert lab.classic.is_stable


@pytest.mark.parametrize("policy", ["UPGRADE", "upgrade", "bidirectional"])
async def test_the_policy_may_allow_it_in_any_case(make_mixed_lab: MakeMixedLab, policy: str) -> None:
    lab = await make_mixed_lab(group_consumer_migration_policy=policy)
    await lab.form_classic("a", shares={"a": {"t": [0]}})
    assert (await lab.join("new", "t")).error == "NONE"


async def test_a_group_larger_than_a_consumer_group_stays(make_mixed_lab: MakeMixedLab) -> None:
    lab = await make_mixed_lab(group_consumer_max_size=1)
    await lab.form_classic("a", "b", shares=HALVES)
    answer = await lab.join("new", "t")
    assert (answer.error, lab.kind) == ("GROUP_ID_NOT_FOUND", "classic")
    assert "group.consumer.max.size=1" in (answer.message or "")


async def test_a_group_that_is_not_one_of_consumers_stays(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    waiting = lab.classic_join("", protocols={"v1": b"any"}, protocol_type="connect")
    await lab.pass_time(100)
    assert waiting.result().error_code == 0
    assert (await lab.join("new", "t")).error == "GROUP_ID_NOT_FOUND"
    assert lab.kind == "classic"


async def test_a_subscription_that_is_none_stays(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    waiting = lab.classic_join("", protocols={"range": b"x"})
    await lab.pass_time(100)
    assert waiting.result().error_code == 0
    assert (await lab.join("new", "t")).error == "GROUP_ID_NOT_FOUND"
    assert lab.kind == "classic"


async def test_user_data_of_an_assignor_stays(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    waiting = lab.classic_join("", "t")
    await lab.pass_time(100)
    member_id = waiting.result().member_id
    custom = ConsumerProtocolAssignment(assigned_partitions=[], user_data=b"mine")
    custom_bytes = b"".join(custom.encode(0, bytearray(2)))
    await lab.classic_sync(member_id, 1, {member_id: custom_bytes})
    answer = await lab.join("new", "t")
    assert answer.error == "GROUP_ID_NOT_FOUND"
    assert "assignor of its own" in (answer.message or "")
    assert lab.classic.is_stable


async def test_only_a_join_upgrades(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    await lab.form_classic("a", shares={"a": {"t": [0]}})
    for epoch in (1, -1, -2):
        assert (await lab.beat("new", epoch, instance_id="i")).error == "GROUP_ID_NOT_FOUND"
    assert lab.classic.is_stable


async def test_racks_and_unknown_topics_of_the_classic_protocol(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    metadata = subscription("t", "nowhere", rack="east")
    waiting = lab.classic_join("", protocols={"range": metadata})
    await lab.pass_time(100)
    member_id = waiting.result().member_id
    await lab.classic_sync(member_id, 1, {member_id: write_assignment({"t": [1], "nowhere": [0]}, metadata)})
    await lab.join("new", "t")
    assert lab.group.memberships[member_id].rack_id == "east"
    assert lab.group.memberships[member_id].topic_names == ("nowhere", "t")
    assert lab.assigned_to(member_id) == {"t": [1]}


async def test_a_group_that_is_being_deleted_is_waited_for(mixed_lab: MixedLab) -> None:
    lab = mixed_lab
    await lab.form_classic("a", shares={"a": {"t": [0]}})
    lab.groups.classic.mark_removed(lab.classic)
    assert (await lab.join("new", "t")).error == "COORDINATOR_NOT_AVAILABLE"
