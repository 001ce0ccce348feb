"""The target assignment of a whole group, computed by a server-side assignor (KIP-848)."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import NamedTuple

from ..modern.catalog import Catalog
from .assignors import ASSIGNORS, Subscriber
from .consumer_group import ConsumerGroup
from .members import Membership
from .state_changes import AssignmentEpoch, Change, TargetChange

Steps = Generator[None, None, "NewTarget"]


class NewTarget(NamedTuple):
    """A target assignment that was computed, as changes of the group."""

    changes: list[Change]
    of_member: Mapping[bytes, tuple[int, ...]]
    """The target of the member that the computation is for."""


def is_homogeneous(members: Mapping[str, Membership]) -> bool:
    """Whether all members subscribe to the same topics: to the same names, or all to one expression and to no names."""
    regexes = {member.topic_regex for member in members.values()}
    names = {frozenset(member.topic_names) for member in members.values()}
    if regexes <= {""}:
        return len(names) <= 1
    return len(regexes) == 1 and names <= {frozenset()}


def compute_target(
    group: ConsumerGroup,
    members: Mapping[str, Membership],
    replaced: Mapping[str, str],
    member_id: str,
    assignor: str,
    catalog: Catalog,
    now_ms: int,
    epoch: int,
) -> Steps:
    """Compute the target assignment of these members at this epoch, in short steps. `replaced` has the former ids of
    static members that came back with another id."""
    topic_ids: dict[tuple[tuple[str, ...], str], frozenset[bytes]] = {}
    subscribers: dict[str, Subscriber] = {}
    for each_id, member in members.items():
        topics = topic_ids.get(member.subscription)
        if topics is None:
            topics = topic_ids[member.subscription] = catalog.ids(group.topic_names_of(member))
            yield
        present = group.targets.get(replaced.get(each_id, each_id), {})
        subscribers[each_id] = Subscriber(member.instance_id, member.rack_id, topics, present)
    counts = {topic_id: catalog.partition_count(topic_id) for topics in topic_ids.values() for topic_id in topics}
    target = yield from ASSIGNORS[assignor](subscribers, counts, is_homogeneous(members))
    changes: list[Change] = [*_changed(group, target), AssignmentEpoch(epoch, now_ms)]
    return NewTarget(changes, target.get(member_id, {}))


def _changed(group: ConsumerGroup, target: Mapping[str, Mapping[bytes, tuple[int, ...]]]) -> Iterator[Change]:
    """The targets that differ. A static member that came back with another id has none yet, as in Kafka."""
    for member_id, partitions in target.items():
        present = group.targets.get(member_id)
        if present is None or _as_sets(present) != _as_sets(partitions):
            yield TargetChange(member_id, partitions)


def _as_sets(partitions: Mapping[bytes, object]) -> dict[bytes, frozenset[int]]:
    return {topic_id: frozenset(each) for topic_id, each in partitions.items() if each}  # type: ignore[call-overload]
