"""The assignor `simple` of share groups (KIP-932): a partition may have several members.

Members that all subscribe to the same topics share all partitions; else the partitions of each topic are shared by its
subscribers. With at least as many partitions as members each partition has one member, and the numbers of two members
differ by one at most; else each partition has as many members as are needed for every member to have one. Members keep
what they have as far as that allows; as in Kafka, a partition may stay with fewer members than that, rather than that
members swap theirs.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from itertools import chain, groupby
from typing import NamedTuple

from .share_group import Partitions

Place = tuple[bytes, int]
"""A partition: topic id, and number."""


class Subscriber(NamedTuple):
    """A member, as the assignor sees it."""

    topic_ids: frozenset[bytes]
    present: Partitions
    """Its present target."""


def assign(
    members: Mapping[str, Subscriber], assignable: Partitions
) -> Generator[None, None, dict[str, dict[bytes, frozenset[int]]]]:
    """The targets of members, by member id, in short steps."""
    held: dict[str, list[Place]] = {member_id: [] for member_id in members}
    for member_ids, topic_ids in _pools(members):
        places = [
            (topic_id, number) for topic_id in sorted(topic_ids) for number in sorted(assignable.get(topic_id, ()))
        ]
        present = {
            member_id: {(id_, number) for id_ in topic_ids for number in members[member_id].present.get(id_, ())}
            for member_id in member_ids
        }
        shares = yield from _share_out(places, present)
        for member_id, share in shares.items():
            held[member_id] += share
    return {
        member_id: {
            topic_id: frozenset(number for _, number in each)
            for topic_id, each in groupby(sorted(places), key=lambda place: place[0])
        }
        for member_id, places in held.items()
    }


def _pools(members: Mapping[str, Subscriber]) -> list[tuple[list[str], Collection[bytes]]]:
    """Which members share the partitions of which topics."""
    subscriptions = {member.topic_ids for member in members.values()}
    if len(subscriptions) == 1:
        return [([*members], next(iter(subscriptions)))]
    topic_ids = sorted(set(chain.from_iterable(subscriptions)))
    return [([name for name, each in members.items() if one in each.topic_ids], (one,)) for one in topic_ids]


def _share_out(
    places: list[Place], present: Mapping[str, Collection[Place]]
) -> Generator[None, None, dict[str, set[Place]]]:
    """Share partitions among members; `present` is what each has now."""
    count, sharing = len(present), -(-len(present) // len(places)) if places else 0
    total = sharing * len(places)
    quotas = {
        member_id: -(-total * (number + 1) // count) + (-total * number // count)
        for number, member_id in enumerate(present)
    }
    takers: dict[Place, set[str]] = {place: set() for place in places}
    held: dict[str, set[Place]] = {member_id: set() for member_id in present}
    for member_id, had in present.items():  # what is kept
        for place in sorted(had):
            if place in takers and len(takers[place]) < sharing and len(held[member_id]) < quotas[member_id]:
                takers[place].add(member_id)
                held[member_id].add(place)
        yield
    hungry = [member_id for member_id in present if len(held[member_id]) < quotas[member_id]]
    for place, has in takers.items():
        while len(has) < sharing:
            taker = next((member_id for member_id in hungry if member_id not in has), None)
            if taker is None:
                break
            has.add(taker)
            held[taker].add(place)
            hungry.remove(taker)
            if len(held[taker]) < quotas[taker]:
                hungry.append(taker)
        yield
    return held
