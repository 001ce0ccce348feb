"""`range`: each member gets neighbouring partitions of each topic.

Members are ordered: static ones by their instance ids, then the others by their member ids. For each topic its
subscribers, in this order, get equal shares, the first ones one partition more if the shares are not even. So members
with equal subscriptions get the same partitions of topics with equal numbers of partitions. What a member had before
does not count.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

from .subscribers import STEP, Subscriber, Target


def assign_ranges(
    members: Mapping[str, Subscriber], partition_counts: Mapping[bytes, int], is_homogeneous: bool
) -> Generator[None, None, Target]:
    """Compute the target assignment."""
    ordered = sorted(members, key=lambda member_id: _rank(member_id, members[member_id]))
    target: Target = {member_id: {} for member_id in members}
    yield
    for topic_id, count in partition_counts.items():
        if is_homogeneous:
            subscribers = ordered if ordered and topic_id in members[ordered[0]].topics else []
        else:
            subscribers = [member_id for member_id in ordered if topic_id in members[member_id].topics]
        if not subscribers:
            continue
        share, rest = divmod(count, len(subscribers))
        first = 0
        for position, member_id in enumerate(subscribers):
            last = first + share + (position < rest)
            if first < last:
                target[member_id][topic_id] = tuple(range(first, last))
            first = last
            if position % STEP == STEP - 1:
                yield
        yield
    return target


def _rank(member_id: str, subscriber: Subscriber) -> tuple[bool, str]:
    instance_id = subscriber.instance_id
    return (True, member_id) if instance_id is None else (False, instance_id)
