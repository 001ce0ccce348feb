"""The downgrade of a consumer group: without members of the consumer protocol it becomes a classic group again.

Its members of the classic protocol stay, with their targets as assignments, in a generation of the number of the group
epoch, and are asked to join again (KIP-848, "online downgrade"). `upgrade.py` is the way there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ....protocol.consumer_protocol import PROTOCOL_TYPE, write_assignment
from ..classic.classic_group import ClassicGroup
from ..classic.group_states import PREPARING, STABLE
from ..classic.member import Member
from ..modern.topic_catalog import Catalog
from .consumer_group import ConsumerGroup
from .members import Membership

POLICIES = ("downgrade", "bidirectional")
"""The values of `group.consumer.migration.policy` that allow it."""


def may_downgrade(group: ConsumerGroup, leaving: Collection[str], policy: str, max_size: int, joining: int = 0) -> bool:
    """Whether the group becomes a classic one when these members leave, and `joining` members of the classic protocol
    join: `policy` allows it, and then it has at least one member, at most `max_size`, all of the classic protocol."""
    staying = [member for member_id, member in group.memberships.items() if member_id not in leaving]
    if policy not in POLICIES or not 0 < len(staying) + joining <= max_size:
        return False
    return all(member.classic is not None for member in staying)


def classic_group(
    group: ConsumerGroup, members: Iterable[tuple[Membership, str]], catalog: Catalog, now_ms: int
) -> ClassicGroup:
    """The classic group of these members; with each is the member id whose target assignment it gets."""
    with_targets = [(_classic_member(member), group.targets.get(former_id, {})) for member, former_id in members]
    classic = ClassicGroup(group.group_id, now_ms)
    for member, _ in with_targets:
        classic.add(member, PROTOCOL_TYPE)
    classic.generation_id = group.epoch - 1
    classic.move_to(PREPARING, now_ms)
    classic.next_generation(now_ms)
    classic.move_to(STABLE, now_ms)
    assert classic.protocol_name is not None
    for member, target in with_targets:
        member.assignment = assignment_bytes(target, member.protocols[classic.protocol_name], catalog)
    return classic


def assignment_bytes(partitions: Mapping[bytes, Collection[int]], metadata: bytes, catalog: Catalog) -> bytes:
    """Partitions by topic id as an assignment of the classic protocol, in the version of a member's metadata. Topics
    that do not exist any more are left out."""
    named = {catalog.name_of(topic_id): each for topic_id, each in partitions.items() if each}
    return write_assignment({name: each for name, each in named.items() if name is not None}, metadata)


def _classic_member(member: Membership) -> Member:
    classic = member.classic
    assert classic is not None, "only members of the classic protocol are left"
    return Member(
        member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=classic.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=dict(classic.protocols),
    )
