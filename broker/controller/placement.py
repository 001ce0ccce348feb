"""Which brokers get the replicas of a new partition: spread over racks first, then over the brokers of each (KIP-36).

Partition after partition the first replica moves on by one rack, and within its rack by one broker; the others follow
in the next racks. So leaders are spread evenly, and no rack gets a second replica while another has none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ...protocol.errors import InvalidPartitions, InvalidReplicationFactor


def check_replication(partitions: int, replication_factor: int, brokers: int) -> None:
    """Raise InvalidPartitions or InvalidReplicationFactor unless these brokers can have so many replicas."""
    if partitions < 1:
        raise InvalidPartitions(f"a topic has at least 1 partition, not {partitions}")
    if replication_factor < 1:
        raise InvalidReplicationFactor(f"a topic has at least 1 replica, not {replication_factor}")
    if replication_factor > brokers:
        raise InvalidReplicationFactor(f"{replication_factor} replicas need as many brokers; {brokers} registered")


def racks_of(brokers: Iterable[tuple[int, str | None]]) -> list[list[int]]:
    """Node ids by rack, given brokers with their racks; those without one are a rack of their own."""
    racks: dict[str, list[int]] = {}
    for node_id, rack in sorted(brokers, key=lambda broker: broker[0]):
        racks.setdefault(rack or "", []).append(node_id)
    return [racks[name] for name in sorted(racks)]


def place(racks: Sequence[Sequence[int]], turn: int, count: int, *, dead: Collection[int] = ()) -> tuple[int, ...]:
    """The replicas of the `turn`-th partition; the first one is on a live broker. In each rack live brokers come before
    `dead` ones. There must be `count` brokers, and a live one."""
    ordered = [_from(rack, turn // len(racks), dead) for rack in racks]
    while ordered[turn % len(racks)][0] in dead:
        turn += 1
    replicas: list[int] = []
    depth = 0
    while len(replicas) < count:
        for step in range(len(racks)):
            rack = ordered[(turn + step) % len(racks)]
            if depth < len(rack) and len(replicas) < count:
                replicas.append(rack[depth])
        depth += 1
    return tuple(replicas)


def _from(rack: Sequence[int], turn: int, dead: Collection[int]) -> list[int]:
    """The brokers of a rack in the order in which they get replicas."""
    live = [node_id for node_id in rack if node_id not in dead]
    first = turn % len(live) if live else 0
    return [*live[first:], *live[:first], *(node_id for node_id in rack if node_id in dead)]
